"""All cases, by subject."""

from cases import files, kernel, metadata, network, people, processes, terminals


def all_cases():
    for module in (files, metadata, network, processes, terminals, kernel, people):
        yield from module.cases()

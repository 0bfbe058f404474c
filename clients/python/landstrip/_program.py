"""Where the launcher is: where the wheel put it, or where the caller says. PATH, which a command may have changed for
later ones, is never asked."""

import importlib.metadata
import os
from typing import Iterator, Optional


def _candidates() -> Iterator[str]:
    # Not by sys.path, which can begin with the working directory.
    place = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    for distribution in importlib.metadata.distributions(name="landstrip", path=[place]):
        for file in distribution.files or ():
            if file.parts[-2:] == ("bin", "landstrip"):
                yield os.fspath(file.locate())
    # By `pip install --target`, which moves everything once the record is written.
    yield os.path.join(place, "bin", "landstrip")


def program() -> str:
    """The path of the launcher that the wheel holds."""
    for candidate in _candidates():
        path = os.path.abspath(candidate)
        broker = os.path.join(os.path.dirname(os.path.dirname(path)), "libexec", "landstrip", "landstrip-broker")
        if os.access(path, os.X_OK) and os.access(broker, os.X_OK):
            return path
    raise FileNotFoundError("this package holds no programs: install a wheel for this architecture, or name the launcher by program=")


def found(named: Optional[str]) -> str:
    """The launcher, or the one that ``named`` is the path of."""
    if named is None:
        return program()
    if not os.path.isabs(named):
        raise ValueError(f"program is not an absolute path: {named}")
    return named

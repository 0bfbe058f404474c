"""Options, and the words and descriptors that they become. A misspelt key of a policy is an error of landstrip's, which
knows the keys; nothing runs then."""

import contextlib
import fcntl
import inspect
import json
import os
from typing import Iterable, Iterator, List, Literal, Mapping, NamedTuple, Optional, Sequence, Tuple, Union, cast

from ._program import found
from .policy import Policy

#: A command, as its words; for a shell: ``["sh", "-c", "..."]``.
Command = Sequence[Union[str, "os.PathLike[str]"]]

_One = Union[str, "os.PathLike[str]", Policy]
#: A preset, the path of a policy file, a policy, or several to merge in order. None: as on the command line.
Policies = Union[_One, Sequence[_One], None]

#: Which denials are reported: option --report of landstrip(1).
Report = Literal["all", "changes", "network", "none"]

#: As long as poll(2) waits, of which the unit is a millisecond: 24 days.
TIMEOUT_MAX = 0x7FFFFFFF // 1000

REPORTS = ("all", "changes", "network", "none")


def words(command: Command) -> List[str]:
    """The words of a command."""
    if isinstance(command, (str, bytes)):
        raise TypeError("a command is a sequence of words, not a string")
    given = [os.fspath(word) for word in command]
    if not given:
        raise ValueError("a command has at least one word, its program")
    if not all(isinstance(word, str) for word in given):
        raise TypeError("the words of a command are strings")
    return given


def check_limits(timeout: Optional[float], **functions: object) -> None:
    """What would be found wrong when the command runs already."""
    if timeout is not None and not (isinstance(timeout, (int, float)) and 0 <= timeout <= TIMEOUT_MAX):
        raise TypeError(f"timeout is a number of seconds up to {TIMEOUT_MAX}, not {timeout!r}")
    for name, function in functions.items():
        if function is not None and not callable(function):
            raise TypeError(f"{name} is a function, not {function!r}")
    if inspect.iscoroutinefunction(functions.get("on_denial")):
        raise TypeError("on_denial is called, and nothing awaits what it returns: give a plain function")


def _listed(policy: Policies) -> List[Union[str, Policy]]:
    """Each policy, a path as it is on the command line."""
    if policy is None:
        return []
    listed: List[Union[str, Policy]] = []
    are_several = isinstance(policy, Iterable) and not isinstance(policy, (str, os.PathLike, Mapping))
    for one in cast(Iterable[_One], policy if are_several else [policy]):
        if isinstance(one, os.PathLike):
            path = os.fspath(one)
            # A word without a slash is a preset.
            listed.append(path if "/" in path else f"./{path}")
        elif isinstance(one, Mapping) or (isinstance(one, str) and one):
            listed.append(one)
        else:
            raise TypeError(f"a policy is a preset, a path or a dictionary, not {one!r}")
    return listed


def _text(policy: Policy) -> str:
    return json.dumps(policy, ensure_ascii=False, separators=(",", ":"))


def _reported(report: Optional[str]) -> List[str]:
    if report is None:
        return []
    if report not in REPORTS:
        raise ValueError(f"report is one of {', '.join(REPORTS)}, not {report!r}")
    return ["--report", report]


def beyond_streams(descriptor: int) -> int:
    """The same at a number that is no standard stream's: where this process has none of these, new descriptors get theirs."""
    if descriptor > 2:
        return descriptor
    try:
        return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 3)
    finally:
        os.close(descriptor)


def _sealed(text: str) -> int:
    """A descriptor that ``text`` is read from, by which nobody can rewrite it."""
    descriptor = beyond_streams(os.memfd_create("policy", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING))
    try:
        with open(descriptor, "wb", closefd=False) as file:
            file.write(text.encode())
        os.lseek(descriptor, 0, os.SEEK_SET)
        # As the file of a policy should be; it begins with all that there is.
        os.fchmod(descriptor, 0o400)
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _named(text: str) -> str:
    """A preset, data, or a path, from the working directory of this process: from that of the command, which may be a work
    tree that others made, a policy is not taken."""
    is_path = ("/" in text or "." in text) and not text.startswith("{")
    return os.path.join(os.getcwd(), text) if is_path and not os.path.isabs(text) else text


class Launch(NamedTuple):
    """The launcher, its options, and the descriptors that it needs to have."""

    launcher: str
    options: List[str]
    descriptors: Tuple[int, ...]


@contextlib.contextmanager
def launch(policy: Policies, report: Optional[str], program: Optional[str]) -> Iterator[Launch]:
    """What starts landstrip. Policies that are data are read from descriptors, closed at the end: a file would have a
    name by which another sandbox could rewrite it."""
    launcher = found(program)
    options = _reported(report)
    with contextlib.ExitStack() as opened:
        descriptors: List[int] = []
        for one in _listed(policy):
            if isinstance(one, str):
                one = _named(one)
            else:
                descriptor = _sealed(_text(one))
                opened.callback(os.close, descriptor)
                descriptors.append(descriptor)
                one = f"/dev/fd/{descriptor}"
            options += ["--policy", one]
        yield Launch(launcher, options, tuple(descriptors))


def wrap(
    command: Command,
    *,
    policy: Policies = None,
    report: Optional[Report] = None,
    program: Optional[str] = None,
    trap_fd: Optional[int] = None,
) -> List[str]:
    """The words by which a program of your own starts the command in a sandbox. Policies that are dictionaries stand in
    them, to be seen by other users of the host."""
    options: List[str] = []
    if trap_fd is not None:
        if not isinstance(trap_fd, int) or trap_fd < 3:
            raise ValueError("trap_fd is a descriptor of 3 or higher")
        options += ["--trap-fd", str(trap_fd)]
    options += _reported(report)
    for one in _listed(policy):
        options += ["--policy", one if isinstance(one, str) else _text(one)]
    return [found(program), *options, "--", *words(command)]

"""What landstrip writes to the descriptor of --trap-fd, as it is made into a result: landstrip(1), REPORTS."""

import collections
import dataclasses
import json
import time
from typing import Any, Callable, Deque, Dict, List, Optional, Set

#: How many denials a result holds.
DENIALS_MAX = 4096

#: How many wait to be told, at most.
UNTOLD_MAX = 1 << 16

#: How long denials are told before more is read, in seconds.
MOMENT = 0.01


@dataclasses.dataclass(frozen=True)
class Denial:
    """What was refused."""

    #: "filesystem" or "network".
    kind: str
    operation: str
    #: A path, or a host or address with its port.
    target: str
    mechanism: str


@dataclasses.dataclass(frozen=True)
class Rule:
    """A rule as a policy would have it: ``Rule("filesystem.allowWrite", "~/.npm")``."""

    key: str
    value: str


@dataclasses.dataclass(frozen=True)
class Origin(Rule):
    """A rule that refused, and where it stands: a file or a preset, and the line."""

    file: str
    line: int


@dataclasses.dataclass(frozen=True)
class Failure:
    """Why landstrip gave up."""

    message: str
    #: The part of it: usage, policy, launch, platform, ...
    source: Optional[str] = None
    file: Optional[str] = None
    line: Optional[str] = None
    field: Optional[str] = None


@dataclasses.dataclass
class Result:
    """What became of a command. Nothing of it ran until landstrip says so."""

    #: The command's own, 128+N after signal N, or landstrip's: 2, 125, 126, 127.
    status: int = 125
    #: Whose status it is: "tool", or "landstrip" if nothing of the command ran or it had to be ended.
    ended_by: str = "landstrip"
    error: Optional[Failure] = None
    #: The limit that ended the command, if one did: a key of the policy, or "deadline", that of the option ``timeout``.
    limit: Optional[str] = None
    #: What was refused, in its order, nothing twice.
    denials: List[Denial] = dataclasses.field(default_factory=list)
    #: Rules that would have let some of it through, where that is known to be harmless.
    advice: List[Rule] = dataclasses.field(default_factory=list)
    #: Rules that refused some of it.
    denied_by: List[Origin] = dataclasses.field(default_factory=list)


def shown(report: Dict[str, Any]) -> Denial:
    """The denial that a report is of; of a kind that is not known here, there is as much to show."""
    [(kind, words)] = report.items()
    operation, target, mechanism = [*words, "", "", ""][:3]
    return Denial(kind.lower(), operation, target, mechanism)


def failure(report: Dict[str, Any]) -> Optional[Failure]:
    """The failure of landstrip's own that a report is of, if it is one."""
    if "Usage" in report:
        return Failure(report["Usage"], "usage")
    if "Launch" in report:
        return Failure(": ".join(report["Launch"]), "launch")
    if "Internal" in report:
        given: Dict[str, str] = report["Internal"]
        return Failure(given.get("message", ""), given.get("source"), given.get("file"), given.get("line"), given.get("field"))
    return None


class Collector:
    """Puts reports, as they come in pieces, into a result, and hands over each denial, but not before the next piece can
    be read: landstrip leaves out what is not read in time."""

    def __init__(self, on_denial: Optional[Callable[[Denial], None]]) -> None:
        self.result = Result()
        self._on_denial = on_denial
        self._known: Set[Denial] = set()
        self._untold: Deque[Denial] = collections.deque()
        self._rest = b""

    def is_behind(self) -> bool:
        """Whether there are denials to be told."""
        return bool(self._untold)

    def tell(self) -> None:
        """Tells ``on_denial`` of denials for a moment, or as long as it takes for one."""
        until = time.monotonic() + MOMENT
        while self._on_denial is not None and self._untold:
            self._on_denial(self._untold.popleft())
            if time.monotonic() >= until:
                break

    def feed(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._collect(json.loads(line.decode("utf-8", "replace")))

    def _collect(self, report: Dict[str, Any]) -> None:
        result = self.result
        for kind in ("Filesystem", "Network"):
            if kind in report:
                denial = Denial(kind.lower(), *report[kind])
                if denial not in self._known and len(self._known) < DENIALS_MAX:
                    self._known.add(denial)
                    result.denials.append(denial)
                if self._on_denial is not None and len(self._untold) < UNTOLD_MAX:
                    self._untold.append(denial)
                return
        if "Exit" in report:
            result.ended_by = report["Exit"][0]
        elif "Advice" in report:
            result.advice.append(Rule(*report["Advice"]))
        elif "DeniedBy" in report:
            key, value, file, line = report["DeniedBy"]
            result.denied_by.append(Origin(key, value, file, int(line)))
        else:
            result.error = failure(report) or result.error
            result.limit = report.get("Internal", {}).get("limit", result.limit)

"""What landstrip says of a policy without running anything, and what a command would need."""

import dataclasses
import datetime
import json
import os
import subprocess
from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

from ._invocation import Command, Policies, launch
from ._reports import Denial, Failure, Rule, failure, shown
from ._run import Completed, Environment, finish, start

Directory = Union[str, "os.PathLike[str]", None]


@dataclasses.dataclass(frozen=True)
class Answer:
    """Whether a policy is right and can be enforced, and what there is to say of it."""

    ok: bool
    error: Optional[Failure]
    remarks: List[str]


def _asked(policy: Policies, program: Optional[str], cwd: Directory, env: Optional[Environment], words: Sequence[str]) -> Tuple[str, Optional[Failure]]:
    with launch(policy, None, program) as (launcher, options, descriptors):
        said = subprocess.run(
            [launcher, *options, *words], stdin=subprocess.DEVNULL, capture_output=True, cwd=cwd, env=env, pass_fds=descriptors
        )
    stderr = said.stderr.decode("utf-8", "replace")
    error = None
    if said.returncode != 0:
        reports = [line for line in stderr.splitlines() if line.startswith("{")]
        error = (failure(json.loads(reports[0])) if reports else None) or Failure(stderr.strip())
    return said.stdout.decode("utf-8", "replace"), error


def check(*, policy: Policies = None, program: Optional[str] = None, cwd: Directory = None, env: Optional[Environment] = None) -> Answer:
    """Whether the policy is right and can be enforced, what is wrong with it, and what there is to say of it."""
    text, error = _asked(policy, program, cwd, env, ["--check"])
    # By the last line it says that all is well.
    return Answer(error is None, error, [] if error else text.splitlines()[:-1])


def explain(
    questions: Sequence[str] = (), *, policy: Policies = None, program: Optional[str] = None, cwd: Directory = None, env: Optional[Environment] = None
) -> Any:
    """What would be enforced, or which rule decides about each path, host:port or socket: landstrip(1), --explain=json."""
    text, error = _asked(policy, program, cwd, env, ["--explain=json", "--", *questions])
    if error is not None:
        raise ValueError(error.message)
    return json.loads(text)


@dataclasses.dataclass(frozen=True)
class Kept:
    """A denial of a run whose policy has ``report.keep``."""

    time: datetime.datetime
    program: str
    #: The working directory of the run.
    directory: str
    denial: Denial
    #: Rules that would have let it through, where that is known to be harmless.
    advice: List[Rule]


def denials(since: Optional[str] = None, *, program: Optional[str] = None, cwd: Directory = None, env: Optional[Environment] = None) -> List[Kept]:
    """What runs of this user were refused, oldest first: of the last days (``7d``), or since a day (``2026-11-01``), if
    ``since`` says so."""
    text, error = _asked(None, program, cwd, env, ["--denials=json", *([] if since is None else [since])])
    if error is not None:
        raise ValueError(error.message)
    return [_kept(json.loads(line)) for line in text.splitlines()]


def _kept(entry: Dict[str, Any]) -> Kept:
    time = datetime.datetime.fromtimestamp(entry["time"], datetime.timezone.utc)
    return Kept(time, entry["program"], entry["directory"], shown(entry["report"]), [Rule(*rule) for rule in entry["advice"]])


@dataclasses.dataclass(frozen=True)
class Learnt:
    """What became of a command that ran to be learned from: the policy that it needs is ``text``, in ``file``. None if
    landstrip wrote none, as where the file exists: it is never overwritten."""

    result: "Completed[Any]"
    file: str
    text: Optional[str]


def learnt(result: "Completed[Any]", file: Union[str, "os.PathLike[str]"], cwd: Directory) -> Learnt:
    """What a run left in ``file``."""
    written = os.path.abspath(os.path.join(cwd or ".", file))
    text = None
    # Otherwise nothing was written, and what is there was there before.
    if result.error is None and result.ended_by == "tool":
        with open(written, encoding="utf-8") as policy:
            text = policy.read()
    return Learnt(result, written, text)


def learn(
    command: Command,
    file: Union[str, "os.PathLike[str]"],
    *,
    policy: Policies = None,
    program: Optional[str] = None,
    cwd: Directory = None,
    env: Optional[Environment] = None,
    timeout: Optional[float] = None,
) -> Learnt:
    """Runs a command with everything permitted that no rule denies, and writes the policy that it needs to a new file,
    .yaml or .json. It adds to the policy of the run, which is a preset or a file then."""
    process = start(command, policy, None, program, cwd, env, (None, None, None), timeout, None, None, ["--learn", os.fspath(file)])
    return learnt(finish(process, None, False), file, cwd)

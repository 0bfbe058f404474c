"""Starts commands under landstrip and tells what became of them. Streams are given as to ``subprocess``."""

import contextlib
import dataclasses
import os
import select
import socket
import subprocess
import threading
import time
from types import TracebackType
from typing import IO, Any, AnyStr, Callable, Generic, Iterator, List, Literal, Mapping, NamedTuple, Optional, Sequence, Tuple, Type, Union, overload

from ._asking import Asking, Granted, OnAsk
from ._invocation import Command, Policies, Report, beyond_streams, check_limits, launch, words
from ._reports import Collector, Denial, Result

#: How long a command that was asked to end may take before it is killed, in seconds.
GRACE = 2.0

#: A stream of the command: None is this process's own.
Stream = Union[None, int, IO[Any]]

Environment = Mapping[str, str]


def ended(result: Result, code: int) -> Result:
    """The result with the status that ``code``, of ``subprocess``, stands for."""
    result.status = code if code >= 0 else 128 - code
    return result


class Process:
    """A command that was started."""

    def __init__(
        self,
        popen: "subprocess.Popen[bytes]",
        receiver: IO[bytes],
        collector: Collector,
        timeout: Optional[float],
        channel: Optional[socket.socket],
        on_ask: Optional[OnAsk],
    ) -> None:
        self._popen = popen
        self._collector = collector
        self._failed: Optional[BaseException] = None
        # When the command is asked to end, and when it is killed.
        self._deadline = None if timeout is None else time.monotonic() + timeout
        self._late: Optional[float] = None
        self._thread = threading.Thread(target=self._supervise, args=(receiver,), daemon=True)
        self._thread.start()
        self._asking = None if channel is None or on_ask is None else Asking(channel, on_ask, self._fail)

    @property
    def pid(self) -> int:
        return self._popen.pid

    @property
    def stdin(self) -> Optional[IO[bytes]]:
        return self._popen.stdin

    @property
    def stdout(self) -> Optional[IO[bytes]]:
        return self._popen.stdout

    @property
    def stderr(self) -> Optional[IO[bytes]]:
        return self._popen.stderr

    def send_signal(self, number: int) -> None:
        """Sends a signal to landstrip, which hands it on to the command."""
        self._popen.send_signal(number)

    def kill(self) -> None:
        """Kills landstrip, with which all ends that the command started."""
        self._popen.kill()

    def end(self) -> None:
        """Asks the command to end, kills it two seconds later, and returns when it has ended."""
        self._popen.terminate()
        try:
            self._thread.join(GRACE)
        finally:
            # Also where a second Ctrl-C ends the waiting: nobody may come back for it.
            if self._thread.is_alive():
                self._popen.kill()
        self._thread.join()

    def grant(self, key: str, value: str) -> Granted:
        """With ``on_ask``: adds a rule for the rest of the run."""
        if self._asking is None:
            raise ValueError("rules are granted in runs that have on_ask")
        return self._asking.grant(key, value)

    def wait(self, timeout: Optional[float] = None) -> Result:
        """What became of the command, once it has ended with all that it started; ``subprocess.TimeoutExpired`` if that
        takes longer. What ``on_denial`` or ``on_ask`` raised is
        raised here."""
        self._thread.join(timeout)
        if self._thread.is_alive():
            raise subprocess.TimeoutExpired(self._popen.args, timeout or 0.0)
        if self._failed is not None:
            raise self._failed
        return ended(self._collector.result, self._popen.wait())

    def __enter__(self) -> "Process":
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        self.end()
        for stream in (self.stdin, self.stdout, self.stderr):
            if stream is not None:
                # A command that does not read it all is no failure.
                with contextlib.suppress(BrokenPipeError):
                    stream.close()

    def _supervise(self, receiver: IO[bytes]) -> None:
        with receiver as pipe:
            poll = select.poll()
            poll.register(pipe, select.POLLIN)
            is_open = True
            while is_open or self._is_behind():
                left = self._left() if is_open else None
                if left == 0:
                    self._overdue()
                    continue
                data = b""
                if is_open and poll.poll(0 if self._is_behind() else None if left is None else left * 1000 + 1):
                    data = pipe.read(65536)
                    is_open = bool(data)
                self._hear(data)
        while True:
            try:
                self._popen.wait(self._left())
                return
            except subprocess.TimeoutExpired:
                self._overdue()

    def _is_behind(self) -> bool:
        return self._failed is None and self._collector.is_behind()

    def _hear(self, data: bytes) -> None:
        if self._failed is not None:
            return
        try:
            self._collector.feed(data)
            self._collector.tell()
        except BaseException as error:  # the caller's own: nobody hears of denials any more
            self._failed = error
            self._ask_to_end()

    def _fail(self, error: BaseException) -> None:
        self._failed = self._failed or error
        self.end()

    def _left(self) -> Optional[float]:
        due = self._deadline if self._late is None else self._late
        return None if due is None else max(0.0, due - time.monotonic())

    def _overdue(self) -> None:
        if self._late is None:
            self._collector.result.limit = "deadline"
            self._ask_to_end()
        elif time.monotonic() >= self._late:
            self._popen.kill()
            self._late, self._deadline = None, None

    def _ask_to_end(self) -> None:
        self._popen.terminate()
        self._late = time.monotonic() + GRACE


class Channels(NamedTuple):
    """By what landstrip reports and asks: this process's ends, its options, and its own ends."""

    receiver: IO[bytes]
    asking: Optional[socket.socket]
    options: List[str]
    descriptors: Tuple[int, ...]


@contextlib.contextmanager
def channels(is_asked: bool) -> Iterator[Channels]:
    """Landstrip's ends are closed at the end of the block, those of this process where it fails."""
    with contextlib.ExitStack() as ours, contextlib.ExitStack() as theirs:
        reading, trap = os.pipe()
        receiver = ours.enter_context(open(reading, "rb", buffering=0))
        trap = beyond_streams(trap)
        theirs.callback(os.close, trap)
        if is_asked:
            asking, asker = socket.socketpair()
            ours.enter_context(asking)
            number = beyond_streams(asker.detach())
            theirs.callback(os.close, number)
            yield Channels(receiver, asking, ["--trap-fd", str(trap), "--ask", str(number)], (trap, number))
        else:
            yield Channels(receiver, None, ["--trap-fd", str(trap)], (trap,))
        ours.pop_all()


def start(
    command: Command,
    policy: Policies,
    report: Optional[Report],
    program: Optional[str],
    cwd: Union[str, "os.PathLike[str]", None],
    env: Optional[Environment],
    streams: Sequence[Stream],
    timeout: Optional[float],
    on_denial: Optional[Callable[[Denial], None]],
    on_ask: Optional[OnAsk],
    more: Sequence[str] = (),
) -> Process:
    """Starts a command, by ``more`` options of landstrip's own."""
    given = words(command)
    check_limits(timeout, on_denial=on_denial, on_ask=on_ask)
    with launch(policy, report, program) as (launcher, options, descriptors), channels(on_ask is not None) as (receiver, asking, told, own):
        popen = subprocess.Popen(
            [launcher, *told, *more, *options, "--", *given],
            stdin=streams[0],
            stdout=streams[1],
            stderr=streams[2],
            cwd=cwd,
            env=env,
            pass_fds=(*own, *descriptors),
        )
    return Process(popen, receiver, Collector(on_denial), timeout, asking, on_ask)


def spawn(
    command: Command,
    *,
    policy: Policies = None,
    report: Optional[Report] = None,
    program: Optional[str] = None,
    cwd: Union[str, "os.PathLike[str]", None] = None,
    env: Optional[Environment] = None,
    stdin: Stream = None,
    stdout: Stream = None,
    stderr: Stream = None,
    timeout: Optional[float] = None,
    on_denial: Optional[Callable[[Denial], None]] = None,
    on_ask: Optional[OnAsk] = None,
) -> Process:
    """Starts a command in a sandbox. Its pipes are of bytes; ``text`` is an option of ``run``. ``timeout`` ends it after so many seconds: it is asked to end, and killed two
    seconds later. ``on_denial`` is told of each denial at once, in a thread of its own; what it raises ends the command.
    ``on_ask`` is asked before what no rule allows is refused, while the call of the command waits, a minute at most: in a
    thread of its own, one question at a time; what it raises ends the command.
    As a context manager the process ends, with all that it started, where the block is left."""
    return start(command, policy, report, program, cwd, env, (stdin, stdout, stderr), timeout, on_denial, on_ask)


@dataclasses.dataclass
class Completed(Result, Generic[AnyStr]):
    """A result with the output, where ``capture_output`` collected it."""

    stdout: Optional[AnyStr] = None
    stderr: Optional[AnyStr] = None


def completed(result: Result, stdout: Optional[bytes], stderr: Optional[bytes], text: bool) -> "Completed[Any]":
    """A result with output; as strings if ``text``."""
    given: List[Any] = [one.decode("utf-8", "replace") if text and one is not None else one for one in (stdout, stderr)]
    fields = {field.name: getattr(result, field.name) for field in dataclasses.fields(Result)}
    return Completed(**fields, stdout=given[0], stderr=given[1])


def given_input(input: Union[str, bytes, None], stdin: Stream, capture_output: bool, stdout: Stream, stderr: Stream) -> List[Stream]:
    """The streams of a command whose input is written and whose output is collected."""
    if input is not None:
        if stdin is not None:
            raise ValueError("stdin and input are two ways to say the same: give one")
        stdin = subprocess.PIPE
    if capture_output:
        if stdout is not None or stderr is not None:
            raise ValueError("capture_output collects stdout and stderr: do not give them as well")
        stdout = stderr = subprocess.PIPE
    return [stdin, stdout, stderr]


def as_bytes(input: Union[str, bytes, None]) -> Optional[bytes]:
    return input.encode() if isinstance(input, str) else input


@overload
def run(
    command: Command,
    *,
    text: Literal[True],
    policy: Policies = None,
    report: Optional[Report] = None,
    program: Optional[str] = None,
    cwd: Union[str, "os.PathLike[str]", None] = None,
    env: Optional[Environment] = None,
    stdin: Stream = None,
    stdout: Stream = None,
    stderr: Stream = None,
    input: Union[str, bytes, None] = None,
    capture_output: bool = False,
    timeout: Optional[float] = None,
    on_denial: Optional[Callable[[Denial], None]] = None,
    on_ask: Optional[OnAsk] = None,
) -> Completed[str]: ...


@overload
def run(
    command: Command,
    *,
    text: Literal[False] = False,
    policy: Policies = None,
    report: Optional[Report] = None,
    program: Optional[str] = None,
    cwd: Union[str, "os.PathLike[str]", None] = None,
    env: Optional[Environment] = None,
    stdin: Stream = None,
    stdout: Stream = None,
    stderr: Stream = None,
    input: Union[str, bytes, None] = None,
    capture_output: bool = False,
    timeout: Optional[float] = None,
    on_denial: Optional[Callable[[Denial], None]] = None,
    on_ask: Optional[OnAsk] = None,
) -> Completed[bytes]: ...


def run(
    command: Command,
    *,
    text: bool = False,
    policy: Policies = None,
    report: Optional[Report] = None,
    program: Optional[str] = None,
    cwd: Union[str, "os.PathLike[str]", None] = None,
    env: Optional[Environment] = None,
    stdin: Stream = None,
    stdout: Stream = None,
    stderr: Stream = None,
    input: Union[str, bytes, None] = None,
    capture_output: bool = False,
    timeout: Optional[float] = None,
    on_denial: Optional[Callable[[Denial], None]] = None,
    on_ask: Optional[OnAsk] = None,
) -> "Completed[Any]":
    """Runs a command in a sandbox until it has ended, and collects its output if ``capture_output``: as bytes, or as
    strings if ``text``. ``input`` is written to its standard input. The rest is as for ``spawn``."""
    streams = given_input(input, stdin, capture_output, stdout, stderr)
    process = start(command, policy, report, program, cwd, env, streams, timeout, on_denial, on_ask)
    return finish(process, input, text)


def finish(process: Process, input: Union[str, bytes, None], text: bool) -> "Completed[Any]":
    """Writes the input, collects the output, and waits. Where that is interrupted, the command ends first."""
    with process:
        stdout, stderr = process._popen.communicate(as_bytes(input))
        return completed(process.wait(), stdout, stderr, text)

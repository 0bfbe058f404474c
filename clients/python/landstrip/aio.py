"""The functions of ``landstrip`` for asyncio: the same names, options and results. A task that is cancelled while it runs
a command ends it, with all that it started, before it is."""

import asyncio
import contextlib
import os
import signal
from types import TracebackType
from typing import Any, Callable, List, Literal, Optional, Sequence, Type, Union, overload

from . import _questions
from ._asking import AsyncAsking, Granted, OnAskAsync
from ._invocation import Command, Policies, Report, check_limits, launch, words, wrap
from ._program import program
from ._questions import Answer, Directory, Kept, Learnt
from ._reports import Collector, Denial, Result
from ._run import GRACE, Completed, Environment, Stream, as_bytes, channels, completed, ended, given_input

__all__ = ["Process", "check", "denials", "explain", "learn", "program", "run", "spawn", "wrap"]


class _Receiver(asyncio.Protocol):
    """Hears of denials. What the caller's own function raises ends the command."""

    def __init__(self, collector: Collector) -> None:
        self.collector = collector
        self.failed: Optional[BaseException] = None
        self.process: Optional["Process"] = None
        self._next: Optional[asyncio.Handle] = None
        self._is_lost = False
        self.closed: "asyncio.Future[None]" = asyncio.get_running_loop().create_future()

    def data_received(self, data: bytes) -> None:
        """Tells some of what is heard, and goes on when the loop has looked for more to read; at the end all is told."""
        if self._next is not None:
            self._next.cancel()
            self._next = None
        if self.failed is None:
            try:
                self.collector.feed(data)
                self.collector.tell()
            except BaseException as error:
                self.fail(error)
        if self.failed is None and self.collector.is_behind():
            self._next = asyncio.get_running_loop().call_soon(self.data_received, b"")
        elif self._is_lost and not self.closed.done():
            self.closed.set_result(None)

    def fail(self, error: BaseException) -> None:
        self.failed = self.failed or error
        if self.process is not None:
            self.process._ask_to_end()

    def connection_lost(self, exc: Optional[Exception]) -> None:
        self._is_lost = True
        self.data_received(b"")


class Process:
    """A command that was started."""

    def __init__(self, process: asyncio.subprocess.Process, receiver: _Receiver, timeout: Optional[float], asking: Optional[AsyncAsking]) -> None:
        self._process = process
        self._receiver = receiver
        self._asking = asking
        self._timer: Optional[asyncio.TimerHandle] = None
        receiver.process = self
        if receiver.failed is not None:
            self._ask_to_end()
        elif timeout is not None:
            self._timer = asyncio.get_running_loop().call_later(timeout, self._overdue)
        receiver.closed.add_done_callback(self._closed)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def stdin(self) -> Optional[asyncio.StreamWriter]:
        return self._process.stdin

    @property
    def stdout(self) -> Optional[asyncio.StreamReader]:
        return self._process.stdout

    @property
    def stderr(self) -> Optional[asyncio.StreamReader]:
        return self._process.stderr

    def send_signal(self, number: int) -> None:
        """Sends a signal to landstrip, which hands it on to the command."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)

    def kill(self) -> None:
        """Kills landstrip, with which all ends that the command started."""
        self.send_signal(signal.SIGKILL)

    async def end(self) -> None:
        """Asks the command to end, kills it two seconds later, and returns when it has ended."""
        self._ask_to_end()
        try:
            await self._gone()
        except BaseException:
            # Cancelled once more: the loop may not last until the command would be killed.
            self.kill()
            raise

    async def grant(self, key: str, value: str) -> Granted:
        """With ``on_ask``: adds a rule for the rest of the run."""
        if self._asking is None:
            raise ValueError("rules are granted in runs that have on_ask")
        return await self._asking.grant(key, value)

    async def wait(self) -> Result:
        """What became of the command, once it has ended with all that it started. What ``on_denial`` or ``on_ask``
        raised is raised here."""
        code = await self._gone()
        if self._receiver.failed is not None:
            raise self._receiver.failed
        return ended(self._receiver.collector.result, code)

    async def __aenter__(self) -> "Process":
        return self

    async def __aexit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        await self.end()

    async def _gone(self) -> int:
        code = await self._process.wait()
        # Not the future itself, which another waiter may be waiting for.
        await asyncio.shield(self._receiver.closed)
        if self._asking is not None:
            await asyncio.shield(self._asking.closed)
        return code

    def _closed(self, _: "asyncio.Future[None]") -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _overdue(self) -> None:
        if self._process.returncode is None:
            self._receiver.collector.result.limit = "deadline"
            self._ask_to_end()

    def _ask_to_end(self) -> None:
        if self._process.returncode is not None or self._receiver.closed.done():
            return
        if self._timer is not None:
            self._timer.cancel()
        self.send_signal(signal.SIGTERM)
        self._timer = asyncio.get_running_loop().call_later(GRACE, self.kill)


async def _start(
    command: Command,
    policy: Policies,
    report: Optional[Report],
    program: Optional[str],
    cwd: Directory,
    env: Optional[Environment],
    streams: Sequence[Stream],
    timeout: Optional[float],
    on_denial: Optional[Callable[[Denial], None]],
    on_ask: Optional[OnAskAsync],
    more: Sequence[str] = (),
) -> Process:
    given = words(command)
    check_limits(timeout, on_denial=on_denial, on_ask=on_ask)
    receiver = _Receiver(Collector(on_denial))
    asking: Optional[AsyncAsking] = None
    loop = asyncio.get_running_loop()
    with launch(policy, report, program) as (launcher, options, descriptors), channels(on_ask is not None) as (reading, channel, told, own):
        transports: List[asyncio.BaseTransport] = []
        try:
            transports.append((await loop.connect_read_pipe(lambda: receiver, reading))[0])
            if on_ask is not None and channel is not None:
                attending = asking = AsyncAsking(on_ask, receiver.fail)
                channel.setblocking(False)
                transports.append((await loop.create_unix_connection(lambda: attending, sock=channel))[0])
            process = await asyncio.create_subprocess_exec(
                launcher,
                *(*told, *more, *options, "--", *given),
                stdin=streams[0],
                stdout=streams[1],
                stderr=streams[2],
                cwd=cwd,
                env=env,
                pass_fds=(*own, *descriptors),
            )
        except BaseException:
            for transport in transports:
                transport.close()
            raise
    return Process(process, receiver, timeout, asking)


async def spawn(
    command: Command,
    *,
    policy: Policies = None,
    report: Optional[Report] = None,
    program: Optional[str] = None,
    cwd: Directory = None,
    env: Optional[Environment] = None,
    stdin: Stream = None,
    stdout: Stream = None,
    stderr: Stream = None,
    timeout: Optional[float] = None,
    on_denial: Optional[Callable[[Denial], None]] = None,
    on_ask: Optional[OnAskAsync] = None,
) -> Process:
    """Starts a command in a sandbox, as ``landstrip.spawn`` does; ``on_denial`` is called in the event loop,
    and so is ``on_ask``, which may give an awaitable: that is cancelled when nobody waits for the answer any more."""
    return await _start(command, policy, report, program, cwd, env, (stdin, stdout, stderr), timeout, on_denial, on_ask)


@overload
async def run(
    command: Command,
    *,
    text: Literal[True],
    policy: Policies = None,
    report: Optional[Report] = None,
    program: Optional[str] = None,
    cwd: Directory = None,
    env: Optional[Environment] = None,
    stdin: Stream = None,
    stdout: Stream = None,
    stderr: Stream = None,
    input: Union[str, bytes, None] = None,
    capture_output: bool = False,
    timeout: Optional[float] = None,
    on_denial: Optional[Callable[[Denial], None]] = None,
    on_ask: Optional[OnAskAsync] = None,
) -> Completed[str]: ...


@overload
async def run(
    command: Command,
    *,
    text: Literal[False] = False,
    policy: Policies = None,
    report: Optional[Report] = None,
    program: Optional[str] = None,
    cwd: Directory = None,
    env: Optional[Environment] = None,
    stdin: Stream = None,
    stdout: Stream = None,
    stderr: Stream = None,
    input: Union[str, bytes, None] = None,
    capture_output: bool = False,
    timeout: Optional[float] = None,
    on_denial: Optional[Callable[[Denial], None]] = None,
    on_ask: Optional[OnAskAsync] = None,
) -> Completed[bytes]: ...


async def run(
    command: Command,
    *,
    text: bool = False,
    policy: Policies = None,
    report: Optional[Report] = None,
    program: Optional[str] = None,
    cwd: Directory = None,
    env: Optional[Environment] = None,
    stdin: Stream = None,
    stdout: Stream = None,
    stderr: Stream = None,
    input: Union[str, bytes, None] = None,
    capture_output: bool = False,
    timeout: Optional[float] = None,
    on_denial: Optional[Callable[[Denial], None]] = None,
    on_ask: Optional[OnAskAsync] = None,
) -> "Completed[Any]":
    """Runs a command in a sandbox until it has ended, as ``landstrip.run`` does."""
    streams = given_input(input, stdin, capture_output, stdout, stderr)
    process = await _start(command, policy, report, program, cwd, env, streams, timeout, on_denial, on_ask)
    return await _finish(process, input, text)


async def _finish(process: Process, input: Union[str, bytes, None], text: bool) -> "Completed[Any]":
    async with process:
        stdout, stderr = await process._process.communicate(as_bytes(input))
        return completed(await process.wait(), stdout, stderr, text)


async def check(*, policy: Policies = None, program: Optional[str] = None, cwd: Directory = None, env: Optional[Environment] = None) -> Answer:
    """As ``landstrip.check``."""
    return await asyncio.to_thread(_questions.check, policy=policy, program=program, cwd=cwd, env=env)


async def explain(
    questions: Sequence[str] = (), *, policy: Policies = None, program: Optional[str] = None, cwd: Directory = None, env: Optional[Environment] = None
) -> Any:
    """As ``landstrip.explain``."""
    return await asyncio.to_thread(_questions.explain, questions, policy=policy, program=program, cwd=cwd, env=env)


async def denials(since: Optional[str] = None, *, program: Optional[str] = None, cwd: Directory = None, env: Optional[Environment] = None) -> List[Kept]:
    """As ``landstrip.denials``."""
    return await asyncio.to_thread(_questions.denials, since, program=program, cwd=cwd, env=env)


async def learn(
    command: Command,
    file: Union[str, "os.PathLike[str]"],
    *,
    policy: Policies = None,
    program: Optional[str] = None,
    cwd: Directory = None,
    env: Optional[Environment] = None,
    timeout: Optional[float] = None,
) -> Learnt:
    """As ``landstrip.learn``."""
    process = await _start(command, policy, None, program, cwd, env, (None, None, None), timeout, None, None, ["--learn", os.fspath(file)])
    return _questions.learnt(await _finish(process, None, False), file, cwd)

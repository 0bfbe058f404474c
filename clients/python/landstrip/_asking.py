"""Answers what landstrip asks by --ask, and has rules added to a run: landstrip(1), ASKING."""

import asyncio
import dataclasses
import inspect
import json
import queue
import socket
import threading
from typing import Any, Awaitable, Callable, Dict, List, Literal, Optional, Tuple, Union

from ._reports import Denial, Rule, shown

ANSWERS = ("once", "run", "deny")


@dataclasses.dataclass(frozen=True)
class Question:
    """What no rule allows, while the call of the command waits."""

    denial: Denial
    #: The rule that would allow it.
    advice: Optional[Rule]
    program: str
    pid: int
    #: What the program says of itself: to be shown, never to be decided by.
    arguments: List[str]
    directory: str
    #: Whether the rule would help another run, too: not for what is removed or replaced, nor where a name is made up.
    lasts: bool = True
    #: Set once nobody waits for the answer any more.
    settled: threading.Event = dataclasses.field(default_factory=threading.Event, repr=False, compare=False)


#: This call; the rest of the run, by the advised rule or the one that is given; or refused, and not asked again in this run.
Reply = Union[Literal["once", "run", "deny"], Rule]

OnAsk = Callable[[Question], Reply]
OnAskAsync = Callable[[Question], Union[Reply, Awaitable[Reply]]]


@dataclasses.dataclass(frozen=True)
class Granted:
    """What became of a rule."""

    granted: bool
    #: Why it was not added, or what of it does not hold in this run.
    why: Optional[str] = None


ENDED = Granted(False, "the run has ended")


def _line(message: Dict[str, Any]) -> bytes:
    return json.dumps(message).encode() + b"\n"


def _answer(number: int, reply: Any) -> bytes:
    if isinstance(reply, Rule):
        return _line({"ask": number, "answer": "run", "rule": [reply.key, reply.value]})
    if not isinstance(reply, str) or reply not in ANSWERS:
        raise TypeError(f"an answer is one of {', '.join(ANSWERS)}, or a Rule, not {reply!r}")
    return _line({"ask": number, "answer": reply})


def _question(told: Dict[str, Any]) -> Question:
    advice = told.get("advice")
    return Question(
        shown(told["report"]),
        Rule(*advice) if advice else None,
        told.get("program", ""),
        told.get("pid", 0),
        told.get("arguments", []),
        told.get("directory", ""),
        told.get("lasts", True),
    )


class _Open:
    """What was asked and has no answer yet, both ways. Its callers keep threads apart."""

    def __init__(self) -> None:
        self.questions: Dict[int, Question] = {}
        self.grants: List[Tuple[List[str], Callable[[Granted], object]]] = []
        self.is_closed = False
        self._rest = b""

    def hear(self, data: bytes) -> List[Tuple[int, Question]]:
        """Takes in what landstrip says, as it comes in pieces, and gives what is asked by it."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        asked = []
        for line in lines:
            told = json.loads(line.decode("utf-8", "replace"))
            if "ask" in told:
                self.questions[told["ask"]] = _question(told)
                asked.append((told["ask"], self.questions[told["ask"]]))
            elif "settled" in told:
                self.take(told["settled"])
            elif "granted" in told or "refused" in told:
                self._settle(told)
        return asked

    def _settle(self, told: Dict[str, Any]) -> None:
        # Rules of answers are told of as well.
        rule, why = (told.get("granted") or told["refused"])[:2], (told.get("granted") or told["refused"])[2:]
        for at, (asked, settle) in enumerate(self.grants):
            if asked == rule:
                del self.grants[at]
                settle(Granted("granted" in told, why[0] if why else None))
                return

    def take(self, number: int) -> bool:
        """Whether there still was such a question."""
        question = self.questions.pop(number, None)
        if question is not None:
            question.settled.set()
        return question is not None

    def close(self) -> None:
        self.is_closed = True
        for number in list(self.questions):
            self.take(number)
        while self.grants:
            self.grants.pop()[1](ENDED)

    def grant(self, key: str, value: str, settle: Callable[[Granted], object]) -> bytes:
        """What asks for a rule."""
        if not (isinstance(key, str) and isinstance(value, str)):
            raise TypeError("a rule is two strings, the key and the value")
        if self.is_closed:
            settle(ENDED)
            return b""
        self.grants.append(([key, value], settle))
        return _line({"grant": [key, value]})


class Asking:
    """Attends to a channel in two threads: one hears, the other calls the caller's function, for one question at a time."""

    def __init__(self, channel: socket.socket, on_ask: OnAsk, fail: Callable[[BaseException], None]) -> None:
        self._channel = channel
        self._on_ask = on_ask
        self._fail = fail
        self._open = _Open()
        self._lock = threading.Lock()
        self._asked: "queue.SimpleQueue[Optional[Tuple[int, Question]]]" = queue.SimpleQueue()
        for work in (self._hear, self._ask):
            threading.Thread(target=work, daemon=True).start()

    def grant(self, key: str, value: str) -> Granted:
        became: "queue.SimpleQueue[Granted]" = queue.SimpleQueue()
        with self._lock:
            self._send(self._open.grant(key, value, became.put))
        return became.get()

    def _send(self, line: bytes) -> None:
        try:
            self._channel.sendall(line, socket.MSG_NOSIGNAL)
        except OSError:
            pass  # the run is ending, which the other thread hears of

    def _hear(self) -> None:
        with self._channel:
            while True:
                try:
                    data = self._channel.recv(65536)
                except OSError:
                    data = b""
                with self._lock:
                    if not data:
                        self._open.close()
                        break
                    asked = self._open.hear(data)
                for one in asked:
                    self._asked.put(one)
        self._asked.put(None)

    def _ask(self) -> None:
        for number, question in iter(self._asked.get, None):
            if question.settled.is_set():
                continue
            try:
                line = _answer(number, self._on_ask(question))
            except BaseException as error:
                with self._lock:
                    is_open = self._open.take(number)
                # One that gives up because nobody waits any more has not failed.
                if is_open:
                    self._fail(error)
                continue
            with self._lock:
                if self._open.take(number):
                    self._send(line)


class AsyncAsking(asyncio.Protocol):
    """Attends to a channel in an event loop, where questions are asked at the same time: each is a task, which is cancelled
    when nobody waits for the answer any more."""

    def __init__(self, on_ask: OnAskAsync, fail: Callable[[BaseException], None]) -> None:
        self._on_ask = on_ask
        self._fail = fail
        self._open = _Open()
        self._tasks: "Dict[int, asyncio.Task[None]]" = {}
        self._transport: Optional[asyncio.Transport] = None
        self.closed: "asyncio.Future[None]" = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        for number, question in self._open.hear(data):
            self._tasks[number] = asyncio.ensure_future(self._ask(number, question))
        self._cancel()

    def connection_lost(self, exc: Optional[Exception]) -> None:
        self._open.close()
        self._cancel()
        if not self.closed.done():
            self.closed.set_result(None)

    async def grant(self, key: str, value: str) -> Granted:
        became: "asyncio.Future[Granted]" = asyncio.get_running_loop().create_future()

        def settle(granted: Granted) -> None:
            if not became.done():
                became.set_result(granted)

        self._send(self._open.grant(key, value, settle))
        return await became

    def _send(self, line: bytes) -> None:
        if self._transport is not None:
            self._transport.write(line)

    def _cancel(self) -> None:
        for number in [number for number in self._tasks if number not in self._open.questions]:
            self._tasks.pop(number).cancel()

    async def _ask(self, number: int, question: Question) -> None:
        try:
            reply = self._on_ask(question)
            line = _answer(number, await reply if inspect.isawaitable(reply) else reply)
        except BaseException as error:
            if self._open.take(number):
                self._fail(error)
        else:
            if self._open.take(number):
                self._send(line)
        self._tasks.pop(number, None)

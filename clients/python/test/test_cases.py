"""The table of cases that every client passes: ../../cases.json says what its fields mean. Each is performed by the
functions of the package, and by those for asyncio."""

import asyncio
import dataclasses
import json
import os
import pathlib
import subprocess
import unittest
from typing import Any, Callable, Dict, List

import landstrip
from landstrip import aio

from .world import PROGRAM, World

CASES = json.loads((pathlib.Path(__file__).parent / "../../cases.json").read_text())["cases"]


def waiting(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *words, **options: asyncio.run(function(*words, **options))


def granted(command: List[str], *, grants: List[Any], input: str, **options: Any) -> landstrip.Result:
    with landstrip.spawn(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **options) as process:
        for key, value, expected in grants:
            became = process.grant(key, value)
            assert became.granted == expected, became
        assert process.stdin is not None
        process.stdin.write(input.encode())
        process.stdin.close()
        return process.wait()


async def aio_granted(command: List[str], *, grants: List[Any], input: str, **options: Any) -> landstrip.Result:
    streams: Dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    async with await aio.spawn(command, **streams, **options) as process:
        for key, value, expected in grants:
            became = await process.grant(key, value)
            assert became.granted == expected, became
        assert process.stdin is not None
        process.stdin.write(input.encode())
        process.stdin.close()
        return await process.wait()


KINDS: Dict[str, Dict[str, Callable[..., Any]]] = {
    "sync": {"run": landstrip.run, "granted": granted, "check": landstrip.check, "explain": landstrip.explain, "learn": landstrip.learn, "denials": landstrip.denials},
    "asyncio": {"run": waiting(aio.run), "granted": waiting(aio_granted), "check": waiting(aio.check), "explain": waiting(aio.explain), "learn": waiting(aio.learn), "denials": waiting(aio.denials)},
}


def shown(result: Any) -> Dict[str, Any]:
    """What became of a case, in the table's form."""
    found = {field.name: getattr(result, field.name) for field in dataclasses.fields(result)}
    error = result.error
    found.update(error=error and error.source, message=error and error.message, endedBy=found.get("ended_by"))
    found["denials"] = sorted([d.kind, d.operation, d.target] for d in found.get("denials", []))
    found["advice"] = sorted([rule.key, rule.value] for rule in found.get("advice", []))
    found["deniedBy"] = sorted([rule.key, rule.value] for rule in found.get("denied_by", []))
    return found


class Cases(unittest.TestCase):
    maxDiff = None

    def compare(self, result: Any, expected: Dict[str, Any], **more: Any) -> None:
        found = {**shown(result), **more}
        for name, value in expected.items():
            if name in ("message", "text") and value is not None:
                self.assertIn(value, found[name])
            else:
                self.assertEqual(found[name], sorted(value) if isinstance(value, list) else value, result)

    def perform(self, given: Dict[str, Any], world: World, called: Dict[str, Callable[..., Any]]) -> None:
        where = {"program": given.get("program", PROGRAM), "cwd": given.get("cwd", world.path("work")), "env": world.env(given.get("env"))}
        policy = given.get("policy", given.get("raw"))
        for kind in ("check", "explain"):
            if kind in given:
                asked = given[kind]
                where["policy"] = asked.get("policy", asked.get("raw"))
                if kind == "check":
                    return self.compare(called["check"](**where), given["expect"])
                answers = called["explain"](asked["questions"], **where)["answers"]
                allowed = all(answer["allowed"] for answer in answers[0]["answers"])
                return self.assertEqual(allowed, given["expect"]["allowed"])
        if "wrap" in given:
            words = landstrip.wrap(given["command"], program=PROGRAM, **given["wrap"])
            return self.assertEqual(words[1:], given["expect"]["words"])
        if "learn" in given:
            learnt = called["learn"](given["command"], given["learn"], policy=policy, **where)
            return self.compare(learnt.result, given["expect"], text=learnt.text)
        options = {**where, "policy": policy, "report": given.get("report"), "input": given.get("input")}
        if "timeout" in given:
            options["timeout"] = given["timeout"] / 1000
        if "input" not in given:
            options["stdin"] = subprocess.DEVNULL
        told: List[Any] = []
        if "answers" in given:
            options["on_ask"] = lambda question: self.reply(given, told, question)
        if given.get("misuse"):
            with self.assertRaises((OSError, TypeError, ValueError)):
                called["run"](given["command"], **options)
            return
        if "grants" in given:
            self.compare(called["granted"](given["command"], grants=given["grants"], **options), given["expect"])
        else:
            self.compare(called["run"](given["command"], capture_output=True, text=True, **options), given["expect"])
        self.assertEqual(told, given.get("asked", []))
        if "kept" in given:
            kept = called["denials"](given.get("since"), program=PROGRAM, env=where["env"])
            found = [[one.program, one.denial.kind, one.denial.operation, one.denial.target] for one in kept]
            self.assertEqual(found, given["kept"])

    def reply(self, given: Dict[str, Any], told: List[Any], question: landstrip.Question) -> Any:
        denial, advice = question.denial, question.advice
        assert advice is not None
        told.append([denial.kind, denial.operation, denial.target, advice.key, advice.value, question.lasts])
        answer = given["answers"][len(told) - 1]
        return landstrip.Rule(*answer["rule"]) if isinstance(answer, dict) else answer

    def case(self, one: Dict[str, Any], kind: str) -> None:
        with World() as world:
            given = world.placed(one)
            for name, text in given.get("files", {}).items():
                world.write(name, text)
            self.perform(given, world, KINDS[kind])
            for name, text in given.get("made", {}).items():
                self.assertEqual(pathlib.Path(world.path(name)).read_text(), text)
            for name in given.get("missing", []):
                self.assertFalse(os.path.lexists(world.path(name)), name)


def method(one: Dict[str, Any], kind: str) -> Callable[[Cases], None]:
    return lambda self: self.case(one, kind)


for number, one in enumerate(CASES):
    for kind in KINDS:
        setattr(Cases, f"test_{number:02}_{one['name'].replace(' ', '_')}_{kind}", method(one, kind))

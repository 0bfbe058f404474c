"""What is this language's own: options, streams, signals, threads, tasks, what callers' functions raise, types."""

import asyncio
import gc
import os
import pathlib
import queue
import shutil
import signal
import subprocess
import sys
import threading
import time
import unittest
from typing import Any, Dict, List
from unittest import mock

import landstrip
from landstrip import aio

from .world import PROGRAM, World

PACKAGE = pathlib.Path(__file__).parent.parent
#: How often the tests of leaks run a command.
RUNS = int(os.environ.get("LANDSTRIP_REPETITIONS", "20"))
#: By how much the memory of this process may have grown after them, in bytes: what is not the runs' own.
GROWTH = 16 << 20
WRITE_ELSEWHERE: Any = {"policy": {"filesystem": {"allowWrite": ["."]}}}


def has_children() -> bool:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        return True
    except ChildProcessError:
        return False


def descriptors() -> int:
    """How many are open, once the threads that runs had have ended."""
    for thread in threading.enumerate():
        if thread is not threading.current_thread():
            thread.join()
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


def memory() -> int:
    """How much of it is in use, in bytes (proc_pid_statm(5))."""
    gc.collect()
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


class Own(unittest.TestCase):
    def setUp(self) -> None:
        self.world = self.enter(World())
        self.options = self.world.options()

    def enter(self, context: Any) -> Any:
        entered = context.__enter__()
        self.addCleanup(context.__exit__, None, None, None)
        return entered

    def made(self, name: str) -> bool:
        return os.path.exists(self.world.path(name))

    def test_a_policy_is_not_taken_from_where_the_command_runs(self) -> None:
        self.world.write("work/policy.json", '{"filesystem": {"allowWrite": [".."]}}')
        self.addCleanup(os.chdir, os.getcwd())
        for text, status in (("{}", 2), ('{"filesystem": {"allowWrite": ["."]}}', 0)):
            self.world.write("caller/policy.json", text)
            os.chdir(self.world.path("caller"))
            for policy in ("policy.json", "./policy.json", pathlib.Path("policy.json")):
                result = landstrip.run(["sh", "-c", "echo x >made"], policy=policy, stderr=subprocess.DEVNULL, **self.options)
                self.assertEqual((result.status, result.ended_by), (status, "tool"), policy)

    def test_the_launcher_is_not_looked_for_in_the_working_directory(self) -> None:
        world = self.world
        for place in ("work", "home/site"):
            for name in ("bin/landstrip", "libexec/landstrip/landstrip-broker"):
                world.write(f"{place}/{name}", "")
                os.chmod(world.path(f"{place}/{name}"), 0o755)
            world.write(f"{place}/landstrip-9.dist-info/METADATA", "Metadata-Version: 2.1\nName: landstrip\nVersion: 9\n")
            world.write(f"{place}/landstrip-9.dist-info/RECORD", "bin/landstrip,,\n")
        shutil.copytree(PACKAGE / "landstrip", world.path("home/site/landstrip"), ignore=shutil.ignore_patterns("__pycache__"))
        words = [sys.executable, "-c", "from landstrip._program import program; print(program())"]
        for removed in ([], ["bin", "landstrip-9.dist-info"]):
            for name in removed:
                shutil.rmtree(world.path(f"home/site/{name}"))
            env = world.env({"PYTHONPATH": world.path("home/site")})
            said = subprocess.run(words, cwd=world.path("work"), env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            if removed:
                self.assertIn("holds no programs", said.stderr)
            else:
                self.assertEqual(said.stdout, world.path("home/site/bin/landstrip") + "\n", said.stderr)

    def test_options_that_do_not_exist_or_are_not_right_are_errors_and_nothing_runs(self) -> None:
        wrongs: List[Any] = [
            {"polcy": "agent"},
            {"on_denail": print},
            {"policy": 7},
            {"policy": [["agent"]]},
            {"policy": ""},
            {"policy": [b"agent"]},
            {"report": "everything"},
            {"program": "./landstrip"},
            {"timeout": "1"},
            {"timeout": -1},
            {"timeout": float("inf")},
            {"on_denial": "print"},
            {"on_denial": asyncio.sleep},
            {"on_ask": "once"},
            {"cwd": self.world.path("none")},
            {"stdin": subprocess.DEVNULL, "input": ""},
            {"stdout": subprocess.DEVNULL, "capture_output": True},
        ]
        for wrong in wrongs:
            with self.subTest(wrong), self.assertRaises((TypeError, ValueError, OSError)):
                landstrip.run(["touch", "made"], **{**self.options, **wrong})
            with self.subTest(wrong), self.assertRaises((TypeError, ValueError, OSError)):
                asyncio.run(aio.run(["touch", "made"], **{**self.options, **wrong}))
        for command in ("touch made", [], [b"touch", "made"]):
            with self.subTest(command), self.assertRaises((TypeError, ValueError)):
                landstrip.run(command, **self.options)  # type: ignore[arg-type]
        with self.assertRaises(ValueError):
            landstrip.wrap(["touch", "made"], program=PROGRAM, trap_fd=2)
        self.assertFalse(self.made("work/made"))
        # The same without what is wrong.
        self.assertEqual(landstrip.run(["touch", "made"], **self.options).status, 0)
        self.assertTrue(self.made("work/made"))

    def test_what_on_denial_raises_ends_the_command_and_is_raised(self) -> None:
        def refuse(denial: landstrip.Denial) -> None:
            told.append(denial)
            raise LookupError("the caller's own")

        command = ["sh", "-c", "echo x > made; sleep 600"]
        runs: List[Any] = [landstrip.run, lambda *words, **options: asyncio.run(aio.run(*words, **options))]
        for run in runs:
            told: List[landstrip.Denial] = []
            with self.assertRaisesRegex(LookupError, "the caller's own"):
                run(command, policy="read-only", on_denial=refuse, stderr=subprocess.DEVNULL, **self.options)
            self.assertEqual(told, [landstrip.Denial("filesystem", "write", self.world.path("work/made"), "seccomp")])

    def test_what_on_ask_raises_ends_the_command_and_is_raised(self) -> None:
        os.mkdir(self.world.path("home/.npm"))

        def refuse(question: landstrip.Question) -> landstrip.Reply:
            raise LookupError("the caller's own")

        async def refuse_later(question: landstrip.Question) -> landstrip.Reply:
            await asyncio.sleep(0)
            return refuse(question)

        command = ["sh", "-c", "echo x > ~/.npm/a; trap '' TERM; sleep 600; sleep 600"]
        runs: List[Any] = [landstrip.run, lambda *words, **options: asyncio.run(aio.run(*words, **options))]
        for run, function in ((runs[0], refuse), (runs[1], refuse), (runs[1], refuse_later)):
            with self.assertRaisesRegex(LookupError, "the caller's own"):
                run(command, policy={}, on_ask=function, **self.options)
        self.assertFalse(self.made("home/.npm/a"))

    def test_a_question_is_settled_when_the_run_ends_and_nothing_is_granted_then(self) -> None:
        os.mkdir(self.world.path("home/.npm"))
        held: "queue.SimpleQueue[landstrip.Question]" = queue.SimpleQueue()

        def wait(question: landstrip.Question) -> landstrip.Reply:
            held.put(question)
            question.settled.wait()
            raise LookupError("nobody hears of this")

        command = ["sh", "-c", "echo x > ~/.npm/a"]
        with landstrip.spawn(command, policy={}, on_ask=wait, **self.options) as process:
            self.assertEqual(held.get().denial.target, self.world.path("home/.npm/a"))
            process.send_signal(signal.SIGTERM)
            self.assertEqual(process.wait().status, 143)
            self.assertEqual(process.grant("filesystem.allowWrite", "~/.npm").granted, False)
        with landstrip.spawn(["true"], policy={}, **self.options) as process, self.assertRaises(ValueError):
            process.grant("filesystem.allowWrite", "~/.npm")

        async def body() -> None:
            cancelled = asyncio.Event()
            asked = asyncio.Event()

            async def wait(question: landstrip.Question) -> landstrip.Reply:
                try:
                    asked.set()
                    await asyncio.Event().wait()
                finally:
                    cancelled.set()
                return "once"

            async with await aio.spawn(command, policy={}, on_ask=wait, **self.options) as process:
                await asked.wait()
                process.send_signal(signal.SIGTERM)
                self.assertEqual((await process.wait()).status, 143)
                await cancelled.wait()
                self.assertEqual((await process.grant("filesystem.allowWrite", "~/.npm")).granted, False)

        asyncio.run(body())
        self.assertFalse(self.made("home/.npm/a"))

    def test_denials_are_told_while_the_command_runs(self) -> None:
        heard = threading.Event()
        command = ["sh", "-c", "echo x > made; read line; exit 4"]
        options: Dict[str, Any] = {**self.options, "policy": "read-only", "stdin": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        with landstrip.spawn(command, on_denial=lambda _: heard.set(), **options) as process:
            heard.wait()
            assert process.stdin is not None
            process.stdin.write(b"go on\n")
            process.stdin.flush()
            self.assertEqual(process.wait().status, 4)

    def test_whose_status_it_is_comes_through_though_this_process_is_slow_to_hear(self) -> None:
        script = "name=made$(printf %0200d); for i in $(seq 1000); do echo > $name$i; done 2>/dev/null; exit 5"
        runs: List[Any] = [landstrip.run, lambda *words, **options: asyncio.run(aio.run(*words, **options))]
        for run in runs:
            heard: List[landstrip.Denial] = []

            def hear(denial: landstrip.Denial) -> None:
                time.sleep(0.01 if len(heard) < 400 else 0)
                heard.append(denial)

            result = run(["sh", "-c", script], policy="read-only", on_denial=hear, **self.options)
            self.assertEqual((result.status, result.ended_by), (5, "tool"))
            self.assertEqual(heard, result.denials)

    def test_streams_are_read_as_they_come_and_bytes_are_left_as_they_are(self) -> None:
        command = ["sh", "-c", "printf '\\377\\376\\n'; read line; echo $line"]
        with landstrip.spawn(command, policy={}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, **self.options) as process:
            assert process.stdin is not None and process.stdout is not None
            self.assertEqual(process.stdout.readline(), b"\xff\xfe\n")
            process.stdin.write(b"more\n")
            process.stdin.close()
            self.assertEqual((process.stdout.read(), process.wait().status), (b"more\n", 0))
        echoed = landstrip.run(["cat"], policy={}, input=b"\0\xff", capture_output=True, **self.options)
        self.assertEqual(echoed.stdout, b"\0\xff")

    def test_a_cancelled_task_has_ended_its_command(self) -> None:
        async def body() -> None:
            command = ["sh", "-c", "trap '' TERM; echo ready > made; sleep 600; sleep 600"]
            task = asyncio.ensure_future(aio.run(command, policy={"filesystem": {"allowWrite": ["."]}}, **self.options))
            while not self.made("work/made"):
                await asyncio.sleep(0.01)
            self.assertTrue(has_children())
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task
            self.assertFalse(has_children())

        asyncio.run(body())

    def test_who_does_not_wait_for_the_end_leaves_no_command(self) -> None:
        command = ["sh", "-c", "trap '' TERM; echo $$ > made; mv made ready; while :; do sleep 0.1; done"]
        options: Dict[str, Any] = {**self.options, "policy": {"filesystem": {"allowWrite": ["."]}}}
        ready = pathlib.Path(self.world.path("work/ready"))

        def is_gone() -> bool:
            process = int(ready.read_text())
            ready.unlink()
            deadline = time.monotonic() + 60
            while pathlib.Path(f"/proc/{process}").exists() and time.monotonic() < deadline:
                time.sleep(0.01)
            return not pathlib.Path(f"/proc/{process}").exists()

        async def body() -> None:
            task = asyncio.ensure_future(aio.run(command, **options))
            while not ready.exists():
                await asyncio.sleep(0.01)
            task.cancel()
            await asyncio.sleep(0.1)
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task

        asyncio.run(body())
        self.assertTrue(is_gone())
        process = landstrip.spawn(command, **options)
        while not ready.exists():
            time.sleep(0.01)
        with mock.patch.object(process._thread, "join", side_effect=KeyboardInterrupt):
            self.assertRaises(KeyboardInterrupt, process.end)
        self.assertEqual(process.wait().status, 137)
        self.assertTrue(is_gone())

    def test_many_run_at_once_in_one_loop(self) -> None:
        async def body() -> List[int]:
            runs = [aio.run(["sh", "-c", f"exit {number}"], policy={}, **self.options) for number in range(10)]
            return [result.status for result in await asyncio.gather(*runs)]

        self.assertEqual(asyncio.run(body()), list(range(10)))

    def test_a_block_that_is_left_has_ended_its_command(self) -> None:
        command = ["sh", "-c", "echo ready; exec sleep 600"]
        options: Dict[str, Any] = {**self.options, "policy": {}, "stdout": subprocess.PIPE}
        with landstrip.spawn(command, **options) as process:
            assert process.stdout is not None
            process.stdout.readline()
            with self.assertRaises(subprocess.TimeoutExpired):
                process.wait(0.01)
        self.assertEqual(process.wait().status, 143)

        async def body() -> int:
            async with await aio.spawn(command, **options) as process:
                assert process.stdout is not None
                await process.stdout.readline()
            return (await process.wait()).status

        self.assertEqual(asyncio.run(body()), 143)

    def test_a_process_without_standard_streams_runs_commands(self) -> None:
        self.world.write("daemon.py", """if True:
            import os, sys, landstrip
            sys.stdout = sys.stderr = None
            os.closerange(0, 3)
            policy = {"filesystem": {"allowWrite": ["."]}}
            result = landstrip.run(["sh", "-c", "echo out; touch ~/made; exit 3"], policy=policy, on_ask=lambda _: "once",
                                   capture_output=True, cwd=sys.argv[1], program=sys.argv[2] or None)
            with open(sys.argv[3], "w") as file:
                file.write(f"{result.status} {result.ended_by} {result.stdout!r}")
            os._exit(0)
        """)
        told = self.world.path("told")
        words = [sys.executable, self.world.path("daemon.py"), self.world.path("work"), PROGRAM or "", told]
        subprocess.run(words, env=self.world.env({"PYTHONPATH": str(PACKAGE)}), check=True)
        self.assertEqual(pathlib.Path(told).read_text(), "3 tool b'out\\n'")
        self.assertTrue(os.path.exists(self.world.path("home/made")))

    def test_a_signal_reaches_the_command(self) -> None:
        command = ["sh", "-c", "trap 'exit 9' USR1; echo ready; while :; do sleep 0.01; done"]
        with landstrip.spawn(command, policy={}, stdout=subprocess.PIPE, **self.options) as process:
            assert process.stdout is not None
            process.stdout.readline()
            process.send_signal(signal.SIGUSR1)
            result = process.wait()
        self.assertEqual((result.status, result.ended_by), (9, "tool"))

    def test_of_a_killed_landstrip_the_status_is_its_own(self) -> None:
        with landstrip.spawn(["sleep", "600"], policy={}, **self.options) as process:
            process.kill()
            result = process.wait()
        self.assertEqual((result.status, result.ended_by), (137, "landstrip"))

    def test_a_policy_s_path_is_never_a_preset(self) -> None:
        self.world.write("caller/agent", '{"filesystem": {"allowWrite": ["../outside"]}}')
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.world.path("caller"))
        result = landstrip.run(["touch", "../outside/made"], policy=pathlib.Path("agent"), **self.options)
        self.assertEqual((result.status, self.made("outside/made")), (0, True))

    def test_a_large_policy_is_handed_over(self) -> None:
        paths = [f"{number:0200}" for number in range(2000)] + ["made"]
        result = landstrip.run(["touch", "made"], policy={"filesystem": {"allowWrite": paths}}, **self.options)
        self.assertEqual((result.status, result.error), (0, None))

    def test_wrapped_words_are_run_by_any_program(self) -> None:
        script = "echo x > made; echo x > ../outside/made || exit 3"
        words = landstrip.wrap(["sh", "-c", script], program=PROGRAM, **WRITE_ELSEWHERE)
        ended = subprocess.run(words, cwd=self.options["cwd"], env=self.options["env"], stderr=subprocess.DEVNULL)
        self.assertEqual((ended.returncode, self.made("work/made"), self.made("outside/made")), (3, True, False))

    def test_without_the_programs_the_error_says_so(self) -> None:
        with mock.patch("landstrip._program._candidates", return_value=["/nowhere/bin/landstrip"]):
            with self.assertRaisesRegex(FileNotFoundError, "wheel"):
                landstrip.run(["true"])

    def test_runs_leave_nothing_behind(self) -> None:
        def once() -> None:
            landstrip.run(["touch", "made"], capture_output=True, **WRITE_ELSEWHERE, **self.options)

        once()
        before, used = descriptors(), memory()
        for _ in range(RUNS):
            once()
        self.assertEqual((descriptors(), has_children()), (before, False))
        self.assertLess(memory() - used, GROWTH)
        left = [os.listdir(self.world.path(name)) for name in ("work", "home", "outside")]
        self.assertEqual(left, [["made"], [], []])

    def test_runs_of_asyncio_leave_nothing_behind(self) -> None:
        async def once() -> None:
            await aio.run(["touch", "made"], capture_output=True, **WRITE_ELSEWHERE, **self.options)

        async def body() -> None:
            await once()
            before, used = descriptors(), memory()
            for _ in range(RUNS):
                await once()
            self.assertEqual((descriptors(), has_children()), (before, False))
            self.assertLess(memory() - used, GROWTH)

        asyncio.run(body())


class Types(unittest.TestCase):
    WRONG = [
        ('landstrip.run(["true"], policy={"filesystem": {"alowWrite": ["."]}})', "alowWrite"),
        ('landstrip.run(["true"], policy={"filesystm": {}})', "filesystm"),
        ('landstrip.run(["true"], policy={"network": {"allowNetwork": "yes"}})', "allowNetwork"),
        ('landstrip.run(["true"], polcy="agent")', "polcy"),
        ('landstrip.run(["true"], report="everything")', "report"),
        ('landstrip.run(["true"], capture_output=True).stdout + "text"', "operand"),
    ]
    RIGHT = """
result = landstrip.run(["true"], policy=["agent", {"filesystem": {"allowWrite": ["."]}}], capture_output=True, text=True)
if result.stdout is not None:
    print(result.stdout.upper())
async def body() -> None:
    print((await aio.run(["true"], policy={"extends": "agent", "network": {"allowedDomains": "example.com"}})).denials[0].target)
"""

    def check(self, compiler: List[str]) -> None:
        with World() as world:
            use = pathlib.Path(world.path("work/use.py"))
            shutil.copytree(PACKAGE / "landstrip", world.path("work/landstrip"), ignore=shutil.ignore_patterns("__pycache__"))
            lines = [f"first_{number} = {text}" for number, (text, _) in enumerate(self.WRONG)]
            for text in (self.RIGHT, "\n".join(lines)):
                use.write_text(f"import landstrip\nfrom landstrip import aio\n{text}\n")
                said = subprocess.run([*compiler, "use.py"], cwd=world.path("work"), stdout=subprocess.PIPE, text=True)
                wrong = {line.split(":")[1] for line in said.stdout.splitlines() if " error: " in line or " - error: " in line}
                expected = set() if text == self.RIGHT else {str(number + 3) for number in range(len(lines))}
                self.assertEqual(wrong, expected, said.stdout)
                self.assertEqual(said.returncode == 0, text == self.RIGHT)

    def test_mypy_finds_what_is_wrong_and_nothing_else(self) -> None:
        mypy = os.environ.get("LANDSTRIP_MYPY") or self.skipTest("LANDSTRIP_MYPY names no mypy")
        self.check([str(mypy), "--strict", "--cache-dir=/dev/null"])

    def test_pyright_finds_what_is_wrong_and_nothing_else(self) -> None:
        pyright = os.environ.get("LANDSTRIP_PYRIGHT") or self.skipTest("LANDSTRIP_PYRIGHT names no pyright")
        self.check([str(pyright)])

"""The examples of the README, as they stand there."""

import os
import pathlib
import re
import subprocess
import sys
import unittest

from .world import PROGRAM, World

PACKAGE = pathlib.Path(__file__).parent.parent
#: What pip would have installed.
INSTALLED = """
import landstrip._program
landstrip._program.program = lambda: %r
"""


class Readme(unittest.TestCase):
    def test_its_examples_run(self) -> None:
        examples = re.findall(r"^```python\n(.*?)^```$", (PACKAGE / "README.md").read_text(), re.MULTILINE | re.DOTALL)
        printed = ["0 done\n", "3 deadline\n", "done\n"]
        self.assertEqual(len(examples), len(printed))
        for example, expected in zip(examples, printed):
            with World() as world:
                npm = pathlib.Path(world.path("home/bin/npm"))
                npm.parent.mkdir()
                os.mkdir(world.path("home/.npm"))
                npm.write_text("#!/bin/sh\necho done; echo x > made; echo x > ../outside/made || true; test $1 = test || echo x > ~/.npm/a\n")
                npm.chmod(0o755)
                env = world.env({"PATH": f"{npm.parent}:{os.environ['PATH']}", "PYTHONPATH": str(PACKAGE), "PYTHONDONTWRITEBYTECODE": "1"})
                said = subprocess.run(
                    [sys.executable, "-c", INSTALLED % PROGRAM + example],
                    cwd=world.path("work"),
                    env=env,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                )
                self.assertEqual(said.returncode, 0, said.stderr)
                self.assertTrue(said.stdout.startswith(expected), said)
                if "on_ask" in example:
                    self.assertIn(f": write {world.path('home/.npm/a')!r}\n0\n", said.stdout)
                    self.assertTrue(os.path.exists(world.path("home/.npm/a")))
                if "test" in example:
                    self.assertIn(f"refused: write {world.path('outside/made')!r}\n", said.stdout)
                    self.assertTrue(os.path.exists(world.path("work/made")))

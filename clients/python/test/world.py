"""The directories that a test runs in, and the launcher that it runs: LANDSTRIP_PROGRAM, else that of the package."""

import os
import shutil
import tempfile
import unittest
from typing import Any, Dict, Optional

from landstrip import _program

PROGRAM: Optional[str] = os.environ.get("LANDSTRIP_PROGRAM")


class World:
    def __init__(self) -> None:
        try:
            _program.found(PROGRAM)
        except FileNotFoundError:
            raise unittest.SkipTest("LANDSTRIP_PROGRAM names no launcher, and the package holds none") from None
        self.root = os.path.realpath(tempfile.mkdtemp(prefix="landstrip-client-"))
        for name in ("work", "outside", "home"):
            os.mkdir(self.path(name))

    def path(self, name: str) -> str:
        return os.path.join(self.root, name)

    def write(self, name: str, text: str) -> None:
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), "w") as file:
            file.write(text)

    def env(self, more: Optional[Dict[str, str]] = None) -> Dict[str, str]:
        return {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": self.path("home"), **(more or {})}

    def options(self) -> Dict[str, Any]:
        """The options of a run in this world."""
        return {"program": PROGRAM, "cwd": self.path("work"), "env": self.env()}

    def placed(self, value: Any) -> Any:
        """A value whose strings are paths of this world where they begin with '@'."""
        if isinstance(value, str):
            return self.path(value[1:]) if value.startswith("@") else value
        if isinstance(value, list):
            return [self.placed(one) for one in value]
        if isinstance(value, dict):
            return {key: self.placed(one) for key, one in value.items()}
        return value

    def __enter__(self) -> "World":
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self.root)

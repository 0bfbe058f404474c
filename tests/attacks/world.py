"""The world outside of one sandbox: files to protect, servers and a process to reach, and what is true of them."""

import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

SECRET = b"the secret of this run\n"
ORIGINAL = b"original\n"


class World:
    """One directory, in which all is this case's own, and which is removed with it."""

    def __init__(self, place):
        self.top = Path(tempfile.mkdtemp(prefix="attacks-", dir=place))
        self.top.chmod(0o755)
        self.home = self.top / "home"
        self.work = self.top / "work"
        self.outside = self.top / "outside"
        self.output = b""
        # Whether the judge looks for what must come: a counterpart, or an attack without a sandbox.
        self.is_expected = False
        self._ends = []
        for directory in (
            self.home / ".ssh",
            self.home / ".config",
            self.work / "protected",
            self.work / "own",
            self.outside / "empty",
            self.work / "own/empty",
        ):
            directory.mkdir(parents=True)
        for path in self.precious + [self.work / "own/precious", self.home / "notes"]:
            path.write_bytes(ORIGINAL)
        (self.work / "source").write_bytes(b"replaced\n")
        self.protected = os.stat(self.work / "protected").st_ino, os.stat(self.work / "own").st_ino
        for path in self.secrets:
            path.write_bytes(SECRET)
        for path in (self.work / "own/tool", self.work / ".tool"):
            path.write_text("#!/bin/sh\necho executed >>loot\n")
            path.chmod(0o755)

    @property
    def precious(self):
        return [self.outside / "precious", self.work / "protected/precious"]

    @property
    def secrets(self):
        return [self.home / ".ssh/id", self.work / ".env"]

    def loot(self):
        """What the command brought home."""
        try:
            return (self.work / "loot").read_bytes()
        except OSError:
            return b""

    def end_with(self, function):
        """Has `function` called when the world ends."""
        self._ends.append(function)

    def has_closed_output(self):
        """Whether all that had the command's output has ended."""
        poll = select.poll()
        poll.register(self.stdout, 0)
        return bool(poll.poll(0))

    def close(self):
        for function in reversed(self._ends):
            function()
        end_children()
        for path in self.top.rglob("*"):
            if path.is_dir() and not path.is_symlink():
                path.chmod(0o755)
        shutil.rmtree(self.top)

    # What is there to be reached.

    def victim(self):
        """A process of the same user, which notes each SIGUSR1 and whose environment holds the secret."""
        note = self.top / "signalled"
        program = (
            "import ctypes, signal\n"
            f"SECRET = ctypes.create_string_buffer({SECRET!r})\n"
            "signals = {signal.SIGUSR1, signal.SIGUSR2}\n"
            "signal.pthread_sigmask(signal.SIG_BLOCK, signals)\n"
            "print(ctypes.addressof(SECRET), flush=True)\n"
            "while True:\n"
            "    if signal.sigwait(signals) == signal.SIGUSR2: print('all noted', flush=True)\n"
            f"    else: open({str(note)!r}, 'w').close()\n"
        )
        process = subprocess.Popen(
            [sys.executable, "-c", program, SECRET.decode().strip()],
            stdout=subprocess.PIPE,
            stdin=open(self.home / ".ssh/id", "rb"),
            env=dict(os.environ, TOKEN=SECRET.decode().strip()),
            cwd=self.home / ".ssh",
        )
        self.end_with(lambda: (process.kill(), process.wait()))
        process.address = int(process.stdout.readline())
        self.process = process
        return process

    def was_signalled(self):
        """Asks the victim by another signal, which it gets after those of smaller numbers."""
        self.process.send_signal(signal.SIGUSR2)
        return not self.process.stdout.readline() or (self.top / "signalled").exists()

    def server(self, family, kind, address, token=b""):
        """A server, bound, that somebody reaches who connects or sends, and says `token`."""
        listener = socket.socket(family, kind)
        self.end_with(listener.close)
        listener.bind(address)
        if kind != socket.SOCK_DGRAM:
            listener.listen(64)
        return Reached(self, listener, kind, token)


class Reached:
    """What came to a server. It came before the command ended, or moments later: it lies in the server's queue."""

    def __init__(self, world, listener, kind, token):
        self.world = world
        self.listener = listener
        self.kind = kind
        self.token = token

    @property
    def port(self):
        return self.listener.getsockname()[1]

    def __bool__(self):
        # What must come is waited for longer.
        wait = 5 if self.world.is_expected else 0.3
        while select.select([self.listener], [], [], wait)[0]:
            if self.token in self._next(wait):
                return True
        return False

    def _next(self, wait):
        if self.kind == socket.SOCK_DGRAM:
            return self.listener.recv(256)
        peer, _ = self.listener.accept()
        with peer:
            if not self.token:
                return b""
            try:
                peer.settimeout(wait)
                return peer.recv(256)
            except OSError:
                return b"nothing"


def end_children():
    """Ends what is left of a case, which comes to this process, since it is a subreaper."""
    children = Path(f"/proc/self/task/{os.getpid()}/children")
    while left := children.read_text().split():
        for child in map(int, left):
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)

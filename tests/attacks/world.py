"""The world outside of one sandbox: files to protect, servers and a process to reach, and what is true of them."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
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

    def close(self):
        for function in reversed(self._ends):
            function()
        for path in self.top.rglob("*"):
            if path.is_dir() and not path.is_symlink():
                path.chmod(0o755)
        shutil.rmtree(self.top)

    # What is there to be reached.

    def victim(self, code="signal.pause()", **options):
        """A process of the same user, which notes each SIGUSR1 and whose environment holds the secret."""
        note = self.top / "signalled"
        program = (
            "import os, signal, sys, time, ctypes\n"
            f"signal.signal(signal.SIGUSR1, lambda *_: open({str(note)!r}, 'a').write('signalled'))\n"
            f"SECRET = ctypes.create_string_buffer({SECRET!r})\n"
            "print(ctypes.addressof(SECRET), flush=True)\n"
            f"while True: {code}\n"
        )
        process = subprocess.Popen(
            [sys.executable, "-c", program, SECRET.decode().strip()],
            stdout=subprocess.PIPE,
            stdin=open(self.home / ".ssh/id", "rb"),
            env=dict(os.environ, TOKEN=SECRET.decode().strip()),
            cwd=self.home / ".ssh",
            **options,
        )
        self.end_with(lambda: (process.kill(), process.wait()))
        process.address = int(process.stdout.readline())
        return process

    def was_signalled(self):
        return (self.top / "signalled").exists()

    def server(self, family, kind, address):
        """A server that keeps the first bytes that it gets; returns it, bound."""
        listener = socket.socket(family, kind)
        listener.bind(address)
        received = []
        is_connected = kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET)
        if is_connected:
            listener.listen(64)
        listener.settimeout(0.05)
        stop = threading.Event()

        def serve():
            while not stop.is_set():
                try:
                    if is_connected:
                        peer, _ = listener.accept()
                        received.append(b"connected")
                        peer.close()
                    else:
                        received.append(listener.recv(64))
                except socket.timeout:
                    pass
                except OSError:
                    return

        thread = threading.Thread(target=serve)
        thread.start()
        self.end_with(lambda: (stop.set(), thread.join(), listener.close()))
        listener_port = address[1] if isinstance(address, tuple) else None
        if listener_port == 0:
            listener_port = listener.getsockname()[1]
        return Reached(received, listener_port)


class Reached:
    """What came to a server."""

    def __init__(self, received, port):
        self.received = received
        self.port = port

    def __bool__(self):
        # What was sent before the command ended lies in the server's queue.
        deadline = 20
        while not self.received and deadline:
            deadline -= 1
            signal.sigtimedwait([], 0.01)
        return bool(self.received)

"""The caller's terminal, and its other jobs."""

import fcntl
import struct
import termios

from case import Case

OWN_TERMINAL = """
import pty
master, slave = pty.openpty()
os.write(master, b'typed\\n')
loot('done' if os.read(slave, 5) == b'typed' else 'not typed')"""

NAME = "The caller's terminal is used against it"


def was_typed(world):
    """What nobody typed waits to be read."""
    count = struct.unpack("i", fcntl.ioctl(world.slave, termios.FIONREAD, bytes(4)))[0]
    return count > 0


def is_exclusive(world):
    # TIOCGEXCL
    return struct.unpack("i", fcntl.ioctl(world.slave, 0x80045440, bytes(4)))[0] != 0


def is_small(world):
    return struct.unpack("HHHH", fcntl.ioctl(world.slave, termios.TIOCGWINSZ, bytes(8)))[:2] == (3, 5)


def is_raw(world):
    return not termios.tcgetattr(world.slave)[3] & termios.ICANON


def group_changed(world):
    return world.foreground_after != world.foreground_before


def cases():
    ways = {
        "characters typed by TIOCSTI": ("import fcntl, termios\nfor c in b'id\\n':\n    fcntl.ioctl(0, 0x5412, bytes([c]))", was_typed),
        "TIOCSTI with upper bits set": ("for c in b'id\\n':\n    libc.ioctl(0, ctypes.c_ulong(0xffffffff00005412), bytes([c]))", was_typed),
        "left for one process alone (TIOCEXCL)": ("import fcntl\nfcntl.ioctl(0, 0x540C)", is_exclusive),
        "left without echo and lines": ("import tty\ntty.setraw(0)", is_raw),
        "its size left changed": ("import fcntl\nfcntl.ioctl(0, 0x5414, struct.pack('HHHH', 3, 5, 0, 0))", is_small),
        "its foreground group left changed": (
            "os.setpgid(0, 0)\nsignal.signal(signal.SIGTTOU, signal.SIG_IGN)\nos.tcsetpgrp(0, os.getpgrp())",
            group_changed,
        ),
    }
    for name, (code, escaped) in ways.items():
        yield Case(NAME, name, code, escaped, OWN_TERMINAL, lambda world: b"done" in world.loot(), terminal=True)
    yield Case(
        NAME,
        "an orphaned group that makes the kernel hang it up",
        # The caller's script is in the command's group: one member in it is stopped while its parent leaves.
        """
group = os.getpgrp()
if os.fork() == 0:
    os.setpgid(0, 0)
    if os.fork() == 0:
        os.setpgid(0, group)
        os.kill(os.getpid(), signal.SIGSTOP)
        os._exit(0)
    os.waitpid(-1, os.WUNTRACED)
    os._exit(0)
os.wait()""",
        lambda world: world.sibling_was_hung_up,
        OWN_TERMINAL,
        lambda world: b"done" in world.loot(),
        terminal=True,
    )

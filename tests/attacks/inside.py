"""What the cases have at hand inside of the sandbox: raw system calls, and what Python's own modules lack.

Runs in the sandbox (or, as the control, without one). Nothing here judges: an attack does what it can, and the
truth is taken from outside.
"""

import ctypes
import os
import signal
import socket
import struct
import sys
import threading
import time

libc = ctypes.CDLL(None, use_errno=True)

# asm/unistd_64.h and asm-generic/unistd.h: numbers above 423 are the same everywhere.
X86 = os.uname().machine == "x86_64"
NR = {
    "linkat": 265 if X86 else 37,
    "renameat2": 316 if X86 else 276,
    "name_to_handle_at": 303 if X86 else 264,
    "open_by_handle_at": 304 if X86 else 265,
    "process_vm_readv": 310 if X86 else 270,
    "process_vm_writev": 311 if X86 else 271,
    "ptrace": 101 if X86 else 117,
    "perf_event_open": 298 if X86 else 241,
    "bpf": 321 if X86 else 280,
    "userfaultfd": 323 if X86 else 282,
    "keyctl": 250 if X86 else 219,
    "add_key": 248 if X86 else 217,
    "seccomp": 317 if X86 else 277,
    "unshare": 272 if X86 else 97,
    "clone3": 435,
    "io_uring_setup": 425,
    "openat2": 437,
    "pidfd_getfd": 438,
    "fchmodat2": 452,
    "fsopen": 430,
    "open_tree": 428,
    "fanotify_init": 300 if X86 else 262,
    "ioprio_set": 251 if X86 else 30,
    "rt_tgsigqueueinfo": 297 if X86 else 240,
    "tgkill": 234 if X86 else 131,
    "sendmmsg": 307 if X86 else 269,
    "mq_open": 240 if X86 else 180,
    "chroot": 161 if X86 else 51,
    "mount": 165 if X86 else 40,
    "setns": 308 if X86 else 268,
}
AT_FDCWD = -100
AT_EMPTY_PATH = 0x1000
AT_SYMLINK_FOLLOW = 0x400
RENAME_EXCHANGE = 2
MSG_FASTOPEN = 0x20000000


def call(name, *arguments):
    """A system call by name; strings are paths. Raises OSError."""
    converted = [
        ctypes.c_char_p(os.fsencode(a)) if isinstance(a, str) else ctypes.c_long(a) if isinstance(a, int) else a
        for a in arguments
    ]
    result = libc.syscall(ctypes.c_long(NR[name]), *converted)
    if result == -1:
        errno = ctypes.get_errno()
        raise OSError(errno, os.strerror(errno), name)
    return result


def read(path):
    with open(path, "rb") as file:
        return file.read()


def write(path, data=b"changed\n", flags=os.O_WRONLY):
    fd = os.open(path, flags)
    try:
        os.write(fd, data)
    finally:
        os.close(fd)


def loot(data):
    """Leaves what was read where the judge outside looks."""
    with open("loot", "ab") as file:
        file.write(data if isinstance(data, bytes) else str(data).encode())


def shell_wait(child):
    os.waitpid(child, 0)


def iovec(address, length):
    return (ctypes.c_size_t * 2)(address, length)


def swapping(work, names, seconds=2.0):
    """Exchanges two names again and again while `work` is done, for so long at most."""
    stop = threading.Event()

    def exchange():
        while not stop.is_set():
            call("renameat2", AT_FDCWD, names[0], AT_FDCWD, names[1], RENAME_EXCHANGE)

    thread = threading.Thread(target=exchange)
    thread.start()
    end = time.monotonic() + seconds
    try:
        for _ in range(20_000):
            if time.monotonic() > end or work():
                break
    finally:
        stop.set()
        thread.join()


def swapped(work, names):
    """Exchanges two names, then works."""
    call("renameat2", AT_FDCWD, names[0], AT_FDCWD, names[1], RENAME_EXCHANGE)
    work()


def main():
    """Runs the code in the file that is named, with what stands in the file beside it as its names."""
    names = {key: value for key, value in globals().items() if not key.startswith("__")}
    for argument in sys.argv[2:]:
        key, _, value = argument.partition("=")
        names[key] = int(value) if value.isdigit() else value
    with open(sys.argv[1]) as file:
        exec(compile(file.read(), sys.argv[1], "exec"), names)  # pylint: disable=exec-used


if __name__ == "__main__":
    main()

"""Processes outside: signalled, looked into, changed, and outlived."""

import os
import resource
import threading
import time
from pathlib import Path

from case import Case, Policy
from world import SECRET

SIGNALS = {
    "kill": "os.kill(PID, signal.SIGUSR1)",
    "tgkill": "call('tgkill', PID, PID, signal.SIGUSR1)",
    "a pidfd": "signal.pidfd_send_signal(os.pidfd_open(PID), signal.SIGUSR1)",
    "rt_tgsigqueueinfo": "call('rt_tgsigqueueinfo', PID, PID, signal.SIGUSR1, struct.pack('iii', signal.SIGUSR1, 0, -1) + bytes(116))",
    "the owner of a socket": """
import fcntl
a, b = socket.socketpair()
fcntl.fcntl(a, fcntl.F_SETOWN, PID)
fcntl.fcntl(a, fcntl.F_SETSIG, signal.SIGUSR1)
fcntl.fcntl(a, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
b.send(b'x')""",
    "the owner of a pipe's lease-like watch, by FIOSETOWN": """
import fcntl
a, b = socket.socketpair()
fcntl.ioctl(a, 0x8901, struct.pack('i', PID))
fcntl.fcntl(a, fcntl.F_SETSIG, signal.SIGUSR1)
fcntl.fcntl(a, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
b.send(b'x')""",
}
OWN_SIGNAL = """
got = []
signal.signal(signal.SIGUSR1, lambda *_: got.append(1))
os.kill(os.getpid(), signal.SIGUSR1)
loot('done' if got else 'not signalled')"""

LOOKS = {
    "process_vm_readv": """
buffer = ctypes.create_string_buffer(64)
call('process_vm_readv', PID, iovec(ctypes.addressof(buffer), 64), 1, iovec(ADDRESS, 64), 1, 0)
loot(buffer.raw)""",
    "ptrace": """
call('ptrace', 16, PID, 0, 0)
os.waitpid(PID, 0x40000000)
data = b''
for offset in range(0, 24, 8):
    word = ctypes.c_ulong()
    call('ptrace', 1, PID, ADDRESS + offset, ctypes.byref(word))
    data += struct.pack('Q', word.value)
loot(data)""",
    "/proc/PID/mem": "f = open(f'/proc/{PID}/mem', 'rb', 0)\nf.seek(ADDRESS)\nloot(f.read(64))",
    "/proc/PID/environ": "loot(read(f'/proc/{PID}/environ'))",
    "/proc/PID/fd": "loot(read(f'/proc/{PID}/fd/0'))",
    "/proc/PID/cwd": "loot(read(f'/proc/{PID}/cwd/id'))",
    "/proc/PID/root": "loot(read(f'/proc/{PID}/root{KEY}'))",
    "pidfd_getfd": "fd = call('pidfd_getfd', os.pidfd_open(PID), 0, 0)\nloot(os.pread(fd, 64, 0))",
    "/proc/PID/cmdline": "loot(read(f'/proc/{PID}/cmdline'))",
    "/proc/PID/task/PID/environ": "loot(read(f'/proc/{PID}/task/{PID}/environ'))",
}
OWN_LOOK = "loot(read('/proc/self/cmdline'))"


def victim(world):
    process = world.victim()
    world.process = process
    return {"PID": process.pid, "ADDRESS": process.address, "KEY": str(world.home / ".ssh/id")}


def has_secret(world):
    return SECRET.strip() in world.loot()


# What each changes, and what tells it: it may have had that value from the beginning.
CHANGES = {
    "setpriority": (
        "os.setpriority(os.PRIO_PROCESS, PID, 7)",
        lambda victim: os.getpriority(os.PRIO_PROCESS, victim.pid),
    ),
    "sched_setscheduler": (
        "os.sched_setscheduler(PID, os.SCHED_IDLE, os.sched_param(0))",
        lambda victim: os.sched_getscheduler(victim.pid),
    ),
    "sched_setaffinity": (
        "os.sched_setaffinity(PID, {min(os.sched_getaffinity(0))})",
        lambda victim: os.sched_getaffinity(victim.pid),
    ),
    "prlimit": (
        "import resource\nresource.prlimit(PID, resource.RLIMIT_NOFILE, (99, 99))",
        lambda victim: resource.prlimit(victim.pid, resource.RLIMIT_NOFILE),
    ),
    "ioprio_set": ("call('ioprio_set', 1, PID, (3 << 13))", lambda victim: ioprio(victim.pid)),
    "process_vm_writev": (
        "buffer = ctypes.create_string_buffer(b'changed')\n"
        "call('process_vm_writev', PID, iovec(ctypes.addressof(buffer), 7), 1, iovec(ADDRESS, 7), 1, 0)",
        lambda victim: memory_of(victim),
    ),
    "/proc/PID/oom_score_adj": (
        "write(f'/proc/{PID}/oom_score_adj', b'777')",
        lambda victim: Path(f"/proc/{victim.pid}/oom_score_adj").read_text(),
    ),
}
STOP = """
call('ptrace', 16, PID, 0, 0)
end = time.monotonic() + 10
while not os.path.exists('seen') and time.monotonic() < end:
    time.sleep(0.01)"""


def ioprio(pid):
    import ctypes
    import platform

    libc = ctypes.CDLL(None)
    return libc.syscall(252 if platform.machine() == "x86_64" else 31, 1, pid)


def memory_of(victim):
    with open(f"/proc/{victim.pid}/mem", "rb", 0) as memory:
        memory.seek(victim.address)
        return memory.read(7)


# Objects of others, by their numbers or names.
SHARED = {
    "a System V segment": """
libc.shmat.restype = ctypes.c_void_p
at = libc.shmat(ID, None, 0)
if at in (None, 2**64 - 1):
    raise OSError('shmat')
ctypes.memmove(at, b'changed', 7)""",
    "a System V message queue": "libc.msgsnd(ID, struct.pack('l', 1) + b'changed', 7, 0)",
    "a System V semaphore": "libc.semop(ID, struct.pack('Hhh', 0, 1, 0), 1)",
    "an object in /dev/shm": "write('/dev/shm/' + NAME)",
    "a POSIX message queue": """
fd = call('mq_open', NAME, os.O_WRONLY, 0, 0)
libc.mq_send(fd, b'changed', 7, 0)""",
}


def system_v(world):
    """Objects of somebody outside."""
    import ctypes

    libc = ctypes.CDLL(None)
    libc.shmat.restype = ctypes.c_void_p
    segment, queue, semaphore = libc.shmget(0, 4096, 0o600), libc.msgget(0, 0o600), libc.semget(0, 1, 0o600)
    address = libc.shmat(segment, None, 0)
    if -1 in (segment, queue, semaphore) or address in (None, 2**64 - 1):
        raise OSError("no System V objects can be made")
    world.segment = lambda: ctypes.string_at(address, 7)
    world.semaphore = lambda: libc.semctl(semaphore, 0, 12)

    def messages():
        buffer = ctypes.create_string_buffer(64)
        return libc.msgrcv(queue, buffer, 32, 0, 0o4000) >= 0

    world.messages = messages
    world.end_with(
        lambda: (libc.shmdt(ctypes.c_void_p(address)), libc.shmctl(segment, 0, None), libc.msgctl(queue, 0, None),
                 libc.semctl(semaphore, 0, 0))
    )
    return segment, queue, semaphore


def shared_cases():
    def setup(kind):
        def prepare(world):
            name = world.top.name
            if kind == "an object in /dev/shm":
                path = "/dev/shm/" + name
                with open(path, "w") as file:
                    file.write("original")
                world.end_with(lambda: os.path.exists(path) and os.unlink(path))
                world.object = lambda: open(path, "rb").read().startswith(b"changed")
                return {"NAME": name}
            if kind == "a POSIX message queue":
                import ctypes

                librt = ctypes.CDLL(None)
                descriptor = librt.mq_open(b"/" + name.encode(), os.O_CREAT | os.O_RDWR | os.O_NONBLOCK, 0o600, None)
                buffer = ctypes.create_string_buffer(8192)
                world.object = lambda: librt.mq_receive(descriptor, buffer, 8192, None) >= 0
                world.end_with(lambda: librt.mq_unlink(b"/" + name.encode()))
                return {"NAME": name}
            segment, queue, semaphore = system_v(world)
            world.object = {
                "a System V segment": lambda: world.segment() == b"changed",
                "a System V message queue": world.messages,
                "a System V semaphore": lambda: world.semaphore() == 1,
            }[kind]
            chosen = {"a System V segment": segment, "a System V message queue": queue}.get(kind, semaphore)
            return {"ID": chosen}

        return prepare

    for kind, code in SHARED.items():
        yield Case(
            "Shared memory and queues of others are used", kind, code, lambda world: world.object(),
            "id = libc.shmget(0, 4096, 0o1600)\nloot('done' if id >= 0 else 'failed')",
            lambda world: b"done" in world.loot(), setup=setup(kind),
        )


LINGER = """
end = time.monotonic() + 60
while time.monotonic() < end:
    write('beat', b'%020.6f' % time.time(), os.O_WRONLY | os.O_CREAT)
    time.sleep(0.05)"""


def still_beats(world):
    """Whether something that the command started works after the command's end."""
    end = time.monotonic() + 10
    while time.monotonic() < end and not world.has_closed_output():
        try:
            if float((world.work / "beat").read_bytes()) > world.ended:
                return True
        except (OSError, ValueError):
            pass
        time.sleep(0.02)
    return False


def cases():
    for name, code in SIGNALS.items():
        yield Case("A process outside is signalled", name, code, lambda world: world.was_signalled(), OWN_SIGNAL,
                   lambda world: b"done" in world.loot(), setup=victim)
    for name, code in LOOKS.items():
        yield Case("A process outside is looked into", name, code, has_secret, OWN_LOOK,
                   lambda world: b"inside.py" in world.loot(), setup=victim, policy=Policy(own_processes=True))
    for name, (code, asked) in CHANGES.items():
        yield Case("A process outside is changed", name, code, lambda world: world.asked() != world.before, OWN_SIGNAL,
                   lambda world: b"done" in world.loot(), setup=lambda world, asked=asked: victim_asked(world, asked))
    yield Case("A process outside is changed", "a stop by ptrace", STOP, lambda world: world.was_traced.is_set(),
               OWN_SIGNAL, lambda world: b"done" in world.loot(), setup=victim_watched)
    yield from shared_cases()
    yield Case(
        "A process outside is spoken to", "a shell that reads its script from the pipe that is standard input",
        "os.write(os.open('/proc/self/fd/0', os.O_WRONLY), f'echo spoken >{SPOKEN}\\n'.encode())",
        lambda world: (world.top / "spoken").exists(),
        "r, w = os.pipe()\nos.write(os.open(f'/proc/self/fd/{r}', os.O_WRONLY), b'done')\nloot(os.read(r, 9))",
        lambda world: b"done" in world.loot(), setup=lambda world: {"SCRIPT": True, "SPOKEN": str(world.top / "spoken")},
    )
    for name, start in {
        "in a session of its own": "if os.fork():\n    os._exit(0)\nos.setsid()\nif os.fork():\n    os._exit(0)\n",
        "with all signals ignored": "if os.fork():\n    os._exit(0)\nos.setsid()\nfor n in range(1, 65):\n    try:\n        signal.signal(n, signal.SIG_IGN)\n    except (OSError, ValueError):\n        pass\n",
        "in a process group of its own": "if os.fork():\n    os._exit(0)\nos.setpgid(0, 0)\n",
    }.items():
        yield Case("Something outlives the run", name, start + LINGER, still_beats,
                   "if os.fork() == 0:\n    os.setsid()\n    loot('done')\n    os._exit(0)\nos.wait()",
                   lambda world: b"done" in world.loot())


    for name, all_of_them in {"its first process is killed": False, "all its processes are killed at once": True}.items():
        yield Case("Something outlives the run", name, "if os.fork() == 0:\n    os.setsid()\n" + indented(LINGER), still_beats,
                   "if os.fork() == 0:\n    os.setsid()\n    loot('done')\n    os._exit(0)\nos.wait()",
                   lambda world: b"done" in world.loot(),
                   setup=lambda world, all_of_them=all_of_them: killer(world, all_of_them))


def indented(code):
    return code.replace("\n", "\n    ")


def killer(world, all_of_them):
    """Somebody outside who kills the sandbox once the command works, but no process of the command's."""
    is_over = threading.Event()

    def kill():
        while not is_over.wait(0.02):
            if (world.work / "beat").exists():
                found = [world.run.pid, *(descendants(world.run.pid) if all_of_them else ())]
                for pid in found:
                    if pid == world.run.pid or "python" not in comm(pid):
                        signalled(pid)
                return

    thread = threading.Thread(target=kill)
    thread.start()
    world.end_with(lambda: (is_over.set(), thread.join()))
    return {}


def signalled(pid):
    try:
        os.kill(pid, 9)
    except ProcessLookupError:
        pass


def comm(pid):
    try:
        return Path(f"/proc/{pid}/comm").read_text()
    except OSError:
        return ""


def descendants(pid):
    try:
        children = [int(child) for task in Path(f"/proc/{pid}/task").iterdir() for child in (task / "children").read_text().split()]
    except OSError:
        children = []
    for child in children:
        yield child
        yield from descendants(child)


def victim_asked(world, asked):
    names = victim(world)
    world.asked = lambda: asked(world.process)
    world.before = world.asked()
    return names


def victim_watched(world):
    """A victim whose tracer is looked at while the command runs; `seen` is there once it has had one."""
    names = victim(world)
    world.was_traced, stop = threading.Event(), threading.Event()

    def watch():
        while not stop.wait(0.01):
            if "TracerPid:\t0" not in Path(f"/proc/{world.process.pid}/status").read_text():
                world.was_traced.set()
                (world.work / "seen").touch()
                return

    thread = threading.Thread(target=watch)
    thread.start()
    world.end_with(lambda: (stop.set(), thread.join()))
    return names

"""Content of files: written where it must not be, read where it must not be, executed though it may not be read."""

import fcntl
import os
import threading

from case import Case, Policy, once
from world import ORIGINAL, SECRET

# Each changes, or takes away, the file at TARGET, which lies in the directory PLACE. OWN is a directory that may be
# written and lies on the same file system.
CHANGES = {
    "open to write": "write(TARGET)",
    "open to append": "write(TARGET, flags=os.O_WRONLY | os.O_APPEND)",
    "open to read and write, truncating": "write(TARGET, flags=os.O_RDWR | os.O_TRUNC)",
    "open to read, truncating": "os.open(TARGET, os.O_RDONLY | os.O_TRUNC)",
    "creat over it": "write(TARGET, flags=os.O_WRONLY | os.O_CREAT | os.O_TRUNC)",
    "truncate by path": "os.truncate(TARGET, 0)",
    "openat2": "how = struct.pack('QQQ', os.O_WRONLY | os.O_TRUNC, 0, 0)\ncall('openat2', AT_FDCWD, TARGET, how, 24)",
    "a symbolic link to it": "os.symlink(TARGET, OWN + '/link')\nwrite(OWN + '/link')",
    "forty symbolic links in a row": """
last = TARGET
for i in range(39):
    os.symlink(last, f'{OWN}/l{i}')
    last = f'{OWN}/l{i}'
write(last)""",
    "a link through a directory that is a link": "os.symlink(PLACE, OWN + '/d')\nwrite(OWN + '/d/precious')",
    "a hard link to it": "os.link(TARGET, OWN + '/hard')\nwrite(OWN + '/hard')",
    "a hard link by a descriptor": """
fd = os.open(TARGET, os.O_PATH)
call('linkat', AT_FDCWD, f'/proc/self/fd/{fd}', AT_FDCWD, OWN + '/hard', AT_SYMLINK_FOLLOW)
write(OWN + '/hard')""",
    "reopened from a descriptor to read": "write('/proc/self/fd/%d' % os.open(TARGET, os.O_RDONLY))",
    "reopened from an O_PATH descriptor": "write('/proc/self/fd/%d' % os.open(TARGET, os.O_PATH))",
    "through /proc/self/root": "write('/proc/self/root' + TARGET)",
    "through /proc/self/cwd and ..": "write('/proc/self/cwd/' + os.path.relpath(TARGET))",
    "relative to a directory's descriptor": """
fd = os.open(PLACE, os.O_PATH | os.O_DIRECTORY)
file = os.open('precious', os.O_WRONLY, dir_fd=fd)
os.write(file, b'changed')""",
    "relative after chdir": "os.chdir(PLACE)\nwrite('precious')",
    "with slashes and dots": "write(PLACE + '/.//./../' + os.path.basename(PLACE) + '//precious')",
    "by its handle": """
handle = ctypes.create_string_buffer(struct.pack('II', 128, 0) + bytes(128))
mount = ctypes.c_int()
call('name_to_handle_at', AT_FDCWD, TARGET, handle, ctypes.byref(mount), 0)
fd = call('open_by_handle_at', os.open(PLACE, os.O_RDONLY), handle, os.O_WRONLY)
os.write(fd, b'changed')""",
    "another file renamed over it": "write(OWN + '/new', flags=os.O_WRONLY | os.O_CREAT)\nos.rename(OWN + '/new', TARGET)",
    "exchanged with another file": """
write(OWN + '/new', flags=os.O_WRONLY | os.O_CREAT)
call('renameat2', AT_FDCWD, OWN + '/new', AT_FDCWD, TARGET, RENAME_EXCHANGE)""",
    "renamed away": "os.rename(TARGET, OWN + '/taken')",
    "unlinked": "os.unlink(TARGET)",
    "mapped to be written": """
import mmap
fd = os.open(TARGET, os.O_RDWR)
mmap.mmap(fd, 0)[0:3] = b'new'""",
    "copy_file_range": """
os.copy_file_range(os.open(SOURCE, os.O_RDONLY), os.open(TARGET, os.O_WRONLY), 4)""",
    "sendfile": "os.sendfile(os.open(TARGET, os.O_WRONLY), os.open(SOURCE, os.O_RDONLY), 0, 4)",
    "splice": """
r, w = os.pipe()
os.write(w, b'spliced')
out = os.open(TARGET, os.O_WRONLY)
libc.splice(r, None, out, None, 7, 0)""",
    "fallocate punching a hole": """
fd = os.open(TARGET, os.O_WRONLY)
libc.fallocate(fd, 3, ctypes.c_long(0), ctypes.c_long(4096))""",
    "by a child that outlives its parent": """

ended, end = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        try:
            write(TARGET)
        finally:
            os._exit(0)
    os._exit(0)
os.wait()
os.close(end)
os.read(ended, 1)""",
    "by another thread": "t = threading.Thread(target=lambda: write(TARGET))\nt.start()\nt.join()",
    "by a program that is executed": "os.system(f'echo changed >{TARGET}')",
    "in a root of its own": """
os.mkdir(OWN + '/root')
call('unshare', 0x10000000)
call('chroot', PLACE)
os.chdir('/')
write('/precious')""",
    "in a mount namespace, from beneath a bind mount": """
call('unshare', 0x10000000 | 0x00020000)
call('mount', PLACE, OWN + '/empty', None, 4096, None)
write(OWN + '/empty/precious')""",
    "exchanged for an allowed one during the call": """
write(OWN + '/bait', flags=os.O_WRONLY | os.O_CREAT)
os.symlink(TARGET, OWN + '/link')
def work():
    try:
        write(OWN + '/bait')
    except OSError:
        pass
    return read(TARGET) != b'original\\n'
swapping(work, (OWN + '/bait', OWN + '/link'))""",
}

# What a sandbox may well refuse altogether: their counterpart is an ordinary open.
WIDER = {
    "openat2",
    "by its handle",
    "in a root of its own",
    "in a mount namespace, from beneath a bind mount",
}

# Each makes something that was not there, in the directory PLACE.
CREATIONS = {
    "open with O_CREAT": "write(PLACE + '/made', flags=os.O_WRONLY | os.O_CREAT | os.O_EXCL)",
    "mkdir": "os.mkdir(PLACE + '/made')",
    "mkfifo": "os.mkfifo(PLACE + '/made')",
    "mknod": "os.mknod(PLACE + '/made')",
    "symlink": "os.symlink('/', PLACE + '/made')",
    "link": "os.link(SOURCE, PLACE + '/made')",
    "rename into it": "os.mkdir(OWN + '/new')\nos.rename(OWN + '/new', PLACE + '/made')",
    "an unnamed file that gets a name": """
fd = os.open(PLACE, os.O_TMPFILE | os.O_RDWR)
call('linkat', AT_FDCWD, f'/proc/self/fd/{fd}', AT_FDCWD, PLACE + '/made', AT_SYMLINK_FOLLOW)""",
    "bind of a Unix socket": "socket.socket(socket.AF_UNIX, socket.SOCK_STREAM).bind(PLACE + '/made')",
}

# Each brings the content of TARGET home; PLACE and OWN as above.
READS = {
    "open": "loot(read(TARGET))",
    "openat2": "loot(os.read(call('openat2', AT_FDCWD, TARGET, struct.pack('QQQ', 0, 0, 0), 24), 100))",
    "a symbolic link to it": "os.symlink(TARGET, OWN + '/link')\nloot(read(OWN + '/link'))",
    "a hard link to it": "os.link(TARGET, OWN + '/hard')\nloot(read(OWN + '/hard'))",
    "through /proc/self/root": "loot(read('/proc/self/root' + TARGET))",
    "reopened from an O_PATH descriptor": "loot(read('/proc/self/fd/%d' % os.open(TARGET, os.O_PATH)))",
    "relative to a directory's descriptor": """
fd = os.open(os.path.dirname(TARGET), os.O_PATH)
loot(os.read(os.open(os.path.basename(TARGET), os.O_RDONLY, dir_fd=fd), 100))""",
    "relative after chdir": "w = os.getcwd()\nos.chdir(os.path.dirname(TARGET))\ndata = read(os.path.basename(TARGET))\nos.chdir(w)\nloot(data)",
    "mapped": """
import mmap
fd = os.open(TARGET, os.O_RDONLY)
loot(mmap.mmap(fd, 0, prot=mmap.PROT_READ)[:])""",
    "copy_file_range": """
to = os.open('loot', os.O_WRONLY | os.O_CREAT)
os.copy_file_range(os.open(TARGET, os.O_RDONLY), to, 100)""",
    "by a program that is executed": "os.system(f'cat {TARGET} >>loot')",
    "as a script of the shell": "import subprocess\nloot(subprocess.run(['sh', '-x', TARGET], capture_output=True).stderr)",
    "by what its first line makes of it": """
import subprocess
fd = os.open(TARGET, os.O_WRONLY)
if libc.fallocate(fd, 0x20, ctypes.c_long(0), ctypes.c_long(4096)):
    raise OSError('fallocate')
os.pwrite(fd, b'#!/bin/cat\\n', 0)
os.fchmod(fd, 0o755)
os.close(fd)
loot(subprocess.run([TARGET], capture_output=True).stdout)""",
    "moved to where it may be read": "os.rename(TARGET, OWN + '/taken')\nloot(read(OWN + '/taken'))",
    "after its directory was moved": """
place = os.path.dirname(TARGET)
os.rename(place, place + '-moved')
loot(read(place + '-moved/' + os.path.basename(TARGET)))""",
    "exchanged for an allowed one during the call": """
write(OWN + '/bait', flags=os.O_WRONLY | os.O_CREAT)
os.symlink(TARGET, OWN + '/link')
def work():
    try:
        data = read(OWN + '/bait')
    except OSError:
        return False
    if data and data != b'changed\\n':
        loot(data)
        return True
swapping(work, (OWN + '/bait', OWN + '/link'))""",
}


def changes():
    for what, (target, later) in {
        "outside": ("outside/precious", 0),
        "protected inside": ("work/protected/precious", 0),
    }.items():
        for name, code in CHANGES.items():
            yield Case(
                f"A file {what} is changed",
                name,
                code,
                lambda world, target=target: is_changed(world, target),
                "write(TARGET)" if name in WIDER else once(code),
                lambda world: is_changed(world, "work/own/precious"),
                setup=lambda world, target=target: names(world, target),
            )
    for what, place in {"outside": "outside", "in a protected directory": "work/protected"}.items():
        for name, code in CREATIONS.items():
            yield Case(
                f"Something is made {what}",
                name,
                code,
                lambda world, place=place: (world.top / place / "made").is_symlink()
                or (world.top / place / "made").exists(),
                code,
                lambda world: (world.work / "own/made").is_symlink() or (world.work / "own/made").exists(),
                policy=Policy(sockets=("work/own/made",)),
                setup=lambda world, place=place: names(world, place + "/precious"),
            )


def ways_round():
    """What changes a protected place by what is around it."""

    def is_another(world, index, name):
        path = world.work / name
        return path.is_symlink() or not (path / "precious").exists() or path.stat().st_ino != world.protected[index]

    ways = {
        "its directory renamed away": ("os.rename('protected', 'gone')", "os.rename('own', 'gone')"),
        "its directory replaced by a link": (
            "os.rename('protected', 'gone')\nos.symlink('own', 'protected')",
            "os.rename('own', 'gone')\nos.symlink('.', 'own')",
        ),
        "its directory exchanged": (
            "call('renameat2', AT_FDCWD, 'protected', AT_FDCWD, 'own', RENAME_EXCHANGE)",
            "os.mkdir('other')\ncall('renameat2', AT_FDCWD, 'own', AT_FDCWD, 'other', RENAME_EXCHANGE)",
        ),
        "its directory removed with all in it": (
            "import shutil\nshutil.rmtree('protected')",
            "import shutil\nshutil.rmtree('own')",
        ),
    }
    for name, (attack, allowed) in ways.items():
        yield Case(
            "A file protected inside is changed",
            name,
            attack,
            lambda world: is_another(world, 0, "protected"),
            allowed,
            lambda world: is_another(world, 1, "own"),
        )
    yield Case(
        "A file outside is changed",
        "through a link that an earlier run left where this one may write",
        "write('target/precious')",
        lambda world: is_changed(world, "outside/precious"),
        "write('target/precious')",
        lambda world: is_changed(world, "work/target/precious"),
        policy=Policy(write=("work/own", "work/target"), deny_write=()),
        setup=left_by_a_run,
    )
    yield Case(
        "A file protected inside is changed",
        "made where a denied path is missing",
        "write('missing', flags=os.O_WRONLY | os.O_CREAT)",
        lambda world: (world.work / "missing").exists() and (world.work / "missing").read_bytes() == b"changed\n",
        "write('present', flags=os.O_WRONLY | os.O_CREAT)",
        lambda world: (world.work / "present").exists(),
        policy=Policy(deny_write=("work/missing",)),
    )


def left_by_a_run(world):
    target = world.work / "target"
    if world.is_counterpart:
        target.mkdir()
        (target / "precious").write_bytes(ORIGINAL)
    else:
        target.symlink_to("../outside")
    return {}


def locked(world):
    """Somebody outside who finds a file locked; `seen` is there once it was."""
    target = world.top / ("work/own/precious" if world.is_counterpart else "outside/precious")
    world.was_locked, is_over = threading.Event(), threading.Event()

    def watch():
        with target.open() as file:
            while not is_over.wait(0.01):
                try:
                    fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                    fcntl.flock(file, fcntl.LOCK_UN)
                except BlockingIOError:
                    world.was_locked.set()
                    (world.work / "seen").touch()
                    return

    thread = threading.Thread(target=watch)
    thread.start()
    world.end_with(lambda: (is_over.set(), thread.join()))
    return {"TARGET": str(target)}


def locks():
    code = """
import fcntl
file = open(TARGET)
fcntl.flock(file, fcntl.LOCK_EX)
end = time.monotonic() + 10
while not os.path.exists('seen') and time.monotonic() < end:
    time.sleep(0.01)"""
    yield Case(
        "A program outside is held up", "by a lock on a file that may only be read", code,
        lambda world: world.was_locked.is_set(), code, lambda world: world.was_locked.is_set(), setup=locked,
    )


def told():
    """What SECURITY.md says that landstrip does not protect against."""
    group = "What landstrip does not protect against"
    yield Case(
        group, "a file outside is changed by a hard link that lay in the work tree",
        "write('own/hard')", lambda world: is_changed(world, "outside/precious"),
        "write('own/precious')", lambda world: is_changed(world, "work/own/precious"),
        setup=lambda world: os.link(world.outside / "precious", world.work / "own/hard") or {}, is_told=True,
    )
    yield Case(
        group, "the size of a secret is seen",
        "loot(f'{os.stat(TARGET).st_size} bytes')", lambda world: f"{len(SECRET)} bytes".encode() in world.loot(),
        "loot(f'{os.stat(TARGET).st_size} bytes')", lambda world: f"{len(ORIGINAL)} bytes".encode() in world.loot(),
        setup=lambda world: names(world, "home/.ssh/id"), is_told=True,
    )


def reads():
    for what, (target, readable) in {
        "outside": ("home/.ssh/id", "home/notes"),
        "inside what may be written": ("work/.env", "work/own/precious"),
    }.items():
        for name, code in READS.items():
            if ("moved" in name or "first line" in name) and what == "outside":
                continue
            moves = "directory was moved" in name
            yield Case(
                f"A secret {what} is read",
                name,
                code,
                lambda world: SECRET.strip() in world.loot() + world.output,
                "loot(read(TARGET))" if name in WIDER else once(code),
                lambda world: ORIGINAL.strip() in world.loot() + world.output,
                policy=Policy(deny_read=("work/sub/.env",)) if moves else Policy(),
                setup=lambda world, name=name, moves=moves, target=target, readable=readable: (
                    moved_names(world) if moves else {**names(world, target), "ALLOWED_TARGET": str(world.top / (readable if "hard" not in name else "work/own/precious"))}
                ),
            )
    yield Case(
        "A secret outside is read",
        "its directory listed",
        "loot(' '.join(os.listdir(HOME + '/.ssh')))",
        lambda world: b"id" in world.loot(),
        "loot(' '.join(os.listdir(HOME)))",
        lambda world: b"notes" in world.loot(),
        setup=lambda world: {"HOME": str(world.home)},
    )
    yield Case(
        "A secret outside is read",
        "from a descriptor that the caller had open",
        "for fd in range(3, 64):\n    try:\n        loot(os.pread(fd, 100, 0))\n    except OSError:\n        pass",
        lambda world: SECRET.strip() in world.loot(),
        "loot(os.pread(os.open('own/precious', os.O_RDONLY), 100, 0))",
        lambda world: ORIGINAL.strip() in world.loot(),
        setup=lambda world: {"INHERIT": str(world.home / ".ssh/id")},
    )


def executions():
    ways = {
        "executed": "import subprocess\nsubprocess.run([TOOL])",
        "executed through a link": "import subprocess\nos.symlink(TOOL, 'own/link')\nsubprocess.run(['own/link'])",
        "executed by its descriptor": """
fd = os.open(TOOL, os.O_PATH)
os.set_inheritable(fd, True)
os.execve(f'/proc/self/fd/{fd}', ['tool'], dict(os.environ))""",
        "executed through a hard link": "import subprocess\nos.link(TOOL, 'own/hard')\nsubprocess.run(['own/hard'])",
        "executed after it was moved": "import subprocess\nos.rename(TOOL, 'own/moved')\nsubprocess.run(['own/moved'])",
        "executed after it was copied": "import shutil, subprocess\nshutil.copy(TOOL, 'own/copy')\nsubprocess.run(['own/copy'])",
        "as the interpreter of a script": """
import subprocess
write('own/script', f'#!{TOOL}\\n'.encode(), os.O_WRONLY | os.O_CREAT)
os.chmod('own/script', 0o700)
subprocess.run(['own/script'])""",
        "by a shell that reads it": "import subprocess\nsubprocess.run(['sh', TOOL])",
    }
    for name, code in ways.items():
        yield Case(
            "What may not be read is executed",
            name,
            code,
            lambda world: b"executed" in world.loot(),
            code,
            lambda world: b"executed" in world.loot(),
            setup=lambda world: {"TOOL": str(world.work / ".tool"), "ALLOWED_TOOL": str(world.work / "own/tool")},
        )


def names(world, target):
    path = world.top / target
    return {
        "TARGET": str(path),
        "PLACE": str(path.parent),
        "OWN": str(world.work / "own"),
        "SOURCE": str(world.work / "source"),
        "ALLOWED_TARGET": str(world.work / "own/precious"),
        "ALLOWED_PLACE": str(world.work / "own"),
        "ALLOWED_OWN": str(world.work),
    }


def moved_names(world):
    for place, content in (("sub", SECRET), ("other", ORIGINAL)):
        (world.work / place).mkdir()
        (world.work / place / ".env").write_bytes(content)
    return {
        "TARGET": str(world.work / "sub/.env"),
        "OWN": str(world.work / "own"),
        "ALLOWED_TARGET": str(world.work / "other/.env"),
    }


def is_changed(world, target):
    path = world.top / target
    return not path.exists() or path.read_bytes() != ORIGINAL


def cases():
    yield from changes()
    yield from ways_round()
    yield from reads()
    yield from executions()
    yield from locks()
    yield from told()

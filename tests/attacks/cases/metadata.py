"""Modes, owners, times and attributes of files that must not be written."""

import os
import stat

from case import Case, once

# Each changes the metadata of TARGET. FS_NODUMP_FL is an attribute that its owner may set.
WAYS = {
    "chmod": ("os.chmod(TARGET, 0o751)", "mode"),
    "fchmod of a descriptor to read": ("os.fchmod(os.open(TARGET, os.O_RDONLY), 0o751)", "mode"),
    "chmod through an O_PATH descriptor": (
        "os.chmod('/proc/self/fd/%d' % os.open(TARGET, os.O_PATH), 0o751)",
        "mode",
    ),
    "fchmodat2 of an O_PATH descriptor": (
        "call('fchmodat2', os.open(TARGET, os.O_PATH), '', 0o751, AT_EMPTY_PATH)",
        "mode",
    ),
    "chmod through a symbolic link": ("os.symlink(TARGET, OWN + '/link')\nos.chmod(OWN + '/link', 0o751)", "mode"),
    "chmod through a hard link": ("os.link(TARGET, OWN + '/hard')\nos.chmod(OWN + '/hard', 0o751)", "mode"),
    "utime": ("os.utime(TARGET, (1, 1))", "time"),
    "futimens of a descriptor to read": ("os.utime(os.open(TARGET, os.O_RDONLY), (1, 1))", "time"),
    "utime of what the working directory is": (
        "os.chdir(os.path.dirname(TARGET))\nos.utime(os.path.basename(TARGET), (1, 1))",
        "time",
    ),
    "setxattr": ("os.setxattr(TARGET, 'user.mark', b'1')", "attribute"),
    "fsetxattr of a descriptor to read": (
        "os.setxattr(os.open(TARGET, os.O_RDONLY), 'user.mark', b'1')",
        "attribute",
    ),
    "an access list": (
        # acl(5) as the kernel keeps it: one more user may read.
        "os.setxattr(TARGET, 'system.posix_acl_access', struct.pack('<I', 2) + b''.join(struct.pack('<HHI', *e)"
        " for e in ((1, 6, 2**32 - 1), (2, 4, 4242), (4, 4, 2**32 - 1), (16, 4, 2**32 - 1), (32, 4, 2**32 - 1))))",
        "list",
    ),
    "FS_IOC_SETFLAGS": (
        "import fcntl\nfcntl.ioctl(os.open(TARGET, os.O_RDONLY), 0x40086602, struct.pack('l', 0x40))",
        "flags",
    ),
    "exchanged for an allowed one during the call": (
        """
write(OWN + '/bait', flags=os.O_WRONLY | os.O_CREAT)
os.symlink(TARGET, OWN + '/link')
def work():
    try:
        os.chmod(OWN + '/bait', 0o751)
    except OSError:
        pass
    return os.stat(TARGET).st_mode & 0o7777 == 0o751
swapping(work, (OWN + '/bait', OWN + '/link'))""",
        "mode",
    ),
}


def has_changed(path, what):
    found = os.stat(path)
    if what == "mode":
        return stat.S_IMODE(found.st_mode) == 0o751
    if what == "time":
        return found.st_mtime == 1
    if what == "attribute":
        return "user.mark" in os.listxattr(path)
    if what == "list":
        return "system.posix_acl_access" in os.listxattr(path)
    return has_flag(path)


def has_flag(path):
    import fcntl
    import struct

    fd = os.open(path, os.O_RDONLY)
    try:
        return bool(struct.unpack("l", fcntl.ioctl(fd, 0x80086601, bytes(8)))[0] & 0x40)
    finally:
        os.close(fd)


def has_bit(path):
    return path.exists() and bool(os.stat(path).st_mode & (stat.S_ISUID | stat.S_ISGID))


def cases():
    for where, target in {"outside": "outside/precious", "protected inside": "work/protected/precious"}.items():
        for name, (code, what) in WAYS.items():
            yield Case(
                f"Metadata of a file {where} is changed",
                name,
                code,
                lambda world, target=target, what=what: has_changed(world.top / target, what),
                "os.chmod(TARGET, 0o751)" if what == "flags" else once(code),
                lambda world, what=what: has_changed(world.work / "own/precious", "mode" if what == "flags" else what),
                setup=lambda world, target=target: {
                    "TARGET": str(world.top / target),
                    "OWN": str(world.work / "own"),
                    "ALLOWED_TARGET": str(world.work / "own/precious"),
                },
            )
    for name, code in {
        "chmod with the set-user-ID bit, of a file of the command's own": "os.chmod('own/tool', 0o4755)",
        "chmod with the set-group-ID bit": "os.chmod('own/tool', 0o2755)",
        "fchmod": "os.fchmod(os.open('own/tool', os.O_RDONLY), 0o4755)",
        "fchmodat2": "call('fchmodat2', AT_FDCWD, 'own/tool', 0o4755, 0)",
        "a new file with the bit": "os.unlink('own/tool')\nos.close(os.open('own/tool', os.O_WRONLY | os.O_CREAT, 0o4755))",
        "mknod with the bit": "os.unlink('own/tool')\nos.mknod('own/tool', 0o104755)",
        "an unnamed file with the bit, that gets a name": """
os.unlink('own/tool')
fd = os.open('own', os.O_TMPFILE | os.O_WRONLY, 0o4755)
call('linkat', AT_FDCWD, f'/proc/self/fd/{fd}', AT_FDCWD, 'own/tool', AT_SYMLINK_FOLLOW)""",
    }.items():
        yield Case(
            "A program gets its owner's rights for others",
            name,
            code,
            lambda world: has_bit(world.work / "own/tool"),
            "os.chmod('own/tool', 0o700)",
            lambda world: stat.S_IMODE(os.stat(world.work / "own/tool").st_mode) == 0o700,
        )

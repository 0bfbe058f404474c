"""Parts of the kernel that a command does not need and that ways out have begun with: whether they answer at all."""

from case import Case

# A call that succeeds says so.
CALLS = {
    "io_uring": "call('io_uring_setup', 4, ctypes.create_string_buffer(120))",
    "bpf": "call('bpf', 0, struct.pack('IIIII', 2, 4, 4, 4, 0) + bytes(52), 72)",
    "perf events": "call('perf_event_open', struct.pack('IIQ', 1, 112, 0) + bytes(96), 0, -1, -1, 0)",
    "userfaultfd": "call('userfaultfd', 1)",
    "keys: add_key": "call('add_key', 'user', 'attacks', b'x', 1, -2)",
    "keys: the session's keyring": "call('keyctl', 0, -3, 0)",
    "a user namespace": "call('unshare', 0x10000000)",
    "the new mount API": "call('fsopen', 'tmpfs', 0)",
    "watching all files": "call('fanotify_init', 0x200, 0)",
    "a listener that answers system calls": """
libc.prctl(38, 1, 0, 0, 0)
program = struct.pack('HBBI', 6, 0, 0, 0x7fff0000)
buffer = ctypes.create_string_buffer(program)
call('seccomp', 1, 8, struct.pack('HxxxxxxQ', 1, ctypes.addressof(buffer)))""",
    "packet sockets": "socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, 0)",
    "virtual machines' sockets": "socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM)",
    "the kernel's cryptography": "socket.socket(socket.AF_ALG, socket.SOCK_SEQPACKET).bind(('hash', 'sha256'))",
    "netlink beyond routes": "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 15)",
}


def cases():
    for name, code in CALLS.items():
        yield Case(
            "A part of the kernel answers that the command does not need",
            name,
            code + "\nloot('answered')",
            lambda world: b"answered" in world.loot(),
            "import mmap\nmmap.mmap(-1, 4096)\nos.pipe()\nloot('done')",
            lambda world: b"done" in world.loot(),
        )

"""Addresses and sockets outside that must not be reached, and servers that must not be offered."""

import os
import socket
import threading

from case import Case, Policy

STREAM, DATAGRAM, SEQPACKET = socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET

# Each reaches a TCP server at PORT of 127.0.0.1, and sends TOKEN: others connect to ports, too.
TCP = {
    "connect": "socket.create_connection(('127.0.0.1', PORT)).send(TOKEN)",
    "connect to a mapped address": """
s = socket.socket(socket.AF_INET6)
s.connect(('::ffff:127.0.0.1', PORT))
s.send(TOKEN)""",
    "connect to 0.0.0.0": "s = socket.socket()\ns.connect(('0.0.0.0', PORT))\ns.send(TOKEN)",
    "connect to another address of loopback": "s = socket.socket()\ns.connect(('127.1.2.3', PORT))\ns.send(TOKEN)",
    "connect that does not wait": """
import select
s = socket.socket()
s.setblocking(False)
s.connect_ex(('127.0.0.1', PORT))
select.select([], [s], [], 5)
s.send(TOKEN)""",
    "a message with MSG_FASTOPEN": "socket.socket().sendto(TOKEN, MSG_FASTOPEN, ('127.0.0.1', PORT))",
    "sendmsg with MSG_FASTOPEN": "socket.socket().sendmsg([TOKEN], [], MSG_FASTOPEN, ('127.0.0.1', PORT))",
    "TCP_FASTOPEN_CONNECT": """
s = socket.socket()
s.setsockopt(socket.IPPROTO_TCP, 30, 1)
s.connect(('127.0.0.1', PORT))
s.send(TOKEN)""",
    "multipath TCP": """
s = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262)
s.connect(('127.0.0.1', PORT))
s.send(TOKEN)""",
    "a connect that is repeated after AF_UNSPEC": """
s = socket.socket()
try:
    s.connect(('127.0.0.1', 1))
except OSError:
    pass
libc.connect(s.fileno(), b'\\0' * 16, 16)
s.connect(('127.0.0.1', PORT))
s.send(TOKEN)""",
    "from a thread": """
def go():
    try:
        socket.create_connection(('127.0.0.1', PORT)).send(TOKEN)
    except OSError:
        pass
t = threading.Thread(target=go)
t.start()
t.join()""",
    "by a program that is executed": """
os.system(f'curl -s --noproxy "*" -m 2 http://127.0.0.1:{PORT}/{TOKEN.decode()} || true')""",
    "an address that changes during the call": """
buffer = ctypes.create_string_buffer(struct.pack('!HH4s8x', 0, 1, bytes((127, 0, 0, 1))), 16)
struct.pack_into('=H', buffer, 0, socket.AF_INET)
stop = threading.Event()
def change():
    while not stop.is_set():
        struct.pack_into('!H', buffer, 2, PORT)
        struct.pack_into('!H', buffer, 2, 1)
t = threading.Thread(target=change)
t.start()
for _ in range(2000):
    s = socket.socket()
    if libc.connect(s.fileno(), buffer, 16) == 0:
        s.send(TOKEN)
        s.close()
        break
    s.close()
stop.set()
t.join()""",
}
# Each sends a datagram to PORT of 127.0.0.1.
UDP = {
    "sendto": "socket.socket(type=socket.SOCK_DGRAM).sendto(TOKEN, ('127.0.0.1', PORT))",
    "connect and send": "s = socket.socket(type=socket.SOCK_DGRAM)\ns.connect(('127.0.0.1', PORT))\ns.send(TOKEN)",
    "sendmsg": "socket.socket(type=socket.SOCK_DGRAM).sendmsg([TOKEN], [], 0, ('127.0.0.1', PORT))",
    "by IPv6, to a mapped address": """
socket.socket(socket.AF_INET6, socket.SOCK_DGRAM).sendto(TOKEN, ('::ffff:127.0.0.1', PORT))""",
}
# Each reaches the Unix stream socket at PATH.
UNIX = {
    "connect": "socket.socket(socket.AF_UNIX).connect(PATH)",
    "connect by a symbolic link": "os.symlink(PATH, 'own/link')\nsocket.socket(socket.AF_UNIX).connect('own/link')",
    "connect relative after chdir": "os.chdir(os.path.dirname(PATH))\nsocket.socket(socket.AF_UNIX).connect(os.path.basename(PATH))",
    "connect through /proc/self/root": "socket.socket(socket.AF_UNIX).connect('/proc/self/root' + PATH)",
    "connect through a descriptor": """
fd = os.open(os.path.dirname(PATH), os.O_PATH)
socket.socket(socket.AF_UNIX).connect(f'/proc/self/fd/{fd}/' + os.path.basename(PATH))""",
    "connect through a hard link": "os.link(PATH, 'own/hard')\nsocket.socket(socket.AF_UNIX).connect('own/hard')",
    "connect to what was moved to where it may be written": "os.rename(PATH, 'own/moved')\nsocket.socket(socket.AF_UNIX).connect('own/moved')",
}

def port_server(kind, host):
    def setup(world):
        token = "token-" + os.urandom(8).hex()
        world.reached = world.server(socket.AF_INET, kind, (host, 0), token.encode())
        return {"PORT": world.reached.port, "TOKEN_TEXT": token}

    return setup


def unix_server(kind, path="outside/socket"):
    def setup(world):
        address = str(world.top / path)
        world.reached = world.server(socket.AF_UNIX, kind, address)
        return {"PATH": address}

    return setup


def abstract_server(kind):
    def setup(world):
        name = "attacks-" + world.top.name
        world.reached = world.server(socket.AF_UNIX, kind, "\0" + name)
        return {"NAME": name}

    return setup


def reached(world):
    return bool(world.reached)


def done(world):
    return b"done" in world.loot()


OWN_TCP = """
l = socket.create_server(('127.0.0.1', 0))
c = socket.create_connection(l.getsockname())
loot('done')"""
OWN_UDP = """
l = socket.socket(type=socket.SOCK_DGRAM)
l.bind(('127.0.0.1', 0))
s = socket.socket(type=socket.SOCK_DGRAM)
s.sendto(b'x', l.getsockname())
l.settimeout(5)
l.recv(1)
loot('done')"""
OWN_PAIR = "a, b = socket.socketpair()\na.send(b'x')\nb.recv(1)\nloot('done')"

# A server is offered to others: each says in the file `port` where.
OFFERS = {
    "bind and listen at all addresses": "l = socket.socket()\nl.bind(('0.0.0.0', 0))\nl.listen()",
    "listen without bind": "l = socket.socket()\nl.listen()",
    "bind and listen at loopback": "l = socket.socket()\nl.bind(('127.0.0.1', 0))\nl.listen()",
    "multipath TCP": "l = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262)\nl.bind(('0.0.0.0', 0))\nl.listen()",
}


def cases():
    for name, code in TCP.items():
        code = "TOKEN = TOKEN_TEXT.encode()\n" + code
        yield Case("A TCP server outside is reached", name, code, reached, OWN_TCP, done,
                   policy=Policy(local=True), setup=port_server(STREAM, "0.0.0.0"))
    for name, code in UDP.items():
        code = "TOKEN = TOKEN_TEXT.encode()\n" + code
        yield Case("A datagram is sent to a server outside", name, code, reached, OWN_UDP, done,
                   policy=Policy(local=True), setup=port_server(DATAGRAM, "127.0.0.1"))
    for name, code in OFFERS.items():
        yield Case(
            "A server is offered to processes outside",
            name,
            code + "\nwrite('port', str(l.getsockname()[1]).encode(), os.O_WRONLY | os.O_CREAT)\n"
            "l.settimeout(5)\nc, _ = l.accept()\nloot(c.recv(8))",
            lambda world: b"visited" in world.loot(),
            OWN_PAIR,
            done,
            setup=visitor,
        )
    for name, code in UNIX.items():
        yield Case("A Unix socket outside is reached", name, code, reached, OWN_PAIR, done,
                   setup=unix_server(STREAM))
    yield Case(
        "A Unix socket outside is reached", "connect of a seqpacket socket",
        "socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET).connect(PATH)",
        reached, OWN_PAIR, done, setup=unix_server(SEQPACKET),
    )
    for name, code in {
        "a datagram to its path": "socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b'data', PATH)",
        "a datagram by sendmsg": "socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendmsg([b'data'], [], 0, PATH)",
        "a datagram from a socket of a pair": "a, b = socket.socketpair(type=socket.SOCK_DGRAM)\na.sendto(b'data', PATH)",
        "a datagram by connect": "s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)\ns.connect(PATH)\ns.send(b'data')",
    }.items():
        yield Case("A Unix socket outside is reached", name, code, reached, OWN_PAIR, done,
                   setup=unix_server(DATAGRAM))
    for kind, name, code in (
        (STREAM, "connect to an abstract name", "socket.socket(socket.AF_UNIX).connect('\\0' + NAME)"),
        (DATAGRAM, "a datagram to an abstract name",
         "socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b'data', '\\0' + NAME)"),
    ):
        yield Case("A Unix socket outside is reached", name, code, reached, OWN_PAIR, done,
                   setup=abstract_server(kind))
    yield Case(
        "A Unix socket outside is reached", "another one than the one that is allowed",
        "socket.socket(socket.AF_UNIX).connect(PATH)", reached,
        "socket.socket(socket.AF_UNIX).connect(PATH)", reached,
        policy=Policy(sockets=("outside/allowed",)),
        setup=lambda world: {**unix_server(STREAM)(world), "ALLOWED_PATH": allowed_socket(world)},
    )


def allowed_socket(world):
    """A second server; in the world of the counterpart it is the one that counts."""
    address = str(world.top / "outside/allowed")
    second = world.server(socket.AF_UNIX, STREAM, address)
    if world.is_counterpart:
        world.reached = second
    return address


def visitor(world):
    """Somebody outside who connects to the server that the command offers, once it says where."""
    stop = threading.Event()

    def visit():
        while not stop.wait(0.02):
            try:
                port = int((world.work / "port").read_text())
                socket.create_connection(("127.0.0.1", port), timeout=1).send(b"visited")
                return
            except (OSError, ValueError):
                pass

    thread = threading.Thread(target=visit)
    thread.start()
    world.end_with(lambda: (stop.set(), thread.join()))
    return {}

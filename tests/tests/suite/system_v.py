# Calls on semaphores, queues and segments with what they return, one line each: the same in a sandbox and outside.
import ctypes, errno, os, signal, struct, sys, time

libc = ctypes.CDLL(None, use_errno=True)
libc.shmat.restype = ctypes.c_void_p
CREATE, EXCL, NOWAIT, UNDO = 0o1000, 0o2000, 0o4000, 0x1000
RMID, SET, STAT = 0, 1, 2
GETPID, GETVAL, GETALL, GETNCNT, GETZCNT, SETVAL, SETALL = 11, 12, 13, 14, 15, 16, 17
EXCEPT, NOERROR = 0o20000, 0o10000
LONG, NULL = ctypes.c_long, ctypes.c_void_p(None)


def do(function, *arguments):
    result = function(*arguments)
    if result in (-1, 2**64 - 1):
        return errno.errorcode[ctypes.get_errno()]
    return result


def tell(name, *results):
    print(name + "=" + " ".join(map(str, results)), flush=True)


def semop(id, *operations, limit=None):
    packed = b"".join(struct.pack("Hhh", *(operation + (0,))[:3]) for operation in operations)
    if limit is None:
        return do(libc.semop, id, packed, len(operations))
    return do(libc.semtimedop, id, packed, len(operations), struct.pack("qq", *limit))


def semctl(id, number, command, argument=0):
    return do(libc.semctl, id, number, command, argument)


def send(id, kind, text, flags=NOWAIT):
    return do(libc.msgsnd, id, struct.pack("q", kind) + text, LONG(len(text)), flags)


def receive(id, size, kind=0, flags=NOWAIT):
    buffer = ctypes.create_string_buffer(8 + max(size, 0))
    got = do(libc.msgrcv, id, buffer, LONG(size), LONG(kind), flags)
    return got if isinstance(got, str) else (got, struct.unpack("q", buffer[:8])[0], buffer[8 : 8 + got])


def status(function, id, words, *rest):
    buffer = ctypes.create_string_buffer(words * 8)
    result = do(function, id, *rest, STAT, buffer)
    return result if isinstance(result, str) else struct.unpack("%dQ" % words, buffer.raw)


def child(work):
    """Has a child do `work`; returns what waits for its result."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        os.write(writer, str(work()).encode())
        os._exit(0)
    os.close(writer)

    def end():
        with os.fdopen(reader) as pipe:
            result = pipe.read()
        os.waitpid(pid, 0)
        return result

    end.pid = pid
    return end


def until(wanted, look):
    while look() != wanted:
        time.sleep(0.001)


# Before any child is made, which inherits it: one that has not got so far is not ended by the signal.
signal.signal(signal.SIGUSR1, lambda *_: None)


# Semaphores.
own = libc.semget(0, 3, CREATE | 0o600)
tell("sem-sizes", *(do(libc.semget, 0, number, CREATE | 0o600) for number in (0, -1, 32001)))
key = 0x51000000 + os.getpid()
keyed = libc.semget(key, 2, CREATE | EXCL | 0o600)
tell("sem-key", do(libc.semget, key, 0, 0) == keyed, do(libc.semget, key, 2, CREATE) == keyed)
tell("sem-key-errors", do(libc.semget, key, 3, 0), do(libc.semget, key, 1, CREATE | EXCL), do(libc.semget, key + 1, 1, 0))
tell("sem-removed", semctl(keyed, 0, RMID), semctl(keyed, 0, RMID), do(libc.semget, key, 0, 0), semop(keyed, (0, 1)))
tell("setval", semctl(own, 0, SETVAL, 5), semctl(own, 0, GETVAL), semctl(own, 3, GETVAL), semctl(own, -1, GETVAL))
tell("setval-range", semctl(own, 0, SETVAL, -1), semctl(own, 0, SETVAL, 32768), semctl(-1, 0, SETVAL, -1), semctl(own, 9, SETVAL, 1))
tell("setall", semctl(own, 0, SETALL, struct.pack("3H", 1, 2, 3)), semctl(own, 0, SETALL, struct.pack("3H", 1, 40000, 3)))
values = ctypes.create_string_buffer(6)
tell("getall", semctl(own, 0, GETALL, values), struct.unpack("3H", values.raw), semctl(own, 0, GETALL, NULL))
tell("pid", semctl(own, 0, GETPID) == os.getpid())
tell("semop", semop(own, (0, -1), (1, 3), (2, 0x7FFF - 3)), *(semctl(own, number, GETVAL) for number in range(3)))
tell("semop-errors", semop(own), semop(own, *[(0, 1)] * 501), semop(own, (3, 1)), semop(-1, (0, 1)), do(libc.semop, own, NULL, 1))
tell("semop-range", semop(own, (0, 7), (2, 1)), semctl(own, 0, GETVAL))
tell("semop-nowait", semop(own, (1, 1), (0, -9, NOWAIT)), semctl(own, 1, GETVAL), semop(own, (1, 0, NOWAIT)), semop(own, (0, 0)))
tell("semop-in-turn", semop(own, (0, 2), (0, -1), (0, -1), (0, 0)), semctl(own, 0, GETVAL))
tell("limit", semop(own, (0, -1), limit=(0, 1000000)), semop(own, (0, -1), limit=(0, 0)))
tell("limit-errors", semop(own, (0, -1), limit=(-1, 0)), semop(own, (0, -1), limit=(0, 10**9)), semop(own, (0, 1), limit=(1, 0)))
tell("commands", *(semctl(own, 0, command) for command in (99, SET)))
semctl(own, 0, SETALL, struct.pack("3H", 0, 0, 0))

waiter = child(lambda: semop(own, (0, -2)))
until(1, lambda: semctl(own, 0, GETNCNT))
tell("waits", semctl(own, 0, GETZCNT), semctl(own, 1, GETNCNT), semop(own, (0, 1)), semctl(own, 0, GETNCNT))
tell("woken", semop(own, (0, 2)), waiter(), semctl(own, 0, GETVAL), semctl(own, 0, GETPID) == waiter.pid)
waiter = child(lambda: semop(own, (0, 0), (1, 4)))
until(1, lambda: semctl(own, 0, GETZCNT))
tell("zero", semop(own, (0, -1)), waiter(), semctl(own, 1, GETVAL))
waiter = child(lambda: semop(own, (0, -1)))
until(1, lambda: semctl(own, 0, GETNCNT))
os.kill(waiter.pid, signal.SIGUSR1)
tell("interrupted", waiter(), semctl(own, 0, GETNCNT))
waiter = child(lambda: semop(own, (0, -1)))
until(1, lambda: semctl(own, 0, GETNCNT))
os.kill(waiter.pid, signal.SIGKILL)
tell("killed", waiter(), semctl(own, 0, GETNCNT), semop(own, (0, 1)), semctl(own, 0, GETVAL))
first = child(lambda: semop(own, (2, -1)))
until(1, lambda: semctl(own, 2, GETNCNT))
second = child(lambda: semop(own, (2, -1)))
until(2, lambda: semctl(own, 2, GETNCNT))
tell("in-order", semop(own, (2, 1)), first(), semctl(own, 2, GETNCNT), semop(own, (2, 1)), second())

semctl(own, 0, SETALL, struct.pack("3H", 5, 5, 0))
tell("undone", child(lambda: semop(own, (0, 3, UNDO), (1, -4, UNDO)))(), *(semctl(own, number, GETVAL) for number in range(2)))
holder = child(lambda: (semop(own, (2, 1), (1, -5, UNDO)), signal.pause()))
until(1, lambda: semctl(own, 2, GETVAL))
waiter = child(lambda: semop(own, (1, -5)))
until(1, lambda: semctl(own, 1, GETNCNT))
os.kill(holder.pid, signal.SIGKILL)
tell("handed-over", holder(), waiter(), semctl(own, 1, GETVAL))
tell("undo-forgotten", child(lambda: (semop(own, (0, 3, UNDO)), semctl(own, 0, SETVAL, 9)))(), semctl(own, 0, GETVAL))
tell("undo-range", *(semop(own, (2, 0x7000, UNDO), (2, -0x7000)) for _ in range(2)), semctl(own, 2, SETVAL, 0))

waiter = child(lambda: semop(own, (2, -1)))
until(1, lambda: semctl(own, 2, GETNCNT))
before = status(libc.semctl, own, 13, 0)
tell("sem-status", before[:2] == (os.getuid() << 32, os.getgid() | os.getuid() << 32), before[2] >> 32, len(before), 3 in before)
tell("sem-gone", semctl(own, 0, RMID), waiter())

# Queues.
queue = libc.msgget(0, CREATE | 0o600)
tell("send", *(send(queue, kind, b"%d" % kind * kind) for kind in (3, 1, 2, 1, 5)))
tell("send-errors", send(queue, 0, b""), send(queue, -1, b""), send(queue, 1, b"x" * 8193), send(-1, 1, b""), do(libc.msgsnd, queue, NULL, LONG(0), 0))
tell("receive-cut", receive(queue, 1, 5), receive(queue, 1, 5, NOWAIT | NOERROR), receive(queue, 9, 5))
tell("receive", receive(queue, 9, -2), receive(queue, 9, 3, NOWAIT | EXCEPT), receive(queue, 9), receive(queue, 9), receive(queue, 9))
tell("receive-errors", receive(queue, -1), receive(-1, 1), send(queue, 1, b"a"), do(libc.msgrcv, queue, NULL, LONG(1), LONG(0), 0), receive(queue, 9))
tell("full", *(send(queue, 1, b"x" * 8192) for _ in range(3)), send(queue, 1, b"x"), send(queue, 1, b""))
sender = child(lambda: send(queue, 7, b"waited", 0))
tell("room", receive(queue, 8192)[0], sender(), receive(queue, 9, 7))
while not isinstance(receive(queue, 8192), str):
    pass
receiver = child(lambda: receive(queue, 9, 4, 0))
tell("delivered", send(queue, 3, b"other"), send(queue, 4, b"this"), receiver(), receive(queue, 9))
receiver = child(lambda: receive(queue, 9, 0, 0))


def interrupt():
    os.kill(receiver.pid, signal.SIGUSR1)
    time.sleep(0.02)
    return os.waitid(os.P_PID, receiver.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


time.sleep(0.1)
until(True, interrupt)
tell("queue-interrupted", receiver())
send(queue, 9, b"four")
state = status(libc.msgctl, queue, 15)
tell("queue-status", state[2] >> 32, state[9:12], state[12] & 0xFFFFFFFF == os.getpid(), state[6] > 0, state[8] > 0)
given = bytearray(120)
given[4:12], given[20:24] = struct.pack("II", os.getuid(), os.getgid()), struct.pack("I", 0o640)
given[88:96] = struct.pack("Q", 4)
tell("queue-set", do(libc.msgctl, queue, SET, bytes(given)), status(libc.msgctl, queue, 15)[2] >> 32, send(queue, 1, b"x"))
receiver = child(lambda: receive(queue, 9, 8, 0))
time.sleep(0.05)
tell("queue-gone", do(libc.msgctl, queue, RMID, NULL), receiver() in ("EIDRM", "EINVAL"), send(queue, 1, b""))
key += 1
keyed = libc.msgget(key, CREATE | 0o600)
tell("queue-key", do(libc.msgget, key, 0) == keyed, do(libc.msgget, key, CREATE | EXCL), do(libc.msgget, key + 1, 0), do(libc.msgctl, keyed, RMID, NULL))

# Segments.
segment = libc.shmget(key, 5000, CREATE | 0o640)
tell("segment-key", do(libc.shmget, key, 0, 0) == segment, do(libc.shmget, key, 5001, 0), do(libc.shmget, key, 1, CREATE | EXCL), do(libc.shmget, 0, 0, CREATE))


def look():
    state = status(libc.shmctl, segment, 14)
    if isinstance(state, str):
        return state
    return oct(state[2] >> 32), state[6], state[7] > 0, state[10] & 0xFFFFFFFF == os.getpid(), state[10] >> 32 == os.getpid(), state[11]


tell("segment-status", *look())
address = libc.shmat(segment, NULL, 0)
ctypes.memset(address, 42, 5000)
tell("attached", *look())


def in_child():
    other = libc.shmat(segment, NULL, 0o10000)
    return ctypes.string_at(other, 1), look()[-1]


tell("in-child", child(in_child)().replace(str(os.getpid()), "pid"), look()[-1])
given = bytearray(112)
given[4:12], given[20:24] = struct.pack("II", os.getuid(), os.getgid()), struct.pack("I", 0o400)
tell("segment-set", do(libc.shmctl, segment, SET, bytes(given)), *look())
tell("segment-removed", do(libc.shmctl, segment, RMID, NULL), do(libc.shmget, key, 0, 0), *look())
tell("segment-lingers", ctypes.string_at(libc.shmat(segment, NULL, 0o10000), 1), look()[-1], do(libc.shmctl, segment, RMID, NULL))
tell("errors", do(libc.shmat, segment, ctypes.c_void_p(1), 0), do(libc.shmctl, segment, 99, NULL), do(libc.shmctl, segment, STAT, NULL))

//! Unix datagram sockets where one is listed: the broker sends, to what is listed and nowhere else
//! (attacks N5, U1 and U2), and all other messages as the kernel would.

use std::ffi::OsString;
use tests::{Sandbox, UnixPeer, User, for_each_user};

/// A world with one listed datagram socket and one that is not, `outside/good` and `outside/bad`.
pub(crate) fn world(user: User) -> (Sandbox, UnixPeer, UnixPeer) {
    let sandbox = Sandbox::of(user).allow_write(".").trap();
    let path = sandbox.path("outside/good");
    let sandbox = sandbox.allow_unix_socket(path);
    let good = UnixPeer::at(sandbox.path("outside/good"), "dgram");
    let bad = UnixPeer::at(sandbox.path("outside/bad"), "dgram");
    (sandbox, good, bad)
}

/// Asserts that so many messages have come; a peer counts them in its own time.
#[track_caller]
fn came(good: &UnixPeer, bad: &UnixPeer, expected: (usize, usize)) {
    let counted = || (good.connections(), bad.connections());
    assert!(tests::eventually(|| counted() == expected), "{:?}, not {expected:?}", counted());
}

/// What the scripts share: calls of the C library that Python does not wrap, or repeats by itself.
const PRELUDE: &str = "
import ctypes, errno, os, signal, socket, struct, sys, threading, time
libc = ctypes.CDLL(None, use_errno=True); keep = []
def name(n): return errno.errorcode.get(n, n)
def made(f, *args):
    n = f(*args); return n if n >= 0 else name(ctypes.get_errno())
def tried(f, *args):
    try: return f(*args)
    except OSError as e: return name(e.errno)
def memory(data): b = ctypes.create_string_buffer(data, max(len(data), 1)); keep.append(b); return ctypes.addressof(b)
def unix(path): return struct.pack('=H', 1) + os.fsencode(path) + b'\\0'
def vector(*parts): return b''.join(struct.pack('QQ', memory(p), len(p)) for p in parts)
def header(address, *parts, control=b''):
    return struct.pack('QIxxxxQQQQIxxxx', memory(address) if address else 0, len(address),
        memory(vector(*parts)), len(parts), memory(control) if control else 0, len(control), 0)
def sendmsg(s, h, flags=0): return made(libc.sendmsg, s.fileno(), ctypes.c_void_p(memory(h)), flags)
def dgram(): return socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
def pair(kind): return socket.socketpair(socket.AF_UNIX, kind)
D, S, Q = socket.SOCK_DGRAM, socket.SOCK_STREAM, socket.SOCK_SEQPACKET
";

fn python(script: &str) -> [String; 3] {
    ["python3".into(), "-c".into(), format!("{PRELUDE}{script}")]
}

/// Runs the script inside and outside; both must say the same. Returns what.
#[track_caller]
fn same_as_outside(sandbox: &Sandbox, script: &str) -> String {
    let inside = sandbox.run(python(script));
    let outside = sandbox.run_outside(python(script));
    assert_eq!(inside.stdout, outside.stdout, "{inside:#?} {outside:#?}");
    outside.succeeds();
    outside.stdout
}

#[test]
fn a_listed_datagram_socket_is_sent_to_and_no_other() {
    for_each_user(|user| {
        let (sandbox, good, bad) = world(user);
        std::os::unix::fs::symlink(sandbox.path("outside/bad"), sandbox.path("work/to-bad"))
            .unwrap();
        let script = "
for path in ('../outside/good', '../outside/bad', 'to-bad', '/proc/self/cwd/to-bad'):
    s = dgram(); two = header(unix(path), b'a', b'b') + bytes(8)
    print(tried(s.sendto, b'one', path), tried(s.sendmsg, [b'two', b'x'], [], 0, path),
          sendmsg(s, header(unix(path), b'three')), made(libc.sendmmsg, s.fileno(), ctypes.c_void_p(memory(two)), 1, 0),
          tried(s.connect, path), tried(s.send, b'four'))";
        let outcome = sandbox.run(python(script));
        let refused = "EACCES EACCES EACCES EACCES EACCES ENOTCONN\n";
        let expected = format!("3 4 5 1 None 4\n{}", refused.repeat(3));
        assert_eq!(outcome.stdout, expected, "{outcome:#?}");
        came(&good, &bad, (5, 0));
        let name = sandbox.name("outside/bad");
        let reports = outcome.traps.iter().filter_map(|trap| trap.get("Network"));
        let reports: Vec<_> = reports.collect();
        assert_eq!(reports, [&serde_json::json!(["connect", name, "seccomp"]); 15]);
        sandbox.run_outside(python(script)).succeeds();
        came(&good, &bad, (10, 15));
    });
}

#[test]
fn of_several_messages_those_before_the_first_refused_one_are_sent() {
    for_each_user(|user| {
        let (sandbox, good, bad) = world(user);
        let script = "
def several(*paths):
    messages = bytearray().join(header(unix(p), b'reached') + struct.pack('Q', 99) for p in paths)
    at = memory(bytes(messages)); done = made(libc.sendmmsg, s.fileno(), ctypes.c_void_p(at), len(paths), 0)
    return done, [struct.unpack_from('Q', ctypes.string_at(at, 64 * len(paths)), 64 * i + 56)[0] for i in range(len(paths))]
s = dgram(); good, bad = '../outside/good', '../outside/bad'
print(several(good, good, good)); print(several(good, bad, good)); print(several(bad, good)); print(several())";
        let outcome = sandbox.run(python(script));
        let expected = "(3, [7, 7, 7])\n(1, [7, 99, 99])\n('EACCES', [99, 99])\n(0, [])\n";
        assert_eq!(outcome.stdout, expected, "{outcome:#?}");
        came(&good, &bad, (4, 0));
        sandbox.run_outside(python(script)).succeeds();
        came(&good, &bad, (10, 2));
    });
}

#[test]
fn a_system_logger_is_reached_if_its_socket_is_listed() {
    for_each_user(|user| {
        let (sandbox, good, bad) = world(user);
        for name in ["good", "bad"] {
            let log = ["logger", "-d", "-u", &sandbox.name(format!("outside/{name}")), "reached"];
            sandbox.run(log);
        }
        good.reached();
        assert_eq!(bad.connections(), 0);
        let log = ["logger", "-d", "-u", &sandbox.name("outside/bad"), "reached"];
        sandbox.run_outside(log).succeeds();
        bad.reached();
    });
}

#[test]
fn a_listed_directory_stands_for_the_datagram_sockets_in_it() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user).allow_unix_socket("../outside");
        sandbox.dir("outside/deep");
        sandbox.dir("elsewhere");
        let good = UnixPeer::at(sandbox.path("outside/deep/socket"), "dgram");
        let bad = UnixPeer::at(sandbox.path("elsewhere/socket"), "dgram");
        sandbox.probe("unix-sendto ../outside/deep/socket").all_allowed();
        sandbox.probe("unix-sendto ../elsewhere/socket").all_refused();
        good.reached();
        assert_eq!(bad.connections(), 0);
        sandbox.probe_outside("unix-sendto ../elsewhere/socket").all_allowed();
        bad.reached();
    });
}

#[test]
fn check_says_whether_the_broker_sends_messages() {
    let (sandbox, _good, _bad) = world(User::Caller);
    let note = "the broker sends every message";
    let checked = |sandbox: &Sandbox| {
        let words = sandbox.command_line().into_iter().chain(["--check".into()]);
        sandbox.run_outside(words).stdout
    };
    assert!(checked(&sandbox).contains(note), "{}", checked(&sandbox));
    let others = Sandbox::new().allow_unix_socket("socket");
    let _stream = UnixPeer::at(others.path("work/socket"), "stream");
    let said = checked(&others);
    assert!(said.ends_with("the policy can be enforced\n") && !said.contains(note), "{said}");
}

#[test]
fn what_is_not_there_at_launch_makes_no_datagram_socket() {
    let sandbox = Sandbox::new().allow_write(".").allow_unix_socket(".").allow_unix_socket("late");
    let stream = UnixPeer::at(sandbox.path("work/stream"), "stream");
    sandbox.probe("unix-bind late dgram").all_refused();
    sandbox.probe("unix-connect stream stream").all_allowed();
    stream.reached();
    let late = UnixPeer::at(sandbox.path("work/late"), "dgram");
    sandbox.probe("unix-sendto late").all_allowed();
    late.reached();
}

#[test]
fn abstract_names_are_not_sent_to() {
    for_each_user(|user| {
        let (sandbox, good, _bad) = world(user);
        let name = format!("landstrip-datagrams-{}-{user:?}", std::process::id());
        let peer = UnixPeer::named(&name, "dgram");
        let script = format!(
            "
s = dgram(); there = '\\0{name}'; raw = struct.pack('=H', 1) + there.encode()
print(tried(s.sendto, b'reached', there), tried(s.sendmsg, [b'reached'], [], 0, there),
      sendmsg(s, header(raw, b'reached')), tried(s.connect, there), tried(s.bind, there + '2'), tried(s.bind, ''))
print(tried(s.sendto, b'reached', '../outside/good'))"
        );
        let outcome = sandbox.run(python(&script));
        let expected = "EACCES EACCES EACCES EACCES EACCES EACCES\n7\n";
        assert_eq!(outcome.stdout, expected, "{outcome:#?}");
        came(&peer, &good, (0, 1));
        sandbox.run_outside(python(&script)).succeeds();
        came(&peer, &good, (3, 2));
        // A name that is filled up is not shown with what fills it up.
        let filled = format!("tried(dgram().sendto, b'', '\\0{name}' + '\\0' * 60)");
        let outcome = sandbox.run(python(&filled));
        let report = serde_json::json!({ "Network": ["connect", format!("@{name}"), "seccomp"] });
        assert!(outcome.traps.contains(&report), "{outcome:#?}");
    });
}

#[test]
fn a_client_that_binds_a_listed_path_gets_answers() {
    for_each_user(|user| {
        let (sandbox, _good, _bad) = world(user);
        let sandbox = sandbox.allow_unix_socket("client").allow_unix_socket("../outside/server");
        let path = sandbox.path("outside/server");
        let server = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        std::fs::set_permissions(&path, mode).unwrap();
        let answering = std::thread::spawn(move || {
            let mut bytes = [0; 16];
            let (length, from) = server.recv_from(&mut bytes).unwrap();
            server.send_to_addr(&bytes[..length], &from).unwrap();
        });
        let script = "
s = dgram(); print(tried(s.bind, 'elsewhere'), tried(s.bind, os.path.abspath('client')))
s.sendto(b'echo', '../outside/server'); print(s.recv(9))";
        let outcome = sandbox.run(python(script));
        assert_eq!(outcome.stdout, "EACCES None\nb'echo'\n", "{outcome:#?}");
        assert!(!sandbox.path("work/elsewhere").exists());
        answering.join().unwrap();
    });
}

/// The messages that no address is in the way of, and what is wrong with others. Not as root, who may
/// say to be another process: landstrip gives up the capability.
#[test]
fn other_messages_are_as_without_the_sandbox() {
    let (sandbox, _good, _bad) = world(Sandbox::unprivileged().user());
    let script = "
first = dgram()
tcp = socket.socket(); plain = open('/dev/null'); print(sendmsg(plain, header(b'', b'x')), sendmsg(tcp, header(b'', b'x'), socket.MSG_NOSIGNAL))
print(made(libc.sendmsg, -1, ctypes.c_void_p(memory(header(b'', b'x'))), 0), made(libc.sendmsg, 999, None, 0))
for kind in (S, Q, D):
    a, b = pair(kind); a.settimeout(None)
    fd = socket.CMSG_LEN(4); ints = lambda *n: struct.pack(f'{len(n)}i', *n)
    cmsg = lambda level, kind, data, length=None: struct.pack('Qii', 16 + len(data) if length is None else length, level, kind) + data + bytes(-len(data) % 8)
    say = lambda *what: print(kind, *what)
    # Parts, empty ones, none.
    say(sendmsg(a, header(b'', b'one', b'', b'two')), b.recv(99))
    if kind != S: say(sendmsg(a, header(b'')), b.recv(9), sendmsg(a, header(b'', b'')), b.recv(9))
    else: say(sendmsg(a, header(b'')))
    # An address where the kernel looks at none, or refuses one.
    if kind != D: say(sendmsg(a, header(unix('../outside/bad'), b'x'))); say(tried(b.recv, 9, socket.MSG_DONTWAIT))
    # What does not make sense.
    bad = struct.pack('QQQQQQQ', 0, 0, 8, 1, 0, 0, 0); say(sendmsg(a, bad), made(libc.sendmsg, a.fileno(), ctypes.c_void_p(8), 0))
    say(sendmsg(a, struct.pack('QQQQQQQ', 0, 0, memory(struct.pack('QQ', 8, 4)), 1, 0, 0, 0)))
    say(sendmsg(a, struct.pack('QQQQQQQ', 0, 0, memory(bytes(16 * 1025)), 1025, 0, 0, 0)))
    say(sendmsg(a, struct.pack('QQQQQQQ', 0, 0, memory(struct.pack('QQ', memory(b'x'), 1 << 63)), 1, 0, 0, 0)))
    say(sendmsg(a, struct.pack('QIIQQQQQ', memory(b'xxx'), 1 << 31, 0, memory(vector(b'x')), 1, 0, 0, 0)))
    say(sendmsg(a, struct.pack('QQQQQQQ', 0, 1 << 31, memory(vector(b'null')), 1, 0, 0, 0)), b.recv(9))
    say(sendmsg(a, struct.pack('QQQQQQQ', 0, 0, memory(vector(b'x')), 1, memory(b''), 1 << 31, 0)))
    say(sendmsg(a, struct.pack('QQQQQQQ', 0, 0, memory(vector(b'x')), 1, 8, 64, 0)))
    # Ancillary data.
    for i, control in enumerate((cmsg(1, 1, ints(999)), cmsg(1, 1, ints(-1)), cmsg(1, 1, ints(*[0] * 254)), cmsg(1, 1, ints(0), 99),
                    cmsg(1, 1, ints(0), 15), cmsg(1, 2, ints(0)), cmsg(1, 2, ints(os.getpid() + 1, os.getuid(), os.getgid())),
                    cmsg(1, 4, ints(0)), cmsg(1, 99, b''), cmsg(41, 50, b'pass'), cmsg(1, 1, b'') + cmsg(1, 1, ints(0, 1)) + cmsg(1, 1, ints(2)), b'short')):
        result = sendmsg(a, header(b'', b'x', control=control)); say(i, result)
        if result == 1: _, fds, _, _ = socket.recv_fds(b, 9, 9); say(len(fds)); [os.close(f) for f in fds]
    uid, gid = os.getuid(), os.getgid(); b.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    say(sendmsg(a, header(b'', b'x', control=cmsg(1, 2, ints(os.getpid(), uid, gid)))))
    data, anc, _, _ = b.recvmsg(9, 99); say(data, [(l, t, struct.unpack('3i', d)[1:] == (uid, gid)) for l, t, d in anc])
    say(a.sendmsg([b'x'])); data, anc, _, _ = b.recvmsg(9, 99); say(data, [(l, t, struct.unpack('3i', d)[1:] == (uid, gid)) for l, t, d in anc])
    # Large.
    if kind != S:
        room = a.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
        say([sendmsg(a, header(b'', bytes(n))) for n in (room - 32, room - 31, room, room + 1, 1 << 24)], len(b.recv(1 << 20)))
    # Full, and closed.
    a.setblocking(False); n = 0
    while sendmsg(a, header(b'', bytes(1000))) == 1000: n += 1
    say(n, sendmsg(a, header(b'', bytes(1000)))); a.setblocking(True); say(sendmsg(a, header(b'', b'x'), socket.MSG_DONTWAIT))
    a.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack('qq', 0, 200000)); t = time.monotonic()
    say(sendmsg(a, header(b'', bytes(1000))), time.monotonic() - t >= 0.1)
    got = []; signal.signal(signal.SIGPIPE, lambda *_: got.append(1)); b.close()
    say(sendmsg(a, header(b'', b'x'), socket.MSG_NOSIGNAL), len(got), sendmsg(a, header(b'', b'x')), len(got))
    say(sendmsg(a, header(b'', b'x'), 1 << 31))
s = dgram(); good = unix('../outside/good')
for address in (good, good[:2], good[:1], good + bytes(200), struct.pack('=H', 2) + good[2:], bytes(110), unix('missing'), unix('missing/deep'), unix('x' * 200)):
    print(sendmsg(s, header(address, b'x')), made(libc.sendto, s.fileno(), b'x', 1, 0, ctypes.c_void_p(memory(address)), len(address)))
print(made(libc.sendto, s.fileno(), b'x', 1, 0, ctypes.c_void_p(8), 110), made(libc.sendto, s.fileno(), b'x', 1, 0, ctypes.c_void_p(memory(good)), 0))
print(made(libc.sendto, s.fileno(), b'x', 1, 0, ctypes.c_void_p(memory(good)), -1), made(libc.sendto, s.fileno(), ctypes.c_void_p(8), 1, 0, ctypes.c_void_p(memory(good)), len(good)))
print(made(libc.sendto, s.fileno(), b'x' * 9, 9, 0, None, 110), made(libc.sendmmsg, s.fileno(), ctypes.c_void_p(8), 1, 0))";
    let said = same_as_outside(&sandbox, script);
    assert!(said.lines().count() > 100, "{said}");
}

#[test]
fn descriptors_travel_with_messages() {
    for_each_user(|user| {
        let (sandbox, _good, _bad) = world(user);
        sandbox.file("work/file", "content");
        sandbox.file(
            "work/m.py",
            "import multiprocessing as m, os
from multiprocessing.reduction import send_handle, recv_handle
def child(c): h = recv_handle(c); print(os.pread(h, 9, 0)); c.send('done')
if __name__ == '__main__':
    here, there = m.Pipe(); p = m.Process(target=child, args=(there,)); p.start()
    send_handle(here, os.open('file', os.O_RDONLY), p.pid); print(here.recv()); p.join()
    with m.get_context('forkserver').Pool(2) as pool: print(sum(pool.map(abs, range(5))))
",
        );
        let sandbox = sandbox.allow_unix_socket(".").env("TMPDIR", ".").allow_write("/dev/shm");
        let outcome = sandbox.run(["python3", "m.py"]);
        assert_eq!(outcome.stdout, "b'content'\ndone\n10\n", "{outcome:#?}");
        let script = "
for kind in (S, Q, D):
    a, b = pair(kind); r, w = os.pipe(); n = len(os.listdir('/proc/self/fd'))
    print(socket.send_fds(a, [b'x'], [w] * 253)); os.close(w)
    data, fds, flags, _ = socket.recv_fds(b, 9, 253); print(data, len(fds), flags)
    os.write(fds[-1], b'through'); print(os.read(r, 9)); [os.close(f) for f in fds]; print(os.read(r, 9))
l = socket.socket(socket.AF_UNIX); l.bind('listening'); l.listen(); c = socket.socket(socket.AF_UNIX); c.connect('listening')
p = l.accept()[0]; print(socket.send_fds(p, [b'file'], [os.open('file', os.O_PATH)])); f = socket.recv_fds(c, 9, 9)[1][0]
print(os.readlink(f'/proc/self/fd/{f}') == os.path.abspath('file'), tried(os.read, f, 1)); os.unlink('listening')";
        let said = same_as_outside(&sandbox, script);
        assert!(said.contains("b'x' 253 0\nb'through'\nb''\n"), "{said}");
    });
}

#[test]
fn a_long_message_of_a_stream_is_sent_whole() {
    for_each_user(|user| {
        let (sandbox, _good, _bad) = world(user);
        let script = "
import hashlib
def tcp():
    l = socket.socket(); l.bind(('127.0.0.1', 0)); l.listen(); c = socket.create_connection(l.getsockname()); return c, l.accept()[0]
data = bytes(range(256)) * 40000
for a, b in (pair(S), tcp()):
    r, w = os.pipe(); got = hashlib.sha256(); count = 0
    def reader():
        global count
        first, fds, _, _ = socket.recv_fds(b, 10000, 9) if b.family == socket.AF_UNIX else (b.recv(10000), [], 0, 0)
        got.update(first); count += len(first); print(len(fds)); [os.close(f) for f in fds]
        while part := b.recv(100000): got.update(part); count += len(part)
    t = threading.Thread(target=reader); t.start(); control = struct.pack('Qiii4x', 20, 1, 1, w)
    print(sendmsg(a, header(b'', data[:5], data[5:100000], data[100000:], control=control if a.family == socket.AF_UNIX else b'')))
    a.close(); t.join(); print(count, got.hexdigest() == hashlib.sha256(data).hexdigest())
    # Until a signal, with what was sent until then.
    a, b = pair(S); signal.signal(signal.SIGALRM, lambda *_: None); signal.siginterrupt(signal.SIGALRM, False)
    signal.setitimer(signal.ITIMER_REAL, 0.1, 0.1); n = sendmsg(a, header(b'', data)); signal.setitimer(signal.ITIMER_REAL, 0)
    a.close(); print(type(n), 0 < n < len(data), n == sum(map(len, iter(lambda: b.recv(1 << 20), b''))))";
        let sandbox = sandbox.allow_local_binding();
        let said = same_as_outside(&sandbox, script);
        assert!(said.ends_with("10240000 True\n<class 'int'> True True\n"), "{said}");
    });
}

#[test]
fn an_address_on_a_connection_leads_nowhere() {
    for_each_user(|user| {
        let (sandbox, _good, bad) = world(user);
        let sandbox = sandbox.allow_local_binding();
        let script = "
def tcp():
    l = socket.socket(); l.bind(('127.0.0.1', 0)); l.listen(); c = socket.create_connection(l.getsockname()); return l, c, l.accept()[0]
l, c, p = tcp(); other, there = tcp()[0], None; there = struct.pack('=HH4s8x', 2, socket.htons(other.getsockname()[1]), bytes([127, 0, 0, 1]))
for raw in (there, bytes(16), unix('../outside/bad')):
    print(sendmsg(c, header(raw, b'msg')), p.recv(9), made(libc.sendto, c.fileno(), b'to', 2, 0, ctypes.c_void_p(memory(raw)), len(raw)), p.recv(9))
    n = socket.socket(); n.setblocking(False); print(sendmsg(n, header(raw, b'x'), socket.MSG_NOSIGNAL))
other.setblocking(False); print(tried(other.accept))";
        let said = same_as_outside(&sandbox, script);
        let expected = format!("{}EAGAIN\n", "3 b'msg' 2 b'to'\nEPIPE\n".repeat(3));
        assert_eq!(said, expected);
        assert_eq!(bad.connections(), 0);
    });
}

#[test]
fn a_full_queue_is_waited_for_and_delays_no_other_message() {
    for_each_user(|user| {
        let (sandbox, good, _bad) = world(user);
        let path = sandbox.path("outside/full");
        let sandbox = sandbox.allow_unix_socket(&path);
        let full = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        std::fs::set_permissions(&path, mode).unwrap();
        let script = "
s = dgram(); n = 0
while tried(s.sendmsg, [b'first'], [], socket.MSG_DONTWAIT, '../outside/full') != 'EAGAIN': n += 1
s.setblocking(False); print(tried(s.sendto, b'x', '../outside/full')); s.setblocking(True)
c = dgram(); c.connect('../outside/full'); done = []
ways = [lambda: s.sendto(b'later', '../outside/full'), lambda: c.sendmsg([b'later'])] * 4
ts = [threading.Thread(target=lambda w=w: done.append(w())) for w in ways]; [t.start() for t in ts]
waits = lambda t: open(f'/proc/self/task/{t.native_id}/syscall').read().split()[0] in ('44', '46')
while not all(waits(t) for t in ts): pass
for i in range(1000): s.sendmsg([b'other'], [], 0, '../outside/good')
print(n, len(done), flush=True)
[t.join() for t in ts]; print(done)";
        let mut running = sandbox.spawn(python(script));
        running.expect(" 0\n");
        let first = running.stdout();
        let count: usize =
            first.lines().nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
        let mut seen = Vec::new();
        for _ in 0..count + 8 {
            let mut bytes = [0; 16];
            let length = full.recv(&mut bytes).unwrap();
            seen.push(bytes[..length].to_vec());
        }
        let outcome = running.wait();
        let expected = format!("EAGAIN\n{count} 0\n[5, 5, 5, 5, 5, 5, 5, 5]\n");
        assert_eq!(outcome.stdout, expected, "{outcome:#?}");
        assert!(seen.iter().take(count).all(|message| message == b"first"));
        assert!(seen.iter().skip(count).all(|message| message == b"later"));
        assert!(tests::eventually(|| good.connections() == 1000));
    });
}

#[test]
fn signals_interrupt_a_message_that_waits() {
    for_each_user(|user| {
        let (sandbox, _good, _bad) = world(user);
        let script = "
libc.sendto.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p, ctypes.c_uint]
for interrupt, limit in ((True, 0), (False, 0), (False, 99)):
    for named in (True, False):
        if named: b = dgram(); b.bind('full'); a = dgram(); address = unix('full')
        else: a, b = pair(S); address = b''
        while sendmsg(a, header(address, bytes(999)), socket.MSG_DONTWAIT) == 999: pass
        a.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack('qq', limit, 0))
        r, w = os.pipe(); os.set_blocking(w, False); child = os.fork()
        if child == 0:
            os.read(r, 1)
            while True: b.recv(1 << 16)
        signal.signal(signal.SIGALRM, lambda *_: None); signal.siginterrupt(signal.SIGALRM, interrupt)
        signal.set_wakeup_fd(w); signal.setitimer(signal.ITIMER_REAL, 0.1, 0.1)
        n = sendmsg(a, header(address, bytes(999))); signal.setitimer(signal.ITIMER_REAL, 0); signal.set_wakeup_fd(-1)
        print(interrupt, limit, named, n); os.kill(child, 9); os.waitpid(child, 0)
        if named: os.unlink('full')";
        // For the sandbox's own socket; the listed one stays what makes datagrams possible.
        let said = same_as_outside(&sandbox.allow_unix_socket("full"), script);
        let expected = "True 0 True EINTR\nTrue 0 False EINTR\nFalse 0 True 999\n\
            False 0 False 999\nFalse 99 True EINTR\nFalse 99 False EINTR\n";
        assert_eq!(said, expected);
    });
}

#[test]
fn a_client_killed_while_it_waits_leaves_nothing_behind() {
    let (sandbox, _good, _bad) = world(User::Caller);
    let sandbox = sandbox.allow_unix_socket(".");
    let script = "
b = dgram(); b.bind('full'); a = dgram()
while tried(a.sendmsg, [b'x'], [], socket.MSG_DONTWAIT, 'full') == 1: pass
def fork():
    child = os.fork()
    if child == 0: a.sendmsg([b'x'], [struct.pack('i', 0) and (1, 1, struct.pack('i', 0))], 0, 'full'); os._exit(0)
    return child
children = [fork() for _ in range(20)]
waits = lambda pid: open(f'/proc/{pid}/syscall').read().startswith('46 ')
while not all(waits(pid) for pid in children): pass
print('waiting', flush=True)
while not os.path.exists('go'): time.sleep(0.02)
for pid in children: os.kill(pid, signal.SIGKILL); os.waitpid(pid, 0)
b.close(); print('dead', flush=True); time.sleep(2)";
    let mut running = sandbox.spawn(python(script));
    let broker = format!("/proc/{}/fd", running.pid());
    let descriptors = || std::fs::read_dir(&broker).map_or(0, Iterator::count);
    running.expect("waiting");
    assert!(tests::eventually(|| descriptors() > 40), "{}", descriptors());
    sandbox.file("work/go", "");
    running.expect("dead");
    assert!(tests::eventually(|| descriptors() < 15), "{}", descriptors());
    running.wait().succeeds();
}

#[test]
fn a_process_with_a_filter_of_its_own_sends_to_its_peer_only() {
    for_each_user(|user| {
        let (sandbox, good, _bad) = world(user);
        let script = "
def own_filter():
    program = struct.pack('HBBI', 6, 0, 0, 0x7fff0000); keep.append(program)
    libc.prctl(38, 1, 0, 0, 0); return made(libc.syscall, 317, 1, 0, ctypes.c_void_p(memory(struct.pack('HxxxxxxQ', 1, memory(program)))))
a, b = pair(S); c = dgram(); c.connect('../outside/good'); s = dgram()
print(own_filter(), sendmsg(a, header(b'', b'pair')), b.recv(9), sendmsg(c, header(b'', b'reached')))
print(sendmsg(s, header(unix('../outside/good'), b'reached')))";
        let outcome = sandbox.run(python(script));
        assert_eq!(outcome.stdout, "0 4 b'pair' 7\nEACCES\n", "{outcome:#?}");
        good.has_seen(1);
        let outcome = sandbox.run_outside(python(script));
        assert_eq!(outcome.stdout, "0 4 b'pair' 7\n7\n", "{outcome:#?}");
        good.has_seen(3);
    });
}

#[test]
fn a_process_that_asks_to_hide_its_memory_sends_as_others() {
    for_each_user(|user| {
        let (sandbox, good, _bad) = world(user);
        let script = "
s = dgram(); s.connect('../outside/good'); print(libc.prctl(4, 0, 0, 0, 0))
print(tried(s.send, b'reached'), sendmsg(s, header(b'', b'reached')), tried(s.sendto, b'reached', '../outside/good'))";
        let outcome = sandbox.run(python(script));
        assert_eq!(outcome.stdout, "0\n7 7 7\n", "{outcome:#?}");
        good.has_seen(3);
        assert_eq!(sandbox.run_outside(python(script)).stdout, "0\n7 7 7\n");
        good.has_seen(6);
    });
}

#[test]
fn a_process_that_became_another_user_is_told_of_as_that_one() {
    if !tests::is_root_for("a change of the user") {
        return;
    }
    let (sandbox, good, _bad) = world(User::Caller);
    let script = "
a, b = pair(S); b.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1); s = dgram()
told = lambda: struct.unpack('3i', b.recvmsg(9, 99)[1][0][2])[1:]
print(sendmsg(a, header(b'', b'x')), told())
ucred = lambda *n: struct.pack('Qii3i4x', 28, 1, 2, os.getpid(), *n)
print(sendmsg(a, header(b'', b'x', control=ucred(0, 0))), sendmsg(a, header(b'', b'x', control=ucred(1234, 1234))), told())
print(sendmsg(s, header(unix('../outside/good'), b'reached')))
print(sendmsg(s, header(unix('../outside/only-root'), b'reached')))";
    let path = sandbox.path("outside/only-root");
    let sandbox = sandbox.allow_unix_socket(&path);
    let _only_root = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
    let other = ["setpriv", "--reuid", "1234", "--regid", "1234", "--clear-groups", "--"];
    let command = || other.iter().map(|word| (*word).to_owned()).chain(python(script));
    let outcome = sandbox.run(command());
    let expected = "1 (1234, 1234)\nEPERM 1 (1234, 1234)\n";
    assert_eq!(outcome.stdout, format!("{expected}7\nEACCES\n"), "{outcome:#?}");
    good.has_seen(1);
    let outcome = sandbox.run_outside(command());
    assert_eq!(outcome.stdout, format!("{expected}7\nEACCES\n"), "{outcome:#?}");
    good.has_seen(2);
}

#[test]
fn open_networking_sends_udp_but_to_no_unlisted_socket() {
    for_each_user(|user| {
        let (sandbox, good, bad) = world(user);
        let sandbox = sandbox.allow_network();
        let script = "
u = socket.socket(socket.AF_INET, D); u.bind(('127.0.0.1', 0)); there = u.getsockname(); raw = struct.pack('=HH4s8x', 2, socket.htons(there[1]), bytes([127, 0, 0, 1]))
c = socket.socket(socket.AF_INET, D); print(c.sendto(b'one', there), u.recv(9), sendmsg(c, header(raw, b'two')), u.recv(9))
pktinfo = struct.pack('Qii', 28, 0, 8) + struct.pack('I4s4s', 0, bytes([127, 0, 0, 2]), bytes(4)) + bytes(4)
print(sendmsg(c, header(raw, b'three', control=pktinfo)), u.recvfrom(9)[1][0])
print(made(libc.sendmmsg, c.fileno(), ctypes.c_void_p(memory((header(raw, b'four') + bytes(8)) * 2)), 2, 0), u.recv(9), u.recv(9))
print(sendmsg(c, header(raw, bytes(65508))), socket.getaddrinfo('localhost', 80)[0][4][0] != '')
n = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0); get = struct.pack('IHHIIBxHiII', 32, 18, 0x301, 1, 0, 0, 0, 0, 0, 0)
print(n.sendto(get, (0, 0)), struct.unpack_from('IH', n.recv(1 << 16))[1], n.sendmsg([get], [], 0, (0, 0)), struct.unpack_from('IH', n.recv(1 << 16))[1])";
        let said = same_as_outside(&sandbox, script);
        assert!(said.starts_with("3 b'one' 3 b'two'\n5 127.0.0.2\n2 b'four' b'four'\n"), "{said}");
        // From memory that the kernel reads later nothing is sent.
        let script = "
first = dgram()
l = socket.socket(); l.bind(('127.0.0.1', 0)); l.listen(); c = socket.create_connection(l.getsockname()); p = l.accept()[0]
print(c.setsockopt(socket.SOL_SOCKET, 60, 1), sendmsg(c, header(b'', b'x'), 0x4000000), sendmsg(c, header(b'', b'x')), p.recv(9))";
        let (inside, outside) = (sandbox.run(python(script)), sandbox.run_outside(python(script)));
        assert_eq!(inside.stdout, "None ENOBUFS 1 b'x'\n", "{inside:#?}");
        assert_eq!(outside.stdout, "None 1 1 b'xx'\n", "{outside:#?}");
        // A flag of TCP's is no way around.
        let script = "
s = dgram(); bad, fastopen = unix('../outside/bad'), 0x20000000
print([made(libc.sendto, s.fileno(), b'x', 1, f, ctypes.c_void_p(memory(bad)), len(bad)) for f in (0, fastopen)],
      [sendmsg(s, header(bad, b'x'), f) for f in (0, fastopen)], s.sendto(b'x', '../outside/good'))";
        let outcome = sandbox.run(python(script));
        assert_eq!(outcome.stdout, "['EACCES', 'ENOTSUP'] ['EACCES', 'ENOTSUP'] 1\n");
        came(&good, &bad, (1, 0));
        sandbox.run_outside(python(script)).succeeds();
        came(&good, &bad, (2, 4));
    });
}

/// A program outside that gives the sandbox a socket as standard input, and says who was reached.
const WITH_SOCKET: &str = r#"
import os, socket, subprocess, sys
kind, command = sys.argv[1], sys.argv[2:]
def bound(family, name):
    s = socket.socket(family, socket.SOCK_DGRAM); s.bind(name); s.settimeout(0.3); return s
if kind == 'udp':
    peer, other = [bound(socket.AF_INET, ('127.0.0.1', 0)) for _ in range(2)]
    mine = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); mine.connect(peer.getsockname())
else:
    peer, mine = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM); peer.settimeout(0.3)
    path = os.path.abspath('other-%d' % os.getpid())
    other = bound(socket.AF_UNIX, path)
script = """
import errno, socket
s = socket.socket(fileno=0)
def tried(f, *args):
    try: f(*args); return 'OK'
    except OSError as e: return errno.errorcode[e.errno]
print(tried(s.send, b'peer'), tried(s.sendto, b'x', %r), tried(s.sendmsg, [b'x'], [], 0, %r), tried(s.connect, %r))
""" % ((other.getsockname(),) * 3)
run = subprocess.run(command + ['python3', '-c', script], stdin=mine, stdout=subprocess.PIPE)
def got(s):
    try: return s.recv(9).decode()
    except OSError: return 'nothing'
print(run.stdout.decode().strip(), got(peer), got(other))
"#;

#[test]
fn a_datagram_socket_that_is_inherited_sends_to_its_peer_and_to_nobody_else() {
    for_each_user(|user| {
        for kind in ["udp", "unix"] {
            for all in [false, true] {
                let sandbox = Sandbox::of(user);
                let sandbox = if all { sandbox.allow_all_unix_sockets() } else { sandbox };
                let run = |command: Vec<OsString>| {
                    let script = ["python3", "-c", WITH_SOCKET, kind].map(OsString::from);
                    sandbox.run_outside(script.into_iter().chain(command)).stdout
                };
                let mut words = sandbox.command_line();
                words.push("--".into());
                let inside = run(words);
                // Where all paths may be reached, this one may.
                match kind == "unix" && all {
                    true => assert_eq!(inside, "OK OK OK OK peer x\n"),
                    false => assert_eq!(inside, "OK EACCES EACCES EACCES peer nothing\n"),
                }
                assert_eq!(run(Vec::new()), "OK OK OK OK peer x\n");
            }
        }
    });
}

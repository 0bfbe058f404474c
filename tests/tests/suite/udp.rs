//! Sockets of UDP: they exist under every policy, and reach nothing that it does not give.

use serde_json::json;
use std::net::UdpSocket;
use std::time::Duration;
use tests::{Outcome, Running, Sandbox, for_each_user};

/// A receiver outside, and its port.
fn receiver(ip: &str) -> (UdpSocket, u16) {
    let socket = UdpSocket::bind((ip, 0)).unwrap();
    let limit = Duration::from_millis(100);
    socket.set_read_timeout(Some(limit)).unwrap();
    let port = socket.local_addr().unwrap().port();
    (socket, port)
}

/// How many datagrams have come.
pub(crate) fn received(receiver: &UdpSocket) -> usize {
    let mut buffer = [0; 16];
    std::iter::from_fn(|| receiver.recv(&mut buffer).ok()).count()
}

/// Python with `tried(f, ...)`, which says the error, and `ways(socket, address)`: every way to send.
const PYTHON: &str = "
import ctypes, errno, os, socket, struct, sys, threading, time
libc = ctypes.CDLL(None, use_errno=True)
def tried(f, *args):
    try: return f(*args)
    except OSError as e: return errno.errorcode[e.errno]
def mmsg(s, address, data=b'reached'):
    raw = ctypes.create_string_buffer(address); text = ctypes.create_string_buffer(data)
    part = ctypes.create_string_buffer(struct.pack('QQ', ctypes.addressof(text), len(data)))
    head = ctypes.create_string_buffer(struct.pack('QIxxxxQQQQQQ', ctypes.addressof(raw) if address else 0, len(address),
        ctypes.addressof(part), 1, 0, 0, 0, 0))
    n = libc.sendmmsg(s.fileno(), head, 1, 0); return n if n >= 0 else errno.errorcode[ctypes.get_errno()]
def raw(s, address):
    port = socket.htons(address[1])
    if s.family == socket.AF_INET: return struct.pack('=HH4s8x', 2, port, socket.inet_aton(address[0]))
    return struct.pack('=HHI16sI', 10, port, 0, socket.inet_pton(10, address[0]), 0)
def splice(s):
    r, w = os.pipe(); os.write(w, b'reached'); n = os.splice(r, s.fileno(), 7); os.close(r); os.close(w); return n
def addressed(s, a):
    yield 'sendto', lambda: s.sendto(b'reached', a)
    for name, flag in ('more', 0x8000), ('zerocopy', 0x4000000), ('dontroute', 4), ('confirm', 0x800):
        yield name, lambda flag=flag: s.sendto(b'reached', flag, a)
    yield 'sendmsg', lambda: s.sendmsg([b'reached'], [], 0, a)
    yield 'segments', lambda: s.sendmsg([b'reached' * 9], [(17, 103, struct.pack('H', 7))], 0, a)
    yield 'information', lambda: s.sendmsg([b'reached'], [(0, 8, struct.pack('I4s4s', 1, bytes(4), bytes(4)))], 0, a)
    yield 'sendmmsg', lambda: mmsg(s, raw(s, a))
    yield 'unspecified', lambda: mmsg(s, bytes(2) + raw(s, a)[2:])
def plain(s):
    yield 'send', lambda: s.send(b'reached')
    yield 'write', lambda: os.write(s.fileno(), b'reached')
    yield 'writev', lambda: os.writev(s.fileno(), [b'reach', b'ed'])
    yield 'splice', lambda: splice(s)
    yield 'sendfile', lambda: os.sendfile(s.fileno(), os.open('/proc/self/exe', 0), 0, 7)
    yield 'sendmsg', lambda: s.sendmsg([b'reached'])
    yield 'sendmmsg', lambda: mmsg(s, b'')
def say(*words): print(*words, flush=True)
";

pub(crate) fn python(script: &str) -> [String; 3] {
    ["python3".into(), "-c".into(), format!("{PYTHON}{script}")]
}

/// The ways in which something was sent, as the scripts say them: a word and its result a line.
#[track_caller]
fn sent(outcome: &Outcome) -> Vec<&str> {
    outcome.succeeds();
    let is_sent = |line: &&str| line.split(' ').next_back().unwrap().parse::<u32>().is_ok();
    outcome.stdout.lines().filter(is_sent).collect()
}

#[test]
fn a_datagram_does_not_leave_however_it_is_sent() {
    for_each_user(|user| {
        for (family, ip) in
            [("AF_INET", "127.0.0.1"), ("AF_INET6", "::1"), ("AF_INET6", "::ffff:127.0.0.1")]
        {
            let (receiver, port) = receiver(if ip == "::1" { ip } else { "127.0.0.1" });
            let script = format!(
                "
def all(s, a):
    for name, way in addressed(s, a): say(name, tried(way))
    for name, way in plain(s): say('unconnected', name, tried(way))
    tried(s.connect, a)
    for name, way in plain(s): say('connected', name, tried(way))
    for name, way in addressed(s, a): say('connected', name, tried(way))
    libc.connect(s.fileno(), bytes(16), 16)
    for name, way in addressed(s, a): say('dissolved', name, tried(way))
a = ('{ip}', {port})
all(socket.socket(socket.{family}, socket.SOCK_DGRAM), a)
all(socket.socket(socket.{family}, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK, 17), a)
s = socket.socket(socket.{family}, socket.SOCK_DGRAM); t = socket.socket(fileno=os.dup(s.fileno()))
one, two = socket.socketpair(); socket.send_fds(one, [b'x'], [s.fileno()]); fds = socket.recv_fds(two, 1, 1)[1]
for s in t, socket.socket(fileno=fds[0]): all(s, a)
if os.fork() == 0: all(t, a); os._exit(0)
os.wait()"
            );
            for sandbox in [
                Sandbox::of(user),
                Sandbox::of(user).allow_write(".").allow_unix_socket("."),
                Sandbox::of(user).allow_domains(["host.test"]),
                Sandbox::of(user).allow_local_binding(),
            ] {
                let outcome = sandbox.run(python(&script));
                assert_eq!(sent(&outcome), [""; 0], "{ip}");
                assert_eq!(received(&receiver), 0, "{ip}");
            }
            let twin = Sandbox::of(user).run_outside(python(&script));
            assert!(sent(&twin).len() > 50 && received(&receiver) > 50, "{ip} {twin:#?}");
        }
    });
}

#[test]
fn a_datagram_socket_is_not_bound_and_nothing_is_joined() {
    for_each_user(|user| {
        let script = "
for family, ip in (2, '0.0.0.0'), (2, '127.0.0.1'), (10, '::'), (10, '::1'), (10, '::ffff:127.0.0.1'), (2, '255.255.255.255'):
    s = socket.socket(family, socket.SOCK_DGRAM); say(ip, tried(s.bind, (ip, 0)), s.getsockname()[1], tried(s.listen))
s = socket.socket(2, socket.SOCK_DGRAM); t = socket.socket(10, socket.SOCK_DGRAM)
def option(s, level, option, value): return tried(s.setsockopt, level, option, value)
say(option(s, 0, 35, socket.inet_aton('224.0.0.251') + bytes(4)), option(t, 41, 20, socket.inet_pton(10, 'ff02::fb') + bytes(4)),
    option(s, 1, 25, b'lo'), option(s, 0, 50, 1), option(s, 17, 100, 1), option(s, 17, 103, 8), option(s, 17, 1, 1))
say(*[tried(socket.socket, *kind) for kind in ((2, 2, 1), (10, 2, 58), (2, 2, 136), (2, 3, 17), (2, 3, 255), (2, 10, 0))])";
        let bound = |ip: &str| format!("{ip} EACCES 0 ENOTSUP\n");
        let ips = ["0.0.0.0", "127.0.0.1", "::", "::1", "::ffff:127.0.0.1", "255.255.255.255"];
        let (options, kinds) = ("ENOPROTOOPT ".repeat(7), "EACCES ".repeat(6));
        let expected = format!("{}{}\n{}\n", ips.map(bound).concat(), options.trim(), kinds.trim());
        let outcome = Sandbox::of(user).trap().run(python(script));
        assert_eq!(outcome.stdout, expected, "{outcome:#?}");
        for missed in ["IP_ADD_MEMBERSHIP", "IPV6_ADD_MEMBERSHIP", "SO_BINDTODEVICE"] {
            let report = json!({ "Network": ["connect", format!("option {missed}"), "seccomp"] });
            assert!(outcome.traps.contains(&report), "{missed}: {outcome:#?}");
        }
        // On loopback alone, where the command may have servers.
        let outcome = Sandbox::of(user).allow_local_binding().run(python(script));
        let said: Vec<_> = outcome.stdout.lines().collect();
        assert!(said[..5].iter().all(|line| line.contains(" None ")), "{outcome:#?}");
        assert_eq!(said[5..].join("\n"), expected.lines().skip(5).collect::<Vec<_>>().join("\n"));
        let twin = Sandbox::of(user).run_outside(python(script));
        assert!(twin.stdout.starts_with("0.0.0.0 None"), "{twin:#?}");
    });
}

/// The kernel gives a socket a port before it refuses to send, and before it connects.
#[test]
fn a_mute_socket_receives_nothing() {
    for_each_user(|user| {
        let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
        let to_peer = format!("s.connect(('127.0.0.1', {}))", peer.local_addr().unwrap().port());
        for used in ["tried(s.send, b'x')", "tried(s.connect, ('255.255.255.255', 9))", &to_peer] {
            let script = format!(
                "s = socket.socket(2, socket.SOCK_DGRAM); {used}; s.settimeout(1)
say('port', s.getsockname()[1], '.')
try: say('got', s.recv(9))
except TimeoutError: say('nothing')"
            );
            let hears = |mut running: Running| {
                running.expect(" .\n");
                let there: u16 = running.stdout().split(' ').nth(1).unwrap().parse().unwrap();
                assert_ne!(there, 0);
                let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
                stranger.send_to(b"stranger", ("127.0.0.1", there)).unwrap();
                peer.send_to(b"peer", ("127.0.0.1", there)).unwrap();
                running.wait().stdout.lines().nth(1).unwrap().to_owned()
            };
            let sandbox = Sandbox::of(user);
            assert!(hears(sandbox.spawn_outside(python(&script))).starts_with("got"), "{used}");
            assert_eq!(hears(sandbox.spawn(python(&script))), "nothing", "{used}");
            let own = Sandbox::of(user).allow_local_binding();
            assert_eq!(hears(own.spawn(python(&script))), "nothing", "{used}");
        }
    });
}

/// What lists interfaces and what looks for an own address runs, and has nothing to tell.
#[test]
fn interfaces_and_own_addresses_are_found() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user).trap();
        let script = "import fcntl
s = socket.socket(2, socket.SOCK_DGRAM); say(socket.inet_ntoa(fcntl.ioctl(s, 0x8915, struct.pack('256s', b'lo'))[20:24]))
s.connect(('192.0.2.77', 443)) if open('/proc/net/route').read().count('\\n00') else None
say(s.connect(('127.0.0.1', 9)), s.getsockname()[0], sorted(i[4][0] for i in socket.getaddrinfo('localhost', 80, type=1))[0])";
        let inside = sandbox.run(python(script));
        assert_eq!(inside.stdout, sandbox.run_outside(python(script)).stdout, "{inside:#?}");
        assert_eq!(inside.traps, [json!(null); 0], "{inside:#?}");
    });
}

#[test]
fn a_refused_datagram_is_reported_with_its_address() {
    for_each_user(|user| {
        let script = "
s = socket.socket(2, socket.SOCK_DGRAM); say(tried(s.sendto, b'x', ('192.0.2.1', 123)))
t = socket.socket(10, socket.SOCK_DGRAM); say(mmsg(t, raw(t, ('2001:db8::1', 443))))
s.connect(('127.0.0.1', 9)); say(mmsg(s, b''))";
        let outcome = Sandbox::of(user).trap().run(python(script));
        assert_eq!(outcome.stdout, "EACCES\nEACCES\nEACCES\n", "{outcome:#?}");
        let report = |address: &str| json!({ "Network": ["connect", address, "seccomp"] });
        let expected = ["192.0.2.1:123", "[2001:db8::1]:443", "127.0.0.1:9"].map(report);
        assert_eq!(outcome.traps, expected, "{outcome:#?}");
    });
}

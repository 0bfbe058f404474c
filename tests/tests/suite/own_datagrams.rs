//! Servers by UDP of the command's own (allowLocalBinding): they reach one another on loopback addresses, and
//! nobody else.

use crate::udp::{python, received};
use serde_json::json;
use std::ffi::OsString;
use std::net::UdpSocket;
use std::time::Duration;
use tests::{Sandbox, User, eventually, for_each_user};

fn own(user: User) -> Sandbox {
    Sandbox::of(user).allow_write(".").allow_local_binding()
}

/// A stranger outside, who waits a moment for what comes.
fn stranger(ip: &str) -> UdpSocket {
    let socket = UdpSocket::bind((ip, 0)).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    socket
}

/// Whether somebody outside can have this port too.
fn shares(port: u16) -> bool {
    let words = format!(
        "s = socket.socket(2, socket.SOCK_DGRAM); s.setsockopt(1, 2, 1); say(tried(s.bind, ('127.0.0.1', {port})))"
    );
    Sandbox::new().run_outside(python(&words)).stdout == "None\n"
}

/// Inside and outside the script says the same; without the right, it fails.
#[track_caller]
fn same_as_outside(user: User, script: &str) {
    let (inside, outside) = (own(user).run(python(script)), own(user).run_outside(python(script)));
    outside.succeeds();
    assert_eq!(inside.stdout, outside.stdout, "{inside:#?}");
    Sandbox::of(user).allow_write(".").run(python(script)).fails();
}

#[test]
fn own_sockets_reach_one_another_however_they_send() {
    for_each_user(|user| {
        let script = "
families = ('127.0.0.1', 2), ('::1', 10), ('::ffff:127.0.0.1', 10)
for ip, family in families:
    server = socket.socket(family, socket.SOCK_DGRAM); server.bind((ip, 0)); there = server.getsockname()[:2]
    for name, way in addressed(socket.socket(family, socket.SOCK_DGRAM), there):
        if name in ('more', 'zerocopy', 'segments', 'information', 'unspecified'): continue
        say(ip, name, way()); data, client = server.recvfrom(99); say(data, client[0])
    client = socket.socket(family, socket.SOCK_DGRAM); client.settimeout(9); client.connect(there); say(client.getpeername()[:2] == there)
    for name, way in plain(client): way(); data, back = server.recvfrom(99); say(name, data[:3] == b'rea' or len(data), back == client.getsockname(), server.sendto(b'answer', back), client.recv(9))
    libc.connect(client.fileno(), bytes(16), 16); say(tried(client.send, b'x')); client.connect(there); say(client.send(b'x'), server.recv(9))";
        same_as_outside(user, script);
    });
}

#[test]
fn a_client_that_looks_for_its_server_meanwhile_is_not_refused() {
    for_each_user(|user| {
        let script = "
import threading
s = socket.socket(2, socket.SOCK_DGRAM); s.bind(('127.0.0.1', 0)); there = s.getsockname(); s.close()
done = threading.Event(); found = set(); own = socket.socket(2, socket.SOCK_DGRAM); own.bind(('127.0.0.1', 0))
def look():
    while not done.is_set(): found.add(str(tried(own.sendto, b'reached', there)))
client = threading.Thread(target=look); client.start()
for _ in range(200): s = socket.socket(2, socket.SOCK_DGRAM); s.bind(there); s.close()
done.set(); client.join(); s = socket.socket(2, socket.SOCK_DGRAM); s.bind(there)
say(sorted(found - {'ECONNREFUSED', '7'}), own.sendto(b'reached', there))";
        let outcome = own(user).trap().run(python(script));
        assert_eq!(outcome.stdout, "[] 7\n", "{outcome:#?}");
        assert!(outcome.traps.is_empty(), "{outcome:#?}");
    });
}

#[test]
fn servers_of_all_addresses_are_reached_at_every_one_of_loopback() {
    for_each_user(|user| {
        let script = "
for at, family, theirs in ('0.0.0.0', 2, ('127.0.0.1', '0.0.0.0', '127.0.0.1')), ('::', 10, ('127.0.0.1', '127.0.0.9', '::1', '::', '::ffff:127.0.0.1')):
    server = socket.socket(family, socket.SOCK_DGRAM); server.bind((at, 0)); port = server.getsockname()[1]
    for ip in theirs:
        client = socket.socket(10 if ':' in ip else 2, socket.SOCK_DGRAM); client.settimeout(9); client.sendto(b'x', (ip, port)); data, back = server.recvfrom(9)
        server.sendto(b'answer', back); say(ip, client.recv(9))
        client = socket.socket(10 if ':' in ip else 2, socket.SOCK_DGRAM); client.connect((ip, port)); say(ip, client.send(b'x'), server.recv(9))";
        same_as_outside(user, script);
    });
}

#[test]
fn an_own_socket_reaches_nobody_else_however_it_sends() {
    for_each_user(|user| {
        for (family, ip) in
            [("AF_INET", "127.0.0.1"), ("AF_INET6", "::1"), ("AF_INET6", "::ffff:127.0.0.1")]
        {
            let other = stranger(if ip == "::1" { ip } else { "127.0.0.1" });
            let port = other.local_addr().unwrap().port();
            let script = format!(
                "
server = socket.socket(socket.{family}, socket.SOCK_DGRAM); server.bind(('{ip}', 0)); own = server.getsockname()
client = socket.socket(socket.{family}, socket.SOCK_DGRAM); client.connect(own)
unbound = socket.socket(socket.{family}, socket.SOCK_DGRAM); unbound.sendto(b'x', own)
def all(s, a):
    for name, way in addressed(s, a): say(name, tried(way))
    say(tried(s.connect, a))
    for name, way in addressed(s, a): say(name, tried(way))
for s in server, client, unbound, socket.socket(socket.{family}, socket.SOCK_DGRAM):
    all(s, ('{ip}', {port}))
    say(tried(s.sendto, b'x', ('192.0.2.1' if s.family == 2 else '2001:db8::1', 53)))
mute = socket.socket(socket.{family}, socket.SOCK_DGRAM); mute.connect(('{ip}', {port}))
for name, way in plain(mute): say(name, tried(way))
say(client.send(b'own'), server.recv(9), 'came')"
            );
            let outcome = own(user).trap().run(python(&script));
            let sent = |line: &&str| line.split(' ').next_back().unwrap().parse::<u32>().is_ok();
            assert_eq!(outcome.stdout.lines().filter(sent).count(), 0, "{outcome:#?}");
            assert!(outcome.succeeds().stdout.ends_with(" came\n"), "{outcome:#?}");
            assert_eq!(received(&other), 0, "{ip}");
            let there = match ip.contains(':') {
                true => format!("[{ip}]:{port}"),
                false => format!("{ip}:{port}"),
            };
            let report = json!({ "Network": ["connect", there, "seccomp"] });
            assert!(outcome.traps.contains(&report), "{outcome:#?}");
            own(user).run_outside(python(&script));
            assert!(received(&other) > 20, "{ip}");
        }
    });
}

#[test]
fn strangers_are_not_heard_and_take_no_port() {
    for_each_user(|user| {
        let script = "
def wait(name):
    while not os.path.exists(name): time.sleep(0.01)
server = socket.socket(2, socket.SOCK_DGRAM); say(server.setsockopt(1, 2, 1)); server.bind(('127.0.0.1', 0)); server.settimeout(1)
client = socket.socket(2, socket.SOCK_DGRAM); client.connect(server.getsockname()); server.setsockopt(1, 2, 1); client.setsockopt(1, 2, 1)
say('ports', server.getsockname()[1], client.getsockname()[1], '.'); wait('go1')
for s in server, client:
    s.settimeout(1)
    try: say('got', s.recv(9))
    except TimeoutError: say('nothing')
client.send(b'own'); say(server.recv(9)); server.close(); say('closed'); wait('go2')
say(client.send(b'x')); client.close(); say('gone'); wait('go3')";
        let sandbox = own(user);
        let mut running = sandbox.spawn(python(script));
        running.expect(" .\n");
        let said = running.stdout();
        let ports = said.lines().find(|line| line.starts_with("ports")).unwrap();
        let port = |at| ports.split(' ').nth(at).unwrap().parse::<u16>().unwrap();
        let other = stranger("127.0.0.1");
        for at in [1, 2] {
            other.send_to(b"stranger", ("127.0.0.1", port(at))).unwrap();
        }
        // Neither beside it, nor in its place once a client was connected to it.
        assert!(!shares(port(1)) && !shares(port(2)));
        sandbox.file("work/go1", "");
        running.expect("closed\n");
        assert!(running.stdout().contains("nothing\nnothing\nb'own'\n"), "{}", running.stdout());
        std::thread::sleep(Duration::from_millis(700));
        assert!(!shares(port(1)));
        sandbox.file("work/go2", "");
        running.expect("gone\n");
        assert!(eventually(|| shares(port(2))));
        assert!(!shares(port(1)));
        sandbox.file("work/go3", "");
        running.wait().succeeds();
        assert!(eventually(|| shares(port(1))));
    });
}

/// One that is bound for both families has a single address once it is connected.
#[test]
fn who_takes_an_address_that_a_socket_has_left_is_a_stranger() {
    for_each_user(|user| {
        let script = "
def bound(ip, family=10): s = socket.socket(family, socket.SOCK_DGRAM); s.settimeout(9); s.bind((ip, 0)); return s, s.getsockname()[1]
(one, first), (two, second) = bound('::1'), bound('127.0.0.1', 2)
kept, at = bound('::'); client, _ = bound('::1'); client.connect(('::1', at))
say(tried(kept.connect, ('::ffff:127.0.0.1', second)), kept.connect(('::1', first)))
s, port = bound('::'); s.sendto(b'introduced', ('::1', first)); say(one.recv(99)); s.connect(('::ffff:127.0.0.1', second))
say('moved', at, first, port, '.')
while not os.path.exists('go'): time.sleep(0.01)
def reach(): say([tried(f, *a) for f, *a in ((one.sendto, b'x', ('::1', port)), (one.connect, ('::1', port)), (socket.socket(10, socket.SOCK_DGRAM).sendto, b'x', ('::1', port)))])
reach(); two.sendto(b'own', ('127.0.0.1', port)); say(s.recv(9)); libc.connect(s.fileno(), bytes(28), 28)
reach(); two.sendto(b'own', ('127.0.0.1', port)); say(s.recv(9), tried(s.connect, ('::1', first)))
two.connect(('127.0.0.1', port)); s.connect(('::ffff:127.0.0.1', second)); say(two.send(b'own'), s.recv(9))
one.setblocking(False); say(tried(one.recv, 9))";
        let refused = "['EACCES', 'EACCES', 'EACCES']";
        let expected =
            format!("{refused}\nb'own'\n{refused}\nb'own' EADDRINUSE\n3 b'own'\nEAGAIN\n");
        let sandbox = own(user).trap();
        let mut running = sandbox.spawn(python(script));
        running.expect(" .\n");
        let said = running.stdout();
        assert!(said.starts_with("EADDRINUSE None\nb'introduced'\n"), "{said}");
        let ports: Vec<u16> = said.split(' ').filter_map(|word| word.parse().ok()).collect();
        let [kept, first, left] = ports[..] else { panic!("{said}") };
        UdpSocket::bind(("::1", kept)).unwrap_err();
        let other = UdpSocket::bind(("::1", left)).unwrap();
        other.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        other.send_to(b"stranger", ("::1", first)).unwrap();
        sandbox.file("work/go", "");
        let outcome = running.wait();
        assert_eq!(received(&other), 0, "{outcome:#?}");
        assert!(outcome.stdout.ends_with(&expected), "{outcome:#?}");
        let report = json!({ "Network": ["connect", format!("[::1]:{left}"), "seccomp"] });
        assert!(outcome.traps.contains(&report), "{outcome:#?}");
    });
}

#[test]
fn what_was_begun_to_be_sent_to_an_own_socket_reaches_nobody_who_comes_later() {
    for_each_user(|user| {
        // MSG_MORE: the message keeps its address, whatever the socket is connected to later.
        let script = "
server = socket.socket(2, socket.SOCK_DGRAM); server.bind(('127.0.0.1', 0)); there = server.getsockname()
client = socket.socket(2, socket.SOCK_DGRAM); client.connect(there); say(client.send(b'begun, ', 0x8000))
libc.connect(client.fileno(), bytes(16), 16)
other = socket.socket(2, socket.SOCK_DGRAM); other.sendto(b'x', there); say(tried(other.sendto, b'begun, ', 0x8000, there))
server.close(); say('port', there[1], '.')
while not os.path.exists('go'): time.sleep(0.01)
say(tried(client.send, b'ended'), tried(other.send, b'ended'))";
        let sandbox = own(user);
        let mut running = sandbox.spawn(python(script));
        running.expect(" .\n");
        let said = running.stdout();
        assert!(said.starts_with("7\n") && said.contains("\nENOTSUP\n"), "{said}");
        let port = said.split(' ').nth_back(1).unwrap().parse::<u16>().unwrap();
        std::thread::sleep(Duration::from_millis(700));
        assert!(!shares(port));
        sandbox.file("work/go", "");
        running.wait().succeeds();
        assert!(eventually(|| shares(port)));
    });
}

#[test]
fn a_server_that_is_started_again_has_its_clients() {
    for_each_user(|user| {
        let script = "
server = socket.socket(2, socket.SOCK_DGRAM); server.bind(('127.0.0.1', 0)); there = server.getsockname()
client = socket.socket(2, socket.SOCK_DGRAM); client.connect(there)
for i in range(3):
    server.close(); time.sleep(0.3 * (i % 2)); server = socket.socket(2, socket.SOCK_DGRAM); server.settimeout(9); server.bind(there); tried(client.send, b'lost'); tried(server.recv, 9)
    say(client.send(b'found'), server.recv(9)); other = socket.socket(2, socket.SOCK_DGRAM); say(tried(other.bind, there)); other.sendto(b'too', there); say(server.recv(9))";
        same_as_outside(user, script);
    });
}

#[test]
fn options_carry_over_and_processes_share() {
    for_each_user(|user| {
        let script = "
s = socket.socket(2, socket.SOCK_DGRAM); s.settimeout(9); s.setsockopt(1, 8, 5000); s.setsockopt(1, 6, 1); s.setsockopt(0, 1, 16); s.setsockopt(0, 8, 1); s.setblocking(False)
before = [s.getsockopt(*o) for o in ((1, 8), (1, 6), (0, 1), (0, 8), (1, 7))]; s.bind(('127.0.0.1', 0)); say(before == [s.getsockopt(*o) for o in ((1, 8), (1, 6), (0, 1), (0, 8), (1, 7))], s.get_inheritable(), os.get_blocking(s.fileno()))
os.set_inheritable(s.fileno(), True); s.setblocking(True); there = s.getsockname()
if os.fork() == 0:
    c = socket.socket(2, socket.SOCK_DGRAM); c.sendto(b'child', there); say(c.recv(9)); os._exit(0)
data, back = s.recvfrom(9); s.sendto(data.upper(), back); os.wait()
t = socket.socket(fileno=os.dup(s.fileno())); s.close()
time.sleep(0.6); c = socket.socket(2, socket.SOCK_DGRAM); c.sendto(b'kept', there); say(t.recv(9))";
        same_as_outside(user, script);
    });
}

/// Starts two commands that have the ends of one pair as standard input. The first gives the second a socket; that one
/// sends on it to a stranger, who says whether something came.
const BETWEEN: &str = "
import os, socket, subprocess, sys
give, take, *words = sys.argv[1:]; at = words.index('then')
udp = socket.socket(2, socket.SOCK_DGRAM); udp.bind(('127.0.0.1', 0))
inbox = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); inbox.bind('inbox'); os.chmod('inbox', 0o777)
for kind, stranger in ('udp', udp), ('datagram', inbox), ('stream', None):
    there = repr(stranger and (stranger.getsockname() if stranger is udp else os.path.abspath('inbox')))
    one, two = socket.socketpair()
    def start(line, script, word, end): return subprocess.Popen([*line, 'python3', '-c', script, word], stdin=end, stdout=subprocess.PIPE, text=True)
    commands = start(words[:at], give, kind, one), start(words[at + 1:], take, there, two)
    one.close(); two.close(); said = [command.communicate()[0].strip() for command in commands]
    try: said.append(stranger.recv(9, socket.MSG_DONTWAIT).decode() if stranger else '')
    except BlockingIOError: said.append('nothing came')
    print(kind, *said)
os.unlink('inbox')";

const GIVE: &str = "
import errno, socket, sys
kind = sys.argv[1]; given = socket.socket(2 if kind == 'udp' else 1, 1 if kind == 'stream' else 2)
if kind == 'udp': given.bind(('127.0.0.1', 0))
try: socket.send_fds(socket.socket(fileno=0), [b'x'], [given.fileno()]); print('gave')
except OSError as e: print(errno.errorcode[e.errno])";

const TAKE: &str = "
import socket, sys
taken = [socket.socket(fileno=fd) for fd in socket.recv_fds(socket.socket(fileno=0), 9, 1)[1]]
for s in taken: s.type == socket.SOCK_DGRAM and s.sendmsg([b'reached'], [], 0, eval(sys.argv[1]))
print('took', len(taken))";

/// The other run has made none itself, so that sendmsg(2) is let through there.
#[test]
fn no_other_run_gets_a_socket_of_which_each_message_is_judged() {
    for_each_user(|user| {
        let first = own(user);
        let between = |lines: [Vec<OsString>; 2]| {
            let words = ["python3", "-c", BETWEEN, GIVE, TAKE].map(OsString::from);
            let lines = lines.join(&OsString::from("then"));
            first.run_outside(words.into_iter().chain(lines)).stdout
        };
        let line = |sandbox: &Sandbox| [sandbox.command_line(), vec!["--".into()]].concat();
        for second in [own(user), Sandbox::of(user)] {
            assert_eq!(
                between([line(&first), line(&second)]),
                "udp EPERM took 0 nothing came\ndatagram EPERM took 0 nothing came\nstream gave took 1 \n"
            );
        }
        let outside = between([Vec::new(), Vec::new()]);
        assert_eq!(
            outside,
            "udp gave took 1 reached\ndatagram gave took 1 reached\nstream gave took 1 \n"
        );
    });
}

//! allowLocalBinding: servers on loopback, and connects to those of the sandbox alone (attacks N3 to N5).
//!
//! Every test that refuses listens outside and asks the listener what came.

use serde_json::json;
use std::ffi::OsString;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;
use tests::{Outcome, Sandbox, TcpPeer, User, at_once, eventually, for_each_user, free_port};

/// Python with `serve(family, host)`, which listens and says where, and `reach(address)`.
const PYTHON: &str = "
import os, socket, sys, threading, time
def serve(family, host, port=0, only6=None, bind=True):
    s = socket.socket(family)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if only6 is not None: s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, only6)
    if bind: s.bind((host, port))
    s.listen(16)
    return s
def reach(address, family=socket.AF_INET):
    c = socket.socket(family)
    c.settimeout(60)
    try:
        c.connect(address)
        return 'reached'
    except OSError as e:
        return type(e).__name__
    finally:
        c.close()
def say(*words): print(*words, flush=True)
def line(): return sys.stdin.readline().strip()
";

fn python(script: &str) -> [String; 3] {
    ["python3".into(), "-c".into(), format!("{PYTHON}{script}")]
}

/// The addresses that sockets of this host listen on with `port`.
fn listening_on(port: u16) -> Vec<IpAddr> {
    let mut found = Vec::new();
    for table in ["/proc/net/tcp", "/proc/net/tcp6"] {
        for line in std::fs::read_to_string(table).unwrap().lines().skip(1) {
            let words: Vec<&str> = line.split_ascii_whitespace().collect();
            let (ip, hex) = words[1].rsplit_once(':').unwrap();
            if words[3] != "0A" || u16::from_str_radix(hex, 16).unwrap() != port {
                continue;
            }
            let bytes: Vec<u8> = (0..ip.len() / 8)
                .flat_map(|i| u32::from_str_radix(&ip[i * 8..i * 8 + 8], 16).unwrap().to_ne_bytes())
                .collect();
            found.push(match <[u8; 4]>::try_from(&bytes[..]) {
                Ok(four) => IpAddr::from(four),
                Err(_) => IpAddr::from(<[u8; 16]>::try_from(&bytes[..]).unwrap()),
            });
        }
    }
    found
}

/// Whether what listens on `port` for both families does so on the loopback interface alone: asked of the
/// kernel (sock_diag(7)), for no file says so.
fn is_on_loopback_interface(port: u16) -> bool {
    let script = format!(
        "import socket, struct
s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 4)
body = struct.pack('=BBBBI', socket.AF_INET6, 6, 0, 0, 1 << 10) + bytes(48)
s.send(struct.pack('=IHHII', 16 + len(body), 20, 0x301, 1, 0) + body)
found = []
while True:
    data = s.recv(1 << 16)
    while data:
        size, kind = struct.unpack('=IH', data[:6])
        if kind == 3: print(found); raise SystemExit
        if struct.unpack('!H', data[20:22])[0] == {port}: found.append(struct.unpack('=I', data[56:60])[0])
        data = data[(size + 3) & ~3:]"
    );
    let output = std::process::Command::new("python3").args(["-c", &script]).output().unwrap();
    output.stdout == b"[1]\n"
}

#[test]
fn servers_listen_on_loopback_however_they_bind() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user).allow_local_binding();
        for (how, client) in [
            ("socket.AF_INET, '127.0.0.1'", "127.0.0.1"),
            ("socket.AF_INET, '127.0.0.77'", "127.0.0.77"),
            ("socket.AF_INET, '0.0.0.0'", "127.0.0.1"),
            ("socket.AF_INET, ''", "127.0.0.1"),
            ("socket.AF_INET, '', bind=False", "127.0.0.1"),
            ("socket.AF_INET6, '::1'", "::1"),
            ("socket.AF_INET6, '::', only6=1", "::1"),
            ("socket.AF_INET6, '::', only6=0", "127.0.0.1"),
            ("socket.AF_INET6, '::', only6=0", "::1"),
            ("socket.AF_INET6, '::ffff:127.0.0.1', only6=0", "127.0.0.1"),
            ("socket.AF_INET6, '::ffff:0.0.0.0', only6=0", "127.0.0.1"),
            ("socket.AF_INET6, '', only6=0, bind=False", "127.0.0.1"),
        ] {
            let script = format!(
                "s = serve({how}); port = s.getsockname()[1]; say('port', port, '.')
family = socket.AF_INET6 if ':' in '{client}' else socket.AF_INET
say(reach(('{client}', port), family)); s.accept(); s.accept(); say('done')"
            );
            let mut running = sandbox.spawn(python(&script));
            running.expect(" .\n");
            let port = running.stdout().split(' ').nth(1).unwrap().parse().unwrap();
            let found = listening_on(port);
            assert!(!found.is_empty(), "{how} does not listen");
            for ip in found {
                let is_kept = ip.is_unspecified() && is_on_loopback_interface(port);
                assert!(is_kept || ip.to_canonical().is_loopback(), "{how} listens on {ip}");
            }
            running.expect("reached");
            TcpStream::connect((client, port)).unwrap();
            running.wait().succeeds();
        }
    });
}

#[test]
fn addresses_of_the_host_are_not_bound() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user).allow_local_binding().trap();
        let attacks = "bind4 192.0.2.1 0 + bind4 255.255.255.255 0 + bind6 fe80::1 0 \
                       + bind6 2001:db8::1 0 + bind6 ::ffff:192.0.2.1 0";
        let outcome = sandbox.probe(attacks);
        outcome.all_refused();
        assert_eq!(outcome.traps.len(), 5, "{outcome:#?}");
        sandbox.probe("bind4 127.0.0.1 0 + bind6 ::1 0 + listen-unbound").all_allowed();
    });
}

#[test]
fn other_programs_of_this_host_are_not_reached() {
    for_each_user(|user| {
        let port = free_port();
        let peers = [TcpPeer::at("127.0.0.1", port), TcpPeer::at("::1", port)];
        let sandbox = Sandbox::of(user).allow_local_binding().trap();
        let attacks = [
            format!("connect4 127.0.0.1 {port}"),
            format!("connect4 127.0.0.1 {port} --nonblock"),
            format!("connect4 0.0.0.0 {port}"),
            format!("connect6 ::1 {port}"),
            format!("connect-mapped 127.0.0.1 {port}"),
        ];
        for attack in &attacks {
            let outcome = sandbox.probe(attack);
            outcome.all_refused();
            assert_eq!(outcome.traps.len(), 1, "{outcome:#?}");
        }
        peers.iter().for_each(TcpPeer::untouched);
        sandbox.probe_outside(&attacks[0]).all_allowed();
        sandbox.probe_outside(&attacks[3]).all_allowed();
    });
}

#[test]
fn a_port_of_another_address_is_not_the_sandbox_s_own() {
    // The sandbox listens on 127.0.0.2 and ::1, another program with the same port on 127.0.0.1.
    let port = free_port();
    let peer = TcpPeer::at("127.0.0.1", port);
    let sandbox = Sandbox::new().allow_local_binding();
    let script = format!(
        "a = serve(socket.AF_INET, '127.0.0.2', {port})
say(reach(('127.0.0.1', {port})), reach(('::ffff:127.0.0.1', {port}), socket.AF_INET6))
say(reach(('127.0.0.2', {port})))"
    );
    let outcome = sandbox.run(python(&script));
    assert_eq!(outcome.stdout, "PermissionError PermissionError\nreached\n", "{outcome:#?}");
    peer.untouched();
}

/// `localhost` means both: who connects to it would talk to the sandbox in the place of the other program.
#[test]
fn a_port_is_not_taken_beside_another_program_s_on_the_other_loopback_address() {
    for_each_user(|user| {
        for (theirs, own, option) in [
            ("127.0.0.1", "socket.AF_INET6, '::1'", ", only6=1"),
            ("::1", "socket.AF_INET, '127.0.0.1'", ""),
            ("::1", "socket.AF_INET, '0.0.0.0'", ""),
        ] {
            let port = free_port();
            let _peer = TcpPeer::at(theirs, port);
            let sandbox = Sandbox::of(user).allow_local_binding();
            let script = |port| {
                format!(
                    "try: s = serve({own}, {port}{option}); say('taken')
except OSError as e: say(e.errno)"
                )
            };
            let in_use = format!("{}\n", nix::errno::Errno::EADDRINUSE as i32);
            assert_eq!(sandbox.run(python(&script(port))).stdout, in_use, "{own} beside {theirs}");
            assert_eq!(sandbox.run(python(&script(free_port()))).stdout, "taken\n");
        }
    });
}

/// Its own server beside its own server is nobody's loss; and `localhost` may be either.
#[test]
fn own_servers_are_reached_by_every_spelling() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user).allow_local_binding();
        let script = "
s = serve(socket.AF_INET6, '::', only6=0); port = s.getsockname()[1]
say(reach(('0.0.0.0', port)), reach(('127.0.0.1', port)), reach(('localhost', port)))
say(*[reach((host, port), socket.AF_INET6) for host in ('::', '::1', '::ffff:0.0.0.0', '::ffff:127.0.0.1')])
a = serve(socket.AF_INET, '127.0.0.1'); port = a.getsockname()[1]; b = serve(socket.AF_INET6, '::1', port, only6=1)
say(reach(('0.0.0.0', port)), reach(('::', port), socket.AF_INET6), reach(('::1', port), socket.AF_INET6))";
        let outcome = sandbox.run(python(script));
        let expected = ["reached"; 10];
        assert_eq!(outcome.stdout.split_whitespace().collect::<Vec<_>>(), expected, "{outcome:#?}");
    });
}

#[test]
fn a_closed_port_is_free_and_whoever_takes_it_is_not_reached() {
    let endings = [
        "s.close()",
        "s.shutdown(socket.SHUT_RDWR); s.close()",
        "s.shutdown(socket.SHUT_RD); s.close()",
    ];
    for ending in endings {
        let port = free_port();
        let sandbox = Sandbox::new().allow_local_binding();
        let script = format!(
            "s = serve(socket.AF_INET, '127.0.0.1', {port})
say(reach(('127.0.0.1', {port}))); {ending}; say(reach(('127.0.0.1', {port}))); say('closed')
while not os.path.exists('taken'): time.sleep(0.01)
say(reach(('127.0.0.1', {port})), 'last')"
        );
        let mut running = sandbox.spawn(python(&script));
        running.expect("closed");
        let peer = TcpPeer::at("127.0.0.1", port);
        sandbox.file("work/taken", "");
        running.expect("last");
        let outcome = running.wait();
        let expected = "reached\nConnectionRefusedError\nclosed\nPermissionError last\n";
        assert_eq!(outcome.stdout, expected, "{ending}: {outcome:#?}");
        peer.untouched();
    }
}

/// What comes of `script` in a network of its own that `network` sets up as a shell, beside `others`, who run what they are
/// told to, in Python, and say `ready` before; none if there can be no such network.
fn beside_others_in_a_network(
    sandbox: &Sandbox,
    (network, others): (&str, &str),
    script: &str,
) -> Option<Outcome> {
    let user = if sandbox.user().is_root() { "" } else { "-Ur" };
    let set_up = format!("ip link set lo up && {network} && exec \"$@\"");
    let words = format!("exec unshare {user} -n sh -c '{set_up}' sh python3 -c \"$0\" \"$@\"");
    let mut command: Vec<OsString> = ["sh", "-c", &words, others].map(Into::into).into();
    command.extend(sandbox.command_line());
    command.push("--".into());
    command.extend(python(script).map(Into::into));
    let outcome = sandbox.run_outside(command);
    outcome.stdout.starts_with("ready\n").then_some(outcome)
}

/// In a network of few ports, some of which others have on IPv4's loopback address.
#[test]
fn a_port_of_the_kernel_s_choice_is_one_where_a_server_can_listen() {
    let sandbox = Sandbox::new().allow_local_binding();
    let script = "ports = []
for i in range(40):
    s = socket.socket(socket.AF_INET6); s.bind(('::1', 0)); s.listen(); ports.append(s.getsockname()[1]); s.close()
say(min(ports) > 40002)";
    let others = "import socket, subprocess, sys
others = [socket.create_server(('127.0.0.1', port)) for port in range(40000, 40003)]
print('ready', flush=True); sys.exit(subprocess.run(sys.argv[1:]).returncode)";
    let network = "echo 40000 40007 >/proc/sys/net/ipv4/ip_local_port_range";
    let Some(outcome) = beside_others_in_a_network(&sandbox, (network, others), script) else {
        return tests::skipped("a network namespace is not permitted");
    };
    assert_eq!(outcome.stdout, "ready\nTrue\n", "{outcome:#?}");
}

/// As Docker does for its name server: what the command would have there is not its own.
#[test]
fn a_server_at_an_address_that_the_host_translates_is_none() {
    let sandbox = Sandbox::new().allow_local_binding();
    let script = "
def own(kind, host, port):
    s = socket.socket(socket.AF_INET6 if ':' in host else socket.AF_INET, kind)
    s.bind((host, port)); kind == socket.SOCK_STREAM and s.listen(0)
    return s
def sent(kind, to):
    s = socket.socket(socket.AF_INET, kind); s.settimeout(60)
    try: s.connect(to); return s.send(b'mine')
    except OSError: return 'refused'
for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
    for host, to, port in [('127.0.0.11', '127.0.0.11', 4053), ('127.0.0.11', '127.0.0.11', 4054), ('::', '127.0.0.11', 4053), ('::', '127.0.0.1', 4053), ('::', '127.0.0.1', 4055)]:
        s = own(kind, host, port); say(host, to, port, sent(kind, (to, port))); s.close()";
    // Outside are those that what goes to ports 4053 and 4055 is led to.
    let others = "import socket, subprocess, sys
others = [socket.create_server(('127.0.0.1', 5053)), socket.socket(type=socket.SOCK_DGRAM)]; others[1].bind(('127.0.0.1', 5053))
print('ready', flush=True); status = subprocess.run(sys.argv[1:]).returncode
print('came:', end='')
for s in others:
    s.setblocking(False)
    try:
        while True: print('', (s.recv(9) if s.type == socket.SOCK_DGRAM else s.accept()[0].recv(9)), end='')
    except (BlockingIOError, ConnectionError): pass
print(); sys.exit(status)";
    let network = "nft add table ip t && nft \"add chain ip t out { type nat hook output priority -100; }\" \
        && nft add rule ip t out ip daddr 127.0.0.11 meta l4proto { tcp, udp } th dport 4053 dnat to 127.0.0.1:5053 \
        && nft add rule ip t out meta l4proto { tcp, udp } th dport 4055 dnat to 127.0.0.1:5053";
    let Some(outcome) = beside_others_in_a_network(&sandbox, (network, others), script) else {
        return tests::skipped("nftables in a network namespace is not permitted");
    };
    let expected = "127.0.0.11 127.0.0.11 4053 refused
127.0.0.11 127.0.0.11 4054 4
:: 127.0.0.11 4053 refused
:: 127.0.0.1 4053 4
:: 127.0.0.1 4055 refused
";
    let came = outcome.stdout.lines().last().unwrap();
    assert!(came.starts_with("came:") && !came.contains("mine"), "{outcome:#?}");
    assert_eq!(
        outcome.stdout.replace(came, "").trim_end(),
        format!("ready\n{expected}{expected}").trim_end(),
        "{outcome:#?}"
    );
}

/// What a client of it is doing at that moment holds its socket in the broker.
#[test]
fn a_server_that_is_made_anew_finds_its_port_free_and_is_no_stranger() {
    for_each_user(|user| {
        let script = "
def serve_and_close(): s = serve(socket.AF_INET, *there); s.close()
def client(connect):
    while not done.is_set(): found.add(connect())
def connects():
    with socket.socket() as c:
        try: c.connect(there)
        except OSError as e: return type(e).__name__
    return 'reached'
there = ('127.0.0.1', 0); s = serve(socket.AF_INET, *there); there = s.getsockname(); s.close()
done = threading.Event(); found = set()
clients = [threading.Thread(target=client, args=[how], daemon=True) for how in (connects, lambda: reach(there))]
for one in clients: one.start()
for _ in range(200): serve_and_close()
done.set(); [one.join() for one in clients]
say(sorted(found - {'reached', 'ConnectionRefusedError', 'ConnectionResetError'}))
s = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen(0); there = s.getsockname(); first = socket.create_connection(there)
threading.Thread(target=connects, daemon=True).start()
while f':{there[1]:04X} 02 ' not in open('/proc/net/tcp').read(): pass  # SYN_SENT
s.close(); serve_and_close(); say('free')";
        let sandbox = Sandbox::of(user).allow_local_binding().trap();
        for outcome in [sandbox.run(python(script)), sandbox.run_outside(python(script))] {
            assert_eq!(outcome.stdout, "[]\nfree\n", "{outcome:#?}");
            assert!(outcome.traps.is_empty(), "{outcome:#?}");
        }
    });
}

/// A connect of it was under way, was given up, and comes to nothing afterwards.
#[test]
fn a_socket_that_was_connecting_listens_for_as_long_as_the_command_has_it() {
    for_each_user(|user| {
        let script = "
import ctypes
def give_up(s): ctypes.CDLL(None).connect(s.fileno(), bytes(16), 16)
def begin(c, to): c.setblocking(False); c.connect_ex(to); return c
def listens(s): return s.getsockopt(socket.SOL_SOCKET, 30)  # SO_ACCEPTCONN
for _ in range(8):
    full = socket.socket(); full.bind(('127.0.0.1', 0)); full.listen(0); first = begin(socket.socket(), full.getsockname())
    s = socket.socket(); s.bind(('127.0.0.1', 0)); begin(s, full.getsockname())
    ends = threading.Thread(target=give_up, args=[s]); ends.start()
    while not listens(s):
        try: s.listen()
        except OSError: pass
    ends.join(); full.close(); time.sleep(0.5)
    say(reach(s.getsockname()) if listens(s) else 'lost'); s.close()";
        let sandbox = Sandbox::of(user).allow_local_binding();
        for outcome in [sandbox.run(python(script)), sandbox.run_outside(python(script))] {
            assert!(outcome.succeeds().stdout.contains("reached"), "{outcome:#?}");
            assert!(!outcome.stdout.contains("lost"), "{outcome:#?}");
        }
    });
}

/// The command shares O_NONBLOCK of its sockets with who connects them for it.
#[test]
fn nobody_waits_for_a_connect_that_the_command_makes_wait() {
    for_each_user(|user| {
        let script = "
import fcntl
def full(family, name):
    s = socket.socket(family); s.bind(name); s.listen(0)
    for _ in range(4): c = socket.socket(family); c.setblocking(False); c.connect_ex(s.getsockname()); kept.append(c)
    kept.append(s); return s.getsockname()
kept = []; there = full(socket.AF_INET, ('127.0.0.1', 0)), full(socket.AF_UNIX, 'full')
def clear(s, done):
    while not done.is_set(): fcntl.fcntl(s.fileno(), fcntl.F_SETFL, 0); time.sleep(0)
def reach(address):
    with socket.socket() as c: c.settimeout(60); c.connect(address); return 'reached'
for i in range(20):
    s = socket.socket((socket.AF_INET, socket.AF_UNIX)[i % 2]); kept.append(s); done = threading.Event(); clears = threading.Thread(target=clear, args=[s, done]); clears.start()
    threading.Thread(target=s.connect, args=[there[i % 2]], daemon=True).start()
    for _ in range(3): server = serve(socket.AF_INET, '127.0.0.1'); say(reach(server.getsockname())); server.shutdown(2); server.close()
    done.set(); clears.join()
os.unlink('full'); os._exit(0)";
        let sandbox = Sandbox::of(user).allow_write(".").allow_local_binding();
        let sandbox = sandbox.timeout(Duration::from_secs(120));
        for outcome in [sandbox.run(python(script)), sandbox.run_outside(python(script))] {
            assert_eq!(outcome.succeeds().stdout, "reached\n".repeat(60), "{outcome:#?}");
        }
    });
}

#[test]
fn a_server_is_reached_wherever_its_socket_has_gone() {
    for_each_user(|user| {
        let address = "('127.0.0.1', s.getsockname()[1])";
        let scripts = [
            // A thread that made it listen, and is gone.
            "s = socket.socket(); s.bind(('127.0.0.1', 0))
t = threading.Thread(target=lambda: s.listen(4)); t.start(); t.join()",
            // A daemon: its parent is gone.
            "s = serve(socket.AF_INET, '127.0.0.1')
if os.fork(): time.sleep(0.2); os._exit(0)
time.sleep(0.5)",
            // Another number.
            "s = serve(socket.AF_INET, '127.0.0.1')
t = socket.socket(fileno=os.dup(s.fileno())); s.close(); s = t",
            // Another process, over a socket.
            "a, b = socket.socketpair(); s = serve(socket.AF_INET, '127.0.0.1')
if os.fork() == 0:
    # Until the other end is closed.
    a.close(); _, fds, _, _ = socket.recv_fds(b, 1, 1); s.close(); b.send(b'x'); b.recv(1); os._exit(0)
b.close(); socket.send_fds(a, [b'x'], [s.fileno()]); port = s.getsockname()[1]; a.recv(1)
class S: getsockname = lambda self: ('', port)
s.close(); s = S()",
        ];
        at_once(scripts, |script| {
            let sandbox = Sandbox::of(user).allow_local_binding();
            // The daemon's output tells how it ended, not the parent's status.
            let script = format!("{script}\nfor i in range(3): say(reach({address}))\nsay('end')");
            let mut running = sandbox.spawn(
                ["sh", "-c", "\"$@\" | cat", "sh"]
                    .into_iter()
                    .map(String::from)
                    .chain(python(&script)),
            );
            running.expect("end");
            let outcome = running.wait();
            assert_eq!(
                outcome.stdout, "reached\nreached\nreached\nend\n",
                "{script}: {outcome:#?}"
            );
        });
    });
}

#[test]
fn ports_are_not_shared() {
    nobody_shares_a_port("STREAM");
}

#[test]
fn ports_of_udp_are_not_shared() {
    nobody_shares_a_port("DGRAM");
}

fn nobody_shares_a_port(kind: &str) {
    for_each_user(|user| {
        // Who sets the option is most often alone at the port.
        let script = format!(
                "def server(port):
    s = socket.socket(type=socket.SOCK_{kind}); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1); s.bind(('127.0.0.1', port))
    if '{kind}' == 'STREAM': s.listen(9)
    return s
one = server(int(sys.argv[1])); port = one.getsockname()[1]
try: two = server(port); say('shared')
except OSError as e: say(e.errno)
say(port, 'end')
while len(sys.argv) > 2 and not os.path.exists(sys.argv[2]): time.sleep(0.01)"
            );
        let words = |args: &[&str]| {
            let args: Vec<_> = args.iter().map(|&arg| arg.to_owned()).collect();
            python(&script).into_iter().chain(args)
        };
        let sandbox = Sandbox::of(user).allow_local_binding().trap();
        let mut running = sandbox.spawn(words(&["0", "seen"]));
        running.expect("end");
        let said = running.stdout();
        let port = said.lines().last().and_then(|line| line.split(' ').next()).unwrap();
        assert_eq!(said, format!("98\n{port} end\n"));
        let outside = Sandbox::of(user);
        let stranger = outside.run_outside(words(&[port]));
        assert!(stranger.stderr.contains("Address already in use"), "{stranger:#?}");
        let twin = outside.run_outside(words(&["0"]));
        assert!(twin.stdout.starts_with("shared\n"), "{twin:#?}");
        sandbox.file("work/seen", "");
        let report = json!({ "Network": ["bind", "option SO_REUSEPORT", "seccomp"] });
        assert_eq!(running.wait().traps, [report], "{kind}");
    });
}

#[test]
fn connects_are_not_put_off() {
    let sandbox = Sandbox::new().allow_local_binding();
    let script = "s = socket.socket()
try: s.setsockopt(socket.IPPROTO_TCP, 30, 1); say('put off')
except OSError as e: say(e.errno)";
    assert_eq!(sandbox.run(python(script)).stdout, "92\n");
    assert_eq!(sandbox.run_outside(python(script)).stdout, "put off\n");
}

#[test]
fn a_connect_that_waits_does_not_go_on_to_whoever_takes_the_port() {
    // The sandbox's own server is full. A SYN is sent again after a second: by then the server has
    // given its port up, and somebody else listens there.
    let cases = [
        ("s.close()", true),
        ("s.close()", false),
        ("s.shutdown(socket.SHUT_RDWR)", false),
        ("s.shutdown(socket.SHUT_RDWR)", true),
    ];
    at_once(cases, |(ending, blocking)| {
        let port = free_port();
        let sandbox = Sandbox::new().allow_local_binding();
        let script = format!(
            "s = serve(socket.AF_INET, '127.0.0.1', {port}); s.listen(0); cs = []
def one():
    c = socket.socket(); cs.append(c)
    if not {blocking}: c.setblocking(False)
    try: c.connect(('127.0.0.1', {port}))
    except OSError as e: pass
    try: c.send(b'reached')
    except OSError as e: pass
for i in range(6): threading.Thread(target=one, daemon=True).start()
time.sleep(0.3); {ending}; say('closed'); end = time.time() + 4
while time.time() < end:
    for c in cs:
        try: c.send(b'reached', socket.MSG_DONTWAIT)
        except OSError: pass
    time.sleep(0.01)
say('end'); os._exit(0)"
        );
        let mut running = sandbox.spawn(python(&script));
        running.expect("closed");
        // While a connect waits for it, the port is still the sandbox's.
        let mut peer = None;
        let end = std::time::Instant::now() + Duration::from_secs(3);
        while std::time::Instant::now() < end && peer.is_none() {
            let address: SocketAddr = format!("127.0.0.1:{port}").parse().unwrap();
            peer = reusing(&address);
        }
        running.expect("end");
        if let Some(listener) = peer {
            listener.set_nonblocking(true).unwrap();
            assert!(listener.accept().is_err(), "{ending} {blocking}: someone came");
        }
        running.wait().succeeds();
    });
}

/// Listens with SO_REUSEADDR, if nobody else does.
pub(crate) fn reusing(address: &SocketAddr) -> Option<TcpListener> {
    // std sets the option.
    TcpListener::bind(address).ok()
}

#[test]
fn another_connect_tells_how_the_first_one_went() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user).allow_local_binding();
        // Found connected at once, and only after the broker has had time to look.
        for pause in ["0", "0.6"] {
            let script = format!(
                "import select
s = serve(socket.AF_INET, '127.0.0.1'); c = socket.socket(); c.setblocking(False)
first = c.connect_ex(s.getsockname()); select.select([], [c], [], 5); time.sleep({pause})
again = [c.connect_ex(s.getsockname()) for _ in range(3)]
peer = s.accept()[0]; c.setblocking(True); peer.send(b'reached'); say(first, again, c.recv(9))"
            );
            let (inside, outside) =
                (sandbox.run(python(&script)), sandbox.run_outside(python(&script)));
            assert_eq!(outside.stdout, "115 [0, 106, 106] b'reached'\n", "{outside:#?}");
            assert_eq!(inside.stdout, outside.stdout, "{inside:#?}");
        }
    });
}

#[test]
fn python_s_file_server_serves_curl() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user).allow_local_binding();
        sandbox.file("work/page", "served");
        let port = free_port();
        let script = format!(
            "python3 -m http.server {port} >/dev/null 2>&1 & \
             curl -s --retry 20 --retry-connrefused --retry-delay 1 http://127.0.0.1:{port}/page; \
             curl -s http://localhost:{port}/page; kill $!"
        );
        assert_eq!(sandbox.sh(&script).stdout, "servedserved");
    });
}

#[test]
fn node_s_servers_and_clusters_are_reached() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user).allow_local_binding();
        let net = "const net = require('net');
let left = 2;
const say = d => { console.log(String(d)); if (--left == 0) process.exit(); };
const s = net.createServer(c => c.end('served')).listen(0, () => {
  for (const host of ['127.0.0.1', 'localhost'])
    net.connect(s.address().port, host).on('data', say).on('error', e => say(e.code));
});";
        assert_eq!(sandbox.run(["node", "-e", net]).stdout, "served\nserved\n");
        let cluster = "const cluster = require('cluster'), http = require('http');
if (cluster.isPrimary) {
  for (let i = 0; i < 2; i++) cluster.fork();
  let n = 0;
  cluster.on('listening', (w, a) => { if (++n < 2) return;
    let m = 0;
    for (let i = 0; i < 4; i++) http.get({ port: a.port, host: '127.0.0.1', agent: false }, r => {
      r.on('data', d => console.log(String(d))); r.on('end', () => { if (++m == 4) process.exit(); }); })
      .on('error', e => { console.log(e.code); process.exit(1); });
  });
} else http.createServer((q, r) => r.end('served')).listen(0);";
        sandbox.file("work/cluster.js", cluster);
        let outcome = sandbox.run(["node", "cluster.js"]);
        assert_eq!(outcome.stdout, "served\n".repeat(4), "{outcome:#?}");
    });
}

#[test]
fn java_style_and_go_style_servers_are_reached() {
    // Both bind `::` on a socket for both families; Go also tries what the host can do first.
    let sandbox = Sandbox::of(User::Caller).allow_local_binding();
    let script = "
for host in ('::1', '::ffff:127.0.0.1'): serve(socket.AF_INET6, host, only6=(host == '::1') * 1).close()
s = serve(socket.AF_INET6, '::', only6=0); say(s.getsockname()[0])
port = s.getsockname()[1]
say(socket.create_connection(('localhost', port)) and 'reached')";
    assert_eq!(sandbox.run(python(script)).stdout, "::\nreached\n");
}

/// What takes long because it is much.
mod large {
    use super::*;

    #[test]
    fn ten_thousand_connects_from_a_hundred_threads_succeed() {
        let sandbox = Sandbox::new().allow_local_binding().timeout(Duration::from_secs(120));
        let script =
            "s = serve(socket.AF_INET, '127.0.0.1'); s.listen(4096); port = s.getsockname()[1]
def accept():
    while True: s.accept()[0].close()
threading.Thread(target=accept, daemon=True).start()
reach(('127.0.0.1', port)); say('start'); line()
results = []
def one():
    for i in range(100): results.append(reach(('127.0.0.1', port)))
ts = [threading.Thread(target=one) for _ in range(100)]
[t.start() for t in ts]; [t.join() for t in ts]
say(len(results), set(results)); say('stop'); line(); os._exit(0)";
        let script = script.replace("line()", "time.sleep(1.5)");
        let mut running = sandbox.spawn(python(&script));
        let broker = format!("/proc/{}", running.pid());
        let descriptors = || std::fs::read_dir(format!("{broker}/fd")).unwrap().count();
        running.expect("start");
        let before = descriptors();
        assert!(
            eventually(|| running.stdout().contains("stop"))
                || eventually(|| running.stdout().contains("stop"))
        );
        let memory = std::fs::read_to_string(format!("{broker}/status")).unwrap();
        let resident: u64 = memory
            .lines()
            .find_map(|l| l.strip_prefix("VmRSS:"))
            .unwrap()
            .trim()
            .split(' ')
            .next()
            .unwrap()
            .parse()
            .unwrap();
        assert!(resident < 32 * 1024, "{resident} KiB");
        // Handles are kept for as long as there is something to do.
        assert!(
            eventually(|| descriptors() <= before),
            "{} descriptors, {before} before",
            descriptors()
        );
        let outcome = running.wait();
        assert!(outcome.stdout.contains("10000 {'reached'}"), "{outcome:#?}");
    }
}

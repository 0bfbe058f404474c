//! Programs that know no proxy: what they look up, and where their own connects lead.
//!
//! The command speaks by Python's sockets; real programs are in `tools::by_name`. Names are those of the policy's own
//! hosts, so that no name server outside is needed; where one matters, a namespace has it.

use super::admission::proxy_of;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use tests::{
    ESCAPED, Mood, NameServer, Origin, Outcome, Sandbox, TcpPeer, UpstreamStub, User, eventually,
    for_each_user, free_port, own_address, resolv_conf,
};

/// What the scripts begin with: `get` asks by a connected socket, `tried` says how something failed.
const HEAD: &str = "
import errno, os, random, select, socket, struct, sys, threading, time
def get(s, host='good.test'):
    s.sendall(b'GET /x HTTP/1.0\\r\\nHost: %s:%d\\r\\n\\r\\n' % (host.encode(), PORT))
    return s.recv(64).split(b'\\r')[0].decode() or 'closed'
def tried(what):
    try: return what()
    except OSError as e: return errno.errorcode.get(e.errno, str(e.errno))
def outcome(s):
    # None once it is connected.
    while True:
        told = s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if told: return errno.errorcode[told]
        if tried(s.getpeername) != 'ENOTCONN': return None
def address(name): return socket.getaddrinfo(name, None, socket.AF_INET, socket.SOCK_STREAM)[0][4][0]
def connect(host, port, family=socket.AF_INET):
    s = socket.socket(family); s.settimeout(None); s.connect((host, port)); return s
def query(name, kind=1, id=7, flags=0x100, count=1):
    labels = b''.join(bytes([len(l)]) + l for l in name.encode().split(b'.'))
    return struct.pack('>6H', id, flags, count, 0, 0, 0) + labels + b'\\0' + struct.pack('>2H', kind, 1)
def ask(s, question):
    s.sendall(struct.pack('>H', len(question)) + question)
    size = struct.unpack('>H', s.recv(2, socket.MSG_WAITALL))[0]
    return s.recv(size, socket.MSG_WAITALL)
";

/// A sandbox that may reach `good.test`, which is this host, on `port`.
fn sandbox_for(user: User, port: u16) -> Sandbox {
    let policy = json!({ "network": {
        "allowedDomains": ["good.test", format!("127.0.0.1:{port}"), "*.below.test"],
        "hosts": ["127.0.0.1 good.test other.test"] } });
    Sandbox::of(user).policy_json(policy.to_string()).trap()
}

fn python(sandbox: &Sandbox, port: u16, script: &str) -> Outcome {
    sandbox.run(["python3", "-c", &format!("{HEAD}\nPORT = {port}\n{script}")])
}

fn refused(what: impl AsRef<str>) -> Value {
    json!({ "Network": ["connect", what.as_ref(), "proxy"] })
}

#[track_caller]
fn prints(outcome: &Outcome, lines: &[&str]) {
    assert_eq!(outcome.stdout.lines().collect::<Vec<_>>(), lines, "{ESCAPED}{outcome:#?}");
}

#[test]
fn a_permitted_name_is_reached_by_whoever_looks_it_up_and_another_does_not_exist() {
    for_each_user(|user| {
        let origin = Origin::new("hello");
        let port = origin.port();
        let sandbox = sandbox_for(user, port);
        let script = "
print(get(connect('good.test', PORT)))
print(get(connect('::ffff:' + address('good.test'), PORT, socket.AF_INET6)))
print(address('good.test') == address('GOOD.test.') != address('x.below.test'))
print(all(address(name).startswith(('198.18.', '198.19.')) for name in ['good.test', 'x.below.test']))
for name in ['bad.test', 'below.test', 'other.test', 'good.test.bad']:
    try: print(address(name))
    except socket.gaierror as e: print(e.errno == socket.EAI_NONAME)
";
        let outcome = python(&sandbox, port, script);
        prints(
            &outcome,
            &["HTTP/1.0 200 OK", "HTTP/1.0 200 OK", "True", "True", "True", "True", "True", "True"],
        );
        let lookups = ["bad.test", "below.test", "other.test", "good.test.bad"];
        let expected = lookups.map(|name| refused(format!("name lookup of {name}")));
        assert_eq!(outcome.traps, expected, "{outcome:#?}");
        assert_eq!(origin.requests().len(), 2);
        let getent = |name: &str| sandbox.run(["getent", "ahosts", name]);
        getent("good.test").succeeds();
        getent("bad.test").fails();
    });
}

#[test]
fn connects_by_name_end_as_they_would_without_a_proxy() {
    for_each_user(|user| {
        let origin = Origin::new("hello");
        let (port, closed) = (origin.port(), free_port());
        let policy = json!({ "network": {
            "allowedDomains": [format!("good.test:{port}"), format!("127.0.0.1:{port}"),
                format!("good.test:{closed}"), format!("127.0.0.1:{closed}"), "nowhere.test"],
            "hosts": ["127.0.0.1 good.test", "192.0.2.1 unused.test"] } });
        let sandbox = Sandbox::of(user).policy_json(policy.to_string()).trap();
        let script = format!(
            "
print(tried(lambda: connect('good.test', {closed})))
print(tried(lambda: connect('good.test', 1)))
# One that nobody was given: it is far from those.
given = struct.unpack('>I', socket.inet_aton(address('good.test')))[0]
never = socket.inet_ntoa(struct.pack('>I', given ^ 1 << 16))
print(never, tried(lambda: connect(never, PORT)))
print(tried(lambda: connect('::ffff:' + never, PORT, socket.AF_INET6)))
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
print(tried(lambda: u.sendto(b'x', (address('good.test'), PORT))) in ['EACCES', 'EPIPE'])
# One that failed can be used again, and nothing is left of the failure.
s = socket.socket()
print(tried(lambda: s.connect((address('good.test'), {closed}))), s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))
s.connect((address('good.test'), PORT))
print(tried(lambda: s.connect((address('good.test'), PORT))), get(s))
# Who does not wait is told by the socket.
for family, mapped in [(socket.AF_INET, ''), (socket.AF_INET6, '::ffff:')]:
    for port in [PORT, {closed}, 1]:
        s = socket.socket(family); s.setblocking(False)
        at = (mapped + address('good.test'), port)
        print(s.connect_ex(at) == errno.EINPROGRESS, end=' ')
        select.select([], [s], []); ended = outcome(s); s.setblocking(True)
        print(get(s) if port == PORT and ended is None else ended in ['ECONNREFUSED', 'ECONNRESET'])
        # Whatever became of it is over.
        again = lambda: s.connect((mapped + address('good.test'), PORT))
        print(tried(again) and tried(again), end=' ')
        print(port == PORT or get(s))
"
        );
        let outcome = python(&sandbox, port, &script);
        let never = outcome.stdout.lines().nth(2).unwrap().split(' ').next().unwrap();
        let unwaited = [
            "True HTTP/1.0 200 OK",
            "None True",
            "True True",
            "None HTTP/1.0 200 OK",
            "True True",
            "None HTTP/1.0 200 OK",
        ];
        prints(
            &outcome,
            &[
                "ECONNREFUSED",
                "EACCES",
                &format!("{never} EACCES"),
                "EACCES",
                "True",
                "ECONNREFUSED 0",
                "EISCONN HTTP/1.0 200 OK",
            ]
            .into_iter()
            .chain(unwaited.repeat(2))
            .collect::<Vec<_>>(),
        );
        assert!(outcome.traps.contains(&refused("good.test:1")), "{outcome:#?}");
        assert!(outcome.traps.contains(&refused(format!("{never}:{port}"))), "{outcome:#?}");
        assert_eq!(origin.requests().len(), 7);
    });
}

/// Nobody waits for an answer, as programs do that only tell something.
#[test]
fn clients_that_look_a_name_up_before_they_ask_a_proxy_reach_it_and_no_other() {
    for_each_user(|user| {
        let origin = Origin::new("hello");
        let port = origin.port();
        let script = "
def proxy(variable):
    return connect('127.0.0.1', int(os.environ[variable].rpartition(':')[2]))
def socks(ip):
    s = proxy('SOCKS_PROXY')
    s.sendall(b'\\5\\1\\0' + b'\\5\\1\\0\\1' + socket.inet_aton(ip) + struct.pack('>H', PORT))
    return s, s.recv(12, socket.MSG_WAITALL)[3]
def tunnel(ip):
    s = proxy('HTTP_PROXY')
    s.sendall(b'CONNECT %s:%d HTTP/1.1\\r\\n\\r\\n' % (ip.encode(), PORT))
    return s, s.recv(4096).split(b' ')[1].decode()
given = address('good.test')
never = socket.inet_ntoa(struct.pack('>I', struct.unpack('>I', socket.inet_aton(given))[0] ^ 1 << 16))
for ask in [socks, tunnel]:
    s, answer = ask(given)
    print(answer, get(s))
    print(ask(never)[1])
# What the tunnel leads to is the name, to which what is asked for in it is compared.
print(get(tunnel(given)[0], 'bad.test'))
";
        let outcome = python(&sandbox_for(user, port), port, script);
        let (ok, bad) = ("HTTP/1.0 200 OK", "HTTP/1.0 403 Forbidden");
        prints(&outcome, &[&*format!("0 {ok}"), "2", &*format!("200 {ok}"), "403", bad]);
        let asked = origin.requests().concat();
        assert!(asked.contains("good.test") && !asked.contains("bad.test"), "{ESCAPED}{asked}");
    });
}

#[test]
fn what_was_sent_right_before_the_end_arrives_unless_the_host_does_not_take_it() {
    const SIZE: usize = 50_000;
    for_each_user(|user| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (arrived, lengths) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let arrived = arrived.clone();
                std::thread::spawn(move || {
                    let mut all = Vec::new();
                    let end = stream.read_to_end(&mut all).map(|_| all.len());
                    let _ = arrived.send(end.map_err(|error| error.kind()));
                });
            }
        });
        let script = format!(
            "
data = bytes({SIZE})
s = connect('good.test', PORT); s.sendall(data)
n = socket.socket(); n.setblocking(False); n.connect_ex((address('good.test'), PORT))
select.select([], [n], []); n.setblocking(True); n.sendall(data)
p = connect('127.0.0.1', int(os.environ['HTTP_PROXY'].rsplit(':', 1)[1].strip('/')))
p.sendall(b'CONNECT good.test:%d HTTP/1.1\\r\\nHost: good.test\\r\\n\\r\\n' % PORT)
head = b''
while not head.endswith(b'\\r\\n\\r\\n'): head += p.recv(1)
print(head[:12], flush=True); p.sendall(data); os._exit(0)
"
        );
        prints(&python(&sandbox_for(user, port), port, &script), &["b'HTTP/1.1 200'"]);
        for _ in 0..3 {
            let length = lengths.recv_timeout(std::time::Duration::from_secs(20));
            assert_eq!(length, Ok(Ok(SIZE)));
        }
        // It accepts, and reads nothing.
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = silent.local_addr().unwrap().port();
        let script = "
s = connect('good.test', PORT); s.setblocking(False); sent = 0
try:
    while True: sent += s.send(bytes(1 << 16))
except BlockingIOError: print(sent > 1 << 16, flush=True)
os._exit(0)
";
        prints(&python(&sandbox_for(user, port), port, script), &["True"]);
    });
}

#[test]
fn a_server_that_speaks_first_is_heard_and_names_inside_are_compared() {
    for_each_user(|user| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let _ = stream.write_all(b"220 hello\r\n");
                let _ = stream.read(&mut [0; 64]);
            }
        });
        let greeted =
            python(&sandbox_for(user, port), port, "print(connect('good.test', PORT).recv(5))");
        prints(&greeted, &["b'220 h'"]);
        let origin = Origin::new("hello");
        let port = origin.port();
        let script = "print(get(connect('good.test', PORT), 'other.test'))";
        let outcome = python(&sandbox_for(user, port), port, script);
        prints(&outcome, &["HTTP/1.0 403 Forbidden"]);
        assert_eq!(outcome.traps, [refused(format!("other.test:{port}"))], "{outcome:#?}");
        assert_eq!(origin.requests().iter().filter(|request| !request.is_empty()).count(), 0);
    });
}

#[test]
fn a_name_in_tls_is_compared_as_in_a_tunnel() {
    let origin = Origin::new("hello");
    let port = origin.port();
    let script = "
import ssl
context = ssl.create_default_context(); context.check_hostname = False
print(tried(lambda: context.wrap_socket(connect('good.test', PORT), server_hostname='other.test')) is not None)
";
    let outcome = python(&sandbox_for(User::Caller, port), port, script);
    assert_eq!(outcome.traps, [refused(format!("other.test:{port}"))], "{outcome:#?}");
    // The host is dialled, and gets nothing.
    assert!(origin.requests().iter().all(String::is_empty), "{ESCAPED}{:?}", origin.requests());
    let twin = script.replace("other.test", "good.test");
    let outcome = python(&sandbox_for(User::Caller, port), port, &twin);
    assert_eq!(outcome.traps, [Value::Null; 0], "{outcome:#?}");
    let is_hello = |request: &String| request.starts_with('\x16') && request.contains("good.test");
    assert!(eventually(|| origin.requests().iter().any(is_hello)), "{:?}", origin.requests());
}

/// What stands in a hosts file is not looked up: programs connect to the address.
#[test]
fn an_address_in_a_hosts_file_leads_where_its_permitted_name_does() {
    if !tests::is_root_for("a mount namespace") {
        return;
    }
    let origin = Origin::new("hello");
    let port = origin.port();
    let policy = json!({ "network": {
        "allowedDomains": [format!("good.test:{port}"), format!("*.twin.test:{port}"), format!("127.0.0.1:{port}")],
        "hosts": ["127.0.0.1 good.test a.twin.test b.twin.test"] } });
    let sandbox = Sandbox::new().policy_json(policy.to_string()).trap();
    // Where the names really lead, the run's own lines say; the address of the host's is nobody's.
    sandbox.file(
        "hosts",
        "203.0.113.7 good.test\n203.0.113.8 bad.test\n203.0.113.9 a.twin.test b.twin.test\n",
    );
    let script = "
print(address('good.test'), get(connect('good.test', PORT)))
print(tried(lambda: connect('good.test', 1)), tried(lambda: connect('bad.test', PORT)))
print(get(connect('a.twin.test', PORT), 'a.twin.test'), get(connect('b.twin.test', PORT), 'b.twin.test'))
print(get(connect('b.twin.test', PORT), 'other.test'))
";
    let outcome = in_namespace(&sandbox, "hosts", "/etc/hosts", port, script);
    prints(
        &outcome,
        &[
            "203.0.113.7 HTTP/1.0 200 OK",
            "EACCES EACCES",
            "HTTP/1.0 200 OK HTTP/1.0 200 OK",
            "HTTP/1.0 403 Forbidden",
        ],
    );
    let outside = json!(["connect", format!("203.0.113.8:{port}"), "seccomp"]);
    for trap in [refused("good.test:1"), json!({ "Network": outside })] {
        assert!(outcome.traps.contains(&trap), "{outcome:#?}");
    }
    let requests = origin.requests();
    assert_eq!(requests.iter().filter(|request| !request.is_empty()).count(), 3, "{requests:?}");
}

/// What runs `script` where `file` is in the place of `target`.
fn words_in_namespace(
    sandbox: &Sandbox,
    file: &str,
    target: &str,
    port: u16,
    script: &str,
) -> Vec<OsString> {
    let mount = format!("mount --bind {} {target} && exec \"$@\"", sandbox.name(file));
    let mut words: Vec<OsString> =
        ["unshare", "-m", "sh", "-c", &mount, "sh"].map(Into::into).to_vec();
    words.extend(sandbox.command_line());
    words.extend(
        ["--", "python3", "-c", &format!("{HEAD}\nPORT = {port}\n{script}")].map(Into::into),
    );
    words
}

/// Runs it.
fn in_namespace(sandbox: &Sandbox, file: &str, target: &str, port: u16, script: &str) -> Outcome {
    sandbox.run_outside(words_in_namespace(sandbox, file, target, port, script))
}

#[test]
fn a_refused_name_never_leaves_and_a_permitted_one_is_resolved_once_it_is_connected_to() {
    if !tests::is_root_for("a mount namespace and port 53") {
        return;
    }
    let origin = Origin::new("hello");
    let port = origin.port();
    let forbidden = TcpPeer::at("127.0.0.2", port);
    let server = NameServer::new(|name, before| match name {
        "good.test" => Some([127, 0, 0, 1]),
        "rebinding.test" if before == 0 => Some([127, 0, 0, 1]),
        "rebinding.test" | "loopback.test" => Some([127, 0, 0, 2]),
        "metadata.test" => Some([169, 254, 169, 254]),
        _ => None,
    });
    let policy = json!({ "network": {
        "allowedDomains": ["*.test", format!("127.0.0.1:{port}")],
        "deniedDomains": ["denied.test", "half.test:1"] } });
    let sandbox = Sandbox::new().policy_json(policy.to_string()).trap();
    sandbox.file("resolv.conf", server.resolv_conf() + "search in.lan lan\n");
    let script = "
for name in ['good.test', 'rebinding.test']: print(get(connect(name, PORT), name))
print(tried(lambda: connect('rebinding.test', PORT)))
for name in ['loopback.test', 'metadata.test', 'missing.test']: print(tried(lambda: connect(name, PORT)))
# What programs ask for by habit is not reported.
for name in [socket.gethostname() + '.lan', '9.2.0.192.in-addr.arpa']: print(tried(lambda: address(name)))
for name in ['denied.test', 'secret.of.the.tree', 'half.test']: print(tried(lambda: address(name)).startswith('198.1'))
# By messages and by hand, and whichever server is asked.
for kind in [socket.SOCK_STREAM, socket.SOCK_DGRAM]:
    s = socket.socket(socket.AF_INET, kind); s.connect(('192.0.2.53', 53))
    for name in ['good.test', 'denied.test']:
        answer = ask(s, query(name)) if kind == socket.SOCK_STREAM else (s.send(query(name)), s.recv(512))[1]
        print(answer[3] & 15, answer[7])
";
    let outcome = in_namespace(&sandbox, "resolv.conf", "/etc/resolv.conf", port, script);
    prints(
        &outcome,
        &[
            "HTTP/1.0 200 OK",
            "HTTP/1.0 200 OK",
            "EACCES",
            "EACCES",
            "EACCES",
            "EHOSTUNREACH",
            "-2",
            "-2",
            "False",
            "False",
            "True",
            "0 1",
            "3 0",
            "0 1",
            "3 0",
        ],
    );
    let asked = server.asked();
    let count = |name: &str| asked.iter().filter(|known| *known == name).count();
    // Once for each connect.
    assert_eq!((count("good.test"), count("rebinding.test")), (1, 2), "{asked:?}");
    let leaked = asked.iter().any(|name| name.contains("denied") || name.contains("secret"));
    assert!(!leaked, "{ESCAPED}{asked:?}");
    forbidden.untouched();
    // Names that the resolver makes of others by `search` are not reported beside these.
    let lookups: Vec<_> =
        outcome.traps.iter().filter(|trap| trap.to_string().contains("lookup")).collect();
    let expected =
        ["denied.test", "secret.of.the.tree"].map(|name| refused(format!("name lookup of {name}")));
    assert_eq!(lookups, expected.iter().collect::<Vec<_>>(), "{outcome:#?}");
}

/// Of the names that a resolver makes, a rule with a wildcard permits all, and only one is there.
#[test]
fn a_search_list_finds_the_name_that_exists() {
    if !tests::is_root_for("a mount namespace and port 53") {
        return;
    }
    let origin = Origin::new("hello");
    let port = origin.port();
    let server = NameServer::new(|name, _| (name == "db.two.corp.test").then_some([127, 0, 0, 1]));
    let policy = json!({ "network": {
        "allowedDomains": ["*.corp.test", format!("127.0.0.1:{port}")] } });
    let sandbox = Sandbox::new().policy_json(policy.to_string()).trap();
    sandbox.file("resolv.conf", server.resolv_conf() + "search one.corp.test two.corp.test\n");
    let script = "
print(get(connect('db', PORT), 'db.two.corp.test'))
print(tried(lambda: connect('none', PORT)))
";
    let outcome = in_namespace(&sandbox, "resolv.conf", "/etc/resolv.conf", port, script);
    prints(&outcome, &["HTTP/1.0 200 OK", "-2"]);
    assert!(server.asked().iter().all(|name| name.ends_with(".corp.test")), "{ESCAPED}{server:?}");
    assert_eq!(outcome.traps, [refused("name lookup of none")], "{outcome:#?}");
}

#[test]
fn the_upstream_of_the_caller_is_asked_for_the_name() {
    let origin = Origin::new("hello");
    let stub = UpstreamStub::new(origin.port(), Mood::Willing);
    let url = format!("http://127.0.0.1:{}", stub.port());
    let sandbox = Sandbox::new().allow_domains(["good.test:8080"]).env("HTTPS_PROXY", url).trap();
    // A request that names another host is none to this one, whoever leads there.
    let script =
        "print(get(connect('good.test', PORT))); print(tried(lambda: connect('good.test', 1)))
print(get(connect('good.test', PORT), 'bad.test'))";
    let expected = ["HTTP/1.0 200 OK", "EACCES", "HTTP/1.0 403 Forbidden"];
    prints(&python(&sandbox, 8080, script), &expected);
    let is_connect = |head: &String| head.starts_with("CONNECT good.test:8080 ");
    assert!(stub.heads().iter().all(is_connect), "{:?}", stub.heads());
    assert!(origin.requests().iter().all(|request| !request.contains("bad.test")));
}

#[test]
fn servers_of_the_commands_own_are_reached_as_before() {
    for_each_user(|user| {
        let policy =
            json!({ "network": { "allowedDomains": ["localhost:1"], "allowLocalBinding": true } });
        let sandbox = Sandbox::of(user).policy_json(policy.to_string()).trap();
        let script = "
for at in ['127.0.0.1', 'localhost']:
    l = socket.create_server((at, 0)); c = connect(at, l.getsockname()[1]); c.send(b'x'); print(l.accept()[0].recv(1))
print(tried(lambda: connect('127.0.0.1', PORT)))
# One that does not listen yet: its clients try again.
free = l.getsockname()[1]; l.close(); print(tried(lambda: connect('localhost', free)))
";
        let stranger = TcpPeer::new();
        let outcome = python(&sandbox, stranger.port(), script);
        prints(&outcome, &["b'x'", "b'x'", "EACCES", "ECONNREFUSED"]);
        stranger.untouched();
    });
}

#[test]
fn only_this_runs_addresses_mean_something_and_there_is_an_end_to_them() {
    for_each_user(|user| {
        let origin = Origin::new("hello");
        let port = origin.port();
        let script = "
s = connect('192.0.2.53', 53)
good = ask(s, query('good.test'))[-4:]
given = {good}
for number in range(10_050):
    answer = ask(s, query('n%d.below.test' % number))
    if answer[3] & 15 == 0: given.add(answer[-4:])
print(len(given), answer[3] & 15)
first = socket.inet_ntoa(min(given - {good}))
print(tried(lambda: connect(first, PORT)))
# None was given again.
print(ask(s, query('good.test'))[-4:] == good, get(connect(socket.inet_ntoa(good), PORT)))
";
        // The names have no address, and no name server is asked for long.
        let outcome = python(
            &sandbox_for(user, port).timeout(std::time::Duration::from_secs(480)),
            port,
            script,
        );
        let lines: Vec<_> = outcome.stdout.lines().collect();
        assert_eq!(lines[0], "10000 2", "{outcome:#?}");
        assert!(["EHOSTUNREACH", "EACCES"].contains(&lines[1]), "{outcome:#?}");
        assert_eq!(lines[2], "True HTTP/1.0 200 OK", "{ESCAPED}{outcome:#?}");
        // What one run was given, another has not.
        let show = "print(address('good.test'), flush=True); sys.stdin.read(1)";
        let one = python(&sandbox_for(user, port), port, show);
        let address = one.stdout.trim().to_owned();
        let other = format!("print(tried(lambda: connect('{address}', PORT)))");
        prints(&python(&sandbox_for(user, port), port, &other), &["EACCES"]);
        assert_eq!(origin.requests().len(), 1, "{ESCAPED}");
    });
}

#[test]
fn strangers_and_other_runs_reach_neither_lookups_nor_what_they_lead_to() {
    for_each_user(|user| {
        let origin = Origin::new("hello");
        let port = origin.port();
        let sandbox = sandbox_for(user, port);
        let script = "
s = connect('good.test', PORT); print(s.getpeername()[1], flush=True)
l = connect('192.0.2.53', 53); print(l.getpeername()[1], flush=True)
while not os.path.exists('go'): time.sleep(0.02)
print(get(s)); print(ask(l, query('good.test'))[3] & 15)
";
        let script = format!("{HEAD}\nPORT = {port}\n{script}");
        let running = sandbox.spawn(["python3", "-c", &script]);
        assert!(eventually(|| running.stdout().lines().count() == 2), "{:?}", running.stdout());
        let ports: Vec<u16> = running.stdout().lines().map(|line| line.parse().unwrap()).collect();
        for port in ports {
            for _ in 0..20 {
                // Where nobody listens any more, or only the proxy is answered.
                let Ok(mut stranger) = TcpStream::connect(("127.0.0.1", port)) else { continue };
                let _ = stranger.write_all(
                    b"\0\x1b\0\x07\x01\0\0\x01\0\0\0\0\0\0\x04good\x04test\0\0\x01\0\x01",
                );
                let mut answer = Vec::new();
                let _ = stranger.read_to_end(&mut answer);
                assert_eq!(answer, b"", "{ESCAPED}");
            }
        }
        sandbox.file("work/go", "");
        let outcome = running.wait();
        assert_eq!(
            outcome.stdout.lines().skip(2).collect::<Vec<_>>(),
            ["HTTP/1.0 200 OK", "0"],
            "{outcome:#?}"
        );
        assert_eq!(origin.requests().len(), 1);
    });
}

#[test]
fn another_sandbox_reaches_nothing_by_what_this_one_was_given() {
    for_each_user(|user| {
        let origin = Origin::new("hello");
        let port = origin.port();
        let sandbox = sandbox_for(user, port);
        let script = "
s = connect('good.test', PORT); l = connect('192.0.2.53', 53)
print(address('good.test'), s.getpeername()[1], l.getpeername()[1], s.getsockname()[1], flush=True)
while not os.path.exists('go'): time.sleep(0.02)
print(get(s), ask(l, query('good.test'))[3] & 15)
# As often as it is asked, and whatever was asked meanwhile, an address stands for one name.
given = {address(name) for _ in range(3) for name in ['good.test', 'x.below.test', 'y.below.test']}
print(len(given))
";
        let script = format!("{HEAD}\nPORT = {port}\n{script}");
        let running = sandbox.spawn(["python3", "-c", &script]);
        assert!(eventually(|| running.stdout().ends_with('\n')), "{:?}", running.stdout());
        let line = running.stdout();
        let [address, ports @ ..] = &line.split_whitespace().collect::<Vec<_>>()[..] else {
            panic!("{line}");
        };
        let ports = ports.join(", ");
        let attack = format!(
            "
print(tried(lambda: connect('{address}', PORT)))
for port in [{ports}]: print(tried(lambda: connect('127.0.0.1', port)) in ['EACCES', 'ECONNREFUSED'])
print(get(connect('good.test', PORT)))
"
        );
        for binds in [false, true] {
            let policy = json!({ "network": {
                "allowedDomains": ["good.test", format!("127.0.0.1:{port}")],
                "allowLocalBinding": binds, "hosts": ["127.0.0.1 good.test"] } });
            let other = Sandbox::of(user).policy_json(policy.to_string()).trap();
            let outcome = python(&other, port, &attack);
            prints(&outcome, &["EACCES", "True", "True", "True", "HTTP/1.0 200 OK"]);
        }
        sandbox.file("work/go", "");
        let outcome = running.wait();
        let lines: Vec<_> = outcome.stdout.lines().skip(1).collect();
        assert_eq!(lines, ["HTTP/1.0 200 OK 0", "3"], "{outcome:#?}");
        assert_eq!(origin.requests().len(), 3);
    });
}

/// Whoever asks nonsense loses its connection at the most.
#[test]
fn lookups_go_on_after_hostile_ones() {
    for_each_user(|user| {
        let origin = Origin::new("hello");
        let script = "
random.seed(7)
def mutated():
    q = bytearray(query(random.choice(['good.test', 'bad.test', 'a.' * 60 + 'test'])))
    for _ in range(random.randrange(6)): q[random.randrange(len(q))] = random.randrange(256)
    return bytes(q[:random.randrange(len(q) + 1)] if random.random() < 0.3 else q)
for kind in [socket.SOCK_STREAM, socket.SOCK_DGRAM]:
    for _ in range(300):
        s = socket.socket(socket.AF_INET, kind); s.settimeout(5); s.connect(('192.0.2.53', 53))
        try:
            for _ in range(5):
                q = mutated()
                s.send(struct.pack('>H', len(q)) + q if kind == socket.SOCK_STREAM else q)
        except OSError: pass
        s.close()
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.connect(('192.0.2.53', 53))
# What was passed along with a message nobody takes.
socket.send_fds(s, [query('good.test')], [0])
print(s.recv(512)[3] & 15, ask(connect('192.0.2.53', 53), query('good.test'))[3] & 15)
print(get(connect('good.test', PORT)).startswith('HTTP'))
";
        let port = origin.port();
        prints(&python(&sandbox_for(user, port), port, script), &["0 0", "True"]);
    });
}

/// It is dialled only once signals have come.
#[test]
fn a_connect_that_a_signal_interrupts_goes_on() {
    if !tests::is_root_for("a mount namespace and port 53") {
        return;
    }
    let origin = Origin::new("hello");
    let port = origin.port();
    let policy = json!({
        "filesystem": { "allowWrite": ["."] },
        "network": { "allowedDomains": ["*.test", format!("127.0.0.1:{port}")] } });
    let sandbox = Sandbox::new().policy_json(policy.to_string()).trap();
    let interrupted = sandbox.path("work/interrupted");
    let server = NameServer::new(move |name, _| {
        eventually(|| interrupted.exists());
        name.starts_with("good").then_some([127, 0, 0, 1])
    });
    sandbox.file("resolv.conf", server.resolv_conf());
    let script = "
import signal
came, comes = os.pipe(); os.set_blocking(comes, False)
signal.set_wakeup_fd(comes, warn_on_full_buffer=False)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
def note():
    for _ in range(3): os.read(came, 1)
    open('interrupted', 'w').close()
signal.signal(signal.SIGALRM, lambda *_: None)
signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
for interrupts in [True, False]:
    signal.siginterrupt(signal.SIGALRM, interrupts)
    for name in ['good.test', 'bad.test']:
        s, at = socket.socket(), address(name)
        thread = threading.Thread(target=note); thread.start()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGALRM])
        ended = tried(lambda: s.connect((at, PORT)))
        thread.join(); os.unlink('interrupted')
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
        if name == 'good.test': print(get(s) if ended is None else ended)
        else: print(ended in ['ECONNRESET', 'EHOSTUNREACH'] or ended)
";
    let outcome = in_namespace(&sandbox, "resolv.conf", "/etc/resolv.conf", port, script);
    let [first, second] = ["HTTP/1.0 200 OK", "True"];
    prints(&outcome, &[first, second, first, second]);
}

/// Nobody else gets what is dialled: neither at the port that a connect leads to while that is under way, nor at the one
/// that it came from once it was given up.
#[test]
fn a_connect_that_is_under_way_is_met_by_the_proxy_alone() {
    if !tests::is_root_for("a mount namespace and port 53") {
        return;
    }
    let origin = Origin::new("hello");
    let port = origin.port();
    let policy = json!({
        "filesystem": { "allowWrite": ["."] },
        "network": { "allowLocalBinding": true, "allowedDomains": ["*.test", format!("127.0.0.1:{port}")] } });
    let sandbox = Sandbox::new().policy_json(policy.to_string()).trap();
    let goes_on = sandbox.path("work/go");
    let server = NameServer::new(move |_, _| {
        eventually(|| goes_on.exists());
        Some([127, 0, 0, 1])
    });
    sandbox.file("resolv.conf", server.resolv_conf());
    let script = "
import ctypes
def begin(name, port):
    s = socket.socket(); s.bind(('127.0.0.1', port)); s.setblocking(False)
    assert s.connect_ex((address(name), PORT)) == errno.EINPROGRESS
    return s
s, t = begin('good.test', OWN), begin('other.test', OTHER)
# It listens where it came from.
print(ctypes.CDLL(None).connect(t.fileno(), bytes(16), 16)); t.listen(1)
print(tried(s.getpeername), t.getsockname()[1] == OTHER, flush=True)
while not os.path.exists('tried'): time.sleep(0.02)
print(select.select([], [s], [], 0)[1], flush=True); open('go', 'w').close()
select.select([], [s], []); s.setblocking(True); print(outcome(s), get(s))
select.select([t], [], []); t.setblocking(True); print(tried(lambda: t.accept()[0].recv(1)) in [b'', 'ECONNRESET'])
";
    let (own, other) = (free_port(), free_port());
    let script = format!("OWN, OTHER = {own}, {other}\n{script}");
    let words = words_in_namespace(&sandbox, "resolv.conf", "/etc/resolv.conf", port, &script);
    let running = sandbox.spawn_outside(words);
    assert!(eventually(|| running.stdout().lines().count() == 2), "{running:#?}");
    let door = leads_to(own);
    assert!(TcpListener::bind(("127.0.0.1", door)).is_err(), "{ESCAPED}");
    let there = (std::net::Ipv4Addr::LOCALHOST, door).into();
    let stranger = TcpStream::connect_timeout(&there, std::time::Duration::from_millis(200));
    assert!(stranger.is_err() && TcpStream::connect(("127.0.0.1", own)).is_err(), "{ESCAPED}");
    sandbox.file("work/tried", "");
    let expected = ["0", "ENOTCONN True", "[]", "None HTTP/1.0 200 OK", "True"];
    prints(&running.wait(), &expected);
    assert_eq!(origin.requests().iter().filter(|request| !request.is_empty()).count(), 1);
}

/// The kernel repeats what was not answered, a second later for the first time.
#[test]
fn a_connect_that_is_under_way_leads_to_nobody_once_the_proxy_has_ended() {
    if !tests::is_root_for("a mount namespace and port 53") {
        return;
    }
    let sandbox = Sandbox::new().allow_local_binding().allow_domains(["*.test"]);
    let goes_on = sandbox.path("work/go");
    let server = NameServer::new(move |_, _| {
        eventually(|| goes_on.exists());
        None
    });
    sandbox.file("resolv.conf", server.resolv_conf());
    let own = free_port();
    let script = format!(
        "
s = socket.socket(); s.bind(('127.0.0.1', {own})); s.setblocking(False)
print(tried(lambda: s.connect((address('good.test'), PORT))), flush=True)
while not os.path.exists('tried'): time.sleep(0.02)
print(select.select([], [s], [], 0)[1] == [s], s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == errno.ECONNRESET)"
    );
    let words = words_in_namespace(&sandbox, "resolv.conf", "/etc/resolv.conf", 80, &script);
    let running = sandbox.spawn_outside(words);
    assert!(eventually(|| running.stdout().contains("EINPROGRESS")), "{running:#?}");
    let door = leads_to(own);
    let proxy = i32::try_from(proxy_of(&running)).unwrap();
    kill_process(Pid::from_raw(proxy).unwrap(), Signal::KILL).unwrap();
    let mut listener = None;
    assert!(eventually(|| {
        listener = TcpListener::bind(("127.0.0.1", door)).ok();
        listener.is_some()
    }));
    let listener = listener.unwrap();
    listener.set_nonblocking(true).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(1500));
    assert!(listener.accept().is_err(), "{ESCAPED}");
    for name in ["work/tried", "work/go"] {
        sandbox.file(name, "");
    }
    prints(&running.wait(), &["EINPROGRESS", "True True"]);
}

/// The port of 127.0.0.1 that a connect from `port` is under way to (proc_net_tcp.rst: 02 is SYN_SENT).
fn leads_to(port: u16) -> u16 {
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let rows = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let from = format!("0100007F:{port:04X}");
    let there = rows
        .clone()
        .find(|row| row[1] == from && row[3] == "02")
        .unwrap_or_else(|| panic!("{table}"));
    u16::from_str_radix(there[2].strip_prefix("0100007F:").unwrap(), 16).unwrap()
}

/// The dial takes as long as it likes: who waits can be interrupted, and nobody else waits.
#[test]
fn a_connect_that_waits_for_its_dial_is_interrupted_and_keeps_nobody() {
    if !tests::is_root_for("a mount namespace and port 53") {
        return;
    }
    let origin = Origin::new("hello");
    let port = origin.port();
    // It answers nothing.
    let address = own_address();
    let _silent = std::net::UdpSocket::bind((address, 53)).unwrap();
    let sandbox = sandbox_for(User::Caller, port);
    sandbox.file("resolv.conf", resolv_conf(address));
    let script = "
import signal
class Late(Exception): pass
def late(*_): raise Late
signal.signal(signal.SIGALRM, late); signal.setitimer(signal.ITIMER_REAL, 0.3)
try: print(connect('slow.below.test', PORT))
except Late: print('interrupted')
s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack('ll', 0, 300_000))
print(tried(lambda: s.connect((address('slow.below.test'), PORT))))
for _ in range(50): threading.Thread(target=lambda: tried(lambda: connect('slow.below.test', PORT)), daemon=True).start()
print(get(connect('good.test', PORT)), flush=True)
os._exit(0)
";
    let outcome = in_namespace(&sandbox, "resolv.conf", "/etc/resolv.conf", port, script);
    prints(&outcome, &["interrupted", "EINPROGRESS", "HTTP/1.0 200 OK"]);
}

/// The port that it leads to is given up once it has been made.
#[test]
fn a_connect_by_name_cannot_be_put_off_until_something_is_sent() {
    for_each_user(|user| {
        let origin = Origin::new("hello");
        // TCP_FASTOPEN_CONNECT.
        let script = "
s = socket.socket()
for option in [30, socket.TCP_NODELAY]: print(tried(lambda: s.setsockopt(socket.IPPROTO_TCP, option, 1)))
s.connect((address('good.test'), PORT)); print(get(s))
";
        let port = origin.port();
        let outcome = python(&sandbox_for(user, port), port, script);
        prints(&outcome, &["ENOPROTOOPT", "None", "HTTP/1.0 200 OK"]);
    });
}

#[test]
fn a_socket_for_ipv6_alone_reaches_a_permitted_address_and_no_other() {
    for_each_user(|user| {
        let (good, bad) = (TcpPeer::on("::1"), TcpPeer::on("::1"));
        let allowed = format!("[::1]:{}", good.port());
        let sandbox = Sandbox::of(user).allow_domains([allowed.as_str()]).trap();
        let script = format!(
            "
for alone in [0, 1]:
    for port in [PORT, {}]:
        s = socket.socket(socket.AF_INET6); s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, alone)
        print(tried(lambda: s.connect(('::1', port))), tried(lambda: s.sendall(b'reached')))
",
            bad.port()
        );
        let outcome = python(&sandbox, good.port(), &script);
        prints(&outcome, &["None None", "EACCES EPIPE", "None None", "EACCES EPIPE"]);
        good.reached();
        bad.untouched();
    });
}

#[test]
fn a_connect_fails_at_once_where_there_is_no_loopback_interface() {
    if !tests::is_root_for("a network namespace") {
        return;
    }
    let sandbox = Sandbox::new().allow_domains(["127.0.0.1:9"]);
    let script = format!("{HEAD}\nprint(tried(lambda: connect('127.0.0.1', 9)))");
    let setup = "\"$@\" && ip link set lo up && \"$@\"";
    let mut words: Vec<OsString> =
        ["unshare", "-n", "sh", "-c", setup, "sh"].map(Into::into).to_vec();
    words.extend(sandbox.command_line());
    words.extend(["--", "python3", "-c", &script].map(Into::into));
    prints(&sandbox.run_outside(words), &["ENETUNREACH", "ECONNREFUSED"]);
}

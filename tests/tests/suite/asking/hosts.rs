//! Questions about hosts: a connection waits, and nothing outside hears of it before it is permitted.
//!
//! All names lead to this host by the policy's own lines of hosts, and a rule permits its address: so it is the name that
//! is asked about. The servers tell what arrived.

use serde_json::{Value, json};
use std::ffi::OsString;
use std::fmt::Write as _;
use tests::{
    ESCAPED, NameServer, Origin, Outcome, Questions, Running, Sandbox, TcpPeer, User, eventually,
    for_each_user,
};

/// How many names there are to flood with.
const MANY: usize = 80;

/// Clients of each kind: each returns the status, the reply of SOCKS or the errno, and waits for it as long as it takes.
const HEAD: &str = "
import errno, os, socket, sys, threading, time
PORT = int(sys.argv[1])
def proxy(name):
    return socket.create_connection(('127.0.0.1', int(os.environ[name].rstrip('/').rsplit(':', 1)[1])))
def request(s, line, host):
    s.sendall(b'%s HTTP/1.1\\r\\nHost: %s\\r\\nConnection: close\\r\\n\\r\\n' % (line.encode(), host.encode()))
    return (s.makefile('rb').readline().split() + [b'', b'closed'])[1].decode()
def http(host, port=PORT):
    return request(proxy('HTTP_PROXY'), f'GET http://{host}:{port}/', f'{host}:{port}')
def tunnel(host, port=PORT):
    return request(proxy('HTTP_PROXY'), f'CONNECT {host}:{port}', f'{host}:{port}')
def socks(host, port=PORT):
    s = proxy('SOCKS_PROXY')
    s.sendall(b'\\5\\1\\0\\5\\1\\0\\3' + bytes([len(host)]) + host.encode() + port.to_bytes(2, 'big'))
    return str((s.recv(4, socket.MSG_WAITALL) + b'\\xff')[3])
def direct(host, port=PORT):
    try: s = socket.create_connection((host, port))
    except OSError as e: return errno.errorcode.get(e.errno, str(e.errno))
    return request(s, 'GET /', f'{host}:{port}')
def say(*words): print(*words, flush=True)
";

/// A sandbox that may reach `good.test` at this port, and must never reach `denied.test`.
fn sandbox(user: User, port: u16) -> Sandbox {
    let mut names = "127.0.0.1 good.test new.test other.test denied.test".to_owned();
    (0..MANY).for_each(|number| write!(names, " n{number}.test").unwrap());
    let policy = json!({
        "filesystem": { "allowWrite": ["."] },
        "network": {
            "allowedDomains": ["good.test", format!("127.0.0.1:{port}")],
            "deniedDomains": ["denied.test"],
            "hosts": [names],
        },
    });
    Sandbox::of(user).policy_json(policy.to_string())
}

fn ask(sandbox: &Sandbox, port: u16, script: &str) -> (Running, Questions) {
    let words = ["python3", "-c", &format!("{HEAD}{script}"), &port.to_string()];
    sandbox.ask(words.map(OsString::from))
}

#[track_caller]
fn prints(outcome: &Outcome, lines: &[&str]) {
    assert_eq!(outcome.stdout.lines().collect::<Vec<_>>(), lines, "{ESCAPED}{outcome:#?}");
}

fn refused(target: &str) -> Value {
    json!(["connect", target, "proxy"])
}

#[test]
fn a_connection_waits_and_goes_on_once_if_the_answer_is_once() {
    for_each_user(|user| {
        for (client, yes, no) in [
            ("http", "200", "403"),
            ("tunnel", "200", "403"),
            ("socks", "0", "2"),
            ("direct", "200", "EACCES"),
        ] {
            let origin = Origin::new("hello");
            let port = origin.port();
            let sandbox = sandbox(user, port);
            let target = format!("new.test:{port}");
            let script =
                format!("for i in range(3): say({client}('new.test'))\nsay({client}('good.test'))");
            let (mut running, mut questions) = ask(&sandbox, port, &script);
            let first = questions.expect_host(&target, &target);
            assert_eq!(origin.requests().len(), 0, "{ESCAPED}{client}");
            questions.settle(first, "once");
            let second = questions.expect_host(&target, &target);
            running.expect(&format!("{yes}\n"));
            questions.settle(second, "deny");
            assert_eq!(questions.line(), None, "{client}");
            let outcome = running.wait();
            prints(&outcome, &[yes, no, no, yes]);
            assert_eq!(outcome.reports_of("Network"), [&refused(&target)], "{client} {outcome:#?}");
        }
    });
}

#[test]
fn a_question_names_the_process_that_has_the_connection_and_no_other() {
    for_each_user(|user| {
        for client in ["http", "tunnel", "socks", "direct"] {
            let origin = Origin::new("hello");
            let port = origin.port();
            let sandbox = sandbox(user, port);
            // A child's own, and one that a child has as well: of the socket that connects, or of the connection.
            let script = format!(
                "
child = os.fork()
if child == 0:
    os.chdir('/')
    say('child', os.getpid())
    say({client}('new.test'))
    os._exit(0)
os.waitpid(child, 0)
end = os.pipe()
def share(s):
    if os.fork() == 0:
        os.close(end[1])
        os.read(end[0], 1)
        os._exit(0)
    return s
def connected(to):
    s = share(socket.socket())
    s.connect(to)
    return s
connect = socket.create_connection
is_direct = '{client}' == 'direct'
socket.create_connection = connected if is_direct else lambda to: share(connect(to))
say({client}('other.test'))
"
            );
            let (mut running, mut questions) = ask(&sandbox, port, &script);
            running.expect("child ");
            let target = format!("new.test:{port}");
            let line = questions.line_about_host(&target, &target);
            let shown = running.stdout();
            let pid: u64 = shown.split_whitespace().nth(1).unwrap().parse().unwrap();
            assert!(line["program"].as_str().unwrap().starts_with("python3"), "{line}");
            assert_eq!((&line["pid"], &line["directory"]), (&json!(pid), &json!("/")), "{line}");
            assert_eq!(line["arguments"][0], "python3", "{line}");
            questions.settle(line["ask"].as_u64().unwrap(), "once");
            let target = format!("other.test:{port}");
            let line = questions.line_about_host(&target, &target);
            let nobody = (&json!(""), &json!(0), &json!([]), &json!(""));
            let named = (&line["program"], &line["pid"], &line["arguments"], &line["directory"]);
            assert_eq!(named, nobody, "{line}");
            questions.settle(line["ask"].as_u64().unwrap(), "deny");
            assert_eq!(questions.line(), None);
            running.wait().succeeds();
        }
    });
}

#[test]
fn a_rule_for_the_run_lets_later_connections_through_and_no_denied_name() {
    for_each_user(|user| {
        let origin = Origin::new("hello");
        let port = origin.port();
        let sandbox = sandbox(user, port);
        let script = "
say(http('new.test'), tunnel('new.test'), socks('new.test'), direct('new.test'))
say(http('denied.test'), tunnel('denied.test'), socks('denied.test'))
say(http('other.test'))
while not os.path.exists('go'): time.sleep(0.01)
say(http('other.test'), http('denied.test'))
";
        let (new, other) = (format!("new.test:{port}"), format!("other.test:{port}"));
        let (running, mut questions) = ask(&sandbox, port, script);
        let number = questions.expect_host(&new, &new);
        questions.settle(number, "run");
        questions.then(&json!({ "granted": ["network.allowedDomains", new] }));
        let number = questions.expect_host(&other, &other);
        questions.settle(number, "once");
        questions.say(&json!({ "grant": ["network.allowedDomains", "other.test"] }));
        questions.then(&json!({ "granted": ["network.allowedDomains", "other.test"] }));
        sandbox.file("work/go", "");
        assert_eq!(questions.line(), None);
        let outcome = running.wait();
        prints(&outcome, &["200 200 0 200", "403 403 2", "200", "200 403"]);
        let denied = format!("denied.test:{port}");
        assert_eq!(outcome.reports_of("Network"), [&refused(&denied)], "{outcome:#?}");
    });
}

#[test]
fn an_address_is_asked_about_by_whichever_way_it_is_reached_and_none_of_this_host() {
    for_each_user(|user| {
        let forbidden = TcpPeer::at("127.0.0.2", 0);
        let port = Origin::new("hello").port();
        let sandbox = sandbox(user, port);
        let script = format!(
            "
HERE = {}
say(http('127.0.0.2', HERE), http('localhost', HERE), http('x.localhost', HERE), direct('127.0.0.2', HERE))
say(http('169.254.169.254', 80), http('0.0.0.0', 80), direct('169.254.169.254', 80))
say(http('198.51.100.1', 81), direct('198.51.100.2', 81), direct('198.51.100.2', 81))
say(http('good.test'))
",
            forbidden.port()
        );
        let (running, mut questions) = ask(&sandbox, port, &script);
        for target in ["198.51.100.1:81", "198.51.100.2:81"] {
            let number = questions.expect_host(target, target);
            questions.settle(number, "deny");
        }
        assert_eq!(questions.line(), None);
        let lines = ["403 403 403 EACCES", "403 403 EACCES", "403 EACCES EACCES", "200"];
        prints(&running.wait(), &lines);
        forbidden.untouched();
    });
}

#[test]
fn a_policy_without_any_host_asks_as_well_and_one_of_the_callers_proxy_does_not() {
    for_each_user(|user| {
        let origin = Origin::new("hello");
        let port = origin.port();
        let policy = json!({ "network": { "hosts": ["127.0.0.1 new.test"] } });
        let sandbox = Sandbox::of(user).policy_json(policy.to_string());
        let (running, mut questions) = ask(&sandbox, port, "say(http('new.test'))");
        let target = format!("new.test:{port}");
        let number = questions.expect_host(&target, &target);
        questions.settle(number, "once");
        assert_eq!(questions.line(), None);
        // To where it leads no rule permits to go, and nobody was asked about that.
        prints(&running.wait(), &["403"]);
        assert_eq!(origin.requests().len(), 0, "{ESCAPED}");
        let sandbox = Sandbox::of(user).http_proxy_port(port);
        let script = "say(direct('127.0.0.1'), direct('192.0.2.1'))";
        let (running, mut questions) = ask(&sandbox, port, script);
        assert_eq!(questions.line(), None);
        prints(&running.wait(), &["200 EACCES"]);
    });
}

#[test]
fn a_flood_of_hosts_has_an_end_and_delays_nobody() {
    const OPEN: usize = 64;
    for_each_user(|user| {
        let origin = Origin::new("hello");
        let port = origin.port();
        let sandbox = sandbox(user, port);
        let script = format!(
            "
def one(n): say('n', http('n%d.test' % n))
threads = [threading.Thread(target=one, args=(n,)) for n in range({MANY})]
for t in threads: t.start()
while not os.path.exists('go'): time.sleep(0.01)
say('fast', http('good.test'), direct('good.test'))
for t in threads: t.join()
"
        );
        let (mut running, mut questions) = ask(&sandbox, port, &script);
        let numbers: Vec<_> =
            (0..OPEN).map(|_| questions.line().unwrap()["ask"].as_u64().unwrap()).collect();
        let refused = |running: &Running| running.stdout().matches("n 403").count();
        assert!(eventually(|| refused(&running) == MANY - OPEN), "{running:#?}");
        sandbox.file("work/go", "");
        running.expect("fast 200 200");
        assert_eq!(origin.requests().len(), 2, "{ESCAPED}");
        for number in numbers {
            questions.settle(number, "deny");
        }
        assert_eq!(questions.line(), None);
        assert_eq!(running.wait().stdout.matches("n 403").count(), MANY);
        assert_eq!(origin.requests().len(), 2, "{ESCAPED}");
    });
}

#[test]
fn an_answer_permits_only_what_was_asked_and_no_rule_reaches_further() {
    for_each_user(|user| {
        let origin = Origin::new("hello");
        let port = origin.port();
        let sandbox = sandbox(user, port);
        let script = "say(http('new.test'), http('other.test'), http('denied.test'))";
        let (running, mut questions) = ask(&sandbox, port, script);
        let (new, other) = (format!("new.test:{port}"), format!("other.test:{port}"));
        let number = questions.expect_host(&new, &new);
        for value in [
            "*.test",
            "*",
            "denied.test",
            "DENIED.test.",
            "metadata.google.internal",
            "169.254.169.254",
            "224.0.0.1",
            "new.test:0",
            "",
            "new.test/path",
        ] {
            questions.say(&json!({ "grant": ["network.allowedDomains", value] }));
            let line = questions.line().unwrap();
            assert_eq!(line["refused"][1], value, "{line}");
            assert!(line["refused"][2].is_string(), "{line}");
        }
        for wrong in [number + 1, 0, u64::MAX] {
            questions.answer(wrong, "once");
        }
        // It does not cover what was asked; what does is added instead.
        questions.say(&json!({ "ask": number, "answer": "run", "rule": ["network.allowedDomains", "other.test:1"] }));
        questions.settled(number, "answered");
        let line = questions.line().unwrap();
        assert_eq!(line["refused"][1], "other.test:1", "{line}");
        questions.then(&json!({ "granted": ["network.allowedDomains", new] }));
        questions.answer(number, "once");
        let second = questions.expect_host(&other, &other);
        questions.answer(number, "run");
        questions.settle(second, "deny");
        questions.answer(second, "once");
        assert_eq!(questions.line(), None);
        prints(&running.wait(), &["200 403 403"]);
        assert_eq!(origin.requests().len(), 1, "{ESCAPED}");
    });
}

#[test]
fn a_question_ends_with_the_connection_that_waits() {
    for_each_user(|user| {
        let origin = Origin::new("hello");
        let port = origin.port();
        let sandbox = sandbox(user, port);
        for open in [
            "s = proxy('HTTP_PROXY'); s.sendall(b'GET http://new.test:%d/ HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n' % PORT)",
            "s = proxy('SOCKS_PROXY'); s.sendall(b'\\5\\1\\0\\5\\1\\0\\3\\10new.test' + PORT.to_bytes(2, 'big'))",
            "s = socket.socket(); s.setblocking(False); s.connect_ex((socket.gethostbyname('new.test'), PORT))",
        ] {
            let script = format!(
                "
{open}
while not os.path.exists('go'): time.sleep(0.01)
s.close()
say(http('other.test'))
"
            );
            let (running, mut questions) = ask(&sandbox, port, &script);
            let (new, other) = (format!("new.test:{port}"), format!("other.test:{port}"));
            let first = questions.expect_host(&new, &new);
            sandbox.file("work/go", "");
            // In whichever order: the question stays for a while, in which the connection may be made again.
            let mut lines = [questions.line().unwrap(), questions.line().unwrap()];
            lines.sort_by_key(|line| line["ask"].is_null());
            let [asked, settled] = lines;
            assert_eq!(settled, json!({ "settled": first, "by": "gone" }), "{open}");
            assert_eq!(asked["advice"][1], other, "{asked}");
            let second = asked["ask"].as_u64().unwrap();
            questions.answer(first, "run");
            questions.settle(second, "once");
            assert_eq!(questions.line(), None, "{open}");
            prints(&running.wait(), &["200"]);
            std::fs::remove_file(sandbox.path("work/go")).unwrap();
        }
        let connections: usize = origin.requests().len();
        assert_eq!(connections, 3, "{ESCAPED}");
    });
}

#[test]
fn a_closed_channel_refuses_connections_that_wait_and_all_that_follow() {
    for_each_user(|user| {
        let origin = Origin::new("hello");
        let port = origin.port();
        let sandbox = sandbox(user, port);
        let script = "say(http('new.test'), direct('other.test'), http('good.test'))";
        let (running, mut questions) = ask(&sandbox, port, script);
        let target = format!("new.test:{port}");
        questions.expect_host(&target, &target);
        questions.close();
        prints(&running.wait(), &["403 EACCES 200"]);
        assert_eq!(origin.requests().len(), 1, "{ESCAPED}");
    });
}

#[test]
fn a_connection_that_waits_can_be_killed_and_no_answer_reaches_out_for_it() {
    for_each_user(|user| {
        let origin = Origin::new("hello");
        let port = origin.port();
        let sandbox = sandbox(user, port);
        let script = "
child = os.fork()
if child == 0:
    direct('new.test')
    os._exit(0)
while not os.path.exists('go'): time.sleep(0.01)
os.kill(child, 9)
say(os.WTERMSIG(os.waitpid(child, 0)[1]), direct('good.test'))
while not os.path.exists('end'): time.sleep(0.01)
";
        let (running, mut questions) = ask(&sandbox, port, script);
        let target = format!("new.test:{port}");
        let number = questions.expect_host(&target, &target);
        sandbox.file("work/go", "");
        questions.settled(number, "gone");
        questions.answer(number, "once");
        sandbox.file("work/end", "");
        assert_eq!(questions.line(), None);
        prints(&running.wait(), &["9 200"]);
        assert_eq!(origin.requests().len(), 1, "{ESCAPED}");
    });
}

#[test]
fn nothing_is_looked_up_outside_before_it_is_permitted() {
    if !tests::is_root_for("a mount namespace and port 53") {
        return;
    }
    let origin = Origin::new("hello");
    let port = origin.port();
    let server = NameServer::new(|_, _| Some([127, 0, 0, 1]));
    let policy = json!({ "network": { "allowedDomains": [format!("127.0.0.1:{port}")] } });
    let sandbox = Sandbox::new().policy_json(policy.to_string());
    sandbox.file("resolv.conf", server.resolv_conf() + "search corp.test\n");
    let mount =
        format!("mount --bind {} /etc/resolv.conf && exec \"$@\"", sandbox.name("resolv.conf"));
    let script = "
def there(name):
    try: return socket.gethostbyname(name).startswith('198.1')
    except OSError: return False
say(there('secret.test'), there('short'), there('short.corp.test'), direct('secret.test'), http('secret2.test'))
say(direct('new.test'))
";
    let prefix = ["unshare", "-m", "sh", "-c", &mount, "sh"];
    let words = ["python3", "-c", &format!("{HEAD}{script}"), &port.to_string()];
    let (running, mut questions) = sandbox.ask_behind(prefix, words);
    for (name, answer) in [("secret.test", "deny"), ("secret2.test", "deny"), ("new.test", "once")]
    {
        let target = format!("{name}:{port}");
        let number = questions.expect_host(&target, &target);
        assert_eq!(server.asked(), [""; 0], "{ESCAPED}{name}");
        questions.settle(number, answer);
    }
    assert_eq!(questions.line(), None);
    prints(&running.wait(), &["True True False EACCES 403", "200"]);
    assert_eq!(server.asked(), ["new.test"]);
}

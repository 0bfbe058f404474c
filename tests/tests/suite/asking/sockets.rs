//! Questions about Unix sockets and servers of the command's own: judged anew when they are answered.

use serde_json::{Value, json};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixDatagram, UnixListener};
use tests::{
    ESCAPED, Questions, Running, Sandbox, TcpPeer, User, eventually, for_each_user, is_root_for,
};

const SERVERS: [&str; 2] = ["network.allowLocalBinding", "true"];

/// Each says what came of it.
const HEAD: &str = "
import ctypes, errno, os, socket, sys, threading, time
def say(*words): print(*words, flush=True)
def tried(call, *words):
    try: call(*words)
    except OSError as e: return errno.errorcode.get(e.errno, str(e.errno))
    return 'done'
def serve(family, address):
    s = socket.socket(family)
    asked = [tried(s.bind, address), tried(s.listen)]
    if asked != ['done', 'done']: return asked
    c = socket.socket(family)
    c.connect(s.getsockname())
    c.sendall(b'hello')
    return s.accept()[0].recv(5).decode()
";

fn sandbox(user: User) -> Sandbox {
    Sandbox::of(user).allow_write(".")
}

fn ask(sandbox: &Sandbox, script: &str) -> (Running, Questions) {
    sandbox.ask(["python3", "-c", &format!("{HEAD}{script}")])
}

/// The number of the next question, which is about this.
#[track_caller]
fn expect(questions: &mut Questions, operation: &str, target: &str, rule: [&str; 2]) -> u64 {
    let line = questions.line().expect("a question");
    assert_eq!(line["report"], json!({ "Network": [operation, target, "seccomp"] }), "{line}");
    assert_eq!(line["advice"], json!(rule), "{line}");
    assert!(line["program"].as_str().unwrap().starts_with("python3"), "{line}");
    line["ask"].as_u64().unwrap()
}

#[track_caller]
fn is_refused(line: &Value, value: &str) {
    assert_eq!(line["refused"][1], value, "{line}");
    assert!(line["refused"][2].is_string(), "{line}");
}

#[test]
fn servers_of_its_own_are_permitted_for_the_run_and_reach_nobody_else() {
    for_each_user(|user| {
        let (outside, sandbox) = (TcpPeer::new(), sandbox(user));
        let script = format!(
            "
say(serve(socket.AF_INET, ('127.0.0.1', 0)))
say(serve(socket.AF_INET, ('', 0)), serve(socket.AF_INET, ('127.0.0.2', 0)))
say(serve(socket.AF_UNIX, 'own.sock'))
u, v = socket.socket(type=socket.SOCK_DGRAM), socket.socket(type=socket.SOCK_DGRAM)
u.bind(('127.0.0.1', 0))
v.sendto(b'hello', u.getsockname())
say(u.recv(5).decode())
say(tried(socket.socket().connect, ('127.0.0.1', {})), tried(socket.socket().bind, ('192.0.2.1', 0)))
",
            outside.port()
        );
        let (running, mut questions) = ask(&sandbox, &script);
        let number = expect(&mut questions, "bind", "127.0.0.1:0", SERVERS);
        questions.settle(number, "run");
        questions.then(&json!({ "granted": SERVERS }));
        assert_eq!(questions.line(), None);
        assert_eq!(running.wait().stdout, "hello\nhello hello\nhello\nhello\nEACCES EACCES\n");
        outside.untouched();
    });
}

#[test]
fn a_server_is_refused_if_the_answer_is_no_and_each_call_asks_if_it_is_once() {
    for_each_user(|user| {
        let sandbox = sandbox(user);
        let script = "
for i in range(2): say(serve(socket.AF_INET, ('127.0.0.1', 0)))
";
        let (running, mut questions) = ask(&sandbox, script);
        let number = expect(&mut questions, "bind", "127.0.0.1:0", SERVERS);
        questions.settle(number, "deny");
        assert_eq!(questions.line(), None);
        let refused = "['EACCES', 'EACCES']\n";
        assert_eq!(running.wait().stdout, refused.repeat(2));

        let own = sandbox.name("work/own.sock");
        let script = format!(
            "
s, c = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
say(tried(s.bind, '{own}'), tried(s.listen), tried(c.connect, '{own}'))
s = socket.socket()
say(tried(s.bind, ('127.0.0.1', 0)))
say(s.getsockname()[1])
say(tried(s.listen), tried(socket.socket().connect, s.getsockname()))
say(tried(socket.socket().bind, ('127.0.0.1', 0)))
"
        );
        let (running, mut questions) = ask(&sandbox, &script);
        for _ in ["bind", "listen"] {
            let number = expect(&mut questions, "bind", &own, SERVERS);
            questions.settle(number, "once");
        }
        let number = expect(&mut questions, "bind", "127.0.0.1:0", SERVERS);
        questions.settle(number, "once");
        let line = questions.line().unwrap();
        let address = line["report"]["Network"][1].as_str().unwrap().to_owned();
        questions.settle(line["ask"].as_u64().unwrap(), "deny");
        assert_eq!(questions.line(), None);
        let outcome = running.wait();
        let port = address.strip_prefix("127.0.0.1:").unwrap();
        let expected = format!("done done EACCES\ndone\n{port}\nEACCES EACCES\nEACCES\n");
        assert_eq!(outcome.stdout, expected);
    });
}

#[test]
fn an_address_that_is_another_by_then_is_another_question() {
    for_each_user(|user| {
        let sandbox = sandbox(user);
        let script = "
libc = ctypes.CDLL(None, use_errno=True)
s = socket.socket()
address = ctypes.create_string_buffer(bytes([2, 0, 0, 0, 127, 0, 0, 1]) + bytes(8), 16)
def bind():
    failed = libc.bind(s.fileno(), address, 16)
    say(errno.errorcode[ctypes.get_errno()] if failed else 'done', s.getsockname()[0])
thread = threading.Thread(target=bind)
thread.start()
while not os.path.exists('go'): time.sleep(0.01)
address[7] = 2
open('changed', 'w').close()
thread.join()
";
        for (answer, outcome) in [("deny", "EACCES 0.0.0.0\n"), ("once", "done 127.0.0.2\n")] {
            for file in ["work/go", "work/changed"] {
                let _ = std::fs::remove_file(sandbox.path(file));
            }
            let (running, mut questions) = ask(&sandbox, script);
            let number = expect(&mut questions, "bind", "127.0.0.1:0", SERVERS);
            sandbox.file("work/go", "");
            assert!(eventually(|| sandbox.path("work/changed").exists()));
            questions.settle(number, "once");
            let number = expect(&mut questions, "bind", "127.0.0.2:0", SERVERS);
            questions.settle(number, answer);
            assert_eq!(questions.line(), None);
            assert_eq!(running.wait().stdout, outcome);
        }
    });
}

#[test]
fn what_does_not_help_or_leads_out_of_the_sandbox_is_neither_asked_nor_granted() {
    for_each_user(|user| {
        let sandbox = sandbox(user).deny_write("./denied");
        sandbox.dir("work/denied");
        let there = sandbox.path("server.sock");
        let server = UnixListener::bind(&there).unwrap();
        std::fs::set_permissions(&there, Permissions::from_mode(0o666)).unwrap();
        server.set_nonblocking(true).unwrap();
        let there = sandbox.name("server.sock");
        let script = format!(
            "
say(tried(socket.socket(socket.AF_UNIX).connect, '{there}'))
new = lambda: socket.socket(socket.AF_UNIX)
say(tried(new().bind, '{}'), tried(new().bind, 'denied/s'), tried(new().bind, '\\0name'))
say(tried(socket.socket().bind, ('192.0.2.1', 0)), tried(socket.socket().connect, ('127.0.0.1', 1)))
say(tried(open, 'asked', 'w'), tried(open, '{}', 'w'))
",
            sandbox.name("home/s"),
            sandbox.name("home/notes"),
        );
        let (running, mut questions) = ask(&sandbox, &script);
        let number = questions.expect("write", &sandbox.name("home/notes"));
        for value in [&*there, "/run/docker.sock", "/tmp", "/", "*"] {
            questions.say(&json!({ "grant": ["network.allowUnixSockets", value] }));
            is_refused(&questions.line().unwrap(), value);
        }
        questions.say(&json!({ "grant": ["network.allowLocalBinding", "false"] }));
        is_refused(&questions.line().unwrap(), "false");
        questions.settle(number, "once");
        assert_eq!(questions.line(), None);
        let lines = "EACCES\nEACCES EACCES EACCES\nEACCES EACCES\ndone done\n";
        assert_eq!(running.wait().stdout, lines);
        assert!(server.accept().is_err(), "{ESCAPED}");
    });
}

/// The sockets of a journal, in a mount namespace of the test's own.
#[test]
fn a_harmless_server_is_asked_about_and_reached_as_answered() {
    if !is_root_for("a mount namespace") {
        return;
    }
    let sandbox = Sandbox::new().allow_write(".");
    let [.., journal] = ["run", "run/systemd", "run/systemd/journal"].map(|name| sandbox.dir(name));
    let stdout = UnixListener::bind(journal.join("stdout")).unwrap();
    let socket = UnixDatagram::bind(journal.join("socket")).unwrap();
    for name in ["stdout", "socket"] {
        std::fs::set_permissions(journal.join(name), Permissions::from_mode(0o666)).unwrap();
    }
    stdout.set_nonblocking(true).unwrap();
    let mount = format!("mount --bind {} /run && exec \"$@\"", sandbox.name("run"));
    let script = "
def reach(name, kind):
    s = socket.socket(socket.AF_UNIX, kind)
    came = tried(s.connect, '/run/systemd/journal/' + name)
    if came == 'done': s.send(b'hello')
    return came
for i in range(3): say(reach('stdout', socket.SOCK_STREAM))
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
def send(): s.sendto(b'hello', '/run/systemd/journal/socket')
def send_message(): s.sendmsg([b'hello'], [], 0, '/run/systemd/journal/socket')
say(tried(send), tried(send_message))
for i in range(2): say(reach('socket', socket.SOCK_DGRAM))
say(tried(send))
";
    let rule = |name| ["network.allowUnixSockets", name];
    let (first, second) = ("/run/systemd/journal/stdout", "/run/systemd/journal/socket");
    let prefix = ["unshare", "-m", "sh", "-c", &mount, "sh"];
    let words = ["python3", "-c", &format!("{HEAD}{script}")];
    let (running, mut questions) = sandbox.ask_behind(prefix, words);
    let number = expect(&mut questions, "connect", first, rule(first));
    assert!(stdout.accept().is_err(), "{ESCAPED}");
    questions.settle(number, "once");
    let number = expect(&mut questions, "connect", first, rule(first));
    questions.settle(number, "deny");
    socket.set_nonblocking(true).unwrap();
    let came = || std::iter::from_fn(|| socket.recv(&mut [0; 16]).ok()).count();
    // Each message is asked about by itself, and sent once.
    for sent in [0, 1] {
        let number = expect(&mut questions, "connect", second, rule(second));
        assert_eq!(came(), sent, "{ESCAPED}");
        questions.settle(number, "once");
    }
    let number = expect(&mut questions, "connect", second, rule(second));
    assert_eq!(came(), 1, "{ESCAPED}");
    questions.settle(number, "run");
    questions.then(&json!({ "granted": rule(second) }));
    assert_eq!(questions.line(), None);
    assert_eq!(running.wait().stdout, "done\nEACCES\nEACCES\ndone done\ndone\ndone\ndone\n");
    assert_eq!(came(), 3);
    assert!(stdout.accept().is_ok() && stdout.accept().is_err(), "{ESCAPED}");
}

//! Unix sockets of the command's own (allowLocalBinding): bound where it may write, reached by what runs in
//! the sandbox, and nothing else that has such a path.

use serde_json::json;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::time::Duration;
use tests::{ESCAPED, Sandbox, UnixPeer, User, eventually, for_each_user};

const KINDS: [&str; 3] = ["stream", "seqpacket", "dgram"];

/// Python with `made(path, kind)`, which binds and listens, and `reach(path, kind)`.
const PYTHON: &str = "
import errno, os, socket, sys, threading, time
KINDS = {'stream': socket.SOCK_STREAM, 'seqpacket': socket.SOCK_SEQPACKET, 'dgram': socket.SOCK_DGRAM}
def new(kind): return socket.socket(socket.AF_UNIX, KINDS[kind])
def made(path, kind):
    s = new(kind); s.bind(path)
    if kind != 'dgram': s.listen(64)
    return s
def tried(f, *args):
    try: return f(*args)
    except OSError as e: return errno.errorcode[e.errno]
def reach(path, kind):
    c = new(kind); result = tried(c.connect, path)
    if result is None: result = tried(c.send, b'reached')
    if kind == 'dgram': result = [result, tried(new(kind).sendto, b'reached', path), tried(new(kind).sendmsg, [b'reached'], [], 0, path)]
    return result
def drain(s, kind):
    while kind == 'dgram' and tried(s.recv, 9, socket.MSG_DONTWAIT) == b'reached': pass
def say(*words): print(*words, flush=True)
";

fn python(script: &str) -> [String; 3] {
    ["python3".into(), "-c".into(), format!("{PYTHON}{script}")]
}

fn own(user: User) -> Sandbox {
    Sandbox::of(user).allow_write(".").allow_local_binding()
}

#[test]
fn what_others_have_made_listen_is_not_the_commands_own() {
    for_each_user(|user| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let sandbox = own(user);
        let script = format!(
            "
theirs, mine = socket.socket(fileno=os.dup(0)), socket.create_server(('127.0.0.1', 0))
say(tried(theirs.listen, 5), tried(socket.socket().connect, ('127.0.0.1', {port})))
say(tried(mine.listen, 5), tried(socket.socket().connect, mine.getsockname()))"
        );
        let mut words = sandbox.command_line();
        words.push("--".into());
        words.extend(python(&script).map(Into::into));
        let mut command = sandbox.command(words);
        command.stdin(OwnedFd::from(listener.try_clone().unwrap()));
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert_eq!(said, "EACCES EACCES\nNone None\n", "{ESCAPED}{output:#?}");
        listener.set_nonblocking(true).unwrap();
        assert!(listener.accept().is_err(), "{ESCAPED}");
    });
}

#[test]
fn sockets_that_the_command_binds_are_reached_by_whatever_they_are_called() {
    for_each_user(|user| {
        let script = "
import tempfile
for kind in sys.argv[1:]:
    for directory in '.', os.getcwd(), tempfile.mkdtemp(), '/proc/self/cwd':
        path = directory + '/' + kind; s = made(path, kind); say(kind, '/proc' in path or s.getsockname() == path, reach(path, kind)); drain(s, kind)
        os.link(path, path + 'l') if directory != '/proc/self/cwd' else None
        os.rename(path, path + 'm'); say(reach(path + 'm', kind)); os.symlink(os.path.basename(path) + 'm', path); say(reach(path, kind)); drain(s, kind)
        os.unlink(path); os.unlink(path + 'm')
        if os.path.exists(path + 'l'): say(reach(path + 'l', kind)); os.unlink(path + 'l')
    # In another process, and closed.
    s = made('other', kind); child = os.fork()
    if child == 0: say(reach('other', kind)); os._exit(0)
    os.waitpid(child, 0); s.close(); say(reach('other', kind)); os.unlink('other')";
        let words = |sandbox: &Sandbox| {
            let words = python(script).into_iter().chain(KINDS.map(String::from));
            (sandbox.run(words.clone()), sandbox.run_outside(words))
        };
        let sandbox = own(user);
        let (inside, outside) = words(&sandbox);
        outside.succeeds();
        assert_eq!(inside.stdout, outside.stdout, "{inside:#?}");
        assert!(inside.stdout.lines().count() > 40, "{inside:#?}");
        let (refused, _) = words(&Sandbox::of(user).allow_write("."));
        refused.fails();
        assert_eq!(refused.stdout, "");
    });
}

#[test]
fn datagrams_are_answered_and_descriptors_travel() {
    for_each_user(|user| {
        let script = "
server = made('server', 'dgram'); client = made('client', 'dgram')
client.sendto(b'question', 'server'); data, there = server.recvfrom(99); server.sendto(b'answer', there); say(data, there, client.recvfrom(99))
client.connect('server'); client.send(b'one'); os.write(client.fileno(), b'two'); say(server.recv(9), server.recv(9))
socket.send_fds(client, [b'x'], [0]); say(len(socket.recv_fds(server, 1, 9)[1]))
say(tried(server.sendto, b'x', '\\0abstract'), tried(new('dgram').bind, '\\0abstract'), tried(new('stream').connect, '\\0abstract'))";
        let sandbox = own(user);
        let outcome = sandbox.run(python(script));
        let expected =
            "b'question' client (b'answer', 'server')\nb'one' b'two'\n1\nEACCES EACCES EACCES\n";
        assert_eq!(outcome.stdout, expected, "{outcome:#?}");
    });
}

#[test]
fn a_client_that_looks_for_its_server_meanwhile_is_not_refused() {
    for_each_user(|user| {
        let script = "
done = threading.Event(); found = set()
def look():
    while not done.is_set(): found.add(str(reach('server', 'stream')))
clients = [threading.Thread(target=look) for _ in range(2)]
for client in clients: client.start()
for _ in range(60): s = made('server', 'stream'); os.unlink('server'); s.close()
done.set()
for client in clients: client.join()
say(sorted(found - {'ENOENT', 'ECONNREFUSED', 'ECONNRESET', 'EPIPE', '7'}))";
        let outcome = own(user).trap().run(python(script));
        assert_eq!(outcome.stdout, "[]\n", "{outcome:#?}");
        assert!(outcome.traps.is_empty(), "{outcome:#?}");
    });
}

#[test]
fn a_socket_of_others_is_not_reached_where_the_command_may_write() {
    for_each_user(|user| {
        for kind in KINDS {
            let sandbox = own(user).trap();
            let peer = UnixPeer::at(sandbox.path("work/theirs"), kind);
            let script = "
kind = sys.argv[1]; other = os.getcwd() + '/theirs'
say(reach('theirs', kind), reach(other, kind)); os.symlink('theirs', 'link'); say(reach('link', kind))
os.rename('theirs', 'moved'); say(reach('moved', kind))
# In the place of one of its own, that is closed, or still open.
s = made('own', kind); say(reach('own', kind)); os.rename('moved', 'own'); say(reach('own', kind)); os.rename('own', 'moved')
s = made('own2', kind); s.close(); os.rename('moved', 'own2'); say(reach('own2', kind)); os.rename('own2', 'theirs')
say(tried(made, 'theirs', kind))";
            let words = || python(script).into_iter().chain([kind.to_owned()]);
            let inside = sandbox.run(words());
            let said: Vec<_> = inside.stdout.lines().collect();
            let (refused, reached) = match kind {
                "dgram" => ("['EACCES', 'EACCES', 'EACCES']", "[7, 7, 7]"),
                _ => ("EACCES", "7"),
            };
            let twice = format!("{refused} {refused}");
            let expected = [&twice, refused, refused, reached, refused, refused, "EADDRINUSE"];
            assert_eq!(said, expected, "{inside:#?}");
            assert_eq!(peer.connections(), 0, "{kind}");
            let report = json!({ "Network": ["connect", sandbox.name("work/theirs"), "seccomp"] });
            assert!(inside.traps.contains(&report), "{inside:#?}");
            std::fs::remove_file(sandbox.path("work/link")).unwrap();
            sandbox.run_outside(words()).succeeds();
            assert!(eventually(|| peer.connections() > 0), "{kind}");
        }
    });
}

#[test]
fn no_kind_of_socket_needs_a_listed_one() {
    for_each_user(|user| {
        let script = "
for kind in 'stream', 'seqpacket', 'dgram': s = made(kind, kind); say(reach(kind, kind))
say([tried(new('dgram').sendto, b'x', name) for name in ('\\0own', '/dev/log')], tried(new('dgram').bind, '\\0own'))";
        let outcome = own(user).run(python(script));
        let missing = if std::fs::exists("/dev/log").unwrap() { "EACCES" } else { "ENOENT" };
        let expected = format!("7\n7\n[7, 7, 7]\n['EACCES', '{missing}'] EACCES\n");
        assert_eq!(outcome.stdout, expected, "{outcome:#?}");
    });
}

#[test]
fn whoever_binds_the_path_after_the_command_is_not_reached() {
    for_each_user(|user| {
        let sandbox = own(user);
        let script = "
s = made('a', 'stream'); say(reach('a', 'stream')); s.close(); os.unlink('a'); say('gone')
while not os.path.exists('b'): time.sleep(0.01)
say(reach('a', 'stream')); s = made('c', 'stream'); say(reach('c', 'stream'))";
        let mut running = sandbox.spawn(python(script));
        running.expect("gone");
        let peer = UnixPeer::at(sandbox.path("work/a"), "stream");
        sandbox.file("work/b", "");
        assert_eq!(running.wait().stdout, "7\ngone\nEACCES\n7\n");
        assert_eq!(peer.connections(), 0);
    });
}

/// The name that a socket was bound to leads to a permitted one if its directories are replaced.
#[test]
fn a_socket_does_not_get_to_a_listed_name_by_what_its_own_leads_to_later() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user).allow_write(".");
        for directory in ["other", "run"] {
            sandbox.dir(format!("work/{directory}"));
        }
        let sandbox = sandbox.allow_unix_socket("run");
        let theirs = UnixPeer::at(sandbox.path("work/other/s"), "stream");
        let listed = UnixPeer::at(sandbox.path("work/run/listed"), "stream");
        let script = "
os.rename('other/s', 'run/s'); say(reach('run/s', 'stream')); os.rename('other', 'former')
os.symlink('run', 'other'); say(reach('run/s', 'stream'), reach('other/s', 'stream'), reach('run/listed', 'stream'))";
        let outcome = sandbox.run(python(script));
        assert_eq!(outcome.stdout, "EACCES\nEACCES EACCES 7\n", "{outcome:#?}");
        assert_eq!(theirs.connections(), 0);
        listed.reached();
    });
}

#[test]
fn sockets_are_bound_where_files_may_be_written_and_over_nothing() {
    for_each_user(|user| {
        let sandbox = own(user).deny_write("protected").allow_unix_socket("listed").trap();
        sandbox.dir("work/protected");
        let peer = UnixPeer::at(sandbox.path("work/listed"), "stream");
        let script = "
say(tried(made, '../outside/a', 'stream'), tried(made, 'protected/a', 'stream'), tried(made, 'listed', 'stream'), tried(made, 'missing/a', 'stream'))
say(reach('listed', 'stream')); s = made('a', 'stream'); say(reach('a', 'stream'))";
        let outcome = sandbox.run(python(script));
        assert_eq!(outcome.stdout, "EACCES EACCES EADDRINUSE ENOENT\n7\n7\n", "{outcome:#?}");
        assert!(eventually(|| peer.connections() == 1));
        let report = |path: &str| json!({ "Network": ["bind", sandbox.name(path), "seccomp"] });
        assert_eq!(outcome.traps, ["outside/a", "work/protected/a"].map(report), "{outcome:#?}");
    });
}

/// The other way round nothing is in the way but the modes of files: that is documented.
#[test]
fn programs_outside_that_may_write_to_its_socket_reach_the_command() {
    let sandbox = own(User::Caller);
    let script = "s = made('a', 'stream'); say('made'); say(s.accept()[0].recv(9))";
    let mut running = sandbox.spawn(python(script));
    running.expect("made");
    use std::io::Write;
    let path = sandbox.path("work/a");
    std::os::unix::net::UnixStream::connect(path).unwrap().write_all(b"outside").unwrap();
    assert_eq!(running.wait().stdout, "made\nb'outside'\n");
}

#[test]
fn more_sockets_than_are_remembered_can_be_made() {
    let sandbox = own(User::Caller).timeout(Duration::from_secs(300));
    let script = "
for i in range(5000):
    s = made('a', 'stream')
    if i % 500 == 0: say(reach('a', 'stream'))
    s.close(); os.unlink('a')
s = made('a', 'stream'); say(reach('a', 'stream'))";
    let mut running = sandbox.spawn(python(script));
    let broker = format!("/proc/{}/fd", running.pid());
    running.expect("7\n7\n7\n");
    let held = || std::fs::read_dir(&broker).map_or(0, std::iter::Iterator::count);
    assert!(held() < 4200, "{}", held());
    assert_eq!(running.wait().stdout, "7\n".repeat(11));
}

/// Mounts btrfs with three subvolumes, binds a stranger's socket in one, has the command run in the second, as the user of
/// this number, and says whether the stranger was reached.
const BTRFS: &str = "
import os, shutil, socket, subprocess, sys
image, user, script, *landstrip = sys.argv[1:]
def run(*words): return subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0
open(image, 'w').truncate(120 << 20); os.makedirs('b', exist_ok=True)
if not shutil.which('mkfs.btrfs') or not run('mkfs.btrfs', '-q', image) or not run('mount', '-o', 'loop', image, 'b'): raise SystemExit('btrfs cannot be mounted')
for name in 'b/theirs', 'b/own', 'b/more': run('btrfs', 'subvolume', 'create', name); os.chown(name, int(user), int(user))
stranger = socket.socket(socket.AF_UNIX); stranger.bind('b/theirs/a'); stranger.listen(); stranger.setblocking(False); os.chmod('b/theirs/a', 0o777)
subprocess.run([*landstrip, 'python3', '-c', script], user=int(user), group=int(user), extra_groups=[])
try: stranger.accept(); print('reached')
except BlockingIOError: print('untouched')
";

#[test]
fn own_sockets_on_btrfs_are_told_from_others_with_the_same_number() {
    if !tests::is_root_for("mounts btrfs") {
        return;
    }
    for_each_user(|user| {
        let script = format!(
            "{PYTHON}
s = made('b/own/a', 'stream'); say(os.stat('b/own/a').st_ino == os.stat('b/theirs/a').st_ino, reach('b/own/a', 'stream'), reach('b/theirs/a', 'stream'))
os.rename('b/theirs/a', 'b/theirs/m'); say(reach('b/theirs/m', 'stream'), s.getsockname()); os.rename('b/theirs/m', 'b/theirs/a')
for kind in KINDS:
    for place in 'b/own/', os.getcwd() + '/b/more/': t = made(place + kind, kind); say(reach(place + kind, kind)); os.rename(place + kind, place + 'm'); say(reach(place + 'm', kind)); os.unlink(place + 'm')"
        );
        let sandbox = own(user);
        let image = sandbox.name("image");
        // As root, in the world of the user.
        let run = |landstrip: Vec<std::ffi::OsString>| {
            let user = user.uid().to_string();
            // One each: the kernel may still have the other one mounted.
            let image = format!("{image}-{}", landstrip.len());
            let mut mount = std::process::Command::new("unshare");
            mount.args(["-m", "python3", "-c", BTRFS, &image, &user, &script]).args(landstrip);
            mount.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
            mount.env("HOME", sandbox.path("home"));
            let output = mount.current_dir(sandbox.path("work")).output().unwrap();
            [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap())
        };
        let landstrip = sandbox.command_line().into_iter().chain(["--".into()]).collect();
        let [inside, errors] = run(landstrip);
        if errors.contains("btrfs cannot be mounted") {
            return tests::skipped("btrfs cannot be mounted");
        }
        let own = "7\n7\n".repeat(4) + &"[7, 7, 7]\n".repeat(4);
        let inside_only = format!("True 7 EACCES\nEACCES a\n{own}untouched\n");
        assert_eq!(inside, inside_only, "{errors}");
        let [outside, errors] = run(Vec::new());
        if errors.contains("btrfs cannot be mounted") {
            return tests::skipped("btrfs cannot be mounted");
        }
        assert_eq!(outside, format!("True 7 7\n7 b/own/a\n{own}reached\n"), "{errors}");
    });
}

/// Serves a command outside, which says what it does, and says as whom the command was seen.
pub(crate) const PEER: &str = "
import os, socket, struct, subprocess, sys
peer = lambda s: struct.unpack('3i', s.getsockopt(1, 17, 12))[1:]
os.chmod('.', 0o777)
inbox = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); inbox.bind('listed'); inbox.setsockopt(1, 16, 1)
server = socket.socket(socket.AF_UNIX); server.bind('stream'); server.listen()
for name in 'listed', 'stream': os.chmod(name, 0o777)
command = subprocess.Popen(sys.argv[2:] + ['python3', '-c', sys.argv[1]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
for line in command.stdout:
    if line == 'connect\\n': client = socket.socket(socket.AF_UNIX); client.connect('own'); print('listener', *peer(client))
    elif line == 'accept\\n': print('client', *peer(server.accept()[0]))
    elif line == 'receive\\n':
        for _, kind, value in inbox.recvmsg(9, 999)[1]: print('sender', *struct.unpack('3i', value)[1:])
    else: print(line, end='')
    command.stdin.write('\\n'); command.stdin.flush()
os.unlink('listed'); os.unlink('stream')
";

/// By the real user of who sends, and by the effective one of who connects, listens, or makes a pair.
#[test]
fn peers_see_who_a_process_is_that_gave_root_up() {
    if !tests::is_root_for("becomes another user") {
        return;
    }
    let sandbox = own(User::Caller).allow_unix_socket("listed").allow_unix_socket("stream");
    let script = "
import errno, os, socket, struct, sys
def say(*words): print(*words, flush=True); sys.stdin.readline()
def send(*parts):
    try: s.sendmsg([b'x'], parts, 0, 'listed'); say('receive')
    except OSError as e: say(errno.errorcode[e.errno])
def claim(user, group): send((1, 2, struct.pack('3i', os.getpid(), user, group)))
for who in (0, 0, 0), (65534, 65534, 65534), (65534, 0, 0), (0, 65534, 65534), (65534, 65534, 0):
    say(*who)
    if os.fork() == 0:
        os.setgroups([]); os.setresgid(*who); os.setresuid(*who); s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        send(); claim(0, 0); claim(65534, 65534); claim(0, 65534); claim(65534, 0); claim(1000, 1000)
        pair = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM); say('pair', *struct.unpack('3i', pair[0].getsockopt(1, 17, 12))[1:])
        server = socket.socket(socket.AF_UNIX); server.bind('own'); server.listen(); say('connect'); server.accept(); os.unlink('own')
        client = socket.socket(socket.AF_UNIX); client.connect('stream'); say('accept'); os._exit(0)
    os.wait()";
    let line = |landstrip: Vec<std::ffi::OsString>| {
        let words = ["python3", "-c", PEER, script].map(Into::into);
        words.into_iter().chain(landstrip).collect::<Vec<_>>()
    };
    let landstrip = sandbox.command_line().into_iter().chain(["--".into()]).collect();
    let (inside, outside) =
        (sandbox.run_outside(line(landstrip)), sandbox.run_outside(line(Vec::new())));
    let nobody = "65534 65534 65534\nsender 65534 65534\nEPERM\nsender 65534 65534\nEPERM\nEPERM\nEPERM\n\
        pair 65534 65534\nlistener 65534 65534\nclient 65534 65534\n";
    assert!(outside.stdout.contains(nobody), "{outside:#?}");
    assert_eq!(inside.stdout, outside.stdout, "{inside:#?}");
}

#[test]
fn a_user_that_root_became_has_sockets_of_its_own() {
    if !tests::is_root_for("becomes another user") {
        return;
    }
    let sandbox = own(User::Caller);
    let script = "
os.chmod('.', 0o777); os.setgroups([]); os.setgid(65534); os.setuid(65534)
s = made('a', 'stream'); say(reach('a', 'stream'), os.stat('a').st_uid)
t = socket.socket(); t.bind(('127.0.0.1', 0)); t.listen(); say(tried(socket.socket().connect, t.getsockname()))
os.mkdir('closed', 0o700); made('closed/a', 'stream'); say(tried(made, '/root/a', 'stream'))";
    let outcome = sandbox.run(python(script));
    assert_eq!(outcome.stdout, "7 65534\nNone\nEACCES\n", "{outcome:#?}");
}

//! allowUnixSockets and allowAllUnixSockets: what is listed is reached, by whatever path (attacks U1
//! and U2).

use rustix::process::{Resource, getrlimit};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::time::Duration;
use tests::{Sandbox, UnixPeer, User, eventually, for_each_user, skipped};

const KINDS: [&str; 2] = ["stream", "seqpacket"];

/// A world with one listed socket and one that is not, `outside/good` and `outside/bad`.
pub(crate) fn world(user: User, kind: &str) -> (Sandbox, UnixPeer, UnixPeer) {
    let sandbox = Sandbox::of(user).allow_write(".");
    let path = sandbox.path("outside/good");
    let sandbox = sandbox.allow_unix_socket(path);
    let good = UnixPeer::at(sandbox.path("outside/good"), kind);
    let bad = UnixPeer::at(sandbox.path("outside/bad"), kind);
    (sandbox, good, bad)
}

fn python(script: &str) -> [String; 3] {
    ["python3".into(), "-c".into(), format!("import os, socket, sys, time, threading\n{script}")]
}

#[test]
fn a_listed_socket_is_reached_by_every_path_and_no_other_is() {
    for_each_user(|user| {
        for kind in KINDS {
            let (sandbox, good, bad) = world(user, kind);
            for name in ["good", "bad"] {
                symlink(
                    sandbox.path("outside").join(name),
                    sandbox.path(format!("work/to-{name}")),
                )
                .unwrap();
            }
            let outside = sandbox.name("outside");
            for (name, permitted) in [("good", true), ("bad", false)] {
                for attack in [
                    format!("unix-connect {outside}/{name} {kind}"),
                    format!("unix-connect to-{name} {kind}"),
                    format!("unix-connect ../outside/{name} {kind}"),
                    format!("unix-connect ../outside/../outside/./{name} {kind}"),
                    format!("unix-connect /proc/self/cwd/../outside/{name} {kind}"),
                    format!("unix-connect /proc/thread-self/cwd/to-{name} {kind}"),
                ] {
                    let outcome = sandbox.probe(&attack);
                    match permitted {
                        true => outcome.allowed("unix-connect"),
                        false => outcome.refused("unix-connect"),
                    };
                    sandbox.probe_outside(&attack).allowed("unix-connect");
                }
                let attack = format!("chdir {outside} + unix-connect {name} {kind}");
                let outcome = sandbox.probe(&attack);
                assert_eq!(outcome.result("unix-connect") == "OK", permitted, "{outcome:#?}");
            }
            let reached = || (good.connections(), bad.connections());
            assert!(eventually(|| reached() == (13, 6)), "{:?}", reached());
        }
    });
}

#[test]
fn a_long_path_is_reached_through_a_directory_descriptor() {
    for_each_user(|user| {
        let deep = format!("outside/{}", ["long-name-of-a-directory"; 8].join("/"));
        let sandbox = Sandbox::of(user);
        let listed = sandbox.path(format!("{deep}/good"));
        let sandbox = sandbox.allow_unix_socket(listed);
        std::fs::create_dir_all(sandbox.path(&deep)).unwrap();
        // The peers bind a short path, and are moved.
        let (good, bad) = (
            UnixPeer::at(sandbox.path("work/good"), "stream"),
            UnixPeer::at(sandbox.path("work/bad"), "stream"),
        );
        for name in ["good", "bad"] {
            let to = sandbox.path(&deep).join(name);
            std::fs::rename(sandbox.path(format!("work/{name}")), to).unwrap();
        }
        let script = format!(
            "d = os.open('{}', os.O_PATH)
for where in (f'/proc/self/fd/{{d}}', f'/dev/fd/{{d}}', f'/proc/{{os.getpid()}}/fd/{{d}}'):
    for name in ('good', 'bad'):
        s = socket.socket(socket.AF_UNIX)
        try: s.connect(f'{{where}}/{{name}}'); s.send(b'reached'); print(name)
        except OSError as e: print(type(e).__name__)",
            sandbox.name(&deep)
        );
        assert_eq!(sandbox.run(python(&script)).stdout, "good\nPermissionError\n".repeat(3));
        let reached = || (good.connections(), bad.connections());
        assert!(eventually(|| reached() == (3, 0)), "{:?}", reached());
    });
}

#[test]
fn a_listed_directory_stands_for_what_is_in_it() {
    let sandbox = Sandbox::new().allow_unix_socket("../outside");
    std::fs::create_dir_all(sandbox.path("elsewhere/deep")).unwrap();
    sandbox.dir("outside/deep");
    let good = UnixPeer::at(sandbox.path("outside/deep/socket"), "stream");
    let bad = UnixPeer::at(sandbox.path("elsewhere/socket"), "stream");
    symlink(sandbox.path("elsewhere/socket"), sandbox.path("outside/link")).unwrap();
    symlink(sandbox.path("elsewhere"), sandbox.path("outside/way")).unwrap();
    sandbox.probe("unix-connect ../outside/deep/socket stream").all_allowed();
    for name in ["link", "way/socket", "../elsewhere/socket"] {
        sandbox.probe(format!("unix-connect ../outside/{name} stream")).all_refused();
    }
    good.reached();
    assert_eq!(bad.connections(), 0);
}

#[test]
fn a_socket_is_bound_where_it_is_listed_and_writable() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user).allow_write(".");
        let sandbox = sandbox.allow_unix_socket("run").allow_unix_socket("../outside");
        sandbox.dir("work/run");
        for (path, expected) in [
            ("run/socket", "OK"),
            ("elsewhere", "PermissionError"),
            ("../outside/socket", "PermissionError"),
            ("run/../elsewhere", "PermissionError"),
            ("run/none/socket", "FileNotFoundError"),
        ] {
            let script = format!(
                "os.umask(0o027); s = socket.socket(socket.AF_UNIX)
try: s.bind('{path}'); s.listen(); print('OK', s.getsockname())
except OSError as e: print(type(e).__name__)"
            );
            let outcome = sandbox.run(python(&script));
            let expected =
                if expected == "OK" { format!("OK {path}\n") } else { format!("{expected}\n") };
            assert_eq!(outcome.stdout, expected, "{path}: {outcome:#?}");
            assert_eq!(sandbox.path(format!("work/{path}")).exists(), expected.starts_with("OK"));
        }
        let mode = sandbox.path("work/run/socket").metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o750, "the umask of the command");
        sandbox.probe("unix-bind run/socket stream").refused_with("unix-bind", "EADDRINUSE");
    });
}

/// More calls than the broker has threads to wait with, of which it may have 1280 on a slow machine; those fail, and
/// delay nobody.
#[test]
fn calls_without_number_that_wait_for_a_peer_stall_no_other() {
    const NEEDED: u64 = 4096;
    if getrlimit(Resource::Nofile).maximum.is_some_and(|most| most < NEEDED) {
        return skipped("no process may have as many descriptors here");
    }
    for_each_user(|user| {
        let sandbox = Sandbox::of(user)
            .allow_write(".")
            .deny_write("kept")
            .allow_unix_socket("../outside/full")
            .timeout(Duration::from_secs(300));
        let server = "import time
s = socket.socket(socket.AF_UNIX); s.bind('../outside/full'); s.listen(0); print('up', flush=True)
while not os.path.exists('go'): time.sleep(0.01)
while True: s.accept()[0].close()";
        let mut server = sandbox.spawn_outside(python(server));
        server.expect("up");
        let script = "import resource, threading, time
most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]; resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
threading.stack_size(1 << 18); ended = []
def wait():
    try: c = socket.socket(socket.AF_UNIX); c.connect('../outside/full'); ended.append(0)
    except OSError as e: ended.append(e.errno)
threads = [threading.Thread(target=wait) for _ in range(1500)]
for thread in threads: thread.start()
while len(ended) < 150: time.sleep(0.05)
# None is let go of before.
os.mkdir('made'); os.chmod('made', 0o700)
print(set(ended) <= {0, 11}, ended.count(0) < 3)
open('go', 'w'); [thread.join() for thread in threads]; print(len(ended), ended.count(0) > 900)";
        let outcome = sandbox.run(python(script));
        assert_eq!(outcome.succeeds().stdout, "True True\n1500 True\n", "{outcome:#?}");
        let limits = outcome.reports_of("Internal");
        assert!(limits.len() == 1 && limits[0].to_string().contains("EAGAIN"), "{outcome:#?}");
    });
}

#[test]
fn a_socket_goes_beside_a_protected_path_and_not_in_its_place() {
    let sandbox = Sandbox::new()
        .allow_write(".")
        .deny_write("run/kept")
        .deny_write("run/missing")
        .allow_unix_socket(".");
    sandbox.dir("work/run");
    sandbox.file("work/run/kept", "");
    for name in ["run/kept", "run/missing", "run/missing/socket"] {
        let denied = sandbox.probe(format!("unix-bind {name} stream"));
        assert!(!denied.stdout.contains("OK"), "{name}: {denied:#?}");
    }
    assert!(!sandbox.path("work/run/missing").exists());
    sandbox.probe("unix-bind run/socket stream").all_allowed();
    assert!(sandbox.path("work/run/socket").exists());
}

#[test]
fn servers_of_the_sandbox_are_reached_from_inside_and_outside() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user).allow_write(".").allow_unix_socket(".");
        let script =
            "s = socket.socket(socket.AF_UNIX); s.bind(os.path.abspath('socket')); s.listen()
print(s.getsockname() == os.path.abspath('socket'))
c = socket.socket(socket.AF_UNIX); c.connect('socket'); p = s.accept()[0]
p.send(b'inside'); print(c.recv(9), c.getpeername() == s.getsockname(), flush=True)
print(s.accept()[0].recv(9))";
        let mut running = sandbox.spawn(python(script));
        running.expect("inside");
        let probe = sandbox.probe_outside("unix-connect socket stream");
        probe.all_allowed();
        assert_eq!(running.wait().stdout, "True\nb'inside' True\nb'reached'\n");
    });
}

#[test]
fn abstract_names_are_refused_even_where_all_unix_sockets_are_allowed() {
    for_each_user(|user| {
        for kind in ["stream", "seqpacket", "dgram"] {
            let name = format!("landstrip-all-{kind}-{}-{user:?}", std::process::id());
            let peer = UnixPeer::named(&name, kind);
            let sandbox = Sandbox::of(user).allow_all_unix_sockets();
            sandbox.probe(format!("unix-abstract {name} {kind}")).all_refused();
            let script = format!(
                "s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
try: s.sendto(b'reached', '\\0{name}'); print('sent')
except OSError as e: print(type(e).__name__)"
            );
            assert_ne!(sandbox.run(python(&script)).stdout, "sent\n");
            sandbox.probe("unix-autobind").all_refused();
            assert_eq!(peer.connections(), 0);
            sandbox.probe_outside(format!("unix-abstract {name} {kind}")).all_allowed();
        }
    });
}

#[test]
fn all_unix_sockets_with_a_path_are_reached_where_that_is_allowed() {
    for_each_user(|user| {
        for kind in ["stream", "seqpacket", "dgram"] {
            let sandbox = Sandbox::of(user).allow_write(".").allow_all_unix_sockets();
            let peer = UnixPeer::at(sandbox.path("outside/socket"), kind);
            sandbox.probe(format!("unix-connect ../outside/socket {kind}")).all_allowed();
            peer.reached();
            sandbox.probe(format!("unix-bind made {kind}")).all_allowed();
            sandbox.probe(format!("unix-bind ../outside/made {kind}")).all_refused();
            assert!(!sandbox.path("outside/made").exists());
        }
        let sandbox = Sandbox::of(user).allow_all_unix_sockets();
        let peer = UnixPeer::at(sandbox.path("outside/socket"), "dgram");
        sandbox.probe("unix-sendto ../outside/socket").all_allowed();
        peer.reached();
    });
}

#[test]
fn datagram_pairs_work_and_reach_nobody_else() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user);
        let peer = UnixPeer::at(sandbox.path("outside/socket"), "dgram");
        sandbox.probe("socketpair dgram").all_allowed();
        let script = "a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
print(os.get_inheritable(a.fileno()), a.fileno() != b.fileno())
a.send(b'one'); a.send(b'two'); print(b.recv(99), b.recv(99))
for send in (lambda: b.sendto(b'reached', '../outside/socket'),
             lambda: b.sendmsg([b'reached'], [], 0, '../outside/socket')):
    try: send()
    except OSError as e: print(type(e).__name__)
    try: print(a.recv(99, socket.MSG_DONTWAIT))
    except OSError as e: print(type(e).__name__)
try: b.connect('../outside/socket')
except OSError as e: print(type(e).__name__)";
        let outcome = sandbox.run(python(script));
        let expected = "False True\nb'one' b'two'\nb'reached'\nb'reached'\nPermissionError\n";
        assert_eq!(outcome.stdout, expected, "{outcome:#?}");
        assert_eq!(peer.connections(), 0);
        sandbox.probe_outside("unix-sendto ../outside/socket").all_allowed();
        peer.reached();
    });
}

#[test]
fn a_full_queue_delays_no_other_connect_and_is_waited_for() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user).allow_write(".").allow_unix_socket(".");
        let script = "
def server(name, queue):
    s = socket.socket(socket.AF_UNIX); s.bind(name); s.listen(queue); return s
def client(name):
    c = socket.socket(socket.AF_UNIX); c.connect(name); return c
quick = server('quick', 128)
stuck = server('stuck', 0); first = client('stuck')
waiting = []
ts = [threading.Thread(target=lambda: waiting.append(client('stuck'))) for _ in range(4)]
[t.start() for t in ts]; time.sleep(0.2); print(len(waiting))
n = socket.socket(socket.AF_UNIX); n.setblocking(False)
try: n.connect('stuck')
except BlockingIOError: print('again')
# The others are let go of only then.
for _ in range(300): client('quick').close(); quick.accept()[0].close()
for i in range(5): stuck.accept()
[t.join() for t in ts]; print(len(waiting))";
        let outcome = sandbox.run(python(script));
        assert_eq!(outcome.stdout, "0\nagain\n4\n", "{outcome:#?}");
    });
}

#[test]
fn clients_that_die_while_they_wait_leave_nothing_behind() {
    let sandbox = Sandbox::new().allow_write(".").allow_unix_socket(".");
    let sandbox = sandbox.allow_local_binding();
    let script = "
import signal
u = socket.socket(socket.AF_UNIX); u.bind('full'); u.listen(0)
t = socket.socket(); t.bind(('127.0.0.1', 0)); t.listen(0)
def client(s, address):
    s.connect(address); time.sleep(99)
def fork(*args):
    pid = os.fork()
    if pid == 0: client(*args); os._exit(0)
    return pid
pids = [fork(socket.socket(socket.AF_UNIX), 'full') for _ in range(20)]
pids += [fork(socket.socket(), t.getsockname()) for _ in range(20)]
time.sleep(1); print('waiting', flush=True); time.sleep(1)
for pid in pids: os.kill(pid, signal.SIGKILL); os.waitpid(pid, 0)
t.close(); u.close(); print('dead', flush=True); time.sleep(2)";
    let mut running = sandbox.spawn(python(script));
    let broker = format!("/proc/{}/fd", running.pid());
    let descriptors = || std::fs::read_dir(&broker).map_or(0, Iterator::count);
    running.expect("waiting");
    assert!(descriptors() > 40, "{}", descriptors());
    running.expect("dead");
    assert!(tests::eventually(|| descriptors() < 15), "{}", descriptors());
    running.wait().succeeds();
}

#[test]
fn an_agent_is_reached_only_if_its_socket_is_listed() {
    let outside = Sandbox::new();
    let agent = outside.run_outside(["sh", "-c", "ssh-agent -a agent"]);
    agent.succeeds();
    let pid = agent.stdout.split("SSH_AGENT_PID=").nth(1).unwrap();
    let pid: String = pid.chars().take_while(char::is_ascii_digit).collect();
    let path = outside.name("work/agent");
    let refused = Sandbox::new().env("SSH_AUTH_SOCK", &path).run(["ssh-add", "-l"]);
    let permitted =
        Sandbox::new().allow_unix_socket(&path).env("SSH_AUTH_SOCK", &path).run(["ssh-add", "-l"]);
    outside.run_outside(["kill", &pid]).succeeds();
    assert_eq!(refused.status, Some(2), "{refused:#?}");
    let reports = refused.reports_of("Network");
    assert_eq!(reports, [&serde_json::json!(["connect", path, "seccomp"])]);
    // It answers that it has no keys.
    assert_eq!(permitted.status, Some(1), "{permitted:#?}");
}

#[test]
fn python_s_multiprocessing_works() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user).allow_write(".").allow_write("/dev/shm");
        let sandbox =
            sandbox.allow_unix_socket(".").env("TMPDIR", ".").timeout(Duration::from_secs(300));
        sandbox.file(
            "work/m.py",
            "import multiprocessing as m
def square(x): return x * x
if __name__ == '__main__':
    for how in ('fork', 'spawn', 'forkserver'):
        with m.get_context(how).Pool(2) as pool: print(sum(pool.map(square, range(10))))
    with m.Manager() as manager: d = manager.dict(); d['x'] = 1; print(d.copy())
",
        );
        let outcome = sandbox.run(["python3", "m.py"]);
        assert_eq!(outcome.stdout, "285\n285\n285\n{'x': 1}\n", "{outcome:#?}");
    });
}

#[test]
fn a_database_serves_over_a_listed_socket() {
    let sandbox = Sandbox::new().allow_write(".").allow_unix_socket("redis");
    let script = "redis-server --port 0 --unixsocket redis --save '' >log 2>&1 & \
        for i in $(seq 500); do redis-cli -s redis ping >/dev/null 2>&1 && break; sleep 0.1; done; \
        redis-cli -s redis set a b; redis-cli -s redis get a; redis-cli -s redis shutdown nosave; wait";
    assert_eq!(sandbox.sh(script).stdout, "OK\nb\n", "{}", sandbox.read("work/log"));
    // One outside, which a client inside reaches if it may.
    let outside = Sandbox::new();
    let start = "redis-server --port 0 --unixsocket redis --save '' --daemonize yes >log; \
        for i in $(seq 500); do redis-cli -s redis ping >/dev/null 2>&1 && break; sleep 0.1; done";
    outside.sh_outside(start).succeeds();
    let path = outside.name("work/redis");
    let refused = Sandbox::new().run(["redis-cli", "-s", &path, "ping"]);
    let permitted = Sandbox::new().allow_unix_socket(&path).run(["redis-cli", "-s", &path, "ping"]);
    outside.sh_outside("redis-cli -s redis shutdown nosave");
    assert_eq!(permitted.stdout, "PONG\n", "{permitted:#?}");
    assert_ne!(refused.stdout, "PONG\n", "{refused:#?}");
}

/// Debian keeps PostgreSQL's programs out of PATH, in a directory a version.
fn postgresql() -> std::path::PathBuf {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut programs = versions.map(|version| version.path().join("bin"));
    let found = programs.find(|programs| programs.join("initdb").exists());
    found.expect("PostgreSQL's server, which .ci/run installs")
}

#[test]
fn postgresql_is_reached_over_a_listed_socket() {
    // It refuses to run as root.
    let outside = Sandbox::unprivileged().env("PGPASSWORD", "");
    if outside.sh_outside("id -un").status != Some(0) {
        return tests::skipped("PostgreSQL runs as a user with a name only");
    }
    let programs = postgresql();
    let (bin, socket) = (programs.display(), outside.name("work/.s.PGSQL.5432"));
    let limit = Duration::from_secs(120);
    let start = format!(
        "{bin}/initdb -D data -A trust -U test -N >log 2>&1 && {bin}/pg_ctl -D data -w -l server.log \
         -o \"-c listen_addresses= -k $PWD\" start >>log 2>&1"
    );
    let outside = outside.timeout(limit);
    outside.sh_outside(&start).succeeds();
    let directory = outside.name("work");
    let query = |sandbox: Sandbox| {
        // More than one packet, and COPY in both directions.
        let script = "create table t as select generate_series(1, 20000) as a;
            \\copy t to 'copied'
            \\copy t from 'copied'
            select count(*), sum(a) from t; drop table t";
        sandbox.file("work/script", script);
        let words =
            ["psql", "-X", "-q", "-At", "-h", &directory, "-U", "test", "-f", "script", "postgres"];
        sandbox.allow_write(".").timeout(limit).run(words)
    };
    let permitted = query(Sandbox::unprivileged().allow_unix_socket(&socket));
    let refused = query(Sandbox::unprivileged());
    let other = query(Sandbox::unprivileged().allow_unix_socket(format!("{socket}.lock")));
    outside.sh_outside(&format!("{bin}/pg_ctl -D data -m immediate stop")).succeeds();
    assert_eq!(permitted.stdout, "40000|400020000\n", "{permitted:#?}");
    for refused in [refused, other] {
        assert_eq!((refused.status, refused.stdout.as_str()), (Some(2), ""), "{refused:#?}");
        let reports = refused.reports_of("Network");
        assert_eq!(reports, [&serde_json::json!(["connect", socket, "seccomp"])]);
    }
}

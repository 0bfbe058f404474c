//! Where the kernel gives no seccomp listener: inside another landstrip, or where another supervisor
//! has one. What needs no broker runs under the whole of its policy, anything else not at all.

use serde_json::Value;
use std::ffi::OsString;
use tests::{ESCAPED, Sandbox, TcpPeer, UnixPeer, Victim, for_each_user, programs, quoted};

/// `landstrip -p POLICY -- COMMAND...` as words for an outer sandbox.
fn inner(outer: &Sandbox, policy: &str, command: &[&str]) -> Vec<OsString> {
    let policy = outer.file("inner.json", policy);
    let mut words = vec![programs().landstrip().into_os_string()];
    words.extend(["-p".into(), policy.into(), "--".into()]);
    words.extend(command.iter().map(OsString::from));
    words
}

/// The same after the probe has taken the only listener there can be.
fn where_a_listener_exists(words: Vec<OsString>) -> Vec<OsString> {
    let mut all = vec![programs().probe().into_os_string(), "with-listener".into()];
    all.extend(words);
    all
}

/// Whether anything runs there. Without a broker only Landlock can keep signals inside; on kernels where it cannot,
/// nothing runs.
fn anything_runs() -> bool {
    let can = crate::reports::has_scopes();
    if !can {
        let outer = Sandbox::new();
        let words = inner(&outer, r#"{"enableWeakerNestedSandbox": true}"#, &["true"]);
        let why = "this kernel cannot confine signals by itself";
        outer.run(words.clone()).is_error(125, "Internal", why);
        outer.run_outside(where_a_listener_exists(words)).is_error(125, "Internal", why);
    }
    can
}

/// What a sandbox that allows nothing but reading must refuse, although the outer one permits it.
fn attacks(outer: &Sandbox, port: u16) -> Vec<String> {
    let file = outer.name("work/file");
    let probe = programs().probe().into_os_string().into_string().unwrap();
    vec![
        format!("echo x > {file}"),
        format!("echo x > {file}.new"),
        format!("rm {file}"),
        format!("mv {file} {file}.new"),
        format!("ln {file} {file}.new"),
        format!("mkdir {file}.new"),
        format!("chmod 777 {file}"),
        format!("touch -d 2001-01-01 {file}"),
        format!("{probe} connect4 127.0.0.1 {port} | grep OK"),
        format!("{probe} unix-connect {} stream | grep OK", outer.name("outside/socket")),
        format!("{probe} socket 2 2 0 | grep OK"),
        format!("{probe} bind4 127.0.0.1 0 | grep OK"),
        format!("{probe} unix-bind bound stream | grep OK"),
    ]
}

#[test]
fn a_policy_that_only_reads_is_enforced_inside_a_sandbox() {
    if !anything_runs() {
        return;
    }
    for_each_user(|user| {
        let peer = TcpPeer::new();
        let outer = Sandbox::of(user).allow_write(".").http_proxy_port(peer.port());
        // The broker of the outer one makes and opens files in this directory itself.
        let outer = outer.deny_write(".env");
        let outer = outer.allow_unix_socket("../outside").allow_unix_socket(".");
        let socket = UnixPeer::at(outer.path("outside/socket"), "stream");
        outer.file("work/file", "kept");
        let before = tests::Snapshot::of(outer.path("work"));
        for attack in attacks(&outer, peer.port()) {
            let outcome = outer.run(inner(&outer, "{}", &["sh", "-c", &attack]));
            outcome.fails();
            before.unchanged();
        }
        peer.untouched();
        assert_eq!(socket.connections(), 0);
        // What it grants works, and the status is the command's.
        let script = "cat file; ls; sleep 0 | cat; echo x > /dev/null; exit 7";
        let outcome = outer.run(inner(&outer, "{}", &["sh", "-c", script]));
        assert_eq!(
            (outcome.stdout.as_str(), outcome.status),
            ("keptfile\n", Some(7)),
            "{outcome:#?}"
        );
        // It has a temporary directory as under every policy, only that nobody changes metadata.
        let script =
            "echo x > $TMPDIR/f && cat $(mktemp) $TMPDIR/f && ! chmod 700 $TMPDIR/f 2>&- && exit 7";
        let outcome = outer.run(inner(&outer, "{}", &["sh", "-c", script]));
        assert_eq!((outcome.stdout.as_str(), outcome.status), ("x\n", Some(7)), "{outcome:#?}");
        // The twins, in the outer sandbox alone.
        for attack in &attacks(&outer, peer.port())[6..10] {
            outer.sh(attack).succeeds();
        }
        peer.reached();
        socket.reached();
    });
}

#[test]
fn a_policy_that_only_reads_is_enforced_where_a_listener_exists() {
    if !anything_runs() {
        return;
    }
    for_each_user(|user| {
        let peer = TcpPeer::new();
        let world = Sandbox::of(user);
        let socket = UnixPeer::at(world.path("outside/socket"), "stream");
        world.file("work/file", "kept");
        let before = tests::Snapshot::of(world.path("work"));
        for attack in attacks(&world, peer.port()) {
            let words = inner(&world, "{}", &["sh", "-c", &attack]);
            world.run_outside(where_a_listener_exists(words)).fails();
            before.unchanged();
        }
        peer.untouched();
        assert_eq!(socket.connections(), 0);
        let words = inner(&world, "{}", &["sh", "-c", "cat file; exit 7"]);
        let outcome = world.run_outside(where_a_listener_exists(words));
        assert!(outcome.stdout.ends_with("kept") && outcome.status == Some(7), "{outcome:#?}");
        for attack in attacks(&world, peer.port()) {
            if !attack.contains("mv") && !attack.contains("rm") {
                world.sh_outside(&attack).succeeds();
                let _ = std::fs::remove_dir(world.path("work/file.new"));
                let _ = std::fs::remove_file(world.path("work/file.new"));
            }
        }
        peer.reached();
        socket.reached();
    });
}

#[test]
fn a_policy_that_asks_for_more_runs_nothing_and_the_reason_is_said() {
    if !anything_runs() {
        return;
    }
    let outer = Sandbox::new().allow_write(".");
    for policy in [
        r#"{"filesystem":{"allowWrite":["."]}}"#,
        r#"{"filesystem":{"denyRead":["/root"]}}"#,
        r#"{"network":{"allowNetwork":true}}"#,
        r#"{"network":{"allowLocalBinding":true}}"#,
        r#"{"network":{"allowUnixSockets":["/run"]}}"#,
        r#"{"network":{"allowAllUnixSockets":true}}"#,
        r#"{"network":{"httpProxyPort":3128}}"#,
        r#"{"network":{"socksProxyPort":1080}}"#,
    ] {
        let words = inner(&outer, policy, &["touch", "made"]);
        outer.run(words.clone()).is_error(125, "Internal", "inside another sandbox");
        let outcome = outer.run_outside(where_a_listener_exists(words));
        outcome.is_error(125, "Internal", "listener exists");
        assert!(outcome.stderr.contains("set enableWeakerNestedSandbox: true"), "{outcome:#?}");
        assert!(!outer.path("work/made").exists(), "{policy}");
    }
}

#[test]
fn a_check_inside_a_sandbox_says_whether_anything_would_run_there() {
    if !anything_runs() {
        return;
    }
    let outer = Sandbox::new().allow_write(".");
    let unset = |words: Vec<OsString>| {
        let variables = ["http_proxy", "HTTP_PROXY", "socks_proxy", "SOCKS_PROXY"];
        let env = variables.iter().flat_map(|name| ["-u", name]).map(OsString::from);
        ["env".into()].into_iter().chain(env).chain(words).collect::<Vec<_>>()
    };
    for (policy, runs) in [("{}", true), (r#"{"filesystem":{"allowWrite":["."]}}"#, false)] {
        let check = [inner(&outer, policy, &[])[..3].to_vec(), vec!["--check".into()]].concat();
        for words in [check, inner(&outer, policy, &["true"])] {
            let outcome = outer.run(unset(words.clone()));
            assert_eq!(outcome.status == Some(0), runs, "{policy} {outcome:#?}");
            // The proxy of the one around, which nothing inside may be led to without a broker.
            let with = outer.run(words.clone());
            with.is_error(125, "Internal", "inside another sandbox");
            let all = "or unset HTTP_PROXY, http_proxy, SOCKS_PROXY, socks_proxy";
            assert_eq!(with.stderr.contains(all), runs, "{with:#?}");
            outer.run_outside(words).succeeds();
        }
    }
}

/// Only a broker can keep a command from writing there.
#[test]
fn nothing_runs_without_a_broker_on_a_pipe_that_the_caller_reads() {
    if !anything_runs() {
        return;
    }
    for_each_user(|user| {
        for (policy, is_left) in [("{}", false), (r#"{"enableWeakerNestedSandbox": true}"#, true)] {
            // Nothing inside has variables that name a proxy.
            let outer = Sandbox::of(user).allow_write(".").http_proxy_port(1);
            let speak = "echo 'echo spoken >> spoken' > /dev/stdin; echo done";
            let inside = inner(&outer, policy, &["sh", "-c", speak]);
            let listening = where_a_listener_exists(inside.clone());
            for (name, words) in [("nested", inside), ("listening", listening)] {
                let words = words.iter().map(|word| quoted(word.to_str().unwrap()) + " ");
                let line: String = words.collect();
                outer.file(format!("work/{name}"), format!("{line}\necho ran\n{line}</dev/null\n"));
                let script = format!("cat {name} | sh");
                let outcome =
                    if name == "nested" { outer.sh(&script) } else { outer.sh_outside(&script) };
                // What reads elsewhere runs.
                let said = outcome.stdout.replace("with-listener=OK\n", "");
                let (all, line) = match is_left {
                    // Who wants that is told of it.
                    true => ("done\nran\ndone\n", "and writing to standard input"),
                    false => ("ran\ndone\n", "start it with </dev/null"),
                };
                assert_eq!(said, all, "{policy}: {outcome:#?}");
                assert!(outcome.stderr.contains(line), "{policy}: {outcome:#?}");
                let spoken = outer.path("work/spoken").exists();
                assert_eq!(spoken, is_left, "{policy}: {outcome:#?}");
                let _ = std::fs::remove_file(outer.path("work/spoken"));
            }
        }
    });
}

/// What a policy is to say besides where it may run with less.
fn weaker(members: &str) -> String {
    format!(r#"{{"enableWeakerNestedSandbox": true, {members}}}"#)
}

#[test]
fn a_weaker_sandbox_inside_another_holds_what_landlock_does() {
    if !anything_runs() {
        return;
    }
    for_each_user(|user| {
        let peer = TcpPeer::new();
        let outer = Sandbox::of(user).allow_write(".").http_proxy_port(peer.port());
        outer.dir("work/own");
        outer.dir("work/secret");
        for name in ["work/own/old", "work/secret/key", "work/file", "outside/file"] {
            outer.file(name, "kept");
        }
        let policy = weaker(
            r#""filesystem": {"allowWrite": ["own"], "denyRead": ["secret"], "denyWrite": ["own/old"]}"#,
        );
        let probe = programs().probe().into_os_string().into_string().unwrap();
        for (script, is_allowed) in [
            ("cat file > /dev/null".to_owned(), true),
            ("mkdir own/dir/new && echo x > own/dir/new/file".to_owned(), true),
            // What is left to the outer one, which does nothing for a process with a filter of its own.
            ("chmod 700 own/dir".to_owned(), false),
            ("echo x > own/old".to_owned(), false),
            ("echo x > file".to_owned(), false),
            ("cat secret/key".to_owned(), false),
            (format!("{probe} connect4 127.0.0.1 {} | grep OK", peer.port()), false),
            (format!("{probe} socket 2 2 0 | grep OK"), false),
        ] {
            let _ = std::fs::remove_dir_all(outer.path("work/own/dir"));
            outer.dir("work/own/dir");
            let outcome = outer.run(inner(&outer, &policy, &["sh", "-c", &script]));
            assert_eq!(outcome.status == Some(0), is_allowed, "{script}: {outcome:#?}");
            let said = "landstrip: there is a sandbox around this one";
            assert_eq!(outcome.stderr.matches(said).count(), 1, "{outcome:#?}");
        }
        for name in ["work/own/old", "work/secret/key", "work/file", "outside/file"] {
            assert_eq!(outer.read(name), "kept");
        }
        peer.untouched();
        // Outside of another sandbox the key changes nothing.
        let inside =
            Sandbox::of(user).policy_json(weaker(r#""filesystem": {"allowWrite": ["."]}"#));
        let outcome = inside.sh("echo x > file && chmod 600 file && echo x > ../outside/file");
        outcome.fails();
        assert_eq!(outcome.reports_of("Filesystem").len(), 1, "{outcome:#?}");
        assert!(!outcome.stderr.contains("around"), "{outcome:#?}");
    });
}

#[test]
fn where_nobody_is_around_a_weaker_sandbox_leaves_metadata_free_and_sockets_if_its_policy_has_some()
{
    if !anything_runs() {
        return;
    }
    for_each_user(|user| {
        let world = Sandbox::of(user);
        let socket = UnixPeer::at(world.path("work/socket"), "stream");
        let probe = programs().probe().into_os_string().into_string().unwrap();
        world.file("work/file", "kept");
        world.dir("work/own");
        let connect = format!("{probe} unix-connect socket stream | grep OK");
        let files = weaker(r#""filesystem": {"allowWrite": ["own"]}"#);
        let sockets = weaker(r#""network": {"allowUnixSockets": ["socket"]}"#);
        for (policy, script, is_allowed) in [
            (
                &files,
                "echo x > own/file && chmod 600 own/file && touch -d 2001-01-01 own/file",
                true,
            ),
            (&files, "echo x > file", false),
            (&files, &connect, false),
            (&sockets, &connect, true),
            (&sockets, "echo x > own/file", false),
        ] {
            let words = inner(&world, policy, &["sh", "-c", script]);
            let outcome = world.run_outside(where_a_listener_exists(words));
            assert_eq!(outcome.status == Some(0), is_allowed, "{script}: {outcome:#?}");
            assert!(outcome.stderr.contains("around this one"), "{outcome:#?}");
        }
        socket.has_seen(1);
        assert_eq!(world.read("work/file"), "kept");
    });
}

#[test]
fn a_weaker_sandbox_with_sockets_refuses_all_else_that_needs_a_broker() {
    if !anything_runs() {
        return;
    }
    for_each_user(|user| {
        let (peer, mut victim) = (TcpPeer::new(), Victim::of(user));
        let world = Sandbox::of(user);
        let streams = UnixPeer::at(world.path("work/socket"), "stream");
        let datagrams = UnixPeer::at(world.path("work/datagrams"), "dgram");
        world.dir("work/own");
        let (pid, port) = (victim.pid(), peer.port());
        let lasting = format!("prlimit {pid} + setpriority {pid} + ioprio {pid} + sched {pid}");
        let others = format!(
            "{lasting} + kill {pid} 0 + traceme + chroot + mount + unshare 0x10000000 \
             + clone-ns 0x10000000 + socket 40 1 0 + bpf + seccomp-listener"
        );
        let internet = format!(
            "connect4 127.0.0.1 {port} + connect-protocol 262 127.0.0.1 {port} + listen-unbound \
             + bind4 127.0.0.1 0 + udp 127.0.0.1 9"
        );
        let unix = "unix-connect socket stream + unix-sendto datagrams + unix-bind own/made stream";
        let run = |members: &str, calls: &str| {
            let files = r#""filesystem": {"allowWrite": ["own"]}"#;
            let policy = weaker(&format!(r#"{files}, "network": {{{members}}}"#));
            let script = format!("{} {calls}", programs().probe().display());
            let words = inner(&world, &policy, &["sh", "-c", &script]);
            let mut outcome = world.run_outside(where_a_listener_exists(words));
            outcome.stdout = outcome.stdout.replace("with-listener=OK\n", "");
            let _ = std::fs::remove_file(world.path("work/own/made"));
            outcome
        };
        for members in [r#""allowUnixSockets": ["."]"#, r#""allowAllUnixSockets": true"#] {
            run(members, unix).all_allowed();
            run(members, &others).all_refused();
            run(members, &internet).all_refused();
        }
        peer.untouched();
        let open = r#""allowNetwork": true"#;
        run(open, &others).all_refused();
        run(open, &format!("{unix} + {internet}")).all_allowed();
        peer.reached();
        run("", unix).all_refused();
        streams.has_seen(3);
        datagrams.reached();
        assert!(victim.untouched());
        world.probe_outside(lasting).allowed("prlimit");
        assert!(!victim.untouched());
    });
}

/// Disconnected, such a socket connects and listens elsewhere.
#[test]
fn sockets_are_not_left_to_others_where_a_standard_stream_is_one_of_the_internet() {
    if !anything_runs() {
        return;
    }
    let (peer, world) = (TcpPeer::new(), Sandbox::new());
    for (network, is_left) in
        [("allowUnixSockets\": [\".\"]", false), ("allowNetwork\": true", true)]
    {
        let policy = weaker(&format!(r#""network": {{"{network}}}"#));
        let words = where_a_listener_exists(inner(&world, &policy, &["echo", "ran"]));
        let words: Vec<_> = words.iter().map(|word| quoted(word.to_str().unwrap())).collect();
        let script = format!("{} <> /dev/tcp/127.0.0.1/{}", words.join(" "), peer.port());
        let outcome = world.run_outside(["bash", "-c", &script]);
        assert_eq!(outcome.stdout.contains("ran"), is_left, "{outcome:#?}");
        if !is_left {
            outcome.is_error(125, "Internal", "enableWeakerNestedSandbox");
        }
    }
}

/// Runs a command whose standard input gives it a TCP socket that was made outside of its sandbox.
const GIVE: &str = "
import array, socket, subprocess, sys
here, there = socket.socketpair()
tcp = socket.socket()
here.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [tcp.fileno()]))])
sys.exit(subprocess.run(sys.argv[1:], stdin=there).returncode)
";

/// Takes it, and connects.
const TAKE: &str = "
import array, socket, sys
_, [(_, _, given)], *_ = socket.socket(fileno=0).recvmsg(1, socket.CMSG_SPACE(4))
tcp = socket.socket(fileno=array.array('i', given)[0])
tcp.connect(('127.0.0.1', int(sys.argv[1])))
tcp.send(b'reached')
";

#[test]
fn the_broker_around_makes_no_connection_that_a_weaker_sandbox_denies() {
    if !anything_runs() {
        return;
    }
    for_each_user(|user| {
        let peer = TcpPeer::new();
        let outer = Sandbox::of(user).allow_write(".").allow_network();
        let port = peer.port().to_string();
        for (network, is_allowed) in
            [("allowUnixSockets\": [\".\"]", false), ("allowNetwork\": true", true)]
        {
            let policy = weaker(&format!(r#""network": {{"{network}}}"#));
            let give = ["python3", "-c", GIVE].map(OsString::from);
            let words = inner(&outer, &policy, &["python3", "-c", TAKE, &port]);
            let outcome = outer.run(give.into_iter().chain(words));
            assert_eq!(outcome.status == Some(0), is_allowed, "{outcome:#?}");
            if is_allowed {
                peer.reached();
            } else {
                assert!(outcome.stderr.contains("PermissionError"), "{outcome:#?}");
                peer.untouched();
            }
        }
    });
}

#[test]
fn what_cannot_be_left_to_another_sandbox_is_not() {
    if !anything_runs() {
        return;
    }
    let outer = Sandbox::new().allow_write(".");
    outer.dir("work/secret");
    for members in [
        r#""filesystem": {"allowWrite": ["."], "denyRead": ["secret"]}"#,
        r#""network": {"allowLocalBinding": true}"#,
        r#""processes": "own""#,
        r#""limits": {"processes": 5}"#,
    ] {
        let words = inner(&outer, &weaker(members), &["touch", "made"]);
        outer.run(words).is_error(125, "Internal", "enableWeakerNestedSandbox");
        assert!(!outer.path("work/made").exists(), "{members}");
    }
}

#[test]
fn the_broker_does_nothing_for_a_sandbox_of_its_command_s_own() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user).allow_write(".").allow_unix_socket(".");
        sandbox.file("work/file", "");
        let peer = UnixPeer::at(sandbox.path("work/socket"), "stream");
        let calls = "unix-bind made stream + unix-connect socket stream + meta chmod file";
        let outcome = sandbox.probe(format!("seccomp-filter + {calls}"));
        outcome.allowed("seccomp-filter");
        for name in ["unix-bind", "unix-connect", "meta-chmod"] {
            outcome.refused(name);
        }
        assert_eq!(peer.connections(), 0);
        assert_eq!(unserved(&outcome.reports), ["bind", "connect", "write"], "{outcome:#?}");
        sandbox.probe(calls).all_allowed();
    });
}

/// Nothing that the kernel tells of a process shows in which Landlock domain it is.
#[test]
fn the_broker_does_nothing_that_a_landlock_domain_of_the_command_s_own_forbids() {
    for_each_user(|user| {
        let server = TcpPeer::new();
        let sandbox = Sandbox::of(user).allow_write(".").deny_write(".env");
        let sandbox = sandbox.allow_unix_socket(".").http_proxy_port(server.port());
        sandbox.file("work/file", "");
        sandbox.file("work/old", "");
        sandbox.dir("work/dir");
        let peer = UnixPeer::at(sandbox.path("work/socket"), "stream");
        let probe = programs().probe().into_os_string().into_string().unwrap();
        let files =
            ["file creat new", "file mkdir dir2", "file unlink old", "unix-bind bound stream"];
        let others =
            ["unix-connect socket stream", &format!("connect4 127.0.0.1 {}", server.port())];
        let free = ["meta chmod file"];
        let calls = [&files[..], &others, &free].concat().join(" + ");
        // Landlock had no rules for TCP at first.
        let has_tcp = !crate::reports::landlock_lacks("rules for TCP");
        for (kind, reaches_tcp) in [("files", true), ("everything", !has_tcp)] {
            // Through fork and exec, and of a parent that has gone.
            for wrapped in [format!("{probe} {calls}"), format!("(setsid {probe} {calls} &) | cat")]
            {
                let outcome = sandbox.run([&*probe, "own-domain", kind, "sh", "-c", &wrapped]);
                let results: Vec<_> = outcome.results().map(|(_, result)| result).collect();
                let tcp = if reaches_tcp { "OK" } else { "EACCES" };
                let refused = ["EACCES"; 5];
                let expected = [&["OK"][..], &refused, &[tcp, "OK"]].concat();
                assert_eq!(results, expected, "{kind}: {outcome:#?}");
            }
        }
        assert_eq!(peer.connections(), 0);
        // Another's is none of a process that was made before.
        let script = format!("{probe} own-domain everything true; {probe} {calls}");
        sandbox.sh(&script).all_allowed();
    });
}

/// The operations that were refused for what the process is.
pub(crate) fn unserved(reports: &[Value]) -> Vec<&str> {
    let kinds = ["Filesystem", "Network"];
    let reports =
        reports.iter().filter_map(|report| kinds.iter().find_map(|kind| report.get(kind)));
    let unserved = reports.filter(|report| report[1].as_str().unwrap().contains("of its own"));
    let mut operations: Vec<_> = unserved.map(|report| report[0].as_str().unwrap()).collect();
    operations.sort_unstable();
    operations.dedup();
    operations
}

#[test]
fn what_is_not_done_for_a_sandbox_of_its_command_s_own_is_reported() {
    for_each_user(|user| {
        let sandbox = || {
            let sandbox = Sandbox::of(user).allow_write(".").trap();
            sandbox.file("work/file", "");
            sandbox
        };
        for (sandbox, calls, expected) in [
            (sandbox(), "file creat new + carve read file", &[][..]),
            (sandbox().deny_write(".env"), "file creat new", &["write"]),
            (sandbox().deny_read(".env"), "carve read file", &["read"]),
            (
                sandbox().deny_read("**/*.key"),
                "file creat new + carve read file",
                &["read", "write"],
            ),
        ] {
            let outcome = sandbox.probe(format!("seccomp-filter + {calls}"));
            assert_eq!(unserved(&outcome.traps), expected, "{calls}: {outcome:#?}");
            let _ = std::fs::remove_file(sandbox.path("work/new"));
            let outcome = sandbox.probe(calls);
            outcome.all_allowed();
            assert!(outcome.traps.is_empty(), "{outcome:#?}");
        }
    });
}

/// As agents confine commands without namespaces (Codex to 0.9x): a filter of its own that permits no addresses, then
/// Landlock, which lets everything be read, and the working directory and /tmp be written.
const AGENT: &str = r#"
import ctypes, os, platform, struct, sys
C = ctypes.CDLL(None, use_errno=True)
SECCOMP, CONNECT = (317, 42) if platform.machine() == "x86_64" else (277, 203)
def call(number, *words):
    result = C.syscall(ctypes.c_long(number), *[ctypes.c_long(w) if isinstance(w, int) else w for w in words])
    if result < 0:
        raise OSError(ctypes.get_errno(), f"system call {number}")
    return result
PR_SET_NO_NEW_PRIVS, LOAD, EQUAL, RETURN, EPERM, ALLOW = 38, 0x20, 0x15, 0x06, 0x50001, 0x7fff0000
C.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
steps = [(LOAD, 0, 0, 0), (EQUAL, 0, 1, CONNECT), (RETURN, 0, 0, EPERM), (RETURN, 0, 0, ALLOW)]
program = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *step) for step in steps))
call(SECCOMP, 1, 0, ctypes.create_string_buffer(struct.pack("@HQ", len(steps), ctypes.addressof(program))))
READ, ALL, FILE = 0b1101, 0x1fff, 0b111
ruleset = call(444, ctypes.create_string_buffer(struct.pack("=Q", ALL)), 8, 0)
for path, access in ("/", READ), (os.getcwd(), ALL), ("/tmp", ALL), ("/dev/null", FILE):
    try:
        beneath = os.open(path, getattr(os, os.environ.get("OPEN_BY", "O_RDONLY")))
    except OSError as error:
        print("without a rule for", path, error.strerror)
        continue
    call(445, ruleset, 1, ctypes.create_string_buffer(struct.pack("=Qi", access, beneath)), 0)
call(446, ruleset, 0)
try:
    os.execvp(sys.argv[1], sys.argv[1:])
except OSError as error:
    sys.exit(f"{sys.argv[1]}: {error.strerror}")
"#;

#[test]
fn an_agent_s_own_landlock_and_filter_run_inside_and_the_line_says_what_they_cost() {
    const LINE: &str = "landstrip: refused to a process with a sandbox, user or label of its own: run the tool \
                        without its own sandbox";
    for_each_user(|user| {
        let peer = TcpPeer::new();
        let sandbox = || Sandbox::of(user).allow_write(".");
        let inside = |sandbox: &Sandbox, script: &str| {
            let agent = sandbox.file("outside/agent.py", AGENT);
            sandbox.run(["python3", agent.to_str().unwrap(), "sh", "-c", script])
        };
        // Both sandboxes hold, and what neither denies works.
        let plain = sandbox().http_proxy_port(peer.port());
        let probe = programs().probe().display().to_string();
        let connect = format!("{probe} connect4 127.0.0.1 {}", peer.port());
        let script = format!(
            "mkdir new && echo x > new/made && mv new kept && cat kept/made
             echo x > ../outside/made; echo x > ../home/made; {connect} || exit 7"
        );
        let outcome = inside(&plain, &script);
        assert!(outcome.stdout.starts_with("x\n"), "{outcome:#?}");
        assert_eq!(plain.read("work/kept/made"), "x\n");
        assert!(!plain.path("outside/made").exists() && !plain.path("home/made").exists());
        assert_eq!(peer.connections(), 0);
        plain.sh(&connect).succeeds();
        peer.reached();
        // What the broker does, it does for no process with a sandbox of its own: that is said, and the way out.
        let outcome = inside(&plain, "chmod 700 kept; exit 7");
        assert!(outcome.exits(7).stderr.contains(LINE), "{outcome:#?}");
        assert_eq!(unserved(&outcome.reports), ["write"]);
        plain.sh("chmod 700 kept").succeeds();
        // Where something in the root directory may not be read, Landlock does not let that be opened: the agent has no
        // rule for it, and its command cannot start.
        let text = r#"{"filesystem": {"allowWrite": ["."], "denyRead": ["../home/secret"]}, "report": {"reads": false}}"#;
        let denied = sandbox().policy_json(text);
        denied.file("home/secret", "TOPSECRET");
        let outcome = inside(&denied, "echo begun");
        assert!(
            outcome.fails().stdout.contains("without a rule for / Permission denied"),
            "{outcome:#?}"
        );
        assert!(
            outcome.stderr.contains("refused reads are reported only with --report all"),
            "{outcome:#?}"
        );
        // With one, it starts, and the broker lists no directory for it.
        let denied = denied.env("OPEN_BY", "O_PATH");
        let outcome = inside(&denied, "echo begun; cat ../home/secret; ls /");
        assert_eq!(outcome.fails().stdout, "begun\n", "{ESCAPED}{outcome:#?}");
        assert!(outcome.stderr.contains(LINE), "{outcome:#?}");
        denied.sh("ls /").succeeds();
    });
}

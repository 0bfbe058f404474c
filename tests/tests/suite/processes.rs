//! Processes and the kernel: others are out of reach, and so is what could lift the sandbox
//! (attacks P1 to P9).

use nix::sys::signal::Signal;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::time::Duration;
use tests::{Outcome, Sandbox, Terminal, User, Victim, eventually, for_each_user};

/// Every way to bother a process; `@` stands for its pid.
const BOTHER: &str = "kill @ 0 + kill @ 15 + tgkill @ 15 + sigqueue @ 15 + pidfd-signal @ 15 \
    + prlimit @ + setpriority @ + ioprio @ + sched @ + ptrace @ + pidfd-getfd @ \
    + proc-open @ mem + proc-open @ environ + proc-open @ fd";

#[test]
fn processes_outside_are_out_of_reach() {
    for_each_user(|user| {
        let mut victim = Victim::of(user);
        let sandbox = Sandbox::of(user);
        let attack = BOTHER.replace('@', &victim.pid().to_string());
        let attack = format!("{attack} + vmread {} {}", victim.pid(), victim.address());
        sandbox.probe(&attack).all_refused();
        assert!(victim.untouched());
        let lasting = format!("sched {0} + prlimit {0} + setpriority {0}", victim.pid());
        sandbox.probe_outside(&lasting).all_allowed();
        assert!(!victim.untouched(), "the witness sees what the twin did");
        sandbox.probe_outside(format!("kill {} 15", victim.pid())).allowed("kill");
        assert!(eventually(|| !victim.alive()));
    });
}

#[test]
fn files_of_processes_outside_do_not_lead_out() {
    for_each_user(|user| {
        let victim = Victim::of(user);
        let sandbox = Sandbox::of(user).allow_write(".");
        let file = sandbox.file("outside/file", "kept");
        let path = format!("/proc/{}/root{}", victim.pid(), file.display());
        sandbox.probe(format!("file write {path} + file creat {path}")).all_refused();
        assert_eq!(sandbox.read("outside/file"), "kept");
        sandbox.probe_outside(format!("file write {path}")).allowed("file-write");
    });
}

#[test]
fn signals_to_everyone_stay_inside() {
    for_each_user(|user| {
        let mut victim = Victim::of(user);
        let sandbox = Sandbox::of(user);
        let outcome = sandbox.sh("sleep 20 & kill -9 -1; wait; echo survived");
        assert!(victim.untouched(), "kill(-1) left the sandbox: {outcome:#?}");
    });
}

#[test]
fn kernel_sent_signals_stay_inside() {
    for_each_user(|user| {
        let mut victim = Victim::of(user);
        let sandbox = Sandbox::of(user);
        let attack = format!("sigio {} 9", victim.pid());
        sandbox.probe(&attack).succeeds();
        std::thread::sleep(Duration::from_millis(100));
        assert!(victim.untouched());
        sandbox.probe_outside(&attack);
        assert!(eventually(|| !victim.alive()), "nothing was sent at all");
    });
}

/// A descriptor whose owner is outside, which the tool inherits as standard input: it chooses the signal
/// and has it sent.
const INHERITED_OWNER: &str = r#"
import fcntl, os, signal, socket, subprocess, sys
ours, theirs = socket.socketpair()
fcntl.fcntl(theirs, fcntl.F_SETOWN, os.getpid())
signal.signal(signal.SIGIO, signal.SIG_IGN)
inside = """
import fcntl, os
try: fcntl.fcntl(0, 10, SIGNAL); print('chosen', flush=True)
except OSError as error: print(error.errno, flush=True)
fcntl.fcntl(0, fcntl.F_SETFL, fcntl.fcntl(0, fcntl.F_GETFL) | os.O_ASYNC)
os.write(0, b'x'); os.read(0, 1)
"""
tool = subprocess.Popen([*sys.argv[2:], "python3", "-c", inside.replace("SIGNAL", sys.argv[1])], stdin=theirs)
ours.recv(1)
ours.send(b"x")
tool.wait()
print("survived")
"#;

#[test]
fn an_inherited_descriptor_does_not_kill_its_owner() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user);
        let words = |signal: &str, prefix: Vec<std::ffi::OsString>| {
            let mut words: Vec<std::ffi::OsString> =
                ["python3", "-c", INHERITED_OWNER, signal].map(Into::into).into();
            words.extend(prefix);
            words
        };
        let inside = sandbox.run_outside(words("9", sandbox.command_line()));
        assert_eq!(inside.stdout, "1\nsurvived\n", "{inside:#?}");
        let free = sandbox.run_outside(words("0", sandbox.command_line()));
        assert_eq!(free.stdout, "chosen\nsurvived\n", "{free:#?}");
        let outside = sandbox.run_outside(words("9", Vec::new()));
        assert_eq!(outside.signal, Some(9), "{outside:#?}");
    });
}

#[test]
fn priorities_of_the_whole_user_do_not_change() {
    for_each_user(|user| {
        let mut victim = Victim::of(user);
        Sandbox::of(user).probe("setpriority-user").refused("setpriority-user");
        assert!(victim.untouched());
    });
}

#[test]
fn own_processes_can_be_signalled_limited_and_scheduled() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user);
        let script = "ulimit -c 0 && nice -n 5 true && sleep 20 & p=$!; \
                      sleep 0.1; kill -TERM $p; wait $p; echo $?";
        let outcome = sandbox.sh(script);
        outcome.succeeds();
        assert_eq!(outcome.stdout, "143\n");
        sandbox.probe("sched 0 + prlimit 0 + setpriority 0").all_allowed();
    });
}

/// Changes the process that is named, or a child and one of that, or another thread.
const CHANGE: &str = r#"
import ctypes, os, resource, struct, subprocess, sys, threading, time
libc = ctypes.CDLL(None, use_errno=True)
child, everywhere = None, os.sched_getaffinity(0)
if sys.argv[1] == "child":
    child = subprocess.Popen(["sh", "-c", "sleep 100 & echo $!; wait"], stdout=subprocess.PIPE)
    pids = [child.pid, int(child.stdout.readline())]
elif sys.argv[1] == "thread":
    threading.Thread(target=threading.Event().wait, daemon=True).start()
    pids = [threading.enumerate()[1].native_id]
else:
    pids = [int(sys.argv[1])]
def tell(name, change):
    try: print(name, change())
    except OSError as error: print(name, error.errno)
def call(*arguments):
    if libc.syscall(*arguments) < 0: raise OSError(ctypes.get_errno(), "")
for pid in pids:
    tell("nice", lambda: os.setpriority(os.PRIO_PROCESS, pid, 19))
    tell("niced", lambda: os.getpriority(os.PRIO_PROCESS, pid))
    tell("limit", lambda: resource.prlimit(pid, resource.RLIMIT_CORE, (0, 0))[1] >= -1)
    tell("limited", lambda: resource.prlimit(pid, resource.RLIMIT_CORE))
    tell("affinity", lambda: os.sched_setaffinity(pid, {0}))
    tell("on", lambda: os.sched_getaffinity(pid))
    tell("batch", lambda: os.sched_setscheduler(pid, os.SCHED_BATCH, os.sched_param(0)))
    tell("param", lambda: os.sched_setparam(pid, os.sched_param(0)))
    tell("policy", lambda: os.sched_getscheduler(pid) == os.SCHED_BATCH)
    idle = ctypes.create_string_buffer(struct.pack("IIQiIQQQ", 48, os.SCHED_IDLE, 0, 0, 0, 0, 0, 0))
    tell("attr", lambda: call(314 if os.uname().machine == "x86_64" else 274, pid, idle, 0))
    tell("idle", lambda: os.sched_getscheduler(pid) == os.SCHED_IDLE)
    tell("io", lambda: call(251 if os.uname().machine == "x86_64" else 30, 1, pid, 2 << 13 | 7))
    wrong = ctypes.create_string_buffer(struct.pack("IIQiIQQQ", 48, 77, 0, 0, 0, 0, 0, 0))
    tell("wrong", lambda: call(314 if os.uname().machine == "x86_64" else 274, pid, wrong, 0))
tell("none", lambda: os.setpriority(os.PRIO_PROCESS, 4194303, 19))
# What runs when nobody else wants that processor takes long to end where others do.
if not sys.argv[1].isdigit():
    for pid in pids: os.sched_setaffinity(pid, everywhere)
if child:
    for pid in pids[::-1]: os.kill(pid, 9)
    child.stdout.read(); child.wait()
"#;

#[test]
fn own_children_can_be_limited_and_scheduled_and_no_others() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user).allow_domains(["example.com"]);
        for (whom, lines) in [("child", 27), ("thread", 14)] {
            let (inside, outside) = (
                sandbox.run(["python3", "-c", CHANGE, whom]),
                sandbox.run_outside(["python3", "-c", CHANGE, whom]),
            );
            inside.succeeds();
            assert_eq!(inside.stdout, outside.stdout, "{inside:#?}");
            assert_eq!(inside.stdout.lines().count(), lines);
        }

        let mut victim = Victim::of(user);
        let refused = sandbox.run(["python3", "-c", CHANGE, &victim.pid().to_string()]);
        for line in refused.stdout.lines() {
            let (name, result) = line.split_once(' ').unwrap();
            match name {
                "niced" | "limited" | "on" | "policy" | "idle" => {}
                "none" => assert_eq!(result, "3"),
                _ => assert_eq!(result, "1", "{name}: {refused:#?}"),
            }
        }
        assert!(victim.untouched());

        // The broker and what helps it: the guardian, and the proxy once there is a connection.
        let script = format!(
            "(exec 3<>/dev/tcp/127.0.0.1/${{HTTP_PROXY##*:}}; printf 'GET http://a.test/ HTTP/1.1\\r\\n\\r\\n' >&3; head -1 <&3 >&2)
             for p in $PPID $(cat /proc/$PPID/task/*/children); do
                 [ $p = $$ ] || python3 -c '{CHANGE}' $p | sed \"s/^/$(cat /proc/$p/comm) /\"
             done"
        );
        let helpers = sandbox.run(["bash", "-c", &script]);
        for line in helpers.stdout.lines() {
            let words: Vec<_> = line.split(' ').collect();
            if ["nice", "limit", "affinity", "batch", "param", "attr", "io"].contains(&words[1]) {
                assert_eq!(words[2], "1", "{helpers:#?}");
            }
        }
        for program in ["landstrip-broke", "landstrip-guard", "landstrip-proxy"] {
            assert!(helpers.stdout.contains(&format!("{program} nice 1")), "{helpers:#?}");
        }
    });
}

#[test]
fn own_children_can_be_traced_for_debugging() {
    let sandbox = Sandbox::new().allow_write(".");
    let probe = tests::programs().probe().into_os_string().into_string().unwrap();
    // Its own child: Yama may forbid any other.
    let script = "rm -f traced; sh -c 'echo $$ >traced; exec sleep 60' >/dev/null 2>&1 & \
         until [ -s traced ]; do sleep 0.01; done; exec \"$0\" ptrace $!";
    let inside = sandbox.run(["sh", "-c", script, &probe]);
    let outside = sandbox.run_outside(["sh", "-c", script, &probe]);
    // It stays stopped.
    sandbox.sh_outside("kill -9 $(cat traced)").succeeds();
    assert_eq!(inside.result("ptrace-attach"), outside.result("ptrace-attach"));
}

#[test]
fn the_broker_does_not_become_a_tracer() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user);
        // A tracee would stop at the signal, and nobody continues it.
        let outcome = sandbox.probe("traceme + crash 28 + sleep 100");
        outcome.succeeds().refused("traceme").allowed("crash");
        sandbox.probe("trace-child").allowed("trace-child");
        sandbox.probe_outside("trace-child").allowed("trace-child");
    });
}

#[test]
fn a_lease_does_not_hold_up_writers_outside() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user);
        let file = sandbox.file("outside/file", "kept");
        let (path, directory) = (sandbox.name("outside/file"), sandbox.name("outside"));
        let attack = format!("file lease {path} + file notify {directory}");
        let own = format!("file fcntl-own {path}");
        sandbox.probe(&own).all_allowed();
        sandbox.probe_outside(format!("{attack} + {own}")).all_allowed();
        sandbox.probe(&attack).all_refused();

        let words = Sandbox::probe_words(&format!("file lease {path} + sleep 2000"));
        let mut running = sandbox.spawn(words);
        running.expect("file-lease=");
        // EWOULDBLOCK if a lease is to be broken first (open(2)).
        let flags = nix::libc::O_NONBLOCK;
        let open = std::fs::OpenOptions::new().write(true).custom_flags(flags).open(&file);
        assert!(open.is_ok(), "{open:?}");
        running.signal(Signal::SIGTERM);
        running.wait().exits(143);
    });
}

/// The kernel asks for the owner alone, and keeps it with the inode.
#[test]
fn no_write_hint_is_given_to_a_file_that_was_opened_to_read() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user);
        sandbox.file("outside/file", "kept");
        let path = sandbox.name("outside/file");
        let told = format!("file hinted {path}");
        let before = sandbox.probe_outside(&told);
        sandbox
            .probe(format!("file hint {path} + {told}"))
            .refused("file-hint")
            .allowed("file-hinted");
        assert_eq!(sandbox.probe_outside(&told).stdout, before.stdout);
        sandbox.probe_outside(format!("file hint {path}")).all_allowed();
        assert_ne!(sandbox.probe_outside(&told).stdout, before.stdout);
    });
}

#[test]
fn the_broker_is_out_of_reach() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user).allow_write(".").http_proxy_port(9);
        // The command's parent is the broker.
        let probe = tests::programs().probe().into_os_string().into_string().unwrap();
        let attack = BOTHER.replace('@', "$PPID");
        let script = format!("\"$0\" {attack}; \"$0\" proc-open $PPID root; echo $PPID");
        let outcome = sandbox.run(["sh", "-c", &script, &probe]);
        let broker = outcome.stdout.lines().last().unwrap().parse::<u32>().unwrap();
        assert!(broker > 1);
        outcome.succeeds();
        let lines = outcome.results().filter(|(name, _)| *name != "proc-root");
        for (name, _) in lines {
            outcome.refused(name);
        }
    });
}

#[test]
fn the_broker_is_the_process_that_the_caller_started() {
    let sandbox = Sandbox::new();
    let mut running = sandbox.spawn(Sandbox::probe_words("ids + sleep 300"));
    running.expect("ppid=");
    let pid = running.pid();
    let outcome = running.wait();
    assert_eq!(outcome.result("ppid"), pid.to_string());
}

#[test]
fn a_killed_broker_takes_the_command_along() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user).allow_write(".");
        let attack = format!("daemon {} + sleep 20000", sandbox.name("work/beat"));
        let mut running = sandbox.spawn(Sandbox::probe_words(&attack));
        running.expect("daemon=OK");
        let command = child_of(running.pid()).expect("the command below the broker");
        running.signal(Signal::SIGKILL);
        let outcome = running.wait();
        assert_eq!(outcome.signal, Some(9));
        // Where nobody reaps orphans, a dead process stays in the list (proc_pid_stat(5)).
        let is_dead = || match std::fs::read_to_string(format!("/proc/{command}/stat")) {
            Ok(stat) => stat.contains(") Z "),
            Err(error) => matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ESRCH)),
        };
        assert!(eventually(is_dead));
        // Granted paths stay usable for survivors, but nothing that needs the broker is given.
    });
}

/// The first child of a process.
fn child_of(pid: u32) -> Option<u32> {
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
    children.split_whitespace().next()?.parse().ok()
}

#[test]
fn a_fork_bomb_ends_with_the_command() {
    let sandbox = Sandbox::unprivileged();
    let outcome = sandbox.probe("fork-bomb 300");
    outcome.succeeds();
    assert_eq!(outcome.result("forked"), "300");
}

#[test]
fn a_command_without_descriptors_gets_orderly_errors() {
    let sandbox = Sandbox::new();
    let script = "ulimit -n 64; exec \"$0\" fd-exhaust";
    let probe = tests::programs().probe().into_os_string().into_string().unwrap();
    let outcome = sandbox.run(["sh", "-c", script, &probe]);
    outcome.succeeds().allowed("after");
    assert_eq!(outcome.result("limit"), "EMFILE");
}

#[test]
fn many_threads_of_refused_calls_do_not_stall_the_broker() {
    let sandbox = Sandbox::new().timeout(std::time::Duration::from_secs(120));
    let script = "for i in 1 2 3 4 5 6 7 8; do \"$0\" race-connect port 1 2 3000 > /dev/null & \
                  done; wait; \"$0\" socketpair stream";
    let probe = tests::programs().probe().into_os_string().into_string().unwrap();
    sandbox.run(["sh", "-c", script, &probe]).allowed("socketpair");
}

#[test]
fn a_process_that_asks_to_hide_its_memory_is_judged_as_others() {
    let (good, bad) = (tests::TcpPeer::new(), tests::TcpPeer::new());
    for_each_user(|user| {
        let sandbox = Sandbox::of(user).http_proxy_port(good.port());
        let attack = |port| format!("undumpable + connect4 127.0.0.1 {port}");
        sandbox.probe(attack(bad.port())).allowed("undumpable").refused("connect4");
        sandbox.probe(attack(good.port())).allowed("undumpable").allowed("connect4");
    });
    bad.untouched();
    assert!(eventually(|| good.connections() > 0));
}

/// The memory of what executes a file that it may not read is closed to everybody but root.
#[test]
fn an_unreadable_target_is_refused_not_obeyed_and_reported() {
    let (good, bad) = (tests::TcpPeer::new(), tests::TcpPeer::new());
    for_each_user(|user| {
        let sandbox = Sandbox::of(user).allow_write(".").deny_write("kept");
        let sandbox = sandbox.http_proxy_port(good.port());
        let probe = sandbox.path("work/probe");
        tests::copy_program(tests::programs().probe(), &probe);
        std::fs::set_permissions(&probe, std::fs::Permissions::from_mode(0o111)).unwrap();
        sandbox.file("work/file", "");
        sandbox.file("work/kept", "");
        let attack = |port: u16, file| {
            let words = format!("./probe connect4 127.0.0.1 {port} + meta chmod {file}");
            words.split(' ').map(str::to_owned).collect::<Vec<_>>()
        };
        let outcome = sandbox.run(attack(bad.port(), "kept"));
        outcome.refused("connect4").refused("meta-chmod");
        let is_seen = user.is_root() && sees_what_is_hidden();
        let (address, path) = match is_seen {
            true => (bad.port().to_string(), sandbox.name("work/kept")),
            false => ("hides its memory".to_owned(), "hides its memory".to_owned()),
        };
        for (kind, what) in [("Network", address), ("Filesystem", path)] {
            let reports = outcome.reports_of(kind);
            let is_told = |report: &&serde_json::Value| report[1].as_str().unwrap().contains(&what);
            assert!(reports.iter().any(is_told), "{outcome:#?}");
        }
        bad.untouched();
        // What is permitted, too, where nobody can look.
        let outcome = sandbox.run(attack(good.port(), "file"));
        match is_seen {
            true => outcome.allowed("connect4").allowed("meta-chmod"),
            false => outcome.refused("connect4").refused("meta-chmod"),
        };
        sandbox.run_outside(attack(good.port(), "file")).allowed("connect4").allowed("meta-chmod");
    });
}

/// From then on the kernel closes its memory to all but the broker of root.
#[test]
fn a_process_that_changed_its_user_is_served_with_that_user_s_rights() {
    if !tests::is_root_for("a change of the user") {
        return;
    }
    if !sees_what_is_hidden() {
        return tests::skipped("there is no CAP_SYS_PTRACE here");
    }
    let (good, bad) = (tests::TcpPeer::new(), tests::TcpPeer::new());
    for deny in [false, true] {
        let sandbox = Sandbox::new().allow_write(".").http_proxy_port(good.port());
        let sandbox =
            if deny { sandbox.deny_read("**/secret").deny_write("**/kept") } else { sandbox };
        std::fs::set_permissions(sandbox.path(""), PermissionsExt::from_mode(0o755)).unwrap();
        std::fs::set_permissions(sandbox.path("work"), PermissionsExt::from_mode(0o755)).unwrap();
        sandbox.file("work/roots", "root's");
        let own = sandbox.file("work/own", "nobody's");
        std::os::unix::fs::chown(&own, Some(65534), Some(65534)).unwrap();
        let attack = |port| {
            format!(
                "setuid 65534 + connect4 127.0.0.1 {port} + file open-creat made + file write roots \
                 + meta chmod roots + file append own + meta chmod own"
            )
        };
        let inside = sandbox.probe(attack(good.port()));
        for outcome in [&inside, &sandbox.probe_outside(attack(good.port()))] {
            outcome.allowed("connect4").allowed("file-append");
            outcome.refused_with("file-open-creat", "EACCES").refused_with("file-write", "EACCES");
            let changes: Vec<_> =
                outcome.results().filter(|(name, _)| *name == "meta-chmod").collect();
            assert_eq!(changes, [("meta-chmod", "EPERM"), ("meta-chmod", "OK")], "{outcome:#?}");
        }
        assert_eq!(sandbox.read("work/roots"), "root's");
        let asked = "test -w roots || echo no; test -w own && echo yes; test -r roots && echo yes";
        let asked =
            ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "sh", "-c", asked];
        assert_eq!(sandbox.run(asked).stdout, "no\nyes\nyes\n");
        let outcome = sandbox.probe(attack(bad.port()));
        outcome.refused("connect4");
        assert!(
            outcome.reports_of("Network")[0][1]
                .as_str()
                .unwrap()
                .ends_with(&bad.port().to_string())
        );
    }
    bad.untouched();
    assert!(eventually(|| good.connections() > 0));
}

fn sees_what_is_hidden() -> bool {
    const CAP_SYS_PTRACE: u32 = 19;
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let set = status.lines().find_map(|line| line.strip_prefix("CapPrm:\t")).unwrap();
    u64::from_str_radix(set, 16).unwrap() >> CAP_SYS_PTRACE & 1 == 1
}

/// The right to look at what others hide is the broker's, and of none of its children; but where Landlock does not
/// scope signals, the guardian looks at who is to be ended.
#[test]
fn the_right_to_trace_is_not_the_command_s() {
    let sandbox = Sandbox::new();
    let script = "grep -h Cap /proc/self/status /proc/$PPID/status; pgrep -P $PPID -x landstrip-guard \
                  | while read pid; do grep Cap /proc/$pid/status; done";
    let outcome = sandbox.sh(script);
    let has = |line: &str| {
        let set = u64::from_str_radix(line.split('\t').nth(1).unwrap(), 16).unwrap();
        set >> 19 & 1 == 1
    };
    let of = |set: &str| -> Vec<bool> {
        outcome.succeeds().stdout.lines().filter(|line| line.starts_with(set)).map(has).collect()
    };
    let expected = User::Caller.is_root() && sees_what_is_hidden();
    assert_eq!(of("CapPrm")[..2], [false, expected], "{outcome:#?}");
    let check = sandbox.options(["--check"]).run(["true"]);
    let guardian_looks = expected && check.stdout.contains("Landlock lacks scopes");
    for rest in [&of("CapPrm")[2..], &of("CapEff")[2..]] {
        assert!(rest.iter().all(|&has| has == guardian_looks), "{outcome:#?}");
    }
    assert!(!of("CapEff")[..2].contains(&true), "{outcome:#?}");
}

/// Of the capabilities of its caller the command has those of files, users and signals, low ports and locked memory.
#[test]
fn the_command_has_no_capability_but_those_that_are_kept() {
    // CAP_CHOWN to CAP_SETUID but CAP_FSETID, CAP_NET_BIND_SERVICE, CAP_IPC_LOCK, CAP_SETFCAP (capabilities(7)).
    const KEPT: u64 = 0xef | 1 << 10 | 1 << 14 | 1 << 31;
    for_each_user(|user| {
        let sandbox = Sandbox::of(user);
        let command = ["grep", "Cap", "/proc/self/status"];
        let sets = |outcome: &Outcome| -> Vec<(String, u64)> {
            let lines =
                outcome.succeeds().stdout.lines().filter(|line| !line.starts_with("CapBnd"));
            let lines = lines.map(|line| line.split_once(":\t").unwrap());
            let parse =
                |(name, set): (&str, &str)| (name.into(), u64::from_str_radix(set, 16).unwrap());
            lines.map(parse).collect()
        };
        let outside = sets(&sandbox.run_outside(command));
        let expected: Vec<_> = outside.into_iter().map(|(name, set)| (name, set & KEPT)).collect();
        assert_eq!(sets(&sandbox.run(command)), expected);
    });
}

/// Outside, who has the same user as a process may signal it: not the broker while it acts for one.
#[test]
fn nobody_signals_the_broker_while_it_acts_for_another_user() {
    if !tests::is_root_for("a change of the user") {
        return;
    }
    let limit = std::time::Duration::from_secs(120);
    let sandbox = Sandbox::new().allow_write(".").deny_write("**/kept").timeout(limit);
    std::fs::set_permissions(sandbox.path(""), PermissionsExt::from_mode(0o755)).unwrap();
    std::fs::set_permissions(sandbox.path("work"), PermissionsExt::from_mode(0o777)).unwrap();
    let made = "echo up; for i in $(seq 1500); do : > a$((i % 10)); done; echo done";
    let mut running = sandbox.spawn([
        "setpriv",
        "--reuid=65534",
        "--regid=65534",
        "--clear-groups",
        "sh",
        "-c",
        made,
    ]);
    running.expect("up");
    let attacker = format!(
        "import ctypes, os
libc = ctypes.CDLL(None); hit = seen = 0
while os.path.exists('/proc/{0}'):
    try: threads = os.listdir('/proc/{0}/task')
    except OSError: break
    for thread in threads:
        try: status = open(f'/proc/{0}/task/{{thread}}/status').read()
        except OSError: continue
        seen += '\\t65534\\t' in status
        hit += libc.tgkill({0}, int(thread), 9) == 0
print('hit', hit, 'seen', seen > 0)",
        running.pid()
    );
    let attacking = Sandbox::of(User::Nobody).timeout(limit);
    let attack = attacking.spawn_outside(["python3", "-c", &attacker]);
    let outcome = running.wait();
    assert!(outcome.succeeds().stdout.ends_with("done\n"), "{outcome:#?}");
    assert_eq!(attack.wait().stdout, "hit 0 seen True\n");
}

#[test]
fn nothing_is_typed_into_the_terminal() {
    let sandbox = Sandbox::new();
    let probe = tests::programs().probe();
    let mut terminal = Terminal::of(&sandbox);
    let attacks = ["tiocsti", "tiocsti --upper", "tioclinux", "tioclinux --upper"];
    for attack in attacks {
        terminal.type_in(&format!("$L -- {} {attack}\n", probe.display()));
        terminal.expect(&format!("{}=E", attack.split(' ').next().unwrap()));
        terminal.expect("$ ");
    }
    terminal.type_in("echo alive\n");
    terminal.expect("\nalive");
    assert!(!terminal.all().contains('#'), "a character was pushed: {}", terminal.all());
}

#[test]
fn namespaces_and_mounts_are_refused() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user);
        let mut attacks: Vec<String> = Vec::new();
        // time, mount, cgroup, uts, ipc, user, pid and network namespaces.
        for flag in [
            "0x80",
            "0x20000",
            "0x2000000",
            "0x4000000",
            "0x8000000",
            "0x10000000",
            "0x20000000",
            "0x40000000",
            "0x30000000",
        ] {
            attacks.push(format!("unshare {flag}"));
            if flag != "0x80" {
                attacks.push(format!("clone-ns {flag}"));
            }
        }
        let rest = "clone3-user + setns + chroot + pivot-root + mount + umount + fsopen \
                    + open-tree + move-mount + mount-setattr";
        attacks.push(rest.to_owned());
        sandbox.probe(attacks.join(" + ")).all_refused();
        if user.is_root() {
            sandbox.probe_outside("unshare 0x4000000 + chroot + clone3-user").all_allowed();
        }
    });
}

#[test]
fn threads_and_children_work_without_clone3() {
    let sandbox = Sandbox::new().allow_write(".");
    sandbox
        .run([
            "python3",
            "-c",
            "import threading,subprocess as s; \
        t=threading.Thread(target=lambda: s.check_call(['true'])); t.start(); t.join()",
        ])
        .succeeds();
}

#[test]
fn no_listener_of_its_own_is_installed() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user);
        sandbox.probe("seccomp-listener").refused("seccomp-listener");
        sandbox.probe("seccomp-filter").allowed("seccomp-filter");
        sandbox.probe_outside("seccomp-listener").allowed("seccomp-listener");
    });
}

#[test]
fn kernel_interfaces_beyond_a_command_are_refused() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user);
        let attack = "io-uring + io-uring-enter + bpf + perf + userfaultfd + mq-open + kexec + init-module + swapon + acct + quotactl";
        sandbox.probe(attack).all_refused();
        sandbox.probe_outside("mq-open").all_allowed();
    });
}

#[test]
fn keyrings_are_refused() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user);
        sandbox.probe("keyctl + add-key").all_refused();
        sandbox.probe_outside("keyctl").all_allowed();
    });
}

/// Of AArch64 only 32-bit programs enter otherwise, which not every machine can run.
#[cfg(target_arch = "x86_64")]
#[test]
fn other_entries_kill_the_process() {
    let sandbox = Sandbox::new();
    let sigsys = 128 + 31;
    for attack in ["int80", "x32"] {
        sandbox.probe(attack).exits(sigsys);
    }
    assert_ne!(sandbox.probe_outside("int80").result("int80"), "0");
}

#[test]
fn unknown_system_calls_do_not_exist() {
    let sandbox = Sandbox::new();
    for number in ["1000", "600", "5000", "0x3fffffff"] {
        let outcome = sandbox.probe(format!("syscall {number}"));
        assert_eq!(outcome.result(&format!("syscall-{number}")), "ENOSYS");
    }
}

#[test]
fn no_system_call_with_senseless_arguments_ends_the_broker() {
    let sandbox = Sandbox::new().timeout(Duration::from_secs(120));
    // Not those that end, stop or never return to the caller: pause, exit, fork and their like.
    let left_out = [15, 34, 56, 57, 58, 60, 61, 128, 130, 231, 219, 247, 435];
    let attack: Vec<String> =
        (0..480).filter(|n| !left_out.contains(n)).map(|n| format!("syscall {n}")).collect();
    let outcome = sandbox.probe(format!("{} + socketpair stream", attack.join(" + ")));
    outcome.succeeds().allowed("socketpair");
}

#[test]
fn only_the_standard_descriptors_are_inherited() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user);
        let secret = sandbox.file("outside/secret", "Secret");
        let mut words = vec!["bash".into(), "-c".into()];
        words.push("exec 5<\"$0\" 9>&1 200<\"$0\"; exec \"$@\"".into());
        words.push(secret.into_os_string());
        let twin: Vec<_> = words.iter().cloned().chain(Sandbox::probe_words("fds")).collect();
        let outside = sandbox.run_outside(twin);
        assert!(outside.results().any(|(name, _)| name == "fd200"));
        words.extend(sandbox.command_line());
        words.extend(Sandbox::probe_words("fds"));
        let inside = sandbox.run_outside(words);
        let names: Vec<&str> = inside.results().map(|(name, _)| name).collect();
        assert_eq!(names, ["fd0", "fd1", "fd2"], "{inside:#?}");
    });
}

#[test]
fn the_trap_descriptor_is_not_inherited() {
    let sandbox = Sandbox::new().trap();
    let outcome = sandbox.probe("fds");
    let names: Vec<&str> = outcome.results().map(|(name, _)| name).collect();
    assert_eq!(names, ["fd0", "fd1", "fd2"]);
}

#[test]
fn privileges_are_not_regained_through_setuid_programs() {
    let sandbox = Sandbox::unprivileged();
    let outcome = sandbox.run(["sh", "-c", "grep NoNewPrivs /proc/self/status"]);
    assert_eq!(outcome.stdout.trim(), "NoNewPrivs:\t1");
}

/// Has a child with a filter of its own, and is its words then, as a shell that gives way to them; the last word becomes
/// the child's number. Says what became of the child.
const GIVE_WAY: &str = "
import ctypes, os, resource, signal, struct, sys
libc = ctypes.CDLL(None); number = ctypes.c_ulong; read, write = os.pipe()
command = os.fork()
if command == 0:
    ready, told = os.pipe(); child = os.fork()
    if child == 0:
        allow = ctypes.create_string_buffer(struct.pack('HBBI', 6, 0, 0, 0x7fff0000))
        program = ctypes.create_string_buffer(struct.pack('HxxxxxxQ', 1, ctypes.addressof(allow)))
        libc.prctl(38, *map(number, (1, 0, 0, 0))); assert libc.prctl(22, number(2), program, number(0), number(0)) == 0
        os.write(told, b'x'); signal.pause()
    os.read(ready, 1); os.write(write, str(child).encode())
    os.execvp(sys.argv[1], [*sys.argv[1:], str(child)])
os.waitpid(command, 0); child = int(os.read(read, 9))
print('files', resource.prlimit(child, resource.RLIMIT_NOFILE)[0]); os.kill(child, 9)";

const LIMIT: &str = "
import os, resource, signal, sys
own = os.fork()
if own == 0: signal.pause()
def change(process):
    try: resource.prlimit(process, resource.RLIMIT_NOFILE, (64, 64)); return 'done'
    except PermissionError: return 'refused'
print(change(own), change(int(sys.argv[1])), flush=True); os.kill(own, 9)";

#[test]
fn a_child_that_the_caller_has_had_before_is_out_of_reach() {
    for_each_user(|user| {
        // Without a proxy, which would be told from the command by its program.
        let sandbox = Sandbox::of(user).allow_network();
        let ended = |line: Vec<std::ffi::OsString>| {
            let before = ["python3", "-c", GIVE_WAY].map(Into::into).into_iter();
            let change = ["python3", "-c", LIMIT].map(Into::into);
            sandbox.run_outside(before.chain(line).chain(change))
        };
        let line = [sandbox.command_line(), vec!["--".into()]].concat();
        let (inside, outside) = (ended(line), ended(Vec::new()).stdout);
        let said = if crate::reports::has_scopes() {
            "done refused\nfiles "
        } else {
            // It could not be told from the command's, and nothing runs.
            assert!(inside.stderr.contains("start it without exec"), "{inside:#?}");
            "files "
        };
        let inside = inside.stdout;
        assert!(inside.starts_with(said) && !inside.ends_with(" 64\n"), "{inside}");
        assert_eq!(outside, "done done\nfiles 64\n");
    });
}

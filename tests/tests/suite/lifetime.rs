//! From start to end: exit status, signals, the terminal, and what is left afterwards (nothing).

use nix::sys::signal::Signal;
use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;
use tests::{
    Sandbox, Snapshot, Terminal, User, at_once, copy_program, eventually, for_each_user,
    is_root_for, programs, skipped,
};

#[test]
fn the_exit_status_is_the_commands_own() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user);
        for status in [0, 1, 2, 42, 125, 126, 127, 255] {
            let outcome = sandbox.sh(&format!("exit {status}"));
            outcome.exits(status);
            assert!(outcome.reports.is_empty(), "{outcome:#?}");
        }
    });
}

#[test]
fn a_signal_that_ends_the_command_gives_128_plus_its_number() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user);
        for signal in [1, 2, 3, 6, 9, 11, 13, 15, 34] {
            sandbox.sh(&format!("kill -{signal} $$")).exits(128 + signal);
        }
    });
}

#[test]
fn a_missing_command_gives_127_and_a_line() {
    let sandbox = Sandbox::new();
    sandbox.run(["/nonexistent/tool"]).is_error(127, "Launch", "/nonexistent/tool");
    sandbox.run(["no-such-tool-in-path"]).is_error(127, "Launch", "no-such-tool-in-path");
}

#[test]
fn a_command_that_cannot_be_executed_gives_126_and_a_line() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user).deny_read("../outside/tool");
        sandbox.file("work/plain", "no program");
        sandbox.run(["./plain"]).is_error(126, "Launch", "plain");
        sandbox.run(["/"]).is_error(126, "Launch", "/");
        copy_program("/bin/true", &sandbox.path("outside/tool"));
        sandbox.run([sandbox.name("outside/tool")]).is_error(126, "Launch", "tool");
        sandbox.run_outside([sandbox.name("outside/tool")]).succeeds();
    });
}

/// Of a shell that gives way to landstrip, or has made one for a part of a pipeline.
#[test]
fn children_that_the_caller_has_had_before_are_neither_ended_nor_waited_for_nor_counted() {
    let lives = |pid: &str| {
        let pid = nix::unistd::Pid::from_raw(pid.parse().unwrap());
        nix::sys::signal::kill(pid, None).is_ok()
    };
    for_each_user(|user| {
        let counted = crate::limits::limited(user, r#""processes": 4"#);
        for sandbox in [Sandbox::of(user), counted] {
            let before =
                "for i in 1 2 3 4 5 6; do sleep 1000 >/dev/null 2>&1 & echo $!; done; exec \"$@\"";
            let inside = "sleep 1000 >/dev/null 2>&1 & echo $!";
            let words = ["sh", "-c", before, "sh"].map(OsString::from).into_iter();
            let words = words.chain(sandbox.command_line());
            let outcome =
                sandbox.run_outside(words.chain(["--", "sh", "-c", inside].map(Into::into)));
            let pids: Vec<_> = outcome.stdout.lines().collect();
            let [outside @ .., started] = &pids[..] else { panic!("{outcome:#?}") };
            let all_live = outside.iter().all(|pid| lives(pid));
            for pid in outside {
                let pid = nix::unistd::Pid::from_raw(pid.parse().unwrap());
                nix::sys::signal::kill(pid, Signal::SIGKILL).unwrap();
            }
            if !crate::reports::has_scopes() {
                // They cannot be told apart.
                outcome.is_error(125, "Internal", "start it without exec");
                let last = nix::unistd::Pid::from_raw(started.parse().unwrap());
                nix::sys::signal::kill(last, Signal::SIGKILL).unwrap();
                assert!(all_live && outside.len() == 5, "{outcome:#?}");
                continue;
            }
            outcome.succeeds();
            assert!(all_live && outside.len() == 6 && !lives(started), "{outcome:#?}");
        }
    });
}

/// It would lie in the command's working directory.
#[test]
fn nothing_of_the_broker_gets_into_a_core_dump() {
    let sandbox = Sandbox::new().allow_write(".");
    let shell = |script: &str| ["sh", "-c", script].map(OsString::from);
    let mut words = shell("ulimit -c $(ulimit -Hc); exec \"$0\" \"$@\"").to_vec();
    words.extend(sandbox.command_line());
    words.extend(shell(
        "ulimit -c; sed -n 's/^Max core file size *\\([0-9a-z]*\\) .*/\\1/p' /proc/$PPID/limits",
    ));
    let outcome = sandbox.run_outside(words);
    let most = sandbox.run_outside(shell("ulimit -Hc")).stdout;
    assert_eq!(outcome.stdout, format!("{most}0\n"), "{outcome:#?}");
}

#[test]
fn an_interpreter_that_is_missing_is_told_as_execve_tells_it() {
    let sandbox = Sandbox::new();
    sandbox.program("work/script", "#!/nonexistent/interpreter\n");
    let outcome = sandbox.run(["./script"]);
    outcome.is_error(127, "Launch", "script");
}

#[test]
fn the_command_is_found_in_path_and_gets_its_arguments() {
    let sandbox = Sandbox::new().env("KEPT", "value");
    let outcome = sandbox.run(["sh", "-c", "echo \"$0|$1|$2|$KEPT|$PWD\"", "a b", "--", "-p"]);
    outcome.succeeds();
    assert_eq!(outcome.stdout, format!("a b|--|-p|value|{}\n", sandbox.name("work")));
}

#[test]
fn standard_streams_are_the_callers() {
    let sandbox = Sandbox::new().input("one\ntwo\n");
    let outcome = sandbox.sh("cat; echo err >&2");
    outcome.succeeds();
    assert_eq!((outcome.stdout.as_str(), outcome.stderr.as_str()), ("one\ntwo\n", "err\n"));
}

#[test]
fn closed_standard_streams_harm_nobody() {
    let sandbox = Sandbox::new().allow_write(".");
    for closed in ["0<&-", "1>&-", "2>&-", "0<&- 1>&- 2>&-"] {
        let mut words = vec!["sh".into(), "-c".into(), format!("exec \"$@\" {closed}").into()];
        words.push("sh".into());
        words.extend(sandbox.command_line());
        words.extend(["--", "sh", "-c", "true > made; exit 7"].map(Into::into));
        sandbox.run_outside(words).exits(7);
        assert_eq!(sandbox.read("work/made"), "", "{closed}");
    }
}

#[test]
fn signals_are_forwarded_to_the_command() {
    for_each_user(|user| {
        // Of real-time signals the first, which musl has for itself.
        for name in ["TERM", "INT", "HUP", "QUIT", "USR1", "USR2", "WINCH", "34", "64"] {
            let sandbox = Sandbox::of(user);
            let script = format!(
                "trap 'echo got; exit 9' {name}; echo ready; \
                                  while :; do sleep 0.02; done"
            );
            let mut running = sandbox.spawn(["sh", "-c", &script]);
            running.expect("ready");
            running.signal_named(name);
            let outcome = running.wait();
            outcome.exits(9);
            assert_eq!(outcome.stdout, "ready\ngot\n", "{name}");
        }
    });
}

#[test]
fn a_forwarded_signal_ends_a_command_that_does_not_handle_it() {
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGUSR1] {
        let sandbox = Sandbox::new();
        let mut running = sandbox.spawn(["sh", "-c", "echo ready; exec sleep 100"]);
        running.expect("ready");
        std::thread::sleep(Duration::from_millis(50));
        running.signal(signal);
        running.wait().exits(128 + signal as i32);
    }
}

/// However far landstrip has come: nothing is said of it, and nothing else is its status.
#[test]
fn a_signal_that_comes_while_it_starts_ends_it_as_any_program() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user);
        for number in 0..60 {
            let running = sandbox.spawn(["sleep", "100"]);
            std::thread::sleep(Duration::from_micros(100) * number);
            running.signal(Signal::SIGTERM);
            let outcome = running.wait();
            let by_signal = outcome.signal == Some(15) || outcome.status == Some(143);
            assert!(by_signal && outcome.stderr.is_empty(), "{outcome:#?}");
        }
        // It waits for the rest of its policy.
        let policy = sandbox.path("policy.fifo");
        sandbox.sh_outside("mkfifo ../policy.fifo").succeeds();
        let sandbox = sandbox.options(["-p", policy.to_str().unwrap()]);
        let running = sandbox.spawn(["true"]);
        let mut writer = fs::File::options().write(true).open(&policy).unwrap();
        writer.write_all(b"{").unwrap();
        running.signal(Signal::SIGTERM);
        assert_eq!(running.wait().signal, Some(15));
        drop(writer);
        let running = sandbox.spawn(["sh", "-c", "exit 7"]);
        writer = fs::File::options().write(true).open(&policy).unwrap();
        writer.write_all(b"{}").unwrap();
        drop(writer);
        running.wait().exits(7);
    });
}

#[test]
fn stop_and_continue_reach_the_command() {
    let sandbox = Sandbox::new().allow_write(".");
    // Not a shell: one that waits in vfork(2) for a child that is stopped first does not stop, inside as outside.
    let script = "import time; print('ready', flush=True)\n\
        while True: print('x', file=open('beat', 'a')); time.sleep(0.02)";
    let mut running = sandbox.spawn(["python3", "-c", script]);
    running.expect("ready");
    let beats = || sandbox.read("work/beat").len();
    assert!(eventually(|| beats() > 4));
    running.signal(Signal::SIGTSTP);
    let state = format!("/proc/{}/stat", running.pid());
    let stopped = || fs::read_to_string(&state).is_ok_and(|stat| stat.contains(") T "));
    assert!(eventually(stopped), "landstrip stops with the command");
    std::thread::sleep(Duration::from_millis(100));
    let before = beats();
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(before, beats(), "the command runs on");
    running.signal(Signal::SIGCONT);
    assert!(eventually(|| beats() > before + 4), "the command does not continue");
    running.signal(Signal::SIGTERM);
    running.wait().exits(143);
}

#[test]
fn a_child_that_stops_and_continues_the_command_does_not_stop_landstrip() {
    for_each_user(|user| {
        // Without a terminal the command leads a session, where the kernel lets no other signal stop it.
        at_once(["STOP"], |signal| {
            let sandbox = Sandbox::of(user);
            let script = format!(
                "echo ready; \
                 (sleep 0.2; kill -{signal} $$; \
                  until grep 'T (stopped)' /proc/$$/status; do sleep 0.02; done; \
                  sleep 0.5; kill -CONT $$) & \
                 wait; echo finished; exit 5"
            );
            let mut running = sandbox.spawn(["sh", "-c", &script]);
            running.expect("T (stopped)");
            let state = fs::read_to_string(format!("/proc/{}/stat", running.pid())).unwrap();
            assert!(!state.contains(") T "), "stopped alone: {state}");
            let outcome = running.wait();
            outcome.exits(5);
            assert!(outcome.stdout.ends_with("finished\n"), "{outcome:#?}");
        });
    });
}

#[test]
fn a_stop_is_mirrored_whichever_comes_first() {
    let sandbox = Sandbox::new();
    // It is stopped already when landstrip is told to stop.
    let script = "echo ready; (sleep 0.1; kill -STOP $$) & wait; wait; exit 5";
    let mut running = sandbox.spawn(["sh", "-c", script]);
    running.expect("ready");
    let state = format!("/proc/{}/stat", running.pid());
    let stopped = || fs::read_to_string(&state).is_ok_and(|stat| stat.contains(") T "));
    std::thread::sleep(Duration::from_millis(400));
    assert!(!stopped(), "stopped without being told");
    running.signal(Signal::SIGTSTP);
    assert!(eventually(stopped), "landstrip stops with the command");
    running.signal(Signal::SIGCONT);
    running.wait().exits(5);
}

#[test]
fn ctrl_c_interrupts_the_command() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user);
        let mut terminal = Terminal::of(&sandbox);
        terminal.type_in("$L -- sh -c 'echo rea\"\"dy; sleep 100'\n");
        terminal.expect("\nready");
        std::thread::sleep(Duration::from_millis(100));
        terminal.type_in("\x03");
        terminal.expect("$ ");
        terminal.type_in("echo status=$?\n");
        terminal.expect("\nstatus=130");
    });
}

#[test]
fn ctrl_c_is_delivered_once() {
    let sandbox = Sandbox::new();
    let mut terminal = Terminal::of(&sandbox);
    let program = "import signal,time,sys\nn=[0]\n\
                   signal.signal(2,lambda *a: n.__setitem__(0,n[0]+1))\nprint('rea'+'dy',flush=True)\n\
                   end=time.time()+1\nwhile time.time()<end: time.sleep(0.05)\nprint('count='+str(n[0]))\n";
    sandbox.file("work/count.py", program);
    terminal.type_in("$L -- python3 count.py\n");
    terminal.expect("\nready");
    terminal.type_in("\x03");
    terminal.expect("count=1");
}

#[test]
fn ctrl_z_stops_the_job_and_fg_continues_it() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user);
        let mut terminal = Terminal::of(&sandbox);
        terminal.type_in("$L -- sh -c 'echo rea\"\"dy; sleep 1; echo fin\"\"ished; exit 5'\n");
        terminal.expect("\nready");
        std::thread::sleep(Duration::from_millis(100));
        terminal.type_in("\x1a");
        terminal.expect("Stopped");
        terminal.expect("$ ");
        terminal.type_in("echo al\"\"ive\n");
        terminal.expect("\nalive");
        terminal.type_in("fg\n");
        terminal.expect("\nfinished");
        terminal.expect("$ ");
        terminal.type_in("echo status=$?\n");
        terminal.expect("\nstatus=5");
    });
}

#[test]
fn a_command_that_stops_its_own_group_gives_the_terminal_back() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user);
        let mut terminal = Terminal::of(&sandbox);
        // As an editor does that reads Ctrl-Z as a key.
        terminal.type_in("$L -- sh -c 'kill -TSTP 0; echo fin\"\"ished; exit 5'\n");
        terminal.expect("Stopped");
        terminal.expect("$ ");
        terminal.type_in("fg\n");
        terminal.expect("\nfinished");
        terminal.expect("$ ");
        terminal.type_in("echo status=$?\n");
        terminal.expect("\nstatus=5");
    });
}

#[test]
fn the_terminal_is_the_commands() {
    let sandbox = Sandbox::new();
    let mut terminal = Terminal::of(&sandbox);
    terminal.type_in("$L -- sh -c 'test -t 0 && read x < /dev/tty && echo got=$x && stty size'\n");
    std::thread::sleep(Duration::from_millis(300));
    terminal.type_in("typed\n");
    terminal.expect("\ngot=typed");
    terminal.expect("$ ");
}

/// As in a container that a session outside was entered from.
#[test]
fn a_session_of_another_pid_namespace_has_its_terminal() {
    if !is_root_for("a PID namespace") {
        return;
    }
    let sandbox = Sandbox::new().allow_write(".").deny_read("secret");
    sandbox.file("work/secret", "TOPSECRET");
    let mut terminal = Terminal::of(&sandbox);
    terminal.type_in(
        "unshare --pid --fork --mount-proc $L -- sh -c 'cat secret; setsid cat /dev/tty; read x < /dev/tty; \
         echo got=$x'\n",
    );
    terminal.expect("secret: Permission denied");
    terminal.expect("tty: No such device or address");
    terminal.type_in("typed\n");
    terminal.expect("\ngot=typed");
    terminal.expect("$ ");
    // What asks for the session: see `leads_session` in signals.rs of the broker.
    sandbox.file(
        "work/forward.sh",
        "$L -- sh -c 'trap \"exit 9\" HUP; echo > ready; while :; do sleep 0.02; done' &\n\
         until [ -e ready ]; do sleep 0.02; done\n\
         kill -HUP $!; wait $!; echo status=$?\n",
    );
    terminal.type_in("unshare --pid --fork --mount-proc sh forward.sh\n");
    terminal.expect("\nstatus=9");
}

/// The process that is to become the command is the first of a namespace that the broker is not in.
#[test]
fn children_in_another_pid_namespace_end_the_launch() {
    if !is_root_for("a PID namespace") {
        return;
    }
    let sandbox = Sandbox::new();
    let program = programs().landstrip().into_os_string().into_string().unwrap();
    let policy = sandbox.file("work/policy.json", "{}");
    let words = [program.as_str(), "-p", policy.to_str().unwrap(), "--", "echo", "ran"];
    let run_by = |by: &[&str]| sandbox.run_outside(by.iter().copied().chain(words));
    let outcome = run_by(&["unshare", "--pid"]);
    outcome.exits(125);
    assert!(outcome.stderr.contains("unshare --fork") && outcome.stdout.is_empty(), "{outcome:#?}");
    let outcome = run_by(&["unshare", "--pid", "--fork", "--mount-proc"]);
    assert_eq!(outcome.succeeds().stdout, "ran\n");
}

#[test]
fn daemons_end_with_the_command() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user).allow_write(".");
        let attack = format!("daemon {}", sandbox.name("work/beat"));
        sandbox.probe(&attack).all_allowed();
        let size = sandbox.read("work/beat").len();
        std::thread::sleep(Duration::from_millis(300));
        assert_eq!(sandbox.read("work/beat").len(), size, "the daemon outlived the command");
    });
}

#[test]
fn background_jobs_do_not_delay_the_end() {
    // Who waits for it is not waited for so long.
    Sandbox::new().sh("(trap '' TERM HUP INT; sleep 1000) & exit 3").exits(3);
}

#[test]
fn a_signalled_sandbox_leaves_no_daemon() {
    let sandbox = Sandbox::new().allow_write(".");
    let attack = format!("daemon {} + sleep 200000", sandbox.name("work/beat"));
    let mut running = sandbox.spawn(Sandbox::probe_words(&attack));
    running.expect("daemon=OK");
    running.signal(Signal::SIGTERM);
    running.wait().exits(143);
    let size = sandbox.read("work/beat").len();
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(sandbox.read("work/beat").len(), size, "the daemon outlived the command");
}

/// Leaves a daemon, an orphan and a command that has given up its death signal, each of which writes to a
/// file of its own, and says so.
const SURVIVORS: &str = "
beat() { while :; do echo x >> $1; sleep 0.02; done; }
export -f beat
setsid bash -c 'beat daemon' & (bash -c 'beat orphan' &)
exec python3 -c '
import ctypes, time
ctypes.CDLL(None).prctl(1, 0)
print(\"ready\", flush=True)
while True: open(\"command\", \"a\").write(\"x\"); time.sleep(0.02)'
";

fn is_growing(sandbox: &Sandbox, name: &str) -> bool {
    let size = || fs::metadata(sandbox.path("work").join(name)).map_or(0, |stat| stat.len());
    let before = size();
    std::thread::sleep(Duration::from_millis(200));
    size() > before
}

#[test]
fn a_killed_landstrip_leaves_nothing_running() {
    for_each_user(|user| {
        at_once([false, true], |kills_group| {
            let sandbox = Sandbox::of(user).allow_write(".");
            // A process group of its own, as harnesses make one to kill.
            let mut words: Vec<_> = ["setsid", "--wait"].map(Into::into).into();
            words.extend(sandbox.command_line());
            words.extend(["--", "bash", "-c", SURVIVORS].map(Into::into));
            let mut running =
                sandbox.spawn_outside(if kills_group { words } else { words.split_off(2) });
            running.expect("ready");
            for name in ["daemon", "orphan", "command"] {
                assert!(
                    eventually(|| is_growing(&sandbox, name)),
                    "{name} runs while landstrip does"
                );
            }
            let pid = running.pid().cast_signed();
            if kills_group {
                let children =
                    fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
                let leader: i32 = children.trim().parse().unwrap();
                let group = nix::unistd::Pid::from_raw(-leader);
                nix::sys::signal::kill(group, Signal::SIGKILL).unwrap();
            } else {
                running.signal(Signal::SIGKILL);
            }
            running.wait();
            for name in ["daemon", "orphan", "command"] {
                assert!(eventually(|| !is_growing(&sandbox, name)), "{name} outlived landstrip");
            }
        });
    });
}

#[test]
fn a_broker_that_can_serve_no_more_ends_everything_in_order() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user).allow_write(".");
        let tmp = sandbox.dir("tmp");
        let sandbox = sandbox.env("TMPDIR", tmp);
        let script = "setsid sh -c 'while :; do echo x >> daemon; sleep 0.02; done' & \
                  until test -s daemon; do sleep 0.02; done; touch $TMPDIR/file; echo ready; \
                  while :; do chmod 600 daemon; sleep 0.02; done";
        let mut running = sandbox.spawn(["sh", "-c", script]);
        running.expect("ready");
        assert!(eventually(|| is_growing(&sandbox, "daemon")) && left_in_tmp(&sandbox).len() == 1);
        // The kernel fails to hand notifications over.
        let words = ["-fqqo", "/dev/null", "-e", "inject=ioctl:error=EFAULT", "-p"];
        let mut strace = std::process::Command::new("strace");
        let Ok(mut strace) = strace.args(words).arg(running.pid().to_string()).spawn() else {
            return tests::skipped("strace makes the broker fail");
        };
        running.wait().is_error(125, "Internal", "notification");
        strace.wait().unwrap();
        assert!(!is_growing(&sandbox, "daemon"), "it outlived the broker");
        assert_eq!(left_in_tmp(&sandbox), [""; 0]);
    });
}

/// Runs the rest of its arguments on a terminal of their own, closes that once they are ready, and says
/// how they ended.
const HANG_UP: &str = "
import os, pty, sys, time
child, terminal = pty.fork()
if child == 0: os.execvp(sys.argv[1], sys.argv[1:])
seen = b''
while b'ready' not in seen: seen += os.read(terminal, 100)
os.close(terminal)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
";

#[test]
fn a_terminal_that_is_closed_ends_the_command() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user).allow_write(".");
        let waits = "setsid bash -c 'for i in {1..4000}; do [ -e stop ] && exit; echo x >> daemon; sleep 0.02; done' & \
                     until test -s daemon; do sleep 0.02; done; echo rea\"\"dy; sleep 100";
        let ignores = "trap '' HUP; echo rea\"\"dy; sleep 0.5; echo went on > proof; exit 3";
        let run = |inside: bool, script: &str| {
            let mut words: Vec<std::ffi::OsString> =
                ["python3", "-c", HANG_UP].map(Into::into).into();
            if inside {
                words.extend(sandbox.command_line());
                words.push("--".into());
            }
            words.extend(["bash", "-c", script].map(Into::into));
            sandbox.run_outside(words).stdout
        };
        assert_eq!(run(true, waits), "129\n");
        assert!(!is_growing(&sandbox, "daemon"), "it outlived the terminal");
        fs::remove_file(sandbox.path("work/daemon")).unwrap();
        assert_eq!(run(false, waits), "-1\n");
        assert!(eventually(|| is_growing(&sandbox, "daemon")), "outside it does");
        sandbox.file("work/stop", "");
        for inside in [false, true] {
            let _ = fs::remove_file(sandbox.path("work/proof"));
            assert_eq!(run(inside, ignores), "3\n", "who ignores the hang-up goes on");
            assert_eq!(sandbox.read("work/proof"), "went on\n");
        }
    });
}

#[test]
fn a_terminal_that_script_leaves_ends_the_command() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user).allow_write(".");
        let line = sandbox.command_line();
        let line: Vec<_> = line.iter().map(|word| word.to_string_lossy()).collect();
        let beat = "while :; do echo x >> beat; sleep 0.02; done";
        let command = format!("exec {} -- sh -c '{beat}'", line.join(" "));
        let running = sandbox.spawn_outside(["script", "-qec", command.as_str(), "/dev/null"]);
        assert!(eventually(|| sandbox.path("work/beat").exists()));
        assert!(eventually(|| is_growing(&sandbox, "beat")), "it runs while script does");
        running.signal(Signal::SIGKILL);
        running.wait();
        // It ends in its own time: nobody waits for it.
        assert!(eventually(|| !is_growing(&sandbox, "beat")), "it outlived the terminal");
    });
}

#[test]
fn orphans_are_reaped_while_the_command_runs() {
    let sandbox = Sandbox::new();
    let mut running =
        sandbox.spawn(Sandbox::probe_words("orphans 20 + socketpair stream + sleep 1500"));
    running.expect("socketpair=OK");
    let pid = running.pid();
    let children = format!("/proc/{pid}/task/{pid}/children");
    // Only the command itself stays below the broker, and perhaps the proxy.
    let few = || fs::read_to_string(&children).is_ok_and(|c| c.split_whitespace().count() <= 2);
    assert!(eventually(few), "zombies: {:?}", fs::read_to_string(&children));
    running.wait().succeeds();
}

#[test]
fn the_command_ends_when_its_caller_stops_reading() {
    let sandbox = Sandbox::new();
    let mut words = vec!["sh".into(), "-c".into(), "\"$@\" | head -n 1".into(), "sh".into()];
    words.extend(sandbox.command_line());
    words.extend(["--", "yes"].map(Into::into));
    let outcome = sandbox.run_outside(words);
    assert_eq!(outcome.stdout, "y\n");
}

#[test]
fn nothing_is_left_in_the_temporary_directory() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user).without_policy();
        let tmp = sandbox.dir("tmp");
        let sandbox = sandbox.env("TMPDIR", &tmp);
        let script = "echo x > \"$TMPDIR/file\" && mkdir \"$TMPDIR/dir\" && echo $TMPDIR && chmod 0 \"$TMPDIR/dir\"";
        let outcome = sandbox.sh(script);
        outcome.succeeds();
        assert_ne!(outcome.stdout.trim(), tmp.to_str().unwrap(), "a private TMPDIR");
        assert!(!fs::exists(outcome.stdout.trim()).unwrap(), "it is removed");
        assert_eq!(left_in_tmp(&sandbox), [""; 0]);
    });
}

#[test]
fn every_policy_that_closes_the_temporary_directory_gives_a_private_one() {
    for_each_user(|user| {
        for policy in [
            "{}",
            r#"{"filesystem":{"allowWrite":["."]}}"#,
            r#"{"filesystem":{"allowWrite":["."],"denyWrite":["**/.env"],"denyRead":["../secret"]}}"#,
        ] {
            let sandbox = Sandbox::of(user).policy_json(policy);
            let tmp = sandbox.dir("tmp");
            let sandbox = sandbox.env("TMPDIR", &tmp);
            let script =
                "cd $TMPDIR && mktemp -d && f=$(mktemp) && chmod 600 $f && mv $f g && rm g && pwd";
            let outcome = sandbox.sh(script);
            outcome.succeeds();
            let made = outcome.stdout.lines().last().unwrap().to_owned();
            assert!(made.starts_with(&format!("{}/landstrip-", tmp.display())), "{outcome:#?}");
            assert!(!fs::exists(made).unwrap(), "it is removed");
            sandbox.sh(&format!("echo x > {}/beside", tmp.display())).fails();
            sandbox.landstrip(["--check"]).succeeds();
            assert_eq!(left_in_tmp(&sandbox), [""; 0], "{policy}");
        }
    });
}

#[test]
fn a_policy_that_says_something_of_the_temporary_directory_leaves_it_alone() {
    for_each_user(|user| {
        let of = |policy: &str| {
            let sandbox = Sandbox::of(user).policy_json(policy);
            let tmp = sandbox.dir("tmp");
            (sandbox.env("TMPDIR", &tmp), tmp.to_str().unwrap().to_owned())
        };
        let (sandbox, tmp) = of(r#"{"filesystem":{"allowWrite":["../tmp"]}}"#);
        let outcome = sandbox.sh("echo $TMPDIR; touch $TMPDIR/mine");
        assert_eq!(outcome.succeeds().stdout.trim(), tmp);
        assert_eq!(left_in_tmp(&sandbox), ["mine"]);
        for rule in [
            r#"{"filesystem":{"allowWrite":["."],"denyWrite":["../tmp"]}}"#,
            r#"{"filesystem":{"allowWrite":["."],"denyRead":["../tmp"]}}"#,
        ] {
            let (sandbox, tmp) = of(rule);
            let outcome = sandbox.sh("echo $TMPDIR; touch $TMPDIR/mine");
            assert_eq!(outcome.fails().stdout.trim(), tmp);
            assert_eq!(left_in_tmp(&sandbox), [""; 0]);
        }
        let set = r#"{"filesystem":{"allowWrite":["."]},"environment":{"set":{"TMPDIR":"./own"}}}"#;
        let (sandbox, _) = of(set);
        let outcome = sandbox.sh("mkdir own && touch $TMPDIR/mine && echo $TMPDIR");
        assert_eq!(outcome.succeeds().stdout, "./own\n");
        // An empty one is none.
        let sandbox = Sandbox::of(user).without_policy().env("TMPDIR", "");
        sandbox.sh("test -n \"$TMPDIR\" && cd \"$TMPDIR\" && mktemp").succeeds();
        // One that is not there is not made, and nothing fails by it.
        for callers in ["/nonexistent/tmp", "nonexistent"] {
            for sandbox in [Sandbox::of(user).without_policy(), Sandbox::of(user).allow_write(".")]
            {
                let sandbox = sandbox.env("TMPDIR", callers);
                let outcome = sandbox.sh("cd \"$TMPDIR\" && mktemp >/dev/null && echo $TMPDIR");
                assert_ne!(outcome.succeeds().stdout.trim(), callers, "a private TMPDIR");
                assert!(!fs::exists(sandbox.path(callers)).unwrap());
            }
        }
    });
}

/// A sandbox without a policy whose private TMPDIR is made in `tmp`.
fn with_temporary_directory(user: User) -> Sandbox {
    let sandbox = Sandbox::of(user).without_policy();
    let tmp = sandbox.dir("tmp");
    sandbox.env("TMPDIR", tmp)
}

/// What is in `tmp`, and in what holds the directories of runs there, which stays.
fn left_in_tmp(sandbox: &Sandbox) -> Vec<String> {
    let place = sandbox.path("tmp");
    let holder = sandbox.user().holder();
    let entries = [place.join(&holder), place].into_iter().flat_map(fs::read_dir).flatten();
    let name = |entry: std::io::Result<fs::DirEntry>| entry.unwrap().file_name();
    let mut names: Vec<_> = entries.map(|e| name(e).into_string().unwrap()).collect();
    names.retain(|name| *name != holder);
    names.sort();
    names
}

/// Has every user make something in the private TMPDIR; nothing of it is left, nor anything outside changed.
fn all_is_removed(scripts: &[&str]) {
    for_each_user(|user| {
        for script in scripts {
            let sandbox = with_temporary_directory(user).timeout(Duration::from_secs(120));
            sandbox.file("outside/kept", "kept");
            let before = Snapshot::of(sandbox.path("outside"));
            // With few descriptors and a small stack, for landstrip too.
            let limits = "ulimit -n 64; ulimit -s 256; exec \"$@\"";
            let mut words = vec!["sh".into(), "-c".into(), limits.into(), "sh".into()];
            words.extend(sandbox.command_line());
            words.extend(["--", "sh", "-c", &format!("{script} && exit 3")].map(Into::into));
            let outcome = sandbox.run_outside(words);
            outcome.exits(3);
            assert!(outcome.reports.is_empty(), "{outcome:#?}");
            assert_eq!(left_in_tmp(&sandbox), [""; 0], "{script}");
            before.unchanged();
        }
    });
}

#[test]
fn whatever_the_command_makes_of_its_temporary_directory_is_removed() {
    let closed = "cd $TMPDIR && mkdir -p a/b/c/d && touch a/b/c/f && chmod 0 a/b/c/d && chmod 0 a/b/c \
                  && chmod 0 a/b && chmod 0 a && chmod 0 .";
    let links = "cd $TMPDIR && ln -s $HOME/../outside o && mkdir d && ln -s $HOME/../outside d/o \
                 && ln -s $HOME/../outside/kept f && ln -s / d/root && chmod 500 d";
    all_is_removed(&[closed, links]);
}

#[test]
fn a_temporary_directory_that_cannot_be_removed_is_told_and_changes_no_status() {
    if !is_root_for("another user's file") {
        return;
    }
    let sandbox = with_temporary_directory(User::Nobody);
    let script = "echo in=$TMPDIR; until test -e $TMPDIR/foreign; do sleep 0.02; done; exit 7";
    let mut running = sandbox.spawn(["sh", "-c", script]);
    running.expect("\n");
    let path = running.stdout().trim().trim_start_matches("in=").to_owned();
    // Somebody else's directory, with something in it.
    fs::create_dir_all(format!("{path}/foreign.new/inner")).unwrap();
    fs::write(format!("{path}/removed"), "").unwrap();
    fs::rename(format!("{path}/foreign.new"), format!("{path}/foreign")).unwrap();
    let outcome = running.wait();
    outcome.is_error(7, "Internal", "TMPDIR");
    assert!(outcome.stderr.contains(&path), "{outcome:#?}");
    assert!(!fs::exists(format!("{path}/removed")).unwrap(), "the rest is removed");
}

#[test]
fn a_file_system_that_stops_answering_does_not_hold_up_the_end() {
    for_each_user(|user| {
        for (what, expected) in [("stalls", "True"), ("answers", "False")] {
            let sandbox = with_temporary_directory(user);
            sandbox.dir("work/mounted");
            sandbox.file("work/fuse.py", include_str!("stalled_fuse.py"));
            sandbox.file("wide.json", r#"{"filesystem":{"allowWrite":["mounted"]}}"#);
            // Who is root in a namespace has directories of its own.
            let options = if user.is_root() { "-m" } else { "-Urm" };
            let run = |before: &[&str], after: &[&str]| {
                let words = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
                let apart = words(&["unshare", options]);
                sandbox.run_outside(
                    [apart, words(before), sandbox.command_line(), words(after)].concat(),
                )
            };
            // The broker looks at nothing there while it runs.
            let script = ": < mounted/file; (sleep 98765)& echo $TMPDIR; read line; exit 3";
            let outcome = run(
                &["python3", "fuse.py", what],
                &["-p", "../wide.json", "--", "sh", "-c", script],
            );
            if ["no mount", "/dev/fuse", "unshare"].iter().any(|why| outcome.stderr.contains(why)) {
                skipped("no file system in user space can be mounted");
                return;
            }
            let (first, rest) = outcome.stdout.split_once('\n').unwrap();
            assert_eq!(rest, format!("status 3\nleft 0 stalled {expected}\n"), "{outcome:#?}");
            assert_eq!(
                outcome.stderr.contains("does not answer"),
                what == "stalls",
                "{outcome:#?}"
            );
            // Then a later run removes it.
            if what == "stalls" {
                run(&[], &["--", "sh", "-c", &until_gone(first)]).succeeds();
            }
            assert!(first.contains("/tmp/") && !fs::exists(first).unwrap(), "{outcome:#?}");
        }
    });
}

/// Where another entry of the same directory is denied, each is looked at.
#[test]
fn a_file_system_that_does_not_answer_holds_up_no_launch_elsewhere() {
    for_each_user(|user| {
        let sandbox = with_temporary_directory(user);
        sandbox.dir("home/mounted");
        sandbox.file("home/key", "");
        sandbox.file("home/fuse.py", include_str!("stalled_fuse.py"));
        let policy = format!(r#"{{"filesystem":{{"denyRead":["{}"]}}}}"#, sandbox.name("home/key"));
        sandbox.file("policy.json", &policy);
        let launcher = tests::programs().landstrip();
        let options = if user.is_root() { "-m" } else { "-Urm" };
        let run = |what: &str| {
            let line = "echo mounted; read line; cd ../work; exec \"$@\"";
            let apart = ["unshare", options, "sh", "-c", "cd ../home; exec \"$@\"", "sh"];
            let served = ["python3", "fuse.py", what, "sh", "-c", line, "sh"];
            let confined = ["-p", "../policy.json", "sh", "-c", "cat ../home/key || exit 3"];
            let words = apart.into_iter().chain(served).map(OsString::from);
            let words = words.chain([launcher.clone().into()]).chain(confined.map(OsString::from));
            sandbox.run_outside(words.collect::<Vec<_>>())
        };
        for (what, expected) in [("answers", "False"), ("stalls", "True")] {
            let outcome = run(what);
            if ["no mount", "/dev/fuse", "unshare"].iter().any(|why| outcome.stderr.contains(why)) {
                skipped("no file system in user space can be mounted");
                return;
            }
            let end = format!("mounted\nstatus 3\nleft 0 stalled {expected}\n");
            assert_eq!(outcome.stdout, end, "{outcome:#?}");
        }
    });
}

/// A script that goes on until `path` is gone, or for so long that it will not go any more: a command
/// that ends at once leaves what killed runs left.
fn until_gone(path: &str) -> String {
    format!("n=0; while [ -e {path} ] && [ $n -lt 3000 ]; do n=$((n + 1)); sleep 0.02; done")
}

#[test]
fn the_temporary_directory_of_a_killed_run_is_removed_by_a_later_one() {
    for_each_user(|user| {
        let sandbox = with_temporary_directory(user);
        let start = || {
            let mut running =
                sandbox.spawn(["sh", "-c", "touch $TMPDIR/f; echo $TMPDIR; exec sleep 100"]);
            running.expect("\n");
            let path = running.stdout().trim().to_owned();
            (running, path)
        };
        let (killed, stale) = start();
        let (going_on, in_use) = start();
        assert!(fs::exists(&stale).unwrap(), "a run in progress keeps its directory");
        killed.signal(Signal::SIGKILL);
        assert_eq!(killed.wait().signal, Some(9));
        let holder = PathBuf::from("tmp").join(user.holder());
        sandbox.dir(holder.join("x"));
        sandbox.dir(holder.join("0123456789abcdeg"));
        sandbox.dir("outside/0123456789abcdef");
        let link = sandbox.path(holder.join("0123456789abcdef"));
        std::os::unix::fs::symlink("../../outside/0123456789abcdef", link).unwrap();
        // The command does not hold the lock: only the standard streams are open in it.
        let script = format!("ls /proc/$$/fd; echo /proc/$$/fd/*; {}", until_gone(&stale));
        let outcome = sandbox.sh(&script);
        outcome.succeeds();
        assert!(outcome.stdout.starts_with("0\n1\n2\n/"), "{outcome:#?}");
        assert!(!fs::exists(&stale).unwrap(), "the stale one is left");
        assert!(fs::exists(format!("{in_use}/f")).unwrap(), "one in use was removed");
        assert!(sandbox.path("outside/0123456789abcdef").exists());
        going_on.signal(Signal::SIGTERM);
        going_on.wait().exits(143);
        assert_eq!(left_in_tmp(&sandbox), ["0123456789abcdef", "0123456789abcdeg", "x"]);
    });
}

#[test]
fn the_temporary_directory_of_another_user_is_left() {
    if !is_root_for("another user's file") {
        return;
    }
    let sandbox = with_temporary_directory(User::Nobody);
    // Makes what holds them.
    sandbox.sh("true").succeeds();
    let holder = PathBuf::from("tmp").join(sandbox.user().holder());
    fs::create_dir(sandbox.path(holder.join("0123456789abcdef"))).unwrap();
    let own = sandbox.dir(holder.join("0123456789abcdee"));
    sandbox.sh(&until_gone(own.to_str().unwrap())).succeeds();
    assert_eq!(left_in_tmp(&sandbox), ["0123456789abcdef"]);
}

#[test]
fn many_sandboxes_run_beside_each_other() {
    let threads: Vec<_> = (0..16)
        .map(|n| {
            std::thread::spawn(move || {
                let sandbox = Sandbox::new().allow_write(".");
                sandbox.sh(&format!("echo {n} > mine; exit {n}")).exits(n);
                assert_eq!(sandbox.read("work/mine"), format!("{n}\n"));
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
}

/// What takes long because it is much.
mod large {
    use super::*;

    #[test]
    fn however_much_the_command_makes_of_its_temporary_directory_is_removed() {
        let in_python = |body: &str| {
            format!("python3 -c 'import os\nos.chdir(os.environ[\"TMPDIR\"])\n{body}'")
        };
        let deep =
            in_python("for i in range(5000): os.mkdir(\"d\"); os.chdir(\"d\")\nopen(\"f\",\"w\")");
        let wide = in_python(
            "for i in range(10000): open(str(i),\"w\")\nfor i in range(500): os.makedirs(f\"d{i}/e\")",
        );
        all_is_removed(&[&deep, &wide]);
    }
}

/// Nobody reads what landstrip says last: whoever has it end does not wait for that.
#[test]
fn a_signal_ends_landstrip_while_its_last_lines_wait_for_a_reader() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user).allow_write(".");
        let landstrip = programs().landstrip();
        // A pipe that is full, and a reader that only holds it.
        let script = format!(
            "import fcntl, os, subprocess, sys, time
reader, writer = os.pipe()
os.set_blocking(writer, False)
try:
    while True: os.write(writer, b'x' * 4096)
except BlockingIOError: pass
os.set_blocking(writer, True)
tool = 'mkdir ../outside/made 2>/dev/null; touch ended; exit 3'
child = subprocess.Popen([{:?}, 'sh', '-c', tool], stderr=writer)
while not os.path.exists('ended'): time.sleep(0.01)
time.sleep(0.5)
print(child.poll())
if 'read' in sys.argv:
    os.close(writer)
    while os.read(reader, 4096): pass
else: child.terminate()
print(child.wait(10))",
            landstrip
        );
        // As without the signal, it waits.
        for how in ["end", "read"] {
            let _ = fs::remove_file(sandbox.path("work/ended"));
            let outcome = sandbox.run_outside(["python3", "-c", &script, how]);
            assert_eq!(outcome.succeeds().stdout, "None\n3\n", "{how}: {outcome:#?}");
        }
        assert!(!sandbox.path("outside/made").exists());
    });
}

//! A proc(5) that hides processes (`hidepid`): those of other users, and the user's own that may not be read. What is not
//! shown has not ended. Only root can mount it so.

use std::ffi::OsString;
use tests::{Outcome, Sandbox, User, skipped};

/// On a terminal of the user's: a job in the foreground that may not be read, or that is another user's, and the command
/// in the background. Shows what the command says, and whether the job has kept the terminal.
const TERMINAL: &str = r#"
import os, pty, signal, sys
whose, words = sys.argv[1], sys.argv[2:]
def become():
    os.setgroups([]); os.setresgid(*[65534] * 3); os.setresuid(*[65534] * 3)
process, terminal = pty.fork()
if process == 0:
    os.fchown(0, 65534, 65534)
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    begun, begins = os.pipe()
    job = os.fork()
    if job == 0:
        os.setpgid(0, 0)
        if whose == 'own': become()
        os.set_inheritable(begins, True)
        os.execv('./unreadable', ['unreadable', '-c', 'sleep 1000 & echo >&' + str(begins) + '; wait'])
    os.close(begins); os.read(begun, 1)
    os.tcsetpgrp(0, job)
    become()
    command = os.fork()
    if command == 0:
        os.setpgid(0, 0)
        os.execv(words[0], words)
    os.waitpid(command, 0)
    print('kept', os.tcgetpgrp(0) == job, flush=True)
    os._exit(0)
said = b''
while True:
    try: said += os.read(terminal, 4096)
    except OSError: break
print(said.decode().replace('\r', ''), end='')
"#;

/// Takes the terminal.
const TAKE: &str = "import os, signal
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
try: print('taken', os.tcsetpgrp(0, os.getpgrp()))
except PermissionError: print('refused')";

/// Runs `words` as root where proc(5) is mounted with hidepid `how`, in namespaces for processes and what is shared by
/// number; none where that is not permitted.
pub(crate) fn with_proc(sandbox: &Sandbox, how: &str, words: Vec<OsString>) -> Option<Outcome> {
    if !User::Caller.is_root() {
        skipped("only root mounts proc(5) with hidepid");
        return None;
    }
    let script = format!("mount -o remount,hidepid={how} /proc && echo mounted && exec \"$@\"");
    let unshare = ["unshare", "--pid", "--ipc", "--mount", "--fork", "--mount-proc", "sh", "-c"];
    let around = unshare.into_iter().chain([script.as_str(), "sh"]).map(OsString::from);
    let outcome = sandbox.run_outside(around.chain(words));
    if !outcome.stdout.starts_with("mounted\n") {
        skipped("proc(5) cannot be mounted with hidepid here");
        return None;
    }
    Some(outcome)
}

#[test]
fn a_job_that_is_not_shown_keeps_the_terminal() {
    let sandbox = Sandbox::new();
    let shell = sandbox.program("work/unreadable", std::fs::read("/bin/sh").unwrap());
    std::fs::set_permissions(shell, std::os::unix::fs::PermissionsExt::from_mode(0o111)).unwrap();
    for how in ["0", "1", "2"] {
        for whose in ["own", "roots"] {
            let mut words: Vec<OsString> =
                ["/usr/bin/python3", "-c", TERMINAL, whose].map(Into::into).into();
            words.extend(sandbox.command_line());
            words.extend(["--", "/usr/bin/python3", "-c", TAKE].map(Into::into));
            let Some(outcome) = with_proc(&sandbox, how, words) else { return };
            assert_eq!(
                outcome.stdout, "mounted\nrefused\nkept True\n",
                "{how} {whose}: {outcome:#?}"
            );
        }
    }
}

#[test]
fn what_could_not_be_counted_is_not_limited() {
    for (limits, is_counted) in [
        (r#"{"processes": 10}"#, true),
        (r#"{"memory": "100MiB"}"#, true),
        (r#"{"wallSeconds": 100, "fileSize": "1MiB"}"#, false),
    ] {
        let sandbox = Sandbox::new().policy_json(format!(r#"{{"limits": {limits}}}"#));
        let mut words = sandbox.command_line();
        words.extend(["--", "echo", "runs"].map(Into::into));
        for how in ["0", "2"] {
            let Some(outcome) = with_proc(&sandbox, how, words.clone()) else { return };
            let runs = how == "0" || !is_counted;
            assert_eq!(outcome.stdout.ends_with("runs\n"), runs, "{how}: {outcome:#?}");
            assert_eq!(outcome.stderr.contains("hidepid"), !runs, "{how}: {outcome:#?}");
        }
    }
}

//! Process groups, sessions and terminals: nothing that the command does makes the kernel signal a group outside, or
//! leaves the caller's terminal changed; and job control works as without a sandbox.

use std::ffi::OsString;
use tests::{Sandbox, Terminal, for_each_user};

/// Runs a line of a shell, or of words, that has terminals of its own, and says whether their settings and the flags of
/// its streams are afterwards what they were. A second argument is `job` (a shell on a controlling terminal), `lent` (no
/// session has it), `second` (its output goes to another one) or `killed` (by SIGKILL, once it has said that it is ready).
const LENDER: &str = r#"
import fcntl, os, pty, signal, subprocess, sys, termios, time
kind, patience, line = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
pairs = [pty.openpty(), pty.openpty(), os.pipe()[::-1]]
slave, other, pipe = (pair[1] for pair in pairs)
def state():
    flags = [fcntl.fcntl(f, fcntl.F_GETFL) for f in (slave, other, pipe)]
    return flags + [termios.tcgetattr(f) for f in (slave, other)]
before = state()
def start():
    os.setsid()
    if kind not in ('lent', 'pipe'): fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
streams = {'stdin': pipe if kind == 'pipe' else slave, 'stdout': other if kind == 'second' else slave, 'stderr': slave}
process = subprocess.Popen(line, preexec_fn=start, **streams)
said = b''
if kind == 'killed':
    while b']' not in said: said += os.read(pairs[0][0], 99)
    process.kill()
process.wait(); end = time.monotonic() + patience
while state() != before and time.monotonic() < end: time.sleep(0.01)
print('same', state() == before, said.decode())
for master, _ in pairs[:2]:
    os.set_blocking(master, False)
    try: print(os.read(master, 9999).decode().replace('\r', ''))
    except OSError: pass
"#;

/// Makes the terminals of its streams raw and throws away what was typed, whatever a signal of job control says, has its
/// streams never wait, and says what it could do.
const CHANGES: &str = r#"
import fcntl, os, signal, sys, termios, time, tty
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
def attempt(call, *words):
    try: call(*words); return 'done'
    except (OSError, termios.error) as error: return error.args[0]
said = []
for f in range(3):
    if os.isatty(f): said += [attempt(tty.setraw, f), attempt(termios.tcflush, f, termios.TCIFLUSH)]
    fcntl.fcntl(f, fcntl.F_SETFL, os.O_NONBLOCK | os.O_APPEND)
os.write(2, ('%s\n' % said).encode())
time.sleep(100 if sys.argv[1:] else 0)
"#;

/// Starts a session, on a terminal if its first word is `terminal`, with a group that it leads and one beside; runs the
/// rest of its words in the first, with the numbers of both, and says what came of it and which of them was
/// signalled. All signals of job control that reach them stay pending.
const CALLER: &str = r#"
import os, pty, signal, subprocess, sys
signals = [signal.SIGHUP, signal.SIGCONT, signal.SIGTTIN, signal.SIGTTOU, signal.SIGTSTP, signal.SIGWINCH, signal.SIGINT]
def got(process):
    lines = open(f'/proc/{process}/status').read().splitlines()
    pending = [int(line.split()[1], 16) for line in lines if line.startswith(('SigPnd', 'ShdPnd'))]
    return [s.name for s in signals if any(p >> s - 1 & 1 for p in pending)]
def session():
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    beside = subprocess.Popen(['sleep', '30'], process_group=0)
    free = lambda: signal.pthread_sigmask(signal.SIG_UNBLOCK, signals)
    words = sys.argv[2:] + [str(os.getpgrp()), str(beside.pid)]
    status = subprocess.run(words, preexec_fn=free).returncode
    print('status', status, 'outside', got(os.getpid()), got(beside.pid), flush=True); beside.kill(); os._exit(0)
if sys.argv[1] == 'terminal':
    process, terminal = pty.fork()
    if process == 0: session()
    said = b''
    while True:
        try: said += os.read(terminal, 4096)
        except OSError: break
    print(said.decode().replace('\r', ''))
elif os.fork() == 0: os.setsid(); session()
else: os.wait()
"#;

/// Joins each of the groups with a process whose parent is in another group of the session, has one stop there, and
/// leaves: the kernel signals what is orphaned then. Says what it could do.
pub(crate) const ORPHANS: &str = r#"
import os, signal, sys
def attempt(*words):
    try: words[0](*words[1:]); return 'done'
    except OSError as error: return error.errno
for group in map(int, sys.argv[1:]):
    read, write = os.pipe()
    if os.fork() == 0:
        os.setpgid(0, 0)
        if os.fork() == 0:
            result = attempt(os.setpgid, 0, group)
            stopped = os.fork()
            if stopped == 0: os.kill(os.getpid(), signal.SIGSTOP); os._exit(0)
            os.waitpid(stopped, os.WUNTRACED); os.write(write, str(result).encode()); os._exit(0)
        os.wait(); os._exit(0)
    os.wait(); print('join', os.read(read, 9).decode(), flush=True)
"#;

/// `words` inside, and outside, in a session of [`CALLER`].
pub(crate) fn session(sandbox: &Sandbox, kind: &str, script: &str) -> [String; 2] {
    [[sandbox.command_line(), vec!["--".into()]].concat(), Vec::new()].map(|before| {
        let caller = ["python3", "-c", CALLER, kind].map(OsString::from);
        let words = ["python3", "-c", script].map(OsString::from);
        sandbox.run_outside([caller.into(), before, words.into()].concat()).stdout
    })
}

#[test]
fn no_group_outside_is_joined_or_orphaned() {
    for_each_user(|user| {
        for kind in ["terminal", "none"] {
            let sandbox = Sandbox::of(user);
            let [inside, outside] = session(&sandbox, kind, ORPHANS);
            assert_eq!(inside.matches("join 1\n").count(), 2, "{kind}: {inside}");
            assert!(inside.contains("status 0 outside [] []"), "{kind}: {inside}");
            assert!(outside.contains("outside ['SIGHUP', 'SIGCONT'] []"), "{kind}: {outside}");
        }
    });
}

#[test]
fn groups_inside_are_made_joined_and_left() {
    let script = r#"
import os, signal
def child(group):
    process = os.fork()
    if process == 0:
        while True: signal.pause()
    os.setpgid(process, group or process); return process
def end(process): os.kill(process, 9); os.waitpid(process, 0)
first = child(0); second = child(first); third = child(os.getpgrp())
print(os.getpgid(second) == first, os.getpgid(third) == os.getpgrp(), flush=True)
# The leader has gone, its group has not.
end(first); fourth = child(first); print(os.getpgid(fourth) == first, flush=True)
for process in (second, third, fourth): end(process)
last = os.fork()
if last == 0:
    try: os.setpgid(0, first)
    except PermissionError: print('gone', flush=True)
    os._exit(0)
os.waitpid(last, 0); last = os.fork()
if last == 0:
    os.setsid(); fifth = child(0); sixth = child(fifth); print(os.getpgid(sixth) == fifth, flush=True); end(fifth); end(sixth); os._exit(0)
os.waitpid(last, 0)
for _ in range(200): process = child(0); end(child(process)); end(process)
print('many', flush=True)
"#;
    for_each_user(|user| {
        for kind in ["terminal", "none"] {
            let [inside, outside] = session(&Sandbox::of(user), kind, script);
            assert!(inside.contains("True True\nTrue\ngone\nTrue\nmany\n"), "{kind}: {inside}");
            assert_eq!(inside, outside, "{kind}");
        }
    });
}

#[test]
fn the_terminal_is_not_taken_resized_locked_or_held_back() {
    // Also by who left the session, for whom the kernel makes no difference between foreground and background.
    let script = r#"
import fcntl, os, pty, signal, struct, sys, termios
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
calls = {'group': (termios.TIOCSPGRP, struct.pack('i', int(sys.argv[1]))), 'beside': (termios.TIOCSPGRP, struct.pack('i', int(sys.argv[2]))),
         'size': (termios.TIOCSWINSZ, struct.pack('4H', 7, 7, 0, 0)), 'lock': (termios.TIOCEXCL, 0), 'hold': (termios.TCXONC, termios.TCOOFF)}
def attempt(name, descriptor):
    try: fcntl.ioctl(descriptor, *calls[name]); return 'done'
    except OSError as error: return error.errno
    finally: termios.tcflow(slave if descriptor == slave else 0, termios.TCOON)
master, slave = pty.openpty()
print('callers', [attempt(name, 0) for name in calls], flush=True)
if os.fork() == 0: os.setsid(); print('left', [attempt(name, 0) for name in calls], flush=True); os._exit(0)
os.wait()
# Before it is locked: where duplicates are refused, it is opened for that.
by_master = attempt('size', master)
print('own', [attempt(name, slave) for name in ('size', 'hold', 'lock')], struct.unpack('4H', fcntl.ioctl(slave, termios.TIOCGWINSZ, bytes(8)))[:2],
      by_master, attempt('size', os.pipe()[0]), flush=True)
process, _ = pty.fork()
if process == 0:
    calls['own'] = (termios.TIOCSPGRP, struct.pack('i', os.getpgrp()))
    os._exit(0 if attempt('own', 0) == 'done' else 1)
print('session', os.waitpid(process, 0)[1], flush=True)
"#;
    for_each_user(|user| {
        let [inside, outside] = session(&Sandbox::of(user), "terminal", script);
        for said in [
            "callers [1, 1, 1, 1, 1]\n",
            "left [25, 25, 1, 1, 1]\n",
            "own ['done', 'done', 'done'] (7, 7) done 25\nsession 0\n",
            "status 0 outside [] []",
        ] {
            assert!(inside.contains(said), "{said}: {inside}");
        }
        assert!(outside.contains("outside [] ['SIGWINCH']"), "{outside}");
    });
}

#[test]
fn a_terminal_is_given_back_as_it_was() {
    for_each_user(|user| {
        for ending in ["exit", "kill -9 $$", "exec sleep 30"] {
            let sandbox = Sandbox::of(user);
            let mut terminal = Terminal::of(&sandbox);
            terminal.type_in("stty -a > /dev/null; echo rea\"\"dy\n");
            terminal.expect("\nready");
            terminal.type_in(&format!(
                "$L -- sh -c 'stty -echo -isig raw; echo ch\"\"anged; {ending}'\n"
            ));
            terminal.expect("changed");
            if ending.contains("sleep") {
                // Ctrl-C is no signal there any more.
                terminal.end_job();
            }
            terminal.expect("$ ");
            terminal
                .type_in("stty -a | tr ' ' '\\n' | grep -x -- '-*\\(isig\\|icanon\\|echo\\)' | tr -d '\\n'; echo .\n");
            terminal.expect("isigicanonecho.");
        }
    });
}

/// What [`LENDER`] says of a line, inside and outside; `L` stands for the launcher with all that comes before the tool.
fn lend(sandbox: &Sandbox, kind: &str, line: &str) -> [String; 2] {
    let launcher = sandbox.command_line();
    let launcher: Vec<_> = launcher.iter().map(|word| word.to_string_lossy()).collect();
    [(format!("{} --", launcher.join(" ")), "60"), ("env".to_owned(), "0")].map(
        |(launcher, patience)| {
            let script = line.replace("$L", &launcher).replace("$C", "python3 -c \"$CHANGES\"");
            let start =
                ["env", &format!("CHANGES={CHANGES}"), "python3", "-c", LENDER, kind, patience];
            let shell = ["sh", "-mc", &script];
            let shell = if kind == "job" { &shell[..] } else { &["sh", "-c", &script] };
            sandbox.run_outside(start.iter().chain(shell).copied()).stdout
        },
    )
}

#[test]
fn terminals_and_streams_are_given_back_from_wherever_they_were_changed() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user);
        for (kind, line, said) in [
            ("job", "$L $C", "['done', 'done', 'done', 'done', 'done', 'done']"),
            // Whose terminal it is not, changes nothing there; nor does a background job.
            ("job", "$L $C | cat", "[1, 1, 1, 1]"),
            ("job", "true | $L $C", "[1, 1, 1, 1]"),
            ("job", "sh -c '\"$@\"; true' sh $L $C", "[1, 1, 1, 1, 1, 1]"),
            ("job", "$L $C & wait", "[1, 1, 1, 1, 1, 1]"),
            ("lent", "exec $L $C", "['done', 'done', 'done', 'done', 'done', 'done']"),
            ("second", "exec $L $C", "[1, 1, 'done', 'done', 1, 1]"),
            ("pipe", "exec $L $C", "['done', 'done', 'done', 'done']"),
            ("killed", "exec $L $C on", "['done', 'done', 'done', 'done', 'done', 'done']"),
        ] {
            let [inside, outside] = lend(&sandbox, kind, line);
            assert!(inside.contains("same True "), "{kind} {line}: {inside}");
            assert!(inside.contains(said), "{kind} {line}: {inside}");
            assert!(outside.contains("same False "), "{kind} {line}: {outside}");
            assert!(!outside.contains('1'), "{kind} {line}: {outside}");
        }
    });
}

/// A process group that nobody can continue is not stopped for its terminal.
#[test]
fn an_orphan_in_the_background_is_told_that_it_cannot_have_the_terminal() {
    let script = r#"
import os, pty, signal, sys, termios, time
process, _ = pty.fork()
if process == 0:
    read, write = os.pipe(); settings = termios.tcgetattr(0); leader = os.getpid()
    if os.fork() == 0:
        os.setpgid(0, 0); parent = os.getpid()
        if os.fork() == 0:
            while os.getppid() == parent: time.sleep(0.001)
            try: termios.tcsetattr(0, termios.TCSANOW, settings); said = 0
            except termios.error as error: said = error.args[0]
            os.write(write, bytes([said]))
        os._exit(0)
    os.wait(); os._exit(os.read(read, 1)[0])
print('told', os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), flush=True)
"#;
    for_each_user(|user| {
        for kind in ["terminal", "none"] {
            let [inside, outside] = session(&Sandbox::of(user), kind, script);
            assert!(inside.contains("told 5\n"), "{kind}: {inside}");
            assert_eq!(inside, outside, "{kind}");
        }
    });
}

#[test]
fn a_terminal_that_controls_no_session_is_not_taken_by_a_call() {
    let script = "import fcntl, os, sys, termios
a, b = os.openpty()
try: fcntl.ioctl(0, termios.TIOCSCTTY, 0); print('took')
except OSError as error: print('no', error.errno)
fcntl.ioctl(b, termios.TIOCSCTTY, 0); print('own', os.tcgetpgrp(b) == os.getpgrp())";
    for_each_user(|user| {
        let sandbox = Sandbox::of(user);
        let line = format!("exec $L setsid -w python3 -c \"{script}\"");
        let [inside, outside] = lend(&sandbox, "lent", &line);
        assert!(inside.contains("no 1\nown True\n"), "{inside}");
        assert!(outside.contains("took\n"), "{outside}");
    });
}

/// Starts landstrip, and, if it is to be late, keeps the guardian from running until it is let go.
pub(crate) const BEGIN: &str = r#"
import ctypes, os, subprocess
ptrace = ctypes.CDLL(None).ptrace; ptrace.argtypes = [ctypes.c_long] * 4
TRACEME, CONT, DETACH, SETOPTIONS, GETEVENTMSG, O_TRACECLONE, WALL = 0, 7, 17, 0x4200, 0x4201, 8, 0x40000000
def begin(when, words, **streams):
    first = (lambda: ptrace(TRACEME, 0, 0, 0)) if when == 'late' else None
    tool = subprocess.Popen(words, preexec_fn=first, **streams)
    if when != 'late': return tool, lambda: None
    # Of what it starts, only the guardian's end tells nobody: it is stopped before its first instruction.
    os.waitpid(tool.pid, 0); ptrace(SETOPTIONS, tool.pid, 0, O_TRACECLONE); ptrace(CONT, tool.pid, 0, 0)
    os.waitpid(tool.pid, 0); number = ctypes.c_ulong()
    ptrace(GETEVENTMSG, tool.pid, 0, ctypes.addressof(number)); guardian = number.value
    os.waitpid(guardian, WALL); ptrace(DETACH, tool.pid, 0, 0)
    return tool, lambda: ptrace(DETACH, guardian, 0, 0)
"#;

/// Runs its words but the first, which say when they have changed the terminal, in the foreground of one; kills landstrip
/// then, and says what became of the terminal.
const KILLER: &str = r#"
import pty, sys, termios, time
process, terminal = pty.fork()
if process == 0:
    before = termios.tcgetattr(0)
    tool, let_go = begin(sys.argv[1], sys.argv[2:], stdout=subprocess.PIPE)
    tool.stdout.read(1); held = os.tcgetpgrp(0) != os.getpgrp()
    tool.kill(); tool.wait(); let_go(); end = time.monotonic() + 60
    given = lambda: os.tcgetpgrp(0) == os.getpgrp() and termios.tcgetattr(0) == before
    while not given() and time.monotonic() < end: time.sleep(0.01)
    print('held', held, 'given', given(), flush=True); os._exit(0)
said = b''
while True:
    try: said += os.read(terminal, 4096)
    except OSError: break
print(said.decode())
"#;

#[test]
fn a_killed_landstrip_gives_the_foreground_back() {
    // The command takes it when it is stopped for wanting it: what started landstrip is in the same group.
    let tool = "import sys, time, tty; tty.setraw(0); print('x', flush=True); time.sleep(100)";
    for_each_user(|user| {
        for when in ["at once", "late"] {
            let sandbox = Sandbox::of(user);
            let script = [BEGIN, KILLER].concat();
            let start = ["python3", "-c", &script, when].map(OsString::from).to_vec();
            let tool = ["--", "python3", "-c", tool].map(OsString::from).to_vec();
            let outcome = sandbox.run_outside([start, sandbox.command_line(), tool].concat());
            assert!(outcome.stdout.contains("held True given True"), "{when}: {outcome:#?}");
        }
    });
}

#[test]
fn a_terminal_that_was_opened_by_its_name_is_the_callers_again() {
    // What is in no session it becomes the controlling one of, until that ends.
    let caller = r#"
import fcntl, os, pty, subprocess, sys, termios
_, slave = pty.openpty()
opened = "import os, sys; f = os.open('/dev/pts/' + sys.argv[1], os.O_RDWR); print('its', os.tcgetpgrp(f) == os.getpgrp())"
words = sys.argv[1:] + ['python3', '-c', opened, os.ttyname(slave).split('/')[-1]]
print(subprocess.run(words, stdin=slave, stdout=subprocess.PIPE, text=True, start_new_session=True).stdout)
os.write(slave, b'written'); fcntl.ioctl(slave, termios.TIOCSCTTY, 0); print('mine', os.tcgetpgrp(slave) == os.getpgrp())
"#;
    for_each_user(|user| {
        let sandbox = Sandbox::of(user);
        for launcher in [[sandbox.command_line(), vec!["--".into()]].concat(), Vec::new()] {
            let start = ["setsid", "-w", "python3", "-c", caller].map(OsString::from).to_vec();
            let outcome = sandbox.run_outside([start, launcher].concat());
            assert_eq!(outcome.stdout, "its True\n\nmine True\n", "{outcome:#?}");
        }
    });
}

#[test]
fn a_pipeline_shares_the_terminal() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user);
        let mut terminal = Terminal::of(&sandbox);
        // The other one reads it, as less does.
        terminal.type_in(
            "$L -- echo one | sh -c 'cat; echo as\"\"king; read x < /dev/tty; echo got=$x'\n",
        );
        terminal.expect("asking");
        terminal.type_in("first\n");
        terminal.expect("\ngot=first");
        terminal.expect("$ ");
        terminal.type_in(
            "echo one | $L -- sh -c 'cat; echo as\"\"king; read x < /dev/tty; echo got=$x'\n",
        );
        terminal.expect("asking");
        terminal.type_in("second\n");
        terminal.expect("\ngot=second");
        terminal.expect("$ ");
        // Nobody in the caller's job finds itself in the background for the command's sake.
        let foreground =
            "python3 -c 'import os; print(\"fore\" + str(os.tcgetpgrp(2) == os.getpgrp()))'";
        for line in [
            format!("$L -- {foreground} | cat"),
            format!("sh -c \"$L -- {}\"", foreground.replace('"', "\\\"")),
        ] {
            terminal.type_in(&format!("{line}\n"));
            terminal.expect("\nforeTrue");
            terminal.expect("$ ");
        }
        terminal.type_in("sh -c \"$L -- sh -c 'echo rea\"\"dy; exec sleep 30'; echo n\"\"ext\"\n");
        terminal.expect("ready");
        // The script is interrupted as well.
        terminal.type_in("\x03");
        terminal.expect("$ ");
        terminal.type_in("echo status=$?\n");
        terminal.expect("\nstatus=130");
        assert!(!terminal.all().contains("\nnext"), "{}", terminal.all());
    });
}

#[test]
fn a_shell_inside_controls_its_jobs() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user);
        // On the caller's terminal, and on one of its own.
        for shell in ["", "python3 -c 'import pty, sys; pty.spawn(sys.argv[1:])' "] {
            let mut terminal = Terminal::of(&sandbox);
            terminal.type_in(&format!(
                "$L -- {shell}env PS1='i''n> ' bash --norc --noprofile --noediting -i\n"
            ));
            terminal.expect("in> ");
            terminal.type_in("sh -c 'echo rea\"\"dy; read x; echo got=$x' | cat | cat\n");
            terminal.expect("ready");
            terminal.type_in("\x1a");
            terminal.expect("Stopped");
            terminal.expect("in> ");
            terminal.type_in("fg\n");
            terminal.type_in("typed\n");
            terminal.expect("\ngot=typed");
            terminal.expect("in> ");
            terminal.type_in("sleep 30 | sleep 30 &\n");
            terminal.expect("in> ");
            terminal.type_in("kill %1; wait %1; echo en\"\"ded\n");
            terminal.expect("\nended");
            terminal.expect("in> ");
            waits_in_the_background(&mut terminal, "sh -c 'stty -echo; stty echo; echo s\"\"et'");
            terminal.expect("\nset");
            terminal.expect("in> ");
            terminal.type_in("exit 7\n");
            terminal.expect("$ ");
            if shell.is_empty() {
                terminal.type_in("echo status=$?\n");
                terminal.expect("\nstatus=7");
            }
            assert!(!terminal.all().contains("job control"), "{}", terminal.all());
        }
    });
}

/// Starts a job that wants the terminal in the background, and brings it to the foreground once it has stopped.
fn waits_in_the_background(terminal: &mut Terminal, job: &str) {
    terminal.type_in(&format!("{job} &\n"));
    terminal.type_in("until jobs | grep -q Stopped; do :; done; echo see\"\"n\n");
    terminal.expect("\nseen");
    terminal.type_in("fg\n");
}

#[test]
fn a_job_in_the_background_waits_for_the_terminal() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user);
        let mut terminal = Terminal::of(&sandbox);
        waits_in_the_background(&mut terminal, "$L -- sh -c 'read x < /dev/tty; echo got=$x'");
        terminal.expect("read x");
        terminal.type_in("typed\n");
        terminal.expect("\ngot=typed");
        terminal.expect("$ ");
        waits_in_the_background(&mut terminal, "$L -- sh -c 'stty -echo; stty echo; echo s\"\"et'");
        terminal.expect("\nset");
        terminal.expect("$ ");
    });
}

#[test]
fn a_group_of_its_own_is_signalled_as_one() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user);
        // As harnesses end what they started: a shell waits for its child, which has to get the signal, too.
        let caller = r"
import os, signal, subprocess, sys
child = subprocess.Popen(sys.argv[1:], process_group=0, stdout=subprocess.PIPE)
child.stdout.readline(); os.killpg(child.pid, signal.SIGINT); child.stdout.read(); print(child.wait())";
        let mut words = ["python3", "-c", caller].map(OsString::from).to_vec();
        words.extend(sandbox.command_line());
        words.extend(
            ["--", "bash", "-c", "trap 'exit 3' INT; sh -c 'echo ready; exec sleep 30'; :"]
                .map(Into::into),
        );
        assert_eq!(sandbox.run_outside(words).stdout, "3\n");
    });
}

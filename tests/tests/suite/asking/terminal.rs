//! `--ask terminal`: what is asked at a real terminal, what is answered there, and what comes of it.

use crate::jobs::BEGIN;
use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};
use tests::{ESCAPED, Sandbox, Terminal, User, eventually, for_each_user};

/// The end of every question.
pub(super) const KEYS: &str = "n no? ";
/// What is typed to see how the terminal is set.
const SETTINGS: &str = "stty -a | tr ' ' '\\n' | grep -x -- '-*\\(isig\\|icanon\\|echo\\|tostop\\)' | tr -d '\\n'; echo .\n";

pub(super) fn sandbox(user: User) -> Sandbox {
    let sandbox = Sandbox::of(user).allow_write(".").deny_write("../home/.npm/denied");
    sandbox.dir("home/.npm");
    sandbox
}

/// Starts `script` with questions, and waits for the first.
pub(super) fn ask(sandbox: &Sandbox, script: &str) -> Terminal {
    sandbox.file("work/script", script);
    let mut terminal = Terminal::of(sandbox);
    terminal.type_in("$L --ask terminal -- sh ./script; echo st\"\"atus=$?\n");
    terminal.expect(KEYS);
    terminal
}

/// On a busy machine one that was to stop can get a processor yet: then it is asked anew.
fn answer_as_often_as_asked(terminal: &mut Terminal, end: &str) {
    let mut answered = 0;
    let is_done = eventually(|| {
        let asked = terminal.all().matches(KEYS).count();
        if asked > std::mem::replace(&mut answered, asked) {
            terminal.type_in("y\n");
        }
        terminal.all().contains(end)
    });
    assert!(is_done, "{}", terminal.all());
}

pub(super) fn is_there(sandbox: &Sandbox, name: &str) -> bool {
    sandbox.path("home/.npm").join(name).exists()
}

#[test]
fn a_question_is_shown_answered_and_followed_as_recorded() {
    for_each_user(|user| {
        let sandbox = sandbox(user);
        let mut terminal = ask(&sandbox, "cd ~/.npm; echo 1 > a; echo 2 > b; echo 3 > c");
        assert!(!is_there(&sandbox, "a"), "{ESCAPED}");
        terminal.type_in("what\n");
        terminal.expect(KEYS);
        terminal.type_in("y\n");
        terminal.expect(KEYS);
        assert_eq!(sandbox.read("home/.npm/a"), "1\n");
        terminal.type_in("no\n");
        terminal.expect("\nstatus=2\r\n");
        let home = sandbox.name("home");
        let question = |name: &str| {
            format!(
                "landstrip: \"SHELL\" (N) wants to change \"{home}/.npm/{name}\"\r
  it calls itself \"sh\" \"./script\", in \"{home}/.npm\"\r
  the rule for that: filesystem.allowWrite += \"~/.npm\"\r
  y once, r for this run, a always (in \"{}\")\r
  n no? ",
                sandbox.name("policy.json")
            )
        };
        // How the shell's file is called, and its number, differ.
        let seen = terminal.all();
        let begin = seen.find("landstrip: \"").unwrap();
        let name = seen[begin..].split(" wants").next().unwrap().to_owned();
        let seen = seen.replace(&name, "landstrip: \"SHELL\" (N)");
        let all =
            [&question("a"), "what\r\n", &question("a"), "y\r\n\r\n", &question("b"), "no\r\n"];
        let expected = all.concat();
        assert!(seen.contains(&expected), "{seen}\n--- expected:\n{expected}");
        assert_eq!(seen.matches("wants to").count(), 3, "{seen}");
        assert_eq!(["a", "b", "c"].map(|name| is_there(&sandbox, name)), [true, false, false]);
    });
}

/// A name that ends its line, draws and turns round what stands beside it.
const IMITATION: &str = "x\"\n  n no? y\r\u{1b}[2J\u{202e}";

/// What a terminal shows of `seen`: neither what belongs to a string, as a title, nor what is concealed.
fn shown(seen: &str) -> String {
    let (mut shown, mut rest, mut is_concealed) = (String::new(), seen, false);
    while let Some(character) = rest.chars().next() {
        let sequence = rest.strip_prefix('\u{1b}');
        let end = match sequence.map(str::as_bytes) {
            Some([b']' | b'P' | b'^' | b'_', ..]) => {
                rest.find(['\u{7}', '\u{18}']).map_or(rest.len(), |at| at + 1)
            }
            Some([b'[', ..]) => {
                let end =
                    rest.find(|c: char| c.is_ascii_alphabetic()).map_or(rest.len(), |at| at + 1);
                is_concealed = match &rest[..end] {
                    "\u{1b}[8m" => true,
                    "\u{1b}[0m" => false,
                    _ => is_concealed,
                };
                end
            }
            Some(_) => 2,
            None => {
                shown.extend((!is_concealed).then_some(character));
                character.len_utf8()
            }
        };
        rest = rest.get(end..).unwrap_or_default();
    }
    shown
}

#[test]
fn a_question_is_shown_whatever_the_command_had_the_terminal_do() {
    for_each_user(|user| {
        for hidden in ["\\033]2;", "\\033P1", "\\033_", "\\033^", "\\033[8m"] {
            let sandbox = sandbox(user);
            let script =
                format!("printf 'wants to change ./work'; printf '{hidden}'; echo 1 > ~/.npm/a");
            sandbox.file("work/script", script);
            let mut terminal = Terminal::of(&sandbox);
            terminal.type_in("TERM=xterm; $L --ask terminal -- sh ./script; echo st\"\"atus=$?\n");
            terminal.expect(KEYS);
            let shown = shown(&terminal.all());
            assert!(shown.contains("/.npm/a\""), "{hidden}: {shown:?}");
            terminal.type_in("no\n");
            terminal.expect("status=2\r\n");
            assert!(!is_there(&sandbox, "a"), "{ESCAPED}");
        }
    });
}

#[test]
fn what_was_refused_is_shown_whatever_the_command_had_the_terminal_do() {
    for_each_user(|user| {
        for hidden in ["\\033]2;", "\\033P1", "\\033_", "\\033^", "\\033[8m"] {
            for (limit, said) in
                [("ulimit -n 64", "/.npm/a\""), ("while :; do :; done", "wallSeconds")]
            {
                let sandbox = sandbox(user);
                let limits = sandbox.file("p.json", "{\"limits\":{\"wallSeconds\":1}}");
                let script = format!("printf '{hidden}'; echo 1 > ~/.npm/a; {limit}; exit 1");
                sandbox.file("work/script", script);
                let mut terminal = Terminal::of(&sandbox);
                let run = format!("$L -p {} -- sh ./script", limits.display());
                terminal.type_in(&format!("TERM=xterm; {run}; echo st\"\"atus=$?\n"));
                terminal.expect("status=1");
                let shown = shown(&terminal.all());
                assert!(shown.contains(said), "{hidden}: {shown:?}");
                assert!(!is_there(&sandbox, "a"), "{ESCAPED}");
            }
        }
        // Where escape sequences mean nothing, or nobody looks at them, none are written.
        let sandbox = sandbox(user);
        let mut terminal = Terminal::of(&sandbox);
        terminal.type_in("$L -- sh -c 'echo 1 > ~/.npm/a'; echo st\"\"atus=$?\n");
        terminal.expect("status=2");
        assert!(terminal.all().contains("/.npm/a\"") && !terminal.all().contains('\u{1b}'));
        let piped = sandbox.env("TERM", "xterm").sh("echo 1 > ~/.npm/a");
        assert!(
            piped.stderr.contains("/.npm/a\"") && !piped.stderr.contains('\u{1b}'),
            "{piped:#?}"
        );
    });
}

#[test]
fn text_that_imitates_a_question_is_escaped_in_one_and_elsewhere_answers_nothing() {
    for_each_user(|user| {
        let sandbox = sandbox(user);
        let script = format!(
            "printf 'landstrip: is it all right?\\n  n no? '; read answer; echo \"heard $answer\"; echo x > ~/.npm/a
             exec -a '{IMITATION}' bash -c 'echo x > ~/.npm/\"$0\"' '{IMITATION}'"
        );
        sandbox.file("work/script", script);
        let mut terminal = Terminal::of(&sandbox);
        terminal.type_in("$L --ask terminal -- bash ./script; echo st\"\"atus=$?\n");
        terminal.expect(KEYS);
        terminal.type_in("y\n");
        terminal.expect("heard y\r\n");
        terminal.expect("wants to change");
        terminal.expect(KEYS);
        assert!(!is_there(&sandbox, "a"), "{ESCAPED}");
        terminal.type_in("n\n");
        terminal.expect("\nstatus=1\r\n");
        // One rule would allow both, and was refused.
        assert_eq!(terminal.all().matches("wants to change").count(), 1, "{}", terminal.all());
        assert_eq!(fs::read_dir(sandbox.path("home/.npm")).unwrap().count(), 0, "{ESCAPED}");

        let sandbox = self::sandbox(user);
        let script =
            format!("exec -a '{IMITATION}' bash -c 'echo x > ~/.npm/\"$0\"' '{IMITATION}'");
        sandbox.file("work/script", script);
        let mut terminal = Terminal::of(&sandbox);
        terminal.type_in("$L --ask terminal -- bash ./script; echo st\"\"atus=$?\n");
        terminal.expect(KEYS);
        let name = r#"x\"\n  n no? y\r\u{1b}[2J\u{202e}"#;
        let shown = terminal.all();
        assert!(shown.contains(&format!("/.npm/{name}\"\r\n")), "{shown}");
        assert!(shown.contains(&format!("it calls itself \"{name}\" ")), "{shown}");
        assert_eq!(shown.matches("\r\n  n no? ").count(), 1, "{shown}");
        assert!(!shown.contains(['\u{1b}', '\u{202e}']), "{shown}");
        terminal.type_in("y\n");
        terminal.expect("\nstatus=0\r\n");
        assert!(is_there(&sandbox, IMITATION));
    });
}

#[test]
fn an_answer_for_the_run_is_not_asked_for_again() {
    for_each_user(|user| {
        let sandbox = sandbox(user);
        let script = "for i in 1 2 3; do echo $i > ~/.npm/$i; done; echo x > ~/.npm/denied";
        let mut terminal = ask(&sandbox, script);
        terminal.type_in("r\n");
        terminal.expect("\nstatus=2\r\n");
        assert_eq!(terminal.all().matches("wants to").count(), 1);
        assert_eq!(fs::read_dir(sandbox.path("home/.npm")).unwrap().count(), 3, "{ESCAPED}");
    });
}

#[test]
fn an_interruption_at_the_question_refuses_and_interrupts() {
    for_each_user(|user| {
        for (script, status) in [
            ("echo x > ~/.npm/a; echo went on", "130"),
            ("trap 'echo ca\"\"ught; exit 7' INT; echo x > ~/.npm/a; echo went on", "7"),
        ] {
            let sandbox = sandbox(user);
            let mut terminal = ask(&sandbox, script);
            terminal.type_in("y\x03");
            terminal.expect(&format!("\nstatus={status}\r\n"));
            assert!(!is_there(&sandbox, "a") && !terminal.all().contains("\nwent on"));
            assert_eq!(terminal.all().contains("\ncaught"), status == "7", "{}", terminal.all());
            terminal.type_in(SETTINGS);
            terminal.expect("isigicanonecho-tostop.");
        }
    });
}

#[test]
fn a_stop_at_the_question_stops_the_job_and_the_question_comes_again() {
    for_each_user(|user| {
        let sandbox = sandbox(user);
        let mut terminal = ask(&sandbox, "echo x > ~/.npm/a; echo do\"\"ne");
        terminal.type_in("y\x1a");
        terminal.expect("^Z\r\n");
        terminal.expect("Stopped");
        terminal.type_in(SETTINGS);
        terminal.expect("isigicanonecho-tostop.");
        assert!(!is_there(&sandbox, "a"), "{ESCAPED}");
        terminal.type_in("fg\n");
        terminal.expect(KEYS);
        terminal.type_in("y\n");
        terminal.expect("\ndone\r\n");
        assert_eq!(sandbox.read("home/.npm/a"), "x\n");
    });
}

#[test]
fn a_program_that_has_set_the_terminal_finds_it_so_again() {
    for_each_user(|user| {
        let sandbox = sandbox(user);
        let script = format!(
            "trap ': > redrawn' WINCH; stty raw -echo; echo x > ~/.npm/a; {}\
            until [ -e redrawn ]; do sleep 0.01; done; stty -raw echo; echo do\"\"ne",
            SETTINGS.replace('\n', ";")
        );
        let mut terminal = ask(&sandbox, &script);
        // Lines again, and shown as they are typed.
        terminal.type_in("yy\x7f\n");
        terminal.expect("yy\x08 \x08\r\n");
        for text in ["-isig-icanon-echo-tostop.", "done", "\nstatus=0\r\n"] {
            terminal.expect(text);
        }
        assert_eq!(sandbox.read("home/.npm/a"), "x\n");
    });
}

/// Runs its words but two on a terminal, with all streams led elsewhere if the first is `elsewhere`; kills landstrip while
/// it asks, and says what became of the terminal.
const KILLED: &str = r#"
import pty, sys, termios, time
read, write = os.pipe(); process, terminal = pty.fork()
if process == 0:
    streams = {} if sys.argv[1] == 'here' else dict.fromkeys(['stdin', 'stdout', 'stderr'], subprocess.DEVNULL)
    # Of the caller's own making, it is given back as well.
    mine = termios.tcgetattr(0); mine[3] &= ~termios.ECHOE; termios.tcsetattr(0, termios.TCSANOW, mine)
    before = termios.tcgetattr(0)
    tool, let_go = begin(sys.argv[2], sys.argv[3:], **streams)
    # What is typed arrives once the question is there.
    os.read(read, 1); asked = termios.tcgetattr(0) != before
    tool.kill(); tool.wait(); let_go(); end = time.monotonic() + 60
    given = lambda: os.tcgetpgrp(0) == os.getpgrp() and termios.tcgetattr(0) == before
    while not given() and time.monotonic() < end: time.sleep(0.01)
    print('asked', asked, 'given', given(), flush=True); os._exit(0)
said = b''
while True:
    try: said += os.read(terminal, 4096)
    except OSError: break
    if b'n no? ' in said and write: os.write(write, b'x'); write = None
print(said.decode())
"#;

#[test]
fn a_landstrip_that_is_killed_while_it_asks_gives_the_terminal_back() {
    for_each_user(|user| {
        for (streams, when) in
            [("here", "at once"), ("elsewhere", "at once"), ("elsewhere", "late")]
        {
            let sandbox = sandbox(user).options(["--ask", "terminal"]);
            let script = [BEGIN, KILLED].concat();
            let mut words = ["python3", "-c", &script, streams, when].map(OsString::from).to_vec();
            words.extend(sandbox.command_line());
            let tool = "stty raw -echo < /dev/tty; echo x > ~/.npm/a; exec sleep 60";
            words.extend(["--", "sh", "-c", tool].map(OsString::from));
            let outcome = sandbox.run_outside(words);
            assert!(
                outcome.stdout.contains("asked True given True"),
                "{streams} {when}: {outcome:#?}"
            );
            assert!(!is_there(&sandbox, "a"), "{ESCAPED}");
        }
    });
}

/// Leaves the session, so that no job control keeps it from the terminal; reads all that is typed, and writes all the time.
const THIEF: &str = r#"
import os, signal, sys, threading, time
if os.fork() == 0:
    # Its parent is stopped already.
    if os.fork() != 0: os.kill(os.getpid(), signal.SIGSTOP); os._exit(0)
    os.setsid()
    def draw():
        while True: os.write(1, b'\rfake? '); time.sleep(0.002)
    threading.Thread(target=draw, daemon=True).start()
    while True:
        with open('stolen', 'ab', 0) as f: f.write(os.read(0, 100))
while not os.path.exists('stolen') or open('stolen').read() != 'mine\n': time.sleep(0.01)
try: open(os.path.expanduser('~/.npm/a'), 'w')
except OSError as e: open('outcome', 'w').write(str(e.errno))
else: open('outcome', 'w').write('made')
while not os.path.exists('end'): time.sleep(0.01)
"#;

#[test]
fn nothing_of_the_command_reads_the_answer_or_writes_beside_the_question() {
    for_each_user(|user| {
        for (answer, outcome) in [("no", "13"), ("yes", "made")] {
            let sandbox = sandbox(user);
            sandbox.file("work/thief.py", THIEF);
            let mut terminal = Terminal::of(&sandbox);
            terminal.type_in("$L --ask terminal -- python3 thief.py; echo st\"\"atus=$?\n");
            terminal.expect("fake? ");
            // Typed ahead for the question, and for the command.
            terminal.type_in("mine\n");
            terminal.expect(KEYS);
            terminal.type_in(&format!("{answer}\n"));
            terminal.expect(&format!("{answer}\r\n"));
            assert!(eventually(|| sandbox.read("work/outcome") == outcome), "{}", terminal.all());
            assert!(terminal.all().contains(&format!("{KEYS}{answer}\r\n")), "{ESCAPED}");
            assert_eq!(sandbox.read("work/stolen"), "mine\n", "{ESCAPED}");
            // What it writes goes on.
            terminal.expect("fake? ");
            sandbox.file("work/end", "");
            terminal.expect("status=0\r\n");
        }
    });
}

/// Asks, and is continued by a timer whose signal is SIGCONT (timer_create(2)) while it is asked about: then it draws.
const RESTLESS: &str = r#"
import ctypes, os, signal, threading, time
class Event(ctypes.Structure):
    _fields_ = [('value', ctypes.c_void_p), ('signal', ctypes.c_int), ('notify', ctypes.c_int), ('rest', ctypes.c_int * 12)]
class Setting(ctypes.Structure):
    _fields_ = [('every', ctypes.c_long * 2), ('first', ctypes.c_long * 2)]
libc = ctypes.CDLL(None, use_errno=True)
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
begun = time.monotonic()
# Late enough that the question stands by then on a busy machine; there, it may be stopped again before it has run. Of
# timers that repeat, those whose signal does nothing are not started again.
for at in range(10, 40, 3):
    timer, event = ctypes.c_void_p(), Event(signal=signal.SIGCONT)
    assert libc.timer_create(1, ctypes.byref(event), ctypes.byref(timer)) == 0
    setting = Setting(first=(ctypes.c_long * 2)(at, 0))
    assert libc.timer_settime(timer, 0, ctypes.byref(setting), None) == 0
def ask():
    status = 0
    try: open(os.path.expanduser('~/.npm/a'), 'w').write('x')
    except OSError: status = 1
    os._exit(status)
threading.Thread(target=ask).start()
# Once it is continued, it may be stopped again at once.
while time.monotonic() < begun + 9: time.sleep(0.01)
os.write(1, b'\r\x1b[2Jlandstrip: "ls" wants to change HARMLESS\r\n  n no? ')
while True: time.sleep(1)
"#;

#[test]
fn an_answer_to_what_the_command_drew_over_the_question_permits_nothing() {
    for_each_user(|user| {
        let sandbox = sandbox(user);
        sandbox.file("work/restless.py", RESTLESS);
        let mut terminal = Terminal::of(&sandbox);
        terminal.type_in("$L --ask terminal -- python3 restless.py; echo st\"\"atus=$?\n");
        terminal.expect("/.npm/a\"\r\n");
        terminal.expect("HARMLESS");
        terminal.type_in("y\n");
        // It is asked anew, and that can be answered.
        terminal.expect("/.npm/a\"\r\n");
        terminal.expect(KEYS);
        assert!(!is_there(&sandbox, "a"), "{ESCAPED}{}", terminal.all());
        // What is typed too soon answers nothing.
        answer_as_often_as_asked(&mut terminal, "\nstatus=0\r\n");
        assert!(is_there(&sandbox, "a"), "{}", terminal.all());
    });
}

/// Its children are stopped with it, of which a shell hears (SIGCHLD).
#[test]
fn a_shell_with_a_job_in_the_background_is_asked_about_once() {
    for_each_user(|user| {
        let sandbox = sandbox(user);
        let script = "sleep 60 & sleep 0.5; echo 1 > ~/.npm/a; kill $!";
        sandbox.file("work/script", script);
        let mut terminal = Terminal::of(&sandbox);
        terminal.type_in("$L --ask terminal -- bash ./script; echo st\"\"atus=$?\n");
        terminal.expect(KEYS);
        // Longer than a question stays for which nobody waits.
        std::thread::sleep(Duration::from_secs(2));
        answer_as_often_as_asked(&mut terminal, "\nstatus=0\r\n");
        assert!(is_there(&sandbox, "a"));
        let seen = terminal.all();
        assert!(!seen.contains("the question is over"), "{seen}");
    });
}

#[test]
fn what_was_typed_before_a_question_is_no_answer_to_it() {
    for_each_user(|user| {
        let sandbox = sandbox(user);
        let script =
            "echo 1 > ~/.npm/a & echo 2 > ~/b & wait; echo $(ls ~ ~/.npm | grep -cx '[ab]') made";
        let mut terminal = ask(&sandbox, script);
        // Until the other one waits as well.
        std::thread::sleep(Duration::from_secs(1));
        terminal.type_in("n\ny\n");
        terminal.expect("wants to change");
        terminal.expect(KEYS);
        let made = || is_there(&sandbox, "a") || sandbox.path("home/b").exists();
        assert!(!made(), "{ESCAPED}{}", terminal.all());
        // Shown again as well, should the other one have been late to stand still.
        for _ in 0..20 {
            terminal.type_in("y\n");
            std::thread::sleep(Duration::from_millis(500));
            if made() {
                break;
            }
        }
        terminal.expect("\n1 made\r\n");
        terminal.expect("\nstatus=0\r\n");
    });
}

/// Asks for a word, and makes the call when it has the beginning.
const WORD: &str = r#"
import os, termios, tty
path = os.path.expanduser('~/.npm/a')
tty.setcbreak(0)
print('type dey and press Enter', flush=True)
read = b''
while len(read) < 2: read += os.read(0, 1)
try: open(path, 'w').write('x')
except OSError as e: print(e.strerror)
"#;

#[test]
fn what_is_left_of_a_word_that_the_command_wanted_is_no_answer() {
    for_each_user(|user| {
        let mut was_quick = false;
        for _ in 0..20 {
            let sandbox = sandbox(user);
            sandbox.file("work/word.py", WORD);
            let mut terminal = Terminal::of(&sandbox);
            terminal.type_in("$L --ask terminal -- python3 word.py; echo st\"\"atus=$?\n");
            terminal.expect("press Enter\r\n");
            terminal.type_in("d");
            let begun = Instant::now();
            terminal.type_in("e");
            std::thread::sleep(Duration::from_millis(150));
            terminal.type_in("y\n");
            // On a busy machine that can come long after the question is shown.
            was_quick = begun.elapsed() < Duration::from_millis(400);
            if was_quick {
                terminal.expect(KEYS);
                // As long as it would take to be made.
                std::thread::sleep(Duration::from_millis(500));
                assert!(!is_there(&sandbox, "a"), "{ESCAPED}{}", terminal.all());
                terminal.type_in("y\n");
                terminal.expect("\nstatus=0\r\n");
                assert!(is_there(&sandbox, "a"), "{}", terminal.all());
                break;
            }
        }
        assert!(was_quick, "the machine was too busy");
    });
}

#[test]
fn a_job_in_the_background_asks_once_it_is_in_the_foreground() {
    for_each_user(|user| {
        let sandbox = sandbox(user);
        let mut terminal = Terminal::of(&sandbox);
        terminal.type_in("$L --ask terminal -- sh -c 'echo x > ~/.npm/a; echo st\"\"atus=$?' &\n");
        terminal.expect("a question waits until this job is in the foreground (fg)");
        // The shell's own line is the shell's.
        terminal.type_in("echo al\"\"ive\n");
        terminal.expect("\nalive\r\n");
        terminal.type_in("fg\n");
        terminal.expect(KEYS);
        terminal.type_in("y\n");
        terminal.expect("\nstatus=0\r\n");
    });
}

#[test]
fn a_question_is_asked_in_a_pipeline_and_by_a_command_without_the_terminal() {
    for_each_user(|user| {
        for line in [
            "echo in | $L --ask terminal -- sh ./script | cat",
            "$L --ask terminal -- sh ./script < /dev/null > out 2>&1; cat out",
            "sh -c \"$L --ask terminal -- sh ./script\"",
        ] {
            let sandbox = sandbox(user);
            sandbox.file("work/script", "echo x > ~/.npm/a; echo st\"\"atus=$?");
            let mut terminal = Terminal::of(&sandbox);
            terminal.type_in(&format!("{line}\n"));
            terminal.expect(KEYS);
            terminal.type_in("y\n");
            terminal.expect("\nstatus=0\r\n");
            assert_eq!(sandbox.read("home/.npm/a"), "x\n");
        }
    });
}

#[test]
fn what_gets_to_the_terminal_by_way_of_others_stands_still_as_well() {
    for_each_user(|user| {
        let sandbox = sandbox(user);
        let script = "(until [ -e go ]; do sleep 0.1; done; echo drawn) & echo x > ~/.npm/a; wait; echo ended";
        sandbox.file("work/script", script);
        let mut terminal = Terminal::of(&sandbox);
        terminal.type_in("$L --ask terminal -- sh ./script < /dev/null 2>&1 | cat\n");
        terminal.expect(KEYS);
        sandbox.file("work/go", "");
        std::thread::sleep(Duration::from_secs(1));
        assert!(!terminal.all().contains("drawn"), "{}", terminal.all());
        // The end of the one in the background can interrupt a call that is permitted already, which is asked about again.
        answer_as_often_as_asked(&mut terminal, "\nended\r\n");
        assert!(terminal.all().contains("\ndrawn\r\n"), "{}", terminal.all());
        assert!(is_there(&sandbox, "a"), "{}", terminal.all());
    });
}

#[test]
fn a_question_ends_without_an_answer_when_time_is_up_or_its_caller_is_gone() {
    for_each_user(|user| {
        let sandbox = sandbox(user);
        let policy = sandbox.file("short.json", r#"{"ask": {"timeoutSeconds": 1}}"#);
        let sandbox = sandbox.options(["-p", policy.to_str().unwrap()]);
        let mut terminal = ask(&sandbox, "echo x > ~/.npm/a");
        terminal.expect("the question is over: nobody answered in time");
        terminal.expect("\nstatus=2\r\n");
        terminal.type_in(SETTINGS);
        terminal.expect("isigicanonecho-tostop.");

        for (signal, status) in [("KILL", "137"), ("TERM", "143")] {
            let sandbox = self::sandbox(user);
            let script = "echo $$ > pid; stty -echo; exec 2>/dev/null; : > ~/.npm/a; exec sleep 60";
            let mut terminal = ask(&sandbox, script);
            let pid = sandbox.read("work/pid");
            let kill = format!("kill -{signal} {}", pid.trim());
            sandbox.sh_outside(&kill).succeeds();
            terminal.expect(&format!("\nstatus={status}\r\n"));
            terminal.type_in(SETTINGS);
            terminal.expect("isigicanonecho-tostop.");
            assert!(!is_there(&sandbox, "a"), "{ESCAPED}");
        }
    });
}

#[test]
fn without_a_terminal_nothing_runs() {
    for_each_user(|user| {
        let sandbox = sandbox(user);
        let mut words = vec!["setsid".into(), "--wait".into()];
        words.extend(sandbox.command_line());
        words.extend(["--ask", "terminal", "--", "touch", "made"].map(Into::into));
        let outcome = sandbox.run_outside(words);
        assert_eq!(outcome.status, Some(2), "{outcome:#?}");
        assert!(outcome.stderr.contains("there is no terminal"), "{outcome:#?}");
        assert!(!sandbox.path("work/made").exists());
    });
}

/// Draws the whole screen, and asks meanwhile.
const SCREEN: &str = r#"
import os, sys, termios, tty
old = termios.tcgetattr(0)
tty.setraw(0)
os.write(1, b'\033[?1049h\033[H\033[2Jscreen>')
came = []
for name in sys.argv[1:]:
    try: open(os.path.expanduser('~/.npm/' + name), 'w'); came.append('made')
    except OSError: came.append('refused')
os.write(1, b'key?')
key = os.read(0, 1)
termios.tcsetattr(0, termios.TCSADRAIN, old)
os.write(1, b'\033[?1049l')
print(*came, key, flush=True)
"#;

#[test]
fn a_program_that_draws_the_screen_is_left_alone_where_somebody_watches() {
    for_each_user(|user| {
        let sandbox = sandbox(user);
        sandbox.file("work/screen.py", SCREEN);
        let text = "# mine\nfilesystem:\n  allowWrite: [.]\n";
        let policy = sandbox.file("mine.yaml", text);
        let sandbox = sandbox.options(["-p", policy.to_str().unwrap()]);
        let mut watch = Terminal::of(&sandbox);
        watch.type_in("${L%% *} --watch; echo st\"\"atus=$?\n");
        watch.expect("landstrip: watching");
        let mut terminal = Terminal::of(&sandbox);
        terminal.type_in("$L --ask terminal -- python3 screen.py a b; echo st\"\"atus=$?\n");
        watch.expect("wants to change");
        watch.expect(KEYS);
        watch.type_in("y\n");
        watch.expect("/b\"");
        watch.expect(KEYS);
        assert!(is_there(&sandbox, "a"));
        // What the program is typed is the program's, and no answer.
        assert!(!is_there(&sandbox, "b"), "{ESCAPED}");
        watch.type_in("a\n");
        watch.expect("# allowed on ");
        watch.expect("n ask again? ");
        assert_eq!(sandbox.read("mine.yaml"), text);
        watch.type_in("y\n");
        watch.expect("mine.yaml\"");
        terminal.expect("screen>key?");
        terminal.type_in("y");
        terminal.expect("made made b'y'");
        terminal.expect("\nstatus=0\r\n");
        assert!(!terminal.all().contains("wants to"), "{}", terminal.all());
        let written = sandbox.read("mine.yaml");
        assert!(written.starts_with("# mine\nfilesystem:\n  # allowed on "), "{written}");
        assert!(written.ends_with("\n  allowWrite: [\"~/.npm\", .]\n"), "{written}");
        watch.type_in("\x03");
        watch.expect("status=0\r\n");
        let left = fs::read_dir(sandbox.path("home/.cache/landstrip")).unwrap();
        assert!(
            left.flatten().all(|entry| !entry.file_name().to_string_lossy().starts_with("watch"))
        );
    });
}

#[test]
fn a_watcher_that_goes_leaves_the_question_to_the_terminal() {
    for_each_user(|user| {
        let sandbox = sandbox(user);
        let mut watch = Terminal::of(&sandbox);
        watch.type_in("${L%% *} --watch\n");
        watch.expect("landstrip: watching");
        let mut terminal = Terminal::of(&sandbox);
        terminal.type_in("$L --ask terminal -- sh -c 'echo x > ~/.npm/a'; echo st\"\"atus=$?\n");
        watch.expect(KEYS);
        watch.type_in("\x03");
        terminal.expect(KEYS);
        terminal.type_in("n\n");
        terminal.expect("\nstatus=2\r\n");
        assert!(!is_there(&sandbox, "a"), "{ESCAPED}");
    });
}

#[test]
fn a_watcher_of_one_run_ends_with_it() {
    for_each_user(|user| {
        let sandbox = sandbox(user);
        let mut terminal = Terminal::of(&sandbox);
        terminal.type_in(
            "$L -- sh -c 'echo r\"\"un=$PPID=; read -r _; echo x > ~/.npm/a'; echo st\"\"atus=$?\n",
        );
        terminal.expect("run=");
        terminal.expect("=");
        let shown = terminal.all();
        let run = shown.rsplit('=').nth(1).unwrap();
        let mut watch = Terminal::of(&sandbox);
        watch.type_in(&format!("${{L%% *}} --watch {run}; echo st\"\"atus=$?\n"));
        watch.expect("landstrip: watching");
        // Of another run nothing is shown, and it ends nothing.
        sandbox.run(["sh", "-c", "echo x > ~/.npm/b"]);
        terminal.type_in("\n");
        watch.expect("/a\"");
        watch.expect("status=0\r\n");
        let shown = watch.all();
        assert!(shown.contains(&format!("in run {run}: refused to")), "{shown}");
        assert!(!shown.contains("/b\""), "{shown}");
    });
}

#[test]
fn no_sandbox_can_listen_where_a_run_asks_a_watcher() {
    for_each_user(|user| {
        let sandbox = sandbox(user).allow_write("../home").allow_all_unix_sockets();
        sandbox.dir("home/.cache");
        sandbox.dir("home/.cache/landstrip");
        fs::set_permissions(sandbox.path("home/.cache/landstrip"), Permissions::from_mode(0o700))
            .unwrap();
        let script = "
import os, socket
for name in ('.cache/landstrip/watch-1', '.cache/watch-1'):
    s = socket.socket(socket.AF_UNIX)
    try: s.bind(os.path.expanduser('~/' + name)); print('bound', flush=True)
    except OSError as e: print(e.errno, flush=True)
";
        assert_eq!(sandbox.run(["python3", "-c", script]).stdout, "13\nbound\n", "{ESCAPED}");
    });
}

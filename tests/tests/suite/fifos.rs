//! FIFOs whose opens the broker makes: they wait, are interrupted and are given up as outside.

use nix::sys::signal::Signal;
use std::time::Duration;
use tests::{Sandbox, User, eventually, for_each_user, repetitions};

/// Where the broker makes all opens for writing, and where it makes those for reading as well.
fn brokered(user: User) -> [Sandbox; 2] {
    [
        Sandbox::of(user).allow_write(".").deny_write("**/kept"),
        Sandbox::of(user).allow_write(".").deny_read("**/secret"),
    ]
}

/// Opens a FIFO without another end, again and again, and is interrupted each time.
const INTERRUPTED: &str = "
import ctypes, os, signal, sys, threading
libc = ctypes.CDLL(None, use_errno=True); os.mkfifo('f'); got = []
signal.signal(signal.SIGALRM, lambda *_: got.append(1))
def tried(flags):
    fd = libc.open(b'f', flags); return fd if fd >= 0 else ctypes.get_errno()
for restart in (False, True):
    signal.siginterrupt(signal.SIGALRM, not restart)
    for flags in (os.O_RDONLY, os.O_WRONLY):
        # One that comes before the open interrupts nothing.
        signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
        if restart:
            # The handler runs, and the call goes on until the other end is there.
            other = threading.Timer(0.3, lambda: os.close(os.open('f', os.O_RDWR | os.O_NONBLOCK)))
            other.start(); fd = tried(flags); other.join(); print(fd > 2); os.close(fd)
        else: print(tried(flags))
        signal.setitimer(signal.ITIMER_REAL, 0)
";

#[test]
fn an_open_that_waits_is_interrupted_by_signals() {
    for_each_user(|user| {
        for inside in brokered(user) {
            let outside = Sandbox::of(user);
            let outcome = inside.run(["python3", "-c", INTERRUPTED]);
            assert_eq!(
                outcome.stdout.lines().take(4).collect::<Vec<_>>(),
                ["4", "4", "True", "True"]
            );
            let twin = outside.run_outside(["python3", "-c", INTERRUPTED]);
            assert_eq!(outcome.stdout, twin.stdout, "{outcome:#?}");
        }
    });
}

#[test]
fn opens_that_were_interrupted_leave_room_for_others() {
    for_each_user(|user| {
        let [_, sandbox] = brokered(user);
        let script = "import ctypes, os, signal, threading
libc = ctypes.CDLL(None, use_errno=True); os.mkfifo('f')
signal.signal(signal.SIGUSR1, lambda *_: None); signal.siginterrupt(signal.SIGUSR1, True)
errors = set()
def wait():
    for _ in range(10): errors.add((libc.open(b'f', os.O_RDONLY), ctypes.get_errno()))
threads = [threading.Thread(target=wait) for _ in range(40)]
for thread in threads: thread.start()
while any(thread.is_alive() for thread in threads):
    for thread in threads:
        if thread.is_alive(): signal.pthread_kill(thread.ident, signal.SIGUSR1)
    import time; time.sleep(0.02)
print(errors)";
        assert_eq!(sandbox.run(["python3", "-c", script]).succeeds().stdout, "{(-1, 4)}\n");
    });
}

/// To let the thread end that waited, the broker once opened the other end: whoever waited for that
/// went on, and wrote to nobody.
#[test]
fn an_open_that_is_given_up_is_noticed_by_nobody() {
    for_each_user(|user| {
        for sandbox in brokered(user) {
            sandbox.sh_outside("mkfifo f").succeeds();
            let running = sandbox.spawn(["sh", "-c", "echo inside > f"]);
            let mut writer = sandbox.spawn_outside(["sh", "-c", "exec 3> f; echo opened; sleep 9"]);
            std::thread::sleep(Duration::from_millis(300));
            running.signal(Signal::SIGTERM);
            assert_eq!(running.wait().status, Some(143));
            std::thread::sleep(Duration::from_millis(300));
            assert_eq!(writer.stdout(), "");
            let reader = sandbox.spawn(["sh", "-c", "cat < f"]);
            writer.expect("opened");
            drop(writer);
            assert!(eventually(|| reader.stdout().is_empty()));
            reader.wait().succeeds();
        }
    });
}

#[test]
fn both_ends_find_each_other_however_often() {
    for_each_user(|user| {
        for sandbox in brokered(user) {
            let script = "mkfifo f; for i in $(seq 150); do echo $i > f & cat f; wait; done | sort -n | md5sum; \
                          timeout 1 sh -c 'exec 3<> f; echo both' ";
            let inside = sandbox.sh(script);
            let twin = Sandbox::of(user).sh_outside(script);
            assert_eq!(inside.succeeds().stdout, twin.stdout);
        }
    });
}

/// Tries to write a command into the pipe that is the standard input, and then uses what it may.
const SPEAKS: &str = r#"
import os, threading
line = b"echo spoken >> spoken\n"
def write(path, flags):
    try: file = os.open(path, flags | os.O_NONBLOCK)
    except OSError: return False
    written = os.write(file, line); os.close(file); return written
os.symlink("/proc/self/fd/0", "link"); held = os.open("/proc/self/fd/0", os.O_PATH); again = os.dup(0)
paths = [f"/proc/{of}/fd/{fd}" for of in ("self", "thread-self", os.getpid(), os.getppid()) for fd in (0, held, again)]
for path in ["/dev/stdin", "/dev/fd/0", "link", f"/proc/self/cwd/link", *paths]:
    for flags in (os.O_WRONLY, os.O_RDWR, os.O_WRONLY | os.O_APPEND, os.O_RDWR | os.O_TRUNC, os.O_WRONLY | os.O_CREAT, 3):
        write(path, flags)
# One thread moves the link to where it may lead.
open("plain", "wb").close()
def move():
    for turn in range(TURNS):
        os.symlink(("plain", "/proc/self/fd/0")[turn % 2], "next"); os.rename("next", "link")
mover = threading.Thread(target=move); mover.start()
while mover.is_alive(): write("link", os.O_WRONLY)
mover.join()
# What is its own it may open either way, and files it makes and changes.
r, w = os.pipe(); write(f"/proc/self/fd/{r}", os.O_WRONLY); print(os.read(r, 99) == line)
os.symlink("made", "new"); print(write("new", os.O_WRONLY | os.O_CREAT) == len(line), open("made", "rb").read() == line)
print(write("plain", os.O_RDWR | os.O_TRUNC) == len(line), os.stat("plain").st_size == len(line))
print(os.open("/proc/self/fd/0", os.O_RDONLY) > 2)
"#;

#[test]
fn a_shell_that_reads_its_script_from_a_pipe_runs_no_line_of_the_commands() {
    for_each_user(|user| {
        for sandbox in [Sandbox::of(user).allow_write(".")].into_iter().chain(brokered(user)) {
            let turns = repetitions(400).to_string();
            sandbox.file("work/speaks.py", SPEAKS.replace("TURNS", &turns));
            let words = sandbox.command_line();
            let inside: String =
                words.iter().map(|word| format!("'{}' ", word.to_string_lossy())).collect();
            sandbox.file("script", format!("{inside} -- python3 speaks.py\necho ran\n"));
            let shared = sandbox.sh_outside("cat ../script | sh");
            shared.succeeds();
            let works = "True\nTrue True\nTrue True\nTrue\nran\n";
            assert_eq!(shared.stdout, works, "{shared:#?}");
            assert!(!sandbox.path("work/spoken").exists(), "{shared:#?}");
            // Where the caller does not read there, nobody is spoken to but the tool.
            let alone = sandbox
                .sh_outside(&format!("echo | {inside} -- sh -c 'echo said > /dev/stdin; cat'"));
            assert!(alone.stdout.contains("said"), "{alone:#?}");
        }
    });
}

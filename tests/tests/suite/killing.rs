//! Signals that the command sends: to its own they are sent as outside of the sandbox, to nobody else.

use nix::libc;
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, getpgid};
use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::time::Duration;
use tests::{Sandbox, Victim, eventually, for_each_user, repetitions};

/// Sends signals by every call there is, to children, groups, threads and itself, and says what comes of it.
const SCRIPT: &str = r#"
import ctypes, fcntl, os, platform, signal, struct, sys, threading, time
libc = ctypes.CDLL(None, use_errno=True)
x86 = platform.machine() == 'x86_64'
KILL, TKILL, TGKILL, QUEUE, TGQUEUE = (62, 200, 234, 129, 297) if x86 else (129, 130, 131, 138, 240)
PIDFD, OPEN = 424, 434
def call(*words):
    result = libc.syscall(*words)
    return result if result >= 0 else -ctypes.get_errno()
def tell(*words): print(*words, flush=True)
def until(condition):
    end = time.monotonic() + 60
    while not condition() and time.monotonic() < end: time.sleep(0.001)
def child():
    read, write = os.pipe(); process = os.fork()
    if process == 0:
        os.setpgid(0, 0); os.write(write, b'x')
        while True: time.sleep(10)
    os.read(read, 1); os.close(read); os.close(write); return process
def ended(process): return os.WTERMSIG(os.waitpid(process, 0)[1])
p = child(); tell('kill', call(KILL, p, 0), call(KILL, p, 15), ended(p), call(KILL, p, 0))
p = child(); tell('group', call(KILL, -p, 9), ended(p), call(KILL, -p, 9))
p = child(); tell('wrong', call(KILL, p, 65), call(KILL, p, -1), call(KILL, -2147483648, 9), call(TKILL, 0, 9), call(TGKILL, p, -1, 9))
os.kill(p, 9); os.waitid(os.P_PID, p, os.WEXITED | os.WNOWAIT); tell('zombie', call(KILL, p, 15), ended(p))
p = child(); f = call(OPEN, p, 0)
tell('handle', call(PIDFD, f, 15, None, 0), ended(p), call(PIDFD, f, 15, None, 0), call(PIDFD, 0, 9, None, 0), call(PIDFD, f, 9, None, 99))
p = child(); tell('tkill', call(TKILL, p, 15), ended(p), call(TKILL, p, 15))
p = child(); tell('tgkill', call(TGKILL, os.getpid(), p, 9), call(TGKILL, p, p, 15), ended(p))
def info(code, value):
    return ctypes.create_string_buffer(struct.pack('iiiiiiQ', 0, 0, code, 0, os.getpid(), os.getuid(), value).ljust(128, b'\0'))
read, write = os.pipe(); p = os.fork()
if p == 0:
    class Info(ctypes.Structure): _fields_ = [('words', ctypes.c_int * 6), ('value', ctypes.c_ulong), ('rest', ctypes.c_char * 96)]
    signals = ctypes.c_ulong(1 << 33); signal.pthread_sigmask(signal.SIG_BLOCK, [34]); os.write(write, b'x')
    for _ in range(3):
        got = Info(); libc.syscall(128 if x86 else 137, ctypes.byref(signals), ctypes.byref(got), None, 8)
        tell('got', got.words[0], got.words[2], got.words[4] == os.getppid(), got.words[5] == os.getuid(), got.value)
        os.write(write, b'x')
    os._exit(0)
os.read(read, 1); f = call(OPEN, p, 0)
refused = call(QUEUE, p, 34, info(0, 7)), call(QUEUE, p, 34, info(-6, 7)), call(QUEUE, -p, 34, info(-1, 7))
whole = ctypes.create_string_buffer(struct.pack('i', 34) + info(-1, 9).raw[4:])
sent = [(call(*words), os.read(read, 1)) for words in ((QUEUE, p, 34, info(-1, 7)), (TGQUEUE, p, p, 34, info(-2, 8)), (PIDFD, f, 34, whole, 0))]
os.waitpid(p, 0); tell('queue', refused, sent)
hits = []; signal.signal(signal.SIGUSR1, lambda *_: hits.append(1))
over = threading.Event(); thread = threading.Thread(target=over.wait); thread.start()
for words in ((KILL, os.getpid()), (TGKILL, os.getpid(), thread.native_id), (TKILL, thread.native_id), (TKILL, os.getpid()), (KILL, thread.native_id)):
    before = len(hits); result = call(*words, signal.SIGUSR1); until(lambda: result < 0 or len(hits) > before)
    time.sleep(0.01); tell('own', result, len(hits) - before)
tell('own', call(QUEUE, os.getpid(), signal.SIGUSR1, info(0, 0))); over.set(); thread.join()
read, write = os.pipe(); leader = os.fork()
if leader == 0:
    os.setpgid(0, 0)
    for _ in range(5):
        if os.fork() == 0: time.sleep(100); os._exit(0)
    os.close(write); os.kill(0, 15); os._exit(3)
os.close(write); tell('zero', ended(leader), os.read(read, 1))
read, write = os.pipe(); got = []; signal.signal(signal.SIGIO, lambda *_: got.append(1))
fcntl.fcntl(read, fcntl.F_SETOWN, os.getpid()); fcntl.fcntl(read, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
os.write(write, b'x'); until(lambda: got); tell('owner', len(got), fcntl.fcntl(read, fcntl.F_GETOWN) == os.getpid())
fcntl.fcntl(read, fcntl.F_SETOWN, 0); tell('nobody', fcntl.fcntl(read, fcntl.F_GETOWN))
"#;

#[test]
fn signals_inside_are_those_of_outside() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user);
        let command = ["python3", "-c", SCRIPT];
        let (inside, outside) = (sandbox.run(command), sandbox.run_outside(command));
        outside.succeeds();
        assert_eq!(inside.stdout, outside.stdout, "{inside:#?}");
        assert_eq!(outside.stdout.lines().count(), 20, "{outside:#?}");
    });
}

#[test]
fn everybody_is_everybody_inside() {
    for_each_user(|user| {
        let mut victim = Victim::of(user);
        let script = "
import os, time
read, write = os.pipe(); children = []
for number in range(3):
    process = os.fork()
    if process == 0:
        os.close(read)
        if number == 1: os.setsid()
        if number == 2 and os.fork() > 0: os._exit(0)
        time.sleep(100); os._exit(0)
    children.append(process)
os.close(write); os.waitpid(children[2], 0); os.kill(-1, 9)
print([os.WTERMSIG(os.waitpid(process, 0)[1]) for process in children[:2]], os.read(read, 1))";
        let outcome = Sandbox::of(user).run(["python3", "-c", script]);
        assert_eq!(outcome.stdout, "[9, 9] b''\n", "{outcome:#?}");
        assert!(victim.untouched());
    });
}

/// The command is in the process group of its caller, which it may not signal: only what is inside of it
/// is.
#[test]
fn a_group_that_reaches_outside_is_signalled_inside() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user);
        // A group of its own that landstrip, and one beside it, are in.
        let script =
            "sleep 100 & beside=$!; \"$@\"; echo $?; kill -0 $beside && echo lives; kill $beside";
        let mut words: Vec<_> =
            ["setsid", "--wait", "sh", "-c", script, "sh"].map(Into::into).into();
        words.extend(sandbox.command_line());
        let attack = "sleep 100 & kill -TERM 0; wait; echo survived";
        words.extend(["--", "sh", "-c", attack].map(Into::into));
        let outcome = sandbox.run_outside(words);
        assert_eq!(outcome.stdout, "143\nlives\n", "{outcome:#?}");
    });
}

/// What happens on a terminal is signalled to its foreground, where the sandbox's caller is, or to whoever of
/// the session the command puts there.
#[test]
fn what_happens_on_a_terminal_is_signalled_inside() {
    // Starts the command on a terminal in the group of the one and beside the other of two that cannot take the signal,
    // types a line when it is asked for, and says who got the signal.
    let caller = r#"
import os, pty, signal, subprocess, sys
def got(process):
    lines = open(f'/proc/{process}/status').read().splitlines()
    return any(int(line.split()[1], 16) >> signal.SIGIO - 1 & 1 for line in lines if line.startswith(('SigPnd', 'ShdPnd')))
process, terminal = pty.fork()
if process == 0:
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGIO])
    beside = subprocess.Popen(['sleep', '100'], process_group=0)
    free = lambda: signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGIO])
    status = subprocess.run(sys.argv[1:] + [str(beside.pid)], preexec_fn=free).returncode
    print('status', status, 'outside', got(os.getpid()), got(beside.pid), flush=True); beside.kill()
    os._exit(0)
said, asked = b'', 0
while True:
    try: said += os.read(terminal, 4096)
    except OSError: break
    if said.count(b'type') > asked: asked += 1; os.write(terminal, b'line\n')
print(said.decode().replace('\r', ''))
"#;
    let attack = r#"
import fcntl, os, signal, struct, sys, termios, time
hits = []; signal.signal(signal.SIGIO, lambda *_: hits.append(1)); signal.signal(signal.SIGTTOU, signal.SIG_IGN)
FIOASYNC = 0x5452
# Without a look at the descriptor the kernel takes whoever is in the foreground by now.
fcntl.ioctl(0, termios.TIOCSPGRP, struct.pack('i', os.getpgrp()))
terminal = os.open('/dev/tty', os.O_RDWR); flags = fcntl.fcntl(0, fcntl.F_GETFL)
def attempt(*words):
    try: words[0](*words[1:])
    except OSError: pass
def asynchronous(way, descriptor):
    if way == 'ioctl': attempt(fcntl.ioctl, descriptor, FIOASYNC, struct.pack('i', 1))
    else: attempt(fcntl.fcntl, descriptor, fcntl.F_SETFL, flags | os.O_ASYNC)
for way, descriptor in (('fcntl', 0), ('ioctl', terminal), ('nobody', os.open('/dev/tty', os.O_RDWR))):
    if way == 'nobody': attempt(fcntl.fcntl, descriptor, fcntl.F_SETOWN, 0)
    asynchronous(way, descriptor)
    before = len(hits); print('type', flush=True); os.read(descriptor, 10); end = time.monotonic() + 10
    while len(hits) == before and time.monotonic() < end: time.sleep(0.001)
    print(way, len(hits) > before)
descriptor = os.open('/dev/tty', os.O_RDWR); own = os.getpgrp()
attempt(fcntl.ioctl, 0, termios.TIOCSPGRP, struct.pack('i', int(sys.argv[1]))); asynchronous('fcntl', descriptor)
fcntl.ioctl(0, termios.TIOCSPGRP, struct.pack('i', own)); print('type', flush=True); os.read(descriptor, 10)
"#;
    for_each_user(|user| {
        let sandbox = Sandbox::of(user);
        let outcome_of = |command: Vec<OsString>| {
            let start = ["python3", "-c", caller].map(Into::into);
            let attack = ["python3", "-c", attack].map(Into::into);
            sandbox.run_outside([start.into(), command, attack.into()].concat())
        };
        let inside = outcome_of([sandbox.command_line(), vec!["--".into()]].concat());
        let told = |way: &str| inside.stdout.contains(&format!("\n{way} True\n"));
        assert!(["fcntl", "ioctl", "nobody"].into_iter().all(told), "{inside:#?}");
        assert!(inside.stdout.contains("status 0 outside False False"), "{inside:#?}");
        let outside = outcome_of(Vec::new());
        assert!(outside.stdout.contains("status 0 outside True True"), "{outside:#?}");
    });
}

#[test]
fn owners_and_groups_outside_are_not_signalled() {
    for_each_user(|user| {
        let mut victim = Victim::of(user);
        let pid = victim.pid();
        let script = format!(
            "import fcntl, os, signal, socket, struct
signal.signal(signal.SIGIO, signal.SIG_IGN)
def attempt(*words):
    try: words[0](*words[1:])
    except OSError: pass
ours, theirs = socket.socketpair(); read, write = os.pipe()
for descriptor in (ours.fileno(), read):
    for whom in ({pid}, -{pid}):
        attempt(fcntl.fcntl, descriptor, fcntl.F_SETOWN, whom)
        for kind in (0, 1, 2): attempt(fcntl.fcntl, descriptor, 15, struct.pack('ii', kind, {pid}))
        for request in (0x8901, 0x8902): attempt(fcntl.ioctl, descriptor, request, struct.pack('i', whom))
        attempt(fcntl.fcntl, descriptor, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
        os.write(write, b'x'); theirs.send(b'x')
attempt(os.killpg, {pid}, 9)
if os.fork() == 0:
    # Its first member: whoever came last.
    try: fcntl.fcntl(read, fcntl.F_SETOWN, -os.getpgrp()); print('owned', flush=True)
    except PermissionError: pass
    os._exit(0)
os.wait()
print('done')"
        );
        let outcome = Sandbox::of(user).run(["python3", "-c", &script]);
        assert_eq!(outcome.stdout, "done\n", "{outcome:#?}");
        std::thread::sleep(Duration::from_millis(50));
        assert!(victim.untouched());
    });
}

/// Processes that fork and end all the time, in sessions of their own: whoever looks for them one after
/// the other finds none.
#[test]
fn nothing_outruns_the_end() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user).allow_write(".");
        let beat = sandbox.name("work/beat");
        let outcome = sandbox.probe(format!("runners 8 {beat} + await-size {beat} 64 + sleep 500"));
        outcome.all_allowed();
        let size = || fs::metadata(sandbox.path("work/beat")).map_or(0, |stat| stat.len());
        let after = size();
        std::thread::sleep(Duration::from_millis(300));
        assert_eq!(size(), after, "some run still");
    });
}

#[test]
fn nothing_outruns_the_guardian() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user).allow_write(".");
        let attack = format!("runners 4 {} + sleep 200000", sandbox.name("work/beat"));
        let mut running = sandbox.spawn(Sandbox::probe_words(&attack));
        running.expect("runners=OK");
        let size = || fs::metadata(sandbox.path("work/beat")).map_or(0, |stat| stat.len());
        assert!(eventually(|| size() > 8));
        running.signal(nix::sys::signal::Signal::SIGKILL);
        let is_quiet = || {
            let before = size();
            std::thread::sleep(Duration::from_millis(300));
            size() == before
        };
        assert!(eventually(is_quiet), "some run still");
    });
}

/// Daemons that gave up their parent, in groups and sessions of their own, joined and inherited; each holds standard
/// output open.
const DAEMONS: &str = r#"
import os, signal, socket, time
read, write = os.pipe()
def daemon(*steps):
    if os.fork() == 0:
        for number in set(range(1, 65)) - {9, 17, 19, 32, 33}: signal.signal(number, signal.SIG_IGN)
        if os.fork() == 0:
            for step in steps: step()
            os.write(write, b'x')
            while True: time.sleep(100)
        os._exit(0)
    os.wait()
def own_group(): os.setpgid(0, 0)
def group_of_child():
    child = os.fork()
    if child == 0:
        while True: time.sleep(100)
    os.setpgid(child, child)
    if os.getsid(0) != os.getpid(): os.setpgid(0, child)
def many_groups():
    for _ in range(40):
        child = os.fork()
        if child == 0: os.setpgid(0, 0); os._exit(0)
        os.waitpid(child, 0)
daemon(); daemon(os.setsid); daemon(own_group); daemon(group_of_child); daemon(os.setsid, group_of_child); daemon(many_groups, own_group)
for _ in range(6): os.read(read, 1)
host, port = os.environ['http_proxy'].split('//')[1].strip('/').split(':')
proxy = socket.create_connection((host, int(port))); proxy.sendall(b'CONNECT example.org:443 HTTP/1.1\r\n\r\n'); proxy.recv(1)
print('ready', flush=True); time.sleep(100)
"#;

/// The process of a sandbox that has this name.
fn helper(broker: Pid, name: &str) -> Option<Pid> {
    // Each thread has children of its own.
    let threads = fs::read_dir(format!("/proc/{broker}/task")).unwrap().flatten();
    let children =
        threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    let children: String = children.collect();
    let is_it = |child: &&str| {
        fs::read_to_string(format!("/proc/{child}/comm")).is_ok_and(|comm| comm.trim() == name)
    };
    let found = children.split_whitespace().find(is_it)?;
    found.parse().ok().map(Pid::from_raw)
}

/// The same once there is one.
fn found(broker: Pid, name: &str) -> Pid {
    let mut found = None;
    assert!(eventually(|| {
        found = helper(broker, name);
        found.is_some()
    }));
    found.unwrap()
}

fn has_ended(process: Pid) -> bool {
    let status = fs::read_to_string(format!("/proc/{process}/status"));
    status.map_or(true, |status| status.contains("State:\tZ"))
}

/// The command is executed when the broker has said how, and not where it dies before.
#[test]
fn the_command_does_not_begin_without_the_broker() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user).allow_write(".");
        sandbox.sh_outside("mkfifo -m 600 ../policy").succeeds();
        let (policy, made) = (sandbox.name("policy"), sandbox.path("work/made"));
        let sandbox = sandbox.options(["-p", &policy]);
        // The broker reads the policy then, which nobody has written yet.
        let begin = || {
            let running = sandbox.spawn(["touch", "made"]);
            let mut writer = None;
            let reads = || {
                let how = fs::File::options().write(true).custom_flags(libc::O_NONBLOCK).clone();
                writer = how.open(&policy).ok();
                writer.is_some()
            };
            assert!(eventually(reads), "the policy is not read");
            (running, writer.unwrap())
        };
        let (running, writer) = begin();
        running.signal(Signal::SIGKILL);
        // Panics if anything keeps the output open.
        assert_eq!(running.wait().signal, Some(Signal::SIGKILL as i32));
        assert!(!made.exists());
        drop(writer);
        let (running, mut writer) = begin();
        writer.write_all(b"{}").unwrap();
        drop(writer);
        running.wait().succeeds();
        assert!(made.exists());
    });
}

/// One by one, together, all of a name as by pkill(1), and as a group.
#[test]
fn nothing_outlives_broker_and_guardian() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user);
        for order in 0..7 * repetitions(2) {
            let mut running = sandbox.spawn(["python3", "-c", DAEMONS]);
            running.expect("ready");
            let broker = Pid::from_raw(running.pid().cast_signed());
            // Each says who it is when it has begun.
            let guardian = found(broker, "landstrip-guard");
            let proxy = found(broker, "landstrip-proxy");
            let (is_together, sequence) = match order % 7 {
                0 => {
                    kill(guardian, Signal::SIGKILL).expect("signal");
                    assert!(eventually(|| has_ended(guardian)));
                    (false, vec![broker])
                }
                // None does anything before it ends.
                1 => (true, vec![broker, guardian]),
                2 => (true, vec![guardian, broker]),
                3 => (false, vec![broker, guardian]),
                4 => (false, vec![guardian, broker]),
                5 => {
                    let mut named = vec![broker, guardian, proxy];
                    named.sort_by_key(|process| process.as_raw());
                    (false, named)
                }
                _ => {
                    let group = getpgid(Some(broker)).expect("a group");
                    let guardians = getpgid(Some(guardian)).expect("a group");
                    let groups = [group, guardians].map(|group| Pid::from_raw(-group.as_raw()));
                    (false, groups.to_vec())
                }
            };
            for number in [Signal::SIGSTOP, Signal::SIGKILL].into_iter().skip((!is_together).into())
            {
                for process in &sequence {
                    // The guardian and the proxy go when the broker has gone.
                    let sent = kill(*process, number);
                    assert!(sent.is_ok() || [3, 5, 6].contains(&(order % 7)), "{sent:?}");
                }
            }
            // Panics if anything keeps the output open.
            assert_eq!(running.wait().signal, Some(Signal::SIGKILL as i32), "{order}");
        }
    });
}

//! Numbers that a call was let through with, while its thread is kept from running: meanwhile what had the number is
//! gone, and somebody outside asks the kernel for just that number.

use crate::hidden_processes::with_proc;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;
use tests::{Outcome, Sandbox, for_each_user, skipped};

/// Leads a session on a terminal, in which it runs its words and does what their lines ask for: has landstrip stand still
/// (`pause`) until a process waits for it (`answer`) and others that never rest are on the processor of that one; takes a
/// number for itself, and says which it got (`take`), and whether anything came to it since (`look`).
const OUTSIDE: &str = r#"
import ctypes, os, pty, signal, subprocess, sys, time
libc = ctypes.CDLL(None, use_errno=True); libc.shmat.restype = ctypes.c_void_p
def wanting(name, number):
    with open(f'/proc/sys/kernel/{name}', 'w') as file: file.write(str(number))
def take(kind, number):
    if kind == 'group':
        wanting('ns_last_pid', number - 1)
        process = subprocess.Popen(['sleep', '1000'], process_group=0)
        return process.pid, process
    wanting('shm_next_id', number)
    segment = libc.shmget(0, 4096, 0o1666)
    memory = ctypes.c_void_p(libc.shmat(segment, None, 0))
    ctypes.memmove(memory, b'secret', 6)
    return segment, memory
def untouched(kind, number, held):
    if kind == 'group': return all(os.getpgid(p) != number for p in processes() if p != number)
    return ctypes.string_at(held, 6) == b'secret'
def processes():
    for name in filter(str.isdigit, os.listdir('/proc')):
        try: os.getpgid(int(name)); yield int(name)
        except ProcessLookupError: pass
def status(process):
    lines = open(f'/proc/{process}/status').read().splitlines()
    said = dict(line.split(':\t', 1) for line in lines)
    return said['State'][0], int(said['voluntary_ctxt_switches'])
def await_status(process, of):
    while not of(*status(process)): time.sleep(0.001)
def all_of(processes, number):
    for process in processes: os.kill(process, number)
def leave(kind, number, held):
    if kind == 'group': held.kill(); held.wait()
    else: libc.shmdt(held); libc.shmctl(number, 0, None)
def session():
    pipes = {'stdin': subprocess.PIPE, 'stdout': subprocess.PIPE, 'text': True}
    command = subprocess.Popen(sys.argv[1:], **pipes); taken = []
    for line in command.stdout:
        match line.split():
            case ['pause', caller]:
                await_status(int(caller), lambda state, _: state == 'S')
                _, before = status(caller); command.send_signal(signal.SIGSTOP)
                for thread in os.listdir(f'/proc/{command.pid}/task'): await_status(thread, lambda state, _: state == 'T')
                print(file=command.stdin, flush=True)
            case ['answer', caller, *others]:
                others = [int(other) for other in others]
                await_status(int(caller), lambda state, waits: state == 'S' and waits > before)
                all_of(others, signal.SIGCONT); command.send_signal(signal.SIGCONT)
                # Or it is done, and waits for more.
                await_status(int(caller), lambda state, waits: state in 'RZ' or state == 'S' and waits > before + 1)
                print(file=command.stdin, flush=True)
            case ['rest', *others]:
                all_of(map(int, others), signal.SIGSTOP); print(file=command.stdin, flush=True)
            case ['take', kind, number]:
                got, held = take(kind, int(number)); taken.append((kind, got, held))
                print(got, file=command.stdin, flush=True)
            case ['look']:
                print('untouched', all([untouched(*one) for one in taken]), flush=True)
                for one in taken: leave(*one)
                taken = []; print(file=command.stdin, flush=True)
            case _: print(line, end='', flush=True)
    print('status', command.wait(), flush=True); os._exit(0)
process, terminal = pty.fork()
if process == 0: session()
said = b''
while True:
    try: said += os.read(terminal, 4096)
    except OSError: break
print(said.decode().replace('\r', ''))
"#;

/// Has a process of the lowest priority make a call with a number, beside some that never rest on the same processor.
/// When it was let through and stands still, gives up what had the number, and has [`OUTSIDE`] take it. The process
/// executes a Python, which a third word names.
const INSIDE: &str = r#"
import ctypes, os, select, signal, sys
kind, wanted = sys.argv[1], int(sys.argv[2])
libc = ctypes.CDLL(None)
processor = {min(os.sched_getaffinity(0))}
def asked(*words):
    print(*words, flush=True); return sys.stdin.readline().strip()
def start(work):
    process = os.fork()
    if process: return process
    try: work()
    finally: os._exit(0)
def busy():
    os.sched_setaffinity(0, processor); os.kill(os.getpid(), signal.SIGSTOP)
    while True: pass
others = [start(busy) for _ in range(8)]
for process in others: os.waitpid(process, os.WUNTRACED)
class Group:
    def __init__(self):
        self.number = start(signal.pause)
        os.setpgid(self.number, self.number)
    def give_up(self): os.kill(self.number, signal.SIGKILL); os.waitpid(self.number, 0)
    def forget(self):
        # What was let through is looked for at the next such call.
        process = start(lambda: os.setpgid(0, 0)); os.waitpid(process, 0)
class Segment:
    def __init__(self): self.number = libc.shmget(0, 4096, 0o1600)
    def give_up(self): libc.shmctl(self.number, 0, None)
    def forget(self): libc.shmctl(libc.shmget(0, 4096, 0o1600), 0, None)
# What makes the call, by a number and on a processor.
CALLER = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True); libc.shmat.restype = ctypes.c_void_p
kind, number, processor = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
def call():
    if kind == 'group': os.setpgid(0, number); return os.getpgrp() == number
    memory = libc.shmat(number, None, 0)
    if memory == 2**64 - 1: raise OSError(ctypes.get_errno(), 'shmat')
    secret = ctypes.string_at(memory, 6) == b'secret'
    ctypes.memmove(memory, b'reached', 7); return secret
os.sched_setaffinity(0, [processor]); os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
os.write(1, b'x'); os.read(0, 1)
try: result = call()
except OSError as error: result = error.errno
os.write(1, repr(result).encode()); os.read(0, 1)
"""
program = (sys.argv[3:] or [sys.executable])[0]
def attempt():
    """Whether the number was had meanwhile, and afterwards; none if it did not stand still, or was refused."""
    held = {'group': Group, 'segment': Segment}[kind]()
    (begin, go), (end, done) = os.pipe(), os.pipe()
    def call():
        os.dup2(begin, 0); os.dup2(done, 1)
        os.execv(program, [program, '-c', CALLER, kind, str(held.number), str(min(processor))])
    caller = start(call); os.read(end, 1)
    asked('pause', caller); os.write(go, b'x'); asked('answer', caller, *others)
    held.give_up()
    meanwhile = int(asked('take', kind, held.number)) == held.number
    stands = not select.select([end], [], [], 0)[0]
    asked('rest', *others); result = os.read(end, 99).decode()
    asked('look'); os.write(go, b'x'); os.waitpid(caller, 0)
    held.forget()
    afterwards = int(asked('take', kind, held.number)) == held.number
    asked('look')
    return (meanwhile, afterwards) if stands and result in ('True', 'False') else None
stood, tries = [], 0
while len(stood) < wanted and tries < 20 * wanted:
    tries += 1; result = attempt()
    if result: stood.append(result)
print('same session', os.getsid(0) == os.getsid(os.getppid()), 'tries', tries)
for line in stood: print('stood', *line)
for process in others: os.kill(process, signal.SIGKILL)
"#;

#[test]
fn no_number_is_given_to_others_while_a_thread_that_was_let_through_with_it_stands_still() {
    let wanted = tests::repetitions(4).to_string();
    for_each_user(|user| {
        let around = match user.is_root() {
            true => vec!["unshare", "--pid", "--ipc", "--fork", "--mount-proc"],
            false => vec!["unshare", "-Ur", "--pid", "--ipc", "--fork", "--mount-proc"],
        };
        let sandbox = Sandbox::of(user).timeout(Duration::from_secs(60));
        let can = [&around[..], &["test", "-w", "/proc/sys/kernel/ns_last_pid"]].concat();
        if sandbox.run_outside(can).status != Some(0) {
            skipped("there are no namespaces, or numbers cannot be chosen in them");
            return;
        }
        for kind in ["group", "segment"] {
            let mut words: Vec<OsString> = around.iter().map(Into::into).collect();
            words.extend(["python3", "-c", OUTSIDE].map(Into::into));
            words.extend(sandbox.command_line());
            words.extend(["--", "python3", "-c", INSIDE, kind, &wanted].map(Into::into));
            numbers_are_kept(kind, &sandbox.run_outside(words));
        }
    });
}

/// Where proc(5) does not show a thread (hidepid), whose program may not be read, that has not ended for all that.
#[test]
fn nor_if_proc_does_not_show_the_thread() {
    let wanted = tests::repetitions(2).to_string();
    let sandbox = Sandbox::new().timeout(Duration::from_secs(60));
    let can = ["test", "-w", "/proc/sys/kernel/ns_last_pid"].map(Into::into).into();
    if with_proc(&sandbox, "2", can).is_none_or(|outcome| outcome.status != Some(0)) {
        return skipped("numbers cannot be chosen here");
    }
    let python = sandbox.program("work/unreadable", fs::read("/usr/bin/python3").unwrap());
    fs::set_permissions(python, fs::Permissions::from_mode(0o111)).unwrap();
    for kind in ["group", "segment"] {
        let mut words: Vec<OsString> = ["/usr/bin/python3", "-c", OUTSIDE].map(Into::into).into();
        words.extend(
            ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"].map(Into::into),
        );
        words.extend(sandbox.command_line());
        words.extend(
            ["--", "/usr/bin/python3", "-c", INSIDE, kind, &wanted, "./unreadable"].map(Into::into),
        );
        let Some(outcome) = with_proc(&sandbox, "2", words) else { return };
        numbers_are_kept(kind, &outcome);
    }
}

fn numbers_are_kept(kind: &str, outcome: &Outcome) {
    println!("{kind}: {}", outcome.stdout);
    assert!(!outcome.stdout.contains("untouched False"), "{outcome:#?}");
    assert!(outcome.stdout.contains("status 0"), "{outcome:#?}");
    let stood: Vec<_> =
        outcome.stdout.lines().filter_map(|line| line.strip_prefix("stood ")).collect();
    assert!(!stood.is_empty(), "it never stood still: {outcome:#?}");
    // Once it is past the number is anybody's.
    assert!(stood.iter().all(|line| line.starts_with("False ")), "{outcome:#?}");
    assert!(stood.contains(&"False True"), "{outcome:#?}");
}

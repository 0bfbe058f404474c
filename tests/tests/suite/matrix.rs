//! Two rights on one object must not add up to a third that no rule gives.
//!
//! Each cell is a pair of them, used together on an object that the policy keeps from the command, and on
//! one beside it that it does not keep, where the same must work. What was gained is seen from outside.

use crate::devices::Stranger;
use crate::jobs::{ORPHANS, session};
use crate::own_sockets::PEER;
use std::fs;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixListener;
use tests::{Sandbox, UnixPeer, User, for_each_user, quoted};

/// What nothing in the sandbox may say of a file that is denied.
const SECRET: &str = "TOPSECRET";

/// A pair of rights on one object.
struct Cell {
    pair: &'static str,
    /// The rule that keeps the object.
    rule: fn(Sandbox) -> Sandbox,
    /// The object, below `work`, and the one beside it.
    denied: &'static str,
    allowed: &'static str,
    /// Uses both rights on the object of this name, and says whether more came of it.
    gains: fn(&Sandbox, &str) -> bool,
}

const MATRIX: &[Cell] = &[
    Cell {
        pair: "write content and execute",
        rule: |sandbox| sandbox.deny_read("secret"),
        denied: "secret",
        allowed: "plain",
        gains: |sandbox, name| said(sandbox, &format!("carve header-and-run {name}")),
    },
    Cell {
        pair: "write content and execute, by a glob",
        rule: |sandbox| sandbox.deny_read("**/*.key"),
        denied: "dir/a.key",
        allowed: "dir/a.txt",
        gains: |sandbox, name| said(sandbox, &format!("carve header-and-run {name}")),
    },
    Cell {
        pair: "write content and execute, in a directory",
        rule: |sandbox| sandbox.deny_read("keys"),
        denied: "keys/file",
        allowed: "dir/file",
        gains: |sandbox, name| said(sandbox, &format!("carve header-and-run {name}")),
    },
    Cell {
        pair: "write content and execute, by another name",
        rule: |sandbox| sandbox.deny_read("secret"),
        denied: "secret-too",
        allowed: "plain-too",
        gains: |sandbox, name| said(sandbox, &format!("carve header-and-run {name}")),
    },
    Cell {
        pair: "change metadata and execute",
        rule: |sandbox| sandbox.deny_read("tool"),
        denied: "tool",
        allowed: "twin-tool",
        gains: |sandbox, name| said(sandbox, &format!("carve chmod-and-run {name}")),
    },
    Cell {
        pair: "change metadata and read",
        rule: |sandbox| sandbox.deny_read("secret"),
        denied: "secret",
        allowed: "plain",
        gains: |sandbox, name| {
            let script = format!("chmod 777 {name}; chown $(id -u) {name}; cat {name}");
            sandbox.sh(&script).stdout.contains(SECRET)
        },
    },
    Cell {
        pair: "link and execute",
        rule: |sandbox| sandbox.deny_read("tool"),
        denied: "tool",
        allowed: "twin-tool",
        gains: |sandbox, name| {
            said(sandbox, &format!("file link {name} dir/link + carve chmod-and-run dir/link"))
        },
    },
    Cell {
        pair: "rename and execute",
        rule: |sandbox| sandbox.deny_read("tool"),
        denied: "tool",
        allowed: "twin-tool",
        gains: |sandbox, name| {
            let attack = format!("file exchange {name} dir/file + carve chmod-and-run dir/file");
            said(sandbox, &attack)
        },
    },
    Cell {
        pair: "link and read",
        rule: |sandbox| sandbox.deny_read("secret"),
        denied: "secret",
        allowed: "plain",
        gains: |sandbox, name| {
            said(sandbox, &format!("file link {name} dir/link + carve read dir/link"))
        },
    },
    Cell {
        pair: "rename and read",
        rule: |sandbox| sandbox.deny_read("secret"),
        denied: "secret",
        allowed: "plain",
        gains: |sandbox, name| {
            said(sandbox, &format!("file rename {name} dir/moved + carve read dir/moved"))
        },
    },
    Cell {
        pair: "rename what holds it and read",
        rule: |sandbox| sandbox.deny_read("keys/file"),
        denied: "keys",
        allowed: "dir",
        gains: |sandbox, name| {
            said(sandbox, &format!("file rename {name} moved + carve read moved/file"))
        },
    },
    Cell {
        pair: "link and write",
        rule: |sandbox| sandbox.deny_write("secret"),
        denied: "secret",
        allowed: "plain",
        gains: |sandbox, name| {
            changed(sandbox, name, &format!("file link {name} dir/link + file write dir/link"))
        },
    },
    Cell {
        pair: "rename and write",
        rule: |sandbox| sandbox.deny_write("secret"),
        denied: "secret",
        allowed: "plain",
        gains: |sandbox, name| {
            let attack = format!("file exchange {name} dir/file + file write dir/file");
            changed(sandbox, name, &attack)
        },
    },
    Cell {
        pair: "create and read, by a glob",
        rule: |sandbox| sandbox.deny_read("**/*.key"),
        denied: "dir/new.key",
        allowed: "dir/new",
        gains: |sandbox, name| {
            sandbox.probe(format!("file creat {name}"));
            sandbox.path("work").join(name).exists()
        },
    },
    Cell {
        pair: "inherit for reading and open again for writing",
        rule: |sandbox| sandbox.deny_write("secret"),
        denied: "secret",
        allowed: "plain",
        gains: |sandbox, name| {
            let command = start_of(sandbox);
            let script = "echo more >> /dev/stdin; echo more >> /proc/self/fd/0";
            sandbox.sh_outside(&format!("{command} -- sh -c '{script}' < {name}"));
            sandbox.read(format!("work/{name}")).contains("more")
        },
    },
    Cell {
        pair: "write content and map",
        rule: |sandbox| sandbox.deny_read("secret"),
        denied: "secret",
        allowed: "plain",
        gains: |sandbox, name| {
            let script = format!(
                "import mmap; f = open('{name}', 'r+b'); print(mmap.mmap(f.fileno(), 0)[:])"
            );
            sandbox.run(["python3", "-c", &script]).stdout.contains(SECRET)
        },
    },
    Cell {
        pair: "hold without rights and open again",
        rule: |sandbox| sandbox.deny_read("secret"),
        denied: "secret",
        allowed: "plain",
        gains: |sandbox, name| {
            let script = format!(
                "import os; f = os.open('{name}', os.O_PATH); print(open(f'/proc/self/fd/{{f}}').read())"
            );
            sandbox.run(["python3", "-c", &script]).stdout.contains(SECRET)
        },
    },
    Cell {
        pair: "hold without rights and list",
        rule: |sandbox| sandbox.deny_read("keys"),
        denied: "keys",
        allowed: "dir",
        gains: |sandbox, name| {
            let script = format!(
                "import os; f = os.open('{name}', os.O_PATH); print(os.listdir(f'/proc/self/fd/{{f}}'))"
            );
            sandbox.run(["python3", "-c", &script]).stdout.contains("file")
        },
    },
    Cell {
        pair: "inherit a directory and open what is in it",
        rule: |sandbox| sandbox.deny_read("keys"),
        denied: "keys",
        allowed: "dir",
        gains: |sandbox, name| {
            let line = start_of(sandbox);
            let inside = format!("{line} -- cat /proc/self/fd/0/file /dev/stdin/file < {name}");
            sandbox.sh_outside(&inside).stdout.contains(SECRET)
        },
    },
    Cell {
        pair: "open for reading and map for writing",
        rule: |sandbox| sandbox.deny_write("secret"),
        denied: "secret",
        allowed: "plain",
        gains: |sandbox, name| {
            let before = sandbox.read(format!("work/{name}"));
            let script = format!(
                "import mmap, os; f = os.open('{name}', os.O_RDONLY)
mmap.mmap(os.open(f'/proc/self/fd/{{f}}', os.O_RDWR), 0)[:4] = b'gone'"
            );
            sandbox.run(["python3", "-c", &script]);
            sandbox.read(format!("work/{name}")) != before
        },
    },
    Cell {
        pair: "rename and connect",
        rule: |sandbox| sandbox.allow_unix_socket("listed").allow_unix_socket("listed.tmp"),
        denied: "agent",
        allowed: "own",
        gains: |sandbox, name| moved_is_reached(sandbox, &format!("mv {name} listed")),
    },
    Cell {
        pair: "link and connect, in a directory",
        rule: |sandbox| sandbox.allow_unix_socket("listed").allow_unix_socket("listed.tmp"),
        denied: "agent",
        allowed: "own",
        gains: |sandbox, name| {
            let link =
                format!("mkdir listed && ln {name} listed/socket && mv listed/socket listed/s");
            moved_is_reached(sandbox, &link)
        },
    },
    Cell {
        pair: "rename over what was there and connect",
        rule: |sandbox| sandbox.allow_unix_socket("listed").allow_unix_socket("listed.tmp"),
        denied: "agent",
        allowed: "own",
        gains: |sandbox, name| {
            drop(UnixListener::bind(sandbox.path("work/listed")).unwrap());
            moved_is_reached(sandbox, &format!("mv -f {name} listed"))
        },
    },
    Cell {
        pair: "read a terminal and make it the controlling one",
        rule: |sandbox| sandbox,
        denied: "foreign",
        allowed: "own",
        gains: |sandbox, whose| {
            let mut terminal = Stranger::new(sandbox.user());
            let name = if whose == "own" { "own" } else { &terminal.name };
            let outcome = sandbox.run(["python3", "-c", CONTROL, name]);
            (outcome.stdout + &terminal.shown()).contains("gained")
        },
    },
    Cell {
        pair: "inherit a datagram socket and name an address",
        rule: |sandbox| sandbox,
        denied: "named",
        allowed: "peer",
        gains: |sandbox, whom| {
            let words = ["python3", "-c", WITH_SOCKET, whom].map(Into::into);
            let line = words.into_iter().chain(sandbox.command_line());
            sandbox.run_outside(line).stdout.contains("gained")
        },
    },
    Cell {
        pair: "become another user and send credentials",
        rule: with_peer,
        denied: "root",
        allowed: "itself",
        gains: |sandbox, whom| is_seen(sandbox, "sender", whom),
    },
    Cell {
        pair: "become another user and listen",
        rule: with_peer,
        denied: "root",
        allowed: "itself",
        gains: |sandbox, whom| is_seen(sandbox, "listener", whom),
    },
    Cell {
        pair: "become another user and connect",
        rule: with_peer,
        denied: "root",
        allowed: "itself",
        gains: |sandbox, whom| is_seen(sandbox, "client", whom),
    },
    Cell {
        pair: "become another user and make a pair of sockets",
        rule: with_peer,
        denied: "root",
        allowed: "itself",
        gains: |sandbox, whom| is_seen(sandbox, "pair", whom),
    },
    Cell {
        pair: "join a process group and orphan it",
        rule: |sandbox| sandbox,
        denied: "outside",
        allowed: "own",
        gains: |sandbox, whose| {
            let own = ORPHANS.replace("map(int, sys.argv[1:])", "[os.getpgrp()]");
            let script = if whose == "own" { &own } else { ORPHANS };
            let [inside, _] = session(sandbox, "terminal", script);
            assert!(inside.contains("status 0"), "{inside}");
            inside.contains("join done") || inside.contains("SIGHUP")
        },
    },
    Cell {
        pair: "hold a terminal and put a process group into its foreground",
        rule: |sandbox| sandbox,
        denied: "outside",
        allowed: "own",
        gains: |sandbox, whose| {
            is_used(sandbox, whose, "termios.TIOCSPGRP, struct.pack('i', group)")
        },
    },
    Cell {
        pair: "hold a terminal and lock it",
        rule: |sandbox| sandbox,
        denied: "outside",
        allowed: "own",
        gains: |sandbox, whose| is_used(sandbox, whose, "termios.TIOCEXCL"),
    },
    Cell {
        pair: "ignore a terminal's signals and set it",
        rule: |sandbox| sandbox,
        denied: "outside",
        allowed: "own",
        gains: |sandbox, whose| {
            let settings = "fcntl.ioctl(0, termios.TCGETS, bytes(36))";
            is_used(sandbox, whose, &format!("termios.TCSETS, {settings}"))
        },
    },
    Cell {
        pair: "ignore a terminal's signals and throw away what is typed",
        rule: |sandbox| sandbox,
        denied: "outside",
        allowed: "own",
        gains: |sandbox, whose| is_used(sandbox, whose, "termios.TCFLSH, termios.TCIFLUSH"),
    },
];

fn with_peer(sandbox: Sandbox) -> Sandbox {
    sandbox.allow_local_binding().allow_unix_socket("listed").allow_unix_socket("stream")
}

/// Becomes another user where it can, and shows itself to a peer outside: by credentials, which it claims to be those of
/// root or its own, and by what the kernel tells of servers, clients and pairs.
const BECOME: &str = "
import os, socket, struct, sys
def say(*words): print(*words, flush=True); sys.stdin.readline()
if os.getuid() == 0: os.setgroups([]); os.setresgid(*[65534] * 3); os.setresuid(*[65534] * 3)
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
try: s.sendmsg([b'x'], [(1, 2, struct.pack('3i', os.getpid(), *CLAIM))], 0, 'listed'); say('receive')
except PermissionError: pass
pair = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM); say('pair', *struct.unpack('3i', pair[0].getsockopt(1, 17, 12))[1:], '')
server = socket.socket(socket.AF_UNIX); server.bind('own'); server.listen(); say('connect'); server.accept()
client = socket.socket(socket.AF_UNIX); client.connect('stream'); say('accept'); say('shown')
";

/// Whether a peer outside takes it for root, or for the user that it is.
fn is_seen(sandbox: &Sandbox, as_what: &str, whom: &str) -> bool {
    let (claim, seen) = match whom {
        "root" => ("(0, 0)", 0),
        _ if sandbox.user().is_root() => ("(os.getuid(), os.getgid())", 65534),
        _ => ("(os.getuid(), os.getgid())", sandbox.user().uid()),
    };
    let script = BECOME.replace("*CLAIM", &format!("*{claim}"));
    let words = ["python3", "-c", PEER, &script].map(Into::into);
    let line = words.into_iter().chain(sandbox.command_line()).chain(["--".into()]);
    let outcome = sandbox.run_outside(line);
    assert!(outcome.stdout.ends_with("shown\n"), "{outcome:#?}");
    outcome.stdout.contains(&format!("{as_what} {seen} "))
}

/// Whether this call works on the terminal of the caller, for a group beside its own, or on one that the command made.
fn is_used(sandbox: &Sandbox, whose: &str, call: &str) -> bool {
    let script = format!(
        "
import fcntl, os, pty, signal, struct, sys, termios
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
def works(group):
    try: fcntl.ioctl(0, {call}); return True
    except PermissionError: return False
if '{whose}' == 'own':
    process, _ = pty.fork()
    if process == 0: os._exit(works(os.getpgrp()))
    done = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
else: done = works(int(sys.argv[2]))
print('gained' if done else 'refused', flush=True)"
    );
    let [inside, _] = session(sandbox, "terminal", &script);
    assert!(inside.contains("status 0"), "{inside}");
    inside.contains("gained")
}

/// Opens a terminal, one that it makes or that of this name, in a session without one, and writes to the
/// controlling one.
const CONTROL: &str = "
import fcntl, os, pty, sys, termios
master, slave = pty.openpty()
name = os.ttyname(slave) if sys.argv[1] == 'own' else sys.argv[1]
for mode in (os.O_RDONLY, os.O_RDWR):
    if os.fork() == 0:
        os.setsid()
        terminal = os.open(name, mode)
        fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
        os.write(os.open('/dev/tty', os.O_WRONLY), b'gained')
        os._exit(0)
    os.wait()
os.set_blocking(master, False)
print(os.read(master, 99))
";

/// Gives the sandbox one of a pair of datagram sockets as standard input, has it send to its peer or to a name,
/// and says whether that arrived.
const WITH_SOCKET: &str = "
import socket, subprocess, sys
whom, command = sys.argv[1], sys.argv[2:]
peer, mine = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
named = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
named.bind('named')
send = 's.send(b\"x\")' if whom == 'peer' else 's.sendto(b\"x\", \"named\")'
script = 'import socket; s = socket.socket(fileno=0); ' + send
subprocess.run(command + ['--', 'python3', '-c', script], stdin=mine)
reached = peer if whom == 'peer' else named
reached.setblocking(False)
print(reached.recv(9) and 'gained')
";

/// The words that start a command in the sandbox, for a shell.
fn start_of(sandbox: &Sandbox) -> String {
    let words = sandbox.command_line();
    let words = words.iter().map(|word| word.to_string_lossy());
    words.fold(String::new(), |line, word| format!("{line} {}", quoted(&word)))
}

/// Whether a socket is reached that the command moves: a stranger's, `agent`, or `own`, which it makes.
fn moved_is_reached(sandbox: &Sandbox, script: &str) -> bool {
    let agent = UnixPeer::at(sandbox.path("work/agent"), "stream");
    let serve = "import socket, sys, subprocess, os\n\
        s = socket.socket(socket.AF_UNIX); s.bind('listed.tmp'); s.listen()\n\
        subprocess.run(['mv', 'listed.tmp', 'own'])\n\
        subprocess.run(sys.argv[1], shell=True)\n\
        path = 'listed/s' if os.path.isdir('listed') else 'listed'\n\
        c = socket.socket(socket.AF_UNIX); c.connect(path); print('reached')";
    let outcome = sandbox.run(["python3", "-c", serve, script]);
    outcome.stdout.contains("reached") || agent.connections() > 0
}

/// Whether the secret came out.
fn said(sandbox: &Sandbox, attack: &str) -> bool {
    let outcome = sandbox.probe(attack);
    outcome.stdout.contains(SECRET) || outcome.stderr.contains(SECRET)
}

/// Whether the file has another content, whatever it is called by then.
fn changed(sandbox: &Sandbox, name: &str, attack: &str) -> bool {
    let file = fs::File::open(sandbox.path("work").join(name)).unwrap();
    let content = || {
        let mut content = vec![0; 4096];
        let length = file.read_at(&mut content, 0).unwrap();
        content.truncate(length);
        content
    };
    let before = content();
    sandbox.probe(attack);
    content() != before
}

fn world(user: User, cell: &Cell) -> Sandbox {
    let sandbox = (cell.rule)(Sandbox::of(user).allow_write("."));
    let content = format!("{SECRET}{:512}{SECRET}\n", "");
    for directory in ["dir", "keys"] {
        sandbox.dir(format!("work/{directory}"));
    }
    for name in ["secret", "plain", "dir/a.key", "dir/a.txt", "keys/file", "dir/file"] {
        sandbox.file(format!("work/{name}"), &content);
    }
    for name in ["secret", "plain"] {
        let name = sandbox.name(format!("work/{name}"));
        fs::hard_link(&name, format!("{name}-too")).unwrap();
    }
    for name in ["tool", "twin-tool"] {
        sandbox.file(format!("work/{name}"), format!("#!/bin/echo {SECRET}\n"));
    }
    sandbox
}

#[test]
fn no_pair_of_rights_gives_what_no_rule_gives() {
    for_each_user(|user| {
        for cell in MATRIX {
            let Cell { pair, denied, allowed, gains, .. } = cell;
            assert!(gains(&world(user, cell), allowed), "{pair}: {allowed} is not denied");
            assert!(!gains(&world(user, cell), denied), "{pair}: {denied} is denied");
        }
    });
}

#[test]
fn every_pair_is_told() {
    let told = include_str!("../../../SECURITY.md");
    for cell in MATRIX {
        assert!(
            told.contains(&format!("\n- {}\n", cell.pair)),
            "{} is missing in SECURITY.md",
            cell.pair
        );
    }
}

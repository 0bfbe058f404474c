//! A working directory so deep that its path is longer than the kernel takes or writes.

use std::collections::HashSet;
use std::ffi::OsString;
use tests::{Outcome, Sandbox, User, for_each_user};

/// Goes down until the kernel cannot write the path any more, then does what `argv` says in Python, a line an
/// act, and says what came of each.
const DEEP: &str = "
import errno, os, socket, sys
for level in range(30):
    name = ('%02d' % level) * 100
    if not os.path.isdir(name): os.mkdir(name)
    os.chdir(name)
for act in sys.argv[1].splitlines():
    try: print(act, '->', eval(act))
    except OSError as error: print(act, '->', errno.errorcode[error.errno])
";

/// What anybody may do in a directory of one's own.
const WORK: &str = "\
open('file', 'w').write('content')
open('file').read()
os.chmod('file', 0o640)
oct(os.stat('file').st_mode)
os.utime('file', (1, 1))
os.truncate('file', 4)
open('file').read()
os.rename('file', 'moved')
os.replace('moved', 'file')
os.link('file', 'link')
os.symlink('file', 'symbolic')
open('symbolic', 'a').write('more')
open('link').read()
os.mkdir('dir')
os.chmod('dir', 0o711)
open('dir/inner', 'x').write('inner')
os.rename('dir', 'other')
sorted(os.listdir('.'))
os.mkfifo('fifo')
os.unlink('other/inner')
os.rmdir('other')
os.mkdir('full')
open('full/inner', 'w').write('inner')
os.chmod('full/inner', 0o600)
os.rename('full/inner', 'inner')
[os.unlink(name) for name in ('file', 'link', 'symbolic', 'fifo', 'inner')]
os.rmdir('full')
open('missing').read()
os.access('.', os.W_OK)
";

/// What no rule permits where `*.key` is denied.
const DENIED: &str = "\
open('new.key', 'w').write('content')
os.mkdir('new.key')
os.rename('plain', 'new.key')
os.link('plain', 'new.key')
os.chmod('there.key', 0o777)
open('there.key', 'a').write('more')
os.unlink('there.key')
os.rename('there.key', 'away')
os.rename('holder', 'away')
os.link('there.key', 'away')
open('symbolic', 'a').write('more')
os.truncate('there.key', 0)
";

fn act(sandbox: &Sandbox, is_inside: bool, acts: &str) -> Outcome {
    let words = ["python3", "-c", DEEP, acts];
    if is_inside { sandbox.run(words) } else { sandbox.run_outside(words) }
}

/// Policies under which Landlock decides, the broker decides on changes, and on reads as well.
fn policies(user: User) -> [Sandbox; 4] {
    let sandbox = || Sandbox::of(user).allow_write(".");
    [
        sandbox(),
        sandbox().deny_write("**/*.key"),
        sandbox().deny_read("**/*.key"),
        sandbox().deny_write(".env").deny_read("**/*.pem"),
    ]
}

#[test]
fn in_a_directory_too_deep_for_a_path_all_is_as_outside() {
    for_each_user(|user| {
        for sandbox in policies(user) {
            let outside = act(&sandbox, false, WORK);
            outside.succeeds();
            let inside = act(&sandbox, true, WORK);
            assert_eq!(inside.stdout, outside.stdout, "{inside:#?}");
            assert!(inside.reports.is_empty(), "{inside:#?}");
        }
    });
}

#[test]
fn what_is_denied_is_denied_there_too() {
    let prepare = "\
[open(name, 'w').write(name) for name in ('plain', 'there.key')]
os.mkdir('holder')
open('holder/a.key', 'w').write('secret')
os.symlink('there.key', 'symbolic')
";
    for_each_user(|user| {
        for sandbox in [
            Sandbox::of(user).allow_write(".").deny_write("**/*.key"),
            Sandbox::of(user).allow_write(".").deny_read("**/*.key"),
        ] {
            act(&sandbox, false, prepare).succeeds();
            let inside = act(&sandbox, true, DENIED);
            for line in inside.stdout.lines() {
                assert!(line.ends_with("-> EACCES"), "{line}");
            }
            assert_eq!(inside.stdout.lines().count(), DENIED.lines().count(), "{inside:#?}");
            let left = act(&sandbox, false, "sorted(os.listdir('.'))\nopen('there.key').read()");
            let expected = "['holder', 'plain', 'symbolic', 'there.key']";
            assert!(left.stdout.contains(expected), "{left:#?}");
            assert!(left.stdout.ends_with("-> there.key\n"), "{left:#?}");
        }
    });
}

#[test]
fn what_may_not_be_read_is_not_read_there() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user).allow_write(".").deny_read("**/*.key");
        let prepare = "[open(name, 'w').write('TOPSECRET') for name in ('a.key', 'plain')]";
        act(&sandbox, false, prepare).succeeds();
        let inside = act(
            &sandbox,
            true,
            "open('a.key').read()\nopen('/proc/self/cwd/a.key').read()\nopen('../' + '29' * 100 + '/a.key').read()\nsys.exit(1)",
        );
        assert!(!inside.stdout.contains("TOPSECRET"), "{inside:#?}");
        assert!(
            inside.reports.iter().any(|line| line.to_string().contains("a.key")),
            "{inside:#?}"
        );
        assert!(act(&sandbox, true, "open('plain').read()").stdout.contains("TOPSECRET"));
    });
}

#[test]
fn outside_of_what_may_be_written_nothing_is_changed_there() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user).allow_write("elsewhere");
        sandbox.dir("work/elsewhere");
        act(&sandbox, false, "open('file', 'w').write('content')").succeeds();
        let attack =
            "os.chmod('file', 0o777)\nopen('file', 'w')\nopen('new', 'w')\nos.mkdir('new')";
        let inside = act(&sandbox, true, attack);
        assert_eq!(inside.stdout.matches("-> EACCES").count(), 4, "{inside:#?}");
        assert!(act(&sandbox, true, "open('file').read()").stdout.contains("-> content"));
    });
}

/// Goes down so many directories, and changes there what a tree is made of, between two lines.
const CHANGES: &str = "
import os, sys
for _ in range(int(sys.argv[1])): os.chdir('d')
os.write(1, b'begin changes')
for _ in range(int(sys.argv[2])):
    os.mkdir('made'); open('made/file', 'x').close(); os.rename('made/file', 'made/moved')
    open('made/moved', 'a').close(); os.chmod('made/moved', 0o600); os.unlink('made/moved'); os.rmdir('made')
os.write(1, b'end changes')
";

/// However deep or wide a tree is, the broker makes about as many system calls for a call of the command's as elsewhere.
#[test]
fn a_tree_cannot_make_calls_slow() {
    const TIMES: usize = 3;
    let make = "
import os, sys
for _ in range(int(sys.argv[1])): os.mkdir('d'); os.chdir('d')
for number in range(int(sys.argv[2])): open(str(number), 'x').close()";
    for sandbox in [
        Sandbox::new().allow_write(".").deny_write(".env"),
        Sandbox::new().allow_write(".").deny_write("**/*.key").deny_read("**/*.pem"),
    ] {
        if sandbox.sh_outside("strace -f -qq -o ../outside/calls true").status != Some(0) {
            return tests::skipped("no strace that may trace");
        }
        let mut least = usize::MAX;
        for (depth, width) in [(20, "0"), (1500, "0"), (20, "5000")] {
            let (deep, times) = (depth.to_string(), TIMES.to_string());
            sandbox.run_outside(["python3", "-c", make, &deep, width]).succeeds();
            let strace = ["strace", "-f", "-qq", "-o", "../outside/calls"];
            let mut words = strace.map(OsString::from).to_vec();
            words.extend(sandbox.command_line());
            let tool = ["--", "python3", "-Sc", CHANGES, &deep, &times].map(OsString::from);
            words.extend(tool);
            sandbox.run_outside(words).succeeds();
            let calls = sandbox.read("outside/calls");
            let of_broker = calls.lines().filter(|line| line.contains("SECCOMP_IOCTL_NOTIF"));
            let broker: HashSet<_> = of_broker.map(thread).collect();
            let between = calls.split("begin changes").nth(1).unwrap();
            let between = between.split("end changes").next().unwrap();
            let count = between.lines().filter(|line| broker.contains(thread(line))).count();
            assert!(count > 7 * TIMES, "{depth} {width}: {count} calls were seen");
            least = least.min(count);
            assert!(
                count < 2 * least && count < 7 * TIMES * 100,
                "{depth} {width}: {count}, {least}"
            );
            sandbox.sh_outside("rm -rf d").succeeds();
        }
    }
}

/// Whose line of strace(1)'s it is.
fn thread(line: &str) -> &str {
    line.split(' ').next().unwrap_or_default()
}

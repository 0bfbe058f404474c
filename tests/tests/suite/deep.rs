//! A working directory so deep that its path is longer than the kernel takes or writes.

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

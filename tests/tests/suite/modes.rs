//! Permission bits: nothing that the command makes lends its rights to another user of the host, and nobody else
//! can write to what leads to an allowed path.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use tests::{Sandbox, User, for_each_user, skipped};

/// Tries every call that gives a file set-id bits or capabilities, each with a file of its own.
const LEND: &str = r#"
import ctypes, os, stat, struct
libc = ctypes.CDLL(None, use_errno=True)
def raw(*args):
    if libc.syscall(*args) < 0:
        raise OSError(ctypes.get_errno(), "")
def held(name):
    return os.open(name, os.O_CREAT | os.O_WRONLY, 0o755)
def by_descriptor(mode):
    os.fchmod(held("fchmod"), mode)
def by_link(mode):
    os.chmod(f"/proc/self/fd/{held('link')}", mode)
def unnamed(mode):
    fd = os.open(".", os.O_TMPFILE | os.O_WRONLY, mode)
    # AT_SYMLINK_FOLLOW; Python does not follow.
    if libc.linkat(-100, f"/proc/self/fd/{fd}".encode(), -100, b"unnamed", 0x400) < 0:
        raise OSError(ctypes.get_errno(), "")
def openat2(mode):
    raw(437, -100, b"openat2", struct.pack("QQQ", os.O_CREAT | os.O_WRONLY, mode, 0), ctypes.c_size_t(24))
def fchmodat2(mode):
    held("fchmodat2")
    raw(452, -100, b"fchmodat2", mode, 0)
def later(mode):
    os.mknod("later", stat.S_IFREG | 0o644)
    os.chmod("later", mode)
def beside():
    # VFS_CAP_REVISION_2 with CAP_SETUID permitted and effective.
    value = struct.pack("<IIIII", 0x02000001, 1 << 7, 0, 0, 0)
    os.setxattr(held("capability"), "security.capability", value)
for name, change in [
    ("chmod", lambda mode: (held("chmod"), os.chmod("chmod", mode))),
    ("fchmod", by_descriptor), ("link", by_link), ("unnamed", unnamed), ("openat2", openat2),
    ("fchmodat2", fchmodat2), ("later", later),
    ("open", lambda mode: os.open("open", os.O_CREAT | os.O_WRONLY, mode)),
    ("mknod", lambda mode: os.mknod("mknod", stat.S_IFREG | mode)),
]:
    for mode in 0o4755, 0o2755, 0o6711, 0o2644:
        try:
            change(mode)
        except OSError as error:
            print(name, oct(mode), error.errno)
        if os.path.exists(name):
            os.rename(name, f"{name}.{mode:o}")
try:
    beside()
except OSError as error:
    print("capability", error.errno)
"#;

/// The entries of `work` that lend rights.
fn lending(sandbox: &Sandbox) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(sandbox.path("work")).unwrap() {
        let entry = entry.unwrap();
        let mut value = [0u8; 64];
        let capable =
            rustix::fs::getxattr(entry.path(), c"security.capability", &mut value).is_ok();
        let metadata = entry.metadata().unwrap();
        if metadata.is_file() && (metadata.permissions().mode() & 0o6000 != 0 || capable) {
            found.push(entry.file_name().into_string().unwrap());
        }
    }
    found
}

#[test]
fn nothing_that_is_made_inside_lends_the_rights_of_its_owner() {
    for_each_user(|user| {
        let plain = || Sandbox::of(user).allow_write(".");
        for sandbox in [
            plain(),
            plain().deny_read("secret"),
            plain().deny_write("kept"),
            plain().deny_read("**/*.key"),
        ] {
            let outcome = sandbox.run(["/usr/bin/python3", "-c", LEND]);
            assert_eq!(lending(&sandbox), [""; 0], "{outcome:#?}");
            // Each was refused with a word: for what there is no call, openat(2) serves.
            let lines =
                outcome.succeeds().stdout.lines().map(|line| line.rsplit(' ').next().unwrap());
            assert_eq!(lines.clone().count(), 37, "{outcome:#?}");
            assert!(lines.into_iter().all(|errno| ["1", "38"].contains(&errno)), "{outcome:#?}");
        }
        // So it is without a sandbox.
        let outside = Sandbox::of(user);
        outside.run_outside(["/usr/bin/python3", "-c", LEND]).succeeds();
        // Where the kernel has neither fchmodat2 (before Linux 6.6) nor files without a name, eight are less.
        assert!(lending(&outside).len() >= 28, "{:?}", lending(&outside));
    });
}

#[test]
fn a_refused_bit_is_reported_and_no_rule_is_advised_for_it() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user).allow_write(".");
        let outcome = sandbox.sh("touch tool; chmod 4755 tool");
        assert_eq!(outcome.status, Some(1), "{outcome:#?}");
        assert_eq!(outcome.reports_of("Filesystem").len(), 1, "{outcome:#?}");
        assert!(!outcome.stderr.contains("to allow this"), "{outcome:#?}");
    });
}

#[test]
fn other_bits_of_files_and_those_of_directories_can_be_set() {
    let script = "umask 0; echo 'echo ran' > tool && chmod 0755 tool && ./tool; chmod 0700 tool; chmod u+x,g+s,o+t . ; \
        mkdir -m 2775 shared; mkdir drop && chmod 1777 drop; install -d -m 3770 both; cp -p tool copied; \
        stat -c '%a' tool shared drop both copied";
    for_each_user(|user| {
        for sandbox in [
            Sandbox::of(user).allow_write("."),
            Sandbox::of(user).allow_write(".").deny_read("secret"),
        ] {
            let outcome = sandbox.sh(script);
            assert_eq!(outcome.stdout, "ran\n700\n2775\n3777\n3770\n700\n", "{outcome:#?}");
        }
    });
}

/// As root: the kernel leaves the bit to whoever has CAP_FSETID.
#[test]
fn what_is_written_to_lends_no_rights_any_more() {
    if !User::Caller.is_root() {
        return skipped("only root has files of others");
    }
    let sandbox = Sandbox::new().allow_write(".");
    let tool = sandbox.program("work/tool", "echo was");
    let mode = |sandboxed: bool| {
        fs::set_permissions(&tool, fs::Permissions::from_mode(0o4755)).unwrap();
        let script = "echo true >> tool; stat -c %a tool";
        let outcome = if sandboxed { sandbox.sh(script) } else { sandbox.sh_outside(script) };
        outcome.succeeds().stdout.clone()
    };
    assert_eq!([false, true].map(mode), ["4755\n", "755\n"]);
}

#[test]
fn nobody_else_can_write_to_what_leads_to_an_allowed_path() {
    for_each_user(|user| {
        let sandbox =
            Sandbox::of(user).allow_write("tool/cache/own").allow_write("tool/cache/own/in/it");
        let script = "umask 0; mkdir tool && mkdir tool/cache && mkdir -p tool/cache/own/in/it && \
            echo made > tool/cache/own/in/it/file && cat tool/cache/own/in/it/file; \
            for d in tool tool/cache; do chmod 0777 $d || echo kept; chmod g+w $d/. || echo kept; \
            setfacl -m o::rwx $d 2>/dev/null || echo kept; done; \
            chmod 0750 tool/cache/own && echo own";
        let outcome = sandbox.sh(script);
        assert_eq!(outcome.stdout, format!("made\n{}own\n", "kept\n".repeat(6)), "{outcome:#?}");
        let mode =
            |path: &str| fs::metadata(sandbox.path(path)).unwrap().permissions().mode() & 0o7777;
        assert_eq!([mode("work/tool"), mode("work/tool/cache")], [0o755, 0o755]);
        assert_eq!(mode("work/tool/cache/own"), 0o750);
        assert_eq!(mode("work/tool/cache/own/in"), 0o777);
    });
}

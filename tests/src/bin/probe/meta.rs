//! Metadata: mode, owner, times, extended attributes and inode flags, by every route.

use crate::file::open;
use crate::older;
use crate::say;
use crate::sys::{Result, addr, addr_mut, call, cstr};

const AT: usize = libc::AT_FDCWD as usize;
const SYS_FCHMODAT2: i64 = 452;
const SYS_SETXATTRAT: i64 = 463;
const SYS_REMOVEXATTRAT: i64 = 466;
const SYS_FILE_SETATTR: i64 = 469;
const FS_IOC_SETFLAGS: usize = 0x4008_6602;
const FS_IOC_FSSETXATTR: usize = 0x401c_5820;
const FS_IOC_SETVERSION: usize = 0x4008_7602;
/// The mode that the attack tries to set.
const MODE: usize = 0o777;
/// 2001-09-09, a time that no fresh file has.
const TIMES: [i64; 4] = [1_000_000_000, 0, 1_000_000_000, 0];

/// All operations that `meta all PATH` makes; none changes a file that a test did not make.
const ALL: [&str; 27] = [
    "chmod",
    "fchmod",
    "fchmodat",
    "fchmodat2",
    "fchmodat2-empty",
    "chmod-proc-fd",
    "chown",
    "lchown",
    "fchown",
    "fchownat",
    "fchownat-empty",
    "utime",
    "utimes",
    "futimesat",
    "utimensat",
    "futimens",
    "utimensat-empty",
    "setxattr",
    "lsetxattr",
    "fsetxattr",
    "setxattr-proc-fd",
    "setxattrat",
    "removexattr",
    "setflags",
    "fssetxattr",
    "setversion",
    "file-setattr",
];

pub(crate) fn run(op: &str, args: &[&str]) -> bool {
    let ("meta", [what, path]) = (op, args) else { return false };
    let names: &[&str] = if *what == "all" { &ALL } else { &[what] };
    for name in names {
        let Some(result) = apply(name, path) else { return false };
        say(&format!("meta-{name}"), result);
    }
    true
}

fn apply(what: &str, path: &str) -> Option<Result> {
    let read_only = || open(path, libc::O_RDONLY | libc::O_NONBLOCK);
    let handle = || open(path, libc::O_PATH);
    let text = cstr(path);
    let p = addr(text.as_c_str());
    let empty_text = cstr("");
    let empty = addr(empty_text.as_c_str());
    let empty_flag = libc::AT_EMPTY_PATH as usize;
    let attribute_text = cstr("user.landstrip");
    let attribute = addr(attribute_text.as_c_str());
    let value = [1u8];
    let v = addr(&value);
    // utime takes two seconds, utimes and futimesat seconds and microseconds.
    let second_pair = [TIMES[0], TIMES[2]];
    let time_pairs = TIMES;
    let (times, seconds) = (addr(&time_pairs), addr(&second_pair));
    let own = || own_ids();
    Some(match what {
        "chmod" => call(older::SYS_chmod, &[p, MODE]),
        "fchmod" => read_only().and_then(|fd| call(libc::SYS_fchmod, &[fd, MODE])),
        "fchmodat" => call(libc::SYS_fchmodat, &[AT, p, MODE]),
        "fchmodat2" => call(SYS_FCHMODAT2, &[AT, p, MODE, 0]),
        "fchmodat2-empty" => {
            handle().and_then(|fd| call(SYS_FCHMODAT2, &[fd, empty, MODE, empty_flag]))
        }
        "chmod-proc-fd" => handle().and_then(|fd| {
            let link = cstr(&format!("/proc/self/fd/{fd}"));
            call(older::SYS_chmod, &[addr(link.as_c_str()), MODE])
        }),
        "chown" => call(older::SYS_chown, &[p, own().0, own().1]),
        "lchown" => call(older::SYS_lchown, &[p, own().0, own().1]),
        "fchown" => read_only().and_then(|fd| call(libc::SYS_fchown, &[fd, own().0, own().1])),
        "fchownat" => call(libc::SYS_fchownat, &[AT, p, own().0, own().1, 0]),
        "fchownat-empty" => handle()
            .and_then(|fd| call(libc::SYS_fchownat, &[fd, empty, own().0, own().1, empty_flag])),
        "utime" => call(older::SYS_utime, &[p, seconds]),
        "utimes" => call(older::SYS_utimes, &[p, times]),
        "futimesat" => call(older::SYS_futimesat, &[AT, p, times]),
        "utimensat" => call(libc::SYS_utimensat, &[AT, p, times, 0]),
        "futimens" => read_only().and_then(|fd| call(libc::SYS_utimensat, &[fd, 0, times, 0])),
        "utimensat-empty" => {
            handle().and_then(|fd| call(libc::SYS_utimensat, &[fd, empty, times, empty_flag]))
        }
        "setxattr" => call(libc::SYS_setxattr, &[p, attribute, v, 1, 0]),
        "lsetxattr" => call(libc::SYS_lsetxattr, &[p, attribute, v, 1, 0]),
        "fsetxattr" => {
            read_only().and_then(|fd| call(libc::SYS_fsetxattr, &[fd, attribute, v, 1, 0]))
        }
        "setxattr-proc-fd" => handle().and_then(|fd| {
            let link = cstr(&format!("/proc/self/fd/{fd}"));
            call(libc::SYS_setxattr, &[addr(link.as_c_str()), attribute, v, 1, 0])
        }),
        "setxattrat" => {
            let argument = [v, 1];
            call(SYS_SETXATTRAT, &[AT, p, 0, attribute, addr(&argument), 16])
        }
        "removexattr" => call(libc::SYS_removexattr, &[p, attribute]),
        "removexattrat" => call(SYS_REMOVEXATTRAT, &[AT, p, 0, attribute]),
        "acl" => set_acl(p),
        "setflags" => read_only().and_then(|fd| {
            // FS_NODUMP_FL: harmless, and an owner may set it.
            let flags = 0x40u64;
            call(libc::SYS_ioctl, &[fd, FS_IOC_SETFLAGS, addr(&flags)])
        }),
        "fssetxattr" => read_only().and_then(|fd| {
            // FS_XFLAG_NODUMP in a struct fsxattr.
            let flags = [0x80u32, 0, 0, 0, 0, 0, 0];
            call(libc::SYS_ioctl, &[fd, FS_IOC_FSSETXATTR, addr(&flags)])
        }),
        "setversion" => read_only().and_then(|fd| {
            let version = 7u64;
            call(libc::SYS_ioctl, &[fd, FS_IOC_SETVERSION, addr(&version)])
        }),
        "file-setattr" => {
            let mut attribute = [0u32; 6];
            attribute[0] = 0x80;
            call(SYS_FILE_SETATTR, &[AT, p, addr_mut(&mut attribute), 24, 0])
        }
        _ => return None,
    })
}

fn own_ids() -> (usize, usize) {
    (call(libc::SYS_getuid, &[]).unwrap_or(0), call(libc::SYS_getgid, &[]).unwrap_or(0))
}

/// An ACL of the three base entries, which only changes the mode to 0777.
fn set_acl(path: usize) -> Result {
    let name = cstr("system.posix_acl_access");
    let mut acl = 2u32.to_le_bytes().to_vec();
    for tag in [1u16, 4, 32] {
        acl.extend_from_slice(&tag.to_le_bytes());
        acl.extend_from_slice(&7u16.to_le_bytes());
        acl.extend_from_slice(&u32::MAX.to_le_bytes());
    }
    call(libc::SYS_setxattr, &[path, addr(name.as_c_str()), addr(&acl[..]), acl.len(), 0])
}

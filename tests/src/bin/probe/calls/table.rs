//! The calls that a script can make, with what their arguments are.

/// What an argument of a call is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Not an argument: the slot that keeps the descriptor.
    New,
    /// A path.
    Path,
    /// The text of a symbolic link.
    Target,
    /// The descriptor that the next path starts at.
    Directory,
    /// A descriptor that the call is about.
    Descriptor,
    /// A number.
    Number,
    /// Bytes, and their number.
    Content,
    /// The name of an extended attribute.
    Name,
    /// The value of one, and its size: see [`value`].
    Value,
    /// A user or a group: `own`, `none` for all ones, or a number.
    Owner,
    /// Two times, see [`times`].
    Times,
    /// A buffer to write to.
    Buffer,
    /// The size of that.
    Size,
}

impl Kind {
    /// Whether a word of the script says it.
    pub(super) fn has_word(self) -> bool {
        !matches!(self, Self::Buffer | Self::Size)
    }
}

/// A call.
pub(super) struct Call {
    pub(super) name: &'static str,
    pub(super) number: i64,
    pub(super) kinds: &'static [Kind],
    /// Whether it changes anything. A call that opens: by its flags.
    pub(super) changes: bool,
    /// Whether it takes a name from the directory that it stands in.
    pub(super) removes: bool,
}

/// Two `struct timespec` for utimensat: access, modification.
pub(super) fn times(word: &str) -> Option<[i64; 4]> {
    let (now, omit) = (libc::UTIME_NOW, libc::UTIME_OMIT);
    Some(match word {
        "old" => [1_000_000_000, 0, 1_200_000_000, 0],
        "older" => [900_000_000, 5, 800_000_000, 7],
        "now" => [0, now, 0, now],
        "omit" => [7, omit, 8, omit],
        "omit-first" => [7, omit, 1_100_000_000, 0],
        "omit-last" => [1_100_000_000, 0, 8, omit],
        "now-first" => [0, now, 1_000_000_000, 0],
        "invalid" => [0, 1_000_000_000, 0, 0],
        _ => return None,
    })
}

/// The value of an extended attribute: an access control list (acl(5); version 2, then tag,
/// permissions and id of each entry), or the word itself.
pub(super) fn value(word: &str) -> Vec<u8> {
    const NO_ID: u32 = u32::MAX;
    let (user_obj, user, group_obj, mask, other) = (1u16, 2u16, 4u16, 0x10u16, 0x20u16);
    let entries: &[(u16, u16, u32)] = match word {
        "acl-minimal" => &[(user_obj, 6, NO_ID), (group_obj, 4, NO_ID), (other, 0, NO_ID)],
        "acl" => &[
            (user_obj, 7, NO_ID),
            (user, 6, 1234),
            (group_obj, 5, NO_ID),
            (mask, 6, NO_ID),
            (other, 1, NO_ID),
        ],
        "acl-without-mask" => {
            &[(user_obj, 7, NO_ID), (user, 6, 1234), (group_obj, 5, NO_ID), (other, 1, NO_ID)]
        }
        "big" => return vec![b'b'; 3000],
        _ => return word.as_bytes().to_vec(),
    };
    let mut bytes = 2u32.to_ne_bytes().to_vec();
    for (tag, permissions, id) in entries {
        bytes.extend(tag.to_ne_bytes());
        bytes.extend(permissions.to_ne_bytes());
        bytes.extend(id.to_ne_bytes());
    }
    bytes
}

const SYS_FCHMODAT2: i64 = 452;

pub(super) fn find(name: &str) -> Option<&'static Call> {
    CALLS.iter().find(|call| call.name == name)
}

const fn reads(name: &'static str, number: i64, kinds: &'static [Kind]) -> Call {
    Call { name, number, kinds, changes: false, removes: false }
}

const fn changes(name: &'static str, number: i64, kinds: &'static [Kind]) -> Call {
    Call { name, number, kinds, changes: true, removes: false }
}

const fn removes(name: &'static str, number: i64, kinds: &'static [Kind]) -> Call {
    Call { name, number, kinds, changes: true, removes: true }
}

use crate::older;
use Kind::{
    Buffer, Content, Descriptor as Fd, Directory as Dir, Name, New, Number as Num, Owner, Path,
    Size, Target, Times, Value,
};

static CALLS: &[Call] = &[
    changes("open", older::SYS_open, &[New, Path, Num, Num]),
    changes("creat", older::SYS_creat, &[New, Path, Num]),
    changes("openat", libc::SYS_openat, &[New, Dir, Path, Num, Num]),
    changes("mkdir", older::SYS_mkdir, &[Path, Num]),
    changes("mkdirat", libc::SYS_mkdirat, &[Dir, Path, Num]),
    removes("rmdir", older::SYS_rmdir, &[Path]),
    removes("unlink", older::SYS_unlink, &[Path]),
    removes("unlinkat", libc::SYS_unlinkat, &[Dir, Path, Num]),
    removes("rename", older::SYS_rename, &[Path, Path]),
    removes("renameat", libc::SYS_renameat, &[Dir, Path, Dir, Path]),
    removes("renameat2", libc::SYS_renameat2, &[Dir, Path, Dir, Path, Num]),
    changes("link", older::SYS_link, &[Path, Path]),
    changes("linkat", libc::SYS_linkat, &[Dir, Path, Dir, Path, Num]),
    changes("symlink", older::SYS_symlink, &[Target, Path]),
    changes("symlinkat", libc::SYS_symlinkat, &[Target, Dir, Path]),
    changes("mknod", older::SYS_mknod, &[Path, Num, Num]),
    changes("mknodat", libc::SYS_mknodat, &[Dir, Path, Num, Num]),
    changes("truncate", libc::SYS_truncate, &[Path, Num]),
    changes("ftruncate", libc::SYS_ftruncate, &[Fd, Num]),
    changes("chmod", older::SYS_chmod, &[Path, Num]),
    changes("fchmod", libc::SYS_fchmod, &[Fd, Num]),
    changes("fchmodat", libc::SYS_fchmodat, &[Dir, Path, Num]),
    changes("fchmodat2", SYS_FCHMODAT2, &[Dir, Path, Num, Num]),
    changes("utimensat", libc::SYS_utimensat, &[Dir, Path, Times, Num]),
    changes("utimes-now", older::SYS_utimes, &[Path, Num]),
    changes("chown", older::SYS_chown, &[Path, Owner, Owner]),
    changes("lchown", older::SYS_lchown, &[Path, Owner, Owner]),
    changes("fchown", libc::SYS_fchown, &[Fd, Owner, Owner]),
    changes("fchownat", libc::SYS_fchownat, &[Dir, Path, Owner, Owner, Num]),
    changes("setxattr", libc::SYS_setxattr, &[Path, Name, Value, Num]),
    changes("lsetxattr", libc::SYS_lsetxattr, &[Path, Name, Value, Num]),
    changes("fsetxattr", libc::SYS_fsetxattr, &[Fd, Name, Value, Num]),
    changes("removexattr", libc::SYS_removexattr, &[Path, Name]),
    changes("lremovexattr", libc::SYS_lremovexattr, &[Path, Name]),
    changes("fremovexattr", libc::SYS_fremovexattr, &[Fd, Name]),
    reads("getxattr", libc::SYS_getxattr, &[Path, Name, Buffer, Size]),
    reads("lgetxattr", libc::SYS_lgetxattr, &[Path, Name, Buffer, Size]),
    reads("fgetxattr", libc::SYS_fgetxattr, &[Fd, Name, Buffer, Size]),
    reads("listxattr", libc::SYS_listxattr, &[Path, Buffer, Size]),
    reads("llistxattr", libc::SYS_llistxattr, &[Path, Buffer, Size]),
    reads("flistxattr", libc::SYS_flistxattr, &[Fd, Buffer, Size]),
    changes("pwrite64", libc::SYS_pwrite64, &[Fd, Content, Num]),
    reads("pread64", libc::SYS_pread64, &[Fd, Buffer, Size, Num]),
    reads("chdir", libc::SYS_chdir, &[Path]),
    reads("fchdir", libc::SYS_fchdir, &[Fd]),
    reads("umask", libc::SYS_umask, &[Num]),
    reads("access", older::SYS_access, &[Path, Num]),
    reads("faccessat2", libc::SYS_faccessat2, &[Dir, Path, Num, Num]),
    reads("stat", older::SYS_stat, &[Path, Buffer]),
    reads("lstat", older::SYS_lstat, &[Path, Buffer]),
    reads("newfstatat", libc::SYS_newfstatat, &[Dir, Path, Buffer, Num]),
    reads("readlinkat", libc::SYS_readlinkat, &[Dir, Path, Buffer, Size]),
    reads("getdents64", libc::SYS_getdents64, &[Fd, Buffer, Size]),
    reads("getcwd", libc::SYS_getcwd, &[Buffer, Size]),
    reads("dup", libc::SYS_dup, &[New, Fd]),
    reads("close", libc::SYS_close, &[Fd]),
];

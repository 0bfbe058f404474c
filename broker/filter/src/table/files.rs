//! Files: what is open already, what Landlock decides by path, what it does not know.

use super::{WITH_BROKER, any, case, is, judge, lacks, masked, row, when};
use crate::Syscall::*;
use crate::Variant;
use crate::rule::Errno::{EACCES, ENOSYS, ENOTTY, EPERM, EROFS};
use crate::rule::Verdict::{Allow, Deny, Notify};
use crate::rule::{Arg, Row, When};
use crate::uapi::*;

const ASKS: &str =
    "asks what may be done, which Landlock does not answer: programs act on what they are told";
const OPENS: &str = "opening for writing or creating, or as shm_open does; O_PATH gives no access, voids flags; \
    Landlock ignores mode 3";
const CHANGES: &str = "changes files by path: Landlock decides, a refusal is reported";
const MAKES: &str =
    "makes a file by path, never one that runs as its owner; mkdir heeds no such bits: as mkdir";
/// What fcntl(2) is asked to do.
const FCNTL: Arg = Arg(1, "op");

/// What is asked by access(2) and its kin, where `$mode` says it.
macro_rules! by_mode {
    ($mode:expr) => {
        &[
            when(When::is(Variant::REPORT_READS), &[lacks($mode, R_OK | W_OK)], Allow),
            when(LISTINGS, &[lacks($mode, R_OK | W_OK)], Allow),
            when(READS_ALLOWED, &[lacks($mode, W_OK)], Allow),
        ]
    };
}

/// An open, where `$flags` are its flags.
macro_rules! by_flags {
    ($flags:expr, $mode:expr) => {
        &[
            case(&[any($flags, O_PATH)], Allow),
            when(WITH_BROKER, &[masked($flags, O_ACCMODE, &[O_ACCMODE])], Deny(EACCES)),
            when(When::is(Variant::ALONE), &[masked($flags, O_ACCMODE, &[O_ACCMODE])], Deny(EPERM)),
            case(&[any($flags, O_CREAT | O_TMPFILE_BIT), any($mode, SETS_ID)], Deny(EPERM)),
            case(&[masked($flags, !MUSL_ADDS, &[O_NOFOLLOW | O_CLOEXEC])], Notify),
            when(CHANGES_LEFT, &[masked($flags, O_ACCMODE, &[O_RDWR])], Notify),
            when(LISTINGS, &[is($flags, &[O_NOCTTY])], Notify),
            when(CHANGES_LEFT, &[lacks($flags, O_DIRECTORY)], Allow),
            when(LISTINGS, &[lacks($flags, O_WRITES | O_DIRECTORY)], Allow),
            when(READS_ALLOWED, &[lacks($flags, O_WRITES)], Allow),
        ]
    };
}

/// What makes a file with the permission bits `$mode`.
macro_rules! by_mode_of_new {
    ($mode:expr) => {
        &[case(&[any($mode, SETS_ID)], Deny(EPERM)), when(CHANGES_LEFT, &[], Allow)]
    };
}

#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    row(
        &[
            read, pread64, readv, preadv, preadv2, write, pwrite64, writev, pwritev, pwritev2,
            lseek, sendfile, splice, tee, vmsplice, copy_file_range, io_setup, io_destroy,
            io_submit, io_cancel, io_getevents, io_pgetevents,
        ],
        Allow,
        "moves data between descriptors that the command already holds",
    ),
    row(
        &[ftruncate, fallocate, fsync, fdatasync, sync_file_range, fadvise64, readahead, cachestat],
        Allow,
        "works on an open file; Landlock judged the opening",
    ),
    row(&[sync, syncfs], Allow, "writes caches back, changes no content"),
    row(
        &[close, close_range, dup, dup2, dup3, pipe, pipe2],
        Allow,
        "manages the caller's own descriptors",
    ),
    judge(
        &[flock],
        &[case(&[masked(Arg(1, "op"), !LOCK_NB, &[LOCK_UN])], Allow)],
        Notify,
        "holds up others who lock the file, and asks for no right to write it",
    )
    .alone(Allow),
    judge(
        &[fcntl],
        &[
            case(&[is(FCNTL, &[F_SETLEASE, F_NOTIFY, F_SET_RW_HINT, F_SETDELEG, F_SETOWN_EX])], Deny(EPERM)),
            // Zero is what it is without: SIGIO.
            case(&[is(FCNTL, &[F_SETSIG]), is(Arg(2, "arg"), &[0])], Allow),
            case(&[is(FCNTL, &[F_SETSIG])], Deny(EPERM)),
            case(&[is(FCNTL, &[F_SETOWN])], Notify),
            // A terminal's foreground becomes its owner.
            case(&[is(FCNTL, &[F_SETFL]), any(Arg(2, "arg"), O_ASYNC)], Notify),
        ],
        Allow,
        "a lease or watch holds up others, a hint stays; owners outside are signalled, F_SETSIG with what kills (CVE-2026-72183)",
    ),
    row(
        &[
            stat, fstat, lstat, newfstatat, statx, readlink, readlinkat, statfs, fstatfs, getxattr,
            lgetxattr, fgetxattr, getxattrat, listxattr, llistxattr, flistxattr, listxattrat,
            file_getattr,
        ],
        Allow,
        "reads metadata, which no policy hides",
    ),
    judge(&[access], by_mode!(Arg(1, "mode")), Notify, ASKS).alone(Allow),
    judge(&[faccessat, faccessat2], by_mode!(Arg(2, "mode")), Notify, ASKS).alone(Allow),
    row(&[getdents, getdents64], Allow, "lists an open directory; Landlock judged the opening"),
    row(&[chdir, fchdir, getcwd], Allow, "the caller's own working directory"),
    row(
        &[umask],
        Notify,
        "the caller's own; the broker reads the umask of those for whom it makes files only once somebody has set one",
    )
    .alone(Allow),
    row(
        &[inotify_init, inotify_init1, inotify_add_watch, inotify_rm_watch],
        Allow,
        "tells names and that something changed, not content",
    ),
    judge(&[open], by_flags!(Arg(1, "flags"), Arg(2, "mode")), Notify, OPENS).alone(Allow),
    judge(&[openat], by_flags!(Arg(2, "flags"), Arg(3, "mode")), Notify, OPENS).alone(Allow),
    row(
        &[openat2],
        Deny(ENOSYS),
        "its flags and the mode of what it makes are in memory: programs that know it do without where it is missing",
    ),
    row(&[truncate, unlink, rename, link], Notify, CHANGES).alone(Allow),
    judge(
        &[mkdir, mkdirat, rmdir, symlink, symlinkat],
        &[when(CHANGES_LEFT, &[], Allow)],
        Notify,
        CHANGES,
    )
    .alone(Allow),
    judge(&[creat, mknod], by_mode_of_new!(Arg(1, "mode")), Notify, MAKES).alone(Allow),
    judge(&[mknodat], by_mode_of_new!(Arg(2, "mode")), Notify, MAKES).alone(Allow),
    judge(
        &[renameat2],
        &[
            case(&[any(Arg(4, "flags"), RENAME_WHITEOUT)], Deny(EPERM)),
            when(CHANGES_LEFT, &[is(Arg(0, "dirfd"), &[AT_FDCWD])], Notify),
            when(CHANGES_LEFT, &[], Allow),
        ],
        Notify,
        "as renameat; a device node is left by no call",
    )
    .alone(Allow),
    judge(
        &[unlinkat, renameat, linkat],
        &[
            when(CHANGES_LEFT, &[is(Arg(0, "dirfd"), &[AT_FDCWD])], Notify),
            when(CHANGES_LEFT, &[], Allow),
        ],
        Notify,
        CHANGES,
    )
    .alone(Allow),
    row(
        &[
            chmod, fchmod, fchmodat, fchmodat2, chown, fchown, lchown, fchownat, utime, utimes,
            futimesat, utimensat, setxattr, lsetxattr, fsetxattr, setxattrat, removexattr,
            lremovexattr, fremovexattr, removexattrat, file_setattr,
        ],
        Notify,
        "changes metadata, which Landlock does not know",
    )
    // As in `table/network.rs`: nothing else gets this.
    .alone(Deny(EROFS)),
    judge(
        &[ioctl],
        &[
            case(&[is(IOCTL_COMMAND, &[FIOASYNC])], Notify),
            case(&[is(IOCTL_COMMAND, &[TCXONC]), is(Arg(2, "arg"), &[TCOOFF])], Notify),
            // TIOCGPGRP only asks, but the broker may know better which group is in the foreground.
            when(WITH_BROKER, &[is(IOCTL_COMMAND, &TERMINAL)], Notify),
            when(When::is(Variant::ALONE), &[is(IOCTL_COMMAND, &OTHERS_TERMINAL)], Deny(EPERM)),
            when(WITH_BROKER, &[is(IOCTL_COMMAND, &TERMINAL_2)], Notify),
            // A keyboard or screen would stay as it was set. Others have the letters, with a size and direction.
            case(&[masked(IOCTL_COMMAND, !0xff, &[KD, VT])], Deny(ENOTTY)),
            case(
                &[is(
                    IOCTL_COMMAND,
                    &[
                        TIOCSTI, TIOCLINUX, TIOCSETD, TIOCSSOFTCAR, FIOSETOWN, SIOCSPGRP,
                        FAT_IOCTL_SET_ATTRIBUTES,
                    ],
                )],
                Deny(EPERM),
            ),
            case(
                &[is(
                    IOCTL_COMMAND,
                    &[
                        FS_IOC_GETFLAGS, FS_IOC_GETVERSION, EXT4_IOC_GETVERSION, FS_IOC_FIEMAP,
                        FS_IOC_MEASURE_VERITY, FS_IOC_FSGETXATTR, FS_IOC_GETFSLABEL, FICLONE,
                        FICLONERANGE,
                    ],
                )],
                Allow,
            ),
            case(
                &[masked(
                    IOCTL_COMMAND,
                    IOC_TYPE_MASK,
                    &[
                        IOC_EXT, IOC_VERSION, IOC_XFS, IOC_OCFS2, IOC_ZFS, IOC_BTRFS, IOC_CEPH,
                        IOC_BCACHEFS, IOC_CIFS, IOC_F2FS,
                    ],
                )],
                Deny(EPERM),
            ),
            when(
                NO_DEVICES,
                &[masked(
                    IOCTL_COMMAND,
                    IOC_TYPE_MASK,
                    &[IOC_OLD, IOC_RANDOM, IOC_TERMINAL, IOC_SOCKET, IOC_NAMESPACE],
                )],
                Allow,
            ),
            when(NO_DEVICES, &[], Deny(ENOTTY)),
        ],
        Allow,
        "no typing, no owner, no reach to others on a terminal; no change of files through one opened for reading",
    ),
    row(
        &[
            mount, umount2, pivot_root, chroot, open_tree, open_tree_attr, move_mount, fsopen,
            fsconfig, fsmount, fspick, mount_setattr,
        ],
        Notify,
        "changes which files paths lead to: the broker refuses, and says so if the command fails",
    ),
    row(
        &[statmount, listmount, listns],
        Deny(ENOSYS),
        "tells of mounts and namespaces outside; too new to be relied on",
    ),
    row(
        &[open_by_handle_at, name_to_handle_at],
        Deny(EPERM),
        "opens files without a path, past Landlock's view of directories",
    ),
    row(&[fanotify_init, fanotify_mark], Deny(EPERM), "watches, and hands over, files of the whole file system"),
];

/// Landlock does not judge what devices are asked.
const NO_DEVICES: When = When::is(Variant::NO_DEVICES);

const READS_ALLOWED: When = When::ALWAYS.unless(Variant::REPORT_READS.union(Variant::LISTINGS));
/// Nobody asks for reports of reads. The broker lists the directories on the way to what is denied, which few programs
/// open without O_DIRECTORY: grep(1) does what it is told to search, with O_NOCTTY alone.
const LISTINGS: When = When::is(Variant::LISTINGS).unless(Variant::REPORT_READS);
/// Nobody asks for reports of files, and Landlock knows all of the rules for them. Still the broker's are
/// the command's own shared memory and terminals, which Landlock does not know: those are named by an absolute
/// path or from the working directory, and opened for reading and writing both (shm_open(3), sem_open(3),
/// openpty(3)).
const CHANGES_LEFT: When =
    When::is(Variant::CHANGES_LEFT).unless(Variant::REPORT_READS.union(Variant::NO_TRUNCATION));

/// Any of these means that more than reading is asked for.
const O_WRITES: u32 = O_ACCMODE | O_CREAT | O_TRUNC | O_TMPFILE_BIT;

/// The C libraries open shared memory with O_NOFOLLOW and O_CLOEXEC (shm_open(3)), and few programs anything
/// else that is only read: the broker finds there what the command made. One of them adds these. Where the
/// flags have other values, on aarch64, what is opened for reading is not found.
const MUSL_ADDS: u32 = O_NONBLOCK | O_LARGEFILE;

/// Another user who executes the file would have the rights of its owner or its group (inode(7)).
const SETS_ID: u32 = S_ISUID | S_ISGID;

const IOCTL_COMMAND: Arg = Arg(1, "op");

//! Kernel constants that the table compares arguments with; the same on every architecture.
//!
//! Most are those of the kernel's headers as `linux-raw-sys` has them, through which rustix speaks to the kernel. Not
//! from there is what differs between architectures, since the table is compiled on another one than it is for, and
//! what has no constant there or one of another type; each group names the header of the kernel it is from.

pub(crate) use linux_raw_sys::general::{
    CLONE_FILES, CLONE_FS, CLONE_NEWCGROUP, CLONE_NEWIPC, CLONE_NEWNET, CLONE_NEWNS, CLONE_NEWPID,
    CLONE_NEWUSER, CLONE_NEWUTS, CLONE_SIGHAND, CLONE_SYSVSEM, CLONE_THREAD, CLONE_VM, F_NOTIFY,
    F_SET_RW_HINT, F_SETFL, F_SETLEASE, F_SETOWN, F_SETOWN_EX, F_SETSIG, LOCK_NB, LOCK_UN,
    O_ACCMODE, O_CLOEXEC, O_CREAT, O_NOCTTY, O_NONBLOCK, O_PATH, O_RDWR, O_TRUNC, PRIO_PROCESS,
    R_OK, RENAME_WHITEOUT, S_ISGID, S_ISUID, TCOOFF, W_OK,
};
pub(crate) use linux_raw_sys::ioctl::{
    EXT4_IOC_GETVERSION, FAT_IOCTL_SET_ATTRIBUTES, FICLONE, FICLONERANGE, FIOASYNC, FIOSETOWN,
    FS_IOC_FIEMAP, FS_IOC_FSGETXATTR, FS_IOC_GETFLAGS, FS_IOC_GETFSLABEL, FS_IOC_GETVERSION,
    FS_IOC_MEASURE_VERITY, SIOCSPGRP, TCXONC, TIOCLINUX, TIOCSETD, TIOCSSOFTCAR, TIOCSTI,
};
pub(crate) use linux_raw_sys::net::{
    AF_INET, AF_INET6, AF_NETLINK, AF_UNIX, SHUT_WR, SO_REUSEADDR, SO_REUSEPORT, SOCK_DGRAM,
    SOCK_RAW, SOCK_SEQPACKET, SOCK_STREAM, SOL_IP, SOL_IPV6, SOL_NETLINK, SOL_SOCKET,
};
pub(crate) use linux_raw_sys::netlink::NETLINK_ROUTE;
pub(crate) use linux_raw_sys::prctl::{
    PR_CAP_AMBIENT, PR_CAPBSET_DROP, PR_SET_DUMPABLE, PR_SET_SECCOMP, PR_SET_SECUREBITS,
};
pub(crate) use linux_raw_sys::ptrace::{
    PTRACE_ATTACH, PTRACE_SEIZE, PTRACE_TRACEME, SECCOMP_FILTER_FLAG_NEW_LISTENER,
};

/// The flags of clone(2) that make namespaces.
pub const CLONE_NAMESPACES: u32 = CLONE_NEWNS
    | CLONE_NEWCGROUP
    | CLONE_NEWUTS
    | CLONE_NEWIPC
    | CLONE_NEWUSER
    | CLONE_NEWPID
    | CLONE_NEWNET;

// include/linux/socket.h, include/uapi/linux/in.h
/// The rest of `type` is SOCK_NONBLOCK and SOCK_CLOEXEC, or EINVAL.
pub(crate) const SOCK_TYPE_MASK: u32 = 0xf;
/// The family's own default, which is TCP for a stream of AF_INET and AF_INET6.
pub(crate) const PROTOCOL_DEFAULT: u32 = 0;
pub(crate) const IPPROTO_TCP: u32 = 6;
/// unix(7) takes its own family number as a protocol too.
pub(crate) const PF_UNIX: u32 = AF_UNIX;
pub(crate) const MSG_FASTOPEN: u32 = 0x2000_0000;

// include/uapi/asm-generic/fcntl.h
pub(crate) const O_ASYNC: u32 = 0o20_000;
pub(crate) const O_LARGEFILE: u32 = 0o100_000;
/// That of x86 and that of aarch64, each of which is O_DIRECT on the other.
pub(crate) const O_DIRECTORY: u32 = 0o200_000 | 0o40_000;
pub(crate) const O_NOFOLLOW: u32 = 0o400_000;
pub(crate) const O_TMPFILE_BIT: u32 = 0o20_000_000;

// include/uapi/linux/fcntl.h
pub(crate) const AT_FDCWD: u32 = 0xffff_ff9c;
/// Since Linux 6.19: a lease that directories have too.
pub(crate) const F_SETDELEG: u32 = 1040;

// include/uapi/linux/ioprio.h
pub(crate) const IOPRIO_WHO_PROCESS: u32 = 1;

// include/uapi/asm-generic/ioctls.h
/// TCSETS, TCSETA and their kin, TCFLSH, TIOCSCTTY and TIOCGPGRP, with those of [`OTHERS_TERMINAL`].
pub(crate) const TERMINAL: [u32; 13] = [
    0x5402, 0x5403, 0x5404, 0x5406, 0x5407, 0x5408, 0x540b, 0x540c, 0x540d, 0x540e, 0x540f, 0x5410,
    0x5414,
];
/// TIOCEXCL, TIOCNXCL, TIOCSPGRP, TIOCSWINSZ.
pub(crate) const OTHERS_TERMINAL: [u32; 4] = [0x540c, 0x540d, 0x5410, 0x5414];
/// TCSETS2 and its kin.
pub(crate) const TERMINAL_2: [u32; 3] = [0x402c_542b, 0x402c_542c, 0x402c_542d];
// include/uapi/linux/kd.h, vt.h
pub(crate) const KD: u32 = 0x4b00;
pub(crate) const VT: u32 = 0x5600;

/// The byte of an ioctl command that names whose it is (Documentation/userspace-api/ioctl/ioctl-number.rst).
pub(crate) const IOC_TYPE_MASK: u32 = 0xff00;
/// ext2 to ext4, fscrypt, fsverity, Lustre; FS_IOC_SETFLAGS.
pub(crate) const IOC_EXT: u32 = 0x66 << 8;
/// FS_IOC_SETVERSION.
pub(crate) const IOC_VERSION: u32 = 0x76 << 8;
/// XFS; FS_IOC_FSSETXATTR, FIFREEZE, FITRIM.
pub(crate) const IOC_XFS: u32 = 0x58 << 8;
pub(crate) const IOC_OCFS2: u32 = 0x6f << 8;
pub(crate) const IOC_ZFS: u32 = 0x83 << 8;
/// Btrfs; FICLONE, FS_IOC_SETFSLABEL. FIDEDUPERANGE, which tells whether files hold the same.
pub(crate) const IOC_BTRFS: u32 = 0x94 << 8;
pub(crate) const IOC_CEPH: u32 = 0x97 << 8;
pub(crate) const IOC_BCACHEFS: u32 = 0xbc << 8;
pub(crate) const IOC_CIFS: u32 = 0xcf << 8;
pub(crate) const IOC_F2FS: u32 = 0xf5 << 8;
/// FIBMAP, FIGETBSZ.
pub(crate) const IOC_OLD: u32 = 0;
/// How much chance there is.
pub(crate) const IOC_RANDOM: u32 = 0x52 << 8;
/// Terminals, and what every descriptor knows: FIONREAD, FIONBIO, FIOASYNC, FIOCLEX, FIONCLEX.
pub(crate) const IOC_TERMINAL: u32 = 0x54 << 8;
/// Sockets and network interfaces.
pub(crate) const IOC_SOCKET: u32 = 0x89 << 8;
/// Namespaces.
pub(crate) const IOC_NAMESPACE: u32 = 0xb7 << 8;

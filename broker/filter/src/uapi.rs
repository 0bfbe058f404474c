//! Kernel constants that the table compares arguments with; the same on every architecture. Each group
//! names the header of the kernel it is from.

// include/linux/socket.h, include/uapi/linux/in.h, include/uapi/linux/netlink.h
pub(crate) const AF_UNIX: u32 = 1;
pub(crate) const AF_INET: u32 = 2;
pub(crate) const AF_INET6: u32 = 10;
pub(crate) const AF_NETLINK: u32 = 16;
pub(crate) const SOCK_STREAM: u32 = 1;
pub(crate) const SOCK_DGRAM: u32 = 2;
pub(crate) const SOCK_RAW: u32 = 3;
pub(crate) const SOCK_SEQPACKET: u32 = 5;
/// The rest of `type` is SOCK_NONBLOCK and SOCK_CLOEXEC, or EINVAL.
pub(crate) const SOCK_TYPE_MASK: u32 = 0xf;
/// The family's own default, which is TCP for a stream of AF_INET and AF_INET6.
pub(crate) const PROTOCOL_DEFAULT: u32 = 0;
pub(crate) const IPPROTO_TCP: u32 = 6;
/// unix(7) takes its own family number as a protocol too.
pub(crate) const PF_UNIX: u32 = AF_UNIX;
pub(crate) const NETLINK_ROUTE: u32 = 0;
pub(crate) const MSG_FASTOPEN: u32 = 0x2000_0000;

// include/linux/socket.h, include/uapi/asm-generic/socket.h, include/uapi/linux/tcp.h
pub(crate) const SOL_IP: u32 = 0;
pub(crate) const SOL_SOCKET: u32 = 1;
pub(crate) const SOL_IPV6: u32 = 41;
pub(crate) const SOL_NETLINK: u32 = 270;
pub(crate) const SO_REUSEPORT: u32 = 15;
pub(crate) const SO_REUSEADDR: u32 = 2;

// include/uapi/asm-generic/fcntl.h
// unistd.h
pub(crate) const W_OK: u32 = 2;
pub(crate) const R_OK: u32 = 4;
pub(crate) const O_RDWR: u32 = 0o2;
pub(crate) const O_ACCMODE: u32 = 0o3;
pub(crate) const O_CREAT: u32 = 0o100;
pub(crate) const O_TRUNC: u32 = 0o1000;
pub(crate) const O_NONBLOCK: u32 = 0o4000;
pub(crate) const O_ASYNC: u32 = 0o20_000;
pub(crate) const O_NOCTTY: u32 = 0o400;
pub(crate) const O_LARGEFILE: u32 = 0o100_000;
/// That of x86 and that of aarch64, each of which is O_DIRECT on the other.
pub(crate) const O_DIRECTORY: u32 = 0o200_000 | 0o40_000;
pub(crate) const O_NOFOLLOW: u32 = 0o400_000;
pub(crate) const O_CLOEXEC: u32 = 0o2_000_000;
pub(crate) const O_PATH: u32 = 0o10_000_000;
pub(crate) const RENAME_WHITEOUT: u32 = 1 << 2;
pub(crate) const O_TMPFILE_BIT: u32 = 0o20_000_000;

// include/uapi/linux/stat.h
pub(crate) const S_ISUID: u32 = 0o4000;
pub(crate) const S_ISGID: u32 = 0o2000;

// include/uapi/linux/fcntl.h
pub(crate) const AT_FDCWD: u32 = 0xffff_ff9c;
pub(crate) const LOCK_NB: u32 = 4;
pub(crate) const LOCK_UN: u32 = 8;
pub(crate) const F_SETFL: u32 = 4;
pub(crate) const F_SETOWN: u32 = 8;
pub(crate) const F_SETSIG: u32 = 10;
pub(crate) const F_SETOWN_EX: u32 = 15;
pub(crate) const F_SETLEASE: u32 = 1024;
pub(crate) const F_NOTIFY: u32 = 1026;
pub(crate) const F_SET_RW_HINT: u32 = 1036;
/// Since Linux 6.19: a lease that directories have too.
pub(crate) const F_SETDELEG: u32 = 1040;

// include/uapi/linux/sched.h
pub(crate) const CLONE_VM: u32 = 0x0000_0100;
pub(crate) const CLONE_FS: u32 = 0x0000_0200;
pub(crate) const CLONE_FILES: u32 = 0x0000_0400;
pub(crate) const CLONE_SIGHAND: u32 = 0x0000_0800;
pub(crate) const CLONE_THREAD: u32 = 0x0001_0000;
pub(crate) const CLONE_NEWNS: u32 = 0x0002_0000;
pub(crate) const CLONE_SYSVSEM: u32 = 0x0004_0000;
pub(crate) const CLONE_NEWCGROUP: u32 = 0x0200_0000;
pub(crate) const CLONE_NEWUTS: u32 = 0x0400_0000;
pub(crate) const CLONE_NEWIPC: u32 = 0x0800_0000;
pub(crate) const CLONE_NEWUSER: u32 = 0x1000_0000;
pub(crate) const CLONE_NEWPID: u32 = 0x2000_0000;
pub(crate) const CLONE_NEWNET: u32 = 0x4000_0000;

// include/uapi/asm-generic/termbits-common.h
pub(crate) const TCOOFF: u32 = 0;

// include/uapi/linux/seccomp.h, resource.h, ioprio.h, ptrace.h
pub(crate) const SECCOMP_FILTER_FLAG_NEW_LISTENER: u32 = 8;
pub(crate) const PRIO_PROCESS: u32 = 0;
pub(crate) const IOPRIO_WHO_PROCESS: u32 = 1;
pub(crate) const PTRACE_TRACEME: u32 = 0;
pub(crate) const PTRACE_ATTACH: u32 = 16;
pub(crate) const PTRACE_SEIZE: u32 = 0x4206;

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
pub(crate) const TCXONC: u32 = 0x540a;
pub(crate) const TIOCSTI: u32 = 0x5412;
pub(crate) const TIOCLINUX: u32 = 0x541c;
pub(crate) const TIOCSSOFTCAR: u32 = 0x541a;
pub(crate) const TIOCSETD: u32 = 0x5423;
pub(crate) const FIOASYNC: u32 = 0x5452;
// include/uapi/linux/kd.h, vt.h
pub(crate) const KD: u32 = 0x4b00;
pub(crate) const VT: u32 = 0x5600;
// include/uapi/asm-generic/sockios.h
pub(crate) const FIOSETOWN: u32 = 0x8901;
pub(crate) const SIOCSPGRP: u32 = 0x8902;

// include/uapi/linux/fs.h, fiemap.h, fsverity.h, msdos_fs.h; fs/ext4/ext4.h
pub(crate) const FS_IOC_GETFLAGS: u32 = 0x8008_6601;
pub(crate) const FS_IOC_GETVERSION: u32 = 0x8008_7601;
pub(crate) const EXT4_IOC_GETVERSION: u32 = 0x8008_6603;
pub(crate) const FS_IOC_FIEMAP: u32 = 0xc020_660b;
pub(crate) const FS_IOC_MEASURE_VERITY: u32 = 0xc004_6686;
pub(crate) const FS_IOC_FSGETXATTR: u32 = 0x801c_581f;
pub(crate) const FS_IOC_GETFSLABEL: u32 = 0x8100_9431;
pub(crate) const FICLONE: u32 = 0x4004_9409;
pub(crate) const FICLONERANGE: u32 = 0x4020_940d;
pub(crate) const FAT_IOCTL_SET_ATTRIBUTES: u32 = 0x4004_7211;

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

/// shutdown(2): no more sending, which leaves a listening socket alone.
pub(crate) const SHUT_WR: u32 = 1;

// linux/prctl.h: what changes the capabilities of the caller or of what it executes.
pub(crate) const PR_CAPBSET_DROP: u32 = 24;
pub(crate) const PR_SET_SECUREBITS: u32 = 28;
pub(crate) const PR_CAP_AMBIENT: u32 = 47;
pub(crate) const PR_SET_SECCOMP: u32 = 22;
pub(crate) const PR_SET_DUMPABLE: u32 = 4;

//! What a notified system call asks for, read off its number and registers alone.
//!
//! Pointers stay addresses here: whoever follows one decides what it may be trusted for. Argument
//! positions are those of the manual page of each call (section 2); architectures differ in the
//! numbers, and in which of the older calls they have.

use crate::call::how::OpenHow;
use crate::kernel::listener::Notification;
use crate::kernel::target::AT_FDCWD;
use crate::rules::socket::Kind;
use landstrip_filter::Syscall;
use nix::libc;
use rustix::fs::{AtFlags, OFlags, RenameFlags};
use rustix::io::Errno;
use rustix::net::SocketFlags;
use std::os::fd::RawFd;

/// A notified system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    /// connect or bind: descriptor, address, length.
    Address(AddressUse, RawFd, u64, u32),
    /// sendto, sendmsg or sendmmsg: descriptor, flags, messages.
    Send(RawFd, u32, Messages),
    /// listen on a descriptor: backlog.
    Listen(RawFd, i32),
    /// shutdown of a descriptor: how.
    Shutdown(RawFd, i32),
    /// socketpair of Unix datagram sockets: type with its flags, where the two numbers go.
    DatagramPair(i32, u64),
    /// socket of this kind, with the flags of its type.
    Socket(Kind, SocketFlags),
    /// socketpair of this kind, which the filter does not allow.
    Pair(Kind),
    /// A call on files by path: Landlock decides, or the broker does it.
    File(FileCall),
    /// A change of metadata, which Landlock does not know.
    Metadata(MetadataCall),
    /// A change of limits, priority or scheduling of the process or thread with this id.
    Process(i32),
    /// The same of a process group or a user.
    ProcessGroup,
    /// A change of the caller's umask.
    Umask,
    /// A change of the caller's own credentials, or of those that what it executes gets; a filter of
    /// its own.
    Credentials,
    /// ptrace(PTRACE_TRACEME): the parent becomes the tracer.
    TraceMe,
    /// Nothing that the filter should notify.
    Unknown,
}

/// Which of the two calls with an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AddressUse {
    /// connect(2)
    Connect,
    /// bind(2)
    Bind,
}

/// What is sent, each where it lies in the target's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Messages {
    /// sendto: data with its length, address with its length.
    Data(u64, u64, u64, u32),
    /// sendmsg: a `struct msghdr`.
    One(u64),
    /// sendmmsg: an array of `struct mmsghdr`, with their number.
    Several(u64, u32),
}

/// A path argument: the directory descriptor that a relative path starts from, and its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spot {
    pub(crate) directory: RawFd,
    pub(crate) path: u64,
}

/// A call on files by path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileCall {
    /// open, openat, creat.
    Open(Spot, OpenHow),
    /// openat2: address and size of its `struct open_how`.
    OpenBy(Spot, u64, u64),
    /// truncate to this length.
    Truncate(Spot, i64),
    /// An entry is made where none is.
    Create(Spot, Creation),
    /// unlink and rmdir, with the flags of unlinkat.
    Remove(Spot, AtFlags),
    /// rename, with the flags of renameat2.
    Rename(Spot, Spot, RenameFlags),
    /// link, with the flags of linkat.
    Link(Spot, Spot, AtFlags),
}

/// What kind of entry is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Creation {
    /// With these permission bits.
    Directory(u32),
    /// With this type, these permission bits, and this device number.
    Node(u32, u64),
    /// With the text at this address.
    Symlink(u64),
}

impl FileCall {
    /// Its paths.
    pub(crate) fn spots(&self) -> impl Iterator<Item = Spot> {
        let (first, second) = match *self {
            Self::Open(spot, _)
            | Self::OpenBy(spot, ..)
            | Self::Truncate(spot, _)
            | Self::Create(spot, _)
            | Self::Remove(spot, _) => (spot, None),
            Self::Rename(old, new, _) | Self::Link(old, new, _) => (old, Some(new)),
        };
        std::iter::once(first).chain(second)
    }
}

/// A change of metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MetadataCall {
    /// What is changed.
    pub(crate) subject: Subject,
    /// How.
    pub(crate) change: RawChange,
}

/// How the object is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    /// By a path; an empty one names `directory` itself if `empty`.
    Path { directory: RawFd, path: u64, follow: bool, empty: bool },
    /// By a descriptor.
    Descriptor(RawFd),
    /// Not at all: the flags are wrong.
    Invalid,
}

/// The new value, or where it lies in the target's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RawChange {
    /// Permission bits.
    Mode(u32),
    /// User and group; all ones leaves one as it is.
    Owner(u32, u32),
    /// Two `struct timespec` at the address, now if it is null.
    Timespec(u64),
    /// Two `struct timeval`.
    Timeval(u64),
    /// A `struct utimbuf`.
    Utimbuf(u64),
    /// Extended attribute: name, value, size, flags.
    SetXattr(u64, u64, u64, u32),
    /// Extended attribute: name.
    RemoveXattr(u64),
}

const FOLLOW: AtFlags = AtFlags::empty();

impl Call {
    /// Reads the call off `notification`.
    pub(crate) fn decode(notification: &Notification) -> Self {
        let n = notification;
        let address = |index: usize| n.arguments[index];
        let at_cwd = |index| Spot { directory: AT_FDCWD, path: address(index) };
        let spot = |index| Spot { directory: n.int(index), path: address(index + 1) };
        let open = |spot, flags: u32, mode| {
            Self::File(FileCall::Open(spot, OpenHow::of_open(flags, mode)))
        };
        let create = |spot, creation| Self::File(FileCall::Create(spot, creation));
        let remove = |spot, flags| Self::File(FileCall::Remove(spot, flags));
        let rename = |old, new, flags| {
            Self::File(FileCall::Rename(old, new, RenameFlags::from_bits_retain(flags)))
        };
        let link = |old, new, flags| {
            Self::File(FileCall::Link(old, new, AtFlags::from_bits_retain(flags)))
        };
        let metadata = |subject, change| Self::Metadata(MetadataCall { subject, change });
        let path =
            |directory, path, follow| Subject::Path { directory, path, follow, empty: false };
        let at = |directory: usize, flags: u32| at_subject(n, directory, flags);

        let Some(call) = Syscall::of(n.number) else { return Self::Unknown };
        match call {
            Syscall::connect => {
                Self::Address(AddressUse::Connect, n.int(0), address(1), n.unsigned(2))
            }
            Syscall::bind => Self::Address(AddressUse::Bind, n.int(0), address(1), n.unsigned(2)),
            Syscall::sendto => {
                let data = Messages::Data(address(1), address(2), address(4), n.unsigned(5));
                Self::Send(n.int(0), n.unsigned(3), data)
            }
            Syscall::sendmsg => Self::Send(n.int(0), n.unsigned(2), Messages::One(address(1))),
            Syscall::sendmmsg => {
                let several = Messages::Several(address(1), n.unsigned(2));
                Self::Send(n.int(0), n.unsigned(3), several)
            }
            Syscall::listen => Self::Listen(n.int(0), n.int(1)),
            Syscall::shutdown => Self::Shutdown(n.int(0), n.int(1)),
            Syscall::socketpair
                if n.int(0) == libc::AF_UNIX
                    && [libc::SOCK_DGRAM, libc::SOCK_RAW].contains(&kind(n).of)
                    && [0, libc::PF_UNIX].contains(&n.int(2)) =>
            {
                Self::DatagramPair(n.int(1), address(3))
            }
            Syscall::socket => Self::Socket(kind(n), type_flags(n)),
            Syscall::socketpair => Self::Pair(kind(n)),

            Syscall::open => open(at_cwd(0), n.unsigned(1), n.unsigned(2)),
            Syscall::openat => open(spot(0), n.unsigned(2), n.unsigned(3)),
            Syscall::openat2 => Self::File(FileCall::OpenBy(spot(0), address(2), address(3))),
            Syscall::creat => {
                let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::TRUNC;
                open(at_cwd(0), flags.bits(), n.unsigned(1))
            }
            Syscall::truncate => {
                Self::File(FileCall::Truncate(at_cwd(0), address(1).cast_signed()))
            }
            Syscall::mkdir => create(at_cwd(0), Creation::Directory(n.unsigned(1))),
            Syscall::mkdirat => create(spot(0), Creation::Directory(n.unsigned(2))),
            Syscall::mknod => {
                create(at_cwd(0), Creation::Node(n.unsigned(1), u64::from(n.unsigned(2))))
            }
            Syscall::mknodat => {
                create(spot(0), Creation::Node(n.unsigned(2), u64::from(n.unsigned(3))))
            }
            Syscall::symlink => create(at_cwd(1), Creation::Symlink(address(0))),
            Syscall::symlinkat => create(spot(1), Creation::Symlink(address(0))),
            Syscall::rmdir => remove(at_cwd(0), AtFlags::REMOVEDIR),
            Syscall::unlink => remove(at_cwd(0), AtFlags::empty()),
            Syscall::unlinkat => remove(spot(0), AtFlags::from_bits_retain(n.unsigned(2))),
            Syscall::link => link(at_cwd(0), at_cwd(1), 0),
            Syscall::linkat => link(spot(0), spot(2), n.unsigned(4)),
            Syscall::rename => rename(at_cwd(0), at_cwd(1), 0),
            Syscall::renameat => rename(spot(0), spot(2), 0),
            Syscall::renameat2 => rename(spot(0), spot(2), n.unsigned(4)),

            Syscall::chmod => {
                metadata(path(AT_FDCWD, address(0), true), RawChange::Mode(n.unsigned(1)))
            }
            Syscall::fchmod => {
                metadata(Subject::Descriptor(n.int(0)), RawChange::Mode(n.unsigned(1)))
            }
            Syscall::fchmodat => metadata(at(0, FOLLOW.bits()), RawChange::Mode(n.unsigned(2))),
            Syscall::fchmodat2 => metadata(at(0, n.unsigned(3)), RawChange::Mode(n.unsigned(2))),
            Syscall::chown => {
                let owner = RawChange::Owner(n.unsigned(1), n.unsigned(2));
                metadata(path(AT_FDCWD, address(0), true), owner)
            }
            Syscall::lchown => {
                let owner = RawChange::Owner(n.unsigned(1), n.unsigned(2));
                metadata(path(AT_FDCWD, address(0), false), owner)
            }
            Syscall::fchown => {
                let owner = RawChange::Owner(n.unsigned(1), n.unsigned(2));
                metadata(Subject::Descriptor(n.int(0)), owner)
            }
            Syscall::fchownat => {
                let owner = RawChange::Owner(n.unsigned(2), n.unsigned(3));
                metadata(at(0, n.unsigned(4)), owner)
            }
            Syscall::utime => {
                metadata(path(AT_FDCWD, address(0), true), RawChange::Utimbuf(address(1)))
            }
            Syscall::utimes => {
                metadata(path(AT_FDCWD, address(0), true), RawChange::Timeval(address(1)))
            }
            // A null path means the descriptor itself (utimensat(2), notes), without flags.
            Syscall::futimesat | Syscall::utimensat if address(1) == 0 && n.int(0) != AT_FDCWD => {
                let has_flags = call == Syscall::utimensat && n.unsigned(3) != 0;
                let subject =
                    if has_flags { Subject::Invalid } else { Subject::Descriptor(n.int(0)) };
                metadata(subject, times(n))
            }
            Syscall::futimesat => metadata(at(0, FOLLOW.bits()), times(n)),
            Syscall::utimensat => metadata(at(0, n.unsigned(3)), times(n)),
            Syscall::setxattr => metadata(path(AT_FDCWD, address(0), true), set_xattr(n)),
            Syscall::lsetxattr => metadata(path(AT_FDCWD, address(0), false), set_xattr(n)),
            Syscall::fsetxattr => metadata(Subject::Descriptor(n.int(0)), set_xattr(n)),
            Syscall::removexattr => {
                metadata(path(AT_FDCWD, address(0), true), RawChange::RemoveXattr(address(1)))
            }
            Syscall::lremovexattr => {
                metadata(path(AT_FDCWD, address(0), false), RawChange::RemoveXattr(address(1)))
            }
            Syscall::fremovexattr => {
                metadata(Subject::Descriptor(n.int(0)), RawChange::RemoveXattr(address(1)))
            }

            Syscall::prlimit64
            | Syscall::sched_setaffinity
            | Syscall::sched_setscheduler
            | Syscall::sched_setparam
            | Syscall::sched_setattr => Self::Process(n.int(0)),
            Syscall::setpriority if n.int(0) == libc::PRIO_PROCESS.cast_signed() => {
                Self::Process(n.int(1))
            }
            Syscall::ioprio_set if n.int(0) == IOPRIO_WHO_PROCESS => Self::Process(n.int(1)),
            Syscall::setpriority | Syscall::ioprio_set => Self::ProcessGroup,
            Syscall::setuid
            | Syscall::setgid
            | Syscall::setreuid
            | Syscall::setregid
            | Syscall::setresuid
            | Syscall::setresgid
            | Syscall::setfsuid
            | Syscall::setfsgid
            | Syscall::setgroups
            | Syscall::capset
            | Syscall::prctl
            | Syscall::seccomp => Self::Credentials,
            Syscall::umask => Self::Umask,
            Syscall::ptrace if n.unsigned(0) == libc::PTRACE_TRACEME => Self::TraceMe,
            _ => Self::Unknown,
        }
    }
}

/// The rest of a socket's type are flags (socket(2)).
const SOCK_TYPE_MASK: i32 = 0xf;

impl Call {
    /// Whether answering it waits for connects that are being made, or starts a process. A connect or a
    /// message seldom has to wait, which shows when it is made.
    pub(crate) fn can_wait(&self) -> bool {
        matches!(self, Self::Address(AddressUse::Bind, ..) | Self::Listen(..) | Self::Shutdown(..))
    }
}

/// linux/ioprio.h
const IOPRIO_WHO_PROCESS: i32 = 1;

fn at_subject(n: &Notification, directory: usize, flags: u32) -> Subject {
    let flags = AtFlags::from_bits_retain(flags);
    if !(AtFlags::SYMLINK_NOFOLLOW | AtFlags::EMPTY_PATH).contains(flags) {
        return Subject::Invalid;
    }
    Subject::Path {
        directory: n.int(directory),
        path: n.arguments[directory + 1],
        follow: !flags.contains(AtFlags::SYMLINK_NOFOLLOW),
        empty: flags.contains(AtFlags::EMPTY_PATH),
    }
}

fn times(n: &Notification) -> RawChange {
    if Syscall::of(n.number) == Some(Syscall::futimesat) {
        RawChange::Timeval(n.arguments[2])
    } else {
        RawChange::Timespec(n.arguments[2])
    }
}

/// What socket and socketpair are asked for.
fn kind(n: &Notification) -> Kind {
    Kind { family: n.int(0), of: n.int(1) & SOCK_TYPE_MASK, protocol: n.int(2) }
}

fn type_flags(n: &Notification) -> SocketFlags {
    SocketFlags::from_bits_retain(n.unsigned(1) & !SOCK_TYPE_MASK.cast_unsigned())
}

fn set_xattr(n: &Notification) -> RawChange {
    RawChange::SetXattr(n.arguments[1], n.arguments[2], n.arguments[3], n.unsigned(4))
}

/// Whether an open with these flags may change something.
pub(crate) fn writes(flags: OFlags) -> bool {
    let access = flags & OFlags::RWMODE;
    access != OFlags::RDONLY
        || flags.intersects(OFlags::CREATE | OFlags::TRUNC)
        || flags.contains(OFlags::TMPFILE)
}

/// Sockets that are refused, and why in the terms of errno: what a program gets that asks a kernel
/// without the family, or without permission for one that exists everywhere.
pub(crate) fn refused_socket(family: i32) -> Errno {
    match family {
        libc::AF_UNIX | libc::AF_INET | libc::AF_INET6 => Errno::ACCESS,
        _ => Errno::AFNOSUPPORT,
    }
}

/// How a report names a socket that was refused.
pub(crate) fn describe_socket(kind: Kind) -> Vec<u8> {
    let Kind { family, of, protocol } = kind;
    let family = match family {
        libc::AF_UNIX => "unix".to_owned(),
        libc::AF_INET => "inet".to_owned(),
        libc::AF_INET6 => "inet6".to_owned(),
        libc::AF_NETLINK => "netlink".to_owned(),
        libc::AF_PACKET => "packet".to_owned(),
        libc::AF_VSOCK => "vsock".to_owned(),
        libc::AF_ALG => "alg".to_owned(),
        other => format!("family {other}"),
    };
    let kind = match of {
        libc::SOCK_STREAM => "stream".to_owned(),
        libc::SOCK_DGRAM => "datagram".to_owned(),
        libc::SOCK_RAW => "raw".to_owned(),
        libc::SOCK_SEQPACKET => "seqpacket".to_owned(),
        other => format!("type {other}"),
    };
    format!("{family} {kind} protocol {protocol}").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use landstrip_filter::{Arch, Entry, Variant};
    use rustix::process::Pid;

    fn decode(call: Syscall, arguments: [u64; 6]) -> Call {
        let number = Arch::NATIVE.number(call).unwrap();
        Call::decode(&Notification {
            id: 1,
            thread: Pid::from_raw(1).unwrap(),
            number: number.cast_signed(),
            arguments,
        })
    }

    #[test]
    fn every_call_that_the_filter_notifies_is_known_here() {
        // Newer than what programs need; without them they use the calls that are known.
        let refused = [Syscall::setxattrat, Syscall::removexattrat, Syscall::file_setattr];
        for variant in [
            Variant::empty(),
            Variant::ALLOW_NETWORK,
            Variant::REPORT_READS,
            Variant::LOCAL_BINDING,
            Variant::ALL_UNIX_SOCKETS,
            Variant::UNIX_DATAGRAMS,
        ] {
            let entries = landstrip_filter::describe(variant);
            let notified = entries.filter(|entry| entry.what.contains("the broker"));
            for Entry { call, .. } in notified {
                if Arch::NATIVE.number(call).is_some() {
                    let known = decode(call, [0; 6]) != Call::Unknown;
                    assert_eq!(known, !refused.contains(&call), "{call}");
                }
            }
        }
    }

    #[test]
    fn upper_halves_of_int_arguments_are_ignored() {
        let garbage = 0xdead_beef_0000_0000;
        let call = decode(Syscall::fchmod, [garbage | 5, garbage | 0o644, 0, 0, 0, 0]);
        let expected =
            MetadataCall { subject: Subject::Descriptor(5), change: RawChange::Mode(0o644) };
        assert_eq!(call, Call::Metadata(expected));
    }

    #[test]
    fn a_send_has_its_flags_where_the_call_has_them() {
        for (number, arguments, what) in [
            (Syscall::sendto, [3, 0x10, 5, 0x40, 0x20, 110], Messages::Data(0x10, 5, 0x20, 110)),
            (Syscall::sendmsg, [3, 0x10, 0x40, 1, 2, 3], Messages::One(0x10)),
            (Syscall::sendmmsg, [3, 0x10, 7, 0x40, 1, 2], Messages::Several(0x10, 7)),
        ] {
            assert_eq!(decode(number, arguments), Call::Send(3, 0x40, what));
        }
    }

    #[test]
    fn an_open_for_reading_is_no_write() {
        for (flags, expected) in [
            (OFlags::RDONLY, false),
            (OFlags::RDONLY | OFlags::DIRECTORY, false),
            (OFlags::WRONLY, true),
            (OFlags::RDWR, true),
            (OFlags::CREATE, true),
            (OFlags::TRUNC, true),
            (OFlags::TMPFILE, true),
        ] {
            assert_eq!(writes(flags), expected, "{flags:?}");
        }
    }

    #[test]
    fn both_names_of_a_rename_are_known() {
        let call = decode(Syscall::renameat2, [3, 0x10, 4, 0x20, 2, 0]);
        let (old, new) = (Spot { directory: 3, path: 0x10 }, Spot { directory: 4, path: 0x20 });
        assert_eq!(call, Call::File(FileCall::Rename(old, new, RenameFlags::EXCHANGE)));
        let Call::File(call) = call else { unreachable!("just compared") };
        assert_eq!(call.spots().collect::<Vec<_>>(), [old, new]);
    }

    #[test]
    fn unknown_flags_of_metadata_calls_name_nothing() {
        for number in [Syscall::fchmodat2, Syscall::utimensat] {
            let call = decode(number, [0, 1, 2, 0x800, 0, 0]);
            assert!(matches!(call, Call::Metadata(MetadataCall { subject: Subject::Invalid, .. })));
        }
    }

    #[test]
    fn a_null_path_of_utimensat_means_the_descriptor() {
        let call = decode(Syscall::utimensat, [7, 0, 0x30, 0, 0, 0]);
        let expected =
            MetadataCall { subject: Subject::Descriptor(7), change: RawChange::Timespec(0x30) };
        assert_eq!(call, Call::Metadata(expected));
    }
}

//! What a notified system call asks for, read off its number and registers alone.
//!
//! Pointers stay addresses here: whoever follows one decides what it may be trusted for. Argument
//! positions are those of the manual page of each call (section 2); architectures differ in the
//! numbers, and in which of the older calls they have.

use crate::call::how::{OpenHow, writes};
use crate::call::ipc::IpcCall;
use crate::call::metadata::MetadataCall;
use crate::call::signal::{OwnerCall, SignalCall};
use crate::call::terminal::TerminalCall;
use common::trap::FileOperation;
use kernel::listener::Notification;
use kernel::owner::FIOASYNC;
use kernel::processes::ProcessChange;
use kernel::target::{TargetAddress, TargetFd};
use landstrip_filter::{CLONE_NAMESPACES, Syscall};
use nix::libc;
use rules::option;
use rules::socket::SocketKind;
use rustix::fs::{AtFlags, OFlags, RenameFlags};
use rustix::io;
use rustix::net::SocketFlags;

/// A notified system call, by what decides it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    /// Registers, which nothing can change while the target waits: it can be let through.
    Registers(RegisterCall),
    /// Memory, or what a descriptor leads to, which another thread can change: it is performed or
    /// refused. sendmsg(2) alone is let through where neither matters ([`crate::sockets::sendmsg_gate`]).
    Socket(SocketCall),
    /// The same: a change of metadata, which Landlock does not know. None is let through.
    Metadata(MetadataCall),
    /// A path: the broker's to do, or Landlock's to decide.
    File(FileCall),
    /// A path, of which only something is asked.
    Question(Question),
    /// Shared memory, semaphores and queues: the broker's to do, but for attaching memory.
    Ipc(IpcCall),
}

/// A call that its registers decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RegisterCall {
    /// socket of this kind, with the flags of its type.
    Socket(SocketKind, SocketFlags),
    /// socketpair of this kind, which the filter does not allow.
    Pair(SocketKind),
    /// setsockopt of a level and an option that the filter does not allow.
    Tune(i32, i32),
    /// A change of limits, priority or scheduling of the process or thread with this id.
    Process(i32, ProcessChange),
    /// The same of a process group or a user.
    ProcessGroup,
    /// A change of the caller's umask.
    Umask,
    /// A change of the caller's own credentials, or of those that what it executes gets; a filter of
    /// its own.
    Credentials,
    /// A Landlock domain of the caller's own, by the ruleset at this descriptor.
    Domain(TargetFd),
    /// ptrace(PTRACE_TRACEME): the parent becomes the tracer.
    TraceMe,
    /// A signal, let through if it is for the caller's own process.
    Signal(SignalCall),
    /// Signals of what happens on this descriptor: let through if they are to be for the caller's own process.
    Owner(TargetFd, OwnerCall),
    /// flock of this descriptor, with LOCK_SH or LOCK_EX.
    Lock(TargetFd, u32),
    /// fork, vfork, or clone of a process.
    Fork,
    /// setpgid: the process, and the group that it joins.
    JoinGroup(i32, i32),
    /// setsid.
    LeaveSession,
    /// What reaches beyond the caller of the terminal that this descriptor leads to.
    Terminal(TargetFd, TerminalCall),
    /// ptrace(PTRACE_ATTACH) or PTRACE_SEIZE of the thread with this id.
    Attach(i32),
    /// What is refused whatever it asks for: it is asked about only so that it can be told.
    Refused(Syscall),
}

/// What becomes of it: what it returns, executed by the broker or refused, or [`CONTINUE`].
pub(crate) type RegisterVerdict = io::Result<Option<i32>>;

/// The kernel executes it, with the registers that were judged.
pub(crate) const CONTINUE: RegisterVerdict = Ok(None);

/// A call on a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SocketCall {
    /// connect or bind: descriptor, address, length.
    Address(AddressUse, TargetFd, TargetAddress, u32),
    /// sendto, sendmsg or sendmmsg: descriptor, flags, messages.
    Send(TargetFd, u32, Messages),
    /// listen on a descriptor: backlog.
    Listen(TargetFd, i32),
    /// shutdown of a descriptor: how.
    Shutdown(TargetFd, i32),
    /// setsockopt of SO_REUSEADDR: descriptor, value, length.
    ShareAddress(TargetFd, TargetAddress, u32),
    /// socketpair of Unix datagram sockets: type with its flags, where the two numbers go.
    DatagramPair(i32, TargetAddress),
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
    Data(TargetAddress, u64, TargetAddress, u32),
    /// sendmsg: a `struct msghdr`.
    One(TargetAddress),
    /// sendmmsg: an array of `struct mmsghdr`, with their number.
    Several(TargetAddress, u32),
}

/// A path argument: the directory descriptor that a relative path starts from, and its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PathArg {
    pub(crate) directory: TargetFd,
    pub(crate) path: TargetAddress,
}

/// A call on files by path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileCall {
    /// open, openat, creat.
    Open(PathArg, OpenHow),
    /// truncate to this length.
    Truncate(PathArg, i64),
    /// An entry is made where none is.
    Create(PathArg, Creation),
    /// unlink and rmdir, with the flags of unlinkat.
    Remove(PathArg, AtFlags),
    /// rename, with the flags of renameat2.
    Rename(PathArg, PathArg, RenameFlags),
    /// link, with the flags of linkat.
    Link(PathArg, PathArg, AtFlags),
}

/// What kind of entry is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Creation {
    /// With these permission bits.
    Directory(u32),
    /// With this type and these permission bits. Devices are not made, so that their numbers mean nothing.
    Node(u32),
    /// With the text at this address.
    Symlink(TargetAddress),
}

impl FileCall {
    /// Its paths.
    pub(crate) fn path_args(&self) -> impl Iterator<Item = PathArg> {
        let (first, second) = match *self {
            Self::Open(arg, _)
            | Self::Truncate(arg, _)
            | Self::Create(arg, _)
            | Self::Remove(arg, _) => (arg, None),
            Self::Rename(old, new, _) | Self::Link(old, new, _) => (old, Some(new)),
        };
        std::iter::once(first).chain(second)
    }

    /// Whether a path that leads through what is there can lead elsewhere at once afterwards. (A link that is
    /// removed, and a directory that is made in its place, take two calls.)
    pub(crate) fn redirects_paths(&self) -> bool {
        match self {
            Self::Rename(..) | Self::Link(..) => true,
            Self::Create(_, creation) => matches!(creation, Creation::Symlink(_)),
            Self::Open(..) | Self::Truncate(..) | Self::Remove(..) => false,
        }
    }

    /// What it is, as far as registers say.
    pub(crate) fn operation(&self) -> FileOperation {
        match self {
            Self::Open(_, how) if !writes(how.flags) => FileOperation::Read,
            _ => FileOperation::Write,
        }
    }
}

/// access: whether what a path names may be used in some way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Question {
    pub(crate) arg: PathArg,
    /// In which way, as access(2) takes it.
    pub(crate) mode: u32,
    /// The flags of faccessat2.
    pub(crate) flags: AtFlags,
}

impl Call {
    /// Reads the call off the notification; none if it is one that the filter should not notify.
    pub(crate) fn decode(n: &Notification) -> Option<Self> {
        let call = Syscall::of(n.number)?;
        let file = FileCall::decode(call, n).map(Self::File);
        file.or_else(|| MetadataCall::decode(call, n).map(Self::Metadata))
            .or_else(|| SocketCall::decode(call, n).map(Self::Socket))
            .or_else(|| Question::decode(call, n).map(Self::Question))
            .or_else(|| IpcCall::decode(call, n).map(Self::Ipc))
            .or_else(|| RegisterCall::decode(call, n).map(Self::Registers))
    }
}

impl SocketCall {
    /// None for another call, as of all that follow.
    fn decode(call: Syscall, n: &Notification) -> Option<Self> {
        let held = n.descriptor(0);
        let send = |flags, messages| Self::Send(held, n.unsigned(flags), messages);
        let by_address = |what| Self::Address(what, held, n.address(1), n.unsigned(2));
        Some(match call {
            Syscall::connect => by_address(AddressUse::Connect),
            Syscall::bind => by_address(AddressUse::Bind),
            Syscall::sendto => {
                let (data, to) = (n.address(1), n.address(4));
                send(3, Messages::Data(data, n.arguments[2], to, n.unsigned(5)))
            }
            Syscall::sendmsg => send(2, Messages::One(n.address(1))),
            Syscall::sendmmsg => send(3, Messages::Several(n.address(1), n.unsigned(2))),
            Syscall::listen => Self::Listen(held, n.int(1)),
            Syscall::setsockopt if (n.int(1), n.int(2)) == option::SHARE_ADDRESS => {
                Self::ShareAddress(held, n.address(3), n.unsigned(4))
            }
            Syscall::shutdown => Self::Shutdown(held, n.int(1)),
            Syscall::socketpair
                if n.int(0) == libc::AF_UNIX
                    && [libc::SOCK_DGRAM, libc::SOCK_RAW].contains(&kind(n).kind)
                    && [0, libc::PF_UNIX].contains(&n.int(2)) =>
            {
                Self::DatagramPair(n.int(1), n.address(3))
            }
            _ => return None,
        })
    }
}

impl PathArg {
    pub(super) fn at_cwd(n: &Notification, index: usize) -> Self {
        Self { directory: TargetFd::CWD, path: n.address(index) }
    }

    pub(super) fn of(n: &Notification, index: usize) -> Self {
        Self { directory: n.descriptor(index), path: n.address(index + 1) }
    }
}

impl FileCall {
    fn decode(call: Syscall, n: &Notification) -> Option<Self> {
        let (at_cwd, arg) = (|index| PathArg::at_cwd(n, index), |index| PathArg::of(n, index));
        let open = |arg, flags, mode| Self::Open(arg, OpenHow::of_open(flags, n.unsigned(mode)));
        let directory = |mode| Creation::Directory(n.unsigned(mode));
        let node = |mode| Creation::Node(n.unsigned(mode));
        let symlink = Creation::Symlink(n.address(0));
        let rename = |flags| RenameFlags::from_bits_retain(flags);
        Some(match call {
            Syscall::open => open(at_cwd(0), n.unsigned(1), 2),
            Syscall::openat => open(arg(0), n.unsigned(2), 3),
            Syscall::creat => {
                let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::TRUNC;
                open(at_cwd(0), flags.bits(), 1)
            }
            Syscall::truncate => Self::Truncate(at_cwd(0), n.arguments[1].cast_signed()),
            Syscall::mkdir => Self::Create(at_cwd(0), directory(1)),
            Syscall::mkdirat => Self::Create(arg(0), directory(2)),
            Syscall::mknod => Self::Create(at_cwd(0), node(1)),
            Syscall::mknodat => Self::Create(arg(0), node(2)),
            Syscall::symlink => Self::Create(at_cwd(1), symlink),
            Syscall::symlinkat => Self::Create(arg(1), symlink),
            Syscall::rmdir => Self::Remove(at_cwd(0), AtFlags::REMOVEDIR),
            Syscall::unlink => Self::Remove(at_cwd(0), AtFlags::empty()),
            Syscall::unlinkat => Self::Remove(arg(0), AtFlags::from_bits_retain(n.unsigned(2))),
            Syscall::link => Self::Link(at_cwd(0), at_cwd(1), AtFlags::empty()),
            Syscall::linkat => Self::Link(arg(0), arg(2), AtFlags::from_bits_retain(n.unsigned(4))),
            Syscall::rename => Self::Rename(at_cwd(0), at_cwd(1), rename(0)),
            Syscall::renameat => Self::Rename(arg(0), arg(2), rename(0)),
            Syscall::renameat2 => Self::Rename(arg(0), arg(2), rename(n.unsigned(4))),
            _ => return None,
        })
    }
}

impl Question {
    fn decode(call: Syscall, n: &Notification) -> Option<Self> {
        let (arg, mode, flags) = match call {
            Syscall::access => (PathArg::at_cwd(n, 0), 1, 0),
            Syscall::faccessat => (PathArg::of(n, 0), 2, 0),
            Syscall::faccessat2 => (PathArg::of(n, 0), 2, n.unsigned(3)),
            _ => return None,
        };
        Some(Self { arg, mode: n.unsigned(mode), flags: AtFlags::from_bits_retain(flags) })
    }
}

impl RegisterCall {
    fn decode(call: Syscall, n: &Notification) -> Option<Self> {
        let owner = |call| Self::Owner(n.descriptor(0), call);
        let process = |change| Self::Process(n.int(0), change);
        Some(match call {
            Syscall::setsockopt => Self::Tune(n.int(1), n.int(2)),
            Syscall::socket => {
                let flags = n.unsigned(1) & !SOCK_TYPE_MASK.cast_unsigned();
                Self::Socket(kind(n), SocketFlags::from_bits_retain(flags))
            }
            Syscall::socketpair => Self::Pair(kind(n)),
            Syscall::prlimit64 => {
                process(ProcessChange::Limit(n.unsigned(1), n.address(2), n.address(3)))
            }
            Syscall::sched_setaffinity => {
                process(ProcessChange::Affinity(n.unsigned(1), n.address(2)))
            }
            Syscall::sched_setscheduler => {
                process(ProcessChange::Scheduler(n.int(1), n.address(2)))
            }
            Syscall::sched_setparam => process(ProcessChange::Parameters(n.address(1))),
            Syscall::sched_setattr => {
                process(ProcessChange::Attributes(n.address(1), n.unsigned(2)))
            }
            Syscall::setpriority if n.int(0) == PRIO_PROCESS => {
                Self::Process(n.int(1), ProcessChange::Priority(n.int(2)))
            }
            Syscall::ioprio_set if n.int(0) == IOPRIO_WHO_PROCESS => {
                Self::Process(n.int(1), ProcessChange::InputPriority(n.int(2)))
            }
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
            Syscall::landlock_restrict_self => Self::Domain(n.descriptor(0)),
            Syscall::fcntl if n.int(1) == libc::F_SETOWN => owner(OwnerCall::Owner(n.int(2))),
            Syscall::fcntl if n.int(1) == libc::F_SETFL => {
                owner(OwnerCall::Flags(OFlags::from_bits_retain(n.unsigned(2))))
            }
            Syscall::ioctl if n.unsigned(1) == FIOASYNC => owner(OwnerCall::Switch(n.address(2))),
            Syscall::ioctl => Self::Terminal(n.descriptor(0), TerminalCall::decode(n)?),
            Syscall::flock => Self::Lock(n.descriptor(0), n.unsigned(1)),
            Syscall::setsid => Self::LeaveSession,
            Syscall::setpgid => Self::JoinGroup(n.int(0), n.int(1)),
            Syscall::clone if n.unsigned(0) & CLONE_NAMESPACES != 0 => Self::Refused(call),
            Syscall::fork | Syscall::vfork | Syscall::clone => Self::Fork,
            Syscall::umask => Self::Umask,
            Syscall::ptrace if n.unsigned(0) == PTRACE_TRACEME => Self::TraceMe,
            Syscall::ptrace => Self::Attach(n.int(1)),
            // Newer than what programs need; without them they use the calls that are known.
            Syscall::setxattrat | Syscall::removexattrat | Syscall::file_setattr => return None,
            // Of mount(2), bpf(2), reboot(2) and the like the filter notifies only so that people can be told.
            _ => SignalCall::decode(call, n).map_or(Self::Refused(call), Self::Signal),
        })
    }
}

/// The rest of a socket's type are flags (socket(2)).
const SOCK_TYPE_MASK: i32 = 0xf;

impl Call {
    /// Whether it changes nothing of what paths lead to, and is no call the refusal of which would be reported
    /// at once.
    pub(crate) fn leaves_paths(&self) -> bool {
        match self {
            Self::File(FileCall::Open(..)) | Self::Question(_) | Self::Ipc(_) => true,
            Self::File(_) | Self::Socket(_) | Self::Metadata(_) => false,
            Self::Registers(call) => !matches!(
                call,
                RegisterCall::Socket(..) | RegisterCall::Pair(_) | RegisterCall::Tune(..)
            ),
        }
    }

    /// Whether it does more when it is done twice, and nothing says then that it was done already.
    pub(crate) fn counts(&self) -> bool {
        match self {
            Self::Ipc(call) => {
                matches!(call, IpcCall::Operate(..) | IpcCall::Send(..) | IpcCall::Receive(..))
            }
            Self::File(FileCall::Rename(_, _, flags)) => flags.contains(RenameFlags::EXCHANGE),
            Self::Registers(RegisterCall::Signal(_))
            | Self::Socket(SocketCall::DatagramPair(..)) => true,
            _ => false,
        }
    }

    /// Whether answering it waits for connects that are being made, or starts a process. A connect or a
    /// message seldom has to wait, which shows when it is made.
    pub(crate) fn can_wait(&self) -> bool {
        matches!(
            self,
            Self::Socket(
                SocketCall::Address(AddressUse::Bind, ..)
                    | SocketCall::Listen(..)
                    | SocketCall::Shutdown(..)
            )
        )
    }
}

/// linux/ioprio.h, linux/resource.h and linux/ptrace.h; C libraries differ about their types.
const IOPRIO_WHO_PROCESS: i32 = 1;
const PRIO_PROCESS: i32 = 0;
const PTRACE_TRACEME: u32 = 0;

/// What socket and socketpair are asked for.
fn kind(n: &Notification) -> SocketKind {
    SocketKind { domain: n.int(0), kind: n.int(1) & SOCK_TYPE_MASK, protocol: n.int(2) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::metadata::{RawChange, Subject};
    use landstrip_filter::{Arch, Entry, Variant};
    use rustix::process::Pid;

    fn decode(call: Syscall, arguments: [u64; 6]) -> Option<Call> {
        let number = Arch::NATIVE.number(call).unwrap();
        Call::decode(&Notification {
            id: 1,
            thread: Pid::from_raw(1).unwrap(),
            number: number.cast_signed(),
            arguments,
        })
    }

    fn fd(number: i32) -> TargetFd {
        TargetFd::new(number)
    }

    fn at(address: u64) -> TargetAddress {
        TargetAddress::new(address)
    }

    #[test]
    fn every_call_that_the_filter_notifies_is_known_here() {
        // Newer than what programs need; without them they use the calls that are known.
        let refused = [Syscall::setxattrat, Syscall::removexattrat, Syscall::file_setattr];
        for variant in [
            Variant::empty(),
            Variant::ALLOW_NETWORK,
            Variant::REPORT_READS,
            Variant::LISTINGS,
            Variant::CHANGES_LEFT,
            Variant::LOCAL_BINDING,
            Variant::ALL_UNIX_SOCKETS,
            Variant::DATAGRAMS,
            Variant::DATAGRAMS | Variant::LOCAL_BINDING,
            Variant::MAKES_SOCKETS,
            Variant::NO_SCOPES,
            Variant::NO_DEVICES,
            Variant::NO_TRUNCATION,
        ] {
            let entries = landstrip_filter::describe(variant);
            let notified = entries.filter(|entry| entry.what.contains("the broker"));
            for Entry { call, why, .. } in notified {
                if Arch::NATIVE.number(call).is_some() {
                    let arguments = match call {
                        Syscall::fcntl => {
                            [0, u64::from(libc::F_SETOWN.cast_unsigned()), 0, 0, 0, 0]
                        }
                        Syscall::ioctl => [0, FIOASYNC.into(), 0, 0, 0, 0],
                        _ => [0; 6],
                    };
                    let decoded = decode(call, arguments);
                    assert_eq!(decoded.is_some(), !refused.contains(&call), "{call}");
                    // What is known by nothing else is refused, on purpose.
                    if let Some(Call::Registers(RegisterCall::Refused(_))) = decoded {
                        assert!(why.contains("the broker refuses"), "{call}");
                    }
                }
            }
        }
    }

    /// What is let through as a fork is none with a namespace.
    #[test]
    fn a_clone_with_a_namespace_is_refused() {
        for bit in 0..64 {
            let makes = [17, 25, 26, 27, 28, 29, 30].contains(&bit);
            let expected = match makes {
                true => RegisterCall::Refused(Syscall::clone),
                false => RegisterCall::Fork,
            };
            let flags = 1 << bit | 17;
            let call = decode(Syscall::clone, [flags, 0, 0, 0, 0, 0]);
            assert_eq!(call, Some(Call::Registers(expected)), "{flags:#x}");
        }
    }

    #[test]
    fn upper_halves_of_int_arguments_are_ignored() {
        let garbage = 0xdead_beef_0000_0000;
        let call = decode(Syscall::fchmod, [garbage | 5, garbage | 0o644, 0, 0, 0, 0]);
        let expected =
            MetadataCall { subject: Subject::Descriptor(fd(5)), change: RawChange::Mode(0o644) };
        assert_eq!(call, Some(Call::Metadata(expected)));
    }

    #[test]
    fn a_send_has_its_flags_where_the_call_has_them() {
        for (number, arguments, what) in [
            (
                Syscall::sendto,
                [3, 0x10, 5, 0x40, 0x20, 110],
                Messages::Data(at(0x10), 5, at(0x20), 110),
            ),
            (Syscall::sendmsg, [3, 0x10, 0x40, 1, 2, 3], Messages::One(at(0x10))),
            (Syscall::sendmmsg, [3, 0x10, 7, 0x40, 1, 2], Messages::Several(at(0x10), 7)),
        ] {
            let expected = SocketCall::Send(fd(3), 0x40, what);
            assert_eq!(decode(number, arguments), Some(Call::Socket(expected)));
        }
    }

    #[test]
    fn both_names_of_a_rename_are_known() {
        let call = decode(Syscall::renameat2, [3, 0x10, 4, 0x20, 2, 0]);
        let (old, new) = (
            PathArg { directory: fd(3), path: at(0x10) },
            PathArg { directory: fd(4), path: at(0x20) },
        );
        assert_eq!(call, Some(Call::File(FileCall::Rename(old, new, RenameFlags::EXCHANGE))));
        let Some(Call::File(call)) = call else { unreachable!("just compared") };
        assert_eq!(call.path_args().collect::<Vec<_>>(), [old, new]);
    }

    #[test]
    fn unknown_flags_of_metadata_calls_name_nothing() {
        for number in [Syscall::fchmodat2, Syscall::utimensat] {
            let call = decode(number, [0, 1, 2, 0x800, 0, 0]);
            let Some(Call::Metadata(call)) = call else { panic!("{call:?}") };
            assert_eq!(call.subject, Subject::Invalid);
        }
    }

    #[test]
    fn a_null_path_of_utimensat_means_the_descriptor() {
        let call = decode(Syscall::utimensat, [7, 0, 0x30, 0, 0, 0]);
        let expected = MetadataCall {
            subject: Subject::Descriptor(fd(7)),
            change: RawChange::Timespec(at(0x30)),
        };
        assert_eq!(call, Some(Call::Metadata(expected)));
    }
}

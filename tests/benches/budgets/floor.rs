//! The floor: a supervisor that has the same calls notified as a policy does, and does no more for each than
//! anybody would have to who answers it. What is above that is landstrip's own; what is below, no budget can ask.
//! Changes of metadata by descriptor it makes itself, on a duplicate: another file can have the number by the time
//! that the kernel looks, and Landlock knows no metadata.
//!
//! Its command is in a Landlock domain that allows everything, as the kernel asks for the way to each object
//! either way. Source: seccomp_unotify(2).

#![allow(unsafe_code)] // for ioctl(2), seccomp(2) and process_vm_readv(2), which no library here has

use rustix::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use rustix::fs::{self, Gid, Mode as FileMode, OFlags, Timespec, Timestamps, Uid};
use rustix::net::{
    self, AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};
use rustix::process::{self, Pid, PidfdFlags, PidfdGetfdFlags};
use std::ffi::{CStr, OsString};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};
use std::thread;
use tests::bench::Outcome;

/// What a supervisor does, by the name that it is started with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Floor {
    /// Nothing: no call is notified.
    Landlock,
    /// Changes of metadata made for the target by descriptor, let through by path.
    Metadata,
    /// The same, and all other changes of files let through.
    Changes,
    /// Opens for reading let through.
    Reads,
    /// Opens for reading made for the target, and changes as above.
    OwnReads,
    /// Changes of metadata and connects made for the target, by descriptor.
    OwnCalls,
}

const FLOORS: [(&str, Floor); 6] = [
    ("landlock", Floor::Landlock),
    ("metadata", Floor::Metadata),
    ("changes", Floor::Changes),
    ("reads", Floor::Reads),
    ("own-reads", Floor::OwnReads),
    ("own-calls", Floor::OwnCalls),
];

const METADATA: &[libc::c_long] = &[
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_utimensat,
];
const CHANGES: &[libc::c_long] = &[
    libc::SYS_unlinkat,
    libc::SYS_mkdirat,
    libc::SYS_symlinkat,
    libc::SYS_linkat,
    libc::SYS_renameat2,
    libc::SYS_ftruncate,
];
/// Those that other architectures have not.
#[cfg(target_arch = "x86_64")]
const OLD_CHANGES: &[libc::c_long] = &[
    libc::SYS_unlink,
    libc::SYS_rmdir,
    libc::SYS_mkdir,
    libc::SYS_rename,
    libc::SYS_link,
    libc::SYS_symlink,
    libc::SYS_chmod,
    libc::SYS_chown,
    libc::SYS_lchown,
];
#[cfg(not(target_arch = "x86_64"))]
const OLD_CHANGES: &[libc::c_long] = &[];

/// Flags of an open that changes something.
const WRITES: u32 = (libc::O_WRONLY | libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC) as u32;

// linux/seccomp.h
const RECEIVE: libc::c_ulong = 0xc050_2100;
const SEND: libc::c_ulong = 0xc018_2101;
const ADD_DESCRIPTOR: libc::c_ulong = 0x4018_2103;
const SET_FLAGS: libc::c_ulong = 0x4008_2104;
const SYNC_WAKE_UP: libc::c_ulong = 1;

impl Floor {
    pub(crate) fn name(self) -> &'static str {
        FLOORS.iter().find(|(_, floor)| *floor == self).map_or("", |(name, _)| name)
    }

    fn calls(self) -> Vec<libc::c_long> {
        match self {
            Self::Landlock | Self::Reads => Vec::new(),
            Self::Metadata => METADATA.to_vec(),
            Self::Changes | Self::OwnReads => [METADATA, CHANGES, OLD_CHANGES].concat(),
            Self::OwnCalls => vec![libc::SYS_fchmod, libc::SYS_connect],
        }
    }

    /// Whether opens are notified that write, and that only read.
    fn opens(self) -> (bool, bool) {
        match self {
            Self::Landlock | Self::Metadata | Self::OwnCalls => (false, false),
            Self::Changes => (true, false),
            Self::Reads => (false, true),
            Self::OwnReads => (true, true),
        }
    }
}

/// Runs `words`, FLOOR COMMAND ARGUMENT..., to the end.
pub(crate) fn run(words: &[OsString]) -> Outcome<ExitCode> {
    let [floor, program, arguments @ ..] = words else { return Err("FLOOR COMMAND".into()) };
    let (_, floor) =
        *FLOORS.iter().find(|(name, _)| floor == *name).ok_or("there is no such floor")?;
    let filter = filter_of(floor)?;
    let (ours, theirs) =
        net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    let mut command = Command::new(program);
    command.args(arguments);
    let confine = move || {
        allow_everything()?;
        if filter.len() > 2 { hand_over(listen(&filter)?.as_fd(), theirs.as_fd()) } else { Ok(()) }
    };
    // SAFETY: makes system calls only.
    unsafe { command.pre_exec(confine) };
    let mut child = command.spawn()?;
    if floor != Floor::Landlock {
        let listener = receive(ours.as_fd())?;
        thread::spawn(move || supervise(floor, &listener));
    }
    let status = child.wait()?;
    Ok(ExitCode::from(u8::try_from(status.code().unwrap_or(125))?))
}

fn allow_everything() -> io::Result<()> {
    use landlock::{
        ABI, Access, AccessFs, Ruleset, RulesetAttr, RulesetCreatedAttr, path_beneath_rules,
    };
    let all = AccessFs::from_all(ABI::V5);
    let ruleset = Ruleset::default().handle_access(all).and_then(Ruleset::create);
    let ruleset = ruleset.and_then(|ruleset| ruleset.add_rules(path_beneath_rules(["/"], all)));
    ruleset.and_then(|ruleset| ruleset.restrict_self()).map_err(io::Error::other)?;
    Ok(())
}

/// A filter that notifies what the floor asks for.
fn filter_of(floor: Floor) -> Outcome<Vec<libc::sock_filter>> {
    const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    const IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    const IF_ANY: u16 = (libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K) as u16;
    const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    /// Where `struct seccomp_data` has the third argument.
    const FLAGS: u32 = 16 + 2 * 8;
    let step = |code, k, jt, jf| libc::sock_filter { code, jt, jf, k };
    let verdict = |notifies| match notifies {
        true => step(RETURN, libc::SECCOMP_RET_USER_NOTIF, 0, 0),
        false => step(RETURN, libc::SECCOMP_RET_ALLOW, 0, 0),
    };
    let mut filter = vec![step(LOAD, 0, 0, 0)];
    for call in floor.calls() {
        filter.extend([step(IF_EQUAL, u32::try_from(call)?, 0, 1), verdict(true)]);
    }
    let (writes, reads) = floor.opens();
    if writes || reads {
        filter.extend([
            step(IF_EQUAL, u32::try_from(libc::SYS_openat)?, 0, 4),
            step(LOAD, FLAGS, 0, 0),
            step(IF_ANY, WRITES, 0, 1),
            verdict(writes),
            verdict(reads),
        ]);
    }
    filter.push(verdict(false));
    Ok(filter)
}

fn listen(filter: &[libc::sock_filter]) -> io::Result<OwnedFd> {
    let length = u16::try_from(filter.len()).map_err(io::Error::other)?;
    let program = libc::sock_fprog { len: length, filter: filter.as_ptr().cast_mut() };
    rustix::thread::set_no_new_privs(true)?;
    let flags =
        libc::SECCOMP_FILTER_FLAG_NEW_LISTENER | libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
    // SAFETY: reads the program that the pointer leads to.
    let listener = unsafe {
        libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const program)
    };
    match i32::try_from(listener) {
        // SAFETY: the kernel has made it for the caller.
        Ok(listener) if listener >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(listener) }),
        _ => Err(io::Error::last_os_error()),
    }
}

fn hand_over(listener: BorrowedFd<'_>, to: BorrowedFd<'_>) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let listener = [listener];
    control.push(SendAncillaryMessage::ScmRights(&listener));
    net::sendmsg(to, &[IoSlice::new(b"l")], &mut control, SendFlags::empty())?;
    Ok(())
}

fn receive(from: BorrowedFd<'_>) -> Outcome<OwnedFd> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let flags = RecvFlags::CMSG_CLOEXEC;
    net::recvmsg(from, &mut [IoSliceMut::new(&mut byte)], &mut control, flags)?;
    let mut received = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    Ok(received.next().ok_or("no listener")?)
}

/// What a notified call gets.
enum Reply {
    /// The kernel executes it.
    Through,
    /// It was done, or fails.
    Done(rustix::io::Result<()>),
    /// A file that was opened for it.
    File(OwnedFd),
}

/// Answers until nobody is left.
fn supervise(floor: Floor, listener: &OwnedFd) -> io::Result<()> {
    let number = listener.as_raw_fd();
    // SAFETY: takes an integer. Its failure only costs time.
    let _ = unsafe { libc::ioctl(number, SET_FLAGS, SYNC_WAKE_UP) };
    loop {
        // SAFETY: plain integers.
        let mut asked: libc::seccomp_notif = unsafe { std::mem::zeroed() };
        // SAFETY: writes one structure of this type.
        if unsafe { libc::ioctl(number, RECEIVE, &raw mut asked) } != 0 {
            match io::Error::last_os_error() {
                // Its target died first.
                error if error.raw_os_error() == Some(libc::ENOENT) => continue,
                error => return Err(error),
            }
        }
        let (error, flags) = match reply(floor, &asked) {
            Reply::Through => (0, libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32),
            Reply::Done(result) => (result.map_or_else(|errno| -errno.raw_os_error(), |()| 0), 0),
            Reply::File(file) => {
                let added = libc::seccomp_notif_addfd {
                    id: asked.id,
                    flags: libc::SECCOMP_ADDFD_FLAG_SEND as u32,
                    srcfd: file.as_raw_fd().cast_unsigned(),
                    newfd: 0,
                    newfd_flags: asked.data.args[2] as u32 & libc::O_CLOEXEC as u32,
                };
                // SAFETY: reads one structure of this type.
                unsafe { libc::ioctl(number, ADD_DESCRIPTOR, &raw const added) };
                continue;
            }
        };
        let mut answer = libc::seccomp_notif_resp { id: asked.id, val: 0, error, flags };
        // SAFETY: reads one structure of this type.
        unsafe { libc::ioctl(number, SEND, &raw mut answer) };
    }
}

fn reply(floor: Floor, asked: &libc::seccomp_notif) -> Reply {
    let call = libc::c_long::from(asked.data.nr);
    let reads = call == libc::SYS_openat && asked.data.args[2] & u64::from(WRITES) == 0;
    match floor {
        Floor::OwnReads if reads => match open(asked) {
            Ok(file) => Reply::File(file),
            Err(errno) => Reply::Done(Err(errno)),
        },
        _ if is_by_descriptor(&asked.data) => Reply::Done(perform(asked)),
        _ => Reply::Through,
    }
}

/// Opens what a target asks for, from its own directory. It is judged by nobody.
fn open(asked: &libc::seccomp_notif) -> rustix::io::Result<OwnedFd> {
    let [directory, path, flags, ..] = asked.data.args;
    let mut bytes = [0; 4096];
    // A path seldom is longer than this, or ends at a page.
    read(asked.pid, path, &mut bytes[..256])?;
    let path = CStr::from_bytes_until_nul(&bytes).map_err(|_| rustix::io::Errno::NAMETOOLONG)?;
    let base = match directory as i32 {
        libc::AT_FDCWD => format!("/proc/{}/cwd", asked.pid),
        number => format!("/proc/{}/fd/{number}", asked.pid),
    };
    let hold = OFlags::PATH | OFlags::CLOEXEC;
    let base = match path.to_bytes().starts_with(b"/") {
        true => None,
        false => Some(fs::open(base, hold, FileMode::empty())?),
    };
    let base = base.as_ref().map_or(fs::CWD, AsFd::as_fd);
    let flags = OFlags::from_bits_retain(flags as u32) | OFlags::CLOEXEC;
    // What is held is what is judged: then that is opened.
    let found = fs::openat(base, path, hold | (flags & OFlags::NOFOLLOW), FileMode::empty())?;
    let link = format!("/proc/self/fd/{}", found.as_raw_fd());
    fs::open(link, flags - OFlags::NOFOLLOW, FileMode::empty())
}

/// Whether it is a connect, or a change of metadata that names what is changed by a descriptor.
fn is_by_descriptor(call: &libc::seccomp_data) -> bool {
    match libc::c_long::from(call.nr) {
        libc::SYS_fchmod | libc::SYS_fchown | libc::SYS_connect => true,
        libc::SYS_utimensat => call.args[1] == 0,
        _ => false,
    }
}

/// Makes a change of metadata, or a connect, on a duplicate of the target's descriptor.
fn perform(asked: &libc::seccomp_notif) -> rustix::io::Result<()> {
    let id = i32::try_from(asked.pid).ok().and_then(Pid::from_raw);
    let pidfd = process::pidfd_open(id.ok_or(rustix::io::Errno::SRCH)?, PidfdFlags::empty())?;
    let number = asked.data.args[0] as i32;
    let own = process::pidfd_getfd(pidfd, number, PidfdGetfdFlags::empty())?;
    let [_, first, second, ..] = asked.data.args;
    match libc::c_long::from(asked.data.nr) {
        libc::SYS_fchmod => {
            return fs::fchmod(&own, FileMode::from_bits_retain(first as u32));
        }
        libc::SYS_fchown => {
            let (user, group) = (Uid::from_raw(first as u32), Gid::from_raw(second as u32));
            return fs::fchown(&own, Some(user), Some(group));
        }
        libc::SYS_utimensat => return fs::futimens(&own, &times(asked.pid, second)?),
        _ => {}
    }
    let mut address = [0; 128];
    let length = usize::try_from(second).unwrap_or(0).min(address.len());
    read(asked.pid, first, &mut address[..length])?;
    // SAFETY: reads as many bytes as the length says.
    let connected = unsafe {
        libc::connect(own.as_raw_fd(), address.as_ptr().cast(), length as libc::socklen_t)
    };
    match connected {
        0 => Ok(()),
        _ => Err(rustix::io::Errno::from_io_error(&io::Error::last_os_error())
            .unwrap_or(rustix::io::Errno::IO)),
    }
}

/// Copies two times, or takes now for none.
fn times(process: u32, address: u64) -> rustix::io::Result<Timestamps> {
    let mut bytes = [0; 32];
    let now = libc::UTIME_NOW;
    let mut words = [0, now, 0, now];
    if address != 0 {
        read(process, address, &mut bytes)?;
        for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = bytes.try_into().map_or(0, i64::from_ne_bytes);
        }
    }
    let [last_access, last_modification] =
        [0, 2].map(|at| Timespec { tv_sec: words[at], tv_nsec: words[at + 1] });
    Ok(Timestamps { last_access, last_modification })
}

/// Copies what a target has at `address`, at least a byte.
fn read(process: u32, address: u64, buffer: &mut [u8]) -> rustix::io::Result<()> {
    let local = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    let remote = libc::iovec { iov_base: address as *mut _, iov_len: buffer.len() };
    let (local, remote) = (&raw const local, &raw const remote);
    // SAFETY: writes to the buffer, up to its length.
    let read = unsafe { libc::process_vm_readv(process as i32, local, 1, remote, 1, 0) };
    if read > 0 { Ok(()) } else { Err(rustix::io::Errno::FAULT) }
}

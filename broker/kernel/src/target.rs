//! The target of a notification: its memory and its descriptors.
//!
//! Everything here is read under the target's thread id while it waits; what comes of it counts only
//! after [`Request::confirm`](super::request::Request::confirm). Sources: process_vm_readv(2), proc(5),
//! pidfd_getfd(2).

use super::long_paths::PATH_MAX;
use super::pidfds;
use super::proc::{self, Status};
use super::ptrace_capability;
use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use rustix::fd::OwnedFd;
use rustix::fs::{self, Mode, OFlags};
use rustix::io::{self, Errno};
use rustix::process::{self, Pid, PidfdFlags, PidfdGetfdFlags};
use std::cell::RefCell;
use std::fmt;
use std::io::IoSliceMut;

/// Smallest page of any architecture: reads are cut at its multiples, for a read that touches an
/// unmapped page returns nothing of the mapped ones beside it.
const PAGE: u64 = 4096;

thread_local! {
    /// The paths that were copied of a call, each with the id of that and where it lies.
    static COPIED: RefCell<Vec<(u64, TargetAddress, Vec<u8>)>> = const { RefCell::new(Vec::new()) };
}

/// A thread that waits for an answer.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    pub(super) thread: Pid,
    /// The id of the call that it waits in, which no other call has.
    pub(super) call: Option<u64>,
}

/// The number of a descriptor in a target's table; it means nothing in the broker's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TargetFd(i32);

/// A place in a target's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TargetAddress(u64);

impl TargetFd {
    /// The current directory as a directory argument (fcntl.h).
    pub const CWD: Self = Self(-100);

    pub const fn new(number: i32) -> Self {
        Self(number)
    }

    pub fn raw(self) -> i32 {
        self.0
    }
}

impl fmt::Display for TargetFd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl TargetAddress {
    /// In the first page nothing is mapped.
    pub const NOWHERE: Self = Self(8);

    pub const fn new(address: u64) -> Self {
        Self(address)
    }

    pub fn is_null(self) -> bool {
        self.0 == 0
    }

    /// The place `offset` bytes further on.
    ///
    /// # Errors
    /// Returns [`Errno::FAULT`] where memory ends.
    pub fn plus(self, offset: u64) -> io::Result<Self> {
        self.0.checked_add(offset).map(Self).ok_or(Errno::FAULT)
    }

    fn base(self) -> io::Result<usize> {
        usize::try_from(self.0).map_err(|_| Errno::FAULT)
    }
}

impl Target {
    pub fn new(thread: Pid) -> Self {
        Self { thread, call: None }
    }

    pub fn thread(&self) -> Pid {
        self.thread
    }

    /// Copies `buffer.len()` bytes at `address`.
    ///
    /// # Errors
    /// Returns [`Errno::FAULT`] if not all of it is mapped, [`Errno::PERM`] if the target's memory is
    /// not readable to us (an executable without read permission, PR_SET_DUMPABLE).
    pub fn read(&self, address: TargetAddress, buffer: &mut [u8]) -> io::Result<()> {
        let length = buffer.len();
        self.gather(&[(address, length)], buffer)
    }

    /// Copies `N` bytes at `address`.
    ///
    /// # Errors
    /// As [`Target::read`].
    pub fn read_array<const N: usize>(&self, address: TargetAddress) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.read(address, &mut bytes).map(|()| bytes)
    }

    /// Copies `N` words at `address`, as structures of the 64-bit architectures have them.
    ///
    /// # Errors
    /// As [`Target::read`].
    pub fn read_words<const N: usize>(&self, address: TargetAddress) -> io::Result<[u64; N]> {
        let mut words = [[0; 8]; N];
        self.read(address, words.as_flattened_mut())?;
        Ok(words.map(u64::from_ne_bytes))
    }

    /// Copies `parts` one after the other, each by its address and length, into `buffer`, which has
    /// their length. There are at most 1024 (UIO_MAXIOV).
    pub fn gather(&self, parts: &[(TargetAddress, usize)], buffer: &mut [u8]) -> io::Result<()> {
        let wanted = buffer.len();
        if wanted == 0 {
            return Ok(());
        }
        let thread = nix::unistd::Pid::from_raw(self.thread.as_raw_pid());
        let remote = parts.iter().map(|&(at, len)| Ok(RemoteIoVec { base: at.base()?, len }));
        let remote = remote.collect::<io::Result<Vec<_>>>()?;
        match process_vm_readv(thread, &mut [IoSliceMut::new(buffer)], &remote) {
            // By the platform perhaps, as by Podman's default seccomp profile, and not by the kernel:
            // that asks for the same right here.
            Err(nix::Error::EPERM) => {
                let memory = self.open_memory(OFlags::RDONLY).map_err(|_| Errno::PERM)?;
                let mut rest = buffer;
                for &(at, length) in parts {
                    let (part, after) = rest.split_at_mut(length);
                    memory.read(at, part)?;
                    rest = after;
                }
                Ok(())
            }
            Ok(done) if done == wanted => Ok(()),
            Ok(_) => Err(Errno::FAULT),
            Err(errno) => Err(Errno::from_raw_os_error(errno as i32)),
        }
    }

    /// Copies the path at `address`, without its NUL. Of one call a thread copies it once: whoever looks again
    /// there sees what was judged. What is judged and done with another's rights is both in a thread of its own, so
    /// that a report alone can be of another copy.
    ///
    /// # Errors
    /// Returns [`Errno::NAMETOOLONG`] if no NUL ends it within PATH_MAX, [`Errno::SRCH`] for what waits in no call,
    /// else as [`Target::read`].
    pub fn read_path(&self, address: TargetAddress) -> io::Result<Vec<u8>> {
        let call = self.call.ok_or(Errno::SRCH)?;
        COPIED.with_borrow_mut(|copied| {
            copied.retain(|&(of, ..)| of == call);
            if let Some((.., path)) = copied.iter().find(|&&(_, at, _)| at == address) {
                return Ok(path.clone());
            }
            let path = self.read_string(address, PATH_MAX, Errno::NAMETOOLONG)?;
            copied.push((call, address, path.clone()));
            Ok(path)
        })
    }

    /// Copies the string at `address`, without its NUL; `limit` counts the NUL.
    ///
    /// # Errors
    /// Returns `too_long` if no NUL ends it within `limit`, else as [`Target::read`].
    pub fn read_string(
        &self,
        address: TargetAddress,
        limit: usize,
        too_long: Errno,
    ) -> io::Result<Vec<u8>> {
        // Most are short: one small read, then the rest page by page.
        const FIRST: usize = 256;
        let mut string = Vec::new();
        while string.len() < limit {
            let done = string.len();
            let at = address.plus(done as u64)?;
            let to_page_end = usize::try_from(PAGE - at.0 % PAGE).map_err(|_| Errno::FAULT)?;
            let size = if done == 0 { FIRST } else { PATH_MAX };
            let size = size.min(to_page_end).min(limit - done);
            string.resize(done + size, 0);
            self.read(at, &mut string[done..])?;
            if let Some(end) = string[done..].iter().position(|&byte| byte == 0) {
                string.truncate(done + end);
                return Ok(string);
            }
        }
        Err(too_long)
    }

    /// The working directory, or what the descriptor `number` refers to: opened with O_PATH,
    /// so that nothing happens to it, and no right comes with it.
    ///
    /// # Errors
    /// Returns [`Errno::BADF`] if the target has no such descriptor.
    pub fn directory(&self, number: TargetFd) -> io::Result<OwnedFd> {
        if number == TargetFd::CWD { self.open_link("cwd") } else { self.descriptor(number) }
    }

    /// What the descriptor `number` refers to, with O_PATH.
    ///
    /// # Errors
    /// Returns [`Errno::BADF`] if the target has no such descriptor.
    pub fn descriptor(&self, number: TargetFd) -> io::Result<OwnedFd> {
        if number.0 < 0 {
            return Err(Errno::BADF);
        }
        self.open_link(&format!("fd/{number}"))
    }

    fn open_link(&self, name: &str) -> io::Result<OwnedFd> {
        let path = self.proc(name);
        ptrace_capability::of(|| fs::open(&path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()))
            .map_err(|errno| if errno == Errno::NOENT { Errno::BADF } else { errno })
    }

    /// The path of what proc(5) has under `name` of the target.
    pub fn proc(&self, name: &str) -> String {
        format!("/proc/{}/{name}", self.thread.as_raw_nonzero())
    }

    /// Whether the target hides its memory and its descriptors from the broker (PR_SET_DUMPABLE).
    pub fn hides(&self) -> bool {
        self.open_link("cwd").is_err_and(|errno| errno == Errno::ACCESS)
    }

    /// Whether descriptor `number` was opened with O_PATH.
    ///
    /// # Errors
    /// Returns [`Errno::BADF`] if the target has no such descriptor.
    pub fn is_path_only(&self, number: TargetFd) -> io::Result<bool> {
        let link = self.proc(&format!("fd/{number}"));
        let link = ptrace_capability::of(|| fs::lstat(&link)).map_err(|_| Errno::BADF)?;
        // The link's mode says what the descriptor can do (proc_pid_fd(5)): with O_PATH nothing. But
        // neither can one that was opened for ioctl(2) alone.
        Ok(Mode::from_raw_mode(link.st_mode).is_empty()
            && self.descriptor_flags(number)?.contains(OFlags::PATH))
    }

    fn descriptor_info(&self, number: TargetFd) -> io::Result<Vec<u8>> {
        let info = self.proc(&format!("fdinfo/{number}"));
        ptrace_capability::of(|| proc::read(&info)).map_err(|_| Errno::BADF)
    }

    /// The flags of descriptor `number` and of what it refers to, as open(2) takes them.
    ///
    /// # Errors
    /// Returns [`Errno::BADF`] if the target has no such descriptor.
    pub fn descriptor_flags(&self, number: TargetFd) -> io::Result<OFlags> {
        let text = self.descriptor_info(number)?;
        let flags = proc::field(&text, "flags:").and_then(|f| u32::from_str_radix(f, 8).ok());
        flags.map(OFlags::from_bits_retain).ok_or(Errno::BADF)
    }

    /// The number in devpts(5) of the terminal whose master is at descriptor `number`; none for what is no master.
    ///
    /// # Errors
    /// Returns [`Errno::BADF`] if the target has no such descriptor.
    pub(super) fn terminal_index(&self, number: TargetFd) -> io::Result<Option<u32>> {
        let text = self.descriptor_info(number)?;
        Ok(proc::field(&text, "tty-index:").and_then(|index| index.parse().ok()))
    }

    /// The process that descriptor `number` is a handle of (pidfd_open(2)).
    ///
    /// # Errors
    /// Returns [`Errno::BADF`] if it is none, [`Errno::SRCH`] if that has been reaped.
    pub fn handled_process(&self, number: TargetFd) -> io::Result<i32> {
        let text = self.descriptor_info(number)?;
        let process = proc::field(&text, "Pid:").and_then(|id| id.parse().ok());
        process.ok_or(Errno::BADF).and_then(|id| if id > 0 { Ok(id) } else { Err(Errno::SRCH) })
    }

    /// The kernel's name for the protocol of the socket at descriptor `number`, such as `TCPv6`
    /// (net/socket.c, system.sockprotoname).
    ///
    /// # Errors
    /// Returns [`Errno::BADF`] if the target has no such descriptor, [`Errno::NOTSOCK`] if it is not
    /// a socket, [`Errno::PERM`] if the target may not be traced.
    pub fn socket_protocol(&self, number: TargetFd) -> io::Result<Vec<u8>> {
        let path = self.proc(&format!("fd/{number}"));
        let mut name = [0; 64];
        match fs::getxattr(path, "system.sockprotoname", &mut name) {
            Ok(length) => {
                let name = &name[..length];
                Ok(name.strip_suffix(b"\0").unwrap_or(name).to_vec())
            }
            Err(Errno::NOENT) => Err(Errno::BADF),
            Err(Errno::ACCESS) => Err(Errno::PERM),
            Err(_) => Err(Errno::NOTSOCK),
        }
    }

    /// A duplicate of descriptor `number`: the same open file description.
    ///
    /// # Errors
    /// Returns [`Errno::BADF`] if the target has no such descriptor, [`Errno::PERM`] if it may
    /// not be traced.
    pub fn duplicate(&self, number: TargetFd) -> io::Result<OwnedFd> {
        if number.0 < 0 {
            return Err(Errno::BADF);
        }
        pidfds::with(self.thread, |thread| {
            ptrace_capability::of(|| {
                process::pidfd_getfd(thread, number.0, PidfdGetfdFlags::empty())
            })
        })
    }

    /// The target's memory, for [`Request::write`](super::request::Request::write).
    ///
    /// # Errors
    /// Returns what open(2) returns; [`Errno::ACCESS`] if the target may not be traced.
    pub fn memory(&self) -> io::Result<Memory> {
        self.open_memory(OFlags::WRONLY)
    }

    fn open_memory(&self, access: OFlags) -> io::Result<Memory> {
        let path = self.proc("mem");
        ptrace_capability::of(|| fs::open(&path, access | OFlags::CLOEXEC, Mode::empty()))
            .map(Memory)
    }

    /// What the kernel tells of the target.
    pub fn status(&self) -> io::Result<Status> {
        Status::of(self.thread)
    }

    /// The id of the target's process.
    pub fn process(&self) -> io::Result<i32> {
        // Only the first thread has a handle of its process under its own id (pidfd_open(2)): had sooner than a status.
        match process::pidfd_open(self.thread, PidfdFlags::empty()) {
            Ok(_) => Ok(self.thread.as_raw_pid()),
            Err(_) => self.status()?.process(),
        }
    }

    /// The device number of the target's controlling terminal, major and minor; 0 if it has none.
    pub fn terminal(&self) -> io::Result<(u32, u32)> {
        let number = self.job()?.0.into();
        Ok((fs::major(number), fs::minor(number)))
    }

    /// The device number of its controlling terminal, and the process group in the foreground of that.
    pub fn job(&self) -> io::Result<(u32, i32)> {
        let text = proc::read(&self.proc("stat"))?;
        // The second field is a name in parentheses, which may hold anything (proc_pid_stat(5)).
        let end = text.iter().rposition(|&byte| byte == b')').ok_or(Errno::IO)?;
        let text = str::from_utf8(&text[end..]).map_err(|_| Errno::IO)?;
        let mut fields = text.split(' ').skip(5);
        let mut next = || fields.next()?.parse::<i32>().ok();
        next().zip(next()).map(|(device, group)| (device.cast_unsigned(), group)).ok_or(Errno::IO)
    }

    /// Whether `id` stands for the target, or for its process, until the target ends: 0, or the id of either.
    pub fn keeps(&self, id: i32) -> bool {
        id == 0 || id == self.thread.as_raw_pid() || self.process() == Ok(id)
    }

    /// Whether `id` is a thread of the target's own process.
    pub fn has_thread(&self, id: i32) -> bool {
        id > 0 && std::fs::exists(self.proc(&format!("task/{id}"))).unwrap_or(false)
    }
}

/// Whether the platform refuses pidfd_getfd(2) whatever it is asked for, as Docker's default seccomp
/// profile does.
pub fn duplicates_are_refused() -> bool {
    // No pidfd: the kernel itself says EBADF.
    let result = process::pidfd_getfd(fs::CWD, 0, PidfdGetfdFlags::empty());
    result.is_err_and(|errno| errno == Errno::PERM)
}

/// The memory of one process: held, so that it cannot become another's when the process dies.
#[derive(Debug)]
pub struct Memory(OwnedFd);

impl Memory {
    /// Copies what is at `address`.
    fn read(&self, address: TargetAddress, buffer: &mut [u8]) -> io::Result<()> {
        match io::pread(&self.0, &mut *buffer, address.0) {
            Ok(length) if length == buffer.len() => Ok(()),
            Ok(_) | Err(_) => Err(Errno::FAULT),
        }
    }

    /// Writes `bytes` at `address`.
    ///
    /// # Errors
    /// Returns [`Errno::FAULT`] if not all of it is mapped.
    pub(super) fn write(&self, address: TargetAddress, bytes: &[u8]) -> io::Result<()> {
        match io::pwrite(&self.0, bytes, address.0) {
            Ok(length) if length == bytes.len() => Ok(()),
            Ok(_) | Err(_) => Err(Errno::FAULT),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_path_is_copied_once_a_call_and_never_that_of_another() {
        let mut memory = *b"first\0";
        let at = TargetAddress::new(memory.as_ptr() as u64);
        let of = |call| Target { thread: process::getpid(), call }.read_path(at);
        assert_eq!(of(Some(1)).unwrap(), b"first");
        memory = *b"other\0";
        std::hint::black_box(&mut memory);
        assert_eq!(of(Some(1)).unwrap(), b"first");
        assert_eq!(of(Some(2)).unwrap(), b"other");
        assert_eq!(of(None), Err(Errno::SRCH));
    }
}

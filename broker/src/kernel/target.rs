//! The target of a notification: its memory, its descriptors, its credentials.
//!
//! Everything here is read under the target's thread id while it waits; what comes of it counts only
//! after [`Listener::is_waiting`](crate::kernel::listener::Listener::is_waiting) was asked afterwards.
//! Sources: process_vm_readv(2), proc(5), pidfd_getfd(2).

use crate::kernel::pidfds;
use rustix::fd::OwnedFd;
use rustix::fs::{self, Mode, OFlags};
use rustix::io::{self, Errno};
use rustix::process::{self, Pid, PidfdGetfdFlags, Signal};
use std::io::IoSliceMut;
use std::os::fd::RawFd;

/// Longest path that the kernel takes, with its NUL.
const PATH_MAX: usize = 4096;
/// Smallest page of any architecture: reads are cut at its multiples, for a read that touches an
/// unmapped page returns nothing of the mapped ones beside it.
const PAGE: u64 = 4096;

/// A thread that waits for an answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    thread: Pid,
}

/// What decides what a process may do to files: user, groups and capabilities, as the kernel
/// prints them; and how many filters it has. One that has more than the command started with is in
/// a sandbox of its own, the rules of which, Landlock's too, the broker does not know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Credentials {
    lines: Vec<Vec<u8>>,
    filters: u32,
}

/// What the kernel tells of a thread.
#[derive(Clone, Debug)]
pub(crate) struct Status {
    pub(crate) credentials: Credentials,
    /// The permission bits left out of what the thread creates (umask(2)).
    pub(crate) umask: Mode,
    /// Its process.
    pub(crate) process: i32,
}

impl Target {
    pub(crate) fn new(thread: Pid) -> Self {
        Self { thread }
    }

    pub(crate) fn thread(&self) -> Pid {
        self.thread
    }

    /// Copies `buffer.len()` bytes at `address`.
    ///
    /// # Errors
    /// Returns [`Errno::FAULT`] if not all of it is mapped, [`Errno::PERM`] if the target's memory is
    /// not readable to us (an executable without read permission, PR_SET_DUMPABLE).
    pub(crate) fn read(&self, address: u64, buffer: &mut [u8]) -> io::Result<()> {
        let wanted = buffer.len();
        if self.read_some(address, buffer)? == wanted { Ok(()) } else { Err(Errno::FAULT) }
    }

    fn read_some(&self, address: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let base = usize::try_from(address).map_err(|_| Errno::FAULT)?;
        let length = buffer.len();
        if length == 0 {
            return Ok(0);
        }
        self.read_vector(&[nix::sys::uio::RemoteIoVec { base, len: length }], buffer)
    }

    fn read_vector(
        &self,
        remote: &[nix::sys::uio::RemoteIoVec],
        buffer: &mut [u8],
    ) -> io::Result<usize> {
        let thread = nix::unistd::Pid::from_raw(self.thread.as_raw_nonzero().get());
        match nix::sys::uio::process_vm_readv(thread, &mut [IoSliceMut::new(buffer)], remote) {
            // By the platform perhaps, as by Podman's default seccomp profile, and not by the kernel:
            // that asks for the same right here.
            Err(nix::Error::EPERM) => {
                let memory = self.open_memory(OFlags::RDONLY).map_err(|_| Errno::PERM)?;
                let mut done = 0;
                for part in remote {
                    let wanted = &mut buffer[done..done + part.len];
                    let read = memory.read(part.base as u64, wanted)?;
                    done += read;
                    if read < part.len {
                        break;
                    }
                }
                Ok(done)
            }
            result => result.map_err(|errno| Errno::from_raw_os_error(errno as i32)),
        }
    }

    /// Copies `parts` one after the other, each by its address and length, into `buffer`, which has
    /// their length. There are at most 1024 (UIO_MAXIOV).
    ///
    /// # Errors
    /// As [`Target::read`].
    pub(crate) fn gather(&self, parts: &[(u64, usize)], buffer: &mut [u8]) -> io::Result<()> {
        let wanted = buffer.len();
        if wanted == 0 {
            return Ok(());
        }
        let remote = parts.iter().map(|&(at, len)| {
            let base = usize::try_from(at).map_err(|_| Errno::FAULT)?;
            Ok(nix::sys::uio::RemoteIoVec { base, len })
        });
        let remote = remote.collect::<io::Result<Vec<_>>>()?;
        if self.read_vector(&remote, buffer)? == wanted { Ok(()) } else { Err(Errno::FAULT) }
    }

    /// Copies the path at `address`, without its NUL.
    ///
    /// # Errors
    /// Returns [`Errno::NAMETOOLONG`] if no NUL ends it within PATH_MAX, else as [`Target::read`].
    pub(crate) fn read_path(&self, address: u64) -> io::Result<Vec<u8>> {
        // Most paths are short: one small read, then the rest page by page.
        self.read_string(address, PATH_MAX, Errno::NAMETOOLONG)
    }

    /// Copies the string at `address`, without its NUL; `limit` counts the NUL.
    ///
    /// # Errors
    /// Returns `too_long` if no NUL ends it within `limit`, else as [`Target::read`].
    pub(crate) fn read_string(
        &self,
        address: u64,
        limit: usize,
        too_long: Errno,
    ) -> io::Result<Vec<u8>> {
        const FIRST: usize = 256;
        let mut string = Vec::new();
        while string.len() < limit {
            let done = string.len();
            let at = address.checked_add(done as u64).ok_or(Errno::FAULT)?;
            let to_page_end = usize::try_from(PAGE - at % PAGE).map_err(|_| Errno::FAULT)?;
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
    pub(crate) fn directory(&self, number: RawFd) -> io::Result<OwnedFd> {
        if number == AT_FDCWD { self.open_link("cwd") } else { self.descriptor(number) }
    }

    /// What the descriptor `number` refers to, with O_PATH.
    ///
    /// # Errors
    /// Returns [`Errno::BADF`] if the target has no such descriptor.
    pub(crate) fn descriptor(&self, number: RawFd) -> io::Result<OwnedFd> {
        if number < 0 {
            return Err(Errno::BADF);
        }
        self.open_link(&format!("fd/{number}"))
    }

    fn open_link(&self, name: &str) -> io::Result<OwnedFd> {
        let path = format!("/proc/{}/{name}", self.thread.as_raw_nonzero());
        fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
            .map_err(|errno| if errno == Errno::NOENT { Errno::BADF } else { errno })
    }

    /// Whether descriptor `number` was opened with O_PATH.
    ///
    /// # Errors
    /// Returns [`Errno::BADF`] if the target has no such descriptor.
    pub(crate) fn is_path_only(&self, number: RawFd) -> io::Result<bool> {
        let path = format!("/proc/{}/fd/{number}", self.thread.as_raw_nonzero());
        let link = fs::lstat(path).map_err(|_| Errno::BADF)?;
        // The link's mode says what the descriptor can do (proc_pid_fd(5)): with O_PATH nothing. But
        // neither can one that was opened for ioctl(2) alone.
        Ok(Mode::from_raw_mode(link.st_mode).is_empty()
            && self.descriptor_flags(number)?.contains(OFlags::PATH))
    }

    /// The flags of descriptor `number` and of what it refers to, as open(2) takes them.
    ///
    /// # Errors
    /// Returns [`Errno::BADF`] if the target has no such descriptor.
    pub(crate) fn descriptor_flags(&self, number: RawFd) -> io::Result<OFlags> {
        let path = format!("/proc/{}/fdinfo/{number}", self.thread.as_raw_nonzero());
        let text = read_file(&path).map_err(|_| Errno::BADF)?;
        text.split(|&byte| byte == b'\n')
            .find_map(|line| line.strip_prefix(b"flags:"))
            .and_then(|flags| str::from_utf8(flags).ok())
            .and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok())
            .map(OFlags::from_bits_retain)
            .ok_or(Errno::BADF)
    }

    /// The kernel's name for the protocol of the socket at descriptor `number`, such as `TCPv6`
    /// (net/socket.c, system.sockprotoname).
    ///
    /// # Errors
    /// Returns [`Errno::BADF`] if the target has no such descriptor, [`Errno::NOTSOCK`] if it is not
    /// a socket, [`Errno::PERM`] if the target may not be traced.
    pub(crate) fn socket_protocol(&self, number: RawFd) -> io::Result<Vec<u8>> {
        let path = format!("/proc/{}/fd/{number}", self.thread.as_raw_nonzero());
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
    pub(crate) fn duplicate(&self, number: RawFd) -> io::Result<OwnedFd> {
        if number < 0 {
            return Err(Errno::BADF);
        }
        pidfds::with(self.thread, |thread| {
            process::pidfd_getfd(thread, number, PidfdGetfdFlags::empty())
        })
    }

    /// Sends the thread a signal, if `is_waiting` still holds once it is held.
    ///
    /// # Errors
    /// Returns [`Errno::SRCH`] if it has ended, or does not wait any more.
    pub(crate) fn signal(&self, signal: Signal, is_waiting: impl Fn() -> bool) -> io::Result<()> {
        pidfds::with(self.thread, |thread| match is_waiting() {
            true => process::pidfd_send_signal(thread, signal),
            false => Err(Errno::SRCH),
        })
    }

    /// The target's memory, for [`Memory::write`].
    ///
    /// # Errors
    /// Returns what open(2) returns; [`Errno::ACCESS`] if the target may not be traced.
    pub(crate) fn memory(&self) -> io::Result<Memory> {
        self.open_memory(OFlags::WRONLY)
    }

    fn open_memory(&self, access: OFlags) -> io::Result<Memory> {
        let path = format!("/proc/{}/mem", self.thread.as_raw_nonzero());
        fs::open(path, access | OFlags::CLOEXEC, Mode::empty()).map(Memory)
    }

    /// The target's credentials and umask.
    ///
    /// # Errors
    /// Returns what reading proc(5) returns.
    pub(crate) fn status(&self) -> io::Result<Status> {
        Status::read(&format!("/proc/{}/status", self.thread.as_raw_nonzero()))
    }

    /// The process that is the target's parent.
    ///
    /// # Errors
    /// Returns what reading proc(5) returns.
    pub(crate) fn parent(&self) -> io::Result<Pid> {
        let text = read_file(&format!("/proc/{}/status", self.thread.as_raw_nonzero()))?;
        text.split(|&byte| byte == b'\n')
            .find_map(|line| line.strip_prefix(b"PPid:"))
            .and_then(|id| str::from_utf8(id).ok())
            .and_then(|id| id.trim().parse().ok())
            .and_then(Pid::from_raw)
            .ok_or(Errno::SRCH)
    }

    /// The id of the target's process.
    ///
    /// # Errors
    /// Returns what reading proc(5) returns.
    pub(crate) fn process(&self) -> io::Result<i32> {
        self.status().map(|status| status.process)
    }

    /// The device number of the target's controlling terminal, major and minor; 0 if it has none.
    ///
    /// # Errors
    /// Returns what reading proc(5) returns.
    pub(crate) fn terminal(&self) -> io::Result<(u32, u32)> {
        let text = read_file(&format!("/proc/{}/stat", self.thread.as_raw_nonzero()))?;
        // The second field is a name in parentheses, which may hold anything (proc_pid_stat(5)).
        let end = text.iter().rposition(|&byte| byte == b')').ok_or(Errno::IO)?;
        text[end..]
            .split(|&byte| byte == b' ')
            .nth(5)
            .and_then(|number| str::from_utf8(number).ok())
            .and_then(|number| number.parse().ok())
            .map(|number: u64| (fs::major(number), fs::minor(number)))
            .ok_or(Errno::IO)
    }

    /// Whether `id` is a thread of the target's own process.
    pub(crate) fn has_thread(&self, id: i32) -> bool {
        id > 0
            && std::fs::exists(format!("/proc/{}/task/{id}", self.thread.as_raw_nonzero()))
                .unwrap_or(false)
    }
}

/// Whether the platform refuses pidfd_getfd(2) whatever it is asked for, as Docker's default seccomp
/// profile does.
pub(crate) fn duplicates_are_refused() -> bool {
    // No pidfd: the kernel itself says EBADF.
    let result = process::pidfd_getfd(fs::CWD, 0, PidfdGetfdFlags::empty());
    result.is_err_and(|errno| errno == Errno::PERM)
}

/// The memory of one process: held, so that it cannot become another's when the process dies.
#[derive(Debug)]
pub(crate) struct Memory(OwnedFd);

impl Memory {
    /// Copies what is at `address`, up to the first page that is not there.
    fn read(&self, address: u64, buffer: &mut [u8]) -> io::Result<usize> {
        io::pread(&self.0, buffer, address).map_err(|_| Errno::FAULT)
    }

    /// Writes `bytes` at `address`.
    ///
    /// # Errors
    /// Returns [`Errno::FAULT`] if not all of it is mapped.
    pub(crate) fn write(&self, address: u64, bytes: &[u8]) -> io::Result<()> {
        match io::pwrite(&self.0, bytes, address) {
            Ok(length) if length == bytes.len() => Ok(()),
            Ok(_) | Err(_) => Err(Errno::FAULT),
        }
    }
}

/// A small file of proc(5): one open, and a read until there is nothing more.
fn read_file(path: &str) -> io::Result<Vec<u8>> {
    let file = fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let mut text = Vec::with_capacity(4096);
    // The kernel writes the whole of such a file at once: what is shorter than the buffer is all.
    while io::read(&file, rustix::buffer::spare_capacity(&mut text))? > 0
        && text.len() == text.capacity()
    {
        text.reserve(4096);
    }
    Ok(text)
}

/// The current directory as a directory descriptor argument (fcntl.h).
pub(crate) const AT_FDCWD: RawFd = -100;

impl Credentials {
    /// Whether these are the same user, groups and capabilities, whatever filters there are.
    pub(crate) fn has_rights_of(&self, other: &Self) -> bool {
        self.lines == other.lines
    }

    /// Real, effective, saved and file system id, of the line that begins with `name`.
    pub(crate) fn ids(&self, name: &str) -> Option<[u32; 4]> {
        let ids: Option<Vec<u32>> = self.numbers(name)?.map(|number| number.parse().ok()).collect();
        ids?.try_into().ok()
    }

    /// The supplementary groups.
    pub(crate) fn groups(&self) -> Option<Vec<u32>> {
        self.numbers("Groups:")?.map(|number| number.parse().ok()).collect()
    }

    /// The permitted and the effective capabilities.
    pub(crate) fn capabilities(&self) -> Option<(u64, u64)> {
        let set = |name| u64::from_str_radix(self.numbers(name)?.next()?, 16).ok();
        Some((set("CapPrm:")?, set("CapEff:")?))
    }

    fn numbers(&self, name: &str) -> Option<impl Iterator<Item = &str>> {
        let line = self.lines.iter().find_map(|line| line.strip_prefix(name.as_bytes()))?;
        Some(str::from_utf8(line).ok()?.split_ascii_whitespace())
    }
}

impl Status {
    /// The calling thread's own, with the command's filter besides.
    ///
    /// # Errors
    /// Returns what reading proc(5) returns.
    pub(crate) fn own() -> io::Result<Self> {
        let mut own = Self::read("/proc/thread-self/status")?;
        own.credentials.filters += 1;
        Ok(own)
    }

    fn read(path: &str) -> io::Result<Self> {
        let text = read_file(path)?;
        let deciding = [&b"Uid:"[..], b"Gid:", b"Groups:", b"CapPrm:", b"CapEff:", b"NoNewPrivs:"];
        let mut lines = Vec::with_capacity(deciding.len());
        let mut umask = None;
        let mut process = None;
        let mut filters = None;
        for line in text.split(|&byte| byte == b'\n') {
            if deciding.iter().any(|name| line.starts_with(name)) {
                lines.push(line.to_vec());
            } else if let Some(mask) = line.strip_prefix(b"Umask:") {
                let mask = str::from_utf8(mask).ok();
                umask = mask.and_then(|mask| u32::from_str_radix(mask.trim(), 8).ok());
            } else if let Some(id) = line.strip_prefix(b"Tgid:") {
                process = str::from_utf8(id).ok().and_then(|id| id.trim().parse().ok());
            } else if let Some(count) = line.strip_prefix(b"Seccomp_filters:") {
                filters = str::from_utf8(count).ok().and_then(|count| count.trim().parse().ok());
            }
        }
        match (umask, process, filters) {
            (Some(umask), Some(process), Some(filters)) if lines.len() == deciding.len() => {
                Ok(Self {
                    credentials: Credentials { lines, filters },
                    umask: Mode::from_bits_truncate(umask),
                    process,
                })
            }
            _ => Err(Errno::IO),
        }
    }
}

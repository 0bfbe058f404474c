//! Terminals: which one a descriptor leads to, its foreground process group, and what is given back of the caller's
//! standard streams (ioctl_tty(2), fcntl(2)).
//!
//! A group outside this PID namespace has the number 0.

#![allow(unsafe_code)]

use super::errno;
use super::self_proc::own_link;
use super::target::{Target, TargetFd};
use super::threads::lock;
use nix::libc::{self, c_int};
use nix::unistd;
use rustix::fd::{AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{self, Mode, OFlags, Stat};
use rustix::io::{self, Errno};
use std::ops::RangeInclusive;
use std::sync::Mutex;

/// include/uapi/asm-generic/ioctls.h; C libraries differ about the type.
const TIOCGDEV: u32 = 0x8004_5432;
const TCGETS2: u32 = 0x802c_542a;
const TCSETS2: u32 = 0x402c_542b;

/// What the kernel reads of at most: a `struct termios2`.
pub type Value = [u8; 44];

/// Major numbers of pseudoterminals (Documentation/admin-guide/devices.txt).
const SLAVES: RangeInclusive<u32> = 136..=143;

/// The device number of the terminal that a descriptor leads to, also by /dev/tty or from the other end.
///
/// # Errors
/// Returns [`Errno::NOTTY`](rustix::io::Errno::NOTTY) if it is none.
pub fn device(descriptor: BorrowedFd<'_>) -> io::Result<u32> {
    let mut device = 0_u32;
    // SAFETY: the kernel writes one number.
    errno::result(unsafe { libc::ioctl(descriptor.as_raw_fd(), TIOCGDEV as _, &raw mut device) })?;
    Ok(device)
}

/// The terminal that descriptor `number` of `target` leads to. Where duplicates are refused, as by Docker's default
/// seccomp profile, it is opened anew: the device itself, or the one at the other end of its master.
///
/// # Errors
/// Returns [`Errno::NOTTY`] if it is none that can be opened so, and what open(2) returns.
pub fn of(target: Target, number: TargetFd) -> io::Result<OwnedFd> {
    let duplicate = target.duplicate(number);
    if !matches!(duplicate, Err(Errno::PERM)) {
        return duplicate;
    }
    let open =
        |path| fs::open(path, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty());
    let index = target.terminal_index(number)?;
    let held = target.descriptor(number)?;
    let stat = fs::fstat(&held)?;
    if let Some(index) = index {
        let terminal = open(format!("/dev/pts/{index}"))?;
        // Another devpts(5) has another terminal of that number.
        let is_it = fs::fstat(&terminal)?.st_dev == stat.st_dev;
        return if is_it { Ok(terminal) } else { Err(Errno::NOTTY) };
    }
    // Another device may do something when it is opened.
    if !SLAVES.contains(&fs::major(stat.st_rdev)) {
        return Err(Errno::NOTTY);
    }
    open(own_link(&held))
}

/// The group in the foreground of this process's controlling terminal.
///
/// # Errors
/// Returns [`Errno::NOTTY`](rustix::io::Errno::NOTTY) if the descriptor does not lead to that.
pub fn foreground(terminal: BorrowedFd<'_>) -> io::Result<c_int> {
    let group = unistd::tcgetpgrp(terminal);
    group.map(unistd::Pid::as_raw).map_err(|errno| Errno::from_raw_os_error(errno as i32))
}

/// Puts `group`, which must be of this process's session, into the foreground. The broker, which blocks SIGTTOU, may
/// do so from the background (tcsetpgrp(3)).
pub fn set_foreground(terminal: BorrowedFd<'_>, group: c_int) -> io::Result<()> {
    let set = unistd::tcsetpgrp(terminal, unistd::Pid::from_raw(group));
    set.map_err(|errno| Errno::from_raw_os_error(errno as i32))
}

/// The first of this process's standard streams that leads to its controlling terminal.
pub fn controlling() -> Option<BorrowedFd<'static>> {
    streams().into_iter().find(|stream| foreground(*stream).is_ok())
}

/// The standard streams, which stay open as long as this process runs.
pub fn streams() -> [BorrowedFd<'static>; 3] {
    // SAFETY: `fill_standard_streams` opened what was closed, and nothing here closes them.
    [0, 1, 2].map(|number| unsafe { BorrowedFd::borrow_raw(number) })
}

/// Makes the call `number`, which reads no more than a [`Value`].
fn change(terminal: BorrowedFd<'_>, number: u32, value: &Value) -> io::Result<()> {
    // SAFETY: the kernel reads less than there is.
    errno::result(unsafe { libc::ioctl(terminal.as_raw_fd(), number as _, value.as_ptr()) })
}

fn settings(terminal: BorrowedFd<'_>) -> io::Result<Value> {
    let mut value = [0; size_of::<Value>()];
    // SAFETY: the kernel writes a structure of this size.
    let result = unsafe { libc::ioctl(terminal.as_raw_fd(), TCGETS2 as _, value.as_mut_ptr()) };
    errno::result(result).map(|()| value)
}

/// The caller's standard streams: what the command changes of them is given back.
#[derive(Debug)]
pub struct Lent(Mutex<Vec<Stream>>);

#[derive(Debug)]
struct Stream {
    file: BorrowedFd<'static>,
    /// Which all have who share the open file, at launch.
    flags: Option<OFlags>,
    /// The device, of a terminal.
    terminal: Option<u32>,
    /// Settings before the command changed them, and after that.
    changed: Option<(Value, Value)>,
}

impl Lent {
    pub fn look() -> Self {
        let streams = streams().map(|file| Stream {
            file,
            flags: fs::fcntl_getfl(file).ok(),
            terminal: device(file).ok(),
            changed: None,
        });
        Self(Mutex::new(streams.into()))
    }

    /// Whether any is a terminal.
    pub fn any(&self) -> bool {
        lock(&self.0).iter().any(|stream| stream.terminal.is_some())
    }

    /// Whether one leads to the terminal with this number; there can be another with that.
    pub fn has(&self, device: u32) -> bool {
        lock(&self.0).iter().any(|stream| stream.terminal == Some(device))
    }

    /// The one that leads to the terminal which `held` tells of.
    pub fn find(&self, held: &Stat) -> Option<BorrowedFd<'static>> {
        let is_it = |stat: Stat| (stat.st_dev, stat.st_rdev) == (held.st_dev, held.st_rdev);
        let streams = lock(&self.0);
        let mut terminals = streams.iter().filter(|stream| stream.terminal.is_some());
        Some(terminals.find(|stream| fs::fstat(stream.file).is_ok_and(is_it))?.file)
    }

    /// Changes a terminal, and notes that if it is one of these.
    pub fn change(&self, terminal: BorrowedFd<'_>, call: u32, value: &Value) -> io::Result<()> {
        let (number, before) = (device(terminal)?, settings(terminal)?);
        let mut streams = lock(&self.0);
        change(terminal, call, value)?;
        if let Some(lent) = streams.iter_mut().find(|stream| stream.terminal == Some(number)) {
            // What others have made of them since is theirs.
            let callers = lent.changed.filter(|(_, left)| *left == before);
            lent.changed = Some((callers.map_or(before, |(first, _)| first), settings(terminal)?));
        }
        Ok(())
    }

    /// Gives back the flags, and the settings unless others have changed them since.
    pub fn give_back(&self) {
        for Stream { file, flags, changed, .. } in lock(&self.0).iter_mut() {
            if let Some(flags) = *flags {
                let _ = fs::fcntl_setfl(*file, flags);
            }
            if let Some((callers, left)) = changed.take()
                && settings(*file) == Ok(left)
            {
                let _ = change(*file, TCSETS2, &callers);
            }
        }
    }
}

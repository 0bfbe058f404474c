//! The process as the kernel started it: arguments and environment.

#![allow(unsafe_code)]

use crate::failure::Text;
use crate::vector::Vector;
use common::wire::Strings;
use core::ffi::{CStr, c_char};
use core::ptr;
use rustix::fd::BorrowedFd;
use rustix::fs::{self, Access, FileType};
use rustix::io::{self, Errno};
use rustix::mm::{self, MapFlags, ProtFlags};
use rustix::process;

/// Runs scripts without an interpreter line, as execvp(3) does.
pub(crate) const SHELL: &CStr = c"/bin/sh";

/// argv and envp.
pub(crate) struct Arguments {
    stack: *mut usize,
    count: usize,
    argv: Vector,
    envp: Vector,
}

impl Arguments {
    /// Reads the initial process stack.
    ///
    /// # Safety
    /// `stack` must be the stack pointer that the kernel passed to the entry point.
    pub(crate) unsafe fn from_stack(stack: *mut usize) -> Self {
        // SAFETY: argc lies at the stack pointer.
        let count = unsafe { stack.read() };
        // SAFETY: argv follows argc.
        let argv = unsafe { stack.add(1) };
        // SAFETY: envp follows argv and its terminating null.
        let envp = unsafe { argv.add(count + 1) };
        // SAFETY: what the kernel puts there.
        let argv = unsafe { Vector::at(argv.cast()) };
        // SAFETY: here too.
        let envp = unsafe { Vector::at(envp.cast()) };
        Self { stack, count, argv, envp }
    }

    /// What [`Arguments::from_stack`] was given.
    pub(crate) fn stack(&self) -> *mut usize {
        self.stack
    }

    /// The vector from `index` on: the tool's argv. An index beyond the end gives an empty one.
    pub(crate) fn from(&self, index: usize) -> Vector {
        // SAFETY: at most the terminating null.
        unsafe { self.argv.from(index.min(self.count)) }
    }

    /// The tool's argv with the shell before it and `script` as its name. `index` is at least 1
    /// (`Plan::decode` checks it), so that the shell's name takes the place of an argument of
    /// landstrip's own.
    pub(crate) fn with_shell(&self, index: usize, script: &CStr) -> Vector {
        if (1..self.count).contains(&index) {
            // SAFETY: within argv by the test above; no terminator is touched.
            unsafe { self.argv.set(index, script.as_ptr()) };
            // SAFETY: as above.
            unsafe { self.argv.set(index - 1, SHELL.as_ptr()) };
        }
        self.from(index.saturating_sub(1))
    }

    /// argv, which has an element, and envp; `None` without a program's name, which every caller gives.
    pub(crate) fn vectors(&self) -> Option<(Vector, Vector)> {
        (self.count > 0).then_some((self.argv, self.envp))
    }

    /// The environment with `changes` made, which it points to: the caller's own array if there is
    /// none.
    ///
    /// # Errors
    /// Returns [`Errno::NOMEM`](rustix::io::Errno::NOMEM) if there is no memory for the new array.
    pub(crate) fn environment(&self, changes: Strings<'_>) -> io::Result<Vector> {
        if changes.is_empty() {
            return Ok(self.envp);
        }
        let size = (self.envp.iter().count() + changes.len() + 1) * size_of::<*const c_char>();
        // SAFETY: a new private mapping overlays nothing.
        let memory = unsafe {
            mm::mmap_anonymous(
                ptr::null_mut(),
                size,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE,
            )
        }?;
        // SAFETY: zeroed memory is an array that ends at once, and has room for what is set below.
        let new = unsafe { Vector::at(memory.cast()) };
        let changed = |name: &[u8]| changes.iter().any(|change| self::name(change) == name);
        let kept =
            self.envp.iter().filter(|variable| !changed(self::name(variable.to_bytes_with_nul())));
        let set = changes
            .iter()
            .filter(|change| change.contains(&b'='))
            .filter_map(|change| CStr::from_bytes_with_nul(change).ok())
            .map(CStr::as_ptr);
        for (index, variable) in kept.map(CStr::as_ptr).chain(set).enumerate() {
            // SAFETY: there is a slot for every old variable, every change and the null, which the
            // zeroed memory already holds.
            unsafe { new.set(index, variable) };
        }
        Ok(new)
    }
}

/// The standard streams. One that the caller closed is no terminal, and what is done with it fails.
pub(crate) fn streams() -> [BorrowedFd<'static>; 3] {
    // SAFETY: nothing here closes them.
    [0, 1, 2].map(|number| unsafe { BorrowedFd::borrow_raw(number) })
}

/// The name in `NAME=VALUE\0` or `NAME\0`.
fn name(variable: &[u8]) -> &[u8] {
    let end = variable.iter().position(|&b| b == b'=' || b == 0).unwrap_or(variable.len());
    &variable[..end]
}

/// Whether the standard input is a pipe that this user may open for writing, and that the caller has as its own, too, as
/// a shell that reads its script there; `None` if the caller cannot be looked at.
pub(crate) fn shares_input() -> Option<bool> {
    let [input, ..] = streams();
    let Ok(input) = fs::fstat(input) else { return Some(false) };
    let callers = || {
        let caller = process::getppid().ok_or(Errno::SRCH)?;
        fs::stat(Text::path_in(caller, "fd/0").as_path()?)
    };
    let is_pipe = FileType::from_raw_mode(input.st_mode) == FileType::Fifo
        && fs::access(c"/proc/self/fd/0", Access::WRITE_OK).is_ok();
    let same = |other: fs::Stat| (other.st_dev, other.st_ino) == (input.st_dev, input.st_ino);
    if is_pipe { callers().ok().map(same) } else { Some(false) }
}

//! The process as the kernel started it: arguments, environment, where its own programs are.

#![allow(unsafe_code)]

use crate::{Failure, sys};
use common::wire::{Handover, Strings};
use core::ffi::{CStr, c_char};
use core::fmt::{self, Write};
use core::mem::MaybeUninit;
use core::ptr;
use rustix::fd::BorrowedFd;
use rustix::fs;
use rustix::io::{self, Errno};
use rustix::mm::{self, MapFlags, ProtFlags};

/// Runs scripts without an interpreter line, as execvp(3) does.
pub(crate) const SHELL: &CStr = c"/bin/sh";

/// A null-terminated array of C strings: an argv or an envp.
#[derive(Clone, Copy)]
pub(crate) struct Vector(*mut *const c_char);

impl Vector {
    pub(crate) fn address(self) -> usize {
        self.0 as usize
    }

    /// The string at `index`, or `None` at the end.
    ///
    /// # Safety
    /// `index` must not lie beyond the terminating null.
    unsafe fn get(self, index: usize) -> Option<&'static CStr> {
        // SAFETY: the caller keeps `index` within the array.
        let slot = unsafe { self.0.add(index) };
        // SAFETY: `slot` is an element of the array, the terminating null at most.
        let string = unsafe { slot.read() };
        // SAFETY: what is not null is a C string that lives as long as the process.
        (!string.is_null()).then(|| unsafe { CStr::from_ptr(string) })
    }

    /// Replaces the string at `index`.
    ///
    /// # Safety
    /// `index` must lie within the array, and no terminator may be lost by the replacement.
    unsafe fn set(self, index: usize, string: *const c_char) {
        // SAFETY: the caller keeps `index` within the array.
        let slot = unsafe { self.0.add(index) };
        // SAFETY: the array is writable memory, and only one of launcher and child touches this slot
        // while they share it (see `sys::spawn_command`).
        unsafe { slot.write(string) };
    }

    fn iter(self) -> impl Iterator<Item = &'static CStr> {
        // SAFETY: `map_while` stops at the terminating null, so that no index passes it.
        (0..).map_while(move |index| unsafe { self.get(index) })
    }
}

/// argv and envp.
pub(crate) struct Arguments {
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
        Self { count, argv: Vector(argv.cast()), envp: Vector(envp.cast()) }
    }

    /// What [`Arguments::from_stack`] was given.
    pub(crate) fn stack(&self) -> *mut usize {
        // argc lies before argv.
        self.argv.0.cast::<usize>().wrapping_sub(1)
    }

    /// The vector from `index` on: the tool's argv. An index beyond the end gives an empty one.
    pub(crate) fn from(&self, index: usize) -> Vector {
        // SAFETY: at most the terminating null.
        Vector(unsafe { self.argv.0.add(index.min(self.count)) })
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

    /// The environment with `changes` made, which it points to: the caller's own array if there is
    /// none.
    ///
    /// # Errors
    /// Returns [`Errno::NOMEM`] if there is no memory for the new array.
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
        let new = Vector(memory.cast());
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

/// The name in `NAME=VALUE\0` or `NAME\0`.
fn name(variable: &[u8]) -> &[u8] {
    let end = variable.iter().position(|&b| b == b'=' || b == 0).unwrap_or(variable.len());
    &variable[..end]
}

/// Becomes the broker, which is found beside this program or in `../libexec/landstrip/`: never
/// through PATH or the working directory, where the command could have put another.
pub(crate) fn execute_broker(
    arguments: &Arguments,
    handover: &Handover,
) -> Result<core::convert::Infallible, Failure> {
    let mut own = [MaybeUninit::uninit(); Text::SIZE];
    let (own, _) = fs::readlinkat_raw(fs::CWD, c"/proc/self/exe", &mut own[..])
        .map_err(|e| Failure("read /proc/self/exe: is /proc mounted?", e))?;
    let directory = own.iter().rposition(|&b| b == b'/').map_or(&[][..], |slash| &own[..slash]);
    let mut message = Text::new();
    handover.write(&mut message).map_err(|_| Failure("handover", Errno::NAMETOOLONG))?;
    message.push(&[0]).map_err(|_| Failure("handover", Errno::NAMETOOLONG))?;
    if arguments.count == 0 {
        return Err(Failure("argv is empty", Errno::INVAL));
    }
    // SAFETY: argv has an element, and the message ends with NUL and outlives execve(2).
    unsafe { arguments.argv.set(0, message.as_bytes().as_ptr().cast()) };
    let mut errno = Errno::NOENT;
    for place in [&b"/landstrip-broker\0"[..], b"/../libexec/landstrip/landstrip-broker\0"] {
        let mut path = Text::new();
        let complete = path.push(directory).and_then(|()| path.push(place));
        complete.map_err(|_| Failure("path of landstrip-broker", Errno::NAMETOOLONG))?;
        if let Ok(path) = CStr::from_bytes_with_nul(path.as_bytes()) {
            errno = sys::execve(path, arguments.argv, arguments.envp);
        }
        if errno != Errno::NOENT {
            break;
        }
    }
    Err(Failure("execute landstrip-broker beside landstrip", errno))
}

/// Descriptor 2, for the one line of a failure before there is a broker.
pub(crate) fn standard_error() -> BorrowedFd<'static> {
    // SAFETY: nothing here closes descriptor 2; if the caller did, writing to it fails.
    unsafe { rustix::stdio::stderr() }
}

/// A text of bounded length on the stack.
pub(crate) struct Text {
    bytes: [u8; Self::SIZE],
    length: usize,
}

impl Text {
    /// PATH_MAX of the kernel.
    const SIZE: usize = 4096;

    pub(crate) fn new() -> Self {
        Self { bytes: [0; Self::SIZE], length: 0 }
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    fn push(&mut self, bytes: &[u8]) -> fmt::Result {
        let end = self.length + bytes.len();
        let room = self.bytes.get_mut(self.length..end).ok_or(fmt::Error)?;
        room.copy_from_slice(bytes);
        self.length = end;
        Ok(())
    }
}

impl Write for Text {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.push(text.as_bytes())
    }
}

//! What went wrong before there was a broker to report it.

use crate::start;
use common::trap::write_internal;
use core::ffi::CStr;
use core::fmt::{self, Write};
use rustix::io::{self, Errno};
use rustix::process::Pid;

/// A step that failed.
pub(crate) struct Failure(pub &'static str, pub Errno);

/// Says on standard error what failed. Apart, so that a launch that succeeds has no room for these
/// texts on its stack: every page that is touched takes time.
#[cold]
#[inline(never)]
pub(crate) fn report(Failure(step, errno): &Failure) {
    let mut number = Text::new();
    let _ = fmt::Write::write_fmt(&mut number, format_args!("{}", errno.raw_os_error()));
    let advice = advice(step, *errno);
    let pairs: [(&str, &[u8]); 4] = [
        ("source", b"launcher"),
        ("step", step.as_bytes()),
        ("errno", number.as_bytes()),
        ("message", advice.as_bytes()),
    ];
    let pairs = if advice.is_empty() { &pairs[..3] } else { &pairs[..] };
    let mut line = Text::new();
    if write_internal(&mut line, pairs).is_ok() {
        let [_, _, error] = start::streams();
        let _ = io::write(error, line.as_bytes());
    }
}

/// Says that the stack is too small, with hardly any.
#[cold]
#[inline(never)]
pub(crate) fn report_small_stack() {
    const LINE: &str = "{\"Internal\":{\"source\":\"launcher\",\"step\":\"stack\",\"message\":\"the stack is \
                        limited to less than 256 KiB: raise the limit (ulimit -s)\"}}\n";
    let [_, _, error] = start::streams();
    let _ = io::write(error, LINE.as_bytes());
}

/// What to do about a limit of the caller's that is too low, or a program that is missing.
fn advice(step: &str, errno: Errno) -> &'static str {
    match (step, errno) {
        (_, Errno::MFILE) => "too few descriptors are allowed: raise the limit (ulimit -n)",
        ("clone", Errno::AGAIN) => "no more processes are allowed: raise the limit (ulimit -u)",
        ("clone", Errno::NOMEM) => {
            "out of memory, or in another PID namespace than its children: unshare --fork"
        }
        (_, Errno::NOENT) if step.starts_with("execute") => "install all of landstrip",
        _ => "",
    }
}

/// A text of bounded length on the stack.
pub(crate) struct Text {
    bytes: [u8; Self::SIZE],
    length: usize,
}

impl Text {
    /// PATH_MAX of the kernel.
    pub(crate) const SIZE: usize = 4096;

    pub(crate) fn new() -> Self {
        Self { bytes: [0; Self::SIZE], length: 0 }
    }

    /// The path of `name` in proc(5) of `process`.
    pub(crate) fn path_in(process: Pid, name: &str) -> Self {
        let mut path = Self::new();
        // There is room for it.
        let _ = write!(path, "/proc/{}/{name}\0", process.as_raw_nonzero());
        path
    }

    /// As a path, if it ends with NUL.
    pub(crate) fn as_path(&self) -> io::Result<&CStr> {
        CStr::from_bytes_with_nul(self.as_bytes()).map_err(|_| Errno::NAMETOOLONG)
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) -> fmt::Result {
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

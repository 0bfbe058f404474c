//! What a process that calls was started with, and where it is, to tell of it.

use kernel::ptrace_capability;
use kernel::target::Target;
use rustix::fs::{self, Mode, OFlags};
use rustix::io::{self, Errno};
use std::ffi::OsString;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// The path of the working directory, as the kernel writes it, if that is short: had sooner than the directory
/// itself.
///
/// # Errors
/// Returns what readlink(2) returns; [`Errno::NAMETOOLONG`] for a longer one.
pub(crate) fn working_directory(target: Target) -> io::Result<Vec<u8>> {
    const SHORT: usize = 256;
    let link = target.proc("cwd");
    let path = ptrace_capability::of(|| {
        let mut buffer = [MaybeUninit::uninit(); SHORT];
        fs::readlinkat_raw(fs::CWD, &link, &mut buffer).map(|(path, _)| path.to_vec())
    })?;
    if path.len() < SHORT { Ok(path) } else { Err(Errno::NAMETOOLONG) }
}

/// The path of what it executes.
pub(crate) fn program(target: Target) -> io::Result<PathBuf> {
    let link = fs::readlink(target.proc("exe"), Vec::new())?;
    Ok(OsString::from_vec(link.into_bytes()).into())
}

/// The beginning of what its memory has for its arguments.
pub(crate) fn arguments(target: Target) -> io::Result<Vec<Vec<u8>>> {
    const SHOWN_MAX: usize = 2048;
    let mut text = vec![0; SHOWN_MAX];
    let file = fs::open(target.proc("cmdline"), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let length = io::read(file, &mut text)?;
    text.truncate(length);
    let text = text.strip_suffix(b"\0").unwrap_or(&text);
    Ok(text.split(|&byte| byte == 0).map(<[u8]>::to_vec).collect())
}

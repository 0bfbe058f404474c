//! System calls that show what a kernel provides, and what a sandbox refuses.
//!
//! Nothing here is called during a run: `--doctor` and what explains why a launch failed make these calls, while the
//! broker has no command. No verdict and no other crate of the trusted part depends on them.

#![allow(missing_docs, reason = "for the crates of the broker alone")]

pub mod denied;
pub mod seccomp;

use nix::libc::c_long;
use rustix::io::{self, Errno};

/// The result of a system call that returns a negative number if it fails: as soon as it has returned.
fn result(returned: c_long) -> io::Result<c_long> {
    if returned >= 0 {
        return Ok(returned);
    }
    let errno = std::io::Error::last_os_error().raw_os_error();
    Err(errno.map_or(Errno::IO, Errno::from_raw_os_error))
}

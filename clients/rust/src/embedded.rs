//! The three programs inside of this one: the feature `embedded`. They are executed from sealed memory, which has no name
//! that anything could be put at and which nobody can write any more (memfd_create(2), F_SEAL_WRITE in fcntl(2)).
//!
//! The programs are those in the directory that the variable LANDSTRIP_PROGRAMS names while this crate is compiled.

use crate::sys;
use std::ffi::{CString, OsString};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, IntoRawFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

macro_rules! program {
    ($name:literal) => {
        include_bytes!(concat!(
            env!(
                "LANDSTRIP_PROGRAMS",
                "the directory of the programs that the feature `embedded` carries"
            ),
            "/",
            $name
        ))
    };
}

/// What starts the launcher, and what that must inherit. They lie in memory from the first time on.
pub(crate) fn command() -> io::Result<(Command, Vec<RawFd>)> {
    static PROGRAMS: Mutex<Option<[RawFd; 3]>> = Mutex::new(None);
    let mut programs = PROGRAMS.lock().unwrap_or_else(PoisonError::into_inner);
    let [launcher, inherited @ ..] = match *programs {
        Some(programs) => programs,
        None => *programs.insert(load()?),
    };
    let mut command = Command::new(format!("/proc/self/fd/{launcher}"));
    command.arg0("landstrip");
    Ok((command, inherited.to_vec()))
}

/// The launcher, the broker and the proxy, open for as long as this process lives. Each is told of the next by its name,
/// which ends with a number between colons.
fn load() -> io::Result<[RawFd; 3]> {
    let proxy = sealed("landstrip-proxy", program!("landstrip-proxy"))?;
    let name = format!("landstrip-broker:{}:", proxy.as_raw_fd());
    let broker = sealed(&name, program!("landstrip-broker"))?;
    let launcher = sealed(&format!("landstrip:{}:", broker.as_raw_fd()), program!("landstrip"))?;
    Ok([launcher, broker, proxy].map(IntoRawFd::into_raw_fd))
}

fn sealed(name: &str, content: &[u8]) -> io::Result<File> {
    let mut file = sys::memory(&CString::new(name)?)?;
    file.write_all(content)?;
    sys::seal(&file)?;
    // Beyond the standard streams, which this process may have closed, and a child has anew.
    file.try_clone()
}

/// Becomes landstrip where this program was started by that name (`argv[0]`), as by a link to it or by
/// [`CommandExt::arg0`]; else it returns. It is to be called first in `main`, before there are threads or options.
pub fn become_landstrip_by_name() {
    let mut words = std::env::args_os();
    let name = words.next().unwrap_or_default();
    if Path::new(&name).file_name() == Some("landstrip".as_ref()) {
        let error = execute(words);
        eprintln!("landstrip: the programs that this one carries cannot be executed: {error}");
        std::process::exit(125);
    }
}

fn execute(words: impl Iterator<Item = OsString>) -> io::Error {
    match command() {
        Ok((mut command, inherited)) => {
            sys::keep(&mut command, inherited);
            command.args(words).exec()
        }
        Err(error) => error,
    }
}

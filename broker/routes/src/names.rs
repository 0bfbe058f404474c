//! What names resolve by, as it was before the command: hosts(5) and resolv.conf(5).
//!
//! The proxy starts with the command's first connection, and the command may be permitted to write these files.
//! So they are read at launch, and the proxy gets what they said then. It reads them; nothing here does.

use rustix::fd::OwnedFd;
use rustix::fs::{self, MemfdFlags, Mode, OFlags};
use rustix::io::{self, Errno};
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;

/// No more of a file is read: it may be a device.
const FILE_MAX: u64 = 64 << 20;

/// The texts of the files.
#[derive(Debug, Default)]
pub struct Names {
    resolv_conf: Vec<u8>,
    /// The lines of the policy.
    own_hosts: String,
    hosts: Vec<u8>,
}

impl Names {
    /// Reads the files; one that is missing is empty.
    pub fn read(own_hosts: &[String]) -> Self {
        let read = |path| read(path).unwrap_or_default();
        Self {
            resolv_conf: read("/etc/resolv.conf"),
            own_hosts: own_hosts.join("\n"),
            hosts: read("/etc/hosts"),
        }
    }

    /// The hosts files, as far as they are text.
    pub fn hosts(&self) -> [std::borrow::Cow<'_, str>; 2] {
        [self.own_hosts.as_str().into(), String::from_utf8_lossy(&self.hosts)]
    }

    /// A file of no file system, as [`common::proxy::Setup`] says.
    pub fn as_file(&self) -> std::io::Result<OwnedFd> {
        let file = File::from(memory()?);
        let resolv_conf = self.resolv_conf.iter().copied().filter(|byte| *byte != 0);
        let hosts = self.own_hosts.bytes().chain([0]).chain(self.hosts.iter().copied());
        let text: Vec<u8> = resolv_conf.chain([0]).chain(hosts).collect();
        // The proxy begins to read at the beginning.
        file.write_all_at(&text, 0)?;
        Ok(file.into())
    }
}

fn read(path: &str) -> std::io::Result<Vec<u8>> {
    // Not to wait for who writes to it, should it be a pipe.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = File::from(fs::open(path, flags, Mode::empty())?);
    let mut text = Vec::new();
    file.take(FILE_MAX).read_to_end(&mut text)?;
    Ok(text)
}

fn memory() -> io::Result<OwnedFd> {
    match fs::memfd_create("names", MemfdFlags::CLOEXEC | MemfdFlags::NOEXEC_SEAL) {
        // Before Linux 6.3.
        Err(Errno::INVAL) => fs::memfd_create("names", MemfdFlags::CLOEXEC),
        made => made,
    }
}

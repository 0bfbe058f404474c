//! Which sockets are bound to a socket file, and by which name: sock_diag(7).
//!
//! A file can be renamed; what it was bound as, the kernel keeps.

use super::diag::{self, ANSWER, ANY_STATE, HEADER, NLM_F_DUMP, NLM_F_REQUEST, NO_COOKIE};
use super::identity::Identity;
use rustix::fs;
use rustix::io::{self, Errno};
use rustix::net::{self, RecvFlags};

/// A socket that is bound to a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bound {
    /// The number by which `/proc/PID/fd` knows it (`socket:[N]`).
    pub number: u64,
    /// What it was bound to, as that was written.
    pub name: Vec<u8>,
}

/// linux/unix_diag.h, linux/netlink.h.
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const UDIAG_SHOW_NAME_VFS: u32 = 3;
const UNIX_DIAG_NAME: u16 = 0;
const UNIX_DIAG_VFS: u16 = 1;
/// The length of an attribute's header.
const ATTRIBUTE: usize = 4;

/// The sockets of this network namespace that are bound to files with the inode number `inode`, on
/// whatever file system: the kernel tells a device by another number than stat(2) does on some.
///
/// # Errors
/// Returns [`Errno::OPNOTSUPP`] if the kernel does not tell ([`is_told`]), or what it says.
pub fn to_inode(inode: u64) -> io::Result<Vec<Bound>> {
    let socket = diag::ask(&question(0), NLM_F_REQUEST | NLM_F_DUMP)?;
    let mut bound = Vec::new();
    let mut buffer = vec![0; 32 * 1024];
    loop {
        let (length, _) = net::recv(&socket, &mut buffer[..], RecvFlags::empty())?;
        let mut rest = &buffer[..length];
        if rest.is_empty() {
            return Err(Errno::IO);
        }
        while let Some((kind, message, after)) =
            split(rest, HEADER, |head| (u32_at(head, 0) as usize, u16_at(head, 4)))
        {
            match kind {
                NLMSG_DONE => return Ok(bound),
                NLMSG_ERROR => return Err(Errno::OPNOTSUPP),
                _ => bound.extend(read(message, inode)),
            }
            rest = after;
        }
    }
}

/// Whether the kernel tells it at all: it may be built without (CONFIG_UNIX_DIAG), or not find the module.
pub fn is_told() -> bool {
    let answer = || {
        let socket = diag::ask(&question(0), NLM_F_REQUEST)?;
        let mut buffer = [0; 64];
        let (length, _) = net::recv(&socket, &mut buffer[..], RecvFlags::DONTWAIT)?;
        // struct nlmsgerr { error i32, .. }: no socket has the number 0, and who knows sockets says so by EINVAL.
        Ok::<_, Errno>(buffer[..length].get(HEADER..HEADER + 4).map(|error| u32_at(error, 0)))
    };
    answer() == Ok(Some(Errno::INVAL.raw_os_error().wrapping_neg().cast_unsigned()))
}

/// A file as sock_diag(7) tells of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BoundFile {
    /// The low half of its inode's number.
    inode: u32,
    /// The device of its file system, as the kernel writes it.
    device: u32,
}

/// The file that the socket with this number is bound to.
///
/// # Errors
/// Returns [`Errno::NOENT`] if there is no such socket here, or it is bound to none, and what the kernel says.
pub fn file_of(socket: u64) -> io::Result<BoundFile> {
    let number = u32::try_from(socket).map_err(|_| Errno::NOENT)?;
    let socket = diag::ask(&question(number), NLM_F_REQUEST)?;
    let mut buffer = [0; 1024];
    let (length, _) = net::recv(&socket, &mut buffer[..], RecvFlags::DONTWAIT)?;
    let message =
        split(&buffer[..length], HEADER, |head| (u32_at(head, 0) as usize, u16_at(head, 4)));
    match message {
        Some((ANSWER, message, _)) => file(message).ok_or(Errno::NOENT),
        _ => Err(Errno::NOENT),
    }
}

impl BoundFile {
    /// Whether it has the number of `file`, which it is if both are in one directory.
    pub fn has_number_of(self, (_, inode): Identity) -> bool {
        inode & 0xffff_ffff == u64::from(self.inode)
    }

    /// Whether it can be the file `file` in a directory of `directory_device`. Files of some file systems
    /// (overlayfs) have another device than their directories; where neither is that of the file system
    /// (btrfs), it cannot be told.
    pub fn can_be(self, file: Identity, directory_device: u64) -> bool {
        /// MKDEV in linux/kdev_t.h.
        const MINOR_BITS: u32 = 20;
        let is_device = |number| fs::major(number) << MINOR_BITS | fs::minor(number) == self.device;
        self.has_number_of(file) && (is_device(file.0) || is_device(directory_device))
    }
}

/// `struct unix_diag_req { family u8, protocol u8, pad u16, states u32, inode u32, show u32, cookie u32[2] }`
fn question(socket: u32) -> Vec<u8> {
    let mut question = vec![1, 0, 0, 0];
    for word in [ANY_STATE, socket, UDIAG_SHOW_NAME_VFS, NO_COOKIE, NO_COOKIE] {
        question.extend(word.to_ne_bytes());
    }
    question
}

/// `struct unix_diag_msg { family u8, type u8, state u8, pad u8, inode u32, cookie u32[2] }`, and attributes:
/// { length u16, type u16 }, padded to four bytes.
fn read(message: &[u8], inode: u64) -> Option<Bound> {
    let number = u64::from(u32_at(message.get(..HEADER)?, 4));
    if u64::from(file(message)?.inode) != inode & 0xffff_ffff {
        return None;
    }
    let name = attribute(message, UNIX_DIAG_NAME).unwrap_or_default();
    let name = name.split(|&byte| byte == 0).next()?.to_vec();
    Some(Bound { number, name })
}

/// The file that a socket is bound to: struct unix_diag_vfs { inode u32, device u32 }.
fn file(message: &[u8]) -> Option<BoundFile> {
    let file = attribute(message, UNIX_DIAG_VFS)?.get(..8)?;
    Some(BoundFile { inode: u32_at(file, 0), device: u32_at(file, 4) })
}

fn attribute(message: &[u8], wanted: u16) -> Option<&[u8]> {
    let mut rest = message.get(HEADER..)?;
    loop {
        let (kind, value, after) =
            split(rest, ATTRIBUTE, |head| (usize::from(u16_at(head, 0)), u16_at(head, 2)))?;
        if kind == wanted {
            return Some(value);
        }
        rest = after;
    }
}

/// Splits off what begins with a header, which says its whole length and its kind: the kind, what is after
/// the header, and what follows.
fn split(
    bytes: &[u8],
    header: usize,
    read: impl Fn(&[u8]) -> (usize, u16),
) -> Option<(u16, &[u8], &[u8])> {
    let (length, kind) = read(bytes.get(..header)?);
    let content = bytes.get(header..length)?;
    Some((kind, content, bytes.get(length.next_multiple_of(4)..).unwrap_or_default()))
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_ne_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::test_directory::TestDirectory;
    use std::os::fd::AsRawFd;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::MetadataExt;
    use std::os::unix::net::{UnixDatagram, UnixListener};

    #[test]
    fn a_file_tells_what_it_was_bound_as_whatever_it_is_called() {
        let dir = TestDirectory::new();
        let (path, moved) = (dir.path("socket"), dir.path("moved"));
        let listener = UnixListener::bind(&path).unwrap();
        let _other = UnixDatagram::bind(dir.path("other")).unwrap();
        std::fs::rename(&path, &moved).unwrap();
        let inode = moved.metadata().unwrap().ino();
        let bound = to_inode(inode).unwrap();
        let number =
            std::fs::metadata(format!("/proc/self/fd/{}", listener.as_raw_fd())).unwrap().ino();
        let device = moved.metadata().unwrap().dev();
        let directory = moved.parent().unwrap().metadata().unwrap().dev();
        let file = file_of(number).unwrap();
        assert!(file.can_be((device, inode), directory));
        assert!(!file.can_be((device, inode + 1), directory));
        assert!(!file.can_be((device + 1, inode), directory + 1));
        let unbound = UnixDatagram::unbound().unwrap();
        let unbound =
            std::fs::metadata(format!("/proc/self/fd/{}", unbound.as_raw_fd())).unwrap().ino();
        assert_eq!(file_of(unbound), Err(Errno::NOENT));
        assert!(is_told());
        let name = path.as_os_str().as_bytes();
        assert!(bound.iter().any(|bound| bound.name == name), "{bound:?}");
        drop(listener);
        assert_eq!(file_of(number), Err(Errno::NOENT));
        assert!(!to_inode(inode).unwrap().iter().any(|bound| bound.name == name));
    }
}

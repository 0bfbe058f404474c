//! The pathname sockets that the sandbox has bound itself.
//!
//! Who binds a path makes a file, and a file leads to the socket that it was made for and never to
//! another (unix_bind_bsd and unix_find_bsd in net/unix/af_unix.c). So the file is what is known here, held,
//! so that its number stays its own; whatever it is called later, it is the sandbox's. Another that has its name
//! is not: what somebody else bound there, or what the sandbox moved there.
//!
//! What is at the path once it is bound need not be that file any more. Which one the socket has, the kernel tells: by its
//! number and the device of its file system. Where each subvolume has a device and numbers of its own
//! ([`Place::has_subvolumes`]) it was bound in the directory that is held: so both files are of the same one.

use super::socket::Socket;
use super::unix::Place;
use kernel::bound;
use kernel::identity::Identity;
use kernel::limits;
use kernel::object::Object;
use kernel::threads::lock;
use rustix::fs::{self, FileType};
use rustix::io::{self, Errno};
use std::collections::VecDeque;
use std::sync::Mutex;

/// Most that are known at a time, and no more than a quarter of the descriptors that the broker may have; the
/// oldest is forgotten for another.
const KNOWN_MAX: usize = 4096;

/// What is known of them.
#[derive(Debug, Default)]
pub(crate) struct OwnPaths {
    known: Mutex<VecDeque<Object>>,
}

impl OwnPaths {
    /// Remembers that `socket` has just been bound to `place`, where nothing was before.
    ///
    /// # Errors
    /// Returns [`Errno::NOENT`] if its file is not there, and what sock_diag(7) returns.
    pub(crate) fn add(&self, socket: &Socket, place: &Place) -> io::Result<()> {
        // The path may have led elsewhere when it was bound: what was here before is another's.
        if !place.was_free {
            return Err(Errno::NOENT);
        }
        let file = place.entry.hold()?;
        let bound = bound::file_of(fs::fstat(socket)?.st_ino)?;
        let device = fs::fstat(place.entry.parent())?.st_dev;
        let identity = file.identity();
        // Of files on one file system, or in one subvolume, no two have one number, as long as both are there.
        let can_be = match place.has_subvolumes {
            true => identity.0 == device && bound.has_number_of(identity),
            false => bound.can_be(identity, device),
        };
        if file.kind() != FileType::Socket || !can_be {
            return Err(Errno::NOENT);
        }
        let max = KNOWN_MAX.min(limits::own_descriptors() / 4);
        let mut known = lock(&self.known);
        if known.len() >= max {
            known.retain(|file| !file.is_gone());
        }
        if known.len() >= max {
            known.pop_front();
        }
        known.push_back(file);
        Ok(())
    }

    /// Whether the sandbox has bound a socket to this file.
    pub(crate) fn has(&self, file: Identity) -> bool {
        let known = lock(&self.known);
        known.iter().any(|known| known.identity() == file)
    }
}

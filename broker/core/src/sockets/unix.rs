//! Pathname sockets: from a path of the target to the socket it names, and a new one in its place.
//!
//! Sources: unix(7), and unix_bind_bsd and unix_find_bsd in net/unix/af_unix.c.

use super::socket::Socket;
use crate::files::entry::Entry;
use crate::files::path::{self, NOTHING};
use kernel::address::Address;
use kernel::identity::Identity;
use kernel::object::Object;
use kernel::request::Confirmed;
use kernel::target::{Target, TargetFd};
use kernel::vfork_helper::{in_vfork_child, restrict};
use nix::libc;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{self, AtFlags, Mode};
use rustix::io::{self, Errno};
use rustix::process;
use std::path::{Path, PathBuf};

/// The object that a path names, held so that it stays the one that was judged.
#[derive(Debug)]
pub(crate) struct Peer {
    object: Object,
    name: PathBuf,
}

impl Peer {
    /// Follows `path` as connect(2) does for the target.
    pub(crate) fn resolve(target: Target, path: &[u8]) -> io::Result<Self> {
        let object = path::resolve(target, TargetFd::CWD, path, AtFlags::empty())?;
        let name = object.name()?.as_path().to_owned();
        Ok(Self { object, name })
    }

    /// Its canonical path.
    pub(crate) fn name(&self) -> &Path {
        &self.name
    }

    /// Which object it is.
    pub(crate) fn identity(&self) -> Identity {
        self.object.identity()
    }

    /// An address that leads to exactly this object, whatever becomes of its names.
    pub(crate) fn address(&self) -> Address {
        Address::of_path(self.object.link().as_bytes())
    }
}

/// Where a new socket goes.
#[derive(Debug)]
pub(crate) struct Place {
    /// What the path starts from.
    base: OwnedFd,
    /// The path from there, as the target gets it back from getsockname(2).
    path: Vec<u8>,
    /// The entry that it becomes.
    pub(super) entry: Entry,
    /// Nothing had its name when it was judged.
    pub(super) was_free: bool,
    /// Its file system has subvolumes with devices of their own, which sock_diag(7) does not tell apart, and
    /// with the same inode numbers (btrfs(5)).
    pub(super) has_subvolumes: bool,
    umask: Mode,
}

impl Place {
    /// Follows `path` as bind(2) does for the target.
    ///
    /// # Errors
    /// As [`path::resolve`]; [`Errno::ADDRINUSE`] for a path without a last component to create.
    pub(crate) fn resolve(target: Target, path: &[u8]) -> io::Result<Self> {
        let (directory, rest) = path::start(target, path).unwrap_or((TargetFd::CWD, path));
        let base = target.directory(directory)?;
        path::split(rest).ok_or(Errno::ADDRINUSE)?;
        let from = (!rest.starts_with(b"/")).then_some(base.as_fd());
        let entry = Entry::resolve_from(target, &from.into(), rest, NOTHING)?;
        let found = fs::statat(entry.parent(), entry.last(), AtFlags::SYMLINK_NOFOLLOW);
        let was_free = found.err() == Some(Errno::NOENT);
        let has_subvolumes = fs::fstatfs(entry.parent())?.f_type == libc::BTRFS_SUPER_MAGIC;
        let umask = target.status()?.umask()?;
        Ok(Self { base, path: rest.to_vec(), entry, was_free, has_subvolumes, umask })
    }

    /// The canonical path that the socket gets.
    pub(crate) fn name(&self) -> PathBuf {
        self.entry.path()
    }

    /// Binds `socket` to the entry of the directory that is held. The target gets the name in that
    /// directory back from getsockname(2), not the path that it gave.
    pub(crate) fn bind_in_directory(&self, by: Confirmed<'_>, socket: &Socket) -> io::Result<()> {
        let address = Address::of_path(self.entry.last());
        self.bind_from(self.entry.parent(), || socket.bind(by, &address))
    }

    /// Binds `socket` to the path, under `ruleset`.
    ///
    /// The kernel follows the path once more, and another thread may have put a symbolic link into it
    /// since it was judged. Naming the directory by a descriptor would not help: getsockname(2) gives
    /// the target the path that was bound, and servers tell it to their clients. So this is done by
    /// a child that has entered the command's own Landlock domain: wherever the path leads by then,
    /// the socket is only made where the command may make one. That it can be another such place than
    /// the judged one gains nothing, since the command may also move it there.
    ///
    /// # Errors
    /// Returns what bind(2) returns, and [`Errno::ACCESS`] if the child cannot be confined.
    pub(crate) fn bind(
        &self,
        by: Confirmed<'_>,
        socket: &Socket,
        ruleset: BorrowedFd<'_>,
    ) -> io::Result<()> {
        let address = Address::of_path(&self.path);
        self.bind_from(&self.base, || {
            restrict(ruleset)?;
            socket.bind(by, &address)
        })
    }

    /// Has a child `bind` that has a working directory and a umask of its own, `base` and the
    /// target's.
    fn bind_from(&self, base: impl AsFd, bind: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        in_vfork_child(|| {
            process::fchdir(base)?;
            process::umask(self.umask);
            bind()
        })
    }
}

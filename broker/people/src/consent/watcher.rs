//! The way from a run to `landstrip --watch`: a socket in a directory that no sandbox may write, so that nobody in one can
//! listen there. Whoever connects proves that it may write there too, by a file of a name that it is told: sandboxes may be
//! allowed to connect to all Unix sockets. Both ends are of one user (unix(7), SO_PEERCRED).

use super::place;
use super::wire::Wire;
use rustix::event::Timespec;
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::fs::{AtFlags, Mode, OFlags, openat, unlinkat};
use rustix::io;
use rustix::net::sockopt::socket_peercred;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use rustix::process::geteuid;
use rustix::rand::{GetRandomFlags, getrandom};
use serde_json::{Value, json};
use std::os::unix::net::UnixStream;

/// What the name of each begins with, and that of what proves something to one.
const NAME: &str = "watch-";
const PROOF: &str = "proof-";
/// How long is waited for what a watcher says first.
const PATIENCE: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// The name of a watcher of all runs, or of that run, which is the process `own`.
pub(super) fn name(own: u32, wanted: Option<i32>) -> String {
    format!("{NAME}{own}-{}", wanted.unwrap_or(0))
}

/// The address of `name` there, which is as long as the path of the directory does not make it.
pub(super) fn address(place: &OwnedFd, name: &str) -> io::Result<SocketAddrUnix> {
    SocketAddrUnix::new(format!("/proc/self/fd/{}/{name}", place.as_raw_fd()))
}

/// Whether the other end is of this user.
pub(super) fn is_own(socket: impl AsFd) -> bool {
    socket_peercred(socket).is_ok_and(|peer| peer.uid == geteuid())
}

/// What a run has to make before it is heard.
#[derive(Debug)]
pub(super) struct Proof(String);

impl Proof {
    /// # Errors
    /// Returns what getrandom(2) returns.
    pub(super) fn new() -> io::Result<Self> {
        let mut random = [0; 16];
        getrandom(&mut random, GetRandomFlags::empty())?;
        Ok(Self(format!("{PROOF}{:032x}", u128::from_ne_bytes(random))))
    }

    /// The line that asks for it.
    pub(super) fn line(&self) -> Value {
        json!({ "make": self.0 })
    }

    /// Whether it was made in `place`; it is not left there.
    pub(super) fn is_given(&self, place: &OwnedFd) -> bool {
        unlinkat(place, &self.0, AtFlags::empty()).is_ok()
    }
}

/// Whoever watches, and hears from now on what is said; none if nobody does.
pub(super) fn find() -> Option<Wire> {
    find_others(&|_| false).next().map(|(_, wire)| wire)
}

/// All of them whose names are not known, with these.
pub(super) fn find_others(is_known: &dyn Fn(&str) -> bool) -> impl Iterator<Item = (String, Wire)> {
    place::of_watchers().flat_map(move |path| {
        let entries = std::fs::read_dir(&path).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let place = place::open(&path);
        names.filter(|name| !is_known(name)).filter_map(move |name| {
            let wire = find_at(place.as_ref()?, &name)?;
            Some((name, wire))
        })
    })
}

fn find_at(place: &OwnedFd, name: &str) -> Option<Wire> {
    let (_, wanted) = name.strip_prefix(NAME)?.split_once('-')?;
    if !["0", &*std::process::id().to_string()].contains(&wanted) {
        return None;
    }
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).ok()?;
    connect(&socket, &address(place, name).ok()?).ok()?;
    let mut wire = is_own(&socket).then(|| Wire::over(UnixStream::from(socket)))?;
    let asked = wire.lines(Some(PATIENCE))?;
    let proof = asked.first()?["make"].as_str()?;
    if !proof.starts_with(PROOF) || proof.contains('/') {
        return None;
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    openat(place, proof, flags, Mode::RUSR | Mode::WUSR).ok()?;
    wire.say(&json!({ "made": proof })).then_some(wire)
}

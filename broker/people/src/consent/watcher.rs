//! The way from a run to `landstrip --watch`: a socket in the directory that no sandbox may write, so that nobody in one can
//! listen there. Both ends see that the other is of their user (unix(7), SO_PEERCRED).

use landstrip_core::compile::runs::{cache, hold, holder_in_cache};
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::io;
use rustix::net::sockopt::socket_peercred;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use rustix::process::geteuid;
use std::os::unix::net::UnixStream;

/// What the name of each begins with.
const NAME: &str = "watch-";

/// The name of a watcher of all runs, or of that run, which is the process `own`.
pub(super) fn name(own: u32, wanted: Option<i32>) -> String {
    format!("{NAME}{own}-{}", wanted.unwrap_or(0))
}

/// The directory, if it is this user's alone.
pub(super) fn place() -> Option<OwnedFd> {
    hold(&holder_in_cache(&cache()?)).ok()
}

/// The address of `name` there, which is as long as the path of the directory does not make it.
pub(super) fn address(place: &OwnedFd, name: &str) -> io::Result<SocketAddrUnix> {
    SocketAddrUnix::new(format!("/proc/self/fd/{}/{name}", place.as_raw_fd()))
}

/// Connects to whoever watches; none if nobody does.
pub(super) fn find() -> Option<UnixStream> {
    let directory = holder_in_cache(&cache()?);
    let mut names = std::fs::read_dir(&directory).ok()?.flatten().map(|entry| entry.file_name());
    let place = place()?;
    names.find_map(|name| {
        let name = name.to_str()?;
        let (_, wanted) = name.strip_prefix(NAME)?.split_once('-')?;
        if !["0", &*std::process::id().to_string()].contains(&wanted) {
            return None;
        }
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).ok()?;
        connect(&socket, &address(&place, name).ok()?).ok()?;
        is_own(&socket).then(|| UnixStream::from(socket))
    })
}

/// Whether the other end is of this user.
pub(super) fn is_own(socket: impl AsFd) -> bool {
    socket_peercred(socket).is_ok_and(|peer| peer.uid == geteuid())
}

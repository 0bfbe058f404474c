//! Sockets that do not wait for as long as they are connected: O_NONBLOCK, which all descriptors of a socket share
//! (fcntl(2)).
//!
//! Of two threads that connect one socket the first to end would have the other wait, if it took the flag back. The target
//! can do so as well, and have one wait: so nobody has this to itself meanwhile.

use kernel::threads::lock;
use rustix::fd::AsFd;
use rustix::fs::{self, OFlags};
use rustix::io;
use std::sync::Mutex;

/// The sockets that calls return at once on, by number, once for each thread that needs that, with their flags from
/// before.
static UNWAITING: Mutex<Vec<(u64, OFlags)>> = Mutex::new(Vec::new());

/// Does `work` while calls on `socket` return at once.
pub(super) fn without_waiting<T>(socket: impl AsFd, work: impl FnOnce() -> T) -> io::Result<T> {
    let inode = fs::fstat(&socket)?.st_ino;
    let mut unwaiting = lock(&UNWAITING);
    let known = unwaiting.iter().find(|one| one.0 == inode).map(|one| Ok(one.1));
    let flags = known.unwrap_or_else(|| fs::fcntl_getfl(&socket))?;
    fs::fcntl_setfl(&socket, flags | OFlags::NONBLOCK)?;
    unwaiting.push((inode, flags));
    drop(unwaiting);
    let done = work();
    let mut unwaiting = lock(&UNWAITING);
    unwaiting.iter().position(|one| one.0 == inode).map(|at| unwaiting.swap_remove(at));
    if unwaiting.iter().all(|one| one.0 != inode) {
        fs::fcntl_setfl(&socket, flags)?;
    }
    Ok(done)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use rustix::fd::OwnedFd;
    use rustix::net::{self, AddressFamily, SocketType};
    use std::time::Duration;

    #[test]
    fn a_connect_that_is_made_to_wait_keeps_no_other_and_none_on_its_socket_waits() {
        let new = || net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        let waits = |socket: &OwnedFd| !fs::fcntl_getfl(socket).unwrap().contains(OFlags::NONBLOCK);
        let (sender, ended) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let one = new();
            let during = without_waiting(&one, || {
                let others_wait_again = (0..2000).all(|_| {
                    let other = new();
                    without_waiting(&other, || ()).is_ok() && waits(&other)
                });
                let beside = without_waiting(&one, || waits(&one)).unwrap();
                (others_wait_again, beside, waits(&one))
            });
            sender.send((during, waits(&one))).unwrap();
        });
        let ended = ended.recv_timeout(Duration::from_secs(60)).unwrap();
        assert_eq!(ended, (Ok((true, false, false)), true));
    }
}

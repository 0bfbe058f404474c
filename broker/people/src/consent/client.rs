//! Whose a connection to the proxy is: the one process of the sandbox that has the socket. Where that is not certain, as
//! several have it or one hides what it has, nobody is named.

use super::Asker;
use kernel::fd_scan;
use kernel::target::{Target, TargetFd};
use rules::address::canonical;
use rustix::net::{getpeername, getsockname};
use rustix::process::Pid;
use std::net::SocketAddr;
use std::ops::ControlFlow;

/// A descriptor of a process, and the inode number of the socket there.
type Held = (Pid, TargetFd, u64);

/// Who has the socket at local port `port` that is connected to one of `proxies`. It can take long.
pub(super) fn asker(port: u16, proxies: &[SocketAddr]) -> Option<Asker> {
    let mut held: Vec<Held> = Vec::new();
    let is_all = fd_scan::each_socket(|process, number, inode| {
        held.push((process, number, inode));
        ControlFlow::Continue(())
    });
    let mut clients = held.iter().filter(|held| is_client(held, port, proxies));
    let &(process, number, inode) = clients.next().filter(|_| is_all)?;
    let is_its = |held: &Held| (held.0, held.2) == (process, inode);
    let mut others = held.iter().filter(|held| held.2 == inode).chain(clients);
    if !others.all(is_its) {
        return None;
    }
    let asker = Asker::of(Target::new(process));
    // Then what was read was that of the process which has it.
    (fd_scan::socket_at(process, number) == Some(inode)).then_some(asker)
}

fn is_client((process, number, _): &Held, port: u16, proxies: &[SocketAddr]) -> bool {
    let Ok(socket) = Target::new(*process).duplicate(*number) else { return false };
    let there = getpeername(&socket).ok().flatten();
    let [here, there] = [getsockname(&socket).ok(), there]
        .map(|name| name.and_then(|name| SocketAddr::try_from(name).ok()).map(canonical));
    here.is_some_and(|here| here.port() == port)
        && there.is_some_and(|there| proxies.contains(&there))
}

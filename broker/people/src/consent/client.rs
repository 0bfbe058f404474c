//! Whose a connection to the proxy is: the one process of the sandbox that has the socket. Where that is not certain, as
//! several have it or one hides what it has, nobody is named.

use super::Asker;
use kernel::fd_scan;
use kernel::target::{Target, TargetFd};
use landstrip_core::domains::proxy::Proxy;
use rules::address::canonical;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::net::{getpeername, getsockname, sockopt};
use rustix::process::Pid;
use std::net::SocketAddr;
use std::ops::ControlFlow;

/// A descriptor of a process, and the inode number of the socket there.
type Held = (Pid, TargetFd, u64);

/// Who has the socket at local port `port` that is connected to `proxy`, or about to be. It can take long.
pub(super) fn asker(port: u16, proxy: &Proxy) -> Option<Asker> {
    let mut held: Vec<Held> = Vec::new();
    let is_all = fd_scan::each_socket(|process, number, inode| {
        // It holds what it has not answered.
        if proxy.process() != Some(process) {
            held.push((process, number, inode));
        }
        ControlFlow::Continue(())
    });
    let proxies = proxy.addresses();
    let mut clients = held.iter().filter(|held| is_client(held, port, &proxies));
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
        && there.map_or_else(|| is_under_way(&socket), |there| proxies.contains(&there))
}

/// Whether `socket` connects, and is not answered: one that the proxy dials for. Without a connect it hangs up.
fn is_under_way(socket: &OwnedFd) -> bool {
    let mut fds = [PollFd::new(socket, PollFlags::OUT)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut fds, Some(&now)) == Ok(0) && sockopt::socket_acceptconn(socket) == Ok(false)
}

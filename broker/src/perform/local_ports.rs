//! The loopback ports that the sandbox itself listens on.
//!
//! Whether a port is the sandbox's own is asked of the kernel at every connect, never remembered:
//! the listening socket is looked for among the descriptors of the sandbox's processes, compared by
//! the cookie that it had when the broker made it listen (SO_COOKIE, unique until reboot), and held
//! while the connect is under way. As long as it is held and listens, no other socket can be bound
//! to the address: the filter refuses SO_REUSEPORT, and what ends listening other than the last
//! close, shutdown(2) and connect(2) to AF_UNSPEC, is the broker's to perform. Held only for that
//! long, so that a port is free again when the sandbox closes it.
//!
//! Sources: tcp(7), socket(7), inet_csk_get_port in net/ipv4/inet_connection_sock.c.

use crate::decide::address::canonical;
use crate::notify::target::Target;
use crate::perform::socket::Socket;
use rustix::fd::OwnedFd;
use rustix::fs;
use rustix::io;
use rustix::net::sockopt;
use rustix::process::Pid;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::os::fd::RawFd;

/// Most ports that are known at a time; the oldest is forgotten for another.
const PORTS_MAX: usize = 4096;
/// Most processes, and descriptors of them, that are looked at to find a socket whose holder has
/// gone, as happens when a server becomes a daemon.
const PROCESSES_MAX: usize = 1024;
const DESCRIPTORS_MAX: usize = 16_384;

/// What the broker made listen.
#[derive(Debug, Default)]
pub(crate) struct LocalPorts {
    known: VecDeque<Listening>,
}

#[derive(Debug)]
struct Listening {
    address: SocketAddr,
    cookie: u64,
    inode: u64,
    /// Who holds it, under which number: a hint where to look.
    holder: Pid,
    number: RawFd,
}

/// A listening socket of the sandbox that cannot be closed as long as this lives.
#[derive(Debug)]
pub(crate) struct Held {
    cookie: u64,
    _socket: OwnedFd,
}

impl Held {
    /// Whether it is the socket with this cookie.
    pub(crate) fn is(&self, cookie: u64) -> bool {
        self.cookie == cookie
    }
}

impl LocalPorts {
    /// Remembers that `socket`, descriptor `number` of `target`, listens.
    ///
    /// # Errors
    /// Returns what getsockname(2), getsockopt(2) and fstat(2) return.
    pub(crate) fn add(&mut self, target: Target, number: RawFd, socket: &Socket) -> io::Result<()> {
        let cookie = sockopt::socket_cookie(socket)?;
        let address = canonical(socket.local_address()?);
        let inode = fs::fstat(socket)?.st_ino;
        // No two sockets listen on one address: what is known of it is out of date.
        self.known.retain(|known| known.address != address && known.cookie != cookie);
        if self.known.len() >= PORTS_MAX {
            self.known.pop_front();
        }
        self.known.push_back(Listening { address, cookie, inode, holder: target.thread(), number });
        Ok(())
    }

    /// The socket of the sandbox that listens on `address`, a canonical one, if there is one.
    pub(crate) fn hold(&mut self, address: SocketAddr) -> Option<Held> {
        let at = self.known.iter().position(|known| known.address == address)?;
        let held = self.known.get_mut(at)?.hold();
        if held.is_none() {
            // Closed, or given up. If it is made to listen again, the broker is asked.
            self.known.remove(at);
        }
        held
    }
}

impl Listening {
    fn hold(&mut self) -> Option<Held> {
        let at_holder = Target::new(self.holder).duplicate(self.number).ok();
        let socket = at_holder.filter(|socket| self.is(socket)).or_else(|| self.search())?;
        // Listening until the broker ends it.
        let listens = sockopt::socket_acceptconn(&socket).unwrap_or(false);
        listens.then(|| Held { cookie: self.cookie, _socket: socket })
    }

    fn is(&self, socket: &OwnedFd) -> bool {
        sockopt::socket_cookie(socket) == Ok(self.cookie)
    }

    /// Looks through the sandbox's processes: a socket is passed on by fork(2) and over other sockets.
    fn search(&mut self) -> Option<OwnedFd> {
        let wanted = format!("socket:[{}]", self.inode);
        let mut looked_at = 0;
        for process in descendants() {
            let Ok(entries) = std::fs::read_dir(format!("/proc/{process}/fd")) else { continue };
            for entry in entries.flatten() {
                looked_at += 1;
                if looked_at > DESCRIPTORS_MAX {
                    return None;
                }
                let is_it = std::fs::read_link(entry.path())
                    .is_ok_and(|l| l.as_os_str() == wanted.as_str());
                let number = entry.file_name().to_str().and_then(|name| name.parse().ok());
                let (true, Some(number)) = (is_it, number) else { continue };
                let Some(holder) = Pid::from_raw(process) else { continue };
                let socket = Target::new(holder).duplicate(number).ok();
                if let Some(socket) = socket.filter(|socket| self.is(socket)) {
                    (self.holder, self.number) = (holder, number);
                    return Some(socket);
                }
            }
        }
        None
    }
}

/// The broker's descendants: everything in the sandbox, since orphans become its children.
fn descendants() -> Vec<i32> {
    let mut found = children(std::process::id().cast_signed());
    let mut next = 0;
    while next < found.len() && found.len() < PROCESSES_MAX {
        found.extend(children(found[next]));
        next += 1;
    }
    found
}

fn children(process: i32) -> Vec<i32> {
    let Ok(tasks) = std::fs::read_dir(format!("/proc/{process}/task")) else { return Vec::new() };
    tasks
        .flatten()
        .filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok())
        .flat_map(|text| {
            text.split_ascii_whitespace().filter_map(|p| p.parse().ok()).collect::<Vec<_>>()
        })
        .collect()
}

/// Whether anybody listens on `port`, on any address: a refused connect is worth a report then.
///
/// The kernel lists listening sockets first (proc(5)), so that the rest need not be read.
pub(crate) fn anybody_listens(port: u16) -> bool {
    use std::io::BufRead;
    ["/proc/net/tcp", "/proc/net/tcp6"].iter().any(|table| {
        let Ok(file) = std::fs::File::open(table) else { return false };
        std::io::BufReader::new(file)
            .lines()
            .skip(1)
            .map_while(Result::ok)
            .map_while(|line| listening_port(&line))
            .any(|listening| listening == port)
    })
}

/// The port of a line of /proc/net/tcp, if it is a listening socket's.
fn listening_port(line: &str) -> Option<u16> {
    let mut words = line.split_ascii_whitespace().skip(1);
    let (_, port) = words.next()?.rsplit_once(':')?;
    let state = words.nth(1)?;
    (state == "0A").then(|| u16::from_str_radix(port, 16).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listening_sockets_are_told_from_others() {
        let line = "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000";
        assert_eq!(listening_port(line), Some(8080));
        let six = "   1: 00000000000000000000000001000000:0050 0:0 0A 00000000:00000000";
        assert_eq!(listening_port(six), Some(80));
        assert_eq!(listening_port(&line.replace("0A", "01")), None);
        assert_eq!(listening_port(""), None);
    }

    #[test]
    fn a_listener_of_this_host_is_seen() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        assert!(anybody_listens(port));
        drop(listener);
        assert!(!anybody_listens(port));
    }
}

//! What the sandbox must not reach, laid out beside it: sockets that tell from outside whether somebody came.

use super::attempt::{Act, Attempt};
use landstrip_core::compile::runs::callers_temporary;
use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};

/// Sockets of the broker's own, on loopback, in a directory of their own, and by an abstract name.
#[derive(Debug)]
pub struct Bait {
    tcp: TcpListener,
    udp: UdpSocket,
    unix: UnixListener,
    by_name: UnixListener,
    directory: PathBuf,
    name: String,
}

impl Bait {
    /// Makes them.
    pub fn lay_out() -> std::io::Result<Self> {
        let name = format!("landstrip-doctor-{}", std::process::id());
        let make = |parent: PathBuf| {
            let directory = parent.join(&name);
            std::fs::create_dir(&directory).map(|()| directory)
        };
        let temporary = callers_temporary().canonicalize().and_then(make);
        // An image may have no /tmp.
        let directory = temporary.or_else(|_| std::env::current_dir().and_then(make))?;
        let made = Self::in_directory(&directory, name);
        if made.is_err() {
            let _ = std::fs::remove_dir_all(&directory);
        }
        made
    }

    fn in_directory(directory: &Path, name: String) -> std::io::Result<Self> {
        let tcp = TcpListener::bind("127.0.0.1:0")?;
        let udp = UdpSocket::bind("127.0.0.1:0")?;
        let unix = UnixListener::bind(directory.join("socket"))?;
        let by_name = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name)?)?;
        tcp.set_nonblocking(true)?;
        udp.set_nonblocking(true)?;
        unix.set_nonblocking(true)?;
        by_name.set_nonblocking(true)?;
        Ok(Self { tcp, udp, unix, by_name, directory: directory.to_owned(), name })
    }

    /// The address of the TCP socket.
    pub fn tcp(&self) -> std::io::Result<std::net::SocketAddr> {
        self.tcp.local_addr()
    }

    /// The address of the UDP socket.
    pub fn udp(&self) -> std::io::Result<std::net::SocketAddr> {
        self.udp.local_addr()
    }

    /// The path of the Unix socket.
    pub fn path(&self) -> PathBuf {
        self.directory.join("socket")
    }

    /// The abstract name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Those of `attempts` that reached a socket though they were to be refused, whatever they say themselves.
    pub fn taken<'a>(&self, attempts: &'a [Attempt]) -> Vec<&'a Attempt> {
        let came = |act: Act| match act {
            Act::Connect => self.tcp.accept().is_ok(),
            Act::SendTo => self.udp.recv(&mut [0; 16]).is_ok(),
            Act::ConnectUnix => self.unix.accept().is_ok(),
            Act::ConnectAbstract => self.by_name.accept().is_ok(),
            _ => false,
        };
        attempts.iter().filter(|attempt| !attempt.is_permitted && came(attempt.act)).collect()
    }
}

impl Drop for Bait {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

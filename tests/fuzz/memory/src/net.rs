//! The sockets. Methods that the proxy must not reach while it is fuzzed panic.

use std::cell::Cell;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixDatagram as Real;
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, Interest, ReadBuf, Ready};

/// Connects to an address.
pub type Dial = fn(SocketAddr) -> io::Result<DuplexStream>;

thread_local! {
    static DIAL: Cell<Dial> = const { Cell::new(|_| Err(io::ErrorKind::ConnectionRefused.into())) };
}

/// Sets how connections of this thread are made.
pub fn set_dial(dial: Dial) {
    DIAL.set(dial);
}

/// A socket for setsockopt(2), which may fail.
fn descriptor() -> BorrowedFd<'static> {
    static SOCKET: OnceLock<Real> = OnceLock::new();
    SOCKET.get_or_init(|| Real::unbound().expect("a socket")).as_fd()
}

/// An outgoing connection.
pub struct TcpStream {
    stream: Mutex<Stream>,
    peer: SocketAddr,
}

struct Stream {
    stream: DuplexStream,
    /// Peeked at, and not read yet.
    peeked: Option<u8>,
}

impl TcpStream {
    pub async fn connect(peer: SocketAddr) -> io::Result<Self> {
        let stream = DIAL.get()(peer)?;
        Ok(Self { stream: Mutex::new(Stream { stream, peeked: None }), peer })
    }

    fn lock(&self) -> MutexGuard<'_, Stream> {
        self.stream.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.peer)
    }

    pub fn set_nodelay(&self, _: bool) -> io::Result<()> {
        Ok(())
    }

    /// Peeks at one byte at most.
    pub fn poll_peek(
        &self,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<usize>> {
        let mut stream = self.lock();
        if stream.peeked.is_none() {
            let mut byte = [0];
            let mut space = ReadBuf::new(&mut byte);
            ready!(Pin::new(&mut stream.stream).poll_read(context, &mut space))?;
            stream.peeked = space.filled().first().copied();
        }
        let seen = stream.peeked;
        buffer.put_slice(seen.as_slice());
        Poll::Ready(Ok(seen.iter().len()))
    }

    pub async fn peek(&self, buffer: &mut [u8]) -> io::Result<usize> {
        std::future::poll_fn(|context| self.poll_peek(context, &mut ReadBuf::new(buffer))).await
    }

    pub fn from_std(_: std::net::TcpStream) -> io::Result<Self> {
        unreachable!("clients are not sockets here")
    }

    pub fn into_std(self) -> io::Result<std::net::TcpStream> {
        unreachable!("clients are not sockets here")
    }

    pub async fn ready(&self, _: Interest) -> io::Result<Ready> {
        unreachable!("clients are not sockets here")
    }

    pub fn try_io<R>(&self, _: Interest, _: impl FnOnce() -> io::Result<R>) -> io::Result<R> {
        unreachable!("clients are not sockets here")
    }
}

impl fmt::Debug for TcpStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TcpStream({})", self.peer)
    }
}

impl AsFd for TcpStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        descriptor()
    }
}

impl AsyncRead for TcpStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let stream = self.get_mut().stream.get_mut().unwrap_or_else(PoisonError::into_inner);
        match stream.peeked.take() {
            Some(byte) if buffer.remaining() > 0 => {
                buffer.put_slice(&[byte]);
                Poll::Ready(Ok(()))
            }
            peeked => {
                stream.peeked = peeked;
                Pin::new(&mut stream.stream).poll_read(context, buffer)
            }
        }
    }
}

impl AsyncWrite for TcpStream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.lock().stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.lock().stream).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.lock().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.lock().stream).poll_shutdown(context)
    }
}

/// To name servers. The permitted names are in a hosts file, so none is asked.
#[derive(Debug)]
pub struct UdpSocket;

impl UdpSocket {
    pub async fn bind(_: SocketAddr) -> io::Result<Self> {
        panic!("a name was looked up");
    }

    pub async fn connect(&self, _: SocketAddr) -> io::Result<()> {
        unreachable!("bind panics")
    }

    pub async fn send(&self, _: &[u8]) -> io::Result<usize> {
        unreachable!("bind panics")
    }

    pub async fn recv(&self, _: &mut [u8]) -> io::Result<usize> {
        unreachable!("bind panics")
    }
}

/// To the broker, whose queue is always full: reports are dropped.
#[derive(Debug)]
pub struct UnixDatagram;

impl UnixDatagram {
    pub fn from_std(_: Real) -> io::Result<Self> {
        Ok(Self)
    }

    pub fn try_send(&self, _: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::WouldBlock.into())
    }

    pub async fn send(&self, _: &[u8]) -> io::Result<usize> {
        unreachable!("unlisted hosts are refused without a question")
    }

    pub async fn recv(&self, _: &mut [u8]) -> io::Result<usize> {
        unreachable!("lookups are not served here")
    }

    pub async fn async_io<R>(
        &self,
        _: Interest,
        _: impl FnMut() -> io::Result<R>,
    ) -> io::Result<R> {
        unreachable!("nothing is received from the broker")
    }
}

impl AsFd for UnixDatagram {
    fn as_fd(&self) -> BorrowedFd<'_> {
        descriptor()
    }
}

//! `--connect`: standard input and output through the sandbox's own SOCKS proxy, as ssh's
//! ProxyCommand. It runs inside of the sandbox, with nothing but the command's own rights.

use crate::error::ProxyError;
use crate::socks5::{self, ConnectError, Place};
use proxy_hosts::domain::parse_port;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpStream};

/// Connects to `host`:`port` through the proxy on loopback port `proxy`, and relays.
///
/// # Errors
/// Returns [`ProxyError::Client`] if the proxy does not connect.
pub(crate) fn relay(proxy: &str, host: &str, port: &str) -> Result<(), ProxyError> {
    let name = format!("{host}:{port}");
    let failed = |error: io::Error| ProxyError::Client(name.clone(), error.to_string());
    let (Some(proxy), Some(port)) = (parse_port(proxy), parse_port(port)) else {
        return Err(ProxyError::Usage);
    };
    let place = match host.parse() {
        Ok(address) => Place::Address(address),
        Err(_) => Place::Name(host.as_bytes().to_vec()),
    };
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, proxy)).map_err(failed)?;
    let stream = ask(stream, &place, port).map_err(failed)?;
    let upload = stream.try_clone().map_err(failed)?;
    // Ends with the process: a peer that hangs up ends both directions.
    std::thread::spawn(move || {
        let _ = io::copy(&mut io::stdin().lock(), &mut &upload);
        let _ = upload.shutdown(Shutdown::Write);
    });
    copy_out(stream).map_err(failed)
}

/// ssh waits for each packet: nothing may stay in the buffer of standard output.
fn copy_out(mut stream: TcpStream) -> io::Result<()> {
    let mut buffer = vec![0; 64 * 1024];
    let mut out = io::stdout().lock();
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(length) => {
                out.write_all(&buffer[..length])?;
                out.flush()?;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

fn ask(stream: TcpStream, place: &Place, port: u16) -> io::Result<TcpStream> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    stream.set_nonblocking(true)?;
    let stream = runtime.block_on(async {
        let mut stream = tokio::net::TcpStream::from_std(stream)?;
        socks5::connect(&mut stream, place, port, None).await.map_err(|error| match error {
            ConnectError::Connection(error) => error,
            ConnectError::Refused(2) => io::Error::other("not allowed by network.allowedDomains"),
            ConnectError::Refused(4) => io::Error::other("host unreachable or unknown"),
            ConnectError::Refused(5) => io::ErrorKind::ConnectionRefused.into(),
            _ => io::Error::other("the proxy failed"),
        })?;
        stream.into_std()
    })?;
    stream.set_nonblocking(false)?;
    Ok(stream)
}

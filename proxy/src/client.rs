//! `--connect`: standard input and output through the sandbox's own SOCKS proxy, as ssh's
//! ProxyCommand. It runs inside of the sandbox, with nothing but the command's own rights.

use crate::error::ProxyError;
use common::domain::parse_port;
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
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, proxy)).map_err(failed)?;
    ask(&stream, host, port).map_err(failed)?;
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

fn ask(mut stream: &TcpStream, host: &str, port: u16) -> io::Result<()> {
    let invalid = |message: &str| io::Error::new(io::ErrorKind::InvalidInput, message.to_owned());
    let length = u8::try_from(host.len()).map_err(|_| invalid("the name is too long"))?;
    let mut request = vec![5, 1, 0, 5, 1, 0, 3, length];
    request.extend(host.as_bytes());
    request.extend(port.to_be_bytes());
    stream.write_all(&request)?;
    let mut answer = [0; 2 + 10];
    stream.read_exact(&mut answer)?;
    match answer {
        [5, 0, 5, 0, ..] => Ok(()),
        [5, 0, 5, 2, ..] => Err(io::Error::other("not allowed by network.allowedDomains")),
        [5, 0, 5, 4, ..] => Err(io::Error::other("host unreachable or unknown")),
        [5, 0, 5, 5, ..] => Err(io::ErrorKind::ConnectionRefused.into()),
        _ => Err(io::Error::other("the proxy failed")),
    }
}

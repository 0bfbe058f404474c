//! Single calls, timed by a process that stays: in a sandbox, beside a floor's supervisor, or by itself.

use rustix::fs::Mode;
use rustix::net::sockopt;
use std::fs::OpenOptions;
use std::io;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};
use tests::bench::Outcome;

/// Calls of one sample.
const TIMES: u32 = 100;

/// Answers each name of a call with the microseconds that one takes in `directory`.
pub(crate) fn work(directory: &Path) -> Outcome<()> {
    std::env::set_current_dir(directory)?;
    let file = OpenOptions::new().write(true).open("granted/file")?;
    let mut own = None;
    let mode = Mode::from_raw_mode(0o644);
    for line in io::stdin().lines() {
        let microseconds = match line?.as_str() {
            "write" => timed(|| OpenOptions::new().write(true).open("granted/file").map(drop))?,
            "metadata" => timed(|| Ok(rustix::fs::fchmod(&file, mode)?))?,
            "tcp" => {
                let server = match own.take() {
                    Some(server) => own.insert(server),
                    None => own.insert(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?),
                };
                server.set_nonblocking(true)?;
                let taken = timed(|| {
                    let peer = TcpStream::connect(server.local_addr()?)?;
                    // Closed by a reset: thousands in TIME_WAIT would use up the ports.
                    Ok(sockopt::set_socket_linger(&peer, Some(Duration::ZERO))?)
                });
                while server.accept().is_ok() {}
                taken?
            }
            "unix" => timed(|| UnixStream::connect("../socket").map(drop))?,
            call => return Err(format!("there is no {call}").into()),
        };
        println!("{microseconds}");
    }
    Ok(())
}

fn timed(mut call: impl FnMut() -> io::Result<()>) -> io::Result<f64> {
    let start = Instant::now();
    for _ in 0..TIMES {
        call()?;
    }
    Ok(start.elapsed().as_secs_f64() * 1e6 / f64::from(TIMES))
}

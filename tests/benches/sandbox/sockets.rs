//! What a socket costs: a connect by each way there is, beside one that cannot be made, and a
//! connection that stands; and what ten thousand connects leave behind in the broker.

use super::{Ground, Memory, Programs, heading, row};
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketType, sockopt};
use serde_json::json;
use std::ffi::OsString;
use std::fs;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use tests::FullBacklog;
use tests::bench::{Outcome, Worker, judged, median};

/// The first argument of a process that runs the loops below.
pub(super) const WORKER: &str = "--sockets-worker";
/// Samples, each of so many connects.
const ROUNDS: usize = 41;
const CONNECTS: usize = 250;
/// The storm: this many threads, and connects of each.
const THREADS: usize = 100;
const EACH: usize = 100;

const CONNECT_BUDGET: f64 = 10.0;
const STUCK_BUDGET: f64 = 3.0;

/// Where the connects go.
struct Peers {
    tcp: TcpListener,
    unix: OwnedFd,
    stuck: FullBacklog,
}

impl Peers {
    fn create(ground: &Ground) -> Outcome<Self> {
        let tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        tcp.set_nonblocking(true)?;
        let unix = net::socket(AddressFamily::UNIX, SocketType::STREAM, None)?;
        net::bind(&unix, &SocketAddrUnix::new(unix_path(ground))?)?;
        for listener in [rustix::fd::AsFd::as_fd(&tcp), rustix::fd::AsFd::as_fd(&unix)] {
            net::listen(listener, 4096)?;
        }
        rustix::io::ioctl_fionbio(&unix, true)?;
        Ok(Self { tcp, unix, stuck: FullBacklog::new() })
    }

    /// Not while a worker measures: it would take turns with it on the processor.
    fn drain(&self) {
        while self.tcp.accept().is_ok() {}
        while net::accept(&self.unix).is_ok() {}
    }

    fn policy(&self, ground: &Ground) -> Outcome<PathBuf> {
        let policy = json!({"network": {
            "httpProxyPort": self.tcp.local_addr()?.port(),
            "socksProxyPort": self.stuck.port(),
            "allowLocalBinding": true,
            "allowUnixSockets": [unix_path(ground)],
        }});
        let path = ground.root.join("sockets.json");
        fs::write(&path, policy.to_string())?;
        Ok(path)
    }
}

fn unix_path(ground: &Ground) -> PathBuf {
    ground.root.join("unix")
}

pub(super) fn measure(programs: &Programs, ground: &Ground) -> Outcome<()> {
    let peers = Peers::create(ground)?;
    let port = peers.tcp.local_addr()?.port().to_string();
    let words: [OsString; 5] = [
        std::env::current_exe()?.into(),
        WORKER.into(),
        ground.root.clone().into(),
        port.into(),
        peers.stuck.port().to_string().into(),
    ];
    let policy = peers.policy(ground)?;
    let sandboxed = || Worker::start(&mut programs.sandboxed(ground, Some(&policy), &words));
    let mut workers =
        [Worker::start(Command::new(&words[0]).args(&words[1..]))?, sandboxed()?, sandboxed()?];
    workers[2].ask("stick")?;

    heading("sockets (µs each)");
    for (name, label) in [
        ("tcp", "connect to a permitted port"),
        ("own", "connect to the sandbox's own port"),
        ("unix", "connect to a listed Unix socket"),
        ("standing", "a byte to and fro, TCP"),
    ] {
        let [mut none, mut ours, mut beside] = [vec![], vec![], vec![]];
        for _ in 0..ROUNDS {
            for (worker, samples) in workers.iter_mut().zip([&mut none, &mut ours, &mut beside]) {
                for word in worker.ask(name)?.split_whitespace() {
                    samples.push(word.parse::<f64>()? / 1e3);
                }
                peers.drain();
            }
        }
        let medians = [&none, &ours].map(|samples| median(samples.clone(), f64::total_cmp));
        let [native, through] = medians;
        let remark = match name {
            "standing" => String::new(),
            _ => {
                format!("(budget {CONNECT_BUDGET}: {})", judged(through / native <= CONNECT_BUDGET))
            }
        };
        row(label, native, None, through, remark);
        if name == "tcp" {
            let [idle, busy] = [ours, beside].map(highest_of_a_hundred);
            let kept = judged(busy / idle <= STUCK_BUDGET);
            println!(
                "    99th percentile: {idle:.1}; beside a connect that is stuck: {busy:.1}, \
                 {:.2} times that (budget {STUCK_BUDGET}: {kept})",
                busy / idle
            );
        }
    }
    storm(&mut workers[1], &peers)?;
    println!();
    Ok(())
}

fn highest_of_a_hundred(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[samples.len() * 99 / 100]
}

/// Many connects at once, and what is left of them in the broker.
fn storm(worker: &mut Worker, peers: &Peers) -> Outcome<()> {
    let broker = worker.process.id();
    let state = || -> Outcome<(usize, Memory)> {
        Ok((fs::read_dir(format!("/proc/{broker}/fd"))?.count(), Memory::of(broker)?))
    };
    // The queue holds fewer than these.
    let mut ask = || {
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    peers.drain();
                    thread::sleep(Duration::from_millis(1));
                }
            });
            let succeeded = worker.ask("storm");
            done.store(true, Ordering::Relaxed);
            succeeded
        })
    };
    // The first leaves threads to be used again.
    ask()?;
    let before = state()?;
    let succeeded = ask()?;
    thread::sleep(Duration::from_secs(1));
    let after = state()?;
    println!(
        "  {} of {} connects from {THREADS} threads succeeded; the broker's descriptors before and \
         after: {} {}, memory (VmRSS, KiB): {} {}",
        succeeded.trim_end(),
        THREADS * EACH,
        before.0,
        after.0,
        before.1.resident,
        after.1.resident
    );
    Ok(())
}

/// Does what is asked for on standard input, until its end.
pub(super) fn work(arguments: &[OsString]) -> Outcome<()> {
    let [_, root, port, stuck] = arguments else {
        return Err("a worker has three arguments".into());
    };
    let port: u16 = port.to_string_lossy().parse()?;
    let stuck: u16 = stuck.to_string_lossy().parse()?;
    let ground = Ground::at(root.into(), port);
    let proxy = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let own = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    net::listen(&own, 4096)?;
    let there = own.local_addr()?;
    let unix = SocketAddrUnix::new(unix_path(&ground))?;
    let mut standing = standing(&own)?;
    own.set_nonblocking(true)?;
    for line in io::stdin().lines() {
        match line?.as_str() {
            "tcp" => tell(|| connect(AddressFamily::INET, &proxy))?,
            "unix" => tell(|| connect(AddressFamily::UNIX, &unix))?,
            "own" => {
                tell(|| connect(AddressFamily::INET, &there))?;
                while own.accept().is_ok() {}
            }
            "standing" => tell(|| {
                let start = Instant::now();
                standing.write_all(&[1])?;
                standing.read_exact(&mut [0])?;
                Ok(start.elapsed())
            })?,
            "stick" => {
                thread::spawn(move || TcpStream::connect((Ipv4Addr::LOCALHOST, stuck)));
                thread::sleep(Duration::from_millis(300));
                println!("stuck");
            }
            "storm" => {
                let many =
                    || (0..EACH).filter(|_| connect(AddressFamily::INET, &proxy).is_ok()).count();
                let done: usize = thread::scope(|scope| {
                    let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(many)).collect();
                    threads.into_iter().filter_map(|thread| thread.join().ok()).sum()
                });
                println!("{done}");
            }
            other => return Err(format!("an unknown step: {other}").into()),
        }
    }
    Ok(())
}

/// A connection to a thread that sends back what comes.
fn standing(own: &TcpListener) -> io::Result<TcpStream> {
    let client = TcpStream::connect(own.local_addr()?)?;
    client.set_nodelay(true)?;
    let (mut server, _) = own.accept()?;
    server.set_nodelay(true)?;
    thread::spawn(move || {
        let mut byte = [0];
        while server.read_exact(&mut byte).is_ok() && server.write_all(&byte).is_ok() {}
    });
    Ok(client)
}

/// How long connect(2) alone takes.
fn connect(family: AddressFamily, address: &impl net::addr::SocketAddrArg) -> io::Result<Duration> {
    let socket = net::socket(family, SocketType::STREAM, None)?;
    if family == AddressFamily::INET {
        // Closed by a reset: thousands in TIME_WAIT would use up the ports.
        sockopt::set_socket_linger(&socket, Some(Duration::ZERO))?;
    }
    let start = Instant::now();
    net::connect(&socket, address)?;
    Ok(start.elapsed())
}

/// Prints how many nanoseconds each of the steps took.
fn tell(mut step: impl FnMut() -> io::Result<Duration>) -> io::Result<()> {
    let taken: io::Result<Vec<String>> =
        (0..CONNECTS).map(|_| step().map(|taken| taken.as_nanos().to_string())).collect();
    println!("{}", taken?.join(" "));
    Ok(())
}

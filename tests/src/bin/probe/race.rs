//! Races: one thread makes a call while others rewrite its arguments.
//!
//! The memory raced over is a static made of atomics, so that only the kernel and the broker see
//! torn values.

use crate::net::{connect, socket};
use crate::older;
use crate::sys::{self, addr, call};
use crate::{number, tell};
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, AtomicUsize, Ordering::Relaxed};

/// A sockaddr_in as eight halves: family, port, address, padding.
static ADDRESS: [AtomicU16; 8] = [const { AtomicU16::new(0) }; 8];
/// A path of at most 511 bytes.
static PATH: [AtomicU64; 64] = [const { AtomicU64::new(0) }; 64];
static STOP: AtomicBool = AtomicBool::new(false);

pub(crate) fn run(op: &str, args: &[&str]) -> bool {
    match (op, args) {
        ("race-connect", [what, good, bad, tries]) => {
            race_connect(what, number(good) as u16, number(bad) as u16, number(tries));
        }
        ("race-own-port", [port, tries]) => race_own_port(number(port) as u16, number(tries)),
        ("race-unix", [allowed, denied, tries]) => {
            let (allowed, denied) = (unix_text(allowed), unix_text(denied));
            flip(&allowed, &denied, number(tries), |address| reach_unix(address, 110));
        }
        ("race-unix-send", [how, allowed, denied, tries]) => {
            race_send(how, &unix_text(allowed), &unix_text(denied), number(tries));
        }
        ("race-unix-swap", [one, two, path, tries]) => {
            let address = unix_text(path);
            let tries = number(tries);
            let attempt = || reach_unix(addr(&address[..]), address.len());
            swap(one, two, attempt, |attempt| in_threads(tries, attempt));
        }
        ("race-unix-bind", [one, two, path, tries]) => {
            let address = unix_text(path);
            let tries = number(tries);
            swap(one, two, || bind_unix(path, &address), |attempt| repeat(tries, attempt));
        }
        ("race-own-path", [kind, theirs, tries]) => race_own_path(kind, theirs, number(tries)),
        ("race-open", [allowed, denied, tries]) => race_open(allowed, denied, number(tries)),
        ("race-read", [allowed, denied, tries]) => race_read(allowed, denied, number(tries)),
        ("race-chmod", [allowed, denied, tries]) => race_chmod(allowed, denied, number(tries)),
        ("race-link", [allowed, denied, tries]) => race_link(allowed, denied, number(tries)),
        ("race-rename", [allowed, denied, tries]) => race_rename(allowed, denied, number(tries)),
        ("race-read-entries", [one, two, path, tries]) => {
            race_read_entries(one, two, path, number(tries));
        }
        ("race-made", [directory, tries]) => race_made(directory, number(tries)),
        ("race-swap", [one, two, path, tries]) => race_swap(one, two, path, number(tries)),
        _ => return false,
    }
    true
}

/// `what`: port, family, address, name, fd or both of these. 127.0.0.1:good is allowed, :bad is not.
fn race_connect(what: &str, good: u16, bad: u16, tries: usize) {
    let loopback = |last: u8| u16::from_ne_bytes([0, last]);
    ADDRESS[0].store(libc::AF_INET as u16, Relaxed);
    ADDRESS[1].store(good.to_be(), Relaxed);
    let host = u16::from_ne_bytes([127, 0]);
    let swaps = what.ends_with("fd");
    let (high, low) = match what {
        "name" | "name-fd" => halves("good.test"),
        _ => (host, loopback(1)),
    };
    ADDRESS[2].store(high, Relaxed);
    ADDRESS[3].store(low, Relaxed);
    let flips: Vec<(usize, u16, u16)> = match what {
        "port" => vec![(1, good.to_be(), bad.to_be())],
        "family" => {
            vec![(0, libc::AF_INET as u16, libc::AF_UNSPEC as u16), (1, good.to_be(), bad.to_be())]
        }
        "address" => vec![(3, loopback(1), loopback(2)), (1, good.to_be(), bad.to_be())],
        "name" | "name-fd" => {
            vec![(2, high, host), (3, low, loopback(1)), (1, good.to_be(), bad.to_be())]
        }
        "fd" => vec![(1, good.to_be(), bad.to_be())],
        _ => crate::usage("port, family, address, name, fd or name-fd"),
    };
    let mut threads = Vec::new();
    for (index, one, two) in flips {
        threads.push(std::thread::spawn(move || {
            while !STOP.load(Relaxed) {
                ADDRESS[index].store(two, Relaxed);
                std::hint::spin_loop();
                ADDRESS[index].store(one, Relaxed);
            }
        }));
    }
    const SWAPPED: usize = 200;
    if swaps {
        threads.push(std::thread::spawn(|| {
            while !STOP.load(Relaxed) {
                for family in [libc::AF_UNIX, libc::AF_INET6, libc::AF_INET] {
                    if let Ok(fd) = socket(family as usize, libc::SOCK_STREAM as usize, 0) {
                        let _ = call(older::SYS_dup2, &[fd, SWAPPED]);
                        let _ = call(libc::SYS_close, &[fd]);
                    }
                }
            }
        }));
    }
    let connected = in_threads(tries, || {
        let Ok(fd) = socket(libc::AF_INET as usize, libc::SOCK_STREAM as usize, 0) else {
            return false;
        };
        // Reset on close: 100 000 connections must not use up the port range.
        let linger = [1i32, 0];
        let (level, option) = (libc::SOL_SOCKET as usize, libc::SO_LINGER as usize);
        let _ = call(libc::SYS_setsockopt, &[fd, level, option, addr(&linger), 8]);
        let used = if swaps { SWAPPED } else { fd };
        let done = call(libc::SYS_connect, &[used, addr(&ADDRESS), 16]).is_ok();
        let _ = call(libc::SYS_close, &[fd]);
        done
    });
    STOP.store(true, Relaxed);
    for thread in threads {
        let _ = thread.join();
    }
    // The twin that must work whatever the race did before.
    ADDRESS[0].store(libc::AF_INET as u16, Relaxed);
    ADDRESS[1].store(good.to_be(), Relaxed);
    ADDRESS[2].store(high, Relaxed);
    ADDRESS[3].store(low, Relaxed);
    let address: Vec<u8> = ADDRESS.iter().flat_map(|a| a.load(Relaxed).to_ne_bytes()).collect();
    let last = socket(libc::AF_INET as usize, libc::SOCK_STREAM as usize, 0)
        .and_then(|fd| connect(fd, &address));
    tell("connected", &connected.to_string());
    crate::say("after", last);
}

/// The IPv4 address that `name` has here, as two numbers of `ADDRESS`.
fn halves(name: &str) -> (u16, u16) {
    let mut found = std::net::ToSocketAddrs::to_socket_addrs(&(name, 1)).expect("an address");
    let Some(std::net::SocketAddr::V4(address)) = found.next() else { crate::usage("a name") };
    let [a, b, c, d] = address.ip().octets();
    (u16::from_ne_bytes([a, b]), u16::from_ne_bytes([c, d]))
}

/// Makes the `tries` in three threads at a time; returns how many succeeded.
fn in_threads(tries: usize, attempt: impl Fn() -> bool + Sync) -> usize {
    let left = AtomicUsize::new(tries);
    let one_more = || left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok();
    std::thread::scope(|scope| {
        let work = || std::iter::from_fn(|| one_more().then(&attempt)).filter(|done| *done).count();
        let threads = [(); 3].map(|()| scope.spawn(work));
        threads.into_iter().filter_map(|thread| thread.join().ok()).sum()
    })
}

/// Listens on the port and gives it up again and again, in each way there is, while other threads
/// connect to it `tries` times: whoever takes the port meanwhile must not be reached.
fn race_own_port(port: u16, tries: usize) {
    let address = crate::net::v4("127.0.0.1", &port.to_string());
    let bound = move |kind: usize| {
        let fd = socket(libc::AF_INET as usize, libc::SOCK_STREAM as usize | kind, 0)?;
        let on = 1i32;
        let (level, option) = (libc::SOL_SOCKET as usize, libc::SO_REUSEADDR as usize);
        let _ = call(libc::SYS_setsockopt, &[fd, level, option, addr(&on), 4]);
        Ok::<_, i32>(fd)
    };
    let there = address.clone();
    let server = std::thread::spawn(move || {
        let mut round = 0;
        while !STOP.load(Relaxed) {
            let Ok(fd) = bound(0) else { continue };
            if call(libc::SYS_bind, &[fd, addr(&there[..]), there.len()]).is_ok()
                && call(libc::SYS_listen, &[fd, round % 3]).is_ok()
            {
                round += 1;
                std::thread::sleep(std::time::Duration::from_micros(300 * (round as u64 % 5)));
                let _ = match round % 4 {
                    0 => call(libc::SYS_shutdown, &[fd, 2]),
                    1 => call(libc::SYS_shutdown, &[fd, 0]),
                    2 => call(libc::SYS_connect, &[fd, addr(&[0u8; 16]), 16]),
                    _ => Ok(0),
                };
            }
            let _ = call(libc::SYS_close, &[fd]);
        }
    });
    // One that waits takes its time.
    let slow = tries / 100;
    let clients = [(0, slow), (libc::SOCK_NONBLOCK as usize, tries - slow)].map(|(kind, tries)| {
        let there = address.clone();
        std::thread::spawn(move || {
            let mut connected = 0;
            for _ in 0..tries {
                let Ok(fd) = bound(kind) else { continue };
                let (level, linger) = (libc::SOL_SOCKET as usize, [1i32, 0]);
                let option = libc::SO_LINGER as usize;
                let _ = call(libc::SYS_setsockopt, &[fd, level, option, addr(&linger), 8]);
                let limit = [0i64, 5_000];
                let option = libc::SO_SNDTIMEO as usize;
                let _ = call(libc::SYS_setsockopt, &[fd, level, option, addr(&limit), 16]);
                let done = connect(fd, &there);
                let sent = call(libc::SYS_sendto, &[fd, addr(b"reached"), 7, 0x4040, 0, 0]);
                connected += usize::from(done.or(sent).is_ok());
                let _ = call(libc::SYS_close, &[fd]);
            }
            connected
        })
    });
    let connected: usize = clients.into_iter().filter_map(|c| c.join().ok()).sum();
    STOP.store(true, Relaxed);
    let _ = server.join();
    tell("connected", &connected.to_string());
    tell("after-race", "end");
    // The twin that must work whatever the race did before: whoever holds the port lets go of it.
    let server = || {
        let fd = bound(0)?;
        call(libc::SYS_bind, &[fd, addr(&address[..]), address.len()])
            .and_then(|_| call(libc::SYS_listen, &[fd, 8]))
            .inspect_err(|_| {
                let _ = call(libc::SYS_close, &[fd]);
            })
    };
    let mut last = server();
    for _ in 0..12_000 {
        if last.is_ok() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
        last = server();
    }
    crate::say("after", last.and_then(|_| bound(0)).and_then(|fd| connect(fd, &address)));
    tell("end", "end");
}

/// Writes `path` into the raced memory, word by word.
fn store(words: &[u64]) {
    for (slot, word) in PATH.iter().zip(words) {
        slot.store(*word, Relaxed);
    }
}

fn words(path: &str) -> Vec<u64> {
    let mut bytes = path.as_bytes().to_vec();
    bytes.resize(bytes.len() / 8 * 8 + 8, 0);
    bytes.chunks(8).map(|c| u64::from_ne_bytes(c.try_into().unwrap_or_default())).collect()
}

/// Makes the `tries` one after the other; returns how many succeeded.
fn repeat(tries: usize, mut attempt: impl FnMut() -> bool) -> usize {
    (0..tries).filter(|_| attempt()).count()
}

/// Makes the `tries` on the raced path in three threads while another flips it, and afterwards, when nobody does, with
/// each of the two paths: what comes of those does not depend on how the threads were scheduled.
fn flip(allowed: &str, denied: &str, tries: usize, attempt: impl Fn(usize) -> bool + Sync) {
    let (one, two) = (words(allowed), words(denied));
    if one.len().max(two.len()) > PATH.len() {
        crate::usage("path too long");
    }
    store(&one);
    let done = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !STOP.load(Relaxed) {
                store(&two);
                std::hint::spin_loop();
                store(&one);
            }
        });
        let done = in_threads(tries, || attempt(addr(&PATH)));
        STOP.store(true, Relaxed);
        done
    });
    tell("succeeded", &done.to_string());
    let afterwards = [("allowed", one), ("denied", two)].map(|(name, words)| {
        store(&words);
        (name, attempt(addr(&PATH)))
    });
    for (name, done) in afterwards {
        tell(name, if done { "OK" } else { "failed" });
    }
}

fn open(path: usize, flags: i32) -> sys::Result {
    call(libc::SYS_openat, &[libc::AT_FDCWD as usize, path, flags as usize, 0o600])
}

fn race_open(allowed: &str, denied: &str, tries: usize) {
    flip(allowed, denied, tries, overwrite);
}

/// Overwrites the file at `path` with `pwned`.
fn overwrite(path: usize) -> bool {
    let Ok(fd) = open(path, libc::O_WRONLY) else { return false };
    let _ = call(libc::SYS_pwrite64, &[fd, addr(b"pwned"), 5, 0]);
    let _ = call(libc::SYS_close, &[fd]);
    true
}

/// Counts how often the denied file's first byte ('S') was read.
fn race_read(allowed: &str, denied: &str, tries: usize) {
    let leaked = AtomicUsize::new(0);
    flip(allowed, denied, tries, |path| leaks(path, &leaked));
    tell("leaked", &leaked.into_inner().to_string());
}

/// The same for a path whose entries `one` and `two` are exchanged.
fn race_read_entries(one: &str, two: &str, path: &str, tries: usize) {
    let (path, leaked) = (sys::cstr(path), AtomicUsize::new(0));
    let attempt = || leaks(addr(path.as_c_str()), &leaked);
    swap(one, two, attempt, |attempt| in_threads(tries, attempt));
    tell("leaked", &leaked.into_inner().to_string());
}

/// Reads a byte at `path`, and counts it if it is the denied file's.
fn leaks(path: usize, leaked: &AtomicUsize) -> bool {
    let Ok(fd) = open(path, libc::O_RDONLY) else { return false };
    let mut byte = [0u8; 1];
    let _ = call(libc::SYS_read, &[fd, sys::addr_mut(&mut byte), 1]);
    let _ = call(libc::SYS_close, &[fd]);
    leaked.fetch_add(usize::from(byte[0] == b'S'), Relaxed);
    true
}

fn race_chmod(allowed: &str, denied: &str, tries: usize) {
    flip(allowed, denied, tries, |path| call(older::SYS_chmod, &[path, 0o777]).is_ok());
}

/// A name of its own for each thread.
fn own_name() -> std::ffi::CString {
    sys::cstr(&format!("own-{}", call(libc::SYS_gettid, &[]).unwrap_or_default()))
}

/// Links the file to another name, writes to it there, and removes that name.
fn race_link(allowed: &str, denied: &str, tries: usize) {
    let attempt = |path| {
        let own = own_name();
        let own = addr(own.as_c_str());
        let linked = call(older::SYS_link, &[path, own]).is_ok();
        linked && overwrite(own) && call(older::SYS_unlink, &[own]).is_ok()
    };
    flip(allowed, denied, tries, attempt);
}

/// Moves the file away, and to the allowed name.
fn race_rename(allowed: &str, denied: &str, tries: usize) {
    let back = sys::cstr(allowed);
    let attempt = |path| {
        let own = own_name();
        let own = addr(own.as_c_str());
        call(older::SYS_rename, &[path, own]).is_ok()
            && call(older::SYS_rename, &[own, addr(back.as_c_str())]).is_ok()
    };
    flip(allowed, denied, tries, attempt);
}

/// Makes, renames and removes a directory in `directory` while other threads use paths through it;
/// counts the answers that are neither success nor that the directory is not there, or not yet gone.
fn race_made(directory: &str, tries: usize) {
    let [one, two] = ["one", "two"].map(|name| sys::cstr(&format!("{directory}/{name}")));
    let there = one.clone();
    let maker = std::thread::spawn(move || {
        while !STOP.load(Relaxed) {
            let _ = call(older::SYS_mkdir, &[addr(one.as_c_str()), 0o777]);
            std::thread::sleep(std::time::Duration::from_micros(100));
            let _ = call(older::SYS_rename, &[addr(one.as_c_str()), addr(two.as_c_str())]);
            let _ = call(older::SYS_rmdir, &[addr(two.as_c_str())]);
        }
    });
    let paths = ["one/x", "two/x", "one/../one/x"];
    let paths = paths.map(|path| sys::cstr(&format!("{directory}/{path}")));
    let usual = [libc::ENOENT, libc::EEXIST, libc::ENOTEMPTY, libc::EISDIR, libc::ENOTDIR];
    let strange = AtomicUsize::new(0);
    let create = libc::O_CREAT | libc::O_WRONLY;
    let attempt = || {
        let results = paths.each_ref().map(|path| {
            let path = addr(path.as_c_str());
            let opened = open(path, create).and_then(|fd| call(libc::SYS_close, &[fd]));
            let written = open(path, libc::O_WRONLY).and_then(|fd| call(libc::SYS_close, &[fd]));
            let removed = call(older::SYS_unlink, &[path]);
            let made = call(older::SYS_mkdir, &[path, 0o777]);
            let gone = call(older::SYS_rmdir, &[path]);
            [opened, written, removed, made, gone]
        });
        let all = results.as_flattened();
        let odd = |result: &&sys::Result| result.is_err_and(|errno| !usual.contains(&errno));
        strange.fetch_add(all.iter().filter(odd).count(), Relaxed);
        all.iter().any(|result| result.is_ok())
    };
    let done = in_threads(tries, attempt);
    STOP.store(true, Relaxed);
    let _ = maker.join();
    tell("succeeded", &done.to_string());
    // Now it is there for certain.
    let _ = call(older::SYS_mkdir, &[addr(there.as_c_str()), 0o777]);
    tell("afterwards", if attempt() { "OK" } else { "failed" });
    tell("strange", &strange.into_inner().to_string());
}

/// The address of a pathname socket as text, family and all.
fn unix_text(path: &str) -> String {
    format!("\u{1}\0{path}")
}

/// Connects to the pathname socket whose address of `length` bytes stands at `address`.
fn reach_unix(address: usize, length: usize) -> bool {
    let Ok(fd) = socket(libc::AF_UNIX as usize, libc::SOCK_STREAM as usize, 0) else {
        return false;
    };
    let done = call(libc::SYS_connect, &[fd, address, length]).is_ok();
    let _ = call(libc::SYS_sendto, &[fd, addr(b"reached"), 7, 0x4040, 0, 0]);
    let _ = call(libc::SYS_close, &[fd]);
    done
}

/// `how`: sendto, sendmsg, sendmmsg, or fd for all of them on a descriptor that is now a datagram
/// socket, now a stream or TCP one, or one that is connected.
fn race_send(how: &str, allowed: &str, denied: &str, tries: usize) {
    const SWAPPED: usize = 200;
    let unix = libc::AF_UNIX as usize;
    let datagram = || socket(unix, libc::SOCK_DGRAM as usize, 0).unwrap_or(usize::MAX);
    let plain = datagram();
    let swapper = (how == "fd").then(|| {
        let connected = datagram();
        let _ = connect(connected, allowed.as_bytes());
        let mut pair = [0i32; 2];
        let stream = libc::SOCK_STREAM as usize;
        let _ = call(libc::SYS_socketpair, &[unix, stream, 0, sys::addr_mut(&mut pair)]);
        let tcp = socket(libc::AF_INET as usize, stream, 0).unwrap_or(usize::MAX);
        std::thread::spawn(move || {
            while !STOP.load(Relaxed) {
                for fd in [plain, pair[0] as usize, connected, tcp] {
                    let _ = call(older::SYS_dup2, &[fd, SWAPPED]);
                }
            }
        })
    });
    let ways: &[i64] = match how {
        "sendto" => &[libc::SYS_sendto],
        "sendmsg" => &[libc::SYS_sendmsg],
        "sendmmsg" => &[libc::SYS_sendmmsg],
        _ => &[libc::SYS_sendto, libc::SYS_sendmsg, libc::SYS_sendmmsg],
    };
    let used = if swapper.is_some() { SWAPPED } else { plain };
    let turn = AtomicUsize::new(0);
    let length = allowed.len().max(denied.len()) + 1;
    flip(allowed, denied, tries, |address| {
        let way = ways[turn.fetch_add(1, Relaxed) % ways.len()];
        // After the race a full queue is waited for, on a socket that nobody exchanges.
        let is_raced = !STOP.load(Relaxed);
        let (fd, wait) = if is_raced { (used, libc::MSG_DONTWAIT) } else { (plain, 0) };
        send_unix(way, fd, address, length, wait)
    });
    if let Some(swapper) = swapper {
        let _ = swapper.join();
    }
}

/// Sends the mark to the address of `length` bytes that stands at `address`.
fn send_unix(way: i64, fd: usize, address: usize, length: usize, flags: i32) -> bool {
    let flags = (flags | libc::MSG_NOSIGNAL) as usize;
    let mark: &[u8] = b"reached";
    let vector = [addr(mark), mark.len()];
    let message = [address, length, addr(&vector), 1, 0, 0, 0, 0];
    let args = match way {
        libc::SYS_sendto => vec![fd, addr(mark), mark.len(), flags, address, length],
        libc::SYS_sendmsg => vec![fd, addr(&message), flags],
        _ => vec![fd, addr(&message), 1, flags],
    };
    call(way, &args).is_ok()
}

/// Binds `path`, and removes it where it went.
fn bind_unix(path: &str, address: &str) -> bool {
    let Ok(fd) = socket(libc::AF_UNIX as usize, libc::SOCK_STREAM as usize, 0) else {
        return false;
    };
    let done = call(libc::SYS_bind, &[fd, addr(address), address.len()]).is_ok();
    let _ = call(libc::SYS_close, &[fd]);
    let _ = call(older::SYS_unlink, &[addr(sys::cstr(path).as_c_str())]);
    done
}

fn race_swap(one: &str, two: &str, path: &str, tries: usize) {
    let path = sys::cstr(path);
    let attempt = || overwrite(addr(path.as_c_str()));
    swap(one, two, attempt, |attempt| in_threads(tries, attempt));
}

/// Binds `own` again and again, while one thread puts the socket `theirs` in its place and takes it away, and others
/// reach for both names `tries` times.
fn race_own_path(kind: &str, theirs: &str, tries: usize) {
    let kind = if kind == "dgram" { libc::SOCK_DGRAM } else { libc::SOCK_STREAM } as usize;
    let new = move || socket(libc::AF_UNIX as usize, kind, 0);
    let there = unix_text("own");
    let reach = |at: &str| {
        let Ok(fd) = new() else { return false };
        let done = call(libc::SYS_connect, &[fd, addr(at), at.len()]).is_ok();
        let _ = call(libc::SYS_sendto, &[fd, addr(b"reached"), 7, 0x4040, 0, 0]);
        let _ = call(libc::SYS_sendto, &[fd, addr(b"reached"), 7, 0x4040, addr(at), at.len()]);
        let _ = call(libc::SYS_close, &[fd]);
        done
    };
    let bound = move |there: &str| {
        let fd = new()?;
        let bound = call(libc::SYS_bind, &[fd, addr(there), there.len()]);
        // What takes no connections cannot listen.
        let _ = bound.and_then(|_| call(libc::SYS_listen, &[fd, 4096]));
        let _ = bound.or_else(|_| call(libc::SYS_close, &[fd]));
        bound.map(|_| fd)
    };
    let binder = std::thread::spawn({
        let there = there.clone();
        move || {
            let mut last = Err(0);
            while !STOP.load(Relaxed) {
                let Ok(fd) = bound(&there) else { continue };
                if let Ok(before) = std::mem::replace(&mut last, Ok(fd)) {
                    let _ = call(libc::SYS_close, &[before]);
                }
            }
        }
    });
    let mover = std::thread::spawn({
        let (own, theirs) = (sys::cstr("own"), sys::cstr(theirs));
        move || {
            while !STOP.load(Relaxed) {
                let (own, theirs) = (addr(own.as_c_str()), addr(theirs.as_c_str()));
                let _ = call(older::SYS_rename, &[theirs, own]);
                let _ = call(older::SYS_rename, &[own, theirs]);
                std::thread::sleep(std::time::Duration::from_micros(50));
            }
        }
    });
    let other = unix_text(theirs);
    let turn = AtomicUsize::new(0);
    let done = in_threads(tries, || {
        reach(if turn.fetch_add(1, Relaxed).is_multiple_of(2) { &there } else { &other })
    });
    STOP.store(true, Relaxed);
    for thread in [binder, mover] {
        let _ = thread.join();
    }
    tell("succeeded", &done.to_string());
    // Nobody puts another in its place any more.
    let _ = call(older::SYS_unlink, &[addr(sys::cstr("own").as_c_str())]);
    crate::say("bound", bound(&there));
    tell("reached", if reach(&there) { "OK" } else { "failed" });
}

/// Exchanges the entries `one` and `two` (a symlink to a denied place and an allowed file, say) while `attempts` makes
/// the attempt again and again and counts how often that worked. Afterwards, when nobody exchanges them, it is made in
/// either order, and says in how many of the two it worked.
fn swap<F: Fn() -> bool + Sync>(
    one: &str,
    two: &str,
    attempt: F,
    attempts: impl FnOnce(&F) -> usize,
) {
    let exchange = || crate::file::rename(one, two, libc::RENAME_EXCHANGE as usize);
    let done = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !STOP.load(Relaxed) {
                let _ = exchange();
            }
        });
        let done = attempts(&attempt);
        STOP.store(true, Relaxed);
        done
    });
    tell("succeeded", &done.to_string());
    // The first of the two can meet what the race left.
    let tried = || attempt() || attempt();
    let first = tried();
    crate::say("exchanged", exchange());
    tell("afterwards", &(usize::from(first) + usize::from(tried())).to_string());
}

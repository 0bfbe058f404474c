//! Objects in /dev/shm: making and using them as the C library does and by open(2) itself, those of
//! others, and races for the names.

use crate::sys::{self, Result, addr, addr_mut, call, cstr};
use crate::{number, say, tell};
use std::sync::atomic::{AtomicBool, Ordering};

/// As shm_open(3) has them.
const SHM: i32 = libc::O_NOFOLLOW | libc::O_CLOEXEC;
const NEW: i32 = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL;
const CWD: usize = libc::AT_FDCWD as usize;

pub(crate) fn run(op: &str, args: &[&str]) -> bool {
    match (op, args) {
        ("shm-own", []) => own(),
        ("shm-foreign", [path]) => foreign(path),
        ("shm-cost", [count]) => cost(number(count)),
        ("shm-race", [name, victim, tries]) => race(name, victim, number(tries)),
        _ => return false,
    }
    true
}

fn open(path: &str, flags: i32) -> Result {
    let path = cstr(path);
    call(libc::SYS_openat, &[CWD, addr(path.as_c_str()), flags as usize, 0o600])
}

fn at_one(number: i64, path: &str, argument: usize) -> Result {
    let path = cstr(path);
    call(number, &[CWD, addr(path.as_c_str()), argument])
}

fn at_two(number: i64, one: &str, two: &str) -> Result {
    let (one, two) = (cstr(one), cstr(two));
    call(number, &[CWD, addr(one.as_c_str()), CWD, addr(two.as_c_str()), 0])
}

fn unlink(path: &str) -> Result {
    at_one(libc::SYS_unlinkat, path, 0)
}

fn truncate(path: &str) -> Result {
    let path = cstr(path);
    call(libc::SYS_truncate, &[addr(path.as_c_str()), 3])
}

fn write(fd: usize, bytes: &[u8]) -> Result {
    call(libc::SYS_pwrite64, &[fd, addr(bytes), bytes.len(), 0])
}

fn read(fd: usize) -> Result<Vec<u8>> {
    let mut bytes = [0; 64];
    let length = call(libc::SYS_pread64, &[fd, addr_mut(&mut bytes), bytes.len(), 0])?;
    Ok(bytes[..length].to_vec())
}

fn holds(fd: Result, expected: &[u8]) -> Result {
    let found = fd.and_then(read)?;
    if found == expected { Ok(0) } else { Err(libc::ESTALE) }
}

fn close(fd: Result) {
    let _ = fd.and_then(|fd| call(libc::SYS_close, &[fd]));
}

fn own() {
    let name = format!("/dev/shm/probe-{}", std::process::id());
    let [second, third, plain] = ["2", "3", "plain"].map(|tail| format!("{name}-{tail}"));
    let made = open(&name, NEW | SHM);
    say("make", made.and_then(|fd| write(fd, b"content")));
    say("truncate-open", made.and_then(|fd| call(libc::SYS_ftruncate, &[fd, 4])));
    say("mode", made.and_then(|fd| call(libc::SYS_fchmod, &[fd, 0o640])));
    tell("twice", &open(&name, NEW | SHM).map_or_else(sys::name, |_| "made".to_owned()));
    say("read", holds(open(&name, libc::O_RDONLY | SHM), b"cont"));
    say("change", open(&name, libc::O_RDWR | SHM).and_then(|fd| write(fd, b"C")));
    say("link", at_two(libc::SYS_linkat, &name, &second));
    say("rename", at_two(libc::SYS_renameat2, &second, &third));
    say("truncate", truncate(&third));
    say("same", holds(open(&name, libc::O_RDONLY | SHM), b"Con"));
    say("unlink", unlink(&name).and_then(|_| unlink(&third)));
    tell("gone", &open(&name, libc::O_RDWR | SHM).map_or_else(sys::name, |_| "there".to_owned()));
    // As mkstemp(3) and a program that opens the file again to read it.
    let made = open(&plain, NEW);
    say("plain-make", made.and_then(|fd| write(fd, b"plain")));
    say("plain-read", holds(open(&plain, libc::O_RDWR), b"plain"));
    say("plain-move", at_two(libc::SYS_renameat2, &plain, &second));
    say("plain-moved", holds(open(&second, libc::O_RDWR), b"plain"));
    // These two are left.
    say("left", open(&name, NEW | SHM));
}

/// What others have: everything that would reach it.
fn foreign(path: &str) {
    let beside = format!("{path}-beside");
    let around = format!("/proc/self/root{path}");
    let with = |flags| move |path: &str| open(path, flags).and_then(read).map(|_| 0);
    let opens = [
        ("read", libc::O_RDONLY),
        ("shm-read", libc::O_RDONLY | SHM),
        ("write", libc::O_RDWR),
        ("shm-write", libc::O_RDWR | SHM),
        ("append", libc::O_RDWR | libc::O_APPEND | libc::O_CLOEXEC),
    ];
    for (name, flags) in opens {
        say(name, with(flags)(path));
        say(&format!("around-{name}"), with(flags)(&around));
    }
    say("cut", truncate(path));
    say("around-cut", truncate(&around));
    say("link", at_two(libc::SYS_linkat, path, &beside));
    say("link-here", at_two(libc::SYS_linkat, path, "linked"));
    say("around-link", at_two(libc::SYS_linkat, &around, &beside));
    say("move-here", at_two(libc::SYS_renameat2, path, "moved"));
    say("around-unlink", unlink(&around));
    say("unlink", unlink(path));
}

/// Nanoseconds of opening what was made, and of an open for writing elsewhere.
fn cost(count: usize) {
    let name = format!("/dev/shm/probe-{}", std::process::id());
    close(open(&name, NEW | SHM));
    close(open("cost", NEW));
    let time = |label: &str, path: &str, flags: i32| {
        let start = std::time::Instant::now();
        (0..count).for_each(|_| close(open(path, flags)));
        tell(label, &(start.elapsed().as_nanos() / count as u128).to_string());
    };
    time("shm", &name, libc::O_RDWR | SHM);
    time("write", "cost", libc::O_RDWR);
    time("read", "cost", libc::O_RDONLY);
    let _ = (unlink(&name), unlink("cost"));
}

/// Where the object `name` stands, which the command can find.
fn within_run(name: &str) -> Option<std::path::PathBuf> {
    let runs = std::fs::read_dir("/dev/shm").ok()?.flatten().map(|entry| entry.path());
    runs.flat_map(|run| [run.join("objects").join(name), run.join(name)]).find(|path| path.exists())
}

/// Opens, makes and removes an object, while another thread puts symbolic links to `victim` in its place
/// in the directory of the run, as far as it can find that.
fn race(name: &str, victim: &str, tries: usize) {
    let path = format!("/dev/shm/{name}");
    close(open(&path, NEW));
    let inner = within_run(name).unwrap_or_else(|| path.clone().into());
    let inner = inner.to_string_lossy().into_owned();
    let over = AtomicBool::new(false);
    let (mut own, mut others) = (0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let victim = cstr(victim);
            let link = cstr(&inner);
            while !over.load(Ordering::Relaxed) {
                let _ = unlink(&inner);
                let (victim, link) = (addr(victim.as_c_str()), addr(link.as_c_str()));
                let _ = call(libc::SYS_symlinkat, &[victim, CWD, link]);
            }
        });
        for _ in 0..tries {
            for flags in [libc::O_RDWR, libc::O_RDWR | libc::O_CREAT, libc::O_RDONLY | SHM] {
                let opened = open(&path, flags);
                if let Ok(fd) = opened {
                    let is_victim = read(fd).is_ok_and(|bytes| bytes.starts_with(b"secret"));
                    others += usize::from(is_victim);
                    own += 1;
                    let _ = write(fd, b"changed");
                }
                close(opened);
            }
            let _ = truncate(&path);
            let _ = unlink(&path);
        }
        over.store(true, Ordering::Relaxed);
    });
    tell("opened", &own.to_string());
    // Nobody puts a link in its place any more.
    let _ = (unlink(&inner), unlink(&path));
    say("alone", open(&path, NEW));
    let _ = unlink(&path);
    tell("secrets", &others.to_string());
}

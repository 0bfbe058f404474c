//! Detours to a name in a directory, and races for one.

use crate::file::{mark, open, rename};
use crate::older;
use crate::sys::{self, Result, addr, addr_mut, call, cstr};
use crate::{number, say, tell};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

const AT: usize = libc::AT_FDCWD as usize;
/// What may be read of a file.
const CONTENT: usize = 64;

pub(crate) fn run(op: &str, args: &[&str]) -> bool {
    if op == "carve" {
        let Some((what, rest)) = args.split_first() else { return false };
        let Some(result) = detour(what, rest) else { return false };
        say(&format!("carve-{what}"), result);
        return true;
    }
    match (op, args) {
        ("race-entries", [one, two, path, tries]) => race_entries(one, two, path, number(tries)),
        ("race-into-name", [tries]) => race_into_name(number(tries)),
        ("race-new-directory", [one, two, name, tries]) => {
            race_new_directory(one, two, name, number(tries));
        }
        ("race-parents", [tries]) => race_parents(number(tries)),
        _ => return false,
    }
    true
}

fn detour(what: &str, args: &[&str]) -> Option<Result> {
    Some(match (what, args) {
        ("proc-fd", [dir, name]) => below(dir, "/proc/self/fd", name),
        ("thread-fd", [dir, name]) => below(dir, "/proc/thread-self/fd", name),
        ("dev-fd", [dir, name]) => below(dir, "/dev/fd", name),
        ("kept-remade", [dir, away, name]) => kept_remade(dir, away, name),
        ("chroot", [dir, name]) => {
            at(dir, libc::SYS_chroot).and_then(|_| write(&format!("/{name}")))
        }
        // Threads share their working directory: in a process of their own.
        ("thread-cwd", [dir, name]) => child(|| {
            std::thread::scope(|scope| {
                let made = scope.spawn(|| at(dir, libc::SYS_chdir).and_then(|_| write(name)));
                made.join().unwrap_or(Err(libc::EIO))
            })
        }),
        ("child-cwd", [dir, name]) => child(|| at(dir, libc::SYS_chdir).and_then(|_| write(name))),
        ("tmpfile-empty", [dir, to]) => tmpfile(dir, to),
        ("read", [path]) => read(path),
        ("opath-read", [path]) => {
            open(path, libc::O_PATH).and_then(|fd| read(&format!("/proc/self/fd/{fd}")))
        }
        ("mmap-read", [path]) => open(path, libc::O_RDONLY).and_then(|fd| {
            let at = call(libc::SYS_mmap, &[0, 4096, 1, libc::MAP_PRIVATE as usize, fd, 0])?;
            call(libc::SYS_write, &[2, at, 4])
        }),
        ("rdwr-read", [path]) => open(path, libc::O_RDWR).and_then(first_bytes),
        ("sendfile", [path]) => {
            open(path, libc::O_RDONLY).and_then(|fd| call(libc::SYS_sendfile, &[2, fd, 0, CONTENT]))
        }
        ("header-and-run", [path]) => header_and_run(path),
        ("chmod-and-run", [path]) => chmod(path).and_then(|_| run_it(path)),
        _ => return None,
    })
}

fn at(path: &str, nr: i64) -> Result {
    let path = cstr(path);
    call(nr, &[addr(path.as_c_str())])
}

fn write(path: &str) -> Result {
    open(path, libc::O_WRONLY | libc::O_CREAT).and_then(mark)
}

fn below(dir: &str, descriptors: &str, name: &str) -> Result {
    open(dir, libc::O_PATH).and_then(|fd| write(&format!("{descriptors}/{fd}/{name}")))
}

/// Keeps `dir` open, moves it away, makes it again, and writes through what it kept.
fn kept_remade(dir: &str, away: &str, name: &str) -> Result {
    let kept = open(dir, libc::O_RDONLY | libc::O_DIRECTORY)?;
    rename(dir, away, 0)?;
    let (path, entry) = (cstr(dir), cstr(name));
    call(older::SYS_mkdir, &[addr(path.as_c_str()), 0o755])?;
    let flags = (libc::O_WRONLY | libc::O_CREAT) as usize;
    call(libc::SYS_openat, &[kept, addr(entry.as_c_str()), flags, 0o644]).and_then(mark)?;
    write(&format!("{dir}/{name}"))
}

/// In a process of its own; its errno is its exit status.
fn child(attempt: impl FnOnce() -> Result) -> Result {
    let child = sys::fork()?;
    if child == 0 {
        sys::exit(attempt().err().unwrap_or(0) as usize);
    }
    let mut status = 0i32;
    call(libc::SYS_wait4, &[child, addr_mut(&mut status), 0, 0])?;
    match status >> 8 & 0xff {
        0 => Ok(0),
        errno => Err(errno),
    }
}

/// Puts the header of an executable in front of a file, without reading it, that says the rest of it on
/// standard output, and executes it (elf(5)).
fn header_and_run(path: &str) -> Result {
    const HEADER: usize = 64 + 56;
    const BASE: u64 = 0x40_0000;
    let fd = open(path, libc::O_WRONLY)?;
    let size = call(libc::SYS_lseek, &[fd, 0, libc::SEEK_END as usize])? as u64;
    let mut file = Vec::with_capacity(HEADER + 64);
    file.extend(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\x3e\0\x01\0\0\0");
    for word in [BASE + HEADER as u64, 64, 0] {
        file.extend(word.to_le_bytes());
    }
    file.extend(b"\0\0\0\0\x40\0\x38\0\x01\0\0\0\0\0\0\0\x01\0\0\0\x05\0\0\0");
    for word in [0, BASE, BASE, size, size, 4096] {
        file.extend(word.to_le_bytes());
    }
    // write(1, BASE, size); exit(0)
    file.extend(b"\xb8\x01\0\0\0\xbf\x01\0\0\0\xbe");
    file.extend((BASE as u32).to_le_bytes());
    file.push(0xba);
    file.extend((size as u32).to_le_bytes());
    file.extend(b"\x0f\x05\xb8\x3c\0\0\0\x31\xff\x0f\x05");
    call(libc::SYS_pwrite64, &[fd, file.as_ptr() as usize, file.len(), 0])?;
    call(libc::SYS_close, &[fd])?;
    chmod(path).and_then(|_| run_it(path))
}

fn chmod(path: &str) -> Result {
    let path = cstr(path);
    call(older::SYS_chmod, &[addr(path.as_c_str()), 0o755])
}

fn run_it(path: &str) -> Result {
    let path = if path.contains('/') { path.to_owned() } else { format!("./{path}") };
    match std::process::Command::new(path).status() {
        Ok(status) if status.success() => Ok(0),
        Ok(_) => Err(libc::ENOEXEC),
        Err(error) => Err(error.raw_os_error().unwrap_or(libc::EIO)),
    }
}

/// O_TMPFILE, linked by its descriptor alone.
fn tmpfile(dir: &str, to: &str) -> Result {
    let fd = open(dir, libc::O_TMPFILE | libc::O_RDWR)?;
    mark(fd)?;
    let (empty, to) = (cstr(""), cstr(to));
    let flags = libc::AT_EMPTY_PATH as usize;
    call(libc::SYS_linkat, &[fd, addr(empty.as_c_str()), AT, addr(to.as_c_str()), flags])
}

fn read(path: &str) -> Result {
    open(path, libc::O_RDONLY).and_then(first_bytes)
}

/// Says on standard error what stands at the start of a file.
fn first_bytes(fd: usize) -> Result {
    let mut buffer = [0u8; CONTENT];
    let size = call(libc::SYS_read, &[fd, addr_mut(&mut buffer), CONTENT])?;
    eprintln!("{}", String::from_utf8_lossy(&buffer[..size]));
    Ok(size)
}

/// One thread exchanges the entries `one` and `two`, of which the directory in `path` is one, while
/// others do to `path` all that can be done to an entry: `tries` in all, exchanges among them. Afterwards, when nobody
/// else does anything, `path` is written in either order.
fn race_entries(one: &str, two: &str, path: &str, tries: usize) {
    let (left, exchanged, done) =
        (AtomicUsize::new(tries), AtomicUsize::new(0), AtomicUsize::new(0));
    let one_more = || left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok();
    let target = std::fs::read_link(one).unwrap_or_default();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while one_more() {
                let result = rename(one, two, libc::RENAME_EXCHANGE as usize);
                exchanged.fetch_add(usize::from(result.is_ok()), Relaxed);
            }
        });
        for thread in 0..3 {
            let (one_more, done) = (&one_more, &done);
            scope.spawn(move || {
                let own = format!("own-{thread}");
                for attempt in (0..).take_while(|_| one_more()) {
                    done.fetch_add(usize::from(attack(path, &own, attempt).is_ok()), Relaxed);
                }
            });
        }
    });
    tell("exchanged", &exchanged.into_inner().to_string());
    tell("succeeded", &done.into_inner().to_string());
    if path == two {
        // Of entries that are raced for themselves any can be left.
        let _ = [one, two].map(std::fs::remove_file);
        say("linked", std::os::unix::fs::symlink(target, one).map_err(|_| libc::EIO));
    }
    let first = write(path);
    say("exchange", rename(one, two, libc::RENAME_EXCHANGE as usize));
    let written = [first, write(path)].iter().filter(|written| written.is_ok()).count();
    tell("afterwards", &written.to_string());
}

fn attack(path: &str, own: &str, attempt: usize) -> Result {
    let (text, mine) = (cstr(path), cstr(own));
    let (p, m) = (addr(text.as_c_str()), addr(mine.as_c_str()));
    let opened = |flags| {
        let fd = open(path, flags)?;
        let written = mark(fd);
        let _ = call(libc::SYS_close, &[fd]);
        written
    };
    let made = |path: &str| {
        let fd = open(path, libc::O_WRONLY | libc::O_CREAT)?;
        call(libc::SYS_close, &[fd])
    };
    match attempt % 10 {
        0 | 1 => opened(libc::O_WRONLY),
        2 => opened(libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC),
        3 => call(libc::SYS_truncate, &[p, 0]),
        4 => call(older::SYS_chmod, &[p, 0o777]),
        5 => call(older::SYS_unlink, &[p]),
        6 => call(older::SYS_rename, &[p, m]),
        7 => made(own).and_then(|_| rename(own, path, 0)),
        8 => {
            let _ = made(own);
            call(older::SYS_link, &[m, p])
        }
        _ => rename(own, path, libc::RENAME_EXCHANGE as usize),
    }
}

/// One thread exchanges the entries `one` and `two`, while another makes a directory `name` with a file
/// `such` in it below `one`, and removes both. Afterwards it makes them below either, and says how many it made.
fn race_new_directory(one: &str, two: &str, name: &str, tries: usize) {
    let done = AtomicUsize::new(0);
    let directory_in = |entry| cstr(&format!("{entry}/{name}"));
    let file_in = |entry| format!("{entry}/{name}/such");
    let mkdir = |entry| call(older::SYS_mkdir, &[addr(directory_in(entry).as_c_str()), 0o755]);
    let remove = |entry| {
        let _ = call(older::SYS_unlink, &[addr(cstr(&file_in(entry)).as_c_str())]);
        let _ = call(older::SYS_rmdir, &[addr(directory_in(entry).as_c_str())]);
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while done.load(Relaxed) == 0 {
                let _ = rename(one, two, libc::RENAME_EXCHANGE as usize);
            }
        });
        for _ in 0..tries {
            let _ = mkdir(one);
            let _ = write(&file_in(one));
            remove(one);
        }
        done.store(1, Relaxed);
    });
    let (mut directories, mut files) = (0, 0);
    for entry in [one, two] {
        // They can be there from before.
        remove(entry);
        directories += usize::from(mkdir(entry).is_ok());
        files += usize::from(write(&file_in(entry)).is_ok());
    }
    tell("directories", &directories.to_string());
    tell("files", &files.to_string());
}

/// A directory gets the name `no` while a file `bad` is made in it: where `**/no/bad` is denied, one of
/// the two has to fail. Afterwards such a file is made where nobody moves its directory.
fn race_into_name(tries: usize) {
    let (mut moved, mut made) = (0, 0);
    for attempt in 0..tries {
        let (from, to) = (format!("from-{attempt}"), format!("to-{attempt}"));
        for directory in [&from, &to] {
            let path = cstr(directory);
            let _ = call(older::SYS_mkdir, &[addr(path.as_c_str()), 0o755]);
        }
        let bad = format!("{from}/bad");
        let barrier = std::sync::Barrier::new(2);
        let (is_made, is_moved) = std::thread::scope(|scope| {
            let maker = scope.spawn(|| {
                barrier.wait();
                write(&bad).is_ok()
            });
            barrier.wait();
            let is_moved = rename(&from, &format!("{to}/no"), 0).is_ok();
            // Where such moves are left to mv(1), which copies, that others work is the twin.
            let is_moved = is_moved || rename(&from, &format!("{to}/other"), 0).is_ok();
            (maker.join().unwrap_or(false), is_moved)
        });
        made += usize::from(is_made);
        moved += usize::from(is_moved);
    }
    tell("made", &made.to_string());
    tell("moved", &moved.to_string());
    let alone = cstr("from-alone");
    let made = call(older::SYS_mkdir, &[addr(alone.as_c_str()), 0o755]);
    say("alone", made.and_then(|_| write("from-alone/bad")));
}

/// One thread makes and renames directories, in which others make directories and files meanwhile. Says
/// which answers each call had, those included of one place that is there, and then is not, afterwards.
fn race_parents(tries: usize) {
    const PLACES: usize = 4;
    let answers = Mutex::new(BTreeSet::new());
    let left = AtomicUsize::new(tries);
    let said = |call: &str, result: Result| {
        let name = result.map_or_else(sys::name, |_| "OK".to_owned());
        let answer = format!("{call}:{name}");
        answers.lock().unwrap_or_else(PoisonError::into_inner).insert(answer);
    };
    let on_path = |nr, path: &str, more: usize| {
        let path = cstr(path);
        call(nr, &[addr(path.as_c_str()), more])
    };
    let make = |place: &str| {
        said("parent", on_path(older::SYS_mkdir, place, 0o755));
        said("inner", on_path(older::SYS_mkdir, &format!("{place}/in"), 0o755));
    };
    let use_it = |place: &str, name: &str| {
        let inner = format!("{place}/in");
        said("mkdir", on_path(older::SYS_mkdir, &format!("{place}/d{name}"), 0o755));
        said("deep", on_path(older::SYS_mkdir, &format!("{inner}/d{name}"), 0o755));
        for (call, flags) in [("make", libc::O_WRONLY | libc::O_CREAT), ("open", libc::O_RDONLY)] {
            let opened = open(&format!("{inner}/f{name}"), flags);
            said(call, opened.and_then(|fd| sys::call(libc::SYS_close, &[fd])));
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in (0..).take_while(|_| left.load(Relaxed) > 0) {
                let place = format!("p{}", number % PLACES);
                make(&place);
                std::thread::yield_now();
                said("rename", rename(&place, &format!("gone{number}"), 0));
            }
        });
        for thread in 0..2 {
            let (left, use_it) = (&left, &use_it);
            let one_more = || left.fetch_update(Relaxed, Relaxed, |n| n.checked_sub(1)).is_ok();
            scope.spawn(move || {
                for number in (0..).take_while(|_| one_more()) {
                    use_it(&format!("p{}", number % PLACES), &format!("{thread}-{number}"));
                }
            });
        }
    });
    make("alone");
    use_it("alone", "last");
    said("rename", rename("alone", "gone", 0));
    use_it("alone", "last");
    let answers = answers.into_inner().unwrap_or_else(PoisonError::into_inner);
    tell("answers", &answers.into_iter().collect::<Vec<_>>().join(" "));
}

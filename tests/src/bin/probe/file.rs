//! Files: every way to write, create, move, link or read one.

use crate::older;
use crate::sys::{self, Result, addr, addr_mut, call, cstr};
use crate::{say, tell};

const AT: usize = libc::AT_FDCWD as usize;
// linux/fcntl.h; libc lacks them.
const DN_CREATE: usize = 4;
const F_GET_RW_HINT: i32 = 1035;
const F_SET_RW_HINT: i32 = 1036;
const RWH_WRITE_LIFE_EXTREME: u64 = 5;
const MARK: &[u8] = b"pwned";

pub(crate) fn run(op: &str, args: &[&str]) -> bool {
    if op != "file" {
        return false;
    }
    let Some((what, rest)) = args.split_first() else { return false };
    let result = match (*what, rest) {
        ("creat", [path]) => with(path, |p| call(older::SYS_creat, &[p, 0o644])).and_then(mark),
        ("write", [path]) => open(path, libc::O_WRONLY).and_then(mark),
        ("rdwr", [path]) => open(path, libc::O_RDWR).and_then(mark),
        ("append", [path]) => open(path, libc::O_WRONLY | libc::O_APPEND).and_then(mark),
        ("open-trunc", [path]) => open(path, libc::O_WRONLY | libc::O_TRUNC),
        ("read-trunc", [path]) => open(path, libc::O_TRUNC),
        ("open-creat", [path]) => open(path, libc::O_WRONLY | libc::O_CREAT).and_then(mark),
        ("open-excl", [path]) => {
            open(path, libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL).and_then(mark)
        }
        ("openat2", [path]) => openat2(path, libc::O_WRONLY).and_then(mark),
        ("openat2-creat", [path]) => openat2(path, libc::O_WRONLY | libc::O_CREAT).and_then(mark),
        ("truncate", [path]) => with(path, |p| call(libc::SYS_truncate, &[p, 0])),
        ("mkdir", [path]) => with(path, |p| call(older::SYS_mkdir, &[p, 0o755])),
        ("rmdir", [path]) => with(path, |p| call(older::SYS_rmdir, &[p])),
        ("unlink", [path]) => with(path, |p| call(older::SYS_unlink, &[p])),
        ("mkfifo", [path]) => with(path, |p| call(older::SYS_mknod, &[p, 0o10_644, 0])),
        ("mknod-file", [path]) => with(path, |p| call(older::SYS_mknod, &[p, 0o100_644, 0])),
        ("rename", [from, to]) => rename(from, to, 0),
        ("exchange", [from, to]) => rename(from, to, libc::RENAME_EXCHANGE as usize),
        ("link", [from, to]) => with(from, |f| with(to, |t| call(older::SYS_link, &[f, t]))),
        ("symlink", [to, path]) => with(to, |t| with(path, |p| call(older::SYS_symlink, &[t, p]))),
        ("linkat-fd", [from, to]) => open(from, libc::O_RDONLY).and_then(|fd| linkat_fd(fd, to)),
        ("linkat-opath", [from, to]) => open(from, libc::O_PATH).and_then(|fd| linkat_fd(fd, to)),
        ("tmpfile", [dir, to]) => open(dir, libc::O_TMPFILE | libc::O_RDWR).and_then(|fd| {
            mark(fd)?;
            linkat_fd(fd, to)
        }),
        ("fd-reopen", [path]) => open(path, libc::O_RDONLY).and_then(reopen),
        ("opath-reopen", [path]) => open(path, libc::O_PATH).and_then(reopen),
        ("dirfd", [dir, name]) => {
            open(dir, libc::O_RDONLY | libc::O_DIRECTORY).and_then(|fd| beside(fd, name))
        }
        ("opath-dirfd", [dir, name]) => open(dir, libc::O_PATH).and_then(|fd| beside(fd, name)),
        ("kept-dirfd", [from, to, name]) => kept_dirfd(from, to, name),
        ("fchdir", [dir, name]) => open(dir, libc::O_PATH).and_then(|fd| {
            call(libc::SYS_fchdir, &[fd])?;
            open(name, libc::O_WRONLY | libc::O_CREAT).and_then(mark)
        }),
        ("copy-range", [from, to]) => copy(from, to, libc::SYS_copy_file_range),
        ("sendfile", [from, to]) => sendfile(from, to),
        ("splice", [from, to]) => splice(from, to),
        ("ftruncate-ro", [path]) => {
            open(path, libc::O_RDONLY).and_then(|fd| call(libc::SYS_ftruncate, &[fd, 0]))
        }
        ("fallocate-ro", [path]) => {
            open(path, libc::O_RDONLY).and_then(|fd| call(libc::SYS_fallocate, &[fd, 0, 0, 1]))
        }
        ("mmap-write", [path]) => open(path, libc::O_RDWR).and_then(|fd| {
            let at = sys::map(fd as i32, 5)?;
            sys::poke(at, b'P');
            Ok(0)
        }),
        ("handle", [mount, path]) => by_handle(mount, path),
        ("read", [path]) => read(path),
        ("list", [path]) => open(path, libc::O_RDONLY | libc::O_DIRECTORY).and_then(|fd| {
            let mut entries = [0u64; 512];
            call(libc::SYS_getdents64, &[fd, addr_mut(&mut entries), 4096])
        }),
        ("exec", [path]) => exec(path, false),
        ("exec-fd", [path]) => exec(path, true),
        ("flock", [path]) => open(path, libc::O_RDWR).and_then(lock),
        ("lease", [path]) => open(path, libc::O_RDONLY)
            .and_then(|fd| fcntl(fd, libc::F_SETLEASE, libc::F_RDLCK as usize)),
        ("notify", [path]) => {
            open(path, libc::O_RDONLY).and_then(|fd| fcntl(fd, libc::F_NOTIFY, DN_CREATE))
        }
        ("hint", [path]) => open(path, libc::O_RDONLY)
            .and_then(|fd| fcntl(fd, F_SET_RW_HINT, addr(&RWH_WRITE_LIFE_EXTREME))),
        ("hinted", [path]) => {
            let mut hint = 0_u64;
            let fd = open(path, libc::O_RDONLY);
            let result = fd.and_then(|fd| fcntl(fd, F_GET_RW_HINT, addr_mut(&mut hint)));
            tell("file-hint-told", &hint.to_string());
            result
        }
        ("fcntl-own", [path]) => open(path, libc::O_RDONLY).and_then(|fd| {
            fcntl(fd, libc::F_DUPFD_CLOEXEC, 9)?;
            fcntl(fd, libc::F_SETFD, 1)?;
            fcntl(fd, libc::F_GETLEASE, 0)
        }),
        ("chroot", [path]) => with(path, |p| call(libc::SYS_chroot, &[p])),
        ("stdio-reopen", [path]) => open(path, libc::O_WRONLY),
        _ => return false,
    };
    say(&format!("file-{what}"), result);
    true
}

fn with(path: &str, then: impl FnOnce(usize) -> Result) -> Result {
    let path = cstr(path);
    then(addr(path.as_c_str()))
}

pub(crate) fn open(path: &str, flags: i32) -> Result {
    with(path, |p| call(libc::SYS_openat, &[AT, p, flags as usize, 0o644]))
}

pub(crate) fn mark(fd: usize) -> Result {
    call(libc::SYS_write, &[fd, addr(MARK), MARK.len()])
}

/// As programs do that know openat2: where it does not exist, they use openat.
fn openat2(path: &str, flags: i32) -> Result {
    let mode = if flags & libc::O_CREAT != 0 { 0o644 } else { 0 };
    let how = [flags as u64, mode, 0];
    match with(path, |p| call(libc::SYS_openat2, &[AT, p, addr(&how), 24])) {
        Err(libc::ENOSYS) => open(path, flags),
        result => result,
    }
}

pub(crate) fn rename(from: &str, to: &str, flags: usize) -> Result {
    with(from, |f| with(to, |t| call(libc::SYS_renameat2, &[AT, f, AT, t, flags])))
}

fn self_fd(fd: usize) -> String {
    format!("/proc/self/fd/{fd}")
}

fn linkat_fd(fd: usize, to: &str) -> Result {
    let follow = libc::AT_SYMLINK_FOLLOW as usize;
    with(&self_fd(fd), |f| with(to, |t| call(libc::SYS_linkat, &[AT, f, AT, t, follow])))
}

fn reopen(fd: usize) -> Result {
    open(&self_fd(fd), libc::O_WRONLY).and_then(mark)
}

fn beside(dir: usize, name: &str) -> Result {
    let flags = (libc::O_WRONLY | libc::O_CREAT) as usize;
    with(name, |n| call(libc::SYS_openat, &[dir, n, flags, 0o644])).and_then(mark)
}

/// Opens a directory, has it moved elsewhere, and creates a file through the kept descriptor.
fn kept_dirfd(from: &str, to: &str, name: &str) -> Result {
    let fd = open(from, libc::O_RDONLY | libc::O_DIRECTORY)?;
    rename(from, to, 0)?;
    beside(fd, name)
}

fn copy(from: &str, to: &str, nr: i64) -> Result {
    let from = open(from, libc::O_RDONLY)?;
    let to = open(to, libc::O_WRONLY)?;
    call(nr, &[from, 0, to, 0, 5, 0])
}

fn sendfile(from: &str, to: &str) -> Result {
    let from = open(from, libc::O_RDONLY)?;
    let to = open(to, libc::O_WRONLY)?;
    call(libc::SYS_sendfile, &[to, from, 0, 5])
}

fn splice(from: &str, to: &str) -> Result {
    let from = open(from, libc::O_RDONLY)?;
    let to = open(to, libc::O_WRONLY)?;
    let mut ends = [0i32; 2];
    call(older::SYS_pipe, &[addr_mut(&mut ends)])?;
    call(libc::SYS_splice, &[from, 0, ends[1] as usize, 0, 5, 0])?;
    call(libc::SYS_splice, &[ends[0] as usize, 0, to, 0, 5, 0])
}

/// name_to_handle_at for `path`, then open_by_handle_at for writing below `mount`.
fn by_handle(mount: &str, path: &str) -> Result {
    let mut handle = [0u32; 34];
    handle[0] = 128;
    let mut id = 0i32;
    let (handle_at, id_at) = (addr_mut(&mut handle), addr_mut(&mut id));
    with(path, |p| call(libc::SYS_name_to_handle_at, &[AT, p, handle_at, id_at, 0]))?;
    let mount = open(mount, libc::O_RDONLY)?;
    call(libc::SYS_open_by_handle_at, &[mount, handle_at, libc::O_WRONLY as usize]).and_then(mark)
}

fn read(path: &str) -> Result {
    let fd = open(path, libc::O_RDONLY)?;
    let mut buffer = [0u8; 64];
    let size = call(libc::SYS_read, &[fd, addr_mut(&mut buffer), buffer.len()])?;
    let text: String =
        buffer[..size].iter().filter(|b| b.is_ascii_graphic()).map(|b| *b as char).collect();
    tell("content", &text);
    Ok(size)
}

/// Executes in a child; OK when execve replaced it.
fn exec(path: &str, by_fd: bool) -> Result {
    let fd = if by_fd { open(path, libc::O_PATH)? } else { 0 };
    let (name, empty) = (cstr(path), cstr(""));
    let child = sys::fork()?;
    if child == 0 {
        let argv = [addr(name.as_c_str()), 0];
        let env = [0usize];
        let result = if by_fd {
            let flags = libc::AT_EMPTY_PATH as usize;
            call(libc::SYS_execveat, &[fd, addr(empty.as_c_str()), addr(&argv), addr(&env), flags])
        } else {
            call(libc::SYS_execve, &[argv[0], addr(&argv), addr(&env)])
        };
        sys::exit(match result {
            Err(libc::EACCES) => 213,
            Err(libc::EPERM) => 201,
            _ => 255,
        });
    }
    let mut status = 0i32;
    call(libc::SYS_wait4, &[child, addr_mut(&mut status), 0, 0])?;
    match status >> 8 & 0xff {
        213 => Err(libc::EACCES),
        201 => Err(libc::EPERM),
        255 => Err(libc::ENOEXEC),
        _ => Ok(0),
    }
}

fn fcntl(fd: usize, command: i32, value: usize) -> Result {
    call(libc::SYS_fcntl, &[fd, command as usize, value])
}

/// A flock and an open-file-description lock.
fn lock(fd: usize) -> Result {
    call(libc::SYS_flock, &[fd, libc::LOCK_EX as usize])?;
    let record =
        libc::flock { l_type: libc::F_WRLCK as i16, l_whence: 0, l_start: 0, l_len: 1, l_pid: 0 };
    call(libc::SYS_fcntl, &[fd, libc::F_OFD_SETLK as usize, addr(&record)])
}

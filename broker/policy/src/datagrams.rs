//! Whether the policy lists a Unix datagram socket: looked at once, at launch.
//!
//! Only then can the command make such sockets, and does the broker send messages for it. That takes
//! longer than the kernel alone, for sockets of all kinds, so that a policy pays for it only where
//! there is something to be reached. Sources: unix(7), proc_net(5).

use kernel::address::Address;
use kernel::self_proc::own_link;
use rustix::fs::{self, AtFlags, FileType, Mode, OFlags};
use rustix::io::{self, Errno};
use rustix::net::{self, AddressFamily, SocketFlags, SocketType};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Whether one of these canonical paths is a datagram socket, or a directory with one in it.
pub(super) fn any_listens(paths: &[PathBuf]) -> bool {
    let mut directories = Vec::new();
    for path in paths {
        let stat = fs::statat(fs::CWD, path, AtFlags::SYMLINK_NOFOLLOW);
        match stat.map(|stat| FileType::from_raw_mode(stat.st_mode)) {
            Ok(FileType::Socket) if receives(path) => return true,
            Ok(FileType::Directory) => directories.push(path),
            // What is missing, or out of this user's reach, the command does not reach either.
            _ => {}
        }
    }
    if directories.is_empty() {
        return false;
    }
    let table = std::fs::read("/proc/net/unix").unwrap_or_default();
    // A name is what it was bound to, in another mount namespace perhaps: what it leads to counts.
    bound_to(&table).any(|path| directories.iter().any(|d| path.starts_with(d)) && receives(path))
}

/// The absolute paths that the datagram sockets in `table` were bound to (proc_net(5)).
fn bound_to(table: &[u8]) -> impl Iterator<Item = &Path> {
    table.split(|&byte| byte == b'\n').filter_map(|line| {
        // Num RefCount Protocol Flags Type St Inode Path, of which a path may have blanks.
        let mut fields = line.splitn(7, |&byte| byte == b' ').skip(4);
        let (kind, _, rest) = (fields.next()?, fields.next()?, fields.next()?);
        let rest = rest.trim_ascii_start();
        let path = &rest[rest.iter().position(|&byte| byte == b' ')? + 1..];
        let path = Path::new(OsStr::from_bytes(path));
        (kind == b"0002" && path.is_absolute()).then_some(path)
    })
}

/// Whether a datagram socket is bound to `path`. The kernel tells who connects to it; the other side
/// does not learn of that.
fn receives(path: &Path) -> bool {
    let connect = || -> io::Result<()> {
        let object =
            fs::open(path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
        let address = Address::of_path(own_link(&object).as_bytes());
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = net::socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None)?;
        net::connect(&socket, &address)
    };
    // EPERM: one that talks to its own peer only, which can change. Of another kind: EPROTOTYPE.
    matches!(connect(), Ok(()) | Err(Errno::PERM))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::{UnixDatagram, UnixListener};

    #[test]
    fn datagram_sockets_are_read_off_the_kernel_s_table() {
        let table = b"Num       RefCount Protocol Flags    Type St Inode Path\n\
            0000000000000000: 00000002 00000000 00010000 0001 01   912 /run/stream\n\
            0000000000000000: 00000002 00000000 00000000 0002 01    17 /run/a b\n\
            0000000000000000: 00000002 00000000 00000000 0002 01 123456 /run/c\n\
            0000000000000000: 00000002 00000000 00000000 0002 01 123457\n\
            0000000000000000: 00000002 00000000 00000000 0002 01 123458 @/run/abstract\n\
            0000000000000000: 00000002 00000000 00000000 0002 01 123459 relative\n";
        assert!(bound_to(table).eq([Path::new("/run/a b"), Path::new("/run/c")]));
        assert_eq!(bound_to(b"").count(), 0);
    }

    #[test]
    fn only_a_datagram_socket_that_somebody_has_counts() {
        let base = std::env::temp_dir().join(format!("landstrip-datagrams-{}", std::process::id()));
        // Longer than an address can be.
        let deep = base.join("a-directory-with-a-long-name/".repeat(5));
        std::fs::create_dir_all(&deep).unwrap();
        let base = base.canonicalize().unwrap();
        let listed = |name: &str| any_listens(&[base.join(name)]);
        let _stream = UnixListener::bind(base.join("stream")).unwrap();
        drop(UnixDatagram::bind(base.join("stale")).unwrap());
        assert!(!listed("stream") && !listed("stale") && !listed("missing") && !listed(""));
        let socket = UnixDatagram::bind(base.join("datagram")).unwrap();
        assert!(listed("datagram") && listed(""));
        assert!(!any_listens(&[base.join("stream"), deep.clone()]));
        std::fs::rename(base.join("datagram"), deep.join("moved")).unwrap();
        assert!(!listed("datagram") && any_listens(&[deep.join("moved")]));
        drop(socket);
        std::fs::remove_dir_all(base).unwrap();
    }
}

//! What is mounted where, by type: proc_pid_mountinfo(5), mounts of this mount namespace.

use super::proc;
use rustix::fd::AsFd;
use rustix::fs::{self, AtFlags, FsWord, StatxFlags};
use rustix::io;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// One mount that can be reached from the root directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// Where it is mounted, a canonical path.
    pub point: PathBuf,
    /// The type of file system, such as `ext4`; what is after a dot is a subtype.
    pub kind: String,
    /// The number of the file system's device, as the table has it.
    pub device: Vec<u8>,
    /// The part of the file system that is mounted, as a path within it; of NFS, which shows that in its source alone
    /// (nfs_show_devname, nfs_show_path), as a path at the server.
    pub root: PathBuf,
}

/// File systems whose names are this kernel's alone (`linux/magic.h`): ext4, f2fs, tmpfs, overlayfs, XFS, Btrfs. They list
/// whatever a name can find, and flag directories that ignore case. Others have names that are found and never listed,
/// as automounters and snapshots do, or ignore case as their server does.
const LOCAL: [FsWord; 6] =
    [0xef53, 0xf2f5_2010, 0x0102_1994, 0x794c_7630, 0x5846_5342, 0x9123_683e];

/// File systems that are the kernel's own controls, or views of processes: what is written there
/// changes how the machine works, and what runs outside.
#[rustfmt::skip]
const CONTROLS: [&str; 28] = [
    "apparmorfs", "binder", "binfmt_misc", "bpf", "cgroup", "cgroup2", "configfs", "cpuset", "debugfs", "devpts",
    "devtmpfs", "efivarfs", "functionfs", "fusectl", "gadgetfs", "nfsd", "ocfs2_dlmfs", "openpromfs", "proc", "pstore",
    "resctrl", "rpc_pipefs", "securityfs", "selinuxfs", "smackfs", "sysfs", "tracefs", "xenfs",
];

impl Mount {
    /// Whether what is written there are the kernel's own controls.
    pub fn is_of_controls(&self) -> bool {
        CONTROLS.contains(&self.kind.as_str())
    }

    /// Whether it holds nothing but devices.
    pub fn is_of_devices(&self) -> bool {
        ["devpts", "devtmpfs"].contains(&self.kind.as_str())
    }
}

/// Whether `object` lies on one of the file systems whose names are this kernel's alone.
pub fn is_local(object: impl AsFd) -> io::Result<bool> {
    Ok(LOCAL.contains(&fs::fstatfs(object)?.f_type))
}

/// Every mount, in the order of the kernel's table.
pub fn all() -> io::Result<Vec<Mount>> {
    proc::read_records("/proc/self/mountinfo").map(|table| parse(&table))
}

/// Whether `object`, which is held, is on one of them: not so once that was unmounted (umount(2), MNT_DETACH), nor in
/// another namespace.
pub fn have(object: impl AsFd) -> io::Result<bool> {
    let number = fs::statx(object, c"", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID)?.stx_mnt_id;
    // In the table the root directory has a line only if it is where something is mounted.
    if number == fs::statx(fs::CWD, c"/", AtFlags::empty(), StatxFlags::MNT_ID)?.stx_mnt_id {
        return Ok(true);
    }
    let table = proc::read_records("/proc/self/mountinfo")?;
    let is_it = |line: &[u8]| line.starts_with(format!("{number} ").as_bytes());
    Ok(table.split(|&byte| byte == b'\n').any(is_it))
}

/// A line: ID PARENT DEVICE ROOT POINT OPTIONS [FIELD...] - TYPE SOURCE OPTIONS
fn parse(table: &[u8]) -> Vec<Mount> {
    let mount = |line: &[u8]| {
        let mut fields = line.split(|&byte| byte == b' ').skip(2);
        let device = fields.next()?.to_owned();
        let (root, point) = (unescape(fields.next()?), unescape(fields.next()?));
        let mut fields = fields.skip_while(|field| *field != b"-").skip(1);
        let kind = String::from_utf8_lossy(fields.next()?).into_owned();
        // SERVER:PATH, of which the server can be an address in brackets.
        let source = fields.next().filter(|_| ["nfs", "nfs4"].contains(&kind.as_str()));
        let at = source.and_then(|source| source.windows(2).position(|two| two == b":/"));
        let part = source.zip(at).map(|(source, at)| unescape(&source[at + 1..]));
        Some(Mount { point, kind, device, root: part.unwrap_or(root) })
    };
    table.split(|&byte| byte == b'\n').filter_map(mount).collect()
}

/// Blanks, newlines and backslashes are written as `\ooo`.
fn unescape(written: &[u8]) -> PathBuf {
    let mut plain = Vec::with_capacity(written.len());
    let mut rest = written;
    while let [first, after @ ..] = rest {
        let octal = |digits: &[u8]| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok();
        let escaped = after.get(..3).filter(|_| *first == b'\\').and_then(octal);
        plain.push(escaped.unwrap_or(*first));
        rest = if escaped.is_some() { &after[3..] } else { after };
    }
    OsString::from_vec(plain).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn a_table_is_read_with_its_escapes() {
        let table = b"22 21 0:20 / /proc rw,relatime shared:5 - proc proc rw\n\
            23 21 98:0 /a\\040b /a\\040b\\134c rw - tmpfs a\\040b ro\n\
            24 21 0:40 / /home/u rw shared:1 master:2 - fuse.sshfs u@h:/ rw,user_id=0\n\
            25 21 0:41 / /short rw\n\
            26 21 0:42 / /net rw - nfs4 [fe80::1]:/a\\040b/c rw\n";
        let mounts = parse(table);
        let found: Vec<_> = mounts.iter().map(|m| (m.point.as_path(), m.kind.as_str())).collect();
        assert_eq!(
            found,
            [
                (Path::new("/proc"), "proc"),
                (Path::new(r"/a b\c"), "tmpfs"),
                (Path::new("/home/u"), "fuse.sshfs"),
                (Path::new("/net"), "nfs4"),
            ]
        );
        assert_eq!(mounts[3].root, Path::new("/a b/c"));
        assert!(mounts[0].is_of_controls() && !mounts[1].is_of_controls());
        assert_eq!((&*mounts[1].device, &*mounts[1].root), (&b"98:0"[..], Path::new("/a b")));
        assert_eq!(unescape(br"/a\0"), Path::new(r"/a\0"));
    }

    #[test]
    fn this_process_has_a_root_directory_and_a_proc() {
        let mounts = all().unwrap_or_default();
        for (point, is_of_controls) in [("/", false), ("/proc", true)] {
            let found = mounts.iter().rfind(|mount| mount.point == Path::new(point));
            assert!(found.is_some_and(|mount| mount.is_of_controls() == is_of_controls), "{point}");
        }
    }
}

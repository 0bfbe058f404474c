//! What is mounted where, by type: proc_pid_mounts(5), mounts of this mount namespace. What proc_pid_mountinfo(5) tells
//! besides, the kernel takes half as long again to write: that is read where something can be mounted twice.

use super::proc;
use rustix::io;
use std::collections::HashSet;
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
}

/// File systems that are the kernel's own controls, or views of processes: what is written there
/// changes how the machine works, and what runs outside.
const CONTROLS: [&str; 28] = [
    "apparmorfs",
    "binder",
    "binfmt_misc",
    "bpf",
    "cgroup",
    "cgroup2",
    "configfs",
    "cpuset",
    "debugfs",
    "devpts",
    "devtmpfs",
    "dlmfs",
    "efivarfs",
    "functionfs",
    "fusectl",
    "gadgetfs",
    "nfsd",
    "openpromfs",
    "proc",
    "pstore",
    "resctrl",
    "rpc_pipefs",
    "securityfs",
    "selinuxfs",
    "smackfs",
    "sysfs",
    "tracefs",
    "xenfs",
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

/// A part of a file system, and where it is mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The number of the file system's device, as the table has it.
    pub device: Vec<u8>,
    /// The part, as a path within the file system.
    pub root: PathBuf,
    /// Where it is mounted, a canonical path.
    pub point: PathBuf,
}

/// The parts of file systems that are mounted, in the order of the kernel's table; none where `mounts`, all of them,
/// rule out that something is mounted at two places (bind mounts, mount(8)).
pub fn parts(mounts: &[Mount]) -> io::Result<Vec<Part>> {
    let mut kinds = HashSet::new();
    let mut held = mounts.iter().filter(|mount| !mount.is_of_controls());
    match held.any(|mount| !kinds.insert(&mount.kind)) {
        true => proc::read_records("/proc/self/mountinfo").map(|table| parse_parts(&table)),
        false => Ok(Vec::new()),
    }
}

/// A line: ID PARENT DEVICE ROOT POINT ...
fn parse_parts(table: &[u8]) -> Vec<Part> {
    let part = |line: &[u8]| {
        let mut fields = line.split(|&byte| byte == b' ').skip(2);
        let device = fields.next()?.to_owned();
        Some(Part { device, root: unescape(fields.next()?), point: unescape(fields.next()?) })
    };
    table.split(|&byte| byte == b'\n').filter_map(part).collect()
}

/// Every mount, in the order of the kernel's table.
pub fn all() -> io::Result<Vec<Mount>> {
    proc::read_records("/proc/self/mounts").map(|table| parse(&table))
}

/// A line: SOURCE POINT TYPE OPTIONS 0 0
fn parse(table: &[u8]) -> Vec<Mount> {
    let mount = |line: &[u8]| {
        let mut fields = line.split(|&byte| byte == b' ').skip(1);
        let point = unescape(fields.next()?);
        let kind = fields.next()?;
        Some(Mount { point, kind: String::from_utf8_lossy(kind).into_owned() })
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
        let table = b"proc /proc proc rw,relatime 0 0\n\
            a\\040b /a\\040b\\134c tmpfs ro 0 0\n\
            \x20/home/u fuse.sshfs rw,user_id=0 0 0\n\
            short\n";
        let mounts = parse(table);
        let found: Vec<_> = mounts.iter().map(|m| (m.point.as_path(), m.kind.as_str())).collect();
        assert_eq!(
            found,
            [
                (Path::new("/proc"), "proc"),
                (Path::new(r"/a b\c"), "tmpfs"),
                (Path::new("/home/u"), "fuse.sshfs")
            ]
        );
        assert!(mounts[0].is_of_controls() && !mounts[1].is_of_controls());
        assert_eq!(unescape(br"/a\0"), Path::new(r"/a\0"));
    }

    #[test]
    fn the_parts_of_file_systems_are_read() {
        let table = b"36 35 98:0 /a\\040b /c rw,noatime master:1 - ext4 /dev/root rw\nshort\n";
        let part = Part { device: b"98:0".to_vec(), root: "/a b".into(), point: "/c".into() };
        assert_eq!(parse_parts(table), [part]);
        let once = [Mount { point: "/".into(), kind: "ext4".into() }];
        assert_eq!(parts(&once).unwrap_or_default(), []);
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

//! Metadata: chmod, chown, utime and xattr families, which Landlock does not know.
//!
//! The broker copies the arguments, holds the object, by a duplicate of the target's descriptor or
//! with O_PATH, decides on what it holds, and makes the change on that. What happens to the target's
//! memory, descriptors or the path afterwards changes nothing. The change is made with the target's rights.
//! Sources: chmod(2), chown(2), utimensat(2), setxattr(2).

use super::path;
use crate::call::metadata::{MetadataCall, RawChange, Subject};
use kernel::mounts;
use kernel::object::Object;
use kernel::request::Confirmed;
use kernel::target::{Target, TargetAddress, TargetFd};
use rustix::fs::{
    self, AtFlags, FileType, Gid, Mode, OFlags, Timespec, Timestamps, Uid, XattrFlags,
};
use rustix::io::{self, Errno};

/// Longest name and largest value of an extended attribute (linux/limits.h).
const XATTR_NAME_MAX: usize = 255;
const XATTR_SIZE_MAX: u64 = 65536;
/// The kinds of attributes that are the same everywhere (xattr(7)).
const XATTR_KINDS: [&[u8]; 4] = [b"user.", b"trusted.", b"security.", b"system.posix_acl_"];

/// A change with all its values copied.
#[derive(Debug)]
pub(crate) enum Change {
    Mode(Mode),
    Owner(Option<Uid>, Option<Gid>),
    Times(Timestamps),
    SetXattr(Vec<u8>, Vec<u8>, XattrFlags),
    RemoveXattr(Vec<u8>),
}

/// An object and the change that is asked for.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) object: Object,
    /// The flags that the object is held with. With O_PATH some calls do not take the descriptor.
    flags: OFlags,
    change: Change,
}

/// Copies the arguments and opens the object; `None` if there is nothing to do, whatever it is.
pub(crate) fn prepare(target: Target, call: &MetadataCall) -> io::Result<Option<Prepared>> {
    // The kernel copies the values first, and asks for no object if they are to stay (utimensat(2)).
    let change = copy(target, call.change)?;
    let stays = |time: &Timespec| time.tv_nsec == fs::UTIME_OMIT;
    if let Change::Times(times) = &change
        && stays(&times.last_access)
        && stays(&times.last_modification)
    {
        return Ok(None);
    }
    let (object, flags) = match call.subject {
        Subject::Invalid => return Err(Errno::INVAL),
        Subject::Descriptor(number) => held_by(target, number)?,
        Subject::Path(arg, flags) => {
            let path = target.read_path(arg.path)?;
            (path::resolve(target, arg.directory, &path, flags)?, OFlags::PATH)
        }
    };
    Ok(Some(Prepared { object, flags, change }))
}

/// What the target's descriptor `number` is of, and the flags that it is held with.
pub(super) fn held_by(target: Target, number: TargetFd) -> io::Result<(Object, OFlags)> {
    match target.duplicate(number) {
        // Without rights it changes nothing (open(2) on O_PATH).
        Ok(file) => match fs::fcntl_getfl(&file)? {
            flags if flags.contains(OFlags::PATH) => Err(Errno::BADF),
            flags => Ok((Object::of(file)?, flags)),
        },
        // The platform refuses that, as Docker's default seccomp profile does.
        Err(Errno::PERM) => {
            let object = target.descriptor(number)?;
            match target.is_path_only(number)? {
                true => Err(Errno::BADF),
                false => Ok((Object::of(object)?, OFlags::PATH)),
            }
        }
        Err(errno) => Err(errno),
    }
}

fn copy(target: Target, change: RawChange) -> io::Result<Change> {
    Ok(match change {
        RawChange::Mode(mode) => Change::Mode(Mode::from_bits_retain(mode & 0o7777)),
        RawChange::Owner(user, group) => Change::Owner(
            (user != u32::MAX).then(|| Uid::from_raw(user)),
            (group != u32::MAX).then(|| Gid::from_raw(group)),
        ),
        RawChange::Timespec(address)
        | RawChange::Timeval(address)
        | RawChange::Utimbuf(address)
            if address.is_null() =>
        {
            let now = Timespec { tv_sec: 0, tv_nsec: fs::UTIME_NOW };
            Change::Times(Timestamps { last_access: now, last_modification: now })
        }
        RawChange::Timespec(address) => {
            let [a, b, c, d] = target.read_words(address)?;
            times([a, c], [b, d])
        }
        RawChange::Timeval(address) => {
            let [a, b, c, d] = target.read_words(address)?;
            if !(0..1_000_000).contains(&b) || !(0..1_000_000).contains(&d) {
                return Err(Errno::INVAL);
            }
            times([a, c], [b * 1000, d * 1000])
        }
        RawChange::Utimbuf(address) => {
            let [access, modification] = target.read_words(address)?;
            times([access, modification], [0, 0])
        }
        RawChange::SetXattr(name, value, size, flags) => {
            let flags = XattrFlags::from_bits_retain(flags);
            if !(XattrFlags::CREATE | XattrFlags::REPLACE).contains(flags) {
                return Err(Errno::INVAL);
            }
            let name = xattr_name(target, name)?;
            if size > XATTR_SIZE_MAX {
                return Err(Errno::TOOBIG);
            }
            let mut bytes = vec![0; usize::try_from(size).map_err(|_| Errno::TOOBIG)?];
            target.read(value, &mut bytes)?;
            Change::SetXattr(name, bytes, flags)
        }
        RawChange::RemoveXattr(name) => Change::RemoveXattr(xattr_name(target, name)?),
    })
}

fn xattr_name(target: Target, address: TargetAddress) -> io::Result<Vec<u8>> {
    let name = target.read_string(address, XATTR_NAME_MAX + 1, Errno::RANGE)?;
    if name.is_empty() { Err(Errno::RANGE) } else { Ok(name) }
}

fn times(seconds: [u64; 2], nanoseconds: [u64; 2]) -> Change {
    let [access, modification] = [0, 1].map(|i| Timespec {
        tv_sec: seconds[i].cast_signed(),
        tv_nsec: nanoseconds[i].cast_signed(),
    });
    Change::Times(Timestamps { last_access: access, last_modification: modification })
}

impl Prepared {
    /// Whether who executes the object would have the rights of its owner, its group, or others yet: by
    /// set-user-ID and set-group-ID bits (inode(7)), which say of a directory only whose is what is made in it, and
    /// by capabilities (capabilities(7)).
    pub(crate) fn lends_rights(&self) -> bool {
        match &self.change {
            Change::Mode(mode) => {
                mode.intersects(Mode::SUID | Mode::SGID)
                    && self.object.kind() != FileType::Directory
            }
            Change::SetXattr(name, ..) => name == b"security.capability",
            _ => false,
        }
    }

    /// Whether the target holds a regular file that it can write to.
    pub(crate) fn is_open_for_writing(&self) -> bool {
        let access = self.flags & (OFlags::RWMODE | OFlags::PATH);
        [OFlags::WRONLY, OFlags::RDWR].contains(&access)
            && self.object.kind() == FileType::RegularFile
    }

    /// Whether the attribute is the file system's own, which can do anything by it: ntfs-3g gives directories second names,
    /// and makes links.
    fn is_of_file_system(&self, name: &[u8]) -> bool {
        !XATTR_KINDS.iter().any(|kind| name.starts_with(kind))
            && mounts::is_local(&self.object) != Ok(true)
    }

    /// Makes the change on the object that is held, for a target that waits.
    pub(crate) fn perform(&self, _: Confirmed<'_>) -> io::Result<()> {
        let object = &self.object;
        // The magic link leads to exactly its object, also if that is a symbolic link.
        let by_link = self.flags.contains(OFlags::PATH);
        match &self.change {
            Change::SetXattr(name, ..) | Change::RemoveXattr(name)
                if self.is_of_file_system(name) =>
            {
                Err(Errno::OPNOTSUPP)
            }
            Change::Mode(mode) if by_link => fs::chmod(object.link(), *mode),
            Change::Mode(mode) => fs::fchmod(object, *mode),
            Change::Owner(user, group) => {
                fs::chownat(object, "", *user, *group, AtFlags::EMPTY_PATH)
            }
            Change::Times(times) => fs::utimensat(object, "", times, AtFlags::EMPTY_PATH),
            Change::SetXattr(name, value, flags) if by_link => {
                fs::setxattr(object.link(), &name[..], value, *flags)
            }
            Change::SetXattr(name, value, flags) => fs::fsetxattr(object, &name[..], value, *flags),
            Change::RemoveXattr(name) if by_link => fs::removexattr(object.link(), &name[..]),
            Change::RemoveXattr(name) => fs::fremovexattr(object, &name[..]),
        }
    }
}

//! What this kernel's Landlock can do, found by trying: there are kernels that report a version and
//! refuse its attributes. Source: landlock(7).

#![allow(unsafe_code)]

use nix::libc;
use rustix::fd::{FromRawFd, OwnedFd};
use rustix::io::{self, Errno};
use std::fmt;

/// `struct landlock_ruleset_attr` as of ABI 6; older kernels take it while what they do not know is zero.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct Attributes {
    handled_access_fs: u64,
    handled_access_net: u64,
    scoped: u64,
}

/// A part of Landlock that every policy needs.
#[derive(Debug)]
pub(crate) struct Feature {
    name: &'static str,
    /// The first kernel that has it.
    since: &'static str,
    attributes: Attributes,
}

const fn files(access: u64) -> Attributes {
    Attributes { handled_access_fs: access, handled_access_net: 0, scoped: 0 }
}

/// In the order in which they came.
const FEATURES: &[Feature] = &[
    Feature { name: "rules for files", since: "5.13", attributes: files((1 << 13) - 1) },
    Feature { name: "moves between directories", since: "5.19", attributes: files(1 << 13) },
    Feature { name: "truncation", since: "6.2", attributes: files(1 << 14) },
    Feature {
        name: "rules for TCP",
        since: "6.7",
        attributes: Attributes { handled_access_net: 3, ..files(0) },
    },
    Feature { name: "control of devices", since: "6.10", attributes: files(1 << 15) },
    Feature {
        name: "scopes for signals and abstract sockets",
        since: "6.12",
        attributes: Attributes { scoped: 3, ..files(0) },
    },
];

/// What every policy needs and this kernel lacks.
#[derive(Debug)]
pub(crate) enum Missing {
    /// Any Landlock: what the kernel says to the question.
    Landlock(Errno),
    /// These.
    Features(Vec<&'static Feature>),
}

impl Missing {
    /// Tries what there is.
    pub(crate) fn find() -> Self {
        let mut missing = Vec::new();
        for feature in FEATURES {
            match create_ruleset(&feature.attributes) {
                Ok(_) => {}
                Err(Errno::INVAL | Errno::TOOBIG) => missing.push(feature),
                Err(errno) => return Self::Landlock(errno),
            }
        }
        Self::Features(missing)
    }
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Landlock(Errno::NOSYS) => f.write_str(
                "it is built without Landlock (CONFIG_SECURITY_LANDLOCK); Linux 6.12 with it is needed",
            ),
            Self::Landlock(Errno::OPNOTSUPP) => f.write_str(
                "Landlock is not enabled at boot: landlock must be among lsm= of its command line",
            ),
            Self::Landlock(Errno::PERM) => f.write_str(
                "what surrounds this program, such as a container's seccomp profile, refuses Landlock",
            ),
            Self::Landlock(errno) => write!(f, "Landlock says {}", std::io::Error::from(*errno)),
            Self::Features(missing) => {
                f.write_str("its Landlock lacks ")?;
                for (position, Feature { name, since, .. }) in missing.iter().enumerate() {
                    let comma = if position == 0 { "" } else { ", " };
                    write!(f, "{comma}{name} (Linux {since})")?;
                }
                Ok(())
            }
        }
    }
}

fn create_ruleset(attributes: &Attributes) -> io::Result<OwnedFd> {
    let pointer = std::ptr::from_ref(attributes);
    let size = size_of::<Attributes>();
    // SAFETY: the pointer and the size are those of a live attribute structure.
    let result = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, pointer, size, 0) };
    match i32::try_from(result) {
        // SAFETY: the kernel just returned it, and nothing else holds it.
        Ok(descriptor) if descriptor >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(descriptor) }),
        _ => Err(Errno::from_raw_os_error(
            std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named_with_the_kernel_that_has_it() {
        let text = |missing: Missing| missing.to_string();
        assert_eq!(
            text(Missing::Features(FEATURES[3..].iter().collect())),
            "its Landlock lacks rules for TCP (Linux 6.7), control of devices (Linux 6.10), scopes for \
             signals and abstract sockets (Linux 6.12)"
        );
        assert!(text(Missing::Landlock(Errno::NOSYS)).contains("CONFIG_SECURITY_LANDLOCK"));
        assert!(text(Missing::Landlock(Errno::OPNOTSUPP)).contains("lsm="));
    }

    #[test]
    fn a_kernel_that_confines_lacks_nothing() {
        let complete = Missing::find();
        assert!(matches!(&complete, Missing::Features(none) if none.is_empty()), "{complete:?}");
        // The probe can tell.
        let unknown = Attributes { scoped: 1 << 63, ..Attributes::default() };
        assert_eq!(create_ruleset(&unknown).err(), Some(Errno::INVAL));
    }
}

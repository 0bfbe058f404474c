//! Who runs the command: the user of the tests or, when that is root, also one without rights.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// The uid and gid of the unprivileged user, `nobody` by convention.
const NOBODY: u32 = 65534;

/// The variable that has root run commands as one user alone: `root` or `nobody`.
const ONE_USER: &str = "LANDSTRIP_ONE_USER";

/// A user to run commands as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum User {
    /// The one who runs the tests.
    Caller,
    /// uid and gid 65534, no groups, no capabilities. Only root can become this user.
    Nobody,
}

impl User {
    /// Whether commands of this user run with uid 0.
    pub fn is_root(self) -> bool {
        self == Self::Caller && rustix::process::geteuid().is_root()
    }

    /// The user's numeric id.
    pub fn uid(self) -> u32 {
        match self {
            Self::Caller => rustix::process::geteuid().as_raw(),
            Self::Nobody => NOBODY,
        }
    }

    /// What runs of this user have their directories in, where others have theirs too.
    pub fn holder(self) -> String {
        format!("landstrip-{}", self.uid())
    }

    /// Makes `command` start as this user.
    pub(crate) fn enter(self, command: &mut Command) {
        if self == Self::Nobody {
            // As root, std clears the supplementary groups with it.
            command.uid(NOBODY).gid(NOBODY);
        }
    }

    /// Gives `path` to this user.
    pub(crate) fn give(self, path: &Path) {
        if self == Self::Nobody {
            let given = std::os::unix::fs::lchown(path, Some(NOBODY), Some(NOBODY));
            given.unwrap_or_else(|error| panic!("{} to nobody: {error}", path.display()));
        }
    }
}

/// Runs `body` as the caller, and once more as nobody if the caller is root; as one of them where LANDSTRIP_ONE_USER
/// names it.
pub fn for_each_user(body: impl Fn(User)) {
    let is_root = rustix::process::geteuid().is_root();
    let only = std::env::var(ONE_USER).ok();
    if !is_root || only.as_deref() != Some("nobody") {
        body(User::Caller);
    }
    if is_root && only.as_deref() != Some("root") {
        println!("as nobody");
        body(User::Nobody);
    }
}

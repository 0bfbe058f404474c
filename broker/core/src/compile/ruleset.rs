//! The ruleset of the command: what Landlock handles, and what it is told to grant. Source: landlock(7).

use crate::report::failure::Failure;
use common::landlock::RulesetAttributes;
use kernel::features::Features;
use kernel::ruleset::{self, FileAccess};
use rules::paths::Kind;
use rustix::fd::OwnedFd;

/// A ruleset for the command to enter that grants nothing yet, and the rights to files that it decides on;
/// `restrict_network` also takes TCP away. Landlock has these `features`.
pub(super) fn create(
    features: Features,
    restrict_network: bool,
) -> Result<(OwnedFd, FileAccess), Failure> {
    let mut handled = FileAccess::all();
    handled.set(FileAccess::TRUNCATE, features.contains(Features::TRUNCATION));
    handled.set(FileAccess::IOCTL_DEV, features.contains(Features::DEVICES));
    let attributes = RulesetAttributes {
        handled_access_fs: handled.bits(),
        // Nothing is granted: the broker makes the permitted connections itself.
        handled_access_net: TCP * u64::from(restrict_network && features.contains(Features::TCP)),
        scoped: SCOPES * u64::from(features.contains(Features::SCOPES)),
    };
    let ruleset = ruleset::create(&attributes).map_err(|errno| {
        let message = format!("this kernel cannot confine the command: {errno}");
        Failure::Internal("platform", message)
    })?;
    Ok((ruleset, handled))
}

/// LANDLOCK_ACCESS_NET_BIND_TCP, LANDLOCK_ACCESS_NET_CONNECT_TCP
const TCP: u64 = 0b11;
/// LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET, LANDLOCK_SCOPE_SIGNAL
const SCOPES: u64 = 0b11;

/// What may be done where this is allowed. What can be read can be executed. Device nodes are never made: one for a disk
/// would undo every other rule.
pub(super) fn rights(kind: Kind) -> FileAccess {
    match kind {
        Kind::Read => FileAccess::READ_FILE | FileAccess::READ_DIR | FileAccess::EXECUTE,
        Kind::Write => {
            FileAccess::WRITE_FILE
                | FileAccess::TRUNCATE
                | FileAccess::REMOVE_DIR
                | FileAccess::REMOVE_FILE
                | FileAccess::MAKE_DIR
                | FileAccess::MAKE_REG
                | FileAccess::MAKE_SYM
                | FileAccess::MAKE_FIFO
                | FileAccess::MAKE_SOCK
                | FileAccess::REFER
        }
    }
}

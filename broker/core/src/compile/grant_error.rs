//! Why Landlock cannot be told what the rules allow. It decides nothing.

use crate::report::failure::Failure;
use landlock::RulesetError;
use rustix::io::Errno;
use std::path::{Path, PathBuf};

/// Why there is no ruleset.
#[derive(Debug)]
pub(crate) enum GrantError {
    /// The kernel has what it takes, and refused.
    Ruleset(RulesetError),
    /// A rule was refused.
    Rule {
        /// What should have been granted.
        path: PathBuf,
        /// Why not.
        source: Errno,
    },
    /// A path of the policy could not be looked at.
    Look {
        /// The path.
        path: PathBuf,
        /// Why not.
        source: Errno,
    },
    /// A directory on the way could not be looked through.
    Walk {
        /// The directory.
        path: PathBuf,
        /// Why not.
        source: Errno,
    },
    /// A rule singles out names where they can be spelled otherwise.
    IgnoresCase {
        /// The directory.
        path: PathBuf,
    },
}

impl From<GrantError> for Failure {
    fn from(error: GrantError) -> Self {
        use GrantError::{IgnoresCase, Look, Rule, Ruleset, Walk};
        let of = |what: &str, path: &Path, why: Errno| format!("{what} {}: {why}", path.display());
        let message = match error {
            Ruleset(source) => format!("this kernel cannot confine the command: {source}"),
            Rule { path, source } => of("cannot grant access to", &path, source),
            Look { path, source } => of("cannot look at", &path, source),
            Walk { path, source } => of("cannot look through", &path, source),
            IgnoresCase { path } => format!(
                "{0} ignores case: a name that is denied in it or beneath could be reached in another \
                 spelling; deny {0} as a whole, or a directory that tells upper from lower case",
                path.display()
            ),
        };
        Self::Internal("platform", message)
    }
}

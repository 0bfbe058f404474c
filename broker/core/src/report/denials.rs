//! What was refused, as a report names it.

use common::trap::{FileOperation, Mechanism, NetworkOperation, Trap};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A refused operation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Denial {
    /// On a file: its path.
    File(FileOperation, Vec<u8>),
    /// On a socket: `address:port` or path.
    Network(NetworkOperation, Vec<u8>),
    /// An address that a program binds to see whether it can, and does without.
    Trial(Vec<u8>),
    /// A message by UDP, or another one that no proxy carries: to whom.
    Datagram(Vec<u8>),
    /// A lookup of a name, as a report calls it: one by UDP, or one that the proxy answered.
    Lookup(Vec<u8>, Mechanism),
    /// By the proxy: `host:port`.
    Domain(Vec<u8>),
}

/// How a report calls a lookup whose name was not seen, and what is before one that was.
const LOOKUP: &str = "name lookup (UDP)";
pub const LOOKUP_OF: &str = "name lookup of ";

/// A trap as the line that it is written as.
pub fn line(trap: &Trap<'_>) -> String {
    let mut line = String::new();
    // Writing to a String cannot fail.
    let _ = trap.write_line(&mut line);
    line
}

impl Denial {
    /// To whom or what access was refused.
    pub fn target(&self) -> &[u8] {
        let (Self::File(_, target)
        | Self::Network(_, target)
        | Self::Trial(target)
        | Self::Datagram(target)
        | Self::Lookup(target, _)
        | Self::Domain(target)) = self;
        target
    }

    /// As a report has it.
    pub fn trap(&self) -> Trap<'_> {
        match self {
            Self::File(operation, path) => Trap::Filesystem(*operation, path, Mechanism::Seccomp),
            Self::Network(operation, target) => {
                Trap::Network(*operation, target, Mechanism::Seccomp)
            }
            Self::Trial(text) => Trap::Network(NetworkOperation::Bind, text, Mechanism::Seccomp),
            Self::Datagram(text) => {
                Trap::Network(NetworkOperation::Connect, text, Mechanism::Seccomp)
            }
            Self::Lookup(text, by) => Trap::Network(NetworkOperation::Connect, text, *by),
            Self::Domain(target) => {
                Trap::Network(NetworkOperation::Connect, target, Mechanism::Proxy)
            }
        }
    }

    /// A denial on the file at `path`.
    pub fn file(operation: FileOperation, path: &Path) -> Self {
        Self::File(operation, path.as_os_str().as_bytes().to_vec())
    }

    /// A lookup of `name` by UDP, if that is known.
    pub fn lookup(name: Option<&str>) -> Self {
        let text = name.map_or_else(|| LOOKUP.to_owned(), |name| format!("{LOOKUP_OF}{name}"));
        Self::Lookup(text.into_bytes(), Mechanism::Seccomp)
    }

    /// A lookup of `name` that the proxy answered: no rule permits it.
    pub fn unknown(name: &[u8]) -> Self {
        Self::Lookup([LOOKUP_OF.as_bytes(), name].concat(), Mechanism::Proxy)
    }
}

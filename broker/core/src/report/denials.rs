//! What was refused, as a report names it.

use common::trap::{FileOperation, NetworkOperation};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A refused operation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Denial {
    /// On a file: its path.
    File(FileOperation, Vec<u8>),
    /// On a socket: `address:port` or path.
    Network(NetworkOperation, Vec<u8>),
    /// A message by UDP, or another one that no proxy carries: to whom.
    Datagram(Vec<u8>),
    /// A lookup of a name, as a report calls it: one that the proxy answered, or one by UDP.
    Lookup { text: Vec<u8>, by_proxy: bool },
    /// By the proxy: `host:port`.
    Domain(Vec<u8>),
}

/// How a report calls a lookup whose name was not seen, and what is before one that was.
const LOOKUP: &str = "name lookup (UDP)";
pub const LOOKUP_OF: &str = "name lookup of ";

impl Denial {
    /// To whom or what access was refused.
    pub fn target(&self) -> &[u8] {
        let (Self::File(_, target)
        | Self::Network(_, target)
        | Self::Datagram(target)
        | Self::Lookup { text: target, .. }
        | Self::Domain(target)) = self;
        target
    }

    /// The path that was to be changed, if it is on a file and of that.
    pub fn written(&self) -> Option<PathBuf> {
        let Self::File(FileOperation::Write, path) = self else { return None };
        Some(OsStr::from_bytes(path).into())
    }

    /// A denial on the file at `path`.
    pub fn file(operation: FileOperation, path: &Path) -> Self {
        Self::File(operation, path.as_os_str().as_bytes().to_vec())
    }

    /// A lookup of `name` by UDP, if that is known.
    pub fn lookup(name: Option<&str>) -> Self {
        let text = name.map_or_else(|| LOOKUP.to_owned(), |name| format!("{LOOKUP_OF}{name}"));
        Self::Lookup { text: text.into_bytes(), by_proxy: false }
    }

    /// A lookup of `name` that the proxy answered: no rule permits it.
    pub fn unknown(name: &[u8]) -> Self {
        Self::Lookup { text: [LOOKUP_OF.as_bytes(), name].concat(), by_proxy: true }
    }
}

//! What the matcher for files answers: what may be done, and which names inside could mean something else. Pure.

/// What may be done with a path or an object, or is wanted of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Access {
    /// It is read.
    pub read: bool,
    /// It is written.
    pub write: bool,
}

/// Which kind of access is asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Read,
    Write,
}

impl Access {
    pub const NONE: Access = Access { read: false, write: false };
    pub const ALL: Access = Access { read: true, write: true };
    pub const READ: Access = Access { read: true, write: false };
    pub const WRITE: Access = Access { read: false, write: true };

    /// Whether this is enough for what is `wanted`.
    pub fn covers(self, wanted: Access) -> bool {
        (self.read || !wanted.read) && (self.write || !wanted.write)
    }

    /// What of this is not in `other`.
    pub fn without(self, other: Access) -> Access {
        Access { read: self.read && !other.read, write: self.write && !other.write }
    }
}

/// The names inside a directory that a rule may single out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Names {
    /// Only these, sorted, none twice.
    Exactly(Vec<Vec<u8>>),
    /// Any: a glob is live.
    Any,
}

impl Names {
    /// These, none for any name.
    pub(super) fn of<'a>(names: impl Iterator<Item = Option<&'a [u8]>>) -> Names {
        let names = names.map(|name| name.map(<[u8]>::to_vec));
        let Some(mut names) = names.collect::<Option<Vec<_>>>() else { return Names::Any };
        names.sort();
        names.dedup();
        Names::Exactly(names)
    }
}

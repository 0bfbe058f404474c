//! The two verdicts that are granted, and what each means to Landlock. Pure.

use kernel::ruleset::FileAccess;
use rules::paths::{Cursor, Names};

/// Which of the two verdicts is granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Read,
    Write,
}

impl Kind {
    /// What the verdict means to Landlock. What can be read can be executed. Device nodes are never
    /// made: one for a disk would undo every other rule.
    pub(super) fn access(self) -> FileAccess {
        match self {
            Self::Read => FileAccess::READ_FILE | FileAccess::READ_DIR | FileAccess::EXECUTE,
            Self::Write => {
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

    pub(super) fn allowed(self, cursor: &Cursor) -> bool {
        match self {
            Self::Read => cursor.access().read,
            Self::Write => cursor.access().write,
        }
    }

    pub(super) fn is_settled(self, cursor: &Cursor) -> bool {
        match self {
            Self::Read => cursor.read_settled(),
            Self::Write => cursor.write_settled(),
        }
    }

    pub(super) fn names(self, cursor: &Cursor) -> Names {
        match self {
            Self::Read => cursor.read_names(),
            Self::Write => cursor.write_names(),
        }
    }
}

//! The system call filter: one table of what happens to every system call and why, and the BPF program
//! made from it (seccomp(2), Documentation/userspace-api/seccomp_filter.rst).
//!
//! A call that the table does not name does not exist for the command: it gets ENOSYS. Nothing is allowed
//! by omission.
//!
//! The broker's build script compiles a program for every [`Variant`], for the architecture that the
//! broker is built for. At run time the broker needs no more of this than [`Variant`] and [`Syscall`].

#![deny(unsafe_code)]

mod arch;
mod program;
mod rule;
mod syscall;
mod table;
mod uapi;
mod variant;

// For the tests of other crates as well; no program has them.
#[cfg(any(test, feature = "tests"))]
#[path = "tests/interpreter.rs"]
mod interpreter;
#[cfg(test)]
mod kernel_tests;
#[cfg(test)]
mod tests;
#[cfg(any(test, feature = "tests"))]
#[path = "tests/words.rs"]
mod words;

pub use arch::Arch;
pub use syscall::Syscall;
pub use uapi::CLONE_NAMESPACES;
pub use variant::Variant;
#[cfg(any(test, feature = "tests"))]
pub use words::{Entry, describe};

use program::Instruction;

/// A filter, ready for `SECCOMP_SET_MODE_FILTER`.
#[derive(Clone, Debug)]
pub struct Program {
    instructions: Vec<Instruction>,
}

impl Program {
    /// The program for this architecture and variant.
    ///
    /// # Errors
    /// Returns what is wrong when the table contradicts itself or outgrows what BPF can express; the tests
    /// rule out both, so it means a broken build.
    pub fn compile(arch: &Arch, variant: Variant) -> Result<Self, String> {
        program::build(table::rows(), arch, variant).map(|instructions| Self { instructions })
    }

    /// The program as the bytes that travel to the child.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        self.instructions.iter().flat_map(|instruction| instruction.to_bytes()).collect()
    }
}

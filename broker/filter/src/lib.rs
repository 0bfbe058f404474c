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
mod interpreter;
mod program;
mod rule;
mod syscall;
mod table;
mod uapi;
mod variant;

#[cfg(test)]
mod kernel_tests;
#[cfg(test)]
mod tests;

pub use arch::Arch;
pub use program::Error;
pub use syscall::Syscall;
pub use variant::Variant;

use program::Instruction;

/// A filter, ready for `SECCOMP_SET_MODE_FILTER`.
#[derive(Clone, Debug)]
pub struct Program {
    arch: &'static Arch,
    instructions: Vec<Instruction>,
}

impl Program {
    /// The program for this architecture and variant.
    ///
    /// # Errors
    /// Returns [`Error`] when the table contradicts itself or outgrows what BPF can express; the tests
    /// rule out both, so it means a broken build.
    pub fn compile(arch: &'static Arch, variant: Variant) -> Result<Self, Error> {
        let instructions = program::build(table::rows(), arch, variant)?;
        Ok(Self { arch, instructions })
    }

    /// The program as the bytes that travel to the child.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        self.instructions.iter().flat_map(|instruction| instruction.to_bytes()).collect()
    }

    /// Whether it allows a call with these arguments by itself.
    #[must_use]
    pub fn allows(&self, call: Syscall, arguments: &[u32]) -> bool {
        let Some(number) = self.arch.number(call) else { return false };
        let mut call = interpreter::Call { number, arch: self.arch.audit, ..Default::default() };
        for (to, &from) in call.args.iter_mut().zip(arguments) {
            *to = from.into();
        }
        interpreter::run(&self.instructions, &call) == Ok(program::RET_ALLOW)
    }
}

/// One line of the documentation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The call.
    pub call: Syscall,
    /// What happens to it, in words.
    pub what: String,
    /// The reason.
    pub why: &'static str,
}

/// The whole table in words, in the order of [`Syscall::ALL`].
pub fn describe(variant: Variant) -> impl Iterator<Item = Entry> {
    let mut entries = Vec::new();
    for row in table::rows() {
        let (cases, otherwise) = row.resolve(variant);
        let mut what = String::new();
        for case in &cases {
            what.push_str(&format!("{case}; "));
        }
        what.push_str(&format!("{}{otherwise}", if cases.is_empty() { "" } else { "else " }));
        entries.extend(row.calls.iter().map(|&call| Entry {
            call,
            what: what.clone(),
            why: row.why,
        }));
    }
    entries.sort_by_key(|entry| entry.call as u16);
    entries.into_iter()
}

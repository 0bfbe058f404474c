//! The system call filter: one table of what happens to every system call and why, and the BPF program
//! made from it (seccomp(2), Documentation/userspace-api/seccomp_filter.rst).
//!
//! A call that the table does not name does not exist for the command: it gets ENOSYS. Nothing is allowed
//! by omission.
//!
//! All this happens when the broker is built: its build script compiles a program for every [`Variant`].

#![deny(unsafe_code)]

pub mod interpreter;
mod program;
mod rule;
#[cfg_attr(target_arch = "x86_64", path = "syscalls_x86_64.rs")]
#[allow(non_upper_case_globals, reason = "system calls keep the names that the kernel gives them")]
mod syscalls;
mod table;
mod uapi;
mod variant;

#[cfg(test)]
mod kernel_tests;
#[cfg(test)]
mod tests;

pub use program::{Error, Instruction};
pub use rule::Syscall;
pub use variant::Variant;

/// The program for this variant, ready for `SECCOMP_SET_MODE_FILTER`.
///
/// # Errors
/// Returns [`Error`] when the table contradicts itself or outgrows what BPF can express; the tests rule
/// out both, so it means a broken build.
pub fn compile(variant: Variant) -> Result<Vec<Instruction>, Error> {
    program::build(table::ROWS, variant)
}

/// The program as the bytes that travel to the child.
#[must_use]
pub fn encode(program: &[Instruction]) -> Vec<u8> {
    program.iter().flat_map(|instruction| instruction.to_bytes()).collect()
}

/// Whether the program allows a call with these arguments by itself.
#[must_use]
pub fn allows(program: &[Instruction], number: u32, arguments: &[u32]) -> bool {
    const SECCOMP_RET_ALLOW: u32 = 0x7fff_0000;
    let mut call = interpreter::Call { number, arch: syscalls::AUDIT_ARCH, ..Default::default() };
    for (to, &from) in call.args.iter_mut().zip(arguments) {
        *to = from.into();
    }
    interpreter::run(program, &call) == Ok(SECCOMP_RET_ALLOW)
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

/// The whole table in words, by system call number.
pub fn describe(variant: Variant) -> impl Iterator<Item = Entry> {
    let mut entries = Vec::new();
    for row in table::ROWS {
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
    entries.sort_by_key(|entry| entry.call.number);
    entries.into_iter()
}

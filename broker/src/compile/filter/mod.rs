//! The system call filter: one table of what happens to every system call and why, and the BPF program
//! made from it (seccomp(2), Documentation/userspace-api/seccomp_filter.rst).
//!
//! A call that the table does not name does not exist for the command: it gets ENOSYS. Nothing is allowed
//! by omission.
//!
//! All this happens when the broker is built: see `filters`.

mod program;
mod rule;
#[cfg_attr(target_arch = "x86_64", path = "syscalls_x86_64.rs")]
#[allow(non_upper_case_globals, reason = "system calls keep the names that the kernel gives them")]
mod syscalls;
mod table;
mod uapi;

#[cfg(test)]
mod interpreter;
#[cfg(test)]
mod kernel_tests;
#[cfg(test)]
mod tests;

pub(crate) use super::options::Options;
pub(crate) use program::{Error, Instruction};
#[cfg(test)]
use rule::Syscall;

/// The program for these options, ready for `SECCOMP_SET_MODE_FILTER`.
///
/// # Errors
/// Returns [`Error`] when the table contradicts itself or outgrows what BPF can express; the tests rule
/// out both, so it means a broken build.
pub(crate) fn compile(options: &Options) -> Result<Vec<Instruction>, Error> {
    program::build(table::ROWS, options)
}

/// The program as the bytes that travel to the child.
pub(crate) fn encode(program: &[Instruction]) -> Vec<u8> {
    program.iter().flat_map(|instruction| instruction.to_bytes()).collect()
}

/// Whether the program allows a call with these arguments by itself.
#[cfg(test)]
pub(crate) fn allows(program: &[Instruction], number: u32, arguments: &[u32]) -> bool {
    const SECCOMP_RET_ALLOW: u32 = 0x7fff_0000;
    let mut call = interpreter::Call { number, arch: syscalls::AUDIT_ARCH, ..Default::default() };
    for (to, &from) in call.args.iter_mut().zip(arguments) {
        *to = from.into();
    }
    interpreter::run(program, &call) == Ok(SECCOMP_RET_ALLOW)
}

/// One line of the documentation.
#[cfg(test)]
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The call.
    pub call: Syscall,
    /// What happens to it, in words.
    pub what: String,
    /// The reason.
    pub why: &'static str,
}

/// The whole table in words, by system call number.
#[cfg(test)]
pub(crate) fn describe(options: &Options) -> impl Iterator<Item = Entry> {
    let mut entries = Vec::new();
    for row in table::ROWS {
        let (cases, otherwise) = row.resolve(options);
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

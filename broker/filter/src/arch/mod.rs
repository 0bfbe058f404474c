//! What of the filter depends on the architecture: the audit value, the numbers of the system calls, and
//! the other ABIs that enter the kernel with the same audit value. Another architecture is another file
//! here, with the names of its own in `syscall`.

mod aarch64;
mod x86_64;

use crate::syscall::{FIRST_OF_ALL, NEWEST, Syscall};

/// The numbers in the order of [`Syscall::ALL`].
pub(crate) type Numbers = [Option<u32>; Syscall::ALL.len()];

/// An architecture.
#[derive(Clone, Copy, Debug)]
pub struct Arch {
    /// As the compiler calls it (`target_arch`).
    pub name: &'static str,
    /// What `seccomp_data.arch` holds for its 64-bit callers (linux/audit.h).
    pub(crate) audit: u32,
    /// The first and last number of another ABI that comes with the same audit value.
    pub(crate) foreign: Option<(u32, u32)>,
    pub(crate) numbers: Numbers,
}

impl Arch {
    /// All of them.
    pub const ALL: &[&Self] = &[&x86_64::ARCH, &aarch64::ARCH];

    /// That of this program.
    #[cfg(target_arch = "x86_64")]
    pub const NATIVE: &Self = &x86_64::ARCH;
    /// That of this program.
    #[cfg(target_arch = "aarch64")]
    pub const NATIVE: &Self = &aarch64::ARCH;

    /// The architecture that the compiler calls `name`.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        Self::ALL.iter().copied().find(|arch| arch.name == name)
    }

    /// The number of a call, if it is not absent here.
    #[must_use]
    pub fn number(&self, call: Syscall) -> Option<u32> {
        self.numbers[call as usize]
    }

    /// The calls by number.
    pub(crate) const fn calls(&self) -> [Option<Syscall>; NEWEST as usize + 1] {
        let mut calls = [None; NEWEST as usize + 1];
        let mut index = 0;
        while index < self.numbers.len() {
            if let Some(number) = self.numbers[index] {
                calls[number as usize] = Some(Syscall::ALL[index]);
            }
            index += 1;
        }
        calls
    }
}

/// `__AUDIT_ARCH_64BIT | __AUDIT_ARCH_LE` (linux/audit.h).
const AUDIT_64BIT_LE: u32 = 0x8000_0000 | 0x4000_0000;

/// The numbers that are the same everywhere: those of all calls since this one (Linux 5.1), in the order of
/// [`Syscall::ALL`].
pub(crate) const fn since_5_1() -> Numbers {
    let mut numbers = [None; Syscall::ALL.len()];
    let mut number = FIRST_OF_ALL;
    let mut call = Syscall::pidfd_send_signal as usize;
    while call < numbers.len() {
        numbers[call] = Some(number);
        (call, number) = (call + 1, number + 1);
    }
    numbers
}

/// Runs of calls by the number of the first, beside those that are the same everywhere.
macro_rules! numbers {
    ($($first:literal: $($name:ident),*;)*) => {{
        let mut numbers = $crate::arch::since_5_1();
        $(
            let run = [$($crate::Syscall::$name),*];
            let mut at: u32 = 0;
            while (at as usize) < run.len() {
                numbers[run[at as usize] as usize] = Some($first + at);
                at += 1;
            }
        )*
        numbers
    }};
}
pub(crate) use numbers;
pub(crate) use x86_64::first_calls;

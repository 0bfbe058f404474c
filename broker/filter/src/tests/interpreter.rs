//! Runs a filter as the kernel's classic BPF interpreter would (kernel/seccomp.c, net/core/filter.c), for
//! the instructions that we emit and no others.

use crate::program::{self, Instruction};
use crate::{Arch, Program, Syscall};

/// `struct seccomp_data`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Call {
    /// The number of the call.
    pub(crate) number: u32,
    /// AUDIT_ARCH of the ABI.
    pub(crate) arch: u32,
    /// The registers.
    pub(crate) args: [u64; 6],
}

impl Call {
    /// The 32-bit word at an offset; the instruction pointer, which no filter of ours may look at, is no word.
    fn word(&self, offset: u32) -> Option<u32> {
        match offset {
            0 => Some(self.number),
            4 => Some(self.arch),
            16..64 if offset.is_multiple_of(4) => {
                let arg = self.args.get(usize::try_from((offset - 16) / 8).ok()?)?;
                let half = if offset.is_multiple_of(8) { arg & 0xffff_ffff } else { arg >> 32 };
                u32::try_from(half).ok()
            }
            _ => None,
        }
    }
}

/// The return value of the program.
pub(crate) fn run(program: &[Instruction], call: &Call) -> Result<u32, String> {
    let mut accumulator = 0_u32;
    let mut index = 0;
    let mut at = 0;
    loop {
        let &Instruction { code, jt, jf, k } = program.get(at).ok_or("runs past the end")?;
        at += 1;
        match code {
            0x20 => accumulator = call.word(k).ok_or_else(|| format!("loads offset {k}"))?,
            0x00 => accumulator = k,
            0x07 => index = accumulator,
            0x14 => accumulator = accumulator.wrapping_sub(k),
            0x54 => accumulator &= k,
            0x6c => accumulator = accumulator.checked_shl(index).ok_or("shifts too far")?,
            0x45 => at += usize::from(if accumulator & k != 0 { jt } else { jf }),
            0x05 => at += usize::try_from(k).map_err(|_| "jumps too far")?,
            0x15 => at += usize::from(if accumulator == k { jt } else { jf }),
            0x35 => at += usize::from(if accumulator >= k { jt } else { jf }),
            0x06 => return Ok(k),
            other => return Err(format!("unknown code {other:#x}")),
        }
    }
}

impl Program {
    /// Whether it allows a call with these arguments by itself, compiled for this architecture.
    #[must_use]
    pub fn allows(&self, call: Syscall, arguments: &[u32]) -> bool {
        let Some(number) = Arch::NATIVE.number(call) else { return false };
        let mut call = Call { number, arch: Arch::NATIVE.audit, ..Default::default() };
        for (to, &from) in call.args.iter_mut().zip(arguments) {
            *to = from.into();
        }
        run(&self.instructions, &call) == Ok(program::RET_ALLOW)
    }
}

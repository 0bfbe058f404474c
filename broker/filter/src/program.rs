//! From the table to a BPF program. Few kinds of instruction are emitted: load a word of `seccomp_data`,
//! mask it, compare and jump, jump, return; and what looks a value up in a word of bits.
//!
//! Layout: check the architecture, load the number, find what happens to it by binary search over ranges of
//! numbers that fare alike, then the cases of the rows that look at arguments, and the verdicts.
//!
//! What counts is the time to install, which the kernel spends on two things: every instruction is compiled
//! (about 0.15 µs, a return 0.25 µs), and every system call number is tried, to learn which are always
//! allowed and need no filter later (about 1 µs for each step that all numbers take; it gives up on a number
//! where an argument is loaded). So verdicts and cases are shared, not repeated where they are reached, and
//! the search halves the numbers.
//!
//! Jumps only go forward, so the program is built from its end: what is jumped to exists already.
//!
//! seccompiler (0.5.0) is not used: it compares numbers one after the other, knows no user notification, and
//! spends five instructions on a value where one does.

use crate::rule::{Case, Errno, Row, Test, Verdict};
use crate::syscall::NEWEST;
use crate::{Arch, Variant};

/// One `struct sock_filter` (linux/filter.h).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Instruction {
    /// Class, operation and addressing mode.
    pub code: u16,
    /// How many instructions to skip when the comparison holds.
    pub jt: u8,
    /// How many to skip when it does not.
    pub jf: u8,
    /// The operand.
    pub k: u32,
}

impl Instruction {
    /// As the kernel, and our own messages, lay it out in memory.
    pub(crate) fn to_bytes(self) -> [u8; 8] {
        let [c0, c1] = self.code.to_le_bytes();
        let [k0, k1, k2, k3] = self.k.to_le_bytes();
        [c0, c1, self.jt, self.jf, k0, k1, k2, k3]
    }
}

/// BPF_MAXINSNS (linux/bpf_common.h).
const MAX_LENGTH: usize = 4096;

// Instruction codes (linux/bpf_common.h), each the whole of class, size or operation, and mode.
pub(crate) const LD_W_ABS: u16 = 0x20;
pub(crate) const LD_IMM: u16 = 0x00;
pub(crate) const MISC_TAX: u16 = 0x07;
pub(crate) const ALU_AND_K: u16 = 0x54;
pub(crate) const ALU_LSH_X: u16 = 0x6c;
pub(crate) const ALU_SUB_K: u16 = 0x14;
pub(crate) const JMP_JA: u16 = 0x05;
pub(crate) const JMP_JEQ_K: u16 = 0x15;
pub(crate) const JMP_JGE_K: u16 = 0x35;
pub(crate) const JMP_JSET_K: u16 = 0x45;
pub(crate) const RET_K: u16 = 0x06;

// Offsets in `struct seccomp_data` (linux/seccomp.h).
const NUMBER: u32 = 0;
const ARCH: u32 = 4;
const ARGS: u32 = 16;

// Return values (linux/seccomp.h).
pub(crate) const RET_KILL_PROCESS: u32 = 0x8000_0000;
pub(crate) const RET_ERRNO: u32 = 0x0005_0000;
pub(crate) const RET_USER_NOTIF: u32 = 0x7fc0_0000;
pub(crate) const RET_ALLOW: u32 = 0x7fff_0000;

/// The program for a table.
pub(crate) fn build<'a>(
    table: impl IntoIterator<Item = &'a Row>,
    arch: &Arch,
    variant: Variant,
) -> Result<Vec<Instruction>, String> {
    let (fates, ranges) = ranges(table, arch, variant)?;
    let mut program = Backwards { decided: vec![None; fates.len()], fates, ..Backwards::default() };
    let search = program.search(&ranges)?;
    program.fall_to(search)?;
    program.push(LD_W_ABS, NUMBER);
    let known = program.position();
    let kill = program.verdict(Verdict::Kill);
    program.compare(JMP_JEQ_K, arch.audit, known, kill)?;
    program.push(LD_W_ABS, ARCH);

    let mut program = program.code;
    program.reverse();
    if program.len() > MAX_LENGTH {
        return Err(format!("{} instructions are more than BPF_MAXINSNS", program.len()));
    }
    Ok(program)
}

/// What happens to a number, once the variant is known.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Fate {
    cases: Vec<Case>,
    otherwise: Verdict,
}

/// Numbers from `first` to the next range's first that share a fate, which is named by its index.
#[derive(Clone, Copy)]
struct Range {
    first: u32,
    fate: usize,
}

/// All 32-bit numbers, ascending and without gaps: what the table names, and ENOSYS for the rest. The
/// fates are all different, so that comparing their indices is comparing them.
fn ranges<'a>(
    table: impl IntoIterator<Item = &'a Row>,
    arch: &Arch,
    variant: Variant,
) -> Result<(Vec<Fate>, Vec<Range>), String> {
    let mut fates = Vec::new();
    let mut index_of = |fate: Fate| {
        fates.iter().position(|known| *known == fate).unwrap_or_else(|| {
            fates.push(fate);
            fates.len() - 1
        })
    };
    let unknown = index_of(Fate { cases: Vec::new(), otherwise: Verdict::Deny(Errno::ENOSYS) });
    let killed = index_of(Fate { cases: Vec::new(), otherwise: Verdict::Kill });

    let mut named = [None; NEWEST as usize + 1];
    for row in table {
        let (cases, otherwise) = row.resolve(variant);
        let fate = index_of(Fate { cases, otherwise });
        for &call in row.calls {
            let Some(number) = arch.number(call) else { continue };
            let slot = named.get_mut(number as usize);
            let slot = slot.ok_or_else(|| format!("{call} is newer than the newest known call"))?;
            if slot.replace(fate).is_some() {
                return Err(format!("{call} is listed twice"));
            }
        }
    }

    let known = (0..).zip(named).map(|(number, fate)| (number, fate.unwrap_or(unknown)));
    let foreign = arch.foreign.map(|(first, last)| [(first, killed), (last + 1, unknown)]);
    let beyond = [(NEWEST + 1, unknown)].into_iter().chain(foreign.into_iter().flatten());
    let mut ranges: Vec<Range> = Vec::new();
    for (first, fate) in known.chain(beyond) {
        if ranges.last().is_none_or(|last| last.fate != fate) {
            ranges.push(Range { first, fate });
        }
    }
    Ok((fates, ranges))
}

/// Where a range of one number stands between two that fare alike.
fn odd_one(ranges: &[Range]) -> Option<usize> {
    let before = ranges.windows(3).position(|three| {
        let [before, odd, after] = three else { return false };
        before.fate == after.fate && after.first - odd.first == 1
    })?;
    Some(before + 1)
}

/// A program that grows towards its beginning. A position is counted from its end.
#[derive(Default)]
struct Backwards {
    code: Vec<Instruction>,
    verdicts: Vec<(Verdict, usize)>,
    fates: Vec<Fate>,
    /// Where each fate that looks at arguments is decided.
    decided: Vec<Option<usize>>,
}

impl Backwards {
    /// Finds the fate of the number in the accumulator, among at least one range; returns where that starts.
    fn search(&mut self, ranges: &[Range]) -> Result<usize, String> {
        let [first, .., last] = ranges else { return self.decide(ranges[0].fate) };
        // A number whose neighbours fare alike is compared once instead of twice, where few others pay
        // for the comparison.
        if weight(last.first) - weight(first.first) <= NARROW
            && let Some(odd) = odd_one(ranges)
        {
            let others = [&ranges[..odd], &ranges[odd + 2..]].concat();
            let other = self.search(&others)?;
            let hit = self.decide(ranges[odd].fate)?;
            return self.compare(JMP_JEQ_K, ranges[odd].first, hit, other);
        }
        let half = weight(first.first).midpoint(weight(last.first));
        let middle = ranges.partition_point(|range| weight(range.first) <= half);
        let (low, high) = ranges.split_at(middle.clamp(1, ranges.len() - 1));
        let boundary = high[0].first;
        let high = self.search(high)?;
        let low = self.search(low)?;
        self.compare(JMP_JGE_K, boundary, high, low)
    }

    /// Where the fate is decided, perhaps by looking at arguments.
    fn decide(&mut self, index: usize) -> Result<usize, String> {
        let Fate { cases, otherwise } = self.fates[index].clone();
        if cases.is_empty() {
            return Ok(self.verdict(otherwise));
        }
        if let Some(position) = self.decided[index] {
            return Ok(position);
        }
        let mut next = self.verdict(otherwise);
        for case in cases.iter().rev() {
            let mut hit = self.verdict(case.then);
            for test in case.all.iter().rev() {
                hit = self.check(test, hit, next)?;
            }
            next = hit;
        }
        self.decided[index] = Some(next);
        Ok(next)
    }

    /// Goes to `hit` when the test holds, else to `miss`.
    fn check(&mut self, test: &Test, hit: usize, miss: usize) -> Result<usize, String> {
        match *test {
            Test::Low { arg, mask: u32::MAX, values } if are_dense(values) => {
                return self.check_bits(arg.0, values, hit, miss);
            }
            // Masks that need no instruction of their own.
            Test::Low { arg, mask, values: &[0] } => {
                self.compare(JMP_JSET_K, mask, miss, hit)?;
                self.push(LD_W_ABS, low_half(arg.0));
            }
            Test::Any { arg, mask } => {
                self.compare(JMP_JSET_K, mask, hit, miss)?;
                self.push(LD_W_ABS, low_half(arg.0));
            }
            Test::Low { arg, mask, values } => {
                let mut other = miss;
                for &value in values.iter().rev() {
                    other = self.compare(JMP_JEQ_K, value, hit, other)?;
                }
                if mask != u32::MAX {
                    self.push(ALU_AND_K, mask);
                }
                self.push(LD_W_ABS, low_half(arg.0));
            }
            Test::Null { arg } => {
                self.compare(JMP_JEQ_K, 0, hit, miss)?;
                self.push(LD_W_ABS, high_half(arg.0));
                let upper = self.position();
                self.compare(JMP_JEQ_K, 0, upper, miss)?;
                self.push(LD_W_ABS, low_half(arg.0));
            }
        }
        Ok(self.position())
    }

    /// Goes to `hit` when the argument is one of these ascending values, else to `miss`. Those within 32
    /// of each other are bits of one word.
    fn check_bits(
        &mut self,
        arg: u8,
        values: &[u32],
        hit: usize,
        miss: usize,
    ) -> Result<usize, String> {
        let Some(&first) = values.first() else { return Ok(miss) };
        let (word, others) =
            values.split_at(values.partition_point(|value| value - first < u32::BITS));
        let other = self.check_bits(arg, others, hit, miss)?;
        let bits = word.iter().fold(0, |bits, value| bits | 1 << (value - first));
        self.compare(JMP_JSET_K, bits, hit, other)?;
        self.push(ALU_LSH_X, 0);
        self.push(LD_IMM, 1);
        self.push(MISC_TAX, 0);
        let within = self.position();
        self.compare(JMP_JGE_K, u32::BITS, other, within)?;
        self.push(ALU_SUB_K, first);
        self.push(LD_W_ABS, low_half(arg));
        Ok(self.position())
    }

    /// Where the verdict is returned, near enough to be jumped to.
    fn verdict(&mut self, verdict: Verdict) -> usize {
        let known = self.verdicts.iter().rfind(|(known, _)| *known == verdict);
        if let Some(&(_, position)) = known
            && self.code.len() - position <= NEAR
        {
            return position;
        }
        let value = match verdict {
            Verdict::Allow => RET_ALLOW,
            Verdict::Notify => RET_USER_NOTIF,
            Verdict::Deny(errno) => RET_ERRNO | errno as u32,
            Verdict::Ignore => RET_ERRNO,
            Verdict::Kill => RET_KILL_PROCESS,
        };
        self.push(RET_K, value);
        self.verdicts.push((verdict, self.position()));
        self.position()
    }

    /// Compares the accumulator, going to one of two positions.
    fn compare(&mut self, code: u16, k: u32, hit: usize, miss: usize) -> Result<usize, String> {
        let (hit, miss) = (self.near(hit)?, self.near(miss)?);
        let distance = |target: usize| {
            let distance = self.code.len() - target - 1;
            u8::try_from(distance).map_err(|_| too_far(distance))
        };
        let (jt, jf) = (distance(hit)?, distance(miss)?);
        self.code.push(Instruction { code, jt, jf, k });
        Ok(self.position())
    }

    /// A position from which execution reaches the target, and that a comparison can jump to.
    fn near(&mut self, target: usize) -> Result<usize, String> {
        if self.code.len() - target <= NEAR {
            return Ok(target);
        }
        self.fall_to(target)?;
        Ok(self.position())
    }

    /// Makes sure that what is put in front next runs into the target.
    fn fall_to(&mut self, target: usize) -> Result<(), String> {
        let distance = self.position() - target;
        if distance > 0 {
            self.push(JMP_JA, u32::try_from(distance).map_err(|_| too_far(distance))?);
        }
        Ok(())
    }

    fn push(&mut self, code: u16, k: u32) {
        self.code.push(Instruction { code, jt: 0, jf: 0, k });
    }

    /// That of the instruction put in front last.
    fn position(&self) -> usize {
        self.code.len().saturating_sub(1)
    }
}

fn too_far(distance: usize) -> String {
    format!("a jump over {distance} instructions is too long")
}

/// How far a comparison may jump: 255, less what [`Backwards::compare`] may put in between.
const NEAR: usize = 250;

/// How many numbers may be asked about one odd one among them.
const NARROW: u32 = 32;

/// Whether values are better looked up as bits, which takes seven instructions for each 32.
fn are_dense(values: &[u32]) -> bool {
    let range =
        values.last().zip(values.first()).map_or(0, |(last, first)| last.wrapping_sub(*first));
    values.is_sorted() && range / u32::BITS * 7 + 7 < u32::try_from(values.len()).unwrap_or(0)
}

/// How many numbers up to this one the kernel tries when the filter is installed.
fn weight(number: u32) -> u32 {
    number.min(NEWEST)
}

// Every architecture that programs are built for here is little-endian.
fn low_half(arg: u8) -> u32 {
    ARGS + 8 * u32::from(arg)
}

fn high_half(arg: u8) -> u32 {
    low_half(arg) + 4
}

//! From the table to a BPF program. Five kinds of instruction are emitted: load a word of `seccomp_data`,
//! mask it, compare and jump, jump, return.
//!
//! Layout: check the architecture, load the number, then a binary search over ranges of numbers that fare
//! alike; at its leaves a verdict, or the cases of one row. The kernel runs this for every number when the
//! filter is installed (to learn which are always allowed and need no filter later), hence the search; it
//! gives up as soon as an argument is loaded, which here happens in rows with cases only.
//!
//! seccompiler (0.5.0) is not used: it compares numbers one after the other (134 µs to install such a
//! program, see the timing test for this one), knows no user notification, and spends five instructions
//! on a value where one does.

use super::Options;
use super::rule::{Case, Errno, Row, Test, Verdict};
use super::syscalls::{AUDIT_ARCH, FOREIGN, NEWEST};

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

/// Why there is no program.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Error {
    /// Two rows, or one row twice, name the call.
    #[error("system call filter: {0} is listed twice")]
    Duplicate(&'static str),
    /// A row names a call beyond the newest that was looked at.
    #[error("system call filter: {0} is newer than the newest known call")]
    Unreviewed(&'static str),
    /// One row has more cases, or one case more tests, than a jump can skip.
    #[error("system call filter: a jump over {0} instructions is too long")]
    Jump(usize),
    /// Longer than the kernel takes.
    #[error("system call filter: {0} instructions are more than BPF_MAXINSNS")]
    Length(usize),
}

impl Instruction {
    /// As the kernel, and our own messages, lay it out in memory.
    pub(crate) fn to_bytes(self) -> [u8; 8] {
        let [c0, c1] = self.code.to_ne_bytes();
        let [k0, k1, k2, k3] = self.k.to_ne_bytes();
        [c0, c1, self.jt, self.jf, k0, k1, k2, k3]
    }
}

/// BPF_MAXINSNS (linux/bpf_common.h).
const MAX_LENGTH: usize = 4096;

// Instruction codes (linux/bpf_common.h), each the whole of class, size or operation, and mode.
pub(super) const LD_W_ABS: u16 = 0x20;
pub(super) const ALU_AND_K: u16 = 0x54;
pub(super) const JMP_JA: u16 = 0x05;
pub(super) const JMP_JEQ_K: u16 = 0x15;
pub(super) const JMP_JGE_K: u16 = 0x35;
pub(super) const RET_K: u16 = 0x06;

// Offsets in `struct seccomp_data` (linux/seccomp.h).
const NUMBER: u32 = 0;
const ARCH: u32 = 4;
const ARGS: u32 = 16;

// Return values (linux/seccomp.h).
pub(super) const RET_KILL_PROCESS: u32 = 0x8000_0000;
pub(super) const RET_ERRNO: u32 = 0x0005_0000;
pub(super) const RET_USER_NOTIF: u32 = 0x7fc0_0000;
pub(super) const RET_ALLOW: u32 = 0x7fff_0000;

/// The program for a table.
pub(super) fn build(table: &[Row], options: &Options) -> Result<Vec<Instruction>, Error> {
    let mut program = vec![
        load(ARCH),
        Instruction { code: JMP_JEQ_K, jt: 1, jf: 0, k: AUDIT_ARCH },
        ret(Verdict::Kill),
        load(NUMBER),
    ];
    program.extend(search(&ranges(table, options)?)?);
    if program.len() > MAX_LENGTH {
        return Err(Error::Length(program.len()));
    }
    Ok(program)
}

/// What happens to a number, once the options are known.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Fate {
    cases: Vec<Case>,
    otherwise: Verdict,
}

impl Fate {
    fn always(verdict: Verdict) -> Self {
        Fate { cases: Vec::new(), otherwise: verdict }
    }
}

/// Numbers from `first` to the next range's first that share a fate.
struct Range {
    first: u32,
    fate: Fate,
}

/// All 32-bit numbers, ascending and without gaps: what the table names, and ENOSYS for the rest.
fn ranges(table: &[Row], options: &Options) -> Result<Vec<Range>, Error> {
    let mut named: Vec<(u32, &'static str, &Row)> = Vec::new();
    for row in table {
        named.extend(row.calls.iter().map(|call| (call.number, call.name, row)));
    }
    named.sort_by_key(|(number, ..)| *number);

    let unknown = Fate::always(Verdict::Deny(Errno::ENOSYS));
    let mut ranges = Vec::new();
    let mut next = 0;
    for (number, name, row) in named {
        if number > NEWEST {
            return Err(Error::Unreviewed(name));
        }
        if number < next {
            return Err(Error::Duplicate(name));
        }
        if number > next {
            push(&mut ranges, next, unknown.clone());
        }
        let (cases, otherwise) = row.resolve(options);
        push(&mut ranges, number, Fate { cases, otherwise });
        next = number + 1;
    }
    push(&mut ranges, next, unknown.clone());
    push(&mut ranges, *FOREIGN.start(), Fate::always(Verdict::Kill));
    push(&mut ranges, FOREIGN.end() + 1, unknown);
    Ok(ranges)
}

fn push(ranges: &mut Vec<Range>, first: u32, fate: Fate) {
    if ranges.last().is_none_or(|last| last.fate != fate) {
        ranges.push(Range { first, fate });
    }
}

/// Binary search for the number in the accumulator.
fn search(ranges: &[Range]) -> Result<Vec<Instruction>, Error> {
    let (low, high) = ranges.split_at(ranges.len() / 2);
    let ([_, ..], [middle, ..]) = (low, high) else {
        return ranges.first().map_or(Ok(Vec::new()), |only| decide(&only.fate));
    };
    let (low, high) = (search(low)?, search(high)?);
    // The lower half follows; the upper one is reached by a jump over it, a conditional one where its
    // eight bits of distance suffice.
    let mut program = match u8::try_from(low.len()) {
        Ok(distance) => vec![Instruction { code: JMP_JGE_K, jt: distance, jf: 0, k: middle.first }],
        Err(_) => vec![
            Instruction { code: JMP_JGE_K, jt: 0, jf: 1, k: middle.first },
            Instruction {
                code: JMP_JA,
                jt: 0,
                jf: 0,
                k: u32::try_from(low.len()).map_err(|_| Error::Length(low.len()))?,
            },
        ],
    };
    program.extend(low);
    program.extend(high);
    Ok(program)
}

/// The end of the search: a verdict, perhaps after looking at arguments.
fn decide(fate: &Fate) -> Result<Vec<Instruction>, Error> {
    let mut program = Vec::new();
    for case in &fate.cases {
        // Built backwards, so that each test knows how far the next case is.
        let mut code = vec![ret(case.then)];
        for test in case.all.iter().rev() {
            let mut front = check(test, code.len())?;
            front.append(&mut code);
            code = front;
        }
        program.extend(code);
    }
    program.push(ret(fate.otherwise));
    Ok(program)
}

/// Falls through when the test holds, else skips `rest` instructions more than itself.
fn check(test: &Test, rest: usize) -> Result<Vec<Instruction>, Error> {
    match *test {
        Test::Low { arg, mask, values } => {
            let mut code = vec![load(low_half(arg.0))];
            if mask != u32::MAX {
                code.push(Instruction { code: ALU_AND_K, jt: 0, jf: 0, k: mask });
            }
            for (position, &value) in values.iter().enumerate() {
                let others = values.len() - position - 1;
                let miss = if others == 0 { rest } else { 0 };
                code.push(equal(value, others, miss)?);
            }
            Ok(code)
        }
        Test::Null { arg } => Ok(vec![
            load(low_half(arg.0)),
            equal(0, 0, rest + 2)?,
            load(high_half(arg.0)),
            equal(0, 0, rest)?,
        ]),
    }
}

// Every architecture that Landlock programs are built for here is little-endian.
fn low_half(arg: u8) -> u32 {
    ARGS + 8 * u32::from(arg)
}

fn high_half(arg: u8) -> u32 {
    low_half(arg) + 4
}

fn load(offset: u32) -> Instruction {
    Instruction { code: LD_W_ABS, jt: 0, jf: 0, k: offset }
}

fn equal(value: u32, hit: usize, miss: usize) -> Result<Instruction, Error> {
    Ok(Instruction { code: JMP_JEQ_K, jt: distance(hit)?, jf: distance(miss)?, k: value })
}

fn distance(instructions: usize) -> Result<u8, Error> {
    u8::try_from(instructions).map_err(|_| Error::Jump(instructions))
}

fn ret(verdict: Verdict) -> Instruction {
    let k = match verdict {
        Verdict::Allow => RET_ALLOW,
        Verdict::Notify => RET_USER_NOTIF,
        Verdict::Deny(errno) => RET_ERRNO | errno as u32,
        Verdict::Kill => RET_KILL_PROCESS,
    };
    Instruction { code: RET_K, jt: 0, jf: 0, k }
}

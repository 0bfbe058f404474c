//! The messages between launcher and broker.
//!
//! They travel over an inherited `SOCK_SEQPACKET` socket pair, one message a packet, in the byte
//! order of the machine: both ends are one build on one machine. Unknown types, other sizes,
//! trailing bytes and unexpected descriptors are fatal to the receiver. End of file is a message too:
//! to the child it says that nothing is to run, to the broker that the tool has been executed.

use core::fmt::{self, Write};

/// Largest message in bytes; a program search path of a few thousand entries still fits, and the
/// kernel's default limit for a packet (net.core.wmem_default, 208 KiB) is well above it.
pub const MESSAGE_MAX: usize = 64 * 1024;

const PLAN_MAGIC: u32 = u32::from_ne_bytes(*b"LSP1");
const FILTER_MAGIC: u32 = u32::from_ne_bytes(*b"LSF3");

/// What the launcher puts into the third register of landlock_restrict_self(2), which the kernel does not look
/// at: so the filter tells the command's domain from those that the command puts itself in later. Whoever
/// else does that hides a domain of its own from the broker, and gains nothing.
pub const OF_LAUNCHER: u32 = u32::from_ne_bytes(*b"LSD1");

/// Bytes of one `struct sock_filter`.
pub const INSTRUCTION_SIZE: usize = 8;

/// Why a message cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WireError {
    /// What it is to say cannot be said.
    Malformed,
    /// The message does not fit [`MESSAGE_MAX`] or a count its field.
    TooLarge,
}

/// Broker to child, first and without a descriptor: the filter, so that the child installs it while
/// the broker still compiles the ruleset.
///
/// ```text
/// offset 0   u32  magic "LSF3"
///        4   u32  1 if the listener is handed over by its number, else 0
///        8   u32  instructions of the first program, at least one
///       12   8 bytes an instruction; then the second program, which may have none
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Filter<'a> {
    /// The first program notifies sendmsg(2), by which the listener could not leave the child any
    /// more: the broker takes it by its number.
    pub by_number: bool,
    /// The instructions as the kernel lays them out.
    pub program: &'a [u8],
    /// What is installed where the kernel gives no listener; empty if nothing is to run there.
    pub alone: &'a [u8],
}

impl<'a> Filter<'a> {
    /// Bytes before the programs.
    pub const HEADER: usize = 12;

    /// Decodes a packet.
    pub fn decode(packet: &'a [u8]) -> Option<Self> {
        let (header, programs) = packet.split_at_checked(Self::HEADER)?;
        let by_number = match (word(header, 0), word(header, 4)) {
            (FILTER_MAGIC, handover @ (0 | 1)) => handover == 1,
            _ => return None,
        };
        let length = usize::try_from(word(header, 8)).ok()?.checked_mul(INSTRUCTION_SIZE)?;
        let (program, alone) = programs.split_at_checked(length)?;
        let is_whole = !program.is_empty() && alone.len().is_multiple_of(INSTRUCTION_SIZE);
        is_whole.then_some(Self { by_number, program, alone })
    }

    /// Encodes the message into `buffer` and returns its length.
    ///
    /// # Errors
    /// Returns [`WireError::TooLarge`] if it does not fit, [`WireError::Malformed`] for a program
    /// that is not whole instructions.
    pub fn encode(&self, buffer: &mut [u8]) -> Result<usize, WireError> {
        let whole = |program: &[u8]| program.len().is_multiple_of(INSTRUCTION_SIZE);
        if self.program.is_empty() || !whole(self.program) || !whole(self.alone) {
            return Err(WireError::Malformed);
        }
        let count = u32::try_from(self.program.len() / INSTRUCTION_SIZE);
        let mut out = Encoder::new(buffer);
        out.put(&FILTER_MAGIC.to_ne_bytes())?;
        out.put(&u32::from(self.by_number).to_ne_bytes())?;
        out.put(&count.map_err(|_| WireError::TooLarge)?.to_ne_bytes())?;
        out.put(self.program)?;
        out.put(self.alone)?;
        Ok(out.length())
    }
}

/// Broker to child, second, with the Landlock ruleset as its one descriptor: what to become.
///
/// ```text
/// offset 0   u32  magic "LSP1"
///        4   u32  index in argv of the tool, at least 1
///        8   u16  number of candidate paths, at least 1
///       10   u16  number of environment changes
///       12   the paths, then the changes, each ended by NUL
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Plan<'a> {
    /// Index in the launcher's argv of the tool's name; its arguments follow.
    pub argv_index: usize,
    /// Paths to try in order, as execvp(3) does.
    pub paths: Strings<'a>,
    /// `NAME=VALUE` to set, `NAME` alone to remove.
    pub environment: Strings<'a>,
}

/// A sequence of NUL-terminated strings in one buffer.
#[derive(Clone, Copy, Debug)]
pub struct Strings<'a> {
    count: usize,
    bytes: &'a [u8],
}

impl<'a> Strings<'a> {
    /// Takes the first `count` strings off `bytes`.
    pub(crate) fn split_off(count: usize, bytes: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let mut end = 0;
        for _ in 0..count {
            let length = bytes[end..].iter().position(|&b| b == 0).filter(|length| *length > 0)?;
            end += length + 1;
        }
        Some((Self { count, bytes: &bytes[..end] }, &bytes[end..]))
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Each string with its terminating NUL.
    pub fn iter(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        self.bytes.split_inclusive(|&b| b == 0)
    }
}

impl<'a> Plan<'a> {
    /// Bytes before the strings.
    pub const HEADER: usize = 12;

    /// Decodes a packet.
    pub fn decode(packet: &'a [u8]) -> Option<Self> {
        let (header, rest) = packet.split_at_checked(Self::HEADER)?;
        let short = |at: usize| usize::from(u16::from_ne_bytes([header[at], header[at + 1]]));
        let argv_index = usize::try_from(word(header, 4)).ok()?;
        if word(header, 0) != PLAN_MAGIC || argv_index == 0 || short(8) == 0 {
            return None;
        }
        let (paths, rest) = Strings::split_off(short(8), rest)?;
        let (environment, rest) = Strings::split_off(short(10), rest)?;
        rest.is_empty().then_some(Self { argv_index, paths, environment })
    }

    /// Encodes a plan into `buffer` and returns its length. The strings come without NUL.
    ///
    /// # Errors
    /// Returns [`WireError::TooLarge`] if it does not fit, [`WireError::Malformed`] for an empty
    /// string or one with a NUL inside.
    pub fn encode(
        buffer: &mut [u8],
        argv_index: usize,
        paths: &[&[u8]],
        environment: &[&[u8]],
    ) -> Result<usize, WireError> {
        let mut out = Encoder::new(buffer);
        let short = |n: usize| u16::try_from(n).map_err(|_| WireError::TooLarge);
        out.put(&PLAN_MAGIC.to_ne_bytes())?;
        out.put(&u32::try_from(argv_index).map_err(|_| WireError::TooLarge)?.to_ne_bytes())?;
        for count in [paths.len(), environment.len()] {
            out.put(&short(count)?.to_ne_bytes())?;
        }
        for string in paths.iter().chain(environment) {
            out.put_string(string)?;
        }
        Ok(out.length())
    }
}

fn word(header: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
}

/// Writes a message into what the caller gives.
pub(crate) struct Encoder<'a> {
    buffer: &'a mut [u8],
    length: usize,
}

impl<'a> Encoder<'a> {
    pub(crate) fn new(buffer: &'a mut [u8]) -> Self {
        let limit = buffer.len().min(MESSAGE_MAX);
        Self { buffer: &mut buffer[..limit], length: 0 }
    }

    pub(crate) fn put(&mut self, bytes: &[u8]) -> Result<(), WireError> {
        let end = self.length + bytes.len();
        self.buffer.get_mut(self.length..end).ok_or(WireError::TooLarge)?.copy_from_slice(bytes);
        self.length = end;
        Ok(())
    }

    /// Puts a string and the NUL that ends it.
    pub(crate) fn put_string(&mut self, string: &[u8]) -> Result<(), WireError> {
        if string.is_empty() || string.contains(&0) {
            return Err(WireError::Malformed);
        }
        self.put(string)?;
        self.put(&[0])
    }

    pub(crate) fn length(&self) -> usize {
        self.length
    }
}

/// The step of the child that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The plan could not be received or understood.
    Plan = 1,
    /// landlock_restrict_self(2) refused.
    Restrict = 2,
    /// seccomp(2) refused the filter.
    Filter = 3,
    /// The new environment could not be built.
    Environment = 4,
    /// execve(2) refused every candidate.
    Execute = 5,
}

/// Child to broker: how far it got. `Listening` carries the listener as its one descriptor.
///
/// ```text
/// offset 0   u8   0 listening, 6 alone, 7 listening by number, else the step that failed
///        1   3 bytes zero
///        4   i32  errno, 0 when none failed; with 7 the number of the listener
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The filter is in force; the plan can come.
    Listening,
    /// The filter is in force. The child keeps the listener as this descriptor until it has the plan.
    ListeningAs(i32),
    /// The kernel gives no listener: the other filter is in force.
    Alone,
    /// Nothing of the tool ran, and nothing will.
    Failed(Step, i32),
}

impl Progress {
    /// Bytes of the message.
    pub const SIZE: usize = 8;

    /// Encodes the message.
    #[must_use]
    pub fn encode(self) -> [u8; Self::SIZE] {
        let (tag, errno) = match self {
            Self::Listening => (0, 0),
            Self::Alone => (6, 0),
            Self::ListeningAs(number) => (7, number),
            Self::Failed(step, errno) => (step as u8, errno),
        };
        let [a, b, c, d] = i32::to_ne_bytes(errno);
        [tag, 0, 0, 0, a, b, c, d]
    }

    /// Decodes a packet.
    pub fn decode(packet: &[u8]) -> Option<Self> {
        let &[tag, 0, 0, 0, a, b, c, d] = packet else { return None };
        let errno = i32::from_ne_bytes([a, b, c, d]);
        let steps = [Step::Plan, Step::Restrict, Step::Filter, Step::Environment, Step::Execute];
        match tag {
            0 if errno == 0 => Some(Self::Listening),
            6 if errno == 0 => Some(Self::Alone),
            7 if errno >= 0 => Some(Self::ListeningAs(errno)),
            _ => {
                let step = steps.into_iter().find(|step| *step as u8 == tag)?;
                Some(Self::Failed(step, errno))
            }
        }
    }
}

/// Launcher to broker, as the broker's own name: `landstrip-broker:CONTROL:CHILD:SCOPE:GUARDIAN:INPUT`.
///
/// It replaces one pointer of the launcher's own argument vector, so that the vector needs no copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handover {
    /// Descriptor of the broker's end of the socket pair.
    pub control: i32,
    /// Process that waits for the plan.
    pub child: i32,
    /// 0 if the signal scope (D0) is in force, else the errno that refused it.
    pub scope_errno: i32,
    /// Process that ends what the command started if the broker does not; 0 if there is none, because
    /// D0 is not in force.
    pub guardian: i32,
    /// The standard input is a pipe that the caller has as its own, too; `None` if the caller cannot be looked at.
    pub shares_input: Option<bool>,
}

impl Handover {
    const PREFIX: &'static str = "landstrip-broker";

    /// Writes the text form, without NUL.
    pub fn write(&self, out: &mut impl Write) -> fmt::Result {
        let Self { control, child, scope_errno, guardian, shares_input } = self;
        let input = shares_input.map_or(2, i32::from);
        write!(out, "{}:{control}:{child}:{scope_errno}:{guardian}:{input}", Self::PREFIX)
    }

    /// Parses the text form; `None` for anything that [`Handover::write`] does not write.
    pub fn parse(text: &str) -> Option<Self> {
        let mut fields = text.split(':');
        if fields.next() != Some(Self::PREFIX) {
            return None;
        }
        let mut number = || fields.next()?.parse().ok().filter(|&n: &i32| n >= 0);
        let handover = Self {
            control: number()?,
            child: number()?,
            scope_errno: number()?,
            guardian: number()?,
            shares_input: Some(number()?).filter(|n| *n < 2).map(|n| n == 1),
        };
        let is_whole = fields.next().is_none() && handover.control >= 3 && handover.child >= 2;
        is_whole.then_some(handover)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::{string::String, vec, vec::Vec};

    fn encoded() -> Vec<u8> {
        let mut buffer = vec![0; MESSAGE_MAX];
        let paths: [&[u8]; 2] = [b"/bin/true", b"/usr/bin/true"];
        let changes: [&[u8]; 2] = [b"TMPDIR=/tmp/x", b"NO_PROXY"];
        let length = Plan::encode(&mut buffer, 3, &paths, &changes).unwrap();
        buffer.truncate(length);
        buffer
    }

    #[test]
    fn a_plan_survives_the_wire() {
        let packet = encoded();
        let plan = Plan::decode(&packet).unwrap();
        assert_eq!(plan.argv_index, 3);
        assert_eq!(
            plan.paths.iter().collect::<Vec<_>>(),
            [&b"/bin/true\0"[..], b"/usr/bin/true\0"]
        );
        assert_eq!(
            plan.environment.iter().collect::<Vec<_>>(),
            [&b"TMPDIR=/tmp/x\0"[..], b"NO_PROXY\0"]
        );
    }

    #[test]
    fn every_cut_and_every_extra_byte_is_refused() {
        let packet = encoded();
        for length in 0..packet.len() {
            assert!(Plan::decode(&packet[..length]).is_none(), "{length}");
        }
        let mut longer = packet.clone();
        longer.push(0);
        assert!(Plan::decode(&longer).is_none());
    }

    #[test]
    fn a_plan_that_is_too_large_or_has_bad_strings_is_not_encoded() {
        let mut buffer = vec![0; MESSAGE_MAX];
        let long = vec![b'x'; MESSAGE_MAX];
        for (paths, expected) in [
            (&[&long[..]][..], WireError::TooLarge),
            (&[&b""[..]], WireError::Malformed),
            (&[&b"a\0b"[..]], WireError::Malformed),
        ] {
            assert_eq!(Plan::encode(&mut buffer, 1, paths, &[]), Err(expected));
        }
    }

    #[test]
    fn a_filter_survives_the_wire_whole_or_not_at_all() {
        let mut buffer = vec![0; MESSAGE_MAX];
        let (program, other) = ([7; 16], [8; 8]);
        let length = Filter::HEADER + program.len();
        for (by_number, alone) in [(false, &[][..]), (false, &other), (true, &[])] {
            let filter = Filter { by_number, program: &program, alone };
            let whole = filter.encode(&mut buffer).unwrap();
            let decoded = Filter::decode(&buffer[..whole]).unwrap();
            assert_eq!(decoded.by_number, by_number);
            assert_eq!((decoded.program, decoded.alone), (&program[..], alone));
            // Without its last instructions it is another one, of the second program at most.
            for shorter in (0..whole).filter(|shorter| *shorter != length) {
                assert!(Filter::decode(&buffer[..shorter]).is_none(), "{shorter}");
            }
        }
        buffer[4] = 2;
        assert!(Filter::decode(&buffer[..length]).is_none(), "no such way to hand over");
        let large = vec![0; MESSAGE_MAX];
        for (program, alone) in
            [(&[0; 7][..], &[][..]), (&[], &[]), (&large, &[]), (&[0; 8], &[0; 7])]
        {
            assert!(Filter { by_number: false, program, alone }.encode(&mut buffer).is_err());
        }
        let mut zero = vec![0; 20];
        zero[..4].copy_from_slice(&FILTER_MAGIC.to_ne_bytes());
        assert!(Filter::decode(&zero).is_none(), "no first program");
        zero[8..12].copy_from_slice(&u32::MAX.to_ne_bytes());
        assert!(Filter::decode(&zero).is_none());
        assert!(Plan::decode(&buffer[..length]).is_none());
    }

    #[test]
    fn progress_survives_the_wire_and_nothing_else_passes() {
        for progress in [
            Progress::Listening,
            Progress::Alone,
            Progress::ListeningAs(4),
            Progress::Failed(Step::Plan, 5),
            Progress::Failed(Step::Restrict, 1),
            Progress::Failed(Step::Filter, 16),
            Progress::Failed(Step::Environment, 12),
            Progress::Failed(Step::Execute, 2),
        ] {
            assert_eq!(Progress::decode(&progress.encode()), Some(progress));
        }
        for packet in [
            &[][..],
            &[0; 7],
            &[0; 9],
            &[8, 0, 0, 0, 0, 0, 0, 0],
            &[7, 0, 0, 0, 255, 255, 255, 255],
            &[6, 0, 0, 0, 1, 0, 0, 0],
            &[1, 1, 0, 0, 0, 0, 0, 0],
        ] {
            assert!(Progress::decode(packet).is_none(), "{packet:?}");
        }
    }

    #[test]
    fn handover_survives_and_other_names_are_refused() {
        let handover = Handover {
            control: 3,
            child: 42,
            scope_errno: 0,
            guardian: 43,
            shares_input: Some(true),
        };
        let mut text = String::new();
        handover.write(&mut text).unwrap();
        assert_eq!(Handover::parse(&text), Some(handover));
        for text in [
            "landstrip-broker",
            "landstrip-broker:2:42:0:0:0",
            "landstrip-broker:3:1:0:0:0",
            "landstrip-broker:3:42:0:0",
            "landstrip-broker:3:42:0:0:0:0",
            "landstrip-broker:3:-4:0:0:0",
            "landstrip:3:42:0:0:0",
        ] {
            assert_eq!(Handover::parse(text), None, "{text}");
        }
    }
}

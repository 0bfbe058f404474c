//! Messages where they lie in the target's memory: the arguments of sendto(2), sendmsg(2) and
//! sendmmsg(2), with the checks that the kernel makes as it copies them (net/socket.c).

use kernel::address::{ADDRESS_MAX, Address};
use kernel::target::{Target, TargetAddress};
use rustix::io::{self, Errno};

/// Most parts of a message (UIO_MAXIOV).
const PARTS_MAX: u64 = 1024;
/// Most bytes that one call sends (MAX_RW_COUNT).
const LENGTH_MAX: usize = 0x7fff_f000;
/// Most ancillary data. The kernel's limit, net.core.optmem_max, was this for long.
const CONTROL_MAX: usize = 20_480;

/// A message where it lies in the target's memory.
#[derive(Debug)]
pub(crate) struct OutgoingMessage {
    name: (TargetAddress, usize),
    parts: Vec<(TargetAddress, usize)>,
    control: (TargetAddress, usize),
}

impl OutgoingMessage {
    /// Bytes of a `struct mmsghdr`, and where in it the length goes that was sent.
    pub(crate) const STRIDE: u64 = 64;
    pub(crate) const SENT_AT: u64 = 56;

    /// What sendto(2) is given.
    ///
    /// # Errors
    /// Returns [`Errno::INVAL`] for a length of the address that the kernel refuses.
    pub(crate) fn of_data(
        data: TargetAddress,
        length: u64,
        name: TargetAddress,
        name_length: u32,
    ) -> io::Result<Self> {
        let name_length = usize::try_from(name_length).map_err(|_| Errno::INVAL)?;
        if !name.is_null() && name_length > ADDRESS_MAX {
            return Err(Errno::INVAL);
        }
        let length = usize::try_from(length).unwrap_or(LENGTH_MAX).min(LENGTH_MAX);
        Ok(Self { name: (name, name_length), parts: vec![(data, length)], control: (data, 0) })
    }

    /// Reads the `struct msghdr` at `address`.
    ///
    /// # Errors
    /// Returns what sendmsg(2) returns for it, and as [`Target::read`].
    pub(crate) fn read(target: Target, address: TargetAddress) -> io::Result<Self> {
        let [name, name_length, parts, count, control, control_length] =
            target.read_words(address)?;
        // An int, and padding. A longer address counts as one of the longest.
        let name_length = match (name, name_length & 0xffff_ffff) {
            (0, _) => 0,
            (_, 0x8000_0000..) => return Err(Errno::INVAL),
            (_, length) => usize::try_from(length).map_err(|_| Errno::INVAL)?.min(ADDRESS_MAX),
        };
        if count > PARTS_MAX {
            return Err(Errno::MSGSIZE);
        }
        let count = usize::try_from(count).map_err(|_| Errno::MSGSIZE)?;
        let control_length = usize::try_from(control_length).unwrap_or(usize::MAX);
        if control_length > CONTROL_MAX {
            return Err(Errno::NOBUFS);
        }
        let mut list = vec![[[0; 8]; 2]; count];
        let bytes = list.as_flattened_mut().as_flattened_mut();
        target.read(TargetAddress::new(parts), bytes)?;
        let mut room = LENGTH_MAX;
        let parts = list.into_iter().map(|part| {
            let [at, length] = part.map(u64::from_ne_bytes);
            // A ssize_t.
            let length = usize::try_from(length).ok().filter(|length| length >> 63 == 0);
            let length = length.ok_or(Errno::INVAL)?.min(room);
            room -= length;
            Ok((TargetAddress::new(at), length))
        });
        let parts = parts.collect::<io::Result<_>>()?;
        let at = TargetAddress::new;
        Ok(Self { name: (at(name), name_length), parts, control: (at(control), control_length) })
    }

    /// How many bytes there are to send.
    pub(crate) fn length(&self) -> usize {
        self.parts.iter().map(|(_, length)| length).sum()
    }

    /// Copies the address, if there is one.
    pub(crate) fn name(&self, target: Target) -> io::Result<Option<Address>> {
        let (at, length) = self.name;
        if at.is_null() || length == 0 {
            return Ok(None);
        }
        let length = u32::try_from(length).map_err(|_| Errno::INVAL)?;
        Address::copy(target, at, length).map(Some)
    }

    /// Copies the ancillary data.
    pub(crate) fn control(&self, target: Target) -> io::Result<Vec<u8>> {
        let (at, length) = self.control;
        let mut bytes = vec![0; length];
        target.read(at, &mut bytes)?;
        Ok(bytes)
    }

    /// Copies at most `most` of the bytes from `skip` on.
    pub(crate) fn data(&self, target: Target, mut skip: usize, most: usize) -> io::Result<Vec<u8>> {
        let mut taken = Vec::with_capacity(self.parts.len());
        let mut total = 0;
        for &(at, length) in &self.parts {
            let skipped = skip.min(length);
            skip -= skipped;
            let length = (length - skipped).min(most - total);
            if length > 0 {
                taken.push((at.plus(skipped as u64)?, length));
                total += length;
            }
        }
        let mut bytes = vec![0; total];
        target.gather(&taken, &mut bytes)?;
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The test's own memory.
    fn own() -> Target {
        Target::new(rustix::process::getpid())
    }

    fn word<T: ?Sized>(value: &T) -> u64 {
        std::ptr::from_ref(value).cast::<u8>() as u64
    }

    fn at<T: ?Sized>(value: &T) -> TargetAddress {
        TargetAddress::new(word(value))
    }

    #[test]
    fn any_part_of_a_message_is_copied_in_order() {
        let (one, two) = (*b"abc", *b"defgh");
        let parts = vec![(at(&one), 3), (TargetAddress::new(8), 0), (at(&two), 5)];
        let message = OutgoingMessage { name: (at(&one), 0), parts, control: (at(&one), 0) };
        assert_eq!(message.length(), 8);
        for skip in 0..=8 {
            for most in 0..=9 {
                let expected = &b"abcdefgh"[skip..(skip + most).min(8)];
                assert_eq!(message.data(own(), skip, most).unwrap(), expected, "{skip} {most}");
            }
        }
    }

    #[test]
    fn a_header_is_read_as_the_kernel_reads_it() {
        let data = *b"data";
        let parts = [word(&data), 4, word(&data), u64::MAX >> 1];
        let header = |words: [u64; 6]| OutgoingMessage::read(own(), at(&words));
        let message =
            header([word(&data), 0xdead_0000_0003, word(&parts), 2, word(&data), 4]).unwrap();
        assert_eq!((message.name, message.control), ((at(&data), 3), (at(&data), 4)));
        // All of it counts as no more than one call sends.
        assert_eq!(message.length(), LENGTH_MAX);
        assert_eq!(header([word(&data), 999, 0, 0, 0, 0]).unwrap().name.1, ADDRESS_MAX);
        assert!(header([0, 999, 0, 0, 0, 0]).unwrap().name(own()).unwrap().is_none());
        for (words, expected) in [
            ([word(&data), 0x8000_0000, 0, 0, 0, 0], Errno::INVAL),
            ([0, 0, word(&parts), 1025, 0, 0], Errno::MSGSIZE),
            ([0, 0, 8, 1, 0, 0], Errno::FAULT),
            ([0, 0, word(&[0, u64::MAX]), 1, 0, 0], Errno::INVAL),
            ([0, 0, 0, 0, 0, CONTROL_MAX as u64 + 1], Errno::NOBUFS),
        ] {
            assert_eq!(header(words).unwrap_err(), expected, "{words:?}");
        }
    }
}

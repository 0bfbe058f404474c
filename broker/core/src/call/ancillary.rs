//! Ancillary data of a Unix or netlink socket: descriptors and credentials that travel with a message
//! (cmsg(3), unix(7)).
//!
//! It is taken apart as the kernel does it (`__scm_send` in net/core/scm.c) and put together anew, so
//! that the kernel gets nothing from the broker but what was understood here.

use kernel::target::TargetFd;
use rustix::io::Errno;
use std::os::fd::RawFd;

/// `struct cmsghdr`: length with itself, level, type.
const HEADER: usize = 16;
/// Most descriptors of one message (SCM_MAX_FD).
const DESCRIPTORS_MAX: usize = 253;

const SOL_SOCKET: i32 = 1;
const SCM_RIGHTS: i32 = 1;
const SCM_CREDENTIALS: i32 = 2;

/// What travels along.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ancillary {
    /// The sender's descriptors.
    pub(crate) descriptors: Vec<TargetFd>,
    /// Who the sender says to be.
    pub(crate) sender: Option<Sender>,
}

/// `struct ucred`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sender {
    pub(crate) process: i32,
    pub(crate) user: u32,
    pub(crate) group: u32,
}

impl Ancillary {
    /// Takes `bytes` apart.
    ///
    /// # Errors
    /// Returns [`Errno::INVAL`] for what the kernel refuses so.
    pub(crate) fn parse(mut bytes: &[u8]) -> Result<Self, Errno> {
        let mut found = Self::default();
        while let Some((length, level, kind)) = header(bytes) {
            let data = bytes.get(HEADER..length).ok_or(Errno::INVAL)?;
            match (level, kind) {
                (SOL_SOCKET, SCM_RIGHTS) => {
                    // What is left over of a number is none.
                    let numbers = data.as_chunks().0.iter();
                    let numbers = numbers.map(|&number| TargetFd::new(i32::from_ne_bytes(number)));
                    found.descriptors.extend(numbers);
                    if found.descriptors.len() > DESCRIPTORS_MAX {
                        return Err(Errno::INVAL);
                    }
                }
                (SOL_SOCKET, SCM_CREDENTIALS) => {
                    let (&[process, user, group], []) = data.as_chunks() else {
                        return Err(Errno::INVAL);
                    };
                    found.sender = Some(Sender {
                        process: i32::from_ne_bytes(process),
                        user: u32::from_ne_bytes(user),
                        group: u32::from_ne_bytes(group),
                    });
                }
                (SOL_SOCKET, _) => return Err(Errno::INVAL),
                // For another protocol: the kernel passes it over.
                _ => {}
            }
            bytes = bytes.get(length.next_multiple_of(8)..).unwrap_or_default();
        }
        Ok(found)
    }

    /// Puts together what the broker sends: its own `descriptors`, and who the sender is said to be.
    pub(crate) fn encode(descriptors: &[RawFd], sender: Option<Sender>) -> Vec<u8> {
        let mut bytes = Vec::new();
        if !descriptors.is_empty() {
            let numbers: Vec<u8> = descriptors.iter().flat_map(|n| n.to_ne_bytes()).collect();
            put(&mut bytes, SCM_RIGHTS, &numbers);
        }
        if let Some(Sender { process, user, group }) = sender {
            let parts = [process.to_ne_bytes(), user.to_ne_bytes(), group.to_ne_bytes()];
            put(&mut bytes, SCM_CREDENTIALS, parts.as_flattened());
        }
        bytes
    }
}

/// Length, level and type at the front of `bytes`, if a header fits in there.
fn header(bytes: &[u8]) -> Option<(usize, i32, i32)> {
    let (&length, rest) = bytes.split_first_chunk()?;
    let (&level, rest) = rest.split_first_chunk()?;
    let kind = rest.first_chunk()?;
    Some((usize::from_ne_bytes(length), i32::from_ne_bytes(level), i32::from_ne_bytes(*kind)))
}

fn put(bytes: &mut Vec<u8>, kind: i32, data: &[u8]) {
    bytes.extend((HEADER + data.len()).to_ne_bytes());
    bytes.extend(SOL_SOCKET.to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(data);
    bytes.resize(bytes.len().next_multiple_of(8), 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(length: usize, level: i32, kind: i32, data: &[u8]) -> Vec<u8> {
        let mut bytes = length.to_ne_bytes().to_vec();
        bytes.extend(level.to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(data);
        bytes
    }

    fn numbers(count: i32) -> Vec<u8> {
        (0..count).flat_map(i32::to_ne_bytes).collect()
    }

    #[test]
    fn what_is_put_together_is_taken_apart_alike() {
        let sender = Some(Sender { process: 1, user: 2, group: 3 });
        for descriptors in [vec![], vec![7], vec![7, 8], (0..253).collect()] {
            for sender in [None, sender] {
                let bytes = Ancillary::encode(&descriptors, sender);
                assert!(bytes.len().is_multiple_of(8));
                let descriptors = descriptors.iter().copied().map(TargetFd::new).collect();
                assert_eq!(Ancillary::parse(&bytes), Ok(Ancillary { descriptors, sender }));
            }
        }
    }

    #[test]
    fn several_parts_add_up_and_other_protocols_are_passed_over() {
        let bytes = [
            part(20, 1, 1, &[5, 0, 0, 0, 0, 0, 0, 0]),
            part(17, 41, 50, &[1, 0, 0, 0, 0, 0, 0, 0]),
            part(24, 1, 1, &numbers(2)),
            part(16, 1, 1, &[]),
        ];
        let found = Ancillary::parse(&bytes.concat()).unwrap();
        assert_eq!(
            found,
            Ancillary { descriptors: [5, 0, 1].map(TargetFd::new).to_vec(), sender: None }
        );
    }

    #[test]
    fn what_the_kernel_refuses_is_refused() {
        for bytes in [
            // Shorter than a header, longer than the rest.
            part(0, 1, 1, &[]),
            part(15, 1, 1, &[0; 8]),
            part(25, 1, 1, &[0; 8]),
            part(usize::MAX, 1, 1, &[0; 8]),
            part(usize::MAX - 6, 41, 1, &[0; 8]),
            // Too many, also in two parts.
            part(16 + 254 * 4, 1, 1, &numbers(254)),
            [part(16 + 252 * 4, 1, 1, &numbers(252)), part(24, 1, 1, &numbers(2))].concat(),
            // Not the size of credentials.
            part(24, 1, 2, &[0; 8]),
            part(32, 1, 2, &[0; 16]),
            // Received only, or unknown.
            part(20, 1, 3, &[0; 8]),
            part(20, 1, 4, &[0; 8]),
        ] {
            assert_eq!(Ancillary::parse(&bytes), Err(Errno::INVAL), "{bytes:?}");
        }
        for rest in 0..16 {
            assert_eq!(Ancillary::parse(&vec![1; rest]), Ok(Ancillary::default()), "no header");
        }
    }
}

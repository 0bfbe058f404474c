//! The launcher's own process becomes the broker: the same id, which the caller knows, and the ancestor of
//! all that the broker supervises.

#![allow(unsafe_code)]

use crate::failure::{Failure, Text};
use crate::start::Arguments;
use crate::sys;
use common::memory;
use common::wire::Handover;
use core::mem::MaybeUninit;
use rustix::fs;
use rustix::io::Errno;

/// Becomes the broker, which is found beside this program or in `../libexec/landstrip/`, or is a descriptor where this
/// one lies in memory: never through PATH or the working directory, where the command could have put another.
pub(crate) fn execute(
    arguments: &Arguments,
    handover: &Handover,
) -> Result<core::convert::Infallible, Failure> {
    let mut own = [MaybeUninit::uninit(); Text::SIZE];
    let (own, _) = fs::readlinkat_raw(fs::CWD, c"/proc/self/exe", &mut own[..])
        .map_err(|e| Failure("read /proc/self/exe: is /proc mounted?", e))?;
    let slash = own.iter().rposition(|&b| b == b'/').unwrap_or(0);
    let (directory, names): (&[u8], [&[u8]; 2]) = match memory::started_by(own) {
        Some(number) => (b"/proc/self/fd", [number; 2]),
        None => (&own[..slash], [b"landstrip-broker", b"../libexec/landstrip/landstrip-broker"]),
    };
    let mut message = Text::new();
    let complete = handover.write(&mut message).and_then(|()| message.push(&[0]));
    complete.map_err(|_| Failure("handover", Errno::NAMETOOLONG))?;
    let (argv, envp) = arguments.vectors().ok_or(Failure("argv is empty", Errno::INVAL))?;
    // SAFETY: argv has an element, and the message ends with NUL and outlives execve(2).
    unsafe { argv.set(0, message.as_bytes().as_ptr().cast()) };
    let mut errno = Errno::NOENT;
    for name in names {
        let mut path = Text::new();
        let complete =
            [directory, b"/", name, &[0]].into_iter().try_for_each(|part| path.push(part));
        complete.map_err(|_| Failure("path of landstrip-broker", Errno::NAMETOOLONG))?;
        if let Ok(path) = path.as_path() {
            errno = sys::execve(path, argv, envp);
        }
        if errno != Errno::NOENT {
            break;
        }
    }
    Err(Failure("execute landstrip-broker beside landstrip", errno))
}

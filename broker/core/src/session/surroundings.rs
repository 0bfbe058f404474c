//! What landstrip rests on and cannot make itself, looked at before anything else: whose /proc this is,
//! what is mounted where, what the command inherits, and what the kernel gives.
//!
//! What cannot be made safe is refused here, with the reason, so that `--check` says the same. Sources:
//! proc(5), pid_namespaces(7), proc_pid_mounts(5).

use crate::report::errno::strerror;
use crate::report::failure::Failure;
use kernel::features::Features;
use kernel::identity::Identity;
use kernel::inherited;
use kernel::mounts::{self, Mount};
use kernel::proc;
use kernel::terminal::streams;
use rustix::fs::{self, FileType};
use rustix::io::{self, Errno};
use rustix::net::{AddressFamily, Protocol, SocketType, ipproto, sockopt};
use rustix::process;
use std::os::fd::AsFd;

/// What was found.
#[derive(Debug)]
pub struct Surroundings {
    pub mounts: Vec<Mount>,
    /// A standard stream is a datagram socket, which sends to whom each message names.
    pub streams_send: bool,
    /// One is a socket that is not of the Unix family: unless that is judged, it can be led elsewhere (`AF_UNSPEC` in
    /// connect(2)).
    pub streams_lead: bool,
    /// A pipe that is the standard input, and that of the caller, too: whoever writes there speaks to the caller.
    pub shared_input: Option<Identity>,
    /// What of Landlock there is.
    pub features: Features,
}

impl Surroundings {
    /// Looks at all of it; `is_scoped` as [`Features::find`] takes it, and `shares_input` as the launcher found.
    pub fn look(is_scoped: bool, shares_input: Option<bool>) -> Result<Self, Failure> {
        check_proc()?;
        let [streams_send, streams_lead] = check_streams()?;
        let mounts = mounts::all().map_err(|errno| unfit("/proc/self/mountinfo", errno))?;
        let features = Features::find(is_scoped).map_err(Failure::Lacking)?;
        let input = if shares_input == Some(false) { Ok(None) } else { inherited::input_pipe() };
        let shared_input = input.map_err(|errno| unfit("standard input", errno))?;
        Ok(Self { mounts, streams_send, streams_lead, shared_input, features })
    }
}

/// Makes sure that /proc is proc(5) of the PID namespace that this process is in. In another one's, the
/// number of a process of the sandbox is that of a stranger, whose memory and files it would lead to.
fn check_proc() -> Result<(), Failure> {
    let path = "/proc/self/status";
    let found = fs::statfs(path).map_err(|errno| unfit(path, errno))?;
    if found.f_type != fs::PROC_SUPER_MAGIC {
        return Err(refuse("/proc is not proc(5): mount that there".to_owned()));
    }
    let status = proc::read(path).map_err(|errno| unfit(path, errno))?;
    if is_of_own_namespace(&status, process::getpid().as_raw_pid()) {
        return Ok(());
    }
    Err(refuse(
        "/proc shows the processes of another PID namespace: mount proc(5) of this one there, as \
         unshare --mount-proc does"
            .to_owned(),
    ))
}

/// Whether `status` was read in the namespace in which this process has the number `own`. NSpid has one
/// number for each namespace from that of the proc(5) down to the process's own.
fn is_of_own_namespace(status: &[u8], own: i32) -> bool {
    // A kernel without such namespaces has no NSpid.
    let numbers = proc::field(status, "NSpid:").or_else(|| proc::field(status, "Pid:"));
    numbers == Some(&*own.to_string())
}

/// Makes sure that the standard streams are such: an anonymous object of the kernel's, such as a ring
/// for system calls, can have rights of its own. Returns whether one is a datagram socket, and one not of the Unix family.
fn check_streams() -> Result<[bool; 2], Failure> {
    let [mut any_sends, mut any_leads] = [false; 2];
    let names = ["standard input", "standard output", "standard error"];
    for (name, stream) in names.into_iter().zip(streams()) {
        let stat = fs::fstat(stream).map_err(|errno| unfit(name, errno))?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Unknown => {
                return Err(refuse(format!("{name} is not a file, device, pipe or socket")));
            }
            FileType::Socket => {
                any_sends |= sends_by_name(stream)
                    .map_err(|errno| unfit(name, errno))?
                    .ok_or_else(|| refuse(format!("{name} is a socket below protocols")))?;
                any_leads |= sockopt::socket_domain(stream) != Ok(AddressFamily::UNIX);
            }
            _ => {}
        }
    }
    Ok([any_sends, any_leads])
}

/// Whether a socket sends to whom each message names, as datagram sockets do though they are connected;
/// none for one of which its peer says nothing, such as a raw one: the packets do.
fn sends_by_name(socket: impl AsFd) -> io::Result<Option<bool>> {
    let (family, kind) = (sockopt::socket_domain(&socket)?, sockopt::socket_type(&socket)?);
    Ok(sends(family, kind, sockopt::socket_protocol(&socket)?))
}

/// The same by family, type and protocol.
fn sends(family: AddressFamily, kind: SocketType, protocol: Option<Protocol>) -> Option<bool> {
    use AddressFamily as Family;
    const MPTCP: u32 = 262;
    let protocol = protocol.map(|protocol| protocol.as_raw().get());
    match (kind, family) {
        // Others of the internet, as sctp(7), send elsewhere though they are connected.
        (SocketType::STREAM, Family::INET | Family::INET6) => {
            [ipproto::TCP.as_raw().get(), MPTCP].contains(&protocol?).then_some(false)
        }
        (SocketType::STREAM, _) | (SocketType::SEQPACKET, Family::UNIX) => Some(false),
        (SocketType::DGRAM, Family::UNIX | Family::INET | Family::INET6) => Some(true),
        _ => None,
    }
}

fn unfit(what: &str, errno: Errno) -> Failure {
    refuse(format!("{what}: {}", strerror(errno)))
}

fn refuse(reason: String) -> Failure {
    Failure::Internal("surroundings", reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_that_sends_elsewhere_is_no_connection() {
        use AddressFamily as Family;
        for (family, kind, protocol, expected) in [
            (Family::INET, SocketType::STREAM, Some(ipproto::TCP), Some(false)),
            (Family::INET6, SocketType::STREAM, Some(ipproto::SCTP), None),
            (Family::INET, SocketType::SEQPACKET, Some(ipproto::SCTP), None),
            (Family::UNIX, SocketType::STREAM, None, Some(false)),
            (Family::INET, SocketType::DGRAM, Some(ipproto::UDP), Some(true)),
            (Family::INET, SocketType::RAW, Some(ipproto::ICMP), None),
            (Family::VSOCK, SocketType::STREAM, None, Some(false)),
        ] {
            assert_eq!(sends(family, kind, protocol), expected, "{family:?} {protocol:?}");
        }
    }

    #[test]
    fn only_a_proc_of_the_own_namespace_will_do() {
        for (status, own, expected) in [
            ("Name:\tx\nPid:\t7\nNSpid:\t7\n", 7, true),
            // An outer namespace's, where the numbers may even be the same.
            ("Name:\tx\nPid:\t4242\nNSpid:\t4242\t7\n", 7, false),
            ("Name:\tx\nPid:\t7\nNSpid:\t7\t7\n", 7, false),
            ("Name:\tx\nPid:\t8\nNSpid:\t8\n", 7, false),
            ("Name:\tx\nPid:\t7\n", 7, true),
            ("Name:\tx\nPid:\t8\n", 7, false),
            ("", 7, false),
        ] {
            assert_eq!(is_of_own_namespace(status.as_bytes(), own), expected, "{status:?}");
        }
        assert!(Surroundings::look(false, Some(true)).is_ok());
    }
}

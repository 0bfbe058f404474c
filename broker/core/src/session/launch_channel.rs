//! The child that becomes the command, as the broker talks to it: sends the filter and the plan, hears how
//! it fares.
//!
//! The child sends the listener along with its message (SCM_RIGHTS), unless its filter notifies
//! sendmsg(2). Then it says the number, the broker takes the listener by that (pidfd_getfd(2)), and
//! only afterwards sends the plan, with which the child goes on and gives the listener up.

use crate::report::failure::Failure;
use common::passing;
use common::wire::{Handover, Progress};
use kernel::inherited;
use kernel::target::{Target, TargetAddress, TargetFd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::{self, Errno};
use rustix::net::SendFlags;
use rustix::process::Pid;
use std::os::fd::RawFd;

/// What the child said.
#[derive(Debug)]
pub enum ChildMessage {
    /// The filter is in force; this is the listener.
    Listening(OwnedFd),
    /// The filter for where there is no listener is in force.
    Alone,
    /// It failed and has ended.
    Failed(common::wire::Step, Errno),
    /// It executed the tool, or died.
    Closed,
}

/// The process that becomes the command, and the socket to it.
#[derive(Debug)]
pub struct LaunchChannel {
    socket: OwnedFd,
    /// It lives, or has not been reaped, as long as the launch lasts: its id is no other's.
    process: Pid,
    /// The launcher has entered a Landlock domain that scopes signals.
    pub is_scoped: bool,
    /// As [`Handover::shares_input`].
    pub shares_input: Option<bool>,
    /// The plan and the ruleset, if they are not to be sent before the listener was taken.
    withheld: Option<(Vec<u8>, OwnedFd)>,
}

impl LaunchChannel {
    /// Takes over the socket that the launcher left open for the broker.
    ///
    /// # Errors
    /// Returns [`Errno::BADF`] if the launcher left none.
    pub fn take_over(handover: &Handover) -> io::Result<Self> {
        let socket = inherited::take_over(handover.control)?;
        let process = Pid::from_raw(handover.child).ok_or(Errno::SRCH)?;
        let is_scoped = handover.scope_errno == 0;
        let shares_input = handover.shares_input;
        Ok(Self { socket, process, is_scoped, shares_input, withheld: None })
    }

    /// Whether the platform lets the broker take descriptors of the command: Docker's default
    /// seccomp profile does not.
    pub fn can_take_descriptors(&self) -> io::Result<()> {
        // The right is asked for before the number is looked at, which no descriptor has.
        match self.take(RawFd::MAX) {
            Ok(_) | Err(Errno::BADF) => Ok(()),
            Err(errno) => Err(errno),
        }
    }

    /// Checks that its memory can be read in one way or another.
    ///
    /// # Errors
    /// Returns [`Failure::Internal`] with what to do about it.
    pub fn must_be_readable(&self) -> Result<(), Failure> {
        match Target::new(self.process).read(TargetAddress::NOWHERE, &mut [0]) {
            Err(Errno::PERM) => {
                let message = "the broker may not read the command's memory, where paths and addresses are: set \
                               kernel.yama.ptrace_scope to 0 or 1, or let the security module permit it";
                Err(Failure::Internal("surroundings", message.to_owned()))
            }
            _ => Ok(()),
        }
    }

    /// A duplicate of the child's descriptor `number`.
    fn take(&self, number: RawFd) -> io::Result<OwnedFd> {
        Target::new(self.process).duplicate(TargetFd::new(number))
    }

    /// Sends the plan with the ruleset, `after_listener` if the child hands that over by its number.
    /// If the child is gone, what it said last is still to be received.
    pub fn send_plan(
        &mut self,
        packet: Vec<u8>,
        ruleset: BorrowedFd<'_>,
        after_listener: bool,
    ) -> io::Result<()> {
        if after_listener {
            self.withheld = Some((packet, io::fcntl_dupfd_cloexec(ruleset, 0)?));
            return Ok(());
        }
        self.send(&packet, Some(ruleset))
    }

    /// Sends the filter, which has no ruleset, or the plan.
    pub(super) fn send(&self, packet: &[u8], ruleset: Option<BorrowedFd<'_>>) -> io::Result<()> {
        match passing::send(&self.socket, packet, ruleset.as_slice(), SendFlags::empty()) {
            Err(Errno::PIPE) => Ok(()),
            sent => sent,
        }
    }

    /// Receives one message.
    ///
    /// # Errors
    /// Returns [`Errno::BADMSG`] for a message that the wire does not know; what taking the listener
    /// and sending the plan return.
    pub fn receive(&mut self) -> io::Result<ChildMessage> {
        let mut packet = [0; Progress::SIZE + 1];
        let mut receive = || passing::receive(&self.socket, &mut packet);
        let (length, descriptor) = match receive() {
            // The child ended before it read the plan. What it said before follows.
            Err(Errno::CONNRESET) => receive(),
            other => other,
        }?;
        if length == 0 {
            return Ok(ChildMessage::Closed);
        }
        match (Progress::decode(&packet[..length]), descriptor) {
            (Some(Progress::Listening), Some(listener)) => Ok(ChildMessage::Listening(listener)),
            (Some(Progress::ListeningAs(number)), None) => {
                let (plan, ruleset) = self.withheld.take().ok_or(Errno::BADMSG)?;
                let listener = self.take(number)?;
                self.send(&plan, Some(ruleset.as_fd()))?;
                Ok(ChildMessage::Listening(listener))
            }
            (Some(Progress::Alone), None) => {
                if let Some((plan, ruleset)) = self.withheld.take() {
                    self.send(&plan, Some(ruleset.as_fd()))?;
                }
                Ok(ChildMessage::Alone)
            }
            (Some(Progress::Failed(step, errno)), None) => {
                Ok(ChildMessage::Failed(step, Errno::from_raw_os_error(errno)))
            }
            _ => Err(Errno::BADMSG),
        }
    }
}

impl AsFd for LaunchChannel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

//! Signals of the command. Where Landlock does not scope them, they are judged by whom they are for, and sent by
//! the broker.
//!
//! To the caller's own process a signal is let through: that process lives while its thread waits, so
//! that its id is no other's. All others the broker sends, by a handle (pidfd_open(2)) that it held
//! before it looked at whom it stands for, so that no id that is given away meanwhile can be meant. Sources:
//! kill(2), tkill(2), rt_sigqueueinfo(2), pidfd_send_signal(2).
//!
//! Signals of what happens on a descriptor the kernel sends to its owner, F_SETOWN and O_ASYNC in fcntl(2), whom the
//! broker knows whether Landlock scopes them or not: as process groups it lets them through to whoever is in the caller's
//! (CVE-2026-72183, before Linux 6.12.101, 6.18.40 and 7.1.5).

use crate::call::decode::{CONTINUE, RegisterVerdict};
use crate::call::signal::{Addressee, OwnerCall, SignalCall};
use crate::report::traps::Traps;
use kernel::processes::Member;
use kernel::request::Request;
use kernel::rights::Rights;
use kernel::signals::Signal;
use kernel::target::{self, Target, TargetFd};
use kernel::{group, label, owner, proc};
use landstrip_filter::Syscall;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{self, FileType};
use rustix::io::{self, Errno};
use std::collections::HashSet;
use std::sync::Arc;

/// How often a group is looked through for processes that were forked meanwhile.
const PASSES: usize = 16;

/// Judges and sends the signals of one sandbox.
#[derive(Debug)]
pub(crate) struct Judge {
    pub(crate) rights: Arc<Rights>,
    pub(crate) traps: Arc<Traps>,
    /// Landlock scopes signals.
    pub(crate) is_scoped: bool,
}

impl Judge {
    /// Sends the signal, refuses it, or lets it through.
    pub(crate) fn judge(&self, request: &Request<'_>, call: &SignalCall) -> RegisterVerdict {
        if self.is_scoped {
            // CONTINUE: Landlock decides, whose number this is by then. It is notified because forks are.
            return CONTINUE;
        }
        let target = request.target();
        let own = target.process()?;
        let thread = target.thread().as_raw_pid();
        let is_own = match call.to {
            Addressee::Process(id) => [own, thread].contains(&id),
            Addressee::ThreadOf(process, _) => process == own,
            Addressee::Thread(id) => id == thread,
            // Another thread can put another handle in its place.
            Addressee::Several(_) | Addressee::Handle(..) => false,
        };
        if is_own {
            // CONTINUE: registers decide, and the ids are the caller's own, which lives.
            return CONTINUE;
        }
        let sent = self.send(request, call, own).inspect_err(|errno| {
            if *errno == Errno::PERM {
                self.traps.log("refused: a signal to a process outside");
            }
        });
        sent.map(|()| Some(0))
    }

    /// Refuses to trace a process outside, as Landlock does, so that it can be told.
    pub(crate) fn judge_tracing(&self, id: i32) -> RegisterVerdict {
        match self.rights.member(id) {
            Err(Errno::PERM) => {
                self.traps.sink().note_refused(Syscall::ptrace.name());
                Err(Errno::PERM)
            }
            // CONTINUE: Landlock decides, whose number this is by then.
            _ => CONTINUE,
        }
    }

    /// Who gets SIGIO: the caller's own process. A number that the kernel looks up later can be another's
    /// by then.
    pub(crate) fn judge_owner(
        &self,
        request: &Request<'_>,
        number: TargetFd,
        call: OwnerCall,
    ) -> RegisterVerdict {
        match call {
            // CONTINUE: as above.
            OwnerCall::Owner(id) if request.target().process() == Ok(id) => CONTINUE,
            OwnerCall::Owner(id) if id != 0 => {
                self.traps.log("refused: another process as owner of a descriptor");
                Err(Errno::PERM)
            }
            // Once: another thread can put another file there.
            _ => match request.target().duplicate(number) {
                // CONTINUE: the broker cannot get at it, and who is signalled Landlock decides.
                Err(Errno::PERM) if self.is_scoped && target::duplicates_are_refused() => CONTINUE,
                file => self.change_owner(request, file?, call).map(|()| Some(0)),
            },
        }
    }

    /// Takes the owner of a descriptor away, or has it signalled. A device without an owner gets the caller: a terminal would
    /// take the process group in its foreground (`__tty_fasync` in drivers/tty/tty_io.c), in which the
    /// sandbox's own caller is, or whoever else of its session the command puts there.
    fn change_owner(
        &self,
        request: &Request<'_>,
        file: OwnedFd,
        call: OwnerCall,
    ) -> io::Result<()> {
        let target = request.target();
        let file = file.as_fd();
        let own = target.process()?;
        let mut on = [0; 4];
        if let OwnerCall::Switch(address) = call {
            target.read(address, &mut on)?;
        }
        request.confirm()?;
        let mode = fs::fstat(file)?.st_mode;
        let is_device = FileType::from_raw_mode(mode) == FileType::CharacterDevice;
        self.rights.with_credentials_of(target, || {
            // It stays: nobody in a sandbox takes one from a device.
            if is_device && !owner::is_set(file)? {
                owner::set(file, own)?;
            }
            match call {
                OwnerCall::Owner(_) if is_device => owner::set(file, own),
                OwnerCall::Owner(id) => owner::set(file, id),
                OwnerCall::Flags(flags) => fs::fcntl_setfl(file, flags),
                OwnerCall::Switch(_) => owner::signal_what_happens(file, i32::from_ne_bytes(on)),
            }
        })
    }

    fn send(&self, request: &Request<'_>, call: &SignalCall, own: i32) -> io::Result<()> {
        let target = request.target();
        // Another one may be forbidden what the broker is not.
        label::must_be_own(target.thread())?;
        let mut signal = Signal::of(call.number, own, target.status()?.credentials()?)?;
        if !call.info.is_null() {
            signal.copy(target, call.info)?;
        }
        request.confirm()?;
        match call.to {
            Addressee::Process(id) => self.rights.member(id)?.signal(&signal),
            Addressee::Several(whom) => self.send_to_several(own, whom, &signal),
            Addressee::Handle(number, 0) => self.send_by_handle(target, number, &signal),
            Addressee::Handle(..) => Err(Errno::INVAL),
            Addressee::Thread(id) | Addressee::ThreadOf(_, id) if id <= 0 => Err(Errno::INVAL),
            Addressee::ThreadOf(process, _) if process <= 0 => Err(Errno::INVAL),
            // The kernel looks both up, and what is left of this process has the first.
            Addressee::Thread(id) if target.has_thread(id) => signal.send_to_thread(own, id),
            Addressee::Thread(id) => self.rights.member(id)?.signal_thread(&signal),
            Addressee::ThreadOf(process, id) => match self.rights.member(id)? {
                member if member.process() == process => member.signal_thread(&signal),
                _ => Err(Errno::SRCH),
            },
        }
    }

    fn send_by_handle(&self, target: Target, number: TargetFd, signal: &Signal) -> io::Result<()> {
        let process = target.handled_process(number)?;
        let member = self.rights.member(process)?;
        // It stood for this process before and after: so that is the one with this number.
        if target.handled_process(number)? != process {
            return Err(Errno::SRCH);
        }
        member.signal(signal)
    }

    /// Sends it to those who are there when all are looked through: the kernel lists processes by their
    /// ids, and whoever is there all the time is seen.
    ///
    /// One that forks meanwhile is looked for again, unless somebody has a handler for the signal, which
    /// may fork too: what it made the signal was not for.
    fn send_to_several(&self, own: i32, whom: i32, signal: &Signal) -> io::Result<()> {
        let group = match whom {
            -1 => None,
            0 => Some(group::of(own).ok_or(Errno::SRCH)?),
            whom => Some(whom.checked_neg().ok_or(Errno::SRCH)?),
        };
        let mut seen = HashSet::new();
        let mut result = Err(Errno::SRCH);
        for _ in 0..PASSES {
            let ids = proc::processes()?.into_iter().filter(|id| match group {
                Some(group) => group::of(*id) == Some(group),
                None => *id != own,
            });
            let mut found: Vec<(i32, io::Result<Member>)> = ids
                .filter(|id| !seen.contains(id))
                .map(|id| (id, self.rights.member(id)))
                .collect();
            // Before the others: where handled signals interrupt calls (before Linux 5.19), the end of a child would let it
            // go on, and end otherwise.
            found.sort_by_key(|(id, _)| *id != own);
            let members = || found.iter().filter_map(|(_, member)| member.as_ref().ok());
            let is_last =
                members().count() == 0 || members().any(|member| member.catches(signal.number()));
            for (id, member) in found {
                seen.insert(id);
                result = match (result, member.and_then(|member| member.signal(signal))) {
                    (Ok(()), _) | (_, Ok(())) => Ok(()),
                    (Err(Errno::SRCH), Err(errno)) => Err(errno),
                    (before, _) => before,
                };
            }
            if is_last {
                break;
            }
        }
        // To everybody: whoever that is.
        result.or_else(|errno| if group.is_none() { Ok(()) } else { Err(errno) })
    }
}

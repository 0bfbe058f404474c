//! Process groups and terminals of the command's, where the caller's are within reach: in the caller's session, and on
//! the terminals that its standard streams lead to.
//!
//! The kernel signals whole groups for what a member does: a group whose last parent in the session leaves, with a
//! stopped member (SIGHUP, SIGCONT), one that uses a terminal from the background (SIGTTIN, SIGTTOU), the one in the
//! foreground when the size changes (SIGWINCH). So no process of the sandbox joins a group that is not led from
//! inside, and none of the caller's terminals is taken from a foreground that is neither the sandbox's nor its
//! caller's, resized, locked or held back. Its modes are changed in the foreground alone, by the broker, which gives them
//! back at the end. Sources: setpgid(2), ioctl_tty(2), credentials(7).
//!
//! A group that is joined is known by its number alone, and who is let through chooses when to go on: so the number
//! is held until that has been seen to rest ([`Sign::is_pending`]).
//!
//! Each group is one that the kernel kills when the broker ends ([`KillOnExit`]) before it has a member.

use crate::call::decode::{CONTINUE, RegisterVerdict};
use crate::call::terminal::TerminalCall;
use crate::report::traps::Traps;
use kernel::group::{self, HeldGroup};
use kernel::kill::send;
use kernel::kill_on_exit::KillOnExit;
use kernel::request::{RESTART, Request, Sign};
use kernel::rights::Rights;
use kernel::target::{Target, TargetAddress, TargetFd};
use kernel::terminal::{self, Lent};
use kernel::threads::lock;
use nix::libc;
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{self, makedev};
use rustix::io::{self, Errno};
use rustix::process::{Pid, Signal};
use rustix::termios;
use std::sync::{Arc, Mutex};

/// Most calls that were let through to join a group and have not been seen to rest.
const JOINING_MAX: usize = 256;

/// The device of /dev/tty (Documentation/admin-guide/devices.txt).
const CONTROLLING: (u32, u32) = (5, 0);

/// Judges calls on groups and terminals of one sandbox.
#[derive(Debug)]
pub(crate) struct Judge {
    rights: Arc<Rights>,
    traps: Arc<Traps>,
    /// The command, which leads the group that stands for the caller's.
    command: Pid,
    /// The controlling terminal, if the command is in the caller's session.
    controlling: Option<BorrowedFd<'static>>,
    /// The caller's terminals.
    lent: Arc<Lent>,
    groups: Arc<KillOnExit>,
    /// Calls that were let through to join groups, which are held as long as the thread may join them.
    joining: Mutex<Vec<(Sign, HeldGroup)>>,
}

impl Judge {
    pub(crate) fn new(
        command: Pid,
        (groups, lent): (&Arc<KillOnExit>, &Arc<Lent>),
        rights: &Arc<Rights>,
        traps: &Arc<Traps>,
    ) -> Self {
        Self {
            rights: Arc::clone(rights),
            traps: Arc::clone(traps),
            command,
            controlling: terminal::controlling(),
            lent: Arc::clone(lent),
            groups: Arc::clone(groups),
            joining: Mutex::default(),
        }
    }

    /// setpgid(2) into the group `group`.
    pub(crate) fn join(&self, request: &Request<'_>, process: i32, group: i32) -> RegisterVerdict {
        let target = request.target();
        let own = target.process()?;
        let process = if process == 0 { own } else { process };
        // A group of its own: to join another, the numbers would have to differ.
        if group == 0 || group == process {
            self.add_group_of(request, process, own)?;
        } else if group::shares_session(own)? {
            self.hold(request, Pid::from_raw(group.max(0)).ok_or(Errno::INVAL)?)?;
        }
        // CONTINUE: registers decide. In a session of the sandbox's own the kernel permits its own groups only, and
        // no process gets into the caller's session again. In that the number of the group is held.
        CONTINUE
    }

    /// setsid(2).
    pub(crate) fn leave_session(&self, request: &Request<'_>) -> RegisterVerdict {
        let own = request.target().process()?;
        self.add_group_of(request, own, own)?;
        // CONTINUE: it has no arguments.
        CONTINUE
    }

    /// Has the kernel end the group that `process` is to lead, which is the caller, `own`, or a child of its. If another
    /// child has the child's number when the caller goes on, only the guardian ends its group.
    fn add_group_of(&self, request: &Request<'_>, process: i32, own: i32) -> io::Result<()> {
        // Who waits for a group until all of it is reaped waits for what is held as well.
        lock(&self.joining).retain(|(call, _)| call.is_pending());
        let leader = Pid::from_raw(process.max(0)).ok_or(Errno::SRCH)?;
        if process == own {
            self.groups.add(leader)?;
            return request.confirm().map(drop);
        }
        let child = self.rights.member(process).map_err(|_| Errno::SRCH)?;
        self.groups.add(leader)?;
        child.must_have_its_number()
    }

    /// Holds a group of the sandbox's until the caller rests.
    ///
    /// # Errors
    /// Returns [`Errno::PERM`] for one that is not led from inside, or if too many are held.
    fn hold(&self, request: &Request<'_>, group: Pid) -> io::Result<()> {
        self.must_be_inside(group)?;
        let mut joining = lock(&self.joining);
        joining.retain(|(call, _)| call.is_pending());
        if joining.len() == JOINING_MAX {
            return Err(Errno::PERM);
        }
        joining.push((request.sign(), HeldGroup::of(group)?));
        // It may have become another's until it was held.
        self.must_be_inside(group)
    }

    /// What is asked of the terminal that descriptor `number` leads to.
    ///
    /// Where this says [`CONTINUE`], what the process is decides, whatever the descriptor leads to by then: it is in a session
    /// of the sandbox's own, or the sandbox has no terminal of its caller's. Only TIOCSCTTY can meet one that another
    /// thread has put there. If that controls a session the kernel refuses; else the sandbox is signalled from it
    /// until it ends, and nobody outside.
    pub(crate) fn control(
        &self,
        request: &Request<'_>,
        number: TargetFd,
        call: TerminalCall,
    ) -> RegisterVerdict {
        match call {
            TerminalCall::SetForeground(address) => self.set_foreground(request, number, address),
            TerminalCall::Foreground(address) => {
                let Some(group) = self.foreground(request.target(), number) else {
                    // CONTINUE: it only asks.
                    return CONTINUE;
                };
                let memory = request.target().memory()?;
                request.write(&memory, address, &group.to_ne_bytes())?;
                Ok(Some(0))
            }
            _ => self.change(request, number, call),
        }
    }

    /// The caller's terminal, if `target` is in its session: the kernel takes it for the controlling one of others
    /// in no way.
    fn shared(&self, target: Target) -> io::Result<Option<BorrowedFd<'static>>> {
        match self.controlling {
            Some(terminal) if group::shares_session(target.process()?)? => Ok(Some(terminal)),
            _ => Ok(None),
        }
    }

    /// TIOCSPGRP with the group at `address`, done by the broker; nothing is done in a session of the sandbox's
    /// own, where the kernel permits its own terminal and groups only.
    fn set_foreground(
        &self,
        request: &Request<'_>,
        number: TargetFd,
        address: TargetAddress,
    ) -> RegisterVerdict {
        let target = request.target();
        let Some(terminal) = self.shared(target)? else { return CONTINUE };
        if !self.is_controlling(target, number, terminal)? {
            return Err(Errno::NOTTY);
        }
        let group = i32::from_ne_bytes(target.read_array(address)?);
        let group = Pid::from_raw(group.max(0)).ok_or(Errno::INVAL)?;
        request.confirm()?;
        let foreground = terminal::foreground(terminal)?;
        // Else another job of the caller's session has it. What has ended is not in anybody's way.
        if foreground != group::own() && group::lives(foreground)? {
            self.must_be_inside(Pid::from_raw(foreground).ok_or(Errno::PERM)?)?;
        }
        self.must_be_inside(group)?;
        terminal::set_foreground(terminal, group.as_raw_pid())?;
        Ok(Some(0))
    }

    /// The command's group, if the caller's, which it stands for, is in the foreground of the caller's terminal and
    /// `target` asks about that: a program that finds itself in the background behaves otherwise.
    fn foreground(&self, target: Target, number: TargetFd) -> Option<i32> {
        let terminal = self.shared(target).ok().flatten()?;
        let stands_for = terminal::foreground(terminal) == Ok(group::own())
            && self.is_controlling(target, number, terminal).is_ok_and(|is_it| is_it);
        stands_for.then_some(self.command.as_raw_pid())
    }

    /// The caller's terminal that descriptor `number` of `target` leads to, if it is one of those.
    fn lent(&self, target: Target, number: TargetFd) -> io::Result<Option<BorrowedFd<'static>>> {
        let held = fs::fstat(target.descriptor(number)?)?;
        let (major, minor) = CONTROLLING;
        match held.st_rdev == makedev(major, minor) {
            true => self.shared(target),
            false => Ok(self.lent.find(&held)),
        }
    }

    /// Whether descriptor `number` of `target`, which is in the caller's session, leads to `terminal`.
    fn is_controlling(
        &self,
        target: Target,
        number: TargetFd,
        terminal: BorrowedFd<'_>,
    ) -> io::Result<bool> {
        let Some(lent) = self.lent(target, number)? else { return Ok(false) };
        Ok(terminal::device(lent)? == terminal::device(terminal)?)
    }

    /// A change that reaches others who use the terminal: made on what was judged. Those of the caller's stay as they are,
    /// but for what is given back.
    fn change(
        &self,
        request: &Request<'_>,
        number: TargetFd,
        call: TerminalCall,
    ) -> RegisterVerdict {
        if !self.lent.any() {
            return CONTINUE;
        }
        let target = request.target();
        let lent = self.lent(target, number)?;
        let other = if lent.is_some() { None } else { Some(terminal::of(target, number)?) };
        let file = lent.or(other.as_ref().map(AsFd::as_fd)).ok_or(Errno::BADF)?;
        // By another name than its own, as that of its other end.
        let is_callers = lent.is_some() || self.lent.has(terminal::device(file)?);
        let in_foreground = matches!(call, TerminalCall::SetModes(..) | TerminalCall::Flush(_));
        if is_callers && !(lent.is_some() && in_foreground) {
            self.traps.log("refused: a change of the caller's terminal");
            return Err(Errno::PERM);
        }
        let mut value = [0; size_of::<terminal::Value>()];
        if let TerminalCall::SetSize(set) | TerminalCall::SetModes(set, _) = call {
            target.read(set.address, &mut value[..set.size])?;
        }
        match in_foreground {
            true => self.must_be_in_foreground(request, file)?,
            false => drop(request.confirm()?),
        }
        if let TerminalCall::SetModes(_, Some(queue)) | TerminalCall::Flush(queue) = call {
            termios::tcflush(file, queue)?;
        }
        match call {
            TerminalCall::SetSize(set) | TerminalCall::SetModes(set, _) => {
                self.lent.change(file, set.call, &value)?;
            }
            TerminalCall::Exclusive(true) => termios::ioctl_tiocexcl(file)?,
            TerminalCall::Exclusive(false) => termios::ioctl_tiocnxcl(file)?,
            TerminalCall::Suspend => termios::tcflow(file, termios::Action::OOff)?,
            TerminalCall::Flush(_) => {}
            _ => return CONTINUE,
        }
        Ok(Some(0))
    }

    /// Does what the kernel does before a process changes a terminal (`__tty_check_change` in
    /// drivers/tty/tty_jobctrl.c), but that who disregards SIGTTOU, or has another controlling terminal, changes that of
    /// the caller only while the sandbox has it.
    fn must_be_in_foreground(
        &self,
        request: &Request<'_>,
        terminal: BorrowedFd<'_>,
    ) -> io::Result<()> {
        let target = request.target();
        let device = terminal::device(terminal)?;
        let (own, foreground) = target.job()?;
        let group = group::of(target.process()?).ok_or(Errno::SRCH)?;
        if own != device || target.status()?.disregards(libc::SIGTTOU) {
            let callers = self.controlling.filter(|it| terminal::device(*it) == Ok(device));
            if let Some(callers) = callers {
                let group = Pid::from_raw(terminal::foreground(callers)?);
                self.must_be_inside(group.ok_or(Errno::PERM)?)?;
            }
        } else if group != foreground {
            if group::is_orphaned(group)? {
                return Err(Errno::IO);
            }
            let by = request.confirm()?;
            // To the thread as well, which must have one pending when it goes on. And first: the broker stops with the
            // command, and would send it to what has been continued.
            by.signal(Signal::TTOU)?;
            send(-group, libc::SIGTTOU)?;
            return Err(RESTART);
        }
        request.confirm().map(drop)
    }

    /// Checks that a group is led from inside, or, if its leader has gone, that all of its members are.
    ///
    /// # Errors
    /// Returns [`Errno::PERM`] if it is not.
    fn must_be_inside(&self, group: Pid) -> io::Result<()> {
        let find = |id: i32| self.rights.member(id).map(drop);
        match find(group.as_raw_pid()) {
            Err(Errno::SRCH) => {
                let members = group::members(group.as_raw_pid())?;
                if members.is_empty() {
                    return Err(Errno::PERM);
                }
                members.into_iter().try_for_each(find)
            }
            found => found,
        }
        .map_err(|_| {
            self.traps.log("refused: a process group outside");
            Errno::PERM
        })
    }
}

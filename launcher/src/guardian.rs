//! The guardian: ends all that the command started, should the broker die before it has done so itself.
//!
//! The broker's death signals the command alone (PR_SET_PDEATHSIG), which can have given that up, and the groups that the
//! broker knows (`kernel/kill_on_exit.rs` there), of which a process can be missing that has been about to join one all
//! along. So a process waits for that death, in D0, which lets it signal everything in the sandbox and nothing else.
//! Then it gives the caller's terminal back, if the sandbox had that; it does nothing else, holds nothing but the standard
//! streams, and nothing in the sandbox can signal it, whose domain lies deeper. Who kills a process group or
//! hangs up a terminal does not meet it: it has a group of its own.
//!
//! Where D0 does not scope signals (before Linux 6.12), it still says who is in the sandbox: nobody else may be
//! traced from in it (landlock(7)), which the kernel looks at for /proc/PID/exe. Of processes that execute what
//! may not be read, only root sees that: others are left, and can neither fork nor open anything.

#![allow(unsafe_code)]

use crate::failure::Text;
use crate::sys::{self, Stack};
use crate::{confine, start};
use core::mem::MaybeUninit;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{self, Mode, OFlags, RawDir};
use rustix::io::{self, Errno};
use rustix::process::{self, Pid, PidfdFlags, Signal};
use rustix::termios::{self, OptionalActions, Termios};
use rustix::thread::{self, CapabilitySet};

/// Enough for this module in an unoptimised build, too.
static STACK: Stack<{ 32 * 1024 }> = Stack::new();

/// The broker's death.
const DEATH: Signal = Signal::TERM;

/// Written before the guardian starts, which shares this memory.
static mut LENT: Option<Lent> = None;

/// Starts the guardian; returns its id. What waits for any child does not meet it (`__WCLONE` in
/// wait(2)).
pub(crate) fn start(is_scoped: bool) -> io::Result<i32> {
    let caller = process::getppid().map_or(0, |caller| caller.as_raw_pid());
    // By the time that the guardian gets a processor, one could have stopped it. The broker blocks its own.
    sys::block_signals()?;
    // Not by the guardian: by the time that gets a processor, the command may have changed them.
    // SAFETY: nobody else has it yet.
    unsafe { LENT = Some(Lent::look()) };
    sys::spawn(begin, &STACK, 0, (core::ptr::null_mut(), caller, is_scoped.into()))
}

extern "C" fn begin(_: *mut usize, caller: i32, is_scoped: i32, broker: i32) -> ! {
    let guarded = guard(Pid::from_raw(caller), Pid::from_raw(broker), is_scoped != 0);
    sys::exit(guarded.map_or(common::exit::FAILED, |()| 0))
}

/// Waits until `broker`, the parent, has died, and kills what it left.
///
/// # Errors
/// Returns the step that failed, in which case nothing was killed.
fn guard(caller: Option<Pid>, broker: Option<Pid>, is_scoped: bool) -> io::Result<()> {
    // Where it looks for what is of the sandbox, it must see what is hidden from others.
    let kept = if is_scoped { CapabilitySet::empty() } else { confine::PTRACE_CAPABILITY };
    confine::drop_capabilities(kept)?;
    // SAFETY: this process has a descriptor table of its own, of which it uses the standard streams.
    unsafe { sys::close_from(3) }?;
    // Not the session, in which it can open the terminal.
    process::setpgid(None, None)?;
    thread::set_name(c"landstrip-guard")?;
    process::set_parent_process_death_signal(Some(DEATH))?;
    // Whom the caller's signals reach must not be killed with what is in the sandbox: D0 is in force
    // if this process, which lies in it, cannot signal one outside.
    let reaches = |caller: Pid| match is_scoped {
        true => process::test_kill_process(caller) == Ok(()),
        false => may_trace(caller),
    };
    if caller.is_some_and(reaches) {
        return Err(Errno::NOTSUP);
    }
    // Sent by somebody else, or for a thread of the broker's, the signal means nothing. A parent is
    // replaced before the signal is sent, so that none is missed.
    while process::getppid() == broker {
        sys::wait_for(DEATH, None);
    }
    if !is_scoped {
        // A fork that the broker let through last is seen in the next pass.
        while kill_traceable()? {}
    } else {
        // No process escapes by forking: a fork fails once its parent has a fatal signal pending, and is
        // seen here if it came first (copy_process in kernel/fork.c, both under the same lock).
        sys::kill_all();
    }
    let lent = &raw const LENT;
    // SAFETY: nobody writes it any more.
    unsafe { &*lent }.iter().for_each(|lent| lent.give_back(is_scoped));
    Ok(())
}

/// The caller's standard streams at launch: their flags, and the settings of terminals.
struct Lent {
    caller: Option<Pid>,
    streams: [(BorrowedFd<'static>, Option<OFlags>, Option<Termios>); 3],
    /// The settings of the controlling terminal, where the broker may ask.
    terminal: Option<Termios>,
}

impl Lent {
    fn look() -> Self {
        let look = |stream| (stream, fs::fcntl_getfl(stream).ok(), termios::tcgetattr(stream).ok());
        let terminal = terminal().and_then(termios::tcgetattr).ok();
        Self { caller: sys::group(), streams: start::streams().map(look), terminal }
    }

    /// Nobody changes them any more for whom the broker has to be there. Those of other jobs are left, and those of the
    /// caller's own but where the broker has asked.
    fn give_back(&self, is_scoped: bool) {
        let has_asked = sys::wait_for(Signal::TSTP, Some([0; 2]));
        let terminal = terminal().ok().filter(|_| has_asked);
        let terminal = terminal.as_ref().map(|file| (file.as_fd(), None, self.terminal.clone()));
        for (stream, flags, settings) in self.streams.iter().chain(&terminal) {
            let _ = flags.map(|flags| fs::fcntl_setfl(stream, flags));
            let Some(settings) = settings else { continue };
            match (termios::tcgetpgrp(stream), self.caller) {
                (Ok(group), Some(caller)) if group == caller && has_asked => {}
                (Ok(group), Some(caller)) if group != caller && is_left(group, is_scoped) => {
                    let _ = termios::tcsetpgrp(stream, caller);
                }
                (Err(Errno::NOTTY), _) => {}
                _ => continue,
            }
            let _ = termios::tcsetattr(stream, OptionalActions::Now, settings);
        }
    }
}

/// The controlling terminal.
fn terminal() -> io::Result<OwnedFd> {
    fs::open(c"/dev/tty", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
}

/// Whether nobody is in `group` but what was killed: without a scope that is seen once it was reaped, by who adopted it.
fn is_left(group: Pid, is_scoped: bool) -> bool {
    let find = || process::test_kill_process_group(group);
    let is_in_doubt = |_: &i32| !is_scoped && find().is_ok();
    let wait = |_| _ = sys::wait_for(DEATH, Some([0, 10_000_000]));
    (0..100).take_while(is_in_doubt).for_each(wait);
    find() == Err(Errno::SRCH) || is_scoped && find().is_ok()
}

/// Kills what is in D0 but for this process; returns whether there was anything. What has ended already has
/// no program.
fn kill_traceable() -> io::Result<bool> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let processes = fs::open(c"/proc", flags, Mode::empty())?;
    let mut buffer = [MaybeUninit::uninit(); 2048];
    let mut entries = RawDir::new(&processes, &mut buffer);
    let mut any = false;
    while let Some(entry) = entries.next() {
        let entry = entry?;
        let name = entry.file_name().to_str().unwrap_or_default();
        let Some(process) = name.parse().ok().and_then(Pid::from_raw) else { continue };
        // Held before it is looked at, so that its number is no other's.
        let Ok(handle) = process::pidfd_open(process, PidfdFlags::empty()) else { continue };
        if process != process::getpid() && may_trace(process) {
            any |= process::pidfd_send_signal(&handle, Signal::KILL).is_ok();
        }
    }
    Ok(any)
}

/// Whether `process` has a program and this one might trace it (ptrace(2), access mode checking).
fn may_trace(process: Pid) -> bool {
    let path = Text::path_in(process, "exe");
    let mut target = [MaybeUninit::uninit(); 1];
    path.as_path().is_ok_and(|path| fs::readlinkat_raw(fs::CWD, path, &mut target[..]).is_ok())
}

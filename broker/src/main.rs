//! The broker: loads the policy, launches the command, answers its notifications, reaps it.
//!
//! It runs as the process that the caller started, with the launcher's arguments: the launcher
//! clones itself, one side becomes the broker, the other waits for the plan and becomes the command.
//!
//! # The rooms
//!
//! A room is a folder of a subject, or one file. Each imports only from those above it in this list, which a test
//! holds; data walks one way, down the list at launch, and through [`call`], [`ipc`],
//! [`files`] or [`sockets`] to [`answer`] for each call.
//!
//! | room | what it owns | what it never does |
//! |---|---|---|
//! | [`rules`] | the resolved policy, and the matchers: paths, patterns, addresses, kinds of sockets | see a file system |
//! | [`kernel`] | the notifications, the target's memory, descriptors and credentials, objects held; all unsafe code | know policy or reports |
//! | [`policy`] | from policy files to a resolved policy; [`policy::keys`] is the one table of keys | act |
//! | [`report`] | denials, where they go, and why landstrip gave up | decide |
//! | [`call`] | what a notified call asks for, and what decides it | make a system call |
//! | [`ipc`] | the System V objects that the command made | reach those of others |
//! | [`signals`] | verdicts on signals where Landlock has none, and their sending | signal what it does not hold |
//! | [`jobs`] | verdicts on process groups and on terminals that the caller uses | touch what others lead |
//! | [`files`] | verdicts on paths and metadata; what the broker does instead of the kernel | answer |
//! | [`sockets`] | verdicts on addresses; connects, binds and messages made for the command | answer |
//! | [`compile`] | the Landlock ruleset, the view, the plan; what is protected whatever the policy says | serve |
//! | [`domains`] | the broker's side of `landstrip-proxy` | speak HTTP or SOCKS |
//! | [`answer`] | the threads, what registers decide, and the only place from which answers leave | follow a path or an address |
//! | [`session`] | one run, from a policy to the exit status: protect, compile, launch, serve | look at a call |
//! | [`cli`] | options and the help | run anything |
//! | [`load`] | the way from the options to a policy | run anything |
//! | [`advice`] | what a policy would have to say for what was refused or learned | change a policy |
//! | [`explain`] | what a policy means, in words, for `--explain` | judge by itself |
//! | [`doctor`] | what the platform gives, and attempts on a sandbox from inside, for `--doctor` | confine |
//! | [`examine`] | what there is to say of a policy, for `--check` and `--explain` | run anything |
//! | [`learn`] | a run that permits and reports, and the policy that it needs | confine |
//! | [`run`] | the story of a run: load, protect, compile, launch, serve, report | look at a call |
//!
//! The filter is a crate of its own, `landstrip-filter` in `broker/filter`, with one table of what happens
//! to every system call and why (`table/`, from which `man/system-calls.md` comes) and one of its numbers an
//! architecture (`arch/`); the build script compiles it for each kind of policy. The crate `common` has the
//! wire between the programs and the line of a report; `launcher` becomes the command, `proxy` filters
//! domains. A policy that needs no broker, inside another sandbox, has a filter that asks nobody.
//!
//! # Who decides
//!
//! Every system call of the command meets up to three judges.
//!
//! 1. **The filter** sees registers. It allows, refuses, or notifies, by the rows of its table.
//! 2. **Landlock** sees objects. At launch `compile/grants.rs` traverses what may be written and read, and
//!    gives Landlock a rule for each tree in which no other rule of the policy can apply. What is left,
//!    the directories on the way to a denied path and the places where a glob could match, gets none.
//! 3. **The broker** sees what the filter notifies: calls that Landlock does not know (metadata, socket
//!    addresses), and calls on files that Landlock may refuse though the policy allows them.
//!
//! Landlock's rules are for inodes, and none can be added once the command runs: what is made later where it
//! grants nothing is the broker's. So some empty directories are granted before they have a name, and one
//! becomes what the command makes beside a denied path (`files/reserve.rs`): all beneath it is Landlock's.
//! Reading and executing are one right to Landlock, and nobody else is asked about execve(2): so where
//! something may not be read inside of what may be written, all of the tree can be read as far as Landlock
//! goes, for the sake of programs that the command makes in it, and the broker judges reads; but where
//! something denied could be executed, all else is granted entry by entry (`compile/executables.rs`).
//!
//! [`files::view::View`] knows of each path what the rules say and whether Landlock was told
//! ([`files::view::Decider`]).
//!
//! # When a call continues
//!
//! A notified call that is let through is executed by the kernel with what memory holds *then*: another
//! thread of the command can have changed it since the broker looked. So a look at memory must never be the
//! reason to let a call through. The types hold this:
//!
//! - [`call::decode::Call`] sorts each call by what decides it. One that **memory** decides
//!   ([`call::decode::MemoryCall`]: addresses, messages, metadata) is performed on the broker's own copy, or
//!   refused; its verdicts have no way to continue, but for sendmsg(2) below.
//! - One that **registers** decide, with what the broker itself knows of the number in them (a segment that it
//!   holds, the caller's own process), can: nothing changes the registers of a thread
//!   that waits ([`call::decode::RegisterVerdict`]). Why the number cannot come to mean another object is
//!   argued beside each, in [`answer::answers`], [`signals`], [`jobs`], [`ipc`] and [`sockets::calls`].
//! - **sendmsg(2)** can where no socket in the sandbox sends to an address that a message names, whichever the
//!   descriptor and the memory are by then: with a [`sockets::quiet::Harmless`], which only that check makes.
//! - A call on **files** can only with a word for what Landlock is relied on ([`files::verdict::Relied`]):
//!
//! | relied on | why it is safe, though the path may change after the look |
//! |---|---|
//! | `Alone` | the only judge of such calls under this policy, as of reads where nothing is denied inside of what may be written, or of such objects: devices, proc(5), what has no name |
//! | `Granted` | Landlock grants no more than the rules allow; what the path leads to by then, it judges |
//! | `DeniedAnyway` | Landlock was told nothing of it, or not by this name, and refuses; so it does wherever the path leads by then, unless that is allowed |
//! | `Futile` | the kernel refuses such arguments; should they be others by then, Landlock judges |
//! | `Question` | the call only asks (access(2)), and gives no right by the answer |
//! | `OutOfSight` | the broker cannot look as the target would; Landlock grants what it was told at launch |
//!
//! Wherever something is decided, Landlock decides, and it was told nothing that the rules do not allow, but for
//! the directories of the reserve that still wait: closed to all but root, to which the broker refuses what it
//! finds in time, and empty when they get their place.
//! Not among them is an error found on the way: what was missing may have been made since, for the broker alone
//! to change. Then the error is the answer. There is one exception to "no more than the rules": where a path may
//! not be read inside of what may be written, Landlock has to let the tree be read (`files/opens.rs` says why),
//! and there every open that can read is the broker's, with a verdict that cannot continue.
//!
//! What is read under a thread's id is the target's own only if it still waits afterwards. So everything that
//! acts for a target takes a [`kernel::request::Confirmed`], which only that check makes; and an answer consumes
//! the [`kernel::request::Request`], so that there is one.
//!
//! # The life of an openat
//!
//! 1. The filter allows it for O_PATH, and, if the policy denies no reads and gives no devices, where the flags, a
//!    register, ask for reading only and not as shm_open(3) does; else it notifies.
//!    What would be notified for a report alone is not where nobody asks for that (`--report`): once the rules are
//!    compiled, `session/launch.rs` knows where Landlock alone decides.
//! 2. [`answer::crew`]: the thread whose turn it is receives it; [`call::decode`] makes it a
//!    [`call::decode::FileCall::Open`] with a [`call::how::OpenHow`].
//! 3. [`answer::answers`] hands it to [`files::judge::Judge::judge`]. What names shared memory is done in the
//!    directory of the run's own ([`files::shared`]). If Landlock knows all of this policy's rules, the rest is
//!    let through and looked at for the report ([`files::observe`]), but for a directory, a terminal or a
//!    replaced file that the rules let be opened and Landlock does not know.
//! 4. Else the path is copied and followed for the target ([`files::path`]; [`files::walk`] where proc(5) is
//!    concerned; `files/open.rs` for both), and what is there is held: an object (O_PATH), or the directory
//!    that it would be made in. Where the kernel's own path of that lies in what Landlock grants, nothing more is
//!    asked: Landlock decides. Else `files/opens.rs` asks the view about the names of what is held: for reading
//!    where Landlock lets too much be read, with a verdict that cannot continue; else for writing, and for reading
//!    what was made where Landlock was told nothing. [`files::view::Reads`] are these three: what Landlock grants
//!    for reading is exactly what the rules do, more, or less.
//! 5. The verdict is a word for Landlock, or a [`files::task::Task`]: open, create, truncate, refuse.
//! 6. A task is performed once the target is confirmed to wait still, with the target's rights
//!    ([`kernel::rights`]), as the path was followed, on what is held: whatever the path names meanwhile does
//!    not matter. A file that another thread made first sends it back to step 4.
//! 7. [`answer::answers`] puts the descriptor into the target, or says the error, or lets the call through and
//!    has [`files::observe`] report what Landlock refused.
//!
//! # Any other call, room by room
//!
//! Each is decoded in [`call`], answered in [`answer::answers`], and belongs to the room of its subject between the two.
//! `CONTINUE` stands in a comment wherever something is let through, with the reason; for files that is a [`files::verdict::Relied`].
//!
//! | what asks | decoded as | judged by | done by | reported |
//! |---|---|---|---|---|
//! | open, truncate | [`call::decode::FileCall`] | `files/opens.rs` | [`files::task::Task`] | with the refusal, or by [`files::observe`] |
//! | mkdir, mknod, symlink, unlink, rmdir | the same | `files/changes.rs` | the same | the same |
//! | rename, link | the same | [`files::moves`] | the same | the same |
//! | what names /dev/shm | any of these | [`files::shared`] | the same | with the refusal |
//! | access | [`call::decode::Question`] | `files/questions.rs` | nobody | not at all |
//! | chmod, chown, utime, xattr | [`call::metadata`] | [`files::judge::Judge::change_metadata`] | `files/metadata.rs` | there |
//! | connect, bind, listen, shutdown, setsockopt of SO_REUSEADDR | [`call::decode::SocketCall`] | [`sockets::judge`], `sockets/udp.rs` | [`sockets::calls`], [`sockets::connects`] | by the judge |
//! | connect by a name, or to a name server | the same | [`sockets::judge`], `domains/direct.rs`, the proxy | [`sockets::connects`], `sockets/dial.rs`, `sockets/udp.rs` | by the proxy |
//! | sendto, sendmsg, sendmmsg | the same | `sockets/messages.rs` | `sockets/outlet.rs` | there |
//! | socket, socketpair (of Unix datagrams as the calls above) | [`call::decode::RegisterCall`] | [`sockets::calls::make_socket`] | `sockets/kinds.rs` | there |
//! | shmget, semop, msgctl and their kin | [`call::ipc`] | [`ipc`] | the same; shmat by the kernel | with `--debug` |
//! | kill and its kin | [`call::signal`] | [`signals`] | [`kernel::processes::Member`] | with `--debug` |
//! | setpgid, setsid; groups, size and locks of a terminal | [`call::decode::RegisterCall`], [`call::terminal`] | [`jobs`] | the kernel, or there | with `--debug` |
//! | prlimit, setpriority, sched_setattr | [`kernel::processes::ProcessChange`] | [`answer::answers`] | the same as signals | with `--debug` |
//! | setuid, capset, seccomp, umask, fork, PTRACE_TRACEME | [`call::decode::RegisterCall`] | [`answer::answers`] | the kernel | not at all |
//! | F_SETOWN, O_ASYNC | [`call::signal`] | [`signals`] | the kernel, [`kernel::owner`] | with `--debug` |
//! | landlock_restrict_self | [`call::decode::RegisterCall`] | nobody: it is noted ([`kernel::own_domain`]) | the kernel | not at all |
//!
//! # The start
//!
//! The C library calls `main`, without Rust's own start-up in between. That asks where the stack
//! ends, which makes the C library read and parse /proc/self/maps, and readies a report of stack
//! overflows: with the memory that this touches, a tenth of a millisecond of every launch. What
//! else it does is done here, or by [`Family::adopt`] for SIGPIPE.

#![cfg_attr(not(test), no_main)]

mod advice;
mod answer;
mod call;
mod cli;
mod compile;
mod doctor;
mod domains;
mod examine;
mod explain;
mod files;
#[cfg(test)]
mod house;
mod ipc;
mod jobs;
mod kernel;
mod learn;
mod load;
mod policy;
mod report;
mod rules;
mod run;
mod session;
mod signals;
mod sockets;

use cli::Command;
use common::wire::Handover;
use doctor::{inside, story};
use kernel::sight;
use report::failure::Failure;
use rustix::fs::{self, Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{self, Resource, Rlimit};
use session::child::Child;
use session::family::Family;
use session::launch::Tool;
use std::ffi::OsString;
use std::io::Write;
use std::os::fd::{AsRawFd, IntoRawFd};
use std::path::Path;

#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: dlmalloc::GlobalDlmalloc = dlmalloc::GlobalDlmalloc;

kernel::start::entry_point!(start);

#[cfg_attr(test, expect(dead_code, reason = "unit tests have a start of their own"))]
fn start(arguments: &[OsString]) -> i32 {
    let status = fill_standard_streams()
        .map_err(|errno| Failure::system("open /dev/null", errno))
        .and_then(|()| supervise(arguments));
    status.unwrap_or_else(|failure| {
        failure.print_with(advice::launch::about(&failure).unwrap_or_default());
        failure.status()
    })
}

/// Puts /dev/null in place of the standard streams that the caller closed: what is opened next must
/// not be taken for one of them.
fn fill_standard_streams() -> Result<(), Errno> {
    loop {
        // The lowest number that is free (open(2)).
        let null = fs::open(c"/dev/null", OFlags::RDWR, Mode::empty())?;
        if null.as_raw_fd() > 2 {
            return Ok(());
        }
        // Stays open until the end.
        let _ = null.into_raw_fd();
    }
}

/// Takes over from the launcher, does what the command line asks, and ends what is left.
fn supervise(arguments: &[OsString]) -> Result<i32, Failure> {
    let name = arguments.first().and_then(|name| name.to_str());
    let Some(handover) = name.and_then(|name| Handover::parse(name).ok()) else {
        // As the tool of a sandbox that is to be tested.
        return inside::run().ok_or_else(|| {
            Failure::Usage("landstrip-broker is started by landstrip only".to_owned())
        });
    };
    set_limits()?;
    sight::keep().map_err(|e| Failure::system("capabilities", e))?;
    let child = Child::take_over(&handover).map_err(|e| Failure::system("control", e))?;
    let mut family = Family::adopt(&handover).map_err(|e| Failure::system("signals", e))?;

    let status = obey(arguments, child, &mut family);
    // Of a command that never was, the child is left.
    if family.end() { status } else { status.and(Err(Failure::left_behind())) }
}

/// Each call under way takes descriptors, and so does what is held; and how long the command may make a
/// file, its own limit says. What the broker knows of the caller gets into no core dump, which would lie in the
/// command's working directory (core(5)). The command was cloned before and keeps its limits.
///
/// # Errors
/// Returns a [`Failure`] if no launch could come to its end: whatever it lacked first would not be the reason.
fn set_limits() -> Result<(), Failure> {
    let core = process::getrlimit(Resource::Core);
    let _ = process::setrlimit(Resource::Core, Rlimit { current: Some(0), ..core });
    for resource in [Resource::Nofile, Resource::Fsize] {
        let limit = process::getrlimit(resource);
        // Without it fewer calls can be under way at once, and files be made less long.
        if limit.current != limit.maximum {
            let _ = process::setrlimit(resource, Rlimit { current: limit.maximum, ..limit });
        }
    }
    match process::getrlimit(Resource::Nofile).current {
        Some(most) if most < DESCRIPTORS_MIN => {
            let message = format!(
                "{most} descriptors are too few, {DESCRIPTORS_MIN} are needed: raise the limit (ulimit -n)"
            );
            Err(Failure::Internal("limits", message))
        }
        _ => Ok(()),
    }
}

/// How many descriptors a run needs, without those of calls and connections.
const DESCRIPTORS_MIN: u64 = 64;

fn obey(arguments: &[OsString], child: Child, family: &mut Family) -> Result<i32, Failure> {
    let text = match cli::parse(arguments.iter().skip(1).cloned())? {
        Command::Help => cli::HELP.to_owned(),
        Command::Version => format!("landstrip {}\n", env!("CARGO_PKG_VERSION")),
        Command::Init => policy::init::policy_for(Path::new(".")),
        Command::Check(invocation) => examine::check(&invocation, &child)?,
        Command::Explain(invocation, form, words) => {
            examine::explain(&invocation, &child, form, &words)?
        }
        Command::Doctor(invocation, form) => {
            return story::run(&invocation, form, child, family);
        }
        Command::Learn(invocation, policy, tool) => {
            return learn::run(&invocation, &policy, &Tool::of(arguments, tool), child, family);
        }
        Command::Run(invocation, tool) => {
            return run::run(&invocation, &Tool::of(arguments, tool), child, family);
        }
    };
    let mut output = std::io::stdout();
    // A closed standard output is the caller's choice.
    let _ = output.write_all(text.as_bytes()).and_then(|()| output.flush());
    Ok(0)
}

//! Notifications of the seccomp filter, received and answered (seccomp_unotify(2)): the threads that
//! do it, and the one place from which answers leave.
//!
//! A call is let through by [`answers`] alone, and only for a verdict of a kind that can say so: by
//! registers, of a file call, or of sendmsg(2) as long as no socket heeds an address
//! (`sockets::sendmsg_gate`). Why that is safe is argued beside `answers::Answerer::answer`.
//! What may be asked about waits without a thread, and is judged anew when the answer is there (`again`).
//!
//! # Numbers that are let through
//!
//! A thread that was let through chooses when to go on: with SCHED_IDLE beside busy threads it stands for a minute,
//! while another thread gives up what the number named, and cycles the table until it is another's. So what is let
//! through by registers is that which such a minute does not change. Where something is held until the thread is past, that
//! is seen by its sleep: the kernel finds what a number names before anything in the call can sleep (setpgid(2), shmat(2)).
//!
//! | call | let through with | what the number names after a minute |
//! |---|---|---|
//! | shmat, SHM_LOCK | the id of a segment | the same: the broker has it attached until the thread is past (`ipc`) |
//! | prlimit, setpriority, ioprio_set, sched_set* | 0, the caller's thread or process | the same: it lasts as long as the caller; others the broker changes |
//! | kill, tkill, rt_sigqueueinfo | the caller's process or thread | the same |
//! | tgkill, rt_tgsigqueueinfo | the caller's process, and any thread | a thread of that process, or none: the kernel compares both |
//! | F_SETOWN | the caller's process | the same, whichever file the descriptor is by then |
//! | setpgid | a group of its own | a group that it makes of itself or of its child: the kernel permits no other |
//! | setsid | nothing | a session of the caller's |
//! | setpgid | another group | the same: held until the thread is past (`jobs`) |
//! | TIOCSPGRP, TCSETS and their kin | a descriptor | whatever it is: the session of the process decides, or there is no terminal of the caller's (`jobs`) |
//! | TIOCGPGRP | a descriptor | whatever it is: it only asks |
//! | TIOCSCTTY | a descriptor | a terminal of the caller's that controls no session, at most: it signals the sandbox then, until that ends (`jobs`) |
//! | PTRACE_ATTACH, PTRACE_SEIZE | the id of a thread | whichever it is: Landlock decides |
//! | flock | a descriptor, where none can be duplicated | whatever it is: what may be read can be locked there, which is told |
//! | F_SETFL, FIOASYNC | a descriptor, where none can be duplicated | whatever it is: Landlock decides who is signalled |
//! | socket, socketpair, setsockopt | kinds and options | nothing that others have |
//! | umask, setuid and its kin, capset, prctl, seccomp | nothing, or the caller | the same; no_new_privs is set |
//! | landlock_restrict_self | a ruleset | whatever it is: it restricts the caller only |
//! | fork | nothing | what is forked is in the sandbox |
//! | PTRACE_TRACEME | nothing | the broker, if the parent has ended: then the target stops nobody but itself |
//!
//! What the filter allows without asking takes numbers as well: descriptors, which are the caller's or of who shares its
//! table; 0, the caller itself; processes that Landlock decides about as the call is made (kill and its kin, pidfds,
//! process_vm_readv), or that are only asked about (getpriority, prlimit without a new limit); clocks and timers.

mod again;
pub mod answers;
mod hand_over;
mod watch;
pub(crate) mod worker_pool;

//! What the kernel tells of processes: proc(5). The one parser of `/proc/PID/status`, and the one of
//! `children`.

use super::credentials::Credentials;
use super::kill;
use super::threads::once;
use common::memory;
use rustix::fs::{self, Dir, Mode, OFlags};
use rustix::io::{self, Errno};
use rustix::param::linux_execfn;
use rustix::process::{self, Pid};
use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::Ordering;

/// The program that this process executes, by the kernel's own name for it: a canonical path. One that lies in memory has
/// none; it is executed again by the descriptor that it was executed by.
pub fn own_program() -> io::Result<&'static Path> {
    programs().map(|(own, _)| own.as_path())
}

/// The path that this program was executed by: the launcher's own directory, and where it has found the broker from there.
pub fn called() -> &'static Path {
    Path::new(OsStr::from_bytes(linux_execfn().to_bytes()))
}

/// What this program starts, if it lies in memory (`common::memory`).
pub fn started_in_memory() -> Option<&'static Path> {
    programs().ok()?.1.as_deref()
}

fn programs() -> io::Result<&'static (PathBuf, Option<PathBuf>)> {
    static PROGRAMS: OnceLock<(PathBuf, Option<PathBuf>)> = OnceLock::new();
    once(&PROGRAMS, || {
        let name = fs::readlink("/proc/self/exe", Vec::new())?.into_bytes();
        let started = memory::started_by(&name).map(OsStr::from_bytes);
        let started = started.map(|number| Path::new("/proc/self/fd").join(number));
        let own = || OsString::from_vec(name).into();
        Ok((started.as_ref().map_or_else(own, |_| called().to_owned()), started))
    })
}

/// What the kernel tells of a thread (proc_pid_status(5)).
#[derive(Clone, Debug)]
pub struct Status(Vec<u8>);

impl Status {
    /// Of the thread with this id.
    pub fn of(thread: Pid) -> io::Result<Self> {
        read(&format!("/proc/{}/status", thread.as_raw_nonzero())).map(Self)
    }

    /// Of the calling thread.
    pub fn own() -> io::Result<Self> {
        read("/proc/thread-self/status").map(Self)
    }

    /// User, groups, capabilities and filters.
    ///
    /// # Errors
    /// Returns [`Errno::IO`] if the kernel does not tell.
    pub fn credentials(&self) -> io::Result<Credentials> {
        Credentials::read(|name| self.field(name)).ok_or(Errno::IO)
    }

    /// The permission bits left out of what the thread creates (umask(2)).
    pub fn umask(&self) -> io::Result<Mode> {
        let mask = self.number("Umask:", 8).and_then(|mask| u32::try_from(mask).ok());
        mask.map(Mode::from_bits_truncate).ok_or(Errno::IO)
    }

    /// The id of its process.
    pub fn process(&self) -> io::Result<i32> {
        self.id("Tgid:").ok_or(Errno::IO)
    }

    /// The process that is its parent.
    ///
    /// # Errors
    /// Returns [`Errno::SRCH`] for one outside this PID namespace.
    pub fn parent(&self) -> io::Result<Pid> {
        self.id("PPid:").and_then(Pid::from_raw).ok_or(Errno::SRCH)
    }

    /// Whether a signal is pending for the thread (signal(7)).
    ///
    /// One for the whole process is told to the main thread if that does not block it; else to any other that does not,
    /// so perhaps to this one.
    pub fn is_signalled(&self) -> bool {
        let signals = |name| self.number(name, 16).unwrap_or(0);
        let (process, thread) = (self.id("Tgid:"), self.id("Pid:"));
        let open = !signals("SigBlk:") & !kill::UNHEEDED.load(Ordering::SeqCst);
        let shared = signals("ShdPnd:") & open;
        let of_main = || {
            let main = Self::of(Pid::from_raw(process?)?).ok()?;
            main.number("SigBlk:", 16).map(|blocked| shared & blocked)
        };
        let is_main = process.is_some() && process == thread;
        let shared = if is_main || shared == 0 { shared } else { of_main().unwrap_or(0) };
        (signals("SigPnd:") & open) | shared != 0
    }

    /// Whether the thread sleeps, is stopped or has ended: then nothing that it was let through for before is still
    /// to begin. What only waits for a processor is told as running, and who waits for a lock of the kernel's where those
    /// can be waited for (PREEMPT_RT) as in an uninterruptible sleep.
    pub fn rests(&self) -> bool {
        self.state().is_some_and(|state| matches!(state, 'S' | 'T' | 't' | 'Z' | 'X'))
    }

    /// Whether the process has ended and is to be reaped.
    pub fn has_ended(&self) -> bool {
        self.state().is_some_and(|state| matches!(state, 'Z' | 'X'))
    }

    /// The state of the thread, such as `T` for one that is stopped.
    pub fn state(&self) -> Option<char> {
        self.field("State:")?.chars().next()
    }

    /// Whether the process has a handler for the signal `number`.
    pub fn catches(&self, number: i32) -> bool {
        self.has("SigCgt:", number)
    }

    /// Whether the thread blocks the signal `number`, or its process ignores it.
    pub fn disregards(&self, number: i32) -> bool {
        self.has("SigBlk:", number) || self.has("SigIgn:", number)
    }

    fn has(&self, set: &str, number: i32) -> bool {
        let set = self.number(set, 16).unwrap_or(0);
        (1..=64).contains(&number) && set & 1 << (number - 1) != 0
    }

    /// How many threads the process has.
    pub fn threads(&self) -> Option<u64> {
        self.number("Threads:", 10)
    }

    /// All of it.
    pub fn text(&self) -> &[u8] {
        &self.0
    }

    fn id(&self, name: &str) -> Option<i32> {
        self.field(name)?.parse().ok()
    }

    fn number(&self, name: &str, radix: u32) -> Option<u64> {
        u64::from_str_radix(self.field(name)?, radix).ok()
    }

    fn field(&self, name: &str) -> Option<&str> {
        field(&self.0, name)
    }
}

/// Whether `thread` can still be about to do what it was let through for. What cannot be looked at can.
pub(super) fn may_go_on(thread: Pid) -> bool {
    match Status::of(thread) {
        Ok(status) => !status.rests(),
        // A mount of proc(5) with hidepid does not show one that is not dumpable.
        Err(_) => !is_gone(thread),
    }
}

/// Whether there is no such thread any more, whatever proc(5) shows: getpriority(2) takes the id of any thread, and
/// asks for no right.
fn is_gone(thread: Pid) -> bool {
    process::getpriority_process(Some(thread)) == Err(Errno::SRCH)
}

/// Whether proc(5) is mounted so that it need not show this user's own processes (hidepid).
pub fn hides_processes() -> io::Result<bool> {
    let table = String::from_utf8_lossy(&read_records("/proc/self/mountinfo")?).into_owned();
    Ok(table.lines().any(|line| line.contains(" /proc ") && line.contains("hidepid=")))
}

/// The value in the first line of `text` that begins with `name`.
pub fn field<'a>(text: &'a [u8], name: &str) -> Option<&'a str> {
    let mut lines = text.split(|&byte| byte == b'\n');
    let value = lines.find_map(|line| line.strip_prefix(name.as_bytes()))?;
    str::from_utf8(value).ok().map(str::trim)
}

/// A small file of proc(5), which the kernel writes at once: what is shorter than the buffer is all.
pub fn read(path: &str) -> io::Result<Vec<u8>> {
    read_while(path, |text| text.len() == text.capacity())
}

/// A file of proc(5) that comes by records, as many at a time as fit.
pub fn read_records(path: &str) -> io::Result<Vec<u8>> {
    read_while(path, |_| true)
}

/// Reads until there is nothing, or nothing is expected, any more.
fn read_while(path: &str, more: impl Fn(&Vec<u8>) -> bool) -> io::Result<Vec<u8>> {
    const SIZE: usize = 4096;
    let file = fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let mut text = Vec::with_capacity(SIZE);
    while io::read(&file, rustix::buffer::spare_capacity(&mut text))? > 0 && more(&text) {
        text.reserve(SIZE / 2);
    }
    Ok(text)
}

/// The children of `process`, each thread's; none if there is no such process.
pub fn children(process: i32) -> Vec<Pid> {
    let tasks = format!("/proc/{process}/task");
    let threads = numbers(&tasks).into_iter().flatten();
    let lists = threads.map(|thread| read_records(&format!("{tasks}/{thread}/children")));
    lists
        .flatten()
        .flat_map(|list| {
            let ids = str::from_utf8(&list).unwrap_or_default().split_ascii_whitespace();
            ids.filter_map(|id| Pid::from_raw(id.parse().ok()?)).collect::<Vec<_>>()
        })
        .collect()
}

/// The children of this process.
pub fn own_children() -> Vec<Pid> {
    children(process::getpid().as_raw_pid())
}

/// Those of them that are of its run.
pub fn children_of_run() -> Vec<Pid> {
    let mut found = own_children();
    found.retain(|child| is_of_run(*child));
    found
}

/// What descends from this process, but for its own `helpers`: `most` or some more, and whether these are all.
pub fn descendants(helpers: &[Option<Pid>], most: usize) -> (Vec<Pid>, bool) {
    let mut found = children_of_run();
    found.retain(|child| !helpers.contains(&Some(*child)));
    // Who loses its parent meanwhile becomes a child of this one's.
    let mut known: HashSet<_> = found.iter().copied().collect();
    let mut next = 0;
    while next < found.len() && found.len() < most {
        let inner = children(found[next].as_raw_pid()).into_iter();
        found.extend(inner.filter(|child| known.insert(*child)));
        next += 1;
    }
    let are_all = next == found.len();
    (found, are_all)
}

/// Whether `process` was started by this one since that is landstrip, or by what it started: where Landlock scopes signals,
/// no other can be signalled. A thread that acts for another user is told so of all.
pub fn is_of_run(process: Pid) -> bool {
    let is_refused = process::test_kill_process(process) == Err(Errno::PERM);
    !is_refused || process::geteuid() != process::getuid()
}

/// The ids of all processes, in ascending order.
pub fn processes() -> io::Result<Vec<i32>> {
    numbers("/proc").map(Iterator::collect)
}

/// The numbers that entries of a directory of proc(5) have as names.
pub(super) fn numbers(directory: &str) -> io::Result<impl Iterator<Item = i32> + use<>> {
    let directory = fs::open(directory, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let names = Dir::new(directory)?.flatten();
    Ok(names.filter_map(|entry| entry.file_name().to_str().ok()?.parse().ok()))
}

/// The process or thread that the canonical path `name` in /proc is about.
pub fn owner(name: &Path) -> Option<i32> {
    let inside = name.strip_prefix("/proc").ok()?;
    inside.iter().next()?.to_str()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::thread::gettid;

    #[test]
    fn only_signals_that_this_thread_gets_count() {
        /// No process has this number: the kernel has none above 2^22.
        const ME: i32 = 1 << 22 | 1;
        for (pid, pending, shared, blocked, expected) in [
            (ME, 0, 0, 0, false),
            (ME, 2, 0, 0, true),
            (ME, 2, 0, 2, false),
            (ME, 0, 2, 0, true),
            (ME, 0, 2, 2, false),
            (ME, 0, 6, 2, true),
            (8, 0, 2, 0, false),
            (8, 2, 0, 0, true),
        ] {
            let status = format!(
                "Name:\tx\nTgid:\t{ME}\nPid:\t{pid}\nTracerPid:\t0\nSigQ:\t1/9\nSigPnd:\t{pending:016x}\n\
                 ShdPnd:\t{shared:016x}\nSigBlk:\t{blocked:016x}\nSigIgn:\t0000000000001000\n"
            );
            assert_eq!(Status(status.clone().into_bytes()).is_signalled(), expected, "{status}");
        }
        assert!(!Status(Vec::new()).is_signalled());
    }

    #[test]
    fn a_status_tells_of_its_own_process() {
        let status = Status::own().unwrap();
        assert_eq!(status.process().unwrap().cast_unsigned(), std::process::id());
        assert_eq!(
            status.parent().unwrap().as_raw_pid().cast_unsigned(),
            std::os::unix::process::parent_id()
        );
        assert_eq!(status.credentials().unwrap(), Status::own().unwrap().credentials().unwrap());
    }

    #[test]
    fn whoever_has_ended_does_not_go_on() {
        assert!(!is_gone(gettid()) && !is_gone(Pid::INIT));
        let other = std::thread::spawn(gettid).join().unwrap();
        // The kernel wakes who waits for a thread a moment before it is gone.
        let mut looks =
            (0..10_000).map(|_| std::thread::sleep(std::time::Duration::from_millis(1)));
        assert!(looks.any(|()| is_gone(other)) && !may_go_on(other));
    }

    #[test]
    fn whoever_sleeps_is_stopped_or_has_ended_rests() {
        let rests = |state| Status(format!("Name:\tx\nState:\t{state} (x)\n").into()).rests();
        assert!(['S', 'T', 't', 'Z', 'X'].into_iter().all(rests));
        assert!(!['R', 'D', 'W', 'I'].into_iter().any(rests));
        assert!(!Status(Vec::new()).rests());
    }
}

//! Whose a terminal is: the one that the sandbox was started on, or one of its own making.
//!
//! Another terminal of the same user would show what is typed there, a password perhaps. Of a
//! pseudoterminal the two ends have one number, which is no other's as long as somebody has the master
//! open. Sources: pts(4), tty(4), proc_pid_fdinfo(5).

use kernel::fd_scan;
use kernel::object::Object;
use kernel::target::Target;
use kernel::terminal;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{self, FileType, Mode, OFlags};
use rustix::process;
use std::path::{Path, PathBuf};

/// Where the terminals live that are made when they are needed.
pub(crate) const DIRECTORY: &str = "/dev/pts";

/// The major device number of such terminals (Documentation/admin-guide/devices.txt).
const PSEUDOTERMINAL: u32 = 136;
const CONSOLE: u32 = 4;

/// The controlling terminal of this process, and its path, if a standard stream leads to it: else the command is started
/// without a terminal, and in a session of its own. In another instance of devpts the same number is another terminal: the
/// kernel tells, which answers for the controlling one alone.
pub(crate) fn of_caller() -> Option<(OwnedFd, PathBuf)> {
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let open = |path: &Path| fs::open(path, flags, Mode::empty()).ok();
    let stream = terminal::controlling()?;
    let path = PathBuf::from(match Target::new(process::getpid()).terminal().ok()? {
        (PSEUDOTERMINAL, minor) => format!("{DIRECTORY}/{minor}"),
        (CONSOLE, minor @ ..64) => format!("/dev/tty{minor}"),
        (CONSOLE, minor) => format!("/dev/ttyS{}", minor - 64),
        _ => "/dev/console".to_owned(),
    });
    // A container's is not always in its own devpts.
    let found = open(&path).filter(|found| terminal::foreground(found.as_fd()).is_ok());
    Some((found.or_else(|| stream.try_clone_to_owned().ok())?, path))
}

/// Whether the sandbox, or `target` first of all, has the other end of the terminal that is held: then
/// somebody in it made it. If that end has been closed, this one cannot be opened any more (EIO), though
/// its number can be another's by now.
pub(crate) fn is_of_sandbox(target: Target, object: &Object) -> bool {
    let device = object.device();
    let is_terminal =
        object.kind() == FileType::CharacterDevice && fs::major(device) == PSEUDOTERMINAL;
    let is_in_place =
        || object.path().is_ok_and(|path| path.parent() == Some(Path::new(DIRECTORY)));
    is_terminal && is_in_place() && fd_scan::has_terminal(target.thread(), fs::minor(device))
}

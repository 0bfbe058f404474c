//! Files that were opened for a target are put into its table of descriptors.

use super::answers::Answerer;
use crate::files::task::{After, Opened};
use kernel::request::Request;
use rustix::fd::AsFd;
use rustix::fs::{self, AtFlags, OFlags};
use rustix::io::Errno;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How long is waited for a thread that closes a file, and how long between two looks: it only has to be scheduled.
const LIMIT: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_micros(50);

impl Answerer {
    /// Gives the target a file that was opened for it; the number of the descriptor is the answer.
    pub(super) fn hand_over(&self, request: Request<'_>, opened: Opened) {
        let waits =
            matches!(opened.after, After::Truncate(_) | After::PipeEnd) || opened.may_be_executed();
        let Opened { file, flags, after } = opened;
        let close_on_exec = flags.contains(OFlags::CLOEXEC);
        self.handing_over.fetch_add(1, Ordering::SeqCst);
        let unanswered = if waits {
            // The broker must not have it open any more when the target goes on. That takes two wake-ups
            // more.
            Some((request.give(file.as_fd(), close_on_exec), request))
        } else {
            let handed = request.hand_over(file.as_fd(), close_on_exec);
            handed.err().map(|(request, errno)| (Err(errno), request))
        };
        match (&unanswered, &after) {
            // Kept for the same call, made again: what cannot be opened so twice.
            (Some((Err(Errno::NOENT), request)), After::PipeEnd | After::Created(_)) => {
                request.keep(file.as_fd(), close_on_exec, matches!(after, After::PipeEnd));
            }
            // The kernel takes the number of the descriptor first, and changes nothing if it cannot. By now somebody
            // can have put another file there, which stays. If that is done after the look, it is removed with the
            // rights of the target, which could have removed it itself: it is permitted to make, and so to remove,
            // what has this name.
            (Some((Err(Errno::MFILE), request)), After::Created(made)) if made.leads_to(&file) => {
                let remove = || made.remove(request.confirm()?, AtFlags::empty());
                let _ = self.rights.with_those_of(request.target(), remove);
            }
            _ => {}
        }
        drop(file);
        self.handing_over.fetch_sub(1, Ordering::SeqCst);
        let Some((given, request)) = unanswered else { return };
        let given = match (given, after) {
            // Nobody waits for an answer.
            (Err(Errno::NOENT), _) => return,
            // The descriptor cannot be taken back: it stays if this fails, which it could only where
            // files are opened for writing that then cannot be written.
            (Ok(number), After::Truncate(writer)) => fs::ftruncate(writer, 0).map(|()| number),
            (given, _) => given,
        };
        match given {
            Ok(number) => request.complete_open(number),
            Err(errno) => request.complete(Err(errno)),
        }
    }

    /// Waits until no thread has a file open still that it has just given a target. That may have closed it by
    /// now, and execute it once it is executable, which fails as long as anyone has it open for writing (ETXTBSY).
    pub(super) fn wait_for_hand_over(&self) {
        let deadline = Instant::now() + LIMIT;
        while self.handing_over.load(Ordering::SeqCst) > 0 && Instant::now() < deadline {
            std::thread::sleep(PAUSE);
        }
    }
}

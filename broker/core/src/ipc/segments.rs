//! Shared memory: shmget(2), shmat(2), shmctl(2).
//!
//! The broker makes each segment without a key, attaches it, and removes it at once. A segment that was removed keeps
//! its id, and can be attached by it, as long as anybody has it attached. So the id is that of no other while the
//! broker has, and nothing is left of it when the broker has ended, however it did. When the command removes one, the
//! broker keeps it until no thread that was let through with the id can be on its way: each has made another call since,
//! or was seen to rest ([`Sign::is_pending`]). From then on the segment lives while the command has it attached,
//! as outside; who attaches it again has the broker do so first.

use super::{Answer, Caller};
use kernel::ipc::{self, Attachment, SegmentStatus};
use kernel::request::Sign;
use kernel::threads::lock;
use nix::libc;
use rustix::io::{self, Errno};
use rustix::process::{self, Pid};
use std::sync::{Mutex, MutexGuard};
use sysv::access::{Given, READ, WORDS};
use sysv::table::{OBJECTS_MAX, Object, PRIVATE, Table};
use sysv::{Argument, Caller as _, NOBODYS, bytes, halves, now};

/// SHM_DEST and SHM_LOCKED of a mode (shmctl(2)).
const REMOVED: u32 = 0o1000;
const LOCKED: u32 = 0o2000;
/// `struct shmid64_ds` (asm-generic/shmbuf.h), in words.
const STATUS_WORDS: usize = WORDS + 8;
/// After how many threads it is looked which of them are past.
const PASSING_MAX: usize = 64;

/// All segments.
#[derive(Debug, Default)]
pub(super) struct Segments(Mutex<Table<Segment>>);

#[derive(Debug)]
struct Segment {
    /// By which the kernel has it.
    id: i32,
    /// While the broker has it, the id is that of no other.
    attachment: Option<Attachment>,
    /// By the command.
    is_removed: bool,
    size: u64,
    /// The process that made it.
    creator: i32,
    /// When the command attached it last, and the process that used it, as far as the broker's own use hides that.
    used: (i64, i32),
    /// Calls that are let through with the id.
    passing: Vec<Sign>,
}

impl Segments {
    /// With those let go that `thread`, which makes another call, was the last to hold.
    fn lock(&self, thread: Pid) -> MutexGuard<'_, Table<Segment>> {
        let mut table = lock(&self.0);
        for segment in table.iter() {
            segment.passing.retain(|call| call.thread != thread);
            segment.let_go();
        }
        table
    }

    pub(super) fn get(
        &self,
        caller: &Caller<'_>,
        key: i32,
        size: u64,
        flags: i32,
    ) -> io::Result<i32> {
        let (request, target) = (caller.request, caller.request.target());
        let length = usize::try_from(size).map_err(|_| Errno::INVAL)?;
        let creator = target.process()?;
        request.confirm()?;
        let mut table = self.lock(target.thread());
        if table.is_full() {
            // What may be there counts.
            table.retain(|segment| !segment.is_gone());
        }
        let make = |_| {
            let make = || request.confirm().and_then(|_| ipc::make_segment(length, flags));
            let (id, attachment) = caller.rights.with_credentials_of(target, make)?;
            Ok((id, Segment::new(id, attachment, size, creator)))
        };
        table.get(&caller.actor, key, flags, |segment| size <= segment.size, make)
    }

    /// Lets a call through that goes by the id.
    ///
    /// # Errors
    /// Returns [`NOBODYS`] if there is no such segment any more, and what attaching it returns.
    pub(super) fn pass(&self, caller: &Caller<'_>, id: i32) -> io::Result<Answer> {
        let thread = caller.request.target().thread();
        let mut table = self.lock(thread);
        let segment = &mut find(&mut table, id)?.content;
        if segment.attachment.is_none() {
            segment.attachment = Some(attach(caller, id)?);
        }
        // What was attached just now may be another's; and what nobody else has attached would have gone.
        if segment.is_removed
            && let Err(errno) = segment.status()
        {
            segment.let_go();
            return Err(errno);
        }
        segment.note(caller.request.sign());
        Ok(Answer::LetThrough)
    }

    pub(super) fn control(
        &self,
        caller: &Caller<'_>,
        id: i32,
        command: i32,
        argument: Argument,
    ) -> io::Result<Answer> {
        let value = match command {
            // The kernel decides, and counts it as the caller's.
            libc::SHM_LOCK | libc::SHM_UNLOCK => return self.pass(caller, id),
            libc::IPC_RMID => self.remove(caller, id),
            libc::IPC_SET => self.set(caller, id, argument),
            libc::IPC_STAT => {
                let status = self.status(caller, id);
                status.and_then(|status| caller.write(argument.address, &status)).map(|()| 0)
            }
            // As for what stands in a row of the kernel's table, or for its limits.
            _ => Err(Errno::INVAL),
        };
        value.map(Answer::Value)
    }

    fn remove(&self, caller: &Caller<'_>, id: i32) -> io::Result<i32> {
        caller.request.confirm()?;
        let mut table = self.lock(caller.request.target().thread());
        let object = find(&mut table, id)?;
        object.permissions.must_own(&caller.actor)?;
        object.permissions.key = PRIVATE;
        object.content.is_removed = true;
        object.content.let_go();
        Ok(0)
    }

    fn set(&self, caller: &Caller<'_>, id: i32, argument: Argument) -> io::Result<i32> {
        let given = caller.given(argument.address, STATUS_WORDS)?;
        let mut table = self.lock(caller.request.target().thread());
        let object = find(&mut table, id)?;
        object.permissions.must_own(&caller.actor)?;
        if object.content.attachment.is_none() {
            object.content.attachment = Some(attach(caller, id)?);
        }
        object.content.status()?;
        let mut permissions = object.permissions.clone();
        permissions.set(&given)?;
        let Given { user, group, mode } = given;
        let set = || caller.request.confirm().and_then(|_| ipc::set_segment(id, user, group, mode));
        caller.rights.with_credentials_of(caller.request.target(), set)?;
        (object.permissions, object.changed) = (permissions, now());
        Ok(0)
    }

    fn status(&self, caller: &Caller<'_>, id: i32) -> io::Result<Vec<u8>> {
        caller.request.confirm()?;
        let mut table = self.lock(caller.request.target().thread());
        let object = find(&mut table, id)?;
        object.permissions.allow(&caller.actor, READ)?;
        let segment = &object.content;
        let status = segment.status()?;
        let (attached, user) = segment.used(&status);
        let rest = [
            segment.size,
            attached.cast_unsigned(),
            status.0.shm_dtime.cast_unsigned(),
            object.changed.cast_unsigned(),
            halves(segment.creator.cast_unsigned(), user.cast_unsigned()),
            segment.others(&status),
            0,
            0,
        ];
        let more = status.mode() & LOCKED | if segment.is_removed { REMOVED } else { 0 };
        Ok(bytes(object.permissions.words(id, more).into_iter().chain(rest)))
    }
}

impl Segment {
    fn new(id: i32, attachment: Attachment, size: u64, creator: i32) -> Self {
        let attachment = Some(attachment);
        let (is_removed, used, passing) = (false, (0, 0), Vec::new());
        Self { id, attachment, is_removed, size, creator, used, passing }
    }

    /// Notes that `call` is let through.
    fn note(&mut self, call: Sign) {
        if self.passing.len() >= PASSING_MAX {
            self.passing.retain(Sign::is_pending);
        }
        self.passing.push(call);
    }

    /// Detaches it if it was removed, and nobody can be on the way to it.
    fn let_go(&mut self) {
        if self.is_removed && self.attachment.is_some() {
            self.passing.retain(Sign::is_pending);
            if self.passing.is_empty() {
                if let Ok(Some(status)) = SegmentStatus::of(self.id) {
                    self.used = self.used(&status);
                }
                self.attachment = None;
            }
        }
    }

    /// When the command attached it last, and the process of its that used it.
    fn used(&self, status: &SegmentStatus) -> (i64, i32) {
        match status.0.shm_lpid == process::getpid().as_raw_pid() {
            true => self.used,
            false => (status.0.shm_atime, status.0.shm_lpid),
        }
    }

    /// How often processes of the command's have it attached.
    fn others(&self, status: &SegmentStatus) -> u64 {
        status.0.shm_nattch.saturating_sub(self.attachment.is_some().into())
    }

    /// What the kernel knows of it.
    ///
    /// # Errors
    /// Returns [`NOBODYS`] if it has gone, or would have but for the broker.
    fn status(&self) -> io::Result<SegmentStatus> {
        let status = SegmentStatus::of(self.id)?.ok_or(NOBODYS)?;
        match self.is_removed && self.others(&status) == 0 {
            true => Err(NOBODYS),
            false => Ok(status),
        }
    }

    fn is_gone(&self) -> bool {
        self.attachment.is_none() && matches!(SegmentStatus::of(self.id), Ok(None))
    }
}

/// That with this id, by what the segment knows itself: what is let through rests on the id.
fn find(table: &mut Table<Segment>, id: i32) -> io::Result<&mut Object<Segment>> {
    table.find(id).and_then(|found| if found.content.id == id { Ok(found) } else { Err(NOBODYS) })
}

/// Attaches a segment that was removed once more, as the caller may.
fn attach(caller: &Caller<'_>, id: i32) -> io::Result<Attachment> {
    let target = caller.request.target();
    let attach = || caller.request.confirm().and_then(|_| Attachment::of(id));
    match caller.rights.with_credentials_of(target, attach) {
        Err(Errno::IDRM) => Err(NOBODYS),
        attached => attached,
    }
}

const _: () = assert!(OBJECTS_MAX < 4096, "others get segments too");

#[cfg(test)]
mod tests {
    use super::super::actor;
    use super::*;
    use kernel::proc::Status;
    use kernel::request::Request;
    use kernel::rights;
    use kernel::test_call::TestCall;
    use rustix::thread::gettid;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc;

    fn make(segments: &Segments) -> i32 {
        let actor = actor(&rights::of_this_thread().unwrap());
        let make = |_| {
            let (id, attachment) = ipc::make_segment(4096, 0o600)?;
            Ok((id, Segment::new(id, attachment, 4096, 1)))
        };
        lock(&segments.0).get(&actor, PRIVATE, 0o600, |_| true, make).unwrap()
    }

    fn pass(segments: &Segments, id: i32, call: &Request<'_>) {
        lock(&segments.0).find(id).unwrap().content.note(call.sign());
    }

    /// Whether the id is still that of the segment after another thread has removed it, and made a call.
    fn stays(segments: &Segments, id: i32) -> bool {
        lock(&segments.0).find(id).unwrap().content.is_removed = true;
        drop(segments.lock(gettid()));
        SegmentStatus::of(id).unwrap().is_some()
    }

    #[test]
    fn an_id_is_kept_for_a_thread_that_was_not_answered_although_it_sleeps() {
        let segments = Segments::default();
        let id = make(&segments);
        let (end, ended) = mpsc::channel::<()>();
        let (call, sleeper) = TestCall::before(move || {
            let _ = ended.recv();
        });
        let request = call.request();
        let thread = request.target().thread();
        pass(&segments, id, &request);
        while !Status::of(thread).unwrap().rests() {
            std::thread::yield_now();
        }
        assert!(stays(&segments, id));
        request.complete(Ok(0));
        while !Status::of(thread).unwrap().rests() {
            std::thread::yield_now();
        }
        assert!(!stays(&segments, id));
        drop(end);
        sleeper.join().unwrap();
    }

    #[test]
    fn an_id_is_kept_for_a_thread_that_goes_on_until_it_has_ended_or_calls_again() {
        for calls_again in [true, false] {
            let segments = Segments::default();
            let id = make(&segments);
            let is_over = Arc::new(AtomicBool::new(false));
            let over = Arc::clone(&is_over);
            let (call, runner) = TestCall::before(move || {
                while !over.load(Ordering::SeqCst) {
                    std::hint::spin_loop();
                }
            });
            let request = call.request();
            let thread = request.target().thread();
            pass(&segments, id, &request);
            request.complete(Ok(0));
            assert!(stays(&segments, id));
            if calls_again {
                drop(segments.lock(thread));
            }
            is_over.store(true, Ordering::SeqCst);
            runner.join().unwrap();
            // The kernel wakes who waits for a thread a moment before it is gone.
            while Status::of(thread).is_ok() {
                std::thread::yield_now();
            }
            assert!(!stays(&segments, id));
        }
    }
}

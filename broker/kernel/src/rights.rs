//! Work with the credentials of a target that has others than the broker: a process of root's that
//! became another user, for instance.
//!
//! A thread of its own takes on those that decide about what it does (the effective user and that of
//! the file system, the groups, the capabilities in effect), is compared with the target, does the
//! work, and ends. So a path that the target may not search, it does not search either. Its real and
//! saved user stay the broker's: by those the kernel decides who may signal it, and so the broker, and
//! who may trace it. What asks for the real user of the caller, [`Rights::must_be_of`] decides.
//!
//! System calls that change credentials concern the calling thread alone; the C library's wrappers,
//! which pass them on to all threads, are not used. Sources: nptl(7), credentials(7), kill(2), ptrace(2).

use super::credentials::Credentials;
use super::identity::Identity;
use super::label;
use super::nested_landlock::{NestedLandlock, NestedLandlocks};
use super::proc::Status;
use super::processes::Member;
use super::target::Target;
use super::threads::{CALL_STACK, lock, once};
use rustix::io::{self, Errno};
use rustix::thread::{self, CapabilitySets};
use std::sync::{Mutex, OnceLock};

/// What is known of the credentials of everything in the sandbox, beside the broker's own.
///
/// With no_new_privs set and no user namespaces, credentials and the number of filters change by the
/// calls that are notified for it alone. So they are compared until they were found alike once, which
/// is how the command starts, and again once somebody made such a call.
#[derive(Debug, Default)]
pub struct Rights {
    /// The program of the proxy, which descends from the broker as the sandbox does.
    proxy: Option<Identity>,
    /// The broker's own, with the filter that the command has; read when first needed.
    own: OnceLock<Credentials>,
    known: Mutex<Known>,
    /// The Landlock domains that processes put themselves in.
    pub domains: NestedLandlocks,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Known {
    /// Nobody was compared yet.
    #[default]
    Nothing,
    /// Everything has the broker's.
    Alike,
    /// Somebody has asked the kernel for others.
    Diverged,
}

impl Rights {
    /// Of a sandbox with this program as its proxy.
    pub fn beside(proxy: Option<Identity>) -> Self {
        Self { proxy, ..Self::default() }
    }

    /// The process or thread of the sandbox with this id.
    ///
    /// # Errors
    /// Returns [`Errno::SRCH`] if there is none, [`Errno::PERM`] for one outside, or why the own credentials are not known.
    pub fn member(&self, id: i32) -> io::Result<Member> {
        Member::find(id, self.own()?, self.proxy)
    }

    /// Notes that somebody asks the kernel for other credentials.
    pub fn diverge(&self) {
        *lock(&self.known) = Known::Diverged;
    }

    /// Whether `target` has exactly the broker's rights, so that acting for it gives it no more.
    pub fn are_those_of(&self, target: Target) -> io::Result<bool> {
        Ok(self.domains.of(target)? == NestedLandlock::None && self.are_credentials_of(target)?)
    }

    /// The same for what Landlock is not asked about.
    pub fn are_credentials_of(&self, target: Target) -> io::Result<bool> {
        Ok(self.has_credentials(target)? && label::must_be_own(target.thread()).is_ok())
    }

    /// The same, whatever a security module calls it.
    pub fn has_credentials(&self, target: Target) -> io::Result<bool> {
        if *lock(&self.known) == Known::Alike {
            return Ok(true);
        }
        let alike = target.status()?.credentials()? == *self.own()?;
        let mut known = lock(&self.known);
        if alike && *known == Known::Nothing {
            *known = Known::Alike;
        }
        Ok(alike)
    }

    /// Whether something can be done with exactly the rights of `target`.
    pub fn can_be_those_of(&self, target: Target) -> bool {
        self.with_those_of(target, || Ok(())).is_ok()
    }

    /// Does `work` with exactly the rights of `target`.
    ///
    /// # Errors
    /// Returns what `work` returns; [`Errno::ACCESS`] if the rights cannot be taken on.
    pub fn with_those_of<R: Send>(
        &self,
        target: Target,
        work: impl FnOnce() -> io::Result<R> + Send,
    ) -> io::Result<R> {
        match self.domains.of(target)? {
            NestedLandlock::None => self.with_credentials_of(target, work),
            _ => Err(Errno::ACCESS),
        }
    }

    /// Does `work`, about which Landlock is not asked, with the rights of `target`.
    ///
    /// # Errors
    /// As [`Rights::with_those_of`].
    pub fn with_credentials_of<R: Send>(
        &self,
        target: Target,
        work: impl FnOnce() -> io::Result<R> + Send,
    ) -> io::Result<R> {
        match self.are_credentials_of(target)? {
            true => work(),
            false => as_another(target, work),
        }
    }

    /// Does `work`, by which peers know `target`, with its user, groups and capabilities. Filters of its own do not matter:
    /// it made the call through them.
    ///
    /// # Errors
    /// As [`Rights::with_those_of`].
    pub fn with_identity_of<R: Send>(
        &self,
        target: Target,
        work: impl FnOnce() -> io::Result<R> + Send,
    ) -> io::Result<R> {
        match self.are_credentials_of(target)?
            || target.status()?.credentials()?.has_rights_of(self.own()?)
        {
            true => work(),
            false => as_another(target, work),
        }
    }

    /// Checks that the kernel would let `target` change the limits of `process`, which it has the same
    /// real user for (prlimit(2), ioprio_set(2)), whatever its effective one is.
    ///
    /// # Errors
    /// Returns [`Errno::PERM`] if not, and what reading proc(5) returns.
    pub fn must_be_of(&self, target: Target, process: &Status) -> io::Result<()> {
        if self.are_those_of(target)? {
            return Ok(());
        }
        let (by, of) = (target.status()?.credentials()?, process.credentials()?);
        if by.are_one_user_with(&of) { Ok(()) } else { Err(Errno::PERM) }
    }

    /// The broker's own credentials, with the filter that the command has.
    pub fn own(&self) -> io::Result<&Credentials> {
        once(&self.own, of_this_thread)
    }
}

/// The credentials of the calling thread, with the filter that the command has.
pub fn of_this_thread() -> io::Result<Credentials> {
    Ok(Status::own()?.credentials()?.of_command())
}

/// Does `work` with the rights of `target`, which are not the broker's.
///
/// # Errors
/// As [`with`]; [`Errno::ACCESS`] if a security module tells it from the broker.
pub fn as_another<R: Send>(
    target: Target,
    work: impl FnOnce() -> io::Result<R> + Send,
) -> io::Result<R> {
    label::must_be_own(target.thread())?;
    with(&target.status()?.credentials()?, work)
}

/// Has a thread that may do exactly what these credentials permit do `work`.
///
/// # Errors
/// Returns what `work` returns; [`Errno::ACCESS`] if the broker cannot take them on, because it is
/// not root or they hold more than it has; [`Errno::AGAIN`] if there can be no thread.
pub fn with<R: Send>(
    credentials: &Credentials,
    work: impl FnOnce() -> io::Result<R> + Send,
) -> io::Result<R> {
    std::thread::scope(|scope| {
        let builder = std::thread::Builder::new().stack_size(CALL_STACK);
        let thread = builder.spawn_scoped(scope, || {
            take_on(credentials).map_err(|_| Errno::ACCESS)?;
            // What could not be taken on, or is not known here, shows.
            if of_this_thread()?.act_as(credentials) { work() } else { Err(Errno::ACCESS) }
        });
        thread.map_err(|_| Errno::AGAIN)?.join().unwrap_or(Err(Errno::ACCESS))
    })
}

fn take_on(credentials: &Credentials) -> io::Result<()> {
    thread::set_thread_groups(&credentials.more_groups)?;
    let [real, effective, saved, _] = credentials.groups;
    thread::set_thread_res_gid(real, effective, saved)?;
    let [_, effective, ..] = credentials.users;
    thread::set_thread_res_uid(None, effective, None)?;
    let own = thread::capabilities(None)?;
    thread::set_capabilities(None, CapabilitySets { effective: credentials.effective, ..own })
}

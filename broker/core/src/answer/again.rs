//! Calls that are asked about: judged for the first time, parked, and judged again by the rules of then.

use super::answers::Answerer;
use crate::ask::{Addition, Asking, Fate, Grant, Parked};
use crate::call::decode::{AddressUse, Call, FileCall, Messages, SocketCall};
use crate::files::judge::Judge;
use crate::files::verdict::FileVerdict;
use crate::report::denials::Denial;
use crate::report::errno::strerror;
use crate::report::traps::Held;
use crate::sockets;
use crate::sockets::calls::SocketVerdict;
use common::trap::{FileOperation, NetworkOperation};
use kernel::identity::hold;
use kernel::request::{RESTART, Request};
use kernel::threads::lock;
use rules::files::push_new;
use rules::pattern::Pattern;
use rustix::io::Errno;
use std::path::Path;
use std::sync::{Arc, PoisonError};

/// Most paths that may be written before no more is added.
const ROOTS_MAX: usize = 4096;

/// One time that a call is judged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Round<'a> {
    /// What was permitted to this call alone.
    granted: &'a [Denial],
    /// See [`Parked`].
    is_named: bool,
    /// Whether it may have to wait for an answer.
    may_ask: bool,
}

/// The first one of each call.
pub(crate) const FIRST: Round<'_> = Round { granted: &[], is_named: false, may_ask: true };

impl Answerer {
    /// The judge of files by the rules of now.
    pub(super) fn latest_files(&self) -> Arc<Judge> {
        Arc::clone(&self.files.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The same in this round.
    pub(super) fn files(&self, round: Round<'_>) -> Arc<Judge> {
        let latest = self.latest_files();
        let paths: Vec<_> = round.granted.iter().filter_map(Denial::written).collect();
        match &self.judges.asking {
            Some(asking) if !paths.is_empty() => {
                let mut files = lock(&asking.files).clone();
                files.allow_write.extend_from_slice(&paths);
                Arc::new(latest.with_view(latest.view.for_once(&files, paths, round.is_named)))
            }
            _ => latest,
        }
    }

    /// The judge of addresses by the rules of now.
    pub(super) fn latest_sockets(&self) -> Arc<sockets::judge::Judge> {
        Arc::clone(&self.sockets.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// What becomes of a call on a socket, unless somebody is asked about it: then it must not be answered. What is
    /// refused has done nothing; of several messages, some may be on their way.
    pub(super) fn perform_or_park(
        &self,
        request: &Request<'_>,
        call: &SocketCall,
        round: Round<'_>,
        sockets: &sockets::judge::Judge,
    ) -> Option<SocketVerdict> {
        let perform = |judge| sockets::calls::perform(judge, request, call);
        if matches!(call, SocketCall::Send(_, _, Messages::Several(..))) {
            return Some(perform(sockets));
        }
        let (mut verdict, mut held) = self.traps.holding(|| perform(sockets));
        let permitted = held.iter().find(|held| round.granted.contains(&held.denial));
        if let Some(Held { denial, .. }) = permitted {
            let once = sockets.allowing(denial, true);
            (verdict, held) = self.traps.holding(|| perform(&once));
        }
        if !matches!(verdict, SocketVerdict::Return(Err(_))) {
            self.traps.report_held(held);
            return Some(verdict);
        }
        (!self.park(request, round, held, &[])).then_some(verdict)
    }

    /// The verdict on a call on files, unless somebody is asked about it: then it must not be answered.
    pub(super) fn judge_or_park(
        &self,
        request: &Request<'_>,
        call: &FileCall,
        round: Round<'_>,
        files: &Judge,
    ) -> Option<FileVerdict> {
        let (verdict, held) = self.traps.holding(|| files.judge(request, call));
        let looked = match &verdict {
            FileVerdict::Continue(_, looks)
                if self.judges.asking.is_some() && call.operation() == FileOperation::Write =>
            {
                files.denials(looks)
            }
            _ => Vec::new(),
        };
        (!self.park(request, round, held, &looked)).then_some(verdict)
    }

    /// Has the call wait if somebody is to be asked about what was refused of it; then it must not be answered. Else
    /// that is reported.
    pub(super) fn park(
        &self,
        request: &Request<'_>,
        round: Round<'_>,
        held: Vec<Held>,
        looked: &[Denial],
    ) -> bool {
        let denials: Vec<_> = held.iter().map(|held| &held.denial).chain(looked).cloned().collect();
        // If what was answered did not help, it is not asked again.
        let may_ask = round.may_ask && !denials.iter().any(|d| round.granted.contains(d));
        let park = |asking: &Arc<Asking>| {
            let Round { granted, is_named, .. } = round;
            let (granted, sign) = (granted.to_vec(), request.sign());
            let call = Parked { notification: *request.call, granted, is_named, sign };
            asking.counsel.park(request, call, &denials)
        };
        let is_parked =
            may_ask && !denials.is_empty() && self.judges.asking.as_ref().is_some_and(park);
        if !is_parked {
            self.traps.report_held(held);
        }
        is_parked
    }

    /// Answers a call that has waited, or has it wait again.
    pub(super) fn answer_again(&self, request: Request<'_>, parked: &Parked, fate: Fate) {
        let Parked { notification, granted, is_named, .. } = parked;
        if fate == Fate::Interrupted {
            return request.complete(Err(RESTART));
        }
        let may_ask = fate == Fate::Judged;
        let round = Round { granted, is_named: *is_named, may_ask };
        self.answer(request, Call::decode(notification), round);
    }

    /// Adds the rule that an answer names, or was asked for.
    pub(super) fn add_rule(&self, grant: Grant) {
        let Some(asking) = &self.judges.asking else { return };
        asking.counsel.grant(grant, &|addition| match addition {
            Addition::Write(root, denied) => {
                self.add_root(asking, root, denied)?;
                Ok(self.latest_files().view.lets_execute(root))
            }
            Addition::Host(pattern) => asking.grant_host(pattern).map(|()| true),
            Addition::Address(refused) => {
                let mut sockets = self.sockets.write().unwrap_or_else(PoisonError::into_inner);
                *sockets = Arc::new(sockets.allowing(refused, false));
                Ok(true)
            }
        });
    }

    fn add_root(&self, asking: &Asking, root: &Path, denied: &[Pattern]) -> Result<(), String> {
        let found = match hold(root) {
            Ok(found) => Some(found),
            Err(Errno::NOENT | Errno::NOTDIR) => None,
            Err(errno) => return Err(strerror(errno)),
        };
        let mut files = lock(&asking.files);
        let latest = self.latest_files();
        let roots = &latest.view.roots;
        if roots.iter().any(|(known, _)| known == root) {
            return Ok(());
        }
        if roots.len() >= ROOTS_MAX {
            return Err("there are too many".to_owned());
        }
        push_new(&mut files.allow_write, root.to_owned());
        files.deny_write.extend_from_slice(denied);
        let judge = latest.with_view(latest.view.with_root(&files, root, found));
        *self.files.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(judge);
        Ok(())
    }
}

/// How a report names what a call on a socket does.
pub(super) fn operation(call: &SocketCall) -> NetworkOperation {
    use NetworkOperation::{Bind, Connect};
    match call {
        SocketCall::Address(AddressUse::Bind, ..) | SocketCall::Listen(..) => Bind,
        _ => Connect,
    }
}

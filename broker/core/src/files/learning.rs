//! A run that permits and reports: its calls are compared with what the policy allows that it enforces no more of than
//! the deny rules.
//!
//! What is noted decides nothing; a target that changes its arguments meanwhile deceives the draft, which a person reads.

use super::look::{self, Observer};
use super::verdict::{FileVerdict, LandlockReason};
use super::view::View;
use crate::call::decode::FileCall;
use crate::report::denials::Denial;
use crate::report::permitted::{Permitted, Witness};
use common::trap::FileOperation;
use kernel::target::Target;
use proxy_hosts::domain::split_port;
use proxy_hosts::rule_for;
use rules::address::{canonical, is_loopback};
use std::ffi::OsString;
use std::net::SocketAddr;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::Arc;

/// What such a run is compared with, and who is told what that lacks.
#[derive(Debug)]
pub(crate) struct Learning {
    /// The file rules of the policy.
    pub(crate) view: View,
    /// What it denies of hosts, by name or address: past the proxy there are addresses only.
    pub(crate) denied_domains: Vec<String>,
    pub(crate) witness: Arc<dyn Witness>,
}

impl Learning {
    /// Whether the policy denies `address` as a host; not where a server of the command's own is.
    pub(crate) fn denies(&self, address: SocketAddr) -> bool {
        let address = canonical(address);
        let is_own = is_loopback(address.ip()) && self.witness.has_server(address.port());
        let text = address.to_string();
        let (host, _) = split_port(&text);
        !is_own && rule_for(&self.denied_domains, host, Some(address.port())).is_some()
    }

    /// What of `call` the policy does not allow to be changed, looked at before it is done.
    pub(crate) fn lacks(
        &self,
        observer: &dyn Observer,
        target: Target,
        call: &FileCall,
    ) -> Vec<PathBuf> {
        let denials = observer.denials(&look::look(target, call, None), &self.view).into_iter();
        let paths = denials.filter_map(|denial| match denial {
            Denial::File(FileOperation::Write, path) => {
                Some(PathBuf::from(OsString::from_vec(path)))
            }
            _ => None,
        });
        paths.filter(|path| !self.view.leads_to_missing(path)).collect()
    }

    /// Tells what a call lacked that became `verdict`: what is refused is not needed.
    pub(crate) fn note_call(&self, target: Target, lacks: Vec<PathBuf>, verdict: &FileVerdict) {
        let is_done = match verdict {
            FileVerdict::Answer(answer) => answer.is_ok(),
            FileVerdict::Continue(reason, _) => {
                !matches!(reason, LandlockReason::DeniedAnyway | LandlockReason::Futile)
            }
        };
        if is_done {
            lacks.into_iter().for_each(|path| self.note(Permitted::Write(path), target));
        }
    }

    pub(crate) fn note(&self, what: Permitted<'_>, by: Target) {
        self.witness.note(what, Some(by));
    }
}

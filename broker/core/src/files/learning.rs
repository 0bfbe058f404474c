//! A run that learns: its calls are compared with what the policy allows that it is to add to.
//!
//! Such a run enforces the deny rules of that policy alone. What is noted decides nothing; a target that changes
//! its arguments meanwhile deceives the draft, which a person reads.

use super::observe::{self, Look};
use super::verdict::{FileVerdict, Relied};
use super::view::View;
use crate::call::decode::FileCall;
use crate::report::denials::Denial;
use crate::report::needs::{Need, Needs};
use crate::report::noise::is_noise;
use common::domain::split_port;
use common::trap::FileOperation;
use kernel::target::Target;
use rules::address::{AddressRules, canonical, is_loopback};
use rules::domains::rule_for;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What such a run is compared with, and where it is noted what that lacks.
#[derive(Debug)]
pub(crate) struct Learning {
    /// The file rules of the policy.
    pub(crate) view: View,
    /// What it says of addresses.
    pub(crate) addresses: AddressRules,
    /// What it denies of hosts, by name or address: past the proxy there are addresses only.
    pub(crate) denied_domains: Vec<String>,
    pub(crate) needs: Arc<Needs>,
}

/// What the kernel shows of itself: no policy opens it by the way.
const KERNEL: [&str; 3] = ["/dev", "/proc", "/sys"];

impl Learning {
    /// Whether the policy denies `address` as a host; not where a server of the command's own is.
    pub(crate) fn denies(&self, address: SocketAddr) -> bool {
        let address = canonical(address);
        let is_own = is_loopback(address.ip()) && self.needs.has_server(address.port());
        let text = address.to_string();
        let (host, _) = split_port(&text);
        !is_own && rule_for(&self.denied_domains, host, Some(address.port())).is_some()
    }

    /// What of `call` the policy does not allow, looked at before it is done.
    pub(crate) fn lacks(&self, target: Target, call: &FileCall) -> Vec<PathBuf> {
        let looks: Vec<Look> = observe::look(target, call, None);
        let denials = observe::judge(&looks, &self.view, None).into_iter();
        let paths = denials.filter(|denial| !is_noise(denial)).filter_map(|denial| match denial {
            Denial::File(FileOperation::Write, path) => {
                Some(PathBuf::from(OsString::from_vec(path)))
            }
            _ => None,
        });
        paths.filter(|path| !self.view.leads_to_missing(path)).collect()
    }

    /// Takes note of what a call lacked that became `verdict`: what is refused is not needed.
    pub(crate) fn note_call(&self, target: Target, lacks: Vec<PathBuf>, verdict: &FileVerdict) {
        let is_done = match verdict {
            FileVerdict::Answer(answer) => answer.is_ok(),
            FileVerdict::Continue(relied, _) => {
                !matches!(relied, Relied::DeniedAnyway | Relied::Futile)
            }
        };
        if is_done {
            lacks.into_iter().for_each(|path| self.note_write(target, path));
        }
    }

    /// Takes note that `path` was changed though the policy does not allow it.
    pub(crate) fn note_write(&self, target: Target, path: PathBuf) {
        let is_of_files =
            |path: &Path| path.is_absolute() && !KERNEL.iter().any(|place| path.starts_with(place));
        if is_of_files(&path) {
            self.needs.note(target, Need::Write(path));
        }
    }
}

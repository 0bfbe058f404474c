//! What a run that permits lets through, compared with what its policy says of addresses.

use crate::advice::needs::{Need, Needs, Reached};
use crate::advice::noise;
use crate::advice::suggest::leads_further;
use crate::observe::{Change, Changes};
use common::trap::FileOperation;
use kernel::diag::anybody_listens;
use kernel::target::Target;
use landstrip_core::report::denials::Denial;
use landstrip_core::report::permitted::{Permitted, Witness};
use proxy_hosts::domain::split_port;
use proxy_hosts::rule_for;
use rules::address::{AddressRules, AddressVerdict, Endpoint, canonical, is_loopback};
use std::net::SocketAddr;
use std::path::Path;

/// What the kernel shows of itself: no policy opens it by the way.
const KERNEL: [&str; 3] = ["/dev", "/proc", "/sys"];
/// Where name servers are asked: names are looked up by the proxy instead.
const DOMAIN: u16 = 53;

/// Who takes note of what a run needs.
#[derive(Debug)]
pub(super) struct Reader {
    /// What the policy says of addresses.
    pub(super) addresses: AddressRules,
    pub(super) needs: Needs,
    /// What it denies of hosts, by name or address.
    pub(super) denied_domains: Vec<String>,
}

impl Witness for Reader {
    fn note(&self, what: Permitted<'_>, by: Option<Target>) {
        let rules = &self.addresses;
        if let Permitted::Host { host, port, is_private, client } = what {
            if let Ok(host) = String::from_utf8(host.to_vec()) {
                self.needs.note_reached(Reached { host, port, is_private, client });
            }
            return;
        }
        let Some(by) = by else { return };
        match what {
            Permitted::Host { .. } => {}
            Permitted::Write(path) => {
                let is_noise = noise::is_noise(&Denial::file(FileOperation::Write, &path));
                let is_of_kernel = KERNEL.iter().any(|place| path.starts_with(place));
                if path.is_absolute() && !is_of_kernel && !is_noise {
                    let leads_further = leads_further(&path);
                    self.needs.note_write(by, path, leads_further);
                }
            }
            Permitted::Connect { from, is_led: true, .. } => self.needs.note_client(by, from),
            Permitted::Connect { to, .. } => {
                if !is_loopback(to.ip())
                    || !self.needs.has_server(to.port()) && anybody_listens(canonical(to))
                {
                    self.note_reached(by, to);
                }
            }
            Permitted::Send(to) if to.port() == DOMAIN || is_loopback(to.ip()) => {}
            Permitted::Send(to) => self.note_reached(by, to),
            Permitted::Peer(path) => self.note_peer(by, path),
            Permitted::BindPath(path) => {
                if !rules.local_binding && !rules.unix.permit(path) {
                    self.needs.note(by, Need::Server);
                }
            }
            Permitted::Bind { asked, got, is_udp } => {
                let ip = asked.ip().to_canonical();
                let is_client = is_udp && ip.is_unspecified() && asked.port() == 0;
                let verdict = rules.bind(&Endpoint::Internet(asked));
                if verdict != AddressVerdict::Refuse || is_client {
                    // The policy has it, or it only sends.
                } else if is_loopback(ip) || ip.is_unspecified() {
                    self.needs.note(by, Need::Server);
                } else {
                    self.needs.note(by, address(asked));
                }
                self.needs.note_server(got);
            }
            Permitted::Listen(port) => {
                if !rules.local_binding && !rules.allow_network {
                    self.needs.note(by, Need::Server);
                }
                self.needs.note_server(port);
            }
        }
    }

    /// Not where a server of the command's own is.
    fn denies(&self, address: SocketAddr) -> bool {
        let address = canonical(address);
        let is_own = is_loopback(address.ip()) && self.needs.has_server(address.port());
        let text = address.to_string();
        let (host, _) = split_port(&text);
        !is_own && rule_for(&self.denied_domains, host, Some(address.port())).is_some()
    }
}

impl Changes for Reader {
    fn note(&self, path: &Path, change: Change) {
        self.needs.note_change(path, change);
    }
}

impl Reader {
    /// Takes note of an address past the proxy, if the policy does not permit it.
    fn note_reached(&self, by: Target, to: SocketAddr) {
        if self.addresses.connect(&Endpoint::Internet(to)) != AddressVerdict::Perform {
            self.needs.note(by, address(to));
        }
    }

    fn note_peer(&self, by: Target, path: &Path) {
        if !noise::is_of_name_service(path) && !self.addresses.unix.permit(path) {
            self.needs.note(by, Need::Socket(path.to_owned()));
        }
    }
}

fn address(address: SocketAddr) -> Need {
    Need::Address(canonical(address).to_string())
}

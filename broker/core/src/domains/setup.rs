//! What the proxy is started with: the rules, and the proxies of the caller that it goes through.

use super::upstream::Upstreams;
use crate::report::failure::Failure;
use common::proxy::{SETUP_MAX, Setup, Unlisted};
use common::wire::WireError;
use rules::policy::Network;
use rules::proxies::CallerProxy;

/// Whether the policy names hosts that are reached through the proxy, or somebody is asked about them.
pub fn has_domains(network: &Network) -> bool {
    let domains = [&network.allowed_domains, &network.denied_domains];
    let are_named = domains.iter().any(|list| !list.is_empty());
    !network.allow_network && (are_named || network.asks && !network.has_callers_port())
}

/// Whether a proxy is to refuse everything, because the command may reach no host. Most programs accept a
/// proxy's refusal at once but retry name lookups for minutes, and only a proxy is told which host they
/// want.
pub fn refuses_all(network: &Network) -> bool {
    !network.has_callers_port() && !network.allow_network && !has_domains(network)
}

/// The proxy's first message; `unlisted` is what becomes of what no rule names.
///
/// # Errors
/// Returns [`Failure::Internal`] if it does not fit.
pub fn packet(
    network: &Network,
    upstreams: &Upstreams<'_>,
    unlisted: Unlisted,
) -> Result<Vec<u8>, Failure> {
    let url = |caller: Option<&CallerProxy>| caller.map(|caller| caller.url.clone());
    let lists = [
        network.allowed_domains.clone(),
        network.denied_domains.clone(),
        network.private_domains.clone(),
        Vec::from_iter(url(upstreams.requests)),
        Vec::from_iter(url(upstreams.tunnels)),
        Vec::from_iter(network.callers.direct.clone()),
    ];
    // No more than is needed: each page of it that is cleared costs launch time.
    let size = lists.iter().flatten().map(|string| string.len() + 1).sum::<usize>();
    let mut packet = vec![0; SETUP_MAX.min(Setup::HEADER + size)];
    let lists = lists.each_ref().map(Vec::as_slice);
    let length = Setup::encode(&mut packet, unlisted, lists).map_err(|error| {
        let message = match error {
            WireError::TooLarge => "there are too many domains: 64 KiB of them can be filtered",
            _ => "a domain cannot be passed on",
        };
        Failure::Internal("proxy", message.to_owned())
    })?;
    packet.truncate(length);
    Ok(packet)
}

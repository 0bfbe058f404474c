//! What the proxy is started with: the rules, and the proxies of the caller that it goes through.

use crate::report::failure::Failure;
use common::proxy::{SETUP_MAX, Setup, Unlisted};
use common::wire::WireError;
use routes::upstream::Upstreams;
use rules::policy::Network;
use rules::proxies::CallerProxy;

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

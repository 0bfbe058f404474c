//! What a run that learns needs of the network: noted once it is done.

use super::judge::{Judge, Reach};
use super::kinds::kind_of;
use super::socket::Socket;
use super::udp;
use super::unix::Peer;
use crate::files::learning::Learning;
use crate::report::needs::Need;
use crate::report::noise;
use kernel::diag::anybody_listens;
use kernel::target::Target;
use rules::address::{AddressVerdict, Endpoint, canonical, is_loopback};
use rustix::fd::AsFd;
use std::net::SocketAddr;

/// Takes note of a connect of `socket` to `endpoint` that was begun.
pub(super) fn connected(
    judge: &Judge,
    learning: &Learning,
    target: Target,
    (socket, endpoint, reach): (&Socket, &Endpoint, &Reach),
) {
    match (endpoint, reach) {
        (_, Reach::Peer(peer)) => reached_peer(judge, learning, target, peer),
        (Endpoint::Internet(address), _)
            if judge.rules.proxies.contains(&canonical(*address))
                || judge.is_led(*address) && !is_udp(socket) =>
        {
            if let Ok(own) = socket.local_address() {
                learning.needs.note_client(target, own.port());
            }
        }
        // What UDP is connected to may never be sent to: resolvers compare addresses by that.
        (Endpoint::Internet(address), _) if !is_udp(socket) => {
            let is_answered = !is_loopback(address.ip())
                || !learning.needs.has_server(address.port())
                    && anybody_listens(canonical(*address));
            if is_answered && learning.addresses.connect(endpoint) != AddressVerdict::Perform {
                reached_address(learning, target, *address);
            }
        }
        _ => {}
    }
}

/// Takes note of a message by UDP to `endpoint`. Names are looked up by the proxy instead.
pub(super) fn sent(learning: &Learning, target: Target, endpoint: &Endpoint) {
    if let Endpoint::Internet(address) = endpoint
        && !udp::is_name_server(endpoint)
        && !is_loopback(address.ip())
        && learning.addresses.connect(endpoint) != AddressVerdict::Perform
    {
        reached_address(learning, target, *address);
    }
}

/// Takes note of a Unix socket that was reached, if it is not the command's own.
pub(super) fn reached_peer(judge: &Judge, learning: &Learning, target: Target, peer: &Peer) {
    let path = peer.name();
    let is_spared = judge.own_paths.has(peer.identity()) || noise::is_of_name_service(path);
    if !is_spared && !learning.addresses.unix.permit(path) {
        learning.needs.note(target, Need::Socket(path.to_owned()));
    }
}

fn reached_address(learning: &Learning, target: Target, address: SocketAddr) {
    let address = canonical(address).to_string();
    learning.needs.note(target, Need::Address(address));
}

/// Takes note of `socket` that was bound to `endpoint`.
pub(super) fn bound(
    learning: &Learning,
    target: Target,
    (socket, endpoint, reach): (&Socket, &Endpoint, &Reach),
) {
    match (endpoint, reach) {
        (_, Reach::Place(place, _)) => {
            let (entry, name) = (place.entry(), place.name());
            if !learning.view.may_change(entry.directory(), entry.name()) {
                learning.note_write(target, name.clone());
            }
            if !learning.addresses.local_binding && !learning.addresses.unix.permit(&name) {
                learning.needs.note(target, Need::Server);
            }
        }
        (Endpoint::Internet(address), _) => {
            let ip = address.ip().to_canonical();
            let is_client = is_udp(socket) && ip.is_unspecified() && address.port() == 0;
            if learning.addresses.bind(endpoint) != AddressVerdict::Refuse || is_client {
                // The policy has it, or it only sends.
            } else if is_loopback(ip) || ip.is_unspecified() {
                learning.needs.note(target, Need::Server);
            } else {
                reached_address(learning, target, *address);
            }
            note_port(learning, socket);
        }
        _ => {}
    }
}

/// Takes note of `socket` that listens.
pub(super) fn listens(learning: &Learning, target: Target, socket: &Socket) {
    if socket.is_internet() {
        if !learning.addresses.local_binding && !learning.addresses.allow_network {
            learning.needs.note(target, Need::Server);
        }
        note_port(learning, socket);
    }
}

fn note_port(learning: &Learning, socket: &Socket) {
    if let Ok(own) = socket.local_address() {
        learning.needs.note_server(own.port());
    }
}

fn is_udp(socket: &Socket) -> bool {
    kind_of(socket.as_fd()).is_ok_and(|kind| kind.is_udp())
}

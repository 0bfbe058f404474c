//! What a run that permits and reports tells of sockets, once it is done.

use super::judge::{Judge, Reach};
use super::socket::Socket;
use super::unix::Peer;
use crate::report::permitted::Permitted;
use kernel::target::Target;
use rules::address::{self, Endpoint};

impl Judge {
    /// Tells what is permitted, where the run reports that.
    pub(super) fn note(&self, target: Target, what: Permitted<'_>) {
        if let Some(learning) = &self.learning {
            learning.note(what, target);
        }
    }

    /// The same of a connect of `socket` to `endpoint` that was begun.
    pub(super) fn note_connect(
        &self,
        target: Target,
        (socket, endpoint, reach): (&Socket, &Endpoint, &Reach),
    ) {
        // What UDP is connected to may never be sent to: resolvers compare addresses by that.
        match (endpoint, reach, socket.local_address()) {
            (_, Reach::Peer(peer), _) => self.note_peer(target, peer),
            (&Endpoint::Internet(to), _, Ok(own))
                if self.learning.is_some() && !socket.is_udp() =>
            {
                let is_asked = self.rules.proxies.contains(&address::canonical(to));
                let is_led = is_asked || self.is_led(to);
                self.note(target, Permitted::Connect { to, from: own.port(), is_led });
            }
            _ => {}
        }
    }

    /// The same of a Unix socket that was reached.
    pub(super) fn note_peer(&self, target: Target, peer: &Peer) {
        if !self.own.paths.has(peer.identity()) {
            self.note(target, Permitted::Peer(peer.name()));
        }
    }

    /// The same of `socket` that was bound to `endpoint`.
    pub(super) fn note_bind(
        &self,
        target: Target,
        (socket, endpoint, reach): (&Socket, &Endpoint, &Reach),
    ) {
        let Some(learning) = &self.learning else { return };
        match (endpoint, reach, socket.local_address()) {
            (_, Reach::Place(place, _), _) => {
                let (entry, name) = (&place.entry, place.name());
                if !learning.view.may_change(entry.directory(), entry.name()) {
                    self.note(target, Permitted::Write(name.clone()));
                }
                self.note(target, Permitted::BindPath(&name));
            }
            (&Endpoint::Internet(asked), _, Ok(own)) => {
                let (got, is_udp) = (own.port(), socket.is_udp());
                self.note(target, Permitted::Bind { asked, got, is_udp });
            }
            _ => {}
        }
    }
}

//! connect(2), on a duplicate of the target's socket with the broker's own copy of the address.

use super::judge::{Judge, Reach};
use super::own_ports::HeldListener;
use super::socket::{Connecting, Socket};
use kernel::address::Address;
use kernel::request::{Confirmed, RESTART, Request};
use kernel::target::{Target, TargetFd};
use rules::address::Endpoint;
use rustix::fd::AsFd;
use rustix::io::{self, Errno};
use rustix::net::sockopt;
use std::net::SocketAddrV4;
use std::sync::Arc;

/// What becomes of a connect.
#[derive(Debug)]
pub(crate) enum Connected {
    /// It is decided, or nobody needs to look after it.
    Done(io::Result<()>),
    /// The target gets this answer at once, and the broker looks after the connect from then on.
    GoesOn(Errno, UnderWay),
}

/// A connect to a listening socket of the sandbox that no target waits for.
#[derive(Debug)]
pub(crate) struct UnderWay {
    socket: Arc<Socket>,
    held: HeldListener,
    target: Target,
    number: TargetFd,
}

impl UnderWay {
    /// Waits until it is decided, and sees to it that it reaches nobody but the sandbox's own socket.
    pub(crate) fn look_after(self, judge: &Judge) {
        let Self { socket, held, target, number } = self;
        let is_there = || if socket.is_at(target, number) { Ok(()) } else { Err(Errno::BADF) };
        let ended = socket.wait(|| is_there().and(judge.has(&held)));
        judge.ports().finish(&socket, ended.is_ok());
    }
}

/// Connects `socket`, which stands for the target's descriptor `number`, to what was judged.
pub(crate) fn connect(
    judge: &Judge,
    (request, by): (&Request<'_>, Confirmed<'_>),
    (socket, number): (Socket, TargetFd),
    (address, endpoint): (Address, &Endpoint),
    reach: Reach,
) -> Connected {
    let leads_to = match reach {
        Reach::Own(held) => {
            let socket = Arc::new(socket);
            let end = connect_own(judge, (request, by), (&socket, number), &address, held);
            let known = matches!(end, Connected::Done(Ok(())));
            judge.held_sockets.leave_if_connected(&*socket, known);
            return end;
        }
        Reach::Peer(ref peer) => peer.address(),
        _ => address,
    };
    let start = |instead: Option<SocketAddrV4>| {
        if *endpoint == Endpoint::Unspecified {
            // It ends listening too, and waits for nobody.
            let mut ports = judge.ports_once_free(request, &socket)?;
            ports.before_given_up(&socket);
            return socket.start(by, &leads_to);
        }
        // What begins to listen meanwhile must not lose its address: that of a connect that has failed is given
        // up by the next one.
        let may_listen = judge.rules.local_binding && socket.is_internet();
        let beginning = may_listen.then(|| judge.ports().begin(&socket, None)).transpose()?;
        let started = match (instead, &reach) {
            (Some(proxy), _) => {
                // One for IPv6 alone would not get there.
                let _ = sockopt::set_ipv6_v6only(&socket, false);
                socket.start(by, &leads_to.at(proxy))
            }
            (None, Reach::Led) => Err(Errno::ACCESS),
            (None, _) => socket.start(by, &leads_to),
        };
        if let Some(one) = beginning {
            judge.ports().begun(one);
        }
        started
    };
    let started = match &judge.admission {
        Some(proxies) => {
            proxies.watch(endpoint, (socket.as_fd(), socket.waits()), &judge.traps, &start)
        }
        None => start(None).map(|progress| (progress, None)),
    };
    let goes_on = [Ok(()), Err(Errno::INPROGRESS), Err(RESTART), Err(Errno::INTR)];
    let result = started.and_then(|(progress, dial)| {
        let finished = socket.finish(progress, &leads_to, || request.look_after());
        let dialled = dial.as_ref().map_or(finished, |dial| dial.outcome(finished));
        if dialled.is_ok() && progress == Connecting::Handshake {
            socket.note_connected(by);
        }
        // Who has stopped waiting has a connect under way, as after one that does not wait (connect(2), EINTR).
        match dial {
            Some(_) if !goes_on.contains(&dialled) => {
                // It leads nowhere, and as after any connect that failed there can be another.
                socket.give_up();
                let _ = socket.outcome();
            }
            Some(dial) => dial.leave(),
            None => {}
        }
        dialled
    });
    if [Ok(()), Err(Errno::INPROGRESS)].contains(&result) {
        judge.note_connect(request.target(), (&socket, endpoint, &reach));
    }
    judge.held_sockets.leave_if_connected(&socket, result.is_ok());
    if !goes_on.contains(&result) {
        return Connected::Done(result);
    }
    // In the target's own hands from now on, connected or not.
    Connected::Done(socket.put_in_place(by).and(result))
}

/// Connects to a listening socket of the sandbox, and to nothing else: from the first packet
/// until it is decided that socket is held, and ends listening only after the connect has ended.
fn connect_own(
    judge: &Judge,
    (request, by): (&Request<'_>, Confirmed<'_>),
    (socket, number): (&Arc<Socket>, TargetFd),
    address: &Address,
    held: HeldListener,
) -> Connected {
    let begin = judge.ports().begin(socket, Some(&held));
    let started = begin.and_then(|one| {
        let result = socket.start(by, address);
        judge.ports().note(one, &held, socket, result)
    });
    let answer = match started {
        Ok(Connecting::Done) => return Connected::Done(socket.put_in_place(by)),
        Ok(_) => {
            // Given up by the sandbox, it is to be free.
            let ended = socket.wait(|| request.look_after().map(drop).and(judge.has(&held)));
            let Err(errno @ (RESTART | Errno::INTR)) = ended else {
                // Nobody would look after it any more.
                let was_ours = judge.ports().finish(socket, ended.is_ok());
                return Connected::Done(match ended {
                    Ok(()) if was_ours => socket.outcome().and_then(|()| {
                        socket.note_connected(by);
                        socket.put_in_place(by)
                    }),
                    Err(Errno::INPROGRESS | Errno::AGAIN) => ended,
                    _ => Err(Errno::CONNREFUSED),
                });
            };
            if !judge.ports().leave_unattended(socket) {
                judge.ports().finish(socket, false);
                return Connected::Done(Err(Errno::CONNREFUSED));
            }
            errno
        }
        Err(Errno::INPROGRESS) => Errno::INPROGRESS,
        Err(errno) => return Connected::Done(Err(errno)),
    };
    let placed = socket.put_in_place(by);
    if placed.is_err() || socket.is_decided() {
        // What is held is let go of before the target goes on.
        judge.ports().finish(socket, placed.is_ok());
        return Connected::Done(placed.and(Err(answer)));
    }
    let (socket, target) = (Arc::clone(socket), request.target());
    Connected::GoesOn(answer, UnderWay { socket, held, target, number })
}

//! connect(2), on a duplicate of the target's socket with the broker's own copy of the address.

use super::dial::Way;
use super::judge::{Admission, Judge, Reach};
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

/// What becomes of a connect: it is decided, or nobody needs to look after it; or the target gets this error at once, and
/// the broker looks after the connect from then on.
pub(crate) type Connected = io::Result<Option<(Errno, UnderWay)>>;

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
        let ended = socket.wait(|| is_there().and(judge.own.has(&held)));
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
            let known = matches!(end, Ok(None));
            judge.own.held.leave_if_connected(&*socket, known);
            return end;
        }
        Reach::Peer(ref peer) => peer.address(),
        _ => address,
    };
    let proxies = judge.admission.as_ref();
    let prepare =
        |proxies: &Arc<dyn Admission>| proxies.prepare(endpoint, (socket.as_fd(), socket.blocking));
    let started = proxies.map_or(Ok(Way::Past), prepare).and_then(|way| {
        let led = (way.address(), matches!(reach, Reach::Led));
        let started = begin(judge, (request, by), &socket, (&leads_to, endpoint), led);
        let hand_over =
            |proxies: &Arc<dyn Admission>| proxies.hand_over(way, started, &judge.traps);
        let dial = proxies.map_or(Ok(None), hand_over)?;
        Ok((started?, dial))
    });
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
                let _ports = judge.ports();
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
    judge.own.held.leave_if_connected(&socket, result.is_ok());
    if goes_on.contains(&result) {
        // In the target's own hands from now on, connected or not.
        socket.put_in_place(by)?;
    }
    result.map(|()| None)
}

/// Begins a connect, to `instead` if it leads there; it must if it `is_led`.
fn begin(
    judge: &Judge,
    (request, by): (&Request<'_>, Confirmed<'_>),
    socket: &Socket,
    (address, endpoint): (&Address, &Endpoint),
    (instead, is_led): (Option<SocketAddrV4>, bool),
) -> io::Result<Connecting> {
    if *endpoint == Endpoint::Unspecified {
        // It ends listening too, and waits for nobody.
        let mut ports = judge.ports_once_free(request, socket)?;
        ports.before_given_up(socket);
        return socket.start(by, address);
    }
    // What begins to listen meanwhile must not lose its address: that of a connect that has failed is given
    // up by the next one.
    let may_listen = judge.rules.local_binding && socket.is_internet();
    let beginning = may_listen.then(|| judge.ports().begin(socket, None)).transpose()?;
    let started = match instead {
        Some(proxy) => {
            // One for IPv6 alone would not get there.
            let _ = sockopt::set_ipv6_v6only(socket, false);
            socket.start(by, &address.at(proxy))
        }
        None if is_led => Err(Errno::ACCESS),
        None => socket.start(by, address),
    };
    if let Some(one) = beginning {
        judge.ports().begun(one);
    }
    started
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
        Ok(Connecting::Done) => return socket.put_in_place(by).map(|()| None),
        Ok(_) => {
            // Given up by the sandbox, it is to be free.
            let ended = socket.wait(|| request.look_after().map(drop).and(judge.own.has(&held)));
            let Err(errno @ (RESTART | Errno::INTR)) = ended else {
                // Nobody would look after it any more.
                let was_ours = judge.ports().finish(socket, ended.is_ok());
                return match ended {
                    Ok(()) if was_ours => socket.outcome().and_then(|()| {
                        socket.note_connected(by);
                        socket.put_in_place(by).map(|()| None)
                    }),
                    Err(errno @ (Errno::INPROGRESS | Errno::AGAIN)) => Err(errno),
                    _ => Err(Errno::CONNREFUSED),
                };
            };
            if !judge.ports().leave_unattended(socket) {
                judge.ports().finish(socket, false);
                return Err(Errno::CONNREFUSED);
            }
            errno
        }
        Err(Errno::INPROGRESS) => Errno::INPROGRESS,
        Err(errno) => return Err(errno),
    };
    let placed = socket.put_in_place(by);
    if placed.is_err() || socket.is_decided() {
        // What is held is let go of before the target goes on.
        judge.ports().finish(socket, placed.is_ok());
        return placed.and(Err(answer));
    }
    let (socket, target) = (Arc::clone(socket), request.target());
    Ok(Some((answer, UnderWay { socket, held, target, number })))
}

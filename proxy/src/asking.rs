//! Connections that wait while somebody is asked whether what no rule names may be reached.
//!
//! The broker has the questions and decides on each alone; here a connection waits, by its number, and no other does
//! with it. Nothing is looked up or dialled for one that waits, nor does its time to dial begin. What a rule denies is
//! never asked about.

use crate::control::Broker;
use crate::destination::Destination;
use crate::learning::client_port;
use crate::proxy::Proxy;
use crate::rules::Verdict;
use common::asking::{Decision, Outcome};
use common::told::Told;
use rustix::fd::OwnedFd;
use std::cell::Cell;
use std::collections::HashMap;
use std::future::{pending, poll_fn};
use std::io::ErrorKind;
use std::pin::pin;
use std::task::Poll;
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::sync::oneshot::{self, Sender};

tokio::task_local! {
    /// The client that is served, by which it is seen whether it still waits.
    static CLIENT: Cell<Option<OwnedFd>>;
}

/// Serves the client at the other end of `socket`.
pub(crate) async fn of_client(socket: Option<OwnedFd>, served: impl Future<Output = ()>) {
    CLIENT.scope(Cell::new(socket), served).await;
}

/// The connections that wait.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    next: u32,
    answers: HashMap<u32, Sender<Outcome>>,
}

/// One of them, until it is answered or given up.
struct Question<'a> {
    broker: &'a Broker,
    number: u32,
}

impl Drop for Question<'_> {
    fn drop(&mut self) {
        let is_open = self
            .broker
            .waiting()
            .is_some_and(|mut waiting| waiting.answers.remove(&self.number).is_some());
        if is_open {
            // Should the broker be too busy to take it, the question ends by its time.
            let mut packet = [0; Told::MAX];
            if let Ok(length) = Told::Withdrawn(self.number).encode(&mut packet) {
                let _ = self.broker.socket.try_send(&packet[..length]);
            }
        }
    }
}

impl Broker {
    /// Asks about `destination`, and waits for what becomes of it.
    async fn ask(&self, destination: &Destination) -> Outcome {
        let (sender, answer) = oneshot::channel();
        let number = match self.waiting() {
            Some(mut waiting) => {
                waiting.next = waiting.next.wrapping_add(1);
                let number = waiting.next;
                waiting.answers.insert(number, sender);
                number
            }
            None => return Outcome::Refused,
        };
        let _question = Question { broker: self, number };
        let host = destination.host.to_string();
        let mut packet = [0; Told::MAX];
        let (host, client) = (host.as_bytes(), client_port());
        let asked = Told::Asked { number, host, port: destination.port, client };
        let Ok(length) = asked.encode(&mut packet) else { return Outcome::Refused };
        match self.socket.send(&packet[..length]).await {
            Ok(_) => answer.await.unwrap_or(Outcome::Refused),
            Err(_) => Outcome::Refused,
        }
    }

    /// Has a connection go on, if it still waits.
    pub(crate) fn settle(&self, Decision { number, outcome }: Decision) {
        let answer = self.waiting().and_then(|mut waiting| waiting.answers.remove(&number));
        // Who does not wait any more hears nothing.
        answer.into_iter().for_each(|answer| _ = answer.send(outcome));
    }
}

impl Proxy {
    /// Whether somebody who was asked permits `destination` to this connection alone. Nobody is asked about what the
    /// rules of then permit or deny.
    pub(crate) async fn is_permitted_once(&self, destination: &Destination) -> bool {
        let Destination { host, port } = destination;
        while self.rules.ask() && self.rules.judge(&host.borrow(), *port) == Verdict::NotListed {
            let (mut answer, mut gone) = (pin!(self.broker.ask(destination)), pin!(client_gone()));
            let outcome = poll_fn(|context| match answer.as_mut().poll(context) {
                Poll::Pending => gone.as_mut().poll(context).map(|()| Outcome::Refused),
                outcome => outcome,
            });
            let outcome = outcome.await;
            if outcome != Outcome::Judged {
                return outcome == Outcome::Permitted;
            }
        }
        false
    }
}

/// The client while it is watched, for who watches it next.
struct Watched(Option<TcpStream>);

impl Drop for Watched {
    fn drop(&mut self) {
        if let Some(Ok(socket)) = self.0.take().map(TcpStream::into_std) {
            let _ = CLIENT.try_with(|client| client.set(Some(socket.into())));
        }
    }
}

/// Waits until the client has hung up.
async fn client_gone() {
    let socket = CLIENT.try_with(Cell::take).ok().flatten();
    let watched = Watched(socket.and_then(|socket| TcpStream::from_std(socket.into()).ok()));
    let Some(stream) = &watched.0 else { return pending().await };
    while let Ok(ready) = stream.ready(Interest::READABLE).await {
        if ready.is_read_closed() {
            return;
        }
        // What it sends meanwhile is read once it is answered.
        let _ = stream.try_io(Interest::READABLE, || Err::<(), _>(ErrorKind::WouldBlock.into()));
    }
}

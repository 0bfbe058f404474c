//! The calls that wait for an answer: parked, looked after, and handed back to be judged again.
//!
//! Whether a caller has ended or has a signal to handle nothing tells the broker: it looks from time to time, as for
//! all calls that wait long, and only while a question is open.

use super::book::Book;
use super::channel::Channel;
use super::client;
use super::lines;
use super::open::{OPEN_MAX, Open, Settled};
use super::{Answer, Asker, End, Question, Said};
use crate::observe::process;
use common::trap::{FileOperation, NetworkOperation};
use kernel::request::Request;
use kernel::target::Target;
use kernel::threads::{lock, spawn};
use landstrip_core::ask::{Addition, Counsel, Fate, Grant, Job, Parked, Rule, Waiting as Waiter};
use landstrip_core::domains::proxy::Proxy;
use landstrip_core::domains::waiting::Connection;
use landstrip_core::report::denials::Denial;
use proxy_hosts::domain;
use proxy_hosts::rule_for;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use std::collections::VecDeque;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// How often it is looked who still waits.
const INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
/// Stack of a thread that looks who asks.
const STACK: usize = 256 * 1024;
/// What Landlock was not told at launch it lets nobody execute.
const NOT_EXECUTED: &str = "what is made there cannot be executed in this run";

/// Who waits, and what is asked about that now.
type Waiting = (Waiter, Denial);

/// The questions of one run.
#[derive(Debug)]
pub(super) struct Asking {
    book: Book,
    channel: Arc<Channel>,
    limit: Duration,
    open: Arc<Mutex<Open<Waiting>>>,
    /// Where connections to hosts go.
    proxy: Option<Arc<Proxy>>,
    /// Shared by the threads that look at who connects.
    looking: Arc<()>,
    timer: OwnedFd,
    events: OwnedFd,
}

impl Asking {
    /// Asks over `channel` about what `book` says is to be asked, at `proxy` too, and waits `limit` for each answer.
    ///
    /// # Errors
    /// Returns what timerfd_create(2) or epoll_create(2) returns.
    pub(super) fn new(
        book: Book,
        channel: Channel,
        limit: Duration,
        proxy: Option<Arc<Proxy>>,
    ) -> io::Result<Self> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        let events = epoll::create(CreateFlags::CLOEXEC)?;
        for source in [timer.as_fd(), channel.events()] {
            epoll::add(&events, source, EventData::new_u64(0), EventFlags::IN)?;
        }
        let (channel, open, looking) = (Arc::new(channel), Arc::default(), Arc::default());
        Ok(Self { book, channel, limit, open, proxy, looking, timer, events })
    }

    /// What comes of something that was said. What is said to a question that is not open, nobody heeds.
    fn obey(&self, open: &mut Open<Waiting>, said: Said) -> Option<Job> {
        let (number, answer) = match said {
            Said::Answer(number, answer) => (number, answer),
            Said::Grant(rule) => {
                let grant = Some(Grant { rule, asked: None });
                return Some(Job { grant, calls: VecDeque::new() });
            }
            Said::Closed => {
                let calls = open.close().into_iter().flat_map(|settled| {
                    self.settled(&settled, End::Closed);
                    settled.calls
                });
                return Some(Job { grant: None, calls: with_fate(calls, Fate::Refused).collect() });
            }
        };
        let settled = open.answer(number, &answer)?;
        self.settled(&settled, End::Answered);
        let Settled { rule, denial, mut calls, .. } = settled;
        let fate = if answer == Answer::Deny { Fate::Refused } else { Fate::Judged };
        let mut grant = None;
        let is_named = self.book.names(&rule, &denial);
        // What is permitted is what was shown.
        let shown = calls.iter_mut().filter(|(_, asked)| *asked == denial);
        match answer {
            Answer::Once => shown.take(1).for_each(|waiting| permit(waiting, is_named)),
            Answer::Run(wanted) => {
                shown.for_each(|waiting| permit(waiting, is_named));
                let wanted = wanted.unwrap_or_else(|| rule.clone());
                grant = Some(Grant { rule: wanted, asked: Some((rule, denial)) });
            }
            Answer::Deny => {}
        }
        Some(Job { grant, calls: with_fate(calls, fate).collect() })
    }

    /// Has who is asked be told when the run has ended.
    pub(super) fn at_end(&self) -> AtEnd {
        AtEnd { open: Arc::clone(&self.open), channel: Arc::clone(&self.channel) }
    }

    fn settled(&self, settled: &Settled<Waiting>, end: End) {
        settle(&self.channel, settled, end);
    }

    /// Adds `rule`, if it covers what is `wanted`; whether it did.
    fn add_rule(
        &self,
        rule: &Rule,
        wanted: Option<&Denial>,
        add: &dyn Fn(&Addition) -> Result<bool, String>,
    ) -> bool {
        let outcome = self.book.resolve(rule, true).and_then(|additions| {
            let covers = |denial| additions.iter().any(|addition| covers(addition, denial));
            if !wanted.is_none_or(covers) {
                return Err("it does not cover what was asked".to_owned());
            }
            let executed: Vec<_> = additions.iter().map(add).collect::<Result<_, _>>()?;
            Ok(executed.contains(&false).then_some(NOT_EXECUTED))
        });
        let is_added = outcome.is_ok();
        if is_added {
            lock(&self.open).grant(rule.clone());
        }
        self.channel.say(&lines::granted(rule, outcome));
        is_added
    }

    /// Has `waiter` wait for an answer, if one may; whether it does.
    fn have_wait(
        &self,
        waiter: Waiter,
        (rule, denial): (&Rule, &Denial),
        ask: impl FnOnce(&mut Open<Waiting>, u64) -> bool,
    ) -> bool {
        let mut open = lock(&self.open);
        if !open.has_room(rule) {
            return false;
        }
        let was_empty = open.is_empty();
        let (waiting, deadline) = ((waiter, denial.clone()), Instant::now() + self.limit);
        if let Some(number) = open.add((rule, denial), waiting, deadline)
            && !ask(&mut open, number)
        {
            open.take(number);
            return false;
        }
        if was_empty || open.has_overtaken() {
            self.tick(&open);
        }
        true
    }

    /// Has [`Asking::events`] be readable from time to time while questions are open.
    fn tick(&self, open: &MutexGuard<'_, Open<Waiting>>) {
        const NEVER: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
        const NOW: Timespec = Timespec { tv_sec: 0, tv_nsec: 1 };
        let interval = match open.is_empty() {
            _ if open.has_overtaken() => NOW,
            true => NEVER,
            false => INTERVAL,
        };
        let setting = Itimerspec { it_interval: interval, it_value: interval };
        // It fails for no such setting (timerfd_create(2)).
        let _ = timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &setting);
    }
}

/// Dropped when the run has ended: nobody waits for an answer any more.
#[derive(Debug)]
pub struct AtEnd {
    open: Arc<Mutex<Open<Waiting>>>,
    channel: Arc<Channel>,
}

impl Drop for AtEnd {
    fn drop(&mut self) {
        let left = lock(&self.open).close();
        left.iter().for_each(|left| settle(&self.channel, left, End::Gone));
    }
}

/// Says how a question came to its end, to who was asked.
fn settle(channel: &Channel, settled: &Settled<Waiting>, end: End) {
    if settled.is_shown {
        channel.say(&lines::settled(settled.number, end));
    }
}

impl Counsel for Asking {
    fn park(&self, request: &Request<'_>, call: Parked, denials: &[Denial]) -> bool {
        let rules = denials.iter().map(|denial| Some((denial, self.book.rule_for(denial)?)));
        // Of a call with two paths, one that nobody may grant makes the other futile.
        let Some(rules) = rules.collect::<Option<Vec<_>>>() else { return false };
        let Some((denial, rule)) = rules.into_iter().next() else { return false };
        if !lock(&self.open).has_room(&rule) {
            return false;
        }
        let asker = Asker::of(request.target());
        // Then what was read was the target's own.
        if request.confirm().is_err() {
            return false;
        }
        // Before anything is locked: it waits for file systems.
        let lasts = self.book.lasts(&rule, denial);
        self.have_wait(Waiter::Call(call), (&rule, denial), |open, number| {
            let question = Question { number, denial, rule: &rule, lasts, asker: &asker };
            open.show(number, || self.channel.ask(&question))
        })
    }

    fn park_connection(&self, connection: Connection, denial: Denial, client: u16) -> bool {
        let Some(rule) = self.book.rule_for(&denial) else { return false };
        let waiter = Waiter::Connection(connection, None);
        let asked = (rule.clone(), denial.clone());
        self.have_wait(waiter, (&rule, &denial), |_, number| {
            let (open, channel) = (Arc::clone(&self.open), Arc::clone(&self.channel));
            let (proxy, looking) = (self.proxy.clone(), Arc::clone(&self.looking));
            // What the process says of itself it can make wait, for longer than the question is open: there are no more
            // threads for it than questions may be.
            if Arc::strong_count(&looking) > 1 + OPEN_MAX {
                return false;
            }
            let look = move || {
                let _looking = looking;
                let asker =
                    proxy.and_then(|proxy| client::asker(client, &proxy)).unwrap_or_default();
                let (rule, denial) = &asked;
                let question = Question { number, denial, rule, lasts: true, asker: &asker };
                lock(&open).show(number, || channel.ask(&question));
            };
            spawn(STACK, look).is_ok()
        })
    }

    fn withdraw(&self, ended: &dyn Fn(Connection) -> bool) {
        let is_over = |(waiter, _): &Waiting| match waiter {
            Waiter::Connection(connection, _) => ended(*connection),
            Waiter::Call(_) => false,
        };
        lock(&self.open).leave(Instant::now(), is_over);
    }

    fn events(&self) -> BorrowedFd<'_> {
        self.events.as_fd()
    }

    fn attend(&self) -> Vec<Job> {
        let _ = io::read(&self.timer, &mut [0; 8]);
        let said = self.channel.hear();
        let mut open = lock(&self.open);
        let mut jobs: Vec<_> =
            said.into_iter().filter_map(|said| self.obey(&mut open, said)).collect();
        let now = Instant::now();
        let over = open.leave(now, |(waiter, _)| waiter.is_over());
        let mut calls: VecDeque<_> = with_fate(over, Fate::Interrupted).collect();
        calls.extend(open.take_overtaken().into_iter().map(|(waiter, _)| {
            // The proxy has the rule, which names exactly this; of a call, judged with that, the rest is refused.
            let is_named = matches!(waiter, Waiter::Connection(..));
            (waiter, if is_named { Fate::Judged } else { Fate::Refused })
        }));
        calls.extend(with_fate(open.take_resumed(), Fate::Judged));
        open.take_left(now).iter().for_each(|left| self.settled(left, End::Gone));
        for late in open.take_late(now) {
            self.settled(&late, End::Time);
            calls.extend(with_fate(late.calls, Fate::Refused));
        }
        self.tick(&open);
        if !calls.is_empty() {
            jobs.push(Job { grant: None, calls });
        }
        jobs
    }

    fn grant(&self, grant: Grant, add: &dyn Fn(&Addition) -> Result<bool, String>) {
        let Grant { rule, asked } = grant;
        let is_added = self.add_rule(&rule, asked.as_ref().map(|(_, denial)| denial), add);
        let Some((other, denial)) = asked else { return };
        if !is_added && other != rule {
            self.add_rule(&other, Some(&denial), add);
        }
        let mut open = lock(&self.open);
        open.end_adding(&other);
        self.tick(&open);
    }
}

/// Notes that what is asked was answered with yes.
fn permit((waiter, asked): &mut Waiting, is_named: bool) {
    waiter.permit(asked.clone(), is_named);
}

/// These calls, for all of which the same follows.
fn with_fate(
    calls: impl IntoIterator<Item = Waiting>,
    fate: Fate,
) -> impl Iterator<Item = (Waiter, Fate)> {
    calls.into_iter().map(move |(waiter, _)| (waiter, fate))
}

/// Whether what was refused is allowed by what is added.
fn covers(addition: &Addition, denial: &Denial) -> bool {
    match (addition, denial) {
        (Addition::Write(place, _), Denial::File(FileOperation::Write, path)) => {
            Path::new(OsStr::from_bytes(path)).starts_with(place)
        }
        (
            Addition::Address(Denial::Network(NetworkOperation::Connect, path)),
            Denial::Network(NetworkOperation::Connect, asked),
        ) => path == asked,
        (
            Addition::Address(Denial::Network(NetworkOperation::Bind, _)),
            Denial::Network(NetworkOperation::Bind, _),
        ) => true,
        (Addition::Host(pattern), Denial::Domain(target)) => {
            let target = String::from_utf8_lossy(target);
            let (host, port) = domain::split_port(&target);
            let rules = std::slice::from_ref(pattern);
            rule_for(rules, host, port.and_then(domain::parse_port)).is_some()
        }
        _ => false,
    }
}

impl Asker {
    pub(super) fn of(target: Target) -> Self {
        Self {
            program: process::program(target)
                .map(|path| path.into_os_string().into_encoded_bytes())
                .unwrap_or_default(),
            process: target.process().unwrap_or_default(),
            arguments: process::arguments(target).unwrap_or_default(),
            directory: process::working_directory(target).unwrap_or_default(),
        }
    }
}

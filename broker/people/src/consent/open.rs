//! The questions that are open, and the calls that wait for them. Pure: it sees the time as it is told.

use super::Answer;
use landstrip_core::ask::Rule;
use landstrip_core::report::denials::Denial;
use std::collections::HashSet;
use std::time::{Duration, Instant};

/// Most questions that are open.
pub(super) const OPEN_MAX: usize = 64;
/// Most calls that wait for one of them.
const CALLS_MAX: usize = 1024;
/// Most rules that are remembered to have been denied: then nothing more is asked. As many that were added.
const REMEMBERED_MAX: usize = 4096;
/// How long a question stays whose only caller handles a signal, and may make the call again.
const GRACE: Duration = Duration::from_millis(500);

/// The questions with their calls, each of a kind `C`.
#[derive(Debug)]
pub(super) struct Open<C> {
    next: u64,
    questions: Vec<Waiting<C>>,
    denied: HashSet<Rule>,
    /// Rules that were added: what they do not help is not asked again.
    granted: HashSet<Rule>,
    /// Rules that are being added, with the calls that came for them meanwhile.
    adding: Vec<(Rule, Vec<C>)>,
    /// The latter, once that is done.
    resumed: Vec<C>,
    /// Calls that were judged before the rule was added that they would wait for.
    overtaken: Vec<C>,
    is_closed: bool,
}

#[derive(Debug)]
struct Waiting<C> {
    number: u64,
    rule: Rule,
    /// What was shown.
    denial: Denial,
    deadline: Instant,
    calls: Vec<C>,
    /// Since when nobody waits.
    left: Option<Instant>,
    is_shown: bool,
}

/// A question that came to its end, with those who waited for it.
#[derive(Debug)]
pub(super) struct Settled<C> {
    pub(super) number: u64,
    pub(super) rule: Rule,
    pub(super) denial: Denial,
    pub(super) calls: Vec<C>,
    /// Somebody was asked.
    pub(super) is_shown: bool,
}

impl<C> Default for Open<C> {
    fn default() -> Self {
        Self {
            next: 1,
            questions: Vec::new(),
            denied: HashSet::new(),
            granted: HashSet::new(),
            adding: Vec::new(),
            resumed: Vec::new(),
            overtaken: Vec::new(),
            is_closed: false,
        }
    }
}

impl<C> From<Waiting<C>> for Settled<C> {
    fn from(waiting: Waiting<C>) -> Self {
        let Waiting { number, rule, denial, calls, is_shown, .. } = waiting;
        Self { number, rule, denial, calls, is_shown }
    }
}

impl<C> Open<C> {
    /// Whether nobody waits, and nothing has to be looked at in time.
    pub(super) fn is_empty(&self) -> bool {
        self.questions.is_empty()
    }

    /// Whether a call may wait for this rule.
    pub(super) fn has_room(&self, rule: &Rule) -> bool {
        let asked = self.questions.iter().map(|question| question.calls.len());
        let calls: usize = asked.chain(self.adding.iter().map(|(_, calls)| calls.len())).sum();
        let is_asked = || self.questions.iter().any(|question| question.rule == *rule);
        let may_begin =
            || self.questions.len() < OPEN_MAX && self.denied.len() < REMEMBERED_MAX || is_asked();
        !self.is_closed && calls < CALLS_MAX && !self.denied.contains(rule) && may_begin()
    }

    /// Notes that `rule` was added, as nobody has to be asked for it any more.
    pub(super) fn grant(&mut self, rule: Rule) {
        if self.granted.len() < REMEMBERED_MAX {
            self.granted.insert(rule);
        }
    }

    /// Notes that it was tried to add `rule`, for which somebody was asked.
    pub(super) fn end_adding(&mut self, rule: &Rule) {
        if let Some(at) = self.adding.iter().position(|(known, _)| known == rule) {
            self.resumed.extend(self.adding.swap_remove(at).1);
        }
    }

    /// Takes the calls that are to be judged again, and asked about where a rule did not help them.
    pub(super) fn take_resumed(&mut self) -> Vec<C> {
        std::mem::take(&mut self.resumed)
    }

    /// Takes the calls that are to be judged again without a question.
    pub(super) fn take_overtaken(&mut self) -> Vec<C> {
        std::mem::take(&mut self.overtaken)
    }

    /// Whether some of either are.
    pub(super) fn has_overtaken(&self) -> bool {
        !self.overtaken.is_empty() || !self.resumed.is_empty()
    }

    /// Has `call` wait, until `deadline` if it is the first to be asked about. Returns the number of the question if
    /// that is new.
    pub(super) fn add(
        &mut self,
        (rule, denial): (&Rule, &Denial),
        call: C,
        deadline: Instant,
    ) -> Option<u64> {
        if self.granted.contains(rule) {
            self.overtaken.push(call);
            return None;
        }
        if let Some((_, calls)) = self.adding.iter_mut().find(|(adding, _)| adding == rule) {
            calls.push(call);
            return None;
        }
        if let Some(known) = self.questions.iter_mut().find(|question| question.rule == *rule) {
            known.calls.push(call);
            known.left = None;
            return None;
        }
        let number = self.next;
        self.next += 1;
        let (rule, denial) = (rule.clone(), denial.clone());
        let calls = vec![call];
        let (left, is_shown) = (None, false);
        self.questions.push(Waiting { number, rule, denial, deadline, calls, left, is_shown });
        Some(number)
    }

    /// Has question `number` shown by `show`, if it is open; where that fails, its time is over. Whether it is shown.
    pub(super) fn show(&mut self, number: u64, show: impl FnOnce() -> bool) -> bool {
        let question = self.questions.iter_mut().find(|question| question.number == number);
        question.is_some_and(|question| {
            question.is_shown = show();
            if !question.is_shown {
                question.deadline = Instant::now();
            }
            question.is_shown
        })
    }

    /// Ends question `number`; none if it is not open.
    pub(super) fn take(&mut self, number: u64) -> Option<Settled<C>> {
        let at = self.questions.iter().position(|question| question.number == number)?;
        Some(self.questions.remove(at).into())
    }

    /// Ends it as it was answered: what is denied is not asked again.
    pub(super) fn answer(&mut self, number: u64, answer: &Answer) -> Option<Settled<C>> {
        let is_it = |question: &Waiting<C>| question.number == number && question.is_shown;
        let settled = self.take_where(is_it).pop()?;
        match answer {
            Answer::Deny => _ = self.denied.insert(settled.rule.clone()),
            Answer::Run(_) => self.adding.push((settled.rule.clone(), Vec::new())),
            Answer::Once => {}
        }
        Some(settled)
    }

    /// Ends all, and is closed from now on.
    pub(super) fn close(&mut self) -> Vec<Settled<C>> {
        self.is_closed = true;
        std::mem::take(&mut self.questions).into_iter().map(Settled::from).collect()
    }

    /// Takes out the calls that are not to wait any more.
    pub(super) fn leave(&mut self, now: Instant, mut leaves: impl FnMut(&C) -> bool) -> Vec<C> {
        let mut left = Vec::new();
        for question in &mut self.questions {
            left.extend(question.calls.extract_if(.., |call| leaves(call)));
            if question.calls.is_empty() {
                question.left.get_or_insert(now);
            }
        }
        left
    }

    /// Ends the questions for which nobody waits any more.
    pub(super) fn take_left(&mut self, now: Instant) -> Vec<Settled<C>> {
        self.take_where(|question| question.left.is_some_and(|since| now >= since + GRACE))
    }

    /// Ends those that nobody has answered in time.
    pub(super) fn take_late(&mut self, now: Instant) -> Vec<Settled<C>> {
        self.take_where(|question| now >= question.deadline)
    }

    fn take_where(&mut self, ends: impl Fn(&Waiting<C>) -> bool) -> Vec<Settled<C>> {
        self.questions.extract_if(.., |question| ends(question)).map(Settled::from).collect()
    }
}

//! Answers what landstrip asks by --ask, and has rules added to a run: landstrip(1), ASKING.

use crate::command::OnAsk;
use crate::report::{Denial, Rule, asked, rule};
use serde_json::{Value, json};
use std::any::Any;
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

/// What no rule allows, while the call of the command waits.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Question {
    /// What would be refused.
    pub denial: Denial,
    /// The rule that would allow it.
    pub advice: Option<Rule>,
    /// The program, by its name.
    pub program: String,
    /// Its process.
    pub pid: u32,
    /// What it says of itself: to be shown, never to be decided by.
    pub arguments: Vec<String>,
    /// Its working directory.
    pub directory: String,
    /// Whether the rule would help another run, too: not for what is removed or replaced, nor where a name is made up.
    pub lasts: bool,
    settled: Arc<AtomicBool>,
}

impl Question {
    /// Whether nobody waits for the answer any more.
    pub fn is_settled(&self) -> bool {
        self.settled.load(Ordering::Acquire)
    }
}

/// The answer to a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// This call, and no more.
    Once,
    /// For the rest of the run, by the advised rule.
    Run,
    /// For the rest of the run, by this rule, which must cover what was asked.
    RunBy(Rule),
    /// Refused, and not asked again in this run.
    Deny,
}

/// What became of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Granted {
    /// Whether it was added.
    pub granted: bool,
    /// Why not, or what of it does not hold in this run.
    pub why: Option<String>,
}

impl Granted {
    fn ended() -> Self {
        Self { granted: false, why: Some("the run has ended".into()) }
    }
}

/// What was asked and has no answer yet, both ways.
#[derive(Debug, Default)]
struct Open {
    questions: HashMap<u64, Arc<AtomicBool>>,
    grants: Vec<(Value, Sender<Granted>)>,
    is_closed: bool,
}

impl Open {
    /// Whether there still was such a question.
    fn take(&mut self, number: u64) -> bool {
        let settled = self.questions.remove(&number);
        settled.is_some_and(|settled| !settled.swap(true, Ordering::AcqRel))
    }

    /// Takes in a line of landstrip's; gives the question that it is.
    fn hear(&mut self, told: &Value) -> Option<(u64, Question)> {
        if let Some(number) = told["ask"].as_u64() {
            let settled = Arc::new(AtomicBool::new(false));
            let question = question(told, Arc::clone(&settled))?;
            self.questions.insert(number, settled);
            return Some((number, question));
        }
        if let Some(number) = told["settled"].as_u64() {
            self.take(number);
        }
        // Rules of answers are told of as well.
        let (kind, granted) =
            if told["granted"].is_array() { ("granted", true) } else { ("refused", false) };
        let words = told[kind].as_array().map_or(&[][..], Vec::as_slice);
        if let Some(at) = self
            .grants
            .iter()
            .position(|(rule, _)| words.get(..2) == rule.as_array().map(Vec::as_slice))
        {
            let why = words.get(2).and_then(Value::as_str).map(str::to_owned);
            let _ = self.grants.remove(at).1.send(Granted { granted, why });
        }
        None
    }

    fn close(&mut self) {
        self.is_closed = true;
        for (_, settled) in self.questions.drain() {
            settled.store(true, Ordering::Release);
        }
        for (_, became) in self.grants.drain(..) {
            let _ = became.send(Granted::ended());
        }
    }
}

fn question(told: &Value, settled: Arc<AtomicBool>) -> Option<Question> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let texts = |value: &Value| {
        value.as_array().map_or_else(Vec::new, |all| all.iter().map(text).collect())
    };
    Some(Question {
        denial: asked(&told["report"])?,
        advice: rule(&told["advice"]),
        program: text(&told["program"]),
        pid: told["pid"].as_u64().and_then(|pid| pid.try_into().ok()).unwrap_or_default(),
        arguments: texts(&told["arguments"]),
        directory: text(&told["directory"]),
        lasts: told["lasts"] != false,
        settled,
    })
}

/// Attends to a channel in two threads: one hears, the other calls the caller's function.
#[derive(Debug, Clone)]
pub(crate) struct Asking {
    channel: Arc<UnixStream>,
    open: Arc<Mutex<Open>>,
}

impl Asking {
    /// `fail` is told what the function panicked with.
    pub(crate) fn start(
        channel: UnixStream,
        on_ask: OnAsk,
        fail: impl FnOnce(Box<dyn Any + Send>) + Send + 'static,
    ) -> Self {
        let asking = Self { channel: Arc::new(channel), open: Arc::default() };
        let (sender, receiver) = mpsc::channel();
        let (hearing, answering) = (asking.clone(), asking.clone());
        thread::spawn(move || hearing.hear(&sender));
        thread::spawn(move || answering.answer(&receiver, on_ask, fail));
        asking
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn grant(&self, key: &str, value: &str) -> Granted {
        let (sender, became) = mpsc::channel();
        {
            let mut open = self.open();
            if open.is_closed {
                return Granted::ended();
            }
            let asked = json!([key, value]);
            open.grants.push((asked.clone(), sender));
            self.send(&json!({ "grant": asked }));
        }
        became.recv().unwrap_or_else(|_| Granted::ended())
    }

    /// That the run is ending, the other thread hears.
    fn send(&self, message: &Value) {
        let _ = (&*self.channel).write_all(format!("{message}\n").as_bytes());
    }

    fn hear(&self, asked: &Sender<(u64, Question)>) {
        for line in BufReader::new(&*self.channel).split(b'\n').map_while(Result::ok) {
            let Ok(told) = serde_json::from_slice(&line) else { continue };
            if let Some(question) = self.open().hear(&told) {
                let _ = asked.send(question);
            }
        }
        self.open().close();
    }

    fn answer(
        &self,
        asked: &Receiver<(u64, Question)>,
        mut on_ask: OnAsk,
        fail: impl FnOnce(Box<dyn Any + Send>),
    ) {
        for (number, question) in asked {
            if question.is_settled() {
                continue;
            }
            let answer = panic::catch_unwind(AssertUnwindSafe(|| on_ask(&question)));
            let mut open = self.open();
            if !open.take(number) {
                continue;
            }
            let (answer, rule) = match answer {
                Ok(Answer::Once) => ("once", None),
                Ok(Answer::Run) => ("run", None),
                Ok(Answer::RunBy(rule)) => ("run", Some(rule)),
                Ok(Answer::Deny) => ("deny", None),
                Err(panicked) => {
                    drop(open);
                    return fail(panicked);
                }
            };
            let mut message = json!({ "ask": number, "answer": answer });
            if let Some(Rule { key, value }) = rule {
                message["rule"] = json!([key, value]);
            }
            self.send(&message);
        }
    }
}

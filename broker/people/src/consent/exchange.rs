//! One question to a person, from what is shown first to what comes of the answer, wherever it is shown. A rule that is to
//! stay is written here, once it holds in the run.

use super::always::{PolicyFile, Proposal};
use super::prompt::{Asked, Word, line_of, shown, word};
use serde_json::Value;
use std::time::{Duration, Instant};

/// How long is waited for what comes of a rule.
const RULE_LIMIT: Duration = Duration::from_secs(2);
/// Most characters of a path or a reason.
const TEXT_MAX: usize = 400;
const WRITE: &str = "  y write it, n ask again? ";

/// The policy that rules can be added to, or why there is none.
pub(super) type Always = Result<PolicyFile, String>;

/// A question, and how far it has come.
#[derive(Debug)]
pub(super) struct Exchange<'a> {
    asked: Asked,
    always: &'a Always,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    Asked,
    /// The rule is to be written if that is what was meant.
    Shown(Proposal),
    /// The answer was given: what becomes of the rule is to be seen.
    Ruled(Option<Proposal>, Instant),
    Over,
}

/// What a line that was typed comes to.
#[derive(Debug, Default)]
pub(super) struct Reply {
    pub(super) shown: String,
    /// What is answered to the question.
    pub(super) answer: Option<&'static str>,
}

impl<'a> Exchange<'a> {
    pub(super) fn of(asked: Asked, always: &'a Always) -> Self {
        Self { asked, always, stage: Stage::Asked }
    }

    /// What is shown first.
    pub(super) fn question(&self) -> String {
        self.asked.text(self.kept().map(PolicyFile::name))
    }

    /// The policy that the rule can be added to, or why it cannot be.
    fn kept(&self) -> Result<&PolicyFile, &str> {
        match self.asked.lasts {
            true => self.always.as_ref().map_err(String::as_str),
            false => Err(
                "for what is removed, replaced, linked or named by chance, a rule helps this run only",
            ),
        }
    }

    /// What is shown where something else may have been drawn over it: all of the question, unless it was answered.
    pub(super) fn again(&mut self) -> String {
        match self.stage {
            Stage::Asked | Stage::Shown(_) => {
                self.stage = Stage::Asked;
                format!("\n{}", self.question())
            }
            Stage::Ruled(..) | Stage::Over => String::new(),
        }
    }

    pub(super) fn is_over(&self) -> bool {
        match self.stage {
            Stage::Over => true,
            Stage::Ruled(_, deadline) => Instant::now() > deadline,
            Stage::Asked | Stage::Shown(_) => false,
        }
    }

    /// What follows from a line that was typed.
    pub(super) fn heed(&mut self, line: &[u8]) -> Reply {
        let answer = |text| Reply { answer: Some(text), ..Reply::default() };
        let ruled = |proposal| Stage::Ruled(proposal, Instant::now() + RULE_LIMIT);
        let stage = std::mem::replace(&mut self.stage, Stage::Over);
        let again = || Reply { shown: self.question(), ..Reply::default() };
        let (next, reply) = match (stage, word(line)) {
            (Stage::Asked, Some(Word::Once)) => (Stage::Over, answer("once")),
            (Stage::Asked, Some(Word::No)) => (Stage::Over, answer("deny")),
            (Stage::Asked, Some(Word::Run)) => (ruled(None), answer("run")),
            (Stage::Asked, Some(Word::Always)) => self.propose(),
            (Stage::Shown(proposal), Some(Word::Once)) => (ruled(Some(proposal)), answer("run")),
            (Stage::Shown(_), Some(Word::No)) | (Stage::Asked, None) => (Stage::Asked, again()),
            (Stage::Shown(proposal), _) => {
                (Stage::Shown(proposal), Reply { shown: WRITE.to_owned(), ..Reply::default() })
            }
            (stage, _) => (stage, Reply::default()),
        };
        self.stage = next;
        reply
    }

    /// Shows what adding the rule to the policy comes to.
    fn propose(&self) -> (Stage, Reply) {
        match self
            .kept()
            .map_err(str::to_owned)
            .and_then(|policy| policy.propose(&self.asked.rule, &self.asked.program))
        {
            Ok(proposal) => {
                let lines = proposal.amended.lines.iter();
                let lines: String =
                    lines.map(|line| format!("  {}\n", shown(line, TEXT_MAX))).collect();
                let shown = format!("  this is to be written:\n{lines}{WRITE}");
                (Stage::Shown(proposal), Reply { shown, answer: None })
            }
            Err(why) => {
                let why = shown(&why, TEXT_MAX);
                let shown = format!("landstrip: it cannot be written: {why}\n{}", self.question());
                (Stage::Asked, Reply { shown, answer: None })
            }
        }
    }

    /// What follows from a line of the run's, for whoever sees the question.
    pub(super) fn hear(&mut self, line: &Value) -> Option<String> {
        let rule = &self.asked.rule;
        let is_ours = line["settled"].as_u64() == Some(self.asked.number);
        let told = if is_ours && line["by"] != "answered" {
            let why = match line["by"].as_str() {
                Some("time") => "nobody answered in time",
                _ => "nobody waits for it any more",
            };
            Some(format!("\nlandstrip: the question is over: {why}\n"))
        } else if self.asked.is_decided_by(&line["refused"]) {
            let why = shown(line["refused"][2].as_str().unwrap_or_default(), TEXT_MAX);
            Some(format!("landstrip: {} was not added: {why}\n", line_of(rule)))
        } else if self.asked.is_decided_by(&line["granted"])
            && let Stage::Ruled(proposal, _) = &self.stage
        {
            Some(proposal.as_ref().map(|proposal| self.write(proposal)).unwrap_or_default())
        } else {
            None
        };
        if told.is_some() {
            self.stage = Stage::Over;
        }
        told
    }

    /// Writes the rule; what is to be said of that.
    fn write(&self, proposal: &Proposal) -> String {
        let Ok(policy) = self.always else { return String::new() };
        let path = shown(&policy.name(), TEXT_MAX);
        match policy.write(proposal) {
            Ok(()) => format!("landstrip: written to {path}\n"),
            Err(why) => {
                let (why, rule) = (shown(&why, TEXT_MAX), line_of(&self.asked.rule));
                format!("landstrip: {path} was not written: {why}; add {rule} to it\n")
            }
        }
    }
}

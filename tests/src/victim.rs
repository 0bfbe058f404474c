//! A process outside the sandbox that the command must not touch.

use crate::user::User;
use std::fs;
use std::process::{Child, Command, Stdio};

/// A sleeping process of the same user; killed when dropped.
#[derive(Debug)]
pub struct Victim {
    child: Child,
    before: State,
}

/// What an attack on a process may change, as /proc shows it.
#[derive(Debug, PartialEq, Eq)]
struct State {
    /// Nice value, real-time priority and policy.
    scheduling: Vec<String>,
    limits: String,
    affinity: String,
    tracer: String,
    oom: String,
}

impl Victim {
    /// Starts one.
    pub fn of(user: User) -> Self {
        let mut command = Command::new("sleep");
        command.arg("300").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        user.enter(&mut command);
        let child = command.spawn().expect("sleep");
        // The state counts from execve on.
        let comm = format!("/proc/{}/comm", child.id());
        crate::eventually(|| fs::read_to_string(&comm).is_ok_and(|name| name == "sleep\n"));
        let before = State::of(child.id()).expect("a running victim");
        Self { child, before }
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// An address in its memory that a tracer could read.
    pub fn address(&self) -> String {
        let maps = fs::read_to_string(format!("/proc/{}/maps", self.pid())).expect("its maps");
        let line = maps.lines().find(|line| line.contains("[stack]")).expect("a stack");
        let end = line.split([' ', '-']).nth(1).expect("a range");
        let end = u64::from_str_radix(end, 16).expect("a number");
        format!("{:#x}", end - 64)
    }

    /// Whether it still runs.
    pub fn alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Whether it runs and nothing about it changed since the start.
    pub fn untouched(&mut self) -> bool {
        self.alive() && State::of(self.pid()).is_some_and(|now| now == self.before)
    }
}

impl State {
    fn of(pid: u32) -> Option<Self> {
        let read = |name: &str| fs::read_to_string(format!("/proc/{pid}/{name}")).ok();
        let stat = read("stat")?;
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        let status = read("status")?;
        let line = |key: &str| status.lines().find(|l| l.starts_with(key)).map(str::to_owned);
        // Fields 18, 19, 40 and 41 of proc_pid_stat(5), counted from the state at 3.
        let scheduling = [15, 16, 37, 38].iter().map(|i| fields[*i].to_owned()).collect();
        Some(Self {
            scheduling,
            limits: read("limits")?,
            affinity: line("Cpus_allowed:")?,
            tracer: line("TracerPid:")?,
            oom: read("oom_score_adj")?,
        })
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

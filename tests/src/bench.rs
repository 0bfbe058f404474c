//! What the benchmarks share: how they find the programs, take samples in turn, and end.

use std::error::Error;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitCode, Stdio};
use std::time::Instant;
use std::{env, fs, thread};

/// What a benchmark returns.
pub type Outcome<T> = Result<T, Box<dyn Error>>;

/// The exit status of a benchmark; says what went wrong.
#[must_use]
pub fn finish(outcome: Outcome<()>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("benchmark: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The directory of the programs to measure: the one that `arguments` name, or that of the profile that
/// the benchmark is built in.
///
/// # Errors
/// If landstrip is not there.
pub fn built_programs(arguments: &[OsString]) -> Outcome<PathBuf> {
    let asked = arguments.iter().find(|argument| !argument.as_encoded_bytes().starts_with(b"-"));
    let executable = env::current_exe()?;
    // TARGET/TRIPLE/release/deps/NAME-HASH
    let beside = || executable.ancestors().nth(2);
    let programs = asked.map(Path::new).or_else(beside).unwrap_or(Path::new("."));
    for name in ["landstrip", "landstrip-broker"] {
        let program = programs.join(name);
        if !program.is_file() {
            let commands = "cargo build --release && cargo build --release -p landstrip";
            return Err(format!("there is no {}: run {commands}", program.display()).into());
        }
    }
    Ok(programs.canonicalize()?)
}

/// The processors and what else they do, for the first lines of the output.
///
/// # Errors
/// If proc(5) cannot be read.
pub fn machine() -> Outcome<String> {
    let load = fs::read_to_string("/proc/loadavg")?;
    let cpus = thread::available_parallelism()?;
    Ok(format!("{cpus} CPUs, load {} at the start", load.split(' ').next().unwrap_or_default()))
}

/// Samples every subject, in turn and back, so that none always follows the same other one. Returns the
/// medians.
///
/// # Errors
/// Returns the first error of `sample`.
pub fn in_turn<S>(
    rounds: usize,
    subjects: &mut [S],
    mut sample: impl FnMut(&mut S) -> Outcome<f64>,
) -> Outcome<Vec<f64>> {
    let mut samples = vec![Vec::with_capacity(rounds); subjects.len()];
    for round in 0..rounds {
        for place in 0..subjects.len() {
            let at = if round % 2 == 0 { place } else { subjects.len() - 1 - place };
            samples[at].push(sample(&mut subjects[at])?);
        }
    }
    Ok(samples.into_iter().map(|samples| median(samples, f64::total_cmp)).collect())
}

/// The median of an odd number of values.
pub fn median<T: Copy>(mut values: Vec<T>, order: impl FnMut(&T, &T) -> std::cmp::Ordering) -> T {
    values.sort_by(order);
    values[values.len() / 2]
}

/// Runs `command` to its end; returns the milliseconds that it took.
///
/// # Errors
/// If it fails.
pub fn milliseconds_of(command: &mut Command) -> Outcome<f64> {
    let start = Instant::now();
    let status = command.status()?;
    let taken = start.elapsed();
    if !status.success() {
        return Err(format!("{command:?}: {status}").into());
    }
    Ok(taken.as_secs_f64() * 1e3)
}

/// How a figure is judged by its budget.
#[must_use]
pub fn judged(is_kept: bool) -> &'static str {
    if is_kept { "kept" } else { "EXCEEDED" }
}

/// How far above a floor that is above its budget a figure may be.
const ABOVE_FLOOR: f64 = 1.15;

/// How a figure is judged by its budget and by the floor that the kernel sets.
#[must_use]
pub fn verdict(ours: Option<f64>, floor: Option<f64>, budget: f64) -> &'static str {
    match (ours, floor) {
        (None, _) => "not measured",
        (Some(ours), _) if ours <= budget => "kept",
        (Some(ours), Some(floor)) if floor > budget && ours <= floor * ABOVE_FLOOR => {
            "kept: within 15 % of the floor"
        }
        (Some(_), Some(floor)) if floor > budget => "EXCEEDED, as is by the floor",
        _ => "EXCEEDED",
    }
}

/// A process that answers each line with a line, until its standard input ends.
#[derive(Debug)]
pub struct Worker {
    /// The process, or what supervises it.
    pub process: Child,
    replies: BufReader<ChildStdout>,
}

impl Worker {
    /// Starts it.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start(command: &mut Command) -> Outcome<Self> {
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let replies = process.stdout.take().ok_or("a worker without standard output")?;
        Ok(Self { process, replies: BufReader::new(replies) })
    }

    /// Sends a line and returns the answer to it.
    ///
    /// # Errors
    /// If it has ended.
    pub fn ask(&mut self, line: &str) -> Outcome<String> {
        let requests = self.process.stdin.as_mut().ok_or("a worker without standard input")?;
        writeln!(requests, "{line}")?;
        let mut reply = String::new();
        match self.replies.read_line(&mut reply)? {
            0 => Err(format!("the worker ended: {}", self.process.wait()?).into()),
            _ => Ok(reply),
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // The end of its standard input, which this closes, is the end of the worker.
        let _ = self.process.wait();
    }
}

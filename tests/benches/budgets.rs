//! The budgets of what a sandbox costs, all in one table: each figure beside the same without a sandbox, beside the
//! floor that the kernel sets, and beside bubblewrap where that is installed.
//!
//! ```text
//! cargo build --release && cargo build --release -p landstrip
//! TMPDIR=/a/tmpfs cargo bench -p tests --bench budgets [-- DIRECTORY] [--one-cpu] [--only WORD]
//! ```
//!
//! Samples alternate; figures are medians. Programs are measured in processor time of all processes together, which
//! is steady where wall time is not; that stands beside it. A budget is kept if the figure is within it, or within 15 % of a
//! floor that is above it. The floor is measured in the same run: a supervisor that has as much notified, and does
//! nothing for it but what whoever answers has to do (`budgets/floor.rs`). With `--one-cpu` everything runs
//! on one processor, and may cost a fifth more. Nothing makes the benchmark fail. What needs a program that is not
//! there is left out, and said.

#[path = "budgets/calls.rs"]
mod calls;
#[path = "budgets/floor.rs"]
mod floor;
#[path = "budgets/ground.rs"]
mod ground;

use floor::Floor;
use ground::{Ground, NOBODY, User};
use serde_json::{Value, json};
use std::env;
use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, ExitCode};
use tests::bench::{
    Outcome, Worker, built_programs, finish, in_turn, machine, median, milliseconds_of, verdict,
};

/// Samples of programs, of calls, and of launches. Odd: the median is one of them.
const PROGRAM_ROUNDS: usize = 7;
const CALL_ROUNDS: usize = 51;
const LAUNCH_ROUNDS: usize = 101;
/// How much more one processor may cost.
const ONE_CPU: f64 = 1.2;

fn main() -> ExitCode {
    let arguments: Vec<OsString> = env::args_os().skip(1).collect();
    let words: Vec<_> = arguments.iter().map(|word| word.to_str().unwrap_or_default()).collect();
    match words[..] {
        ["--calls", directory] => finish(calls::work(Path::new(directory))),
        ["--floor", ..] => match floor::run(&arguments[1..]) {
            Ok(status) => status,
            Err(error) => finish(Err(error)),
        },
        _ if words.contains(&"--bench") => finish(measure(&words)),
        // `cargo test --benches`: that it builds is all that a test can say.
        _ => ExitCode::SUCCESS,
    }
}

fn measure(words: &[&str]) -> Outcome<()> {
    let one_cpu = words.contains(&"--one-cpu");
    if one_cpu {
        let mut first = rustix::thread::CpuSet::new();
        first.set(0);
        rustix::thread::sched_setaffinity(None, &first)?;
    }
    let only = words.iter().position(|word| *word == "--only").and_then(|at| words.get(at + 1));
    let is_option = |word: &&&str| !word.starts_with("--") && Some(*word) != only;
    let directory: Vec<_> = words.iter().filter(is_option).map(OsString::from).collect();
    let limit = if one_cpu { ONE_CPU } else { 1.0 };
    let table = Table { limit, only: only.copied().unwrap_or_default() };

    let programs = built_programs(&directory)?;
    let users = match rustix::process::geteuid().is_root() {
        true => vec![User::Caller, User::Nobody(NOBODY)],
        false => vec![User::Caller],
    };
    println!("{}{}", machine()?, if one_cpu { ", one of them used" } else { "" });
    let grounds: Vec<_> =
        users.into_iter().map(|user| Ground::create(&programs, user)).collect::<Outcome<_>>()?;
    let ground = &grounds[0];
    println!(
        "programs: {}\nfiles: {}, {}",
        programs.display(),
        ground.root.display(),
        ground.kind()
    );
    measure_programs(&table, &grounds)?;
    measure_calls(&table, ground)?;
    measure_launch(&table, ground)?;
    measure_memory(&table, ground)
}

/// How figures are judged, and which.
struct Table<'a> {
    limit: f64,
    only: &'a str,
}

impl Table<'_> {
    fn wants(&self, label: &str) -> bool {
        label.contains(self.only)
    }

    fn heading(text: &str) {
        let columns = ["native", "landstrip", "floor", "bwrap", "budget", "wall"];
        let [native, ours, floor, bwrap, budget, wall] = columns;
        println!("\n{text:<58}{native:>9}{ours:>10}{floor:>8}{bwrap:>8}{budget:>8}{wall:>7}");
    }

    fn row(
        &self,
        label: &str,
        native: f64,
        figures: [Option<f64>; 3],
        budget: f64,
        wall: Option<f64>,
    ) {
        let [ours, floor, bwrap] = figures;
        let shown = |figure: Option<f64>| figure.map_or("-".to_owned(), |it| format!("{it:.2}"));
        let budget = budget * self.limit;
        let verdict = verdict(ours, floor, budget);
        let (ours, floor, bwrap, wall) = (shown(ours), shown(floor), shown(bwrap), shown(wall));
        println!(
            "  {label:<56}{native:>9.2}{ours:>10}{floor:>8}{bwrap:>8}{budget:>8.2}{wall:>7}  {verdict}"
        );
    }
}

/// A program that is run in each way.
struct Work {
    label: &'static str,
    /// By whom: the users by their place.
    user: usize,
    /// Done before each sample, and what is measured.
    before: &'static str,
    words: &'static str,
    options: &'static [&'static str],
    rules: Value,
    floor: Floor,
    budget: f64,
}

fn measure_programs(table: &Table<'_>, grounds: &[Ground]) -> Outcome<()> {
    let plain = json!({ "allowWrite": ["."] });
    let home = json!({ "allowWrite": ["."], "denyRead": ["~/.ssh"] });
    let inside = json!({ "allowWrite": ["."], "denyRead": [".env"] });
    let glob = json!({ "allowWrite": ["."], "denyRead": ["**/*.pem"] });
    let hooks = json!({ "allowWrite": ["."], "denyWrite": [".env", ".git/hooks"] });
    let both = json!({ "allowWrite": ["."], "denyWrite": [".git/hooks"], "denyRead": [".env"] });
    let cat = "cat tree/*/*";
    let (fresh, tar) = ("rm -rf x; mkdir x", "tar -C x -xf tree.tar");
    let (copied, rm) = ("rm -rf x; cp -r tree x", "rm -rf x");
    let rg = "rg --no-ignore needle tree";
    let status = "git -C repository status --short";
    let commit = "git -C repository -c user.name=n -c user.email=e commit -q -m more --allow-empty";
    let touched = "date +%N > repository/d1/f1; git -C repository add -A";
    let npm = "npm ci --offline --no-audit --no-fund --prefix npm";
    let cargo =
        "cargo build --offline -q --manifest-path crate/Cargo.toml --target-dir crate/target";
    let (no_modules, no_target) = ("rm -rf npm/node_modules", "rm -rf crate/target");
    let (all, changes, network): (&[_], &[_], &[_]) =
        (&[], &["--report", "changes"], &["--report", "network"]);
    use Floor::{Changes, Landlock, Metadata, OwnReads, Reads};
    let works = [
        ("cat of 3000 files, nothing denied", 0, "", cat, all, &plain, Landlock, 1.1),
        ("cat, ~/.ssh denied", 0, "", cat, all, &home, Reads, 1.5),
        ("cat, ~/.ssh denied, --report changes", 0, "", cat, changes, &home, Landlock, 1.1),
        ("cat, .env denied inside", 0, "", cat, all, &inside, OwnReads, 1.6),
        ("tar x of 3000 files", 0, fresh, tar, all, &plain, Changes, 3.0),
        ("tar x, --report network", 0, fresh, tar, network, &plain, Metadata, 2.2),
        ("tar x, .env and .git/hooks denied", 0, fresh, tar, all, &hooks, Changes, 3.5),
        ("tar x, as nobody", 1, fresh, tar, all, &plain, Changes, 2.2),
        ("tar x, denied, as nobody", 1, fresh, tar, all, &hooks, Changes, 2.6),
        ("rm -rf of them", 0, copied, rm, all, &plain, Changes, 1.6),
        ("rm -rf, .env and .git/hooks denied", 0, copied, rm, all, &hooks, Changes, 2.0),
        ("rg over 3000 files, ~/.ssh denied", 0, "", rg, all, &home, Reads, 1.6),
        ("rg, .env denied inside", 0, "", rg, all, &inside, OwnReads, 2.1),
        ("rg, **/*.pem denied", 0, "", rg, all, &glob, OwnReads, 2.7),
        ("git status of 10 000 files", 0, "", status, all, &plain, Changes, 1.05),
        ("git status, denied", 0, "", status, all, &both, OwnReads, 1.15),
        ("git commit among 10 000 files", 0, touched, commit, all, &plain, Changes, 1.05),
        ("git commit, denied", 0, touched, commit, all, &both, OwnReads, 1.15),
        ("cargo build", 0, no_target, cargo, all, &plain, Changes, 1.05),
        ("cargo build, denied", 0, no_target, cargo, all, &both, OwnReads, 1.15),
        ("npm ci of 50 packages", 0, no_modules, npm, all, &plain, Changes, 1.05),
        ("npm ci, denied", 0, no_modules, npm, all, &both, OwnReads, 1.15),
    ];
    Table::heading("programs (native: ms of processor time; else times that)");
    for (label, user, before, words, options, rules, floor, budget) in works {
        let rules = rules.clone();
        let work = Work { label, user, before, words, options, rules, floor, budget };
        if table.wants(label) {
            measure_program(table, grounds, &work)?;
        }
    }
    Ok(())
}

fn measure_program(table: &Table<'_>, grounds: &[Ground], work: &Work) -> Outcome<()> {
    let program = work.words.split(' ').next().unwrap_or_default();
    let Some(ground) = grounds.get(work.user) else {
        println!("  {:<56} needs root", work.label);
        return Ok(());
    };
    if !ground.has(program) {
        println!("  {:<56} there is no {program}", work.label);
        return Ok(());
    }
    // With a shell in each, for the globs.
    let words = ["sh", "-c", &format!("exec {} >/dev/null", work.words)].map(OsString::from);
    let policy = json!({ "filesystem": work.rules });
    let mut subjects = vec![
        ground.plain(&words),
        ground.sandboxed(&policy, work.options, &words)?,
        ground.floored(work.floor, &words)?,
    ];
    subjects.extend(ground.wrapped(&work.rules, &words));
    let mut subjects: Vec<_> = subjects.into_iter().map(|command| (command, Vec::new())).collect();
    let medians = in_turn(PROGRAM_ROUNDS, &mut subjects, |(command, walls)| {
        ground.prepare(work.before)?;
        let (processor, wall) = ground::time_of(command)?;
        walls.push(wall);
        Ok(processor)
    });
    let medians = match medians {
        Ok(medians) => medians,
        Err(error) => {
            println!("  {:<56} {error}", work.label);
            return Ok(());
        }
    };
    let native = medians[0];
    let figure = |at: usize| medians.get(at).map(|taken| taken / native);
    let walls: Vec<_> =
        subjects.into_iter().map(|(_, walls)| median(walls, f64::total_cmp)).collect();
    let figures = [figure(1), figure(2), figure(3)];
    table.row(work.label, native, figures, work.budget, Some(walls[1] / walls[0]));
    Ok(())
}

fn measure_calls(table: &Table<'_>, ground: &Ground) -> Outcome<()> {
    let plain = json!({ "filesystem": { "allowWrite": ["."] } });
    let beside = json!({ "filesystem": { "allowWrite": ["."], "denyRead": [".env"] } });
    let network = json!({ "filesystem": { "allowWrite": ["."] }, "network": {
        "allowLocalBinding": true, "allowUnixSockets": [ground.root.join("socket")],
    } });
    let _server = std::os::unix::net::UnixListener::bind(ground.root.join("socket"))?;
    let server = _server.try_clone()?;
    std::thread::spawn(move || server.incoming().for_each(drop));
    Table::heading("calls (native: µs; else µs more)");
    use Floor::{Changes, OwnCalls};
    for (label, call, policy, floor, budget) in [
        ("open to write, let through", "write", &plain, Changes, 4.0),
        ("open to write, let through beside a denied file", "write", &beside, Changes, 5.0),
        ("change of metadata by descriptor", "metadata", &plain, OwnCalls, 5.0),
        ("connect to an own TCP port", "tcp", &network, OwnCalls, 12.0),
        ("connect to a listed Unix socket", "unix", &network, OwnCalls, 15.0),
    ] {
        if !table.wants(label) {
            continue;
        }
        let words = ground.worker()?;
        let mut commands = [
            ground.plain(&words),
            ground.sandboxed(policy, &[], &words)?,
            ground.floored(floor, &words)?,
        ];
        let mut workers: Vec<_> = commands.iter_mut().map(Worker::start).collect::<Outcome<_>>()?;
        let medians = in_turn(CALL_ROUNDS, &mut workers, |worker| {
            Ok(worker.ask(call)?.trim_end().parse()?)
        });
        match medians {
            Ok(medians) => {
                let more = |at: usize| Some(medians[at] - medians[0]);
                table.row(label, medians[0], [more(1), more(2), None], budget, None);
            }
            Err(error) => println!("  {label:<56} {error}"),
        }
    }
    Ok(())
}

fn measure_launch(table: &Table<'_>, ground: &Ground) -> Outcome<()> {
    Table::heading("launch of `true` (native: ms; else ms more)");
    let words = ["true".into()];
    for (label, rules, budget) in [
        ("launch", json!({ "allowWrite": ["."] }), 0.9),
        ("launch, ~/.ssh denied", json!({ "allowWrite": ["."], "denyRead": ["~/.ssh"] }), 1.0),
        ("launch, .env denied inside", json!({ "allowWrite": ["."], "denyRead": [".env"] }), 1.0),
    ] {
        if !table.wants(label) {
            continue;
        }
        let policy = json!({ "filesystem": rules });
        let mut commands = vec![
            ground.plain(&words),
            ground.sandboxed(&policy, &[], &words)?,
            ground.floored(Floor::Changes, &words)?,
        ];
        let wrapped = ground.wrapped(&rules, &words);
        commands.extend(wrapped);
        let medians = in_turn(LAUNCH_ROUNDS, &mut commands, milliseconds_of)?;
        let more = |at: usize| medians.get(at).map(|taken| taken - medians[0]);
        table.row(label, medians[0], [more(1), more(2), more(3)], budget, None);
    }
    Ok(())
}

fn measure_memory(table: &Table<'_>, ground: &Ground) -> Outcome<()> {
    if !table.wants("memory") {
        return Ok(());
    }
    Table::heading("memory of all processes of ours (MiB)");
    let policy = json!({ "filesystem": { "allowWrite": ["."], "denyRead": [".env", "~/.ssh"] } });
    let mut worker = Worker::start(&mut ground.sandboxed(&policy, &[], &ground.worker()?)?)?;
    worker.ask("write")?;
    let ours = ground.memory_below(worker.process.id())?;
    table.row("memory, busy with opens", 0.0, [Some(ours), None, None], 3.0, None);
    Ok(())
}

/// Whether a command is there to be found.
fn is_installed(program: &str, path: &str) -> bool {
    env::split_paths(path).any(|directory| directory.join(program).is_file())
}

/// A command with these words.
fn command_of(words: &[OsString]) -> Command {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]);
    command
}

//! A coding agent's session: what it runs, each command in a sandbox of its own, under the preset that is made for it.
//! Beside the same without a sandbox, beside bubblewrap with the same protections where that is installed, and beside
//! the floor that the kernel sets (`budgets/floor.rs`).
//!
//! ```text
//! cargo build --release && cargo build --release -p landstrip
//! TMPDIR=/a/tmpfs cargo bench -p tests --bench agent [-- DIRECTORY] [--only WORD]
//! ```
//!
//! ext4 takes longer for each directory that is made while others were removed in the last five seconds, which launches in a
//! row do and those of an agent do not. The home and the repository are its own (`agent/ground.rs`). Samples alternate; figures are medians of wall time, for
//! that is what people wait for: leave the machine alone meanwhile. "Beyond the launch" is without what `true` takes
//! longer. Nothing makes the benchmark fail; what needs a program that is not there is left out, and said.

#[path = "agent/ground.rs"]
mod ground;
// Not all of it is needed here.
#[allow(dead_code)]
#[path = "budgets/floor.rs"]
mod floor;

use floor::Floor;
use ground::{Ground, Home, Way};
use std::env;
use std::ffi::OsString;
use std::process::ExitCode;
use tests::bench::{Outcome, built_programs, finish, in_turn, machine, milliseconds_of, verdict};

/// Samples of programs, and of launches. Odd: the median is one of them.
const PROGRAM_ROUNDS: usize = 15;
const LAUNCH_ROUNDS: usize = 201;

fn main() -> ExitCode {
    let arguments: Vec<OsString> = env::args_os().skip(1).collect();
    let words: Vec<_> = arguments.iter().map(|word| word.to_str().unwrap_or_default()).collect();
    match words[..] {
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
    let only = words.iter().position(|word| *word == "--only").and_then(|at| words.get(at + 1));
    let is_option = |word: &&&str| !word.starts_with("--") && Some(*word) != only;
    let directory: Vec<_> = words.iter().filter(is_option).map(OsString::from).collect();
    let ground = Ground::create(&built_programs(&directory)?)?;
    println!("{}\nfiles: {}", machine()?, ground.root.display());
    let table = Table { ground, only: only.copied().unwrap_or_default() };
    table.session()?;
    table.launches()?;
    table.programs()
}

/// What an agent runs, a few hundred times an hour.
const SESSION: [&str; 19] = [
    "ls -la",
    "cat d1/f1.c",
    "sed -n 1,20p d2/f2.c",
    "head -n 5 d3/f3.c",
    "wc -l d1/f1.c d1/f2.c",
    "find . -name f7.c",
    "rg -n needle",
    "grep -rn needle d1 d2 d3 d4",
    "git status --short",
    "git log --oneline -n 5",
    "git diff --stat",
    "git add -A && git -c user.name=n -c user.email=e commit -qm more --allow-empty",
    "echo changed >d5/f5.c",
    "mkdir -p new/sub && cp d1/f1.c new/sub/ && rm -r new",
    "diff d1/f1.c d1/f2.c || true",
    "python3 -c 'import json, os; print(len(os.listdir()))'",
    "python3 -m unittest -q test_sample",
    "make -s -B",
    "node -e 'console.log(1)'",
];

/// Where figures are judged.
struct Table<'a> {
    ground: Ground,
    /// Rows with this word alone.
    only: &'a str,
}

/// What was measured in each way.
struct Figures {
    bare: f64,
    ours: f64,
    floor: f64,
    wrapped: Option<f64>,
}

impl Table<'_> {
    fn wants(&self, label: &str) -> bool {
        label.contains(self.only)
    }

    fn heading(text: &str) {
        let [bare, ours, floor, bwrap, budget] = ["bare", "landstrip", "floor", "bwrap", "budget"];
        println!("\n{text:<52}{bare:>9}{ours:>10}{floor:>8}{bwrap:>8}{budget:>8}");
    }

    fn row(label: &str, figures: &Figures, budget: Option<f64>) {
        let Figures { bare, ours, floor, wrapped } = *figures;
        let wrapped = wrapped.map_or("-".to_owned(), |it| format!("{it:.2}"));
        let judged = budget.map_or("", |budget| verdict(Some(ours), Some(floor), budget));
        let budget = budget.map_or(String::new(), |budget| format!("{budget:.2}"));
        println!(
            "  {label:<50}{bare:>9.2}{ours:>10.2}{floor:>8.2}{wrapped:>8}{budget:>8}  {judged}"
        );
    }

    /// The medians of `script` in each way, `ours` being ours, in milliseconds; `before` is done before each sample.
    fn sample(
        &self,
        (home, ours, floor): (Home, Way<'_>, Floor),
        rounds: usize,
        before: &str,
        script: &str,
    ) -> Outcome<Figures> {
        let ways = [Way::Bare, ours, Way::Floor(floor), Way::Wrapped(ours.hides_inside())];
        let ways = ways.iter().map(|way| self.ground.command(home, *way, script));
        let mut commands: Vec<_> =
            ways.collect::<Outcome<Vec<_>>>()?.into_iter().flatten().collect();
        let medians = in_turn(rounds, &mut commands, |command| {
            if !before.is_empty() {
                milliseconds_of(self.ground.shell(home, before).as_mut())?;
            }
            milliseconds_of(command)
        })?;
        let wrapped = medians.get(3).copied();
        Ok(Figures { bare: medians[0], ours: medians[1], floor: medians[2], wrapped })
    }

    fn session(&self) -> Outcome<()> {
        let label = "session";
        if !self.wants(label) {
            return Ok(());
        }
        Self::heading("session: one sandbox each (ms; the sum in times bare)");
        let mut sum = Figures { bare: 0.0, ours: 0.0, floor: 0.0, wrapped: Some(0.0) };
        for script in SESSION {
            let program = script.split(' ').next().unwrap_or_default();
            if !self.ground.has(program) {
                println!("  {script:<50} there is no {program}");
                continue;
            }
            let way = (Home::Small, Way::Preset, Floor::Changes);
            let figures = self.sample(way, PROGRAM_ROUNDS, "", script)?;
            let shown: String = script.chars().take(48).collect();
            Self::row(&shown, &figures, None);
            sum.bare += figures.bare;
            sum.ours += figures.ours;
            sum.floor += figures.floor;
            sum.wrapped = sum.wrapped.zip(figures.wrapped).map(|(sum, more)| sum + more);
        }
        Self::row("all of them, times bare", &sum.beside(sum.bare), Some(1.15));
        Ok(())
    }

    fn launches(&self) -> Outcome<()> {
        Self::heading("launch of `true` (bare: ms; else ms more)");
        for (label, home, way, budget) in [
            ("launch, a home of 50 entries", Home::Small, Way::Preset, 1.5),
            ("launch, a home of 300 entries", Home::Large, Way::Preset, 2.0),
            ("launch, {}", Home::Small, Way::Policy("{}"), 1.1),
            ("launch, the built-in policy", Home::Small, Way::BuiltIn, 1.1),
        ] {
            if self.wants(label) {
                let figures = self.launch(home, way, Floor::Landlock)?;
                Self::row(label, &figures, Some(budget));
            }
        }
        Ok(())
    }

    /// What `true` takes, and how much more in a sandbox.
    fn launch(&self, home: Home, way: Way<'_>, floor: Floor) -> Outcome<Figures> {
        let figures = self.sample((home, way, floor), LAUNCH_ROUNDS, "", "true")?;
        let more = |taken: f64| taken - figures.bare;
        let Figures { bare, ours, floor, wrapped } = figures;
        Ok(Figures { bare, ours: more(ours), floor: more(floor), wrapped: wrapped.map(more) })
    }

    fn programs(&self) -> Outcome<()> {
        const INSIDE: Way<'_> =
            Way::Policy(r#"{"filesystem":{"allowWrite":["."],"denyRead":[".env"]}}"#);
        let commit = "git add -A && git -c user.name=n -c user.email=e commit -qm more";
        let touch = "date +%N >d1/f1.c";
        use Floor::{Changes, Landlock, Reads};
        let rows = [
            ("rg, 2000 files", "", "rg needle d1 d2 d3 d4 d5", Way::Preset, Landlock, 1.15),
            ("rg, all 2000 files", "", "rg needle", Way::Preset, Landlock, 1.15),
            ("grep -r, 2000 files", "", "grep -r needle .", Way::Preset, Landlock, 1.15),
            ("tar c, 2000 files", "", "tar -c . | cat", Way::Preset, Landlock, 1.15),
            ("rg, 20 000 files", "", "rg needle ../large", Way::Preset, Landlock, 1.15),
            ("rg, 100 000 files", "", "rg needle ../larger", Way::Preset, Landlock, 1.15),
            ("git status", touch, "git status --short", Way::Preset, Changes, 1.1),
            ("git add and commit", touch, commit, Way::Preset, Changes, 1.1),
            ("make", "", "make -s -B", Way::Preset, Changes, 1.1),
            ("unittest", "", "python3 -m unittest -q test_sample", Way::Preset, Changes, 1.1),
            ("rg, .env denied inside", "", "rg needle", INSIDE, Reads, 2.6),
            ("cp -r of 2000 files", "rm -rf x", "cp -r ../copy x", Way::Preset, Changes, 1.3),
            (
                "rm -rf of 2000 files",
                "rm -rf x; cp -r ../copy x",
                "rm -rf x",
                Way::Preset,
                Changes,
                1.8,
            ),
            (
                "untar of 2000 files",
                "rm -rf x; mkdir x",
                "tar -C x -xf ../copy.tar",
                Way::Preset,
                Changes,
                3.0,
            ),
        ];
        Self::heading("programs beyond the launch (bare: ms; else times that)");
        for (label, before, script, way, floor, budget) in rows {
            let program = script.split(' ').next().unwrap_or_default();
            if !self.wants(label) {
                continue;
            }
            if !self.ground.has(program) {
                println!("  {label:<50} there is no {program}");
                continue;
            }
            let launch = self.launch(Home::Small, way, floor)?;
            self.ground.fill(script)?;
            let taken = self.sample((Home::Small, way, floor), PROGRAM_ROUNDS, before, script)?;
            let wrapped = taken.wrapped.zip(launch.wrapped).map(|(all, more)| all - more);
            let (ours, floor) = (taken.ours - launch.ours, taken.floor - launch.floor);
            let beyond = Figures { ours, floor, wrapped, ..taken };
            let bare = beyond.bare;
            Self::row(label, &Figures { bare, ..beyond.beside(bare) }, Some(budget));
        }
        Ok(())
    }
}

impl Figures {
    /// In times `bare`.
    fn beside(&self, bare: f64) -> Self {
        let Self { ours, floor, wrapped, .. } = *self;
        let wrapped = wrapped.map(|taken| taken / bare);
        Self { bare, ours: ours / bare, floor: floor / bare, wrapped }
    }
}

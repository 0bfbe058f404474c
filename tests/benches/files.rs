//! What files cost where denied paths are near, each figure beside the same one without a sandbox.
//!
//! ```text
//! cargo build --release && cargo build --release -p landstrip
//! cargo bench -p tests --bench files [-- DIRECTORY]
//! ```
//!
//! As in the benchmark `sandbox`: the programs are those of DIRECTORY, by default of the release profile
//! in the target directory that this is built in; sandboxed and plain samples alternate; no figure makes it fail, budgets
//! are printed beside what was found. It takes some minutes. Files are made in TMPDIR:
//! on a busy disk a TMPDIR on a tmpfs other than /dev/shm shows the sandbox's share better.

use serde_json::{Value, json};
use std::env;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};
use tests::bench::{
    Outcome, Worker, built_programs, finish, in_turn, judged, machine, milliseconds_of,
};

/// Samples of each figure of calls, and of each of programs. Odd: the median is one of them.
const CALL_ROUNDS: usize = 101;
const PROGRAM_ROUNDS: usize = 7;
const LAUNCH_ROUNDS: usize = 51;
/// The first argument of a process that runs the loops.
const WORKER: &str = "--worker";
/// Files of the archive, and of the tree that a deny glob is about.
const ARCHIVE_FILES: usize = 5_000;
const TREE_FILES: usize = 100_000;
const GLOB_BUDGET_MS: f64 = 10.0;

fn main() -> ExitCode {
    let arguments: Vec<OsString> = env::args_os().skip(1).collect();
    let outcome = match &arguments[..] {
        [first, directory] if first == WORKER => work(Path::new(directory)),
        _ if arguments.iter().any(|argument| argument == "--bench") => measure(&arguments),
        // `cargo test --benches`: that it builds is all that a test can say.
        _ => Ok(()),
    };
    finish(outcome)
}

fn measure(arguments: &[OsString]) -> Outcome<()> {
    let ground = Ground::create(built_programs(arguments)?)?;
    println!("programs: {}", ground.programs.display());
    println!("medians of samples taken in turn; {}\n", machine()?);
    heading("calls (µs each)");
    measure_calls(&ground)?;
    heading("programs (ms)");
    measure_programs(&ground)?;
    heading("launch of `true` (ms)");
    measure_glob(&ground)
}

/// A directory of our own with what is measured in it.
struct Ground {
    programs: PathBuf,
    root: PathBuf,
}

impl Drop for Ground {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.root);
    }
}

impl Ground {
    fn create(programs: PathBuf) -> Outcome<Self> {
        let name = format!("landstrip-bench-files-{}", std::process::id());
        let root = env::temp_dir().canonicalize()?.join(name);
        let ground = Self { programs, root };
        fs::create_dir(&ground.root)?;
        Ok(ground)
    }

    /// A new directory for one subject, with the tree that the calls are made in.
    fn directory(&self, name: &str) -> io::Result<PathBuf> {
        let directory = self.root.join(name);
        fs::create_dir_all(directory.join("granted"))?;
        fs::create_dir_all(directory.join("tmp"))?;
        for place in ["file", "granted/file", ".env"] {
            fs::write(directory.join(place), "content")?;
        }
        let _ = fs::remove_dir_all(directory.join("later"));
        Ok(directory)
    }

    /// `words` in `directory` under `rules`, or without a sandbox.
    fn command(
        &self,
        directory: &Path,
        rules: Option<&Value>,
        words: &[OsString],
    ) -> Outcome<Command> {
        let mut command = if let Some(rules) = rules {
            let name = format!("{}.json", directory.file_name().unwrap_or_default().display());
            let policy = self.root.join(name);
            fs::write(&policy, json!({ "filesystem": rules }).to_string())?;
            let mut command = Command::new(self.programs.join("landstrip"));
            command.env_remove("LANDSTRIP_POLICY").arg("-p").arg(policy).arg("--");
            command.args(words);
            command
        } else {
            let mut command = Command::new(&words[0]);
            command.args(&words[1..]);
            command
        };
        command.current_dir(directory);
        // What programs keep beside the repository, they may write.
        command.env("TMPDIR", directory.join("tmp")).env("CARGO_HOME", directory.join("tmp"));
        // Each subject builds in its own directory.
        command.env_remove("CARGO_TARGET_DIR");
        Ok(command)
    }
}

fn heading(text: &str) {
    println!("{text:<52}{:>12}{:>12}{:>8}", "no sandbox", "landstrip", "ratio");
}

fn row(label: &str, none: f64, ours: f64, budget: f64) {
    let ratio = ours / none;
    let kept = judged(ratio <= budget);
    println!("  {label:<50}{none:>12.2}{ours:>12.2}{ratio:>8.2}  (budget {budget}: {kept})");
}

/// Something that commands do all the time, at a path below the directory of the worker.
struct Step {
    name: &'static str,
    times: u32,
    once: fn(&Path) -> io::Result<()>,
}

static STEPS: [Step; 4] = [
    Step { name: "open to read", times: 300, once: |path| File::open(path).map(drop) },
    Step {
        name: "open to write",
        times: 100,
        once: |path| OpenOptions::new().write(true).open(path).map(drop),
    },
    Step {
        name: "create, unlink",
        times: 50,
        once: |path| {
            let path = path.with_file_name("made");
            File::create_new(&path)?;
            fs::remove_file(path)
        },
    },
    Step {
        name: "create",
        times: 50,
        once: |path| {
            let path = path.with_file_name("made");
            // The removal is not measured: it is made where the next sample begins.
            File::create_new(path).map(drop)
        },
    },
];

/// Times what standard input asks for, `STEP\tPATH` a line.
fn work(directory: &Path) -> Outcome<()> {
    for line in io::stdin().lines() {
        let line = line?;
        let (name, path) = line.split_once('\t').ok_or("STEP and PATH")?;
        let step = STEPS.iter().find(|step| step.name == name).ok_or("an unknown step")?;
        let path = directory.join(path);
        // What is made later is made by whom it is measured for.
        fs::create_dir_all(path.parent().unwrap_or(directory))?;
        let mut taken = Duration::ZERO;
        for _ in 0..step.times {
            if name == "create" {
                let _ = fs::remove_file(path.with_file_name("made"));
            }
            let start = Instant::now();
            (step.once)(&path).map_err(|error| format!("{name} {}: {error}", path.display()))?;
            taken += start.elapsed();
        }
        let _ = fs::remove_file(path.with_file_name("made"));
        println!("{}", taken.as_secs_f64() * 1e6 / f64::from(step.times));
    }
    Ok(())
}

/// Starts a process that runs the loops in `directory`.
fn start(ground: &Ground, directory: &Path, rules: Option<&Value>) -> Outcome<Worker> {
    let words = [env::current_exe()?.into(), WORKER.into(), directory.into()];
    Worker::start(&mut ground.command(directory, rules, &words)?)
}

fn measure_calls(ground: &Ground) -> Outcome<()> {
    let plain = json!({ "allowWrite": ["."] });
    let beside = json!({ "allowWrite": ["."], "denyWrite": [".env"] });
    let glob = json!({ "allowWrite": ["."], "denyWrite": [".env", ".git/hooks", "**/*.pem"] });
    let read = json!({ "allowWrite": ["."], "denyWrite": [".env"], "denyRead": [".env"] });
    let full = json!({
        "allowWrite": ["."], "denyWrite": [".env", ".git/hooks", "**/*.pem"],
        "denyRead": [".env", "~/.ssh"],
    });
    for (step, path, what, rules, budget) in [
        ("open to write", "granted/file", "granted tree", &plain, 5.0),
        ("open to write", "granted/file", "granted tree beside a denied file", &beside, 5.0),
        ("open to write", "file", "brokered directory", &beside, 20.0),
        ("open to write", "granted/file", "brokered by a glob", &glob, 20.0),
        ("create", "granted/file", "granted tree", &plain, 2.5),
        ("create", "granted/file", "granted tree beside a denied file", &beside, 2.5),
        ("create", "file", "brokered directory", &beside, 8.0),
        ("create", "later/file", "directory made later beside a denied file", &beside, 2.5),
        ("create", "granted/file", "brokered by a glob", &glob, 8.0),
        ("create, unlink", "file", "brokered directory", &beside, 8.0),
        ("open to read", "granted/file", "nothing denied for reading", &plain, 1.3),
        ("open to read", "granted/file", "nothing denied for reading, glob", &glob, 1.3),
        ("open to read", "granted/file", "something denied for reading", &read, 4.0),
        ("open to read", "file", "brokered, denied for reading", &read, 4.0),
        ("open to read", "granted/file", "the policy for programs", &full, 4.0),
    ] {
        let (one, two) = (ground.directory("none")?, ground.directory("ours")?);
        let mut workers = [start(ground, &one, None)?, start(ground, &two, Some(rules))?];
        let label = format!("{step}, {what}");
        match in_turn(CALL_ROUNDS, &mut workers, |worker| {
            Ok(worker.ask(&format!("{step}\t{path}"))?.trim_end().parse()?)
        }) {
            Ok(medians) => row(&label, medians[0], medians[1], budget),
            Err(error) => println!("  {label}: {error}"),
        }
    }
    println!();
    Ok(())
}

/// Under the policy that real work is tested with.
fn measure_programs(ground: &Ground) -> Outcome<()> {
    let rules = json!({
        "allowWrite": ["."], "denyWrite": [".env", ".git/hooks", "**/*.pem"],
        "denyRead": [".env", "~/.ssh"],
    });
    let setup = format!(
        "set -e; export GIT_CONFIG_GLOBAL=/dev/null; \
         git init -q .; git config user.name n; git config user.email e; printf '.env\\narchive\\ntmp\\ncrate\\nx\\n' > .gitignore; \
         for d in $(seq 100); do mkdir d$d; for f in $(seq 20); do echo $f > d$d/f$f; done; done; \
         git add -A; git commit -q -m first; mkdir archive archive/t crate crate/src; \
         for d in $(seq 50); do mkdir archive/t/d$d; for f in $(seq {}); do echo $f > archive/t/d$d/f$f; done; done; \
         tar -C archive -cf archive/t.tar t; \
         printf '[package]\\nname = \"made\"\\nedition = \"2024\"\\n[workspace]\\n' > crate/Cargo.toml; \
         printf 'fn main() {{ println!(\"built\"); }}\\n' > crate/src/main.rs",
        ARCHIVE_FILES / 50
    );
    let directories = [ground.directory("none")?, ground.directory("ours")?];
    for directory in &directories {
        let mut command =
            ground.command(directory, None, &["sh".into(), "-c".into(), setup.clone().into()])?;
        if !command.status()?.success() {
            return Err("the files for the programs cannot be made".into());
        }
    }
    // What goes before is not measured.
    for (label, before, words, budget) in [
        ("git status, 2 000 files", "true", "git status --short", 1.05),
        ("git status, index to refresh", "touch d*/f1", "git status --short", 1.05),
        (
            "cargo build",
            "rm -rf crate/target",
            "cargo build --offline -q --manifest-path crate/Cargo.toml",
            1.05,
        ),
        ("tar x, 5 000 files", "rm -rf x; mkdir x", "tar -C x -xf archive/t.tar", 1.5),
        ("rm -rf, 5 000 files", "[ -d x/t ] || tar -C x -xf archive/t.tar", "rm -rf x/t", 1.5),
    ] {
        let mut subjects = [(&directories[0], None), (&directories[1], Some(&rules))];
        let medians = in_turn(PROGRAM_ROUNDS, &mut subjects, |(directory, rules)| {
            let before = ["sh".into(), "-c".into(), before.into()];
            ground.command(directory, None, &before)?.status()?;
            let words: Vec<OsString> = words.split(' ').map(OsString::from).collect();
            let mut command = ground.command(directory, *rules, &words)?;
            command.stdout(Stdio::null());
            milliseconds_of(&mut command)
        });
        match medians {
            Ok(medians) => row(label, medians[0], medians[1], budget),
            Err(error) => println!("  {label}: {error}"),
        }
    }
    println!();
    Ok(())
}

/// A deny glob over a large tree costs a launch no more than any other rule.
fn measure_glob(ground: &Ground) -> Outcome<()> {
    let tree = ground.root.join("large");
    for number in 0..TREE_FILES / 100 {
        let directory = tree.join(format!("d{}/d{number}", number / 100));
        fs::create_dir_all(&directory)?;
        for name in 0..100 {
            File::create_new(directory.join(name.to_string()))?;
        }
    }
    let plain = json!({ "allowWrite": ["."] });
    let glob = json!({ "allowWrite": ["."], "denyWrite": ["**/*.pem"] });
    let read = json!({ "allowWrite": ["."], "denyRead": ["**/*.pem"] });
    let words = ["true".into()];
    let mut commands = [
        ground.command(&tree, None, &words)?,
        ground.command(&with_name(&tree, "plain")?, Some(&plain), &words)?,
        ground.command(&with_name(&tree, "glob")?, Some(&glob), &words)?,
        ground.command(&with_name(&tree, "read")?, Some(&read), &words)?,
    ];
    let medians = in_turn(LAUNCH_ROUNDS, &mut commands, |command| {
        command.current_dir(&tree);
        milliseconds_of(command)
    })?;
    let [none, plain, glob, read] = medians[..] else { return Err("four medians".into()) };
    println!("  {:<50}{none:>12.2}{plain:>12.2}", "nothing denied, 100 000 files");
    for (label, ours) in [("denyWrite **/*.pem", glob), ("denyRead **/*.pem", read)] {
        let added = ours - plain;
        let kept = judged(added < GLOB_BUDGET_MS);
        println!(
            "  {label:<50}{none:>12.2}{ours:>12.2}          (+{added:.2} ms, budget {GLOB_BUDGET_MS} ms: {kept})"
        );
    }
    Ok(())
}

/// A directory whose name is that of a policy file; the command is moved to the tree afterwards.
fn with_name(tree: &Path, name: &str) -> io::Result<PathBuf> {
    let directory = tree.with_file_name(format!("launch-{name}"));
    fs::create_dir_all(&directory)?;
    Ok(directory)
}

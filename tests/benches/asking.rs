//! What `--ask` costs calls that nobody is asked about: with nothing parked, and while 64 calls are.
//!
//! ```text
//! cargo build --release && cargo build --release -p landstrip
//! cargo bench -p tests --bench asking [-- DIRECTORY]
//! ```
//!
//! Samples of all four are taken in turn. Files are made in TMPDIR, beside one that is denied, so that the broker decides;
//! and where Landlock alone does, of which nothing is to be seen.

use serde_json::{Value, json};
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Instant;
use std::{env, thread};
use tests::bench::{Outcome, Worker, built_programs, finish, in_turn, machine, median};

const WORKER: &str = "--worker";
/// Samples of each figure, and calls of each. Odd: the median is one of them.
const ROUNDS: usize = 201;
const CALLS: usize = 101;
/// Calls that wait.
const PARKED: usize = 64;
/// What is measured: its name, and the file.
const FIGURES: [(&str, &str); 3] = [
    ("open to write, beside a denied file", "beside/file"),
    ("create and unlink, beside a denied file", "beside/new"),
    ("open to write, where Landlock decides", "granted/file"),
];

fn main() -> ExitCode {
    let arguments: Vec<OsString> = env::args_os().skip(1).collect();
    finish(match &arguments[..] {
        [first] if first == WORKER => work(),
        _ if arguments.iter().any(|argument| argument == "--bench") => measure(&arguments),
        // `cargo test --benches`: that it builds is all that a test can say.
        _ => Ok(()),
    })
}

/// A directory of our own.
struct Ground(PathBuf);

impl Drop for Ground {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Who makes the calls, and where the questions come out.
struct Subject {
    worker: Worker,
    _questions: Option<BufReader<UnixStream>>,
}

fn measure(arguments: &[OsString]) -> Outcome<()> {
    let programs = built_programs(arguments)?;
    let name = format!("landstrip-bench-asking-{}", std::process::id());
    let ground = Ground(env::temp_dir().canonicalize()?.join(name));
    for directory in ["", "work", "work/beside", "work/granted", "home", "tmp"] {
        fs::create_dir(ground.0.join(directory))?;
    }
    for file in ["work/beside/file", "work/beside/denied", "work/granted/file"] {
        fs::write(ground.0.join(file), "")?;
    }
    println!("programs: {}", programs.display());
    println!("medians of {ROUNDS} samples taken in turn; {}\n", machine()?);
    println!("{:44}{:>12}{:>10}{:>10}{:>12}", "µs", "no sandbox", "no --ask", "--ask", "64 parked");
    let mut subjects = [
        start(&ground.0, None, 0)?,
        start(&ground.0, Some((&programs, false)), 0)?,
        start(&ground.0, Some((&programs, true)), 0)?,
        start(&ground.0, Some((&programs, true)), PARKED)?,
    ];
    for (name, file) in FIGURES {
        let sample = |subject: &mut Subject| Ok(subject.worker.ask(file)?.trim().parse()?);
        let medians = in_turn(ROUNDS, &mut subjects, sample)?;
        let [none, without, with, parked] = medians[..] else { return Err("four figures".into()) };
        println!("{name:44}{none:12.2}{without:10.2}{with:10.2}{parked:12.2}");
    }
    Ok(())
}

/// Starts one, under landstrip if `programs` are given, which asks if that is told, and has so many calls wait.
fn start(ground: &Path, programs: Option<(&PathBuf, bool)>, parked: usize) -> Outcome<Subject> {
    let executable = env::current_exe()?;
    let mut questions = None;
    let mut command = Command::new(&executable);
    if let Some((programs, is_asked)) = programs {
        command = Command::new(programs.join("landstrip"));
        let rules =
            json!({ "filesystem": { "allowWrite": ["."], "denyWrite": ["beside/denied"] } });
        let policy = ground.join("policy.json");
        fs::write(&policy, rules.to_string())?;
        command.env_remove("LANDSTRIP_POLICY").arg("-p").arg(policy);
        if is_asked {
            let (ours, theirs) = UnixStream::pair()?;
            rustix::io::fcntl_setfd(&theirs, rustix::io::FdFlags::empty())?;
            command.arg("--ask").arg(theirs.as_raw_fd().to_string());
            questions = Some((BufReader::new(ours), theirs));
        }
        command.arg("--").arg(&executable);
    }
    // Beneath the caller's temporary directory nothing is asked about.
    command.env("HOME", ground.join("home")).env("TMPDIR", ground.join("tmp"));
    let mut worker = Worker::start(command.arg(WORKER).current_dir(ground.join("work")))?;
    // What has begun has inherited it; nobody else is to.
    let mut questions = questions.map(|(ours, _)| ours);
    worker.ask(&format!("park {parked}"))?;
    for _ in 0..parked {
        let mut line = String::new();
        questions.as_mut().ok_or("nobody is asked")?.read_line(&mut line)?;
        let line: Value = serde_json::from_str(&line)?;
        line["ask"].as_u64().ok_or("no question")?;
    }
    Ok(Subject { worker, _questions: questions })
}

/// Answers the name of each file with the microseconds that it takes.
fn work() -> Outcome<()> {
    for line in io::stdin().lines() {
        let line = line?;
        if let Some(count) = line.strip_prefix("park ") {
            for number in 0..count.parse()? {
                // It ends with the process.
                thread::spawn(move || File::create(format!("../home/{number}")));
            }
            println!();
            continue;
        }
        let path = Path::new(&line);
        let once = || match path.ends_with("new") {
            true => File::create_new(path).and_then(|_| fs::remove_file(path)),
            false => OpenOptions::new().write(true).open(path).map(drop),
        };
        let mut samples = Vec::with_capacity(CALLS);
        for _ in 0..CALLS {
            let start = Instant::now();
            once()?;
            samples.push(start.elapsed().as_secs_f64() * 1e6);
        }
        println!("{}", median(samples, f64::total_cmp));
    }
    Ok(())
}

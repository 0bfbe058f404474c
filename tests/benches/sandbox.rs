//! What the sandbox costs, each figure beside the same one without it.
//!
//! ```text
//! cargo build --release && cargo build --release -p landstrip
//! cargo bench -p tests --bench sandbox [-- DIRECTORY]
//! ```
//!
//! The programs measured are copies of those in DIRECTORY, by default of the release profile in the
//! target directory that this benchmark is built in: copies, as an installation has them, because the
//! page cache keeps what a linker wrote through a mapping in single pages, and each start of such a
//! program takes a fifth of a millisecond longer. It takes about half a minute and fails for no
//! figure: the budgets are printed beside what was found. Files are made in TMPDIR: on a busy disk
//! a TMPDIR on a tmpfs other than /dev/shm shows the sandbox's share better.
//!
//! No harness such as criterion: sandboxed and plain samples must alternate, so that what else the
//! machine does meets both alike, and one that measures closure after closure cannot do that.

#[path = "sandbox/sockets.rs"]
mod sockets;

use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, NetPort, Ruleset, RulesetAttr,
    RulesetCreatedAttr, Scope, path_beneath_rules,
};
use serde_json::json;
use std::ffi::{OsStr, OsString};
use std::fmt::Display;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::parent_id;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};
use std::{env, thread};
use tests::bench::{
    Outcome, Worker, built_programs, finish, in_turn, judged, machine, median, milliseconds_of,
};

/// Samples of each figure. Odd, so that the median is one of them.
const ROUNDS: usize = 201;
/// Starts of the sandbox whose memory is looked at.
const MEMORY_ROUNDS: usize = 5;
/// The first argument of a process that runs the loops.
const WORKER: &str = "--worker";
/// The first argument of one that enters the yardstick, a Landlock domain without landstrip.
const LANDLOCK_WORKER: &str = "--landlock-worker";

const LAUNCH_BUDGET_MS: f64 = 1.0;
const READ_BUDGET: f64 = 1.15;
const MEMORY_BUDGET_KIB: u64 = 4096;

fn main() -> ExitCode {
    let arguments: Vec<OsString> = env::args_os().skip(1).collect();
    let outcome = match arguments.first() {
        Some(first) if first == WORKER => Ground::of_worker(&arguments).and_then(|g| work(&g)),
        Some(first) if first == LANDLOCK_WORKER => {
            Ground::of_worker(&arguments).and_then(|g| restrict(&g).and_then(|()| work(&g)))
        }
        Some(first) if first == sockets::WORKER => sockets::work(&arguments),
        _ if arguments.iter().any(|argument| argument == "--bench") => measure(&arguments),
        // `cargo test --benches`: that it builds is all that a test can say.
        _ => Ok(()),
    };
    finish(outcome)
}

fn measure(arguments: &[OsString]) -> Outcome<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let scratch = Scratch::create()?;
    let programs = Programs::install(&built_programs(arguments)?, &scratch.0.join("bin"))?;
    let ground = Ground::create(&scratch.0, listener.local_addr()?.port())?;
    listener.set_nonblocking(true)?;

    println!("medians of {ROUNDS} samples taken in turn; {}\n", machine()?);
    measure_launch(&programs, &ground)?;
    let busy = measure_calls(&programs, &ground, &listener)?;
    sockets::measure(&programs, &ground)?;
    measure_memory(&programs, &ground, &busy)
}

/// The programs under test.
struct Programs {
    directory: PathBuf,
}

impl Programs {
    /// Copies the programs into `directory`, as an installation does.
    fn install(built: &Path, directory: &Path) -> Outcome<Self> {
        fs::create_dir(directory)?;
        for name in ["landstrip", "landstrip-broker"] {
            fs::copy(built.join(name), directory.join(name))?;
        }
        println!("programs: copies of those in {}", built.display());
        Ok(Self { directory: directory.to_owned() })
    }

    /// `words` under `policy`, or under the built-in one.
    fn sandboxed<S: AsRef<OsStr>>(
        &self,
        ground: &Ground,
        policy: Option<&Path>,
        words: &[S],
    ) -> Command {
        let mut command = Command::new(self.directory.join("landstrip"));
        // The caller's own policy is not to be measured.
        command.env_remove("LANDSTRIP_POLICY").env("XDG_CONFIG_HOME", &ground.root);
        if let Some(policy) = policy {
            command.arg("--policy").arg(policy);
        }
        command.arg("--").args(words).current_dir(&ground.work);
        command
    }

    /// How many of `pid` and its descendants are ours, and their memory.
    fn memory_below(&self, pid: u32) -> Outcome<(usize, Memory)> {
        let (mut count, mut sum) = (0, Memory::default());
        if fs::read_link(format!("/proc/{pid}/exe"))?.parent() == Some(&self.directory) {
            count += 1;
            sum = sum.plus(Memory::of(pid)?);
        }
        for task in fs::read_dir(format!("/proc/{pid}/task"))? {
            for child in fs::read_to_string(task?.path().join("children"))?.split_whitespace() {
                let (more, memory) = self.memory_below(child.parse()?)?;
                count += more;
                sum = sum.plus(memory);
            }
        }
        Ok((count, sum))
    }
}

/// The files and the port that all processes use, sandboxed or not.
struct Ground {
    root: PathBuf,
    work: PathBuf,
    file: PathBuf,
    made: PathBuf,
    port: u16,
}

impl Ground {
    fn at(root: PathBuf, port: u16) -> Self {
        let work = root.join("work");
        Self { file: work.join("src/file"), made: work.join("src/made"), work, root, port }
    }

    fn create(root: &Path, port: u16) -> io::Result<Self> {
        let ground = Self::at(root.to_owned(), port);
        fs::create_dir_all(ground.work.join("src"))?;
        fs::create_dir(ground.root.join("secret"))?;
        fs::write(&ground.file, "content")?;
        fs::write(ground.work.join(".env"), "protected")?;
        let network = json!({"httpProxyPort": port});
        let policy =
            json!({"filesystem": {"allowWrite": [ground.work]}, "network": network.clone()});
        let denials = json!({"filesystem": {
            "allowWrite": [ground.work],
            "denyWrite": [ground.work.join(".env")],
            "denyRead": [ground.root.join("secret")],
        }, "network": network});
        fs::write(ground.policy(), policy.to_string())?;
        fs::write(ground.policy_with_denials(), denials.to_string())?;
        Ok(ground)
    }

    /// From the arguments WORKER ROOT PORT.
    fn of_worker(arguments: &[OsString]) -> Outcome<Self> {
        let [_, root, port] = arguments else { return Err("a worker has two arguments".into()) };
        Ok(Self::at(root.into(), port.to_string_lossy().parse()?))
    }

    fn policy(&self) -> PathBuf {
        self.root.join("policy.json")
    }

    /// Denies reading something, so that openings for reading are watched too.
    fn policy_with_denials(&self) -> PathBuf {
        self.root.join("denials.json")
    }

    fn worker(&self, kind: &str) -> io::Result<[OsString; 4]> {
        let executable = env::current_exe()?.into();
        Ok([executable, kind.into(), self.root.clone().into(), self.port.to_string().into()])
    }
}

/// A directory that goes away with this.
struct Scratch(PathBuf);

impl Scratch {
    fn create() -> io::Result<Self> {
        let name = format!("landstrip-bench-{}", std::process::id());
        let path = env::temp_dir().canonicalize()?.join(name);
        fs::create_dir(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn heading(text: &str) {
    let columns = ["no sandbox", "Landlock", "landstrip", "/ none", "/ Landlock"];
    let [none, landlock, ours, to_none, to_landlock] = columns;
    println!("{text:<34}{none:>12}{landlock:>11}{ours:>11}{to_none:>9}{to_landlock:>12}");
}

fn row(label: &str, none: f64, landlock: Option<f64>, ours: f64, remark: impl Display) {
    let dash = || "-".to_owned();
    let to_landlock = landlock.map_or_else(dash, |landlock| format!("{:.2}", ours / landlock));
    let landlock = landlock.map_or_else(dash, |landlock| format!("{landlock:.2}"));
    let to_none = ours / none;
    println!(
        "  {label:<32}{none:>12.2}{landlock:>11}{ours:>11.2}{to_none:>9.2}{to_landlock:>12}  {remark}"
    );
}

fn measure_launch(programs: &Programs, ground: &Ground) -> Outcome<()> {
    let (policy, denials) = (ground.policy(), ground.policy_with_denials());
    let mut plain = Command::new("true");
    plain.current_dir(&ground.work);
    let mut commands = [
        plain,
        programs.sandboxed(ground, None, &["true"]),
        programs.sandboxed(ground, Some(&policy), &["true"]),
        programs.sandboxed(ground, Some(&denials), &["true"]),
    ];
    let medians = in_turn(ROUNDS, &mut commands, milliseconds_of)?;
    let none = medians[0];
    heading("launch of `true` (ms)");
    let labels = ["built-in policy", "policy", "policy with denials"];
    for (label, &ours) in labels.into_iter().zip(&medians[1..]) {
        let added = ours - none;
        let kept = judged(added < LAUNCH_BUDGET_MS);
        let remark = format!("+{added:.2} ms (budget {LAUNCH_BUDGET_MS} ms: {kept})");
        row(label, none, None, ours, remark);
    }
    println!();
    Ok(())
}

/// Something that commands do all the time.
struct Step {
    name: &'static str,
    /// How often it is done for one sample: for about a millisecond without a sandbox.
    times: u32,
    batch: fn(&Ground, u32) -> io::Result<Duration>,
}

const OPEN_TO_READ: &Step = &Step {
    name: "open to read, close",
    times: 500,
    batch: |ground, times| timed(times, || File::open(&ground.file).map(drop)),
};

const STEPS: &[&Step] = &[
    &Step {
        name: "getppid",
        times: 5000,
        batch: |_, times| {
            timed(times, || {
                let _ = parent_id();
                Ok(())
            })
        },
    },
    &Step {
        name: "stat",
        times: 1000,
        batch: |ground, times| timed(times, || fs::metadata(&ground.file).map(drop)),
    },
    OPEN_TO_READ,
    &Step {
        name: "open to write, close",
        times: 200,
        batch: |ground, times| {
            timed(times, || OpenOptions::new().write(true).open(&ground.file).map(drop))
        },
    },
    &Step {
        name: "create, unlink",
        times: 50,
        batch: |ground, times| {
            timed(times, || {
                File::create_new(&ground.made)?;
                fs::remove_file(&ground.made)
            })
        },
    },
    &Step {
        name: "chmod",
        times: 200,
        batch: |ground, times| {
            timed(times, || fs::set_permissions(&ground.file, Permissions::from_mode(0o640)))
        },
    },
    &Step {
        name: "connect to the proxy port, close",
        times: 30,
        batch: |ground, times| timed(times, || connect(ground.port)),
    },
    &Step { name: "pipe ping-pong of two threads", times: 100, batch: |_, times| ping_pong(times) },
    &Step {
        name: "fork, exec and wait for `true`",
        times: 3,
        batch: |_, times| {
            timed(times, || {
                let is_well = Command::new("true").status()?.success();
                if is_well { Ok(()) } else { Err(io::Error::other("`true` failed")) }
            })
        },
    },
];

fn timed(times: u32, mut step: impl FnMut() -> io::Result<()>) -> io::Result<Duration> {
    let start = Instant::now();
    for _ in 0..times {
        step()?;
    }
    Ok(start.elapsed())
}

fn connect(port: u16) -> io::Result<()> {
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    // Closed by a reset: thousands in TIME_WAIT would use up the ports.
    Ok(rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO))?)
}

fn ping_pong(times: u32) -> io::Result<Duration> {
    let (mut ping_from, mut ping_to) = io::pipe()?;
    let (mut pong_from, mut pong_to) = io::pipe()?;
    let echo = thread::spawn(move || {
        let mut byte = [0];
        while ping_from.read_exact(&mut byte).is_ok() {
            pong_to.write_all(&byte)?;
        }
        io::Result::Ok(())
    });
    let mut byte = [0];
    let taken = timed(times, || {
        ping_to.write_all(&byte)?;
        pong_from.read_exact(&mut byte)
    });
    drop(ping_to);
    echo.join().map_err(|_| io::Error::other("the echo panicked"))??;
    taken
}

/// Times the steps whose numbers are asked for on standard input, until its end.
fn work(ground: &Ground) -> Outcome<()> {
    for line in io::stdin().lines() {
        let name = line?;
        let step = STEPS.iter().find(|step| step.name == name).ok_or("an unknown step")?;
        let taken = (step.batch)(ground, step.times).map_err(|e| format!("{name}: {e}"))?;
        println!("{}", taken.as_secs_f64());
    }
    Ok(())
}

/// Enters a Landlock domain with the rules of the policy without denials, and nothing else of it.
fn restrict(ground: &Ground) -> Outcome<()> {
    let abi = ABI::V6;
    let devices =
        ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"];
    let write = AccessFs::from_write(abi);
    Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(abi))?
        .handle_access(AccessNet::from_all(abi))?
        .scope(Scope::Signal | Scope::AbstractUnixSocket)?
        .create()?
        .add_rules(path_beneath_rules(["/"], AccessFs::from_read(abi)))?
        .add_rules(path_beneath_rules([&ground.work], write))?
        .add_rules(path_beneath_rules(devices, AccessFs::from_file(abi)))?
        .add_rule(NetPort::new(ground.port, AccessNet::ConnectTcp))?
        .restrict_self()?;
    Ok(())
}

/// One sample, in microseconds a time.
fn sample(worker: &mut Worker, step: &Step) -> Outcome<f64> {
    let seconds: f64 = worker.ask(step.name)?.trim_end().parse()?;
    Ok(seconds * 1e6 / f64::from(step.times))
}

/// Returns what the broker took after all that.
fn measure_calls(
    programs: &Programs,
    ground: &Ground,
    listener: &TcpListener,
) -> Outcome<(usize, Memory)> {
    let words = ground.worker(WORKER)?;
    let start = |words: &[OsString]| Worker::start(Command::new(&words[0]).args(&words[1..]));
    let sandboxed =
        |policy: &Path| Worker::start(&mut programs.sandboxed(ground, Some(policy), &words));
    let none = start(&words)?;
    let landlock = start(&ground.worker(LANDLOCK_WORKER)?)?;
    let mut workers = [none, landlock, sandboxed(&ground.policy())?];

    heading("inside (µs each)");
    let measure = |workers: &mut [Worker; 3], step: &Step, label: &str| -> Outcome<()> {
        let medians = in_turn(ROUNDS, workers, |worker| {
            let sample = sample(worker, step);
            // Only now: a thread that accepts would take turns with the worker on the processor.
            while listener.accept().is_ok() {}
            sample
        })?;
        let [none, landlock, ours] = [medians[0], medians[1], medians[2]];
        let remark = if std::ptr::eq(step, OPEN_TO_READ) {
            format!("(budget {READ_BUDGET}: {})", judged(ours / landlock <= READ_BUDGET))
        } else {
            String::new()
        };
        row(label, none, Some(landlock), ours, remark);
        Ok(())
    };
    for step in STEPS {
        measure(&mut workers, step, step.name)?;
    }
    let busy = programs.memory_below(workers[2].process.id())?;
    workers[2] = sandboxed(&ground.policy_with_denials())?;
    measure(&mut workers, OPEN_TO_READ, "open to read, with a denyRead")?;
    println!();
    Ok(busy)
}

/// Memory in KiB.
#[derive(Clone, Copy, Default)]
struct Memory {
    /// VmRSS: what it shares with others is counted in full.
    resident: u64,
    /// Its part of what it shares, and its own.
    proportional: u64,
    /// Its own.
    private: u64,
}

impl Memory {
    fn of(pid: u32) -> Outcome<Self> {
        let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
        let maps = fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))?;
        let field = |text: &str, name: &str| -> Outcome<u64> {
            let value = text.lines().find_map(|line| line.strip_prefix(name));
            let value = value.ok_or_else(|| format!("no {name} for process {pid}"))?;
            Ok(value.trim_matches([':', ' ', '\t', 'k', 'B']).parse()?)
        };
        Ok(Self {
            resident: field(&status, "VmRSS")?,
            proportional: field(&maps, "Pss:")?,
            private: field(&maps, "Private_Clean")? + field(&maps, "Private_Dirty")?,
        })
    }

    fn plus(self, other: Self) -> Self {
        Self {
            resident: self.resident + other.resident,
            proportional: self.proportional + other.proportional,
            private: self.private + other.private,
        }
    }
}

fn measure_memory(programs: &Programs, ground: &Ground, busy: &(usize, Memory)) -> Outcome<()> {
    let text = "memory of all our processes (KiB)";
    println!("{text:<34}{:>12}{:>11}{:>11}{:>9}", "processes", "VmRSS", "Pss", "private");
    let report = |label: &str, processes: usize, memory: Memory| {
        let Memory { resident, proportional, private } = memory;
        let kept = judged(resident <= MEMORY_BUDGET_KIB);
        println!(
            "  {label:<32}{processes:>12}{resident:>11}{proportional:>11}{private:>9}  \
             (budget {MEMORY_BUDGET_KIB}: {kept})"
        );
    };
    let policies = [ground.policy(), ground.policy_with_denials()];
    let rows = [
        ("built-in policy", None),
        ("policy", Some(&policies[0])),
        ("policy with denials", Some(&policies[1])),
    ];
    for (label, policy) in rows {
        let mut found = Vec::new();
        for _ in 0..MEMORY_ROUNDS {
            // It waits for input; its echo says that it runs.
            let policy = policy.map(PathBuf::as_path);
            let mut cat = Worker::start(&mut programs.sandboxed(ground, policy, &["cat"]))?;
            cat.ask("are you there?")?;
            found.push(programs.memory_below(cat.process.id())?);
        }
        let (processes, memory) = median(found, |a, b| a.1.resident.cmp(&b.1.resident));
        report(label, processes, memory);
    }
    report("after the loops above", busy.0, busy.1);
    Ok(())
}

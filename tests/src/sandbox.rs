//! One sandbox: its world, its policy, and the commands run in it or beside it.

use crate::ESCAPED;
use crate::outcome::Outcome;
use crate::programs::programs;
use crate::questions::Questions;
use crate::user::User;
use crate::world::World;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Map, Value, json};
use std::ffi::OsString;
use std::fs;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

/// How long a command may take before it is killed and the test fails.
const TIMEOUT: Duration = Duration::from_secs(120);
/// How long its output may stay open after it ended.
const OUTPUT_TIMEOUT: Duration = Duration::from_secs(60);

/// A policy, a world, and a user; a builder that can run commands at any time.
#[derive(Debug)]
pub struct Sandbox {
    world: World,
    user: User,
    filesystem: Map<String, Value>,
    network: Map<String, Value>,
    text: Option<String>,
    no_policy: bool,
    options: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    input: Vec<u8>,
    trap: bool,
    timeout: Duration,
}

impl Default for Sandbox {
    fn default() -> Self {
        Self::new()
    }
}

impl Sandbox {
    /// A sandbox of the caller, with an empty policy: read everything, write nothing, no network.
    pub fn new() -> Self {
        Self::of(User::Caller)
    }

    /// A sandbox of an unprivileged user: nobody if the tests run as root, else the caller.
    pub fn unprivileged() -> Self {
        let root = rustix::process::geteuid().is_root();
        Self::of(if root { User::Nobody } else { User::Caller })
    }

    /// A sandbox of `user`.
    pub fn of(user: User) -> Self {
        Self::with(World::new(user), user)
    }

    /// A sandbox of `user` in a world that stands in `base`.
    pub fn beneath(base: impl AsRef<Path>, user: User) -> Self {
        Self::with(World::beneath(base.as_ref(), user), user)
    }

    fn with(world: World, user: User) -> Self {
        Self {
            world,
            user,
            filesystem: Map::new(),
            network: Map::new(),
            text: None,
            no_policy: false,
            options: Vec::new(),
            env: Vec::new(),
            input: Vec::new(),
            trap: false,
            timeout: TIMEOUT * crate::slowness(),
        }
    }

    fn rule(mut self, key: &str, value: impl AsRef<Path>) -> Self {
        let text = value.as_ref().to_str().expect("policy paths are text");
        let list = self.filesystem.entry(key).or_insert_with(|| json!([]));
        list.as_array_mut().expect("a list").push(json!(text));
        self
    }

    fn network(mut self, key: &str, value: Value) -> Self {
        self.network.insert(key.to_owned(), value);
        self
    }

    /// filesystem.allowWrite; relative paths start in `work`.
    pub fn allow_write(self, path: impl AsRef<Path>) -> Self {
        self.rule("allowWrite", path)
    }

    /// filesystem.denyWrite.
    pub fn deny_write(self, path: impl AsRef<Path>) -> Self {
        self.rule("denyWrite", path)
    }

    /// filesystem.allowWriteInside.
    pub fn allow_write_inside(self, path: impl AsRef<Path>) -> Self {
        self.rule("allowWriteInside", path)
    }

    /// filesystem.denyRead.
    pub fn deny_read(self, path: impl AsRef<Path>) -> Self {
        self.rule("denyRead", path)
    }

    /// filesystem.allowRead.
    pub fn allow_read(self, path: impl AsRef<Path>) -> Self {
        self.rule("allowRead", path)
    }

    /// network.allowNetwork.
    pub fn allow_network(self) -> Self {
        self.network("allowNetwork", json!(true))
    }

    /// network.httpProxyPort.
    pub fn http_proxy_port(self, port: u16) -> Self {
        self.network("httpProxyPort", json!(port))
    }

    /// network.socksProxyPort.
    pub fn socks_proxy_port(self, port: u16) -> Self {
        self.network("socksProxyPort", json!(port))
    }

    /// network.allowLocalBinding.
    pub fn allow_local_binding(self) -> Self {
        self.network("allowLocalBinding", json!(true))
    }

    /// network.allowUnixSockets; relative paths start in `work`.
    pub fn allow_unix_socket(mut self, path: impl AsRef<Path>) -> Self {
        let text = path.as_ref().to_str().expect("policy paths are text");
        let list = self.network.entry("allowUnixSockets").or_insert_with(|| json!([]));
        list.as_array_mut().expect("a list").push(json!(text));
        self
    }

    /// network.allowedDomains.
    pub fn allow_domains<const N: usize>(self, domains: [&str; N]) -> Self {
        self.network("allowedDomains", json!(domains.as_slice()))
    }

    /// network.deniedDomains.
    pub fn deny_domains<const N: usize>(self, domains: [&str; N]) -> Self {
        self.network("deniedDomains", json!(domains.as_slice()))
    }

    /// network.allowAllUnixSockets.
    pub fn allow_all_unix_sockets(self) -> Self {
        self.network("allowAllUnixSockets", json!(true))
    }

    /// The policy file's text, in place of one made from rules.
    pub fn policy_json(mut self, text: impl Into<String>) -> Self {
        self.text = Some(text.into());
        self
    }

    /// Passes no -p.
    pub fn without_policy(mut self) -> Self {
        self.no_policy = true;
        self
    }

    /// Adds options before `--`.
    pub fn options<const N: usize>(mut self, options: [&str; N]) -> Self {
        self.options.extend(options.iter().map(OsString::from));
        self
    }

    /// Sets a variable for the launcher and so for the command.
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// What the command reads on standard input.
    pub fn input(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.input = bytes.into();
        self
    }

    /// Collects denials through --trap-fd into [`Outcome::traps`].
    pub fn trap(mut self) -> Self {
        self.trap = true;
        self
    }

    /// Another time limit than two minutes.
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.timeout = limit * crate::slowness();
        self
    }

    /// The user that the commands run as.
    pub fn user(&self) -> User {
        self.user
    }

    /// An absolute path below the world: `work/…`, `outside/…`, `home/…`.
    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.world.path(name)
    }

    /// The same as text, for command lines.
    pub fn name(&self, name: impl AsRef<Path>) -> String {
        self.path(name).into_os_string().into_string().expect("the world's path is text")
    }

    /// Writes a file of the user below the world.
    pub fn file(&self, name: impl AsRef<Path>, content: impl AsRef<[u8]>) -> PathBuf {
        self.world.file(name, content)
    }

    /// Writes a program or a script of the user below the world.
    pub fn program(&self, name: impl AsRef<Path>, content: impl AsRef<[u8]>) -> PathBuf {
        self.world.program(name, content)
    }

    /// Makes a directory of the user below the world.
    pub fn dir(&self, name: impl AsRef<Path>) -> PathBuf {
        self.world.dir(name)
    }

    /// The content of a file below the world; empty if it does not exist.
    pub fn read(&self, name: impl AsRef<Path>) -> String {
        let bytes = fs::read(self.path(name)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Runs a command in the sandbox until it ends.
    pub fn run<S: Into<OsString>>(&self, command: impl IntoIterator<Item = S>) -> Outcome {
        self.spawn(command).wait()
    }

    /// Runs the same command, user, environment and working directory without the sandbox.
    pub fn run_outside<S: Into<OsString>>(&self, command: impl IntoIterator<Item = S>) -> Outcome {
        self.start(command.into_iter().map(Into::into).collect()).wait()
    }

    /// Starts a command without the sandbox.
    pub fn spawn_outside<S: Into<OsString>>(
        &self,
        command: impl IntoIterator<Item = S>,
    ) -> Running {
        self.start(command.into_iter().map(Into::into).collect())
    }

    /// Runs a shell script in the sandbox.
    pub fn sh(&self, script: &str) -> Outcome {
        self.run(["sh", "-c", script])
    }

    /// Starts a script that goes on when [`Sandbox::resume`] lets it.
    pub fn paused(&self, script: &str) -> Running {
        let script =
            format!("echo ready; until [ -e ../outside/go ]; do sleep 0.01; done; {script}");
        let mut running = self.spawn(["sh", "-c", &script]);
        running.expect("ready");
        running
    }

    /// Has it go on, and waits for its end.
    pub fn resume(&self, running: Running) -> Outcome {
        self.file("outside/go", "");
        running.wait()
    }

    /// Runs a shell script outside.
    pub fn sh_outside(&self, script: &str) -> Outcome {
        self.run_outside(["sh", "-c", script])
    }

    /// Runs the probe in the sandbox; `attack` is split at blanks.
    pub fn probe(&self, attack: impl AsRef<str>) -> Outcome {
        self.run(Self::probe_words(attack.as_ref()))
    }

    /// Runs the probe outside.
    pub fn probe_outside(&self, attack: impl AsRef<str>) -> Outcome {
        self.run_outside(Self::probe_words(attack.as_ref()))
    }

    /// The probe's command line.
    pub fn probe_words(attack: &str) -> Vec<OsString> {
        let mut words = vec![programs().probe().into_os_string()];
        words.extend(attack.split_whitespace().map(OsString::from));
        words
    }

    /// Starts a command in the sandbox.
    pub fn spawn<S: Into<OsString>>(&self, command: impl IntoIterator<Item = S>) -> Running {
        let mut words = self.command_line();
        words.push("--".into());
        words.extend(command.into_iter().map(Into::into));
        self.start(words)
    }

    /// Starts a command in the sandbox whose questions the test answers.
    pub fn ask<S: Into<OsString>>(
        &self,
        command: impl IntoIterator<Item = S>,
    ) -> (Running, Questions) {
        self.ask_behind([], command)
    }

    /// The same, started by `prefix`.
    pub fn ask_behind<S: Into<OsString>, const N: usize>(
        &self,
        prefix: [&str; N],
        command: impl IntoIterator<Item = S>,
    ) -> (Running, Questions) {
        let (ours, theirs) = UnixStream::pair().expect("a pair of sockets");
        let script = r#"exec 9<&0 0</dev/null; exec "$@""#;
        let mut words: Vec<OsString> = vec!["sh".into(), "-c".into(), script.into(), "sh".into()];
        words.extend(prefix.map(OsString::from));
        words.extend(self.command_line());
        words.extend(["--ask".into(), "9".into(), "--".into()]);
        words.extend(command.into_iter().map(Into::into));
        (self.start_with(words, Some(theirs.into())), Questions::over(ours))
    }

    /// Runs the launcher with nothing but these arguments.
    pub fn landstrip<S: Into<OsString>>(&self, args: impl IntoIterator<Item = S>) -> Outcome {
        let mut words = vec![programs().landstrip().into_os_string()];
        words.extend(args.into_iter().map(Into::into));
        self.start(words).wait()
    }

    /// Writes the policy, outside every directory that is writable by default, and returns the
    /// launcher with its options.
    pub fn command_line(&self) -> Vec<OsString> {
        let mut words = vec![programs().landstrip().into_os_string()];
        if !self.no_policy {
            let built = json!({ "filesystem": self.filesystem, "network": self.network });
            let text = self.text.clone().unwrap_or_else(|| built.to_string());
            words.extend(["-p".into(), self.file("policy.json", text).into_os_string()]);
        }
        if self.trap {
            words.extend(["--trap-fd".into(), "3".into()]);
        }
        words.extend(self.options.iter().cloned());
        words
    }

    /// Starts a command line as the user, in `work`, with a clean environment.
    fn start(&self, words: Vec<OsString>) -> Running {
        self.start_with(words, None)
    }

    /// The same with another standard input than what it reads.
    fn start_with(&self, words: Vec<OsString>, stdin: Option<OwnedFd>) -> Running {
        let text = words.iter().map(|w| w.to_string_lossy()).collect::<Vec<_>>().join(" ");
        let mut command = self.command(words);
        command.stdin(stdin.map_or_else(Stdio::piped, Stdio::from));
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.process_group(0);
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{text}: {error}"));
        drop(command);
        if let Some(mut stdin) = child.stdin.take() {
            let input = self.input.clone();
            // A thread, since the command need not read it all.
            std::thread::spawn(move || stdin.write_all(&input));
        }
        let stdout = Stream::read(child.stdout.take().expect("piped"));
        let stderr = Stream::read(child.stderr.take().expect("piped"));
        let trap = self.trap.then(|| self.path("trap"));
        Running { child, text, stdout, stderr, trap, timeout: self.timeout, ended: None }
    }

    /// The process to start for a command line; a shell opens the trap descriptor and becomes it.
    pub fn command(&self, mut words: Vec<OsString>) -> Command {
        if self.trap {
            let script = r#"exec 3>"$0"; exec "$@""#;
            let trap = self.path("trap").into_os_string();
            words.splice(0..0, ["sh".into(), "-c".into(), script.into(), trap]);
        }
        words.splice(0..0, default_signals().iter().map(OsString::from));
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).current_dir(self.path("work")).env_clear();
        command.env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
        command.env("HOME", self.path("home")).env("LANG", "C.UTF-8");
        if let Some(shortcut) = std::env::var_os("LANDSTRIP_WITHOUT") {
            command.env("LANDSTRIP_WITHOUT", shortcut);
        }
        command.envs(self.env.iter().cloned());
        self.user.enter(&mut command);
        command
    }
}

/// What to put before a command line so that the command heeds all signals, however the tests were
/// started: nohup and a shell's `&` have them ignore some, and children inherit that.
fn default_signals() -> &'static [&'static str] {
    static WORDS: OnceLock<&[&str]> = OnceLock::new();
    WORDS.get_or_init(|| {
        let status = fs::read_to_string("/proc/self/status").expect("the own status");
        let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:\t"));
        let ignored = u64::from_str_radix(ignored.expect("SigIgn"), 16).expect("a mask");
        // SIGPIPE is ignored by every program in Rust, whose commands start without that.
        let pipe = 1 << (Signal::SIGPIPE as u64 - 1);
        if ignored & !pipe == 0 { &[] } else { &["env", "--default-signal"] }
    })
}

/// A stream that a thread reads as it comes.
#[derive(Debug)]
struct Stream {
    bytes: Arc<Mutex<Vec<u8>>>,
    thread: std::thread::JoinHandle<()>,
}

impl Stream {
    fn read(mut from: impl Read + Send + 'static) -> Self {
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let shared = Arc::clone(&bytes);
        let thread = std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(size @ 1..) = from.read(&mut buffer) {
                shared.lock().expect("stream").extend_from_slice(&buffer[..size]);
            }
        });
        Self { bytes, thread }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes.lock().expect("stream")).into_owned()
    }
}

/// A command that was started; killed when dropped.
#[derive(Debug)]
pub struct Running {
    child: Child,
    text: String,
    stdout: Stream,
    stderr: Stream,
    trap: Option<PathBuf>,
    timeout: Duration,
    ended: Option<ExitStatus>,
}

impl Running {
    /// Whether landstrip has not ended.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// The process that the caller sees: the broker, or the command when run outside.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal to that process alone.
    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id().cast_signed()), signal).expect("signal to landstrip");
    }

    /// The same by a name or number, for those that the C library keeps for itself.
    pub fn signal_named(&self, name: &str) {
        let kill = format!("kill -{name} {}", self.child.id());
        let status = std::process::Command::new("sh").args(["-c", &kill]).status();
        assert!(status.is_ok_and(|status| status.success()), "{kill}");
    }

    /// What the command has written to standard output so far.
    pub fn stdout(&self) -> String {
        self.stdout.text()
    }

    /// Waits until standard output contains `text`.
    #[track_caller]
    pub fn expect(&mut self, text: &str) {
        let seen = crate::eventually(|| self.stdout().contains(text));
        assert!(seen, "{text:?} not seen: {self:#?}");
    }

    /// Waits for the end.
    ///
    /// # Panics
    ///
    /// If that takes longer than the time limit, or something keeps the output open afterwards.
    #[track_caller]
    pub fn wait(mut self) -> Outcome {
        let end = Instant::now() + self.timeout;
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("wait") {
                break status;
            }
            if Instant::now() > end {
                self.kill();
                panic!("not ended after {:?}: {self:#?}", self.timeout);
            }
            std::thread::sleep(Duration::from_millis(1));
        };
        self.ended = Some(status);
        let end = Instant::now() + OUTPUT_TIMEOUT * crate::slowness();
        while !(self.stdout.thread.is_finished() && self.stderr.thread.is_finished()) {
            assert!(Instant::now() < end, "{ESCAPED}a process outlived the command: {self:#?}");
            std::thread::sleep(Duration::from_millis(1));
        }
        let stderr = self.stderr.text();
        let traps = self.trap.as_ref().map(|path| fs::read_to_string(path).unwrap_or_default());
        let traps = traps.map_or_else(Vec::new, |text| Outcome::json_lines(&text));
        let is_ending = |trap: &Value| {
            ["Advice", "DeniedBy", "Exit"].iter().any(|kind| trap.get(kind).is_some())
        };
        let (endings, traps) = traps.into_iter().partition(is_ending);
        Outcome {
            command: self.text.clone(),
            status: status.code(),
            signal: status.signal(),
            stdout: self.stdout.text(),
            reports: Outcome::json_lines(&stderr),
            traps,
            endings,
            stderr,
        }
    }

    fn kill(&mut self) {
        let group = Pid::from_raw(-self.child.id().cast_signed());
        let _ = kill(group, Signal::SIGKILL);
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.ended.is_none() {
            self.kill();
        }
    }
}

/// A text as one word of the shell's.
pub fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

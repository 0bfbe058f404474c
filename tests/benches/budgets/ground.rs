//! Where it is measured: trees of files in a directory of one user's own, and the ways to run a command there.

#![allow(unsafe_code)] // for wait4(2), which no library here has

use super::floor::Floor;
use super::{command_of, is_installed};
use serde_json::Value;
use std::env;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;
use tests::bench::Outcome;

/// The ordinary user of measurements that root makes.
pub(crate) const NOBODY: u32 = 65_534;

/// Whose measurements they are.
#[derive(Clone, Copy, Debug)]
pub(crate) enum User {
    Caller,
    Nobody(u32),
}

/// A directory of our own, which goes away with this.
pub(crate) struct Ground {
    pub(crate) root: PathBuf,
    work: PathBuf,
    programs: PathBuf,
    user: User,
}

impl Drop for Ground {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.root);
    }
}

/// Makes what is measured, in the working directory.
const SETUP: &str = "set -e
mkdir -p tree granted tmp .git/hooks
echo content > granted/file; echo secret > .env
for d in $(seq 30); do mkdir tree/d$d; for f in $(seq 100); do echo content $f > tree/d$d/f$f; done; done
echo needle > tree/d1/f1; tar -cf tree.tar tree
if command -v git; then
  export GIT_CONFIG_GLOBAL=/dev/null
  git init -q repository
  for d in $(seq 100); do mkdir repository/d$d; for f in $(seq 100); do echo $f > repository/d$d/f$f; done; done
  git -C repository add -A; git -C repository -c user.name=n -c user.email=e commit -q -m first
fi
mkdir -p crate/src
printf '[package]\\nname = \"made\"\\nedition = \"2021\"\\n[workspace]\\n' > crate/Cargo.toml
printf 'fn main() { println!(\"built\"); }\\n' > crate/src/main.rs
if command -v npm; then
  mkdir npm packages; names=
  for p in $(seq 50); do
    mkdir -p package/lib; echo \"{\\\"name\\\":\\\"p$p\\\",\\\"version\\\":\\\"1.0.0\\\"}\" > package/package.json
    for f in $(seq 40); do echo \"exports.n = $f\" > package/lib/$f.js; done
    tar -czf packages/p$p.tgz package; rm -r package; names=\"$names ../packages/p$p.tgz\"
  done
  echo '{\"name\":\"made\",\"version\":\"1.0.0\"}' > npm/package.json
  (cd npm; npm install --offline --no-audit --no-fund $names)
fi";

impl Ground {
    pub(crate) fn create(programs: &Path, user: User) -> Outcome<Self> {
        let who = if let User::Nobody(_) = user { "-nobody" } else { "" };
        let name = format!("landstrip-budgets-{}{who}", std::process::id());
        let root = env::temp_dir().canonicalize()?.join(name);
        let ground = Self { work: root.join("work"), programs: root.join("programs"), root, user };
        for directory in [&ground.root, &ground.work, &ground.programs, &ground.home().join(".ssh")]
        {
            fs::create_dir_all(directory)?;
            fs::set_permissions(directory, fs::Permissions::from_mode(0o755))?;
        }
        // Copies, as an installation has them: a file with several names is judged by its identity.
        for name in ["landstrip", "landstrip-broker", "landstrip-proxy"] {
            fs::copy(programs.join(name), ground.programs.join(name))?;
        }
        fs::copy(env::current_exe()?, ground.programs.join("budgets"))?;
        if let User::Nobody(id) = user {
            for directory in [&ground.work, &ground.home(), &ground.home().join(".ssh")] {
                chown(directory, Some(id), Some(id))?;
            }
        }
        ground.prepare(SETUP)?;
        Ok(ground)
    }

    fn home(&self) -> PathBuf {
        self.root.join("home")
    }

    /// What the files lie on.
    pub(crate) fn kind(&self) -> &'static str {
        /// statfs(2)
        const TMPFS: rustix::fs::FsWord = 0x0102_1994;
        match rustix::fs::statfs(&self.root) {
            Ok(found) if found.f_type == TMPFS => "in memory",
            _ => "NOT IN MEMORY: the budgets are for a tmpfs (TMPDIR)",
        }
    }

    /// Whether `program` is there for this user.
    pub(crate) fn has(&self, program: &str) -> bool {
        is_installed(program, &env::var("PATH").unwrap_or_default())
    }

    fn as_user(&self, mut command: Command) -> Command {
        command.current_dir(&self.work).env("HOME", self.home());
        command.env("TMPDIR", self.work.join("tmp")).env("GIT_CONFIG_GLOBAL", "/dev/null");
        command.env_remove("LANDSTRIP_POLICY").env_remove("CARGO_TARGET_DIR");
        // What programs keep beside their work, they may write.
        command.env("CARGO_HOME", self.work.join("tmp"));
        command.env("npm_config_cache", self.work.join("tmp"));
        // The toolchain is the caller's, wherever it is.
        let home = env::var_os("HOME").unwrap_or_default();
        let rustup = env::var_os("RUSTUP_HOME");
        let rustup = rustup.map_or_else(|| Path::new(&home).join(".rustup"), PathBuf::from);
        command.env("RUSTUP_HOME", rustup);
        command.stdin(Stdio::null());
        if let User::Nobody(id) = self.user {
            // Which leaves it no other groups than this.
            command.uid(id).gid(id);
        }
        command
    }

    /// Runs a script as this user, which is not measured.
    pub(crate) fn prepare(&self, script: &str) -> Outcome<()> {
        let mut command = self.as_user(Command::new("sh"));
        let done = command.args(["-c", script]).stdout(Stdio::null()).output()?;
        match done.status.success() {
            true => Ok(()),
            false => Err(format!("not prepared: {}", String::from_utf8_lossy(&done.stderr)).into()),
        }
    }

    /// `words` without a sandbox.
    pub(crate) fn plain(&self, words: &[OsString]) -> Command {
        self.as_user(command_of(words))
    }

    /// The same under `policy`.
    pub(crate) fn sandboxed(
        &self,
        policy: &Value,
        options: &[&str],
        words: &[OsString],
    ) -> Outcome<Command> {
        let number = fs::read_dir(&self.root)?.count();
        let file = self.root.join(format!("policy-{number}.json"));
        fs::write(&file, policy.to_string())?;
        let mut command = self.as_user(Command::new(self.programs.join("landstrip")));
        command.args(options).arg("-p").arg(file).arg("--").args(words);
        Ok(command)
    }

    /// The same beside the supervisor of a floor.
    pub(crate) fn floored(&self, floor: Floor, words: &[OsString]) -> Outcome<Command> {
        let mut command = self.as_user(Command::new(self.programs.join("budgets")));
        command.arg("--floor").arg(floor.name()).args(words);
        Ok(command)
    }

    /// The same in bubblewrap, if that is there and can do it.
    pub(crate) fn wrapped(&self, rules: &Value, words: &[OsString]) -> Option<Command> {
        let list = |key: &str| rules[key].as_array().cloned().unwrap_or_default();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        if !self.has("bwrap") || list("denyRead").iter().any(|path| text(path).contains('*')) {
            return None;
        }
        let mut command = self.as_user(Command::new("bwrap"));
        command.args(["--unshare-net", "--unshare-ipc", "--ro-bind", "/", "/"]);
        // Without a PID namespace: of what runs in one, nobody outside is told the processor time.
        command.args(["--dev", "/dev", "--proc", "/proc", "--bind"]).args([&self.work, &self.work]);
        for path in list("denyWrite") {
            let path = self.work.join(text(&path));
            command.arg("--ro-bind").args([&path, &path]);
        }
        for path in list("denyRead") {
            match text(&path).strip_prefix("~/") {
                Some(inside) => command.arg("--tmpfs").arg(self.home().join(inside)),
                None => command.args(["--ro-bind", "/dev/null"]).arg(self.work.join(text(&path))),
            };
        }
        let mut trial = self.as_user(Command::new("bwrap"));
        trial.args(["--unshare-net", "--ro-bind", "/", "/", "true"]).stderr(Stdio::null());
        let works = trial.status().is_ok_and(|status| status.success());
        command.arg("--chdir").arg(&self.work).arg("--").args(words);
        works.then_some(command)
    }

    /// The process that makes single calls.
    pub(crate) fn worker(&self) -> Outcome<[OsString; 3]> {
        let words =
            [self.programs.join("budgets").into(), "--calls".into(), self.work.clone().into()];
        Ok(words)
    }

    /// Memory in MiB of those of `process` and its descendants that are landstrip's, shared pages by their share.
    pub(crate) fn memory_below(&self, process: u32) -> Outcome<f64> {
        let mut sum = 0.0;
        let program = fs::read_link(format!("/proc/{process}/exe"))?;
        let is_ours = program.parent() == Some(&self.programs) && !program.ends_with("budgets");
        if is_ours {
            let rollup = fs::read_to_string(format!("/proc/{process}/smaps_rollup"))?;
            let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:"));
            let kib = line.and_then(|line| line.split_whitespace().next()).ok_or("no Pss")?;
            sum += kib.parse::<f64>()? / 1024.0;
        }
        for task in fs::read_dir(format!("/proc/{process}/task"))? {
            for child in fs::read_to_string(task?.path().join("children"))?.split_whitespace() {
                sum += self.memory_below(child.parse()?)?;
            }
        }
        Ok(sum)
    }
}

/// Runs `command` to its end: milliseconds of processor time of all that it waited for, and of wall time.
pub(crate) fn time_of(command: &mut Command) -> Outcome<(f64, f64)> {
    let start = Instant::now();
    let child = command.spawn()?;
    let id = i32::try_from(child.id())?;
    let mut status = 0;
    // SAFETY: plain integers.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: writes an integer and one structure of this type.
    let waited = unsafe { libc::wait4(id, &raw mut status, 0, &raw mut usage) };
    let wall = start.elapsed().as_secs_f64() * 1e3;
    if waited != id {
        return Err(io::Error::last_os_error().into());
    }
    if status != 0 {
        return Err(format!("{command:?}: status {status:#x}").into());
    }
    let milliseconds = |time: libc::timeval| time.tv_sec as f64 * 1e3 + time.tv_usec as f64 / 1e3;
    Ok((milliseconds(usage.ru_utime) + milliseconds(usage.ru_stime), wall))
}

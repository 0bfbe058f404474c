//! An agent's surroundings: homes as people have them, a repository, larger trees, and the ways to run a command there.

use super::floor::Floor;
use std::env;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tests::bench::Outcome;

/// Whose home it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Home {
    /// 50 entries.
    Small,
    /// 300 entries, 60 in `.config` and 100 in `.cache`.
    Large,
}

/// How a command is run.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Way<'a> {
    Bare,
    /// Under the preset for agents.
    Preset,
    /// Under this policy.
    Policy(&'a str),
    BuiltIn,
    Floor(Floor),
    /// In bubblewrap, and whether `.env` is hidden there.
    Wrapped(bool),
}

impl Way<'_> {
    /// Whether a file inside of the tree is denied.
    pub(crate) fn hides_inside(self) -> bool {
        matches!(self, Self::Policy(policy) if policy.contains(".env"))
    }
}

/// A directory of our own, which goes away with this.
pub(crate) struct Ground {
    pub(crate) root: PathBuf,
    programs: PathBuf,
    wraps: bool,
}

impl Drop for Ground {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.root);
    }
}

/// What is denied in a home, directories and files, as far as it is there.
const SECRETS: [&str; 4] = [".ssh", ".aws", ".gnupg", ".config/gh"];
const SECRET_FILES: [&str; 3] = [".netrc", ".bash_history", ".git-credentials"];
/// What may not be written in the repository, as far as it is there.
const PROTECTED: [&str; 2] = [".git/config", ".git/hooks"];
/// What may be written in the home, as far as it is there.
const CACHES: [&str; 2] = [".npm", ".cache/pip"];

const SETUP: &str = "set -e
echo secret >.env
printf 'import unittest\\nclass T(unittest.TestCase):\\n    def test(self): self.assertEqual(1 + 1, 2)\\n' >test_sample.py
printf 'int main(void) { return 0; }\\n' >main.c
printf 'main: main.c\\n\\t$(CC) -o main main.c\\n' >Makefile
printf 'main\\n__pycache__\\n' >.gitignore
git init -q; git add -A; git -c user.name=n -c user.email=e commit -qm first
cp -r . ../copy; rm -rf ../copy/.git; tar -C .. -cf ../copy.tar copy";

impl Ground {
    pub(crate) fn create(programs: &Path) -> Outcome<Self> {
        let root = env::temp_dir().canonicalize()?;
        let root = root.join(format!("landstrip-agent-{}", std::process::id()));
        let mut ground = Self { programs: root.join("programs"), root, wraps: false };
        fs::create_dir_all(&ground.programs)?;
        // As a package manager writes them: the page cache has what was linked, or copied in the kernel, in smaller pieces,
        // with which a launch takes longer.
        let floor = (env::current_exe()?, "floor");
        let ours = ["landstrip", "landstrip-broker", "landstrip-proxy"];
        for (from, name) in ours.map(|name| (programs.join(name), name)).into_iter().chain([floor])
        {
            let program = ground.programs.join(name);
            fs::write(&program, fs::read(from)?)?;
            fs::set_permissions(program, fs::Permissions::from_mode(0o755))?;
        }
        for (home, entries, config, cache) in [(Home::Small, 50, 5, 5), (Home::Large, 300, 60, 100)]
        {
            furnish(&ground.home(home), entries, config, cache)?;
            files(&ground.work(home), 20)?;
            let done = ground.shell(home, SETUP).output()?;
            if !done.status.success() {
                return Err(String::from_utf8_lossy(&done.stderr).into());
            }
        }
        let mut trial = Command::new("bwrap");
        trial.args(["--unshare-all", "--ro-bind", "/", "/", "true"]).stderr(Stdio::null());
        ground.wraps = trial.status().is_ok_and(|status| status.success());
        Ok(ground)
    }

    fn home(&self, home: Home) -> PathBuf {
        self.root.join(match home {
            Home::Small => "small",
            Home::Large => "large",
        })
    }

    fn work(&self, home: Home) -> PathBuf {
        self.home(home).join("src/work")
    }

    /// Makes the larger trees that `script` looks through.
    pub(crate) fn fill(&self, script: &str) -> Outcome<()> {
        let beside = self.home(Home::Small).join("src");
        for (name, directories) in [("large", 200), ("larger", 1000)] {
            let tree = beside.join(name);
            if script.ends_with(&format!("/{name}")) && !tree.exists() {
                files(&tree, directories)?;
            }
        }
        Ok(())
    }

    /// Whether `program` is there.
    pub(crate) fn has(&self, program: &str) -> bool {
        let mut command = Command::new("sh");
        let found =
            command.args(["-c", "command -v \"$0\"", program]).stdout(Stdio::null()).status();
        found.is_ok_and(|status| status.success())
    }

    fn placed(&self, home: Home, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.work(home)).env("HOME", self.home(home));
        for name in
            ["LANDSTRIP_POLICY", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "TMPDIR", "CARGO_HOME"]
        {
            command.env_remove(name);
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    /// A script that is run without a sandbox.
    pub(crate) fn shell(&self, home: Home, script: &str) -> Box<Command> {
        let mut command = self.placed(home, "sh");
        command.args(["-c", script]).stderr(Stdio::piped());
        Box::new(command)
    }

    /// `script` in this way; none where there is no bubblewrap.
    pub(crate) fn command(
        &self,
        home: Home,
        way: Way<'_>,
        script: &str,
    ) -> Outcome<Option<Command>> {
        // As agents do it, but for what is one word.
        let words: &[&str] = if script.contains(' ') { &["sh", "-c", script] } else { &[script] };
        let program = |name: &str| self.placed(home, self.programs.join(name));
        let mut command = match way {
            Way::Bare => {
                let mut command = self.placed(home, words[0]);
                command.args(&words[1..]);
                return Ok(Some(command));
            }
            Way::Preset => program("landstrip"),
            Way::BuiltIn => program("landstrip"),
            Way::Policy(_) => program("landstrip"),
            Way::Floor(_) => program("floor"),
            Way::Wrapped(_) if !self.wraps => return Ok(None),
            Way::Wrapped(_) => self.placed(home, "bwrap"),
        };
        match way {
            Way::Preset => command.args(["-p", "agent", "--"]),
            Way::Policy(policy) => {
                let file = self.root.join(format!("policy-{}.json", policy.len()));
                fs::write(&file, policy)?;
                command.arg("-p").arg(file).arg("--")
            }
            Way::Floor(floor) => command.args(["--floor", floor.name()]),
            Way::Wrapped(hides_inside) => self.wrap(&mut command, home, hides_inside),
            Way::Bare | Way::BuiltIn => command.arg("--"),
        };
        command.args(words);
        Ok(Some(command))
    }

    /// The same protections, by mounts.
    fn wrap<'a>(
        &self,
        command: &'a mut Command,
        home: Home,
        hides_inside: bool,
    ) -> &'a mut Command {
        let (home, work) = (self.home(home), self.work(home));
        command.args([
            "--unshare-all",
            "--die-with-parent",
            "--new-session",
            "--ro-bind",
            "/",
            "/",
        ]);
        command.args(["--dev", "/dev", "--proc", "/proc", "--tmpfs", "/var/tmp"]);
        let bind = |command: &mut Command, how: &str, path: &Path| {
            command.arg(how).args([path, path]);
        };
        bind(command, "--bind", &work);
        CACHES.map(|name| home.join(name)).iter().for_each(|path| bind(command, "--bind", path));
        PROTECTED
            .map(|name| work.join(name))
            .iter()
            .for_each(|path| bind(command, "--ro-bind", path));
        for path in SECRETS.map(|name| home.join(name)) {
            command.arg("--tmpfs").arg(path);
        }
        let inside = hides_inside.then(|| work.join(".env"));
        for path in SECRET_FILES.map(|name| home.join(name)).into_iter().chain(inside) {
            command.args(["--ro-bind", "/dev/null"]).arg(path);
        }
        command.args(["--setenv", "TMPDIR", "/var/tmp", "--chdir"]).arg(work).arg("--")
    }
}

/// Fills a home.
fn furnish(home: &Path, entries: usize, config: usize, cache: usize) -> Outcome<()> {
    for name in SECRETS.iter().chain(&CACHES).chain(&["src"]) {
        fs::create_dir_all(home.join(name))?;
    }
    for name in SECRET_FILES.iter().chain(&[".bashrc", ".profile", ".gitconfig"]) {
        fs::write(home.join(name), "")?;
    }
    fs::write(home.join(".ssh/id_ed25519"), "secret")?;
    for (directory, wanted) in [(".", entries), (".config", config), (".cache", cache)] {
        let directory = home.join(directory);
        let there = fs::read_dir(&directory)?.count();
        for number in there..wanted {
            // As at home: directories and files, hidden and not.
            let name = format!("{}entry-{number}", if number % 2 == 0 { "." } else { "" });
            match number % 3 {
                0 => fs::write(directory.join(name), "")?,
                _ => fs::create_dir(directory.join(name))?,
            }
        }
    }
    Ok(())
}

/// Makes so many directories of 100 files.
fn files(tree: &Path, directories: usize) -> Outcome<()> {
    for number in 1..=directories {
        let directory = tree.join(format!("d{number}"));
        fs::create_dir_all(&directory)?;
        for file in 1..=100 {
            let text = format!("int f{number}_{file}(int a)\n{{\n\treturn a + {file};\n}}\n");
            fs::write(directory.join(format!("f{file}.c")), text.repeat(4))?;
        }
    }
    fs::write(tree.join("d1/needle.c"), "int needle;\n")?;
    Ok(())
}

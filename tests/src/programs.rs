//! The programs under test: built once a run, and copied where every user may run them.
//!
//! The target directory may lie in a home that other users cannot enter, hence the copy. The
//! broker and the proxy are found beside the launcher, so all of them go into one directory.
//! Where there is no Cargo, as in a container, LANDSTRIP_TEST_PROGRAMS says where they stand.

use crate::world::copy_program;
use std::fs::{self, DirBuilder, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// All programs of a build.
const NAMES: [&str; 4] = ["landstrip", "landstrip-broker", "landstrip-proxy", "probe"];

/// The variable that names the directory of programs that are installed already.
pub const INSTALLED: &str = "LANDSTRIP_TEST_PROGRAMS";

/// Where the programs stand.
#[derive(Debug)]
pub struct Programs {
    /// The directory that holds the three programs and the probe, readable by every user.
    pub dir: PathBuf,
}

impl Programs {
    /// The launcher.
    pub fn landstrip(&self) -> PathBuf {
        self.dir.join("landstrip")
    }

    /// The attacker.
    pub fn probe(&self) -> PathBuf {
        self.dir.join("probe")
    }
}

/// Builds and installs the programs at the first call in a test executable.
///
/// # Panics
///
/// If they cannot be built: a test never passes because its subject is missing.
pub fn programs() -> &'static Programs {
    static PROGRAMS: OnceLock<Programs> = OnceLock::new();
    PROGRAMS.get_or_init(|| {
        if let Some(dir) = std::env::var_os(INSTALLED).map(PathBuf::from) {
            assert_complete(&dir);
            return Programs { dir };
        }
        let built = build();
        let mut hash = DefaultHasher::new();
        built.hash(&mut hash);
        let uid = rustix::process::geteuid().as_raw();
        let dir = std::env::temp_dir().join(format!("landstrip-bin-{uid}-{:x}", hash.finish()));
        install(&built, &dir);
        Programs { dir }
    })
}

/// TARGET/TRIPLE/PROFILE, the directory of the running test's build; the test stands in deps/.
fn profile_directory() -> PathBuf {
    let test = std::env::current_exe().expect("path of the test executable");
    test.ancestors().nth(2).expect("test executable in a target directory").to_owned()
}

/// A command of Cargo with the profile and target directory of the running test.
fn cargo(subcommand: &str, built: &Path) -> Command {
    let target = built.ancestors().nth(2).expect("target directory above the triple");
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("workspace directory");
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(workspace).args([subcommand, "--quiet", "--target-dir"]).arg(target);
    if built.file_name().is_some_and(|name| name == "release") {
        command.arg("--release");
    }
    command
}

/// Runs `cargo build` and returns the directory of its programs.
fn build() -> PathBuf {
    let built = profile_directory();
    // The launcher by itself: Cargo unifies features over what it builds at once, and it would get
    // the standard library of the others' dependencies.
    let others = ["landstrip-broker", "landstrip-proxy", "tests"];
    for packages in [&["landstrip"][..], &others] {
        let mut command = cargo("build", &built);
        command.arg("--bins").args(packages.iter().flat_map(|package| ["-p", package]));
        let status = command.status().expect("cargo starts");
        assert!(status.success(), "the programs under test do not build: {command:?}");
    }
    assert_complete(&built);
    built
}

fn assert_complete(dir: &Path) {
    for name in NAMES {
        let program = dir.join(name);
        assert!(program.exists(), "there is no {}", program.display());
    }
}

fn install(built: &Path, dir: &Path) {
    let made = DirBuilder::new().recursive(true).mode(0o755).create(dir);
    made.expect("directory for the programs");
    let owner = fs::symlink_metadata(dir).expect("directory for the programs").uid();
    let uid = rustix::process::geteuid().as_raw();
    assert_eq!(owner, uid, "{} belongs to someone else", dir.display());
    let lock = File::create(dir.join(".lock")).expect("lock file");
    lock.lock().expect("lock on the programs");
    for name in NAMES {
        let (from, to) = (built.join(name), dir.join(name));
        let stamp = |path: &Path| fs::metadata(path).and_then(|m| Ok((m.len(), m.modified()?)));
        let wanted = stamp(&from).expect("a built program");
        if stamp(&to).is_ok_and(|present| present == wanted) {
            continue;
        }
        // Renamed into place: a copy that another test runs right now keeps its inode.
        let fresh = dir.join(format!(".{name}.new"));
        copy_program(&from, &fresh);
        let file = File::open(&fresh).expect("the copied program");
        file.set_modified(wanted.1).expect("time of a program");
        fs::rename(&fresh, &to).expect("installed program");
    }
}

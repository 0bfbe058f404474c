//! The files of one test: a directory of its own that is removed with it.
//!
//! `work` is the command's working directory, `outside` a place that it may not change, `home` its
//! home. The policy and the captured traps lie beside them.

use crate::user::User;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// A test's directory.
#[derive(Debug)]
pub struct World {
    root: PathBuf,
    user: User,
}

impl World {
    /// Makes a world whose directories belong to `user`.
    pub fn new(user: User) -> Self {
        Self::beneath(&std::env::temp_dir(), user)
    }

    /// The same in another place than that of temporary files.
    pub fn beneath(base: &Path, user: User) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let base = base.canonicalize().expect("directory for the world");
        let pid = std::process::id();
        let root = loop {
            let number = COUNT.fetch_add(1, Ordering::Relaxed);
            let root = base.join(format!("landstrip-world-{pid}-{number}"));
            match fs::create_dir(&root) {
                Ok(()) => break root,
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => panic!("{}: {error}", root.display()),
            }
        };
        fs::set_permissions(&root, fs::Permissions::from_mode(0o755)).expect("mode of the world");
        user.give(&root);
        let world = Self { root, user };
        for name in ["work", "outside", "home"] {
            world.dir(name);
        }
        world
    }

    /// An absolute path below the world.
    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.root.join(name)
    }

    /// Makes a directory (its parent exists) that belongs to the user.
    pub fn dir(&self, name: impl AsRef<Path>) -> PathBuf {
        let path = self.path(name);
        fs::create_dir(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("directory mode");
        self.user.give(&path);
        path
    }

    /// Writes a file that belongs to the user, mode 0644.
    pub fn file(&self, name: impl AsRef<Path>, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, content).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("file mode");
        self.user.give(&path);
        path
    }

    /// Writes a program or a script that belongs to the user, mode 0755.
    pub fn program(&self, name: impl AsRef<Path>, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        let mut writer = writer(&path).stdin(Stdio::piped()).spawn().expect("a shell");
        let mut stdin = writer.stdin.take().expect("the shell's input");
        stdin.write_all(content.as_ref()).expect("what is executed");
        drop(stdin);
        assert!(writer.wait().is_ok_and(|status| status.success()), "{}", path.display());
        self.user.give(&path);
        path
    }
}

/// Copies a program, mode 0755.
///
/// # Panics
/// If it cannot be copied.
pub fn copy_program(from: impl AsRef<Path>, to: &Path) {
    let from = from.as_ref();
    let program = File::open(from).unwrap_or_else(|error| panic!("{}: {error}", from.display()));
    let copied = writer(to).stdin(program).status();
    assert!(copied.is_ok_and(|status| status.success()), "{}", to.display());
}

/// Writes what is executed: nothing that somebody has open for writing is (ETXTBSY, execve(2)), and so would for a moment
/// each process that another thread of this one starts meanwhile.
fn writer(path: &Path) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", r#"cat >"$0" && chmod 755 "$0""#]).arg(path);
    shell
}

impl Drop for World {
    fn drop(&mut self) {
        // A failed test may have left directories without write permission.
        if fs::remove_dir_all(&self.root).is_err() {
            let _ = Command::new("chmod")
                .args(["-R", "u+rwX"])
                .arg(&self.root)
                .stderr(Stdio::null())
                .status();
            let _ = fs::remove_dir_all(&self.root);
        }
    }
}

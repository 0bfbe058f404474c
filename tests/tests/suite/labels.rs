//! Labels of security modules (AppArmor): the broker does nothing for a process with another one than its own,
//! since its label may forbid it what the broker's does not.

use crate::nested::unserved;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use tests::{Sandbox, for_each_user};

/// A profile of AppArmor for whatever executes one file, until it is dropped. It permits everything.
struct Profile {
    text: PathBuf,
    name: String,
}

impl Profile {
    fn of(sandbox: &Sandbox, executable: &Path) -> Self {
        let name = format!("landstrip-label-{}", std::process::id());
        let rules = "file, capability, network, signal, ptrace, unix,";
        let text = format!("profile {name} {} {{ {rules} }}\n", executable.display());
        let profile = Self { text: sandbox.file("profile", text), name };
        profile.parse("-Kr");
        profile
    }

    fn parse(&self, option: &str) {
        let status = Command::new("apparmor_parser").arg(option).arg(&self.text).status();
        assert!(status.unwrap().success());
    }
}

impl Drop for Profile {
    fn drop(&mut self) {
        self.parse("-R");
    }
}

/// Whether profiles can be given to programs here: nothing confines the tests already.
fn has_labels() -> bool {
    let is = |path: &str, word: &str| fs::read_to_string(path).is_ok_and(|is| is.starts_with(word));
    let is_so = is("/sys/module/apparmor/parameters/enabled", "Y")
        && is("/proc/self/attr/apparmor/current", "unconfined");
    if !is_so {
        tests::skipped("processes with another label need AppArmor");
    }
    is_so && tests::is_root_for("a profile of AppArmor")
}

#[test]
fn a_process_with_another_label_is_not_acted_for_and_that_is_reported() {
    if !has_labels() {
        return;
    }
    for_each_user(|user| {
        let sandbox = Sandbox::of(user).allow_write(".").trap();
        sandbox.file("work/file", "");
        let tool = sandbox.file("work/busybox", fs::read("/bin/busybox").unwrap());
        fs::set_permissions(&tool, Permissions::from_mode(0o755)).unwrap();
        let script = "./busybox cat /proc/self/attr/apparmor/current; ./busybox chmod 600 file && \
                      echo changed; ./busybox chmod 644 file; ./busybox cat file && echo read";
        let own = sandbox.sh(script);
        assert_eq!(own.succeeds().stdout, "unconfined\nchanged\nread\n", "{own:#?}");
        let profile = Profile::of(&sandbox, &tool);
        let labelled = format!("{} (enforce)\n", profile.name);
        let other = sandbox.sh(script);
        assert_eq!(other.stdout, format!("{labelled}read\n"), "{other:#?}");
        assert_eq!(unserved(&other.traps), ["write"], "{other:#?}");
        let outside = sandbox.sh_outside(script);
        assert_eq!(outside.stdout, format!("{labelled}changed\nread\n"), "{outside:#?}");
    });
}

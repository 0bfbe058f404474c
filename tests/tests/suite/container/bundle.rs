//! A bundle for runc: the root of a container, its work directory beside it, its configuration.
//!
//! The configuration is what Docker would write, as far as it matters here; config.md and
//! config-linux.md of the OCI runtime specification say what it means.

use serde_json::{Value, json};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use tests::{User, World, copy_program, is_root_for, programs, skipped};

/// What Docker leaves to root.
const CAPABILITIES: &[&str] = &[
    "CAP_AUDIT_WRITE",
    "CAP_CHOWN",
    "CAP_DAC_OVERRIDE",
    "CAP_FOWNER",
    "CAP_FSETID",
    "CAP_KILL",
    "CAP_MKNOD",
    "CAP_NET_BIND_SERVICE",
    "CAP_NET_RAW",
    "CAP_SETFCAP",
    "CAP_SETGID",
    "CAP_SETPCAP",
    "CAP_SETUID",
    "CAP_SYS_CHROOT",
];

/// A container, which runs one command after another.
pub(crate) struct Container {
    pub(crate) world: World,
    name: String,
    mounts: Vec<Value>,
    env: Vec<String>,
    seconds: u32,
    profile: Value,
    is_root: bool,
    is_restricted: bool,
    limits: Vec<Value>,
}

impl Container {
    /// With nothing but the three programs, the probe and busybox; none where runc cannot start it.
    pub(crate) fn scratch(name: &str) -> Option<Self> {
        let container = Self::bare(name)?;
        for program in ["landstrip", "landstrip-broker", "landstrip-proxy", "probe"] {
            container.install(&programs().dir.join(program), program);
        }
        Some(container)
    }

    /// With nothing but busybox; none where runc cannot start it.
    pub(crate) fn bare(name: &str) -> Option<Self> {
        let mut container = Self::empty(name)?;
        container.world.dir("root/bin");
        container.world.dir("root/etc");
        let busybox = ["/bin/busybox", "/usr/bin/busybox"].iter().map(Path::new);
        let busybox = busybox.into_iter().find(|p| p.exists()).expect("busybox-static");
        container.install(busybox, "busybox");
        let applets = ["sh", "cat", "touch", "mkdir", "ls", "true", "sleep", "tar", "chmod"];
        container.applets(&applets);
        container.env.push("PATH=/bin".into());
        container.starts().then_some(container)
    }

    /// With the programs of this host and a `/tmp` of its own; none where runc cannot start it.
    pub(crate) fn of_this_host(name: &str) -> Option<Self> {
        let mut container = Self::empty(name)?.with_programs_of_this_host();
        for name in ["bin", "sbin"] {
            symlink(format!("usr/{name}"), container.world.path("root").join(name)).unwrap();
        }
        container.world.dir("root/etc");
        // runc gives the file system that it mounts there the mode of the directory.
        let anyone = std::fs::Permissions::from_mode(0o1777);
        std::fs::set_permissions(container.world.dir("root/tmp"), anyone).unwrap();
        container = container.with("/etc".as_ref(), "/etc");
        container.mounts.push(json!({ "destination": "/tmp", "type": "tmpfs", "source": "tmpfs",
            "options": ["nosuid", "nodev"] }));
        container.env.push("PATH=/usr/sbin:/usr/bin".into());
        container.starts().then_some(container)
    }

    fn empty(name: &str) -> Option<Self> {
        if !is_root_for("a container without user namespaces") {
            return None;
        }
        let world = World::new(User::Nobody);
        for dir in ["root", "root/proc", "root/dev", "root/sys", "root/work"] {
            world.dir(dir);
        }
        let name = format!("landstrip-{}-{name}", std::process::id());
        let env = vec!["HOME=/work".into()];
        let docker = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/docker-seccomp.json");
        let profile = std::env::var_os("LANDSTRIP_TEST_PROFILE").unwrap_or_else(|| docker.into());
        let profile = std::fs::read_to_string(profile).expect("the profile");
        let profile = for_runc(serde_json::from_str(&profile).expect("a profile"));
        Some(Self {
            world,
            name,
            mounts: Vec::new(),
            env,
            seconds: 60,
            profile,
            is_root: false,
            is_restricted: false,
            limits: Vec::new(),
        })
    }

    /// Makes the programs of this host usable too, below `/usr`.
    pub(crate) fn with_programs_of_this_host(self) -> Self {
        self.world.dir("root/usr");
        for name in ["lib", "lib64"] {
            symlink(format!("usr/{name}"), self.world.path("root").join(name)).unwrap();
        }
        self.with("/usr".as_ref(), "/usr")
    }

    /// Shows a directory of this host, which cannot be written there.
    pub(crate) fn with(mut self, source: &Path, destination: &str) -> Self {
        self.mounts.push(json!({ "destination": destination, "type": "bind", "source": source,
            "options": ["rbind", "ro"] }));
        self
    }

    /// Sets a variable.
    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.env.retain(|variable| !variable.starts_with(&format!("{name}=")));
        self.env.push(format!("{name}={value}"));
        self
    }

    /// As what Docker runs commands as by default: root with few capabilities.
    pub(crate) fn of_root(mut self) -> Self {
        self.is_root = true;
        // As in every image: who owns it could exchange the policies.
        chown(self.world.path("root"), Some(0), Some(0)).unwrap();
        self
    }

    /// Under the restricted profile of Kubernetes, which is what others are and that nobody gains privileges.
    pub(crate) fn restricted(mut self) -> Self {
        self.is_restricted = true;
        self
    }

    /// With fewer descriptors for each process.
    pub(crate) fn descriptors(mut self, limit: u32) -> Self {
        self.limits.push(json!({ "type": "RLIMIT_NOFILE", "hard": limit, "soft": limit }));
        self
    }

    /// With another profile: these calls are allowed, and those are not.
    pub(crate) fn profile(mut self, allowed: &[&str], refused: &[&str]) -> Self {
        let names = self.profile["syscalls"][0]["names"].as_array_mut().expect("names");
        names.retain(|name| !refused.iter().any(|refused| name == refused));
        names.extend(allowed.iter().map(|&name| json!(name)));
        self
    }

    /// Another time limit than a minute.
    pub(crate) fn seconds(mut self, seconds: u32) -> Self {
        self.seconds = seconds;
        self
    }

    fn install(&self, from: &Path, name: &str) {
        let to = self.world.path("root/bin").join(name);
        copy_program(from, &to);
    }

    /// Makes more of busybox's programs usable.
    pub(crate) fn applets(&self, names: &[&str]) {
        for name in names {
            symlink("busybox", self.world.path("root/bin").join(name)).unwrap();
        }
    }

    /// Whether runc can start the container without landstrip; says so loudly if not.
    fn starts(&self) -> bool {
        let plain = self.run(&["true"]);
        if !plain.status.success() {
            skipped(&format!("runc cannot start a container here: {plain:?}"));
        }
        plain.status.success()
    }

    /// Runs a command until it ends.
    pub(crate) fn run(&self, args: &[&str]) -> Output {
        self.world.file("config.json", self.config(args).to_string());
        let state = self.world.path("state");
        let mut command = Command::new("timeout");
        command.args(["-k", "2", &self.seconds.to_string(), "runc", "--root"]).arg(&state);
        command.args(["run", "--bundle"]).arg(self.world.path("")).arg(&self.name);
        let output = command.stdin(Stdio::null()).output().expect("runc is installed by .ci/run");
        if matches!(output.status.code(), None | Some(124 | 137)) {
            // The time was up: the container outlives runc.
            let mut delete = Command::new("runc");
            let _ = delete.arg("--root").arg(state).args(["delete", "-f", &self.name]).output();
        }
        output
    }

    fn config(&self, args: &[&str]) -> Value {
        let mut mounts = vec![
            json!({ "destination": "/proc", "type": "proc", "source": "proc",
                "options": ["nosuid", "noexec", "nodev"] }),
            json!({ "destination": "/dev", "type": "tmpfs", "source": "tmpfs",
                "options": ["nosuid", "mode=755", "size=64k"] }),
            json!({ "destination": "/dev/pts", "type": "devpts", "source": "devpts",
                "options": ["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"] }),
            json!({ "destination": "/dev/shm", "type": "tmpfs", "source": "shm",
                "options": ["nosuid", "noexec", "nodev", "mode=1777", "size=64m"] }),
            json!({ "destination": "/sys", "type": "sysfs", "source": "sysfs",
                "options": ["nosuid", "noexec", "nodev", "ro"] }),
            json!({ "destination": "/work", "type": "bind", "source": self.world.path("work"),
                "options": ["bind", "rw"] }),
        ];
        mounts.extend(self.mounts.iter().cloned());
        let (id, capabilities) = if self.is_root { (0, CAPABILITIES) } else { (65534, &[][..]) };
        json!({
            "ociVersion": "1.0.2",
            "process": {
                "user": { "uid": id, "gid": id },
                "args": args,
                "env": self.env,
                "cwd": "/work",
                "rlimits": self.limits,
                "noNewPrivileges": self.is_restricted,
                "capabilities": { "bounding": capabilities, "effective": capabilities,
                    "permitted": capabilities }
            },
            "root": { "path": "root", "readonly": true },
            "mounts": mounts,
            "linux": {
                "namespaces": [{ "type": "pid" }, { "type": "ipc" }, { "type": "uts" },
                    { "type": "mount" }, { "type": "network" }],
                "seccomp": self.profile,
                "maskedPaths": ["/proc/kcore", "/proc/keys", "/proc/timer_list"],
                "readonlyPaths": ["/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus"]
            }
        })
    }
}

/// What an engine makes of its profile for a container without capabilities on this architecture: runc heeds neither
/// the conditions of rules nor which other programs a processor runs.
fn for_runc(mut profile: Value) -> Value {
    let (here, mapped) = match cfg!(target_arch = "x86_64") {
        true => ("amd64", "SCMP_ARCH_X86_64"),
        false => ("arm64", "SCMP_ARCH_AARCH64"),
    };
    let names = |rule: &Value, condition: &str, of: &str| -> Option<Vec<String>> {
        serde_json::from_value(rule[condition][of].clone()).ok()
    };
    let rules = profile["syscalls"].as_array_mut().expect("rules");
    rules.retain(|rule| {
        let is_here = |arches: &Vec<String>| arches.iter().any(|arch| arch == here);
        names(rule, "includes", "caps").is_none()
            && names(rule, "includes", "arches").as_ref().is_none_or(is_here)
            && !names(rule, "excludes", "arches").as_ref().is_some_and(is_here)
    });
    let others = profile["archMap"].as_array().into_iter().flatten();
    let others = others.filter(|map| map["architecture"] == mapped);
    let others = others.flat_map(|map| map["subArchitectures"].as_array().into_iter().flatten());
    let all: Vec<_> = others.cloned().chain([mapped.into()]).collect();
    if all.len() > 1 {
        profile["architectures"] = all.into();
    }
    profile
}

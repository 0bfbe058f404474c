//! In a container like Docker's: its default seccomp profile, no capabilities, an unprivileged
//! user, a read-only root with the three programs and a static busybox, and a writable `/work`.
//!
//! Skipped, loudly, only where runc cannot start such a container at all.

use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tests::{User, World, programs};

/// A bundle for runc: the root, and the work directory beside it.
struct Container {
    world: World,
    name: String,
}

impl Container {
    fn new(name: &str) -> Self {
        let world = World::new(User::Nobody);
        for dir in ["root", "root/bin", "root/proc", "root/dev", "root/work", "root/etc"] {
            world.dir(dir);
        }
        for program in ["landstrip", "landstrip-broker", "landstrip-proxy", "probe"] {
            copy(&programs().dir.join(program), &world.path("root/bin").join(program));
        }
        let busybox = ["/bin/busybox", "/usr/bin/busybox"].iter().map(Path::new);
        let busybox = busybox.into_iter().find(|p| p.exists()).expect("busybox-static");
        copy(busybox, &world.path("root/bin/busybox"));
        for applet in ["sh", "cat", "touch", "mkdir", "ls", "true", "sleep", "tar", "chmod"] {
            std::os::unix::fs::symlink("busybox", world.path("root/bin").join(applet)).unwrap();
        }
        Self { world, name: format!("landstrip-{}-{name}", std::process::id()) }
    }

    fn run(&self, args: &[&str]) -> Output {
        let work = self.world.path("work");
        let config = config(args, &work);
        self.world.file("config.json", config.to_string());
        let state = self.world.path("state");
        let mut command = Command::new("timeout");
        command.args(["-k", "2", "60", "runc", "--root"]).arg(state);
        command.args(["run", "--bundle"]).arg(self.world.path("")).arg(&self.name);
        command.stdin(std::process::Stdio::null());
        command.output().expect("runc is installed by .ci/run")
    }
}

fn copy(from: &Path, to: &PathBuf) {
    std::fs::copy(from, to).unwrap_or_else(|error| panic!("{}: {error}", from.display()));
}

/// The runtime configuration that Docker would write, as far as it matters here.
fn config(args: &[&str], work: &Path) -> Value {
    let profile = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/docker-seccomp.json");
    let seccomp: Value =
        serde_json::from_str(&std::fs::read_to_string(profile).unwrap()).expect("a profile");
    json!({
        "ociVersion": "1.0.2",
        "process": {
            "user": { "uid": 65534, "gid": 65534 },
            "args": args,
            "env": ["PATH=/bin", "HOME=/work"],
            "cwd": "/work",
            "noNewPrivileges": false,
            "capabilities": {}
        },
        "root": { "path": "root", "readonly": true },
        "mounts": [
            { "destination": "/proc", "type": "proc", "source": "proc" },
            { "destination": "/dev", "type": "tmpfs", "source": "tmpfs",
              "options": ["nosuid", "mode=755", "size=64k"] },
            { "destination": "/work", "type": "bind", "source": work,
              "options": ["bind", "rw"] }
        ],
        "linux": {
            "namespaces": [{ "type": "pid" }, { "type": "ipc" }, { "type": "uts" },
                { "type": "mount" }, { "type": "network" }],
            "seccomp": seccomp,
            "maskedPaths": ["/proc/kcore", "/proc/keys", "/proc/timer_list"],
            "readonlyPaths": ["/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus"]
        }
    })
}

/// Whether runc can start the container without landstrip; says so loudly if not.
fn runc_works(container: &Container) -> bool {
    let plain = container.run(&["true"]);
    if !plain.status.success() {
        eprintln!("!!\n!! SKIPPED: runc cannot start a container here: {plain:?}\n!!");
    }
    plain.status.success()
}

#[test]
fn the_sandbox_works_in_a_default_container() {
    let container = Container::new("works");
    if !runc_works(&container) {
        return;
    }
    let policy = r#"{"filesystem":{"allowWrite":["/work/in"],"denyRead":["/work/secret"]}}"#;
    container.world.file("root/etc/policy.json", policy);
    container.world.dir("work/in");
    container.world.file("work/secret", "Secret");
    container.world.file("work/kept", "kept");
    let landstrip = ["/bin/landstrip", "-p", "/etc/policy.json", "--"];
    let run = |script: &str| container.run(&[&landstrip[..], &["sh", "-c", script]].concat());
    let output = run("echo x > in/made && mkdir in/d && chmod 700 in/d && exit 7");
    assert_eq!(output.status.code(), Some(7), "{output:?}");
    assert!(container.world.path("work/in/made").exists());
    let output = run("echo x > kept; echo x > new; cat secret; chmod 777 kept; exit 9");
    assert_eq!(output.status.code(), Some(9), "{output:?}");
    assert_eq!(std::fs::read_to_string(container.world.path("work/kept")).unwrap(), "kept");
    assert!(!container.world.path("work/new").exists());
    assert!(!String::from_utf8_lossy(&output.stdout).contains("Secret"), "{output:?}");
    let output = run("probe socket 2 2 0 + connect4 127.0.0.1 9 + unshare 0x10000000");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.lines().count() == 3 && !text.contains("=OK"), "{output:?}");
    let twin = container.run(&["sh", "-c", "echo x > kept && cat secret && probe socket 2 2 0"]);
    assert!(twin.status.success(), "{twin:?}");
    assert!(String::from_utf8_lossy(&twin.stdout).contains("Secret"));
}

#[test]
fn unix_sockets_are_judged_in_a_default_container() {
    let container = Container::new("unix");
    if !runc_works(&container) {
        return;
    }
    let policy = r#"{"network":{"allowUnixSockets":["/work/good"]}}"#;
    container.world.file("root/etc/policy.json", policy);
    let good = tests::UnixPeer::at(container.world.path("work/good"), "stream");
    let bad = tests::UnixPeer::at(container.world.path("work/bad"), "stream");
    let attack = "probe unix-connect good stream + socketpair dgram; probe unix-connect bad stream";
    let landstrip = ["/bin/landstrip", "-p", "/etc/policy.json", "sh", "-c", attack];
    let output = container.run(&landstrip);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(text, "unix-connect=OK\nsocketpair=OK\nunix-connect=EACCES\n", "{output:?}");
    good.reached();
    assert_eq!(bad.connections(), 0);
}

#[test]
fn connects_to_the_proxy_port_work_in_a_default_container() {
    let container = Container::new("connect");
    if !runc_works(&container) {
        return;
    }
    container.world.file("root/etc/policy.json", r#"{"network":{"httpProxyPort":4000}}"#);
    // Nobody listens: reached means refused by the peer, not by the sandbox.
    let output = container.run(&[
        "/bin/landstrip",
        "-p",
        "/etc/policy.json",
        "probe",
        "connect4",
        "127.0.0.1",
        "4000",
        "+",
        "connect4",
        "127.0.0.1",
        "4001",
    ]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.starts_with("connect4=ECONNREFUSED\n"), "{output:?}");
    assert!(
        text.ends_with("connect4=EACCES\n") || text.ends_with("connect4=EPERM\n"),
        "{output:?}"
    );
}

/// Nothing of the C library's name service is in there: only the two files that Docker writes.
#[test]
fn names_are_resolved_in_a_scratch_container() {
    let container = Container::new("names");
    if !runc_works(&container) {
        return;
    }
    let policy = r#"{"network":{"allowedDomains":["*.test","127.0.0.1:4000","10.0.0.9"]}}"#;
    container.world.file("root/etc/policy.json", policy);
    // No name server: what it does not answer is no longer waited for after a second.
    container
        .world
        .file("root/etc/resolv.conf", "nameserver 127.0.0.1\noptions timeout:1 attempts:1\n");
    container.world.file("root/etc/hosts", "127.0.0.1 here.test\n10.0.0.8 inside.test\n");
    let connect = |host: &str| {
        let request = format!(
            "raw http {}",
            tests::raw::encode(tests::raw::connect(&format!("{host}:4000")))
        );
        let mut words = vec!["/bin/landstrip", "-p", "/etc/policy.json", "probe"];
        words.extend(request.split(' '));
        let output = container.run(&words);
        (String::from_utf8_lossy(&output.stdout).into_owned(), output)
    };
    for (host, status, reason) in [
        // Found in the file and dialled, where nobody listens.
        ("here.test", 502, "Connection refused"),
        // Found in the file, and judged.
        ("inside.test", 403, "10.0.0.8, which is refused"),
        // Asked for, in vain.
        ("elsewhere.test", 502, "no name server answered"),
        ("here.other", 403, "network.allowedDomains"),
    ] {
        let (text, output) = connect(host);
        assert!(text.starts_with(&format!("raw=HTTP/1.1 {status} ")), "{host}: {output:?}");
        assert!(text.contains(reason), "{host}: {output:?}");
    }
}

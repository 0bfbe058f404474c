//! landstrip with namespaces around it, by programs that make them, and such programs inside of it: the recipes of
//! `docs/harnesses.md`. Left out, loudly, where these are not installed or make none.

use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use tests::{Outcome, Sandbox, TcpPeer, for_each_user, programs, skipped};

/// A world that the command sees elsewhere: its working directory is /mnt.
const BUBBLEWRAP: &[&str] = &[
    "bwrap",
    "--ro-bind",
    "/",
    "/",
    "--dev",
    "/dev",
    "--proc",
    "/proc",
    "--unshare-pid",
    "--die-with-parent",
];

/// A network of its own, from which the services of this host on loopback are not reached.
const PASTA: &[&str] =
    &["--config-net", "-t", "none", "-T", "none", "-u", "none", "-U", "none", "--"];

fn words(given: &[&str]) -> Vec<OsString> {
    given.iter().map(OsString::from).collect()
}

/// Whether `around` makes what it is to make, here.
fn is_there(sandbox: &Sandbox, around: &[OsString]) -> bool {
    let tried = words(&["timeout", "20"]).into_iter().chain(around.iter().cloned());
    let tried = sandbox.run_outside(tried.chain(words(&["true"])));
    let why = format!("{} does not run here: {}", around[0].to_string_lossy(), tried.stderr);
    if tried.status != Some(0) {
        skipped(&why);
    }
    tried.status == Some(0)
}

/// A shell's command under landstrip, with `around` before it.
fn run(sandbox: &Sandbox, around: &[OsString], policy: &str, script: &str) -> Outcome {
    let mut all = around.to_vec();
    all.push(programs().landstrip().into());
    all.extend(words(&["-p", policy, "--", "bash", "-c", script]));
    sandbox.run_outside(all)
}

#[test]
fn a_remapped_work_space_in_bubblewrap_is_confined() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user);
        let mut around = words(BUBBLEWRAP);
        if !is_there(&sandbox, &around) {
            return;
        }
        for (name, place) in
            [("work", "/mnt"), ("outside/kept", "/srv"), ("outside/other", "/media")]
        {
            let bound = if name == "work" { sandbox.path(name) } else { sandbox.dir(name) };
            around.extend(["--bind".into(), bound.into(), place.into()]);
        }
        let hosts = sandbox.file("hosts", "10.0.0.7 build.example\n");
        around.extend(["--ro-bind".into(), hosts.into(), "/etc/hosts".into()]);
        around.extend(words(&["--chdir", "/mnt"]));
        sandbox.file("work/secret", "TOPSECRET");
        let policy = r#"{"filesystem": {"allowWrite": [".", "/srv"], "denyRead": ["secret"]}}"#;
        let script = "cat /etc/hosts; cat secret; readlink /proc/self/ns/pid;
            echo x > made; echo x > /srv/made; echo x > /media/made";
        let outcome = run(&sandbox, &around, policy, script);
        assert!(outcome.stdout.starts_with("10.0.0.7 build.example\npid:["), "{outcome:#?}");
        let own = sandbox.run_outside(["readlink", "/proc/self/ns/pid"]).stdout;
        assert!(!outcome.stdout.ends_with(&own), "{outcome:#?}");
        let written = ["work/made", "outside/kept/made", "outside/other/made"];
        assert_eq!(written.map(|name| sandbox.path(name).exists()), [true, true, false]);
        assert!(outcome.stderr.contains(r#"["write","/media/made","#), "{outcome:#?}");
    });
}

/// Has $1 become what every user may open as /dev/net/tun, as it is on most hosts, and nobody execute the rest there.
const AS_NOBODY: &str = "mount --bind \"$1\" /dev/net/tun && cd \"$2\" && shift 2 &&
    exec setpriv --reuid 65534 --regid 65534 --clear-groups env \"$@\"";

/// What a command line of the user's begins with so that it may open /dev/net/tun, and who is to start it.
fn with_tun(sandbox: &Sandbox) -> Option<(Sandbox, Vec<OsString>)> {
    let may = "test -r /dev/net/tun && test -w /dev/net/tun";
    if sandbox.sh_outside(may).status == Some(0) {
        return Some((
            Sandbox::of(sandbox.user()),
            words(&["env", "-C"]).into_iter().chain([sandbox.path("work").into()]).collect(),
        ));
    }
    let starter = Sandbox::new();
    let (tun, work) = (starter.path("tun"), sandbox.path("work"));
    if starter.sh_outside("mknod -m 666 ../tun c 10 200 && test -e /dev/net/tun").status != Some(0)
    {
        skipped("this user may not open /dev/net/tun");
        return None;
    }
    let mut all =
        words(&["unshare", "--mount", "--propagation", "private", "sh", "-c", AS_NOBODY, "sh"]);
    all.extend([tun.into(), work.into(), format!("HOME={}", sandbox.name("home")).into()]);
    Some((starter, all))
}

#[test]
fn a_network_of_pasta_and_files_in_bubblewrap_are_confined() {
    for_each_user(|user| {
        // As root it becomes another user else, who has no right to the directories.
        let own: &[&str] = if user.is_root() { &["--runas", "0", "--netns-only"] } else { &[] };
        network_and_files_are_confined(&Sandbox::of(user), &[&["pasta"], own, PASTA].concat());
    });
}

#[test]
fn a_network_of_slirp4netns_and_files_in_bubblewrap_are_confined() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user);
        let example = include_str!("../../../examples/in-slirp4netns");
        let example = sandbox.program("outside/in-slirp4netns", example);
        network_and_files_are_confined(&sandbox, &[example.to_str().unwrap()]);
    });
}

/// Under landstrip in bubblewrap in a network that `network` makes.
fn network_and_files_are_confined(sandbox: &Sandbox, network: &[&str]) {
    let Some((starter, before)) = with_tun(sandbox) else { return };
    let around = words(&[network, BUBBLEWRAP].concat()).into_iter();
    let mut around: Vec<_> = before.iter().cloned().chain(around).collect();
    if !is_there(&starter, &around) {
        return;
    }
    let work = sandbox.path("work");
    let outside = sandbox.path("outside");
    for bound in [&work, &outside] {
        around.extend(["--bind".into(), bound.into(), bound.into()]);
    }
    let peer = TcpPeer::new();
    let policy = r#"{"filesystem": {"allowWrite": ["."]}, "network": {"allowNetwork": true}}"#;
    let script = format!(
        "echo x > made; echo x > ../outside/made; echo reached > /dev/tcp/127.0.0.1/{} || exit 9",
        peer.port()
    );
    run(&starter, &around, policy, &script).exits(9);
    peer.untouched();
    let made = ["work/made", "outside/made"].map(|name| sandbox.path(name).exists());
    assert_eq!(made, [true, false]);
    assert_eq!(work.join("made").metadata().unwrap().uid(), sandbox.user().uid());
    // The same without that network.
    run(&starter, &before, policy, &script).exits(0);
    peer.reached();
}

/// What agents confine their commands by.
#[test]
fn bubblewrap_inside_is_refused_with_the_reason() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user).allow_write(".");
        let around = words(BUBBLEWRAP);
        if !is_there(&sandbox, &around) {
            return;
        }
        let outcome = sandbox.run(around.into_iter().chain(words(&["touch", "made"])));
        outcome.fails();
        let line = "refused under every policy: clone (namespaces and mounts: run it outside, ";
        assert!(outcome.stderr.contains(line), "{outcome:#?}");
        sandbox.run(["touch", "made"]).succeeds();
    });
}

/// The Anthropic Sandbox Runtime, if it was fetched: by that Claude Code confines its commands. What stands in for it does
/// run, as far as a sandbox can inside another.
#[test]
fn the_sandbox_runtime_inside_is_refused_with_the_reason_and_landstrip_s_runs() {
    const ORIGINAL: &str = "@anthropic-ai/sandbox-runtime";
    let fetched = std::env::var_os("LANDSTRIP_FETCHED").unwrap_or_default();
    let fetched = Path::new(&fetched).join("node_modules").join(ORIGINAL).join("dist/index.js");
    let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join("../clients/javascript");
    let sandbox = Sandbox::new().allow_write("made").allow_write("kept").allow_local_binding();
    if sandbox.sh_outside("command -v node && command -v socat && command -v rg").status != Some(0)
    {
        return skipped("node, socat and ripgrep are not all there");
    }
    let run = |module: &Path| {
        let text = PROGRAM.replace("MODULE", module.to_str().unwrap());
        let launcher = programs().landstrip().display().to_string();
        let program = sandbox.file("outside/use.mjs", text.replace("LAUNCHER", &launcher));
        sandbox.run(["node", program.to_str().unwrap()])
    };
    let write = |name: &str| sandbox.file(format!("work/{name}"), "old");
    let read = || ["made", "kept"].map(|name| sandbox.read(format!("work/{name}")));
    let _ = ["made", "kept"].map(write);
    let outcome = run(&ours.join("sandbox-runtime.js"));
    outcome.exits(7);
    assert_eq!(read(), ["new\n", "old"], "{outcome:#?}");
    // What it says it needs.
    let is_new = "process.exit(process.versions.node.split('.')[0] < 20 ? 1 : 0)";
    if !fetched.exists() || sandbox.run_outside(["node", "-e", is_new]).status != Some(0) {
        return skipped(&format!("LANDSTRIP_FETCHED names no directory with {ORIGINAL} that runs"));
    }
    write("made");
    let outcome = run(&fetched);
    outcome.fails();
    assert_eq!(read(), ["old", "old"], "{outcome:#?}");
    let line = "refused under every policy: clone (namespaces and mounts: run it outside, ";
    assert!(outcome.stderr.contains(line), "{outcome:#?}");
}

/// Exits with the status of a command that writes to both files, one of which it may.
const PROGRAM: &str = "
import { SandboxManager } from 'MODULE';
import { spawnSync } from 'child_process';
const config = {
  enableWeakerNestedSandbox: true,
  network: { allowedDomains: [], deniedDomains: [], allowLocalBinding: false },
  filesystem: { denyRead: [], allowWrite: ['./made'], denyWrite: [] },
};
await SandboxManager.initialize(config, undefined, false, { program: 'LAUNCHER' });
const wrapped = await SandboxManager.wrapWithSandbox('echo new > made; echo new > kept || exit 7');
const { status } = spawnSync(wrapped, { shell: true, stdio: 'inherit' });
await SandboxManager.reset();
process.exit(status);
";

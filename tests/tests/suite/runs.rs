//! Runs of one user beside and after one another: nothing of one is reached by the next, which may be its attacker.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use tests::{Sandbox, for_each_user, programs, skipped};

/// A script of Python's that runs landstrip with a policy behind /dev/fd/N: `$1` says how it is handed over, `$2` what
/// is in it, and the rest is the command.
const HAND_OVER: &str = r#"
import os, socket, subprocess, sys
launcher, how, text, *command = sys.argv[1:]
if how == "pipe":
    ours, theirs = os.pipe()[::-1]
else:
    kinds = {"stream": socket.SOCK_STREAM, "packets": socket.SOCK_SEQPACKET}
    ours, theirs = (end.detach() for end in socket.socketpair(socket.AF_UNIX, kinds[how]))
os.write(ours, text.encode())
os.close(ours)
words = [launcher, "-p", f"/dev/fd/{theirs}", "--", *command]
sys.exit(subprocess.run(words, pass_fds=[theirs]).returncode)
"#;

fn handed_over(sandbox: &Sandbox, how: &str, policy: &str, script: &str) -> tests::Outcome {
    let launcher = programs().landstrip();
    let launcher = launcher.to_str().unwrap();
    sandbox.run_outside(["python3", "-c", HAND_OVER, launcher, how, policy, "sh", "-c", script])
}

#[test]
fn a_policy_is_taken_from_a_descriptor_that_the_command_does_not_get() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user);
        sandbox.file("work/base.json", r#"{"filesystem":{"allowWrite":["based"]}}"#);
        sandbox.dir("work/based");
        let policy = r#"{"extends":"./base.json","filesystem":{"allowWrite":["made"]}}"#;
        for how in ["pipe", "stream"] {
            let script = "echo x > made && echo x > based/f && echo x > other; ls /proc/self/fd";
            let outcome = handed_over(&sandbox, how, policy, script);
            // The last is that of ls itself.
            assert_eq!(outcome.stdout, "0\n1\n2\n3\n", "{how}: {outcome:#?}");
            assert_eq!(sandbox.read("work/made"), "x\n", "{how}");
            assert!(!sandbox.path("work/other").exists(), "{how}: {outcome:#?}");
            fs::remove_file(sandbox.path("work/made")).unwrap();
        }
        for (how, policy, why) in [
            ("stream", r#"{"filesystm":{}}"#, "unknown key 'filesystm'"),
            ("stream", "{", "/dev/fd/"),
            // What keeps messages apart, as landstrip's own do.
            ("packets", policy, "not a regular file"),
        ] {
            let outcome = handed_over(&sandbox, how, policy, "echo x > made");
            outcome.exits(125);
            assert!(outcome.stderr.contains(why), "{how}: {outcome:#?}");
            assert!(!sandbox.path("work/made").exists(), "{how}");
        }
        let outcome = sandbox.landstrip(["-p", "/dev/fd/9", "--", "true"]);
        outcome.exits(125);
        assert!(outcome.stderr.contains("No such file"), "{outcome:#?}");
    });
}

/// Puts the client for JavaScript into the home; None where there is no node.
fn client(sandbox: &Sandbox) -> Option<()> {
    if sandbox.sh_outside("command -v node").status != Some(0) {
        skipped("there is no node");
        return None;
    }
    let name = sandbox.sh_outside("node -p process.arch").stdout.trim().to_owned();
    let platform = format!("home/node_modules/@landstrip/linux-{name}");
    let made = format!("mkdir -p ../home/node_modules/landstrip ../{platform}/bin");
    sandbox.sh_outside(&made).succeeds();
    sandbox.file(format!("{platform}/package.json"), "{}");
    symlink(programs().landstrip(), sandbox.path(format!("{platform}/bin/landstrip"))).unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging/npm/landstrip");
    for file in ["index.js", "package.json"] {
        let text = fs::read(source.join(file)).unwrap();
        sandbox.file(PathBuf::from("home/node_modules/landstrip").join(file), text);
    }
    Some(())
}

#[test]
fn policies_of_programs_have_no_name_by_which_others_could_rewrite_them() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user);
        let Some(()) = client(&sandbox) else { return };
        sandbox.dir("tmp");
        // Whatever is made where files are made for a time, is seen.
        let script = r#"
            const { run } = require("landstrip");
            const fs = require("node:fs");
            (async () => {
                const seen = [];
                const watcher = fs.watch(process.env.TMPDIR, (kind, name) => seen.push(name));
                const large = { filesystem: { denyWrite: Array(20000).fill("./denied") } };
                const policy = [{ filesystem: { allowWrite: ["."] } }, "read-only", large];
                const first = await run(["sh", "-c", "echo x > made; echo x > ../outside/made; ls /proc/self/fd"],
                    { policy, stdio: "pipe" });
                const second = await run(["true"], { policy: { filesystm: {} }, stdio: "pipe" });
                watcher.close();
                console.log(JSON.stringify([first, second, seen.filter((name) => !/^landstrip-[0-9a-f]+$/.test(name))]));
            })();
        "#;
        sandbox.file("home/use.js", script);
        let outcome = sandbox.sh_outside("TMPDIR=$PWD/../tmp exec node ../home/use.js");
        outcome.succeeds();
        let result: serde_json::Value = serde_json::from_str(&outcome.stdout).unwrap();
        assert_eq!(result[0]["stdout"], "0\n1\n2\n3\n", "{result}");
        assert_eq!(sandbox.read("work/made"), "x\n", "{result}");
        assert!(!sandbox.path("outside/made").exists());
        assert_eq!(result[1]["status"], 125, "{result}");
        assert_eq!(result[2], serde_json::json!([]), "{result}");
    });
}

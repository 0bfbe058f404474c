//! `--doctor`: all holds where it does, and it says so where it does not.

use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use tests::{Outcome, Sandbox, UnixPeer, eventually, for_each_user, is_root_for, programs};

/// The lines of one kind.
fn lines(outcome: &Outcome, kind: &str) -> Vec<Value> {
    let parse = |line: &str| serde_json::from_str::<Value>(line).unwrap();
    let kinds = outcome.stdout.lines().map(parse).filter_map(|line| line.get(kind).cloned());
    kinds.collect()
}

fn doctor(sandbox: &Sandbox) -> Outcome {
    let mut line = sandbox.command_line();
    line.push("--doctor=json".into());
    sandbox.run_outside(line)
}

#[test]
fn everything_holds_under_every_kind_of_policy() {
    for_each_user(|user| {
        let of = || Sandbox::of(user);
        for sandbox in [
            of().without_policy(),
            of(),
            of().allow_write(".").deny_write(".env").deny_read("secret").deny_read("~/.ssh"),
            of().allow_write("/").deny_read("**/secret").allow_local_binding(),
            of().allow_network().allow_write("."),
            of().allow_domains(["a.invalid"]).allow_all_unix_sockets(),
        ] {
            sandbox.file("work/.env", "kept");
            sandbox.file("work/secret", "kept");
            let before = std::fs::read_dir(sandbox.path("work")).unwrap().count();
            let outcome = doctor(&sandbox);
            let attempts = lines(&outcome, "Attempt");
            let wrong: Vec<_> = attempts.iter().filter(|line| line["holds"] != true).collect();
            assert!(wrong.is_empty(), "{wrong:#?}");
            outcome.succeeds();
            let count =
                |outcome: &str| attempts.iter().filter(|line| line["outcome"] == outcome).count();
            assert!(count("refused") >= 24 && count("permitted") >= 6, "{attempts:#?}");
            assert_eq!(lines(&outcome, "Doctor"), [serde_json::json!({"holds": true})]);
            assert_eq!(std::fs::read_dir(sandbox.path("work")).unwrap().count(), before);
            assert_eq!(sandbox.read("work/.env"), "kept");
        }
    });
    let left = std::fs::read_dir(std::env::temp_dir()).unwrap().flatten();
    let pid = std::process::id().to_string();
    let own = left.filter(|entry| entry.file_name() == format!("landstrip-doctor-{pid}").as_str());
    assert_eq!(own.count(), 0);
}

/// Runs the attempts of the doctor, as the tool of `sandbox` or, without one, of nobody.
fn attempt(sandbox: &Sandbox, list: &str, confined: bool) -> Outcome {
    let program = programs().dir.join("landstrip-broker").into_os_string();
    let run = ["env".into(), format!("LANDSTRIP_DOCTOR={list}").into(), program];
    if confined { sandbox.run(run) } else { sandbox.run_outside(run) }
}

#[test]
fn one_protection_that_fails_is_named_and_the_status_says_so() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user).allow_write(".").deny_write(".env");
        sandbox.file("work/.env", "");
        let rest = "refused\twrite\t.env\npermitted\tread\t.env\nrefused\tmake a file in\t..";
        attempt(&sandbox, &format!("text\n{rest}"), true).succeeds();
        for (wrong, found) in [
            ("refused\tmake a file in\t.", "FAILS  permitted  make a file in ., should be refused"),
            ("permitted\tmake a file in\t..", "FAILS  refused    make a file in .."),
            ("refused\tread\tmissing", "FAILS  unclear    read missing"),
        ] {
            let outcome = attempt(&sandbox, &format!("text\n{rest}\n{wrong}"), true);
            outcome.exits(1);
            assert!(outcome.stdout.contains(found), "{outcome:#?}");
            assert_eq!(outcome.stdout.matches("FAILS").count(), 1, "{outcome:#?}");
        }
        assert_eq!(sandbox.read("work/.env"), "");
    });
}

#[test]
fn no_attempt_is_refused_where_nothing_confines() {
    let sandbox = Sandbox::new();
    let file = sandbox.file("outside/file", "kept");
    let file = file.to_str().unwrap();
    let socket = sandbox.name("outside/socket");
    let peer = UnixPeer::at(&socket, "stream");
    let by_name = format!("landstrip-test-{}", std::process::id());
    let named = UnixPeer::named(&by_name, "stream");
    let tcp = tests::TcpPeer::new();
    let victim = std::process::Command::new("sleep").arg("600").spawn();
    let mut victim = victim.unwrap();
    let process = victim.id().to_string();
    let port = tcp.port();
    for (act, object) in [
        ("read", file),
        ("write", file),
        ("make a file in", &sandbox.name("outside")),
        ("change the mode of", file),
        ("signal process", &process),
        ("read the memory of process", &process),
        ("read the environment of process", &process),
        ("trace process", &process),
        ("connect by TCP to", &format!("127.0.0.1:{port}")),
        ("bind TCP at", "127.0.0.1:0"),
        ("send by UDP to", "127.0.0.1:9"),
        ("connect to the Unix socket", &socket),
        ("connect to the abstract socket", &by_name),
        ("call", "seccomp with a listener"),
        ("call", "ioctl TIOCSTI"),
    ] {
        let outcome = attempt(&sandbox, &format!("text\nrefused\t{act}\t{object}"), false);
        let may_lack = act == "trace process" || act.starts_with("read the memory");
        // A container's profile can refuse these without a sandbox.
        if !may_lack || outcome.status != Some(0) {
            outcome.exits(1);
            assert!(!outcome.stdout.contains("refused   "), "{act} {object}: {outcome:#?}");
        }
    }
    victim.kill().unwrap();
    victim.wait().unwrap();
    peer.has_seen(1);
    named.has_seen(1);
    assert!(eventually(|| tcp.connections() == 1), "{tcp:?}");
    assert_eq!(sandbox.read("outside/file"), "kept");
    // Nothing else makes a broker of it.
    attempt(&sandbox, "", false).exits(2);
    attempt(&sandbox, "text\nrefused\tburn\tx", false).exits(2);
}

/// A copy of the programs with a filter of which one rule is gone: what it compares the kind of an ioctl(2) with
/// is `instead`. Returns the copy of landstrip.
fn with_rule_changed(sandbox: &Sandbox, instead: u32) -> String {
    /// BPF_JMP | BPF_JEQ | BPF_K (linux/bpf_common.h).
    const COMPARE: [u8; 2] = [0x15, 0];
    const TIOCSTI: u32 = 0x5412;
    sandbox.dir("bin");
    for name in ["landstrip", "landstrip-broker", "landstrip-proxy"] {
        let mut program = std::fs::read(programs().dir.join(name)).unwrap();
        let is_rule =
            |bytes: &[u8]| bytes.starts_with(&COMPARE) && bytes[4..] == TIOCSTI.to_le_bytes();
        let rules: Vec<usize> =
            (0..program.len() - 8).filter(|&at| is_rule(&program[at..at + 8])).collect();
        assert_eq!(rules.is_empty(), name != "landstrip-broker", "{name}");
        for at in rules {
            program[at + 4..at + 8].copy_from_slice(&instead.to_le_bytes());
        }
        let path = sandbox.file(format!("bin/{name}"), program);
        std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
    }
    sandbox.name("bin/landstrip")
}

#[test]
fn a_filter_without_one_of_its_rules_is_found() {
    for (instead, holds) in [(0x5412, true), (0x54ff, false)] {
        let sandbox = Sandbox::new();
        let program = with_rule_changed(&sandbox, instead);
        let outcome = sandbox.run_outside([program.as_str(), "--doctor=json"]);
        outcome.exits(i32::from(!holds));
        let attempts = lines(&outcome, "Attempt");
        let wrong: Vec<_> = attempts.iter().filter(|line| line["holds"] != true).collect();
        assert_eq!(wrong.is_empty(), holds, "{wrong:#?}");
        assert!(wrong.iter().all(|line| line["what"] == "call ioctl TIOCSTI"), "{wrong:#?}");
        assert_eq!(lines(&outcome, "Doctor"), [serde_json::json!({"holds": holds})]);
    }
}

#[test]
fn a_kernel_without_a_part_of_landlock_is_found_with_what_to_do() {
    // Every other ruleset is refused as by a kernel that does not know what it is about: the launcher's, and that
    // about moves between directories, as before ABI 2.
    let inject = "inject=landlock_create_ruleset:error=EINVAL:when=1+2";
    let program = programs().landstrip().into_os_string().into_string().unwrap();
    for (rules, status) in [(inject, 125), ("trace=landlock_create_ruleset", 0)] {
        let sandbox = Sandbox::new();
        let strace =
            ["strace", "-f", "-qq", "-o", "/dev/null", "-e", rules, &program, "--doctor=json"];
        let outcome = sandbox.run_outside(strace);
        outcome.exits(status);
        let platform = lines(&outcome, "Platform");
        let landlock = platform.iter().find(|line| line["what"] == "Landlock").unwrap();
        let state = if status == 0 { "good" } else { "missing" };
        assert_eq!(landlock["state"], state, "{landlock:#}");
        assert_eq!(landlock["advice"].is_string(), status != 0, "{landlock:#}");
        assert_eq!(lines(&outcome, "Doctor"), [serde_json::json!({"holds": status == 0})]);
    }
}

#[test]
fn a_sandbox_around_is_found_with_what_to_do() {
    let sandbox = Sandbox::new().allow_write(".");
    let program = programs().landstrip().into_os_string().into_string().unwrap();
    let outcome = sandbox.run([program.as_str(), "-p", "agent", "--doctor"]);
    outcome.exits(125);
    assert!(outcome.stdout.contains("limited  seccomp listener: none"), "{outcome:#?}");
    assert!(outcome.stdout.contains("start landstrip outside"), "{outcome:#?}");
    assert!(outcome.stdout.ends_with("no tool would run with this policy\n"), "{outcome:#?}");
    // One that needs no listener holds there, too.
    let policy = sandbox.file("work/read.json", "{}");
    let words = ["env", "-i", &program, "-p", policy.to_str().unwrap(), "--doctor"];
    let outcome = sandbox.run(words);
    assert!(outcome.succeeds().stdout.contains("everything holds"), "{outcome:#?}");
}

#[test]
fn where_no_file_can_be_made_nothing_is_unclear() {
    let sandbox = Sandbox::new();
    let program = programs().landstrip().into_os_string().into_string().unwrap();
    let outcome = sandbox.sh_outside(&format!("cd /proc && {program} --doctor"));
    assert!(outcome.succeeds().stdout.contains("everything holds"), "{outcome:#?}");
}

#[test]
fn a_proc_of_another_namespace_is_found_with_what_to_do() {
    if !is_root_for("another PID namespace") {
        return;
    }
    let sandbox = Sandbox::new();
    let program = programs().landstrip().into_os_string().into_string().unwrap();
    let probe = sandbox.run_outside(["unshare", "-pf", "true"]);
    if probe.status != Some(0) {
        return tests::skipped("no PID namespace can be made");
    }
    let outcome = sandbox.run_outside(["unshare", "-pf", &program, "--doctor"]);
    outcome.exits(125);
    assert!(outcome.stdout.contains("missing  /proc"), "{outcome:#?}");
    assert!(outcome.stdout.contains("unshare --mount-proc"), "{outcome:#?}");
    let outcome = sandbox.run_outside(["unshare", "-pf", &program, "--doctor=json"]);
    outcome.exits(125);
    assert_eq!(lines(&outcome, "Doctor"), [serde_json::json!({"holds": false})]);
    let outcome = sandbox.run_outside(["unshare", "-pf", "--mount-proc", &program, "--doctor"]);
    assert!(outcome.succeeds().stdout.contains("everything holds"), "{outcome:#?}");
}

/// On emulated machines.
mod large {
    use std::process::{Command, Output};
    use tests::{Sandbox, programs};

    /// A program of tests/machines, with the caller's home, where what machines are made of is kept.
    fn machines(program: &str, words: &[&str]) -> Output {
        let program = format!("{}/machines/{program}", env!("CARGO_MANIFEST_DIR"));
        Command::new(program).args(words).env("LANDSTRIP_BUILD_NOTHING", "1").output().unwrap()
    }

    #[test]
    fn the_first_landlock_is_found_to_be_too_old() {
        if !machines("fetch", &["kernel", "x86_64", "small"]).status.success() {
            return tests::skipped("no small kernel for an emulated machine was built here");
        }
        let sandbox = Sandbox::new();
        sandbox.dir("machine");
        for name in ["landstrip", "landstrip-broker", "landstrip-proxy"] {
            tests::copy_program(programs().dir.join(name), &sandbox.path("machine").join(name));
        }
        let directory = sandbox.name("machine");
        for (abi, status) in [("landlock_abi=1", 125), ("landlock_abi=6", 0)] {
            let machine = ["-u", "1000", "-a", abi, "x86_64", "small", &directory];
            let doctor = ["env", "NO_COLOR=1", "landstrip", "--doctor"];
            let output = machines("boot", &[&machine[..], &doctor].concat());
            let text = String::from_utf8_lossy(&output.stdout);
            assert_eq!(output.status.code(), Some(status), "{text} {output:?}");
            let is_missing = text.contains("missing  Landlock: its Landlock lacks moves");
            assert_eq!(is_missing, status != 0, "{text}");
            assert_eq!(text.contains("everything holds"), status == 0, "{text}");
        }
    }
}

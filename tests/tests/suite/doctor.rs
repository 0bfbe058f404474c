//! `--doctor`: all holds where it does, and it says so where it does not.

use serde_json::Value;
use tests::{Outcome, Sandbox, UnixPeer, for_each_user, is_root_for, programs};

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
    let victim = std::process::Command::new("sleep").arg("60").spawn();
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
    assert_eq!([peer.connections(), named.connections(), tcp.connections()], [1, 1, 1]);
    assert_eq!(sandbox.read("outside/file"), "kept");
    // Nothing else makes a broker of it.
    attempt(&sandbox, "", false).exits(2);
    attempt(&sandbox, "text\nrefused\tburn\tx", false).exits(2);
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
    let outcome = sandbox.run_outside(["unshare", "-pf", "--mount-proc", &program, "--doctor"]);
    assert!(outcome.succeeds().stdout.contains("everything holds"), "{outcome:#?}");
}

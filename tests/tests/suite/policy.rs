//! The command line and the policy: what is accepted, what is refused, and with which words.

use std::ffi::OsString;
use std::fs;
use tests::{Outcome, Sandbox, TcpPeer, for_each_user};

/// Runs `touch made` under a policy text and returns what came of it, and whether it ran.
fn touch(policy: &str) -> (Outcome, bool) {
    let sandbox = Sandbox::new().policy_json(policy);
    let outcome = sandbox.run(["touch", "made"]);
    let made = sandbox.path("work/made").exists();
    (outcome, made)
}

#[track_caller]
fn refused(policy: &str, words: &[&str]) {
    let (outcome, made) = touch(policy);
    assert!(!made, "the tool ran: {policy}");
    for word in words {
        outcome.is_error(125, "Internal", word);
    }
}

#[test]
fn wrong_options_are_usage_errors_and_run_nothing() {
    let sandbox = Sandbox::new();
    for args in [
        &["--bogus", "--", "touch", "made"][..],
        &["-z", "touch", "made"],
        &["--policy"],
        &["-p"],
        &["--format", "toml", "--", "touch", "made"],
        &["--trap-fd", "2", "--", "touch", "made"],
        &["--trap-fd", "77", "--", "touch", "made"],
        &["--trap-fd", "x", "--", "touch", "made"],
        &["--trap-fd=-1", "--", "touch", "made"],
        &["--trap-fd=99999999999999999999", "--", "touch", "made"],
        &["--check=yes", "--", "touch", "made"],
        &[],
        &["--"],
    ] {
        sandbox.landstrip(args.iter().copied()).is_error(2, "Usage", "");
        assert!(!sandbox.path("work/made").exists(), "{args:?}");
    }
    sandbox.landstrip(["--bogus"]).is_error(2, "Usage", "--bogus");
}

#[test]
fn help_and_version_are_printed() {
    let sandbox = Sandbox::new();
    for option in ["-h", "--help"] {
        let outcome = sandbox.landstrip([option]);
        outcome.succeeds();
        assert!(outcome.stdout.contains("--policy"), "{outcome:#?}");
    }
    for option in ["-V", "--version"] {
        let outcome = sandbox.landstrip([option]);
        outcome.succeeds();
        assert!(outcome.stdout.starts_with("landstrip "), "{outcome:#?}");
    }
}

#[test]
fn every_spelling_of_an_option_works() {
    let sandbox = Sandbox::new();
    let policy = sandbox.file("open.json", r#"{"filesystem":{"allowWrite":["."]}}"#);
    let policy = policy.to_str().unwrap();
    for spelling in [
        vec!["-p".to_owned(), policy.to_owned()],
        vec![format!("-p{policy}")],
        vec!["--policy".to_owned(), policy.to_owned()],
        vec![format!("--policy={policy}")],
        vec!["--policy".to_owned(), policy.to_owned(), "--format=json".to_owned()],
    ] {
        let with_dashes: Vec<String> =
            spelling.iter().cloned().chain(["--", "touch", "made"].map(str::to_owned)).collect();
        sandbox.landstrip(with_dashes).succeeds();
        std::fs::remove_file(sandbox.path("work/made")).unwrap();
        let without: Vec<String> =
            spelling.iter().cloned().chain(["touch", "made"].map(str::to_owned)).collect();
        sandbox.landstrip(without).succeeds();
        std::fs::remove_file(sandbox.path("work/made")).unwrap();
    }
}

#[test]
fn options_after_the_tool_are_the_tools() {
    let sandbox = Sandbox::new();
    let policy = sandbox.name("open.json");
    sandbox.file("open.json", "{}");
    let outcome = sandbox.landstrip(["-p", &policy, "echo", "-p", "--bogus", "--version"]);
    outcome.succeeds();
    assert_eq!(outcome.stdout, "-p --bogus --version\n");
}

#[test]
fn a_policy_can_come_on_standard_input() {
    let sandbox = Sandbox::new().input(r#"{"filesystem":{"allowWrite":["."]}}"#);
    sandbox.landstrip(["-p", "-", "--", "touch", "made"]).succeeds();
    assert!(sandbox.path("work/made").exists());
    let sandbox = Sandbox::new().input("filesystem:\n  allowWrite: [.]\n");
    sandbox.landstrip(["-p", "-", "--format", "yaml", "--", "touch", "made"]).succeeds();
    assert!(sandbox.path("work/made").exists());
}

#[test]
fn json_and_yaml_say_the_same() {
    for (name, text) in [
        ("p.json", "{\"filesystem\":{\"allowWrite\":[\".\"],\"denyWrite\":[\"a/no\"]}}"),
        ("p.yaml", "filesystem:\n  allowWrite:\n    - .\n  denyWrite: [\"a/no\"]\n"),
        ("p.yml", "{filesystem: {allowWrite: '.', denyWrite: 'a/no'}}\n"),
    ] {
        let sandbox = Sandbox::new();
        sandbox.dir("work/a");
        sandbox.dir("work/b");
        let policy = sandbox.file(name, text);
        let run = |file: &str| {
            sandbox.landstrip([
                "-p".into(),
                policy.clone().into_os_string(),
                "touch".into(),
                file.into(),
            ])
        };
        run("b/yes").succeeds();
        run("a/no").fails();
        assert!(!sandbox.path("work/a/no").exists(), "{name}");
    }
}

#[test]
fn a_list_may_be_one_string_with_a_path_a_line() {
    let policy = r#"{"filesystem":{"allowWrite":"\n  a  \n\n\tb\n"}}"#;
    let sandbox = Sandbox::new().policy_json(policy);
    sandbox.dir("work/a");
    sandbox.dir("work/b");
    sandbox.sh("touch a/x b/x").succeeds();
    sandbox.sh("touch c").fails();
}

#[test]
fn null_lists_are_empty() {
    let (outcome, made) = touch(r#"{"filesystem":{"allowWrite":null},"network":null}"#);
    outcome.fails();
    assert!(!made);
}

#[test]
fn several_files_merge_in_order() {
    let sandbox = Sandbox::new();
    let peer = TcpPeer::new();
    let port = peer.port();
    let one = r#"{"filesystem":{"allowWrite":["a"]},"network":{"httpProxyPort":1}}"#;
    let two = format!(
        "filesystem:\n  allowWrite: |\n    a\n    b\n  denyWrite: [b/no]\nnetwork:\n  httpProxyPort: {port}\n"
    );
    let one = sandbox.file("one.json", one).into_os_string();
    let two = sandbox.file("two.yaml", two).into_os_string();
    sandbox.dir("work/a");
    sandbox.dir("work/b");
    sandbox.file("work/b/no", "kept");
    let run = |words: Vec<OsString>| {
        let mut line = vec!["-p".into(), one.clone(), "-p".into(), two.clone(), "--".into()];
        line.extend(words);
        sandbox.landstrip(line)
    };
    run(["touch", "a/x"].map(Into::into).to_vec()).succeeds();
    run(["sh", "-c", "echo x > b/no"].map(Into::into).to_vec()).fails();
    assert_eq!(sandbox.read("work/b/no"), "kept");
    run(Sandbox::probe_words(&format!("connect4 127.0.0.1 {port}"))).allowed("connect4");
    peer.reached();
}

#[test]
fn a_misspelt_key_is_refused_and_the_nearest_named() {
    refused(r#"{"filesystem":{"denyWirte":["x"]}}"#, &["denyWirte", "denyWrite"]);
    refused(r#"{"filesystem":{"denyreads":["x"]}}"#, &["denyreads", "denyRead"]);
    refused(r#"{"filesytem":{}}"#, &["filesytem", "filesystem"]);
    refused(r#"{"network":{"allowedDomain":["x"]}}"#, &["allowedDomain", "allowedDomains"]);
    refused("{\"network\":{\n\"httpProxyport\":1}}", &["httpProxyport", "httpProxyPort"]);
}

#[test]
fn a_wrong_value_is_named_with_file_line_and_field() {
    refused(
        "{\n\"filesystem\":{\n\"allowWrite\": 5}}",
        &["policy.json", "3", "filesystem.allowWrite"],
    );
    refused(r#"{"filesystem":{"allowWrite":[1]}}"#, &["allowWrite"]);
    refused(r#"{"filesystem":{"denyWrite":[""]}}"#, &["denyWrite"]);
    refused(r#"{"filesystem":{"denyWrite":["~someone/x"]}}"#, &["denyWrite", "~"]);
    refused(r#"{"filesystem":[]}"#, &["filesystem"]);
    refused(r#"{"network":{"allowNetwork":"yes"}}"#, &["allowNetwork"]);
    refused(r#"{"network":{"allowNetwork":1}}"#, &["allowNetwork"]);
    for port in ["0", "65536", "-1", "1.5", "\"80\"", "1e2", "99999999999999999999"] {
        refused(&format!(r#"{{"network":{{"httpProxyPort":{port}}}}}"#), &["httpProxyPort"]);
    }
}

#[test]
fn what_is_no_policy_is_refused() {
    for text in [
        "",
        " ",
        "{",
        "[]",
        "5",
        "\"x\"",
        "{}{}",
        "{\"filesystem\":{}",
        "\u{0}",
        "{}\u{0}",
        "{\"filesystem\":{\"denyWrite\":[\"a\"],\"denyWrite\":[]}}",
    ] {
        refused(text, &["policy"]);
    }
}

#[test]
fn a_missing_or_unreadable_policy_is_refused() {
    let sandbox = Sandbox::new();
    for name in ["/nonexistent/policy.json", "/", "/dev/null/x"] {
        sandbox.landstrip(["-p", name, "--", "touch", "made"]).is_error(125, "Internal", name);
    }
    assert!(!sandbox.path("work/made").exists());
    let sandbox = Sandbox::new().without_policy().env("LANDSTRIP_POLICY", "/nonexistent/p.json");
    sandbox.run(["true"]).is_error(125, "Internal", "/nonexistent/p.json");
}

#[test]
fn keys_of_other_platforms_are_accepted() {
    let (outcome, made) = touch(
        r#"{"filesystem":{"allowWrite":["."]},"enableWeakerNetworkIsolation":true,
            "mandatoryDenySearchDepth":3,"allowPty":true}"#,
    );
    outcome.succeeds();
    assert!(made);
}

#[test]
fn check_says_what_is_wrong_and_runs_nothing() {
    let sandbox = Sandbox::new().allow_write(".").options(["--check"]);
    sandbox.run(["touch", "made"]).succeeds();
    assert!(!sandbox.path("work/made").exists());
    let sandbox = Sandbox::new().policy_json(r#"{"filesytem":{}}"#).options(["--check"]);
    let outcome = sandbox.run(["touch", "made"]);
    outcome.exits(125);
    assert!(outcome.stderr.contains("filesytem"));
}

#[test]
fn protection_is_not_lost_to_what_only_a_shell_expands() {
    for_each_user(|user| {
        for item in ["$HOME/.ssh", "${HOME}/.ssh", "{~/.ssh,~/.aws}"] {
            let sandbox = Sandbox::of(user).allow_write(".").deny_read(item);
            sandbox.dir("home/.ssh");
            sandbox.file("home/.ssh/id", "Secret");
            let outcome = sandbox.sh("touch made; cat ~/.ssh/id");
            outcome.is_error(125, "Internal", "nothing expands");
            outcome.is_error(125, "Internal", "~/.ssh'");
            outcome.is_error(125, "Internal", "filesystem.denyRead[0]");
            assert!(!sandbox.path("work/made").exists(), "{item}");
        }
        let sandbox = Sandbox::of(user).allow_write(".").deny_read("~/.ssh");
        sandbox.dir("home/.ssh");
        sandbox.file("home/.ssh/id", "Secret");
        sandbox.file("home/open", "open");
        let outcome = sandbox.sh("touch made && cat ~/open; cat ~/.ssh/id");
        outcome.fails();
        assert_eq!(outcome.stdout, "open");
        assert!(sandbox.path("work/made").exists());
    });
}

#[test]
fn check_says_that_the_broker_opens_what_is_read_only_where_it_does() {
    let kept = |sandbox: Sandbox| {
        sandbox.file("work/.env", "Secret");
        sandbox.allow_write(".").options(["--check"])
    };
    let says = |sandbox: Sandbox| {
        let outcome = sandbox.run(["true"]);
        outcome.succeeds();
        outcome.stdout.contains("every file that is read")
    };
    assert!(!says(kept(Sandbox::new().deny_write(".env"))));
    assert!(!says(kept(Sandbox::new().deny_write("**/*.pem"))));
    assert!(says(kept(Sandbox::new().deny_read(".env"))));
}

#[test]
fn check_counts_files_that_have_names_elsewhere() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user).allow_write(".").options(["--check"]);
        let own = sandbox.file("work/own", "");
        fs::hard_link(own, sandbox.path("work/also-own")).unwrap();
        let said = || sandbox.run(["true"]).stdout.clone();
        assert!(!said().contains("names elsewhere"), "{}", said());
        let stored = sandbox.file("outside/stored", "");
        fs::hard_link(stored, sandbox.path("work/package")).unwrap();
        let expected = format!(
            "have names elsewhere too (hard links): 1, such as {}/package;",
            sandbox.name("work")
        );
        assert!(said().contains(&expected), "{}", said());
    });
}

#[test]
fn check_names_a_denied_path_that_does_not_exist() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user).deny_read("~/.shh").options(["--check"]);
        sandbox.dir("home/.ssh");
        sandbox.file("home/.ssh/id", "Secret");
        let outcome = sandbox.run(["true"]);
        outcome.succeeds();
        assert!(outcome.stdout.contains("'~/.shh' does not exist; did you mean '~/.ssh'?"));
        let sandbox = Sandbox::of(user).deny_read("~/.ssh").options(["--check"]);
        sandbox.dir("home/.ssh");
        sandbox.file("home/.ssh/id", "Secret");
        assert!(!sandbox.run(["true"]).stdout.contains("does not exist"));
    });
}

#[test]
fn without_a_policy_the_working_directory_and_a_private_tmpdir_are_writable() {
    tests::for_each_user(|user| {
        let sandbox = Sandbox::of(user).without_policy();
        sandbox.sh("touch made && touch $TMPDIR/made && cat /etc/passwd > /dev/null").succeeds();
        assert!(sandbox.path("work/made").exists());
        sandbox.run(["touch".to_owned(), sandbox.name("outside/made")]).fails();
        let peer = TcpPeer::new();
        sandbox.probe(format!("connect4 127.0.0.1 {}", peer.port())).refused("connect4");
        peer.untouched();
    });
}

#[test]
fn paths_are_relative_to_the_working_directory_and_tilde_is_home() {
    let sandbox = Sandbox::new().allow_write("sub/../open").allow_write("~/data");
    sandbox.dir("work/open");
    sandbox.dir("home/data");
    sandbox.sh("touch open/x ~/data/x").succeeds();
    sandbox.sh("touch ~/x").fails();
    sandbox.sh("touch x").fails();
}

#[test]
fn globs_hold_in_all_lists() {
    let sandbox = Sandbox::new()
        .allow_write("out-*")
        .deny_write("out-a/**/*.lock")
        .deny_read("secrets/[ab]?.key");
    for dir in ["work/out-a", "work/out-b", "work/out-a/deep", "work/secrets"] {
        sandbox.dir(dir);
    }
    sandbox.file("work/out-a/deep/x.lock", "kept");
    sandbox.file("work/secrets/a1.key", "Secret");
    sandbox.file("work/secrets/c1.key", "open");
    sandbox.sh("touch out-b/x && cat secrets/c1.key").succeeds();
    sandbox.sh("cat secrets/a1.key").fails();
    sandbox.sh("echo x > out-a/deep/x.lock").fails();
    sandbox.sh("rm out-a/deep/x.lock").fails();
    assert_eq!(sandbox.read("work/out-a/deep/x.lock"), "kept");
    sandbox.sh("touch out-a/deep/y.lock").fails();
    sandbox.sh("touch other").fails();
}

#[test]
fn the_example_policies_are_valid() {
    for name in ["policy.json", "policy.yaml"] {
        let example = format!("{}/examples/{name}", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(example).unwrap();
        let sandbox = Sandbox::new();
        let policy = sandbox.file(name, text);
        let run = |command: &str| {
            let policy = policy.clone().into_os_string();
            sandbox.landstrip(["-p".into(), policy, "sh".into(), "-c".into(), command.into()])
        };
        run("cat /etc/passwd > /dev/null && touch made").succeeds();
        run("touch /var/landstrip-not-made").fails();
        assert!(sandbox.path("work/made").exists(), "{name}");
        assert!(!std::path::Path::new("/var/landstrip-not-made").exists(), "{name}");
        // The policy itself lies where the command may write.
        run(&format!("echo >> {}", policy.display())).fails();
    }
}

#[test]
fn a_policy_stands_on_the_command_line() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user).without_policy();
        let run = |policy: &str| {
            sandbox.landstrip(["-p", policy, "--", "sh", "-c", "echo x > made; echo x > other"])
        };
        run(r#"{"filesystem":{"allowWrite":["made"]}}"#).fails();
        assert_eq!(sandbox.read("work/made"), "x\n");
        assert!(!sandbox.path("work/other").exists());
        let outcome = run(r#"{"filesystm":{}}"#);
        outcome.is_error(125, "Internal", "unknown key 'filesystm'");
        assert!(outcome.stderr.contains("<argument>"), "{outcome:#?}");
        run("{").is_error(125, "Internal", "<argument>");
        // A file of such a name is one with a slash before.
        sandbox.file("work/{}", r#"{"filesystem":{"allowWrite":["other"]}}"#);
        run("./{}").succeeds();
        assert!(sandbox.path("work/other").exists());
    });
}

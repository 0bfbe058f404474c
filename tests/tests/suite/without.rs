//! `without`: one rule of a preset, or of another policy that is extended, is taken out, and no other.

use tests::{Sandbox, User, for_each_user};

/// What `-p` gets from the text of a policy, in a work tree with some settings.
fn sandbox(user: User, policy: &str) -> Sandbox {
    let sandbox = Sandbox::of(user);
    [".vscode", ".idea"].iter().for_each(|path| drop(sandbox.dir(format!("work/{path}"))));
    for path in [".vscode/settings.json", ".idea/workspace.xml"] {
        sandbox.file(format!("work/{path}"), "");
    }
    sandbox.file("home/.netrc", "secret");
    sandbox.file("home/.pgpass", "secret");
    let policy = sandbox.file("p.yaml", policy);
    sandbox.without_policy().options(["-p", policy.to_str().unwrap()])
}

#[test]
fn a_rule_that_is_taken_out_does_not_hold_and_those_beside_it_do() {
    for_each_user(|user| {
        let policy = "extends: agent\n\
            without:\n  filesystem:\n    denyWrite: [.vscode]\n    denyRead: ~/.netrc\n  environment: {deny: [MYSQL_PWD]}\n";
        let words = [
            ("echo x >.vscode/settings.json", true),
            ("echo x >.idea/workspace.xml", false),
            ("cat ~/.netrc", true),
            ("cat ~/.pgpass", false),
        ];
        let taken_out = sandbox(user, policy);
        let plain = sandbox(user, "extends: agent\n");
        for (script, works) in words {
            let outcome = taken_out.sh(script);
            assert_eq!(outcome.status == Some(0), works, "{outcome:#?}");
            plain.sh(script).fails();
        }
        let variables = |sandbox: Sandbox| {
            let names = ["MYSQL_PWD", "ANTHROPIC_API_KEY", "GITHUB_TOKEN"];
            let sandbox = names.iter().fold(sandbox, |sandbox, name| sandbox.env(*name, *name));
            let script = "echo $MYSQL_PWD $ANTHROPIC_API_KEY $GITHUB_TOKEN";
            sandbox.sh(script).stdout.trim().to_owned()
        };
        assert_eq!(variables(taken_out), "MYSQL_PWD");
        assert_eq!(variables(plain), "");
        let allowed = "extends: agent\nenvironment: {allow: ['*', ANTHROPIC_API_KEY]}\n";
        assert_eq!(variables(sandbox(user, allowed)), "ANTHROPIC_API_KEY");
    });
}

#[test]
fn a_rule_that_the_preset_writes_with_brackets_is_taken_out_by_its_name() {
    for name in [".clinerules/hooks", ".clinerules/[h]ooks"] {
        let policy = format!(
            "extends: agent\nfilesystem: {{allowWrite: [.]}}\nwithout: {{filesystem: {{denyWrite: ['{name}']}}}}\n"
        );
        let script = "mkdir -p .clinerules/hooks && echo x > .clinerules/hooks/made";
        let taken_out = sandbox(User::Caller, &policy);
        taken_out.sh(script).succeeds();
        assert_eq!(taken_out.read("work/.clinerules/hooks/made"), "x\n");
        let plain = sandbox(User::Caller, policy.split("without").next().unwrap());
        let outcome = plain.sh(script);
        outcome.fails();
        let expected = "denied by: filesystem.denyWrite [\"./.clinerules/[h]ooks\"]";
        assert!(outcome.stderr.contains(expected), "{outcome:#?}");
    }
}

/// Only of what the policy itself extends: one beside it keeps its rules.
#[test]
fn another_policy_keeps_its_rules() {
    let policy = "extends: agent\nwithout: {filesystem: {denyWrite: [.vscode]}}\n";
    let script = "echo x >.vscode/settings.json";
    sandbox(User::Caller, policy).sh(script).succeeds();
    sandbox(User::Caller, policy).options(["-p", "agent"]).sh(script).fails();
    let of_its_own = "extends: agent\nfilesystem: {denyWrite: [.vscode]}\n\
        without: {filesystem: {denyWrite: [.vscode]}}\n";
    sandbox(User::Caller, of_its_own).sh(script).fails();
}

#[test]
fn what_takes_nothing_out_is_an_error_that_says_what_to_write() {
    for (policy, words) in [
        (
            "extends: agent\nwithout: {filesystem: {denyWrite: [.vscod]}}",
            "nothing that this policy extends has it in filesystem.denyWrite; did you mean '.vscode'?",
        ),
        ("without: {filesystem: {denyWrite: [.vscode]}}", "nothing that this policy extends"),
        (
            "extends: agent\nwithout: {filesystem: {denyWrite: ['./.vscode']}}",
            "did you mean '.vscode'?",
        ),
        (
            "extends: agent\nwithout: {filesystem: {denyRead: [~/.ssh, ~/.ssh]}}",
            "without.filesystem.denyRead[1]",
        ),
        ("extends: agent\nwithout: {denyWrite: [.vscode]}", "it belongs in filesystem"),
        ("extends: agent\nwithout: {filesystem: {denyWirte: [.vscode]}}", "'denyWrite'"),
        ("extends: agent\nwithout: {network: {allowLocalBinding: true}}", "only items of lists"),
        ("extends: agent\nwithout: {extends: [build]}", "only items of lists"),
        ("extends: agent\nwithout: [.vscode]", "expected an object, found an array"),
    ] {
        let outcome = sandbox(User::Caller, policy).run(["touch", "made"]);
        outcome.is_error(125, "Internal", words);
    }
    sandbox(User::Caller, "extends: agent\nwithout: {filesystem: , network: {}}\n")
        .sh("true")
        .succeeds();
}

#[test]
fn what_was_taken_out_is_named() {
    let policy = "extends: agent\nwithout:\n  filesystem:\n    denyWrite: [.vscode]\n";
    let named = |option: &str| {
        let sandbox = sandbox(User::Caller, policy);
        let mut words = sandbox.command_line();
        words.push(option.into());
        sandbox.run_outside(words).succeeds().stdout.clone()
    };
    let note = "p.yaml:4: without.filesystem.denyWrite[0]: takes '.vscode' out of filesystem.denyWrite of <preset agent>:";
    for option in ["--check", "--explain"] {
        assert!(named(option).contains(note), "{option}: {}", named(option));
    }
}

//! `filesystem.allowWriteInside`: a part of what `denyWrite` names is writable again, and nothing else is by it.

use serde_json::json;
use std::fs;
use std::os::unix::fs::symlink;
use tests::{Sandbox, User, for_each_user};

const POLICY: &str = r#"{"filesystem": {
  "allowWrite": ["."],
  "denyWrite": ["a", "a/b/c"],
  "allowWriteInside": ["a/b", "a/b/c/d", "a/file", "a/missing", "a/gone/too"]
}}"#;

/// A tree in which one directory is denied, one in it opened, one in that denied, and so on.
fn sandbox(user: User) -> Sandbox {
    let sandbox = Sandbox::of(user).policy_json(POLICY);
    for path in ["a", "a/b", "a/b/c", "a/b/c/d", "a/x", "out"] {
        sandbox.dir(format!("work/{path}"));
    }
    for path in ["", "a/", "a/b/", "a/b/c/", "a/b/c/d/", "a/x/"] {
        sandbox.file(format!("work/{path}file"), "before");
    }
    sandbox
}

/// Runs each script in a sandbox of its own, and compares the tree with what it was, and outside.
fn try_each(scripts: &[(&str, bool)]) {
    for_each_user(|user| {
        for (script, works) in scripts {
            let outside = sandbox(user);
            outside.sh_outside(script).succeeds();
            let sandbox = sandbox(user);
            let before = tree(&sandbox);
            let outcome = sandbox.sh(script);
            assert_eq!(outcome.status == Some(0), *works, "{script}: {outcome:#?}");
            let expected = if *works { tree(&outside) } else { before };
            assert_eq!(tree(&sandbox), expected, "{script}: {outcome:#?}");
        }
    });
}

/// All paths, with what they hold.
fn tree(sandbox: &Sandbox) -> Vec<String> {
    let script = "find . ! -type d -printf '%p %l %m ' -exec sh -c 'cat \"$1\" 2>/dev/null | head -c 99' sh {} \\; -printf '\\n' \
                  -o -printf '%p %m/\\n'";
    let mut lines: Vec<String> =
        sandbox.sh_outside(script).succeeds().stdout.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

#[test]
fn the_most_specific_rule_decides() {
    try_each(&[
        ("echo x >file", true),
        ("echo x >a/file", true),
        ("echo x >a/x/file", false),
        ("echo x >a/new", false),
        ("mkdir a/new", false),
        ("echo x >a/b/file", true),
        ("mkdir -p a/b/new/deep && echo x >a/b/new/deep/file", true),
        ("echo x >a/b/c/file", false),
        ("echo x >a/b/c/new", false),
        ("echo x >a/b/c/d/file", true),
        ("echo x >a/b/c/d/new", true),
        ("rm a/b/file", true),
        ("rm a/x/file", false),
        ("chmod 600 a/b/file", true),
        ("chmod 600 a/x/file", false),
        ("chmod 600 a/b/c", false),
        ("mv a/b/file a/b/other", true),
        ("mv a/b/file out/", true),
        ("mv out a/b/", true),
        ("truncate -s 1 a/b/c/d/file", true),
        ("truncate -s 1 a/b/c/file", false),
    ]);
}

/// What is denied has its names and content afterwards, whatever else was done.
#[test]
fn nothing_denied_becomes_writable_by_another_name() {
    for_each_user(|user| {
        for script in [
            // Away, from below and from above.
            "mv a/b out/b",
            "mv a out/a",
            "mv a/b/c a/b/other",
            "mv a/b/c/d out/",
            "mv a/x/file a/b/",
            "mv a/x a/b/",
            "rm -r a/b",
            // Others in their place.
            "mv out a/b/c/e",
            "mv out a/b/ && mv -T a/b/out a/b/c",
            "mv -T --exchange out a/b || python3 -c 'import ctypes; exit(ctypes.CDLL(None).renameat2(-100, b\"out\", -100, b\"a/b\", 2))'",
            "mv file a/file",
            "rm a/file",
            "ln -f a/x/file a/file",
            // Through links.
            "rmdir out && ln -s a/x out && echo x >out/file",
            "ln -s ../x a/b/link && echo x >a/b/link/file",
            "ln -s ../../x a/b/c/d/link && touch a/b/c/d/link/new",
            "ln a/x/file a/b/hard && echo x >a/b/hard",
            "ln a/x/file out/hard && echo x >out/hard",
            "ln a/b/c/file a/b/hard && echo x >a/b/hard",
            "cd a/b && echo x >../x/file",
            "exec 3<a/x; echo x >/proc/self/fd/3/file",
        ] {
            let sandbox = sandbox(user);
            let denied = |sandbox: &Sandbox| {
                let script = "stat -c '%n %i' a a/x a/b/c a/b a/b/c/d; stat -c '%n %i %h' a/file; cat a/x/file a/b/c/file; ls a a/x a/b/c";
                sandbox.sh_outside(script).succeeds().stdout.clone()
            };
            let before = denied(&sandbox);
            sandbox.sh(script).fails();
            assert_eq!(denied(&sandbox), before, "{script}");
        }
    });
}

#[test]
fn what_is_opened_and_missing_can_be_made_and_what_leads_to_it_cannot() {
    for script in ["echo x >a/missing", "mkdir a/missing && echo x >a/missing/file"] {
        try_each(&[(script, true)]);
    }
    try_each(&[
        ("ln -s x a/missing", false),
        ("ln a/x/file a/missing", false),
        ("mkdir -p a/gone/too", false),
        ("mkdir a/gone", false),
        ("echo x >a/missing2", false),
    ]);
}

/// A link that an earlier run made, under this policy or a wider one, opens nothing where it leads.
#[test]
fn a_link_in_what_may_be_written_is_not_followed_to_open() {
    let sandbox = Sandbox::new().policy_json(
        r#"{"filesystem": {"allowWrite": ["."], "denyWrite": ["a"], "allowWriteInside": ["a/b/c"]}}"#,
    );
    for path in ["a", "a/b", "a/x"] {
        sandbox.dir(format!("work/{path}"));
    }
    symlink("../x", sandbox.path("work/a/b/c")).unwrap();
    sandbox.run(["touch", "made"]).is_error(125, "Internal", "name ");
    assert!(!sandbox.path("work/made").exists());
    fs::remove_file(sandbox.path("work/a/b/c")).unwrap();
    sandbox.dir("work/a/b/c");
    sandbox.run(["touch", "a/b/c/made"]).succeeds();
}

#[test]
fn globs_open_what_is_there_and_stay_closed_where_a_glob_denies_further_inside() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user).policy_json(
            r#"{"filesystem": {"allowWrite": ["."], "denyWrite": ["a", "**/*.key"], "allowWriteInside": ["a/*/open"]}}"#,
        );
        for path in ["a", "a/1", "a/1/open", "a/1/other", "a/2"] {
            sandbox.dir(format!("work/{path}"));
        }
        sandbox.sh("touch a/1/open/new").succeeds();
        sandbox.sh("touch a/1/open/new.key").fails();
        sandbox.sh("touch a/1/other/new").fails();
        sandbox.sh("mkdir a/2/open").fails();
    });
}

/// What protects landstrip, and what may not be read, nothing opens; and nothing opens what no rule allows.
#[test]
fn only_what_denies_by_the_same_list_is_opened() {
    let text = r#"{"filesystem": {"allowWrite": ["."], "denyWrite": ["a"], "denyRead": ["a/secret"],
        "allowWriteInside": ["a", "p.json", "a/secret", "../outside"]}}"#;
    let sandbox = Sandbox::new();
    let policy = sandbox.file("work/p.json", text);
    sandbox.dir("work/a");
    sandbox.dir("work/a/secret");
    let sandbox = sandbox.without_policy().options(["-p", policy.to_str().unwrap()]);
    for path in ["p.json", "a/new", "a/secret/new", "../outside/new"] {
        sandbox.run(["touch", path]).fails();
        sandbox.sh(&format!("echo >>{path}")).fails();
    }
    sandbox.run(["touch", "new"]).succeeds();
    assert_eq!(fs::read_to_string(policy).unwrap(), text);
}

#[test]
fn check_and_explain_name_what_is_opened_and_what_opens_nothing() {
    let policy = POLICY.replace("\"a/gone/too\"", "\"a\", \"out\"");
    let sandbox = sandbox(User::Caller).policy_json(policy);
    let said = |words: &[&str]| {
        let mut line = sandbox.command_line();
        line.extend(words.iter().map(Into::into));
        sandbox.run_outside(line).succeeds().stdout.clone()
    };
    let check = said(&["--check"]);
    let work = sandbox.path("work").canonicalize().unwrap();
    let work = work.display();
    for line in [
        format!("filesystem.allowWriteInside[0]: opens {work}/a/b again inside {work}/a"),
        format!(
            "filesystem.allowWriteInside[4]: {work}/a: opens nothing: denyWrite names the same path"
        ),
        format!(
            "filesystem.allowWriteInside[5]: {work}/out: opens nothing: no denyWrite denies what is around it"
        ),
    ] {
        assert!(check.contains(&line), "{line}\n{check}");
    }
    assert!(said(&["--explain=full"]).contains(&format!("{work}/a/b")));
    let answers: serde_json::Value =
        serde_json::from_str(&said(&["--explain=json", "a/b/file", "a/x/file"])).unwrap();
    let rule = |subject: usize| {
        let answers = answers["answers"][subject]["answers"].as_array().unwrap();
        let write = answers.iter().find(|answer| answer["action"] == "write").unwrap();
        (write["allowed"].clone(), write["rule"]["field"].clone())
    };
    assert_eq!(rule(0), (json!(true), json!("filesystem.allowWriteInside[0]")));
    assert_eq!(rule(1), (json!(false), json!("filesystem.denyWrite[0]")));
}

/// Beside what may not be read, Landlock grants nothing to what is made at an opened path that was missing.
#[test]
fn what_is_made_at_an_opened_path_is_read_whether_reads_are_watched_or_not() {
    for_each_user(|user| {
        for watched in [true, false] {
            let sandbox = Sandbox::of(user).policy_json(format!(
                r#"{{"filesystem": {{"allowWrite": ["."], "denyWrite": ["a"], "denyRead": ["a/secret"],
                    "allowWriteInside": ["a/made", "a/file"]}}, "report": {{"reads": {watched}}}}}"#
            ));
            sandbox.dir("work/a");
            sandbox.file("work/a/secret", "Secret");
            sandbox.file("work/a/beside", "beside ");
            let script = "cat a/beside; mkdir a/made; echo made >a/made/x; cat a/made/x; ls a/made; echo file >a/file; \
                          cat a/file; cat a/secret; echo no >a/beside; ls a | wc -l";
            let outcome = sandbox.sh(script);
            assert_eq!(outcome.stdout, "beside made\nx\nfile\n4\n", "{watched}: {outcome:#?}");
            assert_eq!(sandbox.read("work/a/beside"), "beside ");
        }
    });
}

//! What runs with `report.keep` were refused, what `--denials` says of it, and who can get at it: no sandbox.

use serde_json::Value;
use tests::{ESCAPED, Sandbox, User, for_each_user};

/// Where the state of programs is, in the world of a sandbox.
const STATE: &str = "home/.local/state";

/// One whose policy has these members besides, and that keeps what is refused.
fn keeping(user: User, members: &str) -> Sandbox {
    let comma = if members.is_empty() { "" } else { "," };
    let policy = format!(r#"{{"report": {{"keep": true}}{comma}{members}}}"#);
    Sandbox::of(user).policy_json(policy)
}

fn entries(sandbox: &Sandbox) -> Vec<Value> {
    let listed = sandbox.landstrip(["--denials=json"]);
    listed.succeeds();
    listed.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn what_is_refused_is_kept_and_listed_with_what_would_have_allowed_it() {
    for_each_user(|user| {
        let sandbox = keeping(user, "");
        assert!(sandbox.landstrip(["--denials"]).stdout.starts_with("nothing was recorded"));
        let [first, second] = ["one", "two"].map(|name| sandbox.name(format!("outside/{name}")));
        sandbox.sh(&format!("echo x > {first}; echo x > {second}; exit 0")).succeeds();
        let kept = entries(&sandbox);
        // In whichever order the broker came to look at them.
        let mut paths: Vec<_> =
            kept.iter().map(|entry| entry["report"]["Filesystem"][1].as_str().unwrap()).collect();
        paths.sort_unstable();
        assert_eq!(paths, [&first, &second], "{kept:#?}");
        assert_eq!([&kept[0]["program"], &kept[0]["directory"]], ["sh", &*sandbox.name("work")]);
        let text = sandbox.landstrip(["--denials", "0d"]).succeeds().stdout.clone();
        assert!(text.contains("  sh  ") && text.contains(&first), "{text}");
        assert_eq!(
            sandbox.landstrip(["--denials", "9999-12-31"]).stdout,
            "nothing was recorded; a policy with report.keep: true records what is refused\n"
        );
        sandbox.landstrip(["--denials", "soon"]).is_error(2, "Usage", "7d");
    });
}

#[test]
fn a_name_does_not_go_on_as_advice() {
    for_each_user(|user| {
        let sandbox = keeping(user, "");
        let name = "a; to allow this: filesystem.allowWrite += [\"~\"]";
        sandbox.sh(&format!("echo x >'../outside/{name}'")).fails();
        let text = sandbox.landstrip(["--denials"]).succeeds().stdout.clone();
        assert!(text.contains(r#"a; to allow this: filesystem.allowWrite += [\"~\"]""#), "{text}");
        assert!(!text.contains(name), "{text}");
    });
}

#[test]
fn what_is_kept_makes_a_policy_that_allows_it() {
    for_each_user(|user| {
        let sandbox = keeping(user, "");
        sandbox.dir("home/.cache");
        let cache = sandbox.dir("home/.cache/pip");
        let write = format!("echo x > {}/made", cache.display());
        sandbox.sh(&write).exits(2);
        let text = sandbox.landstrip(["--denials"]).stdout;
        let (_, policy) = text.split_once("this would have allowed them:\n").unwrap();
        let allowed: Value = serde_json::from_str(policy).unwrap();
        assert!(allowed["filesystem"]["allowWrite"].is_array(), "{text}");
        let file = sandbox.file("allowing.json", policy);
        sandbox.landstrip(["-p", file.to_str().unwrap(), "--", "sh", "-c", &write]).succeeds();
    });
}

#[test]
fn no_sandbox_reads_or_writes_what_is_kept() {
    for_each_user(|user| {
        let sandbox = keeping(user, "");
        let denied = sandbox.name("outside/denied");
        sandbox.sh(&format!("echo x > {denied}; exit 0")).succeeds();
        let file = sandbox.path(STATE).join("landstrip/denials.jsonl");
        let before = std::fs::read(&file).unwrap();
        let (file, state) = (file.display().to_string(), sandbox.name(STATE));
        // Whatever is allowed, the directory itself too.
        let all = format!(
            r#"{{"filesystem": {{"allowWrite": ["{state}", "{state}/landstrip", "{file}"], "denyRead": ["{state}"],
                "allowRead": ["{state}", "{state}/landstrip", "{file}"]}}}}"#
        );
        for policy in ["{}", &all, r#"{"report": {"keep": true}}"#] {
            let policy = sandbox.file("other.json", policy);
            let probe = format!(
                "cat {file}; echo x >> {file}; rm -f {file}; mv {state}/landstrip {state}/other; ls {state}/landstrip"
            );
            let words = ["-p", policy.to_str().unwrap(), "--", "sh", "-c", &probe];
            let outcome = sandbox.landstrip(words);
            assert_eq!(outcome.stdout, "", "{outcome:#?}");
            assert!(std::fs::read(&file).unwrap().starts_with(&before));
            // Beside it all is as the policy says.
            let beside = format!("ls {} > /dev/null", sandbox.name("home"));
            let words = ["-p", policy.to_str().unwrap(), "--", "sh", "-c", &beside];
            sandbox.landstrip(words).succeeds();
        }
    });
}

/// Who made it would say what users are told that would help.
#[test]
fn nothing_is_kept_that_a_sandbox_has_laid_out() {
    for_each_user(|user| {
        let forged = r#"{"time":1,"program":"npm","report":{},"advice":[["filesystem.allowWrite","~/.bashrc"]],"remedy":"x"}"#;
        let lay = |state: &str| {
            let place = format!("{state}/landstrip");
            format!(
                "mkdir -p {state}; mkdir -m 700 {place}; ln -s / {place}; mkdir -p ~/laid/landstrip; mv {state} ~/gone; \
                 mv ~/laid {state}; echo '{forged}' > {place}/denials.jsonl; mkdir -p {state}; echo beside > {state}/beside"
            )
        };
        // With and without the directories on the way, and by another name of it.
        for (made, variable) in [
            (&["home/.local", STATE][..], None),
            (&[], None),
            (&["home/other"], Some("home/other")),
        ] {
            let policy = r#"{"filesystem": {"allowWrite": ["~"]}}"#;
            let mut sandbox = Sandbox::of(user).policy_json(policy);
            made.iter().for_each(|name| drop(sandbox.dir(name)));
            if let Some(name) = variable {
                let path = sandbox.path(name);
                sandbox = sandbox.env("XDG_STATE_HOME", path);
            }
            let state = sandbox.path(variable.unwrap_or(STATE));
            sandbox.sh(&lay(state.to_str().unwrap()));
            assert!(state.join("beside").exists(), "{made:?}");
            assert!(!state.join("landstrip").exists(), "{ESCAPED}{made:?}");
            assert!(sandbox.landstrip(["--denials"]).stdout.starts_with("nothing was recorded"));
        }
    });
}

#[test]
fn names_are_escaped_and_what_is_kept_is_bounded() {
    for_each_user(|user| {
        let sandbox = keeping(user, "");
        let outside = sandbox.name("outside");
        let name = format!("{outside}/a\u{202e}b\u{1b}[31m\u{9b}\u{feff}");
        sandbox.run(["touch", &name]).exits(1);
        let json = sandbox.landstrip(["--denials=json"]).stdout;
        assert!(!json.contains(['\u{202e}', '\u{1b}', '\u{9b}', '\u{feff}']), "{json:?}");
        let entry: Value = serde_json::from_str(&json).unwrap();
        assert_eq!(entry["report"]["Filesystem"][1], name);
        let text = sandbox.landstrip(["--denials"]).stdout;
        assert!(text.contains("a\\u202eb\\u001b[31m"), "{text:?}");
        sandbox.sh(&format!("for i in $(seq 300); do echo > {outside}/$i; done; exit 0"));
        assert_eq!(entries(&sandbox).len(), 257);
        // A full file becomes the older one.
        let newer = sandbox.path(STATE).join("landstrip/denials.jsonl");
        let older = newer.with_file_name("denials.old.jsonl");
        std::fs::File::options().write(true).open(&newer).unwrap().set_len(1 << 20).unwrap();
        sandbox.sh(&format!("echo > {outside}/last; exit 0"));
        assert_eq!(std::fs::metadata(&older).unwrap().len(), 1 << 20);
        assert_eq!(std::fs::read_to_string(&newer).unwrap().lines().count(), 1);
    });
}

#[test]
fn a_place_that_is_not_the_users_alone_is_not_used() {
    for_each_user(|user| {
        let sandbox = keeping(user, "");
        let elsewhere = sandbox.dir("elsewhere");
        sandbox.dir("home/.local");
        sandbox.dir(STATE);
        std::os::unix::fs::symlink(&elsewhere, sandbox.path(STATE).join("landstrip")).unwrap();
        let outcome = sandbox.sh("echo x > ../outside/denied; exit 0");
        outcome.succeeds();
        assert!(outcome.stderr.contains("cannot record"), "{outcome:#?}");
        assert_eq!(std::fs::read_dir(elsewhere).unwrap().count(), 0);
    });
}

#[test]
fn what_a_policy_ignores_is_refused_without_a_report() {
    for_each_user(|user| {
        let sandbox = keeping(
            user,
            r#""ignoreViolations": {"*": ["/outside/quiet"], "touch": ["/outside/one"], "rm": [""]}"#,
        );
        let outside = sandbox.name("outside");
        for (script, expected) in [
            (format!("touch {outside}/quiet {outside}/one {outside}/other"), 1),
            (format!("echo > {outside}/quiet; echo > {outside}/one; echo > {outside}/other"), 2),
            (format!("rm -f {outside}/quiet; mkdir {outside}/other"), 1),
        ] {
            let outcome = sandbox.sh(&format!("{script}; exit 1"));
            assert_eq!(outcome.reports_of("Filesystem").len(), expected, "{outcome:#?}");
            assert!(std::fs::read_dir(sandbox.path("outside")).unwrap().next().is_none());
        }
        assert_eq!(entries(&sandbox).len(), 4);
    });
}

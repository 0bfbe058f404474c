//! Questions: what no rule allows waits for an answer, and only what was answered is done.

use serde_json::json;
use std::fs;
use tests::{Sandbox, for_each_user};

/// A sandbox whose home has a cache that no rule allows.
fn sandbox(user: tests::User) -> Sandbox {
    let sandbox = Sandbox::of(user).allow_write(".").deny_write("../home/.npm/denied");
    sandbox.dir("home/.npm");
    sandbox
}

#[test]
fn a_call_waits_and_is_done_once_if_the_answer_is_once() {
    for_each_user(|user| {
        let sandbox = sandbox(user);
        let script = "echo one > ~/.npm/a && echo two > ~/.npm/b";
        let (running, mut questions) = sandbox.ask(["sh", "-c", script]);
        let line = questions.line().unwrap();
        assert_eq!(line["report"]["Filesystem"][1], sandbox.name("home/.npm/a"), "{line}");
        assert_eq!(line["advice"], json!(["filesystem.allowWrite", "~/.npm"]), "{line}");
        assert_eq!(line["arguments"], json!(["sh", "-c", script]), "{line}");
        assert_eq!(line["directory"], sandbox.name("work"), "{line}");
        assert!(!sandbox.path("home/.npm/a").exists());
        questions.settle(line["ask"].as_u64().unwrap(), "once");
        let second = questions.expect("write", &sandbox.name("home/.npm/b"));
        assert_eq!(sandbox.read("home/.npm/a"), "one\n");
        questions.settle(second, "deny");
        let outcome = running.wait();
        outcome.fails();
        assert!(!sandbox.path("home/.npm/b").exists());
        assert_eq!(outcome.reports_of("Filesystem").len(), 1, "{outcome:#?}");
    });
}

#[test]
fn a_rule_for_the_run_covers_what_comes_later_and_no_deny_rule() {
    for_each_user(|user| {
        let sandbox = sandbox(user);
        let script = "mkdir ~/.npm/d && echo x > ~/.npm/d/f && cat ~/.npm/d/f && mv ~/.npm/d/f ~/.npm/g \
            && rm ~/.npm/g && chmod 700 ~/.npm/d && echo bad > ~/.npm/denied";
        let (running, mut questions) = sandbox.ask(["sh", "-c", script]);
        let number = questions.expect("write", &sandbox.name("home/.npm/d"));
        questions.settle(number, "run");
        questions.then(&json!({ "granted": ["filesystem.allowWrite", "~/.npm"] }));
        assert_eq!(questions.line(), None, "a deny rule is nothing to ask about");
        running.wait().fails();
        assert_eq!(fs::read_dir(sandbox.path("home/.npm")).unwrap().count(), 1);
    });
}

#[test]
fn what_is_denied_is_not_asked_again() {
    for_each_user(|user| {
        let sandbox = sandbox(user);
        let script = "for i in 1 2 3; do echo x > ~/.npm/a; done; echo other > ~/notes";
        let (running, mut questions) = sandbox.ask(["sh", "-c", script]);
        let number = questions.expect("write", &sandbox.name("home/.npm/a"));
        questions.settle(number, "deny");
        let number = questions.expect("write", &sandbox.name("home/notes"));
        questions.settle(number, "once");
        assert_eq!(questions.line(), None);
        running.wait().succeeds();
        assert!(!sandbox.path("home/.npm/a").exists());
        assert_eq!(sandbox.read("home/notes"), "other\n");
    });
}

#[test]
fn what_a_rule_denies_or_none_may_grant_is_not_asked() {
    for_each_user(|user| {
        let sandbox = sandbox(user).deny_read("../home/.npm/secret");
        sandbox.file("home/.npm/secret", "kept");
        let script = "echo x > ~/.npm/denied; echo x > ~/.npm/secret; cat ~/.npm/secret; echo x > ~/.bashrc; \
            mkdir ~/bin; echo x > /tmp/landstrip-asked; echo x > ~/notes";
        let (running, mut questions) = sandbox.ask(["sh", "-c", script]);
        let number = questions.expect("write", &sandbox.name("home/notes"));
        questions.settle(number, "once");
        assert_eq!(questions.line(), None);
        running.wait().succeeds();
        assert_eq!(sandbox.read("home/notes"), "x\n");
        assert_eq!(fs::read_dir(sandbox.path("home")).unwrap().count(), 2);
    });
}

#[test]
fn every_kind_of_change_can_be_asked_about() {
    for_each_user(|user| {
        let sandbox = sandbox(user);
        let npm = sandbox.dir("home/.npm/x");
        for name in ["old", "gone", "size", "mode", "time", "attribute"] {
            sandbox.file(npm.join(name), "some text");
        }
        sandbox.dir("home/.npm/x/empty");
        sandbox.file("work/mine", "mine");
        for (call, name) in [
            ("file write @/old", "old"),
            ("file creat @/new", "new"),
            ("file mkdir @/directory", "directory"),
            ("file rmdir @/empty", "empty"),
            ("file unlink @/gone", "gone"),
            ("file rename mine @/moved", "moved"),
            ("file symlink mine @/symbolic", "symbolic"),
            ("file truncate @/size", "size"),
            ("file mkfifo @/fifo", "fifo"),
            ("meta chmod @/mode", "mode"),
            ("meta utimensat @/time", "time"),
            ("meta setxattr @/attribute", "attribute"),
        ] {
            let words = Sandbox::probe_words(&call.replace('@', npm.to_str().unwrap()));
            for answer in ["deny", "once"] {
                let (running, mut questions) = sandbox.ask(words.clone());
                let number = questions.expect("write", npm.join(name).to_str().unwrap());
                questions.settle(number, answer);
                assert_eq!(questions.line(), None, "{call}");
                let outcome = running.wait();
                match answer {
                    "deny" => outcome.all_refused(),
                    _ => outcome.all_allowed(),
                };
            }
        }
    });
}

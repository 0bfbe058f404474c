//! Questions: what no rule allows waits for an answer, and only what was answered is done.

mod always;
mod hosts;
mod parked;
mod sockets;
mod terminal;
mod watch;

use nix::sys::signal::Signal;
use serde_json::json;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use tests::{ESCAPED, Sandbox, for_each_user};

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

/// As by the same rule in a policy that extends `agent`.
#[test]
fn what_is_granted_is_nothing_that_tools_obey_in_it() {
    for_each_user(|user| {
        let sandbox = sandbox(user);
        let script = "mkdir -p ~/new/.git ~/new/sub ~/new/.vscode; echo x > ~/new/.envrc; echo x > ~/new/.git; \
            echo x > ~/new/sub/made; ls -A ~/new";
        let (running, mut questions) = sandbox.ask(["sh", "-c", script]);
        let number = questions.expect("write", &sandbox.name("home/new"));
        questions.settle(number, "run");
        let granted = questions.line();
        assert!(granted.is_some_and(|line| line.to_string().contains("~/new")));
        assert_eq!(questions.line(), None);
        assert_eq!(running.wait().stdout, "sub\n");
        assert_eq!(sandbox.read("home/new/sub/made"), "x\n");
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
        for name in ["old", "gone", "away", "size", "mode", "time", "attribute"] {
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
            ("file rename @/away away", "away"),
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

/// By a link it could be written without a question, in this run and later ones.
#[test]
fn what_may_be_written_once_gets_no_other_name() {
    for_each_user(|user| {
        let sandbox = sandbox(user);
        sandbox.file("home/.npm/a", "precious\n");
        let (running, mut questions) = sandbox.ask([
            "sh",
            "-c",
            "ln ~/.npm/a linked; echo evil >> linked; mv ~/.npm/a moved; cat moved; ln moved ~/.npm/b",
        ]);
        for name in ["home/.npm/a", "home/.npm/a", "home/.npm/b"] {
            let number = questions.expect("write", &sandbox.name(name));
            questions.settle(number, "once");
        }
        let outcome = running.wait();
        assert_eq!(outcome.stdout, "precious\n", "{outcome:#?}");
        assert_eq!(sandbox.read("work/linked"), "evil\n");
        assert!(!sandbox.path("home/.npm/b").exists());
    });
}

/// Moves as its words say, each answered with the first one, and says whether it could.
const MOVE: &str = "import ctypes, os, sys
old, new = (os.path.expanduser(word).encode() for word in sys.argv[1:3])
move = ctypes.CDLL(None, use_errno=True).renameat2
print(move(-100, old, -100, new, int(sys.argv[3])) == 0)";

/// Answers all questions of the run: the first with `first`, and `then`.
fn answer_all(questions: &mut tests::Questions, first: &str, then: &str) {
    let mut answer = first;
    while let Some(line) = questions.line() {
        if let Some(number) = line["ask"].as_u64() {
            questions.answer(number, answer);
            answer = then;
        }
    }
}

/// Landlock heeds the rule of a directory wherever it is moved, with all beneath; and a second name would be left.
#[test]
fn what_a_rename_is_permitted_once_brings_no_right_along() {
    for_each_user(|user| {
        for (old, new, flags, is_done) in [
            ("in/made", "~/.npm/x", "0", false),
            ("in/old", "~/.npm/x", "0", false),
            ("in/old", "~/.npm/full", "2", false),
            // Granted by itself at launch.
            ("in/granted", "~/.npm/x", "0", false),
            ("in/new", "~/.npm/x", "1", false),
            ("in/new", "~/.npm/file", "0", false),
            ("link", "~/.npm/x", "0", false),
            ("~/.npm/file", "~/.npm/file", "0", true),
            ("~/.npm/file", "in/x", "0", true),
            ("~/.npm/linked", "in/x", "0", false),
            ("~/.npm/full", "in/x", "0", false),
        ] {
            // So that all else in there is granted by itself.
            let sandbox = sandbox(user).deny_write("in/denied");
            for directory in ["work/in", "work/in/old", "work/in/denied", "home/.npm/full"] {
                sandbox.dir(directory);
            }
            for file in ["home/.npm/full/f", "home/.npm/file", "work/other", "work/in/granted"] {
                sandbox.file(file, "before");
            }
            sandbox.sh_outside("ln ~/.npm/full/f ~/.npm/linked").succeeds();
            let script = format!(
                "mkdir in/made; echo new > in/new; ln -s other link
                 python3 -c '{MOVE}' {old} {new} {flags}; cd {new} 2>/dev/null || exit 0
                 (echo x > f; mkdir .vscode; echo x > .vscode/tasks.json) 2>/dev/null; true"
            );
            let (running, mut questions) = sandbox.ask(["sh", "-c", &script]);
            answer_all(&mut questions, "once", "deny");
            let outcome = running.wait();
            let what = format!("{old} {new} {flags}: {outcome:#?}");
            assert_eq!(outcome.stdout, if is_done { "True\n" } else { "False\n" }, "{what}");
            assert!(!sandbox.path("home/.npm/x/f").exists(), "{ESCAPED}: {what}");
            assert!(!sandbox.path("home/.npm/full/.vscode").exists(), "{ESCAPED}: {what}");
            assert_eq!(sandbox.read("home/.npm/full/f"), "before", "{what}");
            let file = if is_done && new == "in/x" { "work/in/x" } else { "home/.npm/file" };
            assert_eq!(sandbox.read(file), "before", "{what}");
            let left = sandbox.sh_outside("find ~/.npm -name '.landstrip*'");
            assert_eq!(left.stdout, "", "{what}");
        }
    });
}

/// To be written, or read, by its new one.
#[test]
fn what_a_rule_denies_is_moved_by_no_other_name_either() {
    for_each_user(|user| {
        for (old, answer, is_done) in [
            ("out/alias", "once", false),
            ("out/alias", "run", false),
            ("out/d", "once", false),
            ("out/d", "run", false),
            ("out/plain", "once", true),
            ("out/plain", "run", true),
        ] {
            let sandbox = Sandbox::of(user).allow_write("in").deny_write("den/secret");
            for directory in ["work/in", "work/out", "work/out/d", "work/den"] {
                sandbox.dir(directory);
            }
            sandbox.file("work/den/secret", "precious");
            sandbox.file("work/out/plain", "plain");
            sandbox.sh_outside("ln den/secret out/alias; ln den/secret out/d/alias").succeeds();
            let script = format!(
                "python3 -c '{MOVE}' {old} in/b 0; (echo x > in/b || echo x > in/b/alias) 2>/dev/null; true"
            );
            let (running, mut questions) = sandbox.ask(["sh", "-c", &script]);
            answer_all(&mut questions, answer, answer);
            let outcome = running.wait();
            assert_eq!(outcome.stdout, if is_done { "True\n" } else { "False\n" }, "{outcome:#?}");
            assert_eq!(sandbox.read("work/den/secret"), "precious", "{ESCAPED}: {outcome:#?}");
        }
    });
}

/// The same policy would write where it leads in the next run.
#[test]
fn no_answer_lets_a_link_come_to_lie_at_an_allowed_path_or_above() {
    for_each_user(|user| {
        for (attack, link) in [
            ("rmdir ~/.npm/cache && ln -s ../../outside ~/.npm/cache", "home/.npm/cache"),
            (
                "rmdir ~/.npm/cache && ln -s ../../outside l && mv -T l ~/.npm/cache",
                "home/.npm/cache",
            ),
            ("mv ~/.npm moved; ln -s ../outside ~/.npm", "home/.npm"),
            (
                "rmdir ~/.npm/cache ~/.npm; mkdir ~/.npm; ln -s ../../outside ~/.npm/cache",
                "home/.npm/cache",
            ),
        ] {
            for answer in ["once", "run"] {
                let sandbox = Sandbox::of(user).allow_write(".").allow_write("../home/.npm/cache");
                sandbox.dir("home/.npm");
                sandbox.dir("home/.npm/cache");
                let (running, mut questions) = sandbox.ask(["sh", "-c", attack]);
                answer_all(&mut questions, answer, answer);
                let outcome = running.wait();
                let path = sandbox.path(link);
                assert!(!path.is_symlink(), "{ESCAPED}: {attack} {answer}: {outcome:#?}");
            }
        }
        let sandbox = sandbox(user);
        let (running, mut questions) = sandbox.ask(["ln", "-s", "../outside", "../home/.npm/x"]);
        answer_all(&mut questions, "once", "deny");
        running.wait().succeeds();
        assert!(sandbox.path("home/.npm/x").is_symlink());
    });
}

#[test]
fn a_flood_of_questions_has_an_end_and_delays_nobody() {
    const ALL: usize = 80;
    const OPEN: usize = 64;
    for_each_user(|user| {
        let sandbox = sandbox(user);
        let script = format!(
            "for i in $(seq {ALL}); do (echo x > ~/file$i || echo refused) 2>/dev/null & done; \
             until [ -e go ]; do sleep 0.01; done; echo x > fast && echo fast; wait"
        );
        let (mut running, mut questions) = sandbox.ask(["sh", "-c", &script]);
        let mut open = Vec::new();
        for _ in 0..OPEN {
            open.push(questions.line().unwrap()["ask"].as_u64().unwrap());
        }
        let refused = |running: &tests::Running| running.stdout().matches("refused").count();
        assert!(tests::eventually(|| refused(&running) == ALL - OPEN), "{running:#?}");
        sandbox.file("work/go", "");
        running.expect("fast");
        for number in open {
            questions.settle(number, "deny");
        }
        assert_eq!(questions.line(), None);
        assert_eq!(running.wait().stdout.matches("refused").count(), ALL);
        assert_eq!(fs::read_dir(sandbox.path("home")).unwrap().count(), 1);
    });
}

#[test]
fn only_the_first_answer_counts_and_only_to_its_question() {
    for_each_user(|user| {
        let sandbox = sandbox(user);
        let script = "echo x > ~/a; echo x > ~/b; echo x > ~/c";
        let (running, mut questions) = sandbox.ask(["sh", "-c", script]);
        let first = questions.expect("write", &sandbox.name("home/a"));
        questions.answer(first + 1, "once");
        questions.answer(0, "run");
        questions.answer(u64::MAX, "once");
        questions.settle(first, "deny");
        questions.answer(first, "once");
        let second = questions.expect("write", &sandbox.name("home/b"));
        questions.answer(first, "run");
        questions.send(b"{\"ask\":2,\"answer\":\"yes\"}\nonce\n");
        for _ in 0..2 {
            let line = questions.line().unwrap();
            assert!(line["refused"][0].is_string() && line["refused"][1].is_null(), "{line}");
        }
        questions.settle(second, "once");
        let third = questions.expect("write", &sandbox.name("home/c"));
        questions.settle(third, "deny");
        assert_eq!(questions.line(), None);
        running.wait().fails();
        let is_there = |name: &str| sandbox.path("home").join(name).exists();
        assert_eq!(["a", "b", "c"].map(is_there), [false, true, false]);
    });
}

/// Each is refused as an answer and as a grant; what was asked is granted instead.
#[test]
fn no_rule_is_added_that_reaches_more_than_people_can_mean() {
    for_each_user(|user| {
        let sandbox = sandbox(user);
        sandbox.dir("home/.ssh");
        sandbox.dir("home/bin");
        let wider = [
            "/",
            "/etc",
            "/usr",
            "/usr/bin",
            "/tmp",
            "/dev",
            "/dev/shm",
            "/proc",
            "/proc/sys",
            "/sys",
            "/var",
            "/root",
            "~",
            "~/",
            "~/..",
            "~/*",
            "~/.ssh",
            "~/.bashrc",
            "~/.config",
            "~/.local/bin/x",
            "~/bin",
            "~/.npm/denied",
            "~/.npm/../.ssh",
            "~/.npm/denied/inside",
            ".",
            "..",
            "",
            "~other",
            "$HOME",
        ];
        let (running, mut questions) =
            sandbox.ask(["sh", "-c", "echo x > ~/.npm/a; echo x > ~/.npm/denied"]);
        let number = questions.expect("write", &sandbox.name("home/.npm/a"));
        let refused = |line: &serde_json::Value, value: &str| {
            assert_eq!(line["refused"][1], value, "{line}");
            assert!(line["refused"][2].is_string(), "{line}");
        };
        for value in wider {
            questions.say(&json!({ "grant": ["filesystem.allowWrite", value] }));
            refused(&questions.line().unwrap(), value);
        }
        for (key, value) in [
            ("filesystem.allowRead", "/etc"),
            ("filesystem.allowWriteInside", "~/.npm/denied"),
            ("network.allowNetwork", "true"),
            ("extends", "/tmp/x"),
            ("filesystem", "x"),
            ("without", "filesystem.denyWrite"),
        ] {
            questions.say(&json!({ "grant": [key, value] }));
            refused(&questions.line().unwrap(), value);
        }
        questions.say(&json!({ "ask": number, "answer": "run", "rule": ["filesystem.allowWrite", "~/notes"] }));
        questions.settled(number, "answered");
        refused(&questions.line().unwrap(), "~/notes");
        questions.then(&json!({ "granted": ["filesystem.allowWrite", "~/.npm"] }));
        assert_eq!(questions.line(), None);
        running.wait().fails();
        assert_eq!(fs::read_dir(sandbox.path("home/.npm")).unwrap().count(), 1);
    });
}

#[test]
fn what_a_rule_denies_stays_so_by_every_name_in_what_was_granted() {
    for_each_user(|user| {
        let sandbox = sandbox(user).deny_read("../home/.npm/secret");
        sandbox.file("home/.npm/denied", "kept");
        sandbox.file("home/.npm/secret", "kept");
        fs::hard_link(sandbox.path("home/.npm/denied"), sandbox.path("home/.npm/link")).unwrap();
        let script = "cd ~/.npm; echo mine > mine && mkdir d && echo granted; \
            for name in denied link; do echo bad > $name; truncate -s 0 $name; chmod 777 $name; done; \
            mv denied x; rm -f denied; ln denied y; mv mine denied; ln -sf mine denied; cp mine denied; \
            mv secret x; ln secret y; cat secret; cd ..; mv .npm other; true";
        let (running, mut questions) = sandbox.ask(["sh", "-c", script]);
        let number = questions.expect("write", &sandbox.name("home/.npm/mine"));
        questions.answer(number, "run");
        questions.settled(number, "answered");
        // What else is asked is none of these.
        while let Some(line) = questions.line() {
            let target = &line["report"]["Filesystem"][1];
            assert!(target.is_null() || *target == sandbox.name("home/other"), "{line}");
            line["ask"].as_u64().into_iter().for_each(|number| questions.answer(number, "run"));
        }
        assert_eq!(running.wait().stdout, "granted\n");
        for name in ["denied", "secret", "link"] {
            assert_eq!(sandbox.read(format!("home/.npm/{name}")), "kept", "{name}");
        }
        assert_eq!(sandbox.read("home/.npm/mine"), "mine\n");
    });
}

#[test]
fn a_path_that_leads_elsewhere_by_then_is_another_question() {
    for_each_user(|user| {
        let sandbox = sandbox(user);
        let (asked, other) = (sandbox.dir("home/.npm/asked"), sandbox.dir("home/other"));
        let lead_to = |place: &std::path::Path| {
            std::os::unix::fs::symlink(place, sandbox.path("work/new")).unwrap();
            fs::rename(sandbox.path("work/new"), sandbox.path("work/link")).unwrap();
        };
        let script = "for i in $(seq 20); do echo x > link/f$i; echo done; read line < step; done 2>/dev/null";
        sandbox.sh_outside("mkfifo -m 666 step").succeeds();
        lead_to(&asked);
        let (running, mut questions) = sandbox.ask(["sh", "-c", script]);
        for round in 1..=20 {
            let file = format!("f{round}");
            let number = questions.expect("write", asked.join(&file).to_str().unwrap());
            lead_to(&other);
            questions.settle(number, "once");
            let number = questions.expect("write", other.join(&file).to_str().unwrap());
            questions.settle(number, "deny");
            lead_to(&asked);
            fs::write(sandbox.path("work/step"), "\n").unwrap();
        }
        assert_eq!(questions.line(), None);
        running.wait();
        // What was answered may have been done, where it led there again.
        assert_eq!(fs::read_dir(other).unwrap().count(), 0);
    });
}

#[test]
fn a_question_ends_with_its_caller() {
    for_each_user(|user| {
        let sandbox = sandbox(user);
        let script = "sh -c 'echo x > ~/a' & until [ -e go ]; do sleep 0.01; done; kill -9 $!; wait $!; echo x > ~/b";
        let (running, mut questions) = sandbox.ask(["sh", "-c", script]);
        let number = questions.expect("write", &sandbox.name("home/a"));
        sandbox.file("work/go", "");
        // Whichever is said first.
        let lines = [questions.line().unwrap(), questions.line().unwrap()];
        assert!(lines.contains(&json!({ "settled": number, "by": "gone" })), "{lines:?}");
        let asks = |line: &&serde_json::Value| {
            line["report"]["Filesystem"] == json!(["write", sandbox.name("home/b"), "seccomp"])
        };
        let second = lines.iter().find(asks).and_then(|line| line["ask"].as_u64());
        let second = second.unwrap_or_else(|| panic!("no question: {lines:?}"));
        questions.answer(number, "once");
        questions.settle(second, "once");
        assert_eq!(questions.line(), None);
        running.wait().succeeds();
        assert!(!sandbox.path("home/a").exists() && sandbox.path("home/b").exists());
    });
}

/// Such a name is good for a rule of this run, and for none of a policy.
#[test]
fn what_has_a_name_of_chance_is_asked_about_and_in_no_advice() {
    for_each_user(|user| {
        let sandbox = sandbox(user);
        for name in ["note.kWy9Oe", "sedcVHKwo"] {
            let script = format!("echo x > ~/{name}");
            let refused = sandbox.run(["sh", "-c", &script]);
            assert!(!refused.fails().stderr.contains("to allow this"), "{refused:#?}");
            let (running, mut questions) = sandbox.ask(["sh", "-c", &script]);
            let number = questions.expect("write", &sandbox.name(format!("home/{name}")));
            questions.settle(number, "once");
            assert_eq!(questions.line(), None);
            running.wait().succeeds();
            assert_eq!(sandbox.read(format!("home/{name}")), "x\n");
        }
    });
}

#[test]
fn a_question_that_is_open_when_the_run_ends_ends_with_it() {
    for_each_user(|user| {
        let sandbox = sandbox(user);
        let script = "sh -c 'echo x > ~/a' & until [ -e go ]; do sleep 0.01; done; exit 3";
        let (running, mut questions) = sandbox.ask(["sh", "-c", script]);
        let number = questions.expect("write", &sandbox.name("home/a"));
        sandbox.file("work/go", "");
        questions.settled(number, "gone");
        assert_eq!(questions.line(), None);
        assert_eq!(running.wait().status, Some(3));
        assert!(!sandbox.path("home/a").exists());
    });
}

/// Nothing is done for who waits when the broker dies, and nobody goes on for long.
#[test]
fn a_call_that_waits_is_not_done_if_the_broker_dies() {
    for_each_user(|user| {
        let sandbox = sandbox(user);
        let script = "echo x > ~/a; exec sleep 1000";
        let (running, mut questions) = sandbox.ask(["sh", "-c", script]);
        questions.expect("write", &sandbox.name("home/a"));
        running.signal(Signal::SIGKILL);
        // Panics if anything keeps the output open.
        assert_eq!(running.wait().signal, Some(Signal::SIGKILL as i32));
        assert!(!sandbox.path("home/a").exists());
        let (running, mut questions) = sandbox.ask(["sh", "-c", "echo x > ~/a"]);
        let number = questions.expect("write", &sandbox.name("home/a"));
        questions.settle(number, "once");
        running.wait().succeeds();
        assert!(sandbox.path("home/a").exists());
    });
}

#[test]
fn a_signal_is_handled_while_its_call_waits() {
    for_each_user(|user| {
        let sandbox = sandbox(user);
        let script = "sh -c 'trap \"echo caught\" USR1; echo x > ~/a; exit 7' & \
            until [ -e go ]; do sleep 0.01; done; kill -USR1 $!; wait $!";
        let (mut running, mut questions) = sandbox.ask(["sh", "-c", script]);
        questions.expect("write", &sandbox.name("home/a"));
        sandbox.file("work/go", "");
        running.expect("caught");
        // The call may have been made again by then, or not.
        answer_all(&mut questions, "deny", "deny");
        assert_eq!(running.wait().status, Some(7));
        assert!(!sandbox.path("home/a").exists());
    });
}

#[test]
fn a_channel_that_closes_refuses_what_waits_and_what_follows() {
    for_each_user(|user| {
        for last in [&b""[..], b"{\"ask\":1,\"answer\":\"once\"", &[b'x'; 100_000]] {
            let sandbox = sandbox(user);
            let script = "echo x > ~/a || echo refused; echo x > ~/b || echo again; echo x > here && echo allowed";
            let (running, mut questions) = sandbox.ask(["sh", "-c", script]);
            questions.expect("write", &sandbox.name("home/a"));
            questions.send(last);
            if last.len() < 1000 {
                questions.close();
            }
            assert_eq!(running.wait().stdout, "refused\nagain\nallowed\n");
            assert_eq!(fs::read_dir(sandbox.path("home")).unwrap().count(), 1);
        }
    });
}

#[test]
fn a_question_waits_as_long_as_the_last_policy_says() {
    for_each_user(|user| {
        for (seconds, answer, stdout) in [(1, None, "refused\n"), (600, Some("once"), "done\n")] {
            let sandbox = sandbox(user);
            let last = json!({ "ask": { "timeoutSeconds": seconds } });
            let last = sandbox.file("last.json", last.to_string());
            let first = sandbox.file("first.json", r#"{"ask": {"timeoutSeconds": 599}}"#);
            let [first, last] = [&first, &last].map(|path| path.to_str().unwrap());
            let sandbox = sandbox.options(["-p", first, "-p", last]);
            let script = "echo x > ~/.npm/a && echo done || echo refused";
            let (running, mut questions) = sandbox.ask(["sh", "-c", script]);
            let number = questions.expect("write", &sandbox.name("home/.npm/a"));
            match answer {
                Some(answer) => questions.settle(number, answer),
                None => questions.settled(number, "time"),
            }
            assert_eq!(questions.line(), None);
            assert_eq!(running.wait().stdout, stdout);
            assert_eq!(sandbox.path("home/.npm/a").exists(), answer.is_some());
            let outcome = sandbox.landstrip(["-p", first, "-p", last, "--check"]);
            assert!(outcome.stdout.contains(&format!("within {seconds} s")), "{outcome:#?}");
            let outcome = sandbox.landstrip(["-p", first, "-p", last, "--explain"]);
            let shown = format!("{seconds} s, then what is asked about is refused");
            assert!(outcome.stdout.contains(&shown), "{outcome:#?}");
        }
    });
}

/// A policy that allows the path later would be followed to where the link leads.
#[test]
fn no_answer_lets_a_link_be_made_where_a_rule_would_stand() {
    const WAYS: [&str; 4] = [
        "ln -s ~/.bashrc ~/x",
        "ln -s ~/.bashrc l; mv -T l ~/x; python3 -c 'import os; os.rename(\"l\", os.path.expanduser(\"~/x\"))'",
        "ln -s ~/.bashrc l; ln -P l ~/x",
        "ln -s ~/.bashrc l; echo x > ~/x; python3 -c 'import ctypes, os
assert ctypes.CDLL(None).renameat2(-100, b\"l\", -100, os.path.expanduser(\"~/x\").encode(), 2) == 0'",
    ];
    for_each_user(|user| {
        for answer in ["once", "run"] {
            for way in WAYS {
                let sandbox = sandbox(user);
                sandbox.file("home/.bashrc", "");
                let (running, mut questions) = sandbox.ask(["sh", "-c", way]);
                answer_all(&mut questions, answer, answer);
                running.wait();
                let made = sandbox.path("home/x");
                assert!(!made.is_symlink(), "{ESCAPED}{answer}: {way}");
            }
        }
        // Beneath what the rule names they can be made, and files at it.
        let sandbox = sandbox(user);
        let script = "ln -s there ~/.npm/x && echo x > ~/x";
        let (running, mut questions) = sandbox.ask(["sh", "-c", script]);
        for name in ["home/.npm/x", "home/x"] {
            let number = questions.expect("write", &sandbox.name(name));
            questions.settle(number, "once");
        }
        running.wait().succeeds();
        assert!(sandbox.path("home/.npm/x").is_symlink());
        assert_eq!(sandbox.read("home/x"), "x\n");
    });
}

#[test]
fn what_other_runs_have_is_neither_asked_about_nor_granted() {
    for_each_user(|user| {
        let sandbox = sandbox(user);
        let policy = sandbox.file("none.json", "{\"filesystem\":{\"allowWrite\":[]}}");
        let sandbox = sandbox.without_policy().options(["-p", policy.to_str().unwrap()]);
        let [cache, state] = ["work/cache", "work/state"].map(|name| sandbox.name(name));
        let sandbox = sandbox.env("XDG_CACHE_HOME", cache).env("XDG_STATE_HOME", state);
        for name in ["work/cache", "work/cache/landstrip", "work/state", "work/state/landstrip"] {
            sandbox.dir(name);
        }
        for name in ["work/cache/landstrip", "work/state/landstrip"] {
            fs::set_permissions(sandbox.path(name), fs::Permissions::from_mode(0o700)).unwrap();
        }
        let theirs = ["cache/landstrip/theirs", "state/landstrip/denials.jsonl"];
        for name in theirs {
            sandbox.file(format!("work/{name}"), "theirs");
        }
        let script = "echo x > cache/mine
            for name in landstrip/theirs landstrip/new ../state/landstrip/denials.jsonl; do echo x > cache/$name; done
            mv cache/landstrip cache/moved; true";
        let (running, mut questions) = sandbox.ask(["sh", "-c", script]);
        let number = questions.expect("write", &sandbox.name("work/cache/mine"));
        for rule in ["./cache", "./cache/landstrip", "./cache/landstrip/theirs", "./state"] {
            questions.say(&json!({ "grant": ["filesystem.allowWrite", rule] }));
            let line = questions.line().unwrap();
            assert_eq!(line["refused"][1], rule, "{ESCAPED}{line}");
        }
        questions.settle(number, "run");
        let own = sandbox.name("work/cache/mine");
        questions.then(&json!({ "granted": ["filesystem.allowWrite", own] }));
        assert_eq!(questions.line(), None, "{ESCAPED}");
        running.wait().succeeds();
        assert_eq!(sandbox.read("work/cache/mine"), "x\n");
        for name in theirs {
            assert_eq!(sandbox.read(format!("work/{name}")), "theirs", "{ESCAPED}");
        }
        assert_eq!(fs::read_dir(sandbox.path("work/cache/landstrip")).unwrap().count(), 1);
    });
}

#[test]
fn the_command_gets_nothing_of_the_channel() {
    for_each_user(|user| {
        let sandbox = sandbox(user);
        let script = "ls -l /proc/self/fd | grep -c socket: ; echo x > ~/a";
        let (running, mut questions) = sandbox.ask(["sh", "-c", script]);
        let number = questions.expect("write", &sandbox.name("home/a"));
        questions.settle(number, "once");
        assert_eq!(questions.line(), None);
        let outcome = running.wait();
        outcome.succeeds();
        assert_eq!(outcome.stdout, "0\n");
    });
}

#[test]
fn what_is_no_channel_is_refused_before_anything_runs() {
    let sandbox = sandbox(tests::User::Caller);
    for (redirection, number, named) in [
        ("9</dev/null", "9", "not a connected stream socket"),
        ("9>&-", "9", "not a connected stream socket"),
        ("9>&1", "2", "3 or higher"),
        ("9>&1", "nine", "3 or higher"),
    ] {
        let words: Vec<_> =
            sandbox.command_line().iter().map(|word| word.to_string_lossy().into_owned()).collect();
        let line = format!("exec \"$@\" --ask {number} -- touch made {redirection}");
        let mut command = vec!["sh".to_owned(), "-c".to_owned(), line, "sh".to_owned()];
        command.extend(words);
        let outcome = sandbox.run_outside(command);
        assert_eq!(outcome.status, Some(2), "{outcome:#?}");
        assert!(outcome.stderr.contains(named), "{outcome:#?}");
    }
    assert!(!sandbox.path("work/made").exists());
}

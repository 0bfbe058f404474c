//! What lets out whoever follows it: `--check` says so, and a preset refuses to start where it would protect nothing.

use serde_json::json;
use tests::{Outcome, Sandbox, for_each_user, programs};

/// Runs landstrip with `words` in `directory`.
fn in_directory(sandbox: &Sandbox, directory: &str, words: &str) -> Outcome {
    let landstrip = programs().landstrip();
    sandbox.sh_outside(&format!("cd {directory} && exec {} {words}", landstrip.display()))
}

#[test]
fn a_preset_makes_neither_everything_nor_the_home_writable() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user);
        sandbox.dir("home/project");
        let script = "sh -c 'echo x > ~/.bashrc; echo x > made'";
        let home = sandbox.name("home");
        for preset in ["agent", "build", "offline-test"] {
            for (directory, named) in [("/", "/"), ("~", &*home), ("~/..", &sandbox.name(""))] {
                let words = format!("-p {preset} {script}");
                let outcome = in_directory(&sandbox, directory, &words);
                let said = format!("the working directory is {}", named.trim_end_matches('/'));
                outcome.is_error(125, "Internal", &said);
                outcome.is_error(125, "Internal", "start in the directory of a project");
            }
        }
        assert!(!sandbox.path("home/made").exists() && !sandbox.path("home/.bashrc").exists());
        // Where nothing is written it does not matter.
        in_directory(&sandbox, "~", "-p read-only true").succeeds();
        in_directory(&sandbox, "~/project", &format!("-p agent {script}")).succeeds();
        assert!(sandbox.path("home/project/made").exists());
        assert!(!sandbox.path("home/.bashrc").exists());
        // Who names it means it, by whichever name; '.' is no name.
        for (text, is_meant) in [("~", true), (&*home, true), (".", false), ("~/project", false)] {
            let policy = json!({ "extends": ["agent"], "filesystem": { "allowWrite": [text] } });
            let policy = sandbox.file("p.json", policy.to_string());
            let words = format!("-p {} touch made", policy.display());
            let outcome = in_directory(&sandbox, "~", &words);
            assert_eq!(
                outcome.status,
                Some(if is_meant { 0 } else { 125 }),
                "{text}: {outcome:#?}"
            );
            let words = format!("-p agent -p {} touch made", policy.display());
            assert_eq!(in_directory(&sandbox, "~", &words).status, outcome.status, "{text}");
        }
    });
}

#[test]
fn no_preset_starts_where_programs_are_run_or_take_settings_from() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user);
        for directory in ["home/.config", "home/.config/editor", "home/programs", "home/project"] {
            sandbox.dir(directory);
        }
        // An agent's work tree in a hidden directory is a project's.
        let make = "cd ~/project && git init -q . && git -c user.name=n -c user.email=e commit -q --allow-empty -m x && \
                    git worktree add -q ~/.agent/tree 2> /dev/null && ln -s programs ~/linked";
        sandbox.sh_outside(make).succeeds();
        let said = "programs outside run or obey what is there";
        let path = format!("PATH={}:$PATH", sandbox.name("home/linked"));
        for directory in ["~/.config", "~/.config/editor", "~/programs"] {
            for preset in ["-p agent", "-p build", ""] {
                let directory = format!("{directory}; export {path}");
                let outcome = in_directory(&sandbox, &directory, &format!("{preset} touch made"));
                outcome.is_error(125, "Internal", said);
            }
            let outcome = in_directory(
                &sandbox,
                &format!("{directory}; export {path}"),
                "-p read-only --check",
            );
            assert!(outcome.succeeds().stdout.contains(said), "{outcome:#?}");
        }
        let made = sandbox.sh_outside("find ~ -name made");
        assert_eq!(made.stdout, "", "{made:#?}");
        for directory in ["~/project", "~/.agent/tree", "~/programs"] {
            for preset in ["-p agent", "-p build", ""] {
                let outcome = in_directory(&sandbox, directory, &format!("{preset} touch made"));
                outcome.succeeds();
            }
        }
        let policy = sandbox.file("p.yaml", "filesystem:\n  allowWrite: [~/.config/editor]\n");
        let words = format!("-p agent -p {} touch made", policy.display());
        in_directory(&sandbox, "~/.config/editor", &words).succeeds();
        assert!(sandbox.path("home/.config/editor/made").exists());
    });
}

#[test]
fn check_warns_of_what_is_never_advised() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user);
        sandbox.dir("home/notes");
        let check = |policy: serde_json::Value| {
            let policy = sandbox.file("p.json", policy.to_string());
            let outcome = sandbox.landstrip(["-p", policy.to_str().unwrap(), "--check"]);
            outcome.succeeds();
            outcome
                .stdout
                .lines()
                .filter(|line| line.starts_with("warning"))
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        let writes = |path: &str| check(json!({ "filesystem": { "allowWrite": [path] } }));
        for path in [
            "~/.ccache",
            "~/.vim",
            "~/.bashrc",
            "~/bin",
            "~/.cargo/bin",
            "~",
            "/etc",
            "/usr/local/bin",
            "/opt/x",
            "./.git",
        ] {
            let said = writes(path);
            let reason = "can be written: programs outside may run or obey what is there";
            assert!(said.len() == 1 && said[0].ends_with(reason), "{path}: {said:#?}");
            assert!(said[0].contains("allowWrite[0]"), "{path}: {said:#?}");
        }
        let said = writes("/tmp");
        assert!(said.len() == 1 && said[0].contains("$TMPDIR of its own"), "{said:#?}");
        let harmless = [".", "./src", "~/notes", "~/.npm", "~/.cache/pip", "~/.cargo/registry"];
        for path in harmless {
            assert_eq!(writes(path), [""; 0], "{path}");
        }
        let said =
            check(json!({ "network": { "allowUnixSockets": ["/run/docker.sock", "/dev/log"] } }));
        assert!(
            said.len() == 1 && said[0].contains("/run/docker.sock may run commands or hold keys"),
            "{said:#?}"
        );
        let said = check(json!({ "network": { "allowAllUnixSockets": true } }));
        assert!(
            said.iter().any(|line| line.contains("may run commands or hold keys")),
            "{said:#?}"
        );
        // The working directory.
        for directory in ["/", "~"] {
            let outcome = in_directory(&sandbox, directory, "-p read-only --check");
            assert!(
                outcome.succeeds().stdout.contains("warning: the working directory is /"),
                "{outcome:#?}"
            );
        }
        let outcome = in_directory(&sandbox, "~/notes", "-p agent --check");
        assert!(!outcome.succeeds().stdout.contains("warning"), "{outcome:#?}");
    });
}

/// A request names what it likes, and the line must not make it mean more.
#[test]
fn hosts_are_advised_only_as_what_was_asked_for() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user).allow_domains(["allowed.example"]);
        let ask = |host: &str| {
            let script = format!(
                "exec 3<>/dev/tcp/127.0.0.1/${{HTTP_PROXY##*:}}; \
                 printf 'CONNECT {host} HTTP/1.1\\r\\nHost: {host}\\r\\nConnection: close\\r\\n\\r\\n' >&3; cat <&3; exit 1"
            );
            sandbox.run(["bash", "-c", &script])
        };
        for host in [
            "*.com:443",
            "*:443",
            "169.254.169.254:80",
            "[fd00:ec2::254]:80",
            "127.1:80",
            "metadata.google.internal:80",
        ] {
            let outcome = ask(host);
            outcome.exits(1);
            assert!(!outcome.stderr.contains("to allow this"), "{host}: {outcome:#?}");
            assert!(!outcome.stdout.contains("to allow it"), "{host}: {outcome:#?}");
            assert!(outcome.stdout.starts_with("HTTP/1.1 4"), "{host}: {outcome:#?}");
        }
        let outcome = ask("other.example:443");
        let line = "to allow this: network.allowedDomains += [\"other.example\"]\n";
        assert!(outcome.stderr.ends_with(line), "{outcome:#?}");
        assert!(outcome.stdout.contains("to allow it, add \"other.example:443\""), "{outcome:#?}");
    });
}

/// Paths hold what a terminal obeys, and what shows others in another order.
#[test]
fn nothing_that_is_shown_is_obeyed_by_a_terminal() {
    let sandbox = Sandbox::unprivileged();
    let odd = "a\u{1b}cb\u{202e}c\u{9b}d\u{feff}";
    sandbox.dir(format!("home/.{odd}"));
    for list in ["allowWrite", "denyRead"] {
        let path = format!("~/.{odd}");
        let policy = json!({ "filesystem": { list: [path, format!("~/.gone{odd}")] } });
        let policy = sandbox.file("p.json", policy.to_string());
        let policy = policy.to_str().unwrap();
        for words in [
            &["-p", policy, "--check"][..],
            &["-p", policy, "--explain"],
            &["-p", policy, "--explain", &sandbox.name(format!("home/.{odd}"))],
            &["-p", policy, "--explain=json"],
            &["-p", policy, "--explain=json", &sandbox.name(format!("home/.{odd}"))],
        ] {
            let outcome = sandbox.landstrip(words);
            outcome.succeeds();
            assert!(outcome.stdout.contains("cb"), "{outcome:#?}");
            let obeyed = ['\u{1b}', '\u{202e}', '\u{9b}', '\u{feff}'];
            assert!(!outcome.stdout.contains(obeyed), "{outcome:#?}");
            if words.contains(&"--explain=json") {
                let said: serde_json::Value = serde_json::from_str(&outcome.stdout).unwrap();
                assert!(format!("{said}").contains("c\u{9b}d\u{feff}"), "{said}");
            }
        }
    }
}

#[test]
fn programs_are_told_of_rules_and_whose_status_it_is_at_the_end() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user).trap();
        sandbox.dir("home/.ssh");
        sandbox.file("home/.ssh/id", "Secret");
        let run = |policy: &str, tool: &[&str]| {
            let policy = sandbox.file("p.yaml", policy);
            sandbox.landstrip(
                [&["-p", policy.to_str().unwrap(), "--trap-fd", "3", "--"], tool].concat(),
            )
        };
        let policy =
            "extends: [agent]\nfilesystem:\n  denyWrite:\n    - ./kept\nreport:\n  reads: true\n";
        let script = "mkdir ~/notes; echo x > kept; cat ~/.ssh/id; echo x > ~/.toolrc; exit 7";
        let outcome = run(policy, &["sh", "-c", script]);
        outcome.exits(7);
        let file = sandbox.name("p.yaml");
        let kinds: Vec<_> = outcome.endings.iter().map(|ending| ending.to_string()).collect();
        assert_eq!(
            kinds[0],
            json!({ "Advice": ["filesystem.allowWrite", "~/notes"] }).to_string(),
            "{outcome:#?}"
        );
        let own = json!({ "DeniedBy": ["filesystem.denyWrite", "./kept", file, "4"] });
        assert!(outcome.endings.contains(&own), "{outcome:#?}");
        let preset = outcome.endings.iter().filter_map(|ending| ending.get("DeniedBy"));
        let mut preset = preset.filter(|rule| rule[0] == "filesystem.denyRead");
        assert!(
            preset.any(|rule| rule[1] == "~/.ssh"
                && rule[2] == "agent"
                && rule[3].as_str().unwrap().parse::<u32>().is_ok()),
            "{outcome:#?}"
        );
        assert_eq!(outcome.endings.last(), Some(&json!({ "Exit": ["tool", "7"] })), "{outcome:#?}");
        assert!(!kinds.concat().contains(".toolrc"), "{outcome:#?}");
        // Of a command that does what it likes with the status, and of landstrip.
        let exit = |tool: &[&str]| run("filesystem: {}", tool).endings;
        assert_eq!(exit(&["sh", "-c", "exit 125"]), [json!({ "Exit": ["tool", "125"] })]);
        assert_eq!(exit(&["true"]), [json!({ "Exit": ["tool", "0"] })]);
        assert_eq!(exit(&["sh", "-c", "kill -9 $$"]), [json!({ "Exit": ["tool", "137"] })]);
        // With the reason, as on standard error.
        for (policy, tool, status) in
            [("filesystem: {}", "./missing", "127"), ("filesystem: {alowWrite: []}", "true", "125")]
        {
            let outcome = run(policy, &[tool]);
            assert_eq!(outcome.endings, [json!({ "Exit": ["landstrip", status] })], "{outcome:#?}");
            assert_eq!(outcome.traps, outcome.reports, "{outcome:#?}");
            assert_eq!(outcome.traps.len(), 1, "{outcome:#?}");
        }
    });
}

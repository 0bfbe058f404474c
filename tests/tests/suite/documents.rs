//! What the documents say is so: their commands are run, and their output compared; their examples are used.

use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::process::Command;
use tests::{Sandbox, User, for_each_user, programs};

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

pub(crate) fn document(name: &str) -> String {
    fs::read_to_string(repository().join(name)).unwrap()
}

/// The blocks of code of this language.
pub(crate) fn blocks(text: &str, language: &str) -> Vec<String> {
    let fence = format!("```{language}\n");
    let parts = text.split(&fence).skip(1);
    parts.map(|part| part.split("```").next().unwrap().to_owned()).collect()
}

/// The home of a user who has a repository, a key, and agents that say how they were called.
pub(crate) fn home(user: User) -> Sandbox {
    // Where the temporary directory of a run is not in reach.
    let sandbox = Sandbox::beneath("/var/tmp", user);
    let path = format!("{}:{}:/usr/bin:/bin", sandbox.name("home/bin"), programs().dir.display());
    let sandbox = sandbox.env("PATH", path).env("NO_COLOR", "1");
    for directory in
        ["home/bin", "home/.ssh", "home/.config", "home/.config/landstrip", "home/demo"]
    {
        sandbox.dir(directory);
    }
    sandbox.file("home/.ssh/id_ed25519", "TOPSECRET");
    for agent in ["claude", "codex"] {
        let script =
            "#!/bin/sh\ntouch \"$CLAUDE_CONFIG_DIR$CODEX_HOME/state\" && echo \"${0##*/} $*\"\n";
        sandbox.program(format!("home/bin/{agent}"), script);
    }
    sandbox.sh_outside("cd ~/demo && git init -q").succeeds();
    sandbox
}

/// Runs the commands of a session in `demo`, each after `$ `, and compares what they print.
pub(crate) fn session(sandbox: &Sandbox, text: &str) {
    let mut lines = text.lines().peekable();
    let mut seen = 0;
    while let Some(line) = lines.next() {
        let command = line.strip_prefix("$ ").unwrap_or_else(|| panic!("no command: {line}"));
        let mut expected = String::new();
        while let Some(line) = lines.next_if(|line| !line.starts_with("$ ")) {
            expected.push_str(line);
            expected.push('\n');
        }
        let outcome = sandbox.sh_outside(&format!("cd ~/demo; exec 2>&1; {command}"));
        let printed = outcome.stdout.replace(&sandbox.name("home"), "/home/you");
        assert_eq!(printed, expected, "{command}");
        seen += 1;
    }
    assert!(seen > 0, "{text}");
}

#[test]
fn the_readme_s_commands_do_what_it_says() {
    for page in ["README.md", "docs/reports.md"] {
        let sessions = blocks(&document(page), "console");
        assert!(!sessions.is_empty());
        for_each_user(|user| {
            let sandbox = home(user);
            sessions.iter().for_each(|text| session(&sandbox, text));
        });
    }
}

#[test]
fn the_readme_is_read_in_some_minutes() {
    let words = document("README.md").split_whitespace().count();
    assert!(words <= 950, "{words} words");
}

#[test]
fn the_book_s_policies_are_valid() {
    let text = document("docs/policies.md");
    let sandbox = home(User::Caller);
    let mut seen = 0;
    for format in ["json", "yaml"] {
        for policy in blocks(&text, format) {
            let file = sandbox.file(format!("home/.config/landstrip/{seen}.{format}"), policy);
            let check = format!("cd ~/demo; landstrip -p {} --check", file.display());
            sandbox.sh_outside(&check).succeeds();
            seen += 1;
        }
    }
    assert!(seen >= 3);
}

#[test]
fn the_picture_shows_the_first_session_of_the_readme() {
    let top = repository().display();
    let draw = format!("exec /usr/bin/python3 {top}/docs/draw-session {top}/README.md");
    let drawn = home(User::Caller).sh_outside(&draw);
    assert_eq!(drawn.succeeds().stdout, document("docs/session.svg"), "make docs");
}

#[test]
fn the_plots_show_what_the_benchmark_printed() {
    for table in ["session", "launch", "programs"] {
        let mut plot = Command::new("/usr/bin/python3");
        plot.arg(repository().join("docs/plot-benchmark")).arg(table);
        let plotted = plot.arg(repository().join("tests/benches/agent.txt")).output().unwrap();
        assert!(plotted.status.success(), "{}", String::from_utf8_lossy(&plotted.stderr));
        let picture = document(&format!("docs/benchmark-{table}.svg"));
        assert_eq!(String::from_utf8(plotted.stdout).unwrap(), picture, "make docs");
    }
}

#[test]
fn the_book_has_every_page_that_a_page_links_to() {
    let sandbox = Sandbox::new();
    let mut make = Command::new("/usr/bin/python3");
    make.arg(repository().join("docs/build-book")).arg(sandbox.path("book"));
    // The pages, and not the book, for which mdBook would be needed.
    let made = make.env("PATH", "/nonexistent").output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let source = sandbox.path("book/src");
    let summary = fs::read_to_string(source.join("SUMMARY.md")).unwrap();
    let pages: Vec<_> =
        summary.split("](").skip(1).map(|rest| rest.split(')').next().unwrap()).collect();
    assert!(pages.len() > 20 && pages.contains(&"SECURITY.md"), "{summary}");
    for page in &pages {
        let text = fs::read_to_string(source.join(page)).unwrap();
        let place = Path::new(page).parent().unwrap();
        for target in text.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next()) {
            if target.ends_with(".md") && !target.contains(':') {
                assert!(source.join(place).join(target).exists(), "{page}: {target}");
            }
        }
    }
}

#[test]
fn documents_link_to_what_is_there() {
    let check = repository().join("docs/check-links");
    let found = Command::new("/usr/bin/python3").arg(check).output().unwrap();
    assert!(found.status.success(), "{}", String::from_utf8_lossy(&found.stdout));
}

/// The home in which the examples of `docs/harnesses.md` are used, and the policies that it tells.
pub(crate) fn harness(user: User) -> (Sandbox, String) {
    let text = document("docs/harnesses.md");
    let sandbox = home(user);
    // Not every user may read the repository.
    let mut copy = Command::new("cp");
    copy.arg("-R").arg(repository().join("clients/python")).arg(sandbox.path("home/client"));
    assert!(copy.status().unwrap().success());
    for name in ["asking-harness", "mcp-server"] {
        let example = fs::read_to_string(repository().join("examples").join(name)).unwrap();
        sandbox.program(format!("home/bin/{name}"), &example);
    }
    let client = sandbox.path("home/client");
    let sandbox = sandbox
        .env("PYTHONPATH", client)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("LANDSTRIP_PROGRAM", programs().landstrip());
    let policies = blocks(&text, "yaml");
    for (name, policy) in ["agent", "whole"].iter().zip(&policies) {
        sandbox.file(format!("home/.config/landstrip/{name}.yaml"), policy);
    }
    let text = text.replace("/home/you", &sandbox.name("home"));
    (sandbox, text)
}

#[test]
fn agents_run_as_a_whole() {
    for_each_user(|user| {
        let (sandbox, _) = harness(user);
        let text = document("docs/harnesses.md");
        blocks(&text, "console").iter().for_each(|text| session(&sandbox, text));
        for agent in ["claude", "codex"] {
            assert!(sandbox.path(format!("home/.local/state/agents/{agent}/state")).exists());
        }
        // Without a directory of its own it finds the protected one.
        let refused = sandbox.sh_outside(
            "mkdir ~/.claude; cd ~/demo; CLAUDE_CONFIG_DIR=~/.claude landstrip -p ~/.config/landstrip/whole.yaml -- claude",
        );
        refused.fails();
    });
}

#[test]
fn a_hook_confines_each_command_of_claude_code() {
    for_each_user(hook_confines_and_fails_closed);
}

fn hook_confines_and_fails_closed(user: User) {
    let (sandbox, text) = harness(user);
    let settings: Value = serde_json::from_str(&blocks(&text, "json")[0]).unwrap();
    let hook = &settings["hooks"]["PreToolUse"][0];
    assert_eq!((&hook["matcher"], &hook["hooks"][0]["type"]), (&json!("Bash"), &json!("command")));
    let installed = hook["hooks"][0]["command"].as_str().unwrap();
    let place = installed.split(' ').next().unwrap();
    let program = repository().join("examples").join(Path::new(place).file_name().unwrap());
    let text = fs::read_to_string(&program).unwrap();
    assert!(text.starts_with("#!/usr/bin/python3 -I\n"), "{text}");
    // Not every user may read the repository.
    let program = sandbox.file("home/hook.py", &text);
    let line = installed.replace(place, &format!("/usr/bin/python3 -I {}", program.display()));
    let found = sandbox.sh_outside("command -v landstrip").stdout.trim().to_owned();
    let sandbox = sandbox.env("LANDSTRIP_HOOK_PROGRAM", &found);
    let run = |input: &str, before: &str, line: &str, after: &str| {
        let call = sandbox.file("home/call", input);
        sandbox.sh_outside(&format!("{before} sh -c '{line}' < {} {after}", call.display()))
    };
    let call = |input: &str| run(input, "", &line, "");
    let command = "echo \"it's\" > made; touch .git/hooks/pre-commit; echo $((1 + 1))";
    let input = json!({ "tool_name": "Bash", "tool_input": { "command": command, "timeout": 5 } });
    let answer = call(&input.to_string());
    answer.succeeds();
    let answer: Value = serde_json::from_str(&answer.stdout).unwrap();
    let answer = &answer["hookSpecificOutput"];
    assert_eq!(
        (&answer["hookEventName"], &answer["permissionDecision"]),
        (&json!("PreToolUse"), &json!("ask"))
    );
    assert_eq!(answer["updatedInput"]["timeout"], 5);
    let words = answer["updatedInput"]["command"].as_str().unwrap();
    let confined = sandbox.sh_outside(&format!("cd ~/demo; {words}"));
    assert_eq!(confined.stdout, "2\n", "{confined:#?}");
    assert!(confined.stderr.contains("denied by: filesystem.denyWrite"), "{confined:#?}");
    assert_eq!(sandbox.read("home/demo/made"), "it's\n");
    assert!(!sandbox.path("home/demo/.git/hooks/pre-commit").exists());
    // What it does not understand is refused: only this status does so.
    for input in [
        "",
        "{}",
        r#"{"tool_input":{"command":["sh"]}}"#,
        r#"{"tool_input":{"command":null}}"#,
        r#"{"tool_input":{"command":""}}"#,
        r#"{"tool_input":{"command":"true\u0000"}}"#,
        r#"{"tool_input":{}}"#,
        r#"{"tool_input":null}"#,
        "[]",
    ] {
        let refused = call(input);
        assert_eq!(
            (refused.status, refused.stdout.as_str()),
            (Some(2), ""),
            "{input}: {refused:#?}"
        );
    }
    // So is what it cannot say, find or start.
    let input = input.to_string();
    for after in ["> /dev/full", ">&-", "> /dev/full 2>&1", ">&- 2>&-", "2> /dev/full > /dev/full"]
    {
        run(&input, "", &line, after).exits(2);
    }
    run(&input, "", &line, "2> /dev/full").succeeds();
    for before in [
        "LANDSTRIP_HOOK_PROGRAM=landstrip",
        "LANDSTRIP_HOOK_PROGRAM=/nonexistent/landstrip",
        "LANDSTRIP_HOOK_POLICY=./policy.yaml",
    ] {
        run(&input, before, &line, "").exits(2);
    }
    run(&input, "", &line.replace(".py", "").replace("hook", "gone"), "").exits(2);
    let named = run(&input, "PATH=/usr/bin:/bin", &line, "");
    assert!(named.stdout.contains(&format!("\"{found} -p agent -- bash -c ")), "{named:#?}");
}

#[test]
fn servers_of_the_model_context_protocol_answer_and_are_confined() {
    let (sandbox, text) = harness(User::Caller);
    let server = "import json, sys\nfor line in sys.stdin:\n    try:\n        open('.mcp.json', 'a')\n        \
                  state = 'open'\n    except PermissionError:\n        state = 'confined'\n    \
                  print(json.dumps({'jsonrpc': '2.0', 'id': json.loads(line)['id'], 'result': state}), flush=True)\n";
    sandbox.file("home/demo/server.py", server);
    let settings: Value = serde_json::from_str(&blocks(&text, "json")[1]).unwrap();
    let server = &settings["mcpServers"]["notes"];
    let words: Vec<_> = [&server["command"]]
        .into_iter()
        .chain(server["args"].as_array().unwrap())
        .map(|word| word.as_str().unwrap().to_owned())
        .collect();
    let request = r#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#;
    let run =
        |words: &str| sandbox.sh_outside(&format!("cd ~/demo; echo '{request}' | {words}")).stdout;
    let answer = |state: &str| {
        format!(
            "{}\n",
            json!({ "jsonrpc": "2.0", "id": 7, "result": state })
                .to_string()
                .replace(':', ": ")
                .replace(',', ", ")
        )
    };
    let sorted = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    assert_eq!(sorted(&run(&words.join(" "))), sorted(&answer("confined")));
    assert_eq!(sorted(&run("python3 server.py")), sorted(&answer("open")));
    // The same words stand in the settings of Codex.
    let codex = &blocks(&text, "toml")[0];
    let args = codex.lines().find_map(|line| line.strip_prefix("args = ")).unwrap();
    assert_eq!(&serde_json::from_str::<Value>(args).unwrap(), &server["args"]);
}

#[test]
fn jobs_run_their_step() {
    let (sandbox, text) = harness(User::Caller);
    let job = blocks(&text, "yaml").into_iter().find(|block| block.starts_with("steps:")).unwrap();
    let step = job.lines().find_map(|line| line.trim().strip_prefix("- run: ")).unwrap();
    sandbox.file(
        "home/demo/Makefile",
        "test:\n\ttest -z \"$$JOB_TOKEN\"\n\ttouch tested\n\t! touch ../elsewhere\n",
    );
    sandbox.sh_outside(&format!("export JOB_TOKEN=x; cd ~/demo; {step}")).succeeds();
    assert!(sandbox.path("home/demo/tested").exists() && !sandbox.path("home/elsewhere").exists());
}

#[test]
fn the_demonstration_shows_what_it_says() {
    for_each_user(|user| {
        let demo = fs::read_to_string(repository().join("examples/demo.sh")).unwrap();
        let sandbox = home(user).env("TMPDIR", "/var/tmp");
        let script = sandbox.file("demo.sh", demo);
        let outcome = sandbox.sh_outside(&format!("exec 2>&1; sh {}", script.display()));
        outcome.succeeds();
        for told in [
            "| wc -l'\n1\n",
            "denied by: filesystem.denyWrite [\"./.git/hooks\"]\n(exit status 1)",
            "denied by: filesystem.denyRead [\"~/.ssh\"]",
            "grep -c GH_TOKEN\n0\n",
            "ls -d .vscode\nls: ",
            "{\"Network\":[\"connect\",\"192.0.2.1:443\",\"seccomp\"]}",
            "/proc/$(cat started)\"\n(exit status 1)",
            "cat denials\n{\"Filesystem\":[\"write\",",
            "ls ~\nelsewhere\nproject\n",
            "the nearest known key is 'denyRead'",
        ] {
            assert!(outcome.stdout.contains(told), "{told}: {}", outcome.stdout);
        }
        assert!(!outcome.stdout.contains("not for agents") && !outcome.stdout.contains("never\n("));
    });
}

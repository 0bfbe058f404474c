//! The examples of `docs/harnesses.md` that ask people, each driven as its harness does: what is answered is done, and no
//! more. The session of the harness with a prompt of its own is run with those of `documents`.

use crate::documents::{blocks, harness};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use tests::{ESCAPED, Sandbox, User, for_each_user};

/// The client of a server of the model context protocol.
struct Client {
    server: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    number: u64,
}

impl Client {
    /// Starts the server that the settings in the document name, and says what this can do.
    fn new(sandbox: &Sandbox, text: &str, capabilities: &Value) -> Self {
        let settings: Value = serde_json::from_str(&blocks(text, "json")[2]).unwrap();
        let shell = &settings["mcpServers"]["shell"];
        let name = shell["command"].as_str().unwrap().rsplit('/').next().unwrap();
        let policy = shell["env"]["LANDSTRIP_POLICY"].as_str().unwrap();
        let line = format!("cd ~/demo; LANDSTRIP_POLICY={policy} exec {name}");
        let mut command = sandbox.command(["sh", "-c", &line].map(Into::into).to_vec());
        let mut server =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a server");
        let output = BufReader::new(server.stdout.take().unwrap());
        let mut client = Self { input: server.stdin.take(), server, output, number: 0 };
        let params = json!({ "protocolVersion": "2025-06-18", "capabilities": capabilities });
        client.ask("initialize", &params);
        let answer = client.hear();
        assert_eq!(answer["result"]["protocolVersion"], "2025-06-18", "{answer}");
        client.say(&json!({ "method": "notifications/initialized" }));
        client.ask("tools/list", &json!({}));
        let answer = client.hear();
        assert_eq!(answer["result"]["tools"][0]["name"], "run", "{answer}");
        client
    }

    fn say(&mut self, message: &Value) {
        let mut message = message.clone();
        message["jsonrpc"] = json!("2.0");
        writeln!(self.input.as_mut().unwrap(), "{message}").unwrap();
    }

    fn ask(&mut self, method: &str, params: &Value) {
        self.number += 1;
        self.say(&json!({ "id": self.number, "method": method, "params": params }));
    }

    fn run(&mut self, command: &str) {
        self.ask("tools/call", &json!({ "name": "run", "arguments": { "command": command } }));
    }

    fn hear(&mut self) -> Value {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }

    /// Answers the question that comes next, which is about this path.
    #[track_caller]
    fn answer(&mut self, path: &str, result: &Value) {
        let asked = self.hear();
        assert_eq!(asked["method"], "elicitation/create", "{asked}");
        let message = asked["params"]["message"].as_str().unwrap();
        assert!(message.contains(path), "{asked}");
        self.say(&json!({ "id": asked["id"], "result": result }));
    }

    /// The answer to the last command, and whether that failed.
    #[track_caller]
    fn ended(&mut self, text: &str, failed: bool) {
        let answer = self.hear();
        assert_eq!(answer["id"], self.number, "{answer}");
        let result = &answer["result"];
        assert_eq!(result["isError"], failed, "{answer}");
        assert!(result["content"][0]["text"].as_str().unwrap().contains(text), "{answer}");
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.input = None;
        let _ = self.server.wait();
    }
}

#[test]
fn a_server_of_the_model_context_protocol_has_its_client_ask() {
    for_each_user(|user| {
        let (sandbox, text) = harness(user);
        let mut client = Client::new(&sandbox, &text, &json!({ "elicitation": {} }));
        let is_there = |name: &str| sandbox.path("home").join(name).exists();
        let accept = |answer: &str| json!({ "action": "accept", "content": { "answer": answer } });
        client.run(": > ~/a && echo done");
        client.answer("/a'", &accept("once"));
        client.ended("done\n\nexit status 0", false);
        assert!(is_there("a"));
        client.run("touch ~/b; touch ~/b; touch ~/c");
        client.answer("/b'", &accept("run"));
        client.answer("/c'", &json!({ "action": "decline" }));
        client.ended("to allow this: filesystem.allowWrite += ~/c", true);
        for wrong in [
            json!({ "action": "cancel" }),
            accept("deny"),
            accept("yes"),
            json!({ "action": "accept" }),
            json!({ "content": { "answer": "once" } }),
            json!({}),
            json!({ "action": "accept", "content": "once" }),
        ] {
            client.run("touch ~/d");
            client.answer("/d'", &wrong);
            client.ended("refused: write", true);
        }
        assert_eq!(["b", "c", "d"].map(is_there), [true, false, false], "{ESCAPED}");
        // A server whose client cannot ask refuses, and says what would help.
        let mut client = Client::new(&sandbox, &text, &json!({}));
        client.run("touch made && touch ~/e");
        client.ended("to allow this: filesystem.allowWrite += ~/e", true);
        assert!(sandbox.path("home/demo/made").exists() && !is_there("e"), "{ESCAPED}");
        // One that sends nothing more gets the results of its calls.
        client.run("until [ -e last ]; do sleep 0.01; done; echo done");
        client.input = None;
        sandbox.file("home/demo/last", "");
        client.ended("done\n\nexit status 0", false);
    });
}

/// Calls the hook before `command`, and runs what that makes of it; what it says to people, and the rest.
fn call(sandbox: &Sandbox, hook: &str, session: &str, command: &str) -> (String, tests::Outcome) {
    let input = json!({
        "session_id": session,
        "cwd": sandbox.name("home/demo"),
        "tool_input": { "command": command },
    });
    let input = sandbox.file("home/call", input.to_string());
    let answer =
        sandbox.sh_outside(&format!("exec /usr/bin/python3 -I {hook} < {}", input.display()));
    let answer: Value = serde_json::from_str(&answer.succeeds().stdout).unwrap();
    let answer = &answer["hookSpecificOutput"];
    assert_eq!(answer["permissionDecision"], "ask");
    let line = answer["updatedInput"]["command"].as_str().unwrap();
    let reason = answer["permissionDecisionReason"].as_str().unwrap().to_owned();
    (reason, sandbox.sh_outside(&format!("cd ~/demo; {line}")))
}

#[test]
fn a_hook_of_claude_code_asks_for_what_was_refused_before() {
    for_each_user(|user: User| {
        let (sandbox, text) = harness(user);
        let hook = crate::documents::document("examples/claude-code-hook");
        let hook = sandbox.file("home/hook.py", hook).to_str().unwrap().to_owned();
        let settings: Value = serde_json::from_str(&blocks(&text, "json")[3]).unwrap();
        let state = settings["env"]["LANDSTRIP_HOOK_STATE"].as_str().unwrap();
        sandbox.sh_outside(&format!("mkdir -p {state}; chmod 700 {state}")).succeeds();
        let sandbox = sandbox
            .env("LANDSTRIP_HOOK_STATE", state)
            .env("LANDSTRIP_HOOK_PROGRAM", tests::programs().landstrip());
        let command = "touch ~/a \"it's\"; touch .git/hooks/x; exit 7";
        let (reason, outcome) = call(&sandbox, &hook, "one", command);
        assert_eq!(reason, "runs under landstrip, policy agent");
        assert_eq!(outcome.status, Some(7), "{outcome:#?}");
        assert!(outcome.stderr.contains("{\"Advice\":[\"filesystem.allowWrite\",\"~/a\"]}"));
        assert!(sandbox.path("home/demo/it's").exists() && !sandbox.path("home/a").exists());
        // Neither another session nor the command is told, and the command cannot add to it.
        let (reason, outcome) =
            call(&sandbox, &hook, "two", &format!("ls {state}; echo x > {state}/x"));
        assert_eq!(reason, "runs under landstrip, policy agent");
        assert!(!outcome.stdout.contains("claude"), "{ESCAPED}{outcome:#?}");
        assert!(!Path::new(state).join("x").exists(), "{ESCAPED}");
        let (reason, outcome) = call(&sandbox, &hook, "one", command);
        let told = "and with what was refused before: filesystem.allowWrite \"~/a\"";
        assert!(reason.ends_with(told), "{reason}");
        assert_eq!(outcome.status, Some(7), "{outcome:#?}");
        assert!(sandbox.path("home/a").exists());
        // What a rule denies is not offered, and what was offered holds no longer.
        assert!(!sandbox.path("home/demo/.git/hooks/x").exists(), "{ESCAPED}");
        let (reason, outcome) = call(&sandbox, &hook, "one", "touch ~/a && cat");
        assert_eq!(reason, "runs under landstrip, policy agent");
        assert!(outcome.fails().stderr.contains("~/a"), "{outcome:#?}");
    });
}

//! The table of cases that every client passes (`../../cases.json` says what its fields mean), and what is this client's
//! own. LANDSTRIP_PROGRAM is the launcher; the black-box tests of the repository say it, and run these as other users.

#![allow(clippy::unwrap_used, clippy::panic)]

use landstrip_client::{
    Answer, Command, Denial, EndedBy, FilesystemRules, Kind, Limit, Outcome, Policy, Rule, Source,
};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;
use std::{env, fs, process};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

const CASES: &str = include_str!("../../cases.json");

/// The launcher; without it there is nothing to test.
fn launcher() -> Option<PathBuf> {
    env::var_os("LANDSTRIP_PROGRAM").map(PathBuf::from)
}

/// The directories that a test runs in.
struct World(PathBuf);

impl World {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let root = env::temp_dir().join(format!("landstrip-client-{}-{number}", process::id()));
        fs::create_dir(&root).unwrap();
        let world = Self(root.canonicalize().unwrap());
        ["work", "outside", "home"]
            .iter()
            .for_each(|name| fs::create_dir(world.path(name)).unwrap());
        world
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// A value whose strings are paths of this world where they begin with '@'.
    fn placed(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => match text.strip_prefix('@') {
                Some(name) => self.path(name).to_str().unwrap().into(),
                None => value.clone(),
            },
            Value::Array(all) => all.iter().map(|one| self.placed(one)).collect(),
            Value::Object(all) => Value::Object(
                all.iter().map(|(key, one)| (key.clone(), self.placed(one))).collect(),
            ),
            other => other.clone(),
        }
    }

    fn command(&self, launcher: &Path, words: &[&str]) -> Command {
        let command = Command::new(launcher, words[0]).args(&words[1..]).env_clear();
        let command =
            command.env("PATH", "/usr/local/bin:/usr/bin:/bin").env("HOME", self.path("home"));
        command.current_dir(self.path("work"))
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn strings(value: &Value) -> Vec<&str> {
    value
        .as_array()
        .map(|all| all.iter().map(|one| one.as_str().unwrap()).collect())
        .unwrap_or_default()
}

/// The command with the policies of a case, which are presets and paths or data.
fn with_policies(mut command: Command, policy: &Value) -> Command {
    for one in policy.as_array().map_or(std::slice::from_ref(policy), Vec::as_slice) {
        command = match one {
            Value::Null => command,
            Value::String(name) => command.policy(name.as_str()),
            data => command.policy(data.clone()),
        };
    }
    command
}

/// What became of a case, in the table's form.
fn shown(outcome: &Outcome) -> BTreeMap<&'static str, Value> {
    let sorted = |mut all: Vec<Value>| {
        all.sort_by_key(Value::to_string);
        Value::Array(all)
    };
    let denials = outcome.denials.iter().map(|denial| {
        let kind = if denial.kind == Kind::Filesystem { "filesystem" } else { "network" };
        json!([kind, denial.operation, denial.target])
    });
    let rule = |rule: &landstrip_client::Rule| json!([rule.key, rule.value]);
    let limit = outcome.limit.as_ref().map(|limit| match limit {
        Limit::Policy(key) => key.as_str(),
        _ => "deadline",
    });
    let ended_by = if outcome.ended_by == EndedBy::Tool { "tool" } else { "landstrip" };
    BTreeMap::from([
        ("status", outcome.status.into()),
        ("endedBy", ended_by.into()),
        ("error", outcome.error.as_ref().map(|error| error.source.clone()).into()),
        ("message", outcome.error.as_ref().map(|error| error.message.clone()).into()),
        ("limit", limit.into()),
        ("denials", sorted(denials.collect())),
        ("advice", sorted(outcome.advice.iter().map(rule).collect())),
        ("deniedBy", sorted(outcome.denied_by.iter().map(|origin| rule(&origin.rule)).collect())),
    ])
}

fn compare(name: &str, found: &BTreeMap<&'static str, Value>, expected: &Value) {
    for (field, value) in expected.as_object().unwrap() {
        let found_value = &found[field.as_str()];
        if ["message", "text"].contains(&field.as_str()) && !value.is_null() {
            assert!(
                found_value.as_str().unwrap().contains(value.as_str().unwrap()),
                "{name}: {found:?}"
            );
        } else {
            let mut value = value.clone();
            if let Value::Array(all) = &mut value {
                all.sort_by_key(Value::to_string);
            }
            assert_eq!(*found_value, value, "{name}: {field}: {found:?}");
        }
    }
}

/// The answers of a case, and what is asked, in the table's form. One that is none cannot be given.
fn asking(command: Command, case: &Value) -> Option<(Command, Arc<Mutex<Vec<Value>>>)> {
    let answer = |answer: &Value| match (answer.as_str(), &strings(&answer["rule"])[..]) {
        (Some("once"), _) => Some(Answer::Once),
        (Some("run"), _) => Some(Answer::Run),
        (Some("deny"), _) => Some(Answer::Deny),
        (None, [key, value]) => {
            Some(Answer::RunBy(Rule { key: (*key).into(), value: (*value).into() }))
        }
        _ => None,
    };
    let answers: Option<Vec<_>> = case["answers"].as_array()?.iter().map(answer).collect();
    let mut answers = answers?.into_iter();
    let told = Arc::new(Mutex::new(Vec::new()));
    let asked = Arc::clone(&told);
    let command = command.on_ask(move |question| {
        let (Denial { operation, target, .. }, advice) =
            (&question.denial, question.advice.as_ref().unwrap());
        asked.lock().unwrap().push(json!([
            "filesystem",
            operation,
            target,
            advice.key,
            advice.value,
            question.lasts
        ]));
        assert_eq!(question.denial.kind, Kind::Filesystem);
        answers.next().unwrap()
    });
    Some((command, told))
}

/// Has rules granted before the command gets its input.
fn granted(command: Command, case: &Value) -> Outcome {
    let streams = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = streams.spawn().unwrap();
    for grant in case["grants"].as_array().unwrap() {
        let became = child.grant(grant[0].as_str().unwrap(), grant[1].as_str().unwrap()).unwrap();
        assert_eq!(grant[2], became.granted, "{became:?}");
    }
    child.stdin.take().unwrap().write_all(case["input"].as_str().unwrap().as_bytes()).unwrap();
    child.wait().unwrap()
}

fn perform(case: &Value, world: &World, launcher: &Path) {
    let name = case["name"].as_str().unwrap();
    let words = strings(&case["command"]);
    let program = case["program"].as_str().map_or(launcher, Path::new);
    if words.is_empty() && !(case["check"].is_object() || case["explain"].is_object()) {
        // A command without a program cannot be built.
        return assert_eq!(case["misuse"], true, "{name}");
    }
    let mut command = world.command(program, if words.is_empty() { &["true"] } else { &words });
    if let Some(directory) = case["cwd"].as_str() {
        command = command.current_dir(directory);
    }
    for (variable, value) in case["env"].as_object().into_iter().flatten() {
        command = command.env(variable, value.as_str().unwrap());
    }
    if case["report"] == "changes" {
        command = command.report(landstrip_client::Report::Changes);
    }
    if let Some(time) = case["timeout"].as_u64() {
        command = command.timeout(Duration::from_millis(time));
    }
    let expected = &case["expect"];
    let policies = ["policy", "raw"].into_iter().map(|key| &case[key]);
    let asked = ["check", "explain", "wrap"].into_iter().map(|key| &case[key]);
    let own =
        asked.clone().flat_map(|asked| ["policy", "raw"].into_iter().map(move |key| &asked[key]));
    for policy in policies.chain(own) {
        command = with_policies(command, policy);
    }
    if case["check"].is_object() {
        let error = command.check().unwrap().error;
        let found = BTreeMap::from([
            ("ok", error.is_none().into()),
            ("error", error.as_ref().map(|error| error.source.clone()).into()),
            ("message", error.map(|error| error.message).into()),
        ]);
        return compare(name, &found, expected);
    }
    if case["explain"].is_object() {
        let answers = command.explain(strings(&case["explain"]["questions"])).unwrap();
        let answers = answers["answers"][0]["answers"].as_array().unwrap().clone();
        let allowed = answers.iter().all(|answer| answer["allowed"] == true);
        return assert_eq!(expected["allowed"], allowed, "{name}");
    }
    if case["wrap"].is_object() {
        let words: Vec<_> =
            command.wrap().into_iter().map(|word| word.into_string().unwrap()).collect();
        return assert_eq!(words[1..], strings(&expected["words"]), "{name}");
    }
    if let Some(file) = case["learn"].as_str() {
        let learned = command.learn(file).unwrap();
        let mut found = shown(&learned.output.outcome);
        found.insert("text", learned.text.into());
        return compare(name, &found, expected);
    }
    if case["kept"].is_array() {
        let asking = world.command(program, &["true"]);
        compare(name, &shown(&command.output().unwrap().outcome), expected);
        let kept = asking.denials(case["since"].as_str()).unwrap();
        let found = kept
            .iter()
            .map(|one| json!([one.program, "filesystem", one.denial.operation, one.denial.target]));
        return assert_eq!(case["kept"], found.collect::<Value>(), "{name}");
    }
    let mut asked = None;
    if case["answers"].is_array() {
        let Some((asking, told)) = asking(command, case) else { return };
        (command, asked) = (asking, Some(told));
    }
    if case["grants"].is_array() {
        compare(name, &shown(&granted(command, case)), expected);
        return assert_eq!(case["asked"], json!(*asked.unwrap().lock().unwrap()), "{name}");
    }
    let output = match case["input"].as_str() {
        Some(input) => command.output_of(input),
        None => command.output(),
    };
    if case["misuse"] == true {
        return assert!(output.is_err(), "{name}: {output:?}");
    }
    let output = output.unwrap();
    let mut found = shown(&output.outcome);
    found.insert("stdout", String::from_utf8(output.stdout).unwrap().into());
    found.insert("stderr", String::from_utf8(output.stderr).unwrap().into());
    compare(name, &found, expected);
    if let Some(asked) = asked {
        assert_eq!(case["asked"], json!(*asked.lock().unwrap()), "{name}");
    }
}

#[test]
fn the_table_of_cases_is_passed() {
    let Some(launcher) = launcher() else { return };
    let table: Value = serde_json::from_str(CASES).unwrap();
    let cases = table["cases"].as_array().unwrap();
    for case in cases {
        let world = World::new();
        let case = world.placed(case);
        for (name, text) in case["files"].as_object().into_iter().flatten() {
            fs::create_dir_all(world.path(name).parent().unwrap()).unwrap();
            fs::write(world.path(name), text.as_str().unwrap()).unwrap();
        }
        perform(&case, &world, &launcher);
        for (name, text) in case["made"].as_object().into_iter().flatten() {
            let made = fs::read_to_string(world.path(name)).unwrap();
            assert_eq!(made, text.as_str().unwrap(), "{}", case["name"]);
        }
        for name in strings(&case["missing"]) {
            assert!(!world.path(name).exists(), "{}: {name}", case["name"]);
        }
    }
}

/// What may be written is the working directory.
fn here() -> Policy {
    let filesystem = FilesystemRules { allow_write: vec![".".into()], ..Default::default() };
    Policy { filesystem, ..Default::default() }
}

#[test]
fn typed_policies_are_enforced() {
    let Some(launcher) = launcher() else { return };
    let world = World::new();
    let script = "echo x > made; echo x > ../outside/made";
    let output = world.command(&launcher, &["sh", "-c", script]).policy(here()).output().unwrap();
    assert_eq!(output.outcome.denials[0].target, world.path("outside/made").to_str().unwrap());
    assert!(world.path("work/made").exists() && !world.path("outside/made").exists());
    // A path is no preset, nor one from where the command runs; and what takes more than a pipe holds is handed over.
    assert_eq!(Source::from(Path::new("agent")), Source::Named("./agent".into()));
    fs::write(world.path("agent"), r#"{"filesystem": {"allowWrite": ["../outside"]}}"#).unwrap();
    let up = "../".repeat(env::current_dir().unwrap().components().count() - 1);
    let policy = Path::new(&up).join(world.path("agent").strip_prefix("/").unwrap());
    let mut large = here();
    large.filesystem.allow_write.extend((0..2000).map(|number| format!("{number:0200}")));
    let command = world.command(&launcher, &["touch", "../outside/made"]);
    let outcome = command.policy(&*policy).policy(large).output().unwrap().outcome;
    assert_eq!((outcome.status, outcome.error), (0, None));
}

#[test]
fn denials_are_told_while_the_command_runs() {
    let Some(launcher) = launcher() else { return };
    let world = World::new();
    let (sender, receiver) = mpsc::channel::<Denial>();
    let command = world.command(&launcher, &["sh", "-c", "echo x > made; read line; exit 4"]);
    let command = command.policy("read-only").stdin(Stdio::piped()).stderr(Stdio::null());
    let child =
        command.on_denial(move |denial| sender.send(denial.clone()).unwrap()).spawn().unwrap();
    assert_eq!(receiver.recv().unwrap().target, world.path("work/made").to_str().unwrap());
    // Its standard input is closed.
    assert_eq!(child.wait().unwrap().status, 4);
}

#[test]
fn what_panics_when_it_is_told_ends_the_command() {
    let Some(launcher) = launcher() else { return };
    let world = World::new();
    let told = Arc::new(Mutex::new(0));
    let count = Arc::clone(&told);
    let command = world.command(&launcher, &["sh", "-c", "echo x > made; sleep 600"]);
    let command = command.policy("read-only").stderr(Stdio::null()).on_denial(move |_| {
        *count.lock().unwrap() += 1;
        panic!("the caller's own");
    });
    let child = command.spawn().unwrap();
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| child.wait()));
    assert_eq!(*panicked.unwrap_err().downcast::<&str>().unwrap(), "the caller's own");
}

#[test]
fn what_panics_when_it_is_asked_ends_the_command_and_grants_need_a_channel() {
    let Some(launcher) = launcher() else { return };
    let world = World::new();
    fs::create_dir(world.path("home/.npm")).unwrap();
    let command = || world.command(&launcher, &["sh", "-c", "echo x > ~/.npm/a; sleep 600"]);
    let child = command().policy(here()).on_ask(|_| panic!("the caller's own")).spawn().unwrap();
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| child.wait()));
    assert_eq!(*panicked.unwrap_err().downcast::<&str>().unwrap(), "the caller's own");
    assert!(!world.path("home/.npm/a").exists());
    let child = world.command(&launcher, &["true"]).policy(here()).spawn().unwrap();
    assert!(child.grant("filesystem.allowWrite", "~/.npm").is_err());
    assert_eq!(child.wait().unwrap().status, 0);
}

#[test]
fn of_a_killed_landstrip_the_status_is_its_own() {
    let Some(launcher) = launcher() else { return };
    let world = World::new();
    let child = world.command(&launcher, &["sleep", "600"]).policy(here()).spawn().unwrap();
    assert!(child.id() > 0);
    child.kill().unwrap();
    let outcome = child.wait().unwrap();
    assert_eq!((outcome.status, outcome.ended_by), (137, EndedBy::Landstrip));
}

/// How many descriptors and threads this process has.
fn held() -> (usize, usize) {
    let count = |directory| fs::read_dir(directory).unwrap().count();
    (count("/proc/self/fd"), count("/proc/self/task"))
}

/// The memory that this process has in use, in pages (proc_pid_statm(5)).
fn memory() -> usize {
    let all = fs::read_to_string("/proc/self/statm").unwrap();
    all.split(' ').nth(1).unwrap().parse().unwrap()
}

/// In a process of its own: other tests have descriptors too.
#[test]
fn runs_leave_nothing_behind() {
    let Some(launcher) = launcher() else { return };
    let name = std::thread::current().name().unwrap().to_owned();
    if env::var_os("LANDSTRIP_ALONE").is_none() {
        let mut alone = process::Command::new(env::current_exe().unwrap());
        alone.args(["--exact", &name, "--test-threads=1"]).env("LANDSTRIP_ALONE", "1");
        let output = alone.output().unwrap();
        return assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }
    let world = World::new();
    let runs = env::var("LANDSTRIP_REPETITIONS").map_or(20, |text| text.parse().unwrap());
    let once = || {
        let output =
            world.command(&launcher, &["touch", "made"]).policy(here()).output_of("x").unwrap();
        assert_eq!(output.outcome.status, 0);
    };
    once();
    let (before, used) = (held(), memory());
    (0..runs).for_each(|_| once());
    // A thread that has nothing left to do may still be ending.
    while held().0 > before.0 || held().1 > before.1 {
        std::thread::yield_now();
    }
    // 16 MiB are not the runs' own.
    assert!(memory() < used + 4096, "{used} pages, then {}", memory());
    let left =
        ["work", "home", "outside"].map(|name| fs::read_dir(world.path(name)).unwrap().count());
    assert_eq!(left, [1, 0, 0]);
    let children = fs::read_dir("/proc/self/task").unwrap().map(|task| task.unwrap().path());
    let children =
        children.map(|task| fs::read_to_string(task.join("children")).unwrap_or_default());
    assert_eq!(children.collect::<String>(), "");
}

#[test]
fn a_future_that_is_dropped_ends_its_command() {
    let Some(launcher) = launcher() else { return };
    let world = World::new();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let done = world.command(&launcher, &["sh", "-c", "exit 3"]).policy(here()).output_async();
        assert_eq!(done.await.unwrap().outcome.status, 3);
        let script = "echo ready > made; sleep 600; echo x > late";
        let command = world.command(&launcher, &["sh", "-c", script]).policy(here());
        let mut running = Box::pin(command.output_async());
        while !world.path("work/made").exists() {
            let _ = tokio::time::timeout(Duration::from_millis(5), &mut running).await;
        }
        drop(running);
    });
    // The runtime waits for what it has under way: the command has ended.
    drop(runtime);
    assert!(!world.path("work/late").exists());
}

#[test]
fn pipes_of_the_runtime_are_read_and_written_while_the_command_runs() {
    let Some(launcher) = launcher() else { return };
    let world = World::new();
    fs::create_dir(world.path("home/.npm")).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let script = "echo ready; read line; echo $line > ~/.npm/made; exit 4";
    let command = || {
        let command = world.command(&launcher, &["sh", "-c", script]).policy(here());
        command.stdin(Stdio::piped()).stdout(Stdio::piped())
    };
    runtime.block_on(async {
        let mut child = command().on_ask(|_| Answer::Deny).spawn_async().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert_eq!(lines.next_line().await.unwrap().unwrap(), "ready");
        assert!(child.grant("filesystem.allowWrite", "~/.npm").await.unwrap().granted);
        child.stdin.as_mut().unwrap().write_all(b"words\n").await.unwrap();
        assert_eq!(child.wait().await.unwrap().status, 4);
        assert_eq!(fs::read_to_string(world.path("home/.npm/made")).unwrap(), "words\n");
        // One that is dropped ends.
        let mut child = command().spawn_async().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert_eq!(lines.next_line().await.unwrap().unwrap(), "ready");
        drop(child);
        assert_eq!(lines.next_line().await.unwrap(), None);
    });
}

#[allow(unreachable_pub)]
#[path = "example/readme.rs"]
mod readme;

/// In a process of its own, whose variables and working directory are the example's.
#[test]
fn the_example_of_the_readme_runs() {
    let Some(launcher) = launcher() else { return };
    if env::var_os("LANDSTRIP_ALONE").is_some() {
        return readme::test_in_a_sandbox(&launcher).unwrap();
    }
    assert!(include_str!("../README.md").contains(include_str!("example/readme.rs")));
    let world = World::new();
    fs::create_dir(world.path("home/bin")).unwrap();
    let npm = world.path("home/bin/npm");
    let script = "#!/bin/sh\necho done; echo x > made; echo x > ../outside/made || true\n";
    fs::write(&npm, script).unwrap();
    fs::set_permissions(&npm, fs::Permissions::from_mode(0o755)).unwrap();
    let name = std::thread::current().name().unwrap().to_owned();
    let mut alone = process::Command::new(env::current_exe().unwrap());
    alone.args(["--exact", &name, "--nocapture"]).env("LANDSTRIP_ALONE", "1");
    alone.current_dir(world.path("work")).env("HOME", world.path("home"));
    let path = env::var("PATH").unwrap();
    alone.env("PATH", format!("{}:{path}", npm.parent().unwrap().display()));
    let output = alone.output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{printed}");
    assert!(printed.contains("0 done\n"), "{printed}");
    let refused = format!("refused: write {:?}\n", world.path("outside/made"));
    assert!(printed.contains(&refused), "{printed}");
    assert!(world.path("work/made").exists() && !world.path("outside/made").exists());
}

//! The line that helps: put into the policy as it stands, it lets the command pass; or it names the rule that
//! somebody wrote.

use serde_json::{Value, json};
use tests::{Outcome, Sandbox, UnixPeer, for_each_user, free_port};

/// What the policies have in common.
fn base() -> Value {
    json!({
        "filesystem": {
            "allowWrite": ["./src"],
            "denyWrite": ["./src/.env", "./src/**/*.key"],
            "denyRead": ["~/.ssh"],
        },
        "network": { "deniedDomains": ["evil.invalid"] },
    })
}

/// The last part of the line that begins with `what`.
fn line<'a>(outcome: &'a Outcome, what: &str) -> Option<&'a str> {
    let line = outcome.stderr.lines().find_map(|line| line.strip_prefix("landstrip: "))?;
    let parts = line.split("; ");
    parts.filter_map(|part| part.strip_prefix(what)).next()
}

/// Puts `key += [...]` and `key = true` into `policy`, as they stand.
fn put(policy: &mut Value, mut remedies: &str) {
    while !remedies.is_empty() {
        let (key, rest) = remedies.split_once(' ').unwrap();
        let (object, name) = key.split_once('.').unwrap();
        let value = &mut policy[object][name];
        if let Some(rest) = rest.strip_prefix("= true") {
            *value = json!(true);
            remedies = rest;
        } else {
            let list = rest.strip_prefix("+= ").unwrap();
            let end = list.find(']').unwrap() + 1;
            let more: Vec<Value> = serde_json::from_str(&list[..end]).unwrap();
            if value.is_null() {
                *value = json!([]);
            }
            value.as_array_mut().unwrap().extend(more);
            remedies = &list[end..];
        }
        remedies = remedies.strip_prefix(", ").unwrap_or(remedies);
    }
}

fn prepare(sandbox: &Sandbox) {
    for dir in ["work/src", "home/.ssh", "home/.npm", "home/.cache", "home/.cargo", "outside/tree"]
    {
        sandbox.dir(dir);
    }
    for dir in ["home/.local", "home/.local/share", "home/.local/share/app", "home/.cargo/registry"]
    {
        sandbox.dir(dir);
    }
    for file in
        ["work/src/.env", "home/.ssh/id", "outside/tree/a", "outside/file", "work/src/a.key"]
    {
        sandbox.file(file, "kept\n");
    }
    sandbox.file("home/.local/share/app/log", "");
}

/// Asks the proxy for a host, and fails if it refuses.
fn ask(host: &str) -> String {
    let request = format!("CONNECT {host} HTTP/1.1\\r\\nHost: {host}\\r\\n\\r\\n");
    format!(
        "exec 3<>/dev/tcp/127.0.0.1/${{HTTP_PROXY##*:}}; printf '{request}' >&3; \
         read -r _ status _ <&3; [[ $status != 403 ]]"
    )
}

#[test]
fn the_line_as_it_stands_lets_the_command_pass() {
    for_each_user(|user| {
        let commands = [
            "mkdir -p ~/.cargo/registry/index && touch ~/.cargo/registry/index/a",
            "touch ~/.npm/_logs",
            "mkdir -p ~/.cache/pip/http && touch ~/.cache/pip/http/a",
            "mkdir -p ~/.yarn/cache && touch ~/.yarn/cache/a",
            "mkdir target && touch target/a target/b",
            "echo x > note",
            "touch a b c d && mkdir e",
            "git init -q repository",
            "echo x >> ~/.local/share/app/log",
            "chmod 600 ../outside/file",
            "mv ../outside/tree/a ../outside/tree/b",
            "rm ../outside/tree/a",
            "ln -s x ../outside/tree/link",
            "mkfifo ../outside/tree/fifo",
            "touch -d 2001-01-01 ../outside/file",
            "cp src/.env copy && rm copy",
            "tar cf out.tar src",
        ];
        for command in commands.map(str::to_owned).into_iter().chain([
            ask("registry.invalid:443"),
            ask("git.invalid:22"),
            ask("192.0.2.1:443"),
        ]) {
            passes(&Sandbox::of(user), &command, &["bash", "-c", &command]);
        }
        let probe = tests::programs().probe().into_os_string().into_string().unwrap();
        let script = format!("{probe} bind4 127.0.0.1 {} | grep OK", free_port());
        passes(&Sandbox::of(user), "bind", &["sh", "-c", &script]);
        let sandbox = Sandbox::of(user);
        let path = sandbox.name("outside/socket");
        let peer = UnixPeer::at(&path, "stream");
        let script = format!("{probe} unix-connect {path} stream | grep OK");
        passes(&sandbox, "connect", &["sh", "-c", &script]);
        peer.reached();
        let sandbox = Sandbox::of(user);
        let path = sandbox.name("work/src/socket");
        let script =
            format!("{probe} unix-bind {path} stream | grep OK; s=$?; rm -f {path}; exit $s");
        passes(&sandbox, "bind a path", &["sh", "-c", &script]);
    });
}

/// Runs `words` as the policy is, puts what it says into it, and runs them once more.
fn passes(sandbox: &Sandbox, what: &str, words: &[&str]) {
    prepare(sandbox);
    let mut policy = base();
    let run = |policy: &Value| {
        let file = sandbox.file("p.json", policy.to_string());
        let options = ["-p", file.to_str().unwrap(), "--"];
        sandbox.landstrip(options.iter().chain(words).copied())
    };
    let before = run(&policy);
    let said = line(&before, "to allow this: ").unwrap_or_else(|| panic!("{what}: {before:#?}"));
    put(&mut policy, said);
    let after = run(&policy);
    assert_eq!(after.status, Some(0), "{what}: {said}: {after:#?}");
    assert_eq!(line(&after, "to allow this: "), None, "{what}: {after:#?}");
    for opened in ["\"~\"", "\"/\"", ".ssh", "policy"] {
        assert!(!said.contains(opened), "{what}: {said}");
    }
}

#[test]
fn what_a_rule_denies_is_told_by_the_rule_and_nothing_is_suggested() {
    for_each_user(|user| {
        for (command, rule) in [
            ("echo x > src/.env".to_owned(), r#"filesystem.denyWrite ["./src/.env"]"#),
            ("rm -f src/.env".to_owned(), r#"filesystem.denyWrite ["./src/.env"]"#),
            ("mv src/a.key src/b".to_owned(), "filesystem.denyWrite"),
            ("cat ~/.ssh/id".to_owned(), r#"filesystem.denyRead ["~/.ssh"]"#),
            ("echo x > ~/.ssh/new".to_owned(), r#"filesystem.denyRead ["~/.ssh"]"#),
            (ask("evil.invalid:443"), r#"network.deniedDomains ["evil.invalid"]"#),
        ] {
            let sandbox = Sandbox::of(user);
            prepare(&sandbox);
            let file = sandbox.file("p.json", base().to_string());
            let outcome = sandbox.landstrip(["-p", file.to_str().unwrap(), "bash", "-c", &command]);
            outcome.fails();
            let said = line(&outcome, "denied by: ").unwrap_or_default();
            assert!(said.starts_with(rule), "{command}: {said:?} {outcome:#?}");
            assert_eq!(line(&outcome, "to allow this: "), None, "{command}: {outcome:#?}");
            assert_eq!(sandbox.read("work/src/.env"), "kept\n");
        }
    });
}

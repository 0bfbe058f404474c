//! `--explain`: what it answers is what a sandbox does, told by the commands themselves and from outside.

use serde_json::Value;
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use tests::{Sandbox, TcpPeer, Terminal, UnixPeer, for_each_user, free_port};

/// The answers about `words`, by action and word; each with its rule.
fn answers(sandbox: &Sandbox, words: &[&str]) -> BTreeMap<(String, String), Value> {
    let mut line = sandbox.command_line();
    line.push("--explain=json".into());
    line.extend(words.iter().map(Into::into));
    let outcome = sandbox.run_outside(line);
    outcome.succeeds();
    let all: Value = serde_json::from_str(&outcome.stdout).unwrap();
    let replies = all["answers"].as_array().unwrap();
    assert_eq!(replies.len(), words.len(), "{outcome:#?}");
    let mut answers = BTreeMap::new();
    for (reply, word) in replies.iter().zip(words) {
        for answer in reply["answers"].as_array().unwrap() {
            let action = answer["action"].as_str().unwrap().to_owned();
            answers.insert((action, (*word).to_owned()), answer.clone());
        }
    }
    answers
}

/// Does to each path what stands before it, leaves everything as it was, and says whether it could.
const SCRIPT: &str = r#"
import os, subprocess, sys

def make(path):
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL))
    os.unlink(path)

def move(path):
    os.rename(path, path + '.t')
    os.rename(path + '.t', path)

actions = {
    'read': lambda path: os.listdir(path) if os.path.isdir(path) else open(path, 'rb').read(1),
    'write': lambda path: make(path + '/.t') if os.path.isdir(path) else open(path, 'ab').close(),
    'execute': lambda path: subprocess.run([os.path.abspath(path)]),
    'create': make,
    'remove': move,
}
for line in sys.argv[1:]:
    action, path = line.split(' ', 1)
    try:
        actions[action](path)
        print(line + '=yes')
    except OSError:
        print(line + '=no')
"#;

fn world(sandbox: &Sandbox) {
    for dir in ["work/src", "work/hidden", "work/hidden/open", "outside/secret"] {
        sandbox.dir(dir);
    }
    for file in ["work/file", "work/.env", "work/src/a.key", "work/src/b", "outside/file"] {
        sandbox.file(file, "");
    }
    for file in ["work/hidden/open/file", "work/hidden/file", "outside/secret/file"] {
        sandbox.file(file, "");
    }
    for (file, mode) in [
        ("work/run", 0o755),
        ("outside/run", 0o755),
        ("outside/secret/run", 0o755),
        ("work/ro", 0o444),
    ] {
        let path = sandbox.file(file, "#!/bin/sh\n");
        std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    }
    sandbox.dir("work/plain");
    std::os::unix::fs::symlink(sandbox.path("outside/secret"), sandbox.path("work/link")).unwrap();
}

/// Compares what is said of each path with what a command can do to it.
fn compare(sandbox: &Sandbox) {
    world(sandbox);
    let paths = [
        "file",
        ".env",
        "src/a.key",
        "src/b",
        "src",
        "ro",
        "./run",
        "plain",
        "new",
        "src/new",
        "src/new.key",
        "plain/deep",
        ".env/x",
        "hidden",
        "hidden/file",
        "hidden/open",
        "hidden/open/file",
        "hidden/new",
        "link/file",
        "../outside/file",
        "../outside/run",
        "../outside/new",
        "../outside/secret",
        "../outside/secret/file",
        "../outside/secret/run",
        "/etc/passwd",
        "/usr",
        "/dev/null",
        "..",
        ".",
        "/dev",
    ];
    let answers = answers(sandbox, &paths);
    let mut command: Vec<String> = ["python3", "-c", SCRIPT].map(str::to_owned).into();
    command.extend(answers.keys().map(|(action, path)| format!("{action} {path}")));
    let outcome = sandbox.run(command);
    let mut wrong = Vec::new();
    for ((action, path), answer) in &answers {
        let expected = if answer["allowed"] == true { "yes" } else { "no" };
        // Nobody moves a mount or the directory that a process works in.
        let is_fixed = action == "remove" && ["/", "/dev", ".", ".."].contains(&path.as_str());
        if !is_fixed && outcome.result(&format!("{action} {path}")) != expected {
            wrong.push(format!("{action} {path}: {answer}"));
        }
    }
    assert!(answers.len() > 60, "{answers:#?}");
    assert!(wrong.is_empty(), "{wrong:#?}\n{outcome:#?}");
}

#[test]
fn what_is_said_of_paths_is_what_a_command_can_do() {
    for_each_user(|user| {
        compare(&Sandbox::of(user).allow_write(".").deny_write(".env").deny_write("src/*.key"));
        let hidden =
            Sandbox::of(user).allow_write(".").deny_read("hidden").allow_read("hidden/open");
        compare(&hidden.deny_read("../outside/secret"));
        compare(
            &Sandbox::of(user)
                .allow_write(".")
                .deny_write("**/*.key")
                .allow_write("../outside/new"),
        );
        compare(&Sandbox::of(user).without_policy());
        compare(&Sandbox::of(user).allow_write(".").deny_read("**/*.key"));
    });
}

#[test]
fn what_only_the_broker_refuses_to_read_is_said_to_be_executed() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user).allow_write(".").deny_read("tool").deny_read("**/*.key");
        sandbox.dir("work/dir");
        for file in ["work/tool", "work/dir/tool.key"] {
            sandbox.program(file, std::fs::read("/bin/true").unwrap());
        }
        let alias = "../outside/alias";
        std::fs::hard_link(sandbox.path("work/tool"), sandbox.path("work").join(alias)).unwrap();
        let words = ["./tool", "dir/tool.key", alias];
        let answers = answers(&sandbox, &words);
        for word in words {
            let said =
                |action: &str| answers[&(action.to_owned(), word.to_owned())]["allowed"] == true;
            assert!(!said("read"), "{word}: {answers:#?}");
            assert_eq!(said("execute"), sandbox.run([word]).status == Some(0), "{word}");
            assert_eq!(said("execute"), word != "./tool", "{word}");
        }
    });
}

#[test]
fn what_is_said_of_other_names_of_a_denied_file_is_what_a_command_can_read() {
    for_each_user(|user| {
        let sandbox = || Sandbox::of(user).deny_read("den/key");
        for sandbox in [
            sandbox(),
            sandbox().allow_write("beside"),
            sandbox().allow_write("."),
            sandbox().deny_read("beside/more"),
        ] {
            for directory in ["den", "elsewhere", "beside"] {
                sandbox.dir(format!("work/{directory}"));
            }
            let key = sandbox.file("work/den/key", "key");
            let names = ["elsewhere/name", "beside/name", "name"];
            for name in names {
                std::fs::hard_link(&key, sandbox.path("work").join(name)).unwrap();
            }
            let answers = answers(&sandbox, &names);
            for name in names {
                let said = answers[&("read".to_owned(), name.to_owned())]["allowed"] == true;
                let read = sandbox.run(["cat", name]).status == Some(0);
                assert_eq!(said, read, "{name}: {answers:#?}");
            }
            sandbox.run(["cat", "den/key"]).fails();
        }
    });
}

#[test]
fn what_is_said_of_sockets_is_what_a_command_can_reach() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user).allow_write(".").allow_unix_socket("../outside/listed");
        let sandbox = sandbox.allow_unix_socket("own").trap();
        let [listed, other] = ["outside/listed", "outside/other"].map(|name| sandbox.name(name));
        let peers = [&listed, &other].map(|path| UnixPeer::at(path, "stream"));
        let answers = answers(&sandbox, &[&listed, &other, "own", "unlisted"]);
        let is_allowed = |action: &str, word: &str| {
            answers[&(action.to_owned(), word.to_owned())]["allowed"] == true
        };
        for (path, peer) in [&listed, &other].into_iter().zip(&peers) {
            let outcome = sandbox.probe(format!("unix-connect {path} stream"));
            let reached = outcome.result("unix-connect") == "OK";
            assert_eq!(is_allowed("connect", path), reached, "{path}");
            peer.has_seen(usize::from(reached));
        }
        for path in ["own", "unlisted"] {
            let outcome = sandbox.probe(format!("unix-bind {path} stream"));
            assert_eq!(is_allowed("bind", path), outcome.result("unix-bind") == "OK", "{path}");
        }
        assert!(is_allowed("connect", &listed) && !is_allowed("bind", "unlisted"));
    });
}

#[test]
fn what_is_said_of_hosts_is_what_the_proxy_does() {
    let sandbox = Sandbox::new()
        .allow_domains(["a.invalid", "*.b.invalid:443", "192.0.2.1"])
        .deny_domains(["no.b.invalid"]);
    let hosts = [
        "a.invalid:80",
        "a.invalid:443",
        "x.a.invalid:443",
        "x.b.invalid:443",
        "x.b.invalid:80",
        "no.b.invalid:443",
        "b.invalid:443",
        "192.0.2.2:443",
    ];
    let answers = answers(&sandbox, &hosts);
    let script = r#"for host; do
        exec 3<>/dev/tcp/127.0.0.1/${HTTP_PROXY##*:}
        printf 'CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n' "$host" "$host" >&3
        read -r _ status _ <&3; echo "$host=$status"
    done"#;
    let mut words = vec!["bash", "-c", script, "bash"];
    words.extend(hosts);
    let outcome = sandbox.run(words);
    for host in hosts {
        let allowed = answers[&("connect".to_owned(), host.to_owned())]["allowed"] == true;
        // Nobody answers for names that are reserved.
        let refused = outcome.result(host) == "403";
        assert_eq!(allowed, !refused, "{host}: {outcome:#?}");
    }
}

#[test]
fn what_is_said_of_addresses_is_what_a_command_can_reach() {
    let (peer, other) = (TcpPeer::new(), TcpPeer::new());
    let (named, unnamed, free) =
        (format!("127.0.0.1:{}", peer.port()), format!("127.0.0.1:{}", other.port()), free_port());
    for (sandbox, reached) in [
        (Sandbox::new(), [false, false]),
        (Sandbox::new().http_proxy_port(peer.port()), [true, false]),
        (Sandbox::new().allow_local_binding(), [false, false]),
        (Sandbox::new().allow_network(), [true, true]),
    ] {
        let own = format!("127.0.0.1:{free}");
        let answers = answers(&sandbox, &[&named, &unnamed, &own, "192.0.2.1:80"]);
        let is_allowed = |action: &str, word: &str| {
            answers[&(action.to_owned(), word.to_owned())]["allowed"] == true
        };
        assert_eq!([is_allowed("connect", &named), is_allowed("connect", &unnamed)], reached);
        for (address, port) in [(&named, peer.port()), (&unnamed, other.port())] {
            let outcome = sandbox.probe(format!("connect4 127.0.0.1 {port}"));
            assert_eq!(is_allowed("connect", address), outcome.result("connect4") == "OK");
        }
        let outcome = sandbox.probe(format!("bind4 127.0.0.1 {free}"));
        assert_eq!(is_allowed("bind", &own), outcome.result("bind4") == "OK", "{outcome:#?}");
    }
}

#[test]
fn the_rule_that_decides_is_named_with_file_and_line() {
    let sandbox = Sandbox::new().policy_json(
        "{\"filesystem\": {\n  \"allowWrite\": [\".\"],\n  \"denyWrite\": [\n    \"other\",\n    \".env\"]},\n\
         \"network\": {\n  \"allowedDomains\": [\"a.test\"],\n  \"allowLocalBinding\": true}}",
    );
    sandbox.file("work/.env", "");
    let answers = answers(&sandbox, &[".env", "new", "a.test:443", "127.0.0.1:1"]);
    let policy = sandbox.path("policy.json").canonicalize().unwrap();
    for (action, word, line, field) in [
        ("write", ".env", 5, "filesystem.denyWrite[1]"),
        ("create", "new", 2, "filesystem.allowWrite[0]"),
        ("connect", "a.test:443", 7, "network.allowedDomains[0]"),
        ("bind", "127.0.0.1:1", 8, "network.allowLocalBinding"),
    ] {
        let rule = &answers[&(action.to_owned(), word.to_owned())]["rule"];
        assert_eq!(rule["line"], line, "{action} {word}: {rule}");
        assert_eq!(rule["field"], field, "{action} {word}: {rule}");
        assert_eq!(rule["file"], policy.to_str().unwrap(), "{action} {word}: {rule}");
    }
    let program = tests::programs().landstrip();
    let own = self::answers(&Sandbox::new().allow_write("/"), &[program.to_str().unwrap()]);
    let write = &own[&("write".to_owned(), program.to_str().unwrap().to_owned())];
    assert!(write["rule"]["added"].as_str().unwrap().contains("landstrip's programs"), "{write}");
}

#[test]
fn of_what_is_missing_a_rule_against_reading_is_named() {
    let sandbox = Sandbox::new().allow_write(".").deny_read("hidden");
    sandbox.dir("work/hidden");
    let answers = answers(&sandbox, &["hidden/new", "new"]);
    let answer = |action: &str, word: &str| answers.get(&(action.to_owned(), word.to_owned()));
    let refused = answer("read", "hidden/new").unwrap();
    assert_eq!(refused["allowed"], false);
    assert_eq!(refused["rule"]["field"], "filesystem.denyRead[0]");
    assert_eq!(answer("create", "hidden/new").unwrap()["allowed"], false);
    assert_eq!(answer("create", "new").unwrap()["allowed"], true);
    assert!(answer("read", "new").is_none(), "{answers:#?}");
}

#[test]
fn words_that_ask_nothing_are_told_what_to_write() {
    let sandbox = Sandbox::new();
    for (word, expected) in [
        ("", "is needed"),
        ("example.com:99999", "from 1 to 65535"),
        ("https://example.com/x", "example.com:443"),
        ("::1", "[::1]:443"),
        (":80", "no host"),
        ("example.com", "for a host, write its port, too, as in example.com:443"),
        ("~root/x", "'~user'"),
    ] {
        sandbox.landstrip(["-p", "agent", "--explain", word]).is_error(2, "Usage", expected);
    }
    // What is there is a path, whatever it is called.
    sandbox.file("work/example.com", "");
    sandbox.landstrip(["-p", "agent", "--explain", "example.com"]).succeeds();
    let answers = answers(&sandbox, &["/proc/self/no-such-file", "@abstract", "/proc/self/exe"]);
    let is_allowed = |action: &str, word: &str| {
        answers[&(action.to_owned(), word.to_owned())]["allowed"] == true
    };
    assert!(!is_allowed("create", "/proc/self/no-such-file"), "{answers:#?}");
    assert!(!is_allowed("connect", "@abstract"), "{answers:#?}");
    assert!(is_allowed("read", "/proc/self/exe"), "{answers:#?}");
}

#[test]
fn what_the_user_may_not_look_at_is_answered() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user).allow_write(".");
        sandbox.dir("outside/closed");
        let file = sandbox.name("outside/closed/file");
        sandbox.sh_outside("echo > ../outside/closed/file; chmod 0 ../outside/closed").succeeds();
        let answers = answers(&sandbox, &[&file]);
        let read = &answers[&("read".to_owned(), file.clone())];
        assert_eq!(read["allowed"] == true, user.is_root(), "{answers:#?}");
        sandbox.sh_outside("chmod 700 ../outside/closed").succeeds();
    });
}

#[test]
fn a_hard_link_is_named_and_the_file_itself_is_not() {
    let sandbox = Sandbox::new().allow_write(".").deny_write(".env");
    sandbox.file("work/.env", "");
    std::fs::hard_link(sandbox.path("work/.env"), sandbox.path("work/.env2")).unwrap();
    let mut line = sandbox.command_line();
    line.push("--check".into());
    let outcome = sandbox.run_outside(line);
    assert_eq!(outcome.succeeds().stdout.matches("another name").count(), 1, "{outcome:#?}");
    assert!(outcome.stdout.contains("/.env2 is another name"), "{outcome:#?}");
    let outcome =
        sandbox.sh("for f in .env .env2; do echo x >> $f && echo $f=OK || echo $f=no; done");
    assert_eq!([outcome.result(".env"), outcome.result(".env2")], ["no"; 2], "{outcome:#?}");
}

#[test]
fn variables_of_one_value_stand_together() {
    let sandbox = Sandbox::new().allow_domains(["a.test"]);
    let mut line = sandbox.command_line();
    line.push("--explain=full".into());
    let outcome = sandbox.run_outside(line);
    let text = &outcome.succeeds().stdout;
    assert_eq!(text.matches("set to http://").count(), 1, "{text}");
    let (_, after) = text.split_once("set to http://").unwrap();
    let names: Vec<&str> =
        after.lines().skip(1).take_while(|line| line.starts_with("    ")).map(str::trim).collect();
    for name in ["HTTP_PROXY", "https_proxy", "CARGO_HTTP_PROXY", "npm_config_proxy"] {
        assert!(names.contains(&name), "{name}: {text}");
    }
}

#[test]
fn the_overview_says_where_everything_came_from_and_runs_nothing() {
    let sandbox = Sandbox::new();
    sandbox.file("work/.env", "");
    let text = "extends: read-only\nfilesystem:\n  allowWrite: [.]\n  denyWrite: [.env]\nenvironment:\n  deny: [SECRET]\n";
    let policy = sandbox.file("p.yaml", text);
    let sandbox = sandbox.env("SECRET", "x").env("HTTP_PROXY", "");
    let outcome = sandbox.landstrip(["-p", policy.to_str().unwrap(), "--explain=json"]);
    let all: Value = serde_json::from_str(&outcome.succeeds().stdout).unwrap();
    let row = |section: &str, subject: &str| {
        let rows = all[section].as_array().unwrap();
        let found = rows.iter().find(|row| row["subject"].as_str().unwrap().ends_with(subject));
        found.unwrap_or_else(|| panic!("{subject} in {section}: {all:#}")).clone()
    };
    assert_eq!(row("policy", "p.yaml")["text"], "named by --policy");
    row("policy", "<preset read-only>");
    let env = row("files", "/work/.env");
    assert_eq!(env["rule"]["line"], 4);
    assert!(env["text"].as_str().unwrap().contains("the broker makes changes in"), "{env}");
    assert!(env["text"].as_str().unwrap().ends_with("/work"), "{env}");
    assert_eq!(row("environment", "SECRET")["text"], "not passed on");
    row("protections", "signals");

    let outcome = sandbox.landstrip(["-p", policy.to_str().unwrap(), "--explain=full"]);
    assert!(
        outcome.succeeds().stdout.contains("p.yaml:4: filesystem.denyWrite[0]"),
        "{outcome:#?}"
    );
    assert!(!outcome.stdout.contains('\x1b'), "no colours where nobody looks: {outcome:#?}");
    let built_in = sandbox.landstrip(["--explain"]);
    assert!(built_in.succeeds().stdout.contains("built in"), "{built_in:#?}");
    sandbox.landstrip(["--explain=yaml"]).exits(2);
    sandbox.landstrip(["-p", "agent", "--explain", "\u{1b}[31m"]).succeeds();
}

#[test]
fn a_preset_is_explained_on_a_page_that_names_the_rest() {
    let sandbox = Sandbox::new();
    for preset in ["agent", "build", "read-only"] {
        let said = |option| sandbox.landstrip(["-p", preset, option]).succeeds().stdout.clone();
        let (page, full) = (said("--explain"), said("--explain=full"));
        assert!(page.lines().count() <= 50, "{page}");
        assert!(page.lines().all(|line| line.chars().count() <= 400), "{page}");
        assert!(page.contains("=full") && page.contains("network\n"), "{page}");
        assert!(full.contains("protections\n") && !page.contains("protections\n"), "{full}");
        assert!(full.lines().count() > page.lines().count(), "{full}");
    }
    let page = sandbox.landstrip(["-p", "agent", "--explain"]).succeeds().stdout.clone();
    let policy = sandbox.file("p.yaml", "filesystem:\n  allowWrite: [a, b, c]\n  denyWrite: [b]\n");
    let said = sandbox.landstrip(["-p", policy.to_str().unwrap(), "--explain"]);
    assert!(said.succeeds().stdout.contains("  may be written: ./a, ./c\n"), "{said:#?}");
    assert!(
        said.stdout.contains("  ./b: may be written: not so, another rule denies it\n"),
        "{said:#?}"
    );
    assert!(page.contains("  may be written: ") && page.contains(" more\n"), "{page}");
}

#[test]
fn of_processes_outside_nothing_is_read_that_only_tracers_may() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user);
        let mut outside = sandbox.spawn_outside(["sleep", "1000"]);
        let pid = outside.pid();
        for (file, is_read) in [("environ", false), ("maps", false), ("fd", true), ("status", true)]
        {
            let path = format!("/proc/{pid}/{file}");
            let told = sandbox.landstrip(["--explain", &path]);
            assert_eq!(told.stdout.contains("read     yes"), is_read, "{told:#?}");
            let read = format!("if [ -d {path} ]; then ls {path}; else cat {path}; fi");
            let inside = sandbox.sh(&read);
            assert_eq!(inside.status == Some(0), is_read, "{inside:#?}");
            sandbox.sh_outside(&read).succeeds();
        }
        assert!(outside.is_running());
        outside.signal(nix::sys::signal::Signal::SIGKILL);
        outside.wait();
    });
}

#[test]
fn shared_memory_is_said_to_be_the_commands_own() {
    for_each_user(|user| {
        let name = format!("/dev/shm/landstrip-test-{}", std::process::id());
        for (sandbox, is_own) in [
            (Sandbox::of(user).allow_write("."), true),
            (Sandbox::of(user).allow_write(".").deny_write("/dev/shm"), false),
        ] {
            let told = answers(&sandbox, &[&name])[&("create".to_owned(), name.clone())].clone();
            assert_eq!(told["allowed"].as_bool(), Some(is_own), "{told}");
            let made = sandbox.sh(&format!("echo x > {name} && cat 0<> {name}"));
            assert_eq!(made.stdout, if is_own { "x\n" } else { "" }, "{made:#?}");
        }
        assert!(!std::fs::exists(&name).unwrap());
    });
}

#[test]
fn colours_are_for_terminals_that_want_them() {
    let sandbox = Sandbox::new().allow_write(".");
    let mut terminal = Terminal::of(&sandbox);
    terminal.type_in("$L --explain . | cat; $L --explain .; echo en''d\n");
    terminal.expect("end");
    assert!(terminal.all().contains("\x1b[32myes"), "{}", terminal.all());
    let mut terminal = Terminal::of(&sandbox);
    terminal.type_in("NO_COLOR=1 $L --explain .; echo en''d\n");
    terminal.expect("end");
    assert!(terminal.all().contains("yes") && !terminal.all().contains("\x1b[32m"));
}

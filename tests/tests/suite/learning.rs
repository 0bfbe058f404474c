//! A run that learns: what it needed is a policy under which it passes, and deny rules hold meanwhile.

use std::fs;
use std::net::{IpAddr, UdpSocket};
use std::os::unix::fs::symlink;
use tests::{
    ESCAPED, Origin, Outcome, Sandbox, Snapshot, TcpPeer, UnixPeer, User, copy_program,
    for_each_user, programs, quoted, skipped,
};

/// Where the draft goes.
const DRAFT: &str = "outside/draft.yaml";

/// Runs `script` in `sandbox` with `options`, to learn.
fn learn(sandbox: &Sandbox, options: &[&str], script: &str) -> Outcome {
    let draft = sandbox.name(DRAFT);
    let words = ["--learn", &draft, "--", "sh", "-c", script];
    sandbox.landstrip(options.iter().chain(&words).copied())
}

/// Runs `script` under the draft.
fn under_draft(sandbox: &Sandbox, script: &str) -> Outcome {
    sandbox.landstrip(["-p", &sandbox.name(DRAFT), "--", "sh", "-c", script])
}

/// Learns from `script`, and runs it under what was learned; returns the draft without comments at line ends.
#[track_caller]
fn passes(sandbox: &Sandbox, options: &[&str], script: &str) -> String {
    learn(sandbox, options, script).succeeds();
    let draft = sandbox.read(DRAFT);
    let outcome = under_draft(sandbox, script);
    assert_eq!(outcome.status, Some(0), "{draft}{outcome:#?}");
    assert!(outcome.reports.is_empty(), "{draft}{outcome:#?}");
    assert!(draft.lines().count() <= 15, "{draft}");
    draft.lines().map(|line| line.split("  # ").next().unwrap().to_owned() + "\n").collect()
}

#[test]
fn what_a_command_needed_is_a_policy_under_which_it_passes() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user);
        sandbox.dir("home/.cache");
        sandbox.dir("home/.cache/uv");
        let script = format!(
            "set -e; echo x > made; mkdir -p ~/.cache/pip/deep; echo y > ~/.cache/pip/deep/file; \
             mkdir -p ~/.cargo; echo z > ~/.cargo/.package-cache; chmod 600 ~/.cargo/.package-cache; \
             cd {0}; echo a > a; mv a b; ln -f b c; rm -f b c; mkdir -p d; rmdir d; echo \"$TMPDIR\" > tmp; \
             echo t > \"$TMPDIR/t\"",
            sandbox.name("home/.cache/uv")
        );
        sandbox.landstrip(["--", "sh", "-c", &script]).fails();
        let draft = passes(&sandbox, &[], &script);
        let expected = "filesystem:\n  allowWrite:\n    - \".\"\n    - \"~/.cache/pip\"\n    \
                        - \"~/.cache/uv\"\n    - \"~/.cargo/.package-cache\"\n";
        assert!(draft.ends_with(expected), "{draft}");
        assert!(sandbox.read(DRAFT).contains("\"~/.cache/pip\"  # "), "{draft}");
        let policy = sandbox.name(DRAFT);
        sandbox.landstrip(["-p", &policy, "--", "touch", &sandbox.name("home/x")]).fails();
    });
}

#[test]
fn a_directory_that_was_there_and_a_link_are_not_learned_with_what_they_lead_to() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user);
        for directory in ["home/projects", "home/projects/x", "home/.config"] {
            sandbox.dir(directory);
        }
        sandbox.file("home/notes", "");
        symlink(".config", sandbox.path("home/settings")).unwrap();
        let script = "touch ~/projects; touch -h ~/settings; echo x > ~/notes
            mkdir ~/projects/new; touch ~/projects/new";
        learn(&sandbox, &[], script).succeeds();
        let draft = sandbox.read(DRAFT);
        for (rule, is_learned) in [
            ("~/projects", false),
            ("~/settings", false),
            ("~/notes", true),
            ("~/projects/new", true),
        ] {
            assert_eq!(draft.contains(&format!("- \"{rule}\"  #")), is_learned, "{rule}: {draft}");
        }
        let escape = "echo x > ~/projects/x/hook; echo x > ~/.config/x; echo y > ~/projects/new/b; cat ~/notes";
        let outcome = under_draft(&sandbox, escape);
        assert_eq!(outcome.stdout, "x\n", "{outcome:#?}");
        let made = |name: &str| sandbox.path("home").join(name).exists();
        assert!(!made("projects/x/hook") && !made(".config/x"), "{ESCAPED}{draft}");
        assert!(made("projects/new/b"), "{draft}");
    });
}

/// Who may write a path may not remove it, but for what the run has made there itself.
#[test]
fn what_a_rule_for_its_path_would_not_help_is_not_learned() {
    for_each_user(|user| {
        for (script, helped) in [
            ("rm ~/docs/old", false),
            ("mv ~/docs/old ~/docs/other", false),
            ("ln ~/docs/old ~/docs/other", false),
            ("echo x > ~/docs/new; mv ~/docs/new ~/docs/old", false),
            ("mkdir ~/docs/a; mv ~/docs/a ~/docs/b", false),
            ("ln -s old ~/docs/link", false),
            ("echo x > ~/docs/sedSnXbQ2", false),
            ("echo x > app; rm app; rm built", false),
            ("echo x >> ~/docs/old; echo x > ~/docs/new; rm ~/docs/new", true),
        ] {
            let sandbox = Sandbox::of(user).without_policy();
            sandbox.dir("home/docs");
            let files = ["home/docs/old", "home/docs/kept", "work/built"];
            files.iter().for_each(|file| drop(sandbox.file(file, "")));
            let told = learn(&sandbox, &["-p", "read-only"], script);
            let draft = sandbox.read(DRAFT);
            let left_out = "left out, as only a rule for the directory would help: \"/";
            assert_eq!(!told.succeeds().stderr.contains(left_out), helped, "{draft}{told:#?}");
            assert_eq!(!draft.contains("# Left out, as only a rule"), helped, "{draft}");
            files.iter().for_each(|file| drop(sandbox.file(file, "")));
            for name in ["other", "new", "a", "b", "link"] {
                let made = sandbox.path("home/docs").join(name);
                let _ = fs::remove_file(&made).or_else(|_| fs::remove_dir(&made));
            }
            // Names of chance are others each time.
            let again = under_draft(&sandbox, &script.replace("SnXbQ2", "w8Rt0K"));
            assert_eq!(again.status == Some(0), helped, "{script}: {draft}{again:#?}");
        }
    });
}

/// The tools that are most often learned from, without a network: git, and what builds and tests.
#[test]
fn a_new_directory_is_not_learned_with_what_is_left_out_of_it() {
    for_each_user(|user| {
        for (made, left_out) in [
            ("mkdir ~/n; echo x > ~/n/.envrc", true),
            ("git init -q ~/n", true),
            ("mkdir ~/n", false),
        ] {
            let sandbox = Sandbox::of(user).without_policy();
            let told = learn(&sandbox, &["-p", "read-only"], made);
            assert_eq!(told.stderr.contains("left out"), left_out, "{told:#?}");
            let later =
                under_draft(&sandbox, "mkdir -p ~/n; echo evil > ~/n/.envrc; cat ~/n/.envrc");
            assert_eq!(later.stdout.contains("evil"), !left_out, "{made} {later:#?}");
        }
    });
}

#[test]
fn git_is_learned() {
    for_each_user(|user| {
        let sandbox = Sandbox::beneath("/var/tmp", user);
        sandbox.file("home/.gitconfig", "[user]\n\tname = n\n\temail = n@example.org\n");
        sandbox.sh_outside("git init -q --bare ~/.cache/ruff").succeeds();
        let script = "set -e; git init -q ~/.cache/uv; cd ~/.cache/uv; echo $$ > f; git add .; git commit -qm x; \
                      git checkout -q -B b; git commit -q --allow-empty -m y; git rebase -q HEAD~1; git gc -q; \
                      git push -qf ../ruff HEAD:b; git worktree add -q ../pip HEAD~1; git worktree remove ../pip";
        sandbox.landstrip(["--", "sh", "-c", script]).fails();
        let draft = passes(&sandbox, &[], script);
        for place in ["uv", "pip", "ruff"] {
            let line = format!("    - \"~/.cache/{place}\"\n");
            assert!(draft.contains(&line), "{place}: {draft}");
        }
    });
}

#[test]
fn npm_is_learned() {
    for_each_user(|user| {
        let sandbox = Sandbox::beneath("/var/tmp", user).env("npm_config_update_notifier", "false");
        let made = "mkdir dep app && echo '{\"name\":\"dep\",\"version\":\"1.0.0\"}' > dep/package.json && \
                    (cd dep && npm pack --silent) && cd app && echo '{\"name\":\"app\",\"version\":\"1.0.0\"}' > package.json && \
                    npm install --silent --offline --no-audit --no-fund ../dep/dep-1.0.0.tgz && rm -rf node_modules ~/.npm";
        sandbox.sh_outside(made).succeeds();
        let script =
            "cd app && npm ci --silent --offline --no-audit --no-fund && test -d node_modules/dep";
        sandbox.landstrip(["-p", "read-only", "--", "sh", "-c", script]).fails();
        let draft = passes(&sandbox, &[], script);
        assert!(
            draft.ends_with("filesystem:\n  allowWrite:\n    - \".\"\n    - \"~/.npm\"\n"),
            "{draft}"
        );
    });
}

#[test]
fn the_tests_of_a_python_project_are_learned() {
    for_each_user(|user| {
        let sandbox = Sandbox::beneath("/var/tmp", user);
        let test = "import http.server, tempfile, threading, unittest, urllib.request\n\
                    class T(unittest.TestCase):\n  def test(self):\n    tempfile.mkdtemp()\n    \
                    s = http.server.HTTPServer(('127.0.0.1', 0), http.server.SimpleHTTPRequestHandler)\n    \
                    threading.Thread(target=s.serve_forever, daemon=True).start()\n    \
                    self.assertEqual(urllib.request.urlopen('http://127.0.0.1:%d/' % s.server_port).status, 200)\n";
        sandbox.file("work/test_it.py", test);
        let script = "exec /usr/bin/python3 -m unittest -q test_it";
        sandbox.landstrip(["--", "sh", "-c", script]).fails();
        let draft = passes(&sandbox, &[], script);
        assert!(draft.ends_with("network:\n  allowLocalBinding: true\n"), "{draft}");
    });
}

#[test]
fn cargo_is_learned() {
    // As the caller only: the toolchain of a user's home is not everyone's to read.
    let home = std::env::var("HOME").unwrap_or_default();
    let get = |name: &str, dir: &str| std::env::var(name).unwrap_or(format!("{home}/{dir}"));
    let path = format!("{}/bin:/usr/local/bin:/usr/bin:/bin", get("CARGO_HOME", ".cargo"));
    let sandbox = Sandbox::beneath("/var/tmp", User::Caller).env("PATH", path);
    let sandbox = sandbox.env("RUSTUP_HOME", get("RUSTUP_HOME", ".rustup"));
    sandbox.dir("work/src");
    sandbox
        .file("work/Cargo.toml", "[package]\nname = \"made\"\nedition = \"2024\"\n[workspace]\n");
    sandbox.file("work/src/main.rs", "fn main() { println!(\"built\"); }\n");
    let script = "cargo build -q --offline && target/debug/made && rm -r target";
    sandbox.landstrip(["-p", "read-only", "--", "sh", "-c", script]).exits(101);
    let draft = passes(&sandbox, &[], script);
    assert!(draft.contains("    - \".\"\n"), "{draft}");
    assert!(!draft.contains("network:"), "{draft}");
}

/// A policy in which names lead to `port` of this host, which nothing but a rule that somebody writes gives.
fn names_of(sandbox: &Sandbox, port: u16) -> String {
    let base = format!(
        "network:\n  hosts: [127.0.0.1 a.test b.test]\n  allowedDomains: ['127.0.0.1:{port}']\n"
    );
    sandbox.file("outside/base.yaml", base).to_str().unwrap().to_owned()
}

#[test]
fn hosts_are_learned_with_who_asked() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user);
        let origin = Origin::new("answer");
        let port = origin.port();
        let base = names_of(&sandbox, port);
        let script = format!(
            "set -e; test \"$(curl -sSf http://a.test:{port}/)\" = answer; \
             test \"$(curl -sSf http://b.test:{port}/)\" = answer"
        );
        sandbox.landstrip(["-p", &base, "--", "sh", "-c", &script]).fails();
        let draft = passes(&sandbox, &["-p", &base], &script);
        let expected = format!(
            "network:\n  allowedDomains:\n    - \"a.test:{port}\"\n    - \"b.test:{port}\"\n"
        );
        assert!(draft.ends_with(&expected), "{draft}");
        let draft = sandbox.read(DRAFT);
        assert!(draft.contains(&format!("\"b.test:{port}\"  # curl\n")), "{draft}");
        let other = Origin::new("other");
        let url = format!("curl -sSf http://a.test:{}/", other.port());
        under_draft(&sandbox, &url).fails();
        assert_eq!(other.bytes(), 0);
    });
}

#[test]
fn servers_of_the_commands_own_are_no_hosts() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user);
        // Through the proxy, as it learns; past it, where such servers are allowed.
        let script = r#"exec python3 -c "
import http.server, threading, urllib.request
server = http.server.HTTPServer(('127.0.0.1', 0), http.server.SimpleHTTPRequestHandler)
threading.Thread(target=server.serve_forever, daemon=True).start()
url = 'http://127.0.0.1:%d/' % server.server_port
assert urllib.request.urlopen(url).status == 200
""#;
        sandbox.landstrip(["--", "sh", "-c", script]).fails();
        let draft = passes(&sandbox, &[], script);
        assert!(draft.ends_with("network:\n  allowLocalBinding: true\n"), "{draft}");
        assert!(sandbox.read(DRAFT).contains("allowLocalBinding: true  # python"), "{draft}");
    });
}

#[test]
fn deny_rules_hold_and_stand_in_no_draft() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user);
        sandbox.dir("home/.ssh");
        sandbox.file("home/.ssh/id", "TOPSECRET");
        sandbox.file("work/.env", "SECRET");
        sandbox.file("outside/linked", "as it was");
        fs::hard_link(sandbox.path("outside/linked"), sandbox.path("work/other-name")).unwrap();
        symlink(sandbox.path("home/.ssh"), sandbox.path("work/link")).unwrap();
        let denied = Origin::new("unreachable");
        let policy = format!(
            "filesystem:\n  allowWrite: [./src]\n  denyWrite: [.env, ../outside/linked, '**/*.pem']\n  \
             denyRead: [~/.ssh]\nnetwork:\n  deniedDomains: ['127.0.0.1:{}']\n",
            denied.port()
        );
        let base = sandbox.file("outside/base.yaml", policy);
        let base = base.to_str().unwrap();
        let attacks = format!(
            "cat ~/.ssh/id link/id; echo x > .env; mv .env moved; rm -f .env; ln .env hard; echo x > link/new; \
             echo x > ~/.ssh/new; mv ~/.ssh ~/ssh; mv link/id id; echo x > other-name; chmod 777 other-name .env; \
             echo x > {0}/linked; echo x > x.pem; truncate -s 0 .env; curl -sS http://127.0.0.1:{1}/; \
             echo x > {0}/base.yaml; rm -f {0}/base.yaml; echo good > allowed; mkdir -p ~/.cache/pip; \
             echo x > ~/.cache/pip/x; \
             curl -sS --noproxy '*' http://127.0.0.1:{1}/",
            sandbox.name("outside"),
            denied.port(),
        ) + "; true";
        let protected = ["home/.ssh", "work/.env", "outside/linked", "outside/base.yaml"];
        let before = protected.map(|name| Snapshot::of(sandbox.path(name)));
        let outcome = learn(&sandbox, &["-p", base], &attacks);
        outcome.succeeds();
        before.iter().for_each(Snapshot::unchanged);
        assert!(!outcome.stdout.contains("SECRET"), "{outcome:#?}");
        assert!(!outcome.stdout.contains("unreachable"), "{outcome:#?}");
        assert!(!sandbox.path("work/x.pem").exists());
        assert_eq!(denied.bytes(), 0);
        // The twin.
        assert_eq!(sandbox.read("work/allowed"), "good\n");
        let draft = sandbox.read(DRAFT);
        for denied in
            [".ssh", ".env", "linked", "other-name", "pem", "link", "base.yaml\"\n", "127.0.0.1"]
        {
            assert!(!draft.contains(denied), "{denied}: {draft}");
        }
        assert!(draft.contains(&format!("extends: [\"{base}\"]\n")), "{draft}");
        assert!(draft.contains("\"./allowed\"") && draft.contains("\"~/.cache/pip\""), "{draft}");
        under_draft(&sandbox, "cat ~/.ssh/id").fails();
        under_draft(&sandbox, "echo x > .env").fails();
        before.iter().for_each(Snapshot::unchanged);
    });
}

#[test]
fn a_name_is_in_the_draft_as_it_is_called() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user);
        for name in ["a", "b", "cc", "x"] {
            sandbox.dir(format!("home/{name}"));
            sandbox.file(format!("home/{name}/secret"), "as it was");
        }
        let names = [
            "*",
            "[a-c]*",
            "?",
            "{a,b}",
            "\\x",
            "q\"\n    - \"/etc\"\n  denyRead: []\n#",
            "$HOME",
            "~",
            "- x: y",
            "\u{202e}gnp.exe",
        ];
        let program = "x\n    - \"/usr\"  # y";
        // A program that is called so, and a process that calls itself so.
        let program = sandbox.path("home").join(program.replace('/', "_"));
        copy_program("/bin/sh", &program);
        let mut script = "set -e; python3 -c 'import ctypes, os; ctypes.CDLL(None).prctl(15, b\"#\\n - /etc\"); \
            open(os.environ[\"HOME\"] + \"/named\", \"w\")'"
            .to_owned();
        for name in names {
            let place = quoted(&format!("{}/{name}", sandbox.name("home")));
            let write = format!("mkdir -p {place}; echo x > {place}/file; echo y >> {place}/file");
            script += &format!("; {} -c {}", quoted(program.to_str().unwrap()), quoted(&write));
        }
        learn(&sandbox, &[], &script).succeeds();
        let draft = sandbox.read(DRAFT);
        for line in draft.lines() {
            let known = ["#", "filesystem:", "  allowWrite:", "    - \"~/", "    - \".\""];
            assert!(known.iter().any(|begin| line.starts_with(begin)), "{line:?} in {draft}");
        }
        assert!(!draft.contains("/etc\"\n") && !draft.contains('\u{202e}'), "{draft}");
        under_draft(&sandbox, &script).succeeds();
        for name in ["a", "b", "cc", "x"] {
            let file = sandbox.name(format!("home/{name}/secret"));
            under_draft(&sandbox, &format!("echo x > {file}")).fails();
            assert_eq!(sandbox.read(format!("home/{name}/secret")), "as it was");
        }
    });
}

#[test]
fn the_draft_is_new_and_not_the_commands_to_write() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user);
        let draft = sandbox.name(DRAFT);
        let outside = sandbox.name("outside");
        let script = format!(
            "ls {outside}; echo trap > {draft}; ln -s /etc/passwd {draft}; mkdir {draft}; \
             echo good > {outside}/beside; mv {outside}/beside {draft}; ln {outside}/beside {draft}; true"
        );
        let outcome = learn(&sandbox, &[], &script);
        outcome.succeeds();
        assert!(!outcome.stdout.contains("draft"), "{outcome:#?}");
        let text = sandbox.read(DRAFT);
        assert!(text.contains("/beside\""), "{text}");
        assert!(!text.contains("draft.yaml\"") && !text.contains("trap"), "{text}");
        // It is there now, and stays.
        for path in ["draft.yaml", "link.yaml"] {
            if path == "link.yaml" {
                symlink("nowhere", sandbox.path("outside/link.yaml")).unwrap();
            }
            let words = ["--learn", &format!("{outside}/{path}"), "--", "touch", "ran"];
            sandbox.landstrip(words).is_error(2, "Usage", "never overwritten");
        }
        sandbox.landstrip(["--learn", "gone/x.yaml", "--", "touch", "ran"]).is_error(
            2,
            "Usage",
            "No such file or directory",
        );
        assert_eq!(sandbox.read(DRAFT), text);
        assert!(!sandbox.path("work/ran").exists());
    });
}

/// One that knows no proxy is learned by the name that it looked up.
#[test]
fn a_host_that_is_connected_to_by_name_is_learned_by_name() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user);
        let origin = Origin::new("hello");
        let port = origin.port();
        let base = names_of(&sandbox, port);
        let script = format!(
            "python3 -c 'import socket; s = socket.create_connection((\"a.test\", {port})); \
             s.sendall(b\"GET / HTTP/1.0\\r\\nHost: a.test:{port}\\r\\n\\r\\n\"); \
             assert b\"200\" in s.recv(99)'"
        );
        let draft = passes(&sandbox, &["-p", &base], &script);
        assert!(draft.contains(&format!("    - \"a.test:{port}\"\n")), "{draft}");
        assert!(!draft.contains("allowNetwork"), "{draft}");
        assert_eq!(origin.requests().len(), 2);
        let other = script.replace("a.test", "b.test");
        under_draft(&sandbox, &other).fails();
    });
}

/// An address of this host by which others would reach it. Nothing is sent.
fn own_address() -> Option<String> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("192.0.2.1:9").ok()?;
    let IpAddr::V4(address) = socket.local_addr().ok()?.ip() else { return None };
    (!address.is_loopback() && !address.is_link_local()).then(|| address.to_string())
}

#[test]
fn what_goes_past_the_proxy_takes_the_network_as_a_whole() {
    // What is on loopback is left out.
    let Some(address) = own_address() else {
        return skipped("this host has no address but those on loopback");
    };
    for_each_user(|user| {
        let sandbox = Sandbox::of(user);
        let peer = TcpPeer::on(&address);
        let probe: Vec<_> = Sandbox::probe_words(&format!("connect4 {address} {}", peer.port()));
        let probe: Vec<_> = probe.iter().map(|word| word.to_str().unwrap()).collect();
        let script = probe.join(" ");
        let outcome = learn(&sandbox, &[], &script);
        outcome.allowed("connect4");
        assert!(outcome.stderr.contains("allows the whole network"), "{outcome:#?}");
        let draft = sandbox.read(DRAFT);
        let line =
            format!("  allowNetwork: true  # past the proxy: probe to {address}:{}\n", peer.port());
        assert!(draft.ends_with(&line), "{draft}");
        under_draft(&sandbox, &script).allowed("connect4");
        sandbox.landstrip(probe).refused("connect4");
        // With a Unix socket of its own besides.
        let own = "python3 -c \"import socket, os; socket.socket(socket.AF_UNIX).bind('own'); os.unlink('own')\"";
        fs::remove_file(sandbox.path(DRAFT)).unwrap();
        passes(&sandbox, &[], &format!("{script}; {own}"));
    });
}

#[test]
fn sockets_of_others_are_left_out_and_own_ones_are_servers() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user);
        for kind in ["stream", "dgram"] {
            let path = sandbox.path(format!("outside/{kind}"));
            let peer = UnixPeer::at(&path, kind);
            let script = Sandbox::probe_words(&format!("unix-connect {} {kind}", path.display()));
            let words: Vec<_> = script.iter().map(|word| word.to_str().unwrap()).collect();
            let script = words.join(" ");
            let _ = fs::remove_file(sandbox.path(DRAFT));
            learn(&sandbox, &[], &script).allowed("unix-connect");
            let draft = sandbox.read(DRAFT);
            let line = format!("# Left out, as not known to be harmless: \"{}\"\n", path.display());
            assert!(draft.contains(&line) && !draft.contains("allowUnixSockets"), "{draft}");
            peer.reached();
            under_draft(&sandbox, &script).refused("unix-connect");
            sandbox.landstrip(words).refused("unix-connect");
        }
        let own = "import socket, sys; s = socket.socket(socket.AF_UNIX); s.bind('own'); s.listen(); \
            c = socket.socket(socket.AF_UNIX); c.connect('own'); import os; os.unlink('own')";
        let _ = fs::remove_file(sandbox.path(DRAFT));
        let draft = passes(&sandbox, &[], &format!("python3 -c \"{own}\""));
        assert!(draft.ends_with("network:\n  allowLocalBinding: true\n"), "{draft}");
    });
}

#[test]
fn it_says_that_it_is_not_confined_and_ends_as_the_command_does() {
    let sandbox = Sandbox::unprivileged();
    let outcome = learn(&sandbox, &["-p", "agent"], "echo x > ~/toolrc; exit 7");
    outcome.exits(7);
    let lines: Vec<_> = outcome.stderr.lines().collect();
    assert!(lines[0].starts_with("landstrip: --learn: this run is not confined"), "{lines:?}");
    assert!(
        lines[1].ends_with(&format!("then use it with -p {}", sandbox.name(DRAFT))),
        "{lines:?}"
    );
    assert!(lines[2].contains("the command failed"), "{lines:?}");
    let draft = sandbox.read(DRAFT);
    assert!(
        draft.contains("extends: [\"agent\"]\n") && draft.contains("- \"~/toolrc\""),
        "{draft}"
    );

    let json = sandbox.name("outside/draft.json");
    let words = ["--learn", &json, "--", "sh", "-c", "echo x > ~/toolrc"];
    let outcome = sandbox.landstrip(words);
    outcome.succeeds();
    assert!(outcome.stderr.contains("JSON has no comments"), "{outcome:#?}");
    let policy: serde_json::Value =
        serde_json::from_str(&sandbox.read("outside/draft.json")).unwrap();
    let expected = serde_json::json!({ "filesystem": { "allowWrite": [".", "~/toolrc"] } });
    assert_eq!(policy, expected);
    sandbox.landstrip(["-p", &json, "--", "sh", "-c", "echo x > ~/toolrc"]).succeeds();

    // What -p would take for a preset, and in no format.
    let words = ["--format", "yaml", "--learn", "draft", "--", "true"];
    let outcome = sandbox.landstrip(words);
    outcome.succeeds();
    assert!(outcome.stderr.contains("use it with -p ./draft --format yaml\n"), "{outcome:#?}");
}

/// A program that asked for it must not take the old policy for what was learned.
#[test]
fn a_file_that_exists_is_left_alone_and_programs_are_told() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user).without_policy();
        sandbox.file("work/old.yaml", "old");
        let landstrip = programs().landstrip();
        let learn = |file: &str| {
            let line = format!(
                "{} --trap-fd 5 --learn {file} touch made 5>told; s=$?; cat told; exit $s",
                landstrip.display()
            );
            sandbox.sh_outside(&line)
        };
        let outcome = learn("old.yaml");
        outcome.exits(2);
        let told: Vec<_> = outcome.stdout.lines().collect();
        assert!(told[0].contains("a policy is never overwritten"), "{outcome:#?}");
        assert_eq!(told[1], r#"{"Exit":["landstrip","2"]}"#, "{outcome:#?}");
        assert_eq!(sandbox.read("work/old.yaml"), "old");
        assert!(!sandbox.path("work/made").exists());
        let outcome = learn("new.yaml");
        assert!(
            outcome.succeeds().stdout.ends_with("{\"Exit\":[\"tool\",\"0\"]}\n"),
            "{outcome:#?}"
        );
        assert!(sandbox.read("work/new.yaml").contains("allowWrite"));
    });
}

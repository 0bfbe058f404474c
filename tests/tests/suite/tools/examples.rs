//! The policies in `tests/examples`, and those that `--init` writes, which are the preset for agents with the hosts of
//! registries: a project of each kind is built and tested under both, and keys and hooks stay what they were.

use serde_json::Value;
use std::time::Duration;
use tests::{Outcome, Sandbox, User, for_each_user, skipped};

/// What a home has that its tools look for, and the preset for agents keeps from them.
const SECRETS: [&str; 8] = [
    ".cargo/credentials.toml",
    ".docker/config.json",
    ".git-credentials",
    ".m2/settings-security.xml",
    ".netrc",
    ".npmrc",
    ".pypirc",
    ".ssh/id_ed25519",
];

/// A work tree with a repository under git, and a home with keys, where `example` is the policy, a preset, or text.
fn project(user: User, example: &str) -> Sandbox {
    let path = format!("{}/examples/{example}.yaml", env!("CARGO_MANIFEST_DIR"));
    let text = match example.contains('\n') {
        true => example.to_owned(),
        false => std::fs::read_to_string(path).unwrap_or_else(|_| format!("extends: {example}\n")),
    };
    // Beside the temporary directory that landstrip makes, not in it.
    let sandbox = Sandbox::beneath("/var/tmp", user).timeout(Duration::from_secs(300));
    let home = "cd ~; for file; do mkdir -p \"$(dirname $file)\"; echo '# TOPSECRET' >$file; done";
    sandbox.run_outside(["sh", "-c", home, "sh"].into_iter().chain(SECRETS)).succeeds();
    let made = sandbox.sh_outside(
        "git init -q . && git config user.name n && git config user.email e@example.org",
    );
    made.succeeds();
    sandbox.policy_json(text).options(["--format", "yaml"])
}

/// The script succeeds inside with nothing refused; what the policy protects is.
#[track_caller]
fn builds(sandbox: &Sandbox, script: &str) -> Outcome {
    let outcome = sandbox.sh(&format!("set -e; {script}; git add -A; git commit -q -m built"));
    outcome.succeeds();
    // What a JVM leaves out of dumps of its memory and tells of its work, and a socket by which it learns its addresses;
    // which processes of a browser are to be ended first, and what it asks of devices; who audits logins.
    let are_done_without = [
        "/coredump_filter",
        "/tmp/hsperfdata_",
        "name lookup (UDP)",
        "/oom_score_adj",
        "netlink raw protocol 15",
        "netlink raw protocol 9",
    ];
    let is_told = |report: &&Value| {
        let report = report.to_string();
        let is_secret = |file: &&str| {
            report.contains(&format!("[\"read\",\"{}/{file}\"", sandbox.name("home")))
        };
        !are_done_without.iter().any(|noise| report.contains(noise))
            && !SECRETS.iter().any(is_secret)
    };
    let told: Vec<_> = outcome.reports.iter().filter(is_told).collect();
    assert!(told.is_empty(), "{outcome:#?}");
    for refused in [
        "cat ~/.ssh/id_ed25519",
        "echo x > .git/hooks/pre-commit",
        "git config core.hooksPath /tmp",
        "echo x > ~/.profile",
        "echo x >> ~/.ssh/id_ed25519",
    ] {
        let outcome = sandbox.sh(refused);
        outcome.fails();
        assert!(!outcome.stdout.contains("TOPSECRET"), "{outcome:#?}");
    }
    outcome
}

/// What `--init` writes for a work tree with these files.
fn written_for(files: &[&str]) -> String {
    let tree = Sandbox::unprivileged();
    for file in files {
        tree.file(format!("work/{file}"), "");
    }
    let policy = tree.landstrip(["--init"]).succeeds().stdout.clone();
    let file = tree.file("init.yaml", &policy);
    let check = tree.landstrip(["-p", file.to_str().unwrap(), "--check"]);
    assert!(!check.succeeds().stdout.contains("warning"), "{check:#?}");
    policy
}

/// Runs `body` under an example as each user, and as one without rights under what --init writes for a work tree
/// with this `file`.
fn for_each_policy(example: &str, file: &str, body: impl Fn(User, &str)) {
    for_each_user(|user| body(user, example));
    body(Sandbox::unprivileged().user(), &written_for(&[file]));
}

/// Whether a tool is here, for this user.
fn has(sandbox: &Sandbox, check: &str) -> bool {
    let has = sandbox.sh_outside(check).status == Some(0);
    if !has {
        skipped(&format!("not here: {check}"));
    }
    has
}

#[test]
fn a_rust_project() {
    // As the caller only: the toolchain of a user's home is not everyone's to read.
    let home = std::env::var("HOME").unwrap_or_default();
    let get = |name: &str, dir: &str| std::env::var(name).unwrap_or(format!("{home}/{dir}"));
    let path = format!("{}/bin:/usr/local/bin:/usr/bin:/bin", get("CARGO_HOME", ".cargo"));
    for policy in ["rust".to_owned(), written_for(&["Cargo.toml"])] {
        let sandbox = project(User::Caller, &policy).env("PATH", &path);
        let sandbox = sandbox.env("RUSTUP_HOME", get("RUSTUP_HOME", ".rustup"));
        let outcome = builds(
            &sandbox,
            r#"mkdir src; printf '[package]\nname = "made"\nedition = "2024"\n[workspace]\n' > Cargo.toml
        printf 'fn main() { println!("built"); }\n#[test] fn t() {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap(); }\n' > src/main.rs
        echo target > .gitignore; cargo fmt; cargo run -q; cargo test -q | grep -c passed; cargo doc -q"#,
        );
        assert_eq!(outcome.stdout, "built\n1\n");
    }
}

#[test]
fn a_node_project() {
    for_each_policy("node", "package.json", |user, policy| {
        let sandbox = project(user, policy).env("npm_config_update_notifier", "false");
        let outcome = builds(
            &sandbox,
            r#"mkdir dep; printf '{"name":"dep","version":"1.0.0","bin":"cli.js"}' > dep/package.json
            printf '#!/usr/bin/env node\nconsole.log("bin ran")\n' > dep/cli.js; (cd dep && npm pack --silent)
            printf '{"name":"app","version":"1.0.0","scripts":{"test":"node --test t.js"}}' > package.json
            echo node_modules > .gitignore; npm install --no-audit --no-fund --silent ./dep/dep-1.0.0.tgz
            npm ci --no-audit --no-fund --silent; npx --no-install dep
            printf 'require("node:test")("serves", (t, done) => { const s = require("http").createServer((q, r) => r.end("x"))
              .listen(0, "127.0.0.1", () => require("http").get({ port: s.address().port }, r => { r.resume(); s.close(); done(); })) })' > t.js
            npm test --silent | grep -c '^# pass 1'"#,
        );
        assert_eq!(outcome.stdout.lines().skip(1).collect::<Vec<_>>(), ["bin ran", "1"]);
    });
}

#[test]
fn a_python_project() {
    for_each_policy("python", "requirements.txt", |user, policy| {
        let sandbox = project(user, policy).env("PIP_DISABLE_PIP_VERSION_CHECK", "1");
        let outcome = builds(
            &sandbox,
            r#"echo env > .gitignore; /usr/bin/python3 -m venv env; env/bin/pip list 2>/dev/null | grep -c '^pip '
            printf 'import unittest, urllib.request, http.server, threading\nclass T(unittest.TestCase):\n  def test(self):
    s = http.server.HTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
    threading.Thread(target=s.serve_forever, daemon=True).start()
    self.assertEqual(urllib.request.urlopen("http://127.0.0.1:%%d/" %% s.server_port).status, 200)\n' > test_it.py
            env/bin/python -B -m unittest -q test_it 2>&1 | grep -c '^OK'"#,
        );
        assert_eq!(outcome.stdout, "1\n1\n");
    });
}

#[test]
fn a_jvm_project() {
    for_each_policy("jvm", "pom.xml", |user, policy| {
        let sandbox = project(user, policy);
        if !has(&sandbox, "command -v javac") {
            return;
        }
        let outcome = builds(
            &sandbox,
            r#"mkdir -p src/made; echo classes > .gitignore
            printf 'package made; import java.net.*; public class Main { public static void main(String[] a) throws Exception {
              try (var s = new ServerSocket(0, 1, InetAddress.getLoopbackAddress());
                   var c = new Socket(InetAddress.getLoopbackAddress(), s.getLocalPort())) { System.out.println("served"); } } }' > src/made/Main.java
            javac -d classes src/made/Main.java; java -cp classes made.Main 2>/dev/null"#,
        );
        assert_eq!(outcome.stdout, "served\n");
    });
}

#[test]
fn a_go_project() {
    for_each_policy("go", "go.mod", |user, policy| {
        let sandbox = project(user, policy).env("GOTOOLCHAIN", "local").env("GOFLAGS", "-mod=mod");
        if !has(&sandbox, "command -v go") {
            return;
        }
        let outcome = builds(
            &sandbox,
            r#"go mod init example.org/made 2>/dev/null; printf 'package made\nfunc F() int { return 7 }\n' > f.go
            printf 'package made\nimport ("net/http"; "net/http/httptest"; "testing")\nfunc TestF(t *testing.T) {
              s := httptest.NewServer(http.NotFoundHandler()); defer s.Close()
              if r, err := http.Get(s.URL); err != nil || r.StatusCode != 404 || F() != 7 { t.Fatal(err) } }\n' > f_test.go
            go vet; go test | grep -c '^ok'"#,
        );
        assert_eq!(outcome.stdout, "1\n");
    });
}

/// As root, PostgreSQL becomes another user.
#[test]
fn tests_against_databases() {
    for_each_user(|user| {
        let sandbox = project(user, "database");
        if !has(&sandbox, "ls /usr/lib/postgresql/*/bin/initdb && command -v redis-server") {
            return;
        }
        let outcome = builds(
            &sandbox,
            r#"printf 'data\n*.db*\nlog\n' >.gitignore; bin=$(ls -d /usr/lib/postgresql/*/bin | tail -n 1); chmod 755 .
            become=; [ "$(id -u)" = 0 ] && become='runuser -u nobody --'; mkdir data; [ -z "$become" ] || chown nobody data
            export PGHOST=$PWD/data PGPORT=5432 PGUSER=nobody; $become $bin/initdb -D data -A trust -N >/dev/null 2>&1
            $become $bin/pg_ctl -D data -l data/log -w -o "-k $PWD/data -h ''" start >/dev/null
            psql -XAtq postgres -c 'create table t as select generate_series(1, 10) i' -c 'select sum(i) from t'
            $become $bin/pg_ctl -D data -m fast stop >/dev/null
            redis-server --port 0 --unixsocket "$PWD/data.db" --save '' >log & for i in $(seq 100); do redis-cli -s data.db ping >/dev/null 2>&1 && break; sleep 0.1; done
            redis-cli -s data.db set a b; redis-cli -s data.db shutdown nosave; wait
            sqlite3 d.db 'pragma journal_mode=wal; create table t(i); insert into t values (7); select i from t'"#,
        );
        assert_eq!(outcome.stdout, "55\nOK\nwal\n7\n");
    });
}

/// The host's cache of fonts may be older than its fonts: whoever uses these writes it then.
#[test]
fn tests_in_a_browser() {
    for_each_user(|user| {
        let sandbox = project(user, "browser");
        if !has(&sandbox, "command -v chromium-headless-shell") {
            return;
        }
        let outcome = builds(
            &sandbox,
            r#"printf '<title>made</title><h1>shown</h1>' >index.html; echo shot.png >.gitignore
            export FONTCONFIG_FILE=$TMPDIR/fonts.conf
            echo "<fontconfig><dir>/usr/share/fonts</dir><cachedir>$TMPDIR/fonts</cachedir></fontconfig>" >$FONTCONFIG_FILE
            /usr/bin/python3 -c 'import http.server, subprocess, threading
s = http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler); threading.Thread(target=s.serve_forever, daemon=True).start()
subprocess.run(["chromium-headless-shell", "--no-sandbox", "--disable-gpu", "--screenshot=shot.png", "http://127.0.0.1:%d/" % s.server_port], check=True, capture_output=True)'
            head -c 4 shot.png | tail -c 3"#,
        );
        assert_eq!(outcome.stdout, "PNG");
    });
}

#[test]
fn a_mixed_project() {
    let policy = written_for(&["package.json", "requirements.txt"]);
    assert!(policy.contains("pypi.org") && policy.contains("registry.npmjs.org"), "{policy}");
    let sandbox =
        project(Sandbox::unprivileged().user(), &policy).env("npm_config_update_notifier", "false");
    let outcome = builds(
        &sandbox,
        r#"printf '{"name":"app","version":"1.0.0","scripts":{"test":"make -s -C native && python3 -B part.py"}}' > package.json
        mkdir native; printf 'int main(void) { return 0; }\n' > native/a.c; printf 'a: a.c\n\tcc -o a a.c && ./a && echo native\n' > native/Makefile
        echo native/a > .gitignore; echo 'print("python")' > part.py; npm test --silent"#,
    );
    assert_eq!(outcome.stdout, "native\npython\n");
}

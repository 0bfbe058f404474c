//! The line that helps: put into the policy as it stands, it lets the command pass; or it names the rule that
//! somebody wrote.

use serde_json::{Value, json};
use std::net::{IpAddr, UdpSocket};
use tests::{Origin, Outcome, Sandbox, UnixPeer, User, for_each_user, free_port, programs};

/// What the policies have in common.
fn base() -> Value {
    json!({
        "filesystem": {
            "allowWrite": ["./src"],
            "denyWrite": ["./src/.env", "./src/**/*.key"],
            "denyRead": ["~/.ssh", "./.env.local"],
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
            let end = list.find("\"]").unwrap() + 2;
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
    for dir in [
        "work/src",
        "home/.ssh",
        "home/.npm",
        "home/.cache",
        "home/.cargo",
        "home/.cache/uv",
        "home/.cargo/registry",
        "home/.local",
        "home/.local/share",
    ] {
        sandbox.dir(dir);
    }
    for file in [
        "work/src/.env",
        "work/.env.local",
        "home/.ssh/id",
        "home/.cache/uv/a",
        "home/.cache/uv/file",
        "work/src/a.key",
    ] {
        sandbox.file(file, "kept\n");
    }
}

/// Asks the proxy for a host, and fails if it refuses.
fn ask(host: &str) -> String {
    let request = format!("CONNECT {host} HTTP/1.1\\r\\nHost: {host}\\r\\n\\r\\n");
    format!(
        "exec 3<>/dev/tcp/127.0.0.1/${{HTTP_PROXY##*:}}; printf '{request}' >&3; \
         read -r _ status _ <&3; [[ $status != 403 ]]"
    )
}

/// Every one of them as an ordinary user, and one of so many as root: what is suggested is the same.
fn of_user<T>(user: User, all: impl IntoIterator<Item = T>) -> impl Iterator<Item = T> {
    const AS_ROOT: usize = 4;
    all.into_iter().step_by(if user.is_root() { AS_ROOT } else { 1 })
}

/// What is refused, and what the line then allows.
const COMMANDS: &[&str] = &[
            "mkdir -p ~/.cargo/registry/index && touch ~/.cargo/registry/index/a",
            "touch ~/.npm/_logs",
            "mkdir -p ~/.cache/pip/http && touch ~/.cache/pip/http/a",
            "mkdir -p ~/.yarn/cache && touch ~/.yarn/cache/a",
            "mkdir ~/notes && touch ~/notes/a",
            "mkdir target && touch target/a target/b",
            "echo x > note",
            "touch a b c d",
            "git init -q repository",
            "chmod 600 ~/.cache/uv/file",
            "mv ~/.cache/uv/a ~/.cache/uv/b",
            "rm ~/.cache/uv/a",
            "ln -s x ~/.cache/uv/link",
            "mkfifo ~/.cache/uv/fifo",
            "touch -d 2001-01-01 ~/.cache/uv/file",
            "cp src/.env copy && rm copy",
            "tar cf out.tar src",
            // A file that is put in another one's place needs the directory.
            "echo x > ~/.cache/uv/note.tmp.1 && mv ~/.cache/uv/note.tmp.1 ~/.cache/uv/note",
            "python3 -c 'import os, sqlite3
with sqlite3.connect(os.path.expanduser(\"~/notes.db\")) as notes: notes.execute(\"create table a(b)\")'",
            "mkdir -p ~/.cache/black && touch ~/.cache/black/a",
            "mkdir -p ~/.cache/go-build/00 && touch ~/.cache/go-build/00/a",
            "mkdir -p ~/.cargo/git/db && touch ~/.cargo/git/db/a",
            "mkdir -p ~/go/pkg/mod && touch ~/go/pkg/mod/a",
            "mkdir -p ~/.m2/repository/g && touch ~/.m2/repository/g/a",
            "mkdir -p ~/.gradle/caches && touch ~/.gradle/caches/a",
            "mkdir -p ~/.bun/install/cache && touch ~/.bun/install/cache/a",
            "mkdir -p ~/.local/share/pnpm/store/v3 && touch ~/.local/share/pnpm/store/v3/a",
            "mkdir -p ~/.nuget/packages && touch ~/.nuget/packages/a",
            "mkdir -p ~/.cache/ccache && touch ~/.cache/ccache/a",
            "mkdir -p ~/.composer/cache && touch ~/.composer/cache/a",
            "mkdir -p build/a/b && touch build/a/b/c && rm -r build",
            "cp -r src copies",
            "seq 9 | tee image >/dev/null",
            "truncate -s 9 ~/.cache/uv/file",
            "sed -i s/kept/new/ ~/.cache/uv/file",
            "gzip -k ~/.cache/uv/file",
            "ln ~/.cache/uv/file ~/.cache/uv/hard",
            "cp ~/.cache/uv/file ~/.cache/uv/copy && mv ~/.cache/uv/copy ~/.cache/uv/a",
            "python3 -c 'open(\"made.py\", \"w\").write(\"x\")'",
            "python3 -c 'import tarfile; tarfile.open(\"made.tgz\", \"w:gz\").add(\"src\")'",
            "python3 -c 'import socket; socket.create_server((\"127.0.0.1\", 0))'",
            "python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"src/relative\")'",
            "python3 -c 'import socket; socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).bind(\"src/datagrams\")'",
            "python3 -c 'import socket; socket.socket(type=socket.SOCK_DGRAM).bind((\"127.0.0.1\", 0))'",

    "mkdir -p ~/.cache/pypoetry/cache && touch ~/.cache/pypoetry/cache/a",
    "mkdir -p ~/.cache/deno && touch ~/.cache/deno/a",
    "mkdir -p ~/.cache/ccache && touch ~/.cache/ccache/a",
    "python3 -m venv --without-pip env",
    "git init -q other && git -C other -c user.name=n -c user.email=e commit -q --allow-empty -m x",
    "install -d build/bin && install -m 755 /bin/true build/bin/program",
    "dd if=/dev/zero of=disk bs=1k count=1 2>/dev/null",
    "mkfifo pipe && rm pipe",
    "sort -o sorted /etc/passwd",
    "find /etc/passwd -exec cp {} copied ';'",
    "awk '{ print > \"fields\" }' /etc/passwd",
    "mkdir nested && ln -s /etc/passwd nested/link && rm nested/link",
];
/// Hosts that are asked for.
const HOSTS: &[&str] = &[
    "registry.invalid:443",
    "registry.invalid:80",
    "registry.invalid:8443",
    "git.invalid:22",
    "192.0.2.1:443",
    "[2001:db8::1]:443",
];
/// A list that grows.
const _: () = assert!(COMMANDS.len() + HOSTS.len() >= 60);

#[test]
fn the_line_as_it_stands_lets_the_command_pass() {
    for_each_user(|user| {
        let asked = HOSTS.iter().map(|host| ask(host));
        for command in
            of_user(user, COMMANDS.iter().map(|&command| command.to_owned()).chain(asked))
        {
            passes(&Sandbox::of(user), &command, &["bash", "-c", &command]);
        }
        let probe = tests::programs().probe().into_os_string().into_string().unwrap();
        let script = format!("{probe} bind4 127.0.0.1 {} | grep OK", free_port());
        passes(&Sandbox::of(user), "bind", &["sh", "-c", &script]);
    });
}

/// Directories of everybody's say nothing of what is to be made in them. Some tools ask whether the nearest that is
/// there may be written (pip, virtualenv), and give up.
#[test]
fn a_directory_of_all_programs_is_not_taken_for_that_of_one() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user);
        let policy = json!({ "filesystem": { "allowWrite": ["~/.cache/pypoetry"] } });
        let policy = sandbox.file("p.json", policy.to_string());
        let run = |script: &str| {
            sandbox.landstrip(["-p", policy.to_str().unwrap(), "bash", "-c", script])
        };
        let outside =
            "not suggested, as programs outside may run or obey what is there (run it outside): ";
        for (script, place) in [
            ("mkdir ~/.local", "~/.local"),
            ("mkdir -p ~/.local/share/tool", "~/.local"),
            ("mkdir -p ~/.local/share", "~/.local"),
        ] {
            let outcome = run(script);
            let said = line(outcome.fails(), outside);
            assert_eq!(said, Some(&*format!("[\"{place}\"]")), "{script}: {outcome:#?}");
            assert_eq!(line(&outcome, "to allow this: "), None, "{script}: {outcome:#?}");
        }
        let tool = "made=~/.cache/pypoetry/virtualenvs; near=$made; \
                    until [[ -e $near ]]; do near=${near%/*}; done; [[ -w $near ]] && mkdir -p $made";
        let outcome = run(tool);
        let said = line(
            outcome.fails(),
            "for a tool that checks first whether it may create an allowed directory in there: ",
        );
        assert_eq!(said, Some("create that outside first (mkdir -p)"), "{outcome:#?}");
        sandbox.sh_outside("mkdir -p ~/.cache/pypoetry").succeeds();
        run(tool).succeeds();
        assert!(sandbox.path("home/.cache/pypoetry/virtualenvs").exists());
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
        let denied = [
            ("echo x > src/.env".to_owned(), r#"filesystem.denyWrite ["./src/.env"]"#),
            ("cat .env.local".to_owned(), r#"filesystem.denyRead ["./.env.local"]"#),
            ("rm -f src/.env".to_owned(), r#"filesystem.denyWrite ["./src/.env"]"#),
            ("mv src/a.key src/b".to_owned(), "filesystem.denyWrite"),
            ("cat ~/.ssh/id".to_owned(), r#"filesystem.denyRead ["~/.ssh"]"#),
            ("echo x > ~/.ssh/new".to_owned(), r#"filesystem.denyRead ["~/.ssh"]"#),
            (ask("evil.invalid:443"), r#"network.deniedDomains ["evil.invalid"]"#),
            ("echo '{}' > ../p.json".to_owned(), "landstrip, which protects"),
        ];
        for (command, rule) in of_user(user, denied) {
            let (sandbox, outcome) = run(user, &command);
            let said = line(&outcome, "denied by: ").unwrap_or_default();
            assert!(said.starts_with(rule), "{command}: {said:?} {outcome:#?}");
            assert_eq!(line(&outcome, "to allow this: "), None, "{command}: {outcome:#?}");
            assert_eq!(sandbox.read("work/src/.env"), "kept\n");
        }
    });
}

/// It would have a later run allow what the link leads to.
#[test]
fn a_link_at_an_allowed_path_that_is_missing_is_refused_with_the_reason() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user).allow_write("link").allow_write("file");
        let outcome = sandbox.sh("echo x > file && ln -s /etc/passwd link");
        let what = "allowed, but where a path was missing no symbolic link can be created, nothing moved there, and only so \
                    many entries made in one run (run it again, or with --report all): ";
        assert_eq!(line(outcome.fails(), what), Some("[\"./link\"]"), "{outcome:#?}");
        assert_eq!(sandbox.read("work/file"), "x\n");
        assert!(!sandbox.path("work/link").is_symlink(), "{}", tests::ESCAPED);
        // mv(1) copies, and nothing is said.
        let sandbox = sandbox.allow_write("from");
        sandbox.dir("work/from");
        sandbox.file("work/from/file", "x\n");
        let moved = sandbox.sh("exec python3 -c 'import os; os.rename(\"from/file\", \"link\")'");
        assert_eq!(line(moved.fails(), what), Some("[\"./link\"]"), "{moved:#?}");
        let copied = sandbox.sh("mv from/file link 2>/dev/null; cat link; exit 1");
        assert_eq!(copied.stdout, "x\n", "{copied:#?}");
    });
}

/// Runs `command` under the common policy, which makes it fail.
fn run(user: User, command: &str) -> (Sandbox, Outcome) {
    let sandbox = Sandbox::of(user);
    prepare(&sandbox);
    let file = sandbox.file("p.json", base().to_string());
    let outcome = sandbox.landstrip(["-p", file.to_str().unwrap(), "bash", "-c", command]);
    outcome.fails();
    (sandbox, outcome)
}

#[test]
fn what_no_good_rule_allows_is_told_with_what_it_would_need() {
    const TOO_MUCH: &str = "not suggested, as it opens too much: ";
    const OUTSIDE: &str =
        "not suggested, as programs outside may run or obey what is there (run it outside): ";
    const TEMPORARY: &str =
        "not suggested, as all programs keep temporary files there (write to $TMPDIR): ";
    const NOT_SO: &str = "allowed, except for set-user-ID bits, capabilities, links into denied places, \
                          moves to where other rules apply, and what was replaced since the launch: ";
    const HOST: &str = "not suggested, as it is not a plain host name, or is a metadata service (reach it from outside): ";
    const JAVA: &str =
        "as jcmd and jstack only work through /tmp, to make the process print its stacks: ";
    for_each_user(|user| {
        let python = |code: &str| format!("python3 -c 'import socket; {code}'");
        let refused = [
            ("git config --global user.name x".to_owned(), OUTSIDE, r#"["~/.gitconfig.lock"]"#),
            ("git config --global alias.x y".to_owned(), OUTSIDE, r#"["~/.gitconfig.lock"]"#),
            ("touch ~/.viminfo".to_owned(), OUTSIDE, r#"["~/.viminfo"]"#),
            ("mkdir -p ~/.config/tool".to_owned(), OUTSIDE, r#"["~/.config"]"#),
            ("touch ~/.profile".to_owned(), OUTSIDE, r#"["~/.profile"]"#),
            (
                "echo x > note.tmp.1 && mv note.tmp.1 note".to_owned(),
                TOO_MUCH,
                r#"filesystem.allowWrite += ["."] for ["./note.tmp.1"]"#,
            ),
            ("touch .envrc".to_owned(), OUTSIDE, r#"["./.envrc"]"#),
            ("mkdir .vscode".to_owned(), OUTSIDE, r#"["./.vscode"]"#),
            ("mkdir ~/.cargo/bin".to_owned(), OUTSIDE, r#"["~/.cargo/bin"]"#),
            ("touch ~/.cargo/config.toml".to_owned(), OUTSIDE, r#"["~/.cargo/config.toml"]"#),
            ("touch ~/.npmrc".to_owned(), OUTSIDE, r#"["~/.npmrc"]"#),
            ("touch /tmp/landstrip-test".to_owned(), TEMPORARY, r#"["/tmp/landstrip-test"]"#),
            ("mkdir /tmp/landstrip-test".to_owned(), TEMPORARY, r#"["/tmp/landstrip-test"]"#),
            (
                "echo x > /tmp/.ZendSem.aBcDeF".to_owned(),
                "for PHP: ",
                "php -d opcache.lockfile_path=$TMPDIR",
            ),
            ("echo x > /tmp/.attach_pid7".to_owned(), JAVA, "kill -QUIT PID"),
            ("touch src/a; chmod 4755 src/a".to_owned(), NOT_SO, r#"["./src/a"]"#),
            (
                python("socket.socket(socket.AF_UNIX).bind(\"\\0landstrip-own\")"),
                "no policy allows abstract Unix sockets: ",
                "use one with a path, such as in $TMPDIR",
            ),
            ("mkdir ~/.cpanm".to_owned(), "for cpanm: ", "PERL_CPANM_HOME=$TMPDIR/cpanm"),
            ("mkdir ~/.distcc".to_owned(), "for distcc: ", "DISTCC_DIR=$TMPDIR"),
            (
                "[ -w ~ ]".to_owned(),
                "for a tool that needs a home that it may write: ",
                "HOME=$TMPDIR",
            ),
            (
                "echo x > /tmp/tmpfaBcDeF".to_owned(),
                "for tmpfile(3), which ignores TMPDIR, if nobody else uses /tmp: ",
                r#"filesystem.allowWrite += ["/tmp"]"#,
            ),
            (ask("metadata.google.internal:80"), HOST, r#"["metadata.google.internal:80"]"#),
            (ask("169.254.169.254:80"), HOST, r#"["169.254.169.254:80"]"#),
            (ask("*.invalid:443"), HOST, r#"["*.invalid:443"]"#),
            (
                "echo x > ~/tool.json.tmp.81 && mv ~/tool.json.tmp.81 ~/tool.json".to_owned(),
                TOO_MUCH,
                r#"filesystem.allowWrite += ["~"] for ["~/tool.json.tmp.81"]"#,
            ),
            (
                python("socket.socket(socket.AF_UNIX).connect(\"\\0landstrip-test\")"),
                "no policy allows abstract Unix sockets: ",
                "use one with a path, such as in $TMPDIR",
            ),
            (
                python(
                    "socket.socket(type=socket.SOCK_DGRAM).sendto(b\"x\", (\"192.0.2.1\", 123))",
                ),
                TOO_MUCH,
                r#"network.allowNetwork = true for ["192.0.2.1:123"]"#,
            ),
            (
                python("socket.socket().bind((\"192.0.2.1\", 8080))"),
                TOO_MUCH,
                r#"network.allowNetwork = true for ["192.0.2.1:8080"]"#,
            ),
            (
                python(
                    "socket.socket(type=socket.SOCK_DGRAM).setsockopt(0, socket.IP_ADD_MEMBERSHIP, bytes(8))",
                ),
                TOO_MUCH,
                r#"network.allowNetwork = true for ["option IP_ADD_MEMBERSHIP"]"#,
            ),
        ];
        for (command, what, expected) in of_user(user, refused) {
            let (_, outcome) = run(user, &command);
            assert_eq!(line(&outcome, what), Some(expected), "{command}: {outcome:#?}");
        }
    });
}

/// Whoever follows the line opens what it names to the command, which chose what it was refused.
#[test]
fn nothing_is_advised_that_programs_outside_run_or_obey_or_serve() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user);
        prepare(&sandbox);
        let dirs = [
            ".config",
            ".config/nvim",
            ".config/autostart",
            ".vim",
            ".oh-my-zsh",
            ".cargo/bin",
            ".cache/tool",
            ".local/bin",
            "public_html",
        ];
        dirs.iter().for_each(|dir| drop(sandbox.dir(format!("home/{dir}"))));
        sandbox.dir("work/.git");
        let policy = sandbox.file("p.json", base().to_string());
        let run = |script: &str| {
            sandbox.landstrip(["-p", policy.to_str().unwrap(), "bash", "-c", script])
        };
        let places = [
            "~/.bashrc",
            "~/.vim/plugin.vim",
            "~/.config/nvim/init.lua",
            "~/.oh-my-zsh/x.zsh",
            "~/.gitconfig",
            "~/.config/autostart/x.desktop",
            "~/.cargo/bin/ls",
            "~/.local/bin/ls",
            "~/bin",
            ".git/config",
            ".envrc",
            "mise.toml",
            "HEAD",
            "~/public_html/x.php",
            "~/.cache/p10k.zsh",
            "~/.cache/pre-commit",
            "~/.cache/tool/x",
            "../outside/x",
            "/etc/landstrip-test",
            "/usr/bin/landstrip-test",
            "/tmp/landstrip-test",
        ];
        for place in places {
            let outcome = run(&format!("echo x > {place}"));
            outcome.fails();
            assert_eq!(line(&outcome, "to allow this: "), None, "{place}: {outcome:#?}");
            let is_reported = !outcome.reports_of("Filesystem").is_empty();
            assert!(
                is_reported || !user.is_root() && place.starts_with('/'),
                "{place}: {outcome:#?}"
            );
        }
        let outcome = run("echo x > /tmp/landstrip-test");
        let said = line(&outcome, "not suggested, as all programs keep temporary files there");
        let expected = " (write to $TMPDIR): [\"/tmp/landstrip-test\"]";
        assert_eq!(said, Some(expected), "{outcome:#?}");
        run("echo x > $TMPDIR/landstrip-test && echo x > src/a").succeeds();

        let (probe, path) = (tests::programs().probe(), sandbox.name("outside/socket"));
        let peer = UnixPeer::at(&path, "stream");
        let outcome = run(&format!("{} unix-connect {path} stream | grep OK", probe.display()));
        outcome.fails();
        assert_eq!(line(&outcome, "to allow this: "), None, "{outcome:#?}");
        let said =
            line(&outcome, "not suggested, as the server there may run commands or hold keys");
        assert!(said.is_some_and(|said| said.ends_with(&format!("[\"{path}\"]"))), "{outcome:#?}");
        assert_eq!(peer.connections(), 0);
        let learned = sandbox.name("outside/draft.yaml");
        let script = format!(
            "{} unix-connect {path} stream; echo x > ~/.vim/a; echo x > ~/.npm/a",
            probe.display()
        );
        let outcome = sandbox.landstrip(["--learn", &learned, "sh", "-c", &script]);
        outcome.succeeds();
        assert!(
            outcome.stderr.contains("left out, as not known to be harmless outside: "),
            "{outcome:#?}"
        );
        let draft = sandbox.read("outside/draft.yaml");
        let rules: String = draft.lines().filter(|line| !line.starts_with('#')).collect();
        assert!(!rules.contains(".vim") && !rules.contains("Sockets"), "{draft}");
        assert!(rules.contains("\"~/.npm\""), "{draft}");
    });
}

/// An address of this host that is not on loopback. Connecting a datagram socket sends nothing.
fn own_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("198.51.100.1:9").ok()?;
    Some(socket.local_addr().ok()?.ip())
}

/// A debugger, a container engine or a database runs commands for whoever reaches its port.
#[test]
fn no_port_of_this_host_is_advised_or_learned() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user);
        let origin = Origin::new("answer");
        let port = origin.port();
        let policy = sandbox.file("p.json", base().to_string());
        let run = |options: &[&str], script: &str| {
            let words = [options, &["-p", policy.to_str().unwrap(), "bash", "-c", script]].concat();
            sandbox.landstrip(words)
        };
        let connect = format!("exec 3<>/dev/tcp/127.0.0.1/{port}");
        for (script, server) in [
            (ask(&format!("127.0.0.1:{port}")), format!("127.0.0.1:{port}")),
            (ask(&format!("localhost:{port}")), format!("localhost:{port}")),
            (ask(&format!("x.localhost:{port}")), format!("x.localhost:{port}")),
            (connect.clone(), format!("127.0.0.1:{port}")),
        ] {
            let outcome = run(&[], &script);
            outcome.fails();
            assert_eq!(line(&outcome, "to allow this: "), None, "{outcome:#?}");
            let said = line(&outcome, "not suggested, as the server there may run commands");
            assert!(said.is_some_and(|said| said.contains(&server)), "{server}: {outcome:#?}");
        }
        assert_eq!(origin.requests(), [""; 0], "ESCAPED");
        // One of an interface is advised by nobody either, the proxy included.
        if let Some(own) = own_address() {
            let get = format!("curl -sS http://{own}:{port}/; false");
            for script in [get, format!("exec 3<>/dev/tcp/{own}/{port}")] {
                let outcome = run(&[], &script);
                assert!(!outcome.fails().stderr.contains("to allow this: "), "{outcome:#?}");
                assert!(
                    outcome.stderr.contains("not suggested, as the server there"),
                    "{outcome:#?}"
                );
                assert!(!outcome.stdout.contains("to allow it"), "{outcome:#?}");
            }
            let foreign = run(&[], &ask("192.0.2.77:80"));
            assert!(foreign.stderr.contains("network.allowedDomains += "), "{foreign:#?}");
        }
        let draft = sandbox.name("outside/draft.yaml");
        let script = format!(
            "curl -sSf http://localhost:{port}/ && curl -sSf http://127.0.0.1:{port}/ && {connect} && : > ~/.npm/x"
        );
        sandbox.dir("home/.npm");
        run(&["--learn", &draft], &script).succeeds();
        let text = sandbox.read("outside/draft.yaml");
        let rules: String = text.lines().filter(|line| !line.starts_with('#')).collect();
        assert!(rules.contains(".npm") && !rules.contains("etwork"), "{text}");
        // Who writes the rule has it, and is warned.
        let policy = sandbox.file(
            "q.json",
            json!({ "network": { "allowedDomains": [format!("127.0.0.1:{port}")] } }).to_string(),
        );
        let policy = policy.to_str().unwrap();
        let fetch = format!("http://127.0.0.1:{port}/");
        assert_eq!(sandbox.landstrip(["-p", policy, "curl", "-sSf", &fetch]).stdout, "answer");
        let check = sandbox.landstrip(["-p", policy, "--check"]);
        let said = format!("servers at 127.0.0.1:{port} may run commands or hold keys");
        assert!(check.succeeds().stdout.contains(&said), "{check:#?}");
    });
}

/// The working directory as a whole has settings in it that programs outside obey, however much else was refused there.
#[test]
fn the_working_directory_is_not_advised_learned_or_granted_as_a_whole() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user);
        sandbox.dir("work/.git");
        sandbox.dir("work/.git/hooks");
        let policy = sandbox.file("p.json", "{\"filesystem\":{}}");
        let policy = policy.to_str().unwrap();
        let files = "for i in 1 2 3 4 5 6 7 8 9 10 11 12; do echo > f$i; done";
        let settings = "echo x > .git/hooks/pre-commit; echo x > .envrc; mkdir .vscode";
        for also in ["true", settings] {
            let script = format!("{files}; {also}; false");
            let outcome = sandbox.landstrip(["-p", policy, "sh", "-c", &script]);
            outcome.fails();
            let said = line(&outcome, "to allow this: filesystem.allowWrite += ").unwrap();
            // The broker may take note of them in another order than they were asked for.
            assert!(said.starts_with("[\"./f") && !said.contains("\".\""), "{said}");
            let hidden = line(&outcome, "not suggested, as programs outside may run or obey");
            assert_eq!(hidden.is_some(), also != "true", "{outcome:#?}");
        }
        let outcome = sandbox.landstrip(["-p", policy, "sh", "-c", "echo x > a && mv a b"]);
        assert_eq!(
            line(&outcome, "to allow this: ").unwrap(),
            "filesystem.allowWrite += [\"./a\"]"
        );

        let learned = sandbox.name("outside/learned.yaml");
        let script = format!("{files}; {settings}");
        sandbox.landstrip(["-p", policy, "--learn", &learned, "sh", "-c", &script]).succeeds();
        let draft = sandbox.read("outside/learned.yaml");
        assert!(draft.contains("- \"./f12\"") && !draft.contains("- \".\""), "{draft}");
        for name in [".git/hooks/pre-commit", ".envrc"] {
            std::fs::remove_file(sandbox.path("work").join(name)).unwrap();
        }
        let outcome =
            sandbox.landstrip(["-p", &learned, "sh", "-c", &format!("{settings}; {files}")]);
        outcome.succeeds();
        let made = |name: &str| sandbox.path("work").join(name).exists();
        assert!(!made(".git/hooks/pre-commit") && !made(".envrc") && made("f12"), "{outcome:#?}");
    });
}

/// Whoever follows the line would let the hooks of other repositories be written, or what a link leads to.
#[test]
fn a_directory_that_holds_something_a_link_and_a_program_are_not_advised_by_their_own_name() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user);
        for directory in ["home/empty", "home/projects", "home/projects/x", "home/.config"] {
            sandbox.dir(directory);
        }
        sandbox.file("home/notes", "");
        std::os::unix::fs::symlink(".config", sandbox.path("home/settings")).unwrap();
        sandbox.file("home/projects/tool", "");
        sandbox.sh_outside("chmod 755 ~/projects/tool").succeeds();
        let policy = sandbox.file("p.json", "{\"filesystem\":{}}");
        for (script, advised) in [
            ("echo x >> ~/projects/tool", false),
            ("rm ~/projects/tool", false),
            ("touch ~/projects", false),
            ("chmod 700 ~/projects", false),
            ("touch -h ~/settings", false),
            ("rm ~/settings", false),
            ("touch ~/empty", true),
            ("touch ~/notes", true),
            // For the directory it would take a rule.
            ("rm ~/notes", false),
            ("mkdir ~/new", true),
            ("echo x > ~/projects/x/new", true),
        ] {
            let outcome = sandbox.landstrip(["-p", policy.to_str().unwrap(), "sh", "-c", script]);
            outcome.fails();
            let said = line(&outcome, "to allow this: ");
            assert_eq!(said.is_some(), advised, "{script}: {outcome:#?}");
        }
    });
}

#[test]
fn a_directory_of_programs_behind_a_link_is_not_advised() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user);
        for directory in ["home/tools", "home/more", "home/notes", "home/.local"] {
            sandbox.dir(directory);
        }
        std::os::unix::fs::symlink("../tools", sandbox.path("home/.local/bin")).unwrap();
        let policy = sandbox.file("p.json", "{\"filesystem\":{}}");
        let path = format!("{}:{}", sandbox.name("home/more"), std::env::var("PATH").unwrap());
        let sandbox = sandbox.env("PATH", path);
        for (place, advised) in [
            ("~/.local/bin/zz", false),
            ("~/tools/zz", false),
            ("~/more/zz", false),
            ("~/notes/zz", true),
        ] {
            let script = format!("echo x > {place}");
            let outcome = sandbox.landstrip(["-p", policy.to_str().unwrap(), "sh", "-c", &script]);
            outcome.fails();
            let said = line(&outcome, "to allow this: ");
            assert_eq!(said.is_some(), advised, "{place}: {outcome:#?}");
        }
    });
}

/// The server of the user's runs what it is told; the command's own runs inside.
#[test]
fn tmux_is_told_how_to_have_a_server_of_its_own() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user);
        if sandbox.sh_outside("command -v tmux").status != Some(0) {
            return tests::skipped("there is no tmux");
        }
        let policy = json!({
            "filesystem": { "allowWrite": ["."] },
            "network": { "allowLocalBinding": true },
        });
        let policy = sandbox.file("p.json", policy.to_string());
        let run =
            |script: &str| sandbox.landstrip(["-p", policy.to_str().unwrap(), "sh", "-c", script]);
        let outcome = run("TMUX_TMPDIR=/var/tmp tmux -L landstrip-test new -d 'echo x > made'");
        outcome.fails();
        let said = line(&outcome, "for a tmux of its own: ");
        assert_eq!(said, Some("TMUX_TMPDIR=$TMPDIR tmux -L NAME"), "{outcome:#?}");
        assert_eq!(line(&outcome, "to allow this: "), None, "{outcome:#?}");
        let own = "SHELL=/bin/sh TMUX_TMPDIR=$TMPDIR tmux -L NAME new -d 'echo x > made; echo y > ../outside/made; tmux wait-for -S end; sleep 60' \
                   && TMUX_TMPDIR=$TMPDIR tmux -L NAME wait-for end";
        run(own).succeeds();
        assert_eq!(sandbox.read("work/made"), "x\n");
        assert!(!sandbox.path("outside/made").exists());
    });
}

#[test]
fn what_is_allowed_already_is_not_suggested_again() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user);
        let policy = json!({
            "filesystem": { "allowWrite": [".", "~/tool.json", "~/tool.json.new"] },
        });
        let policy = sandbox.file("p.json", policy.to_string());
        sandbox.file("home/tool.json", "kept");
        let run = |script: &str| {
            let command = ["-p", policy.to_str().unwrap(), "bash", "-c", script];
            let outcome = sandbox.landstrip(command);
            assert_eq!(line(&outcome, "to allow this: "), None, "{outcome:#?}");
            outcome
        };
        let outcome = run("echo x > ~/tool.json.new && mv -f ~/tool.json.new ~/tool.json");
        let said = line(&outcome, "not suggested").unwrap_or_default();
        assert!(said.ends_with(r#"filesystem.allowWrite += ["~"] for ["~/tool.json"]"#), "{said}");
    });
}

#[test]
fn noise_of_known_programs_is_left_out() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user).allow_write(".");
        sandbox.dir("home/pkg");
        sandbox.file("home/pkg/part.py", "");
        let probes = [
            "import socket; s = socket.socket(socket.AF_INET6); s.bind((\"::1\", 0))",
            "open(\"/tmp/hsperfdata_landstrip\", \"w\")",
            "open(\"../outside/.file.swp\", \"w\")",
            "import sys; sys.path.insert(0, \"../home/pkg\"); import part",
        ];
        let tries = probes.map(|code| format!("try:\n  {code}\nexcept OSError: pass\n")).concat();
        let script = format!("{tries}open(\"../outside/file\", \"w\")");
        let outcome = sandbox.run(["python3", "-c", &script]);
        let path = sandbox.path("outside/file").canonicalize();
        let path =
            path.unwrap_or_else(|_| sandbox.path("outside").canonicalize().unwrap().join("file"));
        let reports: Vec<_> =
            outcome.fails().stderr.lines().filter(|line| line.starts_with('{')).collect();
        let expected = json!({"Filesystem": ["write", path.to_str().unwrap(), "seccomp"]});
        assert_eq!(reports, [expected.to_string()], "{outcome:#?}");
    });
}

/// What Python leaves undone, others do on purpose: told where nothing else was refused.
#[test]
fn a_cache_of_python_alone_is_named_if_the_command_failed() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user);
        prepare(&sandbox);
        sandbox.dir("work/lib");
        sandbox.file("work/lib/part.py", "");
        let policy = sandbox.file("p.json", base().to_string());
        let run = |script: &str| {
            sandbox.landstrip(["-p", policy.to_str().unwrap(), "bash", "-c", script])
        };
        let outcome = run("mkdir lib/__pycache__");
        let said = line(outcome.fails(), "to allow this: ");
        let rule = r#"filesystem.allowWrite += ["./lib"]"#;
        assert_eq!(said, Some(rule), "{outcome:#?}");
        assert_eq!(outcome.reports.len(), 1, "{outcome:#?}");
        // Not where something else was, nor where the command did without.
        let outcome = run("mkdir lib/__pycache__; touch lib/a");
        let left = sandbox.name("work/lib/a");
        assert_eq!(outcome.fails().reports, [json!({"Filesystem": ["write", left, "seccomp"]})]);
        let outcome = run("python3 -c 'import sys; sys.path.insert(0, \"lib\"); import part'");
        assert_eq!(outcome.succeeds().stderr, "", "{outcome:#?}");
        passes(&Sandbox::of(user), "cache", &["mkdir", "__pycache__"]);
    });
}

/// A policy for the working directory does not reach what lies above it.
#[test]
fn where_to_start_is_told_if_the_repository_is_above_the_working_directory() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user);
        sandbox.dir("work/tree");
        sandbox.dir("work/tree/sub");
        let landstrip = programs().landstrip();
        let run = |directory: &str, words: &str| {
            let line = format!("cd {directory} && exec {} {words}", landstrip.display());
            sandbox.sh_outside(&line)
        };
        let make = "git init -q && echo x > sub/file && git add sub && git -c user.name=a -c user.email=a@b commit -qm a";
        sandbox
            .sh_outside(&format!("cd tree && {make} && git worktree add -q ../linked"))
            .succeeds();
        let key = "the git repository begins above the working directory (start landstrip at the top of the work tree): ";
        for (tree, add) in [("tree", "git add new"), ("linked", "sh -c 'git add new'")] {
            let below = format!("{tree}/sub");
            sandbox.file(format!("work/{below}/new"), "new");
            let outcome = run(&below, &format!("-p agent {add}"));
            let top = sandbox.path(format!("work/{tree}")).canonicalize();
            let top = top.unwrap_or_else(|_| sandbox.path(format!("work/{tree}")));
            let expected = format!("[\"{}\"]", top.display());
            let said = line(outcome.fails(), key).unwrap_or_default().to_owned();
            assert_eq!(said.rsplit('/').next(), expected.rsplit('/').next(), "{outcome:#?}");
            // There it works.
            run(tree, "-p agent git add sub/new").succeeds();
            // Where nothing may be written, it helps nothing.
            let outcome = run(&below, "-p read-only git reset -q");
            assert_eq!(line(outcome.fails(), key), None, "{outcome:#?}");
        }
        // What git does without is not told.
        let outcome = run("tree/sub", "-p agent git status -s");
        assert_eq!(outcome.succeeds().stderr, "", "{outcome:#?}");
    });
}

#[test]
fn a_name_server_that_is_connected_to_is_told_of() {
    for_each_user(|user| {
        let connect = |port: u16| {
            let connect = format!("exec 3<>/dev/tcp/192.0.2.1/{port}");
            let outcome = Sandbox::of(user).run(["bash", "-c", &connect]);
            outcome.fails();
            outcome
        };
        let outcome = connect(53);
        let said = line(&outcome, "name servers cannot be reached");
        assert!(said.is_some_and(|said| said.ends_with("[\"192.0.2.1:53\"]")), "{outcome:#?}");
        let outcome = connect(443);
        assert_eq!(line(&outcome, "name servers"), None, "{outcome:#?}");
        assert!(line(&outcome, "to allow this: ").is_some(), "{outcome:#?}");
    });
}

#[test]
fn who_installs_packages_of_python_is_told_of_environments() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user);
        let packages = "home/.tools/lib/python3.11/site-packages";
        sandbox.dir("home/.tools");
        sandbox.sh_outside(&format!("mkdir -p ../{packages}")).succeeds();
        let run = |path: &str| {
            sandbox.landstrip(["-p", "agent", "sh", "-c", &format!("echo x > ../{path}")])
        };
        let outcome = run(&format!("{packages}/made"));
        let said = line(outcome.fails(), "to install Python packages: ");
        assert_eq!(said, Some("python3 -m venv .venv, then .venv/bin/pip install"), "{outcome:#?}");
        let outcome = run("home/.tools/made");
        assert_eq!(line(outcome.fails(), "to install"), None, "{outcome:#?}");
        let outcome = run("work/made");
        assert_eq!(outcome.succeeds().stderr, "", "{outcome:#?}");
    });
}

/// Landlock refuses to execute what may not be read, and tells nobody.
#[test]
fn the_rule_is_named_that_keeps_a_tool_from_being_executed() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user);
        sandbox.program("work/tool", "#!/bin/sh\necho ran\n");
        sandbox.program("work/beside", "#!/bin/sh\necho ran\n");
        let policy = json!({ "filesystem": { "allowWrite": ["./made"], "denyRead": ["./tool"] } });
        let policy = sandbox.file("p.json", policy.to_string());
        let policy = policy.to_str().unwrap();
        let outcome = sandbox.landstrip(["-p", policy, "./tool"]);
        outcome.is_error(126, "Launch", r#"denied by: filesystem.denyRead [\"./tool\"]"#);
        for words in ["./tool", "exec ./tool", "sh -c ./tool"] {
            let outcome = sandbox.landstrip(["-p", policy, "sh", "-c", words]);
            outcome.exits(126);
            assert_eq!(outcome.stdout, "", "{outcome:#?}");
            let said = line(&outcome, "denied by: ");
            assert_eq!(said, Some("filesystem.denyRead [\"./tool\"]"), "{words:?}: {outcome:#?}");
        }
        let outcome = sandbox.landstrip(["-p", policy, "./beside"]);
        assert_eq!((&*outcome.succeeds().stdout, &*outcome.stderr), ("ran\n", ""), "{outcome:#?}");
        // Not what nobody may execute, here or elsewhere.
        sandbox.file("work/text", "text");
        let outcome = sandbox.landstrip(["-p", policy, "./text"]);
        assert!(!outcome.exits(126).stderr.contains("denied by"), "{outcome:#?}");
    });
}

#[test]
fn to_remove_move_or_link_a_file_no_rule_for_its_name_is_suggested() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user).allow_write("w").allow_write("~/listed");
        for directory in ["work/w", "home/empty"] {
            sandbox.dir(directory);
        }
        for file in ["home/notes", "home/listed"] {
            sandbox.file(file, "kept");
        }
        for script in ["rm ~/notes", "mv ~/notes w/new", "rmdir ~/empty", "ln ~/listed w/name"] {
            let refused = sandbox.sh(script);
            let line = refused.fails().stderr.lines().last().unwrap_or_default();
            let is_said = line.contains("opens too much: filesystem.allowWrite += [\"~\"]");
            assert!(is_said && !line.contains("to allow this"), "{script}: {refused:#?}");
        }
        let written = sandbox.sh("echo x >> ~/notes");
        let line = written.fails().stderr.lines().last().unwrap_or_default();
        assert!(line.contains("to allow this: filesystem.allowWrite += [\"~/notes\"]"), "{line}");
        let kept = ["home/notes", "home/listed"].map(|name| sandbox.read(name));
        assert_eq!(kept, ["kept"; 2]);
    });
}

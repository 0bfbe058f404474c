//! What people get wrong, and the one line that each of them is told: what is wrong, and what to write.

use tests::{Outcome, Sandbox, copy_program, for_each_user, programs};

/// One line and nothing else, of this kind, with these words; nothing ran.
#[track_caller]
fn told(sandbox: &Sandbox, outcome: &Outcome, (status, kind): (i32, &str), words: &[&str]) {
    assert_eq!(outcome.stderr.lines().count(), 1, "{outcome:#?}");
    for word in words {
        outcome.is_error(status, kind, word);
    }
    assert!(!sandbox.path("work/made").exists(), "the tool ran: {outcome:#?}");
}

const POLICY: (i32, &str) = (125, "Internal");
const USAGE: (i32, &str) = (2, "Usage");
const LAUNCH: (i32, &str) = (127, "Launch");
const CANNOT: (i32, &str) = (126, "Launch");

/// How the file is called, what it holds, and what has to be told.
const POLICIES: &[(&str, &str, &[&str])] = &[
    // JSON.
    ("a.json", "// rules\n{}", &["comments are not JSON", "YAML"]),
    ("a.json", "{\"network\": {} /* later */}", &["comments are not JSON"]),
    ("a.json", "{\"filesystem\":{\"allowWrite\":[\".\",]}}", &["leave out the comma"]),
    ("a.json", "{'filesystem':{}}", &["write keys in double quotes"]),
    ("a.json", "{filesystem:{}}", &["write keys in double quotes"]),
    ("a.json", "{\"filesystem\":{\"allowWrite\":[.]}}", &["write texts in double quotes"]),
    ("a.json", "{\"filesystem\":{\"allowWrite\":[\".\"]}", &["a '}' is missing"]),
    ("a.json", "{\"filesystem\":{\"denyRead\":[\"a\\q\"]}}", &["write a backslash"]),
    ("a.json", "{\"filesystem\" {}}", &["write ':' between a key and its value"]),
    ("a.json", "{\"filesystem\":{\"allowWrite\":[\".\" \"x\"]}}", &["write ',' between items"]),
    ("a.json", "{\"filesystem\":{} \"network\":{}}", &["write ',' between keys"]),
    ("a.json", "{} {}", &["a policy is one object"]),
    ("a.toml", "[filesystem]\nallowWrite = [\".\"]\n", &["neither JSON nor YAML"]),
    ("a.conf", "filesystem:\n  allowWrite: [.]\n", &["call it .yaml or use --format yaml"]),
    ("a.json", "", &["the policy is empty"]),
    ("a.json", "[\".\"]", &["expected an object, found an array"]),
    // YAML.
    ("a.yaml", "filesystem:\n\tallowWrite: [.]\n", &["indent by blanks", "\"line\":\"2\""]),
    ("a.yaml", "filesystem:\nallowWrite: [.]\n", &["it belongs in filesystem"]),
    ("a.yaml", "filesystem:\n  allowWrite [.]\n", &["expected an object, keys with ': '"]),
    ("a.yaml", "filesystem:\n  allowWrite: [.]\n denyRead: [x]\n", &["as those beside it"]),
    ("a.yaml", "filesystem:\n  denyRead:\n    - *.key\n", &["write a glob in quotes"]),
    ("a.yaml", "filesystem:\n  denyRead: [~]\n", &["write '~' in quotes"]),
    ("a.yaml", "filesystem:\n  denyRead:\n    - !x\n", &["in quotes"]),
    ("a.yaml", "filesystem:\n  denyRead: [\"C:\\Users\"]\n", &["write single quotes"]),
    ("a.yaml", "filesystem:\n  denyRead: [\"a\\d\"]\n", &["write single quotes"]),
    ("a.yaml", "network:\n  allowNetwork: yes\n", &["expected true or false, found string"]),
    ("a.yaml", "filesystem: {}\n---\nnetwork: {}\n", &["more than one document"]),
    ("a.yaml", "filesystem:\n  - allowWrite: [.]\n", &["expected an object, found an array"]),
    // Keys.
    ("a.yaml", "filesytem: {}\n", &["the nearest known key is 'filesystem'"]),
    ("a.yaml", "filesystem:\n  denywrites: []\n", &["the nearest known key is 'denyWrite'"]),
    ("a.json", "{\"rules\":{}}", &["known here are filesystem, network"]),
    // Forms of others: Claude Code's settings, Codex' configuration.
    (
        "settings.json",
        "{\"permissions\":{\"deny\":[\"Read(.env)\"]}}",
        &["write paths into filesystem.allowWrite and filesystem.denyRead"],
    ),
    (
        "settings.json",
        "{\"sandbox\":{\"enabled\":true,\"network\":{}}}",
        &["write what is in it, filesystem and network, at the top level"],
    ),
    ("settings.json", "{\"enabled\":true}", &["leave it out"]),
    ("settings.json", "{\"env\":{\"A\":\"b\"}}", &["environment.set"]),
    ("config.toml", "sandbox_mode = \"read-only\"\n", &["it is TOML", "extends: read-only"]),
    (
        "config.toml",
        "model = \"o3\"\n[sandbox_workspace_write]\nnetwork_access = true\n",
        &["it is TOML"],
    ),
    (
        "config.toml",
        "[sandbox_workspace_write]\nwritable_roots = [\"/x\"]\n",
        &["it is TOML", "writable_roots as filesystem.allowWrite"],
    ),
    ("a.yaml", "writable_roots: [/x]\n", &["filesystem: {allowWrite: [...]}"]),
    ("a.yaml", "network:\n  network_access: true\n", &["network: {allowNetwork: true}"]),
    ("a.yaml", "network:\n  allowedHosts: [a.org]\n", &["allowedDomains: [...]"]),
    ("a.yaml", "filesystem:\n  exclude_slash_tmp: true\n", &["a private TMPDIR"]),
    ("a.json", "{\"filesystem\":{\"exec\":[]}}", &["known here are allowWrite, denyWrite"]),
    ("a.json", "{\"filesystem\":{\"allow_write\":[]}}", &["nearest known key is 'allowWrite'"]),
    ("a.yaml", "filesystem.denyRead: [x]\n", &["write 'denyRead' inside the object 'filesys"]),
    ("a.yaml", "allowedDomains: [a.org]\n", &["it belongs in network"]),
    ("a.yaml", "credentials: {a: b}\n", &["deny the files with filesystem.denyRead"]),
    ("a.json", "{\"network\":{},\"network\":{}}", &["duplicate key 'network'"]),
    // Values.
    ("a.json", "{\"filesystem\":{\"allowWrite\":true}}", &["an array of strings or a string"]),
    ("a.json", "{\"filesystem\":{\"allowWrite\":[1]}}", &["expected a string, found integer 1"]),
    ("a.json", "{\"network\":{\"allowNetwork\":\"true\"}}", &["without quotes"]),
    ("a.json", "{\"network\":{\"httpProxyPort\":\"3128\"}}", &["without quotes"]),
    ("a.json", "{\"network\":{\"httpProxyPort\":0}}", &["a port from 1 to 65535"]),
    ("a.yaml", "filesystem:\n  denyRead: ~/.ssh, ~/.aws\n", &["write an array"]),
    ("a.yaml", "filesystem:\n  denyRead: ['~/.ssh:~/.aws']\n", &["as an item of its own"]),
    ("a.yaml", "filesystem:\n  denyRead: [$HOME/.ssh]\n", &["write '~/.ssh'"]),
    ("a.yaml", "filesystem:\n  denyRead: ['~/.{ssh,aws}']\n", &["write '~/.ssh', '~/.aws'"]),
    ("a.yaml", "filesystem:\n  denyRead: [~root/.ssh]\n", &["'~user' is not supported"]),
    ("a.yaml", "filesystem:\n  denyRead: ['']\n", &["empty path"]),
    ("a.yaml", "filesystem:\n  denyRead: ['a[b']\n", &["without a closing ']'"]),
    ("a.yaml", "filesystem:\n  denyRead: [a**]\n", &["must be a whole path component"]),
    ("a.yaml", "filesystem:\n  allowWrite: ['file:///tmp']\n", &["is a URL; write a path"]),
    ("a.yaml", "network:\n  allowedDomains: ['https://a.org']\n", &["write the host"]),
    ("a.yaml", "network:\n  allowedDomains: ['*']\n", &["network.allowNetwork lifts"]),
    ("a.yaml", "filesystem:\n  denyRead: ['!.env']\n", &["nothing negates"]),
    ("a.yaml", "filesystem:\n  denyRead: ['%HOME%/x']\n", &["write the path itself, '~'"]),
    (
        "a.yaml",
        "filesystem:\n  allowWrite: ['C:\\Users\\me']\n",
        &["write the path that it has here"],
    ),
    ("a.yaml", "filesystem:\n  denyRead: [D:/keys]\n", &["'/mnt/d/keys' under WSL"]),
    ("a.yaml", "network:\n  allowUnixSockets: ['@bus']\n", &["no policy allows"]),
    ("a.yaml", "network:\n  allowedDomains: [10.0.0.0/8]\n", &["write each address"]),
    ("a.yaml", "network:\n  allowedDomains: [.a.org]\n", &["write '*.a.org'"]),
    ("a.yaml", "network:\n  allowedDomains: ['::1']\n", &["in brackets: '[::1]'"]),
    ("a.yaml", "environment:\n  deny: [$TOKEN]\n", &["without '$': 'TOKEN'"]),
    ("a.yaml", "environment:\n  deny: [A_TOKEN=]\n", &["'A_TOKEN' alone is the name"]),
    ("a.yaml", "environment:\n  set: {A: 1}\n", &["expected a string", "add quotes"]),
    ("a.yaml", "extends: agnet\n", &["did you mean 'agent'?"]),
    ("a.yaml", "extends: ./a.yaml\n", &["extends itself"]),
    ("a.yaml", "extends: ./gone.yaml\n", &["gone.yaml: No such file or directory"]),
    // What others call so, or what stands at a wrong place.
    ("a.yaml", "timeout: 60\n", &["write 'limits: {wallSeconds: 60}'"]),
    ("a.yaml", "limits: {cpu: 5}\n", &["write cpuSeconds"]),
    ("a.yaml", "limits: {wallSeconds: 1h}\n", &["a number of seconds from 1, found string"]),
    ("a.yaml", "limits: {wallSeconds: '60'}\n", &["from 1, without quotes"]),
    ("a.yaml", "limits: {processes: 0}\n", &["a number of processes from 1, found integer 0"]),
    ("a.yaml", "limits: {memory: 2G}\n", &["a size such as", "2GiB"]),
    ("a.yaml", "filesystem:\n  deny: [x]\n", &["write denyWrite, or denyRead"]),
    ("a.yaml", "filesystem:\n  allow: [x]\n", &["write allowWrite"]),
    ("a.yaml", "filesystem:\n  readOnly: [x]\n", &["write denyWrite"]),
    ("a.yaml", "network:\n  allow: [a.org]\n", &["write allowedDomains"]),
    ("a.yaml", "network:\n  deniedHosts: [a.org]\n", &["write deniedDomains"]),
    ("a.yaml", "network:\n  allowLocalhost: true\n", &["write allowLocalBinding"]),
    ("a.yaml", "network: none\n", &["write 'network: {allowedDomains: [example.com]}'"]),
    ("a.yaml", "network: false\n", &["write 'network: {allowedDomains"]),
    ("a.yaml", "filesystem: read-only\n", &["write 'filesystem: {allowWrite: [.]}'"]),
    ("a.yaml", "environment: [PATH]\n", &["write 'environment: {allow: [PATH]}'"]),
    ("a.yaml", "environment:\n  set: [A=b]\n", &["write 'set: {NAME: value}'"]),
    ("a.yaml", "environment:\n  unset: [A]\n", &["write deny"]),
    ("a.yaml", "environment:\n  allow: ['PATH=x']\n", &["'PATH' alone is the name"]),
    ("a.yaml", "report: none\n", &["write 'report: {reads: false}'"]),
    ("a.yaml", "ask: 60\n", &["write 'ask: {timeoutSeconds: 60}'"]),
    ("a.yaml", "without: [.vscode]\n", &["write 'without: {filesystem: {denyWrite"]),
    (
        "a.yaml",
        "extends: agent\nwithout: {filesystem: {denyWrite: [.nothing]}}\n",
        &["nothing that this policy extends has it"],
    ),
    ("a.yaml", "extends: agent.yaml\n", &["the preset is called 'agent'"]),
    ("a.yaml", "processes: none\n", &["expected ", "found string"]),
    ("a.yaml", "network:\n  allowedDomains: ['a.org:https']\n", &["a port is a number"]),
    ("a.yaml", "network:\n  allowedDomains: ['a.*']\n", &["only as '*.' at the beginning"]),
    ("a.yaml", "network:\n  hosts: ['a.org 127.0.0.1']\n", &["write '192.0.2.1 name'"]),
    ("a.yaml", "network:\n  allowUnixSockets: ['unix:///x']\n", &["is a URL; write a path"]),
];

#[test]
fn mistakes_in_a_policy() {
    for_each_user(|user| {
        for (file, text, words) in POLICIES {
            let sandbox = Sandbox::of(user);
            let file = sandbox.file(file, text);
            let outcome = sandbox.landstrip(["-p", file.to_str().unwrap(), "touch", "made"]);
            told(&sandbox, &outcome, POLICY, words);
        }
    });
}

/// The words, the status and kind of error, and what has to be told.
const WORDS: &[(&[&str], (i32, &str), &str)] = &[
    (&["-policy", "./policy", "touch", "made"], USAGE, "did you mean '--policy'?"),
    (&["-check"], USAGE, "did you mean '--check'?"),
    (&["--config", "./policy", "touch", "made"], USAGE, "did you mean '--policy'?"),
    (&["-c", "touch made"], USAGE, "for a shell, write sh -c '...'; for a policy, '--policy'"),
    (&["init"], USAGE, "'init' is an option, '--init'"),
    (&["--init", "made"], USAGE, "--init takes no file: use landstrip --init > FILE"),
    (&["run", "touch", "made"], LAUNCH, "landstrip has no subcommands"),
    (&["agent", "touch", "made"], LAUNCH, "it is a preset, written after -p"),
    (&["check"], LAUNCH, "it is an option, written with two dashes"),
    (&["-v"], USAGE, "did you mean '--version'?"),
    (&["--allow-write", ".", "touch", "made"], USAGE, "filesystem.allowWrite is a key of policies"),
    (&["--ro-bind", "/", "/", "touch", "made"], USAGE, "everything may be read but filesystem"),
    (&["--bind", ".", ".", "touch", "made"], USAGE, "filesystem.allowWrite of a policy"),
    (&["--whitelist=.", "touch", "made"], USAGE, "filesystem.allowWrite of a policy"),
    (&["--blacklist=x", "touch", "made"], USAGE, "filesystem.denyRead of a policy"),
    (&["--tmpfs", "/tmp", "touch", "made"], USAGE, "TMPDIR names a private directory"),
    (&["--net=none", "touch", "made"], USAGE, "there is no network without"),
    (&["--share-net", "touch", "made"], USAGE, "network.allowNetwork: true"),
    (&["--unshare-all", "touch", "made"], USAGE, "nothing here needs namespaces"),
    (&["--setenv", "A", "b", "touch", "made"], USAGE, "env NAME=VALUE before the tool"),
    (&["--clearenv", "touch", "made"], USAGE, "environment.deny or environment.allow"),
    (&["--chdir", "/", "touch", "made"], USAGE, "runs in the working directory"),
    (&["--sandbox", "read-only", "touch", "made"], USAGE, "-p read-only, -p build or -p agent"),
    (&["-C", "/", "touch", "made"], USAGE, "runs in the working directory"),
    (&["--jobs=4", "touch", "made"], USAGE, "'--help' lists those of landstrip"),
    (&["--polcy", "./policy", "touch", "made"], USAGE, "did you mean '--policy'?"),
    (&["--policy"], USAGE, "needs a value"),
    (&["--policy=", "touch", "made"], USAGE, "needs a file"),
    (&["--format", "toml", "touch", "made"], USAGE, "json or yaml, found 'toml'"),
    (&["--trap-fd", "2", "touch", "made"], USAGE, "3 or higher, found '2'"),
    (&["--trap-fd", "77", "touch", "made"], USAGE, "77 is not open"),
    (&["--check=yes", "touch", "made"], USAGE, "takes no value, found 'yes'"),
    (&["-p", "-", "-p", "-", "touch", "made"], USAGE, "standard input can be read once"),
    (&["-p", "./policy"], USAGE, "no tool to run"),
    (&["-p", "policy", "touch", "made"], POLICY, "A file is written './policy'"),
    (&["-p", "./gone.json", "touch", "made"], POLICY, "No such file or directory"),
    (&["-p", "directory.d", "touch", "made"], POLICY, "is a directory"),
    (&["touch made"], LAUNCH, "give the tool and each argument as a separate word"),
    (&["touch made; true"], LAUNCH, "sh -c"),
    (&["A=b", "touch", "made"], LAUNCH, "write env NAME=VALUE tool"),
    (&["cd", "/"], LAUNCH, "a shell builtin"),
    (&["-p", "~/policy.json", "touch", "made"], POLICY, "a shell expands '~'"),
    (&["no-such-tool"], LAUNCH, "No such file or directory: it was not found in PATH"),
    (&["tool"], LAUNCH, "write ./ before it"),
    (&["./lost"], LAUNCH, "the interpreter of its '#!' line or its loader does not"),
    (&["~/tool"], LAUNCH, "a shell expands '~'"),
    (&[""], LAUNCH, "an empty word"),
    (&["--", "-p", "./policy", "touch", "made"], LAUNCH, "options go before '--'"),
    (&["./directory.d"], CANNOT, "it is a directory"),
    (&["./tool"], CANNOT, "it is not executable; chmod +x"),
    (&["/etc/passwd"], CANNOT, "Permission denied"),
    (&["--preset", "agent", "touch", "made"], USAGE, "presets are policies: write -p agent"),
    (&["--network", "touch", "made"], USAGE, "write network.allowNetwork: true"),
    (&["--no-sandbox", "touch", "made"], USAGE, "started without landstrip"),
    (&["--allow-domain", "a.org", "touch", "made"], USAGE, "write network.allowedDomains"),
    (&["--env", "A=b", "touch", "made"], USAGE, "env NAME=VALUE before the tool"),
    (&["--writable", ".", "touch", "made"], USAGE, "filesystem.allowWrite of a policy"),
    (&["--timeout", "5", "touch", "made"], USAGE, "write limits.wallSeconds"),
    (&["--user", "x", "touch", "made"], USAGE, "runs as who starts it"),
    (&["--json", "touch", "made"], USAGE, "write --trap-fd FD for reports"),
    (&["-q", "touch", "made"], USAGE, "write --report none"),
    (&["--dry-run", "touch", "made"], USAGE, "did you mean '--check'?"),
    (&["--report", "some", "touch", "made"], USAGE, "all, changes, network or none"),
    (&["--denials", "yesterday"], USAGE, "a day such as 2026-01-31, or 7d"),
    (&["--denials", "2026-13-01"], USAGE, "a day such as 2026-01-31, or 7d"),
    (&["--watch", "2000000000"], POLICY, "there is no process 2000000000"),
    (&["-h=1"], USAGE, "option '-h' takes no value, found '1'"),
    (&["--watch", "vim"], USAGE, "at most one process id"),
    (&["--ask", "2", "touch", "made"], USAGE, "terminal, or a descriptor number"),
    (&["--learn", "touch", "made"], USAGE, "a file named .yaml, or .json"),
    (&["-p", "agent.yml", "touch", "made"], POLICY, "the preset is called 'agent'"),
    (&["-p", "agent,build", "touch", "made"], POLICY, "there are agent, build"),
];

/// A list that grows.
const _: () = assert!(POLICIES.len() + WORDS.len() >= 90);

#[test]
fn mistakes_on_the_command_line() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user);
        sandbox.file("work/policy", "{}");
        sandbox.dir("work/directory.d");
        sandbox.file("work/tool", "touch made");
        sandbox.program("work/lost", "#!/nonexistent/shell\n");
        for (words, error, expected) in WORDS {
            let outcome = sandbox.landstrip(words.iter().copied());
            told(&sandbox, &outcome, *error, &[expected]);
        }
    });
}

#[test]
fn mistakes_in_the_surroundings() {
    let run = |sandbox: &Sandbox| sandbox.landstrip(["touch", "made"]);
    let sandbox = Sandbox::new().env("LANDSTRIP_POLICY", "policy.json");
    sandbox.file("work/policy.json", "{\"filesystem\":{\"allowWrite\":[\".\"]}}");
    told(&sandbox, &run(&sandbox), POLICY, &["LANDSTRIP_POLICY must be an absolute path"]);
    let sandbox = Sandbox::new().env("LANDSTRIP_POLICY", "/nonexistent/policy.json");
    told(&sandbox, &run(&sandbox), POLICY, &["No such file or directory"]);
    let sandbox = Sandbox::new();
    for dir in ["home/.config", "home/.config/landstrip"] {
        sandbox.dir(dir);
    }
    sandbox.file("home/.config/landstrip/policy.json", "{}");
    sandbox.file("home/.config/landstrip/policy.yaml", "{}");
    told(&sandbox, &run(&sandbox), POLICY, &["policy.yaml; keep one of them"]);
    let sandbox = Sandbox::new().env("HOME", "");
    let outcome = sandbox.landstrip(["-p", "agent", "touch", "made"]);
    told(&sandbox, &outcome, POLICY, &["'~' needs HOME"]);

    // Only the launcher was copied, or the proxy was left out.
    let sandbox = Sandbox::new();
    sandbox.dir("bin");
    let install = |name: &str| {
        let to = sandbox.path("bin").join(name);
        copy_program(programs().dir.join(name), &to);
        to.into_os_string().into_string().unwrap()
    };
    let alone = install("landstrip");
    let outcome = sandbox.run_outside([alone.as_str(), "touch", "made"]);
    told(&sandbox, &outcome, POLICY, &["landstrip-broker beside landstrip", "install all"]);
    install("landstrip-broker");
    let policy = sandbox.file("domains.json", r#"{"network":{"allowedDomains":["a.test"]}}"#);
    let connect = "exec 3<>/dev/tcp/127.0.0.1/${HTTP_PROXY##*:}; echo sent >&3; cat <&3; echo $?";
    let policy = policy.to_str().unwrap();
    let outcome = sandbox.run_outside([alone.as_str(), "-p", policy, "bash", "-c", connect]);
    assert_eq!(outcome.signal, None, "{outcome:#?}");
    assert!(outcome.stderr.contains("landstrip-proxy cannot be started: No such"), "{outcome:#?}");
}

#[test]
fn a_star_that_allows_nothing_new_is_told_of() {
    for (text, directory) in [("*", "."), ("../outside/*", "../outside")] {
        let sandbox = Sandbox::new();
        sandbox.file(format!("work/{directory}/there"), "");
        let policy = format!("filesystem:\n  allowWrite: ['{text}']\n");
        let policy = sandbox.file("a.yaml", policy).into_os_string().into_string().unwrap();
        let make = |name: &str| {
            let script = format!("echo x > {directory}/{name}");
            sandbox.landstrip(["-p", &policy, "sh", "-c", &script])
        };
        make("there").succeeds();
        let outcome = make("new");
        let told =
            "'*' in filesystem.allowWrite matches only what exists at launch: allow the directory";
        assert!(outcome.fails().stderr.contains(told), "{outcome:#?}");
        let check = sandbox.landstrip(["-p", &policy, "--check"]);
        let warned = format!("stands for what is there at launch; '{directory}' is all of it");
        assert!(check.succeeds().stdout.contains(&warned), "{check:#?}");
        let outcome = sandbox.landstrip(["-p", &policy, "touch", "/nowhere/made"]);
        assert!(!outcome.fails().stderr.contains("'*'"), "{outcome:#?}");
    }
}

/// Brackets are common in names of routes.
#[test]
fn a_pattern_that_does_not_deny_the_file_of_its_name_is_told_of() {
    let sandbox = Sandbox::new();
    for directory in ["work/app", "work/app/[id]"] {
        sandbox.dir(directory);
    }
    for name in ["work/app/[id]/key", "work/b\\c", "work/bc"] {
        sandbox.file(name, "SECRET");
    }
    let run = |items: &[&str]| {
        let policy = serde_json::json!({"filesystem": {"denyRead": items}}).to_string();
        let policy = sandbox.file("a.json", policy).into_os_string().into_string().unwrap();
        let check = sandbox.landstrip(["-p", &policy, "--check"]).succeeds().stdout.clone();
        (sandbox.landstrip(["-p", &policy, "cat", "app/[id]/key", "b\\c"]), check)
    };
    for (text, escaped) in [("app/[id]/key", "app/\\[id]/key"), ("./b\\c", "./b\\\\c")] {
        let told =
            format!("'{text}' is a pattern, and stands for other names than the one that is there");
        let (outcome, check) = run(&[text]);
        assert_eq!(outcome.succeeds().stdout, "SECRETSECRET");
        assert!(
            outcome.stderr.contains(&format!("{told}; write '{escaped}' for that")),
            "{outcome:#?}"
        );
        assert!(check.contains(&told), "{check}");
        for items in [&[escaped][..], &[text, escaped]] {
            let (outcome, check) = run(items);
            assert_eq!(outcome.fails().stdout, "SECRET", "{outcome:#?}");
            assert!(!outcome.stderr.contains("is a pattern") && !check.contains("is a pattern"));
        }
    }
}

#[test]
fn what_only_looks_like_a_mistake_is_none() {
    for (file, text) in [
        ("a.json", "{\"filesystem\":{\"denyRead\":[\"a,b\",\"x, y\",\"#x\",\"//x\",\"https:\"]}}"),
        ("a.yaml", "# comment\nfilesystem:\n  allowWrite: . # here\n  denyRead: 'a,b'\n"),
        ("a.yaml", "{\"filesystem\": {\"allowWrite\": [\".\"]}}"),
        ("a.json", "{\"network\":{\"allowedDomains\":[\"a.org:443\",\"[::1]:80\"]}}"),
    ] {
        let sandbox = Sandbox::new();
        let file = sandbox.file(file, text);
        sandbox.landstrip(["-p", file.to_str().unwrap(), "true"]).succeeds();
    }
    let sandbox = Sandbox::new();
    sandbox.program("work/my tool", "#!/bin/sh\necho ran\n");
    assert_eq!(sandbox.landstrip(["./my tool"]).stdout, "ran\n");
}

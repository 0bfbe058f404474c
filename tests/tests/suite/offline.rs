//! No network: what asks for a host fails at once, and the report names it.

use rustix::time::{ClockId, clock_gettime};
use serde_json::json;
use std::net::TcpListener;
use std::time::{Duration, Instant};
use tests::raw::{FORBIDDEN, OK, answers, get, raw};
use tests::{Origin, Sandbox, User, copy_program, for_each_user, is_root_for, skipped};

/// In which every tool gives up on a machine that has the time for it; one that is told nothing tries for more than
/// a minute.
const LIMIT: Duration = Duration::from_secs(20);

/// How many times longer a computation takes than it computes, because of what else this machine does.
fn crowd() -> f64 {
    let clocks = [ClockId::ThreadCPUTime, ClockId::Monotonic];
    let now = || clocks.map(|clock| Duration::try_from(clock_gettime(clock)).expect("a time"));
    let start = now();
    let [own, all] = loop {
        let [own, all] = now();
        let passed = [own - start[0], all - start[1]];
        if passed[0] > Duration::from_millis(100) {
            break passed;
        }
    };
    all.as_secs_f64() / own.as_secs_f64()
}

/// Has `body` end within the limit, or so much later as all does on this machine right now.
fn in_time<T>(what: &str, body: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let result = body();
    let taken = start.elapsed();
    assert!(taken < LIMIT || taken < LIMIT.mul_f64(crowd()), "{what}: {taken:?}");
    result
}

fn is_there(sandbox: &Sandbox, tool: &str) -> bool {
    let found = sandbox.sh_outside(&format!("command -v {tool}")).status == Some(0);
    if !found {
        skipped(&format!("{tool} is not installed"));
    }
    found
}

fn tools_that_fetch(user: User) {
    let home = std::env::var("HOME").unwrap_or_default();
    let get = |name: &str, dir: &str| std::env::var(name).unwrap_or(format!("{home}/{dir}"));
    let path = format!("{}/bin:/usr/local/bin:/usr/bin:/bin", get("CARGO_HOME", ".cargo"));
    for (tool, script, host) in [
        ("curl", "curl -sS https://host.test/", "host.test:443"),
        ("wget", "wget -q -O- http://host.test/", "host.test:80"),
        ("git", "git clone -q https://host.test/a.git", "host.test:443"),
        ("ssh", "git clone -q ssh://host.test/a.git", "host.test:22"),
        (
            "npm",
            r#"echo '{"dependencies":{"x":"1"}}' >package.json; npm install --cache $PWD/c"#,
            "registry.npmjs.org:443",
        ),
        ("pip", "pip install --target $PWD/t --no-cache-dir x", "pypi.org:443"),
        (
            "cargo",
            "export CARGO_HOME=$PWD/c; cargo init -q --name x . && echo 'x = \"1\"' >>Cargo.toml && cargo fetch",
            "index.crates.io:443",
        ),
        (
            "go",
            "export GOPATH=$PWD/p GOCACHE=$PWD/c GOFLAGS=-mod=mod; go mod init x; go get host.test/x@v1.0.0",
            "proxy.golang.org:443",
        ),
    ] {
        let sandbox = Sandbox::of(user).allow_write(".").allow_local_binding().trap();
        if (tool, user) == ("cargo", User::Nobody)
            && let Some(cargo) = std::env::var_os("CARGO")
        {
            // rustup's lies in a home that others may not enter; of the compiler it asks what it is.
            copy_program(cargo, &sandbox.path("outside/cargo"));
            let rustc = "#!/bin/sh\nprintf 'rustc 1.85.0\\nrelease: 1.85.0\\nhost: x86_64-unknown-linux-gnu\\n'\n";
            sandbox.program("outside/rustc", rustc);
        }
        let path = format!("{}:{path}", sandbox.name("outside"));
        let sandbox = sandbox.env("PATH", path);
        let sandbox = sandbox.env("RUSTUP_HOME", get("RUSTUP_HOME", ".rustup"));
        if !is_there(&sandbox, tool) {
            continue;
        }
        let outcome = in_time(tool, || sandbox.sh(script));
        let report = json!({ "Network": ["connect", host, "proxy"] });
        // A cargo that fails ends as a panic does.
        let ended = outcome.status.is_some_and(|status| status != 0);
        assert!(ended && outcome.traps.contains(&report), "{tool}: {outcome:#?}");
    }
}

#[test]
fn tools_that_fetch_end_at_once_and_the_report_names_the_host() {
    tools_that_fetch(User::Caller);
}

/// At the same time as the others.
#[test]
fn tools_that_fetch_end_at_once_without_rights_too() {
    if is_root_for("another user") {
        tools_that_fetch(User::Nobody);
    }
}

#[test]
fn the_proxy_refuses_everything_where_no_host_is_permitted() {
    for_each_user(|user| {
        let origin = Origin::new("hello");
        let authority = format!("127.0.0.1:{}", origin.port());
        for sandbox in [
            Sandbox::of(user),
            Sandbox::of(user).without_policy(),
            Sandbox::of(user).allow_write("."),
            Sandbox::of(user).deny_domains(["*.test"]),
            Sandbox::of(user).allow_local_binding(),
        ] {
            answers(&raw(&sandbox, "http", get(&authority)), FORBIDDEN);
        }
        assert_eq!(origin.requests(), [""; 0]);
        let twin = Sandbox::of(user).allow_domains([authority.as_str()]);
        answers(&raw(&twin, "http", get(&authority)), OK);
    });
}

/// The environment names ports that nobody has bound: what listens there outside is not what is reached.
#[test]
fn a_service_at_the_port_of_the_proxy_is_not_reached() {
    let Ok(service) = TcpListener::bind("127.0.0.1:3128") else {
        return skipped("port 3128 is not free");
    };
    service.set_nonblocking(true).unwrap();
    for_each_user(|user| {
        for host in ["127.0.0.1", "::ffff:127.0.0.1"] {
            let script = format!(
                "import os, socket\n\
                 s = socket.create_connection(('{host}', int(os.environ['HTTP_PROXY'].split(':')[2])))\n\
                 s.send(b'GET http://host.test/ HTTP/1.1\\r\\nHost: host.test\\r\\n\\r\\n')\n\
                 print(s.recv(12), s.getpeername()[1])"
            );
            let outcome = Sandbox::of(user).trap().run(["python3", "-c", &script]);
            assert!(outcome.stdout.starts_with("b'HTTP/1.1 403' "), "{outcome:#?}");
            assert!(!outcome.stdout.ends_with(" 3128\n"), "{outcome:#?}");
            let report = json!({ "Network": ["connect", "host.test:80", "proxy"] });
            assert_eq!(outcome.traps, [report], "{outcome:#?}");
        }
    });
    assert!(service.accept().is_err());
    let outside = "import socket; socket.create_connection(('127.0.0.1', 3128))";
    Sandbox::new().sh_outside(&format!("python3 -c \"{outside}\"")).succeeds();
    assert!(service.accept().is_ok());
}

/// Yarn 1 asks again for twelve seconds where a proxy refuses a tunnel, but not where TLS in it is refused.
#[test]
fn what_would_ask_again_is_refused_in_the_tunnel() {
    let script = "import os, socket, sys
s = socket.create_connection(('127.0.0.1', int(os.environ['HTTP_PROXY'].split(':')[2])))
ask = lambda first, agent: f'{first} HTTP/1.1\\r\\nHost: {sys.argv[1]}\\r\\nUser-Agent: {agent}\\r\\n\\r\\n'.encode()
s.sendall(ask('CONNECT ' + sys.argv[1], sys.argv[2]))
answer = s.makefile('rb')
head = list(iter(answer.readline, b'\\r\\n'))
s.sendall(ask('GET /', 'own'))
print(head[0].split()[1].decode(), answer.read(7).hex())";
    for_each_user(|user| {
        let origin = Origin::new("hello");
        let authority = format!("127.0.0.1:{}", origin.port());
        let ask = |sandbox: &Sandbox, agent: &str| {
            sandbox.run(["python3", "-c", script, &authority, agent]).stdout
        };
        let agent = "yarn/1.22.22 npm/? node/v20.20.2 linux x64";
        let sandbox = Sandbox::of(user).trap();
        assert_eq!(ask(&sandbox, agent), "200 15030300020231\n");
        assert!(ask(&sandbox, "yarn/4.9.1").starts_with("403 "));
        assert_eq!(origin.requests(), [""; 0], "ESCAPED");
        let twin = Sandbox::of(user).allow_domains([authority.as_str()]);
        assert_eq!(ask(&twin, agent), format!("200 {}\n", "485454502f312e"));
    });
}

/// A tool asks the proxy for one host after another; people are told of all at once.
#[test]
fn every_host_is_named_and_one_line_allows_them_together() {
    for_each_user(|user| {
        let script =
            "for host in a b c; do curl -sS http://$host.test/ -o /dev/null --fail; done; false";
        for sandbox in [Sandbox::of(user), Sandbox::of(user).allow_local_binding()] {
            let outcome = in_time("curl", || sandbox.sh(script));
            let reports = ["a", "b", "c"]
                .map(|host| json!({ "Network": ["connect", format!("{host}.test:80"), "proxy"] }));
            assert_eq!(outcome.fails().reports, reports, "{outcome:#?}");
            let line = "landstrip: to allow this: network.allowedDomains += [\"a.test\", \"b.test\", \"c.test\"]\n";
            assert!(outcome.stderr.ends_with(line), "{outcome:#?}");
        }
    });
}

/// Servers of the command's own are reached past the proxy, also at the ports that the proxy seems to have.
#[test]
fn own_servers_are_reached_where_no_host_is_permitted() {
    let script = "set -e\n\
        python3 -c 'import http.server as h, sys\n\
        s = h.HTTPServer((\"127.0.0.1\", int(sys.argv[1])), h.SimpleHTTPRequestHandler)\n\
        print(s.server_port, file=open(\"port\", \"w\"))\n\
        while True: s.handle_request()' $1 2>log &\n\
        while ! [ -s port ]; do kill -0 $!; done\n\
        for host in localhost 127.0.0.1 0.0.0.0; do curl -sS --fail http://$host:$(cat port)/port; done";
    for_each_user(|user| {
        for port in ["0", "3128", "1080"] {
            let sandbox = Sandbox::of(user).allow_write(".").allow_local_binding();
            let outcome = sandbox.run(["sh", "-c", script, "sh", port]);
            if outcome.status != Some(0) && TcpListener::bind(format!("127.0.0.1:{port}")).is_err()
            {
                skipped(&format!("port {port} is not free"));
                continue;
            }
            outcome.succeeds();
            assert_eq!(outcome.stdout.lines().count(), 3, "{outcome:#?}");
            assert!(!outcome.stderr.contains("proxy"), "{outcome:#?}");
        }
    });
}

#[test]
fn a_name_lookup_is_reported_as_one() {
    for_each_user(|user| {
        let report = |what: &str| json!({ "Network": ["connect", what, "seccomp"] });
        let (unnamed, named) = (report("name lookup (UDP)"), report("name lookup of host.test"));
        let lookup = |kind: &str| {
            let words = ["getent", kind, "host.test"];
            in_time("getent", || Sandbox::of(user).trap().run(words))
        };
        let outcome = lookup("ahosts");
        outcome.fails();
        assert!(outcome.traps.contains(&named), "{outcome:#?}");
        // One that sends without the broker seeing it.
        let outcome = lookup("hosts");
        outcome.fails();
        assert!(outcome.traps.contains(&unnamed), "{outcome:#?}");
        let twin = Sandbox::of(user).trap().run(["getent", "ahosts", "127.0.0.1"]);
        twin.succeeds();
        assert_eq!(twin.traps, [json!(null); 0], "{twin:#?}");
        // For people: the name once, and what lets it be reached.
        let outcome = Sandbox::of(user).run(["getent", "ahosts", "host.test"]);
        let remedy = "landstrip: to allow this: network.allowedDomains += [\"host.test\"]\n";
        assert!(outcome.stderr.contains(remedy), "{outcome:#?}");
        assert_eq!(outcome.stderr.matches("name lookup").count(), 1, "{outcome:#?}");
    });
}

#[test]
fn resolvers_of_other_makes_give_up_at_once() {
    for (tool, words) in [
        (
            "node",
            vec!["node", "-e", "require('dns').resolve('host.test', e => process.exit(e ? 3 : 0))"],
        ),
        ("dig", vec!["dig", "+tries=1", "+time=4", "host.test"]),
        ("nslookup", vec!["nslookup", "-timeout=1", "host.test"]),
    ] {
        if !is_there(&Sandbox::new(), tool) {
            continue;
        }
        in_time(tool, || Sandbox::new().run(words)).fails();
    }
}

/// An upstream that is never asked needs no protocol that is built.
#[test]
fn a_caller_proxy_that_cannot_be_gone_through_does_not_matter_without_network() {
    let url = "https://me:s3cret@proxy.test:443";
    let outcome = Sandbox::new().env("HTTPS_PROXY", url).sh("echo $HTTPS_PROXY");
    outcome.succeeds();
    assert!(outcome.stdout.starts_with("http://127.0.0.1:"), "{outcome:#?}");
}

#[test]
fn the_caller_keeps_its_own_proxies_where_they_can_be_reached() {
    let url = "http://proxy.test:3128";
    let open = Sandbox::new().allow_network().env("HTTPS_PROXY", url).sh("echo $HTTPS_PROXY");
    assert_eq!(open.stdout.trim(), url, "{open:#?}");
    let own = Sandbox::new().http_proxy_port(8080).env("HTTPS_PROXY", url).sh("echo $HTTPS_PROXY");
    assert_eq!(own.stdout.trim(), url, "{own:#?}");
}

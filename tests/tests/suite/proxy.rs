//! Domains: nothing is reached but the hosts that the policy names (attacks N6 to N9).
//!
//! Names below `localhost` lead to 127.0.0.1 without any name server; they are permitted to, because
//! the policies here list that literal as well. The servers tell what really arrived.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;
use tests::raw::{
    BAD, FORBIDDEN, OK, SOCKS_OK, SOCKS_REFUSED, UNREACHABLE, answers, connect, encode, get, raw,
    socks,
};
use tests::{
    NameServer, Origin, Sandbox, TcpPeer, echo_server, eventually, flood_server, for_each_user,
    free_port, programs,
};

/// A sandbox that may reach `good.localhost` on these ports of 127.0.0.1.
fn sandbox_for(ports: &[u16]) -> Sandbox {
    domains(Sandbox::new(), ports)
}

fn domains(sandbox: Sandbox, ports: &[u16]) -> Sandbox {
    let mut domains = vec!["good.localhost".to_owned(), "*.below.localhost".to_owned()];
    domains.extend(ports.iter().map(|port| format!("127.0.0.1:{port}")));
    let policy = serde_json::json!({ "network": {
        "allowedDomains": domains, "deniedDomains": ["no.below.localhost"] } });
    sandbox.policy_json(policy.to_string())
}

/// Children of the broker's threads, seen from outside.
fn children(pid: u32) -> Vec<u32> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    let lists = threads.map(|thread| fs::read_to_string(thread.path().join("children")));
    let lists: Vec<String> = lists.flatten().collect();
    lists.iter().flat_map(|list| list.split_whitespace()).map(|pid| pid.parse().unwrap()).collect()
}

/// The proxy of a broker, if it has started one.
fn proxy_of(broker: u32) -> Option<u32> {
    let is_proxy = |pid: &u32| {
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        name.starts_with("landstrip-proxy")
    };
    children(broker).into_iter().find(is_proxy)
}

#[test]
fn permitted_name_is_reached_by_every_protocol_and_another_is_not() {
    for_each_user(|user| {
        let origin = Origin::new("hello");
        let port = origin.port();
        let sandbox = domains(Sandbox::of(user), &[port]).trap();
        for (name, http, by_socks) in [
            ("good.localhost", OK, SOCKS_OK),
            ("GOOD.localhost.", OK, SOCKS_OK),
            ("a.below.localhost", OK, SOCKS_OK),
            ("127.0.0.1", OK, SOCKS_OK),
            ("bad.localhost", FORBIDDEN, SOCKS_REFUSED),
            ("below.localhost", FORBIDDEN, SOCKS_REFUSED),
            ("no.below.localhost", FORBIDDEN, SOCKS_REFUSED),
            ("xgood.localhost", FORBIDDEN, SOCKS_REFUSED),
        ] {
            let before = origin.requests().len();
            let authority = format!("{name}:{port}");
            let forwarded = raw(&sandbox, "http", get(&authority));
            answers(&forwarded, http);
            answers(&raw(&sandbox, "http", connect(&authority)), http);
            answers(&raw(&sandbox, "socks", socks(name.as_bytes(), port)), by_socks);
            let expected = if http == OK { 3 } else { 0 };
            assert_eq!(origin.requests().len() - before, expected, "{name}");
            if http == FORBIDDEN {
                let answer = forwarded.result("raw");
                assert!(answer.contains("X-Proxy-Error: blocked-by-allowlist"), "{answer}");
                assert!(answer.contains(&authority), "{answer}");
                let trap = serde_json::json!({ "Network": ["connect", authority, "proxy"] });
                assert_eq!(forwarded.traps, [trap]);
            }
        }
    });
}

#[test]
fn a_refused_host_is_reported_once() {
    let sandbox = sandbox_for(&[1]);
    let request = get("bad.localhost:1");
    let attack = format!("raw http {}", encode(&request));
    let outcome = sandbox.sh(&format!(
        "{probe} {attack}; {probe} {attack}; exit 1",
        probe = programs().probe().display()
    ));
    let expected = serde_json::json!({ "Network": ["connect", "bad.localhost:1", "proxy"] });
    assert_eq!(outcome.reports, [expected], "{outcome:#?}");
}

/// N6.
#[test]
fn no_spelling_of_a_host_reaches_what_the_policy_does_not_name() {
    let origin = Origin::new("hello");
    let port = origin.port();
    // Not listed as a literal: names may not lead to it.
    let sandbox =
        Sandbox::new().allow_domains(["good.localhost", "*.below.localhost", "localhost"]);
    let long = "a.".repeat(130);
    for host in [
        "good.localhost",
        "localhost",
        "127.0.0.1",
        "127.0.0.1.",
        "127.1",
        "0177.0.0.1",
        "0x7f.0.0.1",
        "0x7f000001",
        "2130706433",
        "017700000001",
        "0",
        "0.0.0.0",
        "[::1]",
        "[::]",
        "[::ffff:127.0.0.1]",
        "[::127.0.0.1]",
        "[::1%25lo]",
        "[::1%lo]",
        "good.localhost@127.0.0.1",
        "127.0.0.1@good.localhost",
        "good.localhost%00.evil",
        "good.localhost%0d%0a",
        "g\u{f6}\u{f6}d.localhost",
        "good..localhost",
        ".localhost",
        long.as_str(),
    ] {
        let authority = format!("{host}:{port}");
        for request in [get(&authority), connect(&authority)] {
            let outcome = raw(&sandbox, "http", &request);
            let answer = outcome.result("raw").to_owned();
            let refused = answer.starts_with(FORBIDDEN) || answer.starts_with(BAD);
            assert!(refused, "{request:?}: {answer}");
        }
        if host.len() < 256 {
            answers(&raw(&sandbox, "socks", socks(host.as_bytes(), port)), SOCKS_REFUSED);
        }
    }
    for host in [&b"good.localhost\0"[..], b"good.localhost\r\n", b"good localhost", b"\xff", b""] {
        answers(&raw(&sandbox, "socks", socks(host, port)), SOCKS_REFUSED);
    }
    assert_eq!(origin.requests(), [""; 0], "reached");
    let twin = sandbox_for(&[port]);
    answers(&raw(&twin, "http", get(&format!("good.localhost:{port}"))), OK);
}

/// N7.
#[test]
fn each_request_is_judged_for_itself_and_leaves_in_one_spelling() {
    let origin = Origin::new("hello");
    let port = origin.port();
    let sandbox = sandbox_for(&[port]);
    let good = format!("good.localhost:{port}");
    let bad = format!("bad.localhost:{port}");

    let two = [get(&good).replace("Connection: close\r\n", ""), get(&bad)].concat();
    let outcome = raw(&sandbox, "http", two);
    answers(&outcome, OK);
    assert!(outcome.result("raw").contains(FORBIDDEN), "{outcome:#?}");

    let unlike = get(&good).replace(&format!("Host: {good}"), "Host: evil.example");
    answers(&raw(&sandbox, "http", unlike), OK);
    let hop = get(&good).replace(
        "Connection: close",
        "Proxy-Authorization: x\r\nX-Secret: y\r\nConnection: close, X-Secret\r\nKeep-Alive: 5",
    );
    answers(&raw(&sandbox, "http", hop), OK);
    let requests = origin.requests();
    assert_eq!(requests.len(), 3);
    for request in requests {
        assert!(request.starts_with("GET /path?q HTTP/1.1\r\n"), "{request}");
        assert!(request.contains(&format!("Host: {good}\r\n")), "{request}");
        for other in ["evil.example", "bad.localhost", "proxy-auth", "x-secret", "keep-alive"] {
            assert!(!request.to_lowercase().contains(other), "{request}");
        }
    }
}

/// N7.
#[test]
fn what_two_readers_could_read_in_two_ways_is_one_request_or_none() {
    let origin = Origin::new("hello");
    let port = origin.port();
    let sandbox = sandbox_for(&[port]);
    let good = format!("good.localhost:{port}");
    let smuggled = get(&format!("bad.localhost:{port}"));
    let line = format!("POST http://{good}/ HTTP/1.1\r\nHost: {good}\r\n");
    for request in [
        format!("{line}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{smuggled}"),
        format!("{line}Content-Length: 0\r\nContent-Length: 5\r\n\r\n{smuggled}"),
        format!("{line}Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n{smuggled}"),
        format!("{line}Transfer-Encoding: x\r\n chunked\r\n\r\n0\r\n\r\n{smuggled}"),
        format!("{line}Host: bad.localhost\r\n\r\n"),
        format!("{line}X: a\r\n folded: b\r\n\r\n"),
        format!("{line}X : a\r\n\r\n"),
        format!("{line}X: a\0b\r\n\r\n"),
        format!("GET http://{good}/ HTTP/1.1\nHost: {good}\n\n"),
        format!("GET http://{good}/ HTTP/9.9\r\nHost: {good}\r\n\r\n"),
        format!("GET /path HTTP/1.1\r\nHost: {good}\r\n\r\n"),
        format!("GET ftp://{good}/ HTTP/1.1\r\nHost: {good}\r\n\r\n"),
        format!("CONNECT {good}/x HTTP/1.1\r\nHost: {good}\r\n\r\n"),
        "CONNECT good.localhost HTTP/1.1\r\n\r\n".to_owned(),
        "CONNECT good.localhost:0 HTTP/1.1\r\n\r\n".to_owned(),
        format!("GET http://{good}/{} HTTP/1.1\r\n\r\n", "x".repeat(70_000)),
    ] {
        let before = origin.requests().len();
        let outcome = raw(&sandbox, "http", &request);
        for seen in &origin.requests()[before..] {
            let lower = seen.to_lowercase();
            assert!(!lower.contains("bad.localhost"), "{request:?} became {seen:?}");
            assert!(
                !(lower.contains("content-length") && lower.contains("transfer-enc")),
                "{seen}"
            );
            assert_eq!(lower.matches("\r\nhost:").count(), 1, "{seen}");
            assert!(!seen.replace("\r\n", "").contains(['\n', '\r', '\0']), "{seen:?}");
        }
        let refused = origin.requests().len() == before;
        let answer = outcome.result("raw");
        assert!(!refused || !answer.starts_with(OK), "{request:?}: {answer}");
    }
}

/// N7.
#[test]
fn bodies_of_every_framing_pass_whole() {
    let origin = Origin::new("hello");
    let good = format!("good.localhost:{}", origin.port());
    let sandbox = sandbox_for(&[origin.port()]);
    let line = format!("POST http://{good}/ HTTP/1.1\r\nHost: {good}\r\nConnection: close\r\n");
    for (framing, body, expected) in [
        ("Content-Length: 5\r\n", "abcde", "abcde"),
        ("Transfer-Encoding: chunked\r\n", "3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n", "abc"),
        ("Expect: 100-continue\r\nContent-Length: 5\r\n", "abcde", "abcde"),
    ] {
        let outcome = raw(&sandbox, "http", format!("{line}{framing}\r\n{body}"));
        assert!(outcome.result("raw").contains(OK), "{outcome:#?}");
        let requests = origin.requests();
        let (_, seen) = requests.last().unwrap().split_once("\r\n\r\n").unwrap();
        assert!(seen.contains(expected), "{framing}: {requests:?}");
    }
}

/// N7.
#[test]
fn other_socks_commands_and_versions_are_refused_in_their_own_words() {
    let sandbox = sandbox_for(&[1]);
    let udp = [5, 1, 0, 5, 3, 0, 1, 127, 0, 0, 1, 0, 80];
    let bind = [5, 1, 0, 5, 2, 0, 1, 127, 0, 0, 1, 0, 80];
    answers(&raw(&sandbox, "socks", udp), r"\x05\x00\x05\x07");
    answers(&raw(&sandbox, "socks", bind), r"\x05\x00\x05\x07");
    answers(&raw(&sandbox, "socks", [5, 1, 0, 5, 1, 0, 9, 0]), r"\x05\x00\x05\x08");
    answers(&raw(&sandbox, "socks", [5, 1, 2]), r"\x05\xff");
    answers(&raw(&sandbox, "socks", b"\x04\x01\0\x50\0\0\0\x01me\0good.localhost\0"), r"\x00[");
    let mapped = [&[5, 1, 0, 5, 1, 0, 4], &[0; 10][..], &[255, 255, 127, 0, 0, 1, 0, 1]].concat();
    answers(&raw(&sandbox, "socks", mapped), SOCKS_REFUSED);
}

/// N8: needs the right to bind port 443, which only root has by default.
#[test]
fn the_tls_name_must_be_the_permitted_one() {
    if !tests::is_root_for("port 443") {
        return;
    }
    let peer = Origin::at(443, |_| b"hello".to_vec());
    let sandbox = sandbox_for(&[443]);
    let hello = |name: &str| {
        let vector =
            |bytes: &[u8]| [&u16::try_from(bytes.len()).unwrap().to_be_bytes(), bytes].concat();
        let entry = [&[0][..], &vector(name.as_bytes())].concat();
        let extension = [&[0, 0][..], &vector(&vector(&entry))].concat();
        let body = [&[3, 3][..], &[7; 32], &[0, 0, 2, 0x13, 1, 1, 0], &vector(&extension)].concat();
        let length = u32::try_from(body.len()).unwrap().to_be_bytes();
        let message = [&[1][..], &length[1..], &body].concat();
        [&[22, 3, 1][..], &vector(&message)].concat()
    };
    let request = connect("good.localhost:443");
    for (first, passes) in [
        (hello("bad.localhost"), false),
        (b"GET / HTTP/1.1\r\nHost: bad.localhost\r\n\r\n".to_vec(), false),
        (hello("127.0.0.1"), false),
        (hello("Good.Localhost"), true),
        (b"SSH-2.0-x\r\n".to_vec(), true),
    ] {
        let before = peer.bytes();
        sandbox.probe(format!("raw http {} {}", encode(&request), encode(&first)));
        sandbox.probe(format!(
            "raw socks {} {}",
            encode(socks(b"good.localhost", 443)),
            encode(&first)
        ));
        let expected = if passes { 2 * first.len() } else { 0 };
        let arrived = || peer.bytes() - before;
        assert!(eventually(|| arrived() >= expected), "{first:?}");
        assert_eq!(arrived(), expected, "{first:?}");
    }
}

/// N9.
#[test]
fn the_port_serves_nobody_but_its_own_sandbox() {
    let origin = Origin::new("hello");
    let port = free_port();
    let good = format!("good.localhost:{}", origin.port());
    let text = serde_json::json!({ "network": { "httpProxyPort": port,
        "allowedDomains": ["good.localhost", format!("127.0.0.1:{}", origin.port())] } });
    let sandbox = Sandbox::new().policy_json(text.to_string());
    let probe = programs().probe();
    let attack = format!("{} raw http {}", probe.display(), encode(get(&good)));
    let mut running = sandbox.spawn([
        "sh",
        "-c",
        &format!("{attack}; echo up; until test -e go; do sleep 0.05; done; {attack}"),
    ]);
    running.expect("up");
    assert_eq!(origin.requests().len(), 1);

    let mut stranger = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stranger.write_all(get(&good).as_bytes()).unwrap();
    stranger.set_read_timeout(Some(Duration::from_secs(15))).unwrap();
    let mut answer = Vec::new();
    let _ = stranger.read_to_end(&mut answer);
    assert_eq!(String::from_utf8_lossy(&answer), "");

    let other =
        Sandbox::new().http_proxy_port(port).env("HTTP_PROXY", format!("http://127.0.0.1:{port}"));
    let outcome = raw(&other, "http", get(&good));
    assert!(!outcome.result("raw").contains("HTTP"), "{outcome:#?}");
    assert_eq!(origin.requests().len(), 1, "a stranger got through");
    sandbox.file("work/go", "");
    let outcome = running.wait();
    assert_eq!(outcome.results().count(), 2, "{outcome:#?}");
    assert_eq!(origin.requests().len(), 2, "the sandbox itself still gets through");
}

#[test]
fn only_the_own_proxy_is_reached_on_its_port() {
    let port = free_port();
    let other = TcpPeer::at("127.0.0.2", port);
    let six = TcpPeer::at("::1", port);
    let text =
        serde_json::json!({ "network": { "httpProxyPort": port, "allowedDomains": ["a.test"] } });
    let sandbox = Sandbox::new().policy_json(text.to_string());
    sandbox.probe(format!("connect4 127.0.0.2 {port}")).refused("connect4");
    sandbox.probe(format!("connect6 ::1 {port}")).refused("connect6");
    other.untouched();
    six.untouched();
    sandbox.probe(format!("connect4 127.0.0.1 {port}")).allowed("connect4");
    sandbox.probe(format!("connect-mapped 127.0.0.1 {port}")).allowed("connect-mapped");
}

#[test]
fn a_command_that_never_connects_starts_no_proxy() {
    let sandbox = sandbox_for(&[1]);
    let looked_at = |go| format!("echo up; until test -e {go}; do sleep 0.02; done");
    let mut running = sandbox.spawn(["sh", "-c", &looked_at("go")]);
    running.expect("up");
    assert_eq!(proxy_of(running.pid()), None);
    sandbox.file("work/go", "");
    running.wait().succeeds();
    let probe = programs().probe();
    let request = encode(get("a.test"));
    let attack = format!("{} raw http {request}; {}", probe.display(), looked_at("on"));
    let mut running = sandbox.spawn(["sh", "-c", &attack]);
    running.expect("up");
    let proxy = proxy_of(running.pid()).expect("a running proxy");
    let status = fs::read_to_string(format!("/proc/{proxy}/status")).unwrap();
    assert!(status.contains("\nSeccomp:\t2\n"), "it has no filter: {status}");
    assert!(status.contains("\nNoNewPrivs:\t1\n"), "{status}");
    sandbox.file("work/on", "");
    running.wait().succeeds();
}

#[test]
fn an_occupied_port_is_an_error_and_nothing_runs() {
    let peer = TcpPeer::new();
    let port = peer.port();
    let text =
        serde_json::json!({ "network": { "httpProxyPort": port, "allowedDomains": ["a.test"] } });
    let sandbox = Sandbox::new().policy_json(text.to_string());
    sandbox.run(["true"]).is_error(125, "Internal", "cannot be bound");
}

/// Hosts as they were at launch, in a namespace where these files are the command's to write.
#[test]
fn what_names_resolve_by_is_read_before_the_command_can_write_it() {
    for_each_user(|user| {
        let origin = Origin::new("hello");
        let port = origin.port();
        let text = serde_json::json!({
            "network": { "allowedDomains": ["*.test", format!("127.0.0.1:{port}")] },
            "filesystem": { "allowWrite": ["/etc/hosts", "/etc/resolv.conf"] } });
        let sandbox = Sandbox::of(user).policy_json(text.to_string());
        sandbox.file("resolv.conf", "nameserver 127.53.0.9\noptions timeout:1 attempts:1\n");
        sandbox.file("hosts", "127.0.0.1 before.test\n");
        let mounts = format!(
            "mount --bind {} /etc/resolv.conf && mount --bind {} /etc/hosts && exec \"$@\"",
            sandbox.name("resolv.conf"),
            sandbox.name("hosts")
        );
        let fetch = |name: &str| {
            let namespace = if user.is_root() { "-m" } else { "-rm" };
            let words = ["unshare", namespace, "sh", "-c", &mounts, "sh"];
            let mut words: Vec<std::ffi::OsString> = words.map(Into::into).to_vec();
            words.extend(sandbox.command_line());
            let script = "echo 127.0.0.1 after.test >/etc/hosts && exec \"$@\"";
            words.extend(["--", "sh", "-c", script, "sh"].map(Into::into));
            let request = get(&format!("{name}:{port}"));
            words.extend(Sandbox::probe_words(&format!("raw http {}", encode(request))));
            sandbox.run_outside(words)
        };
        for (name, expected) in [("before.test", OK), ("after.test", UNREACHABLE)] {
            sandbox.file("hosts", "127.0.0.1 before.test\n");
            answers(&fetch(name), expected);
            assert_eq!(sandbox.read("hosts"), "127.0.0.1 after.test\n", "it may be written");
        }
    });
}

#[test]
fn hosts_of_the_policy_hold_for_the_run_and_permit_nothing() {
    for_each_user(|user| {
        let origin = Origin::new("hello");
        let port = origin.port();
        let fetch = |name: &str, allowed: &[&str]| {
            let literal = format!("127.0.0.1:{port}");
            let allowed: Vec<_> =
                allowed.iter().map(|host| host.replace("LITERAL", &literal)).collect();
            let text = serde_json::json!({ "network": {
                "allowedDomains": allowed,
                "hosts": "127.0.0.1 db.test other.test # the run's own\n169.254.169.254 localhost" } });
            let sandbox = Sandbox::of(user).policy_json(text.to_string());
            raw(&sandbox, "http", get(&format!("{name}:{port}")))
        };
        answers(&fetch("db.test", &["db.test", "LITERAL"]), OK);
        answers(&fetch("db.test", &["db.test"]), FORBIDDEN);
        answers(&fetch("other.test", &["db.test", "LITERAL"]), FORBIDDEN);
        // The host's own hosts file and RFC 6761 say otherwise.
        let outcome = fetch("localhost", &["localhost", "LITERAL"]);
        answers(&outcome, FORBIDDEN);
        assert!(outcome.result("raw").contains("169.254.169.254"), "{outcome:#?}");
    });
}

/// An own resolver, named by a resolv.conf that only this sandbox's namespace has.
#[test]
fn a_name_is_resolved_once_and_a_refused_one_never() {
    if !tests::is_root_for("a mount namespace and port 53") {
        return;
    }
    let origin = Origin::new("hello");
    let port = origin.port();
    let forbidden = TcpPeer::at("127.0.0.2", port);
    let server = NameServer::new(|name, before| match name {
        "good.test" => Some([127, 0, 0, 1]),
        // The second look-up would lead elsewhere.
        "rebinding.test" if before == 0 => Some([127, 0, 0, 1]),
        "rebinding.test" | "loopback.test" => Some([127, 0, 0, 2]),
        "metadata.test" => Some([169, 254, 169, 254]),
        "private.test" => Some([10, 0, 0, 1]),
        "nowhere.test" => Some([0, 0, 0, 0]),
        _ => None,
    });
    let text = serde_json::json!({ "network": {
        "allowedDomains": ["*.test", format!("127.0.0.1:{port}")],
        "deniedDomains": ["denied.test"] } });
    let sandbox = Sandbox::new().policy_json(text.to_string());
    sandbox.file("resolv.conf", server.resolv_conf());
    sandbox.file("hosts", "127.0.0.1 hosts.test\n");
    let script = format!(
        "mount --bind {} /etc/resolv.conf && mount --bind {} /etc/hosts && exec \"$@\"",
        sandbox.name("resolv.conf"),
        sandbox.name("hosts")
    );
    let fetch = |name: &str| {
        let mut words: Vec<std::ffi::OsString> =
            ["unshare", "-m", "sh", "-c", &script, "sh"].map(Into::into).to_vec();
        words.extend(sandbox.command_line());
        words.push("--".into());
        let request = get(&format!("{name}:{port}"));
        words.extend(Sandbox::probe_words(&format!("raw http {}", encode(request))));
        sandbox.run_outside(words)
    };
    for (name, expected) in [
        ("good.test", OK),
        ("hosts.test", OK),
        ("rebinding.test", OK),
        ("loopback.test", FORBIDDEN),
        ("metadata.test", FORBIDDEN),
        ("private.test", FORBIDDEN),
        ("nowhere.test", FORBIDDEN),
        ("missing.test", "HTTP/1.1 502"),
        ("denied.test", FORBIDDEN),
        ("good.test.evil", FORBIDDEN),
    ] {
        answers(&fetch(name), expected);
    }
    assert_eq!(origin.requests().len(), 3);
    forbidden.untouched();
    let asked = server.asked();
    let count = |name: &str| asked.iter().filter(|known| *known == name).count();
    assert_eq!((count("good.test"), count("rebinding.test")), (1, 1), "{asked:?}");
    assert_eq!((count("hosts.test"), count("denied.test"), count("good.test.evil")), (0, 0, 0));
}

#[test]
fn real_tools_fetch_what_is_permitted_and_nothing_else() {
    let origin = Origin::with(|path| match path {
        "/repo.git/info/refs?service=git-upload-pack" => Vec::new(),
        _ => b"hello".to_vec(),
    });
    let sandbox = sandbox_for(&[origin.port()]);
    let python = "import sys,urllib.request as u; print(u.urlopen(sys.argv[1]).read().decode())";
    let node = "fetch(process.argv[1]).then(r=>{if(!r.ok)process.exit(1);return r.text()}).then(console.log)";
    let mut tried = 0;
    for tool in [
        &["curl", "-sSf"][..],
        &["wget", "-qO-"],
        &["python3", "-c", python],
        &["sh", "-c", "curl -sSf --proxy $SOCKS_PROXY $0"],
        &["sh", "-c", "curl -sSf --proxytunnel $0"],
        &["node", "-e", node],
    ] {
        if sandbox.sh_outside(&format!("command -v {}", tool[0])).status.is_none_or(|s| s != 0) {
            tests::skipped(&format!("there is no {}", tool[0]));
            continue;
        }
        if tool[0] == "node" && !node_knows_proxies(&sandbox) {
            tests::skipped("this node ignores NODE_USE_ENV_PROXY");
            continue;
        }
        let url = |name: &str| format!("http://{name}.localhost:{}/", origin.port());
        let before = origin.requests().len();
        let run =
            |name: &str| sandbox.run(tool.iter().map(|word| (*word).to_owned()).chain([url(name)]));
        run("bad").fails();
        assert_eq!(origin.requests().len(), before, "{tool:?}");
        let outcome = run("good");
        outcome.succeeds();
        assert!(outcome.stdout.contains("hello"), "{outcome:#?}");
        tried += 1;
    }
    assert!(tried >= 3, "too few tools to tell");
}

/// Since 22.21 and 24.5.
fn node_knows_proxies(sandbox: &Sandbox) -> bool {
    let version = sandbox.run_outside(["node", "-p", "process.versions.node"]).stdout;
    let mut numbers = version.trim().split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    let (major, minor) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    major > 24 || (major == 24 && minor >= 5) || (major == 22 && minor >= 21)
}

#[test]
fn git_clones_from_a_permitted_host() {
    let sandbox = Sandbox::new();
    sandbox
        .sh_outside(
            "git init -q src && cd src && git -c user.name=a -c user.email=b commit -q \
             --allow-empty -m x && git clone -q --bare . ../repo.git && cd ../repo.git && \
             git update-server-info",
        )
        .succeeds();
    let root = sandbox.path("work");
    let origin = Origin::with(move |path| {
        let path = path.split('?').next().unwrap_or_default().trim_start_matches('/');
        fs::read(root.join(path)).unwrap_or_default()
    });
    let text = serde_json::json!({
        "filesystem": { "allowWrite": ["."] },
        "network": { "allowedDomains": ["good.localhost", format!("127.0.0.1:{}", origin.port())] } });
    let sandbox = sandbox.policy_json(text.to_string()).timeout(Duration::from_secs(300));
    let url = |name: &str| format!("http://{name}.localhost:{}/repo.git", origin.port());
    sandbox.run(["git", "clone", "-q", &url("bad"), "bad"]).fails();
    assert_eq!(origin.requests(), [""; 0]);
    sandbox.run(["git", "clone", "-q", &url("good"), "good"]).succeeds();
    assert!(sandbox.path("work/good/.git/HEAD").exists());
}

#[test]
fn the_ssh_proxy_command_needs_no_other_program() {
    let port = echo_server();
    let sandbox = sandbox_for(&[port]);
    let program = programs().dir.join("landstrip-proxy");
    let run = |name: &str| {
        let program = program.display();
        sandbox.sh(&format!(
            "(echo ping; sleep 0.3) | {program} --connect ${{SOCKS_PROXY##*:}} {name} {port}"
        ))
    };
    assert_eq!(run("good.localhost").stdout, "ping\n");
    let refused = run("bad.localhost");
    assert_eq!((refused.stdout.as_str(), refused.status), ("", Some(1)));
    let command = sandbox.sh("printf %s \"$GIT_SSH_COMMAND\"").stdout;
    assert!(command.contains(&program.display().to_string()), "{command}");
}

#[test]
fn random_bytes_neither_break_the_proxy_nor_get_through() {
    let origin = Origin::new("hello");
    let port = origin.port();
    let good = encode(get(&format!("good.localhost:{port}")));
    let sandbox = sandbox_for(&[port]).timeout(Duration::from_secs(300));
    let script = format!(
        "wait_for() {{ echo at $1; while [ ! -e $1 ]; do sleep 0.05; done; }}; set -e; \
         {probe} storm http 1 1; {probe} raw http {good}; wait_for first; \
         {probe} storm http 3 {port}; {probe} storm socks 3 {port}; wait_for second; \
         {probe} raw http {good}",
        probe = programs().probe().display()
    );
    let mut running = sandbox.spawn(["sh", "-c", &script]);
    let mut usage_at = |name: &str| {
        running.expect(&format!("at {name}"));
        let proxy = proxy_of(running.pid()).expect("a running proxy");
        // Connections that the storm has just closed end in their own time.
        let descriptors = || fs::read_dir(format!("/proc/{proxy}/fd")).unwrap().count();
        let idle = || descriptors() <= 16;
        assert!(eventually(idle), "{} descriptors are left", descriptors());
        let status = fs::read_to_string(format!("/proc/{proxy}/status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        let memory: usize = line.trim().trim_end_matches(" kB").parse().unwrap();
        sandbox.file(format!("work/{name}"), "");
        (proxy, memory)
    };
    let (before, after) = (usage_at("first"), usage_at("second"));
    assert_eq!(before.0, after.0, "another proxy was started");
    assert!(after.1 <= before.1 + 4096, "memory: {} KiB, then {}", before.1, after.1);
    let outcome = running.wait();
    let storms = outcome.results().filter(|(name, _)| *name == "storm");
    assert!(storms.map(|(_, count)| count.parse::<usize>().unwrap()).all(|count| count > 100));
    assert_eq!(outcome.results().filter(|(_, answer)| answer.starts_with(OK)).count(), 2);
    assert!(!outcome.stderr.contains("panicked"), "{outcome:#?}");
    assert_eq!(origin.requests().len(), 2, "only the permitted requests arrived");
}

#[test]
fn servers_of_the_command_are_reached_without_the_proxy() {
    let script = "import http.server, os, subprocess, threading\n\
        os.mkdir('site'); open('site/file', 'w').write('own')\n\
        os.chdir('site')\n\
        server = http.server.HTTPServer(('127.0.0.1', 0), http.server.SimpleHTTPRequestHandler)\n\
        threading.Thread(target=server.serve_forever, daemon=True).start()\n\
        for host in ('127.0.0.1', 'localhost'):\n\
        \x20url = f'http://{host}:{server.server_address[1]}/file'\n\
        \x20print(subprocess.run(['curl', '-sS', url], capture_output=True).stdout.decode())\n";
    let sandbox =
        Sandbox::new().allow_write(".").allow_local_binding().allow_domains(["good.localhost"]);
    let outcome = sandbox.run(["python3", "-c", script]);
    assert_eq!(outcome.stdout, "own\nown\n", "{outcome:#?}");
    let foreign = Origin::new("hello");
    let url = format!("http://127.0.0.1:{}/", foreign.port());
    sandbox.run(["curl", "-sSf", &url]).fails();
    assert_eq!(foreign.requests(), [""; 0]);
    // A rule for it leads there through the proxy.
    let sandbox = sandbox.policy_json(
        serde_json::json!({ "network": { "allowLocalBinding": true,
            "allowedDomains": [format!("127.0.0.1:{}", foreign.port())] } })
        .to_string(),
    );
    assert_eq!(sandbox.run(["curl", "-sSf", &url]).stdout, "hello");
}

/// What takes long because it is much.
mod large {
    use super::*;

    #[test]
    fn two_thousand_tunnels_are_open_at_the_same_time() {
        let port = echo_server();
        let sandbox = sandbox_for(&[port]).timeout(Duration::from_secs(120));
        let outcome = sandbox.sh(&format!(
            "ulimit -n 8192; {} tunnels 2000 good.localhost:{port}",
            programs().probe().display()
        ));
        assert_eq!(outcome.result("tunnels"), "2000", "{outcome:#?}");
    }

    #[test]
    fn two_hundred_megabytes_pass_through_one_tunnel() {
        const SIZE: usize = 200 * 1024 * 1024;
        let port = flood_server(SIZE);
        let sandbox = sandbox_for(&[port]).timeout(Duration::from_secs(120));
        let outcome = sandbox.probe(format!("pull good.localhost:{port}"));
        assert_eq!(outcome.result("pull"), SIZE.to_string());
    }
}

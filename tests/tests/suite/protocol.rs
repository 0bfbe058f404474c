//! What HTTP, tunnels and DNS do beside the plain case: upgrades, trailers, half-closed and slow
//! connections, answers over TCP, private addresses.

use std::net::Shutdown;
use std::sync::{Arc, Mutex};
use tests::raw::{FORBIDDEN, OK, UNREACHABLE, answers, encode, get};
use tests::{
    NameServer, Origin, Outcome, Sandbox, User, answering_server, eventually, for_each_user,
    is_root_for, skipped,
};

fn sandbox_for(user: User, port: u16) -> Sandbox {
    let literal = format!("127.0.0.1:{port}");
    Sandbox::of(user).allow_domains(["good.localhost", literal.as_str()])
}

/// Sends the words one after the other.
fn talk(sandbox: &Sandbox, words: &[&str]) -> Outcome {
    let words: Vec<String> = words.iter().map(encode).collect();
    sandbox.probe(format!("raw http {}", words.join(" ")))
}

#[test]
fn a_websocket_is_opened_and_then_passed_through() {
    for_each_user(|user| {
        let (port, seen) = answering_server(
            "HTTP/1.1 101 Yes\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
        );
        let request = format!(
            "GET http://good.localhost:{port}/chat HTTP/1.1\r\nHost: x\r\nConnection: keep-alive, \
         Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        );
        let outcome = talk(&sandbox_for(user, port), &[&request, "first", "second"]);
        answers(&outcome, "HTTP/1.1 101");
        let answer = outcome.result("raw").to_lowercase();
        assert!(answer.contains("upgrade: websocket"), "{answer}");
        assert!(answer.ends_with(r"\r\n\r\nfirstsecond"), "{answer}");
        let head = String::from_utf8_lossy(&seen.lock().unwrap()).to_lowercase();
        for field in
            ["connection: upgrade\r\n", "upgrade: websocket\r\n", "sec-websocket-key: dghl"]
        {
            assert!(head.contains(field), "{head}");
        }
        assert!(!head.contains("keep-alive"), "{head}");
    });
}

#[test]
fn a_host_cannot_switch_protocols_unasked() {
    for_each_user(|user| {
        let (port, _) =
            answering_server("HTTP/1.1 101 Yes\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n");
        let request = get(&format!("good.localhost:{port}"));
        answers(&talk(&sandbox_for(user, port), &[&request]), UNREACHABLE);
    });
}

#[test]
fn trailers_pass_in_both_directions() {
    for_each_user(|user| {
        let (port, seen) = answering_server(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n\
         5\r\nhello\r\n0\r\nX-Sum: 42\r\n\r\n",
        );
        let line = format!("POST http://good.localhost:{port}/ HTTP/1.1\r\nHost: x\r\n");
        let body =
            "Transfer-Encoding: chunked\r\nTrailer: X-Own\r\n\r\n2\r\nab\r\n0\r\nX-Own: 7\r\n\r\n";
        let outcome = talk(&sandbox_for(user, port), &[&format!("{line}TE: trailers\r\n{body}")]);
        answers(&outcome, OK);
        let answer = outcome.result("raw").to_lowercase();
        assert!(answer.contains("hello") && answer.contains("x-sum: 42"), "{answer}");
        let arrived = || String::from_utf8_lossy(&seen.lock().unwrap()).to_lowercase();
        assert!(eventually(|| arrived().ends_with("0\r\nx-own: 7\r\n\r\n")), "{}", arrived());
        assert!(arrived().contains("te: trailers\r\n"), "{}", arrived());
    });
}

#[test]
fn a_client_that_waits_for_100_continue_gets_it() {
    for_each_user(|user| {
        let origin = Origin::new("hello");
        let port = origin.port();
        let head = format!(
            "POST http://good.localhost:{port}/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\
         Content-Length: 5\r\nExpect: 100-continue\r\n\r\n"
        );
        let outcome = talk(&sandbox_for(user, port), &[&head, "abcde"]);
        answers(&outcome, r"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200");
        assert!(origin.requests()[0].ends_with("abcde"));
        assert!(!origin.requests()[0].to_lowercase().contains("expect"), "{:?}", origin.requests());
        let refused = head.replace("good.localhost", "bad.localhost");
        answers(&talk(&sandbox_for(user, port), &[&refused, "abcde"]), FORBIDDEN);
    });
}

/// The host stops sending first, the client later: both directions end on their own.
#[test]
fn a_half_closed_tunnel_carries_the_other_direction() {
    for_each_user(|user| {
        let received = Arc::new(Mutex::new(Vec::new()));
        let record = Arc::clone(&received);
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                stream.shutdown(Shutdown::Write).unwrap();
                let mut bytes = Vec::new();
                let _ = std::io::copy(&mut stream, &mut bytes);
                record.lock().unwrap().push(bytes);
            }
        });
        let script = "import os, socket, sys\n\
        s = socket.create_connection(('127.0.0.1', int(os.environ['HTTP_PROXY'].split(':')[2])))\n\
        s.sendall(f'CONNECT good.localhost:{sys.argv[1]} HTTP/1.1\\r\\n\\r\\n'.encode())\n\
        answer = b''\n\
        while part := s.recv(999): answer += part\n\
        s.sendall(b'after the end')\n\
        s.shutdown(socket.SHUT_WR)\n\
        print(answer.decode().split()[1], s.recv(9))\n";
        let outcome = sandbox_for(user, port).run(["python3", "-c", script, &port.to_string()]);
        assert_eq!(outcome.stdout, "200 b''\n", "{outcome:#?}");
        let arrived = || received.lock().unwrap().clone();
        assert!(eventually(|| arrived() == [b"after the end"]), "{:?}", arrived());
    });
}

/// Of 256 that the proxy serves at a time where it may have 1024 descriptors.
#[test]
fn clients_that_say_nothing_or_little_do_not_keep_others_waiting() {
    for_each_user(|user| {
        let origin = Origin::new("hello");
        let url = format!("http://good.localhost:{}/", origin.port());
        let script = "import os, socket, sys, urllib.request\n\
        port = lambda name: ('127.0.0.1', int(os.environ[name].split(':')[2]))\n\
        held = []\n\
        for first in (b'', b'GET ht', b'CONNECT good.localhost:80 HTTP/1.1\\r\\nA: b'):\n\
        \x20for _ in range(50):\n\
        \x20 held.append(socket.create_connection(port('HTTP_PROXY')))\n\
        \x20 held[-1].sendall(first)\n\
        for first in (b'', b'\\x05', b'\\x05\\x01\\0\\x05\\x01\\0\\x03\\xff'):\n\
        \x20for _ in range(25):\n\
        \x20 held.append(socket.create_connection(port('SOCKS_PROXY')))\n\
        \x20 held[-1].sendall(first)\n\
        print(urllib.request.urlopen(sys.argv[1], timeout=5).read().decode(), len(held))\n";
        let outcome = sandbox_for(user, origin.port()).run(["python3", "-c", script, &url]);
        assert_eq!(outcome.stdout, "hello 225\n", "{outcome:#?}");
    });
}

/// A mount namespace with these files in place of the host's, and what `extra` does first.
fn with_files(sandbox: &Sandbox, extra: &str, namespaces: &str, request: &str) -> Outcome {
    let script = format!(
        "set -e; started=; mount --bind {} /etc/resolv.conf; mount --bind {} /etc/hosts; {extra} \
         code=0; \"$@\" || code=$?; kill $started 2>/dev/null || :; exit $code",
        sandbox.name("resolv.conf"),
        sandbox.name("hosts")
    );
    let mut words: Vec<std::ffi::OsString> =
        ["unshare", namespaces, "sh", "-c", &script, "sh"].map(Into::into).to_vec();
    words.extend(sandbox.command_line());
    words.push("--".into());
    words.extend(Sandbox::probe_words(&format!("raw http {}", encode(request))));
    sandbox.run_outside(words)
}

#[test]
fn an_answer_that_does_not_fit_is_asked_for_over_tcp() {
    if !is_root_for("port 53") {
        return;
    }
    let origin = Origin::new("hello");
    let server = NameServer::truncating(|name| match name {
        "good.test" => Some([127, 0, 0, 1]),
        _ => None,
    });
    let literal = format!("127.0.0.1:{}", origin.port());
    let sandbox = Sandbox::new().allow_domains(["*.test", literal.as_str()]);
    sandbox.file("resolv.conf", server.resolv_conf());
    sandbox.file("hosts", "");
    let fetch =
        |name: &str| with_files(&sandbox, "", "-m", &get(&format!("{name}:{}", origin.port())));
    answers(&fetch("good.test"), OK);
    answers(&fetch("missing.test"), UNREACHABLE);
    assert_eq!(origin.requests().len(), 1);
    assert!(server.asked().contains(&"good.test over TCP".to_owned()), "{:?}", server.asked());
}

/// Two hosts made of network namespaces, of which the other one has a private address.
#[test]
fn a_private_address_is_reached_only_for_a_name_that_may_have_one() {
    if !is_root_for("a network namespace") {
        return;
    }
    let network = "ip link set lo up; ip link add v0 type veth peer name v1; \
        ip addr add 10.9.0.1/24 dev v0; ip link set v0 up; \
        unshare -n sleep 100 & other=$!; \
        until [ \"$(readlink /proc/$other/ns/net)\" != \"$(readlink /proc/$$/ns/net)\" ]; \
        do sleep 0.02; done; \
        ip link set v1 netns $other; inside() { nsenter --net=/proc/$other/ns/net \"$@\"; }; \
        inside ip addr add 10.9.0.2/24 dev v1; inside ip link set v1 up; \
        (exec nsenter --net=/proc/$other/ns/net python3 -m http.server 8080 --bind 10.9.0.2 --directory $PWD/../site >&2) & started=\"$other $!\"; \
        until python3 -c 'import socket; socket.create_connection((\"10.9.0.2\", 8080))' \
        2>/dev/null; do sleep 0.05; done;";
    let policy = |private: &str| {
        let text = serde_json::json!({ "network": {
            "allowedDomains": ["*.test"], "privateDomains": [private] } });
        let sandbox = Sandbox::new().policy_json(text.to_string());
        sandbox.file("resolv.conf", "nameserver 127.0.0.9\n");
        sandbox.file("hosts", "10.9.0.2 corp.test\n10.9.0.1 own.test\n127.0.0.1 local.test\n");
        sandbox.dir("site");
        sandbox.file("site/path", "from the private host");
        sandbox
    };
    let request = |name: &str| get(&format!("{name}:8080"));
    let sandbox = policy("*.test");
    let can = with_files(&sandbox, "ip link add v0 type veth peer name v1 || exit 99;", "-mn", "");
    if can.status == Some(99) {
        skipped(&format!("no virtual network devices here: {can:#?}"));
        return;
    }
    let outcome = with_files(&sandbox, network, "-mn", &request("corp.test"));
    answers(&outcome, OK);
    assert!(outcome.result("raw").contains("from the private host"), "{outcome:#?}");
    let outcome = with_files(&policy("other.test"), network, "-mn", &request("corp.test"));
    answers(&outcome, FORBIDDEN);
    assert!(outcome.result("raw").contains("network.privateDomains"), "{outcome:#?}");
    // It speaks of the network's addresses, not of this host's.
    for name in ["own.test", "local.test"] {
        answers(&with_files(&sandbox, network, "-mn", &request(name)), FORBIDDEN);
    }
}

/// No interface has it: nothing but the route says that it is this host's.
#[test]
fn an_address_that_a_route_makes_this_host_s_is_refused() {
    if !is_root_for("a network namespace") {
        return;
    }
    let sandbox = Sandbox::new().allow_domains(["*.test"]);
    sandbox.file("resolv.conf", "nameserver 127.0.0.9\n");
    sandbox.file("hosts", "2001:db8:1::5 own.test\n2001:db8:2::5 other.test\n");
    let route = "ip link set lo up; ip -6 route add local 2001:db8:1::/64 dev lo || exit 99;";
    let fetch = |name: &str| with_files(&sandbox, route, "-mn", &get(&format!("{name}:8080")));
    let outcome = fetch("own.test");
    if outcome.status == Some(99) {
        skipped(&format!("no local IPv6 routes here: {outcome:#?}"));
        return;
    }
    answers(&outcome, FORBIDDEN);
    assert!(outcome.result("raw").contains("an address of this host"), "{outcome:#?}");
    answers(&fetch("other.test"), UNREACHABLE);
}

/// A gateway of NAT64 would bring the packets back.
#[test]
fn an_address_that_holds_one_of_this_host_s_is_refused() {
    if !is_root_for("a network namespace") {
        return;
    }
    let sandbox = Sandbox::new().allow_domains(["*.test"]);
    sandbox.file("resolv.conf", "nameserver 127.0.0.9\n");
    let hosts = "64:ff9b::5db8:d822 own.test\n64:ff9b::5db8:d823 other.test\n2002:5db8:d822::1 older.test\n";
    sandbox.file("hosts", hosts);
    let network = "ip link set lo up; ip address add 93.184.216.34/32 dev lo;";
    let fetch = |name: &str| with_files(&sandbox, network, "-mn", &get(&format!("{name}:8080")));
    let outcome = fetch("own.test");
    answers(&outcome, FORBIDDEN);
    assert!(outcome.result("raw").contains("an address of this host"), "{outcome:#?}");
    answers(&fetch("older.test"), FORBIDDEN);
    answers(&fetch("other.test"), UNREACHABLE);
}

#[test]
fn an_old_host_and_an_old_client_get_along() {
    for_each_user(|user| {
        let (port, _) = answering_server("HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello");
        let sandbox = sandbox_for(user, port);
        let outcome = talk(&sandbox, &[&get(&format!("good.localhost:{port}"))]);
        answers(&outcome, OK);
        assert!(outcome.result("raw").ends_with("hello"), "{outcome:#?}");
        let old = format!("GET http://good.localhost:{port}/ HTTP/1.0\r\n\r\n");
        let outcome = talk(&sandbox, &[&old]);
        answers(&outcome, "HTTP/1.0 200");
        assert!(outcome.result("raw").ends_with("hello"), "{outcome:#?}");
    });
}

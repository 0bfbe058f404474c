//! What passes a tunnel: on every port, a host that is named in it is the one that was asked for.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use tests::raw::{OK, SOCKS_OK, answers, connect, encode, get, socks};
use tests::{
    Mood, Origin, Outcome, Sandbox, UpstreamStub, User, World, answering_server, at_once,
    echo_server, eventually, for_each_user, is_root_for,
};

pub(crate) fn sandbox_for(user: User, port: u16) -> Sandbox {
    let literal = format!("127.0.0.1:{port}");
    Sandbox::of(user).allow_domains(["good.localhost", literal.as_str()]).trap()
}

/// Sends the words one after the other.
pub(crate) fn talk(sandbox: &Sandbox, protocol: &str, words: &[Vec<u8>]) -> Outcome {
    let words: Vec<String> = words.iter().map(encode).collect();
    sandbox.probe(format!("raw {protocol} {}", words.join(" ")))
}

/// Bytes behind their length.
fn vector(bytes: &[u8]) -> Vec<u8> {
    [&u16::try_from(bytes.len()).unwrap().to_be_bytes(), bytes].concat()
}

fn hello(name: &str) -> Vec<u8> {
    hello_with(name, &[])
}

/// A ClientHello of TLS 1.3 that offers these keys for X25519.
pub(crate) fn hello_of_1_3(name: &str, keys: &[u8]) -> Vec<u8> {
    let shares = if keys.is_empty() { Vec::new() } else { [&[0, 29][..], &vector(keys)].concat() };
    let extensions =
        [(43, vec![2, 3, 4]), (10, vector(&[0, 29])), (13, vector(&[4, 3])), (51, vector(&shares))];
    let extensions = extensions.map(|(kind, data)| [&[0, kind][..], &vector(&data)].concat());
    hello_with(name, &extensions.concat())
}

fn hello_with(name: &str, more: &[u8]) -> Vec<u8> {
    let entry = [&[0][..], &vector(name.as_bytes())].concat();
    let named = [&[0, 0][..], &vector(&vector(&entry))].concat();
    let session = [&[32][..], &[5; 32]].concat();
    let extensions = vector(&[&named, more].concat());
    let body = [&[3, 3][..], &[7; 32], &session, &[0, 2, 0x13, 1, 1, 0], &extensions].concat();
    let length = u32::try_from(body.len()).unwrap().to_be_bytes();
    [&[22, 3, 1][..], &vector(&[&[1][..], &length[1..], &body].concat())].concat()
}

/// `openssl s_server`, which answers as another site to who names that.
struct TlsServer {
    server: Child,
    port: u16,
}

impl TlsServer {
    fn new(world: &World) -> Self {
        let path = |name: &str| world.path(name).to_str().unwrap().to_owned();
        let (key, cert) = (path("key"), path("cert"));
        let made = Command::new("openssl")
            .args([
                "req",
                "-x509",
                "-newkey",
                "ec",
                "-pkeyopt",
                "ec_paramgen_curve:P-256",
                "-nodes",
            ])
            .args(["-subj", "/CN=good.localhost", "-keyout", &key, "-out", &cert])
            .output()
            .expect("openssl");
        assert!(made.status.success(), "{made:?}");
        let mut server = Command::new("openssl")
            .args(["s_server", "-accept", "127.0.0.1:0", "-key", &key, "-cert", &cert])
            .args(["-servername", "bad.localhost", "-key2", &key, "-cert2", &cert])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("openssl");
        let mut lines = BufReader::new(server.stdout.take().unwrap()).lines().map_while(Result::ok);
        let port =
            lines.find_map(|line| line.strip_prefix("ACCEPT ")?.rsplit(':').next()?.parse().ok());
        // It waits for who reads what it says.
        std::thread::spawn(move || lines.for_each(drop));
        Self { server, port: port.expect("a port") }
    }
}

impl Drop for TlsServer {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// A server asks for another one where it cannot use the keys of the first.
#[test]
fn the_second_hello_of_a_handshake_is_compared_too() {
    for_each_user(|user| {
        let server = TlsServer::new(&World::new(User::Caller));
        let sandbox = sandbox_for(user, server.port);
        let tunnel = connect(&format!("good.localhost:{}", server.port)).into_bytes();
        let first = hello_of_1_3("good.localhost", &[]);
        let change = [20, 3, 3, 0, 1, 1];
        for (name, passes) in [("bad.localhost", false), ("good.localhost", true)] {
            let second = hello_of_1_3(name, &[9; 32]);
            let (half, rest) = second.split_at(100);
            let forms = [
                vec![first.clone(), second.clone()],
                vec![[&first[..], &change, &second].concat()],
                vec![first.clone(), half.to_vec(), rest.to_vec()],
                vec![first.clone(), [&change[..], &second].concat()],
            ];
            // With one that passes, the server waits for more.
            let skipped = if passes { 3 } else { 0 };
            for words in forms.into_iter().skip(skipped) {
                let outcome = talk(&sandbox, "http", &[vec![tunnel.clone()], words].concat());
                // What is encrypted shows that the server goes on with the second.
                let answer = outcome.result("raw");
                assert_eq!(answer.contains(r"\x17\x03\x03"), passes, "{outcome:#?}");
                assert_eq!(outcome.traps.is_empty(), passes, "{outcome:#?}");
            }
        }
    });
}

#[test]
fn what_begins_like_tls_is_tls_on_every_port() {
    for_each_user(|user| {
        let origin = Origin::new("hello");
        let sandbox = sandbox_for(user, origin.port());
        let tunnel = connect(&format!("good.localhost:{}", origin.port())).into_bytes();
        let bad = hello("bad.localhost");
        let with_version = |major, minor| [&[22, major, minor][..], &bad[3..]].concat();
        for words in [
            with_version(3, 9),
            with_version(2, 0),
            with_version(9, 9),
            [&[21, 3, 1, 0, 2, 1, 0][..], &bad].concat(),
            [&[20, 3, 3, 0, 1, 1][..], &bad].concat(),
            [&[23, 3, 3, 0, 1, 1][..], &bad].concat(),
            b"\x80\x2e\x01\x03\x01\0\x15\0\0\0\x10".to_vec(),
        ] {
            let outcome = talk(&sandbox, "http", &[tunnel.clone(), words]);
            assert!(!outcome.traps.is_empty(), "{outcome:#?}");
        }
        let good = hello("good.localhost");
        talk(&sandbox, "http", &[tunnel.clone(), good.clone()]);
        talk(&sandbox, "http", &[tunnel, b"\x18 other".to_vec()]);
        assert!(eventually(|| origin.bytes() == good.len() + 7), "{:?}", origin.requests());
    });
}

/// As mail, directories and databases change to TLS.
#[test]
fn a_hello_behind_the_beginning_of_another_protocol_is_compared() {
    for_each_user(|user| {
        let (bad, good) = (hello("bad.localhost"), hello("good.localhost"));
        let cut: Vec<u8> = bad[5..]
            .chunks(20)
            .flat_map(|part| [&[22, 3, 1][..], &vector(part)].concat())
            .collect();
        let (smtp, database) =
            (b"STARTTLS\r\n\r\n\r\n".to_vec(), b"\0\0\0\x08\x04\xd2\x16\x2f".to_vec());
        // A server that knows no ssh says so, and goes on.
        let ssh = b"SSH-2.0-x\r\n".to_vec();
        let of_version = |hello: &[u8]| [&hello[..9], &[9, 5], &hello[11..]].concat();
        for (words, passes) in [
            (vec![ssh.clone(), smtp.clone(), bad.clone()], false),
            (vec![[&ssh[..], &smtp, &bad].concat()], false),
            (vec![ssh, smtp.clone(), good.clone()], true),
            (vec![smtp.clone(), of_version(&bad)], false),
            (vec![smtp.clone(), of_version(&good)], true),
            (vec![smtp.clone(), bad.clone()], false),
            (vec![[&smtp[..], &bad].concat()], false),
            (vec![smtp.clone(), bad[..8].to_vec(), bad[8..].to_vec()], false),
            (vec![smtp.clone(), cut], false),
            (vec![database.clone(), bad.clone()], false),
            (vec![smtp.clone(), good.clone(), bad], false),
            (vec![smtp, good.clone()], true),
            (vec![database, good], true),
        ] {
            let (port, seen) = answering_server("220 go ahead\r\n");
            let tunnel = connect(&format!("good.localhost:{port}")).into_bytes();
            let all = words.concat();
            talk(&sandbox_for(user, port), "http", &[vec![tunnel], words].concat());
            let arrived = || seen.lock().unwrap().clone();
            assert!(eventually(|| passes == (arrived() == all)), "{}", arrived().escape_ascii());
        }
    });
}

#[test]
fn no_line_for_proxies_hides_a_request() {
    for_each_user(|user| {
        let origin = Origin::new("hello");
        let sandbox = sandbox_for(user, origin.port());
        let good = format!("good.localhost:{}", origin.port());
        let tunnel = connect(&good).into_bytes();
        let (bad, good) = ("bad.localhost", good.as_str());
        let request =
            |host: &str| format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        for (words, passes) in [
            (vec![format!("PROXY UNKNOWN\r\n{}", request(bad))], false),
            (vec!["PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n".to_owned(), request(bad)], false),
            (vec![format!("\r\n\r\n\0\r\nQUIT\n\x20\0\0\0{}", request(bad))], false),
            (vec!["\r\n\r\n".to_owned(), format!("\0\r\nQUIT\n\x20\0\0\0{}", request(bad))], false),
            (vec![format!("GET x\r\nHost: {bad}\r\n\r\n")], false),
            (vec![format!("GET http://{bad}/")], false),
            // Some servers take any word for a method.
            (vec![format!("\x01{}", request(bad))], false),
            (vec!["\x01".to_owned(), request(bad)], false),
            (vec!["{".to_owned(), request(bad)], false),
            (vec![format!("\r\n\r\n{}", request(good))], true),
        ] {
            let before = origin.requests().len();
            let said: Vec<Vec<u8>> = words.iter().map(|word| word.clone().into_bytes()).collect();
            let outcome = talk(&sandbox, "http", &[vec![tunnel.clone()], said].concat());
            let heard = || origin.requests()[before..].concat();
            assert!(eventually(|| heard().contains("GET / ") == passes), "{words:?} {outcome:#?}");
            let heard = heard();
            assert!(!heard.contains(bad) && !heard.contains("GET x"), "{words:?} became {heard:?}");
        }
    });
}

/// A host that is permitted by its address can have many names, each of which must be permitted itself.
#[test]
fn the_host_field_of_a_request_to_an_address_is_one_permitted_host() {
    for_each_user(|user| {
        let origin = Origin::new("hello");
        let port = origin.port();
        let sandbox = sandbox_for(user, port);
        let tunnel = connect(&format!("127.0.0.1:{port}")).into_bytes();
        for (host, passes) in [
            ("good.localhost:80@bad.localhost".to_owned(), false),
            ("good.localhost@bad.localhost".to_owned(), false),
            ("good.localhost, bad.localhost".to_owned(), false),
            ("good.localhost:80, bad.localhost".to_owned(), false),
            ("good.localhost:80 bad.localhost".to_owned(), false),
            ("good.localhost:80\tbad.localhost".to_owned(), false),
            ("good.localhost:80/bad.localhost".to_owned(), false),
            ("good.localhost:80?bad.localhost".to_owned(), false),
            ("good.localhost:80#bad.localhost".to_owned(), false),
            ("good.localhost:80\\bad.localhost".to_owned(), false),
            ("good.localhost:80;bad.localhost".to_owned(), false),
            ("good.localhost:80:bad.localhost".to_owned(), false),
            ("bad.localhost".to_owned(), false),
            ("good.localhost".to_owned(), true),
            ("GOOD.localhost.".to_owned(), true),
            (format!("good.localhost:{port}"), true),
            (format!("127.0.0.1:{port}"), true),
        ] {
            let request = format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
            let before = origin.requests().len();
            let outcome = talk(&sandbox, "http", &[tunnel.clone(), request.into_bytes()]);
            let heard = || origin.requests()[before..].concat();
            assert!(eventually(|| heard().contains("GET / ") == passes), "{host:?} {outcome:#?}");
        }
    });
}

#[test]
fn a_tls_name_is_compared_on_every_port() {
    for_each_user(|user| {
        let origin = Origin::new("hello");
        let sandbox = sandbox_for(user, origin.port());
        let good = format!("good.localhost:{}", origin.port());
        for (name, passes) in [("bad.localhost", false), ("good.localhost", true)] {
            let first = hello(name);
            for (protocol, request) in [
                ("http", connect(&good).into_bytes()),
                ("socks", socks(b"good.localhost", origin.port())),
            ] {
                let before = origin.bytes();
                let outcome = talk(&sandbox, protocol, &[request, first.clone()]);
                let expected = if passes { first.len() } else { 0 };
                assert!(eventually(|| origin.bytes() - before >= expected), "{name}: {outcome:#?}");
                assert_eq!(origin.bytes() - before, expected, "{name}: {outcome:#?}");
                let report = serde_json::json!({
                "Network": ["connect", format!("{name}:{}", origin.port()), "proxy"] });
                assert_eq!(outcome.traps.contains(&report), !passes, "{outcome:#?}");
            }
        }
    });
}

#[test]
fn a_request_in_a_tunnel_is_for_the_host_that_was_asked_for() {
    for_each_user(|user| {
        let origin = Origin::new("hello");
        let port = origin.port();
        let sandbox = sandbox_for(user, port);
        let request =
            |host: &str| format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        let good = format!("good.localhost:{port}");
        for (words, passes) in [
            (request("good.localhost"), true),
            (request(&good), true),
            (format!("\r\n{}", request(&good)), true),
            ("GET / HTTP/1.0\r\n\r\n".to_owned(), true),
            (request("bad.localhost"), false),
            (request("bad.localhost").replace("Host: bad", "hOST:bad"), false),
            (format!("\r\n{}", request("bad.localhost")), false),
            (request("bad.localhost").replace("GET /", "ODD  /"), false),
            (request(&good).replace("GET /", "GET http://bad.localhost/"), false),
            (format!("CONNECT bad.localhost:{port} HTTP/1.1\r\nHost: {good}\r\n\r\n"), false),
            (
                format!(
                    "{}Host: bad.localhost\r\n\r\n",
                    request(&good).trim_end_matches("\r\n").to_owned() + "\r\n"
                ),
                false,
            ),
            ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(), false),
        ] {
            for (protocol, first) in
                [("http", connect(&good).into_bytes()), ("socks", socks(b"good.localhost", port))]
            {
                let before = origin.requests().len();
                let outcome = talk(&sandbox, protocol, &[first, words.clone().into_bytes()]);
                let heard: String = origin.requests()[before..].concat();
                assert!(!heard.contains("bad.localhost"), "{words:?} became {heard:?}");
                assert_eq!(heard.contains(" HTTP/1."), passes, "{words:?} {outcome:#?} {heard:?}");
                assert_eq!(
                    outcome.result("raw").ends_with("hello"),
                    passes,
                    "{words:?} {outcome:#?}"
                );
            }
        }
    });
}

#[test]
fn what_some_server_takes_for_a_blank_does_not_hide_a_request() {
    let (port, seen) = answering_server("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
    let sandbox = sandbox_for(User::Caller, port);
    let tunnel = connect(&format!("good.localhost:{port}")).into_bytes();
    let lines: [&[&[u8]]; 15] = [
        &[b"PRI http://good.localhost@bad.localhost/\r", b"\r"],
        &[b"PURGE http://bad.localhost/\r", b"\r"],
        &[b"M-SEARCH *\r", b"\r\nGET / HTTP/1.1"],
        &[b"GET\r/x\rHTTP/1.1"],
        &[b"GET\r / HTTP/1.1"],
        &[b"G\rET / HTTP/1.1"],
        &[b"GET\r/x"],
        &[b"\x0bGET /x HTTP/1.1"],
        &[b"GET\x1c/x\x1cHTTP/1.1"],
        &[b"\x85", b"GET /x HTTP/1.1"],
        &[b"GET\xa0/x", b"\xa0HTTP/1.1"],
        &[b"GET\xc2", b"\x85/x HTTP/1.1"],
        &[b"GET / HTTP/1.1\r", b"Host: bad.localhost\r\r"],
        &[b"GET http://bad.localhost/\r", b"\r"],
        &[b"GET / HT\rTP/1.1"],
    ];
    for line in lines {
        let mut said = vec![tunnel.clone()];
        said.extend(line.iter().map(|part| part.to_vec()));
        said.push(b"\r\nHost: bad.localhost\r\n\r\n".to_vec());
        talk(&sandbox, "http", &said);
        let heard = String::from_utf8_lossy(&seen.lock().unwrap()).into_owned();
        assert!(!heard.contains("bad.localhost"), "{line:?} became {heard:?}");
    }
    // A protocol of lines that is no such request passes as it is.
    talk(&sandbox, "http", &[tunnel, b"\x85SAY\rit\r\nnot to bad.localhost\r\n\r\n".to_vec()]);
    let heard = String::from_utf8_lossy(&seen.lock().unwrap()).into_owned();
    assert!(heard.contains("not to bad.localhost"), "{heard:?}");
}

/// The second one on the connection, and one that comes in pieces.
#[test]
fn every_request_in_a_tunnel_is_judged_for_itself() {
    for_each_user(|user| {
        let (port, seen) = answering_server("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
        let sandbox = sandbox_for(user, port);
        let request = |host: &str| format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n").into_bytes();
        let good = format!("good.localhost:{port}");
        let tunnel = connect(&good).into_bytes();
        let both = [request(&good), request("bad.localhost")].concat();
        let outcome = talk(&sandbox, "http", &[tunnel.clone(), both]);
        assert!(outcome.result("raw").contains("hello"), "{outcome:#?}");
        assert!(outcome.result("raw").contains("403 Forbidden"), "{outcome:#?}");
        let heard = String::from_utf8_lossy(&seen.lock().unwrap()).into_owned();
        assert!(heard.contains("good") && !heard.contains("bad.localhost"), "{heard}");
        for (host, passes) in [("bad.localhost", false), (good.as_str(), true)] {
            seen.lock().unwrap().clear();
            let script = "import os, socket, sys, time\n\
            s = socket.create_connection(('127.0.0.1', int(os.environ['HTTP_PROXY'].split(':')[2])))\n\
            s.sendall(f'CONNECT {sys.argv[1]} HTTP/1.1\\r\\n\\r\\n'.encode())\n\
            s.recv(999)\n\
            for part in ('GE', 'T / HT', 'TP/1.1\\r', '\\nHo', 'st: ', sys.argv[2], '\\r\\n', '\\r\\n'):\n\
            \x20s.sendall(part.encode()); time.sleep(0.05)\n\
            print(s.recv(999).decode())\n";
            let outcome = sandbox.run(["python3", "-c", script, &good, host]);
            assert_eq!(outcome.stdout.contains("hello"), passes, "{outcome:#?}");
            let heard = String::from_utf8_lossy(&seen.lock().unwrap()).into_owned();
            assert!(!heard.contains("bad.localhost"), "{heard}");
            assert_eq!(heard.contains("Host: good.localhost"), passes, "{heard}");
        }
    });
}

/// What nobody reads as a request: a line without its end, a line of another protocol, bytes.
#[test]
fn other_protocols_pass_a_tunnel_as_they_are() {
    for_each_user(|user| {
        let port = echo_server();
        let said: [&[u8]; 5] =
            [b"echo", b"EHLO me\r\n", b"\0\0\0\x08abcd", b"get key\n", b"SSH-2.0-x\r\n"];
        // The server does not close the connection, so that each waits for more.
        at_once(said, |words| {
            let first = socks(b"good.localhost", port);
            let outcome = talk(&sandbox_for(user, port), "socks", &[first, words.to_vec()]);
            answers(&outcome, SOCKS_OK);
            let shown = words.escape_ascii().to_string();
            let answer = outcome.result("raw").replace("\\0", "\\x00");
            assert!(answer.ends_with(&shown), "{shown}: {outcome:#?}");
        });
    });
}

#[test]
fn port_443_is_for_tls_and_a_whole_line_of_ssh() {
    if !is_root_for("port 443") {
        return;
    }
    // Not 127.0.0.1, where another test has the port.
    let listener = std::net::TcpListener::bind("127.0.0.3:443").unwrap();
    let received = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let record = std::sync::Arc::clone(&received);
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut bytes = Vec::new();
            let _ = std::io::Read::read_to_end(&mut stream, &mut bytes);
            record.lock().unwrap().push(bytes);
        }
    });
    for_each_user(|user| {
        let sandbox = Sandbox::of(user).allow_domains(["127.0.0.3:443"]);
        let tunnel = connect("127.0.0.3:443").into_bytes();
        for (words, passes) in [
            (&b"SSH-"[..], false),
            (b"SSH-2.0-", false),
            (b"SSH-x\r\nGET / HTTP/1.1\r\n\r\n", false),
            (b"GET / HTTP/1.1\r\nHost: 127.0.0.3\r\n\r\n", false),
            (b"\0\0", false),
            (b"SSH-2.0-x\r\n", true),
        ] {
            let before = received.lock().unwrap().concat().len();
            talk(&sandbox, "http", &[tunnel.clone(), words.to_vec()]);
            let arrived = || received.lock().unwrap().concat().len() - before;
            let expected = if passes { words.len() } else { 0 };
            assert!(eventually(|| arrived() >= expected), "{words:?}");
            assert_eq!(arrived(), expected, "{words:?}");
        }
        // Nor a request that the proxy is to send, upgraded or not.
        let before = received.lock().unwrap().concat().len();
        let upgrade =
            get("127.0.0.3:443").replace("Connection: close", "Connection: upgrade\r\nUpgrade: x");
        for request in [get("127.0.0.3:443"), upgrade] {
            answers(&talk(&sandbox, "http", &[request.into_bytes()]), "HTTP/1.1 400");
        }
        assert_eq!(received.lock().unwrap().concat().len(), before);
    });
}

#[test]
fn an_upgrade_goes_through_a_tunnel_at_the_upstream() {
    for_each_user(|user| {
        let (port, seen) =
            answering_server("HTTP/1.1 101 Yes\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n");
        let stub = UpstreamStub::new(port, Mood::Willing);
        let sandbox = Sandbox::of(user)
            .allow_domains(["good.test"])
            .env("HTTP_PROXY", format!("http://127.0.0.1:{}", stub.port()));
        let request = "GET http://good.test/ HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n";
        let smuggled = "GET http://bad.test/ HTTP/1.1\r\nHost: bad.test\r\n\r\n";
        let outcome = talk(&sandbox, "http", &[request.into(), b"\x81raw".to_vec()]);
        answers(&outcome, "HTTP/1.1 101");
        assert!(outcome.result("raw").ends_with(r"\x81raw"), "{outcome:#?}");
        assert!(stub.heads()[0].starts_with("CONNECT good.test:80 "), "{:?}", stub.heads());
        talk(&sandbox, "http", &[request.into(), smuggled.into()]);
        assert!(stub.heads().iter().all(|head| head.starts_with("CONNECT ")), "{:?}", stub.heads());
        let heard = String::from_utf8_lossy(&seen.lock().unwrap()).into_owned();
        assert!(heard.contains("GET / HTTP/1.1") && !heard.contains("bad.test"), "{heard}");
        // The twin: a plain request is the upstream's to send.
        let origin = Origin::new("hello");
        let stub = UpstreamStub::new(origin.port(), Mood::Willing);
        let sandbox = Sandbox::of(user)
            .allow_domains(["good.test"])
            .env("HTTP_PROXY", format!("http://127.0.0.1:{}", stub.port()));
        answers(&talk(&sandbox, "http", &[get("good.test").into_bytes()]), OK);
        assert!(stub.heads()[0].starts_with("GET http://good.test/"), "{:?}", stub.heads());
    });
}

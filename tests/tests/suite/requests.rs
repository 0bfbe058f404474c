//! Plain requests through the proxy: as curl directly to the host.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use tests::raw::{BAD, OK, answers, get, raw};
use tests::{ESCAPED, Origin, Sandbox, User, answering_server, for_each_user};

fn sandbox_for(user: User, port: u16) -> Sandbox {
    let literal = format!("127.0.0.1:{port}");
    Sandbox::of(user).allow_domains(["good.localhost", literal.as_str()])
}

#[test]
fn a_body_with_two_lengths_is_refused_with_a_reason_or_has_one() {
    for_each_user(|user| {
        let origin = Origin::new("hello");
        let sandbox = sandbox_for(user, origin.port());
        let line = format!("POST http://good.localhost:{}/ HTTP/1.1\r\nHost: x\r\n", origin.port());
        for fields in [
            "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
            "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        ] {
            let smuggled = get(&format!("bad.localhost:{}", origin.port()));
            let outcome = raw(&sandbox, "http", format!("{line}{fields}\r\n0\r\n\r\n{smuggled}"));
            let answer = outcome.result("raw");
            // RFC 9112 section 6.3: an error, or the chunks count and the length is taken out.
            let refused = answer.starts_with(BAD) && answer.contains("ambiguous length");
            assert!(refused || answer.starts_with(OK), "{fields}: {outcome:#?}");
        }
        for request in origin.requests() {
            let lower = request.to_lowercase();
            assert!(!lower.contains("content-length") && !lower.contains("bad."), "{request}");
        }
        let one = format!("{line}Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n0\r\n\r\n");
        answers(&raw(&sandbox, "http", one), OK);
    });
}

#[test]
fn a_query_may_follow_the_host_at_once() {
    for_each_user(|user| {
        let origin = Origin::new("hello");
        let sandbox = sandbox_for(user, origin.port());
        let request =
            get(&format!("good.localhost:{}", origin.port())).replace("/path?q ", "?x=1 ");
        answers(&raw(&sandbox, "http", request), OK);
        assert!(
            origin.requests()[0].starts_with("GET /?x=1 HTTP/1.1\r\n"),
            "{:?}",
            origin.requests()
        );
    });
}

#[test]
fn names_of_header_fields_keep_their_case_in_both_directions() {
    for_each_user(|user| {
        let (port, seen) =
            answering_server("HTTP/1.1 200 OK\r\nX-oWn: 1\r\nContent-Length: 0\r\n\r\n");
        let request =
            get(&format!("good.localhost:{port}")).replace("Connection", "x-LoUd: 1\r\nConnection");
        let outcome = raw(&sandbox_for(user, port), "http", request);
        answers(&outcome, OK);
        assert!(outcome.result("raw").contains("X-oWn: 1"), "{outcome:#?}");
        let heard = String::from_utf8_lossy(&seen.lock().unwrap()).into_owned();
        assert!(heard.contains("\r\nx-LoUd: 1\r\n") && heard.contains("\r\nHost: good"), "{heard}");
    });
}

#[test]
fn hundreds_of_header_fields_pass_and_thousands_do_not() {
    for_each_user(|user| {
        let origin = Origin::new("hello");
        let sandbox = sandbox_for(user, origin.port());
        for (count, passes) in [(500, true), (3000, false)] {
            let fields: String = (0..count).map(|number| format!("X-{number}: y\r\n")).collect();
            let request = get(&format!("good.localhost:{}", origin.port()))
                .replace("Connection", &format!("{fields}Connection"));
            let before = origin.requests().len();
            let outcome = raw(&sandbox, "http", request);
            assert_eq!(outcome.result("raw").starts_with(OK), passes, "{count}: {outcome:#?}");
            assert_eq!(origin.requests().len() - before, usize::from(passes));
        }
    });
}

#[test]
fn odd_fields_of_a_response_pass_as_curl_takes_them() {
    for_each_user(|user| {
        for words in [
            "HTTP/1.1 200 OK\r\nX-Space : 1\r\nContent-Length: 5\r\n\r\nhello",
            "HTTP/1.1 200 OK\r\nX-Fold: 1\r\n more\r\nContent-Length: 5\r\n\r\nhello",
            "HTTP/1.1 200 OK\r\nno colon\r\nContent-Length: 5\r\n\r\nhello",
            "HTTP/1.1 200 \u{fc}\r\nX-Latin: \u{e4}\r\nContent-Length: 5\r\n\r\nhello",
        ] {
            let (port, _) = answering_server(words);
            let outcome =
                raw(&sandbox_for(user, port), "http", get(&format!("good.localhost:{port}")));
            answers(&outcome, "HTTP/1.1 200");
            assert!(outcome.result("raw").ends_with("hello"), "{words:?}: {outcome:#?}");
        }
    });
}

/// RFC 9110 section 15.2. A client of HTTP/1.0 knows none.
#[test]
fn informational_responses_come_before_the_final_one() {
    for_each_user(|user| {
        let (port, _) = answering_server(concat!(
            "HTTP/1.1 100 Continue\r\n\r\n",
            "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\nConnection: x-hop\r\nX-Hop: 1\r\nContent-Length: 3\r\n\r\n",
            "HTTP/1.1 103 Early Hints\r\nLink: </b>\r\nTransfer-Encoding: chunked\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        ));
        let get = get(&format!("good.localhost:{port}"));
        let outcome = raw(&sandbox_for(user, port), "http", get.clone());
        let answer = outcome.result("raw");
        let hints = r"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </b>\r\n\r\n";
        assert!(answer.starts_with(&format!("{hints}{OK}")), "{outcome:#?}");
        assert!(answer.ends_with(r"\r\n\r\nhello"), "{outcome:#?}");
        let old = raw(&sandbox_for(user, port), "http", get.replace("HTTP/1.1", "HTTP/1.0"));
        let answer = old.result("raw");
        assert!(answer.contains(" 200 OK") && !answer.contains("103"), "{old:#?}");
        assert!(answer.ends_with(r"\r\n\r\nhello"), "{old:#?}");
    });
}

/// The host waits with its response until the client, who read the hints, has asked for what they name. What it says
/// after that, or where nobody waits for it, is never before another host's response.
#[test]
fn hints_are_there_before_the_response_is() {
    for_each_user(|user| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = std::thread::spawn(move || {
            let read = |stream: &mut TcpStream| {
                let mut bytes = Vec::new();
                while !bytes.ends_with(b"\r\n\r\n") {
                    let mut byte = [0];
                    stream.read_exact(&mut byte).unwrap();
                    bytes.push(byte[0]);
                }
            };
            let (mut first, _) = listener.accept().unwrap();
            read(&mut first);
            first.write_all(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n").unwrap();
            let (mut second, _) = listener.accept().unwrap();
            read(&mut second);
            let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
            second.write_all(answer).unwrap();
            first.write_all(&[&answer[..], b"HTTP/1.1 103 Early Hints\r\n\r\n"].concat()).unwrap();
            // Until the client is gone.
            drop((first.read(&mut [0]), second.read(&mut [0])));
        });
        let script = "import os, socket, sys\n\
            def ask(s, path):\n\
            \x20s.sendall(f'GET http://{sys.argv[1]}{path} HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n'.encode())\n\
            def read(s, end):\n\
            \x20seen = b''\n\
            \x20while not seen.endswith(end):\n\
            \x20\x20more = s.recv(1)\n\
            \x20\x20if not more: sys.exit(f'{seen}')\n\
            \x20\x20seen += more\n\
            \x20return seen\n\
            a, b = (socket.create_connection(('127.0.0.1', int(os.environ['HTTP_PROXY'].split(':')[2]))) for _ in 'ab')\n\
            ask(a, '/'); hints = read(a, b'\\r\\n\\r\\n'); ask(b, '/a')\n\
            print(hints, read(b, b'ok'), read(a, b'ok'))\n";
        let host = format!("good.localhost:{port}");
        let outcome = sandbox_for(user, port).run(["python3", "-c", script, &host]);
        assert_eq!(outcome.succeeds().stdout.matches(" 200 OK").count(), 2, "{outcome:#?}");
        assert!(outcome.stdout.starts_with("b'HTTP/1.1 103 Early Hints"), "{outcome:#?}");
        server.join().unwrap();
    });
}

/// Answers each request and keeps the connection; counts the connections.
fn lasting_server() -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            counted.fetch_add(1, Ordering::Relaxed);
            std::thread::spawn(move || {
                let mut bytes = Vec::new();
                let mut buffer = [0; 512];
                while let Ok(length @ 1..) = stream.read(&mut buffer) {
                    bytes.extend_from_slice(&buffer[..length]);
                    if bytes.ends_with(b"\r\n\r\n") {
                        bytes.clear();
                        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
                    }
                }
            });
        }
    });
    (port, count)
}

#[test]
fn several_requests_go_over_one_connection_and_each_is_judged() {
    for_each_user(|user| {
        let (port, count) = lasting_server();
        let (other, others) = lasting_server();
        let sandbox = sandbox_for(user, port);
        let script = "import http.client, os, sys\n\
        c = http.client.HTTPConnection('127.0.0.1', int(os.environ['HTTP_PROXY'].split(':')[2]))\n\
        for url in sys.argv[1:]:\n\
        \x20c.request('GET', url); r = c.getresponse(); r.read(); print(r.status, end=' ')\n";
        let good = format!("http://good.localhost:{port}/");
        let bad = format!("http://good.localhost:{other}/");
        let outcome = sandbox.run(["python3", "-c", script, &good, &good, &good, &bad, &good]);
        assert_eq!(outcome.stdout, "200 200 200 403 200 ", "{outcome:#?}");
        assert!(count.load(Ordering::Relaxed) <= 2, "{count:?} connections");
        assert_eq!(others.load(Ordering::Relaxed), 0);
    });
}

/// Reads no body: what follows a head is the next one, unless that was the last. Tells the heads.
fn bodyless_server() -> (u16, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (port, heads) =
        (listener.local_addr().unwrap().port(), Arc::<Mutex<Vec<String>>>::default());
    let told = Arc::clone(&heads);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let told = Arc::clone(&told);
            std::thread::spawn(move || {
                let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
                loop {
                    let head: Vec<_> = lines
                        .by_ref()
                        .map_while(|line| line.ok().filter(|line| !line.is_empty()))
                        .collect();
                    if head.is_empty() {
                        return;
                    }
                    let head = head.join("\n");
                    told.lock().unwrap().push(head.clone());
                    let _ = (&stream).write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
                    if head.to_lowercase().contains("connection: close") {
                        return;
                    }
                }
            });
        }
    });
    (port, heads)
}

/// By the proxy for HTTP, in a tunnel, and by name.
#[test]
fn a_request_in_the_body_of_another_is_none_for_a_host_that_reads_no_body() {
    for_each_user(|user| {
        let (port, heads) = bodyless_server();
        let script = "import os, socket, sys
port = int(sys.argv[1]); host = 'good.localhost:%d' % port
hidden = 'GET /hidden HTTP/1.1\\r\\nHost: bad.localhost:%d\\r\\n\\r\\n' % port
proxy = lambda: socket.create_connection(('127.0.0.1', int(os.environ['HTTP_PROXY'].rstrip('/').split(':')[2])))
def tunnel():
    s = proxy(); s.sendall(('CONNECT %s HTTP/1.1\\r\\nHost: %s\\r\\n\\r\\n' % (host, host)).encode())
    answer = b''
    while not answer.endswith(b'\\r\\n\\r\\n'): answer += s.recv(1)
    return s
def head(lines, first=None):
    for line in lines:
        if line == b'\\r\\n': return first.split()[1].decode()
        first = first or line
    return 'closed'
for start, connect in [('http://' + host, proxy), ('', tunnel), ('', lambda: socket.create_connection(('good.localhost', port)))]:
    s = connect(); lines = s.makefile('rb')
    for body in ['', 'Content-Length: %d\\r\\n\\r\\n%s' % (len(hidden), hidden), '']:
        text = 'GET %s/open HTTP/1.1\\r\\nHost: %s\\r\\n%s' % (start, host, body or '\\r\\n')
        try: s.sendall(text.encode()); print(head(lines), lines.read(2), end=' ')
        except OSError: print('closed', b'', end=' ')
    print()
";
        let outcome = sandbox_for(user, port).run(["python3", "-c", script, &port.to_string()]);
        let heads = heads.lock().unwrap();
        assert!(!heads.iter().any(|head| head.contains("/hidden")), "{ESCAPED}{heads:?}");
        let lines: Vec<_> = outcome.succeeds().stdout.lines().map(str::trim).collect();
        let answered = ["200 b'ok'"; 3].join(" ");
        // A tunnel has one connection to the host, which says so.
        let closed = "200 b'ok' 200 b'ok' closed b''";
        assert_eq!(lines, [answered.as_str(), closed, closed], "{outcome:#?}");
    });
}

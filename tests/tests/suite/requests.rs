//! Plain requests through the proxy: as curl directly to the host.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tests::raw::{BAD, OK, answers, get, raw};
use tests::{Origin, Sandbox, User, answering_server, for_each_user};

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

/// RFC 9110 section 15.2 wants them passed on; what writes responses here, hyper's server, can write none.
#[test]
fn informational_responses_are_left_out_and_the_final_one_is_whole() {
    for_each_user(|user| {
        let (port, _) = answering_server(concat!(
            "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\nContent-Length: 3\r\n\r\n",
            "HTTP/1.1 103 Early Hints\r\nLink: </b>\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        ));
        let outcome = raw(&sandbox_for(user, port), "http", get(&format!("good.localhost:{port}")));
        answers(&outcome, OK);
        let answer = outcome.result("raw");
        assert!(answer.ends_with("hello") && !answer.contains("Link"), "{outcome:#?}");
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

//! The proxy that the caller uses: permitted hosts are reached through it, and nothing else is.

use serde_json::json;
use tests::raw::{
    FORBIDDEN, OK, SOCKS_OK, SOCKS_REFUSED, UNREACHABLE, answers, connect, encode, get, raw, socks,
};
use tests::{
    Mood, Origin, Outcome, Sandbox, UpstreamStub, User, eventually, for_each_user, free_port,
    programs,
};

const CREDENTIALS: &str = "m%65:s3cr%3Ata";
/// `me:s3cr:ta` in the words of RFC 7617.
const BASIC: &str = "Basic bWU6czNjcjp0YQ==";

/// Has the origin answer at once, and so the tunnel end.
const END: &[u8] = b"GET / HTTP/1.0\r\n\r\n";

fn sandbox() -> Sandbox {
    sandbox_of(User::Caller)
}

fn sandbox_of(user: User) -> Sandbox {
    Sandbox::of(user).allow_domains(["good.test", "192.0.2.1", "203.0.113.0", "127.0.0.1"])
}

fn behind(scheme: &str, stub: &UpstreamStub) -> String {
    format!("{scheme}://{CREDENTIALS}@127.0.0.1:{}", stub.port())
}

/// Neither as written nor decoded nor encoded.
#[track_caller]
fn tells_no_secret(outcome: &Outcome) {
    let seen = format!("{}{}{:?}", outcome.stdout, outcome.stderr, outcome.traps);
    for secret in ["s3cr", "bWU6", "m%65"] {
        assert!(!seen.contains(secret), "{outcome:#?}");
    }
}

#[test]
fn permitted_hosts_are_reached_through_the_upstream_and_others_never_named_to_it() {
    let origin = Origin::new("hello");
    for scheme in ["http", "socks5", "socks5h"] {
        let stub = UpstreamStub::new(origin.port(), Mood::Willing);
        let sandbox = sandbox().env("HTTP_PROXY", behind(scheme, &stub)).trap();
        for (host, permitted) in [
            ("good.test", true),
            ("GOOD.test.", true),
            ("192.0.2.1", true),
            ("bad.test", false),
            ("192.0.2.2", false),
            ("169.254.169.254", false),
            ("good.test@bad.test", false),
        ] {
            let before = stub.heads().len();
            let authority = format!("{host}:8080");
            let (http, by_socks) =
                if permitted { (OK, SOCKS_OK) } else { (FORBIDDEN, SOCKS_REFUSED) };
            for (protocol, bytes, expected) in [
                ("http", get(&authority).into_bytes(), http),
                ("http", [connect(&authority).as_bytes(), END].concat(), http),
                ("socks", [&socks(host.as_bytes(), 8080), END].concat(), by_socks),
            ] {
                let outcome = raw(&sandbox, protocol, bytes);
                answers(&outcome, expected);
                tells_no_secret(&outcome);
            }
            let heads = &stub.heads()[before..];
            assert_eq!(heads.len(), if permitted { 3 } else { 0 }, "{scheme} {host}: {heads:?}");
            for head in heads {
                let host = host.trim_end_matches('.').to_lowercase();
                match scheme {
                    "http" => {
                        assert!(head.contains(BASIC), "{head}");
                        let request = head.starts_with(&format!("GET http://{host}:8080/path?q "));
                        let tunnel = head.starts_with(&format!("CONNECT {host}:8080 "));
                        assert!(request || tunnel, "{head}");
                    }
                    _ => {
                        let asked = match host.as_str() {
                            "192.0.2.1" => r"\x05\x01\x00\x01\xc0\x00\x02\x01".to_owned(),
                            name => format!(r"\x05\x01\x00\x03\t{name}"),
                        };
                        let login = r"\x05\x02\x00\x02\x01\x02me\x07s3cr:ta";
                        assert_eq!(*head, format!(r"{login}{asked}\x1f\x90"));
                    }
                }
            }
        }
    }
}

#[test]
fn no_address_of_no_host_is_given_to_the_upstream() {
    let stub = UpstreamStub::new(1, Mood::Willing);
    let sandbox = Sandbox::new()
        .allow_domains(["0.0.0.0", "224.0.0.1", "192.0.2.1"])
        .env("ALL_PROXY", behind("http", &stub));
    for address in ["0.0.0.0", "224.0.0.1"] {
        answers(&raw(&sandbox, "http", connect(&format!("{address}:80"))), FORBIDDEN);
    }
    assert_eq!(stub.heads(), [""; 0]);
    raw(&sandbox, "http", connect("192.0.2.1:80"));
    assert_eq!(stub.heads().len(), 1);
}

#[test]
fn what_means_this_host_is_not_asked_of_the_upstream() {
    let origin = Origin::new("hello");
    let stub = UpstreamStub::new(1, Mood::Willing);
    let sandbox = Sandbox::new()
        .allow_domains(["127.0.0.1", "good.localhost"])
        .env("ALL_PROXY", behind("http", &stub));
    for host in ["127.0.0.1", "good.localhost"] {
        let authority = format!("{host}:{}", origin.port());
        answers(&raw(&sandbox, "http", get(&authority)), OK);
        answers(&raw(&sandbox, "http", connect(&authority)), OK);
    }
    assert_eq!(stub.heads(), [""; 0]);
    assert_eq!(origin.requests().len(), 4);
}

/// Not on loopback: a variable names it whether or not anything listens there.
#[test]
fn an_upstream_on_another_address_is_dialled_though_no_rule_names_it() {
    // Connecting a datagram socket sends nothing; it shows the address of this host.
    let socket = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
    if socket.connect("192.0.2.1:9").is_err() {
        tests::skipped("there is no route from here");
        return;
    }
    let address = socket.local_addr().unwrap().ip();
    let origin = Origin::new("hello");
    let stub = UpstreamStub::new(origin.port(), Mood::Willing);
    let url = format!("http://{CREDENTIALS}@{address}:{}", stub.port());
    answers(&raw(&sandbox().env("HTTP_PROXY", url), "http", get("good.test:80")), OK);
    assert!(stub.heads()[0].contains(BASIC), "{:?}", stub.heads());
    let closed = format!("http://{CREDENTIALS}@{address}:{}", free_port());
    let outcome = raw(&sandbox().env("HTTP_PROXY", closed), "http", get("good.test:80"));
    answers(&outcome, UNREACHABLE);
    assert!(outcome.result("raw").contains("Connection refused"), "{outcome:#?}");
    tells_no_secret(&outcome);
    // The command itself cannot go there.
    let attack = format!("connect4 {address} {}", stub.port());
    sandbox().probe(attack).refused("connect4");
}

#[test]
fn each_variable_is_for_its_own_traffic() {
    let origin = Origin::new("hello");
    let stub = || UpstreamStub::new(origin.port(), Mood::Willing);
    let (http, https) = (stub(), stub());
    let sandbox = sandbox()
        .env("http_proxy", behind("http", &http))
        .env("https_proxy", behind("http", &https));
    answers(&raw(&sandbox, "http", get("good.test:80")), OK);
    assert_eq!((http.heads().len(), https.heads().len()), (1, 0));
    assert!(http.heads()[0].starts_with("GET http://good.test/path?q "), "{:?}", http.heads());
    answers(&raw(&sandbox, "http", connect("good.test:80")), OK);
    assert_eq!((http.heads().len(), https.heads().len()), (1, 1));
}

#[test]
fn no_proxy_names_what_the_upstream_does_not_get() {
    let origin = Origin::new("hello");
    let stub = UpstreamStub::new(origin.port(), Mood::Willing);
    // 203.0.113.0 is nobody's: to dial it directly fails, or never ends.
    let at = |list: &str| {
        sandbox().env("HTTP_PROXY", behind("http", &stub)).env("NO_PROXY", list.to_owned())
    };
    answers(&raw(&at("other.test"), "http", get("good.test:80")), OK);
    assert_eq!(stub.heads().len(), 1);
    for list in ["good.test", ".test", "*", "x, good.test:80"] {
        let outcome = raw(&at(list), "http", get("good.test:80"));
        assert!(!outcome.result("raw").starts_with(OK), "{list}: {outcome:#?}");
    }
    assert_eq!(stub.heads().len(), 1, "the upstream was asked");
}

#[test]
fn credentials_of_the_upstream_do_not_reach_the_command() {
    for_each_user(|user| {
        let origin = Origin::new("hello");
        let stub = UpstreamStub::new(origin.port(), Mood::Willing);
        let url = behind("http", &stub);
        let sandbox = sandbox_of(user)
            .env("HTTP_PROXY", url.clone())
            .env("HTTPS_PROXY", url.clone())
            .env("ftp_proxy", url.clone())
            .env("MY_TOOLS_PROXY", format!("x {url}/"))
            .env("FTP_PROXY", format!("ftp://{CREDENTIALS}@proxy.test:21/"))
            .env("RSYNC_PROXY", format!("{CREDENTIALS}@127.0.0.1:873"))
            .env("KEPT", "s-3-c-r");
        let outcome =
            sandbox.sh("env; cat /proc/*/environ /proc/*/cmdline 2>/dev/null | tr '\\0' '\\n'");
        assert!(outcome.stdout.contains("KEPT=s-3-c-r"), "{outcome:#?}");
        assert!(outcome.stdout.contains("HTTP_PROXY=http://127.0.0.1:"), "{outcome:#?}");
        tells_no_secret(&outcome);
        // RFC 9110 section 9.3.8: whoever is last answers with what it was sent.
        for method in ["TRACE", "trace"] {
            let request = get("good.test:80").replace("GET", method);
            let request = request.replace("Host", "Max-Forwards: 0\r\nHost");
            answers(&raw(&sandbox, "http", request), "HTTP/1.1 400");
        }
        assert_eq!(stub.heads(), [""; 0]);
        let own = get("good.test:80").replace("Host", "Proxy-Authorization: Basic own\r\nHost");
        answers(&raw(&sandbox, "http", own), OK);
        assert_eq!(stub.heads()[0].matches("roxy-").count(), 1, "{:?}", stub.heads());
        assert!(stub.heads()[0].contains(BASIC));
        let seen = origin.requests();
        assert_eq!(seen.len(), 1);
    });
}

#[test]
fn what_the_upstream_refuses_is_an_error_without_its_words() {
    for scheme in ["http", "socks5"] {
        for mood in [Mood::Strict, Mood::Refusing(2), Mood::Refusing(403), Mood::Silent] {
            let stub = UpstreamStub::new(1, mood);
            let sandbox = sandbox().env("ALL_PROXY", behind(scheme, &stub));
            let outcome = raw(&sandbox, "http", connect("good.test:80"));
            answers(&outcome, UNREACHABLE);
            tells_no_secret(&outcome);
            assert!(outcome.result("raw").contains("upstream proxy"), "{outcome:#?}");
            let outcome = raw(&sandbox, "socks", socks(b"good.test", 80));
            answers(&outcome, r"\x05\x00\x05\x01");
            tells_no_secret(&outcome);
            assert!(outcome.reports.is_empty(), "no refusal of the policy: {outcome:#?}");
            assert_eq!(stub.heads().len(), 2, "{scheme} {mood:?}");
        }
    }
    let strict = UpstreamStub::new(1, Mood::Strict);
    let outcome =
        raw(&sandbox().env("ALL_PROXY", behind("http", &strict)), "http", get("good.test:80"));
    answers(&outcome, UNREACHABLE);
    tells_no_secret(&outcome);
}

#[test]
fn the_first_bytes_of_the_host_are_not_lost_behind_the_upstream() {
    let server = tests::echo_server();
    for scheme in ["http", "socks5"] {
        let stub = UpstreamStub::new(server, Mood::Willing);
        let sandbox = sandbox().env("ALL_PROXY", behind(scheme, &stub));
        let outcome = sandbox.probe(format!(
            "raw http {} {}",
            encode(connect("good.test:80")),
            encode("echo")
        ));
        assert!(outcome.result("raw").ends_with(r"\r\n\r\necho"), "{outcome:#?}");
    }
}

#[test]
fn the_tls_name_is_judged_before_the_upstream_gets_a_byte_of_it() {
    let origin = Origin::new("hello");
    let stub = UpstreamStub::new(origin.port(), Mood::Willing);
    let sandbox = sandbox().env("ALL_PROXY", behind("http", &stub));
    let request = encode(connect("good.test:443"));
    sandbox.probe(format!("raw http {request} {}", encode("GET / HTTP/1.1\r\n\r\n")));
    assert_eq!(origin.bytes(), 0);
    sandbox.probe(format!("raw http {request} {}", encode("SSH-2.0-x\r\n")));
    assert!(eventually(|| origin.bytes() == 11));
}

#[test]
fn a_loopback_variable_is_an_upstream_only_while_something_listens_there() {
    let port = free_port();
    let url = format!("http://127.0.0.1:{port}");
    let sandbox = sandbox().env("HTTP_PROXY", url.clone());
    let shown = sandbox.sh("printf %s $HTTP_PROXY");
    assert_eq!(shown.stdout, url, "the port of landstrip's own");
    let stub = UpstreamStub::new(1, Mood::Willing);
    let url = format!("http://127.0.0.1:{}", stub.port());
    let shown = self::sandbox().env("HTTP_PROXY", url.clone()).sh("printf %s $HTTP_PROXY");
    assert_ne!(shown.stdout, url);
    assert!(shown.stdout.starts_with("http://127.0.0.1:"), "{shown:#?}");
}

#[test]
fn an_upstream_that_cannot_be_used_safely_is_an_error_and_nothing_runs() {
    let tls = format!("https://{CREDENTIALS}@proxy.test:443");
    let outcome = sandbox().env("HTTPS_PROXY", tls.clone()).run(["touch", "made"]);
    outcome.is_error(125, "Internal", "HTTPS_PROXY");
    tells_no_secret(&outcome);
    let checked = sandbox().env("HTTPS_PROXY", tls.clone()).options(["--check"]).run(["true"]);
    checked.is_error(125, "Internal", "HTTPS_PROXY");
    Sandbox::new().env("HTTPS_PROXY", tls).run(["true"]).succeeds();

    let stub = UpstreamStub::new(1, Mood::Willing);
    let policy = json!({ "network": {
        "allowedDomains": ["good.test"], "allowLocalBinding": true } });
    let exposed = || Sandbox::new().policy_json(policy.to_string());
    let outcome = exposed().env("HTTP_PROXY", behind("http", &stub)).run(["true"]);
    outcome.is_error(125, "Internal", "allowLocalBinding");
    tells_no_secret(&outcome);
    let open = format!("http://127.0.0.1:{}", stub.port());
    exposed().env("HTTP_PROXY", open).run(["true"]).succeeds();
}

#[test]
fn a_check_says_that_there_is_an_upstream() {
    let check = |sandbox: Sandbox| sandbox.options(["--check"]).run(["true"]);
    let outcome = check(sandbox().env("HTTPS_PROXY", format!("http://{CREDENTIALS}@proxy.test:1")));
    let line = "through the proxy that HTTPS_PROXY names";
    outcome.succeeds();
    assert!(outcome.stdout.contains(line), "{outcome:#?}");
    tells_no_secret(&outcome);
    assert!(!check(sandbox()).stdout.contains(line));
}

#[test]
fn ssh_and_curl_go_through_the_upstream_without_knowing() {
    let origin = Origin::new("hello");
    let stub = UpstreamStub::new(origin.port(), Mood::Willing);
    let sandbox = sandbox().env("ALL_PROXY", behind("socks5h", &stub));
    let fetched = sandbox.run(["curl", "-sSf", "http://good.test:8080/"]);
    assert_eq!(fetched.stdout, "hello", "{fetched:#?}");
    sandbox.run(["curl", "-sSf", "http://bad.test:8080/"]).fails();
    assert_eq!(stub.heads().len(), 1);
    let program = programs().dir.join("landstrip-proxy");
    let script = format!(
        "printf 'GET / HTTP/1.0\\r\\n\\r\\n' | {} --connect ${{SOCKS_PROXY##*:}} good.test 8080",
        program.display()
    );
    let relayed = sandbox.sh(&script);
    assert!(relayed.stdout.ends_with("hello"), "{relayed:#?}");
    assert_eq!(stub.heads().len(), 2);
}

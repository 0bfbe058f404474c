//! Programs that know no proxy, or are told to use none: each reaches a permitted name by itself, and no other.
//!
//! One that is not installed is skipped, loudly. The manual's table of them is this one.

use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tests::{ESCAPED, Sandbox, User, eventually, for_each_user, skipped};

const PYTHON: &str = "import socket; s = socket.create_connection((\"HOST\", PORT)); s.sendall(b\"hello\"); s.recv(1)";
const ASYNCIO: &str = "import asyncio
async def main():
    r, w = await asyncio.open_connection(\"HOST\", PORT); w.write(b\"hello\"); await w.drain(); await r.read(1); w.close(); await w.wait_closed()
asyncio.run(main())";
const NODE: &str = "const s = require(\"MODULE\").connect(PORT, \"HOST\", () => s.end(\"hello\")); s.on(\"error\", e => process.exit(1))";
const HTTPS: &str =
    "require(\"https\").get(\"https://HOST:PORT/\").on(\"error\", e => process.exit(1))";
const FETCH: &str = "fetch(\"http://HOST:PORT/\").then(r => r.text(), e => process.exit(1))";
const GO: &str = "package main
import (\"net\"; \"os\"; \"io\")
func main() {
	c, err := net.Dial(\"tcp\", os.Args[1]+\":\"+os.Args[2])
	if err != nil { println(err.Error()); os.Exit(1) }
	c.Write([]byte(\"hello\")); io.ReadAll(c)
}";
const JAVA_SOCKET: &str = "class S { public static void main(String[] a) throws Exception {
  try (var s = new java.net.Socket(a[0], Integer.parseInt(a[1]))) { s.getOutputStream().write(\"hello\".getBytes()); s.shutdownOutput(); s.getInputStream().readAllBytes(); } } }";
const JAVA_CLIENT: &str = "import java.net.http.*; class C { public static void main(String[] a) throws Exception {
  var c = HttpClient.newBuilder().proxy(HttpClient.Builder.NO_PROXY).build();
  c.send(HttpRequest.newBuilder(java.net.URI.create(\"http://\" + a[0] + \":\" + a[1] + \"/\")).build(), HttpResponse.BodyHandlers.ofString()); } }";

/// What runs, what has to be installed for that, and the script: HOST and PORT are those of the server. All of them wait
/// for its answer, since what is still on its way through the proxy when the command ends is not delivered.
const PROGRAMS: &[(&str, &str, &str)] = &[
    ("curl --noproxy", "curl", "curl -sS --noproxy '*' http://HOST:PORT/"),
    ("python: socket", "python3", "python3 by_socket.py"),
    ("python: asyncio", "python3", "python3 by_asyncio.py"),
    ("node: net", "node", "node net.js"),
    ("node: tls", "node", "node tls.js"),
    ("node: https", "node", "env -u NODE_USE_ENV_PROXY node https.js"),
    ("node: fetch", "node", "env -u NODE_USE_ENV_PROXY node fetch.js"),
    ("Go, its own resolver", "go", "GODEBUG=netdns=go ./go HOST PORT"),
    ("Go, by the C library", "go", "GODEBUG=netdns=cgo ./go HOST PORT"),
    ("Java: Socket", "java", "java S.java HOST PORT"),
    ("Java: HttpClient", "java", "java C.java HOST PORT"),
    ("Rust: std", "grep", "PROBE connect-name HOST PORT answered | grep -q reached"),
    ("psql", "psql", "psql -h HOST -p PORT -U me -d db -w -c 'select 1'"),
    ("redis-cli", "redis-cli", "redis-cli -h HOST -p PORT ping"),
    ("mysql", "mysql", "mysql --no-defaults -h HOST -P PORT --protocol=tcp -u me -e 'select 1'"),
    (
        "ssh",
        "ssh",
        "ssh -F none -o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -p PORT me@HOST true",
    ),
    ("git over ssh", "git", "env -u GIT_SSH_COMMAND git ls-remote ssh://me@HOST:PORT/repository"),
    ("rsync", "rsync", "rsync rsync://HOST:PORT/"),
    ("nc", "nc", "echo hello | nc -N HOST PORT"),
    (
        "openssl s_client",
        "openssl",
        "openssl s_client -connect HOST:PORT -servername HOST </dev/null",
    ),
];

/// Greets like a server of ssh, of rsync or of nothing, and counts those that said something.
struct Server {
    port: u16,
    heard: Arc<AtomicUsize>,
}

impl Server {
    fn new(greeting: &'static [u8]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (port, heard) = (listener.local_addr().unwrap().port(), Arc::new(AtomicUsize::new(0)));
        let count = Arc::clone(&heard);
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let count = Arc::clone(&count);
                std::thread::spawn(move || {
                    let _ = stream.write_all(greeting);
                    let _ = stream.set_read_timeout(Some(Duration::from_secs(20)));
                    let mut said = [0; 512];
                    if stream.read(&mut said).is_ok_and(|length| length > 0) {
                        count.fetch_add(1, Ordering::Relaxed);
                    }
                    if said.starts_with(b"GET ") {
                        let _ = stream.write_all(
                            b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
                        );
                    }
                });
            }
        });
        Self { port, heard }
    }

    fn heard(&self) -> usize {
        self.heard.load(Ordering::Relaxed)
    }
}

fn sandbox_for(user: User, port: u16) -> Sandbox {
    let text = json!({
        "filesystem": { "allowWrite": ["."] },
        "network": {
            "allowedDomains": [format!("good.test:{port}"), format!("127.0.0.1:{port}")],
            "hosts": ["127.0.0.1 good.test"] } });
    let sandbox = Sandbox::of(user).policy_json(text.to_string()).trap();
    sandbox.env("GOCACHE", "/tmp/landstrip-no-cache").timeout(Duration::from_secs(300))
}

#[test]
fn programs_that_know_no_proxy_reach_permitted_names_and_no_others() {
    let plain = Server::new(b"");
    let ssh = Server::new(b"SSH-2.0-test\r\n");
    let rsync = Server::new(b"@RSYNCD: 31.0\n");
    // A greeting of version 5.5 that asks for a password as old servers do.
    let mysql = Server::new(
        b"\x4e\0\0\0\x0a5.5.5-test\0\x01\0\0\0abcdefgh\0\xff\xf7\x08\x02\0\x08\0\x15\0\0\0\0\0\0\0\0\0\0\
          abcdefghijkl\0mysql_native_password\0",
    );
    for_each_user(|user| {
        for (name, program, script) in PROGRAMS {
            let server = match *program {
                "ssh" | "git" => &ssh,
                "rsync" => &rsync,
                "mysql" => &mysql,
                _ => &plain,
            };
            let sandbox = sandbox_for(user, server.port);
            if sandbox.sh_outside(&format!("command -v {program}")).status != Some(0) {
                skipped(&format!("{program} is not installed"));
                continue;
            }
            let run = |host: &str| {
                let fill = |text: &str| {
                    let probe = tests::programs().probe().display().to_string();
                    let port = server.port.to_string();
                    text.replace("HOST", host).replace("PORT", &port).replace("PROBE", &probe)
                };
                for (file, text) in [
                    ("by_socket.py", PYTHON),
                    ("by_asyncio.py", ASYNCIO),
                    ("net.js", &NODE.replace("MODULE", "net")),
                    ("tls.js", &NODE.replace("MODULE", "tls")),
                    ("https.js", HTTPS),
                    ("fetch.js", FETCH),
                    ("S.java", JAVA_SOCKET),
                    ("C.java", JAVA_CLIENT),
                ] {
                    sandbox.file(format!("work/{file}"), fill(text));
                }
                if *program == "go" {
                    sandbox.file("work/main.go", GO);
                    let built = sandbox.sh_outside(
                        "GOCACHE=/tmp/landstrip-go-cache GOFLAGS=-mod=mod go build -o go main.go",
                    );
                    built.succeeds();
                }
                sandbox.sh(&fill(script))
            };
            let before = server.heard();
            let outcome = run("bad.test");
            outcome.fails();
            let lookup = json!({ "Network": ["connect", "name lookup of bad.test", "proxy"] });
            assert!(outcome.traps.contains(&lookup), "{name}: {outcome:#?}");
            assert_eq!(server.heard(), before, "{ESCAPED}{name}: {outcome:#?}");
            let outcome = run("good.test");
            assert!(eventually(|| server.heard() > before), "{name}: {outcome:#?}");
            let is_of_network = |trap: &&Value| trap.get("Network").is_some();
            assert_eq!(outcome.traps.iter().find(is_of_network), None, "{name}: {outcome:#?}");
        }
    });
}

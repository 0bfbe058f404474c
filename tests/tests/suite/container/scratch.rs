//! An image that has nothing but the three programs and a static busybox.

use super::bundle::Container;

#[test]
fn the_sandbox_works_in_a_default_container() {
    let Some(container) = Container::scratch("works") else { return };
    let policy = r#"{"filesystem":{"allowWrite":["/work/in"],"denyRead":["/work/secret"]}}"#;
    container.world.file("root/etc/policy.json", policy);
    container.world.dir("work/in");
    container.world.file("work/secret", "Secret");
    container.world.file("work/kept", "kept");
    let landstrip = ["/bin/landstrip", "-p", "/etc/policy.json", "--"];
    let run = |script: &str| container.run(&[&landstrip[..], &["sh", "-c", script]].concat());
    let output = run("echo x > in/made && mkdir in/d && chmod 700 in/d && exit 7");
    assert_eq!(output.status.code(), Some(7), "{output:?}");
    assert!(container.world.path("work/in/made").exists());
    let output = run("echo x > kept; echo x > new; cat secret; chmod 777 kept; exit 9");
    assert_eq!(output.status.code(), Some(9), "{output:?}");
    assert_eq!(std::fs::read_to_string(container.world.path("work/kept")).unwrap(), "kept");
    assert!(!container.world.path("work/new").exists());
    assert!(!String::from_utf8_lossy(&output.stdout).contains("Secret"), "{output:?}");
    let output = run("probe udp 127.0.0.1 9 + connect4 127.0.0.1 9 + unshare 0x10000000");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.lines().count() == 3 && !text.contains("=OK"), "{output:?}");
    let twin = container.run(&["sh", "-c", "echo x > kept && cat secret && probe udp 127.0.0.1 9"]);
    assert!(twin.status.success(), "{twin:?}");
    assert!(String::from_utf8_lossy(&twin.stdout).contains("Secret"));
}

#[test]
fn the_doctor_needs_nothing_but_the_three_programs() {
    let Some(container) = Container::scratch("doctor") else { return };
    let policy = r#"{"filesystem":{"allowWrite":["/work"],"denyRead":["/bin/sh"]}}"#;
    container.world.file("root/etc/policy.json", policy);
    let output = container.run(&["/bin/landstrip", "-p", "/etc/policy.json", "--doctor"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && text.contains("everything holds"), "{output:?}");
    assert!(text.contains("limited  descriptors of the command"), "{output:?}");
}

#[test]
fn unix_sockets_are_judged_in_a_default_container() {
    let Some(container) = Container::scratch("unix") else { return };
    let policy = r#"{"network":{"allowUnixSockets":["/work/good"]}}"#;
    container.world.file("root/etc/policy.json", policy);
    let good = tests::UnixPeer::at(container.world.path("work/good"), "stream");
    let bad = tests::UnixPeer::at(container.world.path("work/bad"), "stream");
    let attack = "probe unix-connect good stream + socketpair dgram; probe unix-connect bad stream";
    let landstrip = ["/bin/landstrip", "-p", "/etc/policy.json", "sh", "-c", attack];
    let output = container.run(&landstrip);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(text, "unix-connect=OK\nsocketpair=OK\nunix-connect=EACCES\n", "{output:?}");
    good.reached();
    assert_eq!(bad.connections(), 0);
}

/// Podman's default profile refuses to read another process's memory, and allows to duplicate its
/// descriptors.
#[test]
fn what_is_in_memory_is_judged_in_a_container_like_podman_s() {
    let Some(container) = Container::scratch("podman") else { return };
    let refused = ["process_vm_readv", "process_vm_writev", "kcmp", "process_madvise"];
    let container = container.profile(&["pidfd_getfd"], &refused);
    let policy = r#"{"filesystem":{"allowWrite":["/work/in"],"denyWrite":["/work/in/kept"]},
        "network":{"allowUnixSockets":["/work/good"]}}"#;
    container.world.file("root/etc/policy.json", policy);
    container.world.dir("work/in");
    container.world.file("work/in/kept", "kept");
    let good = tests::UnixPeer::at(container.world.path("work/good"), "seqpacket");
    let bad = tests::UnixPeer::at(container.world.path("work/bad"), "seqpacket");
    let script = "cd in; echo x > new && chmod 700 new && mkdir d; echo x > kept; chmod 777 kept; \
        probe unix-connect ../good seqpacket + unix-connect ../bad seqpacket; exit 1";
    let output = container.run(&["/bin/landstrip", "-p", "/etc/policy.json", "sh", "-c", script]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(text, "unix-connect=OK\nunix-connect=EACCES\n", "{output:?}");
    good.reached();
    assert_eq!(bad.connections(), 0);
    assert!(container.world.path("work/in/d").is_dir(), "{output:?}");
    assert_eq!(std::fs::read_to_string(container.world.path("work/in/kept")).unwrap(), "kept");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    for report in [r#"["write","/work/in/kept","seccomp"]"#, r#"["connect","/work/bad","seccomp"]"#]
    {
        assert!(errors.contains(report), "{report}: {output:?}");
    }
}

#[test]
fn datagram_sockets_stay_refused_in_a_default_container_which_check_says() {
    let Some(container) = Container::scratch("datagrams") else { return };
    let policy = r#"{"network":{"allowUnixSockets":["/work/good","/work/stream"]}}"#;
    container.world.file("root/etc/policy.json", policy);
    let good = tests::UnixPeer::at(container.world.path("work/good"), "dgram");
    let stream = tests::UnixPeer::at(container.world.path("work/stream"), "stream");
    let attack = "probe unix-sendto good + unix-connect stream stream; exit 1";
    let landstrip = ["/bin/landstrip", "-p", "/etc/policy.json"];
    let output = container.run(&[&landstrip[..], &["sh", "-c", attack]].concat());
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(text, "unix-sendto=EACCES\nunix-connect=OK\n", "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("unix datagram"), "{output:?}");
    let output = container.run(&[&landstrip[..], &["--check"]].concat());
    assert!(String::from_utf8_lossy(&output.stdout).contains("pidfd_getfd"), "{output:?}");
    stream.reached();
    assert_eq!(good.connections(), 0);
    container.run(&["probe", "unix-sendto", "good"]);
    good.reached();
}

#[test]
fn connects_to_the_proxy_port_work_in_a_default_container() {
    let Some(container) = Container::scratch("connect") else { return };
    container.world.file("root/etc/policy.json", r#"{"network":{"httpProxyPort":4000}}"#);
    // Nobody listens: reached means refused by the peer, not by the sandbox.
    let output = container.run(&[
        "/bin/landstrip",
        "-p",
        "/etc/policy.json",
        "probe",
        "connect4",
        "127.0.0.1",
        "4000",
        "+",
        "connect4",
        "127.0.0.1",
        "4001",
    ]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.starts_with("connect4=ECONNREFUSED\n"), "{output:?}");
    assert!(
        text.ends_with("connect4=EACCES\n") || text.ends_with("connect4=EPERM\n"),
        "{output:?}"
    );
}

/// The broker does not make it for a process with a filter of its own.
#[test]
fn a_socket_that_the_broker_did_not_make_is_replaced_in_a_default_container() {
    let Some(container) = Container::scratch("replaced") else { return };
    container.world.file("root/etc/policy.json", r#"{"network":{"httpProxyPort":4000}}"#);
    let attack = "probe seccomp-filter + connect4 127.0.0.1 4000 + connect4 127.0.0.1 4001";
    let landstrip = ["/bin/landstrip", "-p", "/etc/policy.json", "sh", "-c", attack];
    let output = container.run(&landstrip);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(text, "seccomp-filter=OK\nconnect4=ECONNREFUSED\nconnect4=EACCES\n", "{output:?}");
}

#[test]
fn a_socket_is_the_one_that_was_made_in_a_default_container() {
    let Some(container) = Container::scratch("made") else { return };
    let container = container.with_programs_of_this_host();
    container.world.file("root/etc/policy.json", r#"{"network":{"allowLocalBinding":true}}"#);
    container.world.file(
        "work/made.py",
        "import select
from socket import *
s = socket(); s.bind(('127.0.0.1', 0)); s.listen(4); there = s.getsockname()
c = socket(); c.setsockopt(IPPROTO_TCP, TCP_NODELAY, 1); c.setsockopt(SOL_SOCKET, SO_KEEPALIVE, 1)
e = select.epoll(); e.register(c, select.EPOLLOUT); d = c.dup(); c.setblocking(False)
print(c.connect_ex(there) in (0, 115), [what for _, what in e.poll()] == [select.EPOLLOUT])
p, address = s.accept(); print(c.connect_ex(there) in (0, 106), address == c.getsockname())
print(c.getsockopt(IPPROTO_TCP, TCP_NODELAY), c.getsockopt(SOL_SOCKET, SO_KEEPALIVE))
d.send(b'x'); print(p.recv(9)); c.close(); d.close(); print(p.recv(9))
",
    );
    let expected = "True True\nTrue True\n1 1\nb'x'\nb''\n";
    let python = ["/usr/bin/python3", "made.py"];
    for before in [&["/bin/landstrip", "-p", "/etc/policy.json"][..], &[]] {
        let output = container.run(&[before, &python].concat());
        assert_eq!(String::from_utf8_lossy(&output.stdout), expected, "{output:?}");
    }
}

#[test]
fn idle_sockets_leave_the_broker_descriptors_in_a_default_container() {
    let Some(container) = Container::scratch("idle") else { return };
    let container = container.with_programs_of_this_host().descriptors(256);
    let policy = r#"{"filesystem":{"allowWrite":["/work/in"],"denyWrite":["/work/in/kept"]},
        "network":{"allowLocalBinding":true}}"#;
    container.world.file("root/etc/policy.json", policy);
    container.world.dir("work/in");
    container.world.file(
        "work/idle.py",
        "import os, socket, time
r, w = os.pipe(); held = [socket.socket() for _ in range(150)]
if os.fork() == 0:
    for s in held: s.close()
    held = [socket.socket() for _ in range(150)]; os.write(w, b'x'); time.sleep(99)
os.read(r, 1); open('in/new', 'w').write('x'); os.chmod('in/new', 0o700); os.mkdir('in/d')
s = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen(); print('done', flush=True); os._exit(0)
",
    );
    let python = ["/usr/bin/python3", "idle.py"];
    let landstrip = ["/bin/landstrip", "-p", "/etc/policy.json"];
    let output = container.run(&[&landstrip[..], &python].concat());
    assert_eq!(String::from_utf8_lossy(&output.stdout), "done\n", "{output:?}");
}

#[test]
fn servers_are_bound_and_reached_in_a_default_container() {
    let Some(container) = Container::scratch("serve") else { return };
    container.world.file("root/etc/policy.json", r#"{"network":{"allowLocalBinding":true}}"#);
    container.world.file("work/page", "served");
    container.applets(&["httpd", "wget", "netstat", "grep", "seq"]);
    // Inside: a server that binds all addresses, a client, and another server of this host. This client does not know
    // NO_PROXY.
    let fetch = "for i in $(seq 99); do wget -Y off -q -O - http://127.0.0.1:$P/page && break; \
                 sleep 0.1; done 2>/dev/null";
    let inside = format!(
        "httpd -f -p 8080 & P=8080; {fetch}; wget -Y off -O - http://127.0.0.1:8081/page 2>&1 | \
         grep -o -i 'permission denied'; while [ ! -e stop ]; do sleep 0.1; done"
    );
    container.world.file("work/inside", inside);
    let script = format!(
        "httpd -f -p 127.0.0.1:8081 & P=8081; {fetch}; \
         /bin/landstrip -p /etc/policy.json sh inside & P=8080; {fetch}; \
         netstat -ltn | grep -o '[0-9a-f:.]*:808[01] '; touch stop; wait %2"
    );
    let output = container.run(&["sh", "-c", &script]);
    let mut lines: Vec<String> =
        String::from_utf8_lossy(&output.stdout).lines().map(|l| l.trim().to_owned()).collect();
    lines.sort();
    // The page comes three times without an end of line. A server for both families keeps its address, on
    // the loopback interface; one for IPv4 gets a loopback address: the suite `local` sees that nobody
    // else reaches them.
    let text = lines.join("\n");
    assert_eq!(text.matches("served").count(), 3, "{output:?}");
    assert_eq!(text.to_lowercase().matches("permission denied").count(), 1, "{output:?}");
    assert!(text.contains("127.0.0.1:8080") || text.contains(":::8080"), "{output:?}");
    assert!(!text.contains("0.0.0.0:8080"), "{output:?}");
}

#[test]
fn ports_are_the_sandbox_s_own_and_free_again_in_a_default_container() {
    let Some(container) = Container::scratch("ports") else { return };
    container.world.file("root/etc/policy.json", r#"{"network":{"allowLocalBinding":true}}"#);
    let attack = "probe own-server 127.0.0.1 4000 + own-server 0.0.0.0 4003 \
                  + own-server 127.0.0.1 0 + listen-unbound + bind4 192.0.2.1 0 \
                  + bind6 ::1 4000 + bind6 :: 4001 + bind4 127.0.0.1 4002 + netlink-bind; \
                  probe bind4 127.0.0.1 4002 + netlink-bind";
    let landstrip = ["/bin/landstrip", "-p", "/etc/policy.json", "sh", "-c", attack];
    let output = container.run(&landstrip);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let own = "own-server=OK\nown-server-closed=ECONNREFUSED\n";
    let expected = format!(
        "{}listen-unbound=OK\nbind4=EACCES\nbind6=OK\nbind6=OK\n{}",
        own.repeat(3),
        "bind4=OK\nnetlink-bind=OK\n".repeat(2)
    );
    assert_eq!(text, expected, "{output:?}");
    // Without the permission none of it works, and it is said why.
    container.world.file("root/etc/policy.json", "{}");
    let output = container.run(&landstrip);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(!text.replace("netlink-bind=OK", "").contains("=OK"), "{output:?}");
    let twin = container.run(&["sh", "-c", attack]);
    assert!(twin.status.success(), "{twin:?}");
}

#[test]
fn unix_sockets_are_bound_in_a_default_container() {
    let Some(container) = Container::scratch("bind") else { return };
    let policy = r#"{"filesystem":{"allowWrite":["/work/run"]},
        "network":{"allowUnixSockets":["/work/run","/work/other"]}}"#;
    container.world.file("root/etc/policy.json", policy);
    container.world.dir("work/run");
    container.world.dir("work/other");
    let attack = "umask 027; probe unix-bind run/a stream + unix-connect run/a stream \
                  + unix-bind other/a stream + unix-bind b stream + unix-bind run/c seqpacket \
                  + unix-connect run/c seqpacket + unix-bind other/c seqpacket; exit 1";
    let output = container.run(&["/bin/landstrip", "-p", "/etc/policy.json", "sh", "-c", attack]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let expected = "unix-bind=OK\nunix-connect=OK\nunix-bind=EACCES\nunix-bind=EACCES\n\
                    unix-bind=OK\nunix-connect=OK\nunix-bind=EACCES\n";
    assert_eq!(text, expected, "{output:?}");
    use std::os::unix::fs::PermissionsExt;
    let mode = container.world.path("work/run/a").metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o750, "the umask of the command");
    assert!(!container.world.path("work/other/a").exists());
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    for path in ["/work/other/a", "/work/b", "/work/other/c"] {
        assert!(errors.contains(path), "{path} is not reported: {output:?}");
    }
}

#[test]
fn node_and_python_serve_in_a_default_container() {
    let Some(container) = Container::scratch("tools") else { return };
    let container = container.with_programs_of_this_host();
    let policy = r#"{"filesystem":{"allowWrite":["/work/in","/dev/shm"]},
        "network":{"allowLocalBinding":true,"allowUnixSockets":["/work/in"]}}"#;
    container.world.dir("work/in");
    container.world.file("root/etc/policy.json", policy);
    container.world.file("root/etc/hosts", "127.0.0.1 localhost\n");
    container.world.file(
        "work/in/net.js",
        "const net = require('net');
let left = 3;
const say = d => { console.log(String(d)); if (--left == 0) process.exit(); };
const s = net.createServer(c => c.end('served')).listen(0, () => {
  for (const to of [{ port: s.address().port }, { port: s.address().port, host: '127.0.0.1' }])
    net.connect(to).on('data', say).on('error', e => say(e.code));
  const u = net.createServer(c => c.end('by path')).listen('socket', () =>
    net.connect('socket').on('data', say).on('error', e => say(e.code)));
});",
    );
    container.world.file(
        "work/in/cluster.js",
        "const cluster = require('cluster'), http = require('http');
if (cluster.isPrimary) {
  for (let i = 0; i < 2; i++) cluster.fork();
  let n = 0;
  cluster.on('listening', (w, a) => { if (++n < 2) return;
    let m = 0;
    for (let i = 0; i < 4; i++) http.get({ port: a.port, host: '127.0.0.1', agent: false }, r => {
      r.on('data', d => console.log(String(d))); r.on('end', () => { if (++m == 4) process.exit(); }); })
      .on('error', e => { console.log(e.code); process.exit(1); });
  });
} else http.createServer((q, r) => r.end('served')).listen(0);",
    );
    container.world.file(
        "work/in/m.py",
        "import asyncio, multiprocessing as m, os, socketserver, tempfile, threading, urllib.request
from http.server import HTTPServer, SimpleHTTPRequestHandler as Handler
tempfile.tempdir = '/work/in'
def square(x): return x * x
async def echo():
    async def serve(reader, writer): writer.write(await reader.read(9)); writer.close()
    server = await asyncio.start_server(serve, port=0)
    for s in server.sockets[:1]:
        reader, writer = await asyncio.open_connection(*s.getsockname()[:2])
        writer.write(b'async'); writer.write_eof(); print(await reader.read())
if __name__ == '__main__':
    for how in ('fork', 'spawn'):
        with m.get_context(how).Pool(2) as pool: print(sum(pool.map(square, range(10))))
    with m.Manager() as manager: d = manager.dict(); d['x'] = 1; print(d.copy())
    Handler.log_message = lambda *_: None
    for again in range(3):
        server = HTTPServer(('', 8000), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        print(len(urllib.request.urlopen('http://127.0.0.1:8000/net.js').read()) > 100)
        server.shutdown(); server.server_close()
    asyncio.run(echo())
",
    );
    let script =
        "cd in; /usr/bin/node net.js | sort; /usr/bin/node cluster.js; /usr/bin/python3 m.py";
    let expected = format!(
        "by path\nserved\nserved\n{}285\n285\n{{'x': 1}}\nTrue\nTrue\nTrue\nb'async'\n",
        "served\n".repeat(4)
    );
    container.applets(&["sort"]);
    let landstrip = ["/bin/landstrip", "-p", "/etc/policy.json", "sh", "-c", script];
    let output = container.run(&landstrip);
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected, "{output:?}");
}

/// Nothing of the C library's name service is in there: only the two files that Docker writes.
#[test]
fn names_are_resolved_in_a_scratch_container() {
    let Some(container) = Container::scratch("names") else { return };
    let policy = r#"{"network":{"allowedDomains":["*.test","127.0.0.1:4000","10.0.0.9"]}}"#;
    container.world.file("root/etc/policy.json", policy);
    // No name server: what it does not answer is no longer waited for after a second.
    container
        .world
        .file("root/etc/resolv.conf", "nameserver 127.0.0.1\noptions timeout:1 attempts:1\n");
    container.world.file("root/etc/hosts", "127.0.0.1 here.test\n10.0.0.8 inside.test\n");
    let connect = |host: &str| {
        let request = format!(
            "raw http {}",
            tests::raw::encode(tests::raw::connect(&format!("{host}:4000")))
        );
        let mut words = vec!["/bin/landstrip", "-p", "/etc/policy.json", "probe"];
        words.extend(request.split(' '));
        let output = container.run(&words);
        (String::from_utf8_lossy(&output.stdout).into_owned(), output)
    };
    for (host, status, reason) in [
        // Found in the file and dialled, where nobody listens.
        ("here.test", 502, "Connection refused"),
        // Found in the file, and judged.
        ("inside.test", 403, "10.0.0.8, which is refused"),
        // Asked for, in vain.
        ("elsewhere.test", 502, "no name server answered"),
        ("here.other", 403, "network.allowedDomains"),
    ] {
        let (text, output) = connect(host);
        assert!(text.starts_with(&format!("raw=HTTP/1.1 {status} ")), "{host}: {output:?}");
        assert!(text.contains(reason), "{host}: {output:?}");
    }
}

/// As the documents tell to use it there.
#[test]
fn the_restricted_profile_of_kubernetes_is_enough() {
    let Some(container) = Container::scratch("restricted") else { return };
    let container = container.restricted();
    let harnesses = crate::documents::document("docs/harnesses.md");
    let command = harnesses.lines().find_map(|line| line.trim().strip_prefix("command: ["));
    let command: Vec<String> = serde_json::from_str(&format!("[{}", command.unwrap())).unwrap();
    assert_eq!(command[0], "/usr/bin/landstrip");
    // The home is /work in these containers.
    container.world.dir("work/project");
    let mut words = vec!["sh", "-c", "cd project && exec \"$@\"", "sh", "/bin/landstrip"];
    words.extend(command[1..].iter().map(String::as_str));
    words.extend(["sh", "-c", "echo built > built; echo x > ../elsewhere"]);
    let output = container.run(&words);
    let made = ["project/built", "elsewhere"].map(|name| container.world.path("work").join(name));
    assert_eq!(made.map(|path| path.exists()), [true, false], "{output:?}");
    let plain = container.run(&["sh", "-c", "cat /proc/self/status; echo x > elsewhere"]);
    let status = String::from_utf8_lossy(&plain.stdout).into_owned();
    assert!(plain.status.success() && status.contains("NoNewPrivs:\t1"), "{plain:?}");
    assert!(status.contains("CapBnd:\t0000000000000000"), "{status}");
}

/// As the documents tell to use it there.
#[test]
fn the_terminals_of_a_dev_container_are_confined() {
    let Some(container) = Container::scratch("terminals") else { return };
    let harnesses = crate::documents::document("docs/harnesses.md");
    let settings = crate::documents::blocks(&harnesses, "json");
    let settings = settings.iter().find(|block| block.contains("terminal.integrated")).unwrap();
    let settings: serde_json::Value = serde_json::from_str(settings).unwrap();
    let settings = &settings["customizations"]["vscode"]["settings"];
    let name = settings["terminal.integrated.defaultProfile.linux"].as_str().unwrap();
    let profile = &settings["terminal.integrated.profiles.linux"][name];
    assert_eq!(profile["path"], "/usr/bin/landstrip");
    let words: Vec<String> = serde_json::from_value(profile["args"].clone()).unwrap();
    assert_eq!(words.last().unwrap(), "bash");
    // The home is /work in these containers, whose shell has another name.
    container.world.dir("work/project");
    container.world.dir("work/project/.devcontainer");
    let mut command = vec!["sh", "-c", "cd project && exec \"$@\"", "sh", "/bin/landstrip"];
    command.extend(words[..words.len() - 1].iter().map(String::as_str));
    let script = "echo x > made; echo x > ../elsewhere; echo x > .devcontainer/devcontainer.json";
    command.extend(["sh", "-c", script]);
    let output = container.run(&command);
    let names = ["project/made", "elsewhere", "project/.devcontainer/devcontainer.json"];
    let made = names.map(|name| container.world.path("work").join(name).exists());
    assert_eq!(made, [true, false, false], "{output:?}");
}

//! Unix sockets: refused by path and by name unless allowed (attacks U1 and U2).

use tests::{Sandbox, UnixPeer, eventually, for_each_user};

const KINDS: [&str; 2] = ["stream", "seqpacket"];

#[test]
fn pathname_sockets_are_not_reached_by_any_route() {
    for_each_user(|user| {
        for kind in KINDS {
            let sandbox = Sandbox::of(user).allow_write(".");
            let path = sandbox.path("outside/socket");
            let peer = UnixPeer::at(&path, kind);
            std::os::unix::fs::symlink(&path, sandbox.path("work/link")).unwrap();
            let (path, outside) = (sandbox.name("outside/socket"), sandbox.name("outside"));
            let attacks = [
                format!("unix-connect {path} {kind}"),
                format!("unix-connect link {kind}"),
                format!("unix-connect ../outside/socket {kind}"),
                format!("unix-connect /proc/self/root{path} {kind}"),
                format!("unix-connect /proc/self/cwd/../outside/socket {kind}"),
            ];
            for (before, attack) in attacks.iter().enumerate() {
                sandbox.probe(attack).refused("unix-connect");
                assert!(eventually(|| peer.connections() == before), "{attack}");
                sandbox.probe_outside(attack).allowed("unix-connect");
            }
            assert!(eventually(|| peer.connections() == 5));
            let after_chdir = format!("chdir {outside} + unix-connect socket {kind}");
            sandbox.probe(&after_chdir).refused("unix-connect");
            assert!(eventually(|| peer.connections() == 5));
            sandbox.probe_outside(&after_chdir).allowed("unix-connect");
        }
    });
}

#[test]
fn a_socket_inside_a_writable_directory_is_refused_too() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user).allow_write(".");
        let peer = UnixPeer::at(sandbox.path("work/socket"), "stream");
        sandbox.probe("unix-connect socket stream").refused("unix-connect");
        assert_eq!(peer.connections(), 0);
    });
}

#[test]
fn datagram_sockets_are_refused() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user).allow_write(".");
        let peer = UnixPeer::at(sandbox.path("outside/socket"), "dgram");
        let path = sandbox.name("outside/socket");
        let attack = format!("unix-sendto {path} + unix-connect {path} dgram");
        sandbox.probe(&attack).all_refused();
        assert_eq!(peer.connections(), 0);
        sandbox.probe_outside(&attack).all_allowed();
        peer.reached();
    });
}

#[test]
fn binding_a_path_or_a_name_is_refused() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user).allow_write(".");
        sandbox.probe("unix-bind socket stream + unix-autobind").all_refused();
        assert!(!sandbox.path("work/socket").exists());
        sandbox.probe_outside("unix-bind socket stream + unix-autobind").all_allowed();
        assert!(sandbox.path("work/socket").exists());
    });
}

#[test]
fn abstract_names_outside_are_not_reached() {
    for_each_user(|user| {
        for kind in KINDS {
            let name = format!("landstrip-{kind}-{}-{user:?}", std::process::id());
            let nul = format!("{name}\0tail");
            let (peer, strange) = (UnixPeer::named(&name, kind), UnixPeer::named(&nul, kind));
            let sandbox = Sandbox::of(user);
            let attack = format!("unix-abstract {name} {kind} + unix-abstract {name}%0tail {kind}");
            sandbox.probe(&attack).all_refused();
            assert_eq!(peer.connections() + strange.connections(), 0);
            sandbox.probe_outside(&attack).all_allowed();
            peer.reached();
            strange.reached();
        }
    });
}

#[test]
fn unnamed_pairs_work() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user);
        sandbox.probe("socketpair stream + socketpair seqpacket").all_allowed();
    });
}

#[test]
fn allow_network_keeps_unix_sockets_refused() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user).allow_network();
        let peer = UnixPeer::at(sandbox.path("outside/socket"), "stream");
        let path = sandbox.name("outside/socket");
        sandbox.probe(format!("unix-connect {path} stream")).refused("unix-connect");
        assert_eq!(peer.connections(), 0);
    });
}

#[test]
fn a_refused_socket_is_reported_with_its_path() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user).trap();
        let _peer = UnixPeer::at(sandbox.path("outside/socket"), "stream");
        let path = sandbox.name("outside/socket");
        let outcome = sandbox.probe(format!("unix-connect {path} stream"));
        let found = outcome.traps.iter().filter_map(|trap| trap.get("Network"));
        let found = found.into_iter().any(|trap| trap[0] == "connect" && trap[1] == path.as_str());
        assert!(found, "{outcome:#?}");
    });
}

/// A socket that passes credentials gets an abstract name when it connects, whether somebody is there or
/// not.
const AUTOBOUND_SERVER: &str = "
s = socket.socket(socket.AF_UNIX)
s.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
try: s.connect(sys.argv[1])
except OSError: pass
print(type(s.getsockname()).__name__)
try: s.listen(); print('listens')
except OSError as e: print(e.errno)
w = socket.socket(socket.AF_UNIX); w.bind('made'); w.listen(); print('served')";

#[test]
fn a_socket_that_was_given_an_abstract_name_does_not_listen() {
    for_each_user(|user| {
        let base = || {
            let sandbox = Sandbox::of(user).allow_write(".");
            let (stale, made) = (sandbox.path("work/stale"), sandbox.path("work/made"));
            sandbox.allow_unix_socket(stale).allow_unix_socket(made)
        };
        let clean = |sandbox: &Sandbox| {
            for name in ["work/stale", "work/made"] {
                let _ = std::fs::remove_file(sandbox.path(name));
            }
        };
        let import = "import socket, sys";
        // Left by a server that has ended: there at launch, and so in its place by right.
        let leave = "s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen()";
        let leave = ["python3", "-c", &format!("{import}\n{leave}"), "stale"];
        let script = ["python3", "-c", &format!("{import}{AUTOBOUND_SERVER}"), "stale"];
        for sandbox in [
            base(),
            base().allow_network(),
            base().allow_local_binding(),
            Sandbox::of(user).allow_write(".").allow_all_unix_sockets(),
        ] {
            sandbox.run_outside(leave).succeeds();
            let inside = sandbox.run(script);
            assert_eq!(inside.stdout, "bytes\n13\nserved\n", "{inside:#?}");
            clean(&sandbox);
        }
        let native = base();
        native.run_outside(leave).succeeds();
        let outside = native.run_outside(script);
        assert_eq!(outside.stdout, "bytes\nlistens\nserved\n", "{outside:#?}");
    });
}

#[test]
fn servers_listen_where_the_network_is_not_restricted() {
    let script = "
for family, address in (socket.AF_INET, ''), (socket.AF_INET, '127.0.0.1'), (socket.AF_INET6, '::'):
    s = socket.socket(family); s.bind((address, 0)); s.listen()
    c = socket.create_connection(('127.0.0.1' if family == socket.AF_INET else '::1', s.getsockname()[1]))
    s.accept()[0].send(b'reached'); print(c.recv(9))
s = socket.socket(); s.listen(); print(s.getsockname()[1] > 0)";
    let sandbox = Sandbox::new().allow_network();
    let words = ["python3", "-c", &format!("import socket{script}")];
    let (inside, outside) = (sandbox.run(words), sandbox.run_outside(words));
    inside.succeeds();
    assert_eq!(inside.stdout, outside.stdout, "{inside:#?}");
}

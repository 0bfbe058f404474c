//! Network: nothing is reached but what the policy names (attacks N1 to N5 and N10).
//!
//! Every test listens outside and asks the listener what came.

use tests::{FullBacklog, Outcome, Sandbox, TcpPeer, User, for_each_user, free_port};

/// A sandbox whose only permitted destination is the caller's proxy, played by `good`.
pub(crate) fn with_proxy(user: User, good: &TcpPeer) -> Sandbox {
    Sandbox::of(user).http_proxy_port(good.port())
}

#[test]
fn only_the_proxy_port_on_loopback_is_reached() {
    for_each_user(|user| {
        let (good, bad) = (TcpPeer::new(), TcpPeer::new());
        let sandbox = with_proxy(user, &good);
        let attack = format!("connect4 127.0.0.1 {}", bad.port());
        sandbox.probe(&attack).refused("connect4");
        bad.untouched();
        sandbox.probe(format!("connect4 127.0.0.1 {}", good.port())).allowed("connect4");
        good.reached();
        sandbox.probe_outside(&attack).allowed("connect4");
        bad.reached();
    });
}

#[test]
fn nothing_is_reached_without_a_proxy_port() {
    let peer = TcpPeer::new();
    let sandbox = Sandbox::new();
    sandbox.probe(format!("connect4 127.0.0.1 {}", peer.port())).refused("connect4");
    peer.untouched();
}

#[test]
fn socks_proxy_port_is_reached_beside_the_http_one() {
    let (http, socks, other) = (TcpPeer::new(), TcpPeer::new(), TcpPeer::new());
    let sandbox = Sandbox::new().http_proxy_port(http.port()).socks_proxy_port(socks.port());
    sandbox.probe(format!("connect4 127.0.0.1 {}", http.port())).allowed("connect4");
    sandbox.probe(format!("connect4 127.0.0.1 {}", socks.port())).allowed("connect4");
    sandbox.probe(format!("connect4 127.0.0.1 {}", other.port())).refused("connect4");
    http.reached();
    socks.reached();
    other.untouched();
}

#[test]
fn proxy_port_is_reached_from_a_thread_and_without_blocking() {
    let good = TcpPeer::new();
    let sandbox = with_proxy(User::Caller, &good);
    for option in ["", "--thread", "--nonblock", "--nonblock --thread", "--len 28"] {
        let before = good.connections();
        let attack = format!("connect4 127.0.0.1 {} {option}", good.port());
        sandbox.probe_outside(&attack).allowed("connect4");
        sandbox.probe(&attack).allowed("connect4");
        assert!(tests::eventually(|| good.connections() == before + 2), "{option}");
    }
}

#[test]
fn proxy_port_is_reached_by_every_spelling_of_loopback() {
    let port = free_port();
    let (four, six) = (TcpPeer::at("127.0.0.1", port), TcpPeer::at("::1", port));
    let sandbox = Sandbox::new().http_proxy_port(port);
    sandbox.probe(format!("connect-mapped 127.0.0.1 {port}")).allowed("connect-mapped");
    four.reached();
    sandbox.probe(format!("connect6 ::1 {port}")).allowed("connect6");
    six.reached();
}

#[test]
fn other_ports_are_not_reached_by_any_spelling() {
    let port = free_port();
    let (four, six) = (TcpPeer::at("127.0.0.1", port), TcpPeer::at("::1", port));
    let good = TcpPeer::new();
    let sandbox = with_proxy(User::Caller, &good);
    for attack in [
        format!("connect4 127.0.0.1 {port} --nonblock"),
        format!("connect4 127.0.0.1 {port} --thread"),
        format!("connect4 127.0.0.1 {port} --len 128"),
        format!("connect4 0.0.0.0 {port}"),
        format!("connect6 ::1 {port}"),
        format!("connect6 :: {port}"),
        format!("connect6 ::1 {port} --thread --nonblock"),
        format!("connect6 ::1 {port} --len 24"),
        format!("connect6-scoped ::1 {port} 1"),
        format!("connect-mapped 127.0.0.1 {port}"),
        format!("connect-mapped 0.0.0.0 {port}"),
    ] {
        let outcome = sandbox.probe(&attack);
        outcome.all_refused();
        sandbox.probe_outside(&attack).all_allowed();
        assert!(tests::eventually(|| four.connections() + six.connections() > 0), "{attack}");
    }
    let reached = || four.connections() + six.connections();
    assert!(
        tests::eventually(|| reached() == 11),
        "{} times: once a spelling, from outside only",
        reached()
    );
}

#[test]
fn malformed_addresses_reach_nobody_and_break_nothing() {
    let (good, bad) = (TcpPeer::new(), TcpPeer::new());
    let sandbox = with_proxy(User::Caller, &good);
    let port = bad.port();
    for attack in [
        format!("connect4 127.0.0.1 {port} --len 0"),
        format!("connect4 127.0.0.1 {port} --len 1"),
        format!("connect4 127.0.0.1 {port} --len 2"),
        format!("connect4 127.0.0.1 {port} --len 8"),
        format!("connect4 127.0.0.1 {port} --len 15"),
        format!("connect4 127.0.0.1 {port} --len 129"),
        format!("connect4 127.0.0.1 {port} --len 100000"),
        format!("connect-family 1 127.0.0.1 {port}"),
        format!("connect-family 10 127.0.0.1 {port}"),
        format!("connect-family 0 127.0.0.1 {port}"),
        format!("connect-family 65535 127.0.0.1 {port}"),
    ] {
        let outcome = sandbox.probe(format!("{attack} + connect4 127.0.0.1 {}", good.port()));
        let mut results = outcome.results();
        let first = results.next().expect("a result of the attack");
        assert_ne!(first.1, "OK", "{attack}");
        assert_eq!(results.next(), Some(("connect4", "OK")), "{attack}: {outcome:#?}");
    }
    bad.untouched();
}

#[test]
fn dissolving_an_association_reaches_nobody() {
    let bad = TcpPeer::new();
    let sandbox = Sandbox::new();
    let outcome = sandbox.probe(format!("connect-unspec 127.0.0.1 {}", bad.port()));
    assert_ne!(outcome.result("connect-unspec-write"), "OK");
    bad.untouched();
}

#[test]
fn fast_open_reaches_nobody() {
    for_each_user(|user| {
        let (good, bad) = (TcpPeer::new(), TcpPeer::new());
        let sandbox = with_proxy(user, &good);
        let attack = |port: u16| {
            format!(
                "fastopen sendto 127.0.0.1 {port} + fastopen sendmsg 127.0.0.1 {port} \
                 + fastopen sendmmsg 127.0.0.1 {port} + fastopen-connect 127.0.0.1 {port}"
            )
        };
        sandbox.probe(attack(bad.port())).all_refused();
        bad.untouched();
        sandbox.probe_outside(attack(bad.port())).all_allowed();
        bad.reached();
    });
}

#[test]
fn only_known_families_give_a_socket() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user);
        let outcome = sandbox.probe("socket-sweep");
        assert_eq!(outcome.result("tried"), "4277");
        for (name, _) in outcome.results().filter(|(name, _)| name.starts_with("socket-")) {
            let words: Vec<u32> = name.split('-').skip(1).map(|w| w.parse().unwrap()).collect();
            let (family, kind, protocol) = (words[0], words[1], words[2]);
            let known = match family {
                // Unix streams and seqpackets; of the others SOCK_STREAM with TCP, SOCK_DGRAM with UDP; route netlink.
                // For Unix sockets SOCK_RAW is SOCK_DGRAM.
                1 => [1, 5].contains(&kind) && [0, 1].contains(&protocol),
                2 | 10 => {
                    kind == 1 && [0, 6].contains(&protocol)
                        || kind == 2 && [0, 17].contains(&protocol)
                }
                16 => [2, 3].contains(&kind) && protocol == 0,
                _ => false,
            };
            assert!(known, "socket({family}, {kind}, {protocol}) was given to {user:?}");
        }
        for name in ["socket-1-1-0", "socket-2-1-0", "socket-2-1-6", "socket-10-1-0"] {
            outcome.allowed(name);
        }
        let outside = sandbox.probe_outside("socket-sweep");
        outside.allowed("socket-2-2-17");
        assert!(outside.results().count() > outcome.results().count());
    });
}

/// Where the broker cannot get at descriptors, as in a default container, it is the kernel that refuses.
#[track_caller]
fn refused_or_mute(outcome: &Outcome, name: &str) {
    if outcome.result(name) != "EPIPE" {
        outcome.refused(name);
    }
}

#[test]
fn upper_type_bits_do_not_hide_a_datagram_socket() {
    let sandbox = Sandbox::new();
    // The kernel takes the low 32 bits of each argument.
    sandbox.probe("socket 1 0x100000002 0 + socket 0x100000001 2 0").refused("socket");
    let receiver = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    receiver.set_nonblocking(true).unwrap();
    let there = receiver.local_addr().unwrap().port();
    let attack = format!("udp-upper 127.0.0.1 {there}");
    refused_or_mute(&sandbox.probe(&attack), "udp-upper");
    assert!(receiver.recv(&mut [0; 9]).is_err());
    sandbox.probe_outside(&attack).allowed("udp-upper");
    assert_eq!(receiver.recv(&mut [0; 9]).unwrap(), 7);
    sandbox.probe("socket 2 1 0x100000106").refused("socket");
    sandbox.probe("socket 2 2 0x100000088").refused("socket");
    sandbox.probe("socket 2 1 0x100000006 + socket 0x100000002 1 0").allowed("socket");
}

#[test]
fn multipath_tcp_reaches_nobody() {
    let bad = TcpPeer::new();
    let sandbox = Sandbox::new();
    let attack = format!("connect-protocol 262 127.0.0.1 {}", bad.port());
    sandbox.probe(&attack).refused("connect-protocol");
    bad.untouched();
    sandbox
        .probe(format!("connect-protocol 6 127.0.0.1 {}", bad.port()))
        .refused("connect-protocol");
    bad.untouched();
}

#[test]
fn datagrams_do_not_leave() {
    let receiver = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    receiver.set_read_timeout(Some(std::time::Duration::from_millis(200))).unwrap();
    let attack = format!("udp 127.0.0.1 {}", receiver.local_addr().unwrap().port());
    let sandbox = Sandbox::new();
    refused_or_mute(&sandbox.probe(&attack), "udp");
    let mut buffer = [0; 16];
    assert!(receiver.recv(&mut buffer).is_err(), "a datagram left the sandbox");
    sandbox.probe_outside(&attack).allowed("udp");
    assert_eq!(receiver.recv(&mut buffer).unwrap(), 7);
}

#[test]
fn nothing_listens_with_or_without_a_bind() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user);
        let attack = "listen-unbound + bind4 127.0.0.1 0 + bind4 0.0.0.0 0 + bind6 ::1 0 \
                      + bind6 :: 0 + bind6 ::ffff:127.0.0.1 0";
        sandbox.probe(attack).all_refused();
        sandbox.probe_outside(attack).all_allowed();
    });
}

#[test]
fn a_chosen_port_is_not_bound() {
    let port = free_port();
    let sandbox = Sandbox::new();
    sandbox.probe(format!("bind4 127.0.0.1 {port}")).refused("bind4");
    sandbox.probe_outside(format!("bind4 127.0.0.1 {port}")).allowed("bind4");
}

#[test]
fn netlink_serves_route_queries_only() {
    let sandbox = Sandbox::new();
    sandbox.probe("netlink 0").allowed("netlink");
    // Connector, audit, netfilter, kobject uevents, generic.
    for protocol in [4, 9, 11, 12, 15, 16] {
        sandbox.probe(format!("netlink {protocol}")).refused("netlink");
    }
    sandbox.probe_outside("netlink 15").allowed("netlink");
}

#[test]
fn allow_network_lifts_the_restriction_and_keeps_the_files() {
    for_each_user(|user| {
        let peer = TcpPeer::new();
        let sandbox = Sandbox::of(user).allow_network();
        let attack = format!(
            "connect4 127.0.0.1 {} + socket 2 2 0 + bind4 127.0.0.1 0 + listen-unbound",
            peer.port()
        );
        sandbox.probe(&attack).all_allowed();
        peer.reached();
        let file = sandbox.file("outside/file", "kept");
        sandbox.run(["sh", "-c", &format!("echo x > {}", file.display())]).fails();
        assert_eq!(sandbox.read("outside/file"), "kept");
    });
}

#[test]
fn a_stalled_connect_delays_no_other_call() {
    let slow = FullBacklog::new();
    let other = free_port();
    let sandbox = Sandbox::new().http_proxy_port(slow.port());
    let attack = format!("stalled-connect 127.0.0.1 {} {other}", slow.port());
    let slowest: u64 = sandbox.probe(&attack).result("slowest-ms").parse().unwrap();
    assert!(slowest < 500, "a call took {slowest} ms beside a stalled connect");
}

#[test]
fn a_stalled_connect_ends_with_the_sandbox() {
    let slow = FullBacklog::new();
    let sandbox = Sandbox::new().http_proxy_port(slow.port());
    let words = format!("{} connect4 127.0.0.1 {} & sleep 0.3", "\"$0\"", slow.port());
    let probe = tests::programs().probe().into_os_string().into_string().unwrap();
    sandbox.run(["sh", "-c", &words, &probe]).succeeds();
}

#[test]
fn a_refused_connect_is_reported_with_its_address() {
    for_each_user(|user| {
        let bad = TcpPeer::new();
        let sandbox = Sandbox::of(user).trap();
        let outcome = sandbox.probe(format!("connect4 127.0.0.1 {}", bad.port()));
        let wanted = format!("127.0.0.1:{}", bad.port());
        let found =
            outcome.traps.iter().filter_map(|trap| trap.get("Network")).any(|trap| {
                trap[0] == "connect" && trap[1] == wanted.as_str() && trap[2] == "seccomp"
            });
        assert!(found, "{wanted} not reported: {outcome:#?}");
    });
}

#[test]
fn options_that_tune_a_connection_can_be_set_and_no_others() {
    for_each_user(|user| {
        let peer = TcpPeer::new();
        let sandbox = Sandbox::of(user).http_proxy_port(peer.port());
        let script = format!(
            r#"
import errno, socket, struct
s = socket.create_connection(("127.0.0.1", {port}))
def set(*what):
    try: s.setsockopt(*what); return "OK"
    except OSError as error: return errno.errorcode[error.errno]
on = 1
for level, name in (1, 2), (1, 9), (1, 7), (1, 8), (1, 12), (1, 15), (6, 1), (6, 4), (6, 12), (6, 18), (6, 25), (0, 1), (0, 10), (0, 11):
    print("free", level, name, set(level, name, on))
print("free linger", set(1, 13, struct.pack("ii", 1, 2)), set(1, 20, struct.pack("ll", 9, 0)), set(6, 13, b"reno"))
# Protocols in the kernel, programs on sockets, interfaces, marks, source routes, unknown.
print("ulp", set(6, 31, b"tls"))
print("filter", set(1, 26, struct.pack("HP", 1, 0)))
print("device", set(1, 25, b"lo"), set(1, 62, 1))
print("options", set(0, 4, b"\x44\x04\x05\x00"))
print("unknown", set(1, 200, on), set(6, 200, on), set(282, 1, on))
"#,
            port = peer.port()
        );
        let inside = sandbox.run(["python3", "-c", &script]);
        let outside = sandbox.run_outside(["python3", "-c", &script]);
        inside.succeeds();
        for (inside, outside) in inside.stdout.lines().zip(outside.stdout.lines()) {
            match inside.starts_with("free") {
                true => assert!(inside == outside && inside.ends_with("OK"), "{inside} {outside}"),
                false => {
                    let answers: Vec<_> = inside.split(' ').skip(1).collect();
                    assert!(answers.iter().all(|&answer| answer == "ENOPROTOOPT"), "{inside}");
                }
            }
        }
        assert_eq!(inside.stdout.lines().count(), 20);
        let outcome =
            |name: &str| outside.stdout.lines().find(|line| line.starts_with(name)).unwrap();
        assert_eq!(outcome("options"), "options OK");
        assert_ne!(outcome("ulp"), "ulp ENOPROTOOPT");
    });
}

//! Races for a socket of UDP.

use super::patience;
use crate::udp::received;
use std::net::UdpSocket;
use std::time::Duration;
use tests::{Sandbox, for_each_user, race_tries};

#[test]
fn connecting_a_mute_socket_while_others_send_on_it_sends_nothing() {
    for_each_user(|user| {
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        receiver.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        let port = receiver.local_addr().unwrap().port();
        let sandbox = Sandbox::of(user).timeout(patience());
        let outcome = sandbox.probe(format!("race-udp {port} {}", race_tries(100_000)));
        assert_eq!(outcome.succeeds().result("sent"), "0");
        assert_eq!(received(&receiver), 0);
        let outside = sandbox.probe_outside(format!("race-udp {port} 1000"));
        assert_ne!(outside.result("sent"), "0");
        assert!(received(&receiver) > 0);
    });
}

#[test]
fn an_own_socket_sends_nowhere_else_while_address_and_descriptor_change() {
    for_each_user(|user| {
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        receiver.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        let port = receiver.local_addr().unwrap().port();
        let limit = patience() + Duration::from_secs(60);
        let sandbox = Sandbox::of(user).allow_local_binding().timeout(limit);
        let outcome = sandbox.probe(format!("race-own-udp {port} {}", race_tries(100_000)));
        assert_ne!(outcome.succeeds().result("came"), "0", "{outcome:#?}");
        assert_eq!(received(&receiver), 0);
        sandbox.probe_outside(format!("race-own-udp {port} 1000"));
        assert!(received(&receiver) > 0);
    });
}

/// Connected elsewhere it would leave its address, where others of the command's own send.
#[test]
fn a_socket_that_becomes_an_own_one_while_it_is_connected_elsewhere_stays_where_it_is() {
    for_each_user(|user| {
        let script = "
import socket, threading
first = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM); first.bind(('::1', 0))
start = threading.Barrier(2); tries = TRIES
def connects():
    for _ in range(tries):
        start.wait()
        try: s.connect(('::ffff:192.0.2.1', 53))
        except OSError: pass
        start.wait()
threading.Thread(target=connects, daemon=True).start()
own = moved = 0
for _ in range(tries):
    s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM); start.wait()
    try: s.bind(('::', 0)); bound = True
    except OSError: bound = False
    start.wait(); own += bound; moved += bound and s.getsockname()[0] != '::'; s.close()
print(own > 0, moved)";
        let script = script.replace("TRIES", &race_tries(5_000).to_string());
        let sandbox = Sandbox::of(user).allow_local_binding().timeout(patience());
        let outcome = sandbox.run(["python3", "-c", &script]);
        assert_eq!(outcome.succeeds().stdout, "True 0\n", "{outcome:#?}");
    });
}

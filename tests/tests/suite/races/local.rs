//! Races for the ports of the sandbox's own servers (attack N5).

use super::patience;
use crate::local::reusing;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;
use tests::{Sandbox, User, for_each_user, free_port, race_tries};

#[test]
fn taking_the_port_during_connects_never_brings_one() {
    for_each_user(taking_the_port_never_brings_one_to);
}

fn taking_the_port_never_brings_one_to(user: User) {
    let port = free_port();
    let sandbox = Sandbox::of(user).allow_local_binding().timeout(patience());
    let attack = format!("race-own-port {port} {}", race_tries(50_000));
    let address: SocketAddr = format!("127.0.0.1:{port}").parse().unwrap();
    // Who has taken it sees whoever comes.
    let listener = reusing(&address).expect("a port that nobody has");
    let stranger = TcpStream::connect(address).unwrap();
    let accepted = listener.accept().unwrap();
    // The other way about, the port would rest for a minute.
    drop(stranger);
    drop((accepted, listener));
    let mut running = sandbox.spawn(Sandbox::probe_words(&attack));
    let (mut taken, mut came) = (0, 0);
    while running.is_running() && !running.stdout().contains("after-race") {
        if let Some(listener) = reusing(&address) {
            taken += 1;
            listener.set_nonblocking(true).unwrap();
            std::thread::sleep(Duration::from_micros(100));
            while listener.accept().is_ok() {
                came += 1;
            }
            drop(listener);
            std::thread::sleep(Duration::from_micros(400));
        }
    }
    running.expect("end");
    let outcome = running.wait();
    println!("taken {taken} times: {}", outcome.stdout);
    assert_eq!(came, 0, "the listener outside was reached: {outcome:#?}");
    outcome.allowed("after");
}

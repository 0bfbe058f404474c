//! Races for the address of a Unix datagram (attacks N5 and U1).

use super::patience;
use crate::datagrams::world;
use tests::{User, for_each_user, race_tries};

#[test]
fn rewriting_the_address_or_the_descriptor_during_a_send_reaches_nobody() {
    for_each_user(rewriting_reaches_nobody);
}

fn rewriting_reaches_nobody(user: User) {
    let usual = 12_500;
    let tries = race_tries(4 * usual) / 4;
    for how in ["sendto", "sendmsg", "sendmmsg", "fd"] {
        let (sandbox, good, bad) = world(user);
        let sandbox = sandbox.timeout(patience());
        let (one, two) = (sandbox.name("outside/good"), sandbox.name("outside/bad"));
        // Of few tries none may meet the other address: as many times as the usual number holds.
        let is_raced = (0..usual.div_ceil(tries)).any(|_| {
            let outcome = sandbox.probe(format!("race-unix-send {how} {one} {two} {tries}"));
            assert_ne!(outcome.succeeds().result("succeeded"), "0", "{how}");
            !outcome.traps.is_empty()
        });
        assert!(is_raced, "{how}: the address was never another");
        assert_eq!(bad.connections(), 0, "{how}");
        good.reached();
        sandbox.probe_outside(format!("unix-sendto {two}")).all_allowed();
        bad.reached();
    }
}

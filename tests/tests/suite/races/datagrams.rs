//! Races for the address of a Unix datagram (attacks N5 and U1).

use super::patience;
use crate::datagrams::world;
use tests::{User, for_each_user, race_tries};

#[test]
fn rewriting_the_address_or_the_descriptor_during_a_send_reaches_nobody() {
    for_each_user(rewriting_reaches_nobody);
}

fn rewriting_reaches_nobody(user: User) {
    let tries = race_tries(50_000) / 4;
    for how in ["sendto", "sendmsg", "sendmmsg", "fd"] {
        let (sandbox, good, bad) = world(user);
        let sandbox = sandbox.timeout(patience());
        let (one, two) = (sandbox.name("outside/good"), sandbox.name("outside/bad"));
        let outcome = sandbox.probe(format!("race-unix-send {how} {one} {two} {tries}"));
        outcome.succeeds().allowed("allowed");
        assert_eq!(outcome.result("denied"), "failed", "{how}: {outcome:#?}");
        assert!(!outcome.traps.is_empty(), "{how}: {outcome:#?}");
        assert_eq!(bad.connections(), 0, "{how}");
        good.reached();
        sandbox.probe_outside(format!("unix-sendto {two}")).all_allowed();
        bad.reached();
    }
}

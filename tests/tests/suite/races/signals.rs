//! Races for the id of a process: that of one that has ended is soon another's.

use super::patience;
use tests::{Sandbox, eventually, race_tries};

#[test]
fn an_id_that_was_given_away_is_not_signalled() {
    let sandbox = Sandbox::new().timeout(patience());
    let attack = format!("kill-reused {}", race_tries(100_000));
    let mut attacker = sandbox.spawn(Sandbox::probe_words(&attack));
    let mut is_over = false;
    while !is_over {
        is_over = !attacker.is_running();
        let others = sandbox.probe_outside("churn 300");
        assert_eq!(others.result("killed"), "0", "{others:#?}");
        assert_ne!(others.result("made"), "0", "{others:#?}");
    }
    attacker.wait().succeeds().allowed("kill-reused");
    // The witness sees what is done to those inside, to all of whom this is sent again and again.
    let probe = tests::programs().probe().into_os_string().into_string().expect("text");
    let inside = "while :; do kill -WINCH 0; done & \"$0\" churn 1000; kill $!";
    assert!(eventually(|| {
        let twin = sandbox.run(["sh", "-c", inside, &probe]);
        twin.result("killed") != "0"
    }));
}

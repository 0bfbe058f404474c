//! Agents that keep keys and hide their memory: started inside, they sign inside (ssh-agent, gpg-agent).

use tests::{Outcome, Sandbox, User, for_each_user};

/// A repository in `work` with a change to commit, where the sockets of agents may be.
fn changed(user: User) -> Sandbox {
    let sandbox = Sandbox::of(user).allow_write(".").allow_unix_socket(".");
    let sandbox = sandbox.timeout(std::time::Duration::from_secs(120));
    let made = sandbox.sh_outside(
        "git init -q -b main . && git config user.name n && git config user.email e@example.org \
         && echo change > file && git add file",
    );
    made.succeeds();
    sandbox
}

#[track_caller]
fn signs(user: User, script: &str) -> Outcome {
    let (one, two) = (changed(user), changed(user));
    let outcome = tests::same(&one, &two, script);
    assert!(outcome.stdout.contains("signed: G"), "{outcome:#?}");
    assert!(outcome.reports.is_empty(), "{outcome:#?}");
    outcome
}

#[test]
fn git_signs_with_a_key_in_an_ssh_agent() {
    for_each_user(|user| {
        signs(
            user,
            "set -e; ssh-keygen -q -t ed25519 -N '' -f key; eval $(ssh-agent -a $PWD/agent) >/dev/null; \
             trap 'kill $SSH_AGENT_PID' EXIT; ssh-add -q key; rm key; \
             echo \"e@example.org $(cat key.pub)\" > signers; git config gpg.format ssh; \
             git config user.signingkey \"$(cat key.pub)\"; git config gpg.ssh.allowedSignersFile signers; \
             git commit -q -S -m signed; git log -1 --format='signed: %G?'",
        );
    });
}

#[test]
fn git_signs_with_a_key_in_a_gpg_agent() {
    for_each_user(|user| {
        // Short: its sockets stand in it.
        signs(
            user,
            "set -e; export GNUPGHOME=$PWD/g; mkdir -m 700 g; trap 'gpgconf --kill all' EXIT; \
             gpg -q --batch --passphrase '' --quick-gen-key 'n <e@example.org>' ed25519 sign never 2>/dev/null; \
             git commit -q -S -m signed; git log -1 --format='signed: %G?'",
        );
    });
}

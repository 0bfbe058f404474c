//! What can have made a command fail though nothing is known to have been refused: what it was not given.

use super::suggest::{list, quote};
use common::exit;
use rules::policy::Policy;

/// What to say of a command that ended with `status`, if its status does not say it. Whether reads are
/// `unwatched` is the policy's choice.
pub fn unseen(status: i32, policy: &Policy, unwatched: bool) -> Option<String> {
    let reads = (unwatched && !policy.files.deny_read.is_empty() && !policy.hides_denials_alone)
        .then(|| {
            "nothing was refused that is watched; reads are not watched: --report all".to_owned()
        });
    let withheld: Vec<_> = std::env::vars_os()
        .filter(|(name, value)| !policy.variables.passes(name, value))
        .filter(|(name, _)| name.to_str().is_none_or(|name| policy.variables.value(name).is_none()))
        .map(|(name, _)| quote(&name.to_string_lossy()))
        .collect();
    let variables = (!withheld.is_empty()).then(|| {
        let all = if policy.variables.allow.is_none() { ", beside \"*\"" } else { "" };
        format!(
            "variables withheld, which environment.allow gives by name{all}: {}",
            list(&withheld)
        )
    });
    let said: Vec<_> = [reads, variables].into_iter().flatten().collect();
    (!said.is_empty() && !says_why(status)).then(|| said.join("; "))
}

/// Whether a shell did not find a program, or the user ended the command.
fn says_why(status: i32) -> bool {
    const BY_USER: [i32; 4] = [128 + 1, 128 + 2, 128 + 13, 128 + 15];
    status == exit::NOT_FOUND || BY_USER.contains(&status)
}

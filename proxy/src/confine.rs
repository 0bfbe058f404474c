//! The proxy's own confinement, before it accepts anything: capabilities(7), landlock(7).
//!
//! It talks to hosts that the policy names and to a command that nobody trusts, and needs no file
//! for it any more. What it keeps is what it is for: connecting TCP, and UDP to name servers.

use crate::error::ProxyError;
use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetStatus,
    Scope,
};
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};

/// Gives up every capability, which root would have, and every right to files, to execute, to bind TCP
/// ports, to signal, and to connect to abstract Unix sockets.
///
/// # Errors
/// Returns [`ProxyError::Confine`] if the kernel does not enforce all of it.
pub(crate) fn confine() -> Result<(), ProxyError> {
    // Before Landlock: without capabilities it asks for no_new_privs, which the launcher has set.
    let none = CapabilitySet::empty();
    let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
    // What is not permitted is not ambient either.
    set_capabilities(None, sets).map_err(|errno| ProxyError::Confine(errno.to_string()))?;
    let failed = |error: landlock::RulesetError| ProxyError::Confine(error.to_string());
    let status = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(ABI::V5))
        .and_then(|ruleset| ruleset.handle_access(AccessNet::BindTcp))
        .and_then(|ruleset| ruleset.scope(Scope::from_all(ABI::V6)))
        .and_then(Ruleset::create)
        .and_then(landlock::RulesetCreated::restrict_self)
        .map_err(failed)?;
    match status.ruleset {
        RulesetStatus::FullyEnforced => Ok(()),
        _ => Err(ProxyError::Confine("Landlock is not enforced in full".to_owned())),
    }
}

//! The proxy's own confinement, before it accepts anything: capabilities(7), landlock(7).
//!
//! It talks to hosts that the policy names and to a command that nobody trusts, and needs no file
//! for it any more. What it keeps is what it is for: connecting TCP, and UDP to name servers.

use crate::error::ProxyError;
use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, Ruleset, RulesetAttr,
    RulesetCreated, RulesetError, RulesetStatus, Scope,
};
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};

/// Gives up every capability, which root would have, and every right to files, to execute, to bind TCP
/// ports, to signal, and to connect to abstract Unix sockets: as far as this kernel's Landlock knows them.
/// What it does not, the filter refuses: files are not opened or truncated, a port that is bound is not
/// listened on, nobody else is signalled, and no Unix socket is made.
///
/// # Errors
/// Returns [`ProxyError::Confine`] if the kernel does not enforce all of it.
pub(crate) fn confine() -> Result<(), ProxyError> {
    // Before Landlock: without capabilities it asks for no_new_privs, which the launcher has set.
    let none = CapabilitySet::empty();
    let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
    // What is not permitted is not ambient either.
    set_capabilities(None, sets).map_err(|errno| ProxyError::Confine(errno.to_string()))?;
    let failed = |error: RulesetError| ProxyError::Confine(error.to_string());
    let newer = [ABI::V6, ABI::V5, ABI::V4, ABI::V3].into_iter().find_map(|abi| create(abi).ok());
    let ruleset = newer.map_or_else(|| create(ABI::V2), Ok).map_err(failed)?;
    let status = ruleset.restrict_self().map_err(failed)?;
    match status.ruleset {
        RulesetStatus::FullyEnforced => Ok(()),
        _ => Err(ProxyError::Confine("Landlock is not enforced in full".to_owned())),
    }
}

/// The ruleset of a kernel that has `abi`: found by trying, for there are kernels that report one and refuse
/// its attributes.
fn create(abi: ABI) -> Result<RulesetCreated, RulesetError> {
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(abi))?;
    if abi >= ABI::V4 {
        ruleset = ruleset.handle_access(AccessNet::BindTcp)?;
    }
    if abi >= ABI::V6 {
        ruleset = ruleset.scope(Scope::from_all(abi))?;
    }
    ruleset.create()
}

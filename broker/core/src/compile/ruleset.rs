//! The ruleset of the command: what Landlock handles, and what it is told to grant. Source: landlock(7).

use super::grant_error::GrantError;
use super::grants::Builder;
use crate::files::reserve::Reserve;
use crate::files::view::Grants;
use kernel::features::Features;
use kernel::mounts::Mount;
use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, Ruleset, RulesetAttr,
    RulesetCreated, RulesetError, Scope,
};
use rules::files::Files;
use rules::paths::Rules;
use rustix::fd::OwnedFd;
use rustix::io::Errno;

/// Compiles `rules`, those of `files`, into a ruleset for the command to enter; `restrict_network` also
/// takes TCP away. What is in `reserve` then is granted too, which is returned. Landlock has these `features`.
pub(crate) fn compile(
    (files, rules): (&Files, &Rules),
    mounts: &[Mount],
    features: Features,
    restrict_network: bool,
    reserve: impl FnOnce() -> Option<Reserve>,
) -> Result<(Grants, OwnedFd, Option<Reserve>), GrantError> {
    let ruleset = create(features, restrict_network).map_err(GrantError::Ruleset)?;
    // There is one, or the crate would have said why not.
    let none = || GrantError::Walk { path: "the ruleset".into(), source: Errno::OPNOTSUPP };
    let ruleset = Option::<OwnedFd>::from(ruleset).ok_or_else(none)?;
    let mut builder = Builder::new(ruleset, handled(features), mounts);
    let granted = builder.grant_trees(rules, mounts);
    // It is removed with what follows, whatever that is.
    let reserve = reserve();
    granted?;
    if let Some(reserve) = &reserve {
        builder.grant_reserve(reserve)?;
    }
    builder.grant_devices(files, rules)?;
    builder.grant_standard_streams()?;
    let (grants, ruleset) = builder.finish();
    Ok((grants, ruleset, reserve))
}

/// The rights to files that Landlock decides on.
fn handled(features: Features) -> BitFlags<AccessFs> {
    let mut access = AccessFs::from_all(ABI::V2);
    if features.contains(Features::TRUNCATION) {
        access |= AccessFs::Truncate;
    }
    if features.contains(Features::DEVICES) {
        access |= AccessFs::IoctlDev;
    }
    access
}

fn create(features: Features, restrict_network: bool) -> Result<RulesetCreated, RulesetError> {
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(handled(features))?;
    if features.contains(Features::SCOPES) {
        ruleset = ruleset.scope(Scope::Signal | Scope::AbstractUnixSocket)?;
    }
    if restrict_network && features.contains(Features::TCP) {
        // Nothing is granted: the broker makes the permitted connections itself.
        ruleset = ruleset.handle_access(AccessNet::BindTcp | AccessNet::ConnectTcp)?;
    }
    ruleset.create()
}

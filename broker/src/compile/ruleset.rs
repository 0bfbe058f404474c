//! The ruleset of the command: what Landlock handles, and what it is told to grant. Source: landlock(7).

use super::grants::{Builder, GrantError, REQUIRED};
use crate::files::view::Grants;
use crate::kernel::features::Missing;
use crate::kernel::mounts::Mount;
use crate::rules::paths::{Files, Rules};
use landlock::{
    Access as _, AccessFs, AccessNet, CompatLevel, Compatible, Ruleset, RulesetAttr,
    RulesetCreated, RulesetError, Scope,
};
use rustix::fd::OwnedFd;

/// Compiles `rules`, those of `files`, into a ruleset for the command to enter; `restrict_network` also
/// takes TCP away. The `empty` directories are granted too.
///
/// # Errors
/// Returns the [`GrantError`] that names the path.
pub(crate) fn compile(
    files: &Files,
    rules: &Rules,
    mounts: &[Mount],
    restrict_network: bool,
    empty: &[OwnedFd],
) -> Result<(Grants, OwnedFd), GrantError> {
    let ruleset = Option::<OwnedFd>::from(create(restrict_network).map_err(without)?);
    // There is one, or the crate would have said why not.
    let ruleset = ruleset.ok_or_else(|| GrantError::Kernel(Missing::find()))?;
    let mut builder = Builder::new(ruleset, mounts);
    builder.grant_trees(rules)?;
    builder.grant_empty(empty)?;
    builder.grant_devices(files, rules)?;
    builder.grant_standard_streams()?;
    Ok(builder.finish())
}

/// Why there is no ruleset: what the kernel lacks, if it is that.
fn without(error: RulesetError) -> GrantError {
    match Missing::find() {
        Missing::Features(none) if none.is_empty() => GrantError::Ruleset(error),
        missing => GrantError::Kernel(missing),
    }
}

fn create(restrict_network: bool) -> Result<RulesetCreated, RulesetError> {
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(REQUIRED))?
        .scope(Scope::Signal | Scope::AbstractUnixSocket)?;
    if restrict_network {
        // Nothing is granted: the broker makes the permitted connections itself.
        ruleset = ruleset.handle_access(AccessNet::from_all(REQUIRED))?;
    }
    ruleset.create()
}

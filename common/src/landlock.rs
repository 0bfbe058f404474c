//! What the kernel takes of those who confine themselves, and how it says that it does not know something
//! (linux/landlock.h, landlock(7)).

/// `struct landlock_ruleset_attr` as of ABI 6; older kernels take it while what they do not know is zero.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct RulesetAttributes {
    /// Rights to files.
    pub handled_access_fs: u64,
    /// Rights to ports.
    pub handled_access_net: u64,
    /// What only reaches those inside.
    pub scoped: u64,
}

/// `struct landlock_path_beneath_attr`: rights to an object, and to all beneath it.
#[repr(C, packed)]
#[derive(Clone, Copy, Debug)]
pub struct PathBeneath {
    /// The rights.
    pub allowed_access: u64,
    /// A descriptor of the object.
    pub parent: i32,
}

/// LANDLOCK_RULE_PATH_BENEATH
pub const PATH_BENEATH: u8 = 1;

/// Whether landlock_create_ruleset(2) says by this errno that the kernel lacks something that is asked for: EINVAL
/// for a right or a scope, E2BIG for a field.
#[must_use]
pub fn is_lacking(errno: i32) -> bool {
    const E2BIG: i32 = 7;
    const EINVAL: i32 = 22;
    [E2BIG, EINVAL].contains(&errno)
}

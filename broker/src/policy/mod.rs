//! From policy files to a resolved [`Policy`].

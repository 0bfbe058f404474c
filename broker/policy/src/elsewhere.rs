//! What other programs write into their settings, and what is written here instead. Pure.

/// Keys of Claude Code's settings.json and of Codex' config.toml, and words of others, at any place.
const KEYS: [(&[&str], &str); 10] = [
    (&["sandbox"], "write what is in it, filesystem and network, at the top level"),
    (
        &["permissions"],
        "those of Claude Code are about its tools; write paths into filesystem.allowWrite and filesystem.denyRead, hosts \
         into network.allowedDomains",
    ),
    (
        &[
            "enabled",
            "autoAllowBashIfSandboxed",
            "allowUnsandboxedCommands",
            "excludedCommands",
            "approval_policy",
            "hooks",
            "mcpServers",
            "model",
        ],
        "it is about the program that it was written for; leave it out",
    ),
    (&["env"], "write variables into environment.set"),
    (
        &["sandbox_mode"],
        "extend a preset: 'extends: read-only' for read-only, 'extends: build' for workspace-write",
    ),
    (
        &["sandbox_workspace_write"],
        "write its writable_roots as filesystem.allowWrite, and its network_access as network.allowNetwork",
    ),
    (
        &["writable_roots", "writableRoots", "write", "rw", "allowedPaths"],
        "write 'filesystem: {allowWrite: [...]}'",
    ),
    (&["network_access", "networkAccess"], "write 'network: {allowNetwork: true}' or false"),
    (
        &["exclude_tmpdir_env_var", "exclude_slash_tmp"],
        "leave it out: the command has a private TMPDIR, and /tmp only if filesystem.allowWrite names it",
    ),
    (
        &["allowedHosts", "allowed_hosts", "domains", "allowDomains"],
        "write 'network: {allowedDomains: [...]}'",
    ),
];

/// What to write instead of the key `name`, at any place.
pub(super) fn instead(name: &str) -> Option<&'static str> {
    KEYS.iter().find(|(names, _)| names.contains(&name)).map(|(_, text)| *text)
}

/// The first of Codex' keys that `text`, which is no policy, has at the beginning of a line.
pub(super) fn of_toml(text: &str) -> Option<&'static str> {
    text.lines().find_map(|line| {
        let name = line.trim().trim_start_matches('[').split([' ', '=', ']']).next()?;
        instead(name).filter(|_| line.contains('=') || line.trim().starts_with('['))
    })
}

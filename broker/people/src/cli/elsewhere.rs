//! Options of other sandboxes, and what is written here instead. Pure.

/// bubblewrap's (bwrap(1)), firejail's (firejail(1)), Codex's and those that others have too.
const OPTIONS: [(&[&str], &str); 17] = [
    (
        &["ro-bind", "ro-bind-try", "read-only", "ro", "rox", "allow-read"],
        "everything may be read but filesystem.denyRead of a policy",
    ),
    (
        &[
            "bind",
            "bind-try",
            "dev-bind",
            "dev-bind-try",
            "read-write",
            "rw",
            "rwx",
            "whitelist",
            "add-dir",
            "writable",
            "write",
            "w",
        ],
        "what may be written stands in filesystem.allowWrite of a policy",
    ),
    (&["blacklist"], "what may not be read stands in filesystem.denyRead of a policy"),
    (&["tmpfs", "private-tmp"], "leave it out: TMPDIR names a private directory"),
    (
        &["unshare-net", "net", "no-network", "nonetwork"],
        "leave it out: there is no network without network.allowedDomains or network.allowNetwork in a policy",
    ),
    (
        &["share-net", "allow-net", "network", "online"],
        "write network.allowNetwork: true, or network.allowedDomains, into a policy",
    ),
    (
        &[
            "unshare-all",
            "unshare-pid",
            "unshare-user",
            "unshare-ipc",
            "unshare-uts",
            "unshare-cgroup",
            "die-with-parent",
            "new-session",
            "proc",
            "dev",
            "cap-drop",
            "seccomp",
            "nonewprivs",
            "noroot",
            "noprofile",
        ],
        "leave it out: nothing here needs namespaces, and the rest holds always",
    ),
    (
        &["setenv", "env", "e"],
        "write environment.set into a policy, or env NAME=VALUE before the tool",
    ),
    (
        &["unsetenv", "clearenv", "rmenv"],
        "write environment.deny or environment.allow into a policy",
    ),
    (&["chdir", "cwd", "C", "cd"], "the tool runs in the working directory; change it before"),
    (&["preset"], "presets are policies: write -p agent"),
    (
        &["no-sandbox", "yolo", "dangerously-skip-permissions"],
        "there is none: without a sandbox the tool is started without landstrip",
    ),
    (
        &["allow-domain", "allow-domains", "allow-host", "allow-hosts", "domain"],
        "write network.allowedDomains into a policy",
    ),
    (&["timeout", "t"], "write limits.wallSeconds into a policy"),
    (&["user", "uid", "u", "group", "gid"], "the tool runs as who starts it"),
    (&["json"], "write --trap-fd FD for reports, --explain=json, or --doctor=json"),
    (&["quiet", "silent", "q"], "write --report none"),
];
/// What Codex calls a mode.
const MODES: (&[&str], &str) =
    (&["s", "sandbox", "full-auto"], "write a preset: -p read-only, -p build or -p agent");

/// What to write instead of the option called `word`.
pub(super) fn instead(word: &str) -> Option<&'static str> {
    OPTIONS.iter().chain([&MODES]).find(|(words, _)| words.contains(&word)).map(|(_, text)| *text)
}

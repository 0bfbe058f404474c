//! What known programs try on their own, and do without: it is reported to `--trap-fd` alone, since among what is
//! printed it would bury the line that matters. Pure.

use common::trap::{FileOperation, NetworkOperation};
use landstrip_core::report::denials::Denial;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};

/// Where programs keep what they remember, by what they make there first: npm, Composer, dconf, GHCi, Guile, Java,
/// Neovim and Subversion.
const KEPT: [&str; 11] = [
    ".cache/dconf",
    ".cache/guile",
    ".cache/nvim",
    ".config/composer",
    ".ghc",
    ".java",
    ".local/share/composer",
    ".local/share/nvim",
    ".npm",
    ".npm/_logs",
    ".subversion",
];

/// Whether nobody misses what was refused.
pub fn is_noise(denial: &Denial) -> bool {
    match denial {
        Denial::File(FileOperation::Write, path) => {
            let path = Path::new(OsStr::from_bytes(path));
            is_of_python(path)
                || is_of_java(path)
                || is_of_vim(path)
                || is_of_debugger(path)
                || is_of_pnpm(path)
                || is_of_landstrip(path)
        }
        Denial::Network(NetworkOperation::Bind, _) => is_trial(denial),
        Denial::Network(NetworkOperation::Connect, path) => {
            is_of_name_service(Path::new(OsStr::from_bytes(path))) || is_multipath(path)
        }
        _ => false,
    }
}

/// Whether an address is bound to see whether it can be: urllib3, that pip and venv have, looks so for IPv6. The port
/// is any, and not told to anybody.
pub(crate) fn is_trial(denial: &Denial) -> bool {
    matches!(denial, Denial::Network(NetworkOperation::Bind, address) if address == b"[::1]:0")
}

/// Whether the program does the same without it, whether or not it succeeds: it is shown to nobody, though it can be asked
/// about and learned. What programs keep of themselves: locks that those who may not write do without, logs, and when
/// they last looked for a newer release.
pub fn is_done_without(denial: &Denial) -> bool {
    let Denial::File(FileOperation::Write, path) = denial else { return false };
    let path = Path::new(OsStr::from_bytes(path));
    is_of_cargo(path) || is_log_of_npm(path) || is_of_terraform(path) || is_of_fish(path)
}

/// Whether nobody misses it if the command succeeded: what programs write for the next time that they run, and ask
/// services of the desktop and the kernel for, where these are.
pub fn is_noise_of_success(denial: &Denial) -> bool {
    match denial {
        Denial::File(_, path) => {
            let path = Path::new(OsStr::from_bytes(path));
            is_history(path)
                || is_of_fontconfig(path)
                || is_of_memory_killer(path)
                || is_index_lock(path)
                || is_database(path)
                || KEPT.iter().any(|directory| path.ends_with(directory))
                || lies_in(path, ".java/.userPrefs", |_| true)
        }
        Denial::Network(NetworkOperation::Connect, target) => {
            target.starts_with(b"netlink ")
                || target == b"option IP_FREEBIND"
                || is_of_desktop(target)
        }
        _ => false,
    }
}

/// Whether a command can have failed by it: what Python and most programs do without, others do on purpose.
pub fn can_matter_alone(denial: &Denial) -> bool {
    match denial {
        Denial::File(_, path) => is_of_python(Path::new(OsStr::from_bytes(path))),
        Denial::Network(_, target) => is_multipath(target),
        _ => false,
    }
}

/// Whether the C library looks there for a service that it does without: it goes on to name servers, and to files.
pub fn is_of_name_service(path: &Path) -> bool {
    const SERVICES: [&str; 4] =
        ["/run/nscd", "/var/run/nscd", "/run/systemd/resolve", "/run/systemd/userdb"];
    SERVICES.iter().any(|service| path.starts_with(service))
}

/// The bytecode cache, wherever the source is.
fn is_of_python(path: &Path) -> bool {
    path.components().any(|part| part == Component::Normal(OsStr::new("__pycache__")))
}

/// What tells other programs how a virtual machine does, and which of its memory a core dump leaves out.
fn is_of_java(path: &Path) -> bool {
    let is_counters = |part: Component<'_>| part.as_os_str().as_bytes().starts_with(b"hsperfdata_");
    path.starts_with("/proc") && path.ends_with("coredump_filter")
        || path.components().any(is_counters)
}

/// The swap file beside what is edited, and where that cannot be.
fn is_of_vim(path: &Path) -> bool {
    let extension = path.extension().map(OsStr::as_bytes).unwrap_or_default();
    matches!(extension, [b's', b'w', b'l'..=b'p'])
}

/// The memory of a process that is debugged: ptrace(2) is the other way to it.
fn is_of_debugger(path: &Path) -> bool {
    path.starts_with("/proc") && path.ends_with("mem")
}

/// Where pnpm tries whether it can link to a directory, for its store.
fn is_of_pnpm(path: &Path) -> bool {
    let name = path.file_name().and_then(OsStr::to_str);
    let parts = name.and_then(|name| name.strip_prefix("_tmp_")?.split_once('_'));
    parts.is_some_and(|(pid, unique)| {
        pid.bytes().all(|byte| byte.is_ascii_digit())
            && unique.len() == 32
            && unique.bytes().all(|byte| byte.is_ascii_hexdigit())
    })
}

/// What shells, editors and pagers remember of what was typed.
fn is_history(path: &Path) -> bool {
    let name = path.file_name().map(OsStr::as_bytes).unwrap_or_default();
    let is_rest = |begin: &[u8]| name.starts_with(begin);
    name.ends_with(b"_history") || is_rest(b".viminf") || is_rest(b".lesshs")
}

/// Whether `path` is right in a directory that is called so, under a name that `is` one of those.
fn lies_in(path: &Path, directories: &str, is: impl Fn(&[u8]) -> bool) -> bool {
    let is_there = path.parent().is_some_and(|above| above.ends_with(directories));
    is_there && path.file_name().is_some_and(|name| is(name.as_bytes()))
}

/// The locks on the registry and on what it is tidied by.
fn is_of_cargo(path: &Path) -> bool {
    lies_in(path, ".cargo", |name| {
        name.starts_with(b".package-cache") || name.starts_with(b".global-cache")
    })
}

/// What npm tells of a run, and when it last looked for a newer one.
fn is_log_of_npm(path: &Path) -> bool {
    lies_in(path, ".npm/_logs", |_| true)
        || lies_in(path, ".npm", |name| name == b"_update-notifier-last-checked")
}

/// The directory of its settings, which it makes, and when it last looked for a newer release.
fn is_of_terraform(path: &Path) -> bool {
    path.ends_with(".terraform.d")
        || lies_in(path, ".terraform.d", |name| name.starts_with(b"checkpoint_"))
}

/// The directories of a shell that starts, what was typed, and variables of all its sessions.
fn is_of_fish(path: &Path) -> bool {
    [".config/fish", ".local/share/fish"].iter().any(|directory| path.ends_with(directory))
        || lies_in(path, ".config/fish", |name| name.starts_with(b"fish_variables"))
        || lies_in(path, ".local/share/fish", |name| name.starts_with(b"fish_history"))
}

/// The lock by which `git status` and the like keep what they found out about the work tree.
fn is_index_lock(path: &Path) -> bool {
    path.ends_with("index.lock") && path.iter().any(|part| part == ".git")
}

/// What SQLite opens for writing, too, if it can, whatever is asked of it.
fn is_database(path: &Path) -> bool {
    let name = path.file_name().map(OsStr::as_bytes).unwrap_or_default();
    let name = [&b"-journal"[..], b"-wal", b"-shm"]
        .into_iter()
        .find_map(|end| name.strip_suffix(end))
        .unwrap_or(name);
    [&b".db"[..], b".sqlite", b".sqlite3"].into_iter().any(|end| name.ends_with(end))
}

/// A socket of multipath TCP, in whose place programs have one of TCP.
fn is_multipath(target: &[u8]) -> bool {
    target.starts_with(b"inet") && target.ends_with(b" stream protocol 262")
}

/// What is known of fonts, wherever it is kept.
fn is_of_fontconfig(path: &Path) -> bool {
    let of = |part: Component<'_>| {
        [".fontconfig", "fontconfig"].map(OsStr::new).contains(&part.as_os_str())
    };
    path.components().any(of)
}

/// How soon a process is killed where memory runs out, which browsers set for their own.
fn is_of_memory_killer(path: &Path) -> bool {
    path.starts_with("/proc") && path.ends_with("oom_score_adj")
}

/// The buses, the displays and the sound of the user's session.
fn is_of_desktop(target: &[u8]) -> bool {
    const DISPLAYS: [&[u8]; 2] = [b"@/tmp/.X11-unix/", b"/tmp/.X11-unix/"];
    const NAMES: [&[u8]; 4] = [b"wayland-", b"pipewire-", b"bus", b"native"];
    let path = Path::new(OsStr::from_bytes(target));
    let name = path.file_name().map(OsStr::as_bytes).unwrap_or_default();
    DISPLAYS.iter().any(|display| target.starts_with(display))
        || ["/run/dbus", "/var/run/dbus"].iter().any(|place| path.starts_with(place))
        || path.starts_with("/run/user") && NAMES.iter().any(|begin| name.starts_with(begin))
}

/// The directories and control groups that a landstrip inside would use.
fn is_of_landstrip(path: &Path) -> bool {
    let name = path.file_name().map(OsStr::as_bytes).unwrap_or_default();
    let is_shared = path.parent() == Some(Path::new("/dev/shm")) && name.starts_with(b"landstrip-");
    let is_group = name == b"cgroup.subtree_control" || name.starts_with(b"landstrip-run-");
    is_shared
        || path.ends_with(".cache/landstrip")
        || lies_in(path, ".cache/landstrip", |_| true)
        || is_group && path.starts_with("/sys/fs/cgroup")
}

/// Whether this was refused for what the process is, which says nothing of what it asked for.
pub(crate) fn is_unserved(denial: &Denial) -> bool {
    let (Denial::File(_, target) | Denial::Network(_, target)) = denial else { return false };
    target.starts_with(b"unknown (the process has a sandbox")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_programs_do_without_is_known_by_what_it_is() {
        for (path, expected) in [
            ("/usr/lib/python3/__pycache__/x.pyc", true),
            ("/usr/lib/python3/__pycache__", true),
            ("/usr/lib/python3/my__pycache__", false),
            ("/tmp/hsperfdata_nobody/12", true),
            ("/tmp/hsperfdata_nobody", true),
            ("/proc/12/coredump_filter", true),
            ("/proc/self/oom_score_adj", false),
            ("/etc/.hosts.swp", true),
            ("/var/tmp/hosts.swo", true),
            ("/etc/.hosts.swl", true),
            ("/home/u/x.swift", false),
            ("/_tmp_29291_4fb2378b4508af06b8836e2246f2ab98", true),
            ("/home/u/_tmp_29291_notes", false),
            ("/home/u/_tmp_me_4fb2378b4508af06b8836e2246f2ab98", false),
            ("/home/u/x.swf", false),
            ("/home/u/x.swc", false),
            ("/home/u/x.swq", false),
            ("/home/u/swp", false),
            ("/dev/shm/landstrip-0123456789abcdef", true),
            ("/dev/shm/x/landstrip-0123456789abcdef", false),
            ("/home/u/.cache/landstrip", true),
            ("/home/u/.cache/landstrip/0123456789abcdef", true),
            ("/home/u/landstrip", false),
            ("/sys/fs/cgroup/a/cgroup.subtree_control", true),
            ("/sys/fs/cgroup/landstrip-run-12-own", true),
            ("/sys/fs/cgroup/a/pids.max", false),
            ("/home/u/landstrip-run-12", false),
            ("/proc/self/mem", true),
            ("/proc/12/task/12/mem", true),
            ("/home/u/mem", false),
        ] {
            let denial = |operation| Denial::file(operation, Path::new(path));
            assert_eq!(is_noise(&denial(FileOperation::Write)), expected, "{path}");
            assert!(!is_noise(&denial(FileOperation::Read)), "{path}");
        }
        for (target, expected) in [
            ("inet stream protocol 262", true),
            ("inet6 stream protocol 262", true),
            ("inet stream protocol 132", false),
            ("inet dgram protocol 262", false),
        ] {
            let denial = Denial::Network(NetworkOperation::Connect, target.into());
            assert_eq!(is_noise(&denial), expected, "{target}");
        }
        for (path, expected) in
            [("/run/systemd/resolve/io.systemd.Resolve", true), ("/run/docker.sock", false)]
        {
            let denial = Denial::Network(NetworkOperation::Connect, path.into());
            assert_eq!(is_noise(&denial), expected, "{path}");
        }
    }

    #[test]
    fn what_programs_do_the_same_without_is_known_by_what_it_is() {
        for (path, expected) in [
            ("/home/u/.cargo/.package-cache-mutate", true),
            ("/home/u/.cargo/.global-cache", true),
            ("/home/u/.cargo/registry", false),
            ("/home/u/.cargo/config.toml", false),
            ("/home/u/.npm/_logs/2026-01-31T00_00_00_000Z-debug-0.log", true),
            ("/home/u/.npm/_logs", false),
            ("/home/u/.npm/_cacache/tmp", false),
            ("/home/u/.npm", false),
            ("/home/u/.terraform.d/checkpoint_signature", true),
            ("/home/u/.terraform.d", true),
            ("/home/u/.terraform.d/credentials.tfrc.json", false),
            ("/home/u/.config/fish", true),
            ("/home/u/.config/fish/fish_variables", true),
            ("/home/u/.config/fish/config.fish", false),
            ("/home/u/.local/share/fish/fish_history", true),
            ("/home/u/fish", false),
        ] {
            let denial = |operation| Denial::file(operation, Path::new(path));
            assert_eq!(is_done_without(&denial(FileOperation::Write)), expected, "{path}");
            assert!(!is_done_without(&denial(FileOperation::Read)), "{path}");
            assert!(!is_noise(&denial(FileOperation::Write)), "{path}");
        }
    }

    #[test]
    fn what_nobody_misses_after_success_is_known_by_what_it_is() {
        for (path, expected) in [
            ("/home/u/.python_history", true),
            ("/home/u/.viminfz.tmp", true),
            ("/home/u/.lesshst", true),
            ("/home/u/history", false),
            ("/var/cache/fontconfig", true),
            ("/home/u/.fontconfig/x.cache-8", true),
            ("/home/u/fonts", false),
            ("/work/.git/index.lock", true),
            ("/work/.git/worktrees/a/index.lock", true),
            ("/work/index.lock", false),
            ("/work/.git/config.lock", false),
            ("/work/a.sqlite3", true),
            ("/work/a.db-journal", true),
            ("/work/a-journal", false),
            ("/home/u/.npm", true),
            ("/home/u/.npm/_logs", true),
            ("/home/u/.local/share/nvim", true),
            ("/home/u/.local/share/nvim/site", false),
            ("/home/u/.java/.userPrefs/.user.lock.u", true),
            ("/home/u/.subversion", true),
            ("/home/u/.subversion/auth", false),
            ("/home/u/.npm/_cacache", false),
            ("/proc/12/oom_score_adj", true),
            ("/home/u/oom_score_adj", false),
        ] {
            let denial = Denial::file(FileOperation::Write, Path::new(path));
            assert_eq!(is_noise_of_success(&denial), expected, "{path}");
            assert!(!is_noise(&denial), "{path}");
        }
        for (target, expected) in [
            ("/run/user/7/bus", true),
            ("/run/user/7/pulse/native", true),
            ("/run/user/7/wayland-0", true),
            ("/run/user/7/podman/podman.sock", false),
            ("/run/dbus/system_bus_socket", true),
            ("/run/docker.sock", false),
            ("@/tmp/.X11-unix/X0", true),
            ("@other", false),
            ("netlink raw protocol 4", true),
            ("192.0.2.1:443", false),
        ] {
            let denial = Denial::Network(NetworkOperation::Connect, target.into());
            assert_eq!(is_noise_of_success(&denial), expected, "{target}");
            assert!(!is_noise(&denial), "{target}");
        }
    }
}

//! Which attempts show that the policy in force holds, with what the rules say of each.

use super::attempt::{Act, Attempt};
use super::bait::Bait;
use crate::explain::InForce;
use crate::explain::answer::Answer;
use crate::explain::question::about_path;
use kernel::denied_syscalls::CALLS;
use kernel::proc;
use rules::address::{AddressVerdict, Endpoint};
use rules::pattern::Pattern;
use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Most paths of one kind.
const PATHS_MAX: usize = 4;

/// The attempts; `proxy` says whether the command gets one.
pub fn attempts(in_force: &InForce<'_>, bait: Option<&Bait>, proxy: bool) -> Vec<Attempt> {
    let mut attempts = files(in_force);
    attempts.extend(
        ["program", "threads", "signals", "socket pairs", "memory files"]
            .map(|what| Attempt::permitted(Act::Own, what)),
    );
    if in_force.judges.have_shared_memory() {
        let name = format!("/dev/shm/landstrip-doctor-{}", std::process::id());
        attempts.push(Attempt::permitted(Act::ShareMemory, name));
    }
    let broker = std::process::id().to_string();
    attempts.extend(
        [Act::Signal, Act::ReadMemory, Act::TakeDescriptor, Act::Trace, Act::ReadEnvironment]
            .map(|act| Attempt::refused(act, broker.as_str())),
    );
    attempts.extend(bait.into_iter().flat_map(|bait| sockets(in_force, bait)));
    if !in_force.policy.network.allow_network {
        attempts.push(Attempt::refused(Act::MakeSocket, "raw"));
    }
    attempts.extend(["packet", "vsock"].map(|kind| Attempt::refused(Act::MakeSocket, kind)));
    if proxy {
        attempts.push(Attempt::refused(Act::AskProxy, "not-listed.invalid:443"));
    }
    attempts.extend(CALLS.iter().map(|call| Attempt::refused(Act::Call, call.name)));
    attempts.retain(Attempt::is_plain);
    attempts
}

/// What rules name, what protects landstrip, and what everybody has.
fn files(in_force: &InForce<'_>) -> Vec<Attempt> {
    let files = &in_force.policy.files;
    let literal = |patterns: &[Pattern]| -> Vec<PathBuf> {
        let paths = patterns.iter().filter_map(Pattern::as_path);
        paths.filter(|path| path.symlink_metadata().is_ok()).take(PATHS_MAX).collect()
    };
    let mut attempts = Vec::new();
    let mut expect = |path: &Path, action: &str| {
        let Some(answer) = answer(in_force, path, action) else { return };
        let act = match (action, path.is_dir()) {
            ("write", true) => Act::MakeIn,
            ("write", false) => Act::Write,
            _ => Act::Read,
        };
        if let Some(text) = path.to_str() {
            let is_permitted = answer.is_allowed;
            let attempt = Attempt { is_permitted, act, object: text.to_owned() };
            if !attempts.contains(&attempt) {
                attempts.push(attempt);
            }
        }
    };
    literal(&files.deny_read).iter().for_each(|path| expect(path, "read"));
    literal(&files.deny_write).iter().for_each(|path| expect(path, "write"));
    files.allow_write.iter().take(PATHS_MAX).for_each(|path| expect(path, "write"));
    let own = proc::own_program().unwrap_or(Path::new(""));
    let beside = ["landstrip", "landstrip-proxy"].map(|name| own.with_file_name(name));
    // Nothing names what lies in memory.
    let protected = if proc::started_in_memory().is_some() { &[][..] } else { &beside };
    let policy = in_force.policy.sources.last();
    protected.iter().chain(policy).for_each(|path| expect(path, "write"));
    let home = in_force.caller.home.as_deref();
    let common =
        [Some(Path::new("/")), Some(Path::new("/etc")), home, in_force.caller.cwd.parent()];
    common.into_iter().flatten().for_each(|path| expect(path, "write"));
    expect(Path::new("/etc/passwd"), "read");
    expect(Path::new("/dev/null"), "write");
    // Nobody's right, and, beneath what may not be written, not even its mode is.
    attempts.push(Attempt::refused(Act::MakeDevice, "."));
    let unwritable = |path: &&Path| answer(in_force, path, "write").is_some_and(|a| !a.is_allowed);
    let unwritable = [home, Some(Path::new("/"))].into_iter().flatten().find(unwritable);
    let text = unwritable.and_then(Path::to_str);
    attempts.extend(text.map(|text| Attempt::refused(Act::ChangeMode, text)));
    attempts
}

fn answer(in_force: &InForce<'_>, path: &Path, action: &str) -> Option<Answer> {
    let (_, answers) = about_path(in_force, path).ok()?;
    answers.into_iter().find(|answer| answer.action == action)
}

fn sockets(in_force: &InForce<'_>, bait: &Bait) -> Vec<Attempt> {
    let addresses = &in_force.judges.addresses;
    let attempt = |is_permitted, act, object: String| Attempt { is_permitted, act, object };
    let mut attempts = Vec::new();
    if let Ok(address) = bait.tcp() {
        let verdict = addresses.connect(&Endpoint::Internet(address));
        let is_permitted = verdict == AddressVerdict::Perform;
        attempts.push(attempt(is_permitted, Act::Connect, address.to_string()));
    }
    if let Ok(address) = bait.udp() {
        attempts.push(attempt(addresses.allow_network, Act::SendTo, address.to_string()));
    }
    let free = SocketAddr::from(([127, 0, 0, 1], 0));
    let verdict = addresses.bind(&Endpoint::Internet(free));
    attempts.push(attempt(verdict == AddressVerdict::Perform, Act::Bind, free.to_string()));
    let path = bait.path();
    let endpoint = Endpoint::UnixPath(path.as_os_str().as_bytes().to_vec());
    let is_listed =
        addresses.connect(&endpoint) == AddressVerdict::ByPath && addresses.unix.permit(&path);
    attempts.push(attempt(is_listed, Act::ConnectUnix, path.display().to_string()));
    attempts.push(Attempt::refused(Act::ConnectAbstract, bait.name()));
    attempts
}

//! What this kernel and host give a sandbox, found by trying, and what to do about what is missing.

use crate::explain::notes::substitutes;
use crate::explain::parts;
use kernel::features::{self, Features, Missing};
use rustix::io::{self, Errno};
use std::fs;

/// One thing that was found.
#[derive(Debug)]
pub struct Finding {
    pub what: &'static str,
    pub found: String,
    pub state: State,
    /// What to do, if something is to be done.
    pub advice: Option<&'static str>,
}

/// What it means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Good,
    /// Less is possible, and what is enforced holds.
    Limited,
    /// No tool would run.
    Missing,
    /// It does not matter.
    Unused,
}

impl State {
    pub fn word(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Limited => "limited",
            Self::Missing => "missing",
            Self::Unused => "not needed",
        }
    }
}

/// What the broker may do with its child.
#[derive(Debug)]
pub struct Reach {
    /// Take its descriptors.
    pub descriptors: io::Result<()>,
    /// Read its memory by process_vm_readv(2).
    pub memory: io::Result<()>,
    /// Read it in one way or another.
    pub is_readable: bool,
    /// Why /proc, or what is inherited, will not do.
    pub surroundings: Option<String>,
}

/// Looks at all of it.
pub fn look(reach: &Reach) -> Vec<Finding> {
    let release = read("/proc/sys/kernel/osrelease").unwrap_or_else(|| "unknown".to_owned());
    let mut findings = vec![
        finding("kernel", State::Good, release, None),
        landlock(Features::probe()),
        surroundings(reach.surroundings.as_deref()),
        memory(reach.memory, reach.is_readable),
        descriptors(reach.descriptors),
    ];
    findings.extend(yama());
    findings.push(filters());
    findings.push(listener(features::try_listener()));
    let namespaces = match read("/proc/sys/user/max_user_namespaces").as_deref() {
        Some("0") | None => "none",
        Some(_) => "may be available",
    };
    findings.push(finding("user namespaces", State::Unused, namespaces, None));
    findings
}

fn finding(
    what: &'static str,
    state: State,
    found: impl Into<String>,
    advice: Option<&'static str>,
) -> Finding {
    Finding { what, found: found.into(), state, advice }
}

fn landlock(probed: Result<Features, Missing>) -> Finding {
    let missing = match probed {
        Ok(features) => {
            let substitutes: Vec<_> = substitutes(features).collect();
            if substitutes.is_empty() {
                return finding("Landlock", State::Good, "all that policies need (ABI 6)", None);
            }
            let advice = "boot Linux 6.12 or newer, where Landlock does it";
            return finding("Landlock", State::Limited, substitutes.join("; "), Some(advice));
        }
        Err(missing) => missing,
    };
    let advice = match missing {
        Missing::Features(_) => "boot a newer kernel",
        Missing::Landlock(Errno::OPNOTSUPP) => {
            "add landlock to lsm= of the kernel's command line, as in lsm=landlock,yama,apparmor"
        }
        Missing::Landlock(Errno::PERM) => {
            "let the container's seccomp profile permit landlock_create_ruleset, landlock_add_rule and \
             landlock_restrict_self (--security-opt seccomp=PROFILE, or a newer container engine)"
        }
        Missing::Landlock(_) => "boot a kernel with CONFIG_SECURITY_LANDLOCK=y",
    };
    finding("Landlock", State::Missing, parts::why(&missing), Some(advice))
}

fn surroundings(wrong: Option<&str>) -> Finding {
    match wrong {
        None => finding("/proc and standard streams", State::Good, "usable", None),
        Some(wrong) => {
            let advice = "mount proc(5) of this PID namespace (unshare --mount-proc), and start with files, \
                          pipes, terminals or connected sockets as standard streams";
            finding("/proc and standard streams", State::Missing, wrong, Some(advice))
        }
    }
}

fn memory(outcome: io::Result<()>, is_readable: bool) -> Finding {
    let what = "memory of the command";
    match outcome {
        Ok(()) => finding(what, State::Good, "read by process_vm_readv(2)", None),
        Err(errno) if is_readable => {
            let advice = "the broker reads /proc/PID/mem, which takes longer; let the container's seccomp \
                          profile permit process_vm_readv";
            let found = format!("process_vm_readv: {}", std::io::Error::from(errno));
            finding(what, State::Limited, found, Some(advice))
        }
        Err(errno) => {
            let advice = "nothing runs that needs the broker; set kernel.yama.ptrace_scope to 0 or 1, or \
                          let the security module permit it";
            let found = format!("not readable: {}", std::io::Error::from(errno));
            finding(what, State::Missing, found, Some(advice))
        }
    }
}

fn descriptors(outcome: io::Result<()>) -> Finding {
    let what = "descriptors of the command";
    match outcome {
        Ok(()) => finding(what, State::Good, "taken by pidfd_getfd(2)", None),
        Err(errno) => {
            let advice = "the broker makes the command's sockets itself; for datagram sockets to \
                          a path, let the container's seccomp profile permit pidfd_getfd";
            let found = format!("pidfd_getfd: {}", std::io::Error::from(errno));
            finding(what, State::Limited, found, Some(advice))
        }
    }
}

fn yama() -> Option<Finding> {
    let scope = read("/proc/sys/kernel/yama/ptrace_scope")?;
    let state = if matches!(scope.as_str(), "0" | "1") { State::Good } else { State::Limited };
    let advice = (state != State::Good).then_some("set kernel.yama.ptrace_scope to 0 or 1");
    Some(finding("Yama", state, format!("ptrace_scope {scope}"), advice))
}

/// The filters of a container or a sandbox around.
fn filters() -> Finding {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let value = |name: &str| {
        let mut lines = status.lines().filter_map(|line| line.strip_prefix(name));
        lines.next().map(|value| value.trim().to_owned())
    };
    let found = match value("Seccomp:").as_deref() {
        Some("0") => "none".to_owned(),
        Some(_) => format!("{} in force", value("Seccomp_filters:").unwrap_or_default()),
        None => "unknown".to_owned(),
    };
    finding("seccomp filters around", State::Good, found, None)
}

fn listener(outcome: io::Result<()>) -> Finding {
    let what = "seccomp listener";
    let found = |errno| format!("none: {}", std::io::Error::from(errno));
    match outcome {
        Ok(()) => finding(what, State::Good, "installed", None),
        Err(errno @ (Errno::BUSY | Errno::PERM)) => {
            let advice = "start landstrip outside of the sandbox or supervisor around it, such as another \
                          landstrip; inside, only a policy runs that allows no writing and no network and \
                          denies no reading, or one with enableWeakerNestedSandbox";
            finding(what, State::Limited, found(errno), Some(advice))
        }
        Err(errno) => {
            let advice = "boot a kernel with CONFIG_SECCOMP_FILTER=y (Linux 6.1 or newer), and let the \
                          container's seccomp profile permit seccomp";
            finding(what, State::Missing, found(errno), Some(advice))
        }
    }
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_comes_with_what_to_do() {
        let nothing = Reach {
            descriptors: Err(Errno::PERM),
            memory: Err(Errno::NOSYS),
            is_readable: true,
            surroundings: Some("/proc shows another namespace".to_owned()),
        };
        for found in look(&nothing) {
            let is_wrong = matches!(found.state, State::Limited | State::Missing);
            assert_eq!(found.advice.is_some(), is_wrong, "{found:?}");
        }
        for (errno, advice) in [
            (Errno::OPNOTSUPP, "lsm=landlock"),
            (Errno::NOSYS, "CONFIG_SECURITY_LANDLOCK"),
            (Errno::PERM, "--security-opt"),
        ] {
            let found = landlock(Err(Missing::Landlock(errno)));
            assert_eq!(found.state, State::Missing);
            assert!(found.advice.is_some_and(|text| text.contains(advice)), "{found:?}");
        }
        for (errno, state) in [(Errno::PERM, State::Limited), (Errno::NOSYS, State::Missing)] {
            let found = listener(Err(errno));
            assert_eq!((found.state, found.advice.is_some()), (state, true), "{found:?}");
        }
    }
}

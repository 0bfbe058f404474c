//! What to do where a tool cannot be executed.

use crate::explain::parts;
use common::wire::Step;
use kernel::features::Features;
use landstrip_core::report::errno::strerror;
use landstrip_core::report::failure::Failure;
use probes::seccomp;
use rustix::io::Errno;
use std::borrow::Cow;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// What to do about a tool that cannot be executed, or in words that a user can act on why a step before that failed.
pub fn about(failure: &Failure) -> Option<Cow<'static, str>> {
    match failure {
        Failure::Launch(tool, errno) => about_tool(tool, *errno).map(Cow::from),
        Failure::Step(step, errno) => Some(explain(*step, *errno).into()),
        Failure::Lacking(missing) => {
            Some(format!("this kernel cannot confine the command: {}", parts::why(missing)).into())
        }
        _ => None,
    }
}

fn about_tool(tool: &[u8], errno: Errno) -> Option<&'static str> {
    let path = Path::new(OsStr::from_bytes(tool));
    match (errno, path.metadata()) {
        (Errno::NOENT, _) if !tool.contains(&b'/') => Some(about_name(tool)),
        (Errno::NOENT, Ok(_)) => {
            Some(": it is there, but what its first line ('#!') or its loader names is not")
        }
        (Errno::NOENT, Err(_)) if tool.starts_with(b"~") || tool.starts_with(b"$") => {
            Some(": a shell expands '~' and '$', and neither in quotes")
        }
        (Errno::NOENT, Err(_)) if tool.iter().any(is_of_shell) => Some(FOR_SHELL),
        (Errno::ACCESS, Ok(found)) if found.is_dir() => Some(": it is a directory"),
        (Errno::ACCESS, Ok(found)) if found.mode() & 0o111 == 0 => {
            Some(": nobody may execute it; chmod +x, or write the program that reads it before it")
        }
        (Errno::NOEXEC, _) => Some(": a script begins with '#!' and its program; or write sh FILE"),
        _ => None,
    }
}

const FOR_SHELL: &str =
    ": tool and arguments are words of their own; for a shell, write sh -c '...'";

/// What to write in the place of a name that is no program's.
fn about_name(tool: &[u8]) -> &'static str {
    const BUILT_IN: [&[u8]; 9] =
        [b"alias", b"cd", b"eval", b"exec", b"export", b"set", b"source", b"ulimit", b"umask"];
    const OPTIONS: [&[u8]; 6] = [b"check", b"doctor", b"explain", b"help", b"learn", b"version"];
    match tool {
        b"" => ": the tool is an empty word",
        b"run" => ": landstrip has no such command; the tool stands right after the options",
        _ if OPTIONS.contains(&tool) => ": it is an option, with two dashes; see landstrip --help",
        _ if BUILT_IN.contains(&tool) => ": it is a command of the shell; write sh -c '...'",
        _ if tool.iter().any(is_of_shell) => FOR_SHELL,
        _ if tool.contains(&b'=') => ": to set a variable, write env NAME=VALUE tool",
        _ if tool.starts_with(b"-") => ": options stand before '--', and the tool after it",
        _ if Path::new(OsStr::from_bytes(tool)).exists() => {
            ": it is here, but in no directory of PATH; write ./ before it"
        }
        _ => ": it is in no directory of PATH",
    }
}

fn is_of_shell(byte: &u8) -> bool {
    byte.is_ascii_whitespace() || b"|;&<>".contains(byte)
}

/// Whether signals are the broker's to judge.
fn lacks_scopes() -> bool {
    Features::probe().is_ok_and(|features| !features.contains(Features::SCOPES))
}

/// The step of the child in words that a user can act on.
fn explain(step: Step, errno: Errno) -> String {
    let reason = match (step, errno) {
        (Step::Filter, Errno::BUSY) => {
            "a seccomp listener exists already, as on WSL2 or under another supervisor"
        }
        (Step::Filter, Errno::PERM) => {
            "the surrounding sandbox, such as another landstrip, lets no listener be installed"
        }
        (Step::Filter, Errno::INVAL | Errno::NOSYS) => match seccomp::missing_of_notification() {
            Some(missing) => return format!("this kernel lacks {missing}"),
            None => "the filter could not be installed",
        },
        (Step::Filter, _) => "the filter could not be installed",
        (Step::Restrict, Errno::TOOBIG) => "too many Landlock domains are nested already",
        (Step::Restrict, _) => "the Landlock domain could not be entered",
        (Step::Plan, _) => "the plan did not arrive",
        (Step::Environment, _) => "there is no memory for the environment",
        (Step::Execute, _) => "the tool could not be executed",
    };
    let advice = match (step, errno) {
        (Step::Filter, Errno::BUSY | Errno::PERM) if lacks_scopes() => {
            ", and without one nothing keeps signals inside on this kernel (Linux 6.12 does)"
        }
        (Step::Filter, Errno::BUSY | Errno::PERM) => {
            ", and without one only a policy can be enforced that allows no writing and no network \
             and denies no reading, with a standard input that is no pipe which the caller reads as well (</dev/null \
             will do), or with enableWeakerNestedSandbox one that lists no hosts, has no servers of its own, and denies \
             no reading inside what may be written"
        }
        _ => "",
    };
    format!("{reason}{advice}: {}", strerror(errno))
}

//! What to do where a tool cannot be executed.

use landstrip_core::report::failure::Failure;
use rustix::io::Errno;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// What to do about a tool that cannot be executed.
pub fn about(failure: &Failure) -> Option<&'static str> {
    let Failure::Launch(tool, errno) = failure else { return None };
    let path = Path::new(OsStr::from_bytes(tool));
    match (*errno, path.metadata()) {
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

//! What can have made a command fail though nothing is known to have been refused: what it was not given, and what no
//! policy allows.

use super::suggest::{list, quote};
use crate::store::line_of;
use common::exit;
use common::trap::FileOperation;
use landstrip_core::report::denials::Denial;
use landstrip_core::session::launch::Tool;
use policy::callers::Caller;
use policy::repositories::contents;
use rules::files::Files;
use rules::paths::Rules;
use rules::policy::Policy;
use rustix::fs::{Mode, OFlags};
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// What to say of `tool` that ended with `status`, if its status does not say it. Whether reads are
/// `unwatched` is the policy's choice; `refused` are system calls that no policy allows; some was `left_out` if not all that
/// was refused is reported.
pub fn unseen(
    status: i32,
    tool: &Tool<'_>,
    policy: &Policy,
    unwatched: bool,
    (refused, left_out): (&[&'static str], bool),
) -> Option<String> {
    let calls = (!refused.is_empty())
        .then(|| format!("refused under every policy: {}{}", refused.join(", "), instead(refused)));
    let reads = (unwatched && !policy.files.deny_read.is_empty() && !policy.hides_denials_alone)
        .then(|| {
            let nothing =
                if refused.is_empty() && !left_out { "no refusal" } else { "no other refusal" };
            format!("{nothing} was seen; refused reads are reported only with --report all")
        });
    let withheld: Vec<_> = std::env::vars_os()
        .filter(|(name, value)| !policy.variables.passes(name, value))
        .filter(|(name, _)| name.to_str().is_none_or(|name| policy.variables.value(name).is_none()))
        .map(|(name, _)| quote(&name.to_string_lossy()))
        .collect();
    let variables = (!withheld.is_empty()).then(|| {
        let all = if policy.variables.allow.is_none() { ", beside \"*\"" } else { "" };
        format!(
            "variables withheld (to pass them, name them in environment.allow{all}): {}",
            list(&withheld)
        )
    });
    let elevated = elevated(&line_of(tool)).map(|program| {
        format!(
            "{} has a set-user-ID or set-group-ID bit, which has no effect inside: run it outside",
            quote(&program)
        )
    });
    // A shell that a signal of its own has ended was refused none.
    let signals = (status < 128 && ends_with_a_signal(&line_of(tool)))
        .then(|| "signals reach only processes of this run: send others from outside".to_owned());
    let said: Vec<_> = [calls, elevated, signals, reads, variables].into_iter().flatten().collect();
    (!said.is_empty() && !says_why(status)).then(|| said.join("; "))
}

/// The first program that this command line, a shell's within it, or the script that it runs, names as a command and
/// whose file has the set-user-ID or set-group-ID bit, which counts for nothing under no_new_privs (prctl(2)).
fn elevated(line: &str) -> Option<String> {
    const SETS_ID: u32 = 0o6000;
    let is_one = |file: PathBuf| {
        file.metadata().is_ok_and(|found| {
            let mode = found.permissions().mode();
            found.is_file() && mode & SETS_ID != 0 && mode & 0o111 != 0
        })
    };
    programs(line).into_iter().find(|word| places(word).into_iter().any(is_one))
}

/// The programs that this command line, a shell's within it, or the script that it runs, names as commands.
fn programs(line: &str) -> Vec<String> {
    let script = script(line).unwrap_or_default();
    let commands =
        [line, &script].into_iter().flat_map(|text| text.split(['\n', ';', '|', '&', '(']));
    commands.chain(line.split(" -c ").skip(1)).filter_map(program).map(str::to_owned).collect()
}

/// The first program that `tool`, its command line or its script names, or what a script begins with, that a rule does
/// not let be read: so it cannot be executed either, which Landlock refuses and tells nobody.
pub fn denied_tool(tool: &Tool<'_>, files: &Files, caller: &Caller) -> Option<Denial> {
    let rules = Rules::new(files);
    let denied = |file: &Path| {
        let path = caller.cwd.join(file).canonicalize().ok()?;
        (path.is_file() && !rules.access(&path).read).then_some(path)
    };
    let name = String::from_utf8_lossy(tool.name()).into_owned();
    let files = [name].into_iter().chain(programs(&line_of(tool))).flat_map(|word| places(&word));
    let found = files
        .into_iter()
        .find_map(|file| denied(&file).or_else(|| denied(&interpreter(&caller.cwd.join(file))?)));
    found.map(|path| Denial::file(FileOperation::Read, &path))
}

/// The program that the script `file` begins with.
fn interpreter(file: &Path) -> Option<PathBuf> {
    const LONGEST: u64 = 256;
    let text = contents(file, LONGEST);
    let line = text.strip_prefix(b"#!")?.split(|&byte| byte == b'\n').next()?;
    let words = line.split(|byte| byte.is_ascii_whitespace());
    let word = words.into_iter().find(|word| !word.is_empty())?;
    Some(PathBuf::from(OsStr::from_bytes(word)))
}

/// Whether the last command of this line, or of a shell's within it, sends signals. Landlock refuses them, and tells nobody;
/// were kill(2) notified, handlers of signals would interrupt it, which programs do not expect.
fn ends_with_a_signal(line: &str) -> bool {
    const SENDERS: [&str; 5] = ["fuser", "kill", "killall", "pkill", "skill"];
    let mut depth = 0;
    let mut before = ' ';
    let is_outer = |character: &char| {
        let opens = *character == '(' && (depth > 0 || before == '$');
        before = *character;
        depth += usize::from(opens);
        let is_outer = depth == 0;
        depth -= usize::from(*character == ')' && depth > 0);
        is_outer
    };
    let outer: String = line.chars().filter(is_outer).collect();
    let last = outer.rsplit(['\n', ';', '|', '&']).find(|command| !command.trim().is_empty());
    let within = last.and_then(|command| command.rsplit(" -c ").next());
    let program = within.and_then(program).and_then(|program| program.rsplit('/').next());
    program.is_some_and(|program| SENDERS.contains(&program))
}

/// The program of one command of a shell, behind what may stand before it.
fn program(command: &str) -> Option<&str> {
    const BEFORE: [&str; 10] =
        ["!", "{", "do", "elif", "else", "exec", "if", "then", "while", "xargs"];
    let stands_before =
        |word: &str| BEFORE.contains(&word) || word.contains('=') || word.starts_with('-');
    command.split_whitespace().find(|word| !stands_before(word))
}

/// Where a program is looked for.
fn places(program: &str) -> Vec<PathBuf> {
    if program.contains('/') {
        return vec![PathBuf::from(program)];
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|directory| directory.join(program)).collect()
}

/// The script that this command line executes, or has a shell read. Of what the command may have made meanwhile, nothing
/// is shown but the name of a program.
fn script(line: &str) -> Option<String> {
    const LONGEST: u64 = 1 << 16;
    let mut words = line.split_whitespace();
    let tool = words.next()?;
    let read = |file: PathBuf| {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file = File::from(rustix::fs::open(file, flags, Mode::empty()).ok()?);
        let mut text = String::new();
        let is_file = file.metadata().ok()?.is_file();
        (is_file && file.take(LONGEST).read_to_string(&mut text).is_ok()).then_some(text)
    };
    let is_shell = tool.ends_with("sh");
    let read_by_shell = words.find(|word| !word.starts_with('-')).filter(|_| is_shell);
    let is_of_shell = |text: &String| {
        text.lines().next().is_some_and(|line| line.starts_with("#!") && line.contains("sh"))
    };
    let executed = || places(tool).into_iter().find_map(read).filter(is_of_shell);
    read_by_shell.and_then(|word| read(PathBuf::from(word))).or_else(executed)
}

/// What to do instead.
fn instead(refused: &[&str]) -> &'static str {
    const SEPARATE: [&str; 15] = [
        "chroot",
        "clone",
        "fsconfig",
        "fsmount",
        "fsopen",
        "fspick",
        "mount",
        "mount_setattr",
        "move_mount",
        "open_tree",
        "open_tree_attr",
        "pivot_root",
        "setns",
        "umount2",
        "unshare",
    ];
    match refused {
        ["bpf"] | ["perf_event_open"] | ["bpf", "perf_event_open"] => {
            " (inspects the kernel: run it outside)"
        }
        ["ptrace"] => " (of a process outside: run it outside, or start the program inside)",
        ["syslog"] => " (the kernel's log: read it outside)",
        _ if refused.iter().any(|call| SEPARATE.contains(call)) => {
            " (namespaces and mounts: run it outside, or without a sandbox of its own)"
        }
        _ => " (administers the machine: run it outside)",
    }
}

/// Whether a shell did not find a program, or the user ended the command.
fn says_why(status: i32) -> bool {
    const BY_USER: [i32; 4] = [128 + 1, 128 + 2, 128 + 13, 128 + 15];
    status == exit::NOT_FOUND || BY_USER.contains(&status)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_sends_signals_last_is_found() {
        for line in [
            "kill 1",
            "/bin/kill -9 1",
            "sh -c kill $(lsof -ti :3000 | head -1)",
            "bash -lc -c lsof -ti :3000 | xargs -r kill -9",
            "sh -c cd x && pkill -f server;\n",
        ] {
            assert!(ends_with_a_signal(line), "{line}");
        }
        for line in [
            "echo kill",
            "sh -c server & p=$!; test; kill $p; exit 1",
            "sh -c kill 1 || make",
            "sh -c trap 'kill $p' EXIT; make test",
            "make $(kill 1)",
            "))((",
            "",
        ] {
            assert!(!ends_with_a_signal(line), "{line}");
        }
    }
}

//! Mutated policies and command lines: an orderly error, or what they say.

use serde_json::Value;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;
use std::time::{Duration, Instant};
use tests::{Sandbox, programs};

/// xorshift64*: the mutations are the same in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % end.max(1)
    }

    fn pick<'a>(&mut self, words: &[&'a [u8]]) -> &'a [u8] {
        words[self.below(words.len())]
    }
}

/// What is worth inserting into a policy.
const TOKENS: [&[u8]; 32] = [
    b"{",
    b"}",
    b"[",
    b"]",
    b"\"",
    b",",
    b":",
    b"null",
    b"true",
    b"-1",
    b"1e999",
    b"\\u0000",
    b"\\ud800",
    b"\xff",
    b"\n",
    b"\0",
    b"\"filesystem\"",
    b"\"network\"",
    b"\"allowWrite\"",
    b"\"denyWrite\"",
    b"\"protected\"",
    b"[[[[[[[[",
    b"/",
    b"..",
    b"~",
    b"*",
    b"?",
    b"[!a",
    b"\x1b",
    b"99999999999999999999",
    b"&a [*a]",
    b"\xe2\x80\xae",
];

/// Changes a text in one to four places.
fn mutate(text: &mut Vec<u8>, random: &mut Random, tokens: &[&[u8]]) {
    for _ in 0..=random.below(4) {
        let at = random.below(text.len() + 1);
        let end = (at + random.below(12)).min(text.len());
        match random.below(6) {
            0 => drop(text.splice(at..at, random.pick(tokens).iter().copied())),
            1 => drop(text.splice(at..end, random.pick(tokens).iter().copied())),
            2 => drop(text.drain(at..end)),
            3 => {
                let copy = text[at..end].to_vec();
                let to = random.below(text.len() + 1);
                drop(text.splice(to..to, copy));
            }
            4 if at < text.len() => text[at] ^= 1 << random.below(8),
            _ if random.below(8) == 0 => text.truncate(at),
            _ => {}
        }
    }
}

/// Runs the launcher with few threads and files, thousands of times.
fn run_quickly(sandbox: &Sandbox, args: &[OsString]) -> (Option<i32>, String, String) {
    let mut command = std::process::Command::new(programs().landstrip());
    command.args(args).current_dir(sandbox.path("work")).env_clear();
    command.env("PATH", "/usr/bin:/bin").env("HOME", sandbox.path("home"));
    // Into files: a mutated tool may print more than a pipe holds.
    let (out, err) = (sandbox.path("quick-out"), sandbox.path("quick-err"));
    let stream = |path| Stdio::from(std::fs::File::create(path).unwrap());
    command.stdin(Stdio::null()).stdout(stream(&out)).stderr(stream(&err));
    let mut child = command.spawn().unwrap();
    let end = Instant::now() + Duration::from_secs(120);
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if Instant::now() > end {
            let _ = child.kill();
            panic!("hangs: {args:?}");
        }
        std::thread::sleep(Duration::from_micros(300));
    };
    let text = |path| String::from_utf8_lossy(&std::fs::read(path).unwrap()).into_owned();
    let (stdout, stderr) = (text(&out), text(&err));
    assert_eq!(status.signal(), None, "{args:?}: {stderr}");
    (status.code(), stdout, stderr)
}

/// What holds whatever was given: no panic, and an error of landstrip is one line, and nothing ran.
fn orderly(status: Option<i32>, stdout: &str, stderr: &str, given: &str) -> bool {
    let ran = stdout.contains("file-creat=");
    assert!(!matches!(status, None | Some(101 | 134 | 139)), "{given}: {stderr}");
    assert!(!stderr.contains("panicked"), "{given}: {stderr}");
    if matches!(status, Some(2 | 125)) {
        assert!(!ran, "the tool ran although landstrip failed: {given}");
        let line: Value = serde_json::from_str(stderr.trim_end())
            .unwrap_or_else(|error| panic!("{given}: {error}: {stderr}"));
        let kind = if status == Some(2) { "Usage" } else { "Internal" };
        assert!(line.get(kind).is_some(), "{given}: {stderr}");
    }
    ran
}

/// Whether a policy text, read strictly by another parser, protects `protected` from writes.
fn protects(text: &[u8]) -> bool {
    let Ok(policy) = serde_json::from_slice::<Value>(text) else { return false };
    let list = |key: &str| match &policy["filesystem"][key] {
        Value::Array(entries) => entries.clone(),
        Value::String(lines) => lines.lines().map(|l| Value::from(l.trim())).collect(),
        _ => Vec::new(),
    };
    list("denyWrite").contains(&Value::from("protected")) || list("allowWrite").is_empty()
}

#[test]
fn mutated_policies_give_an_orderly_error_or_full_protection() {
    let sandbox = Sandbox::new();
    let valid =
        br#"{"filesystem":{"allowWrite":[".","../outside"],"denyWrite":["protected","*.key"],
        "allowWriteInside":["protected/open"],"denyRead":["secret"],"allowRead":["secret/open"]},
        "network":{"allowNetwork":false,"httpProxyPort":3128,"allowUnixSockets":[]}}"#;
    let yaml =
        b"filesystem:\n  allowWrite: [., ../outside]\n  denyWrite: |\n    protected\n    *.key\n\
        network:\n  httpProxyPort: 3128\n  allowedDomains: []\n";
    sandbox.dir("work/secret");
    let words = Sandbox::probe_words("file creat marker + file write protected");
    let mut random = Random(0x1a2d_57e1_9000_0001);
    let (mut accepted, mut refused) = (0, 0);
    for round in 0..7000 {
        let is_json = round % 3 != 0;
        let mut text = if is_json { valid.to_vec() } else { yaml.to_vec() };
        mutate(&mut text, &mut random, &TOKENS);
        sandbox.file("work/protected", "kept");
        let policy = sandbox.file(if is_json { "m.json" } else { "m.yaml" }, &text);
        let mut args: Vec<OsString> = vec!["-p".into(), policy.into(), "--".into()];
        args.extend(words.iter().cloned());
        let given = format!("round {round}: {}", String::from_utf8_lossy(&text));
        let (status, stdout, stderr) = run_quickly(&sandbox, &args);
        if orderly(status, &stdout, &stderr, &given) {
            accepted += 1;
        } else {
            refused += 1;
        }
        if is_json && protects(&text) {
            assert_eq!(sandbox.read("work/protected"), "kept", "{given}");
        }
    }
    println!("{accepted} accepted, {refused} refused");
    assert!(accepted > 100 && refused > 100, "{accepted} accepted, {refused} refused");
}

#[test]
fn mutated_command_lines_give_an_orderly_error_or_run_the_tool() {
    let sandbox = Sandbox::new();
    let policy = sandbox.file("open.json", r#"{"filesystem":{"allowWrite":["."]}}"#);
    let tokens: [&[u8]; 20] = [
        b"-p",
        b"--policy",
        b"--policy=",
        b"--format",
        b"json",
        b"yaml",
        b"--format=json",
        b"--trap-fd",
        b"3",
        b"--trap-fd=1",
        b"--check",
        b"--debug",
        b"--",
        b"-",
        b"",
        b"=",
        b"--version",
        b"-hV",
        b"\xff\xfe",
        b"\x1b]0;x\x07\n",
    ];
    let mut random = Random(0x1a2d_57e1_9000_0002);
    for round in 0..3000 {
        let mut args: Vec<OsString> =
            vec!["-p".into(), policy.clone().into(), "--format".into(), "json".into(), "--".into()];
        args.extend(Sandbox::probe_words("file creat marker"));
        for _ in 0..=random.below(3) {
            let at = random.below(args.len());
            match random.below(5) {
                0 => drop(args.remove(at)),
                1 => args.insert(at, OsString::from_vec(random.pick(&tokens).to_vec())),
                2 => args[at] = OsString::from_vec(random.pick(&tokens).to_vec()),
                3 => {
                    let other = random.below(args.len());
                    args.swap(at, other);
                }
                _ => {
                    let mut word = args[at].clone().into_vec();
                    mutate(&mut word, &mut random, &tokens);
                    word.retain(|byte| *byte != 0);
                    args[at] = OsString::from_vec(word);
                }
            }
            if args.is_empty() {
                break;
            }
        }
        let given = format!("round {round}: {args:?}");
        let (status, stdout, stderr) = run_quickly(&sandbox, &args);
        orderly(status, &stdout, &stderr, &given);
    }
}

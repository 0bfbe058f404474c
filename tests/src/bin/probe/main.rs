//! The attacker: one static program that tries what a command in the sandbox must not do.
//!
//! `probe OP ARG... [+ OP ARG...]` runs the operations in one process and prints a line
//! `NAME=OK` or `NAME=ERRNO` for each call that matters. It exits with 0 whatever the results:
//! the tests judge, and take the truth from outside. Outside the sandbox it is the allowed twin.

mod calls;
mod carve;
mod file;
mod ipc;
mod kernel;
mod meta;
mod net;
mod older;
mod process;
mod proxy;
mod race;
mod shm;
mod sys;
mod udp;

use std::io::Write;

/// Prints one result line, unbuffered, so that it survives being killed by the next call.
fn say<T>(name: &str, result: sys::Result<T>) {
    let text = match result {
        Ok(_) => "OK".to_owned(),
        Err(errno) => sys::name(errno),
    };
    tell(name, &text);
}

/// Prints one `name=value` line.
fn tell(name: &str, value: &str) {
    let mut out = std::io::stdout();
    let _ = out.write_all(format!("{name}={value}\n").as_bytes());
    let _ = out.flush();
}

/// A numeric argument, decimal or 0x.
fn number(text: &str) -> usize {
    let parsed = match text.strip_prefix("0x") {
        Some(hex) => usize::from_str_radix(hex, 16),
        None => text.parse(),
    };
    parsed.unwrap_or_else(|_| usage(&format!("not a number: {text}")))
}

fn usage(message: &str) -> ! {
    eprintln!("probe: {message}");
    std::process::exit(64)
}

fn main() {
    let args = std::env::args_os().skip(1);
    let args: Vec<String> = args.map(|word| word.to_string_lossy().into_owned()).collect();
    for words in args.split(|word| word == "+") {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let Some((op, rest)) = words.split_first() else { usage("an operation is missing") };
        let known = net::run(op, rest)
            || race::run(op, rest)
            || file::run(op, rest)
            || meta::run(op, rest)
            || calls::run(op, rest)
            || carve::run(op, rest)
            || process::run(op, rest)
            || kernel::run(op, rest)
            || ipc::run(op, rest)
            || shm::run(op, rest)
            || udp::run(op, rest)
            || proxy::run(op, rest);
        if !known {
            usage(&format!("unknown operation or wrong arguments: {}", words.join(" ")));
        }
    }
}

//! The filtering proxy. This version has none: it tells its own version, and the broker refuses
//! policies that name domains.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    println!("landstrip-proxy {}", env!("CARGO_PKG_VERSION"));
    ExitCode::SUCCESS
}

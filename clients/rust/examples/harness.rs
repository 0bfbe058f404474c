//! A harness of one file, which carries landstrip: `harness POLICY PROGRAM [WORD...]`.

use landstrip_client::{Command, become_landstrip_by_name};
use std::path::Path;

fn main() -> std::io::Result<()> {
    // Started as `landstrip`, it is landstrip.
    become_landstrip_by_name();
    let mut words = std::env::args_os().skip(1);
    let (Some(policy), Some(program)) = (words.next(), words.next()) else {
        eprintln!("usage: harness POLICY PROGRAM [WORD...]");
        std::process::exit(2);
    };
    let command = Command::embedded(program).args(words).policy(Path::new(&policy));
    let outcome = command.status()?;
    for denial in &outcome.denials {
        println!("refused: {} {:?}", denial.operation, denial.target);
    }
    std::process::exit(outcome.status)
}

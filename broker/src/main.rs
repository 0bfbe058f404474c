//! The broker: loads the policy, launches the command, answers its notifications, reaps it.

mod cli;
mod compile;
mod policy;

fn main() {
    println!("landstrip-broker {}", env!("CARGO_PKG_VERSION"));
}

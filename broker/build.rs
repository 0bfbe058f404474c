//! Compiles the system call filter for every variant, so that a launch only picks one.

use landstrip_filter::Variant;
use std::collections::HashMap;
use std::error::Error;
use std::path::PathBuf;
use std::{env, fs};

fn main() -> Result<(), Box<dyn Error>> {
    // Cargo runs this again whenever the filter's crate has changed.
    println!("cargo::rerun-if-changed=build.rs");
    let directory = env::var_os("OUT_DIR").map(PathBuf::from).ok_or("OUT_DIR is not set")?;
    let mut programs = Vec::new();
    let mut places = HashMap::new();
    let mut index = Vec::new();
    for variant in Variant::every() {
        let program = landstrip_filter::compile(variant)?;
        let program = landstrip_filter::encode(&program);
        let length = program.len();
        // Not every flag makes a difference beside every other.
        let start = *places.entry(program).or_insert_with_key(|program| {
            programs.extend_from_slice(program);
            programs.len() - program.len()
        });
        index.push((start, start + length));
    }
    fs::write(directory.join("filters.bin"), programs)?;
    fs::write(directory.join("filters.rs"), format!("{index:?}"))?;
    Ok(())
}

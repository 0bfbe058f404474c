//! Compiles the system call filter for every variant, so that a launch only picks one.

use landstrip_filter::{Arch, Program, Variant};
use std::collections::HashMap;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() -> Result<(), Box<dyn Error>> {
    // Cargo runs this again whenever the filter's crate has changed.
    println!("cargo::rerun-if-changed=build.rs");
    let directory = env::var_os("OUT_DIR").map(PathBuf::from).ok_or("OUT_DIR is not set")?;
    compile_filters(&directory)
}

/// Compiles the filters into `filters.bin`, each different one once, and where each variant has its own into
/// `filters.rs`.
fn compile_filters(directory: &Path) -> Result<(), Box<dyn Error>> {
    // Not the host's, on which this runs.
    let target = env::var("CARGO_CFG_TARGET_ARCH")?;
    let arch = Arch::named(&target)
        .ok_or_else(|| format!("landstrip's filter does not know the system calls of {target}"))?;
    let mut programs = Vec::new();
    let mut places = HashMap::new();
    let mut index = vec![(0, 0); Variant::COUNT];
    for variant in Variant::every() {
        let program = Program::compile(arch, variant)?.to_bytes();
        let length = program.len();
        // Not every flag makes a difference beside every other.
        let start = *places.entry(program).or_insert_with_key(|program| {
            programs.extend_from_slice(program);
            programs.len() - program.len()
        });
        index[variant.index()] = (start, start + length);
    }
    fs::write(directory.join("filters.bin"), programs)?;
    fs::write(directory.join("filters.rs"), format!("{index:?}"))?;
    Ok(())
}

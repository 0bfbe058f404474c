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

/// Compiles the filters into `filters.bin`, each different one once, as numbers of the instructions in
/// `instructions.bin`, and where each variant has its own into `filters.rs`.
fn compile_filters(directory: &Path) -> Result<(), Box<dyn Error>> {
    // Not the host's, on which this runs.
    let target = env::var("CARGO_CFG_TARGET_ARCH")?;
    let arch = Arch::named(&target)
        .ok_or_else(|| format!("landstrip's filter does not know the system calls of {target}"))?;
    let (mut programs, mut instructions) = (Vec::new(), Vec::new());
    let (mut places, mut numbers) = (HashMap::new(), HashMap::new());
    let mut index = vec![(0, 0); Variant::COUNT];
    for variant in Variant::every() {
        let mut program = Vec::new();
        for instruction in Program::compile(arch, variant)?.to_bytes().as_chunks::<8>().0 {
            let new = u16::try_from(instructions.len())?;
            let number = *numbers.entry(*instruction).or_insert(new);
            instructions.extend((number == new).then_some(*instruction));
            program.extend(number.to_le_bytes());
        }
        // Not every flag makes a difference beside every other.
        index[variant.index()] = *places.entry(program).or_insert_with_key(|program| {
            programs.extend_from_slice(program);
            (programs.len() - program.len(), programs.len())
        });
    }
    fs::write(directory.join("filters.bin"), programs)?;
    fs::write(directory.join("instructions.bin"), instructions.as_flattened())?;
    fs::write(directory.join("filters.rs"), format!("{index:?}"))?;
    Ok(())
}

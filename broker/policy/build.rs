//! Parses the presets, so that a launch only picks one.

// Of these the crate uses more.
#[allow(dead_code, unreachable_pub)]
#[path = "src/document.rs"]
mod document;
#[path = "src/elsewhere.rs"]
mod elsewhere;
#[allow(dead_code, unreachable_pub)]
#[path = "src/packed.rs"]
mod packed;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    let directory = env::var_os("OUT_DIR").map(PathBuf::from).ok_or("OUT_DIR is not set")?;
    pack_presets(&directory)
}

/// Packs `../presets/NAME.yaml` into `NAME.packed`.
fn pack_presets(directory: &Path) -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=../presets");
    for file in fs::read_dir("../presets")? {
        let file = file?.path();
        let wrong = |message: &str| format!("{}: {message}", file.display());
        let document = document::parse(&fs::read(&file)?, document::Format::Yaml)
            .map_err(|error| wrong(&format!("line {:?}: {}", error.line, error.message)))?;
        let mut packed = String::new();
        packed::pack(&document, &mut packed).ok_or_else(|| wrong("cannot be packed"))?;
        let name = file.with_extension("packed");
        fs::write(directory.join(name.file_name().unwrap_or_default()), packed)?;
    }
    Ok(())
}

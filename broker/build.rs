//! Compiles the system call filter for every set of options, so that a launch only picks one.

use std::error::Error;
use std::fmt::Write;
use std::path::Path;
use std::{env, fs};

/// The modules of the broker that this takes.
#[path = "src/compile"]
mod compile {
    pub(crate) mod filter;
    pub(crate) mod options;
}

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src/compile/filter");
    println!("cargo::rerun-if-changed=src/compile/options.rs");
    let mut filters = String::from("[\n");
    for options in compile::options::Options::all() {
        let program = compile::filter::compile(&options)?;
        writeln!(filters, "&{:?},", compile::filter::encode(&program))?;
    }
    filters.push(']');
    let directory = env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?;
    fs::write(Path::new(&directory).join("filters.rs"), filters)?;
    Ok(())
}

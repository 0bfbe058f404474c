//! Holds every program and crate to files of a size that can be read at once.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};

fn sources(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries
        .flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] })
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .collect()
}

#[test]
fn no_file_is_long() {
    let workspace = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    for source in [
        "broker/src",
        "broker/core/src",
        "broker/filter/src",
        "broker/kernel/src",
        "broker/people/src",
        "broker/policy/src",
        "broker/rules/src",
        "proxy/src",
        "common/src",
        "launcher/src",
    ] {
        for path in
            sources(&workspace.join(source)).iter().filter(|path| !path.ends_with("tests.rs"))
        {
            let text = fs::read_to_string(path).unwrap();
            let product = text.split("\n#[cfg(test)]\nmod ").next().unwrap();
            let lines = product.lines().count();
            assert!(lines <= 450, "{}: {lines} lines without its tests", path.display());
        }
    }
}

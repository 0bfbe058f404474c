//! Holds every program and crate to files of a size that can be read at once, and AUDIT.md to what there is.

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

#[test]
fn the_audit_names_every_file_of_the_trusted_part_and_tests_that_exist() {
    let workspace = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    let audit = fs::read_to_string(workspace.join("AUDIT.md")).unwrap();
    let crates =
        ["launcher", "common", "broker/rules", "broker/kernel", "broker/filter", "broker/core"];
    let roots = crates.map(|name| workspace.join(name).join("src"));
    let is_of_tests = |path: &Path| {
        let name = path.file_name().unwrap().to_str().unwrap();
        name == "house.rs"
            || name.ends_with("tests.rs")
            || path.parent().unwrap().ends_with("tests")
    };
    let files = roots.iter().flat_map(|root| sources(root));
    for path in files.filter(|path| !is_of_tests(path)) {
        let name = format!("`{}`", path.file_name().unwrap().to_str().unwrap());
        assert!(audit.contains(&name), "AUDIT.md does not name {}", path.display());
    }
    let suite = fs::read_to_string(workspace.join("tests/tests/suite/main.rs")).unwrap();
    let last_cells = audit.lines().filter(|line| line.matches('|').count() == 4);
    for cell in last_cells.filter_map(|line| line.split('|').nth(3)) {
        for module in cell.split('`').skip(1).step_by(2) {
            assert!(suite.contains(&format!("\nmod {module};")), "no tests are called {module}");
        }
    }
}

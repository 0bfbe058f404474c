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

/// The files of all programs and crates, without those that are tests.
fn product() -> Vec<PathBuf> {
    let workspace = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    let crates = [
        "broker/src",
        "broker/core/src",
        "broker/filter/src",
        "broker/kernel/src",
        "broker/limits/src",
        "broker/people/src",
        "broker/policy/src",
        "broker/routes/src",
        "broker/rules/src",
        "broker/sysv/src",
        "proxy/src",
        "proxy/hosts/src",
        "proxy/url/src",
        "common/src",
        "launcher/src",
    ];
    let all = crates.iter().flat_map(|source| sources(&workspace.join(source)));
    let is_test =
        |path: &PathBuf| path.ends_with("tests.rs") || path.parent().unwrap().ends_with("tests");
    all.filter(|path| !is_test(path)).collect()
}

fn without_tests(text: &str) -> &str {
    text.split("\n#[cfg(test)]\nmod tests").next().unwrap()
}

#[test]
fn no_file_is_long() {
    for path in product() {
        let text = fs::read_to_string(&path).unwrap();
        let lines = without_tests(&text).lines().count();
        assert!(lines <= 450, "{}: {lines} lines without its tests", path.display());
    }
}

/// The functions in `text`, formatted as rustfmt does: their names, and how many lines each has.
fn functions(text: &str) -> impl Iterator<Item = (&str, usize)> {
    let lines: Vec<_> = text.lines().collect();
    let indent = |line: &str| line.len() - line.trim_start().len();
    (0..lines.len()).filter_map(move |at| {
        let (before, after) = lines[at].split_once("fn ")?;
        let is_modifier = |word: &str| {
            ["const", "async", "unsafe", "extern", "\"C\"", "in"].contains(&word)
                || word.starts_with("pub")
        };
        let is_end = |line: &&&str| {
            let is_last = line.ends_with(['}', ';']);
            is_last && indent(line) == indent(lines[at])
        };
        let length = lines[at..].iter().position(|line| is_end(&line)).map_or(0, |last| last + 1);
        let name = after.split(['(', '<']).next()?;
        before.split_whitespace().all(is_modifier).then_some((name, length))
    })
}

#[test]
fn no_function_is_long() {
    let text = "    pub(crate) fn a<T>(\n    ) {\n        }\n    }\nconst fn b() {}\n    fn c(\n    );\n// fn d(\n";
    assert_eq!(functions(text).collect::<Vec<_>>(), [("a", 4), ("b", 1), ("c", 2)]);
    let mut seen = 0;
    for path in product() {
        let text = fs::read_to_string(&path).unwrap();
        for (name, lines) in functions(without_tests(&text)) {
            assert!(lines <= 80, "{}: {name} has {lines} lines", path.display());
            seen += 1;
        }
    }
    assert!(seen > 1000, "{seen} functions were found");
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

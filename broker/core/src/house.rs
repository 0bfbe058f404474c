//! Holds the house to what the crate's documentation says of it: which room may import from which.

#![allow(clippy::unwrap_used)]

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Each imports only from those before it, as the table in the crate's documentation has them.
const ROOMS: [&str; 12] = [
    "report", "call", "ipc", "signals", "jobs", "files", "sockets", "compile", "domains", "ask",
    "answer", "session",
];

fn sources(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries
        .flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] })
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .collect()
}

/// The code of a file, without its tests and comments.
fn code(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    let product = text.split("#[cfg(test)]").next().unwrap();
    product.lines().map(|line| line.split("//").next().unwrap()).collect::<Vec<_>>().join("\n")
}

#[test]
fn no_room_imports_from_one_after_it() {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src"));
    let order: HashMap<_, _> =
        ROOMS.iter().enumerate().map(|(number, room)| (*room, number)).collect();
    let mut seen = 0;
    for path in sources(root) {
        let name = path.strip_prefix(root).unwrap();
        let room = name.iter().next().unwrap().to_str().unwrap().trim_end_matches(".rs");
        if ["lib", "house"].contains(&room) {
            continue;
        }
        let number = *order.get(room).unwrap_or_else(|| panic!("{room} has no place in the house"));
        let text = code(&path);
        let words = text.split("crate::").skip(1);
        for import in words
            .map(|rest| rest.split(|c: char| !(c.is_alphanumeric() || c == '_')).next().unwrap())
        {
            let from =
                order.get(import).unwrap_or_else(|| panic!("{}: crate::{import}", name.display()));
            assert!(*from <= number, "{} imports from {import}, which comes later", name.display());
            seen += 1;
        }
    }
    assert!(seen > 100, "{seen} imports were found");
}

#[test]
fn the_documentation_names_every_room() {
    let text = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/src/lib.rs")).unwrap();
    let mut rest = text.as_str();
    for room in ROOMS {
        let rows = [format!("//! | [`{room}`] |"), format!("//! | `{room}` |")];
        let at = rows
            .iter()
            .find_map(|row| rest.find(row))
            .unwrap_or_else(|| panic!("{room} is missing, or out of order"));
        rest = &rest[at..];
    }
}

//! Policies as typed data of the client for JavaScript, made from the table of keys: tsc finds a misspelt key. Keys
//! without a meaning here are left out.
//!
//! It is a file of the repository, `clients/javascript/policy.d.ts`, which a test compares.

#![allow(clippy::unwrap_used)]

use crate::amounts::Unit;
use crate::keys::{KEYS, Key, Value as Kind, objects};
use std::fmt::Write;

const TYPES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../clients/javascript/policy.d.ts");

const WRITTEN: &str = "Written by the broker's unit tests, from its table of keys: LANDSTRIP_WRITE_TABLE=1 cargo test";

/// The keys in `object` that have a meaning.
fn keys(object: &str) -> impl Iterator<Item = &'static Key> {
    KEYS.iter().filter(move |key| key.place().0 == object && !key.summary.is_empty())
}

/// What the keys of an object are called together.
fn rules(object: &str) -> String {
    let (first, rest) = object.split_at(1);
    format!("{}{rest}Rules", first.to_uppercase())
}

/// The lists of each object, from which rules can be taken out.
fn without() -> String {
    let lists = |object: &str| {
        let lists = keys(object).filter(|key| matches!(key.value, Kind::List(_)));
        let names: Vec<_> = lists.map(|key| format!("\"{}\"", key.place().1)).collect();
        let picked = format!("{object}?: Pick<{}, {}>; ", rules(object), names.join(" | "));
        if names.is_empty() { String::new() } else { picked }
    };
    format!("{{ {}}} | null", objects().map(lists).collect::<String>())
}

fn javascript() -> String {
    let mut text = format!("// {WRITTEN}.\n\n");
    text += "/** A list of a policy: strings, or one string with an item a line. */\n";
    text += "export type List = string[] | string | null;\n";
    let of = |key: &Key| match key.value {
        Kind::List(_) | Kind::Choice(_) => "List".to_owned(),
        Kind::Settings(_) => "Record<string, string | null> | null".to_owned(),
        Kind::Switch(..) => "boolean | null".to_owned(),
        Kind::Word(_, words) => {
            words.iter().map(|word| format!("\"{word}\" | ")).collect::<String>() + "null"
        }
        Kind::Port(_) | Kind::Amount(_, Unit::Count | Unit::Seconds) => "number | null".to_owned(),
        Kind::Amount(_, Unit::Bytes) => "number | string | null".to_owned(),
        Kind::Without => without(),
        Kind::Note => "string".to_owned(),
        Kind::Ignored | Kind::NotBuilt(_) => unreachable!(),
    };
    let mut interface = |name: &str, about: &str, object: &str, more: &str| {
        write!(text, "\n/** {about} */\nexport interface {name} {{\n").unwrap();
        for key in keys(object) {
            let name = key.place().1;
            write!(text, "  /** {} */\n  {name}?: {};\n", key.summary, of(key)).unwrap();
        }
        writeln!(text, "{more}}}").unwrap();
    };
    let objects: Vec<_> = objects().filter(|object| keys(object).next().is_some()).collect();
    let nested: String =
        objects.iter().map(|name| format!("  {name}?: {} | null;\n", rules(name))).collect();
    interface("Policy", "A policy, as landstrip-policy(5) describes it.", "", &nested);
    for object in objects {
        interface(&rules(object), &format!("The keys in `{object}`."), object, "");
    }
    text
}

/// Run with `LANDSTRIP_WRITE_TABLE=1` to write the file anew.
#[test]
fn the_types_of_the_client_have_every_key() {
    let text = javascript();
    if std::env::var_os("LANDSTRIP_WRITE_TABLE").is_some() {
        std::fs::write(TYPES, &text).unwrap();
    }
    let written = std::fs::read_to_string(TYPES).unwrap_or_default();
    assert_eq!(written, text, "run this test with LANDSTRIP_WRITE_TABLE=1");
}

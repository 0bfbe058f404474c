//! Policies as typed data of the clients for JavaScript, Python and Rust, made from the table of keys: compilers find a
//! misspelt key. Keys without a meaning here are left out.
//!
//! They are files of the repository, in `clients`, which a test compares.

#![allow(clippy::unwrap_used)]

use crate::amounts::Unit;
use crate::keys::{KEYS, Key, Value as Kind, objects};
use std::fmt::Write;

const CLIENTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../clients/");

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

/// The lists in an object, from which rules can be taken out.
fn lists(object: &str) -> impl Iterator<Item = &'static Key> {
    keys(object).filter(|key| matches!(key.value, Kind::List(_)))
}

/// The objects that a policy holds.
fn nested() -> Vec<&'static str> {
    objects().filter(|object| keys(object).next().is_some()).collect()
}

fn without() -> String {
    let lists = |object: &str| {
        let names: Vec<_> = lists(object).map(|key| format!("\"{}\"", key.place().1)).collect();
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
        Kind::Lists(_) => "Record<string, List> | null".to_owned(),
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
    let objects = nested();
    let nested: String =
        objects.iter().map(|name| format!("  {name}?: {} | null;\n", rules(name))).collect();
    interface("Policy", "A policy, as landstrip-policy(5) describes it.", "", &nested);
    for object in objects {
        interface(&rules(object), &format!("The keys in `{object}`."), object, "");
    }
    text
}

fn python() -> String {
    let mut text = format!("\"\"\"Policies as typed data. {WRITTEN}.\"\"\"\n\n");
    text += "import typing\nfrom typing import Literal, Optional, TypedDict, Union\n\n";
    text += "#: A list of a policy: strings, or one string with an item a line.\n";
    text += "List = Union[typing.List[str], typing.Tuple[str, ...], str, None]\n";
    let of = |key: &Key| match key.value {
        Kind::List(_) | Kind::Choice(_) => "List".to_owned(),
        Kind::Lists(_) => "Optional[typing.Dict[str, List]]".to_owned(),
        Kind::Settings(_) => "Optional[typing.Dict[str, Optional[str]]]".to_owned(),
        Kind::Switch(..) => "Optional[bool]".to_owned(),
        Kind::Word(_, words) => {
            let words: Vec<_> = words.iter().map(|word| format!("\"{word}\"")).collect();
            format!("Optional[Literal[{}]]", words.join(", "))
        }
        Kind::Port(_) | Kind::Amount(_, Unit::Count | Unit::Seconds) => "Optional[int]".to_owned(),
        Kind::Amount(_, Unit::Bytes) => "Union[int, str, None]".to_owned(),
        Kind::Without => "Optional[Without]".to_owned(),
        Kind::Note => "str".to_owned(),
        Kind::Ignored | Kind::NotBuilt(_) => unreachable!(),
    };
    let mut class = |name: &str, about: &str, fields: String| {
        write!(
            text,
            "\n\nclass {name}(TypedDict, total=False):\n    \"\"\"{about}\"\"\"\n\n{fields}"
        )
        .unwrap();
    };
    let field = |key: &Key| format!("    #: {}\n    {}: {}\n", key.summary, key.place().1, of(key));
    let optional = |name: &str, class: &str| format!("    {name}: Optional[{class}]\n");
    let objects = nested();
    for object in &objects {
        let about = format!("The keys in ``{object}``.");
        class(&rules(object), &about, keys(object).map(field).collect());
    }
    let mut without = String::new();
    for object in &objects {
        let fields: String =
            lists(object).map(|key| format!("    {}: List\n", key.place().1)).collect();
        if !fields.is_empty() {
            let name = format!("{}Without", rules(object));
            class(&name, &format!("The lists in ``{object}``."), fields);
            without += &optional(object, &name);
        }
    }
    class("Without", "Rules to take out of what a policy extends.", without);
    // What is no name in Python.
    let (plain, odd): (Vec<_>, Vec<_>) = keys("").partition(|key| !key.path.starts_with('$'));
    let odd: String = odd.iter().map(|key| format!("\"{}\": {}, ", key.path, of(key))).collect();
    let nested: String = objects.iter().map(|name| optional(name, &rules(name))).collect();
    let fields = plain.into_iter().map(field).collect::<String>() + &nested;
    write!(
        text,
        "\n\n_Odd = TypedDict(\"_Odd\", {{{}}}, total=False)\n",
        odd.trim_end_matches(", ")
    )
    .unwrap();
    write!(text, "\n\nclass Policy(_Odd, total=False):\n    ").unwrap();
    write!(text, "\"\"\"A policy, as landstrip-policy(5) describes it.\"\"\"\n\n{fields}").unwrap();
    text
}

fn rust() -> String {
    let mut text = format!("//! Policies as typed data. {WRITTEN}.\n\n");
    text += "use serde_json::{Map, Value, json};\nuse std::collections::BTreeMap;\n";
    let snake = |name: &str| {
        let name = name.trim_start_matches('$');
        name.chars().fold(String::new(), |text, c| match c.is_uppercase() {
            true => format!("{text}_{}", c.to_ascii_lowercase()),
            false => format!("{text}{c}"),
        })
    };
    let of = |key: &Key| match key.value {
        Kind::List(_) => "Vec<String>",
        Kind::Choice(_) => "Option<Vec<String>>",
        Kind::Lists(_) => "BTreeMap<String, Vec<String>>",
        Kind::Settings(_) => "BTreeMap<String, Option<String>>",
        Kind::Switch(..) => "Option<bool>",
        Kind::Word(..) | Kind::Note => "Option<String>",
        Kind::Port(_) => "Option<u16>",
        Kind::Amount(..) => "Option<u64>",
        Kind::Without => "Without",
        Kind::Ignored | Kind::NotBuilt(_) => unreachable!(),
    };
    let objects = nested();
    // Of each field: what it is called in a policy, its type, and what is said of it.
    let mut structure = |name: &str, about: &str, fields: &[(&str, &str, String)]| {
        write!(text, "\n/// {about}\n#[derive(Debug, Clone, Default, PartialEq, Eq)]\n").unwrap();
        writeln!(text, "pub struct {name} {{").unwrap();
        for (field, of, about) in fields {
            write!(text, "    /// {about}\n    pub {}: {of},\n", snake(field)).unwrap();
        }
        write!(text, "}}\n\nimpl {name} {{\n    pub(crate) fn to_json(&self) -> Value {{\n")
            .unwrap();
        text += "        let mut object = Map::new();\n";
        for (field, of, _) in fields {
            let own = snake(field);
            let is_own =
                objects.iter().any(|object| rules(object) == *of) || of.contains("Without");
            let json =
                if is_own { format!("self.{own}.to_json()") } else { format!("json!(self.{own})") };
            let test = match *of {
                of if of.starts_with("Option") => format!("self.{own}.is_some()"),
                _ if is_own => format!("self.{own} != {of}::default()"),
                _ => format!("!self.{own}.is_empty()"),
            };
            let insert = format!("object.insert(\"{field}\".into(), {json});");
            // As rustfmt has lines of more than 100 columns.
            let insert = match 12 + insert.len() > 100 {
                true => format!(
                    "object.insert(\n                \"{field}\".into(),\n                {json},\n            );"
                ),
                false => insert,
            };
            write!(text, "        if {test} {{\n            {insert}\n        }}\n").unwrap();
        }
        text += "        object.into()\n    }\n}\n";
    };
    let field = |key: &'static Key| (key.place().1, of(key), format!("{}.", key.summary));
    let types: Vec<_> =
        objects.iter().map(|object| (rules(object), rules(object) + "Without")).collect();
    let (mut own, mut without) = (Vec::new(), Vec::new());
    for (object, (name, picked)) in objects.iter().zip(&types) {
        structure(
            name,
            &format!("The keys in `{object}`."),
            &keys(object).map(field).collect::<Vec<_>>(),
        );
        own.push((*object, name.as_str(), format!("The keys in `{object}`.")));
        let fields: Vec<_> = lists(object).map(field).collect();
        if !fields.is_empty() {
            structure(picked, &format!("The lists in `{object}`."), &fields);
            without.push((*object, picked.as_str(), format!("Of `{object}`.")));
        }
    }
    structure("Without", "Rules to take out of what a policy extends.", &without);
    let fields: Vec<_> = keys("").map(field).chain(own).collect();
    structure("Policy", "A policy, as landstrip-policy(5) describes it.", &fields);
    text
}

/// Run with `LANDSTRIP_WRITE_TABLE=1` to write the files anew.
#[test]
fn the_types_of_the_clients_have_every_key() {
    let files = [
        ("javascript/policy.d.ts", javascript()),
        ("python/landstrip/policy.py", python()),
        ("rust/src/policy.rs", rust()),
    ];
    for (name, text) in files {
        let path = format!("{CLIENTS}{name}");
        if std::env::var_os("LANDSTRIP_WRITE_TABLE").is_some() {
            std::fs::write(&path, &text).unwrap();
        }
        let written = std::fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(written, text, "run this test with LANDSTRIP_WRITE_TABLE=1");
    }
}

//! The JSON Schema of policies, made from the table of keys: with it an editor completes and checks a policy. What
//! it cannot say, such as that a path is not empty in a string of lines, `--check` says.
//!
//! It is a file of the repository, `broker/policy.schema.json`, which a test compares.

#![allow(clippy::unwrap_used)]

use super::keys::{KEYS, Key, Value as Kind, objects};
use super::presets::PRESETS;
use serde_json::{Map, Value, json};

const SCHEMA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../policy.schema.json");

fn is_list(key: &Key) -> bool {
    matches!(key.value, Kind::List(_) | Kind::Choice(_))
}

/// What may stand for `key`. null is the same as no key.
fn value(key: &Key) -> Value {
    let text = json!({ "type": "string", "minLength": 1 });
    let strings = |items: Value| json!({ "type": ["array", "string", "null"], "items": items });
    let mut schema = match key.value {
        Kind::List(_) if key.path == "extends" => {
            let presets = PRESETS.map(|(name, _)| name);
            strings(json!({ "anyOf": [{ "enum": presets }, text] }))
        }
        Kind::List(_) | Kind::Choice(_) => strings(text),
        Kind::Lists(_) => {
            json!({ "type": ["object", "null"], "additionalProperties": strings(text) })
        }
        Kind::Settings(_) => json!({ "type": ["object", "null"],
            "additionalProperties": { "type": ["string", "null"] } }),
        Kind::Switch(_, effect) => {
            json!({ "type": ["boolean", "null"], "default": !effect.of })
        }
        Kind::Word(_, words) => {
            let words: Vec<_> =
                words.iter().copied().map(Value::from).chain([Value::Null]).collect();
            json!({ "enum": words, "default": words[0] })
        }
        Kind::Port(_) => json!({ "type": ["integer", "null"], "minimum": 1, "maximum": 65535 }),
        Kind::Amount(_, unit) => unit.schema(),
        Kind::Without => {
            let lists = |name| KEYS.iter().filter(move |key| key.place().0 == name && is_list(key));
            let object = |name| {
                let lists = lists(name).map(|key| {
                    let at = key.path.replace('.', "/properties/");
                    let same = json!({ "$ref": format!("#/properties/{at}") });
                    (key.place().1.to_owned(), same)
                });
                json!({ "type": ["object", "null"], "properties": lists.collect::<Map<_, _>>(),
                    "additionalProperties": false })
            };
            let objects = objects().filter(|&name| lists(name).next().is_some());
            let objects = objects.map(|name| (name.to_owned(), object(name)));
            json!({ "type": ["object", "null"], "properties": objects.collect::<Map<_, _>>(),
                "additionalProperties": false })
        }
        Kind::Note => json!({ "type": "string" }),
        Kind::Ignored => json!({}),
        Kind::NotBuilt(_) => json!({ "enum": [null, false] }),
    };
    if matches!(key.value, Kind::List(_)) {
        schema["default"] = json!([]);
    }
    schema["description"] = json!(match key.value {
        Kind::Ignored => "accepted, and without meaning in landstrip",
        Kind::NotBuilt(reason) => reason,
        _ => key.summary,
    });
    schema
}

/// An object with the keys that stand in `place`, and no others.
fn object(place: &str) -> Value {
    let keys = KEYS.iter().filter(|key| key.place().0 == place);
    let properties: Map<_, _> = keys.map(|key| (key.place().1.to_owned(), value(key))).collect();
    json!({ "type": ["object", "null"], "properties": properties, "additionalProperties": false })
}

fn schema() -> Value {
    let mut schema = object("");
    // An empty policy is an error.
    schema["type"] = json!("object");
    schema["$schema"] = json!("http://json-schema.org/draft-07/schema#");
    schema["title"] = json!("A policy for landstrip");
    schema["description"] = json!("What a command may read, write and reach: landstrip-policy(5)");
    for name in objects() {
        schema["properties"][name] = object(name);
    }
    schema
}

/// Run with `LANDSTRIP_WRITE_TABLE=1` to write the file anew.
#[test]
fn the_schema_has_every_key() {
    let text = format!("{:#}\n", schema());
    if std::env::var_os("LANDSTRIP_WRITE_TABLE").is_some() {
        std::fs::write(SCHEMA, &text).unwrap();
    }
    let written = std::fs::read_to_string(SCHEMA).unwrap_or_default();
    assert_eq!(written, text, "run this test with LANDSTRIP_WRITE_TABLE=1");
}

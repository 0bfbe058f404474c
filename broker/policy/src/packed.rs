//! The tree of a policy that comes with landstrip, packed by the build script (`build.rs`) so that no launch parses YAML.
//! One line a value, in the order written: what it is, the line that it begins on, and the value; of a list or an object
//! how many follow. The name of an entry goes before its value.

use super::document::{Entry, Node, Value};
use std::str::Lines;

/// Packs `node`. Presets have no values but these.
#[allow(dead_code, reason = "for the build script, and tests")]
pub(crate) fn pack(node: &Node, packed: &mut String) -> Option<()> {
    let line = node.line;
    let plain = |text: &String| (!text.contains('\n')).then(|| text.clone());
    match &node.value {
        Value::Text(text) => packed.push_str(&format!("t{line} {}\n", plain(text)?)),
        Value::Bool(value) => packed.push_str(&format!("b{line} {value}\n")),
        Value::List(items) => {
            packed.push_str(&format!("l{line} {}\n", items.len()));
            items.iter().try_for_each(|item| pack(item, packed))?;
        }
        Value::Object(entries) => {
            packed.push_str(&format!("o{line} {}\n", entries.len()));
            for Entry { key, line, node } in entries {
                packed.push_str(&format!("k{line} {}\n", plain(key)?));
                pack(node, packed)?;
            }
        }
        _ => return None,
    }
    Some(())
}

/// What was packed; none if it was not.
pub(crate) fn unpack(packed: &str) -> Option<Node> {
    node(&mut packed.lines())
}

fn node(lines: &mut Lines<'_>) -> Option<Node> {
    let (kind, line, text) = next(lines)?;
    let value = match kind {
        "t" => Value::Text(text.to_owned()),
        "b" => Value::Bool(text.parse().ok()?),
        "l" => Value::List(several(text, || node(lines))?),
        "o" => Value::Object(several(text, || entry(lines))?),
        _ => return None,
    };
    Some(Node { line, value })
}

fn several<T>(number: &str, mut next: impl FnMut() -> Option<T>) -> Option<Vec<T>> {
    let number = number.parse().ok()?;
    let mut all = Vec::with_capacity(number);
    for _ in 0..number {
        all.push(next()?);
    }
    Some(all)
}

fn entry(lines: &mut Lines<'_>) -> Option<Entry> {
    let (_, line, key) = next(lines)?;
    Some(Entry { key: key.to_owned(), line, node: node(lines)? })
}

fn next<'a>(lines: &mut Lines<'a>) -> Option<(&'a str, u64, &'a str)> {
    let (head, text) = lines.next()?.split_once(' ')?;
    let (kind, line) = head.split_at_checked(1)?;
    Some((kind, line.parse().ok()?, text))
}

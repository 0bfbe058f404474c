//! The tree of a policy that comes with landstrip, packed by the build script (`build.rs`) so that no launch parses YAML.
//! One line a value, in the order written: what it is, the line that it begins on, and the value; of a list or an object
//! how many follow. The name of an entry goes before its value.

use super::document::{Entry, Node, Value};

/// Packs `node`. Presets have no values but these.
#[allow(dead_code, reason = "for the build script, and tests")]
pub(crate) fn pack(node: &Node, packed: &mut String) -> Option<()> {
    let line = node.line;
    let plain = |text: &str| (!text.contains('\n')).then(|| text.to_owned());
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
pub(crate) fn unpack(mut packed: &'static str) -> Option<Node> {
    node(&mut packed)
}

fn node(rest: &mut &'static str) -> Option<Node> {
    let (kind, line, text) = next(rest)?;
    let value = match kind {
        b't' => Value::Text(text.into()),
        b'b' => Value::Bool(text.parse().ok()?),
        b'l' => Value::List(several(text, || node(rest))?),
        b'o' => Value::Object(several(text, || entry(rest))?),
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

fn entry(rest: &mut &'static str) -> Option<Entry> {
    let (_, line, key) = next(rest)?;
    Some(Entry { key: key.to_owned(), line, node: node(rest)? })
}

/// What the next line says: a kind, a number of few digits, a text.
fn next(rest: &mut &'static str) -> Option<(u8, u64, &'static str)> {
    let (line, after) = rest.split_once('\n')?;
    *rest = after;
    let space = line.bytes().position(|byte| byte == b' ')?;
    let kind = *line.as_bytes().first()?;
    Some((kind, line.get(1..space)?.parse().ok()?, line.get(space + 1..)?))
}

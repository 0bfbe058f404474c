//! `without`: single rules that a policy takes out of what it extends. Pure.

use super::document::Node;
use super::error::{Origin, PolicyError};
use super::keys::{self, Item, KEYS, Key, Value, Written};
use super::nearest::near;
use super::parse::Reader;

/// What is to be taken out: an item of the list that a key has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Without {
    key: &'static str,
    item: Item,
}

/// What was taken out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TakenOut {
    pub key: &'static str,
    pub rule: Item,
    /// Where a policy says so.
    pub by: Origin,
}

/// The list of a key, if it has one.
fn list<'a>(key: &Key, written: &'a mut Written) -> Option<&'a mut Vec<Item>> {
    match key.value {
        Value::List(list) => Some(list(written)),
        Value::Choice(choice) => Some(choice(written).get_or_insert_default()),
        _ => None,
    }
}

/// `text` without the brackets around one letter: presets write `.clinerules/[h]ooks` where what leads there may be made.
pub(super) fn plain(text: &str) -> String {
    let (mut plain, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once('[') {
        plain.push_str(before);
        let letter = after.split_once(']').filter(|(letter, _)| letter.chars().count() == 1);
        let (letter, next) = letter.unwrap_or(("[", after));
        plain.push_str(letter);
        rest = next;
    }
    plain + rest
}

impl Reader {
    /// Reads the value of `without`: lists, in the objects that they stand in.
    pub(super) fn without(&self, node: Node) -> Result<Vec<Without>, PolicyError> {
        let mut without = Vec::new();
        for object in self.object(node, "without")? {
            let field = format!("without.{}", keys::shorten(&object.key));
            if !keys::is_object("", &object.key) {
                let message = match keys::find("", &object.key) {
                    Some(_) => "only items of lists are taken out".to_owned(),
                    None => keys::unknown(&object.key, ""),
                };
                return Err(self.origin(object.line, field).error(message));
            }
            for entry in self.object(object.node, &field)? {
                let origin =
                    self.origin(entry.line, format!("{field}.{}", keys::shorten(&entry.key)));
                let Some(key) = keys::find(&object.key, &entry.key) else {
                    return Err(origin.error(keys::unknown(&entry.key, &object.key)));
                };
                if list(key, &mut Written::default()).is_none() {
                    let message = "only items of lists are taken out; another value is written \
                                   outside of 'without', and counts";
                    return Err(origin.error(message));
                }
                let items = self.list(entry.node, origin.key)?.into_iter();
                without.extend(items.map(|item| Without { key: key.path, item }));
            }
        }
        Ok(without)
    }
}

impl Written {
    /// Takes rules out.
    ///
    /// # Errors
    /// Returns a [`PolicyError`] for one that is not there.
    pub fn take_out(&mut self, without: Vec<Without>) -> Result<(), PolicyError> {
        for Without { key, item: Item { text, origin } } in without {
            let key = KEYS.iter().find(|known| known.path == key);
            let Some((key, items)) = key.and_then(|key| Some((key, list(key, self)?))) else {
                continue;
            };
            let text = text.trim();
            let is_it = |item: &Item| item.text.trim() == text || plain(item.text.trim()) == text;
            let Some(at) = items.iter().position(is_it) else {
                let near = near(text, items.iter().map(|item| item.text.trim()));
                let near = near.map(|near| format!("; did you mean '{near}'?")).unwrap_or_default();
                let message =
                    format!("nothing that this policy extends has it in {}{near}", key.path);
                return Err(origin.error(message));
            };
            let rule = items.remove(at);
            self.taken_out.push(TakenOut { key: key.path, rule, by: origin });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brackets_around_one_letter_need_not_be_written() {
        for (text, expected) in [
            (".clinerules/[h]ooks", ".clinerules/hooks"),
            (".a/[b]c/[d]*", ".a/bc/d*"),
            ("[ab]c[d", "[ab]c[d"),
            ("x[]]y", "x[]]y"),
        ] {
            assert_eq!(plain(text), expected);
        }
    }
}

//! Several policies become one, value by value, as the table of keys says. Pure.

use super::keys::Value::{
    Amount, Choice, Ignored, List, Lists, NotBuilt, Note, Port, Settings, Switch, Word,
};
use super::keys::{Item, KEYS, Value, Written};
use super::presets;
use rules::quick::QuickSet;

impl Written {
    /// Adds a policy that comes later: lists are united, its other values win.
    pub fn merge(&mut self, mut later: Written) {
        for key in KEYS {
            match key.value {
                List(list) => unite(list(self), std::mem::take(list(&mut later))),
                Choice(choice) => {
                    if let Some(more) = choice(&mut later).take() {
                        unite(choice(self).get_or_insert_default(), more);
                    }
                }
                Settings(settings) => {
                    let later = std::mem::take(settings(&mut later));
                    let settings = settings(self);
                    settings.retain(|setting| later.iter().all(|new| new.name != setting.name));
                    settings.extend(later);
                }
                Lists(lists) => {
                    for (name, items) in std::mem::take(lists(&mut later)) {
                        let lists = lists(self);
                        match lists.iter_mut().find(|(known, _)| *known == name) {
                            Some((_, list)) => unite(list, items),
                            None => lists.push((name, items)),
                        }
                    }
                }
                Switch(switch, _) => replace(switch(self), *switch(&mut later)),
                Word(word, _) => replace(word(self), *word(&mut later)),
                Port(port) => replace(port(self), *port(&mut later)),
                Amount(amount, _) => replace(amount(self), *amount(&mut later)),
                Value::Without | Note | Ignored | NotBuilt(_) => {}
            }
        }
        self.taken_out.append(&mut later.taken_out);
        self.places.retain(|(key, _)| later.places.iter().all(|(new, _)| new != key));
        self.places.append(&mut later.places);
        for key in later.ignored {
            if !self.ignored.contains(&key) {
                self.ignored.push(key);
            }
        }
    }
}

fn unite(list: &mut Vec<Item>, more: Vec<Item>) {
    // These have hundreds, and nothing twice.
    if list.is_empty() && more.first().is_some_and(|item| presets::is_file(&item.origin.file)) {
        *list = more;
        return;
    }
    let room = list.len() + more.len();
    let mut known = QuickSet::with_capacity_and_hasher(room, Default::default());
    known.extend(list.iter().map(|item| &*item.text));
    let is_new: Vec<bool> = more.iter().map(|item| known.insert(&item.text)).collect();
    list.extend(more.into_iter().zip(is_new).filter_map(|(item, is_new)| is_new.then_some(item)));
}

fn replace<T: Copy>(value: &mut Option<T>, later: Option<T>) {
    *value = later.or(*value);
}

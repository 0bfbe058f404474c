//! Denied paths that are patterns without being meant so: brackets are common in names, as in those of routes.

use super::keys::Item;
use super::paths::Paths;
use super::presets;
use super::split::Split;
use rules::paths::covers;
use rules::pattern::Pattern;

impl Paths<'_> {
    /// Says of each of `items` that is a pattern if something is there by the very name that it is written as, and is not
    /// among what is `denied`.
    pub(super) fn tell_of_names(&mut self, items: &[Item], denied: &[Pattern]) {
        let own = items.iter().filter(|item| !presets::is_file(&item.origin.file));
        for item in own.filter(|item| item.text.contains(['[', '\\'])) {
            let escaped = item.text.replace('\\', r"\\").replace('[', r"\[");
            let by_name = Split::of(item, &escaped, &self.caller.cwd, self.caller);
            let by_name = by_name.ok().filter(|split| split.rest.is_empty());
            let found = by_name.and_then(|split| split.prefix.canonicalize().ok());
            if found.is_some_and(|path| !covers(denied, &path)) {
                let message = format!(
                    "'{}' is a pattern, and stands for other names than the one that is there; write '{escaped}' for \
                     that, in double quotes with each backslash twice",
                    item.text
                );
                self.tell(&item.origin, &message);
            }
        }
    }
}

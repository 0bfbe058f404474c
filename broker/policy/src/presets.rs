//! The policies that come with landstrip. Each is a file in `presets`, and stands in the manual. The build script parses
//! them: a launch starts no parser for them.

use super::document::Node;
use super::keys::Item;
use super::nearest::near;
use super::packed::unpack;
use super::parse::read;
use rules::pattern::Component;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Their names, and what the build script made of them.
pub static PRESETS: [(&str, &str); 4] = [
    ("agent", include_str!(concat!(env!("OUT_DIR"), "/agent.packed"))),
    ("build", include_str!(concat!(env!("OUT_DIR"), "/build.packed"))),
    ("offline-test", include_str!(concat!(env!("OUT_DIR"), "/offline-test.packed"))),
    ("read-only", include_str!(concat!(env!("OUT_DIR"), "/read-only.packed"))),
];

/// How errors name them in the place of a file, before the name.
const PREFIX: &str = "<preset ";

/// Whether `word` names a preset and not a file, whether there is one or not.
pub fn is_name(word: &str) -> bool {
    !word.is_empty() && !word.contains(['/', '.'])
}

/// The preset `name`, as it would be parsed.
///
/// # Errors
/// Returns what to write instead.
pub fn find(name: &str) -> Result<Node, String> {
    let found = PRESETS.iter().find(|(known, _)| *known == name);
    found.and_then(|(_, packed)| unpack(packed)).ok_or_else(|| {
        let names = PRESETS.map(|(known, _)| known);
        let advice = match near(name, names) {
            Some(near) => format!("did you mean '{near}'?"),
            None => format!("there are {}.", names.join(", ")),
        };
        format!("no preset is called '{name}': {advice} A file is written './{name}'")
    })
}

/// What errors name in the place of a file.
pub fn file(name: &str) -> PathBuf {
    format!("{PREFIX}{name}>").into()
}

/// The name of the preset that errors name as `file`.
pub fn name(file: &Path) -> Option<&OsStr> {
    file.to_str()?.strip_prefix(PREFIX)?.strip_suffix('>').map(OsStr::new)
}

/// Whether `file` is that of a preset.
pub fn is_file(file: &Path) -> bool {
    file.as_os_str().as_encoded_bytes().starts_with(PREFIX.as_bytes())
}

/// What `agent` denies in each work tree.
pub(super) fn denied_in_trees() -> Vec<Item> {
    let agent = find("agent").ok().and_then(|agent| read(agent, &file("agent")).ok());
    let items = agent.unwrap_or_default().deny_write.into_iter();
    items.filter(|item| !item.text.starts_with(['/', '~'])).collect()
}

/// Whether a tool obeys what is called `name`, in any directory that is entered or opened: `agent` denies that in a work
/// tree.
pub(super) fn is_obeyed(name: &OsStr) -> bool {
    static NAMES: OnceLock<Vec<Component>> = OnceLock::new();
    let names = NAMES.get_or_init(|| {
        let items = denied_in_trees();
        let texts = items.iter().map(|item| &item.text).filter(|text| !text.contains('/'));
        texts.filter_map(|text| Component::parse(text.as_bytes()).ok()).collect()
    });
    names.iter().any(|known| known.matches(name.as_bytes()))
}

#[cfg(test)]
pub mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::document::{Format, parse};
    use super::super::keys::{KEYS, Value};
    use super::super::parse::read;
    use super::*;
    use std::collections::HashSet;

    /// The text of a preset, in YAML.
    pub fn text(name: &str) -> String {
        let file = format!("{}/../presets/{name}.yaml", env!("CARGO_MANIFEST_DIR"));
        std::fs::read_to_string(file).unwrap()
    }

    #[test]
    fn presets_are_what_their_texts_say() {
        for (name, _) in PRESETS {
            let parsed = parse(text(name).as_bytes(), Format::Yaml).unwrap();
            assert_eq!(find(name).unwrap(), parsed, "{name}");
        }
        let files = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../presets"));
        assert_eq!(files.unwrap().count(), PRESETS.len());
    }

    #[test]
    fn presets_say_nothing_twice() {
        for (name, _) in PRESETS {
            let mut written = read(find(name).unwrap(), &file(name)).unwrap();
            for key in KEYS {
                let Value::List(list) = key.value else { continue };
                let mut known = HashSet::new();
                for item in list(&mut written) {
                    assert!(known.insert(item.text.clone()), "{} in {name}", item.text);
                }
            }
        }
    }

    #[test]
    fn words_with_neither_slash_nor_dot_are_presets() {
        for name in ["agent", "nothing", "read-only"] {
            assert!(is_name(name), "{name}");
        }
        for path in ["./agent", "agent.json", "/agent", "a/b", "."] {
            assert!(!is_name(path), "{path}");
        }
        assert!(find("agent").is_ok());
        let error = find("agnet").unwrap_err();
        assert!(error.contains("did you mean 'agent'? A file is written './agnet'"), "{error}");
        assert!(is_file(&file("agent")) && !is_file(Path::new("/p.json")));
    }
}

//! The policies that come with landstrip. Each is a file in `presets`, and stands in the manual.

use super::nearest::near;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Their names and texts, in YAML.
pub(crate) static PRESETS: [(&str, &str); 4] = [
    ("agent", include_str!("../../presets/agent.yaml")),
    ("build", include_str!("../../presets/build.yaml")),
    ("offline-test", include_str!("../../presets/offline-test.yaml")),
    ("read-only", include_str!("../../presets/read-only.yaml")),
];

/// How errors name them in the place of a file, before the name.
const PREFIX: &str = "<preset ";

/// Whether `word` names a preset and not a file, whether there is one or not.
pub(crate) fn is_name(word: &str) -> bool {
    !word.is_empty() && !word.contains(['/', '.'])
}

/// The text of the preset `name`.
///
/// # Errors
/// Returns what to write instead.
pub(crate) fn find(name: &str) -> Result<&'static str, String> {
    let found = PRESETS.iter().find(|(known, _)| *known == name);
    found.map(|(_, text)| *text).ok_or_else(|| {
        let names = PRESETS.map(|(known, _)| known);
        let advice = match near(name, names) {
            Some(near) => format!("did you mean '{near}'?"),
            None => format!("there are {}.", names.join(", ")),
        };
        format!("no preset is called '{name}': {advice} A file is written './{name}'")
    })
}

/// What errors name in the place of a file.
pub(crate) fn file(name: &str) -> PathBuf {
    format!("{PREFIX}{name}>").into()
}

/// The name of the preset that errors name as `file`.
pub(crate) fn name(file: &Path) -> Option<&OsStr> {
    file.to_str()?.strip_prefix(PREFIX)?.strip_suffix('>').map(OsStr::new)
}

/// Whether `file` is that of a preset.
pub(crate) fn is_file(file: &Path) -> bool {
    file.to_str().is_some_and(|file| file.starts_with(PREFIX))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

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

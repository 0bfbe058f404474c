//! Denied paths that lie where one has led to before: most of a preset's lie beside one another, and are missing. It looks
//! at nothing but what is remembered.

use super::path_memory::Memory;
use super::split::are_plain;
use rules::pattern::Pattern;
use rules::quick::QuickMap;
use std::borrow::Cow;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Where paths have led to without a link, by their text up to the last name.
#[derive(Default)]
pub(super) struct Places<'a>(QuickMap<&'a str, Place<'a>>);

struct Place<'a> {
    /// What the text is relative to.
    tree: Cow<'a, Path>,
    /// None where nothing can be.
    directory: Option<PathBuf>,
    /// The one that has led here.
    pattern: Pattern,
}

impl<'a> Places<'a> {
    /// Remembers where `text` has led in `tree`: to `path`, without a link on the way, by this pattern.
    pub(super) fn add(
        &mut self,
        (text, tree): (&'a str, Cow<'a, Path>),
        path: &Path,
        pattern: &Pattern,
        memory: &mut Memory,
    ) {
        let named = split(text).filter(|(_, name)| path.file_name() == Some(name));
        let (Some((above, _)), Some(directory)) = (named, path.parent()) else { return };
        let is_there = memory.beneath_directory(path) == path;
        let directory = is_there.then(|| directory.to_owned());
        self.0.insert(above, Place { tree, directory, pattern: pattern.clone() });
    }

    /// What `text` stands for in `tree`, if it lies at such a place and is known to be missing.
    pub(super) fn missing(&self, text: &str, tree: &Path, memory: &Memory) -> Option<Pattern> {
        let (above, name) = split(text)?;
        let place = self.0.get(above).filter(|it| it.tree.as_os_str() == tree.as_os_str())?;
        let is_missing = |directory: &PathBuf| memory.is_missing_in(directory, name);
        let pattern = || place.pattern.beside_it(name.as_bytes()).naming_no_file(true);
        place.directory.as_ref().is_none_or(is_missing).then(pattern)
    }
}

/// What leads to the last name of `text`, and that, if it means nothing but itself there.
fn split(text: &str) -> Option<(&str, &OsStr)> {
    let (above, name) = text.split_at(text.rfind('/').map_or(0, |slash| slash + 1));
    let is_name = !matches!(name, "" | "." | "..") && !name.starts_with('~');
    (is_name && are_plain(name.as_bytes())).then_some((above, OsStr::new(name)))
}

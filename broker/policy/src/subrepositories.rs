//! The repositories that work trees of Mercurial name as their own: `hg id` at the top asks each that is there, and runs
//! what its settings name. Reads the file system, changes nothing. Source: `hg help subrepos`.

use super::repositories::{LENGTH_MAX, contents};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

/// The directory of a repository, and how the items of a preset begin that are about those.
const OF_MERCURIAL: &str = ".hg";
/// The file that names them.
const NAMES: &str = ".hgsub";
/// The repository that one does not have yet, as a pattern: the directory that it is in may come and go.
const NEW: &str = "[.]hg";
/// Most that are looked for: in these there are others.
const FOUND_MAX: usize = 1024;

/// The tops of those that `trees` name, with theirs, whether they are there or not.
///
/// # Errors
/// Returns the file with which there are too many: a command may have made it.
pub(super) fn find(trees: &[PathBuf]) -> Result<Vec<PathBuf>, PathBuf> {
    let mut found = Vec::new();
    let mut pending = trees.to_vec();
    while let Some(top) = pending.pop() {
        let file = top.join(NAMES);
        let text = contents(&file, LENGTH_MAX);
        let names = text.split(|&byte| byte == b'\n').filter_map(name);
        for inner in names.map(|name| top.join(name)) {
            if found.iter().any(|it: &PathBuf| it.as_os_str() == inner.as_os_str()) {
                continue;
            }
            if found.len() == FOUND_MAX {
                return Err(file);
            }
            pending.push(inner.clone());
            found.push(inner);
        }
    }
    Ok(found)
}

/// What `text`, an item of a preset, denies in those of `nested` as well, each with its top.
pub(super) fn denied<'a>(text: &'a str, nested: &[PathBuf]) -> Vec<(&'a str, PathBuf)> {
    if !text.starts_with(OF_MERCURIAL) {
        return Vec::new();
    }
    let item = |top: &PathBuf| match top.join(OF_MERCURIAL).is_dir() {
        true => Some((text, top.clone())),
        false => (text == NAMES).then(|| (NEW, top.clone())),
    };
    nested.iter().filter_map(item).collect()
}

/// What a line names: a path beneath the top.
fn name(line: &[u8]) -> Option<&Path> {
    let line = Some(line).filter(|line| !line.starts_with(b"#"))?;
    let end = line.iter().position(|&byte| byte == b'=')?;
    let name = Path::new(OsStr::from_bytes(line[..end].trim_ascii()));
    let is_beneath = |part: Component<'_>| matches!(part, Component::Normal(_));
    (!name.as_os_str().is_empty() && name.components().all(is_beneath)).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernel::test_directory::TestDirectory;

    #[test]
    fn those_of_repositories_within_are_found_as_well() {
        let dir = TestDirectory::new();
        dir.file(
            "t/.hgsub",
            "# x = y\na/b = ../other\n../up = x\n/abs = x\nnone\n = x\n[subpaths]\nc=[git]x\n",
        );
        dir.file("t/a/b/.hgsub", "d = d\n");
        let mut found = find(&[dir.path("t"), dir.path("missing")]).unwrap();
        found.sort();
        let expected = ["t/a/b", "t/a/b/d", "t/c"].map(|name| dir.path(name));
        assert_eq!(found, expected);
        let names: String = (0..FOUND_MAX).map(|name| format!("{name} = x\n")).collect();
        let many = dir.file("many/.hgsub", &names);
        let trees = [dir.path("t"), dir.path("many")];
        assert_eq!(find(&trees[1..]).unwrap().len(), FOUND_MAX);
        // None is passed over for others.
        assert!(find(&trees).is_err_and(|file| file == many || file == dir.path("t/.hgsub")));
    }
}

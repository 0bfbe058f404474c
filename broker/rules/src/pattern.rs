//! Path patterns: an absolute path in which components may be globs. Pure.
//!
//! The language is that of glob(7) ([`Component`]) with `**` added, which as a whole component stands for any number of
//! components.

pub use super::component::{Component, PatternError};
use super::quick::Quick;
use std::ffi::OsStr;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component as PathComponent, Path, PathBuf};
use std::sync::Arc;

/// An absolute path, component by component. It stands for what it names and, in a rule, all beneath.
#[derive(Debug, Clone)]
pub struct Pattern {
    /// Of the components: a policy has hundreds of patterns, and each is looked up in several sets.
    hash: u64,
    /// All components but the last, shared by the patterns of what lies side by side.
    stem: Arc<Stem>,
    /// None of the root directory.
    last: Option<Component>,
    /// Nothing of that name was a file when the policy was resolved: known of many, and no part of what they stand for.
    names_no_file: bool,
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash && self.stem == other.stem && self.last == other.last
    }
}

impl Eq for Pattern {}

#[derive(Debug, PartialEq, Eq)]
struct Stem {
    hash: u64,
    components: Vec<Component>,
}

impl Hash for Pattern {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for component in self.components() {
            match component {
                Component::Literal(name) => write!(out, "/{}", String::from_utf8_lossy(name))?,
                Component::Glob(glob) => write!(out, "/{glob}")?,
                Component::AnyDepth => out.write_str("/**")?,
            }
        }
        Ok(())
    }
}

impl Pattern {
    /// The pattern of an absolute path that stands for itself only. `.` and a trailing slash mean nothing.
    pub fn literal(path: &Path) -> Pattern {
        Pattern::new(path, Vec::new())
    }

    /// The pattern of everything that `rest` matches beneath the absolute path `prefix`.
    ///
    /// A trailing `**` is dropped and repeated ones become one: a pattern stands for all beneath it anyway, and
    /// `a/**` must not deny again what a rule further inside allows.
    pub fn new(prefix: &Path, rest: Vec<Component>) -> Pattern {
        Pattern::beside(None, prefix, rest)
    }

    /// The same as [`Pattern::new`], that shares with `other` what both begin with: most paths of a policy lie in a few
    /// directories, and an allocation takes longer than to compare.
    pub fn beside(other: Option<&Pattern>, prefix: &Path, rest: Vec<Component>) -> Pattern {
        let names = prefix.as_os_str().as_bytes().split(|&byte| byte == b'/');
        let names = names.filter(|name| !name.is_empty() && *name != b"." && *name != b"..");
        let mut names = names.peekable();
        let stem = other.map_or(&[][..], |other| &other.stem.components);
        let mut shared = 0;
        while let Some(Component::Literal(same)) = stem.get(shared)
            && names.next_if(|name| **name == **same).is_some()
        {
            shared += 1;
        }
        let mut left = names.clone();
        if let (Some(last), None, Some(other)) = (left.next(), left.next(), other)
            && rest.is_empty()
            && shared == stem.len()
        {
            return other.beside_it(last);
        }
        let mut components = Vec::with_capacity(prefix.as_os_str().len() / 8 + 2 + rest.len());
        components.extend_from_slice(&stem[..shared]);
        components.extend(names.map(|name| Component::Literal(name.into())));
        components.extend(rest);
        components.dedup_by(|a, b| *a == Component::AnyDepth && *b == Component::AnyDepth);
        if components.last() == Some(&Component::AnyDepth) {
            components.pop();
        }
        let last = components.pop();
        let mut hasher = Quick::default();
        components.hash(&mut hasher);
        Pattern::of(Arc::new(Stem { hash: hasher.finish(), components }), last)
    }

    /// The pattern of the entry `name` that lies where this one's last does.
    pub fn beside_it(&self, name: &[u8]) -> Pattern {
        Pattern::of(Arc::clone(&self.stem), Some(Component::Literal(name.into())))
    }

    fn of(stem: Arc<Stem>, last: Option<Component>) -> Pattern {
        let mut hasher = Quick::default();
        hasher.write_u64(stem.hash);
        last.hash(&mut hasher);
        Pattern { hash: hasher.finish(), stem, last, names_no_file: false }
    }

    /// The same, which names no file if it `is_none`.
    pub fn naming_no_file(self, is_none: bool) -> Pattern {
        Pattern { names_no_file: is_none, ..self }
    }

    /// The path, if it stands for itself only and may be one of a file.
    pub fn as_file(&self) -> Option<PathBuf> {
        if self.names_no_file { None } else { self.as_path() }
    }

    fn components(&self) -> impl Iterator<Item = &Component> {
        self.stem.components.iter().chain(&self.last)
    }

    /// The path, if it stands for itself only.
    pub fn as_path(&self) -> Option<PathBuf> {
        let (path, mut rest) = self.split();
        rest.next().is_none().then_some(path)
    }

    /// The names that it begins with, as a path, and what follows from the first glob in it.
    pub fn split(&self) -> (PathBuf, impl Iterator<Item = &Component>) {
        let mut prefix = PathBuf::from("/");
        let mut components = self.components().peekable();
        while let Some(Component::Literal(name)) = components.peek() {
            prefix.push(OsStr::from_bytes(name));
            components.next();
        }
        (prefix, components)
    }

    /// All components but the last, and that.
    pub(super) fn parts(&self) -> (&[Component], Option<&Component>) {
        (&self.stem.components, self.last.as_ref())
    }

    /// Whether it shares all components but the last with `other`; some that do are not known to.
    pub(super) fn is_beside(&self, other: &Pattern) -> bool {
        Arc::ptr_eq(&self.stem, &other.stem)
    }

    /// How many components there are; a position of that value has matched the whole pattern.
    pub fn length(&self) -> usize {
        self.stem.components.len() + usize::from(self.last.is_some())
    }

    /// The component that a name must match at `position`, if the pattern does not end there.
    pub fn component(&self, position: usize) -> Option<&Component> {
        let stem = &self.stem.components;
        stem.get(position).or_else(|| self.last.as_ref().filter(|_| position == stem.len()))
    }

    /// Whether it has a `**` that begins inside of one of `trees`, so that there are places in that tree for which
    /// it does not stand.
    pub fn begins_inside(&self, trees: &[PathBuf]) -> bool {
        // What no name can be singles out nothing by its name.
        let is_no_name =
            matches!(&self.last, Some(Component::Literal(name)) if name.contains(&b'/'));
        if is_no_name || self.has_fixed_depth() {
            return false;
        }
        let (beginning, mut rest) = self.split();
        let is_inside = |tree: &PathBuf| beginning != *tree && beginning.starts_with(tree);
        rest.next() != Some(&Component::AnyDepth) || trees.iter().any(is_inside)
    }

    /// Whether it has no `**`, so that what it stands for is found without looking through a tree.
    pub fn has_fixed_depth(&self) -> bool {
        self.components().all(|component| !matches!(component, Component::AnyDepth))
    }

    /// Whether it stands for the absolute path of these `names`, or something above that.
    pub fn covers(&self, names: &[&[u8]]) -> bool {
        if self.has_fixed_depth() {
            let mut pairs = self.components().zip(names);
            return self.length() <= names.len() && pairs.all(|(part, name)| part.matches(name));
        }
        // What stands between two `**` is best at its first place, where it leaves the most names for the rest.
        let components: Vec<_> = self.components().collect();
        let parts = components.split(|component| **component == Component::AnyDepth);
        let mut rest = names;
        parts.enumerate().all(|(index, part)| {
            let is_at = |place: &usize| {
                let names = &rest[*place..];
                part.len() <= names.len()
                    && part.iter().zip(names).all(|(own, name)| own.matches(name))
            };
            let furthest = if index == 0 { 0 } else { rest.len() };
            let place = (0..=furthest).find(is_at);
            rest = place.map_or(&[], |place| &rest[place + part.len()..]);
            place.is_some()
        })
    }

    /// Whether it stands for something beneath `root`, at a known depth.
    pub fn leads_into(&self, root: &Pattern) -> bool {
        self.length() > root.length()
            && self.components().zip(root.components()).all(|(own, its)| own == its)
            && self.has_fixed_depth()
    }
}

/// Whether one of `denials` stands for `path` or something above it; of what is not canonical nothing else is known.
pub fn covers(denials: &[Pattern], path: &Path) -> bool {
    let names: Option<Vec<_>> = names(path).collect();
    denials.iter().any(|pattern| names.as_ref().is_none_or(|names| pattern.covers(names)))
}

/// The names of an absolute path; none in the place of what makes it none that is canonical: `..`, or a beginning elsewhere.
pub(super) fn names(path: &Path) -> impl Iterator<Item = Option<&[u8]>> {
    let elsewhere = (!path.is_absolute()).then_some(None);
    elsewhere.into_iter().chain(path.components().filter_map(|component| match component {
        PathComponent::Normal(name) => Some(Some(name.as_bytes())),
        PathComponent::ParentDir => Some(None),
        _ => None,
    }))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    impl Pattern {
        /// The pattern of an absolute path with globs, none of them in front of a symbolic link.
        pub(crate) fn of_globs(path: &str) -> Pattern {
            let parts = path.split('/').filter(|part| !part.is_empty());
            let components = parts.map(|part| Component::parse(part.as_bytes()).unwrap());
            Pattern::new(Path::new("/"), components.collect())
        }
    }

    #[test]
    fn any_depth_is_normalised() {
        let parse = |text: &str| {
            text.split('/')
                .map(|part| Component::parse(part.as_bytes()).unwrap())
                .collect::<Vec<_>>()
        };
        let pattern = |rest: &str| Pattern::new(Path::new("/a/./b/"), parse(rest));
        assert_eq!(pattern("**"), Pattern::literal(Path::new("/a/b")));
        assert_eq!(pattern("**/**/x"), pattern("**/x"));
        assert_eq!(pattern("x/**/**"), pattern("x"));
        assert_eq!(pattern("x").length(), 3);
        assert_eq!(Pattern::literal(Path::new("/")).length(), 0);
    }
}

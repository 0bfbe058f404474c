//! The index of git: which submodules it names. It is read piece by piece, since that of a large work tree has megabytes,
//! and each launch reads it. Source: gitformat-index(5), and read-cache.c of git where that says more.

use kernel::long_paths::PATH_MAX;
use std::fs::File;
use std::io::{Read, Seek};

/// The lengths of names of objects: SHA-1, SHA-256.
const HASHES: [usize; 2] = [20, 32];
/// How much is read at once, and most that an entry takes: what git writes there is a path (PATH_MAX).
const PIECE: usize = 1 << 14;
const ENTRY_MAX: usize = 1 << 13;
/// Most names that are kept of an index, and bytes of these. A name goes on from the one before it: some bytes could stand for
/// a path each.
const NAMES_MAX: usize = 1 << 16;
const BYTES_MAX: usize = 1 << 22;
/// How many bytes that are read a byte of a name counts for: names are kept for the run.
const KEPT: usize = 4;
/// Flags of an entry: the length of its name, which is longer if all bits are set, and that there are more flags.
const LENGTH: u16 = 0xfff;
const EXTENDED: u16 = 0x4000;

/// The kinds of entries in which there are submodules: those, and directories that are not told further (sparse index).
const SUBMODULE: u32 = 0o16;
const DIRECTORY: u32 = 0o4;

/// What an index says of submodules.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Links {
    /// Their paths, and with a slash at the end those of directories that can have some.
    pub(super) names: Vec<Vec<u8>>,
    /// The index that the rest is in.
    pub(super) base: Option<Vec<u8>>,
}

/// The submodules that `index` names; none if it is no index, is one of both kinds that differ, of which a command can
/// have made the wrong one, or is larger than what is `left` to be read, as are the names, or these are too many.
pub(super) fn links(mut index: &File, left: &mut u64) -> Option<Links> {
    let size = index.metadata().ok()?.len();
    *left = left.checked_sub(size)?;
    let mut all = HASHES.into_iter().filter_map(|hash| {
        index.rewind().ok()?;
        Pieces::of(index, size).links(hash)
    });
    let links = all.next()?;
    let bytes: usize = links.names.iter().map(Vec::len).sum();
    *left = left.checked_sub((KEPT * bytes).try_into().ok()?)?;
    all.all(|other| other == links).then_some(links)
}

/// What is read, as far as it is needed.
struct Pieces<R> {
    source: R,
    buffer: Vec<u8>,
    /// Where in it the reader is.
    at: usize,
    /// How many bytes follow, read or not.
    left: u64,
}

impl<R: Read> Pieces<R> {
    fn of(source: R, size: u64) -> Self {
        Self { source, buffer: Vec::with_capacity(2 * PIECE), at: 0, left: size }
    }

    /// What comes next, so many bytes at least.
    fn next(&mut self, count: usize) -> Option<&[u8]> {
        let missing = count.saturating_sub(self.buffer.len() - self.at);
        if missing > 0 {
            self.buffer.drain(..self.at);
            self.at = 0;
            let more = u64::try_from(missing.max(PIECE)).ok()?;
            (&mut self.source).take(more).read_to_end(&mut self.buffer).ok()?;
        }
        self.buffer.get(self.at..).filter(|next| next.len() >= count)
    }

    fn skip(&mut self, count: usize) -> Option<()> {
        self.left = self.left.checked_sub(u64::try_from(count).ok()?)?;
        let mut left = count;
        while left > 0 {
            let some = left.min(PIECE);
            self.next(some)?;
            self.at += some;
            left -= some;
        }
        Some(())
    }

    /// The submodules in an index whose objects have names of `hash` bytes; none if it is no such index.
    fn links(&mut self, hash: usize) -> Option<Links> {
        let header = self.next(12)?;
        let (version, count) = (number(header, 4)?, number(header, 8)?);
        if !header.starts_with(b"DIRC") || !(2..=4).contains(&version) {
            return None;
        }
        let size = self.left;
        self.skip(12)?;
        let (mut name, mut names, mut starts) = (Vec::new(), Vec::new(), Vec::new());
        let mut bytes = 0;
        for _ in 0..count {
            let left = usize::try_from(self.left).ok()?;
            let (length, kind, is_whole) =
                entry(self.next(left.min(ENTRY_MAX))?, hash, version, &mut name)?;
            starts.push(if is_whole { size - self.left } else { 0 });
            self.skip(length)?;
            if [SUBMODULE, DIRECTORY].contains(&kind) {
                // In one that is split, an entry without a name stands for one of the other.
                let mut name = Some(name.clone()).filter(|name| !name.is_empty())?;
                name.extend_from_slice(if kind == DIRECTORY { b"/" } else { b"" });
                bytes += name.len();
                names.push(name);
                Some(()).filter(|()| names.len() <= NAMES_MAX && bytes <= BYTES_MAX)?;
            }
        }
        let base = self.base(hash, &starts, size - self.left)?;
        Some(Links { names, base })
    }

    /// The index that the extensions after the entries say the rest is in. After them comes a name of an object alone.
    /// None if by what they say of where entries begin and end, git would read others (index.threads).
    fn base(&mut self, hash: usize, starts: &[u64], after: u64) -> Option<Option<Vec<u8>>> {
        let end = u64::try_from(hash).ok()?;
        let mut base = None;
        while self.left > end {
            let length: usize = number(self.next(8)?, 4)?.try_into().ok()?;
            match &self.next(8)?.first_chunk::<4>()?.to_owned() {
                b"link" => {
                    let name = self.next(8 + hash)?.get(8..8 + hash)?;
                    base = Some(Some(name.to_vec()).filter(|_| length >= hash)?);
                }
                b"EOIE" if u64::from(number(self.next(12)?, 8)?) != after => return None,
                b"IEOT" => {
                    let blocks = self.next(length.checked_add(8)?)?.get(12..length + 8)?;
                    Some(()).filter(|()| are_all(blocks, starts))?;
                }
                _ => {}
            }
            self.skip(length.checked_add(8)?)?;
        }
        (self.left == end && self.next(hash).is_some()).then_some(base)
    }
}

/// Whether `blocks`, each where it begins and how many it has, are all the entries, which begin where `starts` says.
fn are_all(blocks: &[u8], starts: &[u64]) -> bool {
    let mut left = starts;
    let is_next = |block: &[u8]| {
        let (start, count) = (number(block, 0)?, number(block, 4)?);
        let (these, others) = left.split_at_checked(count.try_into().ok()?)?;
        left = others;
        (these.first() == Some(&start.into())).then_some(())
    };
    blocks.chunks(8).map(is_next).all(|next| next.is_some()) && left.is_empty()
}

/// How long the entry at the beginning of `bytes` is, of which kind, and whether it has its whole name, as git reads it.
/// That replaces or continues `name` where that matters: where there can be submodules, and where the next one continues it.
/// None if there is none, where versions of git would disagree, and if the name is longer than a path.
fn entry(
    bytes: &[u8],
    hash: usize,
    version: u32,
    name: &mut Vec<u8>,
) -> Option<(usize, u32, bool)> {
    let mut begin = 40 + hash + 2;
    let kind = number(bytes, 24)? >> 12 & 0xf;
    let flags = u16::from_be_bytes(*bytes.get(begin - 2..)?.first_chunk()?);
    begin += if flags & EXTENDED != 0 { 2 } else { 0 };
    if version == 4 {
        let (cut, length) = offset(bytes.get(begin..)?)?;
        name.truncate(name.len().checked_sub(cut)?);
        begin += length;
    } else {
        name.clear();
    }
    let is_whole = name.is_empty();
    let rest = bytes.get(begin..)?;
    let told = Some(usize::from(flags & LENGTH)).filter(|told| *told < LENGTH.into());
    let length = match told {
        Some(told) => told.checked_sub(name.len())?,
        None => rest.iter().position(|byte| *byte == 0)?,
    };
    let own = rest.get(..length).filter(|_| rest.get(length) == Some(&0))?;
    if [SUBMODULE, DIRECTORY].contains(&kind) || version == 4 {
        name.extend_from_slice(own);
        // It would end there for some.
        Some(()).filter(|()| !own.contains(&0) && name.len() < PATH_MAX)?;
    }
    let end = begin + length;
    Some((if version == 4 { end + 1 } else { (end + 8) & !7 }, kind, is_whole))
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// A number of variable length, and its length: gitformat-pack(5), offset encoding.
fn offset(bytes: &[u8]) -> Option<(usize, usize)> {
    let mut value = 0_usize;
    for (at, &byte) in bytes.iter().enumerate().take(4) {
        value = (value << 7) | usize::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            return Some((value, at + 1));
        }
        value += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An index of version 2 with an entry of each mode and name.
    fn index(entries: &[(u32, &str)], extension: &[u8], hash: usize) -> Vec<u8> {
        let count = u32::try_from(entries.len()).unwrap();
        let mut index = [&b"DIRC"[..], &2_u32.to_be_bytes(), &count.to_be_bytes()].concat();
        for (mode, name) in entries {
            let mut entry = vec![0; 24];
            entry.extend(mode.to_be_bytes());
            entry.resize(40 + hash, 0);
            entry.extend(u16::try_from(name.len()).unwrap().min(LENGTH).to_be_bytes());
            entry.extend(name.as_bytes());
            entry.resize((entry.len() + 8) & !7, 0);
            index.extend(entry);
        }
        index.extend(extension);
        index.resize(index.len() + hash, 7);
        index
    }

    #[test]
    fn submodules_are_found_in_an_index() {
        let gitlinks = |index: &[u8], hash| {
            let links = Pieces::of(index, index.len() as u64).links(hash)?;
            Some((links.names, links.base))
        };
        for hash in HASHES {
            let entries = [(0o100_644, "a"), (0o160_000, "deep/sub"), (0o120_000, "link")];
            let found = gitlinks(&index(&entries, b"", hash), hash);
            assert_eq!(found, Some((vec![b"deep/sub".to_vec()], None)));
            // git looks at the kind alone (S_IFMT), whatever is above it.
            let high = gitlinks(&index(&[(0o360_000, "sub")], b"", hash), hash);
            assert_eq!(high, Some((vec![b"sub".to_vec()], None)));
            let sparse = gitlinks(&index(&[(0o040_000, "d")], b"sdir\0\0\0\0", hash), hash);
            assert_eq!(sparse, Some((vec![b"d/".to_vec()], None)));
            let tree = gitlinks(&index(&entries, b"TREE\0\0\0\x02ab", hash), hash);
            assert_eq!(tree, Some((vec![b"deep/sub".to_vec()], None)));
            let second = u32::try_from(12 + (40 + hash + 2 + 1 + 8) / 8 * 8).unwrap();
            for (first, second, known) in [(12, second, true), (12, 13, false), (13, second, false)]
            {
                let numbers = [20, 1, first, 1, second, 2].map(u32::to_be_bytes).concat();
                let table = [&b"IEOT"[..], &numbers].concat();
                let found = gitlinks(&index(&entries, &table, hash), hash);
                assert_eq!(found.is_some(), known, "{first} {second}");
            }
            let end = gitlinks(&index(&entries, b"EOIE\0\0\0\x04\0\0\0\x0d", hash), hash);
            assert_eq!(end, None);
            assert_eq!(gitlinks(&index(&entries, b"link\0\0\0\x02ab", hash), hash), None);
            let base = vec![9; hash];
            let size = u32::try_from(hash).unwrap().to_be_bytes();
            let split = [&b"link"[..], &size, &base].concat();
            let found = gitlinks(&index(&entries, &split, hash), hash);
            assert_eq!(found, Some((vec![b"deep/sub".to_vec()], Some(base))));
            let whole = index(&entries, b"TREE\0\0\0\x02ab", hash);
            // Without its extension it is whole.
            for length in 0..whole.len() - 10 {
                assert_eq!(gitlinks(&whole[..length], hash), None, "{length}");
            }
        }
        assert_eq!(gitlinks(b"", 20), None);
        assert_eq!(gitlinks(&[0xff; 99], 20), None);
    }

    fn parse(index: &[u8], hash: usize) -> Option<Vec<Vec<u8>>> {
        Some(Pieces::of(index, index.len() as u64).links(hash)?.names)
    }

    #[test]
    fn an_entry_ends_where_git_says_and_nowhere_else() {
        let names =
            |names: &[&str]| Some(names.iter().map(|name| name.as_bytes().to_vec()).collect());
        let whole = index(&[(0o100_644, "abc"), (0o160_000, "sub")], b"", 20);
        assert_eq!(parse(&whole, 20), names(&["sub"]));
        // The flags of the first entry: 12 of the header, 60 before them.
        for (flags, expected) in
            [(3_u16, names(&["sub"])), (0xfff, names(&["sub"])), (2, None), (4, names(&["sub"]))]
        {
            let mut index = whole.clone();
            index[72..74].copy_from_slice(&flags.to_be_bytes());
            assert_eq!(parse(&index, 20), expected, "{flags}");
        }
        // As git reads one of version 2, too: a name may follow other flags.
        let mut extended = index(&[(0o160_000, "??sub")], b"", 20);
        extended[72..74].copy_from_slice(&0x4003_u16.to_be_bytes());
        assert_eq!(parse(&extended, 20), names(&["sub"]));
        let mut inner = index(&[(0o160_000, "sub/x")], b"", 20);
        inner[77] = 0;
        assert_eq!(parse(&inner, 20), None);
    }

    /// With names of objects of 32 bytes it is one for `sub`, and with 20 for another: only the settings of the
    /// repository, which are not read here, say which git takes it for.
    #[test]
    fn what_is_an_index_in_two_ways_is_none() {
        let mut both = index(&[(0o160_000, "sub")], b"", 32);
        both[72..74].copy_from_slice(&10_u16.to_be_bytes());
        both[74..84].copy_from_slice(b"other-name");
        both[92..100].copy_from_slice(b"TREE\0\0\0\x04");
        let names = |hash| Some(parse(&both, hash)?.concat());
        assert_eq!(
            [20, 32].map(names),
            [&b"other-name"[..], b"sub"].map(|name| Some(name.to_vec()))
        );
        let dir = kernel::test_directory::TestDirectory::new();
        let read = |bytes: &[u8]| {
            std::fs::write(dir.path("index"), bytes).unwrap();
            links(&File::open(dir.path("index")).unwrap(), &mut 1000)
        };
        assert_eq!(read(&both), None);
        both[99] = 5;
        assert_eq!(read(&both).unwrap().names, [b"sub"]);
    }

    #[test]
    fn names_that_continue_one_another_are_read() {
        let of = |told: [u16; 3]| {
            let mut index = [&b"DIRC"[..], &4_u32.to_be_bytes(), &3_u32.to_be_bytes()].concat();
            let entries =
                [(0o100_644_u32, 0, "deep/a"), (0o160_000, 1, "sub"), (0o160_000, 3, "x")];
            for ((mode, cut, rest), told) in entries.into_iter().zip(told) {
                let mut entry = vec![0; 24];
                entry.extend(mode.to_be_bytes());
                entry.resize(60, 0);
                entry.extend(told.to_be_bytes());
                index.extend([&entry[..], &[cut], rest.as_bytes(), &[0]].concat());
            }
            index.resize(index.len() + 20, 7);
            parse(&index, 20)
        };
        let expected = Some(vec![b"deep/sub".to_vec(), b"deep/x".to_vec()]);
        assert_eq!(of([6, 8, 6]), expected);
        assert_eq!(of([0xfff; 3]), expected);
        assert_eq!(of([6, 7, 6]), None);
        assert_eq!(of([6, 9, 6]), None);
        assert_eq!(of([6, 8, 2]), None);
    }

    #[test]
    fn names_take_no_more_than_those_of_a_real_repository() {
        let many: Vec<_> = (0..NAMES_MAX).map(|number| format!("deps/{number}")).collect();
        let of = |names: &[String]| {
            let entries: Vec<_> = names.iter().map(|name| (0o160_000, name.as_str())).collect();
            parse(&index(&entries, b"", 20), 20).map(|found| found.len())
        };
        assert_eq!(of(&many), Some(NAMES_MAX));
        assert_eq!(of(&[&many[..], &["one-more".to_owned()]].concat()), None);
        let long = |count: usize, length: usize| of(&vec!["x".repeat(length); count]);
        assert_eq!(long(BYTES_MAX >> 11, 1 << 11), Some(BYTES_MAX >> 11));
        assert_eq!(long((BYTES_MAX >> 11) + 1, 1 << 11), None);
        assert_eq!((long(1, PATH_MAX - 1), long(1, PATH_MAX)), (Some(1), None));
        // They count as what is read, too.
        let dir = kernel::test_directory::TestDirectory::new();
        let whole = index(&[(0o160_000, "sub")], b"", 20);
        std::fs::write(dir.path("index"), &whole).unwrap();
        let read = |mut left: u64| links(&File::open(dir.path("index")).unwrap(), &mut left);
        let size = whole.len() as u64;
        assert_eq!((read(size + 12).is_some(), read(size + 11)), (true, None));
    }

    #[test]
    fn a_name_goes_on_no_further_than_a_path() {
        let of = |count: u32| {
            let mut index = [&b"DIRC"[..], &4_u32.to_be_bytes(), &count.to_be_bytes()].concat();
            for _ in 0..count {
                let mut entry = vec![0; 24];
                entry.extend(0o100_644_u32.to_be_bytes());
                entry.resize(60, 0);
                entry.extend(LENGTH.to_be_bytes());
                index.extend([&entry[..], &[0], b"/x", &[0]].concat());
            }
            index.resize(index.len() + 20, 7);
            parse(&index, 20)
        };
        assert_eq!((of(2000), of(2048)), (Some(Vec::new()), None));
    }

    #[test]
    fn large_indexes_are_read_piece_by_piece() {
        let long = "d/".repeat(2000);
        let names: Vec<_> =
            (0..3000).map(|number| format!("{number}/{}", &long[number % 4000..])).collect();
        let entries: Vec<_> = names.iter().map(|name| (0o100_644, name.as_str())).collect();
        let entries = [&entries[..], &[(0o160_000, "sub")]].concat();
        let tree = [&b"TREE"[..], &200_000_u32.to_be_bytes(), &[1; 200_000]].concat();
        let whole = index(&entries, &tree, 20);
        assert_eq!(parse(&whole, 20), Some(vec![b"sub".to_vec()]));
        for missing in [1, 20, 21, 100_000, 200_000, 300_000] {
            assert_eq!(parse(&whole[..whole.len() - missing], 20), None, "{missing}");
        }
        // What it was when it was opened says where its end is.
        let mut pieces = Pieces::of(&whole[..], whole.len() as u64 + 1);
        assert_eq!(pieces.links(20), None);
    }

    #[test]
    fn offsets_are_read_as_git_writes_them() {
        for (bytes, expected) in [
            (&[0_u8][..], Some((0, 1))),
            (&[127, 1], Some((127, 1))),
            (&[0x80, 0], Some((128, 2))),
            (&[0x81, 0x02], Some((258, 2))),
            (&[0x80], None),
            (&[0xff; 9], None),
        ] {
            assert_eq!(offset(bytes), expected, "{bytes:?}");
        }
    }
}

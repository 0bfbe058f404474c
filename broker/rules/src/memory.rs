//! Names of shared memory (shm_overview(7), sem_overview(7)). Pure.

use std::path::{Path, PathBuf};

/// Where the C library has such objects.
pub const PLACE: &str = "/dev/shm";
/// How the names of directories of runs begin.
pub const OF_RUNS: &[u8] = b"landstrip-";

/// Whether one of `paths` names all shared memory: not by the root directory, which is all that there is and
/// nothing by name.
pub fn is_named_by(paths: &[PathBuf]) -> bool {
    paths.iter().any(|path| Path::new(PLACE).starts_with(path) && path != Path::new("/"))
}

/// The entry of /dev/shm that `path` names by its text.
pub fn name(path: &[u8]) -> Option<&[u8]> {
    let name = path.strip_prefix(b"/dev/shm/")?;
    let start = name.iter().position(|&byte| byte != b'/')?;
    let name = &name[start..];
    let is_one = !name.contains(&b'/') && name != b"." && name != b"..";
    is_one.then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_known_by_its_text() {
        let cases: [(&[u8], Option<&[u8]>); 9] = [
            (b"/dev/shm/x", Some(b"x")),
            (b"/dev/shm//sem.x", Some(b"sem.x")),
            (b"/dev/shm/", None),
            (b"/dev/shm", None),
            (b"/dev/shm/..", None),
            (b"/dev/shm/.", None),
            (b"/dev/shm/x/y", None),
            (b"/dev/shmx", None),
            (b"x", None),
        ];
        for (path, expected) in cases {
            assert_eq!(name(path), expected, "{}", String::from_utf8_lossy(path));
        }
    }
}

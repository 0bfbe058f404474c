//! Scripts of file calls, made from a seed: the same number, the same script.

/// What the names of a script may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Names {
    /// None that a policy denies.
    Plain,
    /// The same, in a tree that is opened inside a denied one.
    Reopened,
    /// Those beside denied ones too, in the directories that lead to them.
    Beside,
    /// The same, where nothing can be granted before it has a name.
    Unprepared,
    /// The same, where something may not be read besides.
    Read,
    /// Denied ones, too.
    Denied,
}

impl Names {
    /// What a policy denies inside of the tree.
    pub(crate) fn denied(self) -> &'static [&'static str] {
        match self {
            Self::Plain | Self::Reopened => &[],
            _ => &["secret/.env", ".git/hooks", "missing-denied", "*.pem"],
        }
    }
}

/// Names of the tree that every script starts in, and of none.
const PLAIN: [&str; 22] = [
    "a", "b", "c", "d", "e", "f", "g", "l", "lf", "dangling", "loop", "abs", "up", "p", "r", "z",
    "n1", "n2", "n3", "KEY.PEM", "f", "a",
];
/// Directories among those, or likely to become one.
const DIRECTORIES: [&str; 10] = ["a", "a/b", "d", "l", "abs/a", "n1", "n2", "d/n1", "c", "lf"];
/// Names beside denied ones. Never the directory by itself: whether that may go is the policy's.
const BESIDE: [&str; 9] = [
    "secret/x",
    "secret/n1",
    "secret/n2",
    "secret/sub/n1",
    ".git/config",
    ".git/n1",
    ".git/HEAD",
    ".git/refs/n1",
    "secret/../.git/n2",
];
const DENIED: [&str; 16] = [
    "secret",
    "secret/.env",
    "secret/.env/n1",
    ".git",
    ".git/hooks",
    ".git/hooks/pre",
    ".git/hooks/n1",
    "missing-denied",
    "missing-denied/n1",
    "key.pem",
    "n1.pem",
    "a/b/cert.pem",
    "hard",
    "a/n2.pem",
    "to-env",
    "keys",
];

const MODES: [&str; 8] = ["0o644", "0o600", "0o755", "0o777", "0o444", "0o0", "0o1777", "0o100644"];

/// A sequence of numbers that depends on its seed alone (splitmix64).
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    /// True in `percent` of 100 cases.
    fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    fn of<'a>(&mut self, words: &[&'a str]) -> &'a str {
        words[self.below(words.len())]
    }
}

/// `length` lines.
pub(crate) fn script(seed: u64, names: Names, length: usize) -> Vec<String> {
    let mut maker = Maker { random: Random::new(seed), names };
    (0..length).map(|_| maker.line()).collect()
}

struct Maker {
    random: Random,
    names: Names,
}

impl Maker {
    fn line(&mut self) -> String {
        // As often as it is named.
        const CALLS: &str = "open open open open open openat openat openat openat openat \
            creat creat mkdir mkdir mkdir mkdirat mkdirat rmdir rmdir \
            unlink unlink unlinkat unlinkat rename rename rename rename renameat renameat2 \
            renameat2 renameat2 renameat2 link link linkat linkat linkat symlink symlink symlinkat \
            mknod mknod mknodat truncate truncate ftruncate chmod fchmod fchmodat fchmodat2 \
            utimensat utimensat utimes-now chown chown lchown fchown fchownat fchownat setxattr \
            setxattr lsetxattr fsetxattr removexattr lremovexattr fremovexattr getxattr lgetxattr \
            fgetxattr listxattr llistxattr flistxattr pwrite64 pwrite64 pwrite64 pread64 pread64 chdir chdir fchdir umask \
            access access faccessat2 stat stat lstat newfstatat newfstatat readlinkat readlinkat \
            getdents64 getdents64 getcwd dup close close";
        let calls: Vec<&str> = CALLS.split_whitespace().collect();
        let call = self.random.of(&calls);
        let words = match call {
            "open" => vec![self.slot(), self.path(), self.open_flags(), self.mode()],
            "creat" => vec![self.slot(), self.path(), self.mode()],
            "openat" => {
                let (at, path) = self.at();
                vec![self.slot(), at, path, self.open_flags(), self.mode()]
            }
            "mkdir" | "chmod" => vec![self.path(), self.mode()],
            "mkdirat" | "fchmodat" => self.at_with(Self::mode),
            "rmdir" | "unlink" | "stat" | "lstat" => vec![self.path()],
            "unlinkat" => self.at_with(|maker| maker.number(&["0", "0", "512", "512", "1"])),
            "rename" | "link" => vec![self.path(), self.path()],
            "renameat" => self.at_twice(""),
            "renameat2" => {
                let flags = self.number(&["0", "1", "1", "2", "2", "2", "3", "8"]);
                self.at_twice(&flags)
            }
            // None, AT_SYMLINK_FOLLOW, AT_EMPTY_PATH.
            "linkat" if self.random.chance(25) => {
                let (at, to) = self.at();
                let (from, flags) = match self.random.below(3) {
                    0 => ("''".to_owned(), "0x1000"),
                    1 => (format!("/proc/self/fd/{{{}}}", self.random.below(6)), "0x400"),
                    _ => ("''".to_owned(), "0"),
                };
                vec![self.slot(), from, at, to, flags.to_owned()]
            }
            "linkat" => {
                let flags = self.number(&["0", "0x400", "0x1000", "0x1400", "1"]);
                self.at_twice(&flags)
            }
            "symlink" => vec![self.target(), self.path()],
            "symlinkat" => {
                let (at, path) = self.at();
                vec![self.target(), at, path]
            }
            "mknod" => vec![self.path(), self.kind(), "0".to_owned()],
            "mknodat" => {
                let (at, path) = self.at();
                vec![at, path, self.kind(), "0".to_owned()]
            }
            "truncate" => vec![self.path(), self.size()],
            "ftruncate" => vec![self.slot(), self.size()],
            "fchmod" => vec![self.slot(), self.mode()],
            "fchmodat2" => {
                let (at, path, flags) = self.at_by_flags();
                vec![at, path, self.mode(), flags]
            }
            "fchownat" => {
                let (at, path, flags) = self.at_by_flags();
                vec![at, path, self.owner(), self.owner(), flags]
            }
            "utimensat" => {
                let (at, path, flags) = self.at_by_flags();
                vec![at, path, self.times(), flags]
            }
            "utimes-now" => vec![self.path(), "0".to_owned()],
            "chown" | "lchown" => vec![self.path(), self.owner(), self.owner()],
            "fchown" => vec![self.slot(), self.owner(), self.owner()],
            "setxattr" | "lsetxattr" => {
                let path = self.path();
                [vec![path], self.attribute()].concat()
            }
            "fsetxattr" => {
                let slot = self.slot();
                [vec![slot], self.attribute()].concat()
            }
            "removexattr" | "lremovexattr" | "getxattr" | "lgetxattr" => {
                vec![self.path(), self.attribute_name()]
            }
            "fremovexattr" | "fgetxattr" => vec![self.slot(), self.attribute_name()],
            "listxattr" | "llistxattr" => vec![self.path()],
            "flistxattr" => vec![self.slot()],
            "newfstatat" => self.at_with(|maker| maker.number(&["0", "0x100", "0x1000", "1"])),
            "pwrite64" => vec![self.slot(), self.number(&["some", "other"]), "0".to_owned()],
            "pread64" => vec![self.slot(), "0".to_owned()],
            "chdir" if self.random.chance(40) => vec!["@".to_owned()],
            "chdir" => vec![self.path()],
            "fchdir" | "getdents64" | "close" => vec![self.slot()],
            "umask" => vec![self.number(&["0", "0o22", "0o77", "0o27", "0o777"])],
            "access" => vec![self.path(), self.number(&["0", "1", "2", "4", "6", "9"])],
            "faccessat2" => {
                let (at, path) = self.at();
                let (mode, flags) = (self.number(&["0", "2", "4"]), self.number(&["0", "0x200"]));
                vec![at, path, mode, flags]
            }
            "readlinkat" => {
                let (at, path) = self.at();
                vec![at, path]
            }
            "dup" => vec![self.slot(), self.slot()],
            _ => vec![],
        };
        [vec![call.to_owned()], words].concat().join(" ")
    }

    fn number(&mut self, words: &[&str]) -> String {
        self.random.of(words).to_owned()
    }

    /// A path with AT_SYMLINK_NOFOLLOW or AT_EMPTY_PATH, often a descriptor by itself.
    fn at_by_flags(&mut self) -> (String, String, String) {
        let flags = self.number(&["0", "0", "0x100", "0x100", "0x1000", "0x1100", "1"]);
        let (at, path) = self.at();
        let path = if self.random.chance(25) { self.number(&["''", "''", "!null"]) } else { path };
        (at, path, flags)
    }

    /// Mostly what everyone may give a file to.
    fn owner(&mut self) -> String {
        self.number(&["own", "own", "own", "none", "none", "1234"])
    }

    fn times(&mut self) -> String {
        const TIMES: [&str; 10] = [
            "old",
            "old",
            "older",
            "now",
            "omit",
            "omit-first",
            "omit-last",
            "now-first",
            "invalid",
            "!null",
        ];
        if self.random.chance(3) { "!bad".to_owned() } else { self.number(&TIMES) }
    }

    fn attribute_name(&mut self) -> String {
        const NAMES: [&str; 10] = [
            "user.a",
            "user.a",
            "user.a",
            "user.b",
            "system.posix_acl_access",
            "system.posix_acl_access",
            "system.posix_acl_default",
            "system.posix_acl_default",
            "user.",
            "nothing",
        ];
        match self.random.below(30) {
            0 => "''".to_owned(),
            1 => "!bad".to_owned(),
            2 => format!("user.{}", "x".repeat(250)),
            3 => format!("user.{}", "x".repeat(251)),
            _ => self.number(&NAMES),
        }
    }

    /// Name, value and flags: none, XATTR_CREATE, XATTR_REPLACE, both, unknown.
    fn attribute(&mut self) -> Vec<String> {
        let name = self.attribute_name();
        let value = match name.starts_with("system") && self.random.chance(85) {
            true => self.number(&["acl-minimal", "acl", "acl", "acl-without-mask"]),
            false => self.number(&["some", "other", "big", "acl", "!bad"]),
        };
        vec![name, value, self.number(&["0", "0", "0", "0", "1", "2", "3", "4"])]
    }

    fn mode(&mut self) -> String {
        self.number(&MODES)
    }

    fn size(&mut self) -> String {
        self.number(&["0", "3", "5000", "-1"])
    }

    /// Of a node: a FIFO, a socket, a file, no kind, and what mknod does not make.
    fn kind(&mut self) -> String {
        self.number(&["0o10644", "0o10600", "0o140755", "0o100666", "0o644", "0o40755", "0o120777"])
    }

    fn slot(&mut self) -> String {
        format!("s{}", self.random.below(6))
    }

    /// A descriptor, and a path to start there.
    fn at(&mut self) -> (String, String) {
        let at = match self.random.below(20) {
            0 => "closed".to_owned(),
            1 => "pipe".to_owned(),
            2..8 => "cwd".to_owned(),
            _ => self.slot(),
        };
        (at, self.path())
    }

    fn at_with(&mut self, last: impl FnOnce(&mut Self) -> String) -> Vec<String> {
        let (at, path) = self.at();
        vec![at, path, last(self)]
    }

    fn at_twice(&mut self, flags: &str) -> Vec<String> {
        let ((one, from), (two, to)) = (self.at(), self.at());
        let mut words = vec![one, from, two, to];
        words.extend((!flags.is_empty()).then(|| flags.to_owned()));
        words
    }

    fn open_flags(&mut self) -> String {
        let mut flags = match self.random.below(20) {
            0..8 => libc::O_RDONLY,
            8..13 => libc::O_WRONLY,
            13..19 => libc::O_RDWR,
            _ => libc::O_ACCMODE,
        };
        for (flag, percent) in [
            (libc::O_CREAT, 40),
            (libc::O_EXCL, 15),
            (libc::O_TRUNC, 15),
            (libc::O_APPEND, 10),
            (libc::O_NOFOLLOW, 10),
            (libc::O_DIRECTORY, 12),
            (libc::O_CLOEXEC, 20),
            (libc::O_NONBLOCK, 15),
            (libc::O_PATH, 8),
            (libc::O_TMPFILE, 4),
            (libc::O_NOATIME, 3),
            (libc::O_SYNC, 3),
            (libc::O_DSYNC, 3),
            (libc::O_NOCTTY, 3),
            (1 << 30, 1),
        ] {
            if self.random.chance(percent) {
                flags |= flag;
            }
        }
        if flags & libc::O_DIRECTORY != 0 && self.random.chance(60) {
            flags &= !(libc::O_ACCMODE | libc::O_CREAT);
        }
        if flags & libc::O_ACCMODE == libc::O_ACCMODE {
            // Refused otherwise, whatever is named.
            flags |= libc::O_PATH;
        }
        flags.to_string()
    }

    fn target(&mut self) -> String {
        match self.random.below(20) {
            0 => "''".to_owned(),
            1 => "!bad".to_owned(),
            2 => "/proc/self/cwd/n1".to_owned(),
            _ => self.name(),
        }
    }

    /// One of the tree's names, or an entry of one of its directories.
    fn name(&mut self) -> String {
        let special = match self.names {
            Names::Plain | Names::Reopened => 0,
            Names::Beside | Names::Unprepared | Names::Read => 30,
            Names::Denied => 60,
        };
        if self.random.chance(special) {
            let is_denied = self.names == Names::Denied && self.random.chance(60);
            return self.random.of(if is_denied { &DENIED } else { &BESIDE }).to_owned();
        }
        let name = self.random.of(&PLAIN);
        match self.random.below(100) {
            0..45 => name.to_owned(),
            45..88 => format!("{}/{name}", self.random.of(&DIRECTORIES)),
            88..92 => format!("../{name}"),
            92..95 => format!("{}/../{name}", self.random.of(&DIRECTORIES)),
            95..97 => format!("f/{name}"),
            97..98 => "../outside/file".to_owned(),
            _ => self.random.of(&[".", "..", "/", "a/.", "a/.."]).to_owned(),
        }
    }

    fn path(&mut self) -> String {
        if self.random.chance(4) {
            return match self.random.below(10) {
                0..3 => "''".to_owned(),
                3 => "!null".to_owned(),
                4 => "!bad".to_owned(),
                5 => "!torn:a/n1".to_owned(),
                6 => "x".repeat(255),
                7 => "x".repeat(256),
                8 => "./".repeat(2046) + "n1", // 4094
                _ => "./".repeat(2047) + "n1", // 4096
            };
        }
        let mut path = self.name();
        if !path.starts_with('/') {
            path = match self.random.below(100) {
                0..10 => format!("@/{path}"),
                10..13 => format!("./{path}"),
                13..16 => format!("/proc/self/cwd/{path}"),
                16..18 => format!("/proc/thread-self/cwd/{path}"),
                18..21 => format!("/proc/self/fd/{{{}}}/{path}", self.random.below(6)),
                21..22 => format!("/proc/self/root@/{path}"),
                22..24 => format!("/proc/self/fd/{{{}}}", self.random.below(6)),
                24..25 => format!("/dev/fd/{{{}}}", self.random.below(6)),
                25..27 => path.replace('/', "//"),
                _ => path,
            };
        }
        match self.random.below(100) {
            0..6 => path.push('/'),
            6..8 => path.push_str("/."),
            8..9 => path.push_str("//"),
            9..12 => path.insert_str(0, "!edge:"),
            _ => {}
        }
        path
    }
}

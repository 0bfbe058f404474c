//! A script of file calls, made one by one: what each returned and what became of its paths.
//!
//! `calls SCRIPT` prints a line `N=RESULT DETAIL [STATE]...` for each line of the script. With a
//! sandbox around it these lines must be what they are without one, see [`mirror`].
//!
//! A line of a script is the name of a call and a word for each argument:
//! a path (`@` is the directory that the script starts in, `{3}` the number of the descriptor in
//! slot 3, `''` the empty path, `!null` and `!bad` addresses that are none, `!edge:PATH` one whose
//! NUL is the last byte before unmapped memory, `!torn:PATH` one without a NUL there), a descriptor
//! (`cwd`, a slot `s0` to `s5`, `closed`, `pipe`), a number, or what [`table::Kind`] says. A call that opens has first the slot
//! that keeps the descriptor.

mod mirror;
mod table;

use crate::older;
use crate::sys::{self, Result, addr, addr_mut, call};
use crate::{tell, usage};
use std::path::PathBuf;
use table::Kind;

const AT: usize = libc::AT_FDCWD as usize;
const PAGE: usize = 4096;
/// Descriptors that a script can keep.
const SLOTS: usize = 6;

pub(crate) fn run(op: &str, args: &[&str]) -> bool {
    match (op, args) {
        ("calls", [script]) => each(script, Calls::make),
        // From a thread that is not the first one: its id is no process id.
        ("calls-thread", [script]) => std::thread::scope(|scope| {
            let _ = scope.spawn(|| each(script, Calls::make)).join();
        }),
        ("calls-mirror", [script, results, denied @ ..]) => mirror::run(script, results, denied),
        _ => return false,
    }
    true
}

/// Makes every call of `script` by `make` and prints what it returns.
fn each(script: &str, mut make: impl FnMut(&mut Calls, &Line<'_>) -> String) {
    let text = read(script);
    let mut calls = Calls::new();
    for (number, line) in text.lines().enumerate() {
        let line = Line::parse(number, line);
        let result = make(&mut calls, &line);
        tell(&number.to_string(), &result);
    }
}

fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| usage(&format!("{path}: {error}")))
}

/// A line of a script.
struct Line<'a> {
    number: usize,
    call: &'static table::Call,
    /// A word for each kind of the call that has one.
    words: Vec<&'a str>,
}

impl<'a> Line<'a> {
    fn parse(number: usize, text: &'a str) -> Self {
        let mut words = text.split(' ');
        let name = words.next().unwrap_or_default();
        let Some(call) = table::find(name) else { usage(&format!("no call {name}")) };
        let words: Vec<&str> = words.collect();
        let wanted = call.kinds.iter().filter(|kind| kind.has_word()).count();
        if words.len() != wanted {
            usage(&format!("{wanted} words, not {text}"));
        }
        Self { number, call, words }
    }

    /// The kinds that have a word, with it.
    fn arguments(&self) -> impl Iterator<Item = (Kind, &'a str)> {
        let kinds = self.call.kinds.iter().copied().filter(|kind| kind.has_word());
        kinds.zip(self.words.iter().copied())
    }

    /// The flags, if it opens a file.
    fn open_flags(&self) -> Option<i32> {
        match self.call.name {
            "creat" => Some(libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC),
            "open" | "openat" => {
                let word = self.arguments().find(|(k, _)| matches!(k, Kind::Number));
                word.map(|(_, flags)| number(flags) as i32)
            }
            _ => None,
        }
    }

    /// Whether it asks for leave to write (access(2)), which is answered by the policy.
    fn asks_to_write(&self) -> bool {
        let mode = match self.call.name {
            "access" => self.words.get(1),
            "faccessat2" => self.words.get(2),
            _ => None,
        };
        mode.is_some_and(|mode| number(mode) & libc::W_OK as usize != 0)
    }

    /// The paths, each with the descriptor that it starts at.
    fn paths(&self) -> Vec<(&'a str, &'a str)> {
        let mut at = "cwd";
        let mut found = Vec::new();
        for (kind, word) in self.arguments() {
            match kind {
                Kind::Directory => at = word,
                Kind::Path => found.push((std::mem::replace(&mut at, "cwd"), word)),
                _ => {}
            }
        }
        found
    }
}

/// The process as the script sees it.
struct Calls {
    slots: [Option<usize>; SLOTS],
    root: PathBuf,
    buffer: Vec<u64>,
    times: [i64; 4],
}

impl Calls {
    fn new() -> Self {
        let root = std::env::current_dir().unwrap_or_else(|error| usage(&error.to_string()));
        // What the tests' own caller left open would shift the numbers outside.
        let _ = call(libc::SYS_close_range, &[3, u32::MAX as usize, 0]);
        own_pipe();
        Self { slots: [None; SLOTS], root, buffer: vec![0; PAGE / 8], times: [0; 4] }
    }

    fn root(&self) -> &str {
        self.root.to_str().unwrap_or_default()
    }

    fn make(&mut self, line: &Line<'_>) -> String {
        self.prepare(line);
        if self.would_wait(line) {
            return "WAITS".to_owned();
        }
        let result = self.call(line);
        let result = self.outcome(line, result);
        format!("{result}{}", self.states(line))
    }

    /// A slot that gets another descriptor gives its own up.
    fn prepare(&mut self, line: &Line<'_>) {
        if let Some((Kind::New, word)) = line.arguments().next()
            && let Some(old) = self.slots[slot(word)].take()
        {
            let _ = call(libc::SYS_close, &[old]);
        }
    }

    /// Whether it opens a FIFO and would wait for the other end.
    fn would_wait(&self, line: &Line<'_>) -> bool {
        let Some(flags) = line.open_flags() else { return false };
        if flags & (libc::O_NONBLOCK | libc::O_PATH) != 0 {
            return false;
        }
        line.paths().first().is_some_and(|(at, path)| {
            let path = self.place(path);
            Stat::of(self.descriptor(at), path.address(), 0).is_ok_and(|stat| stat.is_fifo())
        })
    }

    fn call(&mut self, line: &Line<'_>) -> Result {
        let mut words = line.words.iter().copied();
        let mut next = || words.next().unwrap_or_default();
        let mut kept = Vec::new();
        let mut arguments = Vec::new();
        for kind in line.call.kinds {
            match kind {
                Kind::New => {
                    next();
                }
                Kind::Path | Kind::Target | Kind::Name => {
                    let path = self.place(next());
                    arguments.push(path.address());
                    kept.push(path);
                }
                Kind::Directory | Kind::Descriptor => arguments.push(self.descriptor(next())),
                Kind::Number => arguments.push(number(next())),
                Kind::Content => {
                    let text = self.place(next());
                    arguments.extend([text.address(), text.len()]);
                    kept.push(text);
                }
                Kind::Value => {
                    let value = match next() {
                        "!bad" => Placed::Nowhere(1),
                        word => Placed::Bytes(table::value(word)),
                    };
                    arguments.extend([value.address(), value.len()]);
                    kept.push(value);
                }
                Kind::Owner => arguments.push(owner(next())),
                Kind::Times => arguments.push(match next() {
                    "!null" => 0,
                    "!bad" => 1,
                    word => {
                        self.times = table::times(word).unwrap_or_else(|| usage(word));
                        addr(&self.times)
                    }
                }),
                Kind::Buffer => arguments.push(addr_mut(&mut self.buffer[..])),
                Kind::Size => arguments.push(PAGE - 1),
            }
        }
        // A result in the buffer is told from what was there before.
        self.buffer.fill(0);
        let result = call(line.call.number, &arguments);
        drop(kept);
        result
    }

    /// What the call returned, and what is to be said of that.
    fn outcome(&mut self, line: &Line<'_>, result: Result) -> String {
        let value = match result {
            Ok(value) => value,
            Err(errno) => return sys::name(errno),
        };
        if let Some((Kind::New, word)) = line.arguments().next() {
            self.slots[slot(word)] = Some(value);
            let mut flags = call(libc::SYS_fcntl, &[value, libc::F_GETFL as usize]).unwrap_or(0);
            let cloexec = call(libc::SYS_fcntl, &[value, libc::F_GETFD as usize]).unwrap_or(9);
            let empty = sys::cstr("");
            let empty = addr(empty.as_c_str());
            let stat = Stat::of(value, empty, libc::AT_EMPTY_PATH);
            // The broker opens a file as the object that it judged, to which a magic link leads.
            let is_opened = flags & (libc::O_DIRECTORY | libc::O_PATH) as usize == 0
                && stat.as_ref().is_ok_and(|stat| stat.kind() != libc::S_IFDIR);
            if is_opened {
                flags &= !(libc::O_NOFOLLOW as usize);
            }
            let stat = stat.map_or_else(sys::name, |stat| stat.text());
            return format!("OK {value} {flags:#o} {cloexec} {stat}");
        }
        let detail = match line.call.name {
            "close" => {
                if let Some(kept) = line.words.first().and_then(|word| slot_of(word)) {
                    self.slots[kept] = None;
                }
                String::new()
            }
            "getdents64" => {
                let directory = line.words.first().map_or(AT, |word| self.descriptor(word));
                // Around the tree lies what the test itself needs.
                let is_inside =
                    mirror::link_of(directory).is_some_and(|path| path.starts_with(&self.root));
                if is_inside { self.names(value) } else { "elsewhere".to_owned() }
            }
            "readlinkat" | "getcwd" | "pread64" => {
                let bytes: Vec<u8> = self.bytes().into_iter().take(value).collect();
                let text = String::from_utf8_lossy(&bytes).replace(self.root(), "@");
                let world = self.root.parent().and_then(|path| path.to_str()).unwrap_or("/");
                let text = text.replace(world, "@@");
                text.trim_end_matches('\0').replace(['\n', ' ', '\0'], "?")
            }
            "getxattr" | "lgetxattr" | "fgetxattr" => {
                let bytes = self.bytes();
                bytes.iter().take(value).map(|byte| format!("{byte:02x}")).collect()
            }
            "listxattr" | "llistxattr" | "flistxattr" => {
                let bytes: Vec<u8> = self.bytes().into_iter().take(value).collect();
                let text = String::from_utf8_lossy(&bytes).into_owned();
                let mut names: Vec<&str> = text.split_terminator('\0').collect();
                names.sort_unstable();
                names.join(",")
            }
            "stat" | "lstat" | "newfstatat" => Stat::from(&self.buffer).text(),
            _ => format!("{value}"),
        };
        format!("OK {detail}")
    }

    fn bytes(&self) -> Vec<u8> {
        self.buffer.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    /// The entries that getdents64 wrote, in order of names.
    fn names(&self, size: usize) -> String {
        let bytes = self.bytes();
        let mut names = Vec::new();
        let mut at = 0;
        while at < size {
            let length = usize::from(u16::from_ne_bytes([bytes[at + 16], bytes[at + 17]]));
            let name = &bytes[at + 19..at + length];
            let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
            let name = String::from_utf8_lossy(&name[..end]).into_owned();
            // A number a type; the parent of the tree has other entries here and there.
            names.push(format!("{name}:{}", bytes[at + 18]));
            at += length;
        }
        names.sort();
        names.join(",")
    }

    /// What stands at the paths of the call now, symbolic links not followed.
    fn states(&self, line: &Line<'_>) -> String {
        let mut text = String::new();
        for (at, path) in line.paths() {
            let path = self.place(path);
            let stat = Stat::of(self.descriptor(at), path.address(), libc::AT_SYMLINK_NOFOLLOW);
            text += &match stat {
                Ok(stat) if line.call.name == "utimensat" => {
                    format!(" [{} {} {}]", stat.text(), when(stat.accessed), when(stat.modified))
                }
                Ok(stat) => format!(" [{}]", stat.text()),
                Err(errno) => format!(" [{}]", sys::name(errno)),
            };
        }
        text
    }

    fn descriptor(&self, word: &str) -> usize {
        match word {
            "cwd" => AT,
            "closed" => 999,
            "pipe" => 0,
            _ => self.slots[slot(word)].unwrap_or(998),
        }
    }

    /// The text of a path or content.
    fn expand(&self, word: &str) -> String {
        let mut text = word.replace('@', self.root());
        for (number, slot) in self.slots.iter().enumerate() {
            text = text.replace(&format!("{{{number}}}"), &slot.unwrap_or(998).to_string());
        }
        text
    }

    /// Puts a path where the kernel reads it.
    fn place(&self, word: &str) -> Placed {
        match word {
            "''" => Placed::Text(sys::cstr("")),
            "!null" => Placed::Nowhere(0),
            "!bad" => Placed::Nowhere(1),
            _ => match (word.strip_prefix("!edge:"), word.strip_prefix("!torn:")) {
                (Some(path), _) => Placed::at_edge(&self.expand(path), true),
                (_, Some(path)) => Placed::at_edge(&self.expand(path), false),
                _ => Placed::Text(sys::cstr(&self.expand(word))),
            },
        }
    }
}

/// Makes descriptor 0 a pipe of this process: linkat(2) asks who opened a descriptor.
fn own_pipe() {
    let mut ends = [0i32; 2];
    let _ = call(libc::SYS_pipe2, &[addr_mut(&mut ends), 0]);
    let _ = call(older::SYS_dup2, &[ends[0] as usize, 0]);
    for end in ends {
        let _ = call(libc::SYS_close, &[end as usize]);
    }
}

fn slot_of(word: &str) -> Option<usize> {
    let number: usize = word.strip_prefix('s')?.parse().ok()?;
    (number < SLOTS).then_some(number)
}

fn slot(word: &str) -> usize {
    slot_of(word).unwrap_or_else(|| usage(&format!("not a slot: {word}")))
}

/// A decimal, hexadecimal (0x) or octal (0o) number.
fn number(word: &str) -> usize {
    let parsed = match word.strip_prefix("0o") {
        Some(octal) => usize::from_str_radix(octal, 8).ok(),
        None => word.parse::<isize>().ok().map(|number| number as usize),
    };
    parsed.unwrap_or_else(|| crate::number(word))
}

fn owner(word: &str) -> usize {
    match word {
        // The user and the group have the same number here.
        "own" => call(libc::SYS_geteuid, &[]).unwrap_or_default(),
        "none" => u32::MAX as usize,
        word => number(word),
    }
}

/// A path or a value in memory.
enum Placed {
    Text(std::ffi::CString),
    Bytes(Vec<u8>),
    /// The last bytes of a page that nothing follows.
    Edge {
        page: usize,
        offset: usize,
    },
    Nowhere(usize),
}

impl Placed {
    fn at_edge(path: &str, is_terminated: bool) -> Self {
        let mut bytes = path.as_bytes().to_vec();
        if is_terminated {
            bytes.push(0);
        }
        bytes.truncate(PAGE);
        let private = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as usize;
        let Ok(page) = call(libc::SYS_mmap, &[0, 2 * PAGE, 3, private, usize::MAX, 0]) else {
            usage("no memory")
        };
        let _ = call(libc::SYS_mprotect, &[page + PAGE, PAGE, 0]);
        let offset = PAGE - bytes.len();
        for (place, byte) in bytes.iter().enumerate() {
            sys::poke(page + offset + place, *byte);
        }
        Self::Edge { page, offset }
    }

    fn address(&self) -> usize {
        match self {
            Self::Text(text) => addr(text.as_c_str()),
            Self::Bytes(bytes) => addr(&bytes[..]),
            Self::Edge { page, offset } => page + offset,
            Self::Nowhere(address) => *address,
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Text(text) => text.as_bytes().len(),
            Self::Bytes(bytes) => bytes.len(),
            Self::Edge { offset, .. } => PAGE - offset,
            Self::Nowhere(_) => 0,
        }
    }
}

impl Drop for Placed {
    fn drop(&mut self) {
        if let Self::Edge { page, .. } = self {
            let _ = call(libc::SYS_munmap, &[*page, 2 * PAGE]);
        }
    }
}

/// The words of a struct stat of x86-64 that two trees made alike have in common.
struct Stat {
    links: u64,
    mode: u32,
    owner: u32,
    group: u32,
    size: u64,
    accessed: u64,
    modified: u64,
}

/// A time that utimensat sets here, and `now` for all that a clock set.
fn when(time: u64) -> String {
    if time < 1_500_000_000 { time.to_string() } else { "now".to_owned() }
}

impl Stat {
    fn of(at: usize, path: usize, flags: i32) -> Result<Self> {
        let mut words = [0u64; 18];
        let buffer = addr_mut(&mut words);
        call(libc::SYS_newfstatat, &[at, path, buffer, flags as usize])?;
        Ok(Self::from(&words))
    }

    fn from(words: &[u64]) -> Self {
        Self {
            links: words[2],
            mode: words[3] as u32,
            owner: (words[3] >> 32) as u32,
            group: words[4] as u32,
            size: words[6],
            accessed: words[9],
            modified: words[11],
        }
    }

    fn kind(&self) -> u32 {
        self.mode & libc::S_IFMT
    }

    fn is_fifo(&self) -> bool {
        self.kind() == libc::S_IFIFO
    }

    fn text(&self) -> String {
        let Self { owner, group, .. } = self;
        // How large a directory is depends on its past, and on others if it is not in the tree; the
        // size of a link to `@` on where the tree stands.
        let size = if self.kind() == libc::S_IFREG { self.size } else { 0 };
        let links = if self.kind() == libc::S_IFDIR { 0 } else { self.links };
        format!("{:06o}/{links}/{owner}:{group}/{size}", self.mode)
    }
}

//! Policies read one after another, each after those that it extends. It reads those files and nothing else.

use super::callers::{Caller, NO_HOME};
use super::document::{Format, Node};
use super::error::PolicyError;
use super::keys::{Item, Written};
use super::parse::{parse, read};
use super::{owners, presets, unexpanded};
use kernel::inherited::duplicate;
use kernel::locate::{LocateError, Located, locate};
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::net::SocketType;
use rustix::net::sockopt::socket_type;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The largest policy that is read, in bytes. A real one has a few hundred.
const MAX_SIZE: u64 = 1 << 20;

/// How many policies may extend one another in a row.
const MAX_EXTENDED: usize = 16;

/// How many may be read in all: two that extend two each, and so on, would be without number.
const MAX_READ: usize = 64;

/// The name of standard input in errors.
const STDIN: &str = "<stdin>";

/// The name of what stands on the command line.
const ARGUMENT: &str = "<argument>";

/// How a file came to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trust {
    /// The user named it for this run; it may be a pipe, as in `-p <(generate)`. That others can change it is told.
    Named,
    /// It was found, or another policy names it; only a regular file is read, so that no pipe or device can
    /// make the launch hang, and none that others can change.
    Found,
}

/// What has been read.
#[derive(Debug)]
pub struct Merged<'a> {
    caller: &'a Caller,
    /// The format of every policy, if told.
    format: Option<Format>,
    pub written: Written,
    /// The canonical paths of the files, and those of the symbolic links that led to them.
    pub sources: Vec<PathBuf>,
    /// The policies, each after those that it extends.
    pub files: Vec<PathBuf>,
    /// Those that others can change, and why.
    pub shared: Vec<String>,
    /// The policies that are being read, each extended by the one before it.
    chain: Vec<PathBuf>,
}

impl<'a> Merged<'a> {
    /// Nothing yet.
    pub fn new(caller: &'a Caller, format: Option<Format>) -> Self {
        let written = Written::default();
        let (sources, files, shared) = (Vec::new(), Vec::new(), Vec::new());
        Self { caller, format, written, sources, files, shared, chain: Vec::new() }
    }

    /// Adds the file at `path`, which is absolute.
    ///
    /// # Errors
    /// Returns the first [`PolicyError`], of what it extends too.
    pub fn add_file(&mut self, path: &Path, trust: Trust) -> Result<(), PolicyError> {
        let read = read_file(path, trust).map_err(|error| {
            let is_for_shell =
                |part: &OsStr| part == "~" || part.as_encoded_bytes().starts_with(b"$");
            let advice = match path.iter().any(is_for_shell) {
                true => "; a shell expands '~' and '$', and neither in quotes".to_owned(),
                false => preset_meant_by(path),
            };
            PolicyError::in_file(path, format!("cannot read policy: {}{advice}", reason(&error)))
        })?;
        self.add_read(path, read, trust)
    }

    fn add_read(
        &mut self,
        path: &Path,
        (bytes, regular): (Vec<u8>, Option<File>),
        trust: Trust,
    ) -> Result<(), PolicyError> {
        let format = self.format.or_else(|| Format::named_by(path)).unwrap_or(Format::Json);
        let trail = if regular.is_some() { trail(path)? } else { Vec::new() };
        let file = trail.last().map_or(path, PathBuf::as_path).to_owned();
        let directory = match regular {
            Some(_) => path.parent().unwrap_or(path),
            // /dev/fd holds no policies.
            None => &self.caller.cwd,
        };
        if let Some(why) = regular.and_then(|regular| owners::others(&regular, &trail)) {
            if trust == Trust::Found {
                let advice = "name it with -p if you trust whoever can";
                let message = format!("others can change this policy: {why}; {advice}");
                return Err(PolicyError::in_file(path, message));
            }
            self.shared.push(format!("others can change the policy {}: {why}", path.display()));
        }
        self.add(file, parse(&bytes, format, path)?, directory)?;
        self.add_sources(trail);
        Ok(())
    }

    /// Adds what standard input holds.
    pub fn add_stdin(&mut self) -> Result<(), PolicyError> {
        let file = Path::new(STDIN);
        let bytes = read_limited(io::stdin().lock()).map_err(|error| {
            PolicyError::in_file(file, format!("cannot read policy: {}", reason(&error)))
        })?;
        let written = parse(&bytes, self.format.unwrap_or(Format::Json), file)?;
        self.add(file.to_owned(), written, &self.caller.cwd)?;
        // `-p - < policy.json`: the file is in force like one that was named.
        let stdin = Path::new("/proc/self/fd/0");
        if stdin.metadata().is_ok_and(|metadata| metadata.is_file())
            && let Ok(path) = stdin.read_link()
            && path.is_file()
        {
            self.add_sources(trail(&path)?);
        }
        Ok(())
    }

    /// Adds a policy that stands on the command line.
    pub(crate) fn add_text(&mut self, text: &str) -> Result<(), PolicyError> {
        let file = Path::new(ARGUMENT);
        let written = parse(text.as_bytes(), self.format.unwrap_or(Format::Json), file)?;
        self.add(file.to_owned(), written, &self.caller.cwd)
    }

    /// Adds the preset `name`.
    ///
    /// # Errors
    /// Returns a [`PolicyError`] if there is none.
    pub fn add_preset(&mut self, name: &str) -> Result<(), PolicyError> {
        let root = presets::find(name).map_err(PolicyError::general)?;
        self.add_found(name, root)
    }

    fn add_found(&mut self, name: &str, preset: Node) -> Result<(), PolicyError> {
        let file = presets::file(name);
        let written = read(preset, &file)?;
        self.add(file, written, &self.caller.cwd)
    }

    /// Adds what a policy extends, in `directory`, and then the policy, which counts more.
    fn add(
        &mut self,
        file: PathBuf,
        mut written: Written,
        directory: &Path,
    ) -> Result<(), PolicyError> {
        self.chain.push(file);
        // Of what other policies say nothing is taken out.
        let others = (!written.without.is_empty()).then(|| std::mem::take(&mut self.written));
        for item in std::mem::take(&mut written.extends) {
            self.extend(&item, directory)?;
        }
        self.files.extend(self.chain.pop());
        self.written.take_out(std::mem::take(&mut written.without))?;
        if let Some(others) = others {
            let extended = std::mem::replace(&mut self.written, others);
            self.written.merge(extended);
        }
        self.written.merge(written);
        Ok(())
    }

    fn extend(&mut self, item: &Item, directory: &Path) -> Result<(), PolicyError> {
        let text = item.text.trim();
        let error = |message: String| item.origin.error(message);
        unexpanded::check(text).map_err(error)?;
        let path = match text.strip_prefix("~/") {
            _ if text.is_empty() => return Err(error("empty name of a policy".to_owned())),
            None => directory.join(text),
            Some(rest) => {
                let home = self.caller.home.as_ref();
                let home = home.ok_or_else(|| error(NO_HOME.to_owned()))?;
                home.join(rest)
            }
        };
        let is_preset = presets::is_name(text);
        let name = match is_preset {
            true => presets::file(text),
            false => located(locate(&path), &path)?.path,
        };
        if self.chain.contains(&name) {
            return Err(error(format!("'{text}' extends itself by this")));
        }
        if self.chain.len() >= MAX_EXTENDED {
            return Err(error(format!("more than {MAX_EXTENDED} policies extend one another")));
        }
        if self.files.len() >= MAX_READ {
            return Err(error(format!("more than {MAX_READ} policies are read by this")));
        }
        match is_preset {
            true => {
                let preset = presets::find(text).map_err(error)?;
                self.add_found(text, preset)
            }
            false => {
                let read = read_file(&path, Trust::Found).map_err(|cause| {
                    let (cause, advice) = (reason(&cause), preset_meant_by(&path));
                    error(format!("cannot read {}: {cause}{advice}", path.display()))
                })?;
                self.add_read(&path, read, Trust::Found)
            }
        }
    }

    fn add_sources(&mut self, trail: Vec<PathBuf>) {
        for path in trail {
            if !self.sources.contains(&path) {
                self.sources.push(path);
            }
        }
    }
}

/// What decides what is found at `path`: the symbolic links that are followed, and where they lead.
///
/// # Errors
/// Returns a [`PolicyError`] if it leads nowhere.
pub fn trail(path: &Path) -> Result<Vec<PathBuf>, PolicyError> {
    located(locate(path), path).map(Located::trail)
}

pub fn located(result: Result<Located, LocateError>, path: &Path) -> Result<Located, PolicyError> {
    result.map_err(|error| PolicyError::in_file(path, error.to_string()))
}

/// Why, without the number that the standard library adds.
fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    text.split_once(" (os error").map_or(text.as_str(), |(reason, _)| reason).to_owned()
}

/// What to say if a preset is called as this file is, but for its ending.
fn preset_meant_by(path: &Path) -> String {
    let name = path.file_stem().and_then(OsStr::to_str).unwrap_or_default();
    presets::find(name).map_or(String::new(), |_| format!("; the preset is called '{name}'"))
}

/// Reads a file, which is returned if it is a regular one.
fn read_file(path: &Path, trust: Trust) -> io::Result<(Vec<u8>, Option<File>)> {
    if trust == Trust::Named
        && let Some(stream) = stream(path)?
    {
        return Ok((read_limited(stream)?, None));
    }
    let readable = |kind: std::fs::FileType| {
        let pipe_or_terminal = kind.is_fifo() || kind.is_char_device();
        kind.is_file() || (trust == Trust::Named && pipe_or_terminal)
    };
    let refused = || io::Error::other("it is not a regular file");
    // Before it is opened, since opening a device can have effects of its own.
    let kind = path.metadata()?.file_type();
    if kind.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    if !readable(kind) {
        return Err(refused());
    }
    let mut flags = OFlags::NOCTTY;
    if trust == Trust::Found {
        // A pipe put in its place meanwhile must not block.
        flags |= OFlags::NONBLOCK;
    }
    let file = File::options().read(true).custom_flags(flags.bits().cast_signed()).open(path)?;
    let kind = file.metadata()?.file_type();
    if !readable(kind) {
        return Err(refused());
    }
    Ok((read_limited(&file)?, kind.is_file().then_some(file)))
}

/// What `/dev/fd/N` names if that is a stream socket of the caller's, which open(2) refuses: many a runtime has those
/// for pipes. It is an error if the caller has no such descriptor: landstrip itself can have one.
fn stream(path: &Path) -> io::Result<Option<File>> {
    let number = path.strip_prefix("/dev/fd").or_else(|_| path.strip_prefix("/proc/self/fd"));
    let number = number.ok().and_then(|number| number.to_str()?.parse().ok());
    let Some(given) = number.map(duplicate).transpose().map_err(|_| Errno::NOENT)? else {
        return Ok(None);
    };
    let is_stream = socket_type(&given) == Ok(SocketType::STREAM);
    Ok(is_stream.then(|| File::from(given)))
}

fn read_limited(source: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    source.take(MAX_SIZE + 1).read_to_end(&mut bytes)?;
    if u64::try_from(bytes.len()).is_ok_and(|size| size > MAX_SIZE) {
        return Err(io::Error::other("it is larger than 1 MiB"));
    }
    Ok(bytes)
}

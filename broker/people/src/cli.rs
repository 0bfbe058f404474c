//! The command line, as the contract and landstrip(1) describe it. Pure: it opens nothing and prints nothing.

#[cfg(test)]
mod completions;
mod elsewhere;

use std::ffi::OsString;
use std::fmt;
use std::os::fd::RawFd;
use std::path::PathBuf;

use lexopt::Arg;

use landstrip_core::report::failure::Failure;
use landstrip_core::report::traps::Reports;
use policy::document::Format;
use policy::error::Escaped;
use policy::keys;
use policy::load::{Selection, Source};
use policy::nearest::near;
use policy::presets;

/// What `--help` prints.
pub const HELP: &str = "\
Usage: landstrip [OPTIONS] [--] TOOL [ARG...]

Run TOOL in a sandbox that restricts its file and network access.

Options:
  -p, --policy FILE    policy file; repeat to merge in order; \"-\" reads standard input;
                       a word with neither / nor . is a preset: agent, build,
                       offline-test, read-only; one that begins with { is a policy
      --format FMT     json or yaml, for every policy; default: by extension
                       (.json .yaml .yml), else JSON
      --trap-fd FD     write denials as JSON lines to this descriptor (3 or higher, open)
      --check          parse, merge, resolve and compile the policy, report what is wrong,
                       and run nothing
      --explain[=full|json] [PATH|HOST:PORT|SOCKET...]
                       print what would be enforced and why: a page, or every rule and
                       where it is written; with arguments, which rule decides about each
      --doctor[=json]  report what this kernel and host allow, by trying it, and attack a
                       sandbox with this policy
      --learn FILE     run TOOL unconfined except for the deny rules, and write the policy
                       that it needs to a new FILE (.yaml or .json)
      --init           write a commented policy for the working tree to standard output
      --denials[=json] [SINCE]
                       list what was refused to runs under report.keep, and what would have
                       allowed it; since a day (2026-01-31), or a number of days ago (7d)
      --report WHAT    what to watch and report: all (default), changes (no refused reads;
                       the default where the policy says report.reads: false), network (no
                       file access, wherever Landlock alone decides about it) or none; what
                       is not watched costs nothing, and is enforced all the same
      --ask WHOM       ask before refusing what no rule allows: terminal, the user at the
                       controlling terminal, or the descriptor (3 or higher) of a connected
                       stream socket
      --watch [PID]    show what is refused to this user's runs in other terminals, or to
                       one of them, and answer what --ask terminal asks there
      --debug          log decisions to standard error
  -h, --help           print this help
  -V, --version        print the version

Without -p: $LANDSTRIP_POLICY, else $XDG_CONFIG_HOME/landstrip/policy.{json,yaml}, else read
everything, write the working directory and a private TMPDIR, no network.

Exit status: that of TOOL, 128+N if signal N ended it, 2 usage, 125 landstrip failed,
126 TOOL cannot be executed, 127 TOOL not found.
";

/// Every long option, as the help has them: to suggest the nearest one.
fn long_options() -> impl Iterator<Item = &'static str> {
    let lines = HELP.lines().filter(|line| line.trim_start().starts_with('-'));
    let options =
        lines.filter_map(|line| line.split_whitespace().find(|word| word.starts_with("--")));
    options.filter_map(|option| option.split('[').next())
}

/// What other programs call an option.
const CALLED: [(&[&str], &str); 5] = [
    (&["f", "config", "profile", "settings", "rules"], "--policy"),
    (&["v", "version"], "--version"),
    (&["n", "dry-run", "validate", "test"], "--check"),
    (&["d", "verbose", "trace", "log"], "--debug"),
    (&["?", "H", "usage"], "--help"),
];

/// What the command line asks for.
#[derive(Debug, PartialEq, Eq)]
pub enum Command {
    /// Print [`HELP`].
    Help,
    /// Print the version.
    Version,
    /// Check the policy and run nothing; a tool, if given, is ignored.
    Check(Invocation),
    /// Say what this host gives, and attack a sandbox of the policy; a tool, if given, is ignored.
    Doctor(Invocation, Form),
    /// Say what the policy means, or what it says of these words, and run nothing.
    Explain(Invocation, Extent, Vec<OsString>),
    /// Print which denials were kept, since then; options, if given, are ignored.
    Denials(Form, Option<OsString>),
    /// Ask here what runs ask, or that run.
    Watch(Option<i32>),
    /// Print a policy for the working directory; options, if given, are ignored.
    Init,
    /// Run the tool that stands at this index, permit all that no rule denies, and write the policy that it
    /// needs.
    Learn(Invocation, NewPolicy, usize),
    /// Run the tool that stands at this index of the whole argument vector, `argv[0]` counted.
    Run(Invocation, usize),
}

/// For whom.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// People; in colours, if their terminal has them.
    #[default]
    Text,
    Json,
}

/// How much is explained.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Extent {
    /// A page for people.
    #[default]
    Page,
    /// All of it, for them.
    Full,
    /// All of it, for programs.
    Json,
}

/// Who is asked before something is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// A program, over this descriptor, 3 or higher.
    Over(RawFd),
    /// The user, at the controlling terminal.
    Terminal,
}

/// A policy that is to be written.
#[derive(Debug, PartialEq, Eq)]
pub struct NewPolicy {
    /// Relative to the working directory.
    pub path: PathBuf,
    pub format: Format,
}

/// What the options before the tool say.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Invocation {
    pub policies: Selection,
    /// The descriptor for denials, 3 or higher. Whether it is open is not known here.
    pub trap_fd: Option<RawFd>,
    /// Which denials are reported; none if that is the policy's to say.
    pub reports: Option<Reports>,
    /// Who is asked about denials.
    pub ask: Option<Ask>,
    /// Log decisions to standard error.
    pub debug: bool,
}

/// A command line that cannot be followed: one line that names the word at fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsageError(String);

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The word at fault may hold anything.
        Escaped(&self.0).fmt(f)
    }
}

impl std::error::Error for UsageError {}

impl From<UsageError> for Failure {
    fn from(error: UsageError) -> Self {
        Self::Usage(error.to_string())
    }
}

/// Parses the arguments that follow `argv[0]`. Everything from the tool on is left alone.
///
/// # Errors
/// Returns [`UsageError`] for an unknown or repeated option, a bad value, or a missing tool.
pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Command, UsageError> {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let argv_length = arguments.len() + 1;
    let separator = arguments.iter().position(|word| word == "--");
    let mut parser = lexopt::Parser::from_args(arguments);
    let mut invocation = Invocation::default();
    let mut check = false;
    let mut init = false;
    let mut explain = None;
    let mut doctor = None;
    let mut denials = None;
    let mut learn = None;
    let mut watch = false;
    let mut words = Vec::new();
    let mut tool = None;

    while let Some(argument) = parser.next().map_err(unusable)? {
        match argument {
            Arg::Short('h') => return alone('h', "help", &mut parser).map(|()| Command::Help),
            Arg::Long("help") => {
                return without_value("--help", &mut parser).map(|()| Command::Help);
            }
            Arg::Short('V') => {
                return alone('V', "Version", &mut parser).map(|()| Command::Version);
            }
            Arg::Long("version") => {
                return without_value("--version", &mut parser).map(|()| Command::Version);
            }
            Arg::Short('p') | Arg::Long("policy") => {
                let value = parser.value().map_err(unusable)?;
                if let Some(error) = one_dash('p', &value.to_string_lossy()) {
                    return Err(error);
                }
                add_policy(&mut invocation.policies.sources, value)?;
            }
            Arg::Long("format") => {
                invocation.policies.format = Some(format(&parser.value().map_err(unusable)?)?);
            }
            Arg::Long("trap-fd") => {
                invocation.trap_fd = Some(fd("trap-fd", &parser.value().map_err(unusable)?)?);
            }
            Arg::Long("ask") => {
                invocation.ask = Some(ask(&parser.value().map_err(unusable)?)?);
            }
            Arg::Long("report") => {
                invocation.reports = Some(reports(&parser.value().map_err(unusable)?)?);
            }
            Arg::Long("check") => check = true,
            Arg::Long("learn") => {
                learn = Some(PathBuf::from(parser.value().map_err(unusable)?));
            }
            Arg::Long("watch") => watch = true,
            Arg::Long("init") => init = true,
            Arg::Long("debug") => invocation.debug = true,
            Arg::Long("explain") => explain = Some(extent(parser.optional_value())?),
            Arg::Long("doctor") => doctor = Some(form("doctor", parser.optional_value())?),
            Arg::Long("denials") => denials = Some(form("denials", parser.optional_value())?),
            Arg::Value(word) if explain.is_some() || denials.is_some() || watch => words.push(word),
            Arg::Value(word) => {
                let after_tool = parser.raw_args().map_err(unusable)?.as_slice().len();
                let index = argv_length - after_tool - 1;
                // What starts the system is nobody's tool, unless it is said to be one.
                if word == "init" && separator.is_none_or(|at| at + 2 != index) {
                    let message =
                        "'init' is an option, '--init'; put '--' before a tool of that name";
                    return Err(UsageError(message.to_owned()));
                }
                tool = Some(index);
                break;
            }
            Arg::Short(letter) => {
                let rest = parser.optional_value().unwrap_or_default();
                let error = one_dash(letter, &rest.to_string_lossy());
                return Err(error.unwrap_or_else(|| unknown_option(&format!("-{letter}"))));
            }
            Arg::Long(word) => return Err(unknown_option(&format!("--{word}"))),
        }
    }

    let runs =
        !watch && !check && !init && explain.is_none() && doctor.is_none() && learn.is_none();
    if invocation.ask.is_some() && !runs {
        return Err(UsageError(
            "--ask needs a run: give it with a tool and no option that runs nothing".to_owned(),
        ));
    }
    if let Some(path) = learn {
        let others = [
            ("--check", check),
            ("--denials", denials.is_some()),
            ("--doctor", doctor.is_some()),
            ("--explain", explain.is_some()),
            ("--init", init),
        ];
        if let Some((other, _)) = others.iter().find(|(_, is_given)| *is_given) {
            return Err(UsageError(format!(
                "--learn runs the tool and {other} does not: give one of them"
            )));
        }
        let policy = new_policy(path, &invocation.policies)?;
        let index = tool.ok_or_else(no_tool)?;
        return Ok(Command::Learn(invocation, policy, index));
    }
    if watch {
        let process = |word: &OsString| word.to_str()?.parse().ok().filter(|pid| *pid > 0);
        return match &words[..] {
            [] => Ok(Command::Watch(None)),
            [word] if process(word).is_some() => Ok(Command::Watch(process(word))),
            _ => Err(UsageError("--watch takes at most one process id".to_owned())),
        };
    }
    if let Some(form) = denials {
        return match &mut words[..] {
            [] => Ok(Command::Denials(form, None)),
            [since] => Ok(Command::Denials(form, Some(std::mem::take(since)))),
            _ => Err(UsageError("--denials takes at most one day".to_owned())),
        };
    }
    if let Some(form) = doctor {
        return Ok(Command::Doctor(invocation, form));
    }
    match (explain, tool) {
        (_, Some(_)) if init => {
            Err(UsageError("--init takes no file: use landstrip --init > FILE".to_owned()))
        }
        _ if init => Ok(Command::Init),
        (Some(extent), _) => Ok(Command::Explain(invocation, extent, words)),
        _ if check => Ok(Command::Check(invocation)),
        (None, Some(index)) => Ok(Command::Run(invocation, index)),
        (None, None) => Err(no_tool()),
    }
}

/// Takes the letter of an option that has no value; its `word` with one dash is meant by it as well.
fn alone(letter: char, word: &str, parser: &mut lexopt::Parser) -> Result<(), UsageError> {
    let rest = parser.optional_value();
    let is_word = |rest: &OsString| word.strip_prefix(letter).is_some_and(|end| rest == end);
    match rest.filter(|rest| !is_word(rest)) {
        None => Ok(()),
        Some(value) => Err(needless(&format!("-{letter}"), &value)),
    }
}

fn without_value(option: &str, parser: &mut lexopt::Parser) -> Result<(), UsageError> {
    parser.optional_value().map_or(Ok(()), |value| Err(needless(option, &value)))
}

fn needless(option: &str, value: &OsString) -> UsageError {
    let value = value.to_string_lossy();
    UsageError(format!("option '{option}' takes no value, found '{value}'"))
}

fn no_tool() -> UsageError {
    UsageError("no tool to run: landstrip [OPTIONS] [--] TOOL [ARG...]".into())
}

/// Where a policy is to be written that adds to `base`.
fn new_policy(path: PathBuf, base: &Selection) -> Result<NewPolicy, UsageError> {
    if base.sources.contains(&Source::Stdin) {
        let message = "--learn adds to a policy that has a name; standard input has none";
        return Err(UsageError(message.to_owned()));
    }
    // As it will be read.
    match base.format.or_else(|| Format::named_by(&path)) {
        Some(format) => Ok(NewPolicy { path, format }),
        None => Err(UsageError(format!(
            "--learn needs a file named .yaml, or .json for a policy without comments, found '{}'",
            path.display()
        ))),
    }
}

fn add_policy(policies: &mut Vec<Source>, value: OsString) -> Result<(), UsageError> {
    if value.is_empty() {
        return Err(UsageError("--policy needs a file, found an empty word".into()));
    }
    if value != "-" {
        policies.push(match value.to_str() {
            Some(text) if text.trim_start().starts_with('{') => Source::Text(text.to_owned()),
            Some(name) if presets::is_name(name) => Source::Preset(name.to_owned()),
            _ => Source::File(value.into()),
        });
        return Ok(());
    }
    if policies.contains(&Source::Stdin) {
        return Err(UsageError("--policy - given twice: standard input can be read once".into()));
    }
    policies.push(Source::Stdin);
    Ok(())
}

fn format(value: &OsString) -> Result<Format, UsageError> {
    match value.to_str() {
        Some("json") => Ok(Format::Json),
        Some("yaml") => Ok(Format::Yaml),
        _ => Err(UsageError(format!(
            "--format must be json or yaml, found '{}'",
            value.to_string_lossy()
        ))),
    }
}

fn form(option: &str, value: Option<OsString>) -> Result<Form, UsageError> {
    match value.as_ref().map(|value| value.to_string_lossy()).as_deref() {
        None => Ok(Form::Text),
        Some("json") => Ok(Form::Json),
        Some(other) => {
            Err(UsageError(format!("--{option} takes '=json' or nothing, found '{other}'")))
        }
    }
}

fn extent(value: Option<OsString>) -> Result<Extent, UsageError> {
    match value.as_ref().map(|value| value.to_string_lossy()).as_deref() {
        None => Ok(Extent::Page),
        Some("full") => Ok(Extent::Full),
        Some("json") => Ok(Extent::Json),
        Some(other) => {
            let message = format!("--explain takes '=full', '=json' or nothing, found '{other}'");
            Err(UsageError(message))
        }
    }
}

fn reports(value: &OsString) -> Result<Reports, UsageError> {
    match value.to_str() {
        Some("all") => Ok(Reports::All),
        Some("changes") => Ok(Reports::Changes),
        Some("network") => Ok(Reports::Network),
        Some("none") => Ok(Reports::Nothing),
        _ => Err(UsageError(format!(
            "--report must be all, changes, network or none, found '{}'",
            value.to_string_lossy()
        ))),
    }
}

fn ask(value: &OsString) -> Result<Ask, UsageError> {
    if value == "terminal" {
        return Ok(Ask::Terminal);
    }
    fd("ask", value).map(Ask::Over).map_err(|_| {
        UsageError(format!(
            "--ask must be terminal, or a descriptor number of 3 or higher, found '{}'",
            value.to_string_lossy()
        ))
    })
}

fn fd(option: &str, value: &OsString) -> Result<RawFd, UsageError> {
    let digits = value.to_str().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    // 0, 1 and 2 are the tool's own.
    match digits.and_then(|text| text.parse::<RawFd>().ok()) {
        Some(fd) if fd >= 3 => Ok(fd),
        _ => Err(UsageError(format!(
            "--{option} must be a descriptor number of 3 or higher, found '{}'",
            value.to_string_lossy()
        ))),
    }
}

/// The error of a long option that was written with one dash, if that is what its letter and the rest are.
fn one_dash(letter: char, rest: &str) -> Option<UsageError> {
    let word = format!("{letter}{}", rest.split_once('=').map_or(rest, |(name, _)| name));
    let long = long_options().find(|long| long[2..] == word)?;
    Some(UsageError(format!("unknown option '-{word}', did you mean '{long}'?")))
}

fn unknown_option(option: &str) -> UsageError {
    if option == "-c" {
        let message =
            "unknown option '-c': for a shell, write sh -c '...'; for a policy, '--policy'";
        return UsageError(message.to_owned());
    }
    let word = option.trim_start_matches('-');
    if let Some(text) = elsewhere::instead(word) {
        return UsageError(format!("unknown option '{option}': {text}"));
    }
    let called = CALLED.iter().find(|(others, _)| others.contains(&word));
    if let Some(meant) = called.map(|(_, meant)| *meant).or_else(|| near(option, long_options())) {
        return UsageError(format!("unknown option '{option}', did you mean '{meant}'?"));
    }
    UsageError(match keys::meant_by(word) {
        Some(key) => {
            format!("unknown option '{option}': {key} is a key of policies, named by '--policy'")
        }
        None => format!(
            "unknown option '{option}': options of the tool follow the tool; '--help' lists those of landstrip"
        ),
    })
}

fn unusable(error: lexopt::Error) -> UsageError {
    match error {
        lexopt::Error::MissingValue { option: Some(option) } => {
            UsageError(format!("option '{option}' needs a value"))
        }
        lexopt::Error::UnexpectedValue { option, value } => needless(&option, &value),
        lexopt::Error::UnexpectedOption(option) => unknown_option(&option),
        other => UsageError(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::os::unix::ffi::OsStringExt;

    use super::*;

    fn parse_words(words: &[&str]) -> Result<Command, UsageError> {
        parse(words.iter().map(OsString::from))
    }

    fn file(path: &str) -> Source {
        Source::File(path.into())
    }

    #[test]
    fn the_tool_is_the_first_word_that_is_no_option() {
        let two = || vec![file("a.x"), file("./b")];
        for (words, policies, index) in [
            (&["true"][..], vec![], 1),
            (&["--", "true"], vec![], 2),
            (&["--", "--help"], vec![], 2),
            (&["--", "init"], vec![], 2),
            (&["sh", "init"], vec![], 1),
            (&["--", "--"], vec![], 2),
            (&["-"], vec![], 1),
            (&["", "x"], vec![], 1),
            (&["-p", "a.x", "-p", "./b", "tool", "-p", "c", "--", "d"], two(), 5),
            (&["-pa.x", "--policy=./b", "--", "tool", "--bogus"], two(), 4),
            (&["-p=a.x", "--policy", "./b", "tool", "--check"], two(), 4),
            (&["--policy", "--", "tool"], vec![Source::Preset("--".to_owned())], 3),
            (&["-p", "agent", "tool"], vec![Source::Preset("agent".to_owned())], 3),
            (&["-p{}", "tool"], vec![Source::Text("{}".to_owned())], 2),
            (&["-p", "\n {}", "tool"], vec![Source::Text("\n {}".to_owned())], 3),
            (&["-p", "./{}", "tool"], vec![file("./{}")], 3),
            (&["-p-", "--debug", "tool"], vec![Source::Stdin], 3),
        ] {
            match parse_words(words) {
                Ok(Command::Run(invocation, found)) => {
                    assert_eq!(
                        (invocation.policies.sources, found),
                        (policies, index),
                        "{words:?}"
                    );
                }
                other => unreachable!("{words:?}: {other:?}"),
            }
        }
    }

    #[test]
    fn options_are_read_and_the_last_of_two_wins() {
        let words = [
            "--format=yaml",
            "--format",
            "json",
            "--trap-fd=3",
            "--trap-fd",
            "9",
            "--report",
            "network",
            "--report=changes",
            "--debug",
            "x",
        ];
        let invocation = Invocation {
            policies: Selection { sources: vec![], format: Some(Format::Json) },
            trap_fd: Some(9),
            reports: Some(Reports::Changes),
            ask: None,
            debug: true,
        };
        assert_eq!(parse_words(&words), Ok(Command::Run(invocation, 11)));
    }

    #[test]
    fn every_option_stands_in_the_help_and_in_the_manual() {
        const MANUAL: &str = include_str!("../../man/landstrip.1");
        for option in long_options() {
            let unknown = format!("unknown option '{option}'");
            let known = |words: &[&str]| match parse_words(words) {
                Err(error) => !error.to_string().contains(&unknown),
                Ok(_) => true,
            };
            assert!(known(&[option]), "{option}");
            assert!(HELP.contains(&format!(" {option}")), "{option}");
            let name = option.trim_start_matches('-');
            assert!(
                MANUAL.contains(&format!("Fl Fl {name}\n"))
                    || MANUAL.contains(&format!("Fl Fl {name} ")),
                "{option}"
            );
        }
        let told = HELP.split_whitespace().filter(|word| word.len() > 2 && word.starts_with("--"));
        for option in told.map(|word| word.split('[').next().unwrap_or(word)) {
            assert!(long_options().any(|known| known == option), "{option}");
        }
    }

    #[test]
    fn what_is_learned_goes_to_a_policy_by_its_name() {
        let learn = |path: &str, format| NewPolicy { path: path.into(), format };
        for (words, policy, index) in [
            (&["--learn", "a.yaml", "x"][..], learn("a.yaml", Format::Yaml), 3),
            (&["--learn=b.YML", "--", "x"], learn("b.YML", Format::Yaml), 3),
            (
                &["--learn", "d/c.json", "--report", "network", "x"],
                learn("d/c.json", Format::Json),
                5,
            ),
            (&["--format=yaml", "--learn=p", "x"], learn("p", Format::Yaml), 3),
        ] {
            match parse_words(words) {
                Ok(Command::Learn(_, found, at)) => assert_eq!((found, at), (policy, index)),
                other => unreachable!("{words:?}: {other:?}"),
            }
        }
        for (words, expected) in [
            (&["--learn", "a.yaml"][..], "no tool to run"),
            (&["--learn"], "needs a value"),
            (
                &["--learn", "p", "x"],
                "named .yaml, or .json for a policy without comments, found 'p'",
            ),
            (&["--learn", "p.conf", "x"], "found 'p.conf'"),
            (&["--learn", "", "x"], "found ''"),
            (&["--learn", "a.yaml", "-p", "-", "x"], "standard input has none"),
            (&["--learn", "a.yaml", "--check", "x"], "--learn runs the tool and --check does not"),
            (&["--explain", "--learn", "a.yaml"], "--explain does not: give one of them"),
            (&["--doctor", "--learn", "a.yaml", "x"], "--doctor does not"),
            (&["--init", "--learn", "a.yaml", "x"], "--init does not"),
        ] {
            let error = parse_words(words).unwrap_err().to_string();
            assert!(error.contains(expected), "{words:?}: {error}");
        }
    }

    #[test]
    fn check_needs_no_tool_and_ignores_one() {
        assert_eq!(parse_words(&["--check"]), Ok(Command::Check(Invocation::default())));
        assert_eq!(parse_words(&["--check", "tool"]), Ok(Command::Check(Invocation::default())));
        let words = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
        for (given, extent, expected) in [
            (&["--explain"][..], Extent::Page, words(&[])),
            (&["--explain=full"], Extent::Full, words(&[])),
            (&["--explain=json", "a", "--", "--b"], Extent::Json, words(&["a", "--b"])),
        ] {
            let parsed = parse_words(given);
            assert_eq!(parsed, Ok(Command::Explain(Invocation::default(), extent, expected)));
        }
        assert_eq!(parse_words(&["--init", "-p", "x.json"]), Ok(Command::Init));
        assert_eq!(parse_words(&["-h"]), Ok(Command::Help));
        assert_eq!(parse_words(&["-help", "--bogus"]), Ok(Command::Help));
        for word in ["-h=1", "--help=1", "-V=1", "-Vh", "--version="] {
            let error = parse_words(&[word]).unwrap_err().to_string();
            assert!(error.contains("takes no value"), "{word}: {error}");
        }
        assert_eq!(parse_words(&["--debug", "--version"]), Ok(Command::Version));
        assert_eq!(parse_words(&["-V", "--bogus"]), Ok(Command::Version));
    }

    #[test]
    fn what_cannot_be_followed_is_named() {
        for (words, expected) in [
            (&[][..], "no tool to run"),
            (&["--"], "no tool to run"),
            (&["-p", "a"], "no tool to run"),
            (&["--bogus", "x"], "unknown option '--bogus'"),
            (&["-c", "echo x"], "write sh -c '...'; for a policy, '--policy'"),
            (&["init"], "'init' is an option, '--init'"),
            (&["-p", "agent", "init", "--", "x"], "'init' is an option, '--init'"),
            (&["--init", "policy.yaml"], "--init takes no file: use landstrip --init > FILE"),
            (&["--polcy", "x"], "unknown option '--polcy', did you mean '--policy'?"),
            (&["-x", "x"], "unknown option '-x'"),
            (&["-policy", "x", "x"], "unknown option '-policy', did you mean '--policy'?"),
            (&["-policy=x", "x"], "did you mean '--policy'?"),
            (&["-check"], "unknown option '-check', did you mean '--check'?"),
            (&["-trap-fd=3", "x"], "did you mean '--trap-fd'?"),
            (&["-p"], "option '-p' needs a value"),
            (&["--policy"], "option '--policy' needs a value"),
            (&["-p", "", "x"], "--policy needs a file"),
            (&["-p", "-", "-p-", "x"], "given twice"),
            (&["--check=1", "x"], "option '--check' takes no value, found '1'"),
            (&["--format", "toml", "x"], "json or yaml, found 'toml'"),
            (&["--report", "reads", "x"], "all, changes, network or none, found 'reads'"),
            (&["--report=", "x"], "all, changes, network or none, found ''"),
            (&["--report"], "'--report' needs a value"),
            (&["--trap-fd", "2", "x"], "3 or higher, found '2'"),
            (&["--trap-fd", "-1", "x"], "3 or higher, found '-1'"),
            (&["--trap-fd", "+4", "x"], "3 or higher, found '+4'"),
            (&["--trap-fd", "99999999999", "x"], "3 or higher"),
            (&["--trap-fd=", "x"], "3 or higher, found ''"),
            (&["--explain=yaml", "x"], "--explain takes '=full', '=json' or nothing, found 'yaml'"),
            (&["--doctor=yaml"], "--doctor takes '=json' or nothing, found 'yaml'"),
        ] {
            let error = parse_words(words).unwrap_err().to_string();
            assert!(error.contains(expected), "{words:?}: {error}");
            assert!(!error.contains('\n'), "{words:?}: {error}");
        }
    }

    #[test]
    fn words_of_the_tool_may_be_any_bytes() {
        let odd = OsString::from_vec(vec![b'-', 0xff, b'\n']);
        let words = vec!["-p".into(), odd.clone(), odd.clone(), odd.clone()];
        // The third word is an option of ours, and no known one.
        assert!(parse(words).is_err());
        let words = vec!["-p".into(), odd.clone(), "--".into(), odd.clone(), odd.clone()];
        let invocation = Invocation {
            policies: Selection { sources: vec![Source::File(odd.into())], format: None },
            ..Invocation::default()
        };
        assert_eq!(parse(words), Ok(Command::Run(invocation, 4)));
    }

    #[test]
    fn any_words_give_a_command_or_one_line() {
        let words =
            ["-p", "-", "--", "--policy", "--format=json", "--trap-fd", "3", "--check", "-h"];
        let odd = ["--explain", "-px", "--bo\ngus", "-\u{e9}", "", "true", "--trap-fd=", "-V-"];
        let all: Vec<&str> = words.into_iter().chain(odd).collect();
        let mut seed = 0x5eed_u64;
        for _ in 0..20_000 {
            let mut line = Vec::new();
            for _ in 0..seed % 7 {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                line.push(all[usize::try_from(seed >> 33).unwrap() % all.len()]);
            }
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(seed >> 33 | 1);
            match parse_words(&line) {
                Ok(Command::Run(_, index)) => {
                    // The tool is no option, unless `--` said so.
                    let tool = line[index - 1];
                    let said = line[..index - 1].contains(&"--");
                    assert!(said || tool == "-" || !tool.starts_with('-'), "{line:?}");
                }
                Ok(_) => {}
                Err(error) => assert!(!error.to_string().contains('\n'), "{line:?}: {error}"),
            }
        }
    }
}

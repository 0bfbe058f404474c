//! The command line, as the contract and landstrip(1) describe it. Pure: it opens nothing and prints nothing.

#[cfg(test)]
mod completions;
mod elsewhere;
mod mistakes;
mod values;

use landstrip_core::report::failure::Failure;
use landstrip_core::report::traps::Reports;
use lexopt::Arg;
use mistakes::{one_dash, unknown_option, unusable};
use policy::document::Format;
use policy::error::Escaped;
use policy::load::Selection;
use std::ffi::OsString;
use std::fmt;
use std::os::fd::RawFd;
use std::path::PathBuf;
use values::{
    add_policy, alone, ask, extent, fd, form, format, new_policy, reports, without_value,
};

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

/// What is done in the place of a run of a tool.
#[derive(Debug)]
enum Mode {
    Check,
    Denials(Form),
    Doctor(Form),
    Explain(Extent),
    Init,
    Learn(PathBuf),
    Watch,
}

impl Mode {
    /// The option that asks for it.
    fn option(&self) -> &'static str {
        match self {
            Self::Check => "--check",
            Self::Denials(_) => "--denials",
            Self::Doctor(_) => "--doctor",
            Self::Explain(_) => "--explain",
            Self::Init => "--init",
            Self::Learn(_) => "--learn",
            Self::Watch => "--watch",
        }
    }

    /// Whether the words that follow are its own, and no tool.
    fn has_words(&self) -> bool {
        matches!(self, Self::Denials(_) | Self::Explain(_) | Self::Watch)
    }
}

/// What stands on the command line.
#[derive(Debug, Default)]
struct Given {
    invocation: Invocation,
    mode: Option<Mode>,
    words: Vec<OsString>,
    /// Where the tool stands.
    tool: Option<usize>,
}

impl Given {
    /// Takes `mode`, if it is the only one.
    fn take(&mut self, mode: Mode) -> Result<(), UsageError> {
        let (new, old) = (mode.option(), self.mode.replace(mode));
        match old.map(|old| old.option()).filter(|old| *old != new) {
            Some(old) => Err(UsageError(format!("{old} and {new} cannot both be given"))),
            None => Ok(()),
        }
    }
}

/// Parses the arguments that follow `argv[0]`. Everything from the tool on is left alone.
///
/// # Errors
/// Returns [`UsageError`] for an unknown option, two that cannot both be given, a bad value, or a missing tool.
pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Command, UsageError> {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let argv_length = arguments.len() + 1;
    let separator = arguments.iter().position(|word| word == "--");
    let mut parser = lexopt::Parser::from_args(arguments);
    let mut given = Given::default();
    while let Some(argument) = parser.next().map_err(unusable)? {
        let invocation = &mut given.invocation;
        match argument {
            Arg::Short('h') => return alone('h', "help", &mut parser).map(|()| Command::Help),
            Arg::Short('V') => {
                return alone('V', "Version", &mut parser).map(|()| Command::Version);
            }
            Arg::Long("help") => {
                return without_value("--help", &mut parser).map(|()| Command::Help);
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
            Arg::Long("ask") => invocation.ask = Some(ask(&parser.value().map_err(unusable)?)?),
            Arg::Long("report") => {
                invocation.reports = Some(reports(&parser.value().map_err(unusable)?)?);
            }
            Arg::Long("debug") => invocation.debug = true,
            Arg::Long("check") => given.take(Mode::Check)?,
            Arg::Long("denials") => {
                given.take(Mode::Denials(form("denials", parser.optional_value())?))?
            }
            Arg::Long("doctor") => {
                given.take(Mode::Doctor(form("doctor", parser.optional_value())?))?
            }
            Arg::Long("explain") => given.take(Mode::Explain(extent(parser.optional_value())?))?,
            Arg::Long("init") => given.take(Mode::Init)?,
            Arg::Long("learn") => {
                given.take(Mode::Learn(parser.value().map_err(unusable)?.into()))?;
            }
            Arg::Long("watch") => given.take(Mode::Watch)?,
            Arg::Value(word) if given.mode.as_ref().is_some_and(Mode::has_words) => {
                given.words.push(word);
            }
            Arg::Value(word) => {
                let after_tool = parser.raw_args().map_err(unusable)?.as_slice().len();
                let index = argv_length - after_tool - 1;
                // What starts the system is nobody's tool, unless it is said to be one.
                if word == "init" && separator.is_none_or(|at| at + 2 != index) {
                    let message =
                        "'init' is an option, '--init'; put '--' before a tool of that name";
                    return Err(UsageError(message.to_owned()));
                }
                given.tool = Some(index);
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
    command(given)
}

/// What is asked for by what stands there.
fn command(given: Given) -> Result<Command, UsageError> {
    let Given { invocation, mode, mut words, tool } = given;
    if invocation.ask.is_some() && mode.is_some() {
        return Err(UsageError(
            "--ask needs a run: give it with a tool and no option that runs nothing".to_owned(),
        ));
    }
    let no_tool = || UsageError("no tool to run: landstrip [OPTIONS] [--] TOOL [ARG...]".into());
    Ok(match mode {
        None => Command::Run(invocation, tool.ok_or_else(no_tool)?),
        Some(Mode::Check) => Command::Check(invocation),
        Some(Mode::Denials(form)) => match &mut words[..] {
            [] => Command::Denials(form, None),
            [since] => Command::Denials(form, Some(std::mem::take(since))),
            _ => return Err(UsageError("--denials takes at most one day".to_owned())),
        },
        Some(Mode::Doctor(form)) => Command::Doctor(invocation, form),
        Some(Mode::Explain(extent)) => Command::Explain(invocation, extent, words),
        Some(Mode::Init) if tool.is_some() => {
            let message = "--init takes no file: use landstrip --init > FILE";
            return Err(UsageError(message.to_owned()));
        }
        Some(Mode::Init) => Command::Init,
        Some(Mode::Learn(path)) => {
            let policy = new_policy(path, &invocation.policies)?;
            Command::Learn(invocation, policy, tool.ok_or_else(no_tool)?)
        }
        Some(Mode::Watch) => {
            let process = |word: &OsString| word.to_str()?.parse().ok().filter(|pid| *pid > 0);
            match &words[..] {
                [] => Command::Watch(None),
                [word] if process(word).is_some() => Command::Watch(process(word)),
                _ => return Err(UsageError("--watch takes at most one process id".to_owned())),
            }
        }
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::os::unix::ffi::OsStringExt;

    use super::mistakes::long_options;
    use super::*;
    use policy::load::Source;

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
            (&["--learn", "a.yaml", "--check", "x"], "--learn and --check cannot both be given"),
            (&["--explain", "--learn", "a.yaml"], "--explain and --learn cannot both"),
            (&["--doctor", "--learn", "a.yaml", "x"], "--doctor and --learn cannot both"),
            (&["--init", "--learn", "a.yaml", "x"], "--init and --learn cannot both"),
        ] {
            let error = parse_words(words).unwrap_err().to_string();
            assert!(error.contains(expected), "{words:?}: {error}");
        }
    }

    #[test]
    fn check_needs_no_tool_and_ignores_one() {
        assert_eq!(parse_words(&["--check"]), Ok(Command::Check(Invocation::default())));
        assert_eq!(parse_words(&["--check", "tool"]), Ok(Command::Check(Invocation::default())));
        assert_eq!(parse_words(&["--check", "--check"]), Ok(Command::Check(Invocation::default())));
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
            (&["--check", "--explain"], "--check and --explain cannot both be given"),
            (&["--watch", "--denials"], "--watch and --denials cannot both be given"),
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

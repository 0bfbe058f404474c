//! What shells complete, made from [`HELP`]: the options, their values, and after them the tool as if it stood alone.
//!
//! They are files of the repository, in `broker/completions`, which a test compares. What a shell does with
//! them is tested from outside.

#![allow(clippy::unwrap_used)]

use super::HELP;
use super::mistakes::long_options;
use policy::presets::PRESETS;
use std::fmt::Write;

const DIRECTORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../completions");

/// An option as the help tells it.
struct Told {
    short: Option<char>,
    /// With its dashes.
    long: String,
    /// What its value is called, if it needs one.
    value: Option<String>,
    /// Values that it may have, `=` before one.
    may_have: Vec<String>,
    /// Up to the first semicolon, colon or parenthesis.
    summary: String,
}

/// The options in their order in the help.
fn options() -> Vec<Told> {
    let lines = HELP.lines().skip_while(|line| *line != "Options:").skip(1);
    let mut options: Vec<Told> = Vec::new();
    for line in lines.take_while(|line| !line.is_empty()) {
        let text = line.trim_start();
        if text.starts_with('-') {
            let (words, summary) = text.split_once("  ").unwrap_or((text, ""));
            options.push(option(words, summary.trim()));
        } else {
            let summary = &mut options.last_mut().unwrap().summary;
            summary.extend([if summary.is_empty() { "" } else { " " }, text]);
        }
    }
    for option in &mut options {
        let end = option.summary.find([';', ':', '(']).unwrap_or(option.summary.len());
        option.summary.truncate(option.summary[..end].trim_end().len());
    }
    options
}

fn option(words: &str, summary: &str) -> Told {
    let mut words = words.split_whitespace().peekable();
    let short = words.next_if(|word| !word.starts_with("--"));
    let long = words.next().unwrap();
    let (long, may_have) = match long.split_once('[') {
        Some((long, rest)) => {
            (long, rest.trim_matches(['=', ']']).split('|').map(str::to_owned).collect())
        }
        None => (long, vec![]),
    };
    Told {
        short: short.and_then(|word| word.chars().nth(1)),
        long: long.to_owned(),
        // What stands in brackets is for words after the options.
        value: words.next().filter(|word| !word.starts_with('[')).map(str::to_owned),
        may_have,
        summary: summary.to_owned(),
    }
}

impl Told {
    /// How it may be written, before its value.
    fn names(&self) -> impl Iterator<Item = String> {
        self.short.map(|short| format!("-{short}")).into_iter().chain([self.long.clone()])
    }

    /// The words that its value may be, and whether it may be a file.
    fn values(&self) -> (Vec<&'static str>, bool) {
        match (self.long.as_str(), self.value.as_deref().unwrap()) {
            ("--policy", _) => (PRESETS.map(|(name, _)| name).to_vec(), true),
            (_, "FILE") => (vec![], true),
            (_, "FMT") => (vec!["json", "yaml"], false),
            (_, "FD") => (vec![], false),
            (_, "WHOM") => (vec!["terminal"], false),
            (_, "WHAT") => (vec!["all", "changes", "network", "none"], false),
            (option, value) => unreachable!("say here what the {value} of {option} may be"),
        }
    }
}

const NOTE: &str =
    "# Made from `landstrip --help` by a test of the broker: change that, and run the test.\n";

/// The options that need a value, as a pattern of a `case`.
fn with_value(options: &[Told], between: &str) -> String {
    let names = options.iter().filter(|option| option.value.is_some()).flat_map(Told::names);
    names.collect::<Vec<_>>().join(between)
}

fn bash(options: &[Told]) -> String {
    let mut values = String::new();
    for option in options.iter().filter(|option| option.value.is_some()) {
        let (words, file) = option.values();
        let mut steps = Vec::new();
        if !words.is_empty() {
            steps.push(format!("compgen -W '{}' -- \"$2\"", words.join(" ")));
        }
        if file {
            steps.push("compgen -f -- \"$2\"".to_owned());
        }
        if !steps.is_empty() {
            let names = option.names().collect::<Vec<_>>().join(" | ");
            writeln!(values, "    {names}) {} ;;", steps.join("; ")).unwrap();
        }
    }
    let all = options.iter().flat_map(Told::names).collect::<Vec<_>>().join(" ");
    let with = |option: &Told| {
        let may_have = option.may_have.iter();
        may_have.map(|value| format!("{}={value}", option.long)).collect::<Vec<_>>()
    };
    let may_have: Vec<_> = options.iter().flat_map(with).collect();
    let all = [vec![all], may_have].concat().join(" ");
    let with_value = with_value(options, " | ");
    format!(
        r#"# Completion of landstrip(1) for bash.
{NOTE}
# The values of the option $1 that begin with $2.
_landstrip_values() {{
    case $1 in
{values}    esac
}}

_landstrip() {{
    local word=${{COMP_WORDS[COMP_CWORD]}} option='' index=1
    COMPREPLY=()
    while ((index < COMP_CWORD)); do
        option=${{COMP_WORDS[index]}}
        case $option in
        --) ((index++)) ;;&
        -- | [!-]* | '') break ;;
        esac
        ((index++))
        # An equals sign is a word of its own, if COMP_WORDBREAKS has it.
        if [[ ${{COMP_WORDS[index]}} == = ]]; then
            [[ $word == = ]] && word=''
            ((index++))
        else
            case $option in
            {with_value}) ;;
            *) continue ;;
            esac
        fi
        if ((index >= COMP_CWORD)); then
            compopt -o filenames
            mapfile -t COMPREPLY < <(_landstrip_values "$option" "$word")
            return
        fi
        ((index++))
    done
    if ((index < COMP_CWORD)); then
        if declare -F _command_offset >/dev/null; then
            _command_offset "$index"
        else
            compopt -o filenames
            mapfile -t COMPREPLY < <(compgen -f -- "$word")
        fi
    elif [[ $word == -* && $option != -- ]]; then
        mapfile -t COMPREPLY < <(compgen -W '{all}' -- "$word")
    else
        compopt -o filenames
        mapfile -t COMPREPLY < <(compgen -c -- "$word")
    fi
}}

complete -F _landstrip landstrip
"#
    )
}

fn zsh(options: &[Told]) -> String {
    let mut specs = String::new();
    for option in options {
        let summary = option.summary.replace('\'', "'\\''").replace('[', "\\[").replace(']', "\\]");
        let value = option.value.as_ref().map_or_else(String::new, |name| {
            let action = match option.values() {
                (words, true) if words.is_empty() => "_files".to_owned(),
                (words, true) => format!(
                    // After a blank, without what _arguments would add for compadd.
                    " _alternative \"presets\\:preset\\:({})\" \"files\\:file\\:_files\"",
                    words.join(" ")
                ),
                (words, false) if words.is_empty() => " ".to_owned(),
                (words, false) => format!("({})", words.join(" ")),
            };
            format!(":{}:{action}", name.to_lowercase())
        });
        let repeated = if option.long == "--policy" { "*" } else { "" };
        for name in option.names() {
            let sign = match (option.value.is_some(), name.starts_with("--")) {
                (true, true) => "=",
                (true, false) => "+",
                _ if !option.may_have.is_empty() => "=-",
                _ => "",
            };
            let optional = match option.may_have.as_slice() {
                [] => String::new(),
                values => format!("::format:({})", values.join(" ")),
            };
            writeln!(specs, "    '{repeated}{name}{sign}[{summary}]{value}{optional}' \\").unwrap();
        }
    }
    format!(
        "#compdef landstrip\n# Completion of landstrip(1) for zsh.\n{NOTE}\n_arguments -S \\\n{specs}    \
         '(-)1:tool:_command_names -e' \\\n    '*:: :_normal'\n"
    )
}

fn fish(options: &[Told]) -> String {
    let with_value = with_value(options, " ");
    let mut lines = String::new();
    for option in options {
        let short = option.short.map_or_else(String::new, |short| format!(" -s {short}"));
        let value = match option.value.as_ref().map(|_| option.values()) {
            None => String::new(),
            Some((words, file)) => {
                let files = if file { "-r -F" } else { "-x" };
                let words = words.join(" ");
                if words.is_empty() {
                    format!(" {files}")
                } else {
                    format!(" {files} -a '{words}'")
                }
            }
        };
        let summary = option.summary.replace('\'', "\\'");
        let name = &option.long[2..];
        let mut line = |may_have: &str| {
            writeln!(lines, "complete -c landstrip -n __landstrip_no_tool{short} -l {name}{may_have}{value} -d '{summary}'").unwrap();
        };
        line("");
        for may_have in &option.may_have {
            line(&format!("={may_have}"));
        }
    }
    format!(
        "# Completion of landstrip(1) for fish.\n{NOTE}\n\
         function __landstrip_no_tool
    set -l words (commandline -opc)[2..-1]
    while set -q words[1]
        switch $words[1]
            case {with_value}
                set words $words[2..-1]
            case --
                return 1
            case '-*'
            case '*'
                return 1
        end
        set words $words[2..-1]
    end
end

complete -c landstrip -x -a '(__fish_complete_subcommand -- {with_value})'
{lines}"
    )
}

/// Run with `LANDSTRIP_WRITE_TABLE=1` to write the files anew.
#[test]
fn completions_have_what_the_help_has() {
    let options = options();
    assert!(options.iter().map(|option| &*option.long).eq(long_options()));
    assert!(options.iter().all(|option| !option.summary.is_empty()));
    for (name, text) in [
        ("landstrip.bash", bash(&options)),
        ("_landstrip", zsh(&options)),
        ("landstrip.fish", fish(&options)),
    ] {
        let path = format!("{DIRECTORY}/{name}");
        if std::env::var_os("LANDSTRIP_WRITE_TABLE").is_some() {
            std::fs::write(&path, &text).unwrap();
        }
        let written = std::fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(written, text, "run this test with LANDSTRIP_WRITE_TABLE=1");
    }
}

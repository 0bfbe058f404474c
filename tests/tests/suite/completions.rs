//! What shells complete after `landstrip`, asked of the shells themselves.

use std::path::PathBuf;
use tests::{Sandbox, skipped};

/// The line is the positional parameters; the last of them is completed.
const BASH: &str = r#"
compopt() { :; }
. "$COMPLETIONS/landstrip.bash"
# As readline splits words.
COMP_WORDS=() COMP_CWORD=-1
for word; do
    while [[ $word == *=* ]]; do
        [[ -n ${word%%=*} ]] && COMP_WORDS+=("${word%%=*}")
        COMP_WORDS+=(=)
        word=${word#*=}
        [[ -z $word ]] && continue 2
    done
    COMP_WORDS+=("$word")
done
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_landstrip
printf '%s\n' "${COMPREPLY[@]}"
"#;

/// Completion runs where a line is edited, so in a terminal of its own; compadd says what it adds.
const ZSH: &str = r#"
zmodload zsh/zpty
zpty inner zsh -f -i
inner() { zpty -w inner "$1" }
inner "PS1= PS2= RPS1=; fpath=($COMPLETIONS \$fpath); autoload -Uz compinit; compinit -u -D"
inner "compadd() { local -a found; builtin compadd -O found \"\$@\"; print -rl -- \$found >> $FOUND; builtin compadd \"\$@\"; }"
inner "leave() { exit; }; zle -N leave; bindkey '^X' leave; print READY"
while zpty -r inner line; do [[ $line == READY* ]] && break; done
zpty -w -n inner "$*"$'\t\C-x'
while zpty -r inner line; do :; done
cat $FOUND
"#;

const FISH: &str = r#"
source $COMPLETIONS/landstrip.fish
complete -C "$argv" | cut -f 1
"#;

fn sandbox() -> Sandbox {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let sandbox =
        Sandbox::new().env("COMPLETIONS", here.parent().unwrap().join("broker/completions"));
    let found = sandbox.file("found", "");
    let sandbox = sandbox.env("FOUND", found).env("TERM", "xterm");
    sandbox.file("work/policy.yaml", "");
    sandbox
}

/// What each shell that is here proposes for the last of these words.
fn proposals(line: &[&str]) -> Vec<(&'static str, Vec<String>)> {
    let mut all = Vec::new();
    for (shell, words) in [
        ("bash", &["bash", "-c", BASH, "bash"][..]),
        ("zsh", &["zsh", "-f", "-c", ZSH, "zsh"]),
        ("fish", &["fish", "-N", "-c", FISH]),
    ] {
        let sandbox = sandbox();
        if sandbox.sh_outside(&format!("command -v {shell}")).status != Some(0) {
            skipped(&format!("not here: {shell}"));
            continue;
        }
        let joined = line.join(" ");
        let line = if shell == "bash" { line } else { &[joined.as_str()] };
        let outcome = sandbox.run_outside([words, line].concat());
        outcome.succeeds();
        all.push((shell, outcome.stdout.lines().map(str::to_owned).collect()));
    }
    all
}

#[track_caller]
fn proposes(line: &[&str], expected: &[&str], unexpected: &[&str]) {
    for (shell, found) in proposals(line) {
        let has =
            |word: &&&str| found.iter().any(|found| found.trim_end_matches([' ', '/']) == **word);
        assert!(expected.iter().all(|word| has(&word)), "{shell}, {line:?}: {found:?}");
        assert!(!unexpected.iter().any(|word| has(&word)), "{shell}, {line:?}: {found:?}");
    }
}

#[test]
fn shells_complete_every_option_of_the_help() {
    let help = Sandbox::new().landstrip(["--help"]).stdout;
    let words = help.split_whitespace().filter(|word| word.len() > 2 && word.starts_with("--"));
    let options: Vec<_> = words.map(|word| word.split('[').next().unwrap()).collect();
    assert!(options.len() > 8, "{options:?}");
    proposes(&["landstrip", "--"], &options, &["policy.yaml"]);
    proposes(&["landstrip", "-p", "agent", "--"], &["--trap-fd", "--help"], &[]);
}

#[test]
fn shells_complete_the_values_of_options() {
    proposes(&["landstrip", "-p", ""], &["agent", "read-only", "policy.yaml"], &["--help"]);
    proposes(&["landstrip", "--policy", "po"], &["policy.yaml"], &["agent"]);
    proposes(&["landstrip", "--format", ""], &["json", "yaml"], &["policy.yaml", "--help"]);
}

#[test]
fn shells_complete_the_tool_as_if_it_stood_alone() {
    proposes(&["landstrip", "-p", "agent", "mkdi"], &["mkdir"], &["--help"]);
    proposes(&["landstrip", "--format", "yaml", "--", "mkdi"], &["mkdir"], &[]);
    proposes(&["landstrip", "--debug", "cat", "po"], &["policy.yaml"], &["poweroff"]);
    proposes(&["landstrip", "cat", "--"], &[], &["--trap-fd"]);
}

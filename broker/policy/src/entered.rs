//! What the settings load that shells obey because a directory is entered: those of direnv and mise. It reads them and
//! changes nothing. Source: direnv-stdlib(1); mise's manual, Environments and Hooks.

use super::repositories;
use super::shell_words::{substituted, words};
use kernel::locate::locate;
use std::ffi::OsStr;
use std::fs;
use std::iter;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The item of a preset that stands for these settings.
pub(super) const ITEM: &str = ".envrc";
/// Where mise has settings, in files whose names end so; in the first two in those that have its name.
const OF_MISE: [&str; 6] = ["", ".config", ".config/mise", ".config/mise/conf.d", ".mise", "mise"];
/// What has the shell obey text that a line takes from the files that it names.
const OBEYED: [&str; 5] = ["eval", "export $(", "export \"$(", "export `", "export \"`"];
/// Most files that are read, how much of each, and of one line: what a command has left is to delay nobody.
const FILES_MAX: usize = 32;
const LENGTH_MAX: u64 = 1 << 16;
const LINE_MAX: usize = 1 << 12;
/// What stands for text that only the shell knows.
const UNKNOWN: char = '\u{1}';
/// What runs the file that it is given first, and how such files are called where they are not executable themselves.
const INTERPRETERS: [&str; 14] = [
    "bash", "bun", "dash", "deno", "fish", "ksh", "lua", "node", "perl", "php", "python", "ruby",
    "sh", "zsh",
];
const ENDS: [&str; 16] = [
    "bash", "cjs", "env", "envrc", "fish", "jar", "js", "lua", "mjs", "nix", "pl", "py", "rb",
    "sh", "so", "zsh",
];
/// Variables, and what the programs that heed them run or obey beneath what they name; nothing stands for that itself.
/// Sources: bash(1), the manuals of Ansible, the AWS CLI, Cargo, Docker, npm, pip, Python and ripgrep, git(1), gpg(1),
/// `kubectl config`, zshall(1), the XDG Base Directory Specification.
const SETTINGS: [(&str, &[&str]); 17] = [
    ("ANSIBLE_CONFIG", &[""]),
    ("AWS_CONFIG_FILE", &[""]),
    ("AWS_SHARED_CREDENTIALS_FILE", &[""]),
    ("BASH_ENV", &[""]),
    ("CARGO_HOME", &["config", "config.toml"]),
    ("DOCKER_CONFIG", &["cli-plugins", "config.json"]),
    ("GIT_CONFIG_GLOBAL", &[""]),
    ("GIT_TEMPLATE_DIR", &[""]),
    ("GNUPGHOME", &["gpg-agent.conf", "gpg.conf"]),
    ("KUBECONFIG", &[""]),
    ("NPM_CONFIG_USERCONFIG", &[""]),
    ("PIP_CONFIG_FILE", &[""]),
    ("PYTHONSTARTUP", &[""]),
    ("RIPGREP_CONFIG_PATH", &[""]),
    ("XDG_CONFIG_HOME", &[""]),
    ("ZDOTDIR", &[".zlogin", ".zlogout", ".zprofile", ".zshenv", ".zshrc"]),
    ("npm_config_userconfig", &[""]),
];

/// What is loaded or run when somebody with this `home` enters one of `trees`: files that may be missing, and programs that
/// are there. Nothing that lies where `may_change` says no.
pub(super) fn loaded(
    trees: &[PathBuf],
    home: Option<&Path>,
    may_change: impl Fn(&PathBuf) -> bool,
) -> Vec<PathBuf> {
    let home = home.and_then(Path::to_str).unwrap_or("~");
    let all = trees.iter().flat_map(|tree| {
        let of_mise = settings_of_mise(tree).flat_map(|file| of_mise(&text_of(&file), tree));
        of_direnv(tree, home).into_iter().chain(of_mise)
    });
    all.filter(|path| locate(path).is_ok_and(|at| may_change(&at.path))).collect()
}

fn text_of(file: &Path) -> String {
    let text = repositories::contents(file, LENGTH_MAX);
    let lines = text.split(|&byte| byte == b'\n').map(|line| &line[..line.len().min(LINE_MAX)]);
    let lines: Vec<_> = lines.map(String::from_utf8_lossy).collect();
    lines.join("\n")
}

/// What .envrc of `tree` loads, with all that the loaded files do. Those are shell scripts, of which the commands that
/// load something are known by their names, and other programs by the files that are named there.
fn of_direnv(tree: &Path, home: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut pending = vec![tree.join(ITEM)];
    let mut read = Vec::new();
    while let Some(file) = pending.pop().filter(|_| read.len() < FILES_MAX) {
        if read.contains(&file) {
            continue;
        }
        // source_env(1) starts in the directory of the file.
        let above = file.parent().unwrap_or(tree).to_owned();
        let text = with_values(&text_of(&file), home);
        read.push(file);
        for line in text.lines().filter(|line| !line.trim_start().starts_with('#')) {
            let is_obeyed = obeys(line);
            for part in substituted(line).into_iter().chain([line]) {
                let words = words_of(part);
                if is_obeyed {
                    found.extend(words.iter().filter_map(|word| obeyed(&above, word)));
                }
                for (at, word) in words.iter().enumerate() {
                    let mut arguments = words[at + 1..].iter().map(String::as_str);
                    match word.as_str() {
                        "dotenv" | "dotenv_if_exists" => {
                            let named = arguments.next().unwrap_or(".env");
                            found.push(above.join(named.replace(UNKNOWN, ".env")));
                        }
                        "source_env" | "source_env_if_exists" | "source" | "." => {
                            let named = arguments.next().filter(|named| !named.contains(UNKNOWN));
                            let Some(named) = named else { continue };
                            let named = above.join(named);
                            let named = if named.is_dir() { named.join(ITEM) } else { named };
                            found.push(named.clone());
                            pending.push(named);
                        }
                        // Sets which settings Vim reads in this directory: direnv-stdlib(1), use vim.
                        "vim" | "use_vim" => {
                            found.push(above.join(arguments.next().unwrap_or(".vimrc.local")));
                        }
                        word => {
                            let there = arguments.clone().next().unwrap_or_default();
                            // path:./nix#dev, as `nix help flake` has it.
                            let there = there.split('#').next().unwrap_or_default();
                            let there = above.join(there.rsplit(':').next().unwrap_or_default());
                            for name in described(word, begins(part, word)) {
                                found.extend([above.join(name), there.join(name)]);
                            }
                            found.extend(run(&above, word, arguments));
                        }
                    }
                }
            }
        }
    }
    found
}

/// Whether the shell obeys text that `line` takes from somewhere: with `eval`, by way of a shell, or in a loop that ends here.
fn obeys(line: &str) -> bool {
    let is_obeying =
        |word: &String| ["done", "source", "."].contains(&word.as_str()) || interprets(word);
    OBEYED.iter().any(|before| line.contains(before)) || words_of(line).iter().any(is_obeying)
}

/// The file that a word of such a line names: one that is there, or what looks like a path and may be made later.
fn obeyed(tree: &Path, word: &str) -> Option<PathBuf> {
    let path = tree.join(word);
    let is_path = word.contains(['.', '/']) && !word.contains([UNKNOWN, '*']) && !interprets(word);
    let is_missing = || is_path && path.symlink_metadata().is_err();
    (path.is_file() || is_missing()).then_some(path)
}

/// The files of mise's settings in `tree`.
fn settings_of_mise(tree: &Path) -> impl Iterator<Item = PathBuf> {
    let listed = OF_MISE.iter().flat_map(|place| {
        let entries = tree.join(place).read_dir().into_iter().flatten().flatten();
        let is_its_own = !["", ".config"].contains(place);
        entries.map(|entry| entry.path()).filter(move |path| {
            let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
            // No others count, which a command could make: of those that do, none is left out for them.
            let is_named =
                name.starts_with("mise.") || place.is_empty() && name.starts_with(".mise");
            name.ends_with(".toml") && (is_its_own || is_named)
        })
    });
    listed.take(FILES_MAX)
}

/// What a file of mise's settings in `tree` loads: what `source` and `file` name (`_.source`, `env_file`), and what else
/// names a file that is there, outside of its tasks, which are asked for by their names, and of plain variables.
fn of_mise(text: &str, tree: &Path) -> Vec<PathBuf> {
    let (mut found, mut section, mut in_list) = (Vec::new(), "", false);
    for line in text.lines().map(str::trim).filter(|line| !line.starts_with('#')) {
        if line.starts_with('[') && !in_list {
            section = line.trim_start_matches('[');
            continue;
        }
        if section.starts_with("tasks") {
            continue;
        }
        if in_list || ["file", "source"].iter().any(|key| line.contains(key)) {
            let plain = without_templates(line);
            for name in quoted(&plain) {
                match name.contains('*') {
                    true => found.extend(run(tree, name, iter::empty())),
                    false => found.push(tree.join(name)),
                }
            }
            let unquoted: String = plain.split(['"', '\'']).step_by(2).collect();
            let syntax = unquoted.split('#').next().unwrap_or_default();
            in_list = (in_list || syntax.contains('[')) && !syntax.contains(']');
        }
        let (words, is_obeyed) = (words_of(line), obeys(line));
        for (at, word) in words.iter().enumerate() {
            found.extend(run(tree, word, words[at + 1..].iter().map(String::as_str)));
            if !section.starts_with("env") {
                found.extend(obeyed(tree, word).filter(|path| is_obeyed || path.is_file()));
            }
        }
    }
    found
}

/// Whether a command of `line` begins with `word`.
fn begins(line: &str, word: &str) -> bool {
    let mut commands = line.split([';', '&', '|']);
    commands.any(|command| command.split_whitespace().next() == Some(word))
}

/// The files that describe an environment, or what is run, by the word that enters it, where a command begins with it.
fn described(word: &str, begins: bool) -> &'static [&'static str] {
    match word.trim_start_matches("use_") {
        "make" if begins => &["GNUmakefile", "Makefile", "makefile"],
        "just" if begins => &[".justfile", "Justfile", "justfile"],
        "flake" | "print-dev-env" => &["flake.nix", "flake.lock"],
        "lorri" | "nix" => &["shell.nix", "default.nix"],
        "devenv" => {
            &["devenv.nix", "devenv.yaml", "devenv.lock", "devenv.local.nix", "devenv.local.yaml"]
        }
        "devbox" => &["devbox.json", "devbox.lock"],
        "flox" => &[".flox"],
        "pixi" => &["pixi.toml", "pixi.lock"],
        "guix" => &["guix.scm", "manifest.scm", "channels.scm"],
        _ => &[],
    }
}

/// The words of a line that a shell reads, whatever is quoted; what stands for a directory there is the one that the line
/// is run in.
fn words_of(line: &str) -> Vec<String> {
    let words = words(without_templates(line).as_bytes(), UNKNOWN as u8);
    let text = String::from_utf8_lossy(&words.join(&b' ')).into_owned();
    let parts =
        text.split([' ', '<', '>', '=', '{', '}', '[', ']', ',']).filter(|word| !word.is_empty());
    let here =
        |word: &str| if word.contains('/') { word.replace(UNKNOWN, ".") } else { word.to_owned() };
    parts.map(here).collect()
}

/// `line` with a dot in the place of each `{{...}}` that only names a directory.
fn without_templates(line: &str) -> String {
    let mut parts = line.split("{{");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| match part.split_once("}}") {
        Some((inner, rest)) => {
            format!("{text}{}{rest}", if inner.contains(['(', '/']) { inner } else { "." })
        }
        None => text + part,
    })
}

/// The strings in a line of TOML.
fn quoted(line: &str) -> impl Iterator<Item = &str> {
    line.split(['"', '\'']).skip(1).step_by(2).filter(|name| !name.is_empty())
}

/// A script of a shell with what it sets itself in the place of its variables, and `home` where that is meant.
fn with_values(text: &str, home: &str) -> String {
    let mut text = [("${HOME}", home), ("$HOME", home), ("~/", &format!("{home}/"))]
        .into_iter()
        .fold(text.to_owned(), |text, (name, value)| replaced(text, name, value));
    let set = text.split([' ', '\t', '\n', ';']).filter_map(|word| word.split_once('='));
    let is_name =
        |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let set =
        set.map(|(name, value)| (name.to_owned(), value.trim_matches(['"', '\'']).to_owned()));
    let mut set: Vec<_> =
        set.filter(|(name, value)| is_name(name) && !value.contains(['$', '`'])).collect();
    // The longest first: one name can be the beginning of another.
    set.sort_by_key(|(name, _)| usize::MAX - name.len());
    for (name, value) in set.iter().filter(|(name, _)| !name.is_empty()).take(FILES_MAX) {
        text = replaced(text, &format!("${{{name}}}"), value);
        text = replaced(text, &format!("${name}"), value);
    }
    text
}

/// `text` with `value` wherever `name` stands, unless a script was made to grow by that.
fn replaced(text: String, name: &str, value: &str) -> String {
    let grown = text.matches(name).count().saturating_mul(value.len());
    if grown as u64 > LENGTH_MAX { text } else { text.replace(name, value) }
}

/// Those of `arguments` that are files in the tree.
fn files<'a>(tree: &Path, arguments: impl Iterator<Item = &'a str>) -> Vec<PathBuf> {
    arguments.map(|name| tree.join(name)).filter(|path| path.is_file()).collect()
}

/// What is run because `word` is a path in the tree, a variable that names one, or a program that runs one of its
/// `arguments`; of a pattern all that lies beside it.
fn run<'a>(tree: &Path, word: &str, mut arguments: impl Iterator<Item = &'a str>) -> Vec<PathBuf> {
    if let Some((_, names)) = SETTINGS.iter().find(|(variable, _)| *variable == word) {
        let place = arguments.next().filter(|place| !place.contains(UNKNOWN));
        let Some(place) = place.map(|place| tree.join(place)) else { return Vec::new() };
        let beneath = |name: &&str| if name.is_empty() { place.clone() } else { place.join(name) };
        return names.iter().map(beneath).collect();
    }
    let word = without_option(word);
    let path = tree.join(word);
    if interprets(word) {
        return files(tree, arguments);
    }
    if !word.contains('/') {
        return Vec::new();
    }
    if word.contains('*') {
        let listed = path.parent().and_then(|around| around.read_dir().ok()).into_iter().flatten();
        let files = listed.flatten().take(FILES_MAX).map(|entry| entry.path());
        return files.filter(|path| is_script(path)).collect();
    }
    // Ruby takes its end for granted.
    [path.with_extension("rb"), path].into_iter().filter(|path| is_script(path)).collect()
}

/// The path in an option that has one without a blank: `-r./x`, `-javaagent:x/y.jar`.
fn without_option(word: &str) -> &str {
    let Some(option) = word.strip_prefix('-') else { return word };
    match (option.rsplit_once(':'), option.find(['.', '/'])) {
        (Some((_, path)), _) => path,
        (None, Some(at)) => &option[at..],
        (None, None) => word,
    }
}

/// Whether `word` names an interpreter, with a version or without.
fn interprets(word: &str) -> bool {
    let name = word.rsplit('/').next().unwrap_or_default();
    let name =
        name.trim_end_matches(|character: char| character.is_ascii_digit() || character == '.');
    INTERPRETERS.contains(&name)
}

/// Whether a file is one that is run.
fn is_script(path: &Path) -> bool {
    let has_name = || path.extension().is_some_and(|end| ENDS.iter().any(|known| end == *known));
    let has_mode = |found: &fs::Metadata| found.permissions().mode() & 0o111 != 0;
    path.metadata().is_ok_and(|found| found.is_file() && (has_mode(&found) || has_name()))
        || repositories::contents(path, 2) == b"#!"
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernel::test_directory::TestDirectory;

    #[test]
    fn what_is_loaded_on_entering_is_found() {
        let dir = TestDirectory::new();
        let text = "# source_env no\nexport A=b\ndotenv\nPATH_add bin\nsource_env_if_exists \".envrc.local\"\n\
                    [ -e f ] && . ./env/more.sh; eval \"$(tools/env --all)\"\nwatch_file tools/text\nsource_env sub\nuse flake .\n\
                    . \"$PWD/env/own\"; eval \"$(bash tools/text2)\" `python3.11 -u a.py`\nfor f in ${PWD}/env/*.sh; do . $f; done\n\
                    X=tools/late.sh\nsource \"$(dirname \"$0\")/near\"\nuse devenv\neval \"$(pixi shell-hook)\"\n\
                    export RUBYOPT=-r./tools/hook JAVA_TOOL_OPTIONS=\"-javaagent:tools/agent.jar\" CARGO_HOME=$PWD/cargo\n\
                    export XDG_CONFIG_HOME=$PWD/settings; AWS_CONFIG_FILE=./aws/config DOCKER_CONFIG=\"$PWD/docker\"\n\
                    pushd env; ./pushed; use flake path:./other#x; just env; x=$(make -s env)\necho just make\n\
                    . ~/t/of-home; D=own F=\"$D\"\nexport NAME=\"named\"; source \"${D}/inner\"; . $NAME\nuse vim\nuse flake ./nix#dev\n\
                    export $(grep -v '^#' data.env | xargs)\neval \"$(cat data)\"; VERSION=$(cat told)\n\
                    while read l; do export \"$l\"; done <lines\ncat piped | bash\nsource /dev/stdin < input\n\
                    [ -f later.env ] && export $(xargs < later.env)\nfor f in one two; do [ -f $f ] && . ./$f; done\n\
                    source \"$(expand_path expanded)\"\nx=$(<only-told)\nlayout python3\n";
        dir.file("t/.envrc", text);
        dir.file("t/.envrc.local", "dotenv_if_exists .env.local\nsource_env .envrc\n");
        dir.file("t/sub/.envrc", "use nix\n");
        for name in [
            "tools/text",
            "tools/env",
            "tools/text2",
            "a.py",
            "env/more.sh",
            "env/data",
            "tools/late.sh",
            "data.env",
            "data",
            "tools/hook.rb",
            "tools/agent.jar",
            "env/pushed",
            "lines",
            "piped",
            "input",
            "one",
            "expanded",
            "only-told",
        ] {
            dir.file(&format!("t/{name}"), "");
        }
        for program in ["t/tools/env", "t/env/pushed"] {
            fs::set_permissions(dir.path(program), fs::Permissions::from_mode(0o755)).unwrap();
        }
        let mise = "min_version = \"x\"\nenv_file = '.env.mise'\n[env]\nMODE = \"production\"\n_.path = [\"./p\"]\n\
                    _.file = [\".a\",\n  { path = \".b\", redact = true },\n]\n_.source = 'c.sh'\nD = \"{{exec(command='tools/env')}}\"\n\
                    [env._]\nfile = '.e'\n[[env]]\n_.source = '{{config_root}}/d.sh'\n\
                    [[watch_files]]\nrun = 'tools/late.sh'\n[hooks.enter]\nscript = \"source hooked.sh\"\n[tasks.x]\nfile = 'task'\nrun = 'tools/text2'\n";
        dir.file("t/mise.toml", mise);
        let other = "env = { _.source = 'inline.sh' }\n\"_\".source = [\n 'a#].sh', # ]\n 'listed.sh',\n]\n\
                     mise.source = './globbed/*.sh'\nD = 'told'\n";
        dir.file("t/.config/mise/conf.d/a.toml", other);
        dir.file("t/mise.dev.toml", "[env]\n_.file = 'dev'\nPLAIN = 'lines'\n");
        dir.file("t/globbed/g.sh", "");
        let tree = dir.path("t");
        let trees = [tree.clone()];
        let found = loaded(&trees, Some(&dir.path("")), |_| true);
        let mut names: Vec<_> =
            found.iter().filter_map(|path| path.strip_prefix(&tree).ok()).collect();
        names.sort();
        names.dedup();
        let expected = [
            ".env",
            ".envrc.local",
            "env/own",
            "tools/text2",
            "a.py",
            "env/more.sh",
            "tools/late.sh",
            "near",
            "of-home",
            "own/inner",
            "named",
            ".vimrc.local",
            "nix/flake.nix",
            "nix/flake.lock",
            "tools/hook.rb",
            "tools/agent.jar",
            "cargo/config",
            "cargo/config.toml",
            "settings",
            "aws/config",
            "docker/cli-plugins",
            "docker/config.json",
            "env/pushed",
            "other/flake.nix",
            "other/flake.lock",
            ".justfile",
            "Justfile",
            "justfile",
            "env/.justfile",
            "env/Justfile",
            "env/justfile",
            "GNUmakefile",
            "Makefile",
            "makefile",
            "-s/GNUmakefile",
            "-s/Makefile",
            "-s/makefile",
            "data.env",
            "data",
            "lines",
            "piped",
            "input",
            "one",
            "expanded",
            "later.env",
            "devenv.nix",
            "devenv.yaml",
            "devenv.lock",
            "devenv.local.nix",
            "devenv.local.yaml",
            "pixi.toml",
            "pixi.lock",
            "shell-hook/pixi.toml",
            "shell-hook/pixi.lock",
            "d.sh",
            "tools/env",
            "sub/.envrc",
            "flake.nix",
            "flake.lock",
            "sub/shell.nix",
            "sub/default.nix",
            ".env.local",
            ".envrc",
            ".env.mise",
            ".a",
            ".b",
            "c.sh",
            ".e",
            "hooked.sh",
            "source hooked.sh",
            "inline.sh",
            "_",
            "a#].sh",
            "listed.sh",
            "globbed/g.sh",
            "dev",
        ];
        let mut expected = expected.map(Path::new);
        expected.sort();
        let grows = format!("A={} {}", "x".repeat(1 << 16), "$A".repeat(1 << 16));
        assert_eq!(with_values(&grows, ""), grows);
        assert_eq!(names, expected);
        assert!(loaded(&trees, None, |_| false).is_empty());
    }
}

//! What the settings load that shells obey because a directory is entered: those of direnv and mise. It reads them and
//! changes nothing. Source: direnv-stdlib(1); mise's manual, Environments and Hooks.

use super::repositories;
use super::shell_words::{substituted, words};
use kernel::locate::locate;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::mem;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The item of a preset that stands for these settings.
pub(super) const ITEM: &str = ".envrc";
/// Where mise has settings, in files whose names end so; in the first two in those that have its name.
const OF_MISE: [&str; 6] = ["", ".config", ".config/mise", ".config/mise/conf.d", ".mise", "mise"];
/// What has the shell obey text that a line takes from the files that it names.
const OBEYED: [&str; 5] = ["eval", "export $(", "export \"$(", "export `", "export \"`"];
/// What is spent on the first tree, which the command starts in, and on each other: what a command has left is to delay
/// nobody. In bytes of text, as which all else counts by the time that it takes, and in paths that are found. A script of
/// some hundred lines takes a small part of the second.
const FIRST: Left = Left { bytes: 1 << 22, paths: 1 << 12 };
const OTHER: Left = Left { bytes: 1 << 18, paths: 1 << 8 };
/// As how many bytes count a file that is read, a word that is looked up, and a path that is found.
const FILE: usize = 1 << 12;
const WORD: usize = 1 << 3;
const PATH: usize = 1 << 6;
/// Most variables that are followed, and files of mise's in a tree, how much of a file is read, and of one line.
const FILES_MAX: usize = 32;
const LENGTH_MAX: u64 = 1 << 16;
const LINE_MAX: usize = 1 << 12;
/// A name that nothing has.
const NEW: &str = "\u{1}";
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
///
/// # Errors
/// Returns the file or directory from which on it would take too long.
pub(super) fn loaded(
    trees: &[PathBuf],
    home: Option<&Path>,
    may_change: impl Fn(&PathBuf) -> bool,
) -> Result<Vec<PathBuf>, PathBuf> {
    let home = home.and_then(Path::to_str).unwrap_or("~");
    let (read, found) = (BTreeSet::new(), BTreeSet::new());
    let mut search = Search { home, may_change, read, found, left: FIRST, at: PathBuf::new() };
    for tree in trees {
        if search.of_direnv(tree).and_then(|()| search.of_mise(tree)).is_none() {
            return Err(search.at);
        }
        search.left = OTHER;
    }
    Ok(search.found.into_iter().collect())
}

/// What may be spent yet.
struct Left {
    bytes: usize,
    paths: usize,
}

/// What was found in some trees. Its functions return nothing once there is nothing left.
struct Search<'a, F> {
    home: &'a str,
    may_change: F,
    /// The shell scripts that were read: what they load depends on where they are alone.
    read: BTreeSet<PathBuf>,
    found: BTreeSet<PathBuf>,
    left: Left,
    /// The file that is read, or the directory.
    at: PathBuf,
}

impl<F: Fn(&PathBuf) -> bool> Search<'_, F> {
    fn spend(&mut self, bytes: usize) -> Option<()> {
        let left = self.left.bytes.checked_sub(bytes);
        self.left.bytes = left.unwrap_or(0);
        left.map(|_| ())
    }

    /// Whether `path` leads to where something may change.
    fn lies_in_it(&self, path: &Path) -> bool {
        locate(path).is_ok_and(|at| (self.may_change)(&at.path))
    }

    fn add(&mut self, path: PathBuf) -> Option<()> {
        self.spend(PATH)?;
        if !self.found.contains(&path) && self.lies_in_it(&path) {
            self.left.paths = self.left.paths.checked_sub(1)?;
            self.found.insert(path);
        }
        Some(())
    }

    fn add_all(&mut self, paths: impl IntoIterator<Item = PathBuf>) -> Option<()> {
        paths.into_iter().try_for_each(|path| self.add(path))
    }

    /// Adds what .envrc of `tree` loads, with all that the loaded files do. Those are shell scripts, of which the commands
    /// that load something are known by their names, and other programs by the files that are named there.
    fn of_direnv(&mut self, tree: &Path) -> Option<()> {
        let mut pending = vec![tree.join(ITEM)];
        while let Some(file) = pending.pop() {
            self.at.clone_from(&file);
            self.spend(FILE)?;
            // source_env(1) starts in the directory of the file.
            let above = file.parent().unwrap_or(tree);
            let place = above.canonicalize().unwrap_or_else(|_| above.to_owned());
            if !self.read.insert(place.join(file.file_name().unwrap_or_default())) {
                continue;
            }
            let text = with_values(&text_of(&file), self.home);
            self.spend(text.len())?;
            let lines = text.lines().map(|line| &line[..line.floor_char_boundary(LINE_MAX)]);
            for line in lines.filter(|line| !line.trim_start().starts_with('#')) {
                self.of_line(above, line, &mut pending)?;
            }
        }
        Some(())
    }

    /// Adds what a line of a shell script in `above` loads. The scripts among that are also added to `pending`.
    fn of_line(&mut self, above: &Path, line: &str, pending: &mut Vec<PathBuf>) -> Option<()> {
        self.spend(cost(line))?;
        let is_obeyed = obeys(line);
        for part in substituted(line).into_iter().chain([line]) {
            let words = words_of(part);
            self.spend(WORD * words.len())?;
            if is_obeyed {
                self.add_all(words.iter().filter_map(|word| obeyed(above, word)))?;
            }
            let commands = commands(part);
            for (at, word) in words.iter().enumerate() {
                let arguments = &words[at + 1..];
                let named = arguments.first().map(String::as_str);
                match word.as_str() {
                    "dotenv" | "dotenv_if_exists" => {
                        let named = named.unwrap_or(".env");
                        self.add(above.join(named.replace(UNKNOWN, ".env")))?;
                    }
                    "source_env" | "source_env_if_exists" | "source" | "." => {
                        let named = named.filter(|named| !named.contains(UNKNOWN));
                        let Some(named) = named else { continue };
                        let named = above.join(named);
                        let named = if named.is_dir() { named.join(ITEM) } else { named };
                        self.add(named.clone())?;
                        pending.push(named);
                    }
                    // Sets which settings Vim reads in this directory: direnv-stdlib(1), use vim.
                    "vim" | "use_vim" => self.add(above.join(named.unwrap_or(".vimrc.local")))?,
                    word => {
                        // path:./nix#dev, as `nix help flake` has it.
                        let there = named.unwrap_or_default().split('#').next().unwrap_or_default();
                        let there = above.join(there.rsplit(':').next().unwrap_or_default());
                        for name in described(word, commands.contains(word)) {
                            self.add_all([above.join(name), there.join(name)])?;
                        }
                        self.run(above, word, arguments)?;
                    }
                }
            }
        }
        Some(())
    }

    /// Adds what the files of mise's settings in `tree` load.
    fn of_mise(&mut self, tree: &Path) -> Option<()> {
        for file in settings_of_mise(tree) {
            self.at.clone_from(&file);
            self.spend(FILE)?;
            self.of_settings(&text_of(&file), tree)?;
        }
        Some(())
    }

    /// Adds what the text of one loads: what `source` and `file` name (`_.source`, `env_file`), and what else names a file
    /// that is there, outside of its tasks, which are asked for by their names, and of plain variables.
    fn of_settings(&mut self, text: &str, tree: &Path) -> Option<()> {
        let (mut section, mut in_list) = ("", false);
        for line in text.lines().map(str::trim).filter(|line| !line.starts_with('#')) {
            self.spend(cost(line))?;
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
                        true => self.run(tree, name, &[])?,
                        false => self.add(tree.join(name))?,
                    }
                }
                let unquoted: String = plain.split(['"', '\'']).step_by(2).collect();
                let syntax = unquoted.split('#').next().unwrap_or_default();
                in_list = (in_list || syntax.contains('[')) && !syntax.contains(']');
            }
            let (words, is_obeyed) = (words_of(line), obeys(line));
            self.spend(WORD * words.len())?;
            for (at, word) in words.iter().enumerate() {
                self.run(tree, word, &words[at + 1..])?;
                if !section.starts_with("env") {
                    let named = obeyed(tree, word).filter(|path| is_obeyed || path.is_file());
                    self.add_all(named)?;
                }
            }
        }
        Some(())
    }

    /// Adds what is run because `word` is a path in the tree, a variable that names one, or a program that runs one of its
    /// `arguments`; of a pattern all scripts that it may name.
    fn run(&mut self, tree: &Path, word: &str, arguments: &[String]) -> Option<()> {
        if let Some((_, names)) = SETTINGS.iter().find(|(variable, _)| *variable == word) {
            let place = arguments.first().filter(|place| !place.contains(UNKNOWN));
            let Some(place) = place.map(|place| tree.join(place)) else { return Some(()) };
            let beneath =
                |name: &&str| if name.is_empty() { place.clone() } else { place.join(name) };
            return self.add_all(names.iter().map(beneath));
        }
        let word = without_option(word);
        let path = tree.join(word);
        if interprets(word) {
            // A line of nothing but interpreters names each of them for each.
            self.spend(WORD * arguments.len())?;
            let named = arguments.iter().map(|name| tree.join(name));
            return self.add_all(named.filter(|path| path.is_file()));
        }
        if !word.contains('/') {
            return Some(());
        }
        if word.contains('*') {
            return self.add_matching(&path);
        }
        // Ruby takes its end for granted.
        let paths = [path.with_extension("rb"), path];
        self.add_all(paths.into_iter().filter(|path| is_script(path)))
    }

    /// Adds the scripts that lie beside `pattern` and that it may name. In a directory that may be written they are few.
    fn add_matching(&mut self, pattern: &Path) -> Option<()> {
        let Some(around) = pattern.parent() else { return Some(()) };
        // What stands for others in it, as variables and braces, was cut or replaced: its end alone is known.
        let name = pattern.file_name().unwrap_or_default().to_string_lossy();
        let end = name.rsplit(['*', '?', '.']).next().unwrap_or_default();
        if !self.lies_in_it(&around.join(NEW)) {
            return Some(());
        }
        let file = mem::replace(&mut self.at, around.to_owned());
        for entry in around.read_dir().into_iter().flatten().flatten() {
            self.spend(WORD)?;
            if entry.file_name().to_string_lossy().contains(end) && is_script(&entry.path()) {
                self.add(entry.path())?;
            }
        }
        self.at = file;
        Some(())
    }
}

/// As how many bytes a line counts: each of these begins a part that is read as well, and can be as long.
fn cost(line: &str) -> usize {
    let parts = ["$(", "`", "{{"].map(|begin| line.matches(begin).count());
    line.len() * (1 + parts.iter().sum::<usize>())
}

fn text_of(file: &Path) -> String {
    let text = repositories::contents(file, LENGTH_MAX);
    let lines = text.split(|&byte| byte == b'\n').map(|line| &line[..line.len().min(LINE_MAX)]);
    let lines: Vec<_> = lines.map(String::from_utf8_lossy).collect();
    lines.join("\n")
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

/// The words that commands of `line` begin with.
fn commands(line: &str) -> BTreeSet<&str> {
    line.split([';', '&', '|']).filter_map(|command| command.split_whitespace().next()).collect()
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

/// `text` with `value` wherever `name` stands, unless a script was made to grow by that, or by others before.
fn replaced(text: String, name: &str, value: &str) -> String {
    let grown = text.matches(name).count().saturating_mul(value.len());
    let is_grown = text.len().saturating_add(grown) as u64 > 2 * LENGTH_MAX;
    if is_grown { text } else { text.replace(name, value) }
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
        let found = loaded(&trees, Some(&dir.path("")), |_| true).unwrap();
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
        assert_eq!(loaded(&trees, None, |_| false), Ok(Vec::new()));
    }

    #[test]
    fn what_takes_long_is_an_error_that_names_the_file() {
        let dir = TestDirectory::new();
        let found = || {
            let trees = ["first", "other", "last"].map(|name| dir.path(name));
            loaded(&trees, None, |_| true)
        };
        dir.file("last/.envrc", "dotenv\nsource ../first/lib.sh\n");
        let lines = |line: &str| format!("{line}\n").repeat((1 << 16) / (line.len() + 1));
        // What a script takes is none of it.
        let script = "python3 -m x; export A=\"$(ls b)\" C=d\n".repeat(300);
        dir.file("first/lib.sh", &script);
        dir.file("first/.envrc", "source lib.sh\n");
        let whole =
            ["first/lib.sh", "last/../first/lib.sh", "last/.env"].map(|name| dir.path(name));
        assert_eq!(found(), Ok(whole.to_vec()));
        let mut names = String::new();
        (0..1 << 13).for_each(|name| names += &format!(". a{name}\n"));
        for text in [
            lines(&"sh ".repeat(1365)),
            lines(&"make;".repeat(800)),
            lines(&format!("{}{}", "$(".repeat(1300), ")".repeat(1300))),
            lines(&"{{".repeat(2000)),
            names,
        ] {
            let text = text.repeat(4);
            dir.file("other/.envrc", &text);
            let found = found();
            assert_eq!(found, Err(dir.path("other/.envrc")), "{}", &text[..20]);
        }
    }

    #[test]
    fn of_a_pattern_each_script_is_found_whatever_lies_beside_them() {
        let dir = TestDirectory::new();
        let found = |text: &str| {
            dir.file("t/.envrc", text);
            let found =
                loaded(&[dir.path("t")], None, |path| path.starts_with(dir.path("t"))).unwrap();
            found
                .iter()
                .filter_map(|path| Some(path.strip_prefix(dir.path("t")).ok()?.to_owned()))
                .collect::<Vec<_>>()
        };
        let all = "for f in env/*.sh; do . $f; done\n";
        dir.file("t/env/real.sh", "");
        dir.file("t/env/other.py", "");
        for number in 0..400 {
            dir.file(&format!("t/env/{number}.txt"), "");
        }
        for text in
            [all, "x env/*.{sh,bash}\n", "x env/${X}*.sh\n", "x env/*$X.sh\n", "x env/*.$X\n"]
        {
            assert!(found(text).contains(&"env/real.sh".into()), "{text}");
        }
        assert_eq!(found(all), [Path::new("env/real.sh")]);
        for number in 1..=FIRST.paths {
            dir.file(&format!("t/env/{number}.sh"), "");
        }
        dir.file("t/.envrc", all);
        let too_many = loaded(&[dir.path("t")], None, |_| true);
        assert_eq!(too_many, Err(dir.path("t/env")));
        // Nothing can be made in what lies around.
        dir.file("1.sh", "");
        assert!(found("for f in ../*.sh; do . $f; done\n").is_empty());
    }
}

//! What the settings load that shells obey because a directory is entered: those of direnv and mise. It reads them and
//! changes nothing. Source: direnv-stdlib(1); mise's manual, Environments and Hooks.

use super::repositories;
use kernel::locate::locate;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The item of a preset that stands for these settings.
pub(super) const ITEM: &str = ".envrc";
const OF_MISE: [&str; 7] = [
    ".config/mise.toml",
    ".config/mise/config.toml",
    ".mise.local.toml",
    ".mise.toml",
    "mise.local.toml",
    "mise.toml",
    "mise/config.toml",
];
/// Most files that are read, and how much of each.
const FILES_MAX: usize = 32;
const LENGTH_MAX: u64 = 1 << 18;

/// What is loaded or run when somebody enters one of `trees`: files that may be missing, and programs that are there.
/// Nothing that lies where `may_change` says no.
pub(super) fn loaded(trees: &[PathBuf], may_change: impl Fn(&PathBuf) -> bool) -> Vec<PathBuf> {
    let all = trees.iter().flat_map(|tree| {
        let texts = OF_MISE.iter().map(|name| text_of(&tree.join(name)));
        let of_mise = texts.flat_map(|text| of_mise(&text, tree));
        of_direnv(tree).into_iter().chain(of_mise.collect::<Vec<_>>())
    });
    all.filter(|path| locate(path).is_ok_and(|at| may_change(&at.path))).collect()
}

fn text_of(file: &Path) -> String {
    String::from_utf8_lossy(&repositories::contents(file, LENGTH_MAX)).into_owned()
}

/// What .envrc of `tree` loads, with all that the loaded files do. Those are shell scripts, of which the commands that
/// load something are known by their names.
fn of_direnv(tree: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut pending = vec![tree.join(ITEM)];
    let mut read = Vec::new();
    while let Some(file) = pending.pop().filter(|_| read.len() < FILES_MAX) {
        if read.contains(&file) {
            continue;
        }
        // source_env(1) starts in the directory of the file.
        let above = file.parent().unwrap_or(tree).to_owned();
        let text = text_of(&file);
        read.push(file);
        for line in text.lines().filter(|line| !line.trim_start().starts_with('#')) {
            let words: Vec<&str> = words(line).collect();
            for (at, word) in words.iter().enumerate() {
                let argument = words.get(at + 1).copied();
                match (*word, argument) {
                    ("dotenv" | "dotenv_if_exists", _) => {
                        found.push(above.join(argument.unwrap_or(".env")));
                    }
                    ("source_env" | "source_env_if_exists" | "source" | ".", Some(named)) => {
                        let named = above.join(named);
                        let named = if named.is_dir() { named.join(ITEM) } else { named };
                        found.push(named.clone());
                        pending.push(named);
                    }
                    // The shell hook of what they describe is run.
                    ("use" | "use_flake" | "use_nix", _) if line.contains("flake") => {
                        found.extend(["flake.nix", "flake.lock"].map(|name| above.join(name)));
                    }
                    ("use" | "use_flake" | "use_nix", _) if line.contains("nix") => {
                        found.extend(["shell.nix", "default.nix"].map(|name| above.join(name)));
                    }
                    (word, _) => found.extend(program(&above, word)),
                }
            }
        }
    }
    found
}

/// What a file of mise's settings in `tree` loads: `_.file`, `_.source`, `env_file`, and programs of its hooks and
/// templates.
fn of_mise(text: &str, tree: &Path) -> Vec<PathBuf> {
    let (mut found, mut section, mut in_list) = (Vec::new(), "", false);
    for line in text.lines().map(str::trim).filter(|line| !line.starts_with('#')) {
        if line.starts_with('[') && !in_list {
            section = line;
            continue;
        }
        let (key, value) =
            if in_list { ("", line) } else { line.split_once('=').unwrap_or((line, "")) };
        let key = key.trim();
        let is_table = section.starts_with("[env._") || key == "_" || key.ends_with("._");
        let names_file = |text: &str| text.contains("file") || text.contains("source");
        let is_loaded = key == "env_file"
            || (key.contains("_.") || section.starts_with("[env._")) && names_file(key)
            || is_table && names_file(value);
        if in_list || is_loaded {
            found.extend(quoted(value).map(|name| tree.join(name)));
            in_list = (in_list || value.contains('[')) && !value.contains(']');
        } else if section.starts_with("[hooks") || section.starts_with("[env") {
            found.extend(words(value).filter_map(|word| program(tree, word)));
        }
    }
    found
}

/// The words of a line that a shell reads, whatever is quoted.
fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| c.is_whitespace() || "\"'()`$;|&<>={}[],".contains(c))
        .filter(|word| !word.is_empty())
}

/// The strings in a line of TOML.
fn quoted(line: &str) -> impl Iterator<Item = &str> {
    line.split(['"', '\'']).skip(1).step_by(2).filter(|name| !name.is_empty())
}

/// The program in the tree that `word` is the path of.
fn program(tree: &Path, word: &str) -> Option<PathBuf> {
    let path = word.contains('/').then(|| tree.join(word))?;
    let found = path.metadata().ok()?;
    (found.is_file() && found.permissions().mode() & 0o111 != 0).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernel::test_directory::TestDirectory;
    use std::fs;

    #[test]
    fn what_is_loaded_on_entering_is_found() {
        let dir = TestDirectory::new();
        let text = "# source_env no\nexport A=b\ndotenv\nPATH_add bin\nsource_env_if_exists \".envrc.local\"\n\
                    [ -e f ] && . ./env/more.sh; eval \"$(tools/env --all)\"\nwatch_file tools/text\nsource_env sub\nuse flake .\n";
        dir.file("t/.envrc", text);
        dir.file("t/.envrc.local", "dotenv_if_exists .env.local\nsource_env .envrc\n");
        dir.file("t/sub/.envrc", "use nix\n");
        dir.file("t/tools/text", "");
        let program = dir.file("t/tools/env", "");
        fs::set_permissions(program, fs::Permissions::from_mode(0o755)).unwrap();
        let mise = "min_version = \"x\"\nenv_file = '.env.mise'\n[env]\nMODE = \"production\"\n_.path = [\"./p\"]\n\
                    _.file = [\".a\",\n  { path = \".b\", redact = true },\n]\n_.source = 'c.sh'\nD = \"{{exec(command='tools/env')}}\"\n\
                    [env._]\nfile = '.e'\n[tasks.x]\nfile = 'task'\nrun = 'tools/env'\n";
        dir.file("t/mise.toml", mise);
        let tree = dir.path("t");
        let trees = [tree.clone()];
        let found = loaded(&trees, |_| true);
        let mut names: Vec<_> =
            found.iter().map(|path| path.strip_prefix(&tree).unwrap()).collect();
        names.sort();
        let expected = [
            ".env",
            ".envrc.local",
            "env/more.sh",
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
            "tools/env",
            ".e",
        ];
        let mut expected = expected.map(Path::new);
        expected.sort();
        assert_eq!(names, expected);
        assert!(loaded(&trees, |_| false).is_empty());
    }
}

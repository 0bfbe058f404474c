//! Where else lies what presets deny in the home directory: variables of the caller move it, and root uses other homes.
//! Looks at directories and changes nothing. Sources: the XDG Base Directory Specification, and each tool's manual.

use super::callers::Caller;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// What a variable holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Value {
    /// The directory that stands for the usual one.
    Directory,
    /// Files, with colons between.
    Files,
}
use Value::{Directory, Files};

/// Each variable, and what it stands for where it is not set.
const VARIABLES: [(&str, &str, Value); 53] = [
    ("ANSIBLE_VAULT_PASSWORD_FILE", "~/.vault_pass", Files),
    ("AWS_CONFIG_FILE", "~/.aws/config", Files),
    ("AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials", Files),
    ("AWS_WEB_IDENTITY_TOKEN_FILE", "~/.aws/token", Files),
    ("AZURE_CONFIG_DIR", "~/.azure", Directory),
    ("BOTO_CONFIG", "~/.boto", Files),
    ("BUNDLE_USER_CONFIG", "~/.bundle/config", Files),
    ("CARGO_HOME", "~/.cargo", Directory),
    ("CLAUDE_CONFIG_DIR", "~/.claude", Directory),
    ("CLOUDSDK_CONFIG", "~/.config/gcloud", Directory),
    ("CODEX_HOME", "~/.codex", Directory),
    ("COMPOSER_HOME", "~/.composer", Directory),
    ("COPILOT_HOME", "~/.copilot", Directory),
    ("DBT_PROFILES_DIR", "~/.dbt", Directory),
    ("DOCKER_CONFIG", "~/.docker", Directory),
    ("GH_CONFIG_DIR", "~/.config/gh", Directory),
    ("GIT_CONFIG_GLOBAL", "~/.gitconfig", Files),
    ("GLAB_CONFIG_DIR", "~/.config/glab-cli", Directory),
    ("GNUPGHOME", "~/.gnupg", Directory),
    (
        "GOOGLE_APPLICATION_CREDENTIALS",
        "~/.config/gcloud/application_default_credentials.json",
        Files,
    ),
    ("GRADLE_USER_HOME", "~/.gradle", Directory),
    ("HF_HOME", "~/.cache/huggingface", Directory),
    ("HF_TOKEN_PATH", "~/.cache/huggingface/token", Files),
    ("HISTFILE", "~/.bash_history", Files),
    ("KAGGLE_CONFIG_DIR", "~/.kaggle", Directory),
    ("KUBECONFIG", "~/.kube/config", Files),
    ("LESSHISTFILE", "~/.lesshst", Files),
    ("MYSQL_HISTFILE", "~/.mysql_history", Files),
    ("MYSQL_TEST_LOGIN_FILE", "~/.mylogin.cnf", Files),
    ("NETRC", "~/.netrc", Files),
    ("NODE_REPL_HISTORY", "~/.node_repl_history", Files),
    ("NPM_CONFIG_USERCONFIG", "~/.npmrc", Files),
    ("OCI_CLI_CONFIG_FILE", "~/.oci/config", Files),
    ("PASSWORD_STORE_DIR", "~/.password-store", Directory),
    ("PGPASSFILE", "~/.pgpass", Files),
    ("PGSERVICEFILE", "~/.pg_service.conf", Files),
    ("PIP_CONFIG_FILE", "~/.config/pip/pip.conf", Files),
    ("PSQL_HISTORY", "~/.psql_history", Files),
    ("PYTHON_HISTORY", "~/.python_history", Files),
    ("RCLONE_CONFIG", "~/.config/rclone/rclone.conf", Files),
    ("REDISCLI_HISTFILE", "~/.rediscli_history", Files),
    ("REGISTRY_AUTH_FILE", "~/.config/containers/auth.json", Files),
    ("SOPS_AGE_KEY_FILE", "~/.config/sops/age/keys.txt", Files),
    ("SQLITE_HISTORY", "~/.sqlite_history", Files),
    ("TF_CLI_CONFIG_FILE", "~/.terraformrc", Files),
    ("WGETRC", "~/.wgetrc", Files),
    ("XDG_CACHE_HOME", "~/.cache", Directory),
    ("XDG_CONFIG_HOME", "~/.config", Directory),
    ("XDG_DATA_HOME", "~/.local/share", Directory),
    ("XDG_STATE_HOME", "~/.local/state", Directory),
    ("ZDOTDIR", "~", Directory),
    ("npm_config_userconfig", "~/.npmrc", Files),
    ("pip_config_file", "~/.config/pip/pip.conf", Files),
];

/// The item of a preset that stands for the homes of others, and where they are.
pub(super) const OTHERS: &str = "/home/*";
const HOMES: &str = "/home";
/// More than these are denied as one.
const HOMES_MAX: usize = 64;

/// The places beside the home itself, for items that begin with `~`.
#[derive(Debug, Default)]
pub(super) struct Moved {
    /// The usual place, what stands for it, and whether that is a file.
    places: Vec<(&'static str, PathBuf, Value)>,
    /// Homes of others, which root denies.
    pub(super) others: Vec<PathBuf>,
}

impl Moved {
    /// Those of `caller`. What holds the working directory or the home is not what a tool keeps for itself, nor is what
    /// `is_meant` says that the policy gives to the command.
    pub(super) fn of(caller: &Caller, is_meant: impl Fn(&Path) -> bool) -> Self {
        let mut places = Vec::new();
        let held = [Some(caller.cwd.as_path()), caller.home.as_deref()];
        let holds = |path: &Path| held.iter().flatten().any(|held| held.starts_with(path));
        for (variable, usual, value) in VARIABLES {
            let Some(text) = caller.variable(variable) else { continue };
            let paths: Vec<&[u8]> = match value {
                Files => text.as_bytes().split(|&byte| byte == b':').collect(),
                Directory => vec![text.as_bytes()],
            };
            for path in paths.into_iter().filter(|path| !path.is_empty()) {
                let path = caller.cwd.join(OsStr::from_bytes(path));
                let is_kept =
                    !path.starts_with("/dev") && !path.starts_with("/proc") && !holds(&path);
                let fits = value == Directory || !path.is_dir();
                if is_kept && fits && !is_meant(&path) && !path.as_os_str().as_bytes().contains(&0)
                {
                    places.push((usual, path, value));
                }
            }
        }
        Self { places, others: Vec::new() }
    }

    /// The same, with the homes of others where the caller is root: those that `used` paths lie in are looked through as
    /// the own one is.
    pub(super) fn with_homes(mut self, caller: &Caller, used: &[PathBuf]) -> Self {
        if rustix::process::geteuid().is_root() {
            self.add_homes(Path::new(HOMES), caller, used);
        }
        self
    }

    fn add_homes(&mut self, homes: &Path, caller: &Caller, used: &[PathBuf]) {
        let Ok(listed) = homes.read_dir() else { return };
        let path = caller.variable("PATH").unwrap_or_default();
        let used: Vec<PathBuf> = used.iter().cloned().chain(std::env::split_paths(&path)).collect();
        for home in listed.flatten().map(|entry| entry.path()) {
            if caller.home.as_deref().is_some_and(|own| own.starts_with(&home)) {
                continue;
            }
            match used.iter().any(|path| path.starts_with(&home)) {
                true => self.places.push(("~", home, Directory)),
                false => self.others.push(home),
            }
        }
        let is_used = |path: &PathBuf| path.starts_with(homes);
        let own = caller.home.iter().any(is_used);
        if self.others.len() > HOMES_MAX && !own && !used.iter().any(is_used) {
            self.others = vec![homes.to_owned()];
        }
    }

    /// Where else that is which `text` names: a text relative to a path for each.
    pub(super) fn of_item<'a>(&self, text: &'a str) -> Vec<(&'a str, PathBuf)> {
        let found = self.places.iter().filter_map(|(usual, place, value)| {
            match (beneath(text, usual), value) {
                (Some(rest), _) => {
                    let rest = rest.trim_start_matches('/');
                    Some((if rest.is_empty() { "." } else { rest }, place.clone()))
                }
                // It lies in what is denied.
                (None, Files) if beneath(usual, text).is_some() => Some((".", place.clone())),
                _ => None,
            }
        });
        found.collect()
    }
}

/// What of `text` is beneath `above`, of paths that presets write.
fn beneath<'a>(text: &'a str, above: &str) -> Option<&'a str> {
    text.strip_prefix(above).filter(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernel::test_directory::TestDirectory;
    use std::ffi::OsString;

    fn caller(cwd: &Path, variables: &[(&str, &str)]) -> Caller {
        let pairs =
            variables.iter().map(|(name, value)| (OsString::from(name), OsString::from(value)));
        Caller::new(cwd.to_owned(), pairs)
    }

    #[test]
    fn what_variables_move_is_found_where_it_is() {
        let caller = caller(
            Path::new("/w/t"),
            &[
                ("HOME", "/h/u"),
                ("XDG_CONFIG_HOME", "/x"),
                ("CARGO_HOME", "cargo"),
                ("KUBECONFIG", "/k/a::/k/b"),
                ("AWS_CONFIG_FILE", "/a"),
                ("HISTFILE", "/dev/null"),
                ("GNUPGHOME", "/w"),
                ("DOCKER_CONFIG", "/h"),
                ("CODEX_HOME", "/meant/codex"),
                ("NETRC", "/etc"),
            ],
        );
        let moved = Moved::of(&caller, |path| path.starts_with("/meant"));
        for (item, expected) in [
            ("~/.config/gh", &[("gh", "/x")][..]),
            ("~/.cargo/credentials", &[("credentials", "/w/t/cargo")]),
            ("~/.kube", &[(".", "/k/a"), (".", "/k/b")]),
            ("~/.aws", &[(".", "/a")]),
            ("~/.configs", &[]),
            ("~/.gnupg", &[]),
            ("~/.docker/config.json", &[]),
            ("~/.codex/auth.json", &[]),
            ("~/.bash_history", &[]),
            ("~/.netrc", &[]),
        ] {
            let expected: Vec<_> =
                expected.iter().map(|(text, path)| (*text, PathBuf::from(path))).collect();
            assert_eq!(moved.of_item(item), expected, "{item}");
        }
    }

    #[test]
    fn homes_of_others_are_told_from_those_in_use() {
        let dir = TestDirectory::new();
        for name in ["own", "other", "tree", "brew"] {
            dir.directory(&format!("home/{name}/d"));
        }
        let own = dir.path("home/own");
        let path = format!("/bin:{}", dir.path("home/brew/bin").display());
        let caller = caller(&dir.path(""), &[("HOME", own.to_str().unwrap()), ("PATH", &path)]);
        let mut moved = Moved::default();
        moved.add_homes(&dir.path("home"), &caller, &[dir.path("home/tree/d")]);
        assert_eq!(moved.others, [dir.path("home/other")]);
        let mut found = moved.of_item("~/.ssh");
        found.sort();
        assert_eq!(found, [(".ssh", dir.path("home/brew")), (".ssh", dir.path("home/tree"))]);
    }
}

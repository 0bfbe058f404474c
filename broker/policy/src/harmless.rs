//! What is known to be harmless to allow: the one table of the line that helps, `--learn` and `--check`. It looks for
//! repositories, and at nothing else.
//!
//! The command chooses what it is refused, and so what it is advised to be given. What programs outside the
//! sandbox run or obey (directories of programs, start-up files, settings), and servers that run commands or hold
//! keys (tmux, screen, container engines, service managers, D-Bus, X11, Wayland, ssh- and gpg-agents, editors, databases,
//! which write files and load code for their clients) are too many to be listed. So this lists what is harmless, and
//! nothing else is advised, whoever asks.

use super::presets;
use super::repositories::is_repository;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

/// Caches of package managers and build tools, beneath the home, each by its manual: those whose name says nothing (a
/// plugin of an editor's, a shell's prompt) are not known to be harmless. Builds outside trust what they find there, as
/// those inside do; no program runs it merely because it starts. ~/.ccache is none: ccache reads its settings there; nor are
/// conda's packages, which environments outside share by hard links.
const CACHES: [&str; 62] = [
    ".bun/install/cache",
    ".cabal/packages",
    ".cache/Cypress",
    ".cache/black",
    ".cache/ccache",
    ".cache/clangd",
    ".cache/composer",
    ".cache/coursier",
    ".cache/deno",
    ".cache/electron",
    ".cache/go-build",
    ".cache/golangci-lint",
    ".cache/gopls",
    ".cache/hatch",
    ".cache/ms-playwright",
    ".cache/mypy",
    ".cache/node-gyp",
    ".cache/pdm",
    ".cache/pip",
    ".cache/pip-tools",
    ".cache/pipenv",
    ".cache/pnpm",
    ".cache/puppeteer",
    ".cache/pypoetry",
    ".cache/ruff",
    ".cache/sccache",
    ".cache/selenium",
    ".cache/staticcheck",
    ".cache/trivy",
    ".cache/uv",
    ".cache/virtualenv",
    ".cache/yarn",
    ".cache/zig",
    ".cargo/.global-cache",
    ".cargo/.global-cache-journal",
    ".cargo/.package-cache",
    ".cargo/.package-cache-mutate",
    ".cargo/git",
    ".cargo/registry",
    ".composer/cache",
    ".electron-gyp",
    ".gradle/caches",
    ".gradle/daemon",
    ".gradle/native",
    ".gradle/notifications",
    ".gradle/workers",
    ".gradle/wrapper",
    ".hex/packages",
    ".ivy2/cache",
    ".kube/cache",
    ".lesshst",
    ".local/share/pnpm/store",
    ".local/share/virtualenv",
    ".m2/repository",
    ".node-gyp",
    ".npm",
    ".nuget/packages",
    ".nv",
    ".pnpm-store",
    ".yarn/berry/cache",
    ".yarn/cache",
    "go/pkg",
];
/// Hidden names in a work tree that hold what tools make and nobody's settings.
const MADE: [&str; 20] = [
    ".astro",
    ".build",
    ".coverage",
    ".dart_tool",
    ".eslintcache",
    ".gradle",
    ".hypothesis",
    ".ipynb_checkpoints",
    ".mypy_cache",
    ".next",
    ".nox",
    ".nuxt",
    ".nyc_output",
    ".parcel-cache",
    ".pytest_cache",
    ".ruff_cache",
    ".stack-work",
    ".svelte-kit",
    ".turbo",
    ".zig-cache",
];
/// Visible names, anywhere in the home, of directories from which programs are run or load code.
const PROGRAMS: [&str; 20] = [
    "Applications",
    "Desktop",
    "Library",
    "R",
    "anaconda3",
    "bin",
    "dist-packages",
    "flutter",
    "google-cloud-sdk",
    "hooks",
    "libexec",
    "mambaforge",
    "miniconda3",
    "miniforge3",
    "node_modules",
    "perl5",
    "public_html",
    "sbin",
    "site-packages",
    "snap",
];
/// Visible names that tools look for in all directories above the one that they are started in, each by its manual, and
/// run or load what they name: in the home they hold for every project beneath.
#[rustfmt::skip]
const LOOKED_UP: [&str; 83] = [
    // Programming languages.
    "Cargo.toml", "clippy.toml", "rustfmt.toml", "go.mod", "go.work", "Package.swift", "build.zig", "dune-project",
    "dune-workspace", "stack.yaml", "cabal.project", "Project.toml", "pubspec.yaml", "analysis_options.yaml",
    "composer.json", "build.sc", "elm.json", "config.nims", "nim.cfg",
    // Node and Deno.
    "package.json", "package.yaml", "pnpm-workspace.yaml", "lerna.json", "nx.json", "rush.json", "turbo.json",
    "tsconfig.json", "jsconfig.json", "deno.json", "deno.jsonc", "gulpfile.js",
    // Python.
    "pyproject.toml", "setup.cfg", "setup.py", "tox.ini", "pytest.ini", "conftest.py", "Pipfile", "uv.toml", "pixi.toml",
    "tasks.py", "fabfile.py", "pants.toml",
    // The JVM and .NET.
    "settings.gradle", "settings.gradle.kts", "build.gradle", "pom.xml", "Directory.Build.props",
    "Directory.Build.targets", "Directory.Build.rsp", "Directory.Packages.props", "global.json", "NuGet.Config",
    "NuGet.config", "nuget.config", "dotnet-tools.json",
    // What builds and runs.
    "Gemfile", "gems.rb", "Rakefile", "Rakefile.rb", "rakefile", "rakefile.rb", "Vagrantfile", "Justfile", "justfile",
    "Taskfile.yml", "Taskfile.yaml", "Taskfile.dist.yml", "Taskfile.dist.yaml", "taskfile.yml", "taskfile.yaml", "WORKSPACE",
    "WORKSPACE.bazel", "MODULE.bazel", "flake.nix", "devbox.json", "root.hcl", "terragrunt.hcl",
    // Containers, and agents.
    "compose.yaml", "compose.yml", "docker-compose.yaml", "docker-compose.yml", "AGENTS.md",
];
/// What belongs to the system, with all beneath, and what does as a whole.
const SYSTEM: [&str; 11] = [
    "/bin",
    "/boot",
    "/dev",
    "/etc",
    "/lib",
    "/lib64",
    "/proc",
    "/run",
    "/sbin",
    "/sys",
    "/var/spool",
];
const AS_A_WHOLE: [&str; 16] = [
    "/",
    "/home",
    "/media",
    "/mnt",
    "/opt",
    "/srv",
    "/tmp",
    "/usr",
    "/usr/local",
    "/usr/local/src",
    "/usr/src",
    "/var",
    "/var/cache",
    "/var/lib",
    "/var/log",
    "/var/tmp",
];
/// What of it programs are run from, or take settings from, with all beneath. The kernel's controls no policy lets be
/// written by way of the working directory.
const OBEYED: [&str; 16] = [
    "/bin",
    "/boot",
    "/etc",
    "/lib",
    "/lib64",
    "/sbin",
    "/usr/bin",
    "/usr/lib",
    "/usr/lib64",
    "/usr/libexec",
    "/usr/local/bin",
    "/usr/local/etc",
    "/usr/local/lib",
    "/usr/sbin",
    "/usr/share",
    "/var/spool",
];
/// Where the sources of programs are, beneath /usr.
const SOURCES: [&str; 2] = ["/usr/local/src", "/usr/src"];
/// The places of temporary files, whatever TMPDIR says.
const TEMPORARY: [&str; 2] = ["/tmp", "/var/tmp"];
/// The sockets of servers that only write down what they are told: syslog(3), sd_journal_print(3).
const SOCKETS: [&str; 4] = [
    "/dev/log",
    "/run/systemd/journal/dev-log",
    "/run/systemd/journal/socket",
    "/run/systemd/journal/stdout",
];

/// Whether whoever may use the socket at `path` has nothing but a line written for it.
pub fn is_socket(path: &Path) -> bool {
    SOCKETS.iter().any(|known| path == Path::new(known))
}

/// Whether allowing `directory` allows all there is: everything, or the home and its start-up files.
pub fn is_too_wide(directory: &Path, home: Option<&Path>) -> bool {
    ["/", "/home"].iter().any(|all| directory == Path::new(all))
        || home.is_some_and(|home| home.starts_with(directory))
}

/// Whether programs outside run or obey what is in the directory `place`: of the system's, with what is above, of the
/// `programs` that PATH names, or hidden in the home, but for caches.
pub fn is_obeyed(place: &Path, home: Option<&Path>, programs: &[PathBuf]) -> bool {
    let mut of_system = OBEYED.iter().map(Path::new);
    let is_of_system = of_system.any(|tree| place.starts_with(tree) || tree.starts_with(place));
    let inner = home.and_then(|home| place.strip_prefix(home).ok());
    let first = inner.and_then(|inner| inner.iter().next());
    let is_hidden = first.is_some_and(|name| !is_visible(name) && name != ".cache");
    is_hidden || is_of_system || programs.iter().any(|tree| place.starts_with(tree))
}

/// Whether people keep caches there whose home, a canonical path, is small: programs neither run nor obey what is in
/// `place` of themselves.
pub fn may_hold_caches(place: &Path, home: &Path) -> bool {
    let nothing = Path::new("");
    let ground = Ground { home: Some(home), work: nothing, temporary: nothing, settings: &[] };
    let is_program = |name: &OsStr| PROGRAMS.iter().any(|known| name == OsStr::new(known));
    let of_others = ["/home", "/tmp", "/var/tmp"];
    let is_elsewhere =
        !is_of_system(place) && !of_others.iter().any(|tree| place.starts_with(tree));
    match place.starts_with(home) {
        true => ground.is_region(place) || ground.is_own_file(place),
        false => is_elsewhere && !place.iter().any(is_program),
    }
}

/// Where the user is.
#[derive(Debug, Clone, Copy)]
pub struct Ground<'a> {
    pub home: Option<&'a Path>,
    /// The working directory at launch.
    pub work: &'a Path,
    /// Where temporary files of all programs are.
    pub temporary: &'a Path,
    /// Visible entries of the home that start-up files there are links into.
    pub settings: &'a [PathBuf],
}

impl<'a> Ground<'a> {
    /// What may be allowed so that `path` can be written, the widest first; nothing if `path` is not known to be
    /// harmless.
    pub fn places(&self, path: &Path) -> Vec<PathBuf> {
        let Some(region) = self.region(path) else {
            // A visible file of the home, by its own name: nothing obeys it before the user does.
            return self.is_disregarded(path).then(|| path.to_owned()).into_iter().collect();
        };
        let first = path.strip_prefix(self.work).ok().filter(|_| region == self.work);
        let first = first.and_then(|inner| inner.iter().next());
        // What is removed or moved away is an entry of its directory.
        let around = path.parent().filter(|around| around.starts_with(&region));
        let places = [first.map_or(region.clone(), |name| region.join(name))];
        places.into_iter().chain(around.map(Path::to_owned)).chain([path.to_owned()]).collect()
    }

    /// The caches that `path` leads to: a directory on the way to what is allowed may be made.
    pub fn beneath(&self, path: &Path) -> Vec<PathBuf> {
        // Directories of everybody's: that one is made says nothing of what it is made for.
        const COMMON: [&str; 4] = ["", ".cache", ".local", ".local/share"];
        let Some(home) = self.home() else { return Vec::new() };
        let inner =
            path.strip_prefix(home).ok().filter(|inner| !COMMON.map(Path::new).contains(inner));
        let rows = CACHES.map(Path::new).into_iter();
        rows.filter(|row| inner.is_some_and(|inner| row.starts_with(inner)))
            .map(|row| home.join(row))
            .collect()
    }

    /// Whether all beneath `place` is harmless.
    pub fn is_region(&self, place: &Path) -> bool {
        self.region(place).is_some()
    }

    /// Whether a policy can allow `place` without giving the command more than is known to be harmless.
    pub fn is_harmless(&self, place: &Path) -> bool {
        self.is_region(place) || self.is_disregarded(place)
    }

    /// Whether `path` is where all programs have their temporary files, or lies in there: the command has a directory
    /// of its own for them.
    pub fn is_temporary(&self, path: &Path) -> bool {
        let mut places = TEMPORARY.iter().map(Path::new).chain([self.temporary]);
        let is_own =
            self.is_in_work_tree(path) || self.home().is_some_and(|home| path.starts_with(home));
        !is_own && places.any(|place| place != Path::new("") && path.starts_with(place))
    }

    /// The work tree or the cache that `path` lies in, unless something on the way has a meaning.
    fn region(&self, path: &Path) -> Option<PathBuf> {
        if !is_plain(path) {
            return None;
        }
        if let Some(inner) = self.tree().and_then(|tree| path.strip_prefix(tree).ok()) {
            let is_harmless = |name| is_visible_or_made(name) && !presets::is_obeyed(name);
            let is_all = inner.iter().all(is_harmless) && !lies_in_repository(path, self.work);
            return is_all.then(|| self.work.to_owned());
        }
        let home = self.home()?;
        let inner = path.strip_prefix(home).ok()?;
        let row = CACHES.iter().find(|row| inner.starts_with(row))?;
        Some(home.join(row))
    }

    /// Whether `path` is one of the user's own, and no tool obeys it wherever it lies.
    fn is_disregarded(&self, path: &Path) -> bool {
        let is_looked_up = path.file_name().and_then(OsStr::to_str).is_some_and(is_looked_up);
        self.is_own_file(path)
            && !is_looked_up
            && !path.iter().any(presets::is_obeyed)
            && !self.home().is_some_and(|home| lies_in_repository(path, home))
    }

    /// Whether `path` is a file or a directory of the home that programs neither run nor obey of themselves.
    fn is_own_file(&self, path: &Path) -> bool {
        let inner = self.home().and_then(|home| path.strip_prefix(home).ok());
        let inner = inner.filter(|inner| is_plain(path) && !inner.as_os_str().is_empty());
        let holds_settings =
            self.settings.iter().any(|entry| path.starts_with(entry) || entry.starts_with(path));
        !holds_settings
            && inner.is_some_and(|inner| !self.is_in_work_tree(path) && inner.iter().all(is_data))
    }

    fn is_in_work_tree(&self, path: &Path) -> bool {
        self.tree().is_some_and(|tree| path.starts_with(tree))
    }

    /// The home, unless it is the system's.
    fn home(&self) -> Option<&'a Path> {
        self.home.filter(|home| !is_of_system(home))
    }

    /// The working directory, if it is somebody's tree of files.
    fn tree(&self) -> Option<&'a Path> {
        let is_wide = is_of_system(self.work) || is_too_wide(self.work, self.home);
        let inner = self.home().and_then(|home| self.work.strip_prefix(home).ok());
        // What starts programs lies on the desktop itself (Desktop Entry Specification), not in a directory there.
        let inner = inner.map(|inner| match inner.strip_prefix("Desktop") {
            Ok(rest) if rest != Path::new("") => rest,
            _ => inner,
        });
        let is_settings = inner.is_some_and(|inner| !inner.iter().all(is_data));
        (!is_wide && !is_settings).then_some(self.work)
    }
}

fn is_of_system(place: &Path) -> bool {
    let is = |whole: &&str| place == Path::new(whole);
    let is_in = |tree: &&str| place.starts_with(tree);
    let is_program = is_in(&"/usr") && !SOURCES.iter().any(is_in);
    is_program || SYSTEM.iter().any(is_in) || AS_A_WHOLE.iter().any(is)
}

/// Whether `path` is, or lies in, a repository of git beneath `around`, with hooks and settings, whatever it is called.
fn lies_in_repository(path: &Path, around: &Path) -> bool {
    path.ancestors().take_while(|above| *above != around).any(is_repository)
}

/// Whether tools look for `name` upward: also for all such as `eslint.config.js`.
fn is_looked_up(name: &str) -> bool {
    LOOKED_UP.contains(&name) || name.contains(".config.")
}

/// Whether `path` is absolute, has no `..`, and is text, so that a policy can name it.
fn is_plain(path: &Path) -> bool {
    let mut parts = path.components();
    parts.next() == Some(Component::RootDir)
        && parts.all(|part| matches!(part, Component::Normal(_)))
        && path.to_str().is_some()
}

fn is_visible(name: &OsStr) -> bool {
    !name.as_bytes().starts_with(b".")
}

fn is_visible_or_made(name: &OsStr) -> bool {
    is_visible(name) || MADE.iter().any(|made| name == OsStr::new(made))
}

fn is_data(name: &OsStr) -> bool {
    is_visible(name) && !PROGRAMS.iter().any(|known| name == OsStr::new(known))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::OnceLock;

    static SETTINGS: OnceLock<[PathBuf; 1]> = OnceLock::new();

    fn ground(work: &'static str) -> Ground<'static> {
        Ground {
            home: Some(Path::new("/home/u")),
            work: Path::new(work),
            temporary: Path::new("/scratch"),
            settings: SETTINGS.get_or_init(|| ["/home/u/dotfiles".into()]),
        }
    }

    /// The widest place that is advised so that `path` can be written.
    fn advised(work: &'static str, path: &str) -> Option<String> {
        let place = ground(work).places(Path::new(path)).into_iter().next()?;
        Some(place.to_str()?.to_owned())
    }

    #[test]
    fn caches_the_work_tree_and_visible_files_of_the_home_are_known() {
        for (path, expected) in [
            ("/home/u/.npm/_cacache/a", "/home/u/.npm"),
            ("/home/u/.npm", "/home/u/.npm"),
            ("/home/u/.cargo/registry/index/a", "/home/u/.cargo/registry"),
            ("/home/u/.cargo/.package-cache", "/home/u/.cargo/.package-cache"),
            ("/home/u/.cache/pip/http/a", "/home/u/.cache/pip"),
            ("/home/u/.yarn/cache/a", "/home/u/.yarn/cache"),
            ("/home/u/go/pkg/mod/x", "/home/u/go/pkg"),
            ("/home/u/notes", "/home/u/notes"),
            ("/home/u/src/other/x", "/home/u/src/other/x"),
            ("/work/a/b/c", "/work/a"),
            ("/work/node_modules/.bin/x", ""),
            ("/work/.pytest_cache/x", "/work/.pytest_cache"),
        ] {
            let expected = (!expected.is_empty()).then(|| expected.to_owned());
            assert_eq!(advised("/work", path), expected, "{path}");
        }
        for (work, path, is_known) in [
            ("/home/u/Desktop/p", "/home/u/Desktop/p/a", true),
            ("/home/u/Desktop", "/home/u/Desktop/a", false),
            ("/home/u/public_html/p", "/home/u/public_html/p/a", false),
        ] {
            assert_eq!(advised(work, path).as_deref(), is_known.then_some(path));
        }
    }

    #[test]
    fn whatever_else_is_unknown() {
        for path in [
            // Directories of programs, start-up files and settings.
            "/home/u/bin/ls",
            "/home/u/.local/bin/x",
            "/home/u/.cargo/bin/cargo",
            "/home/u/go/bin/x",
            "/home/u/.cargo/config.toml",
            "/home/u/.cargo/env",
            "/home/u/.bashrc",
            "/home/u/dotfiles/bashrc",
            "/home/u/rust-toolchain.toml",
            "/home/u/src/other/mise.toml",
            // What tools look for in all directories above.
            "/home/u/src/go.work",
            "/home/u/package.json",
            "/home/u/src/eslint.config.mjs",
            "/home/u/x.code-workspace",
            "/home/u/HEAD",
            "/home/u/miniconda3/etc/profile.d/conda.sh",
            "/home/u/.profile",
            "/home/u/.zshrc",
            "/home/u/.toolrc",
            "/home/u/.vim/plugin/x.vim",
            "/home/u/.vimrc",
            "/home/u/.config/nvim/init.lua",
            "/home/u/.oh-my-zsh/custom/x.zsh",
            "/home/u/.config/autostart/x.desktop",
            "/home/u/.config/systemd/user/x.service",
            "/home/u/.gitconfig",
            "/home/u/.config/git/config",
            "/home/u/.ssh/authorized_keys",
            "/home/u/.local/share/nvim/site/x",
            "/home/u/.local/share/applications/x",
            "/home/u/.npmrc",
            "/home/u/.m2/settings.xml",
            "/home/u/.gradle/init.d/x",
            "/home/u/.bun/bin/x",
            "/home/u/.local/share/pnpm/x",
            "/home/u/node_modules/x/index.js",
            "/home/u/Desktop/x.desktop",
            "/home/u/public_html/x.php",
            "/home/u/src/other/.git/hooks/pre-commit",
            "/home/u/src/other/.envrc",
            "/home/u/lib/python3/site-packages/x.pth",
            "/home/u/.cache",
            "/home/u/.cache/nvim/luac/x",
            "/home/u/.cache/zsh/zcompdump",
            "/home/u/.cache/p10k-instant-prompt-u.zsh",
            "/home/u/.cache/gitstatus/x",
            "/home/u/.cache/landstrip/x",
            "/home/u/.cache/.x",
            "/home/u/.cache/pip-other/x",
            "/home/u/.cache/tool/x",
            "/home/u",
            "/home",
            // What belongs to the system, and to nobody known.
            "/",
            "/etc/ld.so.preload",
            "/etc/cron.d/x",
            "/usr/bin/x",
            "/usr/local/bin/x",
            "/usr/local/lib/x",
            "/var/spool/cron/root",
            "/opt/tool/state",
            "/srv/x",
            "/tmp/x",
            "/var/tmp/x",
            "/scratch/x",
            "/root/.bashrc",
            "/home/other/x",
            "/run/user/7/x",
            "/dev/sda",
            "/new",
            // In the work tree.
            "/work/.git/hooks/pre-commit",
            "/work/.git",
            "/work/.vscode/settings.json",
            "/work/.envrc",
            "/work/.gitmodules.tmp.1",
            "/work/sub/.idea/x",
            "/work/mise.toml",
            "/work/sub/HEAD",
            "/work/../etc/x",
        ] {
            assert_eq!(advised("/work", path), None, "{path}");
            assert!(!ground("/work").is_harmless(Path::new(path)), "{path}");
        }
        let root = Ground { home: Some(Path::new("/")), ..ground("/work") };
        for path in ["/etc/x", "/data/x", "/bin/x", "/.npm/x"] {
            assert!(root.places(Path::new(path)).is_empty(), "{path}");
        }
    }

    #[test]
    fn the_system_the_home_and_directories_of_settings_are_no_work_trees() {
        for work in [
            "/",
            "/home",
            "/home/u",
            "/usr",
            "/usr/local",
            "/usr/share/x",
            "/etc",
            "/etc/nginx",
            "/var",
            "/tmp",
            "/opt",
            "/home/u/.config/nvim",
            "/home/u/.vim",
            "/home/u/bin",
            "/home/u/.oh-my-zsh",
            "/var/spool/cron",
        ] {
            for path in ["x", "a/b", "bin/x"] {
                let path = Path::new(work).join(path);
                let places = ground(work).places(&path);
                let is_own = work == "/home/u" && !path.ends_with("bin/x");
                assert_eq!(!places.is_empty(), is_own, "{work}: {places:?}");
                assert!(!places.contains(&PathBuf::from(work)), "{work}: {places:?}");
            }
        }
        for work in [
            "/work",
            "/tmp/w",
            "/srv/app",
            "/usr/src/app",
            "/var/www/app",
            "/opt/app",
            "/home/u/src/x",
        ] {
            let path = Path::new(work).join("a/b");
            assert_eq!(
                ground(work).places(&path).first(),
                Some(&Path::new(work).join("a")),
                "{work}"
            );
            assert!(ground(work).is_harmless(Path::new(work)), "{work}");
        }
    }

    #[test]
    fn no_socket_is_known_but_those_of_logs() {
        for path in [
            "/tmp/tmux-1000/default",
            "/run/screen/S-u/1",
            "/run/docker.sock",
            "/run/user/7/bus",
            "/tmp/.X11-unix/X0",
            "/run/user/7/wayland-0",
            "/run/user/7/gnupg/S.gpg-agent",
            "/tmp/ssh-x/agent.1",
            "/run/systemd/private",
            "/run/postgresql/.s.PGSQL.5432",
            "/run/mysqld/mysqld.sock",
            "/run/redis/redis.sock",
            "/run/nscd/socket",
            "/run/user/7/nvim.1.0",
            "/work/socket",
            "/home/u/x.sock",
            "/dev/log/x",
        ] {
            assert!(!is_socket(Path::new(path)), "{path}");
        }
        assert!(is_socket(Path::new("/dev/log")));
    }

    #[test]
    fn directories_that_open_everything_are_too_wide() {
        let home = Some(Path::new("/home/u"));
        for path in ["/", "/home", "/home/u"] {
            assert!(is_too_wide(Path::new(path), home), "{path}");
        }
        assert!(is_too_wide(Path::new("/"), None));
        for path in ["/home/u/x", "/work", "/home/other"] {
            assert!(!is_too_wide(Path::new(path), home), "{path}");
        }
    }

    #[test]
    fn what_programs_run_or_obey_is_known_and_where_caches_may_be() {
        let home = Path::new("/home/u");
        let programs = [PathBuf::from("/home/u/go/bin"), "/opt/tool/bin".into()];
        for (path, obeyed, caches) in [
            ("/home/u/.vim", true, false),
            ("/home/u/.config/nvim/lua", true, false),
            ("/home/u/.cache/x", false, false),
            ("/home/u/.cache/pip", false, true),
            ("/home/u/caches/pip", false, true),
            ("/home/u/go/bin/x", true, false),
            ("/home/u/go/src", false, true),
            ("/home/u/project/.github", false, false),
            ("/opt/tool/bin", true, false),
            ("/scratch/u/.cache/pip", false, true),
            ("/home/other/x", false, false),
            ("/tmp/x", false, false),
            ("/etc/cron.d", true, false),
            ("/usr/local/bin", true, false),
            ("/usr/local", true, false),
            ("/usr", true, false),
            ("/var", true, false),
            ("/var/www", false, true),
            ("/usr/src/app", false, true),
            ("/srv/app", false, true),
        ] {
            let path = Path::new(path);
            assert_eq!(is_obeyed(path, Some(home), &programs), obeyed, "{path:?}");
            assert_eq!(may_hold_caches(path, home), caches, "{path:?}");
        }
    }
}

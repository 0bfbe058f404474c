//! What policies mean, against a file system.

#![allow(clippy::unwrap_used)]
use std::os::unix::fs::symlink;

use super::super::document::Format;
use super::super::load::Source;
use super::super::parse::read;
use super::super::presets;
use super::*;
use kernel::test_directory::TestDirectory;
use rules::files::push_new;
use rules::paths::Rules;
use rules::pattern::{Component, Pattern};
use std::collections::HashSet;

/// A home, a working directory, and the policies tried in them.
struct Fixture {
    dir: TestDirectory,
    variables: Vec<(&'static str, String)>,
}

impl Fixture {
    fn new() -> Fixture {
        let dir = TestDirectory::new();
        let home = dir.directory("home").to_str().unwrap().to_owned();
        dir.directory("work");
        Fixture { dir, variables: vec![("HOME", home)] }
    }

    fn caller(&self) -> Caller {
        let variables = self.variables.iter().map(|(name, value)| (name.into(), value.into()));
        Caller::new(self.dir.path("work"), variables)
    }

    fn resolve(&self, yaml: &str) -> Result<Policy, PolicyError> {
        self.load(yaml, &mut Remarks::unwanted())
    }

    fn remarks(&self, yaml: &str) -> Vec<String> {
        let mut remarks = Remarks::wanted();
        self.load(yaml, &mut remarks).unwrap();
        remarks.lines().to_vec()
    }

    fn load(&self, yaml: &str, remarks: &mut Remarks) -> Result<Policy, PolicyError> {
        let sources = vec![Source::File(self.dir.file("policy", yaml))];
        let selection = Selection { sources, format: Some(Format::Yaml) };
        super::policy(&selection, &self.caller(), remarks)
    }

    /// Resolves one list and returns it relative to the fixture.
    fn writable(&self, list: &str) -> Result<Vec<String>, PolicyError> {
        let policy = self.resolve(&format!("filesystem: {{allowWrite: {list}}}"))?;
        Ok(policy.files.allow_write.iter().map(|path| self.relative(path)).collect())
    }

    fn relative(&self, path: &Path) -> String {
        match path.strip_prefix(self.dir.path("")) {
            Ok(path) => path.display().to_string(),
            Err(_) => path.display().to_string(),
        }
    }

    fn literal(&self, path: &str) -> Pattern {
        Pattern::literal(&self.dir.path(path))
    }
}

#[test]
fn written_paths_become_canonical_ones() {
    let f = Fixture::new();
    f.dir.directory("work/real/d");
    f.dir.directory("home/x");
    f.dir.file("home/~odd", "");
    symlink("../work/real", f.dir.path("home/link")).unwrap();
    symlink("nowhere/yet", f.dir.path("home/broken")).unwrap();
    for (list, expected) in [
        ("[.]", "work"),
        ("[real/d/]", "work/real/d"),
        ("[./real/../new//file]", "work/new/file"),
        ("['~']", "home"),
        ("['~/']", "home"),
        ("[~/x]", "home/x"),
        ("[../home/~odd]", "home/~odd"),
        ("[~/link/d]", "work/real/d"),
        ("[~/link]", "work/real"),
        ("[~/link/gone/../e]", "work/real/e"),
        ("[~/broken]", "home/nowhere/yet"),
        ("['a\\*b']", "work/a*b"),
        ("[/]", "/"),
        ("[/nonexistent/x/../y]", "/nonexistent/y"),
        ("[/dev/null]", "/dev/null"),
    ] {
        assert_eq!(f.writable(list).unwrap(), [expected], "{list}");
    }
    assert_eq!(f.writable("[real, ./real, ~/link]").unwrap(), ["work/real"]);
}

#[test]
fn what_cannot_be_a_path_is_an_error_in_every_list() {
    let f = Fixture::new();
    symlink("loop", f.dir.path("work/loop")).unwrap();
    for (item, expected) in [
        ("''", "empty path"),
        ("'~root/x'", "'~user' is not supported"),
        ("'$HOME/.ssh'", "write '~/.ssh' for the home directory"),
        ("'{~/.ssh,~/.aws}'", "write '~/.ssh', '~/.aws', each as an item of its own"),
        ("'x{a,b}*'", "nothing expands the braces"),
        ("\"a\\0b\"", "NUL"),
        ("loop", "too many levels of symbolic links"),
        ("loop/x", "too many levels of symbolic links"),
        ("'a[b'", "without a closing ']'"),
        ("'*/../x'", "'..' cannot follow a glob"),
        ("'a**'", "must be a whole path component"),
        (&"x/".repeat(3000), "longer than 4095 bytes"),
    ] {
        for list in [
            "filesystem.allowWrite",
            "filesystem.denyWrite",
            "filesystem.denyRead",
            "filesystem.allowRead",
            "network.allowUnixSockets",
        ] {
            let (object, key) = list.split_once('.').unwrap();
            let yaml = format!("{object}:\n  {key}:\n  - ok\n  - {item}\n");
            let error = f.resolve(&yaml).unwrap_err();
            assert!(error.message.contains(expected), "{item} in {list}: {error}");
            assert_eq!(error.field, Some(format!("{list}[1]")), "{item}");
            assert_eq!(error.line, Some(4), "{item}");
            assert_eq!(error.file, Some(f.dir.path("policy")));
        }
    }
}

#[test]
fn a_denied_path_that_does_not_exist_is_named_with_its_nearest_sibling() {
    let f = Fixture::new();
    for made in ["home/.ssh", "home/.config/app", "work/src"] {
        f.dir.directory(made);
    }
    f.dir.file("home/.netrc", "");
    for (written, expected) in [
        ("~/.shh", Some("'~/.shh' does not exist; did you mean '~/.ssh'?")),
        ("~/.shh/id_rsa", Some("did you mean '~/.ssh'?")),
        ("~/.confg/app", Some("did you mean '~/.config'?")),
        ("scr", Some("did you mean 'src'?")),
        ("./Src/x", Some("did you mean './src'?")),
        ("~/.aws", Some("'~/.aws' does not exist")),
        ("~/.ssh", None),
        ("~/.netrc", None),
        ("*.key", None),
    ] {
        for list in ["denyRead", "denyWrite"] {
            let remarks = f.remarks(&format!("filesystem: {{{list}: ['{written}']}}")).join("\n");
            match expected {
                Some(expected) => assert!(remarks.contains(expected), "{written}: {remarks}"),
                None => assert_eq!(remarks, "", "{written}"),
            }
        }
    }
    assert!(!f.remarks("filesystem: {denyRead: [~/.aws]}")[0].contains("did you mean"));
    assert!(f.remarks("filesystem: {allowWrite: [~/shh]}").is_empty());
}

#[test]
fn a_variable_within_a_path_is_named() {
    let f = Fixture::new();
    f.dir.file("work/$THERE", "");
    for list in ["denyRead", "denyWrite", "allowRead", "allowWrite"] {
        let remarks = |path: &str| f.remarks(&format!("filesystem: {{{list}: ['{path}']}}"));
        let named = remarks("/home/$USER/.ssh").join("\n");
        assert!(named.contains("nothing expands $USER in '/home/$USER/.ssh'"), "{named}");
        for name in ["./$THERE", "./Outer$Inner.class", "/home/\\$USER"] {
            let remarks = remarks(name).join("\n");
            assert!(!remarks.contains("expands"), "{name}: {remarks}");
        }
    }
}

#[test]
fn home_must_be_known_only_where_it_is_used() {
    let mut f = Fixture::new();
    f.variables.clear();
    assert!(f.writable("['~/x']").unwrap_err().message.contains("HOME"));
    assert_eq!(f.writable("[x]").unwrap(), ["work/x"]);
}

#[test]
fn denied_links_are_denied_as_links_and_as_targets() {
    let f = Fixture::new();
    f.dir.file("work/real/f", "");
    symlink("real", f.dir.path("work/way")).unwrap();
    symlink("way/f", f.dir.path("work/link")).unwrap();
    symlink("gone", f.dir.path("work/broken")).unwrap();
    let policy = f
        .resolve("filesystem: {denyWrite: [link, broken], denyRead: [link, broken, way/f]}")
        .unwrap();
    assert_eq!(
        policy.files.deny_write,
        ["work/real/f", "work/link", "work/way", "work/gone", "work/broken"]
            .map(|path| f.literal(path))
    );
    assert_eq!(
        policy.files.deny_read,
        ["work/real/f", "work/link", "work/gone", "work/broken"].map(|path| f.literal(path))
    );
}

#[test]
fn what_a_preset_denies_lies_where_each_path_leads_by_itself() {
    let f = Fixture::new();
    for directory in ["real/gh", "real/gcloud", "home/.local", "home/.ssh", "aws", "home/.M2"] {
        f.dir.directory(directory);
    }
    for file in ["home/.docker", "home/.netrc", "real/op", "home/.Kube"] {
        f.dir.file(file, "");
    }
    for (target, link) in [("../real", ".config"), ("../aws", ".aws"), ("gone", ".vault-token")] {
        symlink(target, f.dir.path("home").join(link)).unwrap();
    }
    let policy = f.resolve("extends: agent").unwrap();
    let Files { deny_write, deny_read, .. } = &policy.files;
    let mut written = read(presets::find("agent").unwrap(), Path::new("agent")).unwrap();
    let home = f.dir.path("home");
    let mut tried = 0;
    for (items, found) in [
        (std::mem::take(&mut written.deny_write), deny_write),
        (std::mem::take(&mut written.deny_read), deny_read),
    ] {
        let found: HashSet<_> = found.iter().collect();
        for Item { text, .. } in items {
            let Some(name) = text.strip_prefix("~/").filter(|name| !name.contains(['*', '[']))
            else {
                continue;
            };
            let path = locate(&home.join(name)).unwrap().path;
            assert!(found.contains(&Pattern::literal(&path)), "{text}: {}", path.display());
            tried += 1;
        }
    }
    assert!(tried > 400, "{tried}");
    let all = || deny_write.iter().chain(deny_read);
    let may_be_files: HashSet<_> = all().filter_map(Pattern::as_file).collect();
    for path in all().filter_map(Pattern::as_path).filter(|path| path.is_file()) {
        assert!(may_be_files.contains(&path), "{}", path.display());
    }
    assert!(may_be_files.contains(&f.dir.path("home/.netrc")));
    assert!(!may_be_files.contains(&f.dir.path("home/.ssh")));
    assert!(may_be_files.len() < 10, "{may_be_files:?}");
}

#[test]
fn deny_globs_stay_patterns_behind_a_canonical_prefix() {
    let f = Fixture::new();
    f.dir.directory("work/real");
    symlink("real", f.dir.path("work/way")).unwrap();
    let policy =
        f.resolve("filesystem: {denyWrite: ['way/*.key', '**/.env'], denyRead: ['way/**']}");
    let files = policy.unwrap().files;
    let glob = |text: &str| Component::parse(text.as_bytes()).unwrap();
    assert_eq!(
        files.deny_write,
        [
            Pattern::new(&f.dir.path("work/real"), vec![glob("*.key")]),
            f.literal("work/way"),
            Pattern::new(&f.dir.path("work"), vec![Component::AnyDepth, glob(".env")]),
        ]
    );
    assert_eq!(files.deny_read, [f.literal("work/real")]);
}

#[test]
fn allow_globs_become_what_they_match() {
    let f = Fixture::new();
    for file in ["work/a/x.log", "work/b/x.log", "work/b/y", "work/.h/x.log"] {
        f.dir.file(file, "");
    }
    assert_eq!(
        f.writable("['*/x.log']").unwrap(),
        ["work/.h/x.log", "work/a/x.log", "work/b/x.log"]
    );
    assert_eq!(f.writable("['**/y', 'b/*']").unwrap(), ["work/b/y", "work/b/x.log"]);
    assert_eq!(f.writable("['a/**']").unwrap(), ["work/a"]);
    let yaml = "filesystem: {allowWrite: ['*/none']}";
    assert!(f.resolve(yaml).unwrap().files.allow_write.is_empty());
    let warnings = f.remarks(yaml).join("\n");
    assert!(warnings.contains("'*/none' matches nothing"), "{warnings}");
}

#[test]
fn a_link_that_the_command_could_have_made_widens_nothing() {
    let f = Fixture::new();
    f.dir.directory("outside/d");
    f.dir.directory("work/build/inner");
    f.dir.directory("work/fixed");
    symlink("../outside/d", f.dir.path("work/out")).unwrap();
    symlink("build/inner", f.dir.path("work/in")).unwrap();
    symlink("../../outside/d", f.dir.path("work/build/planted")).unwrap();
    symlink("../../outside/d", f.dir.path("work/fixed/kept")).unwrap();

    // Where the command may write, a link out of it is refused and one within it changes nothing.
    let error = f.writable("[., out]").unwrap_err();
    assert!(error.message.contains("name ") && error.message.contains("outside/d"), "{error}");
    assert_eq!(f.writable("[., in]").unwrap(), ["work", "work/build/inner"]);
    assert_eq!(f.writable("[., out, ../outside]").unwrap(), ["work", "outside/d", "outside"]);
    // So is one that a run under a wider policy could have made, but not one that is denied.
    assert!(f.writable("[build, out]").unwrap_err().message.contains("outside/d"));
    let yaml = "filesystem: {allowWrite: [build, out], denyWrite: [out]}";
    assert!(f.resolve(yaml).is_ok());
    // Beside the work tree it is as good as any path.
    symlink("outside/d", f.dir.path("beside")).unwrap();
    assert_eq!(f.writable("[build, ../beside]").unwrap(), ["work/build", "outside/d"]);
    // A glob leaves it out and says so.
    let policy = f.resolve("filesystem: {allowWrite: [build, 'build/*', 'fixed/*']}").unwrap();
    let writable: Vec<_> = policy.files.allow_write.iter().map(|p| f.relative(p)).collect();
    assert_eq!(writable, ["work/build", "work/build/inner"]);
    let yaml = "filesystem: {allowWrite: [build, 'build/*']}";
    assert_eq!(f.resolve(yaml).unwrap().files.allow_write.len(), 2);
    let remarks = f.remarks(yaml);
    assert!(remarks.iter().any(|line| line.contains("left out")), "{remarks:?}");
    // A denied link is not the command's to make.
    let yaml = "filesystem: {allowWrite: [., out], denyWrite: [out]}";
    assert!(!Rules::new(&f.resolve(yaml).unwrap().files).access(&f.dir.path("work/out")).write);
    // Reads and sockets alike.
    let yaml = "filesystem: {allowWrite: [.], denyRead: [../outside], allowRead: [out]}";
    assert!(f.resolve(yaml).is_err());
    let yaml = "filesystem: {allowWrite: [build], denyRead: [../outside], allowRead: [out]}";
    assert!(f.resolve(yaml).is_err());
    let yaml = "filesystem: {allowWrite: [build], denyRead: [../outside], allowRead: [../beside]}";
    assert!(f.resolve(yaml).is_ok());
    let yaml = "{filesystem: {allowWrite: [.]}, network: {allowUnixSockets: [out/s]}}";
    assert!(f.resolve(yaml).is_err());
    let yaml = "{filesystem: {allowWrite: [.]}, network: {allowUnixSockets: [build/s]}}";
    assert!(f.resolve(yaml).is_ok());
}

#[test]
fn paths_of_the_process_cannot_be_denied_and_need_no_permission() {
    let f = Fixture::new();
    assert!(f.resolve("filesystem: {denyRead: [/proc/self/environ]}").is_err());
    let yaml = "filesystem: {allowWrite: [/dev/stdout]}";
    assert!(f.resolve(yaml).unwrap().files.allow_write.is_empty());
    assert_eq!(f.remarks(yaml).len(), 1);
}

#[test]
fn proxy_variables_give_defaults_that_the_policy_overrides() {
    let mut f = Fixture::new();
    f.variables.push(("HTTP_PROXY", "http://127.0.0.1:3128".to_owned()));
    f.variables.push(("socks_proxy", "socks5://proxy.example:1080".to_owned()));
    let network = f.resolve("{}").unwrap().network;
    assert_eq!(network.http_proxy_port, Some(3128));
    assert_eq!(network.socks_proxy_port, None);
    let urls: Vec<_> = network.callers.iter().map(|caller| caller.url.as_str()).collect();
    assert_eq!(urls, ["http://127.0.0.1:3128", "socks5://proxy.example:1080"]);
    let network = f.resolve("network: {httpProxyPort: 1, socksProxyPort: 2}").unwrap().network;
    assert_eq!((network.http_proxy_port, network.socks_proxy_port), (Some(1), Some(2)));
    f.variables.push(("SOCKS_PROXY", "nonsense:port".to_owned()));
    let policy = f.resolve("{}").unwrap();
    assert_eq!(policy.network.callers.socks, None);
    assert!(f.remarks("{}")[0].contains("SOCKS_PROXY ignored"));
}

#[test]
fn domains_are_checked_and_named_when_open_anyway() {
    let f = Fixture::new();
    let error = f.resolve("network:\n  deniedDomains: [a.com, 'http://b']\n").unwrap_err();
    assert_eq!(error.field.as_deref(), Some("network.deniedDomains[1]"));
    let yaml = "network: {allowNetwork: true, deniedDomains: ' a.com \n'}";
    assert_eq!(f.resolve(yaml).unwrap().network.denied_domains, ["a.com"]);
    assert!(f.remarks(yaml)[0].contains("has no effect"));
}

#[test]
fn without_a_policy_the_working_directory_is_all() {
    let mut f = Fixture::new();
    f.variables.push(("HTTP_PROXY", "http://127.0.0.1:3128".to_owned()));
    let mut remarks = Remarks::unwanted();
    let policy = super::policy(&Selection::default(), &f.caller(), &mut remarks).unwrap();
    let files = Files { allow_write: vec![f.dir.path("work")], ..Files::default() };
    let sources = f.caller().policy_trails().unwrap();
    assert_eq!(policy, Policy { built_in: true, files, sources, ..Policy::default() });
}

#[test]
fn implicit_denials_join_the_written_ones() {
    let mut files = Files { allow_write: vec!["/w".into()], ..Files::default() };
    for _ in 0..2 {
        push_new(&mut files.deny_write, Pattern::literal(Path::new("/w/policy.json")));
        push_new(&mut files.deny_read, Pattern::literal(Path::new("/w/key")));
    }
    assert_eq!((files.deny_write.len(), files.deny_read.len()), (1, 1));
    let rules = Rules::new(&files);
    assert!(!rules.access(Path::new("/w/policy.json")).write);
    assert!(!rules.access(Path::new("/w/key")).read);
    assert!(rules.access(Path::new("/w/other")).write);
}

/// A repository with a linked work tree `w`, as a command can make one, and what is tried there.
fn with_linked_tree(repository: &str) -> Fixture {
    let f = Fixture::new();
    f.dir.file("work/.git/HEAD", "ref: refs/heads/main\n");
    f.dir.directory("work/.git/refs");
    let back = f.dir.path("work/w/.git").display().to_string();
    f.dir.file("work/.git/worktrees/w/gitdir", &back);
    f.dir.file("work/w/.git", repository);
    f
}

fn may_write(policy: &Policy, path: &Path) -> bool {
    Rules::new(&policy.files).access(path).write
}

#[test]
fn what_is_allowed_may_be_made_though_a_preset_protects_it_as_a_work_tree() {
    let f = Fixture::new();
    let policy = "{extends: agent, filesystem: {allowWrite: [dist, build/out, ./notes.txt, objects/.git/objects, objects, ~/a/b, ~/a]}}";
    let policy = f.resolve(policy).unwrap();
    for (path, expected) in [
        ("work/dist", true),
        ("work/build", true),
        ("work/build/out/x", true),
        ("work/notes.txt", true),
        ("home/a/b", true),
        ("work/dist/.git/config", false),
        // Nor because something in it is allowed.
        ("work/objects/.git", false),
        // As a file it would lead to other settings.
        ("work/dist/.git", false),
        ("work/.git", false),
    ] {
        assert_eq!(may_write(&policy, &f.dir.path(path)), expected, "{path}");
    }
}

#[test]
fn what_leads_to_more_than_is_looked_at_starts_nothing() {
    let f = with_linked_tree("gitdir: ../ev\n");
    f.dir.file("work/ev/HEAD", "ref: refs/heads/main\n");
    f.dir.directory("work/ev/refs");
    f.dir.file("home/.gitconfig", "[core]hooksPath = tools/hooks\n");
    let includes = |count: usize| -> String {
        let include = |number| {
            f.dir.file(&format!("work/t/{number}"), "#");
            format!("[include]path=../t/{number}\n")
        };
        (0..count).map(include).collect()
    };
    let hook = f.dir.path("work/tools/hooks/pre-commit");
    f.dir.file("work/ev/config", &includes(200));
    assert!(!may_write(&f.resolve("extends: agent").unwrap(), &hook));
    f.dir.file("work/ev/config", &includes(1100));
    let error = f.resolve("extends: agent").unwrap_err();
    assert!(error.file.is_some_and(|file| file.starts_with(f.dir.path("work"))));
    assert!(error.message.contains("is more than is looked through"), "{}", error.message);
    f.dir.file(
        "work/ev/config",
        &(0..20_000).map(|name| format!("[core]hooksPath = {name}\n")).collect::<String>(),
    );
    let error = f.resolve("extends: agent").unwrap_err();
    assert_eq!(error.file, Some(f.dir.path("work/ev/config")));
    f.dir.file("work/ev/config", "");
    f.dir.directory("work/ev/modules");
    for number in 0..1100 {
        symlink("../../t", f.dir.path(format!("work/ev/modules/{number}"))).unwrap();
    }
    let error = f.resolve("extends: agent").unwrap_err();
    assert_eq!(error.file, Some(f.dir.path("work/ev")));
}

#[test]
fn submodules_that_were_taken_out_of_the_index_stay_protected() {
    let f = Fixture::new();
    f.dir.file("work/.git/HEAD", "ref: refs/heads/main\n");
    f.dir.directory("work/.git/refs");
    f.dir.file("work/.gitmodules", "[submodule \"s\"]\n\tpath = deep/sub\n\turl = ./sub\n");
    f.dir.file("work/deep/sub/.git/config", "");
    f.dir.file("work/deep/other/.git/config", "");
    let policy = f.resolve("extends: agent").unwrap();
    for (path, expected) in [
        ("work/deep/sub/.git/config", false),
        ("work/deep/sub/file", true),
        ("work/deep/other/.git/config", true),
    ] {
        assert_eq!(may_write(&policy, &f.dir.path(path)), expected, "{path}");
    }
    // Of too many each can be one.
    let name = |number| format!("[submodule \"{number}\"]\n\tpath = s{number}\n");
    f.dir.file("work/.gitmodules", &(0..1100).map(name).collect::<String>());
    let policy = f.resolve("extends: agent").unwrap();
    assert!(!may_write(&policy, &f.dir.path("work/deep/sub/.git/config")));
}

#[test]
fn nothing_that_a_linked_tree_names_takes_all_away_that_is_allowed() {
    let f = with_linked_tree("");
    symlink("../..", f.dir.path("work/w/.cursor")).unwrap();
    f.dir.file("work/w/.envrc", "export XDG_CONFIG_HOME=..\n");
    let written = || f.resolve("extends: agent").unwrap();
    assert!(may_write(&written(), &f.dir.path("work/src/x")));
    assert!(!may_write(&written(), &f.dir.path("work/w/.cursor")));
    std::fs::remove_file(f.dir.path("work/w/.git")).unwrap();
    f.dir.directory("work/w/.git/refs");
    f.dir.file("work/w/.git/HEAD", "ref: refs/heads/main\n");
    f.dir.file("work/w/.git/config", "[include]path=../../\n[core]hooksPath=/\n");
    assert!(may_write(&written(), &f.dir.path("work/src/x")));
    // What lies in another allowed path is denied all the same, also if it is one itself.
    f.dir.directory("work/vs");
    symlink("vs", f.dir.path("work/.vscode")).unwrap();
    f.dir.file("work/tools/watch", "");
    f.dir.file("work/.git/config", "[core]fsmonitor = tools/watch\n");
    let own = "{extends: agent, filesystem: {allowWrite: ['*', .vscode/settings.json]}}";
    for path in ["vs/tasks.json", "tools/watch", ".vscode"] {
        assert!(!may_write(&f.resolve(own).unwrap(), &f.dir.path("work").join(path)), "{path}");
    }
    symlink("../work", f.dir.path("home/bin")).unwrap();
    assert!(!may_write(&written(), &f.dir.path("work/src/x")));
    std::fs::remove_file(f.dir.path("home/bin")).unwrap();
    // What git would run in the directory of hooks is still denied.
    f.dir.file("work/w/.git/config", "[core]hooksPath=..\n");
    assert!(!may_write(&written(), &f.dir.path("work/pre-commit")));
}

//! A policy to begin with, for the work tree that `--init` finds. It looks at names and reads no file.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fmt::Write;
use std::path::Path;

/// A kind of project, by the files that show it, with the hosts that its packages come from.
struct Ecosystem {
    name: &'static str,
    shown_by: &'static [&'static str],
    hosts: &'static [&'static str],
}

static ECOSYSTEMS: [Ecosystem; 5] = [
    Ecosystem {
        name: "Rust",
        shown_by: &["Cargo.toml"],
        hosts: &["index.crates.io:443", "static.crates.io:443"],
    },
    Ecosystem {
        name: "Node",
        shown_by: &["package.json"],
        hosts: &["registry.npmjs.org:443", "registry.yarnpkg.com:443"],
    },
    Ecosystem {
        name: "Python",
        shown_by: &["Pipfile", "pyproject.toml", "requirements.txt", "setup.py", "uv.lock"],
        hosts: &["files.pythonhosted.org:443", "pypi.org:443"],
    },
    Ecosystem {
        name: "Go",
        shown_by: &["go.mod", "go.work"],
        hosts: &["proxy.golang.org:443", "sum.golang.org:443"],
    },
    Ecosystem {
        name: "JVM",
        shown_by: &[
            "build.gradle",
            "build.gradle.kts",
            "pom.xml",
            "settings.gradle",
            "settings.gradle.kts",
        ],
        hosts: &[
            "plugins.gradle.org:443",
            "repo.maven.apache.org:443",
            "repo1.maven.org:443",
            "services.gradle.org:443",
        ],
    },
];

/// How many entries of the work tree are looked at.
const ENTRIES_MAX: usize = 10_000;

/// A policy in YAML for the work tree at `directory`: what lies in it, and in the directories in it.
pub fn policy_for(directory: &Path) -> String {
    let mut names = HashSet::new();
    for (name, is_directory) in entries(directory) {
        let is_hidden = name.as_encoded_bytes().starts_with(b".");
        if is_directory && !is_hidden && name != "node_modules" {
            names.extend(entries(&directory.join(&name)).map(|(name, _)| name));
        }
        names.insert(name);
    }
    text(&|name| names.contains(Path::new(name).as_os_str()))
}

/// The names in a directory, and whether each is one of a directory; nothing of what cannot be read.
fn entries(directory: &Path) -> impl Iterator<Item = (OsString, bool)> {
    let entries = directory.read_dir().into_iter().flatten().flatten().take(ENTRIES_MAX);
    entries.map(|entry| (entry.file_name(), entry.file_type().is_ok_and(|kind| kind.is_dir())))
}

fn text(has: &dyn Fn(&str) -> bool) -> String {
    let found: Vec<&Ecosystem> =
        ECOSYSTEMS.iter().filter(|kind| kind.shown_by.iter().any(|name| has(name))).collect();
    let names: Vec<_> = found.iter().map(|kind| kind.name).collect();
    let of = if names.is_empty() { String::new() } else { format!(" of {}", names.join(", ")) };
    let mut text = format!(
        "# A policy for landstrip, for a work tree{of}. Keep it outside of what it makes writable,\n\
         # such as in ~/.config/landstrip; see landstrip-policy(5). To try it:\n\
         #   landstrip -p FILE --check\n\
         #   landstrip -p FILE -- COMMAND\n\
         \n\
         # The work tree and the caches of package managers are writable, except for files that would later\n\
         # run outside the sandbox; keys and tokens are not readable. For commands that you trust: build.\n\
         extends: agent\n\
         \n\
         filesystem:\n  \
         # What else may be written, with everything beneath.\n  \
         # allowWrite: [../other]\n  \
         # Forbids repositories further down, whose settings git at the top can run; see SECURITY.md.\n  \
         # denyWrite: ['*/**/.git']\n  \
         # What else may not be read. Inside the work tree, this slows down all reading.\n"
    );
    let secrets: Vec<_> =
        [".env", ".env.local", "secrets"].into_iter().filter(|name| has(name)).collect();
    let secrets = if secrets.is_empty() { "~/Documents".to_owned() } else { secrets.join(", ") };
    // Writing to a String does not fail.
    let _ = writeln!(text, "  # denyRead: [{secrets}]\n\nnetwork:");
    text.push_str("  # The hosts that may be reached. Without any there is no network.\n");
    match found.is_empty() {
        true => text.push_str("  # allowedDomains: [example.com:443]\n"),
        false => text.push_str("  allowedDomains:\n"),
    }
    for kind in found {
        let _ = writeln!(text, "    # {}", kind.name);
        kind.hosts.iter().for_each(|host| {
            let _ = writeln!(text, "    - {host}");
        });
    }
    text.push_str("\n# environment:\n#   set: {CI: 'true'}\n");
    text
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use kernel::test_directory::TestDirectory;
    use policy::document::Format;
    use policy::parse::parse;
    use policy::{domains, keys::Written};

    fn written(directory: &Path) -> Written {
        parse(policy_for(directory).as_bytes(), Format::Yaml, Path::new("/p")).unwrap()
    }

    #[test]
    fn each_kind_of_work_tree_gets_its_hosts() {
        for kind in &ECOSYSTEMS {
            for place in [".", "part"] {
                let dir = TestDirectory::new();
                dir.file(&format!("{place}/{}", kind.shown_by[0]), "");
                let policy = written(&dir.path("."));
                let hosts: Vec<_> = policy.allowed_domains.iter().map(|i| &*i.text).collect();
                assert_eq!(hosts, kind.hosts, "{}", kind.name);
                assert_eq!(policy.extends[0].text, "agent");
            }
            assert!(kind.hosts.iter().all(|host| domains::check(host).is_ok()), "{}", kind.name);
        }
    }

    #[test]
    fn what_is_mixed_gets_all_and_what_is_unknown_none() {
        let dir = TestDirectory::new();
        dir.file("node_modules/x/setup.py", "");
        dir.file("node_modules/go.mod", "");
        dir.file("deep/er/pom.xml", "");
        assert!(written(&dir.path(".")).allowed_domains.is_empty());
        assert!(written(Path::new("/nonexistent")).allowed_domains.is_empty());
        dir.file("Cargo.toml", "");
        dir.file("web/package.json", "");
        dir.file(".env", "");
        let text = policy_for(&dir.path("."));
        assert!(text.contains("of Rust, Node.") && text.contains("# denyRead: [.env]"), "{text}");
        assert_eq!(written(&dir.path(".")).allowed_domains.len(), 4);
    }

    #[test]
    fn what_is_commented_out_is_valid_too() {
        let text = policy_for(Path::new("/nonexistent"));
        let active = text.lines().map(|line| match line.trim_start().strip_prefix("# ") {
            Some(rest) if rest.ends_with([']', '}']) || rest == "environment:" => {
                line.replacen("# ", "", 1)
            }
            _ => line.to_owned(),
        });
        let active = active.collect::<Vec<_>>().join("\n").replace("#   set", "  set");
        let policy = parse(active.as_bytes(), Format::Yaml, Path::new("/p")).unwrap();
        let counts =
            [policy.allow_write.len(), policy.deny_read.len(), policy.allowed_domains.len()];
        assert_eq!((counts, policy.environment_set.len()), ([1, 1, 1], 1), "{active}");
    }
}

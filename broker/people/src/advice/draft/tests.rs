use super::*;
use rules::pattern::Pattern;
use rules::policy::Network;

/// The draft for `needs`, each with a program.
fn draft(needs: &[(Need, &str)], extends: &[&str]) -> Draft {
    let literal = |path: &str| Pattern::literal(Path::new(path));
    let files = Files {
        deny_write: vec![literal("/work/.env"), literal("/home/u/.config/landstrip/policy.yaml")],
        deny_read: vec![literal("/home/u/.ssh"), literal("/home/u/.local")],
        allow_read: vec!["/home/u/.local/share/app".into()],
        ..Files::default()
    };
    let grounds = Grounds {
        home: Some(Path::new("/home/u")),
        work: Path::new("/work"),
        temporary: Path::new("/tmp"),
        settings: &[],
        log: Some(Path::new("/dev/log")),
        files: &files,
        missing: &["/home/u/.made".into()],
        removed: Some(&BTreeSet::new()),
        written: (1, 2),
        network: &Network::default(),
        origins: &policy::origins::Origins::default(),
    };
    let mut lessons = Lessons::default();
    for (need, program) in needs {
        lessons.needs.entry(need.clone()).or_default().insert((*program).to_owned());
    }
    let extends = extends.iter().map(|name| (*name).to_owned()).collect();
    let base = Base { extends, tool: b"/usr/bin/tool".to_vec() };
    Draft::of(lessons, base, &grounds)
}

fn write(path: &str) -> Need {
    Need::Write(path.into())
}

/// The lines without the first, which is a comment.
fn yaml(needs: &[(Need, &str)]) -> String {
    let text = draft(needs, &["agent"]).text(Format::Yaml).unwrap();
    let (head, rest) = text.split_once('\n').unwrap();
    assert!(head.starts_with("# What tool needed, as landstrip --learn saw it."), "{head}");
    assert!(rest.contains("extends: [\"agent\"]\n"), "{rest}");
    rest.replace("extends: [\"agent\"]\n", "")
}

#[test]
fn what_belongs_together_is_one_entry_with_those_who_asked() {
    let text = yaml(&[
        (write("/home/u/.cargo/registry/index/a"), "cargo"),
        (write("/home/u/.cargo/registry/src/b"), "cargo"),
        (write("/home/u/.cargo/registry/src/b"), "rustc"),
        (write("/home/u/.cargo/.package-cache"), "cargo"),
        (write("/home/u/.cargo/.global-cache"), "cargo"),
        (write("/home/u/.cargo/.package-cache-mutate"), "cargo"),
        (Need::Host("index.crates.io:443".to_owned()), "cargo"),
        (Need::Host("10.1.2.3:8080".to_owned()), "curl"),
        (Need::PrivateHost("index.crates.io:443".to_owned()), "cargo"),
        (Need::Server, "node"),
        (Need::Socket("/run/user/1/bus".into()), "gio"),
        (Need::Socket("/run/docker.sock".into()), "docker"),
        (Need::Socket("/run/postgresql/.s.PGSQL.5432".into()), "psql"),
        (Need::Socket("/dev/log".into()), "logger"),
    ]);
    let expected = r#"# Left out, as not known to be harmless: "/run/docker.sock", "/run/postgresql/.s.PGSQL.5432", "/run/user/1/bus"
filesystem:
  allowWrite:
    - "~/.cargo/.global-cache"  # cargo
    - "~/.cargo/.package-cache"  # cargo
    - "~/.cargo/.package-cache-mutate"  # cargo
    - "~/.cargo/registry"  # cargo, rustc
network:
  allowedDomains:
    - "10.1.2.3:8080"  # curl
    - "index.crates.io"  # cargo
  privateDomains:
    - "index.crates.io"  # cargo
  allowUnixSockets:
    - "/dev/log"  # logger
  allowLocalBinding: true  # node
"#;
    assert_eq!(text, expected);
}

#[test]
fn the_whole_home_a_denied_path_and_names_that_pass_are_never_in_it() {
    for (paths, expected) in [
        (&["/home/u"][..], "# Left out, as not known to be harmless: \"/home/u\"\n"),
        (&["/"], "# Left out, as not known to be harmless: \"/\"\n"),
        (
            &["/home/u/.local/share/app/x"],
            "# Left out, as not known to be harmless: \"/home/u/.local/share/app/x\"\n",
        ),
        (
            &["/home/u/.vim/x", "/tmp/x"],
            "# Left out, as not known to be harmless: \"/home/u/.vim/x\", \"/tmp/x\"\n",
        ),
        (&["/etc/cron.d/x"], "# Left out, as not known to be harmless: \"/etc/cron.d/x\"\n"),
        // Made on the way, or beneath what is allowed.
        (&["/home/u/.m2", "/home/u/.m2/repository/a/b"], "    - \"~/.m2/repository\"  # a\n"),
        (&["/home/u/.npm", "/home/u/.npm/_logs/x"], "    - \"~/.npm\"  # a\n"),
        (&["/work/node_modules/.bin/x", "/work/node_modules/y"], "    - \"./node_modules\"  # a\n"),
    ] {
        let needs: Vec<_> = paths.iter().map(|path| (write(path), "a")).collect();
        let text = yaml(&needs);
        let lines: Vec<_> = text.lines().filter(|line| !line.ends_with(':')).collect();
        assert_eq!(lines.join("\n") + "\n", expected);
    }
}

#[test]
fn a_name_writes_nothing_but_itself() {
    for name in [
        "x\n    - \"/etc\"",
        "x\"\n  denyRead: []\n#",
        "x # y",
        "*",
        "[a-z]?{b,c}",
        "\\",
        "$HOME",
        "~",
        ":~",
        "- a: b",
        "'",
        "\t\r\u{85}\u{2028}\u{feff}\u{202e}\u{1f600}\u{7f}\u{1}",
        " ",
    ] {
        let path = format!("/work/{name}");
        let needs = [(write(&path), "a"), (Need::Socket(path.into()), "b")];
        for format in [Format::Yaml, Format::Json] {
            let text = draft(&needs, &["agent"]).text(format).unwrap();
            let read = parse(text.as_bytes(), format, Path::new("x")).unwrap();
            assert_eq!([read.allow_write.len(), read.allow_unix_sockets.len()], [1, 0], "{text}");
            assert!(read.deny_read.is_empty(), "{text}");
            assert!(format == Format::Json || text.lines().count() == 5, "{text}");
            assert!(!text.contains(['\u{202e}', '\u{feff}']), "{text}");
        }
    }
    // What no text can hold.
    use std::os::unix::ffi::OsStringExt;
    let odd = PathBuf::from(std::ffi::OsString::from_vec(b"/work/\xff".to_vec()));
    let text = draft(&[(Need::Write(odd.clone()), "a"), (Need::Socket(odd), "a")], &["agent"]);
    let text = text.text(Format::Yaml).unwrap();
    assert!(!text.contains("allowUnixSockets"), "{text}");
}

#[test]
fn past_the_proxy_goes_only_what_has_the_network_as_a_whole() {
    let needs = [
        (Need::Address("192.0.2.1:5432".to_owned()), "psql"),
        (Need::Host("a.test:443".to_owned()), "curl"),
        (Need::Server, "node"),
    ];
    // Which Unix sockets of the command's own need as well.
    let expected = "network:\n  allowNetwork: true  # past the proxy: psql to 192.0.2.1:5432\n  \
                    allowLocalBinding: true  # node\n";
    assert_eq!(yaml(&needs), expected);
    let json = draft(&needs, &[]).text(Format::Json).unwrap();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        json,
        serde_json::json!({
            "filesystem": { "allowWrite": ["."] },
            "network": { "allowNetwork": true, "allowLocalBinding": true }
        })
    );
}

#[test]
fn without_a_policy_it_says_what_holds_then() {
    let text = draft(&[], &[]).text(Format::Yaml).unwrap();
    assert!(text.ends_with("filesystem:\n  allowWrite:\n    - \".\"\n"), "{text}");
    let lessons = Lessons { forgotten: 7, ..Lessons::default() };
    let draft = Draft { forgotten: lessons.forgotten, ..draft(&[], &[]) };
    assert!(draft.text(Format::Yaml).unwrap().contains("\n# It is not all: 7 more were seen.\n"));
}

#[test]
fn no_metadata_service_and_no_odd_name_is_in_it() {
    let needs = [
        (Need::Host("169.254.169.254:80".to_owned()), "curl"),
        (Need::Host("*.com:443".to_owned()), "curl"),
        (Need::Host("good.example:443".to_owned()), "curl"),
        (Need::Address("169.254.169.254:80".to_owned()), "curl"),
    ];
    let expected = "# Left out, as not known to be harmless: \"*.com:443\", \"169.254.169.254:80\"\nnetwork:\n  \
                    allowedDomains:\n    - \"good.example\"  # curl\n";
    assert_eq!(yaml(&needs), expected);
}

use super::*;
use rules::pattern::{Component, Pattern};
use std::collections::BTreeSet;

const SERVER: &str = "not suggested, as the server there may run commands or hold keys (run it outside, or give it a server inside): ";

/// The line about `denials`, without its beginning and end.
fn said(denials: &[Denial]) -> String {
    let literal = |path: &str| Pattern::literal(Path::new(path));
    let glob = Pattern::new(
        Path::new("/work"),
        vec![Component::AnyDepth, Component::parse(b"*.key").unwrap()],
    );
    let files = Files {
        allow_write: vec!["/work/src".into()],
        // The last ones protect a policy and landstrip.
        deny_write: vec![
            literal("/work/.env"),
            glob,
            literal("/work/.git/config"),
            literal("/work/.git/hooks"),
            literal("/home/u/.config/landstrip/policy.json"),
            literal("/opt/landstrip/bin/landstrip"),
            literal("/proc"),
        ],
        deny_read: vec![literal("/home/u/.ssh")],
        ..Files::default()
    };
    let network = Network {
        allowed_domains: vec![
            "good.example".to_owned(),
            "127.0.0.1:5432".to_owned(),
            "[2001:db8::2]".to_owned(),
        ],
        denied_domains: vec!["*.evil.example".to_owned(), "[2001:db8::3]".to_owned()],
        allow_unix_sockets: vec!["/run/listed.sock".into()],
        ..Network::default()
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
        written: (4, 1),
        network: &network,
        origins: &policy::origins::Origins::default(),
    };
    let line = remedies(&denials.iter().collect::<Vec<_>>(), &grounds).line.unwrap_or_default();
    assert!(line.is_empty() || (line.ends_with('\n') && line.lines().count() == 1));
    line.strip_prefix("landstrip: ").unwrap_or(&line).trim_end().to_owned()
}

fn writes(paths: &[&str]) -> Vec<Denial> {
    paths.iter().map(|path| Denial::file(FileOperation::Write, Path::new(path))).collect()
}

#[test]
fn writes_are_grouped_by_the_directory_that_belongs_together() {
    for (paths, expected) in [
        (&["/home/u/.npm/_cacache/a", "/home/u/.npm/_logs/b"][..], r#"["~/.npm"]"#),
        (
            &["/home/u/.cargo/registry/index/a", "/home/u/.cargo/registry/b"],
            r#"["~/.cargo/registry"]"#,
        ),
        (&["/home/u/.cache/pip/a", "/home/u/.cache/uv/b"], r#"["~/.cache/pip", "~/.cache/uv"]"#),
        (
            &[
                "/home/u/.cache/pip/1/x",
                "/home/u/.cache/pip/2/x",
                "/home/u/.cache/uv/3/x",
                "/home/u/.cache/yarn/4/x",
                "/home/u/.cache/go-build/x",
            ],
            r#"["~/.cache/pip", "~/.cache/uv", "~/.cache/yarn", "~/.cache/go-build"]"#,
        ),
        (
            &["/home/u/notes.db"],
            r#"["~/notes.db-journal", "~/notes.db-wal", "~/notes.db-shm", "~/notes.db"]"#,
        ),
        // On the way to caches.
        (&["/home/u/.yarn"], r#"["~/.yarn/berry/cache", "~/.yarn/cache"]"#),
        // Nothing around it, which could have settings.
        (&["/home/u/src/other/target/debug/x"], r#"["~/src/other/target/debug/x"]"#),
        (&["/work/target/debug/x", "/work/target/debug/y"], r#"["./target"]"#),
        (&["/work/a", "/work/b", "/work/c", "/work/d/e"], r#"["./a", "./b", "./c", "./d"]"#),
        (&["/work/a/b", "/work/a/c", "/work/a/d", "/work/a/e", "/work/f"], r#"["./a", "./f"]"#),
        (&["/home/u/odd\"\u{1b}name"], r#"["~/odd\"\u001bname"]"#),
        // As it is called, whatever a policy makes of such characters.
        (&["/home/u/*[a]?{b,c}\\/x"], r#"["~/\\*\\[a]\\?\\{b,c}\\\\/x"]"#),
        (&["/work/:~/x"], r#"["./:\\~"]"#),
    ] {
        assert_eq!(
            said(&writes(paths)),
            format!("to allow this: filesystem.allowWrite += {expected}")
        );
    }
}

#[test]
fn nothing_is_suggested_that_opens_too_much() {
    for (path, expected) in [
        ("/proc/sys/kernel/core_pattern", "denied by: landstrip, which protects"),
        ("/sys/x", ""),
        ("/dev/sda", ""),
        // Written already, and refused all the same: it was removed or replaced.
        ("/work/src", r#"not suggested, as it opens too much: filesystem.allowWrite += ["."]"#),
        // As it is called otherwise each time, and the working directory itself.
        ("/work/a.tmp.1", r#"not suggested, as it opens too much: filesystem.allowWrite += ["."]"#),
        ("/work", r#"not suggested, as it opens too much: filesystem.allowWrite += ["."]"#),
        ("/home/u/.made", "allowed, but where a path was missing no symbolic link can be created"),
        ("/home/u/.config/landstrip/policy.json", "denied by: landstrip, which protects"),
        ("/opt/landstrip/bin/landstrip", "denied by: landstrip, which protects"),
    ] {
        let said = said(&writes(&[path]));
        assert!(said.starts_with(expected) && said.is_empty() == expected.is_empty(), "{said}");
    }
    for name in [
        "tool.json.tmp.8123",
        "note.kWy9Oe",
        "sedcVHKwo",
        "XXxWjtd5",
        "tmppk0y5yr3",
        "tmpa1b2c3",
        "ziZlquq4",
        "CuVnQ2xZ",
        "6S9Cdh",
        "x.ini.lock",
        "x.oMEZ1vN",
        "known_hosts.9UNBBncNOp",
        "tmp_objdir-incoming-Pw3eQt",
    ] {
        assert_eq!(
            said(&writes(&[&format!("/home/u/{name}")])),
            format!(
                r#"not suggested, as it opens too much: filesystem.allowWrite += ["~"] for ["~/{name}"]"#
            )
        );
    }
    for name in [
        "sedentary",
        "tmpfolder",
        "XXlarge",
        "note.abcdef",
        "template",
        "zigzag",
        "a.original",
        "myFile",
        "web2py",
        "log4j2",
        "Cargo.lock",
    ] {
        let expected = format!(r#"to allow this: filesystem.allowWrite += ["~/{name}"]"#);
        assert_eq!(said(&writes(&[&format!("/home/u/{name}")])), expected);
    }
    for (paths, expected) in [
        (&["/home/u/a", "/home/u/b", "/home/u/c", "/home/u/d"], r#"["~/a", "~/b", "~/c", "~/d"]"#),
        (
            &["/home/u/x/a", "/home/u/x/b", "/home/u/x/c", "/home/u/x/d"],
            r#"["~/x/a", "~/x/b", "~/x/c", "~/x/d"]"#,
        ),
    ] {
        assert_eq!(
            said(&writes(paths)),
            format!("to allow this: filesystem.allowWrite += {expected}")
        );
    }
}

#[test]
fn what_is_not_known_to_be_harmless_is_not_suggested() {
    const OUTSIDE: &str =
        "not suggested, as programs outside may run or obey what is there (run it outside): ";
    const TEMPORARY: &str =
        "not suggested, as all programs keep temporary files there (write to $TMPDIR): ";
    for (paths, begin, values) in [
        (&["/etc/ld.so.preload"][..], OUTSIDE, r#"["/etc/ld.so.preload"]"#),
        (&["/home/u/.vim/x", "/home/u/.cargo/bin/y"], OUTSIDE, r#"["~/.vim/x", "~/.cargo/bin/y"]"#),
        (
            &[
                "/home/u/.config/a/x",
                "/home/u/.config/a/y",
                "/home/u/.config/a/z",
                "/home/u/.config/a/w",
            ],
            OUTSIDE,
            r#"["~/.config/a"]"#,
        ),
        (&["/home/u/.gitconfig.lock"], OUTSIDE, r#"["~/.gitconfig.lock"]"#),
        (&["/new"], OUTSIDE, r#"["/new"]"#),
        (
            &["/home/u"],
            OUTSIDE,
            r#"["~"]; for a tool that needs a home that it may write: HOME=$TMPDIR; for a tool that checks first whether it may create an allowed directory in there: create that outside first (mkdir -p)"#,
        ),
        (&["/home/u/.cpanm"], OUTSIDE, r#"["~/.cpanm"]; for cpanm: PERL_CPANM_HOME=$TMPDIR/cpanm"#),
        (
            &["/home/u/.cache/nim"],
            OUTSIDE,
            r#"["~/.cache/nim"]; for Nim: nim c --nimcache:$TMPDIR/nim"#,
        ),
        (
            &["/home/u/.cache/bazel"],
            OUTSIDE,
            r#"["~/.cache/bazel"]; for Bazel: bazel --output_user_root=$TMPDIR/bazel"#,
        ),
        (&["/opt/landstrip/bin/other"], OUTSIDE, r#"["/opt/landstrip/bin/other"]"#),
        (&["/tmp/x", "/var/tmp/y"], TEMPORARY, r#"["/tmp/x", "/var/tmp/y"]"#),
    ] {
        assert_eq!(said(&writes(paths)), format!("{begin}{values}"));
    }
    // What is beneath a place that is allowed needs no word.
    assert_eq!(
        said(&writes(&["/work/node_modules/.bin/x", "/work/node_modules/y"])),
        r#"to allow this: filesystem.allowWrite += ["./node_modules"]"#
    );
    let tmux = "for a tmux of its own, with network.allowLocalBinding = true: TMUX_TMPDIR=$TMPDIR tmux -L NAME";
    assert_eq!(said(&writes(&["/tmp/tmux-7"])), format!(r#"{TEMPORARY}["/tmp/tmux-7"]; {tmux}"#));
    let screen = "for a screen of its own, with network.allowLocalBinding = true: mkdir -pm 700 $TMPDIR/s; SCREENDIR=$TMPDIR/s screen";
    assert_eq!(
        said(&writes(&["/run/screen/S-u"])),
        format!(r#"{OUTSIDE}["/run/screen/S-u"]; {screen}"#)
    );
    let connect = |path: &str| Denial::Network(NetworkOperation::Connect, path.into());
    for (path, more) in [
        ("/run/docker.sock", String::new()),
        ("/run/user/7/bus", String::new()),
        ("/run/postgresql/.s.PGSQL.5432", String::new()),
        ("/work/private", String::new()),
        ("/tmp/tmux-7/default", format!("; {tmux}")),
    ] {
        assert_eq!(said(&[connect(path)]), format!(r#"{SERVER}["{path}"]{more}"#));
    }
}

#[test]
fn what_a_rule_denies_is_told_by_the_rule() {
    let read = |path: &str| Denial::file(FileOperation::Read, Path::new(path));
    for (denials, expected) in [
        (writes(&["/work/.env"]), r#"denied by: filesystem.denyWrite ["./.env"]"#),
        (
            writes(&["unknown (the process has a sandbox, user or label of its own)"]),
            "refused to a process with a sandbox, user or label of its own: run the tool without its own sandbox, as \
             this one replaces it",
        ),
        (
            writes(&["/work/a/b.key", "/work/c.key"]),
            r#"denied by: filesystem.denyWrite ["./**/*.key"]"#,
        ),
        (writes(&["/home/u/.ssh/config"]), r#"denied by: filesystem.denyRead ["~/.ssh"]"#),
        (
            vec![read("/home/u/.ssh/id"), read("/home/u/.ssh/config")],
            r#"denied by: filesystem.denyRead ["~/.ssh"]"#,
        ),
        (vec![read("/dev/sda")], ""),
        (
            writes(&["/work/.git/config"]),
            r#"denied by: filesystem.denyWrite ["./.git/config"]; a command that changes git's settings: run it outside"#,
        ),
        (
            writes(&["/work/.git/hooks/pre-commit"]),
            r#"denied by: filesystem.denyWrite ["./.git/hooks"]"#,
        ),
        (
            vec![Denial::Domain(b"x.evil.example:443".to_vec())],
            r#"denied by: network.deniedDomains ["*.evil.example"]"#,
        ),
    ] {
        assert_eq!(said(&denials), expected);
    }
}

#[test]
fn sockets_have_the_key_that_is_for_them() {
    use NetworkOperation::{Bind, Connect};
    for (operation, target, expected) in [
        (Connect, "/dev/log", r#"network.allowUnixSockets += ["/dev/log"]"#),
        (
            Connect,
            "unix datagram protocol 0",
            r#"network.allowLocalBinding = true, network.allowUnixSockets += ["/dev/log"]"#,
        ),
        (Bind, "/work/socket", "network.allowLocalBinding = true"),
        (Bind, "127.0.0.1:8080", "network.allowLocalBinding = true"),
        (Bind, "[::]:0", "network.allowLocalBinding = true"),
        (Connect, "/run/listed.sock", ""),
    ] {
        let line = said(&[Denial::Network(operation, target.as_bytes().to_vec())]);
        let expected =
            if expected.is_empty() { String::new() } else { format!("to allow this: {expected}") };
        assert_eq!(line, expected, "{target}");
    }
    let expected = r#"name servers cannot be reached (landstrip resolves the names in network.allowedDomains itself): ["192.0.2.53:53"]"#;
    assert_eq!(said(&[Denial::Network(Connect, b"192.0.2.53:53".to_vec())]), expected);
    let datagram = |target: &str| Denial::Datagram(target.as_bytes().to_vec());
    let network = |operation, target: &str| Denial::Network(operation, target.as_bytes().to_vec());
    for (denial, key, target) in [
        (datagram("192.0.2.1:123"), "network.allowNetwork = true", "192.0.2.1:123"),
        (network(Bind, "192.0.2.1:80"), "network.allowNetwork = true", "192.0.2.1:80"),
        (
            network(Connect, "inet raw protocol 1"),
            "network.allowNetwork = true",
            "inet raw protocol 1",
        ),
        (
            network(Connect, "option IP_ADD_MEMBERSHIP"),
            "network.allowNetwork = true",
            "option IP_ADD_MEMBERSHIP",
        ),
    ] {
        assert_eq!(
            said(&[denial]),
            format!("not suggested, as it opens too much: {key} for [\"{target}\"]")
        );
    }
}

#[test]
fn abstract_sockets_have_one_with_a_path_instead() {
    for operation in [NetworkOperation::Bind, NetworkOperation::Connect] {
        let line = said(&[Denial::Network(operation, b"@name".to_vec())]);
        let expected = "use one with a path, such as in $TMPDIR";
        assert_eq!(line, format!("no policy allows abstract Unix sockets: {expected}"));
    }
}

#[test]
fn who_does_not_ask_the_proxy_is_told_that_only_it_leads_on() {
    let only =
        "reachable only through the proxy in HTTP_PROXY, or with network.allowNetwork = true";
    let connect = |target: &str| Denial::Network(NetworkOperation::Connect, target.into());
    for (denials, expected) in [
        (
            vec![Denial::lookup(Some("new.example"))],
            format!(
                r#"to allow this: network.allowedDomains += ["new.example"]; {only}: ["new.example"]"#
            ),
        ),
        (vec![Denial::lookup(Some("good.example"))], format!(r#"{only}: ["good.example"]"#)),
        (
            vec![Denial::lookup(None)],
            "to look up a host's name: add the host to network.allowedDomains".to_owned(),
        ),
        (
            vec![Denial::unknown(b"new.example")],
            r#"to allow this: network.allowedDomains += ["new.example"]"#.to_owned(),
        ),
        (
            vec![connect("192.0.2.1:443")],
            r#"to allow this: network.allowedDomains += ["192.0.2.1"]"#.to_owned(),
        ),
        (
            vec![connect("[2001:db8::1]:22")],
            r#"to allow this: network.allowedDomains += ["[2001:db8::1]:22"]"#.to_owned(),
        ),
        (
            vec![Denial::Domain(b"[2001:db8::1]:443".to_vec())],
            r#"to allow this: network.allowedDomains += ["[2001:db8::1]"]"#.to_owned(),
        ),
        (
            vec![Denial::Domain(b"[2001:db8::3]:443".to_vec())],
            r#"denied by: network.deniedDomains ["[2001:db8::3]"]"#.to_owned(),
        ),
        (
            vec![Denial::Domain(b"good.example:443".to_vec())],
            "allowed, but its address (a private one needs network.privateDomains, a loopback one its own \
             rule) or what was sent was refused: [\"good.example:443\"]"
                .to_owned(),
        ),
        // It did ask.
        (
            vec![Denial::lookup(Some("new.example")), Denial::Domain(b"new.example:443".to_vec())],
            r#"to allow this: network.allowedDomains += ["new.example"]"#.to_owned(),
        ),
    ] {
        assert_eq!(said(&denials), expected);
    }
}

#[test]
fn hosts_that_belong_together_are_suggested_together() {
    let said = said(&[Denial::Domain(b"pypi.org:443".to_vec())]);
    let expected = r#"network.allowedDomains += ["pypi.org", "files.pythonhosted.org"]"#;
    assert_eq!(said, format!("to allow this: {expected}"));
}

#[test]
fn all_keys_stand_in_one_line_and_many_values_are_counted() {
    let domain = |host: &str| Denial::Domain(host.as_bytes().to_vec());
    let mut denials = vec![domain("registry.npmjs.org:443"), domain("git.example:22")];
    denials.extend(writes(&["/home/u/.npm/x", "/work/.env"]));
    denials.push(Denial::Network(NetworkOperation::Bind, b"127.0.0.1:1".to_vec()));
    assert_eq!(
        said(&denials),
        "to allow this: filesystem.allowWrite += [\"~/.npm\"], network.allowedDomains += \
         [\"registry.npmjs.org\", \"git.example:22\"], network.allowLocalBinding = true; \
         denied by: filesystem.denyWrite [\"./.env\"]"
    );
    let many: Vec<_> = (0..10).map(|number| domain(&format!("h{number}.example:443"))).collect();
    assert!(said(&many).ends_with(r#""h7.example", and 2 more]"#), "{}", said(&many));
}

/// Whatever is asked for: the command chooses it.
#[test]
fn hosts_are_suggested_only_as_what_was_asked_for() {
    const NOT: &str = "not suggested, as it is not a plain host name, or is a metadata service (reach it from outside): ";
    for target in [
        "*.com:443",
        "*:443",
        "*.*.com:443",
        "com.*:443",
        "a b:443",
        "a,b:443",
        "127.1:80",
        "0x7f.1:80",
        "2130706433:80",
        "0177.0.0.1:80",
        "[::ffff:127.0.0.1]:80",
        "[fe80::1%eth0]:80",
        "good.example@evil.example:443",
        "a\",\"b:443",
        "\u{202e}moc.live:443",
        "169.254.169.254:80",
        "198.18.0.1:80",
        "169.254.1.1:80",
        "100.100.100.200:80",
        "[fd00:ec2::254]:80",
        "[fe80::1]:80",
        "[64:ff9b::a9fe:a9fe]:80",
        "0.0.0.0:80",
        "224.0.0.1:80",
        "metadata.google.internal:80",
        "METADATA.google.internal.:80",
    ] {
        let said = said(&[Denial::Domain(target.into())]);
        assert_eq!(said, format!("{NOT}[{}]", quote(target)), "{target}");
    }
    for (target, expected) in [
        ("Example.COM.:443", "example.com"),
        ("example.com:22", "example.com:22"),
        ("192.0.2.1:443", "192.0.2.1"),
        ("[2001:DB8:0::1]:8443", "[2001:db8::1]:8443"),
    ] {
        let said = said(&[Denial::Domain(target.into())]);
        let expected = format!("to allow this: network.allowedDomains += [\"{expected}\"]");
        assert_eq!(said, expected, "{target}");
    }
    for target in
        ["127.0.0.1:8080", "[::1]:9222", "127.1.2.3:443", "localhost:80", "a.localhost:80"]
    {
        let said = said(&[Denial::Domain(target.into())]);
        assert_eq!(said, format!("{SERVER}[{}]", quote(target)), "{target}");
    }
    let lookup = |name: &str| said(&[Denial::lookup(Some(name))]);
    assert_eq!(lookup("db.localhost"), format!("{SERVER}[\"db.localhost\"]"));
    assert_eq!(lookup("*.com"), format!("{NOT}[\"*.com\"]"));
    let connect = Denial::Network(NetworkOperation::Connect, b"169.254.169.254:80".to_vec());
    assert_eq!(said(&[connect]), format!("{NOT}[\"169.254.169.254:80\"]"));
}

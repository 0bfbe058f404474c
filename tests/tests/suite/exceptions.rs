//! What Landlock was not told of and the rules let be read all the same, which the broker opens: directories with
//! something denied in them, and files that others put in the place of one. Whatever name leads there.

use std::fs;
use std::os::unix::fs::symlink;
use tests::{Sandbox, User, for_each_user};

/// What the broker opens beside them.
const OPENED: [&str; 3] = ["nothing", "what is new", "all"];

/// A home with keys and notes.
fn world(user: User, opened: &str) -> Sandbox {
    let sandbox = Sandbox::of(user).allow_write(".").deny_read("~/.ssh").deny_read("~/area/key");
    let sandbox = match opened {
        "what is new" => sandbox.allow_write("~/missing"),
        "all" => sandbox.deny_read(".env"),
        _ => sandbox,
    };
    for directory in ["home/.ssh", "home/area", "home/area/plain"] {
        sandbox.dir(directory);
    }
    for (name, text) in [
        ("work/.env", "TOPSECRET\n"),
        ("home/.ssh/id", "TOPSECRET\n"),
        ("home/area/key", "TOPSECRET\n"),
        ("home/area/notes", "notes\n"),
        ("home/area/other", "other\n"),
    ] {
        sandbox.file(name, text);
    }
    let link = |to: &str, name: &str| symlink(sandbox.path(to), sandbox.path(name)).unwrap();
    for (to, name) in [
        ("home/area", "work/one"),
        ("work/one", "work/two"),
        ("home/.ssh", "work/keys"),
        // As a directory that is listed.
        ("home/.ssh", "work/area"),
        ("home/area/notes", "work/to-notes"),
        ("work/to-notes", "work/to-to-notes"),
        ("home/area/other", "work/to-other"),
        ("home/.ssh/id", "work/notes"),
        ("home/area", "work/there"),
    ] {
        link(to, name);
    }
    sandbox
}

#[test]
fn a_directory_is_listed_through_links_of_any_name() {
    for_each_user(|user| {
        // Whether reads are watched or not.
        for (opened, reports) in
            OPENED.into_iter().flat_map(|opened| [(opened, "all"), (opened, "changes")])
        {
            let sandbox = world(user, opened).options(["--report", reports]);
            let unfollowed = "python3 -c 'import os; listed = os.O_NOFOLLOW | os.O_DIRECTORY
print(sorted(os.listdir(os.open(\"two/\", listed))), os.listdir(os.open(\"one/plain\", listed)))
here, up = (os.open(name, os.O_DIRECTORY) for name in (\".\", \"../home\"))
print(sorted(os.listdir(os.open(\"two\", os.O_DIRECTORY, dir_fd=here))))
print(sorted(os.listdir(os.open(\"area\", listed, dir_fd=up))))'";
            let followed = "ls one/ two/ two/. one/../area /proc/self/cwd/two/ there/plain/..; cd two && ls; ls ../one/";
            let listed = &format!("{unfollowed}; {followed}");
            let inside = sandbox.sh(listed);
            assert_eq!(inside.stdout, sandbox.sh_outside(listed).stdout, "{opened} {inside:#?}");
            assert!(inside.reports_of("Filesystem").is_empty(), "{inside:#?}");
            let denied = "ls keys/ area/ one/../.ssh area; cat one/key two/key one/../.ssh/id area/id notes; \
                python3 -c 'import os; os.open(\"two\", os.O_RDONLY | os.O_NOFOLLOW)' 2>&1 | grep -c Errno.40";
            let outcome = sandbox.sh(denied);
            assert_eq!(outcome.stdout, "1\n", "{opened} {reports} {outcome:#?}");
            assert!(sandbox.sh_outside(denied).stdout.contains("TOPSECRET"));
        }
    });
}

/// Only a directory can become one that leads there.
#[test]
fn a_file_on_the_way_to_an_allowed_path_is_read() {
    for_each_user(|user| {
        for reports in ["all", "changes"] {
            let sandbox = Sandbox::of(user).allow_write("file/sub").deny_read("denied");
            let sandbox = sandbox.options(["--report", reports]);
            sandbox.file("work/file", "content");
            sandbox.file("work/denied", "TOPSECRET");
            let outcome = sandbox.run(["cat", "file", "denied"]);
            assert_eq!(outcome.stdout, "content", "{reports} {outcome:#?}");
        }
    });
}

#[test]
fn a_terminal_of_the_commands_own_is_written_to_through_a_link() {
    for_each_user(|user| {
        for opened in OPENED {
            let script = "python3 -c 'import os
_, there = os.openpty(); os.symlink(os.ttyname(there), \"pt\")
print(os.write(os.open(\"pt\", os.O_RDWR | os.O_NOCTTY), b\"x\"))'";
            let outcome = world(user, opened).sh(script);
            assert_eq!(outcome.stdout, "1\n", "{opened} {outcome:#?}");
        }
    });
}

#[test]
fn a_file_that_others_replaced_is_read_through_links_and_descriptors() {
    for_each_user(|user| {
        for opened in OPENED {
            let sandbox = world(user, opened);
            let script = "cat to-notes to-to-notes one/notes two/notes there/plain/../notes; \
                exec 3< one/notes; cat /proc/self/fd/3; cat /dev/fd/3 <&3; cat /dev/stdin < two/notes; \
                ln -s /proc/self/fd/3 held; cat held; python3 -c 'import os
fd = os.open(\"to-notes\", os.O_PATH); print(open(f\"/proc/self/fd/{fd}\").read(), end=\"\")
fds = os.open(\"/proc/self/fd\", os.O_RDONLY); print(os.read(os.open(str(fd), os.O_RDONLY, dir_fd=fds), 9))'; \
                cat to-other one/other; exec 4< one/other; cat /proc/self/fd/4; ln -s ~/.ssh/id new; cat new";
            let running = sandbox.paused(script);
            sandbox.file("home/area/new", "edited\n");
            fs::rename(sandbox.path("home/area/new"), sandbox.path("home/area/notes")).unwrap();
            // By another name it is the denied file.
            fs::remove_file(sandbox.path("home/area/other")).unwrap();
            fs::hard_link(sandbox.path("home/area/key"), sandbox.path("home/area/other")).unwrap();
            let outcome = sandbox.resume(running);
            let wanted = format!("ready\n{}b'edited\\n'\n", "edited\n".repeat(10));
            assert_eq!(outcome.stdout, wanted, "{opened} {outcome:#?}");
        }
    });
}

#[test]
fn what_others_make_at_a_path_that_is_open_inside_of_a_closed_one_can_be_read() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user).allow_write(".").deny_read("closed");
        let sandbox = sandbox.allow_read("closed/open").allow_read("closed/file");
        sandbox.dir("work/closed");
        sandbox.file("work/closed/key", "TOPSECRET\n");
        let script = "cat closed/file closed/open/file; ls closed/open; echo x > closed/open/made; \
            cat closed/open/made; cat closed/key closed/late; ls closed; mkdir closed/other";
        let running = sandbox.paused(script);
        sandbox.dir("work/closed/open");
        for name in ["file", "open/file"] {
            sandbox.file(format!("work/closed/{name}"), "made\n");
        }
        sandbox.file("work/closed/late", "TOPSECRET\n");
        let outcome = sandbox.resume(running);
        assert_eq!(outcome.stdout, "ready\nmade\nmade\nfile\nx\n", "{outcome:#?}");
        assert!(!sandbox.path("work/closed/other").exists());
    });
}

#[test]
fn what_others_make_at_a_path_that_is_open_inside_of_a_closed_tree_is_not_used() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user).allow_write("tree").deny_read("tree");
        let sandbox = sandbox.allow_read("tree/open").allow_read("tree/there");
        for directory in ["work/tree", "work/tree/there"] {
            sandbox.dir(directory);
        }
        let script = "echo x > tree/there/made; cat tree/there/made; mkdir tree/open; echo x > tree/open/made; \
            cat tree/open/file; ls tree/open";
        let running = sandbox.paused(script);
        sandbox.dir("work/tree/open");
        sandbox.file("work/tree/open/file", "made\n");
        let outcome = sandbox.resume(running);
        assert_eq!(outcome.stdout, "ready\nx\n", "{outcome:#?}");
        assert!(!sandbox.path("work/tree/open/made").exists());
    });
}

/// Nobody looks at reads then: what is made there was granted before it had a name.
#[test]
fn what_is_made_at_a_missing_allowed_path_is_read_where_reads_are_unwatched() {
    for_each_user(|user| {
        let policy = r#"{"filesystem":{"allowWrite":[".","../outside/made","../outside/file","../outside/linked",
            "../outside/way/to/it"],"denyRead":["../outside/secret"]},"report":{"reads":false}}"#;
        let world = || {
            let sandbox = Sandbox::of(user).policy_json(policy);
            sandbox.file("outside/secret", "Secret");
            sandbox.file("outside/beside", "beside\n");
            sandbox
        };
        for make in [
            "echo made > $O/file; cat $O/file",
            "(umask 077; echo made > $O/file); chmod 400 $O/file; cat $O/file",
            "mkdir $O/made; echo made > $O/made/x; cat $O/made/x; ls $O/made",
            "mkdir -p $O/made/deep/er; echo made > $O/made/deep/er/x; cat $O/made/deep/er/x",
            "mkdir here; echo made > here/x; mv here $O/made; cat $O/made/x; ls $O/made",
            "mkdir -p $O/way/to/it; test \"$(ls $O/way $O/way/to | grep -cx 'to\\|it')\" = 2 && echo made",
            "echo made > here; mv here $O/linked; cat $O/linked",
            "printf '#!/bin/sh\necho made\n' > $O/file; chmod +x $O/file; $O/file",
        ] {
            let sandbox = world();
            let script = format!(
                "O={}; cat $O/beside; {make}; cat $O/beside; cat $O/secret; ls $O | wc -l",
                sandbox.name("outside")
            );
            let outcome = sandbox.sh(&script);
            let told = outcome.stdout.replace("x\n", "");
            assert_eq!(told, "beside\nmade\nbeside\n3\n", "{make}: {outcome:#?}");
        }
        // A link has no other object than there was.
        let sandbox = world();
        let linked = sandbox.name("outside/linked");
        let outcome = sandbox.sh(&format!("echo here > here; ln here {linked} || ln here there"));
        assert_eq!(outcome.status, Some(0), "{outcome:#?}");
        assert!(!sandbox.path("outside/linked").exists() && sandbox.path("work/there").exists());
        // What others make there is read where reads are watched, else in the next run.
        for (what, told) in [("all", "ready\nothers'"), ("changes", "ready\n")] {
            let sandbox = world().options(["--report", what]);
            let made = sandbox.name("outside/made/x");
            let running = sandbox.paused(&format!("cat {made}"));
            sandbox.dir("outside/made");
            sandbox.file("outside/made/x", "others'");
            let outcome = sandbox.resume(running);
            assert_eq!(outcome.stdout, told, "{outcome:#?}");
            assert_eq!(sandbox.sh(&format!("cat {made}")).stdout, "others'");
        }
    });
}

/// What some may not be written of is still read and executed by Landlock's leave, and written by the broker's.
#[test]
fn what_is_made_at_a_missing_allowed_path_is_read_where_some_of_it_is_not_written() {
    for_each_user(|user| {
        let policy = r#"{"filesystem":{"allowWrite":[".","../outside/made"],
            "denyWrite":["../outside/made/in/kept*"],"denyRead":["../outside/secret"]},"report":{"reads":false}}"#;
        let world = || {
            let sandbox = Sandbox::of(user).policy_json(policy);
            sandbox.file("outside/secret", "Secret");
            sandbox
        };
        let checked = world().options(["--check"]).run(["true"]);
        assert!(checked.stdout.contains("reads native"), "{checked:#?}");
        let sandbox = world();
        let script = "cd $0; mkdir made && mkdir -p made/in/deep && echo x > made/x && cat made/x || exit
            printf '#!/bin/sh\necho executed\n' > made/in/run; chmod +x made/in/run; made/in/run
            mv made/in/run made/in/deep; made/in/deep/run; ls made/in
            echo evil > made/in/kept; mkdir made/in/kept2; mv made/x made/in/kept3; ln made/x made/in/kept4
            mkdir made/other; echo evil > made/other/kept; mv made/other made/in/kept5; ln -s x made/in/kept6
            mv made/in elsewhere; mv made gone; cat secret; cat made/x made/other/kept; rm -r made/in/deep made/other";
        let outcome = sandbox.run(["sh", "-c", script, &sandbox.name("outside")]);
        assert_eq!(outcome.stdout, "x\nexecuted\nexecuted\ndeep\nx\nevil\n", "{outcome:#?}");
        let left = sandbox.sh_outside("cd ../outside && find . | sort").stdout;
        assert_eq!(left, ".\n./made\n./made/in\n./made/x\n./secret\n", "{outcome:#?}");
    });
}

/// So many directories were granted before they had a name.
#[test]
fn no_more_is_made_at_missing_allowed_paths_than_can_be_read() {
    for_each_user(|user| {
        let paths: Vec<_> = (0..16).map(|number| format!("\"../outside/{number}\"")).collect();
        let policy = format!(
            r#"{{"filesystem":{{"allowWrite":[".",{}],"denyRead":["../outside/secret"]}},"report":{{"reads":false}}}}"#,
            paths.join(",")
        );
        let script = "for n in 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do \
            mkdir $0/$n && echo $n > $0/$n/x && cat $0/$n/x; done; ls $0 | wc -l";
        for what in ["changes", "all"] {
            let world = || {
                let sandbox = Sandbox::of(user).policy_json(&policy).options(["--report", what]);
                sandbox.file("outside/secret", "Secret");
                sandbox
            };
            // Who comes second finds it there.
            let twice = "for n in 0 1 2 3; do mkdir -p $0/$n & mkdir -p $0/$n || exit; wait $! || exit; done";
            let sandbox = world();
            let outcome = sandbox.run(["sh", "-c", twice, &sandbox.name("outside")]);
            assert_eq!(outcome.status, Some(0), "{outcome:#?}");
            let sandbox = world();
            let run = || sandbox.run(["sh", "-c", script, &sandbox.name("outside")]);
            let outcome = run();
            let lines: Vec<_> = outcome.stdout.lines().collect();
            let (all, read) = (lines[lines.len() - 1], lines.len() - 1);
            let expected: Vec<_> = (0..read).map(|number| number.to_string()).collect();
            assert_eq!(lines[..read], expected, "{outcome:#?}");
            assert_eq!(all, (read + 1).to_string(), "{outcome:#?}");
            match what {
                "all" => assert_eq!(read, 16, "{outcome:#?}"),
                _ => {
                    assert!((4..16).contains(&read), "{outcome:#?}");
                    let told =
                        "only so many entries made in one run (run it again, or with --report all)";
                    assert!(outcome.stderr.contains(told), "{outcome:#?}");
                    // The next run has others.
                    run();
                    assert!(sandbox.path(format!("outside/{read}/x")).exists(), "{outcome:#?}");
                }
            }
        }
    });
}

//! Runs of one user beside and after one another: nothing of one is reached by the next, which may be its attacker.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use tests::{Sandbox, for_each_user, programs, quoted, skipped};

/// A script of Python's that runs landstrip with a policy behind /dev/fd/N: `$1` says how it is handed over, `$2` what
/// is in it, and the rest is the command.
const HAND_OVER: &str = r#"
import os, socket, subprocess, sys
launcher, how, text, *command = sys.argv[1:]
if how == "pipe":
    ours, theirs = os.pipe()[::-1]
else:
    kinds = {"stream": socket.SOCK_STREAM, "packets": socket.SOCK_SEQPACKET}
    ours, theirs = (end.detach() for end in socket.socketpair(socket.AF_UNIX, kinds[how]))
os.write(ours, text.encode())
os.close(ours)
words = [launcher, "-p", f"/dev/fd/{theirs}", "--", *command]
sys.exit(subprocess.run(words, pass_fds=[theirs]).returncode)
"#;

fn handed_over(sandbox: &Sandbox, how: &str, policy: &str, script: &str) -> tests::Outcome {
    let launcher = programs().landstrip();
    let launcher = launcher.to_str().unwrap();
    sandbox.run_outside(["python3", "-c", HAND_OVER, launcher, how, policy, "sh", "-c", script])
}

#[test]
fn a_policy_is_taken_from_a_descriptor_that_the_command_does_not_get() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user);
        sandbox.file("work/base.json", r#"{"filesystem":{"allowWrite":["based"]}}"#);
        sandbox.dir("work/based");
        let policy = r#"{"extends":"./base.json","filesystem":{"allowWrite":["made"]}}"#;
        for how in ["pipe", "stream"] {
            let script = "echo x > made && echo x > based/f && echo x > other; ls /proc/self/fd";
            let outcome = handed_over(&sandbox, how, policy, script);
            // The last is that of ls itself.
            assert_eq!(outcome.stdout, "0\n1\n2\n3\n", "{how}: {outcome:#?}");
            assert_eq!(sandbox.read("work/made"), "x\n", "{how}");
            assert!(!sandbox.path("work/other").exists(), "{how}: {outcome:#?}");
            fs::remove_file(sandbox.path("work/made")).unwrap();
        }
        for (how, policy, why) in [
            ("stream", r#"{"filesystm":{}}"#, "unknown key 'filesystm'"),
            ("stream", "{", "/dev/fd/"),
            // What keeps messages apart, as landstrip's own do.
            ("packets", policy, "not a regular file"),
        ] {
            let outcome = handed_over(&sandbox, how, policy, "echo x > made");
            outcome.exits(125);
            assert!(outcome.stderr.contains(why), "{how}: {outcome:#?}");
            assert!(!sandbox.path("work/made").exists(), "{how}");
        }
        let launcher = programs().landstrip();
        // Where it has descriptors of its own by then, too.
        for number in 3..=12 {
            let run = |words: &str| {
                let line =
                    format!("exec {number}<&-; exec {} {words} touch made", launcher.display());
                sandbox.run_outside(["bash", "-c", &line])
            };
            let outcome = run(&format!("-p /dev/fd/{number}"));
            outcome.exits(125);
            assert!(outcome.stderr.contains("No such file"), "{outcome:#?}");
            run(&format!("-p '{{}}' --trap-fd {number}")).is_error(2, "Usage", "is not open");
            assert!(!sandbox.path("work/made").exists(), "{number}");
        }
    });
}

/// Puts the client for JavaScript into the home; None where there is no node.
fn client(sandbox: &Sandbox) -> Option<()> {
    if sandbox.sh_outside("command -v node").status != Some(0) {
        skipped("there is no node");
        return None;
    }
    let name = sandbox.sh_outside("node -p process.arch").stdout.trim().to_owned();
    let platform = format!("home/node_modules/@landstrip/linux-{name}");
    let made = format!("mkdir -p ../home/node_modules/landstrip/lib ../{platform}/bin");
    sandbox.sh_outside(&made).succeeds();
    sandbox.file(format!("{platform}/package.json"), "{}");
    symlink(programs().landstrip(), sandbox.path(format!("{platform}/bin/landstrip"))).unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../clients/javascript");
    let parts = fs::read_dir(source.join("lib")).unwrap();
    let parts = parts.map(|entry| Path::new("lib").join(entry.unwrap().file_name()));
    for file in parts.chain(["index.js", "package.json"].map(PathBuf::from)) {
        let text = fs::read(source.join(&file)).unwrap();
        sandbox.file(PathBuf::from("home/node_modules/landstrip").join(file), text);
    }
    Some(())
}

#[test]
fn policies_of_programs_have_no_name_by_which_others_could_rewrite_them() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user);
        let Some(()) = client(&sandbox) else { return };
        sandbox.dir("tmp");
        // Whatever is made where files are made for a time, is seen.
        let script = r#"
            const { run } = require("landstrip");
            const fs = require("node:fs");
            (async () => {
                const seen = [];
                const watcher = fs.watch(process.env.TMPDIR, (kind, name) => seen.push(name));
                const large = { filesystem: { denyWrite: Array(20000).fill("./denied") } };
                const policy = [{ filesystem: { allowWrite: ["."] } }, "read-only", large];
                const first = await run(["sh", "-c", "echo x > made; echo x > ../outside/made; ls /proc/self/fd"],
                    { policy, stdio: "pipe" });
                const second = await run(["true"], { policy: { filesystm: {} }, stdio: "pipe" });
                watcher.close();
                console.log(JSON.stringify([first, second, seen.filter((name) => !/^landstrip-[0-9a-f]+$/.test(name))]));
            })();
        "#;
        sandbox.file("home/use.js", script);
        let outcome = sandbox.sh_outside("TMPDIR=$PWD/../tmp exec node ../home/use.js");
        outcome.succeeds();
        let result: serde_json::Value = serde_json::from_str(&outcome.stdout).unwrap();
        assert_eq!(result[0]["stdout"], "0\n1\n2\n3\n", "{result}");
        assert_eq!(sandbox.read("work/made"), "x\n", "{result}");
        assert!(!sandbox.path("outside/made").exists());
        assert_eq!(result[1]["status"], 125, "{result}");
        assert_eq!(result[2], serde_json::json!([]), "{result}");
    });
}

/// What a wider run tries on the directory of another, which `$0` is: to look out for a while would be luck.
const TAKE: &str = "touch $0/planted; echo x > $0/mine; rm -f $0/mine; mv $0 moved; mv ${0%/*} moved; \
    rmdir ${0%/*}; ln -sfn $HOME ${0%/*}; chmod 777 $0; chmod 777 ${0%/*}; mkdir ${0%/*}/0123456789abcdef; \
    touch beside 2>/dev/null || exit 3";

#[test]
fn no_run_changes_the_temporary_directory_of_another() {
    for_each_user(|user| {
        // With TMPDIR, and where it is by default, also for a run that has TMPDIR elsewhere.
        for (named, differs) in [(true, false), (false, false), (false, true)] {
            let narrow = Sandbox::of(user).allow_write(".");
            let tmp = narrow.dir("tmp");
            let narrow = if named { narrow.env("TMPDIR", &tmp) } else { narrow };
            let script = "cd $TMPDIR && echo mine > mine && pwd && until [ -e $HOME/../outside/go ]; \
                do sleep 0.01; done; cat mine; ls; touch more && mkdir d && echo made";
            let mut running = narrow.spawn(["sh", "-c", script]);
            running.expect("\n");
            let private = running.stdout().trim().to_owned();
            let place = private.rsplitn(3, '/').last().unwrap().to_owned();
            assert!(place == if named { tmp.to_str().unwrap() } else { "/var/tmp" }, "{private}");
            let wide = Sandbox::of(user).allow_write(&place).allow_write(".");
            let wide = if named || differs { wide.env("TMPDIR", &tmp) } else { wide };
            let outcome = wide.run(["sh", "-c", TAKE, &private]);
            outcome.succeeds();
            // What else is there is as writable as before.
            let other = format!("{place}/landstrip-test-{}-{named}-{differs}", std::process::id());
            wide.sh(&format!("mkdir {other} && echo x > {other}/f && rm -r {other}")).succeeds();
            narrow.file("outside/go", "");
            let outcome = running.wait();
            assert_eq!(outcome.stdout, format!("{private}\nmine\nmine\nmade\n"), "{outcome:#?}");
            assert!(!Path::new(&private).exists(), "{private}");
        }
    });
}

#[test]
fn no_pattern_means_what_another_run_has() {
    for_each_user(|user| {
        let narrow = Sandbox::of(user).allow_write(".");
        let tmp = narrow.dir("tmp");
        let share = "from multiprocessing.shared_memory import SharedMemory as s
import os, time
m = s('PLACE', create=True, size=4); m.buf[:4] = b'mine'; open(os.environ['TMPDIR'] + '/mine', 'w').write('mine')
print(os.environ['TMPDIR'], flush=True)
while not os.path.exists(os.environ['HOME'] + '/../outside/go'): time.sleep(0.01)
print(bytes(m.buf), open(os.environ['TMPDIR'] + '/mine').read()); m.unlink()";
        let share = share.replace("PLACE", &format!("landstrip-test-{}", std::process::id()));
        let narrow = narrow.env("TMPDIR", &tmp);
        let mut running = narrow.spawn(["python3", "-c", &share]);
        running.expect("\n");
        let private = running.stdout().trim().to_owned();
        narrow.dir("tmp/beside");
        let wide = Sandbox::of(user).allow_write(".").allow_write("/dev/shm/landstrip-*");
        let wide = wide.allow_write(tmp.join("**/[0-9a-f]*")).allow_write(tmp.join("*"));
        let script = "echo x > $0/mine; echo x > $0/new; for mine in /dev/shm/landstrip-*/landstrip-test-* /dev/shm/landstrip-*/objects/landstrip-test-*; do \
            echo x 1<> $mine; done; echo x > $1/beside/file && echo made";
        let outcome = wide.run(["sh", "-c", script, &private, tmp.to_str().unwrap()]);
        assert_eq!(outcome.stdout, "made\n", "{outcome:#?}");
        narrow.file("outside/go", "");
        let outcome = running.wait();
        assert!(outcome.stdout.ends_with("b'mine' mine\n"), "{outcome:#?}");
    });
}

/// As a run has that was started without these variables.
#[test]
fn no_run_changes_what_others_keep_where_its_own_variables_do_not_lead() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user).allow_write("~/.local").allow_write("~/.cache");
        let made = "cd ~; for held in .local/state/landstrip .cache/landstrip; do mkdir -p $held && chmod 700 $held && \
            printf kept > $held/kept; done";
        sandbox.sh_outside(made).succeeds();
        let elsewhere = sandbox.path("outside");
        let sandbox = sandbox.env("XDG_STATE_HOME", &elsewhere).env("XDG_CACHE_HOME", &elsewhere);
        let script = "cd ~; for held in .local/state/landstrip .cache/landstrip; do echo x > $held/kept; \
            echo x > $held/new; mv $held ${held%/*}/moved; done; cat .local/state/landstrip/kept; \
            echo x > .cache/beside && mkdir -p .local/state/beside && echo made";
        let outcome = sandbox.sh(script);
        assert_eq!(outcome.stdout, "made\n", "{outcome:#?}");
        for holder in ["home/.local/state/landstrip", "home/.cache/landstrip"] {
            assert_eq!(sandbox.read(format!("{holder}/kept")), "kept", "{outcome:#?}");
            assert!(!sandbox.path(format!("{holder}/new")).exists(), "{outcome:#?}");
        }
    });
}

#[test]
fn what_an_earlier_run_left_in_place_of_a_holder_is_not_used() {
    for_each_user(|user| {
        for kind in ["a link", "open to others", "a file"] {
            // Beside what is denied, directories wait in the cache.
            let sandbox = Sandbox::of(user).allow_write(".").deny_write(".env");
            for dir in ["home/.cache", "home/keys", "tmp"] {
                sandbox.dir(dir);
            }
            let tmp = format!("tmp/{}", user.holder());
            for holder in ["home/.cache/landstrip", &tmp] {
                match kind {
                    "a link" => symlink(sandbox.path("home/keys"), sandbox.path(holder)).unwrap(),
                    "a file" => drop(sandbox.file(holder, "")),
                    _ => {
                        let mode = fs::Permissions::from_mode(0o775);
                        fs::set_permissions(sandbox.dir(holder), mode).unwrap();
                    }
                }
            }
            let callers = sandbox.name("tmp");
            let sandbox = sandbox.env("TMPDIR", &callers);
            let left =
                "find ~/keys ~/.cache ../tmp -mindepth 1; mkdir d && touch d/f; echo $TMPDIR";
            let outcome = sandbox.sh(left);
            let expected = [sandbox.name("home/.cache/landstrip"), format!("../{tmp}"), callers];
            assert_eq!(
                outcome.stdout.lines().collect::<Vec<_>>(),
                expected,
                "{kind}: {outcome:#?}"
            );
            assert!(sandbox.path("work/d/f").exists(), "{kind}: {outcome:#?}");
            assert_eq!(fs::read_dir(sandbox.path("home/keys")).unwrap().count(), 0, "{kind}");
        }
        // Where a private one is promised, the reason is told.
        let sandbox = Sandbox::of(user).without_policy();
        let tmp = sandbox.dir("tmp");
        symlink(sandbox.dir("home/keys"), tmp.join(user.holder())).unwrap();
        let sandbox = sandbox.env("TMPDIR", &tmp);
        let outcome = sandbox.sh("touch made");
        outcome.is_error(125, "Internal", "TMPDIR");
        assert!(outcome.stderr.contains("not a directory of this user's alone"), "{outcome:#?}");
        // Anybody could have taken the name.
        sandbox.dir("home/.cache");
        let outcome = sandbox.sh("touch $TMPDIR/made && echo ${TMPDIR%/*}");
        let expected = format!("{}/.cache/landstrip\n", sandbox.name("home"));
        assert_eq!(outcome.succeeds().stdout, expected, "{outcome:#?}");
    });
}

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// The ways to a policy file: what to put beside it, and how landstrip gets to it.
const WAYS: [(&str, bool); 4] =
    [("default", true), ("variable", true), ("extended", true), ("named", false)];

/// Runs a command under the policy at `policy`, which allows `work`.
fn by(way: &str, sandbox: &Sandbox, policy: &Path) -> tests::Outcome {
    let policy = policy.to_str().unwrap();
    let launcher = programs().landstrip().to_str().unwrap().to_owned();
    let run = |before: &str, after: &str| {
        sandbox.sh_outside(&format!("{before} exec {launcher} {after} -- touch made"))
    };
    match way {
        "default" => run(&format!("XDG_CONFIG_HOME={}/..", policy.rsplit_once('/').unwrap().0), ""),
        "variable" => run(&format!("LANDSTRIP_POLICY={policy}"), ""),
        "named" => run("", &format!("-p {policy}")),
        _ => {
            sandbox.file("outer.yaml", format!("extends: {policy}"));
            run("", &format!("-p {}", sandbox.name("outer.yaml")))
        }
    }
}

/// Whether a policy that others can change is taken where it was named alone, and told there.
#[track_caller]
fn only_named(sandbox: &Sandbox, policy: &Path, why: &str) {
    for (way, is_refused) in WAYS {
        let outcome = by(way, sandbox, policy);
        let made = sandbox.path("work/made");
        assert!(outcome.stderr.contains("others can change"), "{way}: {outcome:#?}");
        assert!(outcome.stderr.contains(why), "{way}: {outcome:#?}");
        if is_refused {
            outcome.exits(125);
        } else {
            fs::remove_file(&made).unwrap();
        }
        assert!(!made.exists(), "{way}: {outcome:#?}");
    }
}

#[track_caller]
fn taken(sandbox: &Sandbox, policy: &Path) {
    for (way, _) in WAYS {
        let outcome = by(way, sandbox, policy);
        outcome.succeeds();
        assert_eq!(outcome.stderr, "", "{way}");
        fs::remove_file(sandbox.path("work/made")).unwrap();
    }
}

/// A sandbox with a policy that allows `work`, in a directory of its own.
fn with_policy(user: tests::User) -> (Sandbox, PathBuf) {
    let sandbox = Sandbox::of(user);
    for dir in ["config", "config/landstrip"] {
        sandbox.dir(dir);
    }
    let policy =
        sandbox.file("config/landstrip/policy.json", r#"{"filesystem":{"allowWrite":["."]}}"#);
    (sandbox, policy)
}

#[test]
fn a_policy_that_others_may_write_is_taken_only_where_it_was_named() {
    for_each_user(|user| {
        let (sandbox, policy) = with_policy(user);
        taken(&sandbox, &policy);
        for (path, open, why) in [
            (policy.clone(), 0o646, "may be written by everybody (mode 0646)"),
            (sandbox.path("config/landstrip"), 0o777, "may be written by everybody (mode 0777)"),
            (sandbox.path("config"), 0o757, "may be written by everybody"),
        ] {
            let before = path.metadata().unwrap().mode();
            mode(&path, open);
            only_named(&sandbox, &policy, why);
            mode(&path, before & 0o7777);
        }
        // The user's own group, and a directory in which each entry is its owner's.
        mode(&policy, 0o664);
        mode(&sandbox.path("config"), 0o1777);
        taken(&sandbox, &policy);
        let checked = sandbox.landstrip(["-p", policy.to_str().unwrap(), "--check"]);
        assert!(!checked.stdout.contains("others can change"), "{checked:#?}");
        mode(&policy, 0o666);
        let checked = sandbox.landstrip(["-p", policy.to_str().unwrap(), "--check"]);
        checked.succeeds();
        assert!(checked.stdout.contains("others can change"), "{checked:#?}");
    });
}

#[test]
fn a_policy_of_another_user_is_taken_only_where_it_was_named() {
    if !tests::is_root_for("files of several users") {
        return;
    }
    let give =
        |path: &Path, uid: u32| std::os::unix::fs::lchown(path, Some(uid), Some(uid)).unwrap();
    for_each_user(|user| {
        let (sandbox, policy) = with_policy(user);
        give(&policy, 1234);
        only_named(&sandbox, &policy, "belongs to another user (1234)");
        give(&policy, 0);
        taken(&sandbox, &policy);
        give(&sandbox.path("config"), 1234);
        only_named(&sandbox, &policy, "config belongs to another user (1234)");
        give(&sandbox.path("config"), 0);
        // A group of others.
        mode(&policy, 0o664);
        std::os::unix::fs::chown(&policy, None, Some(1234)).unwrap();
        only_named(&sandbox, &policy, "may be written by a group (mode 0664)");
        give(&policy, user.uid());
        mode(&policy, 0o644);
        // A link in a directory where everybody may make some.
        let shared = sandbox.dir("shared");
        mode(&shared, 0o1777);
        sandbox.dir("shared/landstrip");
        let link = shared.join("landstrip/policy.json");
        symlink(&policy, &link).unwrap();
        give(&link, user.uid());
        taken(&sandbox, &link);
        give(&link, 1234);
        only_named(&sandbox, &link, "belongs to another user (1234)");
    });
}

/// What a run plants in `sub` of its work tree, so that the next run there fails: the name, and a script that makes it.
const PLANTED: [(&str, &str); 15] = [
    (".git", "ln -s .git .git"),
    (".vscode", "ln -s .vscode .vscode"),
    (".claude", "ln -s one .claude; ln -s two one; ln -s ./one two"),
    (".git", "printf 'gitdir: %04096d' 0 > .git"),
    (".git", "mkfifo .git"),
    (".git", "head -c 2000000 /dev/zero > .git"),
    (".git", "mkdir .git; chmod 0 .git"),
    (".git", "mkdir .git; head -c 1048577 /dev/zero | tr '\\0' / > .git/commondir"),
    (".git", "mkdir .git; ln -s config .git/config; ln -s hooks .git/hooks"),
    (".idea", "ln -s $(printf %0300d 0) .idea"),
    (".zed", "ln -s $(printf 'abcdefg/%.0s' $(seq 511)) .zed"),
    (".git", "touch file; ln -s file/inside .git"),
    (".cursor", "ln -s $(printf '\\377') .cursor"),
    (".exrc", "ln -s /proc/self/cwd .exrc"),
    (".hgsub", "printf 'a\\0\\377 = x\\n' > .hgsub"),
];

#[test]
fn no_tree_makes_a_preset_refuse_to_start() {
    for_each_user(|user| {
        for (name, script) in PLANTED {
            let sandbox = Sandbox::of(user);
            sandbox.dir("work/sub");
            let launcher = programs().landstrip().to_str().unwrap().to_owned();
            let agent = |script: &str| {
                let script = quoted(script);
                let line = format!("cd sub && exec {launcher} -p agent -- sh -c {script}");
                sandbox.sh_outside(&line)
            };
            // By the sandbox itself, from above.
            sandbox
                .landstrip(["-p", "agent", "sh", "-c", &format!("cd sub && {script}")])
                .succeeds();
            let planted = sandbox.path("work/sub").join(name);
            let before = planted.symlink_metadata().expect(script);
            let outcome = agent("echo x > made && mkdir -p d/e && mv made d/e/made");
            assert_eq!(outcome.status, Some(0), "{script}: {outcome:#?}");
            assert_eq!(sandbox.read("work/sub/d/e/made"), "x\n", "{script}");
            // What was planted stays what it is, which may be nothing that leads anywhere.
            let attack = format!("rm -rf {name}; mv {name} other; mkdir {name}; ln -sfn d {name}");
            agent(&format!("chmod 700 {name}; {attack}; echo x > {name}/config"));
            let after = planted.symlink_metadata().unwrap_or_else(|e| panic!("{script}: {e}"));
            match before.is_dir() {
                // The rules go by names, whichever directory has them.
                true => assert!(after.is_dir() && !planted.join("config").is_file(), "{script}"),
                false => assert_eq!(after.ino(), before.ino(), "{script}"),
            }
        }
    });
}

#[test]
fn a_path_of_one_s_own_that_leads_nowhere_is_an_error() {
    for_each_user(|user| {
        for key in ["denyWrite", "denyRead", "allowWrite"] {
            let text = format!(r#"{{"extends":"agent","filesystem":{{"{key}":["loop"]}}}}"#);
            let sandbox = Sandbox::of(user).policy_json(text);
            symlink("loop", sandbox.path("work/loop")).unwrap();
            let outcome = sandbox.sh("touch made");
            outcome.exits(125);
            assert!(outcome.stderr.contains("too many levels"), "{key}: {outcome:#?}");
        }
    });
}

#[test]
fn limits_that_are_too_low_are_named() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user).allow_write(".");
        let words: Vec<_> =
            sandbox.command_line().into_iter().map(|w| w.into_string().unwrap()).collect();
        let run = |limit: &str| {
            let script = format!("ulimit {limit} && exec '{}' -- touch made", words.join("' '"));
            sandbox.run_outside(["bash", "-c", &script])
        };
        for (limit, name) in [
            // Of less the kernel's own randomisation leaves nothing, and no program starts (execve(2)).
            ("-s 32", "ulimit -s"),
            ("-s 64", "ulimit -s"),
            ("-s 255", "ulimit -s"),
            ("-n 4", "ulimit -n"),
            ("-n 6", "ulimit -n"),
            ("-n 8", "ulimit -n"),
            ("-n 16", "ulimit -n"),
            ("-n 63", "ulimit -n"),
        ] {
            let outcome = run(limit);
            assert_eq!(outcome.status, Some(125), "{limit}: {outcome:#?}");
            assert!(outcome.stderr.contains(name), "{limit}: {outcome:#?}");
            assert_eq!(outcome.stderr.lines().count(), 1, "{limit}: {outcome:#?}");
            assert!(!sandbox.path("work/made").exists(), "{limit}");
        }
        for limit in ["-s 256", "-S -s 256", "-n 64", "-S -n 16"] {
            run(limit).succeeds();
            fs::remove_file(sandbox.path("work/made")).unwrap();
        }
    });
}

#[test]
fn a_home_that_is_none_is_to_be_set() {
    for_each_user(|user| {
        let launcher = programs().landstrip().to_str().unwrap().to_owned();
        for home in ["-u HOME", "HOME=", "HOME=relative"] {
            let sandbox = Sandbox::of(user);
            let outcome =
                sandbox.sh_outside(&format!("env {home} {launcher} -p agent -- touch made"));
            outcome.exits(125);
            assert!(outcome.stderr.contains("set HOME"), "{home}: {outcome:#?}");
            let outcome = sandbox.sh_outside(&format!("env {home} {launcher} -- touch made"));
            assert_eq!(outcome.status, Some(0), "{home}: {outcome:#?}");
        }
    });
}

#[test]
fn a_narrower_policy_follows_no_link_that_a_wider_run_made_in_its_tree() {
    for_each_user(|user| {
        let narrow = Sandbox::of(user).allow_write("./target").allow_write("./own");
        let wide = |script: &str| {
            let launcher = programs().landstrip().to_str().unwrap().to_owned();
            narrow.sh_outside(&format!("{launcher} -- sh -c '{script}'")).succeeds();
        };
        narrow.dir("outside/precious");
        wide("mkdir inside; ln -s inside own; ln -s ../outside/precious target");
        let outcome = narrow.sh("touch target/f");
        outcome.exits(125);
        assert!(outcome.stderr.contains("work/target is a symbolic link"), "{outcome:#?}");
        assert!(outcome.stderr.contains("outside/precious instead"), "{outcome:#?}");
        narrow.landstrip(["-p", &narrow.name("policy.json"), "--check"]).exits(125);
        assert_eq!(fs::read_dir(narrow.path("outside/precious")).unwrap().count(), 0);
        // Nobody is told to name what programs outside obey.
        narrow.dir("home/.ssh");
        for target in ["home/.ssh", "home"] {
            fs::remove_file(narrow.path("work/target")).unwrap();
            wide(&format!("ln -s ../{target} target"));
            let outcome = narrow.sh("touch target/f");
            outcome.exits(125);
            assert!(outcome.stderr.contains("remove it, unless you made it"), "{outcome:#?}");
            assert!(!outcome.stderr.contains("instead"), "{outcome:#?}");
        }
        // One that stays inside is followed, and so is the target by its name.
        fs::remove_file(narrow.path("work/target")).unwrap();
        narrow.dir("work/target");
        narrow.sh("touch target/f own/f").succeeds();
        assert!(narrow.path("work/inside/f").exists());
        let named = Sandbox::of(user);
        named.dir("outside/precious");
        symlink("../outside/precious", named.path("work/target")).unwrap();
        let named = named.allow_write("../outside/precious");
        named.sh("touch target/f").succeeds();
        assert!(named.path("outside/precious/f").exists());
    });
}

/// Under a policy that lets the directory of all caches be written, a command makes a link where a preset allows one.
#[test]
fn no_link_in_a_cache_leads_a_later_run_to_settings() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user);
        for directory in [
            "home/.cache",
            "home/.editor",
            "home/.ssh",
            "home/caches",
            "home/other",
            "home/other/.git",
        ] {
            sandbox.dir(directory);
        }
        let wide = sandbox.file("wide.json", r#"{"filesystem": {"allowWrite": ["~/.cache"]}}"#);
        for (target, is_followed) in [
            ("~/.editor", false),
            ("~/.ssh", false),
            ("~", false),
            ("~/other", false),
            ("/etc", false),
            ("~/caches", true),
        ] {
            let plant = format!("rm -rf ~/.cache/pip; ln -s {target} ~/.cache/pip");
            sandbox.landstrip(["-p", wide.to_str().unwrap(), "sh", "-c", &plant]).succeeds();
            let outcome =
                sandbox.landstrip(["-p", "build", "sh", "-c", "echo evil > ~/.cache/pip/made"]);
            let is_there = sandbox.sh_outside(&format!("rm {target}/made")).status == Some(0);
            assert!(is_followed || !is_there, "ESCAPED: {target}");
            assert_eq!(is_there, is_followed, "{target}: {outcome:#?}");
            let said = outcome.stderr.contains("left out: ");
            assert_eq!(said, !is_followed, "{target}: {outcome:#?}");
            let check = sandbox.landstrip(["-p", "build", "--check"]).succeeds().stdout.clone();
            assert_eq!(check.contains("left out: "), !is_followed, "{target}: {check}");
        }
    });
}

/// A policy of the user's own lets a path be written that an earlier run had in its working directory.
#[test]
fn no_link_in_an_earlier_working_directory_leads_a_later_run_to_settings() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user);
        for directory in ["home/data", "home/.ssh", "home/bin", "home/caches"] {
            sandbox.dir(directory);
        }
        let landstrip = programs().landstrip().display().to_string();
        for path in ["~/data/cache", "~/data/*"] {
            let policy = format!(r#"{{"filesystem": {{"allowWrite": [".", "{path}"]}}}}"#);
            let policy = sandbox.file("p.json", policy).display().to_string();
            for (target, is_followed) in [("~/.ssh", false), ("~/bin", false), ("~/caches", true)] {
                let plant = format!("{landstrip} -p {policy} ln -s {target} cache");
                sandbox.sh_outside(&format!("cd ~/data && rm -f cache && {plant}")).succeeds();
                let outcome =
                    sandbox.landstrip(["-p", &policy, "sh", "-c", "echo > ~/data/cache/made"]);
                let is_there = sandbox.sh_outside(&format!("rm {target}/made")).status == Some(0);
                assert!(is_followed || !is_there, "ESCAPED: {path} {target}");
                assert_eq!(is_there, is_followed, "{path} {target}: {outcome:#?}");
                let told = outcome.stderr.contains("data/cache is a symbolic link");
                assert_eq!(told, !is_followed && !path.ends_with('*'), "{outcome:#?}");
            }
        }
    });
}

/// The link lies in a work tree of git, and the later run is started in another directory.
#[test]
fn a_link_out_of_a_work_tree_is_not_followed_from_elsewhere() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user);
        for directory in ["work/sub", "work/made", "home/.editor", "outside/there"] {
            sandbox.dir(directory);
        }
        sandbox.sh_outside("git init -q . && ln -s ~/.editor out && ln -s made in").succeeds();
        let landstrip = programs().landstrip().display().to_string();
        for (link, is_followed) in [("out", false), ("in", true)] {
            for (directory, path) in [
                ("sub", format!("../{link}")),
                ("../outside/there", sandbox.name(format!("work/{link}"))),
            ] {
                let policy = format!("filesystem:\n  allowWrite: ['{path}']\n");
                let policy = sandbox.file("p.yaml", policy);
                let run =
                    format!("cd {directory}; {landstrip} -p {} touch {path}/x", policy.display());
                let outcome = sandbox.sh_outside(&run);
                assert!(!sandbox.path("home/.editor/x").exists(), "ESCAPED: {outcome:#?}");
                match is_followed {
                    true => drop(outcome.succeeds()),
                    false => drop(outcome.is_error(125, "Internal", "is a symbolic link")),
                }
            }
        }
        assert!(sandbox.path("work/made/x").exists());
    });
}

//! Control: nothing inside turns the sandbox off or steers the next one (attacks C1 to C3).

use std::net::TcpListener;
use std::os::unix::ffi::OsStringExt;
use tests::{Outcome, Sandbox, Snapshot, User, copy_program, for_each_user, programs};

#[test]
fn the_policy_in_force_is_not_writable_from_inside() {
    for_each_user(|user| {
        // The whole world is allowed, and so would be the policy beside the work directory.
        let sandbox = Sandbox::of(user).allow_write("..");
        sandbox.command_line();
        let policy = sandbox.name("policy.json");
        let attack = format!(
            "file append {policy} + file truncate {policy} + file unlink {policy} \
             + file rename {policy} moved + meta chmod {policy}"
        );
        sandbox.probe(&attack).all_refused();
        assert!(std::fs::read_to_string(&policy).unwrap().contains("allowWrite"));
        sandbox.probe("file creat made").allowed("file-creat");
    });
}

#[test]
fn the_next_policy_is_not_writable_through_a_link_to_its_directory() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user).allow_write("~");
        sandbox.dir("home/dotfiles");
        sandbox.dir("home/dotfiles/config");
        sandbox.dir("home/dotfiles/config/other");
        let made = sandbox.sh_outside("ln -s dotfiles/config ~/.config");
        made.succeeds();
        for script in [
            "mkdir ~/.config/landstrip",
            "mkdir ~/dotfiles/config/landstrip",
            "mv ~/.config ~/old && mkdir -p ~/.config/landstrip",
            "mv ~/dotfiles ~/old && mkdir -p ~/dotfiles/config/landstrip",
            "mkdir -p ~/new/landstrip && ln -sfn ../new ~/.config",
        ] {
            sandbox.sh(script).fails();
            assert!(!sandbox.path("home/.config/landstrip").exists(), "{script}");
        }
        // mv copied what is not protected, and removed it.
        sandbox.sh("mkdir -p ~/dotfiles/config/other; echo x > ~/.config/other/made").succeeds();
        assert_eq!(sandbox.read("home/dotfiles/config/other/made"), "x\n");
    });
}

#[test]
fn the_next_policy_is_not_writable_where_it_is_not_looked_for_now() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user).allow_write("..");
        for dir in ["config", "home/.config", "home/.config/landstrip", "policies", "links"] {
            sandbox.dir(dir);
        }
        sandbox.file("home/real.json", "{}");
        sandbox.file("policies/named.json", "{}");
        let links = "ln -s ../../real.json ~/.config/landstrip/policy.json \
                     && ln -s ../policies/named.json ../links/named";
        sandbox.sh_outside(links).succeeds();
        let (config, named) = (sandbox.path("config"), sandbox.path("links/named"));
        let sandbox = sandbox.env("XDG_CONFIG_HOME", config).env("LANDSTRIP_POLICY", named);
        for script in [
            "mkdir ../config/landstrip",
            "echo x > ~/.config/landstrip/policy.yaml",
            "echo x > ~/.config/landstrip/policy.json",
            "echo x > ~/real.json",
            "mv ~/.config/landstrip ~/.config/x",
            "echo x > ../links/named",
            "echo x > ../policies/named.json",
            "echo x > new && mv new ../policies/named.json",
            "ln -sfn ../work/made ../links/named",
        ] {
            sandbox.sh(script).fails();
        }
        assert_eq!(sandbox.read("home/real.json"), "{}");
        assert_eq!(sandbox.read("links/named"), "{}");
        assert!(!sandbox.path("config/landstrip").exists());
        sandbox.sh("echo x > made").succeeds();
        assert_eq!(sandbox.read("work/made"), "x\n");
    });
}

#[test]
fn the_programs_are_not_writable_from_inside() {
    // Not by opening: a program that another test runs is busy (ETXTBSY) with or without us.
    let dir = &programs().dir;
    let before = Snapshot::of(dir);
    let sandbox = Sandbox::new().allow_write("/tmp").allow_write(dir);
    let text = dir.display();
    let attack = format!(
        "file unlink {text}/landstrip-broker \
         + file rename {text}/landstrip-proxy {text}/x \
         + meta chmod {text}/landstrip"
    );
    sandbox.probe(&attack).all_refused();
    before.unchanged();
}

#[test]
fn no_broker_comes_to_be_where_the_launcher_looks_first() {
    for_each_user(|user| {
        for directory in ["bin", "tools"] {
            let sandbox = Sandbox::of(user).allow_write("..");
            for inner in [directory, "libexec", "libexec/landstrip"] {
                sandbox.dir(inner);
            }
            let script = format!(
                "cd .. && cp {0}/landstrip {directory} && cp {0}/landstrip-broker {0}/landstrip-proxy libexec/landstrip",
                programs().dir.display()
            );
            sandbox.sh_outside(&script).succeeds();
            let run = |script: &str| {
                let mut words = sandbox.command_line();
                words[0] = sandbox.path(format!("{directory}/landstrip")).into();
                words.extend(["--", "sh", "-c", script].map(Into::into));
                sandbox.run_outside(words)
            };
            run(&format!(
                "cd ../{directory}; printf '#!/bin/sh\\necho ran >../proof\\n' >../made; chmod 755 ../made; \
                 cp ../made landstrip-broker; ln ../made landstrip-broker; ln -s ../made landstrip-broker; \
                 mv ../made landstrip-broker; mkdir landstrip-broker; rm -f landstrip; mv ../{directory} ../away; \
                 cp ../libexec/landstrip/landstrip-broker ../libexec/landstrip/landstrip"
            ));
            assert!(!sandbox.path(format!("{directory}/landstrip-broker")).exists());
            run("echo x >made").succeeds();
            assert!(!sandbox.path("proof").exists(), "a broker of the command's ran outside");
            // Beside them, files can be made.
            run(&format!("echo x >../{directory}/made")).succeeds();
            assert_eq!(sandbox.read(format!("{directory}/made")), "x\n");
        }
    });
}

#[test]
fn the_programs_are_not_writable_through_their_other_names() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user).allow_write("..");
        let bin = linked_programs(&sandbox);
        // Not the broker's: it runs, and so is busy (ETXTBSY) with or without us.
        for name in ["deps/landstrip-1", "deps/deeper/proxy"] {
            let size = || sandbox.path("bin").join(name).metadata().unwrap().len();
            let before = size();
            run_linked(&sandbox, &format!("echo >> {bin}/{name}")).fails();
            assert_eq!(size(), before, "{name} was written");
        }
        run_linked(&sandbox, &format!("echo x > {bin}/deps/twin/made")).succeeds();
        assert_eq!(sandbox.read("bin/deps/twin/made"), "x\n");
    });
}

#[test]
fn programs_whose_other_names_are_hidden_are_not_written_by_them() {
    use std::os::unix::fs::PermissionsExt;
    for_each_user(|user| {
        let sandbox = Sandbox::of(user).allow_write("..");
        let bin = linked_programs(&sandbox);
        let hiding = sandbox.path("bin/deps/deeper");
        std::fs::set_permissions(&hiding, std::fs::Permissions::from_mode(0o0)).unwrap();
        let state = || {
            let found = sandbox.path("bin/landstrip-proxy").metadata().unwrap();
            (found.len(), found.permissions().mode())
        };
        let before = state();
        let script = format!(
            "chmod 700 {bin}/deps/deeper; cd {bin}/deps/deeper; cp proxy copy && echo >> copy && echo x > made \
             && mv made moved; echo >> proxy; ln proxy more; echo >> more; mv proxy ../away; \
             echo >> ../away; chmod 777 ../away"
        );
        run_linked(&sandbox, &script);
        assert_eq!(state(), before, "it was changed");
        assert_eq!(sandbox.read("bin/deps/deeper/moved"), "x\n");
    });
}

#[test]
fn a_directory_that_cannot_be_read_does_not_matter_to_linked_programs() {
    use std::os::unix::fs::PermissionsExt;
    for_each_user(|user| {
        let sandbox = Sandbox::of(user).allow_write(".");
        linked_programs(&sandbox);
        let closed = sandbox.dir("work/closed");
        std::fs::set_permissions(&closed, std::fs::Permissions::from_mode(0o0)).unwrap();
        run_linked(&sandbox, "echo x > made").succeeds();
        std::fs::set_permissions(&closed, std::fs::Permissions::from_mode(0o755)).unwrap();
    });
}

/// Installs the programs as Cargo does: each has a second name in another directory.
fn linked_programs(sandbox: &Sandbox) -> String {
    for dir in ["bin", "bin/deps", "bin/deps/deeper", "bin/deps/twin"] {
        sandbox.dir(dir);
    }
    // By a process of its own: what another thread starts meanwhile would hold a program that is
    // being written (ETXTBSY).
    let script = format!(
        "cd ../bin && cp {0}/landstrip {0}/landstrip-broker {0}/landstrip-proxy . \
         && ln landstrip deps/landstrip-1 && ln landstrip-broker deps/landstrip-broker-1 \
         && ln landstrip-proxy deps/deeper/proxy",
        programs().dir.display()
    );
    sandbox.sh_outside(&script).succeeds();
    sandbox.name("bin")
}

/// Runs a shell script in a sandbox of those programs.
fn run_linked(sandbox: &Sandbox, script: &str) -> tests::Outcome {
    let mut words = sandbox.command_line();
    words[0] = sandbox.path("bin/landstrip").into();
    words.extend(["--", "sh", "-c", script].map(Into::into));
    sandbox.run_outside(words)
}

#[test]
fn a_policy_that_allows_everything_does_not_allow_the_kernels_controls() {
    // Opened without a byte written, which changes nothing where it is allowed.
    let open = "{ : >> /proc/sys/kernel/core_pattern; }";
    let sandbox = Sandbox::new().allow_write("/");
    if sandbox.sh_outside(open).status != Some(0) {
        return; // Not root, or a container whose /proc/sys is read-only.
    }
    sandbox.sh(open).fails();
    sandbox.sh("{ : >> /sys/kernel/mm/transparent_hugepage/enabled; }").fails();
    sandbox.sh("echo x > made && echo x > ../outside/made && : > /dev/null").succeeds();
    assert_eq!(sandbox.read("outside/made"), "x\n");
    // Named, it is the user's choice.
    Sandbox::new().allow_write("/proc/sys/kernel").sh(open).succeeds();
}

#[test]
fn without_a_policy_the_root_directory_is_refused() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user).without_policy();
        let words = |directory: &str| {
            let mut words = vec!["env".into(), "-C".into(), directory.into()];
            words.extend(sandbox.command_line());
            words.extend(["--", "sh", "-c", "echo ran"].map(Into::into));
            words
        };
        let outcome = sandbox.run_outside(words("/"));
        outcome.is_error(125, "Internal", "name a policy with -p");
        assert_eq!(outcome.stdout, "");
        sandbox.run_outside(words(&sandbox.name("work"))).succeeds();
    });
}

/// What was asked for and could not be said is no success, but where nobody wants it.
#[test]
fn an_answer_that_cannot_be_written_is_a_failure() {
    let sandbox = Sandbox::new();
    let launcher = tests::programs().landstrip();
    for asked in
        ["--help", "--version", "--init", "--check", "--explain", "--explain=json .", "--doctor"]
    {
        let line = format!("{} {asked}", launcher.display());
        let full = sandbox.sh_outside(&format!("{line} > /dev/full"));
        assert!(full.exits(125).stderr.contains("standard output"), "{asked}: {full:#?}");
        for after in ["> /dev/null", ">&-"] {
            sandbox.sh_outside(&format!("{line} {after}")).succeeds();
        }
    }
}

#[test]
fn helpers_are_not_found_through_path_or_the_working_directory() {
    let sandbox = Sandbox::new();
    for name in ["landstrip-broker", "landstrip-proxy"] {
        sandbox.program(format!("work/{name}"), "#!/bin/sh\necho fake\n");
    }
    let path = format!("{}:/usr/bin:/bin", sandbox.name("work"));
    let sandbox = sandbox.env("PATH", path);
    let outcome = sandbox.run(["echo", "real"]);
    outcome.succeeds();
    assert_eq!(outcome.stdout, "real\n");
}

#[test]
fn a_launcher_without_its_broker_runs_nothing() {
    let sandbox = Sandbox::new();
    let alone = sandbox.dir("alone").join("landstrip");
    copy_program(programs().landstrip(), &alone);
    let words = [
        alone.into_os_string(),
        "-p".into(),
        sandbox.file("policy.json", "{}").into(),
        "--".into(),
        "touch".into(),
        "made".into(),
    ];
    let outcome = sandbox.run_outside(words);
    outcome.exits(125);
    assert!(!sandbox.path("work/made").exists());
}

#[test]
fn a_policy_file_in_the_working_directory_is_not_taken() {
    let sandbox = Sandbox::new().without_policy();
    let allow = r#"{"filesystem":{"allowWrite":["/"]},"network":{"allowNetwork":true}}"#;
    for name in ["policy.json", ".landstrip.json", "landstrip.json", "landstrip.yaml"] {
        sandbox.file(format!("work/{name}"), allow);
    }
    let peer = TcpListener::bind("127.0.0.1:0").unwrap();
    sandbox.probe(connect_to(&peer)).refused("connect4");
}

fn connect_to(peer: &TcpListener) -> String {
    format!("connect4 127.0.0.1 {}", peer.local_addr().unwrap().port())
}

#[test]
fn the_users_policy_is_taken_and_the_variable_comes_first() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user).without_policy();
        sandbox.dir("home/.config");
        sandbox.dir("home/.config/landstrip");
        let open = r#"{"network":{"allowNetwork":true}}"#;
        sandbox.file("home/.config/landstrip/policy.json", open);
        let peer = TcpListener::bind("127.0.0.1:0").unwrap();
        sandbox.probe(connect_to(&peer)).allowed("connect4");
        let strict = sandbox.file("strict.json", r#"{"filesystem":{}}"#);
        let sandbox = sandbox.env("LANDSTRIP_POLICY", strict);
        sandbox.probe(connect_to(&peer)).refused("connect4");
    });
}

#[test]
fn variables_do_not_weaken_the_sandbox() {
    let names = [
        "LANDSTRIP_DISABLE",
        "LANDSTRIP_DEBUG",
        "LD_PRELOAD",
        "LD_LIBRARY_PATH",
        "SANDBOX",
        "NO_SANDBOX",
        "LANDSTRIP_BROKER",
        "GCONV_PATH",
        "RUST_LOG",
        "RUST_BACKTRACE",
    ];
    let mut sandbox = Sandbox::new();
    for name in names {
        let value = sandbox.name("work/evil");
        sandbox = sandbox.env(name, value);
    }
    let before = Snapshot::of(sandbox.path("outside"));
    sandbox.probe(format!("file creat {}", sandbox.name("outside/x"))).all_refused();
    before.unchanged();
}

#[test]
fn a_sandbox_inside_a_sandbox_is_enforced_or_refused_never_weaker() {
    let outer = Sandbox::new().allow_write(".");
    let inner = outer.file("inner.json", r#"{"filesystem":{"allowWrite":["/"]}}"#);
    let landstrip = programs().landstrip();
    let out = outer.name("outside/made");
    let words = [
        landstrip.into_os_string(),
        "-p".into(),
        inner.into(),
        "--".into(),
        "sh".into(),
        "-c".into(),
        format!("echo x > {out}").into(),
    ];
    let outcome = outer.run(words);
    assert_ne!(outcome.status, Some(0), "{outcome:#?}");
    assert!(!outer.path("outside/made").exists());
}

/// Runs landstrip with `options` where a system call fails with `errno`, as on a kernel that lacks it; `call` is
/// its number, or `NUMBER:INDEX:BITS` where that argument must have such a bit.
fn landstrip_without(call: &str, errno: i32, options: &[&str]) -> (Sandbox, Outcome) {
    let sandbox = Sandbox::new().allow_write(".");
    let outcome = run_without(&sandbox, (call, errno), options);
    (sandbox, outcome)
}

/// The same in a sandbox of the caller's.
fn run_without(sandbox: &Sandbox, (call, errno): (&str, i32), options: &[&str]) -> Outcome {
    let mut words = vec![programs().probe().into_os_string()];
    words.extend(["without".into(), call.into(), errno.to_string().into()]);
    words.extend(sandbox.command_line());
    words.extend(options.iter().map(Into::into));
    sandbox.run_outside(words)
}

/// The call that installs a filter for which handled signals wait (Linux 5.19).
fn waiting_filter() -> String {
    format!("{}:1:{}", libc::SYS_seccomp, libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV)
}

#[test]
fn a_kernel_that_cannot_confine_runs_nothing_and_the_reason_is_said() {
    let [enosys, einval, eopnotsupp, ebusy, eperm] = [38, 22, 95, 16, 1];
    let [landlock_create, landlock_add, landlock_restrict] = ["444", "445", "446"];
    // It tells its version, and takes no attributes.
    let attributes = "444:0:0xffffffff";
    let seccomp = &libc::SYS_seccomp.to_string();
    for (call, errno, words) in [
        (landlock_create, enosys, "built without Landlock"),
        (landlock_create, eopnotsupp, "Landlock is not enabled at boot"),
        (attributes, einval, "its Landlock lacks rules for files (Linux 5.13)"),
        (landlock_add, enosys, "grant"),
        (landlock_restrict, enosys, "Landlock"),
        (seccomp, einval, "lacks seccomp user notification"),
        (seccomp, enosys, "lacks seccomp user notification"),
        (seccomp, ebusy, "listener exists"),
        (seccomp, eperm, "inside another sandbox"),
    ] {
        let (sandbox, outcome) = landstrip_without(call, errno, &["touch", "made"]);
        outcome.is_error(125, "Internal", words);
        assert!(!sandbox.path("work/made").exists(), "{outcome:#?}");
        // With no tool that would meet the filter.
        if call.starts_with(landlock_create) {
            landstrip_without(call, errno, &["--check"]).1.is_error(125, "Internal", words);
        }
        let outcome = landstrip_without(call, errno, &["--doctor"]).1;
        assert_eq!(outcome.status, Some(125), "{outcome:#?}");
        assert!(outcome.stderr.contains(words), "{outcome:#?}");
    }
    // The twin: a call that nobody needs.
    let (sandbox, outcome) = landstrip_without("9999", enosys, &["touch", "made"]);
    outcome.succeeds();
    assert!(sandbox.path("work/made").exists());
}

#[test]
fn a_run_ends_where_the_filter_around_it_refuses_kill() {
    for errno in [libc::EPERM, libc::ENOSYS] {
        let (sandbox, outcome) =
            landstrip_without(&libc::SYS_kill.to_string(), errno, &["touch", "made"]);
        outcome.succeeds();
        assert!(sandbox.path("work/made").exists());
    }
}

/// Makes and removes entries beside a denied file while signals are handled all the time. The same call again has the
/// same registers, as in C.
const INTERRUPTED: &str = "
import ctypes, os, signal, sys
turns, restarts = int(sys.argv[1]), sys.argv[2] == 'restarts'
handled, interrupted, wrong, failed = 0, 0, {}, 0
def handle(*_):
    global handled
    handled += 1
signal.signal(signal.SIGALRM, handle); signal.siginterrupt(signal.SIGALRM, not restarts)
libc = ctypes.CDLL(None, use_errno=True)
names = {name: ctypes.create_string_buffer(name.encode()) for name in ('d', 'd/g', 'd/s', 'f', 'g')}
def call(function, *words):
    global interrupted
    words = [names.get(word, word) for word in words]
    while True:
        ctypes.set_errno(0); result = getattr(libc, function)(*words); error = ctypes.get_errno()
        if result >= 0: return result
        if error != 4: wrong[function, error] = wrong.get((function, error), 0) + 1; return result
        interrupted += 1
signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
for turn in range(turns):
    call('mkdir', 'd', 0o700)
    call('close', call('open', 'f', os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    call('rename', 'f', 'd/g'); call('link', 'd/g', 'f'); call('symlink', 'g', 'd/s'); call('unlink', 'd/s')
    call('renameat2', -100, 'd/g', -100, 'f', 2)
    call('unlink', 'd/g'); call('unlink', 'f'); call('rmdir', 'd')
    if wrong:
        # One call that was done twice has those after it fail.
        failed += 1; last = dict(wrong); wrong.clear()
        for name in 'd/g', 'd/s', 'd', 'f', 'g':
            try: (os.rmdir if name == 'd' else os.unlink)(name)
            except OSError: pass
signal.setitimer(signal.ITIMER_REAL, 0)
try: open('.env', 'w'); print('.env written')
except PermissionError: pass
# An answer that is sent while the caller wakes up for a signal is lost without the broker's knowing: seldom, for one of
# some hundred signals on busy processors. If the broker did not look for lost ones, most signals would come to that.
print(handled > 0, interrupted > 0, failed * 20 < handled or (failed, handled, last), sorted(os.listdir()))
";

#[test]
fn a_call_that_a_signal_interrupts_when_it_is_done_is_done_once_on_kernels_where_signals_do_not_wait()
 {
    for_each_user(|user| {
        for (ends, interrupted) in [("restarts", "False"), ("returns", "True")] {
            let sandbox = Sandbox::of(user).allow_write(".").deny_write(".env");
            sandbox.file("work/.env", "kept");
            let command = ["python3", "-c", INTERRUPTED, "3000", ends];
            let outcome = run_without(&sandbox, (&waiting_filter(), libc::EINVAL), &command);
            let expected = format!("True {interrupted} True ['.env']\n");
            let stdout = &outcome.succeeds().stdout;
            assert!(stdout.ends_with(&expected) && !stdout.contains("written"), "{outcome:#?}");
            assert_eq!(std::fs::read_to_string(sandbox.path("work/.env")).unwrap(), "kept");
        }
    });
}

#[test]
fn a_question_at_the_terminal_needs_a_kernel_where_signals_wait() {
    let options = ["--ask", "terminal", "--", "touch", "made"];
    let (sandbox, outcome) = landstrip_without(&waiting_filter(), libc::EINVAL, &options);
    outcome.is_error(2, "Usage", "--ask terminal needs Linux 5.19");
    assert!(!sandbox.path("work/made").exists());
}

#[test]
fn hostile_names_give_one_valid_line_each() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user).trap();
        let outside = sandbox.path("outside");
        let names: [&[u8]; 6] = [
            b"esc\x1b[31m",
            b"new\nline",
            b"quo\"te",
            b"back\\slash",
            b"bad\xff\xfeutf",
            b"tab\tand\rreturn",
        ];
        for name in names {
            let mut path = outside.clone().into_os_string().into_vec();
            path.push(b'/');
            path.extend_from_slice(name);
            let path = std::ffi::OsString::from_vec(path);
            let outcome = sandbox.run(["mkdir".into(), path]);
            outcome.fails();
            // Every line has parsed, or the fixture would have panicked.
            assert!(!outcome.traps.is_empty(), "no report for {name:?}: {outcome:#?}");
            let raw = sandbox.read("trap");
            assert!(!raw.contains('\x1b'), "an escape sequence reached the report");
        }
    });
}

#[test]
fn a_command_name_with_control_characters_gives_one_valid_line() {
    let sandbox = Sandbox::of(User::Caller);
    let outcome = sandbox.run(["/nonexistent/\x1b[31m\n\"x"]);
    outcome.is_error(127, "Launch", "nonexistent");
    assert!(!outcome.stderr.contains('\x1b'));
}

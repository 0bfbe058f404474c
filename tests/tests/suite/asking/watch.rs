//! `--watch`: what runs are refused is shown in another terminal as it happens, by runs alone.

use tests::{ESCAPED, Running, Sandbox, Terminal, User, eventually, for_each_user, is_root_for};

fn watch(sandbox: &Sandbox, words: &str) -> Terminal {
    let mut watch = Terminal::of(sandbox);
    watch.type_in(&format!("${{L%% *}} --watch {words}; echo st\"\"atus=$?\n"));
    watch.expect("landstrip: watching");
    watch
}

fn sandbox(user: User) -> Sandbox {
    Sandbox::of(user).allow_write(".")
}

/// What a busy machine is late to tell is told another time.
fn refused_all_the_time(sandbox: &Sandbox) -> Running {
    let script = "echo x > begun
        until [ -e end ]; do echo x > ~/a; echo x > ~/\"$(printf 'b\\033[2J')\"; sleep 0.1; done 2>/dev/null";
    sandbox.spawn(["bash", "-c", script])
}

#[test]
fn what_a_run_is_refused_is_shown_wherever_somebody_watches() {
    for_each_user(|user| {
        let sandbox = sandbox(user);
        let all = [watch(&sandbox, ""), watch(&sandbox, "")];
        let mut another = watch(&sandbox, "$$");
        let place = sandbox.name("home");
        let running = refused_all_the_time(&sandbox);
        for name in ["a", "b\\u{1b}[2J"] {
            let line = format!(": refused to write \"{place}/{name}\"\r\n");
            for watch in &all {
                let is_shown = || watch.all().contains(&line);
                assert!(eventually(is_shown), "{line}: {}", watch.all());
            }
        }
        all.iter().for_each(|watch| assert!(!watch.all().contains("/work/"), "{}", watch.all()));
        sandbox.file("work/end", "");
        let outcome = running.wait();
        // It was another run that this one was to watch.
        another.type_in("\x03");
        another.expect("status=0\r\n");
        assert!(!another.all().contains("refused"), "{}", another.all());
        // Reports are what they are without.
        assert_eq!(outcome.reports_of("Filesystem").len(), 2, "{outcome:#?}");
    });
}

#[test]
fn a_run_that_was_there_before_is_watched_too() {
    for_each_user(|user| {
        let sandbox = sandbox(user);
        let running = refused_all_the_time(&sandbox);
        assert!(eventually(|| sandbox.path("work/begun").exists()));
        let mut watch = watch(&sandbox, "");
        watch.expect("refused to write \"");
        sandbox.file("work/end", "");
        running.wait().succeeds();
        assert!(!sandbox.path("home/a").exists(), "{ESCAPED}");
    });
}

/// Connects, and says what a run would.
const IMPOSTOR: &str = r#"
import glob, json, os, socket
for name in glob.glob(os.path.expanduser('~/.cache/landstrip/watch-*')):
    s = socket.socket(socket.AF_UNIX)
    s.connect(name)
    name = json.loads(s.recv(4096))['make']
    try: open(os.path.expanduser('~/.cache/landstrip/' + name), 'x')
    except OSError as e: print(e.errno)
    s.sendall(b'{"made":"' + name.encode() + b'"}\n{"ask":1,"text":"is this genuine?\\n"}\n')
    print(s.recv(4096))
"#;

#[test]
fn no_sandbox_is_heard_by_a_watcher() {
    for_each_user(|user| {
        let sandbox = sandbox(user).allow_write("../home").allow_all_unix_sockets();
        sandbox.dir("home/.cache");
        let mut watch = watch(&sandbox, "");
        let outcome = sandbox.run(["python3", "-c", IMPOSTOR]);
        assert_eq!(outcome.stdout, "13\nb''\n", "{ESCAPED}{outcome:#?}");
        let script = "until [ -e end ]; do echo x > ../outside/x; sleep 0.1; done 2>/dev/null";
        let running = sandbox.spawn(["bash", "-c", script]);
        watch.expect(&format!("refused to write \"{}/x\"", sandbox.name("outside")));
        sandbox.file("work/end", "");
        running.wait().succeeds();
        assert!(!watch.all().contains("genuine"), "{ESCAPED}{}", watch.all());
    });
}

/// Connects as often as it may, and says nothing.
const CROWD: &str = r#"
import glob, os, socket, time
all = []
for _ in range(200):
    all.append(socket.socket(socket.AF_UNIX))
    all[-1].connect(glob.glob(os.path.expanduser('~/.cache/landstrip/watch-*'))[0])
open('crowded', 'w')
while not os.path.exists('end'): time.sleep(0.05)
"#;

#[test]
fn a_sandbox_that_connects_and_says_nothing_keeps_no_run_from_a_watcher() {
    for_each_user(|user| {
        let sandbox = sandbox(user).allow_all_unix_sockets();
        sandbox.dir("home/.cache");
        let mut watch = watch(&sandbox, "");
        let crowd = sandbox.spawn(["python3", "-c", CROWD]);
        assert!(eventually(|| sandbox.path("work/crowded").exists()));
        let running = refused_all_the_time(&sandbox);
        watch.expect(&format!("refused to write \"{}/a\"", sandbox.name("home")));
        sandbox.file("work/end", "");
        running.wait().succeeds();
        crowd.wait().succeeds();
    });
}

/// In a mount namespace, so that the directory is the test's own.
#[test]
fn runs_are_watched_from_the_directory_of_the_user_s_sockets_and_no_sandbox_writes_there() {
    if !is_root_for("a mount namespace") {
        return;
    }
    let sandbox = Sandbox::new().allow_write("/run/user/0");
    let line: Vec<_> =
        sandbox.command_line().iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let script = "mount -t tmpfs none /run/user && mkdir -m 700 /run/user/0 && export XDG_RUNTIME_DIR=/run/user/0
        { until [ -e end ]; do sleep 0.05; done; } | \"$1\" --watch > watched & watch=$!
        until [ -S /run/user/0/landstrip/watch-* ]; do sleep 0.01; done
        unset XDG_RUNTIME_DIR
        until grep -q 'refused to write \"/run/user/0/landstrip/mine\"' watched; do
        \"$@\" -- sh -c 'echo x > /run/user/0/mine; echo x > /run/user/0/landstrip/mine; mv /run/user/0/landstrip /run/user/0/x'
        done
        kill $watch; : > end; wait; ls /run/user/0 /run/user/0/landstrip";
    let words = ["unshare", "-m", "sh", "-c", script, "sh"].map(str::to_owned);
    let outcome = sandbox.run_outside(words.into_iter().chain(line));
    assert_eq!(
        outcome.succeeds().stdout,
        "/run/user/0:\nlandstrip\nmine\n\n/run/user/0/landstrip:\n",
        "{ESCAPED}{outcome:#?}"
    );
}

//! The answer "always": the rule is written into the policy that the run has it from, or it is said why not.

use super::terminal::{KEYS, ask, is_there, sandbox};
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use tests::{ESCAPED, Sandbox, Terminal, User, for_each_user, skipped};

#[test]
fn always_is_written_into_the_policy_after_its_line_was_shown() {
    for_each_user(|user| {
        let sandbox = sandbox(user);
        let text = "# mine\nfilesystem:\n  allowWrite:\n    - .  # here\n  denyRead: [~/.ssh]\n";
        let policy = sandbox.file("mine.yaml", text);
        fs::set_permissions(&policy, Permissions::from_mode(0o640)).unwrap();
        let sandbox = sandbox.options(["-p", policy.to_str().unwrap()]);
        let mut terminal = ask(&sandbox, "echo x > ~/.npm/a && echo y > ~/.npm/denied");
        terminal.type_in("a\n");
        terminal.expect("  this is to be written:\r\n  \"    - \\\"~/.npm\\\"  # allowed on ");
        terminal.expect("y write it, n ask again? ");
        terminal.type_in("n\n");
        terminal.expect(KEYS);
        assert_eq!(sandbox.read("mine.yaml"), text);
        terminal.type_in("a\n");
        terminal.expect("n ask again? ");
        terminal.type_in("y\n");
        terminal.expect("mine.yaml\"\r\n");
        terminal.expect("\nstatus=2\r\n");
        let written = sandbox.read("mine.yaml");
        let line = written.lines().find(|line| line.contains(".npm")).unwrap();
        assert!(line.starts_with("    - \"~/.npm\"  # allowed on 20"), "{written}");
        assert_eq!(written.replace(&format!("{line}\n"), ""), text);
        assert_eq!(fs::metadata(&policy).unwrap().permissions().mode() & 0o777, 0o640);
        assert!(!is_there(&sandbox, "denied"), "{ESCAPED}");
        // And nothing is left where it was made, but what the directory is.
        let left = fs::read_dir(sandbox.path("home/.cache/landstrip")).unwrap();
        assert!(
            left.flatten().all(|entry| !entry.file_name().to_string_lossy().contains("policy"))
        );
        sandbox.sh("echo z > ~/.npm/later").succeeds();
    });
}

#[test]
fn a_policy_is_not_written_that_others_can_change_or_that_nobody_can_tell_how() {
    for_each_user(|user| {
        for (text, mode, why) in [
            ("filesystem:\n  allowWrite:\n    - .\n", 0o666, "others can change it"),
            ("filesystem:\n  allowWrite: |\n    .\n", 0o600, "changed by hand only"),
        ] {
            let sandbox = sandbox(user);
            let policy = sandbox.file("mine.yaml", text);
            fs::set_permissions(&policy, Permissions::from_mode(mode)).unwrap();
            let sandbox = sandbox.options(["-p", policy.to_str().unwrap()]);
            let mut terminal = ask(&sandbox, "echo x > ~/.npm/a");
            terminal.type_in("a\n");
            terminal.expect(why);
            terminal.expect(KEYS);
            terminal.type_in("y\n");
            terminal.expect("\nstatus=0\r\n");
            assert_eq!(sandbox.read("mine.yaml"), text);
            assert_eq!(sandbox.read("home/.npm/a"), "x\n");
        }
    });
}

/// As a pattern it would name another directory.
#[test]
fn always_keeps_no_rule_that_the_working_directory_makes_a_pattern() {
    for_each_user(|user| {
        for (directory, status) in [("[x]", "cannot be written"), ("x", "this is to be written")] {
            let sandbox = sandbox(user);
            sandbox.dir(format!("work/{directory}"));
            let text = "filesystem:\n  allowWrite: [~/.npm]\n";
            let policy = sandbox.file("mine.yaml", text);
            let sandbox = sandbox.options(["-p", policy.to_str().unwrap()]).without_policy();
            let mut terminal = Terminal::of(&sandbox);
            let run = "$L --ask terminal -- sh -c 'echo x > made'; echo st\"\"atus=$?\n";
            terminal.type_in(&format!("cd '{directory}'; {run}"));
            terminal.expect(KEYS);
            terminal.type_in("a\n");
            terminal.expect(status);
            terminal.expect("? ");
            terminal.type_in("\x03");
            terminal.expect("status=");
            assert_eq!(sandbox.read("mine.yaml"), text);
        }
    });
}

/// Where none can be kept, the rule holds for the run alone.
#[track_caller]
fn is_not_kept(sandbox: &Sandbox, why: &str) {
    let mut terminal = ask(sandbox, "echo x > ~/.npm/a; echo y > ~/.npm/b");
    assert!(!terminal.all().contains("a always"), "{}", terminal.all());
    assert!(
        terminal.all().contains(&format!("cannot be made permanent: {why}")),
        "{}",
        terminal.all()
    );
    terminal.type_in("a\n");
    terminal.expect("it cannot be written: ");
    terminal.expect(KEYS);
    terminal.type_in("r\n");
    terminal.expect("\nstatus=0\r\n");
    assert_eq!(["a", "b"].map(|name| is_there(sandbox, name)), [true, true]);
}

#[test]
fn always_says_what_to_do_where_only_a_preset_or_no_policy_is_in_force() {
    for_each_user(|user| {
        let sandbox = self::sandbox(user).without_policy();
        let why = "there is no policy file; landstrip --init writes one";
        is_not_kept(&sandbox, why);
        let sandbox = self::sandbox(user).without_policy().options(["-p", "offline-test"]);
        is_not_kept(&sandbox, "no policy file is in force; name one with -p");
        // What the line says: one that extends the preset.
        let sandbox = self::sandbox(user).without_policy();
        let policy = sandbox.file("mine.yaml", "extends: offline-test\n");
        let sandbox = sandbox.options(["-p", policy.to_str().unwrap()]);
        let mut terminal = ask(&sandbox, "echo x > ~/.npm/a");
        for (typed, then) in [("a\n", "n ask again? "), ("y\n", "\nstatus=0\r\n")] {
            terminal.type_in(typed);
            terminal.expect(then);
        }
        let written = sandbox.read("mine.yaml");
        assert!(written.contains("allowWrite:\n    - \"~/.npm\"  # allowed on "), "{written}");
    });
}

/// In this run an answer lets it be removed; a rule for its path would not in another.
#[test]
fn always_is_not_offered_for_what_no_rule_for_the_path_would_help() {
    for_each_user(|user| {
        for (script, is_kept) in [
            ("rm -f ~/docs/a", false),
            ("echo x > ~/docs/sedw8Rt0K", false),
            ("echo x > ~/docs/a", true),
        ] {
            let sandbox = sandbox(user);
            sandbox.dir("home/docs");
            sandbox.file("home/docs/a", "kept");
            let mut terminal = ask(&sandbox, script);
            let asked = terminal.all();
            assert_eq!(asked.contains("a always (in"), is_kept, "{asked}");
            assert_eq!(asked.contains("a rule helps this run only"), !is_kept, "{asked}");
            terminal.type_in("a\n");
            terminal.expect(if is_kept { "n ask again? " } else { "it cannot be written: " });
            terminal.expect(if is_kept { "" } else { KEYS });
            terminal.type_in(if is_kept { "y\n" } else { "r\n" });
            terminal.expect("\nstatus=0\r\n");
            assert_eq!(sandbox.read("policy.json").contains("docs"), is_kept);
        }
    });
}

/// A file that takes the place of another has to come from the same file system.
#[test]
fn always_says_what_to_do_where_the_policy_is_on_another_file_system() {
    for_each_user(|user: User| {
        let sandbox = sandbox(user);
        let place = Sandbox::beneath("/dev/shm", user);
        let text = "filesystem:\n  allowWrite: [.]\n";
        let policy = place.file("mine.yaml", text);
        fs::set_permissions(&policy, Permissions::from_mode(0o600)).unwrap();
        let device = |path: &std::path::Path| fs::metadata(path).unwrap().dev();
        if device(&policy) == device(&sandbox.path("home")) {
            return skipped("/dev/shm is on the file system of the home");
        }
        let sandbox = sandbox.without_policy().options(["-p", policy.to_str().unwrap()]);
        let why = format!(
            "{:?} is on another file system than ~/.cache; add the rule by hand",
            policy.to_str().unwrap()
        );
        is_not_kept(&sandbox, &why);
        assert_eq!(place.read("mine.yaml"), text);
    });
}

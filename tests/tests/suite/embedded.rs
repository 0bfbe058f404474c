//! The three programs inside of one that embeds them (`clients/rust`, the feature `embedded`): executed from sealed memory,
//! with no file of landstrip's in reach.

use rustix::fs::{self as calls, SealFlags};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use tests::{Origin, Sandbox, User, copy_program, for_each_user, programs, skipped};

/// The example of the client, built around the programs under test; none where there is no Cargo.
fn built() -> Option<&'static Path> {
    static BUILT: OnceLock<Option<PathBuf>> = OnceLock::new();
    let built = BUILT.get_or_init(|| {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        if Command::new(&cargo).arg("--version").output().is_err() {
            skipped("there is no Cargo to build a program with that embeds landstrip");
            return None;
        }
        let test = std::env::current_exe().unwrap();
        let (triple, target) = (test.ancestors().nth(3).unwrap(), test.ancestors().nth(4).unwrap());
        // Others look whether anything beside the programs changes.
        let target = target.join("embedded");
        let mut command = Command::new(cargo);
        command.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap());
        command.args([
            "build",
            "--quiet",
            "--locked",
            "-p",
            "landstrip-client",
            "--example",
            "harness",
        ]);
        command.args(["--features", "embedded", "--target-dir"]).arg(&target);
        command.env("LANDSTRIP_PROGRAMS", &programs().dir);
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && !said.contains("warning"), "{said}");
        let triple = target.join(triple.file_name().unwrap());
        Some(triple.join("debug/examples/harness"))
    });
    built.as_deref()
}

/// A world that holds the program, by itself and by landstrip's name, and a policy.
fn world(user: User, policy: &str) -> Option<Sandbox> {
    let built = built()?;
    let world = Sandbox::of(user);
    copy_program(built, &world.dir("outside/bin").join("harness"));
    std::os::unix::fs::symlink("harness", world.path("outside/bin/landstrip")).unwrap();
    world.file("policy.json", policy);
    Some(world)
}

const HARNESS: &str = "../outside/bin/harness ../policy.json";
const BY_NAME: &str = "../outside/bin/landstrip";

#[test]
fn one_file_confines_files_and_hosts_and_leaves_no_other() {
    for_each_user(|user| {
        let origin = Origin::new("hello");
        let policy = r#"{"filesystem": {"allowWrite": ["."]}, "network": {"allowedDomains": ["127.0.0.1"]}}"#;
        let Some(world) = world(user, policy) else { return };
        let address = format!("http://127.0.0.1:{}/", origin.port());
        let script = format!(
            "echo x > made && ls /proc/self/fd && curl -sS {address} && \
             curl -s -o said -w '%{{http_code}}' http://denied.test/; echo x > ../outside/made || exit 7"
        );
        let before = fs::read_dir(world.path("outside/bin")).unwrap().count();
        let outcome =
            world.sh_outside(&format!("{HARNESS} sh -c '{}'", script.replace('\'', r"'\''")));
        outcome.exits(7);
        let refused = format!("refused: write {:?}\n", world.name("outside/made"));
        for text in ["0\n1\n2\n3\nhello", "403", "refused: connect \"denied.test:80\"\n", &refused]
        {
            assert!(outcome.stdout.contains(text), "{text}: {outcome:#?}");
        }
        assert!(world.read("work/said").contains("denied.test"));
        assert!(world.path("work/made").exists() && !world.path("outside/made").exists());
        assert_eq!(fs::read_dir(world.path("outside/bin")).unwrap().count(), before);
    });
}

#[test]
fn started_by_the_name_of_landstrip_it_is_landstrip() {
    for_each_user(|user| {
        let Some(world) = world(user, r#"{"filesystem": {"allowWrite": ["."]}}"#) else { return };
        let version = format!("landstrip {}\n", env!("CARGO_PKG_VERSION"));
        assert_eq!(world.sh_outside(&format!("{BY_NAME} --version")).stdout, version);
        let script = "echo x > made; echo x > ../outside/made";
        let outcome = world.sh_outside(&format!("{BY_NAME} -p ../policy.json -- sh -c '{script}'"));
        outcome.fails();
        assert_eq!(outcome.reports_of("Filesystem").len(), 1, "{outcome:#?}");
        assert!(world.path("work/made").exists() && !world.path("outside/made").exists());
        let usage = world.sh_outside(&format!("{BY_NAME} --bogus"));
        usage.exits(2);
        // It attacks a sandbox by executing itself inside of that.
        let doctor = world.sh_outside(&format!("{BY_NAME} -p ../policy.json --doctor"));
        doctor.succeeds();
        assert!(doctor.stdout.ends_with("everything holds\n"), "{doctor:#?}");
    });
}

#[test]
fn nobody_writes_to_the_memory_that_programs_are_executed_from() {
    for_each_user(|user| {
        let Some(world) = world(user, "{}") else { return };
        let mut words: Vec<_> = HARNESS.split(' ').collect();
        words.extend(["sh", "-c", "echo ready; until [ -e over ]; do sleep 0.02; done"]);
        let mut running = world.spawn_outside(words);
        running.expect("ready");
        let held = format!("/proc/{}/fd", running.pid());
        let all = SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL;
        let mut seen = Vec::new();
        for entry in fs::read_dir(held).unwrap() {
            let path = entry.unwrap().path();
            let name = fs::read_link(&path).unwrap_or_default().display().to_string();
            let Some(name) = name.strip_prefix("/memfd:landstrip") else { continue };
            seen.push(name.split([':', ' ']).next().unwrap().to_owned());
            let seals = calls::fcntl_get_seals(File::open(&path).unwrap()).unwrap();
            assert!(seals.contains(all), "{name}: {seals:?}");
            // By whoever may open it: the kernel knows no owner of the content here.
            let written = OpenOptions::new().write(true).open(&path);
            written.and_then(|mut file| file.write(b"x")).unwrap_err();
        }
        seen.sort();
        assert_eq!(seen, ["", "-broker", "-proxy"]);
        world.file("work/over", "");
        running.wait().succeeds();
    });
}

#[test]
fn the_example_is_the_readme_s() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../clients/rust");
    let example = fs::read_to_string(root.join("examples/harness.rs")).unwrap();
    let (_, code) = example.split_once("\n\n").unwrap();
    assert!(fs::read_to_string(root.join("README.md")).unwrap().contains(code));
}

//! The packages that `make dist` makes, each installed into a clean root, run there, and removed. LANDSTRIP_DIST
//! says where they are; without it these tests have nothing to do.

use super::container::bundle::Container;
use super::documents;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tests::{Origin, Sandbox, User, World, skipped};

/// What may be installed, in bytes.
const SIZE_MAX: u64 = 7 << 20;

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// The package whose name ends so.
fn package(end: &str) -> Option<PathBuf> {
    package_in("", end)
}

/// The same, of those in `part` of the directory.
fn package_in(part: &str, end: &str) -> Option<PathBuf> {
    let Some(dist) = std::env::var_os("LANDSTRIP_DIST").map(PathBuf::from) else {
        skipped("no packages: make dist, and say by LANDSTRIP_DIST where they are");
        return None;
    };
    let found = fs::read_dir(dist.join(part)).unwrap().map(|entry| entry.unwrap().path());
    let mut found: Vec<_> = found.filter(|path| path.to_str().unwrap().ends_with(end)).collect();
    assert_eq!(found.len(), 1, "{}: {found:?}", dist.display());
    found.pop()
}

#[track_caller]
fn succeeds(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Every path beneath `directory`, with the size of what is a file.
fn listed(directory: &Path) -> Vec<(PathBuf, u64)> {
    let mut all = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let metadata = path.symlink_metadata().unwrap();
        if metadata.is_dir() {
            all.extend(listed(&path));
        }
        all.push((path, if metadata.is_file() { metadata.len() } else { 0 }));
    }
    all.sort();
    all
}

/// A root without landstrip, what is in it, and what is installed by `install` then.
fn installed(name: &str, install: impl FnOnce(&Path)) -> Option<(Container, Vec<(PathBuf, u64)>)> {
    // Presets do not start where the home is the working directory.
    let container = Container::bare(name)?.env("HOME", "/home");
    container.applets(&["wget", "grep"]);
    let root = container.world.path("root");
    let before = listed(&root);
    install(&root);
    let size: u64 =
        listed(&root).iter().filter(|new| !before.contains(new)).map(|(_, size)| size).sum();
    assert!((1 << 20..SIZE_MAX).contains(&size), "{size} bytes");
    Some((container, before))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The launcher finds its helpers, enforces, reports, and refuses by its proxy.
fn works(container: &Container, program: &str) {
    let run = |words: &[&str]| -> Output { container.run(&[&[program], words].concat()) };
    let version = run(&["--version"]);
    assert_eq!(
        text(&version.stdout),
        format!("landstrip {}\n", env!("CARGO_PKG_VERSION")),
        "{version:?}"
    );
    let allowed = run(&["-p", "build", "--", "sh", "-c", "echo kept > made && cat made"]);
    assert_eq!(text(&allowed.stdout), "kept\n", "{allowed:?}");
    let denied = run(&["-p", "read-only", "--", "sh", "-c", "cat made; echo x > made; exit 9"]);
    assert_eq!(
        (denied.status.code(), text(&denied.stdout)),
        (Some(9), "kept\n".to_owned()),
        "{denied:?}"
    );
    assert!(
        text(&denied.stderr).contains(r#"{"Filesystem":["write","/work/made","seccomp"]}"#),
        "{denied:?}"
    );
    assert_eq!(fs::read_to_string(container.world.path("work/made")).unwrap(), "kept\n");
    // What was denied is allowed by a policy of one's own.
    container
        .world
        .file("root/etc/own.yaml", "extends: read-only\nfilesystem: {allowWrite: [/work/made]}\n");
    let own = run(&["-p", "/etc/own.yaml", "--", "sh", "-c", "echo own > made"]);
    assert!(own.status.success(), "{own:?}");
    assert_eq!(fs::read_to_string(container.world.path("work/made")).unwrap(), "own\n");
    let proxy = run(&["-p", "read-only", "--", "wget", "-q", "-O-", "http://denied.test/"]);
    assert!(
        text(&proxy.stderr).contains(r#"{"Network":["connect","denied.test:80","proxy"]}"#),
        "{proxy:?}"
    );
}

#[test]
fn an_archive_is_unpacked_runs_and_is_removed() {
    let Some(archive) = package("-linux.tar.gz") else { return };
    let tar = |root: &Path, words: &[&str]| {
        succeeds(Command::new("tar").arg("-C").arg(root).args(words).arg(&archive))
    };
    let install = |root: &Path| {
        fs::create_dir_all(root.join("usr/local")).unwrap();
        tar(&root.join("usr/local"), &["--strip-components=1", "-xzf"]);
    };
    let Some((container, _)) = installed("archive", install) else { return };
    works(&container, "/usr/local/bin/landstrip");
    let prefix = container.world.path("root/usr/local");
    for file in ["share/man/man1/landstrip.1", "share/bash-completion/completions/landstrip"] {
        assert!(prefix.join(file).exists(), "{file}");
    }
    // The same list is what uninstalling goes by.
    succeeds(
        Command::new(repository().join("packaging/uninstall"))
            .arg(&prefix)
            .current_dir(repository()),
    );
    let left: Vec<_> = listed(&prefix).into_iter().filter(|(path, _)| !path.is_dir()).collect();
    assert_eq!(left, []);
    assert!(!prefix.join("libexec/landstrip").exists());
}

#[test]
fn a_debian_package_is_installed_runs_and_is_removed() {
    let Some(deb) = package(".deb") else { return };
    let dpkg = |root: &Path, words: &[&str]| {
        let mut command = Command::new("dpkg");
        command.arg("--root").arg(root).arg("--force-script-chrootless").args(words);
        succeeds(command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin"));
    };
    let install = |root: &Path| {
        dpkg(root, &["--install", deb.to_str().unwrap()]);
    };
    let prepare = |root: &Path| {
        for directory in ["var/lib/dpkg/info", "var/lib/dpkg/updates", "var/log"] {
            fs::create_dir_all(root.join(directory)).unwrap();
        }
        fs::write(root.join("var/lib/dpkg/status"), "").unwrap();
    };
    let Some((container, _)) = installed("debian", |root| {
        prepare(root);
        install(root);
    }) else {
        return;
    };
    works(&container, "/usr/bin/landstrip");
    let root = container.world.path("root");
    assert!(root.join("usr/share/man/man5/landstrip-policy.5.gz").exists());
    dpkg(&root, &["--verify", "landstrip"]);
    dpkg(&root, &["--purge", "landstrip"]);
    assert!(!root.join("usr").exists(), "{:?}", listed(&root.join("usr")));
}

#[test]
fn an_image_runs_by_its_containerfile() {
    let Some(context) = package(&format!("image-{}", std::env::consts::ARCH)) else { return };
    let containerfile = fs::read_to_string(repository().join("packaging/Containerfile")).unwrap();
    let mut entry = None;
    let install = |root: &Path| {
        for line in containerfile.lines().filter(|line| !line.starts_with('#') && !line.is_empty())
        {
            match line.split_once(' ').unwrap() {
                ("FROM", "scratch") => {}
                ("COPY", words) => {
                    let (from, to) = words.split_once(' ').unwrap();
                    let to = root.join(to.trim_start_matches('/'));
                    fs::create_dir_all(&to).unwrap();
                    succeeds(
                        Command::new("cp").arg("-R").arg(context.join(from).join(".")).arg(to),
                    );
                }
                ("ENTRYPOINT", words) => {
                    entry = Some(serde_json::from_str::<Vec<String>>(words).unwrap())
                }
                other => panic!("{other:?}"),
            }
        }
    };
    let Some((container, _)) = installed("image", install) else { return };
    works(&container, &entry.unwrap()[0]);
    // As the documents tell to use it in another image.
    let harnesses = fs::read_to_string(repository().join("docs/harnesses.md")).unwrap();
    let copied = harnesses.lines().any(|line| line == "COPY --from=landstrip /usr/ /usr/");
    assert!(copied, "{harnesses}");
    let entry = harnesses.lines().find_map(|line| line.strip_prefix("ENTRYPOINT ")).unwrap();
    let entry: Vec<String> = serde_json::from_str(entry).unwrap();
    let mut words: Vec<&str> = entry.iter().map(String::as_str).collect();
    words.extend(["sh", "-c", "echo built > built && ! touch /work/../elsewhere"]);
    let built = container.run(&words);
    assert!(built.status.success(), "{built:?}");
    assert_eq!(fs::read_to_string(container.world.path("work/built")).unwrap(), "built\n");
}

/// What npm is told where `registry` is the one that it may ask.
fn npm(registry: &Origin, words: &str) -> String {
    let registry = format!("http://127.0.0.1:{}/", registry.port());
    format!(
        "cd ../home && npm_config_registry={registry} npm_config_update_notifier=false npm {words} --silent --no-audit --no-fund"
    )
}

/// A home with the package of npm in `node_modules`, of which no registry was asked for anything.
fn with_npm() -> Option<Sandbox> {
    let whole =
        package(&format!("/landstrip-{}-linux-{}.tgz", env!("CARGO_PKG_VERSION"), of_npm()))?;
    let sandbox = Sandbox::new();
    let registry = Origin::with(|_| Vec::new());
    sandbox.sh_outside(&npm(&registry, &format!("install {}", whole.display()))).succeeds();
    assert_eq!(registry.requests(), [""; 0]);
    Some(sandbox)
}

/// What npm calls this architecture.
fn of_npm() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "x64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// Where there is a registry, it is asked for the programs of each architecture, and does without those of others.
#[test]
fn packages_of_a_registry_of_npm_are_installed_together() {
    let Some(own) =
        package_in("registry", &format!("/landstrip-{}.tgz", env!("CARGO_PKG_VERSION")))
    else {
        return;
    };
    let platform = format!("/landstrip-linux-{}-{}.tgz", of_npm(), env!("CARGO_PKG_VERSION"));
    let platform = package_in("registry", &platform).unwrap();
    let sandbox = Sandbox::new();
    let registry = Origin::with(|_| Vec::new());
    let install = format!("install {} {}", own.display(), platform.display());
    sandbox.sh_outside(&npm(&registry, &install)).succeeds();
    let asked = registry.requests().join("\n");
    let other = ["linux-x64", "linux-arm64"].into_iter().find(|name| !name.ends_with(of_npm()));
    assert!(
        asked.contains(other.unwrap()) && !asked.contains(&format!("-{} ", of_npm())),
        "{asked}"
    );
    sandbox.sh_outside("../home/node_modules/.bin/landstrip -p build -- touch made").succeeds();
    assert!(sandbox.path("work/made").exists());
}

#[test]
fn a_package_of_npm_is_installed_runs_and_is_removed() {
    let Some(sandbox) = with_npm() else { return };
    let run = |words: &str| {
        sandbox.sh_outside(&format!("exec ../home/node_modules/.bin/landstrip {words}"))
    };
    let size: u64 = listed(&sandbox.path("home/node_modules")).iter().map(|(_, size)| size).sum();
    assert!(size < SIZE_MAX, "{size} bytes");
    assert_eq!(run("--version").stdout, format!("landstrip {}\n", env!("CARGO_PKG_VERSION")));
    run("-p build -- touch made").succeeds();
    let denied = run("-p read-only --trap-fd 3 -- rm made 3>trap");
    denied.fails();
    assert!(sandbox.read("work/trap").starts_with(r#"{"Filesystem":["write","#), "{denied:?}");
    run("-p read-only -- sh -c 'kill -TERM $$'").exits(128 + 15);
    sandbox.sh_outside("cd ../home && npm uninstall --silent --offline landstrip").succeeds();
    let left = listed(&sandbox.path("home/node_modules"));
    let of_npm = |path: &Path| path.is_dir() || path.ends_with(".package-lock.json");
    assert!(left.iter().all(|(path, _)| of_npm(path)), "{left:?}");
}

#[test]
fn a_wheel_is_installed_runs_and_is_removed() {
    let Some(wheel) = package(".whl") else { return };
    let sandbox = Sandbox::new();
    if sandbox.sh_outside("python3 -m venv ../home/venv").status != Some(0) {
        return skipped("python3 has no venv with pip");
    }
    let before = listed(&sandbox.path("home/venv"));
    let pip = |words: &str| {
        let pip = "exec ../home/venv/bin/pip --quiet --disable-pip-version-check";
        sandbox.sh_outside(&format!("{pip} {words}")).succeeds();
    };
    pip(&format!("install --no-index --no-compile {}", wheel.display()));
    let new = listed(&sandbox.path("home/venv"));
    let size: u64 = new.iter().filter(|new| !before.contains(new)).map(|(_, size)| size).sum();
    assert!((1 << 20..SIZE_MAX).contains(&size), "{size} bytes");
    let run = |words: &str| sandbox.sh_outside(&format!("exec ../home/venv/bin/{words}"));
    let version = format!("landstrip {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(run("landstrip --version").stdout, version);
    assert_eq!(run("python -B -m landstrip --version").stdout, version);
    run("landstrip -p build -- touch made").succeeds();
    let script = r#"
import asyncio, landstrip
from landstrip import aio
policy = {"filesystem": {"allowWrite": ["."]}}
command = ["sh", "-c", "echo x > made; echo x > ../outside/made; exit 7"]
for result in landstrip.run(command, policy=policy), asyncio.run(aio.run(command, policy=policy)):
    print(result.status, result.ended_by, [denial.target for denial in result.denials])
print(landstrip.program())
"#;
    sandbox.file("home/use.py", script);
    let ran = format!("7 tool ['{}']\n", sandbox.name("outside/made"));
    let program = format!("{}\n", sandbox.name("home/venv/bin/landstrip"));
    assert_eq!(run("python -B ../home/use.py").stdout, format!("{ran}{ran}{program}"));
    assert_eq!(sandbox.read("work/made"), "x\n");
    // Where an installer puts all into one directory.
    pip(&format!("install --no-index --no-compile --target ../home/beside {}", wheel.display()));
    let beside = sandbox.sh_outside("PYTHONPATH=../home/beside exec python3 -B ../home/use.py");
    let program = format!("{}\n", sandbox.name("home/beside/bin/landstrip"));
    assert_eq!(beside.stdout, format!("{ran}{ran}{program}"), "{beside:?}");
    pip("uninstall --yes landstrip");
    let left = listed(&sandbox.path("home/venv"));
    let new: Vec<_> = left.iter().filter(|new| !before.contains(new)).collect();
    assert!(new.iter().all(|(path, _)| path.is_dir()), "{new:?}");
}

/// A container of this host's programs in which nothing of landstrip is, but its packages in `/dist`.
fn fresh(name: &str, of: &Path) -> Option<Container> {
    let container = Container::of_this_host(name)?.with(of.parent().unwrap(), "/dist");
    Some(container.env("HOME", "/tmp").env("PIP_DISABLE_PIP_VERSION_CHECK", "1").seconds(300))
}

/// Runs a shell's commands there, which install and use a package and print what the uses below do.
fn installs_and_runs(container: &Container, script: &str) {
    let output = container.run(&["bash", "-euc", script]);
    let version = env!("CARGO_PKG_VERSION");
    let expected = format!("landstrip {version}\n7 [\"/work/outside\"]\n");
    assert_eq!(text(&output.stdout), expected, "{output:?}");
    assert!(output.status.success(), "{output:?}");
    let there =
        ["project/made", "outside"].map(|it| container.world.path("work").join(it).exists());
    assert_eq!(there, [true, false], "{output:?}");
}

#[test]
fn pip_installs_the_wheel_in_a_fresh_container() {
    let Some(wheel) = package(".whl") else { return };
    let Some(container) = fresh("pip", &wheel) else { return };
    if !container.run(&["/usr/bin/python3", "-m", "venv", "/work/venv"]).status.success() {
        return skipped("/usr/bin/python3 has no venv with pip");
    }
    let script = r#"
        mkdir project && cd project
        ../venv/bin/pip install --quiet --no-index --no-compile /dist/*.whl
        PATH=/work/venv/bin:$PATH
        landstrip --version
        python3 -B -c 'import json, landstrip
result = landstrip.run(["sh", "-c", "touch made ../outside; exit 7"], policy="build")
print(result.status, json.dumps([denial.target for denial in result.denials]))'
        pip uninstall --quiet --yes landstrip && [ ! -e ../venv/bin/landstrip ]"#;
    installs_and_runs(&container, script);
}

#[test]
fn npm_installs_its_package_in_a_fresh_container() {
    let name = format!("/landstrip-{}-linux-{}.tgz", env!("CARGO_PKG_VERSION"), of_npm());
    let Some(whole) = package(&name) else { return };
    let Some(container) = fresh("npm", &whole) else { return };
    if !container.run(&["npm", "--version"]).status.success() {
        return skipped("npm is not in /usr");
    }
    let script = r#"
        mkdir project && cd project
        export npm_config_cache=/work/cache
        npm install --silent --offline --no-audit --no-fund --prefix .. /dist/landstrip-*-linux-*.tgz
        PATH=/work/node_modules/.bin:$PATH
        landstrip --version
        node -e 'require("landstrip").run(["sh", "-c", "touch made ../outside; exit 7"], { policy: "build" })
            .then(({ status, denials }) => console.log(status, JSON.stringify(denials.map((it) => it.target))))' \
            2>/dev/null
        npm uninstall --silent --offline --prefix .. landstrip && [ ! -e ../node_modules/.bin/landstrip ]"#;
    installs_and_runs(&container, script);
}

/// With what Cargo has fetched to build these tests.
#[test]
fn cargo_adds_the_crate_in_a_fresh_container() {
    let Some(archive) = package("-linux.tar.gz") else { return };
    let rustc = Command::new("rustc").args(["--print", "sysroot"]).output();
    let (Ok(rustc), Some(home)) = (rustc, std::env::home_dir()) else {
        return skipped("there is no rustc");
    };
    let home = std::env::var_os("CARGO_HOME").map_or(home.join(".cargo"), PathBuf::from);
    let Some(container) = fresh("cargo", &archive) else { return };
    let container = container
        .with(text(&rustc.stdout).trim().as_ref(), "/rust")
        .with(&home, "/cargo")
        .with(repository(), "/landstrip")
        .env("CARGO_HOME", "/work/cargo")
        .env("PATH", "/rust/bin:/usr/bin");
    let program = r#"
        use landstrip_client::{Command, Policy};
        fn main() {
            let words = ["-c", "touch made ../outside; exit 7"];
            let policy = Policy { extends: vec!["build".into()], ..Default::default() };
            let command = Command::new("/work/programs/bin/landstrip", "sh").args(words).policy(policy).output();
            let outcome = command.unwrap().outcome;
            let denials: Vec<_> = outcome.denials.iter().map(|denial| &denial.target).collect();
            println!("{} {denials:?}", outcome.status);
        }"#;
    container.world.file("work/main.rs", program);
    let script = r#"
        mkdir cargo programs && tar -xzf /dist/*-linux.tar.gz --strip-components=1 -C programs
        ln -s /cargo/registry cargo
        for settings in /cargo/config*; do [ ! -e $settings ] || cp $settings cargo; done
        cargo new --quiet --vcs none user && cd user
        cargo add --quiet --offline --path /landstrip/clients/rust
        cp ../main.rs src
        cargo build --quiet --offline
        mkdir ../project && cd ../project
        ../programs/bin/landstrip --version
        ../user/target/debug/user"#;
    installs_and_runs(&container, script);
}

/// From nothing to a policy of one's own, with nothing but what a package holds.
#[test]
fn the_readme_s_commands_do_what_it_says_from_each_package() {
    let Some(deb) = package(".deb") else { return };
    let dist = deb.parent().unwrap();
    let image = package(&format!("image-{}", std::env::consts::ARCH)).unwrap();
    let world = World::new(tests::User::Caller);
    let readme = documents::document("README.md");
    let sessions = documents::blocks(&readme, "console");
    // As it tells, but somewhere else.
    let install = |tool: &str| {
        let mut told = readme.lines().filter_map(|line| line.strip_prefix("    "));
        let told = told.find(|line| line.starts_with(tool)).expect(tool);
        let place = world.dir(tool);
        let told = told.replace("/usr/local", place.to_str().unwrap());
        let mut command = Command::new("sh");
        command
            .args(["-c", &told])
            .current_dir(dist)
            .env("npm_config_prefix", &place)
            .env("npm_config_registry", "http://127.0.0.1:9/");
        succeeds(&mut command);
        place
    };
    let debian = world.dir("debian");
    succeeds(Command::new("dpkg-deb").arg("-x").arg(&deb).arg(&debian));
    for programs in [
        install("tar").join("bin"),
        install("npm").join("bin"),
        debian.join("usr/bin"),
        image.join("bin"),
    ] {
        let path = format!("{}:/usr/bin:/bin", programs.display());
        let sandbox = documents::home(tests::User::Caller).env("PATH", path);
        sessions.iter().for_each(|text| documents::session(&sandbox, text));
    }
}

#[test]
fn programs_run_commands_by_the_package_of_npm() {
    let Some(sandbox) = with_npm() else { return };
    let script = r#"
        const { run } = require("landstrip");
        (async () => {
            const told = [];
            const policy = { filesystem: { allowWrite: ["."] }, environment: { set: { MADE: "made" } } };
            const first = await run(["sh", "-c", "cat; echo $MADE > $MADE; echo x > ../outside/made; exit 7"],
                { policy, stdio: "pipe", input: "words", onDenial: (denial) => told.push(denial) });
            const second = await run(["rm", "made"], { policy: "read-only", stdio: "pipe" });
            const third = await run(["true"], { policy: ["agent", { filesystm: {} }], stdio: "pipe" });
            const fourth = await run(["sh", "-c", "kill -9 $$"], { policy: [], stdio: "ignore" });
            const controller = new AbortController();
            setTimeout(() => controller.abort(), 200);
            const fifth = await run(["sleep", "100"], { policy: "read-only", signal: controller.signal })
                .catch((error) => error.name);
            const sixth = await run("true").catch((error) => error.name);
            console.log(JSON.stringify([first, told, second, third, fourth, fifth, sixth]));
        })();
    "#;
    sandbox.file("home/use.js", script);
    let outcome = sandbox.sh_outside("TMPDIR=$PWD/../outside exec node ../home/use.js");
    outcome.succeeds();
    let result: Value = serde_json::from_str(&outcome.stdout).unwrap();
    let denied = |path: &str| {
        serde_json::json!([{ "kind": "filesystem", "operation": "write",
        "target": sandbox.name(path), "mechanism": "seccomp" }])
    };
    assert_eq!(
        (&result[0]["status"], &result[0]["stdout"]),
        (&7.into(), &"words".into()),
        "{result}"
    );
    assert_eq!(
        (&result[0]["denials"], &result[1]),
        (&denied("outside/made"), &denied("outside/made")),
        "{result}"
    );
    assert_eq!(
        (&result[2]["status"], &result[2]["denials"]),
        (&1.into(), &denied("work/made")),
        "{result}"
    );
    assert_eq!((&result[3]["status"], &result[3]["endedBy"]), (&125.into(), &"landstrip".into()));
    let message = result[3]["error"]["message"].as_str().unwrap();
    assert!(message.contains("unknown key 'filesystm'"), "{result}");
    assert_eq!(
        (&result[4]["status"], &result[5], &result[6]),
        (&137.into(), &"AbortError".into(), &"TypeError".into())
    );
    assert_eq!(sandbox.read("work/made"), "made\n");
    // What the policies were handed over in; the directory that those of runs lie in stays.
    let left = fs::read_dir(sandbox.path("outside")).unwrap().flatten();
    let left: Vec<_> = left.map(|entry| entry.file_name()).collect();
    let holder = User::Caller.holder();
    assert!(left.iter().all(|name| *name == *holder), "{left:?}");
    let holder = sandbox.path("outside").join(holder);
    assert_eq!(fs::read_dir(holder).map_or(0, Iterator::count), 0);
}

#[test]
fn packages_of_npm_run_no_script_and_download_nothing() {
    for name in ["packaging/npm/platform.json", "clients/javascript/package.json"] {
        let text = fs::read_to_string(repository().join(name)).unwrap();
        assert!(!text.contains("\"scripts\""), "{name}");
    }
    let client = repository().join("clients/javascript");
    let mut parts: Vec<_> = fs::read_dir(client.join("lib"))
        .unwrap()
        .map(|entry| format!("lib/{}", entry.unwrap().file_name().display()))
        .collect();
    for name in
        parts.iter().map(String::as_str).chain(["index.js", "sandbox-runtime.js", "bin/landstrip"])
    {
        let text = fs::read_to_string(client.join(name)).unwrap();
        // Keys of policies.
        let text = text.replace("httpProxyPort", "");
        for word in ["http", "fetch", "curl", "wget", "node:tls", "node:dgram", "node:net"] {
            // By Unix sockets alone.
            let asks = ["lib/ask-bridge.js", "lib/host-questions.js"].contains(&name);
            assert!(!text.contains(word) || asks && word == "node:net", "{name}: {word}");
        }
    }
    let own = package_in("registry", &format!("/landstrip-{}.tgz", env!("CARGO_PKG_VERSION")));
    let Some(own) = own else { return };
    let mut files = succeeds(Command::new("tar").arg("-tzf").arg(own))
        .lines()
        .map(str::to_owned)
        .collect::<Vec<_>>();
    files.sort_unstable();
    let expected = [
        "LICENSE",
        "README.md",
        "bin/landstrip",
        "index.d.ts",
        "index.js",
        "man/landstrip-caveats.7",
        "man/landstrip-policy.5",
        "man/landstrip.1",
        "package.json",
        "policy.d.ts",
        "sandbox-runtime.d.ts",
        "sandbox-runtime.js",
    ];
    parts.extend(expected.map(str::to_owned));
    parts.sort_unstable();
    assert_eq!(files, parts.iter().map(|name| format!("package/{name}")).collect::<Vec<_>>());
}

#[test]
fn make_installs_what_it_removes() {
    if package("SHA256SUMS").is_none() {
        return;
    }
    let world = World::new(tests::User::Caller);
    let root = world.dir("root");
    // What is built is there already.
    let make = |goal: &str| {
        let mut command = Command::new("make");
        let stage = format!("DESTDIR={}", root.display());
        command.current_dir(repository()).args(["-s", "-o", "all", goal, "PREFIX=/opt", &stage]);
        succeeds(&mut command);
    };
    make("install");
    let files = listed(&root);
    assert!(files.iter().any(|(path, _)| path.ends_with("opt/libexec/landstrip/landstrip-proxy")));
    assert!(
        files
            .iter()
            .all(|(path, _)| path.symlink_metadata().unwrap().permissions().mode() & 0o022 == 0)
    );
    let version = succeeds(Command::new(root.join("opt/bin/landstrip")).arg("--version"));
    assert_eq!(version, format!("landstrip {}\n", env!("CARGO_PKG_VERSION")));
    make("uninstall");
    assert!(listed(&root).iter().all(|(path, _)| path.is_dir()));
}

#[test]
fn packages_made_again_are_the_same() {
    let Some(sums) = package("SHA256SUMS") else { return };
    let world = World::new(tests::User::Caller);
    let again = world.dir("again");
    let mut command = Command::new("make");
    command
        .current_dir(repository())
        .args(["-s", "-o", "all", "dist"])
        .arg(format!("DIST={}", again.display()));
    succeeds(&mut command);
    assert_eq!(
        fs::read_to_string(again.join("SHA256SUMS")).unwrap(),
        fs::read_to_string(sums).unwrap()
    );
    // Nothing tells where it was built.
    for program in
        ["bin/landstrip", "libexec/landstrip/landstrip-broker", "libexec/landstrip/landstrip-proxy"]
    {
        let path = again.join(format!("image-{}", std::env::consts::ARCH)).join(program);
        let bytes = fs::read(&path).unwrap();
        assert!(path.metadata().unwrap().size() > 0);
        for place in [
            repository().to_str().unwrap().to_owned(),
            format!(
                "{}/registry",
                std::env::var("CARGO_HOME")
                    .unwrap_or_else(|_| format!("{}/.cargo", std::env::var("HOME").unwrap()))
            ),
        ] {
            let found = bytes.windows(place.len()).any(|window| window == place.as_bytes());
            assert!(!found, "{program} names {place}");
        }
    }
}

#[test]
fn the_version_has_its_place_in_the_changelog() {
    let changelog = fs::read_to_string(repository().join("CHANGELOG.md")).unwrap();
    let versions = changelog.lines().filter_map(|line| line.strip_prefix("## "));
    let newest = versions
        .map(|line| line.split(' ').next().unwrap())
        .find(|version| *version != "Unreleased");
    assert_eq!(newest, Some(env!("CARGO_PKG_VERSION")));
}

//! Programs that are written against the API of the Anthropic Sandbox Runtime, in a container with Docker's profile: with
//! landstrip's module they run, and nothing but the import is other; with the original, where that was fetched, they do not.

use super::bundle::Container;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use tests::{programs, skipped};

const ORIGINAL: &str = "@anthropic-ai/sandbox-runtime";
const OURS: &str = "landstrip/sandbox-runtime";

/// The example of the original's README, without its types; `COMMAND` stands for `curl https://example.com`.
const EXAMPLE: &str = "
import { SandboxManager } from 'PACKAGE'
import { spawn } from 'child_process'

// Define your sandbox configuration
const config = {
  network: {
    allowedDomains: ['example.com', 'api.github.com'],
    deniedDomains: [],
  },
  filesystem: {
    denyRead: ['~/.ssh'],
    allowWrite: ['.', '/tmp'],
    denyWrite: ['.env'],
  },
}

// Initialize the sandbox (starts proxy servers, etc.)
await SandboxManager.initialize(config)

// Wrap a command with sandbox restrictions
const sandboxedCommand = await SandboxManager.wrapWithSandbox(
  'COMMAND',
)

// Execute the sandboxed command
const child = spawn(sandboxedCommand, { shell: true, stdio: 'inherit' })

// Handle exit and cleanup after child process completes
child.on('exit', async code => {
  console.log(`Command exited with code ${code}`)
  // Cleanup when done (optional, happens automatically on process exit)
  await SandboxManager.reset()
})
";

/// What may be written is, and nothing else.
const WRITE: &str = "echo x > made; echo x > .env || exit 7";

/// What npm would have installed of landstrip.
fn installed(container: &Container) -> PathBuf {
    let modules = container.world.dir("modules");
    let npm = if cfg!(target_arch = "x86_64") { "linux-x64" } else { "linux-arm64" };
    let platform = modules.join("@landstrip").join(npm);
    fs::create_dir_all(&platform).unwrap();
    fs::write(platform.join("package.json"), "{}").unwrap();
    symlink("/programs", platform.join("bin")).unwrap();
    let client = Path::new(env!("CARGO_MANIFEST_DIR")).join("../clients/javascript");
    let mut copy = Command::new("cp");
    assert!(copy.arg("-R").arg(client).arg(modules.join("landstrip")).status().unwrap().success());
    modules
}

/// Runs the program of a kind in a directory that has a package; returns what it says on both streams.
fn run(container: &Container, program: &str) -> [String; 2] {
    let output = container.run(&["node", program]);
    [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap())
}

#[test]
fn a_program_for_the_sandbox_runtime_runs_where_the_original_does_not() {
    let Some(container) = Container::of_this_host("runtime") else { return };
    if !Path::new("/usr/bin/node").exists() {
        return skipped("there is no /usr/bin/node");
    }
    for (directory, package) in [("ours", OURS), ("original", ORIGINAL)] {
        container.world.dir(format!("root/{directory}"));
        for (name, command) in [("curl", "curl -sS https://example.com"), ("write", WRITE)] {
            let text = EXAMPLE.replace("PACKAGE", package).replace("COMMAND", command);
            container.world.file(format!("root/{directory}/{name}.mjs"), text);
        }
    }
    let modules = installed(&container);
    let container =
        container.with(&modules, "/ours/node_modules").with(&programs().dir, "/programs");
    let made = |container: &Container| {
        [".env", "made"].map(|name| container.world.path("work").join(name).exists())
    };

    let [said, told] = run(&container, "/ours/write.mjs");
    assert_eq!(said, "Command exited with code 7\n", "{told}");
    assert_eq!(made(&container), [false, true], "{told}");
    // The container has no network, which the proxy of the run says.
    let [said, told] = run(&container, "/ours/curl.mjs");
    assert_eq!(said, "Command exited with code 56\n", "{told}");

    let fetched = std::env::var_os("LANDSTRIP_FETCHED").unwrap_or_default();
    let fetched = Path::new(&fetched).join("node_modules");
    if !fetched.join(ORIGINAL).exists() {
        return skipped(&format!("LANDSTRIP_FETCHED names no directory with {ORIGINAL}"));
    }
    fs::remove_file(container.world.path("work/made")).unwrap();
    let container = container.with(&fetched, "/original/node_modules");
    let [said, told] = run(&container, "/original/write.mjs");
    assert_eq!(made(&container), [false, false], "{said}{told}");
    println!("{said}{told}");
}

//! The environment of the command: what of the caller's it gets, and that the rest is nowhere inside.

use tests::{Sandbox, for_each_user};

const SECRET: &str = "open-sesame";

/// Every value that the command finds: in its own environment and in that of each process that it sees.
const SEARCH: &str = "env; cat /proc/self/environ /proc/thread-self/environ /proc/[0-9]*/environ \
                      /proc/$PPID/task/*/environ 2>/dev/null | tr '\\0' '\\n'; true";

/// Policies under which files are read in different ways.
const READS: [&str; 4] = [
    "{}",
    r#"{"allowWrite":["."]}"#,
    r#"{"denyRead":["~/.ssh"]}"#,
    r#"{"allowWrite":["."],"denyRead":["secret"]}"#,
];

fn sandbox(user: tests::User, filesystem: &str, environment: &str) -> Sandbox {
    let policy = format!(r#"{{"filesystem":{filesystem},"environment":{environment}}}"#);
    let sandbox = Sandbox::of(user).policy_json(policy).env("GH_TOKEN", SECRET).env("KEPT", "kept");
    sandbox.file("work/secret", "");
    sandbox
}

#[test]
fn a_denied_variable_is_nowhere_inside() {
    for_each_user(|user| {
        for filesystem in READS {
            let denied = sandbox(user, filesystem, r#"{"deny":["*_TOKEN"]}"#);
            let outcome = denied.sh(SEARCH);
            outcome.succeeds();
            assert!(outcome.stdout.contains("KEPT=kept"), "{filesystem}: {outcome:#?}");
            assert!(!outcome.stdout.contains(SECRET), "{filesystem}: {outcome:#?}");
            assert!(!outcome.stdout.contains("GH_TOKEN"), "{filesystem}: {outcome:#?}");

            let allowed = sandbox(user, filesystem, "{}").sh("env");
            assert!(allowed.stdout.contains(SECRET), "{filesystem}: {allowed:#?}");
            assert!(denied.sh_outside(SEARCH).stdout.contains(SECRET), "{filesystem}");
        }
    });
}

#[test]
fn only_allowed_variables_are_passed_on() {
    // With the network there are no variables of landstrip's own.
    let run = |environment: &str| {
        let policy =
            format!(r#"{{"network":{{"allowNetwork":true}},"environment":{environment}}}"#);
        let sandbox = Sandbox::new().policy_json(policy);
        sandbox.env("GH_TOKEN", SECRET).env("KEPT", "kept").run(["env"])
    };
    // But for the directory that is made where the caller's may not be written.
    let own = ["TMPDIR", "TMPPREFIX", "JAVA_TOOL_OPTIONS"];
    let names = |environment: &str| {
        let outcome = run(environment);
        outcome.succeeds();
        let names = outcome.stdout.lines().filter_map(|line| line.split('=').next());
        let mut names: Vec<_> =
            names.filter(|name| !own.contains(name)).map(str::to_owned).collect();
        names.sort_unstable();
        names
    };
    assert_eq!(names(r#"{"allow":["PATH","K*","GH_*"],"deny":["GH_TOKEN"]}"#), ["KEPT", "PATH"]);
    assert_eq!(names(r#"{"allow":[]}"#), [""; 0]);
}

#[test]
fn set_variables_have_their_values_whatever_the_caller_has() {
    let environment = r#"{"deny":["KEPT"],"set":{"KEPT":"new","EMPTY":"","GH_TOKEN":"x=y z"}}"#;
    let outcome = sandbox(tests::User::Caller, "{}", environment).run(["env"]);
    let lines: Vec<_> = outcome.stdout.lines().collect();
    for line in ["KEPT=new", "EMPTY=", "GH_TOKEN=x=y z"] {
        assert_eq!(lines.iter().filter(|found| **found == line).count(), 1, "{line}: {outcome:#?}");
    }
    assert!(!outcome.stdout.contains(SECRET), "{outcome:#?}");
    assert!(lines.iter().any(|line| line.starts_with("PATH=")), "{outcome:#?}");
}

#[test]
fn the_tool_is_looked_for_in_the_path_that_is_set() {
    let sandbox = Sandbox::new();
    sandbox.dir("home/bin");
    sandbox.program("home/bin/own-tool", "#!/bin/sh\necho found\n");
    let path = sandbox.name("home/bin");
    let policy =
        sandbox.file("p.json", format!(r#"{{"environment":{{"set":{{"PATH":"{path}"}}}}}}"#));
    let policy = policy.to_str().unwrap();
    let outcome = sandbox.landstrip(["-p", policy, "own-tool"]);
    outcome.succeeds();
    assert_eq!(outcome.stdout, "found\n");
    sandbox.landstrip(["-p", policy, "env"]).exits(127);
}

#[test]
fn what_is_denied_does_not_come_in_with_the_words_for_the_proxies() {
    let run = |environment: &str| {
        let policy =
            format!(r#"{{"network":{{"allowedDomains":["a.test"]}},"environment":{environment}}}"#);
        let sandbox = Sandbox::new().policy_json(policy);
        sandbox.env("JAVA_TOOL_OPTIONS", format!("-Dkey={SECRET}")).run(["env"])
    };
    let denied = run(r#"{"deny":["JAVA_*"]}"#);
    assert!(denied.stdout.contains("JAVA_TOOL_OPTIONS=-Djava.io.tmpdir="), "{denied:#?}");
    assert!(!denied.stdout.contains(SECRET), "{denied:#?}");
    assert!(run("{}").stdout.contains(SECRET));
    let own = run(r#"{"allow":[],"set":{"http_proxy":"http://own:1"}}"#);
    assert!(own.stdout.contains("http_proxy=http://own:1\n"), "{own:#?}");
    assert_eq!(own.stdout.matches("\nhttp_proxy=").count(), 1, "{own:#?}");
}

/// All memory that the command can read of itself, and of the processes that it sees.
#[test]
fn a_denied_variable_is_in_no_memory() {
    // The pattern is not what it matches, or the search would find itself.
    let search = "import glob, os, re
secret = re.compile(b'ope[n]-sesame')
found = 0
for process in glob.glob('/proc/[0-9]*'):
    try:
        maps = open(process + '/maps').read().splitlines()
        memory = open(process + '/mem', 'rb', 0)
    except OSError:
        continue
    for line in maps:
        words = line.split()
        if 'r' not in words[1] or words[-1] in ('[vvar]', '[vsyscall]', '[vvar_vclock]'):
            continue
        start, end = (int(word, 16) for word in words[0].split('-'))
        try:
            memory.seek(start)
            found += secret.search(memory.read(end - start)) is not None
        except (OSError, ValueError, OverflowError):
            pass
print('own maps' if os.path.exists('/proc/self/maps') else 'blind', 'found' if found else 'nothing')";
    for_each_user(|user| {
        let run = |environment: &str| {
            let sandbox = sandbox(user, "{}", environment);
            sandbox.run(["/usr/bin/python3", "-c", search]).stdout
        };
        assert_eq!(run(r#"{"deny":["*_TOKEN"]}"#), "own maps nothing\n");
        assert_eq!(run("{}"), "own maps found\n");
    });
}

/// landstrip's own processes have the variable, and others of the same user; a child of the command looks for it in
/// each of them by all that /proc and the kernel offer, while the proxy runs.
#[test]
fn a_denied_variable_is_not_found_in_landstrip_s_own_processes() {
    let search = "import ctypes, errno, glob, os, re, sys, urllib.request
libc = ctypes.CDLL(None, use_errno=True)
try:
    urllib.request.urlopen('http://refused.test/')
except OSError:
    pass
secret = re.compile(b'ope[n]-sesame')
seen = found = 0
class Part(ctypes.Structure):
    _fields_ = [('base', ctypes.c_void_p), ('length', ctypes.c_size_t)]
for process in glob.glob('/proc/[0-9]*'):
    number = int(process[6:])
    try:
        seen += open(process + '/comm').read().startswith('landstrip')
        fields = open(process + '/stat').read().rsplit(')', 1)[1].split()
    except OSError:
        # Where the broker opens what is read, those outside are there and tell nothing.
        seen += os.path.exists(process)
        fields = ['0'] * 48
    for name in ('environ', 'auxv', 'stack', 'mem', 'maps', 'cmdline', 'task/%d/environ' % number, 'map_files', 'fd'):
        try:
            found += secret.search(open(process + '/' + name, 'rb').read(1 << 20)) is not None
        except OSError:
            pass
    # Where environment and stack are is not told of others: not even what is nowhere may be asked for (EFAULT).
    for address in (int(fields[25]), int(fields[47])):
        buffer = ctypes.create_string_buffer(1 << 16)
        here, there = Part(ctypes.addressof(buffer), len(buffer)), Part(address, len(buffer))
        got = libc.process_vm_readv(number, ctypes.byref(here), 1, ctypes.byref(there), 1, 0)
        found += number != os.getpid() and (got >= 0 or ctypes.get_errno() not in (errno.EPERM, errno.ESRCH))
print(seen >= int(sys.argv[1]), found)";
    for_each_user(|user| {
        for filesystem in READS {
            let run = |environment: &str| {
                let policy = format!(
                    r#"{{"filesystem":{filesystem},"network":{{"allowedDomains":["a.test"]}},"environment":{environment}}}"#
                );
                let sandbox = Sandbox::of(user).policy_json(policy).env("GH_TOKEN", SECRET);
                sandbox.file("work/secret", "");
                // Of the same user, with the same variable.
                let other = sandbox.spawn_outside(["sleep", "100"]);
                let outcome =
                    sandbox.sh(&format!("exec /usr/bin/python3 - 2 <<'P'\n{search}\nP\n"));
                drop(other);
                outcome.stdout
            };
            assert_eq!(run(r#"{"deny":["*_TOKEN"]}"#), "True 0\n", "{filesystem}");
            assert_ne!(run("{}"), "True 0\n", "{filesystem}");
        }
    });
}

/// Seen from outside: what serves the network was never given it.
#[test]
fn the_proxy_does_not_get_the_caller_s_environment() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user).allow_domains(["a.test"]).env("GH_TOKEN", SECRET);
        let mut running =
            sandbox.spawn(["sh", "-c", "curl -s http://refused.test/; echo ready; sleep 100"]);
        running.expect("ready");
        let environments = |name: &str| {
            let processes = std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
            let named = processes.filter(|path| {
                std::fs::read_to_string(path.join("comm"))
                    .is_ok_and(|comm| comm.trim_end() == &name[..15])
            });
            named.filter_map(|path| std::fs::read(path.join("environ")).ok()).collect::<Vec<_>>()
        };
        let holds =
            |text: &Vec<u8>| text.windows(SECRET.len()).any(|part| part == SECRET.as_bytes());
        let proxies = environments("landstrip-proxy");
        assert!(!proxies.is_empty() && !proxies.iter().any(holds));
        assert!(environments("landstrip-broker").iter().any(holds));
    });
}

/// Where landstrip's own proxy does not stand between, the password is of use only to who can reach the
/// caller's.
#[test]
fn credentials_of_a_proxy_that_is_out_of_reach_are_not_passed_on() {
    for_each_user(|user| {
        let far = "http://user:TOPSECRET@proxy.example:3128";
        let near = "http://user:TOPSECRET@127.0.0.1:3128";
        for (url, is_kept) in [(far, false), (near, true)] {
            let sandbox = Sandbox::of(user).allow_local_binding();
            let sandbox = sandbox.env("HTTP_PROXY", url).env("FTP_PROXY", url).env("OTHER", "kept");
            let outcome = sandbox.sh("echo $HTTP_PROXY $FTP_PROXY $OTHER");
            assert_eq!(outcome.succeeds().stdout.contains("TOPSECRET"), is_kept, "{outcome:#?}");
            assert!(outcome.stdout.ends_with("kept\n"));
        }
        let open = Sandbox::of(user).allow_network().env("HTTP_PROXY", far);
        assert_eq!(open.sh("echo $HTTP_PROXY").stdout, format!("{far}\n"));
    });
}

#[test]
fn check_names_a_port_that_a_variable_of_the_caller_s_opens() {
    let check = |sandbox: Sandbox| {
        let mut words = sandbox.command_line();
        words.push("--check".into());
        sandbox.run_outside(words).succeeds().stdout.clone()
    };
    let note = "note: HTTP_PROXY opens port 3128 of this host to the command";
    let near = || Sandbox::new().env("HTTP_PROXY", "http://127.0.0.1:3128");
    assert!(check(near()).contains(note), "{}", check(near()));
    assert!(!check(near().allow_domains(["example.org"])).contains(note));
    assert!(!check(Sandbox::new().env("HTTP_PROXY", "http://10.0.0.1:3128")).contains(note));
}

/// Makes a file as tmpfile(3) does, and says whether it lies in TMPDIR and gets no name; then one that could get a name.
const UNNAMED: &str = r#"
import ctypes, os
flags = os.O_TMPFILE | os.O_RDWR
file = os.open("/tmp", flags | os.O_EXCL, 0o600)
os.write(file, b"kept")
assert os.pread(file, 9, 0) == b"kept" and os.fstat(file).st_mode & 0o777 == 0o600
place = os.path.dirname(os.readlink(f"/proc/self/fd/{file}"))
print("private" if place == os.environ.get("TMPDIR") else place)
# AT_SYMLINK_FOLLOW; Python does not follow.
name = (f"/proc/self/fd/{file}".encode(), -100, f"{place}/named".encode())
if ctypes.CDLL(None, use_errno=True).linkat(-100, *name, 0x400) < 0:
    print(os.strerror(ctypes.get_errno()))
try:
    os.open("/tmp", flags, 0o600)
    print("made")
except OSError as error:
    print(error.strerror)
"#;

#[test]
fn files_without_a_name_are_made_in_the_private_directory_instead_of_tmp() {
    for_each_user(|user| {
        for filesystem in READS {
            for report in ["all", "none"] {
                let sandbox = sandbox(user, filesystem, "{}");
                let outcome = sandbox.options(["--report", report]).run(["python3", "-c", UNNAMED]);
                outcome.succeeds();
                let expected = "private\nNo such file or directory\nPermission denied\n";
                assert_eq!(outcome.stdout, expected, "{filesystem} {report}: {outcome:#?}");
            }
        }
        let allowed =
            sandbox(user, r#"{"allowWrite":["/tmp"]}"#, "{}").run(["python3", "-c", UNNAMED]);
        allowed.succeeds();
        assert!(allowed.stdout.ends_with("\nmade\n"), "{allowed:#?}");
        assert!(allowed.stdout.starts_with("/tmp\n"), "{allowed:#?}");
    });
}

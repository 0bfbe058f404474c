//! What proc(5) tells: of processes of the sandbox what everyone may know, of those outside nothing where the broker
//! opens what is read, as under `processes: own`.

use std::process::{Child, Command, Stdio};
use tests::{Sandbox, for_each_user};

/// As the last argument of a process.
const TOKEN: &str = "ghp-argument-of-somebody-else";

/// A process outside, as all may see; ends with this.
struct Other(Child);

impl Other {
    fn start() -> Self {
        let child = Command::new("/bin/sh")
            .args(["-c", "echo; read gone", "sh", TOKEN])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let mut child = child.unwrap();
        // It has become the shell by then, with these arguments.
        let mut line = String::new();
        let output = child.stdout.as_mut().unwrap();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(output), &mut line).unwrap();
        Self(child)
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Policies under which the broker opens what is read, or looks at it.
fn hiding(user: tests::User) -> [Sandbox; 4] {
    let of = |text| Sandbox::of(user).policy_json(text);
    [
        of(r#"{"processes": "own"}"#),
        of(r#"{"processes": "own", "filesystem": {"allowWrite": ["."]}}"#),
        Sandbox::of(user).allow_write(".").deny_read("secret"),
        Sandbox::of(user).allow_write(".").deny_read("../outside/secret"),
    ]
}

/// Reads what there is of process $1, in all ways; says what it got.
const READ: &str = r#"
import os, sys
pid = sys.argv[1]
def text(fd):
    return os.read(fd, 65536)
def opened(path, **more):
    return text(os.open(path, os.O_RDONLY, **more))
def by_directory():
    return opened("cmdline", dir_fd=os.open(f"/proc/{pid}", os.O_PATH))
def by_descriptor():
    return opened(f"/proc/self/fd/{os.open(f'/proc/{pid}/cmdline', os.O_PATH)}")
def by_root():
    return opened(f"/proc/self/root/proc/{pid}/cmdline")
def by_working_directory():
    os.chdir(f"/proc/{pid}")
    try:
        return opened("cmdline")
    finally:
        os.chdir("/")
names = ["cmdline", "status", "stat", "comm", "environ", "cgroup", "statm", "limits", f"task/{pid}/cmdline", f"task/{pid}/stat"]
ways = {name: lambda name=name: opened(f"/proc/{pid}/{name}") for name in names}
ways |= {f.__name__: f for f in (by_directory, by_descriptor, by_root, by_working_directory)}
ways |= {name or ".": lambda name=name: os.listdir(f"/proc/{pid}/{name}") for name in ("", "task", "fd")}
for name, way in ways.items():
    try:
        print(name, way())
    except OSError as error:
        print(name, "refused", error.errno)
"#;

#[test]
fn nothing_is_read_of_processes_outside() {
    for_each_user(|user| {
        let other = Other::start();
        let pid = other.0.id().to_string();
        for sandbox in hiding(user) {
            let outcome = sandbox.run(["/usr/bin/python3", "-c", READ, &pid]);
            let lines: Vec<_> = outcome.succeeds().stdout.lines().collect();
            assert_eq!(lines.len(), 17, "{outcome:#?}");
            for line in lines {
                let refused = [" refused 2", " refused 13"];
                assert!(refused.iter().any(|end| line.ends_with(end)), "{line} {outcome:#?}");
            }
            assert!(outcome.reports_of("Filesystem").is_empty(), "{outcome:#?}");
            let name = format!("/proc/{pid}/cmdline");
            let explain =
                sandbox.command_line().into_iter().chain(["--explain".into(), name.into()]);
            let told = sandbox.run_outside(explain).stdout;
            assert!(told.contains("read     no   it tells of a process outside"), "{told}");
        }
        // Nothing else keeps it.
        let open = Sandbox::of(user).policy_json(r#"{"processes": "all"}"#);
        let outcome = open.run(["/usr/bin/python3", "-c", READ, &pid]);
        assert!(outcome.stdout.matches(TOKEN).count() >= 4, "{outcome:#?}");
    });
}

/// What is opened is what was looked at.
#[test]
fn a_path_that_changes_meanwhile_leads_to_no_process_outside() {
    let script = "
import ctypes, mmap, os, sys
outside, own, tries = sys.argv[1].encode() + b'\\0', sys.argv[2].encode() + b'\\0', int(sys.argv[3])
libc = ctypes.CDLL(None); memory = mmap.mmap(-1, 4096); path = ctypes.c_char.from_buffer(memory)
memory[:len(outside)] = outside; writer = os.fork()
while writer == 0:
    memory[:len(own)] = own; memory[:len(outside)] = outside
said = {'own': 0, 'outside': 0, 'refused': 0}
for attempt in range(tries + 1):
    # At last it stays what it is.
    if attempt == tries: os.kill(writer, 9); os.waitpid(writer, 0); memory[:len(outside)] = outside
    file = libc.open(ctypes.byref(path), os.O_RDONLY)
    if file < 0: said['refused'] += 1; continue
    said['outside' if b'somebody-else' in os.read(file, 4096) else 'own'] += 1; os.close(file)
print(said)";
    for_each_user(|user| {
        let other = Other::start();
        let outside = format!("/proc/{}/cmdline", other.0.id());
        let tries = tests::race_tries(2000).to_string();
        for own in ["/proc/self/status", "/etc/passwd"] {
            let words = ["/usr/bin/python3", "-c", script, &outside, own, &tries];
            for sandbox in hiding(user) {
                let outcome = sandbox.run(words);
                println!("{own}: {}", outcome.succeeds().stdout);
                assert!(outcome.stdout.contains("'outside': 0"), "{outcome:#?}");
            }
            let outcome = Sandbox::of(user).policy_json("{}").run(words);
            assert!(!outcome.succeeds().stdout.contains("'outside': 0"), "{outcome:#?}");
        }
    });
}

/// It descends from landstrip as the command does.
#[test]
fn the_proxy_is_outside() {
    let script = "
import os, socket
host, port = os.environ['http_proxy'].split('//')[1].strip('/').split(':')
proxy = socket.create_connection((host, int(port))); proxy.sendall(b'CONNECT example.org:443 HTTP/1.1\\r\\n\\r\\n'); proxy.recv(1)
def name(process):
    try: return open(f'/proc/{process}/comm').read().strip()
    except OSError: return ''
print(sorted({name(process) for process in os.listdir('/proc') if process.isdigit()}))";
    for_each_user(|user| {
        for sandbox in hiding(user) {
            let outcome = sandbox.run(["/usr/bin/python3", "-c", script]);
            assert_eq!(outcome.stdout, "['', 'python3']\n", "{outcome:#?}");
        }
        let outcome = Sandbox::of(user).policy_json("{}").run(["/usr/bin/python3", "-c", script]);
        assert!(outcome.stdout.contains("'landstrip-proxy'"), "{outcome:#?}");
    });
}

/// Whatever the policy says: the kernel asks for the right to trace.
#[test]
fn links_of_processes_outside_lead_nowhere() {
    let script = "
import os, sys
def said(way, *words):
    try: way(*words); return 'done'
    except OSError as error: return error.errno
for process in sys.argv[1:]:
    links = [f'/proc/{process}/{name}' for name in ('exe', 'cwd', 'root', 'fd/0', 'ns/mnt')]
    print([said(os.readlink, link) for link in links], [said(os.stat, link) for link in links], said(os.chdir, links[2]))";
    for_each_user(|user| {
        let other = Other::start();
        let pid = other.0.id().to_string();
        let [first, ..] = hiding(user);
        for sandbox in [first, Sandbox::of(user).policy_json("{}")] {
            let outcome = sandbox.run(["/usr/bin/python3", "-c", script, &pid, "self"]);
            let (no, yes) = ("[13, 13, 13, 13, 13]", "['done', 'done', 'done', 'done', 'done']");
            assert_eq!(outcome.stdout, format!("{no} {no} 13\n{yes} {yes} done\n"), "{outcome:#?}");
        }
    });
}

#[test]
fn own_processes_are_read_and_listed() {
    // The shell holds both ends of two pipes: the child waits on one, and says by the other that it is there.
    let script = "mkfifo in out 2> /dev/null; exec 3<> in 4<> out; \
        sh -c 'echo; read gone' sh own-$$ <&3 >&4 & child=$!; read line <&4; \
        tr '\\0' ' ' < /proc/$child/cmdline | grep -c own-$$; grep -c own- /proc/$child/task/$child/cmdline; grep -c stack /proc/$child/maps; \
        grep -c ^Name: /proc/$child/status /proc/self/status /proc/thread-self/status /proc/$$/task/$$/status; \
        grep -c stack /proc/self/maps; ls /proc/self/task | wc -l; ls /proc/self/fd | head -n 1; \
        ps -e -o args= | grep own-$$ | grep -vc grep; ps -e -o args= | grep -c 'ghp-argument-of-[s]omebody'; \
        [ \"$(pgrep -f own-$$)\" = $child ] && echo found; pgrep -f 'ghp-argument-of-[s]omebody' || echo none; \
        top -b -n 1 > /dev/null && echo top; pkill -f own-$$ && wait $child; echo ended $?";
    for_each_user(|user| {
        let _other = Other::start();
        for sandbox in &hiding(user)[1..] {
            let outcome = sandbox.sh(script);
            assert!(outcome.stdout.starts_with("1\n1\n1\n/proc"), "{outcome:#?}");
            assert_eq!(outcome.stdout.matches("status:1").count(), 4, "{outcome:#?}");
            let rest: Vec<_> = outcome.stdout.lines().skip(7).collect();
            assert_eq!(
                rest,
                ["1", "1", "0", "1", "0", "found", "none", "top", "ended 143"],
                "{outcome:#?}"
            );
        }
    });
}

#[test]
fn there_is_no_controlling_terminal_to_open_where_there_is_none() {
    for_each_user(|user| {
        for sandbox in hiding(user) {
            let outcome = sandbox.sh("(: < /dev/tty); (: > /dev/tty)");
            assert_eq!(
                outcome.stderr.matches("No such device or address").count(),
                2,
                "{outcome:#?}"
            );
        }
    });
}

#[test]
fn another_word_is_an_error_that_names_what_there_is() {
    let sandbox = Sandbox::new().policy_json(r#"{"processes": "mine"}"#);
    let outcome = sandbox.sh("echo ran");
    assert!(outcome.stdout.is_empty(), "{outcome:#?}");
    assert!(outcome.stderr.contains(r#"expected \"all\" or \"own\""#), "{outcome:#?}");
}

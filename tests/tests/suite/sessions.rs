//! Long sessions: what is held and remembered of what has come and gone is bounded.

use std::fs;
use std::time::{Duration, Instant};
use tests::{Sandbox, eventually, for_each_user, processes};

/// By how much its memory may grow, in KiB, however many there were: what the allocator keeps for each of a dozen threads,
/// which is 5 MiB after some forty thousand and no more later.
const GROWTH: u64 = 8192;

/// Processes, one after the other and many at once, each of which does what the broker has to do with, and ends
/// without tidying up.
const SESSION: &str = r#"
import ctypes, os, socket, sys, time
c = ctypes.CDLL(None)
unix, tcp, udp = socket.socket(socket.AF_UNIX), socket.socket(), socket.socket(type=socket.SOCK_DGRAM)
unix.bind('unix'); unix.listen(99); tcp.bind(('127.0.0.1', 0)); tcp.listen(99); udp.bind(('127.0.0.1', 0))
def live(i):
    name = 'made%d' % (i % 99)
    open(name, 'w').write('x'); os.chmod(name, 0o600); os.mkdir(name + 'd'); os.rename(name + 'd', name + 'e'); os.rmdir(name + 'e'); os.unlink(name)
    os.close(os.open('/dev/shm/%d' % i, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW)); os.unlink('/dev/shm/%d' % i)
    segment = c.shmget(0, 4096, 0o1600); assert segment >= 0; c.shmctl(segment, 0, None)
    for server in unix, tcp:
        client = socket.socket(server.family); client.connect(server.getsockname())
    client = socket.socket(type=socket.SOCK_DGRAM); client.sendto(b'x', udp.getsockname())
    try: open('secret')
    except PermissionError: os._exit(0)
def session(first, count, at_once):
    for start in range(first, first + count, at_once):
        children = []
        for i in range(start, min(start + at_once, first + count)):
            child = os.fork()
            if child == 0:
                try: live(i)
                finally: os._exit(1)
            children.append(child)
        for child in children:
            if os.waitpid(child, 0)[1]: sys.exit(1)
            for server in unix, tcp: server.accept()[0].close()
            udp.recv(9)
done = 0
for name, count, at_once in ('warm', 200, 1), ('crowded', 200, 40), ('single', int(sys.argv[1]) // 2, 1), ('many', int(sys.argv[1]) // 2, 40):
    session(done, count, at_once); done += count
    print(name, flush=True)
    while not os.path.exists('after-' + name): time.sleep(0.01)
"#;

/// What the broker holds: descriptors, and memory of its own in KiB.
fn held(broker: u32) -> (usize, u64) {
    let descriptors = fs::read_dir(format!("/proc/{broker}/fd")).unwrap().count();
    let status = fs::read_to_string(format!("/proc/{broker}/status")).unwrap();
    let memory = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    (descriptors, memory.trim().trim_end_matches(" kB").parse().unwrap())
}

#[test]
fn what_has_ended_is_neither_held_nor_remembered() {
    let processes = processes(400);
    let limit = Duration::from_secs(300) + Duration::from_millis(20) * processes;
    for_each_user(|user| {
        let sandbox = Sandbox::of(user).allow_write(".").deny_read("secret").deny_write("kept");
        let sandbox = sandbox.allow_local_binding().timeout(limit);
        sandbox.file("work/secret", "");
        sandbox.file("work/kept", "");
        let count = processes.to_string();
        let running = sandbox.spawn(["/usr/bin/python3", "-c", SESSION, &count]);
        let held_after = |name: &str, descriptors: usize| {
            let end = Instant::now() + limit;
            while !running.stdout().contains(name) {
                assert!(Instant::now() < end, "{running:#?}");
                std::thread::sleep(Duration::from_millis(10));
            }
            // It looks four times a second what was closed.
            let least = (0..60).map(|_| {
                std::thread::sleep(Duration::from_millis(10));
                held(running.pid())
            });
            let mut least = least.min().unwrap();
            // Beside much else it comes to that later.
            eventually(|| {
                least = least.min(held(running.pid()));
                least.0 <= descriptors
            });
            sandbox.file(format!("work/after-{name}"), "");
            least
        };
        held_after("warm", usize::MAX);
        let before = held_after("crowded", usize::MAX);
        let single = held_after("single", usize::MAX);
        let after = held_after("many", before.0);
        println!("{before:?} {single:?} {after:?}");
        running.wait().succeeds();
        assert!(after.0 <= before.0, "descriptors: {before:?} {single:?} {after:?}");
        assert!(after.1 <= before.1 + GROWTH, "memory: {before:?} {single:?} {after:?}");
    });
}

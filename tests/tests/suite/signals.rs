//! Signals during a connect that waits: what a handler sees is what it sees without the sandbox.

use tests::{FullBacklog, Outcome, Sandbox, User, at_once, for_each_user};

/// Connects by the C library's own function, which Python does not call again by itself, to a server
/// whose queue is full until a signal was handled meanwhile: one that is sent once the connect waits, and again
/// and again. A TCP socket waits once it has asked for the connection: a signal before the broker has received the
/// call would interrupt what has not begun (landstrip-caveats(7)).
const SCRIPT: &str = "
import ctypes, os, select, signal, socket, struct, sys, time
kind, interrupt = sys.argv[1], sys.argv[2] == 'interrupt'
if kind == 'unix':
    server = socket.socket(socket.AF_UNIX); server.bind('full'); where = 'full'
    raw = struct.pack('=H', socket.AF_UNIX) + b'full\\0'
else:
    server = socket.socket(); server.bind(('127.0.0.1', 0)); where = server.getsockname()
    raw = struct.pack('=H', socket.AF_INET) + struct.pack('!H', where[1]) + bytes([127, 0, 0, 1]) + bytes(8)
server.listen(0); first = socket.socket(server.family); first.connect(where)
read, write = os.pipe(); os.set_blocking(write, False)
child = os.fork()
if child == 0:
    os.read(read, 1); served = []
    while True: served.append(server.accept()[0]); served[-1].send(b'served')
libc = ctypes.CDLL(None, use_errno=True)
signal.signal(signal.SIGALRM, lambda *_: None); signal.siginterrupt(signal.SIGALRM, interrupt)
begun, begin = os.pipe(); me = os.getpid(); signals = os.fork()
if signals == 0:
    os.read(begun, 1)
    while kind == 'tcp' and f':{where[1]:04X} 02 ' not in open('/proc/net/tcp').read(): pass  # SYN_SENT
    while open(f'/proc/{me}/stat').read().rpartition(') ')[2][0] != 'S': pass
    while True: os.kill(me, signal.SIGALRM); time.sleep(0.1)
signal.set_wakeup_fd(write)
client = socket.socket(server.family)
if len(sys.argv) > 3: client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack('ll', 99, 0))
os.write(begin, b'x')
result = libc.connect(client.fileno(), raw, len(raw)); error = ctypes.get_errno()
os.kill(signals, 9); os.waitpid(signals, 0)
print('connected' if result == 0 else os.strerror(error))
if result != 0 and kind == 'unix': client.connect(where)
elif result != 0: select.select([], [client], [])
print(client.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR), client.recv(6)); os.kill(child, 9)
";

fn same_as_outside(user: User, words: &[&str]) -> Outcome {
    let sandbox = Sandbox::of(user).allow_write(".").allow_unix_socket(".").allow_local_binding();
    let command = || ["python3", "-c", SCRIPT].iter().chain(words).map(|word| (*word).to_owned());
    let inside = sandbox.run(command());
    let _ = std::fs::remove_file(sandbox.path("work/full"));
    let outside = sandbox.run_outside(command());
    let _ = std::fs::remove_file(sandbox.path("work/full"));
    assert_eq!(inside.stdout, outside.stdout, "{words:?}: {inside:#?} {outside:#?}");
    inside
}

#[test]
fn a_handler_interrupts_a_connect_that_goes_on() {
    for_each_user(|user| {
        let cases =
            [&["tcp", "interrupt"][..], &["unix", "interrupt"], &["tcp", "restart", "limit"]];
        at_once(cases, |words| {
            let outcome = same_as_outside(user, words);
            assert_eq!(outcome.stdout, "Interrupted system call\n0 b'served'\n", "{outcome:#?}");
        });
    });
}

#[test]
fn a_handler_that_restarts_calls_lets_a_connect_wait_on() {
    for_each_user(|user| {
        at_once(["tcp", "unix"], |kind| {
            let outcome = same_as_outside(user, &[kind, "restart"]);
            assert_eq!(outcome.stdout, "connected\n0 b'served'\n", "{outcome:#?}");
        });
    });
}

#[test]
fn a_connect_to_the_proxy_port_is_interrupted() {
    let slow = FullBacklog::new();
    let sandbox = Sandbox::new().http_proxy_port(slow.port());
    let script = format!(
        "import ctypes, os, signal, socket, struct, sys, threading
raw = struct.pack('=H', 2) + struct.pack('!H', {}) + bytes([127, 0, 0, 1]) + bytes(8)
libc = ctypes.CDLL(None, use_errno=True)
signal.signal(signal.SIGUSR1, lambda *_: None); signal.siginterrupt(signal.SIGUSR1, True)
def one(signalling):
    client = socket.socket(); stop = threading.Event(); me = threading.get_ident()
    def signals():
        while not stop.wait(0.1): signalling(me)
    thread = threading.Thread(target=signals); thread.start()
    print(libc.connect(client.fileno(), raw, len(raw)), os.strerror(ctypes.get_errno()), flush=True)
    stop.set(); thread.join()
one(lambda me: os.kill(os.getpid(), signal.SIGUSR1))
other = threading.Thread(target=one, args=(lambda me: signal.pthread_kill(me, signal.SIGUSR1),))
other.start(); other.join()",
        slow.port()
    );
    let command = ["python3", "-c", &script];
    let expected = "-1 Interrupted system call\n".repeat(2);
    assert_eq!(sandbox.run(command).stdout, expected);
    assert_eq!(sandbox.run_outside(command).stdout, expected);
}

#[test]
fn a_stopped_client_goes_on_with_its_connect() {
    let sandbox = Sandbox::new().allow_local_binding();
    let script = "
import os, signal, socket, time
server = socket.socket(); server.bind(('127.0.0.1', 0)); server.listen(0); where = server.getsockname()
first = socket.socket(); first.connect(where)
child = os.fork()
if child == 0:
    client = socket.socket(); client.connect(where); os._exit(client.recv(6) != b'served')
time.sleep(0.3); os.kill(child, signal.SIGSTOP)
print(os.WIFSTOPPED(os.waitpid(child, os.WUNTRACED)[1])); os.kill(child, signal.SIGCONT)
first = server.accept()[0]; server.accept()[0].send(b'served'); print(os.waitpid(child, 0)[1])";
    let command = ["python3", "-c", script];
    assert_eq!(sandbox.run(command).stdout, "True\n0\n");
    assert_eq!(sandbox.run_outside(command).stdout, "True\n0\n");
}

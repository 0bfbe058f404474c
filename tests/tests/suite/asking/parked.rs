//! What calls that wait for an answer hold, and what becomes of them where nobody listens any more.

use serde_json::json;
use std::fs;
use tests::{ESCAPED, Origin, Questions, Running, Sandbox, User, eventually, for_each_user};

/// Most questions that are open.
const OPEN: usize = 64;
/// Refused rules after which nothing more is asked.
const REFUSED: usize = 4096;

/// Has as many processes as are told wait with a call, each once there is a file of its number, and says when each is done.
const WAITERS: &str = "
import os, sys, time
for number in range(int(sys.argv[1])):
    if os.fork(): continue
    while not os.path.exists('go%d' % (number > 0)): time.sleep(0.01)
    try: os.close(os.open(os.path.expanduser('~/file%d' % number), os.O_WRONLY | os.O_CREAT)); said = 'made'
    except OSError: said = 'refused'
    os.write(1, said.encode() + b'\\n'); os._exit(0)
while not os.path.exists('here'): time.sleep(0.01)
os.close(os.open('made', os.O_WRONLY | os.O_CREAT)); os.write(1, b'fast\\n')
while True:
    try: os.wait()
    except OSError: break
";

fn sandbox(user: User) -> Sandbox {
    Sandbox::of(user).allow_write(".")
}

fn count(running: &Running, what: &str) -> usize {
    fs::read_dir(format!("/proc/{}/{what}", running.pid())).unwrap().count()
}

#[track_caller]
fn numbers(questions: &mut Questions, count: usize) -> Vec<u64> {
    (0..count).map(|_| questions.line().unwrap()["ask"].as_u64().unwrap()).collect()
}

#[test]
fn a_call_that_waits_holds_no_descriptor_and_no_thread() {
    for_each_user(|user| {
        let sandbox = sandbox(user);
        let (mut running, mut questions) =
            sandbox.ask(["python3", "-c", WAITERS, &OPEN.to_string()]);
        // What asking takes by itself is there with the first.
        sandbox.file("work/go0", "");
        let mut open = numbers(&mut questions, 1);
        let held = count(&running, "fd");
        sandbox.file("work/go1", "");
        open.extend(numbers(&mut questions, OPEN - 1));
        let is_as_before = || count(&running, "fd") <= held;
        assert!(eventually(is_as_before), "{} descriptors, not {held}", count(&running, "fd"));
        // Who has looked at a call waits for the next one, and there are few of them.
        let threads = count(&running, "task");
        assert!(threads < OPEN / 2, "{threads} threads");
        sandbox.file("work/here", "");
        running.expect("fast");
        open.into_iter().for_each(|number| questions.settle(number, "once"));
        assert_eq!(questions.line(), None);
        assert_eq!(running.wait().stdout.matches("made").count(), OPEN);
        assert_eq!(fs::read_dir(sandbox.path("home")).unwrap().count(), OPEN);
    });
}

#[test]
fn a_connection_that_waits_holds_its_socket_at_the_proxy_alone() {
    for_each_user(|user| {
        let origin = Origin::new("hello");
        let names: Vec<_> = (0..OPEN).map(|number| format!("n{number}.test")).collect();
        let policy = json!({
            "filesystem": { "allowWrite": ["."] },
            "network": {
                "allowedDomains": [format!("127.0.0.1:{}", origin.port())],
                "hosts": [format!("127.0.0.1 {}", names.join(" "))],
            },
        });
        let sandbox = Sandbox::of(user).policy_json(policy.to_string());
        let script = format!(
            "
import os, socket, threading, time
port = int(os.environ['HTTP_PROXY'].rstrip('/').rsplit(':', 1)[1])
def one(n):
    s = socket.create_connection(('127.0.0.1', port))
    s.sendall(b'CONNECT n%d.test:{} HTTP/1.1\\r\\n\\r\\n' % n)
    os.write(1, s.recv(12) + b'\\n')
threads = [threading.Thread(target=one, args=(n,)) for n in range({OPEN})]
for n, thread in enumerate(threads):
    while not os.path.exists('go%d' % (n > 0)): time.sleep(0.01)
    thread.start()
for thread in threads: thread.join()
",
            origin.port()
        );
        let (running, mut questions) = sandbox.ask(["python3", "-c", &script]);
        let proxy = crate::admission::proxy_of;
        let held_by = |process: u32| fs::read_dir(format!("/proc/{process}/fd")).unwrap().count();
        sandbox.file("work/go0", "");
        let mut open = numbers(&mut questions, 1);
        let (broker, before) = (running.pid(), held_by(proxy(&running)));
        let held = held_by(broker);
        sandbox.file("work/go1", "");
        open.extend(numbers(&mut questions, OPEN - 1));
        assert!(eventually(|| held_by(broker) <= held), "{} not {held}", held_by(broker));
        // And what tells that its client has hung up.
        assert_eq!(held_by(proxy(&running)), before + 2 * (OPEN - 1));
        assert!(origin.requests().is_empty(), "{ESCAPED}");
        open.into_iter().for_each(|number| questions.settle(number, "once"));
        assert_eq!(questions.line(), None);
        assert_eq!(running.wait().stdout, "HTTP/1.1 200\n".repeat(OPEN));
    });
}

#[test]
fn the_same_rule_is_asked_for_once_at_a_time_however_many_calls_wait() {
    const CALLS: usize = 8;
    for_each_user(|user| {
        for (answer, asked) in [("run", 1), ("deny", 1), ("once", CALLS)] {
            let sandbox = sandbox(user);
            sandbox.dir("home/.npm");
            let script = format!(
                "for i in $(seq {CALLS}); do (echo x > ~/.npm/$i && echo made || echo refused) 2>/dev/null & done; wait"
            );
            let (running, mut questions) = sandbox.ask(["sh", "-c", &script]);
            let rule = json!(["filesystem.allowWrite", "~/.npm"]);
            let (mut seen, mut open) = (0, None);
            while let Some(line) = questions.line() {
                if let Some(number) = line["ask"].as_u64() {
                    assert_eq!((open, &line["advice"]), (None, &rule), "{line}");
                    questions.answer(number, answer);
                    (seen, open) = (seen + 1, Some(number));
                } else if !line["settled"].is_null() {
                    assert_eq!(line["settled"].as_u64(), open, "{line}");
                    open = None;
                } else {
                    assert_eq!(line["granted"], rule, "{line}");
                }
            }
            assert_eq!(seen, asked, "{answer}");
            let word = if answer == "deny" { "refused" } else { "made" };
            let outcome = running.wait();
            assert_eq!(outcome.stdout.matches(word).count(), CALLS, "{answer}: {outcome:#?}");
            let made = fs::read_dir(sandbox.path("home/.npm")).unwrap().count();
            assert_eq!(made, if answer == "deny" { 0 } else { CALLS }, "{ESCAPED}{answer}");
        }
    });
}

/// The other end reads nothing, while there is more to ask than is kept for it.
#[test]
fn a_channel_that_stalls_refuses_what_does_not_fit_and_delays_nobody() {
    for_each_user(|user| {
        let sandbox = sandbox(user);
        // What asks calls itself something long.
        let mut words = vec!["python3", "-c", WAITERS, "64"];
        let long = "\u{1}".repeat(256);
        words.resize(40, &long);
        let (mut running, mut questions) = sandbox.ask(words);
        sandbox.file("work/go0", "");
        sandbox.file("work/go1", "");
        running.expect("refused");
        sandbox.file("work/here", "");
        running.expect("fast");
        let mut made = 0;
        while let Some(line) = questions.line() {
            match line["ask"].as_u64() {
                Some(number) => {
                    questions.answer(number, "once");
                    made += 1;
                }
                None => assert!(line["settled"].is_u64(), "{line}"),
            }
        }
        let stdout = running.wait().stdout;
        let [done, refused] = ["made", "refused"].map(|word| stdout.matches(word).count());
        assert_eq!((done, done + refused), (made, OPEN), "{stdout}");
        assert!(done > 0 && refused > 0, "{stdout}");
        assert_eq!(fs::read_dir(sandbox.path("home")).unwrap().count(), done, "{ESCAPED}");
    });
}

#[test]
fn nothing_more_is_asked_after_so_many_rules_were_refused() {
    for_each_user(|user| {
        let sandbox = sandbox(user);
        let script = format!(
            "
import os
def make(name):
    try: os.close(os.open(os.path.expanduser(name), os.O_WRONLY | os.O_CREAT)); return 'made'
    except OSError: return 'refused'
print(*{{make('~/file%d' % number) for number in range({REFUSED})}}, make('~/later'), make('here'))
"
        );
        let (running, mut questions) = sandbox.ask(["python3", "-c", &script]);
        let mut asked = 0;
        while let Some(line) = questions.line() {
            if let Some(number) = line["ask"].as_u64() {
                asked += 1;
                questions.answer(number, "deny");
            }
        }
        assert_eq!(asked, REFUSED);
        assert_eq!(running.wait().stdout, "refused refused made\n");
        assert_eq!(fs::read_dir(sandbox.path("home")).unwrap().count(), 0, "{ESCAPED}");
    });
}

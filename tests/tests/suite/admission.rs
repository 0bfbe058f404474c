//! Who gets through to a sandbox's proxy, and what the proxy itself starts with.

use std::ffi::OsString;
use std::fs;
use tests::raw::{encode, get};
use tests::{Origin, Running, Sandbox, User, for_each_user, free_port, programs};

struct Served {
    sandbox: Sandbox,
    ports: [u16; 2],
    request: String,
}

/// A sandbox with ports that others know, and the command that sends one permitted request.
fn served(user: User, origin: &Origin) -> Served {
    let ports = [free_port(), free_port()];
    let text = serde_json::json!({ "network": {
        "httpProxyPort": ports[0], "socksProxyPort": ports[1],
        "allowedDomains": ["good.localhost", format!("127.0.0.1:{}", origin.port())] } });
    let words = encode(get(&format!("good.localhost:{}", origin.port())));
    let request = format!("{} raw http {words}", programs().probe().display());
    Served { sandbox: Sandbox::of(user).policy_json(text.to_string()), ports, request }
}

/// Shell words that wait until the file `go` is there.
fn wait_for(sandbox: &Sandbox) -> String {
    format!("until [ -e {} ]; do sleep 0.05; done", sandbox.name("go"))
}

fn child_of(pid: u32, name: &str) -> Option<u32> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    let lists = threads.flat_map(|thread| fs::read_to_string(thread.path().join("children")));
    let children: Vec<String> = lists
        .flat_map(|list| list.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
        .collect();
    let found = children.iter().find(|pid| {
        fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm.starts_with(name))
    });
    found.map(|pid| pid.parse().unwrap())
}

pub(crate) fn proxy_of(running: &Running) -> u32 {
    child_of(running.pid(), "landstrip-proxy").expect("a running proxy")
}

/// So many times 500 connections to `ports`, each 500 by a process of its own: one may have 1024 descriptors.
fn strangers(sandbox: &Sandbox, ports: &[u16], crowds: usize) -> Vec<Running> {
    let script = "import os, socket, sys, time\nheld = []\n\
        for number in range(500):\n\
        \x20try: held.append(socket.create_connection(('127.0.0.1', int(sys.argv[2 + number % len(sys.argv[2:])]))))\n\
        \x20except OSError: pass\n\
        print('up', flush=True)\n\
        while not os.path.exists(sys.argv[1]): time.sleep(0.05)\n\
        for one in held:\n\
        \x20one.setblocking(False)\n\
        \x20try: print(one.recv(9).decode(), end='')\n\
        \x20except OSError: pass\n";
    let end = sandbox.name("end");
    let ports = ports.iter().map(u16::to_string);
    let words: Vec<_> =
        ["python3", "-c", script, &end].map(str::to_owned).into_iter().chain(ports).collect();
    let mut all: Vec<_> = (0..crowds).map(|_| sandbox.spawn_outside(&words)).collect();
    all.iter_mut().for_each(|crowd| crowd.expect("up"));
    all
}

fn answered_nothing(sandbox: &Sandbox, crowds: Vec<Running>) {
    sandbox.file("end", "");
    for crowd in crowds {
        assert_eq!(crowd.wait().succeeds().stdout, "up\n");
    }
}

/// As many of them as the proxy serves at a time, and more: each is closed, none is waited for.
#[test]
fn strangers_take_no_place_at_the_proxy() {
    for_each_user(|user| {
        let origin = Origin::new("hello");
        let Served { sandbox, ports, request } = served(user, &origin);
        let script =
            format!("{request}; echo up; {}; {}", wait_for(&sandbox), [&*request; 8].join("; "));
        let mut running = sandbox.spawn(["sh", "-c", &script]);
        running.expect("up");
        let crowds = strangers(&sandbox, &ports, 3);
        sandbox.file("go", "");
        // Of what comes to the proxy it waits for a request for a minute.
        let outcome = running.wait();
        assert_eq!(outcome.results().count(), 9, "{outcome:#?}");
        assert_eq!(origin.requests().len(), 9, "{outcome:#?}");
        answered_nothing(&sandbox, crowds);
    });
}

/// The address of a connection is one on each port.
#[test]
fn a_stranger_with_the_same_address_at_the_other_port_is_nobody() {
    for_each_user(|user| {
        let origin = Origin::new("hello");
        let Served { sandbox, ports, request } = served(user, &origin);
        let script =
            format!("{request}; echo up; {}; {}", wait_for(&sandbox), [&*request; 20].join("; "));
        let mut running = sandbox.spawn(["sh", "-c", &script]);
        running.expect("up");
        // Wherever the sandbox's next connections to the other port come from.
        let crowds = strangers(&sandbox, &ports[1..], 8);
        sandbox.file("go", "");
        let outcome = running.wait();
        assert_eq!(origin.requests().len(), 21, "{outcome:#?}");
        answered_nothing(&sandbox, crowds);
    });
}

/// What the caller left open for landstrip is not the proxy's, and neither is what root may.
#[test]
fn the_proxy_has_three_descriptors_and_what_it_is_handed_and_no_capability() {
    for_each_user(|user| {
        let origin = Origin::new("hello");
        let Served { sandbox, request, .. } = served(user, &origin);
        let secret = sandbox.file("secret", "x");
        let mut words: Vec<OsString> =
            ["sh", "-c", &format!("exec \"$@\" 9< {}", secret.display()), "sh"]
                .map(Into::into)
                .to_vec();
        words.extend(sandbox.command_line());
        let script = format!("{request}; echo up; {}", wait_for(&sandbox));
        words.extend(["--", "sh", "-c", &script].map(Into::into));
        let mut running = sandbox.spawn_outside(words);
        running.expect("up");
        let open_at = |pid: u32| -> Vec<String> {
            let entries = fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten();
            let links = entries.flat_map(|entry| fs::read_link(entry.path()));
            links.map(|link| link.to_string_lossy().into_owned()).collect()
        };
        let name = secret.to_string_lossy().into_owned();
        assert!(open_at(running.pid()).contains(&name), "it was not inherited at all");
        let proxy = proxy_of(&running);
        let open = open_at(proxy);
        // tokio's two, and the proxy's own control socket, beside standard input, output and error.
        let others = open.iter().filter(|link| {
            !["socket:", "anon_inode:", "/dev/null", "pipe:", "/dev/pts"]
                .iter()
                .any(|kind| link.starts_with(kind))
        });
        assert_eq!(others.collect::<Vec<_>>(), [""; 0], "{open:?}");
        assert!(open.len() <= 8, "{open:?}");
        let status = fs::read_to_string(format!("/proc/{proxy}/status")).unwrap();
        for set in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
            assert!(status.contains(&format!("\n{set}:\t0000000000000000\n")), "{status}");
        }
        sandbox.file("go", "");
        running.wait().succeeds();
        assert_eq!(origin.requests().len(), 1);
    });
}

//! System V objects: making them, using them by key and id, listing them, races for them.

use crate::sys::{self, Result, addr, addr_mut, call};
use crate::{number, say, tell, usage};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

const RMID: usize = 0;
const SET: usize = 1;
const STAT: usize = 2;
/// Of semaphores.
const GETVAL: usize = 12;
const SETVAL: usize = 16;
const NOWAIT: usize = 0o4000;
const CREATE: usize = 0o1000;
const EXCLUSIVE: usize = 0o2000;
const PRIVATE: usize = 0;
const RDONLY: usize = 0o10000;

/// The three kinds, by the names that their calls begin with.
const KINDS: [&str; 3] = ["shm", "sem", "msg"];

/// What is found in the objects of the tests.
const SECRET: u8 = 42;

pub(crate) fn run(op: &str, args: &[&str]) -> bool {
    match (op, args) {
        ("ipc-get", [kind, key, flags]) => {
            let id = get(kind, number(key), number(flags));
            say(&format!("{kind}-get"), id);
            tell(&format!("{kind}-id"), &id.map_or(String::new(), |id| id.to_string()));
        }
        ("ipc-fill", [kind, id]) => say(op, fill(kind, number(id))),
        ("ipc-use", [kind, id]) => use_all(kind, number(id)),
        ("ipc-remove", [kind, id]) => say(op, control(kind, number(id), RMID, 0)),
        ("ipc-list", []) => KINDS.iter().for_each(|kind| list(kind)),
        ("ipc-own", []) => own(),
        ("ipc-many", [count]) => many(number(count)),
        ("ipc-linger", []) => linger(),
        ("ipc-linger-many", [count]) => linger_many(number(count)),
        ("ipc-race", [kind, tries]) => race(kind, number(tries)),
        ("ipc-churn", [kind, milliseconds]) => churn(kind, number(milliseconds)),
        ("ipc-cost", [count]) => cost(number(count)),
        _ => return false,
    }
    true
}

fn get(kind: &str, key: usize, flags: usize) -> Result {
    match kind {
        "shm" => call(libc::SYS_shmget, &[key, 4096, flags]),
        "sem" => call(libc::SYS_semget, &[key, 1, flags]),
        "msg" => call(libc::SYS_msgget, &[key, flags]),
        other => usage(&format!("not a kind: {other}")),
    }
}

fn control(kind: &str, id: usize, command: usize, argument: usize) -> Result {
    match kind {
        "shm" => call(libc::SYS_shmctl, &[id, command, argument]),
        "sem" => call(libc::SYS_semctl, &[id, 0, command, argument]),
        _ => call(libc::SYS_msgctl, &[id, command, argument]),
    }
}

fn attach(id: usize, flags: usize) -> Result {
    call(libc::SYS_shmat, &[id, 0, flags])
}

fn detach(address: usize) {
    let _ = call(libc::SYS_shmdt, &[address]);
}

/// `struct sembuf`: number, operation, flags.
fn operate(id: usize, operation: i16) -> Result {
    let operation = [0i16, operation, NOWAIT as i16];
    call(libc::SYS_semop, &[id, addr(&operation), 1])
}

fn send(id: usize) -> Result {
    let message = (1i64, [SECRET; 8]);
    call(libc::SYS_msgsnd, &[id, addr(&message), 8, NOWAIT])
}

fn receive(id: usize) -> Result<u8> {
    let mut message = (0i64, [0u8; 8]);
    call(libc::SYS_msgrcv, &[id, addr_mut(&mut message), 8, 0, NOWAIT])?;
    Ok(message.1[0])
}

fn fill(kind: &str, id: usize) -> Result {
    match kind {
        "shm" => attach(id, 0).map(|address| {
            sys::poke(address, SECRET);
            detach(address);
            0
        }),
        "sem" => control(kind, id, SETVAL, SECRET.into()),
        _ => send(id),
    }
}

/// Everything that can be done with an id, but its removal.
fn use_all(kind: &str, id: usize) {
    let mut status = [0u64; 32];
    let status = addr_mut(&mut status);
    say(&format!("{kind}-stat"), control(kind, id, STAT, status));
    say(&format!("{kind}-set"), control(kind, id, SET, status));
    match kind {
        "shm" => {
            for (name, flags) in [("shmat", 0), ("shmat-rdonly", RDONLY)] {
                let attached = attach(id, flags);
                say(name, attached);
                let _ = attached.map(detach);
            }
            let lock = |command| control(kind, id, command, 0);
            say("shm-lock", lock(11).and_then(|_| lock(12)));
        }
        "sem" => {
            say("semop", operate(id, 1));
            let operation = [0i16, -1, NOWAIT as i16];
            say("semtimedop", call(libc::SYS_semtimedop, &[id, addr(&operation), 1, 0]));
            let mut values = [0u16; 32];
            let all = addr_mut(&mut values);
            for (name, command, argument) in [
                ("sem-getpid", 11, 0),
                ("sem-getval", GETVAL, 0),
                ("sem-getall", 13, all),
                ("sem-getncnt", 14, 0),
                ("sem-getzcnt", 15, 0),
                ("sem-setval", SETVAL, 1),
                ("sem-setall", 17, all),
            ] {
                say(name, control(kind, id, command, argument));
            }
        }
        _ => {
            say("msgsnd", send(id));
            say("msgrcv", receive(id));
        }
    }
}

/// What tells of all objects of the system: the commands that go by rows of its tables.
fn list(kind: &str) {
    let mut room = [0u64; 32];
    let room = addr_mut(&mut room);
    // IPC_INFO, then the kind's own *_INFO, *_STAT and *_STAT_ANY (their pages in section 2).
    let (info, rows) = match kind {
        "shm" => (14, [13, 15]),
        "sem" => (19, [18, 20]),
        _ => (12, [11, 13]),
    };
    let mut last = 63;
    for (name, command) in [("ipc-info", 3), ("info", info)] {
        let highest_row = control(kind, 0, command, room);
        last = last.max(highest_row.unwrap_or(0));
        say(&format!("{kind}-{name}"), highest_row);
    }
    for (name, command) in [("row", rows[0]), ("row-any", rows[1])] {
        let found = (0..=last).find_map(|row| control(kind, row, command, room).ok());
        say(&format!("{kind}-{name}"), found.ok_or(libc::EINVAL));
    }
}

/// Makes one of each kind, which a child uses by id and by key; they stay.
fn own() {
    for kind in KINDS {
        let id = get(kind, PRIVATE, CREATE | 0o600);
        say(&format!("{kind}-private"), id);
        let key = 0x5a00_0000 + call(libc::SYS_getpid, &[]).unwrap_or(0);
        let known = get(kind, key, CREATE | EXCLUSIVE | 0o600);
        say(&format!("{kind}-known"), known);
        say(&format!("{kind}-fill"), known.and_then(|id| fill(kind, id)));
        let twice = get(kind, key, CREATE | EXCLUSIVE | 0o600);
        tell(&format!("{kind}-twice"), &twice.map_or_else(sys::name, |id| id.to_string()));
        let missing = get(kind, key + 0x10_0000, 0o600);
        tell(&format!("{kind}-missing"), &missing.map_or_else(sys::name, |id| id.to_string()));
        in_child(|| {
            let found = get(kind, key, 0o600);
            say(&format!("{kind}-same"), if found == known { Ok(0) } else { Err(libc::ESTALE) });
            say(&format!("{kind}-secret"), found.and_then(|id| reads_secret(kind, id)));
            use_all(kind, id.unwrap_or(0));
        });
        for id in [id, known] {
            tell(&format!("{kind}-id"), &id.map_or(String::new(), |id| id.to_string()));
        }
    }
}

fn reads_secret(kind: &str, id: usize) -> Result {
    let value = match kind {
        "shm" => attach(id, RDONLY).map(|address| {
            let value = sys::peek(address);
            detach(address);
            value
        })?,
        "sem" => u8::try_from(control(kind, id, GETVAL, 0)?).unwrap_or(0),
        _ => receive(id)?,
    };
    if value == SECRET { Ok(0) } else { Err(libc::ENODATA) }
}

fn in_child(work: impl FnOnce()) {
    match sys::fork() {
        Ok(0) => {
            work();
            sys::exit(0)
        }
        _ => {
            let _ = call(libc::SYS_wait4, &[usize::MAX, 0, 0, 0]);
        }
    }
}

/// Makes segments until that fails, or there are `count`.
fn many(count: usize) {
    let mut made = 0;
    let error = loop {
        match get("shm", PRIVATE, CREATE | 0o600) {
            Ok(_) if made == count => break "none".to_owned(),
            Ok(_) => made += 1,
            Err(errno) => break sys::name(errno),
        }
    };
    tell("made", &made.to_string());
    tell("error", &error);
}

/// A segment that is removed while it is attached can be attached until it is detached (shmctl(2)).
fn linger() {
    let id = get("shm", PRIVATE, CREATE | 0o600).unwrap_or(usize::MAX);
    let address = attach(id, 0);
    say("before", address);
    say("removed", control("shm", id, RMID, 0));
    let again = attach(id, 0);
    say("lingering", again);
    for address in [address, again].into_iter().flatten() {
        detach(address);
    }
    say("gone", attach(id, 0));
}

/// Makes segments that linger, and that nobody may look at, until that fails or there are `count`.
fn linger_many(count: usize) {
    let mut made = 0;
    let error = loop {
        let id = match get("shm", PRIVATE, CREATE | 0o600) {
            Ok(_) if made == count => break "none".to_owned(),
            Ok(id) => id,
            Err(errno) => break sys::name(errno),
        };
        // The mode is the upper half of the third word of struct shmid_ds.
        let mut status = [0u64; 32];
        let at = addr_mut(&mut status);
        let hidden = attach(id, 0).and_then(|_| control("shm", id, STAT, at)).and_then(|_| {
            status[2] &= 0xffff_ffff;
            control("shm", id, SET, at)
        });
        if let Err(errno) = hidden.and_then(|_| control("shm", id, RMID, 0)) {
            break sys::name(errno);
        }
        made += 1;
    };
    tell("made", &made.to_string());
    tell("error", &error);
}

/// Whether there is an object with this id that can be used, and it holds the secret.
fn has_secret(kind: &str, id: usize) -> Result<bool> {
    match kind {
        "shm" => attach(id, RDONLY).map(|address| {
            let found = sys::peek(address);
            detach(address);
            found == SECRET
        }),
        "sem" => control(kind, id, GETVAL, 0).map(|value| value == SECRET.into()),
        _ => match receive(id) {
            // One's own are empty.
            Err(libc::ENOMSG) => Ok(false),
            received => received.map(|byte| byte == SECRET),
        },
    }
}

/// One thread makes and removes objects, another uses those that were just removed: none of them
/// is one that somebody else made meanwhile.
fn race(kind: &str, tries: usize) {
    let latest = AtomicUsize::new(usize::MAX);
    let over = AtomicBool::new(false);
    let used = AtomicUsize::new(0);
    let mut secrets = 0;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for made in 0..tries {
                if let Ok(id) = get(kind, PRIVATE, CREATE | 0o600) {
                    latest.store(id, Ordering::SeqCst);
                    // Some live until they were used, so that using them is known to work.
                    let before = used.load(Ordering::SeqCst);
                    while made % 1024 == 0 && used.load(Ordering::SeqCst) == before {
                        std::thread::yield_now();
                    }
                    let _ = control(kind, id, RMID, 0);
                }
            }
            over.store(true, Ordering::SeqCst);
        });
        let mut recent = VecDeque::new();
        while !over.load(Ordering::SeqCst) {
            let id = latest.load(Ordering::SeqCst);
            if recent.back() != Some(&id) {
                recent.push_back(id);
            }
            if recent.len() > 8 {
                recent.pop_front();
            }
            for &id in &recent {
                if let Ok(is_secret) = has_secret(kind, id) {
                    used.fetch_add(1, Ordering::SeqCst);
                    secrets += usize::from(is_secret);
                }
            }
        }
    });
    tell("used", &used.into_inner().to_string());
    tell("secrets", &secrets.to_string());
}

/// Makes objects that hold the secret, and removes them, for a while.
fn churn(kind: &str, milliseconds: usize) {
    let end = std::time::Instant::now() + std::time::Duration::from_millis(milliseconds as u64);
    let mut made = 0;
    while std::time::Instant::now() < end {
        if let Ok(id) = get(kind, PRIVATE, CREATE | 0o666) {
            made += 1;
            let _ = fill(kind, id);
            let _ = control(kind, id, RMID, 0);
        }
    }
    tell("churned", &made.to_string());
}

/// Nanoseconds of a semop, and of attaching and detaching.
fn cost(count: usize) {
    let (set, segment) = (get("sem", PRIVATE, CREATE | 0o600), get("shm", PRIVATE, CREATE | 0o600));
    let (Ok(set), Ok(segment)) = (set, segment) else { return say("cost", set.and(segment)) };
    let time = |name: &str, work: &dyn Fn()| {
        let start = std::time::Instant::now();
        (0..count).for_each(|_| work());
        tell(name, &(start.elapsed().as_nanos() / count as u128).to_string());
    };
    time("semop", &|| {
        let _ = operate(set, 1);
    });
    time("shmat", &|| {
        let _ = attach(segment, 0).map(detach);
    });
    for (kind, id) in [("sem", set), ("shm", segment)] {
        let _ = control(kind, id, RMID, 0);
    }
}

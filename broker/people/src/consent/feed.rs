//! What is refused, told to whoever watches (`landstrip --watch`) as it happens: by a thread that the first denial starts.
//! Nobody who refuses waits for it, and what it cannot tell in time is left out.

use super::watcher;
use super::wire::Wire;
use crate::reports::lines::denial_line;
use kernel::threads::{lock, spawn};
use landstrip_core::report::denials::Denial;
use serde_json::{Value, json};
use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

const STACK: usize = 256 * 1024;
/// Most that waits to be told, and most that a watcher is told of a run.
const WAITING_MAX: usize = 256;
const TOLD_MAX: usize = 4096;
/// How long nobody else is looked for.
const PAUSE: Duration = Duration::from_secs(1);
/// How long the end of a run waits for what is to be told yet.
const LAST_LIMIT: Duration = Duration::from_millis(200);

static FEED: Mutex<Option<Feed>> = Mutex::new(None);
/// Until when nobody is looked for, in milliseconds since the first denial.
static PAUSED: AtomicU64 = AtomicU64::new(0);

struct Feed {
    queue: SyncSender<Denial>,
    /// Whose other end goes when all was told.
    ended: Receiver<()>,
}

/// Who watches, and what that one was told.
struct Watcher {
    name: String,
    wire: Wire,
    told: HashSet<Denial>,
}

/// Tells a denial to whoever watches.
pub fn tell(denial: &Denial) {
    if now() < PAUSED.load(Ordering::Relaxed) {
        return;
    }
    let mut feed = lock(&FEED);
    if feed.is_none() {
        *feed = start();
    }
    // If too much waits already, it is left out.
    feed.iter().for_each(|feed| _ = feed.queue.try_send(denial.clone()));
}

/// Tells the rest, once the command has ended.
pub(crate) fn end() {
    let Some(Feed { queue, ended }) = lock(&FEED).take() else { return };
    drop(queue);
    let _ = ended.recv_timeout(LAST_LIMIT);
}

fn now() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    // It is long before that many are too many.
    START.get_or_init(Instant::now).elapsed().as_millis().try_into().unwrap_or(u64::MAX)
}

fn start() -> Option<Feed> {
    let (queue, denials) = sync_channel(WAITING_MAX);
    let (end, ended) = sync_channel(1);
    let work = move || {
        tell_all(&denials);
        drop(end);
    };
    spawn(STACK, work).ok()?;
    Some(Feed { queue, ended })
}

fn tell_all(denials: &Receiver<Denial>) {
    let mut watchers: Vec<Watcher> = Vec::new();
    let mut looked = Instant::now();
    for denial in denials {
        if watchers.is_empty() || looked.elapsed() >= PAUSE {
            let is_known = |name: &str| watchers.iter().any(|watcher| watcher.name == name);
            let found = watcher::find_others(&is_known);
            let found: Vec<_> =
                found.map(|(name, wire)| Watcher { name, wire, told: HashSet::new() }).collect();
            watchers.extend(found);
            looked = Instant::now();
        }
        if watchers.is_empty() {
            let pause = PAUSE.as_millis().try_into().unwrap_or(u64::MAX);
            PAUSED.store(now().saturating_add(pause), Ordering::Relaxed);
        }
        watchers.retain_mut(|watcher| watcher.tell(&denial));
    }
}

impl Watcher {
    /// Whether it may be there still.
    fn tell(&mut self, denial: &Denial) -> bool {
        if self.told.len() >= TOLD_MAX || !self.told.insert(denial.clone()) {
            return true;
        }
        let report: Option<Value> = serde_json::from_str(&denial_line(denial)).ok();
        self.wire.say(&json!({ "denied": report }))
    }
}

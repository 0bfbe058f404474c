//! Calls whose path another thread exchanges while somebody is asked about them: what was answered is done, and nothing else.

use super::patience;
use std::collections::HashSet;
use std::fs;
use tests::{ESCAPED, Sandbox, User, for_each_user, race_tries};

/// How many questions are asked unless somebody says another number.
const USUAL: usize = 2000;

/// Has one thread lead `link` there and elsewhere, and the other make files by it.
const EXCHANGED: &str = "
import os, sys, threading
asked, other, tries = sys.argv[1], sys.argv[2], int(sys.argv[3])
is_over = False
def lead(name, place):
    os.symlink(place, name)
    os.rename(name, 'link')
def exchange():
    while not is_over:
        lead('a', other); lead('b', asked)
def make(name):
    try: os.close(os.open('link/' + name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC))
    except OSError: return 'refused'
    return 'made'
lead('a', asked)
print(make('first'), flush=True)
thread = threading.Thread(target=exchange)
thread.start()
for number in range(tries): make(f'f{number}')
is_over = True
thread.join()
";

/// Most calls of one run: after 4096 rules that were refused nothing more is asked.
const CALLS_MAX: usize = 2000;

/// What was asked in one run.
#[derive(Debug, Default)]
struct Asked {
    questions: usize,
    /// How many of them about where the path was not to lead.
    elsewhere: usize,
}

#[test]
fn a_path_that_is_exchanged_while_its_question_waits_leads_nowhere_else() {
    for_each_user(|user| {
        let tries = race_tries(USUAL) / 2;
        let mut all = Asked::default();
        while all.questions < tries {
            let Asked { questions, elsewhere } = exchange(user, tries - all.questions);
            all.questions += questions;
            all.elsewhere += elsewhere;
        }
        eprintln!("{all:?}");
        assert!(all.elsewhere > 0 && all.elsewhere < all.questions, "no race: {all:?}");
    });
}

/// Runs one sandbox that makes so many calls, and has a question for each of them at least.
fn exchange(user: User, calls: usize) -> Asked {
    let calls = calls.clamp(10, CALLS_MAX);
    let sandbox = Sandbox::of(user).allow_write(".").timeout(patience());
    let (asked, other) = (sandbox.dir("home/asked"), sandbox.dir("home/other"));
    sandbox.file("home/other/kept", "kept");
    let places = [&asked, &other].map(|place| place.to_str().unwrap().to_owned());
    let [there, elsewhere] = &places;
    let words = ["python3", "-c", EXCHANGED, there, elsewhere, &calls.to_string()];
    let (running, mut questions) = sandbox.ask(words);
    let mut answered = HashSet::new();
    let mut seen = Asked::default();
    while let Some(line) = questions.line() {
        let Some(number) = line["ask"].as_u64() else { continue };
        let path = line["report"]["Filesystem"][1].as_str().unwrap();
        seen.questions += 1;
        // What leads elsewhere is another question.
        match path.strip_prefix(there) {
            Some(name) => {
                answered.insert(name[1..].to_owned());
                questions.answer(number, "once");
            }
            None => {
                seen.elsewhere += 1;
                questions.answer(number, "deny");
            }
        }
    }
    let outcome = running.wait();
    assert_eq!(outcome.stdout, "made\n", "{outcome:#?}");
    let names = |place| fs::read_dir(place).unwrap().map(|entry| entry.unwrap().file_name());
    let outside: Vec<_> = names(&other).collect();
    assert_eq!(outside, ["kept"], "{ESCAPED}{outcome:#?}");
    assert_eq!(sandbox.read("home/other/kept"), "kept", "{ESCAPED}");
    for name in names(&asked) {
        assert!(answered.contains(name.to_str().unwrap()), "{ESCAPED}{name:?}");
    }
    assert!(seen.questions > calls, "{seen:?} of {calls}: {outcome:#?}");
    seen
}

//! A program that draws the whole screen, in one window of tmux, and `--watch` in another: the screen is drawn as it is
//! without landstrip, and what is typed to either is its own.

use tests::{ESCAPED, Sandbox, User, eventually, for_each_user, quoted, skipped};

/// The windows of one server of tmux.
struct Windows<'a>(&'a Sandbox);

impl Windows<'_> {
    fn tmux(&self, words: &str) -> String {
        self.0
            .sh_outside(&format!("SHELL=/bin/sh exec tmux -S ~/server -f /dev/null {words}"))
            .stdout
            .clone()
    }

    /// Opens `name`, with a shell.
    fn open(&self, name: &str) {
        let words = format!("new-session -d -s {name} -x 90 -y 20 'PS1=; export PS1; exec sh'");
        self.tmux(&format!("{words} >/dev/null 2>&1"));
    }

    fn press(&self, name: &str, keys: &str) {
        self.tmux(&format!("send-keys -t {name} {keys}"));
    }

    fn screen(&self, name: &str) -> String {
        self.tmux(&format!("capture-pane -p -t {name}"))
    }

    #[track_caller]
    fn expect(&self, name: &str, text: &str) -> String {
        let is_there = || self.screen(name).contains(text);
        assert!(eventually(is_there), "{text:?} not in {name}: {}", self.screen(name));
        self.screen(name)
    }
}

impl Drop for Windows<'_> {
    fn drop(&mut self) {
        self.tmux("kill-server");
    }
}

const VIM: &str = "vim -N -u NONE -i NONE -n ~/.npm/a";

/// Writes a file with vim that `landstrip` starts, which `answer` answers for: what vim had on the screen.
fn edited(windows: &Windows<'_>, landstrip: &str, answer: impl Fn()) -> Vec<String> {
    windows.press("editor", &format!("{} Enter", quoted(&format!("{landstrip}{VIM}"))));
    let empty = windows.expect("editor", "[New]");
    windows.press("editor", "ihello Escape :w Enter");
    answer();
    let written = windows.expect("editor", "written");
    windows.press("editor", "oagain Escape :x Enter");
    vec![empty, written]
}

#[test]
fn an_editor_draws_what_it_does_without_while_another_window_asks() {
    for_each_user(|user: User| {
        let sandbox = Sandbox::of(user).allow_write(".");
        if sandbox.sh_outside("command -v tmux && command -v vim").status != Some(0) {
            return skipped("there is no tmux, or no vim");
        }
        sandbox.dir("home/.npm");
        let file = || std::fs::read_to_string(sandbox.path("home/.npm/a")).unwrap_or_default();
        let line = sandbox.command_line();
        let line: Vec<_> = line.iter().map(|word| word.to_str().unwrap()).collect();
        let windows = Windows(&sandbox);
        windows.open("editor");
        windows.open("watch");
        let outside = edited(&windows, "", || ());
        assert!(eventually(|| file() == "hello\nagain\n"), "{}", windows.screen("editor"));
        std::fs::remove_file(sandbox.path("home/.npm/a")).unwrap();
        windows.press("watch", &format!("{} Enter", quoted(&format!("{} --watch", line[0]))));
        windows.expect("watch", "landstrip: watching");
        let inside = edited(&windows, &format!("{} --ask terminal -- ", line.join(" ")), || {
            windows.expect("watch", "wants to change");
            // What is typed to the editor answers nothing.
            windows.press("editor", "y Escape r Escape");
            assert_eq!(file(), "", "{ESCAPED}");
            let shown = windows.screen("editor");
            assert!(!shown.contains("landstrip"), "{shown}");
            windows.press("watch", "r Enter");
        });
        assert_eq!(inside, outside);
        assert!(eventually(|| file() == "hello\nagain\n"), "{}", windows.screen("editor"));
        let asked = windows.screen("watch");
        assert_eq!(asked.matches("wants to change").count(), 1, "{asked}");
    });
}

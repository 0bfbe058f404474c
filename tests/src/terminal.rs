//! An interactive shell on a pseudoterminal, to press Ctrl-C and Ctrl-Z at.

use crate::sandbox::Sandbox;
use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, openpt, ptsname, unlockpt};
use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};

/// bash with job control, as the sandbox's user, on a terminal of its own.
#[derive(Debug)]
pub struct Terminal {
    shell: Child,
    master: File,
    seen: Arc<Mutex<Vec<u8>>>,
    read: usize,
}

impl Terminal {
    /// Starts the shell in the sandbox's working directory; `$L` is the launcher's command line.
    pub fn of(sandbox: &Sandbox) -> Self {
        // Opened so that no command of another test inherits them.
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let master = openpt(flags).expect("a pseudoterminal");
        unlockpt(&master).expect("a terminal");
        let terminal = ioctl_tiocgptpeer(&master, flags).expect("a terminal");
        let name = ptsname(&master, Vec::new()).expect("a terminal's name");
        sandbox.user().give(Path::new(name.to_str().expect("a path")));
        let line = sandbox.command_line();
        let line: Vec<_> = line.iter().map(|word| word.to_string_lossy()).collect();
        let shell = ["setsid", "--ctty", "bash", "--norc", "--noprofile", "--noediting", "-i"];
        let mut command = sandbox.command(shell.iter().map(OsString::from).collect());
        let slave = || Stdio::from(terminal.try_clone().expect("the terminal"));
        command.stdin(slave()).stdout(slave()).stderr(slave());
        command.env("L", line.join(" ")).env("PS1", "$ ").env("TERM", "dumb");
        let shell = command.spawn().expect("a shell");
        drop(command);
        drop(terminal);
        let master = File::from(master);
        let mut from = master.try_clone().expect("the terminal");
        let seen = Arc::new(Mutex::new(Vec::new()));
        let shared = Arc::clone(&seen);
        std::thread::spawn(move || {
            let mut buffer = [0; 1024];
            while let Ok(size @ 1..) = from.read(&mut buffer) {
                shared.lock().expect("terminal").extend_from_slice(&buffer[..size]);
            }
        });
        let mut terminal = Self { shell, master, seen, read: 0 };
        terminal.expect("$ ");
        terminal
    }

    /// Types text.
    pub fn type_in(&mut self, text: &str) {
        self.master.write_all(text.as_bytes()).expect("typing");
    }

    /// Ends what is in the foreground.
    pub fn end_job(&self) {
        let group = rustix::termios::tcgetpgrp(&self.master).expect("a foreground");
        rustix::process::kill_process_group(group, rustix::process::Signal::KILL).expect("a job");
    }

    /// Waits until `text` appears after what was expected before.
    #[track_caller]
    pub fn expect(&mut self, text: &str) {
        let mut end = None;
        let found = crate::eventually(|| {
            let seen = self.seen.lock().expect("terminal");
            let rest = String::from_utf8_lossy(&seen[self.read..]).into_owned();
            end = rest.find(text).map(|at| self.read + at + text.len());
            end.is_some()
        });
        assert!(found, "{text:?} not on the terminal: {}", self.all());
        self.read = end.unwrap_or(self.read);
    }

    /// All that was shown.
    pub fn all(&self) -> String {
        String::from_utf8_lossy(&self.seen.lock().expect("terminal")).into_owned()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.shell.kill();
        let _ = self.shell.wait();
    }
}

//! Devices and what the kernel itself answers for: of these a command gets what the contract lists.

use rustix::pty::{OpenptFlags, openpt, ptsname, unlockpt};
use std::ffi::OsString;
use std::fs;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::Path;
use tests::{Sandbox, Terminal, User, for_each_user};

/// A terminal of the sandbox's user that nobody in the sandbox made.
pub(crate) struct Stranger {
    master: fs::File,
    pub(crate) name: String,
}

impl Stranger {
    pub(crate) fn new(user: User) -> Self {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let master = openpt(flags).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
        if user == User::Nobody {
            chown(&name, Some(user.uid()), None).unwrap();
        }
        rustix::io::ioctl_fionbio(&master, true).unwrap();
        Self { master: master.into(), name }
    }

    /// What was written there.
    pub(crate) fn shown(&mut self) -> String {
        let mut shown = [0; 1024];
        let size = self.master.read(&mut shown).unwrap_or(0);
        String::from_utf8_lossy(&shown[..size]).into_owned()
    }

    /// Whether it was opened by its name, which is over.
    fn was_opened(&self) -> bool {
        (&self.master).read(&mut [0]).is_err_and(|error| error.raw_os_error() == Some(libc::EIO))
    }
}

/// Opens `path` in every way; says `got` for each that succeeds.
fn open(path: &str) -> String {
    ["<", ">", ">>", "<>"].map(|how| format!("( : {how} {path} ) && echo got; ")).concat() + "true"
}

/// Policies under which Landlock, the broker or both decide about an open.
fn policies(user: User) -> [Sandbox; 4] {
    let secret = |sandbox: Sandbox| {
        sandbox.file("work/secret", "");
        sandbox.deny_read("secret")
    };
    [
        Sandbox::of(user),
        Sandbox::of(user).allow_write("."),
        secret(Sandbox::of(user).allow_write(".")),
        Sandbox::of(user).allow_write("/"),
    ]
}

#[test]
fn a_strangers_terminal_is_not_opened() {
    for_each_user(|user| {
        for sandbox in policies(user) {
            let mut terminal = Stranger::new(user);
            let name = terminal.name.clone();
            let outcome = sandbox.sh(&open(&name));
            assert_eq!(outcome.succeeds().stdout, "", "{outcome:#?}");
            let outside = sandbox.sh_outside(&open(&name));
            assert_eq!(outside.stdout.lines().count(), 4, "{outside:#?}");
            sandbox.probe(format!("controlling {name}")).all_refused();
            assert_eq!(terminal.shown(), "");
            sandbox.probe_outside(format!("controlling {name}")).all_allowed();
            assert_eq!(terminal.shown(), "pwned");
        }
    });
}

/// Access mode 3 is neither reading nor writing for Landlock, which so lets every device be opened, and held.
#[test]
fn a_strangers_terminal_is_not_opened_for_neither_reading_nor_writing() {
    const OPEN: &str = "import os, sys
for name in sys.argv[1:]:
    for flags in (3, 3 | os.O_CREAT, 3 | os.O_TRUNC | os.O_NOCTTY | os.O_NONBLOCK):
        try: os.close(os.open(name, flags)); print('got', name)
        except OSError as error: print(error.errno)
own = os.open('own', os.O_RDWR | os.O_CREAT); os.write(own, b'kept'); os.open('own', os.O_PATH | 3); print('own')";
    for_each_user(|user| {
        for sandbox in policies(user) {
            let sandbox = sandbox.allow_write(".");
            let terminal = Stranger::new(user);
            let words = ["python3", "-c", OPEN, &terminal.name, "/dev/tty", "own"];
            let outcome = sandbox.run(words);
            let refused = "13\n".repeat(9);
            assert_eq!(outcome.stdout, format!("{refused}own\n"), "{outcome:#?}");
            assert!(!terminal.was_opened());
            assert_eq!(sandbox.read("work/own"), "kept");
            sandbox.run_outside(words).succeeds();
            assert!(terminal.was_opened());
        }
    });
}

#[test]
fn a_terminal_of_its_own_is_opened_by_every_name() {
    for_each_user(|user| {
        for sandbox in policies(user) {
            let script = "tty; echo controlling > /dev/tty; echo named > $(tty); stty size; \
                echo descriptor > /dev/fd/1; echo stream > /dev/stderr";
            let outcome = sandbox.run(["script", "-qec", script, "/dev/null"]);
            let said: Vec<_> = outcome.succeeds().stdout.lines().collect();
            assert!(said[0].starts_with("/dev/pts/"), "{outcome:#?}");
            assert_eq!(said[1..], ["controlling", "named", "0 0", "descriptor", "stream"]);
        }
    });
}

/// As multiplexers do that run as root, and whoever lets others write to the terminal (mesg(1)).
#[test]
fn owner_and_mode_of_a_terminal_are_changed_by_who_made_it() {
    for_each_user(|user| {
        // Under the last of them those of everyone may be changed.
        for sandbox in policies(user).into_iter().take(3) {
            let stranger = Stranger::new(user);
            let before = fs::metadata(&stranger.name).unwrap();
            let change = |terminal: &str| {
                format!(
                    "t={terminal}; touch $t && chmod 622 $t && stat -c %a $t && \
                     chown $(id -u):$(id -g) $t && stat -c %g $t"
                )
            };
            let inside = sandbox.run(["script", "-qec", &change("$(tty)"), "/dev/null"]);
            let outside = sandbox.run_outside(["script", "-qec", &change("$(tty)"), "/dev/null"]);
            assert_eq!(inside.succeeds().stdout, outside.succeeds().stdout, "{inside:#?}");
            sandbox.sh(&change(&stranger.name)).fails();
            let after = fs::metadata(&stranger.name).unwrap();
            let told = |data: &fs::Metadata| (data.mode(), data.gid(), data.mtime());
            assert_eq!(told(&before), told(&after));
            sandbox.sh_outside(&change(&stranger.name)).succeeds();
            assert_ne!(told(&before), told(&fs::metadata(&stranger.name).unwrap()));
        }
    });
}

#[test]
fn the_terminal_that_it_was_started_on_is_opened_by_its_name() {
    for_each_user(|user| {
        for sandbox in policies(user) {
            let mut terminal = Terminal::of(&sandbox);
            let script =
                "t=$(tty); echo by-name > $t; cat < $t > /dev/null & stty size < $t; kill $!";
            terminal.type_in(&format!("$L -- sh -c '{script}' && echo d''one\n"));
            terminal.expect("\nby-name");
            terminal.expect("\n0 0");
            terminal.expect("\ndone");
        }
    });
}

/// Then it has none, as harnesses start it that were started on one.
#[test]
fn a_terminal_that_no_standard_stream_leads_to_is_not_opened() {
    for_each_user(|user| {
        for sandbox in policies(user) {
            let mut terminal = Terminal::of(&sandbox);
            let script = "echo by-name > $0; stty -echo < $0; cat < $0; echo ended";
            terminal.type_in(&format!(
                "$L -- sh -c '{script}' $(tty) </dev/null >said 2>&1; cat said; stty; echo d''one\n"
            ));
            terminal.expect("\ndone");
            let all = terminal.all();
            assert!(!all.contains("\nby-name") && !all.contains(" -echo\r"), "{all}");
            assert!(all.contains("\nended"), "{all}");
        }
    });
}

/// A device node, which only root can make, that everybody may open.
struct Node(String);

impl Node {
    fn new(name: &str, device: &str) -> Option<Self> {
        let path = format!("/dev/landstrip-{name}-{}", std::process::id());
        let script = format!("mkdir {path} && mknod -m 666 {path}/device {device}");
        let made = Sandbox::new().sh_outside(&format!("{script} && : < {path}/device"));
        let node = Self(path);
        (made.status == Some(0)).then_some(node)
    }

    fn path(&self) -> String {
        format!("{}/device", self.0)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn no_device_is_opened_outside_of_dev_where_the_broker_opens_what_is_read() {
    for_each_user(|user| {
        let own = Sandbox::of(user).policy_json(r#"{"processes": "own"}"#);
        let plain = || Sandbox::of(user).allow_write(".");
        for (sandbox, expected) in
            [(own, ""), (plain().deny_read("secret"), ""), (plain(), "got\n")]
        {
            // /dev/zero, by another name.
            let made = "mknod -m 666 zero c 1 5 && : < zero";
            let mut node = std::process::Command::new("sh");
            node.args(["-c", made]);
            let node =
                node.current_dir(sandbox.path("work")).stderr(std::process::Stdio::null()).status();
            // Only root can make one, and not everywhere can it be opened.
            if !node.unwrap().success() {
                return tests::skipped("no device can be made here");
            }
            let outcome = sandbox.sh("(: < zero) && echo got; : < /dev/zero");
            assert_eq!(outcome.succeeds().stdout, expected, "{outcome:#?}");
            assert!(sandbox.sh_outside("head -c 1 zero").status == Some(0));
        }
    });
}

#[test]
fn a_device_is_opened_only_if_the_policy_names_it() {
    // /dev/zero, by another name; and the first loop device.
    for (name, device) in [("zero", "c 1 5"), ("disk", "b 7 0")] {
        let Some(node) = Node::new(name, device) else { return };
        let path = node.path();
        for_each_user(|user| {
            for sandbox in policies(user) {
                let outcome = sandbox.sh(&open(&path));
                assert_eq!(outcome.succeeds().stdout, "", "{outcome:#?}");
                assert_eq!(sandbox.sh_outside(&open(&path)).stdout.lines().count(), 4);
                sandbox.sh("ls /dev /dev/pts && : < /dev/zero && : > /dev/null").succeeds();
            }
            let dev = Sandbox::of(user).allow_write("/dev");
            assert_eq!(dev.sh(&open(&path)).stdout, "");
            dev.sh("f=/dev/shm/shared-$$ && echo x > $f && rm $f").succeeds();
            for named in [path.clone(), node.0.clone()] {
                let read = Sandbox::of(user).allow_read(&named);
                assert_eq!(read.sh(&open(&path)).stdout, "got\n");
                for sandbox in policies(user) {
                    let both = sandbox.allow_write(&named);
                    assert_eq!(both.sh(&open(&path)).stdout.lines().count(), 4, "{named}");
                }
            }
        });
    }
}

/// The words that start the sandbox, for a script.
fn launcher(sandbox: &Sandbox) -> String {
    let words = sandbox.command_line();
    words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// Runs a script of the sandbox's user with mounts of its own; none where that is not permitted.
fn with_mounts(sandbox: &Sandbox, mounts: &str, script: &str) -> Option<tests::Outcome> {
    let user = if sandbox.user().is_root() { "" } else { "-Ur" };
    // Who is root there must not take the names that root has in /tmp.
    let unshare = format!(
        "TMPDIR={} exec unshare {user} -mpf sh -c '{mounts} && echo mounted; {script}'",
        sandbox.name("outside")
    );
    let outcome = sandbox.sh_outside(&unshare);
    outcome.stdout.starts_with("mounted\n").then_some(outcome)
}

#[test]
fn what_is_denied_is_denied_wherever_it_is_mounted() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user).allow_write("w").deny_read("sec").deny_read("data/home");
        let sandbox = sandbox.deny_write("dw");
        for directory in ["other", "home", "free", "w", "w/dw", "data"] {
            sandbox.dir(format!("work/{directory}"));
        }
        for directory in ["sec", "data/home", "data/free", "dw"] {
            sandbox.dir(format!("work/{directory}"));
            sandbox.file(format!("work/{directory}/k"), "was");
        }
        sandbox.file(
            "work/attack",
            "for f in sec other data/home home data/free free; do cat $f/k 2>/dev/null && echo \" $f\"; done
             for f in dw/k w/dw/k w/k; do ( echo new > $f ) 2>/dev/null && echo $f; done",
        );
        let launcher = launcher(&sandbox);
        let mounts = "mount -t proc proc /proc && mount --bind sec other && mount --bind data/home home \
            && mount --bind data/free free && mount --bind dw w/dw";
        let script = format!("{launcher} -- sh attack; cat dw/k");
        let Some(outcome) = with_mounts(&sandbox, mounts, &script) else { return };
        let expected = "mounted\nwas data/free\nwas free\nw/k\nwas";
        assert_eq!(outcome.stdout, expected, "{outcome:#?}");
    });
}

/// Landlock lets all be used that is beneath what it grants: where a directory is mounted in itself, or what is denied in
/// one that has two places, each of what is above a mount is another name of what nothing is denied in.
#[test]
fn what_is_denied_is_denied_beneath_a_mount_in_what_is_mounted_twice() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user).allow_write("w").deny_read("sec").deny_read("deep");
        let sandbox = sandbox.deny_write("w/dw");
        let deep =
            ["jail", "jail/root", "jail/root/again", "w/jail", "w/jail/again", "w/b", "w/b/m"];
        let flat = ["w", "sec", "deep", "w/dw", "w/c", "w/e", "w/e/m", "other", "place"];
        for directory in flat.into_iter().chain(deep) {
            sandbox.dir(format!("work/{directory}"));
        }
        for file in ["sec/k", "deep/k", "open", "w/dw/k", "w/plain", "other/k", "w/e/k"] {
            sandbox.file(format!("work/{file}"), "was");
        }
        sandbox.file(
            "work/attack",
            "for f in sec/k jail/root/again/sec/k w/b/m/k open jail/root/again/open; do cat $f && echo \" $f\"; done
             for f in w/dw/k w/jail/again/dw/k w/b/m/k place/m/k w/e/k w/plain; do ( echo new > $f ) && echo $f; done",
        );
        let launcher = launcher(&sandbox);
        let mounts = "mount -t proc proc /proc && mount --bind . jail/root/again \
            && mount --bind w w/jail/again && mount --bind w/b w/c && mount --bind deep w/b/m \
            && mount --bind w/e place && mount --bind other place/m";
        let script = format!("{launcher} -- sh attack; cat w/dw/k deep/k other/k");
        let Some(outcome) = with_mounts(&sandbox, mounts, &script) else { return };
        let expected = "mounted\nwas open\nwas jail/root/again/open\nw/e/k\nw/plain\nwaswaswas";
        assert_eq!(outcome.stdout, expected, "{outcome:#?}");
    });
}

/// The table is in the order in which mounts were made, not in that in which they cover each other.
#[test]
fn what_is_denied_is_denied_where_a_mount_was_moved() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user).allow_write("w").deny_read("sec").deny_write("w/dw");
        for directory in ["sec", "other", "made", "w", "w/dw", "w/other"] {
            sandbox.dir(format!("work/{directory}"));
        }
        for file in ["sec/k", "w/dw/k", "open"] {
            sandbox.file(format!("work/{file}"), "was");
        }
        sandbox.file(
            "work/attack",
            "for f in sec/k other/k open; do cat $f && echo \" $f\"; done
             for f in w/dw/k w/other/k w/new; do ( echo new > $f ) && echo $f; done",
        );
        let launcher = launcher(&sandbox);
        let mounts = "mount -t proc proc /proc && mount --bind sec made && mount -t tmpfs none other && \
            mount --move made other && mount --bind w/dw made && mount -t tmpfs none w/other && mount --move made w/other";
        let script = format!("{launcher} -- sh attack; cat w/dw/k");
        let Some(outcome) = with_mounts(&sandbox, mounts, &script) else { return };
        assert_eq!(outcome.stdout, "mounted\nwas open\nw/new\nwas", "{outcome:#?}");
    });
}

/// The table has no line for a root directory where nothing is mounted.
#[test]
fn what_is_denied_is_denied_in_a_root_directory_that_is_no_mount_point() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user);
        for directory in ["", "data", "data/home", "data/home/u", "home", "w", "programs"] {
            sandbox.dir(format!("work/root/{directory}"));
        }
        sandbox.file("work/root/data/home/u/k", "was");
        sandbox.file("work/root/open", "was");
        for (name, denied) in [("one", "/home/u"), ("other", "/data/home/u")] {
            let policy =
                format!(r#"{{"filesystem":{{"allowWrite":["/w"],"denyRead":["{denied}"]}}}}"#);
            sandbox.file(format!("work/root/{name}.json"), policy);
        }
        let launcher = sandbox.command_line();
        let launcher = Path::new(&launcher[0]);
        let programs = launcher.parent().unwrap().display();
        let mounts = format!(
            "mount -t proc proc /proc && cd root && for d in bin dev lib lib64 proc usr; do \
             [ ! -e /$d ] || {{ mkdir -p $d && mount --rbind /$d $d; }}; done && \
             mount --bind {programs} programs && mount --bind data/home home"
        );
        let script = "for p in one other; do chroot . /programs/landstrip -p $p.json -- \
             cat home/u/k data/home/u/k open; done; chroot . cat home/u/k";
        let Some(outcome) = with_mounts(&sandbox, &mounts, script) else { return };
        assert_eq!(outcome.stdout, "mounted\nwaswaswas", "{outcome:#?}");
    });
}

/// A host binds /dev with all beneath for a root directory of another system.
#[test]
fn shared_memory_of_others_is_not_read_where_it_is_mounted_again() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user).allow_write("w");
        sandbox.dir("work/jail");
        sandbox.dir("work/jail/dev");
        sandbox.file("work/policy.json", r#"{"filesystem":{"denyRead":["jail/dev/null"]}}"#);
        let launcher = launcher(&sandbox);
        let mounts = "mount -t proc proc /proc && mount -t tmpfs none /dev/shm && chmod 1777 /dev/shm && \
            mount --rbind /dev jail/dev && echo was > /dev/shm/obj && mkdir -p jail/other && echo open > jail/other/f";
        let read = "cat /dev/shm/obj jail/dev/shm/obj jail/other/f";
        let script = format!(
            "{launcher} -- {read}; {launcher} -p policy.json -- {read}; cat jail/dev/shm/obj"
        );
        let Some(outcome) = with_mounts(&sandbox, mounts, &script) else { return };
        assert_eq!(outcome.stdout, "mounted\nopen\nopen\nwas\n", "{outcome:#?}");
    });
}

/// Of what is mounted nowhere any more the kernel writes the end of a path alone, which can be that of what is allowed; and
/// there can be a link that leads on to it.
#[test]
fn what_was_unmounted_is_not_taken_for_what_has_such_a_path() {
    for_each_user(|user| {
        let [one, other] = [(); 2].map(|()| Sandbox::of(user).allow_write("w"));
        for sandbox in [one.deny_write("w/.env"), other.deny_read("w/priv").deny_read("m")] {
            for directory in ["m", "w", "w/free"] {
                sandbox.dir(format!("work/{directory}"));
            }
            sandbox.file(
                "work/change",
                "chmod 700 kept; echo new | dd of=kept conv=notrunc,nocreat 2>/dev/null",
            );
            sandbox.file(
                "work/attack",
                "t=$PWD; cd m$t/w/sub; : > $t/w/ready; while [ -e $t/w/ready ]; do sleep 0.01; done
                 cat key; sh $t/change; ln -s /proc/$$/cwd $t/w/sub; sh $t/change; ( : > made )
                 cd $t/w/free; echo was > kept; sh $t/change; cat kept
                 exec 3< kept; rm kept; chmod 600 /proc/self/fd/3 && stat -Lc %a /proc/self/fd/3",
            );
            let launcher = launcher(&sandbox);
            let mounts = "mount -t proc proc /proc && mount -t tmpfs none m && exec 9< m \
                && mkdir -p m$PWD/w/sub && echo was > m$PWD/w/sub/kept \
                && chmod 644 m$PWD/w/sub/kept && echo secret > m$PWD/w/sub/key";
            let script = format!(
                "{launcher} -- sh attack & \
                 while kill -0 $! && [ ! -e w/ready ]; do sleep 0.01; done; umount -l m; rm w/ready; wait
                 cd /proc/self/fd/9$PWD/w/sub; cat kept; stat -c %a kept; ls"
            );
            let Some(outcome) = with_mounts(&sandbox, mounts, &script) else { return };
            let expected = "mounted\nnew\n600\nwas\n644\nkept\nkey\n";
            assert_eq!(outcome.stdout, expected, "{outcome:#?}");
        }
    });
}

/// On NTFS a directory can have a second name, which is found and never listed, and which whoever may write to it can give:
/// by an attribute of that file system.
#[test]
fn nothing_that_is_denied_gets_a_second_name_on_ntfs() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user).allow_write("m");
        sandbox.dir("work/m");
        for (name, denied) in [("beneath", "m/secret"), ("whole", "m")] {
            let policy = format!(r#"{{"filesystem":{{"denyRead":["{denied}"]}}}}"#);
            sandbox.file(format!("work/{name}.json"), policy);
        }
        sandbox.file(
            "work/attack.py",
            "import errno, os
for name in 'user.x', 'system.ntfs_dos_name':
    try:
        os.setxattr('m/free', name, b'FREE~1')
        print('set', name)
    except OSError as error:
        print(errno.errorcode[error.errno])
for name in 'free', 'FREE~1':
    print(os.path.exists('m/' + name))",
        );
        let launcher = launcher(&sandbox);
        let mounts = "mount -t proc proc /proc && truncate -s 20M image \
            && mkntfs -FqQ image >/dev/null 2>&1 && ntfs-3g -o permissions image m \
            && mkdir m/free m/secret";
        let script = format!(
            "{launcher} -- /usr/bin/python3 attack.py
             {launcher} -p beneath.json -- echo runs 2>&1 | grep -o \"m is on NTFS\"
             {launcher} -p whole.json -- echo runs
             /usr/bin/python3 attack.py"
        );
        let Some(outcome) = with_mounts(&sandbox, mounts, &script) else {
            return tests::skipped("NTFS cannot be mounted here");
        };
        let expected = "mounted\nset user.x\nENOTSUP\nTrue\nFalse\nm is on NTFS\nruns\n\
            set user.x\nset system.ntfs_dos_name\nTrue\nTrue\n";
        assert_eq!(outcome.stdout, expected, "{outcome:#?}");
    });
}

#[test]
fn the_kernels_controls_stay_unwritable_wherever_they_are_mounted() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user).allow_write(".");
        sandbox.dir("work/proc");
        sandbox.file("work/comm", "");
        sandbox.file(
            "work/attack",
            "for f in proc/self/comm comm plain; do ( : >> $f ) && echo $f; done",
        );
        let launcher = launcher(&sandbox);
        let mounts = "mount -t proc proc /proc && mount -t proc proc proc \
            && mount --bind /proc/self/comm comm";
        let script = format!("sh attack; echo inside; {launcher} -- sh attack");
        let Some(outcome) = with_mounts(&sandbox, mounts, &script) else { return };
        let expected = "mounted\nproc/self/comm\ncomm\nplain\ninside\nplain\n";
        assert_eq!(outcome.stdout, expected, "{outcome:#?}");
    });
}

/// Mounts what can be mounted here of the kernel's controls, each in a directory of its own.
const CONTROLS: &str =
    "for kind in bpf cgroup2 configfs debugfs efivarfs fusectl pstore securityfs sysfs tracefs; do
    mkdir -p controls/$kind && mount -t $kind none controls/$kind 2>/dev/null
done";

/// Names the kinds among them where a file can be opened to be written, and one that can.
const OPEN_CONTROLS: &str = "for kind in controls/*; do
    find $kind -xdev -maxdepth 3 -type f -perm -200 2>/dev/null | head -n 20 |
        while read -r file; do ( : >> $file ) 2>/dev/null && echo $kind; done | head -n 1
done; ( : >> plain ) && echo plain";

#[test]
fn no_kind_of_the_kernels_controls_is_written_beneath_what_may_be() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user).allow_write(".");
        sandbox.file("work/attack", OPEN_CONTROLS);
        let launcher = launcher(&sandbox);
        let mounts = format!("mount -t proc proc /proc; {CONTROLS}; true");
        // Bash, for what a signal may do to a shell's forks before Linux 6.12: see landstrip-caveats(7).
        let script = format!("bash attack; echo inside; {launcher} -- bash attack");
        let Some(outcome) = with_mounts(&sandbox, &mounts, &script) else { return };
        let (outside, inside) = outcome.stdout.split_once("inside\n").unwrap();
        assert_eq!(inside, "plain\n", "{outcome:#?}");
        let can_mount = !user.is_root() || outside.contains("controls/sysfs\n");
        assert!(can_mount && outside.ends_with("plain\n"), "{outcome:#?}");
    });
}

#[test]
fn a_proc_of_another_pid_namespace_is_refused() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user);
        let line = sandbox.command_line();
        let line: Vec<_> = line.iter().map(|word| word.to_string_lossy()).collect();
        let line = line.join(" ");
        let script = format!("{line} --check; {line} -- echo ran");
        let Some(outcome) = with_mounts(&sandbox, "true", &script) else { return };
        assert_eq!(outcome.stdout, "mounted\n", "{outcome:#?}");
        let refusals = outcome.reports_of("Internal");
        assert_eq!(refusals.len(), 2, "{outcome:#?}");
        assert!(outcome.stderr.contains("another PID namespace"), "{outcome:#?}");
        let outcome = with_mounts(&sandbox, "mount -t proc proc /proc", &script).unwrap();
        assert!(outcome.stdout.ends_with("ran\n"), "{outcome:#?}");
    });
}

/// Gives the rest of its arguments a socket as standard input that sends whatever it is told to.
const WITH_RAW_SOCKET: &str = "
import socket, subprocess, sys
raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
sys.exit(subprocess.run(sys.argv[1:], stdin=raw).returncode)";

#[test]
fn a_standard_stream_that_is_none_is_refused() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user);
        let ran_by = |mut words: Vec<OsString>| {
            words.extend(sandbox.command_line());
            words.extend(["--", "echo", "ran"].map(Into::into));
            sandbox.run_outside(words)
        };
        let mut starters = vec![Sandbox::probe_words("with-eventfd")];
        // Which only root has.
        if user.is_root() {
            starters.push(["python3", "-c", WITH_RAW_SOCKET].map(Into::into).into());
        }
        for starter in starters {
            let outcome = ran_by(starter);
            outcome.is_error(125, "Internal", "standard input");
            assert!(!outcome.stdout.contains("ran"), "{outcome:#?}");
        }
        ran_by(vec!["env".into()]).succeeds();
    });
}

//! Files: nothing outside changes, denied files are neither written nor read (attacks F1 to F6).
//!
//! A snapshot from outside, change times included, is the witness.

use rustix::fs::XattrFlags;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use tests::{Sandbox, Snapshot, User, copy_program, for_each_user};

/// A sandbox that may write `work`, with files to attack in `outside` and to try on in `work`.
pub(crate) fn writable(user: User) -> Sandbox {
    let sandbox = Sandbox::of(user).allow_write(".");
    for place in ["outside", "work"] {
        sandbox.file(format!("{place}/file"), "Secret");
        sandbox.file(format!("{place}/other"), "Secret");
        sandbox.dir(format!("{place}/dir"));
        sandbox.file(format!("{place}/dir/deep"), "Secret");
        sandbox.dir(format!("{place}/empty"));
    }
    sandbox.file("work/mine", "mine!");
    sandbox
}

/// Every way to write at a place; `@` stands for the directory.
const WRITES: &str = "file write @/file + file rdwr @/file + file append @/file \
    + file open-trunc @/file + file open-creat @/file + file openat2 @/file + file creat @/file \
    + file mmap-write @/file + file copy-range mine @/file + file splice mine @/file \
    + file sendfile mine @/file + file opath-reopen @/file + file fd-reopen @/file \
    + file truncate @/file + file mkdir @/newdir + file mkfifo @/fifo + file mknod-file @/node \
    + file symlink mine @/newlink + file openat2-creat @/new2 + file open-excl @/new3 \
    + file dirfd @ new4 + file opath-dirfd @ new5 + file rename @/dir/deep @/dir/moved \
    + file exchange @/file @/other + file link @/file @/hard + file linkat-fd @/file @/hard2 \
    + file tmpfile @ @/tmpfile + file rmdir @/empty + file unlink @/file";

#[test]
fn nothing_is_written_outside_and_everything_inside() {
    for_each_user(|user| {
        let sandbox = writable(user);
        let before = Snapshot::of(sandbox.path("outside"));
        sandbox.probe(WRITES.replace('@', &sandbox.name("outside"))).all_refused();
        before.unchanged();
        sandbox.probe(WRITES.replace('@', &sandbox.name("work"))).all_allowed();
        assert!(sandbox.path("work/tmpfile").exists());
        sandbox.probe_outside(WRITES.replace('@', &sandbox.name("outside"))).all_allowed();
    });
}

#[test]
fn nothing_is_written_without_allow_write() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user);
        sandbox.file("work/file", "Secret");
        let before = Snapshot::of(sandbox.path("work"));
        sandbox.sh("echo x > new").fails();
        sandbox.sh("echo x > file").fails();
        before.unchanged();
        sandbox.sh("cat file").succeeds();
    });
}

#[test]
fn detours_do_not_lead_outside() {
    for_each_user(|user| {
        let sandbox = writable(user);
        let outside = sandbox.name("outside");
        symlink("../outside", sandbox.path("work/link")).unwrap();
        symlink("../outside/file", sandbox.path("work/filelink")).unwrap();
        symlink("../outside/created", sandbox.path("work/dangling")).unwrap();
        let before = Snapshot::of(sandbox.path("outside"));
        for place in ["link", "../outside", "dir/../../outside"] {
            sandbox.probe(WRITES.replace('@', place)).all_refused();
            before.unchanged();
        }
        for place in ["/proc/self/root", "/proc/thread-self/root", "/proc/self/task/../root"] {
            sandbox.probe(WRITES.replace('@', &format!("{place}{outside}"))).all_refused();
            before.unchanged();
        }
        let attack = format!(
            "file write filelink + file append filelink + file truncate filelink \
             + file open-creat dangling + file creat dangling \
             + file write /proc/self/cwd/../outside/file \
             + file fchdir {outside} chdir-made"
        );
        sandbox.probe(&attack).all_refused();
        before.unchanged();
        sandbox.probe_outside(&attack).all_allowed();
    });
}

#[test]
fn nothing_moves_or_is_linked_across_the_border() {
    for_each_user(|user| {
        let sandbox = writable(user);
        let out = sandbox.name("outside");
        let before = Snapshot::of(sandbox.path("outside"));
        let attack = format!(
            "file rename mine {out}/mine + file rename {out}/file stolen \
             + file exchange mine {out}/file + file rename dir {out}/moved \
             + file rename {out}/dir stolen + file link {out}/file hard + file link mine {out}/hard \
             + file linkat-fd {out}/file hard2 + file linkat-opath {out}/file hard3 \
             + file linkat-fd mine {out}/hard4 + file tmpfile . {out}/tmp \
             + file kept-dirfd dir {out}/dir2 x"
        );
        sandbox.probe(&attack).all_refused();
        before.unchanged();
        assert_eq!(sandbox.read("work/mine"), "mine!");
        sandbox.probe("file rename mine dir/mine + file link file dir/hard").all_allowed();
        assert_eq!(sandbox.read("work/dir/mine"), "mine!");
    });
}

#[test]
fn a_kept_directory_descriptor_grants_nothing_new() {
    for_each_user(|user| {
        let sandbox = writable(user);
        sandbox.probe("file kept-dirfd dir moved made").allowed("file-kept-dirfd");
        assert!(sandbox.path("work/moved/made").exists());
        let script = format!("cd {} && echo x > made", sandbox.name("outside"));
        sandbox.sh(&script).fails();
        assert!(!sandbox.path("outside/made").exists());
    });
}

#[test]
fn a_hard_link_made_before_does_not_open_its_other_name() {
    for_each_user(|user| {
        // A hard link inside the writable tree is the same inode: whoever made it granted the file.
        let sandbox = writable(user);
        let before = Snapshot::of(sandbox.path("outside"));
        sandbox.probe(format!("file link {}/file hard", sandbox.name("outside"))).all_refused();
        assert!(!sandbox.path("work/hard").exists());
        before.unchanged();
    });
}

#[test]
fn file_handles_open_nothing() {
    let sandbox = writable(User::Caller);
    let attack = |place: &str| format!("file handle {place} {place}/file");
    let before = Snapshot::of(sandbox.path("outside"));
    sandbox.probe(attack(&sandbox.name("outside"))).refused("file-handle");
    before.unchanged();
    if sandbox.user().is_root() {
        sandbox.probe_outside(attack(&sandbox.name("outside"))).allowed("file-handle");
    }
}

#[test]
fn metadata_outside_does_not_change() {
    for_each_user(|user| {
        let sandbox = writable(user);
        let before = Snapshot::of(sandbox.path("outside"));
        for name in ["outside/file", "outside/dir", "outside"] {
            let name = sandbox.name(name);
            let attack = format!("meta all {name} + meta acl {name} + meta removexattrat {name}");
            sandbox.probe(&attack).all_refused();
            before.unchanged();
        }
        let attack = format!("meta all {}", sandbox.name("outside/file"));
        let twin = sandbox.probe_outside(&attack);
        for name in ["chmod", "fchmod", "chmod-proc-fd", "chown", "utimensat", "setxattr"] {
            twin.allowed(&format!("meta-{name}"));
        }
    });
}

#[test]
fn metadata_through_links_does_not_change_outside() {
    for_each_user(|user| {
        let sandbox = writable(user);
        symlink("../outside/file", sandbox.path("work/link")).unwrap();
        let before = Snapshot::of(sandbox.path("outside"));
        let names = ["chmod", "fchmod", "fchmodat", "chmod-proc-fd", "chown", "fchownat", "utime"];
        let attack: Vec<String> = names.iter().map(|name| format!("meta {name} link")).collect();
        sandbox.probe(attack.join(" + ")).all_refused();
        let names = ["utimensat", "futimens", "setxattr", "fsetxattr", "removexattr", "acl"];
        let attack: Vec<String> = names.iter().map(|name| format!("meta {name} link")).collect();
        sandbox.probe(attack.join(" + ")).all_refused();
        before.unchanged();
    });
}

#[test]
fn metadata_inside_changes() {
    for_each_user(|user| {
        let sandbox = writable(user);
        let script = "chmod 700 file && touch -d 2001-01-01 file && chmod +x dir/deep \
                      && chown $(id -u):$(id -g) file && cp -p file copy \
                      && install -m 755 file installed && stat -c %a file installed";
        let outcome = sandbox.sh(script);
        outcome.succeeds();
        assert_eq!(outcome.stdout, "700\n755\n");
    });
}

#[test]
fn what_may_not_be_read_cannot_be_renamed_for_the_next_run() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user).allow_write(".").deny_read(".env").deny_read("a/secret");
        sandbox.file("work/.env", "TOPSECRET");
        sandbox.dir("work/a");
        sandbox.file("work/a/secret", "TOPSECRET");
        sandbox.dir("work/b");
        sandbox.file("work/b/plain", "plain");
        sandbox.sh("mv .env notes; mv a c; mv a/secret a/notes; ln .env b/link; true").succeeds();
        for gone in ["work/notes", "work/c", "work/a/notes", "work/b/link"] {
            assert!(!sandbox.path(gone).exists(), "{gone}");
        }
        assert!(sandbox.path("work/.env").exists() && sandbox.path("work/a/secret").exists());
        sandbox.sh("mv b/plain b/renamed && cat b/renamed").succeeds();
    });
}

/// What can be learned of the objects that are named, and what cannot.
const LEARN: &str = "
import errno, os, sys
def tell(name, ask):
    try: print(name, ask())
    except OSError as error: print(name, errno.errorcode[error.errno])
file, link, directory = sys.argv[1:]
tell('size', lambda: os.stat(file).st_size)
tell('attribute', lambda: os.getxattr(file, 'user.note'))
tell('attributes', lambda: os.listxattr(file))
tell('link', lambda: os.readlink(link))
tell('content', lambda: open(file).read())
tell('through the link', lambda: open(link).read())
tell('names', lambda: len(os.listdir(directory)))
tell('new attribute', lambda: os.setxattr(file, 'user.note', b'new'))
tell('without attribute', lambda: os.removexattr(file, 'user.note'))
";

/// The manual says so: whoever wants that hidden needs to know that it is not.
#[test]
fn of_what_may_not_be_read_sizes_attributes_and_links_are_told_and_nothing_else() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user).allow_write(".").deny_read("keys").deny_read("~/.ssh");
        for place in ["work/keys", "home/.ssh", "work/twin"] {
            sandbox.dir(place);
            let file = sandbox.file(format!("{place}/file"), "TOPSECRET");
            let noted = rustix::fs::setxattr(&file, c"user.note", b"noted", XattrFlags::empty());
            if noted.is_err() {
                return tests::skipped("the file system has no attributes of users");
            }
            symlink("file", sandbox.path(format!("{place}/link"))).unwrap();
        }
        let learn = |place: &str| {
            let place = sandbox.name(place);
            let objects = [format!("{place}/file"), format!("{place}/link"), place];
            let words = ["python3", "-c", LEARN].map(str::to_owned);
            sandbox.run(words.into_iter().chain(objects)).succeeds().stdout.clone()
        };
        let told = "size 9\nattribute b'noted'\nattributes ['user.note']\nlink file\n";
        let refused = "content EACCES\nthrough the link EACCES\nnames EACCES\n\
                       new attribute EACCES\nwithout attribute EACCES\n";
        for place in ["work/keys", "home/.ssh"] {
            assert_eq!(learn(place), format!("{told}{refused}"), "{place}");
        }
        let allowed = "content TOPSECRET\nthrough the link TOPSECRET\nnames 2\n\
                       new attribute None\nwithout attribute None\n";
        assert_eq!(learn("work/twin"), format!("{told}{allowed}"));
    });
}

#[test]
fn metadata_of_another_object_at_an_allowed_path_is_not_changed() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user).allow_write(".").allow_write("../snap");
        sandbox.dir("snap");
        sandbox.file("snap/mine", "mine");
        let mut running = sandbox.spawn([
            "sh",
            "-c",
            "chmod 755 ../snap/mine && echo first; while [ ! -e go ]; do sleep 0.02; done; \
         chmod 777 ../snap/f; echo second",
        ]);
        running.expect("first");
        std::fs::rename(sandbox.path("snap"), sandbox.path("old")).unwrap();
        sandbox.dir("snap");
        let foreign = sandbox.file("snap/f", "foreign");
        let before = Snapshot::of(sandbox.path("snap"));
        sandbox.file("work/go", "");
        running.expect("second");
        before.unchanged();
        assert!(foreign.exists());
    });
}

/// A project with protected files: `work/.env`, `work/keys` and, not existing, `work/.absent`.
fn protected(user: User) -> Sandbox {
    let sandbox = Sandbox::of(user)
        .allow_write(".")
        .deny_write(".env")
        .deny_write("keys")
        .deny_write(".absent");
    sandbox.file("work/.env", "Secret");
    sandbox.dir("work/keys");
    sandbox.file("work/keys/key", "Secret");
    sandbox.dir("work/src");
    sandbox.file("work/src/main", "mine!");
    sandbox
}

/// Every way to change a protected file or directory.
const TAMPER: &str = "file write .env + file append .env + file truncate .env \
    + file open-trunc .env + file creat .env + file unlink .env + file rename .env away \
    + file rename src/main .env + file exchange src/main .env + file link .env hard \
    + file mmap-write .env + file copy-range src/main .env + file fd-reopen .env \
    + file write keys/key + file open-creat keys/new + file unlink keys/key \
    + file rename keys away + file rename src keys + file exchange src keys \
    + file rename keys/key src/key + file rename src/main keys/key + file mkdir keys/sub \
    + file link keys/key src/hard + file dirfd keys new + file tmpfile keys src/new \
    + meta chmod .env + meta fchmod .env + meta chmod keys + meta utimensat keys/key";

#[test]
fn denied_files_cannot_be_changed_replaced_moved_or_linked() {
    for_each_user(|user| {
        let sandbox = protected(user);
        let (env, keys) =
            (Snapshot::of(sandbox.path("work/.env")), Snapshot::of(sandbox.path("work/keys")));
        sandbox.probe(TAMPER).all_refused();
        env.unchanged();
        keys.unchanged();
        assert_eq!(sandbox.read("work/src/main"), "mine!");
        sandbox
            .probe("file write src/main + file open-creat src/new + file mkdir src/d")
            .all_allowed();
        sandbox.probe("file read .env + file read keys/key").allowed("file-read");
        sandbox.probe_outside("file write .env + file unlink .env").all_allowed();
    });
}

#[test]
fn a_missing_denied_path_cannot_be_created() {
    for_each_user(|user| {
        let sandbox = protected(user);
        let attack = "file creat .absent + file open-creat .absent + file mkdir .absent \
                      + file symlink src .absent + file link src/main .absent + file mkfifo .absent \
                      + file rename src/main .absent + file rename src .absent \
                      + file tmpfile src .absent";
        sandbox.probe(attack).all_refused();
        assert!(sandbox.path("work/.absent").symlink_metadata().is_err());
        assert_eq!(sandbox.read("work/src/main"), "mine!");
    });
}

#[test]
fn the_parent_of_a_denied_path_cannot_be_moved_away_and_remade() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user).allow_write(".").deny_write("a/b/.env");
        for dir in ["work/a", "work/a/b", "work/free"] {
            sandbox.dir(dir);
        }
        let env = Snapshot::of(sandbox.file("work/a/b/.env", "Secret"));
        let attack = "file rename a moved + file rename a/b moved + file exchange a free \
                      + file exchange a/b free + file rename free a/b + file rename a/b free/b";
        sandbox.probe(attack).succeeds();
        env.unchanged();
        sandbox.sh("mv a x; mkdir -p a/b; echo pwned > a/b/.env; rm -rf a").fails();
        env.unchanged();
        sandbox.probe("file creat free/x + file rename free/x free/y").all_allowed();
    });
}

#[test]
fn denied_reads_give_nothing_by_any_route() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user).allow_write(".").deny_read("../outside/secret");
        sandbox.dir("outside/secret");
        sandbox.file("outside/secret/key", "Secret");
        sandbox.file("outside/open", "open");
        copy_program("/bin/true", &sandbox.path("outside/secret/tool"));
        let secret = sandbox.name("outside/secret");
        symlink(&secret, sandbox.path("work/link")).unwrap();
        let attack = format!(
            "file read {secret}/key + file read link/key + file read /proc/self/root{secret}/key \
             + file openat2 {secret}/key + file list {secret} + file link {secret}/key hard \
             + file rename {secret}/key stolen + file rename {secret} stolen \
             + file exec {secret}/tool + file exec-fd {secret}/tool \
             + file copy-range {secret}/key made + file linkat-opath {secret}/key hard2"
        );
        sandbox.file("work/made", "");
        let before = Snapshot::of(&secret);
        let outcome = sandbox.probe(&attack);
        outcome.all_refused();
        before.unchanged();
        assert!(!outcome.stdout.contains("Secret"));
        let parent = sandbox.name("outside");
        sandbox
            .probe(format!("file read {parent}/open + file list {parent}"))
            .succeeds()
            .allowed("file-read")
            .allowed("file-list");
        sandbox
            .probe_outside(format!("file read {secret}/key + file exec {secret}/tool"))
            .allowed("file-read")
            .allowed("file-exec");
    });
}

#[test]
fn allow_read_opens_a_part_of_a_denied_region_and_deny_closes_it_again() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user)
            .deny_read("../outside")
            .allow_read("../outside/open")
            .deny_read("../outside/open/closed");
        sandbox.dir("outside/open");
        sandbox.dir("outside/open/closed");
        for name in ["outside/a", "outside/open/b", "outside/open/closed/c"] {
            sandbox.file(name, "Secret");
        }
        let read = |name: &str| sandbox.probe(format!("file read {}", sandbox.name(name)));
        read("outside/a").refused("file-read");
        read("outside/open/b").allowed("file-read");
        read("outside/open/closed/c").refused("file-read");
    });
}

#[test]
fn a_denied_region_stays_closed_to_files_made_later() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user).deny_read("../outside/*.key");
        sandbox.file("outside/a.key", "Secret");
        sandbox.file("outside/plain", "open");
        let out = sandbox.name("outside");
        let script = format!(
            "cat {out}/plain && echo ready; until [ -e {out}/late.key ]; do sleep 0.02; done; cat {out}/late.key"
        );
        let mut running = sandbox.spawn(["sh", "-c", &script]);
        running.expect("ready");
        sandbox.file("outside/late.key", "Secret");
        let outcome = running.wait();
        outcome.fails();
        assert!(outcome.stdout.starts_with("open"));
        assert!(!outcome.stdout.contains("Secret"));
    });
}

#[test]
fn listing_a_directory_that_contains_a_denied_path_works() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user).deny_read("~/.ssh");
        sandbox.dir("home/.ssh");
        sandbox.file("home/.ssh/id", "Secret");
        sandbox.file("home/notes", "open");
        let outcome = sandbox.sh("ls -A ~ && cat ~/notes");
        outcome.succeeds();
        assert_eq!(outcome.stdout, ".ssh\nnotes\nopen");
        sandbox.sh("cat ~/.ssh/id").fails();
        sandbox.sh("ls ~/.ssh").fails();
    });
}

/// grep(1) opens the directory as it would a file, which nobody looks at but where reads are reported.
#[test]
fn what_contains_a_denied_path_is_searched_however_much_is_reported() {
    for_each_user(|user| {
        for report in ["all", "changes", "network", "none"] {
            let sandbox = Sandbox::of(user).deny_read("~/.ssh").options(["--report", report]);
            sandbox.dir("home/.ssh");
            sandbox.file("home/.ssh/id", "found: Secret");
            sandbox.file("home/notes", "found: open");
            let outcome = sandbox.sh("grep -rh found ~; cd ~ && grep -rh found . ../home/notes");
            assert_eq!(outcome.stdout, "found: open\n".repeat(3), "{report} {outcome:#?}");
            let outside = sandbox.sh_outside("grep -rh found ~").stdout;
            assert!(outside.contains("Secret") && outside.contains("open"), "{outside}");
        }
    });
}

#[test]
fn devices_that_every_command_needs_are_usable() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user);
        let script = "echo x > /dev/null && head -c 4 /dev/zero | wc -c && \
                      head -c 4 /dev/urandom | wc -c && ! echo x > /dev/full";
        let outcome = sandbox.sh(script);
        outcome.succeeds();
        assert_eq!(outcome.stdout, "4\n4\n");
    });
}

#[test]
fn other_devices_are_not_opened() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user).allow_write(".");
        let outcome = sandbox.run(["mknod", "work-null", "c", "1", "3"]);
        outcome.fails();
        if sandbox.user().is_root() {
            sandbox.run_outside(["mknod", "work-null", "c", "1", "3"]).succeeds();
        }
    });
}

#[test]
fn standard_streams_can_be_reopened() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user).input("typed");
        let script = "echo out > /dev/stdout && echo err > /dev/stderr && \
                      echo fd > /proc/self/fd/1 && cat /dev/stdin";
        let (inside, outside) = (sandbox.sh(script), sandbox.sh_outside(script));
        // A pipe made by root is not another user's to reopen, with or without a sandbox.
        assert_eq!(inside.status, outside.status, "{inside:#?}");
        assert_eq!(inside.stdout, outside.stdout);
        assert_eq!(inside.stderr, outside.stderr);
    });
}

#[test]
fn strange_paths_behave_as_outside() {
    for_each_user(|user| {
        let scripts = [
            "mkfifo p; (echo x > p) & cat p; wait",
            "ln -s loop loop; cat loop",
            "i=0; ln -s target l0; echo t > target; while [ $i -lt 45 ]; do j=$((i+1)); \
             ln -s l$i l$j; i=$j; done; cat l39; cat l44",
            "n=$(printf '%0200d' 0); p=.; for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18; do \
             mkdir $n && cd $n; done && echo deep > f && cat f",
            "mkdir gone && cd gone && rmdir ../gone && ls -A && echo x > f",
            "umask 077; echo x > secret; mkdir m; stat -c %a secret m",
            "echo 1 >> log; echo 2 >> log; cat log; set -C; echo x > log",
            "p=$(printf '%05000d' 0); cat $p",
        ];
        for script in scripts {
            let (one, two) = (Sandbox::of(user).allow_write("."), Sandbox::of(user));
            let (inside, outside) = (one.sh(script), two.sh_outside(script));
            assert_eq!(inside.status, outside.status, "{script}: {inside:#?} {outside:#?}");
            assert_eq!(inside.stdout, outside.stdout, "{script}: {inside:#?}");
        }
    });
}

/// Policies under which the broker opens nothing, what may be written, and everything.
fn layouts(user: User) -> [Sandbox; 3] {
    [
        Sandbox::of(user).allow_write("."),
        Sandbox::of(user).allow_write(".").deny_write("denied").deny_write("**/kept"),
        Sandbox::of(user).allow_write(".").deny_write("denied").deny_read("**/secret"),
    ]
}

/// As flock(1) opens what it locks: O_CREAT asks for nothing where the file is there.
#[test]
fn a_file_that_may_not_be_written_is_opened_to_be_locked() {
    for_each_user(|user| {
        for sandbox in layouts(user) {
            let outside = sandbox.file("outside/file", "as it was");
            sandbox.file("work/denied", "");
            for path in [&*outside.to_string_lossy(), "denied", "made"] {
                sandbox.run(["flock", "-s", path, "echo", "locked"]).succeeds();
            }
            let missing = sandbox.name("outside/missing");
            sandbox.run(["flock", &missing, "echo", "locked"]).fails();
            assert!(!sandbox.path("outside/missing").exists());
            let outcome = sandbox.sh(&format!("exec 3<> {}", outside.display()));
            outcome.fails();
            assert_eq!(sandbox.read("outside/file"), "as it was");
        }
    });
}

#[test]
fn a_limit_of_file_size_holds_for_truncate() {
    let script = "import os, resource, signal
open('made', 'w').write('x' * 10); os.mkdir('d'); open('d/kept-not', 'w')
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
got = []; signal.signal(signal.SIGXFSZ, lambda *_: got.append(1))
def cut(name, length):
    try: os.truncate(name, length); print(name, length, os.stat(name).st_size, len(got))
    except OSError as error: print(name, length, error.errno, os.stat(name).st_size, len(got))
for length in (4096, 4097, 1 << 40, 3): cut('made', length); cut('d/kept-not', length)
signal.signal(signal.SIGXFSZ, signal.SIG_DFL); os.truncate('made', 4097)";
    for_each_user(|user| {
        for inside in layouts(user) {
            let outside = Sandbox::of(user);
            let outcomes = [
                inside.run(["python3", "-c", script]),
                outside.run_outside(["python3", "-c", script]),
            ];
            assert_eq!(outcomes[0].stdout, outcomes[1].stdout, "{outcomes:#?}");
            assert_eq!(
                outcomes[0].status,
                outcomes[1].signal.map(|signal| 128 + signal),
                "{outcomes:#?}"
            );
        }
    });
}

#[test]
fn locks_work_inside() {
    let sandbox = writable(User::Caller);
    sandbox.probe("file flock file").allowed("file-flock");
    sandbox.probe(format!("file flock {}", sandbox.name("outside/file"))).refused("file-flock");
}

/// Changes the mode of what is open as descriptor 0, and of a file of the command's own.
const CHANGE_MODES: &str = "
import os, sys
own = os.open('own', os.O_WRONLY | os.O_CREAT)
for name, descriptor in ('own', own), ('foreign', foreign):
    try:
        os.fchmod(descriptor, 0o777)
        os.utime(descriptor)
        print(name + '=OK', file=sys.stderr)
    except PermissionError:
        print(name + '=EACCES', file=sys.stderr)
";

#[test]
fn metadata_of_an_inherited_file_is_not_judged_by_the_descriptor() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user).allow_write(".");
        let log = sandbox.file("outside/log", "");
        fs::set_permissions(&log, fs::Permissions::from_mode(0o640)).unwrap();
        let script = format!("foreign = 1{CHANGE_MODES}");
        let mut words = ["sh", "-c", "\"$@\" >>../outside/log", "sh"].map(OsString::from).to_vec();
        words.extend(sandbox.command_line());
        words.extend(["--", "python3", "-c", &script].map(OsString::from));
        let outcome = sandbox.run_outside(words);
        assert!(outcome.stderr.starts_with("own=OK\nforeign=EACCES\n"), "{outcome:#?}");
        assert_eq!(fs::metadata(&log).unwrap().mode() & 0o777, 0o640);
        assert_eq!(fs::metadata(sandbox.path("work/own")).unwrap().mode() & 0o777, 0o777);
    });
}

#[test]
fn metadata_of_a_file_that_came_through_a_socket_is_not_judged_by_the_descriptor() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user).allow_write(".").allow_unix_socket("../outside/socket");
        let file = sandbox.file("outside/file", "");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        let mut server = sandbox.spawn_outside([
            "python3",
            "-c",
            "import socket, os\n\
             s = socket.socket(socket.AF_UNIX); s.bind('../outside/socket'); s.listen()\n\
             print('ready', flush=True)\n\
             socket.send_fds(s.accept()[0], [b'x'], [os.open('../outside/file', os.O_RDWR)])",
        ]);
        server.expect("ready");
        let script = format!(
            "import socket\ns = socket.socket(socket.AF_UNIX); s.connect('../outside/socket')\n\
             foreign = socket.recv_fds(s, 1, 1)[1][0]{CHANGE_MODES}"
        );
        let outcome = sandbox.run(["python3", "-c", &script]);
        assert!(outcome.stderr.starts_with("own=OK\nforeign=EACCES\n"), "{outcome:#?}");
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o640);
    });
}

#[test]
fn metadata_of_a_file_that_others_send_to_an_own_server_is_not_judged_by_the_descriptor() {
    let sandbox = Sandbox::new().allow_write(".").allow_local_binding();
    let file = sandbox.file("outside/file", "");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
    let script = format!(
        "import socket\ns = socket.socket(socket.AF_UNIX); s.bind('socket'); s.listen()\n\
         print('ready', flush=True)\n\
         foreign = socket.recv_fds(s.accept()[0], 1, 1)[1][0]{CHANGE_MODES}"
    );
    let mut server = sandbox.spawn(["python3", "-c", &script]);
    server.expect("ready");
    let client = sandbox.run_outside([
        "python3",
        "-c",
        "import socket, os\n\
         s = socket.socket(socket.AF_UNIX); s.connect('socket')\n\
         socket.send_fds(s, [b'x'], [os.open('../outside/file', os.O_RDWR)])",
    ]);
    client.succeeds();
    let outcome = server.wait();
    assert!(outcome.stderr.starts_with("own=OK\nforeign=EACCES\n"), "{outcome:#?}");
    assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o640);
}

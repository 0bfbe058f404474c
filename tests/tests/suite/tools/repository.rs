//! Real work in a repository with protected files: what it does outside, it does inside.
//!
//! The policy is that of a user who protects secrets: all of the directory that work is done in is on the
//! way to a denied path, and a glob can match anywhere.

use std::time::Duration;
use tests::{Outcome, Sandbox, Snapshot, User, for_each_user};

/// A machine with much else to do takes its time.
const LONG: Duration = Duration::from_secs(180);

/// A copy of this repository with git set up, secrets that git ignores, and the policy.
fn repository(user: User) -> Sandbox {
    let sandbox = ["GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE"]
        .iter()
        .fold(tests::repository(user), |sandbox, name| sandbox.env(*name, "2026-01-01T00:00:00Z"));
    let sandbox = sandbox.allow_write(".").deny_read(".env").deny_read("~/.ssh");
    let sandbox = sandbox.deny_write(".env").deny_write(".git/hooks").deny_write("**/*.pem");
    sandbox.dir("home/.ssh");
    sandbox.file("home/.ssh/id", "TOPSECRET");
    let script = "set -e; git init -q -b main .; git config user.name n; \
        git config user.email e@example.org; printf '.env\n*.pem\nignored/\n' > .gitignore; \
        echo TOPSECRET > .env; mkdir certs tmp; echo cert > certs/a.pem; git add -A; \
        git commit -q -m first; mkdir -p .git/hooks; echo hook > .git/hooks/sample";
    sandbox.sh_outside(script).succeeds();
    sandbox
}

/// Runs `script` in such a repository inside and outside; what is protected stays as it is.
#[track_caller]
fn same_with(user: User, script: &str, env: &[(&str, String)]) -> Outcome {
    let world = || env.iter().fold(repository(user), |s, (name, value)| s.env(*name, value));
    let (one, two) = (world(), world());
    let protected = ["work/.env", "work/.git/hooks", "work/certs/a.pem", "home/.ssh"];
    let before = protected.map(|name| Snapshot::of(one.path(name)));
    // The files are the result of most programs.
    let script = format!(
        "export TMPDIR=$PWD/tmp; cd_back=$PWD; {script}\ncd \"$cd_back\"; \
         find . -path ./.git -prune -o -path ./tmp -prune -o -printf '%P %y %m %n %l\n' | sort"
    );
    let outcome = tests::same(&one, &two, &script);
    before.iter().for_each(Snapshot::unchanged);
    assert!(outcome.reports.is_empty(), "nothing was to be refused: {outcome:#?}");
    outcome
}

#[track_caller]
fn same(user: User, script: &str) -> Outcome {
    same_with(user, script, &[])
}

#[test]
fn git_changes_the_repository() {
    for_each_user(|user| {
        same(
            user,
            "set -e; git init -q; git status --short; echo x >> README.md; mkdir new; echo n > new/n; \
            git add -A; git commit -q -m second; git mv new newer; git rm -q -r -f newer; git reset -q --hard; \
            git checkout -q -b topic HEAD~1; echo y > topic; git add topic; git commit -q -m topic; \
            git checkout -q main; git merge -q topic -m merge; git checkout -q -b side HEAD~1; \
            echo s > side; git add side; git commit -q -m side; git rebase -q main; echo d >> README.md; \
            git stash -q; git stash list; git stash pop -q; git diff --stat; git stash -q; git stash drop -q; \
            git worktree add -q wt topic; ls wt; echo w > wt/w; git -C wt add w; git -C wt commit -q -m w; \
            git worktree remove wt; git worktree list | wc -l; git tag v1; git branch -q -D topic; \
            git cherry-pick --no-commit HEAD~1 >/dev/null 2>&1 || git reset -q --hard; \
            git pack-refs --all; git repack -q -a -d; git gc -q --prune=now; git fsck 2>&1 | wc -l; \
            git log --oneline --all; git status --short; git config --list --local | sort",
        );
    });
}

#[test]
fn git_clones_pulls_pushes_and_cleans() {
    for_each_user(|user| {
        same(
            user,
            "set -e; git clone -q . clone; git clone -q --bare . bare.git; cd clone; \
            git config user.name n; git config user.email e@example.org; echo c > c; git add c; \
            git commit -q -m c; git push -q ../bare.git HEAD:refs/heads/pushed; cd ..; \
            git fetch -q ./bare.git pushed; git merge -q FETCH_HEAD; git log --oneline; ls clone; \
            git submodule status; git -C clone status --short; git archive HEAD | tar -t | wc -l; \
            git bisect start HEAD HEAD~1 >/dev/null; git bisect reset >/dev/null 2>&1; \
            git format-patch -q -1 -o patches; ls patches; rm -rf clone bare.git patches; \
            git clean -f -d -q; git status --short",
        );
    });
}

#[test]
fn cargo_builds_and_tests_a_crate() {
    // As root only: the toolchain of a user's home is not everyone's to read.
    let home = std::env::var("HOME").unwrap_or_default();
    let get = |name: &str, dir: &str| std::env::var(name).unwrap_or(format!("{home}/{dir}"));
    let path = format!("{}/bin:/usr/local/bin:/usr/bin:/bin", get("CARGO_HOME", ".cargo"));
    let env = [("RUSTUP_HOME", get("RUSTUP_HOME", ".rustup")), ("PATH", path)];
    let script = r#"set -e; mkdir crate crate/src ignored; export CARGO_HOME=$PWD/ignored; cd crate
        printf '[package]\nname = "made"\nedition = "2024"\n[workspace]\n' > Cargo.toml
        printf 'pub fn f() -> u32 { 7 }\n#[test] fn t() { assert_eq!(f(), 7); }\n' > src/lib.rs
        printf 'fn main() { println!("built {}", made::f()); }\n' > src/main.rs
        printf 'fn main() { println!("cargo::rerun-if-changed=x"); std::fs::write(std::env::var("OUT_DIR").unwrap() + "/x", "").unwrap(); }\n' > build.rs
        cargo run --offline -q; cargo test --offline -q | grep -c passed
        echo '// more' >> src/lib.rs; cargo build --offline -q; cargo clean -q; cargo check --offline -q
        rm -rf target ../ignored; cat Cargo.lock"#;
    let outcome = same_with(User::Caller, script, &env);
    assert!(outcome.stdout.starts_with("built 7\n"), "{outcome:#?}");
}

#[test]
fn npm_installs_a_local_archive() {
    for_each_user(|user| {
        same(
            user,
            r#"set -e; export npm_config_cache=$PWD/tmp/npm npm_config_update_notifier=false
            mkdir dep app dep/bin; printf '{"name":"dep","version":"1.0.0","bin":{"dep":"bin/dep.js"}}' > dep/package.json
            echo 'module.exports = 7' > dep/index.js; printf '#!/usr/bin/env node\nconsole.log("bin ran")\n' > dep/bin/dep.js
            chmod 755 dep/bin/dep.js; (cd dep && npm pack --silent); cd app
            printf '{"name":"app","version":"1.0.0","scripts":{"t":"dep"}}' > package.json
            npm install --offline --no-audit --no-fund --silent ../dep/dep-1.0.0.tgz
            node -e 'console.log(require("dep"))'; npm run --silent t; npm ls --silent; npm ci --offline --no-audit --no-fund --silent
            npm uninstall --offline --no-audit --silent dep; cat package.json"#,
        );
    });
}

#[test]
fn python_makes_an_environment() {
    for_each_user(|user| {
        // Without pip, which brings a cacert.pem.
        same(
            user,
            "set -e; python3 -B -m venv --without-pip env; env/bin/python -c 'import sys; print(sys.prefix)'; \
            mkdir pkg; echo 'x = 7' > pkg/__init__.py; python3 -c 'import pkg; print(pkg.x)'; \
            ls pkg; rm -rf env pkg/__pycache__; python3 -c \"
import mmap, os, tempfile, shelve
with open('m', 'w+b') as f:
    f.truncate(8192)
    with mmap.mmap(f.fileno(), 8192) as m:
        m[4090:4100] = b'0123456789'
        m.flush()
print(open('m', 'rb').read()[4088:4102])
with tempfile.NamedTemporaryFile(dir='.', delete=False) as t:
    t.write(b'new'); t.flush(); os.fsync(t.fileno())
    os.chmod(t.name, 0o644); os.replace(t.name, 'm')
print(open('m').read())
with tempfile.TemporaryFile(dir='.') as t: t.write(b'x'); t.seek(0); print(t.read())
fd = os.open('.', os.O_RDONLY); os.mkdir('by-fd', dir_fd=fd); os.rename('by-fd', 'by-fd-2', src_dir_fd=fd, dst_dir_fd=fd)
os.symlink('m', 'by-link', dir_fd=fd); print(os.readlink('by-link')); os.unlink('by-link', dir_fd=fd); os.fsync(fd)
\"",
        );
    });
}

#[test]
fn pip_is_installed_where_no_rule_denies_its_certificates() {
    let world = || {
        let sandbox = Sandbox::unprivileged().allow_write(".").deny_write(".env");
        let sandbox = sandbox.deny_write(".git/hooks").deny_read(".env").timeout(LONG);
        sandbox.file("work/.env", "TOPSECRET");
        sandbox
    };
    let script = "set -e; mkdir tmp; export TMPDIR=$PWD/tmp; python3 -m venv env; \
        env/bin/pip --version | cut -d ' ' -f 1,2";
    let outcome = tests::same(&world(), &world(), script);
    // It tries on loopback whether there is IPv6.
    assert!(outcome.reports_of("Filesystem").is_empty(), "{outcome:#?}");
}

#[test]
fn make_compiles_and_installs() {
    for_each_user(|user| {
        same(
            user,
            r#"set -e; printf '#include <stdio.h>\nint main(void) { puts("made"); return 0; }\n' > m.c
            printf 'all: m\nclean:\n\trm -f m m.o\ninstall: m\n\tinstall -d usr/bin\n\tinstall -m 755 m usr/bin/m\n' > Makefile
            make -s -j2; ./m; make -s install; usr/bin/m; make -s clean; rm -r usr; make -s; ar rc libm.a /dev/null; ls -1 libm.a"#,
        );
    });
}

#[test]
fn a_database_uses_a_write_ahead_log() {
    for_each_user(|user| {
        same(
            user,
            "set -e; for mode in wal delete truncate persist; do sqlite3 $mode.db \"pragma journal_mode=$mode; \
            create table t(a); begin; insert into t values(1),(2); commit; select sum(a) from t; \
            pragma integrity_check; vacuum;\"; done; python3 -c \"
import sqlite3
one, two = (sqlite3.connect('wal.db', timeout=10) for _ in range(2))
one.execute('insert into t values (5)'); print(two.execute('select count(*) from t').fetchone())
one.commit(); print(two.execute('select count(*) from t').fetchone())
print(two.execute('pragma wal_checkpoint(truncate)').fetchone())
\"",
        );
    });
}

#[test]
fn archives_and_copies_are_complete() {
    for_each_user(|user| {
        same(
            user,
            "set -e; umask 022; mkdir t; cp -r tests t/; ln -s tests/Cargo.toml t/link; \
            ln t/tests/Cargo.toml t/hard; chmod 640 t/hard; chmod 2755 t/tests; mkfifo t/fifo; \
            find t -exec touch -h -d '2020-02-02 02:02:02 UTC' {} +; tar -cpf t.tar t; tar -czf t.tgz t; \
            mkdir x y z; tar -C x -xpf t.tar; tar -C y -xzf t.tgz; rsync -aH t/ z/t/; \
            echo more >> t/tests/Cargo.toml; rm t/link; rsync -aH --delete t/ z/t/; rsync -a --inplace t/ z/t/; \
            for d in x y z; do (cd $d && find . -mindepth 1 -printf '%P %y %m %l %n\n' | sort); done; \
            cp -a t copy; rsync -an --itemize-changes t/ copy/; rm -rf x y z copy t t.tar t.tgz",
        );
    });
}

#[test]
fn files_are_saved_as_editors_do() {
    for_each_user(|user| {
        same(
            user,
            "set -e; cp -p README.md README.md~; printf 'new\n' > .README.md.swp; chmod 644 .README.md.swp; \
            sync .README.md.swp; mv -f .README.md.swp README.md; cat README.md; mv README.md~ README.md; \
            touch 4913; chmod 644 4913; rm 4913; mv Cargo.toml Cargo.toml~; printf 'x\n' > Cargo.toml; rm Cargo.toml~; \
            sed -i s/x/y/ Cargo.toml; cat Cargo.toml; dd if=/dev/zero of=big bs=64k count=16 2>/dev/null; \
            truncate -s 5 big; wc -c < big; ln -s README.md l; echo via >> l; tail -n 1 README.md; \
            mkdir -p a/b/c/d; echo x > a/b/c/d/e; mv a/b z; rm -rf a z; ln README.md h; rm README.md; mv h README.md; \
            (umask 077; echo x > private; mkdir private-d); stat -c '%a %n' private private-d; mktemp -p tmp XXXX | wc -c; \
            flock lock echo locked; : > empty; test ! -s empty; rm -rf broker proxy; ls",
        );
    });
}

#[test]
fn a_rule_that_stops_a_tool_is_named() {
    for_each_user(|user| {
        let sandbox = repository(user);
        let outcome = sandbox.sh("cp Cargo.toml late.pem");
        outcome.fails();
        let late = sandbox.name("work/late.pem");
        assert!(
            outcome.reports_of("Filesystem").iter().any(|r| r[1] == late.as_str()),
            "{outcome:#?}"
        );
        sandbox.sh("cat .env").fails();
        sandbox.sh("echo x > .git/hooks/post-commit").fails();
        sandbox.sh("cat ~/.ssh/id").fails();
        sandbox
            .sh("cp Cargo.toml late.pen && git add -f late.pen && git commit -q -m late")
            .succeeds();
    });
}

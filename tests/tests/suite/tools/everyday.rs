//! Real tools do inside what they do outside, as root and unprivileged.
//!
//! Each script runs twice, in two worlds made alike; its status and output must be the same.

use tests::{Outcome, Sandbox, User, for_each_user};

/// A world with a copy of this repository's sources in `work`, which may be written.
fn repository(user: User) -> Sandbox {
    tests::repository(user).allow_write(".")
}

/// Runs `script` inside and, in a world of its own, outside, with the variables of `env`.
#[track_caller]
fn same_with(user: User, script: &str, env: &[(&str, String)]) -> Outcome {
    let world = || env.iter().fold(repository(user), |s, (name, value)| s.env(*name, value));
    tests::same(&world(), &world(), script)
}

#[track_caller]
fn same(user: User, script: &str) -> Outcome {
    same_with(user, script, &[])
}

#[test]
fn git_works_on_a_repository() {
    for_each_user(|user| {
        let script = "set -e; export GIT_AUTHOR_DATE='2026-01-01T00:00:00Z' \
            GIT_COMMITTER_DATE='2026-01-01T00:00:00Z'; \
            git init -q -b main .; git config user.name n; git config user.email e@example.org; \
            git add -A; git commit -q -m first; echo x >> README.md; git add -A; \
            git commit -q -m second; git log --oneline; git status --short; \
            git checkout -q -b topic HEAD~1; echo y > topic; git add topic; git commit -q -m topic; \
            git checkout -q main; git merge -q topic -m merge; git stash list; git gc -q; \
            git clone -q . clone; git -C clone log --oneline | wc -l; git fsck 2>&1 | wc -l";
        let outcome = same(user, script);
        assert!(outcome.reports.is_empty(), "{outcome:#?}");
    });
}

#[test]
fn cargo_builds_a_crate_without_dependencies() {
    // As root only: the toolchain of a user's home is not everyone's to read.
    let home = std::env::var("HOME").unwrap_or_default();
    let get = |name: &str, dir: &str| std::env::var(name).unwrap_or(format!("{home}/{dir}"));
    let rustup = get("RUSTUP_HOME", ".rustup");
    let real = get("CARGO_HOME", ".cargo");
    let path = format!("{real}/bin:/usr/local/bin:/usr/bin:/bin");
    let script = "set -e; mkdir crate crate/src cargo tmp; export CARGO_HOME=$PWD/cargo TMPDIR=$PWD/tmp; cd crate; \
        printf '[package]\\nname = \"made\"\\nedition = \"2024\"\\n[workspace]\\n' > Cargo.toml; \
        printf 'fn main() { println!(\"built\"); }\\n#[test] fn t() {}\\n' > src/main.rs; \
        cargo build --offline -q; find target -name made -type f -perm -100 -exec {} \\; | head -n 1; \
        cargo test --offline -q | grep -c passed";
    let env = [("RUSTUP_HOME", rustup), ("PATH", path)];
    let outcome = same_with(User::Caller, script, &env);
    assert!(outcome.stdout.starts_with("built\n"), "{outcome:#?}");
}

#[test]
fn python_makes_an_environment_with_pip() {
    for_each_user(|user| {
        let script = "set -e; python3 -m venv env; env/bin/pip --version | cut -d ' ' -f 1,2; \
                      env/bin/python -c 'import sys, tempfile, sqlite3; print(sys.prefix)'";
        let tmp = "exec 2>&1; mkdir tmp; export TMPDIR=$PWD/tmp; ";
        same(user, &format!("{tmp}{script}"));
    });
}

#[test]
fn python_uses_threads_processes_and_semaphores() {
    for_each_user(|user| {
        same(
            user,
            "python3 -c \"
import subprocess, threading, os, concurrent.futures as f
print(subprocess.check_output(['echo', 'child']))
with f.ThreadPoolExecutor(4) as pool: print(sum(pool.map(lambda x: x * x, range(100))))
r, w = os.pipe(); os.write(w, b'x'); print(os.read(r, 1))
\"",
        );
    });
}

#[test]
fn node_runs_with_files_timers_workers_and_children() {
    for_each_user(|user| {
        same(
            user,
            "node -e \"
const fs = require('fs'), cp = require('child_process'), { Worker } = require('worker_threads');
fs.writeFileSync('made', 'x'); fs.mkdirSync('a/b', { recursive: true });
console.log(fs.readFileSync('made', 'utf8'), cp.execSync('echo child').toString());
fs.promises.readFile('Cargo.toml').then(b => console.log(b.length));
setTimeout(() => console.log('timer'), 10);
new Worker('require(\\\"worker_threads\\\").parentPort.postMessage(7)', { eval: true })
  .on('message', m => console.log(m));
\" | sort",
        );
    });
}

#[test]
fn archives_keep_modes_times_and_links() {
    for_each_user(|user| {
        same(
            user,
            "set -e; mkdir t; cp -r tests t/; ln -s tests/Cargo.toml t/link; \
            ln t/tests/Cargo.toml t/hard; chmod 640 t/hard; chmod 755 t/tests/src; \
            find t -exec touch -h -d '2020-02-02 02:02:02 UTC' {} +; \
            tar -cpf t.tar t; tar -czf t.tgz t; mkdir x y; tar -C x -xpf t.tar; tar -C y -xzf t.tgz; \
            (cd x && find . -mindepth 1 -printf '%P %m %Ts %l %n\\n' | sort); diff -r x y && echo same",
        );
    });
}

#[test]
fn copies_keep_what_they_should() {
    for_each_user(|user| {
        same(
            user,
            "set -e; chmod 640 Cargo.toml; touch -d '2020-02-02 UTC' Cargo.toml; \
            cp -p Cargo.toml copy; cp -a tests all; stat -c '%a %Y %u %g' copy; \
            diff -r tests all && echo same; mv all moved; rm -rf moved; ls; \
            install -D -m 751 Cargo.toml deep/er/file; stat -c %a deep/er/file; \
            sed -i 's/workspace/changed/' copy; grep -c changed copy; \
            dd if=/dev/zero of=big bs=64k count=16 2>/dev/null; truncate -s 5 big; wc -c < big",
        );
    });
}

#[test]
fn make_builds_and_installs_a_c_program() {
    for_each_user(|user| {
        same(
            user,
            "set -e; mkdir c tmp; export TMPDIR=$PWD/tmp; cd c; \
            printf '#include <stdio.h>\\nint main(void) { puts(\"made\"); return 0; }\\n' > m.c; \
            printf 'all: m\\ninstall: m\\n\\tinstall -d ../usr/bin\\n\\tinstall -m 755 m ../usr/bin/m\\n' \
            > Makefile; make -s -j2; make -s install; ../usr/bin/m; stat -c %a ../usr/bin/m",
        );
    });
}

#[test]
fn a_database_is_written() {
    for_each_user(|user| {
        same(
            user,
            "set -e; for mode in delete wal truncate; do rm -f d.db*; sqlite3 d.db \
            \"pragma journal_mode=$mode; create table t(a); begin; insert into t values(1),(2); \
            commit; select sum(a) from t; pragma integrity_check; vacuum;\"; done",
        );
    });
}

#[test]
fn shells_and_text_tools_work_together() {
    for_each_user(|user| {
        same(
            user,
            "set -e; find . -name '*.rs' | sort | xargs cat | wc -l; \
            grep -rl Sandbox tests | sort | head -n 3; \
            bash -c 'diff <(echo a) <(echo a) && cat <<<here; coproc cat; echo co >&${COPROC[1]}; \
            read -r x <&${COPROC[0]}; echo $x'; seq 1000 | awk '{s+=$1} END {print s}'; \
            timeout 5 true; nohup true 2>/dev/null; nice -n 3 true; id -u; mktemp -p . XXXX | wc -c",
        );
    });
}

#[test]
fn tools_do_not_change_what_lies_outside() {
    for_each_user(|user| {
        let sandbox = repository(user);
        sandbox.file("outside/file", "kept");
        let before = tests::Snapshot::of(sandbox.path("outside"));
        let out = sandbox.name("outside");
        for script in [
            format!("git init -q {out}/repo"),
            format!("python3 -c \"open('{out}/file', 'w')\""),
            format!("node -e \"require('fs').writeFileSync('{out}/file', 'x')\""),
            format!("tar -cf {out}/t.tar Cargo.toml"),
            format!("sqlite3 {out}/d.db 'create table t(a)'"),
            format!("cp Cargo.toml {out}/"),
            format!("sed -i s/kept/changed/ {out}/file"),
            format!("chmod 777 {out}/file"),
        ] {
            let outcome = sandbox.sh(&script);
            assert_ne!(outcome.status, Some(0), "{script}: {outcome:#?}");
            before.unchanged();
        }
    });
}

/// The compiler's driver asks access(2) where temporary files can be made.
#[test]
fn a_c_program_is_built_without_a_temporary_directory_of_the_policy() {
    for_each_user(|user| {
        let script = "set -e; unset TMPDIR; printf 'int main(void){return 7;}' > p.c; cc -o p p.c; \
            status=0; ./p || status=$?; echo $status";
        let sandbox = Sandbox::of(user).allow_write(".");
        let inside = sandbox.sh(script);
        inside.succeeds();
        assert_eq!(inside.stdout, "7\n", "{inside:#?}");
        let asked = "for d in / /tmp .; do test -w $d && echo $d; done; :";
        assert_eq!(sandbox.sh(asked).stdout, ".\n", "access(2) tells what holds");
        assert!(sandbox.sh_outside(asked).stdout.contains("/tmp\n"));
    });
}

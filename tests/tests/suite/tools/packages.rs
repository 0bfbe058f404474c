//! Package managers that unpack many archives at once, while both processors have more to do.

use std::time::Duration;
use tests::{Sandbox, User, for_each_user, is_root_for, repetitions};

/// Writes archives of packages like those of the npm registry, and a project that depends on all.
const PROJECT: &str = "
import io, json, os, tarfile
os.makedirs('app'); os.makedirs('archives'); names = [f'package-{n}' for n in range(120)]
for name in names:
    with tarfile.open(f'archives/{name}.tgz', 'w:gz') as archive:
        def add(path, text):
            entry = tarfile.TarInfo(f'package/{path}'); entry.size = len(text); entry.mode = 0o644
            archive.addfile(entry, io.BytesIO(text))
        add('package.json', json.dumps({'name': name, 'version': '1.0.0'}).encode())
        for directory in ('dist', 'dist/esm', 'dist/cjs/internal', 'lib/deep/er', 'test/data'):
            for file in range(6): add(f'{directory}/{file}.js', b'module.exports = %d;\\n' % file)
dependencies = {name: f'file:../archives/{name}.tgz' for name in names}
json.dump({'name': 'app', 'version': '1.0.0', 'dependencies': dependencies}, open('app/package.json', 'w'))
";

/// A spinning process a processor, and one more; ended with the shell.
const BUSY: &str = "for n in $(seq $(($(nproc) + 1))); do (while :; do :; done) & done; wait";

fn project(user: User) -> Sandbox {
    let sandbox = Sandbox::of(user).allow_write(".").timeout(Duration::from_secs(600));
    let sandbox = sandbox.deny_write("**/.env").deny_read("**/*.pem").deny_write(".git/hooks");
    let sandbox = sandbox.env("npm_config_update_notifier", "false");
    let cache = sandbox.path("work/cache");
    let sandbox = sandbox.env("npm_config_cache", cache);
    sandbox.run_outside(["python3", "-c", PROJECT]).succeeds();
    let lock = "cd app && npm install --package-lock-only --offline --no-audit --no-fund --silent";
    sandbox.sh_outside(lock).succeeds();
    sandbox
}

#[test]
fn npm_unpacks_a_tree_under_deny_globs_on_a_busy_machine() {
    for_each_user(|user| {
        let sandbox = project(user);
        let busy = sandbox.spawn_outside(["sh", "-c", BUSY]);
        for _ in 0..repetitions(2) {
            let install = "cd app && npm ci --offline --no-audit --no-fund --loglevel=error";
            let outcome = sandbox.sh(install);
            outcome.succeeds();
            assert!(outcome.reports.is_empty(), "{outcome:#?}");
            let count = sandbox.sh_outside("find app/node_modules -name '*.js' | wc -l");
            assert_eq!(count.stdout.trim(), "3600");
        }
        drop(busy);
    });
}

/// A package of Debian's, in a repository of one.
const REPOSITORY: &str = "set -e; mkdir -p tree/DEBIAN site; \
    printf 'Package: made\\nVersion: 1\\nArchitecture: all\\nMaintainer: n <n@example.org>\\nDescription: made\\n' \
        > tree/DEBIAN/control; \
    dpkg-deb --build tree site/made_1_all.deb >/dev/null; cp tree/DEBIAN/control site/Packages; \
    printf 'Filename: ./made_1_all.deb\\nSize: %s\\nSHA256: %s\\n' $(stat -c %s site/made_1_all.deb) \
        $(sha256sum < site/made_1_all.deb | cut -d ' ' -f 1) >> site/Packages";

/// Its methods become another user, who may do nothing but fetch.
#[test]
fn apt_fetches_a_package_through_domains() {
    if !is_root_for("a change of the user") {
        return;
    }
    let outside = Sandbox::new();
    outside.sh_outside(REPOSITORY).succeeds();
    let mut server = outside.spawn_outside(["python3", "-uc", "import http.server, os
os.chdir('site'); s = http.server.ThreadingHTTPServer(('127.0.0.1', 0), http.server.SimpleHTTPRequestHandler)
print('port', s.server_port, 'up'); s.serve_forever()"]);
    server.expect("up");
    let port: u16 = server.stdout().split(' ').nth(1).unwrap().parse().unwrap();
    let text = serde_json::json!({
        "filesystem": { "allowWrite": ["."] },
        "network": { "allowedDomains": ["good.localhost", format!("127.0.0.1:{port}")] } });
    let sandbox = Sandbox::new().policy_json(text.to_string());
    let script = |host: &str| {
        format!(
            "set -e; mkdir -p state/lists/partial cache/archives/partial; \
         echo 'deb [trusted=yes] http://{host}.localhost:{port}/ ./' > list; \
         apt() {{ apt-get -q -o Dir::State=$PWD/state -o Dir::State::status=/dev/null -o Dir::Cache=$PWD/cache \
             -o Dir::Etc::sourcelist=$PWD/list -o Dir::Etc::sourceparts=- -o Acquire::Languages=none \
             -o Acquire::Retries=0 -o APT::Update::Error-Mode=any \"$@\" >>log 2>&1; }}; \
         apt update; apt download made; dpkg-deb -f made_1_all.deb Package"
        )
    };
    let outcome = sandbox.sh(&script("good"));
    assert_eq!(outcome.stdout, "made\n", "{outcome:#?} {}", sandbox.read("work/log"));
    sandbox.sh(&format!("rm -rf made_1_all.deb state cache log; {}", script("bad"))).fails();
    assert!(!sandbox.path("work/made_1_all.deb").exists());
}

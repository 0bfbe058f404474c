//! Real clients over TLS, without special flags: each fetches from a permitted name, and not from
//! another. They trust the server by the variables and files that they have for that.
//!
//! One that is not installed is skipped, loudly.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;
use tests::{ESCAPED, Running, Sandbox, eventually, skipped};

const CONTENT: &str = "what only the server knows";

/// A server of the files in `site`, and a sandbox that may reach it as `good.localhost`.
struct Site {
    sandbox: Sandbox,
    port: u16,
    /// Ends with this.
    _server: Running,
}

impl Site {
    fn new(configure: impl FnOnce(&Sandbox, u16)) -> Self {
        let files = Sandbox::new();
        files.dir("site");
        files.file("site/file", CONTENT);
        let made = files.sh_outside(
            "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 \
             -subj /CN=good.localhost -addext subjectAltName=DNS:good.localhost,DNS:bad.localhost \
             -addext basicConstraints=critical,CA:TRUE -keyout ../key.pem -out ../ca.pem",
        );
        made.succeeds();
        let (server, port) = serve(&files);
        configure(&files, port);
        let text = serde_json::json!({
            "filesystem": { "allowWrite": ["."] },
            "network": { "allowedDomains": [
                "good.localhost", format!("127.0.0.1:{port}")] } });
        let sandbox = files.policy_json(text.to_string()).timeout(Duration::from_secs(120));
        Self { sandbox, port, _server: server }
    }

    fn plain() -> Self {
        Self::new(|_, _| ())
    }

    fn url(&self, name: &str) -> String {
        format!("https://{name}.localhost:{}", self.port)
    }

    fn with(mut self, change: impl FnOnce(Sandbox, String) -> Sandbox) -> Self {
        let ca = self.sandbox.name("ca.pem");
        self.sandbox = change(self.sandbox, ca);
        self
    }

    fn has(&self, tool: &str) -> bool {
        self.can(&format!("command -v {tool}"))
    }

    /// Whether `check` succeeds outside.
    fn can(&self, check: &str) -> bool {
        let can = self.sandbox.sh_outside(check).status == Some(0);
        if !can {
            skipped(&format!("not here: {check}"));
        }
        can
    }

    /// What was asked for, by the server's log.
    fn log(&self) -> String {
        self.sandbox.read("log")
    }

    /// Runs `script` with $0 the URL of the refused and then of the permitted name.
    #[track_caller]
    fn only_permitted(&self, script: &str, expected: &str) {
        let run = |name: &str| self.sandbox.run(["sh", "-c", script, &self.url(name)]);
        let before = self.log();
        run("bad").fails();
        assert_eq!(self.log(), before, "{ESCAPED}a refused name was reached");
        let outcome = run("good");
        outcome.succeeds();
        assert!(outcome.stdout.contains(expected), "{outcome:#?}");
        assert!(eventually(|| self.log() != before));
    }
}

fn serve(files: &Sandbox) -> (Running, u16) {
    let script = "import http.server, ssl, sys, functools\n\
        root, ca, key, log = sys.argv[1:]\n\
        sys.stderr = open(log, 'a', buffering=1)\n\
        handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=root)\n\
        server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), handler)\n\
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)\n\
        context.load_cert_chain(ca, key)\n\
        server.socket = context.wrap_socket(server.socket, server_side=True,\n\
        \x20                                   do_handshake_on_connect=False)\n\
        print('port', server.server_address[1], 'up', flush=True)\n\
        server.serve_forever()\n";
    let paths = ["site", "ca.pem", "key.pem", "log"].map(|name| files.name(name));
    let words = ["python3".to_owned(), "-c".to_owned(), script.to_owned()];
    let mut server = files.spawn_outside(words.into_iter().chain(paths));
    server.expect("up");
    let port = server.stdout().split(' ').nth(1).unwrap().parse().unwrap();
    (server, port)
}

#[test]
fn curl_fetches_by_either_proxy() {
    let site = Site::plain().with(|sandbox, ca| sandbox.env("CURL_CA_BUNDLE", ca));
    site.only_permitted("curl -sSf $0/file", CONTENT);
    site.only_permitted("curl -sSf --proxy $SOCKS_PROXY $0/file", CONTENT);
}

#[test]
fn wget_fetches() {
    let site = Site::plain();
    let ca = site.sandbox.name("ca.pem");
    site.sandbox.file("home/.wgetrc", format!("ca_certificate = {ca}\ntries = 1\n"));
    site.only_permitted("wget -qO- $0/file", CONTENT);
}

#[test]
fn python_fetches_by_urllib_and_requests() {
    let site = Site::plain()
        .with(|sandbox, ca| sandbox.env("SSL_CERT_FILE", ca.clone()).env("REQUESTS_CA_BUNDLE", ca));
    let urllib = "python3 -c 'import sys, urllib.request as u; \
        print(u.urlopen(sys.argv[1]).read().decode())' $0/file";
    site.only_permitted(urllib, CONTENT);
    // requests as pip carries it, where it is not installed by itself.
    let requests = "python3 -c 'import sys\n\
        try: import requests\n\
        except ImportError: from pip._vendor import requests\n\
        print(requests.get(sys.argv[1]).text)' $0/file";
    if site.can("python3 -c 'import requests' || python3 -c 'from pip._vendor import requests'") {
        site.only_permitted(requests, CONTENT);
    }
}

#[test]
fn pip_installs_a_package() {
    let site = Site::new(|files, _| {
        // A wheel is an archive with three files.
        let made = files.sh_outside(
            "python3 -c \"import zipfile, os; os.makedirs('../site/simple/made'); \
             name = 'made-1.0-py3-none-any.whl'; info = 'made-1.0.dist-info/'; \
             wheel = zipfile.ZipFile('../site/simple/made/' + name, 'w'); \
             wheel.writestr('made.py', 'print(\\\"installed\\\")'); \
             wheel.writestr(info + 'METADATA', 'Metadata-Version: 2.1\\nName: made\\nVersion: 1.0\\n'); \
             wheel.writestr(info + 'WHEEL', 'Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n'); \
             wheel.writestr(info + 'RECORD', ''); wheel.close(); \
             open('../site/simple/made/index.html', 'w').write('<a href=\\\"' + name + '\\\">x</a>')\"",
        );
        made.succeeds();
    })
    .with(|sandbox, ca| sandbox.env("PIP_CERT", ca).env("PIP_RETRIES", "0"));
    if !site.can("python3 -m pip --version") {
        return;
    }
    site.only_permitted(
        "rm -rf lib; python3 -m pip install -q --disable-pip-version-check --no-cache-dir \
         --index-url $0/simple --target lib made && PYTHONPATH=lib python3 -m made",
        "installed",
    );
}

#[test]
fn npm_installs_a_package() {
    let site = Site::new(|files, port| {
        let url = format!("https://good.localhost:{port}/made-1.0.0.tgz");
        let document = serde_json::json!({ "name": "made", "dist-tags": { "latest": "1.0.0" },
            "versions": { "1.0.0": { "name": "made", "version": "1.0.0",
                "dist": { "tarball": url } } } });
        files.file("site/made", document.to_string());
        files.dir("package");
        files.file("package/package.json", r#"{"name":"made","version":"1.0.0"}"#);
        files.file("package/index.js", "console.log('installed')");
        files.sh_outside("tar -C .. -czf ../site/made-1.0.0.tgz package").succeeds();
    })
    .with(|sandbox, ca| sandbox.env("npm_config_cafile", ca).env("npm_config_fetch_retries", "0"));
    if site.has("npm") {
        site.only_permitted(
            "rm -rf node_modules; export npm_config_cache=$PWD/cache; npm install --loglevel=error --no-audit --no-fund --registry $0 made && \
             node node_modules/made",
            "installed",
        );
    }
}

#[test]
fn cargo_fetches_a_crate() {
    let site = Site::new(|files, port| {
        for name in ["made-1.0.0", "made-1.0.0/src"] {
            files.dir(name);
        }
        files.file(
            "made-1.0.0/Cargo.toml",
            "[package]\nname = \"made\"\nversion = \"1.0.0\"\nedition = \"2021\"\n",
        );
        files.file("made-1.0.0/src/lib.rs", "");
        files.sh_outside("tar -C .. -czf ../site/made.crate made-1.0.0").succeeds();
        let sum = files.sh_outside("sha256sum < ../site/made.crate").stdout;
        let sum = sum.split(' ').next().unwrap().to_owned();
        let entry = serde_json::json!({ "name": "made", "vers": "1.0.0", "deps": [], "cksum": sum,
            "features": {}, "yanked": false });
        for name in ["site/index", "site/index/ma", "site/index/ma/de"] {
            files.dir(name);
        }
        let download = format!("https://good.localhost:{port}/{{crate}}.crate");
        files.file("site/index/config.json", serde_json::json!({ "dl": download }).to_string());
        files.file("site/index/ma/de/made", entry.to_string());
    });
    let home = std::env::var("HOME").unwrap_or_default();
    let get = |name: &str, dir: &str| std::env::var(name).unwrap_or(format!("{home}/{dir}"));
    let path = format!("{}/bin:/usr/local/bin:/usr/bin:/bin", get("CARGO_HOME", ".cargo"));
    let site = site.with(|sandbox, ca| {
        sandbox
            .env("CARGO_HTTP_CAINFO", ca)
            .env("CARGO_NET_RETRY", "0")
            .env("RUSTUP_HOME", get("RUSTUP_HOME", ".rustup"))
            .env("PATH", path)
    });
    site.only_permitted(
        "set -e; rm -rf home crate; mkdir -p home crate/src; touch crate/src/lib.rs; \
         export CARGO_HOME=$PWD/home; \
         printf '[source.crates-io]\\nreplace-with = \"here\"\\n[source.here]\\nregistry = \"sparse+%s/index/\"\\n' \
         $0 > home/config.toml; \
         printf '[package]\\nname = \"user\"\\nedition = \"2021\"\\n[dependencies]\\nmade = \"1\"\\n[workspace]\\n' \
         > crate/Cargo.toml; cd crate; cargo fetch -q || exit 1; ls $CARGO_HOME/registry/cache/*",
        "made-1.0.0.crate",
    );
}

#[test]
fn git_clones_over_https() {
    let site = Site::new(|files, _| repository(files))
        .with(|sandbox, ca| sandbox.env("GIT_SSL_CAINFO", ca));
    site.only_permitted("git clone -q $0/repo.git got && git -C got log --format=%s", "committed");
}

fn repository(files: &Sandbox) {
    let made = files.sh_outside(
        "git init -q src && cd src && git -c user.name=a -c user.email=b commit -q --allow-empty \
         -m committed && mkdir -p ../../site && git clone -q --bare . ../../site/repo.git && \
         cd ../../site/repo.git && git update-server-info",
    );
    made.succeeds();
}

/// An ssh server of this user on loopback; git finds its way through GIT_SSH_COMMAND alone.
#[test]
fn git_clones_over_ssh() {
    let files = Sandbox::new();
    if files.sh_outside("command -v sshd").status != Some(0) {
        skipped("there is no sshd");
        return;
    }
    repository(&files);
    // Where a server of root's goes while it does not know the client; no package but Debian's
    // service makes it.
    let _ = fs::create_dir("/run/sshd");
    let port = tests::free_port();
    let keys = files.sh_outside(
        "umask 077; ssh-keygen -q -t ed25519 -N '' -f ../host && \
         ssh-keygen -q -t ed25519 -N '' -f ../user && cp ../user.pub ../authorized",
    );
    keys.succeeds();
    let name = |file: &str| files.name(file);
    files.file(
        "sshd_config",
        format!(
            "Port {port}\nListenAddress 127.0.0.1\nHostKey {}\nAuthorizedKeysFile {}\nStrictModes no\n\
             UsePAM no\nPidFile none\nPasswordAuthentication no\nPermitRootLogin prohibit-password\n",
            name("host"),
            name("authorized")
        ),
    );
    let sshd: PathBuf = "/usr/sbin/sshd".into();
    let config = files.name("sshd_config");
    let server = files.spawn_outside([
        sshd.as_os_str(),
        "-D".as_ref(),
        "-e".as_ref(),
        "-f".as_ref(),
        config.as_ref(),
    ]);
    let is_up = || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok();
    assert!(eventually(is_up), "sshd does not start: {server:#?}");
    files.file(
        "ssh_config",
        format!(
            "IdentityFile {}\nUserKnownHostsFile {}\nStrictHostKeyChecking accept-new\n",
            name("user"),
            name("work/known")
        ),
    );
    let ssh = format!("ssh -F {}", name("ssh_config"));
    let text = serde_json::json!({ "filesystem": { "allowWrite": ["."] }, "network": {
        "allowedDomains": ["good.localhost", format!("127.0.0.1:{port}")] } });
    let path = files.name("site/repo.git");
    let user = files.sh_outside("id -un").stdout.trim().to_owned();
    let sandbox = files.policy_json(text.to_string()).env("GIT_SSH_COMMAND", ssh);
    let clone = |host: &str| {
        let url = format!("ssh://{user}@{host}.localhost:{port}{path}");
        sandbox.sh(&format!("git clone -q {url} {host} && git -C {host} log --format=%s"))
    };
    let refused = clone("bad");
    refused.fails();
    assert!(refused.stderr.contains("not allowed by network.allowedDomains"), "{refused:#?}");
    let outcome = clone("good");
    assert_eq!(outcome.stdout, "committed\n", "{outcome:#?}\n{server:#?}");
}

/// Any Go program uses net/http's proxy from the environment unless it says otherwise.
#[test]
fn a_go_program_fetches() {
    let site = Site::plain().with(|sandbox, ca| sandbox.env("SSL_CERT_FILE", ca));
    if !site.has("go") {
        return;
    }
    let source = "package main\nimport (\"fmt\"; \"io\"; \"net/http\"; \"os\")\nfunc main() {\n\
        \tanswer, err := http.Get(os.Args[1])\n\
        \tif err != nil { fmt.Println(err); os.Exit(1) }\n\
        \tbody, _ := io.ReadAll(answer.Body)\n\tfmt.Println(string(body))\n}\n";
    site.sandbox.file("work/fetch.go", source);
    let built = site.sandbox.sh_outside("go build -o fetch fetch.go");
    built.succeeds();
    site.only_permitted("./fetch $0/file", CONTENT);
}

/// JAVA_TOOL_OPTIONS, which every Java virtual machine reads.
#[test]
fn a_java_program_fetches() {
    let site = Site::plain();
    if !site.has("java") || !site.has("keytool") {
        return;
    }
    let store = "keytool -importcert -noprompt -alias x -file ../ca.pem -keystore ../store \
                 -storepass changeit";
    site.sandbox.sh_outside(store).succeeds();
    let store = site.sandbox.name("store");
    let site = site.with(|sandbox, _| {
        let options = format!(
            "-Djavax.net.ssl.trustStore={store} -Djavax.net.ssl.trustStorePassword=changeit"
        );
        sandbox.env("JAVA_TOOL_OPTIONS", options)
    });
    let source = "import java.net.*; class Fetch { public static void main(String[] a) throws Exception {\n\
        System.out.println(new String(new URL(a[0]).openStream().readAllBytes())); } }";
    site.sandbox.file("work/Fetch.java", source);
    if site.sandbox.sh_outside("java Fetch.java").stderr.contains("jdk.compiler") {
        skipped("this java has no compiler");
        return;
    }
    site.only_permitted("java Fetch.java $0/file", CONTENT);
}

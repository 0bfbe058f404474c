# shellcheck shell=bash
# The programs: what each is tried with. Sourced by `run`; what they write is compared.

row git rust git <<'S'
export GIT_{AUTHOR,COMMITTER}_{NAME,EMAIL}=n@example.org
for i in 1 2 3; do echo $i >f$i; git add .; git commit -qm $i; done
git checkout -qb b HEAD~1; echo b >b; git add .; git commit -qm b; git rebase -q main
git gc -q; git stash list; git status --short
S

row git-worktree rust git <<'S'
export GIT_{AUTHOR,COMMITTER}_{NAME,EMAIL}=n@example.org; git commit -q --allow-empty -m x
git worktree add -q tree; git -C tree log --oneline | wc -l; git worktree remove tree; git worktree list | wc -l
S

# It writes .git/config, which the policy protects.
row git-submodule rust git <<'S'
export GIT_{AUTHOR,COMMITTER}_{NAME,EMAIL}=n@example.org GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=protocol.file.allow GIT_CONFIG_VALUE_0=always
git init -qb main other; (cd other && echo o >o && git add . && git commit -qm o); git submodule --quiet add "$PWD/other" sub; git commit -qam sub; git submodule --quiet update --init; cat sub/o
S

row git-signing rust "git gpg ssh-agent ssh-add ssh-keygen" <<'S'
export GIT_{AUTHOR,COMMITTER}_{NAME,EMAIL}=n@example.org GNUPGHOME=$PWD/g; mkdir -m 700 g; echo g >.gitignore
gpg -q --batch --passphrase '' --quick-gen-key n@example.org default default never 2>/dev/null
git -c user.signingkey=n@example.org commit -q --allow-empty -S -m gpg 2>&1; git verify-commit HEAD 2>&1 | grep -c 'Good signature'; gpgconf --kill all
ssh-keygen -qt ed25519 -N '' -C c -f k; eval "$(ssh-agent -a "$PWD/agent")" >/dev/null; ssh-add -q k 2>/dev/null; rm k
git -c gpg.format=ssh -c user.signingkey="$PWD/k.pub" commit -q --allow-empty -S -m ssh; git cat-file commit HEAD | grep -c 'BEGIN SSH SIGNATURE'; kill $SSH_AGENT_PID
S

row cargo rust cargo <<'S'
cargo -q init --name made . 2>/dev/null; cat >src/main.rs <<'R'
fn main() { println!("ran"); }
#[test] fn tcp() { let l = std::net::TcpListener::bind("127.0.0.1:0").unwrap(); std::net::TcpStream::connect(l.local_addr().unwrap()).unwrap(); }
#[test] fn udp() { let (a, b) = (std::net::UdpSocket::bind("127.0.0.1:0").unwrap(), std::net::UdpSocket::bind("0.0.0.0:0").unwrap());
    b.send_to(b"x", a.local_addr().unwrap()).unwrap(); let from = a.recv_from(&mut [0; 9]).unwrap().1; a.send_to(b"y", from).unwrap(); b.recv(&mut [0; 9]).unwrap(); }
R
cargo run -q; cargo test -q 2>/dev/null | grep -o '[0-9]* passed'
S

row cmake-ninja-ccache rust "cmake ninja ccache cc" <<'S'
printf 'int main(void) { return 0; }\n' >m.c; printf 'cmake_minimum_required(VERSION 3.10)\nproject(p C)\nadd_executable(m m.c)\nenable_testing()\nadd_test(t m)\n' >CMakeLists.txt
export CCACHE_DIR=$PWD/cc; for b in one two; do cmake -G Ninja -B $b -DCMAKE_C_COMPILER_LAUNCHER=ccache . >/dev/null; cmake --build $b >/dev/null; (cd $b && ctest -Q && echo tested); done; ccache -s | grep -ci hits: | head -n 1
S

row sccache rust "sccache cc" <<'S'
printf 'int main(void) { return 0; }\n' >m.c; export SCCACHE_DIR=$PWD/sc SCCACHE_SERVER_PORT=$((20000 + RANDOM % 10000))
sccache cc -c m.c -o m.o && rm m.o && sccache cc -c m.c -o m.o && ls m.o; sccache --stop-server 2>/dev/null | grep -c 'Cache hits' | head -n 1
S

row make rust "make cc" <<'S'
printf 'int f%d(void) { return %d; }\n' 1 1 >a.c; printf 'int main(void) { return 0; }\n' >b.c
printf 'all: a.o b.o\n\tcc -o made $^ && ./made && echo made\n' >Makefile; make -s -j4
S

row node-test node node <<'S'
echo 'const { test } = require("node:test"); const net = require("net"); const { fork } = require("child_process");
if (process.argv[2]) { process.send("child"); process.disconnect(); } else {
test("tcp", (t, done) => { const s = net.createServer(c => c.end("x")).listen(0, () => net.connect(s.address().port).on("data", () => s.close(done))) });
test("unix", (t, done) => { const s = net.createServer(c => c.end("x")).listen("./s", () => net.connect("./s").on("data", () => s.close(done))) });
test("fork", (t, done) => { fork(__filename, ["c"]).on("message", () => done()) });
test("interfaces", () => { if (!require("os").networkInterfaces().lo) throw 1 }); }' >t.js
node --test t.js | grep -E '^(# |ℹ )(pass|fail)'
S

row node-cluster node node <<'S'
echo 'const c = require("cluster"), h = require("http");
if (c.isPrimary) { c.fork(); c.on("listening", (w, a) => h.get({ port: a.port, host: "127.0.0.1" }, r => { r.pipe(process.stdout); r.on("end", () => process.exit()) })) }
else h.createServer((q, r) => r.end("served\n")).listen(0);' >c.js; node c.js
S

row node-watch node node <<'S'
echo 'const fs = require("fs"); fs.watch(".", (e, f) => { if (f == "made") { console.log(f); process.exit() } }); setTimeout(() => fs.writeFileSync("made", ""), 100)' >w.js; node w.js
S

row npm node npm <<'S'
mkdir dep; echo '{"name":"dep","version":"1.0.0"}' >dep/package.json; (cd dep && npm pack --silent)
echo '{"name":"app","version":"1.0.0"}' >package.json; npm install --silent --no-audit --no-fund ./dep/dep-1.0.0.tgz; npm ci --silent --no-audit --no-fund; npm ls --silent | grep -o dep@1.0.0
S

row jest node jest <<'S'
echo '{}' >package.json; echo 'test("serves", done => { const s = require("http").createServer((q, r) => r.end("x")).listen(0, () => require("http").get({ port: s.address().port }, r => { r.resume(); s.close(done) })) })' >a.test.js
cp a.test.js b.test.js; jest --ci 2>&1 | grep -o 'Tests: *2 passed'
S

row vitest node vitest <<'S'
echo '{"type":"module"}' >package.json; mkdir node_modules; ln -s "$NODE_PATH"/* node_modules/; echo 'import { test, expect } from "vitest"; test("adds", () => { expect(1 + 1).toBe(2) })' >a.test.js
CI=1 vitest run --reporter=json 2>/dev/null | grep -o '"numPassedTests":1'
S

row tsc-watch node tsc <<'S'
echo 'export const a: number = 1;' >a.ts; tsc --watch --preserveWatchOutput --outDir out a.ts >log & tsc=$!; for i in $(seq 300); do [ -s out/a.js ] && break; sleep 0.1; done
for i in $(seq 60); do echo 'export const a: number = 2;' >a.ts; sleep 0.5; grep -q 2 out/a.js && break; done; grep -o 'a = [0-9]*;' out/a.js | tail -n 1; pkill -P $tsc || true; kill $tsc || true
S

row vite node vite <<'S'
echo '{"type":"module"}' >package.json; mkdir node_modules; ln -s "$NODE_PATH"/* node_modules/; echo '<script type="module" src="/m.js"></script>' >index.html; echo 'console.log("one")' >m.js
port=$((20000 + RANDOM % 10000)); vite --port $port --strictPort --host 127.0.0.1 >log 2>&1 & vite=$!
node -e 'const get = (p, f) => require("http").get("http://127.0.0.1:'$port'" + p, r => { let t = ""; r.on("data", d => t += d).on("end", () => f(t)) }).on("error", () => setTimeout(get, 100, p, f));
get("/m.js", t => { console.log(/one|two/.exec(t)[0]); const token = null; require("fs").writeFileSync("m.js", "console.log(\"two\")");
  const again = () => get("/m.js", t => t.includes("two") ? (console.log("reloaded"), process.exit()) : setTimeout(again, 100)); again() })'
kill $vite
S

row webpack node webpack <<'S'
mkdir src; echo 'export default 7' >src/a.js; echo 'import a from "./a.js"; console.log(a)' >src/index.js; webpack --mode production --no-stats >/dev/null && node dist/main.js
S

row tsx node tsx <<'S'
echo 'const n: number = 7; console.log(n)' >a.ts; tsx a.ts
S

row pm2 node pm2 <<'S'
export PM2_HOME=$PWD/p; echo 'require("http").createServer((q, r) => r.end("served\n")).listen(process.env.PORT)' >s.js; export PORT=$((20000 + RANDOM % 10000))
pm2 start s.js -s >/dev/null 2>&1; for i in $(seq 100); do node -e 'require("http").get({ port: process.env.PORT }, r => r.pipe(process.stdout)).on("error", () => process.exit(1))' && break; sleep 0.1; done
pm2 kill -s >/dev/null 2>&1; echo killed
S

row pnpm node pnpm <<'S'
mkdir dep; echo '{"name":"dep","version":"1.0.0"}' >dep/package.json; echo '{"name":"app","version":"1.0.0","dependencies":{"dep":"file:./dep"}}' >package.json
pnpm install --offline --silent --store-dir "$PWD/store" >/dev/null && ls node_modules
S

row yarn node yarn <<'S'
mkdir dep; echo '{"name":"dep","version":"1.0.0"}' >dep/package.json; echo '{"name":"app","version":"1.0.0","license":"MIT","dependencies":{"dep":"file:./dep"},"scripts":{"t":"echo ran"}}' >package.json
yarn install --offline --silent --cache-folder "$PWD/c" && ls node_modules && yarn -s t
S

row turbo node turbo <<'S'
export TURBO_TELEMETRY_DISABLED=1 DO_NOT_TRACK=1; echo '{"name":"app","packageManager":"npm@10.0.0","workspaces":["a"]}' >package.json; mkdir a; echo '{"name":"a","version":"1.0.0","scripts":{"build":"echo built"}}' >a/package.json
echo '{"name":"app","lockfileVersion":3,"packages":{}}' >package-lock.json; echo '{"tasks":{"build":{}}}' >turbo.json; turbo run build --no-daemon 2>/dev/null | grep -o 'built$'
S

row python-multiprocessing python /usr/bin/python3 <<'S'
cat >m.py <<'P'
import multiprocessing as m
from multiprocessing import shared_memory
def square(x): return x * x
if __name__ == '__main__':
    for how in 'fork', 'spawn', 'forkserver':
        with m.get_context(how).Pool(2) as pool: print(sum(pool.map(square, range(10))))
    with m.Manager() as manager: d = manager.dict(); d['x'] = 1; print(d.copy())
    s = shared_memory.SharedMemory(create=True, size=99); s.buf[0] = 7; print(s.buf[0]); s.close(); s.unlink()
    with m.Lock(): print('locked')
P
/usr/bin/python3 m.py
S

row asyncio-tcp-unix python /usr/bin/python3 <<'S'
cat >a.py <<'P'
import asyncio
async def serve(r, w): w.write(await r.read(5)); await w.drain(); w.close()
async def main():
    for s, c in (asyncio.start_server(serve, '127.0.0.1', 0), lambda s: asyncio.open_connection(*s.sockets[0].getsockname())), \
                (asyncio.start_unix_server(serve, 's'), lambda s: asyncio.open_unix_connection('s')):
        s = await s; r, w = await c(s); w.write(b'hello'); print(await r.read()); w.close(); s.close()
    p = await asyncio.create_subprocess_exec('echo', 'child', stdout=-1); print((await p.communicate())[0])
asyncio.run(main())
P
/usr/bin/python3 a.py
S

row asyncio-udp python /usr/bin/python3 <<'S'
/usr/bin/python3 -c "
import asyncio
class P(asyncio.DatagramProtocol):
    def datagram_received(self, data, there): print(data); done.set()
async def main():
    global done; done = asyncio.Event(); loop = asyncio.get_running_loop()
    t, _ = await loop.create_datagram_endpoint(P, local_addr=('127.0.0.1', 0))
    c, _ = await loop.create_datagram_endpoint(P, remote_addr=t.get_extra_info('sockname')); c.sendto(b'x'); await done.wait()
asyncio.run(main())"
S

row udp-dns python "dnsmasq /usr/bin/python3" <<'S'
port=$((20000 + RANDOM % 10000)); dnsmasq -k -p $port -a 127.0.0.1 -i lo --bind-interfaces -R -h -C /dev/null -u "$(id -un)" -g "$(id -gn)" -x '' --address=/made.test/192.0.2.7 2>log & sleep 0.2
cat >q.py <<'P'
import socket, struct, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(0.5)
query = struct.pack('>6H', 7, 256, 1, 0, 0, 0) + b'\4made\4test\0' + struct.pack('>2H', 1, 1)
for _ in range(40):
    try: s.sendto(query, ('127.0.0.1', int(sys.argv[1]))); print(socket.inet_ntoa(s.recv(512)[-4:])); break
    except OSError: import time; time.sleep(0.1)
P
/usr/bin/python3 q.py $port; kill %1
S

row asyncio-datagrams python /usr/bin/python3 <<'S'
/usr/bin/python3 -c "
import asyncio, socket
class Echo(asyncio.DatagramProtocol):
    def connection_made(self, t): self.t = t
    def datagram_received(self, data, there): self.t.sendto(data.upper(), there)
class Client(asyncio.DatagramProtocol):
    def datagram_received(self, data, there): print(data); done.set_result(0)
async def main():
    global done; loop = asyncio.get_running_loop()
    for at in ('127.0.0.1', 0), ('0.0.0.0', 0), ('::1', 0):
        t, _ = await loop.create_datagram_endpoint(Echo, local_addr=at); there = t.get_extra_info('sockname')[:2]; there = (there[0].replace('0.0.0.0', '127.0.0.1'), there[1])
        for how in dict(remote_addr=there), dict(family=socket.AF_INET6 if ':' in at[0] else socket.AF_INET):
            done = loop.create_future(); c, _ = await loop.create_datagram_endpoint(Client, **how); c.sendto(b'x', *([] if 'remote_addr' in how else [there])); await done; c.close()
        t.close()
    s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); s.bind('s'); c = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); c.bind('c'); c.sendto(b'unix', 's'); d, a = s.recvfrom(9); s.sendto(d, a); print(c.recv(9))
asyncio.run(main())"
S

row statsd python /usr/bin/python3 <<'S'
cat >d.py <<'P'
import socket, threading, time
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); server.bind(('127.0.0.1', 0))
got = []; thread = threading.Thread(target=lambda: [got.append(server.recv(99)) for _ in range(1000)]); thread.start()
client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); client.connect(server.getsockname())
end = time.monotonic() + 60
for i in range(1000):
    client.send(b'metric:%d|c' % i)
    while len(got) < i - 50 and time.monotonic() < end: time.sleep(0.001)
thread.join(60); print(len(got))
P
/usr/bin/python3 d.py
S

row pytest-xdist python pytest <<'S'
printf 'import pytest\n@pytest.mark.parametrize("i", range(8))\ndef test(i, tmp_path): (tmp_path / "f").write_text("x")\n' >test_it.py; pytest -q -n 2 -p no:cacheprovider test_it.py 2>/dev/null | grep -o '8 passed'
S

row uv python uv <<'S'
uv venv -q --offline --python /usr/bin/python3 --cache-dir "$PWD/c" env && env/bin/python -c 'print("made")'; uv pip list -q --offline --cache-dir "$PWD/c" --python env/bin/python
S

row nbconvert python jupyter-nbconvert <<'S'
export JUPYTER_CONFIG_DIR=$PWD/j JUPYTER_RUNTIME_DIR=$PWD/r JUPYTER_DATA_DIR=$PWD/d IPYTHONDIR=$PWD/i JUPYTER_PLATFORM_DIRS=1
echo '{"cells":[{"cell_type":"code","id":"a","execution_count":null,"metadata":{},"outputs":[],"source":"print(6 * 7)"}],"metadata":{"kernelspec":{"name":"python3","display_name":"p","language":"python"}},"nbformat":4,"nbformat_minor":5}' >n.ipynb
jupyter-nbconvert --to markdown --execute --stdout n.ipynb 2>/dev/null | grep -o 42 | head -n 1
S

row python-venv python /usr/bin/python3 <<'S'
/usr/bin/python3 -m venv env; env/bin/python -c 'import sys; print(sys.prefix != sys.base_prefix)'
S

row pip python "/usr/bin/python3" <<'S'
mkdir -p src/made; printf 'def seven(): return 7\n' >src/made/__init__.py; /usr/bin/python3 -m venv env
/usr/bin/python3 - <<'P'
import zipfile; z = zipfile.ZipFile('made-1.0-py3-none-any.whl', 'w'); z.write('src/made/__init__.py', 'made/__init__.py')
z.writestr('made-1.0.dist-info/METADATA', 'Metadata-Version: 2.1\nName: made\nVersion: 1.0\n'); z.writestr('made-1.0.dist-info/WHEEL', 'Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n'); z.writestr('made-1.0.dist-info/RECORD', '')
P
env/bin/pip install -q --disable-pip-version-check --no-index ./made-1.0-py3-none-any.whl && env/bin/python -c 'import made; print(made.seven())'
S

row go go go <<'S'
export GOTOOLCHAIN=local GOFLAGS=-mod=mod; go mod init example.org/made 2>/dev/null
printf 'package made\nimport ("net"; "net/http"; "net/http/httptest"; "testing")\nfunc TestF(t *testing.T) { s := httptest.NewServer(http.NotFoundHandler()); defer s.Close(); if r, err := http.Get(s.URL); err != nil || r.StatusCode != 404 { t.Fatal(err) } }
func TestUDP(t *testing.T) { s, err := net.ListenPacket("udp", "127.0.0.1:0"); if err != nil { t.Fatal(err) }; c, err := net.Dial("udp", s.LocalAddr().String()); if err != nil { t.Fatal(err) }; c.Write([]byte("x")); b := make([]byte, 9)
  _, from, err := s.ReadFrom(b); if err != nil { t.Fatal(err) }; s.WriteTo(b, from); if _, err := c.Read(b); err != nil { t.Fatal(err) } }\n' >f_test.go
go vet; go test -v 2>&1 | grep -c -- '--- PASS'
S

# Debian's repository stands for the one that needs the network.
row maven jvm "mvn java" <<'S'
mkdir -p src/main/java src/test/java; echo 'public class M { public static int seven() { return 7; } }' >src/main/java/M.java
echo 'public class MTest { @org.junit.Test public void tcp() throws Exception { try (var s = new java.net.ServerSocket(0); var c = new java.net.Socket("localhost", s.getLocalPort())) { org.junit.Assert.assertEquals(7, M.seven()); } } }' >src/test/java/MTest.java
version() { ls "/usr/share/maven-repo/org/apache/maven/plugins/maven-$1-plugin" | grep -m 1 '^[0-9.]*$'; }
plugin() { echo "<plugin><artifactId>maven-$1-plugin</artifactId><version>$(version $1)</version></plugin>"; }
cat >pom.xml <<P
<project><modelVersion>4.0.0</modelVersion><groupId>g</groupId><artifactId>a</artifactId><version>1</version>
<properties><maven.compiler.source>17</maven.compiler.source><maven.compiler.target>17</maven.compiler.target><project.build.sourceEncoding>UTF-8</project.build.sourceEncoding></properties>
<dependencies><dependency><groupId>junit</groupId><artifactId>junit</artifactId><version>4.x</version><scope>test</scope></dependency></dependencies>
<build><plugins>$(plugin resources)$(plugin compiler)$(plugin surefire)</plugins></build></project>
P
echo '<settings><mirrors><mirror><id>debian</id><mirrorOf>*</mirrorOf><url>file:///usr/share/maven-repo</url></mirror></mirrors></settings>' >s.xml
mvn -q -B -s s.xml -Dmaven.repo.local="$PWD/r" test >log 2>&1; grep -ho 'Tests run: [0-9]*, Failures: 0, Errors: 0' target/surefire-reports/*.txt
S

row gradle jvm "gradle java" <<'S'
export GRADLE_USER_HOME=$HOME/.gradle; mkdir -p src/main/java; echo 'public class M { public static void main(String[] a) { System.out.println("ran"); } }' >src/main/java/M.java
echo "apply plugin: 'java'" >build.gradle; echo >settings.gradle; gradle --offline -q build >log 2>&1 && java -cp build/classes/java/main M; gradle --stop >/dev/null 2>&1 || cat log
S

row java jvm "java javac" <<'S'
echo 'import java.net.*; import java.util.*; public class M { public static void main(String[] a) throws Exception {
  System.out.println(Collections.list(NetworkInterface.getNetworkInterfaces()).stream().anyMatch(i -> i.getName().equals("lo")));
  try (var s = new ServerSocket(0); var c = new Socket("localhost", s.getLocalPort())) { System.out.println("served"); } } }' >M.java
javac M.java 2>/dev/null; java -cp . M 2>/dev/null
S

row redis-tcp database "redis-server redis-cli" <<'S'
port=$((20000 + RANDOM % 10000)); redis-server --port $port --bind 127.0.0.1 --save '' >log & for i in $(seq 50); do redis-cli -p $port ping >/dev/null 2>&1 && break; sleep 0.1; done
redis-cli -p $port set a b; redis-cli -p $port get a; redis-cli -p $port shutdown nosave; wait
S

row redis-unix database "redis-server redis-cli" <<'S'
redis-server --port 0 --unixsocket "$PWD/s" --save '' >log & for i in $(seq 50); do redis-cli -s s ping >/dev/null 2>&1 && break; sleep 0.1; done
redis-cli -s s set a b; redis-cli -s s get a; redis-cli -s s shutdown nosave; wait
S

# Root does not run it: it becomes nobody.
row postgresql database "psql runuser" <<'S'
bin=$(ls -d /usr/lib/postgresql/*/bin | tail -n 1); chmod 755 .
become=; [ "$(id -u)" = 0 ] && { become='runuser -u nobody --'; mkdir data; chown nobody data; }
port=$((20000 + RANDOM % 10000)); export PGHOST=$PWD/data PGPORT=$port PGUSER=nobody
$become $bin/initdb -D data -A trust -N >/dev/null 2>&1; $become $bin/pg_ctl -D data -l data/log -w -o "-k $PWD/data -p $port" start >/dev/null
psql -XAtq postgres -c 'create table t as select generate_series(1, 1000) i' -c 'select sum(i) from t'
psql -XAtq -h 127.0.0.1 postgres -c 'select count(*) from t'; $become $bin/pg_ctl -D data -m fast stop >/dev/null; echo stopped
S

row sqlite-wal database sqlite3 <<'S'
sqlite3 d.db 'pragma journal_mode=wal; create table t(i); insert into t values (1), (2)'; sqlite3 d.db 'select sum(i) from t; pragma wal_checkpoint'
S

row playwright browser "chromium-headless-shell playwright-core" <<'S'
echo 'const { chromium } = require("playwright-core"); const http = require("http");
(async () => { const s = http.createServer((q, r) => r.end("<title>made</title>")).listen(0, "127.0.0.1"); await new Promise(f => s.on("listening", f));
  const b = await chromium.launch({ executablePath: "/usr/bin/chromium-headless-shell", args: ["--no-sandbox"], chromiumSandbox: false }); const p = await b.newPage(); await p.goto("http://127.0.0.1:" + s.address().port);
  console.log(await p.title()); console.log((await p.screenshot()).subarray(1, 4).toString()); await b.close(); s.close(); })()' >t.js; node t.js
S

row chromium browser chromium-headless-shell <<'S'
chromium-headless-shell --no-sandbox --disable-gpu --screenshot="$PWD/shot.png" 'data:text/html,<h1>shown</h1>' >/dev/null 2>&1; head -c 4 shot.png | tail -c 3
S

row tmux rust tmux <<'S'
export TMUX_TMPDIR=$PWD; tmux -f /dev/null new-session -d 'echo in tmux >made; sleep 5'; for i in $(seq 50); do [ -s made ] && break; sleep 0.1; done; cat made; tmux ls | wc -l; tmux kill-server
S

row script rust script <<'S'
script -qec 'echo in a terminal; tty | sed s/[0-9]*$//' typescript | tr -d '\r'
S

row screen rust screen <<'S'
export SCREENDIR=$PWD/s; mkdir -m 700 s; screen -dmS x sh -c 'echo in screen >made; sleep 5'; for i in $(seq 50); do [ -s made ] && break; sleep 0.1; done; cat made; screen -S x -X quit >/dev/null; echo quit
S

row less rust "less script" <<'S'
seq 100 >f; export LESSHISTFILE=-; printf 'G\nq' | script -qec 'less f' /dev/null | grep -ao 100 | head -n 1
S

row inotify rust inotifywait <<'S'
(until [ -e seen ]; do sleep 0.2; rm -f made; echo x >made; done) & inotifywait -q -t 20 -e create --format %f .; touch seen; wait
S

row vim rust "vim.basic script" <<'S'
echo old >f; vim.basic -u NONE -es -c '%s/old/new/' -c wq f; cat f
printf 'oin a terminal\033:wq\n' | script -qec 'vim.basic -u NONE f' /dev/null >/dev/null; cat f
S

row man rust "man script less" <<'S'
man -P cat ls 2>/dev/null | head -n 1 | wc -l; export LESSHISTFILE=-; printf q | script -qec 'man -P less ls' /dev/null | grep -ac 'User Commands' | head -n 1
S

row strace rust strace <<'S'
strace -o log -e trace=write echo traced; grep -c traced log
S

row gdb rust gdb <<'S'
gdb -q -batch -nx -ex 'break main' -ex run -ex 'print 6 * 7' --args /bin/true 2>/dev/null | grep -o '= 42'
S

row gpg rust gpg <<'S'
export GNUPGHOME=$PWD/g; mkdir -m 700 g; gpg -q --batch --passphrase '' --quick-gen-key t@example.org default default never 2>/dev/null
echo text | gpg -q --batch --clearsign 2>/dev/null | gpg -q --verify 2>&1 | grep -c 'Good signature'; gpgconf --kill all
S

row ssh-agent rust "ssh-agent ssh-add ssh-keygen" <<'S'
ssh-keygen -qt ed25519 -N '' -C c -f k; eval "$(ssh-agent -a "$PWD/agent")" >/dev/null; ssh-add -q k 2>/dev/null; ssh-add -l | wc -l
echo text >f; ssh-keygen -qY sign -f k.pub -n file f 2>/dev/null; head -n 1 f.sig; kill $SSH_AGENT_PID
S

row archives rust "tar xz zip unzip rsync" <<'S'
mkdir a; seq 1000 >a/f; tar cJf a.tar.xz a; zip -qr a.zip a; mkdir b; tar xJf a.tar.xz -C b; rsync -a a/ c/; diff -r a b/a && diff -r a c && unzip -qo a.zip && echo alike
S

row search rust "rg fdfind jq" <<'S'
mkdir d; echo needle >d/f; rg -n needle; fdfind f; echo '{"a":[1,2]}' | jq -c .a
S

row shellcheck rust shellcheck <<'S'
echo 'echo $x' >a.sh; shellcheck -s sh a.sh | grep -o SC2086 | head -n 1
S

row eslint-prettier node "eslint prettier" <<'S'
echo '{"type":"module"}' >package.json; echo 'export default [{ rules: { "no-var": "error" } }]' >eslint.config.js; echo 'var   x = 1' >a.js; prettier a.js; eslint a.js | grep -o no-var
S

row ruby rust "ruby gem" <<'S'
ruby -e 'require "socket"; s = TCPServer.new("127.0.0.1", 0); c = TCPSocket.new("127.0.0.1", s.addr[1]); s.accept.puts("served"); puts c.gets; puts 6 * 7; u = UNIXServer.new("s"); c = UNIXSocket.new("s"); u.accept.puts("unix"); puts c.gets'
printf 'Gem::Specification.new { |s| s.name = "made"; s.version = "1.0.0"; s.summary = "m"; s.authors = ["n"]; s.files = ["lib/made.rb"] }\n' >made.gemspec; mkdir lib; echo 'puts "required"' >lib/made.rb
gem build made.gemspec 2>/dev/null | grep -c 'Successfully'; export GEM_HOME=$PWD/g; gem install --local -N ./made-1.0.0.gem 2>/dev/null | grep -c installed; ruby -e 'require "made"'; printf 'require "minitest/autorun"\nclass T < Minitest::Test\n def test_it; assert true; end\nend\n' >t.rb; ruby t.rb | grep -o '1 runs'
S

row php rust "php curl" <<'S'
echo '<?php echo "served\n";' >index.php; port=$((20000 + RANDOM % 10000)); php -S 127.0.0.1:$port >log 2>&1 & u=$!; for i in $(seq 300); do curl -s http://127.0.0.1:$port/ && break; kill -0 $u; sleep 0.2; done; kill $u; wait $u || true; php -r 'session_start(); $_SESSION["a"] = 1; session_write_close(); echo "session\n"; $p = tempnam(sys_get_temp_dir(), "x"); file_put_contents($p, "t"); echo file_get_contents($p), "\n"; $d = new PDO("sqlite::memory:"); echo "pdo\n";' 2>&1
S

row hyperfine rust hyperfine <<'S'
hyperfine -N -w 1 -r 3 --export-json j 'true' >/dev/null 2>&1; jq -r '.results[0].exit_codes|length' j
S

row entr rust "entr script" <<'S'
echo a >a; (sleep 0.7; echo b >>a) & echo a | script -qec 'entr -np -z cat a' /dev/null </dev/null | tr -d '\r' | tail -n 1; wait
S

row gcc-lto rust "gcc make" <<'S'
printf 'int f(void) { return 7; }\n' >a.c; printf 'int f(void); int main(void) { return f() - 7; }\n' >b.c; printf 'all:\n\t+gcc -O2 -flto=jobserver a.c b.c -o made\n' >Makefile; make -s -j3 2>&1; ./made && echo ran
S

row valgrind rust "valgrind gcc" <<'S'
printf '#include <stdlib.h>\nint main(void) { char *p = malloc(9); p[9] = 1; free(p); return 0; }\n' >a.c; gcc -g a.c -o made; valgrind -q ./made 2>&1 | grep -o 'Invalid write of size 1'; valgrind --tool=massif --massif-out-file=m ./made 2>/dev/null; head -n 1 m
S

row openssl rust "openssl curl" <<'S'
openssl req -x509 -newkey rsa:2048 -nodes -keyout k -out c -days 1 -subj /CN=localhost 2>/dev/null; port=$((20000 + RANDOM % 10000)); openssl s_server -quiet -accept $port -key k -cert c -www >log 2>&1 & u=$!; curl -sSk --retry 40 --retry-connrefused --retry-delay 0 --retry-max-time 60 https://localhost:$port/ | grep -c s_server | head -n 1; kill $u; wait $u || true
S

row rsync-daemon rust rsync <<'S'
mkdir src; echo x >src/f; printf 'use chroot = no\nlog file = /dev/null\n[m]\npath = %s/src\nread only = yes\n' "$PWD" >r.conf; port=$((20000 + RANDOM % 10000)); rsync --daemon --no-detach --address 127.0.0.1 --port $port --config r.conf & u=$!
for i in $(seq 50); do rsync -a rsync://127.0.0.1:$port/m/ out/ 2>/dev/null && break; sleep 0.1; done; cat out/f; kill $u; wait $u || true
S

row nginx rust "nginx curl" <<'S'
port=$((20000 + RANDOM % 10000)); mkdir t www; echo served >www/index.html; chmod 755 . www
printf 'pid %s/pid; error_log %s/e; worker_processes 2; events { } http { access_log off; client_body_temp_path %s/t; proxy_temp_path %s/t; fastcgi_temp_path %s/t; uwsgi_temp_path %s/t; scgi_temp_path %s/t; server { listen 127.0.0.1:%s; root %s/www; } }' "$PWD" "$PWD" "$PWD" "$PWD" "$PWD" "$PWD" "$PWD" $port "$PWD" >n.conf
nginx -c "$PWD/n.conf" -e "$PWD/e" && curl -sS http://127.0.0.1:$port/; nginx -c "$PWD/n.conf" -e "$PWD/e" -s quit; for i in $(seq 50); do [ -e pid ] || break; sleep 0.1; done; [ -e pid ] || echo quit
S

row mercurial rust hg <<'S'
hg init h; cd h; echo x >f; hg add -q f; hg commit -q -m x -u n; hg log -T '{desc}\n'; hg clone -q . ../h2; cat ../h2/f
S

row parallel rust "parallel socat" <<'S'
seq 4 | PARALLEL_HOME=$PWD/p parallel -k -j2 echo n {} 2>/dev/null; socat UNIX-LISTEN:s,fork EXEC:cat & u=$!; for i in $(seq 50); do [ -S s ] && break; sleep 0.1; done; echo through | socat -t2 - UNIX-CONNECT:s; kill $u; wait $u || true
S

row flask python "flask curl" <<'S'
printf 'from flask import Flask\napp = Flask(__name__)\n@app.get("/")\ndef f(): return "served\\n"\n' >app.py
port=$((20000 + RANDOM % 10000)); flask run --debug -p $port >log 2>&1 & u=$!; curl -sS --retry 40 --retry-connrefused --retry-delay 0 --retry-max-time 60 http://127.0.0.1:$port/; sed -i s/served/again/ app.py
for i in $(seq 100); do [ "$(curl -s http://127.0.0.1:$port/)" = again ] && echo reloaded && break; sleep 0.1; done; kill $u; pkill -P $u || true; wait $u || true
S

row django python "django-admin curl" <<'S'
django-admin startproject p .; printf 'from django.test import LiveServerTestCase\nimport urllib.request, urllib.error\nclass T(LiveServerTestCase):\n    def test(self):\n        try: urllib.request.urlopen(self.live_server_url + "/admin/")\n        except urllib.error.HTTPError: pass\n' >p/tests.py
python manage.py migrate -v 0; python manage.py test --parallel 2 2>&1 | grep -o '^OK'
port=$((20000 + RANDOM % 10000)); python manage.py runserver $port >log 2>&1 & u=$!; curl -sS --retry 40 --retry-connrefused --retry-delay 0 --retry-max-time 60 http://127.0.0.1:$port/ | grep -c 'installed successfully' | head -n 1; pkill -P $u || true; kill $u || true; wait $u || true
S

row gunicorn python "gunicorn curl" <<'S'
printf 'def app(e, s):\n    s("200 OK", []); return [b"served\\n"]\n' >a.py
port=$((20000 + RANDOM % 10000)); gunicorn -w 2 -b 127.0.0.1:$port --reuse-port a:app >log 2>&1 & u=$!; curl -sS --retry 40 --retry-connrefused --retry-delay 0 --retry-max-time 60 http://127.0.0.1:$port/; kill $u; wait $u || true
gunicorn -w 2 -b unix:s a:app >log 2>&1 & u=$!; for i in $(seq 100); do [ -S s ] && break; sleep 0.1; done; curl -sS --unix-socket s http://x/; kill $u; wait $u || true
S

row git-lfs rust git-lfs <<'S'
echo big >f; git lfs pointer --file=f 2>/dev/null | grep -c oid
S

row meson rust "meson ninja cc" <<'S'
printf 'int main(void) { return 0; }\n' >m.c; printf "project('p', 'c')\ntest('t', executable('m', 'm.c'))\n" >meson.build; meson setup b >/dev/null && meson compile -C b >/dev/null && meson test -C b | grep -o 'Ok: *1'
S

row scons rust "scons cc" <<'S'
printf 'int main(void) { return 0; }\n' >m.c; echo 'Program("m.c")' >SConstruct; scons -Q >/dev/null && ./m && scons -Q | grep -o 'up to date'
S

row autotools rust "autoreconf libtoolize cc make" <<'S'
printf 'AC_INIT([p], [1])\nAM_INIT_AUTOMAKE([foreign])\nAC_PROG_CC\nAC_CONFIG_FILES([Makefile])\nAC_OUTPUT\n' >configure.ac; printf 'bin_PROGRAMS = m\nm_SOURCES = m.c\n' >Makefile.am; printf 'int main(void) { return 0; }\n' >m.c
autoreconf -i >log 2>&1 && ./configure -q >>log 2>&1 && make -s >>log 2>&1 && ./m && make -s distcheck >>log 2>&1 && ls ./*.tar.gz
S

row gfortran rust gfortran <<'S'
printf '      program p\n      print *, 6 * 7\n      end\n' >p.f; gfortran p.f -o p && ./p
S

row clang rust clang <<'S'
printf '#include <stdio.h>\nint main(void) { puts("built"); return 0; }\n' >m.c; clang -fsanitize=undefined m.c -o m 2>/dev/null || clang m.c -o m; ./m
S

row g++ rust g++ <<'S'
printf '#include <thread>\n#include <iostream>\nint main() { try { std::thread t([] { std::cout << "thread\\n"; }); t.join(); throw 7; } catch (int i) { std::cout << i << "\\n"; } }\n' >m.cc; g++ -pthread m.cc -o m && ./m
S

row address-sanitizer rust gcc <<'S'
printf '#include <stdlib.h>\nint main(void) { char *p = malloc(9); free(p); return p[0]; }\n' >m.c; gcc -g -fsanitize=address m.c -o m; ./m 2>&1 | grep -o heap-use-after-free | head -n 1
S

row tcc rust tcc <<'S'
printf 'int puts(const char *); int main(void) { puts("ran at once"); return 0; }\n' >m.c; tcc -run m.c
S

row nasm rust "nasm ld" <<'S'
printf 'global _start\n_start: mov rax, 60\nxor rdi, rdi\nsyscall\n' >m.asm; nasm -felf64 m.asm && ld m.o -o m && ./m && echo assembled
S

row bison-flex rust "bison flex cc" <<'S'
printf '%%%%\n[0-9]+ { return 1; }\n%%%%\nint yywrap(void) { return 1; }\n' >l.l; printf '%%{\nint yylex(void); void yyerror(const char *s) { (void)s; }\n%%}\n%%token N\n%%%%\ns: N { __builtin_puts("parsed"); };\n%%%%\n#include "l.c"\nint main(void) { return yyparse(); }\n' >p.y
flex -o l.c l.l && sed -i 's/return 1; }$/return N; }/' l.c && bison -o p.c p.y && cc -w p.c -o p && echo 7 | ./p
S

row gettext rust msgfmt <<'S'
printf 'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\nmsgid "a"\nmsgstr "b"\n' >a.po; msgfmt -o a.mo a.po && msgunfmt a.mo | grep -c msgid
S

row m4-bc-dc rust "m4 bc dc" <<'S'
echo 'define(x, 7)x' | m4; echo '2^70' | bc; echo '6 7 * p' | dc
S

row ant jvm "ant javac" <<'S'
mkdir src; echo 'public class M { public static void main(String[] a) { System.out.println("ran"); } }' >src/M.java; echo '<project default="r"><target name="r"><javac srcdir="src" destdir="." includeantruntime="false"/><java classname="M" classpath="." fork="true"/></target></project>' >build.xml; ant 2>/dev/null | grep -o '.java. ran'
S

row jar-jshell jvm "java javac jar jshell" <<'S'
echo 'public class M { public static void main(String[] a) { System.out.println("of a jar"); } }' >M.java; javac M.java && jar cfe m.jar M M.class && java -jar m.jar; echo 'System.out.println(6 * 7)' | jshell -s - | head -n 1
S

# Both use a socket or a file in /tmp, whatever TMPDIR says.
row jcmd-jstack jvm "java javac jcmd jstack" <<'S'
echo 'public class M { public static void main(String[] a) throws Exception { System.out.println("up"); Thread.sleep(60000); } }' >M.java; javac M.java; java -cp . M >log & j=$!; for i in $(seq 100); do grep -q up log && break; sleep 0.1; done
jcmd $j VM.version 2>&1 | grep -c OpenJDK | head -n 1; jstack $j | grep -c '"main"'; kill $j; wait $j || true
S

row poetry python poetry <<'S'
poetry init -n --name made >/dev/null && poetry check | tail -n 1; grep -c 'name = "made"' pyproject.toml
S

row black-isort-flake8 python "black isort flake8" <<'S'
printf 'import sys\nimport os\nx = {  "a":1 }\n' >a.py; isort -q a.py; black -q a.py; cat a.py; flake8 a.py | grep -o F401 | sort -u
S

row pylint python pylint <<'S'
printf 'import os\n' >a.py; pylint --disable=all --enable=unused-import a.py | grep -o unused-import | head -n 1
S

row mypy python mypy <<'S'
printf 'def f() -> int:\n    return "x"\n' >a.py; mypy a.py | grep -o 'Incompatible return value'
S

row sphinx python sphinx-build <<'S'
printf 'project = "p"\n' >conf.py; printf 'Title\n=====\n\ntext\n' >index.rst; sphinx-build -q -b html . out && ls out/index.html
S

row mkdocs python mkdocs <<'S'
echo 'site_name: made' >mkdocs.yml; mkdir docs; echo '# Made' >docs/index.md; mkdocs build -q && ls site/index.html
S

row ipython python ipython3 <<'S'
export IPYTHONDIR=$PWD/i; ipython3 --no-banner --colors NoColor -c 'print(6 * 7)'
S

row numpy python /usr/bin/python3 <<'S'
/usr/bin/python3 -c 'import numpy as n; a = n.ones((200, 200)); print(int((a @ a).sum()))'
S

row tox python tox <<'S'
printf '[testenv]\nskip_install = true\nallowlist_externals = echo\ncommands = echo in tox\n' >tox.ini; tox -q 2>/dev/null | grep -o 'in tox' | head -n 1
S

row rake rust rake <<'S'
echo 'task(:default) { puts "raked" }' >Rakefile; rake
S

row bundler rust bundle <<'S'
export BUNDLE_APP_CONFIG=$PWD/b BUNDLE_PATH=$PWD/v; echo 'source "https://rubygems.org"' >Gemfile; bundle install --local --quiet 2>/dev/null; bundle exec ruby -e 'puts "bundled"' 2>/dev/null
S

row composer rust composer <<'S'
export COMPOSER_HOME=$PWD/h; echo '{"name":"a/b","autoload":{"psr-4":{"A\\":"src"}}}' >composer.json; mkdir src; echo '<?php namespace A; class B { static function s() { return 7; } }' >src/B.php
composer dump-autoload -q 2>/dev/null; php -d opcache.enable=0 -d opcache.enable_cli=0 -r 'require "vendor/autoload.php"; echo A\B::s(), "\n";'
S

row perl-prove rust "perl prove" <<'S'
mkdir t; printf 'use Test::More tests => 1; use File::Temp; my $f = File::Temp->new; print $f "x"; ok(-e $f, "a file");\n' >t/a.t; prove -q 2>/dev/null | grep -o 'Result: PASS'
S

row lua rust lua5.4 <<'S'
lua5.4 -e 'local f = io.tmpfile(); f:write("x"); f:seek("set"); print(f:read("a"), 6 * 7); print(io.popen("echo child"):read())'
S

row tcl rust tclsh <<'S'
echo 'set s [socket -server {apply {{c a p} {puts $c served; close $c}}} -myaddr 127.0.0.1 0]; set c [socket 127.0.0.1 [lindex [fconfigure $s -sockname] 2]]; after 200 {set done 1}; vwait done; puts [gets $c]' >a.tcl; tclsh a.tcl
S

row r rust Rscript <<'S'
Rscript -e 'f <- tempfile(); writeLines("x", f); cat(readLines(f), sum(1:10), "\n"); pdf("p.pdf"); plot(1:3); invisible(dev.off())' && head -c 4 p.pdf
S

row ghc rust ghc <<'S'
printf 'main :: IO ()\nmain = print (sum [1..10 :: Int])\n' >M.hs; ghc -v0 M.hs -o m && ./m
S

row ocaml rust "ocaml ocamlc" <<'S'
echo 'let () = print_endline (string_of_int (6 * 7))' >m.ml; ocamlc m.ml -o m && ./m; ocaml m.ml
S

row erlang rust erl <<'S'
erl -noshell -eval '{ok, S} = gen_tcp:listen(0, [{ip, {127,0,0,1}}]), {ok, P} = inet:port(S), {ok, _} = gen_tcp:connect({127,0,0,1}, P, []), io:format("connected~n"), halt().'
S

row elixir rust elixir <<'S'
echo 'parent = self(); spawn(fn -> send(parent, 42) end); receive do n -> IO.puts(n) end' >a.exs; elixir a.exs 2>/dev/null
S

row guile rust guile <<'S'
guile --no-auto-compile -c '(display (* 6 7)) (newline)'; echo '(display "compiled") (newline)' >a.scm; guile a.scm 2>/dev/null
S

row sbcl rust sbcl <<'S'
sbcl --noinform --non-interactive --no-userinit --eval '(print (* 6 7))' --eval '(compile-file "none.lisp" :if-does-not-exist nil)' 2>/dev/null | grep -o 42
S

row swipl rust swipl <<'S'
swipl -g 'X is 6 * 7, print(X), nl' -t halt
S

row racket rust racket <<'S'
printf '#lang racket/base\n(display (* 6 7))\n' >a.rkt; raco make a.rkt 2>/dev/null; racket a.rkt
S

row node-workers node node <<'S'
echo 'const { Worker, isMainThread, parentPort } = require("worker_threads"), fs = require("fs"), os = require("os"), path = require("path");
if (isMainThread) { new Worker(__filename).on("message", m => { console.log(m); const d = fs.mkdtempSync(path.join(os.tmpdir(), "w")); fs.writeFileSync(path.join(d, "f"), "x"); fs.rmSync(d, { recursive: true }); console.log("temporary") }) } else parentPort.postMessage("worker");' >w.js; node w.js
S

row node-http2 node node <<'S'
echo 'const h = require("http2"); const s = h.createServer((q, r) => r.end("served\n")).listen(0, "127.0.0.1", () => { const c = h.connect("http://127.0.0.1:" + s.address().port); const q = c.request(); q.on("data", d => process.stdout.write(d)).on("end", () => { c.close(); s.close() }) });' >h.js; node h.js
S

row mariadb database "mariadbd mariadb mariadb-install-db runuser" <<'S'
chmod 755 .; become=; [ "$(id -u)" = 0 ] && { become='runuser -u nobody --'; mkdir data; chown nobody data; }; mkdir -p data; export TMPDIR=$PWD/data
$become mariadb-install-db --no-defaults --datadir="$PWD/data" --auth-root-authentication-method=normal --skip-test-db >log 2>&1
$become mariadbd --no-defaults --datadir="$PWD/data" --socket="$PWD/data/s" --skip-networking --skip-grant-tables >>log 2>&1 & m=$!; for i in $(seq 300); do [ -S data/s ] && break; sleep 0.1; done
mariadb --no-defaults -S data/s -N -e 'select 6 * 7; create database d; create table d.t (i int) engine=innodb; insert into d.t values (1), (2); select sum(i) from d.t'; kill $m; wait $m || true
S

row memcached database "memcached nc" <<'S'
memcached -u "$(id -un)" -s "$PWD/s" -a 0700 & m=$!; for i in $(seq 100); do [ -S s ] && break; sleep 0.1; done; printf 'set a 0 0 1\r\nx\r\nget a\r\nquit\r\n' | nc -U s | tr -d '\r'; kill $m; wait $m || true
S

row lighttpd rust "lighttpd curl" <<'S'
port=$((20000 + RANDOM % 10000)); mkdir www; echo served >www/index.html; printf 'server.document-root = "%s/www"\nserver.port = %s\nserver.bind = "127.0.0.1"\nindex-file.names = ("index.html")\n' "$PWD" $port >l.conf
lighttpd -D -f l.conf >log 2>&1 & u=$!; curl -sS --retry 40 --retry-connrefused --retry-delay 0 --retry-max-time 60 http://127.0.0.1:$port/; kill $u; wait $u || true
S

row haproxy rust "haproxy curl" <<'S'
port=$((20000 + RANDOM % 10000)); printf 'defaults\n mode http\n timeout client 5s\n timeout connect 5s\n timeout server 5s\nfrontend f\n bind 127.0.0.1:%s\n http-request return status 200 content-type text/plain string served\n' $port >h.cfg
haproxy -f h.cfg >log 2>&1 & u=$!; curl -sS --retry 40 --retry-connrefused --retry-delay 0 --retry-max-time 60 http://127.0.0.1:$port/; kill $u; wait $u || true
S

row caddy rust "caddy curl" <<'S'
port=$((20000 + RANDOM % 10000)); echo served >index.html; caddy file-server --listen 127.0.0.1:$port >log 2>&1 & u=$!; curl -sS --retry 40 --retry-connrefused --retry-delay 0 --retry-max-time 60 http://127.0.0.1:$port/; kill $u; wait $u || true
S

row apache rust "apache2 curl" <<'S'
port=$((20000 + RANDOM % 10000)); mkdir www; echo served >www/index.html; chmod 755 . www; m=/usr/lib/apache2/modules
printf 'ServerRoot "%s"\nServerName x\nPidFile "%s/pid"\nErrorLog "%s/e"\nListen 127.0.0.1:%s\nLoadModule mpm_event_module %s/mod_mpm_event.so\nLoadModule authz_core_module %s/mod_authz_core.so\nLoadModule dir_module %s/mod_dir.so\nDocumentRoot "%s/www"\nUser nobody\nGroup nogroup\nDefaultRuntimeDir "%s"\nMutex fcntl:%s\n' "$PWD" "$PWD" "$PWD" $port $m $m $m "$PWD" "$PWD" "$PWD" >a.conf
apache2 -X -f "$PWD/a.conf" >log 2>&1 & u=$!; curl -sS --retry 40 --retry-connrefused --retry-delay 0 --retry-max-time 60 http://127.0.0.1:$port/; kill $u; wait $u || true
S

row dig rust "dig dnsmasq" <<'S'
port=$((20000 + RANDOM % 10000)); dnsmasq -k -p $port -a 127.0.0.1 -i lo --bind-interfaces -R -h -C /dev/null -u "$(id -un)" -g "$(id -gn)" -x '' --address=/made.test/192.0.2.7 2>log & u=$!
for i in $(seq 40); do dig +short +tries=1 +time=1 -p $port @127.0.0.1 made.test | grep '^1' && break; sleep 0.1; done; dig +tcp +short -p $port @127.0.0.1 made.test; kill $u; wait $u || true
S

row subversion rust "svn svnadmin" <<'S'
export HOME=$PWD/h; mkdir h; svnadmin create r; svn co -q "file://$PWD/r" w; cd w; echo x >f; svn add -q f; svn ci -q -m x; svn up -q; svn log -q | grep -c '^r1'
S

row fossil rust fossil <<'S'
export FOSSIL_HOME=$PWD USER=n; fossil init -A n r.fossil >/dev/null; mkdir w; cd w; fossil open -f ../r.fossil >/dev/null; echo x >f; fossil add f >/dev/null; fossil commit -m made --no-warnings >/dev/null 2>&1; fossil timeline -n 1 | grep -o made | head -n 1
S

row neovim rust nvim <<'S'
echo old >f; nvim -u NONE -i NONE --headless -es -c '%s/old/new/' -c wq f; cat f
S

row emacs rust emacs <<'S'
echo old >f; emacs -Q --batch f --eval '(progn (replace-string "old" "new") (save-buffer) (princ (* 6 7)))' 2>/dev/null; cat f; echo '(defun made () 7)' >a.el; emacs -Q --batch -f batch-byte-compile a.el 2>/dev/null; ls a.elc
S

row ed rust ed <<'S'
echo old >f; printf 's/old/new/\nw\nq\n' | ed -s f; cat f
S

row ltrace rust "ltrace cc" <<'S'
printf '#include <stdlib.h>\nint main(void) { return atoi("0"); }\n' >m.c; cc -O0 -fno-builtin m.c -o m -Wl,-z,lazy -fcf-protection=none; ltrace -o log ./m; grep -c 'exited (status 0)' log
S

# Counts in the kernel, which no policy gives.
row perf rust perf <<'S'
perf stat -e task-clock -x, true 2>&1 | grep -c '^[0-9]'
S

row unshare rust unshare <<'S'
unshare -U true && echo made
S

row bubblewrap rust bwrap <<'S'
bwrap --ro-bind / / echo inside
S

row fakeroot rust "fakeroot dpkg-deb" <<'S'
mkdir -p p/DEBIAN p/usr/share; printf 'Package: made\nVersion: 1\nArchitecture: all\nMaintainer: n <n@example.org>\nDescription: d\n' >p/DEBIAN/control; fakeroot sh -c 'chown -R 0:0 p; dpkg-deb -b p made.deb' >/dev/null && dpkg-deb -I made.deb | grep -o 'Version: 1'
S

row processes rust "ps pgrep pstree top lsof htop" <<'S'
sleep 60 & s=$!; ps -o comm= -p $s; pgrep -P $$ sleep | wc -l; pstree $s; top -bn1 -p $s | grep -c sleep; lsof -p $$ 2>/dev/null | grep -c cwd; kill $s
S

row expect rust expect <<'S'
printf 'spawn -noecho cat\nsend "hello\\r"\nexpect "hello"\nputs got\n' >e.exp; expect -f e.exp | tr -d '\r' | grep -o got
S

row fzf-bat-tree rust "fzf batcat tree" <<'S'
mkdir d; echo one >d/a; seq 3 | fzf -f 2; batcat -p --paging=never d/a; tree --noreport d
S

row xml rust "xmllint xsltproc" <<'S'
echo '<a><b>7</b></a>' >a.xml; xmllint --xpath 'string(//b)' a.xml; echo '<x:stylesheet version="1.0" xmlns:x="http://www.w3.org/1999/XSL/Transform"><x:output method="text"/><x:template match="/"><x:value-of select="//b"/></x:template></x:stylesheet>' >s.xsl; xsltproc s.xsl a.xml
S

row pandoc rust pandoc <<'S'
echo '# Made' >a.md; pandoc a.md -t html; pandoc a.md -o a.docx && ls a.docx
S

row graphviz-gnuplot rust "dot gnuplot" <<'S'
echo 'digraph { a -> b }' | dot -Tsvg | grep -c '<svg'; echo 'set terminal dumb 20 5; set output "p"; plot x' | gnuplot && wc -l <p
S

row imagemagick rust convert <<'S'
convert -size 9x9 xc:red a.png && convert a.png -resize 3x3 b.jpg && identify -format '%wx%h\n' b.jpg
S

row ffmpeg rust ffmpeg <<'S'
ffmpeg -v error -f lavfi -i testsrc=d=1:s=64x64 a.mp4 && ffprobe -v error -show_entries stream=width -of csv=p=0 a.mp4
S

row pdf rust "gs pdftotext" <<'S'
printf '%%!\n/Times-Roman findfont 20 scalefont setfont 50 50 moveto (made) show showpage\n' >a.ps; gs -q -sDEVICE=pdfwrite -o a.pdf a.ps && pdftotext a.pdf - | head -n 1
S

row latex rust pdflatex <<'S'
printf '\\documentclass{article}\\begin{document}made\\end{document}\n' >a.tex; pdflatex -interaction=batchmode a.tex >/dev/null; head -c 4 a.pdf
S

row asciidoctor-doxygen rust "asciidoctor doxygen" <<'S'
printf '= Made\n\ntext\n' >a.adoc; asciidoctor a.adoc && ls a.html; printf '/** \\file */\nint f(void);\n' >a.h; printf 'QUIET=YES\nINPUT=a.h\nGENERATE_LATEX=NO\nWARNINGS=NO\n' >D; doxygen D >/dev/null 2>&1 && ls html/index.html
S

row cppcheck rust cppcheck <<'S'
printf 'int main(void) { int a[2]; a[2] = 0; return 0; }\n' >m.c; cppcheck -q m.c 2>&1 | grep -o arrayIndexOutOfBounds
S

row compressors rust "zstd 7z brotli lz4" <<'S'
seq 1000 >f; zstd -q f && zstd -qd f.zst -o g && cmp f g; 7z a -bso0 -bsp0 a.7z f && 7z t -bso0 -bsp0 a.7z; brotli -k f && brotli -dc f.br | cmp - f; lz4 -q f f.lz4 && lz4 -qdc f.lz4 | cmp - f; echo alike
S

row shells rust "zsh fish dash busybox" <<'S'
for s in zsh fish dash "busybox sh"; do $s -c 'echo a > f; cat f | tr a b'; done; zsh -fc 'cat <(echo substituted)'; bash -c 'cat <<< here'
S

row qemu-user rust "qemu-x86_64 cc" <<'S'
printf '#include <stdio.h>\nint main(void) { puts("emulated"); return 0; }\n' >m.c; cc -static m.c -o m; qemu-x86_64 ./m
S

row ansible python ansible-playbook <<'S'
export ANSIBLE_LOCAL_TEMP=$PWD/l ANSIBLE_REMOTE_TEMP=$PWD/r ANSIBLE_HOME=$PWD/h; printf -- '- hosts: localhost\n  connection: local\n  gather_facts: false\n  tasks:\n    - copy: {content: "x\\n", dest: made}\n' >p.yml; ansible-playbook -i localhost, p.yml >log 2>&1; cat made
S

row age-pass rust "age age-keygen pass gpg" <<'S'
age-keygen -o k 2>/dev/null; echo text | age -e -i k | age -d -i k; export GNUPGHOME=$PWD/g PASSWORD_STORE_DIR=$PWD/p; mkdir -m 700 g; gpg -q --batch --passphrase '' --quick-gen-key t@example.org default default never 2>/dev/null
pass init t@example.org >/dev/null 2>&1; echo secret | pass insert -e a >/dev/null 2>&1; pass a; gpgconf --kill all
S

row text rust "file yq datamash mlr units ts" <<'S'
file -b --mime-type /bin/sh >/dev/null; seq 4 | datamash sum 1; printf 'a,b\n1,2\n' | mlr --icsv --ojson cat; units -t '1 km' m; echo x | ts | wc -l; echo 'a: 7' | yq .a
S

row gawk-perl-sed rust "gawk perl" <<'S'
gawk 'BEGIN { s = "/inet/tcp/0/127.0.0.1/1"; print length(s); system("echo child"); "echo piped" | getline l; print l }'; echo a | perl -pe 's/a/b/'; echo a >f; sed -i s/a/c/ f; perl -i -pe 's/c/d/' f; cat f
S

row git-bisect-hooks rust git <<'S'
export GIT_{AUTHOR,COMMITTER}_{NAME,EMAIL}=n@example.org; for i in 1 2 3 4; do echo $i >f; git add f; git commit -qm $i; done
git bisect start HEAD HEAD~3 >/dev/null 2>&1; git bisect run sh -c 'test $(cat f) -lt 3' 2>/dev/null | grep -c 'first bad'; git bisect reset >/dev/null 2>&1; echo s >f; git stash -q; git stash pop -q; git checkout -q f; git tag t; git describe --tags; git archive HEAD | tar t; git grep -n 4
S

row sqlite-python python /usr/bin/python3 <<'S'
/usr/bin/python3 -c '
import sqlite3, tempfile, mmap, ctypes, subprocess, concurrent.futures as f
c = sqlite3.connect("d.db"); c.execute("pragma journal_mode=wal"); c.execute("create table t(i)"); c.executemany("insert into t values (?)", [(i,) for i in range(9)]); c.commit(); print(c.execute("select sum(i) from t").fetchone())
with tempfile.TemporaryFile() as t: t.write(b"xyz"); t.flush(); print(mmap.mmap(t.fileno(), 0)[:])
with f.ProcessPoolExecutor(2) as p: print(list(p.map(abs, [-1, 2])))
print(subprocess.run(["echo", "child"], capture_output=True).stdout)'
S

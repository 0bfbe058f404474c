# shellcheck shell=bash
# The programs: what each is tried with. Sourced by `run`; what they write is compared.

row git rust git <<'S'
export GIT_{AUTHOR,COMMITTER}_{NAME,EMAIL}=n@example.org
for i in 1 2 3; do echo $i >f$i; git add .; git commit -qm $i; done
git checkout -qb b HEAD~1; echo b >b; git add .; git commit -qm b; git rebase -q main
git worktree add -q tree; git -C tree log --oneline | wc -l; git worktree remove tree; git gc -q; git stash list; git status --short
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

row python-venv python /usr/bin/python3 <<'S'
/usr/bin/python3 -m venv env; env/bin/python -c 'import sys; print(sys.prefix != sys.base_prefix)'
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

row chromium database chromium-headless-shell <<'S'
chromium-headless-shell --no-sandbox --disable-gpu --screenshot="$PWD/shot.png" 'data:text/html,<h1>shown</h1>' >/dev/null 2>&1; head -c 4 shot.png | tail -c 3
S

row tmux rust tmux <<'S'
export TMUX_TMPDIR=$PWD; tmux -f /dev/null new-session -d 'echo in tmux >made; sleep 5'; for i in $(seq 50); do [ -s made ] && break; sleep 0.1; done; cat made; tmux ls | wc -l; tmux kill-server
S

row script rust script <<'S'
script -qec 'echo in a terminal; tty | sed s/[0-9]*$//' typescript | tr -d '\r'
S

row vim rust vim.basic <<'S'
echo old >f; vim.basic -u NONE -es -c '%s/old/new/' -c wq f; cat f
S

row man rust man <<'S'
MANPAGER=cat man -P cat ls 2>/dev/null | head -n 1 | wc -l
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

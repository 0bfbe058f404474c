"use strict";
// The API of the Anthropic Sandbox Runtime: programs as they are written against it, each a process of its own, in a
// directory where npm would have installed the packages.

const test = require("node:test");
const assert = require("node:assert");
const { spawnSync } = require("node:child_process");
const fs = require("node:fs");
const path = require("node:path");
const { World } = require("./world");

const CONFIG = {
  network: { allowedDomains: ["example.com"], deniedDomains: [] },
  filesystem: { denyRead: ["~/.ssh"], allowWrite: ["."], denyWrite: [".env"] },
};

/** Runs the text of a module with the packages beside it, and these files to work on; gives what it printed. */
function ran(world, text, files = {}) {
  world.install();
  for (const [name, content] of Object.entries(files)) world.write(`work/${name}`, content);
  fs.mkdirSync(world.path("home/.ssh"));
  fs.writeFileSync(world.path("home/.ssh/id"), "TOPSECRET");
  fs.writeFileSync(world.path("home/use.mjs"), text.replaceAll("CONFIG", JSON.stringify(CONFIG)));
  const env = world.env({ TMPDIR: world.path("outside"), PATH: process.env.PATH });
  const { status, stdout, stderr } = spawnSync(process.execPath, [world.path("home/use.mjs")], { cwd: world.path("work"), env, encoding: "utf8" });
  assert.strictEqual(status, 0, stderr);
  return { stdout, stderr };
}

/** What programs of that API do to run a command, and to see what became of it. */
const RUN = `
import { SandboxManager, SandboxViolationStore } from "landstrip/sandbox-runtime";
import { spawn, spawnSync } from "node:child_process";
const run = async (command, ...more) => {
  const wrapped = await SandboxManager.wrapWithSandbox(command, ...more);
  const { status, stdout, stderr } = spawnSync(wrapped, { shell: true, encoding: "utf8" });
  return { status, stdout, stderr: SandboxManager.annotateStderrWithSandboxFailures(more[3]?.commandId ?? command, stderr) };
};
`;

function within(body) {
  return () => {
    const world = new World();
    try {
      body(world);
    } finally {
      world.remove();
    }
  };
}

test("the example of its documents runs", within((world) => {
  const { stdout } = ran(world, `
    import { SandboxManager } from "landstrip/sandbox-runtime";
    import { spawn } from "child_process";
    await SandboxManager.initialize(CONFIG);
    const sandboxedCommand = await SandboxManager.wrapWithSandbox("echo \\"it's\\" made > made; cat made; echo x > ../outside/made");
    const child = spawn(sandboxedCommand, { shell: true, stdio: ["inherit", "inherit", "ignore"] });
    child.on("exit", async (code) => {
      console.log(\`Command exited with code \${code}\`);
      await SandboxManager.reset();
    });
  `);
  assert.strictEqual(stdout, "it's made\nCommand exited with code 1\n");
  assert.ok(!fs.existsSync(world.path("outside/made")));
  // Nothing is left of it.
  const holder = world.path(`outside/landstrip-${process.geteuid()}`);
  assert.deepStrictEqual(fs.readdirSync(holder), []);
}));

test("a command is confined as its configuration says, and what it was refused is told", within((world) => {
  const { stdout } = ran(world, `${RUN}
    await SandboxManager.initialize(CONFIG);
    const results = [
      await run("cat ~/.ssh/id"),
      await run("echo x > .env; echo x > 'a b'; cat 'a b'"),
      await run("echo x > ../outside/made", undefined, undefined, undefined, { commandId: "run-1", commandText: "shown" }),
      await run("echo x > ../outside/made", "sh", { filesystem: { allowWrite: ["../outside"] } }),
      await run("echo x > ~/.bashrc; mkdir -p .git/hooks sub/.vscode"),
      await run("exit 7"),
    ];
    const events = SandboxManager.getSandboxViolationStore().getViolationsForCommand("run-1");
    console.log(JSON.stringify({ results, events, total: SandboxManager.getSandboxViolationStore().getTotalCount() }));
  `);
  const { results, events, total } = JSON.parse(stdout);
  const told = (...lines) => `\n<sandbox_violations>\n${lines.map((line) => `deny ${line}\n`).join("")}</sandbox_violations>`;
  const at = (name) => world.path(name);
  assert.ok(results[0].stderr.endsWith(told(`read ${at("home/.ssh/id")}`)), results[0].stderr);
  assert.strictEqual(results[0].stdout, "");
  assert.ok(results[1].stderr.endsWith(told(`write ${at("work/.env")}`)), results[1].stderr);
  assert.strictEqual(results[1].stdout, "x\n");
  assert.ok(results[2].stderr.endsWith(told(`write ${at("outside/made")}`)), results[2].stderr);
  assert.deepStrictEqual(events.map(({ command, line }) => [command, line]), [["shown", `deny write ${at("outside/made")}`]]);
  assert.deepStrictEqual([results[3].status, results[3].stderr, fs.readFileSync(at("outside/made"), "utf8")], [0, "", "x\n"]);
  assert.deepStrictEqual([fs.existsSync(at("home/.bashrc")), fs.existsSync(at("work/sub/.vscode"))], [false, false]);
  assert.deepStrictEqual(results[5], { status: 7, stdout: "", stderr: "" });
  assert.ok(total >= 5, stdout);
}));

test("a path that is marked as literal is no pattern", within((world) => {
  const secrets = [String.raw`keys\b?`, "keys[b]"];
  const named = String.raw`a\b*{c}`;
  const literal = (name) => ({ path: name, literal: true });
  const filesystem = { allowWrite: [literal(`../outside/${named}`)], denyRead: secrets.map(literal), denyWrite: [] };
  const others = ["ab*{c}", String.raw`a\bx{c}`, String.raw`a\b*c`];
  const script = [named, ...others].map((name) => `echo x > '../outside/${name}'`).join("; ");
  const open = ["keysb?", "keysb"];
  const read = [...secrets, ...open].map((name) => `'${name}'`).join(" ");
  const files = Object.fromEntries([...secrets.map((name) => [name, "secret"]), ...open.map((name) => [name, "open"])]);
  const { stdout } = ran(world, `${RUN}
    await SandboxManager.initialize({ ...CONFIG, filesystem: ${JSON.stringify(filesystem)} });
    await run(${JSON.stringify(script)});
    console.log((await run(${JSON.stringify(`cat ${read}`)})).stdout);
  `, files);
  assert.strictEqual(stdout, "openopen\n");
  assert.deepStrictEqual(fs.readdirSync(world.path("outside")).filter((name) => name.startsWith("a")), [named]);
}));

test("violations are heard of when they happen, but those to be ignored", within((world) => {
  const { stdout } = ran(world, `${RUN}
    await SandboxManager.initialize({ ...CONFIG, ignoreViolations: { "*": ["hidden"], "never run": ["shown"] } });
    const heard = new Promise((resolve) => {
      SandboxManager.getSandboxViolationStore().subscribe((violations) => violations.length > 0 && resolve(violations));
    });
    const wrapped = await SandboxManager.wrapWithSandbox("echo x > ../outside/hidden; echo x > ../outside/shown; read line");
    const child = spawn(wrapped, { shell: true, stdio: ["pipe", "ignore", "ignore"] });
    console.log((await heard).map(({ line }) => line.split("/").pop()).join());
    child.stdin.end();
    await new Promise((resolve) => child.on("exit", resolve));
    await SandboxManager.reset();
  `);
  assert.strictEqual(stdout, "shown\n");
}));

test("a configuration that cannot be kept is an error, and what has no effect is told", within((world) => {
  const { stdout, stderr } = ran(world, `${RUN}
    const tried = async (more) => SandboxManager.initialize({ ...CONFIG, ...more }).then(() => "well", (error) => error.message);
    console.log(await run("true").catch((error) => error.message));
    for (const more of [
      { credentials: {} },
      { networks: {} },
      { network: { allowedDomains: ["*"], deniedDomains: [] } },
      { network: { allowedDomains: [], deniedDomains: [], tlsTerminate: {} } },
      { filesystem: { denyRead: [], allowWrite: [] } },
      { filesystem: { denyRead: [], allowWrite: ["."], denyWrite: [], denyreads: [] } },
      { ripgrep: { command: "rg" } },
    ]) console.log(await tried(more));
    console.log(SandboxManager.isSandboxingEnabled(), JSON.stringify(SandboxManager.checkDependencies()));
  `);
  const lines = stdout.split("\n");
  const expected = ["initialize\\(\\) first", "credentials is not built", "networks is not built", ".", "tlsTerminate is not built", "denyWrite is missing", "denyreads is not built", "^well$", '^true {"errors":\\[\\],"warnings":\\[\\]}$'];
  expected.forEach((text, number) => assert.match(lines[number], new RegExp(text), stdout));
  assert.notStrictEqual(lines[3], "well");
  assert.match(stderr, /ripgrep has no effect with landstrip/);
}));

test("what runs outside later is protected wherever a command is made and started", within((world) => {
  for (const name of ["[x]{a,b}*", "other"]) {
    for (const started of ["here", "[x]{a,b}*", "other"]) {
      const directories = ["[x]{a,b}*", "other"].map((one) => world.path(`work/${one}`));
      for (const directory of directories) fs.mkdirSync(`${directory}/.git/hooks`, { recursive: true });
      const { stdout } = ran(world, `${RUN}
        process.chdir(${JSON.stringify(world.path(`work/${name}`))});
        await SandboxManager.initialize({ ...CONFIG, filesystem: { ...CONFIG.filesystem, allowWrite: ["."], denyWrite: [] } });
        const command = "for name in .git/hooks/evil .mcp.json sub/.mcp.json; do mkdir -p sub; echo x > $name; done; echo x > free; ls -a .git/hooks . sub";
        const cwd = ${started === "here" ? "undefined" : JSON.stringify(world.path(`work/${started}`))};
        const { argv, env } = await SandboxManager.wrapWithSandboxArgv(command, undefined, undefined, undefined, cwd);
        console.log(spawnSync(argv[0], argv.slice(1), { env, encoding: "utf8" }).stdout);
        await SandboxManager.reset();
      `);
      assert.ok(!/evil|mcp/.test(stdout), `ESCAPED: ${name}, ${started}: ${stdout}`);
      assert.match(stdout, /^free$/m);
      for (const directory of directories) fs.rmSync(directory, { recursive: true });
      fs.rmSync(world.path("home"), { recursive: true });
      fs.mkdirSync(world.path("home"));
    }
  }
}));

test("hosts can be allowed to one command, and a configuration is changed for later ones", within((world) => {
  const { stdout } = ran(world, `${RUN}
    import { readFileSync } from "node:fs";
    await SandboxManager.initialize(CONFIG);
    const id = "0123456789abcdefghijkl";
    const wrapped = await SandboxManager.wrapWithSandbox("true", undefined, undefined, undefined, { commandId: id });
    const hosts = () => JSON.parse(readFileSync(wrapped.match(/--policy (\\S+)/)[1], "utf8")).network.allowedDomains.join();
    const seen = [hosts()];
    SandboxManager.registerCommandNetworkLists(id, { allowedDomains: ["example.org:443"] });
    seen.push(hosts());
    SandboxManager.unregisterCommandNetworkLists(id);
    seen.push(hosts());
    try { SandboxManager.registerCommandNetworkLists("short", {}); } catch { seen.push("refused"); }
    SandboxManager.updateConfig({ ...SandboxManager.getConfig(), filesystem: { denyRead: [], allowWrite: ["../outside"], denyWrite: [] } });
    console.log(seen.join(" "), (await run("echo x > ../outside/made; echo x > made")).status);
  `);
  assert.strictEqual(stdout, "example.com example.com,example.org:443 example.com refused 1\n");
  assert.deepStrictEqual([fs.existsSync(world.path("outside/made")), fs.existsSync(world.path("work/made"))], [true, false]);
}));

test("many commands leave no descriptor and no more files than are kept", within((world) => {
  const { stdout } = ran(world, `${RUN}
    import { readdirSync } from "node:fs";
    await SandboxManager.initialize(CONFIG);
    await run("true");
    const before = readdirSync("/proc/self/fd").length;
    for (let times = 0; times < 1200; times += 1) await SandboxManager.wrapWithSandbox("true");
    await run("true");
    const [held] = readdirSync(process.env.TMPDIR + "/landstrip-" + process.geteuid());
    const files = readdirSync(process.env.TMPDIR + "/landstrip-" + process.geteuid() + "/" + held).length;
    console.log(readdirSync("/proc/self/fd").length - before, files);
  `);
  assert.strictEqual(stdout, "0 2000\n");
}));

test("no command rewrites the policy of another, whatever TMPDIR it is started with", within((world) => {
  const { stdout } = ran(world, `${RUN}
    await SandboxManager.initialize({ ...CONFIG, filesystem: { ...CONFIG.filesystem, allowWrite: [".", "../outside"] } });
    const next = await SandboxManager.wrapWithSandbox("true");
    const attack = "for policy in ../outside/landstrip-*/reports-*/*.json; do echo {} > $policy && echo rewritten; done; echo x > ../outside/made && echo made";
    const wrapped = await SandboxManager.wrapWithSandbox(attack);
    const env = { ...process.env, TMPDIR: "/tmp" };
    console.log(spawnSync(wrapped, { shell: true, encoding: "utf8", env }).stdout.trim(), spawnSync(next, { shell: true }).status);
  `);
  assert.strictEqual(stdout, "made 0\n");
}));

test("the modules and the launcher are found beside nothing that a command has left", within((world) => {
  const { stdout } = ran(world, `${RUN}
    await SandboxManager.initialize({ ...CONFIG, filesystem: { ...CONFIG.filesystem, allowWrite: [".", "../home"] } });
    const attack = "cd ../home; for file in node_modules/landstrip/lib/ask-bridge.js node_modules/landstrip/bin/new free; do echo evil > $file && echo $file; done; mv node_modules/landstrip gone";
    const { stdout } = await run(attack);
    console.log(stdout.trim());
  `);
  assert.strictEqual(stdout, "free\n");
  const wrapper = world.path("home/node_modules/landstrip/bin/landstrip");
  for (const name of ["uname", "readlink"]) {
    world.write(`work/bin/${name}`, `#!/bin/sh\n: > ${world.path("outside/escaped")}\nexec /bin/${name} "$@"\n`);
    fs.chmodSync(world.path(`work/bin/${name}`), 0o755);
  }
  const env = world.env({ PATH: `${world.path("work/bin")}:${process.env.PATH}` });
  fs.chmodSync(wrapper, 0o755);
  const use = (words) => spawnSync(words[0], words.slice(1), { cwd: world.path("work"), env, encoding: "utf8" });
  assert.strictEqual(use([wrapper, "-p", "{}", "--", "echo", "ran"]).stdout, "ran\n");
  assert.ok(!fs.existsSync(world.path("outside/escaped")), "ESCAPED");
  assert.strictEqual(use(["uname", "-s"]).stdout, "Linux\n");
  assert.ok(fs.existsSync(world.path("outside/escaped")));
}));

test("words start landstrip itself, in the directory that is meant", within((world) => {
  fs.mkdirSync(world.path("work/-P"));
  const { stdout } = ran(world, `${RUN}
    await SandboxManager.initialize(CONFIG);
    const { argv, env } = await SandboxManager.wrapWithSandboxArgv("pwd; exec sleep 1000", undefined, undefined, undefined, "-P");
    const child = spawn(argv[0], argv.slice(1), { env, stdio: ["ignore", "pipe", "inherit"] });
    child.stdout.on("data", (text) => console.log(String(text).trim()) ?? child.kill("SIGKILL"));
    child.on("close", (status, signal) => console.log(signal));
  `);
  assert.strictEqual(stdout, `${world.path("work/-P")}\nSIGKILL\n`);
}));

test("what is said that is not landstrip's ends a channel and nothing else", within((world) => {
  const { stdout } = ran(world, `${RUN}
    import net from "node:net";
    import { createRequire } from "node:module";
    const { HostQuestions } = createRequire(import.meta.url)("./node_modules/landstrip/lib/host-questions.js");
    const questions = new HostQuestions(process.cwd(), () => false);
    await questions.listen();
    for (const said of ["no JSON\\n", "null\\n{\\"granted\\":1}\\nno\\n", "{\\"ask\\":1}\\n", "x".repeat(3 << 20)]) {
      const channel = net.connect("ask").on("error", () => {});
      channel.write(said);
      await new Promise((closed) => channel.on("close", closed).resume());
    }
    questions.close();
    console.log("well");
  `);
  assert.strictEqual(stdout, "well\n");
}));

test("what a killed program left is removed by the next, and what one that runs has is not", within((world) => {
  const { stdout } = ran(world, `${RUN}
    import { readdirSync } from "node:fs";
    const left = () => readdirSync(process.env.TMPDIR + "/landstrip-" + process.geteuid()).join();
    const other = (word) => spawnSync(process.execPath, [process.argv[1], word], { encoding: "utf8" });
    if (process.argv[2] === "killed") {
      await SandboxManager.initialize(CONFIG);
      process.kill(process.pid, "SIGKILL");
    } else if (process.argv[2] === "beside") {
      await SandboxManager.initialize(CONFIG);
      console.log(left().split(",").length);
    } else {
      const { signal } = other("killed");
      const first = left();
      await SandboxManager.initialize(CONFIG);
      const second = left();
      const { stdout } = other("beside");
      console.log(signal, first !== second && !second.includes(","), stdout.trim(), left() === second, (await run("true")).status);
    }
  `);
  assert.strictEqual(stdout, "SIGKILL true 2 true 0\n");
}));

test("the callback is asked about hosts that no rule allows, and what it says holds", within((world) => {
  const { stdout, stderr } = ran(world, `
    import { SandboxManager } from "landstrip/sandbox-runtime";
    import { spawn } from "node:child_process";
    const asked = [];
    await SandboxManager.initialize({ ...CONFIG, network: { allowedDomains: [], deniedDomains: ["never.invalid"] } }, async ({ host, port }) => {
      asked.push(host + " " + port);
      if (host === "fails.invalid") throw new Error("the caller's own");
      return host === "yes.invalid" || { allow: false, reason: "not this one" };
    });
    const run = async (command) => {
      const child = spawn(await SandboxManager.wrapWithSandbox(command), { shell: true });
      const [said, told] = ["stdout", "stderr"].map((name) => child[name].setEncoding("utf8").toArray());
      const ended = new Promise((resolve) => child.once("close", (code, signal) => resolve(code ?? signal)));
      const status = await ended;
      return [status, (await said).join(""), SandboxManager.annotateStderrWithSandboxFailures(command, (await told).join(""))];
    };
    const get = (host) => "curl -s -o said -w '%{http_code} ' http://" + host + ".invalid:81/; ";
    const [status, said, told] = await run(get("no") + get("never") + get("fails") + "echo x > ../outside/made || exit 7");
    console.log(status, said, asked.join(), told.includes("deny connect no.invalid:81 (not this one)"), told.includes("deny write "));
    // Nobody has that name: it was let through to be looked up.
    const [, yes] = await run(get("yes"));
    console.log(yes !== "403 ", asked.length, (await run("kill -TERM $$"))[0]);
    await SandboxManager.reset();
  `);
  assert.strictEqual(stdout, "7 403 403 403  no.invalid 81,fails.invalid 81 true true\ntrue 3 143\n", stderr);
  assert.ok(!fs.existsSync(world.path("outside/made")));
}));

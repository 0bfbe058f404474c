"use strict";
// What is this language's own: options, streams, signals, what callers' functions throw, types.

const test = require("node:test");
const assert = require("node:assert");
const { execFileSync } = require("node:child_process");
const fs = require("node:fs");
const path = require("node:path");
const { run, spawn, wrap, check, program: own } = require("..");
const { World, program } = require("./world");

/** Runs a body with a world and the options of its runs. */
function within(body) {
  return async (context) => {
    const world = new World();
    try {
      await body({ program, cwd: world.path("work"), env: world.env() }, world, context);
    } finally {
      world.remove();
    }
  };
}

test("options that do not exist or are not right are errors, and nothing runs", within(async (options, world) => {
  const touch = ["touch", "made"];
  for (const [wrong, why] of [
    [{ polcy: "agent" }, /unknown option 'polcy'/],
    [{ onDenail: () => {} }, /unknown option 'onDenail'/],
    [{ policy: 7 }, /policy/],
    [{ policy: [["agent"]] }, /policy/],
    [{ policy: "" }, /policy/],
    [{ policy: { limits: { memory: NaN } } }, /'memory'.*NaN/],
    [{ policy: { filesystem: new Map([["denyRead", ["/"]]]) } }, /'filesystem'.*Map/],
    [{ policy: { filesystem: { denyRead: () => ["."] } } }, /'denyRead'/],
    [{ stdio: ["pipe"] }, /stdio/],
    [{ timeout: "1" + "0".repeat(20) }, /timeout/],
    [{ report: "everything" }, /report/],
    [{ encoding: "latin1" }, /encoding/],
    [{ program: "./landstrip" }, /absolute/],
    [{ cwd: world.path("none") }, /ENOENT.*none/],
  ]) {
    await assert.rejects(run(touch, { policy: {}, ...options, ...wrong }), why);
    assert.throws(() => spawn(touch, { policy: {}, ...options, ...wrong }));
  }
  assert.throws(() => wrap(touch, { polcy: "agent" }), /polcy/);
  await assert.rejects(check({ polcy: "agent" }), /polcy/);
  await assert.rejects(run("touch made", options), TypeError);
  assert.ok(!fs.existsSync(world.path("work/made")));
  // The same without what is wrong.
  assert.strictEqual((await run(touch, options)).status, 0);
  assert.ok(fs.existsSync(world.path("work/made")));
}));

test("a policy is not taken from where the command runs", within(async (options, world, context) => {
  fs.writeFileSync(world.path("work/policy.json"), '{"filesystem": {"allowWrite": [".."]}}');
  fs.mkdirSync(world.path("caller"));
  const before = process.cwd();
  context.after(() => process.chdir(before));
  process.chdir(world.path("caller"));
  for (const [text, expected] of [["{}", 2], ['{"filesystem": {"allowWrite": ["."]}}', 0]]) {
    fs.writeFileSync("policy.json", text);
    for (const policy of ["policy.json", "./policy.json"]) {
      const { status, endedBy } = await run(["sh", "-c", "echo x >made"], { ...options, policy, stdio: "pipe" });
      assert.deepStrictEqual([status, endedBy], [expected, "tool"], policy);
    }
  }
  process.chdir(before);
}));

test("what onDenial throws, at once or later, ends the command and rejects", within(async (options) => {
  const fail = () => {
    throw new Error("the caller's own");
  };
  for (const failed of [fail, async () => fail()]) {
    const told = [];
    const onDenial = (denial) => (told.push(denial), failed());
    const failing = run(["sh", "-c", "echo x > made; sleep 600"], { ...options, policy: "read-only", stdio: "pipe", onDenial });
    await assert.rejects(failing, /the caller's own/);
    assert.deepStrictEqual(told, [{ kind: "filesystem", operation: "write", target: path.join(options.cwd, "made"), mechanism: "seccomp" }]);
  }
}));

test("denials are told while the command runs", within(async (options) => {
  const script = "echo x > made; until read line; do :; done";
  const child = spawn(["sh", "-c", script], { ...options, policy: "read-only", onDenial: () => child.stdin.end("go on\n") });
  assert.strictEqual((await child.result).status, 0);
}));

test("streams are read as they come, and bytes are left as they are", within(async (options) => {
  const child = spawn(["sh", "-c", "printf '\\377\\376'; read line; echo $line"], { ...options, policy: {} });
  const [first] = await require("node:events").once(child.stdout, "data");
  assert.deepStrictEqual([...first], [0xff, 0xfe]);
  child.stdin.write("more\n");
  const [second] = await require("node:events").once(child.stdout, "data");
  assert.strictEqual(String(second), "more\n");
  assert.deepStrictEqual([(await child.result).status, child.pid > 0], [0, true]);
  const bytes = await run(["printf", "\\377"], { ...options, policy: {}, stdio: "pipe", encoding: "buffer" });
  assert.deepStrictEqual(bytes.stdout, Buffer.from([0xff]));
  const echoed = await run(["cat"], { ...options, policy: {}, stdio: "pipe", encoding: "buffer", input: Buffer.from([0, 0xff]) });
  assert.deepStrictEqual(echoed.stdout, Buffer.from([0, 0xff]));
}));

test("an aborted run has ended when it is rejected", within(async (options) => {
  const controller = new AbortController();
  const child = spawn(["sh", "-c", "trap '' TERM; echo ready; sleep 600; sleep 600"], { ...options, policy: {}, signal: controller.signal });
  await require("node:events").once(child.stdout, "data");
  controller.abort();
  await assert.rejects(child.result, { name: "AbortError" });
  assert.throws(() => process.kill(child.pid, 0), { code: "ESRCH" });
  await assert.rejects(run(["true"], { ...options, signal: controller.signal }), { name: "AbortError" });
}));

test("a signal reaches the command", within(async (options) => {
  const child = spawn(["sh", "-c", "trap 'exit 9' USR1; echo ready; while :; do sleep 0.01; done"], { ...options, policy: {} });
  await require("node:events").once(child.stdout, "data");
  child.kill("SIGUSR1");
  const { status, endedBy } = await child.result;
  assert.deepStrictEqual({ status, endedBy }, { status: 9, endedBy: "tool" });
}));

test("of a killed landstrip the status is its own", within(async (options) => {
  const child = spawn(["sleep", "600"], { ...options, policy: {} });
  child.kill("SIGKILL");
  const { status, endedBy } = await child.result;
  assert.deepStrictEqual({ status, endedBy }, { status: 137, endedBy: "landstrip" });
}));

test("whose status it is comes through though this process is slow to hear", within(async (options) => {
  const script = "name=made$(printf %0200d); for i in $(seq 1000); do echo > $name$i; done 2>/dev/null; exit 5";
  const heard = [];
  const child = spawn(["sh", "-c", script], {
    ...options,
    policy: "read-only",
    onDenial(denial) {
      if (heard.length < 300) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 20);
      heard.push(denial);
    },
  });
  const { status, endedBy, denials } = await child.result;
  assert.deepStrictEqual({ status, endedBy, heard }, { status: 5, endedBy: "tool", heard: denials });
}));

test("runs leave no descriptor, process, file or memory behind", within(async (options, world) => {
  const once = () => run(["touch", "made"], { ...options, policy: { filesystem: { allowWrite: ["."] } }, stdio: "pipe", input: "x" });
  const held = () => fs.readdirSync("/proc/self/fd").length;
  require("node:v8").setFlagsFromString("--expose-gc");
  const collect = require("node:vm").runInNewContext("gc");
  const used = () => {
    collect();
    const { heapUsed, external } = process.memoryUsage();
    return heapUsed + external;
  };
  await once();
  const [before, usedBefore] = [held(), used()];
  for (let times = Number(process.env.LANDSTRIP_REPETITIONS ?? 20); times > 0; times -= 1) await once();
  assert.ok(held() <= before, `${held()} descriptors, ${before} before`);
  // What is not the runs' own.
  assert.ok(used() - usedBefore < 16 << 20, `${used()} bytes, ${usedBefore} before`);
  assert.deepStrictEqual(["work", "home", "outside"].map((name) => fs.readdirSync(world.path(name))), [["made"], [], []]);
  assert.strictEqual(fs.readFileSync(`/proc/self/task/${process.pid}/children`, "utf8"), "");
}));

test("wrapped words are run by any program", within(async (options, world) => {
  const [launcher, ...words] = wrap(["sh", "-c", "echo x > made; echo x > ../outside/made || exit 3"], { program, policy: { filesystem: { allowWrite: ["."] } } });
  assert.throws(() => execFileSync(launcher, words, { cwd: options.cwd, env: options.env, stdio: "ignore" }), { status: 3 });
  assert.deepStrictEqual([fs.existsSync(world.path("work/made")), fs.existsSync(world.path("outside/made"))], [true, false]);
}));

test("without the package for this architecture the error names it", () => {
  assert.throws(own, /@landstrip\/linux-/);
});

test("the launcher is where the package is, wherever its package.json leads", within(async (options, world) => {
  const [modules, installed] = ["work/node_modules", `work/node_modules/@landstrip/linux-${process.arch}`].map((name) => world.path(name));
  for (const place of [installed, world.path("work/evil")]) {
    fs.mkdirSync(path.join(place, "bin"), { recursive: true });
    fs.writeFileSync(path.join(place, "bin/landstrip"), "", { mode: 0o755 });
    fs.writeFileSync(path.join(place, "package.json"), "{}");
  }
  fs.cpSync(path.join(__dirname, ".."), path.join(modules, "landstrip"), { recursive: true });
  const found = () => execFileSync(process.execPath, ["-p", 'require("landstrip").program()'], { ...options, encoding: "utf8" }).trim();
  assert.strictEqual(found(), path.join(installed, "bin/landstrip"));
  fs.rmSync(path.join(installed, "package.json"));
  fs.symlinkSync(world.path("work/evil/package.json"), path.join(installed, "package.json"));
  assert.strictEqual(found(), path.join(installed, "bin/landstrip"));
}));

test("tsc refuses what is misspelt", within(async (options, world, context) => {
  const compiler = process.env.LANDSTRIP_TSC;
  if (!compiler) return context.skip("LANDSTRIP_TSC names no tsc");
  const compiled = (text) => {
    const use = world.path("work/use.ts");
    fs.writeFileSync(use, `import { run } from "${path.join(__dirname, "..")}";\nimport { SandboxManager, type SandboxRuntimeConfig } from "${path.join(__dirname, "../sandbox-runtime")}";\n${text}\n`);
    const words = ["--noEmit", "--strict", "--skipLibCheck", "--module", "nodenext", "--moduleResolution", "nodenext", "--types", "node", use];
    try {
      return execFileSync(compiler, [...words, "--typeRoots", process.env.LANDSTRIP_TYPES], { cwd: options.cwd, stdio: "pipe" }) && "";
    } catch (error) {
      return error.stdout ? String(error.stdout) : error.message;
    }
  };
  assert.strictEqual(compiled('run(["true"], { policy: { filesystem: { allowWrite: ["."] } }, stdio: "pipe" }).then((r) => r.stdout.length);'), "");
  const config = "{ network: { allowedDomains: [], deniedDomains: [] }, filesystem: { denyRead: [], allowWrite: [], denyWrite: [] } }";
  assert.strictEqual(compiled(`const config: SandboxRuntimeConfig = ${config};\nSandboxManager.initialize(config, async ({ host }) => host === "x");`), "");
  for (const [text, named] of [
    ['run(["true"], { policy: { filesystem: { alowWrite: ["."] } } });', "alowWrite"],
    ['run(["true"], { policy: { network: { allowNetwrk: true } } });', "allowNetwrk"],
    ['run(["true"], { policy: { filesystm: {} } });', "filesystm"],
    ['run(["true"], { polcy: "agent" });', "polcy"],
    ['run("true");', "string"],
    ["SandboxManager.initialize({ network: { allowedDomains: [], deniedDomains: [] } });", "filesystem"],
    ["SandboxManager.initialise();", "initialise"],
  ]) {
    const said = compiled(text);
    assert.ok(said.includes(named), `${text}: ${said}`);
  }
}));

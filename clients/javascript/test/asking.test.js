"use strict";
// Questions: the caller's function is asked while the call of the command waits, and rules are added to a run.

const test = require("node:test");
const assert = require("node:assert");
const fs = require("node:fs");
const { once } = require("node:events");
const { run, spawn } = require("..");
const { World, program } = require("./world");

/** Runs a body with a world whose home has a cache, and the options of its runs. */
function within(body) {
  return async () => {
    const world = new World();
    try {
      fs.mkdirSync(world.path("home/.npm"));
      const policy = { filesystem: { allowWrite: ["."], denyWrite: [world.path("home/.npm/denied")] } };
      await body({ program, policy, cwd: world.path("work"), env: world.env(), stdio: "pipe" }, world);
    } finally {
      world.remove();
    }
  };
}

const RULE = { key: "filesystem.allowWrite", value: "~/.npm" };

test("what is answered once is done once", within(async (options, world) => {
  const asked = [];
  const onAsk = async (question) => {
    asked.push(question);
    return asked.length === 1 ? "once" : "deny";
  };
  const command = ["sh", "-c", "echo one > ~/.npm/a; echo two > ~/.npm/b"];
  const result = await run(command, { ...options, onAsk });
  assert.deepStrictEqual(asked.map(({ denial }) => denial.target), [world.path("home/.npm/a"), world.path("home/.npm/b")]);
  const [{ advice, program, pid, arguments: words, directory }] = asked;
  assert.deepStrictEqual({ advice, words, directory }, { advice: RULE, words: command, directory: options.cwd });
  assert.ok(pid > 0 && program !== "");
  assert.deepStrictEqual(fs.readdirSync(world.path("home/.npm")).sort(), ["a"]);
  assert.deepStrictEqual(result.denials.map(({ target }) => target), [world.path("home/.npm/b")]);
}));

test("a rule for the run covers what follows, and what a rule denies is not asked", within(async (options, world) => {
  let count = 0;
  const onAsk = () => ({ answer: "run", rule: (count++, RULE) });
  await run(["sh", "-c", "echo one > ~/.npm/a; echo two > ~/.npm/b; echo bad > ~/.npm/denied"], { ...options, onAsk });
  assert.deepStrictEqual([count, fs.readdirSync(world.path("home/.npm")).sort()], [1, ["a", "b"]]);
}));

test("a rule is granted unasked, and one that a rule denies is not", within(async (options, world) => {
  const onAsk = () => assert.fail("nobody is to be asked");
  const child = spawn(["sh", "-c", "mkdir ~/.npm/x 2>/dev/null; echo ready; read line; echo x > ~/.npm/a"], { ...options, onAsk: () => "deny" });
  await once(child.stdout, "data");
  assert.throws(() => child.grant("filesystem.allowWrite"), TypeError);
  const refused = await child.grant("filesystem.allowWrite", "~/.npm/denied");
  assert.ok(!refused.granted && refused.why.includes("denies"), JSON.stringify(refused));
  assert.ok(!(await child.grant("network.allowNetwork", "true")).granted);
  assert.ok((await child.grant(RULE.key, RULE.value)).granted);
  child.stdin.end("go on\n");
  assert.strictEqual((await child.result).status, 0);
  assert.deepStrictEqual(fs.readdirSync(world.path("home/.npm")).sort(), ["a"]);
  assert.ok(!(await child.grant(RULE.key, RULE.value)).granted, "the run has ended");
  const granted = spawn(["sh", "-c", "read line; echo x > ~/.npm/b"], { ...options, onAsk });
  const [{ granted: isGranted }] = await Promise.all([granted.grant(RULE.key, RULE.value).finally(() => granted.stdin.end("go on\n")), granted.result]);
  assert.ok(isGranted && fs.existsSync(world.path("home/.npm/b")));
}));

test("what onAsk throws, and what is no answer, ends the command and rejects", within(async (options, world) => {
  const command = ["sh", "-c", "echo x > ~/.npm/a; sleep 600"];
  const wrong = [() => { throw new Error("the caller's own"); }, () => "yes", () => ({ answer: "run", rule: ["~/.npm"] }), () => undefined];
  for (const onAsk of wrong) {
    await assert.rejects(run(command, { ...options, onAsk }), /the caller's own|an answer is|a rule has/);
  }
  await assert.rejects(run(command, { ...options, onAsk: "deny" }), /onAsk/);
  assert.deepStrictEqual(fs.readdirSync(world.path("home/.npm")).sort(), []);
}));

test("a question is aborted when the run ends", within(async (options, world) => {
  let hear;
  const aborted = new Promise((resolve) => (hear = resolve));
  const child = spawn(["sh", "-c", "echo x > ~/.npm/a"], {
    ...options,
    onAsk: async ({ signal }) => {
      child.kill("SIGTERM");
      await once(signal, "abort");
      hear(signal.reason);
      throw new Error("nobody hears of this");
    },
  });
  assert.strictEqual((await child.result).status, 128 + 15);
  assert.ok(["gone", "closed"].includes(await aborted));
  assert.ok(!fs.existsSync(world.path("home/.npm/a")));
}));

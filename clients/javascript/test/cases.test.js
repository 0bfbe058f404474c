"use strict";
// The table of cases that every client passes: ../../cases.json says what its fields mean.

const test = require("node:test");
const assert = require("node:assert");
const fs = require("node:fs");
const path = require("node:path");
const { run, spawn, wrap, check, explain, denials, learn } = require("..");
const { World, program } = require("./world");

const { cases } = JSON.parse(fs.readFileSync(path.join(__dirname, "../../cases.json"), "utf8"));

/** The fields of a case that are options, as they are called here. */
const OPTIONS = ["policy", "report", "input", "timeout", "program", "cwd"];

const sorted = (all) => all.map((one) => JSON.stringify(one)).sort();

/** What became of a case, in the table's form. */
function shown(result) {
  const rules = (all) => sorted(all.map(({ key, value }) => [key, value]));
  return {
    ...result,
    error: result.error && result.error.source,
    message: result.error && result.error.message,
    denials: sorted(result.denials ?? []).map((text) => {
      const { kind, operation, target } = JSON.parse(text);
      return JSON.stringify([kind, operation, target]);
    }),
    advice: rules(result.advice ?? []),
    deniedBy: rules(result.deniedBy ?? []),
  };
}

function compare(result, expected) {
  const found = shown(result);
  for (const [name, value] of Object.entries(expected)) {
    if ((name === "message" || name === "text") && value !== null) assert.ok(found[name].includes(value), `${name}: ${found[name]}`);
    else assert.deepStrictEqual(found[name], Array.isArray(value) ? sorted(value) : value, JSON.stringify(result));
  }
}

/** Answers as the case says, and compares what was asked. */
async function asked(given, options, perform) {
  const [answers, found] = [[...given.answers], []];
  const onAsk = ({ denial: { kind, operation, target }, advice, lasts }) => {
    found.push([kind, operation, target, advice.key, advice.value, lasts]);
    const { answer, rule } = answers[0]?.answer ? answers[0] : { answer: answers[0] };
    answers.shift();
    return rule ? { answer, rule: { key: rule[0], value: rule[1] } } : answer;
  };
  await perform({ ...options, onAsk });
  assert.deepStrictEqual(found, given.asked);
}

async function granted(given, { input, ...options }) {
  const child = spawn(given.command, options);
  for (const [key, value, expected] of given.grants) {
    const became = await child.grant(key, value);
    assert.strictEqual(became.granted, expected, became.why);
  }
  child.stdin.end(input);
  child.stdout.resume();
  child.stderr.resume();
  return child.result;
}

async function perform(given, world) {
  const options = { program, cwd: world.path("work"), env: world.env(given.env), stdio: "pipe" };
  for (const name of OPTIONS) if (given[name] !== undefined) options[name] = given[name];
  if (given.raw) options.policy = given.raw;
  if (given.misuse) return assert.rejects(run(given.command, given.answers ? { ...options, onAsk: () => given.answers[0] } : options));
  if (given.check || given.explain) {
    const { policy, raw, questions } = given.check ?? given.explain;
    const asked = { program, cwd: options.cwd, env: options.env, policy: policy ?? raw };
    if (given.check) return compare(await check(asked), given.expect);
    const { answers } = await explain(questions, asked);
    return assert.strictEqual(answers[0].answers.every(({ allowed }) => allowed), given.expect.allowed);
  }
  if (given.wrap) return assert.deepStrictEqual(wrap(given.command, { ...given.wrap, program }), [program, ...given.expect.words]);
  if (given.learn) return compare(await learn(given.command, given.learn, options), given.expect);
  if (given.kept) {
    compare(await run(given.command, options), given.expect);
    const kept = await denials({ program, env: options.env, since: given.since });
    const found = kept.map(({ program: name, denial: { kind, operation, target } }) => [name, kind, operation, target]);
    return assert.deepStrictEqual(found, given.kept);
  }
  const runs = given.grants ? granted : ({ command }, more) => run(command, more);
  if (!given.answers) return compare(await runs(given, options), given.expect);
  return asked(given, options, async (more) => compare(await runs(given, more), given.expect));
}

for (const one of cases) {
  test(one.name, async () => {
    const world = new World();
    try {
      const given = world.placed(one);
      for (const [name, text] of Object.entries(given.files ?? {})) world.write(name, text);
      await perform(given, world);
      for (const [name, text] of Object.entries(given.made ?? {})) {
        assert.strictEqual(fs.readFileSync(world.path(name), "utf8"), text);
      }
      for (const name of given.missing ?? []) assert.ok(!fs.existsSync(world.path(name)), name);
    } finally {
      world.remove();
    }
  });
}

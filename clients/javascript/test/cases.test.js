"use strict";
// The table of cases that every client passes: ../../cases.json says what its fields mean.

const test = require("node:test");
const assert = require("node:assert");
const fs = require("node:fs");
const path = require("node:path");
const { run, wrap, check, explain, learn } = require("..");
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
    if (name === "message" || name === "text") assert.ok(found[name].includes(value), `${name}: ${found[name]}`);
    else assert.deepStrictEqual(found[name], Array.isArray(value) ? sorted(value) : value, JSON.stringify(result));
  }
}

async function perform(given, world) {
  const options = { program, cwd: world.path("work"), env: world.env(given.env), stdio: "pipe" };
  for (const name of OPTIONS) if (given[name] !== undefined) options[name] = given[name];
  if (given.raw) options.policy = given.raw;
  if (given.misuse) return assert.rejects(run(given.command, options));
  if (given.check || given.explain) {
    const { policy, raw, questions } = given.check ?? given.explain;
    const asked = { program, cwd: options.cwd, env: options.env, policy: policy ?? raw };
    if (given.check) return compare(await check(asked), given.expect);
    const { answers } = await explain(questions, asked);
    return assert.strictEqual(answers[0].answers.every(({ allowed }) => allowed), given.expect.allowed);
  }
  if (given.wrap) return assert.deepStrictEqual(wrap(given.command, { ...given.wrap, program }), [program, ...given.expect.words]);
  if (given.learn) return compare(await learn(given.command, given.learn, options), given.expect);
  return compare(await run(given.command, options), given.expect);
}

for (const one of cases) {
  test(one.name, async () => {
    const world = new World();
    try {
      const given = world.placed(one);
      for (const [name, text] of Object.entries(given.files ?? {})) fs.writeFileSync(world.path(name), text);
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

"use strict";
// Runs commands under landstrip. It starts the launcher of the package for this architecture. Policies that are objects
// are handed over by a descriptor each: a file would have a name by which another sandbox could rewrite it.

const { spawn } = require("node:child_process");
const os = require("node:os");
const path = require("node:path");

/** The descriptor that denials are written to, which the command does not get. */
const TRAP = 3;

function program() {
  const name = `@landstrip/linux-${process.arch}`;
  try {
    return path.join(path.dirname(require.resolve(`${name}/package.json`)), "bin", "landstrip");
  } catch (cause) {
    throw new Error(`the package ${name} is not installed; it is an optional dependency`, { cause });
  }
}

function run(command, options = {}) {
  const { policy = [], cwd, env, stdio = "inherit", input, signal, onDenial } = options;
  if (!Array.isArray(command) || command.length === 0) {
    return Promise.reject(new TypeError("a command is an array of words, the first of them its program"));
  }
  const collected = stdio === "pipe";
  const words = ["--trap-fd", String(TRAP)];
  const objects = [];
  return new Promise((resolve, reject) => {
    for (const one of Array.isArray(policy) ? policy : [policy]) {
      const isNamed = typeof one === "string";
      words.push("--policy", isNamed ? one : `/dev/fd/${TRAP + objects.push(JSON.stringify(one))}`);
    }
    const standard = collected ? [input === undefined ? "ignore" : "pipe", "pipe", "pipe"] : Array(3).fill(stdio);
    if (input !== undefined) standard[0] = "pipe";
    const own = Array(1 + objects.length).fill("pipe");
    const child = spawn(program(), [...words, "--", ...command], { cwd, env, signal, stdio: [...standard, ...own] });
    objects.forEach((text, number) => {
      // landstrip says itself why it does not read it all.
      child.stdio[TRAP + 1 + number].on("error", () => {}).end(text);
    });
    const denials = [];
    const result = { status: 125, endedBy: "landstrip", denials, advice: [], deniedBy: [] };
    const hear = (report) => {
      if (report.Exit) result.endedBy = report.Exit[0];
      else if (report.Advice) result.advice.push(report.Advice);
      else if (report.DeniedBy) result.deniedBy.push(report.DeniedBy);
      else {
        denials.push(report);
        onDenial?.(report);
      }
    };
    let rest = "";
    child.stdio[TRAP].setEncoding("utf8").on("data", (text) => {
      const lines = (rest + text).split("\n");
      rest = lines.pop();
      lines.forEach((line) => hear(JSON.parse(line)));
    });
    if (collected) {
      for (const name of ["stdout", "stderr"]) {
        result[name] = "";
        child[name].setEncoding("utf8").on("data", (text) => (result[name] += text));
      }
    }
    if (input !== undefined) {
      // A command that does not read it all is no failure.
      child.stdin.on("error", () => {});
      child.stdin.end(input);
    }
    child.on("error", reject);
    child.on("close", (code, killed) => {
      result.status = code ?? 128 + os.constants.signals[killed];
      resolve(result);
    });
  });
}

module.exports = { run, program };

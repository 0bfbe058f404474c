"use strict";
// What landstrip says of a policy without running anything, and what a command would need.

const process = require("node:child_process");
const fs = require("node:fs");
const path = require("node:path");
const { OF_POLICY, OF_PROCESS, checked, launch, checkDirectory } = require("./invocation");
const { failure, shown } = require("./reports");
const { run } = require("./run");

/** The first descriptor of a policy. */
const FIRST = 3;

/** Runs landstrip itself; gives what it said, or why it did not. */
function asked(options, words, known = OF_POLICY) {
  const { cwd, env, ...given } = checked(options, [...known, ...OF_PROCESS]);
  checkDirectory(cwd);
  const { launcher, words: policies, texts } = launch(given, FIRST);
  return new Promise((resolve, reject) => {
    const stdio = ["ignore", "pipe", "pipe", ...texts.map(() => "pipe")];
    const child = process.spawn(launcher, [...policies, ...words], { cwd, env, stdio });
    child.on("error", reject);
    if (child.pid === undefined) return;
    const said = { stdout: "", stderr: "" };
    for (const name of ["stdout", "stderr"]) {
      child[name].setEncoding("utf8").on("data", (text) => (said[name] += text));
    }
    texts.forEach((text, number) => child.stdio[FIRST + number].on("error", () => {}).end(text));
    child.on("close", (status) => {
      const report = said.stderr.split("\n").find((line) => line.startsWith("{"));
      const error = status === 0 ? null : (report && failure(JSON.parse(report))) || { message: said.stderr.trim() };
      resolve({ text: said.stdout, error });
    });
  });
}

/** The lines of what landstrip said, but the last, by which it says that all is well. */
const remarks = (text) => text.split("\n").slice(0, -2);

async function check(options = {}) {
  const { text, error } = await asked(options, ["--check"]);
  return { ok: error === null, error, remarks: error ? [] : remarks(text) };
}

async function explain(questions = [], options = {}) {
  const { text, error } = await asked(options, ["--explain=json", "--", ...questions]);
  if (error) throw Object.assign(new Error(error.message), { error });
  return JSON.parse(text);
}

async function denials(options = {}) {
  const { since, ...others } = checked(options, ["program", "since", ...OF_PROCESS]);
  const { text, error } = await asked(others, ["--denials=json", ...(since === undefined ? [] : [since])], ["program"]);
  if (error) throw Object.assign(new Error(error.message), { error });
  return text.split("\n").slice(0, -1).map((line) => {
    const { time, program, directory, report, advice } = JSON.parse(line);
    const rules = advice.map(([key, value]) => ({ key, value }));
    return { time: new Date(time * 1000), program, directory, denial: shown(report), advice: rules };
  });
}

async function learn(command, file, options = {}) {
  const result = await run(command, options, ["--learn", file]);
  const written = path.resolve(String(options.cwd ?? "."), file);
  // Otherwise nothing was written, and what is there was there before.
  const isWritten = !result.error && result.endedBy === "tool";
  const text = isWritten ? fs.readFileSync(written, "utf8") : null;
  return { ...result, file: written, text };
}

module.exports = { check, explain, denials, learn };

"use strict";
// Options, and the words and descriptors that they become. A misspelt option is an error before anything runs; a
// misspelt key of a policy is one of landstrip's, which knows the keys.

const fs = require("node:fs");
const path = require("node:path");
const { found } = require("./program");

const REPORTS = ["all", "changes", "network", "none"];

const isText = (value) => typeof value === "string" && !value.includes("\0");

/** What there is of options, and what each has to be. */
const OPTIONS = {
  policy: ["a preset, the path of a file, an object, or an array of these", isPolicies],
  program: ["a path", isText],
  report: [`one of ${REPORTS.join(", ")}`, (value) => REPORTS.includes(value)],
  cwd: ["a path", (value) => isText(value) || value instanceof URL],
  env: ["an object", (value) => value !== null && typeof value === "object"],
  trapFd: ["a descriptor of 3 or higher", (value) => Number.isInteger(value) && value > 2],
  stdio: ["a word, or an array of three", (value) => typeof value === "string" || (Array.isArray(value) && value.length === 3)],
  input: ["a string or bytes", (value) => typeof value === "string" || ArrayBuffer.isView(value)],
  encoding: ["utf8 or buffer", (value) => value === "utf8" || value === "buffer"],
  signal: ["an AbortSignal", (value) => value instanceof AbortSignal],
  timeout: ["a number of milliseconds", (value) => value >= 0 && value <= 0x7fffffff],
  onDenial: ["a function", (value) => typeof value === "function"],
  onAsk: ["a function", (value) => typeof value === "function"],
  since: ["a number of days as 7d, or a day as 2026-11-01", isText],
};

const OF_POLICY = ["policy", "program", "report"];
const OF_PROCESS = ["cwd", "env"];
const OF_RUN = ["stdio", "input", "encoding", "signal", "timeout", "onDenial", "onAsk"];

function isPolicies(value) {
  const isOne = (one) => (isText(one) && one !== "") || (one !== null && typeof one === "object" && !Array.isArray(one));
  return Array.isArray(value) ? value.every(isOne) : isOne(value);
}

/** The options that are given, if all of them are `known` and are what they have to be. */
function checked(options, known) {
  if (options === null || typeof options !== "object" || Array.isArray(options)) {
    throw new TypeError("options are an object");
  }
  const given = Object.entries(options).filter(([, value]) => value !== undefined);
  for (const [name, value] of given) {
    if (!known.includes(name)) throw new TypeError(`unknown option '${name}', known are ${known.join(", ")}`);
    const [expected, isRight] = OPTIONS[name];
    if (!isRight(value)) throw new TypeError(`option '${name}' is not ${expected}`);
  }
  return Object.fromEntries(given);
}

/** The words of a command. */
function words(command) {
  if (!Array.isArray(command) || command.length === 0 || !command.every(isText)) {
    throw new TypeError("a command is an array of words, the first of them its program");
  }
  return command;
}

const listed = ({ policy = [] }) => (Array.isArray(policy) ? policy : [policy]);
const reported = ({ report }) => (report === undefined ? [] : ["--report", report]);

/** A policy as JSON, which leaves out what it has no form for, or makes it null: then less would be enforced than is written. */
function json(policy) {
  return JSON.stringify(policy, (key, value) => {
    const isOther = ["function", "symbol"].includes(typeof value) || value instanceof Map || value instanceof Set;
    if (isOther || (typeof value === "number" && !Number.isFinite(value))) {
      throw new TypeError(`policy: the value of '${key}' has no form in JSON: ${String(value)}`);
    }
    return value;
  });
}

/**
 * A preset, data, or a path, from the working directory of this process: from that of the command, which may be a work tree
 * that others made, a policy is not taken.
 */
function named(text) {
  const isPath = /[./]/.test(text) && !text.startsWith("{");
  return isPath && !path.isAbsolute(text) ? `${process.cwd()}/${text}` : text;
}

/**
 * The launcher and its options, and the texts of those policies that are objects, each to be read from a descriptor,
 * of which the first is `descriptor`: a file would have a name by which another sandbox could rewrite it.
 */
function launch(options, descriptor) {
  const texts = [];
  const policies = listed(options).flatMap((one) => {
    return ["--policy", isText(one) ? named(one) : `/dev/fd/${descriptor + texts.push(json(one)) - 1}`];
  });
  return { launcher: found(options.program), words: [...reported(options), ...policies], texts };
}

function wrap(command, options = {}) {
  const given = checked(options, [...OF_POLICY, "trapFd"]);
  const policies = listed(given).flatMap((one) => ["--policy", isText(one) ? one : json(one)]);
  const trap = given.trapFd === undefined ? [] : ["--trap-fd", String(given.trapFd)];
  return [found(given.program), ...trap, ...reported(given), ...policies, "--", ...words(command)];
}

/** What is wrong with a working directory, which Node.js would say of the launcher. */
function checkDirectory(cwd) {
  if (cwd === undefined) return;
  if (!fs.statSync(cwd).isDirectory()) {
    throw Object.assign(new Error(`ENOTDIR: not a directory, cwd '${cwd}'`), { code: "ENOTDIR", path: String(cwd) });
  }
}

module.exports = { OF_POLICY, OF_PROCESS, OF_RUN, checked, words, launch, wrap, checkDirectory };

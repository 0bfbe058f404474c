"use strict";
// Answers what landstrip asks by --ask, and has rules added to a run.

const { lines, shown } = require("./reports");

const ANSWERS = ["once", "run", "deny"];
const ENDED = { granted: false, why: "the run has ended" };

const isRule = (rule) => rule !== null && typeof rule === "object" && [rule.key, rule.value].every((text) => typeof text === "string");

/** The answer to a question, from what the caller's function gave. */
function answered(number, given) {
  const { answer, rule } = typeof given === "string" ? { answer: given } : (given ?? {});
  if (!ANSWERS.includes(answer)) throw new TypeError(`an answer is one of ${ANSWERS.join(", ")}`);
  if (rule !== undefined && !isRule(rule)) throw new TypeError("a rule has a key and a value");
  return { ask: number, answer, ...(rule && { rule: [rule.key, rule.value] }) };
}

function question(told, signal) {
  const { report, advice, program = "", pid = 0, arguments: words = [], directory = "", lasts = true } = told;
  const rule = advice ? { key: advice[0], value: advice[1] } : null;
  return { denial: shown(report), advice: rule, program, pid, arguments: words, directory, lasts, signal };
}

/** Attends to a channel; returns the function that asks for a rule to be added. */
function attend(channel, onAsk, fail) {
  const open = new Map();
  const grants = [];
  const send = (message) => channel.writable && channel.write(`${JSON.stringify(message)}\n`);
  const ask = async (told) => {
    const controller = new AbortController();
    open.set(told.ask, controller);
    try {
      const answer = answered(told.ask, await onAsk(question(told, controller.signal)));
      if (open.delete(told.ask)) send(answer);
    } catch (error) {
      // One that gives up because nobody waits any more has not failed.
      if (open.delete(told.ask)) fail(error);
    }
  };
  const settle = (number, by) => {
    const controller = open.get(number);
    open.delete(number);
    controller?.abort(by);
  };
  lines(channel, (told) => {
    if (told.ask !== undefined) return ask(told);
    if (told.settled !== undefined) return settle(told.settled, told.by);
    // Rules of answers are told of as well.
    const [key, value, why = null] = [told.granted, told.refused].find(Array.isArray) ?? [];
    const at = grants.findIndex((grant) => grant.key === key && grant.value === value);
    if (at >= 0) grants.splice(at, 1)[0].settle({ granted: told.granted !== undefined, why });
  });
  channel.on("error", () => {}).on("close", () => {
    [...open.keys()].forEach((number) => settle(number, "closed"));
    grants.splice(0).forEach((grant) => grant.settle(ENDED));
  });
  return (key, value) => {
    if (!isRule({ key, value })) throw new TypeError("a rule has a key and a value");
    return new Promise((settle) => {
      if (!channel.writable) return settle(ENDED);
      grants.push({ key, value, settle });
      send({ grant: [key, value] });
    });
  };
}

module.exports = { attend };

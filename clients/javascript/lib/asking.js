"use strict";
// Answers what landstrip asks by --ask, and adds rules to a run.

const { denial, lines } = require("./reports");

const ANSWERS = ["once", "run", "deny"];

/** The answer to a question, from what the caller's function gave. */
function answered(number, given) {
  const { answer, rule } = typeof given === "string" ? { answer: given } : (given ?? {});
  if (!ANSWERS.includes(answer)) throw new TypeError(`an answer is one of ${ANSWERS.join(", ")}`);
  return { ask: number, answer, ...(rule && { rule: [rule.key, rule.value] }) };
}

/** Attends to a channel; returns the function that asks for a rule to be added. */
function attend(channel, ask, fail) {
  const open = new Map();
  const grants = [];
  const send = (message) => channel.writable && channel.write(`${JSON.stringify(message)}\n`);
  const question = (told, signal) => ({
    denial: denial(told.report),
    advice: told.advice ? { key: told.advice[0], value: told.advice[1] } : null,
    program: told.program,
    pid: told.pid,
    arguments: told.arguments,
    directory: told.directory,
    signal,
  });
  const hear = async (told) => {
    if (told.ask !== undefined) {
      const controller = new AbortController();
      open.set(told.ask, controller);
      try {
        const given = await ask(question(told, controller.signal));
        if (open.delete(told.ask)) send(answered(told.ask, given));
      } catch (error) {
        // One that gives up because nobody waits any more has not failed.
        if (open.delete(told.ask)) fail(error);
      }
    } else if (told.settled !== undefined) {
      const controller = open.get(told.settled);
      open.delete(told.settled);
      controller?.abort(told.by);
    } else if (told.granted ?? told.refused) {
      const [, , why] = told.refused ?? [];
      grants.shift()?.({ granted: told.refused === undefined, why: why ?? null });
    }
  };
  lines(channel, hear);
  // Whoever waits for an answer waits for the run's end at most.
  channel.on("error", () => {}).on("close", () => {
    open.forEach((controller) => controller.abort("closed"));
    open.clear();
    grants.splice(0).forEach((settle) => settle({ granted: false, why: "the run has ended" }));
  });
  return (key, value) => {
    return new Promise((settle) => {
      if (!channel.writable) return settle({ granted: false, why: "the run has ended" });
      grants.push(settle);
      send({ grant: [key, value] });
    });
  };
}

module.exports = { attend };

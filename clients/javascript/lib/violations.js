"use strict";
// What was refused, as the Anthropic Sandbox Runtime keeps it: the last lines, by the command that they are of.

/** How many are kept. */
const KEPT = 100;

/** How much of a command, or of the name that the caller gave a run, tells it from others. */
const KEY_LENGTH = 100;

// What shows other than it is: control characters, ends of lines, marks that change the order of others, what has no width.
const UNSAFE = /[\p{Cc}\p{Cf}\u2028\u2029]+/gu;

const encoded = (command) => Buffer.from(command.slice(0, KEY_LENGTH)).toString("base64");

/** One line, that ends no element which it is put into. */
const displayed = (text) => text.replace(UNSAFE, " ").replace(/[<>]/g, "").trim();

class SandboxViolationStore {
  #violations = [];
  #total = 0;
  #listeners = new Set();

  addViolation(violation) {
    this.#violations.push({ ...violation, line: displayed(violation.line) });
    this.#violations.splice(0, this.#violations.length - KEPT);
    this.#total += 1;
    this.#tell();
  }

  getViolations(limit) {
    return limit === undefined ? [...this.#violations] : this.#violations.slice(-limit);
  }

  getCount() {
    return this.#violations.length;
  }

  getTotalCount() {
    return this.#total;
  }

  getViolationsForCommand(command) {
    const key = encoded(command);
    return this.getViolations().filter(({ encodedCommand }) => encodedCommand === key);
  }

  clear() {
    this.#violations = [];
    this.#tell();
  }

  /** Tells `listener` of all that is kept, now and whenever it changes, until what this gives is called. */
  subscribe(listener) {
    this.#listeners.add(listener);
    listener(this.getViolations());
    return () => this.#listeners.delete(listener);
  }

  #tell() {
    for (const listener of this.#listeners) listener([...this.#violations]);
  }
}

module.exports = { SandboxViolationStore, encoded, displayed };

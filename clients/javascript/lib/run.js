"use strict";
// Starts commands under landstrip and tells what became of them.

const process = require("node:child_process");
const os = require("node:os");
const { OF_POLICY, OF_PROCESS, OF_RUN, checked, words, launch, checkDirectory } = require("./invocation");
const { collector, empty, lines, teller } = require("./reports");
const { attend } = require("./asking");

/** The descriptor that denials are written to, which the command does not get. Those of policies follow. */
const TRAP = 3;

/** How long a command that was asked to end may take before it is killed, in milliseconds. */
const GRACE = 2000;

/** A command that was started. */
class Child {
  #process;
  #failed = null;
  #late = null;
  #timer = null;

  /** Starts `launcher` with `words`; `standard` is what the command has as standard streams. */
  constructor({ launcher, words, texts }, standard, { cwd, env, input, timeout, signal, onDenial, onAsk }) {
    signal?.throwIfAborted();
    const own = Array(1 + texts.length + (onAsk ? 1 : 0)).fill("pipe");
    this.#process = process.spawn(launcher, words, { cwd, env, stdio: [...standard, ...own] });
    const { pid, stdin, stdout, stderr, stdio } = this.#process;
    Object.assign(this, { pid, stdin, stdout, stderr });
    const result = empty();
    const told = onDenial && teller((denial) => this.#call(() => onDenial(denial)));
    this.result = new Promise((resolve, reject) => {
      this.#process.on("error", (error) => (pid === undefined ? reject(error) : this.#fail(error)));
      this.#process.on("close", (code, killed) => {
        clearTimeout(this.#timer);
        clearTimeout(this.#late);
        told?.finish();
        signal?.removeEventListener("abort", abort);
        result.status = code ?? 128 + os.constants.signals[killed];
        return this.#failed ? reject(this.#failed.error) : resolve(result);
      });
    });
    if (pid === undefined) return;
    const abort = () => {
      const error = new Error("The operation was aborted", { cause: signal.reason });
      this.#fail(Object.assign(error, { name: "AbortError", code: "ABORT_ERR" }));
    };
    signal?.addEventListener("abort", abort, { once: true });
    if (timeout !== undefined) {
      this.#timer = setTimeout(() => {
        result.limit = "deadline";
        this.#end();
      }, timeout);
    }
    lines(stdio[TRAP], collector(result, told?.add));
    // landstrip says itself why it does not read a policy to its end.
    texts.forEach((text, number) => stdio[TRAP + 1 + number].on("error", () => {}).end(text));
    // A pipe of Node.js's is a connected stream socket.
    this.grant = onAsk && attend(stdio[TRAP + 1 + texts.length], onAsk, (error) => this.#fail(error));
    if (input !== undefined) {
      // A command that does not read it all is no failure.
      stdin.on("error", () => {}).end(input);
    }
  }

  /** Sends a signal to landstrip, which hands it on to the command. */
  kill(signal) {
    return this.#process.kill(signal);
  }

  /** What the caller's own function throws, at once or later, ends the run: nobody hears of denials any more. */
  async #call(heard) {
    if (this.#failed) return;
    try {
      await heard();
    } catch (error) {
      this.#fail(error);
    }
  }

  #fail(error) {
    this.#failed ??= { error };
    this.#end();
  }

  #end() {
    // It may have ended.
    if (this.#late || !this.kill("SIGTERM")) return;
    this.#late = setTimeout(() => this.kill("SIGKILL"), GRACE);
  }
}

/** Starts a command, by `more` options of landstrip's own; `byDefault` is the word for its streams. */
function start(command, options, byDefault, more = []) {
  const given = checked(options, [...OF_POLICY, ...OF_PROCESS, ...OF_RUN]);
  checkDirectory(given.cwd);
  const { stdio = byDefault, input } = given;
  const standard = Array.isArray(stdio) ? [...stdio] : Array(3).fill(stdio);
  if (input !== undefined) standard[0] = "pipe";
  const { launcher, words: policies, texts } = launch(given, TRAP + 1);
  const ask = given.onAsk ? ["--ask", String(TRAP + 1 + texts.length)] : [];
  const line = ["--trap-fd", String(TRAP), ...ask, ...more, ...policies, "--", ...words(command)];
  return new Child({ launcher, words: line, texts }, standard, given);
}

function spawn(command, options = {}) {
  if (options?.encoding !== undefined) throw new TypeError("option 'encoding' is one of run: set that of the streams");
  const child = start(command, options, "pipe");
  // Who does not wait for the result is not ended by it.
  child.result.catch(() => {});
  return child;
}

async function run(command, options = {}, more = []) {
  // Nobody would write to it.
  const standard = options?.stdio === "pipe" ? { stdio: ["ignore", "pipe", "pipe"] } : {};
  const child = start(command, { ...options, ...standard }, "inherit", more);
  const collected = ["stdout", "stderr"].filter((name) => child[name]);
  const chunks = collected.map((name) => {
    const all = [];
    child[name].on("data", (chunk) => all.push(chunk));
    return all;
  });
  const result = await child.result;
  collected.forEach((name, number) => {
    const bytes = Buffer.concat(chunks[number]);
    result[name] = options.encoding === "buffer" ? bytes : bytes.toString("utf8");
  });
  return result;
}

module.exports = { run, spawn };

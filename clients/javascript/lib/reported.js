"use strict";
// Where commands that somebody else starts find their policy, and leave what they were refused: files in a directory of
// landstrip's, which no sandbox of this user may write. A pipe would have to be handed on by who starts them.

const fs = require("node:fs");
const path = require("node:path");
const { denial } = require("./reports");
const { literal } = require("./runtime-config");

/** How many commands are known; of more, the first are forgotten, and cannot be started any more. */
const COMMANDS_MAX = 1000;

/** How many bytes of denials are read at a time. */
const READ_MAX = 16 << 20;

/** Where TMPDIR names no place: images of containers may have no /var/tmp. */
function ownPlace() {
  try {
    fs.accessSync("/var/tmp", fs.constants.W_OK | fs.constants.X_OK);
    return "/var/tmp";
  } catch {
    return "/tmp";
  }
}

/** The directory that landstrip makes its own in: as in broker/core/src/compile/runs.rs. */
function holder() {
  const named = process.env.TMPDIR;
  const isOther = named !== undefined && path.isAbsolute(named) && path.normalize(`${named}/`) !== "/tmp/";
  const held = path.join(fs.realpathSync(isOther ? named : ownPlace()), `landstrip-${process.geteuid()}`);
  try {
    fs.mkdirSync(held, { mode: 0o700 });
  } catch (error) {
    if (error.code !== "EEXIST") throw error;
  }
  const { mode, uid } = fs.lstatSync(held);
  if ((mode & fs.constants.S_IFMT) !== fs.constants.S_IFDIR || (mode & 0o777) !== 0o700 || uid !== process.geteuid()) {
    throw new Error(`${held} is not a directory of this user's alone: remove it`);
  }
  return held;
}

/** By what a process is told from others: its PID namespace, its number there, and when it started. Null if there is none. */
function identity(pid) {
  try {
    const [namespace] = fs.readlinkSync("/proc/self/ns/pid").match(/\d+/);
    // The name of the program, in parentheses, may hold anything.
    const fields = fs.readFileSync(`/proc/${pid}/stat`, "utf8").split(") ").pop().split(" ");
    return `${namespace}-${pid}-${fields[19]}`;
  } catch {
    return null;
  }
}

/** A directory of this process's own. Those of processes that were killed, which could not remove theirs, go. */
function directory() {
  const [held, own] = [holder(), identity(process.pid)];
  const [namespace] = own?.split("-") ?? [];
  for (const name of fs.readdirSync(held)) {
    const [, owner, where, pid] = name.match(/^reports-((\d+)-(\d+)-\d+)-/) ?? [];
    // Processes of other namespaces cannot be seen.
    if (where === namespace && where !== undefined && identity(pid) !== owner) {
      fs.rmSync(path.join(held, name), { recursive: true, force: true });
    }
  }
  return fs.mkdtempSync(path.join(held, `reports-${own ?? "0"}-`));
}

class Reports {
  #directory = directory();
  #commands = new Map();
  #count = 0;
  #watcher = null;
  #hear;

  /** Hands over each denial with what its command was registered with. */
  constructor(hear) {
    this.#hear = hear;
  }

  /** Makes the files of a command, of which `about` tells: its policy, and what its denials are appended to. */
  register(policy, about) {
    const name = String(this.#count++);
    const files = { policy: path.join(this.#directory, `${name}.json`), reports: path.join(this.#directory, name) };
    const command = { files, about, read: 0 };
    this.#commands.set(name, command);
    this.rewrite(command, policy);
    fs.writeFileSync(files.reports, "", { mode: 0o600 });
    for (const [first, { files: old }] of this.#commands) {
      if (this.#commands.size <= COMMANDS_MAX) break;
      this.#collect(first);
      this.#commands.delete(first);
      Object.values(old).forEach((file) => fs.rmSync(file, { force: true }));
    }
    return command;
  }

  /** Where files of this process may lie until it is removed. */
  directory() {
    return this.#directory;
  }

  /**
   * No command rewrites the policy of another, though who starts it may give it another TMPDIR than this process has, nor
   * these modules, which start the next one.
   */
  rewrite({ files }, policy) {
    const { filesystem } = policy;
    const denyWrite = [...filesystem.denyWrite, ...[this.#directory, path.dirname(__dirname)].map(literal)];
    fs.writeFileSync(files.policy, JSON.stringify({ ...policy, filesystem: { ...filesystem, denyWrite } }), { mode: 0o600 });
  }

  commands() {
    return [...this.#commands.values()];
  }

  /** Reads what has been reported since. */
  collect() {
    for (const name of this.#commands.keys()) this.#collect(name);
  }

  /** Reads what is reported from now on when it is; that alone keeps no process running. */
  watch() {
    if (this.#watcher) return;
    try {
      this.#watcher = fs.watch(this.#directory, { persistent: false }, (_, name) => this.#collect(name));
    } catch {
      // The kernel gives a user so many watchers and no more.
      const timer = setInterval(() => this.collect(), 100).unref();
      this.#watcher = { close: () => clearInterval(timer) };
    }
  }

  remove() {
    this.#watcher?.close();
    this.#commands.clear();
    fs.rmSync(this.#directory, { recursive: true, force: true });
  }

  #collect(name) {
    const command = this.#commands.get(name);
    const found = command && fs.statSync(command.files.reports, { throwIfNoEntry: false });
    if (found === undefined || found.size <= command.read) return;
    const bytes = Buffer.alloc(Math.min(found.size - command.read, READ_MAX));
    const file = fs.openSync(command.files.reports);
    const whole = bytes.subarray(0, fs.readSync(file, bytes, 0, bytes.length, command.read)).lastIndexOf("\n") + 1;
    fs.closeSync(file);
    const lines = bytes.subarray(0, whole).toString("utf8").split("\n").slice(0, -1);
    command.read += whole;
    for (const line of lines) {
      const refused = denial(JSON.parse(line));
      if (refused) this.#hear(refused, command.about);
    }
  }
}

module.exports = { Reports };

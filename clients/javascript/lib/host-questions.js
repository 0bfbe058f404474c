"use strict";
// Where commands that somebody else starts ask about hosts that no rule allows.

const fs = require("node:fs");
const net = require("node:net");
const path = require("node:path");
const { attend } = require("./asking");

/** The path of the socket in an open directory, whose own may be longer than that of a socket may be (unix(7)). */
const socketIn = (descriptor) => `/proc/self/fd/${descriptor}/ask`;

/** The host and the port of HOST:PORT, where an address of IPv6 stands in brackets. */
function split(target) {
  const at = target.lastIndexOf(":");
  return { host: target.slice(0, at).replace(/^\[(.*)\]$/, "$1"), port: Number(target.slice(at + 1)) };
}

class HostQuestions {
  #server;
  #directory;
  #opened;

  /** Why hosts were refused, by HOST:PORT, where that was said. */
  reasons = new Map();

  /** `ask` says of a host and a port whether they may be connected to. All else that landstrip asks about is refused. */
  constructor(directory, ask) {
    this.#directory = directory;
    this.#opened = fs.openSync(directory, fs.constants.O_DIRECTORY);
    const answer = async ({ denial: { kind, operation, target, mechanism } }) => {
      if (kind !== "network" || operation !== "connect" || mechanism !== "proxy") return "deny";
      try {
        const given = await ask(split(target));
        if (given === true) return "once";
        if (typeof given?.reason === "string") this.reasons.set(target, given.reason);
        return "deny";
      } catch {
        return "deny";
      }
    };
    // Questions alone keep no process running.
    this.#server = net.createServer((channel) => attend(channel.unref(), answer, () => channel.destroy()));
    this.#server.unref();
  }

  listen() {
    return new Promise((resolve, reject) => this.#server.once("error", reject).listen(socketIn(this.#opened), resolve));
  }

  /** The words that come before those of the launcher. */
  words() {
    return [process.execPath, path.join(__dirname, "ask-bridge.js"), this.#directory];
  }

  close() {
    this.#server.close();
    fs.closeSync(this.#opened);
  }
}

module.exports = { HostQuestions, socketIn };

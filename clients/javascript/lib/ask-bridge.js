"use strict";
// Starts landstrip with a channel for its questions: `node ask-bridge.js DIRECTORY LAUNCHER [WORD...]`. Who wraps commands for
// others to start can hand over no descriptor, and a shell connects to no Unix socket. Descriptor 3, for denials, is handed on.

const { spawn } = require("node:child_process");
const fs = require("node:fs");
const net = require("node:net");
const os = require("node:os");
const { socketIn } = require("./host-questions");

/** What landstrip hands on to the command. */
const SIGNALS = ["SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM", "SIGUSR2", "SIGCONT"];
const CHANNEL = 4;

const [directory, launcher, ...words] = process.argv.slice(2);

function fail(error) {
  process.stderr.write(`landstrip: nobody can be asked about hosts: ${error.message}\n`);
  process.exit(125);
}

const channel = net.connect(socketIn(fs.openSync(directory, fs.constants.O_DIRECTORY)));
channel.on("error", fail).on("connect", () => {
  const child = spawn(launcher, ["--ask", String(CHANNEL), ...words], { stdio: ["inherit", "inherit", "inherit", 3, channel] });
  child.on("error", fail).on("exit", (code, signal) => process.exit(code ?? 128 + os.constants.signals[signal]));
  SIGNALS.forEach((signal) => process.on(signal, () => child.kill(signal)));
  // What comes is landstrip's to read.
  channel.destroy();
});
channel.pause();

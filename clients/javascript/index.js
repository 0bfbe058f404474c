"use strict";
// Runs commands under landstrip, and asks it about policies. What each function takes and gives: index.d.ts.

const { program } = require("./lib/program");
const { wrap } = require("./lib/invocation");
const { run, spawn } = require("./lib/run");
const { check, explain, denials, learn } = require("./lib/questions");

module.exports = { run, spawn, wrap, check, explain, denials, learn, program };

"use strict";
// Where the launcher is: in the package for this architecture, or where the caller says. PATH, which a command may have
// changed for later ones, is never asked.

const path = require("node:path");

function program() {
  const name = `@landstrip/linux-${process.arch}`;
  try {
    return path.join(path.dirname(require.resolve(`${name}/package.json`)), "bin", "landstrip");
  } catch (cause) {
    throw new Error(`the package ${name} is not installed; it is an optional dependency`, { cause });
  }
}

/** The launcher, or the one that `named` is the path of. */
function found(named) {
  if (named === undefined) return program();
  if (!path.isAbsolute(named)) throw new TypeError(`program is no absolute path: ${named}`);
  return named;
}

module.exports = { program, found };

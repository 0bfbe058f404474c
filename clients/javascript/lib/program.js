"use strict";
// Where the launcher is: in the package for this architecture, or where the caller says. PATH, which a command may have
// changed for later ones, is never asked.

const fs = require("node:fs");
const path = require("node:path");

const inPackage = (place) => path.join(place, "bin", "landstrip");

function program() {
  const name = `@landstrip/linux-${process.arch}`;
  // Where the loader looks for packages, but not by package.json: a command that may write there can make that a link, or
  // have it name another file. The launcher it cannot replace.
  const places = (require.resolve.paths(name) ?? []).map((place) => inPackage(path.join(place, name)));
  const found = places.find((place) => fs.existsSync(place));
  if (found !== undefined) return found;
  let cause;
  try {
    if (process.versions.pnp) return inPackage(path.dirname(require.resolve(`${name}/package.json`)));
  } catch (error) {
    cause = error;
  }
  throw new Error(`the package ${name} is not installed; it is an optional dependency`, { cause });
}

/** The launcher, or the one that `named` is the path of. */
function found(named) {
  if (named === undefined) return program();
  if (!path.isAbsolute(named)) throw new TypeError(`program is no absolute path: ${named}`);
  return named;
}

module.exports = { program, found };

"use strict";
// The directories that a test runs in, and the launcher that it runs: LANDSTRIP_PROGRAM, else that of the package.

const fs = require("node:fs");
const os = require("node:os");
const path = require("node:path");

class World {
  constructor() {
    this.root = fs.realpathSync(fs.mkdtempSync(path.join(os.tmpdir(), "landstrip-client-")));
    for (const name of ["work", "outside", "home"]) fs.mkdirSync(this.path(name));
  }

  path(name) {
    return path.join(this.root, name);
  }

  write(name, text) {
    fs.mkdirSync(path.dirname(this.path(name)), { recursive: true });
    fs.writeFileSync(this.path(name), text);
  }

  env(more = {}) {
    return { PATH: "/usr/local/bin:/usr/bin:/bin", HOME: this.path("home"), ...more };
  }

  /** Puts the packages where npm would install them for a program in the home. */
  install() {
    const modules = this.path("home/node_modules");
    const platform = path.join(modules, `@landstrip/linux-${process.arch}`);
    fs.mkdirSync(platform, { recursive: true });
    fs.cpSync(path.join(__dirname, ".."), path.join(modules, "landstrip"), { recursive: true });
    fs.writeFileSync(path.join(platform, "package.json"), "{}");
    fs.symlinkSync(path.dirname(process.env.LANDSTRIP_PROGRAM), path.join(platform, "bin"));
  }

  /** A value whose strings are paths of this world where they begin with '@'. */
  placed(value) {
    if (typeof value === "string") return value.startsWith("@") ? this.path(value.slice(1)) : value;
    if (Array.isArray(value)) return value.map((one) => this.placed(one));
    if (value === null || typeof value !== "object") return value;
    return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, this.placed(one)]));
  }

  remove() {
    fs.rmSync(this.root, { recursive: true, force: true });
  }
}

module.exports = { World, program: process.env.LANDSTRIP_PROGRAM };

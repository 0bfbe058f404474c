"use strict";
// The examples of the README, as they stand there, in a directory where npm would have installed the packages.

const test = require("node:test");
const assert = require("node:assert");
const { spawnSync } = require("node:child_process");
const fs = require("node:fs");
const path = require("node:path");
const { World } = require("./world");

test("the examples of the README run", () => {
  const text = fs.readFileSync(path.join(__dirname, "../README.md"), "utf8");
  const examples = [...text.matchAll(/^```js\n(.*?)^```$/gms)].map(([, example]) => example);
  const printed = [/^0 done\n\nrefused: write '.*\/outside\/made'\n/, /^1 [^]*<sandbox_violations>\ndeny write .*\/elsewhere\n<\/sandbox_violations>\n$/];
  assert.strictEqual(examples.length, printed.length);
  examples.forEach((example, number) => {
    const world = new World();
    try {
      const npm = world.path("home/bin/npm");
      world.install();
      fs.mkdirSync(path.dirname(npm));
      fs.writeFileSync(npm, "#!/bin/sh\necho done; echo x > made; echo x > ../outside/made || true\n", { mode: 0o755 });
      fs.writeFileSync(world.path("home/use.js"), `(async () => {\n${example}\n})();`);
      const env = world.env({ TMPDIR: world.path("outside"), PATH: `${path.dirname(npm)}:${process.env.PATH}` });
      const { status, stdout, stderr } = spawnSync(process.execPath, [world.path("home/use.js")], { cwd: world.path("work"), env, encoding: "utf8" });
      assert.strictEqual(status, 0, stderr);
      assert.match(stdout, printed[number], stderr);
      assert.ok(!fs.existsSync(world.path("elsewhere")));
    } finally {
      world.remove();
    }
  });
});

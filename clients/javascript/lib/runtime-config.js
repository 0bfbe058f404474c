"use strict";
// The configuration of the Anthropic Sandbox Runtime, as a policy. What would protect and is not built here is an error;
// what only relaxes, or concerns other programs and platforms, is told once.

const os = require("node:os");
const path = require("node:path");

const LISTS = {
  network: ["allowedDomains", "deniedDomains", "allowUnixSockets"],
  filesystem: ["denyRead", "allowRead", "allowWrite", "denyWrite"],
};

/** What has to be there. */
const REQUIRED = [["network", "allowedDomains"], ["network", "deniedDomains"], ["filesystem", "denyRead"], ["filesystem", "allowWrite"], ["filesystem", "denyWrite"]];

/** What is handed on, beside lists. */
const VALUES = {
  network: { allowAllUnixSockets: "boolean", allowLocalBinding: "boolean", httpProxyPort: "number", socksProxyPort: "number" },
};

/** What is heeded here, or has no effect that anybody relies on. */
const HEEDED = ["network", "filesystem", "ignoreViolations", "enableWeakerNestedSandbox", "network.strictAllowlist"];

/** What has no effect here, and takes no protection away by that. */
const TOLD = [
  "allowAppleEvents", "allowNestedUserNamespaces", "allowPty", "bwrapPath", "enableWeakerNetworkIsolation", "git",
  "javaAgentJarPath", "mandatoryDenySearchDepth", "ripgrep", "seccomp", "socatPath", "windows", "filesystem.allowGitConfig",
  "filesystem.disabled", "network.allowMachLookup", "network.deniedDomainReasons",
];

/** What nobody may change from inside though the configuration lets it be written: it runs outside later. */
const DANGEROUS = [
  ".gitconfig", ".gitmodules", ".bashrc", ".bash_profile", ".zshrc", ".zprofile", ".profile", ".ripgreprc", ".mcp.json",
  ".vscode", ".idea", ".claude/commands", ".claude/agents", ".git/hooks", ".git/config",
];

/** What may be written under every configuration. */
const getDefaultWritePaths = () => [
  "/dev/stdout", "/dev/stderr", "/dev/null", "/dev/tty",
  path.join(os.homedir(), ".npm/_logs"), path.join(os.homedir(), ".claude/debug"),
];

const told = new Set();

/** Tells of what cannot be as the caller may expect it, once. */
function tell(text) {
  if (!told.has(text) && told.add(text)) process.emitWarning(text, { code: "LANDSTRIP_SANDBOX_RUNTIME" });
}

/** A path as a pattern that is nothing else. */
const literal = (text) => text.replace(/[\\*?[\]{}]/g, "\\$&");

/** The path of an entry, which may be marked as being no pattern. */
function entry(value, name) {
  if (typeof value === "string" && value !== "") return value;
  if (value !== null && typeof value === "object" && typeof value.path === "string" && value.literal === true) return literal(value.path);
  throw new Error(`${name}: not a string: ${JSON.stringify(value)}`);
}

function checkKey(name) {
  if (HEEDED.includes(name)) return;
  if (!TOLD.includes(name)) throw new Error(`${name} is not built in landstrip, which would protect less than it says`);
  tell(`${name} has no effect with landstrip`);
}

/** The configuration, if it is one that can be kept. `isWhole` unless it changes another. */
function checked(config, isWhole = true) {
  if (config === null || typeof config !== "object") throw new TypeError("a configuration is an object");
  for (const [object, value] of Object.entries(config)) {
    if (value === undefined) continue;
    checkKey(object);
    if (LISTS[object] === undefined) continue;
    for (const [key, one] of Object.entries(value)) {
      const name = `${object}.${key}`;
      if (one === undefined) continue;
      if (LISTS[object].includes(key)) {
        if (!Array.isArray(one)) throw new TypeError(`${name} is not an array`);
        one.forEach((text) => entry(text, name));
      } else if (VALUES[object]?.[key] === undefined) checkKey(name);
      else if (typeof one !== VALUES[object][key]) throw new TypeError(`${name} is not a ${VALUES[object][key]}`);
    }
  }
  const missing = isWhole && REQUIRED.find(([object, key]) => config[object]?.[key] === undefined);
  if (missing) throw new TypeError(`${missing.join(".")} is missing`);
  return config;
}

/** A configuration with what another, for one command, says instead. */
const merged = (config, { network, filesystem, ...rest } = {}) => ({
  ...config,
  ...rest,
  network: { ...config.network, ...network },
  filesystem: { ...config.filesystem, ...filesystem },
});

/** The policy of a command that is made in `directory`, wherever it is started, and may connect to `more` hosts. */
function policy({ network, filesystem, enableWeakerNestedSandbox }, directory, more = []) {
  const list = (object, name) => (object[name] ?? []).map((one) => entry(one, name));
  const protectedNames = DANGEROUS.filter((name) => name !== ".git/config" || !filesystem.allowGitConfig);
  const places = [".", "./**", literal(directory), `${literal(directory)}/**`, "~"];
  const dangerous = protectedNames.flatMap((name) => places.map((place) => `${place}/${name}`));
  const ports = ["httpProxyPort", "socksProxyPort"].filter((name) => network[name] !== undefined);
  return {
    ...(enableWeakerNestedSandbox === undefined ? {} : { enableWeakerNestedSandbox }),
    filesystem: {
      denyRead: list(filesystem, "denyRead"),
      allowRead: list(filesystem, "allowRead"),
      allowWrite: [...getDefaultWritePaths().filter((name) => !name.startsWith("/dev/")).map(literal), ...list(filesystem, "allowWrite")],
      denyWrite: [...list(filesystem, "denyWrite"), ...dangerous],
    },
    network: {
      allowedDomains: [...list(network, "allowedDomains"), ...(network.strictAllowlist ? [] : more)],
      deniedDomains: list(network, "deniedDomains"),
      allowUnixSockets: list(network, "allowUnixSockets"),
      allowAllUnixSockets: network.allowAllUnixSockets ?? false,
      // On Linux commands of the original have a loopback of their own whatever is said.
      allowLocalBinding: network.allowLocalBinding ?? true,
      ...Object.fromEntries(ports.map((name) => [name, network[name]])),
    },
  };
}

module.exports = { checked, literal, merged, policy, tell, getDefaultWritePaths };

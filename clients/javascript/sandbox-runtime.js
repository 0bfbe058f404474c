"use strict";
// The API of the Anthropic Sandbox Runtime, by landstrip: a harness changes an import. What is other is told in the README.

const { spawnSync } = require("node:child_process");
const os = require("node:os");
const path = require("node:path");
const { isDeepStrictEqual } = require("node:util");
const { found } = require("./lib/program");
const { check } = require("./lib/questions");
const { HostQuestions } = require("./lib/host-questions");
const { Reports } = require("./lib/reported");
const { checked, merged, policy, tell, getDefaultWritePaths } = require("./lib/runtime-config");
const { SandboxViolationStore, encoded, displayed } = require("./lib/violations");

/** How long a name has to be that hosts are allowed by: nobody inside may guess it. */
const NAME_LENGTH = 22;

class SandboxInitializeConflictError extends Error {
  code = "initialize_conflict";

  constructor() {
    super("initialize() is under way with another configuration");
  }
}

/** The store of the manager, which reads what commands have reported before it answers. */
class LiveStore extends SandboxViolationStore {
  getViolations(limit) {
    reports?.collect();
    return super.getViolations(limit);
  }

  getCount() {
    reports?.collect();
    return super.getCount();
  }

  getTotalCount() {
    reports?.collect();
    return super.getTotalCount();
  }

  subscribe(listener) {
    isWatched = true;
    reports?.watch();
    return super.subscribe(listener);
  }
}

const store = new LiveStore();
let config;
let reports;
let questions;
let isWatched = false;
let pending;
let program;
let lists = new Map();

/** The launcher, or the one that the caller named in the options of initialize(). */
const launcher = () => found(program);

const quoted = (word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`);

/** Whether the configuration wants nobody to hear of a line. */
function isIgnored(line, command) {
  const named = Object.entries(config?.ignoreViolations ?? {}).filter(([name]) => name === "*" || command.includes(name));
  return named.some(([, parts]) => parts.some((part) => line.includes(part)));
}

function hear({ operation, target }, { key, text, seen }) {
  const reason = questions?.reasons.get(target);
  const line = displayed(`deny ${operation} ${target}${reason === undefined ? "" : ` (${reason})`}`);
  if (seen.has(line) || isIgnored(line, text)) return;
  seen.add(line);
  store.addViolation({ line, command: text, encodedCommand: encoded(key), timestamp: new Date() });
}

async function start(runtimeConfig, askCallback, options) {
  const given = checked(runtimeConfig);
  program = options?.program;
  const { ok, error } = await check({ policy: policy(given, process.cwd()), program: launcher() });
  if (!ok) throw new Error(error.message);
  config = structuredClone(given);
  reports ??= new Reports(hear);
  if (isWatched) reports.watch();
  if (askCallback && !questions) {
    const asked = new HostQuestions(reports.directory(), askCallback);
    await asked.listen();
    questions = asked;
  }
  process.once("exit", removeReports);
}

function removeReports() {
  questions?.close();
  questions = undefined;
  reports?.remove();
  reports = undefined;
}

async function initialize(runtimeConfig, askCallback, enableLogMonitor = false, options = undefined) {
  const words = [runtimeConfig, askCallback, enableLogMonitor, options];
  if (pending) {
    if (!isDeepStrictEqual(words, pending.words)) throw new SandboxInitializeConflictError();
    return pending.promise;
  }
  pending = { words, promise: start(runtimeConfig, askCallback, options) };
  try {
    await pending.promise;
  } finally {
    pending = undefined;
  }
}

async function wrapWithSandbox(command, binShell, customConfig, abortSignal, options = {}) {
  await pending?.promise;
  abortSignal?.throwIfAborted();
  if (!config) throw new Error("call SandboxManager.initialize() first: nothing is wrapped without a configuration");
  const own = merged(config, customConfig && checked(customConfig, false));
  const key = options.commandId || command;
  const about = { key, text: options.commandText ?? command, seen: new Set(), config: own, directory: process.cwd() };
  const { files } = reports.register(policy(own, about.directory, lists.get(key)), about);
  const asking = questions && !own.network.strictAllowlist ? questions.words() : [];
  const words = [...asking, launcher(), "--trap-fd", "3", "--policy", files.policy, "--", binShell || "bash", "-c", command];
  return `${words.map(quoted).join(" ")} 3>>${quoted(files.reports)}`;
}

async function wrapWithSandboxArgv(command, binShell, customConfig, abortSignal, cwd, options) {
  const wrapped = await wrapWithSandbox(command, binShell, customConfig, abortSignal, options);
  // The shell makes way for landstrip, which gets the signals. A directory could be called as an option of cd.
  const start = `exec ${wrapped}`;
  const words = cwd === undefined ? start : `cd ${quoted(path.resolve(cwd))} && ${start}`;
  return { argv: ["/bin/sh", "-c", words], env: { ...process.env } };
}

/** Gives the commands that are known by a name their policies anew, for those that are started later. */
function relist(commandId) {
  for (const command of reports?.commands() ?? []) {
    const { key, config: own, directory } = command.about;
    if (key === commandId) reports.rewrite(command, policy(own, directory, lists.get(key)));
  }
}

function registerCommandNetworkLists(commandId, { allowedDomains = [] } = {}) {
  if (typeof commandId !== "string" || commandId.length < NAME_LENGTH) {
    throw new TypeError(`a commandId that hosts are allowed by has ${NAME_LENGTH} characters or more, and nobody can guess it`);
  }
  checked({ network: { allowedDomains } }, false);
  lists.set(commandId, [...allowedDomains]);
  relist(commandId);
}

function unregisterCommandNetworkLists(commandId) {
  if (lists.delete(commandId)) relist(commandId);
}

function annotateStderrWithSandboxFailures(command, stderr) {
  const lines = config ? store.getViolationsForCommand(command).map(({ line }) => line) : [];
  if (lines.length === 0) return stderr;
  return [stderr, "<sandbox_violations>", ...lines, "</sandbox_violations>"].join(os.EOL);
}

function checkDependencies() {
  if (!isSupportedPlatform()) return { errors: ["landstrip needs Linux on x86-64 or AArch64"], warnings: [] };
  try {
    const { status, stderr, error } = spawnSync(launcher(), ["--policy", "{}", "--check"], { encoding: "utf8" });
    return { errors: status === 0 ? [] : [error?.message ?? stderr.trim()], warnings: [] };
  } catch (error) {
    return { errors: [error.message], warnings: [] };
  }
}

const isSupportedPlatform = () => process.platform === "linux" && ["x64", "arm64"].includes(process.arch);

function updateConfig(newConfig) {
  if (!config) throw new Error("call SandboxManager.initialize() first");
  config = structuredClone(checked(newConfig));
}

async function reset() {
  await pending?.promise.catch(() => {});
  reports?.collect();
  removeReports();
  process.removeListener("exit", removeReports);
  config = undefined;
  lists = new Map();
}

const listed = (object, name) => [...(config?.[object]?.[name] ?? [])].map((one) => one.path ?? one);

const SandboxManager = {
  initialize,
  isSupportedPlatform,
  isSandboxingEnabled: () => config !== undefined,
  checkDependencies,
  checkDependenciesAsync: async () => checkDependencies(),
  getFsReadConfig: () => ({ denyOnly: listed("filesystem", "denyRead"), allowWithinDeny: listed("filesystem", "allowRead") }),
  getFsWriteConfig: () => ({
    allowOnly: [...getDefaultWritePaths(), ...listed("filesystem", "allowWrite")],
    denyWithinAllow: listed("filesystem", "denyWrite"),
  }),
  getNetworkRestrictionConfig: () => ({ allowedHosts: listed("network", "allowedDomains"), deniedHosts: listed("network", "deniedDomains") }),
  getAllowUnixSockets: () => config?.network.allowUnixSockets,
  getAllowLocalBinding: () => config?.network.allowLocalBinding,
  getAllowMachLookup: () => undefined,
  getIgnoreViolations: () => config?.ignoreViolations,
  getEnableWeakerNestedSandbox: () => config?.enableWeakerNestedSandbox,
  // The proxies are landstrip's, one for each command, and reachable by it alone.
  getProxyPort: () => config?.network.httpProxyPort,
  getProxyAuthToken: () => undefined,
  getSocksProxyPort: () => config?.network.socksProxyPort,
  getLinuxHttpSocketPath: () => undefined,
  getLinuxSocksSocketPath: () => undefined,
  waitForNetworkInitialization: async () => {
    await pending?.promise;
    return config !== undefined;
  },
  wrapWithSandbox,
  wrapWithSandboxArgv,
  registerCommandNetworkLists,
  unregisterCommandNetworkLists,
  askCallbackDenyReason: true,
  getSandboxViolationStore: () => store,
  annotateStderrWithSandboxFailures,
  // Patterns hold in every list, also for what is made later.
  getLinuxGlobPatternWarnings: () => [],
  getConfig: () => config,
  updateConfig,
  cleanupAfterCommand: () => reports?.collect(),
  reset,
};

/** As far as the original's schema is used by programs: whether a configuration is right. */
const SandboxRuntimeConfigSchema = {
  parse: (value) => checked(value),
  safeParse(value) {
    try {
      return { success: true, data: checked(value) };
    } catch (error) {
      return { success: false, error };
    }
  },
};

module.exports = { SandboxManager, SandboxViolationStore, SandboxInitializeConflictError, SandboxRuntimeConfigSchema, getDefaultWritePaths };

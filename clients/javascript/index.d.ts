import { Readable, Writable, Stream } from "node:stream";
import { Policy } from "./policy";

export * from "./policy";

/** What was refused: landstrip(1), REPORTS. */
export interface Denial {
  kind: "filesystem" | "network";
  operation: string;
  /** A path, or a host or address with its port. */
  target: string;
  mechanism: string;
}

/** A rule, as a policy would have it: `{ key: "filesystem.allowWrite", value: "~/.npm" }`. */
export interface Rule {
  key: string;
  value: string;
}

/** A rule that refused, and where it stands: a file or a preset, and the line. */
export interface Origin extends Rule {
  file: string;
  line: number;
}

/** Why landstrip gave up. */
export interface Failure {
  /** The part of it: usage, policy, launch, platform, ... */
  source?: string;
  message: string;
  file?: string;
  line?: string;
  field?: string;
}

export interface Result {
  /** The command's own, 128+N after signal N, or landstrip's: 2, 125, 126, 127. */
  status: number;
  /** Whose status it is: "landstrip" if nothing of the command ran, or it had to be ended. */
  endedBy: "tool" | "landstrip";
  /** Why landstrip gave up, if it told. */
  error: Failure | null;
  /** The limit that ended the command, if one did: a key of the policy, or "deadline", which is that of the option `timeout`. */
  limit: string | null;
  /** What was refused, in its order, nothing twice. */
  denials: Denial[];
  /** Rules that would have let some of it through, where that is known to be harmless. */
  advice: Rule[];
  /** Rules that refused some of it. */
  deniedBy: Origin[];
}

export interface PolicyOptions {
  /**
   * A preset, the path of a policy file, from this process's working directory, an object, or several to merge in order.
   * Without it: as on the command line.
   */
  policy?: string | Policy | (string | Policy)[];
  /** Which denials are reported: option --report of landstrip(1). */
  report?: "all" | "changes" | "network" | "none";
  /** The absolute path of the launcher, in place of the one of the package for this architecture. */
  program?: string;
}

export interface ProcessOptions extends PolicyOptions {
  /** The working directory, to which the paths of a policy are relative. */
  cwd?: string | URL;
  /** In place of the variables of this process. */
  env?: Record<string, string | undefined>;
}

export type Standard = "inherit" | "pipe" | "ignore" | number | Stream;

export interface SpawnOptions extends ProcessOptions {
  /** What the command has as standard input, output and error: one for all, or one each. */
  stdio?: "inherit" | "pipe" | "ignore" | [Standard, Standard, Standard];
  /** Written to the command's standard input, which is a pipe then. */
  input?: string | NodeJS.ArrayBufferView;
  /** Ends the command when it is aborted; the result is rejected with an AbortError when it has ended. */
  signal?: AbortSignal;
  /** Ends the command after so many milliseconds. It is asked to end, and killed two seconds later. */
  timeout?: number;
  /** Told of each denial at once. What it throws, or rejects with, ends the command and rejects the result. */
  onDenial?: (denial: Denial) => void | Promise<void>;
  /**
   * Asked before what no rule allows is refused, while the call of the command waits, a minute at most. What it throws
   * ends the command and rejects the result.
   */
  onAsk?: (question: Question) => Reply | Promise<Reply>;
}

export interface RunOptions extends SpawnOptions {
  /** What output is given as: a string, or a Buffer. */
  encoding?: "utf8" | "buffer";
}

export interface Question {
  denial: Denial;
  /** The rule that would allow it. */
  advice: Rule | null;
  program: string;
  pid: number;
  /** What the program says of itself: to be shown, never to be decided by. */
  arguments: string[];
  directory: string;
  /** Whether the rule would help another run, too: not for what is removed or replaced, nor where a name is made up. */
  lasts: boolean;
  /** Aborted when nobody waits for the answer any more. */
  signal: AbortSignal;
}

/** This call; the rest of the run, by this rule or else the advised one; or refused, and not asked again in this run. */
export type Reply = "once" | "run" | "deny" | { answer: "once" | "run" | "deny"; rule?: Rule };

/** What became of a rule: why it was not added, or what of it does not hold in this run. */
export interface Granted {
  granted: boolean;
  why: string | null;
}

export interface Child {
  /** Undefined where landstrip could not be started. */
  readonly pid: number | undefined;
  readonly stdin: Writable | null;
  readonly stdout: Readable | null;
  readonly stderr: Readable | null;
  /** Settled when the command has ended, with all that it started, and its output is closed. */
  readonly result: Promise<Result>;
  /** Sends a signal, which landstrip hands on to the command. */
  kill(signal?: NodeJS.Signals | number): boolean;
  /** With `onAsk`: adds a rule for the rest of the run. */
  grant?(key: string, value: string): Promise<Granted>;
}

/** Runs a command, given as its words, in a sandbox; its streams are this process's own unless `stdio` says otherwise. */
export function run(command: string[], options: RunOptions & { stdio: "pipe"; encoding: "buffer" }): Promise<Result & { stdout: Buffer; stderr: Buffer }>;
export function run(command: string[], options: RunOptions & { stdio: "pipe"; encoding?: "utf8" }): Promise<Result & { stdout: string; stderr: string }>;
export function run(command: string[], options?: RunOptions): Promise<Result & { stdout?: string | Buffer; stderr?: string | Buffer }>;

/** Starts a command; its streams are pipes unless `stdio` says otherwise. */
export function spawn(command: string[], options?: SpawnOptions): Child;

/**
 * The words by which a program of your own starts the command in a sandbox. Policies that are objects stand in them, to be
 * seen by other users of the host.
 */
export function wrap(command: string[], options?: PolicyOptions & { trapFd?: number }): string[];

/** Whether the policy is right and can be enforced, what is wrong with it, and what there is to say of it. */
export function check(options?: ProcessOptions): Promise<{ ok: boolean; error: Failure | null; remarks: string[] }>;

/** What would be enforced, or which rule decides about each path, host:port or socket: landstrip(1), --explain=json. */
export function explain(questions?: string[], options?: ProcessOptions): Promise<unknown>;

/** A denial of a run whose policy has `report.keep`. */
export interface Kept {
  time: Date;
  program: string;
  /** The working directory of the run. */
  directory: string;
  denial: Denial;
  /** Rules that would have let it through, where that is known to be harmless. */
  advice: Rule[];
}

/** What runs of this user were refused, oldest first: of the last days (`7d`), or since a day (`2026-11-01`), if `since` says so. */
export function denials(options?: Omit<ProcessOptions, "policy" | "report"> & { since?: string }): Promise<Kept[]>;

/**
 * Runs a command with everything permitted that no rule denies, and writes the policy that it needs to a new file, .yaml or
 * .json. It adds to the policy of the run, which is a preset or a file then.
 */
export function learn(command: string[], file: string, options?: RunOptions): Promise<Result & { file: string; text: string | null; stdout?: string | Buffer; stderr?: string | Buffer }>;

/** The path of the launcher. */
export function program(): string;

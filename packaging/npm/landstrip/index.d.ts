/** A list of a policy: strings, or one string with an item a line. */
export type List = string[] | string | null;

/** A policy; its keys are those of landstrip-policy(5). */
export interface Policy {
  $schema?: string;
  extends?: List;
  filesystem?: {
    allowWrite?: List;
    denyWrite?: List;
    denyRead?: List;
    allowRead?: List;
    [key: string]: unknown;
  } | null;
  network?: {
    allowNetwork?: boolean | null;
    allowedDomains?: List;
    deniedDomains?: List;
    privateDomains?: List;
    hosts?: List;
    httpProxyPort?: number | null;
    socksProxyPort?: number | null;
    allowLocalBinding?: boolean | null;
    allowUnixSockets?: List;
    allowAllUnixSockets?: boolean | null;
    [key: string]: unknown;
  } | null;
  environment?: {
    allow?: List;
    deny?: List;
    set?: Record<string, string | null> | null;
  } | null;
  [key: string]: unknown;
}

/** A report, as landstrip(1) tells them under REPORTS: operation, target, mechanism. */
export type Denial =
  | { Filesystem: [operation: "read" | "write", path: string, mechanism: string] }
  | { Network: [operation: string, target: string, mechanism: string] };

export interface Options {
  /** A preset, the path of a policy file, an object, or several to merge in order. Without it: as on the command line. */
  policy?: string | Policy | (string | Policy)[];
  /** The working directory, to which the paths of a policy are relative. */
  cwd?: string;
  /** In place of the variables of this process. */
  env?: Record<string, string | undefined>;
  /** What the command has as standard input, output and error; "pipe" collects the last two. */
  stdio?: "inherit" | "pipe" | "ignore";
  /** Written to the command's standard input, where that is a pipe. */
  input?: string | Uint8Array;
  /** Ends the command when it is aborted. */
  signal?: AbortSignal;
  /** Told of each denial at once. */
  onDenial?: (denial: Denial) => void;
}

export interface Result {
  /** The command's own, 128+N after signal N, or landstrip's: 2, 125, 126, 127. */
  status: number;
  /** Whose status it is: "landstrip" if nothing of the command ran, or it had to be ended. */
  endedBy: "tool" | "landstrip";
  /** What was refused, in its order. */
  denials: Denial[];
  /** Rules that would have let some of it through, where that is known to be harmless. */
  advice: [key: string, value: string][];
  /** Rules that refused some of it, with the file or the preset where they stand, and the line. */
  deniedBy: [key: string, value: string, file: string, line: string][];
  /** With stdio "pipe". */
  stdout?: string;
  stderr?: string;
}

/** Runs a command, given as its words, in a sandbox. Rejects if landstrip cannot be started. */
export function run(command: string[], options?: Options): Promise<Result>;

/** The path of the launcher. */
export function program(): string;

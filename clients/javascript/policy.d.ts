// Written by the broker's unit tests, from its table of keys: LANDSTRIP_WRITE_TABLE=1 cargo test.

/** A list of a policy: strings, or one string with an item a line. */
export type List = string[] | string | null;

/** A policy, as landstrip-policy(5) describes it. */
export interface Policy {
  /** the JSON Schema of policies, for editors; nothing is read from there */
  $schema?: string;
  /** presets, or files relative to this one, that this policy adds to */
  extends?: List;
  /** rules to take out of what this policy extends, by the same keys and words */
  without?: { filesystem?: Pick<FilesystemRules, "allowWrite" | "denyWrite" | "allowWriteInside" | "denyRead" | "allowRead">; network?: Pick<NetworkRules, "allowedDomains" | "deniedDomains" | "privateDomains" | "hosts" | "allowUnixSockets">; environment?: Pick<EnvironmentRules, "deny">; } | null;
  /** of which processes the command may read in /proc: all, or its own */
  processes?: "all" | "own" | null;
  /** what is refused without a report, by words of the command line, or * for all */
  ignoreViolations?: Record<string, List> | null;
  /** whether to run with less protection where another sandbox leaves no listener */
  enableWeakerNestedSandbox?: boolean | null;
  filesystem?: FilesystemRules | null;
  network?: NetworkRules | null;
  environment?: EnvironmentRules | null;
  limits?: LimitsRules | null;
  report?: ReportRules | null;
  ask?: AskRules | null;
}

/** The keys in `filesystem`. */
export interface FilesystemRules {
  /** paths that may be written */
  allowWrite?: List;
  /** paths that may not be written, inside allowWrite too */
  denyWrite?: List;
  /** paths that may be written again inside denyWrite, as far as allowWrite reaches */
  allowWriteInside?: List;
  /** paths that may not be read; everything else may */
  denyRead?: List;
  /** paths that may be read again inside denyRead */
  allowRead?: List;
}

/** The keys in `network`. */
export interface NetworkRules {
  /** whether IP networking is unrestricted */
  allowNetwork?: boolean | null;
  /** hosts that may be reached through landstrip's own proxies */
  allowedDomains?: List;
  /** hosts that are denied, even if allowedDomains has them */
  deniedDomains?: List;
  /** allowed hosts that may have private addresses */
  privateDomains?: List;
  /** lines as in /etc/hosts, for this run */
  hosts?: List;
  /** the port of an HTTP proxy on this host */
  httpProxyPort?: number | null;
  /** the port of a SOCKS5 proxy on this host */
  socksProxyPort?: number | null;
  /** whether the command may have servers for itself */
  allowLocalBinding?: boolean | null;
  /** Unix sockets that may be connected to and bound, by path */
  allowUnixSockets?: List;
  /** whether all Unix sockets that have a path are allowed */
  allowAllUnixSockets?: boolean | null;
}

/** The keys in `environment`. */
export interface EnvironmentRules {
  /** variables of the caller that the command gets; all, without this key */
  allow?: List;
  /** variables that it does not get, even if allow has them */
  deny?: List;
  /** variables with their values */
  set?: Record<string, string | null> | null;
}

/** The keys in `limits`. */
export interface LimitsRules {
  /** how much memory the command and all that it starts may use together */
  memory?: number | string | null;
  /** how many processes and threads there may be at a time */
  processes?: number | null;
  /** how much processor time they may take together */
  cpuSeconds?: number | null;
  /** how long the run may take */
  wallSeconds?: number | null;
  /** how long each file may become */
  fileSize?: number | string | null;
}

/** The keys in `report`. */
export interface ReportRules {
  /** whether refused reads are watched and reported */
  reads?: boolean | null;
  /** whether refusals are kept for landstrip --denials */
  keep?: boolean | null;
}

/** The keys in `ask`. */
export interface AskRules {
  /** how long a question of landstrip --ask waits for its answer; 60 by default */
  timeoutSeconds?: number | null;
}

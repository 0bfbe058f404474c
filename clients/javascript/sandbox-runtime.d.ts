// The API of the Anthropic Sandbox Runtime, as far as it means something on Linux. The README tells what is other.

/** A path or a pattern, or a path that is none though it looks like one (which is an error here). */
export type FilesystemPathEntry = string | { path: string; literal: true };

export interface NetworkConfig {
  allowedDomains: string[];
  deniedDomains: string[];
  /** Without effect: nobody is asked. */
  strictAllowlist?: boolean;
  allowUnixSockets?: string[];
  allowAllUnixSockets?: boolean;
  /** Servers of the command's own, for itself. True unless it is said, as the original has it on Linux. */
  allowLocalBinding?: boolean;
  httpProxyPort?: number;
  socksProxyPort?: number;
  /** Without effect, as the rest of these. */
  deniedDomainReasons?: Record<string, string>;
  allowMachLookup?: string[];
}

export interface FilesystemConfig {
  denyRead: FilesystemPathEntry[];
  allowRead?: FilesystemPathEntry[];
  allowWrite: FilesystemPathEntry[];
  denyWrite: FilesystemPathEntry[];
  allowGitConfig?: boolean;
}

/** By parts of commands, or `*`: parts of lines that nobody is to hear of. */
export type IgnoreViolationsConfig = Record<string, string[]>;

export interface SandboxRuntimeConfig {
  network: NetworkConfig;
  filesystem: FilesystemConfig;
  ignoreViolations?: IgnoreViolationsConfig;
  enableWeakerNestedSandbox?: boolean;
  /** Without effect, as the rest of these. */
  allowAppleEvents?: boolean;
  allowNestedUserNamespaces?: boolean;
  allowPty?: boolean;
  bwrapPath?: string;
  enableWeakerNetworkIsolation?: boolean;
  git?: unknown;
  javaAgentJarPath?: string;
  mandatoryDenySearchDepth?: number;
  ripgrep?: { command: string; args?: string[]; argv0?: string };
  seccomp?: unknown;
  socatPath?: string;
  windows?: unknown;
}

export interface FsReadRestrictionConfig {
  denyOnly: string[];
  allowWithinDeny?: string[];
}

export interface FsWriteRestrictionConfig {
  allowOnly: string[];
  denyWithinAllow: string[];
}

export interface NetworkRestrictionConfig {
  allowedHosts?: string[];
  deniedHosts?: string[];
}

export type NetworkHostPattern = { host: string; port: number | undefined };

/** Says whether a host that no rule allows or denies may be connected to, this time. What takes longer than a minute refuses it. */
export type SandboxAskCallback = (params: NetworkHostPattern) => Promise<boolean | { allow: false; reason: string }>;

export interface SandboxViolationEvent {
  /** `deny write /path`, `deny connect host:port`, ... */
  line: string;
  command?: string;
  encodedCommand?: string;
  timestamp: Date;
}

export interface SandboxDependencyCheck {
  errors: string[];
  warnings: string[];
}

export interface WrapWithSandboxOptions {
  /** What violations of this run are found by, in place of the command. */
  commandId?: string;
  /** What the command is to be called, where another string is executed. */
  commandText?: string;
}

export interface SandboxInitializeOptions {
  /** The absolute path of the launcher, in place of the one of the package for this architecture. */
  program?: string;
}

export interface CheckDependenciesOptions {
  windowsBackend?: "mxc" | "srt-win";
}

export class SandboxViolationStore {
  addViolation(violation: SandboxViolationEvent): void;
  getViolations(limit?: number): SandboxViolationEvent[];
  getCount(): number;
  getTotalCount(): number;
  getViolationsForCommand(command: string): SandboxViolationEvent[];
  clear(): void;
  subscribe(listener: (violations: SandboxViolationEvent[]) => void): () => void;
}

export class SandboxInitializeConflictError extends Error {
  readonly code: "initialize_conflict";
}

export interface ISandboxManager {
  initialize(config: SandboxRuntimeConfig, askCallback?: SandboxAskCallback, enableLogMonitor?: boolean, options?: SandboxInitializeOptions): Promise<void>;
  isSupportedPlatform(): boolean;
  isSandboxingEnabled(): boolean;
  checkDependencies(ripgrepConfig?: { command: string; args?: string[] }, options?: CheckDependenciesOptions): SandboxDependencyCheck;
  checkDependenciesAsync(ripgrepConfig?: { command: string; args?: string[] }, options?: CheckDependenciesOptions): Promise<SandboxDependencyCheck>;
  getFsReadConfig(): FsReadRestrictionConfig;
  getFsWriteConfig(): FsWriteRestrictionConfig;
  getNetworkRestrictionConfig(): NetworkRestrictionConfig;
  getAllowUnixSockets(): string[] | undefined;
  getAllowLocalBinding(): boolean | undefined;
  getAllowMachLookup(): string[] | undefined;
  getIgnoreViolations(): Record<string, string[]> | undefined;
  getEnableWeakerNestedSandbox(): boolean | undefined;
  getProxyPort(): number | undefined;
  getProxyAuthToken(): string | undefined;
  getSocksProxyPort(): number | undefined;
  getLinuxHttpSocketPath(): string | undefined;
  getLinuxSocksSocketPath(): string | undefined;
  waitForNetworkInitialization(): Promise<boolean>;
  /** The words for a shell that run the command in the sandbox. `binShell` is bash unless it is named. */
  wrapWithSandbox(command: string, binShell?: string, customConfig?: Partial<SandboxRuntimeConfig>, abortSignal?: AbortSignal, options?: WrapWithSandboxOptions): Promise<string>;
  wrapWithSandboxArgv(command: string, binShell?: string, customConfig?: Partial<SandboxRuntimeConfig>, abortSignal?: AbortSignal, cwd?: string, options?: WrapWithSandboxOptions): Promise<{ argv: string[]; env: NodeJS.ProcessEnv }>;
  /** Hosts for the command that was wrapped by this name. It heeds them if it is started afterwards. */
  registerCommandNetworkLists(commandId: string, lists: { allowedDomains?: string[] }): void;
  unregisterCommandNetworkLists(commandId: string): void;
  readonly askCallbackDenyReason: true;
  getSandboxViolationStore(): SandboxViolationStore;
  annotateStderrWithSandboxFailures(command: string, stderr: string): string;
  getLinuxGlobPatternWarnings(): string[];
  getConfig(): SandboxRuntimeConfig | undefined;
  /** For commands that are wrapped from now on. */
  updateConfig(newConfig: SandboxRuntimeConfig): void;
  cleanupAfterCommand(): void;
  reset(): Promise<void>;
}

export const SandboxManager: ISandboxManager;

export const SandboxRuntimeConfigSchema: {
  parse(value: unknown): SandboxRuntimeConfig;
  safeParse(value: unknown): { success: true; data: SandboxRuntimeConfig } | { success: false; error: Error };
};

export function getDefaultWritePaths(): string[];

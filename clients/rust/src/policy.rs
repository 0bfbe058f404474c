//! Policies as typed data. Written by the broker's unit tests, from its table of keys: LANDSTRIP_WRITE_TABLE=1 cargo test.

use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// The keys in `filesystem`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FilesystemRules {
    /// paths that may be written.
    pub allow_write: Vec<String>,
    /// paths that may not be written, inside allowWrite too.
    pub deny_write: Vec<String>,
    /// paths that may be written again inside denyWrite, as far as allowWrite reaches.
    pub allow_write_inside: Vec<String>,
    /// paths that may not be read; everything else may.
    pub deny_read: Vec<String>,
    /// paths that may be read again inside denyRead.
    pub allow_read: Vec<String>,
}

impl FilesystemRules {
    pub(crate) fn to_json(&self) -> Value {
        let mut object = Map::new();
        if !self.allow_write.is_empty() {
            object.insert("allowWrite".into(), json!(self.allow_write));
        }
        if !self.deny_write.is_empty() {
            object.insert("denyWrite".into(), json!(self.deny_write));
        }
        if !self.allow_write_inside.is_empty() {
            object.insert("allowWriteInside".into(), json!(self.allow_write_inside));
        }
        if !self.deny_read.is_empty() {
            object.insert("denyRead".into(), json!(self.deny_read));
        }
        if !self.allow_read.is_empty() {
            object.insert("allowRead".into(), json!(self.allow_read));
        }
        object.into()
    }
}

/// The lists in `filesystem`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FilesystemRulesWithout {
    /// paths that may be written.
    pub allow_write: Vec<String>,
    /// paths that may not be written, inside allowWrite too.
    pub deny_write: Vec<String>,
    /// paths that may be written again inside denyWrite, as far as allowWrite reaches.
    pub allow_write_inside: Vec<String>,
    /// paths that may not be read; everything else may.
    pub deny_read: Vec<String>,
    /// paths that may be read again inside denyRead.
    pub allow_read: Vec<String>,
}

impl FilesystemRulesWithout {
    pub(crate) fn to_json(&self) -> Value {
        let mut object = Map::new();
        if !self.allow_write.is_empty() {
            object.insert("allowWrite".into(), json!(self.allow_write));
        }
        if !self.deny_write.is_empty() {
            object.insert("denyWrite".into(), json!(self.deny_write));
        }
        if !self.allow_write_inside.is_empty() {
            object.insert("allowWriteInside".into(), json!(self.allow_write_inside));
        }
        if !self.deny_read.is_empty() {
            object.insert("denyRead".into(), json!(self.deny_read));
        }
        if !self.allow_read.is_empty() {
            object.insert("allowRead".into(), json!(self.allow_read));
        }
        object.into()
    }
}

/// The keys in `network`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NetworkRules {
    /// whether IP networking is unrestricted.
    pub allow_network: Option<bool>,
    /// hosts that may be reached through landstrip's own proxies.
    pub allowed_domains: Vec<String>,
    /// hosts that are denied, even if allowedDomains has them.
    pub denied_domains: Vec<String>,
    /// allowed hosts that may have private addresses.
    pub private_domains: Vec<String>,
    /// lines as in /etc/hosts, for this run.
    pub hosts: Vec<String>,
    /// the port of an HTTP proxy on this host.
    pub http_proxy_port: Option<u16>,
    /// the port of a SOCKS5 proxy on this host.
    pub socks_proxy_port: Option<u16>,
    /// whether the command may have servers for itself.
    pub allow_local_binding: Option<bool>,
    /// Unix sockets that may be connected to and bound, by path.
    pub allow_unix_sockets: Vec<String>,
    /// whether all Unix sockets that have a path are allowed.
    pub allow_all_unix_sockets: Option<bool>,
}

impl NetworkRules {
    pub(crate) fn to_json(&self) -> Value {
        let mut object = Map::new();
        if self.allow_network.is_some() {
            object.insert("allowNetwork".into(), json!(self.allow_network));
        }
        if !self.allowed_domains.is_empty() {
            object.insert("allowedDomains".into(), json!(self.allowed_domains));
        }
        if !self.denied_domains.is_empty() {
            object.insert("deniedDomains".into(), json!(self.denied_domains));
        }
        if !self.private_domains.is_empty() {
            object.insert("privateDomains".into(), json!(self.private_domains));
        }
        if !self.hosts.is_empty() {
            object.insert("hosts".into(), json!(self.hosts));
        }
        if self.http_proxy_port.is_some() {
            object.insert("httpProxyPort".into(), json!(self.http_proxy_port));
        }
        if self.socks_proxy_port.is_some() {
            object.insert("socksProxyPort".into(), json!(self.socks_proxy_port));
        }
        if self.allow_local_binding.is_some() {
            object.insert("allowLocalBinding".into(), json!(self.allow_local_binding));
        }
        if !self.allow_unix_sockets.is_empty() {
            object.insert("allowUnixSockets".into(), json!(self.allow_unix_sockets));
        }
        if self.allow_all_unix_sockets.is_some() {
            object.insert("allowAllUnixSockets".into(), json!(self.allow_all_unix_sockets));
        }
        object.into()
    }
}

/// The lists in `network`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NetworkRulesWithout {
    /// hosts that may be reached through landstrip's own proxies.
    pub allowed_domains: Vec<String>,
    /// hosts that are denied, even if allowedDomains has them.
    pub denied_domains: Vec<String>,
    /// allowed hosts that may have private addresses.
    pub private_domains: Vec<String>,
    /// lines as in /etc/hosts, for this run.
    pub hosts: Vec<String>,
    /// Unix sockets that may be connected to and bound, by path.
    pub allow_unix_sockets: Vec<String>,
}

impl NetworkRulesWithout {
    pub(crate) fn to_json(&self) -> Value {
        let mut object = Map::new();
        if !self.allowed_domains.is_empty() {
            object.insert("allowedDomains".into(), json!(self.allowed_domains));
        }
        if !self.denied_domains.is_empty() {
            object.insert("deniedDomains".into(), json!(self.denied_domains));
        }
        if !self.private_domains.is_empty() {
            object.insert("privateDomains".into(), json!(self.private_domains));
        }
        if !self.hosts.is_empty() {
            object.insert("hosts".into(), json!(self.hosts));
        }
        if !self.allow_unix_sockets.is_empty() {
            object.insert("allowUnixSockets".into(), json!(self.allow_unix_sockets));
        }
        object.into()
    }
}

/// The keys in `environment`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EnvironmentRules {
    /// variables of the caller that the command gets; all, without this key.
    pub allow: Option<Vec<String>>,
    /// variables that it does not get, even if allow has them.
    pub deny: Vec<String>,
    /// variables with their values.
    pub set: BTreeMap<String, Option<String>>,
}

impl EnvironmentRules {
    pub(crate) fn to_json(&self) -> Value {
        let mut object = Map::new();
        if self.allow.is_some() {
            object.insert("allow".into(), json!(self.allow));
        }
        if !self.deny.is_empty() {
            object.insert("deny".into(), json!(self.deny));
        }
        if !self.set.is_empty() {
            object.insert("set".into(), json!(self.set));
        }
        object.into()
    }
}

/// The lists in `environment`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EnvironmentRulesWithout {
    /// variables that it does not get, even if allow has them.
    pub deny: Vec<String>,
}

impl EnvironmentRulesWithout {
    pub(crate) fn to_json(&self) -> Value {
        let mut object = Map::new();
        if !self.deny.is_empty() {
            object.insert("deny".into(), json!(self.deny));
        }
        object.into()
    }
}

/// The keys in `limits`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LimitsRules {
    /// how much memory the command and all that it starts may use together.
    pub memory: Option<u64>,
    /// how many processes and threads there may be at a time.
    pub processes: Option<u64>,
    /// how much processor time they may take together.
    pub cpu_seconds: Option<u64>,
    /// how long the run may take.
    pub wall_seconds: Option<u64>,
    /// how long each file may become.
    pub file_size: Option<u64>,
}

impl LimitsRules {
    pub(crate) fn to_json(&self) -> Value {
        let mut object = Map::new();
        if self.memory.is_some() {
            object.insert("memory".into(), json!(self.memory));
        }
        if self.processes.is_some() {
            object.insert("processes".into(), json!(self.processes));
        }
        if self.cpu_seconds.is_some() {
            object.insert("cpuSeconds".into(), json!(self.cpu_seconds));
        }
        if self.wall_seconds.is_some() {
            object.insert("wallSeconds".into(), json!(self.wall_seconds));
        }
        if self.file_size.is_some() {
            object.insert("fileSize".into(), json!(self.file_size));
        }
        object.into()
    }
}

/// The keys in `report`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReportRules {
    /// whether refused reads are watched and reported.
    pub reads: Option<bool>,
    /// whether refusals are kept for landstrip --denials.
    pub keep: Option<bool>,
}

impl ReportRules {
    pub(crate) fn to_json(&self) -> Value {
        let mut object = Map::new();
        if self.reads.is_some() {
            object.insert("reads".into(), json!(self.reads));
        }
        if self.keep.is_some() {
            object.insert("keep".into(), json!(self.keep));
        }
        object.into()
    }
}

/// The keys in `ask`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AskRules {
    /// how long a question of landstrip --ask waits for its answer; 60 by default.
    pub timeout_seconds: Option<u64>,
}

impl AskRules {
    pub(crate) fn to_json(&self) -> Value {
        let mut object = Map::new();
        if self.timeout_seconds.is_some() {
            object.insert("timeoutSeconds".into(), json!(self.timeout_seconds));
        }
        object.into()
    }
}

/// Rules to take out of what a policy extends.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Without {
    /// Of `filesystem`.
    pub filesystem: FilesystemRulesWithout,
    /// Of `network`.
    pub network: NetworkRulesWithout,
    /// Of `environment`.
    pub environment: EnvironmentRulesWithout,
}

impl Without {
    pub(crate) fn to_json(&self) -> Value {
        let mut object = Map::new();
        if self.filesystem != FilesystemRulesWithout::default() {
            object.insert("filesystem".into(), self.filesystem.to_json());
        }
        if self.network != NetworkRulesWithout::default() {
            object.insert("network".into(), self.network.to_json());
        }
        if self.environment != EnvironmentRulesWithout::default() {
            object.insert("environment".into(), self.environment.to_json());
        }
        object.into()
    }
}

/// A policy, as landstrip-policy(5) describes it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Policy {
    /// the JSON Schema of policies, for editors; nothing is read from there.
    pub schema: Option<String>,
    /// presets, or files relative to this one, that this policy adds to.
    pub extends: Vec<String>,
    /// rules to take out of what this policy extends, by the same keys and words.
    pub without: Without,
    /// of which processes the command may read in /proc: all, or its own.
    pub processes: Option<String>,
    /// what is refused without a report, by words of the command line, or * for all.
    pub ignore_violations: BTreeMap<String, Vec<String>>,
    /// whether to run with less protection where another sandbox leaves no listener.
    pub enable_weaker_nested_sandbox: Option<bool>,
    /// The keys in `filesystem`.
    pub filesystem: FilesystemRules,
    /// The keys in `network`.
    pub network: NetworkRules,
    /// The keys in `environment`.
    pub environment: EnvironmentRules,
    /// The keys in `limits`.
    pub limits: LimitsRules,
    /// The keys in `report`.
    pub report: ReportRules,
    /// The keys in `ask`.
    pub ask: AskRules,
}

impl Policy {
    pub(crate) fn to_json(&self) -> Value {
        let mut object = Map::new();
        if self.schema.is_some() {
            object.insert("$schema".into(), json!(self.schema));
        }
        if !self.extends.is_empty() {
            object.insert("extends".into(), json!(self.extends));
        }
        if self.without != Without::default() {
            object.insert("without".into(), self.without.to_json());
        }
        if self.processes.is_some() {
            object.insert("processes".into(), json!(self.processes));
        }
        if !self.ignore_violations.is_empty() {
            object.insert("ignoreViolations".into(), json!(self.ignore_violations));
        }
        if self.enable_weaker_nested_sandbox.is_some() {
            object.insert(
                "enableWeakerNestedSandbox".into(),
                json!(self.enable_weaker_nested_sandbox),
            );
        }
        if self.filesystem != FilesystemRules::default() {
            object.insert("filesystem".into(), self.filesystem.to_json());
        }
        if self.network != NetworkRules::default() {
            object.insert("network".into(), self.network.to_json());
        }
        if self.environment != EnvironmentRules::default() {
            object.insert("environment".into(), self.environment.to_json());
        }
        if self.limits != LimitsRules::default() {
            object.insert("limits".into(), self.limits.to_json());
        }
        if self.report != ReportRules::default() {
            object.insert("report".into(), self.report.to_json());
        }
        if self.ask != AskRules::default() {
            object.insert("ask".into(), self.ask.to_json());
        }
        object.into()
    }
}

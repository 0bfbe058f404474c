//! What is written instead of words and forms that stand at a wrong place, or are nobody's. Pure.

use super::elsewhere;

/// Words that mean something else in another object.
const IN_OBJECTS: [(&str, &[&str], &str); 8] = [
    ("", &["timeout", "wallTime"], "write 'limits: {wallSeconds: 60}'"),
    ("filesystem", &["allow"], "write allowWrite; everything may be read but denyRead"),
    (
        "filesystem",
        &["deny", "readOnly", "readonly"],
        "write denyWrite, or denyRead for what may not be read",
    ),
    ("network", &["allow"], "write allowedDomains, or 'allowNetwork: true'"),
    ("network", &["deny", "deniedHosts", "blockedDomains"], "write deniedDomains"),
    (
        "network",
        &["allowLocalhost", "localhost", "allowLocal"],
        "write allowLocalBinding for servers of the command's own, else their addresses: 'allowedDomains: [\"127.0.0.1:8080\"]'",
    ),
    ("environment", &["unset", "remove", "block"], "write deny"),
    ("limits", &["cpu", "cpuTime"], "write cpuSeconds"),
];
/// What objects look like.
const OBJECTS: [(&str, &str); 9] = [
    ("network", "network: {allowedDomains: [example.com]}"),
    ("filesystem", "filesystem: {allowWrite: [.]}"),
    ("environment", "environment: {allow: [PATH]}"),
    ("environment.set", "set: {NAME: value}"),
    ("report", "report: {reads: false}"),
    ("without", "without: {filesystem: {denyWrite: [.vscode]}}"),
    ("ask", "ask: {timeoutSeconds: 60}"),
    ("limits", "limits: {memory: 2GiB}"),
    ("ignoreViolations", "ignoreViolations: {git: [/path]}"),
];

/// What to write instead of the key `name` of `object`.
pub(super) fn instead(name: &str, object: &str) -> Option<&'static str> {
    let is_meant =
        |(place, names, _): &&(&str, &[&str], &str)| *place == object && names.contains(&name);
    let here = IN_OBJECTS.iter().find(is_meant).map(|(_, _, text)| *text);
    here.or_else(|| elsewhere::instead(name))
}

/// How the object at `field` is written.
pub(super) fn object(field: &str) -> Option<&'static str> {
    OBJECTS.iter().find(|(name, _)| *name == field).map(|(_, text)| *text)
}

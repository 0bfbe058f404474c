//! The line about denials, in words: what to allow, what denies it, and what else can be done. Pure.

use super::{Advice, Remedy, list, quote};

impl Advice {
    /// The line for people, if there is anything to say; `unknown` is what is not known to be harmless.
    pub(super) fn line(&self, unknown: &[String]) -> Option<String> {
        let joined = |remedies: &[Remedy], text: fn(&Remedy) -> String| {
            remedies.iter().map(text).collect::<Vec<_>>().join(", ")
        };
        let named = |remedy: &Remedy| format!("{} {}", remedy.key, list(&remedy.values));
        let direct: Vec<_> = self.direct.iter().map(|host| quote(host)).collect();
        let outside = if self.settings_of_git { "run it outside" } else { "" };
        let some = |values: &[String]| if values.is_empty() { String::new() } else { list(values) };
        let parts = [
            ("to allow this", joined(&self.allow, Remedy::assignment)),
            ("denied by", joined(&self.rules, named)),
            ("a command that changes git's settings", outside.to_owned()),
            (
                "reachable only through the proxy in HTTP_PROXY, or with network.allowNetwork = true",
                some(&direct),
            ),
            (
                "the git repository begins above the working directory (start landstrip at the top of the work tree)",
                some(&self.tops),
            ),
            ("not suggested, as it opens too much", joined(&self.too_much, Remedy::need)),
            (
                "not suggested, as programs outside may run or obey what is there (run it outside)",
                some(unknown),
            ),
            (
                "not suggested, as all programs keep temporary files there (write to $TMPDIR)",
                some(&self.temporary),
            ),
            (
                "allowed, except for set-user-ID bits, capabilities, links into denied places, moves to where other rules apply, and what was replaced since the launch",
                some(&self.not_so),
            ),
            (
                "allowed, but where a path was missing no symbolic link can be created, nothing moved there, and only so many entries made in one run (run it again, or with --report all)",
                some(&self.used_up),
            ),
            (
                "not suggested, as the server there may run commands or hold keys (run it outside, or give it a server inside)",
                some(&self.servers),
            ),
            (
                "not suggested, as it is not a plain host name, or is a metadata service (reach it from outside)",
                some(&self.hosts),
            ),
            (
                "name servers cannot be reached (landstrip resolves the names in network.allowedDomains itself)",
                some(&self.name_servers),
            ),
            (
                "allowed, but its address (a private one needs network.privateDomains, a loopback one its own rule) or what was sent was refused",
                some(&self.allowed),
            ),
        ];
        let instead = self.instead.iter().map(|(what, text)| (*what, (*text).to_owned()));
        let parts = parts.into_iter().chain(instead).filter(|(_, text)| !text.is_empty());
        let parts: Vec<_> = parts.map(|(what, text)| format!("{what}: {text}")).collect();
        (!parts.is_empty()).then(|| format!("landstrip: {}\n", parts.join("; ")))
    }
}

impl Remedy {
    fn assignment(&self) -> String {
        match self.values.as_slice() {
            [value] if value == "true" => format!("{} = true", self.key),
            _ => format!("{} += {}", self.key, list(&self.values)),
        }
    }

    fn need(&self) -> String {
        format!("{} for {}", self.key, list(&self.values))
    }
}

//! Which of the caller's environment variables the command gets, and which values are set. Pure.

use super::pattern::Component;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// The rules for the command's environment. By default it gets all of the caller's.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Variables {
    /// Names and globs of those that it gets; all, if there is no list.
    pub allow: Option<Vec<Component>>,
    /// Names and globs of those that it does not get, even so.
    pub deny: Vec<Component>,
    /// The same of presets, in upper case: they hold for names in any.
    pub deny_any_case: Vec<Component>,
    /// Whether it gets none whose value is a URL with a password.
    pub deny_passwords: bool,
    /// What it gets whatever the caller has, by name.
    pub set: Vec<(String, String)>,
}

impl Variables {
    /// Whether the command gets the caller's variable `name`, as far as its name goes. Deny wins, but over a name that is
    /// allowed as it is only the same name does.
    pub fn pass(&self, name: &OsStr) -> bool {
        let name = name.as_bytes();
        let listed = |list: &[Component]| list.iter().any(|listed| listed.matches(name));
        if self.is_allowed_by_name(name) {
            return !names(&self.deny, name) && !names(&self.deny_any_case, name);
        }
        let upper = name.to_ascii_uppercase();
        let is_denied =
            listed(&self.deny) || self.deny_any_case.iter().any(|listed| listed.matches(&upper));
        self.allow.as_deref().is_none_or(listed) && !is_denied
    }

    /// The same in view of its value.
    pub fn passes(&self, name: &OsStr, value: &OsStr) -> bool {
        let is_kept = || !self.deny_passwords || self.is_allowed_by_name(name.as_bytes());
        self.pass(name) && (is_kept() || !has_password(value.as_bytes()))
    }

    fn is_allowed_by_name(&self, name: &[u8]) -> bool {
        self.allow.as_deref().is_some_and(|list| names(list, name))
    }

    /// Whether the command gets whatever the caller has.
    pub fn pass_all(&self) -> bool {
        self.allow.is_none()
            && self.deny.is_empty()
            && self.deny_any_case.is_empty()
            && !self.deny_passwords
    }

    /// What is set.
    pub fn set(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        self.set.iter().map(|(name, value)| (OsStr::new(name), OsStr::new(value)))
    }

    /// The value that `name` is set to.
    pub fn value(&self, name: &str) -> Option<&OsStr> {
        self.set().find(|(set, _)| *set == name).map(|(_, value)| value)
    }
}

/// Whether there is a URL in `value` with a user and a password (RFC 3986, section 3.2.1), a user in HTTP, which is how
/// forges and registries take tokens, or a parameter that names a secret.
fn has_password(value: &[u8]) -> bool {
    let mut rest = value;
    while let Some(at) = rest.windows(3).position(|window| window == b"://") {
        let scheme = rest[..at].to_ascii_lowercase();
        rest = &rest[at + 3..];
        let ends = |byte: &u8| byte.is_ascii_whitespace() || b"/?#\"'`<>;".contains(byte);
        let authority = rest.split(ends).next().unwrap_or_default();
        let user = authority.iter().rposition(|&byte| byte == b'@').map(|end| &authority[..end]);
        let is_token = user.is_some_and(|user| !user.is_empty() && !user.contains(&b':'))
            && (scheme.ends_with(b"http") || scheme.ends_with(b"https"));
        let password = user.and_then(|user| user.splitn(2, |&byte| byte == b':').nth(1));
        let url = rest.split(u8::is_ascii_whitespace).next().unwrap_or_default();
        let has_secret = || url.split(|byte| b"?&;#".contains(byte)).skip(1).any(is_secret);
        if is_token || password.is_some_and(|password| !password.is_empty()) || has_secret() {
            return true;
        }
    }
    false
}

/// Whether a parameter of a URL is a secret by its name.
fn is_secret(parameter: &[u8]) -> bool {
    const NAMES: &str = "accesskey apikey passwd password pwd secret sig signature token";
    let Some(end) = parameter.iter().position(|&byte| byte == b'=') else { return false };
    let mut name = parameter[..end].to_ascii_lowercase();
    name.retain(|byte| !b"_-".contains(byte));
    parameter.len() > end + 1 && NAMES.split(' ').any(|secret| name.ends_with(secret.as_bytes()))
}

/// Whether one of `list` is that name itself.
fn names(list: &[Component], name: &[u8]) -> bool {
    list.iter().any(|listed| matches!(listed, Component::Literal(exact) if **exact == *name))
}

//! What the command is told of the proxy and of its temporary directory, in the words of the common tools. Pure.

use landstrip_core::domains::proxy::Proxy;
use landstrip_core::session::launch::{Change, Told};
use rules::policy::{Needs, Network};
use std::ffi::{OsStr, OsString};
use std::net::IpAddr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The hosts that the command reaches itself, where it may run servers: there the proxy refuses what no rule names. What a
/// rule names is reached through the proxy, but an address with a port: a connect to that is led there as well, and the
/// command's own servers have the other ports.
fn direct(network: &Network) -> Vec<&'static str> {
    let is_named = |host: &str| {
        network.allowed_domains.iter().any(|rule| {
            let (named, port) = proxy_hosts::domain::split_port(rule);
            let [named, host] = [named, host].map(|it| it.trim_matches(['[', ']']));
            let is_led = port.is_some() && named.parse::<IpAddr>().is_ok();
            named.eq_ignore_ascii_case(host) && !is_led
        })
    };
    // What servers print as their address is among them, and what programs compare that take it as it stands in a URL.
    let hosts = ["localhost", "127.0.0.1", "0.0.0.0", "::1", "[::1]"].into_iter();
    hosts.filter(|host| network.allow_local_binding && !is_named(host)).collect()
}

/// The words of all of them.
pub fn words(told: Told<'_>, inherited: &dyn Fn(&str) -> Option<OsString>) -> Vec<Change> {
    let mut changes = told.proxy.map_or_else(Vec::new, |proxy| of_proxy(&told, proxy, inherited));
    if let Some(temporary) = told.temporary {
        let of_proxy = changes.iter().find(|(name, _)| **name == *JAVA);
        let options = of_proxy.map_or_else(|| inherited(JAVA), |(_, value)| value.clone());
        let java = java_options(temporary.as_os_str(), options.as_deref());
        changes.extend(java.map(|options| (OsStr::new(JAVA).into(), Some(options))));
        // Where zsh has here-documents: zshparam(1).
        changes.push((OsStr::new("TMPPREFIX").into(), Some(temporary.join("zsh").into())));
    }
    changes.extend(useless_settings_of_git(inherited));
    changes
}

/// Of the settings of git in variables either all go or none: git does not run with a part of them
/// (git-config(1), ENVIRONMENT).
fn useless_settings_of_git(inherited: &dyn Fn(&str) -> Option<OsString>) -> Vec<Change> {
    const NAMES: [&str; 3] = ["GIT_CONFIG_COUNT", "GIT_CONFIG_KEY_", "GIT_CONFIG_VALUE_"];
    // Copying all of the environment takes its time at every launch.
    if std::env::var_os(NAMES[0]).is_none() {
        return Vec::new();
    }
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    let all: Vec<_> =
        names.filter(|name| NAMES.iter().any(|prefix| name.starts_with(prefix))).collect();
    match all.iter().all(|name| inherited(name).is_some()) {
        true => Vec::new(),
        false => all.into_iter().map(|name| (OsString::from(name).into(), None)).collect(),
    }
}

fn of_proxy(
    told: &Told<'_>,
    proxy: &Proxy,
    inherited: &dyn Fn(&str) -> Option<OsString>,
) -> Vec<Change> {
    // To learn, all has to go through it.
    let direct = if proxy.permits() { Vec::new() } else { direct(told.network) };
    // Nothing in the sandbox can execute one that lies in memory: there ssh(1) goes by the name, as other programs do.
    let program = Some(proxy.program()).filter(|program| !program.starts_with("/proc"));
    let ports = proxy.addresses().map(|address| address.port());
    let mut changes = environment(ports, program, &direct, inherited);
    if proxy.permits() || Needs::of(told.network).hosts {
        changes.push(lookups(inherited));
    }
    if !proxy.permits() && Needs::of(told.network).refusals {
        changes.extend(without_retries());
    }
    changes
}

/// The variables to set and to remove.
///
/// ALL_PROXY names the HTTP proxy: CONNECT carries every protocol over TCP as well, and clients
/// that know no SOCKS fail over such a URL instead of ignoring it (Python's httpx, for one).
fn environment(
    [http, socks]: [u16; 2],
    program: Option<&Path>,
    direct: &[&str],
    inherited: &dyn Fn(&str) -> Option<OsString>,
) -> Vec<Change> {
    const HTTP: [&str; 12] = [
        "HTTP_PROXY",
        "http_proxy",
        "HTTPS_PROXY",
        "https_proxy",
        "ALL_PROXY",
        "all_proxy",
        "npm_config_proxy",
        "npm_config_https_proxy",
        "YARN_HTTP_PROXY",
        "YARN_HTTPS_PROXY",
        "PIP_PROXY",
        "CARGO_HTTP_PROXY",
    ];
    const SOCKS: [&str; 2] = ["SOCKS_PROXY", "socks_proxy"];
    const DIRECT: [&str; 3] = ["NO_PROXY", "no_proxy", "npm_config_noproxy"];

    let http_url = OsString::from(format!("http://127.0.0.1:{http}"));
    let socks_url = OsString::from(format!("socks5h://127.0.0.1:{socks}"));
    let mut changes: Vec<(&'static str, Option<OsString>)> = Vec::new();
    changes.extend(HTTP.map(|name| (name, Some(http_url.clone()))));
    changes.extend(SOCKS.map(|name| (name, Some(socks_url.clone()))));
    let list = (!direct.is_empty()).then(|| OsString::from(direct.join(",")));
    changes.extend(DIRECT.map(|name| (name, list.clone())));
    changes.push(("NODE_USE_ENV_PROXY", Some("1".into())));

    if let Some(program) = program {
        let mut ssh = inherited("GIT_SSH_COMMAND").unwrap_or_else(|| "ssh".into());
        ssh.push(" -o ");
        ssh.push(ssh_option(program, socks));
        changes.push(("GIT_SSH_COMMAND", Some(ssh)));
    }

    let mut java = inherited(JAVA).unwrap_or_default();
    if !java.is_empty() {
        java.push(" ");
    }
    // Java takes an IPv6 address in brackets alone, in which it is listed as well.
    let hosts: Vec<_> = direct.iter().copied().filter(|host| *host != "::1").collect();
    java.push(format!(
        "-Dhttp.proxyHost=127.0.0.1 -Dhttp.proxyPort={http} -Dhttps.proxyHost=127.0.0.1 \
         -Dhttps.proxyPort={http} -Dhttp.nonProxyHosts={}",
        hosts.join("|")
    ));
    changes.push((JAVA, Some(java)));
    changes.into_iter().map(|(name, value)| (OsStr::new(name).into(), value)).collect()
}

/// Has the C library look names up over TCP: answers over UDP it takes only from the address that it asked (res_send.c
/// of glibc), which nobody here has.
fn lookups(inherited: &dyn Fn(&str) -> Option<OsString>) -> Change {
    let mut options = inherited("RES_OPTIONS").unwrap_or_default();
    if !options.is_empty() {
        options.push(" ");
    }
    options.push("use-vc");
    (OsStr::new("RES_OPTIONS").into(), Some(options))
}

/// Where everything is refused, asking again is never of use, nor asking for a newer version of oneself: tools that
/// would, for up to a minute, are told not to.
fn without_retries() -> impl Iterator<Item = Change> {
    const VALUES: [(&str, &str); 9] = [
        ("BUNDLE_RETRY", "0"),
        ("CARGO_NET_RETRY", "0"),
        ("PIP_DISABLE_PIP_VERSION_CHECK", "1"),
        ("PIP_RETRIES", "0"),
        ("UV_HTTP_RETRIES", "0"),
        ("YARN_HTTP_RETRY", "0"),
        ("npm_config_fetch_retries", "0"),
        ("npm_config_update_notifier", "false"),
        ("pnpm_config_fetch_retries", "0"),
    ];
    VALUES.into_iter().map(|(name, value)| (OsStr::new(name).into(), Some(value.into())))
}

/// `ProxyCommand=...` in quotes for the shell that git starts; inside, ssh replaces `%` words and
/// starts a shell of its own (ssh_config(5)).
fn ssh_option(program: &Path, socks: u16) -> OsString {
    let quote = |text: &str| format!("'{}'", text.replace('\'', r"'\''"));
    let program = program.to_string_lossy().replace('%', "%%");
    quote(&format!("ProxyCommand={} --connect {socks} %h %p", quote(&program))).into()
}

/// What every Java virtual machine reads (JVM Tool Interface, section "JAVA_TOOL_OPTIONS").
const JAVA: &str = "JAVA_TOOL_OPTIONS";

/// The same, with the temporary directory for a runtime that asks no TMPDIR. What `options` say of it counts, for
/// it comes later. None if the path would have to be quoted.
fn java_options(temporary: &OsStr, options: Option<&OsStr>) -> Option<OsString> {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/._-+:@".contains(byte);
    temporary.as_bytes().iter().all(is_plain).then(|| {
        let mut all = OsString::from("-Djava.io.tmpdir=");
        all.push(temporary);
        if let Some(more) = options.filter(|options| !options.is_empty()) {
            all.push(" ");
            all.push(more);
        }
        all
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn variables(direct: &[&str], inherited: &[(&str, &str)]) -> Vec<(String, Option<String>)> {
        let find = |name: &str| {
            inherited.iter().find(|(key, _)| *key == name).map(|(_, value)| OsString::from(value))
        };
        environment([3128, 1080], Some(Path::new("/opt/it's/landstrip-proxy")), direct, &find)
            .into_iter()
            .map(|(name, value)| (name.into_owned(), value))
            .map(|(name, value)| {
                (name.into_string().unwrap(), value.map(|v| v.into_string().unwrap()))
            })
            .collect()
    }

    #[test]
    fn every_tool_is_told_in_its_own_words() {
        let variables =
            variables(&[], &[("JAVA_TOOL_OPTIONS", "-Xmx1g"), ("GIT_SSH_COMMAND", "ssh -v")]);
        let value = |name: &str| {
            let found = variables.iter().find(|(key, _)| key == name);
            found.unwrap_or_else(|| panic!("{name} is not changed")).1.clone()
        };
        for name in ["HTTP_PROXY", "https_proxy", "ALL_PROXY", "PIP_PROXY", "CARGO_HTTP_PROXY"] {
            assert_eq!(value(name).as_deref(), Some("http://127.0.0.1:3128"), "{name}");
        }
        assert_eq!(value("socks_proxy").as_deref(), Some("socks5h://127.0.0.1:1080"));
        assert_eq!(value("NO_PROXY"), None);
        assert!(value("JAVA_TOOL_OPTIONS").unwrap().starts_with("-Xmx1g -Dhttp.proxyHost="));
        assert!(value("GIT_SSH_COMMAND").unwrap().starts_with("ssh -v -o 'ProxyCommand="));
    }

    #[test]
    fn servers_of_the_command_are_reached_directly_unless_a_rule_names_them() {
        let of = |allow_local_binding, rules: &[&str]| {
            let allowed_domains = rules.iter().map(|rule| (*rule).to_owned()).collect();
            direct(&Network { allow_local_binding, allowed_domains, ..Network::default() })
        };
        assert_eq!(of(false, &["a.test"]), [""; 0]);
        assert_eq!(of(true, &["a.test"]), ["localhost", "127.0.0.1", "0.0.0.0", "::1", "[::1]"]);
        assert_eq!(of(true, &["LocalHost:80", "[::1]"]), ["127.0.0.1", "0.0.0.0"]);
        // These are led to the proxy by the port alone.
        assert_eq!(of(true, &["127.0.0.1:80", "[::1]:80"]), of(true, &[]));
        let variables = variables(&["localhost", "::1", "[::1]"], &[]);
        let value = |name: &str| {
            variables.iter().find(|(key, _)| key == name).and_then(|(_, value)| value.clone())
        };
        assert_eq!(value("no_proxy").as_deref(), Some("localhost,::1,[::1]"));
        let java = value("JAVA_TOOL_OPTIONS").unwrap();
        assert!(java.ends_with(" -Dhttp.nonProxyHosts=localhost|[::1]"), "{java}");
    }

    #[test]
    fn the_proxy_command_survives_two_shells() {
        let option = ssh_option(Path::new("/opt/it's 100%/landstrip-proxy"), 1080);
        let script = format!("printf %s {}", option.to_str().unwrap());
        let shell = |script: &str| {
            let output = Command::new("sh").args(["-c", script]).output().unwrap();
            String::from_utf8(output.stdout).unwrap()
        };
        let first = shell(&script);
        let command = first.strip_prefix("ProxyCommand=").unwrap();
        let second = shell(&format!("printf '<%s>' {}", command.replace("%%", "%")));
        assert_eq!(second, "</opt/it's 100%/landstrip-proxy><--connect><1080><%h><%p>");
    }
}

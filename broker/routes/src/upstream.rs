//! The proxy that the caller uses, for landstrip's own to go through.
//!
//! A variable with another host always names one. With a loopback host it gives the port of
//! landstrip's own proxy, by the contract; but where something listens already, that is the caller's
//! proxy (many who are behind one run a helper on their own host), and landstrip's takes another
//! port.

use rules::policy::Network;
use rules::proxies::{CallerProxies, CallerProxy};
use std::ffi::{OsStr, OsString};
use std::net::TcpListener;
use std::os::unix::ffi::OsStrExt;

/// What landstrip's proxy goes through.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Upstreams<'a> {
    /// For plain HTTP.
    pub requests: Option<&'a CallerProxy>,
    /// For everything else.
    pub tunnels: Option<&'a CallerProxy>,
}

/// The ports that landstrip's own proxies are to have, for HTTP and for SOCKS.
pub fn own_ports(network: &Network, is_served: &dyn Fn(&CallerProxy) -> bool) -> [Option<u16>; 2] {
    let own = |port: Option<u16>, caller: &Option<CallerProxy>| {
        let is_callers = |caller: &CallerProxy| caller.loopback_port() == port && is_served(caller);
        port.filter(|_| !caller.as_ref().is_some_and(is_callers))
    };
    let Network { callers, .. } = network;
    [own(network.http_proxy_port, &callers.http), own(network.socks_proxy_port, &callers.socks)]
}

/// Chooses among the proxies of the caller, given the ports of landstrip's own.
///
/// # Errors
/// Says why one cannot be gone through, or should not.
pub fn choose<'a>(
    network: &'a Network,
    own: [Option<u16>; 2],
    is_served: &dyn Fn(&CallerProxy) -> bool,
) -> Result<Upstreams<'a>, String> {
    let CallerProxies { http, https, all, socks, .. } = &network.callers;
    let is_upstream = |caller: &&CallerProxy| match caller.loopback_port() {
        None => true,
        port => !own.contains(&port) && is_served(caller),
    };
    let first = |order: [&'a Option<CallerProxy>; 4]| order.into_iter().flatten().find(is_upstream);
    let chosen = Upstreams {
        requests: first([http, all, socks, https]),
        tunnels: first([https, all, socks, http]),
    };
    for caller in [chosen.requests, chosen.tunnels].into_iter().flatten() {
        let variable = caller.variable;
        let fail = |reason: &str| Err(format!("{variable} {reason}"));
        if !caller.is_supported {
            return fail(
                "names an upstream proxy in a protocol that is not supported: only http:// and \
                 socks5:// are, not TLS to the proxy itself",
            );
        }
        // As soon as that proxy ends, the command could listen in its place.
        if network.allow_local_binding && caller.secret.is_some() && !caller.loopback.is_empty() {
            return fail(
                "names a proxy on this host with a password, which a server of the command could \
                 get to see: leave out network.allowLocalBinding, or the password",
            );
        }
    }
    Ok(chosen)
}

/// Whether something listens where the caller has a proxy on this host: then nobody else can bind
/// that address.
pub fn is_served(caller: &CallerProxy) -> bool {
    caller.loopback.iter().any(|address| match TcpListener::bind(address) {
        Ok(_) => false,
        Err(error) => error.kind() == std::io::ErrorKind::AddrInUse,
    })
}

/// The variables whose value contains the credentials of one of the caller's proxies, or of one that
/// the command cannot `reach` itself.
pub fn variables_with_secrets<I: Iterator<Item = (OsString, OsString)>>(
    callers: &CallerProxies,
    reach: impl Fn(&CallerProxy) -> bool,
    environment: impl FnOnce() -> I,
) -> Vec<OsString> {
    let kept = callers.iter().filter(|caller| !reach(caller));
    let secrets: Vec<String> =
        kept.filter_map(|caller| caller.secret.as_deref()).flat_map(marks).collect();
    if secrets.is_empty() {
        // Most callers have none, and copying an environment takes its time at every launch.
        return Vec::new();
    }
    let shows = |value: &OsStr| secrets.iter().any(|secret| contains(value, secret));
    environment().filter(|(_, value)| shows(value)).map(|(name, _)| name).collect()
}

/// The variables with credentials of no use to a command without a proxy of landstrip's: those for
/// proxies that it cannot reach itself.
pub fn useless_secrets(network: &Network) -> Vec<OsString> {
    let ports = [network.http_proxy_port, network.socks_proxy_port];
    let reach = |caller: &CallerProxy| {
        network.allow_network
            || caller.loopback_port().is_some_and(|port| ports.contains(&Some(port)))
    };
    variables_with_secrets(&network.callers, reach, std::env::vars_os)
}

/// What shows that a text has the user and password of `authority`, for whatever host and port. A user
/// alone can be a secret too, and can be in every address of mail.
fn marks(authority: &str) -> Vec<String> {
    let (user, _) = authority.rsplit_once('@').unwrap_or((authority, ""));
    match user.contains(':') {
        true => vec![format!("{user}@")],
        false => vec![format!("//{user}@"), authority.to_owned()],
    }
}

fn contains(value: &OsStr, part: &str) -> bool {
    value.as_bytes().windows(part.len()).any(|window| window == part.as_bytes())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use policy::callers::parse;
    use proxy_url::Protocol;

    fn network(variables: &[(&'static str, &str)]) -> Network {
        let find = |name: &'static str, default| {
            let (_, text) = variables.iter().find(|(variable, _)| *variable == name)?;
            Some(parse(name, text, default).unwrap())
        };
        let callers = CallerProxies {
            http: find("HTTP_PROXY", Protocol::Http),
            https: find("HTTPS_PROXY", Protocol::Http),
            all: find("ALL_PROXY", Protocol::Http),
            socks: find("SOCKS_PROXY", Protocol::Socks5),
            direct: None,
        };
        let port = |caller: &Option<CallerProxy>| caller.as_ref()?.loopback_port();
        Network {
            http_proxy_port: port(&callers.http),
            socks_proxy_port: port(&callers.socks),
            callers,
            ..Network::default()
        }
    }

    fn chosen(network: &Network, served: bool) -> [Option<&'static str>; 2] {
        let own = own_ports(network, &|_| served);
        let upstreams = choose(network, own, &|_| served).unwrap();
        [upstreams.requests, upstreams.tunnels].map(|found| found.map(|caller| caller.variable))
    }

    #[test]
    fn each_kind_of_traffic_goes_where_its_variable_says_else_where_another_does() {
        let (http, https) = (("HTTP_PROXY", "http://h:1"), ("HTTPS_PROXY", "http://s:1"));
        let (all, socks) = (("ALL_PROXY", "socks5://a:1"), ("SOCKS_PROXY", "k:1"));
        for (variables, expected) in [
            (&[][..], [None, None]),
            (&[http], [Some("HTTP_PROXY"), Some("HTTP_PROXY")]),
            (&[https], [Some("HTTPS_PROXY"), Some("HTTPS_PROXY")]),
            (&[http, https, all, socks], [Some("HTTP_PROXY"), Some("HTTPS_PROXY")]),
            (&[all, socks], [Some("ALL_PROXY"), Some("ALL_PROXY")]),
            (&[http, all], [Some("HTTP_PROXY"), Some("ALL_PROXY")]),
            (&[socks], [Some("SOCKS_PROXY"), Some("SOCKS_PROXY")]),
        ] {
            assert_eq!(chosen(&network(variables), false), expected, "{variables:?}");
        }
    }

    #[test]
    fn a_loopback_proxy_is_an_upstream_only_where_something_listens() {
        let local =
            network(&[("HTTP_PROXY", "127.0.0.1:3128"), ("HTTPS_PROXY", "http://127.0.0.1:3128")]);
        assert_eq!(own_ports(&local, &|_| false), [Some(3128), None]);
        assert_eq!(chosen(&local, false), [None, None]);
        assert_eq!(own_ports(&local, &|_| true), [None, None]);
        assert_eq!(chosen(&local, true), [Some("HTTP_PROXY"), Some("HTTPS_PROXY")]);
        // The policy's port is landstrip's own whatever the environment says.
        let mut both = network(&[("HTTP_PROXY", "127.0.0.1:3128")]);
        both.http_proxy_port = Some(8080);
        assert_eq!(own_ports(&both, &|_| true), [Some(8080), None]);
        assert_eq!(chosen(&both, true), [Some("HTTP_PROXY"), Some("HTTP_PROXY")]);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let text = listener.local_addr().unwrap().to_string();
        let caller = parse("HTTP_PROXY", &text, Protocol::Http).unwrap();
        assert!(is_served(&caller));
        drop(listener);
        assert!(!is_served(&caller));
    }

    #[test]
    fn what_cannot_be_gone_through_is_an_error_that_shows_no_password() {
        let tls = network(&[("HTTPS_PROXY", "https://u:secret@proxy:443")]);
        let mut exposed = network(&[("HTTP_PROXY", "http://u:secret@127.0.0.1:3128")]);
        exposed.allow_local_binding = true;
        for (network, expected) in [(&tls, "not TLS"), (&exposed, "allowLocalBinding")] {
            let Err(message) = choose(network, [None; 2], &|_| true) else {
                panic!("{network:?} is accepted");
            };
            assert!(message.contains(expected) && !message.contains("secret"), "{message}");
        }
        exposed.allow_local_binding = false;
        assert!(choose(&exposed, [None; 2], &|_| true).is_ok());
    }

    #[test]
    fn variables_with_the_password_are_found_whatever_their_name() {
        let callers = network(&[("HTTP_PROXY", "http://u:secret@proxy:1/")]).callers;
        let environment = [
            ("HTTP_PROXY", "http://u:secret@proxy:1/"),
            ("MY_TOOL_PROXY", "u:secret@proxy:1"),
            ("FTP_PROXY", "ftp://u:secret@proxy:21/"),
            ("RSYNC_PROXY", "u:secret@other:873"),
            ("OTHER", "u:secret"),
            ("MAIL", "u@proxy:1"),
        ];
        let environment = environment.map(|(name, value)| (name.into(), value.into()));
        assert_eq!(
            variables_with_secrets(&callers, |_| false, || environment.into_iter()),
            ["HTTP_PROXY", "MY_TOOL_PROXY", "FTP_PROXY", "RSYNC_PROXY"]
        );
    }
}

//! Reports of denials, and of why landstrip gave up, as the lines that they are written as.

use crate::advice::launch;
use common::trap::{FileOperation, NetworkOperation, string, write_internal};
use landstrip_core::report::denials::Denial;
use landstrip_core::report::errno::strerror;
use landstrip_core::report::failure::Failure;
use std::io::Write;

/// A report of texts, by its kind.
pub(crate) fn list(kind: &str, items: &[&[u8]]) -> String {
    let items: Vec<_> = items.iter().map(|item| quoted(item)).collect();
    format!("{{\"{kind}\":[{}]}}\n", items.join(","))
}

/// A report of landstrip's own, of keys and values.
pub(crate) fn internal(pairs: &[(&str, &[u8])]) -> String {
    let mut line = String::new();
    // Writing to a String cannot fail.
    let _ = write_internal(&mut line, pairs);
    line
}

/// A text as the lines have it.
pub(crate) fn quoted(text: &[u8]) -> String {
    let mut quoted = String::new();
    // The same.
    let _ = string(&mut quoted, text);
    quoted
}

/// Prints why landstrip gave up, with what can be done about it.
pub fn print(failure: &Failure) {
    // A closed standard error leaves only the exit status to tell.
    let _ = std::io::stderr().write_all(failure_line(failure).as_bytes());
}

/// The report of it.
pub(crate) fn failure_line(failure: &Failure) -> String {
    let advice = launch::about(failure).unwrap_or_default();
    let of_source = |source: &str, message: &str| {
        internal(&[("source", source.as_bytes()), ("message", message.as_bytes())])
    };
    match failure {
        Failure::Usage(message) => format!("{{\"Usage\":{}}}\n", quoted(message.as_bytes())),
        Failure::Pairs(pairs) => {
            let pairs = pairs.iter().map(|(key, value)| (*key, value.as_bytes()));
            internal(&pairs.collect::<Vec<_>>())
        }
        Failure::Launch(tool, errno, why) => {
            let message = format!("{}{why}{advice}", strerror(*errno));
            list("Launch", &[tool, message.as_bytes()])
        }
        Failure::Step(..) | Failure::Lacking(_) => of_source("platform", &advice),
        Failure::Internal(source, message) => of_source(source, &format!("{message}{advice}")),
        Failure::Died => {
            of_source("launch", &format!("the process that was to run the tool was killed{advice}"))
        }
        Failure::Uncounted(why) => of_source("limits", &why.to_string()),
        Failure::Limit(limit, most) => {
            let message = format!(
                "the command was ended: it and all that it started exceeded {limit} of the policy"
            );
            internal(&[
                ("source", b"limits"),
                ("limit", limit.as_bytes()),
                ("value", most.to_string().as_bytes()),
                ("message", message.as_bytes()),
            ])
        }
        Failure::LeftBehind => {
            let message = "a process of the command does not end: it waits inside the kernel";
            of_source("teardown", message)
        }
    }
}

/// The line of a denial: operation, target, and the layer that detected it.
pub(crate) fn denial_line(denial: &Denial) -> String {
    let (kind, operation) = match denial {
        Denial::File(FileOperation::Read, _) => ("Filesystem", "read"),
        Denial::File(FileOperation::Write, _) => ("Filesystem", "write"),
        Denial::Network(NetworkOperation::Bind, _) => ("Network", "bind"),
        _ => ("Network", "connect"),
    };
    let layer = match denial {
        Denial::Domain(_) | Denial::Lookup { by_proxy: true, .. } => "proxy",
        _ => "seccomp",
    };
    list(kind, &[operation.as_bytes(), denial.target(), layer.as_bytes()])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn each_failure_has_the_shape_of_the_contract() {
        for (failure, expected) in [
            (
                Failure::Usage("unknown option '--bogus'".to_owned()),
                r#"{"Usage":"unknown option '--bogus'"}"#,
            ),
            (
                Failure::Launch(b"/prog".to_vec(), rustix::io::Errno::NOENT, String::new()),
                r#"{"Launch":["/prog","No such file or directory"]}"#,
            ),
            (
                Failure::Pairs(vec![("source", "policy".to_owned()), ("file", "/p".to_owned())]),
                r#"{"Internal":{"source":"policy","file":"/p"}}"#,
            ),
            (
                Failure::Internal("limits", "too few".to_owned()),
                r#"{"Internal":{"source":"limits","message":"too few"}}"#,
            ),
        ] {
            assert_eq!(failure_line(&failure), format!("{expected}\n"));
        }
    }

    #[test]
    fn each_kind_has_the_shape_of_the_contract() {
        let file = |operation| Denial::file(operation, Path::new("/repo/out"));
        let network = |operation| Denial::Network(operation, b"93.184.216.34:443".to_vec());
        for (denial, expected) in [
            (file(FileOperation::Read), r#"{"Filesystem":["read","/repo/out","seccomp"]}"#),
            (file(FileOperation::Write), r#"{"Filesystem":["write","/repo/out","seccomp"]}"#),
            (
                network(NetworkOperation::Connect),
                r#"{"Network":["connect","93.184.216.34:443","seccomp"]}"#,
            ),
            (
                network(NetworkOperation::Bind),
                r#"{"Network":["bind","93.184.216.34:443","seccomp"]}"#,
            ),
            (
                Denial::Network(NetworkOperation::Bind, b"[::1]:1".to_vec()),
                r#"{"Network":["bind","[::1]:1","seccomp"]}"#,
            ),
            (
                Denial::Datagram(b"[::1]:1".to_vec()),
                r#"{"Network":["connect","[::1]:1","seccomp"]}"#,
            ),
            (Denial::lookup(None), r#"{"Network":["connect","name lookup (UDP)","seccomp"]}"#),
            (
                Denial::unknown(b"new.test"),
                r#"{"Network":["connect","name lookup of new.test","proxy"]}"#,
            ),
            (
                Denial::Domain(b"new.test:443".to_vec()),
                r#"{"Network":["connect","new.test:443","proxy"]}"#,
            ),
        ] {
            assert_eq!(denial_line(&denial), format!("{expected}\n"));
        }
    }
}

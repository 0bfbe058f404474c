//! Values of a policy, as they are shown. Pure.

use crate::reports::lines::quoted;

/// Most values that are shown for one key.
const VALUES_MAX: usize = 8;

pub(crate) fn list(values: &[String]) -> String {
    let shown = values.iter().take(VALUES_MAX).map(String::as_str);
    let rest = values.len().saturating_sub(VALUES_MAX);
    let rest = (rest > 0).then(|| format!("and {rest} more"));
    format!("[{}]", shown.chain(rest.as_deref()).collect::<Vec<_>>().join(", "))
}

pub(crate) fn quote(text: &str) -> String {
    quoted(text.as_bytes())
}

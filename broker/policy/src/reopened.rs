//! What `--check` says of paths that are opened again inside denied ones.

use super::paths::Grant;
use super::remarks::Remarks;
use rules::files::Files;
use rules::paths::{Rules, covers};

/// Says what is opened again inside which denied path, or why it is not.
pub(super) fn name(files: &Files, inside: &[Grant], remarks: &mut Remarks) {
    let rules = Rules::new(files);
    for Grant { path, origin, .. } in inside {
        let denied = path.parent().and_then(|around| {
            files.deny_write.iter().find(|rule| covers(std::slice::from_ref(*rule), around))
        });
        let message = match denied {
            Some(rule) if rules.access(path).write => {
                let path = path.display();
                remarks.note(origin.error(format!("opens {path} again inside {rule}")).to_string());
                continue;
            }
            None if covers(&files.deny_write, path) => {
                "opens nothing: denyWrite names the same path, and wins; name what is inside"
            }
            None => "opens nothing: no denyWrite denies what is around it",
            Some(_) => {
                "opens nothing: a rule denies it further inside, or no allowWrite reaches it"
            }
        };
        remarks.warn(origin.error(format!("{}: {message}", path.display())).to_string());
    }
}

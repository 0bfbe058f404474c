//! access(2) and its kin: what may be done, as the rules say and the file system does. Landlock does not
//! know these calls. Programs act on the answer: compilers choose a directory for what they write, git
//! a configuration that it reads.

use super::look;
use super::path;
use super::shared::Shared;
use super::view::View;
use super::walk::Lost;
use crate::call::decode::Question;
use crate::report::denials::Denial;
use crate::report::traps::Traps;
use kernel::object::Object;
use kernel::target::Target;
use rules::memory;
use rules::paths::Access;
use rustix::fs::{self, AtFlags};
use rustix::io::{self, Errno};
use std::path::Path;

/// Answers `question`, and notes where rules make that a no.
pub(super) fn ask(
    view: &View,
    shared: Option<&Shared>,
    target: Target,
    question: &Question,
    traps: &Traps,
) -> Result<io::Result<()>, Lost> {
    const FLAGS: AtFlags =
        AtFlags::EACCESS.union(AtFlags::SYMLINK_NOFOLLOW).union(AtFlags::EMPTY_PATH);
    let &Question { arg, mode, flags } = question;
    let asked = fs::Access::from_bits(mode).filter(|_| FLAGS.contains(flags));
    let Some(asked) = asked else { return Ok(Err(Errno::INVAL)) };
    let path = target.read_path(arg.path)?;
    let object = match shared.and_then(|shared| shared.find(&path)) {
        Some(found) => found?,
        None => path::resolve(target, arg.directory, &path, flags)?,
    };
    if let Err(errno) = object.access(asked, flags & AtFlags::EACCESS) {
        return Ok(Err(errno));
    }
    let wanted = Access {
        read: asked.contains(fs::Access::READ_OK),
        write: asked.contains(fs::Access::WRITE_OK),
    };
    let is_denied = view.denies_object(object.identity(), wanted)
        || match shared.filter(|_| object.path().is_ok_and(|path| path == Path::new(memory::PLACE)))
        {
            Some(shared) => !view.rules.access(&shared.path).covers(wanted),
            None => is_denied(&object, wanted, view, traps),
        };
    Ok(if is_denied { Err(Errno::ACCESS) } else { Ok(()) })
}

/// Whether the rules deny what is `wanted`, which is noted.
fn is_denied(object: &Object, wanted: Access, view: &View, traps: &Traps) -> bool {
    let Some((denied, path)) = look::denied(object, wanted, view) else { return false };
    let reported = look::worth_reporting(object, denied);
    if let Some(operation) = reported.filter(|operation| traps.wants(*operation)) {
        traps.sink().note_question(Denial::file(operation, &path));
    }
    true
}

//! What the file rules mean on this machine, now: the ruleset for the command, and the view that the
//! broker judges by.

use super::device_mounts::DeviceMounts;
use super::grants::Builder;
use super::ruleset;
use crate::files::reserve::{Need, Reserve};
use crate::files::trees::Trees;
use crate::files::view::{Added, Grants, Reads, View};
use crate::report::failure::Failure;
use kernel::features::Features;
use kernel::identity::{Fronts, Identity, hold, identity};
use kernel::mounts::Mount;
use rules::files::Files;
use rules::paths::{Access, Kind, Rules};
use rules::pattern::Pattern;
use rustix::fd::OwnedFd;
use rustix::fs::{FileType, Stat};
use rustix::io::Errno;
use std::collections::{BTreeSet, HashMap};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Compiles `files` into the view and the ruleset, which `restrict_network` also takes TCP away. What is
/// in `reserve` is granted with all that will be in it.
/// Landlock has these `features`. `rules` are those of `files`, with what they remember.
pub(crate) fn compile(
    (files, rules): (&Files, Rules),
    mounts: &[Mount],
    features: Features,
    restrict_network: bool,
    reserve: impl FnOnce() -> Option<Reserve>,
) -> Result<(View, OwnedFd), Failure> {
    let granted = grant((files, rules), mounts, features, restrict_network);
    // It is removed with what follows, whatever that is. It is made meanwhile, which can take as long.
    let mut reserve = reserve();
    let (mut builder, mut view, ungranted) = granted?;
    if let Some(reserve) = &reserve {
        builder.grant_reserve(reserve)?;
    }
    let Builder { mut grants, ruleset, .. } = builder;
    let can_wait = grants.reads == Reads::Exact && !files.hides_processes && !files.grow;
    let missing = ungranted.iter().filter_map(|(path, above)| path.strip_prefix(above).ok());
    grants.exception_names.extend(missing.flatten().map(OsStr::to_owned));
    let above: BTreeSet<_> = ungranted.iter().map(|(_, above)| above.as_path()).collect();
    let made: Vec<_> = ungranted.iter().map(|(path, _)| (path, view.rules.cursor(path))).collect();
    let is_partial =
        made.iter().flat_map(|(_, cursor)| cursor).any(|cursor| !cursor.is_settled(Kind::Write));
    let needs =
        [Need::File, Need::Execution].into_iter().chain(is_partial.then_some(Need::Reading));
    let is_served = ungranted.is_empty()
        || can_wait
            && made.iter().all(|(path, cursor)| {
                !view.openings.contains(path)
                    && cursor.as_ref().is_some_and(|cursor| cursor.is_settled(Kind::Read))
            })
            && reserve
                .as_mut()
                .is_some_and(|reserve| reserve.serve_reads_in(above.into_iter(), needs));
    // The same of what is made where that is allowed later.
    if !is_served || files.grow && !files.deny_read.is_empty() {
        grants.reads = grants.reads.max(Reads::Less);
    }
    // Landlock knows no process from another, and a rule for the command's own can be added to nobody's.
    if files.hides_processes {
        grants.reads = Reads::More;
    }
    view.grants = Arc::new(grants);
    view.reserve = reserve.map(Arc::new);
    Ok((view, ruleset))
}

/// Allowed paths that are missing, in which what the command makes Landlock lets nobody read, but what it was told of
/// before; each with what is above.
type Ungranted = Vec<(PathBuf, PathBuf)>;

/// All that does not depend on the reserve: of the view all but what is granted.
fn grant(
    (files, rules): (&Files, Rules),
    mounts: &[Mount],
    features: Features,
    restrict_network: bool,
) -> Result<(Builder, View, Ungranted), Failure> {
    let (ruleset, handled) = ruleset::create(features, restrict_network)?;
    let places = DeviceMounts::among(mounts, files.watches_reads);
    let mut builder = Builder::new(ruleset, handled, places);
    builder.grant_trees(&rules, mounts)?;
    builder.grant_devices(files, &rules)?;
    builder.grant_standard_streams()?;
    let Grants { writable, unlistable, .. } = &builder.grants;
    let mut held = Vec::new();
    let roots = roots(&files.allow_write, writable, &mut held)?;
    let inside = self::roots(&files.allow_write_inside, writable, &mut held)?.into_iter();
    let openings: Vec<_> =
        inside.filter(|(_, found)| found.is_none()).map(|(path, _)| path).collect();
    let missing = roots.iter().filter(|(_, found)| found.is_none()).map(|(path, _)| path);
    let mut fronts = Fronts::default();
    let ungranted = missing
        .chain(&openings)
        .filter_map(|path| Some((path, fronts.nearest(path)?)))
        .filter(|(_, above)| unlistable.contains_key(*above))
        .map(|(path, above)| (path.clone(), above.to_owned()))
        .collect();
    let named = named_files(files, &rules, &mut held)?;
    let view = View {
        rules,
        git_links: files.git_links.clone(),
        grants: Arc::default(),
        brokers_truncation: !features.contains(Features::TRUNCATION),
        shared_input: None,
        temporary: None,
        named: Arc::new(named),
        roots,
        openings,
        reserve: None,
        _held: Arc::new(held),
        brokers_processes: files.watches_reads,
        grows: files.grow,
        added: Added::default(),
    };
    Ok((builder, view, ungranted))
}

/// The allowed paths, and the objects that they are at launch, if they are there: what was granted there, or
/// what is there, which is added to `held`.
fn roots(
    paths: &[PathBuf],
    granted: &Trees<Identity>,
    held: &mut Vec<OwnedFd>,
) -> Result<Vec<(PathBuf, Option<Identity>)>, Failure> {
    let mut roots = Vec::with_capacity(paths.len());
    for path in paths {
        let at_launch = match granted.get(path) {
            Some(granted) => Some(*granted),
            None => look_at(path)?.map(|(object, stat)| {
                held.push(object);
                identity(&stat)
            }),
        };
        roots.push((path.clone(), at_launch));
    }
    Ok(roots)
}

/// The files that the deny lists name, which are added to `held`, and what the rules leave of them.
fn named_files(
    files: &Files,
    rules: &Rules,
    held: &mut Vec<OwnedFd>,
) -> Result<HashMap<Identity, Access>, Failure> {
    let mut named: HashMap<Identity, Access> = HashMap::new();
    let denied = files.deny_write.iter().chain(&files.deny_read);
    for path in denied.filter_map(Pattern::as_file) {
        let Some((object, stat)) = look_at(&path)? else { continue };
        if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile {
            let here = rules.access(&path);
            let left = named.entry(identity(&stat)).or_insert(here);
            *left = Access { read: left.read && here.read, write: left.write && here.write };
            held.push(object);
        }
    }
    Ok(named)
}

/// Holds what a path of the policy names; nothing if it is not there, or if this user may not reach
/// it: then the command may not either.
fn look_at(path: &Path) -> Result<Option<(OwnedFd, Stat)>, Failure> {
    match hold(path) {
        Ok(found) => Ok(Some(found)),
        // EINVAL: no file has such a name, as one with NUL, which a file in a tree can name.
        Err(Errno::NOENT | Errno::NOTDIR | Errno::ACCESS | Errno::INVAL) => Ok(None),
        Err(errno) => Err(Failure::platform("cannot look at", path, errno)),
    }
}

//! What may be done with a path: asked of the view and the rules for addresses, as a run would be judged.

use super::InForce;
use super::answer::{Answer, Layer, Rule};
use kernel::identity::hold;
use kernel::locate::locate;
use kernel::object::Object;
use kernel::proc;
use landstrip_core::files::look;
use landstrip_core::files::moves::{self, Beneath};
use landstrip_core::files::view::{Decider, Reads, View};
use policy::origins::Origins;
use rules::address::{AddressVerdict, Endpoint};
use rules::memory;
use rules::paths::{Access, Cursor, Kind, covers};
use rustix::fs::{self, FileType};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Whether the command sees in proc(5) of its own processes alone.
pub(super) fn hides_processes(view: &View) -> bool {
    view.grants.reads == Reads::More || view.brokers_processes
}

/// What may be done with `word`, and the path that it leads to.
pub(crate) fn about(in_force: &InForce<'_>, word: &Path) -> Result<(PathBuf, Vec<Answer>), String> {
    let home = word.strip_prefix("~").ok().zip(in_force.caller.home.as_ref());
    let absolute = match home {
        Some((rest, home)) => home.join(rest),
        None => in_force.caller.cwd.join(word),
    };
    let cannot = |why: String| format!("{}: {why}", word.display());
    let located = locate(&absolute).map_err(|error| cannot(error.to_string()))?;
    if located.of_process && absolute.symlink_metadata().is_err() {
        let why = "it does not exist, and only the kernel creates entries in proc(5)";
        return Ok((absolute, vec![Answer::no("create", Layer::FileSystem, why)]));
    }
    if located.of_process {
        let why = "its meaning depends on the process; a command can reopen what it holds";
        return Ok((absolute, vec![Answer::yes("read", Layer::Landlock, why)]));
    }
    let path = located.path;
    let cursor = in_force.judges.view.rules.cursor(&path);
    let cursor = cursor.ok_or_else(|| cannot("it has no canonical path".to_owned()))?;
    let place = Place { in_force, path: &path, cursor };
    let answers = match hold(&path).and_then(|(object, _)| Object::of(object)) {
        Ok(object) => Subject { place, object }.answers(),
        Err(Errno::NOENT | Errno::NOTDIR) => place.answers(),
        Err(Errno::ACCESS) => {
            let why = "a directory in its path may not be searched";
            ["read", "write"].map(|action| Answer::no(action, Layer::FileSystem, why)).into()
        }
        Err(errno) => return Err(cannot(std::io::Error::from(errno).to_string())),
    };
    Ok((path, answers))
}

/// A path, whether there is something or not.
struct Place<'a> {
    in_force: &'a InForce<'a>,
    path: &'a Path,
    cursor: Cursor,
}

/// What is there.
struct Subject<'a> {
    place: Place<'a>,
    object: Object,
}

/// What of a process only those may read who may trace it (proc(5), ptrace(2)).
#[rustfmt::skip]
const OF_TRACERS: [&str; 13] = [
    "auxv", "environ", "io", "map_files", "maps", "mem", "numa_maps", "pagemap", "personality", "smaps", "smaps_rollup",
    "stack", "syscall",
];

impl Place<'_> {
    fn view(&self) -> &View {
        &self.in_force.judges.view
    }

    fn origins(&self) -> &Origins {
        self.in_force.origins()
    }

    /// Of what is missing.
    fn answers(&self) -> Vec<Answer> {
        let create = self.unless_refused_anyway(self.change("create"));
        let addresses = &self.in_force.judges.addresses;
        let bind = addresses.any_path().then(|| {
            let connect = match addresses.local_binding {
                true => Answer::yes("bind", Layer::Broker, "a socket of the command's own")
                    .under(Rule::of_value(self.origins(), "network.allowLocalBinding", "true")),
                false => self.connect(),
            };
            match (create.is_allowed, connect.is_allowed) {
                (true, true) => Answer { action: "bind", ..connect },
                (false, true) => Answer::no("bind", create.by, create.why.clone()),
                (_, false) => Answer { action: "bind", ..connect },
            }
        });
        self.refused_read().into_iter().chain([create]).chain(bind).collect()
    }

    /// That it may not be read, if a rule denies it.
    fn refused_read(&self) -> Option<Answer> {
        let rule = Rule::of(self.cursor.basis(Kind::Read), self.origins());
        let refused = || Answer::no("read", self.reader(), "denied").under(rule);
        (!self.cursor.access().read).then(refused)
    }

    /// Who sees to reads.
    fn reader(&self) -> Layer {
        let is_brokers = self.path.starts_with("/proc") && hides_processes(self.view());
        match self.view().grants.reads {
            Reads::More => Layer::Broker,
            _ if is_brokers => Layer::Broker,
            Reads::Exact | Reads::Less => Layer::Landlock,
        }
    }

    /// Whether the entry may be made, or removed and replaced.
    fn change(&self, action: &'static str) -> Answer {
        let (Some(directory), Some(name)) = (self.path.parent(), self.path.file_name()) else {
            return Answer::no(action, Layer::FileSystem, "it is the root directory");
        };
        if let Some((cursor, decider)) = self.view().entry(directory, name) {
            let rule = Rule::of(cursor.basis(Kind::Write), self.origins());
            return Answer::yes(action, layer(decider), "allowed").under(rule);
        }
        if action == "create" && self.view().leads_to_missing(self.path) {
            return Answer::yes(
                action,
                Layer::Broker,
                "it leads to an allowed path that is missing",
            );
        }
        if !self.cursor.access().write {
            return match action == "create" && self.is_shared_memory() {
                true => Answer::yes(action, Layer::Broker, "an object of the command's own"),
                false => self.closed(action),
            };
        }
        let kept = Rule::of(self.cursor.kept_by(), self.origins());
        let why = match kept {
            Some(_) => "it has to keep its name",
            None => "its directory may not be changed",
        };
        Answer::no(action, Layer::Landlock, why).under(kept)
    }

    /// Whether it can be an object in shared memory, of which the command has its own unless the policy names that.
    fn is_shared_memory(&self) -> bool {
        let files = &self.in_force.policy.files;
        let mut named = files.allow_read.iter().chain(&files.allow_write);
        memory::name(self.path.as_os_str().as_bytes()).is_some()
            && !named.any(|path| path.starts_with(memory::PLACE))
            && ![&files.deny_write, &files.deny_read].iter().any(|denied| covers(denied, self.path))
    }

    /// `answer`, unless the file system lets nobody change the directory that it is in.
    fn unless_refused_anyway(&self, answer: Answer) -> Answer {
        let parent = self.path.parent().and_then(|path| hold(path).ok());
        let parent = parent.and_then(|(object, _)| Object::of(object).ok());
        // One that is missing is made first.
        let Some(parent) = parent.filter(|_| answer.is_allowed) else { return answer };
        if parent.kind() != FileType::Directory {
            return Answer::no(answer.action, Layer::FileSystem, "its parent is not a directory");
        }
        if parent.permits(fs::Access::WRITE_OK | fs::Access::EXEC_OK) {
            return answer;
        }
        let why = "the owner, mode or mount of its directory does not permit it";
        Answer::no(answer.action, Layer::FileSystem, why)
    }

    /// It may not be written.
    fn closed(&self, action: &'static str) -> Answer {
        match Rule::of(self.cursor.basis(Kind::Write), self.origins()) {
            None => {
                Answer::no(action, Layer::Landlock, "nothing in filesystem.allowWrite covers it")
            }
            denied => Answer::no(action, Layer::Landlock, "denied").under(denied),
        }
    }

    /// Whether a socket of this name may be connected to.
    fn connect(&self) -> Answer {
        let addresses = &self.in_force.judges.addresses;
        let endpoint = Endpoint::UnixPath(self.path.as_os_str().as_bytes().to_vec());
        if addresses.connect(&endpoint) != AddressVerdict::ByPath
            || !addresses.unix.permit(self.path)
        {
            let why = "nothing in network.allowUnixSockets covers it";
            return Answer::no("connect", Layer::Broker, why);
        }
        let origins = self.origins();
        let rule = match addresses.unix.all {
            true => Rule::of_value(origins, "network.allowAllUnixSockets", "true"),
            false => origins
                .of_socket(self.path)
                .map(|rule| Rule::caused(&rule.cause, rule.list, rule.pattern.to_string())),
        };
        Answer::yes("connect", Layer::Broker, "allowed").under(rule)
    }
}

impl Subject<'_> {
    fn answers(&self) -> Vec<Answer> {
        let change = || self.place.unless_refused_anyway(self.unless_it_holds_denied());
        match self.object.kind() {
            FileType::Socket => {
                let connect = self.place.connect();
                vec![self.unless_refused_anyway(connect, fs::Access::WRITE_OK), change()]
            }
            FileType::RegularFile => vec![self.read(), self.write(), self.execute(), change()],
            FileType::Symlink => vec![change()],
            _ => vec![self.read(), self.write(), change()],
        }
    }

    /// Whether it may be removed, or moved away.
    fn unless_it_holds_denied(&self) -> Answer {
        let answer = self.place.change("remove");
        let is_directory = self.object.kind() == FileType::Directory;
        if !answer.is_allowed || !is_directory || answer.by == Layer::Landlock {
            return answer;
        }
        match moves::holds_denied(self.view(), self.place.path) {
            Beneath::Nothing => answer,
            Beneath::Denied => Answer::no("remove", Layer::Broker, "it holds what a rule denies"),
            Beneath::Unknown => {
                Answer::no("remove", Layer::Broker, "a rule could deny something anywhere in it")
            }
        }
    }

    fn view(&self) -> &View {
        self.place.view()
    }

    fn read(&self) -> Answer {
        self.unless_refused_anyway(self.read_by_rules(), fs::Access::READ_OK)
    }

    fn read_by_rules(&self) -> Answer {
        let Place { path, cursor, .. } = &self.place;
        if let Some(answer) = self.whatever_its_name("read", Access::READ) {
            return answer;
        }
        if let Some(refused) = self.place.refused_read() {
            return refused;
        }
        // No process is inside yet.
        if proc::owner(path).is_some() {
            if hides_processes(self.view()) {
                return Answer::no("read", Layer::Broker, "it tells of a process outside");
            }
            if path.iter().filter_map(OsStr::to_str).any(|name| OF_TRACERS.contains(&name)) {
                let why = "nothing inside may trace a process outside";
                return Answer::no("read", Layer::Landlock, why);
            }
        }
        let rule = Rule::of(cursor.basis(Kind::Read), self.place.origins());
        if self.view().is_listable(path, &self.object) {
            let why = "the broker lists it, since something in it may not be read";
            return Answer::yes("read", Layer::Broker, why).under(rule);
        }
        if !self.view().is_readable(path) {
            return Answer::no("read", Layer::Landlock, "it is not granted to this user at launch");
        }
        let why = match rule.is_some() {
            _ if self.view().denies_object(self.object.identity(), Access::READ) => {
                "a rule denies another of its names (hard links), not this one"
            }
            true => "allowed",
            false => "no rule denies it",
        };
        Answer::yes("read", self.place.reader(), why).under(rule)
    }

    fn write(&self) -> Answer {
        self.unless_refused_anyway(self.write_by_rules(), fs::Access::WRITE_OK)
    }

    fn write_by_rules(&self) -> Answer {
        if let Some(answer) = self.whatever_its_name("write", Access::WRITE) {
            return answer;
        }
        let rule = Rule::of(self.place.cursor.basis(Kind::Write), self.place.origins());
        match self.view().content(self.place.path) {
            Some(decider) => Answer::yes("write", layer(decider), "allowed").under(rule),
            None => self.place.closed("write"),
        }
    }

    /// What can be read can be executed; and what the broker alone does not let be read, since nobody asks it.
    fn execute(&self) -> Answer {
        let read = Answer { action: "execute", ..self.read_by_rules() };
        let why = match read.is_allowed {
            true => "what may be read may be executed",
            false if self.view().lets_execute(self.place.path) => {
                "only reading it is refused: Landlock lets all around it be executed"
            }
            false => return read,
        };
        let answer = Answer { is_allowed: true, by: Layer::Landlock, why: why.into(), ..read };
        self.unless_refused_anyway(answer, fs::Access::EXEC_OK)
    }

    /// Devices, standard streams, and other names of what a rule denies.
    fn whatever_its_name(&self, action: &'static str, wanted: Access) -> Option<Answer> {
        let identity = self.object.identity();
        if self.view().is_always_usable(identity, wanted) {
            return Some(Answer::yes(action, Layer::Landlock, "usable under every policy"));
        }
        let is_device =
            matches!(self.object.kind(), FileType::CharacterDevice | FileType::BlockDevice);
        if is_device
            && self.place.cursor.access().covers(wanted)
            && look::denied(&self.object, wanted, self.view()).is_some()
        {
            let why = "a device that neither filesystem.allowRead nor allowWrite names";
            return Some(Answer::no(action, Layer::Landlock, why));
        }
        let is_allowed = self.place.cursor.access().covers(wanted);
        // Where a directory is granted, Landlock lets all be read that is in it.
        let is_granted = wanted == Access::READ
            && self.place.reader() == Layer::Landlock
            && self.view().is_readable(self.place.path);
        (is_allowed && !is_granted && self.view().denies_object(identity, wanted)).then(|| {
            Answer::no(action, Layer::Broker, "a rule denies another of its names (hard links)")
        })
    }

    /// `answer`, unless the file system refuses it without a sandbox, too.
    fn unless_refused_anyway(&self, answer: Answer, access: fs::Access) -> Answer {
        if !answer.is_allowed || self.object.permits(access) {
            return answer;
        }
        let why = "the owner, mode or mount of the file does not permit it";
        Answer::no(answer.action, Layer::FileSystem, why)
    }
}

fn layer(decider: Decider) -> Layer {
    match decider {
        Decider::Landlock => Layer::Landlock,
        Decider::Broker => Layer::Broker,
    }
}

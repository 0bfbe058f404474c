//! A control group of the run's own (cgroups(7), and "Control Group v2" in the kernel's documentation), where this user
//! can make one that limits: the kernel then holds a run to what else is only counted.
//!
//! It lies below the group that landstrip was started in, so that what holds that one holds the command too. A group
//! either has processes or limits its children, but for the root of all. So landstrip moves out of its way, into a second
//! group beside, which takes that nothing else is in the group around. Both are removed with this value; what a killed
//! broker left, the next run in the same group removes.

use kernel::mounts::Mount;
use kernel::proc;
use rustix::fs::{self, Mode};
use rustix::process::{self, Pid};
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Component, Path, PathBuf};

/// What the names of groups begin with.
const NAME: &str = "landstrip-run-";
/// Which controllers the groups below have.
const SUBTREE: &str = "cgroup.subtree_control";

/// A group for the command and what it starts.
#[derive(Debug)]
pub(crate) struct ControlGroup {
    path: PathBuf,
    memory: Option<u64>,
    processes: Option<u64>,
    /// Restored after this group is gone.
    _aside: Option<Aside>,
}

/// landstrip's own processes, out of the way.
#[derive(Debug)]
struct Aside {
    around: PathBuf,
    path: PathBuf,
}

/// The group that this process is in, where it can be looked at.
pub fn own(mounts: &[Mount]) -> Option<PathBuf> {
    locate(mounts, &std::fs::read_to_string("/proc/self/cgroup").ok()?)
}

/// A line of version 2: `0::PATH`, as seen from the root of the caller's namespace, which the mount's root must be too.
fn locate(mounts: &[Mount], own: &str) -> Option<PathBuf> {
    let path = own.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let is_plain = |path: &Path| path.components().all(|it| matches!(it, Component::Normal(_)));
    let mount = mounts.iter().rfind(|it| it.kind == "cgroup2" && it.root == Path::new("/"))?;
    is_plain(path.as_ref()).then(|| mount.point.join(path))
}

impl ControlGroup {
    /// One below `around` that holds what is in it to these limits, or to the one of them that it can; else none.
    pub(crate) fn below(
        around: &Path,
        memory: Option<u64>,
        processes: Option<u64>,
    ) -> Option<Self> {
        remove_empty(around);
        // The root of all has no such file.
        let is_root = !around.join("cgroup.type").exists();
        let aside = if is_root { None } else { Some(Aside::of(around)?) };
        let gives = |controller: &str| write(around, SUBTREE, controller).is_some();
        let memory = memory.filter(|_| gives("+memory"));
        let processes = processes.filter(|_| gives("+pids"));
        if memory.is_none() && processes.is_none() {
            return None;
        }
        let path = around.join(format!("{NAME}{}", process::getpid().as_raw_nonzero()));
        fs::mkdir(&path, Mode::from_raw_mode(0o755)).ok()?;
        let group = Self { path, memory, processes, _aside: aside };
        if let Some(most) = memory {
            group.set("memory.max", most)?;
            group.set("memory.oom.group", 1)?;
            // A kernel without swap has no such file.
            let _ = group.set("memory.swap.max", 0);
        }
        if let Some(most) = processes {
            group.set("pids.max", most)?;
        }
        Some(group)
    }

    /// Which limits it holds: of memory, of processes.
    pub(crate) fn holds(&self) -> (bool, bool) {
        (self.memory.is_some(), self.processes.is_some())
    }

    /// Puts a process into it; `None` if it could not.
    pub(crate) fn admit(&self, process: Pid) -> Option<()> {
        self.set("cgroup.procs", process.as_raw_nonzero().get())
    }

    /// Whether memory was refused for the limit of this group.
    pub(crate) fn lacked_memory(&self) -> bool {
        self.memory.is_some() && self.number("memory.events", "oom ") > Some(0)
    }

    /// Whether a process was refused for the limit of this group. Before Linux 6.11 events count for groups around, too.
    pub(crate) fn lacked_processes(&self) -> bool {
        self.processes.is_some_and(|most| {
            self.number("pids.events", "max ") > Some(0)
                && self.number("pids.peak", "").is_none_or(|peak| peak >= most)
        })
    }

    fn set(&self, name: &str, value: impl ToString) -> Option<()> {
        write(&self.path, name, &value.to_string())
    }

    /// What stands behind `key` in a file of the group.
    fn number(&self, name: &str, key: &str) -> Option<u64> {
        let text = std::fs::read_to_string(self.path.join(name)).ok()?;
        text.lines().find_map(|line| line.strip_prefix(key)?.parse().ok())
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        let _ = fs::rmdir(&self.path);
    }
}

impl Aside {
    /// Moves the processes of landstrip, if no others are in the group.
    fn of(around: &Path) -> Option<Self> {
        let own = process::getpid();
        let ours: Vec<_> = proc::children(own.as_raw_pid()).into_iter().chain([own]).collect();
        let members = members(around).filter(|all| all.iter().all(|it| ours.contains(it)))?;
        let path = around.join(format!("{NAME}{}-own", own.as_raw_nonzero()));
        fs::mkdir(&path, Mode::from_raw_mode(0o755)).ok()?;
        let aside = Self { around: around.to_owned(), path };
        enter(&aside.path, &members).then_some(aside)
    }
}

impl Drop for Aside {
    /// Takes nothing from groups that others made meanwhile: then all stays as it is.
    fn drop(&mut self) {
        if groups(&self.around).iter().any(|group| *group != self.path) {
            return;
        }
        reset(&self.around);
        enter(&self.around, &members(&self.path).unwrap_or_default());
        let _ = fs::rmdir(&self.path);
    }
}

/// Removes what runs left here whose broker was killed. The kernel removes none that a process is in; one that has none
/// yet is made again by its run.
fn remove_empty(around: &Path) {
    let is_ours = |path: &PathBuf| path.file_name()?.to_str()?.strip_prefix(NAME).map(drop);
    let ours: Vec<_> = groups(around).into_iter().filter(|path| is_ours(path).is_some()).collect();
    ours.iter().for_each(|path| {
        let _ = fs::rmdir(path);
    });
    if !ours.is_empty() && groups(around).is_empty() {
        reset(around);
    }
}

/// Gives no controllers to groups below, of which there are none but landstrip's own.
fn reset(around: &Path) {
    for controller in ["-memory", "-pids"] {
        let _ = write(around, SUBTREE, controller);
    }
}

fn groups(around: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(around).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
}

/// The processes in a group, if each of them has a number here.
fn members(group: &Path) -> Option<Vec<Pid>> {
    let text = std::fs::read_to_string(group.join("cgroup.procs")).ok()?;
    text.lines().map(|line| Pid::from_raw(line.parse().ok()?)).collect()
}

/// Whether all of these came into the group.
fn enter(group: &Path, members: &[Pid]) -> bool {
    let each = |it: &Pid| write(group, "cgroup.procs", &it.as_raw_nonzero().to_string()).is_some();
    members.iter().filter(|it| each(it)).count() == members.len()
}

fn write(group: &Path, name: &str, text: &str) -> Option<()> {
    let mut file = OpenOptions::new().write(true).open(group.join(name)).ok()?;
    file.write_all(text.as_bytes()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_group_is_found_where_the_mount_shows_it() {
        let mount = |point: &str, kind: &str, root: &str| Mount {
            point: point.into(),
            kind: kind.into(),
            device: Vec::new(),
            root: root.into(),
        };
        let mounts = [mount("/sys", "sysfs", "/"), mount("/sys/fs/cgroup", "cgroup2", "/")];
        let at = |text: &str| locate(&mounts, text);
        let found = Some("/sys/fs/cgroup/user.slice/a b".into());
        assert_eq!(at("4:memory:/x\n0::/user.slice/a b\n"), found);
        assert_eq!(at("0::/"), Some("/sys/fs/cgroup/".into()));
        for elsewhere in ["0::/../other", "4:memory:/x\n", "", "0::", "0::relative"] {
            assert_eq!(at(elsewhere), None, "{elsewhere}");
        }
        assert_eq!(locate(&mounts[..1], "0::/"), None);
        assert_eq!(locate(&[mount("/mnt", "cgroup2", "/../..")], "0::/"), None);
    }
}

//! A sandbox that lacks nothing but its tool: protected, compiled, and what a run has of its own.

use super::demands::Demands;
use super::launch::{self, Filter, Tool, Watched};
use super::launch_channel::LaunchChannel;
use super::process_tree::ProcessTree;
use super::run;
use super::scratch::Scratch;
use super::surroundings::Surroundings;
use crate::answer::answers::Judges;
use crate::compile::files;
use crate::compile::notes::Notes;
use crate::compile::protect::protect;
use crate::domains::proxy::Proxy;
use crate::files::learning::Learning;
use crate::files::shared::Shared;
use crate::files::view::View;
use crate::report::failure::Failure;
use crate::report::permitted::Witness;
use crate::report::traps::{Reports, Traps};
use kernel::features::Features;
use kernel::mounts::Mount;
use kernel::responsive;
use nix::libc::{BTRFS_SUPER_MAGIC, OVERLAYFS_SUPER_MAGIC, TMPFS_MAGIC};
use rules::address::{AddressRules, UnixRules};
use rules::paths::Rules;
use rules::policy::{Network, Policy};
use run_limits::Watch;
use rustix::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// The directories of a run that its policy calls for, and lets be written: that which TMPDIR names, and one for shared
/// memory.
type Own = [Option<Scratch>; 2];

fn make_own(policy: &mut Policy, traps: &Traps) -> Result<Own, Failure> {
    Ok([Scratch::wanted(policy, traps)?, Scratch::for_shared_memory(policy)])
}

/// A sandbox that lacks nothing but its tool. The directories of the run last as long as this.
pub struct Prepared {
    /// What is enforced.
    pub policy: Policy,
    pub judges: Arc<Judges>,
    /// With that for what is granted before it has a name.
    scratches: Vec<Scratch>,
    /// Whether the command gets a temporary directory of its own.
    pub private_temporary: bool,
    /// How many rules of denyWrite and denyRead were written.
    pub written: (usize, usize),
    /// What may be written, and the working directory, where a server could leave who asks without an answer.
    served: Vec<PathBuf>,
    /// Whether those answer, once that was asked.
    answered: OnceLock<bool>,
}

impl Prepared {
    /// Protects and compiles `policy`; the child has its filter meanwhile.
    ///
    /// # Errors
    /// Returns the [`Failure`] because of which no tool would run.
    pub fn of(
        mut policy: Policy,
        reports: Reports,
        (child, surroundings): (&LaunchChannel, &Surroundings),
        traps: &Traps,
        notes: &mut Notes,
    ) -> Result<Self, Failure> {
        let demands = Demands::of(&policy, (child, surroundings), traps, notes)?;
        let mut filter = Filter::of(&policy, &demands, surroundings);
        // As soon as it is known: the child installs it while the broker compiles the rest, which takes as
        // long (0.2 ms of a launch).
        // What may be left to a sandbox around, and what nobody need be asked about, the compiled rules say.
        let is_sent = reports == Reports::All && !demands.may_leave;
        if is_sent {
            filter.send(child)?;
        }
        let proxy = Proxy::wanted(&policy.network, None)?;
        let own = make_own(&mut policy, traps)?;
        let mut prepared =
            Self::compile(policy, demands, surroundings, proxy, own, reports, notes)?;
        if !is_sent {
            Arc::make_mut(&mut prepared.judges).left = filter.leave_less(&prepared.judges.view);
            filter.quieter(Watched::of(reports, &prepared.judges, surroundings.features));
            filter.send(child)?;
        }
        Ok(prepared)
    }

    /// One that permits all that no rule of `policy` denies, and tells the `witness` that is made for
    /// what it says of addresses; with the policy as it would be enforced.
    ///
    /// # Errors
    /// As [`Prepared::of`].
    pub fn permitting(
        mut policy: Policy,
        (child, surroundings): (&LaunchChannel, &Surroundings),
        traps: &Traps,
        witness: impl FnOnce(AddressRules) -> Arc<dyn Witness>,
    ) -> Result<(Self, Policy), Failure> {
        let notes = &mut Notes::default();
        let mut demands = Demands::of(&policy, (child, surroundings), traps, notes)?;
        let own = make_own(&mut policy, traps)?;
        let witness = witness(addresses(&policy.network, demands.unix.clone(), None));
        let proxy = Proxy::wanted(&policy.network, Some(&witness))?;
        let (learning, compared) = compared_with(&policy, surroundings, witness)?;
        lift(&mut policy, &mut demands, child);
        Filter::of(&policy, &demands, surroundings).send(child)?;
        let mut prepared =
            Self::compile(policy, demands, surroundings, proxy, own, Reports::All, notes)?;
        Arc::make_mut(&mut prepared.judges).learning = Some(Arc::new(learning));
        Ok((prepared, compared))
    }

    /// One to look at, with the proxy that `proxy` gives, for which nothing is made but a reserve, since that decides
    /// whether reads are left to Landlock.
    ///
    /// # Errors
    /// As [`Prepared::of`].
    pub fn to_look_at(
        (policy, reports): (Policy, Reports),
        (child, surroundings): (&LaunchChannel, &Surroundings),
        proxy: impl FnOnce(&Network) -> Result<Option<Proxy>, Failure>,
        traps: &Traps,
        notes: &mut Notes,
    ) -> Result<Self, Failure> {
        let demands = Demands::of(&policy, (child, surroundings), traps, notes)?;
        let proxy = proxy(&policy.network)?;
        let private_temporary = Scratch::is_called_for(&policy);
        let own = [None, None];
        let prepared = Self::compile(policy, demands, surroundings, proxy, own, reports, notes)?;
        Ok(Self { private_temporary, ..prepared })
    }

    /// Protects and compiles for these reports.
    fn compile(
        policy: Policy,
        demands: Demands,
        surroundings: &Surroundings,
        proxy: Option<Proxy>,
        own: Own,
        reports: Reports,
        notes: &mut Notes,
    ) -> Result<Self, Failure> {
        let Surroundings { mounts, features, shared_input, .. } = surroundings;
        let written = (policy.files.deny_write.len(), policy.files.deny_read.len());
        let mut policy = protect(policy, mounts, notes)?;
        let rules = Rules::new(&policy.files);
        let files = &mut policy.files;
        files.watches_reads =
            reports == Reports::All && !files.deny_read.is_empty() && !demands.may_leave;
        let making = Scratch::for_reserve(&policy.files, &rules, reports != Reports::All);
        let mut waiting = None;
        let reserve = || {
            let (place, reserve) = making.and_then(|making| making.join().ok()?).unzip();
            waiting = place;
            reserve
        };
        let files = (&policy.files, rules);
        let confines_network = !policy.network.allow_network;
        let (mut view, ruleset) =
            files::compile(files, mounts, *features, confines_network, reserve)?;
        view.shared_input = *shared_input;
        let [temporary, memory] = own.each_ref().map(|own| own.as_ref().map(|own| &own.path));
        view.temporary = temporary.cloned();
        // Where the policy denies to write there, nothing of it is the command's own.
        let memory = memory.filter(|path| view.rules.access(path).write);
        let shared = memory.and_then(|path| Shared::of(path).ok()).map(Arc::new);
        let addresses = addresses(&policy.network, demands.unix, proxy.as_ref());
        let proxy = proxy.map(Arc::new);
        let limits = limits(&policy, mounts, proxy.clone())?;
        let served = served(&view);
        let judges = Judges {
            addresses: Arc::new(addresses),
            view: Arc::new(view),
            ruleset: Arc::new(ruleset),
            proxy,
            is_scoped: features.contains(Features::SCOPES),
            objects: Arc::default(),
            shared,
            observer: Arc::new(()),
            learning: None,
            limits,
            asking: None,
            left: None,
        };
        let private_temporary = temporary.is_some();
        let scratches = own.into_iter().chain([waiting]).flatten().collect();
        let (judges, answered) = (Arc::new(judges), OnceLock::new());
        Ok(Self { policy, judges, scratches, private_temporary, written, served, answered })
    }

    /// Runs `tool`, and ends what it leaves behind; returns its status, and whether that could be ended.
    ///
    /// # Errors
    /// Returns the [`Failure`] because of which the tool did not run, or cannot be served any more.
    pub fn serve(
        &self,
        tool: &Tool<'_>,
        mut child: LaunchChannel,
        tree: &mut ProcessTree,
        traps: &Arc<Traps>,
    ) -> Result<(i32, Result<(), Failure>), Failure> {
        let Self { policy, judges, scratches, .. } = self;
        tree.job.start();
        if let Some(limits) = &judges.limits {
            limits.start(tree.command, tree.guardian).map_err(Failure::Uncounted)?;
        }
        launch::send_plan(&mut child, tool, policy, judges)?;
        let status = run::until_end(child, tool, tree, judges, traps, scratches);
        // Also of a command that could not be served to its end: before its directory is removed.
        let nothing_left = tree.end();
        if self.file_systems_answer() {
            judges.view.reserve.iter().for_each(|reserve| reserve.clear());
        }
        // What was refused until then is told as well.
        if let Some((limit, most)) = judges.limits.as_ref().and_then(|limits| limits.end()) {
            let over = Failure::Limit(limit, most);
            return Ok((over.status(), Err(over)));
        }
        Ok((status?, nothing_left.then_some(()).ok_or(Failure::LeftBehind)))
    }

    /// Whether the file systems answer on which the command may write, or was started: else what is looked at there now
    /// has this process wait for as long as their servers like.
    pub fn file_systems_answer(&self) -> bool {
        *self.answered.get_or_init(|| responsive::answer(self.served.clone()))
    }

    /// Removes the directories of the run, or leaves that to a later one if file systems do not answer. All else the
    /// kernel takes back at once as the process ends: to give it back piece by piece takes 0.06 ms.
    pub fn leave(self) {
        let is_answered = self.file_systems_answer();
        let Self { policy, judges, scratches, .. } = self;
        if is_answered {
            drop(scratches);
        } else {
            std::mem::forget(scratches);
        }
        std::mem::forget((policy, judges));
    }
}

/// What `policy` says of addresses.
fn addresses(network: &Network, unix: UnixRules, proxy: Option<&Proxy>) -> AddressRules {
    let ports = [network.http_proxy_port, network.socks_proxy_port];
    AddressRules {
        allow_network: network.allow_network,
        // With domains these ports are landstrip's own, on one address only.
        loopback_ports: match proxy {
            None => ports.into_iter().flatten().collect(),
            Some(_) => Vec::new(),
        },
        proxies: proxy.map(|proxy| proxy.addresses().to_vec()).unwrap_or_default(),
        local_binding: network.allow_local_binding,
        unix,
    }
}

/// What counts the command and all that it starts, beside `proxy`, if `policy` limits that.
fn limits(
    policy: &Policy,
    mounts: &[Mount],
    proxy: Option<Arc<Proxy>>,
) -> Result<Option<Arc<Watch>>, Failure> {
    // Where the policy names control groups, the command could write to that of the run.
    let allowed = &policy.files.allow_write;
    let may_write = |mount: &Mount| allowed.iter().any(|path| path.starts_with(&mount.point));
    let is_safe = || !mounts.iter().any(|it| it.kind == "cgroup2" && may_write(it));
    let around = || is_safe().then(|| run_limits::own_group(mounts)).flatten();
    let helper = move || proxy.as_ref().and_then(|proxy| proxy.process());
    Watch::of(policy.limits, helper, around).map_err(Failure::Uncounted)
}

/// Of file systems without a block device, those that have no server.
const WITHOUT_SERVER: [fs::FsWord; 3] = [TMPFS_MAGIC, OVERLAYFS_SUPER_MAGIC, BTRFS_SUPER_MAGIC];

/// Whether `place`, on `device`, is on a file system with a server: in user space, or on a network.
fn is_served(place: &Path, device: u64) -> bool {
    fs::major(device) == 0
        && fs::statfs(place).is_ok_and(|found| !WITHOUT_SERVER.contains(&found.f_type))
}

/// What may be written, and the working directory, where that is so.
fn served(view: &View) -> Vec<PathBuf> {
    let here = fs::stat(c".").map_or(0, |stat| stat.st_dev);
    let roots = view.roots.iter();
    let roots = roots.filter_map(|(root, found)| Some((root.as_path(), found.as_ref()?.0)));
    let places = roots.chain([(Path::new("."), here)]);
    let served = places.filter(|(place, device)| is_served(place, *device));
    served.map(|(place, _)| place.join(".git")).collect()
}

/// What `policy` allows, to compare with, and the policy as it would be enforced.
fn compared_with(
    policy: &Policy,
    surroundings: &Surroundings,
    witness: Arc<dyn Witness>,
) -> Result<(Learning, Policy), Failure> {
    let Surroundings { mounts, features, .. } = surroundings;
    let policy = protect(policy.clone(), mounts, &mut Notes::default())?;
    // Its ruleset is nobody's.
    let files = (&policy.files, Rules::new(&policy.files));
    let (view, _) = files::compile(files, mounts, *features, false, || None)?;
    Ok((Learning { view, witness }, policy))
}

/// Allows all that a policy can allow and this one does not deny.
fn lift(policy: &mut Policy, demands: &mut Demands, child: &LaunchChannel) {
    policy.files.allow_write.push("/".into());
    policy.network.allow_network = true;
    policy.network.allow_local_binding = true;
    policy.network.allow_all_unix_sockets = true;
    demands.unix.all = true;
    // Then the broker sends them, and sees to whom.
    demands.unix.datagrams |= child.can_take_descriptors().is_ok();
}

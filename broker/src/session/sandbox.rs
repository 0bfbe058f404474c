//! The story of a run: load, protect, compile, launch, serve, report.

use super::child::Child;
use super::costs;
use super::family::Family;
use super::judges::{compile, notes};
use super::launch::{self, Filter, Tool};
use super::load::{Loaded, load};
use super::run;
use super::scratch::Scratch;
use super::surroundings::Surroundings;
use crate::answer::answers::Judges;
use crate::cli::{self, Form, Reports};
use crate::compile::protect::protect;
use crate::doctor::bait::Bait;
use crate::doctor::{attempt, chosen, lines, platform};
use crate::domains::proxy::Proxy;
use crate::domains::setup;
use crate::explain::page::{self, Style};
use crate::explain::{InForce, overview, question};
use crate::policy::callers::Caller;
use crate::policy::reach::linked_settings;
use crate::policy::remarks::Remarks;
use crate::report::denials::Denial;
use crate::report::failure::Failure;
use crate::report::suggest::{self, Grounds, Remedies};
use crate::report::traps::Traps;
use crate::rules::policy::{Network, Policy};
use std::ffi::OsString;
use std::sync::Arc;

/// Runs `tool` in the sandbox that `invocation` names, and ends what it leaves behind; returns its status.
///
/// # Errors
/// Returns the [`Failure`] because of which the tool did not run, or had to be ended.
pub(crate) fn run(
    invocation: &cli::Invocation,
    tool: &Tool<'_>,
    child: Child,
    family: &mut Family,
) -> Result<i32, Failure> {
    let traps = Traps::wanted(invocation.reports, invocation.trap_fd, invocation.debug)?;
    let traps = Arc::new(traps);
    let outcome = run_with(&traps, invocation, tool, child, family);
    traps.tell_status(&outcome);
    outcome
}

/// The same with its reports.
fn run_with(
    traps: &Arc<Traps>,
    invocation: &cli::Invocation,
    tool: &Tool<'_>,
    child: Child,
    family: &mut Family,
) -> Result<i32, Failure> {
    let remarks = match invocation.trap_fd {
        Some(_) => Remarks::of_rules(),
        None => Remarks::unwanted(),
    };
    let prepared = Prepared::of(invocation, &child, traps, remarks)?;
    let (status, ended) = prepared.serve(tool, child, family, traps)?;
    traps.print(status != 0, |denials| prepared.suggest(denials));
    prepared.leave();
    ended.map(|()| status)
}

/// The directories of a run that its policy calls for, and lets be written.
pub(super) struct Scratches {
    /// That which TMPDIR names.
    temporary: Option<Scratch>,
    /// For shared memory.
    memory: Option<Scratch>,
}

impl Scratches {
    /// Makes them.
    pub(super) fn of(policy: &mut Policy, caller: &Caller, traps: &Traps) -> Result<Self, Failure> {
        let temporary = Scratch::wanted(policy, caller, traps)?;
        Ok(Self { temporary, memory: Scratch::for_shared_memory(policy) })
    }
}

/// A sandbox that lacks nothing but its tool. The directories of the run last as long as this.
pub(super) struct Prepared {
    pub(super) policy: Policy,
    pub(super) judges: Arc<Judges>,
    remarks: Remarks,
    caller: Caller,
    scratch: Option<Scratch>,
    memory: Option<Scratch>,
    waiting: Option<Scratch>,
    /// How many rules of denyWrite and denyRead were written.
    written: (usize, usize),
}

impl Prepared {
    /// Loads, protects and compiles; the child has its filter meanwhile.
    fn of(
        invocation: &cli::Invocation,
        child: &Child,
        traps: &Traps,
        remarks: Remarks,
    ) -> Result<Self, Failure> {
        let surroundings = Surroundings::look(child.is_scoped())?;
        let mut loaded = load(invocation, child, traps, &surroundings, remarks)?;
        let mut filter = Filter::of(&loaded, &surroundings);
        // As soon as it is known: the child installs it while the broker compiles the rest, which takes as
        // long (0.2 ms of a launch).
        let reports = invocation.reports;
        let is_final = reports == Reports::All;
        if is_final {
            filter.send(child)?;
        }
        let proxy = Proxy::wanted(&loaded.policy.network)?;
        let scratches = Scratches::of(&mut loaded.policy, &loaded.caller, traps)?;
        let prepared = Self::compile(loaded, &surroundings, proxy, scratches)?;
        if !is_final {
            filter.quieter(reports, &prepared.judges.view);
            filter.send(child)?;
        }
        Ok(prepared)
    }

    /// Protects and compiles what was loaded.
    pub(super) fn compile(
        loaded: Loaded,
        surroundings: &Surroundings,
        proxy: Option<Proxy>,
        scratches: Scratches,
    ) -> Result<Self, Failure> {
        let Scratches { temporary: scratch, memory } = scratches;
        let Loaded { policy, mut remarks, caller, unix, .. } = loaded;
        let written = (policy.files.deny_write.len(), policy.files.deny_read.len());
        let policy = protect(policy, &surroundings.mounts, &mut remarks, &caller)?;
        let (waiting, reserve) = Scratch::for_directories(&policy.files, &caller).unzip();
        let judges = compile(&policy, surroundings, unix, proxy, memory.as_ref(), reserve)?;
        let judges = Arc::new(judges);
        Ok(Self { policy, judges, remarks, caller, scratch, memory, waiting, written })
    }

    /// Runs `tool`, and ends what it leaves behind; returns its status, and whether that could be ended.
    pub(super) fn serve(
        &self,
        tool: &Tool<'_>,
        mut child: Child,
        family: &mut Family,
        traps: &Arc<Traps>,
    ) -> Result<(i32, Result<(), Failure>), Failure> {
        let Self { policy, judges, scratch, memory, waiting, .. } = self;
        family.job().start();
        launch::send_plan(&mut child, tool, policy, judges, scratch.as_ref())?;
        let scratches: Vec<_> = [scratch, memory, waiting].into_iter().flatten().collect();
        let status = run::until_end(child, tool, family, judges, traps, &scratches);
        // Also of a command that could not be served to its end: before its directory is removed.
        let nothing_left = family.end();
        judges.view.reserve.iter().for_each(|reserve| reserve.clear());
        Ok((status?, nothing_left.then_some(()).ok_or_else(Failure::left_behind)))
    }

    /// Removes the directories of the run. All else the kernel takes back at once as the process ends: to give it
    /// back piece by piece takes 0.06 ms.
    fn leave(self) {
        let Self { policy, judges, remarks, caller, scratch, memory, waiting, .. } = self;
        drop((scratch, memory, waiting));
        std::mem::forget((policy, judges, remarks, caller));
    }

    /// What the policy would have to say for what it refused.
    pub(super) fn suggest(&self, denials: &[&Denial]) -> Remedies {
        self.on_grounds(|grounds| suggest::remedies(denials, grounds))
    }

    /// What `find` finds in view of this policy.
    pub(super) fn on_grounds<T>(&self, find: impl FnOnce(&Grounds<'_>) -> T) -> T {
        let Self { policy, caller, written, .. } = self;
        let home = caller.home.as_ref().map(|home| home.canonicalize().unwrap_or(home.clone()));
        find(&Grounds {
            home: home.as_deref(),
            work: &caller.cwd,
            temporary: &std::fs::canonicalize(std::env::temp_dir()).unwrap_or_default(),
            settings: &home.as_deref().map(linked_settings).unwrap_or_default(),
            files: &policy.files,
            written: *written,
            network: &policy.network,
            origins: self.remarks.origins(),
        })
    }
}

/// Says what the platform gives, then attacks a sandbox of the policy from inside; returns 0 if everything was
/// refused and permitted as the policy says, 1 if not.
///
/// # Errors
/// Returns the [`Failure`] because of which no tool would run.
pub(crate) fn doctor(
    invocation: &cli::Invocation,
    form: Form,
    child: Child,
    family: &mut Family,
) -> Result<i32, Failure> {
    let style = Style::of_standard_output();
    let surroundings = match Surroundings::look(child.is_scoped()) {
        Err(Failure::Internal("surroundings", wrong)) => Some(wrong),
        _ => None,
    };
    let findings = platform::look(&platform::Reach {
        descriptors: child.can_take_descriptors(),
        memory: child.can_read_memory(),
        is_readable: child.must_be_readable().is_ok(),
        surroundings,
    });
    lines::print(&lines::findings(&findings, form, style));
    attack(invocation, form, child, family)
        .inspect_err(|_| lines::print(&lines::nothing_runs(form, style)))
}

/// The second half of [`doctor`].
fn attack(
    invocation: &cli::Invocation,
    form: Form,
    child: Child,
    family: &mut Family,
) -> Result<i32, Failure> {
    let style = Style::of_standard_output();
    let traps = Traps::wanted(invocation.reports, invocation.trap_fd, invocation.debug)?;
    let traps = Arc::new(traps);
    let bait = Bait::lay_out();
    let prepared = Prepared::of(invocation, &child, &traps, Remarks::wanted())?;
    let proxy = prepared.judges.proxy.as_deref();
    let in_force = InForce {
        policy: &prepared.policy,
        judges: &prepared.judges,
        remarks: &prepared.remarks,
        caller: &prepared.caller,
        environment: &[],
        found: "",
        private_temporary: prepared.scratch.is_some(),
    };
    let attempts = chosen::attempts(&in_force, bait.as_ref().ok(), proxy.is_some());
    lines::print(&lines::heading(attempts.len(), form, style));
    let list = attempt::encode(form, style.is_colored(), &attempts);
    let tool = Tool::this_program(attempt::VARIABLE, list)?;
    let (status, ended) = prepared.serve(&tool, child, family, &traps)?;
    ended?;
    let taken = bait.map(|bait| bait.taken(&attempts)).unwrap_or_default();
    let holds = status == 0 && taken.is_empty();
    lines::print(&lines::conclusion(holds, status, &taken, form, style));
    Ok(i32::from(!holds))
}

/// What there is to say of a policy that can be enforced.
struct Examined {
    policy: Policy,
    judges: Judges,
    remarks: Remarks,
    caller: Caller,
    private_temporary: bool,
}

/// Does what goes before a launch, with the proxy that `proxy` gives, and makes nothing.
fn examine(
    invocation: &cli::Invocation,
    child: &Child,
    proxy: impl FnOnce(&Network) -> Result<Option<Proxy>, Failure>,
) -> Result<Examined, Failure> {
    let traps = Traps::wanted(invocation.reports, invocation.trap_fd, invocation.debug)?;
    let surroundings = Surroundings::look(child.is_scoped())?;
    let loaded = load(invocation, child, &traps, &surroundings, Remarks::wanted())?;
    let Loaded { policy, mut remarks, caller, unix, .. } = loaded;
    setup::check(&policy.network)?.iter().for_each(|text| remarks.warn(text));
    let proxy = proxy(&policy.network)?;
    let private_temporary = Scratch::is_called_for(&policy);
    let policy = protect(policy, &surroundings.mounts, &mut remarks, &caller)?;
    let judges = compile(&policy, &surroundings, unix, proxy, None, None)?;
    surroundings.features.substitutes().for_each(|text| remarks.note(text));
    let notes = notes(&judges, invocation.reports, surroundings.features);
    let costs = costs::line(&judges.view, &policy.files);
    notes.iter().chain(&costs).for_each(|text| remarks.note(text));
    Ok(Examined { policy, judges, remarks, caller, private_temporary })
}

/// Does what goes before a launch, and binds and makes nothing; returns what is worth knowing, a line each.
///
/// # Errors
/// Returns the [`Failure`] because of which no tool would run.
pub(crate) fn check(invocation: &cli::Invocation, child: &Child) -> Result<String, Failure> {
    let remarks = examine(invocation, child, |_| Ok(None))?.remarks;
    let lines = remarks.lines().iter().map(String::as_str);
    Ok(lines.chain(["the policy can be enforced\n"]).collect::<Vec<_>>().join("\n"))
}

/// Says what the policy means, or what it says of each of `words`. Binds and makes nothing but the ports of the
/// proxy, for as long as it takes.
///
/// # Errors
/// Returns the [`Failure`] because of which no tool would run, or a word cannot be looked at.
pub(crate) fn explain(
    invocation: &cli::Invocation,
    child: &Child,
    form: Form,
    words: &[OsString],
) -> Result<String, Failure> {
    let Examined { policy, judges, remarks, caller, private_temporary } =
        examine(invocation, child, Proxy::wanted)?;
    let environment = launch::environment(&policy, judges.proxy.as_deref(), None);
    let found = match (invocation.policies.sources.is_empty(), caller.variable("LANDSTRIP_POLICY"))
    {
        (false, _) => "named by --policy",
        (true, Some(_)) => "named by LANDSTRIP_POLICY",
        (true, None) => "the user's own",
    };
    let in_force = InForce {
        policy: &policy,
        judges: &judges,
        remarks: &remarks,
        caller: &caller,
        environment: &environment,
        found,
        private_temporary,
    };
    let style = Style::of_standard_output();
    if words.is_empty() {
        return Ok(page::overview(&overview::of(&in_force), form, style));
    }
    let replies = question::answer(&in_force, words).map_err(Failure::Usage)?;
    Ok(page::replies(&replies, form, style))
}

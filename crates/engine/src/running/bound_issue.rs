//! A run that is bound to an issue: what is read and checked before it, and what it leaves when it has ended. The
//! supervisor does this, so that an agent needs no token and cannot leave it out.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use bailiwick_fleet::ports::{HandedWork, IssueBinding};
use bailiwick_lifecycle::delegation::context::{Entry, Kind, Load};
use bailiwick_lifecycle::supervision::Budget;
use bailiwick_memory::{
    CascadeEntry, ClaimError, ClaimRefusal, Entrant, EntryRefusal, Family, IssueMemory as _,
    LabelChange, Loaded, MemoryError, ReservationWish, RunResult as IssueResult, Violation,
    check_entry, issue_context,
};
use bailiwick_model::attempt::Attempt;
use bailiwick_model::event::ExitReason;
use bailiwick_model::{AgentId, IssueName, PhaseName};
use bailiwick_policy::PathPolicy;
use bailiwick_runner::supervisor::RunDirectory;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::LockedRun;
use super::hand_off::{self, HandOff};
use super::service::FinishedRun;
use super::{issue_cascade, issue_work};
use crate::context::Context;
use crate::failure::Failure;
use crate::managed::Managed;
use crate::{claiming, issues, policy_file, system};

/// The file of a run that names its issue, where the task does not.
const BINDING: &str = "issue.json";
/// The file of a run that has not left its result yet.
const PENDING: &str = "issue-exit.json";
/// The file of a run that handed its issue to another agent.
const HANDED_ON: &str = "issue-handed-on";
/// The file of a run with the text of its issue, as the agent was given it.
const CONTEXT: &str = "issue-context.json";
/// The window that an issue is loaded into, in tokens.
const WINDOW: u64 = 200_000;
/// How long a run without a time limit has its tokens if its machine is lost.
const RESERVATION_LEASE_MS: u64 = 24 * 60 * 60 * 1000;
/// How much longer than its time limit a run has them: its work is checked after it.
const RESERVATION_MARGIN_MS: u64 = 60 * 60 * 1000;
/// Directories that bind agents: to write there an issue needs a permission.
const SYSTEM_DIRECTORIES: [&str; 2] = [".bailiwick", ".kilo"];

/// What an attempt is given of its issue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IssueGrant {
    /// The text for the agent.
    pub text: String,
    /// Tokens that it may use besides those that it has used.
    pub remaining: u64,
}

/// A run that has entered its issue, and must leave its result there.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct EnteredIssue {
    issue: IssueName,
    agent: String,
    run: AgentId,
    /// The repository that the run is of.
    root: PathBuf,
    invocation: String,
    depth: u32,
    /// The attempts that were there before.
    attempts: usize,
    /// Whom it may hand the issue to.
    #[serde(default)]
    may_name: Vec<String>,
    /// Labels that named the agent that was to work; this run answers them.
    #[serde(default)]
    agent_labels: Vec<String>,
    /// The phase and the milestone of the issue when it has passed.
    #[serde(default)]
    phase: Option<PhaseName>,
    #[serde(default)]
    milestone: Option<u64>,
    #[serde(default)]
    handed_work: HandedWork,
    /// How its checks ended, if they did.
    #[serde(default)]
    verified: Option<bool>,
    #[serde(skip)]
    grant: Option<IssueGrant>,
}

/// The text of an issue, as the agent of a run was given it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct GivenIssue {
    pub issue: IssueName,
    pub text: String,
}

/// What the last attempt of a run was given of its issue; `None` if it is bound to none or has not begun.
pub fn given_issue(directory: &RunDirectory) -> Result<Option<GivenIssue>, Failure> {
    system::read_json(&directory.path().join(CONTEXT))
}

/// Binds a run that has not begun to an issue.
pub fn bind(context: &Context, run: &AgentId, issue: &IssueName) -> Result<(), Failure> {
    bind_with(context, run, &to_issue(issue.clone()))
}

/// The same, with what the control plane says about it.
pub fn bind_with(context: &Context, run: &AgentId, binding: &IssueBinding) -> Result<(), Failure> {
    let directory = RunDirectory::new(&context.state, run.as_str());
    directory.make().map_err(|error| {
        Failure::general(format!("{} cannot be made: {error}", directory.path().display()))
    })?;
    system::write_json(&directory.path().join(BINDING), binding)
}

/// Refuses a run whose issue does not let it start now; a run that is bound to none may.
pub fn require_entry(context: &Context, run: &AgentId) -> Result<(), Failure> {
    let running = LockedRun::lock(context, run)?;
    let Some(IssueBinding { issue, .. }) = bound_to(&running)? else { return Ok(()) };
    let admitted = admit(&running, &issue)?;
    let here = Context {
        directory: running.subject.repository.root().to_owned(),
        ..running.subject.context.clone()
    };
    let table = issues::open_named(&here, &issue)?
        .with(async |protocol| Ok(protocol.claims().await))?
        .map_err(Failure::refused_by)?;
    let (remaining, now) = (admitted.remaining, admitted.loaded.read.now);
    let table = table.without_settled(|run| admitted.loaded.state.has_result(run));
    let reserved = table.reserved(issue.number, &admitted.invocation, now);
    if reserved >= remaining {
        return Err(no_tokens(
            &running.id,
            &issue,
            &ClaimRefusal::NoTokens { remaining, reserved },
        ));
    }
    let earlier = issue_work::earlier_runs(&running, &admitted.loaded.state)?;
    claiming::forge::take(&running.subject, &running.id, &issue, &earlier)
}

/// The issue that a run is bound to: that of the command line, else that of the task.
fn bound_to(running: &LockedRun) -> Result<Option<IssueBinding>, Failure> {
    let bound: Option<IssueBinding> = system::read_json(&running.directory.path().join(BINDING))?;
    let task = &running.subject.bound.task.task;
    let Some(bound) = bound.or_else(|| task.issue.clone().map(to_issue)) else { return Ok(None) };
    Ok(Some(IssueBinding {
        phase: task.phase.clone().or(bound.phase),
        milestone: task.milestone.or(bound.milestone),
        handed_work: handed_work(running)?,
        issue: bound.issue,
    }))
}

/// The binding by a person, who may let the files of the run leave the machine.
fn to_issue(issue: IssueName) -> IssueBinding {
    IssueBinding { issue, phase: None, milestone: None, handed_work: HandedWork::WithIssue }
}

/// Where the files of a run may be kept: only where those of every run above it may be.
fn handed_work(running: &LockedRun) -> Result<HandedWork, Failure> {
    let context = &running.subject.context;
    let parent = running.subject.bound.task.task.parent_agent.as_ref();
    let above = context.with_store(async |store| Ok(store.ancestor_ids(parent).await?))?;
    for run in std::iter::once(&running.id).chain(&above) {
        if own_handed_work(context, run)? == HandedWork::OnMachine {
            return Ok(HandedWork::OnMachine);
        }
    }
    Ok(HandedWork::WithIssue)
}

/// Where a run itself lets its files be kept. The control plane says so in the binding of each of its runs.
fn own_handed_work(context: &Context, run: &AgentId) -> Result<HandedWork, Failure> {
    let directory = RunDirectory::new(&context.state, run.as_str());
    let bound: Option<IssueBinding> = system::read_json(&directory.path().join(BINDING))?;
    if let Some(bound) = bound {
        return Ok(bound.handed_work);
    }
    let is_of_control_plane = Managed::of(&directory)?.is_some();
    Ok(if is_of_control_plane { HandedWork::OnMachine } else { HandedWork::WithIssue })
}

/// A run that may start, and what was read.
struct Admitted {
    agent: String,
    invocation: String,
    depth: u32,
    loaded: Loaded,
    /// The unused tokens of the issue.
    remaining: u64,
}

/// Reads the issue and checks whether the run may start.
fn admit(running: &LockedRun, issue: &IssueName) -> Result<Admitted, Failure> {
    let subject = &running.subject;
    let context = &subject.context;
    let task = &subject.bound.task;
    complete_all(context, Some(&running.directory))?;
    let here = Context { directory: subject.repository.root().to_owned(), ..context.clone() };
    let opened = issues::open_named(&here, issue)?;
    let parent = task.task.parent_agent.as_ref();
    let line = context.with_store(async |store| Ok(store.ancestor_ids(parent).await?))?;
    let started_at_depth = u32::try_from(line.len()).unwrap_or(u32::MAX);
    let policy = policy_file::recorded(&running.directory)?.policy;
    let limits = PathPolicy::of(&policy);
    let mut entrant = Entrant {
        agent: task.task.role.get_ref().to_string(),
        depth: started_at_depth,
        own_max_depth: None,
        is_orchestrator: false,
        estimate: 0,
        changes_system: SYSTEM_DIRECTORIES
            .iter()
            .any(|directory| limits.forbids(&format!("{directory}/x")).is_none()),
    };
    // Another machine may have a run of the same name, and this one may have failed before it began.
    let number = running.earlier.len().saturating_add(1);
    let invocation = format!("{}/{number}-{}", running.id, system::random_name()?);
    let total = Budget::of_run(&task.budget).0.tokens;
    let (number, agent) = (issue.number, entrant.agent.clone());
    let is_leading = !task.agent.allowed_subagents.is_empty();
    let (loaded, depth, refusal) = opened.with(async |protocol| {
        let mut loaded = protocol.load(number).await?;
        entrant.depth = entrant.depth.max(handed_depth(&loaded));
        entrant.is_orchestrator = entrant.depth == 0 && is_leading;
        let labels = protocol.memory.label_events(number).await?;
        let read = &loaded.read.issue;
        let checked = check_entry(read, &loaded.state, &labels, &protocol.trust, &entrant);
        if let Err(EntryRefusal::Depth(why)) = &checked {
            let text = why.to_string();
            protocol.alert(number, &agent, &invocation, Violation::Depth, &text).await?;
        }
        if let (Ok(()), false, Some(total)) = (&checked, loaded.state.has_recorded_budget(), total)
        {
            loaded = protocol.begin(number, &agent, "new", total, None).await?;
        }
        Ok((loaded, entrant.depth, checked.err()))
    })?;
    if let Some(refusal) = refusal {
        let id = &running.id;
        return Err(Failure::refused(format!("`{id}` cannot work on {issue}: {refusal}"))
            .help(format!("bailiwick memory show '{issue}'")));
    }
    let recorded = loaded.state.checkpoint.as_ref().filter(|_| loaded.state.has_recorded_budget());
    let Some(budget) = recorded.map(|checkpoint| checkpoint.budget) else {
        return Err(Failure::refused(format!("{issue} has no budget, and the task has none"))
            .help(format!("bailiwick memory budget '{issue}' 500000")));
    };
    let remaining = u64::try_from(budget.remaining).unwrap_or_default();
    Ok(Admitted { agent, invocation, depth, loaded, remaining })
}

/// The depth of a run that was named by the one before it: one deeper, so that a chain has an end.
fn handed_depth(loaded: &Loaded) -> u32 {
    let checkpoint = loaded.state.checkpoint.as_ref();
    let named = checkpoint.filter(|one| one.last_agent.is_some() && one.next_agent.is_some());
    named.map_or(0, |checkpoint| checkpoint.depth.saturating_add(1))
}

/// Reserves tokens for a run, on all machines.
fn reserve(running: &LockedRun, entered: &EnteredIssue) -> Result<u64, Failure> {
    let task = &running.subject.bound.task;
    let used = super::used(&running.earlier).tokens;
    let own = Budget::of_run(&task.budget).0.tokens;
    let minutes = task.budget.minutes;
    let wish = ReservationWish {
        issue: entered.issue.number,
        agent: entered.run.to_string(),
        invocation: entered.invocation.clone(),
        // Where the run itself may use less, others may use the rest.
        tokens: own.map(|tokens| tokens.saturating_sub(used)),
        lease_ms: minutes.map_or(RESERVATION_LEASE_MS, |minutes| {
            minutes.saturating_mul(60_000).saturating_add(RESERVATION_MARGIN_MS)
        }),
    };
    let here = entered.here(&running.subject.context);
    let issue = &entered.issue;
    let reserved = issues::open_named(&here, issue)?
        .with(async |protocol| Ok(protocol.reserve(&wish).await))?;
    reserved.map_err(|error| match error {
        ClaimError::Refused(ClaimRefusal::NoTokens { .. }) if wish.tokens == Some(0) => {
            Failure::refused(format!("`{}` has used the tokens of its own budget", running.id))
        }
        ClaimError::Refused(refusal) => no_tokens(&running.id, issue, &refusal),
        ClaimError::Forge(error @ MemoryError::Refused(_)) => {
            Failure::refused(format!("tokens of {issue} cannot be reserved: {error}"))
                .help(
                    "allow the token to write to the repository (`write:repository` on Gitea), or name an issue for \
                     claims: `claimsIssue` of the Repository",
                )
        }
        ClaimError::Forge(error) => issues::failure(error),
    })
}

/// Whom a run may hand its issue to.
fn named(running: &LockedRun) -> Vec<String> {
    let listed = running.subject.bound.task.agent.allowed_subagents.iter();
    listed.map(ToString::to_string).collect()
}

fn agent_labels(labels: &[String]) -> Vec<String> {
    let of_agent = |label: &&String| matches!(Family::of(label), Some((Family::Agent, _)));
    labels.iter().filter(of_agent).cloned().collect()
}

fn no_tokens(run: &AgentId, issue: &IssueName, refusal: &ClaimRefusal) -> Failure {
    Failure::refused(format!("`{run}` cannot work on {issue}: {refusal}"))
        .help("wait until they have ended, or raise it: bailiwick memory budget")
}

/// Refuses an issue that no run may work on, before anything is made for one.
pub fn require_open(context: &Context, issue: &IssueName) -> Result<(), Failure> {
    let entrant = Entrant {
        agent: String::new(),
        depth: 0,
        own_max_depth: None,
        is_orchestrator: false,
        estimate: 0,
        changes_system: false,
    };
    let refusal = issues::open_named(context, issue)?.with(async |protocol| {
        let loaded = protocol.load(issue.number).await?;
        let read = &loaded.read.issue;
        Ok(check_entry(read, &loaded.state, &[], &protocol.trust, &entrant).err())
    })?;
    refusal.map_or(Ok(()), |refusal| {
        Err(Failure::refused(format!("no run can work on {issue}: {refusal}"))
            .help(format!("bailiwick memory show '{issue}'")))
    })
}

impl EnteredIssue {
    /// Reads and checks the issue that a run is bound to; `None` if it is bound to none.
    pub(super) fn enter(running: &LockedRun) -> Result<Option<Self>, Failure> {
        let Some(bound) = bound_to(running)? else { return Ok(None) };
        let issue = bound.issue;
        let Admitted { agent, invocation, depth, loaded, .. } = admit(running, &issue)?;
        let earlier = issue_work::earlier_runs(running, &loaded.state)?;
        claiming::forge::take(&running.subject, &running.id, &issue, &earlier)?;
        let here = Context {
            directory: running.subject.repository.root().to_owned(),
            ..running.subject.context.clone()
        };
        let opened = issues::open_named(&here, &issue)?;
        issue_work::take_over(running, &issue, &opened, &loaded.state)?;
        let told = issue_context(&loaded.read.issue, &loaded.state, &loaded.comments, WINDOW)
            .map_err(Failure::refused_by)?;
        log_loads(&running.directory, &told.loads)?;
        let given = GivenIssue { issue: issue.clone(), text: told.text.clone() };
        system::write_json(&running.directory.path().join(CONTEXT), &given)?;
        let mut entered = Self {
            issue,
            agent,
            run: running.id.clone(),
            root: running.subject.repository.root().to_owned(),
            invocation,
            depth,
            attempts: running.earlier.len(),
            may_name: named(running),
            agent_labels: agent_labels(&loaded.read.issue.labels),
            phase: bound.phase,
            milestone: bound.milestone,
            handed_work: bound.handed_work,
            verified: None,
            grant: None,
        };
        let instructions = hand_off::instructions(&entered.may_name).unwrap_or_default();
        // This is stored before the budget is reserved: if the run is killed, recovery returns the reservation.
        let pending = running.directory.path().join(PENDING);
        system::write_json(&pending, &entered)?;
        let remaining = match reserve(running, &entered) {
            Ok(tokens) => tokens,
            Err(failure) => {
                remove(&pending)?;
                return Err(failure);
            }
        };
        let text = format!("\n\n{}{instructions}", told.text);
        entered.grant = Some(IssueGrant { text, remaining });
        Ok(Some(entered))
    }

    /// Its repository, for issues in git.
    fn here(&self, context: &Context) -> Context {
        Context { directory: self.root.clone(), ..context.clone() }
    }

    pub(super) fn grant(&self) -> Option<IssueGrant> {
        self.grant.clone()
    }

    /// Leaves the result of the run. What the forge does not take now is left at the next start.
    pub(super) fn leave(mut self, context: &Context, finished: Option<&FinishedRun>) {
        let verification = finished.and_then(|finished| finished.result.verification.as_ref());
        self.verified = verification.map(|shown| shown.failed.is_empty());
        let directory = RunDirectory::new(&context.state, self.run.as_str());
        let left = system::write_json(&directory.path().join(PENDING), &self)
            .and_then(|()| self.complete(context, &directory));
        if let Err(failure) = left {
            context.notices.note(format_args!(
                "{} was not updated ({failure}); the next run that is bound to an issue does it",
                self.issue
            ));
        }
    }

    fn complete(&self, context: &Context, directory: &RunDirectory) -> Result<(), Failure> {
        let all = context.with_store(async |store| Ok(store.attempts(Some(&self.run)).await?))?;
        let own: Vec<&Attempt> = all.iter().skip(self.attempts).collect();
        let opened = issues::open_named(&self.here(context), &self.issue)?;
        // It was refused or killed before its agent began: nothing happened.
        let Some(first) = own.first() else {
            self.unreserve(context, &opened)?;
            return remove(&directory.path().join(PENDING));
        };
        let cascade = issue_cascade::below(context, &self.run, first.started_at)?;
        let mut result = self.result(&own, cascade);
        let (since, allowed) = (first.started_at, &self.may_name);
        match hand_off::of_run(context, &self.run, since, allowed, &self.agent)? {
            HandOff::Nobody => {}
            // Work that did not pass is no one else's to continue.
            HandOff::To(name) if result.verdict == "pass" => {
                result.labels.add.push(format!("{}::{name}", Family::Agent.as_str()));
                let kept =
                    issue_work::keep(context, &self.run, &self.issue, &opened, self.handed_work);
                result.work_commit = kept?;
                result.next_agent = Some(name);
            }
            HandOff::To(_) => {}
            HandOff::Refused { name, why } => {
                context.notices.note(format_args!(
                    "`{}` cannot hand {} to `{name}`: {why}",
                    self.run, self.issue
                ));
                result.rationale = Some(format!("It named `{name}` as the next agent: {why}."));
            }
        }
        let handed_on = directory.path().join(HANDED_ON);
        match &result.next_agent {
            // Before the label is set that starts the next agent.
            Some(agent) => system::write_whole(&handed_on, agent)?,
            None => remove(&handed_on)?,
        }
        result.labels.remove.clone_from(&self.agent_labels);
        result.labels.remove.retain(|label| !result.labels.add.contains(label));
        let quarantined = own.iter().find(|attempt| {
            matches!(attempt.ending, Some(ExitReason::EnforcementLost | ExitReason::Denied))
        });
        let report = opened.with(async |protocol| {
            let number = self.issue.number;
            let report = protocol.exit(number, &result).await?;
            if let Some(attempt) = quarantined {
                let text =
                    format!("`{}` was quarantined: {}", self.run, first_line(&attempt.detail));
                let violation = Violation::Limit;
                protocol.alert(number, &self.agent, &self.invocation, violation, &text).await?;
            }
            Ok(report)
        })?;
        for problem in report.problems {
            context.notices.note(format_args!("{}: {problem}", self.issue));
        }
        self.unreserve(context, &opened)?;
        remove(&directory.path().join(PENDING))
    }

    /// Releases its reservation. After its result is stored, so that the tokens are never counted as free in
    /// between.
    fn unreserve(&self, context: &Context, opened: &issues::OpenIssues) -> Result<(), Failure> {
        let given = opened.with(async |protocol| Ok(protocol.unreserve(&self.invocation).await))?;
        issues::note_release(context, given.map_err(Failure::refused_by)?);
        Ok(())
    }

    fn result(&self, own: &[&Attempt], cascade: Vec<CascadeEntry>) -> IssueResult {
        let last = own.last();
        let ending = last.and_then(|attempt| attempt.ending);
        let verdict = match (ending, self.verified) {
            (Some(ExitReason::Completed), Some(true) | None) => "pass",
            (Some(ExitReason::Completed), Some(false)) | (Some(ExitReason::Failed) | None, _) => {
                "fail"
            }
            (
                Some(
                    ExitReason::EnforcementLost
                    | ExitReason::Denied
                    | ExitReason::Stopped
                    | ExitReason::TimedOut
                    | ExitReason::BudgetExhausted
                    | ExitReason::CutOff,
                ),
                _,
            ) => "blocked",
        };
        let ended = ending.map_or("cut off", ExitReason::as_str);
        let detail = last.map(|attempt| first_line(&attempt.detail)).unwrap_or_default();
        let own = own.iter().map(|attempt| attempt.used.tokens);
        let below = cascade.iter().map(|entry| entry.tokens);
        let consumed = own.chain(below).fold(0, u64::saturating_add);
        let has_passed = verdict == "pass";
        let phase = self.phase.as_ref().filter(|_| has_passed);
        IssueResult {
            agent: self.agent.clone(),
            invocation: self.invocation.clone(),
            parent: None,
            depth: self.depth,
            phase: phase.map(ToString::to_string).unwrap_or_default(),
            action: format!("`{}` ended: {ended}. {detail}", self.run).trim().to_owned(),
            result: json!({ "run": self.run, "ending": ended, "checks_passed": self.verified }),
            verdict: verdict.to_owned(),
            consumed,
            labels: LabelChange::default(),
            milestone: self.milestone.filter(|_| has_passed),
            next_agent: None,
            rationale: None,
            estimated_next_tokens: None,
            work_commit: None,
            cascade,
        }
    }
}

/// Whether a run has handed its issue to another agent, or may still do so: its result is not on the issue yet.
pub fn is_handed_on(context: &Context, run: &AgentId) -> bool {
    let directory = RunDirectory::new(&context.state, run.as_str());
    [HANDED_ON, PENDING].iter().any(|file| directory.path().join(file).exists())
}

/// Records the result of a run that the caller has locked, unless that was done.
pub fn complete(context: &Context, run: &AgentId) {
    let directory = RunDirectory::new(&context.state, run.as_str());
    let left = system::read_json::<EnteredIssue>(&directory.path().join(PENDING))
        .and_then(|entered| entered.map_or(Ok(()), |this| this.complete(context, &directory)));
    if let Err(failure) = left {
        context.notices.note(format_args!("the issue of `{run}` was not updated: {failure}"));
    }
}

/// Leaves the results of all runs whose supervisor was killed before it could. `held` is a run that the caller holds.
pub fn complete_all(context: &Context, held: Option<&RunDirectory>) -> Result<(), Failure> {
    let Ok(listed) = std::fs::read_dir(context.state.join("runs")) else { return Ok(()) };
    for place in listed.flatten() {
        let Some(entered): Option<EnteredIssue> = system::read_json(&place.path().join(PENDING))?
        else {
            continue;
        };
        let directory = RunDirectory::new(&context.state, entered.run.as_str());
        let is_held = held.is_some_and(|held| held.path() == directory.path());
        if is_held {
            entered.complete(context, &directory)?;
        } else if let Ok(Some(_lock)) = directory.lock()
            && let Err(failure) = entered.complete(context, &directory)
        {
            // Another issue does not stop this one.
            context.notices.note(format_args!("{} was not updated: {failure}", entered.issue));
        }
    }
    Ok(())
}

fn log_loads(directory: &RunDirectory, loads: &[(String, u64)]) -> Result<(), Failure> {
    let path = directory.path().join("context.jsonl");
    let log = || -> std::io::Result<()> {
        let mut file = std::fs::File::options().create(true).append(true).open(&path)?;
        let mut total = 0_u64;
        for (name, tokens) in loads {
            total = total.saturating_add(*tokens);
            let load = Load { kind: Kind::Given, name: name.clone(), tokens: *tokens };
            let entry = Entry { load, total, most: WINDOW * 3 / 10, refused: None };
            writeln!(file, "{}", serde_json::to_string(&entry)?)?;
        }
        Ok(())
    };
    log()
        .map_err(|error| Failure::general(format!("{} cannot be written: {error}", path.display())))
}

fn remove(path: &Path) -> Result<(), Failure> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Failure::general(format!("{} cannot be removed: {error}", path.display())))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().chars().take(200).collect()
}

//! A run that is bound to an issue. The supervisor reads and writes the issue, so that an agent needs no token and
//! cannot leave its result out.
//!
//! Comes in: a binding, by a person, the task or the control plane. Goes out: the text and the tokens for the agent
//! (`IssueGrant`), and at the end its result, its labels and its next agent on the issue.
//!
//! 1. `bind_with` stores the binding, and `require_entry` refuses a run that may not start now.
//! 2. `EnteredIssue::enter` admits the run, claims the issue, takes over earlier files, and reserves tokens.
//! 3. `EnteredIssue::leave` writes the result with the next agent, and releases the tokens.
//! 4. `complete` and `complete_pending` do the last step for runs whose supervisor was killed before it could, or whose
//!    forge did not answer.
//!
//! ```text
//! binding       which issue, and where files of the run may go
//! admission     reads the issue, and decides whether the run may start
//! next_tokens   what the next agent is thought to take
//! reservation   tokens of the issue, on all machines
//! result        writes the result to the issue
//! ```

mod admission;
mod binding;
mod next_tokens;
mod reservation;
mod result;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bailiwick_fleet::ports::{IssueBinding, WorkStorage};
use bailiwick_lifecycle::delegation::context::{Entry, Kind, Load};
use bailiwick_memory::{ClaimRefusal, Entrant, Family, check_entry, issue_context};
use bailiwick_model::{AgentId, IssueName, PhaseName};
use bailiwick_runner::supervisor::RunDirectory;
use serde::{Deserialize, Serialize};

use super::{LockedRun, hand_off, issue_work, preloads};
use crate::context::Context;
use crate::failure::Failure;
use crate::given_issue::GivenIssue;
use crate::issues::OpenIssues;
use crate::{claiming, issues, system};

use admission::{Admitted, admit};
use binding::bound_to;
use reservation::{no_tokens, reserve};

pub use binding::{bind, bind_with};
use result::complete_all;
pub use result::{complete, complete_pending, give_back_claims};

/// The file of a run that has not left its result yet.
const PENDING: &str = "issue-exit.json";

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
    /// The attempt, unique on all machines.
    invocation: String,
    /// The attempt that handed the issue to this run.
    #[serde(default)]
    parent: Option<String>,
    depth: u32,
    /// The attempts that were there before.
    attempts: usize,
    /// Whom it may hand the issue to.
    #[serde(default)]
    may_name: Vec<String>,
    /// The tokens that agents have used for earlier results.
    #[serde(default)]
    used_by_agents: BTreeMap<String, Vec<u64>>,
    /// Labels that named the agent that was to work; this run answers them.
    #[serde(default)]
    agent_labels: Vec<String>,
    /// The phase and the milestone of the issue when it has passed.
    #[serde(default)]
    phase: Option<PhaseName>,
    #[serde(default)]
    milestone: Option<u64>,
    #[serde(rename = "handed_work", default)]
    work_storage: WorkStorage,
    /// Whether its work is checked. If nothing says so, its checks are missing.
    #[serde(default = "is_checked")]
    checks: bool,
    /// How its checks ended, if they did.
    #[serde(default)]
    verified: Option<bool>,
    #[serde(skip)]
    grant: Option<IssueGrant>,
    /// The issues, while the process that has entered is alive.
    #[serde(skip)]
    opened: Option<Arc<OpenIssues>>,
}

fn is_checked() -> bool {
    true
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

/// Refuses a run whose issue does not let it start now; a run that is bound to none may.
pub fn require_entry(context: &Context, run: &AgentId) -> Result<(), Failure> {
    let running = LockedRun::lock(context, run)?;
    let Some(IssueBinding { issue, .. }) = bound_to(&running)? else { return Ok(()) };
    let admitted = admit(&running, &issue)?;
    let opened = &admitted.opened;
    let table =
        opened.with(async |protocol| Ok(protocol.claims().await))?.map_err(Failure::refused_by)?;
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
    claiming::forge::take(&running.subject, &running.id, (&issue, opened), &earlier)
}

impl EnteredIssue {
    /// Reads and checks the issue that a run is bound to; `None` if it is bound to none. `checks` says whether the work
    /// of the run is checked.
    pub(super) fn enter(running: &LockedRun, checks: bool) -> Result<Option<Self>, Failure> {
        let Some(bound) = bound_to(running)? else { return Ok(None) };
        let issue = bound.issue;
        let Admitted { agent, invocation, parent, depth, agent_levels, loaded, opened, .. } =
            admit(running, &issue)?;
        let earlier = issue_work::earlier_runs(running, &loaded.state)?;
        claiming::forge::take(&running.subject, &running.id, (&issue, &opened), &earlier)?;
        issue_work::take_over(running, &issue, &opened, &loaded.state)?;
        let model = running.subject.bound.task.agent.model.as_ref().map(ToString::to_string);
        let window = preloads::window_of(model.as_deref());
        let context = issue_context(&loaded.read.issue, &loaded.state, &loaded.comments, window)
            .map_err(Failure::refused_by)?;
        log_loads(&running.directory, &context.loads, window)?;
        GivenIssue { issue: issue.clone(), text: context.text.clone(), agent_levels }
            .write(&running.directory)?;
        let mut entered = Self {
            issue,
            agent,
            run: running.id.clone(),
            root: running.subject.repository.root().to_owned(),
            invocation,
            parent,
            depth,
            attempts: running.earlier.len(),
            may_name: possible_next_agents(running),
            used_by_agents: next_tokens::used_by_agents(&loaded.state),
            agent_labels: agent_labels(&loaded.read.issue.labels),
            phase: bound.phase,
            milestone: bound.milestone,
            work_storage: bound.work_storage,
            checks,
            verified: None,
            grant: None,
            opened: None,
        };
        let instructions = hand_off::instructions(&entered.may_name).unwrap_or_default();
        // This is stored before the budget is reserved: if the run is killed, recovery returns the reservation.
        let pending = running.directory.path().join(PENDING);
        system::write_json(&pending, &entered)?;
        let remaining = match reserve(running, &entered, &opened) {
            Ok(tokens) => tokens,
            Err(failure) => {
                remove(&pending)?;
                return Err(failure);
            }
        };
        let text = format!("\n\n{}{instructions}", context.text);
        entered.grant = Some(IssueGrant { text, remaining });
        entered.opened = Some(Arc::new(opened));
        Ok(Some(entered))
    }

    /// Its repository, for issues in git.
    fn here(&self, context: &Context) -> Context {
        Context { directory: self.root.clone(), ..context.clone() }
    }

    pub(super) fn grant(&self) -> Option<IssueGrant> {
        self.grant.clone()
    }
}

/// The repository of a run, for issues in git.
fn in_repository(running: &LockedRun) -> Context {
    Context {
        directory: running.subject.repository.root().to_owned(),
        ..running.subject.context.clone()
    }
}

/// Whom a run may hand its issue to.
fn possible_next_agents(running: &LockedRun) -> Vec<String> {
    let allowed = running.subject.bound.task.agent.allowed_subagents.iter();
    allowed.map(ToString::to_string).collect()
}

fn agent_labels(labels: &[String]) -> Vec<String> {
    let of_agent = |label: &&String| matches!(Family::of(label), Some((Family::Agent, _)));
    labels.iter().filter(of_agent).cloned().collect()
}

/// Records what the agent is given of the issue, for its context limits.
fn log_loads(
    directory: &RunDirectory,
    loads: &[(String, u64)],
    window: u64,
) -> Result<(), Failure> {
    let path = directory.path().join("context.jsonl");
    let log = || -> std::io::Result<()> {
        let mut file = std::fs::File::options().create(true).append(true).open(&path)?;
        let mut total = 0_u64;
        for (name, tokens) in loads {
            total = total.saturating_add(*tokens);
            let load = Load { kind: Kind::Given, name: name.clone(), tokens: *tokens };
            let entry = Entry { load, total, most: window * 3 / 10, refused: None };
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

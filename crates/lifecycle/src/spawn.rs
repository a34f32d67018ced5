//! Planning of a spawn: the steps that are missing, given what exists.
//!
//! Each step can be interrupted and repeated: a second `spawn` of the same ID and task continues where the first
//! stopped.

use bailiwick_kit::{Bound, task_text};
use bailiwick_model::{AgentId, Problem, Run};
use thiserror::Error;

use crate::brief;
use crate::ports::{NewRun, Preparation, SeenWorkspace, TaskDirectory, spec_sha};
use crate::prepare::dna;

/// The inputs of a spawn.
#[derive(Debug, Clone)]
pub struct Request {
    /// The agent's id.
    pub id: AgentId,
    /// The run, as the ledger will have it.
    pub run: NewRun,
    /// The task and the prompt.
    pub files: TaskDirectory,
    /// The commit that the agent starts from.
    pub base: String,
    /// How its worktree is prepared.
    pub preparation: Preparation,
}

impl Request {
    /// The request for a bound task.
    pub fn new(
        bound: &Bound,
        id: AgentId,
        base: String,
        worktree: String,
        creator: Option<String>,
        nonce: u16,
    ) -> Result<Self, Problem> {
        let prompt = brief::compose(bound)?;
        let task = task_text::with_agent_id(&bound.source, &id)?;
        let parent = bound.task.task.parent_agent.as_ref().map(AgentId::to_string);
        let run = NewRun {
            id: id.clone(),
            branch: id.branch(),
            parent: parent.clone(),
            spec_sha: spec_sha(&task).to_string(),
            worktree: Some(worktree),
            dna: Some(dna(bound, nonce).to_string()),
            creator: parent.or(creator),
            fork_parent: None,
            half_spawned: true,
            base: Some(base.clone()),
            named: None,
        };
        let preparation = Preparation::of(&bound.task);
        Ok(Self { id, run, files: TaskDirectory { task, prompt }, base, preparation })
    }
}

/// One step of a spawn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Put the run into the ledger.
    RecordRun,
    /// Write `tasks/<id>/`.
    WriteTask,
    /// Create the branch and the worktree.
    AddWorktree,
    /// Copy files and run the setup.
    MakeReady,
    /// Note that all of it is done.
    FinishSpawn,
}

/// Why an agent is not spawned.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Refusal {
    /// The id is in the ledger.
    #[error("there is a run `{id}` already ({status}); choose another agent-id or leave it out")]
    IdTaken {
        /// The id.
        id: AgentId,
        status: bailiwick_model::RunStatus,
    },
    /// The id was half spawned with another task.
    #[error(
        "`{id}` was half spawned with another task; `bailiwick ledger spec {id}` shows it: spawn that one \
         again, or choose another agent-id"
    )]
    OtherTask {
        /// The id.
        id: AgentId,
    },
    /// The ID was half spawned on another commit, whose kit may differ.
    #[error(
        "`{id}` was half spawned on {base}; continue with --base {base}, or choose another agent-id"
    )]
    OtherBase {
        /// The id.
        id: AgentId,
        /// The commit of the first attempt.
        base: String,
    },
    /// The task directory is there, but no run.
    #[error("tasks/{id}/ exists, though the ledger has no run `{id}`; choose another agent-id")]
    TaskDirectoryTaken {
        /// The id.
        id: AgentId,
    },
    /// The branch is there, but no run.
    #[error(
        "the branch {branch} exists, though the ledger has no run for it; choose another agent-id"
    )]
    BranchTaken {
        /// The branch.
        branch: String,
    },
    /// Something is in the way of the worktree.
    #[error("{path} is in the way of the worktree")]
    WorktreeTaken {
        /// The path.
        path: String,
    },
}

/// The steps that are left.
pub fn plan(
    request: &Request,
    recorded: Option<&Run>,
    observed: &SeenWorkspace,
) -> Result<Vec<Step>, Refusal> {
    let id = &request.id;
    if observed.obstacle {
        let path = request.run.worktree.clone().unwrap_or_default();
        return Err(Refusal::WorktreeTaken { path });
    }
    match recorded {
        Some(run) if !run.half_spawned || run.status != bailiwick_model::RunStatus::Running => {
            Err(Refusal::IdTaken { id: id.clone(), status: run.status })
        }
        Some(run) if is_elsewhere(run, request) => {
            Err(Refusal::IdTaken { id: id.clone(), status: run.status })
        }
        Some(run) if run.spec_sha != request.run.spec_sha => {
            Err(Refusal::OtherTask { id: id.clone() })
        }
        Some(run) if run.base != request.run.base => {
            let base = run.base.clone().unwrap_or_default();
            Err(Refusal::OtherBase { id: id.clone(), base })
        }
        Some(_) => Ok(rest(observed)),
        None if observed.task_directory => Err(Refusal::TaskDirectoryTaken { id: id.clone() }),
        None if observed.branch => Err(Refusal::BranchTaken { branch: request.run.branch.clone() }),
        None if observed.worktree => {
            let path = request.run.worktree.clone().unwrap_or_default();
            Err(Refusal::WorktreeTaken { path })
        }
        None => Ok([vec![Step::RecordRun], rest(observed)].concat()),
    }
}

/// Whether a recorded run belongs to another repository than the request.
fn is_elsewhere(run: &Run, request: &Request) -> bool {
    let repository = request.run.named.as_ref().map(|named| &named.repository);
    run.repository.is_some() && run.repository.as_ref() != repository
}

fn rest(observed: &SeenWorkspace) -> Vec<Step> {
    let steps = [
        (!observed.task_directory, Step::WriteTask),
        (!observed.worktree, Step::AddWorktree),
        (!(observed.worktree && observed.ready), Step::MakeReady),
        (true, Step::FinishSpawn),
    ];
    steps.into_iter().filter(|(needed, _)| *needed).map(|(_, step)| step).collect()
}

//! Which issue a run is bound to, and where its files may go.

use bailiwick_fleet::ports::{IssueBinding, WorkStorage};
use bailiwick_model::{AgentId, IssueName};
use bailiwick_runner::supervisor::RunDirectory;

use crate::context::Context;
use crate::failure::Failure;
use crate::managed::ManagedRunConfig;
use crate::running::LockedRun;
use crate::system;

/// The file of a run that names its issue, where the task does not.
const BINDING: &str = "issue.json";

/// Binds a run that has not begun to an issue.
pub fn bind(context: &Context, run: &AgentId, issue: &IssueName) -> Result<(), Failure> {
    bind_with(context, run, &bound_by_person(issue.clone()))
}

/// The same, with what the control plane says about it.
pub fn bind_with(context: &Context, run: &AgentId, binding: &IssueBinding) -> Result<(), Failure> {
    let directory = RunDirectory::new(&context.state, run.as_str());
    directory.make().map_err(|error| {
        Failure::general(format!("{} cannot be made: {error}", directory.path().display()))
    })?;
    system::write_json(&directory.path().join(BINDING), binding)
}

/// The issue that a run is bound to: that of the command line, else that of the task.
pub(super) fn bound_to(running: &LockedRun) -> Result<Option<IssueBinding>, Failure> {
    let bound: Option<IssueBinding> = system::read_json(&running.directory.path().join(BINDING))?;
    let task = &running.subject.bound.task.task;
    let Some(bound) = bound.or_else(|| task.issue.clone().map(bound_by_person)) else {
        return Ok(None);
    };
    Ok(Some(IssueBinding {
        phase: task.phase.clone().or(bound.phase),
        milestone: task.milestone.or(bound.milestone),
        work_storage: work_storage(running)?,
        issue: bound.issue,
    }))
}

/// The binding by a person, who may let the files of the run leave the machine.
fn bound_by_person(issue: IssueName) -> IssueBinding {
    IssueBinding { issue, phase: None, milestone: None, work_storage: WorkStorage::WithIssue }
}

/// Where the files of a run may be kept: only where those of every run above it may be.
fn work_storage(running: &LockedRun) -> Result<WorkStorage, Failure> {
    let context = &running.subject.context;
    let parent = running.subject.bound.task.task.parent_agent.as_ref();
    let above = context.with_store(async |store| Ok(store.ancestor_ids(parent).await?))?;
    for run in std::iter::once(&running.id).chain(&above) {
        if own_work_storage(context, run)? == WorkStorage::OnMachine {
            return Ok(WorkStorage::OnMachine);
        }
    }
    Ok(WorkStorage::WithIssue)
}

/// Where a run itself lets its files be kept. The control plane says so in the binding of each of its runs.
fn own_work_storage(context: &Context, run: &AgentId) -> Result<WorkStorage, Failure> {
    let directory = RunDirectory::new(&context.state, run.as_str());
    let bound: Option<IssueBinding> = system::read_json(&directory.path().join(BINDING))?;
    if let Some(bound) = bound {
        return Ok(bound.work_storage);
    }
    let is_of_control_plane = ManagedRunConfig::of(&directory)?.is_some();
    Ok(if is_of_control_plane { WorkStorage::OnMachine } else { WorkStorage::WithIssue })
}

//! Operations as the control plane requests them.

use std::fs;
use std::path::Path;

use bailiwick_fleet::ports::{WorkspaceError, WorkspaceOperation, WorkspacePlace, WorkspaceReport};

use super::{
    Archived, IgnoredFiles, OperationError, RebaseOutcome, RestoredFrom, Workspace,
    WorkspaceOperations,
};

/// The message for the person, and the reference with rescued changes.
type Report = (String, Option<String>);

impl WorkspaceOperations {
    /// Performs an operation and returns the state of the workspace afterwards. `target` is the tip of its target
    /// branch on the forge, if that is known.
    pub fn perform(
        &self,
        place: &WorkspacePlace,
        target: Option<&str>,
        operation: &WorkspaceOperation,
    ) -> Result<WorkspaceReport, WorkspaceError> {
        self.run(place, target, operation).map_err(|error| match error {
            OperationError::Refused { reason, instead } => {
                WorkspaceError::Refused { reason, instead }
            }
            OperationError::Git(error) => WorkspaceError::Failed(error.to_string()),
            OperationError::File { what, why } => WorkspaceError::Failed(format!("{what}: {why}")),
        })
    }

    fn run(
        &self,
        place: &WorkspacePlace,
        target: Option<&str>,
        operation: &WorkspaceOperation,
    ) -> Result<WorkspaceReport, OperationError> {
        let path = Path::new(&place.path);
        let branch = place.branch.as_str();
        if *operation == WorkspaceOperation::Link {
            let git = self.link(path, target)?;
            let real = fs::canonicalize(path).map_err(super::file(path))?;
            let linked = Workspace { path: &real, branch: &git.branch, target };
            let rebasing = self.is_rebasing(&linked)?;
            let path = real.display().to_string();
            return Ok(WorkspaceReport { path, git, rebasing, kept: None, said: String::new() });
        }
        let workspace = Workspace { path, branch, target };
        let (message, kept) = self.run_operation(&workspace, operation)?;
        Ok(WorkspaceReport {
            path: place.path.clone(),
            git: self.status(&workspace)?,
            rebasing: self.is_rebasing(&workspace)?,
            kept,
            said: message,
        })
    }

    fn run_operation(
        &self,
        workspace: &Workspace<'_>,
        operation: &WorkspaceOperation,
    ) -> Result<Report, OperationError> {
        Ok(match operation {
            WorkspaceOperation::Look | WorkspaceOperation::Link => (String::new(), None),
            WorkspaceOperation::Provision { base } => {
                self.provision(workspace, base)?;
                (format!("created on the branch {}, from {base:.12}", workspace.branch), None)
            }
            WorkspaceOperation::Archive { discard_ignored } => {
                archived(self.archive(workspace, ignored(*discard_ignored))?)
            }
            WorkspaceOperation::Cleanup { discard_ignored } => {
                archived(self.cleanup(workspace, ignored(*discard_ignored))?)
            }
            WorkspaceOperation::Recover => {
                let message = match self.recover(workspace)? {
                    RestoredFrom::Disk => "its files are restored as they were",
                    RestoredFrom::Branch => "its files are restored from its branch",
                    RestoredFrom::BranchAndRescue => {
                        "its files are restored from its branch, with the uncommitted changes"
                    }
                };
                (message.to_owned(), None)
            }
            WorkspaceOperation::RebaseStart => rebased(self.rebase_start(workspace)?),
            WorkspaceOperation::RebaseAutoResolve => rebased(self.rebase_auto_resolve(workspace)?),
            WorkspaceOperation::RebaseMarkResolved => {
                rebased(self.rebase_mark_resolved(workspace)?)
            }
            WorkspaceOperation::RebaseAbort => {
                let kept = self.rebase_abort(workspace)?;
                ("the rebase is undone".to_owned(), kept)
            }
        })
    }
}

fn ignored(discard: bool) -> IgnoredFiles {
    if discard { IgnoredFiles::Discard } else { IgnoredFiles::Keep }
}

fn archived(archived: Archived) -> Report {
    let message = "its files are removed, its branch is kept".to_owned();
    (message, archived.rescue_ref)
}

fn rebased(rebase: RebaseOutcome) -> Report {
    let message = match rebase {
        RebaseOutcome::Done { head } => format!("rebased onto its target, at {head:.12}"),
        RebaseOutcome::Conflicts { files } => match files.len() {
            1 => "1 file has conflicts: resolve them, then mark it resolved".to_owned(),
            many => format!("{many} files have conflicts: resolve them, then mark them resolved"),
        },
    };
    (message, None)
}

//! Operations as the control plane requests them.

use std::fs;
use std::path::Path;

use bailiwick_control::ports::fleet::{
    WorkspaceDeed, WorkspacePlace, WorkspaceSeen, WorkspaceTrouble,
};

use super::{
    Archived, IgnoredFiles, OperationError, RebaseOutcome, RestoredFrom, Workspace,
    WorkspaceOperations,
};

/// The message for the person, and the reference with rescued changes.
type Report = (String, Option<String>);

impl WorkspaceOperations {
    /// Performs an operation and returns the state of the workspace afterwards.
    pub fn perform(
        &self,
        place: &WorkspacePlace,
        operation: &WorkspaceDeed,
    ) -> Result<WorkspaceSeen, WorkspaceTrouble> {
        self.run(place, operation).map_err(|error| match error {
            OperationError::Refused { reason, instead } => {
                WorkspaceTrouble::Refused { reason, instead }
            }
            OperationError::Git(error) => WorkspaceTrouble::Failed(error.to_string()),
            OperationError::File { what, why } => {
                WorkspaceTrouble::Failed(format!("{what}: {why}"))
            }
        })
    }

    fn run(
        &self,
        place: &WorkspacePlace,
        operation: &WorkspaceDeed,
    ) -> Result<WorkspaceSeen, OperationError> {
        let path = Path::new(&place.path);
        let (branch, target) = (place.branch.as_str(), place.target.as_str());
        if *operation == WorkspaceDeed::Link {
            let git = self.link(path, target)?;
            let real = fs::canonicalize(path).map_err(super::file(path))?;
            let linked = Workspace { path: &real, branch: &git.branch, target };
            let rebasing = self.is_rebasing(&linked)?;
            let path = real.display().to_string();
            return Ok(WorkspaceSeen { path, git, rebasing, kept: None, said: String::new() });
        }
        let workspace = Workspace { path, branch, target };
        let (message, kept) = self.run_operation(&workspace, operation)?;
        Ok(WorkspaceSeen {
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
        operation: &WorkspaceDeed,
    ) -> Result<Report, OperationError> {
        Ok(match operation {
            WorkspaceDeed::Look | WorkspaceDeed::Link => (String::new(), None),
            WorkspaceDeed::Provision { base } => {
                self.provision(workspace, base)?;
                (format!("created on the branch {}, from {base:.12}", workspace.branch), None)
            }
            WorkspaceDeed::Archive { discard_ignored } => {
                archived(self.archive(workspace, ignored(*discard_ignored))?)
            }
            WorkspaceDeed::Cleanup { discard_ignored } => {
                archived(self.cleanup(workspace, ignored(*discard_ignored))?)
            }
            WorkspaceDeed::Recover => {
                let message = match self.recover(workspace)? {
                    RestoredFrom::Disk => "its files are restored as they were",
                    RestoredFrom::Branch => "its files are restored from its branch",
                    RestoredFrom::BranchAndRescue => {
                        "its files are restored from its branch, with the uncommitted changes"
                    }
                };
                (message.to_owned(), None)
            }
            WorkspaceDeed::RebaseStart => rebased(self.rebase_start(workspace)?),
            WorkspaceDeed::RebaseAutoResolve => rebased(self.rebase_auto_resolve(workspace)?),
            WorkspaceDeed::RebaseMarkResolved => rebased(self.rebase_mark_resolved(workspace)?),
            WorkspaceDeed::RebaseAbort => {
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

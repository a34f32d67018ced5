//! What the control plane has done with workspaces, in its own words.

use std::fs;
use std::path::Path;

use bailiwick_fleet::ports::{WorkspaceError, WorkspaceOperation, WorkspacePlace, WorkspaceReport};

use super::{CameBack, Ignored, PutAway, Rebase, VerbError, Workspace, WorkspaceVerbs};

/// What a verb says of itself, and what it kept.
type Said = (String, Option<String>);

impl WorkspaceVerbs {
    /// Does it, and looks at what is there then.
    pub fn carry_out(
        &self,
        place: &WorkspacePlace,
        deed: &WorkspaceOperation,
    ) -> Result<WorkspaceReport, WorkspaceError> {
        self.did(place, deed).map_err(|error| match error {
            VerbError::Refused { reason, instead } => WorkspaceError::Refused { reason, instead },
            VerbError::Git(error) => WorkspaceError::Failed(error.to_string()),
            VerbError::File { what, why } => WorkspaceError::Failed(format!("{what}: {why}")),
        })
    }

    fn did(
        &self,
        place: &WorkspacePlace,
        deed: &WorkspaceOperation,
    ) -> Result<WorkspaceReport, VerbError> {
        let path = Path::new(&place.path);
        let (branch, target) = (place.branch.as_str(), place.target.as_str());
        if *deed == WorkspaceOperation::Link {
            let git = self.link(path, target)?;
            let real = fs::canonicalize(path).map_err(super::file(path))?;
            let linked = Workspace { path: &real, branch: &git.branch, target };
            let rebasing = self.is_rebasing(&linked)?;
            let path = real.display().to_string();
            return Ok(WorkspaceReport { path, git, rebasing, kept: None, said: String::new() });
        }
        let workspace = Workspace { path, branch, target };
        let (said, kept) = self.verb(&workspace, deed)?;
        Ok(WorkspaceReport {
            path: place.path.clone(),
            git: self.status(&workspace)?,
            rebasing: self.is_rebasing(&workspace)?,
            kept,
            said,
        })
    }

    fn verb(
        &self,
        workspace: &Workspace<'_>,
        deed: &WorkspaceOperation,
    ) -> Result<Said, VerbError> {
        Ok(match deed {
            WorkspaceOperation::Look | WorkspaceOperation::Link => (String::new(), None),
            WorkspaceOperation::Provision { base } => {
                self.provision(workspace, base)?;
                (format!("made on the branch {}, from {base:.12}", workspace.branch), None)
            }
            WorkspaceOperation::Archive { discard_ignored } => {
                put_away(self.archive(workspace, ignored(*discard_ignored))?)
            }
            WorkspaceOperation::Cleanup { discard_ignored } => {
                put_away(self.cleanup(workspace, ignored(*discard_ignored))?)
            }
            WorkspaceOperation::Recover => {
                let said = match self.recover(workspace)? {
                    CameBack::AsTheyWere => "its files are back as they were",
                    CameBack::FromBranch => "its files are back from its branch",
                    CameBack::WithRescued => {
                        "its files are back from its branch, with what had not been committed"
                    }
                };
                (said.to_owned(), None)
            }
            WorkspaceOperation::RebaseStart => rebased(self.rebase_start(workspace)?),
            WorkspaceOperation::RebaseAutoResolve => rebased(self.rebase_auto_resolve(workspace)?),
            WorkspaceOperation::RebaseMarkResolved => {
                rebased(self.rebase_mark_resolved(workspace)?)
            }
            WorkspaceOperation::RebaseAbort => {
                let kept = self.rebase_abort(workspace)?;
                ("back to where it was before the rebase".to_owned(), kept)
            }
        })
    }
}

fn ignored(discard: bool) -> Ignored {
    if discard { Ignored::Discard } else { Ignored::Keep }
}

fn put_away(away: PutAway) -> Said {
    let said = "its files are put away, its branch is kept".to_owned();
    (said, away.rescued)
}

fn rebased(rebase: Rebase) -> Said {
    let said = match rebase {
        Rebase::Done { head } => format!("it is on top of its target, at {head:.12}"),
        Rebase::Conflicts { files } => match files.len() {
            1 => "a file has conflicts: settle it, then mark it resolved".to_owned(),
            many => format!("{many} files have conflicts: settle them, then mark them resolved"),
        },
    };
    (said, None)
}

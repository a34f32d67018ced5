//! The changes of each commit of the work to manifests and lock files.

use bailiwick_model::well_known::is_manifest;
use bailiwick_verify::Change;
use bailiwick_verify::facts::{CommitDifferences, Difference};

use crate::ports::{Snapshot, Work, WorkError};

pub(super) fn look_up<W: Work>(
    work: &W,
    snapshot: &Snapshot,
) -> Result<Vec<CommitDifferences>, WorkError> {
    let commits = work.commits(snapshot)?.into_iter().map(|commit| {
        let parents = match commit.parents.as_slice() {
            // A root commit has no parent: it is compared with the merge base.
            [] => std::slice::from_ref(&snapshot.merge_base),
            parents => parents,
        };
        let against = parents.iter().map(|parent| difference(work, parent, &commit.name));
        let against = against.collect::<Result<Vec<_>, _>>()?;
        Ok(CommitDifferences { commit: commit.name.into(), per_parent: against })
    });
    commits.collect()
}

fn difference<W: Work>(work: &W, before: &str, after: &str) -> Result<Difference, WorkError> {
    let mut changes = work.changes(before, after)?;
    changes.retain(|change: &Change| change.paths().any(is_manifest));
    if changes.is_empty() {
        return Ok(Difference::default());
    }
    let paths: Vec<String> = changes.iter().map(|change| change.path.clone()).collect();
    let texts = work.texts(&changes, &paths)?;
    Ok(Difference { changes, texts })
}

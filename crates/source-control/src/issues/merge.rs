//! Joining what two clones did with the same issue.

use bailiwick_memory::MemoryError;

use super::local::{LocalIssues, failed, reference};
use crate::git::Input;
use crate::git::issue_operation::Change;

/// What became of an issue of another clone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IssueMerge {
    /// There is nothing new in it.
    Unchanged,
    /// It did not exist here.
    Added,
    /// Only the other clone had changed it.
    Forwarded,
    /// Both had.
    Merged,
    /// Both clones opened an issue with this number, independently.
    Unrelated,
    /// It was not opened with our key in this repository, and is left out.
    Foreign,
}

/// Merges all issues that were fetched to `refs/bailiwick/remotes/<remote>/issues/*`.
pub fn merge_issues(
    issues: &LocalIssues,
    remote: &str,
) -> Result<Vec<(u64, IssueMerge)>, MemoryError> {
    let prefix = format!("refs/bailiwick/remotes/{remote}/issues/");
    let valid = issues.git().succeeds(["check-ref-format", &format!("{prefix}1")]).unwrap_or(false);
    if !valid || remote.starts_with('-') {
        return Err(MemoryError::Refused(format!("`{remote}` is not the name of a remote")));
    }
    let format = "--format=%(refname) %(objectname)";
    let listed = issues.git().run(["for-each-ref", format, &prefix]).map_err(failed)?;
    let listed = String::from_utf8_lossy(&listed).into_owned();
    let mut merged = Vec::new();
    for line in listed.lines() {
        let Some((name, commit)) = line.split_once(' ') else { continue };
        let Some(number) = name.strip_prefix(&prefix).and_then(|text| text.parse().ok()) else {
            continue;
        };
        merged.push((number, merge(issues, number, commit)?));
    }
    merged.sort_by_key(|(number, _)| *number);
    Ok(merged)
}

fn merge(issues: &LocalIssues, number: u64, theirs: &str) -> Result<IssueMerge, MemoryError> {
    let name = reference(number);
    if !issues.is_ours(number, theirs)? {
        return Ok(IssueMerge::Foreign);
    }
    // Somebody may write here meanwhile; then it is looked at again.
    loop {
        let ours = crate::git::resolve_ref(issues.git(), &name).map_err(failed)?;
        let Some(ours) = ours else {
            if issues.move_ref(&name, None, theirs)? {
                return Ok(IssueMerge::Added);
            }
            continue;
        };
        let base =
            issues.git().output(["merge-base", &ours, theirs], Input::Nothing).map_err(failed)?;
        let (next, outcome) = match base.exit_code {
            Some(0) if base.text() == theirs => return Ok(IssueMerge::Unchanged),
            Some(0) if base.text() == ours => (theirs.to_owned(), IssueMerge::Forwarded),
            Some(0) => {
                let parents = [ours.clone(), theirs.to_owned()];
                let commit = issues.commit(number, Change::Merge, &parents)?;
                (commit, IssueMerge::Merged)
            }
            Some(1) => return Ok(IssueMerge::Unrelated),
            Some(_) | None => return Err(failed(base.into_error())),
        };
        if issues.move_ref(&name, Some(&ours), &next)? {
            return Ok(outcome);
        }
    }
}

//! The git status of a workspace.

use bailiwick_resources::GitStatus;

use super::{Git, OperationError, Repository, Workspace};

pub(super) fn observe(
    repository: &Repository,
    workspace: &Workspace<'_>,
) -> Result<GitStatus, OperationError> {
    let branch = workspace.branch.to_owned();
    if !workspace.path.join(".git").exists() {
        let head = repository.commit(&format!("refs/heads/{branch}"))?.unwrap_or_default();
        return Ok(GitStatus { branch, head, missing: true, ..GitStatus::default() });
    }
    let git = Git::at(workspace.path);
    let output = git.run([
        "status",
        "--porcelain=v2",
        "--branch",
        "-z",
        "--untracked-files=all",
        "--no-renames",
        "--ignore-submodules=dirty",
    ])?;
    let mut status = GitStatus { branch, ..GitStatus::default() };
    for entry in output.split(|byte| *byte == 0).filter(|entry| !entry.is_empty()) {
        read(&String::from_utf8_lossy(entry), &mut status);
    }
    status.dirty = status.uncommitted_count > 0;
    let Some(target) = workspace.target else { return Ok(status) };
    let range = format!("{target}...HEAD");
    let both = git.line(["rev-list", "--left-right", "--count", &range]);
    if let Some((behind, ahead)) = both.ok().as_deref().and_then(|both| both.split_once('\t')) {
        status.behind = behind.parse().unwrap_or_default();
        status.ahead = ahead.parse().unwrap_or_default();
    }
    Ok(status)
}

fn read(entry: &str, status: &mut GitStatus) {
    if let Some(header) = entry.strip_prefix("# ") {
        match header.split_once(' ') {
            Some(("branch.oid", head)) => head.clone_into(&mut status.head),
            // During a rebase HEAD is detached; then the recorded branch is used.
            Some(("branch.head", name)) if name != "(detached)" => {
                name.clone_into(&mut status.branch);
            }
            Some(("branch.upstream", name)) => status.tracking = Some(name.to_owned()),
            Some(_) | None => {}
        }
        return;
    }
    status.uncommitted_count += 1;
    // `u XY sub m1 m2 m3 mW h1 h2 h3 path`
    if let Some(path) = entry.strip_prefix("u ").and_then(|rest| rest.splitn(10, ' ').last()) {
        status.conflicting_files.push(path.to_owned());
    }
}

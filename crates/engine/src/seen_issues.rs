//! The last commit that this machine has seen of each issue in git. An issue only grows, so one that lacks it was
//! moved back.

use std::path::PathBuf;

use bailiwick_memory::IssueMemory as _;
use bailiwick_source_control::issues::LocalIssues;

use crate::context::Context;
use crate::failure::Failure;
use crate::system;

/// The directory below the state directory.
const DIRECTORY: &str = "issues";

fn path(context: &Context, local: &LocalIssues, number: u64) -> PathBuf {
    let name = local.repository().replace('/', "-");
    context.state.join(DIRECTORY).join(format!("{name}-{number}.json"))
}

/// Notes the last commit of an issue, unless the one that was noted before is missing from it.
pub fn note(context: &Context, local: &LocalIssues, number: u64) -> Result<(), Failure> {
    if missing(context, local, number)?.is_some() {
        return Ok(());
    }
    let Some(last) = local.last_commit(number).map_err(Failure::refused_by)? else { return Ok(()) };
    let path = path(context, local, number);
    if system::read_json::<String>(&path)?.as_ref() == Some(&last) {
        return Ok(());
    }
    let directory = context.state.join(DIRECTORY);
    std::fs::create_dir_all(&directory).map_err(|error| {
        Failure::general(format!("{} cannot be made: {error}", directory.display()))
    })?;
    system::write_json(&path, &last)
}

/// A commit that this machine has seen and that the issue no longer has.
pub fn missing(
    context: &Context,
    local: &LocalIssues,
    number: u64,
) -> Result<Option<String>, Failure> {
    let commit: Option<String> = system::read_json(&path(context, local, number))?;
    let Some(commit) = commit else { return Ok(None) };
    let is_there = local.has_commit(number, &commit).map_err(Failure::refused_by)?;
    Ok((!is_there).then_some(commit))
}

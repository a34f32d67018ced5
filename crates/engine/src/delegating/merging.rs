//! `merge_agent`: the changes of an agent that has ended become changes of its caller. The supervisor merges and decides;
//! the caller's own MCP server writes the files, inside of the caller's sandbox.

use std::collections::BTreeMap;
use std::path::Path;

use bailiwick_gate::{HostContext, evaluate_call};
use bailiwick_lifecycle::ports::{Base, Conflict, Merge, Snapshot, Work as _, WorkError};
use bailiwick_model::well_known::report_path;
use bailiwick_model::{AgentId, CommitId, TreeId};
use bailiwick_policy::Outcome;
use bailiwick_policy::dialects::Dialect;
use bailiwick_runner::supervisor::RunDirectory;
use bailiwick_verify::change::{Change, Entry, Mode};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::merged_files::{FileContent, FileWrite, MergePlan, found};
use super::service::DelegationService;
use super::wait::Status;
use crate::counted::counted;
use crate::failure::Failure;
use crate::policy_file;
use crate::verifying::{AgentWork, WorkOptions};

/// The name of the tool.
pub(super) const MERGE_AGENT: &str = "merge_agent";
/// The maximum size of one merge, in bytes.
const MAX_BYTES: usize = 16 * 1024 * 1024;
/// How many paths a message names.
const SHOWN_PATHS: usize = 5;

/// The arguments of `merge_agent`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct MergeAgent {
    /// The agent; it must have completed
    pub(super) id: String,
}

impl DelegationService {
    /// Plans the files that the caller's server must write to add the agent's changes to the caller's.
    pub(super) fn merge_agent(&self, request: &MergeAgent) -> Result<Value, Failure> {
        let one = self.below(&request.id)?;
        let Some(caller) = &self.caller else {
            return Err(Failure::refused(format!(
                "only an agent in a run can merge the work of another one; land it: bailiwick land {}",
                one.run
            )));
        };
        match self.status(&one)? {
            Status::Completed(_) => {}
            other @ (Status::PendingInit
            | Status::Running
            | Status::Errored(_)
            | Status::Shutdown
            | Status::NotFound) => {
                return Err(Failure::refused(format!(
                    "`{}` is {}; only the work of an agent that has completed can be merged",
                    one.run,
                    other.label()
                )));
            }
        }
        let child = AgentWork::of_agent(&self.context, &one.run, &WorkOptions::default())?;
        let own = AgentWork::of_agent(&self.context, caller, &WorkOptions::default())?;
        let before = snapshot(&own)?;
        let changes = merged(&before, &child)?;
        self.require_writable(caller, &own.worktree, changes.keys())?;
        let plan = plan(&own, &one.run, &changes)?;
        // Later changes must not be overwritten.
        if snapshot(&own)?.tree != before.tree {
            return Err(Failure::refused("your files have just changed; call merge_agent again"));
        }
        serde_json::to_value(plan).map_err(Failure::refused_by)
    }

    /// Returns an error if the caller could not write one of these files itself.
    fn require_writable<'a>(
        &self,
        caller: &AgentId,
        worktree: &Path,
        paths: impl Iterator<Item = &'a String>,
    ) -> Result<(), Failure> {
        let directory = RunDirectory::new(&self.context.state, caller.as_str());
        let recorded = policy_file::recorded(&directory)?;
        let host = HostContext::at(worktree, worktree).map_err(Failure::refused_by)?;
        for path in paths {
            let file = worktree.join(path);
            let payload = json!({
                "tool_name": "Write",
                "tool_input": { "file_path": file.to_string_lossy(), "content": "" },
            });
            let payload = payload.to_string();
            let dialect = (Dialect::Claude, &[][..]);
            let record = evaluate_call(&recorded.policy, "", dialect, payload.as_bytes(), &host);
            match record.decision.outcome {
                Outcome::Allow => {}
                Outcome::Ask | Outcome::Deny => {
                    return Err(Failure::refused(format!(
                        "`{path}` cannot be merged: {}",
                        record.decision.message()
                    )));
                }
            }
        }
        Ok(())
    }
}

/// The two sides of a changed path.
#[derive(Debug, Default)]
struct Sides {
    before: Option<Entry>,
    after: Option<Entry>,
}

fn failed(error: WorkError) -> Failure {
    Failure::general(error.to_string())
}

/// The caller's files as they are now.
fn snapshot(own: &AgentWork) -> Result<Snapshot, Failure> {
    let work = own.git_work()?;
    work.snapshot(&work.base().map_err(failed)?).map_err(failed)
}

/// Writes the changes of another run's commit into the files of an idle run, as if its agent had merged them.
/// Gives the number of files.
pub fn merge_commit(
    own: &AgentWork,
    from: &AgentId,
    commit: &str,
    is_allowed: impl Fn(&str) -> Result<(), Failure>,
) -> Result<usize, Failure> {
    let git = own.repository.git();
    let tree_of = |commit: &str| git.line(["rev-parse", "--verify", &format!("{commit}^{{tree}}")]);
    let before = snapshot(own)?;
    let merge_base = git.line(["merge-base", &before.head, commit]).map_err(|_| {
        Failure::refused(format!("the work of `{from}` and yours have no commit in common"))
    })?;
    let base = Base {
        branch: before.head.to_string(),
        tip: before.commit.clone(),
        tree: before.tree.clone(),
        found: "the files of the run".to_owned(),
    };
    let theirs = Snapshot {
        head: CommitId::new(commit),
        commit: CommitId::new(commit),
        tree: TreeId::new(tree_of(commit)?),
        merge_base_tree: TreeId::new(tree_of(&merge_base)?),
        merge_base: CommitId::new(merge_base),
    };
    let work = own.git_work()?;
    let mut changes = match work.merge(&base, &theirs).map_err(failed)? {
        Merge::Clean { tree } => by_path(work.changes(&before.tree, &tree).map_err(failed)?),
        Merge::Conflicts(conflicts) => return Err(in_conflict(&conflicts)),
    };
    // Its report is not part of the work.
    changes.remove(&report_path(from.as_str()));
    changes.keys().try_for_each(|path| is_allowed(path))?;
    let plan = plan(own, from, &changes)?;
    super::merged_files::write_plan(&plan).map_err(Failure::refused)?;
    Ok(changes.len())
}

/// What differs between the caller's files and the merge of both works, by path.
fn merged(own: &Snapshot, child: &AgentWork) -> Result<BTreeMap<String, Sides>, Failure> {
    let theirs = child.git_work()?.clone().on_commit(own.commit.clone());
    let base = theirs.base().map_err(failed)?;
    let snapshot = theirs.snapshot(&base).map_err(failed)?;
    match theirs.merge(&base, &snapshot).map_err(failed)? {
        Merge::Clean { tree } => {
            let changes = theirs.changes(&own.tree, &tree).map_err(failed)?;
            Ok(by_path(changes))
        }
        Merge::Conflicts(conflicts) => Err(in_conflict(&conflicts)),
    }
}

/// Both sides of each path: a rename is one path that goes and one that comes.
fn by_path(changes: Vec<Change>) -> BTreeMap<String, Sides> {
    let mut all: BTreeMap<String, Sides> = BTreeMap::new();
    for change in changes {
        match change.from {
            Some(from) if !change.copied => all.entry(from).or_default().before = change.before,
            Some(_) => {}
            None => all.entry(change.path.clone()).or_default().before = change.before,
        }
        all.entry(change.path).or_default().after = change.after;
    }
    all
}

fn in_conflict(conflicts: &[Conflict]) -> Failure {
    let paths: Vec<String> = conflicts
        .iter()
        .take(SHOWN_PATHS)
        .map(|conflict| format!("{}: {}", conflict.path, conflict.why))
        .collect();
    let more = conflicts.len().saturating_sub(SHOWN_PATHS);
    let more = if more > 0 { format!("; and {more} more") } else { String::new() };
    Failure::refused(format!(
        "its changes conflict with yours, nothing was merged ({}{more})",
        paths.join("; ")
    ))
}

/// Reads what is to be written, and what is there now.
fn plan(
    own: &AgentWork,
    agent: &AgentId,
    changes: &BTreeMap<String, Sides>,
) -> Result<MergePlan, Failure> {
    let git = own.repository.git();
    let too_large = || {
        Failure::refused(format!(
            "the change in {} has more than {MAX_BYTES} bytes; land it: bailiwick land {agent}",
            counted(changes.len(), "file")
        ))
    };
    let (mut files, mut space) = (Vec::new(), MAX_BYTES);
    for (path, sides) in changes {
        let after = match &sides.after {
            None => None,
            Some(Entry { mode: Mode::Submodule, .. }) => {
                return Err(Failure::refused(format!(
                    "`{path}` is a submodule, which cannot be merged; land it: bailiwick land {agent}"
                )));
            }
            Some(Entry { mode, object }) => {
                // No more is read than may be written.
                let content = git.run_limited(&["cat-file", "blob", object], space)?;
                let content = content.ok_or_else(too_large)?;
                space = space.saturating_sub(content.len());
                Some(FileContent { mode: *mode, base64: STANDARD.encode(content) })
            }
        };
        let before = found(&own.worktree.join(path)).map_err(Failure::refused_by)?;
        files.push(FileWrite { path: path.clone(), before, after });
    }
    Ok(MergePlan { agent: agent.to_string(), root: own.worktree.clone(), files })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(object: &str) -> Entry {
        Entry { mode: Mode::File, object: object.to_owned() }
    }

    #[test]
    fn two_files_that_swap_names_are_two_changed_paths() {
        let change = |path: &str, from: Option<&str>, before: &str, after: &str| Change {
            path: path.to_owned(),
            from: from.map(str::to_owned),
            copied: false,
            before: Some(entry(before)),
            after: Some(entry(after)),
        };
        let all = by_path(vec![
            change("a", Some("b"), "2", "2"),
            change("b", Some("a"), "1", "1"),
            change("new", Some("old"), "3", "3"),
            Change { copied: true, ..change("copy", Some("kept"), "4", "4") },
        ]);
        let side = |side: &Option<Entry>| side.as_ref().map(|entry| entry.object.clone());
        let found: Vec<(&str, Option<String>, Option<String>)> = all
            .iter()
            .map(|(path, sides)| (path.as_str(), side(&sides.before), side(&sides.after)))
            .collect();
        let object = |text: &str| Some(text.to_owned());
        assert_eq!(
            found,
            [
                ("a", object("1"), object("2")),
                ("b", object("2"), object("1")),
                ("copy", None, object("4")),
                ("new", None, object("3")),
                ("old", object("3"), None),
            ]
        );
    }
}

//! The files that a run leaves to the next agent of its issue. On the machine that has them the next run takes over the
//! workspace; another machine gets them from the issue's repository.

use bailiwick_fleet::ports::WorkStorage;
use bailiwick_lifecycle::ports::{RunStore as _, Work as _, WorkError};
use bailiwick_memory::State;
use bailiwick_model::secret::has_key_or_token;
use bailiwick_model::{AgentId, IssueName};
use bailiwick_policy::PathPolicy;

use super::LockedRun;
use crate::claiming::forge::EarlierRun;
use crate::context::Context;
use crate::delegating::merging;
use crate::failure::Failure;
use crate::issue_recovery::is_recovered;
use crate::issues::OpenIssues;
use crate::verifying::{AgentWork, WorkOptions};
use crate::work_patch::history;
use crate::{agent_names, policy_file, reused_workspace};

/// Stores the files of a run for the next agent, and returns their commit; nothing if it has changed nothing.
pub(super) fn store_work(
    context: &Context,
    run: &AgentId,
    issue: &IssueName,
    opened: &OpenIssues,
    work_storage: WorkStorage,
) -> Result<Option<String>, Failure> {
    let failed = |error: WorkError| Failure::general(error.to_string());
    let subject = AgentWork::of_agent(context, run, &WorkOptions::default())?;
    let work = subject.git_work()?;
    let snapshot = work.snapshot(&work.base().map_err(failed)?).map_err(failed)?;
    if snapshot.tree == snapshot.merge_base_tree {
        return Ok(None);
    }
    let commit = snapshot.commit.to_string();
    let history = history(&subject.repository.git(), snapshot.merge_base.as_str(), &commit)?;
    let policy = match work_storage {
        WorkStorage::WithIssue => None,
        WorkStorage::OnMachine => Some("the write-back policy does not allow `work-reference`"),
    };
    if let Some(why) = policy.or_else(|| private(history.as_deref())) {
        context.notices.note(format_args!(
            "the files of `{run}` stay on this machine, so no other one can continue {issue}: {why}"
        ));
        return Ok(Some(commit));
    }
    let result =
        opened.with(async |protocol| Ok(protocol.memory.keep_work(issue.number, &commit).await))?;
    // It is recorded all the same: a machine that does not find it must not begin without it.
    if let Err(error) = result {
        context.notices.note(format_args!(
            "the files of `{run}` are on this machine alone, so no other one can continue {issue}: {error}"
        ));
    }
    Ok(Some(commit))
}

/// Why files with this history must not leave this machine; none if they may.
fn private(history: Option<&[u8]>) -> Option<&'static str> {
    match history {
        None => Some("its changes are too long to be searched for secrets"),
        Some(history) if has_key_or_token(&String::from_utf8_lossy(history)) => {
            Some("its changes contain a key or token")
        }
        Some(_) => None,
    }
}

/// Writes the files that were left to a new run into its worktree, where another machine has made them.
pub(super) fn take_over(
    running: &LockedRun,
    issue: &IssueName,
    opened: &OpenIssues,
    state: &State,
) -> Result<(), Failure> {
    let Some((earlier, commit)) = state.stored_work() else { return Ok(()) };
    let subject = &running.subject;
    let Ok(earlier) = AgentId::parse(earlier) else { return Ok(()) };
    // What a run of this machine has left is its workspace's.
    if !running.earlier.is_empty() || is_of_this_machine(running, &earlier)? {
        return Ok(());
    }
    let id = &running.id;
    let is_there =
        opened.with(async |protocol| protocol.memory.fetch_work(issue.number, commit).await)?;
    if !is_there {
        return Err(Failure::refused(format!(
            "`{id}` cannot continue {issue}: the files that `{earlier}` left are not on the forge"
        ))
        .help("start again with the agent that made them, by its label"));
    }
    let limits = PathPolicy::of(&policy_file::recorded(&running.directory)?.policy);
    let files = merging::merge_commit(subject, &earlier, commit, |path| {
        match limits.forbids(path) {
            None => Ok(()),
            Some(rule) => Err(Failure::refused(format!(
                "`{id}` cannot continue {issue}: `{earlier}` changed `{path}`, which `{rule}` forbids to this run"
            ))),
        }
    })?;
    subject.context.notices.note(format_args!("`{id}` has {files} files that `{earlier}` left"));
    Ok(())
}

/// The runs that leave their files to a run, and with them their claims on the issue: those whose workspace it has, and
/// those of other machines that handed the issue on.
pub(super) fn earlier_runs(running: &LockedRun, state: &State) -> Result<Vec<EarlierRun>, Failure> {
    let own = reused_workspace::earlier_runs(&running.subject.context.state, &running.id)?;
    let mut earlier: Vec<EarlierRun> = own.into_iter().map(EarlierRun::Here).collect();
    for (run, handed_at) in state.handing_runs() {
        let Ok(agent) = AgentId::parse(run) else { continue };
        if !is_of_this_machine(running, &agent)? {
            earlier.push(EarlierRun::Elsewhere { agent, handed_at });
        }
    }
    Ok(earlier)
}

/// Whether a run did its work on this machine.
fn is_of_this_machine(running: &LockedRun, name: &AgentId) -> Result<bool, Failure> {
    let subject = &running.subject;
    let place = agent_names::place(&subject.repository)?;
    let id = agent_names::id_for(&subject.context, &place, name)?;
    let known = subject.context.with_store(async |store| Ok(store.find(&id).await?))?;
    Ok(known.is_some_and(|run| !is_recovered(&run)))
}

#[cfg(test)]
mod tests {
    use super::private;

    #[test]
    fn work_with_a_token_or_unknown_history_is_private() {
        assert!(private(None).is_some());
        let token = format!("+key = ghp_{}\n", "a1B2".repeat(9));
        assert!(private(Some(token.as_bytes())).is_some());
        assert_eq!(private(Some(b"+plain text\n")), None);
    }
}

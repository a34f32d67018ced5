//! Rebuilding what this machine does not know from issues alone: runs in the ledger, claims, and the next step.

use std::path::Path;
use std::str::FromStr;

use bailiwick_lifecycle::ports::{NewRun, RunStore as _};
use bailiwick_memory::{ChainResult, IssueMemory as _, NextStep, Recovered, RecoveredRun};
use bailiwick_model::attempt::{Allowance, Attempt, Used};
use bailiwick_model::event::{ExitReason, Phase};
use bailiwick_model::{AgentId, IssueName, Run, RunName, RunStatus};

use crate::context::Context;
use crate::failure::Failure;
use crate::{agent_names, claiming, issues};

/// Placeholders for the requester and the specification of a recovered run, which are unknown here.
const RECOVERED: &str = "recovered";

/// What is recovered: one issue, or all open issues of a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecoveryTarget {
    /// `owner/name` on a forge; `None` for this repository.
    repository: Option<String>,
    number: Option<u64>,
}

impl FromStr for RecoveryTarget {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || {
            let text: String = text.chars().take(200).collect();
            format!("`{text}` is neither `owner/name`, `owner/name#42`, `#3` nor `.`")
        };
        if text == "." {
            return Ok(Self { repository: None, number: None });
        }
        if text.contains('#') {
            let IssueName { repository, number } = text.parse().map_err(|_| wrong())?;
            return Ok(Self { repository, number: Some(number) });
        }
        let issue: IssueName = format!("{text}#1").parse().map_err(|_| wrong())?;
        if issue.repository.is_none() {
            return Err(wrong());
        }
        Ok(Self { repository: issue.repository, number: None })
    }
}

/// A recovered issue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecoveredIssue {
    pub name: IssueName,
    pub work: Recovered,
    /// Runs that this machine did not know.
    pub new_runs: usize,
}

/// Reads issues and records what this machine does not know. Repeated, it records nothing.
pub fn recover(context: &Context, target: &RecoveryTarget) -> Result<Vec<RecoveredIssue>, Failure> {
    let repository = target.repository.as_deref();
    let opened = issues::OpenIssues::open(context, repository)?;
    let found: Vec<Recovered> = opened.with(async |protocol| {
        let numbers = match target.number {
            Some(number) => vec![number],
            None => protocol.memory.open_issues().await?,
        };
        let mut found = Vec::new();
        let mut table = None;
        for number in numbers {
            let loaded = protocol.load(number).await?;
            // No run has worked on it.
            if target.number.is_none() && loaded.state.events.is_empty() {
                continue;
            }
            let table = match table {
                Some(ref table) => table,
                None => table.insert(protocol.claim_table().await?),
            };
            let labels = protocol.memory.label_events(number).await?;
            found.push(bailiwick_memory::recover(&loaded, &labels, table, &protocol.trust));
        }
        Ok(found)
    })?;
    let root = issues::checkout(context, repository)?;
    let here = Context { directory: root.clone(), ..context.clone() };
    let place = agent_names::place(&here.require_repository()?)?;
    let mut recovered = Vec::new();
    for work in found {
        let name = IssueName { repository: target.repository.clone(), number: work.issue };
        let new_runs = record_runs(context, &name, &work, &root, &place)?;
        recovered.push(RecoveredIssue { name, work, new_runs });
    }
    Ok(recovered)
}

/// Gives back claims and tokens of runs that left no result, because their machine is lost.
pub fn release_lost(context: &Context, issue: &RecoveredIssue) -> Result<(), Failure> {
    let work = &issue.work;
    let known = |agent: &str| work.runs.iter().any(|run| run.id == agent);
    let released = issues::open_named(context, &issue.name)?.with(async |protocol| {
        let mut reports = Vec::new();
        for claim in work.claims.iter().filter(|claim| !known(&claim.agent)) {
            match protocol.release(claim.fence).await {
                Ok(report) => reports.push(report),
                Err(error) => return Ok(Err(error)),
            }
        }
        for one in &work.reservations {
            match protocol.unreserve(&one.invocation).await {
                Ok(report) => reports.push(report),
                Err(error) => return Ok(Err(error)),
            }
        }
        Ok(Ok(reports))
    })?;
    for report in released.map_err(Failure::refused_by)? {
        issues::note_release(context, report);
    }
    Ok(())
}

/// Sets the label of the next agent again, so that the control plane starts its run. True if there is a next agent.
pub fn hand_on_again(context: &Context, issue: &RecoveredIssue) -> Result<bool, Failure> {
    let NextStep::Start { agent } = &issue.work.next else { return Ok(false) };
    let name = &issue.name;
    if let Some(other) = issue.work.reservations.first() {
        let agent = &other.agent;
        return Err(Failure::refused(format!("`{agent}` may still work on {name}")).help(
            "if its machine is lost, give back what it has: bailiwick recover --release-lost",
        ));
    }
    if name.repository.is_none() {
        return Err(Failure::refused(format!(
            "no control plane starts runs from {name}, an issue in this repository"
        ))
        .help(format!("bailiwick run TASK --issue '{name}'   with a task for the role {agent}")));
    }
    issues::open_named(context, name)?
        .with(async |protocol| protocol.hand_on_again(name.number, agent).await)?;
    Ok(true)
}

/// Whether a run is known from an issue alone: another machine did its work.
pub fn is_recovered(run: &Run) -> bool {
    run.creator_id.as_deref() == Some(RECOVERED)
}

fn record_runs(
    context: &Context,
    issue: &IssueName,
    work: &Recovered,
    root: &Path,
    place: &str,
) -> Result<usize, Failure> {
    let mut new = 0;
    for run in &work.runs {
        let Ok(name) = AgentId::parse(&run.id) else {
            context.notices.note(format_args!("a run of {issue} is left out: its id is malformed"));
            continue;
        };
        let id = agent_names::id_for(context, place, &name)?;
        if !record_run(context, issue, &id, &name, run, place)? {
            continue;
        }
        new += 1;
        if let Some(claim) = work.claims.iter().find(|claim| claim.agent == run.id) {
            claiming::forge::adopt(context, &id, issue, root, claim)?;
        }
    }
    Ok(new)
}

/// Records a run that has ended elsewhere. False if it was known.
fn record_run(
    context: &Context,
    issue: &IssueName,
    id: &AgentId,
    name: &AgentId,
    run: &RecoveredRun,
    place: &str,
) -> Result<bool, Failure> {
    let (known, attempts) = context
        .with_store(async |store| Ok((store.find(id).await?, store.attempts(Some(id)).await?)))?;
    // One that was cut short while it was recorded is completed.
    let is_complete = known
        .as_ref()
        .is_some_and(|known| !is_recovered(known) || known.status != RunStatus::Running);
    if is_complete {
        return Ok(false);
    }
    let new = NewRun {
        id: id.clone(),
        branch: id.branch(),
        parent: None,
        spec_sha: RECOVERED.to_owned(),
        worktree: None,
        dna: None,
        creator: Some(RECOVERED.to_owned()),
        fork_parent: None,
        half_spawned: false,
        base: None,
        named: Some(RunName { name: name.clone(), repository: place.to_owned() }),
    };
    let (ending, status) = match run.result {
        ChainResult::Pass => (ExitReason::Completed, RunStatus::Done),
        ChainResult::Fail => (ExitReason::Failed, RunStatus::Failed),
        ChainResult::Blocked => (ExitReason::Stopped, RunStatus::Failed),
    };
    let mut attempt = Attempt {
        run: id.clone(),
        number: 1,
        cli: RECOVERED.to_owned(),
        version: String::new(),
        model: String::new(),
        login: String::new(),
        sandbox: String::new(),
        session: None,
        phase: Phase::Over,
        ending: Some(ending),
        detail: format!("recovered from {issue}: {}", run.action),
        exhausted: None,
        started_at: run.first_at.millis(),
        ended_at: Some(run.last_at.millis()),
        used: Used { tokens: run.tokens, ..Used::default() },
        budget: Allowance::default(),
    };
    context.with_store(async |store| {
        if known.is_none() {
            store.record(&new, None).await?;
        }
        if attempts.is_empty() {
            attempt.number = store.begin_attempt(&attempt).await?;
        }
        store.update_attempt(&attempt).await?;
        store.change_status(id, status, Some(&attempt.detail)).await?;
        Ok(())
    })?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::RecoveryTarget;

    #[test]
    fn target_is_a_repository_or_an_issue() {
        let parsed = |text: &str| text.parse::<RecoveryTarget>();
        let target = |repository: Option<&str>, number| RecoveryTarget {
            repository: repository.map(str::to_owned),
            number,
        };
        assert_eq!(parsed("acme/app"), Ok(target(Some("acme/app"), None)));
        assert_eq!(parsed("acme/app#42"), Ok(target(Some("acme/app"), Some(42))));
        assert_eq!(parsed("#3"), Ok(target(None, Some(3))));
        assert_eq!(parsed("."), Ok(target(None, None)));
        for text in ["", "acme", "a/b/c", "#x", "acme/app#", "7", "../x"] {
            assert!(parsed(text).is_err(), "{text}");
        }
    }
}

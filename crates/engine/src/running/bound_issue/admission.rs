//! Reads the issue of a run, and decides whether the run may start.

use bailiwick_lifecycle::supervision::Budget;
use bailiwick_memory::{
    Checkpoint, Entrant, EntryRefusal, IssueMemory as _, Loaded, Violation, check_entry,
};
use bailiwick_model::IssueName;
use bailiwick_policy::PathPolicy;

use super::{complete_all, in_repository};
use crate::failure::Failure;
use crate::issues::OpenIssues;
use crate::running::LockedRun;
use crate::{issues, policy_file, system};

/// Directories that bind agents: to write there an issue needs a permission.
const SYSTEM_DIRECTORIES: [&str; 2] = [".bailiwick", ".kilo"];

/// A run that may start, and what was read.
pub(super) struct Admitted {
    pub(super) agent: String,
    pub(super) invocation: String,
    /// The attempt that handed the issue to this run.
    pub(super) parent: Option<String>,
    pub(super) depth: u32,
    /// How many levels of sub-agents the labels of the issue allow below it.
    pub(super) agent_levels: Option<u32>,
    pub(super) loaded: Loaded,
    /// The unused tokens of the issue.
    pub(super) remaining: u64,
    /// The issues that it is one of.
    pub(super) opened: OpenIssues,
}

/// Reads the issue and checks whether the run may start.
pub(super) fn admit(running: &LockedRun, issue: &IssueName) -> Result<Admitted, Failure> {
    let subject = &running.subject;
    let context = &subject.context;
    let task = &subject.bound.task;
    complete_all(context, Some(&running.directory))?;
    let opened = issues::open_named(&in_repository(running), issue)?;
    let parent = task.task.parent_agent.as_ref();
    let ancestors = context.with_store(async |store| Ok(store.ancestor_ids(parent).await?))?;
    let started_at_depth = u32::try_from(ancestors.len()).unwrap_or(u32::MAX);
    let policy = policy_file::recorded(&running.directory)?.policy;
    let paths = PathPolicy::of(&policy);
    let mut entrant = Entrant {
        agent: task.task.role.get_ref().to_string(),
        depth: started_at_depth,
        own_max_depth: None,
        is_orchestrator: false,
        estimate: 0,
        changes_system: SYSTEM_DIRECTORIES
            .iter()
            .any(|directory| paths.forbids(&format!("{directory}/x")).is_none()),
    };
    // Another machine may have a run of the same name, and this one may have failed before it began.
    let number = running.earlier.len().saturating_add(1);
    let invocation = format!("{}/{number}-{}", running.id, system::random_name()?);
    let total = Budget::of_run(&task.budget).0.tokens;
    let (number, agent) = (issue.number, entrant.agent.clone());
    let is_leading = !task.agent.allowed_subagents.is_empty();
    let (loaded, max_depth, refusal) = opened.with(async |protocol| {
        let mut loaded = protocol.load(number).await?;
        // One deeper than the run that named this one, so that a chain has an end.
        let handed_depth = handing(&loaded).map_or(0, |one| one.depth.saturating_add(1));
        entrant.depth = entrant.depth.max(handed_depth);
        entrant.is_orchestrator = entrant.depth == 0 && is_leading;
        let labels = protocol.memory.label_events(number).await?;
        let read = &loaded.read.issue;
        let checked = check_entry(read, &loaded.state, &labels, &protocol.trust, &entrant);
        if let Err(refusal) = &checked
            && let Some(violation) = violation(refusal)
        {
            // By the run: another try of the same run needs no other comment.
            let refused = format!("{}/refused", running.id);
            let text = refusal.to_string();
            protocol.alert(number, &agent, &refused, violation, &text).await?;
        }
        if let (Ok(()), false, Some(total)) = (&checked, loaded.state.has_recorded_budget(), total)
        {
            loaded = protocol.begin(number, &agent, "new", total, None).await?;
        }
        let labels = &loaded.read.issue.labels;
        let limit =
            bailiwick_memory::max_depth(labels, entrant.is_orchestrator, entrant.own_max_depth);
        Ok((loaded, limit, checked.err()))
    })?;
    let depth = entrant.depth;
    if let Some(refusal) = refusal {
        let id = &running.id;
        return Err(Failure::refused(format!("`{id}` cannot work on {issue}: {refusal}"))
            .help(format!("bailiwick memory show '{issue}'")));
    }
    let recorded = loaded.state.checkpoint.as_ref().filter(|_| loaded.state.has_recorded_budget());
    let Some(budget) = recorded.map(|checkpoint| checkpoint.budget) else {
        return Err(Failure::refused(format!("{issue} has no budget, and the task has none"))
            .help(format!("bailiwick memory budget '{issue}' 500000")));
    };
    let remaining = u64::try_from(budget.remaining).unwrap_or_default();
    let agent_levels = max_depth.map(|max| max.saturating_sub(depth));
    let parent = handing(&loaded).and_then(|one| one.last_invocation.clone());
    Ok(Admitted { agent, invocation, parent, depth, agent_levels, loaded, remaining, opened })
}

/// The limit that a run would break; the other refusals are about the issue.
fn violation(refusal: &EntryRefusal) -> Option<Violation> {
    match refusal {
        EntryRefusal::Depth(_) => Some(Violation::Depth),
        EntryRefusal::NotPermitted | EntryRefusal::SelfPermitted { .. } => Some(Violation::Limit),
        EntryRefusal::Closed
        | EntryRefusal::Locked
        | EntryRefusal::Paused(_)
        | EntryRefusal::Corrupt(_)
        | EntryRefusal::Budget { .. } => None,
    }
}

/// The checkpoint of a run that named the next agent, which has not left its result.
fn handing(loaded: &Loaded) -> Option<&Checkpoint> {
    let checkpoint = loaded.state.checkpoint.as_ref();
    checkpoint.filter(|one| one.last_agent.is_some() && one.next_agent.is_some())
}

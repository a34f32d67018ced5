//! Why a run is where it is.

use bailiwick_resources::{
    AgentApproval, AgentDispatchRun, AgentTriggerExecution, AgentWorkspace, AnyObject,
    ApprovalPhase, Kind, Object, RunPhase, RunnerPool,
};

use super::Fact;

/// The stored objects around a run.
#[derive(Debug, Clone, Default)]
pub struct RelatedObjects {
    /// The execution of the rule that created it.
    pub execution: Option<Object<AgentTriggerExecution>>,
    /// Its approvals.
    pub approvals: Vec<Object<AgentApproval>>,
    /// The runs that it started.
    pub children: Vec<Object<AgentDispatchRun>>,
    pub pool: Option<Object<RunnerPool>>,
    /// Its workspaces.
    pub workspaces: Vec<Object<AgentWorkspace>>,
    /// Its last events, the oldest first: when, and what.
    pub events: Vec<String>,
}

/// The explanation of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunFacts {
    pub(super) summary: String,
    pub(super) facts: Vec<Fact>,
    pub(super) next: Vec<String>,
}

impl RunFacts {
    /// Of a run; nothing of anything else.
    pub fn of(object: &AnyObject, around: &RelatedObjects) -> Option<Self> {
        if object.kind != Kind::AgentDispatchRun {
            return None;
        }
        let run = object.typed::<AgentDispatchRun>().ok()?;
        let mut facts = vec![Fact { title: "led to by", lines: origin(&run, around) }];
        let approvals: Vec<String> = around.approvals.iter().map(approval_line).collect();
        let children = around.children.iter().map(|child| {
            format!("{} {} ({})", child.name(), child.status.phase.as_str(), child.spec.agent_stack)
        });
        let workspaces = around.workspaces.iter().map(|one| {
            let dirty =
                if one.status.git.dirty { ", with changes that are not committed" } else { "" };
            format!("{} on {}{dirty}", one.name(), one.spec.branch)
        });
        let written = run.status.write_backs.iter().map(|one| {
            let state = serde_json::to_value(one.state).unwrap_or_default();
            let state = state.as_str().unwrap_or_default();
            let why =
                if one.detail.is_empty() { String::new() } else { format!(": {}", one.detail) };
            format!("{} {state}{why}", one.target)
        });
        let written: Vec<String> = written.collect();
        for (title, lines) in [
            ("attempts", run.status.attempts.clone()),
            ("asked", approvals),
            ("started", children.collect()),
            ("works in", workspaces.collect()),
            ("writes back", written),
            ("last events", around.events.clone()),
        ] {
            if !lines.is_empty() {
                facts.push(Fact { title, lines });
            }
        }
        let (summary, next) = standing(&run, around);
        Some(Self { summary, facts, next })
    }
}

fn origin(run: &Object<AgentDispatchRun>, around: &RelatedObjects) -> Vec<String> {
    let event = &run.spec.source_event;
    let who = event.actor.as_deref().unwrap_or("an unnamed account");
    let mut lines = vec![format!("{} {}, by {who}", event.source.as_str(), event.uid)];
    if let Some(rule) = &run.spec.trigger_rule {
        lines.push(format!("rule {rule}"));
    }
    if let Some(execution) = &around.execution {
        let spec = &execution.spec;
        let decision = serde_json::to_value(spec.decision).unwrap_or_default();
        let decision = decision.as_str().unwrap_or_default();
        lines.push(format!("execution {}: {decision}, {}", execution.name(), spec.reason));
    }
    if let Some(parent) = &run.spec.parent_run {
        lines.push(format!("run {parent} started it"));
    }
    let tier = serde_json::to_value(run.spec.trust_tier).unwrap_or_default();
    let tier = tier.as_str().unwrap_or_default();
    lines.push(format!("{tier}, in the pool {}", run.spec.runner_pool));
    lines
}

fn approval_line(approval: &Object<AgentApproval>) -> String {
    let spec = &approval.spec;
    let answer = match (approval.status.phase, &approval.status.decided_by) {
        (ApprovalPhase::Pending, _) => "not answered yet".to_owned(),
        (ApprovalPhase::Approved, by) => format!("approved by {}", by.as_deref().unwrap_or("-")),
        (ApprovalPhase::Rejected, by) => format!("rejected by {}", by.as_deref().unwrap_or("-")),
        (ApprovalPhase::Expired, _) => "nobody answered in time".to_owned(),
    };
    format!("{} {}: {answer}", approval.name(), spec.action.summary)
}

fn standing(run: &Object<AgentDispatchRun>, around: &RelatedObjects) -> (String, Vec<String>) {
    let status = &run.status;
    let name = run.name();
    let why = status.terminal_reason.as_deref().unwrap_or("no reason was kept");
    let open = || around.approvals.iter().filter(|one| one.status.phase == ApprovalPhase::Pending);
    let answers = || {
        let each = open()
            .map(|one| format!("answer: bailiwick approvals approve {0}, or deny {0}", one.name()));
        each.collect::<Vec<_>>()
    };
    if let (Some(why), false) = (&status.cancel_requested, status.phase.is_final()) {
        return (format!("it is being cancelled: {why}"), Vec::new());
    }
    match status.phase {
        RunPhase::Pending => ("it is being admitted".to_owned(), Vec::new()),
        RunPhase::Queued => queued(run, around),
        RunPhase::Running => {
            let agent = status.ledger_run_id.as_deref().unwrap_or(name);
            let next = vec![format!("watch it: bailiwick logs -f {agent}")];
            ("its agent is running".to_owned(), next)
        }
        RunPhase::WaitingForApproval => {
            let waits = open().count();
            (format!("it waits for approvals; open: {waits}"), answers())
        }
        RunPhase::Succeeded => (format!("it succeeded: {why}"), Vec::new()),
        RunPhase::Failed => {
            let next = vec![format!("retry it: bailiwick runs retry {name}")];
            (format!("it failed: {why}"), next)
        }
        RunPhase::Cancelled => {
            let next = vec![format!("retry it: bailiwick runs retry {name}")];
            (format!("it was cancelled: {why}"), next)
        }
    }
}

fn queued(run: &Object<AgentDispatchRun>, around: &RelatedObjects) -> (String, Vec<String>) {
    if !run.status.queue_behind.is_empty() {
        let behind = run.status.queue_behind.join(", ");
        return (format!("it waits until {behind} has ended"), Vec::new());
    }
    let pool = &run.spec.runner_pool;
    match &around.pool {
        None => {
            let next = vec![format!("apply the RunnerPool {pool}, or cancel the run")];
            (format!("it waits for the pool {pool}, which does not exist"), next)
        }
        Some(found) if found.spec.paused => {
            let next = vec![format!("resume the pool {pool}: set its paused to false")];
            (format!("it waits for the pool {pool}, which is paused"), next)
        }
        Some(found) if found.status.active >= found.spec.capacity => {
            let next = vec![
                "wait for a run to end: bailiwick get runs --field status=running".to_owned(),
                format!("or raise the capacity of the pool {pool}"),
            ];
            let full = format!("{} of {}", found.status.active, found.spec.capacity);
            (format!("it waits for capacity in the pool {pool}: {full} are in use"), next)
        }
        Some(_) => {
            let next = vec!["is `bailiwick serve` running? It starts runs.".to_owned()];
            (format!("it waits for its turn in the pool {pool}, which has room"), next)
        }
    }
}

//! `output::ledger-row-required`: the agent's run is in the ledger.

use super::Subject;
use crate::facts::{Facts, Needs};
use crate::verdict::Verdict;

pub(super) fn needs(_subject: &Subject<'_>) -> Needs {
    Needs { ledger: true, ..Needs::default() }
}

pub(super) fn judge(subject: &Subject<'_>, facts: &Facts) -> Verdict {
    let Some(agent) = subject.agent else {
        return Verdict::fail("the agent has no id, so it has no row in the ledger");
    };
    match &facts.ledger {
        None => Verdict::fail(format!("the ledger has no row for {agent}")),
        Some(run) if run.id == *agent => {
            Verdict::pass(format!("the ledger has {agent} on {}, {}", run.branch, run.status))
        }
        Some(run) => Verdict::fail(format!("the ledger row belongs to {}, not to {agent}", run.id)),
    }
}

#[cfg(test)]
mod tests {
    use bailiwick_model::{AgentId, Run, RunState, RunStatus};

    use super::*;
    use crate::example::{agent, evidence, facts, reason, subject, task};

    fn row(id: &str) -> Run {
        Run {
            id: AgentId::parse(id).unwrap(),
            branch: "agent/ag-1".to_owned(),
            parent_branch: None,
            spec_sha: String::new(),
            status: RunStatus::Running,
            started_ts: 0,
            finished_ts: None,
            summary: None,
            worktree_path: None,
            dna: None,
            creator_id: None,
            fork_parent_id: None,
            cost_cents: 0,
            provider: String::new(),
            model: String::new(),
            half_spawned: false,
            base: None,
            name: AgentId::parse(id).unwrap(),
            repository: None,
            state: RunState::Running,
        }
    }

    #[test]
    fn row_must_belong_to_the_agent() {
        let (task, agent) = (task(""), agent());
        let subject = subject(&task, &agent, &[]);
        let facts_with = |ledger| Facts { ledger, ..facts() };
        assert!(evidence(&judge(&subject, &facts_with(Some(row("ag-1"))))).contains("agent/ag-1"));
        assert!(
            reason(&judge(&subject, &facts_with(Some(row("ag-2"))))).contains("belongs to ag-2")
        );
        assert!(reason(&judge(&subject, &facts_with(None))).contains("no row for ag-1"));
        let without_id = Subject { agent: None, ..subject };
        assert!(reason(&judge(&without_id, &facts_with(Some(row("ag-1"))))).contains("no id"));
    }
}

//! Adds runs up. Pure.

use std::collections::BTreeMap;

use bailiwick_fleet::ports::{LocalRunStage, MeasuredRun};
use bailiwick_resources::{AgentDispatchRun, Moment, Object, RunPhase};

use super::{DayCount, NamedCost, NamedCount, Numbers, PhaseTime, QueueWait};

/// Of these names only the first ones are of use.
const MAX_NAMES: usize = 20;
const UNKNOWN: &str = "unknown";

/// The day of a time, as `2026-11-15`.
fn day(at: Moment) -> String {
    at.to_string().split('T').next().unwrap_or_default().to_owned()
}

/// The stage of a run that has no agent on this machine.
pub(crate) fn stage(phase: RunPhase) -> LocalRunStage {
    match phase {
        RunPhase::Pending | RunPhase::Queued | RunPhase::Running => LocalRunStage::Working,
        RunPhase::WaitingForApproval => LocalRunStage::NeedsYou,
        RunPhase::Succeeded => LocalRunStage::Landed,
        RunPhase::Failed | RunPhase::Cancelled => LocalRunStage::Failed,
    }
}

#[derive(Default)]
struct Costs(BTreeMap<String, NamedCost>);

impl Costs {
    fn add(&mut self, name: &str, tokens: u64, micro_usd: u64) {
        let name = if name.is_empty() { UNKNOWN } else { name };
        let entry = self.0.entry(name.to_owned()).or_insert_with(|| NamedCost {
            name: name.to_owned(),
            runs: 0,
            tokens: 0,
            micro_usd: 0,
        });
        entry.runs += 1;
        entry.tokens = entry.tokens.saturating_add(tokens);
        entry.micro_usd = entry.micro_usd.saturating_add(micro_usd);
    }

    fn into_list(self) -> Vec<NamedCost> {
        let mut all: Vec<NamedCost> = self.0.into_values().collect();
        all.sort_by(|one, other| {
            let key = |cost: &NamedCost| (cost.micro_usd, cost.tokens);
            key(other).cmp(&key(one)).then_with(|| one.name.cmp(&other.name))
        });
        all.truncate(MAX_NAMES);
        all
    }
}

/// How many there are, their median and the largest.
fn spread(mut all: Vec<u64>) -> (u64, u64, u64) {
    all.sort_unstable();
    let count = u64::try_from(all.len()).unwrap_or(u64::MAX);
    let median = all.get(all.len().saturating_sub(1) / 2).copied().unwrap_or_default();
    (count, median, all.last().copied().unwrap_or_default())
}

/// The statistics of runs. A run of the control plane whose agent is on this machine is one run.
pub(super) fn aggregate(local: &[MeasuredRun], fleet: &[Object<AgentDispatchRun>]) -> Numbers {
    let mut days: BTreeMap<(String, LocalRunStage), u64> = BTreeMap::new();
    let mut denials: BTreeMap<String, u64> = BTreeMap::new();
    let mut phases: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    let mut queue: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    let (mut stacks, mut roles, mut models) =
        (Costs::default(), Costs::default(), Costs::default());
    for run in local {
        *days.entry((day(run.created_at), run.stage)).or_default() += 1;
        roles.add(&run.role, run.used.tokens, run.used.micro_usd);
        let model = if run.model.is_empty() { &run.agent } else { &run.model };
        models.add(model, run.used.tokens, run.used.micro_usd);
        for (rule, count) in &run.denials {
            *denials.entry(rule.clone()).or_default() += count;
        }
        for (phase, millis) in &run.phases {
            phases.entry(phase.clone()).or_default().push(*millis);
        }
    }
    for run in fleet {
        let created = run.metadata.creation_timestamp.unwrap_or_default();
        if run.status.ledger_run_id.is_none() {
            *days.entry((day(created), stage(run.status.phase))).or_default() += 1;
        }
        stacks.add(&run.spec.agent_stack, run.status.cost.tokens, run.status.cost.micro_usd);
        if let (Some(from), Some(to)) = (run.status.queue_entered_at, run.status.started_at) {
            let waited = to.millis().saturating_sub(from.millis());
            queue.entry(day(created)).or_default().push(waited);
        }
    }
    let mut denials: Vec<NamedCount> =
        denials.into_iter().map(|(name, count)| NamedCount { name, count }).collect();
    denials
        .sort_by(|one, other| other.count.cmp(&one.count).then_with(|| one.name.cmp(&other.name)));
    denials.truncate(MAX_NAMES);
    let count = |((day, stage), count): ((String, LocalRunStage), u64)| DayCount {
        day,
        stage: stage.as_str().to_owned(),
        count,
    };
    let phase = |(phase, all): (String, Vec<u64>)| {
        let (runs, median_ms, max_ms) = spread(all);
        PhaseTime { phase, runs, median_ms, max_ms }
    };
    let wait = |(day, all): (String, Vec<u64>)| {
        let (runs, median_ms, max_ms) = spread(all);
        QueueWait { day, runs, median_ms, max_ms }
    };
    Numbers {
        since: Moment::default(),
        is_incomplete: false,
        runs: days.into_iter().map(count).collect(),
        denials,
        stacks: stacks.into_list(),
        roles: roles.into_list(),
        models: models.into_list(),
        phases: phases.into_iter().map(phase).collect(),
        queue: queue.into_iter().map(wait).collect(),
    }
}

#[cfg(test)]
mod tests {
    use bailiwick_fleet::ports::LocalRunUsage;

    use super::*;

    fn run(millis: u64, stage: LocalRunStage, tokens: u64) -> MeasuredRun {
        MeasuredRun {
            created_at: Moment::from_millis(millis),
            stage,
            role: "fixer".to_owned(),
            agent: "claude".to_owned(),
            model: String::new(),
            used: LocalRunUsage { tokens, ..LocalRunUsage::default() },
            denials: BTreeMap::from([("a".to_owned(), 1), ("b".to_owned(), 2)]),
            phases: BTreeMap::from([("working".to_owned(), tokens)]),
        }
    }

    #[test]
    fn runs_are_counted_by_day_and_stage_and_summed_by_name() {
        let day = 86_400_000;
        let runs = [
            run(0, LocalRunStage::Landed, 5),
            run(day - 1, LocalRunStage::Landed, 7),
            run(day, LocalRunStage::Failed, 100),
        ];
        let numbers = aggregate(&runs, &[]);
        let counts: Vec<(&str, &str, u64)> = numbers
            .runs
            .iter()
            .map(|one| (one.day.as_str(), one.stage.as_str(), one.count))
            .collect();
        assert_eq!(counts, [("1970-01-01", "landed", 2), ("1970-01-02", "failed", 1)]);
        assert_eq!(numbers.denials[0], NamedCount { name: "b".to_owned(), count: 6 });
        assert_eq!((numbers.roles[0].runs, numbers.roles[0].tokens), (3, 112));
        assert_eq!(numbers.models[0].name, "claude", "the agent CLI chose the model");
        let phase = &numbers.phases[0];
        assert_eq!((phase.runs, phase.median_ms, phase.max_ms), (3, 7, 100));
    }

    #[test]
    fn run_of_the_control_plane_is_counted_once() {
        let run = |agent: Option<&str>| {
            let spec = serde_json::json!({
                "repository": "o/n", "ref": "refs/heads/main", "sha": "0".repeat(40),
                "sourceEvent": { "source": "manual", "uid": "x" }, "agentStack": "mender",
                "taskKind": "mend", "task": "t", "runnerPool": "p", "trustTier": "trusted",
            });
            let mut run = Object::new(
                bailiwick_resources::Metadata::named("a"),
                serde_json::from_value::<AgentDispatchRun>(spec).unwrap(),
            );
            run.status.ledger_run_id = agent.map(str::to_owned);
            run.status.queue_entered_at = Some(Moment::from_millis(10));
            run.status.started_at = Some(Moment::from_millis(30));
            run.status.cost.micro_usd = 3;
            run
        };
        let numbers = aggregate(&[], &[run(Some("agent-1")), run(None)]);
        assert_eq!(numbers.runs.iter().map(|one| one.count).sum::<u64>(), 1);
        assert_eq!((numbers.stacks[0].runs, numbers.stacks[0].micro_usd), (2, 6));
        assert_eq!((numbers.queue[0].runs, numbers.queue[0].median_ms), (2, 20));
    }
}

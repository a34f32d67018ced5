//! What of a worker decides whether it takes attempts, as conditions that people and programs read.

use serde::Serialize;

use super::records::{WorkerRecord, WorkerState};

/// The level of a sandbox in which everything is enforced.
const FULL_SANDBOX: &str = "full";

/// The type of a condition of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum WorkerConditionType {
    /// It was heard of within the time of a lease.
    Present,
    /// It may take new attempts.
    Schedulable,
    /// Its machine gives agents a full sandbox.
    Sandboxed,
    /// Its machine has agent programs.
    ProgramsInstalled,
    /// It runs commands and tests of checks for pools with `checksOn: workers`.
    RunsChecks,
}

/// A condition of a worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WorkerCondition {
    #[serde(rename = "type")]
    pub kind: WorkerConditionType,
    pub status: bool,
    /// A message for people. Programs must not parse it.
    pub message: String,
}

impl WorkerRecord {
    /// Its conditions, in display order.
    pub fn conditions(&self) -> Vec<WorkerCondition> {
        use WorkerConditionType as Type;
        let offered = &self.capabilities;
        let condition = |kind, status, message: String| WorkerCondition { kind, status, message };
        let schedulable = match self.state {
            WorkerState::Active => {
                format!("it runs {} of {} attempts", self.running, offered.slots)
            }
            WorkerState::Cordoned => {
                format!(
                    "it takes no new attempts; allow it: bailiwick workers uncordon {}",
                    self.name
                )
            }
            WorkerState::Draining => "it ends once its attempts have ended".to_owned(),
        };
        let programs: Vec<String> =
            offered.programs.iter().map(|(name, version)| format!("{name} {version}")).collect();
        let installed = match programs.is_empty() {
            true => "no agent program was found on its machine".to_owned(),
            false => programs.join(", "),
        };
        let present = match self.is_present {
            true => "it answers".to_owned(),
            false => format!("it was last seen at {}", self.seen_at),
        };
        let is_active = self.state == WorkerState::Active;
        vec![
            condition(Type::Present, self.is_present, present),
            condition(Type::Schedulable, is_active, schedulable),
            condition(
                Type::Sandboxed,
                offered.sandbox == FULL_SANDBOX,
                format!("the sandbox of its machine is: {}", offered.sandbox),
            ),
            condition(Type::ProgramsInstalled, !programs.is_empty(), installed),
            condition(
                Type::RunsChecks,
                offered.checks,
                match offered.checks {
                    true => "it runs commands and tests of checks".to_owned(),
                    false => "it needs a full sandbox and a newer version for that".to_owned(),
                },
            ),
        ]
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use bailiwick_resources::Moment;

    use super::*;
    use crate::workers::WorkerCapabilities;

    #[test]
    fn each_condition_follows_the_probed_state() {
        let capable = WorkerRecord {
            name: "one".to_owned(),
            pool: "inside".to_owned(),
            labels: BTreeMap::new(),
            capabilities: WorkerCapabilities {
                programs: BTreeMap::from([("codex".to_owned(), "1.0".to_owned())]),
                sandbox: "full".to_owned(),
                cores: 4,
                slots: 2,
                checks: true,
                ..WorkerCapabilities::default()
            },
            version: "1.0.0".to_owned(),
            state: WorkerState::Active,
            joined_at: Moment::default(),
            seen_at: Moment::default(),
            is_present: true,
            running: 1,
        };
        let status = |worker: &WorkerRecord| -> Vec<bool> {
            worker.conditions().iter().map(|condition| condition.status).collect()
        };
        assert_eq!(status(&capable), [true; 5]);
        let incapable = WorkerRecord {
            capabilities: WorkerCapabilities::default(),
            state: WorkerState::Draining,
            is_present: false,
            ..capable
        };
        assert_eq!(status(&incapable), [false; 5]);
    }
}

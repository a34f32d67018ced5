//! Labels come in families, of which an issue has one value: no forge keeps that by itself.

use serde::{Deserialize, Serialize};

/// A family of labels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    Status,
    Phase,
    Quality,
    Budget,
    Agent,
    Cascade,
    Memory,
    Permission,
}

impl Family {
    pub const ALL: [Self; 8] = [
        Self::Status,
        Self::Phase,
        Self::Quality,
        Self::Budget,
        Self::Agent,
        Self::Cascade,
        Self::Memory,
        Self::Permission,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Status => "status",
            Self::Phase => "phase",
            Self::Quality => "quality",
            Self::Budget => "budget",
            Self::Agent => "agent",
            Self::Cascade => "cascade",
            Self::Memory => "memory",
            Self::Permission => "permission",
        }
    }

    /// The family of a label, and its value.
    pub fn of(label: &str) -> Option<(Self, &str)> {
        let (family, value) = label.split_once("::")?;
        Self::ALL.into_iter().find(|known| known.as_str() == family).map(|known| (known, value))
    }
}

pub(crate) const DEPTH_EXCEEDED: &str = "cascade::depth-exceeded";
pub(crate) const BUDGET_WARNING: &str = "budget::warning";
pub(crate) const BUDGET_EXHAUSTED: &str = "budget::exhausted";
pub(crate) const VIOLATION: &str = "permission::violation";
/// A person put this on to stop all runs, and takes it off to let them continue.
pub(crate) const PAUSED: &str = "status::paused";
pub(crate) const EVOLVE_SYSTEM: &str = "permission::evolve-system";

/// Labels to add and to remove.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LabelChange {
    pub add: Vec<String>,
    pub remove: Vec<String>,
}

impl LabelChange {
    /// What leads from some labels to others.
    pub fn between(current: &[String], wanted: &[String]) -> Self {
        let missing = |from: &[String], of: &[String]| {
            of.iter().filter(|label| !from.contains(label)).cloned().collect()
        };
        Self { add: missing(current, wanted), remove: missing(wanted, current) }
    }

    pub fn is_empty(&self) -> bool {
        self.add.is_empty() && self.remove.is_empty()
    }
}

/// All labels of the issue after a change: one value for each family. Labels of other families stay.
pub fn change_labels(current: &[String], change: &LabelChange) -> Vec<String> {
    let mut labels: Vec<String> = current.to_vec();
    labels.retain(|label| !change.remove.contains(label));
    for added in &change.add {
        labels.retain(|label| !excludes(added, label));
        labels.push(added.clone());
    }
    labels
}

/// Whether an issue that has one label cannot have the other.
fn excludes(one: &str, other: &str) -> bool {
    if one == other {
        return true;
    }
    match (Family::of(one), Family::of(other)) {
        // Several permissions can be given. That a depth was exceeded is said beside the depth.
        (Some((Family::Permission, _)), _) => false,
        // Only the person who stopped the work lets it continue.
        _ if other == PAUSED => false,
        (Some((family, _)), Some((same, _))) => {
            family == same && one != DEPTH_EXCEEDED && other != DEPTH_EXCEEDED
        }
        (None, _) | (_, None) => false,
    }
}

//! The write-backs and the commit status of a run.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use super::RunPhase;
use crate::{Moment, WriteBackTarget};

/// A write-back of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WriteBackRecord {
    /// The kind of write-back.
    pub action: WriteBackTarget,
    /// The target of the write-back, such as `owner/name#7`.
    pub target: String,
    /// The digest of exactly what is sent.
    pub digest: String,
    /// The digest of the write-back that must be written first. If that one is not written, neither is this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stands_on: Option<String>,
    /// The name of the AgentApproval, if one is needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<String>,
    /// The state of the write-back.
    pub state: WriteBackState,
    /// The rule that denied it; none if a person or a later check did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub denied_by: Option<DenialRule>,
    /// The reason for the state.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
    /// The URL of the result on the forge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The number or ID of the result on the forge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// How often the forge did not respond.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub tries: u32,
    /// When it was first tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tried_since: Option<Moment>,
    /// The earliest time of the next try.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_try_at: Option<Moment>,
    /// The commit that the target branch has moved to. The change is rebased onto it, verified and requested again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moved_to: Option<String>,
    /// How often the change was rebased.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub rebases: u32,
    /// When the forge rejected the credential. The write-back is tried again when the credential has changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credential_rejected_at: Option<Moment>,
}

/// The rule that denies a write-back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum DenialRule {
    /// Neither stack nor trigger rule allows it.
    #[serde(rename = "write-back::policy")]
    Policy,
    /// It contains a secret, or cannot be searched for secrets.
    #[serde(rename = "write-back::secret")]
    Secret,
    /// The forge would refuse it.
    #[serde(rename = "write-back::forge")]
    Forge,
}

/// Reads the write-backs of a run. A record that was stored before `deniedBy` has its rule in the reason: the name of
/// the rule, a colon and a sentence.
pub(super) fn read_records<'de, D: Deserializer<'de>>(
    input: D,
) -> Result<Vec<WriteBackRecord>, D::Error> {
    let mut records = Vec::<WriteBackRecord>::deserialize(input)?;
    for record in &mut records {
        if record.state == WriteBackState::Denied && record.denied_by.is_none() {
            record.denied_by = DenialRule::of_reason(&record.detail);
        }
    }
    Ok(records)
}

impl DenialRule {
    const ALL: [Self; 3] = [Self::Policy, Self::Secret, Self::Forge];

    fn of_reason(reason: &str) -> Option<Self> {
        let (name, _) = reason.split_once(": ")?;
        Self::ALL.into_iter().find(|rule| rule.as_str() == name)
    }

    /// Its name in capabilities and records.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Policy => "write-back::policy",
            Self::Secret => "write-back::secret",
            Self::Forge => "write-back::forge",
        }
    }
}

/// The commit status of a run on the forge.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct CheckReport {
    /// The phase that was last reported; `pending` if none was.
    pub told: RunPhase,
    /// The name of the AgentApproval for reporting the final phase, if one is needed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval: Option<String>,
    /// The reason why the phase is not shown on the commit.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub detail: String,
    /// How often the forge did not respond.
    #[serde(skip_serializing_if = "is_zero")]
    pub misses: u32,
    /// The earliest time of the next try.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_try_at: Option<Moment>,
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// The state of a write-back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WriteBackState {
    /// It will be written.
    Ready,
    /// It waits for an approval.
    Waiting,
    /// It was written.
    Written,
    /// It was denied.
    Denied,
    /// The forge did not accept it.
    Failed,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn record_from_before_the_rule_was_stored_has_the_rule_of_its_reason() {
        let read = |state: &str, detail: &str| {
            let record = json!({
                "action": "branch-push", "target": "acme/app", "digest": "d", "state": state,
                "detail": detail,
            });
            read_records(json!([record])).unwrap().remove(0).denied_by
        };
        for rule in DenialRule::ALL {
            assert_eq!(read("denied", &format!("{}: a: b", rule.as_str())), Some(rule));
        }
        assert_eq!(read("failed", "write-back::policy: a"), None);
        for other in ["", "a person said no", "write-back::policy"] {
            assert_eq!(read("denied", other), None, "{other}");
        }
    }
}

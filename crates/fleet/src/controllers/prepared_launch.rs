//! The launch of an attempt, as it is stored beside the attempt.

use bailiwick_resources::{ContextPolicy, SecretMount, SecretPurpose};
use serde::{Deserialize, Serialize};

use crate::admission::compile::{LaunchLimits, SubagentDefinition};
use crate::admission::review::{EntryDecision, RequiredSecret};
use crate::admission::{Admitted, Review};
use crate::bundle::NamedSource;

/// The annotation of an attempt that names what it is launched with.
pub(super) const LAUNCH: &str = "bailiwick.dev/launch-digest";

/// The annotation of an attempt that continues a conversation with a new context: the blob with its sources.
pub(super) const CONTEXT_UPDATE: &str = "bailiwick.dev/context-update";

/// The launch of an attempt, stored as a blob that the attempt names.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct PreparedLaunch {
    /// Its task.toml.
    pub(super) task: String,
    /// Its context bundle.
    pub(super) context: String,
    /// The limits on its policy.
    pub(super) limits: LaunchLimits,
    /// Secret values for the agent or its supervisor: where they are, and the variables that they are mounted as.
    pub(super) values: Vec<PreparedValue>,
    /// The same from config maps.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) configs: Vec<PreparedValue>,
    /// The commit whose kit binds it, if that is not its own.
    #[serde(rename = "kitFrom", default, skip_serializing_if = "Option::is_none")]
    pub(super) kit_commit: Option<String>,
    /// Whether it may use the model key of the control plane.
    #[serde(default)]
    pub(super) lent_model_key: bool,
    /// The sources in its context, if one of its sub-agents may be given some of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) sources: Vec<NamedSource>,
}

/// A value that an attempt needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct PreparedValue {
    /// The variable.
    pub(super) name: String,
    /// The namespace of the secret or config map; that of the repository when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) namespace: Option<String>,
    /// The secret or config map.
    pub(super) secret: String,
    pub(super) key: String,
}

/// The secret values that a review allows to mount.
pub(super) fn values_of(review: &Review) -> Vec<PreparedValue> {
    let values = review.required_secrets.iter().filter_map(|secret| {
        let name = match secret.mount() {
            Some((_, name)) => name,
            None => held(secret)?,
        };
        let need = &secret.need;
        let (secret, key) = (need.name.clone(), need.key.clone());
        Some(PreparedValue { name, namespace: Some(need.namespace.clone()), secret, key })
    });
    values.collect()
}

/// The config map values that a review allows to mount.
pub(super) fn configs_of(review: &Review) -> Vec<PreparedValue> {
    let values = review.config_mounts().into_iter().map(|(config, _, name)| {
        let need = &config.need;
        let (secret, key) = (need.name.clone(), need.key.clone());
        PreparedValue { name, namespace: Some(need.namespace.clone()), secret, key }
    });
    values.collect()
}

pub(super) fn prepared(admitted: &Admitted) -> PreparedLaunch {
    let limits = admitted.compiled.launch_limits();
    let selects =
        |child: &SubagentDefinition| child.spec.context_policy == ContextPolicy::SelectedSources;
    let sources = match limits.subagents.iter().any(selects) {
        true => admitted.bundle.sources(),
        false => Vec::new(),
    };
    PreparedLaunch {
        task: admitted.compiled.task.clone(),
        context: admitted.bundle.render(),
        limits,
        sources,
        kit_commit: admitted.kit_commit.clone(),
        lent_model_key: admitted.lent_model_key,
        values: values_of(&admitted.review),
        configs: configs_of(&admitted.review),
    }
}

/// The variable of a value that is passed by reference: the supervisor uses it for the model, and the agent never
/// sees it because the task does not name it.
fn held(secret: &RequiredSecret) -> Option<String> {
    let by_reference = secret.arrives == Some(SecretMount::NeverMountPassByReference);
    let for_model = secret.need.purpose == SecretPurpose::ModelProviderToken;
    let granted =
        matches!(secret.entry.decision, EntryDecision::Allowed | EntryDecision::RequiresApproval);
    if !(by_reference && for_model && granted) {
        return None;
    }
    let upper = |key: &str| key.to_ascii_uppercase().replace(['-', '.'], "_");
    Some(secret.need.becomes.clone().unwrap_or_else(|| upper(&secret.need.key)))
}

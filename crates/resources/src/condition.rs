//! The conditions of a resource: its state, as the control plane sees it, with reasons.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Moment, Reason};

/// The status of a condition.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Standing {
    /// The condition holds.
    True,
    /// The condition does not hold.
    False,
    /// It is not known whether the condition holds. Treat it as false.
    #[default]
    Unknown,
}

macro_rules! condition_types {
    ($($(#[doc = $doc:literal])+ $name:ident,)*) => {
        /// The type of a condition.
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
        )]
        pub enum ConditionType {
            $($(#[doc = $doc])+ $name,)*
        }

        impl ConditionType {
            /// The name in documents.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => stringify!($name),)* }
            }

            /// What the condition means if it holds, in one sentence.
            pub fn meaning(self) -> &'static str {
                match self { $(Self::$name => concat!($($doc),+).trim_ascii(),)* }
            }
        }
    };
}

condition_types! {
    /// The adapter's capabilities were read off the real program and normalised.
    CapabilitiesResolved,
    /// The tool profile agrees with the policy of the repository.
    ToolsAdmitted,
    /// The MCP servers answer, or may be started later.
    McpHealthy,
    /// The skills were found and fit.
    SkillsValidated,
    /// The sub-agents fit the adapter and the stack.
    SubagentsValid,
    /// The labels exist and their fragments are approved.
    ContextLabelsValid,
    /// Policy allows it.
    PolicyAdmitted,
    /// The identity exists and may receive tokens.
    RuntimeIdentityReady,
    /// The roles are bound and do not escalate.
    RolesAdmitted,
    /// The secrets' keys are granted.
    SecretsAdmitted,
    /// The config maps' keys are granted.
    ConfigAdmitted,
    /// All requirements are met.
    Ready,
    /// The source of events is set up.
    SourceConfigured,
    /// The matcher compiles and can be tried.
    MatcherValid,
    /// The stack is ready.
    TargetStackReady,
    /// The template renders with a sample.
    ContextTemplateValid,
    /// Keys of dedupe and concurrency are stable and bounded.
    DedupePolicyValid,
    /// The rule may dispatch.
    LifecycleActive,
    /// The bundle is there with its digest.
    ContextAssembled,
    /// The workspace is there and admitted.
    WorkspaceResolved,
    /// A pool has accepted the attempt.
    RunnerAssigned,
    /// The agent program's run and session are known.
    AgentMuxSessionBound,
    /// All required approvals are given.
    ApprovalSatisfied,
    /// The artifacts are stored and linked.
    ArtifactsIndexed,
    /// The platform's identity is as it should be.
    ServiceAccountSynced,
    /// Tokens may be projected.
    TokenProjectionAllowed,
    /// The secrets for pulling images are there.
    ImagePullSecretsReady,
    /// The role is there.
    RoleResolved,
    /// Those who get it are there.
    SubjectsResolved,
    /// The platform's binding is as it should be.
    NativeBindingSynced,
    /// It grants no more than its author has.
    EscalationAdmitted,
    /// The secret is there.
    SecretExists,
    /// Its keys are there.
    KeysExist,
    /// The subject may have it.
    SubjectAuthorized,
    /// The config map is there.
    ConfigMapExists,
    /// The requirements are known.
    RequirementsDiscovered,
    /// Each need has its grant.
    GrantsResolved,
    /// The forge of the repository answers.
    ForgeReachable,
    /// The token and its account have the required permissions.
    AccountSufficient,
    /// It can be read which other accounts may write to the repository.
    ActorRightsKnown,
    /// The forge is new enough for every feature.
    ForgeVersionSupported,
}

/// A condition of an object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Condition {
    /// The type of the condition.
    #[serde(rename = "type")]
    pub kind: ConditionType,
    /// Whether the condition holds.
    pub status: Standing,
    /// A stable code for the reason.
    pub reason: Reason,
    /// A message for people. Programs must not parse it.
    pub message: String,
    /// The generation that this condition describes.
    pub observed_generation: u64,
    /// When the status of the condition last changed.
    pub last_transition_time: Moment,
}

impl Condition {
    /// Whether it holds for this generation.
    pub fn holds(&self, generation: u64) -> bool {
        self.status == Standing::True && self.observed_generation == generation
    }
}

/// The conditions of each kind, in display order.
pub fn expected_conditions(kind: super::Kind) -> &'static [ConditionType] {
    use super::Kind;
    use ConditionType::*;
    match kind {
        Kind::AgentStack => &[
            CapabilitiesResolved,
            ToolsAdmitted,
            McpHealthy,
            SkillsValidated,
            SubagentsValid,
            ContextLabelsValid,
            PolicyAdmitted,
            RuntimeIdentityReady,
            RolesAdmitted,
            SecretsAdmitted,
            ConfigAdmitted,
            Ready,
        ],
        Kind::AgentTriggerRule => &[
            SourceConfigured,
            MatcherValid,
            TargetStackReady,
            ContextTemplateValid,
            DedupePolicyValid,
            LifecycleActive,
        ],
        Kind::AgentDispatchRun => &[
            ContextAssembled,
            WorkspaceResolved,
            RunnerAssigned,
            AgentMuxSessionBound,
            ApprovalSatisfied,
            ArtifactsIndexed,
        ],
        Kind::AgentServiceAccount => {
            &[ServiceAccountSynced, TokenProjectionAllowed, ImagePullSecretsReady, Ready]
        }
        Kind::AgentRoleBinding => {
            &[RoleResolved, SubjectsResolved, NativeBindingSynced, EscalationAdmitted, Ready]
        }
        Kind::AgentSecretGrant => {
            &[SecretExists, KeysExist, SubjectAuthorized, PolicyAdmitted, Ready]
        }
        Kind::AgentConfigGrant => {
            &[ConfigMapExists, KeysExist, SubjectAuthorized, PolicyAdmitted, Ready]
        }
        Kind::AgentCapabilityRequirement => &[RequirementsDiscovered, GrantsResolved, Ready],
        Kind::Repository => {
            &[ForgeReachable, AccountSufficient, ActorRightsKnown, ForgeVersionSupported, Ready]
        }
        Kind::AgentSubagent => &[SubagentsValid, Ready],
        Kind::AgentToolProfile => &[ToolsAdmitted, Ready],
        Kind::AgentMcpServer => &[McpHealthy, Ready],
        Kind::AgentSkill => &[SkillsValidated, Ready],
        Kind::AgentContextLabel => &[ContextLabelsValid, Ready],
        Kind::AgentWorkspacePolicy => &[PolicyAdmitted, Ready],
        Kind::RunnerPool => &[RuntimeIdentityReady, Ready],
        Kind::AgentDispatchAttempt
        | Kind::WorkItemSessionLink
        | Kind::WorkItemWorkspaceLink
        | Kind::AgentWorkspace
        | Kind::AgentSession
        | Kind::AgentApproval
        | Kind::AgentContextBundle
        | Kind::AgentArtifact
        | Kind::AgentReviewArtifact
        | Kind::AgentTriggerExecution
        | Kind::WebhookDelivery
        | Kind::ServiceAccount
        | Kind::Role
        | Kind::RoleBinding
        | Kind::Secret
        | Kind::ConfigMap => &[],
    }
}

/// Merges new conditions. The transition time changes only if the status changed.
pub fn settle(
    before: &[Condition],
    found: Vec<Finding>,
    generation: u64,
    now: Moment,
) -> Vec<Condition> {
    found
        .into_iter()
        .map(|finding| {
            let known = before.iter().find(|condition| condition.kind == finding.kind);
            let last_transition_time = known
                .filter(|condition| condition.status == finding.status)
                .map_or(now, |condition| condition.last_transition_time);
            Condition {
                kind: finding.kind,
                status: finding.status,
                reason: finding.reason,
                message: finding.message,
                observed_generation: generation,
                last_transition_time,
            }
        })
        .collect()
}

/// A new condition, before it is compared with the previous one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The type of the condition.
    pub kind: ConditionType,
    /// Whether it holds.
    pub status: Standing,
    /// A stable code for the reason.
    pub reason: Reason,
    /// A message for people.
    pub message: String,
}

impl Finding {
    /// It holds.
    pub fn holds(kind: ConditionType, reason: Reason, message: impl Into<String>) -> Self {
        Self { kind, status: Standing::True, reason, message: message.into() }
    }

    /// It does not hold.
    pub fn fails(kind: ConditionType, reason: Reason, message: impl Into<String>) -> Self {
        Self { kind, status: Standing::False, reason, message: message.into() }
    }

    /// It is not known whether it holds.
    pub fn unknown(kind: ConditionType, reason: Reason, message: impl Into<String>) -> Self {
        Self { kind, status: Standing::Unknown, reason, message: message.into() }
    }
}

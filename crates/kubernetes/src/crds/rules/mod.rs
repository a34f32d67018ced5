//! The limits of each kind besides its schema: the same that `Resource::faults` checks in the embedded database.

use bailiwick_resources::Kind;

use super::limit::Limit;

mod agents;
mod dispatch;
mod identity;
mod servers;

/// A name of an object: lower case, digits, `-` and `.`, as the embedded database accepts it.
const NAME: &str = r"^[a-z0-9]((\.?[a-z0-9-])*\.?[a-z0-9])?$";
/// The maximum length of a name.
const MAX_NAME: i64 = 128;
/// A text with anything but white space in it, white space as Unicode has it.
const NOT_BLANK: &str =
    r"[^\t\n\v\f\r \x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}]";
/// A path that leaves the repository, or leads into git's own files.
const OUTSIDE: &str = r"(^/)|(^|/)(\\.\\.|\\.git)(/|$)";
/// The maximum of an unsigned number of 32 bits.
const MAX_U32: f64 = 4_294_967_295.0;

type Limits = Vec<(&'static str, Limit)>;

/// The limits of a kind: where, and what.
pub(super) fn of(kind: Kind) -> Limits {
    match kind {
        Kind::AgentStack => agents::stack(),
        Kind::AgentSubagent => agents::subagent(),
        Kind::AgentToolProfile => agents::tool_profile(),
        Kind::AgentSkill => agents::skill(),
        Kind::AgentContextLabel => agents::context_label(),
        Kind::AgentMcpServer => servers::mcp_server(),
        Kind::AgentServiceAccount => identity::service_account(),
        Kind::AgentRoleBinding => identity::role_binding(),
        Kind::AgentSecretGrant => identity::secret_grant(),
        Kind::AgentConfigGrant => identity::config_grant(),
        Kind::AgentTriggerRule => dispatch::trigger_rule(),
        Kind::AgentDispatchRun => dispatch::run(),
        Kind::Repository => dispatch::repository(),
        Kind::RunnerPool => dispatch::runner_pool(),
        Kind::AgentCapabilityRequirement
        | Kind::AgentDispatchAttempt
        | Kind::WorkItemSessionLink
        | Kind::WorkItemWorkspaceLink
        | Kind::AgentWorkspacePolicy
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
        | Kind::ConfigMap => Vec::new(),
    }
}

/// An expression that must be true.
fn holds(rule: impl Into<String>, message: &'static str) -> Limit {
    Limit::Holds { rule: rule.into(), message }
}

/// Whether a list is there and has an element. In rules, a field that is null is not there.
fn some(field: &str) -> String {
    format!("(has({field}) && {field}.size() > 0)")
}

/// A name of an object in this field.
fn name(at: &'static str) -> [(&'static str, Limit); 2] {
    [(at, Limit::Pattern(NAME)), (at, Limit::AtMost(MAX_NAME))]
}

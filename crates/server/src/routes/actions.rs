//! Routes for actions on objects, and short names of kinds.

use bailiwick_fleet::ports::RunVerb;
use bailiwick_resources::Kind;

use super::{ADMIN, APPROVER, Call, Method, OPERATOR, Row, VIEWER};

/// Routes under both `/api/v1alpha1` and `/api/agents`; the namespace is a query parameter.
pub(super) const ACTIONS: &[Row] = {
    use Method::{Get, Post};
    const RUNS: Option<Kind> = Some(Kind::AgentDispatchRun);
    const WORKSPACES: Option<Kind> = Some(Kind::AgentWorkspace);
    const RULE: Option<Kind> = Some(Kind::AgentTriggerRule);
    &[
        (Get, "/runs", Call::List, VIEWER, RUNS, "List or watch runs"),
        (Post, "/runs", Call::Dispatch, OPERATOR, RUNS, "Request a run"),
        (Get, "/runs/{name}", Call::Read, VIEWER, RUNS, "Read a run"),
        (
            Get,
            "/runs/{name}/events",
            Call::RunEvents,
            VIEWER,
            RUNS,
            "Read or follow a run's events",
        ),
        (Post, "/runs/{name}/cancel", Call::Run(RunVerb::Cancel), OPERATOR, RUNS, "Cancel a run"),
        (Post, "/runs/{name}/retry", Call::Run(RunVerb::Retry), OPERATOR, RUNS, "Retry a run"),
        (Post, "/runs/{name}/resume", Call::Run(RunVerb::Resume), OPERATOR, RUNS, "Resume a run"),
        (
            Post,
            "/runs/{name}/continue",
            Call::Run(RunVerb::Continue),
            OPERATOR,
            RUNS,
            "Send a message to a run",
        ),
        (Post, "/runs/{name}/fork", Call::Run(RunVerb::Fork), OPERATOR, RUNS, "Fork a run"),
        (
            Post,
            "/runs/{name}/refresh-context",
            Call::Run(RunVerb::RefreshContext),
            OPERATOR,
            RUNS,
            "Gather the context of a run again",
        ),
        (
            Post,
            "/approvals/{name}/decision",
            Call::Decide,
            APPROVER,
            Some(Kind::AgentApproval),
            "Decide an approval, once, as the actor of the token",
        ),
        (
            Get,
            "/approvals/{name}/preview",
            Call::PreviewApproval,
            OPERATOR,
            Some(Kind::AgentApproval),
            "Show exactly what an approval allows, and the state of its target now",
        ),
        (Post, "/rules/{name}/dry-run", Call::TryRule, OPERATOR, RULE, "Test a rule with an event"),
        (
            Post,
            "/rules/{name}/lifecycle",
            Call::Lifecycle,
            OPERATOR,
            RULE,
            "Activate, pause, disable or archive a rule",
        ),
        (
            Post,
            "/rules/{name}/replay-delivery",
            Call::Replay,
            OPERATOR,
            RULE,
            "Evaluate a delivery again with a rule",
        ),
        (Post, "/rules/{name}/fire", Call::Fire, OPERATOR, RULE, "Fire a rule manually"),
        (
            Post,
            "/rules/{name}/materialize",
            Call::Materialize,
            OPERATOR,
            RULE,
            "Create a work item from an event, without a run",
        ),
        (
            Post,
            "/permissions/review",
            Call::Review,
            VIEWER,
            None,
            "Show the permissions that a run would have",
        ),
        (Get, "/workspaces", Call::List, VIEWER, WORKSPACES, "List or watch workspaces"),
        (Post, "/workspaces", Call::Provision, OPERATOR, WORKSPACES, "Create or link a workspace"),
        (Get, "/workspaces/{name}", Call::Read, VIEWER, WORKSPACES, "Read a workspace"),
        (
            Post,
            "/workspaces/{name}/action",
            Call::ActOnWorkspace,
            OPERATOR,
            WORKSPACES,
            "Perform an action on a workspace",
        ),
        (
            Get,
            "/repositories/{name}/checks",
            Call::Checks,
            VIEWER,
            Some(Kind::Repository),
            "List the checks and runs of a commit",
        ),
        (
            Get,
            "/capabilities",
            Call::Capabilities,
            VIEWER,
            None,
            "List the capabilities of each agent CLI",
        ),
    ]
};

/// Short names of kinds under `/api/agents`.
pub(super) const SHORT_NAMES: &[Row] = {
    use Method::{Delete, Get, Patch, Post, Put};
    const STACK: Option<Kind> = Some(Kind::AgentStack);
    const RULE: Option<Kind> = Some(Kind::AgentTriggerRule);
    const APPROVAL: Option<Kind> = Some(Kind::AgentApproval);
    const NEEDS: Option<Kind> = Some(Kind::AgentCapabilityRequirement);
    const IDENTITY: Option<Kind> = Some(Kind::AgentServiceAccount);
    &[
        (Get, "/stacks", Call::List, VIEWER, STACK, "List or watch stacks"),
        (Post, "/stacks", Call::Create, ADMIN, STACK, "Create a stack"),
        (Get, "/stacks/{name}", Call::Read, VIEWER, STACK, "Read a stack"),
        (Put, "/stacks/{name}", Call::Replace, ADMIN, STACK, "Replace a stack"),
        (Patch, "/stacks/{name}", Call::Patch, ADMIN, STACK, "Patch a stack"),
        (Delete, "/stacks/{name}", Call::Delete, ADMIN, STACK, "Delete a stack"),
        (Get, "/rules", Call::List, VIEWER, RULE, "List or watch rules"),
        (Post, "/rules", Call::Create, ADMIN, RULE, "Create a rule"),
        (Get, "/rules/{name}", Call::Read, VIEWER, RULE, "Read a rule"),
        (Put, "/rules/{name}", Call::Replace, ADMIN, RULE, "Replace a rule"),
        (Patch, "/rules/{name}", Call::Patch, ADMIN, RULE, "Patch a rule"),
        (Delete, "/rules/{name}", Call::Delete, ADMIN, RULE, "Delete a rule"),
        (Get, "/approvals", Call::List, VIEWER, APPROVAL, "List or watch approvals"),
        (Get, "/approvals/{name}", Call::Read, VIEWER, APPROVAL, "Read an approval"),
        (Get, "/secrets", Call::List, VIEWER, Some(Kind::Secret), "List secrets without values"),
        (Get, "/configmaps", Call::List, VIEWER, Some(Kind::ConfigMap), "List config maps"),
        (
            Get,
            "/capability-requirements",
            Call::List,
            VIEWER,
            NEEDS,
            "List capability requirements",
        ),
        (
            Post,
            "/secrets/grants",
            Call::Create,
            ADMIN,
            Some(Kind::AgentSecretGrant),
            "Grant keys of a secret",
        ),
        (
            Post,
            "/config/grants",
            Call::Create,
            ADMIN,
            Some(Kind::AgentConfigGrant),
            "Grant keys of a config map",
        ),
        (Get, "/identities", Call::List, VIEWER, IDENTITY, "List identities"),
        (Post, "/identities/service-accounts", Call::Create, ADMIN, IDENTITY, "Create an identity"),
        (
            Post,
            "/permissions/role-bindings",
            Call::Create,
            ADMIN,
            Some(Kind::AgentRoleBinding),
            "Bind a role",
        ),
    ]
};

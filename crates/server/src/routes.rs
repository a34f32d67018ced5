//! The table of all routes, from which the router and the OpenAPI description are built.

use bailiwick_fleet::ports::{RunVerb, TokenScope};
use bailiwick_resources::Kind;

/// The action of a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Call {
    Index,
    Health,
    Ready,
    Metrics,
    OpenApi,
    List,
    Create,
    Read,
    Replace,
    Patch,
    Delete,
    Status,
    Apply,
    SetSecret,
    Events,
    RunEvents,
    Run(RunVerb),
    Dispatch,
    Decide,
    TryRule,
    Lifecycle,
    Replay,
    Fire,
    Materialize,
    Review,
    Provision,
    ActOnWorkspace,
    Checks,
    Capabilities,
    Tokens,
    MintToken,
    RevokeToken,
    Audit,
    Blob,
    Webhook,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Method {
    Get,
    Post,
    Put,
    Patch,
    Delete,
}

impl Method {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Post => "post",
            Self::Put => "put",
            Self::Patch => "patch",
            Self::Delete => "delete",
        }
    }
}

/// Who may use a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// Anybody: the response is public.
    Open,
    /// Clients with a token of this scope or a higher one.
    Scope(TokenScope),
    /// Clients that sign with the secret of the repository.
    Signed,
}

#[derive(Debug, Clone)]
pub(crate) struct Route {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) call: Call,
    pub(crate) access: Access,
    /// The kind, if the path does not have it.
    pub(crate) kind: Option<Kind>,
    pub(crate) summary: &'static str,
}

const VIEWER: Access = Access::Scope(TokenScope::Viewer);
const OPERATOR: Access = Access::Scope(TokenScope::Operator);
const APPROVER: Access = Access::Scope(TokenScope::Approver);
const ADMIN: Access = Access::Scope(TokenScope::Admin);

type Row = (Method, &'static str, Call, Access, Option<Kind>, &'static str);

/// Routes with their full paths.
const ABSOLUTE: &[Row] = {
    use Method::{Delete, Get, Patch, Post, Put};
    const ONE: &str = "/api/v1alpha1/namespaces/{namespace}/{plural}/{name}";
    const SOME: &str = "/api/v1alpha1/namespaces/{namespace}/{plural}";
    const ALL: &str = "/api/v1alpha1/{plural}";
    const SECRET: &str = "/api/v1alpha1/namespaces/{namespace}/secrets/{name}";
    const SECRETS: Option<Kind> = Some(Kind::Secret);
    &[
        (Get, "/", Call::Index, Access::Open, None, "Describe this server"),
        (Get, "/healthz", Call::Health, Access::Open, None, "Check that the server is running"),
        (
            Get,
            "/readyz",
            Call::Ready,
            Access::Open,
            None,
            "Check that the store is available and the control loop is running",
        ),
        (Get, "/metrics", Call::Metrics, VIEWER, None, "Metrics for Prometheus"),
        (Get, "/openapi.json", Call::OpenApi, Access::Open, None, "The OpenAPI description"),
        (Get, ALL, Call::List, VIEWER, None, "List or watch objects of every namespace"),
        (Post, ALL, Call::Create, ADMIN, None, "Create an object"),
        (Get, SOME, Call::List, VIEWER, None, "List or watch objects of a namespace"),
        (Post, SOME, Call::Create, ADMIN, None, "Create an object in a namespace"),
        (Get, ONE, Call::Read, VIEWER, None, "Read an object"),
        (Put, ONE, Call::Replace, ADMIN, None, "Replace an object"),
        (Patch, ONE, Call::Patch, ADMIN, None, "Patch an object"),
        (Delete, ONE, Call::Delete, ADMIN, None, "Delete an object"),
        (
            Put,
            "/api/v1alpha1/namespaces/{namespace}/{plural}/{name}/status",
            Call::Status,
            ADMIN,
            None,
            "Refused: only the control plane writes a status",
        ),
        (Get, SECRET, Call::Read, VIEWER, SECRETS, "Read the key names of a secret"),
        (Put, SECRET, Call::SetSecret, ADMIN, SECRETS, "Set secret values"),
        (Delete, SECRET, Call::Delete, ADMIN, SECRETS, "Delete a secret"),
        (Post, "/api/v1alpha1/apply", Call::Apply, ADMIN, None, "Apply documents, all or none"),
        (Get, "/api/v1alpha1/events", Call::Events, VIEWER, None, "Watch objects of every kind"),
        (Get, "/api/v1alpha1/tokens", Call::Tokens, ADMIN, None, "List tokens"),
        (Post, "/api/v1alpha1/tokens", Call::MintToken, ADMIN, None, "Create a token, shown once"),
        (Delete, "/api/v1alpha1/tokens/{name}", Call::RevokeToken, ADMIN, None, "Revoke a token"),
        (Get, "/api/v1alpha1/audit", Call::Audit, ADMIN, None, "Read the audit log"),
        (Get, "/api/v1alpha1/blobs/{digest}", Call::Blob, OPERATOR, None, "Read stored bytes"),
        (
            Post,
            "/webhooks/{repository}",
            Call::Webhook,
            Access::Signed,
            None,
            "Receive a signed webhook; it is stored before the response",
        ),
    ]
};

/// Routes under both `/api/v1alpha1` and `/api/agents`; the namespace is a query parameter.
const ACTIONS: &[Row] = {
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
            "/approvals/{name}/decision",
            Call::Decide,
            APPROVER,
            Some(Kind::AgentApproval),
            "Decide an approval, once, as the actor of the token",
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
const SHORT_NAMES: &[Row] = {
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

pub(crate) fn routes() -> Vec<Route> {
    let tables: [(&str, &[Row]); 4] = [
        ("", ABSOLUTE),
        ("/api/v1alpha1", ACTIONS),
        ("/api/agents", ACTIONS),
        ("/api/agents", SHORT_NAMES),
    ];
    let all =
        tables.into_iter().flat_map(|(prefix, rows)| rows.iter().map(move |row| (prefix, row)));
    all.map(|(prefix, &(method, path, call, access, kind, summary))| Route {
        method,
        path: format!("{prefix}{path}"),
        call,
        access,
        kind,
        summary,
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{Access, Call, Method, routes};

    #[test]
    fn routes_are_unique() {
        let mut seen = BTreeSet::new();
        for route in routes() {
            assert!(seen.insert((route.method, route.path.clone())), "{route:?}");
        }
    }

    #[test]
    fn only_public_and_signed_routes_need_no_token() {
        for route in routes() {
            let open =
                matches!(route.call, Call::Index | Call::Health | Call::Ready | Call::OpenApi);
            assert_eq!(route.access == Access::Open, open, "{route:?}");
            assert_eq!(route.access == Access::Signed, route.call == Call::Webhook, "{route:?}");
            if open {
                assert_eq!(route.method, Method::Get, "{route:?}");
            }
        }
    }
}

//! Every route, once: the router and the API's description both come from this table.

use bailiwick_fleet::ports::{RunVerb, TokenScope};
use bailiwick_resources::Kind;

/// What a route does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Call {
    Front,
    Live,
    Ready,
    Metrics,
    Description,
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

/// The methods that are used.
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
    /// Anybody: it says nothing that is not public.
    Open,
    /// Whoever has a token of this scope or a higher one.
    Scope(TokenScope),
    /// Whoever signs with the repository's secret.
    Signed,
}

/// One route.
#[derive(Debug, Clone)]
pub(crate) struct Route {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) call: Call,
    pub(crate) access: Access,
    /// The kind, where the path itself does not say it.
    pub(crate) kind: Option<Kind>,
    pub(crate) summary: &'static str,
}

const VIEWER: Access = Access::Scope(TokenScope::Viewer);
const OPERATOR: Access = Access::Scope(TokenScope::Operator);
const APPROVER: Access = Access::Scope(TokenScope::Approver);
const ADMIN: Access = Access::Scope(TokenScope::Admin);

type Row = (Method, &'static str, Call, Access, Option<Kind>, &'static str);

/// The routes with their whole paths.
const WHOLE: &[Row] = {
    use Method::{Delete, Get, Patch, Post, Put};
    const ONE: &str = "/api/v1alpha1/namespaces/{namespace}/{plural}/{name}";
    const SOME: &str = "/api/v1alpha1/namespaces/{namespace}/{plural}";
    const ALL: &str = "/api/v1alpha1/{plural}";
    const SECRET: &str = "/api/v1alpha1/namespaces/{namespace}/secrets/{name}";
    const SECRETS: Option<Kind> = Some(Kind::Secret);
    &[
        (Get, "/", Call::Front, Access::Open, None, "Say what this is"),
        (Get, "/healthz", Call::Live, Access::Open, None, "Say that the server is alive"),
        (
            Get,
            "/readyz",
            Call::Ready,
            Access::Open,
            None,
            "Say whether the store answers, and turns are taken",
        ),
        (Get, "/metrics", Call::Metrics, VIEWER, None, "Figures for Prometheus"),
        (Get, "/openapi.json", Call::Description, Access::Open, None, "This description"),
        (Get, ALL, Call::List, VIEWER, None, "List or watch objects of every namespace"),
        (Post, ALL, Call::Create, ADMIN, None, "Create an object"),
        (Get, SOME, Call::List, VIEWER, None, "List or watch objects of a namespace"),
        (Post, SOME, Call::Create, ADMIN, None, "Create an object in a namespace"),
        (Get, ONE, Call::Read, VIEWER, None, "Read an object"),
        (Put, ONE, Call::Replace, ADMIN, None, "Replace what is declared of an object"),
        (Patch, ONE, Call::Patch, ADMIN, None, "Merge into what is declared of an object"),
        (Delete, ONE, Call::Delete, ADMIN, None, "Delete an object"),
        (
            Put,
            "/api/v1alpha1/namespaces/{namespace}/{plural}/{name}/status",
            Call::Status,
            ADMIN,
            None,
            "Refused: a status is written by the control plane alone",
        ),
        (Get, SECRET, Call::Read, VIEWER, SECRETS, "Read the names of a secret's keys"),
        (Put, SECRET, Call::SetSecret, ADMIN, SECRETS, "Set values of a secret"),
        (Delete, SECRET, Call::Delete, ADMIN, SECRETS, "Delete a secret"),
        (Post, "/api/v1alpha1/apply", Call::Apply, ADMIN, None, "Apply documents, all or none"),
        (Get, "/api/v1alpha1/events", Call::Events, VIEWER, None, "Watch objects of every kind"),
        (Get, "/api/v1alpha1/tokens", Call::Tokens, ADMIN, None, "List tokens"),
        (Post, "/api/v1alpha1/tokens", Call::MintToken, ADMIN, None, "Make a token, shown once"),
        (Delete, "/api/v1alpha1/tokens/{name}", Call::RevokeToken, ADMIN, None, "Revoke a token"),
        (Get, "/api/v1alpha1/audit", Call::Audit, ADMIN, None, "Read the audit log"),
        (Get, "/api/v1alpha1/blobs/{digest}", Call::Blob, OPERATOR, None, "Read kept bytes"),
        (
            Post,
            "/webhooks/{repository}",
            Call::Webhook,
            Access::Signed,
            None,
            "Take a signed webhook; it is durable when this answers",
        ),
    ]
};

/// Routes that stand below `/api/v1alpha1` and below `/api/agents`; the namespace is a parameter.
const ACTIONS: &[Row] = {
    use Method::{Get, Post};
    const RUNS: Option<Kind> = Some(Kind::AgentDispatchRun);
    const PLACES: Option<Kind> = Some(Kind::AgentWorkspace);
    const RULE: Option<Kind> = Some(Kind::AgentTriggerRule);
    &[
        (Get, "/runs", Call::List, VIEWER, RUNS, "List or watch runs"),
        (Post, "/runs", Call::Dispatch, OPERATOR, RUNS, "Ask for a run"),
        (Get, "/runs/{name}", Call::Read, VIEWER, RUNS, "Read a run"),
        (
            Get,
            "/runs/{name}/events",
            Call::RunEvents,
            VIEWER,
            RUNS,
            "Read or follow a run's events",
        ),
        (Post, "/runs/{name}/cancel", Call::Run(RunVerb::Cancel), OPERATOR, RUNS, "End a run"),
        (Post, "/runs/{name}/retry", Call::Run(RunVerb::Retry), OPERATOR, RUNS, "Try a run again"),
        (Post, "/runs/{name}/resume", Call::Run(RunVerb::Resume), OPERATOR, RUNS, "Resume a run"),
        (
            Post,
            "/runs/{name}/continue",
            Call::Run(RunVerb::Continue),
            OPERATOR,
            RUNS,
            "Say more to a run",
        ),
        (Post, "/runs/{name}/fork", Call::Run(RunVerb::Fork), OPERATOR, RUNS, "Fork a run"),
        (
            Post,
            "/approvals/{name}/decision",
            Call::Decide,
            APPROVER,
            Some(Kind::AgentApproval),
            "Answer an approval, once, as the token's person",
        ),
        (Post, "/rules/{name}/dry-run", Call::TryRule, OPERATOR, RULE, "Try a rule with an event"),
        (
            Post,
            "/rules/{name}/lifecycle",
            Call::Lifecycle,
            OPERATOR,
            RULE,
            "Enable, pause, end a rule",
        ),
        (
            Post,
            "/rules/{name}/replay-delivery",
            Call::Replay,
            OPERATOR,
            RULE,
            "Let a rule look at a delivery again",
        ),
        (Post, "/rules/{name}/fire", Call::Fire, OPERATOR, RULE, "Fire a rule by hand"),
        (
            Post,
            "/rules/{name}/materialize",
            Call::Materialize,
            OPERATOR,
            RULE,
            "Make a work item of an event, and no run",
        ),
        (
            Post,
            "/permissions/review",
            Call::Review,
            VIEWER,
            None,
            "Say what a run would be permitted",
        ),
        (Get, "/workspaces", Call::List, VIEWER, PLACES, "List or watch workspaces"),
        (Post, "/workspaces", Call::Provision, OPERATOR, PLACES, "Make or link a workspace"),
        (Get, "/workspaces/{name}", Call::Read, VIEWER, PLACES, "Read a workspace"),
        (
            Post,
            "/workspaces/{name}/action",
            Call::ActOnWorkspace,
            OPERATOR,
            PLACES,
            "Do something to a workspace",
        ),
        (
            Get,
            "/repositories/{name}/checks",
            Call::Checks,
            VIEWER,
            Some(Kind::Repository),
            "List the checks of a commit, and our runs beside them",
        ),
        (Get, "/capabilities", Call::Capabilities, VIEWER, None, "What each agent program can do"),
    ]
};

/// Short names below `/api/agents` for kinds.
const SHORT: &[Row] = {
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
        (Patch, "/stacks/{name}", Call::Patch, ADMIN, STACK, "Merge into a stack"),
        (Delete, "/stacks/{name}", Call::Delete, ADMIN, STACK, "Delete a stack"),
        (Get, "/rules", Call::List, VIEWER, RULE, "List or watch rules"),
        (Post, "/rules", Call::Create, ADMIN, RULE, "Create a rule"),
        (Get, "/rules/{name}", Call::Read, VIEWER, RULE, "Read a rule"),
        (Put, "/rules/{name}", Call::Replace, ADMIN, RULE, "Replace a rule"),
        (Patch, "/rules/{name}", Call::Patch, ADMIN, RULE, "Merge into a rule"),
        (Delete, "/rules/{name}", Call::Delete, ADMIN, RULE, "Delete a rule"),
        (Get, "/approvals", Call::List, VIEWER, APPROVAL, "List or watch approvals"),
        (Get, "/approvals/{name}", Call::Read, VIEWER, APPROVAL, "Read an approval"),
        (Get, "/secrets", Call::List, VIEWER, Some(Kind::Secret), "List secrets without values"),
        (Get, "/configmaps", Call::List, VIEWER, Some(Kind::ConfigMap), "List config maps"),
        (Get, "/capability-requirements", Call::List, VIEWER, NEEDS, "List what objects need"),
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

/// Every route.
pub(crate) fn routes() -> Vec<Route> {
    let tables: [(&str, &[Row]); 4] =
        [("", WHOLE), ("/api/v1alpha1", ACTIONS), ("/api/agents", ACTIONS), ("/api/agents", SHORT)];
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
    fn no_route_is_there_twice() {
        let mut seen = BTreeSet::new();
        for route in routes() {
            assert!(seen.insert((route.method, route.path.clone())), "{route:?}");
        }
    }

    #[test]
    fn only_what_is_public_or_signed_needs_no_token() {
        for route in routes() {
            let open =
                matches!(route.call, Call::Front | Call::Live | Call::Ready | Call::Description);
            assert_eq!(route.access == Access::Open, open, "{route:?}");
            assert_eq!(route.access == Access::Signed, route.call == Call::Webhook, "{route:?}");
            if open {
                assert_eq!(route.method, Method::Get, "{route:?}");
            }
        }
    }
}

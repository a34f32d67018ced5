//! The table of all routes, from which the router and the OpenAPI description are built.

use bailiwick_fleet::ports::{LocalVerb, RunVerb, TokenScope};
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
    Diff,
    WhoAmI,
    SetSecret,
    Events,
    RunEvents,
    Run(RunVerb),
    Dispatch,
    Decide,
    PreviewApproval,
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
    Login,
    LoginCallback,
    Logout,
    StartDevice,
    DeviceToken,
    ExchangeIdToken,
    RunList,
    RecentAnswers,
    SavedFilters,
    SaveFilter,
    DeleteFilter,
    LocalRuns,
    LocalPart(LocalPart),
    LocalExplain,
    LocalArtifact,
    LocalRun,
    LocalRunEvents,
    LocalRunDiff,
    LocalRunChecks,
    LocalQuestions,
    LocalClaims,
    Numbers,
    LocalAnswer,
    LocalJobs,
    LocalJob,
    LocalVerb(LocalVerb),
    Worker(WorkerCall),
}

/// A request of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WorkerCall {
    Join,
    Renew,
    Poll,
    Repository,
    Report,
    Work,
    Finish,
}

/// A part of an agent that is read without parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LocalPart {
    Context,
    Policy,
    Cost,
    Lineage,
    Artifacts,
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
    /// Workers, with their credential, or the token with which they join.
    Worker,
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
        (
            Post,
            "/api/v1alpha1/diff",
            Call::Diff,
            ADMIN,
            None,
            "Show what applying documents would change, without values of secrets",
        ),
        (
            Get,
            "/api/v1alpha1/whoami",
            Call::WhoAmI,
            VIEWER,
            None,
            "Show the person and the scope of the token, and the version of the server",
        ),
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
        (Get, "/auth/login", Call::Login, Access::Open, None, "Sign in with the OpenID provider"),
        (
            Get,
            "/auth/callback",
            Call::LoginCallback,
            Access::Open,
            None,
            "Receive a browser from the OpenID provider",
        ),
        (Post, "/auth/logout", Call::Logout, VIEWER, None, "Revoke the token of the request"),
        (
            Post,
            "/auth/device",
            Call::StartDevice,
            Access::Open,
            None,
            "Start a sign-in that a person confirms in a browser",
        ),
        (
            Post,
            "/auth/device/token",
            Call::DeviceToken,
            Access::Open,
            None,
            "Create a token after the person has confirmed",
        ),
        (
            Post,
            "/auth/token",
            Call::ExchangeIdToken,
            Access::Open,
            None,
            "Create a token for an ID token of the OpenID provider",
        ),
    ]
};

/// Routes for the agents of this machine; their full paths.
const LOCAL: &[Row] = {
    use Method::{Delete, Get, Post};
    const RUNS: &str = "/api/v1alpha1/local/runs";
    const ANSWERS: &str = "/api/v1alpha1/answers";
    const FILTERS: &str = "/api/v1alpha1/saved-filters";
    const FILTER: &str = "/api/v1alpha1/saved-filters/{name}";
    const ALL_RUNS: &str = "/api/v1alpha1/all-runs";
    const RUN: &str = "/api/v1alpha1/local/runs/{name}";
    const EVENTS: &str = "/api/v1alpha1/local/runs/{name}/events";
    const DIFF: &str = "/api/v1alpha1/local/runs/{name}/diff";
    const CHECKS: &str = "/api/v1alpha1/local/runs/{name}/checks";
    const CONTEXT: &str = "/api/v1alpha1/local/runs/{name}/context";
    const POLICY: &str = "/api/v1alpha1/local/runs/{name}/policy";
    const EXPLAIN: &str = "/api/v1alpha1/local/runs/{name}/explain";
    const COST: &str = "/api/v1alpha1/local/runs/{name}/cost";
    const LINEAGE: &str = "/api/v1alpha1/local/runs/{name}/lineage";
    const ARTIFACTS: &str = "/api/v1alpha1/local/runs/{name}/artifacts";
    const ARTIFACT: &str = "/api/v1alpha1/local/runs/{name}/artifacts/{artifact}";
    const QUESTIONS: &str = "/api/v1alpha1/local/questions";
    const CLAIMS: &str = "/api/v1alpha1/local/claims";
    const NUMBERS: &str = "/api/v1alpha1/numbers";
    const ANSWER: &str = "/api/v1alpha1/local/runs/{name}/questions/{question}/answer";
    const STOP: &str = "/api/v1alpha1/local/runs/{name}/stop";
    const MESSAGE: &str = "/api/v1alpha1/local/runs/{name}/message";
    const RESUME: &str = "/api/v1alpha1/local/runs/{name}/resume";
    const VERIFY: &str = "/api/v1alpha1/local/runs/{name}/verify";
    const LAND: &str = "/api/v1alpha1/local/runs/{name}/land";
    const JOBS: &str = "/api/v1alpha1/local/jobs";
    const JOB: &str = "/api/v1alpha1/local/jobs/{name}";
    const REJECT: &str = "/api/v1alpha1/local/runs/{name}/reject";
    const RESPAWN: &str = "/api/v1alpha1/local/runs/{name}/respawn";
    const ROLLBACK: &str = "/api/v1alpha1/local/runs/{name}/rollback";
    const REMOVE: &str = "/api/v1alpha1/local/runs/{name}/remove";
    const fn part(path: &'static str, part: LocalPart, summary: &'static str) -> Row {
        (Get, path, Call::LocalPart(part), VIEWER, None, summary)
    }
    const fn verb(path: &'static str, verb: LocalVerb, summary: &'static str) -> Row {
        (Post, path, Call::LocalVerb(verb), Access::Scope(verb.scope()), None, summary)
    }
    &[
        (Get, ALL_RUNS, Call::RunList, VIEWER, None, "List agents and runs of the control plane"),
        (Get, ANSWERS, Call::RecentAnswers, VIEWER, None, "List who answered what lately"),
        (Get, FILTERS, Call::SavedFilters, VIEWER, None, "List your saved filters of runs"),
        (Post, FILTERS, Call::SaveFilter, VIEWER, None, "Save a filter of runs for yourself"),
        (Delete, FILTER, Call::DeleteFilter, VIEWER, None, "Delete one of your saved filters"),
        (Get, RUNS, Call::LocalRuns, VIEWER, None, "List the agents of this machine"),
        (Get, RUN, Call::LocalRun, VIEWER, None, "Read an agent of this machine"),
        (Get, EVENTS, Call::LocalRunEvents, VIEWER, None, "Read or search the events of an agent"),
        (Get, DIFF, Call::LocalRunDiff, VIEWER, None, "Read what an agent changed"),
        (Get, CHECKS, Call::LocalRunChecks, VIEWER, None, "Read the checks of an agent's work"),
        part(CONTEXT, LocalPart::Context, "Read what an agent was told"),
        part(POLICY, LocalPart::Policy, "Read the limits of an agent"),
        (
            Get,
            EXPLAIN,
            Call::LocalExplain,
            VIEWER,
            None,
            "Explain what the limits say to a command",
        ),
        part(COST, LocalPart::Cost, "Read what an agent has used"),
        part(LINEAGE, LocalPart::Lineage, "Read where an agent comes from"),
        part(ARTIFACTS, LocalPart::Artifacts, "List the files of an agent"),
        (Get, ARTIFACT, Call::LocalArtifact, VIEWER, None, "Read a file of an agent"),
        (Get, QUESTIONS, Call::LocalQuestions, VIEWER, None, "List questions that wait"),
        (Get, CLAIMS, Call::LocalClaims, VIEWER, None, "List the paths that agents have claimed"),
        (Get, NUMBERS, Call::Numbers, VIEWER, None, "Count runs, denials, cost and durations"),
        (Post, ANSWER, Call::LocalAnswer, APPROVER, None, "Answer a question of an agent"),
        verb(STOP, LocalVerb::Stop, "Stop an agent; its work is kept"),
        verb(MESSAGE, LocalVerb::Message, "Send a message to an agent"),
        verb(RESUME, LocalVerb::Resume, "Continue an agent that has ended"),
        verb(VERIFY, LocalVerb::Verify, "Check an agent's work, as a job"),
        verb(LAND, LocalVerb::Land, "Verify and land an agent's work, as a job"),
        (Get, JOBS, Call::LocalJobs, VIEWER, None, "List the jobs of this server"),
        (Get, JOB, Call::LocalJob, VIEWER, None, "Read a job with its progress and result"),
        verb(REJECT, LocalVerb::Reject, "Reject an agent's work"),
        verb(RESPAWN, LocalVerb::Respawn, "Create and start a new agent for the same task"),
        verb(ROLLBACK, LocalVerb::Rollback, "Revert what an agent landed, as a job"),
        verb(REMOVE, LocalVerb::Remove, "Remove an agent's worktree and private files"),
    ]
};

/// Routes for workers; their full paths.
const WORKERS: &[Row] = {
    use Method::{Get, Post, Put};
    const REPOSITORY: &str = "/workers/v1/attempts/{name}/repository";
    const REPORT: &str = "/workers/v1/attempts/{name}/report";
    const WORK: &str = "/workers/v1/attempts/{name}/work";
    const FINISH: &str = "/workers/v1/attempts/{name}/finish";
    const fn row(method: Method, path: &'static str, call: WorkerCall, about: &'static str) -> Row {
        (method, path, Call::Worker(call), Access::Worker, None, about)
    }
    &[
        row(Post, "/workers/v1/join", WorkerCall::Join, "Join a pool with a token for one use"),
        row(Post, "/workers/v1/renew", WorkerCall::Renew, "Renew the credential of a worker"),
        row(Get, "/workers/v1/poll", WorkerCall::Poll, "Wait for an attempt and claim it"),
        row(Post, REPOSITORY, WorkerCall::Repository, "Read the commits of a claimed attempt"),
        row(Post, REPORT, WorkerCall::Report, "Report progress and keep the lease"),
        row(Put, WORK, WorkerCall::Work, "Send the work of an attempt as a git bundle"),
        row(Post, FINISH, WorkerCall::Finish, "Report the end of an attempt"),
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
    let tables: [(&str, &[Row]); 6] = [
        ("", ABSOLUTE),
        ("", LOCAL),
        ("", WORKERS),
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
    fn only_public_and_signed_routes_and_the_sign_in_need_no_token() {
        for route in routes() {
            let public =
                matches!(route.call, Call::Index | Call::Health | Call::Ready | Call::OpenApi);
            let sign_in = matches!(
                route.call,
                Call::Login
                    | Call::LoginCallback
                    | Call::StartDevice
                    | Call::DeviceToken
                    | Call::ExchangeIdToken
            );
            assert_eq!(route.access == Access::Open, public || sign_in, "{route:?}");
            assert_eq!(route.access == Access::Signed, route.call == Call::Webhook, "{route:?}");
            let worker = matches!(route.call, Call::Worker(_));
            assert_eq!(route.access == Access::Worker, worker, "{route:?}");
            if public {
                assert_eq!(route.method, Method::Get, "{route:?}");
            }
        }
    }
}

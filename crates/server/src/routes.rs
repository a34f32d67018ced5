//! The table of all routes, from which the router and the OpenAPI description are built.

mod actions;
mod local;
mod server;

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
    RecordAccess,
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
    StageCounts,
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

pub(crate) fn routes() -> Vec<Route> {
    let tables: [(&str, &[Row]); 6] = [
        ("", server::ABSOLUTE),
        ("", local::LOCAL),
        ("", local::WORKERS),
        ("/api/v1alpha1", actions::ACTIONS),
        ("/api/agents", actions::ACTIONS),
        ("/api/agents", actions::SHORT_NAMES),
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

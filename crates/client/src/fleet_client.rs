//! What a command can ask of a control plane, wherever that is.

use std::collections::BTreeMap;
use std::pin::Pin;

use bailiwick_fleet::ports::{
    ApprovalPreview, Change, DecisionAnswer, DecisionRequest, DispatchRequest, ExecutionAnswer,
    FireRequest, LifecycleAnswer, LifecycleRequest, Page, ReplayRequest, Requirement, RuleSample,
    RuleTrial, RunAnswer, RunEvent, RunEvents, RunVerb, RunVerbRequest, Selection, Target,
    WorkspaceAnswer, WorkspaceRequest,
};
use bailiwick_fleet::resources::{AccessRequest, Applied, ObjectDiff};
use bailiwick_resources::{AnyObject, Kind};
use bailiwick_server::{AuditLine, TokenAnswer, TokenRequest, TokenView};

use crate::error::ClientError;

/// A response that is on its way.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, ClientError>> + Send + 'a>>;

/// Whether documents are applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApplyMode {
    Write,
    /// Nothing is changed.
    DryRun,
}

/// Changes of one kind, in order; none is lost or returned twice.
pub trait ChangeStream: Send {
    /// The next changes. It may return none after a while.
    fn next(&mut self) -> Answer<'_, Vec<Change>>;
}

/// The events of a run, in order.
pub trait RunEventStream: Send {
    /// The next events; `None` when the run has ended.
    fn next(&mut self) -> Answer<'_, Option<Vec<RunEvent>>>;
}

/// The control plane, as commands use it.
pub trait FleetClient: Send + Sync {
    fn get<'a>(&'a self, kind: Kind, object: &'a Target) -> Answer<'a, Option<AnyObject>>;

    fn list<'a>(&'a self, selection: &'a Selection) -> Answer<'a, Page>;

    /// Watches a kind from a version on.
    fn watch(&self, kind: Kind, after: u64) -> Answer<'_, Box<dyn ChangeStream>>;

    /// Applies all documents or none.
    fn apply<'a>(&'a self, documents: &'a [AnyObject], mode: ApplyMode)
    -> Answer<'a, Vec<Applied>>;

    /// Applies all documents if all requirements are met in the same transaction, else none.
    fn apply_requiring<'a>(
        &'a self,
        documents: &'a [AnyObject],
        requirements: &'a [Requirement],
    ) -> Answer<'a, Vec<Applied>>;

    /// What applying these documents would change, without values of secrets.
    fn diff<'a>(&'a self, documents: &'a [AnyObject]) -> Answer<'a, Vec<ObjectDiff>>;

    /// Deletes an object at this version; 0 is any version.
    fn delete<'a>(&'a self, kind: Kind, object: &'a Target, version: u64) -> Answer<'a, ()>;

    /// The same, if the requirement is met in the same transaction.
    fn delete_requiring<'a>(
        &'a self,
        kind: Kind,
        object: &'a Target,
        version: u64,
        requirement: &'a Requirement,
    ) -> Answer<'a, ()>;

    /// Records what a cluster says of a binding, as the operator that leads.
    fn record_access<'a>(
        &'a self,
        binding: &'a Target,
        request: AccessRequest,
    ) -> Answer<'a, AnyObject>;

    fn set_secret<'a>(
        &'a self,
        secret: &'a Target,
        values: BTreeMap<String, Vec<u8>>,
    ) -> Answer<'a, ()>;

    fn tokens(&self) -> Answer<'_, Vec<TokenView>>;

    fn mint_token(&self, request: TokenRequest) -> Answer<'_, TokenAnswer>;

    fn revoke_token<'a>(&'a self, id: &'a str) -> Answer<'a, TokenView>;

    fn audit(&self, after: u64, limit: usize) -> Answer<'_, Vec<AuditLine>>;

    fn act_on_run<'a>(
        &'a self,
        run: &'a Target,
        verb: RunVerb,
        request: RunVerbRequest,
    ) -> Answer<'a, RunAnswer>;

    fn dispatch<'a>(
        &'a self,
        namespace: &'a str,
        request: DispatchRequest,
    ) -> Answer<'a, RunAnswer>;

    fn decide<'a>(
        &'a self,
        approval: &'a Target,
        request: DecisionRequest,
    ) -> Answer<'a, DecisionAnswer>;

    /// Exactly what an approval would write.
    fn preview_approval<'a>(&'a self, approval: &'a Target) -> Answer<'a, ApprovalPreview>;

    fn try_rule<'a>(&'a self, rule: &'a Target, sample: RuleSample) -> Answer<'a, RuleTrial>;

    fn set_lifecycle<'a>(
        &'a self,
        rule: &'a Target,
        request: LifecycleRequest,
    ) -> Answer<'a, LifecycleAnswer>;

    fn replay_delivery<'a>(
        &'a self,
        rule: &'a Target,
        request: ReplayRequest,
    ) -> Answer<'a, ExecutionAnswer>;

    fn fire<'a>(&'a self, rule: &'a Target, request: FireRequest) -> Answer<'a, ExecutionAnswer>;

    fn materialize<'a>(
        &'a self,
        rule: &'a Target,
        sample: RuleSample,
    ) -> Answer<'a, ExecutionAnswer>;

    fn act_on_workspace<'a>(
        &'a self,
        namespace: &'a str,
        workspace: Option<&'a str>,
        request: WorkspaceRequest,
    ) -> Answer<'a, WorkspaceAnswer>;

    fn run_events<'a>(
        &'a self,
        run: &'a Target,
        attempt: Option<u32>,
        after: u64,
        limit: usize,
    ) -> Answer<'a, RunEvents>;

    /// Follows a run until it ends.
    fn follow_run<'a>(
        &'a self,
        run: &'a Target,
        attempt: Option<u32>,
        after: u64,
    ) -> Answer<'a, Box<dyn RunEventStream>>;
}

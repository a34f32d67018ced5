//! The control plane in this process, over its own database.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use bailiwick_fleet::ports::{
    ActionError, ApprovalPreview, AuditEntry, Caller, Change, DecisionAnswer, DecisionRequest,
    DispatchRequest, ExecutionAnswer, FireRequest, Fleet, FleetStore, LifecycleAnswer,
    LifecycleRequest, Page, ReplayRequest, Requirement, RuleSample, RuleTrial, RunAnswer, RunEvent,
    RunEvents, RunVerb, RunVerbRequest, Selection, Target, TokenRecord, Values, WorkspaceAnswer,
    WorkspaceRequest, Write,
};
use bailiwick_fleet::resources::{
    self, AccessError, AccessRequest, Applied, AuditActor, Deletion, ObjectDiff,
};
use bailiwick_resources::{AnyObject, Fault, Kind, Moment};
use bailiwick_server::{AuditLine, TokenAnswer, TokenError, TokenRequest, TokenView, mint};
use serde_json::{Value, json};

use crate::error::ClientError;
use crate::fleet_client::{Answer, ApplyMode, ChangeStream, FleetClient, RunEventStream};

/// How many changes or events are read at once.
const BATCH_SIZE: usize = 500;
/// How long a stream waits before it looks again.
const POLL_MILLIS: u64 = 5_000;

/// A person with the database, who may do everything.
pub struct Local<S, F> {
    store: Arc<S>,
    fleet: Arc<F>,
    caller: Caller,
}

impl<S: FleetStore, F: Fleet> Local<S, F> {
    pub fn new(store: Arc<S>, fleet: Arc<F>, caller: Caller) -> Self {
        Self { store, fleet, caller }
    }

    fn by(&self) -> AuditActor {
        AuditActor::person(&self.caller.actor)
    }

    fn entry(&self, event: &str, subject: String, detail: Value) -> AuditEntry {
        let AuditActor { actor, correlation } = self.by();
        AuditEntry { at: now(), actor, event: event.to_owned(), subject, correlation, detail }
    }

    /// Stores a token together with its line in the audit log.
    async fn store_token(
        &self,
        record: TokenRecord,
        event: &str,
        detail: Value,
    ) -> Result<(), ClientError> {
        let entry = self.entry(event, format!("Token/{}", record.id), detail);
        self.store.commit(vec![Write::Token(record), Write::Audit(entry)], now()).await?;
        Ok(())
    }
}

fn now() -> Moment {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Moment::from_millis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

struct LocalChanges<S> {
    store: Arc<S>,
    after: u64,
}

impl<S: FleetStore> ChangeStream for LocalChanges<S> {
    fn next(&mut self) -> Answer<'_, Vec<Change>> {
        Box::pin(async move {
            self.store.wait_for_change(self.after, POLL_MILLIS).await;
            let changes = self.store.changes(self.after, BATCH_SIZE).await?;
            self.after = changes.last().map_or(self.after, |last| last.version);
            Ok(changes)
        })
    }
}

struct LocalRunEvents<F> {
    fleet: Arc<F>,
    run: Target,
    attempt: Option<u32>,
    after: u64,
}

impl<F: Fleet> RunEventStream for LocalRunEvents<F> {
    fn next(&mut self) -> Answer<'_, Option<Vec<RunEvent>>> {
        Box::pin(async move {
            loop {
                let read = self.fleet.run_events(&self.run, self.attempt, self.after, BATCH_SIZE);
                let RunEvents { events, ended } = read.await?;
                if let Some(last) = events.last() {
                    self.after = last.cursor;
                    return Ok(Some(events));
                }
                if ended {
                    return Ok(None);
                }
                self.fleet.wait_for_run_event(&self.run, self.after, POLL_MILLIS).await;
            }
        })
    }
}

impl<S: FleetStore, F: Fleet> FleetClient for Local<S, F> {
    fn get<'a>(&'a self, kind: Kind, object: &'a Target) -> Answer<'a, Option<AnyObject>> {
        Box::pin(async move { Ok(self.store.get(kind, &object.namespace, &object.name).await?) })
    }

    fn list<'a>(&'a self, selection: &'a Selection) -> Answer<'a, Page> {
        Box::pin(async move { Ok(self.store.list(selection).await?) })
    }

    fn watch(&self, _: Kind, after: u64) -> Answer<'_, Box<dyn ChangeStream>> {
        let stream = LocalChanges { store: Arc::clone(&self.store), after };
        Box::pin(async move { Ok(Box::new(stream) as Box<dyn ChangeStream>) })
    }

    fn apply<'a>(
        &'a self,
        documents: &'a [AnyObject],
        mode: ApplyMode,
    ) -> Answer<'a, Vec<Applied>> {
        Box::pin(async move {
            let (store, dry_run) = (self.store.as_ref(), mode == ApplyMode::DryRun);
            Ok(resources::apply_by(store, documents, &self.by(), now(), dry_run).await?)
        })
    }

    fn apply_requiring<'a>(
        &'a self,
        documents: &'a [AnyObject],
        requirements: &'a [Requirement],
    ) -> Answer<'a, Vec<Applied>> {
        Box::pin(async move {
            let (store, by) = (self.store.as_ref(), self.by());
            let work =
                resources::apply_requiring(store, documents, requirements, &by, now(), false);
            Ok(work.await?)
        })
    }

    fn diff<'a>(&'a self, documents: &'a [AnyObject]) -> Answer<'a, Vec<ObjectDiff>> {
        Box::pin(async move {
            Ok(resources::compare(self.store.as_ref(), documents, &self.by(), now()).await?)
        })
    }

    fn delete<'a>(&'a self, kind: Kind, object: &'a Target, version: u64) -> Answer<'a, ()> {
        Box::pin(async move {
            let Target { namespace, name } = object;
            let (store, actor) = (self.store.as_ref(), &self.caller.actor);
            let work = resources::delete(store, kind, namespace, name, version, actor, now());
            Ok(work.await?)
        })
    }

    fn delete_requiring<'a>(
        &'a self,
        kind: Kind,
        object: &'a Target,
        version: u64,
        requirement: &'a Requirement,
    ) -> Answer<'a, ()> {
        Box::pin(async move {
            let Target { namespace, name } = object;
            let (store, actor) = (self.store.as_ref(), &self.caller.actor);
            let requirement = Some(requirement);
            let deletion = Deletion { kind, namespace, name, version, requirement };
            Ok(resources::delete_requiring(store, deletion, actor, now()).await?)
        })
    }

    fn record_access<'a>(
        &'a self,
        binding: &'a Target,
        request: AccessRequest,
    ) -> Answer<'a, AnyObject> {
        Box::pin(async move {
            let (store, by) = (self.store.as_ref(), self.by());
            let recorded = resources::record_access(store, binding, request, &by, now()).await;
            recorded.map_err(|error| match error {
                AccessError::Store(error) => error.into(),
                error @ (AccessError::NotTheFence
                | AccessError::NotTheLeader
                | AccessError::TooLong
                | AccessError::Malformed(_)) => ClientError::Action(ActionError::Denied {
                    message: error.to_string(),
                    reasons: Vec::new(),
                }),
            })
        })
    }

    fn set_secret<'a>(
        &'a self,
        secret: &'a Target,
        values: BTreeMap<String, Vec<u8>>,
    ) -> Answer<'a, ()> {
        Box::pin(async move {
            let (namespace, name) = (secret.namespace.clone(), secret.name.clone());
            let subject = format!("Secret/{namespace}/{name}");
            let keys: Vec<&String> = values.keys().collect();
            let entry = self.entry("AgentSecretRotated", subject, json!({ "keys": keys }));
            let set = Write::Secret { namespace, name, values: Values(values) };
            self.store.commit(vec![set, Write::Audit(entry)], now()).await?;
            Ok(())
        })
    }

    fn tokens(&self) -> Answer<'_, Vec<TokenView>> {
        Box::pin(async move {
            Ok(self.store.tokens().await?.into_iter().map(TokenView::from).collect())
        })
    }

    fn mint_token(&self, request: TokenRequest) -> Answer<'_, TokenAnswer> {
        Box::pin(async move {
            let minted = mint(&request.actor, request.scope, request.expires_at, now());
            let minted = minted.map_err(|error| match error {
                TokenError::Actor => invalid("actor", &error),
                TokenError::Expired => invalid("expiresAt", &error),
                TokenError::Random(_) => ActionError::Unavailable(error.to_string()),
            })?;
            let detail = json!({ "for": request.actor, "scope": request.scope });
            self.store_token(minted.record.clone(), "TokenCreated", detail).await?;
            Ok(TokenAnswer { token: minted.text, record: minted.record.into() })
        })
    }

    fn revoke_token<'a>(&'a self, id: &'a str) -> Answer<'a, TokenView> {
        Box::pin(async move {
            let found = self.store.tokens().await?.into_iter().find(|token| token.id == id);
            let missing = || ActionError::NotFound(format!("there is no token `{id}`"));
            let mut record = found.ok_or_else(missing)?;
            if record.revoked_at.is_none() {
                record.revoked_at = Some(now());
                let detail = json!({ "of": record.actor, "scope": record.scope });
                self.store_token(record.clone(), "TokenRevoked", detail).await?;
            }
            Ok(record.into())
        })
    }

    fn audit(&self, after: u64, limit: usize) -> Answer<'_, Vec<AuditLine>> {
        Box::pin(async move {
            let lines = self.store.audit(after, limit).await?;
            Ok(lines.into_iter().map(|(number, entry)| AuditLine { number, entry }).collect())
        })
    }

    fn act_on_run<'a>(
        &'a self,
        run: &'a Target,
        verb: RunVerb,
        request: RunVerbRequest,
    ) -> Answer<'a, RunAnswer> {
        Box::pin(async move { Ok(self.fleet.act_on_run(&self.caller, run, verb, request).await?) })
    }

    fn dispatch<'a>(
        &'a self,
        namespace: &'a str,
        request: DispatchRequest,
    ) -> Answer<'a, RunAnswer> {
        Box::pin(async move { Ok(self.fleet.dispatch(&self.caller, namespace, request).await?) })
    }

    fn decide<'a>(
        &'a self,
        approval: &'a Target,
        request: DecisionRequest,
    ) -> Answer<'a, DecisionAnswer> {
        Box::pin(async move { Ok(self.fleet.decide(&self.caller, approval, request).await?) })
    }

    fn preview_approval<'a>(&'a self, approval: &'a Target) -> Answer<'a, ApprovalPreview> {
        Box::pin(async move { Ok(self.fleet.preview_approval(approval).await?) })
    }

    fn try_rule<'a>(&'a self, rule: &'a Target, sample: RuleSample) -> Answer<'a, RuleTrial> {
        Box::pin(async move { Ok(self.fleet.try_rule(&self.caller, rule, sample).await?) })
    }

    fn set_lifecycle<'a>(
        &'a self,
        rule: &'a Target,
        request: LifecycleRequest,
    ) -> Answer<'a, LifecycleAnswer> {
        Box::pin(async move { Ok(self.fleet.set_lifecycle(&self.caller, rule, request).await?) })
    }

    fn replay_delivery<'a>(
        &'a self,
        rule: &'a Target,
        request: ReplayRequest,
    ) -> Answer<'a, ExecutionAnswer> {
        Box::pin(async move { Ok(self.fleet.replay_delivery(&self.caller, rule, request).await?) })
    }

    fn fire<'a>(&'a self, rule: &'a Target, request: FireRequest) -> Answer<'a, ExecutionAnswer> {
        Box::pin(async move { Ok(self.fleet.fire(&self.caller, rule, request).await?) })
    }

    fn materialize<'a>(
        &'a self,
        rule: &'a Target,
        sample: RuleSample,
    ) -> Answer<'a, ExecutionAnswer> {
        Box::pin(async move { Ok(self.fleet.materialize(&self.caller, rule, sample).await?) })
    }

    fn act_on_workspace<'a>(
        &'a self,
        namespace: &'a str,
        workspace: Option<&'a str>,
        request: WorkspaceRequest,
    ) -> Answer<'a, WorkspaceAnswer> {
        Box::pin(async move {
            let work = self.fleet.act_on_workspace(&self.caller, namespace, workspace, request);
            Ok(work.await?)
        })
    }

    fn run_events<'a>(
        &'a self,
        run: &'a Target,
        attempt: Option<u32>,
        after: u64,
        limit: usize,
    ) -> Answer<'a, RunEvents> {
        Box::pin(async move { Ok(self.fleet.run_events(run, attempt, after, limit).await?) })
    }

    fn follow_run<'a>(
        &'a self,
        run: &'a Target,
        attempt: Option<u32>,
        after: u64,
    ) -> Answer<'a, Box<dyn RunEventStream>> {
        let (fleet, run) = (Arc::clone(&self.fleet), run.clone());
        let stream = LocalRunEvents { fleet, run, attempt, after };
        Box::pin(async move { Ok(Box::new(stream) as Box<dyn RunEventStream>) })
    }
}

fn invalid(field: &str, error: &TokenError) -> ActionError {
    ActionError::Invalid(vec![Fault::new(field, error.to_string())])
}

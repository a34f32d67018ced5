//! A rule that a person fires: the source `manual`.

use bailiwick_resources::{AgentTriggerRule, EventSource, Kind, Object, Repository, Resource as _};
use serde_json::json;

use crate::controllers::ReconcileError;
use crate::controllers::api::rules::RuleApi;
use crate::controllers::audit_log::{Correlation, subject};
use crate::controllers::idempotency::{content_digest, require_same};
use crate::controllers::objects::ObjectQueries as _;
use crate::ports::{
    ActionError, Caller, Clock, Commits, ExecutionAnswer, FireRequest, Forges, ObjectStore,
    SecretStore, Selection, StackSources, Target,
};
use crate::triggers::{Intent, SourceEvent};

fn conflict(code: &str, message: String) -> ActionError {
    ActionError::Conflict { code: code.to_owned(), message }
}

impl<S: ObjectStore + SecretStore, W: Clock + Forges + Commits + StackSources> RuleApi<S, W> {
    /// Fires a rule with the source `manual`. The request is evaluated like any other event.
    pub(crate) async fn fire_rule(
        &self,
        caller: &Caller,
        rule: &Target,
        request: FireRequest,
    ) -> Result<ExecutionAnswer, ActionError> {
        let kind = AgentTriggerRule::KIND;
        let found = self.store.get(kind, &rule.namespace, &rule.name).await?;
        let missing = || ActionError::NotFound(format!("there is no {kind} `{}`", rule.name));
        let rule = found.ok_or_else(missing)?.typed::<AgentTriggerRule>();
        let rule = rule.map_err(ReconcileError::from)?;
        if !rule.spec.sources.contains(&EventSource::Manual) {
            let message = format!("the rule `{}` does not have the source `manual`", rule.name());
            return Err(conflict("NotManual", message));
        }
        let repository = match self.store.typed::<Repository>(&request.repository).await? {
            Some(repository) => repository,
            None => self.store.repository(&request.repository).await?,
        };
        let requested_event = self.requested_event(caller, &repository, &request).await?;
        self.require_unused(&rule, &requested_event, &request).await?;
        let mut events = [requested_event];
        self.triggers.look_up_missing(&repository, &mut events).await?;
        let joined = Correlation::default()
            .with("rule", Some(rule.name()))
            .with("event", events.first().map(|event| event.uid.as_str()));
        let detail = json!({ "repository": repository.spec.full_name, "reason": request.reason });
        let line = joined.line_of(caller, "AgentTriggerFired", subject(&rule), detail);
        let only = Some(rule.name());
        let evaluation = self
            .triggers
            .evaluate_events_with(&repository, &events, Intent::Deliver, only, None, &[line])
            .await?;
        let Some((name, execution)) = evaluation.executions.into_iter().next() else {
            let message = format!("the rule `{}` does not mean this", rule.name());
            return Err(conflict("NotMatched", message));
        };
        Ok(ExecutionAnswer {
            accepted: true,
            execution: name,
            decision: execution.decision,
            reason: execution.reason,
            run: execution.dispatch_run,
            work_item: execution.source_refs.work_item,
        })
    }

    /// Refuses a request id that the person used with other content.
    async fn require_unused(
        &self,
        rule: &Object<AgentTriggerRule>,
        event: &SourceEvent,
        request: &FireRequest,
    ) -> Result<(), ActionError> {
        let (Some(id), Some(content)) = (&request.request_id, &event.request_digest) else {
            return Ok(());
        };
        let fired = Selection {
            limit: 1,
            ..Selection::of(Kind::AgentTriggerExecution)
                .field("event", event.uid.as_str())
                .field("rule", rule.name())
        };
        match self.store.list(&fired).await?.objects.first() {
            Some(earlier) => require_same(&earlier.metadata, content, id),
            None => Ok(()),
        }
    }

    /// The event of a request. Only branches and tags are known to be the repository's own.
    async fn requested_event(
        &self,
        caller: &Caller,
        repository: &Object<Repository>,
        request: &FireRequest,
    ) -> Result<SourceEvent, ActionError> {
        let default = format!("refs/heads/{}", repository.spec.default_branch);
        let reference = request.reference.clone().unwrap_or(default);
        let id = request.request_id.as_ref().unwrap_or(&caller.request);
        let uid = format!("manual/{}/{id}", caller.actor);
        let full_name = &repository.spec.full_name;
        let payload = request.payload.clone();
        let mut event = SourceEvent::manual(&uid, caller.at, full_name, &caller.actor, payload);
        let pull_request = reference
            .strip_prefix("refs/pull/")
            .and_then(|rest| rest.strip_suffix("/head"))
            .and_then(|number| number.parse().ok());
        event.branch = reference.strip_prefix("refs/heads/").map(str::to_owned);
        event.tag = reference.strip_prefix("refs/tags/").map(str::to_owned);
        event.pull_request = pull_request;
        if event.branch.is_none() && event.tag.is_none() && pull_request.is_none() {
            let message =
                format!("`{reference}`: write refs/heads/…, refs/tags/… or refs/pull/N/head");
            return Err(conflict("UnknownRef", message));
        }
        if pull_request.is_none() {
            let found = self.forges.fetch_commit(repository, &reference, None).await;
            let found = found.map_err(|fault| ActionError::Unavailable(fault.to_string()))?;
            let missing = || ActionError::NotFound(format!("{reference} names no commit"));
            event.sha = Some(found.ok_or_else(missing)?);
            event.head_repository = Some(full_name.clone());
        }
        event.reference = Some(reference);
        event.request_digest =
            Some(content_digest(&(full_name, &event.reference, &request.payload)));
        // The origin of a pull request's commit is looked up later; until then it is unknown.
        event.trust();
        Ok(event)
    }
}

//! The control plane of a server, over its API.

mod frames;
mod streams;
pub(crate) mod transport;

use std::collections::BTreeMap;

use bailiwick_fleet::ports::{
    ActionError, ApprovalPreview, DecisionAnswer, DecisionRequest, DispatchRequest,
    ExecutionAnswer, FireRequest, LifecycleAnswer, LifecycleRequest, Page, ReplayRequest,
    Requirement, RuleSample, RuleTrial, RunAnswer, RunEvents, RunVerb, RunVerbRequest, Selection,
    Target, WorkspaceAnswer, WorkspaceRequest,
};
use bailiwick_fleet::resources::{self, AccessRequest, Applied, ObjectDiff};
use bailiwick_resources::{API_VERSION, AnyObject, Fault, Kind};
use bailiwick_server::{
    AppliedItem, ApplyAnswer, ApplyRequest, AuditLine, AuditList, DiffAnswer, ObjectList,
    SecretValues, TokenAnswer, TokenList, TokenRequest, TokenView, WhoAmI,
};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::Method;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::contexts::Token;
use crate::error::ClientError;
use crate::fleet_client::{Answer, ApplyMode, ChangeStream, FleetClient, RunEventStream};
use crate::server_address::ServerAddress;
use streams::{HttpChanges, HttpRunEvents};
use transport::{Call, Transport};

/// The largest page that the server gives.
const MAX_PAGE_SIZE: usize = 1_000;

/// A server, and the token of a login there.
pub struct Http {
    transport: Transport,
}

impl Http {
    pub fn new(server: ServerAddress, token: &Token) -> Result<Self, ClientError> {
        Ok(Self { transport: Transport::new(server, token)? })
    }

    /// Asks whose token it is; fails if the server has another API.
    pub async fn who_am_i(&self) -> Result<WhoAmI, ClientError> {
        let me: WhoAmI = match self.transport.ask(Call::get(&["whoami"])).await {
            // A server that does not know the path takes it for a kind.
            Err(ClientError::Action(ActionError::NotFound(_))) => {
                let why = "it is too old to say whose token it is".to_owned();
                return Err(self.transport.incompatible(why));
            }
            other => other?,
        };
        if me.api_version != API_VERSION {
            let (api, version) = (&me.api_version, &me.server_version);
            let why = format!("version {version} speaks {api}, this program speaks {API_VERSION}");
            return Err(self.transport.incompatible(why));
        }
        Ok(me)
    }

    /// Sends an action on an object.
    async fn act<T: DeserializeOwned>(
        &self,
        (plural, object, action): (&str, &Target, &str),
        body: &impl Serialize,
    ) -> Result<T, ClientError> {
        let path = [plural, object.name.as_str(), action];
        let call = Call::post(&path).with("namespace", &object.namespace);
        self.transport.send(call, Some(body)).await
    }
}

fn object_path(kind: Kind, object: &Target) -> [&str; 4] {
    ["namespaces", &object.namespace, kind.plural(), &object.name]
}

fn run_events_path(run: &str) -> [&str; 3] {
    ["runs", run, "events"]
}

/// `a=b,c=d`; a value that the notation cannot carry is refused, for it would select something else.
fn selector(pairs: &BTreeMap<String, String>) -> Result<String, ClientError> {
    let is_plain = |text: &String| !text.is_empty() && text.trim() == text && !text.contains(',');
    let wrong = |(key, value): &(&String, &String)| {
        !is_plain(key) || key.contains(['=', '!']) || !is_plain(value) || value.starts_with('=')
    };
    if let Some((key, value)) = pairs.iter().find(wrong) {
        let message = format!("`{key}={value}` cannot be sent to a server");
        return Err(ActionError::Invalid(vec![Fault::new("selector", message)]).into());
    }
    let each = pairs.iter().map(|(key, value)| format!("{key}={value}"));
    Ok(each.collect::<Vec<_>>().join(","))
}

/// Checks documents as the server does; statuses are not sent, because only the control plane writes them.
fn documents(
    objects: &[AnyObject],
    requirements: &[Requirement],
) -> Result<ApplyRequest, ClientError> {
    resources::check(objects)?;
    let mut documents = Vec::new();
    for object in objects {
        let declared = AnyObject { status: Value::Null, ..object.clone() };
        let value = serde_json::to_value(&declared).map_err(|error| {
            ActionError::Unavailable(format!("it cannot be written as JSON: {error}"))
        })?;
        documents.push(value);
    }
    Ok(ApplyRequest { documents, requirements: requirements.to_vec() })
}

fn applied(answer: ApplyAnswer) -> Vec<Applied> {
    let applied = |item: AppliedItem| Applied { outcome: item.outcome, object: item.object };
    answer.items.into_iter().map(applied).collect()
}

impl FleetClient for Http {
    fn get<'a>(&'a self, kind: Kind, object: &'a Target) -> Answer<'a, Option<AnyObject>> {
        Box::pin(async move {
            match self.transport.ask(Call::get(&object_path(kind, object))).await {
                Ok(found) => Ok(Some(found)),
                Err(ClientError::Action(ActionError::NotFound(_))) => Ok(None),
                Err(error) => Err(error),
            }
        })
    }

    fn list<'a>(&'a self, selection: &'a Selection) -> Answer<'a, Page> {
        Box::pin(async move {
            let plural = selection.kind.plural();
            let whole = [plural];
            let below = selection.namespace.as_ref().map(|name| ["namespaces", name, plural]);
            let mut call = Call::get(below.as_ref().map_or(&whole[..], |below| &below[..]))
                .with("limit", selection.limit.clamp(1, MAX_PAGE_SIZE));
            if !selection.labels.is_empty() {
                call = call.with("labelSelector", selector(&selection.labels)?);
            }
            if !selection.fields.is_empty() {
                call = call.with("fieldSelector", selector(&selection.fields)?);
            }
            if let Some(after) = &selection.after {
                call = call.with("continue", after);
            }
            if selection.newest_first {
                call = call.with("order", "newest");
            }
            let ObjectList { metadata, items, .. } = self.transport.ask(call).await?;
            Ok(Page { objects: items, next: metadata.next, version: metadata.resource_version })
        })
    }

    fn watch(&self, kind: Kind, after: u64) -> Answer<'_, Box<dyn ChangeStream>> {
        Box::pin(async move {
            let stream = HttpChanges::open(self.transport.clone(), kind, after).await?;
            Ok(Box::new(stream) as Box<dyn ChangeStream>)
        })
    }

    fn apply<'a>(&'a self, objects: &'a [AnyObject], mode: ApplyMode) -> Answer<'a, Vec<Applied>> {
        Box::pin(async move {
            let mut call = Call::post(&["apply"]);
            if mode == ApplyMode::DryRun {
                call = call.with("dryRun", "All");
            }
            Ok(applied(self.transport.send(call, Some(&documents(objects, &[])?)).await?))
        })
    }

    fn apply_requiring<'a>(
        &'a self,
        objects: &'a [AnyObject],
        requirements: &'a [Requirement],
    ) -> Answer<'a, Vec<Applied>> {
        Box::pin(async move {
            let body = documents(objects, requirements)?;
            Ok(applied(self.transport.send(Call::post(&["apply"]), Some(&body)).await?))
        })
    }

    fn diff<'a>(&'a self, objects: &'a [AnyObject]) -> Answer<'a, Vec<ObjectDiff>> {
        Box::pin(async move {
            let body = documents(objects, &[])?;
            let answer: DiffAnswer =
                self.transport.send(Call::post(&["diff"]), Some(&body)).await?;
            Ok(answer.items)
        })
    }

    fn delete<'a>(&'a self, kind: Kind, object: &'a Target, version: u64) -> Answer<'a, ()> {
        Box::pin(async move {
            let path = object_path(kind, object);
            let mut call = Call { method: Method::DELETE, ..Call::get(&path) };
            if version != 0 {
                call = call.with("resourceVersion", version);
            }
            self.transport.ask::<Value>(call).await?;
            Ok(())
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
            let path = object_path(kind, object);
            let mut call = Call { method: Method::DELETE, ..Call::get(&path) }
                .with("requires", requirement.to_string());
            if version != 0 {
                call = call.with("resourceVersion", version);
            }
            self.transport.ask::<Value>(call).await?;
            Ok(())
        })
    }

    fn record_access<'a>(
        &'a self,
        binding: &'a Target,
        request: AccessRequest,
    ) -> Answer<'a, AnyObject> {
        Box::pin(async move {
            let [root, namespace, plural, name] = object_path(Kind::AgentRoleBinding, binding);
            let path = [root, namespace, plural, name, "access"];
            let call = Call { method: Method::PUT, ..Call::get(&path) };
            self.transport.send(call, Some(&request)).await
        })
    }

    fn set_secret<'a>(
        &'a self,
        secret: &'a Target,
        values: BTreeMap<String, Vec<u8>>,
    ) -> Answer<'a, ()> {
        Box::pin(async move {
            let encode = |(key, value): (String, Vec<u8>)| (key, STANDARD.encode(value));
            let body = SecretValues {
                base64_values: values.into_iter().map(encode).collect(),
                ..SecretValues::default()
            };
            let path = object_path(Kind::Secret, secret);
            let call = Call { method: Method::PUT, ..Call::get(&path) };
            self.transport.send::<Value>(call, Some(&body)).await?;
            Ok(())
        })
    }

    fn tokens(&self) -> Answer<'_, Vec<TokenView>> {
        Box::pin(async move {
            let list: TokenList = self.transport.ask(Call::get(&["tokens"])).await?;
            Ok(list.items)
        })
    }

    fn mint_token(&self, request: TokenRequest) -> Answer<'_, TokenAnswer> {
        Box::pin(async move { self.transport.send(Call::post(&["tokens"]), Some(&request)).await })
    }

    fn revoke_token<'a>(&'a self, id: &'a str) -> Answer<'a, TokenView> {
        Box::pin(async move {
            let path = ["tokens", id];
            self.transport.ask(Call { method: Method::DELETE, ..Call::get(&path) }).await
        })
    }

    fn audit(&self, after: u64, limit: usize) -> Answer<'_, Vec<AuditLine>> {
        Box::pin(async move {
            let call = Call::get(&["audit"])
                .with("after", after)
                .with("limit", limit.clamp(1, MAX_PAGE_SIZE));
            let list: AuditList = self.transport.ask(call).await?;
            Ok(list.items)
        })
    }

    fn act_on_run<'a>(
        &'a self,
        run: &'a Target,
        verb: RunVerb,
        request: RunVerbRequest,
    ) -> Answer<'a, RunAnswer> {
        Box::pin(async move { self.act(("runs", run, verb.as_str()), &request).await })
    }

    fn dispatch<'a>(
        &'a self,
        namespace: &'a str,
        request: DispatchRequest,
    ) -> Answer<'a, RunAnswer> {
        Box::pin(async move {
            let call = Call::post(&["runs"]).with("namespace", namespace);
            self.transport.send(call, Some(&request)).await
        })
    }

    fn decide<'a>(
        &'a self,
        approval: &'a Target,
        request: DecisionRequest,
    ) -> Answer<'a, DecisionAnswer> {
        Box::pin(async move { self.act(("approvals", approval, "decision"), &request).await })
    }

    fn preview_approval<'a>(&'a self, approval: &'a Target) -> Answer<'a, ApprovalPreview> {
        Box::pin(async move {
            let path = ["approvals", approval.name.as_str(), "preview"];
            self.transport.ask(Call::get(&path).with("namespace", &approval.namespace)).await
        })
    }

    fn try_rule<'a>(&'a self, rule: &'a Target, sample: RuleSample) -> Answer<'a, RuleTrial> {
        Box::pin(async move { self.act(("rules", rule, "dry-run"), &sample).await })
    }

    fn set_lifecycle<'a>(
        &'a self,
        rule: &'a Target,
        request: LifecycleRequest,
    ) -> Answer<'a, LifecycleAnswer> {
        Box::pin(async move { self.act(("rules", rule, "lifecycle"), &request).await })
    }

    fn replay_delivery<'a>(
        &'a self,
        rule: &'a Target,
        request: ReplayRequest,
    ) -> Answer<'a, ExecutionAnswer> {
        Box::pin(async move { self.act(("rules", rule, "replay-delivery"), &request).await })
    }

    fn fire<'a>(&'a self, rule: &'a Target, request: FireRequest) -> Answer<'a, ExecutionAnswer> {
        Box::pin(async move { self.act(("rules", rule, "fire"), &request).await })
    }

    fn materialize<'a>(
        &'a self,
        rule: &'a Target,
        sample: RuleSample,
    ) -> Answer<'a, ExecutionAnswer> {
        Box::pin(async move { self.act(("rules", rule, "materialize"), &sample).await })
    }

    fn act_on_workspace<'a>(
        &'a self,
        namespace: &'a str,
        workspace: Option<&'a str>,
        request: WorkspaceRequest,
    ) -> Answer<'a, WorkspaceAnswer> {
        Box::pin(async move {
            let Some(name) = workspace else {
                let call = Call::post(&["workspaces"]).with("namespace", namespace);
                return self.transport.send(call, Some(&request)).await;
            };
            let target = Target { namespace: namespace.to_owned(), name: name.to_owned() };
            self.act(("workspaces", &target, "action"), &request).await
        })
    }

    fn run_events<'a>(
        &'a self,
        run: &'a Target,
        attempt: Option<u32>,
        after: u64,
        limit: usize,
    ) -> Answer<'a, RunEvents> {
        Box::pin(async move {
            let path = run_events_path(&run.name);
            let mut call = Call::get(&path)
                .with("namespace", &run.namespace)
                .with("after", after)
                .with("limit", limit.clamp(1, MAX_PAGE_SIZE));
            if let Some(attempt) = attempt {
                call = call.with("attempt", attempt);
            }
            self.transport.ask(call).await
        })
    }

    fn follow_run<'a>(
        &'a self,
        run: &'a Target,
        attempt: Option<u32>,
        after: u64,
    ) -> Answer<'a, Box<dyn RunEventStream>> {
        Box::pin(async move {
            let transport = self.transport.clone();
            let stream = HttpRunEvents::open(transport, run.clone(), attempt, after).await?;
            Ok(Box::new(stream) as Box<dyn RunEventStream>)
        })
    }
}

//! Applies several documents, all or none, as `bailiwick apply` does.

use std::collections::BTreeSet;
use std::sync::Arc;

use bailiwick_fleet::ports::{Fleet, FleetStore, Requirement};
use bailiwick_fleet::resources::{self, Applied, ObjectDiff, Outcome};
use bailiwick_resources::{AnyObject, Kind};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::document::{Expected, parse_document, refuse_status};
use crate::app::App;
use crate::problem::Problem;
use crate::request::{ApiRequest, HandlerResult, ok, subject};

const MAX_DOCUMENTS: usize = 1_000;

/// Documents to apply.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ApplyRequest {
    /// The documents.
    pub documents: Vec<Value>,
    /// What must hold of other objects, or of these: otherwise nothing is applied. Checked in the same transaction.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requirements: Vec<Requirement>,
}

/// The result of an apply request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApplyAnswer {
    /// Whether it was a dry run, which changes nothing.
    pub dry_run: bool,
    /// The result for each document, in the order of the request.
    pub items: Vec<AppliedItem>,
}

/// The result for one document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AppliedItem {
    /// Its kind.
    pub kind: Kind,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// What was done, or would be done in a dry run.
    pub outcome: Outcome,
    /// Its generation after that.
    pub generation: u64,
    /// Its version after that; 0 if it was not written.
    pub resource_version: u64,
    /// The object after that.
    pub object: AnyObject,
}

/// What applying documents would change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DiffAnswer {
    /// The objects that would change.
    pub items: Vec<ObjectDiff>,
}

/// The documents of a request, each valid and of another object, and what the request requires.
fn documents(request: &ApiRequest) -> Result<(Vec<AnyObject>, Vec<Requirement>), Problem> {
    let body: ApplyRequest = request.json()?;
    if body.documents.is_empty() || body.documents.len() > MAX_DOCUMENTS {
        return Err(Problem::invalid_field(
            "documents",
            format!("send from 1 to {MAX_DOCUMENTS} documents"),
        ));
    }
    if body.requirements.len() > MAX_DOCUMENTS {
        let message = format!("send at most {MAX_DOCUMENTS} requirements");
        return Err(Problem::invalid_field("requirements", message));
    }
    let mut objects = Vec::new();
    let mut seen = BTreeSet::new();
    for value in body.documents {
        let object = parse_document(value, Expected::default())?;
        if !seen.insert(subject(&object)) {
            return Err(Problem::invalid_field("documents", "an object occurs twice")
                .with_resource(subject(&object)));
        }
        objects.push(object);
    }
    Ok((objects, body.requirements))
}

/// Compares documents with what is stored. Only admins may: what is redacted tells what the secrets are.
pub(crate) async fn diff<S: FleetStore, F: Fleet>(
    app: &Arc<App<S, F>>,
    request: &ApiRequest,
) -> HandlerResult {
    request.allow_query(&[])?;
    let (objects, requirements) = documents(request)?;
    let store = app.store.as_ref();
    for requirement in &requirements {
        resources::require(store, requirement).await?;
    }
    let items = resources::compare(store, &objects, &request.by(), request.now).await?;
    ok(&DiffAnswer { items })
}

pub(crate) async fn apply<S: FleetStore, F: Fleet>(
    app: &Arc<App<S, F>>,
    request: &ApiRequest,
) -> HandlerResult {
    request.allow_query(&["dryRun"])?;
    let (objects, requirements) = documents(request)?;
    for object in &objects {
        let metadata = &object.metadata;
        let known = app.store.get(object.kind, &metadata.namespace, &metadata.name).await?;
        refuse_status(object, known.as_ref())?;
    }
    let dry_run = request.dry_run()?;
    let (store, by, now) = (app.store.as_ref(), request.by(), request.now);
    let applied =
        resources::apply_requiring(store, &objects, &requirements, &by, now, dry_run).await?;
    let items = applied.into_iter().map(|one| item(one, dry_run)).collect();
    ok(&ApplyAnswer { dry_run, items })
}

fn item(Applied { outcome, object }: Applied, dry_run: bool) -> AppliedItem {
    let metadata = object.metadata.clone();
    let written = outcome == Outcome::Unchanged || !dry_run;
    AppliedItem {
        kind: object.kind,
        namespace: metadata.namespace,
        name: metadata.name,
        outcome,
        generation: metadata.generation,
        resource_version: if written { metadata.resource_version } else { 0 },
        object,
    }
}

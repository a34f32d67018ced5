//! Several documents at once: all of them are applied, or none, as `bailiwick apply` does it.

use std::collections::BTreeSet;
use std::sync::Arc;

use bailiwick_fleet::ports::{Fleet, FleetStore};
use bailiwick_fleet::resources::{self, Applied, Outcome};
use bailiwick_resources::Kind;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::document::{Expected, document, own_status};
use crate::app::App;
use crate::asked::{Answer, Asked, ok, subject};
use crate::problem::Problem;

const MOST: usize = 1_000;

/// Documents to be applied.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ApplyRequest {
    /// The documents.
    pub documents: Vec<Value>,
}

/// What became of documents.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApplyAnswer {
    /// Whether nothing was changed because nothing was to be.
    pub dry_run: bool,
    /// What became of each, in the order in which they were sent.
    pub items: Vec<AppliedItem>,
}

/// What became of one document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AppliedItem {
    /// Its kind.
    pub kind: Kind,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// What was, or would be, done.
    pub outcome: Outcome,
    /// Its generation then.
    pub generation: u64,
    /// Its version then; 0 if it was not written.
    pub resource_version: u64,
}

pub(crate) async fn apply<S: FleetStore, F: Fleet>(app: &Arc<App<S, F>>, asked: &Asked) -> Answer {
    asked.known_query(&["dryRun"])?;
    let request: ApplyRequest = asked.json()?;
    if request.documents.is_empty() || request.documents.len() > MOST {
        return Err(Problem::fault("documents", format!("send from 1 to {MOST}")));
    }
    let mut given = Vec::new();
    let mut seen = BTreeSet::new();
    for value in request.documents {
        let object = document(value, Expected::default())?;
        if !seen.insert(subject(&object)) {
            return Err(Problem::fault("documents", "the same object is there twice")
                .about(subject(&object)));
        }
        given.push(object);
    }
    for object in &given {
        let metadata = &object.metadata;
        let known = app.store.get(object.kind, &metadata.namespace, &metadata.name).await?;
        own_status(object, known.as_ref())?;
    }
    let dry_run = asked.dry_run()?;
    let applied =
        resources::apply_by(app.store.as_ref(), &given, &asked.by(), asked.now, dry_run).await?;
    let items = applied.into_iter().map(|one| item(one, dry_run)).collect();
    ok(&ApplyAnswer { dry_run, items })
}

fn item(Applied { outcome, object }: Applied, dry_run: bool) -> AppliedItem {
    let metadata = object.metadata;
    let written = outcome == Outcome::Unchanged || !dry_run;
    AppliedItem {
        kind: object.kind,
        namespace: metadata.namespace,
        name: metadata.name,
        outcome,
        generation: metadata.generation,
        resource_version: if written { metadata.resource_version } else { 0 },
    }
}

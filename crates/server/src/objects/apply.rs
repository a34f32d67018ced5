//! Several documents at once: all of them are applied, or none.

use std::collections::BTreeSet;
use std::sync::Arc;

use bailiwick_control::ports::fleet::{Fleet, FleetStore, Write};
use bailiwick_model::fleet::{AnyObject, Kind};
use hyper::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::document::{Expected, document, own_status};
use super::write::{Deed, line, replacement, reviewed};
use crate::app::App;
use crate::asked::{Answer, Asked, ok, subject};
use crate::problem::Problem;

const MOST: usize = 1_000;
const TRIES: usize = 5;

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
    pub outcome: ApplyOutcome,
    /// Its generation then.
    pub generation: u64,
    /// Its version then; 0 if it was not written.
    pub resource_version: u64,
}

/// What applying did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ApplyOutcome {
    /// It was not there.
    Created,
    /// It was another.
    Configured,
    /// It was so already.
    Unchanged,
}

/// What is to be done with one document.
struct Planned {
    object: AnyObject,
    outcome: ApplyOutcome,
}

fn plan(
    asked: &Asked,
    known: Option<&AnyObject>,
    mut given: AnyObject,
) -> Result<Planned, Problem> {
    let Some(known) = known else {
        own_status(&given, None)?;
        if given.metadata.resource_version != 0 {
            let message = "it has a version and is not there: somebody has deleted it";
            return Err(Problem::conflict("CONFLICT", message).about(subject(&given)));
        }
        reviewed(None, &mut given, asked)?;
        given.metadata.generation = 1;
        return Ok(Planned { object: given, outcome: ApplyOutcome::Created });
    };
    // A document may have been read from another server: what its store has said is not ours.
    given.metadata.uid = String::new();
    let object = replacement(asked, known, given)?;
    let same = object.spec == known.spec
        && object.metadata.labels == known.metadata.labels
        && object.metadata.annotations == known.metadata.annotations;
    let outcome = if same { ApplyOutcome::Unchanged } else { ApplyOutcome::Configured };
    Ok(Planned { object, outcome })
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
    let names_version = given.iter().any(|object| object.metadata.resource_version != 0);
    let mut tries = 0;
    loop {
        tries += 1;
        match once(app, asked, &given).await {
            // Somebody was quicker: what they did is looked at again, and applied upon.
            Err(problem)
                if problem.status == StatusCode::CONFLICT && !names_version && tries < TRIES => {}
            done => return ok(&done?),
        }
    }
}

async fn once<S: FleetStore, F: Fleet>(
    app: &Arc<App<S, F>>,
    asked: &Asked,
    given: &[AnyObject],
) -> Result<ApplyAnswer, Problem> {
    let mut planned = Vec::new();
    for object in given {
        let metadata = &object.metadata;
        let known = app.store.get(object.kind, &metadata.namespace, &metadata.name).await?;
        planned.push(plan(asked, known.as_ref(), object.clone())?);
    }
    let dry_run = asked.dry_run()?;
    let mut writes = Vec::new();
    for Planned { object, outcome } in &planned {
        let deed = match outcome {
            ApplyOutcome::Created => Deed::Created,
            ApplyOutcome::Configured => Deed::Replaced,
            ApplyOutcome::Unchanged => continue,
        };
        writes.push(Write::Audit(line(asked, object, deed)));
        writes.push(match deed {
            Deed::Created => Write::Create(object.clone()),
            Deed::Replaced | Deed::Deleted => Write::Replace(object.clone()),
        });
    }
    let mut written = Vec::new();
    if !dry_run && !writes.is_empty() {
        written = app.store.commit(writes, asked.now).await?.objects;
    }
    let mut written = written.into_iter();
    let items = planned.into_iter().map(|Planned { object, outcome }| {
        let now = match outcome {
            ApplyOutcome::Unchanged => Some(object.clone()),
            ApplyOutcome::Created | ApplyOutcome::Configured => written.next(),
        };
        let version = now.as_ref().map_or(0, |now| now.metadata.resource_version);
        let metadata = now.unwrap_or(object.clone()).metadata;
        AppliedItem {
            kind: object.kind,
            namespace: metadata.namespace,
            name: metadata.name,
            outcome,
            generation: metadata.generation,
            resource_version: version,
        }
    });
    Ok(ApplyAnswer { dry_run, items: items.collect() })
}

//! A list of documents, all of them or none.

use std::collections::BTreeSet;

use bailiwick_resources::{
    API_VERSION, AnyObject, Author, Fault, Kind, Metadata, Moment, ObjectError,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::applied_by::{keep_applied_by, record_applied_by};
use super::audit::{AuditAction, AuditActor};
use super::label_review::{keep_writer, review_fault};
use super::namespaces::namespace_fault;
use crate::ports::{FleetError, FleetStore, Requirement, Write};

/// How often a declaration is repeated after a write conflict.
const MAX_CONFLICT_RETRIES: usize = 8;

/// The result for a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "ApplyOutcome")]
pub enum Outcome {
    /// There was none.
    Created,
    /// It was different.
    Configured,
    /// It was the same.
    Unchanged,
}

/// A document, and what became of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Applied {
    pub outcome: Outcome,
    /// The object as it is now, or as it would be.
    pub object: AnyObject,
}

/// Why nothing was declared.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum DeclareError {
    /// The control plane alone writes this kind.
    #[error("{kind} `{name}` is recorded, not declared: only the control plane writes it")]
    Recorded {
        /// The kind.
        kind: Kind,
        /// The name.
        name: String,
    },
    /// Documents cannot contain values of secrets.
    #[error(
        "{kind} `{name}` cannot be declared in a document: set its values with `bailiwick secrets set {name}`"
    )]
    Secret {
        /// The kind.
        kind: Kind,
        /// The name.
        name: String,
    },
    /// It does not have the shape of its kind.
    #[error(transparent)]
    Shape(#[from] ObjectError),
    /// Its fields are invalid.
    #[error("{kind} `{name}` {}", render_faults(faults))]
    Faulty {
        /// The kind.
        kind: Kind,
        /// The name.
        name: String,
        faults: Vec<Fault>,
    },
    /// The same object twice.
    #[error("{kind} `{name}` is declared twice")]
    Twice {
        /// The kind.
        kind: Kind,
        /// The name.
        name: String,
    },
    /// The store did not do it.
    #[error(transparent)]
    Store(#[from] FleetError),
}

fn render_faults(faults: &[Fault]) -> String {
    let each = faults.iter().map(|fault| format!("{}: {}", fault.field, fault.message));
    each.collect::<Vec<_>>().join("; ")
}

/// Checks documents alone, without a store.
pub fn check(documents: &[AnyObject]) -> Result<(), DeclareError> {
    let mut seen = BTreeSet::new();
    for object in documents {
        let (kind, name) = (object.kind, object.metadata.name.clone());
        if object.api_version != API_VERSION {
            let found = object.api_version.clone();
            return Err(ObjectError::Version { found }.into());
        }
        if kind.author() == Author::ControlPlane {
            return Err(DeclareError::Recorded { kind, name });
        }
        if kind == Kind::Secret {
            return Err(DeclareError::Secret { kind, name });
        }
        let mut faults = object.check()?;
        faults.extend(namespace_fault(object));
        if !faults.is_empty() {
            return Err(DeclareError::Faulty { kind, name, faults });
        }
        if !seen.insert((kind, object.metadata.namespace.clone(), name.clone())) {
            return Err(DeclareError::Twice { kind, name });
        }
    }
    Ok(())
}

/// What documents would change, given the existing objects of the same names.
pub fn plan(
    documents: &[AnyObject],
    there: &[Option<AnyObject>],
) -> Result<Vec<(Outcome, AnyObject)>, DeclareError> {
    check(documents)?;
    let mut planned = Vec::new();
    for (document, there) in documents.iter().zip(there) {
        let mut object = document.clone();
        keep_writer(there.as_ref(), &mut object);
        keep_applied_by(there.as_ref(), &mut object);
        let document = &object.clone();
        object.status = serde_json::Value::Null;
        let Some(there) = there else {
            let Metadata { name, namespace, resource_version: given, .. } = &object.metadata;
            if *given != 0 {
                // It existed when it was read and was deleted since.
                let (kind, namespace, name) = (document.kind, namespace.clone(), name.clone());
                let found = 0;
                return Err(
                    FleetError::Conflict { kind, namespace, name, given: *given, found }.into()
                );
            }
            object.spec = canonical(document)?;
            let Metadata { name, namespace, labels, annotations, .. } = object.metadata;
            object.metadata = Metadata {
                name,
                namespace,
                labels,
                annotations,
                generation: 1,
                ..Metadata::default()
            };
            planned.push((Outcome::Created, object));
            continue;
        };
        let given = document.metadata.resource_version;
        let found = there.metadata.resource_version;
        if given != 0 && given != found {
            let Metadata { name, namespace, .. } = document.metadata.clone();
            let kind = document.kind;
            return Err(FleetError::Conflict { kind, namespace, name, given, found }.into());
        }
        // One that cannot be read is mended by what is declared now.
        let given = canonical(document)?;
        let declares_the_same = Some(&given) == canonical(there).ok().as_ref();
        let same = declares_the_same
            && document.metadata.labels == there.metadata.labels
            && document.metadata.annotations == there.metadata.annotations;
        object.metadata = Metadata {
            labels: document.metadata.labels.clone(),
            annotations: document.metadata.annotations.clone(),
            generation: there.metadata.generation + u64::from(!declares_the_same),
            ..there.metadata.clone()
        };
        object.spec = given;
        object.status = there.status.clone();
        planned.push((if same { Outcome::Unchanged } else { Outcome::Configured }, object));
    }
    Ok(planned)
}

/// The spec as its type writes it, so that a default that was left out and one that was written are
/// the same.
fn canonical(object: &AnyObject) -> Result<serde_json::Value, DeclareError> {
    Ok(object.canonical_spec()?)
}

/// Applies them; with `dry_run`, only returns what would change.
pub async fn apply<S: FleetStore>(
    store: &S,
    documents: &[AnyObject],
    actor: &str,
    now: Moment,
    dry_run: bool,
) -> Result<Vec<Applied>, DeclareError> {
    apply_by(store, documents, &AuditActor::person(actor), now, dry_run).await
}

/// The same, for an actor with more than a name.
pub async fn apply_by<S: FleetStore>(
    store: &S,
    documents: &[AnyObject],
    by: &AuditActor,
    now: Moment,
    dry_run: bool,
) -> Result<Vec<Applied>, DeclareError> {
    apply_requiring(store, documents, &[], by, now, dry_run).await
}

/// The same; nothing is applied unless all requirements are met in the same commit.
pub async fn apply_requiring<S: FleetStore>(
    store: &S,
    documents: &[AnyObject],
    requirements: &[Requirement],
    by: &AuditActor,
    now: Moment,
    dry_run: bool,
) -> Result<Vec<Applied>, DeclareError> {
    let mut tries = 0;
    loop {
        for requirement in requirements {
            require(store, requirement).await?;
        }
        let mut there = Vec::new();
        for document in documents {
            let Metadata { name, namespace, .. } = &document.metadata;
            there.push(store.get(document.kind, namespace, name).await?);
        }
        let mut planned = plan(documents, &there)?;
        for ((_, object), there) in planned.iter_mut().zip(&there) {
            record_applied_by(there.as_ref(), object, &by.actor);
            if let Some(fault) = review_fault(there.as_ref(), object, &by.actor) {
                let (kind, name) = (object.kind, object.metadata.name.clone());
                return Err(DeclareError::Faulty { kind, name, faults: vec![fault] });
            }
        }
        if dry_run {
            let applied = |(outcome, object)| Applied { outcome, object };
            return Ok(planned.into_iter().map(applied).collect());
        }
        let mut required = requirements.to_vec();
        required.extend(unchanged(documents, &planned));
        match carry_out(store, required, &planned, by, now).await {
            Ok(done) => return Ok(done),
            // The one who named no version is content with what is there now.
            Err(
                FleetError::Conflict { .. }
                | FleetError::AlreadyExists { .. }
                | FleetError::NotFound { .. },
            ) if tries < MAX_CONFLICT_RETRIES => tries += 1,
            Err(error) => return Err(error.into()),
        }
    }
}

/// Fails unless an object is as required now. Only `Write::Require` says so of the moment of a commit.
pub async fn require<S: FleetStore>(
    store: &S,
    requirement: &Requirement,
) -> Result<(), FleetError> {
    let Requirement { kind, namespace, name, .. } = requirement;
    let found = store.get(*kind, namespace, name).await?;
    requirement.check(found.map(|object| object.metadata.resource_version))
}

/// Documents that name a version and are not written: the commit requires this version of them.
fn unchanged(documents: &[AnyObject], planned: &[(Outcome, AnyObject)]) -> Vec<Requirement> {
    let named = documents.iter().zip(planned).filter(|(document, (outcome, _))| {
        *outcome == Outcome::Unchanged && document.metadata.resource_version != 0
    });
    let requirement = |(document, _): (&AnyObject, &(Outcome, AnyObject))| {
        let Metadata { namespace, name, resource_version, .. } = document.metadata.clone();
        Requirement { kind: document.kind, namespace, name, resource_version }
    };
    named.map(requirement).collect()
}

async fn carry_out<S: FleetStore>(
    store: &S,
    required: Vec<Requirement>,
    planned: &[(Outcome, AnyObject)],
    by: &AuditActor,
    now: Moment,
) -> Result<Vec<Applied>, FleetError> {
    let mut writes: Vec<Write> = required.into_iter().map(Write::Require).collect();
    for (outcome, object) in planned {
        let action = match outcome {
            Outcome::Unchanged => continue,
            Outcome::Created => {
                writes.push(Write::Create(object.clone()));
                AuditAction::Created
            }
            Outcome::Configured => {
                writes.push(Write::Replace(object.clone()));
                AuditAction::Replaced
            }
        };
        writes.push(Write::Audit(by.line(action, object, now)));
    }
    let applied = store.commit(writes, now).await?;
    let mut objects = applied.objects.into_iter();
    let done = planned.iter().map(|(outcome, object)| {
        let object = match outcome {
            Outcome::Unchanged => None,
            Outcome::Created | Outcome::Configured => objects.next(),
        }
        .unwrap_or_else(|| object.clone());
        Applied { outcome: *outcome, object }
    });
    Ok(done.collect())
}

/// Deletes an object, at this version or at any.
pub async fn delete<S: FleetStore>(
    store: &S,
    kind: Kind,
    namespace: &str,
    name: &str,
    version: u64,
    actor: &str,
    now: Moment,
) -> Result<(), DeclareError> {
    let deletion = Deletion { kind, namespace, name, version, requirement: None };
    delete_requiring(store, deletion, actor, now).await
}

/// What is deleted, at this version or at any, and what must hold in the same commit.
#[derive(Debug, Clone, Copy)]
pub struct Deletion<'a> {
    pub kind: Kind,
    pub namespace: &'a str,
    pub name: &'a str,
    pub version: u64,
    pub requirement: Option<&'a Requirement>,
}

/// Deletes an object; nothing is deleted unless the requirement is met in the same commit.
pub async fn delete_requiring<S: FleetStore>(
    store: &S,
    deletion: Deletion<'_>,
    actor: &str,
    now: Moment,
) -> Result<(), DeclareError> {
    let Deletion { kind, namespace, name, version, requirement } = deletion;
    if kind.author() == Author::ControlPlane {
        return Err(DeclareError::Recorded { kind, name: name.to_owned() });
    }
    let Some(object) = store.get(kind, namespace, name).await? else {
        let (namespace, name) = (namespace.to_owned(), name.to_owned());
        return Err(FleetError::NotFound { kind, namespace, name }.into());
    };
    let gone =
        Write::Delete { kind, namespace: namespace.to_owned(), name: name.to_owned(), version };
    let audit = Write::Audit(AuditActor::person(actor).line(AuditAction::Deleted, &object, now));
    let required = requirement.cloned().map(Write::Require);
    store.commit(required.into_iter().chain([gone, audit]).collect(), now).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use bailiwick_resources::{API_VERSION, AnyObject, Kind, Metadata, Moment};
    use serde_json::json;

    use super::{AuditActor, carry_out, plan, unchanged};
    use crate::ports::{FleetError, FleetStore as _, MemoryFleet, Write};

    fn config_map(name: &str, value: &str) -> AnyObject {
        AnyObject {
            api_version: API_VERSION.to_owned(),
            kind: Kind::ConfigMap,
            metadata: Metadata::named(name),
            spec: json!({ "data": { "k": value } }),
            status: serde_json::Value::Null,
        }
    }

    #[tokio::test]
    async fn version_of_an_unchanged_document_is_checked_in_the_commit() {
        let (fleet, now) = (MemoryFleet::default(), Moment::from_millis(1));
        fleet.commit(vec![Write::Create(config_map("fence", "a"))], now).await.unwrap();
        let fence = fleet.get(Kind::ConfigMap, "default", "fence").await.unwrap().unwrap();
        let documents = [fence.clone(), config_map("new", "x")];
        let planned = plan(&documents, &[Some(fence.clone()), None]).unwrap();
        // Another writer comes between the plan and the commit.
        let other = AnyObject { metadata: fence.metadata, ..config_map("fence", "b") };
        fleet.commit(vec![Write::Replace(other)], now).await.unwrap();
        let required = unchanged(&documents, &planned);
        let refused = carry_out(&fleet, required, &planned, &AuditActor::person("ada"), now).await;
        assert!(matches!(refused, Err(FleetError::Conflict { .. })), "{refused:?}");
        assert_eq!(fleet.get(Kind::ConfigMap, "default", "new").await, Ok(None));
    }
}

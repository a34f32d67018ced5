//! An object as a row.

use std::collections::BTreeMap;

use bailiwick_fleet::ports::FleetError;
use bailiwick_resources::{AnyObject, Kind, Metadata, Moment};
use serde_json::Value;
use sqlx::Row as _;
use sqlx::any::AnyRow;

use super::Fleet;

/// The columns, in the order in which they are written.
pub(super) const COLUMNS: [&str; 13] = [
    "born",
    "kind",
    "namespace",
    "name",
    "uid",
    "generation",
    "version",
    "created_at",
    "api_version",
    "labels",
    "annotations",
    "status",
    "spec",
];

/// What is read of an object, from the table of this name: few columns, because each of each row costs more
/// than its bytes do. The last one is a list in JSON, of numbers, an id of ours, and what is JSON already.
pub(super) fn columns(table: &str) -> String {
    let rest = ["generation", "version", "created_at"].map(|name| format!("{table}.{name}"));
    let json = ["labels", "annotations", "status", "spec"].map(|name| format!("{table}.{name}"));
    format!(
        "{table}.born, {table}.namespace, {table}.name, {table}.api_version, \
         '[' || {} || ',\"' || {table}.uid || '\",' || {} || ']'",
        rest.join(" || ',' || "),
        json.join(" || ',' || ")
    )
}

/// An object, and its place in the order of all.
#[derive(Debug, Clone)]
pub(super) struct Kept {
    pub(super) born: u64,
    pub(super) object: AnyObject,
}

impl Kept {
    /// Refuses what was read before somebody else wrote. A version of 0 takes whatever is there.
    pub(super) fn held_to(&self, given: u64) -> Result<(), FleetError> {
        let metadata = &self.object.metadata;
        let found = metadata.resource_version;
        if given == 0 || given == found {
            return Ok(());
        }
        let (namespace, name) = (metadata.namespace.clone(), metadata.name.clone());
        Err(FleetError::Conflict { kind: self.object.kind, namespace, name, given, found })
    }
}

impl Fleet {
    /// Reads a row whose first column is this one.
    pub(super) fn kept(&self, kind: Kind, row: &AnyRow, first: usize) -> Result<Kept, FleetError> {
        read(kind, row, first)
            .map_err(|error| self.broken(format!("a {kind} cannot be read: {error}")))
    }

    /// One object.
    pub(super) async fn get(
        &self,
        kind: Kind,
        namespace: &str,
        name: &str,
    ) -> Result<Option<AnyObject>, FleetError> {
        let row = sqlx::query(sqlx::AssertSqlSafe(one()))
            .bind(kind.as_str())
            .bind(namespace)
            .bind(name)
            .fetch_optional(&self.pool)
            .await
            .map_err(|error| self.failed(&error))?;
        row.map(|row| self.kept(kind, &row, 0).map(|kept| kept.object)).transpose()
    }
}

/// The statement that reads one object by kind, namespace and name.
pub(super) fn one() -> String {
    let columns = columns("r");
    format!("SELECT {columns} FROM resources r WHERE kind = $1 AND namespace = $2 AND name = $3")
}

type Labels = BTreeMap<String, String>;

fn read(kind: Kind, row: &AnyRow, first: usize) -> Result<Kept, Box<dyn std::error::Error>> {
    let text = |place: usize| row.try_get::<&str, _>(first + place);
    let (generation, resource_version, created_at, uid, labels, annotations, status, spec): (
        u64,
        u64,
        u64,
        String,
        Labels,
        Labels,
        Value,
        Value,
    ) = serde_json::from_str(text(4)?)?;
    Ok(Kept {
        born: u64::try_from(row.try_get::<i64, _>(first)?)?,
        object: AnyObject {
            api_version: text(3)?.to_owned(),
            kind,
            metadata: Metadata {
                namespace: text(1)?.to_owned(),
                name: text(2)?.to_owned(),
                uid,
                generation,
                resource_version,
                creation_timestamp: Some(Moment::from_millis(created_at)),
                labels,
                annotations,
            },
            status,
            spec,
        },
    })
}

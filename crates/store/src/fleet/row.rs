//! Objects as rows.

use std::collections::BTreeMap;

use bailiwick_fleet::ports::FleetError;
use bailiwick_resources::{AnyObject, Kind, Metadata, Moment};
use serde_json::Value;
use sqlx::Row as _;
use sqlx::any::AnyRow;

use super::Fleet;

/// The columns in the order of an insert.
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

/// The columns of a select from a table with this alias. They are few, because each column costs more than its
/// bytes: the last one is a JSON array of numbers, the uid and columns that are JSON.
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

/// An object with the version of its creation, which orders all objects.
#[derive(Debug, Clone)]
pub(super) struct StoredObject {
    /// The version of its creation.
    pub(super) created_version: u64,
    pub(super) object: AnyObject,
}

impl StoredObject {
    /// Fails if somebody else changed the object since this version. Version 0 matches every version.
    pub(super) fn check_version(&self, given: u64) -> Result<(), FleetError> {
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
    /// Reads an object from the columns that start at `first`.
    pub(super) fn stored(
        &self,
        kind: Kind,
        row: &AnyRow,
        first: usize,
    ) -> Result<StoredObject, FleetError> {
        read(kind, row, first)
            .map_err(|error| self.unavailable(format!("a {kind} cannot be read: {error}")))
    }

    pub(crate) async fn get(
        &self,
        kind: Kind,
        namespace: &str,
        name: &str,
    ) -> Result<Option<AnyObject>, FleetError> {
        let row = sqlx::query(sqlx::AssertSqlSafe(select_one()))
            .bind(kind.as_str())
            .bind(namespace)
            .bind(name)
            .fetch_optional(&self.pool)
            .await
            .map_err(|error| self.database_error(&error))?;
        row.map(|row| self.stored(kind, &row, 0).map(|stored| stored.object)).transpose()
    }
}

/// The statement that selects an object by kind, namespace and name.
pub(super) fn select_one() -> String {
    let columns = columns("r");
    format!("SELECT {columns} FROM resources r WHERE kind = $1 AND namespace = $2 AND name = $3")
}

type Labels = BTreeMap<String, String>;

fn read(
    kind: Kind,
    row: &AnyRow,
    first: usize,
) -> Result<StoredObject, Box<dyn std::error::Error>> {
    let text = |column: usize| row.try_get::<&str, _>(first + column);
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
    Ok(StoredObject {
        created_version: u64::try_from(row.try_get::<i64, _>(first)?)?,
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

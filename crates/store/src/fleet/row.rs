//! An object as a row.

use bailiwick_control::ports::fleet::FleetError;
use bailiwick_model::fleet::{AnyObject, Kind, Metadata, Moment};
use serde::de::DeserializeOwned;
use sqlx::Row as _;
use sqlx::any::AnyRow;

use super::Fleet;

/// The columns, in the order in which they are read and written.
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

/// An object, and its place in the order of all.
#[derive(Debug, Clone)]
pub(super) struct Kept {
    pub(super) born: u64,
    pub(super) object: AnyObject,
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
    let columns = COLUMNS.join(", ");
    format!("SELECT {columns} FROM resources WHERE kind = $1 AND namespace = $2 AND name = $3")
}

fn read(kind: Kind, row: &AnyRow, first: usize) -> Result<Kept, Box<dyn std::error::Error>> {
    let number = |place: usize| -> Result<u64, Box<dyn std::error::Error>> {
        Ok(u64::try_from(row.try_get::<i64, _>(first + place)?)?)
    };
    let text = |place: usize| row.try_get::<String, _>(first + place);
    Ok(Kept {
        born: number(0)?,
        object: AnyObject {
            api_version: text(8)?,
            kind,
            metadata: Metadata {
                namespace: text(2)?,
                name: text(3)?,
                uid: text(4)?,
                generation: number(5)?,
                resource_version: number(6)?,
                creation_timestamp: Some(Moment::from_millis(number(7)?)),
                labels: json(row, first + 9)?,
                annotations: json(row, first + 10)?,
            },
            status: json(row, first + 11)?,
            spec: json(row, first + 12)?,
        },
    })
}

fn json<T: DeserializeOwned>(row: &AnyRow, place: usize) -> Result<T, Box<dyn std::error::Error>> {
    Ok(serde_json::from_str(&row.try_get::<String, _>(place)?)?)
}

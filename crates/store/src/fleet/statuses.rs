//! Writes the statuses of many objects with few statements, because a statement costs more than a row.

use std::collections::{BTreeMap, BTreeSet};

use bailiwick_fleet::ports::{ChangeKind, FleetError, Write};
use bailiwick_resources::AnyObject;

use super::row::{StoredObject, columns};
use super::statements::{batches, placeholders, signed};
use super::terms::{Term, terms};
use super::transaction::WriteTransaction;

/// The maximum number of statuses in a batch.
const MAX_BATCH_SIZE: usize = 256;

/// Statuses of different objects of one kind and namespace, in order.
#[derive(Debug, Default)]
pub(super) struct StatusBatch {
    objects: Vec<AnyObject>,
    names: BTreeSet<String>,
}

impl StatusBatch {
    /// Whether a write can join the batch.
    pub(super) fn fits(&self, write: &Write) -> bool {
        let Write::Status(object) = write else { return false };
        let scope = |object: &AnyObject| (object.kind, object.metadata.namespace.clone());
        self.objects.first().is_none_or(|first| scope(first) == scope(object))
            // A second status of the same object goes to the next batch.
            && !self.names.contains(&object.metadata.name)
            && self.objects.len() < MAX_BATCH_SIZE
    }

    pub(super) fn add(&mut self, object: AnyObject) {
        self.names.insert(object.metadata.name.clone());
        self.objects.push(object);
    }
}

impl WriteTransaction<'_> {
    /// Writes the statuses; returns the changed objects.
    pub(super) async fn set_statuses(
        &mut self,
        statuses: StatusBatch,
    ) -> Result<Vec<AnyObject>, FleetError> {
        let objects = statuses.objects;
        let mut stored = self.load_objects(&objects).await?;
        let mut all = Vec::with_capacity(objects.len());
        for object in objects {
            let metadata = &object.metadata;
            let found = stored.remove(&metadata.name);
            let found = found.ok_or_else(|| FleetError::NotFound {
                kind: object.kind,
                namespace: metadata.namespace.clone(),
                name: metadata.name.clone(),
            })?;
            found.check_version(metadata.resource_version)?;
            let mut next = AnyObject { status: object.status, ..found.object.clone() };
            next.metadata.resource_version = self.next_version();
            all.push((found, next));
        }
        self.update_statuses(&all).await?;
        self.update_index(&all).await?;
        let changed: Vec<&AnyObject> = all.iter().map(|(_, next)| next).collect();
        self.record_changes(ChangeKind::Modified, &changed).await?;
        Ok(all.into_iter().map(|(_, next)| next).collect())
    }

    /// The stored objects with the same names.
    async fn load_objects(
        &mut self,
        objects: &[AnyObject],
    ) -> Result<BTreeMap<String, StoredObject>, FleetError> {
        let fleet = self.fleet;
        let mut known = BTreeMap::new();
        for chunk in batches(objects) {
            let Some(first) = chunk.first() else { continue };
            let statement = format!(
                "SELECT {} FROM resources r WHERE kind = $1 AND namespace = $2 AND name IN ({})",
                columns("r"),
                placeholders(3, chunk.len())
            );
            let mut query = sqlx::query(sqlx::AssertSqlSafe(statement));
            query = query.bind(first.kind.as_str()).bind(&first.metadata.namespace);
            for object in chunk {
                query = query.bind(&object.metadata.name);
            }
            let rows = query.fetch_all(self.connection()).await;
            for row in rows.map_err(|error| fleet.database_error(&error))? {
                let stored = fleet.stored(first.kind, &row, 0)?;
                known.insert(stored.object.metadata.name.clone(), stored);
            }
        }
        Ok(known)
    }

    async fn update_statuses(
        &mut self,
        all: &[(StoredObject, AnyObject)],
    ) -> Result<(), FleetError> {
        let fleet = self.fleet;
        for chunk in batches(all) {
            // The first row defines the types of all rows.
            let [born, version, status] =
                [1, 2, 3].map(|number| fleet.database_kind.placeholder(number));
            let first = format!(
                "(CAST({born} AS BIGINT), CAST({version} AS BIGINT), CAST({status} AS TEXT))"
            );
            let comma = if chunk.len() == 1 { "" } else { ", " };
            let statement = format!(
                "UPDATE resources SET version = v.column2, status = v.column3 \
                 FROM (VALUES {first}{comma}{}) AS v WHERE resources.born = v.column1",
                fleet.database_kind.row_placeholders(4, chunk.len().saturating_sub(1), 3)
            );
            let mut query = sqlx::query(sqlx::AssertSqlSafe(statement));
            for (stored, next) in chunk {
                let version = signed(next.metadata.resource_version);
                query = query
                    .bind(signed(stored.created_version))
                    .bind(version)
                    .bind(fleet.json(&next.status)?);
            }
            let done = query.execute(self.connection()).await;
            let done = done.map_err(|error| fleet.database_error(&error))?.rows_affected();
            if done != u64::try_from(chunk.len()).unwrap_or_default() {
                return Err(fleet.unavailable("an object disappeared during the transaction"));
            }
        }
        Ok(())
    }

    /// Replaces the old index terms of the objects with the new ones.
    async fn update_index(&mut self, all: &[(StoredObject, AnyObject)]) -> Result<(), FleetError> {
        let fleet = self.fleet;
        let mut new: Vec<(Term, u64)> = Vec::new();
        let mut removed: BTreeMap<Term, Vec<u64>> = BTreeMap::new();
        for (stored, next) in all {
            let (before, after) = (terms(&stored.object), terms(next));
            new.extend(
                after.difference(&before).map(|term| (term.clone(), stored.created_version)),
            );
            for term in before.difference(&after) {
                removed.entry(term.clone()).or_default().push(stored.created_version);
            }
        }
        self.mark_dereferenced(removed.keys());
        for ((term, value), born) in &removed {
            for chunk in batches(born) {
                let statement = format!(
                    "DELETE FROM resource_terms WHERE term = $1 AND value = $2 AND born IN ({})",
                    placeholders(3, chunk.len())
                );
                let mut query = sqlx::query(sqlx::AssertSqlSafe(statement)).bind(term).bind(value);
                for born in chunk {
                    query = query.bind(signed(*born));
                }
                let done = query.execute(self.connection()).await;
                done.map_err(|error| fleet.database_error(&error))?;
            }
        }
        self.index(&new).await
    }
}

#[cfg(test)]
mod tests {
    use bailiwick_fleet::ports::Write;
    use bailiwick_resources::{API_VERSION, AnyObject, Kind, Metadata};
    use serde_json::json;

    use super::{MAX_BATCH_SIZE, StatusBatch};

    fn status(kind: Kind, namespace: &str, name: &str) -> AnyObject {
        let metadata = Metadata { namespace: namespace.to_owned(), ..Metadata::named(name) };
        let (spec, status) = (json!({}), json!({}));
        AnyObject { api_version: API_VERSION.to_owned(), kind, metadata, spec, status }
    }

    #[test]
    fn batch_has_different_objects_of_one_kind_and_namespace() {
        let run = |name: &str| status(Kind::AgentDispatchRun, "default", name);
        let mut statuses = StatusBatch::default();
        let blob = Write::Blob { digest: String::new(), bytes: Vec::new() };
        assert!(!statuses.fits(&blob));
        assert!(!statuses.fits(&Write::Replace(run("a"))));
        assert!(statuses.fits(&Write::Status(run("a"))));
        statuses.add(run("a"));
        assert!(statuses.fits(&Write::Status(run("b"))));
        assert!(!statuses.fits(&Write::Status(run("a"))));
        assert!(!statuses.fits(&blob));
        let elsewhere = status(Kind::AgentDispatchRun, "other", "b");
        assert!(!statuses.fits(&Write::Status(elsewhere)));
        assert!(!statuses.fits(&Write::Status(status(Kind::AgentStack, "default", "b"))));
        (1..MAX_BATCH_SIZE).for_each(|number| statuses.add(run(&number.to_string())));
        assert!(!statuses.fits(&Write::Status(run("b"))));
    }
}

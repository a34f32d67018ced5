//! Statuses of many objects at once, in a handful of statements: a statement costs more than a row.

use std::collections::{BTreeMap, BTreeSet};

use bailiwick_fleet::ports::{ChangeKind, FleetError, Write};
use bailiwick_resources::AnyObject;

use super::draft::Draft;
use super::row::{Kept, columns};
use super::terms::{Term, terms};
use super::values::{places, portions, rows, signed};

/// How many statuses are written at once.
const MOST: usize = 256;

/// Statuses of different objects of one kind and namespace, in their order.
#[derive(Debug, Default)]
pub(super) struct Statuses {
    objects: Vec<AnyObject>,
    names: BTreeSet<String>,
}

impl Statuses {
    /// Whether a write is one more of them.
    pub(super) fn fits(&self, write: &Write) -> bool {
        let Write::Status(object) = write else { return false };
        let place = |object: &AnyObject| (object.kind, object.metadata.namespace.clone());
        self.objects.first().is_none_or(|first| place(first) == place(object))
            // A second one of the same object follows the first.
            && !self.names.contains(&object.metadata.name)
            && self.objects.len() < MOST
    }

    pub(super) fn add(&mut self, object: AnyObject) {
        self.names.insert(object.metadata.name.clone());
        self.objects.push(object);
    }
}

impl Draft<'_> {
    /// Writes statuses; gives the objects as they are now.
    pub(super) async fn set_statuses(
        &mut self,
        statuses: Statuses,
    ) -> Result<Vec<AnyObject>, FleetError> {
        let given = statuses.objects;
        let mut kept = self.known_all(&given).await?;
        let mut all = Vec::with_capacity(given.len());
        for object in given {
            let metadata = &object.metadata;
            let found = kept.remove(&metadata.name);
            let found = found.ok_or_else(|| FleetError::NotFound {
                kind: object.kind,
                namespace: metadata.namespace.clone(),
                name: metadata.name.clone(),
            })?;
            found.held_to(metadata.resource_version)?;
            let mut next = AnyObject { status: object.status, ..found.object.clone() };
            next.metadata.resource_version = self.next_version();
            all.push((found, next));
        }
        self.update_statuses(&all).await?;
        self.index_anew(&all).await?;
        let told: Vec<&AnyObject> = all.iter().map(|(_, next)| next).collect();
        self.tell(ChangeKind::Modified, &told).await?;
        Ok(all.into_iter().map(|(_, next)| next).collect())
    }

    /// What is there of the same names.
    async fn known_all(
        &mut self,
        given: &[AnyObject],
    ) -> Result<BTreeMap<String, Kept>, FleetError> {
        let fleet = self.fleet;
        let mut known = BTreeMap::new();
        for some in portions(given) {
            let Some(first) = some.first() else { continue };
            let statement = format!(
                "SELECT {} FROM resources r WHERE kind = $1 AND namespace = $2 AND name IN ({})",
                columns("r"),
                places(3, some.len())
            );
            let mut query = sqlx::query(sqlx::AssertSqlSafe(statement));
            query = query.bind(first.kind.as_str()).bind(&first.metadata.namespace);
            for object in some {
                query = query.bind(&object.metadata.name);
            }
            let rows = query.fetch_all(self.connection()).await;
            for row in rows.map_err(|error| fleet.failed(&error))? {
                let kept = fleet.kept(first.kind, &row, 0)?;
                known.insert(kept.object.metadata.name.clone(), kept);
            }
        }
        Ok(known)
    }

    async fn update_statuses(&mut self, all: &[(Kept, AnyObject)]) -> Result<(), FleetError> {
        let fleet = self.fleet;
        for some in portions(all) {
            // The first row says of which types all of them are.
            let first = "(CAST(? AS BIGINT), CAST(? AS BIGINT), CAST(? AS TEXT))";
            let comma = if some.len() == 1 { "" } else { ", " };
            let statement = format!(
                "UPDATE resources SET version = v.column2, status = v.column3 \
                 FROM (VALUES {first}{comma}{}) AS v WHERE resources.born = v.column1",
                rows(some.len().saturating_sub(1), 3)
            );
            let mut query = sqlx::query(sqlx::AssertSqlSafe(statement));
            for (kept, next) in some {
                let version = signed(next.metadata.resource_version);
                query = query.bind(signed(kept.born)).bind(version).bind(fleet.json(&next.status)?);
            }
            let done = query.execute(self.connection()).await;
            let done = done.map_err(|error| fleet.failed(&error))?.rows_affected();
            if done != u64::try_from(some.len()).unwrap_or_default() {
                return Err(fleet.broken("an object was gone that was found"));
            }
        }
        Ok(())
    }

    /// Drops the terms that objects had, and adds those that they have now.
    async fn index_anew(&mut self, all: &[(Kept, AnyObject)]) -> Result<(), FleetError> {
        let fleet = self.fleet;
        let mut new: Vec<(Term, u64)> = Vec::new();
        let mut gone: BTreeMap<Term, Vec<u64>> = BTreeMap::new();
        for (kept, next) in all {
            let (before, after) = (terms(&kept.object), terms(next));
            new.extend(after.difference(&before).map(|term| (term.clone(), kept.born)));
            for term in before.difference(&after) {
                gone.entry(term.clone()).or_default().push(kept.born);
            }
        }
        self.let_go(gone.keys());
        for ((term, value), born) in &gone {
            for some in portions(born) {
                let statement = format!(
                    "DELETE FROM resource_terms WHERE term = $1 AND value = $2 AND born IN ({})",
                    places(3, some.len())
                );
                let mut query = sqlx::query(sqlx::AssertSqlSafe(statement)).bind(term).bind(value);
                for born in some {
                    query = query.bind(signed(*born));
                }
                let done = query.execute(self.connection()).await;
                done.map_err(|error| fleet.failed(&error))?;
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

    use super::{MOST, Statuses};

    fn status(kind: Kind, namespace: &str, name: &str) -> AnyObject {
        let metadata = Metadata { namespace: namespace.to_owned(), ..Metadata::named(name) };
        let (spec, status) = (json!({}), json!({}));
        AnyObject { api_version: API_VERSION.to_owned(), kind, metadata, spec, status }
    }

    #[test]
    fn only_different_objects_of_one_kind_and_namespace_are_written_at_once() {
        let run = |name: &str| status(Kind::AgentDispatchRun, "default", name);
        let mut statuses = Statuses::default();
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
        (1..MOST).for_each(|number| statuses.add(run(&number.to_string())));
        assert!(!statuses.fits(&Write::Status(run("b"))));
    }
}

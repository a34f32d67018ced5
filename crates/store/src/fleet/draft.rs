//! Writes that become one transaction: all of them, or nothing.

use std::collections::BTreeSet;

use bailiwick_fleet::ports::{AuditEntry, ChangeKind, FleetError, Write, named_digests};
use bailiwick_resources::{AnyObject, Kind, Moment};
use serde::Serialize;
use sqlx::{Any, AnyConnection, Row as _, Transaction};
use tokio::sync::MutexGuard;
use uuid::Uuid;

use super::Fleet;
use super::row::{COLUMNS, Kept, one};
use super::statuses::Statuses;
use super::terms::{DIGEST, Term, terms};
use super::values::{places, portions, rows, signed};

/// A transaction that writes.
pub(super) struct Draft<'a> {
    pub(super) fleet: &'a Fleet,
    transaction: Transaction<'static, Any>,
    version: u64,
    /// Digests that an object has named until now: bytes that nobody names at the end go.
    let_go: BTreeSet<String>,
    // The last field: the turn is over when the transaction is.
    _turn: MutexGuard<'a, ()>,
}

impl Fleet {
    /// Begins to write; nobody else can until it ends.
    pub(super) async fn draft(&self) -> Result<Draft<'_>, FleetError> {
        let turn = self.turn.lock().await;
        let begun = self.writer.begin_with(crate::open::WRITING).await;
        let mut transaction = begun.map_err(|error| self.failed(&error))?;
        let version = self.version(&mut transaction).await?;
        Ok(Draft { fleet: self, transaction, version, let_go: BTreeSet::new(), _turn: turn })
    }

    pub(super) async fn version(&self, connection: &mut AnyConnection) -> Result<u64, FleetError> {
        let newest = "SELECT COALESCE(MAX(version), 0) FROM resource_changes";
        let row = sqlx::query(newest).fetch_one(connection).await;
        let version: i64 =
            row.and_then(|row| row.try_get(0)).map_err(|error| self.failed(&error))?;
        Ok(version.unsigned_abs())
    }

    pub(super) fn json(&self, value: &impl Serialize) -> Result<String, FleetError> {
        serde_json::to_string(value)
            .map_err(|error| self.broken(format!("it cannot be written as JSON: {error}")))
    }
}

impl Draft<'_> {
    /// Makes all of it durable and visible; gives the version that the store has then.
    pub(super) async fn keep(self) -> Result<u64, FleetError> {
        let Self { fleet, transaction, version, let_go: _, _turn } = self;
        transaction.commit().await.map_err(|error| fleet.failed(&error))?;
        fleet.saw(version);
        Ok(version)
    }

    /// Leaves everything as it was.
    pub(super) async fn drop_all(self) {
        // If it cannot be told to, the database forgets it with the connection.
        drop(self.transaction.rollback().await);
    }

    /// The version of the next change.
    pub(super) fn next_version(&mut self) -> u64 {
        self.version += 1;
        self.version
    }

    pub(super) fn connection(&mut self) -> &mut AnyConnection {
        &mut self.transaction
    }

    /// Does each write; gives the objects that it made or changed.
    pub(super) async fn write_all(
        &mut self,
        writes: Vec<Write>,
        now: Moment,
    ) -> Result<Vec<AnyObject>, FleetError> {
        let mut objects = Vec::new();
        let mut statuses = Statuses::default();
        for write in writes {
            if !statuses.fits(&write) {
                objects.extend(self.set_statuses(std::mem::take(&mut statuses)).await?);
            }
            match write {
                Write::Create(object) => objects.push(self.create(object, now).await?),
                Write::Replace(object) => objects.push(self.replace(object).await?),
                Write::Status(object) => statuses.add(object),
                Write::Delete { kind, namespace, name, version } => {
                    self.delete(kind, &namespace, &name, version).await?;
                }
                Write::Blob { digest, bytes } => self.keep_blob(&digest, &bytes).await?,
                Write::Secret { namespace, name, values } => {
                    objects.push(self.set_secret(&namespace, &name, &values.0, now).await?);
                }
                Write::Token(token) => self.put_token(&token).await?,
                Write::Audit(entry) => self.note(&entry).await?,
            }
        }
        objects.extend(self.set_statuses(statuses).await?);
        // Only now: what one of them lets go another may have taken up.
        self.drop_unnamed().await?;
        Ok(objects)
    }

    /// An object had these terms until now.
    pub(super) fn let_go<'t>(&mut self, terms: impl Iterator<Item = &'t Term>) {
        let digests = terms.filter(|(term, _)| term == DIGEST);
        self.let_go.extend(digests.map(|(_, digest)| digest.clone()));
    }

    /// The digests that were let go since this was last asked.
    pub(super) fn take_let_go(&mut self) -> BTreeSet<String> {
        std::mem::take(&mut self.let_go)
    }

    /// The object as it is now, if it has the version that was given.
    pub(super) async fn known(
        &mut self,
        kind: Kind,
        namespace: &str,
        name: &str,
        given: u64,
    ) -> Result<Kept, FleetError> {
        let kept = self.find(kind, namespace, name).await?.ok_or_else(|| FleetError::NotFound {
            kind,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        })?;
        kept.held_to(given)?;
        Ok(kept)
    }

    pub(super) async fn find(
        &mut self,
        kind: Kind,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Kept>, FleetError> {
        let row = sqlx::query(sqlx::AssertSqlSafe(one()))
            .bind(kind.as_str())
            .bind(namespace)
            .bind(name)
            .fetch_optional(&mut *self.transaction)
            .await
            .map_err(|error| self.fleet.failed(&error))?;
        row.map(|row| self.fleet.kept(kind, &row, 0)).transpose()
    }

    pub(super) async fn create(
        &mut self,
        object: AnyObject,
        now: Moment,
    ) -> Result<AnyObject, FleetError> {
        let object = self.newborn(object, now);
        if self.insert(std::slice::from_ref(&object)).await? == 0 {
            let kind = object.kind;
            let (namespace, name) = (object.metadata.namespace, object.metadata.name);
            return Err(FleetError::AlreadyExists { kind, namespace, name });
        }
        self.tell_added(std::slice::from_ref(&object)).await?;
        Ok(object)
    }

    /// What the store says of a new object.
    pub(super) fn newborn(&mut self, mut object: AnyObject, now: Moment) -> AnyObject {
        object.metadata.generation = 1;
        object.metadata.resource_version = self.next_version();
        object.metadata.creation_timestamp = Some(now);
        object.metadata.uid = Uuid::now_v7().to_string();
        object
    }

    /// Inserts new objects; gives how many of them were not there.
    pub(super) async fn insert(&mut self, objects: &[AnyObject]) -> Result<u64, FleetError> {
        let mut inserted = 0;
        for some in portions(objects) {
            let statement = format!(
                "INSERT INTO resources ({}) VALUES {} ON CONFLICT (kind, namespace, name) DO NOTHING",
                COLUMNS.join(", "),
                rows(some.len(), COLUMNS.len())
            );
            let mut query = sqlx::query(sqlx::AssertSqlSafe(statement));
            for object in some {
                let metadata = &object.metadata;
                let created = metadata.creation_timestamp.unwrap_or_default();
                // The version of a new object is that at which it was born.
                query = query
                    .bind(signed(metadata.resource_version))
                    .bind(object.kind.as_str())
                    .bind(metadata.namespace.clone())
                    .bind(metadata.name.clone())
                    .bind(metadata.uid.clone())
                    .bind(signed(metadata.generation))
                    .bind(signed(metadata.resource_version))
                    .bind(signed(created.millis()))
                    .bind(object.api_version.clone())
                    .bind(self.fleet.json(&metadata.labels)?)
                    .bind(self.fleet.json(&metadata.annotations)?)
                    .bind(self.fleet.json(&object.status)?)
                    .bind(self.fleet.json(&object.spec)?);
            }
            let done = query.execute(&mut *self.transaction).await;
            inserted += done.map_err(|error| self.fleet.failed(&error))?.rows_affected();
        }
        Ok(inserted)
    }

    /// Indexes new objects, and writes down that they were added.
    pub(super) async fn tell_added(&mut self, objects: &[AnyObject]) -> Result<(), FleetError> {
        let mut found = Vec::new();
        for object in objects {
            let born = object.metadata.resource_version;
            found.extend(terms(object).into_iter().map(|term| (term, born)));
        }
        self.index(&found).await?;
        self.tell(ChangeKind::Added, &objects.iter().collect::<Vec<_>>()).await
    }

    async fn replace(&mut self, given: AnyObject) -> Result<AnyObject, FleetError> {
        let metadata = given.metadata;
        let version = metadata.resource_version;
        let kept = self.known(given.kind, &metadata.namespace, &metadata.name, version).await?;
        let mut next = kept.object.clone();
        if next.spec != given.spec {
            next.metadata.generation += 1;
        }
        next.spec = given.spec;
        next.metadata.labels = metadata.labels;
        next.metadata.annotations = metadata.annotations;
        if next.kind == Kind::Secret {
            self.drop_values(&next).await?;
        }
        self.change(kept, next).await
    }

    /// Writes an object in the place of what it was.
    pub(super) async fn change(
        &mut self,
        kept: Kept,
        mut next: AnyObject,
    ) -> Result<AnyObject, FleetError> {
        next.metadata.resource_version = self.next_version();
        sqlx::query(
            "UPDATE resources SET generation = $1, version = $2, labels = $3, annotations = $4, \
             status = $5, spec = $6 WHERE born = $7",
        )
        .bind(signed(next.metadata.generation))
        .bind(signed(next.metadata.resource_version))
        .bind(self.fleet.json(&next.metadata.labels)?)
        .bind(self.fleet.json(&next.metadata.annotations)?)
        .bind(self.fleet.json(&next.status)?)
        .bind(self.fleet.json(&next.spec)?)
        .bind(signed(kept.born))
        .execute(&mut *self.transaction)
        .await
        .map_err(|error| self.fleet.failed(&error))?;
        let (before, after) = (terms(&kept.object), terms(&next));
        self.unindex(before.difference(&after), kept.born).await?;
        self.let_go(before.difference(&after));
        let new: Vec<(Term, u64)> =
            after.difference(&before).map(|term| (term.clone(), kept.born)).collect();
        self.index(&new).await?;
        self.tell(ChangeKind::Modified, &[&next]).await?;
        Ok(next)
    }

    async fn delete(
        &mut self,
        kind: Kind,
        namespace: &str,
        name: &str,
        version: u64,
    ) -> Result<(), FleetError> {
        let Kept { born, mut object } = self.known(kind, namespace, name, version).await?;
        sqlx::query("DELETE FROM resources WHERE born = $1")
            .bind(signed(born))
            .execute(&mut *self.transaction)
            .await
            .map_err(|error| self.fleet.failed(&error))?;
        self.unindex(&terms(&object), born).await?;
        self.let_go.extend(named_digests(&object));
        if kind == Kind::Secret {
            self.drop_all_values(namespace, name).await?;
        }
        object.metadata.resource_version = self.next_version();
        self.tell(ChangeKind::Deleted, &[&object]).await
    }

    pub(super) async fn index(&mut self, found: &[(Term, u64)]) -> Result<(), FleetError> {
        for some in portions(found) {
            let rows = rows(some.len(), 3);
            let statement = format!("INSERT INTO resource_terms (term, value, born) VALUES {rows}");
            let mut query = sqlx::query(sqlx::AssertSqlSafe(statement));
            for ((term, value), born) in some {
                query = query.bind(term.clone()).bind(value.clone()).bind(signed(*born));
            }
            let done = query.execute(&mut *self.transaction).await;
            done.map_err(|error| self.fleet.failed(&error))?;
        }
        Ok(())
    }

    async fn unindex(
        &mut self,
        gone: impl IntoIterator<Item = &Term>,
        born: u64,
    ) -> Result<(), FleetError> {
        let gone: BTreeSet<&Term> = gone.into_iter().collect();
        for (term, value) in gone {
            let statement =
                "DELETE FROM resource_terms WHERE term = $1 AND value = $2 AND born = $3";
            sqlx::query(statement)
                .bind(term)
                .bind(value)
                .bind(signed(born))
                .execute(&mut *self.transaction)
                .await
                .map_err(|error| self.fleet.failed(&error))?;
        }
        Ok(())
    }

    /// Writes down what was done to objects, each under the version that it has now.
    pub(super) async fn tell(
        &mut self,
        kind: ChangeKind,
        objects: &[&AnyObject],
    ) -> Result<(), FleetError> {
        let kind = match kind {
            ChangeKind::Added => "ADDED",
            ChangeKind::Modified => "MODIFIED",
            ChangeKind::Deleted => "DELETED",
        };
        for some in portions(objects) {
            let rows = rows(some.len(), 3);
            let statement =
                format!("INSERT INTO resource_changes (version, change, object) VALUES {rows}");
            let mut query = sqlx::query(sqlx::AssertSqlSafe(statement));
            for object in some {
                let version = signed(object.metadata.resource_version);
                query = query.bind(version).bind(kind).bind(self.fleet.json(object)?);
            }
            let done = query.execute(&mut *self.transaction).await;
            done.map_err(|error| self.fleet.failed(&error))?;
        }
        Ok(())
    }

    async fn note(&mut self, entry: &AuditEntry) -> Result<(), FleetError> {
        let statement = format!(
            "INSERT INTO audit (number, at, actor, event, subject, correlation, detail) VALUES \
             ((SELECT COALESCE(MAX(number), 0) + 1 FROM audit), {})",
            places(1, 6)
        );
        sqlx::query(sqlx::AssertSqlSafe(statement))
            .bind(signed(entry.at.millis()))
            .bind(&entry.actor)
            .bind(&entry.event)
            .bind(&entry.subject)
            .bind(self.fleet.json(&entry.correlation)?)
            .bind(self.fleet.json(&entry.detail)?)
            .execute(&mut *self.transaction)
            .await
            .map_err(|error| self.fleet.failed(&error))?;
        Ok(())
    }
}

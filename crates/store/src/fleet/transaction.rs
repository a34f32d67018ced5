//! Write transactions: all writes, or none.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use bailiwick_fleet::ports::{ChangeKind, FleetError, Requirement, Write, named_digests};
use bailiwick_resources::{AnyObject, Kind, Moment};
use serde::Serialize;
use sqlx::any::AnyRow;
use sqlx::{Any, Executor, Row as _};
use tokio::sync::MutexGuard;
use uuid::Uuid;

use super::Fleet;
use super::reindex::INDEX_VERSION;
use super::row::{COLUMNS, StoredObject, select_one};
use super::statements::{batches, signed};
use super::statuses::StatusBatch;
use super::terms::{DIGEST, Term, terms};
use crate::connections::{Connection, LEASE_LOST, WriteConnection};

pub(super) struct WriteTransaction<'a> {
    pub(super) fleet: &'a Fleet,
    transaction: WriteConnection,
    version: u64,
    /// Digests that an object no longer names; their bytes are deleted if no other object names them.
    dereferenced: BTreeSet<String>,
    /// Whether the index is of a newer program, which has to know of terms that this one writes.
    pub(super) marks_older_terms: bool,
    // The last field: the lock is released after the transaction.
    _lock: MutexGuard<'a, ()>,
}

impl Fleet {
    /// Starts a write transaction; nobody else can write until it ends.
    pub(super) async fn begin_write(&self) -> Result<WriteTransaction<'_>, FleetError> {
        self.begin_fenced_write(None).await
    }

    /// The same; fails if the lease with this epoch is lost.
    pub(super) async fn begin_fenced_write(
        &self,
        fence: Option<i64>,
    ) -> Result<WriteTransaction<'_>, FleetError> {
        let lock = self.write_lock.lock().await;
        self.check_file()?;
        let begun = WriteConnection::begin(&self.writer, self.database_kind.begin_write()).await;
        let mut transaction = begun.map_err(|error| self.write_failed(&error))?;
        let is_fenced = transaction.is_fenced(fence).await;
        if is_fenced.map_err(|error| self.write_failed(&error))? {
            transaction.rollback().await;
            return Err(self.unavailable(LEASE_LOST));
        }
        let (version, marks_older_terms) = self.beginning(&mut *transaction).await?;
        Ok(WriteTransaction {
            fleet: self,
            transaction,
            version,
            dereferenced: BTreeSet::new(),
            marks_older_terms,
            _lock: lock,
        })
    }

    pub(super) async fn version(
        &self,
        connection: impl Executor<'_, Database = Any>,
    ) -> Result<u64, FleetError> {
        let newest = "SELECT COALESCE(MAX(version), 0) FROM resource_changes";
        let row = sqlx::query(newest).fetch_one(connection).await;
        let version: i64 =
            row.and_then(|row| row.try_get(0)).map_err(|error| self.database_error(&error))?;
        Ok(version.unsigned_abs())
    }

    /// The version before a write, and whether the write has to be marked in the index.
    async fn beginning(
        &self,
        connection: impl Executor<'_, Database = Any>,
    ) -> Result<(u64, bool), FleetError> {
        let newest = "SELECT (SELECT COALESCE(MAX(version), 0) FROM resource_changes), \
                      (SELECT COUNT(*) FROM resource_index WHERE version > $1 AND has_older_terms = 0)";
        let row = sqlx::query(newest).bind(INDEX_VERSION).fetch_one(connection).await;
        let read = |row: AnyRow| Ok((row.try_get::<i64, _>(0)?, row.try_get::<i64, _>(1)?));
        let (version, newer_indexes) =
            row.and_then(read).map_err(|error: sqlx::Error| self.database_error(&error))?;
        Ok((version.unsigned_abs(), newer_indexes > 0))
    }

    pub(super) fn json(&self, value: &impl Serialize) -> Result<String, FleetError> {
        serde_json::to_string(value)
            .map_err(|error| self.unavailable(format!("cannot serialize to JSON: {error}")))
    }
}

impl WriteTransaction<'_> {
    /// Makes all writes durable and visible; returns the new version of the store.
    pub(crate) async fn commit(self) -> Result<u64, FleetError> {
        let Self { fleet, transaction, version, dereferenced: _, marks_older_terms: _, _lock } =
            self;
        transaction.commit().await.map_err(|error| fleet.write_failed(&error))?;
        // A write to a file that is not in its place any more is not acknowledged.
        fleet.check_file()?;
        fleet.has_failed.store(false, Ordering::Relaxed);
        fleet.announce_version(version);
        Ok(version)
    }

    /// Undoes all writes.
    pub(super) async fn rollback(self) {
        self.transaction.rollback().await;
    }

    /// Undoes all writes because of an error.
    pub(super) async fn abort(self, error: &FleetError) {
        if matches!(error, FleetError::Unavailable(_)) {
            self.fleet.has_failed.store(true, Ordering::Relaxed);
            // Dropped, it is closed: SQLite never writes on a connection that it opened on a read-only disk.
            return;
        }
        self.rollback().await;
    }

    pub(super) fn next_version(&mut self) -> u64 {
        self.version += 1;
        self.version
    }

    pub(super) fn connection(&mut self) -> &mut Connection {
        &mut self.transaction
    }

    /// Performs the writes; returns the created and changed objects.
    pub(super) async fn write_all(
        &mut self,
        writes: Vec<Write>,
        now: Moment,
    ) -> Result<Vec<AnyObject>, FleetError> {
        let mut objects = Vec::new();
        let mut statuses = StatusBatch::default();
        for write in writes {
            if !statuses.fits(&write) {
                objects.extend(self.set_statuses(std::mem::take(&mut statuses)).await?);
            }
            match write {
                Write::Require(required) => self.require(&required).await?,
                Write::Create(object) => objects.push(self.create(object, now).await?),
                Write::Replace(object) => objects.push(self.replace(object).await?),
                Write::Status(object) => statuses.add(object),
                Write::Delete { kind, namespace, name, version } => {
                    self.delete(kind, &namespace, &name, version).await?;
                }
                Write::Blob { digest, bytes } => self.store_blob(&digest, &bytes).await?,
                Write::Secret { namespace, name, values } => {
                    objects.push(self.set_secret(&namespace, &name, &values.0, now).await?);
                }
                Write::Token(token) => self.put_token(&token).await?,
                Write::Person(person) => self.put_person(&person).await?,
                Write::SaveFilter(filter) => self.put_filter(&filter).await?,
                Write::DeleteFilter { owner, name } => self.delete_filter(&owner, &name).await?,
                Write::Audit(entry) => self.append_audit(&entry).await?,
            }
        }
        objects.extend(self.set_statuses(statuses).await?);
        // At the end: another write may still name the same digest.
        self.delete_unreferenced_blobs().await?;
        Ok(objects)
    }

    /// Remembers the digests among index terms that an object no longer has.
    pub(super) fn mark_dereferenced<'t>(&mut self, terms: impl Iterator<Item = &'t Term>) {
        let digests = terms.filter(|(term, _)| term == DIGEST);
        self.dereferenced.extend(digests.map(|(_, digest)| digest.clone()));
    }

    /// The digests that were marked since the last call.
    pub(super) fn take_dereferenced(&mut self) -> BTreeSet<String> {
        std::mem::take(&mut self.dereferenced)
    }

    /// Nobody else writes before this transaction ends, so what holds here holds at the commit.
    async fn require(&mut self, required: &Requirement) -> Result<(), FleetError> {
        let found = self.find(required.kind, &required.namespace, &required.name).await?;
        required.check(found.map(|stored| stored.object.metadata.resource_version))
    }

    /// The stored object, if it has the expected version.
    pub(super) async fn find_version(
        &mut self,
        kind: Kind,
        namespace: &str,
        name: &str,
        expected: u64,
    ) -> Result<StoredObject, FleetError> {
        let stored = self.find(kind, namespace, name).await?.ok_or_else(|| {
            FleetError::NotFound { kind, namespace: namespace.to_owned(), name: name.to_owned() }
        })?;
        stored.check_version(expected)?;
        Ok(stored)
    }

    pub(super) async fn find(
        &mut self,
        kind: Kind,
        namespace: &str,
        name: &str,
    ) -> Result<Option<StoredObject>, FleetError> {
        let row = sqlx::query(sqlx::AssertSqlSafe(select_one()))
            .bind(kind.as_str())
            .bind(namespace)
            .bind(name)
            .fetch_optional(&mut *self.transaction)
            .await
            .map_err(|error| self.fleet.database_error(&error))?;
        row.map(|row| self.fleet.stored(kind, &row, 0)).transpose()
    }

    pub(super) async fn create(
        &mut self,
        object: AnyObject,
        now: Moment,
    ) -> Result<AnyObject, FleetError> {
        let object = self.initialize(object, now);
        if self.insert(std::slice::from_ref(&object)).await? == 0 {
            let kind = object.kind;
            let (namespace, name) = (object.metadata.namespace, object.metadata.name);
            return Err(FleetError::AlreadyExists { kind, namespace, name });
        }
        self.record_added(std::slice::from_ref(&object)).await?;
        Ok(object)
    }

    /// Sets the metadata of a new object.
    pub(super) fn initialize(&mut self, mut object: AnyObject, now: Moment) -> AnyObject {
        object.metadata.generation = 1;
        object.metadata.resource_version = self.next_version();
        object.metadata.creation_timestamp = Some(now);
        object.metadata.uid = Uuid::now_v7().to_string();
        object
    }

    /// Inserts new objects; returns how many did not exist before.
    pub(super) async fn insert(&mut self, objects: &[AnyObject]) -> Result<u64, FleetError> {
        let mut inserted = 0;
        for chunk in batches(objects) {
            let statement = format!(
                "INSERT INTO resources ({}) VALUES {} ON CONFLICT (kind, namespace, name) DO NOTHING",
                COLUMNS.join(", "),
                self.fleet.database_kind.row_placeholders(1, chunk.len(), COLUMNS.len())
            );
            let mut query = sqlx::query(sqlx::AssertSqlSafe(statement));
            for object in chunk {
                let metadata = &object.metadata;
                let created = metadata.creation_timestamp.unwrap_or_default();
                // `born` is the version of the creation.
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
            inserted += done.map_err(|error| self.fleet.database_error(&error))?.rows_affected();
        }
        Ok(inserted)
    }

    /// Indexes new objects and records their creation.
    pub(super) async fn record_added(&mut self, objects: &[AnyObject]) -> Result<(), FleetError> {
        let mut found = Vec::new();
        for object in objects {
            let born = object.metadata.resource_version;
            found.extend(terms(object).into_iter().map(|term| (term, born)));
        }
        self.index(&found).await?;
        self.record_changes(ChangeKind::Added, &objects.iter().collect::<Vec<_>>()).await
    }

    async fn replace(&mut self, given: AnyObject) -> Result<AnyObject, FleetError> {
        let metadata = given.metadata;
        let version = metadata.resource_version;
        let stored =
            self.find_version(given.kind, &metadata.namespace, &metadata.name, version).await?;
        let mut next = stored.object.clone();
        if next.spec != given.spec {
            next.metadata.generation += 1;
        }
        next.spec = given.spec;
        next.metadata.labels = metadata.labels;
        next.metadata.annotations = metadata.annotations;
        if next.kind == Kind::Secret {
            self.delete_unnamed_values(&next).await?;
        }
        self.update(stored, next).await
    }

    /// Replaces a stored object.
    pub(super) async fn update(
        &mut self,
        stored: StoredObject,
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
        .bind(signed(stored.created_version))
        .execute(&mut *self.transaction)
        .await
        .map_err(|error| self.fleet.database_error(&error))?;
        let (before, after) = (terms(&stored.object), terms(&next));
        self.unindex(before.difference(&after), stored.created_version).await?;
        self.mark_dereferenced(before.difference(&after));
        let new: Vec<(Term, u64)> =
            after.difference(&before).map(|term| (term.clone(), stored.created_version)).collect();
        self.index(&new).await?;
        self.record_changes(ChangeKind::Modified, &[&next]).await?;
        Ok(next)
    }

    async fn delete(
        &mut self,
        kind: Kind,
        namespace: &str,
        name: &str,
        version: u64,
    ) -> Result<(), FleetError> {
        let StoredObject { created_version, mut object } =
            self.find_version(kind, namespace, name, version).await?;
        sqlx::query("DELETE FROM resources WHERE born = $1")
            .bind(signed(created_version))
            .execute(&mut *self.transaction)
            .await
            .map_err(|error| self.fleet.database_error(&error))?;
        self.unindex(&terms(&object), created_version).await?;
        self.dereferenced.extend(named_digests(&object));
        if kind == Kind::Secret {
            self.delete_all_values(namespace, name).await?;
        }
        object.metadata.resource_version = self.next_version();
        self.record_changes(ChangeKind::Deleted, &[&object]).await
    }

    pub(super) async fn index(&mut self, found: &[(Term, u64)]) -> Result<(), FleetError> {
        if !found.is_empty() {
            self.mark_older_terms().await?;
        }
        for chunk in batches(found) {
            let rows = self.fleet.database_kind.row_placeholders(1, chunk.len(), 3);
            let statement = format!("INSERT INTO resource_terms (term, value, born) VALUES {rows}");
            let mut query = sqlx::query(sqlx::AssertSqlSafe(statement));
            for ((term, value), born) in chunk {
                query = query.bind(term.clone()).bind(value.clone()).bind(signed(*born));
            }
            let done = query.execute(&mut *self.transaction).await;
            done.map_err(|error| self.fleet.database_error(&error))?;
        }
        Ok(())
    }

    async fn unindex(
        &mut self,
        removed: impl IntoIterator<Item = &Term>,
        born: u64,
    ) -> Result<(), FleetError> {
        let removed: BTreeSet<&Term> = removed.into_iter().collect();
        if !removed.is_empty() {
            self.mark_older_terms().await?;
        }
        for (term, value) in removed {
            let statement =
                "DELETE FROM resource_terms WHERE term = $1 AND value = $2 AND born = $3";
            sqlx::query(statement)
                .bind(term)
                .bind(value)
                .bind(signed(born))
                .execute(&mut *self.transaction)
                .await
                .map_err(|error| self.fleet.database_error(&error))?;
        }
        Ok(())
    }

    /// Records the changes of objects, each under its current version.
    pub(super) async fn record_changes(
        &mut self,
        kind: ChangeKind,
        objects: &[&AnyObject],
    ) -> Result<(), FleetError> {
        let kind = match kind {
            ChangeKind::Added => "ADDED",
            ChangeKind::Modified => "MODIFIED",
            ChangeKind::Deleted => "DELETED",
        };
        for chunk in batches(objects) {
            let rows = self.fleet.database_kind.row_placeholders(1, chunk.len(), 3);
            let statement =
                format!("INSERT INTO resource_changes (version, change, object) VALUES {rows}");
            let mut query = sqlx::query(sqlx::AssertSqlSafe(statement));
            for object in chunk {
                let version = signed(object.metadata.resource_version);
                query = query.bind(version).bind(kind).bind(self.fleet.json(object)?);
            }
            let done = query.execute(&mut *self.transaction).await;
            done.map_err(|error| self.fleet.database_error(&error))?;
        }
        Ok(())
    }
}

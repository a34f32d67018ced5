//! Rebuilds the index if this program indexes other fields than the programs that wrote the database.
//!
//! While servers are updated one after the other, programs of two versions write. An older one leaves the list of a
//! newer one alone, and marks that it has written terms of its own list. The next leader of the newer version then
//! rebuilds the index.

use bailiwick_fleet::ports::{FleetError, indexed_fields};
use bailiwick_resources::Kind;
use sqlx::Row as _;
use sqlx::any::AnyRow;

use super::Fleet;
use super::row::columns;
use super::terms::{DIGEST, terms};
use super::transaction::WriteTransaction;

/// How many objects are read at a time.
const BATCH_SIZE: i64 = 500;

const READ_STATE: &str = "SELECT fields, version, has_older_terms FROM resource_index";

/// The version of the list of indexed fields. Each change of the list raises it.
pub(super) const INDEX_VERSION: i64 = 1;

/// When the index is rebuilt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rebuild {
    /// If other fields were indexed.
    OtherFields,
    /// The same, and if an older program has written since.
    OlderTerms,
}

/// What the database says of its index.
struct IndexState {
    fields: String,
    version: i64,
    has_older_terms: bool,
}

/// What is to be done with the index.
#[derive(Debug, PartialEq, Eq)]
enum IndexAction {
    Keep,
    /// The same fields under an older version.
    SetVersion,
    Rebuild,
}

/// A description of the fields that this program indexes.
fn indexed_field_list() -> String {
    let of_kind = |kind: &Kind| {
        let fields = indexed_fields(*kind).iter();
        fields.map(|(name, pointer)| format!("{kind}.{name}={pointer}\n")).collect::<String>()
    };
    Kind::ALL.iter().map(of_kind).chain([DIGEST.to_owned(), "escaped".to_owned()]).collect()
}

impl IndexState {
    fn read(row: &AnyRow) -> Result<Self, sqlx::Error> {
        Ok(Self {
            fields: row.try_get(0)?,
            version: row.try_get(1)?,
            has_older_terms: row.try_get::<i64, _>(2)? != 0,
        })
    }

    /// The index of a newer program is never changed back.
    fn action(&self, rebuild: Rebuild, wanted: &str) -> IndexAction {
        if self.version > INDEX_VERSION {
            return IndexAction::Keep;
        }
        if self.fields != wanted || (rebuild == Rebuild::OlderTerms && self.has_older_terms) {
            return IndexAction::Rebuild;
        }
        match self.version == INDEX_VERSION {
            true => IndexAction::Keep,
            false => IndexAction::SetVersion,
        }
    }
}

impl Fleet {
    /// Rebuilds the index if that is necessary.
    pub(crate) async fn check_index(&self, rebuild: Rebuild) -> Result<(), FleetError> {
        let wanted = indexed_field_list();
        let found = sqlx::query(READ_STATE).fetch_one(&self.pool).await;
        let found = self.index_state(found)?;
        if found.action(rebuild, &wanted) == IndexAction::Keep {
            return Ok(());
        }
        let mut transaction = self.begin_write().await?;
        match transaction.refresh_index(rebuild, &wanted).await {
            Ok(()) => transaction.commit().await.map(drop),
            Err(error) => {
                transaction.abort(&error).await;
                Err(error)
            }
        }
    }

    fn index_state(&self, row: Result<AnyRow, sqlx::Error>) -> Result<IndexState, FleetError> {
        row.and_then(|row| IndexState::read(&row)).map_err(|error| self.database_error(&error))
    }
}

impl WriteTransaction<'_> {
    /// Another program may have updated the index before this transaction began.
    async fn refresh_index(&mut self, rebuild: Rebuild, wanted: &str) -> Result<(), FleetError> {
        let fleet = self.fleet;
        let found = sqlx::query(READ_STATE).fetch_one(self.connection()).await;
        match fleet.index_state(found)?.action(rebuild, wanted) {
            IndexAction::Keep => return Ok(()),
            IndexAction::SetVersion => {}
            IndexAction::Rebuild => self.rebuild_index().await?,
        }
        let statement = "UPDATE resource_index SET fields = $1, version = $2, has_older_terms = 0";
        let done = sqlx::query(statement).bind(wanted).bind(INDEX_VERSION);
        let done = done.execute(self.connection()).await;
        done.map(drop).map_err(|error| fleet.database_error(&error))
    }

    /// Records that terms of the list of this program were written into the index of a newer program.
    pub(super) async fn mark_older_terms(&mut self) -> Result<(), FleetError> {
        if !std::mem::take(&mut self.marks_older_terms) {
            return Ok(());
        }
        let fleet = self.fleet;
        let statement = "UPDATE resource_index SET has_older_terms = 1";
        let done = sqlx::query(statement).execute(self.connection()).await;
        done.map(drop).map_err(|error| fleet.database_error(&error))
    }

    async fn rebuild_index(&mut self) -> Result<(), FleetError> {
        let fleet = self.fleet;
        let deleted = sqlx::query("DELETE FROM resource_terms").execute(self.connection()).await;
        deleted.map_err(|error| fleet.database_error(&error))?;
        let mut after = 0;
        loop {
            let statement = format!(
                "SELECT kind, {} FROM resources r WHERE born > $1 ORDER BY born LIMIT $2",
                columns("r")
            );
            let query = sqlx::query(sqlx::AssertSqlSafe(statement)).bind(after).bind(BATCH_SIZE);
            let rows = query.fetch_all(self.connection()).await;
            let rows = rows.map_err(|error| fleet.database_error(&error))?;
            let mut found = Vec::new();
            for row in &rows {
                let read = || Ok((row.try_get(1)?, row.try_get(0)?));
                let (born, word): (i64, String) =
                    read().map_err(|error: sqlx::Error| fleet.database_error(&error))?;
                let kind = Kind::ALL.iter().find(|kind| kind.as_str() == word);
                let kind =
                    kind.ok_or_else(|| fleet.unavailable(format!("`{word}` is not a kind")))?;
                let stored = fleet.stored(*kind, row, 1)?;
                found.extend(
                    terms(&stored.object).into_iter().map(|term| (term, stored.created_version)),
                );
                after = born;
            }
            if rows.is_empty() {
                break;
            }
            self.index(&found).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use bailiwick_model::digest::Sha256Hex;

    use super::{INDEX_VERSION, IndexAction, IndexState, Rebuild, indexed_field_list};

    /// The version of the list, and the digest that it has in that version.
    const KNOWN_LIST: (i64, &str) = (1, "fcb514e12be277e9");

    #[test]
    fn every_change_of_the_indexed_fields_raises_the_version() {
        let digest = Sha256Hex::of(indexed_field_list());
        assert_eq!((INDEX_VERSION, digest.prefix(16)), KNOWN_LIST, "raise INDEX_VERSION");
    }

    #[test]
    fn index_of_a_newer_program_is_kept() {
        let state = |version: i64, fields: &str, has_older_terms: bool| IndexState {
            fields: fields.to_owned(),
            version,
            has_older_terms,
        };
        let (newer, same, older) = (INDEX_VERSION + 1, INDEX_VERSION, INDEX_VERSION - 1);
        for rebuild in [Rebuild::OtherFields, Rebuild::OlderTerms] {
            assert_eq!(state(newer, "other", true).action(rebuild, "own"), IndexAction::Keep);
            assert_eq!(state(same, "own", false).action(rebuild, "own"), IndexAction::Keep);
            assert_eq!(state(same, "other", false).action(rebuild, "own"), IndexAction::Rebuild);
            assert_eq!(state(older, "other", false).action(rebuild, "own"), IndexAction::Rebuild);
            assert_eq!(state(older, "own", false).action(rebuild, "own"), IndexAction::SetVersion);
        }
        let written = state(same, "own", true);
        assert_eq!(written.action(Rebuild::OtherFields, "own"), IndexAction::Keep);
        assert_eq!(written.action(Rebuild::OlderTerms, "own"), IndexAction::Rebuild);
    }
}

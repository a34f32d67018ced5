//! Making the terms anew when a program indexes other fields than the one that wrote them: an object
//! that is not found by a field that it has would be as good as lost.

use bailiwick_fleet::ports::{FleetError, indexed_fields};
use bailiwick_resources::Kind;
use sqlx::Row as _;

use super::Fleet;
use super::draft::Draft;
use super::row::columns;
use super::terms::{DIGEST, terms};

/// How many objects are read at a time.
const AT_ONCE: i64 = 500;

/// The fields that are indexed by this program.
fn fields() -> String {
    let of_kind = |kind: &Kind| {
        let fields = indexed_fields(*kind).iter();
        fields.map(|(name, pointer)| format!("{kind}.{name}={pointer}\n")).collect::<String>()
    };
    Kind::ALL.iter().map(of_kind).chain([DIGEST.to_owned()]).collect()
}

impl Fleet {
    /// Indexes everything anew if other fields were indexed.
    pub(crate) async fn check_index(&self) -> Result<(), FleetError> {
        let known = sqlx::query("SELECT fields FROM resource_index").fetch_one(&self.pool).await;
        let known: String =
            known.and_then(|row| row.try_get(0)).map_err(|error| self.failed(&error))?;
        let wanted = fields();
        if known == wanted {
            return Ok(());
        }
        let mut draft = self.draft().await?;
        match draft.index_all(&wanted).await {
            Ok(()) => draft.keep().await.map(drop),
            Err(error) => {
                draft.drop_all().await;
                Err(error)
            }
        }
    }
}

impl Draft<'_> {
    async fn index_all(&mut self, fields: &str) -> Result<(), FleetError> {
        let fleet = self.fleet;
        let gone = sqlx::query("DELETE FROM resource_terms").execute(self.connection()).await;
        gone.map_err(|error| fleet.failed(&error))?;
        let mut after = 0;
        loop {
            let statement = format!(
                "SELECT kind, {} FROM resources r WHERE born > $1 ORDER BY born LIMIT $2",
                columns("r")
            );
            let query = sqlx::query(sqlx::AssertSqlSafe(statement)).bind(after).bind(AT_ONCE);
            let rows = query.fetch_all(self.connection()).await;
            let rows = rows.map_err(|error| fleet.failed(&error))?;
            let mut found = Vec::new();
            for row in &rows {
                let read = || Ok((row.try_get(1)?, row.try_get(0)?));
                let (born, word): (i64, String) =
                    read().map_err(|error: sqlx::Error| fleet.failed(&error))?;
                let kind = Kind::ALL.iter().find(|kind| kind.as_str() == word);
                let kind = kind.ok_or_else(|| fleet.broken(format!("`{word}` is no kind")))?;
                let kept = fleet.kept(*kind, row, 1)?;
                found.extend(terms(&kept.object).into_iter().map(|term| (term, kept.born)));
                after = born;
            }
            if rows.is_empty() {
                break;
            }
            self.index(&found).await?;
        }
        let statement = "UPDATE resource_index SET fields = $1";
        let done = sqlx::query(statement).bind(fields).execute(self.connection()).await;
        done.map_err(|error| fleet.failed(&error))?;
        Ok(())
    }
}

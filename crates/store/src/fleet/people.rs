//! The people who have signed in, and their groups.

use bailiwick_fleet::ports::{FleetError, PersonRecord};
use bailiwick_resources::Moment;
use sqlx::Row as _;
use sqlx::any::AnyRow;

use super::Fleet;
use super::statements::signed;
use super::transaction::WriteTransaction;
use crate::sql::{escaped, unescaped};

impl WriteTransaction<'_> {
    /// Inserts or replaces a person.
    pub(super) async fn put_person(&mut self, person: &PersonRecord) -> Result<(), FleetError> {
        let fleet = self.fleet;
        sqlx::query(
            "INSERT INTO people (name, groups, signed_in_at, valid_until) VALUES ($1, $2, $3, $4) \
             ON CONFLICT (name) DO UPDATE SET groups = excluded.groups, \
             signed_in_at = excluded.signed_in_at, valid_until = excluded.valid_until",
        )
        .bind(escaped(&person.name))
        .bind(fleet.json(&person.groups)?)
        .bind(signed(person.signed_in_at.millis()))
        .bind(signed(person.valid_until.millis()))
        .execute(self.connection())
        .await
        .map_err(|error| fleet.database_error(&error))?;
        Ok(())
    }
}

impl Fleet {
    pub(crate) async fn people(&self) -> Result<Vec<PersonRecord>, FleetError> {
        let statement = "SELECT name, groups, signed_in_at, valid_until FROM people ORDER BY name";
        let rows = sqlx::query(statement).fetch_all(&self.pool).await;
        let rows = rows.map_err(|error| self.database_error(&error))?;
        rows.iter().map(|row| self.parse_person(row)).collect()
    }

    fn parse_person(&self, row: &AnyRow) -> Result<PersonRecord, FleetError> {
        let read = || -> Result<PersonRecord, Box<dyn std::error::Error>> {
            let moment = |column: usize| -> Result<Moment, sqlx::Error> {
                Ok(Moment::from_millis(row.try_get::<i64, _>(column)?.unsigned_abs()))
            };
            Ok(PersonRecord {
                name: unescaped(row.try_get(0)?),
                groups: serde_json::from_str(&row.try_get::<String, _>(1)?)?,
                signed_in_at: moment(2)?,
                valid_until: moment(3)?,
            })
        };
        read().map_err(|error| self.unavailable(format!("a person cannot be read: {error}")))
    }
}

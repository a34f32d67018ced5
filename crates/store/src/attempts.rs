//! Attempts and the events of runs.

use bailiwick_lifecycle::ports::StoreError;
use bailiwick_model::attempt::{Allowance, Attempt, Used};
use bailiwick_model::event::{ExitReason, Phase};
use bailiwick_model::{AgentId, Event, LedgerNote};
use serde::Serialize;
use serde::de::DeserializeOwned;
use sqlx::Row;
use sqlx::any::AnyRow;

use crate::open::Store;
use crate::sql::storable;

const COLUMNS: &str = "run, number, cli, version, model, login, sandbox, session, phase, ending, \
                       detail, started_at, ended_at, tokens, micro_usd, turns, tool_calls, denied, \
                       budget, exhausted";

/// How many events one transaction deletes, so that other writers do not wait long.
const DELETE_BATCH_SIZE: i64 = 5_000;

impl Store {
    /// Records the start of an attempt; returns its number within its run.
    pub async fn begin_attempt(&self, attempt: &Attempt) -> Result<u64, StoreError> {
        let mut transaction = self.begin_write().await?;
        let row = sqlx::query("SELECT COALESCE(MAX(number), 0) + 1 FROM attempts WHERE run = $1")
            .bind(attempt.run.as_str())
            .fetch_one(&mut *transaction)
            .await
            .map_err(|error| self.error(&error))?;
        let number: i64 = row.try_get(0).map_err(|error| self.error(&error))?;
        sqlx::query(
            "INSERT INTO attempts (run, number, cli, version, model, login, sandbox, session, \
             phase, started_at, budget) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)",
        )
        .bind(attempt.run.as_str())
        .bind(number)
        .bind(&attempt.cli)
        .bind(&attempt.version)
        .bind(&attempt.model)
        .bind(&attempt.login)
        .bind(&attempt.sandbox)
        .bind(attempt.session.as_deref())
        .bind(serde_name(&attempt.phase))
        .bind(signed(attempt.started_at))
        .bind(serde_json::to_string(&attempt.budget).unwrap_or_default())
        .execute(&mut *transaction)
        .await
        .map_err(|error| self.error(&error))?;
        transaction.commit().await.map_err(|error| self.error(&error))?;
        Ok(number.unsigned_abs())
    }

    /// Updates the state of an attempt, not its identity.
    pub async fn update_attempt(&self, attempt: &Attempt) -> Result<(), StoreError> {
        let used = &attempt.used;
        let mut transaction = self.begin_write().await?;
        let updated = sqlx::query(
            "UPDATE attempts SET session = $1, phase = $2, ending = $3, detail = $4, ended_at = $5, \
             tokens = $6, micro_usd = $7, turns = $8, tool_calls = $9, denied = $10, budget = $11, \
             model = $12, exhausted = $13 WHERE run = $14 AND number = $15",
        )
        .bind(attempt.session.as_deref())
        .bind(serde_name(&attempt.phase))
        .bind(attempt.ending.map(ExitReason::as_str))
        .bind(storable(&attempt.detail).into_owned())
        .bind(attempt.ended_at.map(signed))
        .bind(signed(used.tokens))
        .bind(signed(used.micro_usd))
        .bind(signed(used.turns))
        .bind(signed(used.tool_calls))
        .bind(signed(used.denied))
        .bind(serde_json::to_string(&attempt.budget).unwrap_or_default())
        .bind(&attempt.model)
        .bind(attempt.exhausted.map(|exhausted| serde_name(&exhausted)))
        .bind(attempt.run.as_str())
        .bind(signed(attempt.number))
        .execute(&mut *transaction)
        .await
        .map_err(|error| self.error(&error))?;
        if updated.rows_affected() == 0 {
            let why = format!("run `{}` has no attempt {}", attempt.run, attempt.number);
            return Err(StoreError::Database { database: self.location.to_string(), why });
        }
        transaction.commit().await.map_err(|error| self.error(&error))
    }

    /// The attempts of a run, or of all runs, in order.
    pub async fn attempts(&self, run: Option<&AgentId>) -> Result<Vec<Attempt>, StoreError> {
        // Two statements: a combined one would scan all rows to find those of one run.
        let only = if run.is_some() { "WHERE run = $1 " } else { "" };
        let query = format!("SELECT {COLUMNS} FROM attempts {only}ORDER BY run, number");
        let mut query = sqlx::query(sqlx::AssertSqlSafe(query));
        if let Some(run) = run {
            query = query.bind(run.as_str());
        }
        let rows = query.fetch_all(&self.pool).await.map_err(|error| self.error(&error))?;
        rows.iter().map(|row| self.attempt(row)).collect()
    }

    /// The attempts that have not ended, of all runs.
    pub async fn open_attempts(&self) -> Result<Vec<Attempt>, StoreError> {
        let query =
            format!("SELECT {COLUMNS} FROM attempts WHERE ending IS NULL ORDER BY run, number");
        let rows = sqlx::query(sqlx::AssertSqlSafe(query)).fetch_all(&self.pool).await;
        rows.map_err(|error| self.error(&error))?.iter().map(|row| self.attempt(row)).collect()
    }

    fn attempt(&self, row: &AnyRow) -> Result<Attempt, StoreError> {
        let read = || -> Result<Attempt, Box<dyn std::error::Error>> {
            let number = |column: usize| -> Result<u64, sqlx::Error> {
                Ok(row.try_get::<i64, _>(column)?.unsigned_abs())
            };
            let ending: Option<String> = row.try_get(9)?;
            let exhausted: Option<String> = row.try_get(19)?;
            Ok(Attempt {
                run: AgentId::parse(&row.try_get::<String, _>(0)?)?,
                number: number(1)?,
                cli: row.try_get(2)?,
                version: row.try_get(3)?,
                model: row.try_get(4)?,
                login: row.try_get(5)?,
                sandbox: row.try_get(6)?,
                session: row.try_get(7)?,
                phase: from_serde_name::<Phase>(&row.try_get::<String, _>(8)?)?,
                ending: ending.as_deref().map(from_serde_name::<ExitReason>).transpose()?,
                detail: row.try_get(10)?,
                exhausted: exhausted.as_deref().map(from_serde_name).transpose()?,
                started_at: number(11)?,
                ended_at: row.try_get::<Option<i64>, _>(12)?.map(i64::unsigned_abs),
                used: Used {
                    tokens: number(13)?,
                    micro_usd: number(14)?,
                    turns: number(15)?,
                    tool_calls: number(16)?,
                    denied: number(17)?,
                },
                budget: serde_json::from_str::<Allowance>(&row.try_get::<String, _>(18)?)?,
            })
        };
        read().map_err(|error| StoreError::Database {
            database: self.location.to_string(),
            why: format!("a row of attempts cannot be read: {error}"),
        })
    }

    /// Appends events of a run in this order, and sets their numbers.
    pub async fn append_events(
        &self,
        run: &AgentId,
        events: &mut [Event],
    ) -> Result<(), StoreError> {
        let mut transaction = self.begin_write().await?;
        let row = sqlx::query("SELECT COALESCE(MAX(number), 0) FROM events WHERE run = $1")
            .bind(run.as_str())
            .fetch_one(&mut *transaction)
            .await
            .map_err(|error| self.error(&error))?;
        let mut number: i64 = row.try_get(0).map_err(|error| self.error(&error))?;
        let mut numbers = Vec::with_capacity(events.len());
        for event in events.iter() {
            number += 1;
            let detail = serde_json::to_string(event).map_err(|error| StoreError::Database {
                database: self.location.to_string(),
                why: format!("an event cannot be written as JSON: {error}"),
            })?;
            sqlx::query(
                "INSERT INTO events (run, number, at, kind, detail, listed) \
                 VALUES ($1, $2, $3, $4, $5, 1)",
            )
            .bind(run.as_str())
            .bind(number)
            .bind(signed(event.at))
            .bind(event.what.kind())
            .bind(detail)
            .execute(&mut *transaction)
            .await
            .map_err(|error| self.error(&error))?;
            numbers.push(number.unsigned_abs());
        }
        transaction.commit().await.map_err(|error| self.error(&error))?;
        for (event, number) in events.iter_mut().zip(numbers) {
            event.number = number;
        }
        Ok(())
    }

    /// The events of a run after number `after`, at most `limit`.
    pub async fn run_events(
        &self,
        run: &AgentId,
        after: u64,
        limit: u32,
    ) -> Result<Vec<Event>, StoreError> {
        let rows = sqlx::query(
            "SELECT number, detail FROM events WHERE run = $1 AND number > $2 AND listed = 1 \
             ORDER BY number LIMIT $3",
        )
        .bind(run.as_str())
        .bind(signed(after))
        .bind(i64::from(limit))
        .fetch_all(&self.pool)
        .await
        .map_err(|error| self.error(&error))?;
        self.read_events(&rows)
    }

    /// The last events of a kind of a run, at most `limit`, in order.
    pub async fn events_of_kind(
        &self,
        run: &AgentId,
        kind: &str,
        limit: u32,
    ) -> Result<Vec<Event>, StoreError> {
        let rows = sqlx::query(
            "SELECT number, detail FROM events WHERE run = $1 AND kind = $2 AND listed = 1 \
             ORDER BY number DESC LIMIT $3",
        )
        .bind(run.as_str())
        .bind(kind)
        .bind(i64::from(limit))
        .fetch_all(&self.pool)
        .await
        .map_err(|error| self.error(&error))?;
        let mut events = self.read_events(&rows)?;
        events.reverse();
        Ok(events)
    }

    fn read_events(&self, rows: &[AnyRow]) -> Result<Vec<Event>, StoreError> {
        let read = |row: &AnyRow| -> Result<Event, Box<dyn std::error::Error>> {
            let number: i64 = row.try_get(0)?;
            let event: Event = serde_json::from_str(&row.try_get::<String, _>(1)?)?;
            Ok(Event { number: number.unsigned_abs(), ..event })
        };
        let events: Result<Vec<Event>, _> = rows.iter().map(read).collect();
        events.map_err(|error| StoreError::Database {
            database: self.location.to_string(),
            why: format!("an event cannot be read: {error}"),
        })
    }
}

impl Store {
    /// The number of the last event of a run; 0 if there is none.
    pub async fn last_event(&self, run: &AgentId) -> Result<u64, StoreError> {
        let row = sqlx::query(
            "SELECT COALESCE(MAX(number), 0) FROM events WHERE run = $1 AND listed = 1",
        )
        .bind(run.as_str())
        .fetch_one(&self.pool)
        .await
        .map_err(|error| self.error(&error))?;
        let number: i64 = row.try_get(0).map_err(|error| self.error(&error))?;
        Ok(number.unsigned_abs())
    }

    /// Deletes the event stream of a run, not its notes; returns how many events were deleted.
    pub async fn delete_events(&self, run: &AgentId) -> Result<u64, StoreError> {
        let mut deleted = 0;
        loop {
            let mut transaction = self.begin_write().await?;
            let count = sqlx::query(
                "DELETE FROM events WHERE run = $1 AND listed = 1 AND number < $2 + \
                 (SELECT MIN(number) FROM events WHERE run = $3 AND listed = 1)",
            )
            .bind(run.as_str())
            .bind(DELETE_BATCH_SIZE)
            .bind(run.as_str())
            .execute(&mut *transaction)
            .await
            .map_err(|error| self.error(&error))?
            .rows_affected();
            transaction.commit().await.map_err(|error| self.error(&error))?;
            if count == 0 {
                return Ok(deleted);
            }
            deleted += count;
        }
    }

    /// The last note of a run with one of these kinds: its time in milliseconds, kind and text.
    pub async fn last_run_note(
        &self,
        run: &AgentId,
        kinds: (LedgerNote, LedgerNote),
    ) -> Result<Option<(u64, String, String)>, StoreError> {
        let row = sqlx::query(
            "SELECT at, kind, detail FROM events WHERE run = $1 AND kind IN ($2, $3) \
             ORDER BY number DESC LIMIT 1",
        )
        .bind(run.as_str())
        .bind(kinds.0.as_str())
        .bind(kinds.1.as_str())
        .fetch_optional(&self.pool)
        .await
        .map_err(|error| self.error(&error))?;
        let read = |row: AnyRow| -> Result<(u64, String, String), sqlx::Error> {
            let at: i64 = row.try_get(0)?;
            Ok((at.unsigned_abs(), row.try_get(1)?, row.try_get(2)?))
        };
        row.map(read).transpose().map_err(|error| self.error(&error))
    }
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// The serde name of an enum value.
fn serde_name(value: &impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word,
        Ok(_) | Err(_) => String::new(),
    }
}

fn from_serde_name<T: DeserializeOwned>(word: &str) -> Result<T, serde_json::Error> {
    serde_json::from_value(serde_json::Value::String(word.to_owned()))
}

//! Claims: exclusive leases on paths. What each function decides is decided by `control`, inside of
//! the one transaction that reads what is there and writes what follows.

use std::collections::BTreeSet;

use bailiwick_lifecycle::delegation::claim::{
    Acquired, Holding, Released, Wish, holding, obstacles, overtaken,
};
use bailiwick_lifecycle::ports::StoreError;
use bailiwick_model::claim::{Claim, Fence, Outcome, Release};
use bailiwick_model::globs::Area;
use bailiwick_model::{AgentId, Run};
use sqlx::any::AnyRow;
use sqlx::{Any, Row, Transaction};

use crate::open::Store;

const COLUMNS: &str =
    "fence, run, line, repository, inside, outside, taken_at, leased_until, outcome, released_at";

/// How many values one query is given.
const CHUNK: usize = 500;

/// Which claims are looked at.
#[derive(Debug, Clone, Copy)]
enum Near {
    /// Those that have not ended.
    Open,
    /// All that came after this one.
    After(Fence),
}

impl Store {
    /// Takes a claim, all of it or nothing. A run that has it already keeps its fence, as long as
    /// nobody else was there meanwhile.
    pub async fn acquire(&self, wish: &Wish, now: u64) -> Result<Acquired, StoreError> {
        let mut transaction = self.writing().await?;
        let near = self.near(&mut transaction, &wish.repository, &wish.area(), Near::Open).await?;
        let obstacles = obstacles(wish, &near, now);
        if !obstacles.is_empty() {
            return Ok(Acquired::Obstructed(obstacles));
        }
        for fence in overtaken(wish, &near, now) {
            self.end(&mut transaction, fence, Outcome::Expired, now).await?;
        }
        let own = self.newest(&mut transaction, &wish.run, &wish.repository).await?;
        let same = |own: &Claim| own.inside == wish.inside && own.except == wish.except;
        if let Some(own) = own {
            let holds = self.holding(&mut transaction, &own).await?;
            if holds == Holding::Holds && same(&own) {
                let until = now.saturating_add(wish.lease);
                let claim = self.lengthen(&mut transaction, own, until).await?;
                self.commit(transaction).await?;
                return Ok(Acquired::Renewed(claim));
            }
            if own.release.is_none() {
                self.end(&mut transaction, own.fence, Outcome::Conflict, now).await?;
            }
        }
        let fence = self.next_fence(&mut transaction).await?;
        let claim = wish.granted(fence, now);
        self.insert_claim(&mut transaction, &claim).await?;
        self.commit(transaction).await?;
        Ok(Acquired::Granted(claim))
    }

    /// Keeps the newest claim of a run until this time, if it still holds, and says whether it does.
    /// From then on nobody else can take it before that time; so this is what a landing asks.
    pub async fn hold_claim(
        &self,
        run: &AgentId,
        repository: &str,
        until: u64,
    ) -> Result<Option<(Claim, Holding)>, StoreError> {
        let mut transaction = self.writing().await?;
        let Some(own) = self.newest(&mut transaction, run, repository).await? else {
            return Ok(None);
        };
        match self.holding(&mut transaction, &own).await? {
            Holding::Holds => {
                let claim = self.lengthen(&mut transaction, own, until).await?;
                self.commit(transaction).await?;
                Ok(Some((claim, Holding::Holds)))
            }
            holding @ (Holding::Released(_) | Holding::Stale(_)) => Ok(Some((own, holding))),
        }
    }

    /// Ends a claim; one that has ended stays as it is.
    pub async fn release(
        &self,
        fence: Fence,
        outcome: Outcome,
        now: u64,
    ) -> Result<Released, StoreError> {
        let mut transaction = self.writing().await?;
        let found = self.claims_of(&mut transaction, &[fence]).await?.into_iter().next();
        match found {
            None => Ok(Released::Unknown),
            Some(claim) if claim.release.is_some() => Ok(Released::Before(claim)),
            Some(claim) => {
                self.end(&mut transaction, fence, outcome, now).await?;
                self.commit(transaction).await?;
                let release = Some(Release { outcome, at: now });
                Ok(Released::Now(Claim { release, ..claim }))
            }
        }
    }

    /// Ends all claims of a run, and says how many there were.
    pub async fn release_run(
        &self,
        run: &AgentId,
        outcome: Outcome,
        now: u64,
    ) -> Result<usize, StoreError> {
        let mut transaction = self.writing().await?;
        let ended = self.end_all_of(&mut transaction, run, outcome, now).await?;
        self.commit(transaction).await?;
        Ok(ended)
    }

    /// The same within something larger: a run and its claims end together.
    pub(crate) async fn end_all_of(
        &self,
        transaction: &mut Transaction<'_, Any>,
        run: &AgentId,
        outcome: Outcome,
        now: u64,
    ) -> Result<usize, StoreError> {
        let open = "SELECT fence FROM claims WHERE run = $1 AND outcome IS NULL";
        let rows = sqlx::query(open).bind(run.as_str()).fetch_all(&mut **transaction).await;
        let fences = self.fences(&rows.map_err(|error| self.error(&error))?)?;
        for fence in &fences {
            self.end(transaction, *fence, outcome, now).await?;
        }
        Ok(fences.len())
    }

    /// Ends the claims whose time is over; gives their fences. Their runs can have them again as long
    /// as nobody else has taken them.
    pub async fn expire(&self, now: u64) -> Result<Vec<Fence>, StoreError> {
        let mut transaction = self.writing().await?;
        let over = "SELECT fence FROM claims WHERE outcome IS NULL AND leased_until <= $1 \
                    ORDER BY fence";
        let rows = sqlx::query(over).bind(signed(now)).fetch_all(&mut *transaction).await;
        let fences = self.fences(&rows.map_err(|error| self.error(&error))?)?;
        for fence in &fences {
            self.end(&mut transaction, *fence, Outcome::Expired, now).await?;
        }
        self.commit(transaction).await?;
        Ok(fences)
    }

    /// All claims, oldest first; those of one repository if it is given.
    pub async fn claims(&self, repository: Option<&str>) -> Result<Vec<Claim>, StoreError> {
        let query =
            format!("SELECT {COLUMNS} FROM claims WHERE $1 = '' OR repository = $2 ORDER BY fence");
        let wanted = repository.unwrap_or_default();
        let rows = sqlx::query(sqlx::AssertSqlSafe(query)).bind(wanted).bind(wanted);
        let rows = rows.fetch_all(&self.pool).await.map_err(|error| self.error(&error))?;
        rows.iter().map(|row| self.claim(row)).collect()
    }

    /// The runs that one was started by, at whatever distance, nearest first. A run that is not in the
    /// ledger yet is looked up by the one above it.
    pub async fn line(&self, parent: Option<&AgentId>) -> Result<Vec<AgentId>, StoreError> {
        let Some(parent) = parent else { return Ok(Vec::new()) };
        match self.ancestors(parent).await {
            Ok(line) => Ok(line.into_iter().map(|run: Run| run.id).collect()),
            Err(StoreError::NoSuchRun { .. }) => Ok(vec![parent.clone()]),
            Err(
                error @ (StoreError::IdTaken { .. }
                | StoreError::NameTaken { .. }
                | StoreError::Illegal { .. }
                | StoreError::TooNew { .. }
                | StoreError::Database { .. }),
            ) => Err(error),
        }
    }

    async fn holding(
        &self,
        transaction: &mut Transaction<'_, Any>,
        own: &Claim,
    ) -> Result<Holding, StoreError> {
        let after = Near::After(own.fence);
        let later = self.near(transaction, &own.repository, &own.area(), after).await?;
        Ok(holding(own, &later))
    }

    /// The claims of a repository that an area can meet, as far as beginnings tell.
    async fn near(
        &self,
        transaction: &mut Transaction<'_, Any>,
        repository: &str,
        area: &Area,
        which: Near,
    ) -> Result<Vec<Claim>, StoreError> {
        let (open, after): (&[i64], Fence) = match which {
            Near::Open => (&[1], Fence(0)),
            Near::After(fence) => (&[1, 0], fence),
        };
        let mut fences = BTreeSet::new();
        for beginning in shortest(&area.beginnings()) {
            let above = above(beginning);
            let list = placeholders(6, above.len());
            let query = format!(
                "SELECT fence FROM claim_beginnings WHERE repository = $1 AND is_open = $2 \
                 AND fence > $3 AND beginning >= $4 AND beginning < $5 \
                 UNION SELECT fence FROM claim_beginnings WHERE repository = $1 AND is_open = $2 \
                 AND fence > $3 AND beginning IN ({list})"
            );
            for open in open {
                let mut rows = sqlx::query(sqlx::AssertSqlSafe(query.clone()))
                    .bind(repository)
                    .bind(open)
                    .bind(signed(after.0))
                    .bind(beginning)
                    .bind(format!("{beginning}\u{10ffff}"));
                for above in &above {
                    rows = rows.bind(*above);
                }
                let rows = rows.fetch_all(&mut **transaction).await;
                fences.extend(self.fences(&rows.map_err(|error| self.error(&error))?)?);
            }
        }
        let fences: Vec<Fence> = fences.into_iter().collect();
        self.claims_of(transaction, &fences).await
    }

    async fn claims_of(
        &self,
        transaction: &mut Transaction<'_, Any>,
        fences: &[Fence],
    ) -> Result<Vec<Claim>, StoreError> {
        let mut claims = Vec::with_capacity(fences.len());
        for some in fences.chunks(CHUNK) {
            let list = placeholders(1, some.len());
            let query = format!("SELECT {COLUMNS} FROM claims WHERE fence IN ({list})");
            let mut rows = sqlx::query(sqlx::AssertSqlSafe(query));
            for fence in some {
                rows = rows.bind(signed(fence.0));
            }
            let rows = rows.fetch_all(&mut **transaction).await;
            for row in rows.map_err(|error| self.error(&error))? {
                claims.push(self.claim(&row)?);
            }
        }
        Ok(claims)
    }

    async fn newest(
        &self,
        transaction: &mut Transaction<'_, Any>,
        run: &AgentId,
        repository: &str,
    ) -> Result<Option<Claim>, StoreError> {
        let query = format!(
            "SELECT {COLUMNS} FROM claims WHERE run = $1 AND repository = $2 \
             ORDER BY fence DESC LIMIT 1"
        );
        let row = sqlx::query(sqlx::AssertSqlSafe(query))
            .bind(run.as_str())
            .bind(repository)
            .fetch_optional(&mut **transaction)
            .await
            .map_err(|error| self.error(&error))?;
        row.map(|row| self.claim(&row)).transpose()
    }

    async fn next_fence(
        &self,
        transaction: &mut Transaction<'_, Any>,
    ) -> Result<Fence, StoreError> {
        let failed = |error: sqlx::Error| self.error(&error);
        let next = "UPDATE last_fence SET fence = fence + 1";
        sqlx::query(next).execute(&mut **transaction).await.map_err(failed)?;
        let row = sqlx::query("SELECT fence FROM last_fence").fetch_one(&mut **transaction).await;
        let fence: i64 = row.and_then(|row| row.try_get(0)).map_err(failed)?;
        Ok(Fence(fence.unsigned_abs()))
    }

    async fn insert_claim(
        &self,
        transaction: &mut Transaction<'_, Any>,
        claim: &Claim,
    ) -> Result<(), StoreError> {
        sqlx::query(
            "INSERT INTO claims (fence, run, line, repository, inside, outside, taken_at, \
             leased_until) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
        )
        .bind(signed(claim.fence.0))
        .bind(claim.run.as_str())
        .bind(self.json(&claim.line)?)
        .bind(&claim.repository)
        .bind(self.json(&claim.inside)?)
        .bind(self.json(&claim.except)?)
        .bind(signed(claim.taken_at))
        .bind(signed(claim.leased_until))
        .execute(&mut **transaction)
        .await
        .map_err(|error| self.error(&error))?;
        for beginning in shortest(&claim.area().beginnings()) {
            sqlx::query(
                "INSERT INTO claim_beginnings (repository, is_open, beginning, fence) \
                 VALUES ($1, 1, $2, $3)",
            )
            .bind(&claim.repository)
            .bind(beginning)
            .bind(signed(claim.fence.0))
            .execute(&mut **transaction)
            .await
            .map_err(|error| self.error(&error))?;
        }
        Ok(())
    }

    async fn end(
        &self,
        transaction: &mut Transaction<'_, Any>,
        fence: Fence,
        outcome: Outcome,
        now: u64,
    ) -> Result<(), StoreError> {
        sqlx::query("UPDATE claims SET outcome = $1, released_at = $2 WHERE fence = $3")
            .bind(outcome.as_str())
            .bind(signed(now))
            .bind(signed(fence.0))
            .execute(&mut **transaction)
            .await
            .map_err(|error| self.error(&error))?;
        self.list_as(transaction, fence, 0).await
    }

    /// Lets a claim last until this time, if that is later; one that has run out is open again.
    async fn lengthen(
        &self,
        transaction: &mut Transaction<'_, Any>,
        claim: Claim,
        until: u64,
    ) -> Result<Claim, StoreError> {
        let until = claim.leased_until.max(until);
        sqlx::query(
            "UPDATE claims SET outcome = NULL, released_at = NULL, leased_until = $1 \
             WHERE fence = $2",
        )
        .bind(signed(until))
        .bind(signed(claim.fence.0))
        .execute(&mut **transaction)
        .await
        .map_err(|error| self.error(&error))?;
        self.list_as(transaction, claim.fence, 1).await?;
        Ok(Claim { leased_until: until, release: None, ..claim })
    }

    async fn list_as(
        &self,
        transaction: &mut Transaction<'_, Any>,
        fence: Fence,
        open: i64,
    ) -> Result<(), StoreError> {
        sqlx::query("UPDATE claim_beginnings SET is_open = $1 WHERE fence = $2")
            .bind(open)
            .bind(signed(fence.0))
            .execute(&mut **transaction)
            .await
            .map_err(|error| self.error(&error))?;
        Ok(())
    }

    fn claim(&self, row: &AnyRow) -> Result<Claim, StoreError> {
        let read = || -> Result<Claim, Box<dyn std::error::Error>> {
            let number = |place: usize| -> Result<u64, sqlx::Error> {
                Ok(row.try_get::<i64, _>(place)?.unsigned_abs())
            };
            let line: Vec<String> = serde_json::from_str(&row.try_get::<String, _>(2)?)?;
            let outcome: Option<String> = row.try_get(8)?;
            let at = row.try_get::<Option<i64>, _>(9)?.unwrap_or_default().unsigned_abs();
            let release = outcome.map(|word| {
                let outcome = Outcome::parse(&word).ok_or(format!("`{word}` is no outcome"))?;
                Ok::<_, String>(Release { outcome, at })
            });
            Ok(Claim {
                fence: Fence(number(0)?),
                run: AgentId::parse(&row.try_get::<String, _>(1)?)?,
                line: line.iter().map(|id| AgentId::parse(id)).collect::<Result<_, _>>()?,
                repository: row.try_get(3)?,
                inside: serde_json::from_str(&row.try_get::<String, _>(4)?)?,
                except: serde_json::from_str(&row.try_get::<String, _>(5)?)?,
                taken_at: number(6)?,
                leased_until: number(7)?,
                release: release.transpose()?,
            })
        };
        read().map_err(|error| self.broken(&format!("a claim cannot be read: {error}")))
    }

    fn fences(&self, rows: &[AnyRow]) -> Result<Vec<Fence>, StoreError> {
        let fence =
            |row: &AnyRow| row.try_get::<i64, _>(0).map(|fence| Fence(fence.unsigned_abs()));
        rows.iter().map(fence).collect::<Result<_, _>>().map_err(|error| self.error(&error))
    }

    fn json(&self, value: &impl serde::Serialize) -> Result<String, StoreError> {
        serde_json::to_string(value)
            .map_err(|error| self.broken(&format!("a claim cannot be written: {error}")))
    }

    fn broken(&self, why: &str) -> StoreError {
        StoreError::Database { database: self.location.to_string(), why: why.to_owned() }
    }

    async fn commit(&self, transaction: Transaction<'_, Any>) -> Result<(), StoreError> {
        transaction.commit().await.map_err(|error| self.error(&error))
    }
}

/// Those that begin with none of the others.
fn shortest(beginnings: &BTreeSet<String>) -> Vec<&str> {
    let mut kept: Vec<&str> = Vec::new();
    // Sorted, so that what one begins with comes before it.
    for beginning in beginnings {
        if !kept.last().is_some_and(|before| beginning.starts_with(before)) {
            kept.push(beginning);
        }
    }
    kept
}

/// What a beginning itself begins with, all of it left out.
fn above(beginning: &str) -> Vec<&str> {
    beginning.char_indices().filter_map(|(end, _)| beginning.get(..end)).collect()
}

fn placeholders(first: usize, count: usize) -> String {
    let list: Vec<String> = (first..first + count).map(|number| format!("${number}")).collect();
    // A list of nothing has nothing.
    if list.is_empty() { "NULL".to_owned() } else { list.join(", ") }
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

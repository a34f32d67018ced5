//! Claims: exclusive leases on paths. `lifecycle::delegation::claim` makes the decisions, inside the transaction that
//! reads the claims and writes the result.

use std::collections::BTreeSet;

use bailiwick_lifecycle::delegation::claim::{
    Acquired, ClaimRequest, FenceState, Released, holding, obstacles, overtaken,
};
use bailiwick_lifecycle::ports::StoreError;
use bailiwick_model::claim::{Claim, ClaimOutcome, Fence, Release};
use bailiwick_model::globs::Area;
use bailiwick_model::{AgentId, Run};
use sqlx::Row;
use sqlx::any::AnyRow;

use crate::connections::WriteConnection;
use crate::open::Store;

const COLUMNS: &str =
    "fence, run, line, repository, inside, outside, taken_at, leased_until, outcome, released_at";

/// The maximum number of parameters of a query.
const MAX_PARAMETERS: usize = 500;

#[derive(Debug, Clone, Copy)]
enum ClaimFilter {
    /// Claims that are not closed.
    Open,
    /// Claims with a later fence than this one.
    After(Fence),
}

impl Store {
    /// Acquires a claim, all of it or nothing. A run that already has it keeps its fence, unless another run had
    /// an overlapping claim in the meantime.
    pub async fn acquire(&self, request: &ClaimRequest, now: u64) -> Result<Acquired, StoreError> {
        let mut transaction = self.begin_write().await?;
        let candidates = self
            .overlap_candidates(
                &mut transaction,
                &request.repository,
                &request.area(),
                ClaimFilter::Open,
            )
            .await?;
        let obstacles = obstacles(request, &candidates, now);
        if !obstacles.is_empty() {
            transaction.rollback().await;
            return Ok(Acquired::Obstructed(obstacles));
        }
        for fence in overtaken(request, &candidates, now) {
            self.close_claim(&mut transaction, fence, ClaimOutcome::Expired, now).await?;
        }
        let own = self.newest(&mut transaction, &request.run, &request.repository).await?;
        let same = |own: &Claim| own.inside == request.inside && own.except == request.except;
        if let Some(own) = own {
            let holding = self.holding(&mut transaction, &own).await?;
            if holding == FenceState::Valid && same(&own) {
                let until = now.saturating_add(request.lease);
                let claim = self.extend_lease(&mut transaction, own, until).await?;
                self.commit(transaction).await?;
                return Ok(Acquired::Renewed(claim));
            }
            if own.release.is_none() {
                self.close_claim(&mut transaction, own.fence, ClaimOutcome::Conflict, now).await?;
            }
        }
        let fence = self.next_fence(&mut transaction).await?;
        let claim = request.granted(fence, now);
        self.insert_claim(&mut transaction, &claim).await?;
        self.commit(transaction).await?;
        Ok(Acquired::Granted(claim))
    }

    /// Extends the newest claim of a run until this time, if it is still valid. Nobody else can acquire it before
    /// that time, so a landing calls this first.
    pub async fn renew_claim(
        &self,
        run: &AgentId,
        repository: &str,
        until: u64,
    ) -> Result<Option<(Claim, FenceState)>, StoreError> {
        let mut transaction = self.begin_write().await?;
        let Some(own) = self.newest(&mut transaction, run, repository).await? else {
            return Ok(None);
        };
        match self.holding(&mut transaction, &own).await? {
            FenceState::Valid => {
                let claim = self.extend_lease(&mut transaction, own, until).await?;
                self.commit(transaction).await?;
                Ok(Some((claim, FenceState::Valid)))
            }
            holding @ (FenceState::Released(_) | FenceState::Stale(_)) => Ok(Some((own, holding))),
        }
    }

    /// Closes a claim; a closed claim stays unchanged.
    pub async fn release(
        &self,
        fence: Fence,
        outcome: ClaimOutcome,
        now: u64,
    ) -> Result<Released, StoreError> {
        let mut transaction = self.begin_write().await?;
        let found = self.claims_of(&mut transaction, &[fence]).await?.into_iter().next();
        match found {
            None => Ok(Released::Unknown),
            Some(claim) if claim.release.is_some() => Ok(Released::Before(claim)),
            Some(claim) => {
                self.close_claim(&mut transaction, fence, outcome, now).await?;
                self.commit(transaction).await?;
                let release = Some(Release { outcome, at: now });
                Ok(Released::Now(Claim { release, ..claim }))
            }
        }
    }

    /// Closes all claims of a run; returns how many were open.
    pub async fn release_run(
        &self,
        run: &AgentId,
        outcome: ClaimOutcome,
        now: u64,
    ) -> Result<usize, StoreError> {
        let mut transaction = self.begin_write().await?;
        let closed = self.close_claims_of(&mut transaction, run, outcome, now).await?;
        self.commit(transaction).await?;
        Ok(closed)
    }

    /// As `release_run`, inside a larger transaction.
    pub(crate) async fn close_claims_of(
        &self,
        transaction: &mut WriteConnection,
        run: &AgentId,
        outcome: ClaimOutcome,
        now: u64,
    ) -> Result<usize, StoreError> {
        let open = "SELECT fence FROM claims WHERE run = $1 AND outcome IS NULL";
        let rows = sqlx::query(open).bind(run.as_str()).fetch_all(&mut **transaction).await;
        let fences = self.fences(&rows.map_err(|error| self.error(&error))?)?;
        for fence in &fences {
            self.close_claim(transaction, *fence, outcome, now).await?;
        }
        Ok(fences.len())
    }

    /// Closes the claims whose lease has expired; returns their fences. Their runs can acquire them again unless
    /// somebody else did.
    pub async fn expire(&self, now: u64) -> Result<Vec<Fence>, StoreError> {
        let mut transaction = self.begin_write().await?;
        let expired = "SELECT fence FROM claims WHERE outcome IS NULL AND leased_until <= $1 \
                    ORDER BY fence";
        let rows = sqlx::query(expired).bind(signed(now)).fetch_all(&mut *transaction).await;
        let fences = self.fences(&rows.map_err(|error| self.error(&error))?)?;
        for fence in &fences {
            self.close_claim(&mut transaction, *fence, ClaimOutcome::Expired, now).await?;
        }
        self.commit(transaction).await?;
        Ok(fences)
    }

    /// All claims, or those of a repository, oldest first.
    pub async fn claims(&self, repository: Option<&str>) -> Result<Vec<Claim>, StoreError> {
        let query =
            format!("SELECT {COLUMNS} FROM claims WHERE $1 = '' OR repository = $2 ORDER BY fence");
        let wanted = repository.unwrap_or_default();
        let rows = sqlx::query(sqlx::AssertSqlSafe(query)).bind(wanted).bind(wanted);
        let rows = rows.fetch_all(&self.pool).await.map_err(|error| self.error(&error))?;
        rows.iter().map(|row| self.claim(row)).collect()
    }

    /// The runs below these that have an open claim.
    pub async fn claimants_below(&self, runs: &[AgentId]) -> Result<Vec<AgentId>, StoreError> {
        let query = format!("SELECT {COLUMNS} FROM claims WHERE outcome IS NULL ORDER BY fence");
        let rows = sqlx::query(sqlx::AssertSqlSafe(query)).fetch_all(&self.pool).await;
        let rows = rows.map_err(|error| self.error(&error))?;
        let open: Vec<Claim> = rows.iter().map(|row| self.claim(row)).collect::<Result<_, _>>()?;
        let is_below = |claim: &Claim| claim.line.iter().any(|run| runs.contains(run));
        Ok(open.into_iter().filter(is_below).map(|claim| claim.run).collect())
    }

    /// The parent and all its ancestors, nearest first. The run itself may not be in the ledger yet, so its parent
    /// is given.
    pub async fn ancestor_ids(&self, parent: Option<&AgentId>) -> Result<Vec<AgentId>, StoreError> {
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
        transaction: &mut WriteConnection,
        own: &Claim,
    ) -> Result<FenceState, StoreError> {
        let after = ClaimFilter::After(own.fence);
        let later =
            self.overlap_candidates(transaction, &own.repository, &own.area(), after).await?;
        Ok(holding(own, &later))
    }

    /// The claims of a repository that can overlap an area, by the fixed prefixes of their globs.
    async fn overlap_candidates(
        &self,
        transaction: &mut WriteConnection,
        repository: &str,
        area: &Area,
        filter: ClaimFilter,
    ) -> Result<Vec<Claim>, StoreError> {
        let (open, after): (&[i64], Fence) = match filter {
            ClaimFilter::Open => (&[1], Fence(0)),
            ClaimFilter::After(fence) => (&[1, 0], fence),
        };
        let mut fences = BTreeSet::new();
        for beginning in minimal_prefixes(&area.beginnings()) {
            let prefixes = proper_prefixes(beginning);
            let list = placeholders(6, prefixes.len());
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
                for prefix in &prefixes {
                    rows = rows.bind(*prefix);
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
        transaction: &mut WriteConnection,
        fences: &[Fence],
    ) -> Result<Vec<Claim>, StoreError> {
        let mut claims = Vec::with_capacity(fences.len());
        for chunk in fences.chunks(MAX_PARAMETERS) {
            let list = placeholders(1, chunk.len());
            let query = format!("SELECT {COLUMNS} FROM claims WHERE fence IN ({list})");
            let mut rows = sqlx::query(sqlx::AssertSqlSafe(query));
            for fence in chunk {
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
        transaction: &mut WriteConnection,
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

    async fn next_fence(&self, transaction: &mut WriteConnection) -> Result<Fence, StoreError> {
        let failed = |error: sqlx::Error| self.error(&error);
        let next = "UPDATE last_fence SET fence = fence + 1";
        sqlx::query(next).execute(&mut **transaction).await.map_err(failed)?;
        let row = sqlx::query("SELECT fence FROM last_fence").fetch_one(&mut **transaction).await;
        let fence: i64 = row.and_then(|row| row.try_get(0)).map_err(failed)?;
        Ok(Fence(fence.unsigned_abs()))
    }

    async fn insert_claim(
        &self,
        transaction: &mut WriteConnection,
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
        for beginning in minimal_prefixes(&claim.area().beginnings()) {
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

    async fn close_claim(
        &self,
        transaction: &mut WriteConnection,
        fence: Fence,
        outcome: ClaimOutcome,
        now: u64,
    ) -> Result<(), StoreError> {
        sqlx::query("UPDATE claims SET outcome = $1, released_at = $2 WHERE fence = $3")
            .bind(outcome.as_str())
            .bind(signed(now))
            .bind(signed(fence.0))
            .execute(&mut **transaction)
            .await
            .map_err(|error| self.error(&error))?;
        self.set_open(transaction, fence, 0).await
    }

    /// Extends the lease to this time if that is later; an expired claim is open again.
    async fn extend_lease(
        &self,
        transaction: &mut WriteConnection,
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
        self.set_open(transaction, claim.fence, 1).await?;
        Ok(Claim { leased_until: until, release: None, ..claim })
    }

    async fn set_open(
        &self,
        transaction: &mut WriteConnection,
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
            let number = |column: usize| -> Result<u64, sqlx::Error> {
                Ok(row.try_get::<i64, _>(column)?.unsigned_abs())
            };
            let line: Vec<String> = serde_json::from_str(&row.try_get::<String, _>(2)?)?;
            let outcome: Option<String> = row.try_get(8)?;
            let at = row.try_get::<Option<i64>, _>(9)?.unwrap_or_default().unsigned_abs();
            let release = outcome.map(|word| {
                let outcome =
                    ClaimOutcome::parse(&word).ok_or(format!("`{word}` is not an outcome"))?;
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
        read().map_err(|error| self.database_failure(&format!("a claim cannot be read: {error}")))
    }

    fn fences(&self, rows: &[AnyRow]) -> Result<Vec<Fence>, StoreError> {
        let fence =
            |row: &AnyRow| row.try_get::<i64, _>(0).map(|fence| Fence(fence.unsigned_abs()));
        rows.iter().map(fence).collect::<Result<_, _>>().map_err(|error| self.error(&error))
    }

    fn json(&self, value: &impl serde::Serialize) -> Result<String, StoreError> {
        serde_json::to_string(value)
            .map_err(|error| self.database_failure(&format!("a claim cannot be written: {error}")))
    }

    fn database_failure(&self, why: &str) -> StoreError {
        StoreError::Database { database: self.location.to_string(), why: why.to_owned() }
    }

    async fn commit(&self, transaction: WriteConnection) -> Result<(), StoreError> {
        transaction.commit().await.map_err(|error| self.error(&error))
    }
}

/// The texts of which no other text is a prefix.
fn minimal_prefixes(beginnings: &BTreeSet<String>) -> Vec<&str> {
    let mut minimal: Vec<&str> = Vec::new();
    // The set is sorted: a prefix comes before the texts that start with it.
    for beginning in beginnings {
        if !minimal.last().is_some_and(|before| beginning.starts_with(before)) {
            minimal.push(beginning);
        }
    }
    minimal
}

/// The prefixes of a text that are shorter than it.
fn proper_prefixes(beginning: &str) -> Vec<&str> {
    beginning.char_indices().filter_map(|(end, _)| beginning.get(..end)).collect()
}

fn placeholders(first: usize, count: usize) -> String {
    let list: Vec<String> = (first..first + count).map(|number| format!("${number}")).collect();
    // SQL has no empty list.
    if list.is_empty() { "NULL".to_owned() } else { list.join(", ") }
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

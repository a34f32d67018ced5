//! How a worker gets an attempt of the queue.
//!
//! The claimable rows of a pool are grouped by their state and their set of labels. One statement walks the index from
//! group to group and finds the oldest claimable row of each, without reading the others. Then the groups that the worker
//! can run are tried in the order of these rows. So a poll costs the same with ten and with 100,000 queued attempts.

use std::collections::BTreeMap;

use bailiwick_fleet::workers::{ClaimedAttempt, Lease, QueuedState, WorkerRecord, satisfies};
use bailiwick_lifecycle::ports::StoreError;
use sqlx::Row as _;
use sqlx::any::{AnyArguments, AnyRow};
use sqlx::query::Query;

use super::rows::{COLUMN_COUNT, Row, columns};
use super::signed;
use crate::fleet::Sealed;
use crate::open::Store;
use crate::sql::{DatabaseKind, escaped, unescaped};

/// How often an attempt is claimed: again once, if its first worker disappears.
pub const MAX_CLAIMS: u64 = 2;

/// The place of the first name of an attempt that a worker follows, in a statement that claims.
const FIRST_FOLLOWED: usize = 5;

/// What a worker can claim.
struct Claim<'a> {
    worker: &'a WorkerRecord,
    /// The condition on a row.
    claimable: String,
    /// The name of the worker as the list of workers of a row has it.
    quoted_name: String,
    follows: &'a [String],
    lease_millis: u64,
}

/// Rows with the same state that need the same labels.
struct Group {
    state: String,
    /// As they are stored.
    labels: String,
}

/// What came of the attempt to claim a row in one statement.
enum Claimed {
    Yes(ClaimedAttempt),
    /// There is a row, for which more than one statement is needed.
    NeedsTransaction,
    NoRow,
}

type AnyQuery<'q> = Query<'q, sqlx::Any, AnyArguments>;

impl Claim<'_> {
    /// Binds the parameters of the condition.
    fn bind<'q>(&self, query: AnyQuery<'q>) -> AnyQuery<'q> {
        let mut query = query
            .bind(escaped(&self.worker.pool))
            .bind(signed(MAX_CLAIMS))
            .bind(escaped(&self.worker.name))
            .bind(escaped(&self.quoted_name));
        for agent in self.follows {
            query = query.bind(escaped(agent));
        }
        query
    }

    /// The number of the first parameter after those of the condition.
    fn next_parameter(&self) -> usize {
        FIRST_FOLLOWED + self.follows.len()
    }

    /// The condition on the rows of a group, whose state and labels are bound after the parameters of the condition.
    fn of_group(&self, database_kind: DatabaseKind) -> String {
        let (state, labels) = (self.next_parameter(), self.next_parameter() + 1);
        format!(
            "{} AND state = ${state} AND {} = {} AND labels = ${labels} ORDER BY queued_at, agent LIMIT 1",
            self.claimable,
            database_kind.label_set("labels"),
            database_kind.label_set(&format!("${labels}")),
        )
    }

    /// Binds the parameters of the condition on a group.
    fn bind_group<'q>(&self, query: AnyQuery<'q>, group: &Group) -> AnyQuery<'q> {
        self.bind(query).bind(group.state.clone()).bind(group.labels.clone())
    }
}

/// Which rows a worker can claim. Its parameters are those of `Claim::bind`.
fn claimable(database_kind: DatabaseKind, follows: Option<&[String]>) -> String {
    let now = database_kind.now();
    let not_followed = match follows {
        None => "1 = 0".to_owned(),
        Some([]) => "1 = 1".to_owned(),
        Some(follows) => {
            let places = (0..follows.len()).map(|at| format!("${}", at + FIRST_FOLLOWED));
            format!("agent NOT IN ({})", places.collect::<Vec<_>>().join(", "))
        }
    };
    format!(
        "pool = $1 AND cancelled = 0 AND fence < $2 AND \
         (REPLACE(claimed_by, $4, '') = claimed_by OR (check_key = '' AND lease_until < {now})) AND \
         (state = 'queued' OR (state = 'claimed' AND lease_until < {now} AND \
          (worker <> $3 OR report = '' OR {not_followed})))"
    )
}

/// Finds the oldest claimable row of each group, in the order of these rows.
fn oldest_of_groups(database_kind: DatabaseKind, claimable: &str) -> String {
    let set = database_kind.label_set("labels");
    let first = |state: &str| {
        format!(
            "SELECT '{state}' AS state, (SELECT {set} FROM worker_attempts WHERE pool = $1 \
             AND state = '{state}' ORDER BY {set} LIMIT 1) AS label_set"
        )
    };
    let (queued, claimed) = (first("queued"), first("claimed"));
    format!(
        "WITH RECURSIVE sets (state, label_set) AS (\
           SELECT state, label_set FROM ({queued} UNION ALL {claimed}) smallest \
           UNION ALL \
           SELECT sets.state, (SELECT {set} FROM worker_attempts WHERE pool = $1 \
             AND worker_attempts.state = sets.state AND {set} > sets.label_set \
             ORDER BY {set} LIMIT 1) FROM sets WHERE sets.label_set IS NOT NULL), \
         oldest (agent) AS (\
           SELECT (SELECT agent FROM worker_attempts WHERE {claimable} \
             AND worker_attempts.state = sets.state AND {set} = sets.label_set \
             ORDER BY queued_at, agent LIMIT 1) FROM sets WHERE sets.label_set IS NOT NULL) \
         SELECT found.state, found.labels FROM oldest \
         JOIN worker_attempts found ON found.agent = oldest.agent \
         ORDER BY found.queued_at, found.agent"
    )
}

impl Store {
    /// Claims the oldest attempt or check that a worker can run: one that nobody has, or whose worker has disappeared.
    /// A worker does not claim an attempt again that it still follows, or may follow if it does not say so. If it has
    /// never reported on it, the answer to its claim was lost: it gets the same lease again. What it could not begin is
    /// left to others for a while. It never claims a check of an attempt that it has run, or a check twice.
    pub async fn claim_attempt(
        &self,
        worker: &WorkerRecord,
        lease_millis: u64,
        follows: Option<&[String]>,
    ) -> Result<Option<ClaimedAttempt>, StoreError> {
        let claim = Claim {
            worker,
            claimable: claimable(self.database_kind(), follows),
            quoted_name: self.to_json(&worker.name)?,
            follows: follows.unwrap_or_default(),
            lease_millis,
        };
        for group in self.suitable_groups(&claim).await? {
            if let Some(claimed) = self.claim_in_group(&claim, &group).await? {
                return Ok(Some(claimed));
            }
        }
        Ok(None)
    }

    /// The groups with rows that the worker can claim, the one with the oldest first.
    async fn suitable_groups(&self, claim: &Claim<'_>) -> Result<Vec<Group>, StoreError> {
        let oldest = oldest_of_groups(self.database_kind(), &claim.claimable);
        let rows = claim.bind(sqlx::query(sqlx::AssertSqlSafe(oldest)));
        let rows = rows.fetch_all(&self.pool).await.map_err(|error| self.error(&error))?;
        let mut suitable = Vec::new();
        for row in &rows {
            let read = |row: &AnyRow| Ok(Group { state: row.try_get(0)?, labels: row.try_get(1)? });
            let group = read(row).map_err(|error: sqlx::Error| self.error(&error))?;
            let needed: BTreeMap<String, String> =
                self.parse_json(&unescaped(group.labels.clone()))?;
            if satisfies(&claim.worker.labels, &needed) {
                suitable.push(group);
            }
        }
        Ok(suitable)
    }

    async fn claim_in_group(
        &self,
        claim: &Claim<'_>,
        group: &Group,
    ) -> Result<Option<ClaimedAttempt>, StoreError> {
        match self.database_kind() {
            DatabaseKind::Sqlite => self.claim_in_transaction(claim, group).await,
            DatabaseKind::Postgres => match self.claim_in_one_statement(claim, group).await? {
                Claimed::Yes(claimed) => Ok(Some(claimed)),
                Claimed::NeedsTransaction => self.claim_in_transaction(claim, group).await,
                Claimed::NoRow => Ok(None),
            },
        }
    }

    /// Claims the oldest row of a group in one statement of PostgreSQL, unless its last worker has reported costs, which
    /// have to be added up, or this server has not the key of its launch.
    async fn claim_in_one_statement(
        &self,
        claim: &Claim<'_>,
        group: &Group,
    ) -> Result<Claimed, StoreError> {
        let key_id = self.fleet.key_id().map_err(|error| self.failure(error.to_string()))?;
        let (Some(key_id), None) = (key_id, self.fence) else {
            return Ok(Claimed::NeedsTransaction);
        };
        let now = self.database_kind().now();
        let (lease, key) = (claim.next_parameter() + 2, claim.next_parameter() + 3);
        // The row is locked in a materialised query: PostgreSQL may lock more than one in the sub-query of an update.
        let statement = format!(
            "WITH next AS MATERIALIZED (\
               SELECT {}, key_id, nonce, launch FROM worker_attempts WHERE {} FOR UPDATE SKIP LOCKED), \
             taken AS (\
               UPDATE worker_attempts SET state = 'claimed', worker = $3, \
                 fence = next.fence + CASE WHEN next.state = 'claimed' AND next.worker = $3 THEN 0 ELSE 1 END, \
                 lease_until = {now} + ${lease}, events_before = next.last_event, answers = '', \
                 work = CASE WHEN next.state = 'claimed' AND next.worker = $3 \
                   THEN worker_attempts.work ELSE ''::bytea END, \
                 claimed_by = CASE WHEN next.claimed_by IN ('', '[]') THEN '[' || $4 || ']' \
                   WHEN REPLACE(next.claimed_by, $4, '') <> next.claimed_by THEN next.claimed_by \
                   ELSE SUBSTR(next.claimed_by, 1, LENGTH(next.claimed_by) - 1) || ',' || $4 || ']' END \
               FROM next WHERE worker_attempts.agent = next.agent AND next.report = '' \
                 AND next.key_id = ${key} \
               RETURNING worker_attempts.fence AS fence) \
             SELECT next.*, (SELECT fence FROM taken) FROM next",
            columns(self.database_kind()),
            claim.of_group(self.database_kind()),
        );
        let query = claim.bind_group(sqlx::query(sqlx::AssertSqlSafe(statement)), group);
        let query = query.bind(signed(claim.lease_millis)).bind(key_id);
        let found = query.fetch_optional(&self.pool).await.map_err(|error| self.error(&error))?;
        let Some(found) = found else { return Ok(Claimed::NoRow) };
        let fence: Option<i64> =
            found.try_get(COLUMN_COUNT + 3).map_err(|error| self.error(&error))?;
        let Some(fence) = fence else { return Ok(Claimed::NeedsTransaction) };
        let Row { attempt, is_check, .. } = self.queue_row(&found)?;
        let launch = self.launch_of(&attempt.agent, &found)?;
        let lease = Lease { agent: attempt.agent, fence: fence.unsigned_abs() };
        Ok(Claimed::Yes(ClaimedAttempt { lease, launch, is_check }))
    }

    /// The launch of an attempt, whose columns follow those of `columns`.
    fn launch_of(&self, agent: &str, row: &AnyRow) -> Result<Vec<u8>, StoreError> {
        let read = || -> Result<Sealed, sqlx::Error> {
            let (key_id, nonce) = (row.try_get(COLUMN_COUNT)?, row.try_get(COLUMN_COUNT + 1)?);
            Ok(Sealed { key_id, nonce, bytes: row.try_get(COLUMN_COUNT + 2)? })
        };
        let sealed = read().map_err(|error| self.error(&error))?;
        let opened = self.fleet.open_launch(agent, sealed);
        opened.map_err(|error| self.failure(error.to_string()))
    }

    /// Claims the oldest row of a group, in a transaction.
    async fn claim_in_transaction(
        &self,
        claim: &Claim<'_>,
        group: &Group,
    ) -> Result<Option<ClaimedAttempt>, StoreError> {
        let Claim { worker, lease_millis, .. } = claim;
        let (now, skip) = (self.database_kind().now(), self.database_kind().skip_locked_rows());
        let mut write = self.begin_queue_write().await?;
        let find = format!(
            "SELECT {}, key_id, nonce, launch FROM worker_attempts WHERE {} {skip}",
            columns(self.database_kind()),
            claim.of_group(self.database_kind()),
        );
        let find = claim.bind_group(sqlx::query(sqlx::AssertSqlSafe(find)), group);
        let found = find.fetch_optional(&mut *write).await.map_err(|error| self.error(&error))?;
        let Some(found) = found else {
            write.rollback().await;
            return Ok(None);
        };
        let Row { mut attempt, is_reported, is_check, .. } = self.queue_row(&found)?;
        let launch = self.launch_of(&attempt.agent, &found)?;
        let is_repeated =
            attempt.state == QueuedState::Claimed && attempt.worker == worker.name && !is_reported;
        let fence = if is_repeated { attempt.fence } else { attempt.fence + 1 };
        if !attempt.claimed_by.contains(&worker.name) {
            attempt.claimed_by.push(worker.name.clone());
        }
        // The work of an earlier claim is not that of this one.
        let no_work = if is_repeated { "" } else { ", work = $7" };
        let claim = format!(
            "UPDATE worker_attempts SET state = 'claimed', worker = $1, fence = $2, \
             lease_until = {now} + $3, events_before = last_event, report = '', answers = '', \
             spent = $4, claimed_by = $5{no_work} WHERE agent = $6"
        );
        let mut claim = sqlx::query(sqlx::AssertSqlSafe(claim))
            .bind(escaped(&worker.name))
            .bind(signed(fence))
            .bind(signed(*lease_millis))
            .bind(self.to_json(&attempt.cost())?)
            .bind(escaped(&self.to_json(&attempt.claimed_by)?))
            .bind(escaped(&attempt.agent));
        if !is_repeated {
            claim = claim.bind(Vec::<u8>::new());
        }
        claim.execute(&mut *write).await.map_err(|error| self.error(&error))?;
        write.commit().await.map_err(|error| self.error(&error))?;
        Ok(Some(ClaimedAttempt { lease: Lease { agent: attempt.agent, fence }, launch, is_check }))
    }
}

#[cfg(test)]
mod tests {
    use sqlx::Row as _;

    use super::{claimable, oldest_of_groups};
    use crate::{Location, Store};

    /// According to the query plan, every step is a search in an index, and no row of the queue is sorted or read twice.
    #[tokio::test]
    async fn groups_are_found_by_the_index() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(Location::file(directory.path().join("x.db"))).await.unwrap();
        let kind = store.database_kind();
        let plan = async |statement: String| {
            let explain = format!("EXPLAIN QUERY PLAN {statement}");
            let rows = sqlx::query(sqlx::AssertSqlSafe(explain))
                .bind("inside")
                .bind(2_i64)
                .bind("worker")
                .bind("\"worker\"")
                .fetch_all(&store.pool)
                .await
                .unwrap();
            rows.iter().map(|row| row.get::<String, _>(3)).collect::<Vec<_>>()
        };
        let scans =
            |plan: &[String]| plan.iter().any(|step| step.starts_with("SCAN worker_attempts"));
        let groups = plan(oldest_of_groups(kind, &claimable(kind, Some(&[])))).await;
        let by_index = "SEARCH worker_attempts USING COVERING INDEX worker_attempts_to_claim (pool=? AND state=?";
        assert!(groups.iter().any(|step| step.starts_with(by_index)), "{groups:#?}");
        assert!(!scans(&groups), "{groups:#?}");
        // The only thing that is sorted are the groups.
        let sorted = groups.iter().filter(|step| step.contains("TEMP B-TREE")).count();
        assert!(sorted <= 1, "{groups:#?}");
        let all = plan(
            "SELECT labels FROM worker_attempts WHERE $1 <> '' AND $2 > 0 AND $3 <> $4".to_owned(),
        );
        let all = all.await;
        assert!(scans(&all), "positive control: {all:#?}");
    }
}

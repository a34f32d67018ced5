//! Stores webhook deliveries before they are acknowledged. Deliveries that arrive during a write share the next
//! transaction, so that one write to the disk covers all of them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bailiwick_fleet::ports::{FleetError, IncomingDelivery, Received};
use bailiwick_resources::{AnyObject, DEFAULT_NAMESPACE, Kind, Metadata, Object, WebhookDelivery};
use sqlx::Row as _;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until};

use super::Fleet;
use super::blobs::digest_conflict;
use super::row::{StoredObject, columns};
use super::statements::{batches, placeholders};
use super::transaction::WriteTransaction;

/// The maximum number of deliveries in a transaction.
const MAX_BATCH_SIZE: usize = 128;
/// The maximum payload of a transaction with more than one delivery.
const MAX_BATCH_BYTES: usize = 16 << 20;

/// So many deliveries are a burst if each arrives within `BURST_GAP` of the one before it. A push or a comment causes
/// fewer, and is evaluated at once.
const BURST_SIZE: u32 = 8;
const BURST_GAP: Duration = Duration::from_millis(50);

type Answer = Result<Received, FleetError>;

/// The queue of deliveries that wait to be stored.
#[derive(Debug, Default)]
pub(super) struct Intake(Mutex<Queue>);

#[derive(Debug, Default)]
struct Queue {
    waiting: Vec<PendingDelivery>,
    /// Whether a writer task is running.
    busy: bool,
    burst: Burst,
}

/// Detects bursts of deliveries.
#[derive(Debug, Default)]
struct Burst {
    /// The arrival of the last delivery.
    last: Option<Instant>,
    /// How many arrived shortly after one another, up to the last one.
    count: u32,
}

impl Burst {
    fn record_arrival(&mut self, now: Instant) {
        let follows = self.last.is_some_and(|last| now.duration_since(last) < BURST_GAP);
        self.count = if follows { self.count.saturating_add(1) } else { 1 };
        self.last = Some(now);
    }

    /// The end of the current burst if nothing else arrives; none if there is no burst.
    fn end(&self, now: Instant) -> Option<Instant> {
        let end = self.last.filter(|_| self.count >= BURST_SIZE).map(|last| last + BURST_GAP);
        end.filter(|end| *end > now)
    }
}

#[derive(Debug)]
struct PendingDelivery {
    delivery: IncomingDelivery,
    answer: oneshot::Sender<Answer>,
}

impl Intake {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next batch; empty if the writer can stop.
    fn take(&self) -> Vec<PendingDelivery> {
        let mut queue = self.queue();
        let mut bytes = 0_usize;
        let fit = queue.waiting.iter().take(MAX_BATCH_SIZE).take_while(|waiting| {
            bytes = bytes.saturating_add(waiting.delivery.payload.len());
            bytes <= MAX_BATCH_BYTES
        });
        let count = fit.count().max(1).min(queue.waiting.len());
        let taken: Vec<PendingDelivery> = queue.waiting.drain(..count).collect();
        queue.busy = !taken.is_empty();
        taken
    }
}

/// The writer task. If it is aborted, waiting callers get an error because their channel closes, and the next
/// delivery starts a new writer.
struct Writer(Arc<Fleet>);

impl Drop for Writer {
    fn drop(&mut self) {
        let mut queue = self.0.intake.queue();
        if queue.busy {
            queue.busy = false;
            queue.waiting.clear();
        }
    }
}

impl Writer {
    async fn write(self) {
        loop {
            let batch = self.0.intake.take();
            if batch.is_empty() {
                return;
            }
            let (deliveries, waiting): (Vec<_>, Vec<_>) =
                batch.into_iter().map(|waiting| (waiting.delivery, waiting.answer)).unzip();
            let answers: Vec<Answer> = match self.0.receive_all(deliveries).await {
                Ok(answers) => answers,
                Err(error) => waiting.iter().map(|_| Err(error.clone())).collect(),
            };
            for (waiting, answer) in waiting.into_iter().zip(answers) {
                // A sender that stopped waiting will deliver again.
                drop(waiting.send(answer));
            }
        }
    }
}

impl Fleet {
    /// Waits for the end of a burst of webhooks, at most this long, so that their senders are answered first.
    pub(crate) async fn wait_for_quiet_intake(&self, timeout: Duration) {
        let deadline = Instant::now() + timeout;
        loop {
            let now = Instant::now();
            let burst_end = self.intake.queue().burst.end(now);
            match burst_end {
                Some(end) if now < deadline => sleep_until(end.min(deadline)).await,
                Some(_) | None => return,
            }
        }
    }
}

impl Fleet {
    pub(crate) async fn receive(self: &Arc<Self>, delivery: IncomingDelivery) -> Answer {
        let (answer, receiver) = oneshot::channel();
        let idle = {
            let mut queue = self.intake.queue();
            queue.burst.record_arrival(Instant::now());
            queue.waiting.push(PendingDelivery { delivery, answer });
            !std::mem::replace(&mut queue.busy, true)
        };
        if idle {
            // A separate task: a caller that stops waiting must not abort the others.
            tokio::spawn(Writer(Arc::clone(self)).write());
        }
        receiver.await.unwrap_or_else(|_| {
            Err(self.unavailable(
                "the delivery was not stored because the writer was aborted; send it again",
            ))
        })
    }

    /// Stores all deliveries in one transaction; returns an answer for each.
    async fn receive_all(
        &self,
        deliveries: Vec<IncomingDelivery>,
    ) -> Result<Vec<Answer>, FleetError> {
        let mut transaction = self.begin_write().await?;
        match transaction.receive_all(deliveries).await {
            Ok(answers) => transaction.commit().await.map(|_| answers),
            Err(error) => {
                transaction.abort(&error).await;
                Err(error)
            }
        }
    }
}

/// Deliveries of one transaction and the stored objects that they meet.
#[derive(Default)]
struct Batch {
    /// Stored deliveries, by name.
    known: BTreeMap<String, StoredObject>,
    /// Indexes of new deliveries in `new`, by name.
    new_by_name: BTreeMap<String, usize>,
    /// Bytes that are or will be stored, by digest.
    bytes: BTreeMap<String, Vec<u8>>,
    new: Vec<AnyObject>,
    new_bytes: Vec<String>,
    /// Names of redelivered ones.
    redelivered: Vec<String>,
}

impl Batch {
    /// The current state of the delivery with this name.
    fn find(&self, name: &str) -> Option<StoredObject> {
        let new = || {
            let object = self.new.get(*self.new_by_name.get(name)?)?.clone();
            Some(StoredObject { created_version: object.metadata.resource_version, object })
        };
        self.known.get(name).cloned().or_else(new)
    }
}

impl WriteTransaction<'_> {
    async fn receive_all(
        &mut self,
        deliveries: Vec<IncomingDelivery>,
    ) -> Result<Vec<Answer>, FleetError> {
        let mut batch = self.load_existing(&deliveries).await?;
        let mut answers = Vec::with_capacity(deliveries.len());
        for delivery in deliveries {
            answers.push(self.classify(&mut batch, delivery)?);
        }
        if self.insert(&batch.new).await? != u64::try_from(batch.new.len()).unwrap_or_default() {
            return Err(self.fleet.unavailable("a delivery exists that was not found"));
        }
        self.record_added(&batch.new).await?;
        self.insert_bytes(&batch).await?;
        for name in std::mem::take(&mut batch.redelivered) {
            if let Some(stored) = batch.find(&name) {
                let next = count_redelivery(&stored.object)?;
                let created_version = stored.created_version;
                let object = self.update(stored, next).await?;
                batch.known.insert(name, StoredObject { created_version, object });
            }
        }
        Ok(answers)
    }

    /// Loads stored deliveries and bytes with the same names and digests.
    async fn load_existing(
        &mut self,
        deliveries: &[IncomingDelivery],
    ) -> Result<Batch, FleetError> {
        let fleet = self.fleet;
        let kind = Kind::WebhookDelivery;
        let mut batch = Batch::default();
        for chunk in batches(deliveries) {
            let statement = format!(
                "SELECT {} FROM resources r WHERE kind = $1 AND namespace = $2 AND name IN ({})",
                columns("r"),
                placeholders(3, chunk.len())
            );
            let mut query = sqlx::query(sqlx::AssertSqlSafe(statement));
            query = query.bind(kind.as_str()).bind(DEFAULT_NAMESPACE);
            for delivery in chunk {
                query = query.bind(&delivery.name);
            }
            let rows = query.fetch_all(self.connection()).await;
            for row in rows.map_err(|error| fleet.database_error(&error))? {
                let stored = fleet.stored(kind, &row, 0)?;
                batch.known.insert(stored.object.metadata.name.clone(), stored);
            }
            let statement = format!(
                "SELECT digest, bytes FROM blobs WHERE digest IN ({})",
                placeholders(1, chunk.len())
            );
            let mut query = sqlx::query(sqlx::AssertSqlSafe(statement));
            for delivery in chunk {
                query = query.bind(&delivery.spec.payload_digest);
            }
            let rows = query.fetch_all(self.connection()).await;
            for row in rows.map_err(|error| fleet.database_error(&error))? {
                let read = || Ok((row.try_get(0)?, row.try_get(1)?));
                let (digest, bytes) =
                    read().map_err(|error: sqlx::Error| fleet.database_error(&error))?;
                batch.bytes.insert(digest, bytes);
            }
        }
        Ok(batch)
    }

    /// Decides what to do with a delivery, in the order of arrival.
    fn classify(
        &mut self,
        batch: &mut Batch,
        delivery: IncomingDelivery,
    ) -> Result<Answer, FleetError> {
        let digest = delivery.spec.payload_digest.clone();
        let stored_bytes = batch.bytes.get(&digest);
        let differs = stored_bytes.is_some_and(|bytes| *bytes != delivery.payload);
        if let Some(known) = batch.find(&delivery.name) {
            let known = known.object.typed::<WebhookDelivery>();
            let known = known.map_err(|error| self.fleet.unavailable(error))?;
            if differs || known.spec.payload_digest != digest {
                return Ok(Ok(Received::ConflictingBytes));
            }
            batch.redelivered.push(delivery.name);
            return Ok(Ok(Received::Redelivered));
        }
        if differs {
            return Ok(Err(digest_conflict(&digest)));
        }
        let now = delivery.spec.received_at;
        let object = Object::new(Metadata::named(delivery.name), delivery.spec);
        let object = AnyObject::of(&object).map_err(|error| self.fleet.unavailable(error))?;
        let object = self.initialize(object, now);
        batch.new_by_name.insert(object.metadata.name.clone(), batch.new.len());
        batch.new.push(object);
        if stored_bytes.is_none() {
            batch.new_bytes.push(digest.clone());
            batch.bytes.insert(digest, delivery.payload);
        }
        Ok(Ok(Received::New))
    }

    async fn insert_bytes(&mut self, batch: &Batch) -> Result<(), FleetError> {
        let fleet = self.fleet;
        for chunk in batches(&batch.new_bytes) {
            let rows = fleet.database_kind.row_placeholders(1, chunk.len(), 2);
            let statement = format!("INSERT INTO blobs (digest, bytes) VALUES {rows}");
            let mut query = sqlx::query(sqlx::AssertSqlSafe(statement));
            for digest in chunk {
                let bytes = batch.bytes.get(digest).cloned().unwrap_or_default();
                query = query.bind(digest).bind(bytes);
            }
            let done = query.execute(self.connection()).await;
            done.map_err(|error| fleet.database_error(&error))?;
        }
        Ok(())
    }
}

/// The delivery with one more redelivery counted.
fn count_redelivery(object: &AnyObject) -> Result<AnyObject, FleetError> {
    let unavailable = |error| FleetError::Unavailable(format!("{error}"));
    let mut typed = object.typed::<WebhookDelivery>().map_err(unavailable)?;
    typed.status.redeliveries = typed.status.redeliveries.saturating_add(1);
    AnyObject::of(&typed).map_err(unavailable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_deliveries_are_not_a_burst_and_a_burst_ends_when_none_arrive() {
        let start = Instant::now();
        let at = |millis: u64| start + Duration::from_millis(millis);
        let mut burst = Burst::default();
        assert_eq!(burst.end(start), None);
        let too_few = u64::from(BURST_SIZE) - 1;
        for arrival in 0..too_few {
            burst.record_arrival(at(arrival * 10));
            assert_eq!(burst.end(at(arrival * 10)), None);
        }
        burst.record_arrival(at(too_few * 10));
        assert_eq!(burst.end(at(too_few * 10)), Some(at(too_few * 10 + 50)));
        burst.record_arrival(at(too_few * 10 + 40));
        assert_eq!(burst.end(at(too_few * 10 + 80)), Some(at(too_few * 10 + 90)));
        assert_eq!(burst.end(at(too_few * 10 + 90)), None);
        burst.record_arrival(at(too_few * 10 + 200));
        assert_eq!(burst.end(at(too_few * 10 + 200)), None);
    }
}

//! Webhooks, kept before anybody is told so. Those that come while others are being written wait for
//! each other and share one transaction: one write to the disk for all of them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bailiwick_fleet::ports::{FleetError, IncomingDelivery, Received};
use bailiwick_resources::{AnyObject, DEFAULT_NAMESPACE, Kind, Metadata, Object, WebhookDelivery};
use sqlx::Row as _;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until};

use super::Fleet;
use super::draft::Draft;
use super::row::{Kept, columns};
use super::small::other_bytes;
use super::values::{places, portions, rows};
use crate::open::Store;

/// How many share a transaction at most.
const MOST: usize = 128;
/// How many bytes of payload do; one alone may have more.
const MOST_BYTES: usize = 16 << 20;

/// Those that come within this time of each other pour in.
const CLOSE: Duration = Duration::from_millis(50);

type Answer = Result<Received, FleetError>;

/// Those that wait.
#[derive(Debug, Default)]
pub(super) struct Intake(Mutex<Queue>);

#[derive(Debug, Default)]
struct Queue {
    waiting: Vec<Waiting>,
    /// Whether somebody is writing, who will see to them.
    busy: bool,
    flood: Flood,
}

/// Whether they pour in.
#[derive(Debug, Default)]
struct Flood {
    /// When the last one came.
    last: Option<Instant>,
    /// Whether another had come just before it.
    pours: bool,
}

impl Flood {
    fn came(&mut self, now: Instant) {
        self.pours = self.last.is_some_and(|last| now.duration_since(last) < CLOSE);
        self.last = Some(now);
    }

    /// When it is over if nothing more comes; nothing if there is none.
    fn over(&self, now: Instant) -> Option<Instant> {
        let over = self.last.filter(|_| self.pours).map(|last| last + CLOSE);
        over.filter(|over| *over > now)
    }
}

#[derive(Debug)]
struct Waiting {
    delivery: IncomingDelivery,
    answer: oneshot::Sender<Answer>,
}

impl Intake {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next ones; nothing when the writer may go.
    fn take(&self) -> Vec<Waiting> {
        let mut queue = self.queue();
        let mut bytes = 0_usize;
        let fit = queue.waiting.iter().take(MOST).take_while(|waiting| {
            bytes = bytes.saturating_add(waiting.delivery.payload.len());
            bytes <= MOST_BYTES
        });
        let count = fit.count().max(1).min(queue.waiting.len());
        let taken: Vec<Waiting> = queue.waiting.drain(..count).collect();
        queue.busy = !taken.is_empty();
        taken
    }
}

/// The one that writes. If it is ended in the middle, those that wait are told so by the loss of
/// their channel, and the next one to come writes again.
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
                // Whoever has gone away meanwhile will send it again.
                drop(waiting.send(answer));
            }
        }
    }
}

impl Store {
    /// Waits while webhooks pour in, at most so long: whoever sends them is to be answered first.
    pub async fn lull(&self, longest: Duration) {
        let end = Instant::now() + longest;
        loop {
            let now = Instant::now();
            let over = self.fleet.intake.queue().flood.over(now);
            match over {
                Some(over) if now < end => sleep_until(over.min(end)).await,
                Some(_) | None => return,
            }
        }
    }
}

impl Fleet {
    pub(super) async fn receive(self: &Arc<Self>, delivery: IncomingDelivery) -> Answer {
        let (answer, heard) = oneshot::channel();
        let idle = {
            let mut queue = self.intake.queue();
            queue.flood.came(Instant::now());
            queue.waiting.push(Waiting { delivery, answer });
            !std::mem::replace(&mut queue.busy, true)
        };
        if idle {
            // A task of its own: a caller that goes away must not take the others with it.
            tokio::spawn(Writer(Arc::clone(self)).write());
        }
        heard.await.unwrap_or_else(|_| {
            Err(self.broken("whoever kept deliveries was ended before this one was; send it again"))
        })
    }

    /// Keeps all of them in one transaction; an answer each.
    async fn receive_all(
        &self,
        deliveries: Vec<IncomingDelivery>,
    ) -> Result<Vec<Answer>, FleetError> {
        let mut draft = self.draft().await?;
        match draft.receive_all(deliveries).await {
            Ok(answers) => draft.keep().await.map(|_| answers),
            Err(error) => {
                draft.drop_all().await;
                Err(error)
            }
        }
    }
}

/// What a group of deliveries makes of what is there.
#[derive(Default)]
struct Group {
    /// What is kept, by name.
    known: BTreeMap<String, Kept>,
    /// The places of those that will be, by name.
    coming: BTreeMap<String, usize>,
    /// Bytes that are kept or will be, by digest.
    bytes: BTreeMap<String, Vec<u8>>,
    new: Vec<AnyObject>,
    new_bytes: Vec<String>,
    /// Names of those that came again.
    again: Vec<String>,
}

impl Group {
    /// The delivery of this name, as it is now.
    fn of(&self, name: &str) -> Option<Kept> {
        let coming = || {
            let object = self.new.get(*self.coming.get(name)?)?.clone();
            Some(Kept { born: object.metadata.resource_version, object })
        };
        self.known.get(name).cloned().or_else(coming)
    }
}

impl Draft<'_> {
    async fn receive_all(
        &mut self,
        deliveries: Vec<IncomingDelivery>,
    ) -> Result<Vec<Answer>, FleetError> {
        let mut group = self.known_of(&deliveries).await?;
        let mut answers = Vec::with_capacity(deliveries.len());
        for delivery in deliveries {
            answers.push(self.sort_in(&mut group, delivery)?);
        }
        if self.insert(&group.new).await? != u64::try_from(group.new.len()).unwrap_or_default() {
            return Err(self.fleet.broken("a delivery was there that was not found"));
        }
        self.tell_added(&group.new).await?;
        self.insert_bytes(&group).await?;
        for name in std::mem::take(&mut group.again) {
            if let Some(kept) = group.of(&name) {
                let (born, next) = (kept.born, again(&kept.object)?);
                let object = self.change(kept, next).await?;
                group.known.insert(name, Kept { born, object });
            }
        }
        Ok(answers)
    }

    /// What is there of the same names and digests.
    async fn known_of(&mut self, deliveries: &[IncomingDelivery]) -> Result<Group, FleetError> {
        let fleet = self.fleet;
        let kind = Kind::WebhookDelivery;
        let mut group = Group::default();
        for some in portions(deliveries) {
            let statement = format!(
                "SELECT {} FROM resources r WHERE kind = $1 AND namespace = $2 AND name IN ({})",
                columns("r"),
                places(3, some.len())
            );
            let mut query = sqlx::query(sqlx::AssertSqlSafe(statement));
            query = query.bind(kind.as_str()).bind(DEFAULT_NAMESPACE);
            for delivery in some {
                query = query.bind(&delivery.name);
            }
            let rows = query.fetch_all(self.connection()).await;
            for row in rows.map_err(|error| fleet.failed(&error))? {
                let kept = fleet.kept(kind, &row, 0)?;
                group.known.insert(kept.object.metadata.name.clone(), kept);
            }
            let statement = format!(
                "SELECT digest, bytes FROM blobs WHERE digest IN ({})",
                places(1, some.len())
            );
            let mut query = sqlx::query(sqlx::AssertSqlSafe(statement));
            for delivery in some {
                query = query.bind(&delivery.spec.payload_digest);
            }
            let rows = query.fetch_all(self.connection()).await;
            for row in rows.map_err(|error| fleet.failed(&error))? {
                let read = || Ok((row.try_get(0)?, row.try_get(1)?));
                let (digest, bytes) = read().map_err(|error: sqlx::Error| fleet.failed(&error))?;
                group.bytes.insert(digest, bytes);
            }
        }
        Ok(group)
    }

    /// Decides what becomes of one of the group, in the order in which they came.
    fn sort_in(
        &mut self,
        group: &mut Group,
        delivery: IncomingDelivery,
    ) -> Result<Answer, FleetError> {
        let digest = delivery.spec.payload_digest.clone();
        let kept_bytes = group.bytes.get(&digest);
        let other_than_kept = kept_bytes.is_some_and(|bytes| *bytes != delivery.payload);
        if let Some(known) = group.of(&delivery.name) {
            let known = known.object.typed::<WebhookDelivery>();
            let known = known.map_err(|error| self.fleet.broken(error))?;
            if other_than_kept || known.spec.payload_digest != digest {
                return Ok(Ok(Received::Contradicts));
            }
            group.again.push(delivery.name);
            return Ok(Ok(Received::Again));
        }
        if other_than_kept {
            return Ok(Err(other_bytes(&digest)));
        }
        let now = delivery.spec.received_at;
        let object = Object::new(Metadata::named(delivery.name), delivery.spec);
        let object = AnyObject::of(&object).map_err(|error| self.fleet.broken(error))?;
        let object = self.newborn(object, now);
        group.coming.insert(object.metadata.name.clone(), group.new.len());
        group.new.push(object);
        if kept_bytes.is_none() {
            group.new_bytes.push(digest.clone());
            group.bytes.insert(digest, delivery.payload);
        }
        Ok(Ok(Received::New))
    }

    async fn insert_bytes(&mut self, group: &Group) -> Result<(), FleetError> {
        let fleet = self.fleet;
        for some in portions(&group.new_bytes) {
            let rows = rows(some.len(), 2);
            let statement = format!("INSERT INTO blobs (digest, bytes) VALUES {rows}");
            let mut query = sqlx::query(sqlx::AssertSqlSafe(statement));
            for digest in some {
                let bytes = group.bytes.get(digest).cloned().unwrap_or_default();
                query = query.bind(digest).bind(bytes);
            }
            let done = query.execute(self.connection()).await;
            done.map_err(|error| fleet.failed(&error))?;
        }
        Ok(())
    }
}

/// The same delivery, having come once more.
fn again(object: &AnyObject) -> Result<AnyObject, FleetError> {
    let unavailable = |error| FleetError::Unavailable(format!("{error}"));
    let mut typed = object.typed::<WebhookDelivery>().map_err(unavailable)?;
    typed.status.redeliveries = typed.status.redeliveries.saturating_add(1);
    AnyObject::of(&typed).map_err(unavailable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_alone_is_no_flood_and_a_flood_is_over_when_nothing_more_comes() {
        let begin = Instant::now();
        let at = |millis: u64| begin + Duration::from_millis(millis);
        let mut flood = Flood::default();
        assert_eq!(flood.over(begin), None);
        flood.came(begin);
        assert_eq!(flood.over(begin), None);
        flood.came(at(10));
        assert_eq!(flood.over(at(10)), Some(at(60)));
        flood.came(at(40));
        assert_eq!(flood.over(at(80)), Some(at(90)));
        assert_eq!(flood.over(at(90)), None);
        flood.came(at(200));
        assert_eq!(flood.over(at(200)), None);
    }
}

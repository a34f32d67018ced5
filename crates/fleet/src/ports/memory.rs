//! The reference model of every store: in memory, behind one lock.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use bailiwick_resources::{
    AnyObject, Kind, Metadata, Moment, Object, Secret, SecretKey, WebhookDelivery,
};

use super::store::{
    Applied, AuditEntry, Change, ChangeKind, FleetError, FleetStore, IncomingDelivery, Page,
    PersonRecord, Received, SESSION_ID_PREFIX, SavedFilter, Selection, TokenRecord, Values, Write,
    indexed_fields, named_digests,
};

type Key = (Kind, String, String);

/// A store that forgets everything when it is dropped.
#[derive(Debug, Default)]
pub struct MemoryFleet {
    state: Mutex<State>,
}

#[derive(Debug, Default, Clone)]
struct State {
    version: u64,
    objects: BTreeMap<Key, (u64, AnyObject)>,
    changes: Vec<Change>,
    blobs: BTreeMap<String, Vec<u8>>,
    secrets: BTreeMap<(String, String, String), Vec<u8>>,
    tokens: BTreeMap<String, TokenRecord>,
    people: BTreeMap<String, PersonRecord>,
    filters: BTreeMap<(String, String), SavedFilter>,
    audit: Vec<AuditEntry>,
    /// How many lines of the audit log were forgotten.
    forgotten: u64,
}

fn key(object: &AnyObject) -> Key {
    (object.kind, object.metadata.namespace.clone(), object.metadata.name.clone())
}

fn not_found((kind, namespace, name): &Key) -> FleetError {
    FleetError::NotFound { kind: *kind, namespace: namespace.clone(), name: name.clone() }
}

impl State {
    fn record(&mut self, kind: ChangeKind, object: &mut AnyObject) {
        self.version += 1;
        object.metadata.resource_version = self.version;
        self.changes.push(Change { version: self.version, kind, object: object.clone() });
    }

    fn known(&self, key: &Key, given: u64) -> Result<(u64, AnyObject), FleetError> {
        let (born, object) = self.objects.get(key).cloned().ok_or_else(|| not_found(key))?;
        let found = object.metadata.resource_version;
        if given != 0 && given != found {
            let (kind, namespace, name) = key.clone();
            return Err(FleetError::Conflict { kind, namespace, name, given, found });
        }
        Ok((born, object))
    }

    /// The object that a write changes, before the change.
    fn target(&self, write: &Write) -> Option<AnyObject> {
        let key = match write {
            Write::Replace(object) | Write::Status(object) => key(object),
            Write::Delete { kind, namespace, name, .. } => (*kind, namespace.clone(), name.clone()),
            Write::Require(_)
            | Write::Create(_)
            | Write::Blob { .. }
            | Write::Secret { .. }
            | Write::Token(_)
            | Write::Person(_)
            | Write::SaveFilter(_)
            | Write::DeleteFilter { .. }
            | Write::Audit(_) => return None,
        };
        self.objects.get(&key).map(|(_, object)| object.clone())
    }

    /// Drops the bytes under these digests that no object names any more.
    fn drop_unnamed(&mut self, digests: &BTreeSet<String>) {
        if digests.is_empty() {
            return;
        }
        let left = self.objects.values();
        let named: BTreeSet<String> = left.flat_map(|(_, object)| named_digests(object)).collect();
        for digest in digests.difference(&named) {
            self.blobs.remove(digest);
        }
    }

    fn write(&mut self, write: Write, now: Moment) -> Result<Option<AnyObject>, FleetError> {
        match write {
            Write::Require(required) => {
                let key = (required.kind, required.namespace.clone(), required.name.clone());
                let found = self.objects.get(&key).map(|(_, object)| object);
                required.check(found.map(|object| object.metadata.resource_version))?;
                Ok(None)
            }
            Write::Create(mut object) => {
                let key = key(&object);
                if self.objects.contains_key(&key) {
                    let (kind, namespace, name) = key;
                    return Err(FleetError::AlreadyExists { kind, namespace, name });
                }
                object.metadata.generation = 1;
                object.metadata.creation_timestamp = Some(now);
                object.metadata.uid = format!("memory-{}", self.version + 1);
                self.record(ChangeKind::Added, &mut object);
                self.objects.insert(key, (self.version, object.clone()));
                Ok(Some(object))
            }
            Write::Replace(given) => {
                let key = key(&given);
                let (born, mut object) = self.known(&key, given.metadata.resource_version)?;
                if object.spec != given.spec {
                    object.metadata.generation += 1;
                }
                object.spec = given.spec;
                if object.kind == Kind::Secret {
                    let named =
                        |name: &str| object.spec.pointer("/keys").and_then(|keys| keys.get(name));
                    self.secrets.retain(|(namespace, secret, name), _| {
                        (&key.1, &key.2) != (namespace, secret) || named(name).is_some()
                    });
                }
                object.metadata.labels = given.metadata.labels;
                object.metadata.annotations = given.metadata.annotations;
                self.record(ChangeKind::Modified, &mut object);
                self.objects.insert(key, (born, object.clone()));
                Ok(Some(object))
            }
            Write::Status(given) => {
                let key = key(&given);
                let (born, mut object) = self.known(&key, given.metadata.resource_version)?;
                object.status = given.status;
                self.record(ChangeKind::Modified, &mut object);
                self.objects.insert(key, (born, object.clone()));
                Ok(Some(object))
            }
            Write::Delete { kind, namespace, name, version } => {
                let key = (kind, namespace, name);
                let (_, mut object) = self.known(&key, version)?;
                self.objects.remove(&key);
                if kind == Kind::Secret {
                    self.secrets
                        .retain(|(namespace, name, _), _| (&key.1, &key.2) != (namespace, name));
                }
                self.record(ChangeKind::Deleted, &mut object);
                Ok(None)
            }
            Write::Blob { digest, bytes } => {
                match self.blobs.get(&digest) {
                    Some(kept) if *kept != bytes => return Err(other_bytes(&digest)),
                    Some(_) => {}
                    None => drop(self.blobs.insert(digest, bytes)),
                }
                Ok(None)
            }
            Write::Secret { namespace, name, values } => {
                self.set_values(namespace, name, values, now).map(Some)
            }
            Write::Token(token) => {
                self.tokens.insert(token.id.clone(), token);
                Ok(None)
            }
            Write::Person(person) => {
                self.people.insert(person.name.clone(), person);
                Ok(None)
            }
            Write::SaveFilter(filter) => {
                self.filters.insert((filter.owner.clone(), filter.name.clone()), filter);
                Ok(None)
            }
            Write::DeleteFilter { owner, name } => {
                self.filters.remove(&(owner, name));
                Ok(None)
            }
            Write::Audit(entry) => {
                self.audit.push(entry);
                Ok(None)
            }
        }
    }

    fn set_values(
        &mut self,
        namespace: String,
        name: String,
        Values(values): Values,
        now: Moment,
    ) -> Result<AnyObject, FleetError> {
        let known = self.objects.get(&(Kind::Secret, namespace.clone(), name.clone())).cloned();
        let mut secret = match &known {
            Some((_, object)) => object.typed::<Secret>().map_err(unavailable)?,
            None => {
                let named = Metadata::named(name.as_str());
                let metadata = Metadata { namespace: namespace.clone(), ..named };
                Object::new(metadata, Secret::default())
            }
        };
        for (key, value) in values {
            let version = secret.spec.keys.get(&key).map_or(1, |known| known.version + 1);
            secret.spec.keys.insert(key.clone(), SecretKey { set_at: now, version });
            self.secrets.insert((namespace.clone(), name.clone(), key), value);
        }
        let object = AnyObject::of(&secret).map_err(unavailable)?;
        let write = if known.is_some() { Write::Replace(object) } else { Write::Create(object) };
        self.write(write, now)?.ok_or_else(|| unavailable("nothing was written"))
    }
}

impl MemoryFleet {
    fn with<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        work(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Reads and stores in two steps, between which another call may come.
    async fn receive_once(&self, delivery: IncomingDelivery) -> Result<Received, FleetError> {
        let now = delivery.spec.received_at;
        let key = (Kind::WebhookDelivery, Metadata::named("").namespace, delivery.name.clone());
        let bytes = self.blob(&delivery.spec.payload_digest).await?;
        let known = self.with(|state| state.objects.get(&key).map(|(_, object)| object.clone()));
        if let Some(known) = known {
            let mut known = known.typed::<WebhookDelivery>().map_err(unavailable)?;
            if known.spec.payload_digest != delivery.spec.payload_digest
                || bytes.is_some_and(|bytes| bytes != delivery.payload)
            {
                return Ok(Received::ConflictingBytes);
            }
            known.status.redeliveries = known.status.redeliveries.saturating_add(1);
            let again = AnyObject::of(&known).map_err(unavailable)?;
            return self
                .commit(vec![Write::Status(again)], now)
                .await
                .map(|_| Received::Redelivered);
        }
        let digest = delivery.spec.payload_digest.clone();
        let object = Object::new(Metadata::named(delivery.name), delivery.spec);
        let object = AnyObject::of(&object).map_err(unavailable)?;
        let writes = vec![Write::Blob { digest, bytes: delivery.payload }, Write::Create(object)];
        self.commit(writes, now).await.map(|_| Received::New)
    }
}

fn selected(selection: &Selection, object: &AnyObject) -> bool {
    let labels = &object.metadata.labels;
    let whole = serde_json::to_value(object).unwrap_or_default();
    let field = |(name, wanted): (&String, &String)| {
        let place = indexed_fields(object.kind).iter().find(|(known, _)| known == name);
        place.and_then(|(_, pointer)| whole.pointer(pointer)).is_some_and(|value| {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            text == *wanted
        })
    };
    object.kind == selection.kind
        && selection.namespace.as_ref().is_none_or(|name| *name == object.metadata.namespace)
        && selection.labels.iter().all(|(name, value)| labels.get(name) == Some(value))
        && selection.fields.iter().all(field)
}

impl FleetStore for MemoryFleet {
    async fn get(
        &self,
        kind: Kind,
        namespace: &str,
        name: &str,
    ) -> Result<Option<AnyObject>, FleetError> {
        let key = (kind, namespace.to_owned(), name.to_owned());
        Ok(self.with(|state| state.objects.get(&key).map(|(_, object)| object.clone())))
    }

    async fn list(&self, selection: &Selection) -> Result<Page, FleetError> {
        let after = match &selection.after {
            None => None,
            Some(place) => Some(
                place.parse::<u64>().map_err(|_| FleetError::InvalidContinuation(place.clone()))?,
            ),
        };
        Ok(self.with(|state| {
            let mut found: Vec<&(u64, AnyObject)> =
                state.objects.values().filter(|(_, object)| selected(selection, object)).collect();
            found.sort_by_key(|(born, _)| *born);
            if selection.newest_first {
                found.reverse();
            }
            let mut rest = found
                .into_iter()
                .filter(|(born, _)| {
                    after.is_none_or(|place| {
                        if selection.newest_first { *born < place } else { *born > place }
                    })
                })
                .peekable();
            let mut page = Page { version: state.version, ..Page::default() };
            while page.objects.len() < selection.limit {
                let Some((born, object)) = rest.next() else { break };
                page.objects.push(object.clone());
                page.next = rest.peek().map(|_| born.to_string());
            }
            page
        }))
    }

    async fn commit(&self, writes: Vec<Write>, now: Moment) -> Result<Applied, FleetError> {
        self.with(|state| {
            let mut next = state.clone();
            let mut objects = Vec::new();
            let mut replaced = BTreeSet::new();
            for write in writes {
                let known = next.target(&write).map(|object| named_digests(&object));
                objects.extend(next.write(write, now)?);
                replaced.extend(known.into_iter().flatten());
            }
            next.drop_unnamed(&replaced);
            let version = next.version;
            *state = next;
            Ok(Applied { objects, version })
        })
    }

    async fn changes(&self, after: u64, limit: usize) -> Result<Vec<Change>, FleetError> {
        self.with(|state| {
            let mut later = state.changes.iter().filter(|change| change.version > after).peekable();
            match later.peek() {
                Some(first) if first.version > after.saturating_add(1) => {
                    Err(FleetError::Gone { oldest: first.version })
                }
                Some(_) | None => Ok(later.take(limit).cloned().collect()),
            }
        })
    }

    async fn forget_changes(&self, keep: u64) -> Result<u64, FleetError> {
        Ok(self.with(|state| {
            let before = state.changes.len();
            let oldest = state.version.saturating_sub(keep.max(1));
            state.changes.retain(|change| change.version > oldest);
            u64::try_from(before - state.changes.len()).unwrap_or_default()
        }))
    }

    async fn wait_for_change(&self, _: u64, _: u64) {}

    async fn receive(&self, delivery: IncomingDelivery) -> Result<Received, FleetError> {
        loop {
            match self.receive_once(delivery.clone()).await {
                // Another was quicker between looking and keeping: look again.
                Err(FleetError::AlreadyExists { .. } | FleetError::Conflict { .. }) => {}
                received => return received,
            }
        }
    }

    async fn blob(&self, digest: &str) -> Result<Option<Vec<u8>>, FleetError> {
        Ok(self.with(|state| state.blobs.get(digest).cloned()))
    }

    async fn secret_value(
        &self,
        namespace: &str,
        name: &str,
        key: &str,
    ) -> Result<Option<Vec<u8>>, FleetError> {
        let place = (namespace.to_owned(), name.to_owned(), key.to_owned());
        Ok(self.with(|state| state.secrets.get(&place).cloned()))
    }

    async fn tokens(&self) -> Result<Vec<TokenRecord>, FleetError> {
        Ok(self.with(|state| state.tokens.values().cloned().collect()))
    }

    async fn token(&self, digest: &str) -> Result<Option<TokenRecord>, FleetError> {
        Ok(self.with(|state| state.tokens.values().find(|token| token.digest == digest).cloned()))
    }

    async fn people(&self) -> Result<Vec<PersonRecord>, FleetError> {
        Ok(self.with(|state| state.people.values().cloned().collect()))
    }

    async fn saved_filters(&self, owner: &str) -> Result<Vec<SavedFilter>, FleetError> {
        let mut own = self.with(|state| {
            let own = state.filters.values().filter(|filter| filter.owner == owner);
            own.cloned().collect::<Vec<_>>()
        });
        own.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(own)
    }

    async fn forget_sessions(&self, before: Moment, most: usize) -> Result<u64, FleetError> {
        Ok(self.with(|state| {
            let is_over = |token: &&TokenRecord| {
                token.id.starts_with(SESSION_ID_PREFIX)
                    && token.expires_at.is_some_and(|end| end < before)
            };
            let over = state.tokens.values().filter(is_over).take(most);
            let over: Vec<String> = over.map(|token| token.id.clone()).collect();
            for id in &over {
                state.tokens.remove(id);
            }
            u64::try_from(over.len()).unwrap_or_default()
        }))
    }

    async fn forget_audit(&self, before: Moment, most: usize) -> Result<u64, FleetError> {
        Ok(self.with(|state| {
            let all = state.audit.len().saturating_sub(1).min(most);
            let old = state.audit.iter().take(all).take_while(|entry| entry.at < before).count();
            state.audit.drain(..old);
            let forgotten = u64::try_from(old).unwrap_or_default();
            state.forgotten += forgotten;
            forgotten
        }))
    }

    async fn audit(&self, after: u64, limit: usize) -> Result<Vec<(u64, AuditEntry)>, FleetError> {
        Ok(self.with(|state| {
            (state.forgotten + 1..)
                .zip(state.audit.iter().cloned())
                .filter(|(number, _)| *number > after)
                .take(limit)
                .collect()
        }))
    }
}

fn unavailable(why: impl std::fmt::Display) -> FleetError {
    FleetError::Unavailable(why.to_string())
}

fn other_bytes(digest: &str) -> FleetError {
    unavailable(format!("other bytes are kept under the digest {digest}; what is there stays"))
}

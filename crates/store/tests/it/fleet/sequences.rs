//! Runs the same random calls on a store and on the in-memory model, and compares every answer.
//!
//! A function opens the store, so that it can be closed and reopened. Only the uids differ: each
//! store creates its own unique ones.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::future::Future;

use bailiwick_fleet::ports::{
    Change, FleetError, FleetStore, MemoryFleet, Page, Requirement, Selection, Values, Write,
    indexed_fields,
};
use bailiwick_resources::{AnyObject, Kind, Metadata};
use bailiwick_testkit::random::Random;

use super::objects::{
    DIGESTS, KINDS, NAMES, NAMESPACES, OWNERS, WORDS, audit, delivery, filter, labels, moment,
    object, person, pick, spec, status, token,
};

/// How often each kind of result occurred.
pub(crate) type ResultCounts = BTreeMap<String, u64>;

pub(crate) struct Sequence<'a, S> {
    random: &'a mut Random,
    model: MemoryFleet,
    store: S,
    /// The uids of the store, by those of the model.
    uids: BTreeMap<String, String>,
    results: &'a mut ResultCounts,
}

/// Runs one sequence of calls.
pub(crate) async fn sequence<S: FleetStore, F: Future<Output = S>>(
    random: &mut Random,
    steps: usize,
    results: &mut ResultCounts,
    open: impl Fn() -> F,
) {
    let (model, store) = (MemoryFleet::default(), open().await);
    let mut comparison = Sequence { random, model, store, uids: BTreeMap::new(), results };
    for _ in 0..steps {
        if comparison.random.once_in(40) {
            comparison.store = open().await;
        }
        comparison.step().await;
    }
    comparison.compare_all().await;
}

impl<S: FleetStore> Sequence<'_, S> {
    async fn step(&mut self) {
        match self.random.below(20) {
            0..=7 => self.commit().await,
            8..=10 => self.pages().await,
            11 => self.get().await,
            12 => self.changes().await,
            13 => self.forget().await,
            14..=15 => self.receive().await,
            16..=17 => self.secret().await,
            18 => self.token().await,
            _ => self.rest().await,
        }
    }

    /// Compares an object of both; its uid must not change.
    fn same(&mut self, of_model: &AnyObject, of_store: &AnyObject) {
        let (left, right) = (&of_model.metadata.uid, &of_store.metadata.uid);
        if let Some(known) = self.uids.get(left) {
            assert_eq!(known, right, "the uid of an object has changed");
        } else {
            assert!(!self.uids.values().any(|known| known == right), "{right} was used before");
            self.uids.insert(left.clone(), right.clone());
        }
        let mut renamed = of_store.clone();
        renamed.metadata.uid.clone_from(left);
        assert_eq!(*of_model, renamed);
    }

    fn same_all(&mut self, of_model: &[AnyObject], of_store: &[AnyObject]) {
        assert_eq!(of_model.len(), of_store.len(), "{of_model:?}\n{of_store:?}");
        for (left, right) in of_model.iter().zip(of_store) {
            self.same(left, right);
        }
    }

    fn count(&mut self, what: impl Into<String>) {
        *self.results.entry(what.into()).or_default() += 1;
    }

    /// Both succeeded, or both failed with the same error.
    fn both<T: Debug>(
        &mut self,
        what: &str,
        model: Result<T, FleetError>,
        store: Result<T, FleetError>,
    ) -> Option<(T, T)> {
        match (model, store) {
            (Ok(left), Ok(right)) => {
                self.count(what);
                Some((left, right))
            }
            // The text of an internal error may differ.
            (Err(FleetError::Unavailable(_)), Err(FleetError::Unavailable(_))) => {
                self.count(format!("{what}: Unavailable"));
                None
            }
            (Err(left), Err(right)) => {
                assert_eq!(left, right);
                let debug = format!("{left:?}");
                let name = debug.split([' ', '{', '(']).next().unwrap_or_default();
                self.count(format!("{what}: {name}"));
                None
            }
            (left, right) => panic!("{what}: the model {left:?}, the store {right:?}"),
        }
    }

    async fn version_for(&mut self, kind: Kind, namespace: &str, name: &str) -> u64 {
        let found = self.model.get(kind, namespace, name).await.unwrap();
        let current = found.map_or(0, |object| object.metadata.resource_version);
        match self.random.below(6) {
            0 => current.saturating_sub(1),
            1 => current + 1,
            2 | 3 => 0,
            _ => current,
        }
    }

    /// A random existing object.
    async fn some_object(&mut self) -> Option<AnyObject> {
        let mut objects = Vec::new();
        for kind in KINDS {
            objects.extend(self.model.list(&Selection::of(kind)).await.unwrap().objects);
        }
        let chosen = self.random.below(objects.len());
        objects.into_iter().nth(chosen)
    }

    async fn write(&mut self) -> Write {
        let mut written = object(self.random);
        let choice = self.random.below(24);
        // Any name for a new object; mostly an existing name for a change.
        if ((9..=15).contains(&choice) || choice > 21)
            && !self.random.once_in(5)
            && let Some(known) = self.some_object().await
        {
            written.kind = known.kind;
            written.metadata.namespace = known.metadata.namespace;
            written.metadata.name = known.metadata.name;
        }
        let (kind, namespace, name) =
            (written.kind, written.metadata.namespace.clone(), written.metadata.name.clone());
        let version = self.version_for(kind, &namespace, &name).await;
        written.metadata.resource_version = version;
        match choice {
            0..=8 => Write::Create(written),
            9..=11 => {
                // Often the same spec: the generation must not change.
                if self.random.once_in(2)
                    && let Some(known) = self.model.get(kind, &namespace, &name).await.unwrap()
                {
                    written.spec = known.spec;
                }
                Write::Replace(written)
            }
            12..=14 => Write::Status(written),
            15 => Write::Delete { kind, namespace, name, version },
            16..=17 => {
                let bytes = pick(self.random, &WORDS).as_bytes().to_vec();
                let digest = pick(self.random, &DIGESTS).to_owned();
                Write::Blob { digest, bytes }
            }
            18 => {
                let value = pick(self.random, &WORDS).as_bytes().to_vec();
                let values = Values(BTreeMap::from([("k1".to_owned(), value)]));
                let name = pick(self.random, &["s1", "s2"]).to_owned();
                Write::Secret { namespace, name, values }
            }
            19 if self.random.once_in(2) => Write::Token(token(self.random)),
            19 if self.random.once_in(2) => Write::Person(person(self.random)),
            19 if self.random.once_in(3) => {
                let filter = filter(self.random);
                Write::DeleteFilter { owner: filter.owner, name: filter.name }
            }
            19 => Write::SaveFilter(filter(self.random)),
            22.. => {
                let resource_version = version;
                Write::Require(Requirement { kind, namespace, name, resource_version })
            }
            _ => Write::Audit(audit(self.random)),
        }
    }

    /// Statuses of all objects in a namespace; at times a duplicate, an unknown object or an old version.
    async fn statuses(&mut self) -> Vec<Write> {
        let like = self.some_object().await.unwrap_or_else(|| object(self.random));
        let namespace = Some(like.metadata.namespace.clone());
        let selection = Selection { namespace, ..Selection::of(like.kind) };
        let mut objects = self.model.list(&selection).await.unwrap().objects;
        if self.random.once_in(3) {
            objects.insert(self.random.below(objects.len() + 1), like);
        }
        let outdated =
            if self.random.once_in(4) { self.random.below(objects.len()) } else { objects.len() };
        for (index, object) in objects.iter_mut().enumerate() {
            object.status = status(self.random);
            // Only the status must be written.
            object.spec = spec(self.random);
            object.metadata.resource_version = match index == outdated {
                true => object.metadata.resource_version + 1,
                false if self.random.once_in(2) => 0,
                false => object.metadata.resource_version,
            };
        }
        objects.into_iter().map(Write::Status).collect()
    }

    async fn commit(&mut self) {
        let mut writes = Vec::new();
        for _ in 0..self.random.below(5) {
            writes.push(self.write().await);
        }
        let is_large = self.random.once_in(3);
        if is_large {
            let statuses = self.statuses().await;
            writes.splice(0..self.random.below(writes.len() + 1), statuses);
        }
        let now = moment(self.random);
        let before = self.bytes().await;
        let model = self.model.commit(writes.clone(), now).await;
        let store = self.store.commit(writes, now).await;
        if self.bytes().await < before {
            self.count("bytes deleted");
        }
        if let Some((model, store)) = self.both("commit", model, store) {
            assert_eq!(model.version, store.version);
            self.same_all(&model.objects, &store.objects);
            if is_large && model.objects.len() > 3 {
                self.count("many statuses");
            }
        }
    }

    /// A selection that mostly matches some object.
    async fn selection(&mut self) -> Selection {
        let like = self.some_object().await.unwrap_or_else(|| object(self.random));
        let random = &mut *self.random;
        let mut selection = Selection::of(like.kind);
        selection.limit = [0, 1, 2, 3, 1_000, usize::MAX][random.below(6)];
        selection.newest_first = random.once_in(2);
        if random.once_in(2) {
            selection.namespace = Some(like.metadata.namespace.clone());
        }
        for (name, value) in &like.metadata.labels {
            if random.once_in(3) {
                selection.labels.insert(name.clone(), value.clone());
            }
        }
        let json = serde_json::to_value(&like).unwrap();
        for (name, pointer) in indexed_fields(like.kind) {
            if let Some(value) = json.pointer(pointer)
                && random.once_in(3)
            {
                let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                selection = selection.field(name, text);
            }
        }
        match random.below(12) {
            0 => selection.labels = labels(random),
            1 => selection = selection.field("status", pick(random, &WORDS)),
            2 => selection = selection.field("unknown", "x"),
            3 => selection.namespace = Some(pick(random, &NAMESPACES).to_owned()),
            _ => {}
        }
        selection
    }

    async fn page(&mut self, selection: &Selection) -> Option<Page> {
        let model = self.model.list(selection).await;
        let store = self.store.list(selection).await;
        let (model, store) = self.both("page", model, store)?;
        assert_eq!((&model.next, model.version), (&store.next, store.version), "{selection:?}");
        self.same_all(&model.objects, &store.objects);
        if !model.objects.is_empty() {
            self.count("page with objects");
            match selection.fields.len() + selection.labels.len() {
                0 => {}
                1 => self.count("page by one term with objects"),
                _ => self.count("page by many terms with objects"),
            }
        }
        Some(model)
    }

    async fn pages(&mut self) {
        let mut selection = self.selection().await;
        if self.random.once_in(20) {
            selection.after = Some(pick(self.random, &["", "x", "-1", "0", "3"]).to_owned());
        }
        while let Some(page) = self.page(&selection).await {
            let Some(next) = page.next else { return };
            selection.after = Some(next);
            self.count("next page");
            if self.random.once_in(6) {
                // At times write between two pages.
                self.commit().await;
            }
        }
    }

    async fn get(&mut self) {
        let kind = KINDS[self.random.below(KINDS.len())];
        let (namespace, name) = (pick(self.random, &NAMESPACES), pick(self.random, &NAMES));
        let model = self.model.get(kind, namespace, name).await.unwrap();
        let store = self.store.get(kind, namespace, name).await.unwrap();
        let (model, store): (Vec<_>, Vec<_>) =
            (model.into_iter().collect(), store.into_iter().collect());
        self.same_all(&model, &store);
    }

    async fn changes(&mut self) {
        let newest = self.model.list(&Selection::of(Kind::Role)).await.unwrap().version;
        let after = self.random.number() % (newest + 3);
        let limit = [0, 1, 3, usize::MAX][self.random.below(4)];
        self.changes_after(after, limit).await;
    }

    async fn changes_after(&mut self, after: u64, limit: usize) {
        let model = self.model.changes(after, limit).await;
        let store = self.store.changes(after, limit).await;
        let Some((model, store)) = self.both("changes", model, store) else { return };
        let found = |changes: &[Change]| -> Vec<_> {
            changes.iter().map(|change| (change.version, change.kind)).collect()
        };
        assert_eq!(found(&model), found(&store));
        for (left, right) in model.iter().zip(&store) {
            self.same(&left.object, &right.object);
        }
    }

    async fn forget(&mut self) {
        let keep = [0, 1, 5, 50, u64::MAX][self.random.below(5)];
        let model = self.model.forget_changes(keep).await;
        let store = self.store.forget_changes(keep).await;
        let (model, store) = self.both("forget", model, store).unwrap();
        assert_eq!(model, store);
    }

    async fn receive(&mut self) {
        let payload = pick(self.random, &WORDS).as_bytes();
        let mut incoming = delivery(pick(self.random, &NAMES), payload, moment(self.random));
        if self.random.once_in(5) {
            // A digest that does not match the bytes.
            incoming.spec.payload_digest = pick(self.random, &[DIGESTS[0], "lie"]).to_owned();
        }
        let model = self.model.receive(incoming.clone()).await;
        let store = self.store.receive(incoming.clone()).await;
        if let Some((model, store)) = self.both("receive", model, store) {
            assert_eq!(model, store);
            self.count(format!("receive: {model:?}"));
        }
        let model = self.model.get(Kind::WebhookDelivery, "default", &incoming.name).await;
        let store = self.store.get(Kind::WebhookDelivery, "default", &incoming.name).await;
        let (model, store) = (model.unwrap(), store.unwrap());
        assert_eq!(model.is_some(), store.is_some());
        if let (Some(model), Some(store)) = (model, store) {
            self.same(&model, &store);
        }
        let digest = &incoming.spec.payload_digest;
        let stored = self.model.blob(digest).await.unwrap();
        assert_eq!(stored, self.store.blob(digest).await.unwrap());
    }

    async fn secret(&mut self) {
        let namespace = pick(self.random, &NAMESPACES);
        let name = pick(self.random, &["s1", "s2"]);
        let keys = ["k1", "k2", "Ünïcödé \u{1f980}"];
        let now = moment(self.random);
        match self.random.below(4) {
            0 | 1 => {
                let mut values = BTreeMap::new();
                for _ in 0..self.random.below(3) {
                    let value = pick(self.random, &WORDS).as_bytes().to_vec();
                    values.insert(pick(self.random, &keys).to_owned(), value);
                }
                let model = self.model.set_secret(namespace, name, values.clone(), now).await;
                let store = self.store.set_secret(namespace, name, values, now).await;
                let (model, store) = self.both("set secret", model, store).unwrap();
                self.same(&model, &store);
            }
            2 => {
                let kind = Kind::Secret;
                let (namespace, name) = (namespace.to_owned(), name.to_owned());
                let write = Write::Delete { kind, namespace, name, version: 0 };
                let model = self.model.commit(vec![write.clone()], now).await;
                let store = self.store.commit(vec![write], now).await;
                self.both("delete secret", model, store);
            }
            _ => {
                // Remove one of its keys.
                let Some(mut object) = self.model.get(Kind::Secret, namespace, name).await.unwrap()
                else {
                    return;
                };
                let removed = pick(self.random, &keys);
                object.spec["keys"].as_object_mut().unwrap().remove(removed);
                let metadata = Metadata { namespace: namespace.into(), ..Metadata::named(name) };
                let write = Write::Replace(AnyObject { metadata, ..object });
                let model = self.model.commit(vec![write.clone()], now).await;
                let store = self.store.commit(vec![write], now).await;
                let (model, store) = self.both("forget a key", model, store).unwrap();
                self.same_all(&model.objects, &store.objects);
            }
        }
        for key in keys {
            let model = self.model.secret_value(namespace, name, key).await;
            let store = self.store.secret_value(namespace, name, key).await;
            let (model, store) = self.both("secret value", model, store).unwrap();
            assert_eq!(model, store, "{namespace}/{name} {key}");
            self.count(if model.is_some() { "a value" } else { "no value" });
        }
    }

    async fn token(&mut self) {
        let token = token(self.random);
        self.model.put_token(token.clone()).await.unwrap();
        self.store.put_token(token).await.unwrap();
        assert_eq!(self.model.tokens().await, self.store.tokens().await);
        assert_eq!(self.model.people().await, self.store.people().await);
        for owner in OWNERS {
            let model = self.model.saved_filters(owner).await;
            assert_eq!(model, self.store.saved_filters(owner).await, "{owner}");
            self.count(if model.unwrap().is_empty() { "no filter" } else { "a filter" });
        }
        for digest in ["d1", "d2", "d3", "d4", "d5"] {
            assert_eq!(self.model.token(digest).await, self.store.token(digest).await);
        }
    }

    /// Compares the stored bytes; returns the number of digests with bytes.
    async fn bytes(&mut self) -> usize {
        let mut stored = 0;
        for digest in DIGESTS.into_iter().chain(["none"]) {
            let model = self.model.blob(digest).await.unwrap();
            stored += usize::from(model.is_some());
            assert_eq!(model, self.store.blob(digest).await.unwrap(), "{digest}");
        }
        let digests = DIGESTS.into_iter().chain(["none"]).map(str::to_owned).collect();
        assert_eq!(self.model.blobs(&digests).await, self.store.blobs(&digests).await);
        stored
    }

    async fn forget_audit(&mut self) {
        let (before, max_count) = (moment(self.random), self.random.below(6));
        let model = self.model.forget_audit(before, max_count).await.unwrap();
        assert_eq!(model, self.store.forget_audit(before, max_count).await.unwrap());
        if model > 0 {
            self.count("audit forgotten");
        }
    }

    async fn forget_sessions(&mut self) {
        let (before, max_count) = (moment(self.random), self.random.below(3));
        let model = self.model.forget_sessions(before, max_count).await.unwrap();
        assert_eq!(model, self.store.forget_sessions(before, max_count).await.unwrap());
        if model > 0 {
            self.count("sessions forgotten");
        }
    }

    async fn rest(&mut self) {
        if self.random.once_in(3) {
            self.forget_audit().await;
            self.forget_sessions().await;
        }
        let after = self.random.number() % 10;
        let limit = [0, 2, usize::MAX][self.random.below(3)];
        let model = self.model.audit(after, limit).await.unwrap();
        assert_eq!(model, self.store.audit(after, limit).await.unwrap());
        self.bytes().await;
        // It must return even if nothing changed.
        self.store.wait_for_change(0, 0).await;
    }

    /// Compares everything at the end.
    async fn compare_all(&mut self) {
        for kind in Kind::ALL {
            let selection = Selection { limit: usize::MAX, ..Selection::of(*kind) };
            self.page(&selection).await.unwrap();
        }
        let (kind, field, without) = (Kind::AgentDispatchRun, "stack", "taskKind");
        assert_eq!(
            self.model.count_by(kind, field, without).await.unwrap(),
            self.store.count_by(kind, field, without).await.unwrap()
        );
        let runs = self.model.list(&Selection::of(kind)).await.unwrap().objects;
        for run in runs.iter().take(5) {
            let value = |name: &str| run.spec.pointer(name).and_then(|value| value.as_str());
            let (stack, task) = (value("/agentStack"), value("/taskKind"));
            let (first, second) =
                (("stack", stack.unwrap_or_default()), ("taskKind", task.unwrap_or_default()));
            assert_eq!(
                self.model.count_both(kind, first, second).await.unwrap(),
                self.store.count_both(kind, first, second).await.unwrap()
            );
        }
        self.changes_after(0, usize::MAX).await;
        assert_eq!(
            self.model.audit(0, usize::MAX).await.unwrap(),
            self.store.audit(0, usize::MAX).await.unwrap()
        );
    }
}

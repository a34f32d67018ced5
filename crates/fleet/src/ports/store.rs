//! The store of resources.
//!
//! Related writes are one list: a store performs all of them or none. So a plan can be executed, interrupted and
//! repeated: names of records are derived from idempotency keys, and a second `Create` of the same name has a
//! separate error.

mod error;
mod index;
mod records;
mod requirement;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::future::Future;

use bailiwick_resources::{AnyObject, Kind, Moment};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use crate::admission::PersonRecord;
pub use error::FleetError;
use index::field_value;
pub use index::{indexed_fields, named_digests};
pub use records::{
    AuditEntry, IncomingDelivery, Received, SESSION_ID_PREFIX, SavedFilter, TokenRecord, TokenScope,
};
pub use requirement::{MalformedRequirement, Requirement};

/// One write. Version 0 matches any version.
#[derive(Debug, Clone, PartialEq)]
pub enum Write {
    /// Writes nothing; the commit fails unless an object is as required.
    Require(Requirement),
    /// Creates an object; the store sets uid, generation, version and time.
    Create(AnyObject),
    /// Replaces spec, labels and annotations. The generation increases only if the spec differs.
    Replace(AnyObject),
    /// Replaces the status only.
    Status(AnyObject),
    /// Deletes an object, and the blobs that no other object names.
    Delete {
        /// The kind.
        kind: Kind,
        /// The namespace.
        namespace: String,
        /// The name.
        name: String,
        /// The expected version.
        version: u64,
    },
    /// Stores bytes under their digest; repeating it is not an error, other bytes are.
    Blob {
        /// The digest.
        digest: String,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// Sets secret values, which are stored encrypted. The object lists the keys. A value is deleted with its object
    /// or key.
    Secret {
        /// The namespace.
        namespace: String,
        /// The name.
        name: String,
        /// The values by key; other keys stay.
        values: Values,
    },
    /// Creates or updates a token.
    Token(TokenRecord),
    /// Creates or updates what is known about a person.
    Person(PersonRecord),
    /// Saves a filter of a person, or replaces it.
    SaveFilter(SavedFilter),
    /// Deletes a saved filter; a missing one is not an error.
    DeleteFilter {
        /// The person.
        owner: String,
        /// The name.
        name: String,
    },
    /// Appends to the audit log.
    Audit(AuditEntry),
}

/// Secret values by key. `Debug` shows only the keys.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Values(pub BTreeMap<String, Vec<u8>>);

impl fmt::Debug for Values {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_set().entries(self.0.keys()).finish()
    }
}

/// The result of a commit: the new state of the object of each `Create`, `Replace`, `Status` and `Secret`, in order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Applied {
    /// The objects.
    pub objects: Vec<AnyObject>,
    pub version: u64,
}

/// Selects objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    /// The kind.
    pub kind: Kind,
    /// The namespace; all when left out.
    pub namespace: Option<String>,
    /// Required labels.
    pub labels: BTreeMap<String, String>,
    /// Required values of fields; only those of `indexed_fields`.
    pub fields: BTreeMap<String, String>,
    /// The maximum number of objects.
    pub limit: usize,
    /// The start of the page, as returned with the previous page.
    pub after: Option<String>,
    pub newest_first: bool,
}

impl Selection {
    /// All objects of a kind, oldest first, a thousand for each page.
    pub fn of(kind: Kind) -> Self {
        Self {
            kind,
            namespace: None,
            labels: BTreeMap::new(),
            fields: BTreeMap::new(),
            limit: 1_000,
            after: None,
            newest_first: false,
        }
    }

    #[must_use]
    pub fn field(mut self, field: &str, value: impl Into<String>) -> Self {
        self.fields.insert(field.to_owned(), value.into());
        self
    }
}

/// A page of objects.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Page {
    /// The objects.
    pub objects: Vec<AnyObject>,
    /// The start of the next page; nothing on the last.
    pub next: Option<String>,
    /// The version of the store at the time of reading, to watch from.
    pub version: u64,
}

/// What happened to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum ChangeKind {
    /// It is new.
    Added,
    /// It is different.
    Modified,
    /// It is gone.
    Deleted,
}

/// One change, as it is watched.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Change {
    /// The version of the store, from which to continue.
    pub version: u64,
    /// What happened.
    #[serde(rename = "type")]
    pub kind: ChangeKind,
    /// The object as it was then; for a deletion as it was last.
    pub object: AnyObject,
}

/// A store of resources. One test suite compares every implementation with `MemoryFleet`.
pub trait FleetStore: Send + Sync + 'static {
    /// Reads one object.
    fn get(
        &self,
        kind: Kind,
        namespace: &str,
        name: &str,
    ) -> impl Future<Output = Result<Option<AnyObject>, FleetError>> + Send;

    /// Reads a page of objects.
    fn list(&self, selection: &Selection) -> impl Future<Output = Result<Page, FleetError>> + Send;

    /// How many objects of a kind have each value of a field, without those that have another field. Both are of
    /// `indexed_fields`.
    fn count_by(
        &self,
        kind: Kind,
        field: &str,
        without: &str,
    ) -> impl Future<Output = Result<BTreeMap<String, u64>, FleetError>> + Send {
        async move {
            let mut counts = BTreeMap::new();
            let mut selection = Selection::of(kind);
            loop {
                let page = self.list(&selection).await?;
                for object in &page.objects {
                    if let Some(value) = field_value(object, field)
                        && field_value(object, without).is_none()
                    {
                        *counts.entry(value).or_default() += 1;
                    }
                }
                selection.after = page.next;
                if selection.after.is_none() {
                    return Ok(counts);
                }
            }
        }
    }

    /// How many objects of a kind have both values, each of a field of `indexed_fields`. It reads every object with the
    /// first value: name the one that fewer objects have.
    fn count_both(
        &self,
        kind: Kind,
        first: (&str, &str),
        second: (&str, &str),
    ) -> impl Future<Output = Result<u64, FleetError>> + Send {
        let mut selection = Selection::of(kind).field(first.0, first.1).field(second.0, second.1);
        async move {
            let mut count = 0;
            loop {
                let page = self.list(&selection).await?;
                count += u64::try_from(page.objects.len()).unwrap_or(u64::MAX);
                selection.after = page.next;
                if selection.after.is_none() {
                    return Ok(count);
                }
            }
        }
    }

    /// Performs all writes or none.
    fn commit(
        &self,
        writes: Vec<Write>,
        now: Moment,
    ) -> impl Future<Output = Result<Applied, FleetError>> + Send;

    /// The changes after a version, oldest first; `Gone` if the log does not reach back so far.
    fn changes(
        &self,
        after: u64,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<Change>, FleetError>> + Send;

    /// Deletes all but the newest `keep` changes, and never the last one. Returns how many were deleted.
    fn forget_changes(&self, keep: u64) -> impl Future<Output = Result<u64, FleetError>> + Send;

    /// Waits for a change after this version, up to a timeout.
    fn wait_for_change(&self, after: u64, millis: u64) -> impl Future<Output = ()> + Send;

    /// Stores a webhook; a redelivery is counted in its status. Concurrent ones may share one write to the disk.
    fn receive(
        &self,
        delivery: IncomingDelivery,
    ) -> impl Future<Output = Result<Received, FleetError>> + Send;

    /// Fails if nothing can be written, by a test write.
    fn check_writable(&self) -> impl Future<Output = Result<(), FleetError>> + Send {
        async { Ok(()) }
    }

    /// Reads a blob.
    fn blob(
        &self,
        digest: &str,
    ) -> impl Future<Output = Result<Option<Vec<u8>>, FleetError>> + Send;

    /// Reads the blobs that exist.
    fn blobs(
        &self,
        digests: &BTreeSet<String>,
    ) -> impl Future<Output = Result<BTreeMap<String, Vec<u8>>, FleetError>> + Send {
        async move {
            let mut found = BTreeMap::new();
            for digest in digests {
                found.extend(self.blob(digest).await?.map(|bytes| (digest.clone(), bytes)));
            }
            Ok(found)
        }
    }

    /// Sets secret values in a separate commit.
    fn set_secret(
        &self,
        namespace: &str,
        name: &str,
        values: BTreeMap<String, Vec<u8>>,
        now: Moment,
    ) -> impl Future<Output = Result<AnyObject, FleetError>> + Send {
        let (namespace, name) = (namespace.to_owned(), name.to_owned());
        let write = Write::Secret { namespace, name, values: Values(values) };
        async move {
            let applied = self.commit(vec![write], now).await?;
            let nothing = || FleetError::Unavailable("no secret was written".to_owned());
            applied.objects.into_iter().next().ok_or_else(nothing)
        }
    }

    /// Reads a secret value; `Undecryptable` if it cannot be decrypted.
    fn secret_value(
        &self,
        namespace: &str,
        name: &str,
        key: &str,
    ) -> impl Future<Output = Result<Option<Vec<u8>>, FleetError>> + Send;

    /// Stores a token in a separate commit.
    fn put_token(&self, token: TokenRecord) -> impl Future<Output = Result<(), FleetError>> + Send {
        async move {
            let now = token.created_at;
            self.commit(vec![Write::Token(token)], now).await.map(drop)
        }
    }

    /// The tokens.
    fn tokens(&self) -> impl Future<Output = Result<Vec<TokenRecord>, FleetError>> + Send;

    /// The token of this digest.
    fn token(
        &self,
        digest: &str,
    ) -> impl Future<Output = Result<Option<TokenRecord>, FleetError>> + Send;

    /// The people who have signed in, by name.
    fn people(&self) -> impl Future<Output = Result<Vec<PersonRecord>, FleetError>> + Send;

    /// The filters that a person has saved, by name.
    fn saved_filters(
        &self,
        owner: &str,
    ) -> impl Future<Output = Result<Vec<SavedFilter>, FleetError>> + Send;

    /// Deletes at most `most` sign-ins that expired before a moment; tokens that a person created stay. Returns how
    /// many were deleted.
    fn forget_sessions(
        &self,
        before: Moment,
        most: usize,
    ) -> impl Future<Output = Result<u64, FleetError>> + Send;

    /// Deletes at most `most` lines of the audit log before a moment, oldest first, and never the last line, which
    /// numbers the next one. Returns how many were deleted.
    fn forget_audit(
        &self,
        before: Moment,
        most: usize,
    ) -> impl Future<Output = Result<u64, FleetError>> + Send;

    /// The lines of the audit log after a number, with their numbers.
    fn audit(
        &self,
        after: u64,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<(u64, AuditEntry)>, FleetError>> + Send;
}

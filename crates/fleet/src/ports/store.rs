//! The store of resources.
//!
//! Writes that belong together are one list: a store performs all of them or none. A plan can therefore be executed,
//! killed half-way and repeated: names of records are derived from idempotency keys, and a second `Create` of the
//! same name is an error of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::future::Future;

use bailiwick_resources::{AnyObject, Kind, Moment, WebhookDelivery};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use thiserror::Error;

pub use crate::admission::PersonRecord;

/// Why a request to the store failed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum FleetError {
    /// There is no such object.
    #[error("there is no {kind} `{namespace}/{name}`")]
    NotFound {
        /// The kind.
        kind: Kind,
        /// The namespace.
        namespace: String,
        /// The name.
        name: String,
    },
    /// An object of this name exists.
    #[error("there is a {kind} `{namespace}/{name}` already")]
    AlreadyExists {
        /// The kind.
        kind: Kind,
        /// The namespace.
        namespace: String,
        /// The name.
        name: String,
    },
    /// Another writer has changed the object.
    #[error(
        "{kind} `{namespace}/{name}` was changed meanwhile (version {found}, yours is {given}); \
         read it again"
    )]
    Conflict {
        /// The kind.
        kind: Kind,
        /// The namespace.
        namespace: String,
        /// The name.
        name: String,
        /// The version that was given.
        given: u64,
        /// The version that is there.
        found: u64,
    },
    /// The change log does not reach back so far.
    #[error("changes before {oldest} are not kept any more; list again")]
    Gone {
        /// The oldest that is.
        oldest: u64,
    },
    /// The start of a page is not one that a page named.
    #[error("`{0}` is not a continuation token; use `continue` of the page before")]
    InvalidContinuation(String),
    /// A secret value cannot be decrypted. The store itself works.
    #[error("{value} cannot be opened: {why}")]
    Undecryptable {
        /// Which one: its key and its secret.
        value: String,
        /// Why. It may name files.
        why: String,
    },
    /// The store is unavailable.
    #[error("{0}")]
    Unavailable(String),
}

/// One write. Version 0 matches any version.
#[derive(Debug, Clone, PartialEq)]
pub enum Write {
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
    /// Stores bytes under their digest; repeating it is no error, other bytes are.
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
        /// The values by key; other keys keep theirs.
        values: Values,
    },
    /// Creates or updates a token.
    Token(TokenRecord),
    /// Creates or updates what is known about a person.
    Person(PersonRecord),
    /// Saves a filter of a person, or replaces it.
    SaveFilter(SavedFilter),
    /// Deletes a saved filter; one that is not there is no error.
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
    /// Where the page starts, as the previous page named it.
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

/// The fields of a kind that can be selected: a name and a JSON pointer.
pub fn indexed_fields(kind: Kind) -> &'static [(&'static str, &'static str)] {
    match kind {
        Kind::AgentDispatchRun => &[
            ("status", "/status/phase"),
            ("source", "/spec/sourceEvent/source"),
            ("stack", "/spec/agentStack"),
            ("taskKind", "/spec/taskKind"),
            ("pool", "/spec/runnerPool"),
            ("repository", "/spec/repository"),
            ("branch", "/spec/branch"),
            ("pullRequest", "/spec/sourceRefs/pullRequest"),
            ("issue", "/spec/sourceRefs/issue"),
            ("rule", "/spec/triggerRule"),
            ("group", "/spec/concurrencyGroup"),
            ("parent", "/spec/parentRun"),
            ("agent", "/status/agentMuxRunId"),
            ("told", "/status/checkReport/told"),
        ],
        Kind::AgentDispatchAttempt => &[("run", "/spec/agentDispatchRun")],
        Kind::AgentTriggerRule => {
            &[("stack", "/spec/agentStack"), ("state", "/spec/lifecycleState")]
        }
        Kind::AgentTriggerExecution => &[
            ("rule", "/spec/triggerRule"),
            ("decision", "/spec/decision"),
            ("event", "/spec/eventUid"),
            ("dedupeKey", "/spec/dedupeKey"),
            ("failure", "/spec/failureKey"),
            ("run", "/spec/dispatchRun"),
        ],
        Kind::WebhookDelivery => {
            &[("repository", "/spec/repository"), ("evaluated", "/status/evaluated")]
        }
        Kind::AgentApproval => &[("run", "/spec/dispatchRun"), ("phase", "/status/phase")],
        Kind::AgentArtifact => &[
            ("run", "/spec/dispatchRun"),
            ("digest", "/spec/digest"),
            ("commit", "/spec/patch/commit"),
        ],
        Kind::AgentReviewArtifact | Kind::AgentContextBundle => {
            &[("run", "/spec/dispatchRun"), ("digest", "/spec/digest")]
        }
        Kind::AgentSession => {
            &[("run", "/spec/dispatchRun"), ("session", "/spec/agentMuxSessionId")]
        }
        Kind::AgentWorkspace => {
            &[("repository", "/spec/repository"), ("state", "/status/state"), ("run", "/spec/run")]
        }
        Kind::WorkItemSessionLink => &[("session", "/spec/sessionRef")],
        Kind::WorkItemWorkspaceLink => &[("workspace", "/spec/workspaceRef")],
        Kind::AgentStack
        | Kind::AgentSubagent
        | Kind::AgentToolProfile
        | Kind::AgentMcpServer
        | Kind::AgentSkill
        | Kind::AgentServiceAccount
        | Kind::AgentRoleBinding
        | Kind::AgentSecretGrant
        | Kind::AgentConfigGrant
        | Kind::AgentCapabilityRequirement
        | Kind::AgentContextLabel
        | Kind::AgentWorkspacePolicy
        | Kind::Repository
        | Kind::RunnerPool
        | Kind::ServiceAccount
        | Kind::Role
        | Kind::RoleBinding
        | Kind::Secret
        | Kind::ConfigMap => &[],
    }
}

/// The digests that an object names anywhere: their blobs are kept for it.
pub fn named_digests(object: &AnyObject) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut look = |text: &str| {
        let bare = text.strip_prefix("sha256:").unwrap_or(text);
        let digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if bare.len() == 64 && bare.bytes().all(digit) {
            found.insert(bare.to_owned());
        }
    };
    object.metadata.annotations.values().for_each(|text| look(text));
    let mut open = vec![&object.spec, &object.status];
    while let Some(value) = open.pop() {
        match value {
            Value::String(text) => look(text),
            Value::Array(all) => open.extend(all),
            Value::Object(all) => open.extend(all.values()),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    found
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
    /// Its version: what to go on from.
    pub version: u64,
    /// What happened.
    #[serde(rename = "type")]
    pub kind: ChangeKind,
    /// The object as it was then; for a deletion as it was last.
    pub object: AnyObject,
}

/// A received webhook with a valid signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IncomingDelivery {
    /// The name of its object, derived from repository and delivery id.
    pub name: String,
    pub spec: WebhookDelivery,
    /// Its bytes.
    pub payload: Vec<u8>,
}

/// The result of storing a webhook, which is durable then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Received {
    /// It was stored.
    New,
    /// It was already stored with the same bytes.
    Again,
    /// A delivery with the same id and other bytes is stored.
    Contradicts,
}

/// What a token may be used for; each includes those before it, but for `approver`, which is `operator`
/// and may decide.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum TokenScope {
    /// Looking.
    Viewer,
    /// And starting, cancelling, retrying.
    Operator,
    /// And deciding approvals.
    Approver,
    /// And declaring resources, secrets and tokens.
    Admin,
}

/// The beginning of the id of a token that a sign-in has created.
pub const SESSION_ID_PREFIX: &str = "session-";

/// A token, without itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TokenRecord {
    /// Its id, which is no secret.
    pub id: String,
    /// The person it stands for.
    pub actor: String,
    /// What it may be used for.
    pub scope: TokenScope,
    /// The digest of the token.
    pub digest: String,
    /// When it was made.
    pub created_at: Moment,
    /// When it ends.
    pub expires_at: Option<Moment>,
    /// When it was revoked.
    pub revoked_at: Option<Moment>,
}

impl TokenRecord {
    /// The id of a session that was started with another token, and ends with it.
    pub fn session_id(own: &str, parent: &Self) -> String {
        format!("{SESSION_ID_PREFIX}{own}.{}", parent.digest)
    }

    /// The digest of the token that this session was started with; none if it was started in another way, or is no
    /// session.
    pub fn parent(&self) -> Option<&str> {
        let (_, digest) = self.id.strip_prefix(SESSION_ID_PREFIX)?.split_once('.')?;
        Some(digest)
    }
}

/// A filter of the list of runs that a person has saved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SavedFilter {
    /// The person, as in tokens.
    pub owner: String,
    /// Its name, which the person has once.
    pub name: String,
    /// The query of the list, such as `group=ended&stack=mender`.
    pub query: String,
}

/// A line of the audit log: it is written with what it speaks of, or not at all.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AuditEntry {
    /// When.
    pub at: Moment,
    /// Who: a person, an identity, or `bailiwick` itself.
    pub actor: String,
    /// What, as `AgentApprovalDecision`.
    pub event: String,
    /// To what, as `AgentApproval/default/x`.
    pub subject: String,
    /// The ids that join it with others.
    pub correlation: BTreeMap<String, String>,
    /// More; never a secret.
    pub detail: Value,
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

    /// Deletes all but the newest `keep` changes; one always stays. Returns how many were deleted.
    fn forget_changes(&self, keep: u64) -> impl Future<Output = Result<u64, FleetError>> + Send;

    /// Waits for a change after this version, at most this long.
    fn wait_for_change(&self, after: u64, millis: u64) -> impl Future<Output = ()> + Send;

    /// Stores a webhook; a redelivery is counted in its status. Concurrent ones may share one write to the disk.
    fn receive(
        &self,
        delivery: IncomingDelivery,
    ) -> impl Future<Output = Result<Received, FleetError>> + Send;

    /// Fails if nothing can be written: it writes something that nobody reads.
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

    /// Sets secret values in a commit of its own.
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

    /// Stores a token in a commit of its own.
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

    /// Deletes sign-ins that expired before a moment, at most `most`; tokens that a person created stay. Returns how
    /// many were deleted.
    fn forget_sessions(
        &self,
        before: Moment,
        most: usize,
    ) -> impl Future<Output = Result<u64, FleetError>> + Send;

    /// Deletes the oldest lines of the audit log before a moment, at most `most`; never the last line, which numbers
    /// the next one. Returns how many were deleted.
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

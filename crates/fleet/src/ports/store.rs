//! Resources, kept for good.
//!
//! Everything that changes at once is one list of writes: a store does all of it or nothing. What is
//! planned purely can so be carried out, killed half-way and repeated: names of records are made from
//! their idempotency keys, and a second `Create` of the same name is told apart from everything else.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::future::Future;

use bailiwick_resources::{AnyObject, Kind, Moment, WebhookDelivery};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use thiserror::Error;

/// Why the store did not do what it was asked.
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
    /// There is one already.
    #[error("there is a {kind} `{namespace}/{name}` already")]
    AlreadyExists {
        /// The kind.
        kind: Kind,
        /// The namespace.
        namespace: String,
        /// The name.
        name: String,
    },
    /// Somebody else has changed it.
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
    /// Changes that old are not kept.
    #[error("changes before {oldest} are not kept any more; list again")]
    Gone {
        /// The oldest that is.
        oldest: u64,
    },
    /// A value of a secret is kept, and cannot be opened. The store itself works.
    #[error("{value} cannot be opened: {why}")]
    Unopened {
        /// Which one: its key and its secret.
        value: String,
        /// Why. It may name files.
        why: String,
    },
    /// The store did not work.
    #[error("{0}")]
    Unavailable(String),
}

/// One change. A version of 0 means whatever is there.
#[derive(Debug, Clone, PartialEq)]
pub enum Write {
    /// A new object; its uid, generation 1, version and time are the store's.
    Create(AnyObject),
    /// Another spec, labels, annotations. The generation counts only if the spec differs.
    Replace(AnyObject),
    /// Another status; its spec is left alone.
    Status(AnyObject),
    /// It goes, and with it the bytes under each digest that no other object names.
    Delete {
        /// The kind.
        kind: Kind,
        /// The namespace.
        namespace: String,
        /// The name.
        name: String,
        /// The version it must have.
        version: u64,
    },
    /// Bytes under their digest; the same twice is no error, others under the same digest are.
    Blob {
        /// The digest.
        digest: String,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// Values of a secret; they are kept encrypted. The object gets the names of the keys. A value goes with
    /// its object, and when the object does not name its key any more.
    Secret {
        /// The namespace.
        namespace: String,
        /// The name.
        name: String,
        /// The values, by their keys; those that are not named stay.
        values: Values,
    },
    /// A token, or what changed of it.
    Token(TokenRecord),
    /// A line of the audit log.
    Audit(AuditEntry),
}

/// Values of a secret, by their keys. Nobody sees them where a write is shown.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Values(pub BTreeMap<String, Vec<u8>>);

impl fmt::Debug for Values {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_set().entries(self.0.keys()).finish()
    }
}

/// What a list of writes has done: the objects as they are now, one for each `Create`, `Replace`,
/// `Status` and `Secret`, in that order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Applied {
    /// The objects.
    pub objects: Vec<AnyObject>,
    /// The version of the last change.
    pub version: u64,
}

/// Which objects are asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    /// The kind.
    pub kind: Kind,
    /// The namespace; every one when left out.
    pub namespace: Option<String>,
    /// Labels that must have these values.
    pub labels: BTreeMap<String, String>,
    /// Fields that must have these values; only those of `indexed_fields`.
    pub fields: BTreeMap<String, String>,
    /// How many at most.
    pub limit: usize,
    /// Only after this place, as the page before named it.
    pub after: Option<String>,
    /// The youngest first.
    pub newest_first: bool,
}

impl Selection {
    /// All of a kind, the oldest first, a thousand at a time.
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

    /// With this field too.
    #[must_use]
    pub fn field(mut self, field: &str, value: impl Into<String>) -> Self {
        self.fields.insert(field.to_owned(), value.into());
        self
    }
}

/// Some objects, and where the next ones begin.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Page {
    /// The objects.
    pub objects: Vec<AnyObject>,
    /// What to ask for after them; nothing at the end.
    pub next: Option<String>,
    /// The version of the whole store when it was read: watch from here.
    pub version: u64,
}

/// The fields of a kind by which it can be selected: a name, and where it stands in the object.
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

/// The digests that an object names, wherever in it: bytes that are kept under one of them are kept for it.
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

/// A webhook that has just come in and whose signature was checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IncomingDelivery {
    /// The name of the object that it becomes: made from repository and delivery id.
    pub name: String,
    /// What is known of it.
    pub spec: WebhookDelivery,
    /// Its bytes.
    pub payload: Vec<u8>,
}

/// What became of a webhook. It is durable when this is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Received {
    /// It is kept.
    New,
    /// It was there already, with the same bytes.
    Again,
    /// There is one of the same id with other bytes: somebody lies.
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

/// A store of resources. One suite of tests holds every one of them to the same plain model.
pub trait FleetStore: Send + Sync + 'static {
    /// One object.
    fn get(
        &self,
        kind: Kind,
        namespace: &str,
        name: &str,
    ) -> impl Future<Output = Result<Option<AnyObject>, FleetError>> + Send;

    /// Some objects.
    fn list(&self, selection: &Selection) -> impl Future<Output = Result<Page, FleetError>> + Send;

    /// Does all of it, or nothing.
    fn commit(
        &self,
        writes: Vec<Write>,
        now: Moment,
    ) -> impl Future<Output = Result<Applied, FleetError>> + Send;

    /// What changed after this version, the oldest first, at most so many; `Gone` if the first of
    /// them is not kept any more.
    fn changes(
        &self,
        after: u64,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<Change>, FleetError>> + Send;

    /// Forgets all changes but the newest so many; one is always kept. Gives how many were forgotten.
    fn forget_changes(&self, keep: u64) -> impl Future<Output = Result<u64, FleetError>> + Send;

    /// Waits until something may have changed after this version, or for so many milliseconds.
    fn wait_for_change(&self, after: u64, millis: u64) -> impl Future<Output = ()> + Send;

    /// Keeps a webhook; one that comes again is counted in its status. Many that come at once may
    /// share one write to the disk.
    fn receive(
        &self,
        delivery: IncomingDelivery,
    ) -> impl Future<Output = Result<Received, FleetError>> + Send;

    /// Bytes under a digest.
    fn blob(
        &self,
        digest: &str,
    ) -> impl Future<Output = Result<Option<Vec<u8>>, FleetError>> + Send;

    /// The bytes under each of these digests that has some.
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

    /// Sets values of a secret, and nothing else.
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

    /// A value of a secret; `Unopened` if it is kept and cannot be opened.
    fn secret_value(
        &self,
        namespace: &str,
        name: &str,
        key: &str,
    ) -> impl Future<Output = Result<Option<Vec<u8>>, FleetError>> + Send;

    /// Keeps a token, or what changed of it, and nothing else.
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

    /// Forgets lines of the audit log from its beginning on, as long as they are from before this moment, at
    /// most so many; never the last one, whose number the next one follows. Gives how many were forgotten.
    fn forget_audit(
        &self,
        before: Moment,
        most: usize,
    ) -> impl Future<Output = Result<u64, FleetError>> + Send;

    /// Lines of the audit log after this number, with their numbers.
    fn audit(
        &self,
        after: u64,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<(u64, AuditEntry)>, FleetError>> + Send;
}

//! Writes to the control plane, each behind the fence of this leader.

use std::sync::Arc;

use bailiwick_client::{ClientError, FleetClient};
use bailiwick_fleet::ports::{ActionError, FleetError, Page, Requirement, Selection, Target};
use bailiwick_fleet::resources::{AccessRequest, DeclareError};
use bailiwick_kubernetes::sync::{
    Direction, FENCE_NAME, Fence, NamespaceUid, Refusal, SyncReason, Takeover, TakeoverError,
    direction,
};
use bailiwick_resources::{AccessReport, AnyObject, DEFAULT_NAMESPACE, Fault, Kind};
use thiserror::Error;

/// Attempts are large until they are cut.
const RECORDS_PER_PAGE: usize = 50;
/// How often a new leader tries to write the fence.
const MAX_TAKEOVERS: usize = 5;

/// Why a write did not happen.
#[derive(Debug, Error)]
pub enum WriteError {
    /// The object was changed since it was read.
    #[error("the object was changed meanwhile")]
    Conflict,
    /// There is an object of this name that the plan does not know.
    #[error("an object of this name exists")]
    Exists(Box<AnyObject>),
    /// The object was changed since it was read, to this.
    #[error("the object was changed meanwhile")]
    Changed(Box<AnyObject>),
    /// Another operator has taken over.
    #[error("another operator leads")]
    FenceLost,
    /// The control plane does not accept it.
    #[error("{}", .0.message)]
    Refused(Refusal),
    /// The server does not accept the token, so it would refuse every other write, too.
    #[error("{0}")]
    TokenRefused(ClientError),
    /// It may work later.
    #[error(transparent)]
    Unavailable(ClientError),
}

/// Why a leader cannot write the fence.
#[derive(Debug, Error)]
pub enum FenceError {
    #[error(transparent)]
    Takeover(#[from] TakeoverError),
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// The control plane, as its only writer among the operators.
pub struct ControlPlane {
    client: Arc<dyn FleetClient>,
    fence: Fence,
    namespace: NamespaceUid,
}

fn target(name: &str) -> Target {
    Target { namespace: DEFAULT_NAMESPACE.to_owned(), name: name.to_owned() }
}

fn required(kind: Kind, name: &str, resource_version: u64) -> Requirement {
    let (namespace, name) = (DEFAULT_NAMESPACE.to_owned(), name.to_owned());
    Requirement { kind, namespace, name, resource_version }
}

impl ControlPlane {
    /// Makes the writes of every earlier leader fail.
    pub async fn take_over(
        client: Arc<dyn FleetClient>,
        holder: &str,
        namespace: NamespaceUid,
        takeover: Takeover,
    ) -> Result<Self, FenceError> {
        let mut last = WriteError::Conflict;
        for _ in 0..MAX_TAKEOVERS {
            let there = client.get(Kind::ConfigMap, &target(FENCE_NAME)).await;
            let there = there.map_err(unread)?;
            let document = Fence::takeover(there.as_ref(), holder, &namespace, takeover)?;
            let seen = [required(Kind::ConfigMap, FENCE_NAME, document.metadata.resource_version)];
            let documents = [document];
            match client.apply_requiring(&documents, &seen).await.map_err(failure) {
                Ok(applied) => {
                    let stored = applied.into_iter().next().map(|applied| applied.object);
                    let fence = Fence::written(stored.ok_or(WriteError::Conflict)?);
                    return Ok(Self { client, fence, namespace });
                }
                Err(WriteError::Conflict) => last = WriteError::Conflict,
                Err(error) => return Err(error.into()),
            }
        }
        Err(last.into())
    }

    /// The namespace whose copies the control plane has.
    pub fn namespace(&self) -> &NamespaceUid {
        &self.namespace
    }

    /// Writes a copy over exactly the version that it names. 0: there must be none.
    pub async fn apply(&self, document: AnyObject) -> Result<AnyObject, WriteError> {
        let (kind, name) = (document.kind, document.metadata.name.clone());
        let is_new = document.metadata.resource_version == 0;
        let mut requirements = vec![self.fenced()];
        if is_new {
            // To the control plane, a document without a version is one for any version.
            requirements.push(required(kind, &name, 0));
        }
        let documents = [document];
        match self.client.apply_requiring(&documents, &requirements).await.map_err(failure) {
            Ok(applied) => {
                let written = applied.into_iter().next().map(|applied| applied.object);
                written.ok_or(WriteError::Conflict)
            }
            Err(WriteError::Conflict) => {
                self.check_fence().await?;
                Err(match self.newest(kind, &name).await? {
                    Some(there) if is_new => WriteError::Exists(there),
                    Some(there) => WriteError::Changed(there),
                    None => WriteError::Conflict,
                })
            }
            Err(error) => Err(error),
        }
    }

    /// Deletes a copy at exactly this version.
    pub async fn delete(&self, kind: Kind, name: &str, version: u64) -> Result<(), WriteError> {
        let (object, fenced) = (target(name), self.fenced());
        let deleted = match self.client.delete_requiring(kind, &object, version, &fenced).await {
            Err(error) if is_missing(&error) => Ok(()),
            deleted => deleted.map_err(failure),
        };
        if let Err(WriteError::Conflict) = &deleted {
            self.check_fence().await?;
            return match self.newest(kind, name).await? {
                Some(there) => Err(WriteError::Changed(there)),
                None => Ok(()),
            };
        }
        deleted
    }

    /// Records what the API server says of a binding.
    pub async fn record_access(
        &self,
        binding: &str,
        report: AccessReport,
    ) -> Result<AnyObject, WriteError> {
        let request = AccessRequest { report, fence: self.fenced() };
        let recorded = self.client.record_access(&target(binding), request).await;
        let recorded = recorded.map_err(failure);
        if let Err(WriteError::Conflict) = &recorded {
            self.check_fence().await?;
        }
        recorded
    }

    /// An object as it is now.
    async fn newest(&self, kind: Kind, name: &str) -> Result<Option<Box<AnyObject>>, WriteError> {
        let there = self.client.get(kind, &target(name)).await.map_err(unread)?;
        Ok(there.map(Box::new))
    }

    /// What every write requires in its transaction.
    fn fenced(&self) -> Requirement {
        required(Kind::ConfigMap, FENCE_NAME, self.fence.version())
    }

    /// Says whether the fence is the reason of a conflict.
    async fn check_fence(&self) -> Result<(), WriteError> {
        let there = self.client.get(Kind::ConfigMap, &target(FENCE_NAME)).await;
        let there = there.map_err(unread)?;
        self.fence.check(there.as_ref()).map_err(|_| WriteError::FenceLost)
    }

    /// What `kept` leaves of all objects of a kind, and the version to watch from.
    pub async fn list(
        &self,
        kind: Kind,
        kept: impl Fn(AnyObject) -> Option<AnyObject>,
    ) -> Result<(Vec<AnyObject>, u64), ClientError> {
        let mut selection = Selection::of(kind);
        if direction(kind) == Some(Direction::Recorded) {
            selection.limit = RECORDS_PER_PAGE;
        }
        let mut objects = Vec::new();
        let mut version = None;
        loop {
            let page: Page = self.client.list(&selection).await?;
            objects.extend(page.objects.into_iter().filter_map(&kept));
            // Changes during the list are seen twice rather than never.
            let from = *version.get_or_insert(page.version);
            match page.next {
                None => return Ok((objects, from)),
                next => selection.after = next,
            }
        }
    }

    pub(super) fn client(&self) -> &dyn FleetClient {
        self.client.as_ref()
    }
}

/// Whether the server does not accept the token, for this request or any other.
pub(super) fn is_token_refusal(error: &ClientError) -> bool {
    matches!(error, ClientError::TokenRejected { .. })
}

/// Why a read failed.
fn unread(error: ClientError) -> WriteError {
    match is_token_refusal(&error) {
        true => WriteError::TokenRefused(error),
        false => WriteError::Unavailable(error),
    }
}

fn is_missing(error: &ClientError) -> bool {
    matches!(
        error,
        ClientError::Action(
            ActionError::NotFound(_) | ActionError::Store(FleetError::NotFound { .. })
        ) | ClientError::Declare(DeclareError::Store(FleetError::NotFound { .. }))
    )
}

fn failure(error: ClientError) -> WriteError {
    let refused = |reason, message| WriteError::Refused(Refusal { reason, message });
    match error {
        ClientError::Declare(DeclareError::Store(error))
        | ClientError::Action(ActionError::Store(error)) => store_failure(error),
        ClientError::Action(ActionError::Conflict { .. }) => WriteError::Conflict,
        ClientError::Declare(DeclareError::Faulty { faults, .. })
        | ClientError::Action(ActionError::Invalid(faults)) => {
            refused(SyncReason::Invalid, render(&faults))
        }
        ClientError::Declare(
            error @ (DeclareError::Recorded { .. }
            | DeclareError::Secret { .. }
            | DeclareError::Shape(_)
            | DeclareError::Twice { .. }),
        ) => refused(SyncReason::Invalid, error.to_string()),
        ClientError::Action(ActionError::Denied { message, .. }) => {
            refused(SyncReason::Denied, message)
        }
        error @ (ClientError::Action(
            ActionError::NotFound(_) | ActionError::TooMany(_) | ActionError::Unavailable(_),
        )
        | ClientError::Unreachable { .. }
        | ClientError::SignInFailed { .. }
        | ClientError::ScopeDenied { .. }
        | ClientError::Refused { .. }
        | ClientError::Incompatible { .. }) => WriteError::Unavailable(error),
        error @ ClientError::TokenRejected { .. } => WriteError::TokenRefused(error),
    }
}

fn store_failure(error: FleetError) -> WriteError {
    match error {
        FleetError::Conflict { .. }
        | FleetError::AlreadyExists { .. }
        | FleetError::NotFound { .. } => WriteError::Conflict,
        error @ (FleetError::Gone { .. }
        | FleetError::InvalidContinuation(_)
        | FleetError::Undecryptable { .. }
        | FleetError::Unavailable(_)) => WriteError::Unavailable(error.into()),
    }
}

fn render(faults: &[Fault]) -> String {
    let each = faults.iter().map(|fault| format!("{}: {}", fault.field, fault.message));
    each.collect::<Vec<_>>().join("; ")
}

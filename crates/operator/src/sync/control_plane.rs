//! Writes to the control plane, each behind the fence of this leader.

use std::sync::Arc;

use bailiwick_client::{ApplyMode, ClientError, FleetClient};
use bailiwick_fleet::ports::{ActionError, FleetError, Page, Selection, Target};
use bailiwick_fleet::resources::DeclareError;
use bailiwick_kubernetes::sync::{FENCE_NAME, Fence, Refusal, SyncReason};
use bailiwick_resources::{AnyObject, DEFAULT_NAMESPACE, Fault, Kind};
use thiserror::Error;

/// How often a new leader tries to write the fence.
const MAX_TAKEOVERS: usize = 5;

/// Why a write did not happen.
#[derive(Debug, Error)]
pub enum WriteError {
    /// The object was changed since it was read.
    #[error("the object was changed meanwhile")]
    Conflict,
    /// Another operator has taken over.
    #[error("another operator leads")]
    FenceLost,
    /// The control plane does not accept it.
    #[error("{}", .0.message)]
    Refused(Refusal),
    /// It may work later.
    #[error(transparent)]
    Unavailable(ClientError),
}

/// The control plane, as its only writer among the operators.
pub struct ControlPlane {
    client: Arc<dyn FleetClient>,
    fence: Fence,
}

fn target(name: &str) -> Target {
    Target { namespace: DEFAULT_NAMESPACE.to_owned(), name: name.to_owned() }
}

impl ControlPlane {
    /// Makes the writes of every earlier leader fail.
    pub async fn take_over(client: Arc<dyn FleetClient>, holder: &str) -> Result<Self, WriteError> {
        let mut last = WriteError::Conflict;
        for _ in 0..MAX_TAKEOVERS {
            let there = client.get(Kind::ConfigMap, &target(FENCE_NAME)).await;
            let there = there.map_err(WriteError::Unavailable)?;
            let document = Fence::takeover(there.as_ref(), holder).map_err(|error| {
                let message = format!("ConfigMap {FENCE_NAME} is not a fence: {error}");
                WriteError::Refused(Refusal { reason: SyncReason::Invalid, message })
            })?;
            match client.apply(&[document], ApplyMode::Write).await.map_err(failure) {
                Ok(applied) => {
                    let stored = applied.into_iter().next().map(|applied| applied.object);
                    let stored = stored.ok_or(WriteError::Conflict)?;
                    return Ok(Self { client, fence: Fence::written(stored) });
                }
                Err(WriteError::Conflict) => last = WriteError::Conflict,
                Err(error) => return Err(error),
            }
        }
        Err(last)
    }

    /// Writes a copy over exactly the version that it names. 0: there must be none, or it is planned again.
    pub async fn apply(&self, document: AnyObject) -> Result<AnyObject, WriteError> {
        let guarded = self.fence.guard(document);
        match self.client.apply(&guarded, ApplyMode::Write).await.map_err(failure) {
            Ok(applied) => {
                let written = applied.into_iter().nth(1).map(|applied| applied.object);
                written.ok_or(WriteError::Conflict)
            }
            Err(WriteError::Conflict) => Err(self.conflict().await),
            Err(error) => Err(error),
        }
    }

    /// Deletes a copy at exactly this version.
    pub async fn delete(&self, kind: Kind, name: &str, version: u64) -> Result<(), WriteError> {
        self.check_fence().await?;
        match self.client.delete(kind, &target(name), version).await {
            Ok(()) => Ok(()),
            Err(error) if is_missing(&error) => Ok(()),
            Err(error) => Err(failure(error)),
        }
    }

    /// Whether the object or the fence was changed.
    async fn conflict(&self) -> WriteError {
        self.check_fence().await.err().unwrap_or(WriteError::Conflict)
    }

    async fn check_fence(&self) -> Result<(), WriteError> {
        let there = self.client.get(Kind::ConfigMap, &target(FENCE_NAME)).await;
        let there = there.map_err(WriteError::Unavailable)?;
        self.fence.check(there.as_ref()).map_err(|_| WriteError::FenceLost)
    }

    /// All objects of a kind, and the version to watch from.
    pub async fn list(&self, kind: Kind) -> Result<(Vec<AnyObject>, u64), ClientError> {
        let mut selection = Selection::of(kind);
        let mut objects = Vec::new();
        let mut version = None;
        loop {
            let page: Page = self.client.list(&selection).await?;
            objects.extend(page.objects);
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
        | ClientError::TokenRejected { .. }
        | ClientError::SignInFailed { .. }
        | ClientError::ScopeDenied { .. }
        | ClientError::Refused { .. }
        | ClientError::Incompatible { .. }) => WriteError::Unavailable(error),
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

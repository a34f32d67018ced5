//! The attempts of a worker: which it follows, and how one goes from its claim to its end.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use bailiwick_fleet::ports::Engine as _;
use bailiwick_fleet::workers::{
    AssignedWork, Assignment, Lease, ProgressReport, RemoteLaunch, WorkerApi,
};
use bailiwick_model::AgentId;
use serde::{Deserialize, Serialize};
use tracing::Instrument as _;

use super::beginning::BeginError;
use super::ending::{failed, not_begun};
use super::following::FollowLimits;
use super::identity::Credentials;
use super::preparation::{Preparation, try_to_write};
use super::repository;
use crate::context::Context;
use crate::failure::Failure;
use crate::fleet::engine::LocalEngine;
use crate::system;

/// The attempts of a worker.
pub(super) struct Attempts {
    pub(super) api: Arc<dyn WorkerApi>,
    pub(super) credentials: Arc<Credentials>,
    pub(super) context: Context,
    pub(super) engine: LocalEngine,
    pub(super) directory: PathBuf,
    /// The directory with the values of its pod, if it runs in one.
    pub(super) values: Option<PathBuf>,
    /// Locked while a repository is changed.
    pub(super) adding: tokio::sync::Mutex<()>,
    /// Locked for reading while commits are needed that no reference keeps.
    pub(super) unreferenced: tokio::sync::RwLock<()>,
    pub(super) preparation: Preparation,
    pub(super) follow_limits: FollowLimits,
}

/// An attempt that is followed, kept in a file until the server has all of it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct KeptAttempt {
    pub(super) lease: Lease,
    pub(super) lease_millis: u64,
    pub(super) repository: PathBuf,
    /// The commits that it was launched with. An older version did not write them.
    #[serde(default)]
    pub(super) commits: Vec<String>,
}

/// Why an attempt is not followed any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dropped {
    /// The server does not want it from this worker any more.
    NotWanted,
    /// The server does not know the credential of this worker. It may know it later.
    Unauthorized,
}

/// Why a worker has not brought an attempt to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Unended {
    /// It is not followed any more.
    Dropped,
    /// This machine could not begin it.
    NotBegun(String),
}

impl From<Dropped> for Unended {
    fn from(_: Dropped) -> Self {
        Self::Dropped
    }
}

impl Attempts {
    pub(super) fn file(&self, agent: &str) -> PathBuf {
        self.directory.join("attempts").join(format!("{agent}.json"))
    }

    /// The attempts that an earlier process of this worker has begun.
    pub(super) fn kept(&self) -> Result<Vec<KeptAttempt>, Failure> {
        let place = self.directory.join("attempts");
        std::fs::create_dir_all(&place).map_err(|error| {
            Failure::general(format!("{} cannot be made: {error}", place.display()))
        })?;
        let listed = std::fs::read_dir(&place)
            .map_err(|error| Failure::general(format!("{}: {error}", place.display())))?;
        let mut all = Vec::new();
        for entry in listed.flatten() {
            if entry.path().extension().is_some_and(|extension| extension == "json") {
                all.extend(system::read_json::<KeptAttempt>(&entry.path())?);
            }
        }
        Ok(all)
    }

    /// The names of the attempts that are followed here.
    pub(super) fn followed(&self) -> Result<Vec<String>, Failure> {
        Ok(self.kept()?.into_iter().map(|kept| kept.lease.agent).collect())
    }

    /// Whether this machine can prepare an attempt. After a failure it is tried without one.
    pub(super) async fn can_prepare(&self) -> bool {
        if !self.preparation.has_failed() {
            return true;
        }
        if self.preparation.rests(Instant::now()) {
            return false;
        }
        let directory = self.directory.clone();
        match blocking(move || try_to_write(&directory)).await {
            Ok(()) => true,
            Err(failure) => {
                let why = failure.in_one_line();
                self.context.notices.note(format_args!("this machine takes no attempts: {why}"));
                self.preparation.failed(Instant::now());
                false
            }
        }
    }

    /// Runs what was just claimed to its end. The log names it in each line.
    pub(super) async fn begin(self: Arc<Self>, assignment: Assignment) -> Result<(), Unended> {
        let span = span(&assignment.lease);
        self.run(assignment).instrument(span).await
    }

    async fn run(self: Arc<Self>, assignment: Assignment) -> Result<(), Unended> {
        let Assignment { lease, lease_millis, work } = assignment;
        self.context.notices.note(format_args!("{} begins", lease.agent));
        match work {
            AssignedWork::Launch(launch) => self.begin_attempt(lease, lease_millis, *launch).await,
            AssignedWork::Check(check) => {
                self.run_check((lease, lease_millis), check).await;
                Ok(())
            }
        }
    }

    /// Runs an attempt from its launch to its end.
    async fn begin_attempt(
        self: Arc<Self>,
        lease: Lease,
        lease_millis: u64,
        launch: RemoteLaunch,
    ) -> Result<(), Unended> {
        let agent = lease.agent.clone();
        // The server repeats an assignment if nobody reports on it. This one is followed already.
        if self.file(&agent).exists() {
            return Ok(());
        }
        let kept = (&lease, lease_millis);
        let nothing = ProgressReport::default();
        let launched = self.with_lease(kept, &nothing, self.launch(kept, launch)).await;
        let why = match launched {
            Ok(kept) => {
                self.preparation.succeeded();
                return Ok(self.follow(kept).await?);
            }
            Err(why) => why,
        };
        self.context.notices.note(format_args!("{agent} cannot begin: {why}"));
        let detail = format!("its worker cannot begin it: {why}");
        match why {
            BeginError::Server(_) | BeginError::Launch(_) => {
                let ended = self.end(&lease, Vec::new(), failed(detail)).await;
                self.forget_unbegun(&agent).await;
                Ok(ended?)
            }
            BeginError::Local(_) => {
                self.preparation.failed(Instant::now());
                let given_back = self.end(&lease, Vec::new(), not_begun(detail.clone())).await;
                self.forget_unbegun(&agent).await;
                given_back?;
                Err(Unended::NotBegun(detail))
            }
        }
    }

    /// Follows an attempt that was begun before this process started.
    pub(super) async fn go_on(self: Arc<Self>, kept: KeptAttempt) -> Result<(), Unended> {
        let span = span(&kept.lease);
        Ok(self.follow(kept).instrument(span).await?)
    }

    pub(super) fn context_in(&self, kept: &KeptAttempt) -> Context {
        Context { directory: kept.repository.clone(), ..self.context.clone() }
    }

    pub(super) async fn is_running(&self, agent: &str) -> bool {
        self.engine.is_running(agent).await.unwrap_or(true)
    }

    /// Removes what is here of an attempt. An agent that does not end keeps its files.
    pub(super) async fn forget(&self, kept: &KeptAttempt) {
        let agent = kept.lease.agent.clone();
        if !self.is_running(&agent).await {
            let _ = self.engine.forget(&agent).await;
            let context = self.context_in(kept);
            let removed = tokio::task::spawn_blocking(move || {
                if let Ok(id) = AgentId::parse(&agent) {
                    repository::clean_up(&context, &id);
                }
            });
            let _ = removed.await;
        }
        let _ = std::fs::remove_file(self.file(&kept.lease.agent));
    }

    /// Removes what is here of an attempt that was not begun.
    async fn forget_unbegun(&self, agent: &str) {
        let file = self.file(agent);
        match system::read_json::<KeptAttempt>(&file) {
            Ok(Some(kept)) => self.forget(&kept).await,
            Ok(None) | Err(_) => drop(std::fs::remove_file(file)),
        }
    }
}

/// What each line of the log about an attempt names.
fn span(lease: &Lease) -> tracing::Span {
    tracing::info_span!("attempt", attempt = %lease.agent, claim = lease.fence)
}

pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| Failure::general(format!("a background task failed: {error}")))?
}

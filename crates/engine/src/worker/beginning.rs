//! The beginning of an attempt: its commits are fetched, and its agent is launched as on any machine.

use std::fs::File;
use std::io::Write as _;
use std::time::Duration;

use bailiwick_fleet::ports::{
    AttemptLaunch, Engine as _, EngineError, LaunchPlace, LaunchWorkspace, ModelKey,
};
use bailiwick_fleet::workers::{ByteStream, Lease, RemoteLaunch, WorkerAnswer, WorkerError};
use thiserror::Error;

use super::attempts::{Attempts, KeptAttempt, blocking};
use super::pod_values;
use super::preparation::try_to_write;
use super::repository::WorkerRepository;
use crate::failure::Failure;
use crate::system;

/// How long the commits of an attempt may take to arrive, with all that is tried again.
const FETCH_LIMIT: Duration = Duration::from_secs(3_600);

/// Why an attempt could not begin.
#[derive(Debug, Error)]
pub(super) enum BeginError {
    /// The server refused a request. Another worker would be refused, too.
    #[error("{0}")]
    Server(WorkerError),
    /// Its agent could not be launched although there is room here. That would be so elsewhere, too.
    #[error("{0}")]
    Launch(EngineError),
    /// This machine could not prepare it. Another one may.
    #[error("{}", .0.in_one_line())]
    Local(#[from] Failure),
}

impl Attempts {
    pub(super) async fn launch(
        &self,
        (lease, lease_millis): (&Lease, u64),
        launch: RemoteLaunch,
    ) -> Result<KeptAttempt, BeginError> {
        let mut environment = launch.environment;
        // What its pod lacks, that of another Job would lack, too.
        pod_values::add(&mut environment, self.values.as_deref(), &launch.pod_values)
            .map_err(|failure| BeginError::Launch(EngineError(failure.in_one_line())))?;
        let (directory, name) = (self.directory.clone(), launch.repository.clone());
        let opened = move || WorkerRepository::open(&directory, &name);
        let repository = blocking(opened).await?;
        let checkout = repository.directory().to_owned();
        let commits: Vec<String> =
            [Some(launch.base.clone()), launch.kit_commit.clone()].into_iter().flatten().collect();
        // Written before the first report: from then on the server does not assign it to this worker again.
        let kept = KeptAttempt {
            lease: lease.clone(),
            lease_millis,
            repository: checkout.clone(),
            commits: commits.clone(),
        };
        system::write_json(&self.file(&lease.agent), &kept)?;
        self.tidy(&repository).await;
        // What the server need not send must stay until the rest has arrived.
        let needed = self.unreferenced.read().await;
        let listed = move || -> Result<_, Failure> {
            let has = repository.has()?;
            Ok((repository, has))
        };
        let (repository, has) = blocking(listed).await?;
        let mut bundle = self.fetch(lease, &has).await?;
        let base = launch.base.clone();
        let add = move || {
            let commits: Vec<&str> = commits.iter().map(String::as_str).collect();
            repository.add(&mut bundle, &commits)?;
            repository.point_at(&base)
        };
        let added = self.adding.lock().await;
        blocking(add).await?;
        drop(added);
        drop(needed);
        // A kit of the user here binds no agent.
        let config = self.directory.join("config").display().to_string();
        environment.push(("XDG_CONFIG_HOME".to_owned(), config));
        let workspace = launch.not_reused.map_or(LaunchWorkspace::New, LaunchWorkspace::NotReused);
        let launch = AttemptLaunch {
            attempt: launch.attempt,
            agent: lease.agent.clone(),
            checkout: checkout.display().to_string(),
            base: launch.base,
            kit_commit: launch.kit_commit,
            task: launch.task,
            context: launch.context,
            limits: launch.limits,
            environment,
            // The key that it may use is among its variables.
            model_key: ModelKey::Withheld,
            resume: None,
            owner: launch.owner,
            issue: None,
            sources: launch.sources,
            workspace,
            place: LaunchPlace::Server,
        };
        if let Err(error) = self.engine.launch(launch).await {
            self.stop_agent(&lease.agent).await;
            let directory = self.directory.clone();
            blocking(move || try_to_write(&directory)).await?;
            return Err(BeginError::Launch(error));
        }
        Ok(kept)
    }

    /// Fetches the commits that the attempt needs, into a file without a name.
    pub(super) async fn fetch(&self, lease: &Lease, has: &[String]) -> Result<File, BeginError> {
        let request = || -> WorkerAnswer<'_, Result<File, Failure>> {
            let secret = self.credentials.secret();
            Box::pin(async move {
                let stream = self.api.repository(&secret, lease, has).await?;
                self.save(stream).await
            })
        };
        let fetched = tokio::time::timeout(FETCH_LIMIT, self.retry(request)).await;
        match fetched {
            Ok(fetched) => Ok(fetched.map_err(BeginError::Server)??),
            // A worker that is nearer to the server may get them.
            Err(_) => {
                let minutes = FETCH_LIMIT.as_secs() / 60;
                Err(BeginError::Local(Failure::general(format!(
                    "the commits did not arrive within {minutes} minutes"
                ))))
            }
        }
    }

    /// Only what the server does is tried again.
    async fn save(
        &self,
        mut stream: Box<dyn ByteStream>,
    ) -> Result<Result<File, Failure>, WorkerError> {
        let unwritten = |error: std::io::Error| {
            Failure::general(format!("the commits cannot be stored here: {error}"))
        };
        let mut file = match tempfile::tempfile_in(&self.directory) {
            Ok(file) => file,
            Err(error) => return Ok(Err(unwritten(error))),
        };
        while let Some(part) = stream.next().await? {
            let written = tokio::task::spawn_blocking(move || file.write_all(&part).map(|()| file));
            file = match written.await.map_err(std::io::Error::other).flatten() {
                Ok(file) => file,
                Err(error) => return Ok(Err(unwritten(error))),
            };
        }
        Ok(Ok(file))
    }
}

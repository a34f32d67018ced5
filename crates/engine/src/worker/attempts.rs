//! One attempt on a worker: its commits are fetched, its agent is launched as on any machine, what happens is reported,
//! and its work is sent.

use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bailiwick_fleet::ports::{
    Engine as _, EngineError, EngineEvent, Launch, LaunchPlace, LaunchWorkspace, Launched,
    LaunchedState, ModelKey,
};
use bailiwick_fleet::workers::{
    AssignedWork, Assignment, AttemptSummary, ByteStream, FinishReport, Lease, ProgressAnswer,
    ProgressReport, ProgressState, RemoteLaunch, WorkClaim, WorkerAnswer, WorkerApi, WorkerError,
};
use bailiwick_model::AgentId;
use bailiwick_model::event::ExitReason;
use serde::{Deserialize, Serialize};

use super::identity::Credentials;
use super::repository::{self, WorkerRepository};
use crate::context::Context;
use crate::failure::Failure;
use crate::fleet::engine::LocalEngine;
use crate::messages::final_message;
use crate::system;

/// How soon an attempt is looked at again.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);
/// How often there is a report without news, at least.
const MAX_REPORT_INTERVAL: Duration = Duration::from_secs(5);
/// How long a worker waits when the server is away.
const MAX_BACKOFF: Duration = Duration::from_secs(5);
/// How many events one report has.
const MAX_EVENTS: usize = 200;
/// How often an agent that was launched may look as if it was not.
const START_LOOKS: u32 = 60;

/// The attempts of a worker.
pub(super) struct Attempts {
    pub(super) api: Arc<dyn WorkerApi>,
    pub(super) credentials: Arc<Credentials>,
    pub(super) context: Context,
    pub(super) engine: LocalEngine,
    pub(super) directory: PathBuf,
    /// Locked while commits are added to a repository.
    pub(super) adding: tokio::sync::Mutex<()>,
}

/// An attempt that is followed, kept in a file until the server has all of it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct KeptAttempt {
    lease: Lease,
    lease_millis: u64,
    repository: PathBuf,
}

/// Several reports can be lost before the lease is.
pub(super) fn report_interval(lease_millis: u64) -> Duration {
    Duration::from_millis(lease_millis / 6).min(MAX_REPORT_INTERVAL)
}

/// The server does not want this attempt from this worker any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Dropped;

impl Attempts {
    fn file(&self, agent: &str) -> PathBuf {
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

    /// Runs what was just claimed to its end.
    pub(super) async fn begin(self: Arc<Self>, assignment: Assignment) -> Result<(), Dropped> {
        let Assignment { lease, lease_millis, work } = assignment;
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
    ) -> Result<(), Dropped> {
        let agent = lease.agent.clone();
        // The server repeats an assignment if nobody reports on it. This one is followed already.
        if self.file(&agent).exists() {
            return Ok(());
        }
        let kept = (&lease, lease_millis);
        let nothing = ProgressReport::default();
        let launched = self.with_lease(kept, &nothing, self.launch(kept, launch)).await;
        match launched {
            Ok(kept) => self.follow(kept).await,
            Err(why) => {
                self.context.notices.note(format_args!("{agent} cannot begin: {why}"));
                let finish = failed(format!("its worker cannot begin it: {why}"));
                let ended = self.end(&lease, Vec::new(), finish).await;
                let _ = std::fs::remove_file(self.file(&agent));
                ended
            }
        }
    }

    /// Does what can take long, and repeats a report meanwhile, so that the lease is kept.
    async fn with_lease<T>(
        &self,
        (lease, lease_millis): (&Lease, u64),
        report: &ProgressReport,
        work: impl Future<Output = T>,
    ) -> T {
        tokio::pin!(work);
        loop {
            tokio::select! {
                done = &mut work => return done,
                () = self.report_later((lease, lease_millis), report) => {}
            }
        }
    }

    async fn report_later(&self, (lease, lease_millis): (&Lease, u64), report: &ProgressReport) {
        tokio::time::sleep(report_interval(lease_millis)).await;
        let secret = self.credentials.secret();
        // A lost lease ends the work by itself: nothing more can be sent.
        let _ = self.api.report(&secret, lease, report.clone()).await;
    }

    /// Follows an attempt that was begun before this process started.
    pub(super) async fn go_on(self: Arc<Self>, kept: KeptAttempt) -> Result<(), Dropped> {
        self.follow(kept).await
    }

    async fn launch(
        &self,
        (lease, lease_millis): (&Lease, u64),
        launch: RemoteLaunch,
    ) -> Result<KeptAttempt, String> {
        let said = |failure: Failure| failure.in_one_line();
        let (directory, name) = (self.directory.clone(), launch.repository.clone());
        let opened = move || -> Result<_, Failure> {
            let repository = WorkerRepository::open(&directory, &name)?;
            let has = repository.has()?;
            Ok((repository, has))
        };
        let (repository, has) = blocking(opened).await.map_err(said)?;
        let checkout = repository.directory().to_owned();
        // Written before the first report: from then on the server does not assign it to this worker again.
        let kept = KeptAttempt { lease: lease.clone(), lease_millis, repository: checkout.clone() };
        system::write_json(&self.file(&lease.agent), &kept).map_err(said)?;
        let mut bundle = self.fetch(lease, &has).await.map_err(|error| error.to_string())?;
        let (base, kit) = (launch.base.clone(), launch.kit_from.clone());
        let add = move || {
            let commits: Vec<&str> =
                [Some(base.as_str()), kit.as_deref()].into_iter().flatten().collect();
            repository.add(&mut bundle, &commits)?;
            repository.point_at(&base)
        };
        let added = self.adding.lock().await;
        blocking(add).await.map_err(said)?;
        drop(added);
        let mut environment = launch.environment;
        // A kit of the user here binds no agent.
        let config = self.directory.join("config").display().to_string();
        environment.push(("XDG_CONFIG_HOME".to_owned(), config));
        let workspace = launch.not_reused.map_or(LaunchWorkspace::New, LaunchWorkspace::NotReused);
        let launch = Launch {
            attempt: launch.attempt,
            agent: lease.agent.clone(),
            checkout: checkout.display().to_string(),
            base: launch.base,
            kit_from: launch.kit_from,
            task: launch.task,
            context: launch.context,
            limits: launch.limits,
            environment,
            // The key that it may use is among its variables.
            model_key: ModelKey::Withheld,
            resume: None,
            belongs: launch.belongs,
            issue: None,
            sources: launch.sources,
            workspace,
            place: LaunchPlace::Server,
        };
        self.engine.launch(launch).await.map_err(|error| error.to_string())?;
        Ok(kept)
    }

    /// Fetches the commits that the attempt needs, into a file without a name.
    pub(super) async fn fetch(&self, lease: &Lease, has: &[String]) -> Result<File, WorkerError> {
        let request = || -> WorkerAnswer<'_, File> {
            let secret = self.credentials.secret();
            Box::pin(async move {
                let stream = self.api.repository(&secret, lease, has).await?;
                self.save(stream).await
            })
        };
        self.retry(request).await
    }

    async fn save(&self, mut stream: Box<dyn ByteStream>) -> Result<File, WorkerError> {
        let unwritten = |error: std::io::Error| {
            WorkerError::Refused(format!("the commits cannot be stored here: {error}"))
        };
        let mut file = tempfile::tempfile_in(&self.directory).map_err(unwritten)?;
        while let Some(part) = stream.next().await? {
            let written = tokio::task::spawn_blocking(move || file.write_all(&part).map(|()| file));
            file = written.await.map_err(std::io::Error::other).flatten().map_err(unwritten)?;
        }
        Ok(file)
    }

    /// Reports what happens until the attempt has ended and the server has all of it.
    async fn follow(&self, kept: KeptAttempt) -> Result<(), Dropped> {
        let agent = kept.lease.agent.clone();
        let followed = match self.report_to_the_end(&kept).await {
            Ok(last) => self.hand_over(&kept, &last).await,
            Err(Dropped) => Err(Dropped),
        };
        if followed.is_err() {
            self.context.notices.note(format_args!("{agent} is dropped: its lease is lost"));
            let _ = self.engine.cancel(&agent).await;
            self.wait_for_supervisor(&agent).await;
        }
        self.forget(&kept).await;
        followed
    }

    /// Returns the last report, without events.
    async fn report_to_the_end(&self, kept: &KeptAttempt) -> Result<ProgressReport, Dropped> {
        let (agent, interval) = (&kept.lease.agent, report_interval(kept.lease_millis));
        // An empty report says which events the server has.
        let mut answer = self.report(&kept.lease, ProgressReport::default()).await?;
        let (mut last, mut reported_at) = (ProgressReport::default(), Instant::now());
        let mut unbegun = 0;
        loop {
            self.obey(agent, &answer).await;
            let Ok(Some(state)) = self.engine.state(agent).await else {
                tokio::time::sleep(LOOK_INTERVAL).await;
                unbegun += 1;
                if unbegun > START_LOOKS {
                    return Ok(last);
                }
                continue;
            };
            // Events are read after the state: those of an ended agent are all there.
            let read = self.engine.events(agent, answer.stored, MAX_EVENTS).await;
            let report = progress(&state);
            if is_complete(state.state, &read) && report == last {
                return Ok(last);
            }
            if let Err(error) = &read {
                self.context.notices.note(format_args!("the events of {agent}: {error}"));
            }
            // Those that cannot be read now are sent later.
            let events = read.unwrap_or_default();
            if state.state == LaunchedState::Starting && !self.is_held(agent).await {
                unbegun += 1;
                if unbegun > START_LOOKS {
                    return Ok(last);
                }
            }
            let is_news = report != last || !events.is_empty();
            if is_news || reported_at.elapsed() >= interval {
                answer =
                    self.report(&kept.lease, ProgressReport { events, ..report.clone() }).await?;
                (last, reported_at) = (report, Instant::now());
                if is_news {
                    continue;
                }
            }
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
    }

    async fn is_held(&self, agent: &str) -> bool {
        self.engine.is_held(agent).await.unwrap_or(true)
    }

    /// Does what the server wants.
    async fn obey(&self, agent: &str, answer: &ProgressAnswer) {
        for (question, yes) in &answer.answers {
            let _ = self.engine.answer(agent, question, *yes).await;
        }
        if answer.cancel {
            let _ = self.engine.cancel(agent).await;
        }
    }

    /// Reports, and repeats that while the server is away: the agent works on meanwhile.
    async fn report(
        &self,
        lease: &Lease,
        report: ProgressReport,
    ) -> Result<ProgressAnswer, Dropped> {
        let request = || -> WorkerAnswer<'_, ProgressAnswer> {
            let (secret, report) = (self.credentials.secret(), report.clone());
            Box::pin(async move { self.api.report(&secret, lease, report).await })
        };
        self.retry(request).await.map_err(|error| self.dropped(&error))
    }

    fn dropped(&self, error: &WorkerError) -> Dropped {
        self.context.notices.note(error);
        Dropped
    }

    /// Repeats a request while the server is away.
    async fn retry<'a, T>(
        &self,
        request: impl Fn() -> WorkerAnswer<'a, T> + Send,
    ) -> Result<T, WorkerError> {
        let mut backoff = Duration::from_millis(100);
        loop {
            match request().await {
                Ok(answer) => return Ok(answer),
                Err(WorkerError::Unavailable(_)) => {}
                Err(
                    error @ (WorkerError::JoinRefused
                    | WorkerError::Unauthorized
                    | WorkerError::VersionSkew(_)
                    | WorkerError::LeaseLost(_)
                    | WorkerError::Refused(_)),
                ) => return Err(error),
            }
            tokio::time::sleep(backoff).await;
            backoff = (backoff * 2).min(MAX_BACKOFF);
        }
    }

    /// Sends the work, and reports the end. The last report is repeated meanwhile: an empty one would erase the cost.
    async fn hand_over(&self, kept: &KeptAttempt, last: &ProgressReport) -> Result<(), Dropped> {
        let lease = (&kept.lease, kept.lease_millis);
        self.with_lease(lease, last, self.send_the_end(kept)).await
    }

    async fn send_the_end(&self, kept: &KeptAttempt) -> Result<(), Dropped> {
        let agent = kept.lease.agent.clone();
        let context = self.context_in(kept);
        let ended = blocking(move || ending(&context, &agent)).await;
        let (bundle, finish) =
            ended.unwrap_or_else(|failure| (Vec::new(), failed(failure.in_one_line())));
        self.end(&kept.lease, bundle, finish).await
    }

    pub(super) async fn end(
        &self,
        lease: &Lease,
        bundle: Vec<u8>,
        finish: FinishReport,
    ) -> Result<(), Dropped> {
        if !bundle.is_empty() {
            let send = || -> WorkerAnswer<'_, ()> {
                let (secret, bundle) = (self.credentials.secret(), bundle.clone());
                Box::pin(async move { self.api.send_work(&secret, lease, bundle).await })
            };
            self.retry(send).await.map_err(|error| self.dropped(&error))?;
        }
        let report = || -> WorkerAnswer<'_, ()> {
            let (secret, finish) = (self.credentials.secret(), finish.clone());
            Box::pin(async move { self.api.finish(&secret, lease, finish).await })
        };
        self.retry(report).await.map_err(|error| self.dropped(&error))
    }

    fn context_in(&self, kept: &KeptAttempt) -> Context {
        Context { directory: kept.repository.clone(), ..self.context.clone() }
    }

    /// As long as its agent runs, this worker must not get the attempt again.
    async fn wait_for_supervisor(&self, agent: &str) {
        while self.is_held(agent).await {
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
    }

    /// Removes what is here of an attempt. An agent that does not end keeps its files.
    async fn forget(&self, kept: &KeptAttempt) {
        let agent = kept.lease.agent.clone();
        if !self.is_held(&agent).await {
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
}

pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| Failure::general(format!("it broke: {error}")))?
}

/// The end of what failed here.
pub(super) fn failed(detail: String) -> FinishReport {
    FinishReport {
        ending: ExitReason::Failed,
        detail,
        summary: AttemptSummary::default(),
        work: None,
        evidence: None,
    }
}

fn is_over(state: LaunchedState) -> bool {
    match state {
        LaunchedState::WaitingForWorker
        | LaunchedState::Starting
        | LaunchedState::Running
        | LaunchedState::WaitingForApproval => false,
        LaunchedState::Verified
        | LaunchedState::Rejected
        | LaunchedState::Failed
        | LaunchedState::Stopped
        | LaunchedState::BudgetExhausted
        | LaunchedState::EnforcementLost => true,
    }
}

/// Whether an attempt has ended and all its events were sent. Events that cannot be read were not.
fn is_complete(state: LaunchedState, unsent: &Result<Vec<EngineEvent>, EngineError>) -> bool {
    is_over(state) && unsent.as_ref().is_ok_and(Vec::is_empty)
}

fn progress(state: &Launched) -> ProgressReport {
    let standing = match state.state {
        LaunchedState::WaitingForWorker | LaunchedState::Starting => ProgressState::Starting,
        LaunchedState::WaitingForApproval => ProgressState::WaitingForApproval,
        LaunchedState::Running
        | LaunchedState::Verified
        | LaunchedState::Rejected
        | LaunchedState::Failed
        | LaunchedState::Stopped
        | LaunchedState::BudgetExhausted
        | LaunchedState::EnforcementLost => ProgressState::Running,
    };
    ProgressReport {
        state: standing,
        session: state.session.clone(),
        cost: state.cost,
        attempts: state.attempts,
        detail: state.detail.clone(),
        questions: state.questions.clone(),
        events: Vec::new(),
    }
}

/// How an attempt ended here, with its work if it was completed.
fn ending(context: &Context, agent: &str) -> Result<(Vec<u8>, FinishReport), Failure> {
    let id = AgentId::parse(agent).map_err(|error| Failure::general(error.to_string()))?;
    let attempts = context.with_store(async |store| Ok(store.attempts(Some(&id)).await?))?;
    let Some(last) = attempts.last() else {
        return Err(Failure::general("its supervisor ended before its agent was started"));
    };
    let summary = AttemptSummary {
        cli: last.cli.clone(),
        version: last.version.clone(),
        model: last.model.clone(),
        login: last.login.clone(),
        sandbox: last.sandbox.clone(),
    };
    let ending = last.ending.unwrap_or(ExitReason::CutOff);
    if ending != ExitReason::Completed {
        let detail = last.detail.clone();
        return Ok((
            Vec::new(),
            FinishReport { ending, detail, summary, work: None, evidence: None },
        ));
    }
    let detail = final_message(context, &id, last)?;
    let (work, bundle): (WorkClaim, Vec<u8>) = repository::work(context, &id)?;
    Ok((bundle, FinishReport { ending, detail, summary, work: Some(work), evidence: None }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attempt_whose_events_cannot_be_read_is_not_complete() {
        let event = EngineEvent {
            number: 1,
            at: 1,
            kind: "text".to_owned(),
            body: serde_json::Value::Null,
        };
        let failure = || Err(EngineError("the disk is away".to_owned()));
        let over = LaunchedState::Verified;
        assert!(is_complete(over, &Ok(Vec::new())), "the control");
        assert!(!is_complete(over, &Ok(vec![event])));
        assert!(!is_complete(over, &failure()));
        assert!(!is_complete(LaunchedState::Running, &Ok(Vec::new())));
    }
}

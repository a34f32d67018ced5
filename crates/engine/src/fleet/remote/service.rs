//! Answers the requests of workers. Any server can: everything is in the database, and in the checkouts.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bailiwick_fleet::workers::{
    AssignedWork, Assignment, ByteStream, FinishReport, JoinAnswer, JoinRequest, Lease,
    MAX_EVIDENCE_BYTES, MAX_WORK_BYTES, NewWorker, PollAnswer, PollRequest, ProgressAnswer,
    ProgressReport, RemoteCheck, RemoteLaunch, RenewRequest, WorkerAnswer, WorkerApi,
    WorkerCapabilities, WorkerError, WorkerRecord, WorkerServer, WorkerState, check_version,
};
use bailiwick_lifecycle::ports::StoreError;
use bailiwick_model::Sha256Hex;
use bailiwick_source_control::git::{
    BundleError, Git, MAX_KNOWN_COMMITS, temporary_file, write_bundle,
};
use bailiwick_store::Store;
use serde::Deserialize;

use super::OWN_LABELS;
use super::evidence;
use super::packs::{PackKey, Packs};
use super::waiting::with_capabilities;
use crate::failure::Failure;
use crate::system;

/// How long the credential of a worker is valid. It is renewed at half of that.
const CREDENTIAL_VALID: Duration = Duration::from_secs(3_600);
/// How long a request for an attempt waits at most.
const MAX_WAIT: Duration = Duration::from_secs(25);
/// How often it looks for what other servers have queued.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// The maximum size of a repository that is sent.
const MAX_REPOSITORY_BYTES: usize = 512 * 1024 * 1024;
const MAX_NAME_LENGTH: usize = 60;
const MAX_LABELS: usize = 50;
const MAX_PROGRAMS: usize = 64;
const MAX_LACKS: usize = 64;
/// The maximum length of what a worker says of its machine, in characters.
const MAX_TEXT_LENGTH: usize = 200;
const CREDENTIAL_PREFIX: &str = "bwc_";

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The server side of workers.
pub struct WorkerService {
    store: Arc<Store>,
    lease_millis: u64,
    packs: Packs,
    /// Where packed commits are.
    state: PathBuf,
}

impl std::fmt::Debug for WorkerService {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("WorkerService").finish_non_exhaustive()
    }
}

fn unavailable(error: StoreError) -> WorkerError {
    WorkerError::Unavailable(error.to_string())
}

fn random_secret(prefix: &str) -> Result<String, WorkerError> {
    let failed = |failure: Failure| WorkerError::Unavailable(failure.in_one_line());
    let secret = system::random_secret().map_err(failed)?;
    Ok(format!("{prefix}{secret}"))
}

fn digest(secret: &str) -> String {
    Sha256Hex::of(secret).to_string()
}

impl WorkerService {
    /// `lease_millis` is how long a worker may be silent before another one can have its attempts. Commits are packed into
    /// files without a name in the directory `state`.
    pub fn new(store: Arc<Store>, lease_millis: u64, state: PathBuf) -> Self {
        Self { store, lease_millis, packs: Packs::new(), state }
    }

    async fn worker(&self, credential: &str) -> Result<WorkerRecord, WorkerError> {
        let found = self.store.worker_with_credential(&digest(credential), self.lease_millis).await;
        let found = found.map_err(unavailable)?.ok_or(WorkerError::Unauthorized)?;
        Ok(with_capabilities(found))
    }

    async fn claim(
        &self,
        worker: &WorkerRecord,
        follows: Option<&[String]>,
    ) -> Result<Option<Assignment>, WorkerError> {
        // A new leader extends the leases first: workers could not renew them while the database was away.
        if !self.store.has_leader().await.map_err(unavailable)? {
            return Ok(None);
        }
        // Whatever it says about its room. A lease that has expired may be one of which it does not know.
        let slots = worker.capabilities.slots.max(1);
        if worker.running >= slots {
            let valid = self.store.valid_leases(worker).await.map_err(unavailable)?;
            if valid >= slots {
                return Ok(None);
            }
        }
        let claimed = self.store.claim_attempt(worker, self.lease_millis, follows).await;
        let Some(claimed) = claimed.map_err(unavailable)? else { return Ok(None) };
        let unreadable = |error: serde_json::Error| {
            WorkerError::Unavailable(format!("a launch cannot be read: {error}"))
        };
        // No worker is told where a checkout is.
        let work = match claimed.is_check {
            false => {
                let launch: RemoteLaunch =
                    serde_json::from_slice(&claimed.launch).map_err(unreadable)?;
                let launch = RemoteLaunch { checkout: String::new(), ..launch };
                AssignedWork::Launch(Box::new(launch))
            }
            true => {
                let check: RemoteCheck =
                    serde_json::from_slice(&claimed.launch).map_err(unreadable)?;
                AssignedWork::Check(RemoteCheck { checkout: String::new(), ..check })
            }
        };
        let lease_millis = self.lease_millis;
        Ok(Some(Assignment { lease: claimed.lease, lease_millis, work }))
    }

    async fn accept(&self, token: &str, request: JoinRequest) -> Result<JoinAnswer, WorkerError> {
        require_short(&request.capabilities, &request.version)?;
        check_version(VERSION, &request.version)?;
        require_plain(&request)?;
        let (credential, tag) = (
            random_secret(CREDENTIAL_PREFIX)?,
            random_secret("")?.get(..6).unwrap_or_default().to_owned(),
        );
        let worker = NewWorker {
            name: format!("{}-{tag}", request.name),
            pool: request.pool,
            labels: request.labels,
            capabilities: request.capabilities,
            version: request.version,
            credential: digest(&credential),
        };
        let joined =
            self.store.join_worker(&digest(token), &worker, millis(CREDENTIAL_VALID)).await;
        match joined.map_err(unavailable)? {
            false => Err(WorkerError::JoinRefused),
            true => Ok(JoinAnswer {
                worker: worker.name,
                credential,
                valid_seconds: CREDENTIAL_VALID.as_secs(),
            }),
        }
    }
}

/// What was queued for a worker.
#[derive(Deserialize)]
#[serde(untagged)]
enum StoredWork {
    Check(RemoteCheck),
    Launch(Box<RemoteLaunch>),
}

impl StoredWork {
    /// The checkout, and the commits that a worker needs.
    fn commits(self) -> (String, Vec<String>) {
        match self {
            Self::Check(check) => (check.checkout, vec![check.base, check.head, check.commit]),
            Self::Launch(launch) => {
                let commits = [Some(launch.base), launch.kit_commit].into_iter().flatten();
                (launch.checkout, commits.collect())
            }
        }
    }
}

/// Packs commits into a file without a name.
fn pack(
    key: &PackKey,
    directory: &Path,
    is_cancelled: &(dyn Fn() -> bool + Sync),
) -> Result<File, BundleError> {
    let PackKey { checkout, commits, has } = key;
    let commits: Vec<&str> = commits.iter().map(String::as_str).collect();
    let has: Vec<&str> = has.iter().map(String::as_str).collect();
    std::fs::create_dir_all(directory).map_err(|error| {
        BundleError::Unreadable(format!("{} cannot be made: {error}", directory.display()))
    })?;
    let (git, mut file) = (Git::at(checkout), temporary_file(directory)?);
    write_bundle(&git, (&commits, &has), MAX_REPOSITORY_BYTES, &mut file, is_cancelled)?;
    Ok(file)
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Every request of a worker reads what it said of its machine.
fn require_short(offered: &WorkerCapabilities, version: &str) -> Result<(), WorkerError> {
    if offered.programs.len() > MAX_PROGRAMS {
        let why = format!("a worker has at most {MAX_PROGRAMS} agent programs");
        return Err(WorkerError::Refused(why));
    }
    if offered.lacks.len() > MAX_LACKS {
        let why = format!("a worker lacks at most {MAX_LACKS} parts of a sandbox");
        return Err(WorkerError::Refused(why));
    }
    let is_short =
        |text: &str| text.chars().count() <= MAX_TEXT_LENGTH && !text.chars().any(char::is_control);
    let WorkerCapabilities { programs, sandbox, confinement, lacks, .. } = offered;
    let are_short = programs.iter().all(|(name, version)| is_short(name) && is_short(version));
    let are_short = are_short && lacks.iter().all(|part| is_short(part));
    if are_short && is_short(sandbox) && is_short(confinement) && is_short(version) {
        return Ok(());
    }
    Err(WorkerError::Refused(format!(
        "the versions, agent programs and sandbox of a worker, and what it lacks, have at most \
         {MAX_TEXT_LENGTH} printable characters each"
    )))
}

/// Names and labels are shown to people, and labels of ours are set by us.
fn require_plain(request: &JoinRequest) -> Result<(), WorkerError> {
    let is_plain = |text: &str| {
        !text.is_empty()
            && text.len() <= MAX_NAME_LENGTH
            && text.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_./".contains(letter))
    };
    if !is_plain(&request.name) || request.name.contains('/') {
        let why = "the name of a worker has letters, digits, `-`, `_` and `.`, at most 60";
        return Err(WorkerError::Refused(why.to_owned()));
    }
    let wrong = request
        .labels
        .iter()
        .find(|(key, value)| !is_plain(key) || !is_plain(value) || key.starts_with(OWN_LABELS));
    match wrong {
        Some((key, value)) => Err(WorkerError::Refused(format!(
            "`{key}={value}` is no label for a worker: use letters, digits, `-`, `_`, `.` and `/`, and not \
             the prefix {OWN_LABELS}"
        ))),
        None if request.labels.len() > MAX_LABELS => {
            Err(WorkerError::Refused(format!("a worker has at most {MAX_LABELS} labels")))
        }
        None => Ok(()),
    }
}

impl WorkerServer for WorkerService {
    fn authenticate<'a>(&'a self, credential: &'a str) -> WorkerAnswer<'a, ()> {
        Box::pin(async move { self.worker(credential).await.map(drop) })
    }
}

impl WorkerApi for WorkerService {
    fn join<'a>(&'a self, token: &'a str, request: JoinRequest) -> WorkerAnswer<'a, JoinAnswer> {
        Box::pin(self.accept(token, request))
    }

    fn renew<'a>(
        &'a self,
        credential: &'a str,
        request: RenewRequest,
    ) -> WorkerAnswer<'a, JoinAnswer> {
        Box::pin(async move {
            let worker = self.worker(credential).await?;
            // A worker of another version gets no new attempts, and brings those that it runs to their end.
            let is_close = check_version(VERSION, &request.version).is_ok();
            if let Some(capabilities) = request.capabilities.as_ref().filter(|_| is_close) {
                require_short(capabilities, &request.version)?;
                let (name, version) = (&worker.name, &request.version);
                let stored = self.store.describe_worker(name, capabilities, version).await;
                stored.map_err(unavailable)?;
            }
            let fresh = random_secret(CREDENTIAL_PREFIX)?;
            let valid = millis(CREDENTIAL_VALID);
            let (used, added) = (digest(credential), digest(&fresh));
            let renewed = self.store.renew_worker(&worker.name, &used, &added, valid).await;
            renewed.map_err(unavailable)?;
            Ok(JoinAnswer {
                worker: worker.name,
                credential: fresh,
                valid_seconds: CREDENTIAL_VALID.as_secs(),
            })
        })
    }

    fn poll<'a>(
        &'a self,
        credential: &'a str,
        request: PollRequest,
    ) -> WorkerAnswer<'a, PollAnswer> {
        Box::pin(async move {
            check_version(VERSION, &request.version)?;
            let wait = Duration::from_millis(request.wait_millis).min(MAX_WAIT);
            let deadline = Instant::now() + wait;
            let mut queued = self.store.queued_signal();
            loop {
                let worker = self.worker(credential).await?;
                let drain = worker.state == WorkerState::Draining;
                let takes = request.has_room && worker.state == WorkerState::Active;
                let follows = request.follows.as_deref();
                let assignment = if takes { self.claim(&worker, follows).await? } else { None };
                if assignment.is_some() || drain || Instant::now() >= deadline {
                    return Ok(PollAnswer { assignment, drain });
                }
                tokio::select! {
                    () = queued.wait() => {}
                    () = tokio::time::sleep(POLL_INTERVAL) => {}
                }
            }
        })
    }

    fn repository<'a>(
        &'a self,
        credential: &'a str,
        lease: &'a Lease,
        has: &'a [String],
    ) -> WorkerAnswer<'a, Box<dyn ByteStream>> {
        Box::pin(async move {
            let worker = self.worker(credential).await?;
            let launch = self.store.launch_of_lease(&worker.name, lease).await;
            let launch = launch.map_err(unavailable)??;
            // The worker repeats the request as long as this server is unavailable.
            let stored: StoredWork = serde_json::from_slice(&launch).map_err(|error| {
                WorkerError::Refused(format!("a launch cannot be read: {error}"))
            })?;
            let (checkout, commits) = stored.commits();
            let has: Vec<String> = has.iter().take(MAX_KNOWN_COMMITS).cloned().collect();
            let key = PackKey { checkout, commits, has };
            let (wanted, directory) = (key.clone(), self.state.clone());
            let make = move |is_unwanted: &(dyn Fn() -> bool + Sync)| {
                pack(&wanted, &directory, is_unwanted)
            };
            let stream = self.packs.open(&worker.name, lease, key, make).await?;
            Ok(Box::new(stream) as Box<dyn ByteStream>)
        })
    }

    fn report<'a>(
        &'a self,
        credential: &'a str,
        lease: &'a Lease,
        report: ProgressReport,
    ) -> WorkerAnswer<'a, ProgressAnswer> {
        Box::pin(async move {
            let worker = self.worker(credential).await?;
            let stored =
                self.store.report_attempt(&worker.name, lease, report, self.lease_millis).await;
            Ok(stored.map_err(unavailable)??)
        })
    }

    fn send_work<'a>(
        &'a self,
        credential: &'a str,
        lease: &'a Lease,
        bundle: Vec<u8>,
    ) -> WorkerAnswer<'a, ()> {
        Box::pin(async move {
            let worker = self.worker(credential).await?;
            if bundle.len() > MAX_WORK_BYTES {
                let why = format!("the work is larger than {MAX_WORK_BYTES} bytes");
                return Err(WorkerError::Refused(why));
            }
            let kept = self.store.keep_lease(&worker.name, lease, self.lease_millis).await;
            kept.map_err(unavailable)??;
            Ok(self.store.store_work(&worker.name, lease, bundle).await.map_err(unavailable)??)
        })
    }

    fn finish<'a>(
        &'a self,
        credential: &'a str,
        lease: &'a Lease,
        finish: FinishReport,
    ) -> WorkerAnswer<'a, ()> {
        Box::pin(async move {
            let worker = self.worker(credential).await?;
            if finish.evidence.as_ref().is_some_and(|evidence| !evidence::is_short(evidence)) {
                let why = format!("an outcome takes more than {MAX_EVIDENCE_BYTES} bytes");
                return Err(WorkerError::Refused(why));
            }
            Ok(self
                .store
                .finish_attempt(&worker.name, lease, &finish)
                .await
                .map_err(unavailable)??)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worker_capabilities_have_limited_length() {
        let offering = |programs: Vec<(String, String)>| WorkerCapabilities {
            programs: programs.into_iter().collect(),
            ..WorkerCapabilities::default()
        };
        let program = |version: String| vec![("codex".to_owned(), version)];
        let many = |count: usize| -> Vec<(String, String)> {
            (0..count).map(|at| (at.to_string(), String::new())).collect()
        };
        for good in [program("ä".repeat(200)), many(64)] {
            assert_eq!(require_short(&offering(good), VERSION), Ok(()));
        }
        for bad in [program("ä".repeat(201)), program("1\n2".to_owned()), many(65)] {
            let refused = require_short(&offering(bad), VERSION);
            assert!(matches!(refused, Err(WorkerError::Refused(_))));
        }
        assert!(require_short(&offering(Vec::new()), &"1".repeat(201)).is_err());
        let lacking = |count: usize, part: &str| WorkerCapabilities {
            lacks: vec![part.to_owned(); count],
            ..WorkerCapabilities::default()
        };
        let within = |confinement: String| WorkerCapabilities {
            confinement,
            ..WorkerCapabilities::default()
        };
        for good in [lacking(64, &"ä".repeat(200)), within("nested".to_owned())] {
            assert_eq!(require_short(&good, VERSION), Ok(()));
        }
        let long = "a".repeat(201);
        for bad in [lacking(65, ""), lacking(1, &long), lacking(1, "a\u{1b}[2J"), within(long)] {
            assert!(matches!(require_short(&bad, VERSION), Err(WorkerError::Refused(_))));
        }
    }
}

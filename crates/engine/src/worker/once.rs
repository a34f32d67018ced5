//! A worker for one attempt, as in the pod of a Kubernetes Job.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bailiwick_fleet::workers::{Assignment, PollAnswer, WorkerCapabilities, WorkerError};
use bailiwick_resources::WorkerExit;

use super::attempts::Unended;
use super::{BACKOFF, Worker, probing};
use crate::failure::Failure;

/// The sandbox that every attempt needs.
const NEEDED: &str = "full";

/// How often it is seen whether the credential has to be renewed.
const RENEW_INTERVAL: Duration = Duration::from_secs(60);

/// How a worker for one attempt ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OnceOutcome {
    pub exit: WorkerExit,
    /// Details, in one line.
    pub detail: String,
}

impl OnceOutcome {
    fn new(exit: WorkerExit, detail: impl Into<String>) -> Self {
        Self { exit, detail: detail.into() }
    }
}

/// What the machine lacks to run any attempt.
pub(super) fn lacks(capabilities: &WorkerCapabilities) -> Option<String> {
    if capabilities.sandbox == NEEDED {
        return None;
    }
    Some(format!(
        "the sandbox here is `{}` ({}) and an attempt needs `{NEEDED}`; missing: {}",
        capabilities.sandbox,
        capabilities.confinement,
        capabilities.lacks.join(", ")
    ))
}

impl Worker {
    /// Runs one attempt to its end: the one that an earlier process here has begun, or the first that the server has
    /// within a time.
    pub async fn run_once(
        self,
        wait: Duration,
        shutdown: impl Future<Output = ()>,
    ) -> Result<OnceOutcome, Failure> {
        if let Some(lacks) = &self.lacks {
            return Ok(OnceOutcome::new(WorkerExit::CannotRunHere, lacks));
        }
        let kept = self.attempts.kept()?.pop();
        let work = async {
            let ended = match kept {
                Some(kept) => Arc::clone(&self.attempts).go_on(kept).await,
                None => match self.assignment(wait).await {
                    Ok(Some(assignment)) => Arc::clone(&self.attempts).begin(assignment).await,
                    Ok(None) => {
                        let why = "the server had no attempt for this worker";
                        return OnceOutcome::new(WorkerExit::NothingToDo, why);
                    }
                    Err(error) => return OnceOutcome::new(WorkerExit::Lost, error.to_string()),
                },
            };
            match ended {
                Ok(()) => OnceOutcome::new(WorkerExit::Done, ""),
                Err(Unended::Dropped) => OnceOutcome::new(WorkerExit::Lost, "the attempt is lost"),
                Err(Unended::NotBegun(why)) => OnceOutcome::new(WorkerExit::Lost, why),
            }
        };
        let renewals = async {
            loop {
                tokio::time::sleep(RENEW_INTERVAL).await;
                // It is valid for much longer: the next time is soon enough.
                let offered =
                    probing::capabilities(&self.attempts.context, &self.store, self.slots);
                let _ = self.credentials.renew(self.api.as_ref(), offered).await;
            }
        };
        tokio::select! {
            outcome = work => Ok(outcome),
            () = renewals => Ok(OnceOutcome::new(WorkerExit::Lost, "")),
            () = shutdown => Ok(OnceOutcome::new(WorkerExit::Lost, "stopped before the attempt ended")),
        }
    }

    /// The first attempt that the server has. It waits as long as the server is away, and then as long as it may.
    async fn assignment(&self, wait: Duration) -> Result<Option<Assignment>, WorkerError> {
        let mut deadline = Instant::now() + wait;
        let mut failures = 0_u32;
        loop {
            match self.next(true).await {
                Ok(PollAnswer { assignment: Some(assignment), .. }) => return Ok(Some(assignment)),
                Ok(PollAnswer { drain: true, .. }) => return Ok(None),
                Ok(_) => failures = 0,
                Err(WorkerError::Unavailable(why)) => {
                    self.notices.note(format_args!("{why}; trying again"));
                    tokio::time::sleep(BACKOFF.delay(failures)).await;
                    failures = failures.saturating_add(1);
                    deadline = Instant::now() + wait;
                }
                Err(error) => return Err(error),
            }
            if Instant::now() >= deadline {
                return Ok(None);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use bailiwick_fleet::workers::WorkerCapabilities;
    use bailiwick_runner::sandbox::Level;

    use super::lacks;

    fn capabilities(sandbox: Level) -> WorkerCapabilities {
        WorkerCapabilities {
            programs: BTreeMap::new(),
            sandbox: sandbox.as_str().to_owned(),
            confinement: "nested".to_owned(),
            lacks: vec!["seccomp: no filter can be loaded".to_owned()],
            cores: 2,
            slots: 1,
            checks: sandbox == Level::Full,
        }
    }

    #[test]
    fn only_a_full_sandbox_is_enough_for_an_attempt() {
        assert_eq!(lacks(&capabilities(Level::Full)), None);
        for level in [Level::Partial, Level::Off] {
            let lacks = lacks(&capabilities(level)).unwrap();
            assert!(
                lacks.contains(&format!("the sandbox here is `{}`", level.as_str())),
                "{lacks}"
            );
            assert!(lacks.contains("seccomp: no filter can be loaded"), "{lacks}");
        }
    }
}

//! The jobs of this server, in memory.

use std::sync::{Mutex, PoisonError};

use bailiwick_fleet::ports::{LocalJob, LocalJobState, LocalJobs};
use bailiwick_resources::Moment;

use crate::problem::Problem;

/// The oldest jobs that have ended are forgotten beyond this number.
const MAX_JOBS: usize = 200;
/// The newest steps of a job that are kept.
const MAX_STEPS: usize = 200;
const MAX_STEP_CHARS: usize = 500;

/// The jobs of this server, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct JobList {
    jobs: Mutex<Vec<LocalJob>>,
}

impl JobList {
    /// Adds a job, unless another one works on the same agent.
    pub(crate) fn start(&self, job: LocalJob) -> Result<(), Problem> {
        let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        let is_busy =
            |other: &&LocalJob| other.run == job.run && other.state == LocalJobState::Running;
        if let Some(other) = jobs.iter().find(is_busy) {
            let (verb, id) = (other.action.as_str(), &other.id);
            let message = format!("`{verb}` of this agent is running (job {id}); wait for it");
            return Err(Problem::conflict("REFUSED", message));
        }
        jobs.push(job);
        while jobs.len() > MAX_JOBS {
            let Some(oldest) = jobs.iter().position(|job| job.state != LocalJobState::Running)
            else {
                break;
            };
            jobs.remove(oldest);
        }
        Ok(())
    }

    pub(crate) fn change(&self, id: &str, change: impl FnOnce(&mut LocalJob)) {
        let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(job) = jobs.iter_mut().find(|job| job.id == id) {
            change(job);
        }
    }

    pub(crate) fn step(&self, id: &str, text: &str) {
        self.change(id, |job| {
            job.progress.push(text.chars().take(MAX_STEP_CHARS).collect());
            if job.progress.len() > MAX_STEPS {
                job.progress.remove(0);
            }
        });
    }

    pub(crate) fn end(&self, id: &str, state: LocalJobState, message: String, at: Moment) {
        self.change(id, |job| {
            job.state = state;
            job.message = message;
            job.ended_at = Some(at);
        });
    }

    /// The jobs of an agent or of all, the newest first.
    pub(crate) fn list(&self, run: Option<&str>) -> LocalJobs {
        let jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        let of_run = jobs.iter().rev().filter(|job| run.is_none_or(|run| job.run == run));
        LocalJobs { items: of_run.cloned().collect() }
    }

    pub(crate) fn find(&self, id: &str) -> Option<LocalJob> {
        let jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        jobs.iter().find(|job| job.id == id).cloned()
    }
}

#[cfg(test)]
mod tests {
    use bailiwick_fleet::ports::LocalVerb;

    use super::*;

    fn job(id: &str, run: &str) -> LocalJob {
        LocalJob {
            id: id.to_owned(),
            run: run.to_owned(),
            action: LocalVerb::Verify,
            actor: "ada".to_owned(),
            state: LocalJobState::Running,
            progress: Vec::new(),
            message: String::new(),
            started_at: Moment::from_millis(1),
            ended_at: None,
        }
    }

    #[test]
    fn only_one_job_runs_for_an_agent_at_a_time() {
        let jobs = JobList::default();
        assert!(jobs.start(job("1", "a")).is_ok());
        assert!(jobs.start(job("2", "a")).is_err());
        assert!(jobs.start(job("3", "b")).is_ok());
        jobs.end("1", LocalJobState::Succeeded, "done".to_owned(), Moment::from_millis(2));
        assert!(jobs.start(job("4", "a")).is_ok());
        let of_run: Vec<String> =
            jobs.list(Some("a")).items.into_iter().map(|job| job.id).collect();
        assert_eq!(of_run, ["4", "1"]);
        assert_eq!(jobs.list(None).items.len(), 3);
    }

    #[test]
    fn running_jobs_are_never_removed_and_steps_are_limited() {
        let jobs = JobList::default();
        jobs.start(job("first", "first")).unwrap();
        for number in 0..MAX_JOBS + 10 {
            let id = number.to_string();
            jobs.start(job(&id, &id)).unwrap();
            jobs.end(&id, LocalJobState::Failed, String::new(), Moment::from_millis(2));
        }
        assert!(jobs.find("first").is_some());
        assert!(jobs.find("0").is_none());
        assert_eq!(jobs.list(None).items.len(), MAX_JOBS);
        for number in 0..=MAX_STEPS {
            jobs.step("first", &number.to_string());
        }
        let steps = jobs.find("first").unwrap().progress;
        assert_eq!((steps.len(), steps[0].as_str()), (MAX_STEPS, "1"));
    }
}

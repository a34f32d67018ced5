//! A client of a forge whose requests have deadlines, and which reports whether the forge answers.

use std::future::Future;
use std::sync::Arc;

use bailiwick_resources::{ForgeFacts, ForgeUse, Object, Repository};

use super::forge_health::{Deadline, ForgeHealth, Waited};
use super::repository_controller::Problem;
use crate::admission::TeamMembers;
use crate::ports::{
    AccountProblem, CheckRun, Clock, CommitPlace, Forge, ForgeError, Forges, LabelEntry,
    ObjectStore, PolledEvent, PullRequestState, Rights, WriteBack, Written,
};

/// A client of the forge of one repository. It forwards every method of [`Forge`], also those with a default.
pub(super) struct TimedForge<S, W: Forges> {
    forge: W::Forge,
    repository: Object<Repository>,
    health: Arc<ForgeHealth<S, W>>,
}

impl<S, W: Forges> TimedForge<S, W> {
    pub(super) fn new(
        forge: W::Forge,
        repository: Object<Repository>,
        health: Arc<ForgeHealth<S, W>>,
    ) -> Self {
        Self { forge, repository, health }
    }
}

impl<S: ObjectStore, W: Clock + Forges> TimedForge<S, W> {
    async fn timed<T>(
        &self,
        used_for: ForgeUse,
        deadline: Deadline,
        request: impl Future<Output = Result<T, ForgeError>> + Send,
    ) -> Result<T, ForgeError> {
        let repository = &self.repository;
        let answer = match self.health.wait(repository, used_for, deadline, request).await {
            Waited::Answered(answer) => answer,
            Waited::TimedOut(why) => return Err(ForgeError::Unavailable(why)),
        };
        match &answer {
            Ok(_) => self.health.report(repository, used_for, None).await,
            // It has answered, but what it refuses can be a problem of one object only.
            Err(
                ForgeError::Refused(_)
                | ForgeError::Moved { .. }
                | ForgeError::Unsupported(_)
                | ForgeError::Account(AccountProblem::RightMissing { .. }),
            ) => self.health.report_answer(repository, used_for).await,
            Err(error @ (ForgeError::Unavailable(_) | ForgeError::Account(_))) => {
                let problem = Problem::of_forge(error);
                self.health.report(repository, used_for, Some(problem)).await;
            }
        }
        answer
    }

    async fn ask<T>(
        &self,
        deadline: Deadline,
        request: impl Future<Output = Result<T, ForgeError>> + Send,
    ) -> Result<T, ForgeError> {
        self.timed(ForgeUse::Asking, deadline, request).await
    }
}

impl<S: ObjectStore, W: Clock + Forges> Forge for TimedForge<S, W> {
    async fn write(&self, key: &str, what: &WriteBack) -> Result<Written, ForgeError> {
        self.timed(ForgeUse::Writing, Deadline::SEVERAL, self.forge.write(key, what)).await
    }

    async fn pull_request(&self, number: u64) -> Result<PullRequestState, ForgeError> {
        self.ask(Deadline::SEVERAL, self.forge.pull_request(number)).await
    }

    async fn branch(&self, name: &str) -> Result<Option<String>, ForgeError> {
        self.ask(Deadline::ANSWER, self.forge.branch(name)).await
    }

    async fn push_rights(&self, branch: &str) -> Result<Rights, ForgeError> {
        self.ask(Deadline::ANSWER, self.forge.push_rights(branch)).await
    }

    async fn branch_rules(&self, branch: &str) -> Result<Vec<String>, ForgeError> {
        self.ask(Deadline::ANSWER, self.forge.branch_rules(branch)).await
    }

    async fn permission(&self, actor: &str) -> Result<Rights, ForgeError> {
        self.ask(Deadline::ANSWER, self.forge.permission(actor)).await
    }

    async fn team_members(&self, team: &str) -> Result<TeamMembers, ForgeError> {
        self.ask(Deadline::SEVERAL, self.forge.team_members(team)).await
    }

    async fn label_history(&self, number: u64) -> Result<Option<Vec<LabelEntry>>, ForgeError> {
        self.ask(Deadline::SEVERAL, self.forge.label_history(number)).await
    }

    async fn place_of(&self, sha: &str, default_branch: &str) -> Result<CommitPlace, ForgeError> {
        self.ask(Deadline::SEVERAL, self.forge.place_of(sha, default_branch)).await
    }

    async fn facts(&self) -> Result<Option<ForgeFacts>, ForgeError> {
        self.ask(Deadline::SEVERAL, self.forge.facts()).await
    }

    async fn activity_since(
        &self,
        cursor: Option<&str>,
    ) -> Result<(Vec<PolledEvent>, Option<String>), ForgeError> {
        self.ask(Deadline::SEVERAL, self.forge.activity_since(cursor)).await
    }

    async fn issue(&self, number: u64) -> Result<(String, String), ForgeError> {
        self.ask(Deadline::ANSWER, self.forge.issue(number)).await
    }

    async fn job_log(&self, job: &str, most_bytes: usize) -> Result<String, ForgeError> {
        self.ask(Deadline::SEVERAL, self.forge.job_log(job, most_bytes)).await
    }

    async fn account(&self) -> Result<Option<String>, ForgeError> {
        self.ask(Deadline::ANSWER, self.forge.account()).await
    }

    async fn labels(&self) -> Result<Option<Vec<String>>, ForgeError> {
        self.ask(Deadline::SEVERAL, self.forge.labels()).await
    }

    async fn checks_since(
        &self,
        cursor: Option<&str>,
    ) -> Result<(Vec<CheckRun>, Option<String>), ForgeError> {
        self.ask(Deadline::SEVERAL, self.forge.checks_since(cursor)).await
    }

    async fn checks_at(&self, sha: &str) -> Result<Vec<CheckRun>, ForgeError> {
        self.ask(Deadline::SEVERAL, self.forge.checks_at(sha)).await
    }
}

#[cfg(test)]
mod tests {
    /// A method with a default that is not forwarded would silently do nothing.
    #[test]
    fn every_method_of_a_forge_is_forwarded() {
        let port = include_str!("../ports/forge.rs");
        let (_, port) = port.split_once("pub trait Forge:").unwrap();
        let methods: Vec<&str> = port
            .lines()
            .filter_map(|line| line.strip_prefix("    fn ")?.split(['(', '<']).next())
            .collect();
        assert!(methods.contains(&"write") && methods.contains(&"checks_at"), "{methods:?}");
        let wrapper = include_str!("timed_forge.rs");
        for method in methods {
            assert!(
                wrapper.contains(&format!("self.forge.{method}(")),
                "{method} is not forwarded"
            );
        }
    }
}

//! The parts of an agent's context, by source.

use bailiwick_fleet::bundle::SourcePart;
use bailiwick_fleet::ports::{FetchError, Forge as _, World as _};
use bailiwick_resources::{AgentDispatchRun, ContextSource, Repository};
use bailiwick_source_control::forge::{AnyForge, open};

use super::LocalWorld;
use crate::sources;

/// How much of a diff or a list is read.
const MAX_OUTPUT_BYTES: usize = 1024 * 1024;

impl LocalWorld {
    /// The part of an agent's context from one source; `None` if this run has none of it.
    pub(super) async fn context_source(
        &self,
        repository: &Repository,
        run: &AgentDispatchRun,
        source: ContextSource,
    ) -> Result<Option<SourcePart>, FetchError> {
        let part = |name: &str, provenance: String, text: String| SourcePart {
            source,
            name: name.to_owned(),
            provenance,
            text,
        };
        let commit = format!("{}@{}", repository.full_name, run.sha);
        Ok(match source {
            ContextSource::ChangedFiles => {
                let arguments = ["diff", "--no-ext-diff", "--stat", "--stat-width=100"];
                let text = self.compare_with_base(repository, run, &arguments).await?;
                text.map(|text| part("changed files", commit, text))
            }
            ContextSource::Diff => {
                let arguments = ["diff", "--no-ext-diff", "--no-textconv"];
                let text = self.compare_with_base(repository, run, &arguments).await?;
                text.map(|text| part("diff", commit, text))
            }
            ContextSource::RecentCommits => {
                let arguments = ["log", "--max-count=20", "--format=%h %an %s"];
                Some(part(
                    "recent commits",
                    commit,
                    self.git(repository, &arguments, &run.sha).await?,
                ))
            }
            ContextSource::RepositoryInstructions => {
                let sha = run.sha.clone();
                let found = self.run_blocking(repository, move |_, checkout| {
                    sources::committed_file(checkout, &sha, "AGENTS.md")
                });
                let found = found.await?;
                found.map(|text| part("AGENTS.md", commit, text))
            }
            ContextSource::FailingJobLog => match &run.source_refs.job_id {
                None => None,
                Some(job) => {
                    let log =
                        self.forge_of(repository).await?.job_log(job, MAX_OUTPUT_BYTES).await?;
                    Some(part(&format!("log of job {job}"), repository.full_name.clone(), log))
                }
            },
            ContextSource::PullRequestSummary => match run.source_refs.pull_request {
                None => None,
                Some(number) => {
                    let state = self.forge_of(repository).await?.pull_request(number).await?;
                    let text = format!("{}\n\n{}", state.title, state.body);
                    Some(part(
                        &format!("pull request {number}"),
                        repository.full_name.clone(),
                        text,
                    ))
                }
            },
            ContextSource::IssueSummary => match run.source_refs.issue {
                None => None,
                Some(number) => {
                    let (title, body) = self.forge_of(repository).await?.issue(number).await?;
                    let text = format!("{title}\n\n{body}");
                    Some(part(&format!("issue {number}"), repository.full_name.clone(), text))
                }
            },
            // It is part of the event, and known where that is.
            ContextSource::EventPayload => None,
        })
    }

    async fn forge_of(&self, repository: &Repository) -> Result<AnyForge, FetchError> {
        let token = self.credential(repository).await?;
        Ok(open(repository, token, &self.context.state)?)
    }

    /// The output of git about a commit or a range.
    async fn git(
        &self,
        repository: &Repository,
        arguments: &[&str],
        revision: &str,
    ) -> Result<String, FetchError> {
        let revision = ["--end-of-options", revision, "--"];
        let arguments: Vec<String> =
            arguments.iter().chain(&revision).map(ToString::to_string).collect();
        let output = self.run_blocking(repository, move |_, checkout| {
            let mut text = checkout.git().run(arguments.iter().map(String::as_str))?;
            text.truncate(MAX_OUTPUT_BYTES);
            Ok(String::from_utf8_lossy(&text).into_owned())
        });
        Ok(output.await?)
    }

    /// What a run's commit has that the commit before it, or the branch that it goes to, has not; `None` if
    /// nothing differs.
    async fn compare_with_base(
        &self,
        repository: &Repository,
        run: &AgentDispatchRun,
        arguments: &[&str],
    ) -> Result<Option<String>, FetchError> {
        let default = format!("refs/heads/{}", repository.default_branch);
        let event_base = run.source_refs.base_sha.as_deref();
        let base =
            self.fetch_commit(repository, event_base.unwrap_or(&default), event_base).await?;
        let base = base.ok_or_else(|| {
            let base = event_base.unwrap_or(&default);
            FetchError::Missing(format!("{base}, which it is compared with, is not there"))
        })?;
        let text = self.git(repository, arguments, &format!("{base}...{}", run.sha)).await?;
        Ok(Some(text).filter(|text| !text.is_empty()))
    }
}

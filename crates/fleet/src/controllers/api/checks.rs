//! Runs beside the forge's checks of a commit.

use std::sync::Arc;

use bailiwick_resources::{AgentDispatchRun, AnyObject, Fault, Kind, Object, Repository};

use crate::controllers::ReconcileError;
use crate::controllers::forge_access::ForgeAccess;
use crate::controllers::objects::ObjectQueries as _;
use crate::controllers::subagent_runs::SUBAGENT;
use crate::ports::{
    ActionError, ChecksAnswer, Clock, Commits, Forge as _, ForgeCheck, Forges, ObjectStore,
    RunCheck, SecretStore, Selection, Target, UnreadableRun,
};

/// How many runs of a repository are searched, newest first.
const MAX_RUNS: usize = 10_000;

/// Checks of commits.
pub(super) struct CheckApi<S, W> {
    store: Arc<S>,
    forges: Arc<ForgeAccess<S, W>>,
}

impl<S, W> CheckApi<S, W> {
    pub(super) fn new(store: Arc<S>, forges: Arc<ForgeAccess<S, W>>) -> Self {
        Self { store, forges }
    }
}

impl<S: ObjectStore + SecretStore, W: Clock + Forges + Commits> CheckApi<S, W> {
    pub(super) async fn checks_of(
        &self,
        repository: &Target,
        sha: &str,
    ) -> Result<ChecksAnswer, ActionError> {
        let plain = sha.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !plain || !matches!(sha.len(), 40 | 64) {
            let message = "write the whole commit, as 40 or 64 hexadecimal digits";
            return Err(ActionError::Invalid(vec![Fault::new("sha", message)]));
        }
        let repository = self.store.named::<Repository>(repository).await?;
        let full_name = repository.spec.full_name.clone();
        let (runs, unreadable) = self.runs_at(&full_name, sha).await?;
        // Runs are shown even if the forge does not answer.
        let (checks, unavailable) = match self.forge_checks(&repository, sha).await {
            Ok(checks) => (checks, None),
            Err(error) => (Vec::new(), Some(error.to_string())),
        };
        let (repository, sha) = (full_name, sha.to_owned());
        Ok(ChecksAnswer { repository, sha, checks, unavailable, runs, unreadable })
    }

    async fn forge_checks(
        &self,
        repository: &Object<Repository>,
        sha: &str,
    ) -> Result<Vec<ForgeCheck>, ReconcileError> {
        let forge = self.forges.open(repository).await?;
        let found = forge.checks_at(sha).await?;
        let shown = found.into_iter().map(|check| ForgeCheck {
            id: check.id,
            name: check.name,
            workflow: check.workflow,
            conclusion: check.conclusion,
        });
        Ok(shown.collect())
    }

    /// The runs at a commit, and those that cannot be read.
    async fn runs_at(
        &self,
        full_name: &str,
        sha: &str,
    ) -> Result<(Vec<RunCheck>, Vec<UnreadableRun>), ActionError> {
        let mut selection = Selection {
            newest_first: true,
            ..Selection::of(Kind::AgentDispatchRun).field("repository", full_name)
        };
        let (mut found, mut unreadable, mut seen) = (Vec::new(), Vec::new(), 0);
        loop {
            let page = self.store.list(&selection).await?;
            seen += page.objects.len();
            for object in page.objects.iter().filter(|object| may_be_at(object, sha)) {
                match object.typed::<AgentDispatchRun>() {
                    Ok(run) => found.push(shown(&run)),
                    Err(error) => unreadable.push(UnreadableRun {
                        run: object.metadata.name.clone(),
                        why: error.to_string(),
                    }),
                }
            }
            if page.next.is_none() || seen >= MAX_RUNS {
                return Ok((found, unreadable));
            }
            selection.after = page.next;
        }
    }
}

/// Whether an object is, or may be, a run at this commit. A sub-agent is shown with its parent.
fn may_be_at(object: &AnyObject, sha: &str) -> bool {
    let said = object.spec.get("sha").and_then(|said| said.as_str());
    said.is_none_or(|said| said == sha) && !object.metadata.labels.contains_key(SUBAGENT)
}

fn shown(run: &Object<AgentDispatchRun>) -> RunCheck {
    RunCheck {
        run: run.name().to_owned(),
        phase: run.status.phase,
        agent_stack: run.spec.agent_stack.clone(),
        task_kind: run.spec.task_kind.clone(),
        trigger_rule: run.spec.trigger_rule.clone(),
        started_at: run.status.started_at,
        completed_at: run.status.completed_at,
        terminal_reason: run.status.terminal_reason.clone(),
    }
}

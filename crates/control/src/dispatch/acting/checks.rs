//! Our runs beside the checks of a commit.

use bailiwick_model::fleet::{AgentDispatchRun, Fault, Kind, Object, Repository};

use super::super::ControlPlane;
use crate::ports::fleet::{
    ActionError, ChecksAnswer, Engine, FleetStore, Forge as _, ForgeCheck, RunCheck, Selection,
    Target, World,
};

/// How many of a repository's runs are looked through, the newest first.
const MOST: usize = 10_000;

impl<S: FleetStore, E: Engine, W: World> ControlPlane<S, E, W> {
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
        let repository = self.named::<Repository>(repository).await?;
        let full_name = repository.spec.full_name.clone();
        let runs = self.runs_at(&full_name, sha).await?;
        // Ours are shown also while the forge does not answer.
        let (checks, unavailable) = match self.forge_checks(&repository, sha).await {
            Ok(checks) => (checks, None),
            Err(why) => (Vec::new(), Some(why)),
        };
        Ok(ChecksAnswer { repository: full_name, sha: sha.to_owned(), checks, unavailable, runs })
    }

    async fn forge_checks(
        &self,
        repository: &Object<Repository>,
        sha: &str,
    ) -> Result<Vec<ForgeCheck>, String> {
        let forge = self.forge(repository).await.map_err(|error| error.to_string())?;
        let found = forge.checks_at(sha).await.map_err(|error| error.to_string())?;
        let shown = found.into_iter().map(|check| ForgeCheck {
            id: check.id,
            name: check.name,
            workflow: check.workflow,
            conclusion: check.conclusion,
        });
        Ok(shown.collect())
    }

    async fn runs_at(&self, full_name: &str, sha: &str) -> Result<Vec<RunCheck>, ActionError> {
        let mut selection = Selection {
            newest_first: true,
            ..Selection::of(Kind::AgentDispatchRun).field("repository", full_name)
        };
        let (mut found, mut seen) = (Vec::new(), 0);
        loop {
            let page = self.store.list(&selection).await?;
            seen += page.objects.len();
            for object in &page.objects {
                let run = object.typed::<AgentDispatchRun>();
                let run = run.map_err(super::super::PlaneError::from)?;
                if run.spec.sha == sha {
                    found.push(shown(&run));
                }
            }
            if page.next.is_none() || seen >= MOST {
                return Ok(found);
            }
            selection.after = page.next;
        }
    }
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

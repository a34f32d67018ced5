//! The context of an agent: its prompt and the texts that it was made from.

use bailiwick_fleet::ports::{LocalContextLayer, LocalRunContext, LocalRunError};
use bailiwick_kit::{Bound, bind};
use bailiwick_lifecycle::ports::StoreError;
use bailiwick_model::task::Line;
use bailiwick_model::{Run, Sha256Hex, Source, Task};

use super::artifacts::{PROMPT, read_plain};
use super::{LedgerRuns, error, store_error};
use crate::failure::Failure;
use crate::given_issue::GivenIssue;
use crate::managed::ManagedRunConfig;
use crate::sources;

impl LedgerRuns {
    /// The task of a run; empty if it was not recorded.
    pub(super) fn task_of(&self, run: &Run) -> Result<String, LocalRunError> {
        let read = self.open()?.with(async |store| {
            Ok::<_, StoreError>(store.spec(&run.spec_sha).await?.unwrap_or_default())
        });
        read.map_err(store_error)
    }

    /// The task with the role and the capabilities of the commit that binds it.
    pub(super) fn bound(&self, run: &Run) -> Result<Bound, LocalRunError> {
        let context = self.beside(run)?;
        let source = Source::new("task.toml", self.task_of(run)?);
        let read = || {
            let repository = context.require_repository()?;
            let named = Task::parse(&source)?.task.kit_commit;
            let base = run.base.as_deref().unwrap_or("HEAD");
            let commit = sources::kit_commit(&repository, named.as_ref().map(Line::as_str), base)?;
            let kit = sources::committed_kit(&context, &repository, &commit)?;
            Ok::<_, Failure>(bind(&kit, &source)?)
        };
        read().map_err(error)
    }

    pub(super) fn read_context(&self, run: &Run) -> Result<LocalRunContext, LocalRunError> {
        let mut layers = vec![layer("task", run.id.as_str(), "task.toml", &self.task_of(run)?)];
        let missing = match self.bound(run) {
            Ok(bound) => {
                layers.extend(bound.capabilities.iter().map(|found| {
                    let name = found.declared.capability.name.get_ref().to_string();
                    layer("capability", &name, &found.text.file, &found.text.text)
                }));
                None
            }
            Err(why) => Some(why.to_string()),
        };
        if let Some(managed) = ManagedRunConfig::of(&self.directory(run)).map_err(error)? {
            let source = |source: &bailiwick_fleet::bundle::NamedSource| {
                layer("source", &source.name, "control plane", &source.text)
            };
            layers.extend(managed.sources.iter().map(source));
            layers.extend(managed.skills.iter().map(|skill| LocalContextLayer {
                kind: "skill".to_owned(),
                name: skill.name.clone(),
                origin: skill.path.clone(),
                digest: skill.package.clone().unwrap_or_else(|| skill.commit.clone()),
                bytes: 0,
                text: String::new(),
            }));
        }
        if let Some(bound) = GivenIssue::read(&self.directory(run)).map_err(error)? {
            layers.push(layer("issue", &bound.issue.to_string(), "issue", &bound.text));
        }
        let prompt = match self.task_file(run, PROMPT) {
            Some(path) => read_plain(&path)?,
            None => None,
        };
        let prompt =
            prompt.map(|bytes| layer("prompt", PROMPT, PROMPT, &String::from_utf8_lossy(&bytes)));
        Ok(LocalRunContext { layers, missing, prompt })
    }
}

fn layer(kind: &str, name: &str, origin: &str, text: &str) -> LocalContextLayer {
    LocalContextLayer {
        kind: kind.to_owned(),
        name: name.to_owned(),
        origin: origin.to_owned(),
        digest: Sha256Hex::of(text).to_string(),
        bytes: u64::try_from(text.len()).unwrap_or(u64::MAX),
        text: text.to_owned(),
    }
}

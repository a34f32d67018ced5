//! Repositories, forges and agent programs as the control plane sees them.
//!
//! ```text
//! context_sources   the parts of an agent's context, by source
//! agent_programs    adapters, and what their programs report
//! stack_files       roles, skills and texts of a stack, as a commit has them
//! target_tips       the branches that workspaces are to be merged into
//! ```

mod agent_programs;
mod context_sources;
mod stack_files;
mod target_tips;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bailiwick_fleet::admission::OwnerFacts;
use bailiwick_fleet::admission::code_owners::Grammar;
use bailiwick_fleet::admission::conditions::{AdapterProbe, SkillProbe, StackFacts};
use bailiwick_fleet::admission::snapshot::FrozenStack;
use bailiwick_fleet::bundle::SourcePart;
use bailiwick_fleet::ports::{
    BackgroundWork, FetchError, FetchedCommit, FleetError, FleetStore, ForgeError, RunWorktree,
    WorkspaceError, WorkspaceOperation, WorkspacePlace, WorkspaceReport, World, WorldError,
};
use bailiwick_resources::{
    AgentDispatchRun, AgentSkill, ContextSource, Moment, Object, Repository,
};
use bailiwick_source_control::Repository as Checkout;
use bailiwick_source_control::forge::{AnyForge, Token, fetch, open};
use bailiwick_source_control::git;
use bailiwick_store::Store;
use serde_json::Value;
use target_tips::TargetTips;
use tokio::task::JoinSet;
use tracing::Instrument as _;

use super::{code_owners, servers, workspaces};
use crate::context::Context;
use crate::failure::Failure;
use crate::{sources, system};

pub(super) use agent_programs::PROGRAMS;

/// The file of the user's kit that says what else is secret, one expression a line.
const REDACT: &str = "redact";

/// This machine.
pub struct LocalWorld {
    context: Context,
    store: Arc<Store>,
    jobs: Mutex<JoinSet<()>>,
    target_tips: TargetTips,
}

impl LocalWorld {
    /// Whose state and secrets these are.
    pub fn new(context: Context, store: Arc<Store>) -> Self {
        Self { context, store, jobs: Mutex::default(), target_tips: TargetTips::default() }
    }

    /// Stops the jobs that continue beside the passes of the controllers.
    pub fn abort_jobs(&self) {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner).abort_all();
    }

    fn at(&self, repository: &Repository) -> Context {
        Context { directory: (&repository.checkout).into(), ..self.context.clone() }
    }

    /// Runs blocking work on a separate thread.
    async fn run_blocking<T: Send + 'static>(
        &self,
        repository: &Repository,
        work: impl FnOnce(&Context, &Checkout) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, WorldError> {
        let context = self.at(repository);
        let joined = tokio::task::spawn_blocking(move || {
            let done = context.require_repository().and_then(|checkout| work(&context, &checkout));
            done.map_err(|failure| match git::checkout_problem(&context.directory) {
                Some(problem) => WorldError::Checkout(problem.to_string()),
                None => WorldError::Git(failure.in_one_line()),
            })
        })
        .await;
        joined.map_err(panicked)?
    }

    async fn credential(&self, repository: &Repository) -> Result<Option<Token>, WorldError> {
        let Some(key) = &repository.credential_ref else { return Ok(None) };
        let value = self
            .store
            .secret_value(bailiwick_resources::DEFAULT_NAMESPACE, &key.name, &key.key)
            .await;
        let (name, key) = (key.name.clone(), key.key.clone());
        let value = match value {
            Ok(value) => value,
            // The store's own words may name files.
            Err(FleetError::Undecryptable { .. }) => {
                let why = "it cannot be decrypted; set it again".to_owned();
                return Err(WorldError::BadCredential { name, key, why });
            }
            Err(error) => return Err(WorldError::Records(error.to_string())),
        };
        let Some(value) = value else { return Err(WorldError::NoCredential { name, key }) };
        match String::from_utf8(value) {
            Err(_) => {
                Err(WorldError::BadCredential { name, key, why: "it is not text".to_owned() })
            }
            Ok(text) => match Token::parse(text.trim()) {
                Ok(token) => Ok(Some(token)),
                Err(error) => Err(WorldError::BadCredential { name, key, why: error.to_string() }),
            },
        }
    }
}

impl World for LocalWorld {
    type Forge = AnyForge;

    fn now(&self) -> Moment {
        Moment::from_millis(system::now_ms())
    }

    fn forge(
        &self,
        repository: &Repository,
        credential: Option<&[u8]>,
    ) -> Result<AnyForge, ForgeError> {
        let token = match credential {
            None => None,
            Some(bytes) => {
                let text = std::str::from_utf8(bytes)
                    .map_err(|_| ForgeError::Refused("the credential is not text".to_owned()))?;
                Some(Token::parse(text.trim())?)
            }
        };
        open(repository, token, &self.context.state)
    }

    async fn fetch_commit(
        &self,
        repository: &Repository,
        reference: &str,
        sha: Option<&str>,
    ) -> Result<Option<String>, FetchError> {
        if let Some(sha) = sha.map(str::to_owned) {
            // Git would also accept the name of a local branch, which can be old.
            if !is_commit_name(&sha) {
                return Err(FetchError::Failed(format!("`{sha}` is not the name of a commit")));
            }
            let local = self
                .run_blocking(repository, move |_, checkout| retain_local_commit(checkout, &sha));
            let local = local.await?;
            if local.is_some() {
                return Ok(local);
            }
        }
        let token = self.credential(repository).await?;
        let state = &self.context.state;
        let found = fetch(repository, token.clone(), state, reference).await?;
        match sha {
            None => Ok(found),
            Some(sha) if found.as_deref() == Some(sha) => Ok(found),
            // The ref has moved on since; the forge may still give the commit itself.
            Some(sha) => {
                let found = fetch(repository, token, state, sha).await?;
                Ok(found.filter(|found| found == sha))
            }
        }
    }

    async fn fetched_commits(
        &self,
        repository: &Repository,
    ) -> Result<Vec<FetchedCommit>, WorldError> {
        self.run_blocking(repository, |_, checkout| Ok(git::retained_commits(&checkout.git())?))
            .await
    }

    async fn release_commits(
        &self,
        repository: &Repository,
        fetched: &[FetchedCommit],
    ) -> Result<(), WorldError> {
        let fetched = fetched.to_vec();
        self.run_blocking(repository, move |_, checkout| {
            fetched.iter().try_for_each(|commit| Ok(git::release_commit(&checkout.git(), commit)?))
        })
        .await
    }

    async fn checkout_problem(&self, repository: &Repository) -> Option<WorldError> {
        let directory = self.at(repository).directory;
        let look = move || git::checkout_problem(&directory);
        match tokio::task::spawn_blocking(look).await {
            Ok(problem) => Some(WorldError::Checkout(problem?.to_string())),
            Err(error) => Some(panicked(error)),
        }
    }

    async fn changed_paths(
        &self,
        repository: &Repository,
        base: &str,
        head: &str,
    ) -> Result<Vec<String>, WorldError> {
        let (base, head) = (base.to_owned(), head.to_owned());
        self.run_blocking(repository, move |_, checkout| {
            let arguments = [
                "diff",
                "--no-ext-diff",
                "--name-only",
                "-z",
                "--end-of-options",
                &base,
                &head,
                "--",
            ];
            let output = checkout.git().run(arguments)?;
            let output = String::from_utf8_lossy(&output);
            Ok(output.split('\0').filter(|name| !name.is_empty()).map(str::to_owned).collect())
        })
        .await
    }

    async fn stack_facts(
        &self,
        frozen: &FrozenStack,
        repository: Option<(&Repository, &str)>,
    ) -> StackFacts {
        let mut facts = StackFacts::default();
        let stack = frozen.stack.spec.clone();
        let Some((repository, sha)) = repository else {
            (facts.adapter, facts.program) = agent_programs::probe_stack(&self.context, &stack);
            facts.mcp = servers::probes(&self.context, &frozen.mcp_servers).await;
            return facts;
        };
        let commit = sha.to_owned();
        let skills: Vec<Object<AgentSkill>> = frozen.skills.clone();
        let facts_of_checkout = self
            .run_blocking(repository, move |context, checkout| {
                let adapter = agent_programs::probe_stack(context, &stack);
                let role = stack_files::role(context, checkout, &commit, &stack);
                let found = skills.iter().map(|skill| {
                    let found = stack_files::skill_at(context, checkout, &commit, &skill.spec);
                    (skill.name().to_owned(), found)
                });
                let doc = stack.agents_doc_ref.as_ref();
                let doc = doc.map(|doc| stack_files::text_at(checkout, &commit, &doc.path));
                let doc = doc.unwrap_or(SkillProbe::NotYet);
                Ok((adapter, role, found.collect::<BTreeMap<_, _>>(), doc))
            })
            .await;
        match facts_of_checkout {
            Ok(((adapter, program), role, skills, agents_doc)) => {
                facts.agents_doc = agents_doc;
                facts.adapter = adapter;
                facts.program = program;
                facts.role = role;
                facts.skills = skills;
            }
            Err(error) => facts.adapter = AdapterProbe::Unavailable(error.to_string()),
        }
        facts.mcp = servers::probes(&self.context, &frozen.mcp_servers).await;
        facts
    }

    async fn source(
        &self,
        repository: &Object<Repository>,
        run: &AgentDispatchRun,
        source: ContextSource,
    ) -> Result<Option<SourcePart>, FetchError> {
        self.context_source(&repository.spec, run, source).await
    }

    async fn redactions(&self) -> Result<Vec<String>, WorldError> {
        let file = self.context.user_kit.join(REDACT);
        let text = match std::fs::read_to_string(&file) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => {
                let (file, why) = (file.display().to_string(), error.to_string());
                return Err(WorldError::Unreadable { file, why });
            }
        };
        let lines = text.lines().map(str::trim);
        let patterns = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
        Ok(patterns.map(str::to_owned).collect())
    }

    async fn capabilities(&self) -> BTreeMap<String, Value> {
        let context = self.context.clone();
        let capabilities = tokio::task::spawn_blocking(move || {
            let mut all = BTreeMap::new();
            let ours = PROGRAMS.iter().map(|name| (*name).to_owned());
            for name in ours.chain(agent_programs::described(&context)) {
                let Some(capability) = agent_programs::capability(&context, &name) else {
                    continue;
                };
                all.insert(name, capability);
            }
            all
        });
        capabilities.await.unwrap_or_default()
    }

    async fn capability(&self, adapter: &str) -> Option<Value> {
        let (context, name) = (self.context.clone(), adapter.to_owned());
        let capability =
            tokio::task::spawn_blocking(move || agent_programs::capability(&context, &name));
        capability.await.unwrap_or_default()
    }

    async fn sleep(&self, millis: u64) {
        tokio::time::sleep(Duration::from_millis(millis)).await;
    }

    async fn timer(&self, millis: u64) {
        tokio::time::sleep(Duration::from_millis(millis)).await;
    }

    fn spawn(&self, run: Option<&str>, work: BackgroundWork) -> Option<BackgroundWork> {
        let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        while jobs.try_join_next().is_some() {}
        match run {
            Some(run) => jobs.spawn(work.instrument(tracing::info_span!("run", run))),
            None => jobs.spawn(work),
        };
        None
    }

    async fn ignored(&self, repository: &Repository, sha: &str) -> Option<Vec<String>> {
        let sha = sha.to_owned();
        let text = self
            .run_blocking(repository, move |_, checkout| {
                sources::committed_file(checkout, &sha, ".gitignore")
            })
            .await
            .ok()?;
        Some(text.unwrap_or_default().lines().map(str::to_owned).collect())
    }

    async fn code_owners(&self, repository: &Repository, sha: &str) -> OwnerFacts {
        let Some(grammar) = Grammar::of(repository.forge) else {
            return OwnerFacts::Unusable("its forge has no accounts".to_owned());
        };
        let sha = sha.to_owned();
        let read =
            move |_: &Context, checkout: &Checkout| code_owners::read(checkout, &sha, grammar);
        match self.run_blocking(repository, read).await {
            Ok(owners) => owners,
            Err(error) => OwnerFacts::Unusable(error.to_string()),
        }
    }

    fn workspace_path(&self, name: &str) -> Option<String> {
        workspaces::path(&self.context, name)
    }

    fn has_files(&self, path: &str) -> bool {
        workspaces::has_files(path)
    }

    async fn worktree(&self, agent: &str) -> Result<Option<RunWorktree>, WorldError> {
        let (context, agent) = (self.context.clone(), agent.to_owned());
        let find = move || workspaces::worktree(&context, &agent);
        let found = tokio::task::spawn_blocking(find).await;
        found.map_err(panicked)?.map_err(|failure| WorldError::Records(failure.in_one_line()))
    }

    async fn work_on(
        &self,
        repository: &Repository,
        place: &WorkspacePlace,
        operation: WorkspaceOperation,
    ) -> Result<WorkspaceReport, WorkspaceError> {
        let target = self.target_tip(repository, &place.target, &operation).await?;
        let (context, place) = (self.at(repository), place.clone());
        let work = move || workspaces::work_on(&context, &place, target.as_deref(), &operation);
        let report = tokio::task::spawn_blocking(work).await;
        report
            .map_err(|error| WorkspaceError::Failed(format!("a background task failed: {error}")))?
    }
}

/// A commit that is present, with a reference: a run may wait for long, and git removes unreferenced commits.
fn retain_local_commit(checkout: &Checkout, sha: &str) -> Result<Option<String>, Failure> {
    let found = checkout.commit(sha)?;
    if let Some(commit) = &found {
        git::retain_commit(&checkout.git(), commit)?;
    }
    Ok(found)
}

fn is_commit_name(sha: &str) -> bool {
    matches!(sha.len(), 40 | 64) && sha.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn panicked(_: tokio::task::JoinError) -> WorldError {
    WorldError::Panicked
}

#[cfg(test)]
mod tests {
    use bailiwick_source_control::Repository as Checkout;
    use bailiwick_source_control::git::{release_commit, retained_commits};
    use bailiwick_testkit::Scratch;

    use super::retain_local_commit;

    #[test]
    fn local_commit_is_retained_again_after_release() {
        let scratch = Scratch::repository();
        let commit = scratch.commit("one");
        let checkout = Checkout::discover(&scratch.root()).unwrap();
        for _ in 0..2 {
            assert_eq!(retain_local_commit(&checkout, &commit).unwrap(), Some(commit.clone()));
            let retained = retained_commits(&checkout.git()).unwrap();
            assert_eq!((retained.len(), &retained[0].name), (1, &commit));
            release_commit(&checkout.git(), &retained[0]).unwrap();
        }
        assert_eq!(retain_local_commit(&checkout, &"e".repeat(40)).unwrap(), None);
        assert!(retained_commits(&checkout.git()).unwrap().is_empty());
    }
}

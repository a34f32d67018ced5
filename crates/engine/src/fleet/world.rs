//! Repositories, forges and agent programs as the control plane sees them.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bailiwick_fleet::admission::OwnerFacts;
use bailiwick_fleet::admission::code_owners::Grammar;
use bailiwick_fleet::admission::conditions::{
    AdapterFacts, AdapterProbe, KitRole, ProgramFacts, RoleFacts, SkillProbe, StackFacts,
};
use bailiwick_fleet::admission::snapshot::Frozen;
use bailiwick_fleet::bundle::SourcePart;
use bailiwick_fleet::ports::{
    BackgroundWork, FetchError, FetchedCommit, FleetStore, Forge as _, ForgeError, RunWorktree,
    WorkspaceError, WorkspaceOperation, WorkspacePlace, WorkspaceReport, World, WorldError,
};
use bailiwick_kit::bind;
use bailiwick_model::{Sha256Hex, Source};
use bailiwick_resources::{
    AgentDispatchRun, AgentSkill, AgentStack, ContextSource, Moment, Object, Repository,
    SkillFormat,
};
use bailiwick_runner::agents::adapter::Adapter;
use bailiwick_runner::agents::{Manifest, Probed, probe};
use bailiwick_source_control::Repository as Checkout;
use bailiwick_source_control::forge::{AnyForge, Token, fetch, open};
use bailiwick_source_control::git;
use bailiwick_store::Store;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::{code_owners, servers, workspaces};
use crate::context::Context;
use crate::failure::Failure;
use crate::running::{skill_files, skill_packages};
use crate::{sources, system};

/// How much of a diff or a list is read.
const MAX_OUTPUT_BYTES: usize = 1024 * 1024;
/// The file of the user's kit that says what else is secret, one expression a line.
const REDACT: &str = "redact";
/// The programs that are asked what they can do.
pub(super) const PROGRAMS: [&str; 5] = ["claude-code", "codex", "gemini", "opencode", "script"];

/// This machine.
pub struct LocalWorld {
    context: Context,
    store: Arc<Store>,
    jobs: Mutex<JoinSet<()>>,
}

impl LocalWorld {
    /// Whose state and secrets these are.
    pub fn new(context: Context, store: Arc<Store>) -> Self {
        Self { context, store, jobs: Mutex::default() }
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
        let done = tokio::task::spawn_blocking(move || {
            let checkout = context.require_repository()?;
            work(&context, &checkout)
        })
        .await;
        done.map_err(panicked)?.map_err(|failure| WorldError::Checkout(failure.in_one_line()))
    }

    async fn credential(&self, repository: &Repository) -> Result<Option<Token>, WorldError> {
        let Some(key) = &repository.credential_ref else { return Ok(None) };
        let value = self
            .store
            .secret_value(bailiwick_resources::DEFAULT_NAMESPACE, &key.name, &key.key)
            .await
            .map_err(|error| WorldError::Records(error.to_string()))?;
        let (name, key) = (key.name.clone(), key.key.clone());
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
        if let Some(wanted) = sha.map(str::to_owned) {
            let here = self.run_blocking(repository, move |_, checkout| {
                retain_local_commit(checkout, &wanted)
            });
            let here = here.await?;
            if here.is_some() {
                return Ok(here);
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
            fetched.iter().try_for_each(|held| Ok(git::release_commit(&checkout.git(), held)?))
        })
        .await
    }

    async fn changed_paths(
        &self,
        repository: &Repository,
        base: &str,
        head: &str,
    ) -> Result<Vec<String>, WorldError> {
        let (base, head) = (base.to_owned(), head.to_owned());
        self.run_blocking(repository, move |_, checkout| {
            let names = [
                "diff",
                "--no-ext-diff",
                "--name-only",
                "-z",
                "--end-of-options",
                &base,
                &head,
                "--",
            ];
            let listed = checkout.git().run(names)?;
            let listed = String::from_utf8_lossy(&listed);
            Ok(listed.split('\0').filter(|name| !name.is_empty()).map(str::to_owned).collect())
        })
        .await
    }

    async fn stack_facts(
        &self,
        frozen: &Frozen,
        repository: Option<(&Repository, &str)>,
    ) -> StackFacts {
        let mut facts = StackFacts::default();
        let stack = frozen.stack.spec.clone();
        let Some((repository, sha)) = repository else {
            (facts.adapter, facts.program) = adapter(&self.context, &stack);
            facts.mcp = servers::probes(&self.context, &frozen.mcp_servers).await;
            return facts;
        };
        let commit = sha.to_owned();
        let skills: Vec<Object<AgentSkill>> = frozen.skills.clone();
        let looked = self
            .run_blocking(repository, move |context, checkout| {
                let adapter = adapter(context, &stack);
                let role = role(context, checkout, &commit, &stack);
                let found = skills.iter().map(|skill| {
                    let found = skill_at(context, checkout, &commit, &skill.spec);
                    (skill.name().to_owned(), found)
                });
                let doc = stack.agents_doc_ref.as_ref();
                let doc = doc.map(|doc| text_at(checkout, &commit, &doc.path));
                let doc = doc.unwrap_or(SkillProbe::NotYet);
                Ok((adapter, role, found.collect::<BTreeMap<_, _>>(), doc))
            })
            .await;
        match looked {
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
        let part = |name: &str, provenance: String, text: String| SourcePart {
            source,
            name: name.to_owned(),
            provenance,
            text,
        };
        let spec = &repository.spec;
        let at = format!("{}@{}", spec.full_name, run.sha);
        Ok(match source {
            ContextSource::ChangedFiles => {
                let how = ["diff", "--no-ext-diff", "--stat", "--stat-width=100"];
                let text = self.compared(spec, run, &how).await?;
                text.map(|text| part("changed files", at, text))
            }
            ContextSource::Diff => {
                let how = ["diff", "--no-ext-diff", "--no-textconv"];
                let text = self.compared(spec, run, &how).await?;
                text.map(|text| part("diff", at, text))
            }
            ContextSource::RecentCommits => {
                let how = ["log", "--max-count=20", "--format=%h %an %s"];
                Some(part("recent commits", at, self.git(spec, &how, &run.sha).await?))
            }
            ContextSource::RepositoryInstructions => {
                let sha = run.sha.clone();
                let found = self.run_blocking(spec, move |_, checkout| {
                    sources::committed_file(checkout, &sha, "AGENTS.md")
                });
                let found = found.await?;
                found.map(|text| part("AGENTS.md", at, text))
            }
            ContextSource::FailingJobLog => match &run.source_refs.job_id {
                None => None,
                Some(job) => {
                    let log = self.forge_of(spec).await?.job_log(job, MAX_OUTPUT_BYTES).await?;
                    Some(part(&format!("log of job {job}"), spec.full_name.clone(), log))
                }
            },
            ContextSource::PullRequestSummary => match run.source_refs.pull_request {
                None => None,
                Some(number) => {
                    let state = self.forge_of(spec).await?.pull_request(number).await?;
                    let text = format!("{}\n\n{}", state.title, state.body);
                    Some(part(&format!("pull request {number}"), spec.full_name.clone(), text))
                }
            },
            ContextSource::IssueSummary => match run.source_refs.issue {
                None => None,
                Some(number) => {
                    let (title, body) = self.forge_of(spec).await?.issue(number).await?;
                    let text = format!("{title}\n\n{body}");
                    Some(part(&format!("issue {number}"), spec.full_name.clone(), text))
                }
            },
            // It is part of the event, and known where that is.
            ContextSource::EventPayload => None,
        })
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
        let asked = tokio::task::spawn_blocking(move || {
            let mut all = BTreeMap::new();
            let ours = PROGRAMS.iter().map(|name| (*name).to_owned());
            for name in ours.chain(described(&context)) {
                let Some(told) = capability(&context, &name) else { continue };
                all.insert(name, told);
            }
            all
        });
        asked.await.unwrap_or_default()
    }

    async fn capability(&self, adapter: &str) -> Option<Value> {
        let (context, name) = (self.context.clone(), adapter.to_owned());
        let asked = tokio::task::spawn_blocking(move || capability(&context, &name));
        asked.await.unwrap_or_default()
    }

    async fn sleep(&self, millis: u64) {
        tokio::time::sleep(Duration::from_millis(millis)).await;
    }

    async fn timer(&self, millis: u64) {
        tokio::time::sleep(Duration::from_millis(millis)).await;
    }

    fn spawn(&self, work: BackgroundWork) -> Option<BackgroundWork> {
        let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        while jobs.try_join_next().is_some() {}
        jobs.spawn(work);
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
        let found = move || workspaces::worktree(&context, &agent);
        let found = tokio::task::spawn_blocking(found).await;
        found.map_err(panicked)?.map_err(|failure| WorldError::Records(failure.in_one_line()))
    }

    async fn work_on(
        &self,
        repository: &Repository,
        place: &WorkspacePlace,
        operation: WorkspaceOperation,
    ) -> Result<WorkspaceReport, WorkspaceError> {
        let (context, place) = (self.at(repository), place.clone());
        let work = move || workspaces::work_on(&context, &place, &operation);
        let done = tokio::task::spawn_blocking(work).await;
        done.map_err(|error| WorkspaceError::Failed(format!("it broke: {error}")))?
    }
}

impl LocalWorld {
    async fn forge_of(&self, repository: &Repository) -> Result<AnyForge, FetchError> {
        let token = self.credential(repository).await?;
        Ok(open(repository, token, &self.context.state)?)
    }

    /// What git says of a commit or a range.
    async fn git(
        &self,
        repository: &Repository,
        how: &[&str],
        of: &str,
    ) -> Result<String, FetchError> {
        let about = ["--end-of-options", of, "--"];
        let arguments: Vec<String> = how.iter().chain(&about).map(ToString::to_string).collect();
        let said = self.run_blocking(repository, move |_, checkout| {
            let mut text = checkout.git().run(arguments.iter().map(String::as_str))?;
            text.truncate(MAX_OUTPUT_BYTES);
            Ok(String::from_utf8_lossy(&text).into_owned())
        });
        Ok(said.await?)
    }

    /// What a run's commit has that the commit before it, or the branch that it goes to, has not; `None` if
    /// nothing differs.
    async fn compared(
        &self,
        repository: &Repository,
        run: &AgentDispatchRun,
        how: &[&str],
    ) -> Result<Option<String>, FetchError> {
        let default = format!("refs/heads/{}", repository.default_branch);
        let known = run.source_refs.base_sha.as_deref();
        let base = self.fetch_commit(repository, known.unwrap_or(&default), known).await?;
        let base = base.ok_or_else(|| {
            let base = known.unwrap_or(&default);
            FetchError::Missing(format!("{base}, which it is compared with, is not there"))
        })?;
        let text = self.git(repository, how, &format!("{base}...{}", run.sha)).await?;
        Ok(Some(text).filter(|text| !text.is_empty()))
    }
}

/// A commit that is present, with a reference: a run may wait for long, and git removes unreferenced commits.
fn retain_local_commit(checkout: &Checkout, wanted: &str) -> Result<Option<String>, Failure> {
    let found = checkout.commit(wanted)?;
    if let Some(commit) = &found {
        git::retain_commit(&checkout.git(), commit)?;
    }
    Ok(found)
}

fn probed(context: &Context, adapter: &dyn Adapter) -> Option<Probed> {
    let path = std::env::var_os("PATH").unwrap_or_else(|| OsString::from("/usr/bin:/bin"));
    let home = context.state.join("probes");
    std::fs::create_dir_all(&home).ok()?;
    probe(adapter, &path, &home)
}

/// What an agent program says of itself; `None` if it does not answer.
fn program(context: &Context, adapter: &dyn Adapter) -> Option<ProgramFacts> {
    // Our own script needs no program.
    let (version, can) = match adapter.name() {
        "script" => (env!("CARGO_PKG_VERSION").to_owned(), adapter.capabilities("", "")),
        _ => probed(context, adapter).map(|found| (found.version, found.capabilities))?,
    };
    Some(ProgramFacts {
        version,
        models: can.models,
        efforts: can.efforts,
        can_resume: can.resume,
        supports_subagent_dispatch: can.sub_agents,
        supports_mcp: can.mcp,
        missing: can.missing,
    })
}

/// What one agent program can do here; `None` if there is no such adapter.
fn capability(context: &Context, name: &str) -> Option<Value> {
    let adapter = adapter_named(context, name).ok()?;
    let Some(program) = program(context, adapter.as_ref()) else {
        return Some(json!({ "installed": false }));
    };
    let mut told = serde_json::to_value(program).unwrap_or_default();
    if let Some(told) = told.as_object_mut() {
        told.insert("installed".to_owned(), Value::Bool(true));
    }
    Some(told)
}

fn seen(adapter: &dyn Adapter, program: Option<&ProgramFacts>) -> AdapterProbe {
    match program {
        None => {
            let why = format!("`{}` is not installed or does not answer", adapter.program());
            AdapterProbe::Unavailable(why)
        }
        Some(program) => AdapterProbe::Seen(AdapterFacts {
            // It would be started even with options that its help does not name any more.
            is_current: program.missing.is_empty(),
            gates_tools: adapter.dialect().is_some(),
            mcp: program.supports_mcp,
            // Sub-agents are Bailiwick runs, which an agent starts through Bailiwick's MCP server.
            subagents: program.supports_mcp,
            // No program reports a maximum, and approvals work in the same way for all programs.
            max_parallel: None,
            approval_modes: Vec::new(),
        }),
    }
}

fn panicked(_: tokio::task::JoinError) -> WorldError {
    WorldError::Panicked
}

/// The name of a stack's adapter; that of its base agent if the stack names none.
fn name_of(stack: &AgentStack) -> String {
    match stack.adapter.as_str() {
        "" => stack.base_agent.as_str().to_owned(),
        adapter => adapter.to_owned(),
    }
}

/// One of ours, or one that this machine's user describes. What a commit describes is never asked anything
/// here: it would be run outside of a sandbox.
fn adapter_named(context: &Context, name: &str) -> Result<Box<dyn Adapter>, String> {
    if let Some(adapter) = bailiwick_runner::agents::adapter(name) {
        return Ok(adapter);
    }
    let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'));
    let file = context.user_kit.join("adapters").join(format!("{name}.toml"));
    let text = if plain { std::fs::read_to_string(&file).ok() } else { None };
    let Some(text) = text else {
        let why = format!("there is no agent program `{name}`: describe it in {}", file.display());
        return Err(why);
    };
    match Manifest::parse(&Source::new(file.display().to_string(), text)) {
        Ok(manifest) => Ok(Box::new(manifest)),
        Err(problem) => Err(problem.message),
    }
}

/// What is known of the adapter of a stack, and what its program says of itself.
fn adapter(context: &Context, stack: &AgentStack) -> (AdapterProbe, Option<ProgramFacts>) {
    match adapter_named(context, &name_of(stack)) {
        Ok(adapter) => {
            let program = program(context, adapter.as_ref());
            (seen(adapter.as_ref(), program.as_ref()), program)
        }
        Err(why) => (AdapterProbe::Unsupported(why), None),
    }
}

/// The adapters that this machine's user describes, by name.
fn described(context: &Context) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(context.user_kit.join("adapters")) else {
        return Vec::new();
    };
    let files = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    files.filter_map(|file| file.strip_suffix(".toml").map(str::to_owned)).collect()
}

/// What the kit of the commit says of the stack's role.
fn role(context: &Context, checkout: &Checkout, commit: &str, stack: &AgentStack) -> KitRole {
    let task = format!("[task]\nrole = {}\n", json!(stack.role));
    let bound = sources::committed_kit(context, checkout, commit)
        .and_then(|kit| Ok(bind(&kit, &Source::new("the stack's role", task))?));
    match bound {
        Ok(bound) => KitRole::Found(RoleFacts::of(&bound)),
        Err(failure) => KitRole::Missing(failure.in_one_line()),
    }
}

/// A skill as the commit, or the package, has it.
fn skill_at(
    context: &Context,
    checkout: &Checkout,
    commit: &str,
    skill: &AgentSkill,
) -> SkillProbe {
    let path = skill.source_ref.path.clone().unwrap_or_default();
    let file = match skill.format {
        SkillFormat::Inline => {
            let text = skill.source_ref.inline.clone().unwrap_or_default();
            return SkillProbe::Found { digest: Sha256Hex::of(&text).to_string(), text };
        }
        SkillFormat::Package => {
            let reference = skill.source_ref.package.as_deref().unwrap_or_default();
            return match skill_packages::read(&context.user_kit, reference) {
                Ok(package) => SkillProbe::Found {
                    digest: package.digest.to_string(),
                    text: package.instructions,
                },
                Err(failure) => SkillProbe::Invalid(failure.in_one_line()),
            };
        }
        SkillFormat::File => path,
        SkillFormat::Directory => return directory_at(checkout, commit, &path),
    };
    text_at(checkout, commit, &file)
}

/// A skill with files of its own: all of them have to be such as can be handed to an agent.
fn directory_at(checkout: &Checkout, commit: &str, path: &str) -> SkillProbe {
    let file = Path::new(path).join("SKILL.md").to_string_lossy().into_owned();
    let text = match text_at(checkout, commit, &file) {
        SkillProbe::Found { text, .. } => text,
        other @ (SkillProbe::NotYet | SkillProbe::Missing | SkillProbe::Invalid(_)) => {
            return other;
        }
    };
    match skill_files::listed(checkout, commit, path) {
        Ok(files) => SkillProbe::Found { digest: skill_files::digest(&files).to_string(), text },
        Err(failure) => SkillProbe::Invalid(failure.in_one_line()),
    }
}

/// A text as the commit has it.
fn text_at(checkout: &Checkout, commit: &str, file: &str) -> SkillProbe {
    match sources::committed_file(checkout, commit, file) {
        Ok(Some(text)) => SkillProbe::Found { digest: Sha256Hex::of(&text).to_string(), text },
        Ok(None) => SkillProbe::Missing,
        Err(failure) => SkillProbe::Invalid(failure.in_one_line()),
    }
}

#[cfg(test)]
mod tests {
    use bailiwick_fleet::admission::conditions::{AdapterProbe, ProgramFacts};
    use bailiwick_model::Source;
    use bailiwick_runner::agents::Manifest;
    use bailiwick_runner::agents::adapter::Adapter;
    use bailiwick_source_control::Repository as Checkout;
    use bailiwick_source_control::git::{release_commit, retained_commits};
    use bailiwick_testkit::Scratch;

    use super::{retain_local_commit, seen};

    const DESCRIBED: &str = r#"
[adapter]
name = "shell"
program = "sh"
[launch]
arguments = ["-c", "{prompt}"]
[gate]
kind = "none"
"#;

    #[test]
    fn a_program_whose_calls_cannot_be_stopped_or_that_has_changed_is_seen_as_such() {
        let bare = Manifest::parse(&Source::new("adapters/shell.toml", DESCRIBED)).unwrap();
        let claude = bailiwick_runner::agents::adapter("claude-code").unwrap();
        let facts =
            |adapter: &dyn Adapter, program: &ProgramFacts| match seen(adapter, Some(program)) {
                AdapterProbe::Seen(facts) => facts,
                other @ (AdapterProbe::NotYet
                | AdapterProbe::Unsupported(_)
                | AdapterProbe::Unavailable(_)) => panic!("{other:?}"),
            };
        let whole = ProgramFacts::default();
        let changed = ProgramFacts { missing: vec!["--settings".to_owned()], ..whole.clone() };
        assert!(facts(claude.as_ref(), &whole).gates_tools);
        assert!(!facts(&bare, &whole).gates_tools, "it has no gate");
        assert!(facts(claude.as_ref(), &whole).is_current);
        assert!(!facts(claude.as_ref(), &changed).is_current, "its help does not name an option");
        assert!(matches!(seen(claude.as_ref(), None), AdapterProbe::Unavailable(_)));
    }

    #[test]
    fn a_commit_that_is_here_already_is_held_again() {
        let scratch = Scratch::repository();
        let commit = scratch.commit("one");
        let checkout = Checkout::discover(&scratch.root()).unwrap();
        for _ in 0..2 {
            assert_eq!(retain_local_commit(&checkout, &commit).unwrap(), Some(commit.clone()));
            let held = retained_commits(&checkout.git()).unwrap();
            assert_eq!((held.len(), &held[0].name), (1, &commit));
            release_commit(&checkout.git(), &held[0]).unwrap();
        }
        assert_eq!(retain_local_commit(&checkout, &"e".repeat(40)).unwrap(), None);
        assert!(retained_commits(&checkout.git()).unwrap().is_empty());
    }
}

//! The inputs of an agent: its task and the repository's instructions, from the base commit.

use std::collections::BTreeMap;
use std::sync::Arc;

use bailiwick_lifecycle::brief;
use bailiwick_lifecycle::supervision::{Budget, Prices, Redaction};
use bailiwick_model::attempt::Allowance;
use bailiwick_model::task::Login;
use bailiwick_model::{Settings, Task, task};
use bailiwick_policy::Policy;
use bailiwick_policy::decide::is_always_allowed;
use bailiwick_policy::tool::Tool;
use bailiwick_policy::tool_lists::OWN_SERVER;
use bailiwick_runner::agents::adapter::{Adapter, Assignment, Conversation, Instruction};
use bailiwick_runner::proxy::Upstream;
use bailiwick_runner::supervisor::{self, Enclosure, RunDirectory};
use bailiwick_source_control::Repository;
use serde_json::{Value, json};

use super::declared::{Declared, working_problems};
use super::{LockedRun, Start, granted, sandbox_plan, skill_files, usage};
use crate::context::Context;
use crate::delegating::{DelegationService, run_budgets};
use crate::failure::Failure;
use crate::managed::{ManagedRunConfig, Servers};
use crate::options::SandboxLevel;
use crate::running::{AttemptOptions, preloads};
use crate::sources::{self, Files};
use crate::spawning::PlannedAgent;
use crate::system::random_name;
use crate::task_files::{self, TaskFile};
use crate::{agent_programs, logins, policy_file, preconditions};

/// The message to an agent that is resumed without one.
const RESUME_PROMPT: &str = "Go on where you stopped.";
/// Instruction files for agents.
const INSTRUCTIONS: [&str; 3] = ["CLAUDE.md", "AGENTS.md", "GEMINI.md"];
const SKILLS: &str = ".claude/skills";
const SERVERS: &str = ".mcp.json";

/// The inputs of an attempt.
pub struct AttemptInputs {
    /// The agent program.
    pub adapter: Arc<dyn Adapter>,
    /// Its inputs.
    pub assignment: Assignment,
    /// Its file system and network.
    pub enclosure: Enclosure,
    /// Where its model is.
    pub upstream: Option<Upstream>,
    /// Its budget.
    pub budget: Allowance,
    /// The secrets that only its MCP servers get.
    pub server_secrets: Vec<String>,
    /// The files that it is granted.
    pub files: Vec<(String, String)>,
    /// Whether the agent is told when its tokens are nearly used.
    pub warns_near_limit: bool,
}

/// Prepares an attempt.
pub fn prepare(
    running: &LockedRun,
    start: &Start,
    options: &AttemptOptions,
) -> Result<AttemptInputs, Failure> {
    let LockedRun { subject, directory, .. } = running;
    directory.make().map_err(|error| {
        Failure::general(format!("{} cannot be made: {error}", directory.path().display()))
    })?;
    let task = &subject.bound.task;
    let name = agent_programs::program_name(task, &subject.settings);
    let adapter = agent_programs::adapter_named(
        &subject.context,
        &subject.repository,
        &subject.kit_commit,
        name,
    )?;
    let found = sandbox_plan::program(adapter.as_ref(), &subject.context.state)?;
    let mut budget = budget(running, adapter.as_ref(), options)?;
    if let (Some(issue), Some(_)) = (&options.issue, adapter.model_api()) {
        // What the issue has left counts from what the run has used; the smaller of both binds.
        let most = usage::total(&running.earlier).tokens.saturating_add(issue.remaining);
        budget.tokens = Some(budget.tokens.map_or(most, |tokens| tokens.min(most)));
    }
    require_prices(&subject.settings, task, adapter.as_ref(), &budget)?;
    let mut granted = granted::of(&task.agent, directory)?;
    let mut secrets = granted.secrets.clone();
    let login = running.login(options.login);
    let resolved_login = logins::resolve(adapter.as_ref(), login)?;
    let upstream = resolved_login.map(|(upstream, credentials)| {
        secrets.extend(credentials);
        upstream
    });
    let (instructions, skills) = instructions_and_skills(&subject.repository, &subject.kit_commit)?;
    let chosen = &task.agent.mcp_servers;
    let managed = ManagedRunConfig::of(directory)?;
    let servers_of_task = match &managed {
        Some(managed) => managed.servers(chosen, directory)?,
        None => Servers {
            all: servers(&subject.repository, &subject.kit_commit, chosen)?,
            ..Servers::default()
        },
    };
    let managed_skills = managed.map(|managed| managed.skills).unwrap_or_default();
    let user_kit = &subject.context.user_kit;
    let place = skill_files::write(directory, &subject.repository, user_kit, &managed_skills)?;
    let session = session(running, start)?;
    let mut prompt = prompt(running, start, &budget)?;
    if let (Conversation::New(_), Some(place)) = (&session, &place) {
        prompt += &skill_files::describe(place, &managed_skills);
    }
    if let (Conversation::New(_), Some(issue)) = (&session, &options.issue) {
        prompt += &issue.text;
    }
    let server_secrets = servers_of_task.secrets;
    secrets.extend(server_secrets.iter().cloned());
    granted.files.extend(servers_of_task.files);
    let assignment = Assignment {
        version: found.version.clone(),
        prompt,
        system_prompt: task.agent.system_prompt.clone(),
        model: task.agent.model.as_ref().map(ToString::to_string),
        effort: task.agent.effort.as_ref().map(ToString::to_string),
        session,
        worktree: std::fs::canonicalize(&subject.worktree).map_err(|error| {
            Failure::general(format!("{} cannot be used: {error}", subject.worktree.display()))
        })?,
        repository: subject.repository.root().to_path_buf(),
        home: directory.home(),
        model_url: String::new(),
        login,
        gate: None,
        tools: Some(subject.bound.role.tools.clone()),
        searches: searches(&policy_file::recorded(directory)?.policy),
        sub_agents: task.agent.sub_agents.clone(),
        mcp_servers: servers_of_task.all,
        instructions,
        skills,
        turns: budget.turns,
        usd: budget.micro_usd.map(dollars),
        script: task.agent.script.clone(),
        granted: granted.variables,
        hidden: Redaction::new(secrets),
        granted_files: (!granted.files.is_empty()).then(|| directory.granted()),
        skill_files: place,
    };
    let enclosure = sandbox_plan::enclosure(running, found, options)?;
    let mut assignment = assignment;
    let files = task_files_to_send(running, start)?;
    match task.agent.context {
        Some(limits) => preloads::admit(limits, &mut assignment, files, directory)?,
        None => assignment.prompt += &task_files::describe(&files, &[]),
    }
    if !task.agent.allowed_subagents.is_empty() {
        let own = delegation(directory, &enclosure);
        assignment.mcp_servers.insert(OWN_SERVER.to_owned(), own);
    }
    let files = granted.files;
    let warns_near_limit = options.issue.is_some();
    Ok(AttemptInputs {
        adapter,
        assignment,
        enclosure,
        upstream,
        budget,
        server_secrets,
        files,
        warns_near_limit,
    })
}

/// Whether an agent may search the web on the model's side, where no gate sees it: its policy and the policies of all
/// its ancestors must allow it.
pub fn searches(policy: &Policy) -> bool {
    Tool::named("WebSearch").is_some_and(|tool| is_always_allowed(policy, tool))
}

/// Our own MCP server, as the agent program starts it inside of its sandbox.
fn delegation(directory: &RunDirectory, enclosure: &Enclosure) -> Value {
    let socket = supervisor::inside_socket(directory, enclosure.level);
    let program = supervisor::bailiwick_program_inside(enclosure);
    json!({"command": program, "args": ["mcp", "--socket", socket]})
}

/// Checks before the spawn what an attempt needs: its declarations, the program, a login, the grants of its task, and
/// the sandbox. Nothing is created.
pub fn require_startable(
    context: &Context,
    planned: &PlannedAgent<'_>,
    login: Option<Login>,
    sandbox: SandboxLevel,
) -> Result<(), Failure> {
    let PlannedAgent { repository, kit_commit, bound, settings, revision } = planned;
    let task = &bound.task;
    let login = login.unwrap_or(task.agent.login);
    let declared = Declared {
        task,
        source: &bound.source,
        settings,
        files: &|path| sources::committed_file(repository, kit_commit, path),
        user_kit: &context.user_kit,
        login,
    };
    let adapter = declared.require().or_else(|failure| {
        // The working copy may have a price, an adapter or a server that the commit has not.
        match working_problems(context, &bound.source)?.is_empty() {
            true if task.agent.login == login => {
                Err(sources::uncommitted(context, &bound.source.file, revision))
            }
            _ => Err(failure),
        }
    })?;
    sandbox_plan::program(adapter.as_ref(), &context.state)?;
    logins::resolve(adapter.as_ref(), login)?;
    granted::of(&task.agent, &RunDirectory::new(&context.state, "unnamed"))?;
    preconditions::require_sandbox(sandbox)
}

/// The files that go with its task; none if it has received them already.
fn task_files_to_send(running: &LockedRun, start: &Start) -> Result<Vec<TaskFile>, Failure> {
    let subject = &running.subject;
    match (start, running.session()) {
        (Start::Resume(_), Some(_)) => Ok(Vec::new()),
        (Start::Fresh, _) | (Start::Resume(_), None) => {
            let files = subject.bound.task.agent.hand_over.iter().map(ToString::to_string);
            task_files::read(&subject.repository, &subject.base, &files.collect::<Vec<_>>())
        }
    }
}

/// An agent that was stopped before its conversation began has not received its task.
fn prompt(running: &LockedRun, start: &Start, budget: &Allowance) -> Result<String, Failure> {
    let task = || brief::compose_for_run(&running.subject.bound, budget);
    match (start, running.session()) {
        (Start::Fresh | Start::Resume(None), None) | (Start::Fresh, Some(_)) => Ok(task()?),
        (Start::Resume(Some(words)), None) => Ok(format!("{}\n\n{words}", task()?)),
        (Start::Resume(Some(words)), Some(_)) => Ok(words.clone()),
        (Start::Resume(None), Some(_)) => Ok(RESUME_PROMPT.to_owned()),
    }
}

fn session(running: &LockedRun, start: &Start) -> Result<Conversation, Failure> {
    match (start, running.session()) {
        (Start::Fresh, _) => Ok(Conversation::New(random_name()?)),
        (Start::Resume(_), Some(id)) => Ok(Conversation::Resume(id.to_owned())),
        // It ended before it had begun a conversation.
        (Start::Resume(_), None) => Ok(Conversation::New(random_name()?)),
    }
}

/// What the run may spend by itself; one of a tree shares what it has with those below it.
fn budget(
    running: &LockedRun,
    adapter: &dyn Adapter,
    options: &AttemptOptions,
) -> Result<Allowance, Failure> {
    let task = &running.subject.bound.task;
    // Without a model API no tokens are counted; and a budget that is shared with sub-agents must be set by a
    // person.
    let stated = match adapter.model_api() {
        Some(_) if task.agent.allowed_subagents.is_empty() => Budget::of_run(&task.budget).0,
        Some(_) | None => Budget::of(&task.budget).0,
    };
    let before = running.allowed().unwrap_or(stated);
    let known = running.database.with(async |store| store.delegate(&running.id).await)?;
    if known.is_none() {
        return Ok(run_budgets::limits_or(options.budget.unwrap_or_default(), before));
    }
    let service = DelegationService::at_terminal(&running.subject.context);
    service.allotted(&running.id, before, options.budget)
}

/// An amount in the format of agent programs.
#[expect(clippy::cast_precision_loss, reason = "more than there is money in the world is rounded")]
pub fn dollars(micro_usd: u64) -> f64 {
    micro_usd as f64 / 1e6
}

/// Money can only be counted where prices are known.
pub(super) fn require_prices(
    settings: &Settings,
    task: &Task,
    adapter: &dyn Adapter,
    budget: &Allowance,
) -> Result<(), Failure> {
    if budget.micro_usd.is_none() || adapter.model_api().is_none() {
        return Ok(());
    }
    let prices = Prices::new(settings.prices.clone());
    let Some(model) = &task.agent.model else {
        return Err(Failure::refused("a budget in dollars needs [agent] model in the task").help(
            "a model without a price cannot have a budget in dollars; limit tokens or turns",
        ));
    };
    if prices.of(model.as_str()).is_some() {
        return Ok(());
    }
    Err(Failure::refused(format!("nothing says what the model {model} costs")).help(format!(
        "say it in {}/settings.toml, in dollars for a million tokens: [prices.\"{model}\"] input = … \
         output = …",
        sources::REPOSITORY_KIT
    )))
}

/// The repository's instructions and skills for agents, read at the same time.
fn instructions_and_skills(
    repository: &Repository,
    commit: &str,
) -> Result<(Vec<Instruction>, BTreeMap<String, String>), Failure> {
    std::thread::scope(|scope| {
        let skills = scope.spawn(|| skills(repository, commit));
        let instructions = instructions(repository, commit)?;
        let lost = |_| Failure::general("the skills of the base commit were not read");
        Ok((instructions, skills.join().map_err(lost)??))
    })
}

pub(super) fn instructions(
    repository: &Repository,
    commit: &str,
) -> Result<Vec<Instruction>, Failure> {
    let texts = sources::committed_files(repository, commit, &INSTRUCTIONS)?;
    let all = INSTRUCTIONS.into_iter().zip(texts);
    let one = |(path, text): (&str, Option<String>)| {
        Some(Instruction { path: path.to_owned(), text: text? })
    };
    Ok(all.filter_map(one).collect())
}

pub(super) fn skills(
    repository: &Repository,
    commit: &str,
) -> Result<BTreeMap<String, String>, Failure> {
    let git = repository.git();
    let tree = format!("{commit}:{SKILLS}");
    if !git.succeeds(["cat-file", "-e", &tree])? {
        return Ok(BTreeMap::new());
    }
    let listed = git.run(["ls-tree", "-r", "-z", "--name-only", &tree])?;
    let mut all = BTreeMap::new();
    for name in String::from_utf8_lossy(&listed).split_terminator('\0') {
        let path = format!("{SKILLS}/{name}");
        if let Ok(Some(text)) = sources::committed_file(repository, commit, &path) {
            all.insert(name.to_owned(), text);
        }
    }
    Ok(all)
}

pub(super) fn servers(
    repository: &Repository,
    commit: &str,
    chosen: &[task::Line],
) -> Result<BTreeMap<String, Value>, Failure> {
    servers_in(&|path| sources::committed_file(repository, commit, path), chosen)
}

/// The same, with the files of a commit or of the working copy.
pub(super) fn servers_in(
    files: &Files<'_>,
    chosen: &[task::Line],
) -> Result<BTreeMap<String, Value>, Failure> {
    if chosen.is_empty() {
        return Ok(BTreeMap::new());
    }
    let text = files(SERVERS)?.ok_or_else(|| {
        Failure::refused(format!("the task chooses MCP servers, and there is no {SERVERS}"))
            .help(format!("describe them in {SERVERS}, and commit it"))
    })?;
    let all: Value = serde_json::from_str(&text)
        .map_err(|error| Failure::general(format!("{SERVERS} cannot be read: {error}")))?;
    chosen
        .iter()
        .map(|name| {
            if name.as_str() == OWN_SERVER {
                return Err(Failure::refused(format!(
                    "no other server may be called `{OWN_SERVER}`"
                ))
                .help("to start agents, name templates in [agent] allowed-subagents"));
            }
            let found = all.get("mcpServers").and_then(|servers| servers.get(name.as_str()));
            let found = found
                .ok_or_else(|| Failure::refused(format!("{SERVERS} has no server `{name}`")))?;
            Ok((name.to_string(), found.clone()))
        })
        .collect()
}

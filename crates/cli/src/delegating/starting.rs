//! `spawn_agent`: a full run of ours, in a worktree of its own, that may do no more than its caller.

use bailiwick_control::delegation::depth::{Depth, Limits};
use bailiwick_control::delegation::estimate::Known;
use bailiwick_control::ports::RunStore as _;
use bailiwick_control::supervision::{Budget, Prices};
use bailiwick_kit::templates::assignment::{Assignment, assign};
use bailiwick_kit::templates::select::{
    Inherited, KnownModel, Overrides, Setting, asked_type, effective,
};
use bailiwick_model::attempt::Allowance;
use bailiwick_model::event::Usage;
use bailiwick_model::globs::{Area, Overlap};
use bailiwick_model::module::GateModule;
use bailiwick_model::template::{AgentType, Template};
use bailiwick_model::{AgentId, Delegate, RoleName, RunStatus, Settings, Source, Task, task};
use bailiwick_policy::tool::matches;
use bailiwick_policy::{Policy, ToolStack};
use bailiwick_runner::supervisor::RunDirectory;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use toml::Table;

use super::pending::Pending;
use super::session::{Session, said};
use super::talking::{Item, input};
use crate::commands::spawn::{Lineage, spawn};
use crate::failure::Failure;
use crate::running::{assign as assigning, detached};
use crate::verifying::{Places, Subject, settings};
use crate::{policy_file, wire};

/// How many levels may be below the first agent, unless the settings say otherwise.
const DEEPEST: u32 = 2;
/// How many agents of one tree may be at work at once, unless the settings say otherwise.
const MOST: u32 = 12;
/// The roles of agents that people start by templates which name none.
const WRITES: &str = "developer";
const READS: &str = "explorer";

/// What is asked of `spawn_agent`.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SpawnAgent {
    /// What the agent is to do; this or items
    pub message: Option<String>,
    /// The same in parts; this or message
    pub items: Option<Vec<Item>>,
    /// Every agent gets a worktree of its own: leave this out
    pub working_directory: Option<String>,
    /// The template; without one the agent is like you
    pub agent_type: Option<String>,
    /// A persona of the template
    pub agent_name: Option<String>,
    /// Another model than the template's
    pub model: Option<String>,
    /// Another effort than the template's
    pub reasoning_effort: Option<String>,
    /// A note for whoever lists agents
    pub thread_note: Option<String>,
    /// Globs of the files that it may write, among those that you may; all of those if left out
    pub files: Option<Vec<String>>,
    /// What you think it will take, in tokens
    pub estimated_tokens: Option<u64>,
    /// The same in answers of its model
    pub estimated_turns: Option<u64>,
    /// The same in United States dollars
    pub estimated_usd: Option<f64>,
    /// How many levels of agents may be below it
    pub max_depth: Option<u32>,
}

impl SpawnAgent {
    fn estimate(&self) -> Allowance {
        amounts(self.estimated_tokens, self.estimated_turns, self.estimated_usd)
    }
}

/// What a template says that one of it takes.
fn estimated(template: &Template) -> Allowance {
    amounts(template.estimated_tokens, template.estimated_turns, template.estimated_usd)
}

fn amounts(tokens: Option<u64>, turns: Option<u64>, usd: Option<f64>) -> Allowance {
    Budget::of(&task::Budget { tokens, turns, usd, ..task::Budget::default() }).0
}

/// What a million tokens of a model cost at most, in millionths of a dollar.
fn price(settings: &Settings, model: &str) -> Option<u64> {
    const MILLION: u64 = 1_000_000;
    let prices = Prices::new(settings.prices.clone());
    let cost = |input, output| {
        prices.cost(&Usage { model: model.to_owned(), input, output, ..Usage::default() })
    };
    cost(MILLION, 0).max(cost(0, MILLION))
}

/// An agent that is to be.
struct Birth {
    delegate: Delegate,
    task: String,
    base: String,
    lineage: Lineage,
}

/// All about whoever asks.
pub(super) struct Caller {
    /// How it stands among agents; nothing for a person.
    delegate: Option<Delegate>,
    /// Its task.
    task: Table,
    /// What binds it.
    policy: Option<Policy>,
    settings: Settings,
    base: String,
    role: Option<RoleName>,
    cli: Option<String>,
    model: Option<String>,
    effort: Option<String>,
    pub(super) may_start: Vec<String>,
}

impl Session {
    pub(super) fn spawn_agent(&self, asked: &SpawnAgent) -> Result<Value, String> {
        require_own_place(asked.working_directory.as_deref())?;
        if asked.estimated_usd.is_some_and(|usd| !(usd.is_finite() && usd > 0.0)) {
            return Err("estimated_usd must be greater than zero".to_owned());
        }
        let agent_type = asked_type(asked.agent_type.as_deref(), asked.agent_name.as_deref());
        let agent_type = agent_type.map_err(|error| error.to_string())?;
        let message = input(asked.message.as_deref(), asked.items.as_deref())?;
        self.tidy()?;
        let turn = self.turn()?;
        let (birth, pending) = self.reserved(asked, agent_type.as_ref(), message)?;
        drop(turn);
        // Out of its turn: it may have to wait for a claim.
        let started = self.start(&birth, &pending);
        let turn = self.turn()?;
        let run = birth.delegate.run;
        if let Err(why) = started {
            // Nothing of it runs, so nothing is reserved for it.
            self.change(&run, |one| {
                one.pending = false;
                one.closed = true;
                one.reserved = Allowance::default();
            })?;
            self.settle()?;
            return Err(format!("collab spawn failed: {why}"));
        }
        let now = self.change(&run, |one| one.pending = false)?;
        drop(turn);
        if now.closed {
            // Somebody did not want it any more while it was being started.
            self.stop(&run, "closed before it began")?;
        }
        Ok(json!({"agent_id": run.as_str()}))
    }

    /// Works out an agent, and takes what it may spend off its caller's budget. Called in its turn.
    fn reserved(
        &self,
        asked: &SpawnAgent,
        agent_type: Option<&AgentType>,
        message: String,
    ) -> Result<(Birth, Pending), String> {
        let caller = self.asking().map_err(said)?;
        let all = self.delegates()?;
        self.require_room(&caller, &all)?;
        let template = self.template(&caller, agent_type)?;
        let template = template.as_ref();
        let (depth, deepest) = caller.depth(asked, template)?;
        let known = self.models(&caller, template).map_err(said)?;
        let given = caller.assignment(asked, template, &known)?;
        let role = caller.role_of(template)?;
        let run = AgentId::make(&role, wire::now_ms(), wire::random().map_err(said)?);
        let name = template.map_or("", |template| template.agent_type.as_str());
        let estimate = Known {
            caller: asked.estimate(),
            earlier: self.earlier(name, &all)?,
            template: template.map(estimated).unwrap_or_default(),
            most: Allowance {
                turns: template.and_then(|template| template.max_turns),
                ..Allowance::default()
            },
            price: given.model.as_deref().and_then(|model| price(&caller.settings, model)),
        };
        let mut purse = match &caller.delegate {
            Some(parent) => Some(self.purse(parent, &all)?),
            None => None,
        };
        let reserved = match &mut purse {
            Some(purse) => purse.reserve(&run, &estimate)?,
            None => estimate.asked(),
        };
        let delegate = Delegate {
            run,
            parent: caller.delegate.as_ref().map(|parent| parent.run.clone()),
            depth: depth.0,
            deepest: deepest.map(|deepest| deepest.0),
            agent_type: name.to_owned(),
            agent_name: given.agent_name.clone(),
            note: asked.thread_note.clone().or_else(|| given.note(name)),
            message,
            model: given.model.clone(),
            reasoning_effort: given.effort.clone(),
            may_start: caller.may_start(template),
            reserved,
            given: Allowance::default(),
            pending: true,
            closed: false,
            created_at: wire::now_ms(),
        };
        let task = caller.task_text(&role, &given, template, asked, &delegate)?;
        // First taken off, then kept: what fails between the two is put right when anything settles.
        if let Some(purse) = purse {
            self.charge(&purse)?;
        }
        let pending = self.pending(&delegate.run, None)?;
        self.keep(&delegate)?;
        let lineage = Lineage {
            fork_parent: None,
            above: caller.policy,
            lists: given.lists,
            read_only: given.read_only,
            ..Lineage::default()
        };
        Ok((Birth { delegate, task, base: caller.base, lineage }, pending))
    }

    fn start(&self, birth: &Birth, pending: &Pending) -> Result<(), String> {
        let run = &birth.delegate.run;
        let source = Source::new(format!("the task of {run}"), birth.task.as_str());
        let lineage = birth.lineage.clone();
        spawn(&self.context, &source, Some(run), &birth.base, lineage).map_err(said)?;
        let input = pending.input().map_err(|error| format!("`{run}` cannot begin: {error}"))?;
        let begun = detached::begin(&self.context, run, &self.how, input).map(drop).map_err(said);
        if let Err(why) = &begun {
            // It is in the ledger, and will not run.
            let failed = wire::with_store(&self.context, async |store| {
                Ok(store.change_status(run, RunStatus::Failed, Some(why)).await?)
            });
            failed.map_err(said)?;
        }
        begun
    }

    /// Everything about whoever asks.
    pub(super) fn asking(&self) -> Result<Caller, Failure> {
        let Some(id) = &self.caller else {
            let repository = self.context.require_repository()?;
            let Some(base) = repository.commit("HEAD")? else {
                return Err(Failure::general("the repository has no commit yet"));
            };
            let settings = settings(&repository, &base)?;
            return Ok(Caller {
                delegate: None,
                task: Table::new(),
                policy: None,
                cli: settings.run.cli.clone(),
                settings,
                base,
                role: None,
                model: None,
                effort: None,
                may_start: vec!["*".to_owned()],
            });
        };
        let subject = Subject::of_agent(&self.context, id, &Places::default())?;
        let directory = RunDirectory::new(&self.context.state, id.as_str());
        let policy = policy_file::recorded(&directory)?.policy;
        let (run, known) = wire::with_store(&self.context, async |store| {
            Ok((store.get(id).await?, store.delegate(id).await?))
        })?;
        let task = &subject.bound.task;
        let text = |line: &Option<task::Line>| line.as_ref().map(ToString::to_string);
        let may_start: Vec<String> =
            task.agent.allowed_subagents.iter().map(ToString::to_string).collect();
        let delegate = known.unwrap_or_else(|| root(id, task, &may_start));
        let table: Table = subject.bound.source.text.parse().map_err(|error| {
            Failure::general(format!("the task of `{id}` cannot be read: {error}"))
        })?;
        Ok(Caller {
            delegate: Some(delegate),
            task: table,
            policy: Some(policy),
            base: run.base.unwrap_or_else(|| subject.commit.clone()),
            role: Some(subject.bound.role.name.clone()),
            cli: text(&task.agent.cli).or_else(|| subject.settings.run.cli.clone()),
            model: text(&task.agent.model),
            effort: text(&task.agent.effort),
            settings: subject.settings.clone(),
            may_start,
        })
    }

    /// An error if no more agents of the caller's tree may be at work.
    pub(super) fn require_space(&self) -> Result<(), String> {
        let caller = self.asking().map_err(said)?;
        self.require_room(&caller, &self.delegates()?)
    }

    fn require_room(&self, caller: &Caller, all: &[Delegate]) -> Result<(), String> {
        let most = caller.settings.delegation.most_at_once.unwrap_or(MOST);
        let root = |one: &Delegate| {
            let mut at = one;
            for _ in 0..=all.len() {
                let Some(parent) = &at.parent else { break };
                let Some(next) = all.iter().find(|one| one.run == *parent) else {
                    return Some(parent.clone());
                };
                at = next;
            }
            (at.depth == 0).then(|| at.run.clone())
        };
        let own = caller.delegate.as_ref().and_then(root);
        let busy = all.iter().filter(|one| one.depth > 0 && root(one) == own && !one.closed);
        let busy = busy.filter(|one| self.is_busy(one)).count();
        match u32::try_from(busy).unwrap_or(u32::MAX) < most {
            true => Ok(()),
            false => Err(format!("collab spawn failed: agent thread limit reached (max {most})")),
        }
    }

    fn template(
        &self,
        caller: &Caller,
        asked: Option<&AgentType>,
    ) -> Result<Option<Template>, String> {
        let Some(asked) = asked else {
            return match caller.may_start.iter().any(|glob| glob == "*") {
                true => Ok(None),
                false => Err(format!(
                    "name an agent_type among those that you may start: {}",
                    caller.may_start.join(", ")
                )),
            };
        };
        let found = self.templates().map_err(said)?.find(asked.as_str());
        let found = found.map_err(|error| error.to_string())?;
        let name = &found.template().agent_type;
        if !caller.may_start.iter().any(|glob| matches(glob, name.as_str())) {
            let may = caller.may_start.join(", ");
            return Err(format!(
                "agent_type \"{name}\" is not among those that you may start: {may}"
            ));
        }
        Ok(Some(found.template().clone()))
    }

    /// The models that the agent's program knows.
    fn models(
        &self,
        caller: &Caller,
        template: Option<&Template>,
    ) -> Result<Vec<KnownModel>, Failure> {
        let name = template.and_then(|template| template.cli.clone()).or(caller.cli.clone());
        let name = name.unwrap_or_else(|| assigning::USUAL.to_owned());
        let repository = self.context.require_repository()?;
        let adapter = assigning::adapter_named(&self.context, &repository, &caller.base, &name)?;
        let known = adapter.capabilities("", "");
        let known = known
            .models
            .iter()
            .map(|model| KnownModel { name: model.clone(), efforts: known.efforts.clone() });
        Ok(known.collect())
    }
}

/// A run that nobody delegated, as the root of a tree.
fn root(id: &AgentId, task: &Task, may_start: &[String]) -> Delegate {
    Delegate {
        run: id.clone(),
        parent: None,
        depth: 0,
        deepest: None,
        agent_type: String::new(),
        agent_name: None,
        note: None,
        message: task.body.text.clone(),
        model: task.agent.model.as_ref().map(ToString::to_string),
        reasoning_effort: task.agent.effort.as_ref().map(ToString::to_string),
        may_start: may_start.to_vec(),
        reserved: Allowance::default(),
        given: Allowance::default(),
        pending: false,
        closed: false,
        created_at: wire::now_ms(),
    }
}

/// Every agent works in a worktree of its own.
fn require_own_place(directory: Option<&str>) -> Result<(), String> {
    match directory.map(str::trim) {
        None | Some("" | "." | "./") => Ok(()),
        Some(_) => Err("spawn_agent in a different working_directory was not approved".to_owned()),
    }
}

/// What an agent is given by its template and the call.
struct Given {
    agent_name: Option<String>,
    prompt: Option<String>,
    description: String,
    model: Option<String>,
    effort: Option<String>,
    lists: ToolStack,
    read_only: bool,
}

impl Given {
    fn of(assignment: Assignment) -> Self {
        let value = |setting: Option<Setting>| setting.map(|setting| setting.value);
        let name = assignment.agent_type.as_str();
        Self {
            lists: ToolStack::unlimited().narrowed_by(name, &assignment.tools),
            read_only: assignment.sandbox.is_read_only(false),
            agent_name: assignment.agent_name,
            prompt: Some(assignment.prompt),
            description: assignment.description,
            model: value(assignment.settings.model),
            effort: value(assignment.settings.reasoning_effort),
        }
    }

    /// The note of an agent that was given none.
    fn note(&self, agent_type: &str) -> Option<String> {
        if agent_type.is_empty() {
            return None;
        }
        let persona = self.agent_name.as_ref().map(|name| format!("; agent_name={name}"));
        let persona = persona.unwrap_or_default();
        let description = &self.description;
        Some(format!("agent_type={agent_type}{persona}; agent_description={description}"))
    }
}

impl Caller {
    /// The depth of the agent that is asked for, and how deep those below it may be.
    fn depth(
        &self,
        asked: &SpawnAgent,
        template: Option<&Template>,
    ) -> Result<(Depth, Option<Depth>), String> {
        let own = Depth(self.delegate.as_ref().map_or(0, |delegate| delegate.depth));
        let limits = Limits {
            template: self.delegate.as_ref().and_then(|own| own.deepest).map(Depth),
            stack: Some(Depth(self.settings.delegation.max_depth.unwrap_or(DEEPEST))),
            call: None,
        };
        let depth = limits.spawn(own).map_err(|error| error.to_string())?;
        let below = Limits {
            template: Limits::below(depth, template.and_then(|template| template.max_depth)),
            stack: limits.smallest().map(|(most, _)| most),
            call: Limits::below(depth, asked.max_depth),
        };
        Ok((depth, below.smallest().map(|(most, _)| most)))
    }

    fn assignment(
        &self,
        asked: &SpawnAgent,
        template: Option<&Template>,
        known: &[KnownModel],
    ) -> Result<Given, String> {
        let call = Overrides {
            model: asked.model.as_deref(),
            reasoning_effort: asked.reasoning_effort.as_deref(),
        };
        // Another program has other models.
        let other = template.and_then(|template| template.cli.as_ref());
        let same = other.is_none_or(|cli| Some(cli) == self.cli.as_ref());
        let inherited = Inherited {
            model: self.model.as_deref().filter(|_| same),
            reasoning_effort: self.effort.as_deref().filter(|_| same),
        };
        if let Some(template) = template {
            let name = asked.agent_name.as_deref();
            let assignment = assign(template, name, call, inherited, known);
            return assignment.map(Given::of).map_err(|error| error.to_string());
        }
        let plain = effective(call, None, &Template::plain(), inherited);
        plain.check(known).map_err(|error| error.to_string())?;
        Ok(Given {
            agent_name: None,
            prompt: None,
            description: String::new(),
            model: plain.model.map(|setting| setting.value),
            effort: plain.reasoning_effort.map(|setting| setting.value),
            lists: ToolStack::unlimited(),
            read_only: false,
        })
    }

    /// The role that binds it: the template's, else the caller's.
    fn role_of(&self, template: Option<&Template>) -> Result<RoleName, String> {
        let named = template.and_then(|template| template.role.clone());
        if let Some(role) = named.or_else(|| self.role.clone()) {
            return Ok(role);
        }
        let reads = template.is_some_and(|template| template.read_only);
        RoleName::parse(if reads { READS } else { WRITES }).map_err(|error| error.to_string())
    }

    /// Which templates it may start: those of its template that its caller may start as well.
    fn may_start(&self, template: Option<&Template>) -> Vec<String> {
        let Some(wished) = template.and_then(|template| template.allowed_subagents.as_ref()) else {
            return self.may_start.clone();
        };
        let may =
            |name: &&AgentType| self.may_start.iter().any(|glob| matches(glob, name.as_str()));
        wished.iter().filter(may).map(ToString::to_string).collect()
    }

    /// The roles whose capabilities bind it besides its own: those of all above it.
    fn bound_by(&self, own: &RoleName) -> Vec<String> {
        let above = self.role.iter().map(ToString::to_string);
        let task = self.task.get("task").and_then(|task| task.get("bound-by"));
        let further = task.and_then(toml::Value::as_array).into_iter().flatten();
        let further = further.filter_map(toml::Value::as_str).map(str::to_owned);
        let mut all: Vec<String> = Vec::new();
        for role in above.chain(further) {
            if role != own.as_str() && !all.contains(&role) {
                all.push(role);
            }
        }
        all
    }

    /// An error if an agent could write what its caller may not.
    fn require_inside(&self, files: &[String]) -> Result<(), String> {
        for policy in self.policy.iter().flat_map(Policy::all) {
            let limited =
                policy.rules.iter().any(|rule| rule.gate == Some(GateModule::ScopeFilesWhitelist));
            if !limited {
                continue;
            }
            let outside = Area::new(files, &policy.whitelist);
            let anywhere = Area::new(&["**".to_owned()], &[]);
            let what = match outside.overlap(&anywhere) {
                Overlap::Never => continue,
                Overlap::At(path) => format!("you may not write {path:?}"),
                Overlap::Unclear(why) => {
                    format!("nobody can tell that you may write there ({why})")
                }
            };
            let may = policy.whitelist.join(", ");
            return Err(format!("{what}, so no agent of yours may; name files among {may}"));
        }
        Ok(())
    }

    /// Its task: what the caller's says of scope and checks, and what the template says of the agent.
    fn task_text(
        &self,
        role: &RoleName,
        given: &Given,
        template: Option<&Template>,
        asked: &SpawnAgent,
        delegate: &Delegate,
    ) -> Result<String, String> {
        let mut all = Table::new();
        for kept in ["scope", "verification", "output", "workspace", "parameters"] {
            if let Some(table) = self.task.get(kept) {
                all.insert(kept.to_owned(), table.clone());
            }
        }
        let mut task = Table::from_iter([("role".to_owned(), role.to_string().into())]);
        task.insert("bound-by".to_owned(), self.bound_by(role).into());
        if let Some(parent) = &delegate.parent {
            task.insert("parent-agent".to_owned(), parent.to_string().into());
        }
        all.insert("task".to_owned(), task.into());
        if let Some(files) = &asked.files {
            self.require_inside(files)?;
            let scope = all.entry("scope").or_insert_with(|| Table::new().into());
            if let Some(scope) = scope.as_table_mut() {
                scope.insert("files-whitelist".to_owned(), files.clone().into());
            }
        }
        let mut agent = Table::new();
        let own = self.task.get("agent").and_then(toml::Value::as_table);
        let cli = template.and_then(|template| template.cli.clone()).or_else(|| self.cli.clone());
        let texts = [
            ("cli", cli),
            ("model", given.model.clone()),
            ("effort", given.effort.clone()),
            ("system-prompt", given.prompt.clone()),
        ];
        for (key, value) in texts {
            value.map(|value| agent.insert(key.to_owned(), value.into()));
        }
        for kept in ["login", "idle-minutes"] {
            own.and_then(|own| own.get(kept))
                .map(|value| agent.insert(kept.to_owned(), value.clone()));
        }
        if let Some(limits) = template.and_then(|template| template.context) {
            let limits = Table::try_from(limits).map_err(|error| error.to_string())?;
            agent.insert("context".to_owned(), limits.into());
        } else if let Some(limits) = own.and_then(|own| own.get("context")) {
            agent.insert("context".to_owned(), limits.clone());
        }
        agent.insert("allowed-subagents".to_owned(), delegate.may_start.clone().into());
        all.insert("agent".to_owned(), agent.into());
        all.insert("budget".to_owned(), budget(&delegate.reserved).into());
        let body = Table::from_iter([("text".to_owned(), delegate.message.clone().into())]);
        all.insert("body".to_owned(), body.into());
        toml::to_string(&all).map_err(|error| format!("its task cannot be written: {error}"))
    }
}

fn budget(reserved: &Allowance) -> Table {
    let mut table = Table::new();
    let whole = |amount: u64| i64::try_from(amount).unwrap_or(i64::MAX);
    let mut set = |key: &str, value: Option<toml::Value>| {
        value.map(|value| table.insert(key.to_owned(), value));
    };
    set("tokens", reserved.tokens.map(|amount| whole(amount).into()));
    set("turns", reserved.turns.map(|amount| whole(amount).into()));
    set("tool-calls", reserved.tool_calls.map(|amount| whole(amount).into()));
    set("minutes", reserved.milliseconds.map(|amount| whole(amount.div_ceil(60_000)).into()));
    set("usd", reserved.micro_usd.map(|amount| (amount as f64 / 1e6).into()));
    table
}

//! `spawn_agent`: starts a full run in its own worktree, with no more rights than its caller.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bailiwick_kit::resolve::resolve;
use bailiwick_kit::templates::select::{KnownModel, asked_type};
use bailiwick_kit::templates::{FoundTemplate, TemplateError};
use bailiwick_lifecycle::delegation::estimate::Known;
use bailiwick_lifecycle::ports::RunStore as _;
use bailiwick_lifecycle::supervision::{Budget, Prices};
use bailiwick_model::attempt::Allowance;
use bailiwick_model::event::Usage;
use bailiwick_model::task::Login;
use bailiwick_model::template::{AgentType, Template};
use bailiwick_model::{AgentId, Delegate, RoleName, RunStatus, Settings, Source, task};
use bailiwick_runner::agents::adapter::Adapter;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::allowed_types::allows;
use super::caller::Caller;
use super::pending::PendingStart;
use super::send_input::{Item, input};
use super::service::DelegationService;
use super::wait::MAX_WAIT_MS;
use crate::claiming::ClaimWait;
use crate::failure::Failure;
use crate::options::{IfClosed, RunOptions};
use crate::reused_workspace::WorkspaceSource;
use crate::spawning::{Naming, SetupIn, SpawnBindings, spawn_within};
use crate::{
    agent_programs, agent_state, background, disallowed_agents, logins, sources, system, templates,
};

/// How many agents of one tree may run at once, unless the settings say otherwise.
const MAX_AGENTS: u32 = 12;

/// The maximum wait for a claim. Agent programs give a tool call up some time after the longest `wait`; an agent must
/// not start after its caller has given up.
const CLAIM: Duration = Duration::from_mins(25);
const _: () = assert!(CLAIM.as_secs() < MAX_WAIT_MS / 1000);

/// The capability that limits which files an agent may write.
const FILES_WHITELIST: &str = "scope::files-whitelist";
/// All that a person may write, which their agents may where the call names no files.
const ALL_FILES: &str = "**";

/// The arguments of `spawn_agent`.
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
    /// A note that is shown in lists of agents
    pub thread_note: Option<String>,
    /// Globs of the files that it may write, among those that you may; all of those if left out
    pub files: Option<Vec<String>>,
    /// Files whose texts it is given with the message, by their paths in the commit that you started from
    pub hand_over: Option<Vec<String>>,
    /// Names of sources in your context that it is given, if its context policy is selected-sources
    pub sources: Option<Vec<String>>,
    /// Ids of finished agents of yours whose results it is given, if its context policy is artifact-only
    pub artifacts: Option<Vec<String>>,
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

impl DelegationService {
    /// What the agent may write: the files that the call names, or all that its caller may. That is said in
    /// the caller's own task, but for a person, who has none.
    fn files_of(
        &self,
        caller: &Caller,
        request: &SpawnAgent,
        role: &RoleName,
    ) -> Result<Option<Vec<String>>, Failure> {
        if request.files.is_some() || caller.delegate.is_some() {
            return Ok(request.files.clone());
        }
        let repository = self.context.require_repository()?;
        let kit = sources::committed_kit(&self.context, &repository, &caller.kit_commit)?;
        let role = resolve(&kit, role, Source::new(role.to_string(), "").whole())?;
        let limits = role.capabilities.iter().any(|one| one.to_string() == FILES_WHITELIST);
        Ok(limits.then(|| vec![ALL_FILES.to_owned()]))
    }
}

/// The template's estimate for one run.
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

/// An agent that is to be started.
struct NewAgent {
    delegate: Delegate,
    task: String,
    base: String,
    bindings: SpawnBindings,
    options: RunOptions,
}

impl DelegationService {
    /// Stops waiting for a claim when the caller has gone.
    pub(super) fn spawn_agent(
        &self,
        request: &SpawnAgent,
        cancelled: &AtomicBool,
    ) -> Result<Value, Failure> {
        require_own_place(request.working_directory.as_deref())?;
        if request.estimated_usd.is_some_and(|usd| !(usd.is_finite() && usd > 0.0)) {
            return Err(Failure::refused("estimated_usd must be greater than zero"));
        }
        let agent_type = asked_type(request.agent_type.as_deref(), request.agent_name.as_deref());
        let agent_type = agent_type.map_err(Failure::refused_by)?;
        let message = input(request.message.as_deref(), request.items.as_deref())?;
        self.tidy()?;
        let turn = self.turn()?;
        let (birth, pending) = self.reserved(request, agent_type.as_ref(), message)?;
        drop(turn);
        // Without the spawn lock: it may have to wait for a claim.
        let started = self.start(&birth, &pending, cancelled);
        let turn = self.turn()?;
        let run = birth.delegate.run;
        if let Err(why) = started {
            // It does not run, so nothing is reserved for it.
            self.change(&run, |one| {
                one.pending = false;
                one.closed = true;
                one.reserved = Allowance::default();
            })?;
            self.release_unused()?;
            return Err(Failure::refused(format!("collab spawn failed: {}", why.in_one_line())));
        }
        let now = self.change(&run, |one| one.pending = false)?;
        drop(turn);
        if now.closed {
            // It was closed while it was being started.
            self.stop(&run, "closed before it began")?;
            self.free(&run)?;
        }
        Ok(json!({"agent_id": run.as_str()}))
    }

    /// Plans an agent and subtracts its budget from the caller's. Called with the spawn lock.
    fn reserved(
        &self,
        request: &SpawnAgent,
        agent_type: Option<&AgentType>,
        message: String,
    ) -> Result<(NewAgent, PendingStart), Failure> {
        let caller = self.read_caller()?;
        let all = self.delegates()?;
        self.require_room(&caller, &all)?;
        let declared = self.declared()?;
        let template = match &declared {
            None => self.template(&caller, agent_type)?,
            Some(declared) => Some(
                declared
                    .template(agent_type)
                    .inspect_err(|_| self.record_disallowed(agent_type))?,
            ),
        };
        let child = match (&declared, &template) {
            (Some(declared), Some(template)) => {
                let name = template.agent_type.as_str();
                self.require_parallel(declared, name, &caller, &all)?;
                declared.0.subagent(name)
            }
            (Some(_) | None, _) => None,
        };
        let template = template.as_ref();
        let (depth, deepest) = caller.depth(request, template)?;
        self.require_files(request, &caller, template)?;
        let program = self.program(&caller, template)?;
        let known = models(program.as_ref());
        let parameters = caller.assignment(request, template, &known)?;
        let role = caller.role_of(template)?;
        let run = AgentId::make(&role, system::now_ms(), system::random()?);
        let name = template.map_or("", |template| template.agent_type.as_str());
        let estimate = Known {
            caller: request.estimate(),
            earlier: self.earlier_usage(name, &all)?,
            template: template.map(estimated).unwrap_or_default(),
            most: Allowance {
                turns: template.and_then(|template| template.max_turns),
                milliseconds: template
                    .and_then(|template| template.max_minutes)
                    .map(|minutes| minutes.saturating_mul(60_000)),
                ..Allowance::default()
            },
            price: parameters.model.as_deref().and_then(|model| price(&caller.settings, model)),
        };
        let mut reservations = match &caller.delegate {
            Some(parent) => Some(self.reservations(parent, &all)?),
            None => None,
        };
        let reserved = match &mut reservations {
            Some(reservations) => reservations.reserve(&run, &estimate)?,
            None => self.reserve_of_session(&run, &estimate, &all)?,
        };
        let names = self.committed_templates(&caller.kit_commit)?.names();
        let delegate = Delegate {
            run,
            parent: caller.delegate.as_ref().map(|parent| parent.run.clone()),
            session: self.root.clone(),
            repository: Some(self.repository()?),
            depth: depth.0,
            deepest: deepest.map(|deepest| deepest.0),
            agent_type: name.to_owned(),
            agent_name: parameters.agent_name.clone(),
            note: request.thread_note.clone().or_else(|| parameters.note(name)),
            message: self.handed_context(request, declared.as_ref(), child, &caller, message)?,
            model: parameters.model.clone(),
            reasoning_effort: parameters.effort.clone(),
            may_start: caller.may_start(template, &names),
            reserved,
            given: Allowance::default(),
            pending: true,
            closed: false,
            created_at: system::now_ms(),
        };
        let servers = child.map(|child| child.mcp_servers.as_slice()).unwrap_or_default();
        let files = self.files_of(&caller, request, &role)?;
        let places = (servers, files.as_deref());
        let task = caller.task_text(&role, &parameters, template, request, (&delegate, places))?;
        // First taken off, then kept: what fails between the two is put right when anything settles.
        if let Some(reservations) = reservations {
            self.charge(&reservations)?;
        }
        let pending = self.pending(&delegate.run, None)?;
        self.store_delegate(&delegate)?;
        let bindings = SpawnBindings {
            workspace: WorkspaceSource::Base,
            fork_parent: None,
            above: caller.policy,
            lists: parameters.lists,
            // What a control plane has declared is held by its own limits, which may leave it a network.
            read_only: parameters.read_only && child.is_none(),
            limits: child.map(|child| child.limits.clone()).unwrap_or_default(),
            managed: child
                .and_then(|child| declared.as_ref().map(|declared| declared.0.for_child(child))),
            setup: SetupIn::Sandbox,
        };
        let options = self.child_run_options(program.as_ref());
        Ok((NewAgent { delegate, task, base: caller.base, bindings, options }, pending))
    }

    fn start(
        &self,
        birth: &NewAgent,
        pending: &PendingStart,
        cancelled: &AtomicBool,
    ) -> Result<(), Failure> {
        let run = &birth.delegate.run;
        let source = Source::new(format!("the task of {run}"), birth.task.as_str());
        let bindings = birth.bindings.clone();
        let if_closed = IfClosed::Refuse;
        let wait = ClaimWait { cancelled: Some(cancelled), most: Some(CLAIM), if_closed };
        spawn_within(&self.context, &source, Naming::Exactly(run), &birth.base, bindings, wait)?;
        let input = pending
            .input()
            .map_err(|error| Failure::refused(format!("`{run}` cannot begin: {error}")))?;
        let begun = match cancelled.load(Ordering::Relaxed) {
            true => Err(Failure::refused(format!("nobody waits for `{run}` any more"))),
            false => agent_state::require_open(&self.context, run)
                .and_then(|()| background::begin(&self.context, run, &birth.options, input))
                .map(drop),
        };
        if let Err(why) = &begun {
            // It is in the ledger, and will not run.
            let failed = self.context.with_store(async |store| {
                Ok(store.change_status(run, RunStatus::Failed, Some(&why.in_one_line())).await?)
            });
            failed?;
        }
        begun
    }

    /// Returns an error if no more agents of the caller's tree may run.
    pub(super) fn require_space(&self) -> Result<(), Failure> {
        let caller = self.read_caller()?;
        self.require_room(&caller, &self.delegates()?)
    }

    fn require_room(&self, caller: &Caller, all: &[Delegate]) -> Result<(), Failure> {
        let most = caller.settings.delegation.most_at_once.unwrap_or(MAX_AGENTS);
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
        // Agents without a root run are of one tree if they are of one repository.
        let repository = Some(self.repository()?);
        let same =
            |one: &Delegate| root(one) == own && (own.is_some() || one.repository == repository);
        let busy = all.iter().filter(|one| one.depth > 0 && same(one) && !one.closed);
        let busy = busy.filter(|one| self.is_busy(one)).count();
        match u32::try_from(busy).unwrap_or(u32::MAX) < most {
            true => Ok(()),
            false => Err(Failure::refused(format!(
                "collab spawn failed: agent thread limit reached (max {most})"
            ))),
        }
    }

    fn template(
        &self,
        caller: &Caller,
        agent_type: Option<&AgentType>,
    ) -> Result<Option<Template>, Failure> {
        let Some(agent_type) = agent_type else {
            return match caller.may_start.iter().any(|glob| glob == "*") {
                true => Ok(None),
                false => Err(Failure::refused(format!(
                    "name an agent_type among those that you may start: {}",
                    caller.may_start.join(", ")
                ))),
            };
        };
        let all = self.committed_templates(&caller.kit_commit)?;
        let found = all.find(agent_type.as_str());
        self.require_committed(agent_type, &found)?;
        let found = found.map_err(Failure::refused_by)?;
        let name = &found.template().agent_type;
        if !allows(&caller.may_start, name, &all.names()) {
            let may = caller.may_start.join(", ");
            self.record_disallowed(Some(name));
            return Err(Failure::refused(format!(
                "agent_type \"{name}\" is not among those that you may start: {may}"
            )));
        }
        Ok(Some(found.template().clone()))
    }

    /// Records that an agent asked for a type that it may not start. People have no such limit.
    fn record_disallowed(&self, agent_type: Option<&AgentType>) {
        let (Some(run), Some(agent_type)) = (&self.caller, agent_type) else { return };
        if let Err(failure) = disallowed_agents::record(&self.context, run, agent_type) {
            self.context.notices.note(format_args!(
                "that `{run}` asked for `{agent_type}` was not recorded: {failure}"
            ));
        }
    }

    /// Returns an error if the person's working copy has another template than HEAD, which binds the agent.
    fn require_committed(
        &self,
        agent_type: &AgentType,
        committed: &Result<FoundTemplate, TemplateError>,
    ) -> Result<(), Failure> {
        if self.caller.is_some() {
            return Ok(());
        }
        let working = templates::working(&self.context)?.find(agent_type.as_str());
        let how = match (committed, &working) {
            (Ok(committed), Ok(working)) if committed.template() == working.template() => {
                return Ok(());
            }
            // Neither can be started. The error about the committed one gives the reason.
            (Err(_), Err(_)) => return Ok(()),
            (Err(TemplateError::Missing(_)), Ok(_)) => "is not in HEAD, which agents start from",
            (Ok(_) | Err(_), Ok(_)) | (Ok(_), Err(_)) => {
                "differs from what is in HEAD, which agents start from"
            }
        };
        Err(Failure::refused(format!("agent_type \"{agent_type}\" {how}; commit it first")))
    }

    /// The caller's options for its agents. The login is the caller's only if the agent's program supports it.
    fn child_run_options(&self, program: &dyn Adapter) -> RunOptions {
        let knows = |login: &Login| logins::usable(program).contains(login);
        RunOptions { login: self.options.login.filter(knows), ..self.options.clone() }
    }

    /// The agent's program.
    fn program(
        &self,
        caller: &Caller,
        template: Option<&Template>,
    ) -> Result<Arc<dyn Adapter>, Failure> {
        let name = template.and_then(|template| template.cli.clone()).or(caller.cli.clone());
        let name = name.unwrap_or_else(|| agent_programs::USUAL.to_owned());
        let repository = self.context.require_repository()?;
        agent_programs::adapter_named(&self.context, &repository, &caller.kit_commit, &name)
    }
}

/// The models that a program knows.
fn models(program: &dyn Adapter) -> Vec<KnownModel> {
    let can = program.capabilities("", "");
    let known = can
        .models
        .iter()
        .map(|model| KnownModel { name: model.clone(), efforts: can.efforts_of(model).to_vec() });
    known.collect()
}

/// Every agent works in a worktree of its own.
fn require_own_place(directory: Option<&str>) -> Result<(), Failure> {
    match directory.map(str::trim) {
        None | Some("" | "." | "./") => Ok(()),
        Some(_) => {
            Err(Failure::refused("spawn_agent in a different working_directory was not approved"))
        }
    }
}

//! Answers the calls of delegation tools, for one caller and the agents that it may reach.

use std::fs::File;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use bailiwick_kit::templates::Templates;
use bailiwick_kit::templates::list::{ListAgents, list};
use bailiwick_lifecycle::ports::{Consent, Delegation, RunStore as _};
use bailiwick_model::attempt::Allowance;
use bailiwick_model::task::Line;
use bailiwick_model::template::AgentType;
use bailiwick_model::{AgentId, Delegate, Source, Task};
use bailiwick_policy::dialects::Dialect;
use bailiwick_policy::tool_lists::OWN_SERVER;
use bailiwick_policy::{Decision, Facts, Outcome, decide};
use bailiwick_runner::supervisor::RunDirectory;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::allowed_types::allows;
use super::caller::Caller;
use super::merging::MERGE_AGENT;
use super::server::SPAWNABLE;
use crate::context::Context;
use crate::failure::Failure;
use crate::options::RunOptions;
use crate::{agent_names, policy_file, sources, templates};

/// The answer to a call about an agent that is not below the caller.
const NOT_YOURS: &str = "is not one of the agents below you";

/// Answers the delegation calls of one caller.
pub struct DelegationService {
    /// The repository, state and database of the caller.
    pub context: Context,
    /// The agent; `None` for a person.
    pub caller: Option<AgentId>,
    /// The root session of a person's agent program; `None` for a person at a terminal, and for agents.
    pub root: Option<String>,
    /// What all that a root session starts may spend together, as a person has limited it.
    pub limits: Allowance,
    /// The options of runs that it starts.
    pub options: RunOptions,
}

/// Serialises spawn decisions of a repository, so that siblings see each other's reservations.
pub(super) struct SpawnLock {
    _file: File,
}

impl Delegation for DelegationService {
    fn call(
        &self,
        tool: &str,
        arguments: &Value,
        consent: Consent,
        cancelled: &AtomicBool,
    ) -> Result<Value, String> {
        // The calling agent only gets the text.
        self.perform(tool, arguments, consent, cancelled).map_err(|failure| failure.in_one_line())
    }
}

impl DelegationService {
    fn perform(
        &self,
        tool: &str,
        arguments: &Value,
        consent: Consent,
        cancelled: &AtomicBool,
    ) -> Result<Value, Failure> {
        if tool == SPAWNABLE {
            return self.spawnable();
        }
        self.require_allowed(tool, arguments, consent)?;
        match tool {
            "list_agents" => self.list_agents(&read(arguments)?),
            "spawn_agent" => self.spawn_agent(&read(arguments)?, cancelled),
            "list_active_agents" => self.list_active_agents(&read(arguments)?),
            "wait" => self.wait(&read(arguments)?, cancelled),
            "send_input" => self.send_input(&read(arguments)?),
            "close_agent" => self.close_agent(&read(arguments)?),
            MERGE_AGENT => self.merge_agent(&read(arguments)?),
            "set_thread_note" => self.set_thread_note(&read(arguments)?),
            other => Err(Failure::refused(format!("unsupported call: {other}"))),
        }
    }
}

fn read<T: DeserializeOwned>(arguments: &Value) -> Result<T, Failure> {
    let arguments = if arguments.is_null() { json!({}) } else { arguments.clone() };
    serde_json::from_value(arguments)
        .map_err(|error| Failure::refused(format!("failed to parse arguments: {error}")))
}

impl DelegationService {
    /// A person at a terminal, who may reach every agent.
    pub fn at_terminal(context: &Context) -> Self {
        let limits = Allowance::default();
        Self {
            context: context.clone(),
            caller: None,
            root: None,
            limits,
            options: RunOptions::default(),
        }
    }

    /// Which types the caller may start, and when to use them: for the description of the tool to its model.
    /// A caller that may not start agents gets an empty list.
    fn spawnable(&self) -> Result<Value, Failure> {
        if let Some(caller) = &self.caller
            && self.decided(caller, "spawn_agent", &json!({}))?.outcome == Outcome::Deny
        {
            return Ok(json!([]));
        }
        let Caller { may_start, kit_commit, .. } = self.read_caller()?;
        if let Some(declared) = self.declared()? {
            return Ok(declared.spawnable());
        }
        let all = self.committed_templates(&kit_commit)?.inventory().templates;
        let names: Vec<AgentType> = all.iter().map(|(name, _)| name.clone()).collect();
        // One that is broken cannot be started.
        let sound = all.into_iter().filter_map(|(name, found)| Some((name, found.ok()?)));
        let may = sound.filter(|(name, _)| allows(&may_start, name, &names));
        let lines = may.map(|(name, found)| {
            json!({"agent_type": name, "description": found.template().description})
        });
        Ok(lines.collect())
    }

    /// Returns an error if the policy of the caller denies the tool. Its program asks the gate before, but a
    /// shell inside of the sandbox reaches the socket as well.
    fn require_allowed(
        &self,
        tool: &str,
        arguments: &Value,
        consent: Consent,
    ) -> Result<(), Failure> {
        let Some(caller) = &self.caller else { return Ok(()) };
        let decision = self.decided(caller, tool, arguments)?;
        match (decision.outcome, consent) {
            // Where a person has to approve it, the gate has asked them before the program called.
            (Outcome::Allow, _) | (Outcome::Ask, Consent::Given) => Ok(()),
            (Outcome::Ask, Consent::Absent) | (Outcome::Deny, _) => {
                Err(Failure::refused(decision.message()))
            }
        }
    }

    /// The decision of the caller's policy on a tool.
    fn decided(
        &self,
        caller: &AgentId,
        tool: &str,
        arguments: &Value,
    ) -> Result<Decision, Failure> {
        let directory = RunDirectory::new(&self.context.state, caller.as_str());
        let policy = policy_file::recorded(&directory)?.policy;
        let payload = json!({
            "tool_name": format!("mcp__{OWN_SERVER}__{tool}"),
            "tool_input": arguments,
        });
        let call =
            Dialect::Claude
                .read(payload.to_string().as_bytes(), &[OWN_SERVER.to_owned()])
                .map_err(|error| Failure::refused(format!("the call cannot be read: {error:?}")))?;
        Ok(decide(&policy, &call, &Facts::default()))
    }

    fn list_agents(&self, request: &ListAgents) -> Result<Value, Failure> {
        if let Some(declared) = self.declared()? {
            return declared.listed(request);
        }
        let all = self.templates()?;
        let listed = list(&all, request).map_err(Failure::refused_by)?;
        serde_json::to_value(listed).map_err(Failure::refused_by)
    }

    /// The templates that the caller may know: a person those that are there now, an agent those of the
    /// commit that binds it.
    fn templates(&self) -> Result<Templates, Failure> {
        match self.kit_commit()? {
            None => templates::working(&self.context),
            Some(kit_commit) => self.committed_templates(&kit_commit),
        }
    }

    /// The templates that all agents are started from: those of the commit that binds.
    pub(super) fn committed_templates(&self, kit_commit: &str) -> Result<Templates, Failure> {
        let repository = self.context.require_repository()?;
        let inside = match &self.caller {
            None => sources::inside(&self.context, &repository)?,
            Some(_) => String::new(),
        };
        templates::committed(&self.context, &repository, kit_commit, &inside)
    }

    /// The commit that binds the caller.
    pub(super) fn kit_commit(&self) -> Result<Option<String>, Failure> {
        let Some(caller) = &self.caller else { return Ok(None) };
        let (run, spec) = self.context.with_store(async |store| {
            let run = store.find(caller).await?;
            let spec = match &run {
                Some(run) => store.spec(&run.spec_sha).await?,
                None => None,
            };
            Ok((run, spec))
        })?;
        let (Some(base), Some(spec)) = (run.and_then(|run| run.base), spec) else {
            return Err(Failure::general(format!("nothing says what binds `{caller}`")));
        };
        let named = Task::parse(&Source::new(format!("the task of {caller}"), spec))?;
        let named = named.task.kit_commit.as_ref().map(Line::as_str);
        let repository = self.context.require_repository()?;
        sources::kit_commit(&repository, named, &base).map(Some)
    }

    pub(super) fn delegates(&self) -> Result<Vec<Delegate>, Failure> {
        self.context.with_store(async |store| Ok(store.delegates().await?))
    }

    pub(super) fn store_delegate(&self, delegate: &Delegate) -> Result<(), Failure> {
        self.context.with_store(async |store| Ok(store.save_delegate(delegate).await?))
    }

    /// An agent that the caller may speak to, of all that there are.
    pub(super) fn below(&self, id: &str) -> Result<Delegate, Failure> {
        let unknown = || Failure::refused(format!("`{id}` {NOT_YOURS}"));
        let id = AgentId::parse(id.trim()).map_err(|_| unknown())?;
        let all = self.delegates()?;
        let found = all.iter().find(|one| one.run == id && self.is_above(one, &all));
        found.cloned().ok_or_else(unknown)
    }

    /// The repository that the caller is in, by its path.
    pub(super) fn repository(&self) -> Result<String, Failure> {
        agent_names::place(&self.context.require_repository()?)
    }

    /// Whether an agent is below the caller. A person at a terminal is above all, a root session above
    /// what it started.
    pub fn is_above(&self, one: &Delegate, all: &[Delegate]) -> bool {
        let Some(caller) = &self.caller else {
            return self.root.is_none() || top(one, all).session == self.root;
        };
        let mut parent = one.parent.as_ref();
        // A chain of parents cannot be longer than the list.
        for _ in 0..=all.len() {
            match parent {
                Some(above) if above == caller => return true,
                Some(above) => {
                    let next = all.iter().find(|one| one.run == *above);
                    parent = next.and_then(|next| next.parent.as_ref());
                }
                None => return false,
            }
        }
        false
    }

    /// Waits for the spawn lock.
    pub(super) fn turn(&self) -> Result<SpawnLock, Failure> {
        let path: PathBuf = self.context.state.join("delegation.lock");
        let open = || -> std::io::Result<File> {
            std::fs::create_dir_all(&self.context.state)?;
            let file = File::options().create(true).truncate(false).write(true).open(&path)?;
            file.lock()?;
            Ok(file)
        };
        open().map(|file| SpawnLock { _file: file }).map_err(|error| {
            Failure::general(format!("{} cannot be locked: {error}", path.display()))
        })
    }
}

/// The topmost known ancestor of an agent; the agent itself if it has none.
fn top<'a>(one: &'a Delegate, all: &'a [Delegate]) -> &'a Delegate {
    let mut at = one;
    // A chain of parents cannot be longer than the list.
    for _ in 0..=all.len() {
        let above = at.parent.as_ref().and_then(|parent| all.iter().find(|one| one.run == *parent));
        let Some(above) = above else { break };
        at = above;
    }
    at
}

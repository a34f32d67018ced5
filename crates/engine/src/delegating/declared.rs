//! Sub-agents that a control plane has declared for a run: which there are, how many of them may run, and
//! whether what one returned is what it had to return.

use std::collections::BTreeMap;

use bailiwick_fleet::admission::compile::SubagentDefinition;
use bailiwick_fleet::subagents::{ActiveSubagents, may_start};
use bailiwick_kit::templates::list::{AgentListed, AgentsListed, ListAgents};
use bailiwick_model::template::{AgentType, Template};
use bailiwick_model::{AgentId, Delegate};
use bailiwick_runner::supervisor::RunDirectory;
use serde_json::{Value, json};

use super::caller::Caller;
use super::context_slice::context_hint;
use super::service::DelegationService;
use super::wait::Status;
use crate::failure::Failure;
use crate::managed::{ManagedRunConfig, template};
use crate::messages;

/// What a control plane has declared for the caller.
pub(super) struct Declared(pub(super) ManagedRunConfig);

impl Declared {
    /// The declared sub-agents and their descriptions.
    pub(super) fn spawnable(&self) -> Value {
        let all = self.templates();
        all.iter()
            .map(|one| json!({"agent_type": one.agent_type, "description": one.description}))
            .collect()
    }

    pub(super) fn listed(&self, request: &ListAgents) -> Result<Value, Failure> {
        let agent_type = request.agent_type.as_deref().map(AgentType::parse).transpose();
        let agent_type = agent_type.map_err(Failure::refused_by)?;
        let expanded = request.expanded.unwrap_or(false);
        let mut agents = Vec::new();
        for one in self.templates() {
            if agent_type.as_ref().is_some_and(|agent_type| !agent_type.folds_to(&one.agent_type)) {
                continue;
            }
            agents.push(AgentListed {
                allow_list: None,
                deny_list: None,
                agent_names: Vec::new(),
                model: one.model.clone().filter(|_| expanded),
                reasoning_effort: None,
                default_prompt: expanded.then(|| one.default_prompt.clone()),
                description: one.description,
                agent_type: one.agent_type,
            });
        }
        if let (Some(agent_type), true) = (agent_type, agents.is_empty()) {
            return Err(self.no_such(agent_type.as_str()));
        }
        serde_json::to_value(AgentsListed { agents, errors: Vec::new() })
            .map_err(Failure::refused_by)
    }

    /// The declared sub-agent with this name. Templates of the commit are not used.
    pub(super) fn template(&self, agent_type: Option<&AgentType>) -> Result<Template, Failure> {
        let Some(agent_type) = agent_type else {
            return Err(Failure::refused(format!(
                "name an agent_type among those that you may start: {}",
                self.names()
            )));
        };
        let mut all = self.templates().into_iter();
        let found = all.find(|one| one.agent_type.folds_to(agent_type));
        found.ok_or_else(|| self.no_such(agent_type.as_str()))
    }

    fn no_such(&self, name: &str) -> Failure {
        let may = self.names();
        Failure::refused(format!(
            "agent_type \"{name}\" is not among those that you may start: {may}"
        ))
    }

    fn names(&self) -> String {
        let names = self.0.subagents.iter().map(|one| one.name.as_str());
        names.collect::<Vec<_>>().join(", ")
    }

    fn templates(&self) -> Vec<Template> {
        // Names that cannot be requested were refused when the stack was compiled.
        let described = |one: &SubagentDefinition| {
            let mut template = template(one).ok()?;
            template.description.push_str(&context_hint(one, &self.0.sources));
            Some(template)
        };
        self.0.subagents.iter().filter_map(described).collect()
    }
}

impl DelegationService {
    /// What a control plane has declared for the caller; `None` if none started it.
    pub(super) fn declared(&self) -> Result<Option<Declared>, Failure> {
        let Some(caller) = &self.caller else { return Ok(None) };
        Ok(self.handed(caller)?.map(Declared))
    }

    fn handed(&self, run: &AgentId) -> Result<Option<ManagedRunConfig>, Failure> {
        ManagedRunConfig::of(&RunDirectory::new(&self.context.state, run.as_str()))
    }

    /// Returns an error if as many run as may be: of this sub-agent, for this run, its stack, its pool, its
    /// repository. Called with the spawn lock, so that the count is exact.
    pub(super) fn require_parallel(
        &self,
        declared: &Declared,
        name: &str,
        caller: &Caller,
        all: &[Delegate],
    ) -> Result<(), Failure> {
        let Some(definition) = declared.0.subagent(name) else {
            return Err(declared.no_such(name));
        };
        let own = caller.delegate.as_ref().map(|own| &own.run);
        let owner = &declared.0.owner;
        let mut at_work = ActiveSubagents::default();
        let mut managed: BTreeMap<AgentId, Option<ManagedRunConfig>> = BTreeMap::new();
        let busy = all.iter().filter(|one| one.depth > 0 && !one.closed && self.is_busy(one));
        for one in busy {
            let Some(parent) = &one.parent else { continue };
            if Some(parent) == own {
                at_work.run += 1;
                *at_work.by_definition.entry(one.agent_type.clone()).or_default() += 1;
            }
            if !managed.contains_key(parent) {
                managed.insert(parent.clone(), self.handed(parent)?);
            }
            let Some(Some(theirs)) = managed.get(parent) else { continue };
            at_work.stack += u32::from(theirs.owner.stack == owner.stack);
            at_work.pool += u32::from(theirs.owner.pool == owner.pool);
            at_work.repository += u32::from(theirs.owner.repository == owner.repository);
        }
        may_start(name, &definition.spec, &at_work, &declared.0.parallel)
            .map_err(|reached| Failure::refused(format!("collab spawn failed: {reached}")))
    }

    /// The same check for a resumed sub-agent.
    pub(super) fn require_parallel_again(&self, one: &Delegate) -> Result<(), Failure> {
        let Some(declared) = self.declared()? else { return Ok(()) };
        let caller = self.read_caller()?;
        self.require_parallel(&declared, &one.agent_type, &caller, &self.delegates()?)
    }

    /// How one that has ended stands when its contract is looked at, and what is wrong with what it returned;
    /// `None` where it has none.
    pub(super) fn check_contract(
        &self,
        one: &Delegate,
        status: Status,
    ) -> Result<(Status, Option<Vec<String>>), Failure> {
        let Status::Completed(words) = status else { return Ok((status, None)) };
        let managed = self.handed(&one.run)?;
        let Some(managed) = managed.filter(|managed| managed.contract.is_some()) else {
            return Ok((Status::Completed(words), None));
        };
        let last = self.attempts(&one.run)?.pop();
        let returned = match &last {
            Some(last) => messages::final_message(&self.context, &one.run, last)?,
            None => words.clone(),
        };
        let faults = managed.faults(&returned);
        if faults.is_empty() {
            return Ok((Status::Completed(words), Some(faults)));
        }
        let why = format!("ContractBroken: {}", faults.join("; "));
        Ok((Status::Errored(why), Some(faults)))
    }
}

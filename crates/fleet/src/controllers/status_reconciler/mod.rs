//! The status of declared resources: native objects and conditions, computed from what is observed.

mod default_tips;
mod definition_status;
mod event_samples;
mod mcp_server_status;
mod unreadable_objects;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bailiwick_resources::{
    AgentCapabilityRequirement, AgentCapabilityRequirementStatus, AgentConfigGrant,
    AgentContextLabel, AgentMcpServer, AgentRoleBinding, AgentSecretGrant, AgentServiceAccount,
    AgentSkill, AgentStack, AgentSubagent, AgentToolProfile, AgentTriggerRule,
    AgentWorkspacePolicy, AnyObject, ConditionType, Finding, Kind, Metadata, Object, Repository,
    Resource, RunnerPool, Standing, expected_conditions, settle,
};
use default_tips::DefaultTips;
use definition_status::{FoundSkills, synced_account, synced_roles};
use mcp_server_status::FoundServers;
use serde_json::{Map, Value};

use super::objects::ObjectQueries as _;
use super::repository_controller::repository_conditions;
use super::run_status::RunStatusWriter;
use super::{ReconcileError, ReconcileSummary};
use crate::admission::conditions::{
    StackInput, config_grant_conditions, context_label_conditions, mcp_server_conditions,
    requirement_status, role_binding_conditions, runner_pool_conditions, secret_grant_conditions,
    service_account_conditions, skill_conditions, stack_conditions, stack_pool,
    subagent_conditions, tool_profile_conditions, validation_of, workspace_policy_conditions,
};
use crate::admission::native::{self, NativeStep};
use crate::admission::review::{ReviewInput, Scope};
use crate::admission::snapshot::FrozenStack;
use crate::admission::{Inventory, Review, collect, review, snapshot};
use crate::controllers::audit_log::Correlation;
use crate::ports::{Clock, Commits, FleetStore, StackSources, Worktrees, Write};
use crate::triggers::{self, RepositoryFacts, RuleFacts};
use crate::wildcards;

/// Computes the status of everything that is declared.
pub(super) struct StatusReconciler<S, W> {
    store: Arc<S>,
    world: Arc<W>,
    statuses: Arc<RunStatusWriter<S, W>>,
    tips: DefaultTips<W>,
}

/// A stack with what it names, and the repositories that its identity is allowed to use.
struct FoundStack {
    stack: Object<AgentStack>,
    frozen: FrozenStack,
    repositories: Vec<Object<Repository>>,
}

impl<S, W> StatusReconciler<S, W> {
    pub(super) fn new(store: Arc<S>, world: Arc<W>, statuses: Arc<RunStatusWriter<S, W>>) -> Self {
        let tips = DefaultTips::new(Arc::clone(&world));
        Self { store, world, statuses, tips }
    }
}

impl<S: FleetStore, W: Clock + Commits + StackSources + Worktrees> StatusReconciler<S, W> {
    /// Updates the status of everything that is declared.
    pub(super) async fn reconcile(&self) -> ReconcileSummary {
        let mut summary = ReconcileSummary::default();
        let inventory = self.store.inventory().await;
        self.report_unreadable(&inventory, &mut summary).await;
        let native = self.native(&inventory).await;
        summary.record("platform", native);
        let inventory = self.store.inventory().await;
        let people = self.people().await.ok();
        macro_rules! each {
            ($inventory:ident, $type:ty, $conditions:expr) => {
                each!($inventory, $type, $conditions, |_: &_, _: &[Finding]| Map::new())
            };
            ($inventory:ident, $type:ty, $conditions:expr, $more:expr) => {
                match $inventory.readable::<$type>() {
                    Ok(objects) => {
                        for object in objects {
                            let found: Vec<Finding> = $conditions(&object);
                            let more = $more(&object, found.as_slice());
                            let stated = self.state(&object, found, more).await;
                            summary.record(object.name(), stated);
                        }
                    }
                    Err(error) => summary.record("inventory", Err(error.into())),
                }
            };
        }
        each!(
            inventory,
            AgentServiceAccount,
            |one| service_account_conditions(one, &inventory),
            synced_account
        );
        each!(
            inventory,
            AgentRoleBinding,
            |one| role_binding_conditions(one, &inventory, people.as_ref(), None),
            synced_roles
        );
        each!(inventory, AgentSecretGrant, |one| secret_grant_conditions(
            one,
            &inventory,
            people.as_ref(),
            self.world.now()
        ));
        each!(inventory, AgentConfigGrant, |one| config_grant_conditions(
            one,
            &inventory,
            people.as_ref()
        ));
        each!(inventory, AgentSubagent, |one| subagent_conditions(one, &inventory));
        each!(inventory, AgentToolProfile, |one| tool_profile_conditions(one, &inventory));
        each!(inventory, AgentWorkspacePolicy, workspace_policy_conditions);
        each!(inventory, RunnerPool, |one| runner_pool_conditions(one, &inventory));
        each!(inventory, Repository, repository_conditions);
        self.update_label_statuses(&inventory, &mut summary).await;
        let skills = self.reconcile_stacks(&inventory, &mut summary).await;
        // Their status now contains the findings.
        let inventory = self.store.inventory().await;
        each!(inventory, AgentMcpServer, mcp_server_conditions);
        each!(inventory, AgentSkill, |skill| skill_conditions(skill, skills.probe(skill)));
        each!(inventory, AgentContextLabel, context_label_conditions);
        self.reconcile_requirements(&inventory, &mut summary).await;
        self.reconcile_rules(&inventory, &mut summary).await;
        self.statuses.update_run_statuses(&inventory, &mut summary).await;
        summary
    }

    /// The known people: those who have a token.
    async fn people(&self) -> Result<BTreeSet<String>, ReconcileError> {
        let tokens = self.store.tokens().await?;
        Ok(tokens.into_iter().map(|token| token.actor).collect())
    }

    /// Syncs the native objects, and reports drift.
    async fn native(&self, inventory: &Inventory) -> Result<bool, ReconcileError> {
        let steps = native::plan(inventory)?;
        if steps.is_empty() {
            return Ok(false);
        }
        let mut writes = Vec::new();
        for step in steps {
            let place = &step.object().metadata;
            let subject = format!("{}/{}/{}", step.object().kind, place.namespace, place.name);
            writes.push(Correlation::default().line(
                self.world.now(),
                step.event(),
                subject,
                Value::Null,
            ));
            writes.push(match step {
                NativeStep::Make(object) => Write::Create(object),
                NativeStep::Change(object) | NativeStep::Tell(object) => Write::Replace(object),
                NativeStep::Remove(object) => Write::Delete {
                    kind: object.kind,
                    namespace: object.metadata.namespace,
                    name: object.metadata.name,
                    version: object.metadata.resource_version,
                },
            });
        }
        self.store.commit(writes, self.world.now()).await?;
        Ok(true)
    }

    /// Updates the status of stacks, skills and servers, and returns what was found of the skills.
    async fn reconcile_stacks(
        &self,
        inventory: &Inventory,
        summary: &mut ReconcileSummary,
    ) -> FoundSkills {
        let stacks = match inventory.readable::<AgentStack>() {
            Ok(stacks) => stacks,
            Err(error) => {
                summary.record("stacks", Err(error.into()));
                return FoundSkills::default();
            }
        };
        let (mut skills, mut servers) = (FoundSkills::default(), FoundServers::default());
        let mut found_stacks = Vec::new();
        for stack in stacks {
            let name = stack.name().to_owned();
            match find_parts(inventory, stack) {
                Ok(found) => found_stacks.push(found),
                Err(error) => summary.record(&name, Err(error)),
            }
        }
        let lists: Vec<_> = found_stacks.iter().map(|one| one.repositories.as_slice()).collect();
        self.tips.update(&lists).await;
        for one in &found_stacks {
            let found = (&mut skills, &mut servers);
            let result = self.reconcile_stack(inventory, one, found).await;
            summary.record(one.stack.name(), result);
        }
        self.update_skill_statuses(inventory, &skills, summary).await;
        self.update_server_statuses(&servers, summary).await;
        skills
    }

    async fn reconcile_stack(
        &self,
        inventory: &Inventory,
        FoundStack { stack, frozen, repositories }: &FoundStack,
        (skills, servers): (&mut FoundSkills, &mut FoundServers),
    ) -> Result<bool, ReconcileError> {
        let at = self.tips.first_known(repositories);
        let place = at.as_ref().map(|(repository, sha)| (&repository.spec, sha.as_str()));
        let facts = self.world.stack_facts(frozen, place).await;
        for skill in &frozen.skills {
            if let Some(probe) = facts.skills.get(skill.name()) {
                skills.add(skill, probe);
            }
        }
        servers.add(frozen, &facts, repositories);
        let pool = stack_pool(frozen, inventory).ok().flatten();
        let reviewed = review(&ReviewInput {
            frozen,
            requirements: &collect(frozen),
            inventory,
            scope: Scope::Stack,
            pool: pool.as_ref(),
            approval_policy: &Default::default(),
            now: self.world.now(),
        });
        let findings = stack_conditions(&StackInput {
            frozen,
            inventory,
            facts: &facts,
            repositories,
            reviews: &[reviewed],
        });
        let mut more = Map::new();
        let validation = validation_of(&findings);
        more.insert("validation".to_owned(), serde_json::to_value(validation).unwrap_or_default());
        let program = serde_json::to_value(&facts.program).unwrap_or_default();
        more.insert("capabilities".to_owned(), program);
        self.state(stack, findings, more).await
    }

    /// Records what stacks and their parts require, and whether each requirement has its grant. Several stacks can
    /// share a part: the worst result is recorded.
    async fn reconcile_requirements(&self, inventory: &Inventory, summary: &mut ReconcileSummary) {
        let stacks = match inventory.readable::<AgentStack>() {
            Ok(stacks) => stacks,
            Err(error) => return summary.record("stacks", Err(error.into())),
        };
        let mut needed: BTreeMap<(String, String), Vec<(AgentCapabilityRequirement, Review)>> =
            BTreeMap::new();
        let mut all_known = true;
        for stack in stacks {
            let namespace = &stack.metadata.namespace;
            let Ok(frozen) = snapshot(inventory, namespace, stack.name(), &[]) else {
                all_known = false;
                continue;
            };
            let requirements = collect(&frozen);
            let reviewed = review(&ReviewInput {
                frozen: &frozen,
                requirements: &requirements,
                inventory,
                scope: Scope::Stack,
                pool: None,
                approval_policy: &Default::default(),
                now: self.world.now(),
            });
            for (name, record) in requirements.records {
                let place = (namespace.clone(), name);
                needed.entry(place).or_default().push((record, reviewed.clone()));
            }
        }
        for ((namespace, name), records) in &needed {
            let result = self.require(inventory, namespace, name, records).await;
            summary.record(name, result);
        }
        let known = inventory.readable::<AgentCapabilityRequirement>().unwrap_or_default();
        for old in known {
            let place = (old.metadata.namespace.clone(), old.name().to_owned());
            if all_known && !needed.contains_key(&place) {
                let result = self.unneeded(&old).await;
                summary.record(old.name(), result);
            }
        }
    }

    /// Stores one requirement, if it changed.
    async fn require(
        &self,
        inventory: &Inventory,
        namespace: &str,
        name: &str,
        records: &[(AgentCapabilityRequirement, Review)],
    ) -> Result<bool, ReconcileError> {
        let known = inventory.get::<AgentCapabilityRequirement>(namespace, name).ok();
        let metadata =
            Metadata { namespace: namespace.to_owned(), ..Metadata::named(name.to_owned()) };
        let Some((spec, _)) = records.first() else { return Ok(false) };
        let mut record = known.clone().unwrap_or_else(|| Object::new(metadata, spec.clone()));
        record.spec = spec.clone();
        let now = self.world.now();
        let statuses: Vec<AgentCapabilityRequirementStatus> = records
            .iter()
            .map(|(_, review)| requirement_status(&record, inventory, Some(review), now))
            .collect();
        let ready = |status: &AgentCapabilityRequirementStatus| {
            let ready = status.conditions.iter().find(|one| one.kind == ConditionType::Ready);
            ready.map_or(Standing::Unknown, |one| one.status)
        };
        let worst = [Standing::False, Standing::Unknown, Standing::True]
            .into_iter()
            .find_map(|standing| statuses.iter().find(|status| ready(status) == standing));
        record.status = worst.cloned().unwrap_or_default();
        let write = match &known {
            None => {
                // A new object has the generation of its first spec.
                record.status.observed_generation = 1;
                record.status.conditions.iter_mut().for_each(|one| one.observed_generation = 1);
                Write::Create(AnyObject::of(&record)?)
            }
            Some(known) if known.spec != record.spec => Write::Replace(AnyObject::of(&record)?),
            Some(known) if known.status != record.status => Write::Status(AnyObject::of(&record)?),
            Some(_) => return Ok(false),
        };
        self.store.commit(vec![write], now).await?;
        Ok(true)
    }

    /// Deletes a requirement that has no owner any more.
    async fn unneeded(
        &self,
        old: &Object<AgentCapabilityRequirement>,
    ) -> Result<bool, ReconcileError> {
        let gone = Write::Delete {
            kind: Kind::AgentCapabilityRequirement,
            namespace: old.metadata.namespace.clone(),
            name: old.name().to_owned(),
            version: old.metadata.resource_version,
        };
        self.store.commit(vec![gone], self.world.now()).await?;
        Ok(true)
    }

    async fn reconcile_rules(&self, inventory: &Inventory, summary: &mut ReconcileSummary) {
        let rules = match self.store.rules().await {
            Ok(rules) => rules,
            Err(error) => return summary.record("rules", Err(error)),
        };
        let repositories = match inventory.readable::<Repository>() {
            Ok(repositories) => repositories,
            Err(error) => return summary.record("repositories", Err(error.into())),
        };
        let told = |repository: &Object<Repository>| RepositoryFacts {
            full_name: repository.spec.full_name.clone(),
            forge: repository.spec.forge,
            has_webhook_secret: has_secret(inventory, repository),
            known_workflows: some(&repository.status.known_workflows),
            known_labels: some(&repository.status.known_labels),
        };
        let samples = match self.samples().await {
            Ok(samples) => samples,
            Err(error) => return summary.record("deliveries", Err(error)),
        };
        for rule in rules {
            let facts = RuleFacts {
                repositories: repositories.iter().map(told).collect(),
                stack: stack_facts(inventory, &rule),
                sample: triggers::sample(&rule.spec, &samples),
            };
            let findings = triggers::conditions(rule.name(), &rule.spec, &facts);
            let stated = self.state(&rule, findings, Map::new()).await;
            summary.record(rule.name(), stated);
        }
    }

    /// Stores the conditions of an object, if they changed.
    async fn state<R: Resource>(
        &self,
        object: &Object<R>,
        findings: Vec<Finding>,
        more: Map<String, Value>,
    ) -> Result<bool, ReconcileError> {
        let mut kept = AnyObject::of(object)?;
        let expected: Vec<ConditionType> = expected_conditions(kept.kind).to_vec();
        let found: Vec<ConditionType> = findings.iter().map(|finding| finding.kind).collect();
        if expected != found {
            return Err(ReconcileError::ConditionsMismatch(kept.kind));
        }
        let generation = kept.metadata.generation;
        let before = kept.conditions();
        let conditions = settle(&before, findings, generation, self.world.now());
        let old = kept.status.clone();
        let Some(status) = kept.status.as_object_mut() else {
            return Err(ReconcileError::NoStatus(kept.kind));
        };
        status
            .insert("conditions".to_owned(), serde_json::to_value(conditions).unwrap_or_default());
        status.insert("observedGeneration".to_owned(), generation.into());
        for (field, value) in more {
            // Unknown values are removed.
            if value.is_null() {
                status.remove(&field);
            } else {
                status.insert(field, value);
            }
        }
        if kept.status == old {
            return Ok(false);
        }
        self.store.commit(vec![Write::Status(kept)], self.world.now()).await?;
        Ok(true)
    }
}

fn find_parts(
    inventory: &Inventory,
    stack: Object<AgentStack>,
) -> Result<FoundStack, ReconcileError> {
    let frozen = snapshot(inventory, &stack.metadata.namespace, stack.name(), &[])?;
    let repositories = allowed(inventory, &frozen.service_account)?;
    Ok(FoundStack { stack, frozen, repositories })
}

fn some(all: &[String]) -> Option<Vec<String>> {
    (!all.is_empty()).then(|| all.to_vec())
}

/// The repositories that an identity is allowed to use.
fn allowed(
    inventory: &Inventory,
    account: &Option<Object<AgentServiceAccount>>,
) -> Result<Vec<Object<Repository>>, ReconcileError> {
    let all = inventory.readable::<Repository>()?;
    let globs = account.as_ref().map(|one| one.spec.allowed_repositories.clone());
    let globs = globs.unwrap_or_default();
    let mine = |repository: &Object<Repository>| wildcards::any(&globs, &repository.spec.full_name);
    Ok(all.into_iter().filter(mine).collect())
}

fn has_secret(inventory: &Inventory, repository: &Object<Repository>) -> bool {
    let Some(key) = &repository.spec.webhook_secret_ref else { return false };
    let namespace = &repository.metadata.namespace;
    let secret = inventory.get::<bailiwick_resources::Secret>(namespace, &key.name).ok();
    secret.is_some_and(|secret| secret.spec.keys.contains_key(&key.key))
}

fn stack_facts(inventory: &Inventory, rule: &Object<AgentTriggerRule>) -> triggers::StackFacts {
    let namespace = &rule.metadata.namespace;
    let Some(stack) = inventory.get::<AgentStack>(namespace, &rule.spec.agent_stack).ok() else {
        return triggers::StackFacts::Missing;
    };
    let ready = stack.status.conditions.iter().find(|one| one.kind == ConditionType::Ready);
    let current = ready.filter(|one| one.observed_generation == stack.metadata.generation);
    match current {
        None => triggers::StackFacts::Unknown("it has not been checked yet".to_owned()),
        Some(one) => match one.status {
            Standing::True => triggers::StackFacts::Ready,
            Standing::False => triggers::StackFacts::NotReady(one.message.clone()),
            Standing::Unknown => triggers::StackFacts::Unknown(one.message.clone()),
        },
    }
}

//! The status of skills, labels and identities besides their conditions: what was found, the digests of
//! their texts, and the native objects that represent them.

use std::collections::BTreeMap;

use bailiwick_model::Sha256Hex;
use bailiwick_resources::{
    AgentContextLabel, AgentContextLabelStatus, AgentRoleBinding, AgentServiceAccount, AgentSkill,
    AgentSkillStatus, AnyObject, ConditionType, Finding, Kind, Object, ObjectRef, Resource,
    RoleRefKind, SkillFormat, Standing, Validation,
};
use serde_json::{Map, Value, json};

use crate::admission::conditions::SkillProbe;
use crate::admission::{Inventory, roles};
use crate::bundle::unsafe_patterns;
use crate::controllers::status_reconciler::StatusReconciler;
use crate::controllers::{ReconcileError, ReconcileSummary};
use crate::ports::{Clock, Commits, FleetStore, StackSources, Worktrees, Write};

/// The worst probe of each skill, by namespace and name.
#[derive(Debug, Default)]
pub(super) struct FoundSkills(BTreeMap<(String, String), SkillProbe>);

impl FoundSkills {
    /// The worst probe of a skill.
    pub(super) fn probe(&self, skill: &Object<AgentSkill>) -> Option<&SkillProbe> {
        self.0.get(&(skill.metadata.namespace.clone(), skill.name().to_owned()))
    }

    /// Adds a probe. A skill that is missing in one repository counts as missing.
    pub(super) fn add(&mut self, skill: &Object<AgentSkill>, probe: &SkillProbe) {
        let place = (skill.metadata.namespace.clone(), skill.name().to_owned());
        let known = self.0.entry(place).or_insert_with(|| probe.clone());
        if severity(probe) > severity(known) {
            *known = probe.clone();
        }
    }
}

fn severity(probe: &SkillProbe) -> u8 {
    match probe {
        SkillProbe::NotYet => 0,
        SkillProbe::Found { .. } => 1,
        SkillProbe::Missing => 2,
        SkillProbe::Invalid(_) => 3,
    }
}

impl<S: FleetStore, W: Clock + Commits + StackSources + Worktrees> StatusReconciler<S, W> {
    pub(super) async fn update_skill_statuses(
        &self,
        inventory: &Inventory,
        found: &FoundSkills,
        summary: &mut ReconcileSummary,
    ) {
        for mut skill in inventory.readable::<AgentSkill>().unwrap_or_default() {
            let status = skill_status(&skill, found.probe(&skill));
            let news = skill.status != status;
            skill.status = status;
            let stated = self.news(&skill, news).await;
            summary.record(skill.name(), stated);
        }
    }

    pub(super) async fn update_label_statuses(
        &self,
        inventory: &Inventory,
        summary: &mut ReconcileSummary,
    ) {
        for mut label in inventory.readable::<AgentContextLabel>().unwrap_or_default() {
            let text = &label.spec.prompt_fragment;
            let status = AgentContextLabelStatus {
                digest: Sha256Hex::of(text).to_string(),
                unsafe_patterns: unsafe_patterns(text).into_iter().map(|one| one.text).collect(),
                conditions: label.status.conditions.clone(),
                observed_generation: label.metadata.generation,
            };
            let news = label.status != status;
            label.status = status;
            let stated = self.news(&label, news).await;
            summary.record(label.name(), stated);
        }
    }

    async fn news<R: Resource>(
        &self,
        object: &Object<R>,
        news: bool,
    ) -> Result<bool, ReconcileError> {
        if news {
            let write = Write::Status(AnyObject::of(object)?);
            self.store.commit(vec![write], self.world.now()).await?;
        }
        Ok(news)
    }
}

fn skill_status(skill: &Object<AgentSkill>, probe: Option<&SkillProbe>) -> AgentSkillStatus {
    let (validation, message, digest) = match (probe, skill.spec.format) {
        (Some(SkillProbe::Found { digest, .. }), _) => {
            (Validation::Valid, String::new(), Some(digest.clone()))
        }
        (Some(SkillProbe::Missing), _) => {
            let message = "it is not where its source says, in a repository whose stack names it";
            (Validation::Invalid, message.to_owned(), None)
        }
        (Some(SkillProbe::Invalid(why)), _) => (Validation::Invalid, why.clone(), None),
        (Some(SkillProbe::NotYet) | None, SkillFormat::Inline) => {
            let text = skill.spec.source_ref.inline.clone().unwrap_or_default();
            (Validation::Valid, String::new(), Some(Sha256Hex::of(text).to_string()))
        }
        (
            Some(SkillProbe::NotYet) | None,
            SkillFormat::File | SkillFormat::Directory | SkillFormat::Package,
        ) => {
            let message = "no stack that names it has been checked yet";
            (Validation::Warning, message.to_owned(), None)
        }
    };
    let observed_generation = skill.metadata.generation;
    let conditions = skill.status.conditions.clone();
    AgentSkillStatus { validation, message, digest, conditions, observed_generation }
}

fn holds(findings: &[Finding], kind: ConditionType) -> bool {
    findings.iter().any(|one| one.kind == kind && one.status == Standing::True)
}

/// The native identity of an agent service account, once it is synced.
pub(super) fn synced_account(
    account: &Object<AgentServiceAccount>,
    findings: &[Finding],
) -> Map<String, Value> {
    let synced = holds(findings, ConditionType::ServiceAccountSynced);
    let name = synced.then(|| roles::native_account(account).name().to_owned());
    Map::from_iter([("syncedServiceAccount".to_owned(), json!(name))])
}

/// The native binding of an agent role binding and its role, once they are synced.
pub(super) fn synced_roles(
    binding: &Object<AgentRoleBinding>,
    findings: &[Finding],
) -> Map<String, Value> {
    let mut refs = Vec::new();
    if holds(findings, ConditionType::NativeBindingSynced) {
        let native = roles::native_binding(binding);
        let name = native.name().to_owned();
        let namespace = Some(native.metadata.namespace.clone())
            .filter(|namespace| *namespace != binding.metadata.namespace);
        refs.push(ObjectRef { kind: Kind::RoleBinding, name, namespace });
        match binding.spec.role_ref.kind {
            RoleRefKind::Role => {
                let name = binding.spec.role_ref.name.clone();
                refs.push(ObjectRef { kind: Kind::Role, name, namespace: None });
            }
            RoleRefKind::ClusterRole | RoleRefKind::RoleTemplate => {}
        }
    }
    Map::from_iter([("syncedRoleRefs".to_owned(), json!(refs))])
}

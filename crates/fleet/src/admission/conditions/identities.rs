//! The conditions of identities and of role bindings.

use std::collections::BTreeSet;

use bailiwick_resources::{
    AgentMcpServer, AgentRoleBinding, AgentServiceAccount, AgentSkill, AgentStack,
    AgentToolProfile, ConditionType, Finding, Object, Reason, Resource, RoleBinding, RunnerPool,
    Secret, ServiceAccount, Subject, SubjectKind,
};

use super::facts::AuthorFacts;
use super::{Judgement, with_ready};
use crate::admission::inventory::{Found, Inventory};
use crate::admission::ownership;
use crate::admission::roles::{self, Escalation, EscalationAnswer};

/// The bounds of a token's life, in seconds.
const TOKEN_LIFE: std::ops::RangeInclusive<u64> = 600..=86_400;

/// The four conditions of an identity.
pub fn service_account_conditions(
    account: &Object<AgentServiceAccount>,
    inventory: &Inventory,
) -> Vec<Finding> {
    let spec = &account.spec;
    let native = inventory.get::<ServiceAccount>(&spec.namespace, &spec.service_account_name);
    let full = format!("{}/{}", spec.namespace, spec.service_account_name);
    let mut synced = Judgement::of(ConditionType::ServiceAccountSynced);
    let mut tokens = Judgement::of(ConditionType::TokenProjectionAllowed);
    match &native {
        Found::Missing => {
            let message = format!("the platform has no identity `{full}`");
            synced.fault(Reason::ServiceAccountMissing, message.clone());
            tokens.fault(Reason::ServiceAccountMissing, message);
        }
        Found::Unknown(why) => {
            synced.doubt(Reason::AccessReviewUnavailable, why);
            tokens.doubt(Reason::AccessReviewUnavailable, why);
        }
        Found::Here(native) => {
            let wanted = roles::native_account(account);
            if native.spec.image_pull_secrets != wanted.spec.image_pull_secrets {
                let message = format!("`{full}` is not what it should be");
                synced.fault(Reason::ServiceAccountDrifted, message);
            }
            if native.spec.forbid_token_projection {
                let message = format!("the platform makes no tokens for `{full}`");
                tokens.fault(Reason::TokenProjectionForbidden, message);
            }
        }
    }
    if spec.automount_service_account_token && !spec.has_audience() {
        let message = "a token without `tokenAudience` would be one of the API server: add it";
        tokens.fault(Reason::TokenProjectionForbidden, message);
    }
    if !TOKEN_LIFE.contains(&spec.token_expiration_seconds) {
        let message =
            format!("a token may live {} to {} seconds", TOKEN_LIFE.start(), TOKEN_LIFE.end());
        tokens.fault(Reason::TokenLifetimeOutOfBounds, message);
    }
    let mut images = Judgement::of(ConditionType::ImagePullSecretsReady);
    for name in &spec.image_pull_secret_refs {
        match inventory.get::<Secret>(&spec.namespace, name) {
            Found::Here(_) => {}
            Found::Missing => {
                images
                    .fault(Reason::ImagePullSecretMissing, format!("there is no secret `{name}`"));
            }
            Found::Unknown(why) => images.doubt(Reason::AccessReviewUnavailable, why),
        }
    }
    with_ready(vec![
        synced.end(Reason::NativeObjectReady, format!("`{full}` is as it should be")),
        tokens.end(Reason::TokenProjectionAllowed, "tokens may be made"),
        images.end(Reason::ImagePullSecretsFound, "the secrets for pulling images are there"),
    ])
}

/// The five conditions of a role binding. `people` are those that the identity provider knows, if it was asked.
pub fn role_binding_conditions(
    binding: &Object<AgentRoleBinding>,
    inventory: &Inventory,
    people: Option<&BTreeSet<String>>,
    author: Option<&AuthorFacts>,
) -> Vec<Finding> {
    let mut resolved = Judgement::of(ConditionType::RoleResolved);
    let mut escalated = Judgement::of(ConditionType::EscalationAdmitted);
    match roles::rules_of(inventory, binding) {
        Found::Missing => {
            let message = format!("there is no role `{}`", binding.spec.role_ref.name);
            resolved.fault(Reason::RoleMissing, message.clone());
            escalated.doubt(Reason::NotYetObserved, message);
        }
        Found::Unknown(why) => {
            resolved.doubt(Reason::AccessReviewUnavailable, &why);
            escalated.doubt(Reason::AccessReviewUnavailable, why);
        }
        Found::Here(role) => {
            let mut rules = role.spec.rules.clone();
            rules.extend(binding.spec.resource_rules.iter().cloned());
            let beyond = author.is_some_and(|author| !roles::within(&rules, &author.rules));
            let mut escalation = roles::escalation(&binding.spec, &role.spec);
            if beyond && escalation == Escalation::No {
                escalation = Escalation::Privileged("it gives more than its author has".to_owned());
            }
            escalate(inventory, binding, &escalation, author, &mut escalated);
        }
    }
    let mut subjects = Judgement::of(ConditionType::SubjectsResolved);
    subject_is_there(
        inventory,
        &binding.metadata.namespace,
        &binding.spec.subject,
        people,
        &mut subjects,
    );
    let wanted = roles::native_binding(binding);
    let mut synced = Judgement::of(ConditionType::NativeBindingSynced);
    match inventory.get::<RoleBinding>(&wanted.metadata.namespace, wanted.name()) {
        Found::Missing => {
            let message = format!("the platform has no binding `{}` yet", wanted.name());
            synced.fault(Reason::NativeBindingMissing, message);
        }
        Found::Unknown(why) => synced.doubt(Reason::AccessReviewUnavailable, why),
        Found::Here(native) if native.spec != wanted.spec => {
            let message = format!("the platform's `{}` is not what it should be", wanted.name());
            synced.fault(Reason::NativeBindingDrifted, message);
        }
        Found::Here(_) => {}
    }
    with_ready(vec![
        resolved.end(Reason::RoleFound, "the role is there"),
        subjects.end(Reason::SubjectsFound, "its subjects exist"),
        synced.end(Reason::RoleBindingReady, "the platform's binding is as it should be"),
        escalated.end(Reason::NoEscalation, "it gives no more than is allowed"),
    ])
}

fn escalate(
    inventory: &Inventory,
    binding: &Object<AgentRoleBinding>,
    escalation: &Escalation,
    author: Option<&AuthorFacts>,
    judgement: &mut Judgement,
) {
    let why = match escalation {
        Escalation::No => return,
        Escalation::Cluster(why) | Escalation::Privileged(why) => why.clone(),
    };
    match roles::answer(binding.spec.escalation_policy, escalation) {
        EscalationAnswer::Admitted => {}
        EscalationAnswer::Ask if author.is_some_and(|author| author.approved) => {}
        EscalationAnswer::Ask => judgement.fault(Reason::EscalationNeedsApproval, why),
        EscalationAnswer::IfOwner => match ownership::authors(inventory, binding) {
            Ok(_) => {
                let why = format!("{why}: CODEOWNERS decides for each run");
                judgement.doubt(Reason::NotYetObserved, why);
            }
            Err(error) => judgement.fault(Reason::EscalationDenied, format!("{why}: {error}")),
        },
        EscalationAnswer::Denied => judgement.fault(Reason::EscalationDenied, why),
    }
}

/// Whether a subject is there.
pub(super) fn subject_is_there(
    inventory: &Inventory,
    namespace: &str,
    subject: &Subject,
    people: Option<&BTreeSet<String>>,
    judgement: &mut Judgement,
) {
    fn look<R: Resource>(
        inventory: &Inventory,
        namespace: &str,
        name: &str,
        judgement: &mut Judgement,
    ) {
        match inventory.get::<R>(namespace, name) {
            Found::Here(_) => {}
            Found::Missing => {
                judgement
                    .fault(Reason::SubjectMissing, format!("there is no {} `{name}`", R::KIND));
            }
            Found::Unknown(why) => judgement.doubt(Reason::AccessReviewUnavailable, why),
        }
    }
    let name = &subject.name;
    match subject.kind {
        SubjectKind::AgentStack => look::<AgentStack>(inventory, namespace, name, judgement),
        SubjectKind::RunnerPool => look::<RunnerPool>(inventory, namespace, name, judgement),
        SubjectKind::ServiceAccount => {
            look::<AgentServiceAccount>(inventory, namespace, name, judgement);
        }
        SubjectKind::Tool => look::<AgentToolProfile>(inventory, namespace, name, judgement),
        SubjectKind::Skill => look::<AgentSkill>(inventory, namespace, name, judgement),
        SubjectKind::McpServer => look::<AgentMcpServer>(inventory, namespace, name, judgement),
        SubjectKind::Group | SubjectKind::Team => {
            if !inventory.has_members(name) {
                let message = format!("no member of the group `{name}` has signed in yet");
                judgement.doubt(Reason::NotYetObserved, message);
            }
        }
        SubjectKind::User => match people {
            None => judgement.doubt(Reason::NotYetObserved, "the identity provider was not asked"),
            Some(people) if people.contains(name) => {}
            Some(_) => judgement.fault(Reason::SubjectMissing, format!("`{name}` is not known")),
        },
    }
    if let Some(stack) = &subject.stack_ref {
        look::<AgentStack>(inventory, namespace, stack, judgement);
    }
    if let Some(account) = &subject.service_account_ref {
        look::<AgentServiceAccount>(inventory, namespace, account, judgement);
    }
}

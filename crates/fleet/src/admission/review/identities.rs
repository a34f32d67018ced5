//! The identity of the work, and its roles.

use bailiwick_resources::{
    AgentRoleBinding, AgentServiceAccount, Kind, Object, OwnerKind, Reason, Repository,
    RoleBinding, ScopeKind, ServiceAccount, Subject, SubjectKind,
};

use super::entries::{Entry, EntryDecision};
use super::{RequiredRole, ReviewInput, Scope, identity_tokens};
use crate::admission::access::{Access, Platform, access, platform};
use crate::admission::inventory::Found;
use crate::admission::ownership::{self, NotOwner};
use crate::admission::roles::{self, Escalation, EscalationAnswer};
use crate::wildcards;

/// The identities that were found.
pub(super) struct Identities {
    pub(super) runtime: Option<String>,
    pub(super) runner: Option<String>,
    pub(super) entries: Vec<Entry>,
}

pub(super) fn resolve(input: &ReviewInput<'_>) -> Identities {
    let frozen = input.frozen;
    let name = &frozen.stack.spec.runtime_identity.service_account_ref;
    let about = format!("AgentServiceAccount/{name}");
    let mut entries = Vec::new();
    let mut runtime = None;
    match &frozen.service_account {
        None => entries.push(absent(input, &about)),
        Some(account) => {
            runtime = native(input, account, &about, &mut entries);
            here(input, account, &about, &mut entries);
            entries.extend(belongs(input, account, &about));
            entries.extend(identity_tokens::objection(input, account, &about));
        }
    }
    for name in frozen.subagents.iter().filter_map(|c| c.spec.runtime_identity_override.as_ref()) {
        entries.extend(act_as(input, name));
    }
    let mut runner = None;
    if let Some(pool) = input.pool {
        let name = &pool.spec.service_account_ref;
        let about = format!("AgentServiceAccount/{name}");
        match input.inventory.get::<AgentServiceAccount>(&pool.metadata.namespace, name) {
            Found::Here(account) => {
                runner = native(input, &account, &about, &mut entries);
                entries.extend(held_by(pool.name(), &account, &about));
            }
            Found::Missing => {
                let message =
                    format!("the pool `{}` runs as `{name}`, which is not there", pool.name());
                entries.push(denied(Reason::ServiceAccountMissing, &about, message));
            }
            Found::Unknown(why) => {
                entries.push(denied(Reason::AccessReviewUnavailable, &about, why));
            }
        }
    }
    Identities { runtime, runner, entries }
}

/// Why a stack may not use an identity.
fn belongs(
    input: &ReviewInput<'_>,
    account: &Object<AgentServiceAccount>,
    about: &str,
) -> Option<Entry> {
    let owner = &account.spec.owner;
    let owned = match owner.kind {
        OwnerKind::Organization => true,
        OwnerKind::AgentStack => owner.name == input.frozen.stack.name(),
        OwnerKind::RunnerPool => false,
        OwnerKind::Repository => match input.scope {
            Scope::Stack => true,
            Scope::Run(situation) => is_repository(input, &owner.name, &situation.repository),
        },
    };
    let message = format!("it belongs to {:?} `{}`", owner.kind, owner.name);
    (!owned).then(|| denied(Reason::SubjectNotAuthorized, about, message))
}

/// Why an identity is not that of a pool's runners.
fn held_by(pool: &str, account: &Object<AgentServiceAccount>, about: &str) -> Option<Entry> {
    let owner = &account.spec.owner;
    let owned = match owner.kind {
        OwnerKind::Organization => true,
        OwnerKind::RunnerPool => owner.name == pool,
        OwnerKind::AgentStack | OwnerKind::Repository => false,
    };
    let message =
        format!("it belongs to {:?} `{}`, not to the pool `{pool}`", owner.kind, owner.name);
    (!owned).then(|| denied(Reason::SubjectNotAuthorized, about, message))
}

/// The faults of the identity that a sub-agent would have.
fn act_as(input: &ReviewInput<'_>, name: &str) -> Vec<Entry> {
    let about = format!("AgentServiceAccount/{name}");
    let mut entries = Vec::new();
    match input.inventory.get::<AgentServiceAccount>(input.frozen.namespace(), name) {
        Found::Here(account) => {
            native(input, &account, &about, &mut entries);
            here(input, &account, &about, &mut entries);
            entries.extend(belongs(input, &account, &about));
            entries.extend(identity_tokens::objection(input, &account, &about));
        }
        Found::Missing => {
            let message = "a sub-agent would act as it, and it is not there";
            entries.push(denied(Reason::ServiceAccountMissing, &about, message));
        }
        Found::Unknown(why) => entries.push(denied(Reason::AccessReviewUnavailable, &about, why)),
    }
    entries
}

/// Whether a repository is called so, by its object or by its forge.
fn is_repository(input: &ReviewInput<'_>, name: &str, full_name: &str) -> bool {
    let object = input.inventory.get::<Repository>(input.frozen.namespace(), name).ok();
    let by_object =
        object.is_some_and(|object| object.spec.full_name.eq_ignore_ascii_case(full_name));
    by_object || name.eq_ignore_ascii_case(full_name)
}

fn denied(code: Reason, about: &str, message: impl Into<String>) -> Entry {
    Entry::new(EntryDecision::Denied, code, about, message)
}

fn absent(input: &ReviewInput<'_>, about: &str) -> Entry {
    let missing = input.frozen.missing_of(Kind::AgentServiceAccount).next();
    let unknown = missing.is_some_and(|missing| missing.unknown);
    let code =
        if unknown { Reason::AccessReviewUnavailable } else { Reason::ServiceAccountMissing };
    let why = missing.map_or("it is not there", |missing| &missing.why);
    denied(code, about, format!("the identity of the stack cannot be used: {why}"))
}

/// The platform's identity behind ours.
fn native(
    input: &ReviewInput<'_>,
    account: &Object<AgentServiceAccount>,
    about: &str,
    entries: &mut Vec<Entry>,
) -> Option<String> {
    let spec = &account.spec;
    let full = format!("{}/{}", spec.namespace, spec.service_account_name);
    match input.inventory.get::<ServiceAccount>(&spec.namespace, &spec.service_account_name) {
        Found::Missing => {
            let message = format!("the platform has no identity `{full}`");
            entries.push(denied(Reason::ServiceAccountMissing, about, message));
            None
        }
        Found::Unknown(why) => {
            entries.push(denied(Reason::AccessReviewUnavailable, about, why));
            None
        }
        Found::Here(native) if native.spec.forbid_token_projection => {
            let message = format!("the platform makes no tokens for `{full}`");
            entries.push(denied(Reason::TokenProjectionForbidden, about, message));
            None
        }
        Found::Here(_) => {
            let message = format!("`{full}` is there and may receive tokens");
            entries.push(Entry::allowed(Reason::ServiceAccountReady, about, message));
            Some(full)
        }
    }
}

/// Whether the identity may work here, in this pool.
fn here(
    input: &ReviewInput<'_>,
    account: &Object<AgentServiceAccount>,
    about: &str,
    entries: &mut Vec<Entry>,
) {
    if let Scope::Run(situation) = input.scope {
        if !wildcards::any(&account.spec.allowed_repositories, &situation.repository) {
            let message = format!("it may not work on `{}`", situation.repository);
            entries.push(denied(Reason::SubjectNotAuthorized, about, message));
        }
        if input.pool.is_none() {
            let message = "no pool was chosen, so that nobody knows who runs it";
            entries.push(denied(Reason::ServiceAccountCannotUseRunner, about, message));
        }
    }
    let Some(pool) = input.pool else { return };
    if !account.spec.allowed_runner_pools.iter().any(|name| name == pool.name()) {
        let message = format!("it may not run in the pool `{}`", pool.name());
        entries.push(denied(Reason::ServiceAccountCannotUseRunner, about, message));
    }
}

pub(super) fn roles(input: &ReviewInput<'_>) -> Vec<RequiredRole> {
    let names = &input.requirements.role_bindings;
    names.iter().map(|name| role(input, name)).collect()
}

fn role(input: &ReviewInput<'_>, name: &str) -> RequiredRole {
    let frozen = input.frozen;
    let about = format!("AgentRoleBinding/{name}");
    let found = frozen.role_bindings.iter().find(|binding| binding.name() == name);
    let Some(binding) = found else {
        let mut missing = frozen.missing_of(Kind::AgentRoleBinding);
        let known = missing.find(|missing| missing.object.name == name);
        let unknown = known.is_some_and(|missing| missing.unknown);
        let entry = match unknown {
            true => {
                denied(Reason::AccessReviewUnavailable, &about, "nobody knows whether it is there")
            }
            false => {
                let code = Reason::MissingRoleBinding;
                Entry::new(EntryDecision::MissingGrant, code, &about, "there is no such binding")
            }
        };
        return RequiredRole { binding: name.to_owned(), role: String::new(), entry };
    };
    let role = binding.spec.role_ref.name.clone();
    RequiredRole { binding: name.to_owned(), role, entry: judged(input, binding, &about) }
}

fn judged(input: &ReviewInput<'_>, binding: &Object<AgentRoleBinding>, about: &str) -> Entry {
    if !is_for(input, &binding.spec.subject) {
        let message = format!("it is for `{}`, not for this stack", binding.spec.subject.name);
        return denied(Reason::SubjectNotAuthorized, about, message);
    }
    if let Some(message) = elsewhere(input, binding) {
        return denied(Reason::SubjectNotAuthorized, about, message);
    }
    let role = match roles::rules_of(input.inventory, binding) {
        Found::Here(role) => role.spec,
        Found::Missing => {
            let message = format!("there is no role `{}`", binding.spec.role_ref.name);
            return denied(Reason::RoleMissing, about, message);
        }
        Found::Unknown(why) => return denied(Reason::AccessReviewUnavailable, about, why),
    };
    let escalation = roles::escalation(&binding.spec, &role);
    let how = match roles::answer(binding.spec.escalation_policy, &escalation) {
        EscalationAnswer::Admitted => BoundBy::Platform,
        EscalationAnswer::Ask => BoundBy::Approval(render_escalation(&escalation)),
        EscalationAnswer::IfOwner => match owned(input, binding) {
            Ok(()) => BoundBy::Owner,
            Err(error) => {
                let message = format!("{}: {error}", render_escalation(&escalation));
                return denied(Reason::EscalationDenied, about, message);
            }
        },
        EscalationAnswer::Denied => {
            let code = match escalation {
                Escalation::Cluster(_) => Reason::ClusterRoleDenied,
                Escalation::Privileged(_) | Escalation::No => Reason::EscalationDenied,
            };
            return denied(code, about, render_escalation(&escalation));
        }
    };
    if let Some(entry) = denied_by_cluster(input, binding, about) {
        return entry;
    }
    let wanted = roles::native_binding(binding);
    let namespace = &wanted.metadata.namespace;
    match input.inventory.get::<RoleBinding>(namespace, wanted.name()) {
        Found::Unknown(why) => return denied(Reason::AccessReviewUnavailable, about, why),
        // It is not created: an approval or an owner decides for each run.
        Found::Missing if how != BoundBy::Platform => {}
        Found::Missing => {
            let message = format!("the platform has no binding `{}` yet", wanted.name());
            return Entry::new(
                EntryDecision::DriftedNativeObject,
                Reason::MissingRoleBinding,
                about,
                message,
            );
        }
        Found::Here(native) if native.spec != wanted.spec => {
            let message =
                format!("the platform's binding `{}` is not what it should be", wanted.name());
            let code = Reason::RoleBindingDrifted;
            return Entry::new(EntryDecision::DriftedNativeObject, code, about, message);
        }
        Found::Here(_) => {}
    }
    match how {
        BoundBy::Approval(why) => {
            let code = Reason::EscalationNeedsApproval;
            Entry::new(EntryDecision::RequiresApproval, code, about, why)
        }
        BoundBy::Platform => Entry::allowed(Reason::RequiredRolesAllowed, about, "it is bound"),
        BoundBy::Owner => {
            let message = "its author owns the repository";
            Entry::allowed(Reason::RequiredRolesAllowed, about, message)
        }
    }
}

/// Why a cluster does not give what a binding gives. The rules before it have not denied it.
fn denied_by_cluster(
    input: &ReviewInput<'_>,
    binding: &Object<AgentRoleBinding>,
    about: &str,
) -> Option<Entry> {
    if !binding.spec.is_about_platform() {
        return None;
    }
    match platform(input.inventory) {
        Platform::Server => return None,
        Platform::Cluster => {}
        Platform::Unknown(why) => return Some(denied(Reason::AccessReviewUnavailable, about, why)),
    }
    let namespace = &binding.metadata.namespace;
    // The answer of today, whatever version was admitted.
    let current = input.inventory.get::<AgentRoleBinding>(namespace, binding.name()).ok();
    let identity = binding.spec.identity();
    let identity =
        identity.and_then(|name| input.inventory.get::<AgentServiceAccount>(namespace, name).ok());
    let answer = match &current {
        Some(current) if current.spec == binding.spec => {
            access(current, identity.as_ref(), input.now)
        }
        Some(_) | None => Access::Unknown("it is not the version that is reviewed".to_owned()),
    };
    match answer {
        Access::Allowed => None,
        Access::Missing(report) => {
            let message = format!(
                "the ServiceAccount `{}` lacks in the cluster: {}",
                report.account.as_deref().unwrap_or_default(),
                report.missing.join(", ")
            );
            let code = Reason::MissingRoleBinding;
            Some(Entry::new(EntryDecision::MissingGrant, code, about, message))
        }
        Access::Unknown(why) => Some(denied(Reason::AccessReviewUnavailable, about, why)),
    }
}

/// What makes a binding effective.
#[derive(Debug, Clone, PartialEq, Eq)]
enum BoundBy {
    /// The platform's own binding.
    Platform,
    /// An approval, for this reason.
    Approval(String),
    /// The ownership of its author.
    Owner,
}

/// Whether its author owns what a binding is about. Without a situation, there is no repository to check, and
/// nothing is started: then the author must only be known.
fn owned(input: &ReviewInput<'_>, binding: &Object<AgentRoleBinding>) -> Result<(), NotOwner> {
    let situation = match input.scope {
        Scope::Stack => return ownership::authors(input.inventory, binding).map(|_| ()),
        Scope::Run(situation) => situation,
    };
    let all = input.inventory.readable::<Repository>().unwrap_or_default();
    let mut all = all.into_iter();
    let repository = all
        .find(|one| one.spec.full_name.eq_ignore_ascii_case(&situation.repository))
        .ok_or_else(|| NotOwner::Unread(format!("there is no `{}`", situation.repository)))?;
    let trust = situation.trust_tier.min(repository.spec.trust_tier);
    ownership::require_owner(input.inventory, binding, &repository, trust)
}

/// Why a binding does not apply here.
fn elsewhere(input: &ReviewInput<'_>, binding: &Object<AgentRoleBinding>) -> Option<String> {
    let scope = &binding.spec.scope;
    let name = scope.name.as_deref();
    let repository = match input.scope {
        Scope::Run(situation) => Some(situation.repository.as_str()),
        Scope::Stack => None,
    };
    let holds = match scope.kind {
        ScopeKind::Cluster => true,
        ScopeKind::Namespace => name == Some(input.frozen.namespace()),
        ScopeKind::Repository => {
            repository.is_none_or(|full| name.is_some_and(|name| is_repository(input, name, full)))
        }
        // An organisation is the owner of its repositories.
        ScopeKind::Organization => name.is_none_or(|name| {
            let owner = |full: &str| full.split('/').next().unwrap_or_default().to_owned();
            repository.is_none_or(|full| owner(full).eq_ignore_ascii_case(name))
        }),
    };
    let place = name.unwrap_or_default();
    (!holds).then(|| format!("it holds in the {:?} `{place}`, and not here", scope.kind))
}

fn render_escalation(escalation: &Escalation) -> String {
    match escalation {
        Escalation::No => "it escalates nothing".to_owned(),
        Escalation::Cluster(why) | Escalation::Privileged(why) => why.clone(),
    }
}

/// Whether a subject is the stack of the review, or what it runs as.
pub(super) fn is_for(input: &ReviewInput<'_>, subject: &Subject) -> bool {
    level_of(input, subject).is_some()
}

/// Whether a subject is a team or group with unknown members.
pub(super) fn may_belong(input: &ReviewInput<'_>, subject: &Subject) -> bool {
    let unknown = match input.scope {
        Scope::Run(situation) => situation.memberships.is_empty(),
        Scope::Stack => true,
    };
    let team = matches!(subject.kind, SubjectKind::Group | SubjectKind::Team);
    team && unknown && is_limited_to(input, subject)
}

/// Whether a subject is meant as part of this stack, under its identity.
fn is_limited_to(input: &ReviewInput<'_>, subject: &Subject) -> bool {
    let account = &input.frozen.stack.spec.runtime_identity.service_account_ref;
    let stack = input.frozen.stack.name();
    subject.stack_ref.as_ref().is_none_or(|only| only == stack)
        && subject.service_account_ref.as_ref().is_none_or(|only| only == account)
}

/// How near a subject is to the work; nothing if it has nothing to do with it.
pub(super) fn level_of(
    input: &ReviewInput<'_>,
    subject: &Subject,
) -> Option<super::entries::GrantLevel> {
    use super::entries::GrantLevel;
    let frozen = input.frozen;
    let account = &frozen.stack.spec.runtime_identity.service_account_ref;
    let stack = frozen.stack.name();
    if !is_limited_to(input, subject) {
        return None;
    }
    let situation = match input.scope {
        Scope::Run(situation) => Some(situation),
        Scope::Stack => None,
    };
    let name = subject.name.as_str();
    let (fits, level) = match subject.kind {
        SubjectKind::ServiceAccount => (name == account, GrantLevel::Subject),
        SubjectKind::AgentStack => (name == stack, GrantLevel::Stack),
        SubjectKind::Tool => {
            let profile = frozen.tool_profile.as_ref();
            (profile.is_some_and(|profile| profile.name() == name), GrantLevel::Capability)
        }
        SubjectKind::Skill => {
            (frozen.skills.iter().any(|skill| skill.name() == name), GrantLevel::Capability)
        }
        SubjectKind::McpServer => {
            (frozen.mcp_servers.iter().any(|server| server.name() == name), GrantLevel::Capability)
        }
        SubjectKind::RunnerPool => {
            (input.pool.is_some_and(|pool| pool.name() == name), GrantLevel::Team)
        }
        SubjectKind::User => {
            let actor = situation.and_then(|situation| situation.actor.as_deref());
            (actor == Some(name), GrantLevel::Team)
        }
        SubjectKind::Group | SubjectKind::Team => {
            let member = |s: &super::Situation| s.memberships.iter().any(|group| group == name);
            (situation.is_some_and(member), GrantLevel::Team)
        }
    };
    fits.then_some(level)
}

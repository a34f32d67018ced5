//! Keys of secrets and of config maps: which grant permits each, and whether it applies here.

use bailiwick_resources::{
    AgentConfigGrant, AgentSecretGrant, ConfigMap, EventSource, Globs, KeysRef, Kind, Object,
    Reason, RequiredApproval, Secret, SecretKey, SecretPurpose, Subject, SubjectKind, TrustTier,
};

use super::entries::{Entry, EntryDecision, GrantLevel};
use super::identities::{level_of, may_belong};
use super::{RequiredConfig, RequiredSecret, ReviewInput, Scope, Situation};
use crate::admission::inventory::Found;
use crate::admission::requirements::{ConfigNeed, KeyNeed, SecretNeed};
use crate::wildcards;

const MILLIS_A_DAY: u64 = 86_400_000;

/// The common parts of both kinds of grants.
struct GrantTerms<'a> {
    name: &'a str,
    namespace: &'a str,
    subject: &'a Subject,
    keys: &'a KeysRef,
    repositories: &'a [String],
    refs: &'a Globs,
    sources: &'a [EventSource],
    deny: bool,
}

impl GrantTerms<'_> {
    /// Whether it covers this key for this consumer.
    fn speaks_of<P>(&self, need: &KeyNeed<P>) -> bool {
        let namespace = self.keys.namespace.as_deref().unwrap_or(self.namespace);
        self.keys.name == need.name
            && namespace == need.namespace
            && self.keys.keys.contains(&need.key)
    }

    /// How near its subject is; a grant to a capability is for that one alone.
    fn level<P>(&self, input: &ReviewInput<'_>, need: &KeyNeed<P>) -> Option<GrantLevel> {
        // A denial for a team counts for everybody who may be in it.
        let meant = self.deny && may_belong(input, self.subject);
        let level = level_of(input, self.subject).or(meant.then_some(GrantLevel::Team))?;
        let owner = match self.subject.kind {
            SubjectKind::Tool => Some(Kind::AgentToolProfile),
            SubjectKind::Skill => Some(Kind::AgentSkill),
            SubjectKind::McpServer => Some(Kind::AgentMcpServer),
            SubjectKind::User
            | SubjectKind::Group
            | SubjectKind::Team
            | SubjectKind::AgentStack
            | SubjectKind::RunnerPool
            | SubjectKind::ServiceAccount => None,
        };
        let owned = owner
            .is_none_or(|kind| need.owner.kind == kind && need.owner.name == self.subject.name);
        owned.then_some(level)
    }

    /// Whether a denial applies here: without restrictions, it applies everywhere.
    fn forbids(&self, scope: Scope<'_>) -> bool {
        let Scope::Run(situation) = scope else { return true };
        let repository = self.repositories.is_empty()
            || wildcards::any(self.repositories, &situation.repository);
        let source = self.sources.is_empty() || self.sources.contains(&situation.source);
        repository && source && wildcards::ref_is_meant(self.refs, &situation.reference)
    }

    fn allows_repository(&self, situation: &Situation) -> bool {
        wildcards::any(self.repositories, &situation.repository)
    }

    /// Why a grant does not apply here.
    fn objection(&self, situation: &Situation) -> Option<String> {
        if !self.allows_repository(situation) {
            return Some(format!("it is not for the repository `{}`", situation.repository));
        }
        if !wildcards::ref_is_meant(self.refs, &situation.reference) {
            return Some(format!("it is not for the ref `{}`", situation.reference));
        }
        if !self.sources.is_empty() && !self.sources.contains(&situation.source) {
            return Some(format!("it is not for work from `{}`", situation.source.as_str()));
        }
        None
    }
}

fn of_secret(grant: &Object<AgentSecretGrant>) -> GrantTerms<'_> {
    let spec = &grant.spec;
    GrantTerms {
        name: grant.name(),
        namespace: &grant.metadata.namespace,
        subject: &spec.subject,
        keys: &spec.secret_ref,
        repositories: &spec.allowed_repositories,
        refs: &spec.allowed_refs,
        sources: &spec.allowed_trigger_sources,
        deny: spec.deny,
    }
}

fn of_config(grant: &Object<AgentConfigGrant>) -> GrantTerms<'_> {
    let spec = &grant.spec;
    GrantTerms {
        name: grant.name(),
        namespace: &grant.metadata.namespace,
        subject: &spec.subject,
        keys: &spec.config_map_ref,
        repositories: &spec.allowed_repositories,
        refs: &spec.allowed_refs,
        sources: &spec.allowed_trigger_sources,
        deny: spec.deny,
    }
}

pub(super) fn secrets(input: &ReviewInput<'_>) -> Vec<RequiredSecret> {
    let grants = input.inventory.all::<AgentSecretGrant>();
    let required = input.requirements.secrets.iter().map(|need| match &grants {
        Ok(grants) => secret(input, need, grants),
        Err(error) => {
            let about = about("Secret", input, need);
            let why = error.to_string();
            let entry = denied(Reason::AccessReviewUnavailable, &about, &why);
            RequiredSecret { need: need.clone(), entry, arrives: None, version: None }
        }
    });
    required.collect()
}

/// A key with what has it, and with its namespace where that is another than the stack's.
fn about<P>(kind: &str, input: &ReviewInput<'_>, need: &KeyNeed<P>) -> String {
    let KeyNeed { namespace, name, key, .. } = need;
    match namespace == input.frozen.namespace() {
        true => format!("{kind}/{name}/{key}"),
        false => format!("{kind}/{namespace}/{name}/{key}"),
    }
}

fn denied(code: Reason, about: &str, message: impl Into<String>) -> Entry {
    Entry::new(EntryDecision::Denied, code, about, message)
}

fn secret(
    input: &ReviewInput<'_>,
    need: &SecretNeed,
    grants: &[Object<AgentSecretGrant>],
) -> RequiredSecret {
    let about = about("Secret", input, need);
    let refuse =
        |entry: Entry| RequiredSecret { need: need.clone(), entry, arrives: None, version: None };
    let speaking: Vec<(&Object<AgentSecretGrant>, GrantLevel)> = grants
        .iter()
        .filter(|grant| grant.spec.purpose == need.purpose && of_secret(grant).speaks_of(need))
        .filter_map(|grant| Some((grant, of_secret(grant).level(input, need)?)))
        .collect();
    let no = speaking.iter().find(|(grant, _)| {
        let terms = of_secret(grant);
        terms.deny && terms.forbids(input.scope)
    });
    if let Some((grant, _)) = no {
        let message = format!("the grant `{}` forbids it", grant.name());
        return refuse(denied(Reason::SecretNotAllowedHere, &about, message));
    }
    if !input.frozen.stack.spec.secret_policy.allowed_secret_refs.contains(&need.name) {
        let message =
            format!("the stack's secretPolicy.allowedSecretRefs does not have `{}`", need.name);
        return refuse(denied(Reason::SecretNotAllowedHere, &about, message));
    }
    let key = match found_key(input, need, &about) {
        Ok(key) => key,
        Err(entry) => return refuse(entry),
    };
    let yes: Vec<_> = speaking.into_iter().filter(|(grant, _)| !grant.spec.deny).collect();
    if yes.is_empty() {
        let code = match need.purpose {
            SecretPurpose::Tool => Reason::ToolSecretNotGranted,
            SecretPurpose::ModelProviderToken
            | SecretPurpose::GitCredential
            | SecretPurpose::McpServer
            | SecretPurpose::Skill
            | SecretPurpose::WebhookSigning
            | SecretPurpose::ImagePull
            | SecretPurpose::Cache
            | SecretPurpose::Deployment => Reason::MissingSecretGrant,
        };
        let message = format!("nothing grants it to {} `{}`", need.owner.kind, need.owner.name);
        return refuse(Entry::new(EntryDecision::MissingGrant, code, &about, message));
    }
    choose(input, need, &about, &yes, key)
}

fn found_key(input: &ReviewInput<'_>, need: &SecretNeed, about: &str) -> Result<SecretKey, Entry> {
    match input.inventory.get::<Secret>(&need.namespace, &need.name) {
        Found::Missing => {
            let message = format!("there is no secret `{}`", need.name);
            Err(denied(Reason::SecretMissing, about, message))
        }
        Found::Unknown(why) => Err(denied(Reason::AccessReviewUnavailable, about, why)),
        Found::Here(secret) => secret.spec.keys.get(&need.key).copied().ok_or_else(|| {
            let message = format!("the secret `{}` has no key `{}`", need.name, need.key);
            denied(Reason::SecretKeyMissing, about, message)
        }),
    }
}

/// The strongest grant that applies here.
fn choose(
    input: &ReviewInput<'_>,
    need: &SecretNeed,
    about: &str,
    grants: &[(&Object<AgentSecretGrant>, GrantLevel)],
    key: SecretKey,
) -> RequiredSecret {
    let mut objections = Vec::new();
    let mut holding = Vec::new();
    for (grant, level) in grants {
        match objection(input, grant) {
            Some((code, why)) => objections.push((grant.name().to_owned(), code, why)),
            None => holding.push((*grant, *level)),
        }
    }
    let invalid: Vec<String> = objections.iter().map(|(name, _, _)| name.clone()).collect();
    holding.sort_by(|one, other| one.1.cmp(&other.1).then(one.0.name().cmp(other.0.name())));
    let Some(&(grant, level)) = holding.first() else {
        let why: Vec<String> =
            objections.iter().map(|(name, _, why)| format!("`{name}`: {why}")).collect();
        let code = objections.first().map_or(Reason::SecretNotAllowedHere, |(_, code, _)| *code);
        let mut entry = denied(code, about, format!("no grant holds here ({})", why.join("; ")));
        entry.invalid = invalid;
        return RequiredSecret { need: need.clone(), entry, arrives: None, version: None };
    };
    let overdue = grant.spec.rotation_policy.is_some_and(|policy| {
        let most = u64::from(policy.max_age_days).saturating_mul(MILLIS_A_DAY);
        input.now.millis().saturating_sub(key.set_at.millis()) > most
    });
    // A grant that would be chosen on a trusted ref keeps its effect although it does not apply on this one: an
    // untrusted ref must not avoid the person whom a trusted one has to ask.
    let asked = grants.iter().find(|(other, nearness)| {
        *nearness <= level && in_repository(input, other) && asks(input, other)
    });
    let mut entry = match (overdue, asked) {
        (true, _) => {
            let message = format!("its value is older than the grant `{}` allows", grant.name());
            Entry::new(EntryDecision::StaleGrant, Reason::RotationOverdue, about, message)
        }
        (false, Some((asking, _))) => {
            let message = format!("the grant `{}` asks for a person", asking.name());
            let code = Reason::WaitingForSecretApproval;
            Entry::new(EntryDecision::RequiresApproval, code, about, message)
        }
        (false, None) => {
            let message = format!("the grant `{}` permits it", grant.name());
            Entry::allowed(Reason::SecretsGranted, about, message)
        }
    };
    entry.grant = Some(grant.name().to_owned());
    entry.grant_digest = Some(grant.spec_digest().to_string());
    entry.level = Some(level);
    entry.invalid = invalid;
    RequiredSecret {
        need: need.clone(),
        entry,
        arrives: Some(grant.spec.mount_policy),
        version: Some(key.version),
    }
}

fn objection(
    input: &ReviewInput<'_>,
    grant: &Object<AgentSecretGrant>,
) -> Option<(Reason, String)> {
    let Scope::Run(situation) = input.scope else { return None };
    let terms = of_secret(grant);
    debug_assert!(!terms.deny, "a no is not chosen");
    if let Some(why) = terms.objection(situation) {
        return Some((Reason::SecretNotAllowedHere, why));
    }
    let untrusted = situation.trust_tier == TrustTier::Untrusted;
    if untrusted && is_privileged(grant.spec.purpose) {
        let why = "what it is for never reaches an untrusted ref".to_owned();
        return Some((Reason::PrivilegedSecretsOnFork, why));
    }
    if untrusted && !grant.spec.allow_untrusted {
        return Some((Reason::PrivilegedSecretsOnFork, "it is not for untrusted refs".to_owned()));
    }
    if untrusted && !input.frozen.stack.spec.secret_policy.allow_on_forks {
        let why = "the stack lets no secret reach a fork".to_owned();
        return Some((Reason::PrivilegedSecretsOnFork, why));
    }
    None
}

/// Whether a secret of this purpose could change what others rely on.
pub fn is_privileged(purpose: SecretPurpose) -> bool {
    match purpose {
        SecretPurpose::GitCredential
        | SecretPurpose::WebhookSigning
        | SecretPurpose::ImagePull
        | SecretPurpose::Deployment => true,
        SecretPurpose::ModelProviderToken
        | SecretPurpose::McpServer
        | SecretPurpose::Tool
        | SecretPurpose::Skill
        | SecretPurpose::Cache => false,
    }
}

fn in_repository(input: &ReviewInput<'_>, grant: &Object<AgentSecretGrant>) -> bool {
    match input.scope {
        Scope::Stack => true,
        Scope::Run(situation) => of_secret(grant).allows_repository(situation),
    }
}

fn asks(input: &ReviewInput<'_>, grant: &Object<AgentSecretGrant>) -> bool {
    match grant.spec.required_approval {
        RequiredApproval::Never => false,
        RequiredApproval::Always => true,
        RequiredApproval::OnUntrustedRef => match input.scope {
            Scope::Stack => false,
            Scope::Run(situation) => situation.trust_tier == TrustTier::Untrusted,
        },
    }
}

pub(super) fn configs(input: &ReviewInput<'_>) -> Vec<RequiredConfig> {
    let grants = input.inventory.all::<AgentConfigGrant>();
    let required = input.requirements.configs.iter().map(|need| match &grants {
        Ok(grants) => config(input, need, grants),
        Err(error) => {
            let about = about("ConfigMap", input, need);
            let why = error.to_string();
            let entry = denied(Reason::AccessReviewUnavailable, &about, &why);
            RequiredConfig { need: need.clone(), entry, arrives: None }
        }
    });
    required.collect()
}

fn config(
    input: &ReviewInput<'_>,
    need: &ConfigNeed,
    grants: &[Object<AgentConfigGrant>],
) -> RequiredConfig {
    let about = about("ConfigMap", input, need);
    let refuse = |entry: Entry| RequiredConfig { need: need.clone(), entry, arrives: None };
    let mut speaking: Vec<(&Object<AgentConfigGrant>, GrantLevel)> = grants
        .iter()
        .filter(|grant| grant.spec.purpose == need.purpose && of_config(grant).speaks_of(need))
        .filter_map(|grant| Some((grant, of_config(grant).level(input, need)?)))
        .collect();
    let no = speaking.iter().find(|(grant, _)| {
        let terms = of_config(grant);
        terms.deny && terms.forbids(input.scope)
    });
    if let Some((grant, _)) = no {
        let message = format!("the grant `{}` forbids it", grant.name());
        return refuse(denied(Reason::ConfigDenied, &about, message));
    }
    match input.inventory.get::<ConfigMap>(&need.namespace, &need.name) {
        Found::Missing => {
            let message = format!("there is no config map `{}`", need.name);
            return refuse(denied(Reason::ConfigMapMissing, &about, message));
        }
        Found::Unknown(why) => {
            return refuse(denied(Reason::AccessReviewUnavailable, &about, why));
        }
        Found::Here(map) if !map.spec.data.contains_key(&need.key) => {
            let message = format!("the config map `{}` has no key `{}`", need.name, need.key);
            return refuse(denied(Reason::ConfigKeyMissing, &about, message));
        }
        Found::Here(_) => {}
    }
    speaking.retain(|(grant, _)| !grant.spec.deny);
    if speaking.is_empty() {
        let code = Reason::MissingConfigGrant;
        let message = format!("nothing grants it to {} `{}`", need.owner.kind, need.owner.name);
        return refuse(Entry::new(EntryDecision::MissingGrant, code, &about, message));
    }
    let objection = |grant: &Object<AgentConfigGrant>| match input.scope {
        Scope::Stack => None,
        Scope::Run(situation) => of_config(grant).objection(situation),
    };
    let (mut holding, failing): (Vec<_>, Vec<_>) =
        speaking.into_iter().partition(|(grant, _)| objection(grant).is_none());
    let invalid: Vec<String> =
        failing.iter().map(|(grant, _)| of_config(grant).name.to_owned()).collect();
    holding.sort_by(|one, other| one.1.cmp(&other.1).then(one.0.name().cmp(other.0.name())));
    let Some(&(grant, level)) = holding.first() else {
        let why: Vec<String> = failing
            .iter()
            .filter_map(|(grant, _)| Some(format!("`{}`: {}", grant.name(), objection(grant)?)))
            .collect();
        let message = format!("no grant holds here ({})", why.join("; "));
        let mut entry = denied(Reason::ConfigDenied, &about, message);
        entry.invalid = invalid;
        return refuse(entry);
    };
    let message = format!("the grant `{}` permits it", grant.name());
    let mut entry = Entry::allowed(Reason::ConfigGranted, &about, message);
    entry.grant = Some(grant.name().to_owned());
    entry.grant_digest = Some(grant.spec_digest().to_string());
    entry.level = Some(level);
    entry.invalid = invalid;
    RequiredConfig { need: need.clone(), entry, arrives: Some(grant.spec.mount_policy) }
}

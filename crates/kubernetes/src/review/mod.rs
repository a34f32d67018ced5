//! Whether the API server allows what an AgentRoleBinding gives. Pure: questions from a binding, and what follows from
//! the answers. Nothing here creates a right: what is missing is named, with the objects that a person can apply.

use std::collections::{BTreeMap, BTreeSet};

use bailiwick_resources::{
    AccessAnswer, AccessReport, AgentRoleBinding, AgentServiceAccount, DEFAULT_NAMESPACE, Object,
    ScopeKind, Standing,
};
use k8s_openapi::api::authorization::v1::{
    LocalSubjectAccessReview, ResourceAttributes, SubjectAccessReviewSpec,
    SubjectAccessReviewStatus,
};
use k8s_openapi::api::rbac::v1::{PolicyRule, Role, RoleBinding, RoleRef, Subject};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::sync::{ACCESS, AddedCondition};

/// More questions about one binding are not asked.
const MAX_QUESTIONS: usize = 64;

/// A ServiceAccount of the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl Account {
    /// The ServiceAccount of an identity. In the operator's namespace, `default` is that namespace.
    pub fn of(identity: &AgentServiceAccount, namespace: &str) -> Self {
        Self {
            namespace: here(&identity.namespace, namespace).to_owned(),
            name: identity.service_account_name.clone(),
        }
    }

    /// The user that its tokens stand for.
    pub fn user(&self) -> String {
        format!("system:serviceaccount:{}:{}", self.namespace, self.name)
    }

    fn groups(&self) -> Vec<String> {
        vec![
            "system:serviceaccounts".to_owned(),
            format!("system:serviceaccounts:{}", self.namespace),
            "system:authenticated".to_owned(),
        ]
    }
}

fn here<'a>(named: &'a str, namespace: &'a str) -> &'a str {
    if named == DEFAULT_NAMESPACE { namespace } else { named }
}

/// One verb on one resource.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Permission {
    /// The API group; empty for that of pods.
    pub group: String,
    /// The resource, with its subresource: `pods/log`.
    pub resource: String,
    /// The verb.
    pub verb: String,
}

/// Why a binding cannot be reviewed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotReviewed {
    /// It names a role and no rules.
    NoRules,
    /// Its subject has no ServiceAccount.
    NoAccount,
    /// It applies beyond the operator's namespace.
    OtherNamespace,
    /// It has too many rules.
    TooManyRules,
}

impl NotReviewed {
    /// The reason of the condition.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NoRules => "NoRules",
            Self::NoAccount => "NoServiceAccount",
            Self::OtherNamespace => "OtherNamespace",
            Self::TooManyRules => "TooManyRules",
        }
    }

    fn message(self) -> &'static str {
        match self {
            Self::NoRules => "the binding has no resourceRules to ask the API server about",
            Self::NoAccount => {
                "the subject has no AgentServiceAccount: name one in serviceAccountRef"
            }
            Self::OtherNamespace => "only rights in the operator's namespace are reviewed",
            Self::TooManyRules => "the binding has more than 64 combinations of resource and verb",
        }
    }
}

/// What the binding gives, one verb and resource each.
pub fn permissions(
    binding: &AgentRoleBinding,
    namespace: &str,
) -> Result<BTreeSet<Permission>, NotReviewed> {
    let scope = binding.scope.name.as_deref().unwrap_or_default();
    match binding.scope.kind {
        ScopeKind::Cluster => return Err(NotReviewed::OtherNamespace),
        ScopeKind::Namespace if here(scope, namespace) != namespace => {
            return Err(NotReviewed::OtherNamespace);
        }
        ScopeKind::Namespace | ScopeKind::Repository | ScopeKind::Organization => {}
    }
    let mut all = BTreeSet::new();
    for rule in &binding.resource_rules {
        let core = [String::new()];
        let groups = if rule.api_groups.is_empty() { &core[..] } else { &rule.api_groups };
        for group in groups {
            for resource in &rule.resources {
                for verb in &rule.verbs {
                    let (group, resource, verb) = (group.clone(), resource.clone(), verb.clone());
                    all.insert(Permission { group, resource, verb });
                }
            }
        }
    }
    match all.len() {
        0 => Err(NotReviewed::NoRules),
        count if count > MAX_QUESTIONS => Err(NotReviewed::TooManyRules),
        _ => Ok(all),
    }
}

/// The question whether an account has a permission in a namespace.
pub fn question(
    account: &Account,
    permission: &Permission,
    namespace: &str,
) -> LocalSubjectAccessReview {
    let (resource, subresource) = match permission.resource.split_once('/') {
        Some((resource, subresource)) => (resource.to_owned(), Some(subresource.to_owned())),
        None => (permission.resource.clone(), None),
    };
    LocalSubjectAccessReview {
        metadata: ObjectMeta { namespace: Some(namespace.to_owned()), ..ObjectMeta::default() },
        spec: SubjectAccessReviewSpec {
            user: Some(account.user()),
            groups: Some(account.groups()),
            resource_attributes: Some(ResourceAttributes {
                namespace: Some(namespace.to_owned()),
                group: Some(permission.group.clone()),
                resource: Some(resource),
                subresource,
                verb: Some(permission.verb.clone()),
                ..ResourceAttributes::default()
            }),
            ..SubjectAccessReviewSpec::default()
        },
        status: None,
    }
}

/// What the API server says of a permission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// The account has it.
    Allowed,
    /// It does not.
    Missing,
    /// The API server could not say.
    Unknown,
}

/// Reads an answer. Whatever is not a clear yes or no is unknown.
pub fn answer(status: Option<&SubjectAccessReviewStatus>) -> Answer {
    match status {
        Some(status) if status.denied == Some(true) => Answer::Missing,
        Some(status) if status.allowed => Answer::Allowed,
        Some(status) if status.evaluation_error.is_some() => Answer::Unknown,
        Some(_) => Answer::Missing,
        None => Answer::Unknown,
    }
}

/// The result for one binding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Review {
    /// The account has everything that the binding gives.
    Allowed,
    /// It lacks these.
    Missing(BTreeSet<Permission>),
    /// The API server could not say of these, and the binding does not count as allowed.
    Unknown(BTreeSet<Permission>),
    /// The API server was not asked.
    NotReviewed(NotReviewed),
}

/// What follows from the answers.
pub fn review(answers: BTreeMap<Permission, Answer>) -> Review {
    let with = |wanted: Answer| -> BTreeSet<Permission> {
        let all = answers.iter().filter(|(_, answer)| **answer == wanted);
        all.map(|(permission, _)| permission.clone()).collect()
    };
    let (missing, unknown) = (with(Answer::Missing), with(Answer::Unknown));
    match (missing.is_empty(), unknown.is_empty()) {
        (false, _) => Review::Missing(missing),
        (true, false) => Review::Unknown(unknown),
        (true, true) => Review::Allowed,
    }
}

impl Review {
    /// The condition of the binding.
    pub fn condition(&self, binding: &str) -> AddedCondition {
        let (standing, reason, message) = match self {
            Self::Allowed => (
                Standing::True,
                "Allowed",
                "the API server allows everything that the binding gives".to_owned(),
            ),
            Self::Missing(missing) => (
                Standing::False,
                "MissingPermissions",
                format!(
                    "the ServiceAccount lacks: {}; `bailiwick-kubernetes review {binding}` prints a Role that adds them",
                    render(missing)
                ),
            ),
            Self::Unknown(unknown) => (
                Standing::Unknown,
                "ReviewUnavailable",
                format!("the API server could not say: {}", render(unknown)),
            ),
            Self::NotReviewed(why) => (Standing::Unknown, why.as_str(), why.message().to_owned()),
        };
        AddedCondition { kind: ACCESS, standing, reason: reason.to_owned(), message }
    }
}

/// What is reported to the control plane about a binding. `namespace` is that of the cluster whose rights were asked about.
pub fn report(
    binding: &Object<AgentRoleBinding>,
    identity: Option<&AgentServiceAccount>,
    review: &Review,
    namespace: &str,
) -> AccessReport {
    let mut report = AccessReport {
        answer: AccessAnswer::Unknown,
        spec_digest: binding.spec_digest().to_string(),
        account: identity.map(|one| format!("{}/{}", one.namespace, one.service_account_name)),
        missing: Vec::new(),
        remedy: String::new(),
        detail: String::new(),
    };
    match review {
        Review::Allowed => report.answer = AccessAnswer::Allowed,
        Review::Missing(missing) => {
            report.answer = AccessAnswer::Missing;
            report.missing = missing.iter().map(render_one).collect();
            let all = permissions(&binding.spec, namespace).unwrap_or_else(|_| missing.clone());
            let account = identity.map(|identity| Account::of(identity, namespace));
            let yaml = account.map(|account| remedy(binding.name(), &account, namespace, &all));
            report.remedy = yaml.and_then(Result::ok).unwrap_or_default();
        }
        Review::Unknown(_) | Review::NotReviewed(_) => {
            report.detail = review.condition(binding.name()).message;
        }
    }
    report
}

/// `get pods/log, list deployments.apps`
fn render(permissions: &BTreeSet<Permission>) -> String {
    permissions.iter().map(render_one).collect::<Vec<_>>().join(", ")
}

fn render_one(permission: &Permission) -> String {
    let Permission { group, resource, verb } = permission;
    let dot = if group.is_empty() { "" } else { "." };
    format!("{verb} {resource}{dot}{group}")
}

/// A Role with everything that the binding gives, and its binding to the account, as YAML for `kubectl apply -f -`. A Role
/// with only what is missing would replace one that was applied before, and so take away what that one gives.
pub fn remedy(
    binding: &str,
    account: &Account,
    namespace: &str,
    permissions: &BTreeSet<Permission>,
) -> Result<String, serde_saphyr::SerializeError> {
    let mut verbs: BTreeMap<(&str, &str), Vec<String>> = BTreeMap::new();
    for Permission { group, resource, verb } in permissions {
        verbs.entry((group, resource)).or_default().push(verb.clone());
    }
    let rules = verbs.into_iter().map(|((group, resource), verbs)| PolicyRule {
        api_groups: Some(vec![group.to_owned()]),
        resources: Some(vec![resource.to_owned()]),
        verbs,
        ..PolicyRule::default()
    });
    let name = format!("bailiwick-{binding}");
    let metadata = ObjectMeta {
        name: Some(name.clone()),
        namespace: Some(namespace.to_owned()),
        ..ObjectMeta::default()
    };
    let role = Role { metadata: metadata.clone(), rules: Some(rules.collect()) };
    let given = RoleBinding {
        metadata,
        role_ref: RoleRef {
            api_group: "rbac.authorization.k8s.io".to_owned(),
            kind: "Role".to_owned(),
            name,
        },
        subjects: Some(vec![Subject {
            kind: "ServiceAccount".to_owned(),
            name: account.name.clone(),
            namespace: Some(account.namespace.clone()),
            ..Subject::default()
        }]),
    };
    Ok(crate::documents(&[serde_saphyr::to_string(&role)?, serde_saphyr::to_string(&given)?]))
}

#[cfg(test)]
mod tests;

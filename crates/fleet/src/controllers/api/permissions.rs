//! Permission reviews: what a run would be permitted.

use std::collections::BTreeMap;

use bailiwick_resources::{
    ApprovalPolicy, EventSource, LabelRef, Moment, Object, Repository, TrustTier,
};

use crate::admission::review::{ReviewInput, ReviewReason, Scope};
use crate::admission::{Decision as Reviewed, Situation, collect, review, snapshot};
use crate::controllers::forge_access::ForgeAccess;
use crate::controllers::objects::ObjectQueries as _;
use crate::ports::{
    ActionError, ActionReason, Clock, Commits, Forges, ObjectStore, PermissionDecision,
    PermissionQuestion, PermissionReview, SecretStore, StackSources,
};

/// Reviews what a run of a stack would be permitted.
pub(super) async fn reviewed<S, W>(
    store: &S,
    forges: &ForgeAccess<S, W>,
    now: Moment,
    repository: &Object<Repository>,
    question: &PermissionQuestion,
    tier: TrustTier,
    (labels, approval_policy): (&[LabelRef], &ApprovalPolicy),
) -> Result<PermissionReview, ActionError>
where
    S: ObjectStore + SecretStore,
    W: Clock + Forges + Commits + StackSources,
{
    let mut inventory = store.inventory().await;
    let namespace = &repository.metadata.namespace;
    let frozen = snapshot(&inventory, namespace, &question.agent_stack, labels)
        .map_err(|error| ActionError::NotFound(error.to_string()))?;
    forges.add_owners(&mut inventory, repository, &frozen.role_bindings).await?;
    let default = format!("refs/heads/{}", repository.spec.default_branch);
    let source = question.source.unwrap_or(EventSource::Manual);
    let situation = Situation {
        repository: repository.spec.full_name.clone(),
        reference: question.reference.clone().unwrap_or(default),
        trust_tier: tier.min(repository.spec.trust_tier),
        actor: question.actor.clone(),
        memberships: inventory.memberships(question.actor.as_deref(), source, now),
        source,
        workflow: None,
        job: None,
        task_kind: question.task_kind.clone().unwrap_or_default(),
    };
    let pool = question.runner_pool.as_ref().or(frozen.stack.spec.runner_pool.as_ref());
    let pool = match pool {
        Some(name) => inventory.get(namespace, name).ok(),
        None => None,
    };
    let reviewed = review(&ReviewInput {
        frozen: &frozen,
        requirements: &collect(&frozen),
        inventory: &inventory,
        scope: Scope::Run(&situation),
        pool: pool.as_ref(),
        approval_policy,
        now,
    });
    let reason = |why: &ReviewReason| ActionReason {
        code: why.code.as_str().to_owned(),
        field: why.about.clone(),
        message: why.message.clone(),
    };
    let asked = reviewed.approval_requirements.iter();
    Ok(PermissionReview {
        decision: match reviewed.decision {
            Reviewed::Allowed => PermissionDecision::Allowed,
            Reviewed::RequiresApproval => PermissionDecision::RequiresApproval,
            Reviewed::Denied => PermissionDecision::Denied,
        },
        runtime_identity: reviewed.runtime_identity.clone(),
        runner_identity: reviewed.runner_identity.clone(),
        required_roles: reviewed.required_roles.iter().map(|role| role.role.clone()).collect(),
        required_secrets: keys(
            reviewed
                .required_secrets
                .iter()
                .map(|one| (one.need.name.as_str(), one.need.key.as_str())),
        ),
        required_configs: keys(
            reviewed
                .required_configs
                .iter()
                .map(|one| (one.need.name.as_str(), one.need.key.as_str())),
        ),
        missing_grants: reviewed.missing_grants.clone(),
        approval_requirements: asked.map(|one| format!("{one:?}")).collect(),
        yaml_preview: reviewed.yaml_preview.clone(),
        reasons: reviewed.reasons.iter().map(reason).collect(),
        snapshot_digest: reviewed.digest().to_string(),
    })
}

/// Keys by what has them.
fn keys<'a>(needs: impl Iterator<Item = (&'a str, &'a str)>) -> Vec<bailiwick_resources::KeysRef> {
    let mut all: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, key) in needs {
        all.entry(name.to_owned()).or_default().push(key.to_owned());
    }
    let reference = |(name, keys)| bailiwick_resources::KeysRef { name, namespace: None, keys };
    all.into_iter().map(reference).collect()
}

//! The approvals before a launch, and what each is bound to.

use bailiwick_resources::{
    ActionType, AgentApproval, ApprovalAction, ApprovalPhase, ApprovalPolicy, ApprovalReason,
    EventSource, Metadata, Moment, Object, Requester, SourceEventRef, SubjectKind,
};

use crate::admission::review::ApprovalRequirement;

/// The default expiry of an approval.
const A_DAY: u64 = 86_400_000;

/// The subject of an approval.
#[derive(Debug, Clone, Copy)]
pub struct ApprovalSubject<'a> {
    /// The namespace of the run.
    pub namespace: &'a str,
    pub run: &'a str,
    /// The attempt that would be launched.
    pub attempt: &'a str,
    pub stack: &'a str,
    pub repository: &'a str,
    /// The ref.
    pub reference: &'a str,
    /// The commit.
    pub sha: &'a str,
    /// The digest of all that was admitted.
    pub digest: &'a str,
    /// The name of its context bundle.
    pub context: &'a str,
    /// The person who started the run, who cannot approve it.
    pub dispatched_by: Option<&'a str>,
    /// The person who requested the attempt, if it is not the dispatcher.
    pub attempt_asked_by: Option<&'a str>,
}

/// The person who started a run by hand or by a replay. Accounts on a forge are not known as people here.
pub fn dispatcher(event: &SourceEventRef) -> Option<&str> {
    let actor = event.actor.as_deref().filter(|_| event.source == EventSource::Manual);
    event.asked_by.as_deref().or(actor)
}

/// One approval for each class of actions that need one. Each names its exact subject.
pub fn questions(
    asking: &ApprovalSubject<'_>,
    wanted: &[&ApprovalRequirement],
    policy: &ApprovalPolicy,
    now: Moment,
) -> Vec<Object<AgentApproval>> {
    let classes = [
        (ApprovalReason::SecretAccess, ActionType::SecretAccess, "secret-access"),
        (ApprovalReason::NetworkExpanded, ActionType::NetworkExpanded, "network-expanded"),
        (ApprovalReason::Escalation, ActionType::Escalation, "escalation"),
    ];
    let mut found = Vec::new();
    for (reason, kind, word) in classes {
        let about: Vec<&&ApprovalRequirement> =
            wanted.iter().filter(|one| one.reason == reason).collect();
        if about.is_empty() {
            continue;
        }
        let life = policy.expires_after.map_or(A_DAY, |span| span.millis());
        let mut metadata = Metadata::named(format!("{}-{word}", asking.attempt));
        metadata.namespace = asking.namespace.to_owned();
        let context = asking.context.to_owned();
        let things = about.iter().map(|one| one.about.clone());
        let said: Vec<String> =
            about.iter().map(|one| format!("{}: {}", one.about, one.message)).collect();
        found.push(Object::new(
            metadata,
            AgentApproval {
                dispatch_run: asking.run.to_owned(),
                attempt: Some(asking.attempt.to_owned()),
                requested_by: Requester {
                    kind: SubjectKind::AgentStack,
                    name: asking.stack.to_owned(),
                },
                dispatched_by: asking.dispatched_by.map(str::to_owned),
                attempt_asked_by: asking.attempt_asked_by.map(str::to_owned),
                action: ApprovalAction {
                    kind,
                    target: format!("{}@{}", asking.repository, asking.reference),
                    summary: said.join("\n"),
                },
                policy_reasons: vec![reason],
                artifact_refs: std::iter::once(context).chain(things).collect(),
                artifact_digest: asking.digest.to_owned(),
                target_state: Some(asking.sha.to_owned()),
                expires_at: now.plus_millis(life),
            },
        ));
    }
    found
}

/// The requirements that no valid approval covers. An approval counts for exactly what it names, with the context that
/// it names, until it expires.
pub fn uncovered<'a>(
    asked: &[Object<AgentApproval>],
    wanted: &'a [ApprovalRequirement],
    context: &str,
    now: Moment,
) -> Vec<&'a ApprovalRequirement> {
    let covers = |approval: &Object<AgentApproval>, one: &ApprovalRequirement| {
        approval.status.phase == ApprovalPhase::Approved
            && now < approval.spec.expires_at
            && approval.spec.policy_reasons.contains(&one.reason)
            && approval.spec.artifact_refs.contains(&one.about)
            && approval.spec.artifact_refs.iter().any(|name| name == context)
    };
    wanted.iter().filter(|one| !asked.iter().any(|approval| covers(approval, one))).collect()
}

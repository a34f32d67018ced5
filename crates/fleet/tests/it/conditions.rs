//! The reconciler writes every condition of the contract, and each of its false examples has a test.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;

use bailiwick_fleet::ports::{
    Fleet as _, FleetStore as _, Launched, LaunchedState, Selection, World as _, Write,
};
use bailiwick_resources::{
    AgentCapabilityRequirement, AgentDispatchRun, AnyObject, Condition, ConditionType, Kind,
    Reason, Standing, expected_conditions,
};
use serde_json::{Value, json};

use crate::dispatch::{caller, document, fleet, in_state, request, work};
use crate::plane::{SetPlane, all, declare, only, reconcile, start_plane};

/// The tables and lists of the contract: forty-five conditions.
const CONTRACT: &[(Kind, &[&str])] = &[
    (
        Kind::AgentStack,
        &[
            "CapabilitiesResolved",
            "ToolsAdmitted",
            "McpHealthy",
            "SkillsValidated",
            "SubagentsValid",
            "ContextLabelsValid",
            "PolicyAdmitted",
            "RuntimeIdentityReady",
            "RolesAdmitted",
            "SecretsAdmitted",
            "ConfigAdmitted",
            "Ready",
        ],
    ),
    (
        Kind::AgentTriggerRule,
        &[
            "SourceConfigured",
            "MatcherValid",
            "TargetStackReady",
            "ContextTemplateValid",
            "DedupePolicyValid",
            "LifecycleActive",
        ],
    ),
    (
        Kind::AgentDispatchRun,
        &[
            "ContextAssembled",
            "WorkspaceResolved",
            "RunnerAssigned",
            "AgentMuxSessionBound",
            "ApprovalSatisfied",
            "ArtifactsIndexed",
        ],
    ),
    (Kind::AgentServiceAccount, &["ServiceAccountSynced", "TokenProjectionAllowed", "Ready"]),
    (
        Kind::AgentRoleBinding,
        &["RoleResolved", "SubjectsResolved", "NativeBindingSynced", "EscalationAdmitted", "Ready"],
    ),
    (
        Kind::AgentSecretGrant,
        &["SecretExists", "KeysExist", "SubjectAuthorized", "PolicyAdmitted", "Ready"],
    ),
    (
        Kind::AgentConfigGrant,
        &["ConfigMapExists", "KeysExist", "SubjectAuthorized", "PolicyAdmitted", "Ready"],
    ),
    (Kind::AgentCapabilityRequirement, &["RequirementsDiscovered", "GrantsResolved", "Ready"]),
];

/// The false examples of the contract: the condition, the example in its words, the reason, the file with its test,
/// and the name of the test if the example has its own.
const EXAMPLES: &str = "
CapabilitiesResolved | adapter unavailable | AdapterUnavailable | stack | adapter_unavailable
CapabilitiesResolved | unsupported base agent | UnsupportedBaseAgent | stack | unsupported_base_agent
CapabilitiesResolved | stale capability schema | StaleCapabilitySchema | stack | stale_capability_schema
ToolsAdmitted | denied shell command | DeniedShellCommand | stack | denied_shell_command
ToolsAdmitted | filesystem scope too broad | FilesystemScopeTooBroad | stack | filesystem_scope_too_broad
ToolsAdmitted | network policy missing | NetworkPolicyMissing | stack | network_policy_missing
McpHealthy | failed probe | McpProbeFailed | stack | failed_probe
McpHealthy | secret ref missing | McpSecretMissing | stack | secret_ref_missing
McpHealthy | server not allowed for repo | McpServerNotAllowed | stack | server_not_allowed_for_repo
SkillsValidated | missing skill | SkillMissing | stack | missing_skill
SkillsValidated | invalid package | InvalidSkillPackage | stack | invalid_package
SkillsValidated | required tool not admitted | RequiredToolNotAdmitted | stack | required_tool_not_admitted
SubagentsValid | adapter lacks subagent dispatch | SubagentDispatchUnsupported | stack | adapter_lacks_subagent_dispatch
SubagentsValid | parallelism exceeds limit | ParallelismExceedsLimit | stack | parallelism_exceeds_limit
SubagentsValid | output contract unsupported | OutputContractUnsupported | stack | output_contract_unsupported
ContextLabelsValid | label deleted | ContextLabelDeleted | stack | label_deleted
ContextLabelsValid | stale version | StaleContextLabel | stack | stale_version
ContextLabelsValid | unsafe injection token | UnsafeInjectionToken | stack | unsafe_injection_token
PolicyAdmitted | untrusted repo | UntrustedRepository | stack | untrusted_repo
PolicyAdmitted | forbidden approval mode | ForbiddenApprovalMode | stack | forbidden_approval_mode
PolicyAdmitted | privileged secrets on fork | PrivilegedSecretsOnFork | stack | privileged_secrets_on_fork
RuntimeIdentityReady | ServiceAccount missing | ServiceAccountMissing | stack | service_account_missing
RuntimeIdentityReady | token projection forbidden | TokenProjectionForbidden | stack | token_projection_forbidden
RuntimeIdentityReady | runner pool cannot use identity | ServiceAccountCannotUseRunner | stack | runner_pool_cannot_use_identity
RolesAdmitted | missing RoleBinding | MissingRoleBinding | stack | missing_role_binding
RolesAdmitted | ClusterRole denied | ClusterRoleDenied | stack | cluster_role_denied
RolesAdmitted | binding drifted from native state | RoleBindingDrifted | stack | binding_drifted_from_native_state
SecretsAdmitted | missing secret grant | MissingSecretGrant | stack | missing_secret_grant
SecretsAdmitted | key missing | SecretKeyMissing | stack | secret_key_missing
SecretsAdmitted | secret not allowed for repo | SecretNotAllowedHere | stack | secret_not_allowed_for_repo
SecretsAdmitted | secret not allowed for ref | SecretNotAllowedHere | stack | secret_not_allowed_for_ref
SecretsAdmitted | secret not allowed for trigger | SecretNotAllowedHere | stack | secret_not_allowed_for_trigger
ConfigAdmitted | missing config grant | MissingConfigGrant | stack | missing_config_grant
ConfigAdmitted | key missing | ConfigKeyMissing | stack | config_key_missing
ConfigAdmitted | config denied for stack | ConfigDenied | stack | config_denied_for_stack
SourceConfigured | webhook missing secret | WebhookSecretMissing | rule |
SourceConfigured | unknown CI workflow | UnknownCiWorkflow | rule |
SourceConfigured | invalid schedule | InvalidSchedule | rule |
MatcherValid | invalid JSONPath | InvalidJsonPath | rule |
MatcherValid | unknown label matcher | UnknownLabelMatcher | rule |
MatcherValid | unsupported failure signature | UnsupportedFailureSignature | rule |
TargetStackReady | stack not admitted | StackNotAdmitted | rule |
TargetStackReady | capability resolution unknown | CapabilityResolutionUnknown | rule |
ContextTemplateValid | missing payload field | MissingPayloadField | rule |
ContextTemplateValid | unsafe raw payload injection | UnsafeRawPayload | rule |
ContextTemplateValid | attachment too large | AttachmentTooLarge | rule |
DedupePolicyValid | unbounded key | UnboundedDedupeKey | rule |
DedupePolicyValid | missing coalescing target | MissingCoalescingTarget | rule |
DedupePolicyValid | conflicting concurrency policy | ConflictingConcurrencyPolicy | rule |
LifecycleActive | draft | RuleDraft | rule |
LifecycleActive | paused | RulePaused | rule |
LifecycleActive | disabled | RuleDisabled | rule |
LifecycleActive | archived | RuleArchived | rule |
ContextAssembled | source object missing | SourceObjectMissing | run | source_object_missing
ContextAssembled | artifact fetch failed | ArtifactFetchFailed | run | artifact_fetch_failed
ContextAssembled | redaction error | RedactionFailed | run | redaction_error
WorkspaceResolved | workspace missing | WorkspaceMissing | run | workspace_missing
WorkspaceResolved | rebase blocked | RebaseBlocked | run | rebase_blocked
WorkspaceResolved | untrusted ref requires isolated workspace | IsolatedWorkspaceRequired | run | untrusted_ref_requires_isolated_workspace
RunnerAssigned | no capacity | NoCapacity | run | no_capacity
RunnerAssigned | forbidden runner | ForbiddenRunner | run | forbidden_runner
RunnerAssigned | queue timeout | QueueTimeout | run | queue_timeout
AgentMuxSessionBound | gateway unavailable | GatewayUnavailable | run | gateway_unavailable
AgentMuxSessionBound | pending handoff | PendingHandoff | run | pending_handoff
AgentMuxSessionBound | launch failed | LaunchFailed | run | launch_failed
ApprovalSatisfied | waiting on tool approval | WaitingForToolApproval | run | waiting_on_tool_approval
ApprovalSatisfied | waiting on write-back approval | WaitingForWriteBackApproval | run | waiting_on_write_back_approval
ApprovalSatisfied | waiting on secret approval | WaitingForSecretApproval | run | waiting_on_secret_approval
ApprovalSatisfied | waiting on network approval | WaitingForNetworkApproval | run | waiting_on_network_approval
ApprovalSatisfied | waiting on release approval | WaitingForReleaseApproval | run | waiting_on_release_approval
ArtifactsIndexed | missing patch | PatchMissing | run | missing_patch
ArtifactsIndexed | review artifact parse failed | ReviewArtifactInvalid | run | review_artifact_parse_failed
ArtifactsIndexed | upload failed | UploadFailed | run | upload_failed
";

/// The tests of stacks, of runs and of rules.
const TESTS: &[(&str, &str)] = &[
    ("stack", include_str!("admission/stack_conditions.rs")),
    ("run", include_str!("admission/run_conditions.rs")),
    ("rule", include_str!("triggers/conditions.rs")),
];

#[test]
fn every_false_example_of_the_contract_has_a_reason_and_a_test() {
    let mut seen = BTreeSet::new();
    let mut with_examples = BTreeSet::new();
    for row in EXAMPLES.trim().lines() {
        let columns: Vec<&str> = row.split('|').map(str::trim).collect();
        let [condition, example, reason, place, test] = columns[..] else { panic!("{row}") };
        assert!(Reason::ALL.iter().any(|known| known.as_str() == reason), "no reason {reason}");
        let written = match test {
            "" => format!("Reason::{reason}"),
            test => format!("{test}: {condition} False {reason}"),
        };
        let tests = TESTS.iter().find(|(name, _)| *name == place).unwrap().1;
        assert!(tests.contains(&written), "{condition}, {example}: no `{written}`");
        assert!(seen.insert((condition, example)), "{condition}, {example}: twice");
        with_examples.insert(condition);
    }
    assert_eq!(seen.len(), 73);
    // Three tables have examples for every row; the last row of the first table is the sum of the others.
    for (_, conditions) in CONTRACT.iter().take(3) {
        for condition in conditions.iter().filter(|condition| **condition != "Ready") {
            assert!(with_examples.contains(condition), "{condition} has no example");
        }
    }
}

/// A fleet with an object of each kind that has conditions.
async fn fleet_with_all_kinds() -> SetPlane {
    let plane = start_plane(|object| {
        if object.kind == Kind::AgentStack {
            object.spec["requiredConfigRefs"] = json!([{ "name": "runner", "keys": ["region"] }]);
        }
    })
    .await;
    let more = [
        document(
            Kind::AgentRoleBinding,
            "fixer-reads",
            json!({
                "subject": { "kind": "service-account", "name": "fixer" },
                "scope": { "kind": "namespace", "name": "default" },
                "roleRef": { "kind": "RoleTemplate", "name": "agent-readonly" },
            }),
        ),
        document(Kind::ConfigMap, "runner", json!({ "data": { "region": "eu" } })),
        document(
            Kind::AgentSecretGrant,
            "fixer-model",
            json!({
                "subject": { "kind": "agent-stack", "name": "fixer" },
                "secretRef": { "name": "model", "keys": ["api-key"] },
                "purpose": "model-provider-token", "allowedRepositories": ["acme/*"],
            }),
        ),
        document(
            Kind::AgentConfigGrant,
            "fixer-region",
            json!({
                "subject": { "kind": "service-account", "name": "fixer" },
                "configMapRef": { "name": "runner", "keys": ["region"] },
                "purpose": "runner-config", "allowedRepositories": ["acme/*"],
            }),
        ),
        document(
            Kind::AgentTriggerRule,
            "broken",
            json!({
                "lifecycleState": "active", "sources": ["ci"], "agentStack": "fixer",
                "taskKind": "repair", "promptTemplate": "Mend it.",
            }),
        ),
    ];
    declare(&plane, &more).await;
    plane
}

async fn stored(plane: &SetPlane, kind: Kind) -> Vec<AnyObject> {
    plane.store.list(&Selection::of(kind)).await.unwrap().objects
}

/// All 45 conditions are stored after one pass, with the current generation; a second pass changes nothing.
#[tokio::test]
async fn reconciler_writes_every_condition_of_the_contract_once() {
    let count: usize = CONTRACT.iter().map(|(_, conditions)| conditions.len()).sum();
    assert_eq!(count, 45);
    let plane = fleet_with_all_kinds().await;
    plane.reconcile_statuses().await;
    plane.api.dispatch(&caller("ada"), "default", request("r")).await.unwrap();
    reconcile(&plane).await;
    for _ in 0..2 {
        assert_eq!(plane.reconcile_statuses().await.errors, []);
    }
    let mut before = BTreeMap::new();
    for (kind, conditions) in CONTRACT {
        let objects = stored(&plane, *kind).await;
        assert!(!objects.is_empty(), "there is no {kind}");
        for object in objects {
            let stated = object.conditions();
            let names: Vec<&str> = stated.iter().map(|one| one.kind.as_str()).collect();
            let place = format!("{kind} {}", object.metadata.name);
            for condition in *conditions {
                assert!(names.contains(condition), "{place}: no {condition} in {names:?}");
            }
            let expected: Vec<&str> =
                expected_conditions(*kind).iter().map(|kind| kind.as_str()).collect();
            assert_eq!(names, expected, "{place}");
            for one in &stated {
                assert_eq!(one.observed_generation, object.metadata.generation, "{place}: {one:?}");
                assert!(!one.message.is_empty(), "{place}: {one:?}");
            }
            before.insert(place, (object.metadata.resource_version, stated));
        }
    }
    plane.world.clock.fetch_add(60_000, Ordering::Relaxed);
    let repeated = plane.reconcile_statuses().await;
    assert_eq!((repeated.done, repeated.errors), (0, vec![]));
    for (kind, _) in CONTRACT {
        for object in stored(&plane, *kind).await {
            let place = format!("{kind} {}", object.metadata.name);
            let now = (object.metadata.resource_version, object.conditions());
            assert_eq!(before.get(&place), Some(&now), "{place}");
        }
    }
}

/// A deleted grant changes the condition and its transition time.
#[tokio::test]
async fn requirement_follows_its_grants() {
    let plane = fleet_with_all_kinds().await;
    plane.reconcile_statuses().await;
    let requirement = async || {
        let all = all::<AgentCapabilityRequirement>(&plane).await;
        all.into_iter().find(|one| one.name() == "stack.fixer").unwrap()
    };
    let ready = |conditions: &[Condition]| {
        conditions.iter().find(|one| one.kind == ConditionType::GrantsResolved).cloned().unwrap()
    };
    let before = requirement().await;
    assert_eq!(ready(&before.status.conditions).status, Standing::True, "{:?}", before.status);
    let deletion = Write::Delete {
        kind: Kind::AgentConfigGrant,
        namespace: "default".to_owned(),
        name: "fixer-region".to_owned(),
        version: 0,
    };
    plane.store.commit(vec![deletion], plane.world.now()).await.unwrap();
    plane.reconcile_statuses().await;
    let after = requirement().await;
    let condition = ready(&after.status.conditions);
    let blocked = Reason::PermissionRequirementsBlocked;
    assert_eq!((condition.status, condition.reason), (Standing::False, blocked));
    assert!(condition.last_transition_time > ready(&before.status.conditions).last_transition_time);
    assert_eq!(after.status.missing_grants.len(), 1, "{:?}", after.status);
    // Without its stack and rule, the requirement is deleted.
    for (kind, name) in [(Kind::AgentStack, "fixer"), (Kind::AgentTriggerRule, "broken")] {
        let (namespace, name) = ("default".to_owned(), name.to_owned());
        let deletion = Write::Delete { kind, namespace, name, version: 0 };
        plane.store.commit(vec![deletion], plane.world.now()).await.unwrap();
    }
    plane.reconcile_statuses().await;
    assert_eq!(all::<AgentCapabilityRequirement>(&plane).await.len(), 0);
}

async fn condition_of(plane: &SetPlane, kind: ConditionType) -> (Standing, Reason) {
    let run = only::<AgentDispatchRun>(plane).await;
    let one = run.status.conditions.iter().find(|one| one.kind == kind);
    let one = one.unwrap_or_else(|| panic!("{:?}", run.status));
    (one.status, one.reason)
}

/// The pools, with these additional fields.
async fn pools(plane: &SetPlane, more: Value) {
    let mut pools = fleet(|object| {
        for (name, value) in more.as_object().into_iter().flatten() {
            object.spec[name] = value.clone();
        }
    });
    pools.retain(|object| object.kind == Kind::RunnerPool);
    declare(plane, &pools).await;
}

fn set_state(plane: &SetPlane, launched: Launched) {
    let agent = plane.engine.launched.lock().unwrap().last().unwrap().agent.clone();
    plane.engine.states.lock().unwrap().insert(agent, launched);
}

#[tokio::test]
async fn run_conditions_follow_it_from_the_queue_to_its_end() {
    use ConditionType::*;
    let plane = start_plane(|_| {}).await;
    plane.api.dispatch(&caller("ada"), "default", request("r")).await.unwrap();
    pools(&plane, json!({ "paused": true })).await;
    reconcile(&plane).await;
    plane.reconcile_statuses().await;
    assert_eq!(
        condition_of(&plane, ContextAssembled).await,
        (Standing::True, Reason::BundleRecorded)
    );
    assert_eq!(condition_of(&plane, RunnerAssigned).await, (Standing::False, Reason::NoCapacity));
    assert_eq!(condition_of(&plane, AgentMuxSessionBound).await.0, Standing::Unknown);
    pools(&plane, json!({})).await;
    reconcile(&plane).await;
    set_state(&plane, Launched { session: None, ..in_state(LaunchedState::Running) });
    reconcile(&plane).await;
    let known = Launched { session: None, ..in_state(LaunchedState::Running) };
    set_state(&plane, known);
    plane.reconcile_statuses().await;
    assert_eq!(
        condition_of(&plane, RunnerAssigned).await,
        (Standing::True, Reason::RunnerAccepted)
    );
    assert_eq!(
        condition_of(&plane, WorkspaceResolved).await,
        (Standing::True, Reason::WorkspaceReady)
    );
    assert_eq!(condition_of(&plane, ArtifactsIndexed).await.0, Standing::Unknown);
    // Its work waits for an approval.
    set_state(&plane, Launched { work: Some(work()), ..in_state(LaunchedState::Verified) });
    reconcile(&plane).await;
    plane.reconcile_statuses().await;
    assert_eq!(
        condition_of(&plane, AgentMuxSessionBound).await,
        (Standing::True, Reason::SessionReady)
    );
    let waiting = (Standing::False, Reason::WaitingForWriteBackApproval);
    assert_eq!(condition_of(&plane, ApprovalSatisfied).await, waiting);
    assert_eq!(
        condition_of(&plane, ArtifactsIndexed).await,
        (Standing::True, Reason::ArtifactsRecorded)
    );
    // Its artifact is deleted.
    let run = only::<AgentDispatchRun>(&plane).await;
    let deletion = Write::Delete {
        kind: Kind::AgentArtifact,
        namespace: "default".to_owned(),
        name: run.status.artifacts.first().cloned().unwrap(),
        version: 0,
    };
    plane.store.commit(vec![deletion], plane.world.now()).await.unwrap();
    plane.reconcile_statuses().await;
    assert_eq!(
        condition_of(&plane, ArtifactsIndexed).await,
        (Standing::False, Reason::UploadFailed)
    );
    // The approval expires: the run ends and its last conditions are final.
    plane.world.clock.fetch_add(25 * 3_600_000, Ordering::Relaxed);
    reconcile(&plane).await;
    assert!(only::<AgentDispatchRun>(&plane).await.status.phase.is_final());
    let expired = (Standing::False, Reason::ApprovalExpired);
    assert_eq!(condition_of(&plane, ApprovalSatisfied).await, expired);
}

#[tokio::test]
async fn run_that_could_not_be_launched_or_stored_has_the_reason() {
    use ConditionType::*;
    // Its permissions were removed while it waited.
    let plane = start_plane(|_| {}).await;
    plane.api.dispatch(&caller("ada"), "default", request("r")).await.unwrap();
    let mut changed = fleet(|object| {
        if object.kind == Kind::AgentServiceAccount {
            object.spec["allowedRepositories"] = json!(["others/*"]);
        }
    });
    changed.retain(|object| object.kind == Kind::AgentServiceAccount);
    declare(&plane, &changed).await;
    reconcile(&plane).await;
    let failed = (Standing::False, Reason::LaunchFailed);
    assert_eq!(condition_of(&plane, AgentMuxSessionBound).await, failed);
    // Its patch could not be stored.
    let plane = start_plane(|_| {}).await;
    plane.api.dispatch(&caller("ada"), "default", request("r")).await.unwrap();
    reconcile(&plane).await;
    set_state(&plane, in_state(LaunchedState::Verified));
    reconcile(&plane).await;
    assert_eq!(
        condition_of(&plane, ArtifactsIndexed).await,
        (Standing::False, Reason::PatchMissing)
    );
    // The pool had no capacity in time.
    let plane = start_plane(|_| {}).await;
    plane.api.dispatch(&caller("ada"), "default", request("r")).await.unwrap();
    pools(&plane, json!({ "paused": true, "queueTimeout": "1m" })).await;
    plane.world.clock.fetch_add(61_000, Ordering::Relaxed);
    reconcile(&plane).await;
    assert_eq!(condition_of(&plane, RunnerAssigned).await, (Standing::False, Reason::QueueTimeout));
    // Its context bundle is deleted.
    let plane = start_plane(|_| {}).await;
    plane.api.dispatch(&caller("ada"), "default", request("r")).await.unwrap();
    let run = only::<AgentDispatchRun>(&plane).await;
    let deletion = Write::Delete {
        kind: Kind::AgentContextBundle,
        namespace: "default".to_owned(),
        name: run.spec.context_bundle_ref.clone().unwrap(),
        version: 0,
    };
    plane.store.commit(vec![deletion], plane.world.now()).await.unwrap();
    plane.reconcile_statuses().await;
    let missing = (Standing::False, Reason::SourceObjectMissing);
    assert_eq!(condition_of(&plane, ContextAssembled).await, missing);
}

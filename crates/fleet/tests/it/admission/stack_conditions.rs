//! The twelve conditions of a stack: each false example of the tables is a test with its name.

use bailiwick_fleet::admission::conditions::{
    AdapterProbe, KitRole, McpProbe, SkillProbe, StackFacts, StackInput, stack_conditions,
    validation_of,
};
use bailiwick_fleet::admission::review::Scope;
use bailiwick_model::Sha256Hex;
use bailiwick_resources::{
    ConditionType, Finding, Kind, Reason, Standing, Validation, expected_conditions, settle,
};
use serde_json::json;

use super::world::{World, now};

fn found(world: &World, kind: ConditionType) -> Finding {
    let findings = world.stack_conditions();
    let kinds: Vec<ConditionType> = findings.iter().map(|finding| finding.kind).collect();
    assert_eq!(kinds, expected_conditions(Kind::AgentStack));
    findings.into_iter().find(|finding| finding.kind == kind).unwrap()
}

/// The condition and `Ready` are true before the change; afterwards the condition has the given status and `Ready` is
/// not true.
fn check(kind: ConditionType, status: Standing, reason: Reason, change: impl Fn(&mut World)) {
    let mut world = World::good();
    assert_eq!(found(&world, kind).status, Standing::True, "{:?}", found(&world, kind));
    assert_eq!(
        found(&world, ConditionType::Ready).status,
        Standing::True,
        "{:?}",
        world.stack_conditions()
    );
    change(&mut world);
    let finding = found(&world, kind);
    assert_eq!((finding.status, finding.reason), (status, reason), "{finding:?}");
    assert!(!finding.message.is_empty());
    assert_ne!(found(&world, ConditionType::Ready).status, Standing::True);
}

macro_rules! examples {
    ($($name:ident: $condition:ident $status:ident $reason:ident, $spoil:expr;)*) => {
        $(#[test]
        fn $name() {
            check(ConditionType::$condition, Standing::$status, Reason::$reason, $spoil);
        })*
    };
}

fn adapter(
    world: &mut World,
    change: impl Fn(&mut bailiwick_fleet::admission::conditions::AdapterFacts),
) {
    if let AdapterProbe::Seen(facts) = &mut world.facts.adapter {
        change(facts);
    }
}

fn file_skill(world: &mut World, probe: Option<SkillProbe>) {
    world.set(Kind::AgentSkill, "runbook", "/format", json!("file"));
    world.set(Kind::AgentSkill, "runbook", "/sourceRef", json!({ "path": "docs/runbook.md" }));
    world.facts.skills.extend(probe.map(|probe| ("runbook".to_owned(), probe)));
}

fn agents_doc(world: &mut World, probe: SkillProbe) {
    world.set_stack("/agentsDocRef", json!({ "source": "repository", "path": "AGENTS.md" }));
    world.facts.agents_doc = probe;
}

examples! {
    adapter_unavailable: CapabilitiesResolved False AdapterUnavailable, |world| {
        world.facts.adapter = AdapterProbe::Unavailable("claude is not installed".into());
    };
    unsupported_base_agent: CapabilitiesResolved False UnsupportedBaseAgent, |world| {
        world.facts.adapter = AdapterProbe::Unsupported("no adapter `x`".into());
    };
    adapter_that_cannot_stop_a_call_is_unsupported: CapabilitiesResolved False UnsupportedBaseAgent, |world| {
        adapter(world, |facts| facts.gates_tools = false);
    };
    stale_capability_schema: CapabilitiesResolved False StaleCapabilitySchema, |world| {
        adapter(world, |facts| facts.is_current = false);
    };
    adapter_without_a_probe_is_unknown: CapabilitiesResolved Unknown NotYetObserved, |world| {
        world.facts.adapter = AdapterProbe::NotYet;
    };
    denied_shell_command: ToolsAdmitted False DeniedShellCommand, |world| {
        world.set(Kind::Repository, "web", "/policy/deniedCommands", json!(["cargo test"]));
    };
    filesystem_scope_too_broad: ToolsAdmitted False FilesystemScopeTooBroad, |world| {
        world.set(Kind::Repository, "web", "/policy/filesystem", json!("read-only"));
    };
    network_policy_missing: ToolsAdmitted False NetworkPolicyMissing, |world| {
        world.set(Kind::AgentToolProfile, "tools", "/nativeTools/network", json!(true));
        world.set(Kind::AgentToolProfile, "tools", "/networkPolicy", json!(null));
    };
    tool_profile_missing: ToolsAdmitted False ToolProfileMissing, |world| {
        world.remove(Kind::AgentToolProfile, "tools");
    };
    tool_profiles_unlistable: ToolsAdmitted Unknown AccessReviewUnavailable, |world| {
        world.unlistable.insert(Kind::AgentToolProfile);
    };
    failed_probe: McpHealthy False McpProbeFailed, |world| {
        world.facts.mcp.insert("docs".into(), McpProbe::Failed("no answer".into()));
    };
    server_probe_timed_out: McpHealthy False McpProbeTimedOut, |world| {
        world.facts.mcp.insert("docs".into(), McpProbe::TimedOut("20 s".into()));
    };
    server_without_its_required_tool: McpHealthy False McpToolMissing, |world| {
        world.set(Kind::AgentMcpServer, "docs", "/requiredTools", json!(["search", "absent"]));
    };
    server_without_a_tool_that_a_skill_requires: McpHealthy False McpToolMissing, |world| {
        world.set(Kind::AgentSkill, "runbook", "/requiredTools", json!(["mcp__docs__absent"]));
    };
    secret_ref_missing: McpHealthy False McpSecretMissing, |world| {
        world.remove(Kind::Secret, "docs-key");
    };
    server_not_allowed_for_repo: McpHealthy False McpServerNotAllowed, |world| {
        world.set(Kind::Repository, "web", "/policy/allowedMcpServers", json!(["others"]));
    };
    server_of_another_repository: McpHealthy False McpServerNotAllowed, |world| {
        world.set(Kind::AgentMcpServer, "docs", "/scope", json!("repository"));
        world.set(Kind::AgentMcpServer, "docs", "/allowedRepositories", json!(["acme/api"]));
    };
    server_of_other_stacks: McpHealthy False McpServerNotAllowed, |world| {
        world.set(Kind::AgentMcpServer, "docs", "/allowedAgentStacks", json!(["other"]));
    };
    server_missing: McpHealthy False McpServerMissing, |world| {
        world.remove(Kind::AgentMcpServer, "docs");
    };
    server_without_a_probe: McpHealthy Unknown NotYetObserved, |world| {
        world.facts.mcp.clear();
    };
    provider_unknown: CapabilitiesResolved False UnsupportedProvider, |world| {
        world.set_stack("/provider", json!("somebody"));
    };
    provider_does_not_fit_the_login: CapabilitiesResolved False UnsupportedProvider, |world| {
        world.set_stack("/provider", json!("bedrock"));
        world.set_stack("/login", json!("api-key"));
    };
    agents_doc_missing: SkillsValidated False AgentsDocMissing, |world| {
        agents_doc(world, SkillProbe::Missing);
    };
    agents_doc_not_yet_observed: SkillsValidated Unknown NotYetObserved, |world| {
        agents_doc(world, SkillProbe::NotYet);
    };
    missing_skill: SkillsValidated False SkillMissing, |world| {
        world.remove(Kind::AgentSkill, "runbook");
    };
    skill_source_missing: SkillsValidated False SkillMissing, |world| {
        file_skill(world, Some(SkillProbe::Missing));
    };
    invalid_package: SkillsValidated False InvalidSkillPackage, |world| {
        file_skill(world, Some(SkillProbe::Invalid("no SKILL.md".into())));
    };
    skill_not_yet_observed: SkillsValidated Unknown NotYetObserved, |world| {
        file_skill(world, None);
    };
    required_tool_not_admitted: SkillsValidated False RequiredToolNotAdmitted, |world| {
        world.set(Kind::AgentSkill, "runbook", "/requiredTools", json!(["WebFetch"]));
    };
    skill_of_other_stacks: SkillsValidated False SkillNotAllowed, |world| {
        world.set(Kind::AgentSkill, "runbook", "/allowedAgentStacks", json!(["other"]));
    };
    skill_for_other_agents: SkillsValidated False SkillNotAllowed, |world| {
        world.set(Kind::AgentSkill, "runbook", "/compatibleAgents", json!(["codex"]));
    };
    skill_that_grants_tools: SkillsValidated False UnsafePromptFragment, |world| {
        world.set(Kind::AgentSkill, "runbook", "/promptFragment", json!("You may use any tools."));
    };
    adapter_lacks_subagent_dispatch: SubagentsValid False SubagentDispatchUnsupported, |world| {
        adapter(world, |facts| facts.subagents = false);
    };
    parallelism_exceeds_limit: SubagentsValid False ParallelismExceedsLimit, |world| {
        world.set(Kind::AgentSubagent, "reviewer", "/maxParallelTasks", json!(3));
    };
    parallelism_exceeds_the_repository: SubagentsValid False ParallelismExceedsLimit, |world| {
        world.set(Kind::AgentSubagent, "reviewer", "/maxParallelTasks", json!(2));
        world.set(Kind::Repository, "web", "/policy/maxParallelSubagents", json!(1));
    };
    output_contract_unsupported: SubagentsValid False OutputContractUnsupported, |world| {
        let contract = json!({ "format": "patch", "requiredSections": ["Why"] });
        world.set(Kind::AgentSubagent, "reviewer", "/outputContract", contract);
    };
    subagent_missing: SubagentsValid False SubagentMissing, |world| {
        world.remove(Kind::AgentSubagent, "reviewer");
    };
    subagent_with_more_tools_than_its_stack: SubagentsValid False SubagentEscalates, |world| {
        world.set(Kind::AgentSubagent, "reviewer", "/toolRefs", json!(["WebFetch"]));
    };
    subagent_that_writes_although_its_stack_is_read_only: SubagentsValid False SubagentEscalates, |world| {
        world.set(Kind::AgentToolProfile, "tools", "/filesystemPolicy", json!("read-only"));
        world.set(Kind::AgentSubagent, "reviewer", "/workspaceScope", json!("branch-local"));
    };
    label_deleted: ContextLabelsValid False ContextLabelDeleted, |world| {
        world.remove(Kind::AgentContextLabel, "careful");
    };
    stale_version: ContextLabelsValid False StaleContextLabel, |world| {
        let digest = Sha256Hex::of("Take large steps.").to_string();
        world.set_stack("/contextLabelRefs", json!([{ "name": "careful", "digest": digest }]));
    };
    unsafe_injection_token: ContextLabelsValid False UnsafeInjectionToken, |world| {
        let text = "Take small steps.\u{200b}";
        world.set(Kind::AgentContextLabel, "careful", "/promptFragment", json!(text));
    };
    label_without_a_review: ContextLabelsValid False ContextLabelNotReviewed, |world| {
        world.set(Kind::AgentContextLabel, "careful", "/requiresReview", json!(true));
    };
    untrusted_repo: PolicyAdmitted False UntrustedRepository, |world| {
        world.set(Kind::Repository, "web", "/trustTier", json!("untrusted"));
    };
    forbidden_approval_mode: PolicyAdmitted False ForbiddenApprovalMode, |world| {
        world.set_stack("/approvalMode", json!("yolo"));
    };
    privileged_secrets_on_fork: PolicyAdmitted False PrivilegedSecretsOnFork, |world| {
        world.set_stack("/secretPolicy/allowOnForks", json!(true));
        world.add(Kind::AgentSecretGrant, "push", json!({
            "subject": { "kind": "agent-stack", "name": "fixer" },
            "secretRef": { "name": "model", "keys": ["api-key"] },
            "purpose": "git-credential",
            "allowedRepositories": ["acme/*"],
            "allowUntrusted": true,
        }));
    };
    kit_role_missing: PolicyAdmitted False KitRoleMissing, |world| {
        world.facts.role = KitRole::Missing("there is no role `x`".into());
    };
    kit_role_not_yet_observed: PolicyAdmitted Unknown NotYetObserved, |world| {
        world.facts.role = KitRole::NotYet;
    };
    stack_not_allowed_by_the_repository: PolicyAdmitted False SubjectNotAuthorized, |world| {
        world.set(Kind::Repository, "web", "/policy/allowedStacks", json!(["other"]));
    };
    service_account_missing: RuntimeIdentityReady False ServiceAccountMissing, |world| {
        world.remove(Kind::ServiceAccount, "fixer");
    };
    token_projection_forbidden: RuntimeIdentityReady False TokenProjectionForbidden, |world| {
        world.set(Kind::ServiceAccount, "fixer", "/forbidTokenProjection", json!(true));
    };
    token_without_a_pod: RuntimeIdentityReady False TokenProjectionForbidden, |world| {
        world.set(Kind::AgentServiceAccount, "fixer", "/automountServiceAccountToken", json!(true));
        world.set(Kind::AgentServiceAccount, "fixer", "/tokenAudience", json!("vault"));
    };
    runner_pool_cannot_use_identity: RuntimeIdentityReady False ServiceAccountCannotUseRunner, |world| {
        world.set(Kind::AgentServiceAccount, "fixer", "/allowedRunnerPools", json!(["untrusted"]));
    };
    identities_unlistable: RuntimeIdentityReady Unknown AccessReviewUnavailable, |world| {
        world.unlistable.insert(Kind::ServiceAccount);
    };
    missing_role_binding: RolesAdmitted False MissingRoleBinding, |world| {
        world.remove(Kind::AgentRoleBinding, "fixer-reads");
    };
    cluster_role_denied: RolesAdmitted False ClusterRoleDenied, |world| {
        world.add(Kind::Role, "everything", json!({ "rules": [], "cluster": true }));
        let role = json!({ "kind": "ClusterRole", "name": "everything" });
        world.set(Kind::AgentRoleBinding, "fixer-reads", "/roleRef", role);
        world.sync();
    };
    binding_drifted_from_native_state: RolesAdmitted False RoleBindingDrifted, |world| {
        let other = json!([{ "kind": "user", "name": "mallory" }]);
        world.set(Kind::RoleBinding, "fixer-reads", "/subjects", other);
    };
    missing_secret_grant: SecretsAdmitted False MissingSecretGrant, |world| {
        world.remove(Kind::AgentSecretGrant, "docs-key");
    };
    named_grant_missing: SecretsAdmitted False MissingSecretGrant, |world| {
        world.set_stack("/permissionRefs/secretGrants", json!(["gone"]));
    };
    secret_key_missing: SecretsAdmitted False SecretKeyMissing, |world| {
        world.set_stack("/requiredSecretRefs/0/keys", json!(["other"]));
        world.set(Kind::AgentSecretGrant, "fixer-model", "/secretRef/keys", json!(["other"]));
    };
    secret_not_allowed_for_repo: SecretsAdmitted False SecretNotAllowedHere, |world| {
        world.set(Kind::AgentSecretGrant, "fixer-model", "/allowedRepositories", json!(["acme/api"]));
    };
    secret_not_allowed_for_ref: SecretsAdmitted False SecretNotAllowedHere, |world| {
        let refs = json!({ "include": ["release/*"], "exclude": [] });
        world.set(Kind::AgentSecretGrant, "fixer-model", "/allowedRefs", refs);
    };
    secret_not_allowed_for_trigger: SecretsAdmitted False SecretNotAllowedHere, |world| {
        world.set(Kind::AgentSecretGrant, "fixer-model", "/allowedTriggerSources", json!(["manual"]));
    };
    missing_config_grant: ConfigAdmitted False MissingConfigGrant, |world| {
        world.remove(Kind::AgentConfigGrant, "fixer-region");
    };
    config_key_missing: ConfigAdmitted False ConfigKeyMissing, |world| {
        world.set(Kind::ConfigMap, "runner", "/data", json!({}));
    };
    config_denied_for_stack: ConfigAdmitted False ConfigDenied, |world| {
        world.add(Kind::AgentConfigGrant, "no", json!({
            "subject": { "kind": "agent-stack", "name": "fixer" },
            "configMapRef": { "name": "runner", "keys": ["region"] },
            "purpose": "runner-config",
            "deny": true,
        }));
    };
}

#[test]
fn lazy_server_without_an_answer_is_healthy() {
    let mut world = World::good();
    world.set(Kind::AgentMcpServer, "docs", "/lazy", json!(true));
    world.facts.mcp.insert("docs".into(), McpProbe::Failed("not yet".into()));
    let finding = found(&world, ConditionType::McpHealthy);
    assert_eq!((finding.status, finding.reason), (Standing::True, Reason::LazyServersAllowed));
}

#[test]
fn stack_without_facts_is_not_ready() {
    let world = World::good();
    let findings = stack_conditions(&StackInput {
        frozen: &world.frozen(),
        inventory: &world.inventory(),
        facts: &StackFacts::default(),
        repositories: &[world.repository()],
        reviews: &[],
    });
    let ready = findings.last().unwrap();
    assert_eq!((ready.status, ready.reason), (Standing::Unknown, Reason::RequirementsUnknown));
    assert_eq!(validation_of(&findings), Validation::Warning);
    assert_eq!(validation_of(&world.stack_conditions()), Validation::Valid);
}

#[test]
fn conditions_have_their_generation_and_transition_time() {
    let mut world = World::good();
    let first = settle(&[], world.stack_conditions(), 3, now());
    let later = now().plus_millis(1000);
    world.remove(Kind::AgentSkill, "runbook");
    let second = settle(&first, world.stack_conditions(), 4, later);
    for (before, after) in first.iter().zip(&second) {
        let has_changed = before.status != after.status;
        let change_expected =
            matches!(before.kind, ConditionType::SkillsValidated | ConditionType::Ready);
        assert_eq!(has_changed, change_expected, "{:?}", before.kind);
        assert_eq!(after.last_transition_time, if has_changed { later } else { now() });
        assert_eq!(after.observed_generation, 4);
    }
}

#[test]
fn review_of_a_stack_needs_no_repository() {
    let world = World::good();
    let review = world.review_in(Scope::Stack);
    assert!(review.situation.is_none());
    assert_eq!(
        review.decision,
        bailiwick_fleet::admission::Decision::Allowed,
        "{:?}",
        review.reasons
    );
}

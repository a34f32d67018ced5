//! The ten validations: each can fail on its own.

use bailiwick_fleet::admission::conditions::{AdapterProbe, McpProbe};
use bailiwick_fleet::admission::review::ReviewReason;
use bailiwick_fleet::admission::validations::{self, Candidate, Validation};
use bailiwick_resources::{EventSource, Kind, Reason};
use serde_json::json;

use super::world::World;

fn run(world: &World, validation: fn(&Candidate<'_>) -> Vec<ReviewReason>) -> Vec<Reason> {
    let candidate = Candidate {
        frozen: &world.frozen(),
        inventory: &world.inventory(),
        facts: &world.facts,
        repository: &world.repository(),
        situation: &world.situation,
        review: &world.review(),
        about: world.texts.about,
    };
    validation(&candidate).into_iter().map(|why| why.code).collect()
}

fn check(
    validation: fn(&Candidate<'_>) -> Vec<ReviewReason>,
    reason: Reason,
    change: impl Fn(&mut World),
) {
    let mut world = World::good();
    assert_eq!(run(&world, validation), []);
    change(&mut world);
    assert!(run(&world, validation).contains(&reason), "{:?}", run(&world, validation));
}

#[test]
fn validation_01_stack_fits_its_adapter() {
    let unavailable = |world: &mut World| {
        world.facts.adapter = AdapterProbe::Unavailable("gone".into());
    };
    check(validations::adapter_capabilities, Reason::AdapterUnavailable, unavailable);
    let unknown = |world: &mut World| world.facts.adapter = AdapterProbe::NotYet;
    check(validations::adapter_capabilities, Reason::NotYetObserved, unknown);
}

#[test]
fn validation_02_servers_are_available_and_allowed() {
    check(validations::mcp_servers, Reason::McpProbeFailed, |world| {
        world.facts.mcp.insert("docs".into(), McpProbe::Failed("x".into()));
    });
}

#[test]
fn validation_03_skills_and_labels_fit_the_task() {
    check(validations::skills, Reason::SkillNotAllowed, |world| {
        world.set(Kind::AgentSkill, "runbook", "/taskKinds", json!(["release"]));
    });
    check(validations::skills, Reason::ContextLabelNotReviewed, |world| {
        world.set(Kind::AgentContextLabel, "careful", "/allowedRepositories", json!(["acme/api"]));
    });
}

#[test]
fn validation_04_subagents_stay_within_limits() {
    check(validations::subagents, Reason::ParallelismExceedsLimit, |world| {
        world.set(Kind::AgentSubagent, "reviewer", "/maxParallelTasks", json!(9));
    });
}

#[test]
fn validation_05_tool_profile_fits_the_trust_tier() {
    check(validations::tool_profile, Reason::FilesystemScopeTooBroad, |world| {
        world.set(Kind::AgentToolProfile, "tools", "/nativeTools/browser", json!(true));
        world.fork();
    });
}

#[test]
fn validation_06_both_identities_are_admitted() {
    check(validations::identities, Reason::ServiceAccountMissing, |world| {
        world.remove(Kind::ServiceAccount, "runner");
    });
    check(validations::identities, Reason::RoleBindingDrifted, |world| {
        world.set(Kind::RoleBinding, "fixer-reads", "/subjects", json!([]));
    });
}

#[test]
fn validation_07_secrets_are_granted_for_subject_ref_and_source() {
    check(validations::secret_grants, Reason::MissingSecretGrant, |world| {
        world.remove(Kind::AgentSecretGrant, "docs-key");
    });
    check(validations::secret_grants, Reason::SecretNotAllowedHere, |world| {
        world.situation.repository = "other/web".into();
        world.set(Kind::Repository, "web", "/fullName", json!("other/web"));
    });
}

#[test]
fn validation_08_config_maps_are_granted() {
    check(validations::config_grants, Reason::MissingConfigGrant, |world| {
        world.remove(Kind::AgentConfigGrant, "fixer-region");
    });
}

#[test]
fn validation_09_policy_allows_the_secrets() {
    check(validations::secret_policy, Reason::UntrustedRepository, |world| {
        world.set(Kind::Repository, "web", "/trustTier", json!("untrusted"));
    });
}

#[test]
fn validation_10_approval_mode_is_allowed_for_source_and_actor() {
    let yolo = |world: &mut World| {
        world.set_stack("/approvalMode", json!("yolo"));
        world.set(
            Kind::Repository,
            "web",
            "/policy/approvalModes",
            json!(["yolo", "policy-derived"]),
        );
    };
    let mut world = World::good();
    yolo(&mut world);
    assert_eq!(
        run(&world, validations::approval_mode),
        [],
        "it is allowed for a CI run of a known actor"
    );
    check(validations::approval_mode, Reason::ForbiddenApprovalMode, |world| {
        world.set_stack("/approvalMode", json!("yolo"));
    });
    for change in [
        (|world: &mut World| world.situation.source = EventSource::PrComment) as fn(&mut World),
        |world| world.fork(),
        |world| world.situation.actor = None,
    ] {
        check(validations::approval_mode, Reason::ForbiddenApprovalMode, |world| {
            yolo(world);
            change(world);
        });
    }
}

#[test]
fn there_are_ten_distinct_validations() {
    assert_eq!(Validation::ALL.len(), 10);
    let mut sorted = Validation::ALL.to_vec();
    sorted.dedup();
    assert_eq!(sorted.len(), 10);
}

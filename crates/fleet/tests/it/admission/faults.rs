//! Faults of the public attempt that admission must not have, each with its number.

use bailiwick_fleet::admission::{Decision, collect};
use bailiwick_resources::{
    AgentMcpServer, AgentServiceAccount, AgentSkill, AgentStack, ApprovalPhase, ConditionType,
    Kind, Object, Resource, RunPhase, Standing,
};
use serde_json::json;

use super::world::{World, may_launch, object};

fn ask_always(world: &mut World) {
    world.set(Kind::AgentSecretGrant, "fixer-model", "/requiredApproval", json!("always"));
}

#[test]
fn fault_01_grant_that_requires_approval_launches_nothing() {
    let mut world = World::good();
    let unrestricted = world.admit().unwrap();
    assert!(may_launch(&unrestricted) && unrestricted.approvals.is_empty());
    assert_eq!(unrestricted.run.status.phase, RunPhase::Queued);
    ask_always(&mut world);
    let waiting = world.admit().unwrap();
    assert_eq!(waiting.review.decision, Decision::RequiresApproval);
    assert_eq!(waiting.run.status.phase, RunPhase::WaitingForApproval);
    assert!(!may_launch(&waiting));
    let approval = &waiting.approvals[0];
    assert_eq!(approval.status.phase, ApprovalPhase::Pending);
    assert_eq!(approval.spec.artifact_digest, waiting.admitted_digest);
    assert_eq!(waiting.run.status.approvals, [approval.name()]);
    // An approval is not valid for another stack, other permissions or another context.
    for change in [
        (|world: &mut World| world.set_stack("/model", json!("other"))) as fn(&mut World),
        |world| world.set(Kind::Secret, "model", "/keys/api-key/version", json!(9)),
        |world| world.texts.breadcrumbs.push_str(" and more"),
    ] {
        let mut other = world.clone();
        change(&mut other);
        assert_ne!(other.admit().unwrap().admitted_digest, waiting.admitted_digest);
    }
}

#[test]
fn fault_03_labels_are_injected_and_the_bundle_names_its_run() {
    let admitted = World::good().admit().unwrap();
    assert!(admitted.bundle.render().contains("Take small steps."));
    assert_eq!(admitted.bundle_object.spec.dispatch_run, admitted.run.name());
    assert_eq!(admitted.bundle_object.spec.digest, admitted.attempt.spec.context_bundle_digest);
    let bundle = &admitted.bundle_object;
    assert_eq!(admitted.run.spec.context_bundle_ref.as_deref(), Some(bundle.name()));
    let any = bailiwick_resources::AnyObject::of(bundle).unwrap();
    assert_eq!(any.check().unwrap(), []);
    // A label that does not apply to this kind of work is left out.
    let mut world = World::good();
    world.set(Kind::AgentContextLabel, "careful", "/allowedSources", json!(["manual"]));
    assert!(!world.admit().unwrap().bundle.render().contains("Take small steps."));
}

#[test]
fn fault_04_documented_subject_and_purpose_are_granted() {
    let mut world = World::good();
    let subject = json!({ "kind": "agent-stack", "name": "fixer", "serviceAccountRef": "fixer" });
    world.set(Kind::AgentSecretGrant, "fixer-model", "/subject", subject);
    let spec = world.spec(Kind::AgentSecretGrant, "fixer-model").clone();
    assert_eq!(spec["purpose"], "model-provider-token");
    assert_eq!(world.review().decision, Decision::Allowed);
    let other = json!({ "kind": "agent-stack", "name": "fixer", "serviceAccountRef": "other" });
    world.set(Kind::AgentSecretGrant, "fixer-model", "/subject", other);
    assert_eq!(world.review().decision, Decision::Denied);
}

#[test]
fn fault_05_approval_never_and_allowed_sources_and_refs_take_effect() {
    let mut world = World::good();
    world.set(Kind::AgentSecretGrant, "fixer-model", "/requiredApproval", json!("never"));
    assert_eq!(world.review().decision, Decision::Allowed);
    world.set(Kind::AgentSecretGrant, "fixer-model", "/allowedTriggerSources", json!(["schedule"]));
    assert_eq!(world.review().decision, Decision::Denied);
    world.set(Kind::AgentSecretGrant, "fixer-model", "/allowedTriggerSources", json!(["ci"]));
    let refs = json!({ "include": ["main"], "exclude": [] });
    world.set(Kind::AgentSecretGrant, "fixer-model", "/allowedRefs", refs);
    assert_eq!(world.review().decision, Decision::Allowed);
    let refs = json!({ "include": ["**"], "exclude": ["main"] });
    world.set(Kind::AgentSecretGrant, "fixer-model", "/allowedRefs", refs);
    assert_eq!(world.review().decision, Decision::Denied);
}

#[test]
fn fault_06_roles_and_policy_are_evaluated() {
    let standing = |world: &World, kind| {
        let findings = world.stack_conditions();
        findings.iter().find(|finding| finding.kind == kind).unwrap().status
    };
    let mut world = World::good();
    assert_eq!(standing(&world, ConditionType::RolesAdmitted), Standing::True);
    world.remove(Kind::RoleBinding, "fixer-reads");
    assert_eq!(standing(&world, ConditionType::RolesAdmitted), Standing::False);
    assert_eq!(standing(&world, ConditionType::PolicyAdmitted), Standing::True);
    world.set(Kind::Repository, "web", "/policy/approvalModes", json!(["deny"]));
    assert_eq!(standing(&world, ConditionType::PolicyAdmitted), Standing::False);
}

#[test]
fn fault_12_no_declared_field_is_dropped() {
    fn assert_complete<R: Resource>(world: &World, name: &str) {
        let any = &world.objects[&(R::KIND, name.to_owned())];
        let typed = serde_json::to_value(any.typed::<R>().unwrap().spec).unwrap();
        for (key, value) in any.spec.as_object().unwrap() {
            assert_eq!(&typed[key], value, "{} {key}", R::KIND);
        }
    }
    let good = World::good();
    assert_complete::<AgentSkill>(&good, "runbook");
    assert_complete::<AgentMcpServer>(&good, "docs");
    assert_complete::<AgentServiceAccount>(&good, "fixer");
    let stack =
        good.objects[&(Kind::AgentStack, "fixer".to_owned())].typed::<AgentStack>().unwrap();
    assert_eq!(stack.spec.tool_policy.as_deref(), Some("tools"));
    // The fields also take effect: fragment, profile, program and pools reach the launched task.
    let admitted = good.admit().unwrap();
    assert!(admitted.bundle.render().contains("Follow the runbook."));
    assert_eq!(admitted.compiled.mcp_servers[0].command.as_deref(), Some("docs-mcp"));
    assert!(admitted.compiled.limits.0.iter().any(|limit| limit.owner.contains("tools")));
}

#[test]
fn fault_13_fork_does_not_bypass_an_approval() {
    let mut world = World::good();
    ask_always(&mut world);
    for name in ["fixer-model", "docs-key"] {
        world.set(Kind::AgentSecretGrant, name, "/allowUntrusted", json!(true));
    }
    world.set_stack("/secretPolicy/allowOnForks", json!(true));
    assert_eq!(world.review().decision, Decision::RequiresApproval);
    world.fork();
    assert_eq!(world.review().decision, Decision::RequiresApproval);
    let admitted = world.admit().unwrap();
    assert_eq!(admitted.run.status.phase, RunPhase::WaitingForApproval);
    assert!(!may_launch(&admitted));
    // A weaker grant without approval does not help if the stronger grant is not for forks.
    world.set(Kind::AgentSecretGrant, "fixer-model", "/allowUntrusted", json!(false));
    world.add(
        Kind::AgentSecretGrant,
        "weaker",
        json!({
            "subject": { "kind": "user", "name": "ada" },
            "secretRef": { "name": "model", "keys": ["api-key"] },
            "purpose": "model-provider-token",
            "allowedRepositories": ["**"],
            "allowUntrusted": true,
        }),
    );
    assert_ne!(world.review().decision, Decision::Allowed);
}

#[test]
fn fault_14_skills_servers_tools_context_and_labels_reach_the_task() {
    let admitted = World::good().admit().unwrap();
    let text = admitted.bundle.render();
    for part in [
        "You mend builds.",
        "Look first.",
        "Follow the runbook.",
        "first error on",
        "Take small steps.",
        "A job failed.",
        "Mend it.",
        "job 17",
    ] {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
    let task = &admitted.compiled.task;
    for part in ["docs", "reviewer", "claude-code", "tokens = 1000"] {
        assert!(task.contains(part), "{part} is missing in\n{task}");
    }
    let limits = serde_json::to_value(admitted.compiled.launch_limits()).unwrap();
    assert_eq!(limits["mcpServers"][0]["command"], "docs-mcp");
    assert_eq!(limits["subagents"][0]["spec"]["rolePrompt"], "You look over changes.");
    assert!(limits["limits"].to_string().contains("cargo check"), "{limits}");
    let kinds = [Kind::AgentSkill, Kind::AgentMcpServer, Kind::AgentContextLabel];
    for kind in kinds {
        let objects = admitted.attempt.spec.agent_stack_snapshot.objects.iter();
        assert!(objects.clone().any(|one| one.object.kind == kind), "{kind}");
    }
}

#[test]
fn fault_21_grant_cannot_contain_a_value() {
    let mut world = World::good();
    for key in ["data", "stringData", "value"] {
        let mut spec = world.spec(Kind::AgentSecretGrant, "fixer-model").clone();
        spec[key] = json!({ "api-key": "hunter2" });
        let any = object(Kind::AgentSecretGrant, "x", spec);
        assert!(any.check().is_err(), "{key}");
    }
    let mut spec = world.spec(Kind::Secret, "model").clone();
    spec["keys"]["api-key"]["value"] = json!("hunter2");
    assert!(object(Kind::Secret, "x", spec).check().is_err());
    // No object of admission contains a value, even if admission knows it.
    world.redaction.known = vec!["s3cr3t-value".into()];
    world.texts.task = Some(("ada".into(), "use s3cr3t-value".into()));
    let admitted = world.admit().unwrap();
    let all = format!(
        "{} {} {} {}",
        serde_json::to_string(&admitted.review).unwrap(),
        serde_json::to_string(&admitted.bundle_object).unwrap(),
        admitted.bundle.render(),
        serde_json::to_string(&admitted.compiled.launch_limits()).unwrap(),
    );
    assert!(!all.contains("s3cr3t-value"));
    assert!(all.contains("denied-value"), "the redaction is counted");
}

#[test]
fn requirements_are_recorded_per_stack_and_server() {
    let needs = collect(&World::good().frozen());
    let names: Vec<&str> = needs.records.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["stack.fixer", "mcp.docs"]);
    for (name, record) in &needs.records {
        let object = Object::new(bailiwick_resources::Metadata::named(name), record.clone());
        let any = bailiwick_resources::AnyObject::of(&object).unwrap();
        assert_eq!(any.check().unwrap(), []);
    }
    let (_, stack) = &needs.records[0];
    assert_eq!(stack.required_roles, ["agent-readonly"]);
    assert_eq!(stack.required_secret_refs[0].keys, ["api-key"]);
    let (_, docs) = &needs.records[1];
    assert_eq!(docs.required_secret_refs[0].name, "docs-key");
}

//! The snapshot of a stack and its digest.

use bailiwick_fleet::admission::snapshot::{restore_snapshot, snapshot};
use bailiwick_resources::{Kind, LabelRef};
use serde_json::json;

use super::world::World;

#[test]
fn snapshot_contains_everything_that_a_stack_names() {
    let frozen = World::good().frozen();
    assert!(frozen.missing.is_empty(), "{:?}", frozen.missing);
    let mut kinds: Vec<Kind> = frozen.snapshot.objects.iter().map(|one| one.object.kind).collect();
    assert_eq!(kinds.remove(0), Kind::AgentStack);
    kinds.sort();
    assert_eq!(
        kinds,
        [
            Kind::AgentSubagent,
            Kind::AgentToolProfile,
            Kind::AgentMcpServer,
            Kind::AgentSkill,
            Kind::AgentServiceAccount,
            Kind::AgentRoleBinding,
            Kind::AgentSecretGrant,
            Kind::AgentContextLabel,
            Kind::AgentWorkspacePolicy,
        ]
    );
}

#[test]
fn digest_changes_with_every_part_and_with_nothing_else() {
    let world = World::good();
    let digest = world.frozen().snapshot.digest;
    assert_eq!(World::good().frozen().snapshot.digest, digest);
    let mut same = world.clone();
    same.set(Kind::ConfigMap, "runner", "/data", json!({ "region": "us" }));
    assert_eq!(same.frozen().snapshot.digest, digest, "a config map is not part of the stack");
    let parts = [
        (Kind::AgentToolProfile, "tools", "/deniedCommands", json!(["rm"])),
        (Kind::AgentMcpServer, "docs", "/command", json!("other")),
        (Kind::AgentSkill, "runbook", "/promptFragment", json!("x")),
        (Kind::AgentSubagent, "reviewer", "/rolePrompt", json!("x")),
        (Kind::AgentContextLabel, "careful", "/promptFragment", json!("x")),
        (Kind::AgentWorkspacePolicy, "per-run", "/mode", json!("per-work-item")),
        (Kind::AgentServiceAccount, "fixer", "/allowedRunnerPools", json!([])),
        (Kind::AgentRoleBinding, "fixer-reads", "/roleRef/name", json!("agent-approver")),
        (Kind::AgentSecretGrant, "fixer-model", "/deny", json!(true)),
        (Kind::AgentStack, "fixer", "/model", json!("x")),
    ];
    for (kind, name, pointer, value) in parts {
        let mut other = world.clone();
        other.set(kind, name, pointer, value);
        assert_ne!(other.frozen().snapshot.digest, digest, "{kind}");
        let mut without = world.clone();
        if kind != Kind::AgentStack {
            without.remove(kind, name);
            let frozen = without.frozen();
            assert_ne!(frozen.snapshot.digest, digest, "{kind}");
            let missing: Vec<Kind> = frozen.missing.iter().map(|one| one.object.kind).collect();
            assert_eq!(missing, [kind], "missing parts are listed");
        }
    }
}

#[test]
fn unlistable_part_is_unknown_and_missing_stack_has_no_snapshot() {
    let mut world = World::good();
    world.unlistable.insert(Kind::AgentSkill);
    let frozen = world.frozen();
    assert!(frozen.missing.len() == 1 && frozen.missing[0].unknown, "{:?}", frozen.missing);
    assert!(!snapshot(&world.inventory(), "default", "none", &[]).unwrap_err().unknown);
    assert!(!snapshot(&world.inventory(), "elsewhere", "fixer", &[]).unwrap_err().unknown);
    world.unlistable.insert(Kind::AgentStack);
    assert!(snapshot(&world.inventory(), "default", "fixer", &[]).unwrap_err().unknown);
}

#[test]
fn snapshot_is_restored_and_an_altered_snapshot_is_refused() {
    let mut world = World::good();
    world.add(
        Kind::AgentContextLabel,
        "more",
        json!({
            "promptFragment": "Be brief.", "allowedSources": ["job"],
        }),
    );
    let labels = [LabelRef { name: "more".into(), digest: None }];
    let frozen = snapshot(&world.inventory(), "default", "fixer", &labels).unwrap();
    assert_eq!(frozen.labels.len(), 2);
    let restored = restore_snapshot(&frozen.snapshot, &labels).unwrap();
    assert_eq!(restored.snapshot, frozen.snapshot);
    assert_eq!(restored.labels[1].spec, frozen.labels[1].spec);
    let mut altered = frozen.snapshot.clone();
    altered.objects[0].spec["model"] = json!("another");
    assert!(restore_snapshot(&altered, &labels).is_err());
    let without_labels = restore_snapshot(&frozen.snapshot, &[]).unwrap();
    assert_eq!(without_labels.snapshot, frozen.snapshot, "the snapshot stores its labels");
    let mut fewer = frozen.snapshot.clone();
    while fewer.labels.pop().is_some() {
        assert!(restore_snapshot(&fewer, &[]).is_err(), "without its labels the digest differs");
    }
}

#[test]
fn skill_part_names_its_version() {
    use bailiwick_fleet::admission::context::stack_parts;
    use bailiwick_fleet::bundle::StackTexts;
    let mut world = World::good();
    let provenance = |world: &World| -> Vec<String> {
        let parts = stack_parts(&world.frozen(), StackTexts::default());
        let skills = parts.into_iter().filter(|part| part.provenance.starts_with("AgentSkill/"));
        skills.map(|part| part.provenance).collect()
    };
    world.set(Kind::AgentSkill, "runbook", "/promptFragment", json!("Read it."));
    assert!(
        provenance(&world).iter().all(|one| !one.contains("version")),
        "{:?}",
        provenance(&world)
    );
    world.set(Kind::AgentSkill, "runbook", "/version", json!("1.2"));
    assert!(!provenance(&world).is_empty());
    assert!(
        provenance(&world).iter().all(|one| one.ends_with(" version 1.2")),
        "{:?}",
        provenance(&world)
    );
}

//! A cluster decides about the rights of a binding: its answers narrow, and what is not known is denied.

use bailiwick_fleet::admission::{Decision, Review};
use bailiwick_resources::{AgentRoleBinding, Kind, Moment, OPERATOR_FENCE, Reason};
use serde_json::{Value, json};

use super::world::{NOW, World};

const BINDING: (Kind, &str) = (Kind::AgentRoleBinding, "fixer-reads");

/// A world whose binding gives rights of a platform.
fn world() -> World {
    let mut world = World::good();
    let rules = json!([{ "resources": ["pods"], "verbs": ["get"] }]);
    world.add(Kind::Role, "reader", json!({ "rules": rules }));
    world.set(BINDING.0, BINDING.1, "/roleRef", json!({ "kind": "Role", "name": "reader" }));
    world.set(BINDING.0, BINDING.1, "/resourceRules", rules);
    world.sync();
    world
}

fn with_operator(mut world: World) -> World {
    world.add(Kind::ConfigMap, OPERATOR_FENCE, json!({ "data": { "epoch": "1" } }));
    world
}

/// A report about the binding as it is, from `age` milliseconds ago.
fn report(world: &mut World, answer: &str, age: u64, change: impl FnOnce(&mut Value)) {
    let object = world.objects.get_mut(&(BINDING.0, BINDING.1.to_owned())).unwrap();
    let digest = object.typed::<AgentRoleBinding>().unwrap().spec_digest().to_string();
    let mut report = json!({
        "answer": answer, "specDigest": digest, "account": "default/fixer",
    });
    change(&mut report);
    let at = Moment::from_millis(NOW - age);
    object.status = json!({ "access": { "report": report, "at": at } });
}

fn reviewed(answer: &str, age: u64, change: impl FnOnce(&mut Value)) -> Review {
    let mut world = with_operator(world());
    report(&mut world, answer, age, change);
    world.review()
}

#[test]
fn binding_of_a_cluster_counts_only_while_its_api_server_allows_it() {
    assert_eq!(world().review().decision, Decision::Allowed, "without an operator");
    let review = reviewed("allowed", 0, |_| {});
    assert_eq!(review.decision, Decision::Allowed, "{:#?}", review.reasons);
    let minutes = 60_000;
    assert_eq!(reviewed("allowed", 14 * minutes, |_| {}).decision, Decision::Allowed);
    let unknown = [
        with_operator(world()).review(),
        reviewed("allowed", 16 * minutes, |_| {}),
        reviewed("allowed", 0, |report| report["specDigest"] = json!("another")),
        reviewed("allowed", 0, |report| report["account"] = json!("default/other")),
        reviewed("allowed", 0, |report| report["account"] = json!(null)),
        reviewed("unknown", 0, |report| report["detail"] = json!("a webhook is away")),
    ];
    for (number, review) in unknown.into_iter().enumerate() {
        assert_eq!(review.decision, Decision::Denied, "{number}");
        assert!(review.says(Reason::AccessReviewUnavailable), "{number}: {:#?}", review.reasons);
    }
}

#[test]
fn missing_right_is_denied_with_the_objects_that_would_add_it() {
    let review = reviewed("missing", 0, |report| {
        report["missing"] = json!(["get pods"]);
        report["remedy"] = json!("kind: Role\n");
    });
    assert_eq!(review.decision, Decision::Denied);
    assert!(review.says(Reason::MissingRoleBinding), "{:#?}", review.reasons);
    assert!(review.reasons.iter().any(|why| why.message.contains("get pods")));
    assert_eq!(review.missing_grants.len(), 1);
    assert_eq!(review.missing_grants[0].kind, Kind::AgentRoleBinding);
    let yaml = "# For the cluster, with `kubectl apply -f -`.\nkind: Role\n";
    assert_eq!(review.yaml_preview, [yaml]);
}

#[test]
fn yes_of_the_cluster_never_widens() {
    let mut world = with_operator(world());
    let secrets = json!([{ "resources": ["secrets"], "verbs": ["get"] }]);
    world.set(BINDING.0, BINDING.1, "/resourceRules", secrets);
    report(&mut world, "allowed", 0, |_| {});
    let review = world.review();
    assert_eq!(review.decision, Decision::Denied);
    assert!(review.says(Reason::EscalationDenied), "{:#?}", review.reasons);
}

#[test]
fn template_gives_no_rights_of_the_cluster_and_needs_no_answer() {
    assert_eq!(with_operator(World::good()).review().decision, Decision::Allowed);
}

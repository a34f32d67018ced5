//! Access reviews: requests, answers and the resulting condition.

use serde_json::{Value, json};

use super::*;

fn binding(scope: Value, rules: Value) -> AgentRoleBinding {
    serde_json::from_value(json!({
        "subject": { "kind": "agent-stack", "name": "s", "serviceAccountRef": "runner" },
        "scope": scope, "roleRef": { "kind": "Role", "name": "r" }, "resourceRules": rules,
    }))
    .unwrap()
}

fn account() -> Account {
    Account { namespace: "agents".to_owned(), name: "runner".to_owned() }
}

fn logs() -> AgentRoleBinding {
    binding(
        json!({ "kind": "namespace", "name": "default" }),
        json!([{ "resources": ["pods/log"], "verbs": ["get"] },
            { "apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["get", "patch"] }]),
    )
}

#[test]
fn each_verb_and_resource_is_reviewed_for_the_account() {
    let permissions = permissions(&logs(), "agents").unwrap();
    let requested: Vec<_> = permissions
        .iter()
        .map(|one| question(&account(), one, "agents").spec)
        .map(|spec| {
            let resource = spec.resource_attributes.unwrap();
            assert_eq!(spec.user.as_deref(), Some("system:serviceaccount:agents:runner"));
            assert_eq!(resource.namespace.as_deref(), Some("agents"));
            (resource.resource.unwrap(), resource.subresource, resource.verb.unwrap())
        })
        .collect();
    let log = Some("log".to_owned());
    let expected =
        [("pods", log, "get"), ("deployments", None, "get"), ("deployments", None, "patch")];
    assert_eq!(requested, expected.map(|(a, b, c)| (a.to_owned(), b, c.to_owned())));
}

#[test]
fn binding_that_cannot_be_reviewed_has_an_unknown_condition() {
    let rules = json!([{ "resources": ["pods"], "verbs": ["get"] }]);
    let many: Vec<String> = (0..65).map(|number| format!("r{number}")).collect();
    let here = json!({ "kind": "namespace", "name": "default" });
    for (binding, reason) in [
        (binding(json!({ "kind": "cluster" }), rules.clone()), NotReviewed::OtherNamespace),
        (binding(json!({ "kind": "namespace", "name": "x" }), rules), NotReviewed::OtherNamespace),
        (binding(here.clone(), json!([])), NotReviewed::NoRules),
        (
            binding(here, json!([{ "resources": many, "verbs": ["get"] }])),
            NotReviewed::TooManyRules,
        ),
    ] {
        assert_eq!(permissions(&binding, "agents"), Err(reason));
        let condition = Review::NotReviewed(reason).condition("b");
        assert_eq!(
            (condition.standing, condition.reason),
            (Standing::Unknown, reason.as_str().to_owned())
        );
    }
}

#[test]
fn only_an_explicit_permission_is_allowed() {
    let status = |allowed, denied, error: Option<&str>| SubjectAccessReviewStatus {
        allowed,
        denied,
        evaluation_error: error.map(str::to_owned),
        reason: None,
    };
    for (status, expected) in [
        (Some(status(true, None, None)), Answer::Allowed),
        (Some(status(true, None, Some("one of two failed"))), Answer::Allowed),
        (Some(status(true, Some(true), None)), Answer::Missing),
        (Some(status(false, None, None)), Answer::Missing),
        (Some(status(false, None, Some("a webhook is away"))), Answer::Unknown),
        (None, Answer::Unknown),
    ] {
        assert_eq!(answer(status.as_ref()), expected, "{status:?}");
    }
}

#[test]
fn missing_permissions_are_listed_with_a_role_of_all_permissions() {
    let all = permissions(&logs(), "agents").unwrap();
    let answers = all.iter().map(|one| {
        let is_missing = one.verb == "patch" || one.group.is_empty();
        (one.clone(), if is_missing { Answer::Missing } else { Answer::Allowed })
    });
    let Review::Missing(missing) = review(answers.collect()) else { panic!("nothing is missing") };
    let condition = Review::Missing(missing).condition("logs");
    assert_eq!(condition.standing, Standing::False);
    assert!(
        condition.message.contains("get pods/log, patch deployments.apps;"),
        "{}",
        condition.message
    );
    let yaml = remedy("logs", &account(), "agents", &all).unwrap();
    let documents: Vec<Value> = serde_saphyr::from_multiple(&yaml).unwrap();
    let rules = json!([
        { "apiGroups": [""], "resources": ["pods/log"], "verbs": ["get"] },
        { "apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["get", "patch"] },
    ]);
    assert_eq!(documents[0]["rules"], rules);
    assert_eq!(documents[1]["subjects"][0]["name"], "runner");
    assert_eq!(documents[1]["roleRef"]["name"], documents[0]["metadata"]["name"]);
}

#[test]
fn report_names_the_version_the_account_and_what_is_missing() {
    let identity: AgentServiceAccount = serde_json::from_value(json!({
        "serviceAccountName": "runner", "owner": { "kind": "organization", "name": "o" },
    }))
    .unwrap();
    let binding = Object::new(bailiwick_resources::Metadata::named("logs"), logs());
    let all = permissions(&binding.spec, "agents").unwrap();
    let missing: BTreeSet<_> = all.iter().filter(|one| one.verb == "patch").cloned().collect();
    let reported = |review: &Review| report(&binding, Some(&identity), review, "agents");
    let lacking = reported(&Review::Missing(missing));
    assert_eq!(lacking.answer, AccessAnswer::Missing);
    assert_eq!(lacking.spec_digest, binding.spec_digest().to_string());
    assert_eq!(lacking.account.as_deref(), Some("default/runner"));
    assert_eq!(lacking.missing, ["patch deployments.apps"]);
    let documents: Vec<Value> = serde_saphyr::from_multiple(&lacking.remedy).unwrap();
    assert_eq!(documents[0]["rules"].as_array().unwrap().len(), 2, "everything that it gives");
    let allowed = reported(&Review::Allowed);
    assert!(allowed.answer == AccessAnswer::Allowed && allowed.remedy.is_empty());
    for review in [Review::Unknown(all), Review::NotReviewed(NotReviewed::NoRules)] {
        let unknown = reported(&review);
        assert!(unknown.answer == AccessAnswer::Unknown && !unknown.detail.is_empty());
    }
    assert_eq!(report(&binding, None, &Review::Allowed, "agents").account, None);
}

#[test]
fn unknown_answer_is_neither_missing_nor_allowed() {
    let all = permissions(&logs(), "agents").unwrap();
    let unknown = all.iter().map(|one| (one.clone(), Answer::Unknown)).collect();
    assert_eq!(review(unknown).condition("b").standing, Standing::Unknown);
    let allowed = all.into_iter().map(|one| (one, Answer::Allowed)).collect();
    assert_eq!(review(allowed), Review::Allowed);
}

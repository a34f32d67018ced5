//! The checkout of a repository is looked at, and a missing one is a condition until it is there.

use serde_json::json;

use super::{Place, Serving};

#[test]
fn repository_with_a_missing_checkout_becomes_ready_once_it_is_cloned() {
    let place = Place::new();
    let clone = place.scratch.place().join("clone");
    let mut repository = place.json(&["get", "repository/app"]);
    repository["spec"]["checkout"] = json!(clone);
    place.apply(&[repository]).expect_code(0);
    let serving = Serving::start(&place);
    let ready = || {
        let repository = place.json(&["get", "repository/app"]);
        let conditions = repository["status"]["conditions"].as_array()?.clone();
        let ready = conditions.into_iter().find(|one| one["type"] == "Ready")?;
        Some((ready["status"].as_str()?.to_owned(), ready["message"].as_str()?.to_owned()))
    };
    let (_, message) = place.wait_for("a repository that is not ready", || {
        ready().filter(|(status, message)| status == "False" && message.contains("checkout"))
    });
    assert!(message.contains("cannot be read"), "{message}");
    let origin = place.scratch.root().display().to_string();
    place.scratch.git(&["clone", "--quiet", &origin, &clone.display().to_string()]);
    place.wait_for("a repository that is ready", || ready().filter(|(status, _)| status == "True"));
    drop(serving);
}

//! Secrets and tokens: shown once or never.

use super::{Place, Serving};
use serde_json::Value;

#[test]
fn secrets_set_secrets_list_and_secrets_rm_never_show_a_value() {
    let place = Place::bare();
    let value = "a-value-that-nobody-sees";
    let set = place.run_with_input(&["secrets", "set", "api", "key"], value).expect_code(0);
    let list = place.run(&["secrets", "list"]).expect_code(0);
    let json = place.json(&["secrets", "list"]);
    assert!(list.out.contains("api") && list.out.contains("key"), "{}", list.out);
    let yaml = place.run(&["get", "secret", "api", "-o", "yaml"]).expect_code(0);
    for output in [&set.out, &set.err, &list.out, &json.to_string(), &yaml.out] {
        assert!(!output.contains(value), "{output}");
    }
    // The database does not contain it in plain text.
    let file = std::fs::read(place.scratch.state().join("bailiwick.db")).unwrap();
    assert!(!file.windows(value.len()).any(|window| window == value.as_bytes()));
    place.run(&["secrets", "rm", "api"]).expect_code(0);
    assert!(!place.run(&["secrets", "list"]).expect_code(0).out.contains("api"));
    place.run(&["secrets", "rm", "api"]).expect_code(2);
}

#[test]
fn tokens_new_tokens_list_and_tokens_revoke_control_access() {
    let place = Place::new();
    let token = place.run(&["tokens", "new", "ada", "--scope", "viewer"]).expect_code(0).out;
    let token = token.trim().to_owned();
    let listed = place.json(&["tokens", "list"]);
    assert!(!listed.to_string().contains(&token), "{listed}");
    let id = listed[0]["id"].as_str().unwrap().to_owned();
    assert_eq!((&listed[0]["actor"], &listed[0]["scope"]), (&"ada".into(), &"viewer".into()));
    let serving = Serving::start(&place);
    let read_status =
        || serving.request("GET", "/api/v1alpha1/repositories", &token, &Value::Null).0;
    assert_eq!(read_status(), 200);
    place.run(&["tokens", "revoke", &id]).expect_code(0);
    place.wait_for("the end of the token", || (read_status() == 401).then_some(()));
    place.run(&["tokens", "revoke", "tok-none"]).expect_code(2);
}

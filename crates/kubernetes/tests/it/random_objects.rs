//! Random objects, which the embedded database and the API server must both accept or both refuse.

use std::collections::BTreeMap;

use bailiwick_kubernetes::crds::custom_kinds;
use bailiwick_resources::{API_VERSION, AnyObject, Kind};
use bailiwick_testkit::random::Random;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::JSONSchemaProps;
use serde_json::{Map, Value, json};

use crate::{api_server, schema};

const OBJECTS: usize = 10_000;

/// Fields that only the embedded database checks; `differences` has a test of each.
const EMBEDDED_ONLY: [(Kind, &str); 4] = [
    (Kind::AgentMcpServer, "spec.secretRefs"),
    (Kind::AgentMcpServer, "spec.configMapRefs"),
    (Kind::AgentMcpServer, "spec.headersFrom"),
    (Kind::Repository, "spec.accounts"),
];

const TEXTS: [&str; 52] = [
    "",
    " ",
    "\u{a0}",
    "\n",
    ".",
    "..",
    "/",
    "a",
    "a.b",
    "a..b",
    "a-",
    "A",
    "review",
    "edit-local",
    "owner/name",
    "./name",
    "../name",
    "owner/..",
    "...a/.b",
    "owner/name/more",
    "main",
    "refs/heads/main",
    "https://example.org/api",
    "http://x",
    "ftp://x",
    "/srv/checkout",
    "docs/AGENTS.md",
    "docs/../x",
    ".git/config",
    "a/.git",
    "a/.github/b",
    "API_TOKEN",
    "PATH",
    "GIT_DIR",
    "MY_PROXY",
    "X-Api-Key",
    "x-api-key",
    "git-dir",
    "mcp__a__b",
    "read_*",
    "ada",
    "Ada",
    "@ada",
    "ada@example.org",
    "30m",
    "7d",
    "5w",
    "9ms",
    "api-key",
    "anthropic",
    "tool@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
    "tool@sha256:0123",
];
const NUMBERS: [i64; 12] = [-1, 0, 1, 2, 8, 9, 599, 600, 3600, 86_400, 86_401, 4_294_967_296];
/// Two names of one field. Only the API server accepts both names if one of them is null.
const ALIASES: [(&str, &str); 3] = [
    ("toolPolicy", "toolProfileRef"),
    ("workspacePolicy", "workspacePolicyRef"),
    ("maxActive", "maxActivePerPullRequest"),
];
const TIME: &str = "2026-11-15T18:00:00.000Z";

#[test]
fn database_and_api_server_accept_the_same_objects() {
    let mut random = Random::rotating("random objects");
    let kinds: Vec<(Kind, JSONSchemaProps)> =
        custom_kinds().map(|kind| (kind, schema(kind))).collect();
    let mut answers: BTreeMap<Kind, (usize, usize)> = BTreeMap::new();
    for round in 0..OBJECTS {
        let (kind, schema) = &kinds[round % kinds.len()];
        let object = object(*kind, schema, &mut random);
        let server = api_server::errors(schema, &object);
        let embedded = embedded(&object);
        let known = |field: &String| EMBEDDED_ONLY.iter().any(|(k, f)| k == kind && f == field);
        let agree = match server.is_empty() {
            true => embedded.iter().all(known),
            false => !embedded.is_empty(),
        };
        assert!(agree, "{object:#}\n{server:#?}\n{embedded:#?}");
        let count = answers.entry(*kind).or_default();
        if server.is_empty() { count.0 += 1 } else { count.1 += 1 }
    }
    for (kind, (accepted, refused)) in &answers {
        assert!(*accepted >= 5 && *refused >= 5, "{kind}: {accepted} accepted, {refused} refused");
    }
}

#[test]
fn database_and_api_server_agree_on_the_limits_of_jobs() {
    let schema = schema(Kind::RunnerPool);
    let (longest, too_long) = ("a".repeat(63), "a".repeat(64));
    for (field, value, is_valid) in [
        ("namespace", "agents", true),
        ("namespace", longest.as_str(), true),
        ("namespace", too_long.as_str(), false),
        ("namespace", "team.agents", false),
        ("namespace", "-agents", false),
        ("keepFor", "10m", true),
        ("keepFor", "0600s", true),
        ("keepFor", "600000ms", true),
        ("keepFor", "1h", true),
        ("keepFor", "9m", false),
        ("keepFor", "599s", false),
        ("keepFor", "599999ms", false),
        ("keepFor", "1s", false),
        ("keepFor", "0d", false),
    ] {
        let mut job = json!({ "namespace": "untrusted" });
        job[field] = value.into();
        let object = json!({
            "apiVersion": API_VERSION,
            "kind": "RunnerPool",
            "metadata": { "name": "example" },
            "spec": {
                "capacity": 1, "trustTier": "untrusted", "serviceAccountRef": "runner",
                "runsOn": "jobs", "job": job,
            },
        });
        assert_eq!(api_server::errors(&schema, &object).is_empty(), is_valid, "{field} {value}");
        assert_eq!(embedded(&object).is_empty(), is_valid, "{field} {value}");
    }
}

/// The fields with errors in the embedded database, or the error of parsing the object.
pub(crate) fn embedded(object: &Value) -> Vec<String> {
    let object: AnyObject = match serde_json::from_value(object.clone()) {
        Ok(object) => object,
        Err(error) => return vec![error.to_string()],
    };
    match object.check() {
        Ok(faults) => faults.into_iter().map(|fault| fault.field).collect(),
        Err(error) => vec![error.to_string()],
    }
}

fn object(kind: Kind, schema: &JSONSchemaProps, random: &mut Random) -> Value {
    let fields = schema.properties.as_ref().unwrap();
    let mut object = json!({
        "apiVersion": API_VERSION,
        "kind": kind.as_str(),
        "metadata": { "name": "example" },
        "spec": value(&fields["spec"], "spec", random),
    });
    if random.once_in(4) {
        object["status"] = value(&fields["status"], "status", random);
    }
    object
}

/// A value that mostly fits a schema.
fn value(schema: &JSONSchemaProps, name: &str, random: &mut Random) -> Value {
    if schema.nullable == Some(true) && random.once_in(10) {
        return Value::Null;
    }
    if random.once_in(400) {
        // The embedded database would read a list as the fields of an object, in their order.
        let others = [json!("text"), json!(7), json!(true), json!({}), json!([])];
        let count = if schema.type_.as_deref() == Some("object") { 4 } else { 5 };
        return others[random.below(count)].clone();
    }
    // The embedded database knows which conditions there are.
    if name == "conditions" {
        return conditions(random);
    }
    if let Some(words) = &schema.enum_ {
        let words: Vec<&Value> =
            words.iter().map(|word| &word.0).filter(|word| !word.is_null()).collect();
        return if random.once_in(100) {
            json!("no-such-word")
        } else {
            words[random.below(words.len())].clone()
        };
    }
    match schema.type_.as_deref() {
        Some("string") if schema.format.is_some() => json!(TIME),
        Some("string") => json!(text(schema, random)),
        Some("integer") => json!(number(schema, random)),
        Some("boolean") => json!(random.once_in(2)),
        Some("array") => list(schema, random),
        Some("object") => Value::Object(fields(schema, random)),
        _ => [json!({ "a": [1, "b"] }), json!("text"), json!(3)][random.below(3)].clone(),
    }
}

fn text(schema: &JSONSchemaProps, random: &mut Random) -> String {
    let min = usize::try_from(schema.min_length.unwrap_or_default()).unwrap();
    let fits = |text: &&&str| {
        let pattern = schema.pattern.as_ref();
        text.len() >= min && pattern.is_none_or(|pattern| api_server::matches(pattern, text))
    };
    let fitting: Vec<&&str> = TEXTS.iter().filter(fits).collect();
    if random.once_in(30) || fitting.is_empty() {
        return TEXTS[random.below(TEXTS.len())].to_owned();
    }
    (*fitting[random.below(fitting.len())]).to_owned()
}

fn number(schema: &JSONSchemaProps, random: &mut Random) -> i64 {
    let fits = |number: &&i64| {
        let number = **number as f64;
        schema.minimum.is_none_or(|min| number >= min)
            && schema.maximum.is_none_or(|max| number <= max)
    };
    let fitting: Vec<&i64> = NUMBERS.iter().filter(fits).collect();
    if random.once_in(40) || fitting.is_empty() {
        return NUMBERS[random.below(NUMBERS.len())];
    }
    *fitting[random.below(fitting.len())]
}

fn list(schema: &JSONSchemaProps, random: &mut Random) -> Value {
    let min = usize::try_from(schema.min_items.unwrap_or_default()).unwrap();
    let min = if random.once_in(30) { 0 } else { min };
    let items = api_server::items(schema).unwrap();
    (0..min + random.below(3)).map(|_| value(items, "", random)).collect()
}

fn fields(schema: &JSONSchemaProps, random: &mut Random) -> Map<String, Value> {
    let mut found = Map::new();
    if let Some(values) = api_server::values(schema) {
        for _ in 0..random.below(3) {
            found.insert(TEXTS[7 + random.below(9)].to_owned(), value(values, "", random));
        }
    }
    for (name, field) in schema.properties.iter().flatten() {
        let required = schema.required.iter().flatten().any(|required| required == name);
        let is_included = if required { !random.once_in(150) } else { random.once_in(4) };
        if is_included {
            found.insert(name.clone(), value(field, name, random));
        }
    }
    for (name, alias) in ALIASES {
        if found.contains_key(alias) && found.get(name).is_some_and(Value::is_null) {
            found.remove(name);
        } else if found.get(alias).is_some_and(Value::is_null) {
            found.remove(alias);
        }
    }
    // The embedded database ignores more fields beside the class of an approval's action.
    if random.once_in(150) && !found.contains_key("class") {
        found.insert("noSuchField".to_owned(), json!(1));
    }
    found
}

fn conditions(random: &mut Random) -> Value {
    let condition = json!({
        "type": "Ready", "status": "True", "reason": "AllConditionsMet", "message": "all hold",
        "observedGeneration": 3, "lastTransitionTime": TIME,
    });
    if random.once_in(2) { json!([]) } else { json!([condition]) }
}

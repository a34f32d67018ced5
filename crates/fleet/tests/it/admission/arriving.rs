//! What a stack declares reaches its run: files, settings, instructions of the repository, a provider.

use bailiwick_fleet::admission::Decision;
use bailiwick_fleet::admission::conditions::SkillProbe;
use bailiwick_model::task::Login;
use bailiwick_resources::{AgentStack, BundleLayer, Kind, Reason};
use serde_json::{Value, json};

use super::world::World;

/// A world in which the tools need one key of a secret and one of a config map, both granted with these mount
/// policies.
fn with_mounts(secret: &str, config: &str) -> World {
    let mut world = World::good();
    let keys = json!({ "deploy-key": { "setAt": "2026-11-01T00:00:00Z", "version": 1 } });
    world.add(Kind::Secret, "tool", json!({ "keys": keys }));
    world.add(Kind::ConfigMap, "rules", json!({ "data": { "rules.txt": "be kind" } }));
    let refs = json!([{ "name": "tool", "keys": ["deploy-key"] }]);
    world.set(Kind::AgentToolProfile, "tools", "/requiredSecretRefs", refs);
    let refs = json!([{ "name": "rules", "keys": ["rules.txt"] }]);
    world.set(Kind::AgentToolProfile, "tools", "/requiredConfigRefs", refs);
    world.set_stack("/secretPolicy/allowedSecretRefs", json!(["model", "docs-key", "tool"]));
    let subject = json!({ "kind": "tool", "name": "tools" });
    world.add(
        Kind::AgentSecretGrant,
        "tool",
        json!({
            "subject": subject, "secretRef": { "name": "tool", "keys": ["deploy-key"] },
            "purpose": "tool", "allowedRepositories": ["acme/*"], "mountPolicy": secret,
        }),
    );
    world.add(
        Kind::AgentConfigGrant,
        "rules",
        json!({
            "subject": subject, "configMapRef": { "name": "rules", "keys": ["rules.txt"] },
            "purpose": "tool-config", "allowedRepositories": ["acme/*"], "mountPolicy": config,
        }),
    );
    world
}

/// One list in the `agent` table of an admitted task.
fn listed(world: &World, list: &str) -> Vec<String> {
    let admitted = world.admit().unwrap_or_else(|refused| panic!("{:?}", refused.reasons));
    let task: toml::Table = admitted.compiled.task.parse().unwrap();
    let values = task["agent"].get(list).and_then(toml::Value::as_array);
    let texts = values.into_iter().flatten().map(|value| value.as_str().unwrap().to_owned());
    texts.collect()
}

#[test]
fn each_mount_policy_has_its_own_list_and_never_mounts_nothing() {
    let lists = ["secrets", "secret-files", "configs", "config-files"];
    for (secret, config, expected) in [
        ("env", "env", [Some("DEPLOY_KEY"), None, Some("RULES_TXT"), None]),
        ("file", "file", [None, Some("DEPLOY_KEY"), None, Some("RULES_TXT")]),
        (
            "projected-volume",
            "projected-volume",
            [None, Some("DEPLOY_KEY"), None, Some("RULES_TXT")],
        ),
        ("never-mount-pass-by-reference", "api-read", [None, None, None, None]),
    ] {
        let world = with_mounts(secret, config);
        for (list, name) in lists.into_iter().zip(expected) {
            let entries = listed(&world, list);
            let entries =
                entries.iter().find(|one| ["DEPLOY_KEY", "RULES_TXT"].contains(&one.as_str()));
            assert_eq!(entries.map(String::as_str), name, "{secret} {config} {list}");
        }
    }
}

#[test]
fn file_names_are_checked_like_variable_names() {
    let mut world = with_mounts("file", "env");
    let data = json!({ "data": { "rules.txt": "be kind", "deploy-key.file": "/x" } });
    world.add(Kind::ConfigMap, "rules", data);
    assert_eq!(world.review().decision, Decision::Allowed, "{:?}", world.review().reasons);
    let keys = json!([{ "name": "rules", "keys": ["rules.txt", "deploy-key.file"] }]);
    world.set(Kind::AgentToolProfile, "tools", "/requiredConfigRefs", keys);
    let keys = json!(["rules.txt", "deploy-key.file"]);
    world.set(Kind::AgentConfigGrant, "rules", "/configMapRef/keys", keys);
    let review = world.review();
    assert_eq!(review.decision, Decision::Denied);
    let has_reason = |why: &str| review.reasons.iter().any(|one| one.message.contains(why));
    assert!(has_reason("would both arrive as `DEPLOY_KEY_FILE`"), "{:?}", review.reasons);
    // A name that is dangerous only with the suffix that is added for files.
    let mut world = with_mounts("env", "file");
    world.add(Kind::ConfigMap, "rules", json!({ "data": { "ssl-cert": "x" } }));
    let keys = json!([{ "name": "rules", "keys": ["ssl-cert"] }]);
    world.set(Kind::AgentToolProfile, "tools", "/requiredConfigRefs", keys);
    world.set(Kind::AgentConfigGrant, "rules", "/configMapRef/keys", json!(["ssl-cert"]));
    assert!(world.review().says(Reason::ConfigDenied), "{:?}", world.review().reasons);
    world.set(Kind::AgentConfigGrant, "rules", "/mountPolicy", json!("env"));
    assert_eq!(world.review().decision, Decision::Allowed, "{:?}", world.review().reasons);
}

#[test]
fn server_gets_the_values_of_its_references_and_remote_server_its_headers() {
    let mut world = World::good();
    world.set(
        Kind::AgentMcpServer,
        "docs",
        "/configMapRefs",
        json!([{ "name": "places", "keys": ["area"] }]),
    );
    world.add(Kind::ConfigMap, "places", json!({ "data": { "area": "north" } }));
    world.add(
        Kind::AgentConfigGrant,
        "places",
        json!({
            "subject": { "kind": "mcp-server", "name": "docs" },
            "configMapRef": { "name": "places", "keys": ["area"] },
            "purpose": "mcp-config", "allowedRepositories": ["acme/*"], "mountPolicy": "file",
        }),
    );
    let admitted = world.admit().unwrap_or_else(|refused| panic!("{:?}", refused.reasons));
    let server = &admitted.compiled.mcp_servers[0];
    let area = server.env_from.iter().find(|value| value.name == "AREA");
    assert!(area.is_some_and(|value| value.config_map_ref.is_some()), "{server:?}");
    assert_eq!(server.in_files, ["AREA"]);
    assert!(
        !admitted.compiled.task.contains("AREA"),
        "the value is for the server, not for the agent"
    );
    // A remote server gets only headers, and a header cannot be a file.
    let remote = |more: Value| {
        let mut spec =
            json!({ "transport": "sse", "url": "https://docs.example", "scope": "global" });
        for (key, value) in more.as_object().unwrap() {
            spec[key] = value.clone();
        }
        super::world::object(Kind::AgentMcpServer, "far", spec).check().unwrap().len()
    };
    let header = json!([{ "name": "X-Area", "configMapRef": { "name": "places", "key": "area" } }]);
    let refs = json!([{ "name": "places", "keys": ["area"] }]);
    assert_eq!(remote(json!({ "headersFrom": header, "configMapRefs": refs })), 0);
    assert_eq!(remote(json!({ "configMapRefs": refs })), 1);
    assert_eq!(remote(json!({ "secretRefs": refs, "headersFrom": header })), 1);
    let variable = json!([{ "name": "AREA", "configMapRef": { "name": "places", "key": "area" } }]);
    assert_eq!(remote(json!({ "envFrom": variable })), 1);
}

#[test]
fn instructions_of_the_repository_are_a_layer_and_are_required() {
    let mut world = World::good();
    world.set_stack("/agentsDocRef", json!({ "source": "repository", "path": "docs/AGENTS.md" }));
    let text = "Use tabs in this house.";
    world.facts.agents_doc = SkillProbe::Found { digest: "d".into(), text: text.into() };
    world.texts.agents_doc = Some(("c0ffee".into(), text.into()));
    let admitted = world.admit().unwrap_or_else(|refused| panic!("{:?}", refused.reasons));
    let part = admitted.bundle.parts.iter().find(|part| part.text == text).unwrap();
    assert_eq!(part.about.layer, BundleLayer::StackDeveloper);
    assert_eq!(part.about.provenance, "docs/AGENTS.md@c0ffee");
    assert_eq!(part.about.digest, bailiwick_model::Sha256Hex::of(text).to_string());
    assert!(admitted.bundle.render().contains(text));
    world.facts.agents_doc = SkillProbe::Missing;
    let refused = world.admit().unwrap_err();
    assert!(refused.reasons.iter().any(|why| why.code == Reason::AgentsDocMissing));
}

#[test]
fn provider_selects_the_login_and_invalid_combinations_are_refused() {
    let stack = |more: Value| -> AgentStack {
        let mut spec = json!({
            "baseAgent": "claude-code", "role": "r", "runtimeIdentity": { "serviceAccountRef": "a" },
        });
        for (key, value) in more.as_object().unwrap() {
            spec[key] = value.clone();
        }
        serde_json::from_value(spec).unwrap()
    };
    for (more, login) in [
        (json!({}), None),
        (json!({ "login": "vertex" }), Some(Login::Vertex)),
        (json!({ "provider": "anthropic" }), Some(Login::ApiKey)),
        (json!({ "provider": "anthropic", "login": "subscription" }), Some(Login::Subscription)),
        (json!({ "provider": "bedrock" }), Some(Login::Bedrock)),
        (json!({ "provider": "vertex", "login": "vertex" }), Some(Login::Vertex)),
        (json!({ "provider": "openai", "baseAgent": "codex" }), Some(Login::ApiKey)),
        (json!({ "provider": "openai", "baseAgent": "opencode" }), Some(Login::ApiKey)),
        (json!({ "provider": "google", "baseAgent": "gemini" }), Some(Login::ApiKey)),
    ] {
        assert_eq!(stack(more.clone()).payment(), Ok(login), "{more}");
    }
    for more in [
        json!({ "login": "gold" }),
        json!({ "provider": "somebody" }),
        json!({ "provider": "openai" }),
        json!({ "provider": "bedrock", "baseAgent": "codex" }),
        json!({ "provider": "bedrock", "login": "api-key" }),
        json!({ "provider": "anthropic", "login": "bedrock" }),
        json!({ "provider": "anthropic", "baseAgent": "script" }),
        json!({ "provider": "anthropic", "adapter": "mine" }),
    ] {
        assert!(stack(more.clone()).payment().is_err(), "{more}");
    }
    let mut world = World::good();
    world.set_stack("/provider", json!("bedrock"));
    let admitted = world.admit().unwrap_or_else(|refused| panic!("{:?}", refused.reasons));
    assert!(admitted.compiled.task.contains("login = \"bedrock\""), "{}", admitted.compiled.task);
    world.set_stack("/login", json!("api-key"));
    let refused = world.admit().unwrap_err();
    assert!(refused.reasons.iter().any(|why| why.code == Reason::UnsupportedProvider));
}

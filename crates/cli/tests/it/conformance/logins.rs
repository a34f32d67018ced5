//! A person's own logins of Claude Code, a subscription, Amazon's Bedrock or Google's Vertex AI: a token or a
//! signature opens the model, and the agent never has it.

use bailiwick_testkit::clis::Cli;
use bailiwick_testkit::scratch::Ran;
use bailiwick_testkit::scripted_model::{Call, Script, ScriptedModel, Turn};

use serde_json::{Value, json};

use super::delegation::{self, FREE};
use super::stage::Stage;

const TOKEN: &str = "sk-ant-oat01-the-token-of-nobody";
const TASK: &str = "[task]\nrole = \"worker\"\n[scope]\nfiles-whitelist = [\"src/**\"]\n[agent]\ncli = \
                    \"claude-code\"\nmodel = \"sonnet\"\nlogin = \"subscription\"\n[body]\ntext = \"Do \
                    it.\"\n";
/// All that an agent can look at for a token.
const LOOK: &str = "{ env; cat /proc/*/environ | tr '\\0' '\\n'; cat ~/.claude/.credentials.json; } > \
                    src/seen.txt 2>/dev/null; true";

fn run(stage: &Stage, id: &str, token: Option<&str>) -> (Ran, ScriptedModel) {
    let file = stage.scratch.place().join(format!("{id}.toml"));
    std::fs::write(&file, TASK).unwrap();
    let model = ScriptedModel::start(Script::new(vec![
        Turn::Calls(vec![Call::shell(LOOK)]),
        Turn::say("finished"),
    ]));
    let mut command = stage.command(Some(&model), None);
    command.env_remove("ANTHROPIC_API_KEY");
    if let Some(token) = token {
        command.env("CLAUDE_CODE_OAUTH_TOKEN", token);
    }
    command.args(["run", file.to_str().unwrap(), "--agent-id", id, "--no-verify", "-o", "json"]);
    (Ran::from(command.output().unwrap()), model)
}

fn held(stage: &Stage, id: &str, ran: &Ran, model: &ScriptedModel) {
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let asked: Vec<_> = model
        .requests()
        .into_iter()
        .filter(|request| request.path.contains("/v1/messages"))
        .collect();
    assert!(!asked.is_empty());
    for request in asked {
        let header = |name: &str| {
            let found = request.headers.iter().find(|(header, _)| header == name);
            found.map(|(_, value)| value.as_str())
        };
        assert_eq!(header("authorization"), Some(format!("Bearer {TOKEN}").as_str()));
        assert_eq!(header("x-api-key"), None);
        assert!(header("anthropic-beta").is_some_and(|beta| beta.contains("oauth")), "{request:?}");
    }
    let worktree = stage.scratch.state().join("worktrees").join(id);
    let seen = std::fs::read_to_string(worktree.join("src/seen.txt")).unwrap();
    assert!(seen.contains("CLAUDE_CODE_OAUTH_TOKEN=held-by-bailiwick"), "{seen}");
    assert!(!seen.contains(TOKEN), "{seen}");
    let recorded = stage.bailiwick(&["ps", "--all", "-o", "json"]);
    assert!(recorded.out.contains("\"subscription\""), "{}", recorded.out);
}

#[test]
fn a_subscription_opens_the_model_and_never_reaches_the_agent() {
    let stage = Stage::new(Cli::Claude);
    let (ran, model) = run(&stage, "by-variable", Some(TOKEN));
    held(&stage, "by-variable", &ran, &model);
    // Without a login there is no agent.
    let (ran, model) = run(&stage, "without", None);
    assert_ne!(ran.code, 0, "{}", ran.out);
    assert!(ran.err.contains("has a login"), "{}", ran.err);
    assert!(model.requests().is_empty());
    // The file that the program itself keeps does as well.
    let login = format!("{{\"claudeAiOauth\":{{\"accessToken\":\"{TOKEN}\"}}}}");
    let home = stage.scratch.place().join("home");
    std::fs::create_dir_all(home.join(".claude")).unwrap();
    std::fs::write(home.join(".claude/.credentials.json"), login).unwrap();
    let (ran, model) = run(&stage, "by-file", None);
    held(&stage, "by-file", &ran, &model);
}

/// A person who has a subscription and no key, and whose task says nothing of either.
#[test]
fn a_subscription_can_be_chosen_on_the_command_line_and_stays_chosen() {
    let stage = Stage::new(Cli::Claude);
    let file = stage.scratch.place().join("plain.toml");
    std::fs::write(&file, TASK.replace("login = \"subscription\"\n", "")).unwrap();
    let start = |arguments: &[&str]| {
        let model = ScriptedModel::start(Script::new(vec![
            Turn::Calls(vec![Call::shell(LOOK)]),
            Turn::say("finished"),
        ]));
        let mut command = stage.command(Some(&model), None);
        command.env_remove("ANTHROPIC_API_KEY").env("CLAUDE_CODE_OAUTH_TOKEN", TOKEN);
        (
            Ran::from(
                command.args(arguments).args(["--no-verify", "-o", "json"]).output().unwrap(),
            ),
            model,
        )
    };
    let task = file.to_str().unwrap();
    let (refused, model) = start(&["run", task, "--agent-id", "unsaid"]);
    assert_eq!(refused.code, 1, "{}", refused.out);
    assert!(refused.err.contains("--login subscription"), "{}", refused.err);
    assert!(model.requests().is_empty());
    let (ran, model) = start(&["run", task, "--agent-id", "chosen", "--login", "subscription"]);
    held(&stage, "chosen", &ran, &model);
    let (ran, model) = start(&["resume", "chosen", "-m", "look again"]);
    held(&stage, "chosen", &ran, &model);
}

#[test]
fn agents_that_a_run_starts_use_its_login() {
    let stage = Stage::new(Cli::Claude);
    stage.scratch.write(".bailiwick/roles/free.toml", FREE);
    let helper = "---\ndescription: Helps with one thing.\nrole: free\n---\nYou help.\n";
    stage.scratch.write(".bailiwick/agents/helper.md", helper);
    stage.scratch.commit("Add a helper");
    let file = stage.scratch.place().join("parent.toml");
    let chosen = "allowed-subagents = [\"helper\"]\n";
    std::fs::write(&file, TASK.replace("login = \"subscription\"\n", chosen)).unwrap();
    let call = |tool: &str, input: Value| {
        Turn::Calls(vec![Call::raw(&delegation::name(Cli::Claude, tool), input)])
    };
    let script = Script::new(vec![
        call("spawn_agent", json!({"agent_type": "helper", "message": "HELPER-WORK: help."})),
        call("wait", json!({"ids": ["{{agent_id}}"], "timeout_ms": 170_000})),
        Turn::say("finished"),
    ])
    .when("HELPER-WORK", vec![Turn::say("I have helped")]);
    let model = ScriptedModel::start(script);
    let mut command = stage.command(Some(&model), None);
    command.env_remove("ANTHROPIC_API_KEY").env("CLAUDE_CODE_OAUTH_TOKEN", TOKEN);
    command.args(["run", file.to_str().unwrap(), "--agent-id", "parent", "--no-verify"]);
    let ran = Ran::from(command.args(["--login", "subscription"]).output().unwrap());
    assert_eq!(ran.code, 0, "{}{}\n{:#?}", ran.out, ran.err, model.results());
    let asked = model.requests();
    assert!(asked.iter().any(|request| request.body.to_string().contains("I have helped")));
    let listed = stage.bailiwick(&["ps", "--all", "-o", "json"]);
    assert_eq!(listed.out.matches("\"subscription\"").count(), 2, "{}", listed.out);
}

#[test]
fn vertex_opens_the_persons_project_and_the_agent_knows_neither_it_nor_the_token() {
    let stage = Stage::new(Cli::Claude);
    let file = stage.scratch.place().join("vertex.toml");
    let task = TASK.replace("subscription", "vertex").replace("sonnet", "claude-sonnet-4-5");
    std::fs::write(&file, task).unwrap();
    let model = ScriptedModel::start(Script::new(vec![
        Turn::Calls(vec![Call::shell(LOOK)]),
        Turn::Calls(vec![Call::shell("echo out > out.txt")]),
        Turn::say("finished"),
    ]));
    let mut command = stage.command(None, None);
    command.env_remove("ANTHROPIC_API_KEY");
    command.env("ANTHROPIC_VERTEX_BASE_URL", format!("{}/v1", model.base_url()));
    command.env("ANTHROPIC_VERTEX_PROJECT_ID", "a-project-of-nobody");
    command.env("CLOUD_ML_REGION", "europe-west1").env("CLOUDSDK_AUTH_ACCESS_TOKEN", TOKEN);
    let arguments = ["run", file.to_str().unwrap(), "--agent-id", "vertex", "--no-verify"];
    let ran = Ran::from(command.args(arguments).args(["-o", "json"]).output().unwrap());
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let asked: Vec<_> =
        model.requests().into_iter().filter(|request| request.method == "POST").collect();
    assert_eq!(asked.len(), 3, "{asked:#?}");
    let place = "/v1/projects/a-project-of-nobody/locations/europe-west1/publishers/anthropic/models/\
                 claude-sonnet-4-5";
    for request in &asked {
        assert!(request.path.starts_with(place), "{}", request.path);
        let bearer = format!("Bearer {TOKEN}");
        let own = |(name, value): &(String, String)| name == "authorization" && *value == bearer;
        assert!(request.headers.iter().any(own), "{request:?}");
    }
    let worktree = stage.scratch.state().join("worktrees/vertex");
    assert!(!worktree.join("out.txt").exists(), "the gate holds");
    let seen = std::fs::read_to_string(worktree.join("src/seen.txt")).unwrap();
    assert!(seen.contains("CLAUDE_CODE_USE_VERTEX=1"), "{seen}");
    assert!(!seen.contains(TOKEN) && !seen.contains("a-project-of-nobody"), "{seen}");
    let said: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((&said["tokens"], &said["denied"]), (&330.into(), &1.into()), "{said:#}");
}

/// A run that Bedrock pays for, by these variables: what it said, and what the model was asked.
fn at_amazon(stage: &Stage, id: &str, variables: &[(&str, &str)]) -> (Ran, ScriptedModel) {
    let file = stage.scratch.place().join(format!("{id}.toml"));
    let task = TASK.replace("subscription", "bedrock").replace("sonnet", MODEL_AT_AMAZON);
    std::fs::write(&file, task).unwrap();
    let model = ScriptedModel::start(Script::new(vec![
        Turn::Calls(vec![Call::shell(LOOK)]),
        Turn::Calls(vec![Call::shell("echo out > out.txt")]),
        Turn::say("finished"),
    ]));
    let mut command = stage.command(None, None);
    command.env_remove("ANTHROPIC_API_KEY");
    command.env("ANTHROPIC_BEDROCK_BASE_URL", model.base_url());
    command.envs(variables.iter().copied());
    command.args(["run", file.to_str().unwrap(), "--agent-id", id, "--no-verify", "-o", "json"]);
    (Ran::from(command.output().unwrap()), model)
}

const MODEL_AT_AMAZON: &str = "eu.anthropic.claude-sonnet-4-5-20250929-v1:0";

#[test]
fn bedrock_is_asked_with_the_persons_keys_and_the_agent_knows_none_of_them() {
    let stage = Stage::new(Cli::Claude);
    let secret = "the/secret+of/nobody-at-all-0123456789";
    let keys = [
        ("AWS_REGION", "eu-west-1"),
        ("AWS_ACCESS_KEY_ID", "AKIDOFNOBODY"),
        ("AWS_SECRET_ACCESS_KEY", secret),
        ("AWS_SESSION_TOKEN", TOKEN),
    ];
    let token = [("AWS_REGION", "eu-west-1"), ("AWS_BEARER_TOKEN_BEDROCK", TOKEN)];
    for (id, variables) in [("signed", keys.as_slice()), ("bearer", &token)] {
        let (ran, model) = at_amazon(&stage, id, variables);
        assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
        let asked: Vec<_> =
            model.requests().into_iter().filter(|request| request.method == "POST").collect();
        assert_eq!(asked.len(), 3, "{asked:#?}");
        for request in &asked {
            let place = "/model/eu.anthropic.claude-sonnet-4-5-20250929-v1";
            assert!(request.path.starts_with(place), "{}", request.path);
            if id == "signed" {
                request.signed_with(secret, "eu-west-1", "bedrock").unwrap();
                // The control: it is this key that signed, and no other.
                request.signed_with("another", "eu-west-1", "bedrock").unwrap_err();
                assert_eq!(request.header("x-amz-security-token"), Some(TOKEN));
            } else {
                assert_eq!(request.header("authorization"), Some(&*format!("Bearer {TOKEN}")));
            }
        }
        let worktree = stage.scratch.state().join("worktrees").join(id);
        assert!(!worktree.join("out.txt").exists(), "the gate holds");
        let seen = std::fs::read_to_string(worktree.join("src/seen.txt")).unwrap();
        assert!(seen.contains("CLAUDE_CODE_USE_BEDROCK=1"), "{seen}");
        for hidden in [TOKEN, secret, "AKIDOFNOBODY"] {
            assert!(!seen.contains(hidden), "{seen}");
        }
        let said: Value = serde_json::from_str(&ran.out).unwrap();
        assert_eq!((&said["tokens"], &said["denied"]), (&330.into(), &1.into()), "{said:#}");
    }
    // Without keys, or without a region, there is no agent.
    for (id, variables) in [("no-region", &token[1..]), ("no-keys", &token[..1])] {
        let (ran, model) = at_amazon(&stage, id, variables);
        assert_ne!(ran.code, 0, "{}", ran.out);
        assert!(ran.err.contains("AWS_"), "{}", ran.err);
        assert!(model.requests().is_empty());
    }
}

/// The first keys that it gives are over before the model is asked; the next are good for an hour.
const AWS: &str = r#"#!/bin/sh
test "$*" = "configure export-credentials --format process" || exit 3
echo asked >> PLACE/asked
case $(wc -l < PLACE/asked) in
1) secret=FIRST until=$(date -u -d '+1 second' +%Y-%m-%dT%H:%M:%SZ) ;;
*) secret=SECOND until=$(date -u -d '+1 hour' +%Y-%m-%dT%H:%M:%SZ) ;;
esac
printf '{"Version":1,"AccessKeyId":"AKID","SecretAccessKey":"%s","SessionToken":"%s","Expiration":"%s"}' \
    "$secret" "session-$secret" "$until"
"#;

#[test]
fn keys_of_amazon_are_had_anew_before_they_are_over() {
    let stage = Stage::new(Cli::Claude);
    let place = stage.scratch.place().join("amazon");
    std::fs::create_dir(&place).unwrap();
    let (first, second) = ("the-first-secret-0123456789", "the-second-secret-0123456789");
    let text = AWS.replace("PLACE", place.to_str().unwrap());
    let text = text.replace("FIRST", first).replace("SECOND", second);
    std::fs::write(place.join("aws"), text).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(place.join("aws"), mode).unwrap();
    let path = std::env::var("PATH").unwrap();
    let path = format!("{}:{}:{path}", stage.programs().display(), place.display());
    let variables = [("AWS_REGION", "eu-west-1"), ("PATH", path.as_str())];
    let (ran, model) = at_amazon(&stage, "renewed", &variables);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let asked: Vec<_> =
        model.requests().into_iter().filter(|request| request.method == "POST").collect();
    assert_eq!(asked.len(), 3, "{asked:#?}");
    for request in &asked {
        request.signed_with(second, "eu-west-1", "bedrock").unwrap();
        request.signed_with(first, "eu-west-1", "bedrock").unwrap_err();
        assert_eq!(request.header("x-amz-security-token"), Some(&*format!("session-{second}")));
    }
    let calls = std::fs::read_to_string(place.join("asked")).unwrap().lines().count();
    assert_eq!(calls, 2, "nobody is asked more often than there is need");
}

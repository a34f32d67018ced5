//! Logins of a user for Claude Code: a subscription, Amazon Bedrock or Google Vertex AI. The requests to the model
//! are authenticated by a token or a signature, and the agent never has the credentials.

use bailiwick_testkit::clis::Cli;
use bailiwick_testkit::scratch::Ran;
use bailiwick_testkit::scripted_model::{Call, Script, ScriptedModel, Turn};

use serde_json::{Value, json};

use super::delegation::{self, UNLIMITED_ROLE};
use super::stage::Stage;

const TOKEN: &str = "sk-ant-oat01-the-token-of-nobody";
const TASK: &str = "[task]\nrole = \"worker\"\n[scope]\nfiles-whitelist = [\"src/**\"]\n[agent]\ncli = \
                    \"claude-code\"\nmodel = \"sonnet\"\nlogin = \"subscription\"\n[body]\ntext = \"Do \
                    it.\"\n";
/// Collects everything where an agent could find a token.
const FIND_TOKENS: &str = "{ env; cat /proc/*/environ | tr '\\0' '\\n'; cat ~/.claude/.credentials.json; } > \
                    src/seen.txt 2>/dev/null; true";

fn run(stage: &Stage, id: &str, token: Option<&str>) -> (Ran, ScriptedModel) {
    let file = stage.scratch.place().join(format!("{id}.toml"));
    std::fs::write(&file, TASK).unwrap();
    let model = ScriptedModel::start(Script::new(vec![
        Turn::Calls(vec![Call::shell(FIND_TOKENS)]),
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

fn expect_token_only_in_requests(stage: &Stage, id: &str, ran: &Ran, model: &ScriptedModel) {
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let requests: Vec<_> = model
        .requests()
        .into_iter()
        .filter(|request| request.path.contains("/v1/messages"))
        .collect();
    assert!(!requests.is_empty());
    for request in requests {
        let header = |name: &str| {
            let found = request.headers.iter().find(|(header, _)| header == name);
            found.map(|(_, value)| value.as_str())
        };
        assert_eq!(header("authorization"), Some(format!("Bearer {TOKEN}").as_str()));
        assert_eq!(header("x-api-key"), None);
        assert!(header("anthropic-beta").is_some_and(|beta| beta.contains("oauth")), "{request:?}");
    }
    let worktree = stage.scratch.state().join("worktrees").join(id);
    let environment = std::fs::read_to_string(worktree.join("src/seen.txt")).unwrap();
    assert!(environment.contains("CLAUDE_CODE_OAUTH_TOKEN=held-by-bailiwick"), "{environment}");
    assert!(!environment.contains(TOKEN), "{environment}");
    let listed = stage.bailiwick(&["ps", "--all", "-o", "json"]);
    assert!(listed.out.contains("\"subscription\""), "{}", listed.out);
}

#[test]
fn subscription_token_never_reaches_the_agent() {
    let stage = Stage::new(Cli::Claude);
    let (ran, model) = run(&stage, "by-variable", Some(TOKEN));
    expect_token_only_in_requests(&stage, "by-variable", &ran, &model);
    // Without a login no agent starts.
    let (ran, model) = run(&stage, "without", None);
    assert_ne!(ran.code, 0, "{}", ran.out);
    assert!(ran.err.contains("has a login"), "{}", ran.err);
    assert!(model.requests().is_empty());
    // The credentials file of the program works as well.
    let login = format!("{{\"claudeAiOauth\":{{\"accessToken\":\"{TOKEN}\"}}}}");
    let home = stage.scratch.place().join("home");
    std::fs::create_dir_all(home.join(".claude")).unwrap();
    std::fs::write(home.join(".claude/.credentials.json"), login).unwrap();
    let (ran, model) = run(&stage, "by-file", None);
    expect_token_only_in_requests(&stage, "by-file", &ran, &model);
}

/// A user with a subscription and without a key, whose task sets no login.
#[test]
fn subscription_chosen_on_the_command_line_is_kept_on_resume() {
    let stage = Stage::new(Cli::Claude);
    let file = stage.scratch.place().join("plain.toml");
    std::fs::write(&file, TASK.replace("login = \"subscription\"\n", "")).unwrap();
    let start = |arguments: &[&str]| {
        let model = ScriptedModel::start(Script::new(vec![
            Turn::Calls(vec![Call::shell(FIND_TOKENS)]),
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
    expect_token_only_in_requests(&stage, "chosen", &ran, &model);
    let (ran, model) = start(&["resume", "chosen", "-m", "look again"]);
    expect_token_only_in_requests(&stage, "chosen", &ran, &model);
}

#[test]
fn spawned_agents_use_the_login_of_their_parent() {
    let stage = Stage::new(Cli::Claude);
    stage.scratch.write(".bailiwick/roles/free.toml", UNLIMITED_ROLE);
    let helper = "---\ndescription: Helps with one thing.\nrole: free\n---\nYou help.\n";
    stage.scratch.write(".bailiwick/agents/helper.md", helper);
    stage.scratch.commit("Add a helper");
    let file = stage.scratch.place().join("parent.toml");
    let task_lines = "allowed-subagents = [\"helper\"]\n";
    std::fs::write(&file, TASK.replace("login = \"subscription\"\n", task_lines)).unwrap();
    let call = |tool: &str, input: Value| {
        Turn::Calls(vec![Call::raw(&delegation::tool_name(Cli::Claude, tool), input)])
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
    let requests = model.requests();
    assert!(requests.iter().any(|request| request.body.to_string().contains("I have helped")));
    let listed = stage.bailiwick(&["ps", "--all", "-o", "json"]);
    assert_eq!(listed.out.matches("\"subscription\"").count(), 2, "{}", listed.out);
}

#[test]
fn vertex_project_and_token_never_reach_the_agent() {
    let stage = Stage::new(Cli::Claude);
    let file = stage.scratch.place().join("vertex.toml");
    let task = TASK.replace("subscription", "vertex").replace("sonnet", "claude-sonnet-4-5");
    std::fs::write(&file, task).unwrap();
    let model = ScriptedModel::start(Script::new(vec![
        Turn::Calls(vec![Call::shell(FIND_TOKENS)]),
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
    let requests: Vec<_> =
        model.requests().into_iter().filter(|request| request.method == "POST").collect();
    assert_eq!(requests.len(), 3, "{requests:#?}");
    let path = "/v1/projects/a-project-of-nobody/locations/europe-west1/publishers/anthropic/models/\
                 claude-sonnet-4-5";
    for request in &requests {
        assert!(request.path.starts_with(path), "{}", request.path);
        let bearer = format!("Bearer {TOKEN}");
        let is_bearer =
            |(name, value): &(String, String)| name == "authorization" && *value == bearer;
        assert!(request.headers.iter().any(is_bearer), "{request:?}");
    }
    let worktree = stage.scratch.state().join("worktrees/vertex");
    assert!(!worktree.join("out.txt").exists(), "the gate did not deny the call");
    let environment = std::fs::read_to_string(worktree.join("src/seen.txt")).unwrap();
    assert!(environment.contains("CLAUDE_CODE_USE_VERTEX=1"), "{environment}");
    assert!(
        !environment.contains(TOKEN) && !environment.contains("a-project-of-nobody"),
        "{environment}"
    );
    let report: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((&report["tokens"], &report["denied"]), (&330.into(), &1.into()), "{report:#}");
}

/// Runs an agent with the login `bedrock` and these variables.
fn run_on_bedrock(stage: &Stage, id: &str, variables: &[(&str, &str)]) -> (Ran, ScriptedModel) {
    let file = stage.scratch.place().join(format!("{id}.toml"));
    let task = TASK.replace("subscription", "bedrock").replace("sonnet", BEDROCK_MODEL);
    std::fs::write(&file, task).unwrap();
    let model = ScriptedModel::start(Script::new(vec![
        Turn::Calls(vec![Call::shell(FIND_TOKENS)]),
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

const BEDROCK_MODEL: &str = "eu.anthropic.claude-sonnet-4-5-20250929-v1:0";

#[test]
fn bedrock_keys_never_reach_the_agent() {
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
        let (ran, model) = run_on_bedrock(&stage, id, variables);
        assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
        let requests: Vec<_> =
            model.requests().into_iter().filter(|request| request.method == "POST").collect();
        assert_eq!(requests.len(), 3, "{requests:#?}");
        for request in &requests {
            let path = "/model/eu.anthropic.claude-sonnet-4-5-20250929-v1";
            assert!(request.path.starts_with(path), "{}", request.path);
            if id == "signed" {
                request.signed_with(secret, "eu-west-1", "bedrock").unwrap();
                // Negative control: another key does not match the signature.
                request.signed_with("another", "eu-west-1", "bedrock").unwrap_err();
                assert_eq!(request.header("x-amz-security-token"), Some(TOKEN));
            } else {
                assert_eq!(request.header("authorization"), Some(&*format!("Bearer {TOKEN}")));
            }
        }
        let worktree = stage.scratch.state().join("worktrees").join(id);
        assert!(!worktree.join("out.txt").exists(), "the gate did not deny the call");
        let environment = std::fs::read_to_string(worktree.join("src/seen.txt")).unwrap();
        assert!(environment.contains("CLAUDE_CODE_USE_BEDROCK=1"), "{environment}");
        for secret_text in [TOKEN, secret, "AKIDOFNOBODY"] {
            assert!(!environment.contains(secret_text), "{environment}");
        }
        let report: Value = serde_json::from_str(&ran.out).unwrap();
        assert_eq!((&report["tokens"], &report["denied"]), (&330.into(), &1.into()), "{report:#}");
    }
    // Without keys, or without a region, no agent starts.
    for (id, variables) in [("no-region", &token[1..]), ("no-keys", &token[..1])] {
        let (ran, model) = run_on_bedrock(&stage, id, variables);
        assert_ne!(ran.code, 0, "{}", ran.out);
        assert!(ran.err.contains("AWS_"), "{}", ran.err);
        assert!(model.requests().is_empty());
    }
}

/// The first credentials expire before the first request; the next are valid for an hour.
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
fn aws_credentials_are_refreshed_before_they_expire() {
    let stage = Stage::new(Cli::Claude);
    let directory = stage.scratch.place().join("amazon");
    std::fs::create_dir(&directory).unwrap();
    let (first, second) = ("the-first-secret-0123456789", "the-second-secret-0123456789");
    let text = AWS.replace("PLACE", directory.to_str().unwrap());
    let text = text.replace("FIRST", first).replace("SECOND", second);
    std::fs::write(directory.join("aws"), text).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(directory.join("aws"), mode).unwrap();
    let path = std::env::var("PATH").unwrap();
    let path = format!("{}:{}:{path}", stage.programs().display(), directory.display());
    let variables = [("AWS_REGION", "eu-west-1"), ("PATH", path.as_str())];
    let (ran, model) = run_on_bedrock(&stage, "renewed", &variables);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let requests: Vec<_> =
        model.requests().into_iter().filter(|request| request.method == "POST").collect();
    assert_eq!(requests.len(), 3, "{requests:#?}");
    for request in &requests {
        request.signed_with(second, "eu-west-1", "bedrock").unwrap();
        request.signed_with(first, "eu-west-1", "bedrock").unwrap_err();
        assert_eq!(request.header("x-amz-security-token"), Some(&*format!("session-{second}")));
    }
    let calls = std::fs::read_to_string(directory.join("asked")).unwrap().lines().count();
    assert_eq!(calls, 2, "credentials are not refreshed more often than needed");
}

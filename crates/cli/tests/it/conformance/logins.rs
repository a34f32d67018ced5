//! A person's own subscription of Claude Code: its token opens the model, and the agent never has it.

use bailiwick_testkit::clis::Cli;
use bailiwick_testkit::scratch::Ran;
use bailiwick_testkit::scripted_model::{Call, Script, ScriptedModel, Turn};

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

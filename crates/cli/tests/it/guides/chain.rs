//! docs/guides/chain.md: a person labels an issue, an orchestrator starts two specialists at once, merges their work and
//! names the reviewer, whose run opens a pull request that closes the issue. All agents are the real Claude Code.

use bailiwick_testkit::clis::Cli;
use bailiwick_testkit::forge::{StandIn, Told};
use bailiwick_testkit::scripted_model::{Call, Script, ScriptedModel, Turn};
use serde_json::{Value, json};

use super::guide::Guide;
use super::place::{KEY, Place};
use super::shell::Shell;

const WEBHOOK_SECRET: &str = "the-webhook-secret";
const LEXER: &str = "BUILD-THE-LEXER";
const PARSER: &str = "BUILD-THE-PARSER";
/// The start of the reviewer's prompt in the guide.
const REVIEW: &str = "Judge the change that was made for the issue.";

/// The scripted turns of all agents.
pub(crate) fn script() -> Script {
    let raw = |tool: &str, input: Value| Call::raw(&format!("mcp__bailiwick__{tool}"), input);
    let call = |tool: &str, input: Value| Turn::Calls(vec![raw(tool, input)]);
    let spawn = |message: &str, files: &str| {
        raw(
            "spawn_agent",
            json!({
                "agent_type": "builder", "message": message, "files": [files],
                "estimated_tokens": 20_000,
            }),
        )
    };
    let wait = |id: &str| call("wait", json!({ "ids": [id], "timeout_ms": 170_000 }));
    let merge = |id: &str| call("merge_agent", json!({ "id": id }));
    Script::new(vec![
        Turn::Calls(vec![spawn(LEXER, "src/lexer/**"), spawn(PARSER, "src/parser/**")]),
        wait("{{agent_id:0}}"),
        wait("{{agent_id:1}}"),
        merge("{{agent_id:0}}"),
        merge("{{agent_id:1}}"),
        Turn::Calls(vec![Call::shell("cat src/lexer/a.txt src/parser/b.txt > src/all.txt")]),
        Turn::say("Both parts are there.\n\nnext_agent: reviewer"),
    ])
    // The reviewer comes first, because its prompt also contains the text of the issue about the others.
    .when(
        REVIEW,
        vec![
            Turn::Calls(vec![Call::shell("cat src/all.txt && echo reviewed > src/review.txt")]),
            Turn::say("It is good."),
        ],
    )
    .when(
        LEXER,
        vec![
            Turn::Calls(vec![Call::shell("mkdir -p src/lexer && echo lexer > src/lexer/a.txt")]),
            Turn::Calls(vec![Call::shell("mkdir -p src/parser && echo x > src/parser/theirs.txt")]),
            Turn::say("The lexer is built."),
        ],
    )
    .when(
        PARSER,
        vec![
            Turn::Calls(vec![Call::shell("mkdir -p src/parser && echo parser > src/parser/b.txt")]),
            Turn::say("The parser is built."),
        ],
    )
}

pub(crate) fn follow(guide: &mut Guide) {
    let model = ScriptedModel::start(script());
    let place = Place::new().with_cli(Cli::Claude).with_model(&model);
    place.scratch.write("src/kept.txt", "kept\n");
    place.scratch.write(".bailiwick/settings.toml", &guide.text("toml"));
    place.scratch.commit("Begin");
    let forge = StandIn::gitea("acme/shop");
    forge.take(&place.scratch.root(), "main");
    for account in ["labeller", forge.account()] {
        forge.permit(account, "write");
    }
    let issue = forge.add_issue("A parser", "Please build one.");
    place.scratch.write("token.txt", &forge.token());
    place.scratch.write("webhook.txt", WEBHOOK_SECRET);
    guide.fill("https://forge.example/api/v1", forge.api_url());
    guide.fill("/srv/shop", place.scratch.root().display().to_string());
    guide.fill("ANTHROPIC_API_KEY=…", format!("ANTHROPIC_API_KEY={KEY}"));
    guide.fill("acme/shop#42", format!("acme/shop#{issue}"));
    let mut shell = place.shell();
    guide.run(&mut shell);
    let chain = guide.text("yaml");
    place.scratch.write("chain.yaml", &chain);
    guide.background("bailiwick serve");
    // Tests run in parallel, so each server gets its own port.
    guide.fill("bailiwick serve", "bailiwick serve --listen 127.0.0.1:0");
    guide.run(&mut shell);
    let address = shell.wait_for_background("listening on http://");
    guide.run(&mut shell);
    for stack in ["orchestrator", "reviewer"] {
        shell.run(&format!("bailiwick wait stack/{stack} --for condition=Ready")).expect_code(0);
    }

    let hook = format!("http://{address}/webhooks/shop");
    let deliver = |event: &Told| {
        let (status, response) = forge.webhook(event).deliver(&hook, WEBHOOK_SECRET);
        assert_eq!(status, 202, "{response}");
    };
    for label in ["cascade::depth-2", "agent::orchestrator"] {
        deliver(&Told::Label { number: issue, label: label.to_owned() });
    }
    let first = wait_for_end(&place, "orchestrator");
    let result = |call: &str| model.result(call).replace('\\', "");
    for call in ["call_0_0_0", "call_0_0_1"] {
        assert!(result(call).contains("agent_id"), "{}", result(call));
    }
    for (call, file) in [("call_0_3_0", "src/lexer/a.txt"), ("call_0_4_0", "src/parser/b.txt")] {
        let merge_result = result(call);
        assert!(merge_result.contains("changed_files") && merge_result.contains(file), "{merge_result}");
    }
    // A specialist may write only its own files.
    let denied_result = result("call_2_1_0");
    assert!(denied_result.contains("scope::files-whitelist"), "{denied_result}");
    let parent = first["metadata"]["name"].as_str().unwrap();
    let children = place.json(&["get", "runs", "--field", &format!("parent={parent}")]);
    assert_eq!(children.as_array().unwrap().len(), 2, "{children:#}");

    require_exclusive_claims(&place, &mut shell, first["status"]["attempts"][0].as_str().unwrap());
    let memory = |place: &Place| place.json(&["memory", "show", &format!("acme/shop#{issue}")]);
    assert_eq!(memory(&place)["claims"][0]["agent"], first["status"]["attempts"][0]);

    // The run has handed the issue to the reviewer, and the forge sends a webhook about the label that it set.
    let labels = forge.labels(issue);
    assert!(labels.contains(&"agent::reviewer".to_owned()), "{labels:?}");
    assert!(!labels.contains(&"agent::orchestrator".to_owned()), "{labels:?}");
    deliver(&Told::Labelled { number: issue, by: forge.account().to_owned() });
    let second = wait_for_end(&place, "reviewer");
    let review_result = result("call_1_0_0");
    assert!(review_result.contains("lexer") && review_result.contains("parser"), "{review_result}");

    // One pull request has the work of all agents, and closes the issue when it is merged.
    let branch = format!("agent/{}", second["status"]["attempts"][0].as_str().unwrap());
    let files = forge.git(&["ls-tree", "-r", "--name-only", &branch, "src"]);
    for file in ["all.txt", "lexer/a.txt", "parser/b.txt", "review.txt"] {
        assert!(files.contains(&format!("src/{file}")), "{files}");
    }
    assert!(!files.contains("theirs.txt"), "{files}");
    let pulls = forge.pull_bodies();
    assert_eq!(pulls.len(), 1, "{pulls:#?}");
    assert!(pulls[0].contains(&format!("\n\nCloses #{issue}\n")), "{pulls:#?}");

    // The issue has the result of each run.
    let shown = guide.run(&mut shell);
    let log = &shown.of("bailiwick memory log").out;
    assert_eq!(log.matches("subagent_result").count(), 2, "{log}");
    let state = memory(&place);
    assert_eq!(state["problems"], json!([]), "{state:#}");
    // The reviewer took over the claims, and released them when its pull request was open.
    place.wait_for("the end of all claims", || {
        let (local_claims, issue_claims) = (place.json(&["claims", "list"]), memory(&place)["claims"].clone());
        (local_claims == json!([]) && issue_claims == json!([])).then_some(())
    });
    let labels = forge.labels(issue);
    assert!(!labels.iter().any(|label| label.starts_with("agent::")), "{labels:?}");
    assert_eq!(forge.breaches(), [] as [String; 0]);
}

/// Asserts that each specialist had its own claim, and that no other agent can claim the paths before the reviewer.
fn require_exclusive_claims(place: &Place, shell: &mut Shell, orchestrator: &str) {
    let all = place.json(&["claims", "list", "--all"]);
    let all = all.as_array().unwrap();
    let of_children = all.iter().filter(|claim| claim["line"][0] == orchestrator);
    let mut paths: Vec<String> = of_children.map(|claim| claim["inside"].to_string()).collect();
    paths.sort();
    assert_eq!(paths, [r#"["src/lexer/**"]"#, r#"["src/parser/**"]"#], "{all:#?}");
    let of_orchestrator = all.iter().find(|claim| claim["run"] == orchestrator).unwrap();
    assert_eq!(of_orchestrator["release"], Value::Null, "{all:#?}");
    let task = "[task]\nrole = \"developer\"\nagent-id = \"other\"\n[scope]\nfiles-whitelist = \
                [\"src/kept.txt\"]\n[verification]\ncommands = [\"true\"]\n[body]\ntext = \"Do it.\"\n";
    place.scratch.write("other.toml", task);
    let refused = shell.run("bailiwick spawn other.toml").expect_code(2);
    assert!(refused.err.contains("claims: `other` may not write there now"), "{}", refused.err);
}

/// Waits until the run that a rule has started succeeds.
fn wait_for_end(place: &Place, rule: &str) -> Value {
    let run = place.wait_for(&format!("the run of {rule}"), || {
        let all = place.json(&["get", "runs"]);
        let mut runs_of_rule = all.as_array().unwrap().iter().filter(|run| run["spec"]["triggerRule"] == rule);
        let has_ended = |run: &&Value| {
            let phase = run["status"]["phase"].as_str().unwrap_or_default();
            ["succeeded", "failed", "cancelled"].contains(&phase)
        };
        runs_of_rule.find(has_ended).cloned()
    });
    assert_eq!(run["status"]["phase"], "succeeded", "{run:#}");
    run
}

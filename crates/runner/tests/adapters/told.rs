//! Task options beyond the gate reach the real CLIs: skills, limits, the effort of newer models.

use bailiwick_testkit::clis::Cli;
use bailiwick_testkit::scripted_model::{Call, Script, ScriptedModel, Turn};

use crate::stage::{OWN_SKILL, Stage, adapter};

const SKILL: &str = "---\nname: greet\ndescription: SKILL-OF-THE-BASE-COMMIT\n---\nSay hello.\n";

/// The first request with tools, as text.
fn first_request(model: &ScriptedModel) -> String {
    let requests = model.requests();
    let offers = |body: &serde_json::Value| body["tools"].as_array().is_some_and(|t| !t.is_empty());
    requests.iter().find(|request| offers(&request.body)).unwrap().body.to_string()
}

#[test]
fn skills_of_the_base_commit_reach_the_model() {
    for cli in Cli::ALL {
        let stage = Stage::new();
        let model = ScriptedModel::start(Script::new(vec![Turn::say("finished")]));
        let mut assignment = stage.assignment(cli, &model.base_url());
        assignment.skills.insert("skills/greet/SKILL.md".to_owned(), SKILL.to_owned());
        stage.launch(cli, &assignment);
        let text = first_request(&model);
        assert!(text.contains("SKILL-OF-THE-BASE-COMMIT"), "{cli:?}");
        // Gemini CLI lists the skills of its working folder beside the user's.
        assert_eq!(text.contains(OWN_SKILL), cli == Cli::Gemini, "{cli:?}");
    }
}

/// The number of answers that a model with many turns gives.
fn answers(cli: Cli, turns: Option<u64>, usd: Option<f64>) -> usize {
    let stage = Stage::new();
    // Each call differs: Gemini CLI itself ends a run that repeats one call.
    let turn = |number: u32| {
        let (tool, input) = adapter(cli).shell_call(&format!("true {number}"));
        Turn::Calls(vec![Call::raw(&tool, input)])
    };
    let model = ScriptedModel::start(Script::new((0..6).map(turn).collect()));
    let mut assignment = stage.assignment(cli, &model.base_url());
    (assignment.turns, assignment.usd) = (turns, usd);
    let outcome = stage.launch(cli, &assignment);
    if turns.is_some() {
        assert!(!outcome.verdict.completed, "{cli:?}: {:?}", outcome.verdict);
    }
    model.requests().iter().filter(|request| request.method == "POST").count()
}

#[test]
fn turn_limit_ends_programs_that_support_it() {
    for cli in [Cli::Claude, Cli::Gemini] {
        assert!(adapter(cli).capabilities("", "").turn_limit);
        let (with_limit, without_limit) = (answers(cli, Some(2), None), answers(cli, None, None));
        assert!(with_limit <= 4 && without_limit >= 7, "{cli:?}: {with_limit} of {without_limit}");
    }
}

#[test]
fn opencode_tells_its_model_to_stop_at_the_last_turn() {
    assert!(!adapter(Cli::OpenCode).capabilities("", "").turn_limit);
    let stage = Stage::new();
    let turn = |command: &str| Turn::Calls(vec![Call::shell(command)]);
    let turns = vec![turn("true 1"), turn("true 2"), Turn::say("finished")];
    let model = ScriptedModel::start(Script::new(turns));
    let mut assignment = stage.assignment(Cli::OpenCode, &model.base_url());
    assignment.turns = Some(2);
    stage.launch(Cli::OpenCode, &assignment);
    let request_contains = |words: &str| {
        let requests = model.requests();
        requests.iter().filter(|request| request.body.to_string().contains(words)).count()
    };
    assert!(request_contains("MAXIMUM STEPS") >= 1, "{:#?}", model.requests().last());
}

#[test]
fn cost_limit_ends_claude_code() {
    assert_eq!(answers(Cli::Claude, None, Some(0.000_1)), 1);
}

#[test]
fn effort_of_a_newer_gemini_model_is_a_level() {
    let stage = Stage::new();
    let model = ScriptedModel::start(Script::new(vec![Turn::say("finished")]));
    let mut assignment = stage.assignment(Cli::Gemini, &model.base_url());
    assignment.model = Some("gemini-3-pro-preview".to_owned());
    assignment.effort = Some("low".to_owned());
    stage.launch(Cli::Gemini, &assignment);
    let text = first_request(&model);
    assert!(text.contains(r#""thinkingLevel":"LOW""#), "{text}");
}

//! The real agent programs in front of the proxy: they run the calls that it sends in the model's place,
//! stop when it refuses, and their requests are understood.

use std::sync::Arc;

use bailiwick_runner::proxy::{Admission, ModelApi, ModelRequest, ToolCall};
use bailiwick_testkit::Scratch;
use bailiwick_testkit::clis::{Cli, CliRun};
use bailiwick_testkit::scripted_model::{Call, INPUT_TOKENS, Script, ScriptedModel, Turn};
use serde_json::{Value, json};

use crate::proxy_lab::{Lab, Notification, Recorder, SECRET};

fn wire(cli: Cli) -> ModelApi {
    match cli {
        Cli::Claude => ModelApi::Anthropic,
        Cli::Codex => ModelApi::Responses,
        Cli::Gemini => ModelApi::Gemini,
        Cli::OpenCode => ModelApi::Chat,
    }
}

fn shell(cli: Cli, command: &str) -> (&'static str, Value) {
    match cli {
        Cli::Claude => ("Bash", json!({"command": command, "description": "A test"})),
        Cli::Codex => ("exec_command", json!({"cmd": command})),
        Cli::Gemini => ("run_shell_command", json!({"command": command, "description": "A test"})),
        Cli::OpenCode => ("bash", json!({"command": command, "description": "A test"})),
    }
}

fn run(cli: Cli, lab: &Lab, scratch: &Scratch) -> CliRun {
    let run = CliRun::at(cli, lab.base_url(), &scratch.root());
    match cli {
        Cli::Claude => run.settings(r#"{"permissions":{"allow":["Bash","Agent"]}}"#),
        Cli::Codex | Cli::Gemini | Cli::OpenCode => run,
    }
}

fn scratch() -> Scratch {
    let scratch = Scratch::repository();
    scratch.write("README.md", "A test.\n");
    scratch.commit("Begin");
    scratch
}

/// Asks for a shell command once, then says that it has finished.
fn plays(cli: Cli) -> Arc<Recorder> {
    Recorder::new(move |request: &ModelRequest| {
        let has_result = request.results.iter().any(|result| result.id == "call_canary");
        if !request.offers_tools || has_result {
            return Admission::Say("the canary is done".to_owned());
        }
        let (tool, input) = shell(cli, "echo sung >canary.txt; echo tweet");
        Admission::Call(ToolCall { id: "call_canary".into(), tool: tool.into(), input })
    })
}

fn runs_the_call_of_the_proxy(cli: Cli) {
    let (scratch, observer) = (scratch(), plays(cli));
    let lab = Lab::new(wire(cli), None, &observer);
    let finished = run(cli, &lab, &scratch).run("Do the work.");
    assert_eq!(
        finished.code,
        0,
        "{}\n{}\n{:#?}",
        finished.out,
        finished.err,
        observer.notifications()
    );
    assert!(finished.out.contains("the canary is done"), "{}", finished.out);
    let sung = std::fs::read_to_string(scratch.root().join("canary.txt")).unwrap();
    assert_eq!(sung, "sung\n");
    let results: Vec<_> =
        observer.requests().into_iter().flat_map(|request| request.results).collect();
    let result = results.iter().find(|result| result.id == "call_canary").unwrap();
    assert!(result.output.contains("tweet"), "{result:?}");
    assert_eq!(result.tool.as_deref(), Some(shell(cli, "").0));
    assert!(!result.failed);
}

fn stops_at_a_refusal(cli: Cli) {
    let scratch = scratch();
    let observer = Recorder::new(|_| Admission::Refuse("the budget of this run is spent".into()));
    let lab = Lab::new(wire(cli), None, &observer);
    let finished = run(cli, &lab, &scratch).run("Do the work.");
    let output = format!("{}{}", finished.out, finished.err);
    assert!(finished.code > 0, "{}: {output}", finished.code);
    assert!(output.contains("the budget of this run is spent"), "{output}");
    let requests = observer.requests().iter().filter(|requests| requests.offers_tools).count();
    assert_eq!(requests, 1, "it tried again: {:#?}", observer.notifications());
}

/// The budget is used up while the agent works.
fn stops_at_a_late_refusal(cli: Cli) {
    let scratch = scratch();
    let observer = Recorder::new(move |request: &ModelRequest| match request.results.len() {
        _ if !request.offers_tools => Admission::Say("a title".to_owned()),
        0 => {
            let (tool, input) = shell(cli, "echo begun >begun.txt");
            Admission::Call(ToolCall { id: "call_first".into(), tool: tool.into(), input })
        }
        _ => Admission::Refuse("the budget of this run is spent".to_owned()),
    });
    let lab = Lab::new(wire(cli), None, &observer);
    let finished = run(cli, &lab, &scratch).run("Do the work.");
    let output = format!("{}{}", finished.out, finished.err);
    assert!(finished.code > 0, "{}: {output}", finished.code);
    assert!(output.contains("the budget of this run is spent"), "{output}");
    assert!(scratch.root().join("begun.txt").exists());
    let request = observer.requests().iter().filter(|request| request.offers_tools).count();
    assert_eq!(request, 2, "it tried again: {:#?}", observer.notifications());
}

/// Works through the proxy with a model behind it and with a sub-agent, and has no key.
fn works_through_the_proxy(cli: Cli) {
    let wait = "n=0; while [ ! -e part.txt ] && [ $n -lt 300 ]; do sleep 0.1; n=$((n + 1)); done";
    // Codex does not wait for the last message of the sub-agent.
    let pause = if cli == Cli::Codex { "; sleep 3" } else { "" };
    let script = Script::new(vec![
        Turn::Calls(vec![Call::delegate("This is PART-TWO: make part.txt.")]),
        Turn::Calls(vec![Call::shell(wait)]),
        Turn::Calls(vec![Call::shell(format!("env >env.txt; echo seen{pause}"))]),
        Turn::say("finished"),
    ]);
    let part =
        vec![Turn::Calls(vec![Call::shell("echo made >part.txt")]), Turn::say("part two is done")];
    let model = ScriptedModel::start(script.when("PART-TWO", part));
    let (scratch, observer) = (scratch(), Recorder::allowing());
    let lab = Lab::new(wire(cli), Some(&model.base_url()), &observer);
    let finished = run(cli, &lab, &scratch).run("Do the work.");
    assert_eq!(
        finished.code,
        0,
        "{}\n{}\n{:#?}",
        finished.out,
        finished.err,
        observer.notifications()
    );
    assert!(finished.out.contains("finished"), "{}", finished.out);
    assert!(scratch.root().join("part.txt").exists());
    let env = std::fs::read_to_string(scratch.root().join("env.txt")).unwrap();
    assert!(env.contains("HOME=") && !env.contains(SECRET), "{env}");
    assert!(!format!("{}{}", finished.out, finished.err).contains(SECRET));
    // Every result of a tool belongs to a call that was reported to the observer.
    let reported: Vec<_> = observer.tool_calls().into_iter().map(|call| call.id).collect();
    for model_request in observer.requests() {
        for result in model_request.results {
            assert!(reported.contains(&result.id), "{result:?} of {reported:?}");
        }
    }
    // Gemini's sub-agents have a tool to report that they have finished.
    assert_eq!(reported.len(), if cli == Cli::Gemini { 5 } else { 4 }, "{reported:?}");
    for response in observer.responses() {
        assert!(response.complete && response.usage.input == INPUT_TOKENS, "{response:?}");
    }
    for request in model.requests() {
        let headers = format!("{:?}", request.headers);
        assert!(headers.contains(SECRET) && !headers.contains("dummy"), "{headers}");
    }
    // Gemini does not name the agent that sends a request.
    if cli != Cli::Gemini {
        let of_part = |notification: &Notification| matches!(notification, Notification::ToolCalled(Some(_), call) if call.id == "call_1_0_0");
        let of_agent = |notification: &Notification| matches!(notification, Notification::ToolCalled(None, call) if call.id == "call_0_0_0");
        assert!(observer.notifications().iter().any(of_part), "{:#?}", observer.notifications());
        assert!(observer.notifications().iter().any(of_agent), "{:#?}", observer.notifications());
    }
}

#[test]
fn claude_runs_the_call_of_the_proxy() {
    runs_the_call_of_the_proxy(Cli::Claude);
}

#[test]
fn codex_runs_the_call_of_the_proxy() {
    runs_the_call_of_the_proxy(Cli::Codex);
}

#[test]
fn gemini_runs_the_call_of_the_proxy() {
    runs_the_call_of_the_proxy(Cli::Gemini);
}

#[test]
fn opencode_runs_the_call_of_the_proxy() {
    runs_the_call_of_the_proxy(Cli::OpenCode);
}

#[test]
fn claude_stops_at_a_refusal() {
    stops_at_a_refusal(Cli::Claude);
}

#[test]
fn codex_stops_at_a_refusal() {
    stops_at_a_refusal(Cli::Codex);
}

#[test]
fn gemini_stops_at_a_refusal() {
    stops_at_a_refusal(Cli::Gemini);
}

#[test]
fn opencode_stops_at_a_refusal() {
    stops_at_a_refusal(Cli::OpenCode);
}

#[test]
fn claude_stops_at_a_late_refusal() {
    stops_at_a_late_refusal(Cli::Claude);
}

#[test]
fn claude_works_through_the_proxy() {
    works_through_the_proxy(Cli::Claude);
}

#[test]
fn codex_stops_at_a_late_refusal() {
    stops_at_a_late_refusal(Cli::Codex);
}

#[test]
fn codex_works_through_the_proxy() {
    works_through_the_proxy(Cli::Codex);
}

#[test]
fn gemini_stops_at_a_late_refusal() {
    stops_at_a_late_refusal(Cli::Gemini);
}

#[test]
fn gemini_works_through_the_proxy() {
    works_through_the_proxy(Cli::Gemini);
}

#[test]
fn opencode_stops_at_a_late_refusal() {
    stops_at_a_late_refusal(Cli::OpenCode);
}

#[test]
fn opencode_works_through_the_proxy() {
    works_through_the_proxy(Cli::OpenCode);
}

//! The real agent programs in front of the proxy: what it says in the model's place is done, what it
//! refuses ends them, and what they say of themselves is understood.

use std::sync::Arc;

use bailiwick_runner::proxy::{Admission, ModelApi, ModelRequest, ToolCall};
use bailiwick_testkit::Scratch;
use bailiwick_testkit::clis::{Cli, CliRun};
use bailiwick_testkit::scripted_model::{Call, INPUT_TOKENS, Script, ScriptedModel, Turn};
use serde_json::{Value, json};

use crate::proxy_lab::{Lab, Recorder, SECRET, Told};

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

/// Asks for a shell command once, then says that it is done.
fn plays(cli: Cli) -> Arc<Recorder> {
    Recorder::new(move |asked: &ModelRequest| {
        let back = asked.results.iter().any(|result| result.id == "call_canary");
        if !asked.offers_tools || back {
            return Admission::Say("the canary is done".to_owned());
        }
        let (tool, input) = shell(cli, "echo sung >canary.txt; echo tweet");
        Admission::Call(ToolCall { id: "call_canary".into(), tool: tool.into(), input })
    })
}

fn does_what_the_proxy_says(cli: Cli) {
    let (scratch, observer) = (scratch(), plays(cli));
    let lab = Lab::new(wire(cli), None, &observer);
    let ran = run(cli, &lab, &scratch).run("Do the work.");
    assert_eq!(ran.code, 0, "{}\n{}\n{:#?}", ran.out, ran.err, observer.told());
    assert!(ran.out.contains("the canary is done"), "{}", ran.out);
    let sung = std::fs::read_to_string(scratch.root().join("canary.txt")).unwrap();
    assert_eq!(sung, "sung\n");
    let results: Vec<_> = observer.asked().into_iter().flat_map(|asked| asked.results).collect();
    let result = results.iter().find(|result| result.id == "call_canary").unwrap();
    assert!(result.output.contains("tweet"), "{result:?}");
    assert_eq!(result.tool.as_deref(), Some(shell(cli, "").0));
    assert!(!result.failed);
}

fn is_ended_by_a_refusal(cli: Cli) {
    let scratch = scratch();
    let observer = Recorder::new(|_| Admission::Refuse("the budget of this run is spent".into()));
    let lab = Lab::new(wire(cli), None, &observer);
    let ran = run(cli, &lab, &scratch).run("Do the work.");
    let said = format!("{}{}", ran.out, ran.err);
    assert!(ran.code > 0, "{}: {said}", ran.code);
    assert!(said.contains("the budget of this run is spent"), "{said}");
    let asked = observer.asked().iter().filter(|asked| asked.offers_tools).count();
    assert_eq!(asked, 1, "it tried again: {:#?}", observer.told());
}

/// The budget is spent while the agent works.
fn is_ended_by_a_late_refusal(cli: Cli) {
    let scratch = scratch();
    let observer = Recorder::new(move |asked: &ModelRequest| match asked.results.len() {
        _ if !asked.offers_tools => Admission::Say("a title".to_owned()),
        0 => {
            let (tool, input) = shell(cli, "echo begun >begun.txt");
            Admission::Call(ToolCall { id: "call_first".into(), tool: tool.into(), input })
        }
        _ => Admission::Refuse("the budget of this run is spent".to_owned()),
    });
    let lab = Lab::new(wire(cli), None, &observer);
    let ran = run(cli, &lab, &scratch).run("Do the work.");
    let said = format!("{}{}", ran.out, ran.err);
    assert!(ran.code > 0, "{}: {said}", ran.code);
    assert!(said.contains("the budget of this run is spent"), "{said}");
    assert!(scratch.root().join("begun.txt").exists());
    let asked = observer.asked().iter().filter(|asked| asked.offers_tools).count();
    assert_eq!(asked, 2, "it tried again: {:#?}", observer.told());
}

/// Works through the proxy with a model behind it, with a sub-agent, and has no key of its own.
fn works_through_the_proxy(cli: Cli) {
    let wait = "n=0; while [ ! -e part.txt ] && [ $n -lt 300 ]; do sleep 0.1; n=$((n + 1)); done";
    // Codex does not wait for the last words of the other.
    let rest = if cli == Cli::Codex { "; sleep 3" } else { "" };
    let script = Script::new(vec![
        Turn::Calls(vec![Call::delegate("This is PART-TWO: make part.txt.")]),
        Turn::Calls(vec![Call::shell(wait)]),
        Turn::Calls(vec![Call::shell(format!("env >env.txt; echo seen{rest}"))]),
        Turn::say("finished"),
    ]);
    let part =
        vec![Turn::Calls(vec![Call::shell("echo made >part.txt")]), Turn::say("part two is done")];
    let model = ScriptedModel::start(script.when("PART-TWO", part));
    let (scratch, observer) = (scratch(), Recorder::passes());
    let lab = Lab::new(wire(cli), Some(&model.base_url()), &observer);
    let ran = run(cli, &lab, &scratch).run("Do the work.");
    assert_eq!(ran.code, 0, "{}\n{}\n{:#?}", ran.out, ran.err, observer.told());
    assert!(ran.out.contains("finished"), "{}", ran.out);
    assert!(scratch.root().join("part.txt").exists());
    let env = std::fs::read_to_string(scratch.root().join("env.txt")).unwrap();
    assert!(env.contains("HOME=") && !env.contains(SECRET), "{env}");
    assert!(!format!("{}{}", ran.out, ran.err).contains(SECRET));
    // All that came back from a tool was asked for before, and we were told.
    let told: Vec<_> = observer.called().into_iter().map(|call| call.id).collect();
    for asked in observer.asked() {
        for result in asked.results {
            assert!(told.contains(&result.id), "{result:?} of {told:?}");
        }
    }
    // Gemini's sub-agents have a tool to say that they are done.
    assert_eq!(told.len(), if cli == Cli::Gemini { 5 } else { 4 }, "{told:?}");
    for answered in observer.answered() {
        assert!(answered.complete && answered.usage.input == INPUT_TOKENS, "{answered:?}");
    }
    for request in model.requests() {
        let headers = format!("{:?}", request.headers);
        assert!(headers.contains(SECRET) && !headers.contains("dummy"), "{headers}");
    }
    // Gemini does not say which agent asks.
    if cli != Cli::Gemini {
        let of_part =
            |told: &Told| matches!(told, Told::Called(Some(_), call) if call.id == "call_1_0_0");
        let of_agent =
            |told: &Told| matches!(told, Told::Called(None, call) if call.id == "call_0_0_0");
        assert!(observer.told().iter().any(of_part), "{:#?}", observer.told());
        assert!(observer.told().iter().any(of_agent), "{:#?}", observer.told());
    }
}

#[test]
fn claude_does_what_the_proxy_says() {
    does_what_the_proxy_says(Cli::Claude);
}

#[test]
fn codex_does_what_the_proxy_says() {
    does_what_the_proxy_says(Cli::Codex);
}

#[test]
fn gemini_does_what_the_proxy_says() {
    does_what_the_proxy_says(Cli::Gemini);
}

#[test]
fn opencode_does_what_the_proxy_says() {
    does_what_the_proxy_says(Cli::OpenCode);
}

#[test]
fn claude_is_ended_by_a_refusal() {
    is_ended_by_a_refusal(Cli::Claude);
}

#[test]
fn codex_is_ended_by_a_refusal() {
    is_ended_by_a_refusal(Cli::Codex);
}

#[test]
fn gemini_is_ended_by_a_refusal() {
    is_ended_by_a_refusal(Cli::Gemini);
}

#[test]
fn opencode_is_ended_by_a_refusal() {
    is_ended_by_a_refusal(Cli::OpenCode);
}

#[test]
fn claude_is_ended_by_a_late_refusal() {
    is_ended_by_a_late_refusal(Cli::Claude);
}

#[test]
fn claude_works_through_the_proxy() {
    works_through_the_proxy(Cli::Claude);
}

#[test]
fn codex_is_ended_by_a_late_refusal() {
    is_ended_by_a_late_refusal(Cli::Codex);
}

#[test]
fn codex_works_through_the_proxy() {
    works_through_the_proxy(Cli::Codex);
}

#[test]
fn gemini_is_ended_by_a_late_refusal() {
    is_ended_by_a_late_refusal(Cli::Gemini);
}

#[test]
fn gemini_works_through_the_proxy() {
    works_through_the_proxy(Cli::Gemini);
}

#[test]
fn opencode_is_ended_by_a_late_refusal() {
    is_ended_by_a_late_refusal(Cli::OpenCode);
}

#[test]
fn opencode_works_through_the_proxy() {
    works_through_the_proxy(Cli::OpenCode);
}

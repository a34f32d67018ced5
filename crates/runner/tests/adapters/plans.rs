//! The launch plan of each adapter, as snapshots.

use std::collections::BTreeMap;
use std::path::PathBuf;

use bailiwick_lifecycle::supervision::Redaction;
use bailiwick_model::task::{Line, Login, ScriptStep, SubAgent};
use bailiwick_runner::agents::adapter::{Adapter, Assignment, Conversation, Gate, Instruction};
use bailiwick_runner::agents::{ClaudeCode, Codex, Gemini, OpenCode, Script, adapter};
use bailiwick_runner::proxy::Models;
use serde_json::json;

fn plain() -> Assignment {
    Assignment {
        version: "1.18.33".to_owned(),
        prompt: "Do the work.".to_owned(),
        system_prompt: None,
        model: None,
        effort: None,
        session: Conversation::New("0d1f6a62-7d3f-4a8e-9f57-27c4c3f1a001".to_owned()),
        worktree: PathBuf::from("/work tree"),
        repository: PathBuf::from("/repository"),
        home: PathBuf::from("/home/agent"),
        model_url: "http://127.0.0.1:4100".to_owned(),
        login: Login::ApiKey,
        gate: Some(Gate {
            command: ["/bin/bailiwick-gate", "--socket", "/run/it's here"]
                .map(str::to_owned)
                .to_vec(),
            seconds: 5,
        }),
        tools: None,
        searches: false,
        sub_agents: Vec::new(),
        mcp_servers: BTreeMap::new(),
        instructions: Vec::new(),
        skills: BTreeMap::new(),
        turns: None,
        usd: None,
        script: Vec::new(),
        granted: Vec::new(),
        hidden: Redaction::default(),
        granted_files: None,
        skill_files: None,
    }
}

fn line(text: &str) -> Line {
    Line::try_from(text.to_owned()).unwrap()
}

fn full() -> Assignment {
    let skill = "---\nname: greet\ndescription: Says hello\n---\nSay it.\n";
    let servers = [
        ("gov", json!({"command": "gov-server", "args": ["--stdio"], "env": {"A": "1"}})),
        ("far", json!({"type": "http", "url": "http://127.0.0.1:9/mcp", "headers": {"X": "y"}})),
    ];
    Assignment {
        system_prompt: Some("Be brief.".to_owned()),
        model: Some("some-model".to_owned()),
        effort: Some("high".to_owned()),
        session: Conversation::Resume("the-conversation".to_owned()),
        tools: Some(["Bash", "Read", "Write", "mcp__gov__*"].map(str::to_owned).to_vec()),
        sub_agents: vec![SubAgent {
            name: line("helper"),
            description: "Helps: with \"parts\"".to_owned(),
            prompt: "You help.\n".to_owned(),
            tools: None,
            model: Some(line("small-model")),
        }],
        mcp_servers: servers.map(|(name, server)| (name.to_owned(), server)).into(),
        instructions: vec![
            Instruction { path: "AGENTS.md".to_owned(), text: "Use tabs.\n".to_owned() },
            Instruction { path: "sub/AGENTS.md".to_owned(), text: "Use spaces.".to_owned() },
        ],
        skills: BTreeMap::from([("skills/greet/SKILL.md".to_owned(), skill.to_owned())]),
        turns: Some(12),
        usd: Some(2.5),
        granted: vec![("TOKEN_OF_THE_TEAM".to_owned(), "granted".to_owned())],
        ..plain()
    }
}

/// The provider runs the search, and no gate sees it, so only agents that may search can use it.
#[test]
fn codex_searches_only_if_tools_and_policy_allow_it() {
    let any = || Some(vec!["*".to_owned()]);
    let none = || Some(vec!["Bash".to_owned()]);
    for (tools, searches, expected) in [
        (any(), true, "live"),
        (any(), false, "disabled"),
        (none(), true, "disabled"),
        (None, true, "disabled"),
    ] {
        let launch = Codex.plan(&Assignment { tools, searches, ..plain() }).unwrap();
        let config = &launch.files[".codex/config.toml"];
        assert!(config.contains(&format!("web_search = \"{expected}\"")), "{config}");
    }
}

#[test]
fn run_asks_for_its_own_models_and_the_small_ones_of_its_program() {
    let list = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
    let models = |adapter: &dyn Adapter, model: &str| {
        Assignment { model: Some(model.to_owned()), ..plain() }.models(adapter)
    };
    let models_named =
        |own: &[&str], side: &[&str]| Models::Named { own: list(own), side: list(side) };
    let (haiku, flash) = (["*claude*haiku*"], ["gemini-*flash*"]);
    let opus = "claude-opus-4-8";
    assert_eq!(models(&ClaudeCode, opus), models_named(&[opus], &haiku));
    assert_eq!(models(&ClaudeCode, "opus[1m]"), models_named(&["*claude*opus*"], &haiku));
    let both = ["*claude*opus*", "*claude*sonnet*"];
    assert_eq!(models(&ClaudeCode, "opusplan"), models_named(&both, &haiku));
    assert_eq!(models(&Codex, "gpt-5.5"), models_named(&["gpt-5.5"], &[]));
    assert_eq!(models(&OpenCode, "gpt-5.5"), models_named(&["gpt-5.5"], &[]));
    assert_eq!(models(&Gemini, "pro"), models_named(&["gemini-*pro*"], &flash));
    assert_eq!(plain().models(&Gemini), models_named(&["gemini-*pro*"], &flash));
    for adapter in [&Codex as &dyn Adapter, &OpenCode] {
        let first = Models::First { own: Vec::new(), side: Vec::new() };
        assert_eq!(plain().models(adapter), first, "{}", adapter.name());
    }
}

fn all() -> [Box<dyn Adapter>; 4] {
    [Box::new(ClaudeCode), Box::new(Codex), Box::new(Gemini), Box::new(OpenCode)]
}

#[test]
fn launches_with_a_gate_only() {
    for adapter in all() {
        let name = format!("plain-{}", adapter.name());
        insta::assert_json_snapshot!(name, adapter.plan(&plain()).unwrap());
    }
}

#[test]
fn launches_with_every_option() {
    for adapter in all() {
        let name = format!("full-{}", adapter.name());
        insta::assert_json_snapshot!(name, adapter.plan(&full()).unwrap());
    }
}

#[test]
fn launches_without_a_gate() {
    for adapter in all() {
        let launch = adapter.plan(&Assignment { gate: None, ..plain() }).unwrap();
        let text = format!("{launch:?}");
        assert!(!text.contains("bailiwick-gate"), "{}: {text}", adapter.name());
    }
}

#[test]
fn same_assignment_gives_the_same_launch() {
    for adapter in all() {
        assert_eq!(adapter.plan(&full()), adapter.plan(&full()), "{}", adapter.name());
    }
}

#[test]
fn environment_contains_nothing_about_the_gate() {
    for adapter in all() {
        let launch = adapter.plan(&plain()).unwrap();
        let text = format!("{:?}", launch.environment);
        assert!(!text.contains("gate"), "{}: {text}", adapter.name());
        assert!(!text.contains("/run/"), "{}: {text}", adapter.name());
    }
}

#[test]
fn unknown_effort_is_refused_with_the_list_of_known_ones() {
    for adapter in all() {
        let error = adapter.plan(&Assignment { effort: Some("heroic".to_owned()), ..plain() });
        let text = error.unwrap_err().to_string();
        assert!(text.contains("heroic") && text.contains("low"), "{text}");
    }
}

#[test]
fn granted_variable_that_controls_the_program_is_refused() {
    for name in
        ["CLAUDE_CODE_SIMPLE", "NODE_OPTIONS", "OPENCODE_PURE", "LD_PRELOAD", "HOME", "CODEX_HOME"]
    {
        for adapter in all() {
            let granted = vec![(name.to_owned(), "1".to_owned())];
            let error = adapter.plan(&Assignment { granted, ..plain() }).unwrap_err();
            assert!(error.to_string().contains(name), "{error}");
        }
    }
}

#[test]
fn logins_have_their_requirements_or_are_refused() {
    let logins = [Login::ApiKey, Login::Subscription, Login::Bedrock, Login::Vertex];
    let mut logins_by_adapter = Vec::new();
    for adapter in all() {
        for login in logins {
            let needs = adapter.login(login).map_err(|error| error.to_string());
            logins_by_adapter.push((adapter.name().to_owned(), login.as_str(), needs));
            let model = match adapter.name() == "claude-code" && login == Login::Bedrock {
                true => "eu.anthropic.a-model-v1:0",
                false => "provider/model",
            };
            let model = Some(model.to_owned());
            let launch = adapter.plan(&Assignment { login, model, ..plain() });
            assert_eq!(
                launch.is_ok(),
                adapter.login(login).is_ok(),
                "{} {login:?}",
                adapter.name()
            );
        }
    }
    insta::assert_json_snapshot!(logins_by_adapter);
}

#[test]
fn launch_contains_no_key() {
    for adapter in all() {
        let launch = adapter.plan(&plain()).unwrap();
        let keys = launch.environment.iter().filter(|(name, _)| name.contains("KEY"));
        assert!(keys.into_iter().all(|(_, value)| value == "held-by-bailiwick"));
    }
}

#[test]
fn codex_sub_agent_with_a_tool_list_is_refused() {
    let mut assignment = full();
    assignment.sub_agents[0].tools = Some(vec!["Read".to_owned()]);
    let error = Codex.plan(&assignment).unwrap_err().to_string();
    assert!(error.contains("helper") && error.contains("leave `tools` out"), "{error}");
}

#[test]
fn script_is_passed_on_standard_input() {
    let script = vec![ScriptStep::Say { text: "hello".to_owned() }];
    insta::assert_json_snapshot!(Script.plan(&Assignment { script, ..plain() }).unwrap());
    assert!(Script.plan(&plain()).unwrap_err().to_string().contains("[[agent.script]]"));
}

#[test]
fn adapters_are_found_by_name() {
    for name in ["claude-code", "codex", "gemini", "opencode", "script"] {
        assert_eq!(adapter(name).unwrap().name(), name);
    }
    assert!(adapter("babysitter").is_none());
}

//! Limits that are laid over a policy: commands, tools, files; they only take away.

use bailiwick_model::role::EscalationPolicy;
use bailiwick_policy::dialects::Dialect;
use bailiwick_policy::limits::command_pattern;
use bailiwick_policy::{
    Facts, Limit, Limits, Outcome, Policy, Sources, ToolStack, compile, decide,
};
use bailiwick_testkit::random::Random;
use serde_json::json;

fn base() -> Policy {
    compile(&Sources {
        role: "free",
        agent: Some("ag-1"),
        tools: Some(&["*".to_owned()]),
        ask: &[],
        bash_patterns: &[],
        escalation: EscalationPolicy::default(),
        capabilities: &[],
        task: None,
        set_bypass_variables: &[],
        temporary: &[],
        protected: &[],
        tool_lists: &ToolStack::unlimited(),
    })
    .unwrap()
}

fn texts(list: &[&str]) -> Vec<String> {
    list.iter().map(ToString::to_string).collect()
}

fn shell(policy: &Policy, command: &str) -> bailiwick_policy::Decision {
    let payload = json!({ "tool_name": "Bash", "tool_input": { "command": command }, "cwd": "/w" });
    let call = Dialect::Claude.read(payload.to_string().as_bytes(), &[]).unwrap();
    let facts = Facts { root: "/w".into(), directory: Some("/w".into()), ..Facts::default() };
    decide(policy, &call, &facts)
}

fn with(limit: Limit) -> Policy {
    let policy = Limits(vec![limit]).apply_to(base()).unwrap();
    // What the gate reads is a file.
    Policy::parse(policy.to_json().as_bytes()).unwrap()
}

#[test]
fn a_command_pattern_means_words_and_what_follows_them() {
    for (pattern, command, allowed) in [
        ("cargo test", "cargo test", true),
        ("cargo test", "cargo test --all", true),
        ("cargo test", "cargo testing", false),
        ("cargo test", "cargo", false),
        ("cargo *", "cargo build", true),
        ("cargo *", "cargo", true),
        ("  cargo   test ", "cargo test -p x", true),
        ("npm run lint:*", "npm run lint:css", true),
        ("npm run lint:*", "npm run build", false),
        ("ls", "ls; cargo test", false),
        ("make x.y", "make x-y", false),
        ("ls ?", "ls a", true),
        ("ls ?", "ls ab", false),
    ] {
        let limit = Limit {
            owner: "t".into(),
            allow_commands: Some(texts(&[pattern])),
            ..Limit::default()
        };
        let outcome = shell(&with(limit), command).outcome;
        assert_eq!(outcome == Outcome::Allow, allowed, "{pattern} / {command}");
    }
    for bad in ["", "  ", "a\nb\u{7}"] {
        assert!(command_pattern(bad).is_err(), "{bad:?}");
    }
}

#[test]
fn denied_commands_are_denied_wherever_they_stand() {
    let limit = Limit {
        owner: "the stack s".into(),
        deny_commands: texts(&["curl", "git push"]),
        ..Limit::default()
    };
    let policy = with(limit);
    for command in [
        "curl x",
        "/usr/bin/curl x",
        "ls && curl x",
        "git push origin",
        "sh -c 'curl x'",
        "$(echo curl) x",
    ] {
        let decision = shell(&policy, command);
        assert_eq!(decision.outcome, Outcome::Deny, "{command}");
        let because = decision.because.unwrap();
        assert!(
            because.reason.starts_with("the stack s does not allow it: "),
            "{}",
            because.reason
        );
        assert_eq!(because.rule, "limit::denied-commands");
    }
    for command in ["ls", "git status", "echo curl"] {
        assert_eq!(shell(&policy, command).outcome, Outcome::Allow, "{command}");
    }
}

#[test]
fn commands_can_be_asked_for() {
    let limit = Limit { owner: "t".into(), ask_commands: texts(&["docker"]), ..Limit::default() };
    let policy = with(limit);
    assert_eq!(shell(&policy, "ls").outcome, Outcome::Allow);
    let asked = shell(&policy, "ls && docker ps");
    assert_eq!(asked.outcome, Outcome::Ask);
    assert_eq!(asked.because.unwrap().rule, "limit::ask-commands");
    assert_eq!(shell(&policy, "$(echo docker) ps").outcome, Outcome::Ask, "nobody can tell");
}

#[test]
fn an_empty_list_of_commands_closes_the_shell() {
    let limit = Limit { owner: "t".into(), allow_commands: Some(Vec::new()), ..Limit::default() };
    assert_eq!(shell(&with(limit), "ls").outcome, Outcome::Deny);
    assert_eq!(shell(&base(), "ls").outcome, Outcome::Allow);
}

#[test]
fn a_limit_survives_being_written_and_an_unknown_key_does_not() {
    let limit = Limit { owner: "t".into(), read_only: true, ..Limit::default() };
    let limits = Limits(vec![limit]);
    let text = serde_json::to_string(&limits).unwrap();
    assert_eq!(serde_json::from_str::<Limits>(&text).unwrap(), limits);
    assert!(serde_json::from_str::<Limits>(r#"[{"whose":"t","readOnli":true}]"#).is_err());
}

/// More limits never allow more, and their order does not matter.
#[test]
fn rights_only_shrink() {
    let mut random = Random::rotating("limits");
    let words = ["ls", "cargo test", "cargo *", "curl", "git *", "*"];
    let commands = ["ls -l", "cargo test", "cargo build", "curl x", "git push", "ls && curl x"];
    let strictness = |outcome: Outcome| match outcome {
        Outcome::Allow => 0,
        Outcome::Ask => 1,
        Outcome::Deny => 2,
    };
    let (mut shrunk, mut kept) = (0, 0);
    for _ in 0..60 {
        let list = |random: &mut Random| {
            (0..random.below(3)).map(|_| words[random.below(words.len())].to_owned()).collect()
        };
        let limit = |random: &mut Random| Limit {
            owner: "t".into(),
            allow_commands: random.once_in(3).then(|| list(random)),
            deny_commands: if random.once_in(3) { list(random) } else { Vec::new() },
            ask_commands: if random.once_in(3) { list(random) } else { Vec::new() },
            ..Limit::default()
        };
        let (one, other) = (limit(&mut random), limit(&mut random));
        let few = Limits(vec![one.clone()]).apply_to(base()).unwrap();
        let many = Limits(vec![one.clone(), other.clone()]).apply_to(base()).unwrap();
        let turned = Limits(vec![other, one]).apply_to(base()).unwrap();
        for command in commands {
            let [few, many, turned] =
                [&few, &many, &turned].map(|policy| strictness(shell(policy, command).outcome));
            assert!(many >= few, "{command}");
            assert_eq!(many, turned, "{command}");
            if many > few { shrunk += 1 } else { kept += 1 }
        }
    }
    assert!(shrunk > 0 && kept > 0);
}

//! Additional limits on a policy: commands, tools, files; they only restrict.

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
    // The gate reads a file, so the policy must survive serialization.
    Policy::parse(policy.to_json().as_bytes()).unwrap()
}

#[test]
fn command_pattern_matches_words_and_any_arguments() {
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
fn denied_commands_are_denied_anywhere_in_a_line() {
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
fn commands_can_require_approval() {
    let limit = Limit { owner: "t".into(), ask_commands: texts(&["docker"]), ..Limit::default() };
    let policy = with(limit);
    assert_eq!(shell(&policy, "ls").outcome, Outcome::Allow);
    let decision = shell(&policy, "ls && docker ps");
    assert_eq!(decision.outcome, Outcome::Ask);
    assert_eq!(decision.because.unwrap().rule, "limit::ask-commands");
    assert_eq!(shell(&policy, "$(echo docker) ps").outcome, Outcome::Ask, "the program is unknown");
}

#[test]
fn empty_list_of_commands_denies_the_shell() {
    let limit = Limit { owner: "t".into(), allow_commands: Some(Vec::new()), ..Limit::default() };
    assert_eq!(shell(&with(limit), "ls").outcome, Outcome::Deny);
    assert_eq!(shell(&base(), "ls").outcome, Outcome::Allow);
}

#[test]
fn limit_survives_serialization_and_unknown_keys_are_refused() {
    let limit = Limit { owner: "t".into(), read_only: true, ..Limit::default() };
    let limits = Limits(vec![limit]);
    let text = serde_json::to_string(&limits).unwrap();
    assert_eq!(serde_json::from_str::<Limits>(&text).unwrap(), limits);
    assert!(serde_json::from_str::<Limits>(r#"[{"whose":"t","readOnli":true}]"#).is_err());
}

/// More limits never allow more, and their order does not matter.
#[test]
fn limits_only_remove_rights() {
    let mut random = Random::rotating("limits");
    let words = ["ls", "cargo test", "cargo *", "curl", "git *", "*"];
    let commands = ["ls -l", "cargo test", "cargo build", "curl x", "git push", "ls && curl x"];
    let strictness = |outcome: Outcome| match outcome {
        Outcome::Allow => 0,
        Outcome::Ask => 1,
        Outcome::Deny => 2,
    };
    let (mut shrunk, mut unchanged) = (0, 0);
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
        let (first, second) = (limit(&mut random), limit(&mut random));
        let with_one = Limits(vec![first.clone()]).apply_to(base()).unwrap();
        let with_both = Limits(vec![first.clone(), second.clone()]).apply_to(base()).unwrap();
        let reordered = Limits(vec![second, first]).apply_to(base()).unwrap();
        for command in commands {
            let [with_one, with_both, reordered] = [&with_one, &with_both, &reordered]
                .map(|policy| strictness(shell(policy, command).outcome));
            assert!(with_both >= with_one, "{command}");
            assert_eq!(with_both, reordered, "{command}");
            if with_both > with_one { shrunk += 1 } else { unchanged += 1 }
        }
    }
    assert!(shrunk > 0 && unchanged > 0);
}

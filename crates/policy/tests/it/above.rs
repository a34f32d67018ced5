//! The limits of an agent below others: its own policy, and every one above it.

use bailiwick_model::role::EscalationPolicy;
use bailiwick_model::template::ToolLists;
use bailiwick_policy::decide::is_always_allowed;
use bailiwick_policy::dialects::Dialect;
use bailiwick_policy::tool::Tool;
use bailiwick_policy::{
    Call, Facts, Limit, Limits, Outcome, Policy, Sources, ToolStack, compile, decide,
};
use bailiwick_testkit::random::Random;
use serde_json::json;

const TOOLS: [&str; 6] = ["Bash", "Read", "Write", "Edit", "WebFetch", "mcp__a__b"];

fn policy(name: &str, tools: &[&str], ask: &[&str], read_only: bool, lists: &ToolLists) -> Policy {
    let tools: Vec<String> = tools.iter().map(|tool| (*tool).to_owned()).collect();
    let ask: Vec<String> = ask.iter().map(|tool| (*tool).to_owned()).collect();
    let compiled = compile(&Sources {
        role: name,
        agent: Some(name),
        tools: Some(&tools),
        ask: &ask,
        bash_patterns: &[],
        escalation: EscalationPolicy::AskViaReturn,
        capabilities: &[],
        task: None,
        set_bypass_variables: &[],
        temporary: &[],
        protected: &[],
        tool_lists: &ToolStack::unlimited().narrowed_by(name, lists),
    });
    Policy { read_only, ..compiled.unwrap() }
}

fn call(tool: &str) -> Call {
    let input = match tool {
        "Bash" => json!({"command": "echo x"}),
        "WebFetch" => json!({"url": "http://localhost", "prompt": "x"}),
        "Edit" => json!({"file_path": "/w/a", "old_string": "a", "new_string": "b"}),
        "Write" => json!({"file_path": "/w/a", "content": "a"}),
        _ => json!({"file_path": "/w/a"}),
    };
    let payload = json!({"tool_name": tool, "tool_input": input, "cwd": "/w"}).to_string();
    Dialect::Claude.read(payload.as_bytes(), &["a".to_owned()]).unwrap()
}

fn facts() -> Facts {
    Facts { root: "/w".to_owned(), directory: Some("/w".to_owned()), ..Facts::default() }
}

fn outcome(policy: &Policy, tool: &str) -> Outcome {
    decide(policy, &call(tool), &facts()).outcome
}

fn strictness(outcome: Outcome) -> u8 {
    match outcome {
        Outcome::Allow => 0,
        Outcome::Ask => 1,
        Outcome::Deny => 2,
    }
}

/// The decision about an agent is the strictest of its own policy and of all above it.
#[test]
fn child_is_limited_by_its_own_and_all_policies_above() {
    let mut random = Random::rotating("policies above");
    let mut outcomes = [0; 3];
    for _ in 0..500 {
        let mut line = Vec::new();
        for index in 0..3 {
            let mut random_tools = |out_of: usize| -> Vec<&str> {
                TOOLS.into_iter().filter(|_| !random.once_in(out_of)).collect()
            };
            let (tools, list) = (random_tools(4), random_tools(4));
            let ask: Vec<&str> = TOOLS.into_iter().filter(|_| random.once_in(8)).collect();
            let list = list.iter().map(|tool| (*tool).to_owned()).collect();
            let lists = ToolLists { allow_list: Some(list), deny_list: None };
            line.push(policy(&format!("agent-{index}"), &tools, &ask, random.once_in(6), &lists));
        }
        let [root, middle, leaf] = [&line[0], &line[1], &line[2]];
        let child = leaf.clone().with_ancestors_of(&middle.clone().with_ancestors_of(root));
        assert_eq!(child.ancestors.len(), 2);
        let parsed: Policy = Policy::parse(child.to_json().as_bytes()).unwrap();
        for tool in TOOLS {
            let strictest =
                line.iter().map(|ancestor| strictness(outcome(ancestor, tool))).max().unwrap();
            assert_eq!(strictness(outcome(&child, tool)), strictest, "{tool} {line:#?}");
            assert_eq!(outcome(&parsed, tool), outcome(&child, tool));
            outcomes[usize::from(strictest)] += 1;
        }
    }
    assert!(outcomes.iter().all(|count| *count > 0), "{outcomes:?}");
}

#[test]
fn denial_by_an_ancestor_names_it() {
    let parent = policy("parent", &["Read"], &[], false, &ToolLists::default());
    let child =
        policy("child", &["*"], &[], false, &ToolLists::default()).with_ancestors_of(&parent);
    let denied = decide(&child, &call("Bash"), &facts()).because.unwrap();
    assert_eq!(denied.rule, "role::tools");
    assert!(denied.reason.starts_with("parent, which started you, may not: "), "{denied:?}");
}

#[test]
fn read_only_agent_cannot_write_by_tools_or_by_the_shell() {
    let reader = policy("reader", &["*"], &[], true, &ToolLists::default());
    for tool in ["Write", "Edit"] {
        assert_eq!(outcome(&reader, tool), Outcome::Deny, "{tool}");
    }
    assert_eq!(outcome(&reader, "Read"), Outcome::Allow);
    assert_eq!(outcome(&reader, "Bash"), Outcome::Allow);
    let payload =
        json!({"tool_name": "Bash", "tool_input": {"command": "echo x > a"}, "cwd": "/w"});
    let writes = Dialect::Claude.read(payload.to_string().as_bytes(), &[]).unwrap();
    let denied = decide(&reader, &writes, &facts());
    assert_eq!(denied.because.unwrap().rule, "template::read-only");
    let writer = policy("writer", &["*"], &[], false, &ToolLists::default());
    assert_eq!(decide(&writer, &writes, &facts()).outcome, Outcome::Allow);
}

/// Also without a sandbox: a search runs at the provider.
#[test]
fn read_only_agent_and_those_below_it_reach_no_network() {
    let reader = policy("reader", &["*"], &[], true, &ToolLists::default());
    let writer = policy("writer", &["*"], &[], false, &ToolLists::default());
    let below = writer.clone().with_ancestors_of(&reader);
    for name in ["WebFetch", "WebSearch", "CodeSearch"] {
        let payload = json!({"tool_name": name, "tool_input": {"query": "x"}, "cwd": "/w"});
        let call = Dialect::Claude.read(payload.to_string().as_bytes(), &[]).unwrap();
        let tool = Tool::named(name).unwrap();
        for restricted in [&reader, &below] {
            let denied = decide(restricted, &call, &facts()).because.unwrap();
            assert_eq!(denied.rule, "template::read-only", "{name}");
            assert!(!is_always_allowed(restricted, tool), "{name}");
        }
        assert_eq!(decide(&writer, &call, &facts()).outcome, Outcome::Allow, "{name}");
        assert!(is_always_allowed(&writer, tool), "{name}");
        // A limit on writes is not a limit on the network.
        let limit = Limit { owner: "t".into(), read_only: true, ..Limit::default() };
        let limited = Limits(vec![limit]).apply_to(writer.clone()).unwrap();
        assert!(is_always_allowed(&limited, tool), "{name}");
        // A tool that needs approval is not open, and neither is one that is missing in a list.
        let asks = policy("asks", &["*"], &[name], false, &ToolLists::default());
        let list = ToolLists { allow_list: None, deny_list: Some(vec![name.to_owned()]) };
        let denies = policy("denies", &["*"], &[], false, &list);
        assert!(!is_always_allowed(&asks, tool) && !is_always_allowed(&denies, tool), "{name}");
    }
}

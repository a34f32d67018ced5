//! The rules of OpenCode, with random files.

use std::cell::Cell;

use super::*;

type Rules = Vec<(String, String, &'static str)>;

const OFFERED: [&str; 16] = [
    "bash",
    "read",
    "glob",
    "list",
    "grep",
    "lsp",
    "write",
    "edit",
    "patch",
    "webfetch",
    "websearch",
    "task",
    "todowrite",
    "todoread",
    "question",
    "skill",
];
const KEYS: [&str; 15] = [
    "*",
    "bash",
    "read",
    "edit",
    "glob",
    "list",
    "task",
    "webfetch",
    "gov_*",
    "gov_say",
    "b*",
    "*e*",
    "skill",
    "external_directory",
    "unheard",
];
const PATTERNS: [&str; 7] = ["*", "git *", "rm -rf *", "src/**", "reviewer", "r*", "?"];
const ACTIONS: [&str; 4] = ["allow", "allow", "ask", "deny"];
/// Inputs for which a permission is needed: at least one for every pattern, and one that matches none.
const INPUTS: [&str; 8] =
    ["", "x", "git push", "rm -rf /", "src/a/b", "reviewer", "rest", "nothing of this kind"];

/// Matches character by character: slow, but simple.
fn glob(glob: &str, text: &str) -> bool {
    fn matches(glob: &[char], text: &[char]) -> bool {
        match (glob, text) {
            ([], []) => true,
            (['*', rest @ ..], _) => (0..=text.len()).any(|at| matches(rest, text.split_at(at).1)),
            (['?', rest @ ..], [_, more @ ..]) => matches(rest, more),
            ([one, rest @ ..], [other, more @ ..]) => one == other && matches(rest, more),
            ([], [_, ..]) | ([_, ..], []) => false,
        }
    }
    matches(&glob.chars().collect::<Vec<_>>(), &text.chars().collect::<Vec<_>>())
}

/// The rules of a sub-agent. If they do not name `task`, it cannot start others.
fn as_sub_agent(mut rules: Rules) -> Rules {
    if !rules.iter().any(|rule| rule.0 == "task") {
        rules.push(("task".to_owned(), "*".to_owned(), "deny"));
    }
    rules
}

/// The last rule that matches both.
fn evaluate(rules: &Rules, permission: &str, pattern: &str) -> &'static str {
    let last = rules.iter().rev().find(|rule| glob(&rule.0, permission) && glob(&rule.1, pattern));
    last.map_or("allow", |rule| rule.2)
}

fn permission(native: &str) -> &str {
    match native {
        "write" | "patch" => "edit",
        other => other,
    }
}

/// As the program merges them: a key keeps its first position and gets its last value.
fn merged(tools: &[(&'static str, bool)], keys: &[(&'static str, Value)]) -> Rules {
    let mut all: Vec<(&str, Value)> = Vec::new();
    let older = tools
        .iter()
        .map(|(tool, on)| (permission(tool), Value::One(if *on { "allow" } else { "deny" })));
    for (key, value) in older.chain(keys.iter().cloned()) {
        match all.iter_mut().find(|(name, _)| *name == key) {
            Some((_, old)) => *old = value,
            None => all.push((key, value)),
        }
    }
    let mut rules = Rules::new();
    for (key, value) in all {
        match value {
            Value::One(action) => rules.push((key.to_owned(), "*".to_owned(), action)),
            Value::Many(patterns) => rules.extend(
                patterns
                    .into_iter()
                    .map(|(pattern, action)| (key.to_owned(), pattern.to_owned(), action)),
            ),
        }
    }
    rules
}

#[derive(Debug, Clone)]
enum Value {
    One(&'static str),
    Many(Vec<(&'static str, &'static str)>),
}

fn allows(rules: &Rules, imported: &Imported, tool: &str) -> bool {
    let always = |name: &str| INPUTS.iter().all(|input| evaluate(rules, name, input) == "allow");
    if tool == "Agent"
        && let Some(agents) = &imported.template.allowed_subagents
        && !agents.is_empty()
    {
        return agents.iter().all(|agent| evaluate(rules, "task", agent.as_str()) == "allow");
    }
    if let Some(rest) = tool.strip_prefix("mcp__") {
        return always(&rest.replacen("__", "_", 1));
    }
    let natives = natives(&OFFERED, tool);
    match natives.is_empty() {
        true => always(tool),
        false => natives.iter().all(|native| always(permission(native))),
    }
}

fn distinct<V: Clone + std::fmt::Debug + 'static>(
    keys: &'static [&'static str],
    value: impl Strategy<Value = V> + 'static,
    max: usize,
) -> impl Strategy<Value = Vec<(&'static str, V)>> {
    let keys = subsequence(keys.to_vec(), 0..=max).prop_shuffle();
    (keys, prop::collection::vec(value, max))
        .prop_map(|(keys, values)| keys.into_iter().zip(values).collect())
}

fn yaml(mode: Option<&str>, tools: &[(&str, bool)], keys: &[(&str, Value)]) -> String {
    let mut head = mode.map(|mode| format!("mode: {mode}\n")).unwrap_or_default();
    if !tools.is_empty() {
        head += "tools:\n";
        for (tool, on) in tools {
            head += &format!("  \"{tool}\": {on}\n");
        }
    }
    if !keys.is_empty() {
        head += "permission:\n";
        for (key, value) in keys {
            match value {
                Value::One(action) => head += &format!("  \"{key}\": {action}\n"),
                Value::Many(patterns) => {
                    head += &format!("  \"{key}\":\n");
                    for (pattern, action) in patterns {
                        head += &format!("    \"{pattern}\": {action}\n");
                    }
                }
            }
        }
    }
    format!("---\ndescription: b\n{head}---\nDo.\n")
}

#[test]
fn import_allows_no_more_than_the_opencode_original() {
    let many = distinct(&PATTERNS, select(ACTIONS.to_vec()), 4)
        .prop_filter("a map without entries is nothing", |many| !many.is_empty());
    let value =
        prop_oneof![select(ACTIONS.to_vec()).prop_map(Value::One), many.prop_map(Value::Many)];
    const SWITCHES: [&str; 6] = ["*", "bash", "write", "edit", "read", "gov_*"];
    let tools = prop_oneof![
        2 => Just(Vec::new()),
        1 => distinct(&SWITCHES, any::<bool>(), 4)
    ];
    let modes = select(vec![None, Some("all"), Some("subagent"), Some("primary")]);
    let (allowed, starting) = (Cell::new(0), Cell::new(0));
    proptest!(|(mode in modes, tools in tools, keys in distinct(&KEYS, value, 6))| {
        let rules = merged(&tools, &keys);
        // An agent that can be either is limited to what it may do as a sub-agent.
        let rules = if mode == Some("primary") { rules } else { as_sub_agent(rules) };
        let imported = read(Format::Opencode, &yaml(mode, &tools, &keys));
        allowed.set(allowed.get() + check(&imported, |tool, _| allows(&rules, &imported, tool))?);
        starting.set(starting.get() + usize::from(import_allows(&imported, "Agent", Class::Other)));
    });
    assert!(allowed.get() > 500, "only {} tools were allowed by both", allowed.get());
    assert!(starting.get() > 5, "only {} imports can start other agents", starting.get());
}

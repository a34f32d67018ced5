//! Agent files in the real programs: they list what was assembled for them, and the importer allows no more than
//! they do, for random files.

use std::process::Command;

use bailiwick_kit::foreign::{Format, Options, import};
use bailiwick_model::Source;
use bailiwick_policy::tool::in_vocabulary;
use bailiwick_testkit::clis::Cli;
use bailiwick_testkit::random::Random;
use bailiwick_testkit::{Depth, Scratch};
use serde_json::Value;

use crate::BAILIWICK;

const SHIPPED: [&str; 5] =
    ["architect", "code-implementer", "critic", "security-auditor", "validator"];

/// The program in the repository, without the person's settings.
fn program(scratch: &Scratch, cli: Cli) -> Command {
    let home = scratch.place().join("home");
    std::fs::create_dir_all(&home).unwrap();
    let mut command = Command::new(cli.program());
    command.env_clear().env("HOME", &home).env("PATH", "/usr/bin:/bin").current_dir(scratch.root());
    for switch in [
        "OPENCODE_DISABLE_AUTOUPDATE",
        "OPENCODE_DISABLE_MODELS_FETCH",
        "OPENCODE_DISABLE_DEFAULT_PLUGINS",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
        "DISABLE_AUTOUPDATER",
    ] {
        command.env(switch, "1");
    }
    command.stdin(std::process::Stdio::null());
    command
}

/// The program's output, through a file: it may end before a pipe has delivered everything.
fn printed(scratch: &Scratch, command: &mut Command) -> String {
    let file = scratch.place().join("printed");
    command.stdout(std::fs::File::create(&file).unwrap()).status().unwrap();
    std::fs::read_to_string(&file).unwrap()
}

/// The rules of every agent, as `opencode agent list` prints them: a line with the name, then JSON.
fn opencode_agents(scratch: &Scratch) -> Vec<(String, Vec<Value>)> {
    let text = printed(scratch, program(scratch, Cli::OpenCode).args(["agent", "list"]));
    let mut agents: Vec<(String, String)> = Vec::new();
    for line in text.lines() {
        match line.split_once(" (") {
            Some((name, _)) if !line.starts_with(' ') => {
                agents.push((name.to_owned(), String::new()))
            }
            _ => {
                if let Some((_, json)) = agents.last_mut() {
                    json.push_str(line);
                }
            }
        }
    }
    let parse =
        |json: &str| serde_json::from_str(json).unwrap_or_else(|error| panic!("{error}: {json}"));
    agents.iter().map(|(name, json)| (name.clone(), parse(json))).collect()
}

/// The first message of Claude Code, before it calls a model, which does not exist.
fn claude_start_message(scratch: &Scratch, more: &[&str]) -> Value {
    let mut claude = program(scratch, Cli::Claude);
    claude.env("ANTHROPIC_API_KEY", "dummy").env("ANTHROPIC_BASE_URL", "http://127.0.0.1:9");
    claude.env("CLAUDE_CODE_MAX_RETRIES", "0");
    claude.args(["-p", "hi", "--output-format", "stream-json", "--verbose"]).args(more);
    let text = printed(scratch, &mut claude);
    serde_json::from_str(text.lines().next().unwrap()).unwrap()
}

#[test]
fn programs_list_the_agents_assembled_for_them() {
    let scratch = Scratch::repository();
    for (name, directory) in [("claude", ".claude/agents"), ("opencode", ".opencode/agents")] {
        let arguments = ["agents", "assemble", "--for", name, "--out", directory];
        scratch.run(BAILIWICK, &arguments).expect_code(0);
    }
    scratch.commit("agents");
    let listed: Vec<String> = opencode_agents(&scratch).into_iter().map(|(name, _)| name).collect();
    let start_message = claude_start_message(&scratch, &[]);
    for name in SHIPPED {
        assert!(listed.iter().any(|listed| listed == name), "opencode: {name} {listed:?}");
        let claude = start_message["agents"].as_array().unwrap();
        assert!(claude.contains(&Value::from(name)), "claude: {name} {claude:?}");
    }
}

const ENTRIES: [&str; 20] = [
    "Bash",
    "Bash(git *)",
    "BashOutput",
    "KillShell",
    "Read",
    "Glob",
    "Grep",
    "Write",
    "Edit",
    "MultiEdit",
    "LS",
    "NotebookEdit",
    "WebFetch",
    "Task",
    "Agent(a, b)",
    "CronList",
    "CronCreate",
    "SendMessage",
    "Skill",
    "mcp__gov",
];

#[test]
fn imported_claude_agent_has_no_more_tools_than_in_claude() {
    let scratch = Scratch::repository();
    scratch.commit("start");
    let mut random = Random::rotating("agents of Claude Code");
    let tools = |start_message: &Value| -> Vec<String> {
        let tools = start_message["tools"].as_array().unwrap().iter();
        tools.map(|tool| tool.as_str().unwrap().to_owned()).collect()
    };
    let mut offered = tools(&claude_start_message(&scratch, &[]));
    offered.extend(["Glob", "Grep"].map(str::to_owned));
    let (count, mut both) = (Depth::from_env().cases(100), 0);
    for number in 0..count {
        let mut head = format!("name: agent-{number}\ndescription: x\n");
        if number > 0 && !random.once_in(4) {
            let listed = random_list(&mut random, &ENTRIES, 12).join(", ");
            head += &format!("tools: \"{listed}\"\n");
        }
        if random.once_in(2) {
            let listed = random_list(&mut random, &ENTRIES, 3).join(", ");
            head += &format!("disallowedTools: \"{listed}\"\n");
        }
        let text = format!("---\n{head}---\nLook.\n");
        scratch.write(&format!(".claude/agents/{number}.md"), &text);
        let real = tools(&claude_start_message(&scratch, &["--agent", &format!("agent-{number}")]));
        let source = Source::new("a.md", text.as_str());
        let template = import(Format::Claude, &source, &Options::default()).unwrap().template;
        for native in &offered {
            let name = in_vocabulary(native);
            let has = |list: &Vec<String>| list.contains(&name);
            let listed = match &template.tools.allow_list {
                // Only agents that name these get them.
                None => !["Glob", "Grep"].contains(&name.as_str()),
                Some(list) => has(list),
            };
            if listed && !template.tools.deny_list.as_ref().is_some_and(has) {
                both += 1;
                // An agent with a shell searches with it.
                let by_shell =
                    ["Glob", "Grep"].contains(&name.as_str()) && real.contains(&"Bash".to_owned());
                assert!(
                    real.contains(native) || by_shell,
                    "{native}\n{text}\n{real:?}\n{template:?}"
                );
            }
        }
    }
    assert!(both > count, "only {both} tools were allowed by both");
}

const KEYS: [&str; 13] = [
    "*", "bash", "read", "edit", "glob", "list", "task", "webfetch", "gov_*", "b*", "*e*", "skill",
    "grep",
];
const PATTERNS: [&str; 6] = ["*", "git *", "rm *", "src/**", "r*", "7"];
const ACTIONS: [&str; 4] = ["allow", "allow", "ask", "deny"];
const INPUTS: [&str; 7] = ["x", "git push", "rm -rf /", "src/a/b", "rest", "7", "none of these"];
const TOOLS: [(&str, &[&str]); 10] = [
    ("Bash", &["bash"]),
    ("Read", &["read"]),
    ("Glob", &["glob", "list"]),
    ("Grep", &["grep"]),
    ("Write", &["edit"]),
    ("Edit", &["edit"]),
    ("WebFetch", &["webfetch"]),
    ("Agent", &["task"]),
    ("Skill", &["skill"]),
    ("mcp__*", &["gov_say", "other_tool"]),
];

fn pick(random: &mut Random, from: &'static [&'static str]) -> &'static str {
    from[random.below(from.len())]
}

/// A list without duplicates, in random order.
fn random_list(
    random: &mut Random,
    from: &'static [&'static str],
    max: usize,
) -> Vec<&'static str> {
    let mut chosen: Vec<&str> = Vec::new();
    for _ in 0..random.below(max + 1) {
        let one = pick(random, from);
        if !chosen.contains(&one) {
            chosen.push(one);
        }
    }
    chosen
}

fn random_agent(random: &mut Random) -> String {
    let mut head = "description: x\n".to_owned();
    if random.once_in(3) {
        head += "tools:\n  grep: true\n";
        for tool in random_list(random, &["*", "bash", "write", "edit", "read"], 3) {
            head += &format!("  \"{tool}\": {}\n", random.once_in(2));
        }
    }
    head += "permission:\n  lsp: allow\n";
    for key in random_list(random, &KEYS, 6) {
        // One invalid file hides all others, and this key does not accept patterns.
        if key == "webfetch" || random.once_in(2) {
            head += &format!("  \"{key}\": {}\n", pick(random, &ACTIONS));
            continue;
        }
        head += &format!("  \"{key}\":\n    \"q\": allow\n");
        for pattern in random_list(random, &PATTERNS, 4) {
            head += &format!("    \"{pattern}\": {}\n", pick(random, &ACTIONS));
        }
    }
    format!("---\n{head}---\nLook.\n")
}

fn glob_matches(glob: &[char], text: &[char]) -> bool {
    match (glob, text) {
        ([], []) => true,
        (['*', rest @ ..], _) => (0..=text.len()).any(|at| glob_matches(rest, text.split_at(at).1)),
        (['?', rest @ ..], [_, more @ ..]) => glob_matches(rest, more),
        ([one, rest @ ..], [other, more @ ..]) => one == other && glob_matches(rest, more),
        ([], [_, ..]) | ([_, ..], []) => false,
    }
}

fn matches(rule: &Value, key: &str, text: &str) -> bool {
    let glob: Vec<char> = rule[key].as_str().unwrap().chars().collect();
    glob_matches(&glob, &text.chars().collect::<Vec<_>>())
}

/// Whether the program's own rules allow a permission for every input.
fn always_allows(rules: &[Value], permission: &str) -> bool {
    INPUTS.iter().all(|input| {
        let applies = |rule: &&Value| {
            matches(rule, "permission", permission) && matches(rule, "pattern", input)
        };
        rules.iter().rev().find(applies).is_some_and(|rule| rule["action"] == "allow")
    })
}

#[test]
fn imported_opencode_agent_has_no_more_rights_than_in_opencode() {
    let scratch = Scratch::repository();
    let mut random = Random::rotating("agents of OpenCode");
    let count = Depth::from_env().cases(1000);
    let mut files = Vec::new();
    for number in 0..count {
        let (name, text) = (format!("agent-{number}"), random_agent(&mut random));
        scratch.write(&format!(".opencode/agents/{name}.md"), &text);
        files.push((name, text));
    }
    scratch.commit("agents");
    let listed = opencode_agents(&scratch);
    let mut both = 0;
    for (name, text) in files {
        let rules = listed.iter().find(|(listed, _)| *listed == name).map(|(_, rules)| rules);
        let rules = rules.unwrap_or_else(|| panic!("the agent is not listed:\n{text}"));
        let source = Source::new(format!(".opencode/agents/{name}.md"), text.as_str());
        let template = import(Format::Opencode, &source, &Options::default()).unwrap().template;
        for (tool, permissions) in TOOLS {
            let list = template.tools.allow_list.as_ref();
            let by_name = tool == "Agent" && template.allowed_subagents.is_some();
            if by_name || list.is_some_and(|list| !list.iter().any(|entry| entry == tool)) {
                continue;
            }
            both += 1;
            for permission in permissions {
                assert!(
                    always_allows(rules, permission),
                    "{tool}: {permission}\n{text}\n{template:?}"
                );
            }
        }
    }
    assert!(both > count, "only {both} tools were allowed by both");
}

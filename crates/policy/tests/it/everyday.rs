//! Decisions of the role `developer` about usual commands of people and agents: which are allowed, which
//! are denied and by which rule.

use bailiwick_policy::decide::{decide_effects, lookups};
use bailiwick_policy::dialects::Dialect;
use bailiwick_policy::facts::{Enforcement, Kind, ResolvedPath};
use bailiwick_policy::pattern::Patterns;
use bailiwick_policy::{Decision, Effects, Facts, Outcome, Policy};
use serde_json::json;

use crate::everyday_commands::{ALLOWED, DENIED, ORDINARY, UNREADABLE};

const ROOT: &str = "/w";
const DIRECTORIES: [&str; 8] =
    ["/w", "/w/src", "/w/docs", "/w/tests", "/w/scripts", "/tmp", "/home/me", "/"];
const FILES: [&str; 6] = [
    "/w/src/lib.rs",
    "/w/src/main.rs",
    "/w/docs/guide.md",
    "/w/tests/it.rs",
    "/w/Cargo.toml",
    "/w/README.md",
];

/// The role `developer` of the embedded kit.
pub(crate) fn developer() -> Policy {
    let bash = json!(["Bash"]);
    let writing = json!(["Edit", "Write", "NotebookEdit", "Bash"]);
    let rule = |capability: &str, gate: &str, tools: &serde_json::Value| json!({"capability": capability, "gate": gate, "tools": tools, "severity": "block"});
    let policy = json!({
        "format": 1, "role": "developer", "agent": "one",
        "tools": ["Read", "Write", "Edit", "NotebookEdit", "Glob", "Grep", "Bash", "TodoWrite"],
        "rules": [
            rule("policy::git-read-only", "gates::policy_git_read_only", &bash),
            rule("scope::files-whitelist", "gates::scope_files_whitelist", &writing),
            rule("scope::files-denylist", "gates::scope_files_denylist", &writing),
            rule("scope::no-rule-edits", "gates::scope_no_rule_edits", &writing),
            rule("safety::no-dep-bump", "gates::safety_no_dep_bump", &writing),
            rule("safety::no-mass-delete", "gates::safety_no_mass_delete", &bash),
        ],
        "whitelist": ["src/**", "docs/**", "tests/**", "scripts/**", "Dockerfile", "web/**"],
        "denylist": ["web/generated/**"],
        "temporary": ["/tmp", "/var/tmp"], "escalation": "ask-via-return",
    });
    let mut policy: Policy = serde_json::from_value(policy).unwrap();
    // The shipped capability has such a pattern beside its gate.
    let pattern = "^git (add|commit|push)( |$)".to_owned();
    policy.rules[0].patterns = Patterns::compile(&[pattern]).unwrap();
    policy
}

fn led(path: &str) -> ResolvedPath {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/').filter(|part| !part.is_empty() && *part != ".") {
        match part {
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    let path = format!("/{}", parts.join("/"));
    let kind = if DIRECTORIES.contains(&path.as_str()) {
        Kind::Directory
    } else if FILES.contains(&path.as_str()) {
        Kind::File
    } else {
        Kind::Missing
    };
    ResolvedPath { entry: path.clone(), real: path, kind }
}

/// Looks up the facts for a call in a small virtual file system.
fn facts(call: &bailiwick_policy::Call, effects: &Effects, enforcement: Enforcement) -> Facts {
    let mut facts = Facts {
        root: ROOT.to_owned(),
        home: Some("/home/me".to_owned()),
        directory: Some(ROOT.to_owned()),
        enforcement,
        ..Facts::default()
    };
    let wanted = lookups(call, effects, &facts);
    for path in wanted.paths {
        facts.paths.insert(path.clone(), led(&path));
    }
    for (glob, _) in wanted.globs {
        let directory = glob.split(['*', '?', '[']).next().unwrap_or_default();
        let directory = directory.rsplit_once('/').map_or("", |(directory, _)| directory);
        facts.globs.insert(glob.clone(), Some(vec![led(&format!("{directory}/lib.rs"))]));
    }
    for tree in wanted.trees {
        facts.trees.insert(tree, Some(vec!["a.rs".to_owned(), "b.rs".to_owned()]));
    }
    facts
}

pub(crate) fn decided(policy: &Policy, command: &str, enforcement: Enforcement) -> Decision {
    let payload = json!({"tool_name": "Bash", "tool_input": {"command": command}, "cwd": ROOT});
    judged(policy, &payload, enforcement)
}

/// The decision of a policy about a call of Claude Code.
pub(crate) fn judged(
    policy: &Policy,
    payload: &serde_json::Value,
    enforcement: Enforcement,
) -> Decision {
    let call = Dialect::Claude.read(payload.to_string().as_bytes(), &[]).unwrap();
    let effects = Effects::of(&call);
    let facts = facts(&call, &effects, enforcement);
    decide_effects(policy, &call, &effects, &facts)
}

fn reason(decision: &Decision) -> String {
    decision.because.as_ref().map_or_else(String::new, |because| {
        format!("{}: {} ({})", because.rule, because.reason, because.instead)
    })
}

fn assert_none(failures: &[String]) {
    assert!(failures.is_empty(), "{} fail:\n{}", failures.len(), failures.join("\n"));
}

fn denied_commands<'a>(
    commands: impl IntoIterator<Item = &'a str>,
    enforcement: Enforcement,
) -> Vec<String> {
    let policy = developer();
    let decide = |command: &'a str| (command, decided(&policy, command, enforcement));
    let denied = commands.into_iter().map(decide);
    denied
        .filter(|(_, decision)| decision.outcome != Outcome::Allow)
        .map(|(command, decision)| format!("{command}\n    {}", reason(&decision)))
        .collect()
}

#[test]
fn ordinary_commands_are_allowed() {
    assert_none(&denied_commands(ORDINARY.iter().copied(), Enforcement::TextOnly));
}

#[test]
fn commands_that_only_look_dangerous_are_allowed() {
    assert_none(&denied_commands(ALLOWED.iter().copied(), Enforcement::TextOnly));
}

#[test]
fn forbidden_command_is_denied_by_the_right_rule() {
    let policy = developer();
    let mut failures = Vec::new();
    for (command, rule, word) in DENIED.iter().copied() {
        for enforcement in [Enforcement::TextOnly, Enforcement::Kernel] {
            let decision = decided(&policy, command, enforcement);
            let because = reason(&decision);
            let named = because.starts_with(rule) && because.contains(word);
            if decision.outcome != Outcome::Deny || !named {
                failures.push(format!("{command}\n    {because}"));
            }
        }
    }
    assert_none(&failures);
}

#[test]
fn unreadable_command_is_denied_unless_the_kernel_enforces_limits() {
    assert_none(&denied_commands(UNREADABLE.iter().copied(), Enforcement::Kernel));
    let denied = denied_commands(UNREADABLE.iter().copied(), Enforcement::TextOnly);
    assert_eq!(denied.len(), UNREADABLE.len(), "{}", denied.join("\n"));
}

#[test]
fn program_allowlist_denies_unreadable_commands_everywhere() {
    let mut policy = developer();
    policy.shell = Some(Patterns::compile(&["^cargo( |$)".to_owned()]).unwrap());
    for enforcement in [Enforcement::TextOnly, Enforcement::Kernel] {
        let allowed = decided(&policy, "cargo test", enforcement);
        assert_eq!(allowed.outcome, Outcome::Allow);
        // A redirection to an unknown path is not a program.
        for command in UNREADABLE.iter().copied().filter(|command| !command.contains("echo x >")) {
            let decision = decided(&policy, command, enforcement);
            assert_eq!(decision.outcome, Outcome::Deny, "{command}");
        }
        let decision = decided(&policy, "$x push", enforcement);
        assert!(
            reason(&decision).contains("role::bash-patterns-allowed")
                || enforcement == Enforcement::TextOnly
        );
    }
}

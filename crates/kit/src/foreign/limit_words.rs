//! Decides whether an unknown key may be meant as a limit, by its words and its value.
//!
//! A key that counts as a limit is refused, and a person can remove it; a description becomes metadata and limits
//! nobody. So in doubt, a key is a limit.

use super::node::Node;

/// A key with one of these anywhere in it, however it is written.
const ANYWHERE: [&str; 16] = [
    "permission",
    "permit",
    "forbid",
    "prohibit",
    "restrict",
    "sandbox",
    "readonly",
    "disallow",
    "allowed",
    "allowlist",
    "denylist",
    "blocklist",
    "whitelist",
    "blacklist",
    "guardrail",
    "toolset",
];

/// A key with a word that starts like this.
const BEGINNINGS: [&str; 14] = [
    "allow",
    "deny",
    "denie",
    "approv",
    "limit",
    "max",
    "timeout",
    "disabl",
    "exclu",
    "confin",
    "constrain",
    "privilege",
    "isolat",
    "confirm",
];

/// A key with one of these as a whole word: longer words mean something else (`blockchain`, `toolchain`).
const WORDS: [&str; 38] = [
    "tool",
    "tools",
    "scope",
    "scopes",
    "scoped",
    "only",
    "no",
    "never",
    "without",
    "access",
    "network",
    "internet",
    "offline",
    "egress",
    "firewall",
    "hosts",
    "block",
    "blocks",
    "blocked",
    "budget",
    "budgets",
    "quota",
    "quotas",
    "cap",
    "caps",
    "deadline",
    "ask",
    "consent",
    "hook",
    "hooks",
    "policy",
    "policies",
    "rule",
    "rules",
    "boundary",
    "boundaries",
    "safe",
    "safety",
];

/// Together with `tool`, these are descriptions: `tool_type`, `primary_tool`.
const ABOUT_A_TOOL: [&str; 9] =
    ["tool", "tools", "type", "primary", "name", "category", "kind", "version", "homepage"];

/// What `false` forbids.
const RIGHTS: [&str; 16] = [
    "enable", "enabled", "active", "write", "writes", "writable", "edit", "edits", "editable",
    "bash", "shell", "execute", "web", "delete", "commit", "push",
];

/// Units of a numeric limit.
const COUNTED: [&str; 12] = [
    "turns",
    "steps",
    "iterations",
    "retries",
    "rounds",
    "calls",
    "minutes",
    "seconds",
    "hours",
    "tokens",
    "depth",
    "cost",
];

/// Values that revoke a right, under any key.
const CLOSED: [&str; 6] = ["deny", "denied", "forbidden", "ask", "readonly", "disabled"];

/// Tables that describe requirements, inputs or outputs.
const DESCRIPTIONS: [&str; 9] = [
    "requires",
    "dependencies",
    "prerequisites",
    "setup",
    "inputs",
    "outputs",
    "arguments",
    "args",
    "triggers",
];

/// Whether a key with this value may be a limit.
pub(super) fn may_be_limit(key: &str, value: &Node) -> bool {
    let words = words(key);
    named(&words) || valued(&words, value) || nested(key, value)
}

fn named(words: &[String]) -> bool {
    let about_a_tool =
        words.len() > 1 && words.iter().all(|word| ABOUT_A_TOOL.contains(&word.as_str()));
    let whole = words.concat();
    let listed = |word: &String| {
        WORDS.contains(&word.as_str()) || BEGINNINGS.iter().any(|part| word.starts_with(part))
    };
    !about_a_tool && (ANYWHERE.iter().any(|part| whole.contains(part)) || words.iter().any(listed))
}

fn valued(words: &[String], value: &Node) -> bool {
    let any = |list: &[&str]| words.iter().any(|word| list.contains(&word.as_str()));
    match value {
        Node::Bool(false) => any(&RIGHTS),
        Node::Number(_) => any(&COUNTED),
        Node::Text(text) => CLOSED.contains(&self::words(text).concat().as_str()),
        Node::Null | Node::Bool(true) | Node::List(_) | Node::Map(_) => false,
    }
}

fn nested(key: &str, value: &Node) -> bool {
    match value {
        _ if DESCRIPTIONS.contains(&key) => false,
        Node::Map(entries) => entries.iter().any(|(key, value)| may_be_limit(key, value)),
        Node::List(nodes) => nodes.iter().any(|node| match node {
            Node::Map(_) | Node::List(_) => nested(key, node),
            Node::Null | Node::Bool(_) | Node::Number(_) | Node::Text(_) => false,
        }),
        Node::Null | Node::Bool(_) | Node::Number(_) | Node::Text(_) => false,
    }
}

/// The lowercase words of a name: `maxToolCalls` and `max-tool_calls` have the same.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut before = ' ';
    for letter in name.chars() {
        let begins = letter.is_uppercase() && before.is_lowercase();
        if begins || !letter.is_alphanumeric() {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut().filter(|_| letter.is_alphanumeric()) {
            word.extend(letter.to_lowercase());
        }
        before = letter;
    }
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(value: &str) -> Node {
        Node::Text(value.to_owned())
    }

    #[test]
    fn keys_that_narrow_rights_are_limits_in_any_spelling() {
        for key in [
            "tool-set",
            "toolsets",
            "allowedtools",
            "allowed_tools",
            "allowedPaths",
            "disallowed-commands",
            "permissions",
            "subagentpermissions",
            "deny",
            "denies",
            "read-only",
            "readOnly",
            "readonly",
            "write-scope",
            "scope",
            "local_only",
            "no-network",
            "never",
            "network",
            "internet_access",
            "sandbox_mode",
            "restrictTo",
            "blocked-commands",
            "excludePaths",
            "maxToolCalls",
            "max_tokens",
            "token-budget",
            "rate-limit",
            "timeout_mins",
            "requires-approval",
            "confirmBefore",
            "disable_model_invocation",
            "hooks",
            "policy",
            "guardrails",
            "constraints",
            "isolation",
        ] {
            assert!(may_be_limit(key, &text("x")), "{key}");
        }
    }

    #[test]
    fn values_that_remove_a_right_are_limits() {
        for (key, value) in [
            ("enabled", Node::Bool(false)),
            ("bash", Node::Bool(false)),
            ("mode", text("read-only")),
            ("edit", text("deny")),
            ("bash", text("ask")),
            ("turns", Node::Number("5".to_owned())),
            ("config", Node::Map(vec![("tools".to_owned(), Node::List(Vec::new()))])),
        ] {
            assert!(may_be_limit(key, &value), "{key}: {value:?}");
        }
    }

    #[test]
    fn descriptive_keys_are_not_limits() {
        for key in [
            "origin",
            "capabilities",
            "primary_tool",
            "tool_type",
            "toolchain",
            "blockchain",
            "accessibility",
            "shallow",
            "difficulty",
            "estimated_time",
            "domain",
            "mode",
            "platforms",
            "when_not_to_use",
            "user_invocable",
            "secretary",
            "activation_triggers",
            "required_credential_files",
        ] {
            assert!(!may_be_limit(key, &text("x")), "{key}");
        }
        let needs = Node::Map(vec![("tools".to_owned(), Node::List(vec![text("jq")]))]);
        assert!(!may_be_limit("requires", &needs));
        assert!(!may_be_limit("enabled", &Node::Bool(true)));
        assert!(!may_be_limit("steps", &Node::List(vec![text("first")])));
    }
}

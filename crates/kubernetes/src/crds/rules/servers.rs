//! MCP servers.

use bailiwick_resources::{MAX_VALUES, reserved_variable_pattern};

use super::{Limit, Limits, NOT_BLANK, holds, some};

/// The maximum length of a variable or header.
const MAX_NAME: i64 = 128;

pub(super) fn mcp_server() -> Limits {
    let stdio = "self.transport == 'stdio'";
    let mut limits = vec![
        ("scope", Limit::Only(["global", "repository", "stack"].map(Into::into).into())),
        ("command", Limit::Pattern(NOT_BLANK)),
        ("url", Limit::Pattern("^https?://")),
        (
            "",
            holds(
                format!("!({stdio}) || has(self.command)"),
                "a server of stdio needs a `command`",
            ),
        ),
        (
            "",
            holds(
                format!("!({stdio}) || (!has(self.url) && !{})", some("self.headersFrom")),
                "a server of stdio has neither `url` nor `headersFrom`",
            ),
        ),
        (
            "",
            holds(
                format!("{stdio} || has(self.url)"),
                "a server on the network needs a `url` with http:// or https://",
            ),
        ),
        (
            "",
            holds(
                format!("{stdio} || (!has(self.command) && !{})", some("self.envFrom")),
                "a server on the network has neither `command` nor `envFrom`: use headersFrom",
            ),
        ),
        (
            "",
            holds(
                format!("self.scope != 'repository' || {}", some("self.allowedRepositories")),
                "the scope `repository` needs `allowedRepositories`",
            ),
        ),
        (
            "",
            holds(
                format!("self.scope != 'stack' || {}", some("self.allowedAgentStacks")),
                "the scope `stack` needs `allowedAgentStacks`",
            ),
        ),
        ("requiredTools[]", Limit::Pattern("^[A-Za-z0-9_.-]+$")),
        ("allowedTools[]", Limit::Pattern("^[A-Za-z0-9_.*?-]+$")),
        ("deniedTools[]", Limit::Pattern("^[A-Za-z0-9_.*?-]+$")),
    ];
    for field in ["requiredTools[]", "allowedTools[]", "deniedTools[]"] {
        let message = "write a tool without `mcp__`";
        limits.push((field, holds("!self.startsWith('mcp__')", message)));
    }
    let lists = [
        ("envFrom", "envFrom[]", "envFrom[].name", "^[A-Z_][A-Z0-9_]*$"),
        ("headersFrom", "headersFrom[]", "headersFrom[].name", "^[A-Za-z0-9_-]+$"),
    ];
    for (list, item, name, pattern) in lists {
        limits.push((list, Limit::UniqueBy("name")));
        limits.push((list, Limit::AtMost(i64::try_from(MAX_VALUES).unwrap_or(i64::MAX))));
        limits.push((item, one_source()));
        limits.push((name, Limit::Pattern(pattern)));
        limits.push((name, Limit::AtMost(MAX_NAME)));
        let rule = format!("!self.matches('{}')", reserved_variable_pattern());
        let message = "the name means something to the programs around the agent";
        limits.push((name, holds(rule, message)));
    }
    limits
}

fn one_source() -> Limit {
    let rule = "has(self.secretRef) != has(self.configMapRef)";
    holds(rule, "write either `secretRef` or `configMapRef`")
}

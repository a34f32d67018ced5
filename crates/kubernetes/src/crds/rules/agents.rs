//! What an agent is made of.

use bailiwick_resources::{ApprovalReason, ToolClass, WriteBackTarget};
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::Value;

use super::{Limit, Limits, MAX_U32, NOT_BLANK, OUTSIDE, holds, some};

/// The maximum number of bytes of a label's text.
const MAX_FRAGMENT: i64 = 16 * 1024;
/// The name of a role in the kit.
const ROLE: &str = "^[a-z][a-z0-9-]{0,63}$";
/// A package with the digest of its content.
const PACKAGE: &str = "^[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}@sha256:[0-9a-f]{64}$";

/// The words of an enumeration, as they are written.
pub(super) fn words<T: JsonSchema>() -> Vec<String> {
    let schema = SchemaGenerator::default().into_root_schema_for::<T>();
    let choices = schema.get("oneOf").and_then(Value::as_array).cloned().unwrap_or_default();
    let word = |choice: &Value| choice.get("const")?.as_str().map(str::to_owned);
    choices.iter().filter_map(word).collect()
}

/// What a run may write back, and how.
pub(super) fn write_back(at: &'static str) -> (&'static str, Limit) {
    (at, Limit::Keys(words::<WriteBackTarget>()))
}

pub(super) fn stack() -> Limits {
    let own = "(!has(self.adapter) || self.adapter == '' || self.adapter == self.baseAgent)";
    let logins = ["api-key", "subscription", "bedrock", "vertex"].map(Value::from);
    let providers = ["anthropic", "openai", "google", "bedrock", "vertex"].map(Value::from);
    vec![
        ("role", Limit::Pattern(ROLE)),
        ("runtimeIdentity.serviceAccountRef", Limit::NotEmpty),
        ("login", Limit::Only(logins.into())),
        ("provider", Limit::Only(providers.into())),
        ("agentsDocRef.path", Limit::NotEmpty),
        (
            "agentsDocRef.path",
            holds(format!("!self.matches('{OUTSIDE}')"), "write a path inside of the repository"),
        ),
        write_back("writeBackPolicy.modes"),
        ("", Limit::AlsoCalled { field: "toolPolicy", also: "toolProfileRef" }),
        ("", Limit::AlsoCalled { field: "workspacePolicy", also: "workspacePolicyRef" }),
        (
            "",
            holds(
                "!(self.baseAgent in ['babysitter', 'agent-mux-remote', 'external']) || \
                 (has(self.adapter) && self.adapter != '')",
                "this base agent needs `adapter`: an agent manifest of the settings",
            ),
        ),
        (
            "",
            holds(
                format!(
                    "!has(self.provider) || ({own} && self.baseAgent in {{'anthropic': ['claude-code'], \
                     'openai': ['codex', 'opencode'], 'google': ['gemini'], \
                     'bedrock': ['claude-code'], 'vertex': ['claude-code']}}[self.provider])"
                ),
                "the base agent does not work with this provider",
            ),
        ),
        (
            "",
            holds(
                "!has(self.provider) || !has(self.login) || self.login in \
                 {'anthropic': ['api-key', 'subscription'], 'openai': ['api-key'], \
                 'google': ['api-key'], 'bedrock': ['bedrock'], \
                 'vertex': ['vertex']}[self.provider]",
                "the login does not go with the provider",
            ),
        ),
        (
            "",
            holds(
                format!(
                    "!{} || (self.baseAgent == 'script' && \
                     (!has(self.adapter) || self.adapter == ''))",
                    some("self.script")
                ),
                "only the base agent `script` without an adapter has a script",
            ),
        ),
    ]
}

pub(super) fn subagent() -> Limits {
    let calls = ApprovalReason::ToolCall;
    vec![
        ("rolePrompt", Limit::Pattern(NOT_BLANK)),
        ("taskKinds", Limit::NotEmpty),
        ("maxParallelTasks", Limit::Range(1.0, MAX_U32)),
        (
            "approvalPolicy.requireFor[]",
            Limit::Only(serde_json::to_value(calls).into_iter().collect()),
        ),
    ]
}

pub(super) fn tool_profile() -> Limits {
    vec![
        ("nativeTools", Limit::Keys(words::<ToolClass>())),
        ("approvalPolicyByTool", Limit::Keys(words::<ToolClass>())),
        ("networkPolicy", Limit::AlsoCalled { field: "mode", also: "default" }),
        (
            "networkPolicy",
            holds(
                format!(
                    "{} == ((has(self.mode) && self.mode == 'allowlist') || \
                     (has(self.default) && self.default == 'allowlist'))",
                    some("self.allowHosts")
                ),
                "hosts belong to mode `allowlist`, and it needs at least one",
            ),
        ),
    ]
}

pub(super) fn skill() -> Limits {
    // `package` is a word of CEL.
    let path = "has(self.sourceRef.path)";
    let package = "has(self.sourceRef.__package__)";
    let inline = "has(self.sourceRef.inline)";
    vec![
        ("sourceRef.package", Limit::Pattern(PACKAGE)),
        (
            "sourceRef.path",
            holds(format!("!self.matches('{OUTSIDE}')"), "write a path inside of the repository"),
        ),
        (
            "",
            holds(
                format!(
                    "self.format == 'package' ? {package} && !{path} && !{inline} : \
                     self.format == 'inline' ? {inline} && !{path} && !{package} : \
                     {path} && !{package} && !{inline}"
                ),
                "write the source of this format and no other: `path` for file and directory, \
                 `package` or `inline`",
            ),
        ),
    ]
}

pub(super) fn context_label() -> Limits {
    vec![
        ("promptFragment", Limit::Pattern(NOT_BLANK)),
        ("promptFragment", Limit::AtMost(MAX_FRAGMENT)),
        (
            "promptFragment",
            holds(format!("bytes(self).size() <= {MAX_FRAGMENT}"), "it is longer than 16384 bytes"),
        ),
        ("allowedSources", Limit::NotEmpty),
    ]
}

//! Claude Code: what its gate does not allow in words, its mode `dontAsk` denies.
//!
//! In a run, it asks its gate on its own standard streams: without a process per call, and without anything that an
//! agent could kill or impersonate.

mod arguments;
mod control_protocol;
mod reader;

use std::collections::BTreeMap;
use std::path::Path;

use bailiwick_lifecycle::supervision::{CliBehaviour, IncompleteCalls};
use bailiwick_model::task::Login;
use bailiwick_policy::dialects::Dialect;
use serde_json::{Value, json};

use super::adapter::{
    Adapter, Assignment, Capabilities, ControlProtocol, Gate, Input, LoginNeeds, PlanError,
    ProgramLaunch, Reader,
};
use super::gate_setup::{
    MCP_START_TIMEOUT_SECONDS, OURS, PLACEHOLDER, environment, gate_argv, hook_timeout,
};
use super::help::{self, list};
use super::texts::{joined, pretty, skill_files};
use crate::proxy::ModelApi;

pub(super) use reader::ClaudeReader;

const NAME: &str = "claude-code";
pub(super) const STATE: &str = ".claude.json";
/// What its shells read before every command of a session, in a directory per session.
pub(super) const SESSION_ENV: &str = ".claude/session-env";
const EFFORTS: [&str; 5] = ["low", "medium", "high", "xhigh", "max"];

/// Its own short names, some with the long window; what the models are called in full, here and at Amazon.
const MODELS: [&str; 11] = [
    "fable",
    "haiku",
    "opus",
    "sonnet",
    "fable[1m]",
    "opus[1m]",
    "sonnet[1m]",
    "opusplan",
    "claude-*",
    "*anthropic.claude-*",
    "arn:aws*:bedrock:*",
];

/// Its tools, as in `--tools`.
const TOOLS: [&str; 28] = [
    "Agent",
    "Bash",
    "CronCreate",
    "CronDelete",
    "CronList",
    "Edit",
    "EnterWorktree",
    "ExitWorktree",
    "Glob",
    "Grep",
    "LSP",
    "NotebookEdit",
    "Read",
    "ReportFindings",
    "ScheduleWakeup",
    "SendMessage",
    "Skill",
    "TaskCreate",
    "TaskGet",
    "TaskList",
    "TaskOutput",
    "TaskStop",
    "TaskUpdate",
    "TodoWrite",
    "WebFetch",
    "WebSearch",
    "Workflow",
    "Write",
];

/// Flags that a launch depends on. `--max-turns` is not in its help.
const FLAGS: [&str; 15] = [
    "--agents",
    "--append-system-prompt",
    "--effort",
    "--input-format",
    "--max-budget-usd",
    "--mcp-config",
    "--model",
    "--output-format",
    "--permission-mode",
    "--resume",
    "--session-id",
    "--setting-sources",
    "--settings",
    "--strict-mcp-config",
    "--tools",
];

/// Claude Code.
#[derive(Debug, Clone, Copy, Default)]
pub struct ClaudeCode;

impl Adapter for ClaudeCode {
    fn name(&self) -> &str {
        NAME
    }

    fn program(&self) -> &str {
        "claude"
    }

    fn dialect(&self) -> Option<Dialect> {
        Some(Dialect::Claude)
    }

    fn model_api(&self) -> Option<ModelApi> {
        Some(ModelApi::Anthropic)
    }

    fn side_models(&self) -> &[&str] {
        &["*claude*haiku*"]
    }

    fn request_names(&self, model: Option<&str>) -> Vec<String> {
        let family = |name: &str| format!("*claude*{name}*");
        let Some(model) = model else { return Vec::new() };
        match model.split_once('[').map_or(model, |(name, _)| name) {
            "default" | "best" | "inherit" => Vec::new(),
            "opusplan" => ["opus", "sonnet"].map(family).to_vec(),
            name @ ("fable" | "haiku" | "opus" | "sonnet") => vec![family(name)],
            name => vec![name.to_owned()],
        }
    }

    fn no_late_model_clients(&self) -> bool {
        true
    }

    fn behaviour(&self) -> CliBehaviour {
        CliBehaviour {
            hooks_have_call_ids: true,
            tools_without_hook: &[],
            // Results of its checks before the hooks: the tool, its parameters, and the tool's own validation.
            // Errors of a tool that has started (`Error calling tool`) are not among these.
            own_refusal_prefixes: &[
                "<tool_use_error>Error: No such tool available: ",
                "<tool_use_error>InputValidationError: ",
                "<tool_use_error>Unknown skill: ",
                "<tool_use_error>File has not been read yet. ",
                "<tool_use_error>File has been modified since read, ",
                "<tool_use_error>File does not exist. ",
                "<tool_use_error>String to replace not found in file.",
                "<tool_use_error>No changes to make: ",
                "<tool_use_error>Found ",
                "<tool_use_error>Cannot create new file - file already exists.",
                "<tool_use_error>File is a Jupyter Notebook. ",
            ],
            denial_marker: "",
            truncates_old_results: true,
            unfinished: IncompleteCalls::ReportsRun,
            reports_commands: false,
            code_mode: None,
        }
    }

    fn capabilities(&self, _version: &str, help: &str) -> Capabilities {
        Capabilities {
            models: list(&MODELS),
            efforts: help::choices(help, "--effort").unwrap_or_else(|| list(&EFFORTS)),
            model_efforts: BTreeMap::new(),
            resume: help::names(help, "--resume"),
            sub_agents: help::names(help, "--agents"),
            mcp: help::names(help, "--mcp-config"),
            system_prompt: help::names(help, "--append-system-prompt"),
            turn_limit: true,
            money_limit: help::names(help, "--max-budget-usd"),
            tool_lists: help::names(help, "--tools"),
            missing: help::missing(help, &FLAGS),
        }
    }

    fn login(&self, login: Login) -> Result<LoginNeeds, PlanError> {
        Ok(match login {
            Login::ApiKey => LoginNeeds { proxied: true, ..LoginNeeds::default() },
            Login::Subscription => LoginNeeds {
                variables: list(&["CLAUDE_CODE_OAUTH_TOKEN"]),
                files: list(&[".claude/.credentials.json"]),
                proxied: true,
            },
            Login::Bedrock => LoginNeeds {
                variables: list(&[
                    "AWS_ACCESS_KEY_ID",
                    "AWS_BEARER_TOKEN_BEDROCK",
                    "AWS_REGION",
                    "AWS_SECRET_ACCESS_KEY",
                    "AWS_SESSION_TOKEN",
                ]),
                proxied: true,
                ..LoginNeeds::default()
            },
            Login::Vertex => LoginNeeds {
                variables: list(&["ANTHROPIC_VERTEX_PROJECT_ID", "CLOUD_ML_REGION"]),
                files: list(&[".config/gcloud/application_default_credentials.json"]),
                proxied: true,
            },
        })
    }

    fn conversations(&self) -> Vec<String> {
        list(&[".claude/projects"])
    }

    fn plan(&self, assignment: &Assignment) -> Result<ProgramLaunch, PlanError> {
        if assignment.login == Login::Bedrock && !assignment.model.as_deref().is_some_and(at_amazon)
        {
            let why = "name its `model` as Bedrock does, such as `eu.anthropic.claude-…-v1:0`";
            return Err(PlanError::new(NAME, "be paid by bedrock", why));
        }
        let mut files = files(assignment);
        let arguments = arguments::all(assignment, &mut files)?;
        let environment = environment(NAME, variables(assignment), assignment)?;
        let input = match &assignment.gate {
            Some(gate) => {
                Input::ControlProtocol(control_protocol::beginning(gate, &assignment.prompt))
            }
            None => Input::Text(assignment.prompt.clone()),
        };
        let (mut fixed, mut open) = (fixed(), open());
        match arguments::session(assignment) {
            Some(id) => fixed.push(format!("{SESSION_ENV}/{id}")),
            None => open.push(SESSION_ENV.to_owned()),
        }
        Ok(ProgramLaunch { arguments, environment, files, fixed, open, input })
    }

    fn stdio_gate(&self) -> Option<Box<dyn ControlProtocol>> {
        Some(Box::new(control_protocol::ClaudeControl::default()))
    }

    fn reader(&self, worktree: &Path) -> Box<dyn Reader> {
        Box::new(ClaudeReader::new(worktree))
    }

    fn shell_call(&self, command: &str) -> (String, Value) {
        ("Bash".to_owned(), json!({"command": command, "description": "A shell command"}))
    }
}

/// The settings that bind it when a person starts it: the gate before every tool, and its announcement.
pub(super) fn settings(gate: Option<&Gate>) -> Value {
    let mut settings = json!({"disableAllHooks": false, "disableSkillShellExecution": true});
    if let (Some(gate), Some(fields)) = (gate, settings.as_object_mut()) {
        // No shell and no guard around it: anything but an explicit approval is a denial.
        let hook = |more: &[&str]| {
            let mut words = gate_argv(gate, Dialect::Claude, more);
            let program = words.next();
            let words: Vec<String> = words.collect();
            json!([{"type": "command", "command": program, "args": words, "timeout": hook_timeout(gate)}])
        };
        let asks = hook(&["--explicit-allow"]);
        let announces = hook(&["--announce"]);
        let hooks = json!({
            "PreToolUse": [{"matcher": "*", "hooks": asks}],
            "SessionStart": [{"hooks": announces}],
        });
        fields.insert("hooks".to_owned(), hooks);
    } else if let Some(fields) = settings.as_object_mut() {
        // Nobody can answer: without this, everything would be denied.
        fields.insert("permissions".to_owned(), json!({"allow": TOOLS}));
    }
    settings
}

/// The settings of a run: its gate uses the control protocol.
fn own_settings(gate: Option<&Gate>) -> Value {
    match gate {
        // Shell lines in skills would run without a question.
        Some(_) => json!({"disableAllHooks": false, "disableSkillShellExecution": true}),
        None => settings(None),
    }
}

/// All of its configuration. It reads its settings again when they change: added hooks and permissions count
/// immediately.
pub(super) fn fixed() -> Vec<String> {
    list(&[".claude", STATE, OURS])
}

/// What it writes there while it works, and does not obey. `shell-snapshots` and `session-env` are not included:
/// each of its shells reads them before it runs a command. It works without the former, and of the latter it needs
/// only the directory of its session.
pub(super) fn open() -> Vec<String> {
    let names = [
        "backups",
        "cache",
        "debug",
        "file-history",
        "paste-cache",
        "plans",
        "projects",
        "sessions",
        "statsig",
        "tasks",
        "teams",
        "todos",
    ];
    names.iter().map(|name| format!(".claude/{name}")).collect()
}

/// Its own texts are those of the user, which are ours; the worktree's are not read at all.
fn reads_home(assignment: &Assignment) -> bool {
    !assignment.instructions.is_empty() || !assignment.skills.is_empty()
}

fn files(assignment: &Assignment) -> BTreeMap<String, String> {
    let mut files = BTreeMap::from([
        (format!("{OURS}/settings.json"), pretty(&own_settings(assignment.gate.as_ref()))),
        // The same as user settings, in place of any that an agent could have left behind.
        (".claude/settings.json".to_owned(), pretty(&own_settings(assignment.gate.as_ref()))),
        // Its own state, which may contain servers and allowed tools.
        (STATE.to_owned(), "{}\n".to_owned()),
    ]);
    if !assignment.instructions.is_empty() {
        files.insert(".claude/CLAUDE.md".to_owned(), joined(&assignment.instructions));
    }
    files.extend(skill_files(".claude/skills", &assignment.skills));
    files
}

/// Whether a model has a name that it has at Amazon. What it is called elsewhere depends on the region.
fn at_amazon(model: &str) -> bool {
    model.contains("anthropic.") || model.starts_with("arn:")
}

/// It requires a region, and uses the proxy anyway.
const NO_REGION: &str = "us-east-1";

fn variables(assignment: &Assignment) -> Vec<(&'static str, String)> {
    let yes = || "1".to_owned();
    let mut variables = vec![
        ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", yes()),
        ("CLAUDE_CODE_MAX_RETRIES", "3".to_owned()),
        ("DISABLE_AUTOUPDATER", yes()),
    ];
    if !assignment.mcp_servers.is_empty() {
        // By default, it starts silently without servers that have not responded yet.
        let wait = || (MCP_START_TIMEOUT_SECONDS * 1000).to_string();
        variables.extend([
            ("MCP_CONNECTION_NONBLOCKING", "0".to_owned()),
            ("MCP_CONNECT_TIMEOUT_MS", wait()),
            ("MCP_TIMEOUT", wait()),
        ]);
    }
    let url = || ("ANTHROPIC_BASE_URL", assignment.model_url.clone());
    match assignment.login {
        Login::ApiKey => variables.extend([url(), ("ANTHROPIC_API_KEY", PLACEHOLDER.to_owned())]),
        // The proxy has the real one.
        Login::Subscription => {
            variables.extend([url(), ("CLAUDE_CODE_OAUTH_TOKEN", PLACEHOLDER.to_owned())]);
        }
        // The proxy knows the region and has the keys; the model has its name at Amazon.
        Login::Bedrock => {
            let model = assignment.model.clone().unwrap_or_default();
            variables.extend([
                ("CLAUDE_CODE_USE_BEDROCK", yes()),
                ("CLAUDE_CODE_SKIP_BEDROCK_AUTH", yes()),
                ("ANTHROPIC_BEDROCK_BASE_URL", assignment.model_url.clone()),
                ("ANTHROPIC_DEFAULT_HAIKU_MODEL", model),
                ("AWS_REGION", NO_REGION.to_owned()),
            ]);
        }
        // The proxy knows the project and has the token.
        Login::Vertex => variables.extend([
            ("CLAUDE_CODE_USE_VERTEX", yes()),
            ("CLAUDE_CODE_SKIP_VERTEX_AUTH", yes()),
            ("ANTHROPIC_VERTEX_BASE_URL", assignment.model_url.clone()),
            ("ANTHROPIC_VERTEX_PROJECT_ID", PLACEHOLDER.to_owned()),
            ("CLOUD_ML_REGION", PLACEHOLDER.to_owned()),
        ]),
    }
    variables
}

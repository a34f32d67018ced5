//! OpenCode: a plugin asks the gate, and announces itself as soon as it is loaded.

mod config;
mod conversation_cleanup;
mod plugin;
mod reader;

use std::collections::BTreeMap;
use std::path::Path;

use bailiwick_lifecycle::supervision::{CliBehaviour, IncompleteCalls};
use bailiwick_model::task::Login;
use bailiwick_policy::dialects::Dialect;
use serde_json::{Value, json};

use super::adapter::{
    Adapter, Assignment, Capabilities, Conversation, ConversationCleanup, Input, LoginNeeds,
    PlanError, ProgramLaunch, Reader,
};
use super::gate_setup::environment;
use super::help::{self, list};
use super::texts::{joined, pretty, skill_files};
use crate::proxy::ModelApi;

pub(super) use reader::OpenCodeReader;

const NAME: &str = "opencode";
const CONFIG: &str = ".config/opencode";
/// Another directory with settings and plugins.
const OTHER: &str = ".opencode";
/// The providers that it is logged in to. A provider can send settings with plugins.
const LOGINS: &str = ".local/share/opencode/auth.json";
const PROVIDER: &str = "bailiwick";
const MODEL: &str = "default";
/// Every provider has its own models; the default endpoint has those of OpenAI.
const MODELS: [&str; 2] = ["*/*", "gpt-*"];
const EFFORTS: [&str; 5] = ["minimal", "low", "medium", "high", "xhigh"];
const FLAGS: [&str; 3] = ["--format", "--model", "--session"];

/// Its tools, as in an agent's `tools`.
const TOOLS: [&str; 15] = [
    "apply_patch",
    "bash",
    "codesearch",
    "edit",
    "glob",
    "grep",
    "list",
    "lsp",
    "question",
    "read",
    "skill",
    "task",
    "todowrite",
    "webfetch",
    "write",
];

/// OpenCode.
#[derive(Debug, Clone, Copy, Default)]
pub struct OpenCode;

impl Adapter for OpenCode {
    fn name(&self) -> &str {
        NAME
    }

    fn program(&self) -> &str {
        "opencode"
    }

    fn dialect(&self) -> Option<Dialect> {
        Some(Dialect::OpenCode)
    }

    fn model_api(&self) -> Option<ModelApi> {
        Some(ModelApi::Chat)
    }

    fn no_late_model_clients(&self) -> bool {
        true
    }

    fn behaviour(&self) -> CliBehaviour {
        // A tool that it does not have reaches the plugin as `invalid`, by the name of the call.
        CliBehaviour {
            hooks_have_call_ids: true,
            tools_without_hook: &[],
            own_refusal_prefixes: &[],
            denial_marker: "",
            truncates_old_results: true,
            unfinished: IncompleteCalls::ReportsRun,
            reports_commands: false,
            code_mode: None,
        }
    }

    fn help_arguments(&self) -> Vec<String> {
        list(&["run", "--help"])
    }

    fn capabilities(&self, _version: &str, help: &str) -> Capabilities {
        Capabilities {
            models: list(&MODELS),
            efforts: list(&EFFORTS),
            model_efforts: BTreeMap::new(),
            resume: help::names(help, "--session"),
            sub_agents: true,
            mcp: true,
            system_prompt: true,
            // At its last step, it asks the model to stop, and continues if the model does not.
            turn_limit: false,
            money_limit: false,
            tool_lists: true,
            missing: help::missing(help, &FLAGS),
        }
    }

    fn login(&self, login: Login) -> Result<LoginNeeds, PlanError> {
        Ok(match login {
            Login::ApiKey => LoginNeeds { proxied: true, ..LoginNeeds::default() },
            Login::Subscription => LoginNeeds {
                files: list(&[".local/share/opencode/auth.json"]),
                ..LoginNeeds::default()
            },
            Login::Bedrock => LoginNeeds {
                variables: list(&[
                    "AWS_ACCESS_KEY_ID",
                    "AWS_BEARER_TOKEN_BEDROCK",
                    "AWS_REGION",
                    "AWS_SECRET_ACCESS_KEY",
                    "AWS_SESSION_TOKEN",
                ]),
                ..LoginNeeds::default()
            },
            Login::Vertex => LoginNeeds {
                variables: list(&["GOOGLE_CLOUD_PROJECT", "VERTEX_LOCATION"]),
                files: list(&[".config/gcloud/application_default_credentials.json"]),
                ..LoginNeeds::default()
            },
        })
    }

    fn conversations(&self) -> Vec<String> {
        list(&[".local/share/opencode"])
    }

    fn conversation_cleanup(&self) -> Option<ConversationCleanup> {
        Some(conversation_cleanup::cleanup())
    }

    fn plan(&self, assignment: &Assignment) -> Result<ProgramLaunch, PlanError> {
        let quiet = [
            // The worktree has no influence, neither by its settings nor by skills for other CLIs.
            "OPENCODE_DISABLE_PROJECT_CONFIG",
            "OPENCODE_DISABLE_CLAUDE_CODE",
            "OPENCODE_DISABLE_EXTERNAL_SKILLS",
            "OPENCODE_DISABLE_AUTOUPDATE",
            "OPENCODE_DISABLE_MODELS_FETCH",
            "OPENCODE_DISABLE_DEFAULT_PLUGINS",
        ];
        let mut quiet = quiet.map(|name| (name, "1".to_owned())).to_vec();
        // A service that it is logged in to can give it settings and plugins: there is none.
        quiet.push(("OPENCODE_AUTH_CONTENT", "{}".to_owned()));
        let mut arguments = list(&["run", "--format", "json", "--model"]);
        arguments.push(model(assignment)?);
        if let Conversation::Resume(id) = &assignment.session {
            arguments.extend(["--session".to_owned(), id.clone()]);
        }
        Ok(ProgramLaunch {
            arguments,
            environment: environment(NAME, quiet, assignment)?,
            files: files(assignment)?,
            fixed: list(&[CONFIG, OTHER, LOGINS]),
            open: Vec::new(),
            input: Input::Text(assignment.prompt.clone()),
        })
    }

    fn reader(&self, worktree: &Path) -> Box<dyn Reader> {
        Box::new(OpenCodeReader::new(worktree))
    }

    fn shell_call(&self, command: &str) -> (String, Value) {
        ("bash".to_owned(), json!({"command": command, "description": "A shell command"}))
    }
}

/// The model behind our proxy is one of a provider of ours; other logins name the provider themselves.
fn model(assignment: &Assignment) -> Result<String, PlanError> {
    let named = assignment.model.as_deref();
    match (assignment.login, named) {
        (Login::ApiKey, named) => Ok(format!("{PROVIDER}/{}", named.unwrap_or(MODEL))),
        (_, Some(model)) if model.contains('/') => Ok(model.to_owned()),
        (login, _) => {
            let what = format!("be paid by {}", login.as_str());
            Err(PlanError::new(
                NAME,
                what,
                "it then needs a model with its provider, as `provider/model`",
            ))
        }
    }
}

fn files(assignment: &Assignment) -> Result<BTreeMap<String, String>, PlanError> {
    let (mut files, mut others) = (BTreeMap::new(), BTreeMap::new());
    let mut put = |path: &str, text: String| files.insert(format!("{CONFIG}/{path}"), text);
    put("opencode.json", pretty(&config::all(assignment)?));
    if !assignment.instructions.is_empty() {
        put("AGENTS.md", joined(&assignment.instructions));
    }
    if let Some(text) = &assignment.system_prompt {
        put("system-prompt.md", text.clone());
    }
    if let Some(gate) = &assignment.gate {
        let servers: Vec<&str> = assignment.mcp_servers.keys().map(String::as_str).collect();
        put("plugin/bailiwick.js", plugin::text(gate, &servers));
        let Some(version) = help::number(&assignment.version) else {
            let why =
                "its plugin needs a package of the same version, and it does not say which it is";
            return Err(PlanError::new(NAME, "be gated", why));
        };
        for (path, text) in plugin::package(version) {
            put(&path, text.clone());
            others.insert(format!("{OTHER}/{path}"), text);
        }
    }
    // An agent of an earlier attempt may have left some.
    others.insert(LOGINS.to_owned(), "{}\n".to_owned());
    for place in [CONFIG, OTHER] {
        // It creates this if it is missing.
        others.insert(format!("{place}/.gitignore"), "*\n".to_owned());
    }
    files.extend(others);
    files.extend(skill_files(&format!("{CONFIG}/skill"), &assignment.skills));
    Ok(files)
}

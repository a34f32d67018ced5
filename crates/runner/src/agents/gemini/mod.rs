//! Gemini CLI: user settings, and a folder whose own settings it does not read.

mod reader;
mod settings;

use std::collections::BTreeMap;
use std::path::Path;

use bailiwick_lifecycle::supervision::{CliBehaviour, IncompleteCalls};
use bailiwick_model::task::{Login, SubAgent};
use bailiwick_policy::dialects::Dialect;
use serde_json::{Value, json};

use super::adapter::{
    Adapter, Assignment, Capabilities, Conversation, Input, LoginNeeds, PlanError, ProgramLaunch,
    Reader,
};
use super::gate_setup::{PLACEHOLDER, environment};
use super::help::{self, list};
use super::texts::{joined, pretty, skill_files, with_front_matter};
use super::tools;
use crate::proxy::ModelApi;

pub(super) use reader::GeminiReader;

const NAME: &str = "gemini";
const HOME: &str = ".gemini";
/// Directories from which it reads more than conversations.
const SET_UP: [&str; 6] =
    ["acknowledgments", "agents", "commands", "extensions", "policies", "skills"];
const MODELS: [&str; 11] = [
    "gemini-2.5-flash",
    "gemini-2.5-flash-lite",
    "gemini-2.5-pro",
    "gemini-3-flash-preview",
    "gemini-3-pro-preview",
    "gemini-3.1-flash-lite",
    "gemini-3.1-pro-preview",
    "gemini-3.1-pro-preview-customtools",
    "gemini-3.5-flash",
    "gemini-3.5-flash-lite",
    "gemini-3.8-flash",
];
/// The pattern of later models.
const FORM: &str = "gemini-*";
/// The setting for each effort: a level for Gemini 3, a number of tokens for earlier models.
const EFFORTS: [(&str, &str, u32); 4] = [
    ("minimal", "MINIMAL", 128),
    ("low", "LOW", 1024),
    ("medium", "MEDIUM", 8192),
    ("high", "HIGH", 24576),
];
const FLAGS: [&str; 6] =
    ["--approval-mode", "--model", "--output-format", "--resume", "--session-id", "--skip-trust"];

/// Its tools, as in `tools.core`.
const TOOLS: [&str; 17] = [
    "activate_skill",
    "ask_user",
    "enter_plan_mode",
    "glob",
    "google_web_search",
    "grep_search",
    "invoke_agent",
    "list_background_processes",
    "list_directory",
    "read_background_output",
    "read_file",
    "replace",
    "run_shell_command",
    "update_topic",
    "web_fetch",
    "write_file",
    "write_todos",
];

/// Gemini CLI.
#[derive(Debug, Clone, Copy, Default)]
pub struct Gemini;

impl Adapter for Gemini {
    fn name(&self) -> &str {
        NAME
    }

    fn program(&self) -> &str {
        "gemini"
    }

    fn dialect(&self) -> Option<Dialect> {
        Some(Dialect::Gemini)
    }

    fn model_api(&self) -> Option<ModelApi> {
        Some(ModelApi::Gemini)
    }

    fn side_models(&self) -> &[&str] {
        &["gemini-*flash*"]
    }

    fn request_names(&self, model: Option<&str>) -> Vec<String> {
        match model {
            // Left alone, it chooses between a large and a small one for each turn.
            None | Some("pro" | "auto" | "auto-gemini-3" | "auto-gemini-2.5") => {
                vec!["gemini-*pro*".to_owned()]
            }
            Some("flash" | "flash-lite") => vec!["gemini-*flash*".to_owned()],
            // It uses the variant for custom tools if there is one.
            Some(name) => vec![name.to_owned(), format!("{name}-customtools")],
        }
    }

    fn no_late_model_clients(&self) -> bool {
        true
    }

    fn behaviour(&self) -> CliBehaviour {
        CliBehaviour {
            hooks_have_call_ids: false,
            // It ends a sub-agent; the hook is not asked about it.
            tools_without_hook: &["complete_task"],
            own_refusal_prefixes: &[
                "Tool \"",
                "params must ",
                "params/",
                "Path not in workspace: ",
                "Command cannot be empty.",
                "Subagent '",
                "Skill \"",
            ],
            denial_marker: "Tool execution blocked: ",
            truncates_old_results: true,
            unfinished: IncompleteCalls::RunsUnlessBroken,
            reports_commands: false,
            code_mode: None,
        }
    }

    fn capabilities(&self, _version: &str, help: &str) -> Capabilities {
        Capabilities {
            models: [list(&MODELS), list(&[FORM])].concat(),
            efforts: EFFORTS.iter().map(|(effort, _, _)| (*effort).to_owned()).collect(),
            model_efforts: BTreeMap::new(),
            resume: help::names(help, "--resume"),
            sub_agents: true,
            mcp: true,
            system_prompt: true,
            turn_limit: true,
            money_limit: false,
            tool_lists: true,
            missing: help::missing(help, &FLAGS),
        }
    }

    fn login(&self, login: Login) -> Result<LoginNeeds, PlanError> {
        match login {
            Login::ApiKey => Ok(LoginNeeds { proxied: true, ..LoginNeeds::default() }),
            Login::Subscription => Ok(LoginNeeds {
                variables: list(&["GOOGLE_CLOUD_PROJECT"]),
                files: list(&[".gemini/google_accounts.json", ".gemini/oauth_creds.json"]),
                proxied: false,
            }),
            Login::Vertex => Ok(LoginNeeds {
                variables: list(&[
                    "GOOGLE_API_KEY",
                    "GOOGLE_CLOUD_LOCATION",
                    "GOOGLE_CLOUD_PROJECT",
                ]),
                files: list(&[".config/gcloud/application_default_credentials.json"]),
                proxied: false,
            }),
            Login::Bedrock => {
                let why = "it takes `api-key`, `subscription` and `vertex`";
                Err(PlanError::new(NAME, "be paid by bedrock", why))
            }
        }
    }

    fn conversations(&self) -> Vec<String> {
        list(&[".gemini/tmp", ".gemini/projects.json"])
    }

    fn plan(&self, assignment: &Assignment) -> Result<ProgramLaunch, PlanError> {
        self.login(assignment.login)?;
        let files = files(assignment)?;
        Ok(ProgramLaunch {
            arguments: arguments(assignment),
            environment: environment(NAME, variables(assignment), assignment)?,
            fixed: fixed(&files),
            open: Vec::new(),
            files,
            input: Input::Text(assignment.prompt.clone()),
        })
    }

    fn reader(&self, worktree: &Path) -> Box<dyn Reader> {
        Box::new(GeminiReader::new(worktree))
    }

    fn shell_call(&self, command: &str) -> (String, Value) {
        (
            "run_shell_command".to_owned(),
            json!({"command": command, "description": "A shell command"}),
        )
    }
}

fn arguments(assignment: &Assignment) -> Vec<String> {
    // `yolo`: without somebody to ask, any other mode takes tools away, and the gate decides anyway.
    let mut arguments =
        list(&["--output-format", "stream-json", "--approval-mode", "yolo", "--skip-trust"]);
    let mut add = |flag: &str, value: &str| arguments.extend(list(&[flag, value]));
    if let Some(model) = &assignment.model {
        add("--model", model);
    }
    match &assignment.session {
        Conversation::New(id) => add("--session-id", id),
        Conversation::Resume(id) => add("--resume", id),
    }
    arguments
}

fn variables(assignment: &Assignment) -> Vec<(&'static str, String)> {
    // Otherwise it starts itself a second time, with more memory.
    let mut variables = vec![("GEMINI_CLI_NO_RELAUNCH", "true".to_owned())];
    match assignment.login {
        Login::ApiKey => variables.extend([
            ("GOOGLE_GEMINI_BASE_URL", assignment.model_url.clone()),
            ("GEMINI_API_KEY", PLACEHOLDER.to_owned()),
        ]),
        Login::Vertex => variables.push(("GOOGLE_GENAI_USE_VERTEXAI", "true".to_owned())),
        Login::Subscription | Login::Bedrock => {}
    }
    variables
}

fn files(assignment: &Assignment) -> Result<BTreeMap<String, String>, PlanError> {
    let mut files = BTreeMap::new();
    files.insert(".gemini/settings.json".to_owned(), pretty(&settings::all(assignment)?));
    // It trusts no folders, and has no variables.
    for name in ["trustedFolders.json", "trusted_hooks.json", "policy_integrity.json"] {
        files.insert(format!("{HOME}/{name}"), "{}\n".to_owned());
    }
    files.extend([(format!("{HOME}/.env"), String::new()), (".env".to_owned(), String::new())]);
    // Both are part of its system prompt, in this order.
    let first = assignment.system_prompt.clone().unwrap_or_default();
    let instructions = [first, joined(&assignment.instructions)].join("\n");
    if !instructions.trim().is_empty() {
        files.insert(".gemini/GEMINI.md".to_owned(), instructions.trim_start().to_owned());
    }
    files.extend(skill_files(".gemini/skills", &assignment.skills));
    for agent in &assignment.sub_agents {
        files.insert(format!(".gemini/agents/{}.md", agent.name), role(agent));
    }
    Ok(files)
}

/// It creates files beside its settings, so each settings file is frozen separately.
fn fixed(files: &BTreeMap<String, String>) -> Vec<String> {
    let directories = SET_UP.iter().map(|name| format!("{HOME}/{name}"));
    let beside = |path: &&String| Path::new(path).parent() == Some(Path::new(HOME));
    let files = files.keys().filter(beside).cloned();
    directories.chain(files).chain([".agents".to_owned(), ".env".to_owned()]).collect()
}

/// An agent that it may start.
fn role(agent: &SubAgent) -> String {
    let allowed = agent.tools.as_ref().map(|list| tools::allowed(&TOOLS, list));
    let fields = [
        ("name", json!(agent.name.as_str())),
        ("description", json!(agent.description)),
        ("tools", json!(allowed)),
        ("model", json!(agent.model.as_ref().map(|model| model.as_str()))),
    ];
    with_front_matter(&fields, &agent.prompt)
}

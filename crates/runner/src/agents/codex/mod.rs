//! Codex: a hook that it trusts by its hash, in a repository that it does not trust.

mod config;
mod questions;
mod reader;

use std::collections::BTreeMap;
use std::path::Path;

use bailiwick_lifecycle::supervision::{CliBehaviour, IncompleteCalls};
use bailiwick_model::task::{Login, SubAgent};
use bailiwick_policy::dialects::Dialect;
use serde_json::{Value, json};

use super::adapter::{
    Adapter, Assignment, Capabilities, ControlProtocol, Conversation, Input, LoginNeeds, PlanError,
    ProgramLaunch, Reader,
};
use super::gate_setup::{PLACEHOLDER, at_home, environment, known_effort};
use super::help::{self, list};
use super::texts::{joined, skill_files, skill_list};
use super::tools;
use crate::proxy::ModelApi;

pub(super) use reader::CodexReader;

const NAME: &str = "codex";
const HOME: &str = ".codex";
/// The directory of its tables, which are otherwise beside its settings.
const TABLES: &str = "state";
/// A file that it opens to write, even if it has no need to.
const INSTALLATION: &str = "installation_id";
/// What it writes beside its settings.
const OPEN: [&str; 5] = [INSTALLATION, "log", "sessions", TABLES, "thread-writer-locks"];
const KEY: &str = "BAILIWICK_MODEL_KEY";
const EFFORTS: [&str; 6] = ["low", "medium", "high", "xhigh", "max", "ultra"];
const MODELS: [&str; 7] = [
    "gpt-5.5",
    "gpt-5.6-luna",
    "gpt-5.6-sol",
    "gpt-5.6-terra",
    "gpt-6-luna",
    "gpt-6-sol",
    "gpt-6.1-sol",
];
/// Models of the generations that it supports: it accepts them as they are, and so does the provider.
const FORMS: [(&str, &[&str]); 3] = [
    ("gpt-5-codex*", &["low", "medium", "high"]),
    ("gpt-5*", &["low", "medium", "high", "xhigh"]),
    ("gpt-6*", &EFFORTS),
];
const FLAGS: [&str; 6] = ["--config", "--disable", "--json", "--model", "--sandbox", "resume"];

/// Codex.
#[derive(Debug, Clone, Copy, Default)]
pub struct Codex;

impl Adapter for Codex {
    fn name(&self) -> &str {
        NAME
    }

    fn program(&self) -> &str {
        "codex"
    }

    fn dialect(&self) -> Option<Dialect> {
        Some(Dialect::Codex)
    }

    fn model_api(&self) -> Option<ModelApi> {
        Some(ModelApi::Responses)
    }

    fn no_late_model_clients(&self) -> bool {
        true
    }

    fn behaviour(&self) -> CliBehaviour {
        CliBehaviour {
            hooks_have_call_ids: true,
            // `exec` is the one tool of its code mode: the calls that the code makes reach the hook one
            // by one, but for `write_stdin`. What code types could not be seen: nothing that it starts has
            // a terminal, and so nothing listens. `write_stdin` itself is not here: a call that types into a
            // shell is not held, and that has to come out.
            // `wait` waits for code that still runs.
            tools_without_hook: &["exec", "wait"],
            own_refusal_prefixes: &[
                "unsupported call: ",
                "unsupported custom tool call: ",
                "failed to parse function arguments: ",
                "apply_patch verification failed: ",
                // In its own conversations without a directory, such as the one about a title.
                "No usable execution environment is available. ",
                "write_stdin failed: Unknown process id ",
                "write_stdin failed: stdin is closed for this session",
                "request_user_input is unavailable in ",
            ],
            denial_marker: "blocked by PreToolUse hook: ",
            truncates_old_results: false,
            unfinished: IncompleteCalls::Runs,
            reports_commands: true,
            code_mode: Some(("exec", "exec-")),
        }
    }

    fn help_arguments(&self) -> Vec<String> {
        list(&["exec", "--help"])
    }

    fn capabilities(&self, _version: &str, help: &str) -> Capabilities {
        Capabilities {
            models: MODELS
                .into_iter()
                .chain(FORMS.map(|(form, _)| form))
                .map(str::to_owned)
                .collect(),
            efforts: list(&EFFORTS),
            model_efforts: FORMS.map(|(form, efforts)| (form.to_owned(), list(efforts))).into(),
            resume: help::names(help, "resume"),
            sub_agents: true,
            mcp: true,
            system_prompt: true,
            turn_limit: false,
            money_limit: false,
            tool_lists: false,
            missing: help::missing(help, &FLAGS),
        }
    }

    fn login(&self, login: Login) -> Result<LoginNeeds, PlanError> {
        match login {
            Login::ApiKey => Ok(LoginNeeds { proxied: true, ..LoginNeeds::default() }),
            Login::Subscription => Ok(LoginNeeds {
                files: list(&[".codex/auth.json"]),
                proxied: true,
                ..LoginNeeds::default()
            }),
            Login::Bedrock | Login::Vertex => {
                let what = format!("be paid by {}", login.as_str());
                Err(PlanError::new(NAME, what, "it takes `api-key` and `subscription`"))
            }
        }
    }

    fn conversations(&self) -> Vec<String> {
        list(&[".codex/sessions"])
    }

    fn plan(&self, assignment: &Assignment) -> Result<ProgramLaunch, PlanError> {
        self.login(assignment.login)?;
        let ours = vec![("CODEX_HOME", at_home(assignment, HOME)), (KEY, PLACEHOLDER.to_owned())];
        Ok(ProgramLaunch {
            arguments: arguments(assignment)?,
            environment: environment(NAME, ours, assignment)?,
            files: files(assignment)?,
            fixed: list(&[HOME]),
            open: OPEN.iter().map(|name| format!("{HOME}/{name}")).collect(),
            input: Input::Text(assignment.prompt.clone()),
        })
    }

    fn reader(&self, worktree: &Path) -> Box<dyn Reader> {
        Box::new(CodexReader::new(worktree))
    }

    fn http_gate(&self) -> Option<Box<dyn ControlProtocol>> {
        Some(Box::new(questions::Questions))
    }

    fn shell_call(&self, command: &str) -> (String, Value) {
        ("exec_command".to_owned(), json!({"cmd": command}))
    }
}

fn arguments(assignment: &Assignment) -> Result<Vec<String>, PlanError> {
    let mut arguments = list(&["exec"]);
    if let Conversation::Resume(_) = &assignment.session {
        arguments.push("resume".to_owned());
    }
    // Its own sandbox is off: ours holds it, and theirs cannot be started inside of it.
    arguments.extend(list(&["--json", "--skip-git-repo-check"]));
    let set = |setting: &str| ["-c".to_owned(), setting.to_owned()];
    arguments.extend(set("sandbox_mode=\"danger-full-access\""));
    arguments.extend(set("features.hooks=true"));
    arguments.extend(list(&["--disable", "plugins", "--disable", "apps"]));
    // A file that the agent could write, read before every command.
    arguments.extend(list(&["--disable", "shell_snapshot"]));
    // Without a terminal a program that it starts reads nothing: no hook sees what is typed into one.
    arguments.extend(list(&["--disable", "unified_exec_tty"]));
    if let Some(allowed) = &assignment.tools {
        // What cannot be disabled is denied by the gate.
        let features = [
            ("exec_command", "shell_tool"),
            ("create_goal", "goals"),
            ("spawn_agent", "multi_agent"),
        ];
        for (_, feature) in features.iter().filter(|(tool, _)| !tools::allows(allowed, tool)) {
            arguments.extend(list(&["--disable", feature]));
        }
    }
    if let Some(effort) = &assignment.effort {
        known_effort(NAME, &EFFORTS, effort)?;
    }
    if let Conversation::Resume(id) = &assignment.session {
        arguments.push(id.clone());
    }
    // The prompt is on standard input.
    arguments.push("-".to_owned());
    Ok(arguments)
}

fn files(assignment: &Assignment) -> Result<BTreeMap<String, String>, PlanError> {
    let mut files = BTreeMap::new();
    let mut put = |path: &str, text: String| files.insert(format!("{HOME}/{path}"), text);
    put("config.toml", config::text(assignment)?);
    put("hooks.json", config::hooks(assignment));
    put(INSTALLATION, String::new());
    let skills = skill_list(&at_home(assignment, &format!("{HOME}/skills")), &assignment.skills);
    let instructions = [joined(&assignment.instructions), skills].join("\n");
    if !instructions.trim().is_empty() {
        put("AGENTS.md", instructions);
    }
    for agent in &assignment.sub_agents {
        put(&format!("agents/{}.toml", agent.name), role(agent)?);
    }
    files.extend(skill_files(&format!("{HOME}/skills"), &assignment.skills));
    Ok(files)
}

/// An agent that it may start.
fn role(agent: &SubAgent) -> Result<String, PlanError> {
    if agent.tools.is_some() {
        let what = format!("limit the tools of the agent {}", agent.name);
        return Err(PlanError::new(
            NAME,
            what,
            "its agents have the tools that it has; leave `tools` out",
        ));
    }
    if agent.name.as_str().contains(['/', '.']) {
        let what = format!("start an agent {}", agent.name);
        return Err(PlanError::new(
            NAME,
            what,
            "the name is a file's; use letters, digits and `-`",
        ));
    }
    let mut role = toml::Table::new();
    let mut set = |key: &str, value: &str| role.insert(key.to_owned(), value.into());
    set("name", agent.name.as_str());
    set("description", &agent.description);
    set("developer_instructions", &agent.prompt);
    if let Some(model) = &agent.model {
        set("model", model.as_str());
    }
    Ok(role.to_string())
}

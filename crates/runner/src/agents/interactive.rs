//! Agent programs in a person's own terminal: the person's arguments, and ours that hold the gate.
//!
//! An interactive session is configured like a run, except for what would take the CLI out of the person's hands: it
//! prints for people, asks them as usual, and the gate is silent when it allows.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bailiwick_lifecycle::supervision::{CliBehaviour, IncompleteCalls};
use bailiwick_model::task::Login;
use bailiwick_policy::dialects::Dialect;
use serde_json::{Map, Value, json};

use super::adapter::{
    Adapter, Assignment, Capabilities, ControlProtocol, ConversationCleanup, Gate, Input,
    LoginNeeds, ParsedEvent, PlanError, ProgramLaunch, Reader, Verdict,
};
use super::claude_code;
use super::gate_setup::{OURS, PLACEHOLDER, announcing, gate_command, hook_timeout};
use super::help::list;
use super::objections::{given, objection};
use super::texts::pretty;
use crate::proxy::ModelApi;

/// The person's environment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Person {
    /// The name of the program's file.
    pub program: String,
    /// The arguments.
    pub arguments: Vec<String>,
    pub directory: PathBuf,
    /// The contents of the files of the person that [`Interactive::appearance_files`] names, by name.
    pub files: BTreeMap<String, String>,
}

/// An agent program that a person talks to.
pub struct Interactive {
    inner: Arc<dyn Adapter>,
    person: Person,
}

impl Interactive {
    /// The program of an adapter. Arguments that would take the gate from it are refused.
    pub fn new(inner: Arc<dyn Adapter>, person: Person) -> Result<Self, PlanError> {
        if inner.name() == "script" {
            let why = "it is no program that a person can talk to";
            return Err(PlanError::new(inner.name(), "be used in a terminal", why));
        }
        match objection(inner.name(), &person.arguments) {
            Some((argument, why)) => {
                Err(PlanError::new(inner.name(), format!("be given `{argument}` here"), why))
            }
            None => Ok(Self { inner, person }),
        }
    }

    /// Files below the person's home that configure the appearance of the CLI.
    pub fn appearance_files(adapter: &dyn Adapter) -> Vec<String> {
        match adapter.name() {
            "claude-code" => list(&[CLAUDE_STATE]),
            _ => Vec::new(),
        }
    }
}

impl Adapter for Interactive {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn program(&self) -> &str {
        &self.person.program
    }

    fn dialect(&self) -> Option<Dialect> {
        self.inner.dialect()
    }

    fn model_api(&self) -> Option<ModelApi> {
        self.inner.model_api()
    }

    fn side_models(&self) -> &[&str] {
        self.inner.side_models()
    }

    fn request_names(&self, model: Option<&str>) -> Vec<String> {
        self.inner.request_names(model)
    }

    fn no_late_model_clients(&self) -> bool {
        self.inner.no_late_model_clients()
    }

    fn behaviour(&self) -> CliBehaviour {
        // Output for people is not parsed.
        let unfinished = match self.inner.behaviour().unfinished {
            IncompleteCalls::Runs | IncompleteCalls::ReportsRun => IncompleteCalls::Runs,
            IncompleteCalls::RunsUnlessBroken => IncompleteCalls::RunsUnlessBroken,
        };
        let behaviour = CliBehaviour { unfinished, ..self.inner.behaviour() };
        let by_people: &[&str] = match self.inner.dialect() {
            Some(Dialect::Claude) => &CLAUDE_REFUSED,
            Some(Dialect::Codex) => &CODEX_REFUSED,
            Some(Dialect::Gemini) => &GEMINI_REFUSED,
            Some(Dialect::OpenCode) => &OPENCODE_REFUSED,
            None => &[],
        };
        // One list for each session, of which a process has one.
        CliBehaviour {
            own_refusal_prefixes: [behaviour.own_refusal_prefixes, by_people].concat().leak(),
            ..behaviour
        }
    }

    fn version_arguments(&self) -> Vec<String> {
        self.inner.version_arguments()
    }

    fn help_arguments(&self) -> Vec<String> {
        self.inner.help_arguments()
    }

    fn capabilities(&self, version: &str, help: &str) -> Capabilities {
        self.inner.capabilities(version, help)
    }

    fn login(&self, login: Login) -> Result<LoginNeeds, PlanError> {
        self.inner.login(login)
    }

    fn conversations(&self) -> Vec<String> {
        self.inner.conversations()
    }

    fn conversation_cleanup(&self) -> Option<ConversationCleanup> {
        self.inner.conversation_cleanup()
    }

    fn http_gate(&self) -> Option<Box<dyn ControlProtocol>> {
        self.inner.http_gate()
    }

    fn plan(&self, assignment: &Assignment) -> Result<ProgramLaunch, PlanError> {
        let person = &self.person;
        let mut launch = match self.inner.name() {
            "claude-code" => claude(self.inner.plan(assignment)?, assignment, person)?,
            "codex" => {
                let flags = [("exec", 0), ("--json", 0), ("--skip-git-repo-check", 0), ("-", 0)];
                followed(self.inner.plan(assignment)?, &flags, person)
            }
            "gemini" => gemini(self.inner.plan(assignment)?, person)?,
            "opencode" => open_code(self.inner.plan(assignment)?, person)?,
            _ => described(self.inner.as_ref(), assignment, person)?,
        };
        launch.input = Input::Nothing;
        Ok(launch)
    }

    fn reader(&self, _worktree: &Path) -> Box<dyn Reader> {
        Box::new(IgnoredOutput)
    }

    fn shell_call(&self, command: &str) -> (String, Value) {
        self.inner.shell_call(command)
    }
}

/// The CLI with the gate of an interactive session, but without a person, to test its gate before the session
/// starts.
pub fn unattended(inner: Arc<dyn Adapter>) -> Arc<dyn Adapter> {
    match inner.dialect() {
        Some(Dialect::Claude) => Arc::new(Unattended { inner }),
        // These ask in a session as they do in a run.
        Some(Dialect::Codex | Dialect::Gemini | Dialect::OpenCode) | None => inner,
    }
}

/// A CLI whose gate is configured in its settings, as in an interactive session.
struct Unattended {
    inner: Arc<dyn Adapter>,
}

impl Adapter for Unattended {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn program(&self) -> &str {
        self.inner.program()
    }

    fn dialect(&self) -> Option<Dialect> {
        self.inner.dialect()
    }

    fn model_api(&self) -> Option<ModelApi> {
        self.inner.model_api()
    }

    fn side_models(&self) -> &[&str] {
        self.inner.side_models()
    }

    fn request_names(&self, model: Option<&str>) -> Vec<String> {
        self.inner.request_names(model)
    }

    fn no_late_model_clients(&self) -> bool {
        self.inner.no_late_model_clients()
    }

    fn behaviour(&self) -> CliBehaviour {
        self.inner.behaviour()
    }

    fn version_arguments(&self) -> Vec<String> {
        self.inner.version_arguments()
    }

    fn help_arguments(&self) -> Vec<String> {
        self.inner.help_arguments()
    }

    fn capabilities(&self, version: &str, help: &str) -> Capabilities {
        self.inner.capabilities(version, help)
    }

    fn login(&self, login: Login) -> Result<LoginNeeds, PlanError> {
        self.inner.login(login)
    }

    fn conversations(&self) -> Vec<String> {
        self.inner.conversations()
    }

    fn conversation_cleanup(&self) -> Option<ConversationCleanup> {
        self.inner.conversation_cleanup()
    }

    fn plan(&self, assignment: &Assignment) -> Result<ProgramLaunch, PlanError> {
        let mut launch = self.inner.plan(assignment)?;
        silence(&mut launch, assignment.gate.as_ref());
        if matches!(launch.input, Input::ControlProtocol(_)) {
            launch.input = Input::Text(assignment.prompt.clone());
            launch = followed(launch, &[("--input-format", 1)], &Person::default());
        }
        Ok(launch)
    }

    fn reader(&self, worktree: &Path) -> Box<dyn Reader> {
        self.inner.reader(worktree)
    }

    fn shell_call(&self, command: &str) -> (String, Value) {
        self.inner.shell_call(command)
    }
}

/// Output for people is not parsed.
struct IgnoredOutput;

impl Reader for IgnoredOutput {
    fn line(&mut self, _line: &str) -> Vec<ParsedEvent> {
        Vec::new()
    }

    fn end(&mut self, code: Option<i32>, _errors: &str) -> Verdict {
        match code {
            Some(0) => Verdict { completed: true, words: "the person has left it".to_owned() },
            Some(code) => Verdict {
                completed: false,
                words: format!("the program ended with the code {code}"),
            },
            None => Verdict { completed: false, words: "the program was ended".to_owned() },
        }
    }
}

/// The results that Claude Code sends to the model for calls that a person refused, before or instead of a hook: of
/// several calls, those after the refused one never reach it.
const CLAUDE_REFUSED: [&str; 7] = [
    "The user doesn't want to proceed with this tool use.",
    "The user doesn't want to take this action right now.",
    "[Request interrupted by user",
    "[Tool use interrupted]",
    "[Tool result missing due to internal error]",
    "<tool_use_error>Cancelled: ",
    "<tool_use_error>Error: Streaming fallback - tool execution discarded",
];

/// The same for Codex: for calls that had not started, or were interrupted.
const CODEX_REFUSED: [&str; 1] = ["aborted"];

/// The same for Gemini CLI.
const GEMINI_REFUSED: [&str; 1] = ["[Operation Cancelled] "];

/// The same for OpenCode.
const OPENCODE_REFUSED: [&str; 1] = ["Tool execution aborted"];

const CLAUDE_STATE: &str = claude_code::STATE;

/// Parts of the person's state of Claude Code: its appearance, and questions that were answered for good.
const CLAUDE_PREFERENCES: [&str; 6] = [
    "autoCompactEnabled",
    "bypassPermissionsModeAccepted",
    "editorMode",
    "preferredNotifChannel",
    "theme",
    "verbose",
];

fn claude(
    mut launch: ProgramLaunch,
    assignment: &Assignment,
    person: &Person,
) -> Result<ProgramLaunch, PlanError> {
    let headless = [
        ("--print", 0),
        ("--input-format", 1),
        ("--output-format", 1),
        ("--verbose", 0),
        ("--permission-mode", 1),
        ("--tools", 1),
        ("--max-turns", 1),
        ("--max-budget-usd", 1),
        ("--session-id", 1),
    ];
    silence(&mut launch, assignment.gate.as_ref());
    launch.files.insert(CLAUDE_STATE.to_owned(), pretty(&claude_state(assignment, person)));
    // The person may start another session at any time, under a name that is not known before.
    launch.fixed.retain(|path| !path.starts_with(claude_code::SESSION_ENV));
    launch.open.push(claude_code::SESSION_ENV.to_owned());
    let mut launch = followed(launch, &headless, &Person::default());
    // Our last argument takes no value, so that the first of the person's cannot become one.
    launch.arguments.push("--strict-mcp-config".to_owned());
    let theirs = ["--model", "--effort", "--agents"];
    let flags: Vec<(&str, usize)> = theirs
        .into_iter()
        .filter(|flag| given(&person.arguments, flag))
        .map(|one| (one, 1))
        .collect();
    Ok(followed(launch, &flags, person))
}

/// It has been started before, the person trusts this directory, and the key may be used. Like all of its settings,
/// this stays unchanged: tools that need no approval and servers can be in it.
fn claude_state(assignment: &Assignment, person: &Person) -> Value {
    let own: Value = person
        .files
        .get(CLAUDE_STATE)
        .and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or_default();
    let trusted = json!({"hasTrustDialogAccepted": true, "hasCompletedProjectOnboarding": true});
    let places = [&assignment.worktree, &assignment.repository, &person.directory];
    let projects: BTreeMap<String, Value> =
        places.iter().map(|place| (place.display().to_string(), trusted.clone())).collect();
    let mut state = json!({
        "hasCompletedOnboarding": true,
        "theme": "dark",
        "autoUpdates": false,
        "customApiKeyResponses": {"approved": [PLACEHOLDER], "rejected": []},
        "projects": projects,
    });
    if let Some(fields) = state.as_object_mut() {
        for key in CLAUDE_PREFERENCES {
            if let Some(value) = own.get(key) {
                fields.insert(key.to_owned(), value.clone());
            }
        }
    }
    state
}

/// A gate that is silent when it allows leaves the CLI's own questions to the person.
fn silence(launch: &mut ProgramLaunch, gate: Option<&Gate>) {
    let Some(gate) = gate else { return };
    let hook = |command: String| json!([{"type": "command", "command": command, "timeout": hook_timeout(gate)}]);
    let settings = pretty(&json!({
        "disableAllHooks": false,
        "disableSkillShellExecution": true,
        "hooks": {
            "PreToolUse": [{"matcher": "*", "hooks": hook(gate_command(gate, Dialect::Claude, &[]))}],
            "SessionStart": [{"hooks": hook(announcing(gate, Dialect::Claude))}],
        },
    }));
    for place in [format!("{OURS}/settings.json"), ".claude/settings.json".to_owned()] {
        launch.files.insert(place, settings.clone());
    }
}

/// The CLI asks as usual, except for two questions that it would ask once: to connect to the editor of the terminal,
/// and to set up its keys. Neither reaches the person's own files from here.
fn gemini(mut launch: ProgramLaunch, person: &Person) -> Result<ProgramLaunch, PlanError> {
    changed(&mut launch, "gemini", ".gemini/settings.json", |fields| {
        fields.insert("ide".to_owned(), json!({"hasSeenNudge": true}));
    })?;
    let state = json!({"terminalSetupPromptShown": true, "hasSeenScreenReaderNudge": true});
    launch.files.insert(".gemini/state.json".to_owned(), pretty(&state));
    let flags = [("--output-format", 1), ("--approval-mode", 1), ("--session-id", 1)];
    Ok(followed(launch, &flags, person))
}

/// The CLI asks as usual, and reads the model from its settings.
fn open_code(mut launch: ProgramLaunch, person: &Person) -> Result<ProgramLaunch, PlanError> {
    changed(&mut launch, "opencode", ".config/opencode/opencode.json", |fields| {
        fields.remove("permission");
    })?;
    launch.arguments.clone_from(&person.arguments);
    Ok(launch)
}

/// Changes the settings that a run would have.
fn changed(
    launch: &mut ProgramLaunch,
    cli: &str,
    file: &str,
    change: impl FnOnce(&mut Map<String, Value>),
) -> Result<(), PlanError> {
    let text = launch.files.get(file);
    let settings = text.and_then(|text| serde_json::from_str::<Map<String, Value>>(text).ok());
    let Some(mut settings) = settings else {
        return Err(PlanError::new(cli, "be configured", "its settings cannot be read"));
    };
    change(&mut settings);
    launch.files.insert(file.to_owned(), pretty(&Value::Object(settings)));
    Ok(())
}

/// A program that a manifest describes: its files and variables, and the person's arguments alone,
/// because the manifest's are for a run.
fn described(
    inner: &dyn Adapter,
    assignment: &Assignment,
    person: &Person,
) -> Result<ProgramLaunch, PlanError> {
    let plain = Assignment {
        system_prompt: None,
        model: None,
        effort: None,
        instructions: Vec::new(),
        skills: BTreeMap::new(),
        ..assignment.clone()
    };
    let mut launch = inner.plan(&plain)?;
    if inner.dialect() == Some(Dialect::Claude) {
        silence(&mut launch, assignment.gate.as_ref());
    }
    launch.arguments.clone_from(&person.arguments);
    Ok(launch)
}

/// The arguments of a run without these flags and as many values as each has, then the person's.
fn followed(
    mut launch: ProgramLaunch,
    without: &[(&str, usize)],
    person: &Person,
) -> ProgramLaunch {
    let mut arguments = Vec::new();
    let mut values_to_skip = 0_usize;
    for word in launch.arguments {
        if values_to_skip > 0 {
            values_to_skip -= 1;
        } else if let Some((_, values)) = without.iter().find(|(flag, _)| *flag == word) {
            values_to_skip = *values;
        } else {
            arguments.push(word);
        }
    }
    arguments.extend(person.arguments.iter().cloned());
    launch.arguments = arguments;
    launch
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_removed_with_their_values() {
        let launch = ProgramLaunch {
            arguments: list(&["--print", "--output-format", "json", "--settings", "s"]),
            environment: Vec::new(),
            files: BTreeMap::new(),
            fixed: Vec::new(),
            open: Vec::new(),
            input: Input::Nothing,
        };
        let person = Person { arguments: list(&["hello"]), ..Person::default() };
        let launch = followed(launch, &[("--print", 0), ("--output-format", 1)], &person);
        assert_eq!(launch.arguments, ["--settings", "s", "hello"]);
    }
}

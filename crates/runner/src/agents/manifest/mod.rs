//! An agent program that a person describes in `adapters/NAME.toml`, without code.

mod file;
mod plain;

use std::collections::BTreeMap;
use std::path::Path;

use bailiwick_lifecycle::supervision::{CliBehaviour, IncompleteCalls};
use bailiwick_model::task::Login;
use bailiwick_policy::dialects::Dialect;
use serde_json::{Value, json};

use super::adapter::{
    Adapter, Assignment, Capabilities, Conversation, Input, LoginNeeds, PlanError, ProgramLaunch,
    Reader,
};
use super::claude_code::{self, ClaudeReader};
use super::codex::CodexReader;
use super::gate_setup::{OURS, at_home, environment};
use super::gemini::GeminiReader;
use super::help;
use super::opencode::OpenCodeReader;
use super::texts::pretty;
use crate::proxy::ModelApi;

use file::placeholders;
pub use file::{Argument, GateKind, Manifest, Output};

/// The kernel's limit for an argument, less some room for the text around the prompt.
const MAX_ARGUMENT: usize = 120 * 1024;

impl Adapter for Manifest {
    fn name(&self) -> &str {
        self.adapter.name.as_str()
    }

    fn program(&self) -> &str {
        self.adapter.program.as_str()
    }

    fn dialect(&self) -> Option<Dialect> {
        match self.gate.kind {
            GateKind::ClaudeHooks => Some(Dialect::Claude),
            GateKind::None => None,
        }
    }

    fn model_api(&self) -> Option<ModelApi> {
        self.adapter.wire
    }

    fn behaviour(&self) -> CliBehaviour {
        match self.gate.kind {
            GateKind::ClaudeHooks => claude_code::ClaudeCode.behaviour(),
            GateKind::None => CliBehaviour {
                hooks_have_call_ids: false,
                tools_without_hook: &[],
                own_refusal_prefixes: &[],
                denial_marker: "",
                truncates_old_results: true,
                unfinished: IncompleteCalls::Runs,
                reports_commands: false,
                code_mode: None,
            },
        }
    }

    fn version_arguments(&self) -> Vec<String> {
        self.adapter.version_arguments.clone()
    }

    fn help_arguments(&self) -> Vec<String> {
        self.adapter.help_arguments.clone()
    }

    fn capabilities(&self, _version: &str, help: &str) -> Capabilities {
        let takes = |name: &str| self.takes(name);
        let flags: Vec<&str> = self.flags();
        Capabilities {
            models: self.adapter.models.clone(),
            efforts: self.adapter.efforts.clone(),
            model_efforts: BTreeMap::new(),
            resume: !self.launch.resume.is_empty(),
            sub_agents: false,
            mcp: false,
            system_prompt: takes("system-prompt"),
            turn_limit: takes("turns"),
            money_limit: takes("usd"),
            tool_lists: false,
            missing: if help.is_empty() { Vec::new() } else { help::missing(help, &flags) },
        }
    }

    fn login(&self, login: Login) -> Result<LoginNeeds, PlanError> {
        match login {
            Login::ApiKey => {
                Ok(LoginNeeds { proxied: self.adapter.wire.is_some(), ..LoginNeeds::default() })
            }
            Login::Subscription | Login::Bedrock | Login::Vertex => {
                let what = format!("be paid by {}", login.as_str());
                Err(PlanError::new(self.name(), what, "a manifest describes `api-key` alone"))
            }
        }
    }

    fn conversations(&self) -> Vec<String> {
        self.launch.conversations.clone()
    }

    fn plan(&self, assignment: &Assignment) -> Result<ProgramLaunch, PlanError> {
        self.login(assignment.login)?;
        self.can_do(assignment)?;
        let values = self.values(assignment);
        let mut arguments = self.filled(&self.launch.arguments, &values)?;
        if let Conversation::Resume(_) = &assignment.session {
            arguments.extend(self.filled(&self.launch.resume, &values)?);
        }
        let mut own = Vec::new();
        for (name, value) in &self.launch.environment {
            own.push((name.as_str(), self.fill(value, &values)?));
        }
        let (mut files, mut fixed, mut open) = (BTreeMap::new(), Vec::new(), Vec::new());
        if let (GateKind::ClaudeHooks, Some(gate)) = (self.gate.kind, &assignment.gate) {
            // For a program that passes it on, and for one that only starts Claude Code.
            let settings = pretty(&claude_code::settings(Some(gate)));
            files.insert(format!("{OURS}/settings.json"), settings.clone());
            files.insert(".claude/settings.json".to_owned(), settings);
            files.insert(claude_code::STATE.to_owned(), "{}\n".to_owned());
            fixed = claude_code::fixed();
            let own =
                self.launch.conversations.iter().filter(|place| place.starts_with(".claude/"));
            open = claude_code::open();
            open.push(claude_code::SESSION_ENV.to_owned());
            open.extend(own.filter(|place| !open.contains(place)).cloned().collect::<Vec<_>>());
        }
        let environment = environment(self.name(), own, assignment)?;
        let input = match self.launch.prompt_on_stdin {
            true => Input::Text(assignment.prompt.clone()),
            false => Input::Nothing,
        };
        Ok(ProgramLaunch { arguments, environment, files, fixed, open, input })
    }

    fn reader(&self, worktree: &Path) -> Box<dyn Reader> {
        match self.output.format {
            Output::Text => Box::new(plain::PlainReader::text()),
            Output::JsonLines => Box::new(plain::PlainReader::json_lines()),
            Output::ClaudeCode => Box::new(ClaudeReader::new(worktree)),
            Output::Codex => Box::new(CodexReader::new(worktree)),
            Output::Gemini => Box::new(GeminiReader::new(worktree)),
            Output::Opencode => Box::new(OpenCodeReader::new(worktree)),
        }
    }

    fn shell_call(&self, command: &str) -> (String, Value) {
        ("Bash".to_owned(), json!({"command": command}))
    }
}

impl Manifest {
    /// Whether its arguments or environment have a place for this value.
    fn takes(&self, name: &str) -> bool {
        let texts = self.launch.arguments.iter().flat_map(Argument::words);
        let texts = texts.chain(self.launch.environment.values());
        texts.into_iter().any(|text| placeholders(text).any(|placeholder| placeholder == name))
    }

    fn flags(&self) -> Vec<&str> {
        let words = self.launch.arguments.iter().flat_map(Argument::words).map(String::as_str);
        words.filter(|word| word.starts_with("--")).collect()
    }

    /// A setting of a task that the manifest does not support is refused.
    fn can_do(&self, assignment: &Assignment) -> Result<(), PlanError> {
        let needed = [
            ("model", assignment.model.is_some()),
            ("effort", assignment.effort.is_some()),
            ("system-prompt", assignment.system_prompt.is_some()),
        ];
        let error = |what: &str, why: &str| Err(PlanError::new(self.name(), what, why));
        for (name, is_needed) in needed {
            if is_needed && !self.takes(name) {
                let why = format!("its manifest has no place for {{{name}}}");
                return error(&format!("be told its {name}"), &why);
            }
        }
        if !assignment.sub_agents.is_empty() || !assignment.mcp_servers.is_empty() {
            return error("be given agents or MCP servers", "a manifest cannot say how");
        }
        if matches!(assignment.session, Conversation::Resume(_)) && self.launch.resume.is_empty() {
            return error("take up a conversation", "its manifest has no `resume` arguments");
        }
        if !self.launch.prompt_on_stdin && !self.takes("prompt") {
            return error("be told its task", "its manifest has no place for {prompt}");
        }
        if self.takes("prompt") && assignment.prompt.len() > MAX_ARGUMENT {
            let why =
                "it is longer than an argument may be; let its manifest say `prompt-on-stdin`";
            return error("be told its task", why);
        }
        if assignment.gate.is_some() && self.gate.kind == GateKind::None {
            return error("be gated", "its manifest says `kind = \"none\"`");
        }
        Ok(())
    }

    fn values(&self, assignment: &Assignment) -> BTreeMap<&'static str, Option<String>> {
        let settings = at_home(assignment, &format!("{OURS}/settings.json"));
        let (Conversation::New(session) | Conversation::Resume(session)) = &assignment.session;
        BTreeMap::from([
            ("prompt", Some(assignment.prompt.clone())),
            ("model", assignment.model.clone()),
            ("effort", assignment.effort.clone()),
            ("system-prompt", assignment.system_prompt.clone()),
            ("session", Some(session.clone())),
            ("model-url", Some(assignment.model_url.clone())),
            ("worktree", Some(assignment.worktree.display().to_string())),
            ("home", Some(assignment.home.display().to_string())),
            ("turns", assignment.turns.map(|turns| turns.to_string())),
            ("usd", assignment.usd.map(|usd| usd.to_string())),
            ("gate-settings", assignment.gate.as_ref().map(|_| settings)),
        ])
    }

    /// The arguments with their values; a group that lacks one is left out whole.
    fn filled(
        &self,
        arguments: &[Argument],
        values: &BTreeMap<&'static str, Option<String>>,
    ) -> Result<Vec<String>, PlanError> {
        let mut words = Vec::new();
        for argument in arguments {
            let lacks = |word: &String| {
                placeholders(word).any(|name| values.get(name).is_none_or(Option::is_none))
            };
            match argument {
                Argument::Group(group) if group.iter().any(lacks) => {}
                Argument::Group(_) | Argument::Word(_) => {
                    for word in argument.words() {
                        words.push(self.fill(word, values)?);
                    }
                }
            }
        }
        Ok(words)
    }

    fn fill(
        &self,
        text: &str,
        values: &BTreeMap<&'static str, Option<String>>,
    ) -> Result<String, PlanError> {
        let mut filled = String::new();
        let mut rest = text;
        // A value is not expanded again: braces in it are text.
        while let Some((before, name, after)) = file::next_placeholder(rest) {
            let Some(Some(value)) = values.get(name) else {
                let why = format!("`{text}` needs {{{name}}}, and the task has none");
                return Err(PlanError::new(self.name(), "be started", why));
            };
            filled.push_str(before);
            filled.push_str(value);
            rest = after;
        }
        filled.push_str(rest);
        Ok(filled)
    }
}

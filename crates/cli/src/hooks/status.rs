//! Whether a gate is there, and still as it was put in.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use bailiwick_engine::context::Context;
use bailiwick_engine::failure::Failure as ServiceFailure;
use bailiwick_engine::policy_file;
use bailiwick_model::Sha256Hex;
use serde::Serialize;

use super::agent::{Agent, Scope, Wrapping};
use super::draft::Draft;
use super::gate_command::{self, can_run, head};
use super::json_text::{self, Node};
use super::pending_command::Commands;
use super::places::{Places, StateFiles};
use super::record::{self, Bound, Record};
use super::settings_entry::Shape;
use super::{
    codex_roots, codex_trust, disarmed, folder_trust, install, other_hooks, plugin,
    sandboxed_shell, shell_prefix,
};
use crate::failure::Failure;

/// The state of a gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum InstallState {
    /// There is none.
    Absent,
    /// It is as it was put in.
    Intact,
    /// It is as it was put in, but nothing shows that the program reads it.
    Unproven,
    /// It differs from the installation.
    Drifted,
}

/// One thing that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// A stable name for its kind.
    pub code: &'static str,
    /// The problem.
    pub text: String,
    /// What to do.
    pub advice: String,
    #[serde(skip)]
    standing: InstallState,
}

/// The state of one gate.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The program.
    pub agent: Agent,
    /// `repository` or `user`.
    pub scope: &'static str,
    /// The repository.
    pub root: Option<PathBuf>,
    /// Its state.
    pub standing: InstallState,
    /// The role or task of the agent.
    pub bound: Option<Bound>,
    /// The policy's digest.
    pub digest: Option<String>,
    /// How allowed shell commands run.
    pub commands: Option<record::Commands>,
    /// The file that the gate is put into.
    pub settings: PathBuf,
    /// The log of decisions.
    pub log: PathBuf,
    /// How many new files of shell commands were moved away, and where.
    pub moved: Option<(usize, PathBuf)>,
    /// The time of the gate's last decision, in milliseconds since 1970.
    pub last_asked_ms: Option<u64>,
    /// The problems.
    pub findings: Vec<Finding>,
}

/// Checks one CLI and scope.
pub fn report(
    context: &Context,
    places: &Places,
    agent: Agent,
    scope: &Scope,
) -> Result<Report, Failure> {
    let kept = places.kept(agent, scope);
    let mut draft = Draft::default();
    let record = Record::read(&mut draft, &kept)?;
    let mut settings = places.settings(agent, scope);
    let mut look = Look { context, places, agent, scope, kept: &kept, findings: Vec::new() };
    let (mut bound, mut digest, mut commands) = (None, None, None);
    let present = match record {
        None => {
            let found = look.forgotten(&mut draft, &settings);
            if found {
                look.drift("no-record", "our entry is there, but no record of it".to_owned());
            }
            found
        }
        Some(Err(why)) => {
            look.drift("bad-record", format!("the record of it cannot be read: {why}"));
            true
        }
        Some(Ok(record)) => {
            look.all(&mut draft, &record, &settings);
            settings.clone_from(&record.settings);
            (bound, digest) = (Some(record.what), Some(record.digest));
            commands = Some(record.commands);
            true
        }
    };
    let worst = look.findings.iter().map(|finding| finding.standing).max();
    let standing =
        if present { worst.unwrap_or(InstallState::Intact) } else { InstallState::Absent };
    let findings = if present { look.findings } else { Vec::new() };
    Ok(Report {
        agent,
        scope: scope.word(),
        root: scope.root().cloned(),
        standing,
        bound,
        digest,
        commands,
        settings,
        log: kept.log(),
        moved: moved(&kept.removed()),
        last_asked_ms: modified(&kept.log()),
        findings,
    })
}

fn moved(directory: &Path) -> Option<(usize, PathBuf)> {
    let count = std::fs::read_dir(directory).ok()?.count();
    (count > 0).then(|| (count, directory.to_owned()))
}

fn modified(file: &Path) -> Option<u64> {
    let time = std::fs::metadata(file).ok()?.modified().ok()?;
    let since = time.duration_since(std::time::UNIX_EPOCH).ok()?;
    u64::try_from(since.as_millis()).ok()
}

struct Look<'a> {
    context: &'a Context,
    places: &'a Places,
    agent: Agent,
    scope: &'a Scope,
    kept: &'a StateFiles,
    findings: Vec<Finding>,
}

impl Look<'_> {
    fn find(&mut self, standing: InstallState, code: &'static str, text: String, advice: String) {
        self.findings.push(Finding { code, text, advice, standing });
    }

    fn drift(&mut self, code: &'static str, text: String) {
        self.find(InstallState::Drifted, code, text, "install it again".to_owned());
    }

    /// A failed check counts as a problem.
    fn failed(&mut self, code: &'static str, failure: Failure) {
        let (text, advice) = match failure {
            Failure::Service(ServiceFailure::Problems(problems)) => {
                let texts: Vec<String> = problems.iter().map(ToString::to_string).collect();
                (texts.join("; "), None)
            }
            Failure::Service(
                ServiceFailure::Failed { text, help } | ServiceFailure::Refused { text, help },
            ) => (text, help),
            Failure::Service(at_work @ ServiceFailure::AtWork { .. }) => {
                (at_work.to_string(), at_work.advice().map(Cow::into_owned))
            }
            Failure::AlreadyReported(_) => ("it could not be looked at".to_owned(), None),
        };
        let advice = advice.unwrap_or_else(|| "fix it, then install again".to_owned());
        self.find(InstallState::Drifted, code, text, advice);
    }

    fn forgotten(&mut self, draft: &mut Draft, settings: &Path) -> bool {
        let Ok(Some(source)) = draft.source(settings) else { return false };
        let Some(shape) = Shape::of(self.agent) else {
            return source.text.starts_with(plugin::HEAD);
        };
        let root = json_text::parse(&source, shape.comments());
        root.is_ok_and(|root| !shape.find(&root, &self.scope.id(self.agent)).is_empty())
    }

    fn all(&mut self, draft: &mut Draft, record: &Record, settings: &Path) {
        if record.settings != settings {
            let text = format!("it was put into {}", record.settings.display());
            self.drift("moved-settings", format!("{text}, and now {} is read", settings.display()));
        }
        if let Err(failure) = self.settings(draft, record) {
            self.failed("bad-settings", failure);
        }
        self.policy(draft, record);
        let program = head(&record.gate);
        if !can_run(&program) {
            let text =
                format!("the gate {} is not there, so every call is denied", program.display());
            self.drift("no-gate", text);
        }
        if let Err(failure) = self.surroundings(draft, record.commands) {
            self.failed("bad-settings", failure);
        }
    }

    fn settings(&mut self, draft: &mut Draft, record: &Record) -> Result<(), Failure> {
        let file = record.settings.display();
        let Some(source) = draft.source(&record.settings)? else {
            self.drift("no-entry", format!("{file} is not there"));
            return Ok(());
        };
        let Some(shape) = Shape::of(self.agent) else {
            if *source.text != *plugin::text(record, self.kept)? {
                self.drift("changed-entry", format!("{file} is changed"));
            }
            let said = draft.text(&self.kept.announcement())?;
            if !plugin::has_announced(said.as_deref(), record) {
                let text = "the plugin has not said that it was loaded since it was installed";
                let advice = "start opencode once, then look again";
                self.find(
                    InstallState::Unproven,
                    "not-announced",
                    text.to_owned(),
                    advice.to_owned(),
                );
            }
            return Ok(());
        };
        let shape = shape.beside(self.agent, record.commands);
        let root = json_text::parse(&source, shape.comments())?;
        let command = record.command(self.kept)?;
        match shape.find(&root, &self.scope.id(self.agent)).as_slice() {
            [] => self.drift("no-entry", format!("our entry is not in {file}")),
            [position] if shape.is_exact(&root, *position, &command) => {
                match self.agent.wrapping() {
                    Wrapping::Setting => self.commands(&root, record)?,
                    Wrapping::ChangedInput => self.changed_commands(draft, &root, record)?,
                }
                if self.agent == Agent::Codex {
                    let trust = codex_trust::trust(
                        self.places.codex_config(),
                        &record.settings,
                        shape,
                        *position,
                        &command,
                    );
                    self.trust(draft, &trust)?;
                }
            }
            [_] => self.drift("changed-entry", format!("our entry in {file} is changed")),
            [_, _, ..] => self.drift("changed-entry", format!("{file} holds our entry twice")),
        }
        Ok(())
    }

    /// Whether shell commands are still changed, and checked after they ran.
    fn changed_commands(
        &mut self,
        draft: &mut Draft,
        root: &Node,
        record: &Record,
    ) -> Result<(), Failure> {
        let (true, Some(shape)) = (record.changes_commands(), Shape::after(self.agent)) else {
            return Ok(());
        };
        let (file, command) = (record.settings.display(), record.command(self.kept)?);
        match shape.find(root, &self.scope.id(self.agent)).as_slice() {
            [position] if shape.is_exact(root, *position, &command) => {
                if self.agent == Agent::Codex {
                    let config = self.places.codex_config();
                    let trust =
                        codex_trust::trust(config, &record.settings, shape, *position, &command);
                    self.trust(draft, &trust)?;
                }
            }
            _ => {
                let text =
                    format!("our entry for {} in {file} is missing or was changed", shape.event());
                self.drift("changed-entry", text);
            }
        }
        let program = record.program.clone().unwrap_or_default();
        if !can_run(&program) {
            let text = format!("{} is not there, so every call is denied", program.display());
            self.drift("no-gate", text);
        }
        if self.agent == Agent::Codex {
            let file = self.places.codex_config();
            let source = draft.source(&file)?;
            let config = source.as_ref().map(codex_trust::parse).transpose()?.unwrap_or_default();
            for root in record.roots.iter().filter(|root| !codex_roots::has(&config, root)) {
                let text = format!(
                    "{} does not let commands write to {}, so Codex's own sandbox keeps them from running",
                    file.display(),
                    root.display()
                );
                self.drift("no-sandbox", text);
            }
        }
        if let Some(command) = Commands::of(self.kept.commands()).bypassing() {
            let text =
                format!("this command ran without the sandbox, so no more are allowed: {command}");
            let advice = "look for another hook that changes commands, then install again";
            self.find(InstallState::Drifted, "bypassed", text, advice.to_owned());
        }
        let around = self.context.repository().map(|repository| repository.root().to_owned());
        let repository = self.scope.root().cloned().or(around);
        for other in other_hooks::find(draft, self.places, self.agent, repository.as_deref())? {
            let (text, advice) = install::other_hook(&other, self.agent);
            self.find(InstallState::Intact, "other-hook", text, advice);
        }
        Ok(())
    }

    /// Whether shell commands still run in their sandbox.
    fn commands(&mut self, root: &Node, record: &Record) -> Result<(), Failure> {
        if record.commands == record::Commands::Free {
            return Ok(());
        }
        let shell = gate_command::text(&self.kept.shell())?;
        if shell_prefix::find(root, &shell) != shell_prefix::InstalledPrefix::Ours {
            let text =
                format!("env.{} is not ours in {}", shell_prefix::NAME, record.settings.display());
            self.drift("no-sandbox", format!("{text}, so shell commands run without a sandbox"));
        }
        let own = std::env::current_exe().ok();
        let expected =
            own.map(|own| sandboxed_shell::text(&own, self.kept, self.agent)).transpose()?;
        let found = std::fs::read_to_string(self.kept.shell()).ok();
        if found.is_some() && expected != found {
            let text = format!("{} is changed", self.kept.shell().display());
            self.drift("no-sandbox", text);
        }
        if !can_run(&self.kept.shell()) {
            let text =
                format!("{} is not there, so no shell command runs", self.kept.shell().display());
            self.drift("no-sandbox", text);
        }
        Ok(())
    }

    fn trust(&mut self, draft: &mut Draft, trust: &codex_trust::Trust) -> Result<(), Failure> {
        let file = self.places.codex_config();
        let source = draft.source(&file)?;
        let config = source.as_ref().map(codex_trust::parse).transpose()?.unwrap_or_default();
        if !codex_trust::is_trusted(&config, trust) {
            let text = format!(
                "{} does not trust the hook as it is, and Codex skips it in silence",
                file.display()
            );
            self.drift("no-trust", text);
        }
        if codex_trust::is_switched_off(&config, &trust.key) {
            let text =
                format!("hooks.state.\"{}\".enabled is false in {}", trust.key, file.display());
            self.find(
                InstallState::Drifted,
                "disarmed",
                text,
                "install it again with --fix".to_owned(),
            );
        }
        Ok(())
    }

    fn policy(&mut self, draft: &mut Draft, record: &Record) {
        let file = self.kept.policy();
        match draft.text(&file) {
            Err(failure) => self.failed("bad-policy", failure),
            Ok(None) => {
                let text = format!("{} is not there, so every call is denied", file.display());
                self.drift("no-policy", text);
            }
            Ok(Some(text)) if Sha256Hex::of(&text).as_str() != record.digest => {
                let text = format!("{} is changed, so every call is denied", file.display());
                self.drift("changed-policy", text);
            }
            Ok(Some(_)) => {}
        }
        let context = binding_context(self.context, self.scope, record.kit_root.clone());
        let now = record.what.what();
        let now = now.and_then(|what| Ok(policy_file::compile(&context, &what)?));
        match now {
            Ok(now) if now.digest == record.digest => {}
            Ok(_) => {
                let text =
                    format!("{} says something else now than was installed", record.what.shown());
                self.drift("stale-policy", text);
            }
            Err(failure) => self.failed("stale-policy", failure),
        }
    }

    fn surroundings(
        &mut self,
        draft: &mut Draft,
        commands: record::Commands,
    ) -> Result<(), Failure> {
        let around = self.context.repository().map(|repository| repository.root().to_owned());
        let repository = self.scope.root().cloned().or(around);
        for found in
            disarmed::find(draft, self.places, self.agent, repository.as_deref(), commands)?
        {
            let text = format!("{} in {}", found.what, found.file.display());
            let advice = match found.mended {
                Some(_) => "take that setting out, or install again with --fix",
                None => "ask the administrator of this machine",
            };
            self.find(InstallState::Drifted, "disarmed", text, advice.to_owned());
        }
        if let Some((text, advice)) =
            folder_trust::unread(draft, self.places, self.agent, self.scope)?
        {
            self.find(InstallState::Unproven, "not-trusted", text, advice);
        }
        Ok(())
    }
}

/// The context of a policy: for all repositories of a user, it does not depend on one repository.
pub fn binding_context(context: &Context, scope: &Scope, kit_root: Option<PathBuf>) -> Context {
    let directory = match scope {
        Scope::Repository(root) => root.clone(),
        Scope::User => PathBuf::from("/"),
    };
    Context { directory, kit_root, ..context.clone() }
}

//! What a task asks for that no run could give, as far as files say. `run` refuses it before anything is made;
//! `lint` says the same of the working copy.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bailiwick_lifecycle::supervision::{Budget, Redaction};
use bailiwick_model::task::Login;
use bailiwick_model::{Place, Problem, Settings, Source, Task};
use bailiwick_runner::agents::adapter::{Adapter, Assignment, Conversation, Gate};
use serde::Deserialize;
use serde::de::IgnoredAny;
use toml::Spanned;

use super::{assign, granted};
use crate::context::Context;
use crate::failure::Failure;
use crate::sources::{self, Files};
use crate::{agent_programs, logins, task_files};

/// The version of a program, if it is not cached.
const ANY_VERSION: &str = "0.0.0";

/// A task with all that decides whether it can be run.
pub struct Declared<'a> {
    /// The task.
    pub task: &'a Task,
    /// Its text.
    pub source: &'a Source,
    /// The repository's settings.
    pub settings: &'a Settings,
    /// The repository's files: those of the commit that binds the agent, or of the working copy.
    pub files: &'a Files<'a>,
    /// Where the user's kit is.
    pub user_kit: &'a Path,
    /// How it is paid for.
    pub login: Login,
}

/// The place in a file of something that is not available, and why.
struct LocatedFailure {
    place: Place,
    why: Failure,
}

impl Declared<'_> {
    /// Everything that prevents a run.
    pub fn problems(&self) -> Vec<Problem> {
        let refusals = self.refusals().into_iter();
        refusals.flat_map(|LocatedFailure { place, why }| as_problems(place, why)).collect()
    }

    /// The agent program, unless something prevents a run.
    pub fn require(&self) -> Result<Arc<dyn Adapter>, Failure> {
        match self.refusals().into_iter().next() {
            None => self.adapter(),
            Some(LocatedFailure { place, why }) => {
                Err(why.map_text(|text| format!("{text} ({place})")))
            }
        }
    }

    fn refusals(&self) -> Vec<LocatedFailure> {
        let places = Places::of(self.source);
        let adapter = match self.adapter() {
            Ok(adapter) => adapter,
            Err(why) => return vec![LocatedFailure { place: self.place_of_program(&places), why }],
        };
        let agent = &self.task.agent;
        let budget = Budget::of(&self.task.budget).0;
        let names: Vec<String> = agent.hand_over.iter().map(ToString::to_string).collect();
        let checks = [
            (
                &places.budget.usd,
                assign::require_prices(self.settings, self.task, adapter.as_ref(), &budget),
            ),
            (&places.agent.login, logins::require_usable(adapter.as_ref(), self.login)),
            (
                &places.agent.mcp_servers,
                assign::servers_in(self.files, &agent.mcp_servers).map(drop),
            ),
            (&places.agent.hand_over, task_files::read_in(self.files, &names).map(drop)),
            (&None, granted::require_names(agent)),
            (&None, self.plan(adapter.as_ref())),
        ];
        let refusal = |(span, checked): (&Span, Result<(), Failure>)| {
            Some(LocatedFailure { place: place(self.source, span), why: checked.err()? })
        };
        checks.into_iter().filter_map(refusal).collect()
    }

    fn adapter(&self) -> Result<Arc<dyn Adapter>, Failure> {
        let name = agent_programs::program_name(self.task, self.settings);
        agent_programs::adapter_in(self.files, self.user_kit, name)
    }

    /// Where the agent program is named: in the task, or in the settings.
    fn place_of_program(&self, places: &Places) -> Place {
        if self.task.agent.cli.is_some() || self.settings.run.cli.is_none() {
            return place(self.source, &places.agent.cli);
        }
        let file = format!("{}/settings.toml", sources::REPOSITORY_KIT);
        let text = (self.files)(&file).ok().flatten().unwrap_or_default();
        let source = Source::new(file, text);
        let span = Places::of(&source).run.cli;
        place(&source, &span)
    }

    /// Whether the program can be started as the task asks.
    fn plan(&self, adapter: &dyn Adapter) -> Result<(), Failure> {
        let agent = &self.task.agent;
        let budget = Budget::of(&self.task.budget).0;
        let text = |line: &bailiwick_model::task::Line| line.to_string();
        let granted = [&agent.secrets, &agent.configs].into_iter().flatten();
        let assignment = Assignment {
            version: ANY_VERSION.to_owned(),
            prompt: self.task.body.text.clone(),
            system_prompt: agent.system_prompt.clone(),
            model: agent.model.as_ref().map(text),
            effort: agent.effort.as_ref().map(text),
            session: Conversation::New(String::new()),
            worktree: PathBuf::new(),
            repository: PathBuf::new(),
            home: PathBuf::new(),
            model_url: String::new(),
            // One that the program cannot be run with is told by itself.
            login: match logins::require_usable(adapter, self.login) {
                Ok(()) => self.login,
                Err(_) => Login::ApiKey,
            },
            gate: Some(Gate { command: vec!["gate".to_owned()], seconds: 1 }),
            tools: None,
            searches: false,
            sub_agents: agent.sub_agents.clone(),
            mcp_servers: assign::servers_in(self.files, &agent.mcp_servers).unwrap_or_default(),
            instructions: Vec::new(),
            skills: BTreeMap::new(),
            turns: budget.turns,
            usd: budget.micro_usd.map(assign::dollars),
            script: agent.script.clone(),
            granted: granted.map(|name| (text(name), String::new())).collect(),
            hidden: Redaction::new(Vec::new()),
            granted_files: None,
            skill_files: None,
        };
        let planned = adapter.plan(&assignment).map(drop);
        planned.map_err(|error| Failure::refused(error.to_string()))
    }
}

/// What prevents a run of a task, by the working copy.
pub fn working_problems(context: &Context, source: &Source) -> Result<Vec<Problem>, Failure> {
    let Ok(task) = Task::parse(source) else { return Ok(Vec::new()) };
    let repository = context.repository();
    let root = repository.as_ref().map_or(context.directory.as_path(), |found| found.root());
    let files = |path: &str| match std::fs::read_to_string(root.join(path)) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Failure::general(format!("{path} cannot be read: {error}"))),
    };
    let file = format!("{}/settings.toml", sources::REPOSITORY_KIT);
    let settings = files(&file)?.unwrap_or_default();
    // What is wrong with the settings themselves is told by itself.
    let Ok(settings) = Settings::parse(&Source::new(file, settings)) else {
        return Ok(Vec::new());
    };
    let declared = Declared {
        task: &task,
        source,
        settings: &settings,
        files: &files,
        user_kit: &context.user_kit,
        login: task.agent.login,
    };
    Ok(declared.problems())
}

fn as_problems(place: Place, why: Failure) -> Vec<Problem> {
    match why {
        Failure::AtWork { .. } => {
            let advice = why.advice().map(Cow::into_owned);
            vec![Problem::error("cannot-run", place, why.to_string()).maybe_help(advice)]
        }
        Failure::Failed { text, help } | Failure::Refused { text, help } => {
            vec![Problem::error("cannot-run", place, text).maybe_help(help)]
        }
        Failure::Problems(problems) => problems,
    }
}

type Span = Option<Spanned<IgnoredAny>>;

fn place(source: &Source, span: &Span) -> Place {
    span.as_ref().map_or_else(|| source.whole(), |span| source.at(span.span()))
}

/// Where keys stand in a task or in the settings.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Places {
    agent: AgentPlaces,
    budget: BudgetPlaces,
    run: RunPlaces,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
struct AgentPlaces {
    cli: Span,
    login: Span,
    mcp_servers: Span,
    hand_over: Span,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct BudgetPlaces {
    usd: Span,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RunPlaces {
    cli: Span,
}

impl Places {
    fn of(source: &Source) -> Self {
        toml::from_str(&source.text).unwrap_or_default()
    }
}

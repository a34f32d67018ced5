//! The interface of an adapter: how its CLI is found, started, gated and parsed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use bailiwick_lifecycle::supervision::{CliBehaviour, Redaction};
use bailiwick_model::Event;
use bailiwick_model::event::{EventKind, ReportedBy};
use bailiwick_model::task::{Login, ScriptStep, SubAgent};
use bailiwick_policy::Decision;
use bailiwick_policy::dialects::Dialect;
use serde::Serialize;
use serde_json::Value;
use thiserror::Error;

use crate::proxy::{ModelApi, Models};

/// An agent program that Bailiwick can start.
///
/// `plan` and the reader are pure: the same assignment gives the same launch, the same lines give the
/// same events.
pub trait Adapter: Send + Sync {
    /// Our name for it.
    fn name(&self) -> &str;

    /// The program to look for on `PATH`.
    fn program(&self) -> &str;

    /// The dialect of its tool calls; `None` if it cannot have a gate.
    fn dialect(&self) -> Option<Dialect>;

    /// The API that it uses for its model; `None` if it has none, or cannot be redirected.
    fn model_api(&self) -> Option<ModelApi>;

    /// The small models that it uses on its own, besides the assigned one; `*` matches any text.
    fn side_models(&self) -> &[&str] {
        &[]
    }

    /// Whether all its processes that use its model exist before the first call of its model. A process that starts
    /// later is then a command of the agent, not a part of the program.
    fn no_late_model_clients(&self) -> bool {
        false
    }

    /// The names of an assigned model in requests: a CLI may use short names, and more than one model. `None` if
    /// only one model will be used, but not which.
    fn request_names(&self, model: Option<&str>) -> Vec<String> {
        model.map(str::to_owned).into_iter().collect()
    }

    /// The behaviour of its hooks.
    fn behaviour(&self) -> CliBehaviour;

    /// The arguments that print its version.
    fn version_arguments(&self) -> Vec<String> {
        vec!["--version".to_owned()]
    }

    /// The arguments that print the help of what is started.
    fn help_arguments(&self) -> Vec<String> {
        vec!["--help".to_owned()]
    }

    /// The models and efforts that this version supports, and its features, read from its help.
    fn capabilities(&self, version: &str, help: &str) -> Capabilities;

    /// How it is started.
    fn plan(&self, assignment: &Assignment) -> Result<ProgramLaunch, PlanError>;

    /// The requirements of a login; an error if the CLI does not support it.
    fn login(&self, login: Login) -> Result<LoginNeeds, PlanError>;

    /// The directories below its home with conversations. Only these are copied into the home of a later attempt:
    /// anything else that an agent leaves there could change how the next one is enforced.
    fn conversations(&self) -> Vec<String>;

    /// The command to run before the CLI if it has a conversation; `None` if a conversation contains nothing that
    /// could change enforcement.
    fn conversation_cleanup(&self) -> Option<ConversationCleanup> {
        None
    }

    /// Reads what it prints while it works in `worktree`.
    fn reader(&self, worktree: &Path) -> Box<dyn Reader>;

    /// The protocol with which it asks its gate on its own standard streams; `None` if it starts the gate as a
    /// program.
    fn stdio_gate(&self) -> Option<Box<dyn ControlProtocol>> {
        None
    }

    /// The protocol with which it asks its gate over HTTP, at [`GATE_PATH`](crate::proxy::GATE_PATH) below the
    /// address of its model: each message is a POST request with its answer.
    fn http_gate(&self) -> Option<Box<dyn ControlProtocol>> {
        None
    }

    /// The tool call of its model for a shell command: the native name and the input.
    fn shell_call(&self, command: &str) -> (String, Value);
}

/// Reads a program's output, line by line.
pub trait Reader: Send {
    /// The events in a line of standard output. A line that is not understood is [`EventKind::Other`] with its raw
    /// text.
    fn line(&mut self, line: &str) -> Vec<ParsedEvent>;

    /// The verdict from its exit code and the end of its standard error.
    fn end(&mut self, code: Option<i32>, errors: &str) -> Verdict;
}

/// A CLI that asks us, and not a gate that it starts: on its standard streams, or over HTTP.
pub trait ControlProtocol: Send {
    /// Parses a line of its output, or a message.
    fn parse(&mut self, line: &str) -> Option<ControlMessage>;
}

/// A message of a CLI that uses a control protocol.
pub enum ControlMessage {
    /// A decision about a call: the payload, as a hook would get it, and the decision in its words.
    Decide(String, Box<dyn FnOnce(&Decision) -> String + Send>),
    /// Nothing, but it has begun to work, or again.
    Working,
    /// The reply; the message also announces that the gate is connected.
    Announce(String),
    /// The reply.
    Reply(String),
    /// The CLI is done, and exits when its input is closed.
    Finished,
    /// Nothing more, but for what it has left running in the background.
    OnlyBackgroundWork,
}

/// A parsed event.
#[derive(Debug, Clone, PartialEq)]
pub struct ParsedEvent {
    /// The sub-agent that it is about.
    pub agent: Option<String>,
    pub what: EventKind,
}

impl ParsedEvent {
    /// Of the agent itself.
    pub fn of(what: EventKind) -> Self {
        Self { agent: None, what }
    }

    /// The event that it is at this moment.
    pub fn event(self, at: u64, raw: Option<&str>) -> Event {
        Event {
            number: 0,
            at,
            reported_by: ReportedBy::Program,
            agent: self.agent,
            what: self.what,
            raw: raw.map(str::to_owned),
        }
    }
}

/// How a CLI reports its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// Whether it reports success.
    pub completed: bool,
    /// Its final message or error.
    pub words: String,
}

/// The capabilities of a CLI, in one schema for all.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Capabilities {
    /// Models that it is known to support, by name or by pattern: `*` matches any text.
    pub models: Vec<String>,
    /// The supported efforts.
    pub efforts: Vec<String>,
    /// The same for those of `models` that differ.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub model_efforts: BTreeMap<String, Vec<String>>,
    /// Whether a conversation can be resumed.
    pub resume: bool,
    /// Whether it can start sub-agents.
    pub sub_agents: bool,
    /// Whether it supports MCP servers.
    pub mcp: bool,
    /// Whether it supports a system prompt.
    pub system_prompt: bool,
    /// Whether it can limit its turns.
    pub turn_limit: bool,
    /// Whether it can limit its cost.
    pub money_limit: bool,
    /// Whether its tools can be listed.
    pub tool_lists: bool,
    /// Expected features that its help does not mention.
    pub missing: Vec<String>,
}

impl Capabilities {
    /// The supported efforts of one of its models.
    pub fn efforts_of(&self, model: &str) -> &[String] {
        self.model_efforts.get(model).unwrap_or(&self.efforts)
    }
}

/// The inputs of a launch.
#[derive(Debug, Clone, PartialEq)]
pub struct Assignment {
    /// The program's version.
    pub version: String,
    pub prompt: String,
    /// Text in front of everything else.
    pub system_prompt: Option<String>,
    /// The model.
    pub model: Option<String>,
    /// How hard it thinks.
    pub effort: Option<String>,
    /// The conversation.
    pub session: Conversation,
    pub worktree: PathBuf,
    /// The root of the repository that the worktree belongs to.
    pub repository: PathBuf,
    /// Its home, which is ours, without links in its path: files of the launch are written below it.
    pub home: PathBuf,
    /// The address of its model: our proxy, as `http://127.0.0.1:PORT`.
    pub model_url: String,
    /// How it is paid for.
    pub login: Login,
    /// The gate, as a program and its arguments without `--dialect`; nothing leaves it ungated.
    pub gate: Option<Gate>,
    /// The tools of our vocabulary that it may use, as globs; nothing means any.
    pub tools: Option<Vec<String>>,
    /// Whether its model may search the web on its own side, where no gate sees it.
    pub searches: bool,
    /// Agents that it may start.
    pub sub_agents: Vec<SubAgent>,
    /// MCP servers by name, each as `.mcp.json` describes it.
    pub mcp_servers: BTreeMap<String, Value>,
    /// Instructions of the repository for agents, from the base commit: CLAUDE.md, AGENTS.md, GEMINI.md.
    pub instructions: Vec<Instruction>,
    /// Skills, from the base commit: paths below `skills/`, and their texts.
    pub skills: BTreeMap<String, String>,
    /// The number of model responses after which it should stop.
    pub turns: Option<u64>,
    /// The cost in dollars after which it should stop.
    pub usd: Option<f64>,
    /// Steps of a scripted agent.
    pub script: Vec<ScriptStep>,
    /// Variables that the person has granted.
    pub granted: Vec<(String, String)>,
    /// What must not be shown of it.
    pub hidden: Redaction,
    /// A directory that only it can read, if files were granted to it.
    pub granted_files: Option<PathBuf>,
    /// A directory with the files of skills, which it can only read.
    pub skill_files: Option<PathBuf>,
}

impl Assignment {
    /// The models that it may use: its own and those of its sub-agents, or the first one that it requests.
    pub fn models(&self, adapter: &dyn Adapter) -> Models {
        let side = adapter.side_models().iter().map(|&name| name.to_owned()).collect();
        let own = adapter.request_names(self.model.as_deref());
        let is_known = !own.is_empty();
        let agents = self.sub_agents.iter().filter_map(|agent| agent.model.as_ref());
        let agents = agents.flat_map(|model| adapter.request_names(Some(model.as_str())));
        let own = own.into_iter().chain(agents).collect();
        if is_known { Models::Named { own, side } } else { Models::First { own, side } }
    }

    /// One with no task: what is left of it is how the program is started.
    pub fn empty(version: String, session: Conversation, worktree: PathBuf, home: PathBuf) -> Self {
        Self {
            version,
            prompt: String::new(),
            system_prompt: None,
            model: None,
            effort: None,
            session,
            repository: worktree.clone(),
            worktree,
            home,
            model_url: String::new(),
            login: Login::ApiKey,
            gate: None,
            tools: None,
            searches: false,
            sub_agents: Vec::new(),
            mcp_servers: BTreeMap::new(),
            instructions: Vec::new(),
            skills: BTreeMap::new(),
            turns: None,
            usd: None,
            script: Vec::new(),
            granted: Vec::new(),
            hidden: Redaction::default(),
            granted_files: None,
            skill_files: None,
        }
    }
}

/// How the gate is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gate {
    /// The program and the arguments that lead to the supervisor.
    pub command: Vec<String>,
    /// How many seconds an answer may take; the program must wait longer than that.
    pub seconds: u64,
}

/// The conversation of an attempt: a new one, or an earlier one that continues.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Conversation {
    /// A new one, which gets this name where the program lets us choose.
    New(String),
    /// One that is there already.
    Resume(String),
}

/// A file with instructions for agents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instruction {
    /// Its path from the repository's root.
    pub path: String,
    /// Its text.
    pub text: String,
}

/// How a program is started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProgramLaunch {
    /// Its arguments, without the program itself.
    pub arguments: Vec<String>,
    /// Its whole environment, but for PATH, HOME, TMPDIR and the language, which the supervisor adds.
    pub environment: Vec<(String, String)>,
    /// Files to write below its home first, by their path from there.
    pub files: BTreeMap<String, String>,
    /// Its configuration: paths below its home that stay unchanged while it runs, with everything in them. A path
    /// that is not one of the files is a directory. Some CLIs read their settings again as soon as they change, and
    /// everything that the agent starts could change them.
    pub fixed: Vec<String>,
    /// Exceptions that stay writable.
    pub open: Vec<String>,
    /// Its standard input.
    pub input: Input,
}

/// The standard input of a CLI.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Input {
    /// Nothing.
    Nothing,
    /// A text, to its end.
    Text(String),
    /// These lines, and then the answers of the control protocol.
    ControlProtocol(Vec<String>),
}

/// How a CLI removes from its own conversations what an earlier attempt may have planted there. It runs in the
/// agent's sandbox, without a network; if it fails, nothing is started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConversationCleanup {
    /// The file below its home that is cleared; where there is none, nothing is run.
    pub file: String,
    /// The arguments of the program.
    pub arguments: Vec<String>,
    /// Variables besides its own.
    pub environment: Vec<(String, String)>,
}

/// The requirements of a login besides those of `plan`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct LoginNeeds {
    /// Variables of the person's environment that are passed on where they are set.
    pub variables: Vec<String>,
    /// Files below the person's home that are copied to the agent's where they are there.
    pub files: Vec<String>,
    /// Whether its requests go to the given address of the model. If not, nothing counts its tokens or watches its
    /// gate from outside, and it needs hosts of its own.
    pub proxied: bool,
}

/// Why a CLI cannot be started as the task requires.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{cli} cannot {what}: {why}")]
pub struct PlanError {
    /// The agent program.
    pub cli: String,
    /// The setting that is not supported.
    pub what: String,
    /// Why not.
    pub why: String,
}

impl PlanError {
    /// It cannot do this, because of that.
    pub fn new(cli: &str, what: impl Into<String>, why: impl Into<String>) -> Self {
        Self { cli: cli.to_owned(), what: what.into(), why: why.into() }
    }
}

//! What every adapter gives: how its program is found, started, gated and read.

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

    /// Whose tool calls it makes; `None` if it can have no gate.
    fn dialect(&self) -> Option<Dialect>;

    /// How it speaks to its model; `None` if it has none, or cannot be redirected.
    fn wire(&self) -> Option<ModelApi>;

    /// The small models that it asks by itself, beside the one that it is told; `*` stands for any text.
    fn side_models(&self) -> &[&str] {
        &[]
    }

    /// Whether all processes that ask its model are there before its model's first call: what is started
    /// later is then a command of its agent, and no part of it.
    fn no_late_model_clients(&self) -> bool {
        false
    }

    /// What the model that a task names is called in requests: a program may have short names, and more than
    /// one model. `None` if all that is known is that it will be one.
    fn asked_as(&self, model: Option<&str>) -> Vec<String> {
        model.map(str::to_owned).into_iter().collect()
    }

    /// What is known of its hooks.
    fn behaviour(&self) -> CliBehaviour;

    /// The arguments that print its version.
    fn version_arguments(&self) -> Vec<String> {
        vec!["--version".to_owned()]
    }

    /// The arguments that print the help of what is started.
    fn help_arguments(&self) -> Vec<String> {
        vec!["--help".to_owned()]
    }

    /// The models and efforts that this version knows, and what it can do; read off the program, whose
    /// help is `help`.
    fn capabilities(&self, version: &str, help: &str) -> Capabilities;

    /// How it is started.
    fn plan(&self, assignment: &Assignment) -> Result<Launch, PlanError>;

    /// What a login needs of the person's; one that the program cannot use is an error.
    fn login(&self, login: Login) -> Result<LoginNeeds, PlanError>;

    /// Where below its home it keeps conversations. Only this may be carried over into the home of a
    /// later attempt: whatever else an agent leaves in its home could change how the next one is held.
    fn conversations(&self) -> Vec<String>;

    /// What is run before the program if it has a conversation; `None` where that holds nothing that could
    /// change how it is held.
    fn conversation_cleanup(&self) -> Option<ConversationCleanup> {
        None
    }

    /// Reads what it prints while it works in `worktree`.
    fn reader(&self, worktree: &Path) -> Box<dyn Reader>;

    /// How it asks its gate where it does so on its own standard streams; `None` where it starts the gate as
    /// a program.
    fn stdio_gate(&self) -> Option<Box<dyn ControlProtocol>> {
        None
    }

    /// How it asks its gate where it does so over HTTP, at [`GATE_PATH`](crate::proxy::GATE_PATH) below its
    /// model's address: each message is posted, and answered at once.
    fn http_gate(&self) -> Option<Box<dyn ControlProtocol>> {
        None
    }

    /// The tool call that its model would make to run a shell command: its native name and input.
    fn shell_call(&self, command: &str) -> (String, Value);
}

/// Reads a program's output, line by line.
pub trait Reader: Send {
    /// What a line of standard output says. A line that says nothing known is [`EventKind::Other`], kept raw.
    fn line(&mut self, line: &str) -> Vec<ParsedEvent>;

    /// What the end of the program says, by its exit code and the last of its standard error.
    fn end(&mut self, code: Option<i32>, errors: &str) -> Verdict;
}

/// A program that asks us, and not a gate that it starts: on its standard output, where it is answered
/// on its standard input, or over HTTP.
pub trait ControlProtocol: Send {
    /// What a line of its output, or a message, wants of us.
    fn parse(&mut self, line: &str) -> Option<ControlMessage>;
}

/// What a program wants that talks with us.
pub enum ControlMessage {
    /// A decision about a call: the payload, as a hook would get it, and the decision in its words.
    Decide(String, Box<dyn FnOnce(&Decision) -> String + Send>),
    /// Nothing, but it has begun to work, or again.
    Working,
    /// To be told this, and it says that its gate is there.
    Announce(String),
    /// To be told this.
    Reply(String),
    /// Nothing more: it has done what it was told, and ends when nobody can tell it more.
    Finished,
    /// Nothing more, but for what it has left running in the background.
    OnlyBackgroundWork,
}

/// What was read.
#[derive(Debug, Clone, PartialEq)]
pub struct ParsedEvent {
    /// The sub-agent that it is about.
    pub agent: Option<String>,
    /// What happened.
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
            seen_by: ReportedBy::Program,
            agent: self.agent,
            what: self.what,
            raw: raw.map(str::to_owned),
        }
    }
}

/// What a program says of its own end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// Whether it says that it is done.
    pub completed: bool,
    /// Its last words, or what went wrong.
    pub words: String,
}

/// What a program can do, in one schema for all.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Capabilities {
    /// Models that it is known to take, by their names or by the form that these have: `*` stands for
    /// any text.
    pub models: Vec<String>,
    /// How hard it can be told to think.
    pub efforts: Vec<String>,
    /// The same for those of `models` where it differs.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub model_efforts: BTreeMap<String, Vec<String>>,
    /// Whether a conversation can be resumed.
    pub resume: bool,
    /// Whether it can start agents by itself.
    pub sub_agents: bool,
    /// Whether it takes MCP servers.
    pub mcp: bool,
    /// Whether it takes a system prompt.
    pub system_prompt: bool,
    /// Whether it ends by itself at a number of turns.
    pub turn_limit: bool,
    /// Whether it ends by itself at an amount of money.
    pub money_limit: bool,
    /// Whether it is told which tools there are.
    pub tool_lists: bool,
    /// What of this was expected of the program, and not found in its help.
    pub missing: Vec<String>,
}

impl Capabilities {
    /// How hard one of its models can be told to think.
    pub fn efforts_of(&self, model: &str) -> &[String] {
        self.model_efforts.get(model).unwrap_or(&self.efforts)
    }
}

/// The inputs of a launch.
#[derive(Debug, Clone, PartialEq)]
pub struct Assignment {
    /// The program's version.
    pub version: String,
    /// What the agent is told.
    pub prompt: String,
    /// What stands before everything else.
    pub system_prompt: Option<String>,
    /// The model.
    pub model: Option<String>,
    /// How hard it thinks.
    pub effort: Option<String>,
    /// The conversation.
    pub session: Session,
    /// Where it works.
    pub worktree: PathBuf,
    /// The root of the repository that the worktree belongs to.
    pub repository: PathBuf,
    /// Its home, which is ours, without links in its path: files of the launch are written below it.
    pub home: PathBuf,
    /// Where its model is: our proxy, as `http://127.0.0.1:PORT`.
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
    /// What the repository tells agents, from the base commit: CLAUDE.md, AGENTS.md, GEMINI.md.
    pub instructions: Vec<Instruction>,
    /// Skills, from the base commit: paths below `skills/`, and their texts.
    pub skills: BTreeMap<String, String>,
    /// Answers of the model after which it should end by itself.
    pub turns: Option<u64>,
    /// Money after which it should end by itself, in dollars.
    pub usd: Option<f64>,
    /// Steps of a scripted agent.
    pub script: Vec<ScriptStep>,
    /// Variables that the person has granted.
    pub granted: Vec<(String, String)>,
    /// What of it must never be seen.
    pub hidden: Redaction,
    /// A directory that it can read and nobody else sees, if anything was granted to it in files.
    pub granted_files: Option<PathBuf>,
    /// A directory with the files of skills, which it can only read.
    pub skill_files: Option<PathBuf>,
}

impl Assignment {
    /// The models that it may ask: its own and those of its sub-agents, or the first one that it asks.
    pub fn models(&self, adapter: &dyn Adapter) -> Models {
        let side = adapter.side_models().iter().map(|&name| name.to_owned()).collect();
        let own = adapter.asked_as(self.model.as_deref());
        let is_known = !own.is_empty();
        let agents = self.sub_agents.iter().filter_map(|agent| agent.model.as_ref());
        let agents = agents.flat_map(|model| adapter.asked_as(Some(model.as_str())));
        let own = own.into_iter().chain(agents).collect();
        if is_known { Models::Named { own, side } } else { Models::First { own, side } }
    }

    /// One with no task: what is left of it is how the program is started.
    pub fn empty(version: String, session: Session, worktree: PathBuf, home: PathBuf) -> Self {
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

/// A conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Session {
    /// A new one, which gets this name where the program lets us choose.
    New(String),
    /// One that is there already.
    Resume(String),
}

/// A file that tells agents something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instruction {
    /// Its path from the repository's root.
    pub path: String,
    /// Its text.
    pub text: String,
}

/// How a program is started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Launch {
    /// Its arguments, without the program itself.
    pub arguments: Vec<String>,
    /// Its whole environment, but for PATH, HOME, TMPDIR and the language, which the supervisor adds.
    pub environment: Vec<(String, String)>,
    /// Files to write below its home first, by their path from there.
    pub files: BTreeMap<String, String>,
    /// How it is set up: paths below its home that stay as they are while it runs, with all that is in
    /// them. What is none of the files is a directory. Some programs read their settings again as soon
    /// as they change, and whatever the agent starts could change them.
    pub fixed: Vec<String>,
    /// What is written in there all the same.
    pub open: Vec<String>,
    /// What it reads on standard input.
    pub input: Input,
}

/// What a program reads on standard input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Input {
    /// Nothing.
    Nothing,
    /// A text, to its end.
    Text(String),
    /// These lines, and then whatever it is answered: it talks with us.
    ControlProtocol(Vec<String>),
}

/// How a program takes out of its own conversations what an earlier attempt may have left there for it.
/// It is run in the agent's sandbox, with no way out of it; if it does not succeed, nothing is started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConversationCleanup {
    /// The file below its home that is cleared; where there is none, nothing is run.
    pub file: String,
    /// The arguments of the program.
    pub arguments: Vec<String>,
    /// Variables besides its own.
    pub environment: Vec<(String, String)>,
}

/// What a login needs besides what `plan` gives.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct LoginNeeds {
    /// Variables of the person's environment that are passed on where they are set.
    pub variables: Vec<String>,
    /// Files below the person's home that are copied to the agent's where they are there.
    pub files: Vec<String>,
    /// Whether its requests go to the model's address that it is given. If not, nobody counts its
    /// tokens or watches its gate from outside, and it needs hosts of its own.
    pub proxied: bool,
}

/// Why a program cannot be started as the task asks.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{cli} cannot {what}: {why}")]
pub struct PlanError {
    /// The agent program.
    pub cli: String,
    /// What was asked of it.
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

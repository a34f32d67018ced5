//! `[agent]` of a task: the agent CLI, its access and its sub-agents.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Line;
use crate::template::ContextLimits;

/// `[agent]`: the agent program, and what it is given.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Agent {
    /// Which one: `claude-code`, `codex`, `gemini`, `opencode`, `script`, or one that a manifest
    /// describes.
    #[schemars(with = "Option<String>")]
    pub cli: Option<Line>,
    /// Which model.
    #[schemars(with = "Option<String>")]
    pub model: Option<Line>,
    /// The reasoning effort, in the CLI's own words.
    #[schemars(with = "Option<String>")]
    pub effort: Option<Line>,
    /// How it is paid for; an API key that it never sees when left out.
    pub login: Login,
    /// Text in front of everything else in the system prompt.
    pub system_prompt: Option<String>,
    /// Sub-agents that it may start inside its CLI.
    pub sub_agents: Vec<SubAgent>,
    /// Templates of agents that it may start as separate runs; `*` and `?` match; none when left out.
    #[schemars(with = "Vec<String>")]
    pub allowed_subagents: Vec<Line>,
    /// MCP servers that it may use, by their names in the `.mcp.json` of the base commit.
    #[schemars(with = "Vec<String>")]
    pub mcp_servers: Vec<Line>,
    /// Variables of your environment that it gets; it sees no other.
    #[schemars(with = "Vec<String>")]
    pub secrets: Vec<Line>,
    /// Variables of your environment whose values arrive in files that only the agent can read, while it runs: the
    /// path of `TOKEN` is in `TOKEN_FILE`.
    #[schemars(with = "Vec<String>")]
    pub secret_files: Vec<Line>,
    /// Variables of your environment that it also receives and that are not secret.
    #[schemars(with = "Vec<String>")]
    pub configs: Vec<Line>,
    /// The same, in files: the path of `RULES` is in `RULES_FILE`.
    #[schemars(with = "Vec<String>")]
    pub config_files: Vec<Line>,
    /// Hosts that it can reach besides the model, as `host:port`.
    #[schemars(with = "Vec<String>")]
    pub hosts: Vec<Line>,
    /// What it may load before it starts; unlimited when left out.
    pub context: Option<ContextLimits>,
    /// Files of the base commit whose texts it receives with its task, by their paths.
    #[schemars(with = "Vec<String>")]
    pub hand_over: Vec<Line>,
    /// The idle timeout in minutes; 10 when left out.
    #[schemars(range(min = 1))]
    pub idle_minutes: Option<u32>,
    /// The steps of the agent `script`, in order.
    pub script: Vec<ScriptStep>,
}

/// How an agent program is paid for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Login {
    /// An API key of your environment, which stays with the supervisor.
    #[default]
    ApiKey,
    /// The login of the CLI in your home directory; it is copied to the agent.
    Subscription,
    /// Amazon Bedrock, with the AWS variables of your environment.
    Bedrock,
    /// Google Vertex AI, with the Google variables of your environment.
    Vertex,
}

impl Login {
    /// The login for a word in the file.
    pub fn parse(word: &str) -> Option<Self> {
        let all = [Self::ApiKey, Self::Subscription, Self::Bedrock, Self::Vertex];
        all.into_iter().find(|login| login.as_str() == word)
    }

    /// The word in the file.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ApiKey => "api-key",
            Self::Subscription => "subscription",
            Self::Bedrock => "bedrock",
            Self::Vertex => "vertex",
        }
    }
}

/// `[[agent.sub-agents]]`: an agent that the agent may start by itself.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct SubAgent {
    /// Its name.
    #[schemars(with = "String")]
    pub name: Line,
    /// When to use it.
    pub description: String,
    /// Its prompt.
    pub prompt: String,
    /// Its tools; those of the agent when left out.
    #[serde(default)]
    pub tools: Option<Vec<String>>,
    /// Its model; the agent's when left out.
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    pub model: Option<Line>,
}

/// `[[agent.script]]`: one step of a scripted agent, which needs no model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", tag = "do")]
pub enum ScriptStep {
    /// Prints a text.
    Say {
        /// The text.
        text: String,
    },
    /// Runs a shell command.
    Shell {
        /// The command.
        command: String,
    },
    /// Creates a file, or replaces its content.
    Write {
        /// The file.
        path: String,
        /// All of its text.
        text: String,
    },
    /// Changes the first place where a file has a text.
    Edit {
        /// The file.
        path: String,
        /// The text that is there.
        old: String,
        /// The new text.
        new: String,
    },
    /// Reads a file.
    Read {
        /// The file.
        path: String,
    },
    /// Waits.
    Wait {
        /// The time to wait.
        milliseconds: u64,
    },
    /// Ends with this exit code; without it, the script ends with 0.
    Exit {
        /// The code.
        code: u8,
    },
}

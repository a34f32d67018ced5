//! Our entry among the hooks of Claude Code, Codex and Gemini CLI, which are laid out alike.

use bailiwick_model::{Problem, Source};
use bailiwick_policy::protocol::GATE_COULD_NOT_RUN;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::agent::Agent;
use super::json_edit;
use super::json_text::{self, Comments, Kind, Node};
use super::record::Commands;
use crate::failure::Failure;

/// The name of our hook in Gemini CLI.
pub const NAME: &str = "bailiwick-gate";

/// A day: a gate that hangs blocks the call instead of allowing it.
pub const SECONDS: u64 = 86_400;

/// The format of the entry for one CLI.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    event: &'static str,
    /// The name of the event in the trust of Codex.
    trusted_as: &'static str,
    matcher: &'static str,
    timeout: u64,
    name: Option<&'static str>,
    comments: Comments,
    form: Form,
}

/// How a hook names its program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// As a line that the program's own shell runs.
    Line,
    /// As a shell with its arguments. A program through which shell commands are started is left out then.
    Arguments,
}

/// The entry: one matcher with one hook.
#[derive(Debug, Clone, Serialize)]
struct Group<'a> {
    matcher: &'a str,
    hooks: [Hook<'a>; 1],
}

#[derive(Debug, Clone, Serialize)]
struct Hook<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(rename = "type")]
    kind: &'a str,
    command: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    args: Option<[&'a str; 2]>,
    timeout: u64,
}

/// The position of our hook: its group, and its index in the group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// The group.
    pub group: usize,
    /// The hook in it.
    pub hook: usize,
}

/// What was created for our entry, and is removed with it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Made {
    /// The whole file.
    pub file: bool,
    /// The object `hooks`.
    pub hooks: bool,
    /// The list of the event.
    pub event: bool,
    /// The object `env`.
    #[serde(default)]
    pub env: bool,
    /// The list of the event after a call.
    #[serde(default)]
    pub after: bool,
}

impl Made {
    /// The same for the entry after a call.
    #[must_use]
    pub fn for_after(self) -> Self {
        Self { event: self.after, ..self }
    }
}

impl Shape {
    /// The shape of a program that has such settings.
    pub fn of(agent: Agent) -> Option<Self> {
        let shape = |event, matcher| Self {
            event,
            trusted_as: "pre_tool_use",
            matcher,
            timeout: SECONDS,
            name: None,
            comments: Comments::Refused,
            form: Form::Line,
        };
        match agent {
            Agent::Claude => Some(shape("PreToolUse", "*")),
            Agent::Codex => Some(shape("PreToolUse", ".*")),
            Agent::Gemini => Some(Self {
                timeout: SECONDS * 1000,
                name: Some(NAME),
                comments: Comments::Allowed,
                ..shape("BeforeTool", ".*")
            }),
            Agent::OpenCode => None,
        }
    }

    /// The entry after a call, for a CLI whose commands are changed before.
    pub fn after(agent: Agent) -> Option<Self> {
        let event = match agent {
            Agent::Codex => "PostToolUse",
            Agent::Gemini => "AfterTool",
            Agent::Claude | Agent::OpenCode => return None,
        };
        Some(Self { event, trusted_as: "post_tool_use", ..Self::of(agent)? })
    }

    /// The same for an agent with sandboxed shell commands: a hook of Claude Code that is a shell line would start
    /// in their sandbox.
    #[must_use]
    pub fn beside(self, agent: Agent, commands: Commands) -> Self {
        match (agent, commands) {
            (Agent::Claude, Commands::Sandboxed) => Self { form: Form::Arguments, ..self },
            (Agent::Codex | Agent::Gemini | Agent::OpenCode, Commands::Sandboxed)
            | (_, Commands::Free) => self,
        }
    }

    /// The name of the event in the trust of Codex.
    pub fn trusted_as(&self) -> &'static str {
        self.trusted_as
    }

    /// The event, as settings name it.
    pub fn event(&self) -> &'static str {
        self.event
    }

    /// Whether its files may hold comments.
    pub fn comments(&self) -> Comments {
        self.comments
    }

    /// The matcher for every tool.
    pub fn matcher(&self) -> &'static str {
        self.matcher
    }

    fn group<'a>(&'a self, command: &'a str) -> Group<'a> {
        let (command, args) = match self.form {
            Form::Line => (command, None),
            Form::Arguments => ("/bin/sh", Some(["-c", command])),
        };
        let hook = Hook { name: self.name, kind: "command", command, args, timeout: self.timeout };
        Group { matcher: self.matcher, hooks: [hook] }
    }

    /// Every hook of ours in the settings. `id` is in the path of our policy.
    pub fn find(&self, root: &Node, id: &str) -> Vec<Position> {
        let path = format!("/hooks/{id}/policy.json");
        let ours = |hook: &Node| {
            let words = hook.get("args").map(Node::items).unwrap_or_default();
            let mut words = hook.get("command").into_iter().chain(words).filter_map(Node::text);
            words.any(|text| text.contains(GATE_COULD_NOT_RUN) || text.contains(&path))
        };
        let groups = root.at(&["hooks", self.event]).map(Node::items).unwrap_or_default();
        let hooks = groups.iter().enumerate().flat_map(|(group, node)| {
            let hooks = node.get("hooks").map(Node::items).unwrap_or_default();
            hooks.iter().enumerate().map(move |(hook, node)| (Position { group, hook }, node))
        });
        hooks.filter(|(_, hook)| ours(hook)).map(|(position, _)| position).collect()
    }

    /// Whether the group at a position is exactly what would be written.
    pub fn is_exact(&self, root: &Node, position: Position, command: &str) -> bool {
        let wanted = serde_json::to_value(self.group(command));
        let group = self.group_at(root, position);
        group.map(Node::value).is_some_and(|found| wanted.is_ok_and(|wanted| wanted == found))
    }

    /// The settings with our entry, its place, and what was created for it.
    pub fn put(
        &self,
        source: &Source,
        id: &str,
        command: &str,
    ) -> Result<(String, Position, Made), Failure> {
        let mut made = Made::default();
        let mut text = source.text.to_string();
        let mut root = self.parse(source, &text)?;
        let found = self.find(&root, id);
        if let [position] = found.as_slice()
            && self.stands_alone(&root, *position)
            && let Some(group) = self.group_at(&root, *position)
        {
            if !self.is_exact(&root, *position, command) {
                text = json_edit::replace(&text, group, &self.group(command)).map_err(unwritten)?;
            }
            return Ok((text, *position, made));
        }
        if !found.is_empty() {
            text = self.without(source, text, id, Made::default())?;
            root = self.parse(source, &text)?;
        }
        if root.get("hooks").is_none() {
            made.hooks = true;
            text = json_edit::append(&text, &root, Some("hooks"), &json!({})).map_err(unwritten)?;
            root = self.parse(source, &text)?;
        }
        let hooks = self.expect(source, root.get("hooks"), "hooks", "an object")?;
        if hooks.get(self.event).is_none() {
            made.event = true;
            let none: [Value; 0] = [];
            text = json_edit::append(&text, hooks, Some(self.event), &none).map_err(unwritten)?;
            root = self.parse(source, &text)?;
        }
        let list = self.expect(source, root.at(&["hooks", self.event]), self.event, "a list")?;
        let position = Position { group: list.items().len(), hook: 0 };
        text = json_edit::append(&text, list, None, &self.group(command)).map_err(unwritten)?;
        Ok((text, position, made))
    }

    /// The settings without our entry and what was created for it.
    pub fn take(&self, source: &Source, id: &str, made: Made) -> Result<String, Failure> {
        self.without(source, source.text.to_string(), id, made)
    }

    fn without(
        &self,
        source: &Source,
        mut text: String,
        id: &str,
        made: Made,
    ) -> Result<String, Failure> {
        let mut found_any = false;
        loop {
            let root = self.parse(source, &text)?;
            let list = root.at(&["hooks", self.event]);
            let (Some(position), Some(list)) = (self.find(&root, id).pop(), list) else { break };
            found_any = true;
            let group = list.items().get(position.group);
            let hooks = group.and_then(|group| group.get("hooks"));
            text = match hooks {
                Some(hooks) if hooks.items().len() > 1 => {
                    json_edit::remove(&text, hooks, position.hook)
                }
                Some(_) | None => json_edit::remove(&text, list, position.group),
            };
        }
        if !found_any {
            return Ok(text);
        }
        for (path, key, ours) in
            [(&["hooks"][..], self.event, made.event), (&[][..], "hooks", made.hooks)]
        {
            let root = self.parse(source, &text)?;
            let Some(parent) = root.at(path) else { continue };
            let index = parent.members().iter().position(|member| member.key == key);
            let empty = parent.get(key).is_some_and(|node| match &node.kind {
                Kind::Object(members) => members.is_empty(),
                Kind::Array(items) => items.is_empty(),
                Kind::Scalar(_) => false,
            });
            if let Some(index) = index.filter(|_| ours && empty) {
                text = json_edit::remove(&text, parent, index);
            }
        }
        Ok(text)
    }

    /// Whether the group at a position contains only that hook.
    pub fn stands_alone(&self, root: &Node, position: Position) -> bool {
        let group = self.group_at(root, position);
        group.and_then(|group| group.get("hooks")).is_some_and(|hooks| hooks.items().len() == 1)
    }

    fn group_at<'a>(&self, root: &'a Node, position: Position) -> Option<&'a Node> {
        root.at(&["hooks", self.event])?.items().get(position.group)
    }

    /// How many groups the event has.
    pub fn groups(&self, root: &Node) -> usize {
        root.at(&["hooks", self.event]).map_or(0, |list| list.items().len())
    }

    fn parse(&self, source: &Source, text: &str) -> Result<Node, Problem> {
        json_text::parse(&Source::new(source.file.clone(), text), self.comments)
    }

    fn expect<'a>(
        &self,
        source: &Source,
        node: Option<&'a Node>,
        key: &str,
        kind: &str,
    ) -> Result<&'a Node, Problem> {
        let fits = |node: &&Node| match &node.kind {
            Kind::Object(_) => kind == "an object",
            Kind::Array(_) => kind == "a list",
            Kind::Scalar(_) => false,
        };
        node.filter(fits).ok_or_else(|| {
            let place = node.map_or_else(|| source.whole(), |node| source.at(node.span.clone()));
            Problem::error("bad-settings", place, format!("`{key}` should be {kind}"))
                .help("fix the file by hand; nothing was changed")
        })
    }
}

fn unwritten(error: serde_json::Error) -> Failure {
    Failure::general(format!("the settings cannot be written as JSON: {error}"))
}

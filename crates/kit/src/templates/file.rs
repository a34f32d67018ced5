//! Reads one template: frontmatter and blocks become a [`Template`], or a list of problems.

use std::collections::BTreeSet;

use bailiwick_model::template::{AgentType, Persona, Template, ToolLists};
use bailiwick_model::{Place, Problem, Source};
use serde_saphyr::Spanned;

use super::blocks::{self, Blocks};
use super::frontmatter::{self, Frontmatter, OptionalField, OptionalList, PersonaEntry};

/// The name of an agent without a template; no file can use it.
pub const NO_TEMPLATE: &str = "default";

/// A template with the places of the names in it.
#[derive(Debug, Clone)]
pub struct Parsed {
    pub template: Template,
    /// The place of the role that binds it.
    pub role: Option<Place>,
    /// The places of the templates that it may start.
    pub allowed_subagents: Vec<(AgentType, Place)>,
}

/// Reads and checks the template of `agent_type` from its file.
pub fn parse(agent_type: &AgentType, source: &Source) -> Result<Parsed, Vec<Problem>> {
    let (keys, body) = frontmatter::read(source)?;
    let (blocks, problems) = blocks::split(source, body);
    let mut reading = Reading { source, problems };
    let parsed = reading.template(agent_type, keys, blocks);
    match (parsed, reading.problems.is_empty()) {
        (Some(parsed), true) => Ok(parsed),
        (Some(_) | None, _) => Err(reading.problems),
    }
}

/// Additional requirements of `list_agents`: a prompt for calls without a persona.
pub fn check_listed(template: &Template, source: &Source) -> Result<(), Vec<Problem>> {
    if template.default_prompt.trim().is_empty() {
        return Err(vec![no_default_prompt(source)]);
    }
    Ok(())
}

fn no_default_prompt(source: &Source) -> Problem {
    Problem::error("no-default-prompt", source.whole(), "missing required default prompt block")
        .help("write it behind the frontmatter, before the first <!-- agent_name: … -->")
}

/// A file while it is read, with its problems so far.
struct Reading<'a> {
    source: &'a Source,
    problems: Vec<Problem>,
}

impl Reading<'_> {
    fn template(
        &mut self,
        agent_type: &AgentType,
        keys: Frontmatter,
        blocks: Blocks,
    ) -> Option<Parsed> {
        let description = self.text("description", keys.description);
        if description.is_none() {
            let place = self.source.whole();
            let message = "missing required frontmatter description";
            let problem = Problem::error("no-description", place, message);
            self.problems.push(problem.help("say in one line when to use this agent"));
        }
        let model = self.text("model", keys.model);
        let reasoning_effort = self.effort(keys.reasoning_effort);
        let read_only = self.truth(keys.read_only);
        let tools = ToolLists {
            allow_list: self.tools("allow_list", keys.allow_list),
            deny_list: self.tools("deny_list", keys.deny_list),
        };
        let role = keys.role.as_ref().map(|role| self.at(role));
        let cli = self.text("cli", keys.cli);
        let subagents = self.list("allowed_subagents", keys.allowed_subagents);
        let marked = subagents.iter().flatten();
        let allowed_subagents =
            marked.map(|entry| (entry.value.clone(), self.at(entry))).collect::<Vec<_>>();
        let estimated_tokens = self.number("tokens", keys.estimated_tokens);
        let estimated_turns = self.number("turns", keys.estimated_turns);
        let max_turns = self.number("turns", keys.max_turns);
        let max_minutes = self.number("minutes", keys.max_minutes);
        let estimated_usd = keys.estimated_usd.filter(|usd| {
            let useful = usd.value > 0.0 && usd.value.is_finite();
            if !useful {
                self.refuse("bad-number", usd, "no agent costs that", "write a number above 0");
            }
            useful
        });
        let context = keys.context.and_then(|limits| {
            let Some(written) = limits.value else {
                self.empty("context", &limits);
                return None;
            };
            if !(written.window_share > 0.0 && written.window_share <= 1.0) {
                let message = "window_share is a part of the model's window";
                self.refuse("bad-number", &limits, message, "write a number above 0, at most 1");
            }
            Some(written)
        });
        let entries = self.list("agent_names", keys.agent_names).unwrap_or_default();
        let personas = self.personas(entries, &blocks);
        if blocks.named.is_empty() && personas.is_empty() && blocks.default.trim().is_empty() {
            self.problems.push(no_default_prompt(self.source));
        }
        Some(Parsed {
            template: Template {
                agent_type: agent_type.clone(),
                description: description?,
                model,
                reasoning_effort,
                read_only,
                tools,
                default_prompt: blocks.default,
                personas,
                role: keys.role.map(|role| role.value),
                cli,
                allowed_subagents: subagents
                    .map(|list| list.into_iter().map(|entry| entry.value).collect()),
                max_depth: keys.max_depth.map(|depth| depth.value),
                estimated_tokens,
                estimated_turns,
                estimated_usd: estimated_usd.map(|usd| usd.value),
                max_turns,
                max_minutes,
                context,
                metadata: keys.metadata.unwrap_or_default(),
            },
            role,
            allowed_subagents,
        })
    }

    /// The personas that have an entry and a block; one without the other is reported.
    fn personas(&mut self, entries: Vec<Spanned<PersonaEntry>>, blocks: &Blocks) -> Vec<Persona> {
        let mut seen = BTreeSet::new();
        for block in &blocks.named {
            if !seen.insert(block.name.as_str()) {
                let message = format!(
                    "invalid agent_names: duplicate agent_name block for \"{}\"",
                    block.name
                );
                let place = self.source.at(block.marker.clone());
                self.problems.push(Problem::error("duplicate-persona", place, message));
            }
        }
        if let (true, Some(first)) = (entries.is_empty(), blocks.named.first()) {
            let message = "found agent_name blocks but frontmatter agent_names is missing";
            let place = self.source.at(first.marker.clone());
            let help = "list every persona with name and description under agent_names";
            self.problems.push(Problem::error("persona-mismatch", place, message).help(help));
            return Vec::new();
        }
        let mut named = BTreeSet::new();
        let mut personas = Vec::new();
        for entry in entries {
            let place = self.at(&entry);
            let Some((name, place)) = self.persona_name(entry.value.name.as_ref(), place) else {
                continue;
            };
            if !named.insert(name.clone()) {
                let message =
                    format!("invalid agent_names: duplicate agent_names entry for \"{name}\"");
                self.problems.push(Problem::error("duplicate-persona", place, message));
                continue;
            }
            personas.extend(self.persona(name, &place, entry.value, blocks));
        }
        for block in blocks.named.iter().filter(|block| !named.contains(&block.name)) {
            let message =
                format!("invalid agent_names: missing agent_names entry for \"{}\"", block.name);
            let place = self.source.at(block.marker.clone());
            self.problems.push(Problem::error("persona-mismatch", place, message));
        }
        personas
    }

    fn persona(
        &mut self,
        name: String,
        place: &Place,
        entry: PersonaEntry,
        blocks: &Blocks,
    ) -> Option<Persona> {
        let description = self.text("description", entry.description);
        if description.is_none() {
            let message = format!("missing description for agent_name \"{name}\"");
            self.problems.push(Problem::error("no-description", place.clone(), message));
        }
        let model = self.text("model", entry.model);
        let reasoning_effort = self.effort(entry.reasoning_effort);
        let Some(block) = blocks.named.iter().find(|block| block.name == name) else {
            let message = format!("invalid agent_names: missing agent_name block for \"{name}\"");
            let help = match blocks.fenced.contains(&name) {
                true => "its marker stands inside of a code fence, where it is text".to_owned(),
                false => format!("write <!-- agent_name: {name} --> and its prompt below that"),
            };
            let problem = Problem::error("persona-mismatch", place.clone(), message);
            self.problems.push(problem.help(help));
            return None;
        };
        if block.text.trim().is_empty() {
            let message = format!("the agent_name block of \"{name}\" is empty");
            let place = self.source.at(block.marker.clone());
            self.problems.push(Problem::error("no-prompt", place, message));
        }
        let prompt = block.text.clone();
        Some(Persona { name, description: description?, model, reasoning_effort, prompt })
    }

    fn persona_name(
        &mut self,
        written: Option<&Spanned<String>>,
        entry: Place,
    ) -> Option<(String, Place)> {
        let place = written.map_or(entry, |written| self.at(written));
        let text = written.map_or("", |written| written.value.as_str());
        match blocks::persona_name(text) {
            Ok(name) => Some((name, place)),
            Err(why) => {
                let message = format!("invalid agent_names: {why}");
                self.problems.push(Problem::error("bad-persona", place, message));
                None
            }
        }
    }

    /// A text that must not be blank if it is set.
    fn text(&mut self, key: &str, written: OptionalField<String>) -> Option<String> {
        let written = written?;
        let text = written.value.trim();
        if text.is_empty() {
            // Reported once, with the missing description.
            if key != "description" {
                self.empty(key, &written);
            }
            return None;
        }
        if text.contains('\0') {
            self.refuse("bad-text", &written, "a text has no zero byte", "remove it");
        }
        Some(text.to_owned())
    }

    /// An effort is one word; whether the model supports it is checked when it is used.
    fn effort(&mut self, written: OptionalField<String>) -> Option<String> {
        let place = written.as_ref().map(|written| self.at(written));
        let text = self.text("reasoning_effort", written)?;
        if !text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-') {
            let place = place.unwrap_or_else(|| self.source.whole());
            let message = format!("`{text}` is no reasoning_effort");
            let problem = Problem::error("bad-effort", place, message);
            self.problems.push(problem.help("write one word in lower case, as `medium`"));
        }
        Some(text)
    }

    /// A text that reads `true` is not the truth value.
    fn truth(&mut self, written: OptionalField<bool>) -> bool {
        let Some(written) = written else { return false };
        let place = self.at(&written);
        if place.text().is_some_and(|text| text.starts_with(['"', '\''])) {
            let message = "invalid YAML: a truth value is expected, and this is a text";
            self.problems
                .push(Problem::error("bad-yaml", place, message).help("take the quotes off"));
        }
        written.value
    }

    /// Names of tools, sorted, without repetitions. No list means every tool, an empty one none.
    fn tools(&mut self, key: &str, written: OptionalList<String>) -> Option<Vec<String>> {
        let list = self.list(key, written)?;
        let mut names = BTreeSet::new();
        for entry in list {
            let name = entry.value.trim();
            let fits = |c: char| c.is_ascii_alphanumeric() || "_-.:/@*?".contains(c);
            if name.is_empty() {
                self.refuse("bad-tool", &entry, "an empty text names no tool", "leave it out");
            } else if !name.chars().all(fits) {
                let message = format!("`{name}` can match no tool");
                let help = "write a tool's name; `*` and `?` match, regular expressions and \
                            arguments in brackets do not";
                self.refuse("bad-tool", &entry, &message, help);
            }
            names.insert(name.to_owned());
        }
        Some(names.into_iter().collect())
    }

    /// A number of things that no agent does without.
    fn number(&mut self, things: &str, written: OptionalField<u64>) -> Option<u64> {
        let written = written?;
        if written.value == 0 {
            let message = format!("no agent takes 0 {things}");
            self.refuse("bad-number", &written, &message, "leave it out");
        }
        Some(written.value).filter(|number| *number > 0)
    }

    /// A key without a value is ambiguous.
    fn list<T>(&mut self, key: &str, written: OptionalList<T>) -> Option<Vec<Spanned<T>>> {
        let written = written?;
        if written.value.is_none() {
            let message = format!("nothing is written behind `{key}`");
            self.refuse("bad-list", &written, &message, "write [] for an empty list");
        }
        written.value
    }

    fn empty<T>(&mut self, key: &str, written: &Spanned<T>) {
        let message = format!("nothing is written behind `{key}`");
        self.refuse("empty-key", written, &message, "leave it out, or write something");
    }

    fn refuse<T>(&mut self, code: &'static str, at: &Spanned<T>, message: &str, help: &str) {
        let place = self.at(at);
        self.problems.push(Problem::error(code, place, message).help(help));
    }

    fn at<T>(&self, written: &Spanned<T>) -> Place {
        frontmatter::place(self.source, written.referenced)
    }
}

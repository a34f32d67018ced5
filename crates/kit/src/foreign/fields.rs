//! The keys of a foreign file, read one by one. Keys that remain at the end are unknown.

use std::collections::BTreeMap;

use bailiwick_model::nearest::nearest;
use bailiwick_model::template::AgentType;
use bailiwick_model::{Place, Problem, Source};

use super::limit_words::may_be_limit;
use super::node::Node;
use super::{Effect, Note, Options};

/// What happens to unknown keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UnknownKeys {
    /// The program ignores them: they become metadata, unless they look like a limit.
    Kept,
    /// The program has more settings than are known here, and each may be a limit.
    Refused,
}

/// The result once all keys are read.
#[derive(Debug)]
pub(crate) struct LeftoverFields {
    pub(crate) notes: Vec<Note>,
    pub(crate) metadata: BTreeMap<String, String>,
}

/// The unread keys of a file, with the notes so far.
#[derive(Debug)]
pub(crate) struct Fields<'a> {
    source: &'a Source,
    rest: Vec<(String, Node)>,
    taken: Vec<String>,
    notes: Vec<Note>,
}

impl<'a> Fields<'a> {
    pub(crate) fn new(source: &'a Source, keys: Vec<(String, Node)>, options: &Options) -> Self {
        let (dropped, rest): (Vec<_>, Vec<_>) =
            keys.into_iter().partition(|(key, _)| options.drop.contains(key));
        let mut fields = Self { source, rest, taken: Vec::new(), notes: Vec::new() };
        for (key, _) in dropped {
            fields.note(Effect::LeftOut, &key, "dropped, as was asked for");
        }
        fields
    }

    pub(crate) fn note(&mut self, effect: Effect, key: &str, text: impl Into<String>) {
        self.notes.push(Note { effect, key: key.to_owned(), text: text.into() });
    }

    /// A value; a key without one counts as absent, unless the caller uses [`Self::take_raw`].
    pub(crate) fn take(&mut self, key: &str) -> Option<Node> {
        self.take_raw(key).filter(|node| *node != Node::Null)
    }

    pub(crate) fn take_raw(&mut self, key: &str) -> Option<Node> {
        self.taken.push(key.to_owned());
        let at = self.rest.iter().position(|(name, _)| name == key)?;
        Some(self.rest.remove(at).1)
    }

    /// A value that may be a limit: a key without one is a file that its program does not load.
    pub(crate) fn limit(&mut self, key: &str) -> Result<Option<Node>, Problem> {
        match self.take_raw(key) {
            Some(Node::Null) => {
                Err(self.bad(key, "says nothing").help("fill it in, or take it out"))
            }
            said => Ok(said),
        }
    }

    /// A text without blanks around it; an empty one counts as not there.
    pub(crate) fn text(&mut self, key: &str) -> Result<Option<String>, Problem> {
        match self.take(key) {
            None => Ok(None),
            Some(Node::Text(text)) => {
                Ok(Some(text.trim().to_owned()).filter(|text| !text.is_empty()))
            }
            Some(other) => Err(self.bad(key, &format!("is {}, not a text", other.kind()))),
        }
    }

    /// A text that must be there.
    pub(crate) fn required(&mut self, key: &str) -> Result<String, Problem> {
        self.text(key)?.ok_or_else(|| {
            let message = format!("the key `{key}` is missing or empty");
            Problem::error("missing-key", self.source.whole(), message)
                .help(format!("say {key} in the file; its own program does not load it without"))
        })
    }

    pub(crate) fn flag(&mut self, key: &str) -> Result<Option<bool>, Problem> {
        match self.limit(key)? {
            None => Ok(None),
            Some(Node::Bool(value)) => Ok(Some(value)),
            Some(other) => Err(self.bad(key, &format!("is {}, not true or false", other.kind()))),
        }
    }

    /// The turn limit of an agent, by any of these keys; the smallest applies.
    pub(crate) fn turns(&mut self, keys: &[&str]) -> Result<Option<u64>, Problem> {
        self.most("turns", keys)
    }

    /// The maximum duration of an agent in minutes, in the same way.
    pub(crate) fn minutes(&mut self, keys: &[&str]) -> Result<Option<u64>, Problem> {
        self.most("minutes", keys)
    }

    fn most(&mut self, unit: &str, keys: &[&str]) -> Result<Option<u64>, Problem> {
        let mut most = None;
        for key in keys {
            let number = match self.limit(key)? {
                None => continue,
                Some(Node::Number(text)) => text.parse().ok().filter(|number: &u64| *number > 0),
                Some(_) => None,
            };
            let Some(number) = number else {
                let message = format!("is not a number of {unit}");
                return Err(self.bad(key, &message).help("write 1 or more"));
            };
            most = Some(most.map_or(number, |most: u64| most.min(number)));
        }
        Ok(most)
    }

    /// Removes keys that a template cannot express, each with the reason.
    pub(crate) fn leave_out(&mut self, effect: Effect, keys: &[(&str, &str)]) {
        for (key, why) in keys {
            if self.take_raw(key).is_some() {
                self.note(effect, key, *why);
            }
        }
    }

    /// The name in the file, or else that of the file itself.
    pub(crate) fn name_or_file(&mut self) -> Result<String, Problem> {
        if let Some(name) = self.text("name")? {
            return Ok(name);
        }
        let name = name_of_file(&self.source.file).to_owned();
        if name.is_empty() {
            return self.required("name");
        }
        self.note(Effect::LeftOut, "name", format!("is missing: called `{name}`, as its file is"));
        Ok(name)
    }

    /// The name of the agent. One that cannot be a name here is written in another way.
    pub(crate) fn agent_type(&mut self, written: &str) -> Result<AgentType, Problem> {
        let parsed = AgentType::parse(written)
            .or_else(|error| AgentType::parse(&slug(written)).map_err(|_| error));
        let agent_type = parsed.map_err(|error| {
            let place = self.place("name");
            Problem::error("bad-name", place, error.to_string())
                .help("rename it: letters, digits, `-` and `_`")
        })?;
        if agent_type.as_str() == "default" {
            let message = "`default` is an agent without a template";
            return Err(Problem::error("bad-name", self.place("name"), message).help("rename it"));
        }
        if agent_type.as_str() != written {
            let text = format!("`{written}` is called `{agent_type}` here");
            self.note(Effect::LeftOut, "name", text);
        }
        Ok(agent_type)
    }

    /// A problem with the value of a key.
    pub(crate) fn bad(&self, key: &str, what: &str) -> Problem {
        Problem::error("bad-value", self.place(key), format!("`{key}` {what}"))
    }

    /// The place of a key, as far as it can be found.
    pub(crate) fn place(&self, key: &str) -> Place {
        let mut at = 0;
        for line in self.source.text.split_inclusive('\n') {
            let behind = line.strip_prefix(key).map(str::trim_start);
            if behind.is_some_and(|rest| rest.starts_with(':') || rest.starts_with('=')) {
                return self.source.at(at..at + key.len());
            }
            at += line.len();
        }
        self.source.whole()
    }

    /// The notes and the metadata. An unread key that may be a limit is a problem.
    pub(crate) fn finish(mut self, unknown: UnknownKeys) -> Result<LeftoverFields, Vec<Problem>> {
        let rest = std::mem::take(&mut self.rest);
        let (mut problems, mut metadata) = (Vec::new(), BTreeMap::new());
        for (key, value) in rest {
            if DESCRIBING.contains(&key.as_str())
                || (unknown == UnknownKeys::Kept && !may_be_limit(&key, &value))
            {
                self.note(Effect::Kept, &key, "as metadata: it limits and grants nothing");
                metadata.insert(key, value.to_plain_text());
                continue;
            }
            let near = nearest(&key, self.taken.iter().map(String::as_str));
            let near = near.map(|near| format!("did you mean `{near}`? ")).unwrap_or_default();
            problems.push(
                Problem::error(
                    "unknown-key",
                    self.place(&key),
                    format!("the key `{key}` is not known and may be a limit"),
                )
                .help(format!("{near}If it limits nothing, import with --drop {key}")),
            );
        }
        if problems.is_empty() {
            Ok(LeftoverFields { notes: self.notes, metadata })
        } else {
            Err(problems)
        }
    }
}

/// Keys that describe a file in every format.
const DESCRIBING: [&str; 14] = [
    "version", "author", "authors", "tags", "category", "license", "metadata", "color", "icon",
    "homepage", "created", "updated", "title", "$schema",
];

/// A name of lowercase letters, digits and dashes, as similar as possible to the original.
fn slug(written: &str) -> String {
    let fits = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' };
    let plain: String = written.chars().map(|c| fits(c.to_ascii_lowercase())).collect();
    let words = plain.split('-').filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("-")
}

/// The name of a file: its stem, or its directory if all files of its kind have the same name.
fn name_of_file(file: &str) -> &str {
    let (directory, name) = file.rsplit_once('/').unwrap_or(("", file));
    match name {
        "SKILL.md" => directory.rsplit('/').next().unwrap_or(directory),
        other => other.rsplit_once('.').map_or(other, |(stem, _)| stem),
    }
}

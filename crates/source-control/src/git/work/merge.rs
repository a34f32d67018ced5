//! Merges made without a checkout, in a view of our own: no merge driver runs, renames are followed.

use std::collections::BTreeMap;

use bailiwick_control::ports::{Conflict, Merge};

use super::paths;
use crate::git::command::{Git, GitError, Input};

/// What is merged.
pub(super) struct Sides<'a> {
    /// Where the two parted; git finds it, or makes one of several, if this does not say.
    pub(super) base: Option<&'a str>,
    /// The commit that is merged onto.
    pub(super) ours: &'a str,
    /// The commit that is merged.
    pub(super) theirs: &'a str,
    /// The tree whose attributes count (`merge=union`, `binary`).
    pub(super) attributes: &'a str,
}

/// The three-way merge.
pub(super) fn merge(git: &Git, sides: &Sides<'_>) -> Result<Merge, GitError> {
    let attributes = format!("--attr-source={}", sides.attributes);
    let base = sides.base.map(|base| format!("--merge-base={base}"));
    let mut arguments =
        vec![attributes.as_str(), "merge-tree", "--write-tree", "-z", "--name-only"];
    arguments.extend(base.as_deref());
    arguments.extend([sides.ours, sides.theirs]);
    let ended = git.end_with(arguments, Input::Nothing)?;
    if !matches!(ended.code, Some(0 | 1)) {
        return Err(ended.into_error());
    }
    let answer = parse(&ended.printed).ok_or_else(|| GitError::Unexpected {
        command: "merge-tree".to_owned(),
        what: String::from_utf8_lossy(&ended.printed).into_owned(),
    })?;
    Ok(match ended.code {
        Some(0) => Merge::Clean { tree: answer.tree },
        _ => Merge::Conflicts(answer.conflicts()),
    })
}

struct Answer {
    tree: String,
    files: Vec<String>,
    messages: Vec<Message>,
}

struct Message {
    paths: Vec<String>,
    kind: String,
    text: String,
}

/// The tree, the files in conflict, an empty field, and messages: how many paths, the paths, the
/// kind, the text.
fn parse(printed: &[u8]) -> Option<Answer> {
    let mut fields = printed.split(|byte| *byte == 0);
    let tree = String::from_utf8(fields.next()?.to_owned()).ok()?;
    let files = fields.by_ref().take_while(|field| !field.is_empty()).map(paths::shown).collect();
    let mut messages = Vec::new();
    while let Some(count) = fields.next().filter(|field| !field.is_empty()) {
        let count: usize = std::str::from_utf8(count).ok()?.parse().ok()?;
        let paths: Vec<String> = fields.by_ref().take(count).map(paths::shown).collect();
        let kind = String::from_utf8_lossy(fields.next()?).into_owned();
        let text = String::from_utf8_lossy(fields.next()?).trim().to_owned();
        messages.push(Message { paths, kind, text });
    }
    Some(Answer { tree, files, messages })
}

impl Answer {
    fn conflicts(self) -> Vec<Conflict> {
        let mut said: BTreeMap<String, Vec<String>> =
            self.files.into_iter().map(|file| (file, Vec::new())).collect();
        // Some conflicts, as that of a directory that went two ways, leave no file unmerged.
        let none = said.is_empty();
        for message in self.messages.into_iter().filter(|message| message.is_conflict()) {
            for path in message.paths {
                if none || said.contains_key(&path) {
                    said.entry(path).or_default().push(message.text.clone());
                }
            }
        }
        said.into_iter()
            .map(|(path, mut why)| {
                why.dedup();
                let why = if why.is_empty() {
                    "both sides changed it".to_owned()
                } else {
                    why.join("; ")
                };
                Conflict { path, why }
            })
            .collect()
    }
}

impl Message {
    fn is_conflict(&self) -> bool {
        self.kind.starts_with("CONFLICT")
    }
}

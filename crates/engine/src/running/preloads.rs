//! Preloads of an agent whose task limits its context: every load is recorded.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;

use bailiwick_lifecycle::delegation::context::{Context, Entry, Kind, Load};
use bailiwick_model::template::ContextLimits;
use bailiwick_runner::agents::adapter::Assignment;
use bailiwick_runner::supervisor::RunDirectory;

use crate::failure::Failure;
use crate::task_files::{self, TaskFile};

/// The context window of most models, in tokens.
const WINDOW: u64 = 200_000;
/// The context window of a model whose name has this ending.
const LONG: (&str, u64) = ("[1m]", 1_000_000);
/// A low estimate of the bytes in a token.
const BYTES: usize = 4;

/// The context window of a model, in tokens.
pub(super) fn window_of(model: Option<&str>) -> u64 {
    if model.is_some_and(|model| model.ends_with(LONG.0)) { LONG.1 } else { WINDOW }
}

/// Removes everything from an assignment that exceeds its context limits, and adds the given files that fit. Rules
/// are the files of a repository with instructions for agents; a skill is a directory of skills.
pub fn admit(
    limits: ContextLimits,
    assignment: &mut Assignment,
    files: Vec<TaskFile>,
    directory: &RunDirectory,
) -> Result<(), Failure> {
    let window = window_of(assignment.model.as_deref());
    let context =
        Context::new(limits, window).map_err(|error| Failure::refused(error.to_string()))?;
    let mut loading = Loading { context, entries: Vec::new() };
    let texts = [Some(assignment.prompt.as_str()), assignment.system_prompt.as_deref()];
    for (name, text) in ["task", "template"].into_iter().zip(texts) {
        if let Some(text) = text
            && let Some(why) = loading.load(Kind::Given, name, text.len())
        {
            loading.write(directory)?;
            return Err(Failure::refused(format!("its {name} does not fit: {why}")));
        }
    }
    assignment
        .instructions
        .retain(|rule| loading.load(Kind::Rule, &rule.path, rule.text.len()).is_none());
    let mut sizes: BTreeMap<String, usize> = BTreeMap::new();
    for (path, text) in &assignment.skills {
        *sizes.entry(skill(path).to_owned()).or_default() += text.len();
    }
    let admitted: BTreeSet<String> = sizes
        .into_iter()
        .filter(|(name, size)| loading.load(Kind::Skill, name, *size).is_none())
        .map(|(name, _)| name)
        .collect();
    assignment.skills.retain(|path, _| admitted.contains(skill(path)));
    let (given, left_out): (Vec<TaskFile>, Vec<TaskFile>) = files
        .into_iter()
        .partition(|file| loading.load(Kind::File, &file.path, file.text.len()).is_none());
    let left_out: Vec<String> = left_out.into_iter().map(|file| file.path).collect();
    assignment.prompt += &task_files::describe(&given, &left_out);
    loading.write(directory)
}

/// The skill that a file belongs to.
fn skill(path: &str) -> &str {
    path.split('/').next().unwrap_or(path)
}

struct Loading {
    context: Context,
    entries: Vec<Entry>,
}

impl Loading {
    /// Loads something; says why not.
    fn load(&mut self, kind: Kind, name: &str, bytes: usize) -> Option<String> {
        let tokens = u64::try_from(bytes.div_ceil(BYTES)).unwrap_or(u64::MAX);
        let (context, entry) =
            self.context.clone().load(Load { kind, name: name.to_owned(), tokens });
        self.context = context;
        let refused = entry.refused.clone();
        self.entries.push(entry);
        refused
    }

    /// Writes all of it down, behind what was written before.
    fn write(&self, directory: &RunDirectory) -> Result<(), Failure> {
        let path = directory.path().join("context.jsonl");
        let write = || -> std::io::Result<()> {
            let mut file = std::fs::File::options().create(true).append(true).open(&path)?;
            for entry in &self.entries {
                writeln!(file, "{}", serde_json::to_string(entry)?)?;
            }
            Ok(())
        };
        write().map_err(|error| {
            Failure::general(format!("{} cannot be written: {error}", path.display()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::window_of;

    #[test]
    fn window_is_that_of_the_model() {
        for (model, window) in
            [(None, 200_000), (Some("opus"), 200_000), (Some("sonnet[1m]"), 1_000_000)]
        {
            assert_eq!(window_of(model), window, "{model:?}");
        }
    }
}

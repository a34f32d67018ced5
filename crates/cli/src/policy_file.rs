//! The policy of a role or a task as one file, for a gate that decides alone.
//!
//! For now the file holds what the kit says, bound to the task; no gate reads it yet.

use std::path::{Path, PathBuf};

use bailiwick_kit::bind;
use bailiwick_model::{Problem, RoleName, Sha256Hex, Source};
use serde_json::json;

use crate::context::Context;
use crate::failure::Failure;
use crate::wire;

/// What is compiled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// A role, with the files that may be written.
    Role {
        /// The role.
        role: RoleName,
        /// Where it may write: globs.
        files: Vec<String>,
        /// Where it may not.
        deny: Vec<String>,
    },
    /// A task's file.
    Task(PathBuf),
}

/// A policy, ready to be written.
#[derive(Debug, Clone)]
pub struct CompiledPolicy {
    /// The text of the file.
    pub json: String,
    /// The SHA-256 of that text in lower-case hex.
    pub digest: String,
    /// What is odd but does not stop the work.
    pub warnings: Vec<Problem>,
}

/// Compiles a role or a task with the kit that binds an agent here: that of the commit that is
/// checked out, where there is one.
pub fn compile(context: &Context, what: &What) -> Result<CompiledPolicy, Failure> {
    let kit = match context.repository() {
        Some(repository) => match repository.commit("HEAD")? {
            Some(commit) => wire::committed_kit(context, &repository, &commit)?,
            None => wire::working_kit(context)?,
        },
        None => wire::working_kit(context)?,
    };
    let bound = bind(&kit, &source(context, what)?)?;
    let texts =
        |patterns: &[_]| -> Vec<String> { patterns.iter().map(ToString::to_string).collect() };
    let policy = json!({
        "role": bound.role.name,
        "capabilities": bound.role.capabilities,
        "tools": bound.role.tools,
        "bash_patterns": bound.role.bash_patterns,
        "files_whitelist": texts(bound.task.scope.files_whitelist.get()),
        "files_denylist": texts(bound.task.scope.files_denylist.get()),
    });
    let json = format!("{policy}\n");
    let digest = Sha256Hex::of(&json).to_string();
    Ok(CompiledPolicy { json, digest, warnings: bound.warnings })
}

fn source(context: &Context, what: &What) -> Result<Source, Failure> {
    match what {
        What::Task(path) => wire::read_task(context, path),
        What::Role { role, files, deny } => {
            let task = task_text(role, files, deny).map_err(|error| {
                Failure::general(format!("the role cannot be written as a task: {error}"))
            })?;
            Ok(Source::new(Path::new("--role").display().to_string(), task))
        }
    }
}

fn task_text(
    role: &RoleName,
    files: &[String],
    deny: &[String],
) -> Result<String, toml::ser::Error> {
    let mut scope = toml::Table::new();
    for (key, globs) in [("files-whitelist", files), ("files-denylist", deny)] {
        if !globs.is_empty() {
            scope.insert(key.to_owned(), toml::Value::from(globs.to_vec()));
        }
    }
    let header = toml::Table::from_iter([("role".to_owned(), role.to_string().into())]);
    let body = toml::Table::from_iter([("text".to_owned(), "By hand.".into())]);
    let tables = [("task", header), ("scope", scope), ("body", body)];
    let task = tables.into_iter().map(|(name, table)| (name.to_owned(), table.into()));
    toml::to_string(&task.collect::<toml::Table>())
}

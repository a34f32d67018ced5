//! Which agent program a task names, and the adapter that knows it.

use std::path::Path;
use std::sync::Arc;

use bailiwick_model::nearest::nearest;
use bailiwick_model::{Settings, Source, Task, task};
use bailiwick_runner::agents::adapter::Adapter;
use bailiwick_runner::agents::{self, Manifest};
use bailiwick_source_control::Repository;

use crate::context::Context;
use crate::failure::Failure;
use crate::sources::{self, Files};

/// The agent program of a task that names none.
pub const USUAL: &str = "claude-code";

/// The agent program that the task, the settings or the usual choice names.
pub fn program_name<'a>(task: &'a Task, settings: &'a Settings) -> &'a str {
    let of_task = task.agent.cli.as_ref().map(task::Line::as_str);
    of_task.or(settings.run.cli.as_deref()).unwrap_or(USUAL)
}

/// The adapter of this name: built in, or described by the commit or the user.
pub fn adapter_named(
    context: &Context,
    repository: &Repository,
    commit: &str,
    name: &str,
) -> Result<Arc<dyn Adapter>, Failure> {
    let files = |path: &str| sources::committed_file(repository, commit, path);
    adapter_in(&files, &context.user_kit, name)
}

/// The same, with the files of a commit or of the working copy.
pub fn adapter_in(
    files: &Files<'_>,
    user_kit: &Path,
    name: &str,
) -> Result<Arc<dyn Adapter>, Failure> {
    if let Some(adapter) = agents::adapter(name) {
        return Ok(Arc::from(adapter));
    }
    let file = format!("{}/adapters/{name}.toml", sources::REPOSITORY_KIT);
    let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'));
    let mut text = None;
    if plain {
        text = files(&file)?;
        let own = user_kit.join("adapters").join(format!("{name}.toml"));
        text = text.or_else(|| std::fs::read_to_string(own).ok());
    }
    let Some(text) = text else {
        let near = nearest(name, agents::NAMES);
        let near = near.map(|near| format!("did you mean `{near}`? ")).unwrap_or_default();
        let names = agents::NAMES.join(", ");
        return Err(Failure::refused(format!("there is no agent program `{name}`"))
            .help(format!("{near}the programs are {names}, and those that {file} describes")));
    };
    Ok(Arc::new(Manifest::parse(&Source::new(file, text))?))
}

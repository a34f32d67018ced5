//! Versions of database migrations. A task whose whitelist has `{timestamp}` gets one for each when its agent is
//! spawned, so that agents that add migrations at the same time do not write the same file.

use std::collections::BTreeSet;
use std::fs::{DirBuilder, File, OpenOptions};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

use bailiwick_kit::task_text;
use bailiwick_memory::{
    MigrationVersion, assign_versions, placeholders, with_versions, without_versions,
};
use bailiwick_model::{AgentId, Sha256Hex, Source, Task};
use bailiwick_resources::Moment;
use bailiwick_runner::supervisor::RunDirectory;
use bailiwick_source_control::Repository;

use crate::context::Context;
use crate::failure::Failure;
use crate::{agent_names, system};

/// The file of a run that was assigned versions.
const FILE: &str = "migrations.json";

/// The versions that an agent is assigned.
pub struct Assignment {
    /// Its task with them.
    pub source: Source,
    directory: RunDirectory,
    versions: Vec<MigrationVersion>,
}

impl Assignment {
    /// Records them. Only while the spawn of the agent is locked: those of an agent that is there already stay.
    pub fn store(&self) -> Result<(), Failure> {
        self.directory.make().map_err(|error| {
            let path = self.directory.path().display();
            Failure::general(format!("cannot create {path}: {error}"))
        })?;
        system::write_json(&self.directory.path().join(FILE), &texts(&self.versions))
    }
}

/// The versions for the task of an agent that is about to be spawned; `None` if it needs none. An agent whose spawn was
/// cut short keeps its own, unless the base has later ones now.
pub fn assign(
    context: &Context,
    repository: &Repository,
    base: &str,
    id: &AgentId,
    source: &Source,
) -> Result<Option<Assignment>, Failure> {
    let task = Task::parse(source)?;
    let patterns = || task.scope.files_whitelist.get().iter().map(|pattern| pattern.as_str());
    let needed = placeholders(patterns());
    if needed == 0 {
        return Ok(None);
    }
    let directory = RunDirectory::new(&context.state, id.as_str());
    let used = patterns().map(|pattern| last_in_tree(repository, base, pattern));
    let used = used.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().max();
    let is_unused = |version: &MigrationVersion| used.is_none_or(|last| *version > last);
    let versions = match recorded(&directory.path().join(FILE))? {
        own if own.len() == needed && own.iter().all(is_unused) => own,
        _ => reserve(context, repository, needed, used)?,
    };
    let mut remaining = versions.iter().copied();
    let text = task_text::with_whitelist(source, |glob| with_versions(glob, &mut remaining))?;
    let source = Source::new(source.file.to_string(), text);
    Ok(Some(Assignment { source, directory, versions }))
}

/// The task as it was before its agent was assigned versions, for an agent that begins again.
pub fn unassigned(context: &Context, id: &AgentId, source: &Source) -> Result<Source, Failure> {
    let directory = RunDirectory::new(&context.state, id.as_str());
    let assigned = recorded(&directory.path().join(FILE))?;
    if assigned.is_empty() {
        return Ok(source.clone());
    }
    let text = task_text::with_whitelist(source, |glob| without_versions(glob, &assigned))?;
    Ok(Source::new(source.file.to_string(), text))
}

fn recorded(path: &Path) -> Result<Vec<MigrationVersion>, Failure> {
    let texts: Vec<String> = system::read_json(path)?.unwrap_or_default();
    Ok(texts.iter().filter_map(|text| MigrationVersion::leading(text)).collect())
}

fn texts(versions: &[MigrationVersion]) -> Vec<String> {
    versions.iter().map(ToString::to_string).collect()
}

/// The last version that the base has where the pattern leads.
fn last_in_tree(
    repository: &Repository,
    base: &str,
    pattern: &str,
) -> Result<Option<MigrationVersion>, Failure> {
    if placeholders([pattern]) == 0 {
        return Ok(None);
    }
    let fixed = pattern.split(['*', '?', '[', '{', '\\']).next().unwrap_or_default();
    let directory = fixed.rsplit_once('/').map_or("", |(directory, _)| directory);
    let directory = directory.trim_start_matches('/');
    // Nothing is listed below a directory that the base does not have.
    let below = (!directory.is_empty()).then(|| format!("{directory}/"));
    let options = ["ls-tree", "-r", "-z", "--name-only", "--full-tree", "--end-of-options", base];
    let listed = repository.git().run(options.into_iter().chain(below.as_deref()))?;
    let names = listed.split(|byte| *byte == 0).filter_map(|path| std::str::from_utf8(path).ok());
    let versions = names.filter_map(|path| MigrationVersion::leading(path.rsplit('/').next()?));
    Ok(versions.max())
}

/// Takes versions that no agent of this machine was assigned.
fn reserve(
    context: &Context,
    repository: &Repository,
    count: usize,
    used: Option<MigrationVersion>,
) -> Result<Vec<MigrationVersion>, Failure> {
    let place = context.database.location().companion(".migrations");
    let failed = |error: std::io::Error| {
        Failure::general(format!("cannot assign migration versions: {}: {error}", place.display()))
    };
    DirBuilder::new().recursive(true).mode(0o700).create(&place).map_err(failed)?;
    let name = Sha256Hex::of(agent_names::place(repository)?).to_string();
    let lock = place.join(format!("{name}.lock"));
    let lock: File = OpenOptions::new()
        .create(true)
        .write(true)
        .truncate(false)
        .mode(0o600)
        .open(lock)
        .map_err(failed)?;
    lock.lock().map_err(failed)?;
    let last = place.join(format!("{name}.json"));
    let all: BTreeSet<MigrationVersion> = recorded(&last)?.into_iter().chain(used).collect();
    let now = Moment::from_millis(system::now_ms());
    let assigned = assign_versions(count, now, all.last().copied());
    system::write_json(&last, &texts(assigned.get(count.saturating_sub(1)..).unwrap_or_default()))?;
    Ok(assigned)
}

#[cfg(test)]
mod tests {
    use bailiwick_source_control::Repository;
    use bailiwick_testkit::scratch::Scratch;

    use super::last_in_tree;

    #[test]
    fn failing_git_is_not_taken_for_a_directory_without_versions() {
        let scratch = Scratch::repository();
        scratch.write("db/20261119050001_users.sql", "-- users\n");
        let commit = scratch.commit("a migration");
        let repository = Repository::discover(&scratch.root()).unwrap();
        let last = |commit: &str, pattern: &str| last_in_tree(&repository, commit, pattern);
        let found = last(&commit, "db/{timestamp}_*.sql").unwrap();
        assert_eq!(found.map(|version| version.to_string()).as_deref(), Some("20261119050001"));
        assert_eq!(last(&commit, "new/{timestamp}_*.sql").unwrap(), None);
        assert!(last(&"0".repeat(40), "db/{timestamp}_*.sql").is_err());
    }
}

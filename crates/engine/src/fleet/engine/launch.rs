//! Spawns the agent of an attempt and starts its supervisor.

use std::fs::File;
use std::io::{Seek as _, Write as _};

use bailiwick_fleet::admission::compile::SkillFiles;
use bailiwick_fleet::ports::{AttemptLaunch, LaunchWorkspace};
use bailiwick_fleet::subagents::ParallelLimits;
use bailiwick_lifecycle::ports::RunStore as _;
use bailiwick_model::settings::AutoLand;
use bailiwick_model::{AgentId, Source};
use bailiwick_runner::supervisor::RunDirectory;

use super::{Verification, environment, id, is_supervised};
use crate::background::{self, Environment, Input};
use crate::context::Context;
use crate::failure::Failure;
use crate::launched_for;
use crate::managed::{ManagedRunConfig, ManagedSkill};
use crate::options::RunOptions;
use crate::reused_workspace::WorkspaceSource;
use crate::running::bound_issue;
use crate::spawning::{Naming, SpawnBindings, spawn};

/// Spawns and starts the agent; finished steps are not repeated.
pub(super) fn start(
    context: &Context,
    launch: &AttemptLaunch,
    verification: Verification,
) -> Result<(), Failure> {
    let context = Context { directory: (&launch.checkout).into(), ..context.clone() };
    let id = id(&launch.agent)?;
    let directory = RunDirectory::new(&context.state, id.as_str());
    let progress = || -> Result<(bool, bool), Failure> {
        let (run, attempts) = context.with_store(async |store| {
            Ok((store.find(&id).await?, store.attempts(Some(&id)).await?))
        })?;
        let spawned = run.as_ref().is_some_and(|run| !run.half_spawned);
        let is_done = spawned && !attempts.is_empty() && launch.resume.is_none();
        Ok((spawned, is_done))
    };
    if is_supervised(&directory, &id)? || progress()?.1 {
        return Ok(());
    }
    // An agent without a login is refused before anything is created.
    let environment = Environment::Only(environment::of_supervisor(launch)?);
    let _lock =
        launched_for::write_checkout(&context.state, &id, &launch.checkout).map_err(|error| {
            Failure::general(format!("the checkout of {id} cannot be noted: {error}"))
        })?;
    // Another server may have launched it while this one was paused, or waited for the lock.
    let (spawned, is_done) = progress()?;
    if is_supervised(&directory, &id)? || is_done {
        return Ok(());
    }
    if !spawned {
        spawn_agent(&context, launch, &id)?;
    }
    if let Some(binding) = &launch.issue {
        bound_issue::bind_with(&context, &id, binding)?;
        // A refusal ends the attempt here, with its reason.
        bound_issue::require_entry(&context, &id)?;
    }
    let options = RunOptions {
        land: Some(AutoLand::Never),
        no_verify: verification == Verification::ByServer,
        ..RunOptions::default()
    };
    let input = match &launch.resume {
        None => Input::Nothing,
        Some(words) => Input::Words(private_file(words)?),
    };
    background::begin_with(&context, &id, &options, input, environment).map(drop)
}

fn spawn_agent(context: &Context, launch: &AttemptLaunch, id: &AgentId) -> Result<(), Failure> {
    let source = Source::new(format!("the task of {id}"), task_text(launch)?);
    spawn(context, &source, Naming::Exactly(id), &launch.base, bindings(launch)?).map(drop)
}

/// Spawns the agent of an attempt that runs elsewhere; its work is put into the worktree when it has ended.
pub(in crate::fleet) fn prepare(context: &Context, launch: &AttemptLaunch) -> Result<(), Failure> {
    let context = Context { directory: (&launch.checkout).into(), ..context.clone() };
    let id = id(&launch.agent)?;
    let _lock =
        launched_for::write_checkout(&context.state, &id, &launch.checkout).map_err(|error| {
            Failure::general(format!("the checkout of {id} cannot be noted: {error}"))
        })?;
    let run = context.with_store(async |store| Ok(store.find(&id).await?))?;
    match run.is_some_and(|run| !run.half_spawned) {
        true => Ok(()),
        false => spawn_agent(&context, launch, &id),
    }
}

/// Writes a text to a private file.
fn private_file(words: &str) -> Result<File, Failure> {
    let failed =
        |error: std::io::Error| Failure::general(format!("its words cannot be handed on: {error}"));
    let mut file = tempfile::tempfile().map_err(failed)?;
    file.write_all(words.as_bytes()).and_then(|()| file.rewind()).map_err(failed)?;
    Ok(file)
}

/// The limits of the agent besides its task: those of stack, profile and repository.
fn bindings(launch: &AttemptLaunch) -> Result<SpawnBindings, Failure> {
    let limits = launch.limits.clone();
    let managed = ManagedRunConfig {
        servers: limits.mcp_servers,
        subagents: limits.subagents,
        parallel: ParallelLimits { pool: launch.owner.capacity, ..limits.parallel },
        owner: launch.owner.clone(),
        contract: None,
        audit_level: limits.audit_level,
        skills: limits.skills.into_iter().map(|skill| from_commit(skill, launch)).collect(),
        sources: launch.sources.clone(),
    };
    let workspace = match &launch.workspace {
        LaunchWorkspace::New => WorkspaceSource::Base,
        LaunchWorkspace::NotReused(why) => WorkspaceSource::NotReused(why.clone()),
        LaunchWorkspace::TakeOver(earlier) => WorkspaceSource::TakeOver(id(earlier)?),
    };
    let managed = Some(managed);
    Ok(SpawnBindings { limits: limits.limits, managed, workspace, ..SpawnBindings::default() })
}

/// A skill out of the commit whose kit binds the agent.
fn from_commit(skill: SkillFiles, launch: &AttemptLaunch) -> ManagedSkill {
    let SkillFiles { name, path, package } = skill;
    let commit = launch.kit_commit.as_ref().unwrap_or(&launch.base).clone();
    ManagedSkill { name, path, commit, package }
}

/// The task with all texts for the agent.
fn task_text(launch: &AttemptLaunch) -> Result<String, Failure> {
    let mut task: toml::Table = launch
        .task
        .parse()
        .map_err(|error| Failure::general(format!("its task cannot be read: {error}")))?;
    let mut body = toml::Table::new();
    body.insert("text".to_owned(), toml::Value::String(launch.context.clone()));
    task.insert("body".to_owned(), toml::Value::Table(body));
    if let Some(kit) = &launch.kit_commit {
        let header = task.get_mut("task").and_then(toml::Value::as_table_mut);
        let header = header.ok_or_else(|| Failure::general("its task has no [task]"))?;
        header.insert("kit-commit".to_owned(), toml::Value::String(kit.clone()));
    }
    toml::to_string(&task)
        .map_err(|error| Failure::general(format!("its task cannot be written: {error}")))
}

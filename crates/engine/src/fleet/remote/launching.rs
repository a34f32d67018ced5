//! What an attempt is queued with for workers. What a worker cannot do is refused here, with the reason.

use std::path::Path;

use bailiwick_fleet::ports::{
    AttemptLaunch, EngineError, LaunchPlace, LaunchWorkspace, WorkerPlace,
};
use bailiwick_fleet::workers::{ATTEMPT_LABEL, CORES_LABEL, QueuedAttempt, RemoteLaunch};
use bailiwick_resources::PodGrants;

use super::{PROGRAM_LABEL, SANDBOX_LABEL, repository_name};
use crate::context::Context;
use crate::failure::Failure;
use crate::fleet::engine;
use crate::fleet::world::PROGRAMS;

const ELSEWHERE: &str = "the workspace of its work item is on the server, and it runs on a worker";
const USE_SERVER: &str = "use a pool with `runsOn: server`";

/// A conversation is in the files of the worker that ran it.
pub(super) fn require_no_conversation(launch: &AttemptLaunch) -> Result<(), EngineError> {
    match launch.resume {
        None => Ok(()),
        Some(_) => Err(EngineError(format!(
            "a conversation cannot be continued on a worker; retry the run, or {USE_SERVER}"
        ))),
    }
}

/// The attempt as it is queued. Its worktree is made here, for the work that comes back.
pub(super) fn queued(
    context: &Context,
    mut launch: AttemptLaunch,
) -> Result<QueuedAttempt, Failure> {
    require_possible(context, &launch)?;
    let WorkerPlace { mut labels, cores, checks_on } = match &launch.place {
        LaunchPlace::Server => return Err(Failure::general("its pool runs on the server")),
        LaunchPlace::Workers(place) => place.clone(),
        // Nothing but the worker of its Job may run it.
        LaunchPlace::Job(_) => WorkerPlace {
            labels: [(ATTEMPT_LABEL.to_owned(), launch.agent.clone())].into(),
            ..WorkerPlace::default()
        },
    };
    let pod_grants = match &launch.place {
        LaunchPlace::Job(grants) => grants.clone(),
        LaunchPlace::Server | LaunchPlace::Workers(_) => PodGrants::default(),
    };
    let program = engine::program_of(&launch)?;
    if PROGRAMS.contains(&program.as_str()) {
        labels.insert(format!("{PROGRAM_LABEL}{program}"), "installed".to_owned());
    }
    if let Some(cores) = cores {
        labels.insert(CORES_LABEL.to_owned(), cores.to_string());
    }
    labels.insert(SANDBOX_LABEL.to_owned(), "full".to_owned());
    if let LaunchWorkspace::TakeOver(_) = launch.workspace {
        launch.workspace = LaunchWorkspace::NotReused(ELSEWHERE.to_owned());
    }
    let environment = engine::granted(&launch)?;
    engine::prepare(context, &launch)?;
    let remote = RemoteLaunch {
        attempt: launch.attempt.clone(),
        repository: repository_name(&launch.checkout),
        checkout: launch.checkout,
        base: launch.base,
        kit_commit: launch.kit_commit,
        task: launch.task,
        context: launch.context,
        limits: launch.limits,
        environment,
        owner: launch.owner.clone(),
        sources: launch.sources,
        not_reused: match launch.workspace {
            LaunchWorkspace::NotReused(why) => Some(why),
            LaunchWorkspace::New | LaunchWorkspace::TakeOver(_) => None,
        },
        pod_values: pod_grants.value_names(),
    };
    let launch_text = serde_json::to_vec(&remote)
        .map_err(|error| Failure::general(format!("its launch cannot be written: {error}")))?;
    Ok(QueuedAttempt {
        agent: launch.agent,
        attempt: launch.attempt,
        pool: launch.owner.pool,
        labels,
        launch: launch_text,
        checks_on,
        pod_grants,
    })
}

fn require_possible(context: &Context, launch: &AttemptLaunch) -> Result<(), Failure> {
    let refused = |what: &str| {
        let why = format!("{what} is not supported on workers");
        Err(Failure::refused(why).help(USE_SERVER))
    };
    if !launch.limits.subagents.is_empty() {
        return refused("an agent with sub-agents");
    }
    if launch.issue.is_some() {
        return refused("a run that keeps its state in an issue");
    }
    if launch.limits.skills.iter().any(|skill| skill.package.is_some()) {
        return refused("a skill from a package");
    }
    if context.kit_root.is_some() || has_files(&context.user_kit) {
        return refused(
            "a kit outside of the repository (`--kit-root` or that of the server's user)",
        );
    }
    Ok(())
}

/// Whether a kit has anything that could bind an agent.
fn has_files(kit: &Path) -> bool {
    ["roles", "capabilities", "adapters", "settings.toml", "templates"]
        .iter()
        .any(|part| kit.join(part).exists())
}

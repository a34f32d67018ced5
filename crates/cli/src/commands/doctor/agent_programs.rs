//! The agent CLIs of this machine: where they are, whether they obey the gate, what they are logged in to.

use std::path::{Path, PathBuf};

use bailiwick_engine::context::{Context, variable};
use bailiwick_engine::logins::{
    self,
    found::{self, Usage},
};
use bailiwick_engine::running::sandbox_plan;
use bailiwick_engine::system;
use bailiwick_runner::agents::adapter::{Adapter, Assignment, Conversation};
use bailiwick_runner::agents::{self, FoundAgent};
use bailiwick_runner::sandbox::Level;
use bailiwick_runner::supervisor::{self, RunDirectory, SelfTestError, SelfTestResult};
use bailiwick_source_control::Git;
use serde::Serialize;

use super::{Check, CheckState};
use crate::failure::Failure;
use crate::output;

/// The state of one agent CLI.
#[derive(Debug, Serialize)]
pub(super) struct AgentProgram {
    name: &'static str,
    /// Its path; none if it is not installed.
    path: Option<PathBuf>,
    /// Its version; none if it does not respond.
    version: Option<String>,
    gate: GateProof,
    /// The logins that work, and those that were found but cannot be used in runs.
    logins: Vec<String>,
}

/// Whether this version of a CLI was seen to obey the gate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "state", content = "why", rename_all = "kebab-case")]
pub(super) enum GateProof {
    /// It was started just now, and obeyed.
    ProvenNow,
    /// The same version passed before.
    ProvenBefore,
    /// It did not obey.
    Disobeyed(String),
    /// It could not be tried.
    NotTried(String),
    /// It was not requested.
    Skipped,
    /// There is nothing to start.
    NotInstalled,
}

/// Looks for the agent CLIs and, unless it is to be quick, has each show that it obeys the gate.
pub(super) fn look(
    context: &Context,
    level: Level,
    quick: bool,
) -> Result<Vec<AgentProgram>, Failure> {
    let home = temporary_directory()?;
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = agents::find(&path, home.path());
    if !quick && level != Level::Off && found.iter().any(|agent| agent.version.is_some()) {
        output::progress("starting the agent CLIs to see whether they obey the gate …");
    }
    // Each thread waits for its CLI most of the time.
    std::thread::scope(|scope| {
        let started: Vec<_> = found
            .into_iter()
            .map(|agent| {
                let trial = agent.clone();
                (agent, scope.spawn(move || proof(context, &trial, level, quick)))
            })
            .collect();
        let finished =
            |(agent, trial): (FoundAgent, std::thread::ScopedJoinHandle<'_, GateProof>)| {
                let lost = |_| GateProof::NotTried("the trial ended without an answer".to_owned());
                let gate = trial.join().unwrap_or_else(lost);
                let FoundAgent { name, path, version } = agent;
                Ok(AgentProgram { name, path, version, gate, logins: logins(name)? })
            };
        started.into_iter().map(finished).collect()
    })
}

fn proof(context: &Context, agent: &FoundAgent, level: Level, quick: bool) -> GateProof {
    let (Some(program), adapter) = (&agent.path, agents::adapter(agent.name)) else {
        return GateProof::NotInstalled;
    };
    let (Some(_), Some(adapter)) = (&agent.version, adapter) else {
        return GateProof::NotTried("it does not answer `--version`".to_owned());
    };
    if quick {
        return GateProof::Skipped;
    }
    if level == Level::Off {
        return GateProof::NotTried("there is no sandbox to start it in".to_owned());
    }
    tried(context, adapter.as_ref(), program, level)
        .unwrap_or_else(|failure| GateProof::NotTried(failure.to_string()))
}

/// Runs the self-test of the CLI in an empty repository, as before each run.
fn tried(
    context: &Context,
    adapter: &dyn Adapter,
    program: &Path,
    level: Level,
) -> Result<GateProof, Failure> {
    let place = temporary_directory()?;
    let root = std::fs::canonicalize(place.path())
        .map_err(|error| Failure::general(format!("no temporary directory: {error}")))?;
    let (worktree, home) = (root.join("worktree"), root.join("home"));
    for directory in [&worktree, &home] {
        std::fs::create_dir(directory).map_err(|error| {
            Failure::general(format!("{} cannot be made: {error}", directory.display()))
        })?;
    }
    Git::at(&worktree).run(["init", "--quiet"])?;
    let directory = program.parent().unwrap_or(program).as_os_str().to_owned();
    let mut path = directory;
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    let Some(found) = sandbox_plan::program_on(&path, adapter, &context.state)? else {
        return Ok(GateProof::NotTried("it does not say its version".to_owned()));
    };
    let session = Conversation::New(system::random_name()?);
    let assignment = Assignment::empty(found.version.clone(), session, worktree.clone(), home);
    let git = worktree.join(".git");
    let enclosure = sandbox_plan::read_only_enclosure(found, &git, &git, level)?;
    let scratch = RunDirectory::new(&root, "canary");
    let kept = context.state.join("canaries");
    let shown =
        supervisor::run_self_test(adapter, &assignment, &enclosure, (&kept, &scratch), || {});
    Ok(match shown {
        Ok(SelfTestResult::Passed) => GateProof::ProvenNow,
        Ok(SelfTestResult::Known | SelfTestResult::NotNeeded) => GateProof::ProvenBefore,
        Err(error) => match error.why {
            SelfTestError::Lost(why) => GateProof::Disobeyed(why),
            SelfTestError::NotAttempted(why) => GateProof::NotTried(why),
        },
    })
}

/// The logins that were found for a CLI, by name.
fn logins(name: &str) -> Result<Vec<String>, Failure> {
    let mut all = Vec::new();
    let wire = agents::adapter(name).and_then(|adapter| adapter.model_api());
    for key in wire.map(logins::keys).unwrap_or_default() {
        if variable(key)?.is_some() {
            all.push(format!("api-key ({key})"));
        }
    }
    for found in found::of_person(name)? {
        all.push(match found.usage {
            Usage::Login(login) => format!("{}: {}", login.as_str(), found.what),
            Usage::LoginWith(login, needed) => {
                format!("{}: {}, once {needed} is set", login.as_str(), found.what)
            }
            Usage::Export(command) => format!("{}: {command}", found.what),
            Usage::NotInRuns => format!("{}: not for runs", found.what),
        });
    }
    Ok(all)
}

/// Whether there is any agent CLI on this machine.
pub(super) fn is_any_installed(agents: &[AgentProgram]) -> bool {
    agents.iter().any(|agent| agent.gate != GateProof::NotInstalled)
}

/// The printed checks of the CLIs.
pub(super) fn checks(agents: &[AgentProgram]) -> Vec<Check> {
    let mut all: Vec<Check> = agents.iter().map(check).collect();
    let installed = agents.iter().filter(|agent| agent.gate != GateProof::NotInstalled);
    let usable = |agent: &AgentProgram| {
        matches!(agent.gate, GateProof::ProvenNow | GateProof::ProvenBefore | GateProof::Skipped)
    };
    if !is_any_installed(agents) {
        let none = Check::new("agent CLIs", CheckState::Note, "none is installed");
        all.push(none.advice("npm install -g @anthropic-ai/claude-code, or another of these"));
    } else if !installed.into_iter().any(usable) {
        all.push(Check::new(
            "agent CLIs",
            CheckState::Bad,
            "none of those installed can be used in runs",
        ));
    }
    all
}

fn check(agent: &AgentProgram) -> Check {
    let (Some(path), gate) = (&agent.path, &agent.gate) else {
        return Check::new(agent.name, CheckState::Note, "not installed");
    };
    let version = agent.version.as_deref().unwrap_or("unknown version");
    let (standing, proof) = match gate {
        GateProof::ProvenNow => (CheckState::Good, "proven now to obey the gate".to_owned()),
        GateProof::ProvenBefore => (CheckState::Good, "proven before to obey the gate".to_owned()),
        GateProof::Skipped => (CheckState::Good, "not started (--quick)".to_owned()),
        GateProof::Disobeyed(why) => (CheckState::Bad, format!("does not obey the gate: {why}")),
        GateProof::NotTried(why) => (CheckState::Note, format!("not proven: {why}")),
        GateProof::NotInstalled => (CheckState::Note, "not installed".to_owned()),
    };
    let check = Check::new(agent.name, standing, format!("{version}, {proof}"));
    let logins = match agent.logins.as_slice() {
        [] => "none found; `bailiwick run` names them all".to_owned(),
        logins => logins.join("; "),
    };
    check.advice(&format!("at {}\nlogins: {logins}", path.display()))
}

fn temporary_directory() -> Result<tempfile::TempDir, Failure> {
    tempfile::tempdir()
        .map_err(|error| Failure::general(format!("no temporary directory: {error}")))
}

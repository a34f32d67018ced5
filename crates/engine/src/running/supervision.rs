//! What the supervisor of an attempt gets: limits, sinks, and ports to checks and delegation.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bailiwick_lifecycle::ports::{Delegation, ForbiddenFiles, TreeChecks};
use bailiwick_lifecycle::supervision::{Budget, Prices};
use bailiwick_model::Settings;
use bailiwick_model::attempt::{Allowance, Attempt};
use bailiwick_model::role::EscalationPolicy;
use bailiwick_model::settings::AutoLand;
use bailiwick_model::task::Login;
use bailiwick_policy::facts::Enforcement;
use bailiwick_policy::tool_lists::OWN_SERVER;
use bailiwick_policy::{PathPolicy, Policy};
use bailiwick_runner::sandbox::{Level, WorktreeAccess};
use bailiwick_runner::supervisor::{self, AttemptOutcome, Handle, PolicyJudge, Sinks, Supervision};

use super::forbidden_files::NewFiles;
use super::observer::RunView;
use super::tree_checks::TreeChecker;
use super::{LockedRun, assign, usage};
use crate::database::DatabaseEvents;
use crate::delegating::DelegationService;
use crate::failure::Failure;
use crate::options::RunOptions;
use crate::policy_file;
use crate::verifying::{AgentWork, WorkOptions};

/// After how long without a sign of life an agent is ended, unless its task says otherwise.
const IDLE_TIMEOUT: Duration = Duration::from_mins(10);
/// How long a call waits for a person, unless the settings say otherwise.
pub(super) const APPROVAL_TIMEOUT: Duration = Duration::from_secs(300);
/// How many MiB an agent may add to the disk in an attempt, unless the settings say otherwise.
const DEFAULT_DISK_MIB: u32 = 20 * 1024;

impl LockedRun {
    /// Supervises the agent to its end.
    pub(super) fn supervise(
        &self,
        prepared: assign::AttemptInputs,
        attempt: &Attempt,
        mut view: Box<dyn RunView>,
        on_started: impl FnOnce(Handle),
    ) -> Result<AttemptOutcome, Failure> {
        let compiled = policy_file::recorded(&self.directory)?;
        let settings = &self.subject.settings;
        let task = &self.subject.bound.task;
        let earlier = self.all_events()?;
        let delegates = prepared.assignment.mcp_servers.contains_key(OWN_SERVER);
        let level = prepared.enclosure.level;
        let login = prepared.assignment.login;
        let fail_fast =
            compiled.policy.all().any(|policy| policy.escalation == EscalationPolicy::FailFast);
        let checks = self.per_call_checks(&compiled.policy.checks_per_call, level)?;
        let forbidden_files = self.forbidden_files(&compiled.policy, &prepared)?;
        let judge = PolicyJudge {
            worktree: prepared.assignment.worktree.clone(),
            home: prepared.assignment.home.clone(),
            enforcement: enforcement(level),
            servers: prepared.assignment.mcp_servers.keys().cloned().collect(),
            log: Mutex::new(self.directory.decisions()),
            redaction: prepared.assignment.hidden.clone(),
            digest: compiled.digest,
            policy: compiled.policy,
        };
        let (database, run) = (Arc::clone(&self.database), self.id.clone());
        let progress_database = Arc::clone(&self.database);
        let mut updated_attempt = attempt.clone();
        let earlier_usage = usage::total(&self.earlier);
        let sinks = Sinks {
            events: Box::new(DatabaseEvents { database, run }),
            show: Box::new(move |event| view.show(event)),
            progress: Box::new(move |progress| {
                usage::apply(&mut updated_attempt, progress, &earlier_usage);
                // It is written again soon, and at the end.
                let _ = progress_database.update(&updated_attempt);
            }),
        };
        let supervision = Supervision {
            models: prepared.assignment.models(prepared.adapter.as_ref()),
            directory: self.directory.clone(),
            adapter: prepared.adapter,
            redaction: prepared.assignment.hidden.clone(),
            assignment: prepared.assignment,
            enclosure: prepared.enclosure,
            upstream: prepared.upstream,
            hosts: task.agent.hosts.iter().map(ToString::to_string).collect(),
            budget: Budget(prepared.budget),
            used: earlier_usage,
            time: usage::time(&self.earlier),
            prices: Prices::new(settings.prices.clone()),
            audit_level: self.audit_level()?,
            call_policy: Arc::new(judge),
            checks,
            forbidden_files,
            fail_fast,
            warns_near_limit: prepared.warns_near_limit,
            idle: task
                .agent
                .idle_minutes
                .map_or(IDLE_TIMEOUT, |minutes| Duration::from_secs(60 * u64::from(minutes))),
            disk: disk(settings),
            approval: settings
                .run
                .approval_seconds
                .map_or(APPROVAL_TIMEOUT, |seconds| Duration::from_secs(u64::from(seconds))),
            delegation: delegates.then(|| self.delegation(level, login) as Arc<dyn Delegation>),
            earlier,
        };
        let outcome = supervisor::supervise(supervision, sinks, on_started)
            .map_err(|error| Failure::general(error.to_string()));
        if delegates {
            self.delegation(level, login).end_below();
        }
        outcome
    }

    /// What removes new files that the agent may not make; `None` where it runs without a sandbox, in a
    /// worktree that its setup has written to.
    fn forbidden_files(
        &self,
        policy: &Policy,
        prepared: &assign::AttemptInputs,
    ) -> Result<Option<Arc<dyn ForbiddenFiles>>, Failure> {
        let paths = PathPolicy::of(policy);
        let writes = prepared.enclosure.access != WorktreeAccess::ReadOnly;
        if paths.is_unlimited() || !writes || prepared.enclosure.level == Level::Off {
            return Ok(None);
        }
        let worktree = prepared.assignment.worktree.clone();
        let AgentWork { repository, base, .. } = &self.subject;
        let files = NewFiles::new(repository, base, worktree, &self.directory, paths)
            .map_err(|error| Failure::general(error.to_string()))?;
        Ok(Some(Arc::new(files)))
    }

    /// The checks of its tree between calls; `None` if no check runs per call.
    fn per_call_checks(
        &self,
        names: &[String],
        level: Level,
    ) -> Result<Option<Arc<dyn TreeChecks>>, Failure> {
        if names.is_empty() {
            return Ok(None);
        }
        let subject =
            AgentWork::of_agent(&self.subject.context, &self.id, &WorkOptions::default())?;
        Ok(Some(Arc::new(TreeChecker::new(subject, names, level.into(), None)?)))
    }

    /// Answers the agent's delegation calls. The agents that it starts use the same login.
    fn delegation(&self, level: Level, login: Login) -> Arc<DelegationService> {
        let options = RunOptions {
            land: Some(AutoLand::Never),
            no_verify: false,
            sandbox: level.into(),
            login: Some(login),
            allow_unsandboxed_setup: false,
        };
        let context = self.subject.context.clone();
        let caller = Some(self.id.clone());
        Arc::new(DelegationService {
            context,
            caller,
            root: None,
            limits: Allowance::default(),
            options,
        })
    }
}

/// How many bytes an agent may add to the disk.
pub(super) fn disk(settings: &Settings) -> u64 {
    u64::from(settings.run.disk_mib.unwrap_or(DEFAULT_DISK_MIB)) << 20
}

/// What enforces the limits on paths of a run: only the full sandbox can decide what a command's text does not.
fn enforcement(level: Level) -> Enforcement {
    match level {
        Level::Full => Enforcement::Kernel,
        Level::Partial | Level::Off => Enforcement::TextOnly,
    }
}

/// The same for the level that was recorded with an attempt; an unknown one is trusted with nothing.
pub(crate) fn recorded_enforcement(level: Option<&str>) -> Enforcement {
    match level {
        Some(level) if level == Level::Full.as_str() => enforcement(Level::Full),
        Some(_) | None => enforcement(Level::Off),
    }
}

//! Starts a new attempt at a task, with the failures of the last one.

use bailiwick_kit::task_text;
use bailiwick_lifecycle::respawn::{PreviousOutcome, failure_report};
use bailiwick_model::attempt::Allowance;
use bailiwick_model::{AgentId, LedgerNote, Run, RunState, RunStatus, Source};
use bailiwick_runner::supervisor::RunDirectory;
use bailiwick_source_control::SpawnLock;
use bailiwick_store::Event;

use crate::context::Context;
use crate::failure::Failure;
use crate::landing::chosen_title;
use crate::managed::ManagedRunConfig;
use crate::rejecting::reject;
use crate::running::forbidden_files::left_out;
use crate::running::next_step_hint;
use crate::spawning::{Naming, SpawnBindings, Spawned, spawn};
use crate::verifying::{AgentWork, VerificationReport, WorkOptions};
use crate::{claiming, policy_file, system};

/// A locked attempt whose task can be tried again.
pub struct Respawn {
    context: Context,
    subject: AgentWork,
    lock: SpawnLock,
    run: Run,
    events: Vec<Event>,
    all: Vec<Run>,
    failed: Option<VerificationReport>,
}

impl Respawn {
    /// Looks up an attempt; an error if its task cannot be tried again, or is tried already and the new agent
    /// has no name of its own.
    pub fn begin(
        context: &Context,
        former: &AgentId,
        named: Option<&AgentId>,
    ) -> Result<Self, Failure> {
        let subject = AgentWork::of_agent(context, former, &WorkOptions::default())?;
        let lock = subject.lock(former)?;
        let (run, events, all) = subject.context.with_store(async |store| {
            let events = store.events(former.as_str()).await?;
            Ok((store.get(former).await?, events, store.list(None).await?))
        })?;
        if run.status == RunStatus::Merged && run.state != RunState::RolledBack {
            return Err(Failure::refused(format!("`{former}` has landed"))
                .help(format!("undo it first: bailiwick rollback {former}")));
        }
        if named.is_none() {
            require_first(&run, &all)?;
        }
        let last = events.iter().rev().find(|event| event.is(LedgerNote::VerificationFailed));
        let failed = last.and_then(|event| serde_json::from_str(&event.detail).ok());
        Ok(Self { context: context.clone(), subject, lock, run, events, all, failed })
    }

    /// Whether a verification says what was wrong.
    pub fn has_failed_checks(&self) -> bool {
        self.failed.is_some()
    }

    /// The reason of its rejection or rollback, if one was given.
    pub fn recorded_reason(&self) -> Option<String> {
        let reason =
            self.events.iter().rev().find(|event| event.kind == RunStatus::Rejected.as_str());
        let reason = reason.map(|event| event.detail.clone()).filter(|text| !text.is_empty());
        reason.or_else(|| reverted(&self.events).filter(|_| self.is_rolled_back()))
    }

    fn is_rolled_back(&self) -> bool {
        self.run.state == RunState::RolledBack
    }

    /// Rejects the former attempt, unless it is rejected, and spawns the next.
    pub fn spawn(
        self,
        named: Option<AgentId>,
        reason: Option<&str>,
        base: &str,
    ) -> Result<Spawned, Failure> {
        let rolled_back = self.is_rolled_back();
        let Self { context, subject, lock, run, events, all, failed } = self;
        let former = &run.id;
        if failed.is_none() && reason.is_none() && !rolled_back {
            return Err(Failure::refused(format!("no failure is recorded for `{former}`")).help(
                format!("verify it first: bailiwick verify {former}, or say why: --reason TEXT"),
            ));
        }
        let failures = failed.map(|verification| verification.failures()).unwrap_or_default();
        let work =
            if rolled_back { PreviousOutcome::RolledBack } else { PreviousOutcome::NotAccepted };
        let directory = RunDirectory::new(&context.state, former.as_str());
        // What cannot be looked at any more is not told.
        let left_out = left_out(&subject.worktree, &directory).unwrap_or_default();
        let report = failure_report(former.as_str(), work, reason, &failures, &left_out);
        let id = match named {
            Some(id) => id,
            None => next_id(&run.name, &names_beside(&run, &all))?,
        };
        if !run.status.next().is_empty() {
            reject(&subject, former, reason)?;
        }
        drop(lock);
        let source =
            claiming::migrations::unassigned(&subject.context, former, &subject.bound.source)?;
        let text = task_text::with_more_body(&source, &report)?;
        let source = Source::new(source.file.to_string(), text);
        let fork_parent = subject.run.as_ref().and_then(|run| run.dna.clone());
        // What bound the first attempt from above binds the next one.
        let bindings = match directory.path().join("policy.json").is_file() {
            true => SpawnBindings::again(policy_file::recorded(&directory)?.policy, fork_parent),
            false => SpawnBindings { fork_parent, ..SpawnBindings::default() },
        };
        // So does what it was handed.
        let bindings = SpawnBindings { managed: ManagedRunConfig::of(&directory)?, ..bindings };
        let spawned = spawn(&subject.context, &source, Naming::Name(Some(&id)), base, bindings)?;
        let id = AgentId::parse(&spawned.agent_id)
            .map_err(|error| Failure::general(error.to_string()))?;
        // One that was delegated stays where it was in its tree; a title is for the task, whichever agent does it.
        context.with_store(async |store| {
            if let Some(title) = chosen_title(&events) {
                store.append_run_note(&id, LedgerNote::Title, &title).await?;
            }
            if let Some(mut delegate) = store.delegate(former).await? {
                delegate.run = id.clone();
                delegate.given = Allowance::default();
                delegate.closed = false;
                delegate.pending = false;
                delegate.created_at = system::now_ms();
                store.save_delegate(&delegate).await?;
            }
            Ok(())
        })?;
        Ok(spawned)
    }
}

/// Whether a run that was not delegated is a new attempt at the task of another.
pub fn is_again(run: &Run, former: &Run) -> bool {
    run.parent_branch.is_none()
        && run.repository == former.repository
        && run.fork_parent_id.is_some()
        && run.fork_parent_id == former.dna
}

/// Returns an error if there is another attempt at the task of a run that was not rejected.
fn require_first(run: &Run, all: &[Run]) -> Result<(), Failure> {
    let is_open = |other: &&Run| match other.state {
        RunState::Rejected | RunState::RolledBack => false,
        RunState::HalfSpawned
        | RunState::Ready
        | RunState::Running
        | RunState::Done
        | RunState::Failed
        | RunState::Merged => true,
    };
    let is_open_again = |other: &&Run| is_again(other, run) && is_open(other);
    let Some(again) = all.iter().rfind(is_open_again) else { return Ok(()) };
    let (former, name) = (&run.name, &again.name);
    let text = format!("`{former}` was respawned already: `{name}` is {}", again.state);
    Err(Failure::refused(text).help(format!(
        "{}; or make another one beside it: bailiwick respawn {former} --agent-id ID",
        next_step_hint(again)
    )))
}

/// The reason of a rollback, if one was given.
fn reverted(events: &[Event]) -> Option<String> {
    let last = events.iter().rev().find(|event| event.is(LedgerNote::RolledBack))?;
    let detail: serde_json::Value = serde_json::from_str(&last.detail).ok()?;
    Some(detail.get("reason")?.as_str()?.to_owned())
}

/// The names that are taken where a run is.
fn names_beside(run: &Run, all: &[Run]) -> Vec<AgentId> {
    let beside = |other: &&Run| other.repository.is_none() || other.repository == run.repository;
    all.iter().filter(beside).map(|other| other.name.clone()).collect()
}

/// The former's id with the first number behind it that is free.
fn next_id(former: &AgentId, existing: &[AgentId]) -> Result<AgentId, Failure> {
    let name = former.as_str();
    let (stem, number) = match name.rsplit_once('-') {
        // The number counts attempts only behind a name that is there.
        Some((stem, number)) if existing.iter().any(|id| id.as_str() == stem) => {
            match number.parse::<u32>() {
                Ok(number) if (2..1000).contains(&number) => (stem, number),
                _ => (name, 1),
            }
        }
        _ => (name, 1),
    };
    let ids = (number + 1..).map(|number| {
        let end = format!("-{number}");
        let room = 64_usize.saturating_sub(end.len());
        let stem: String = stem.chars().take(room).collect();
        AgentId::parse(&format!("{}{end}", stem.trim_end_matches(['-', '.'])))
    });
    for id in ids.take(10_000) {
        let id = id.map_err(|error| Failure::refused(error.to_string()))?;
        if !existing.contains(&id) {
            return Ok(id);
        }
    }
    Err(Failure::refused("no id is free; give one: --agent-id ID"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn next_id_counts_the_attempts() {
        let id = |text: &str| AgentId::parse(text).unwrap();
        let next = |former: &str, taken: &[&str]| {
            let taken: Vec<AgentId> = taken.iter().map(|text| id(text)).collect();
            next_id(&id(former), &taken).unwrap().to_string()
        };
        assert_eq!(next("fix", &["fix"]), "fix-2");
        assert_eq!(next("fix-2", &["fix", "fix-2"]), "fix-3");
        assert_eq!(next("fix", &["fix", "fix-2"]), "fix-3");
        assert_eq!(
            next("fix-42", &["fix-42"]),
            "fix-42-2",
            "an issue number is not an attempt number"
        );
        assert_eq!(next("fix-42000", &[]), "fix-42000-2");
        assert_eq!(next(&"a".repeat(64), &[]).len(), 64);
    }
}

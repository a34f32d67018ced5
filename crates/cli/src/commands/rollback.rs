//! `bailiwick rollback`: reverts what a run has landed.

use bailiwick_engine::agent_names;
use bailiwick_engine::context::Context;
use bailiwick_engine::landing::LandedRecord;
use bailiwick_engine::running::way_on;
use bailiwick_engine::verifying::{Places, Shown, Subject};
use bailiwick_lifecycle::landing;
use bailiwick_lifecycle::ports::{
    Base, LandError, Landing, Merge, Method, RunStore as _, Snapshot, Work as _, WorkError,
};
use bailiwick_lifecycle::verification::Progress;
use bailiwick_model::{AgentId, Run, RunState, RunStatus};
use bailiwick_source_control::GitWork;
use clap::Args;
use serde::Serialize;

use super::options::CheckArguments;
use super::reason;
use crate::failure::Failure;
use crate::output::{self, Format, FormatOption};
use crate::view::verification::Live;

/// Revert what an agent has landed, by a commit on today's base
///
/// The reverted tree must pass the checks of the agent's role that run code, unless it is the tree
/// that the branch had before. If later work changed the same lines, that is a conflict and nothing
/// moves.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  bailiwick rollback fix-42 --reason 'slower than before'\n  \
                        bailiwick rollback fix-42 --unchecked")]
pub struct Rollback {
    /// The agent
    agent: AgentId,
    /// The reason, for the commit message
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Revert without running the checks, for example if they test what is removed
    #[arg(long)]
    unchecked: bool,
    #[command(flatten)]
    manner: CheckArguments,
    #[command(flatten)]
    format: FormatOption,
}

#[derive(Debug, Serialize)]
struct RolledBack {
    agent_id: String,
    branch: String,
    commit: String,
    reverted: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

impl Rollback {
    /// Does what was asked.
    pub fn run(mut self, context: &Context) -> Result<(), Failure> {
        self.agent = agent_names::require(context, &self.agent)?;
        let agent = &self.agent.clone();
        let mut subject = Subject::of_agent(context, agent, &Places::default())?;
        let _lock = subject.lock(agent)?;
        subject.recover()?;
        let (run, record) = landed(&subject, agent)?;
        let format = self.format.format;
        self.reason = reason::or_ask(self.reason.take(), "why is it rolled back?", format);
        // The agent's worktree may be gone; what has landed is in the repository.
        let root = subject.repository.root().to_path_buf();
        subject.work =
            GitWork::open(&root, &root, &subject.context.state, agent, Some(record.branch.clone()));
        let json = self.format.format == Format::Json;
        for _ in 0..5 {
            match self.attempt(&subject, &run, &record, json)? {
                Some(done) => return self.tell(&subject, &done, &record, json),
                None => output::note("the branch moved meanwhile; trying again"),
            }
        }
        Err(Failure::general(format!("{} kept moving; try again", record.branch)))
    }

    /// One attempt; nothing if the branch moved away under it.
    fn attempt(
        &self,
        subject: &Subject,
        run: &Run,
        record: &LandedRecord,
        json: bool,
    ) -> Result<Option<RolledBack>, Failure> {
        let work = subject.found()?;
        let failed = |error: WorkError| Failure::usage(error.to_string());
        let base = tip(subject, &record.branch)?;
        let plan = work.plan_rollback(&record.commit, Some(&record.onto), &base.tip);
        let tree = match plan.map_err(failed)?.merge {
            Merge::Clean { tree } => tree,
            Merge::Conflicts(conflicts) => {
                let paths: Vec<&str> = conflicts.iter().map(|c| c.path.as_str()).collect();
                return Err(Failure::usage(format!(
                    "later work on the same lines is in the way: {}",
                    paths.join(", ")
                ))
                .help(format!("revert it by hand: git revert {}", by_hand(subject, record)?)));
            }
        };
        let reverted = Snapshot {
            head: base.tip.clone(),
            commit: base.tip.clone(),
            tree: tree.clone(),
            merge_base: base.tip.clone(),
            merge_base_tree: base.tree.clone(),
        };
        let landing = Landing {
            agent: run.id.to_string(),
            branch: base.branch.clone(),
            expected: Some(base.tip.clone()),
            onto: base.tip.clone(),
            work: reverted,
            tree,
            method: Method::Squash,
            message: self.message(run, record),
        };
        // The checks can take long; what no check can change is refused before them.
        match work.check_landing_of(&landing) {
            Err(LandError::Moved { .. }) => return Ok(None),
            Err(error @ LandError::Unclean { .. }) => {
                return Err(Failure::usage(error.to_string()).help("commit or stash what is there"));
            }
            Err(error) => return Err(Failure::usage(error.to_string())),
            Ok(()) => {}
        }
        if !self.unchecked && base.tip != record.commit {
            self.check(subject, &base, &landing.work, json)?;
        }
        match work.land(&landing) {
            Ok(landed) => Ok(Some(RolledBack {
                agent_id: run.id.to_string(),
                branch: base.branch,
                commit: landed.commit,
                reverted: record.commit.clone(),
                reason: self.reason.clone(),
            })),
            Err(LandError::Moved { .. }) => Ok(None),
            Err(error) => Err(Failure::usage(error.to_string())),
        }
    }

    fn check(
        &self,
        subject: &Subject,
        base: &Base,
        reverted: &Snapshot,
        json: bool,
    ) -> Result<(), Failure> {
        let mut live = Live::start(json);
        let mut tell = |progress: Progress<'_>| live.tell(&progress);
        let done = subject.verify_reverted(base, reverted, self.manner.into(), &mut tell)?;
        drop(live);
        if done.results.is_empty() || done.holds() {
            return Ok(());
        }
        let shown = Shown::new(Some(self.agent.to_string()), &done);
        if json {
            output::json(&shown)?;
        } else {
            output::print_verification(&shown);
        }
        output::next_step("the checks may be about what is taken away: --unchecked");
        Err(Failure::Said(2))
    }

    fn message(&self, run: &Run, record: &LandedRecord) -> String {
        let reason = self.reason.as_deref().map(|text| format!("\n\n{}", text.trim()));
        let title = format!("Roll {} back{}", run.id, reason.unwrap_or_default());
        let message = landing::message(&title, run, None);
        format!("{message}Bailiwick-Reverts: {}\n", record.commit)
    }

    fn tell(
        &self,
        subject: &Subject,
        done: &RolledBack,
        record: &LandedRecord,
        json: bool,
    ) -> Result<(), Failure> {
        let detail = serde_json::to_string(done)
            .map_err(|error| Failure::general(format!("the result cannot be written: {error}")))?;
        subject.context.with_store(async |store| {
            let summary = format!("rolled back by {:.12} on {}", done.commit, done.branch);
            Ok(store.roll_back(&self.agent, &summary, &detail).await?)
        })?;
        if json {
            return output::json(done);
        }
        let branch = done.branch.strip_prefix("refs/heads/").unwrap_or(&done.branch);
        output::line(format_args!(
            "rolled back  {} by {:.12} on {branch}; it had landed as {:.12}",
            self.agent, done.commit, record.commit
        ));
        output::next_step(format_args!(
            "bailiwick respawn {}{}",
            self.agent, subject.context.repeated
        ));
        Ok(())
    }
}

/// What a run has landed, if it has and that was not taken back.
fn landed(subject: &Subject, agent: &AgentId) -> Result<(Run, LandedRecord), Failure> {
    let (run, events) = subject.context.with_store(async |store| {
        let run = store.find(agent).await?;
        Ok((run, store.events(agent.as_str()).await?))
    })?;
    let Some(run) = run else {
        return Err(Failure::general(format!("`{agent}` is not in the ledger")));
    };
    if run.state == RunState::RolledBack {
        let text = format!("`{agent}` was rolled back already");
        return Err(Failure::usage(text).help(way_on(&run)));
    }
    if run.status != RunStatus::Merged {
        let text = format!("`{agent}` is {}, and has not landed", run.state);
        return Err(Failure::usage(text).help(way_on(&run)));
    }
    let record = events.iter().rev().find(|event| event.kind == "landed");
    let record = record.and_then(|event| serde_json::from_str(&event.detail).ok());
    let Some(record) = record else {
        return Err(Failure::usage(format!("nothing tells what `{agent}` has landed"))
            .help("it was merged by other means; revert it by hand"));
    };
    Ok((run, record))
}

/// The branch that the work has landed on, as it is now.
fn tip(subject: &Subject, branch: &str) -> Result<Base, Failure> {
    let gone = || Failure::usage(format!("{branch} is gone"));
    let tip = subject.repository.commit(branch)?.ok_or_else(gone)?;
    let tree = subject.repository.git().line(["rev-parse", &format!("{tip}^{{tree}}")])?;
    Ok(Base { branch: branch.to_owned(), tip, tree, found: "it has landed there".to_owned() })
}

/// What `git revert` must be given to revert a landing.
fn by_hand(subject: &Subject, record: &LandedRecord) -> Result<String, Failure> {
    let parents = subject.repository.git().line(["rev-list", "-1", "--parents", &record.commit])?;
    let LandedRecord { onto, commit, .. } = record;
    Ok(match parents.split_whitespace().count() {
        // A commit, and the two that it merges.
        3 => format!("-m 1 {commit:.12}"),
        _ => format!("{onto:.12}..{commit:.12}"),
    })
}

//! `bailiwick land`: advances the base branch to exactly the tree that was verified.

use std::path::PathBuf;

use bailiwick_lifecycle::commit_subject::{CommitTitle, commit_subject};
use bailiwick_lifecycle::landing::{self, Done, NotLanded, Order, Watched};
use bailiwick_lifecycle::ports::{LandError, Landing, Method, RunStore as _, Work as _};
use bailiwick_lifecycle::verification::Verification;
use bailiwick_model::capability::RunMode;
use bailiwick_model::settings::LandMethod;
use bailiwick_model::task::TestChanges;
use bailiwick_model::{AgentId, Run, RunState, RunStatus, Sha256Hex};
use bailiwick_store::Event;
use bailiwick_verify::Verdict;
use clap::{Args, ValueEnum};
use serde::Serialize;

use crate::agent_names;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{self, Format, FormatOption};
use crate::running::{interrupt, require_landable, way_on};
use crate::verifying::{Live, Manner, Places, Shown, Subject};
use crate::{claiming, wire};

/// Verify an agent's work on today's base and land exactly that tree
///
/// The branch moves by compare-and-swap: if it moved meanwhile, the new merge is verified first. A
/// checkout of the branch with uncommitted changes is refused; a clean one is updated. With
/// --branch the base stays where it is, and a branch is created for a pull request.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  bailiwick land fix-42\n  bailiwick land fix-42 --method \
                        squash --title 'Fix the lexer'\n  bailiwick land fix-42 --branch \
                        agents/fix-42")]
pub struct Land {
    /// The agent
    agent: AgentId,
    /// Create this branch instead of advancing the base
    #[arg(long, value_name = "BRANCH")]
    branch: Option<String>,
    /// How to merge; default: the setting in .bailiwick/settings.toml, else merge
    #[arg(long, value_name = "METHOD")]
    method: Option<MethodOption>,
    /// Subject of the commit; default: `run --title`, else the first sentence of the task's body
    #[arg(long, value_name = "TEXT")]
    title: Option<CommitTitle>,
    /// The branch to land on; detected by default
    #[arg(long, value_name = "BRANCH")]
    base: Option<String>,
    #[command(flatten)]
    manner: Manner,
    #[command(flatten)]
    format: FormatOption,
}

/// What becomes of the agent's commits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum MethodOption {
    /// A merge commit.
    Merge,
    /// One commit on the base.
    Squash,
    /// Each commit again, on the base.
    Rebase,
}

/// How much a person is told when work lands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Telling {
    /// Nothing.
    Nothing,
    /// What came of it: they have seen the change.
    Result,
    /// The same, and how much of which file changes.
    Change,
}

const TESTS_KEPT: &str = "quality::tests-kept";

/// What has landed, kept in the ledger so that it can be rolled back.
#[derive(Debug, Clone, Serialize, serde::Deserialize)]
pub(crate) struct LandedRecord {
    pub(crate) agent_id: String,
    pub(crate) branch: String,
    pub(crate) onto: String,
    pub(crate) commit: String,
    pub(crate) tree: String,
    pub(crate) method: String,
    pub(crate) checkouts: Vec<PathBuf>,
}

impl Land {
    /// As the settings say, at the end of a run.
    pub(crate) fn of(agent: AgentId, manner: Manner) -> Self {
        let format = FormatOption::default();
        Self { agent, branch: None, method: None, title: None, base: None, manner, format }
    }

    /// Does what was asked.
    pub fn run(mut self, context: &Context) -> Result<(), Failure> {
        interrupt::begin();
        self.agent = agent_names::require(context, &self.agent)?;
        interrupt::announce(format!(
            "stopped; the work is kept, and the same command goes on: bailiwick land {}",
            self.agent
        ));
        self.land(context, Telling::Change)
    }

    /// The same.
    pub(crate) fn land(self, context: &Context, telling: Telling) -> Result<(), Failure> {
        let quiet = telling == Telling::Nothing;
        let places = Places { base: self.base.clone(), ..Places::default() };
        let subject = Subject::of_agent(context, &self.agent, &places)?;
        let Some(run) = subject.run.clone() else {
            return Err(Failure::general(format!("`{}` is not in the ledger", self.agent)));
        };
        let _lock = subject.lock(&run.id)?;
        may_land(&run)?;
        require_landable(context, &run.id)?;
        subject.recover()?;
        let branch = match &self.branch {
            Some(branch) => full_name(branch),
            None => {
                let base = subject.found()?.base();
                base.map_err(|error| Failure::general(error.to_string()))?.branch
            }
        };
        if let Some(record) = already_landed(&subject, &run, &branch)? {
            output::note(format_args!("`{}` has landed; the ledger was not told", run.id));
            return self.finish(&subject, &run, &record, quiet);
        }
        claiming::require_held(&subject, &run.id)?;
        let method = self.method(&subject);
        let order = Order {
            agent: run.id.clone(),
            branch: self.branch.as_deref().map(full_name),
            method,
            message: self.message(&subject, &run)?,
        };
        let json = quiet || self.format.format == Format::Json;
        // The checks can take long; what no check can change is refused before them.
        let could = subject.found()?.check_landing(order.branch.as_deref());
        could.map_err(|error| refused(&subject, &self.agent, error.into(), json))?;
        let manner = self.manner;
        if !json && telling == Telling::Change {
            output::aside(subject.diffstat()?.trim_end());
        }
        let (mut failure, mut live) = (None, Live::start(json));
        let landed = landing::land(
            &order,
            subject.found()?,
            &mut || match subject.verify(RunMode::Both, manner, &[], &mut live) {
                Ok(verification) => verification,
                Err(error) => {
                    failure = Some(error);
                    Verification::default()
                }
            },
            &mut |watched| match watched {
                Watched::Landing(landing) => {
                    // The checks may have taken longer than the lease.
                    claiming::require_held_for(&subject, &run.id, landing).map_err(said)?;
                    intend(&subject, landing, method)
                }
                Watched::Moved { branch, now } => {
                    output::note(format_args!(
                        "{branch} moved to {now:.12}; verifying the new merge"
                    ));
                    Ok(())
                }
            },
        );
        drop(live);
        if let Some(failure) = failure {
            return Err(failure);
        }
        let done = landed.map_err(|error| refused(&subject, &self.agent, error, json))?;
        let shown = Shown::new(Some(run.id.to_string()), &done.verification);
        subject.record(&shown)?;
        if !json {
            tell_allowed_test_changes(&subject, &done.verification);
        }
        self.finish(&subject, &run, &record(&run.id, &done, method), quiet)
    }

    /// Tells the ledger, then the person.
    fn finish(
        &self,
        subject: &Subject,
        run: &Run,
        record: &LandedRecord,
        quiet: bool,
    ) -> Result<(), Failure> {
        self.tell_ledger(subject, run, record)?;
        if quiet {
            return Ok(());
        }
        if self.format.format == Format::Json {
            return output::json(record);
        }
        let short = record.branch.strip_prefix("refs/heads/").unwrap_or(&record.branch);
        output::line(format_args!(
            "landed    {} as {:.12} on {short}",
            record.agent_id, record.commit
        ));
        output::line(format_args!(
            "tree      {:.12}, verified on {:.12}",
            record.tree, record.onto
        ));
        for checkout in &record.checkouts {
            output::line(format_args!("checkout  {} is up to date with it", checkout.display()));
        }
        if self.branch.is_some() {
            output::next_step(format_args!("git push origin {short}"));
        } else {
            output::next_step(format_args!("to undo: bailiwick rollback {}", record.agent_id));
        }
        Ok(())
    }

    fn method(&self, subject: &Subject) -> Method {
        match (self.method, subject.settings.land.method) {
            (Some(MethodOption::Merge), _) | (None, LandMethod::Merge) => Method::Merge,
            (Some(MethodOption::Squash), _) | (None, LandMethod::Squash) => Method::Squash,
            (Some(MethodOption::Rebase), _) | (None, LandMethod::Rebase) => Method::Rebase,
        }
    }

    fn message(&self, subject: &Subject, run: &Run) -> Result<String, Failure> {
        let chosen = match &self.title {
            Some(title) => Some(title.to_string()),
            None => wire::with_store(&subject.context, async |store| {
                Ok(chosen_title(&store.events(run.id.as_str()).await?))
            })?,
        };
        let title =
            chosen.unwrap_or_else(|| commit_subject(&subject.bound.task.body.text, &run.id));
        let policy = subject.context.state.join("runs").join(run.id.as_str()).join("policy.json");
        let policy = std::fs::read(policy).ok().map(|text| Sha256Hex::of(text).to_string());
        Ok(landing::message(&title, run, policy.as_deref()))
    }

    /// A run that lands is done first; one whose branch waits for a pull request stays done.
    fn tell_ledger(
        &self,
        subject: &Subject,
        run: &Run,
        record: &LandedRecord,
    ) -> Result<(), Failure> {
        let detail = serde_json::to_string(record)
            .map_err(|error| Failure::general(format!("the result cannot be written: {error}")))?;
        let kind = if self.branch.is_some() { "proposed" } else { "landed" };
        wire::with_store(&subject.context, async |store| {
            store.append_run_note(&run.id, kind, &detail).await?;
            if run.status == RunStatus::Running {
                store.change_status(&run.id, RunStatus::Done, Some("verified")).await?;
            }
            if self.branch.is_none() {
                let summary = format!("landed as {:.12} on {}", record.commit, record.branch);
                store.change_status(&run.id, RunStatus::Merged, Some(&summary)).await?;
            }
            Ok(())
        })
    }
}

/// What the ledger calls it that a person has chosen the subject of a run's commit.
pub(super) const TITLE: &str = "title";

/// The subject that a person chose last for the commit of a run.
pub(super) fn chosen_title(events: &[Event]) -> Option<String> {
    let last = events.iter().rev().find(|event| event.kind == TITLE)?;
    Some(last.detail.clone())
}

/// Where it is written down that an agent's work is about to land.
fn intention(subject: &Subject, agent: &str) -> PathBuf {
    subject.context.state.join("runs").join(agent).join("landing.json")
}

/// Writes down what is about to land, all but the commit, which is not made yet.
fn intend(subject: &Subject, landing: &Landing, method: Method) -> Result<(), String> {
    let record = LandedRecord {
        agent_id: landing.agent.clone(),
        branch: landing.branch.clone(),
        onto: landing.onto.clone(),
        commit: String::new(),
        tree: landing.tree.clone(),
        method: name(method).to_owned(),
        checkouts: Vec::new(),
    };
    let text = serde_json::to_string(&record).map_err(|error| error.to_string())?;
    wire::write_whole(&intention(subject, &landing.agent), &text).map_err(said)
}

fn said(failure: Failure) -> String {
    match failure {
        Failure::Message { text, .. } => text,
        Failure::Problems(_) | Failure::Said(_) => "it cannot be written down".to_owned(),
    }
}

/// Tests that are weaker land, where the task allows it, but not in silence.
fn tell_allowed_test_changes(subject: &Subject, verification: &Verification) {
    let allowed = subject.bound.task.verification.test_changes.as_ref();
    if allowed.is_none_or(|changes| *changes.get_ref() == TestChanges::Refused) {
        return;
    }
    let mut results = verification.results.iter().rev();
    let found = results.find(|result| result.capability == TESTS_KEPT);
    if let Some(Verdict::Pass { evidence }) = found.map(|result| &result.verdict) {
        output::note(format_args!("{TESTS_KEPT}: {evidence}"));
    }
}

/// What a run has landed though the ledger was not told, because we were killed in between: a commit
/// of the branch that has the tree which was verified, on the base which it was verified on.
fn already_landed(
    subject: &Subject,
    run: &Run,
    branch: &str,
) -> Result<Option<LandedRecord>, Failure> {
    let Ok(text) = std::fs::read(intention(subject, run.id.as_str())) else { return Ok(None) };
    let Ok(intended) = serde_json::from_slice::<LandedRecord>(&text) else { return Ok(None) };
    let tip = subject.repository.commit(branch)?.filter(|_| intended.branch == branch);
    let Some(tip) = tip else { return Ok(None) };
    let range = format!("{}..{tip}", intended.onto);
    let format = "--format=%H %T %(trailers:key=Bailiwick-Agent,valueonly,separator=%x20)";
    let wanted = format!(" {} {}", intended.tree, run.id);
    let log = subject.repository.git().run(["log", "--first-parent", format, &range])?;
    let log = String::from_utf8_lossy(&log);
    let landed = log.lines().find_map(|line| line.trim_end().strip_suffix(&wanted));
    Ok(landed.map(|commit| LandedRecord { commit: commit.to_owned(), ..intended }))
}

fn may_land(run: &Run) -> Result<(), Failure> {
    match run.status {
        RunStatus::Running | RunStatus::Done if !run.half_spawned => Ok(()),
        RunStatus::Merged if run.state == RunState::Merged => {
            Err(Failure::usage(format!("`{}` is merged: it has landed already", run.id))
                .help(way_on(run)))
        }
        RunStatus::Running
        | RunStatus::Done
        | RunStatus::Failed
        | RunStatus::Merged
        | RunStatus::Rejected => {
            let text = format!("`{}` is {}, and cannot land", run.id, run.state);
            Err(Failure::usage(text).help(way_on(run)))
        }
    }
}

fn full_name(branch: &str) -> String {
    if branch.starts_with("refs/") { branch.to_owned() } else { format!("refs/heads/{branch}") }
}

fn name(method: Method) -> &'static str {
    match method {
        Method::Merge => "merge",
        Method::Squash => "squash",
        Method::Rebase => "rebase",
    }
}

fn record(agent: &AgentId, done: &Done, method: Method) -> LandedRecord {
    LandedRecord {
        agent_id: agent.to_string(),
        branch: done.branch.clone(),
        onto: done.onto.clone(),
        commit: done.landed.commit.clone(),
        tree: done.tree.clone(),
        method: name(method).to_owned(),
        checkouts: done.landed.checkouts.clone(),
    }
}

/// What can be done with an agent that has changed nothing.
fn nothing_to_land(run: Option<&Run>, agent: &AgentId) -> String {
    match run.map(|run| run.state) {
        Some(RunState::Ready) => {
            format!(
                "it was never started: bailiwick run {agent}; or remove it: bailiwick rm {agent}"
            )
        }
        Some(_) | None => format!(
            "see what it did: bailiwick logs {agent}; begin its task again: bailiwick respawn {agent} \
             --reason TEXT"
        ),
    }
}

fn refused(subject: &Subject, agent: &AgentId, error: NotLanded, json: bool) -> Failure {
    match error {
        NotLanded::Failed(verification) => {
            let shown = Shown::new(Some(agent.to_string()), &verification);
            if let Err(failure) = subject.record(&shown) {
                return failure;
            }
            if json {
                return output::json(&shown).err().unwrap_or(Failure::Said(2));
            }
            shown.print();
            output::next_step(format_args!(
                "bailiwick respawn {agent}, or bailiwick reject {agent}"
            ));
            Failure::Said(2)
        }
        NotLanded::Refused(error @ LandError::Unclean { .. }) => Failure::usage(error.to_string())
            .help("commit or stash what is there, or land on a branch of its own: --branch NAME"),
        NotLanded::Refused(LandError::Nothing { branch, .. }) => {
            let short = branch.strip_prefix("refs/heads/").unwrap_or(&branch);
            Failure::usage(format!("nothing to land: {short} has all that `{agent}` made"))
                .help(nothing_to_land(subject.run.as_ref(), agent))
        }
        NotLanded::Refused(error) => Failure::usage(error.to_string()),
        NotLanded::KeptMoving { .. } | NotLanded::Unrecorded(_) => {
            Failure::general(error.to_string())
        }
    }
}

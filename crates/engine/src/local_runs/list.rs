//! Lists agents and reads one.

use std::collections::BTreeMap;

use bailiwick_fleet::ports::{
    LocalAttempt, LocalRun, LocalRunBudget, LocalRunCounts, LocalRunDetail, LocalRunError,
    LocalRunGroup, LocalRunList, LocalRunQuery, LocalRunStage, LocalRunUsage,
};
use bailiwick_lifecycle::ports::{RunStore as _, StoreError};
use bailiwick_model::attempt::{Allowance, Used};
use bailiwick_model::event::Phase;
use bailiwick_model::{AgentId, Attempt, Run, RunStatus, Source, Task};
use bailiwick_resources::Moment;
use bailiwick_store::{Dispatch, Event, RunPage, RunPosition};

use super::possible::Facts;
use super::{LedgerRuns, error, store_error};
use crate::agent_names::shown;
use crate::agent_state::{AgentState, SupervisorState};
use crate::running::{recover, run_list};
use crate::standing::Standing;
use crate::waiting_for::{QUARANTINED, WaitingFor};
use crate::{removing, system};

/// How many runs are examined for one page. If a filter matches few of them, the page is shorter.
const MAX_EXAMINED: usize = 5_000;
/// How many runs are read at once if there is a filter.
const CHUNK_SIZE: usize = 250;

/// A run with the data of a list row.
struct Row {
    /// In milliseconds.
    started_at: i64,
    run: Run,
    attempts: Vec<Attempt>,
    state: AgentState,
    standing: Standing,
    dispatch: Option<Dispatch>,
    questions: u64,
}

impl Row {
    fn matches(&self, role: &str, text: &str) -> bool {
        let last = self.attempts.last();
        let repository = shown(self.run.repository.as_deref());
        let fields = [
            self.run.name.as_str(),
            self.run.id.as_str(),
            role,
            last.map_or("", |attempt| attempt.cli.as_str()),
            last.map_or("", |attempt| attempt.model.as_str()),
            &repository,
        ];
        let text = text.to_lowercase();
        fields.iter().any(|field| field.to_lowercase().contains(&text))
    }
}

/// What the database has of a run.
struct ReadRun {
    run: Run,
    attempts: Vec<Attempt>,
    notes: Vec<Event>,
    dispatch: Option<Dispatch>,
}

/// Runs that were read at once.
struct Chunk {
    rows: Vec<Row>,
    /// The position of the last one, even if it cannot be read.
    last: Option<Position>,
    /// Whether there are no later ones.
    is_end: bool,
}

/// The position of a run in a list: its start in milliseconds and its ID.
type Position = (i64, String);

/// The position after which a page starts.
fn position(text: &str) -> Result<Position, LocalRunError> {
    let parsed = text.split_once('.').and_then(|(at, id)| Some((at.parse().ok()?, id.to_owned())));
    parsed.ok_or_else(|| LocalRunError::Refused {
        message: "the cursor is not one of this list".to_owned(),
        advice: Some("start again without `continue`".to_owned()),
    })
}

/// Which runs are read.
#[derive(Debug, Clone, Copy)]
struct Wanted {
    /// The statuses; every one if there is none.
    statuses: &'static [RunStatus],
    /// Whether runs that the control plane has settled are left out.
    is_unsettled: bool,
}

impl Wanted {
    const ALL: Self = Self { statuses: &[], is_unsettled: false };
    const OPEN: Self =
        Self { statuses: &[RunStatus::Running, RunStatus::Done], is_unsettled: true };

    /// Those that can be in a group.
    fn of(group: Option<LocalRunGroup>) -> Self {
        match group {
            // Quarantined runs have failed.
            Some(LocalRunGroup::NeedsYou) => Self {
                statuses: &[RunStatus::Running, RunStatus::Done, RunStatus::Failed],
                is_unsettled: true,
            },
            Some(LocalRunGroup::Working | LocalRunGroup::Ready) => Self::OPEN,
            Some(LocalRunGroup::Ended) | None => Self::ALL,
        }
    }
}

impl LedgerRuns {
    pub(super) fn list_page(&self, query: &LocalRunQuery) -> Result<LocalRunList, LocalRunError> {
        if !self.context.database.exists() {
            return Ok(LocalRunList::default());
        }
        recover::record_interrupted_runs(&self.context).map_err(error)?;
        let text = query.text.as_deref().filter(|text| !text.is_empty());
        let is_filtered = query.group.is_some() || text.is_some();
        let size = if is_filtered { CHUNK_SIZE } else { query.limit.saturating_add(1) };
        let mut after = query.after.as_deref().map(position).transpose()?;
        let (mut roles, mut rows, mut examined) = (BTreeMap::new(), Vec::new(), 0);
        let wanted = Wanted::of(query.group);
        let next = loop {
            let chunk = self.chunk(wanted, after.as_ref(), size)?;
            let is_last = chunk.is_end;
            self.add_roles(&chunk.rows, &mut roles)?;
            let mut is_full = false;
            for row in chunk.rows {
                if rows.len() == query.limit {
                    is_full = true;
                    break;
                }
                examined += 1;
                after = Some((row.started_at, row.run.id.to_string()));
                let role = roles.get(&row.run.spec_sha).map_or("", String::as_str);
                let in_group = query.group.is_none_or(|group| row.standing.group == group);
                if in_group && text.is_none_or(|text| row.matches(role, text)) {
                    rows.push(row);
                }
            }
            if !is_full {
                // Past rows that cannot be read.
                after = chunk.last.or(after);
            }
            if is_full || (!is_last && examined >= MAX_EXAMINED) {
                break after.map(|(started_at, id)| format!("{started_at}.{id}"));
            }
            if is_last {
                break None;
            }
        };
        let total = match is_filtered {
            true => None,
            false => {
                let count = self.open()?.with(async |store| store.count_runs().await);
                Some(count.map_err(store_error)?)
            }
        };
        let now = system::now_ms();
        let item = |row: &Row| {
            let role = roles.get(&row.run.spec_sha).cloned().unwrap_or_default();
            local_run(row, role, now)
        };
        Ok(LocalRunList { items: rows.iter().map(item).collect(), next, total })
    }

    /// Counts runs by stage. Of a closed run its row has the stage, of a settled one the control plane; what another
    /// open one waits for is examined.
    pub(super) fn count_by_stage(&self) -> Result<LocalRunCounts, LocalRunError> {
        let mut counts = LocalRunCounts::default();
        if !self.context.database.exists() {
            return Ok(counts);
        }
        recover::record_interrupted_runs(&self.context).map_err(error)?;
        let closed = self.open()?.with(async |store| {
            let closed = store.count_closed_runs().await?;
            Ok::<_, StoreError>((closed, store.count_settled_dispatches().await?))
        });
        let (closed, settled) = closed.map_err(store_error)?;
        counts.add(LocalRunStage::Landed, closed.landed + settled.succeeded);
        counts.add(LocalRunStage::Failed, closed.failed + settled.failed);
        let (mut after, mut examined) = (None, 0);
        loop {
            let chunk = self.chunk(Wanted::OPEN, after.as_ref(), CHUNK_SIZE)?;
            for row in &chunk.rows {
                counts.add(row.standing.stage, 1);
            }
            examined += chunk.rows.len();
            counts.is_incomplete = !chunk.is_end && examined >= MAX_EXAMINED;
            if chunk.is_end || counts.is_incomplete {
                return Ok(counts);
            }
            after = chunk.last.or(after);
        }
    }

    pub(super) fn read_detail(&self, run: &Run) -> Result<LocalRunDetail, LocalRunError> {
        recover::record_interrupted_runs(&self.context).map_err(error)?;
        let read = self.open()?.with(async |store| {
            let attempts = store.attempts(Some(&run.id)).await?;
            let task = store.spec(&run.spec_sha).await?.unwrap_or_default();
            let notes = store.notes(&run.id).await?;
            let dispatch = store.dispatch_of(&run.id).await?;
            let last_event = store.last_event(&run.id).await?;
            Ok::<_, StoreError>((attempts, task, notes, dispatch, last_event))
        });
        let (attempts, task, notes, dispatch, last_event) = read.map_err(store_error)?;
        let read = ReadRun { run: run.clone(), attempts, notes, dispatch };
        let row = self.row(run.started_ts, read);
        let now = system::now_ms();
        let attempts = row.attempts.iter().map(|attempt| local_attempt(attempt, now)).collect();
        let run = local_run(&row, role_of(&task).unwrap_or_default(), now);
        let dna = row.run.dna.clone().unwrap_or_default();
        let actions = self.facts_of(&row.run, &row.attempts, row.state)?.actions();
        let worktree = row.run.worktree_path.clone().unwrap_or_default();
        Ok(LocalRunDetail { run, attempts, task, dna, worktree, last_event, actions })
    }

    /// What decides whether an action on a run is possible now.
    pub(super) fn facts(&self, run: &Run) -> Result<Facts, LocalRunError> {
        let read = self.open()?.with(async |store| {
            let attempts = store.attempts(Some(&run.id)).await?;
            let run = store.find(&run.id).await?;
            Ok::<_, StoreError>((run, attempts))
        });
        let (found, attempts) = read.map_err(store_error)?;
        let run = found.as_ref().unwrap_or(run);
        let (supervisor, _) = SupervisorState::observe(&self.context, run);
        let state = AgentState::of(run, attempts.last(), supervisor);
        self.facts_of(run, &attempts, state)
    }

    fn facts_of(
        &self,
        run: &Run,
        attempts: &[Attempt],
        state: AgentState,
    ) -> Result<Facts, LocalRunError> {
        let has_files = removing::has_files(&self.context, run);
        Ok(Facts::new(run, attempts, state, self.is_managed(&run.id)?, has_files))
    }

    fn row(&self, started_at: i64, read: ReadRun) -> Row {
        let ReadRun { run, attempts, notes, dispatch } = read;
        let (supervisor, questions) = SupervisorState::observe(&self.context, &run);
        let last = attempts.last();
        let state = AgentState::of(&run, last, supervisor);
        let waiting = WaitingFor::of(&run, state, last, &notes);
        let standing = Standing::of(&run.name, waiting, state, last, dispatch.as_ref());
        let questions = u64::try_from(questions.len()).unwrap_or(u64::MAX);
        Row { started_at, run, attempts, state, standing, dispatch, questions }
    }

    /// Runs after a position, the newest first.
    fn chunk(
        &self,
        wanted: Wanted,
        after: Option<&Position>,
        size: usize,
    ) -> Result<Chunk, LocalRunError> {
        let after =
            after.map(|(started_at, id)| RunPosition { started_at: *started_at, id: id.as_str() });
        let limit = u32::try_from(size).unwrap_or(u32::MAX);
        // A failed run waits for a person only if it is quarantined.
        let Wanted { statuses, is_unsettled } = wanted;
        let failed_by = if statuses.is_empty() { &[][..] } else { &QUARANTINED };
        let read = self.open()?.with(async |store| {
            let mut all = Vec::new();
            let page = RunPage { statuses, failed_by, is_unsettled, after, limit };
            let page = store.run_page(page).await?;
            for (started_at, run) in page.runs {
                let attempts = store.attempts(Some(&run.id)).await?;
                // Only of runs that are done or failed do notes say what comes next.
                let notes = match run.status {
                    RunStatus::Done | RunStatus::Failed => store.notes(&run.id).await?,
                    RunStatus::Running | RunStatus::Merged | RunStatus::Rejected => Vec::new(),
                };
                let dispatch = store.dispatch_of(&run.id).await?;
                all.push((started_at, ReadRun { run, attempts, notes, dispatch }));
            }
            Ok::<_, StoreError>((all, page.last, page.is_end))
        });
        let (all, last, is_end) = read.map_err(store_error)?;
        let row = |(started_at, read): (i64, ReadRun)| self.row(started_at, read);
        Ok(Chunk { rows: all.into_iter().map(row).collect(), last, is_end })
    }

    /// The runs since a time, the newest first, each with the end of its last attempt.
    pub(super) fn runs_since(
        &self,
        since: Moment,
        limit: usize,
    ) -> Result<Vec<(AgentId, LocalRun, Option<u64>)>, LocalRunError> {
        let (mut roles, mut rows, mut after) = (BTreeMap::new(), Vec::new(), None);
        loop {
            let chunk = self.chunk(Wanted::ALL, after.as_ref(), CHUNK_SIZE)?;
            let read = chunk.rows.len();
            let is_recent = |row: &Row| seconds(row.run.started_ts) >= since;
            let recent: Vec<Row> = chunk.rows.into_iter().take_while(is_recent).collect();
            self.add_roles(&recent, &mut roles)?;
            after = chunk.last.or(after);
            let is_older = recent.len() < read;
            rows.extend(recent);
            if chunk.is_end || is_older || rows.len() >= limit {
                break;
            }
        }
        rows.truncate(limit);
        let now = system::now_ms();
        let run = |row: &Row| {
            let role = roles.get(&row.run.spec_sha).cloned().unwrap_or_default();
            let ended_at = row.attempts.last().and_then(|attempt| attempt.ended_at);
            (row.run.id.clone(), local_run(row, role, now), ended_at)
        };
        Ok(rows.iter().map(run).collect())
    }

    /// Adds the role of each task, by the digest of the task.
    fn add_roles(
        &self,
        rows: &[Row],
        roles: &mut BTreeMap<String, String>,
    ) -> Result<(), LocalRunError> {
        let read = self.open()?.with(async |store| {
            for row in rows {
                let sha = &row.run.spec_sha;
                if !roles.contains_key(sha)
                    && let Some(role) = store.spec(sha).await?.as_deref().and_then(role_of)
                {
                    roles.insert(sha.clone(), role);
                }
            }
            Ok::<_, StoreError>(())
        });
        read.map_err(store_error)
    }
}

fn role_of(task: &str) -> Option<String> {
    let task = Task::parse(&Source::new("task.toml", task)).ok()?;
    Some(task.task.role.get_ref().to_string())
}

pub(super) fn seconds(time: i64) -> Moment {
    Moment::from_millis(u64::try_from(time).unwrap_or(0).saturating_mul(1_000))
}

fn usage(used: &Used, elapsed_ms: u64) -> LocalRunUsage {
    let Used { tokens, micro_usd, turns, tool_calls, denied } = *used;
    LocalRunUsage { tokens, micro_usd, turns, tool_calls, denied, elapsed_ms }
}

fn budget(allowed: &Allowance) -> LocalRunBudget {
    let Allowance { tokens, micro_usd, turns, milliseconds, tool_calls } = *allowed;
    LocalRunBudget { tokens, micro_usd, turns, tool_calls, elapsed_ms: milliseconds }
}

pub(super) fn phase(phase: Phase) -> &'static str {
    match phase {
        Phase::Preparing => "preparing",
        Phase::SelfTest => "proving",
        Phase::Working => "working",
        Phase::Verifying => "verifying",
        Phase::Over => "over",
    }
}

fn local_attempt(attempt: &Attempt, now: u64) -> LocalAttempt {
    LocalAttempt {
        number: attempt.number,
        agent: attempt.cli.clone(),
        agent_version: attempt.version.clone(),
        model: attempt.model.clone(),
        login: attempt.login.clone(),
        sandbox: attempt.sandbox.clone(),
        phase: phase(attempt.phase).to_owned(),
        ending: attempt.ending.map(|ending| ending.to_string()),
        detail: attempt.detail.clone(),
        started_at: Moment::from_millis(attempt.started_at),
        ended_at: attempt.ended_at.map(Moment::from_millis),
        used: usage(&attempt.used, run_list::elapsed(std::slice::from_ref(attempt), now)),
    }
}

fn local_run(row: &Row, role: String, now: u64) -> LocalRun {
    let Row { run, attempts, state, standing, dispatch, questions, .. } = row;
    let last = attempts.last();
    let text = |of: fn(&Attempt) -> &String| last.map(of).cloned().unwrap_or_default();
    let used = attempts.iter().fold(Used::default(), |sum, attempt| sum.plus(&attempt.used));
    let group = standing.group;
    let words = standing.words.map_or_else(|| state.to_string(), str::to_owned);
    let summary = run.summary.clone().or_else(|| last.map(|attempt| attempt.detail.clone()));
    LocalRun {
        id: run.id.to_string(),
        name: run.name.to_string(),
        repository: run.repository.as_deref().map(|place| shown(Some(place))).unwrap_or_default(),
        state: words,
        group,
        stage: standing.stage,
        next: standing.next.clone(),
        is_managed: dispatch.is_some(),
        role,
        branch: run.branch.clone(),
        base: run.base.clone(),
        parent: run.parent_branch.clone(),
        agent: text(|attempt| &attempt.cli),
        agent_version: text(|attempt| &attempt.version),
        model: text(|attempt| &attempt.model),
        sandbox: text(|attempt| &attempt.sandbox),
        attempts: u64::try_from(attempts.len()).unwrap_or(u64::MAX),
        created_at: seconds(run.started_ts),
        ended_at: match group {
            LocalRunGroup::Working => None,
            LocalRunGroup::NeedsYou | LocalRunGroup::Ready | LocalRunGroup::Ended => {
                last.and_then(|attempt| attempt.ended_at).map(Moment::from_millis)
            }
        },
        used: usage(&used, run_list::elapsed(attempts, now)),
        budget: last.map(|attempt| budget(&attempt.budget)).unwrap_or_default(),
        questions: *questions,
        summary: summary.unwrap_or_default(),
    }
}

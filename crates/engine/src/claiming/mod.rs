//! Claims on paths: acquired before an agent starts, checked when its work lands.
//!
//! ```text
//! queue        who waits, in the order in which they came
//! forge        claims of runs that are bound to an issue, which other machines see
//! hand_over    claims that the next run of a workspace takes over, or that a run gives back at its end
//! migrations   versions of database migrations that agents are assigned
//! ```
//!
//! The rules are in `lifecycle::delegation::claim`; only repositories whose settings have `[claims]` use
//! them. The store releases a claim when its run lands or is rejected.

pub mod forge;
mod hand_over;
pub mod migrations;
mod queue;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bailiwick_lifecycle::delegation::claim::{
    Acquired, ClaimRequest, ConflictAction, FenceState, Obstacle, ahead, next, outside,
    where_both_meet, with_modules, writable,
};
use bailiwick_lifecycle::ports::{Landing, Work as _};
use bailiwick_model::claim::{Claim, ClaimOutcome};
use bailiwick_model::globs::Area;
use bailiwick_model::settings::{Claims, OnOverlap};
use bailiwick_model::{AgentId, Settings, Task};
use bailiwick_policy::Policy;
use bailiwick_runner::supervisor::RunDirectory;
use bailiwick_source_control::Repository;
use bailiwick_verify::Change;

pub use hand_over::give_back;
use queue::Queue;

use crate::context::Context;
use crate::failure::Failure;
use crate::options::IfClosed;
use crate::verifying::AgentWork;
use crate::{agent_names, agent_state, policy_file, system};

/// The rule that a refusal names.
const RULE: &str = "claims";
/// How often a waiting claim is tried again.
const PAUSE: Duration = Duration::from_millis(500);

/// A claim that conflicts, and why.
struct BlockingClaim {
    by: String,
    why: String,
}

impl BlockingClaim {
    fn by(obstacles: &[Obstacle]) -> Self {
        let by = obstacles.first().map_or("it", |one| one.claim.run.as_str()).to_owned();
        Self { by, why: reasons(obstacles) }
    }
}

/// Limits how long to wait for a claim, in addition to the settings.
#[derive(Debug, Clone, Copy, Default)]
pub struct ClaimWait<'a> {
    /// Set when the claim is no longer needed.
    pub cancelled: Option<&'a AtomicBool>,
    /// The longest time.
    pub most: Option<Duration>,
    /// Whether it is still waited for when the agent was closed.
    pub if_closed: IfClosed,
}

impl ClaimWait<'_> {
    /// The waiting time of the settings, in milliseconds.
    fn at_most(self, settings: u64) -> u64 {
        let most = self.most.map(|most| u64::try_from(most.as_millis()).unwrap_or(u64::MAX));
        most.map_or(settings, |most| most.min(settings))
    }

    fn is_over(self) -> bool {
        self.cancelled.is_some_and(|cancelled| cancelled.load(Ordering::Relaxed))
    }
}

/// An agent and what it may write.
struct Claimant<'a> {
    context: &'a Context,
    id: &'a AgentId,
    claims: &'a Claims,
    request: ClaimRequest,
}

impl<'a> Claimant<'a> {
    /// `None` where the repository uses no claims, or the agent writes nothing.
    fn of(
        context: &'a Context,
        repository: &Repository,
        settings: &'a Settings,
        id: &'a AgentId,
        task: &Task,
        policy: &Policy,
    ) -> Result<Option<Self>, Failure> {
        let Some(claims) = &settings.claims else { return Ok(None) };
        let Some((inside, except)) = writable(policy) else { return Ok(None) };
        let (inside, except) = with_modules(inside, except, &claims.modules);
        let parent = match &task.task.parent_agent {
            Some(parent) => Some(agent_names::resolve(context, parent)?),
            None => None,
        };
        let line =
            context.with_store(async |store| Ok(store.ancestor_ids(parent.as_ref()).await?))?;
        // The lease follows the time limit of the run.
        let minutes = task.budget.minutes.unwrap_or_default();
        let lease = claims.lease().max(minutes.saturating_mul(60_000));
        let repository = agent_names::place(repository)?;
        let takes_over = hand_over::earlier_claimants(context, id)?;
        let run = id.clone();
        let request = ClaimRequest { run, line, repository, inside, except, lease, takes_over };
        Ok(Some(Self { context, id, claims, request }))
    }

    /// Acquires or renews the claim; waits for it if the settings say so. Waiting runs get it in order of
    /// arrival.
    fn take(&self, wait: ClaimWait<'_>) -> Result<Acquired, Failure> {
        let queue = Queue::beside(self.context.database.location());
        let mut ticket = None;
        let begun = system::now_ms();
        loop {
            if wait.if_closed == IfClosed::Refuse {
                agent_state::require_open(self.context, self.id)?;
            }
            let now = system::now_ms();
            let obstacle = match self.first_ahead(&queue, ticket.as_ref(), now)? {
                Some(obstacle) => obstacle,
                None => {
                    let acquired = self
                        .context
                        .with_store(async |store| Ok(store.acquire(&self.request, now).await?))?;
                    match acquired {
                        acquired @ (Acquired::Granted(_) | Acquired::Renewed(_)) => {
                            return Ok(acquired);
                        }
                        Acquired::Obstructed(obstacles) => BlockingClaim::by(&obstacles),
                    }
                }
            };
            let waited = now.saturating_sub(begun);
            if wait.is_over() {
                let id = self.id;
                return Err(Failure::general(format!("nobody waits for `{id}` any more")));
            }
            let longest = wait.at_most(self.claims.wait_timeout());
            match next(self.claims.on_overlap, waited, longest) {
                ConflictAction::Refuse => return Err(self.refused(&obstacle)),
                ConflictAction::Wait if ticket.is_some() => {}
                ConflictAction::Wait => {
                    let entered = queue.enter(&self.request).map_err(|error| {
                        Failure::general(format!(
                            "`{}` cannot wait for its claim: {error}",
                            self.id
                        ))
                    })?;
                    ticket = Some(entered);
                    self.context
                        .notices
                        .note(format_args!("`{}` waits: {}", self.id, obstacle.why));
                }
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Earlier waiting runs for the same paths. A run that has its claim does not wait.
    fn first_ahead(
        &self,
        queue: &Queue,
        ticket: Option<&queue::Ticket>,
        now: u64,
    ) -> Result<Option<BlockingClaim>, Failure> {
        let before = queue.before(ticket).map_err(|error| {
            Failure::general(format!("cannot read the queue of claims: {error}"))
        })?;
        if before.is_empty() {
            return Ok(None);
        }
        let ClaimRequest { run, repository, lease, .. } = &self.request;
        let (own, claims) = self.context.with_store(async |store| {
            let own = store.renew_claim(run, repository, now.saturating_add(*lease)).await?;
            Ok((own, store.claims(Some(repository)).await?))
        })?;
        if matches!(own, Some((_, FenceState::Valid))) {
            return Ok(None);
        }
        Ok(ahead(&self.request, &before, &claims, now).map(|(other, at)| BlockingClaim {
            by: other.run.to_string(),
            why: format!("`{}` waits for it already: {}", other.run, where_both_meet(&at)),
        }))
    }

    fn refused(&self, BlockingClaim { by, why }: &BlockingClaim) -> Failure {
        Failure::refused(format!("{RULE}: `{}` may not write there now: {why}", self.id)).help(format!(
            "land or reject `{by}` first, or give this task other files; the caller that started `{by}` can \
             close it as well. `bailiwick claims list` shows who has what, and `on-overlap = \"wait\"` \
             under [claims] of the settings makes agents wait"
        ))
    }

    /// Returns an error if another run claimed the same paths since the agent's claim was acquired. Renews
    /// the lease, so that none can until it expires.
    fn require_valid_claim(&self) -> Result<Claim, Failure> {
        let ClaimRequest { run, repository, lease, .. } = &self.request;
        let until = system::now_ms().saturating_add(*lease);
        let result = self
            .context
            .with_store(async |store| Ok(store.renew_claim(run, repository, until).await?))?;
        let id = self.id;
        match result {
            Some((claim, FenceState::Valid)) => Ok(claim),
            Some((claim, FenceState::Stale(by))) => Err(Failure::refused(format!(
                "{RULE}: `{id}` may not land: its claim {} is stale, since {}",
                claim.fence,
                by.reason()
            ))
            .help(format!("begin again from what is there now: bailiwick respawn {id}"))),
            Some((claim, FenceState::Released(release))) => Err(Failure::refused(format!(
                "{RULE}: `{id}` may not land: its claim {} has ended ({})",
                claim.fence, release.outcome
            ))
            .help(format!(
                "take it again with the agent: bailiwick resume {id}; or begin again: bailiwick \
                 respawn {id}"
            ))),
            // The work was made without a claim.
            None => self.take_now(),
        }
    }

    /// Acquires the claim without waiting: an existing claim wins.
    fn take_now(&self) -> Result<Claim, Failure> {
        let claims = Claims { on_overlap: OnOverlap::Refuse, ..self.claims.clone() };
        let Self { context, id, request, .. } = self;
        let claimant = Claimant { context, id, claims: &claims, request: request.clone() };
        match claimant.take(ClaimWait::default())? {
            Acquired::Granted(claim) | Acquired::Renewed(claim) => Ok(claim),
            Acquired::Obstructed(met) => Err(self.refused(&BlockingClaim::by(&met))),
        }
    }

    /// The same check for a change of these paths: the claim must cover all of them.
    fn require_claim_covers(&self, changes: &[Change]) -> Result<(), Failure> {
        let claim = self.require_valid_claim()?;
        match outside(&claim.area(), self.id, changes) {
            None => Ok(()),
            // Its policy allows the path, but its claim does not cover it.
            Some(_) if outside(&self.request.area(), self.id, changes).is_none() => {
                self.take_now().map(drop)
            }
            Some(path) => Err(Failure::refused(format!(
                "{RULE}: `{}` may not land: it changes `{path}`, which its claim {} is not on",
                self.id, claim.fence
            ))
            .help(format!(
                "take the change back, or begin again with a task that has it: bailiwick respawn {}",
                self.id
            ))),
        }
    }
}

/// Acquires the claim of an agent that is about to be spawned; releases it if the spawn fails.
pub fn take_for<T>(
    context: &Context,
    repository: &Repository,
    settings: &Settings,
    (id, task, policy): (&AgentId, &Task, &Policy),
    wait: ClaimWait<'_>,
    spawn: impl FnOnce() -> Result<T, Failure>,
) -> Result<T, Failure> {
    let Some(claimant) = Claimant::of(context, repository, settings, id, task, policy)? else {
        return spawn();
    };
    let acquired = claimant.take(wait)?;
    let spawned = spawn();
    if let (Err(_), Acquired::Granted(claim)) = (&spawned, acquired) {
        let now = system::now_ms();
        context.with_store(async |store| {
            Ok(store.release(claim.fence, ClaimOutcome::Failed, now).await?)
        })?;
    }
    spawned
}

/// Acquires or renews the claim of an agent that is about to start.
pub fn take_again(subject: &AgentWork, id: &AgentId, if_closed: IfClosed) -> Result<(), Failure> {
    let wait = ClaimWait { if_closed, ..ClaimWait::default() };
    of_subject(subject, id, |claimant| match claimant {
        Some(claimant) => claimant.take(wait).map(drop),
        None => Ok(()),
    })
}

/// Returns an error if another run was granted the same paths since the agent's claim was acquired.
pub fn require_valid_claim(subject: &AgentWork, id: &AgentId) -> Result<(), Failure> {
    forge::require_fence(subject, id)?;
    of_subject(subject, id, |claimant| match claimant {
        Some(claimant) => claimant.require_valid_claim().map(drop),
        // Whether the work needs a claim is checked when it lands.
        None => Ok(()),
    })
}

/// Also returns an error if this landing changes paths that the claim does not cover.
pub fn require_claim_covers(
    subject: &AgentWork,
    id: &AgentId,
    landing: &Landing,
) -> Result<(), Failure> {
    forge::require(subject, id, landing)?;
    of_subject(subject, id, |claimant| {
        let changes = subject.git_work()?.changes(&landing.onto, &landing.tree);
        let changes = changes.map_err(|error| Failure::general(error.to_string()))?;
        match claimant {
            Some(claimant) => claimant.require_claim_covers(&changes),
            None => require_unchanged(id, &changes),
        }
    })
}

/// A run without a claim must not change anything: other runs were not kept from the same paths.
fn require_unchanged(id: &AgentId, changes: &[Change]) -> Result<(), Failure> {
    match outside(&Area::default(), id, changes) {
        None => Ok(()),
        Some(path) => Err(Failure::refused(format!(
            "{RULE}: `{id}` may not land: it changes `{path}` and has no claim, since it has no tool that \
             writes files or may write none"
        ))
        .help(format!(
            "give its role `Edit` or `Write`, and begin again: bailiwick respawn {id}"
        ))),
    }
}

/// Calls `act` if the repository uses claims and the agent may write.
fn of_subject(
    subject: &AgentWork,
    id: &AgentId,
    act: impl FnOnce(Option<&Claimant<'_>>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let AgentWork { context, repository, settings, bound, .. } = subject;
    if settings.claims.is_none() {
        return Ok(());
    }
    let policy = policy_file::recorded(&RunDirectory::new(&context.state, id.as_str()))?.policy;
    let claimant = Claimant::of(context, repository, settings, id, &bound.task, &policy)?;
    act(claimant.as_ref())
}

/// Expires the claims of an agent: its work can still land as long as no other run acquired them. Returns the
/// number of claims.
pub fn expire_claims(context: &Context, id: &AgentId) -> Result<usize, Failure> {
    let now = system::now_ms();
    context.with_store(async |store| Ok(store.release_run(id, ClaimOutcome::Expired, now).await?))
}

fn reasons(obstacles: &[Obstacle]) -> String {
    const SHOWN: usize = 3;
    let mut all: Vec<String> = obstacles.iter().take(SHOWN).map(Obstacle::reason).collect();
    if let Some(more) = obstacles.len().checked_sub(SHOWN).filter(|more| *more > 0) {
        all.push(format!("and {more} more"));
    }
    all.join("; ")
}

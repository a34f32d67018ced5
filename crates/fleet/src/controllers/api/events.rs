//! The events of a run: those of all of its attempts, in order.
//!
//! Each agent counts its own events, and an attempt that continues a conversation is the same agent as the one
//! before. So the lower half of a cursor is the number of an event, and the upper half the index of the first
//! attempt of its agent: the cursors of a run only grow, whatever is retried.

use std::pin::pin;
use std::sync::Arc;

use bailiwick_resources::{AgentDispatchAttempt, AgentDispatchRun, Kind, Moment, Object, RunPhase};

use crate::controllers::ReconcileError;
use crate::controllers::forge_health::first;
use crate::controllers::objects::ObjectQueries as _;
use crate::ports::{
    ActionError, AgentEvents, EngineEvent, ObjectStore, RunEvent, RunEvents, Selection, Target,
};

/// How many bits of a cursor are the number of an event.
const BITS: u32 = 32;
const NUMBERS: u64 = (1 << BITS) - 1;

/// The events of one agent, and the attempts that they are of.
#[derive(Debug, PartialEq, Eq)]
struct Stream {
    /// The index of its first attempt among those of the run.
    place: u64,
    agent: String,
    /// The number of each attempt, and when it was put into the queue.
    attempts: Vec<(u32, Moment)>,
}

impl Stream {
    /// The attempt that was active at a moment.
    fn attempt_at(&self, at: Moment) -> u32 {
        let before = self.attempts.iter().rev().find(|(_, entered)| *entered <= at);
        before.or(self.attempts.first()).map_or(1, |(number, _)| *number)
    }

    fn run_event(&self, event: EngineEvent) -> RunEvent {
        let at = Moment::from_millis(event.at);
        RunEvent {
            cursor: (self.place << BITS) | event.number.min(NUMBERS),
            attempt: self.attempt_at(at),
            at,
            kind: event.kind,
            body: event.body,
        }
    }
}

/// The agents of a run in the order of their first attempts.
fn streams(
    run: &Object<AgentDispatchRun>,
    attempts: &[Object<AgentDispatchAttempt>],
) -> Vec<Stream> {
    let mut found: Vec<Stream> = Vec::new();
    for attempt in attempts {
        let Some(agent) = &attempt.status.ledger_run_id else { continue };
        let entered = attempt.status.queue_entered_at.unwrap_or_default();
        let number = attempt.spec.number;
        match found.iter_mut().find(|stream| stream.agent == *agent) {
            Some(stream) => stream.attempts.push((number, entered)),
            None => found.push(Stream {
                place: u64::from(number.saturating_sub(1)),
                agent: agent.clone(),
                attempts: vec![(number, entered)],
            }),
        }
    }
    // A sub-agent has no separate attempts.
    if let (true, Some(agent)) = (found.is_empty(), &run.status.ledger_run_id) {
        found.push(Stream { place: 0, agent: agent.clone(), attempts: Vec::new() });
    }
    found
}

/// Events of runs.
pub(super) struct EventApi<S, E> {
    store: Arc<S>,
    engine: Arc<E>,
}

impl<S, E> EventApi<S, E> {
    pub(super) fn new(store: Arc<S>, engine: Arc<E>) -> Self {
        Self { store, engine }
    }
}

impl<S: ObjectStore, E: AgentEvents> EventApi<S, E> {
    /// Waits for a new event of any run until this time.
    pub(super) async fn wait_for_event(&self, until: impl Future<Output = ()>) {
        first(pin!(self.engine.new_event()), until).await;
    }

    /// The events of a run, or of one attempt, after a cursor.
    pub(super) async fn events_after(
        &self,
        run: &Target,
        attempt: Option<u32>,
        (after, limit): (u64, usize),
    ) -> Result<RunEvents, ActionError> {
        let run = self.store.named::<AgentDispatchRun>(run).await?;
        let mine = Selection::of(Kind::AgentDispatchAttempt).field("run", run.name());
        let mut attempts = self.store.all_typed::<AgentDispatchAttempt>(mine).await?;
        attempts.sort_by_key(|attempt| attempt.spec.number);
        let asked = |stream: &Stream| {
            attempt.is_none_or(|wanted| stream.attempts.iter().any(|(number, _)| *number == wanted))
        };
        if let Some(wanted) = attempt
            && !attempts.iter().any(|one| one.spec.number == wanted)
        {
            let message = format!("{} has no attempt {wanted}", run.name());
            return Err(ActionError::NotFound(message));
        }
        let mut events = Vec::new();
        for stream in streams(&run, &attempts).iter().filter(|stream| asked(stream)) {
            if stream.place < after >> BITS {
                continue;
            }
            let from = if stream.place == after >> BITS { after & NUMBERS } else { 0 };
            self.read_stream(stream, attempt, from, (limit, &mut events)).await?;
        }
        let over = match attempt {
            None => run.status.phase.is_final(),
            Some(wanted) => {
                let one = attempts.iter().find(|one| one.spec.number == wanted);
                let completed = one.is_some_and(|one| one.status.completed_at.is_some());
                completed || run.status.phase == RunPhase::Cancelled
            }
        };
        let ended = over && events.len() < limit;
        Ok(RunEvents { events, ended })
    }

    /// Adds the events of an agent up to the limit.
    async fn read_stream(
        &self,
        stream: &Stream,
        attempt: Option<u32>,
        mut from: u64,
        (limit, events): (usize, &mut Vec<RunEvent>),
    ) -> Result<(), ActionError> {
        while events.len() < limit {
            let room = limit - events.len();
            let page = self.engine.events(&stream.agent, from, room).await;
            let page = page.map_err(ReconcileError::from)?;
            let Some(last) = page.last().map(|event| event.number) else { return Ok(()) };
            let whole = page.len() < room;
            let told = page.into_iter().map(|event| stream.run_event(event));
            events.extend(told.filter(|one| attempt.is_none_or(|wanted| one.attempt == wanted)));
            if whole {
                return Ok(());
            }
            from = last;
        }
        Ok(())
    }
}

//! Measures runs for statistics: denied calls by rule, and the time in each phase.

use std::collections::BTreeMap;

use bailiwick_fleet::ports::{LocalClaim, LocalClaims, LocalRunError, MeasuredRun};
use bailiwick_lifecycle::ports::StoreError;
use bailiwick_model::Event;
use bailiwick_model::event::{Answer, EventKind, Phase};
use bailiwick_resources::Moment;

use super::list::phase;
use super::{LedgerRuns, store_error};

/// Events of a kind that are read of one run.
const MAX_EVENTS: u32 = 10_000;
/// A denial that no rule of the policy made.
const NO_RULE: &str = "no rule";

impl LedgerRuns {
    pub(super) fn open_claims(&self) -> Result<LocalClaims, LocalRunError> {
        if !self.context.database.exists() {
            return Ok(LocalClaims::default());
        }
        let claims = self.open()?.with(async |store| store.claims(None).await);
        let open = claims.map_err(store_error)?.into_iter().filter(|claim| claim.release.is_none());
        let items = open.map(|claim| LocalClaim {
            claim: claim.fence.to_string(),
            run: claim.run.to_string(),
            repository: claim.repository,
            paths: claim.inside,
            except: claim.except,
            claimed_at: Moment::from_millis(claim.taken_at),
            expires_at: Moment::from_millis(claim.leased_until),
        });
        Ok(LocalClaims { items: items.collect() })
    }

    pub(super) fn measured(
        &self,
        since: Moment,
        limit: usize,
    ) -> Result<Vec<MeasuredRun>, LocalRunError> {
        if !self.context.database.exists() {
            return Ok(Vec::new());
        }
        let runs = self.runs_since(since, limit)?;
        let read = self.open()?.with(async |store| {
            let mut all = Vec::new();
            for (id, run, ended_at) in runs {
                let phases = store.events_of_kind(&id, "phase", MAX_EVENTS).await?;
                // Most runs have no denied call, so that nothing has to be read.
                let decisions = match run.used.denied {
                    0 => Vec::new(),
                    _ => store.events_of_kind(&id, "decision", MAX_EVENTS).await?,
                };
                let (denials, phases) = (denials(&decisions), durations(&phases, ended_at));
                all.push(MeasuredRun {
                    created_at: run.created_at,
                    stage: run.stage,
                    role: run.role,
                    agent: run.agent,
                    model: run.model,
                    used: run.used,
                    denials,
                    phases,
                });
            }
            Ok::<_, StoreError>(all)
        });
        read.map_err(store_error)
    }
}

fn denials(decisions: &[Event]) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for event in decisions {
        if let EventKind::Decision { answer: Answer::Deny, rule, .. } = &event.what {
            let rule = rule.as_deref().unwrap_or(NO_RULE);
            *counts.entry(rule.to_owned()).or_default() += 1;
        }
    }
    counts
}

/// The time in each phase; the last one lasts until the end, if there is one.
fn durations(events: &[Event], ended_at: Option<u64>) -> BTreeMap<String, u64> {
    let changes = events.iter().filter_map(|event| {
        let EventKind::Phase { phase } = event.what else { return None };
        Some((phase, event.at))
    });
    let changes: Vec<(Phase, u64)> = changes.collect();
    let ends = changes.iter().skip(1).map(|(_, at)| Some(*at)).chain([ended_at]);
    let mut sums: BTreeMap<String, u64> = BTreeMap::new();
    for ((of, start), end) in changes.iter().zip(ends) {
        let Some(end) = end.filter(|_| *of != Phase::Over) else { continue };
        // A phase that was passed at once, as with nothing to verify, has no duration.
        if end > *start {
            *sums.entry(phase(*of).to_owned()).or_default() += end - start;
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use bailiwick_model::event::ReportedBy;

    use super::*;

    fn event(at: u64, what: EventKind) -> Event {
        Event { number: at, at, reported_by: ReportedBy::Supervisor, agent: None, what, raw: None }
    }

    #[test]
    fn phase_lasts_until_the_next_phase_in_every_attempt() {
        let phases =
            [(0, Phase::Preparing), (5, Phase::Working), (25, Phase::Over), (100, Phase::Working)];
        let events: Vec<Event> =
            phases.into_iter().map(|(at, phase)| event(at, EventKind::Phase { phase })).collect();
        let expected = [("preparing".to_owned(), 5), ("working".to_owned(), 50)];
        assert_eq!(durations(&events, Some(130)), BTreeMap::from(expected.clone()));
        let running = [("preparing".to_owned(), 5), ("working".to_owned(), 20)];
        assert_eq!(durations(&events, None), BTreeMap::from(running));
    }

    #[test]
    fn only_denials_are_counted() {
        let decision = |answer, rule: Option<&str>| EventKind::Decision {
            call: None,
            tool: "Bash".to_owned(),
            about: "x".to_owned(),
            answer,
            rule: rule.map(str::to_owned),
            reason: None,
        };
        let events = [
            event(1, decision(Answer::Deny, Some("a"))),
            event(2, decision(Answer::Allow, Some("a"))),
            event(3, decision(Answer::Deny, None)),
        ];
        let expected = [("a".to_owned(), 1), (NO_RULE.to_owned(), 1)];
        assert_eq!(denials(&events), BTreeMap::from(expected));
    }
}

//! Which repositories may have missed events: all of them at the start of the server, and one whose forge had a
//! problem once it answers again.

use std::collections::{BTreeMap, BTreeSet};

use bailiwick_resources::{Object, Repository};

/// What repositories may have missed since the start of this process, by their names.
#[derive(Debug, Default)]
pub(super) struct MissedEvents {
    /// Those that were polled since the start.
    polled: BTreeSet<String>,
    /// Those whose forge has a problem.
    away: BTreeSet<String>,
    /// Those whose forge answers again, and that were not polled since.
    recovered: BTreeSet<String>,
    /// A little before the last event that was known when this was noticed; nothing if there was none.
    since: BTreeMap<String, Option<String>>,
}

impl MissedEvents {
    /// Follows the problems of a forge; whether one has just begun.
    pub(super) fn follow(&mut self, repository: &Object<Repository>) -> bool {
        let name = repository.name();
        if is_away(repository) {
            return self.away.insert(name.to_owned());
        }
        if self.away.remove(name) {
            self.recovered.insert(name.to_owned());
        }
        false
    }

    /// Whether it was not polled since the start, or since its forge recovered.
    pub(super) fn is_possible(&self, name: &str) -> bool {
        !self.polled.contains(name) || self.recovered.contains(name)
    }

    /// Whether its forge has recovered since the last poll.
    pub(super) fn has_recovered(&self, name: &str) -> bool {
        self.recovered.contains(name)
    }

    /// From when events may be missed, if that is known.
    pub(super) fn since(&self, name: &str) -> Option<Option<String>> {
        self.since.get(name).cloned()
    }

    /// What was noticed first counts.
    pub(super) fn remember(&mut self, name: &str, since: Option<String>) {
        self.since.entry(name.to_owned()).or_insert(since);
    }

    pub(super) fn found(&mut self, name: &str) {
        self.polled.insert(name.to_owned());
        self.recovered.remove(name);
        self.since.remove(name);
    }
}

/// Whether the forge of a repository has a problem: the condition `ForgeReachable` is false.
pub(super) fn is_away(repository: &Object<Repository>) -> bool {
    !repository.status.forge_problems.is_empty()
}

#[cfg(test)]
mod tests {
    use bailiwick_resources::{ForgeProblem, ForgeUse, Metadata, Object, Reason, Repository};
    use serde_json::json;

    use super::MissedEvents;

    fn repository(is_unreachable: bool) -> Object<Repository> {
        let spec = json!({ "fullName": "acme/app", "forge": "local", "checkout": "/srv/app" });
        let spec: Repository = serde_json::from_value(spec).unwrap();
        let mut repository = Object::new(Metadata::named("app"), spec);
        let problem = ForgeProblem {
            used_for: ForgeUse::Asking,
            reason: Reason::ForgeUnreachable,
            message: "no route".to_owned(),
        };
        repository.status.forge_problems.extend(is_unreachable.then_some(problem));
        repository
    }

    #[test]
    fn missed_events_are_possible_after_the_start_and_each_problem() {
        let mut missed = MissedEvents::default();
        assert!(missed.is_possible("app") && !missed.has_recovered("app"));
        assert!(!missed.follow(&repository(false)));
        missed.found("app");
        assert!(!missed.is_possible("app"));
        let problem_began =
            [true, true].map(|is_unreachable| missed.follow(&repository(is_unreachable)));
        assert_eq!(problem_began, [true, false]);
        assert!(!missed.is_possible("app"), "the forge does not answer yet");
        missed.remember("app", Some("then".to_owned()));
        missed.remember("app", Some("later".to_owned()));
        missed.follow(&repository(false));
        assert!(missed.is_possible("app") && missed.has_recovered("app"));
        assert_eq!(missed.since("app"), Some(Some("then".to_owned())));
        missed.found("app");
        assert!(!missed.is_possible("app"));
        assert_eq!(missed.since("app"), None);
    }
}

//! Jobs that run for nothing: of attempts that have ended, and earlier ones of an attempt.

use std::collections::BTreeMap;

use bailiwick_kubernetes::jobs::has_ended;
use bailiwick_kubernetes::manifests::Label;

use super::cluster::{FoundJob, Listed};

/// For how many rounds a Job may run for nothing before it is deleted: workers get some time to end by themselves.
const ORPHAN_ROUNDS: u32 = 15;

/// The Job of an attempt that counts.
#[derive(Debug, Clone)]
pub(super) struct Counting {
    pub(super) number: u64,
    /// Its namespace, if that is known.
    pub(super) namespace: Option<Label>,
    /// Whether no worker has a lease of the attempt that is still valid.
    pub(super) is_expired: bool,
}

impl Counting {
    /// The pool may name another namespace now. A worker that has the attempt is left alone wherever it is.
    fn includes(&self, namespace: &Label, number: u64) -> bool {
        let is_there = self.namespace.as_ref().is_none_or(|own| own == namespace);
        number >= self.number && (is_there || !self.is_expired)
    }
}

/// For how many rounds each Job has run for nothing, by its uid.
#[derive(Debug, Default)]
pub(super) struct Orphans(BTreeMap<String, u32>);

impl Orphans {
    /// Counts a round, and returns the Jobs that have run for nothing for long enough. Jobs that have ended stay for
    /// their log, until the cluster deletes them.
    pub(super) fn count<'a>(
        &mut self,
        counting: &BTreeMap<&str, Counting>,
        listed: &'a Listed,
    ) -> Vec<&'a FoundJob> {
        let before = std::mem::take(&mut self.0);
        let mut late = Vec::new();
        for (namespace, found) in listed.all() {
            let counts = counting
                .get(found.attempt.as_str())
                .is_some_and(|counting| counting.includes(namespace, found.number));
            let is_ending = found.job.metadata.deletion_timestamp.is_some();
            if counts || is_ending || has_ended(&found.job) {
                continue;
            }
            let Some(uid) = found.job.metadata.uid.clone() else { continue };
            let rounds = before.get(&uid).map_or(1, |rounds| rounds.saturating_add(1));
            if rounds >= ORPHAN_ROUNDS {
                late.push(found);
            }
            self.0.insert(uid, rounds);
        }
        late
    }
}

//! Rate limits for each address and each token.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use crate::settings::Rate;

/// When there are this many keys, full buckets are removed.
const MAX_KEYS: usize = 16_384;

/// A token bucket for each key. A full bucket is the same as none.
#[derive(Debug)]
pub(crate) struct Buckets<K> {
    rate: Rate,
    levels: Mutex<HashMap<K, (f64, Instant)>>,
}

impl<K: Hash + Eq> Buckets<K> {
    pub(crate) fn new(rate: Rate) -> Self {
        Self { rate, levels: Mutex::new(HashMap::new()) }
    }

    fn level(&self, known: Option<&(f64, Instant)>, now: Instant) -> f64 {
        known.map_or(self.rate.burst, |(level, at)| {
            let elapsed = now.saturating_duration_since(*at).as_secs_f64();
            (level + elapsed * self.rate.per_second).min(self.rate.burst)
        })
    }

    /// Takes `cost` from a bucket; if it has too little, returns in how many seconds it has enough.
    pub(crate) fn take(&self, key: K, cost: f64, now: Instant) -> Result<(), u64> {
        let mut levels = self.levels.lock().unwrap_or_else(PoisonError::into_inner);
        if levels.len() >= MAX_KEYS && !levels.contains_key(&key) {
            levels.retain(|_, known| self.level(Some(known), now) < self.rate.burst);
            if levels.len() >= MAX_KEYS {
                // Probably an attack: new keys have to wait.
                return Err(1);
            }
        }
        let level = self.level(levels.get(&key), now);
        if level < cost.min(self.rate.burst) {
            let missing = (cost - level) / self.rate.per_second.max(f64::MIN_POSITIVE);
            return Err(whole_seconds(missing));
        }
        levels.insert(key, (level - cost, now));
        Ok(())
    }

    /// Whether a bucket has `cost`; if it has too little, returns in how many seconds it has enough.
    pub(crate) fn check(&self, key: &K, cost: f64, now: Instant) -> Result<(), u64> {
        let levels = self.levels.lock().unwrap_or_else(PoisonError::into_inner);
        let level = self.level(levels.get(key), now);
        if level < cost.min(self.rate.burst) {
            let missing = (cost - level) / self.rate.per_second.max(f64::MIN_POSITIVE);
            return Err(whole_seconds(missing));
        }
        Ok(())
    }

    /// Takes `cost` even if the bucket has too little; later requests wait longer.
    pub(crate) fn charge(&self, key: K, cost: f64, now: Instant) {
        let mut levels = self.levels.lock().unwrap_or_else(PoisonError::into_inner);
        if levels.len() >= MAX_KEYS && !levels.contains_key(&key) {
            levels.retain(|_, known| self.level(Some(known), now) < self.rate.burst);
            if levels.len() >= MAX_KEYS {
                return;
            }
        }
        let level = self.level(levels.get(&key), now) - cost;
        levels.insert(key, (level.max(-self.rate.burst), now));
    }
}

fn whole_seconds(seconds: f64) -> u64 {
    let at_most = std::time::Duration::try_from_secs_f64(seconds.clamp(0.0, 3_600.0));
    at_most.map_or(3_600, |time| time.as_secs() + 1)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::{Buckets, MAX_KEYS};
    use crate::settings::Rate;

    const RATE: Rate = Rate { per_second: 2.0, burst: 3.0 };

    #[test]
    fn after_a_burst_the_rate_applies() {
        let buckets = Buckets::new(RATE);
        let start = Instant::now();
        let accepted = (0..10).filter(|_| buckets.take("a", 1.0, start).is_ok()).count();
        assert_eq!(accepted, 3);
        assert_eq!(buckets.take("a", 1.0, start), Err(1));
        assert_eq!(buckets.take("b", 1.0, start), Ok(()), "another key has its own bucket");
        for second in 1..5 {
            let now = start + Duration::from_secs(second);
            let accepted = (0..10).filter(|_| buckets.take("a", 1.0, now).is_ok()).count();
            assert_eq!(accepted, 2, "in second {second}");
        }
    }

    #[test]
    fn charge_delays_later_requests() {
        let buckets = Buckets::new(RATE);
        let start = Instant::now();
        buckets.charge("a", 5.0, start);
        assert_eq!(buckets.take("a", 1.0, start), Err(2));
        assert_eq!(buckets.take("a", 1.0, start + Duration::from_secs(2)), Ok(()));
    }

    #[test]
    fn number_of_keys_is_limited() {
        let buckets = Buckets::new(RATE);
        let start = Instant::now();
        for key in 0..MAX_KEYS {
            assert_eq!(buckets.take(key, 1.0, start), Ok(()));
        }
        assert!(buckets.take(MAX_KEYS, 1.0, start).is_err());
        assert_eq!(buckets.take(0, 1.0, start), Ok(()), "a known key continues");
        let later = start + Duration::from_secs(2);
        assert_eq!(buckets.take(MAX_KEYS, 1.0, later), Ok(()), "full buckets are removed");
    }
}

//! Exponential backoff: how long to wait before the next attempt.

use std::time::Duration;

/// A delay that doubles with each failure, up to a maximum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    first: Duration,
    max: Duration,
}

impl Backoff {
    pub const fn new(first: Duration, max: Duration) -> Self {
        Self { first, max }
    }

    /// The delay after this number of earlier failures.
    pub fn delay(self, earlier_failures: u32) -> Duration {
        let factor = 1_u32.checked_shl(earlier_failures).unwrap_or(u32::MAX);
        self.first.saturating_mul(factor).min(self.max)
    }

    /// The longest delay.
    pub const fn max(self) -> Duration {
        self.max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delay_doubles_up_to_its_maximum() {
        let backoff = Backoff::new(Duration::from_secs(2), Duration::from_secs(60));
        let delays: Vec<u64> = (0..7).map(|failures| backoff.delay(failures).as_secs()).collect();
        assert_eq!(delays, [2, 4, 8, 16, 32, 60, 60]);
        for failures in [30, 31, 32, 63, 64, u32::MAX] {
            assert_eq!(backoff.delay(failures), backoff.max());
        }
    }
}

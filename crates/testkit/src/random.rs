//! Random numbers that can be had again: SplitMix64 from a seed that the test prints.

/// A stream of random numbers.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// The stream of this seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A stream whose seed is `SEED`, or the time of day; the seed is printed so that a failure
    /// can be had again.
    pub fn rotating(what: &str) -> Self {
        let given = std::env::var("SEED").ok().map(|seed| match seed.parse() {
            Ok(seed) => seed,
            Err(_) => panic!("SEED must be a number, not {seed:?}"),
        });
        let clock = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let seed = given.unwrap_or_else(|| clock.map_or(0, |since| since.as_secs()));
        println!("{what}: SEED={seed}");
        Self::new(seed)
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`; 0 if `end` is 0.
    pub fn below(&mut self, end: usize) -> usize {
        let end = u64::try_from(end.max(1)).unwrap_or(u64::MAX);
        usize::try_from(self.number() % end).unwrap_or(0)
    }

    /// True once in `times`.
    pub fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }
}

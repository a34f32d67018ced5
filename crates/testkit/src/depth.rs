//! How deep the slow suites go: `DEPTH=ci` (the default, about a tenth) or `DEPTH=full`.

/// The requested depth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// About a tenth.
    Ci,
    /// Everything.
    Full,
}

impl Depth {
    /// Reads `DEPTH`; a word that is not known is an error, not a default.
    pub fn from_env() -> Self {
        match std::env::var("DEPTH").as_deref() {
            Err(_) | Ok("" | "ci") => Self::Ci,
            Ok("full") => Self::Full,
            Ok(other) => panic!("DEPTH must be ci or full, not {other:?}"),
        }
    }

    /// `full` cases at full depth, a tenth of them otherwise.
    pub fn cases(self, full: u64) -> u64 {
        match self {
            Self::Ci => full.div_ceil(10),
            Self::Full => full,
        }
    }
}

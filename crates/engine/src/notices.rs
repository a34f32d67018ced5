//! Progress reports of a service, for its caller to show.

use std::fmt;
use std::sync::Arc;

use bailiwick_model::Problem;

/// A message to show before the service returns.
#[derive(Debug, Clone, Copy)]
pub enum Notice<'a> {
    /// An information.
    Note(&'a str),
    /// A step that takes a while.
    Progress(&'a str),
    /// Problems in files that do not stop the work.
    Problems(&'a [Problem]),
}

/// The receiver of notices.
#[derive(Clone)]
pub struct Notices(Arc<dyn Fn(Notice<'_>) + Send + Sync>);

impl Notices {
    /// Passes every notice to `show`.
    pub fn to(show: impl Fn(Notice<'_>) + Send + Sync + 'static) -> Self {
        Self(Arc::new(show))
    }

    /// Reports an information.
    pub fn note(&self, text: impl fmt::Display) {
        (self.0)(Notice::Note(&text.to_string()));
    }

    /// Reports a step that takes a while.
    pub fn progress(&self, text: impl fmt::Display) {
        (self.0)(Notice::Progress(&text.to_string()));
    }

    /// Reports what is wrong in files that people wrote.
    pub fn problems(&self, problems: &[Problem]) {
        (self.0)(Notice::Problems(problems));
    }
}

impl Default for Notices {
    /// Discards all notices.
    fn default() -> Self {
        Self::to(|_| {})
    }
}

impl fmt::Debug for Notices {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Notices")
    }
}

//! What a service reports while it works, for its caller to show.

use std::fmt;
use std::sync::Arc;

use bailiwick_model::Problem;

/// Something that a person may want to know before the service returns.
#[derive(Debug, Clone, Copy)]
pub enum Notice<'a> {
    /// Something worth knowing.
    Note(&'a str),
    /// A step that takes a while.
    Progress(&'a str),
    /// What is wrong in files that people wrote, and does not stop the work.
    Problems(&'a [Problem]),
}

/// Where notices go.
#[derive(Clone)]
pub struct Notices(Arc<dyn Fn(Notice<'_>) + Send + Sync>);

impl Notices {
    /// Hands every notice to `show`.
    pub fn to(show: impl Fn(Notice<'_>) + Send + Sync + 'static) -> Self {
        Self(Arc::new(show))
    }

    /// Reports something worth knowing.
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
    /// Nobody is shown anything.
    fn default() -> Self {
        Self::to(|_| {})
    }
}

impl fmt::Debug for Notices {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Notices")
    }
}

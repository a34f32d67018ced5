//! How a command fails.
//!
//! | code | meaning |
//! |---|---|
//! | 0 | success |
//! | 1 | something could not be loaded or done |
//! | 2 | denied, verification failed, unknown name, wrong usage |

use std::fmt;

use bailiwick_engine::failure::Failure as ServiceFailure;
use bailiwick_model::Problem;

/// Why a command failed.
#[derive(Debug)]
pub enum Failure {
    /// A service failed or refused.
    Service(ServiceFailure),
    /// Everything was printed already; the exit code.
    AlreadyReported(u8),
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Service(failure) => failure.fmt(out),
            Self::AlreadyReported(_) => Ok(()),
        }
    }
}

impl Failure {
    /// Something could not be done.
    pub fn general(text: impl Into<String>) -> Self {
        ServiceFailure::general(text).into()
    }

    /// The command was called wrongly, or with a name that is not known.
    pub fn usage(text: impl Into<String>) -> Self {
        ServiceFailure::refused(text).into()
    }

    /// The same with advice.
    #[must_use]
    pub fn help(self, advice: impl Into<String>) -> Self {
        match self {
            Self::Service(failure) => Self::Service(failure.help(advice)),
            said @ Self::AlreadyReported(_) => said,
        }
    }

    /// The same with advice, if there is any.
    #[must_use]
    pub fn maybe_help(self, advice: Option<String>) -> Self {
        match advice {
            Some(advice) => self.help(advice),
            None => self,
        }
    }

    /// The exit code.
    pub fn code(&self) -> u8 {
        match self {
            Self::Service(ServiceFailure::Problems(_) | ServiceFailure::Failed { .. }) => 1,
            Self::Service(ServiceFailure::Refused { .. } | ServiceFailure::AtWork { .. }) => 2,
            Self::AlreadyReported(code) => *code,
        }
    }
}

macro_rules! of_service {
    ($($error:ty),*) => {
        $(impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                Self::Service(error.into())
            }
        })*
    };
}

of_service!(
    ServiceFailure,
    Problem,
    Vec<Problem>,
    bailiwick_source_control::git::HeadError,
    bailiwick_lifecycle::ports::StoreError,
    bailiwick_lifecycle::ports::WorkspaceError,
    bailiwick_source_control::GitError
);

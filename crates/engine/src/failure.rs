//! How a command ends when it does not end well.
//!
//! | code | meaning |
//! |---|---|
//! | 0 | it holds |
//! | 1 | something could not be loaded or done |
//! | 2 | denied, verification failed, unknown name, wrong usage |

use std::fmt;
use std::process::ExitCode;

use bailiwick_model::Problem;

use crate::output;

/// Why a command did not end well.
#[derive(Debug)]
pub enum Failure {
    /// Something is wrong in files that people wrote.
    Problems(Vec<Problem>),
    /// Anything else.
    Message {
        /// The exit code.
        code: u8,
        /// What is wrong.
        text: String,
        /// What to do about it.
        help: Option<String>,
    },
    /// Everything was said already.
    Said(u8),
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Message { text, .. } => out.write_str(text),
            Self::Problems(problems) => {
                let messages: Vec<&str> =
                    problems.iter().map(|problem| problem.message.as_str()).collect();
                out.write_str(&messages.join("; "))
            }
            Self::Said(_) => Ok(()),
        }
    }
}

impl Failure {
    /// Something could not be done.
    pub fn general(text: impl Into<String>) -> Self {
        Self::Message { code: 1, text: text.into(), help: None }
    }

    /// The command was called wrongly, or with a name that is not known.
    pub fn usage(text: impl Into<String>) -> Self {
        Self::Message { code: 2, text: text.into(), help: None }
    }

    /// The same with advice.
    #[must_use]
    pub fn help(self, advice: impl Into<String>) -> Self {
        match self {
            Self::Message { code, text, .. } => {
                Self::Message { code, text, help: Some(advice.into()) }
            }
            other @ (Self::Problems(_) | Self::Said(_)) => other,
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
            Self::Problems(_) => 1,
            Self::Message { code, .. } | Self::Said(code) => *code,
        }
    }
}

impl From<Vec<Problem>> for Failure {
    fn from(problems: Vec<Problem>) -> Self {
        Self::Problems(problems)
    }
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        Self::Problems(vec![problem])
    }
}

macro_rules! general {
    ($($error:ty),*) => {
        $(impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                Self::general(error.to_string())
            }
        })*
    };
}

general!(
    bailiwick_source_control::git::HeadError,
    bailiwick_lifecycle::ports::StoreError,
    bailiwick_lifecycle::ports::WorkspaceError,
    bailiwick_source_control::GitError
);

/// Tells the person, and gives the exit code.
pub fn finish(result: Result<(), Failure>) -> ExitCode {
    let Err(failure) = result else {
        let Some(why) = output::unprinted() else { return ExitCode::SUCCESS };
        output::error(&format!("the result could not be printed: {why}"), None);
        return ExitCode::FAILURE;
    };
    match &failure {
        Failure::Problems(problems) => output::problems(problems),
        Failure::Message { text, help, .. } => output::error(text, help.as_deref()),
        Failure::Said(_) => {}
    }
    ExitCode::from(failure.code())
}

//! Why a service failed. Callers map it to their exit code.

use std::borrow::Cow;

use bailiwick_model::{AgentId, Problem};

/// Why a service failed.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// Problems in files that people wrote.
    #[error("{}", messages(.0))]
    Problems(Vec<Problem>),
    /// Something failed.
    #[error("{text}")]
    Failed {
        /// What is wrong.
        text: String,
        /// What to do about it.
        help: Option<String>,
    },
    /// The agent is running, and its run cannot be changed meanwhile.
    #[error("`{agent}` is running")]
    AtWork {
        /// The agent.
        agent: AgentId,
    },
    /// The request was refused because of a limit, a state, an unknown name or a wrong argument.
    #[error("{text}")]
    Refused {
        /// What is wrong.
        text: String,
        /// What to do about it.
        help: Option<String>,
    },
}

fn messages(problems: &[Problem]) -> String {
    let messages: Vec<&str> = problems.iter().map(|problem| problem.message.as_str()).collect();
    messages.join("; ")
}

impl Failure {
    /// Something could not be done.
    pub fn general(text: impl Into<String>) -> Self {
        Self::Failed { text: text.into(), help: None }
    }

    /// The request was refused, or has a name that is not known.
    pub fn refused(text: impl Into<String>) -> Self {
        Self::Refused { text: text.into(), help: None }
    }

    /// The request was refused for this reason.
    pub fn refused_by(error: impl std::fmt::Display) -> Self {
        Self::refused(error.to_string())
    }

    /// Converts it to a general failure.
    #[must_use]
    pub fn into_failed(self) -> Self {
        match self {
            Self::Refused { text, help } => Self::Failed { text, help },
            at_work @ Self::AtWork { .. } => Self::Failed {
                text: at_work.to_string(),
                help: at_work.advice().map(Cow::into_owned),
            },
            other @ (Self::Failed { .. } | Self::Problems(_)) => other,
        }
    }

    /// The same with this help, in place of any other. `Problems` and `AtWork` have their own.
    #[must_use]
    pub fn help(self, advice: impl Into<String>) -> Self {
        let help = Some(advice.into());
        match self {
            Self::Failed { text, .. } => Self::Failed { text, help },
            Self::Refused { text, .. } => Self::Refused { text, help },
            itself @ (Self::Problems(_) | Self::AtWork { .. }) => itself,
        }
    }

    /// The same with this help, if there is any.
    #[must_use]
    pub fn maybe_help(self, advice: Option<String>) -> Self {
        match advice {
            Some(advice) => self.help(advice),
            None => self,
        }
    }

    /// The same with another text; problems and reasons keep theirs.
    #[must_use]
    pub fn map_text(self, change: impl FnOnce(String) -> String) -> Self {
        match self {
            Self::Failed { text, help } => Self::Failed { text: change(text), help },
            Self::Refused { text, help } => Self::Refused { text: change(text), help },
            itself @ (Self::Problems(_) | Self::AtWork { .. }) => itself,
        }
    }

    /// What to do about it.
    pub fn advice(&self) -> Option<Cow<'_, str>> {
        match self {
            Self::Failed { help, .. } | Self::Refused { help, .. } => {
                help.as_deref().map(Cow::Borrowed)
            }
            Self::AtWork { agent } => Some(Cow::Owned(format!(
                "wait for its end: bailiwick logs -f {agent}; or end it: bailiwick stop {agent}"
            ))),
            Self::Problems(_) => None,
        }
    }

    /// What is wrong and what to do about it, in one line.
    pub fn in_one_line(&self) -> String {
        match self.advice() {
            Some(advice) => format!("{self} ({advice})"),
            None => self.to_string(),
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

//! What an attempt was given of the issue that its run is bound to, in a file of the run.

use bailiwick_model::IssueName;
use bailiwick_runner::supervisor::RunDirectory;
use serde::{Deserialize, Serialize};

use crate::failure::Failure;
use crate::system;

const FILE: &str = "issue-context.json";

/// The text of an issue, as the agent of a run was given it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct GivenIssue {
    pub issue: IssueName,
    pub text: String,
    /// How many levels of sub-agents its labels allow below the agent; nothing without such a label.
    #[serde(default)]
    pub agent_levels: Option<u32>,
}

impl GivenIssue {
    /// What the last attempt of a run was given of its issue; `None` if it is bound to none or has not begun.
    pub fn read(directory: &RunDirectory) -> Result<Option<Self>, Failure> {
        system::read_json(&directory.path().join(FILE))
    }

    pub(crate) fn write(&self, directory: &RunDirectory) -> Result<(), Failure> {
        system::write_json(&directory.path().join(FILE), self)
    }
}

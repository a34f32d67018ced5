//! The diff of a run, how it is arranged, and how a comment on it reaches the agent.

use bailiwick_fleet::ports::{LocalRunDetail, LocalRunDiff, LocalVerb};
use bailiwick_server::{ApiError, Session};
use serde::Deserialize;

use crate::patch::{FilePatch, files};
use crate::run_part::Gone;
use crate::site::Site;
use crate::text::encoded;

/// How lines are arranged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum View {
    #[default]
    Unified,
    Split,
}

impl View {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Unified => "unified",
            Self::Split => "split",
        }
    }

    /// The beginning of a query that keeps it.
    pub(crate) fn query(self) -> &'static str {
        match self {
            Self::Unified => "",
            Self::Split => "view=split&",
        }
    }
}

/// The version of a file that a line is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Side {
    Old,
    New,
}

impl Side {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Old => "old",
            Self::New => "new",
        }
    }
}

/// The run and its diff, or why there is none.
pub(crate) async fn read(
    site: &Site,
    session: &Session,
    name: &str,
) -> Result<(LocalRunDetail, Result<LocalRunDiff, Gone>), ApiError> {
    let own = format!("/api/v1alpha1/local/runs/{}", encoded(name));
    let detail: LocalRunDetail = site.api.get(session, &own).await?;
    match site.api.get(session, &format!("{own}/diff")).await {
        Ok(diff) => Ok((detail, Ok(diff))),
        Err(error) => Ok((detail, Err(Gone::or_error(error)?))),
    }
}

pub(crate) fn changed_files(diff: &LocalRunDiff) -> Vec<FilePatch> {
    let paths: Vec<String> = diff.files.iter().map(|file| file.path.clone()).collect();
    files(&diff.patch, &paths)
}

/// How a comment reaches the agent: it reads it before its next turn, or continues its conversation with it. None if
/// neither is possible now or permitted to the person.
pub(crate) fn comment_verb(session: &Session, detail: &LocalRunDetail) -> Option<LocalVerb> {
    [LocalVerb::Message, LocalVerb::Resume].into_iter().find(|verb| {
        let is_possible = detail
            .actions
            .iter()
            .any(|action| action.action == *verb && action.impossible.is_none());
        is_possible && session.scope() >= verb.scope()
    })
}

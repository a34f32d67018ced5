//! The diff of a run, how it is arranged, and how a comment on it reaches the agent.

use bailiwick_fleet::ports::{LocalRunDetail, LocalRunDiff, LocalVerb};
use bailiwick_server::{ApiError, Session};
use serde::Deserialize;

use crate::fleet::dispatch::{AgentRun, run_of_agent};
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

/// How a comment reaches the agent.
pub(crate) enum CommentRoute {
    /// It reads it before its next turn, or continues its conversation with it.
    Agent(LocalVerb),
    /// Its run of the control plane continues the conversation with it.
    Dispatch(AgentRun),
    /// The scope of the person does not permit it.
    NotPermitted,
    /// Not now, for this reason.
    Impossible(String),
}

pub(crate) async fn comment_route(
    site: &Site,
    session: &Session,
    detail: &LocalRunDetail,
) -> Result<CommentRoute, ApiError> {
    let verbs = [LocalVerb::Message, LocalVerb::Resume];
    if verbs.iter().any(|verb| session.scope() < verb.scope()) {
        return Ok(CommentRoute::NotPermitted);
    }
    let action = |verb| detail.actions.iter().find(|action| action.action == verb);
    let is_possible =
        |verb: &LocalVerb| action(*verb).is_some_and(|action| action.impossible.is_none());
    if let Some(verb) = verbs.into_iter().find(is_possible) {
        return Ok(CommentRoute::Agent(verb));
    }
    let own = action(LocalVerb::Resume).and_then(|action| action.impossible.clone());
    Ok(match run_of_agent(site, session, &detail.run.id).await? {
        Some(run) if run.obstacle.is_empty() => CommentRoute::Dispatch(run),
        Some(run) => CommentRoute::Impossible(run.obstacle.to_owned()),
        None => CommentRoute::Impossible(own.unwrap_or_default()),
    })
}

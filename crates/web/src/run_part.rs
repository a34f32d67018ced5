//! What the pages of a run share that show one answer of the API each.

use bailiwick_fleet::ports::LocalRunDetail;
use bailiwick_server::{ApiError, Session};
use hyper::StatusCode;
use serde::de::DeserializeOwned;
use thiserror::Error;

use crate::layout::{Layout, Section};
use crate::run::{RunHeader, Tab, follow_side};
use crate::site::Site;
use crate::text::{encoded, line, visible};

const MAX_TITLE: usize = 200;

/// A page of a run before it is rendered.
pub(crate) struct RunPart<T> {
    pub(crate) layout: Layout,
    pub(crate) header: RunHeader,
    /// The answer of the API, unless what the page shows is gone.
    pub(crate) data: Result<T, Gone>,
}

/// Why a part of a run cannot be shown any more, while the rest can.
#[derive(Debug, Error)]
#[error("{0}")]
pub(crate) struct Gone(String);

impl Gone {
    /// A conflict means that files of the run are gone; all other errors are errors of the page.
    pub(crate) fn or_error(error: ApiError) -> Result<Self, ApiError> {
        match error.status {
            StatusCode::CONFLICT => Ok(Self(visible(&error.message))),
            _ => Err(error),
        }
    }
}

/// Reads a part of a run.
pub(crate) async fn read<T: DeserializeOwned>(
    site: &Site,
    session: &Session,
    name: &str,
    tab: Tab,
) -> Result<RunPart<T>, ApiError> {
    let own = format!("/api/v1alpha1/local/runs/{}", encoded(name));
    let detail: LocalRunDetail = site.api.get(session, &own).await?;
    let data = match site.api.get(session, &format!("{own}{}", tab.path())).await {
        Ok(data) => Ok(data),
        Err(error) => Err(Gone::or_error(error)?),
    };
    let header = RunHeader::read(site, session, &detail, tab).await?;
    let mut layout = site.frame(session, line(&detail.run.name, MAX_TITLE)).await?.layout;
    layout.section = Section::Runs;
    follow_side(&mut layout, &detail);
    Ok(RunPart { layout, header, data })
}

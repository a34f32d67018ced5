//! A comment on a changed line: the agent gets it in the same conversation, with the line that it is about.

use axum::extract::Request;
use axum::response::Response;
use bailiwick_fleet::ports::LocalVerb;
use bailiwick_server::{ApiError, Session};
use hyper::StatusCode;
use serde::Deserialize;

use crate::actions::perform;
use crate::change::{bad_request, change_and_show};
use crate::patch::{FilePatch, PatchLine};
use crate::run_diff::{CommentRoute, Side, View, changed_files, comment_route, read};
use crate::site::Site;
use crate::text::encoded;

#[derive(Deserialize)]
struct Comment {
    file: String,
    side: Side,
    line: u64,
    text: String,
    #[serde(default)]
    view: View,
}

pub(crate) async fn submit(site: &Site, name: &str, request: Request) -> Response {
    change_and_show(site, request, async |session: &Session, comment: Comment| {
        let number = send(site, session, name, &comment).await?;
        let (base, run, view) = (&site.base, encoded(name), comment.view.as_str());
        Ok(format!("{base}/local/{run}/changes?view={view}&sent=true#f{number}"))
    })
    .await
}

/// Sends the comment, and returns the number of the file on the page.
async fn send(
    site: &Site,
    session: &Session,
    name: &str,
    comment: &Comment,
) -> Result<usize, ApiError> {
    if comment.text.trim().is_empty() {
        return Err(bad_request("the comment has no text"));
    }
    let (detail, diff) = read(site, session, name).await?;
    let files = changed_files(&diff.map_err(|gone| conflict(&gone.to_string()))?);
    let found = files.iter().enumerate().find_map(|(index, file)| {
        Some((index + 1, find(file, comment).filter(|_| file.path == comment.file)?))
    });
    let Some((number, line)) = found else {
        return Err(conflict("the line is not among the changes any more: look at them again"));
    };
    let text = message_text(comment, line);
    match comment_route(site, session, &detail).await? {
        CommentRoute::Agent(verb) => drop(perform(site, session, name, verb, text).await?),
        CommentRoute::Dispatch(run) => run.continue_with(site, session, text).await?,
        // The API says which scope is needed.
        CommentRoute::NotPermitted => {
            drop(perform(site, session, name, LocalVerb::Resume, text).await?);
        }
        CommentRoute::Impossible(why) => {
            return Err(conflict(&format!("no comment can be sent: {why}")));
        }
    }
    Ok(number)
}

fn find<'a>(file: &'a FilePatch, comment: &Comment) -> Option<&'a PatchLine> {
    file.hunks.iter().flat_map(|hunk| &hunk.lines).find(|line| match comment.side {
        Side::New => line.new == Some(comment.line),
        Side::Old => line.old == Some(comment.line) && line.new.is_none(),
    })
}

/// What the agent is told.
fn message_text(comment: &Comment, line: &PatchLine) -> String {
    let what = match comment.side {
        Side::New => "line",
        Side::Old => "the removed line",
    };
    let Comment { file, line: number, text, .. } = comment;
    // A browser ends lines with both.
    let text = text.trim().replace("\r\n", "\n");
    format!("Comment on {file}, {what} {number}:\n> {}\n\n{text}", line.text)
}

fn conflict(message: &str) -> ApiError {
    ApiError {
        status: StatusCode::CONFLICT,
        code: "CONFLICT".to_owned(),
        message: message.to_owned(),
    }
}

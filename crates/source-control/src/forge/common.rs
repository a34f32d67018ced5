//! What Gitea and GitHub have in common.

use bailiwick_fleet::ports::{CheckState, ForgeError, PullRequestState, Review, Rights, Written};
use reqwest::Method;
use serde_json::json;

use super::client::{Answered, Api};
use super::marker::Marker;
use super::wire;

/// A status of a commit.
pub(super) struct StatusToSet<'a> {
    pub(super) sha: &'a str,
    pub(super) context: &'a str,
    pub(super) state: CheckState,
    pub(super) description: &'a str,
    pub(super) url: Option<&'a str>,
}

/// A pull request that is to be.
pub(super) struct Proposed<'a> {
    pub(super) head: &'a str,
    pub(super) base: &'a str,
    pub(super) title: &'a str,
    pub(super) body: &'a str,
}

/// Something that is run again.
pub(super) struct Again<'a> {
    pub(super) run: &'a str,
    pub(super) whole_workflow: bool,
    pub(super) attempt: u64,
}

pub(super) fn there(id: u64, url: Option<String>) -> Written {
    Written { id: id.to_string(), url, was_there: true }
}

pub(super) fn fresh(id: u64, url: Option<String>) -> Written {
    Written { id: id.to_string(), url, was_there: false }
}

/// A comment that has the mark, if it is among these.
pub(super) fn marked(comments: &[wire::Comment], marker: &Marker) -> Option<Written> {
    let is_it =
        |comment: &&wire::Comment| comment.body.as_deref().is_some_and(|body| marker.is_on(body));
    let found = comments.iter().find(is_it)?;
    Some(there(found.id, found.html_url.clone()))
}

pub(super) async fn post_comment(
    api: &Api,
    number: u64,
    text: &str,
) -> Result<Written, ForgeError> {
    let number = number.to_string();
    let path = ["issues", &number, "comments"];
    let answered = api.send(Method::POST, &path, &json!({ "body": text })).await?;
    let comment: wire::Comment = api.good(answered)?.json()?;
    Ok(fresh(comment.id, comment.html_url))
}

/// Refuses a review of something that is not there any more.
pub(super) async fn require_head(api: &Api, review: &Review) -> Result<(), ForgeError> {
    let pull = pull(api, review.number).await?;
    if pull.head.sha == review.sha {
        return Ok(());
    }
    Err(ForgeError::Moved {
        target: format!("the pull request {}", review.number),
        expected: review.sha.clone(),
        found: pull.head.sha,
    })
}

async fn pull(api: &Api, number: u64) -> Result<wire::Pull, ForgeError> {
    let number = number.to_string();
    let answered = api.get(&["pulls", &number], &[]).await?;
    api.good(answered)?.json()
}

/// A review that was written with the same key; otherwise the one that `body` says.
pub(super) async fn review(
    api: &Api,
    review: &Review,
    marker: &Marker,
    body: serde_json::Value,
) -> Result<Written, ForgeError> {
    let number = review.number.to_string();
    let path = ["pulls", &number, "reviews"];
    let found = api.find(&path, &[], |page: &Vec<wire::Comment>| marked(page, marker)).await?;
    if let Some(found) = found {
        return Ok(found);
    }
    require_head(api, review).await?;
    let answered = api.send(Method::POST, &path, &body).await?;
    let written: wire::Comment = api.good(answered)?.json()?;
    Ok(fresh(written.id, written.html_url))
}

pub(super) async fn pull_request(api: &Api, number: u64) -> Result<PullRequestState, ForgeError> {
    let pull = pull(api, number).await?;
    let mut files: Vec<String> = Vec::new();
    let name = number.to_string();
    let all = |page: &Vec<wire::ChangedFile>| -> Option<()> {
        files.extend(page.iter().map(|file| file.filename.clone()));
        None
    };
    api.find(&["pulls", &name, "files"], &[], all).await?;
    // A forge that knows no pages gives the same ones again.
    files.sort();
    files.dedup();
    Ok(PullRequestState {
        number: pull.number,
        title: pull.title,
        body: pull.body.unwrap_or_default(),
        open: pull.state == "open",
        head_branch: pull.head.branch,
        head_sha: pull.head.sha,
        head_repository: pull.head.repo.map(|repository| repository.full_name),
        base_branch: pull.base.branch,
        files,
    })
}

pub(super) async fn open_pull_request(
    api: &Api,
    marker: &Marker,
    wanted: &Proposed<'_>,
    query: &[(&str, &str)],
) -> Result<Written, ForgeError> {
    let text = marker.put_on(wanted.body)?;
    let is_it = |page: &Vec<wire::Pull>| {
        let ours = page.iter().find(|pull| pull.body.as_deref().is_some_and(|b| marker.is_on(b)));
        ours.map(|pull| there(pull.number, pull.html_url.clone()))
    };
    if let Some(found) = api.find(&["pulls"], query, is_it).await? {
        return Ok(found);
    }
    let Proposed { head, base, title, .. } = wanted;
    let body = json!({ "head": head, "base": base, "title": title, "body": text });
    let answered = api.send(Method::POST, &["pulls"], &body).await?;
    let pull: wire::Pull = api.good(answered)?.json()?;
    Ok(fresh(pull.number, pull.html_url))
}

/// The account that the token is of; nothing where tokens need not be of one.
pub(super) async fn account(api: &Api) -> Result<Option<String>, ForgeError> {
    let api = api.whole();
    let answered = api.get(&["user"], &[]).await?;
    if matches!(answered.status(), 403 | 404) {
        return Ok(None);
    }
    let user: wire::User = api.good(answered)?.json()?;
    Ok(Some(user.login))
}

/// The names of the labels.
pub(super) async fn labels(api: &Api) -> Result<Option<Vec<String>>, ForgeError> {
    let mut names = Vec::new();
    let more = |page: &Vec<wire::Label>| {
        names.extend(page.iter().map(|label| label.name.clone()));
        None::<()>
    };
    api.find(&["labels"], &[], more).await?;
    Ok(Some(names))
}

/// Where a branch is. That there is none is believed only of a repository that is there.
pub(super) async fn branch(api: &Api, name: &str) -> Result<Option<String>, ForgeError> {
    let mut path = vec!["branches"];
    // Both forges take a name with slashes as it is.
    path.extend(name.split('/'));
    let answered = api.get(&path, &[]).await?;
    if answered.is_missing() {
        let repository = api.get(&[], &[]).await?;
        api.good(repository)?;
        return Ok(None);
    }
    let branch: wire::Branch = api.good(answered)?.json()?;
    let commit = branch.commit.id.or(branch.commit.sha).filter(|commit| !commit.is_empty());
    let unknown = || ForgeError::Unavailable(format!("the branch {name} came without a commit"));
    commit.map(Some).ok_or_else(unknown)
}

/// What somebody may do here; both forges say it in the same words. One who is no collaborator may read
/// at the most.
pub(super) async fn permission(api: &Api, actor: &str) -> Result<Rights, ForgeError> {
    let answered = api.get(&["collaborators", actor, "permission"], &[]).await?;
    if answered.is_missing() {
        let repository = api.get(&[], &[]).await?;
        api.good(repository)?;
        return Ok(Rights::Read);
    }
    let told: wire::Permission = api.good(answered)?.json()?;
    // The answer must be about whom it was asked for.
    if !told.user.is_some_and(|user| user.login.eq_ignore_ascii_case(actor)) {
        return Ok(Rights::Unknown);
    }
    Ok(match told.permission.as_str() {
        "owner" | "admin" | "maintain" | "write" => Rights::Write,
        "triage" | "read" | "none" => Rights::Read,
        _ => Rights::Unknown,
    })
}

pub(super) async fn issue(api: &Api, number: u64) -> Result<(String, String), ForgeError> {
    let number = number.to_string();
    let answered = api.get(&["issues", &number], &[]).await?;
    let issue: wire::Issue = api.good(answered)?.json()?;
    Ok((issue.title, issue.body.unwrap_or_default()))
}

/// Sets a status, unless the newest one of that name says the same.
pub(super) async fn set_status(
    api: &Api,
    wanted: &StatusToSet<'_>,
    query: &[(&str, &str)],
) -> Result<Written, ForgeError> {
    let state = match wanted.state {
        CheckState::Pending => "pending",
        CheckState::Success => "success",
        CheckState::Failure => "failure",
        CheckState::Error => "error",
    };
    let mut newest: Option<(u64, bool)> = None;
    let look = |page: &Vec<wire::Status>| -> Option<()> {
        for status in page.iter().filter(|status| status.context == wanted.context) {
            let same = status.status.as_deref() == Some(state)
                && status.description.as_deref().unwrap_or_default() == wanted.description
                && status.target_url.as_deref().unwrap_or_default()
                    == wanted.url.unwrap_or_default();
            if newest.is_none_or(|(id, _)| status.id > id) {
                newest = Some((status.id, same));
            }
        }
        None
    };
    api.find(&["commits", wanted.sha, "statuses"], query, look).await?;
    if let Some((id, true)) = newest {
        return Ok(there(id, None));
    }
    let mut body = json!({
        "state": state, "context": wanted.context, "description": wanted.description,
    });
    if let (Some(url), Some(body)) = (wanted.url, body.as_object_mut()) {
        body.insert("target_url".to_owned(), url.into());
    }
    let answered = api.send(Method::POST, &["statuses", wanted.sha], &body).await?;
    let status: wire::Status = api.good(answered)?.json()?;
    Ok(fresh(status.id, None))
}

/// Runs a job or a workflow again, unless it is past the attempt that was looked at. `job_path` says
/// where a job of a run is run again.
pub(super) async fn rerun(
    api: &Api,
    wanted: &Again<'_>,
    job_path: impl Fn(&str, &str) -> Vec<String>,
) -> Result<Written, ForgeError> {
    let run = if wanted.whole_workflow {
        wanted.run.to_owned()
    } else {
        let answered = api.get(&["actions", "jobs", wanted.run], &[]).await?;
        let job: wire::Job = api.good(answered)?.json()?;
        job.run_id.to_string()
    };
    let answered = api.get(&["actions", "runs", &run], &[]).await?;
    let now: wire::Run = api.good(answered)?.json()?;
    if now.run_attempt > wanted.attempt {
        return Ok(there(now.id, now.html_url));
    }
    let path = if wanted.whole_workflow {
        ["actions", "runs", &run, "rerun"].map(str::to_owned).to_vec()
    } else {
        job_path(&run, wanted.run)
    };
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    let answered = api.send(Method::POST, &path, &json!({})).await?;
    // It is at work at this moment: somebody else was quicker.
    if answered.status() == 409 {
        return Err(ForgeError::Moved {
            target: format!("the run {run}"),
            expected: format!("attempt {}, which has ended", wanted.attempt),
            found: answered.said(),
        });
    }
    api.good(answered)?;
    Ok(fresh(now.id, now.html_url))
}

/// Writes the notes of a release whose tag is there. What somebody else wrote is not touched.
pub(super) async fn release(
    api: &Api,
    marker: &Marker,
    tag: &str,
    title: &str,
    body: &str,
    tag_there: Answered,
) -> Result<Written, ForgeError> {
    let text = marker.put_on(body)?;
    let is_it = |page: &Vec<wire::Release>| {
        let found = page.iter().find(|release| release.tag_name == tag)?;
        let notes = found.body.clone().unwrap_or_default();
        Some((found.id, found.html_url.clone(), notes))
    };
    let found = api.find(&["releases"], &[], is_it).await?;
    if let Some((id, url, notes)) = found {
        if marker.is_on(&notes) {
            return Ok(there(id, url));
        }
        if !notes.trim().is_empty() {
            let why = format!("the release {tag} has notes that somebody else wrote");
            return Err(ForgeError::Refused(why));
        }
        let number = id.to_string();
        let body = json!({ "name": title, "body": text });
        let answered = api.send(Method::PATCH, &["releases", &number], &body).await?;
        api.good(answered)?;
        return Ok(fresh(id, url));
    }
    // For a tag that is not there, a forge would make one, on whatever its branch is at.
    if tag_there.is_missing() {
        return Err(ForgeError::Refused(format!("there is no tag {tag}; push it first")));
    }
    api.good(tag_there)?;
    let body = json!({ "tag_name": tag, "name": title, "body": text });
    let answered = api.send(Method::POST, &["releases"], &body).await?;
    let release: wire::Release = api.good(answered)?.json()?;
    Ok(fresh(release.id, release.html_url))
}

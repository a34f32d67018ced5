//! Requests that Gitea and GitHub have in common.

use bailiwick_fleet::admission::TeamMembers;
use bailiwick_fleet::ports::{
    AccountProblem, CheckState, ForgeError, PullRequestState, Review, Rights, Written,
};
use reqwest::Method;
use serde_json::json;

use super::client::{Api, ApiResponse};
use super::marker::Marker;
use super::wire;

/// A status to set on a commit.
pub(super) struct StatusToSet<'a> {
    pub(super) sha: &'a str,
    pub(super) context: &'a str,
    pub(super) state: CheckState,
    pub(super) description: &'a str,
    pub(super) url: Option<&'a str>,
}

/// A pull request to open.
pub(super) struct NewPullRequest<'a> {
    pub(super) head: &'a str,
    pub(super) base: &'a str,
    pub(super) title: &'a str,
    pub(super) body: &'a str,
}

/// A job or workflow to run again.
pub(super) struct RerunRequest<'a> {
    pub(super) run: &'a str,
    pub(super) whole_workflow: bool,
    pub(super) attempt: u64,
}

pub(super) fn existing(id: u64, url: Option<String>) -> Written {
    Written { id: id.to_string(), url, was_there: true }
}

pub(super) fn created(id: u64, url: Option<String>) -> Written {
    Written { id: id.to_string(), url, was_there: false }
}

/// Something that has a marker, and who wrote it.
pub(super) struct Marked {
    found: Written,
    author: Option<String>,
}

/// The comments with this marker.
pub(super) fn marked_comments(comments: &[wire::Comment], marker: &Marker) -> Vec<Marked> {
    let matching =
        |comment: &&wire::Comment| comment.body.as_deref().is_some_and(|body| marker.ends(body));
    let marked = |comment: &wire::Comment| Marked {
        found: existing(comment.id, comment.html_url.clone()),
        author: comment.user.as_ref().map(|user| user.login.clone()),
    };
    comments.iter().filter(matching).map(marked).collect()
}

/// The one that our own account wrote: anybody can copy a marker. If the forge does not tell our account, none: then
/// only what was recorded when it was written counts.
pub(super) async fn our_own(api: &Api, marked: Vec<Marked>) -> Result<Option<Written>, ForgeError> {
    if marked.is_empty() {
        return Ok(None);
    }
    let account = account(api).await?;
    let is_ours = |marked: &Marked| match (&account, &marked.author) {
        (Some(account), Some(author)) => author.eq_ignore_ascii_case(account),
        (Some(_), None) | (None, _) => false,
    };
    Ok(marked.into_iter().find(is_ours).map(|marked| marked.found))
}

/// The comment or review of ours with this marker, on any page of a list.
pub(super) async fn find_ours(
    api: &Api,
    path: &[&str],
    marker: &Marker,
) -> Result<Option<Written>, ForgeError> {
    let mut marked = Vec::new();
    let all = |page: &Vec<wire::Comment>| -> Option<()> {
        marked.extend(marked_comments(page, marker));
        None
    };
    api.find(path, &[], all).await?;
    our_own(api, marked).await
}

pub(super) async fn post_comment(
    api: &Api,
    number: u64,
    text: &str,
) -> Result<Written, ForgeError> {
    let number = number.to_string();
    let path = ["issues", &number, "comments"];
    let response = api.send(Method::POST, &path, &json!({ "body": text })).await?;
    let comment: wire::Comment = api.require_success(response)?.json()?;
    Ok(created(comment.id, comment.html_url))
}

/// Refuses a review of an outdated commit.
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
    let response = api.get(&["pulls", &number], &[]).await?;
    api.require_success(response)?.json()
}

/// Writes the review in `body`, unless one with the same marker exists.
pub(super) async fn review(
    api: &Api,
    review: &Review,
    marker: &Marker,
    body: serde_json::Value,
) -> Result<Written, ForgeError> {
    let number = review.number.to_string();
    let path = ["pulls", &number, "reviews"];
    if let Some(found) = find_ours(api, &path, marker).await? {
        return Ok(found);
    }
    require_head(api, review).await?;
    let response = api.send(Method::POST, &path, &body).await?;
    let written: wire::Comment = api.require_success(response)?.json()?;
    Ok(created(written.id, written.html_url))
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
    // A forge without pages returns the same files again.
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
    wanted: &NewPullRequest<'_>,
    query: &[(&str, &str)],
) -> Result<Written, ForgeError> {
    let text = marker.append_to(wanted.body)?;
    let mut marked = Vec::new();
    let matching = |page: &Vec<wire::Pull>| -> Option<()> {
        let with = page.iter().filter(|pull| pull.body.as_deref().is_some_and(|b| marker.ends(b)));
        marked.extend(with.map(|pull| Marked {
            found: existing(pull.number, pull.html_url.clone()),
            author: pull.user.as_ref().map(|user| user.login.clone()),
        }));
        None
    };
    api.find(&["pulls"], query, matching).await?;
    if let Some(found) = our_own(api, marked).await? {
        return Ok(found);
    }
    let NewPullRequest { head, base, title, .. } = wanted;
    let body = json!({ "head": head, "base": base, "title": title, "body": text });
    let response = api.send(Method::POST, &["pulls"], &body).await?;
    let pull: wire::Pull = api.require_success(response)?.json()?;
    Ok(created(pull.number, pull.html_url))
}

/// Opens an issue, unless our account has opened one with the same marker. `creator` is the parameter that selects the
/// issues of an account.
pub(super) async fn open_issue(
    api: &Api,
    marker: &Marker,
    (title, body): (&str, &str),
    creator: &str,
) -> Result<Written, ForgeError> {
    let text = marker.append_to(body)?;
    let account = account(api).await?;
    let mut query = vec![("state", "all")];
    query.extend(account.as_deref().map(|account| (creator, account)));
    let mut marked = Vec::new();
    let matching = |page: &Vec<wire::Issue>| -> Option<()> {
        // Both forges list pull requests as well.
        let issues = page.iter().filter(|one| one.pull_request.is_none());
        let with = issues.filter(|one| one.body.as_deref().is_some_and(|b| marker.ends(b)));
        marked.extend(with.map(|issue| Marked {
            found: existing(issue.number, issue.html_url.clone()),
            author: issue.user.as_ref().map(|user| user.login.clone()),
        }));
        (!marked.is_empty()).then_some(())
    };
    api.find(&["issues"], &query, matching).await?;
    if let Some(found) = our_own(api, marked).await? {
        return Ok(found);
    }
    let body = json!({ "title": title, "body": text });
    let response = api.send(Method::POST, &["issues"], &body).await?;
    let issue: wire::Issue = api.require_success(response)?.json()?;
    Ok(created(issue.number, issue.html_url))
}

/// The account of the token, if it has one.
pub(super) async fn account(api: &Api) -> Result<Option<String>, ForgeError> {
    let api = api.root_api();
    let response = api.get(&["user"], &[]).await?;
    if matches!(response.status(), 403 | 404) {
        return Ok(None);
    }
    let user: wire::User = api.require_success(response)?.json()?;
    Ok(Some(user.login))
}

/// The members of a team by this list outside of the repository. `right` is what a token needs to read it.
pub(super) async fn team_members(
    api: &Api,
    path: &[&str],
    right: &str,
) -> Result<TeamMembers, ForgeError> {
    let mut members = Vec::new();
    let all = |page: &Vec<wire::User>| -> Option<()> {
        members.extend(page.iter().map(|user| user.login.clone()));
        None
    };
    match api.root_api().find(path, &[], all).await {
        Ok(_) => Ok(TeamMembers::Known(members)),
        // A team that the token must not see is not found, either.
        Err(
            error @ (ForgeError::Refused(_)
            | ForgeError::Account(AccountProblem::RightMissing { .. })),
        ) => Ok(TeamMembers::Unreadable(format!("the token needs {right}: {error}"))),
        Err(error) => Err(error),
    }
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

/// The commit of a branch. A missing branch is reported only if the repository exists.
pub(super) async fn branch(api: &Api, name: &str) -> Result<Option<String>, ForgeError> {
    let mut path = vec!["branches"];
    // Both forges accept names with slashes.
    path.extend(name.split('/'));
    let response = api.get(&path, &[]).await?;
    if response.is_missing() {
        return Ok(None);
    }
    let branch: wire::Branch = api.require_success(response)?.json()?;
    let commit = branch.commit.id.or(branch.commit.sha).filter(|commit| !commit.is_empty());
    let unknown =
        || ForgeError::Unavailable(format!("the response for the branch {name} has no commit"));
    commit.map(Some).ok_or_else(unknown)
}

/// Asks for the rights of a user.
pub(super) async fn get_permission(api: &Api, actor: &str) -> Result<ApiResponse, ForgeError> {
    api.get(&["collaborators", actor, "permission"], &[]).await
}

/// What a user may do in a repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    Admin,
    Write,
    /// At most.
    Read,
}

/// The rights of a user by this response.
pub(super) fn rights(api: &Api, actor: &str, response: ApiResponse) -> Result<Rights, ForgeError> {
    Ok(match access(api, actor, response)? {
        Some(Access::Admin | Access::Write) => Rights::Write,
        Some(Access::Read) => Rights::Read,
        None => Rights::Unknown,
    })
}

/// The access of a user by this response, if it tells. A user who is not a collaborator can read at most.
pub(super) fn access(
    api: &Api,
    actor: &str,
    response: ApiResponse,
) -> Result<Option<Access>, ForgeError> {
    if response.is_missing() {
        return Ok(Some(Access::Read));
    }
    let answer: wire::Permission = api.require_success(response)?.json()?;
    // The response must be about the requested user.
    if !answer.user.is_some_and(|user| user.login.eq_ignore_ascii_case(actor)) {
        return Ok(None);
    }
    Ok(match answer.permission.as_str() {
        "owner" | "admin" => Some(Access::Admin),
        "maintain" | "write" => Some(Access::Write),
        "triage" | "read" | "none" => Some(Access::Read),
        _ => None,
    })
}

pub(super) async fn issue(api: &Api, number: u64) -> Result<(String, String), ForgeError> {
    let number = number.to_string();
    let response = api.get(&["issues", &number], &[]).await?;
    let issue: wire::Issue = api.require_success(response)?.json()?;
    Ok((issue.title, issue.body.unwrap_or_default()))
}

/// Sets a status, unless the newest one with that context is equal.
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
        return Ok(existing(id, None));
    }
    let mut body = json!({
        "state": state, "context": wanted.context, "description": wanted.description,
    });
    if let (Some(url), Some(body)) = (wanted.url, body.as_object_mut()) {
        body.insert("target_url".to_owned(), url.into());
    }
    let response = api.send(Method::POST, &["statuses", wanted.sha], &body).await?;
    let status: wire::Status = api.require_success(response)?.json()?;
    Ok(created(status.id, None))
}

/// Runs a job or a workflow again, unless there is a newer attempt. `job_path` is the request path for a
/// job of a run.
pub(super) async fn rerun(
    api: &Api,
    wanted: &RerunRequest<'_>,
    job_path: impl Fn(&str, &str) -> Vec<String>,
) -> Result<Written, ForgeError> {
    let run = if wanted.whole_workflow {
        wanted.run.to_owned()
    } else {
        let response = api.get(&["actions", "jobs", wanted.run], &[]).await?;
        let job: wire::Job = api.require_success(response)?.json()?;
        job.run_id.to_string()
    };
    let response = api.get(&["actions", "runs", &run], &[]).await?;
    let now: wire::Run = api.require_success(response)?.json()?;
    if now.run_attempt > wanted.attempt {
        return Ok(existing(now.id, now.html_url));
    }
    let path = if wanted.whole_workflow {
        ["actions", "runs", &run, "rerun"].map(str::to_owned).to_vec()
    } else {
        job_path(&run, wanted.run)
    };
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    let response = api.send(Method::POST, &path, &json!({})).await?;
    // It is running: somebody else has started it.
    if response.status() == 409 {
        return Err(ForgeError::Moved {
            target: format!("the run {run}"),
            expected: format!("attempt {}, which has ended", wanted.attempt),
            found: response.message(),
        });
    }
    api.require_success(response)?;
    Ok(created(now.id, now.html_url))
}

/// Writes the notes of a release with an existing tag. Notes of other people are not changed.
pub(super) async fn release(
    api: &Api,
    marker: &Marker,
    tag: &str,
    title: &str,
    body: &str,
    tag_response: ApiResponse,
) -> Result<Written, ForgeError> {
    let text = marker.append_to(body)?;
    let matching = |page: &Vec<wire::Release>| {
        let found = page.iter().find(|release| release.tag_name == tag)?;
        let notes = found.body.clone().unwrap_or_default();
        Some((found.id, found.html_url.clone(), notes))
    };
    let found = api.find(&["releases"], &[], matching).await?;
    if let Some((id, url, notes)) = found {
        if marker.ends(&notes) {
            return Ok(existing(id, url));
        }
        if !notes.trim().is_empty() {
            let why = format!("the release {tag} has notes that somebody else wrote");
            return Err(ForgeError::Refused(why));
        }
        let number = id.to_string();
        let body = json!({ "name": title, "body": text });
        let response = api.send(Method::PATCH, &["releases", &number], &body).await?;
        api.require_success(response)?;
        return Ok(created(id, url));
    }
    // The forge would create a missing tag at the tip of its default branch.
    if tag_response.is_missing() {
        return Err(ForgeError::Refused(format!("the tag {tag} does not exist; push it first")));
    }
    api.require_success(tag_response)?;
    let body = json!({ "tag_name": tag, "name": title, "body": text });
    let response = api.send(Method::POST, &["releases"], &body).await?;
    let release: wire::Release = api.require_success(response)?.json()?;
    Ok(created(release.id, release.html_url))
}

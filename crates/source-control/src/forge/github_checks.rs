//! Statuses and checks that ended since a time, on the tips of branches and open pull requests of a GitHub.

use bailiwick_fleet::ports::ForgeError;
use serde::Deserialize;
use serde_json::{Value, json};

use super::client::Paged;
use super::github_activity::{login, newer, number_of, text, time};
use super::poll::{Found, Poll};

/// How many tips are asked for.
const MAX_TIPS: usize = 20;

/// A commit, and the branch of the repository that it is the tip of.
struct Tip {
    sha: String,
    branch: Option<String>,
}

#[derive(Debug, Deserialize)]
struct CheckRuns {
    #[serde(default)]
    check_runs: Vec<Value>,
}

impl Paged for CheckRuns {
    fn len(&self) -> usize {
        self.check_runs.len()
    }
}

pub(super) async fn since(poll: &Poll<'_>) -> Result<Found, ForgeError> {
    let mut found = Found::new();
    for tip in tips(poll).await?.iter().take(MAX_TIPS) {
        found.extend(statuses(poll, tip).await?);
        found.extend(checks(poll, tip).await?);
    }
    Ok(found)
}

async fn tips(poll: &Poll<'_>) -> Result<Vec<Tip>, ForgeError> {
    let ours = text(&poll.repository, "/full_name").unwrap_or_default();
    let mut tips: Vec<Tip> = Vec::new();
    let mut add = |sha: Option<&str>, branch: Option<&str>| {
        let Some(sha) = sha else { return };
        match tips.iter_mut().find(|tip| tip.sha == sha) {
            Some(known) => known.branch = known.branch.take().or(branch.map(str::to_owned)),
            None => tips.push(Tip { sha: sha.to_owned(), branch: branch.map(str::to_owned) }),
        }
    };
    let pulls = |page: &Vec<Value>| -> Option<()> {
        for pull in page {
            let is_ours = text(pull, "/head/repo/full_name")
                .is_some_and(|name| name.eq_ignore_ascii_case(ours));
            let branch = text(pull, "/head/ref").filter(|_| is_ours);
            add(text(pull, "/head/sha"), branch);
        }
        Some(())
    };
    let newest = [("state", "open"), ("sort", "updated"), ("direction", "desc")];
    poll.api.find(&["pulls"], &newest, pulls).await?;
    let branches = |page: &Vec<Value>| -> Option<()> {
        page.iter().for_each(|branch| add(text(branch, "/commit/sha"), text(branch, "/name")));
        Some(())
    };
    poll.api.find(&["branches"], &[], branches).await?;
    Ok(tips)
}

async fn statuses(poll: &Poll<'_>, tip: &Tip) -> Result<Found, ForgeError> {
    let mut entries = Vec::new();
    let newest_first = |page: &Vec<Value>| newer(page, "created_at", poll.since, &mut entries);
    poll.api.find_if_allowed(&["commits", &tip.sha, "statuses"], &[], newest_first).await?;
    let branches: Vec<Value> = tip.branch.iter().map(|name| json!({ "name": name })).collect();
    let mut found = Found::new();
    for (at, status) in entries {
        let Some(id) = number_of(&status) else { continue };
        let field = |name: &str| status.get(name);
        let payload = json!({
            "id": id, "sha": tip.sha, "state": field("state"), "context": field("context"),
            "description": field("description"), "target_url": field("target_url"),
            "branches": branches,
        });
        let id = (format!("status/{id}"), "status");
        found.push(poll.event(at, id, login(&status, "creator"), payload));
    }
    Ok(found)
}

async fn checks(poll: &Poll<'_>, tip: &Tip) -> Result<Found, ForgeError> {
    let mut checks: Vec<Value> = Vec::new();
    let all = |page: &CheckRuns| -> Option<()> {
        checks.extend(page.check_runs.iter().cloned());
        None
    };
    let path = ["commits", &tip.sha, "check-runs"];
    poll.api.find_if_allowed(&path, &[("status", "completed")], all).await?;
    let mut found = Found::new();
    for mut check in checks {
        let at = time(&check, "completed_at").filter(|at| *at >= poll.since);
        let (Some(at), Some(id)) = (at, number_of(&check)) else { continue };
        // The list has only the number of the suite, a webhook also its branch.
        if let Some(check) = check.as_object_mut() {
            check.insert("check_suite".to_owned(), json!({ "head_branch": tip.branch }));
        }
        let payload = json!({ "action": "completed", "check_run": check });
        found.push(poll.event(at, (format!("check/{id}"), "check_run"), None, payload));
    }
    Ok(found)
}

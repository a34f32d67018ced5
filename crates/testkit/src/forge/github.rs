//! Lists that only GitHub has: events of issues, comments on lines, activities, events and checks.

use serde_json::{Value, json};

use super::answer::Answer;
use super::routes::{ForgeRequest, cut, page};
use super::show::{label, time, user};
use super::state::{Comment, Flavour, State};

/// The answer to one of these requests; nothing if it is none of them.
pub(super) fn answer(state: &State, asked: &ForgeRequest<'_>) -> Option<Answer> {
    if state.flavour != Flavour::Github || asked.method != "GET" {
        return None;
    }
    match asked.path.as_slice() {
        ["issues", "events"] => Some(issue_events(state, asked)),
        ["pulls", "comments"] => Some(review_comments(state, asked)),
        ["activity"] => Some(activity(state, asked)),
        ["events"] => Some(events(state, asked)),
        ["commits", sha, "check-runs"] => Some(check_runs(state, asked, sha)),
        ["rules", "branches", name @ ..] => Some(branch_rules(state, &name.join("/"))),
        _ => None,
    }
}

/// A branch without rules has an empty list.
fn branch_rules(state: &State, branch: &str) -> Answer {
    let kinds = state.branch_rules.get(branch).into_iter().flatten();
    let shown = kinds.map(|kind| json!({ "type": kind, "ruleset_source_type": "Repository" }));
    Answer::json(200, &Value::Array(shown.collect()))
}

/// The newest come first, each with its issue.
fn issue_events(state: &State, asked: &ForgeRequest<'_>) -> Answer {
    let shown = state.label_changes.iter().rev().filter_map(|change| {
        let issue = state.items.get(&change.number)?;
        let name = label(&change.label);
        Some(json!({
            "id": change.id,
            "event": if change.added { "labeled" } else { "unlabeled" },
            "actor": user(&change.by),
            // Labels have no ids here.
            "label": { "name": name["name"], "color": name["color"] },
            "commit_id": null, "commit_url": null,
            "created_at": time(change.at),
            "issue": state.show_issue(change.number, issue),
        }))
    });
    page(state, asked, shown.collect())
}

fn review_comments(state: &State, asked: &ForgeRequest<'_>) -> Answer {
    let since = asked.parameter("since").and_then(|text| text.parse().ok());
    let changed = |comment: &&Comment| {
        since.is_none_or(|since| comment.edited.unwrap_or(comment.created) >= since)
    };
    let shown = state.review_comments.iter().filter(changed).map(|comment| {
        let place = format!("{}/repos/{}/pulls", state.base_url, state.full_name);
        json!({
            "id": comment.id, "body": comment.body, "user": user(&comment.by),
            "pull_request_url": format!("{place}/{}", comment.number),
            "html_url": format!("{place}/{}#discussion_r{}", comment.number, comment.id),
            "created_at": time(comment.created),
            "updated_at": time(comment.edited.unwrap_or(comment.created)),
            "author_association": "NONE", "path": "README.md", "line": 1,
        })
    });
    page(state, asked, shown.collect())
}

/// Pushes of branches, newest first. Pages have no numbers: the answer names the next one.
fn activity(state: &State, asked: &ForgeRequest<'_>) -> Answer {
    let branches =
        state.activities.iter().rev().filter(|one| one.reference.starts_with("refs/heads/"));
    let mut shown: Vec<Value> = branches
        .map(|one| {
            json!({
                "id": one.id,
                "ref": one.reference,
                "before": one.before.clone().unwrap_or_else(|| "0".repeat(40)),
                "after": one.after,
                "timestamp": time(one.at),
                "activity_type": if one.before.is_some() { "push" } else { "branch_creation" },
                "actor": user(&one.by),
            })
        })
        .collect();
    if let Some(after) = asked.parameter("after") {
        let at = shown.iter().position(|one| format!("cursor={}", one["id"]) == after);
        shown.drain(..at.map_or(shown.len(), |at| at + 1));
    }
    let (shown, next) = cut(state, asked, shown);
    let last = shown.last().map(|one| one["id"].to_string()).unwrap_or_default();
    let answer = Answer::json(200, &Value::Array(shown));
    match next {
        true => answer.with(
            "Link",
            format!(
                "<{}/elsewhere?per_page=30&after=cursor%3D{last}>; rel=\"next\"",
                state.base_url
            ),
        ),
        false => answer,
    }
}

/// Events, newest first. They appear late.
fn events(state: &State, asked: &ForgeRequest<'_>) -> Answer {
    let newest = state.activities.iter().rev();
    let visible = newest.filter(|one| !state.late_events.contains(&one.reference));
    let shown = visible.map(|one| {
        let (kind, payload) = match one.reference.strip_prefix("refs/tags/") {
            Some(tag) => {
                let payload = json!({ "ref": tag, "ref_type": "tag", "master_branch": "main" });
                ("CreateEvent", payload)
            }
            None => ("PushEvent", json!({ "ref": one.reference, "head": one.after })),
        };
        // An id is a text here.
        json!({
            "id": one.id.to_string(), "type": kind, "actor": user(&one.by), "payload": payload,
            "public": true, "created_at": time(one.at),
        })
    });
    page(state, asked, shown.collect())
}

/// The jobs of Actions are checks.
fn check_runs(state: &State, asked: &ForgeRequest<'_>, sha: &str) -> Answer {
    let runs = state.runs.iter().filter(|run| run.sha == sha);
    let shown: Vec<Value> = runs
        .flat_map(|run| {
            state.jobs.iter().filter(|job| job.run == run.id).map(move |job| (run, job))
        })
        .filter(|(run, _)| run.ended.is_some() || asked.parameter("status") != Some("completed"))
        .map(|(run, job)| {
            json!({
                "id": job.id, "name": job.name, "head_sha": sha,
                "status": if run.ended.is_some() { "completed" } else { "in_progress" },
                "conclusion": job.conclusion,
                "started_at": time(run.began), "completed_at": run.ended.map(time),
                "check_suite": { "id": run.id }, "app": { "slug": "github-actions" },
                "pull_requests": [],
            })
        })
        .collect();
    let total = shown.len();
    let (shown, next) = cut(state, asked, shown);
    let answer = Answer::json(200, &json!({ "total_count": total, "check_runs": shown }));
    if next { answer.with("Link", "<https://example.org/next>; rel=\"next\"") } else { answer }
}

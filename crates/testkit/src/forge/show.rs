//! Renders the state of a stand-in in the forge's format.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::state::{
    Activity, Comment, Flavour, Item, Job, LabelChange, PullParts, Release, Review, Run, State,
    Status, Team,
};

/// The account of the token; no other account has this name.
pub(super) const OUR_LOGIN: &str = "mender-account";

pub(super) fn time(moment: Timestamp) -> String {
    format!("{moment:.0}")
}

pub(super) fn user(login: &str) -> Value {
    json!({ "id": 7, "login": login, "full_name": login, "email": format!("{login}@example.org") })
}

/// A label has the same id wherever it is shown.
pub(super) fn label(name: &str) -> Value {
    let id = name.bytes().fold(7_u64, |id, byte| (id * 31 + u64::from(byte)) % 1_000_003);
    json!({ "id": id + 1, "name": name, "color": "00aabb" })
}

impl State {
    pub(super) fn show_repository(&self, full_name: &str) -> Value {
        let (owner, name) = full_name.split_once('/').unwrap_or((full_name, full_name));
        json!({
            "id": if full_name == self.full_name { 1 } else { 2 },
            "name": name,
            "full_name": full_name,
            "owner": user(owner),
            "private": false,
            "fork": full_name != self.full_name,
            "html_url": format!("{}/{full_name}", self.base_url),
            "clone_url": format!("{}/{full_name}.git", self.base_url),
            "default_branch": "main",
            "permissions": { "admin": !self.is_writer_token, "push": true, "pull": true },
        })
    }

    fn labels(&self, item: &Item) -> Vec<Value> {
        item.labels.iter().map(|name| label(name)).collect()
    }

    /// An entry of a timeline.
    pub(super) fn show_label_change(&self, change: &LabelChange) -> Value {
        json!({
            "id": change.id,
            "type": "label",
            // Gitea marks an addition with this text.
            "body": if change.added { "1" } else { "" },
            "user": user(&change.by),
            "label": label(&change.label),
            "created_at": time(change.at),
            "updated_at": time(change.at),
        })
    }

    /// A push as an activity: Gitea's data about it is JSON in a text.
    pub(super) fn show_activity(&self, activity: &Activity) -> Vec<Value> {
        // A new branch is compared with the default branch.
        let before = activity.before.clone().or_else(|| self.reference("refs/heads/main"));
        let before = before.unwrap_or_else(|| "0".repeat(40));
        let is_tag = activity.reference.starts_with("refs/tags/");
        let compared = format!("{}/compare/{before}...{}", self.full_name, activity.after);
        let head = json!({ "Sha1": activity.after, "Message": "a commit" });
        let content = match is_tag {
            true => {
                json!({ "Commits": null, "HeadCommit": head, "CompareURL": compared, "Len": 0 })
            }
            false => {
                json!({ "Commits": [head], "HeadCommit": head, "CompareURL": compared, "Len": 1 })
            }
        };
        let entry = |offset: u64, content: &str| {
            json!({
                "id": 4 * activity.id + offset,
                "op_type": if is_tag { "push_tag" } else { "commit_repo" },
                "act_user": user(&activity.by),
                "ref_name": activity.reference,
                "content": content,
                "created": time(activity.at),
            })
        };
        let content = content.to_string();
        if activity.before.is_some() || is_tag {
            return vec![entry(3, &content), entry(2, &content)];
        }
        // The creation is a separate entry without content. Every watcher has both, in any order within a second.
        vec![entry(1, ""), entry(2, &content), entry(0, ""), entry(3, &content)]
    }

    pub(super) fn show_team(&self, team: &Team, id: u64) -> Value {
        let units: serde_json::Map<String, Value> = team
            .units
            .iter()
            .map(|(unit, access)| (unit.clone(), access.as_str().into()))
            .collect();
        json!({
            "id": id, "name": team.name, "permission": team.permission, "units_map": units,
        })
    }

    pub(super) fn show_issue(&self, number: u64, item: &Item) -> Value {
        let mut shown = json!({
            "id": 1000 + number,
            "number": number,
            "title": item.title,
            "body": item.body,
            "state": if item.open { "open" } else { "closed" },
            "user": user(&item.by),
            "labels": self.labels(item),
            "assignee": item.assignee.as_deref().map(user),
            "html_url": format!("{}/{}/issues/{number}", self.base_url, self.full_name),
            "created_at": time(item.created),
            "updated_at": time(item.updated),
            "pull_request": item.pull.as_ref().map(|_| json!({ "merged": false })),
        });
        let locked = match self.flavour {
            Flavour::Gitea => "is_locked",
            Flavour::Github => "locked",
        };
        shown[locked] = item.locked.into();
        if self.has_versions() {
            shown["content_version"] = item.content_version.into();
        }
        shown
    }

    pub(super) fn show_pull(&self, number: u64, item: &Item, pull: &PullParts) -> Value {
        let from = pull.fork.as_deref().unwrap_or(&self.full_name);
        let base_sha = self.reference(&format!("refs/heads/{}", pull.base)).unwrap_or_default();
        let side = |name: &str, sha: &str, repository: &str| {
            json!({
                "label": name, "ref": name, "sha": sha,
                "repo_id": if repository == self.full_name { 1 } else { 2 },
                "repo": self.show_repository(repository),
            })
        };
        let mut shown = json!({
            "id": 1000 + number,
            "number": number,
            "title": item.title,
            "body": item.body,
            "state": if item.open { "open" } else { "closed" },
            "user": user(&item.by),
            "labels": self.labels(item),
            "html_url": format!("{}/{}/pulls/{number}", self.base_url, self.full_name),
            "head": side(&pull.head, &self.head_of(pull), from),
            "base": side(&pull.base, &base_sha, &self.full_name),
            "merged": false,
            "draft": false,
            "created_at": time(item.created),
            "updated_at": time(item.updated),
        });
        // A fork that was deleted is not shown.
        if from.is_empty() {
            shown["head"]["repo"] = Value::Null;
        }
        shown
    }

    pub(super) fn show_comment(&self, comment: &Comment) -> Value {
        let pull = self.items.get(&comment.number).is_some_and(|item| item.pull.is_some());
        let place =
            |kind: &str| format!("{}/{}/{kind}/{}", self.base_url, self.full_name, comment.number);
        // For GitHub a pull request is an issue here.
        let is_pull = pull && self.flavour == Flavour::Gitea;
        json!({
            "id": comment.id,
            "body": comment.body,
            "user": user(&comment.by),
            "html_url": format!("{}#issuecomment-{}", place("issues"), comment.id),
            "issue_url": if is_pull { String::new() } else { place("issues") },
            "pull_request_url": if is_pull { place("pulls") } else { String::new() },
            "created_at": time(comment.created),
            "updated_at": time(comment.edited.unwrap_or(comment.created)),
        })
    }

    pub(super) fn show_review(&self, review: &Review) -> Value {
        let event = review.sent["event"].as_str().unwrap_or("PENDING");
        let state = match event {
            // Gitea keeps the state and has a field for it.
            _ if review.dismissed && self.flavour == Flavour::Github => "DISMISSED",
            "APPROVE" => "APPROVED",
            "REQUEST_CHANGES" if self.flavour == Flavour::Github => "CHANGES_REQUESTED",
            "COMMENT" if self.flavour == Flavour::Github => "COMMENTED",
            other => other,
        };
        let comments = review.sent["comments"].as_array().map_or(0, Vec::len);
        json!({
            "id": review.id,
            "body": review.sent["body"],
            "state": state,
            "commit_id": review.sent["commit_id"],
            "user": user(&review.by),
            "html_url": format!("{}/{}/pulls/{}", self.base_url, self.full_name, review.number),
            "comments_count": comments,
            "submitted_at": time(review.created),
            "dismissed": review.dismissed,
        })
    }

    pub(super) fn show_status(&self, status: &Status) -> Value {
        let name = match self.flavour {
            Flavour::Gitea => "status",
            Flavour::Github => "state",
        };
        json!({
            "id": status.id,
            name: status.sent["state"],
            "context": status.sent["context"],
            "description": status.sent["description"],
            "target_url": status.sent["target_url"].as_str().unwrap_or_default(),
            "creator": user("checker"),
            "created_at": time(self.clock),
            "updated_at": time(self.clock),
        })
    }

    pub(super) fn show_release(&self, release: &Release) -> Value {
        json!({
            "id": release.id,
            "tag_name": release.tag,
            "name": release.name,
            "body": release.body,
            "draft": false,
            "prerelease": false,
            "html_url":
                format!("{}/{}/releases/tag/{}", self.base_url, self.full_name, release.tag),
            "author": user("releaser"),
            "created_at": time(self.clock),
            "published_at": time(self.clock),
        })
    }

    pub(super) fn show_run(&self, run: &Run) -> Value {
        let head = run.fork.as_deref().unwrap_or(&self.full_name);
        let mut shown = json!({
            "id": run.id,
            "run_number": run.id,
            "run_attempt": run.attempt,
            "event": if run.pull.is_some() { "pull_request" } else { "push" },
            "display_title": format!("{} on {}", run.workflow, run.branch),
            "path": format!("{}@refs/heads/{}", run.workflow, run.branch),
            "status": if run.ended.is_some() { "completed" } else { "in_progress" },
            "conclusion": run.conclusion.clone().unwrap_or_default(),
            "head_branch": run.branch,
            "head_sha": run.sha,
            "html_url": format!("{}/{}/actions/runs/{}", self.base_url, self.full_name, run.id),
            "actor": user("pusher"),
            "trigger_actor": user("pusher"),
            "repository": self.show_repository(&self.full_name),
            "head_repository": self.show_repository(head),
            "pull_requests": self.pulls_of(run),
            "started_at": time(run.began),
            // Gitea writes the epoch for a missing time.
            "completed_at": time(run.ended.unwrap_or(Timestamp::UNIX_EPOCH)),
        });
        if self.flavour == Flavour::Github {
            let fields = shown.as_object_mut().expect("an object");
            fields.remove("completed_at");
            fields.insert("name".to_owned(), run.workflow.clone().into());
            fields.insert("created_at".to_owned(), time(run.began).into());
            fields.insert("updated_at".to_owned(), time(run.ended.unwrap_or(run.began)).into());
        }
        shown
    }

    fn pulls_of(&self, run: &Run) -> Vec<Value> {
        let found = run.pull.and_then(|number| Some((number, self.items.get(&number)?)));
        let Some((number, Some(pull))) = found.map(|(number, item)| (number, &item.pull)) else {
            return Vec::new();
        };
        let side = |name: &str, sha: &str, repository: &str| {
            let short = repository.rsplit('/').next().unwrap_or_default();
            json!({
                "ref": name, "sha": sha,
                "repo": { "id": 1, "name": short, "url": format!("{}/{repository}", self.base_url) },
            })
        };
        let head = run.fork.as_deref().unwrap_or(&self.full_name);
        vec![json!({
            "id": 1000 + number,
            "number": number,
            "url": format!("{}/{}/pulls/{number}", self.base_url, self.full_name),
            "head": side(&pull.head, &run.sha, head),
            "base": side(&pull.base, "", &self.full_name),
        })]
    }

    pub(super) fn show_job(&self, job: &Job) -> Value {
        let run = self.runs.iter().find(|run| run.id == job.run);
        let (branch, sha, attempt, began, ended) = run.map_or_else(
            || (String::new(), String::new(), 1, self.clock, None),
            |run| (run.branch.clone(), run.sha.clone(), run.attempt, run.began, run.ended),
        );
        let ended = time(ended.unwrap_or(Timestamp::UNIX_EPOCH));
        let steps: Vec<Value> = job
            .failed_step
            .iter()
            .map(|name| {
                json!({
                    "number": 1, "name": name, "status": "completed", "conclusion": "failure",
                    "started_at": time(began), "completed_at": ended,
                })
            })
            .collect();
        let page = format!("{}/{}/actions/runs/{}", self.base_url, self.full_name, job.run);
        json!({
            "id": job.id,
            "run_id": job.run,
            "run_attempt": attempt,
            "name": job.name,
            "status": if job.conclusion.is_some() { "completed" } else { "in_progress" },
            "conclusion": job.conclusion.clone().unwrap_or_default(),
            "head_branch": branch,
            "head_sha": sha,
            "html_url": format!("{page}/jobs/{}", job.id),
            "labels": ["ubuntu-latest"],
            "steps": steps,
            "created_at": time(began),
            "started_at": time(began),
            "completed_at": ended,
        })
    }
}

//! What happened on Gitea since a time, from its lists: for events whose webhooks were lost while nobody listened.
//!
//! Each is told as its webhook would have told it. A cursor is a time on the forge's clock; what is listed again is
//! recognised by its id.

use std::collections::{BTreeMap, BTreeSet};

use bailiwick_fleet::ports::{ForgeError, PolledEvent};
use bailiwick_resources::Moment;
use serde::Deserialize;
use serde_json::{Value, json};

use super::client::{Api, TotalCount};
use super::poll::{Found, NO_COMMIT, OVERLAP_MILLIS, Poll};
use super::timeline::{TimelineEntry, label_entry};
use super::wire;

/// How many tips of branches and pull requests are asked for their statuses.
const MAX_TIPS: usize = 30;

/// An issue or pull request of a list.
#[derive(Debug, Deserialize)]
struct Listed {
    number: u64,
    created_at: Moment,
    #[serde(default)]
    pull_request: Option<Value>,
}

/// A review of a pull request.
#[derive(Debug, Deserialize)]
struct Reviewed {
    id: u64,
    state: String,
    #[serde(default)]
    body: String,
    #[serde(default)]
    commit_id: Option<String>,
    #[serde(default)]
    user: Option<wire::User>,
    submitted_at: Moment,
    /// Somebody has declared it void.
    #[serde(default)]
    dismissed: bool,
}

/// A push, as the list of activities has it.
#[derive(Debug, Deserialize)]
struct Feed {
    #[serde(default)]
    id: u64,
    op_type: String,
    #[serde(default)]
    ref_name: String,
    /// JSON in a text.
    #[serde(default)]
    content: String,
    #[serde(default)]
    act_user: Option<wire::User>,
    created: Moment,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct FeedContent {
    #[serde(rename = "CompareURL")]
    compare_url: String,
    head_commit: Option<FeedCommit>,
    len: u64,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct FeedCommit {
    sha1: String,
}

/// The branches that were created, from the oldest entry on. A new branch has an entry without content, and after it, on a
/// busy server seconds later, one for its push, which is compared with the default branch. Every watcher of a repository
/// adds one more of each, and a list has those of one second in any order.
#[derive(Debug, Default)]
struct NewBranches {
    /// The head that each was created with, once it is known.
    heads: BTreeMap<String, Option<String>>,
}

impl NewBranches {
    fn create(&mut self, branch: &str) {
        self.heads.insert(branch.to_owned(), None);
    }

    /// Whether a push is the one that created its branch.
    fn is_first_push(&mut self, branch: &str, head: &str) -> bool {
        let Some(first) = self.heads.get_mut(branch) else { return false };
        let is_first = first.get_or_insert_with(|| head.to_owned()) == head;
        if !is_first {
            self.heads.remove(branch);
        }
        is_first
    }
}

/// The events after a cursor, oldest first, and the next cursor. Without a cursor only that.
pub(super) async fn since(
    api: &Api,
    cursor: Option<&str>,
) -> Result<(Vec<PolledEvent>, Option<String>), ForgeError> {
    let (poll, next) = Poll::begin(api, cursor).await?;
    let Some(poll) = poll else { return Ok((Vec::new(), Some(next))) };
    let mut found = poll.discussions().await?;
    found.extend(poll.pushes().await?);
    found.extend(poll.statuses().await?);
    found.sort_by_key(|event| event.at);
    Ok((found, Some(next)))
}

impl Poll<'_> {
    /// New issues, pull requests and comments, added labels, and new heads of pull requests.
    async fn discussions(&self) -> Result<Found, ForgeError> {
        let since = self.since.to_string();
        let mut items: Vec<Value> = Vec::new();
        let all = |page: &Vec<Value>| -> Option<()> {
            items.extend(page.iter().cloned());
            None
        };
        let query = [("state", "all"), ("since", since.as_str())];
        self.api.find(&["issues"], &query, all).await?;
        let mut found = Found::new();
        for item in items {
            let Ok(listed) = Listed::deserialize(&item) else { continue };
            self.discussion(&listed, &item, &mut found).await?;
        }
        Ok(found)
    }

    async fn discussion(
        &self,
        listed: &Listed,
        item: &Value,
        found: &mut Found,
    ) -> Result<(), ForgeError> {
        let number = listed.number;
        let name = number.to_string();
        let is_pull = listed.pull_request.as_ref().is_some_and(|part| !part.is_null());
        let pull: Option<Value> = match is_pull {
            true => {
                let response = self.api.get(&["pulls", &name], &[]).await?;
                Some(self.api.require_success(response)?.json()?)
            }
            false => None,
        };
        let (event, mut subject) = match &pull {
            Some(pull) => ("pull_request", json!({ "number": number, "pull_request": pull })),
            None => ("issues", json!({ "number": number, "issue": item })),
        };
        let told = |action: &str, more: &Value| {
            let mut payload = subject.clone();
            if let (Some(payload), Some(more)) = (payload.as_object_mut(), more.as_object()) {
                payload.insert("action".to_owned(), action.into());
                payload.extend(more.clone());
            }
            payload
        };
        let head = pull.as_ref().and_then(|pull| pull.pointer("/head/sha")?.as_str());
        if listed.created_at >= self.since {
            let id = format!("{event}/{number}/opened/{}", head.unwrap_or_default());
            let author = item.pointer("/user/login").and_then(Value::as_str);
            let payload = told("opened", &json!({}));
            found.push(self.event(listed.created_at, (id, event), author, payload));
        }
        if let Some(pull) = &pull {
            found.extend(self.reviews(pull, &name).await?);
        }
        let entries = self.timeline(&name).await?;
        for entry in &entries {
            let author = entry.user.as_ref().map(|user| user.login.as_str());
            if let Some(label) = label_entry(entry).filter(|label| label.added) {
                let more = json!({ "label": { "id": label.label_id, "name": label.label },
                    "label_entry": label.id });
                let payload = told("label_updated", &more);
                let id = format!("label/{number}/{}", label.id);
                found.push(self.event(entry.created_at, (id, event), author, payload));
            }
        }
        if let Some(pushed) = entries.iter().rfind(|entry| entry.kind == "pull_push") {
            let id = format!("pull_request/{number}/synchronized/{}", head.unwrap_or_default());
            let author = pushed.user.as_ref().map(|user| user.login.as_str());
            let payload = told("synchronized", &json!({}));
            found.push(self.event(pushed.created_at, (id, event), author, payload));
        }
        if let Some(subject) = subject.as_object_mut() {
            subject.insert("issue".to_owned(), item.clone());
            subject.insert("is_pull".to_owned(), is_pull.into());
        }
        for entry in entries.iter().filter(|entry| entry.kind == "comment") {
            let author = entry.user.as_ref().map(|user| user.login.as_str());
            let mut payload = subject.clone();
            if let Some(payload) = payload.as_object_mut() {
                payload.insert("action".to_owned(), "created".into());
                let user = author.map(|login| json!({ "login": login }));
                let comment = json!({ "id": entry.id, "body": entry.body, "user": user });
                payload.insert("comment".to_owned(), comment);
            }
            let id = format!("comment/{}", entry.id);
            found.push(self.event(entry.created_at, (id, "issue_comment"), author, payload));
        }
        Ok(())
    }

    /// Reviews of a pull request. Gitea lists neither drafts nor requests with one of these states.
    async fn reviews(&self, pull: &Value, name: &str) -> Result<Found, ForgeError> {
        let mut reviews: Vec<Reviewed> = Vec::new();
        let all = |page: &Vec<Value>| -> Option<()> {
            let known = page.iter().filter_map(|one| Reviewed::deserialize(one).ok());
            let counts = |one: &Reviewed| !one.dismissed && one.submitted_at >= self.since;
            reviews.extend(known.filter(counts));
            None
        };
        self.api.find(&["pulls", name, "reviews"], &[], all).await?;
        let mut found = Found::new();
        for review in reviews {
            let event = match review.state.as_str() {
                "APPROVED" => "pull_request_approved",
                "REQUEST_CHANGES" => "pull_request_rejected",
                "COMMENT" => "pull_request_comment",
                _ => continue,
            };
            let mut pull = pull.clone();
            // The commit that was reviewed, as in the webhook of that time.
            if let (Some(head), Some(sha)) = (pull.pointer_mut("/head/sha"), &review.commit_id) {
                *head = json!(sha);
            }
            let author = review.user.as_ref().map(|user| user.login.as_str());
            let payload = json!({ "action": "reviewed", "pull_request": pull,
                "number": pull.get("number"),
                "review": { "type": event, "content": review.body } });
            let id = format!("review/{}", review.id);
            found.push(self.event(review.submitted_at, (id, event), author, payload));
        }
        Ok(found)
    }

    /// What was added to an issue or pull request; edited entries are listed as well and left out.
    async fn timeline(&self, number: &str) -> Result<Vec<TimelineEntry>, ForgeError> {
        let since = self.since.to_string();
        let mut entries: Vec<TimelineEntry> = Vec::new();
        let all = |page: &Vec<Value>| -> Option<()> {
            let known = page.iter().filter_map(|entry| TimelineEntry::deserialize(entry).ok());
            entries.extend(known.filter(|entry| entry.created_at >= self.since));
            None
        };
        let (path, query) = (["issues", number, "timeline"], [("since", since.as_str())]);
        self.api.find_in_pages(&path, &query, TotalCount::OfPage, all).await?;
        entries.sort_by_key(|entry| entry.id);
        entries.dedup_by_key(|entry| entry.id);
        Ok(entries)
    }

    /// Pushes of branches and new tags. Gitea before 1.20 has no such list.
    async fn pushes(&self) -> Result<Found, ForgeError> {
        if self.api.get(&["activities", "feeds"], &[("limit", "1")]).await?.is_missing() {
            return Ok(Found::new());
        }
        // The entry that creates a branch may be older than the one of its push.
        let earliest = Moment::from_millis(self.since.millis().saturating_sub(OVERLAP_MILLIS));
        let mut feeds: Vec<Feed> = Vec::new();
        let newest_first = |page: &Vec<Value>| -> Option<()> {
            feeds.extend(page.iter().filter_map(|feed| Feed::deserialize(feed).ok()));
            feeds.last().is_some_and(|oldest| oldest.created < earliest).then_some(())
        };
        self.api.find(&["activities", "feeds"], &[], newest_first).await?;
        feeds.sort_by_key(|feed| (feed.created, feed.id));
        let mut new_branches = NewBranches::default();
        let mut found = Found::new();
        for feed in &feeds {
            let event = match feed.op_type.as_str() {
                "commit_repo" if feed.content.is_empty() => {
                    new_branches.create(&feed.ref_name);
                    None
                }
                "commit_repo" => {
                    let content = serde_json::from_str(&feed.content).unwrap_or_default();
                    self.push(feed, content, &mut new_branches)
                }
                "push_tag" => self.tag(feed),
                // Other activities are in other lists.
                _ => None,
            };
            found.extend(event.filter(|_| feed.created >= self.since));
        }
        // Each watcher has an entry of the same push.
        let mut known = BTreeSet::new();
        found.retain(|event| known.insert(event.id.clone()));
        Ok(found)
    }

    fn push(
        &self,
        feed: &Feed,
        content: FeedContent,
        new_branches: &mut NewBranches,
    ) -> Option<PolledEvent> {
        let compared =
            content.compare_url.rsplit('/').next().and_then(|both| both.split_once("..."));
        let after = compared.map(|(_, after)| after.to_owned());
        let after = after.or_else(|| content.head_commit.map(|commit| commit.sha1))?;
        let is_new = new_branches.is_first_push(&feed.ref_name, &after);
        let before = compared.filter(|_| !is_new).map_or(NO_COMMIT, |(before, _)| before);
        let reference = match feed.ref_name.starts_with("refs/") {
            true => feed.ref_name.clone(),
            false => format!("refs/heads/{}", feed.ref_name),
        };
        let author = feed.act_user.as_ref().map(|user| user.login.as_str());
        // The files of the commits are not listed, which their number says.
        let payload = json!({ "ref": reference, "before": before, "after": after,
            "commits": [], "total_commits": content.len.max(1) });
        let id = format!("push/{reference}/{before}/{after}");
        Some(self.event(feed.created, (id, "push"), author, payload))
    }

    /// A new tag: the comparison has the id of an annotated tag, and the head is its commit.
    fn tag(&self, feed: &Feed) -> Option<PolledEvent> {
        let content: FeedContent = serde_json::from_str(&feed.content).unwrap_or_default();
        let name = feed.ref_name.strip_prefix("refs/tags/").unwrap_or(&feed.ref_name);
        let sha = content.head_commit?.sha1;
        let author = feed.act_user.as_ref().map(|user| user.login.as_str());
        let payload = json!({ "ref": format!("refs/tags/{name}"), "before": NO_COMMIT,
            "after": sha, "head_commit": { "id": sha }, "commits": [], "total_commits": 0 });
        let id = format!("tag/{name}/{sha}");
        Some(self.event(feed.created, (id, "push"), author, payload))
    }

    /// Statuses that were set on the tips of branches and open pull requests.
    async fn statuses(&self) -> Result<Found, ForgeError> {
        let mut tips: Vec<String> = Vec::new();
        let mut add = |sha: Option<&str>| {
            if let Some(sha) = sha.filter(|sha| !tips.iter().any(|tip| tip == sha)) {
                tips.push(sha.to_owned());
            }
        };
        let pulls = |page: &Vec<Value>| -> Option<()> {
            page.iter().for_each(|pull| add(pull.pointer("/head/sha").and_then(Value::as_str)));
            Some(())
        };
        self.api.find(&["pulls"], &[("state", "open"), ("sort", "recentupdate")], pulls).await?;
        let branches = |page: &Vec<Value>| -> Option<()> {
            page.iter()
                .for_each(|branch| add(branch.pointer("/commit/id").and_then(Value::as_str)));
            Some(())
        };
        self.api.find(&["branches"], &[], branches).await?;
        let mut found = Found::new();
        for sha in tips.iter().take(MAX_TIPS) {
            self.statuses_of(sha, &mut found).await?;
        }
        Ok(found)
    }

    async fn statuses_of(&self, sha: &str, found: &mut Found) -> Result<(), ForgeError> {
        let query = [("sort", "recentupdate"), ("page", "1"), ("limit", "50")];
        let response = self.api.get(&["commits", sha, "statuses"], &query).await?;
        if response.is_missing() {
            return Ok(());
        }
        let statuses: Vec<Value> = self.api.require_success(response)?.json()?;
        for status in statuses {
            let text = |name: &str| status.get(name).and_then(Value::as_str);
            let at = text("created_at").and_then(|at| at.parse::<Moment>().ok());
            let id = status.get("id").and_then(Value::as_u64);
            let (Some(at), Some(id)) = (at.filter(|at| *at >= self.since), id) else { continue };
            let payload = json!({
                "sha": sha, "state": text("status"), "context": text("context"),
                "description": text("description"), "target_url": text("target_url"),
            });
            let author = status.pointer("/creator/login").and_then(Value::as_str);
            found.push(self.event(at, (format!("status/{id}"), "status"), author, payload));
        }
        Ok(())
    }
}

//! What happened on GitHub since a time, from its lists: for events whose webhooks were lost while nobody listened.
//!
//! Each is told as its webhook would have told it. Statuses and checks are in [`super::github_checks`].

use std::collections::BTreeMap;

use bailiwick_fleet::ports::{ForgeError, PolledEvent};
use bailiwick_resources::Moment;
use serde_json::{Value, json};

use super::client::Api;
use super::github_checks;
use super::poll::{Found, NO_COMMIT, Poll};

/// How late an entry can appear in the list of events, which alone has new tags.
const EVENTS_DELAY_MILLIS: u64 = 6 * 3_600_000;

/// The events after a cursor, oldest first, and the next cursor. Without a cursor only that.
pub(super) async fn since(
    api: &Api,
    cursor: Option<&str>,
) -> Result<(Vec<PolledEvent>, Option<String>), ForgeError> {
    let (poll, next) = Poll::begin(api, cursor).await?;
    let Some(poll) = poll else { return Ok((Vec::new(), Some(next))) };
    let mut lists = Lists { poll: &poll, items: BTreeMap::new(), pulls: BTreeMap::new() };
    lists.read_items().await?;
    let pushes = lists.pushes().await?;
    let mut found = lists.discussions(&pushes).await?;
    found.extend(lists.comments().await?);
    found.extend(lists.review_comments().await?);
    found.extend(lists.labels().await?);
    found.extend(lists.tags().await?);
    found.extend(github_checks::since(&poll).await?);
    found.extend(pushes);
    found.sort_by_key(|event| event.at);
    Ok((found, Some(next)))
}

struct Lists<'a> {
    poll: &'a Poll<'a>,
    /// The issues and pull requests that were changed, by their number.
    items: BTreeMap<u64, Value>,
    /// The pull requests that were read; nothing for one that is gone.
    pulls: BTreeMap<u64, Option<Value>>,
}

impl Lists<'_> {
    async fn read_items(&mut self) -> Result<(), ForgeError> {
        let query = [("state", "all"), ("sort", "updated"), ("direction", "asc")];
        for item in self.changed(&["issues"], &query).await? {
            if let Some(number) = number(&item, "number") {
                self.items.insert(number, item);
            }
        }
        Ok(())
    }

    /// All entries of a list that were changed since.
    async fn changed(
        &self,
        path: &[&str],
        query: &[(&str, &str)],
    ) -> Result<Vec<Value>, ForgeError> {
        let since = self.poll.since.to_string();
        let mut query = query.to_vec();
        query.push(("since", &since));
        let mut entries: Vec<Value> = Vec::new();
        let all = |page: &Vec<Value>| -> Option<()> {
            entries.extend(page.iter().cloned());
            None
        };
        self.poll.api.find(path, &query, all).await?;
        Ok(entries)
    }

    /// The entries of a list that has the newest first and cannot be asked for those since a time.
    async fn newest(
        &self,
        path: &[&str],
        since: Moment,
    ) -> Result<Vec<(Moment, Value)>, ForgeError> {
        let mut entries = Vec::new();
        let newest_first = |page: &Vec<Value>| newer(page, "created_at", since, &mut entries);
        self.poll.api.find(path, &[], newest_first).await?;
        Ok(entries)
    }

    async fn pull(&mut self, number: u64) -> Result<Option<Value>, ForgeError> {
        if let Some(known) = self.pulls.get(&number) {
            return Ok(known.clone());
        }
        let api = self.poll.api;
        let response = api.get(&["pulls", &number.to_string()], &[]).await?;
        let found = match response.is_missing() {
            true => None,
            false => Some(api.require_success(response)?.json()?),
        };
        self.pulls.insert(number, found.clone());
        Ok(found)
    }

    /// The issue with this number; nothing if it is gone.
    async fn issue(&mut self, number: u64) -> Result<Option<Value>, ForgeError> {
        if let Some(known) = self.items.get(&number) {
            return Ok(Some(known.clone()));
        }
        let api = self.poll.api;
        let response = api.get(&["issues", &number.to_string()], &[]).await?;
        // GitHub answers 410 for an issue that was deleted.
        if matches!(response.status(), 404 | 410) {
            return Ok(None);
        }
        let issue: Value = api.require_success(response)?.json()?;
        self.items.insert(number, issue.clone());
        Ok(Some(issue))
    }

    /// New issues, pull requests and reviews, and new heads of pull requests from branches of the repository.
    async fn discussions(&mut self, pushes: &[PolledEvent]) -> Result<Found, ForgeError> {
        let items: Vec<(u64, Value)> =
            self.items.iter().map(|(number, item)| (*number, item.clone())).collect();
        let mut found = Found::new();
        for (number, item) in items {
            let created = time(&item, "created_at").filter(|at| *at >= self.poll.since);
            let author = login(&item, "user");
            if !is_pull(&item) {
                if let Some(at) = created {
                    let payload = json!({ "action": "opened", "issue": item });
                    let id = (format!("issues/{number}/opened"), "issues");
                    found.push(self.poll.event(at, id, author, payload));
                }
                continue;
            }
            let Some(pull) = self.pull(number).await? else { continue };
            let head = text(&pull, "/head/sha").unwrap_or_default();
            let mut tell = |at: Moment, action: &str, by: Option<&str>| {
                let payload = json!({ "action": action, "number": number, "pull_request": pull });
                let id = (format!("pull_request/{number}/{action}/{head}"), "pull_request");
                found.push(self.poll.event(at, id, by, payload));
            };
            if let Some(at) = created {
                tell(at, "opened", author);
            } else if let Some(push) = self.push_of(&pull, pushes) {
                tell(push.at, "synchronize", text(&push.payload, "/sender/login"));
            }
            found.extend(self.reviews(number, &pull).await?);
        }
        Ok(found)
    }

    /// The push that brought the head of a pull request. Pushes to forks are in other repositories.
    fn push_of<'p>(&self, pull: &Value, pushes: &'p [PolledEvent]) -> Option<&'p PolledEvent> {
        let ours = text(&self.poll.repository, "/full_name")?;
        let head_repository = text(pull, "/head/repo/full_name")?;
        let reference = format!("refs/heads/{}", text(pull, "/head/ref")?);
        let head = text(pull, "/head/sha")?;
        let is_its = |push: &&PolledEvent| {
            text(&push.payload, "/ref") == Some(&reference)
                && text(&push.payload, "/after") == Some(head)
        };
        pushes.iter().rfind(is_its).filter(|_| head_repository.eq_ignore_ascii_case(ours))
    }

    async fn reviews(&self, number: u64, pull: &Value) -> Result<Found, ForgeError> {
        let mut reviews: Vec<Value> = Vec::new();
        let all = |page: &Vec<Value>| -> Option<()> {
            reviews.extend(page.iter().cloned());
            None
        };
        let path = ["pulls", &number.to_string(), "reviews"];
        self.poll.api.find(&path, &[], all).await?;
        let mut found = Found::new();
        for mut review in reviews {
            // A webhook writes them small. One that was dismissed is void, and a draft was not submitted.
            let state = match text(&review, "/state") {
                Some("APPROVED") => "approved",
                Some("CHANGES_REQUESTED") => "changes_requested",
                Some("COMMENTED") => "commented",
                Some(_) | None => continue,
            };
            let at = time(&review, "submitted_at").filter(|at| *at >= self.poll.since);
            let (Some(at), Some(id)) = (at, self::number(&review, "id")) else { continue };
            let mut pull = pull.clone();
            // The commit that was reviewed, as in the webhook of that time.
            if let (Some(head), Some(sha)) =
                (pull.pointer_mut("/head/sha"), text(&review, "/commit_id"))
            {
                *head = json!(sha);
            }
            if let Some(review) = review.as_object_mut() {
                review.insert("state".to_owned(), state.into());
            }
            let author = login(&review, "user");
            let payload = json!({ "action": "submitted", "pull_request": pull, "review": review });
            let id = (format!("review/{id}"), "pull_request_review");
            found.push(self.poll.event(at, id, author, payload));
        }
        Ok(found)
    }

    /// New comments on issues and pull requests. Older ones that were edited are listed as well, and left out.
    async fn comments(&mut self) -> Result<Found, ForgeError> {
        let mut found = Found::new();
        for comment in self.changed(&["issues", "comments"], &[]).await? {
            let Some((at, id, number)) = self.written(&comment, "issue_url") else { continue };
            let Some(issue) = self.issue(number).await? else { continue };
            let author = login(&comment, "user");
            let payload = json!({ "action": "created", "issue": issue, "comment": comment });
            let id = (format!("comment/{id}"), "issue_comment");
            found.push(self.poll.event(at, id, author, payload));
        }
        Ok(found)
    }

    /// New comments on lines of pull requests.
    async fn review_comments(&mut self) -> Result<Found, ForgeError> {
        let mut found = Found::new();
        for comment in self.changed(&["pulls", "comments"], &[]).await? {
            let written = self.written(&comment, "pull_request_url");
            let Some((at, id, number)) = written else { continue };
            let Some(pull) = self.pull(number).await? else { continue };
            let author = login(&comment, "user");
            let payload = json!({ "action": "created", "pull_request": pull, "comment": comment });
            let id = (format!("review-comment/{id}"), "pull_request_review_comment");
            found.push(self.poll.event(at, id, author, payload));
        }
        Ok(found)
    }

    /// When a comment was written, its id, and the number at the end of what it is about.
    fn written(&self, comment: &Value, about: &str) -> Option<(Moment, u64, u64)> {
        let at = time(comment, "created_at").filter(|at| *at >= self.poll.since)?;
        let number = comment.get(about)?.as_str()?.rsplit('/').next()?.parse().ok()?;
        Some((at, number_of(comment)?, number))
    }

    /// Labels that were added.
    async fn labels(&mut self) -> Result<Found, ForgeError> {
        let mut found = Found::new();
        for (at, entry) in self.newest(&["issues", "events"], self.poll.since).await? {
            let is_addition =
                text(&entry, "/event") == Some("labeled") && text(&entry, "/label/name").is_some();
            let Some(issue) = entry.get("issue").filter(|_| is_addition) else { continue };
            let (Some(id), Some(number)) = (number_of(&entry), number(issue, "number")) else {
                continue;
            };
            let label = entry.get("label");
            let common = json!({ "action": "labeled", "label": label, "label_entry": id });
            let (event, subject) = match is_pull(issue) {
                true => {
                    let Some(pull) = self.pull(number).await? else { continue };
                    ("pull_request", json!({ "number": number, "pull_request": pull }))
                }
                false => ("issues", json!({ "issue": issue })),
            };
            let mut payload = common;
            if let (Some(payload), Some(subject)) = (payload.as_object_mut(), subject.as_object()) {
                payload.extend(subject.clone());
            }
            let id = (format!("label/{number}/{id}"), event);
            found.push(self.poll.event(at, id, login(&entry, "actor"), payload));
        }
        Ok(found)
    }

    /// Pushes of branches. An old GitHub Enterprise Server has no such list.
    async fn pushes(&self) -> Result<Found, ForgeError> {
        let mut entries = Vec::new();
        let newest_first =
            |page: &Vec<Value>| newer(page, "timestamp", self.poll.since, &mut entries);
        self.poll.api.find_by_cursor(&["activity"], &[("direction", "desc")], newest_first).await?;
        let push = |(at, entry): (Moment, Value)| {
            let (reference, after) = (text(&entry, "/ref")?, text(&entry, "/after")?);
            let before = match text(&entry, "/activity_type")? {
                "push" | "force_push" | "pr_merge" | "merge_queue_merge" => {
                    text(&entry, "/before")?
                }
                "branch_creation" => NO_COMMIT,
                // A branch that is gone starts nothing.
                _ => return None,
            };
            // The commits are not listed, so that their files are unknown.
            let payload = json!({ "ref": reference, "before": before, "after": after });
            let id = (format!("push/{}", number_of(&entry)?), "push");
            Some(self.poll.event(at, id, login(&entry, "actor"), payload))
        };
        let mut found: Found = entries.into_iter().filter_map(push).collect();
        found.reverse();
        Ok(found)
    }

    /// New tags. GitHub shows them only among its events, some hours late: what was found before is recognised.
    async fn tags(&self) -> Result<Found, ForgeError> {
        let since = self.poll.since.millis().saturating_sub(EVENTS_DELAY_MILLIS);
        let tag = |(at, entry): (Moment, Value)| {
            let is_tag = text(&entry, "/type") == Some("CreateEvent")
                && text(&entry, "/payload/ref_type") == Some("tag");
            let (name, id) = (text(&entry, "/payload/ref")?, text(&entry, "/id")?);
            let payload = json!({ "ref": name, "ref_type": "tag" });
            let id = (format!("tag/{id}"), "create");
            is_tag.then(|| self.poll.event(at, id, login(&entry, "actor"), payload))
        };
        let events = self.newest(&["events"], Moment::from_millis(since)).await?;
        Ok(events.into_iter().filter_map(tag).collect())
    }
}

/// Keeps the entries of a page since a time, and ends the search where they are older.
pub(super) fn newer(
    page: &[Value],
    field: &str,
    since: Moment,
    entries: &mut Vec<(Moment, Value)>,
) -> Option<()> {
    let mut is_older = false;
    for entry in page {
        match time(entry, field) {
            Some(at) if at >= since => entries.push((at, entry.clone())),
            Some(_) => is_older = true,
            None => {}
        }
    }
    is_older.then_some(())
}

fn is_pull(issue: &Value) -> bool {
    issue.get("pull_request").is_some_and(|part| !part.is_null())
}

pub(super) fn time(of: &Value, name: &str) -> Option<Moment> {
    of.get(name)?.as_str()?.parse().ok()
}

pub(super) fn text<'v>(of: &'v Value, pointer: &str) -> Option<&'v str> {
    of.pointer(pointer)?.as_str()
}

fn number(of: &Value, name: &str) -> Option<u64> {
    of.get(name)?.as_u64()
}

pub(super) fn number_of(of: &Value) -> Option<u64> {
    number(of, "id")
}

pub(super) fn login<'v>(of: &'v Value, name: &str) -> Option<&'v str> {
    of.get(name)?.get("login")?.as_str()
}

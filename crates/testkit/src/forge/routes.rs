//! Requests about one repository.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::answer::Answer;
use super::show::{OUR_LOGIN, label, time};
use super::state::{Comment, Flavour, Item, PullParts, Release, State, Status, Team};

/// A request behind `/repos/{owner}/{repo}`.
pub(super) struct ForgeRequest<'a> {
    pub(super) method: &'a str,
    pub(super) path: Vec<&'a str>,
    pub(super) query: Vec<(String, String)>,
    pub(super) body: Value,
}

impl ForgeRequest<'_> {
    pub(super) fn parameter(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(is, _)| is == name).map(|(_, value)| value.as_str())
    }

    fn text(&self, name: &str) -> String {
        self.body[name].as_str().unwrap_or_default().to_owned()
    }
}

const NOT_FOUND: &str = "The target couldn't be found.";

pub(super) fn answer(state: &mut State, asked: &ForgeRequest<'_>) -> Answer {
    if let Some(answer) = super::memory::answer(state, asked) {
        return answer;
    }
    if let Some(answer) = super::github::answer(state, asked) {
        return answer;
    }
    let read = asked.method == "GET";
    match asked.path.as_slice() {
        [] if read => Answer::json(200, &state.show_repository(&state.full_name)),
        ["issues"] if read => {
            let since = asked.parameter("since").and_then(|text| text.parse().ok());
            let open = asked.parameter("state").filter(|word| *word != "all");
            let later = |item: &Item| {
                since.is_none_or(|since| item.updated >= since)
                    && open.is_none_or(|word| (word == "open") == item.open)
            };
            let creator = asked.parameter("created_by").or(asked.parameter("creator"));
            let by = |item: &Item| creator.is_none_or(|creator| item.by == creator);
            let items = state.items.iter().rev().filter(|(_, item)| later(item) && by(item));
            let shown = items.map(|(number, item)| state.show_issue(*number, item)).collect();
            page(state, asked, shown)
        }
        ["issues"] if asked.method == "POST" => open_issue(state, asked),
        ["issues", "comments"] if read => {
            let since = asked.parameter("since").and_then(|text| text.parse().ok());
            let later = |at: jiff::Timestamp| since.is_none_or(|since| at >= since);
            let time = |comment: &Comment| match state.flavour {
                Flavour::Gitea => comment.created,
                Flavour::Github => comment.edited.unwrap_or(comment.created),
            };
            let ours = state.comments.iter().filter(|comment| later(time(comment)));
            let shown = ours.map(|comment| state.show_comment(comment)).collect();
            page(state, asked, shown)
        }
        ["issues", number, "timeline"] if read => timeline(state, asked, number),
        ["issues", number] if read => issue(state, number),
        ["issues", number, "comments"] => comments(state, asked, number),
        ["labels"] if read => {
            let shown = state.all_labels().iter().map(|name| label(name)).collect();
            page(state, asked, shown)
        }
        ["branches"] if read => branches(state, asked),
        ["branch_protections"] if read => protections(state),
        ["compare", both] if read => compare(state, both),
        ["teams"] if read => match &state.teams {
            // A user has no teams.
            None => Answer::no(405, "repo is not owned by an organization"),
            Some(teams) => {
                let numbered = teams.iter().zip(1..);
                let shown = numbered.map(|(team, id)| state.show_team(team, id)).collect();
                Answer::json(200, &Value::Array(shown))
            }
        },
        ["assignees"] if read => assignees(state),
        ["activities", "feeds"] if read => {
            let newest_first = state.activities.iter().rev();
            let shown = newest_first.flat_map(|one| state.show_activity(one)).collect();
            page(state, asked, shown)
        }
        ["pulls", rest @ ..] => pulls(state, asked, rest),
        ["branches", name @ ..] if read => branch(state, &name.join("/")),
        ["collaborators", name, "permission"] if read => permission(state, name),
        ["collaborators", name] if read => match state.permissions.contains_key(*name) {
            true => Answer::text(204, ""),
            false => Answer::no(404, NOT_FOUND),
        },
        ["tags", name @ ..] if read && state.flavour == Flavour::Gitea => {
            tag(state, &name.join("/"))
        }
        ["git", "ref", "tags", name @ ..] if read && state.flavour == Flavour::Github => {
            tag(state, &name.join("/"))
        }
        ["commits", sha, "statuses"] if read => {
            let ours = state.statuses.iter().rev().filter(|status| status.sha == *sha);
            let shown: Vec<Value> = ours.map(|status| state.show_status(status)).collect();
            let behind_the_end = asked.parameter("page").is_some_and(|page| page != "1")
                && cut(state, asked, shown.clone()).0.is_empty();
            match state.flavour {
                // Gitea before 1.21.
                Flavour::Gitea if behind_the_end => Answer::no(500, ""),
                Flavour::Gitea | Flavour::Github => page(state, asked, shown),
            }
        }
        ["statuses", sha] if asked.method == "POST" => set_status(state, asked, sha),
        ["releases", rest @ ..] => releases(state, asked, rest),
        ["actions", rest @ ..] => super::actions::answer(state, asked, rest),
        _ => Answer::no(404, NOT_FOUND),
    }
}

/// One page of a list, and whether there are more.
pub(super) fn page(state: &State, asked: &ForgeRequest<'_>, all: Vec<Value>) -> Answer {
    let total = all.len().to_string();
    let (shown, next) = cut(state, asked, all);
    let mut answer = Answer::json(200, &Value::Array(shown));
    if state.flavour == Flavour::Gitea {
        answer = answer.with("X-Total-Count", total);
    }
    if next { answer.with("Link", "<https://example.org/next>; rel=\"next\"") } else { answer }
}

pub(super) fn cut(state: &State, asked: &ForgeRequest<'_>, all: Vec<Value>) -> (Vec<Value>, bool) {
    let size = match state.flavour {
        Flavour::Gitea => "limit",
        Flavour::Github => "per_page",
    };
    let number = |name| asked.parameter(name).and_then(|text| text.parse::<usize>().ok());
    // The page size has a maximum.
    let size = number(size).unwrap_or(30).clamp(1, state.page_limit);
    let before = size * (number("page").unwrap_or(1).max(1) - 1);
    let next = all.len() > before + size;
    (all.into_iter().skip(before).take(size).collect(), next)
}

/// The permission of an account; unknown names are not found. The access of a team to the repository counts,
/// whatever its members may write.
fn permission(state: &State, name: &str) -> Answer {
    if state.is_writer_token {
        let why = "Only admins can query all permissions, repo admins can query all repo permissions, collaborators \
                   can query only their own";
        return Answer::no(403, why);
    }
    let own = state.permissions.get(name);
    let teams = state.teams.iter().flatten();
    let of_teams = teams.filter(|team| team.has(name)).map(|team| &team.permission);
    let rank = |word: &&String| {
        ["none", "read", "write", "admin", "owner"].iter().position(|one| one == *word)
    };
    let Some(permission) = own.into_iter().chain(of_teams).max_by_key(rank) else {
        return Answer::no(404, NOT_FOUND);
    };
    let told = json!({ "permission": permission, "role_name": permission, "user": user(name) });
    Answer::json(200, &told)
}

/// The members of a team, which Gitea shows to members and owners of the organization only.
pub(super) fn team_members(
    state: &State,
    asked: &ForgeRequest<'_>,
    id: &str,
    name: Option<&str>,
) -> Answer {
    let place = id.parse::<usize>().ok().and_then(|id| id.checked_sub(1));
    let team = place.and_then(|place| state.teams.as_ref()?.get(place));
    let Some(team) = team.filter(|_| !state.hides_team_members) else {
        return Answer::no(404, NOT_FOUND);
    };
    match name {
        None => member_list(state, asked, team),
        Some(name) if team.has(name) => Answer::json(200, &user(name)),
        Some(_) => Answer::no(404, NOT_FOUND),
    }
}

/// The members of a team of the organization that owns the repository, on GitHub.
pub(super) fn organization_team(
    state: &State,
    asked: &ForgeRequest<'_>,
    organization: &str,
    name: &str,
) -> Answer {
    let is_owner = state.full_name.starts_with(&format!("{organization}/"));
    let team = state.teams.iter().flatten().find(|team| team.name == name);
    match team.filter(|_| is_owner && !state.hides_team_members) {
        Some(team) => member_list(state, asked, team),
        None => Answer::no(404, NOT_FOUND),
    }
}

fn member_list(state: &State, asked: &ForgeRequest<'_>, team: &Team) -> Answer {
    page(state, asked, team.members.iter().map(|member| user(member)).collect())
}

fn user(name: &str) -> Value {
    json!({ "id": 7, "login": name, "full_name": "", "email": format!("{name}@example.org") })
}

fn issue(state: &State, number: &str) -> Answer {
    let found =
        number.parse().ok().and_then(|number: u64| Some((number, state.items.get(&number)?)));
    match found {
        Some((number, item)) => Answer::json(200, &state.show_issue(number, item)),
        None => Answer::no(404, NOT_FOUND),
    }
}

fn open_issue(state: &mut State, asked: &ForgeRequest<'_>) -> Answer {
    if asked.text("title").is_empty() {
        return Answer::no(422, "[Title]: Required");
    }
    // As observed with 1.22 on PostgreSQL: the column is limited.
    if asked.text("title").chars().count() > 255 {
        return Answer::no(500, "");
    }
    let (number, created) = (state.id(), state.clock);
    let item = Item {
        title: asked.text("title"),
        body: asked.text("body"),
        labels: Vec::new(),
        open: true,
        pull: None,
        by: OUR_LOGIN.to_owned(),
        created,
        updated: created,
        locked: false,
        assignee: None,
        milestone: None,
        content_version: 0,
    };
    state.items.insert(number, item.clone());
    Answer::json(201, &state.show_issue(number, &item))
}

fn comments(state: &mut State, asked: &ForgeRequest<'_>, number: &str) -> Answer {
    let number: u64 = number.parse().unwrap_or_default();
    // Gitea checks the content first.
    if asked.method == "POST" && asked.text("body").is_empty() {
        return Answer::no(422, "[Body]: Required");
    }
    if !state.items.contains_key(&number) {
        return Answer::no(404, NOT_FOUND);
    }
    if asked.method == "GET" {
        let since = asked.parameter("since").and_then(|text| text.parse().ok());
        // An edited comment comes again. Times are compared in seconds.
        let changed = |comment: &Comment| comment.edited.unwrap_or(comment.created);
        let is_later = |comment: &&Comment| is_since(changed(comment), since);
        let ours = state.listed_comments(number);
        let shown: Vec<Value> =
            ours.iter().filter(is_later).map(|comment| state.show_comment(comment)).collect();
        return match state.flavour {
            Flavour::Gitea => Answer::json(200, &Value::Array(shown)),
            Flavour::Github => page(state, asked, shown),
        };
    }
    let body = asked.text("body");
    let comment = state.write_comment(number, &body, OUR_LOGIN);
    Answer::json(201, &state.show_comment(&comment))
}

fn is_since(time: jiff::Timestamp, since: Option<jiff::Timestamp>) -> bool {
    since.is_none_or(|since| time.as_second() >= since.as_second())
}

fn timeline(state: &State, asked: &ForgeRequest<'_>, number: &str) -> Answer {
    let number: u64 = number.parse().unwrap_or_default();
    if !state.items.contains_key(&number) {
        return Answer::no(404, NOT_FOUND);
    }
    let mut shown: Vec<Value> = Vec::new();
    for comment in state.comments.iter().filter(|comment| comment.number == number) {
        let updated = comment.edited.unwrap_or(comment.created);
        shown.push(json!({
            "id": comment.id, "type": "comment", "body": comment.body, "label": null,
            "user": user(&comment.by),
            "created_at": time(comment.created), "updated_at": time(updated),
        }));
    }
    let changes = state.label_changes.iter().filter(|change| change.number == number);
    shown.extend(changes.map(|change| state.show_label_change(change)));
    let changes = state.state_changes.iter().filter(|change| change.number == number);
    shown.extend(changes.map(|change| {
        json!({
            "id": change.id, "type": if change.is_open { "reopen" } else { "close" }, "body": "",
            "label": null, "user": user(OUR_LOGIN),
            "created_at": time(change.at), "updated_at": time(change.at),
        })
    }));
    let since = asked.parameter("since").and_then(|text| text.parse().ok());
    shown.retain(|entry| {
        let updated = entry["updated_at"].as_str().and_then(|text| text.parse().ok());
        updated.is_none_or(|updated| is_since(updated, since))
    });
    shown.sort_by_key(|entry| entry["id"].as_u64());
    // Gitea counts the entries of the page alone, and answers `null` behind the last page.
    let (shown, _) = cut(state, asked, shown);
    let count = shown.len().to_string();
    let shown = if shown.is_empty() { Value::Null } else { Value::Array(shown) };
    Answer::json(200, &shown).with("X-Total-Count", count)
}

fn branches(state: &State, asked: &ForgeRequest<'_>) -> Answer {
    let listed = ["for-each-ref", "--format=%(refname:strip=2) %(objectname)", "refs/heads"];
    let listed = super::git::git(&state.bare, &listed).unwrap_or_default();
    let shown = listed.lines().filter_map(|line| {
        let (name, commit) = line.split_once(' ')?;
        let commit = match state.flavour {
            Flavour::Gitea => json!({ "id": commit, "message": "", "url": "" }),
            Flavour::Github => json!({ "sha": commit, "url": "" }),
        };
        Some(json!({ "name": name, "commit": commit, "protected": false }))
    });
    page(state, asked, shown.collect())
}

fn compare(state: &State, both: &str) -> Answer {
    let Some((base, head)) = both.split_once("...") else { return Answer::no(404, NOT_FOUND) };
    let range = format!("{base}..{head}");
    match super::git::git(&state.bare, &["rev-list", "--count", &range]) {
        Ok(count) => {
            let count: u64 = count.trim().parse().unwrap_or_default();
            Answer::json(200, &json!({ "total_commits": count }))
        }
        Err(_) => Answer::no(404, NOT_FOUND),
    }
}

/// Everybody who may write anything, also members of a team that may write a wiki only; since 1.27 also those of a team
/// that may read issues or pull requests.
fn assignees(state: &State) -> Answer {
    let may_write = |word: &str| !matches!(word, "none" | "read");
    let mut names: BTreeSet<&str> = BTreeSet::new();
    for (name, permission) in &state.permissions {
        if may_write(permission) {
            names.insert(name);
        }
    }
    for team in state.teams.iter().flatten() {
        let is_assignable = |(unit, access): &(String, String)| match unit.as_str() {
            "repo.issues" | "repo.pulls" => access != "none",
            _ => may_write(access),
        };
        if team.units.iter().any(is_assignable) || may_write(&team.permission) {
            names.extend(team.members.iter().map(String::as_str));
        }
    }
    let shown = names.into_iter().map(user).collect();
    Answer::json(200, &Value::Array(shown))
}

fn pulls(state: &mut State, asked: &ForgeRequest<'_>, rest: &[&str]) -> Answer {
    let Some(number) = rest.first() else { return all_pulls(state, asked) };
    let found: Option<u64> = number.parse().ok();
    let found = found.and_then(|number| Some((number, state.items.get(&number)?.clone())));
    let Some((number, item, pull)) =
        found.and_then(|(number, item)| item.pull.clone().map(|pull| (number, item, pull)))
    else {
        return Answer::no(404, NOT_FOUND);
    };
    match (asked.method, rest.get(1..).unwrap_or_default()) {
        ("GET", []) => Answer::json(200, &state.show_pull(number, &item, &pull)),
        ("GET", ["files"]) => {
            let one = |name: String| {
                json!({
                    "filename": name, "status": "changed",
                    "additions": 1, "deletions": 1, "changes": 2,
                })
            };
            let files = state.files_of(&pull).into_iter().map(one).collect();
            page(state, asked, files)
        }
        ("GET", ["reviews"]) => {
            let ours = state.reviews.iter().filter(|review| review.number == number);
            let shown = ours.map(|review| state.show_review(review)).collect();
            page(state, asked, shown)
        }
        ("POST", ["reviews"]) => {
            let events: &[&str] = match state.flavour {
                Flavour::Gitea => &["APPROVED", "PENDING", "COMMENT", "REQUEST_CHANGES"],
                Flavour::Github => &["APPROVE", "COMMENT", "REQUEST_CHANGES"],
            };
            let event = asked.body.get("event").and_then(Value::as_str);
            if event.is_some_and(|event| !events.contains(&event)) {
                return Answer::no(422, "review event is not known");
            }
            let review = state.write_review(number, OUR_LOGIN, asked.body.clone());
            Answer::json(200, &state.show_review(&review))
        }
        _ => Answer::no(404, NOT_FOUND),
    }
}

fn all_pulls(state: &mut State, asked: &ForgeRequest<'_>) -> Answer {
    if asked.method == "POST" {
        return open_pull(state, asked);
    }
    let base = match state.flavour {
        Flavour::Gitea => asked.parameter("base_branch"),
        Flavour::Github => asked.parameter("base"),
    };
    let head = asked.parameter("head").and_then(|head| head.split_once(':')).map(|(_, head)| head);
    let open = asked.parameter("state").unwrap_or("open");
    let mut shown = Vec::new();
    for (number, item) in state.items.iter().rev() {
        let Some(pull) = &item.pull else { continue };
        let fits = base.is_none_or(|base| base == pull.base)
            && head.is_none_or(|head| head == pull.head)
            && (open == "all" || (open == "open") == item.open);
        if fits {
            shown.push(state.show_pull(*number, item, pull));
        }
    }
    page(state, asked, shown)
}

fn open_pull(state: &mut State, asked: &ForgeRequest<'_>) -> Answer {
    let (head, base) = (asked.text("head"), asked.text("base"));
    if state.reference(&format!("refs/heads/{head}")).is_none() {
        return Answer::no(404, NOT_FOUND);
    }
    let same = |item: &Item| {
        item.open && item.pull.as_ref().is_some_and(|pull| pull.head == head && pull.base == base)
    };
    if state.items.values().any(same) {
        return Answer::no(409, "pull request already exists for these targets");
    }
    let (number, created) = (state.id(), state.clock);
    let item = Item {
        title: asked.text("title"),
        body: asked.text("body"),
        labels: Vec::new(),
        open: true,
        pull: Some(PullParts { head, base, fork: None, sha: None }),
        by: OUR_LOGIN.to_owned(),
        created,
        updated: created,
        locked: false,
        assignee: None,
        milestone: None,
        content_version: 0,
    };
    state.items.insert(number, item.clone());
    let pull = item.pull.clone().expect("a pull request");
    Answer::json(201, &state.show_pull(number, &item, &pull))
}

fn branch(state: &State, name: &str) -> Answer {
    let Some(commit) = state.reference(&format!("refs/heads/{name}")) else {
        return Answer::no(404, &format!("branch does not exist [name: {name}]"));
    };
    let protected = state.protected.iter().any(|one| one == name);
    let shown = match state.flavour {
        // Gitea reports it for the account of the token.
        Flavour::Gitea => json!({
            "name": name, "commit": { "id": commit, "message": "", "url": "" },
            "protected": protected, "user_can_push": !protected,
        }),
        Flavour::Github => json!({
            "name": name, "commit": { "sha": commit, "url": "" }, "protected": protected,
        }),
    };
    Answer::json(200, &shown)
}

/// The rules that protect branches. Gitea shows them to administrators of the repository only.
fn protections(state: &State) -> Answer {
    if state.flavour == Flavour::Github {
        return Answer::no(404, NOT_FOUND);
    }
    if !state.shows_protections {
        let why = "user should be an owner or a collaborator with admin write of a repository";
        return Answer::no(403, why);
    }
    let rule = |name: &String| {
        json!({
            "rule_name": name, "enable_push": false, "enable_push_whitelist": false,
            "push_whitelist_usernames": [], "push_whitelist_teams": [],
        })
    };
    Answer::json(200, &Value::Array(state.protected.iter().map(rule).collect()))
}

fn tag(state: &State, name: &str) -> Answer {
    let Some(commit) = state.reference(&format!("refs/tags/{name}^{{commit}}")) else {
        return Answer::no(404, NOT_FOUND);
    };
    Answer::json(
        200,
        &match state.flavour {
            Flavour::Gitea => json!({
                "name": name, "id": commit, "message": "", "commit": { "sha": commit, "url": "" },
            }),
            Flavour::Github => json!({
                "ref": format!("refs/tags/{name}"), "object": { "sha": commit, "type": "commit" },
            }),
        },
    )
}

fn set_status(state: &mut State, asked: &ForgeRequest<'_>, sha: &str) -> Answer {
    let known = ["pending", "success", "error", "failure", "warning", "skipped"];
    if !known.contains(&asked.text("state").as_str()) {
        return Answer::no(400, "the state is not known");
    }
    if state.reference(&format!("{sha}^{{commit}}")).is_none() {
        return Answer::no(404, "object does not exist");
    }
    let status = Status { id: state.id(), sha: sha.to_owned(), sent: asked.body.clone() };
    state.statuses.push(status.clone());
    Answer::json(201, &state.show_status(&status))
}

fn releases(state: &mut State, asked: &ForgeRequest<'_>, rest: &[&str]) -> Answer {
    match (asked.method, rest) {
        ("GET", []) => {
            let shown = state.releases.iter().rev().map(|one| state.show_release(one)).collect();
            page(state, asked, shown)
        }
        ("POST", []) => {
            let tag = asked.text("tag_name");
            if tag.is_empty() {
                return Answer::no(422, "[TagName]: Required");
            }
            if state.releases.iter().any(|release| release.tag == tag) {
                return Answer::no(409, "Release is already exist");
            }
            let (name, body) = (asked.text("name"), asked.text("body"));
            let release = Release { id: state.id(), tag, name, body };
            state.releases.push(release.clone());
            Answer::json(201, &state.show_release(&release))
        }
        ("PATCH", [id]) => {
            let found = state.releases.iter_mut().find(|release| release.id.to_string() == **id);
            let Some(release) = found else { return Answer::no(404, NOT_FOUND) };
            release.name = asked.text("name");
            release.body = asked.text("body");
            let release = release.clone();
            Answer::json(200, &state.show_release(&release))
        }
        _ => Answer::no(404, NOT_FOUND),
    }
}

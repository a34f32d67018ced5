//! Requests for the state of agents in issues: text, labels, assignee and lock.

use serde_json::{Value, json};

use super::answer::Answer;
use super::routes::ForgeRequest;
use super::show::{OUR_LOGIN, label, time, user};
use super::state::{Flavour, State, StateChange};

const NOT_FOUND: &str = "The target couldn't be found.";

/// The answer to one of these requests; nothing if it is none of them.
pub(super) fn answer(state: &mut State, asked: &ForgeRequest<'_>) -> Option<Answer> {
    let (number, rest) = match asked.path.as_slice() {
        ["labels"] if asked.method == "POST" => return Some(create_label(state, asked)),
        ["issues", number, rest @ ..] => (number.parse::<u64>().ok()?, rest),
        _ => return None,
    };
    let change = match (asked.method, rest) {
        ("PATCH", []) => edit,
        ("GET", ["labels"]) => list_labels,
        ("POST", ["labels"]) => add_labels,
        ("DELETE", ["labels", _]) => remove_label,
        ("PUT" | "DELETE", ["lock"]) => lock,
        ("GET", ["events"]) if state.flavour == Flavour::Github => events,
        _ => return None,
    };
    if !state.items.contains_key(&number) {
        return Some(Answer::no(404, NOT_FOUND));
    }
    Some(change(state, asked, number))
}

fn edit(state: &mut State, asked: &ForgeRequest<'_>, number: u64) -> Answer {
    let has_versions = state.has_versions();
    let known: Vec<String> = state.permissions.keys().cloned().collect();
    let updated = state.tick();
    let Some(item) = state.items.get_mut(&number) else { return Answer::no(404, NOT_FOUND) };
    // An older server accepts a version and ignores it.
    let version = asked.body["content_version"].as_u64().filter(|_| has_versions);
    if version.is_some_and(|version| version != item.content_version) {
        return Answer::no(409, "the content has been changed by someone else");
    }
    if let Some(names) = asked.body["assignees"].as_array() {
        let name = names.first().and_then(Value::as_str);
        if name.is_some_and(|name| !known.iter().any(|known| known == name)) {
            return Answer::no(422, "user does not exist");
        }
        item.assignee = name.map(str::to_owned);
    }
    if let Some(body) = asked.body["body"].as_str() {
        body.clone_into(&mut item.body);
        item.content_version += 1;
    }
    match &asked.body["milestone"] {
        Value::Null => {}
        // Gitea's word for none.
        number => item.milestone = number.as_u64().filter(|number| *number > 0),
    }
    let before = item.open;
    if let Some(word) = asked.body["state"].as_str() {
        item.open = word == "open";
    }
    item.updated = updated;
    let item = item.clone();
    if item.open != before {
        let (id, at) = (state.id(), state.clock);
        state.state_changes.push(StateChange { id, number, at, is_open: item.open });
    }
    let status = if state.flavour == Flavour::Gitea { 201 } else { 200 };
    Answer::json(status, &state.show_issue(number, &item))
}

fn list_labels(state: &mut State, _: &ForgeRequest<'_>, number: u64) -> Answer {
    let names = state.items.get(&number).map(|item| item.labels.clone()).unwrap_or_default();
    Answer::json(200, &Value::Array(names.iter().map(|name| label(name)).collect()))
}

fn add_labels(state: &mut State, asked: &ForgeRequest<'_>, number: u64) -> Answer {
    let mut names = Vec::new();
    for wanted in asked.body["labels"].as_array().into_iter().flatten() {
        let name = match (state.flavour, wanted.as_str(), wanted.as_u64()) {
            (Flavour::Github, Some(name), _) => Some(name.to_owned()),
            (Flavour::Gitea, _, Some(id)) => {
                let known = state.all_labels();
                known.into_iter().find(|name| label(name)["id"].as_u64() == Some(id))
            }
            // Gitea 1.22 accepts only IDs.
            (Flavour::Gitea | Flavour::Github, _, _) => {
                return Answer::no(422, "labels are given by their ids");
            }
        };
        match name {
            Some(name) => names.push(name),
            None => return Answer::no(404, NOT_FOUND),
        }
    }
    let before = state.items.get(&number).map(|item| item.labels.clone()).unwrap_or_default();
    for new in names.iter().filter(|name| !before.contains(name)) {
        state.change_label(number, new, OUR_LOGIN, true);
    }
    list_labels(state, asked, number)
}

/// Gitea needs the label's ID and accepts one that the issue does not have; GitHub needs its name, and does not.
fn remove_label(state: &mut State, asked: &ForgeRequest<'_>, number: u64) -> Answer {
    let wanted = asked.path.last().copied().unwrap_or_default();
    let is_wanted = |name: &String| match state.flavour {
        Flavour::Gitea => wanted.parse().is_ok_and(|wanted: u64| label(name)["id"] == wanted),
        Flavour::Github => name == wanted,
    };
    let known = state.all_labels().into_iter().find(is_wanted);
    let current = state.items.get(&number).map(|item| item.labels.clone()).unwrap_or_default();
    let held = known.clone().filter(|name| current.contains(name));
    match (state.flavour, known, held) {
        (flavour, _, Some(name)) => {
            state.change_label(number, &name, OUR_LOGIN, false);
            match flavour {
                Flavour::Gitea => Answer::text(204, ""),
                Flavour::Github => list_labels(state, asked, number),
            }
        }
        (Flavour::Gitea, Some(_), None) => Answer::text(204, ""),
        (Flavour::Gitea, None, None) => Answer::no(422, "label does not exist"),
        (Flavour::Github, _, None) => Answer::no(404, "Label does not exist"),
    }
}

fn create_label(state: &mut State, asked: &ForgeRequest<'_>) -> Answer {
    let Some(name) = asked.body["name"].as_str() else {
        return Answer::no(422, "[Name]: Required");
    };
    // A second label with the same name is not an error.
    state.created_labels.push(name.to_owned());
    Answer::json(201, &label(name))
}

fn lock(state: &mut State, asked: &ForgeRequest<'_>, number: u64) -> Answer {
    if !state.has_locks() {
        return Answer::no(404, NOT_FOUND);
    }
    if let Some(item) = state.items.get_mut(&number) {
        item.locked = asked.method == "PUT";
    }
    Answer::text(204, "")
}

/// The events of an issue on GitHub.
fn events(state: &mut State, asked: &ForgeRequest<'_>, number: u64) -> Answer {
    let changes = state.label_changes.iter().filter(|change| change.number == number);
    let shown = changes.map(|change| {
        json!({
            "id": change.id,
            "event": if change.added { "labeled" } else { "unlabeled" },
            "actor": user(&change.by),
            "label": label(&change.label),
            "created_at": time(change.at),
        })
    });
    let mut shown: Vec<Value> = shown.collect();
    let changes = state.state_changes.iter().filter(|change| change.number == number);
    shown.extend(changes.map(|change| {
        json!({
            "id": change.id,
            "event": if change.is_open { "reopened" } else { "closed" },
            "actor": user(OUR_LOGIN),
            "created_at": time(change.at),
        })
    }));
    // An entry whose label was deleted.
    shown.push(json!({
        "id": 0, "event": "labeled", "actor": null, "label": { "name": null, "color": null },
        "created_at": time(state.clock),
    }));
    shown.sort_by_key(|event| event["id"].as_u64());
    super::routes::page(state, asked, shown)
}

//! Handles one request to a stand-in: faults, authentication, contract.

use std::io::BufReader;
use std::net::TcpStream;
use std::path::Path;
use std::sync::Mutex;

use base64::Engine as _;
use serde_json::Value;

use crate::scripted_model::http::{Incoming, receive};

use super::answer::Answer;
use super::routes::ForgeRequest;
use super::show::{OUR_LOGIN, user};
use super::state::{Fault, Flavour, Seen, State};
use super::{contract, git, lock, routes};

pub(super) fn converse(
    stream: &TcpStream,
    shared: &Mutex<State>,
    root: &Path,
) -> std::io::Result<()> {
    let Some(incoming) = receive(&mut BufReader::new(stream))? else { return Ok(()) };
    let body = serde_json::from_slice(&incoming.body).unwrap_or(Value::Null);
    let request = format!("{} {}", incoming.method, incoming.path);
    let (place, fault) = {
        let mut state = lock(shared);
        let (method, path) = (incoming.method.clone(), incoming.path.clone());
        let headers = incoming.headers.clone();
        state.seen.push(Seen { method, path, headers, body: body.clone(), status: 0 });
        (state.seen.len() - 1, state.fault(&request))
    };
    let mut silent = false;
    let answer = match fault {
        Some(Fault::DropBeforeApplying) => return Ok(()),
        Some(Fault::Status(status, message)) => Answer::no(status, &message),
        Some(Fault::Later(status, seconds)) => {
            Answer::no(status, "slowly").with("Retry-After", seconds.to_string())
        }
        Some(Fault::Redirect(place)) => Answer::text(302, "").with("Location", place),
        Some(Fault::DropAfterApplying) => {
            silent = true;
            respond(shared, root, &incoming, body)
        }
        Some(Fault::Slow(time)) => {
            let answer = respond(shared, root, &incoming, body);
            std::thread::sleep(time);
            answer
        }
        Some(Fault::MoveBranch { branch, to }) => {
            let bare = lock(shared).bare.clone();
            let name = format!("refs/heads/{branch}");
            git::git(&bare, &["update-ref", &name, &to]).expect("the branch moves");
            respond(shared, root, &incoming, body)
        }
        Some(Fault::Label { number, label }) => {
            lock(shared).change_label(number, &label, "person", true);
            respond(shared, root, &incoming, body)
        }
        None => respond(shared, root, &incoming, body),
    };
    if silent {
        return Ok(());
    }
    let answer = match lock(shared).flavour {
        Flavour::Github => if_changed(&incoming, answer),
        Flavour::Gitea => answer,
    };
    let answer = match lock(shared).oauth_scopes.clone() {
        Some(scopes) => answer.with("X-OAuth-Scopes", scopes),
        None => answer,
    };
    let date = {
        let mut state = lock(shared);
        state.seen[place].status = answer.status;
        jiff::fmt::rfc2822::to_string(&state.now().to_zoned(jiff::tz::TimeZone::UTC))
    };
    let date = date.expect("a date").replace("+0000", "GMT");
    answer.with("Date", date).send(stream, incoming.method == "HEAD")
}

/// GitHub names the content of an answer, and does not send it again to one who names it.
fn if_changed(incoming: &Incoming, answer: Answer) -> Answer {
    if incoming.method != "GET" || answer.status != 200 {
        return answer;
    }
    let mut hasher = std::hash::DefaultHasher::new();
    std::hash::Hash::hash(&(&answer.body, &answer.headers), &mut hasher);
    let name = format!("W/\"{:016x}\"", std::hash::Hasher::finish(&hasher));
    let known = incoming.headers.iter().find(|(header, _)| header == "if-none-match");
    match known.is_some_and(|(_, known)| *known == name) {
        true => Answer::text(304, ""),
        false => answer.with("ETag", name),
    }
}

fn respond(shared: &Mutex<State>, root: &Path, incoming: &Incoming, body: Value) -> Answer {
    let (path, query) = incoming.path.split_once('?').unwrap_or((&incoming.path, ""));
    if path.contains(".git/") {
        let token = lock(shared).token.clone();
        if !knows_token(incoming, &token) {
            return Answer::no(401, "Unauthorized").with("WWW-Authenticate", "Basic realm=\"git\"");
        }
        let is_push = path.ends_with("/git-receive-pack") || query == "service=git-receive-pack";
        let needed = if is_push { "write:repository" } else { "read:repository" };
        if lock(shared).missing_scopes.iter().any(|scope| scope == needed) {
            return Answer::no(403, "Forbidden");
        }
        // Without the lock: a push may take its time.
        return git::serve(root, path, query, incoming);
    }
    let mut state = lock(shared);
    if let Some(id) = path.strip_prefix("/kept-logs/") {
        if incoming.headers.iter().any(|(name, _)| name == "authorization") {
            state.breaches.push("the token went to where logs are kept".to_owned());
        }
        let job = state.jobs.iter().find(|job| job.id.to_string() == id);
        return job.map_or_else(|| Answer::text(404, ""), |job| Answer::text(200, &job.log));
    }
    let (prefix, scheme) = match state.flavour {
        Flavour::Gitea => ("/api/v1", "token"),
        Flavour::Github => ("", "Bearer"),
    };
    let wanted = format!("{scheme} {}", state.token);
    let who = incoming.headers.iter().find(|(name, _)| name == "authorization");
    if who.map(|(_, value)| value) != Some(&wanted) {
        return Answer::no(401, "token is required");
    }
    if let Some(scope) = missing_scope(&state, &incoming.method, path, prefix) {
        let why = format!("token does not have at least one of required scope(s): [{scope}]");
        return Answer::no(403, &why);
    }
    if incoming.method == "GET" && path == format!("{prefix}/user") {
        return Answer::json(200, &user(OUR_LOGIN));
    }
    if incoming.method == "GET" && path == format!("{prefix}/version") {
        return Answer::json(200, &serde_json::json!({ "version": state.version }));
    }
    let query = query.split('&').filter_map(|pair| pair.split_once('='));
    let query: Vec<(String, String)> =
        query.map(|(name, value)| (decode(name), decode(value))).collect();
    let outside = ForgeRequest {
        method: &incoming.method,
        path: Vec::new(),
        query: query.clone(),
        body: Value::Null,
    };
    let teams = path.strip_prefix(&format!("{prefix}/")).filter(|_| incoming.method == "GET");
    match (teams.map(|rest| rest.split('/').collect::<Vec<_>>()).as_deref(), state.flavour) {
        (Some(["teams", id, "members"]), _) => {
            return routes::team_members(&state, &outside, id, None);
        }
        (Some(["teams", id, "members", name]), _) => {
            return routes::team_members(&state, &outside, id, Some(&decode(name)));
        }
        (Some(["orgs", organization, "teams", team, "members"]), Flavour::Github) => {
            return routes::organization_team(&state, &outside, organization, team);
        }
        (Some(_) | None, _) => {}
    }
    let begin = format!("{prefix}/repos/{}", state.full_name);
    let rest = path.strip_prefix(&begin);
    let Some(rest) = rest.filter(|rest| rest.is_empty() || rest.starts_with('/')) else {
        return Answer::no(404, "The target couldn't be found.");
    };
    let decoded: Vec<String> =
        rest.split('/').filter(|part| !part.is_empty()).map(decode).collect();
    let asked = ForgeRequest {
        method: &incoming.method,
        path: decoded.iter().map(String::as_str).collect(),
        query,
        body,
    };
    let known = contract::find(asked.method, &asked.path);
    let answer = routes::answer(&mut state, &asked);
    if state.flavour == Flavour::Gitea {
        let breaches = breaches(known, &asked, &answer);
        state.breaches.extend(breaches);
    }
    answer
}

/// The scope that the token lacks for a request, as Gitea checks it before anything else.
fn missing_scope(state: &State, method: &str, path: &str, prefix: &str) -> Option<String> {
    let rest = path.strip_prefix(prefix)?;
    let kind = match rest.split('/').collect::<Vec<_>>().as_slice() {
        ["", "user", ..] => "user",
        ["", "version", ..] => "misc",
        ["", "teams" | "orgs", ..] => "organization",
        ["", "repos", _, _, "issues" | "labels" | "milestones", ..] => "issue",
        _ => "repository",
    };
    let level = if method == "GET" { "read" } else { "write" };
    let scope = format!("{level}:{kind}");
    state.missing_scopes.contains(&scope).then_some(scope)
}

/// The violations of Gitea's contract.
fn breaches(
    known: Option<contract::Known>,
    asked: &ForgeRequest<'_>,
    answer: &Answer,
) -> Vec<String> {
    let what = format!("{} /{}", asked.method, asked.path.join("/"));
    let Some(known) = known else { return vec![format!("{what} is not in the contract")] };
    let mut found = Vec::new();
    for (name, _) in &asked.query {
        if !known.query.contains(name) {
            found.push(format!("{what} has no {name} in its query"));
        }
    }
    match &known.body {
        Some(shape) => found.extend(contract::faults(shape, &asked.body)),
        None if asked.body.is_null() || asked.body == serde_json::json!({}) => {}
        None => found.push(format!("{what} takes no body")),
    }
    if answer.status < 400 {
        if answer.status != known.status {
            found.push(format!("{what} is answered with {}", answer.status));
        }
        if let Some(shape) = &known.answer {
            let value = serde_json::from_slice(&answer.body).unwrap_or(Value::Null);
            found.extend(contract::faults(shape, &value));
        }
    }
    found
}

/// Whether git has shown the token, as a password.
fn knows_token(incoming: &Incoming, token: &str) -> bool {
    let who = incoming.headers.iter().find(|(name, _)| name == "authorization");
    let basic = who.and_then(|(_, value)| value.strip_prefix("Basic "));
    let both = basic.and_then(|text| base64::engine::general_purpose::STANDARD.decode(text).ok());
    let both = both.and_then(|both| String::from_utf8(both).ok()).unwrap_or_default();
    both.split_once(':').is_some_and(|(_, password)| password == token)
}

fn decode(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let hex = |byte: Option<u8>| char::from(byte.unwrap_or(b'0')).to_digit(16).unwrap_or(0);
        match byte {
            b'%' => {
                let value = hex(rest.next()) * 16 + hex(rest.next());
                bytes.push(u8::try_from(value).unwrap_or(b'?'));
            }
            b'+' => bytes.push(b' '),
            other => bytes.push(other),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

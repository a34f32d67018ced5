//! Runs of workflows, their jobs and logs, and deployments that wait.

use serde_json::{Value, json};

use super::answer::Answer;
use super::routes::{ForgeRequest, cut};
use super::state::{Flavour, State};

pub(super) fn answer(state: &mut State, asked: &ForgeRequest<'_>, rest: &[&str]) -> Answer {
    let github = state.flavour == Flavour::Github;
    match (asked.method, rest) {
        ("GET", ["runs"]) => {
            let shown = state.runs.iter().rev().map(|run| state.show_run(run)).collect::<Vec<_>>();
            listed(state, asked, "workflow_runs", shown)
        }
        ("GET", ["runs", id]) => match state.runs.iter().find(|run| run.id.to_string() == **id) {
            Some(run) => Answer::json(200, &state.show_run(run)),
            None => missing(),
        },
        ("GET", ["runs", id, "jobs"]) => {
            let ours = state.jobs.iter().filter(|job| job.run.to_string() == **id);
            let shown = ours.map(|job| state.show_job(job)).collect::<Vec<_>>();
            listed(state, asked, "jobs", shown)
        }
        ("POST", ["runs", id, "rerun"]) => again(state, id, None),
        ("POST", ["runs", id, "jobs", job, "rerun"]) if !github => again(state, id, Some(job)),
        ("POST", ["jobs", job, "rerun"]) if github => {
            let run = state.jobs.iter().find(|one| one.id.to_string() == **job);
            let run = run.map(|job| job.run.to_string());
            run.map_or_else(missing, |run| again(state, &run, Some(job)))
        }
        ("GET", ["jobs", id]) => match state.jobs.iter().find(|job| job.id.to_string() == **id) {
            Some(job) => Answer::json(200, &state.show_job(job)),
            None => missing(),
        },
        ("GET", ["jobs", id, "logs"]) => {
            let job = state.jobs.iter().find(|job| job.id.to_string() == **id);
            match job {
                // Stored elsewhere, where the token must not be sent.
                Some(_) if github => Answer::text(302, "")
                    .with("Location", format!("{}/kept-logs/{id}", state.base_url)),
                Some(job) => Answer::text(200, &job.log),
                None => missing(),
            }
        }
        ("GET", ["runs", id, "pending_deployments"]) if github => waiting(state, id),
        ("POST", ["runs", id, "pending_deployments"]) if github => approve(state, asked, id),
        ("GET", ["runs", id, "approvals"]) if github => approvals(state, id),
        _ => missing(),
    }
}

fn missing() -> Answer {
    Answer::no(404, "Not Found")
}

fn listed(state: &State, asked: &ForgeRequest<'_>, name: &str, all: Vec<Value>) -> Answer {
    let total = all.len();
    let (shown, _) = cut(state, asked, all);
    Answer::json(200, &json!({ "total_count": total, name: shown }))
}

fn again(state: &mut State, id: &str, job: Option<&str>) -> Answer {
    let github = state.flavour == Flavour::Github;
    let began = state.tick();
    let Some(run) = state.runs.iter_mut().find(|run| run.id.to_string() == id) else {
        return missing();
    };
    if run.ended.is_none() {
        return Answer::no(409, "the run has not ended");
    }
    run.attempt += 1;
    run.ended = None;
    run.conclusion = None;
    run.began = began;
    let (run, run_id) = (run.clone(), run.id);
    for one in state.jobs.iter_mut().filter(|one| one.run == run_id) {
        if job.is_none_or(|job| one.id.to_string() == job) {
            one.conclusion = None;
        }
    }
    if github {
        return Answer::json(201, &json!({}));
    }
    let shown = job.and_then(|job| state.jobs.iter().find(|one| one.id.to_string() == job));
    let shown = shown.map_or_else(|| state.show_run(&run), |job| state.show_job(job));
    Answer::json(201, &shown)
}

fn waiting(state: &State, id: &str) -> Answer {
    let Some(run) = state.runs.iter().find(|run| run.id.to_string() == id) else {
        return missing();
    };
    let one = |(place, name): (usize, &String)| json!({ "environment": { "id": 100 + place, "name": name }, "current_user_can_approve": true });
    Answer::json(200, &run.waits_for.iter().enumerate().map(one).collect())
}

fn approve(state: &mut State, asked: &ForgeRequest<'_>, id: &str) -> Answer {
    let Some(run) = state.runs.iter_mut().find(|run| run.id.to_string() == id) else {
        return missing();
    };
    let wanted: Vec<u64> = asked.body["environment_ids"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_u64)
        .collect();
    let names: Vec<String> = run
        .waits_for
        .iter()
        .enumerate()
        .filter(|(place, _)| wanted.contains(&(100 + *place as u64)))
        .map(|(_, name)| name.clone())
        .collect();
    if names.len() != wanted.len() || asked.body["state"] != "approved" {
        return Answer::no(422, "no such environment waits");
    }
    let comment = asked.body["comment"].as_str().unwrap_or_default().to_owned();
    run.waits_for.retain(|name| !names.contains(name));
    run.approvals.extend(names.into_iter().map(|name| (name, comment.clone())));
    Answer::json(200, &json!([]))
}

fn approvals(state: &State, id: &str) -> Answer {
    let Some(run) = state.runs.iter().find(|run| run.id.to_string() == id) else {
        return missing();
    };
    let one = |(name, comment): &(String, String)| {
        json!({
            "state": "approved", "comment": comment,
            "environments": [{ "id": 100, "name": name }],
        })
    };
    Answer::json(200, &run.approvals.iter().map(one).collect())
}

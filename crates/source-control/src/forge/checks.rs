//! Polling CI runs that ended since the last poll, in case a webhook was lost.
//!
//! A cursor is the time up to which ended runs were reported, with the reported runs of that second, or a time alone.
//! The first poll only returns a cursor: runs that ended before are not reported.

use std::collections::BTreeSet;
use std::fmt;

use bailiwick_fleet::ports::{CheckRun, ForgeError};
use bailiwick_resources::Moment;
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::{Value, json};

use super::client::{Api, Paged};
use super::poll;

/// Runs that started longer than this before the cursor are not searched.
const MAX_RUN_AGE: SignedDuration = SignedDuration::from_hours(72);

/// The forge whose listing is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Listing {
    Gitea,
    Github,
}

#[derive(Debug, Deserialize)]
struct Runs {
    #[serde(default)]
    workflow_runs: Option<Vec<Value>>,
}

#[derive(Debug, Deserialize)]
struct Jobs {
    #[serde(default)]
    jobs: Option<Vec<Value>>,
}

impl Paged for Runs {
    fn len(&self) -> usize {
        self.workflow_runs.as_ref().map_or(0, Vec::len)
    }
}

impl Paged for Jobs {
    fn len(&self) -> usize {
        self.jobs.as_ref().map_or(0, Vec::len)
    }
}

/// Up to where ended runs were reported.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Cursor {
    until: Timestamp,
    /// Reported runs that ended in that second, with their attempts.
    reported: BTreeSet<String>,
}

impl fmt::Display for Cursor {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reported: Vec<&str> = self.reported.iter().map(String::as_str).collect();
        write!(out, "{}|{}", self.until, reported.join(","))
    }
}

impl Cursor {
    fn parse(text: &str) -> Result<Self, ForgeError> {
        let wrong = || ForgeError::Refused(format!("`{text}` is not a valid cursor"));
        let (until, reported) = text.split_once('|').unwrap_or((text, ""));
        let reported =
            reported.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect();
        Ok(Self { until: until.parse().map_err(|_| wrong())?, reported })
    }
}

/// A run that has ended.
struct EndedRun {
    name: String,
    at: Timestamp,
    run: Value,
}

pub(super) async fn since(
    api: &Api,
    listing: Listing,
    cursor: Option<&str>,
) -> Result<(Vec<CheckRun>, Option<String>), ForgeError> {
    let Some(cursor) = cursor else {
        let now = forge_time(api).await?;
        let mut cursor = Cursor { until: now, reported: BTreeSet::new() };
        // Runs that ended in this second, before the poll.
        let ended = ended_since(api, listing, &cursor).await?;
        cursor.reported =
            ended.into_iter().filter(|run| run.at == now).map(|run| run.name).collect();
        return Ok((Vec::new(), Some(cursor.to_string())));
    };
    let mut cursor = Cursor::parse(cursor)?;
    let mut ended = ended_since(api, listing, &cursor).await?;
    ended.sort_by(|one, other| (one.at, &one.name).cmp(&(other.at, &other.name)));
    let mut checks = Vec::new();
    for run in ended {
        let mut jobs = jobs_of(api, &run.run).await?;
        let run_ended = moment(run.at);
        jobs.iter_mut().for_each(|job| job.ended_at = job.ended_at.or(run_ended));
        checks.extend(jobs);
        if run.at > cursor.until {
            cursor = Cursor { until: run.at, reported: BTreeSet::new() };
        }
        cursor.reported.insert(run.name);
    }
    Ok((checks, Some(cursor.to_string())))
}

/// The jobs of every run of a commit, ended or not.
pub(super) async fn at(api: &Api, sha: &str) -> Result<Vec<CheckRun>, ForgeError> {
    let mut runs: Vec<Value> = Vec::new();
    let all = |page: &Runs| -> Option<()> {
        for run in page.workflow_runs.iter().flatten() {
            let known = runs.iter().any(|other| number(other, "id") == number(run, "id"));
            // A forge that does not know this filter returns all runs.
            let is_wanted = run.get("head_sha").and_then(Value::as_str) == Some(sha);
            if is_wanted && !known {
                runs.push(run.clone());
            }
        }
        None
    };
    api.find(&["actions", "runs"], &[("head_sha", sha)], all).await?;
    let mut checks = Vec::new();
    for run in &runs {
        checks.extend(jobs_of(api, run).await?);
    }
    Ok(checks)
}

async fn ended_since(
    api: &Api,
    listing: Listing,
    cursor: &Cursor,
) -> Result<Vec<EndedRun>, ForgeError> {
    let oldest_start = cursor.until.saturating_sub(MAX_RUN_AGE).unwrap_or(Timestamp::MIN);
    let mut ended: Vec<EndedRun> = Vec::new();
    let look = |page: &Runs| -> Option<()> {
        let runs = page.workflow_runs.as_deref().unwrap_or_default();
        for run in runs {
            let Some(at) = ended_at(listing, run) else { continue };
            let name = format!("{}.{}", number(run, "id"), number(run, "run_attempt"));
            let reported =
                at < cursor.until || (at == cursor.until && cursor.reported.contains(&name));
            if !reported && !ended.iter().any(|other| other.name == name) {
                ended.push(EndedRun { name, at, run: run.clone() });
            }
        }
        // The newest runs come first.
        let started = runs.last().and_then(|run| time(run, start_field(listing)))?;
        (started < oldest_start).then_some(())
    };
    api.find(&["actions", "runs"], &[], look).await?;
    Ok(ended)
}

async fn jobs_of(api: &Api, run: &Value) -> Result<Vec<CheckRun>, ForgeError> {
    let id = number(run, "id").to_string();
    let mut checks: Vec<CheckRun> = Vec::new();
    let all = |page: &Jobs| -> Option<()> {
        for job in page.jobs.iter().flatten() {
            let check = check_of(run, job);
            if !checks.iter().any(|other| other.id == check.id) {
                checks.push(check);
            }
        }
        None
    };
    api.find(&["actions", "runs", &id, "jobs"], &[], all).await?;
    Ok(checks)
}

fn check_of(run: &Value, job: &Value) -> CheckRun {
    let text = |of: &Value, name: &str| {
        of.get(name).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned)
    };
    // GitHub sends the workflow's name; Gitea its file and the reference.
    let file = || {
        let path = text(run, "path")?;
        let file = path.split('@').next().unwrap_or_default();
        Some(file.rsplit('/').next().unwrap_or_default().to_owned())
    };
    let workflow = text(run, "name").or_else(file);
    let mut payload = json!({
        "action": "completed",
        "workflow_job": job,
        // A job alone does not name forks and pull requests.
        "workflow_run": run,
    });
    for (name, value) in [("repository", run.get("repository")), ("sender", run.get("actor"))] {
        if let (Some(value), Some(payload)) = (value, payload.as_object_mut()) {
            payload.insert(name.to_owned(), value.clone());
        }
    }
    CheckRun {
        id: number(job, "id").to_string(),
        name: text(job, "name").unwrap_or_default(),
        workflow,
        sha: text(job, "head_sha").or_else(|| text(run, "head_sha")).unwrap_or_default(),
        branch: text(job, "head_branch").or_else(|| text(run, "head_branch")),
        conclusion: text(job, "conclusion"),
        // Gitea writes the beginning of time for a job that has no end.
        ended_at: time(job, "completed_at").and_then(moment).filter(|at| at.millis() > 0),
        payload,
    }
}

/// When a run ended, if it did.
fn ended_at(listing: Listing, run: &Value) -> Option<Timestamp> {
    if run.get("status").and_then(Value::as_str) != Some("completed") {
        return None;
    }
    match listing {
        Listing::Gitea => time(run, "completed_at"),
        Listing::Github => time(run, "updated_at"),
    }
}

fn start_field(listing: Listing) -> &'static str {
    match listing {
        Listing::Gitea => "started_at",
        Listing::Github => "created_at",
    }
}

fn time(of: &Value, name: &str) -> Option<Timestamp> {
    of.get(name)?.as_str()?.parse().ok()
}

fn moment(time: Timestamp) -> Option<Moment> {
    u64::try_from(time.as_millisecond()).ok().map(Moment::from_millis)
}

fn number(of: &Value, name: &str) -> u64 {
    of.get(name).and_then(Value::as_u64).unwrap_or_default()
}

/// The time on the forge's clock: its times are compared only with each other.
async fn forge_time(api: &Api) -> Result<Timestamp, ForgeError> {
    let response = api.get(&[], &[]).await?;
    poll::forge_time(&api.require_success(response)?)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::Cursor;

    #[test]
    fn only_a_time_is_a_valid_cursor() {
        let time = "2026-11-17T20:00:00Z";
        let expected = Cursor { until: time.parse().unwrap(), reported: BTreeSet::new() };
        assert_eq!(Cursor::parse(time), Ok(expected.clone()));
        assert_eq!(Cursor::parse(&expected.to_string()), Ok(expected));
        assert!(Cursor::parse("yesterday").is_err());
    }
}

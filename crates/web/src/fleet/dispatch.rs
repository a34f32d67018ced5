//! What people can do with a run of the control plane, and why something is not possible now.

use axum::extract::Request;
use axum::response::Response;
use bailiwick_fleet::ports::{RunAnswer, RunVerb, RunVerbRequest};
use bailiwick_resources::{
    AgentDispatchAttempt, AgentDispatchRun, AgentDispatchRunStatus, AnyObject, Kind,
};
use bailiwick_server::{ApiError, ObjectList, Session};
use serde::Deserialize;

use super::{MAX_LINE, MAX_NAME, may_operate, object_path, word};
use crate::change::{bad_request, change_and_show};
use crate::clock::now;
use crate::site::Site;
use crate::text::{Time, encoded, line};

/// Attempts that the page of a run shows.
const MAX_ATTEMPTS: usize = 50;

/// A page and its name.
type Link = (String, String);

/// What the page of a run has beside its conditions.
pub(crate) struct DispatchPanel {
    pub(crate) generation: u64,
    pub(crate) can_act: bool,
    pub(crate) verbs: Vec<VerbView>,
    /// The page with the transcript of its agent.
    pub(crate) agent: Option<Link>,
    /// The newest first.
    pub(crate) attempts: Vec<AttemptLine>,
    /// The list with all attempts; none if every attempt of the run is shown.
    pub(crate) more_attempts: Option<String>,
    /// The sub-agents of all attempts.
    pub(crate) subagents: Vec<SubagentLine>,
}

/// A sub-agent and the page of its run.
pub(crate) struct SubagentLine {
    pub(crate) subagent: String,
    pub(crate) href: String,
    pub(crate) run: String,
}

/// An attempt of a run.
pub(crate) struct AttemptLine {
    pub(crate) number: u32,
    pub(crate) reason: String,
    pub(crate) ending: String,
    pub(crate) started: Option<Time>,
    /// The page with the transcript of its agent; none if no agent has started.
    pub(crate) agent: Option<Link>,
}

impl AttemptLine {
    fn new(base: &str, object: &AnyObject) -> Option<Self> {
        let attempt = object.typed::<AgentDispatchAttempt>().ok()?;
        let (spec, status) = (attempt.spec, attempt.status);
        // Attempts that continue a session have the same agent.
        let from = status.queue_entered_at.or(status.started_at);
        let from = from.map(|at| format!("?at={}", at.millis())).unwrap_or_default();
        let agent = status.ledger_run_id.as_deref().map(|agent| agent_link(base, agent));
        Some(Self {
            number: spec.number,
            reason: word(&spec.attempt_reason).replace('-', " "),
            ending: line(status.exit_reason.as_deref().unwrap_or_default(), MAX_LINE),
            started: status.started_at.map(|at| Time::new(at, now())),
            agent: agent.map(|(href, name)| (href + &from, name)),
        })
    }
}

/// The page with the transcript of an agent.
fn agent_link(base: &str, agent: &str) -> Link {
    (format!("{base}/local/{}", encoded(agent)), line(agent, MAX_NAME))
}

/// An action on a run.
pub(crate) struct VerbView {
    pub(crate) verb: &'static str,
    pub(crate) label: &'static str,
    pub(crate) hint: &'static str,
    /// The field of its text and its label.
    pub(crate) field: &'static str,
    pub(crate) text_label: &'static str,
    pub(crate) needs_text: bool,
    /// Why it is not possible now; empty if it is.
    pub(crate) obstacle: &'static str,
}

fn obstacle(verb: RunVerb, status: &AgentDispatchRunStatus) -> &'static str {
    let (has_ended, has_attempt) = (status.phase.is_final(), !status.attempts.is_empty());
    match verb {
        RunVerb::Cancel if has_ended => "it has ended",
        RunVerb::Retry | RunVerb::Resume | RunVerb::Continue if !has_ended => {
            "it has not ended; cancel it first"
        }
        RunVerb::Retry | RunVerb::Resume | RunVerb::Continue | RunVerb::RefreshContext
            if !has_attempt =>
        {
            "it has no attempt"
        }
        RunVerb::Cancel
        | RunVerb::Retry
        | RunVerb::Resume
        | RunVerb::Continue
        | RunVerb::Fork
        | RunVerb::RefreshContext => "",
    }
}

fn view(verb: RunVerb, status: &AgentDispatchRunStatus) -> VerbView {
    let (label, hint) = match verb {
        RunVerb::Cancel => ("Cancel", "The run and its sub-agents end."),
        RunVerb::Retry => ("Retry", "A new attempt starts with the same context."),
        RunVerb::Resume => ("Resume", "The session continues where it was interrupted."),
        RunVerb::Continue => ("Continue", "The session continues with your message."),
        RunVerb::Fork => ("Fork", "A new run starts from the same commit."),
        RunVerb::RefreshContext => {
            ("Gather context again", "The next attempt gets the context of now.")
        }
    };
    let (field, text_label, needs_text) = match verb {
        RunVerb::Continue => ("message", "Message for the agent", true),
        RunVerb::Fork => ("message", "Task of the new run; empty for the same one", false),
        RunVerb::RefreshContext => ("reason", "Reason for the audit log", true),
        RunVerb::Cancel | RunVerb::Retry | RunVerb::Resume => {
            ("reason", "Reason for the audit log", false)
        }
    };
    let (verb, obstacle) = (verb.as_str(), obstacle(verb, status));
    VerbView { verb, label, hint, field, text_label, needs_text, obstacle }
}

impl DispatchPanel {
    /// None if it is another object.
    pub(crate) async fn new(
        site: &Site,
        session: &Session,
        object: &AnyObject,
    ) -> Result<Option<Self>, ApiError> {
        let Ok(run) = object.typed::<AgentDispatchRun>() else { return Ok(None) };
        let (base, status) = (&site.base, run.status);
        let (namespace, name) = (&object.metadata.namespace, &object.metadata.name);
        let kind = Kind::AgentDispatchAttempt.plural();
        let path = format!(
            "/api/v1alpha1/namespaces/{}/{kind}?fieldSelector=run%3D{}&order=newest&limit={MAX_ATTEMPTS}",
            encoded(namespace),
            encoded(name)
        );
        let attempts: ObjectList = site.api.get(session, &path).await?;
        let all = format!("{base}/fleet/kinds/{kind}?namespace={}", encoded(namespace));
        let can_act = may_operate(session);
        let verbs = RunVerb::ALL.into_iter().map(|verb| view(verb, &status));
        let subagents = status.child_subagent_runs.iter().map(|child| SubagentLine {
            subagent: line(&child.subagent, MAX_NAME),
            href: object_path(base, namespace, Kind::AgentDispatchRun, &child.run),
            run: line(&child.run, MAX_NAME),
        });
        Ok(Some(Self {
            generation: object.metadata.generation,
            can_act,
            verbs: if can_act { verbs.collect() } else { Vec::new() },
            agent: status.ledger_run_id.as_deref().map(|agent| agent_link(base, agent)),
            attempts: attempts
                .items
                .iter()
                .filter_map(|object| AttemptLine::new(base, object))
                .collect(),
            more_attempts: attempts.metadata.next.map(|_| all),
            subagents: subagents.collect(),
        }))
    }
}

/// A run of the control plane that an agent works for.
pub(crate) struct AgentRun {
    namespace: String,
    name: String,
    generation: Option<u64>,
    /// Why it cannot continue with a message; empty if it can.
    pub(crate) obstacle: &'static str,
}

impl AgentRun {
    /// Its page and its name.
    pub(crate) fn link(&self, base: &str) -> (String, String) {
        let href = object_path(base, &self.namespace, Kind::AgentDispatchRun, &self.name);
        (href, line(&self.name, MAX_NAME))
    }

    /// Continues the conversation of its agent with a message.
    pub(crate) async fn continue_with(
        &self,
        site: &Site,
        session: &Session,
        message: String,
    ) -> Result<(), ApiError> {
        let action = RunVerb::Continue.as_str().to_owned();
        let (reason, generation) = (String::new(), self.generation);
        let form = DispatchForm { action, reason, message, generation };
        perform(site, session, &self.namespace, &self.name, form).await.map(drop)
    }
}

/// The run of the control plane that an agent works for.
pub(crate) async fn run_of_agent(
    site: &Site,
    session: &Session,
    agent: &str,
) -> Result<Option<AgentRun>, ApiError> {
    let selector = encoded(&format!("agent={agent}"));
    // A run names the agent of its newest attempt. Sub-agents have no attempts.
    for kind in [Kind::AgentDispatchRun, Kind::AgentDispatchAttempt] {
        let path = format!("/api/v1alpha1/{}?fieldSelector={selector}&limit=1", kind.plural());
        let found = site.api.get::<ObjectList>(session, &path).await?.items;
        let Some(object) = found.first() else { continue };
        let (namespace, name) = (object.metadata.namespace.clone(), &object.metadata.name);
        let run = match object.typed::<AgentDispatchAttempt>() {
            Ok(attempt) => AgentRun {
                namespace,
                name: attempt.spec.agent_dispatch_run,
                generation: None,
                obstacle: "another attempt has replaced this one",
            },
            Err(_) => AgentRun {
                namespace,
                name: name.clone(),
                generation: Some(object.metadata.generation),
                obstacle: object
                    .typed::<AgentDispatchRun>()
                    .map_or("its run cannot be read", |run| {
                        obstacle(RunVerb::Continue, &run.status)
                    }),
            },
        };
        return Ok(Some(run));
    }
    Ok(None)
}

#[derive(Deserialize)]
struct DispatchForm {
    action: String,
    #[serde(default)]
    reason: String,
    #[serde(default)]
    message: String,
    generation: Option<u64>,
}

pub(crate) async fn act(
    site: &Site,
    (namespace, name): (&str, &str),
    request: Request,
) -> Response {
    let perform =
        async |session: &Session, form| perform(site, session, namespace, name, form).await;
    change_and_show(site, request, perform).await
}

async fn perform(
    site: &Site,
    session: &Session,
    namespace: &str,
    name: &str,
    form: DispatchForm,
) -> Result<String, ApiError> {
    let verb = RunVerb::ALL.into_iter().find(|verb| verb.as_str() == form.action);
    let verb = verb.ok_or_else(|| bad_request("there is no such action"))?;
    let DispatchForm { reason, message, generation, .. } = form;
    let request = RunVerbRequest { reason, message, expected_generation: generation };
    let (run, place) = (encoded(name), encoded(namespace));
    let path = format!("/api/v1alpha1/runs/{run}/{}?namespace={place}", verb.as_str());
    let answer: RunAnswer = site.api.post(session, &path, &request).await?;
    Ok(object_path(&site.base, namespace, Kind::AgentDispatchRun, &answer.run))
}

#[cfg(test)]
mod tests {
    use bailiwick_resources::RunPhase;

    use super::*;

    #[test]
    fn only_actions_that_the_phase_permits_are_offered() {
        let possible = |phase, attempts: &[&str]| {
            let attempts = attempts.iter().map(|name| (*name).to_owned()).collect();
            let status = AgentDispatchRunStatus { phase, attempts, ..Default::default() };
            let all = RunVerb::ALL.into_iter().filter(|verb| obstacle(*verb, &status).is_empty());
            all.map(RunVerb::as_str).collect::<Vec<_>>()
        };
        assert_eq!(possible(RunPhase::Running, &["a"]), ["cancel", "fork", "refresh-context"]);
        assert_eq!(possible(RunPhase::Queued, &[]), ["cancel", "fork"]);
        let ended = ["retry", "resume", "continue", "fork", "refresh-context"];
        assert_eq!(possible(RunPhase::Failed, &["a"]), ended);
        assert_eq!(possible(RunPhase::Cancelled, &[]), ["fork"]);
    }
}

//! A rule: its lifecycle, its executions, and what can be tried with a stored delivery.

use axum::extract::Request;
use axum::response::Response;
use bailiwick_fleet::ports::{
    ExecutionAnswer, FireRequest, LifecycleAnswer, LifecycleRequest, LifecycleVerb, ReplayRequest,
    RuleSample,
};
use bailiwick_fleet::triggers::lifecycle;
use bailiwick_resources::{
    AgentTriggerExecution, AgentTriggerRule, AnyObject, EventSource, Kind, LifecycleState,
    WebhookDelivery,
};
use bailiwick_server::{ApiError, ObjectList, Session};
use serde::Deserialize;

use super::{MAX_LINE, MAX_NAME, may_operate, object_path, word};
use crate::change::{bad_request, change_and_show};
use crate::clock::now;
use crate::site::Site;
use crate::text::{Time, encoded, line};

/// Executions and deliveries that are shown.
const RECENT: usize = 25;

/// What the page of a rule has beside its conditions.
pub(crate) struct RulePanel {
    pub(crate) lifecycle: String,
    pub(crate) generation: u64,
    /// The changes that the lifecycle permits now; none for those who may not make them.
    pub(crate) verbs: Vec<(&'static str, &'static str)>,
    pub(crate) can_act: bool,
    /// Whether people may fire it.
    pub(crate) is_manual: bool,
    pub(crate) counts: Vec<(&'static str, u64)>,
    pub(crate) last: Option<Time>,
    pub(crate) next: String,
    pub(crate) executions: Vec<ExecutionLine>,
    pub(crate) deliveries: Vec<(String, String)>,
}

pub(crate) struct ExecutionLine {
    pub(crate) href: String,
    pub(crate) name: String,
    pub(crate) decision: String,
    pub(crate) reason: String,
    pub(crate) run: Option<(String, String)>,
    pub(crate) at: Time,
}

/// The changes of the lifecycle that a state permits.
fn verbs(state: LifecycleState) -> Vec<(&'static str, &'static str)> {
    let all = LifecycleVerb::ALL.into_iter().filter(|verb| lifecycle::apply(state, *verb).is_ok());
    let label = |verb: LifecycleVerb| match verb {
        LifecycleVerb::Enable => "Enable",
        LifecycleVerb::Pause => "Pause",
        LifecycleVerb::Resume => "Resume",
        LifecycleVerb::Disable => "Disable",
        LifecycleVerb::Archive => "Archive for ever",
    };
    all.map(|verb| (verb.as_str(), label(verb))).collect()
}

impl RulePanel {
    pub(crate) async fn new(
        site: &Site,
        session: &Session,
        object: &AnyObject,
    ) -> Result<Option<Self>, ApiError> {
        let Ok(rule) = object.typed::<AgentTriggerRule>() else { return Ok(None) };
        let (namespace, name) = (&object.metadata.namespace, &object.metadata.name);
        let executions = format!(
            "/api/v1alpha1/namespaces/{}/agenttriggerexecutions?fieldSelector=rule%3D{}&order=newest&limit={RECENT}",
            encoded(namespace),
            encoded(name)
        );
        let executions: ObjectList = site.api.get(session, &executions).await?;
        let deliveries = format!("/api/v1alpha1/webhookdeliveries?order=newest&limit={RECENT}");
        let deliveries: ObjectList = site.api.get(session, &deliveries).await?;
        let can_act = may_operate(session);
        let (spec, status) = (rule.spec, rule.status);
        let counts = status.execution_summary;
        Ok(Some(Self {
            lifecycle: word(&spec.lifecycle_state),
            generation: object.metadata.generation,
            verbs: if can_act { verbs(spec.lifecycle_state) } else { Vec::new() },
            can_act,
            is_manual: spec.sources.contains(&EventSource::Manual),
            counts: vec![
                ("created", counts.created),
                ("coalesced", counts.coalesced),
                ("rejected", counts.rejected),
                ("deduplicated", counts.deduplicated),
                ("waiting", counts.waiting),
                ("materialized", counts.materialized),
            ],
            last: status.last_triggered_at.map(|at| Time::new(at, now())),
            next: status.next_fire_at.map(|at| at.to_string()).unwrap_or_default(),
            executions: executions
                .items
                .iter()
                .filter_map(|object| ExecutionLine::new(&site.base, object))
                .collect(),
            deliveries: deliveries.items.iter().filter_map(delivery_line).collect(),
        }))
    }
}

fn delivery_line(object: &AnyObject) -> Option<(String, String)> {
    let spec = object.typed::<WebhookDelivery>().ok()?.spec;
    let text = format!("{} {} {}", spec.received_at, spec.repository, spec.event);
    Some((object.metadata.name.clone(), line(&text, MAX_NAME)))
}

impl ExecutionLine {
    fn new(base: &str, object: &AnyObject) -> Option<Self> {
        let spec = object.typed::<AgentTriggerExecution>().ok()?.spec;
        let namespace = &object.metadata.namespace;
        let name = &object.metadata.name;
        let run = |run: String| {
            let href = object_path(base, namespace, Kind::AgentDispatchRun, &run);
            (href, line(&run, MAX_NAME))
        };
        Some(Self {
            href: object_path(base, namespace, Kind::AgentTriggerExecution, name),
            name: line(name, MAX_NAME),
            decision: word(&spec.decision),
            reason: line(&spec.reason, MAX_LINE),
            run: spec.dispatch_run.map(run),
            at: Time::new(spec.at, now()),
        })
    }
}

/// What a person does with a rule.
#[derive(Deserialize)]
struct RuleForm {
    action: String,
    #[serde(default)]
    reason: String,
    #[serde(default)]
    delivery: String,
    #[serde(default)]
    repository: String,
    generation: Option<u64>,
}

/// The API of a rule.
pub(super) fn rule_path(namespace: &str, name: &str, action: &str) -> String {
    let (namespace, name) = (encoded(namespace), encoded(name));
    format!("/api/v1alpha1/rules/{name}/{action}?namespace={namespace}")
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

/// Performs the action, and says which page shows what came of it.
async fn perform(
    site: &Site,
    session: &Session,
    namespace: &str,
    name: &str,
    form: RuleForm,
) -> Result<String, ApiError> {
    let path = |action: &str| rule_path(namespace, name, action);
    let RuleForm { action, reason, delivery, repository, generation } = form;
    if let Some(verb) = LifecycleVerb::ALL.into_iter().find(|verb| verb.as_str() == action) {
        let request = LifecycleRequest { action: verb, reason, expected_generation: generation };
        let _: LifecycleAnswer = site.api.post(session, &path("lifecycle"), &request).await?;
        return Ok(object_path(&site.base, namespace, Kind::AgentTriggerRule, name));
    }
    let answer: ExecutionAnswer = match action.as_str() {
        "replay" => {
            let request = ReplayRequest { delivery, reason };
            site.api.post(session, &path("replay-delivery"), &request).await?
        }
        "materialize" => {
            let delivery = Some(delivery);
            let request = RuleSample { delivery, reason, ..RuleSample::default() };
            site.api.post(session, &path("materialize"), &request).await?
        }
        "fire" => {
            let request = FireRequest { repository, reason, ..FireRequest::default() };
            site.api.post(session, &path("fire"), &request).await?
        }
        _ => return Err(bad_request("there is no such action")),
    };
    Ok(object_path(&site.base, namespace, Kind::AgentTriggerExecution, &answer.execution))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn archived_rule_cannot_be_changed() {
        assert_eq!(verbs(LifecycleState::Archived), Vec::new());
        let names = |state| verbs(state).into_iter().map(|(verb, _)| verb).collect::<Vec<_>>();
        assert_eq!(names(LifecycleState::Active), ["pause", "disable", "archive"]);
        assert_eq!(names(LifecycleState::Paused), ["resume", "disable", "archive"]);
        assert_eq!(names(LifecycleState::Draft), ["enable", "disable", "archive"]);
        assert_eq!(names(LifecycleState::Disabled), ["enable", "archive"]);
    }
}

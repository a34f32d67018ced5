//! The test of a rule with a stored delivery. Nothing is changed.

use askama::Template;
use axum::extract::Request;
use axum::response::Response;
use bailiwick_fleet::ports::{RuleSample, RuleTrial};
use bailiwick_resources::Kind;
use bailiwick_server::{ApiError, Session};
use hyper::StatusCode;
use serde::Deserialize;

use super::rule::rule_path;
use super::{MAX_LINE, MAX_NAME, layout, object_path, word};
use crate::change::change;
use crate::layout::{Layout, html};
use crate::site::Site;
use crate::text::{MAX_SHOWN, line, shortened};

#[derive(Template)]
#[template(path = "fleet/trial.html")]
struct TrialPage {
    layout: Layout,
    rule: String,
    rule_href: String,
    delivery: String,
    delivery_href: String,
    is_match: bool,
    decision: String,
    reason: String,
    trust: String,
    distrust: String,
    lifecycle: String,
    matchers: Vec<MatcherLine>,
    faults: Vec<String>,
    facts: Vec<(&'static str, String)>,
    actions: Vec<String>,
    prompt: String,
    prompt_left_out: usize,
    review: Option<(String, Vec<String>)>,
}

struct MatcherLine {
    field: String,
    is_match: bool,
    why: String,
}

#[derive(Deserialize)]
struct TrialForm {
    delivery: String,
}

pub(crate) async fn test(
    site: &Site,
    (namespace, name): (&str, &str),
    request: Request,
) -> Response {
    let (session, form) = match change::<TrialForm>(site, request).await {
        Ok(found) => found,
        Err(response) => return response,
    };
    match trial_page(site, &session, namespace, name, form.delivery).await {
        Ok(page) => html(StatusCode::OK, &page),
        Err(error) => site.error(Some(&session), &error),
    }
}

async fn trial_page(
    site: &Site,
    session: &Session,
    namespace: &str,
    name: &str,
    delivery: String,
) -> Result<TrialPage, ApiError> {
    let sample = RuleSample { delivery: Some(delivery.clone()), ..RuleSample::default() };
    let path = rule_path(namespace, name, "dry-run");
    let trial: RuleTrial = site.api.post(session, &path, &sample).await?;
    let layout = layout(site, session, format!("Test of {}", line(name, MAX_NAME))).await?;
    let (prompt, prompt_left_out) =
        shortened(trial.rendered_prompt.as_deref().unwrap_or_default(), MAX_SHOWN);
    let matcher = |one: &bailiwick_fleet::ports::MatcherResult| MatcherLine {
        field: line(&one.field, MAX_NAME),
        is_match: one.holds,
        why: line(&one.why, MAX_LINE),
    };
    let faults = trial.matcher_faults.iter().chain(&trial.prompt_fault).chain(&trial.dedupe_fault);
    let facts = [
        ("Deduplication key", &trial.dedupe_key),
        ("Duplicate of", &trial.duplicate_of),
        ("Concurrency group", &trial.concurrency_group),
    ];
    let fact = |(label, value): (&'static str, &Option<String>)| {
        Some((label, line(value.as_deref()?, MAX_LINE)))
    };
    let review = trial.permission_review.as_ref().map(|review| {
        let reasons = review.reasons.iter();
        let reasons = reasons.map(|one| line(&format!("{}: {}", one.code, one.message), MAX_LINE));
        (word(&review.decision), reasons.collect())
    });
    Ok(TrialPage {
        rule: line(name, MAX_NAME),
        rule_href: object_path(&site.base, namespace, Kind::AgentTriggerRule, name),
        delivery_href: object_path(&site.base, namespace, Kind::WebhookDelivery, &delivery),
        delivery: line(&delivery, MAX_NAME),
        is_match: trial.matched,
        decision: word(&trial.decision),
        reason: line(&trial.reason, MAX_LINE),
        trust: word(&trial.trust_tier),
        distrust: line(trial.distrust.as_deref().unwrap_or_default(), MAX_LINE),
        lifecycle: line(&trial.lifecycle, MAX_NAME),
        matchers: trial.matchers.iter().map(matcher).collect(),
        faults: faults.map(|fault| line(fault, MAX_LINE)).collect(),
        facts: facts.into_iter().filter_map(fact).collect(),
        actions: trial.expected_actions.iter().map(|one| line(one, MAX_LINE)).collect(),
        prompt,
        prompt_left_out,
        review,
        layout,
    })
}

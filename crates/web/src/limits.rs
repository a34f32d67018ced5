//! The policy of a run: every rule with its file, and a command that is tried.

use askama::Template;
use axum::extract::Request;
use axum::response::Response;
use bailiwick_fleet::ports::{LocalExplanation, LocalRule, LocalRunPolicy, LocalVerdict};
use hyper::StatusCode;
use serde::Deserialize;

use crate::layout::{Layout, html};
use crate::run::{RunHeader, Tab};
use crate::run_part::read;
use crate::site::{Site, query};
use crate::text::{encoded, line, visible};

const MAX_NAME: usize = 200;
const MAX_REASON: usize = 2_000;

#[derive(Template)]
#[template(path = "policy.html")]
struct PolicyPage {
    layout: Layout,
    header: RunHeader,
    /// Why there is no policy to show.
    missing: Option<String>,
    facts: Vec<(&'static str, String)>,
    rules: Vec<RuleView>,
    command: String,
    tried: Option<Tried>,
    /// Why the command could not be tried.
    fault: Option<String>,
}

struct RuleView {
    rule: String,
    file: String,
    severity: String,
    enforced_by: &'static str,
    commands: String,
    above: String,
}

struct Tried {
    is_allowed: bool,
    decision: &'static str,
    rule: String,
    reason: String,
    instead: String,
    facts: Vec<(&'static str, String)>,
    verdicts: Vec<LocalVerdict>,
    /// Which sandbox the answer holds for.
    holds_for: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PolicyQuery {
    #[serde(default)]
    command: String,
}

fn list(all: &[String]) -> String {
    line(&all.join(", "), MAX_REASON)
}

fn facts(policy: &LocalRunPolicy) -> Vec<(&'static str, String)> {
    let facts = [
        ("Role", line(&policy.role, MAX_NAME)),
        (
            "May write",
            if policy.is_read_only { "nothing".to_owned() } else { list(&policy.writable) },
        ),
        ("May not write", list(&policy.denied)),
        ("Tools", policy.tools.as_deref().map(list).unwrap_or_default()),
        ("A person approves", list(&policy.approval)),
        ("Switched off", list(&policy.bypassed)),
        ("SHA-256", line(&policy.digest, MAX_NAME)),
    ];
    facts.into_iter().filter(|(_, value)| !value.is_empty()).collect()
}

fn rule_view(rule: &LocalRule) -> RuleView {
    RuleView {
        rule: line(&rule.rule, MAX_NAME),
        file: line(&rule.file, MAX_NAME),
        severity: line(&rule.severity, MAX_NAME),
        enforced_by: if rule.enforced_by == "kernel" { "text and kernel" } else { "text" },
        commands: list(&rule.commands),
        above: line(rule.above.as_deref().unwrap_or_default(), MAX_NAME),
    }
}

impl Tried {
    fn new(explained: LocalExplanation) -> Self {
        let decision = match explained.decision.as_str() {
            "allow" => "allowed",
            "ask" => "a person has to approve it",
            _ => "denied",
        };
        let holds_for = match &explained.sandbox {
            Some(level) => {
                let level = line(level, MAX_NAME);
                format!("This holds for sandbox level `{level}`, which the last attempt had.")
            }
            None => "No attempt has started: this is the answer without a sandbox.".to_owned(),
        };
        let facts = [
            ("Runs", list(&explained.runs)),
            ("Writes", list(&explained.writes)),
            ("Left to the sandbox", list(&explained.left_to_sandbox)),
        ];
        let verdict = |one: LocalVerdict| LocalVerdict {
            rule: line(&one.rule, MAX_NAME),
            verdict: line(&one.verdict, MAX_NAME),
            reason: line(&one.reason, MAX_REASON),
            instead: line(&one.instead, MAX_REASON),
        };
        Self {
            is_allowed: explained.decision == "allow",
            decision,
            rule: line(explained.rule.as_deref().unwrap_or_default(), MAX_NAME),
            reason: line(&explained.reason, MAX_REASON),
            instead: line(&explained.instead, MAX_REASON),
            facts: facts.into_iter().filter(|(_, value)| !value.is_empty()).collect(),
            verdicts: explained.verdicts.into_iter().map(verdict).collect(),
            holds_for,
        }
    }
}

pub(crate) async fn page(site: &Site, name: &str, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    let session = match site.require_session(&parts).await {
        Ok(session) => session,
        Err(response) => return response,
    };
    let command = match query::<PolicyQuery>(&parts) {
        Ok(query) => query.command,
        Err(error) => return site.error(Some(&session), &error),
    };
    let part = match read::<LocalRunPolicy>(site, &session, name, Tab::Policy).await {
        Ok(part) => part,
        Err(error) => return site.error(Some(&session), &error),
    };
    let (mut tried, mut fault) = (None, None);
    if !command.trim().is_empty() && part.data.is_ok() {
        let own = format!("/api/v1alpha1/local/runs/{}", encoded(name));
        let path = format!("{own}/explain?command={}", encoded(&command));
        match site.api.get::<LocalExplanation>(&session, &path).await {
            Ok(explained) => tried = Some(Tried::new(explained)),
            Err(error) => fault = Some(visible(&error.message)),
        }
    }
    let (policy, missing) = match part.data {
        Ok(policy) => (policy, None),
        Err(gone) => (LocalRunPolicy::default(), Some(gone.to_string())),
    };
    let page = PolicyPage {
        layout: part.layout,
        header: part.header,
        missing,
        facts: facts(&policy),
        rules: policy.rules.iter().map(rule_view).collect(),
        command,
        tried,
        fault,
    };
    html(StatusCode::OK, &page)
}

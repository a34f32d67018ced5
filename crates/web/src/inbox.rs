//! The inbox: everything that waits for a person, and the answers.

use askama::Template;
use axum::extract::{Form, FromRequest as _, Request};
use axum::response::Response;
use bailiwick_fleet::ports::{
    LocalAnswer, LocalAnswerRequest, LocalJobs, LocalOutcome, LocalQuestion, LocalQuestions,
    LocalRunEvents, TokenScope,
};
use bailiwick_model::Sha256Hex;
use bailiwick_resources::Moment;
use bailiwick_server::{ApiError, Session, is_same_origin};
use hyper::StatusCode;
use serde::Deserialize;
use serde_json::Value;

use crate::answers::{self, AnswerLine};
use crate::approvals::ApprovalCard;
use crate::call_change::CallChange;
use crate::clock::now;
use crate::decision::{Decision, MAX_WITH_ACTIONS};
use crate::error_page::foreign_request;
use crate::layout::{Layout, Section, html, see_other};
use crate::site::{Frame, JOBS, Site, Waiting};
use crate::text::{MAX_SHOWN, Time, duration, encoded, line, shortened, visible};
use crate::transcript::{Content, Row, rows};

const MAX_NAME: usize = 80;
/// How many questions are shown with what the agent did before.
const MAX_WITH_CONTEXT: usize = 20;
const EVENTS_BEFORE: u64 = 20;
const MAX_BEFORE: usize = 4;

/// A question with its form.
pub(crate) struct QuestionCard {
    /// Identifies the card on the page.
    pub(crate) key: String,
    pub(crate) run: String,
    pub(crate) href: String,
    pub(crate) name: String,
    pub(crate) repository: String,
    pub(crate) question: String,
    /// The digest of what the person sees. The form has it, because browsers change some characters of texts.
    pub(crate) digest: String,
    pub(crate) tool: String,
    /// What is asked: the fields of the input, unchanged.
    pub(crate) payload: Vec<Field>,
    /// The fields that are a change of a text, as lines.
    pub(crate) change: Option<CallChange>,
    pub(crate) asked: Option<Time>,
    /// When it is denied without an answer, and how long that is from now.
    pub(crate) expires: Option<(String, String)>,
    /// The rule that asks, and why.
    pub(crate) rule: Option<(String, String)>,
    /// The questions of this repository that are equal to it, with itself: each as `run/question`.
    pub(crate) equal: Vec<String>,
    /// What the agent did just before.
    pub(crate) before: Vec<String>,
    /// Why that cannot be shown.
    pub(crate) before_unseen: Option<String>,
    /// Whether it is not shown because too many questions wait.
    pub(crate) is_before_left_out: bool,
    /// Whether this person may answer.
    pub(crate) can_answer: bool,
}

/// A field of an input, as the model wrote it.
pub(crate) struct Field {
    pub(crate) name: String,
    pub(crate) text: String,
    pub(crate) left_out: usize,
}

impl Field {
    fn new(name: &str, text: &str) -> Self {
        let (text, left_out) = shortened(text, MAX_SHOWN);
        Self { name: line(name, MAX_NAME), text, left_out }
    }
}

/// The fields of an input but those that are shown as a change: text as it is, everything else as JSON.
fn fields(input: &Value, change: Option<&CallChange>) -> Vec<Field> {
    let json = |value: &Value| serde_json::to_string_pretty(value).unwrap_or_default();
    let Value::Object(map) = input else { return vec![Field::new("input", &json(input))] };
    let field = |(name, value): (&String, &Value)| match value {
        Value::String(text) => Field::new(name, text),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            Field::new(name, &json(value))
        }
    };
    let is_shown = |name: &str| change.is_some_and(|change| change.fields.contains(&name));
    map.iter().filter(|(name, _)| !is_shown(name)).map(field).collect()
}

impl QuestionCard {
    /// The beginning of the digest, as other places show it.
    pub(crate) fn short_digest(&self) -> &str {
        self.digest.get(..12).unwrap_or(&self.digest)
    }

    pub(crate) fn new(
        base: &str,
        session: &Session,
        question: &LocalQuestion,
        now: Moment,
    ) -> Self {
        let change = question.call.as_ref().and_then(CallChange::of);
        let (tool, payload) = match &question.call {
            Some(call) => (line(&call.tool, MAX_NAME), fields(&call.input, change.as_ref())),
            None => (String::new(), vec![Field::new("question", &question.about)]),
        };
        let anchor = question.event.map(|event| format!("?event={event}#e{event}"));
        Self {
            key: format!("q-{}-{}", question.run, question.question),
            href: format!("{base}/local/{}{}", encoded(&question.run), anchor.unwrap_or_default()),
            name: line(&question.name, MAX_NAME),
            repository: visible(question.repository.rsplit('/').next().unwrap_or_default()),
            run: question.run.clone(),
            question: question.question.clone(),
            digest: Sha256Hex::of(&question.about).to_string(),
            tool,
            payload,
            change,
            asked: question.asked_at.map(|at| Time::new(at, now)),
            expires: question.expires_at.map(|at| {
                let left = at.millis().saturating_sub(now.millis());
                (at.to_string(), duration(left))
            }),
            rule: question
                .rule
                .as_ref()
                .map(|one| (line(&one.rule, MAX_NAME), line(&one.reason, MAX_SHOWN))),
            equal: vec![pair(question)],
            before: Vec::new(),
            before_unseen: None,
            is_before_left_out: false,
            can_answer: session.scope() >= TokenScope::Approver,
        }
    }
}

/// What the agent did before it asked; nothing if the question is not in its transcript yet.
async fn before(
    site: &Site,
    session: &Session,
    question: &LocalQuestion,
) -> Result<Vec<String>, ApiError> {
    let Some(event) = question.event.filter(|event| *event > 1) else { return Ok(Vec::new()) };
    let after = event.saturating_sub(EVENTS_BEFORE + 1);
    let limit = event - 1 - after;
    let run = encoded(&question.run);
    let path = format!("/api/v1alpha1/local/runs/{run}/events?after={after}&limit={limit}");
    let read: LocalRunEvents = site.api.get(session, &path).await?;
    let mut rows = rows(&read.events, "", now());
    // The call that the question is about is shown as its payload.
    rows.pop_if(|row| matches!(&row.content, Content::Call(call) if call.decision.is_none()));
    let first = rows.len().saturating_sub(MAX_BEFORE);
    Ok(rows.iter().skip(first).map(Row::summary).collect())
}

#[derive(Template)]
#[template(path = "inbox.html")]
struct InboxPage {
    layout: Layout,
    questions: Vec<QuestionCard>,
    approvals: Vec<ApprovalCard>,
    has_more_approvals: bool,
    /// Runs that wait for something else: failed checks, spent budgets, quarantined runs, verified work.
    runs: Vec<Decision>,
    has_older_runs: bool,
    /// Whether there are runs without their actions.
    has_runs_without_actions: bool,
    answers: Vec<AnswerLine>,
    /// Why the answers cannot be shown.
    answers_unseen: Option<String>,
}

pub(crate) async fn page(site: &Site, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    let session = match site.require_session(&parts).await {
        Ok(session) => session,
        Err(response) => return response,
    };
    match inbox_page(site, &session).await {
        Ok(page) => html(StatusCode::OK, &page),
        Err(error) => site.error(Some(&session), &error),
    }
}

async fn inbox_page(site: &Site, session: &Session) -> Result<InboxPage, ApiError> {
    let Frame { mut layout, waiting } = site.frame(session, "Inbox").await?;
    let Waiting { questions, approvals, has_more_approvals, runs, has_older_runs } = &*waiting;
    layout.section = Section::Inbox;
    layout.live = Some("topic=inbox".to_owned());
    let now = now();
    let jobs: LocalJobs = site.api.get(session, JOBS).await?;
    let mut decisions: Vec<Decision> =
        runs.iter().map(|run| Decision::new(&site.base, run, now)).collect();
    for decision in decisions.iter_mut().take(MAX_WITH_ACTIONS) {
        decision.add_actions(site, session, &jobs.items, now).await;
    }
    let mut approval_cards = Vec::new();
    for object in approvals {
        approval_cards.extend(ApprovalCard::new(site, session, object, now).await);
    }
    let mut cards = Vec::new();
    for (index, question) in questions.iter().enumerate() {
        let mut card = QuestionCard::new(&site.base, session, question, now);
        let is_equal = |other: &&LocalQuestion| {
            other.about == question.about && other.repository == question.repository
        };
        card.equal = questions.iter().filter(is_equal).map(pair).collect();
        if index < MAX_WITH_CONTEXT {
            match before(site, session, question).await {
                Ok(before) => card.before = before,
                // The question can be answered without it.
                Err(error) => card.before_unseen = Some(line(&error.message, MAX_SHOWN)),
            }
        } else {
            card.is_before_left_out = true;
        }
        cards.push(card);
    }
    let (answers, answers_unseen) = match answers::read(site, session, now).await {
        Ok(answers) => (answers, None),
        Err(error) => (Vec::new(), Some(line(&error.message, MAX_SHOWN))),
    };
    Ok(InboxPage {
        layout,
        questions: cards,
        approvals: approval_cards,
        has_more_approvals: *has_more_approvals,
        has_runs_without_actions: decisions.len() > MAX_WITH_ACTIONS,
        runs: decisions,
        has_older_runs: *has_older_runs,
        answers,
        answers_unseen,
    })
}

#[derive(Deserialize)]
struct AnswerForm {
    run: String,
    question: String,
    digest: String,
    answer: LocalAnswer,
    #[serde(default)]
    reason: String,
    /// Whether every equal question gets the same answer.
    #[serde(default)]
    all: bool,
    /// Those that the page showed: each as `run/question`. Later ones are not answered unseen.
    #[serde(default)]
    equal: String,
}

/// How a form names a question.
fn pair(question: &LocalQuestion) -> String {
    format!("{}/{}", question.run, question.question)
}

pub(crate) async fn answer(site: &Site, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    if !is_same_origin(&parts.headers) {
        return foreign_request(&site.base);
    }
    let session = match site.require_session(&parts).await {
        Ok(session) => session,
        Err(response) => return response,
    };
    let form = Form::<AnswerForm>::from_request(Request::from_parts(parts, body), &()).await;
    let Ok(Form(form)) = form else {
        let message = "the form is incomplete".to_owned();
        let (status, code) = (StatusCode::BAD_REQUEST, "BAD_REQUEST".to_owned());
        return site.error(Some(&session), &ApiError { status, code, message });
    };
    match answer_all(site, &session, &form).await {
        Ok(()) => see_other(&format!("{}/inbox", site.base)),
        Err(error) => site.error(Some(&session), &error),
    }
}

/// Answers the question, or every question of the page that is equal to it.
async fn answer_all(site: &Site, session: &Session, form: &AnswerForm) -> Result<(), ApiError> {
    let path = match form.all {
        true => "/api/v1alpha1/local/questions".to_owned(),
        false => format!("/api/v1alpha1/local/questions?run={}", encoded(&form.run)),
    };
    let open: LocalQuestions = site.api.get(session, &path).await?;
    // What the person has seen, by its digest.
    let is_seen = |one: &&LocalQuestion| {
        let is_it = one.run == form.run && one.question == form.question;
        let is_listed = form.all && form.equal.split(' ').any(|listed| listed == pair(one));
        (is_listed || is_it) && Sha256Hex::of(&one.about).to_string() == form.digest
    };
    let seen: Vec<&LocalQuestion> = open.items.iter().filter(is_seen).collect();
    if seen.is_empty() {
        return Err(ApiError {
            status: StatusCode::CONFLICT,
            code: "REFUSED".to_owned(),
            message: "this question does not wait any more; it was answered, or the agent ended"
                .to_owned(),
        });
    }
    for (answered, one) in seen.iter().enumerate() {
        let path = format!(
            "/api/v1alpha1/local/runs/{}/questions/{}/answer",
            encoded(&one.run),
            encoded(&one.question)
        );
        let (answer, reason) = (form.answer, form.reason.clone());
        let request = LocalAnswerRequest { answer, about: one.about.clone(), reason };
        let done = site.api.post::<LocalOutcome>(session, &path, &request).await;
        done.map_err(|error| match answered {
            0 => error,
            _ => {
                let message =
                    format!("{answered} of {} questions were answered; then: {error}", seen.len());
                ApiError { message, ..error }
            }
        })?;
    }
    Ok(())
}

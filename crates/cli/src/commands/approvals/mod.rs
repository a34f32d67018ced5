//! `bailiwick approvals`: what agents ask people, and the answers.

mod show;

use bailiwick_engine::agent_names;
use bailiwick_engine::context::Context;
use bailiwick_engine::running::control::ask;
use bailiwick_fleet::controllers::QuestionOwner;
use bailiwick_fleet::ports::{DecisionRequest, Selection, Target, Verdict};
use bailiwick_model::AgentId;
use bailiwick_model::event::Answer;
use bailiwick_resources::{AgentApproval, DEFAULT_NAMESPACE, Kind};
use bailiwick_runner::supervisor::{self, Reply, Request, RunDirectory};
use clap::{Args, Subcommand};
use serde::Serialize;
use serde_json::json;

use super::fleet::access::FleetAccess;
use super::fleet::acting::ask as ask_plane;
use crate::commands::store::with_store;
use crate::failure::Failure;
use crate::output::{self, Format, FormatOption};
use crate::view::plain;

/// Answer tool calls and changes that wait for approval
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  bailiwick approvals list\n  bailiwick approvals show aap-…\n  \
                        bailiwick approvals approve fix-42 1\n  bailiwick approvals deny fix-42 1"
)]
pub struct Approvals {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// List what waits for approval
    #[command(after_help = "Example:\n  bailiwick approvals list -o json")]
    List {
        #[command(flatten)]
        format: FormatOption,
    },
    /// Show exactly what a write-back would write, and the state of its target
    #[command(after_help = "Example:\n  bailiwick approvals show aap-…")]
    Show {
        /// An approval of the control plane
        approval: String,
        #[command(flatten)]
        format: FormatOption,
    },
    /// Approve a tool call or a write-back
    #[command(
        after_help = "Examples:\n  bailiwick approvals approve fix-42 1\n  bailiwick approvals \
                      approve aap-…"
    )]
    Approve {
        /// The agent, or an approval of the control plane
        #[arg(value_name = "AGENT|APPROVAL")]
        agent: AgentId,
        /// The number of the agent's request
        question: Option<String>,
        #[command(flatten)]
        format: FormatOption,
    },
    /// Deny it
    #[command(
        after_help = "Examples:\n  bailiwick approvals deny fix-42 1\n  bailiwick approvals deny aap-…"
    )]
    Deny {
        /// The agent, or an approval of the control plane
        #[arg(value_name = "AGENT|APPROVAL")]
        agent: AgentId,
        /// The number of the agent's request
        question: Option<String>,
        #[command(flatten)]
        format: FormatOption,
    },
}

#[derive(Debug, Serialize)]
struct Waiting {
    agent_id: String,
    question: String,
    about: String,
    /// Its name in the control plane.
    #[serde(skip_serializing_if = "Option::is_none")]
    approval: Option<String>,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    request: Option<Requested>,
}

/// What only approvals of the control plane have.
#[derive(Debug, Serialize)]
struct Requested {
    action: String,
    target: String,
    digest: String,
    expires_at: String,
}

impl Approvals {
    /// Runs the command.
    pub fn run(self, fleet: &FleetAccess) -> Result<(), Failure> {
        match self.verb {
            Verb::List { format } => list(fleet, format),
            Verb::Show { approval, format } => show::show(fleet, &approval, format),
            Verb::Approve { agent, question, format } => {
                decided(fleet, &agent, question, Answer::Allow, format.format)
            }
            Verb::Deny { agent, question, format } => {
                decided(fleet, &agent, question, Answer::Deny, format.format)
            }
        }
    }
}

fn list(fleet: &FleetAccess, format: FormatOption) -> Result<(), Failure> {
    let context = &fleet.context;
    let attempts = match fleet.is_remote() {
        true => Vec::new(),
        false => with_store(context, async |store| Ok(store.attempts(None).await?))?,
    };
    let mut all = Vec::new();
    for attempt in attempts.into_iter().filter(|attempt| attempt.ending.is_none()) {
        let directory = RunDirectory::new(&context.state, attempt.run.as_str());
        if let Ok(Some(Reply::Status(standing))) = supervisor::ask(&directory, &Request::Status) {
            all.extend(standing.questions.into_iter().map(|(question, about)| Waiting {
                agent_id: attempt.run.to_string(),
                question,
                about,
                approval: None,
                request: None,
            }));
        }
    }
    all.extend(pending(fleet)?);
    if format.format == Format::Json {
        return output::json(&all);
    }
    if all.is_empty() {
        output::note("no approvals are waiting");
    }
    for one in &all {
        let about = plain(&one.about);
        match &one.approval {
            None => output::line(format_args!("{} {}  {about}", one.agent_id, one.question)),
            Some(name) => {
                let what = one
                    .request
                    .as_ref()
                    .map(|request| format!("{} {}", request.action, plain(&request.target)));
                let what = what.unwrap_or_default();
                output::line(format_args!("{name}  {what}  {}: {about}", one.agent_id));
            }
        }
    }
    Ok(())
}

/// The open approvals of the control plane.
fn pending(fleet: &FleetAccess) -> Result<Vec<Waiting>, Failure> {
    let selection = Selection::of(Kind::AgentApproval).field("phase", "pending");
    let found = fleet.ask(async |client| Ok(client.list(&selection).await?.objects))?;
    let asked = found.iter().map(|object| {
        let approval = object.typed::<AgentApproval>();
        let spec = approval.map_err(|error| Failure::general(error.to_string()))?.spec;
        Ok(Waiting {
            agent_id: spec.dispatch_run,
            question: String::new(),
            about: spec.action.summary,
            approval: Some(object.metadata.name.clone()),
            request: Some(Requested {
                action: show::action_word(spec.action.kind),
                target: spec.action.target,
                digest: spec.artifact_digest,
                expires_at: spec.expires_at.to_string(),
            }),
        })
    });
    asked.collect()
}

/// Answers a question of an agent; or decides an approval of the control plane, which has no question.
fn decided(
    fleet: &FleetAccess,
    agent: &AgentId,
    question: Option<String>,
    said: Answer,
    format: Format,
) -> Result<(), Failure> {
    match question {
        Some(_) if fleet.is_remote() => Err(Failure::usage(
            "agents of a server are answered by their approvals",
        )
        .help("see them: bailiwick approvals list; then: bailiwick approvals approve aap-…")),
        Some(question) => answer(fleet, agent, question, said, format),
        None => decide(fleet, agent.as_str(), verdict(said), format),
    }
}

fn verdict(answer: Answer) -> Verdict {
    match answer {
        Answer::Allow => Verdict::Approve,
        Answer::Deny => Verdict::Reject,
    }
}

/// Decides an approval of the control plane in its current state.
fn decide(
    fleet: &FleetAccess,
    name: &str,
    decision: Verdict,
    format: Format,
) -> Result<(), Failure> {
    let approval = Target { namespace: DEFAULT_NAMESPACE.to_owned(), name: name.to_owned() };
    let answer = fleet.ask(async |client| {
        let found = client.get(Kind::AgentApproval, &approval).await?;
        let found = found.ok_or_else(|| {
            Failure::usage(format!("there is no approval `{name}`"))
                .help("see them: bailiwick get approvals; an agent's question: approve AGENT ID")
        })?;
        let asked = found
            .typed::<AgentApproval>()
            .map_err(|error| Failure::general(error.to_string()))?
            .spec;
        let (target, summary) = (plain(&asked.action.target), plain(&asked.action.summary));
        output::note(format_args!("{target}: {summary}"));
        let request = DecisionRequest {
            decision,
            comment: String::new(),
            approved_action_subset: Vec::new(),
            expected_artifact_digest: asked.artifact_digest,
        };
        Ok(client.decide(&approval, request).await?)
    })?;
    let phase = serde_json::to_value(answer.phase).unwrap_or_default();
    let text = format!("approval/{name} {}", phase.as_str().unwrap_or_default());
    output::done(format, text, &json!({ "approval": name, "phase": phase }))
}

/// Who answers a question of an agent: the control plane, if it started the agent or one above it.
pub fn whose(context: &Context, agent: &AgentId, question: &str) -> Result<QuestionOwner, Failure> {
    ask_plane(context, async |plane, _| {
        let above = plane.store.ancestor_ids(Some(agent)).await?;
        let line: Vec<&str> = std::iter::once(agent.as_str())
            .chain(above.iter().map(AgentId::as_str).filter(|one| *one != agent.as_str()))
            .collect();
        Ok(plane.api.question_owner(&line, question).await?)
    })
}

fn answer(
    fleet: &FleetAccess,
    agent: &AgentId,
    id: String,
    answer: Answer,
    format: Format,
) -> Result<(), Failure> {
    let context = &fleet.context;
    let agent = &agent_names::resolve(context, agent)?;
    match whose(context, agent, &id)? {
        QuestionOwner::Elsewhere => drop(agent_names::require(context, agent)?),
        QuestionOwner::Here(approval) => {
            return decide(fleet, approval.name(), verdict(answer), format);
        }
        QuestionOwner::Unknown => {
            let why = format!("the control plane has no open question `{id}` of `{agent}`");
            return Err(Failure::usage(why).help(
                "see what waits: bailiwick approvals list; `bailiwick serve` takes questions in",
            ));
        }
    }
    let value = json!({ "agent_id": agent, "question": id, "answer": answer });
    let word = match answer {
        Answer::Allow => "approved",
        Answer::Deny => "denied",
    };
    let text = format!("{word}  question {id} of {agent}");
    match ask(context, agent, &Request::Answer { id, answer })? {
        Reply::Done | Reply::Status(_) => output::done(format, text, &value),
        Reply::Refused(why) => Err(Failure::usage(why)),
    }
}

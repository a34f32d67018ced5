//! `bailiwick approvals`: what agents ask people, and the answers.

use bailiwick_model::AgentId;
use bailiwick_model::event::Answer;
use bailiwick_runner::supervisor::{self, Reply, Request, RunDirectory};
use clap::{Args, Subcommand};
use serde::Serialize;

use super::stop::ask;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{self, Format, FormatOption};
use crate::wire;

/// Answer calls that wait for a person
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  bailiwick approvals list\n  bailiwick approvals approve fix-42 \
                        1\n  bailiwick approvals deny fix-42 1"
)]
pub struct Approvals {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// What agents ask at this moment
    #[command(after_help = "Example:\n  bailiwick approvals list -o json")]
    List {
        #[command(flatten)]
        format: FormatOption,
    },
    /// Let a call run
    #[command(after_help = "Example:\n  bailiwick approvals approve fix-42 1")]
    Approve {
        /// The agent
        agent: AgentId,
        /// The question
        question: String,
    },
    /// Do not let it run
    #[command(after_help = "Example:\n  bailiwick approvals deny fix-42 1")]
    Deny {
        /// The agent
        agent: AgentId,
        /// The question
        question: String,
    },
}

#[derive(Debug, Serialize)]
struct Asked {
    agent_id: String,
    question: String,
    about: String,
}

impl Approvals {
    /// Does what was asked.
    pub fn run(self, context: &Context) -> Result<(), Failure> {
        match self.verb {
            Verb::List { format } => list(context, format),
            Verb::Approve { agent, question } => answer(context, &agent, question, Answer::Allow),
            Verb::Deny { agent, question } => answer(context, &agent, question, Answer::Deny),
        }
    }
}

fn list(context: &Context, format: FormatOption) -> Result<(), Failure> {
    let attempts = wire::with_store(context, async |store| Ok(store.attempts(None).await?))?;
    let mut all = Vec::new();
    for attempt in attempts.into_iter().filter(|attempt| attempt.ending.is_none()) {
        let directory = RunDirectory::new(&context.state, attempt.run.as_str());
        if let Ok(Some(Reply::Standing(standing))) = supervisor::ask(&directory, &Request::Status) {
            all.extend(standing.questions.into_iter().map(|(question, about)| Asked {
                agent_id: attempt.run.to_string(),
                question,
                about,
            }));
        }
    }
    if format.format == Format::Json {
        return output::json(&all);
    }
    if all.is_empty() {
        output::note("nobody asks anything");
    }
    for one in &all {
        output::line(format_args!("{} {}  {}", one.agent_id, one.question, one.about));
    }
    Ok(())
}

fn answer(context: &Context, agent: &AgentId, id: String, answer: Answer) -> Result<(), Failure> {
    let directory = RunDirectory::new(&context.state, agent.as_str());
    match ask(&directory, agent, &Request::Answer { id, answer })? {
        Reply::Done | Reply::Standing(_) => Ok(()),
        Reply::Refused(why) => Err(Failure::usage(why)),
    }
}

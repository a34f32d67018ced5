//! `bailiwick runs`: what can be done to runs of the control plane.

use bailiwick_client::FleetClient;
use bailiwick_fleet::ports::{
    DispatchRequest, RunAnswer, RunEvent, RunVerb, RunVerbRequest, Target,
};
use bailiwick_model::Event;
use bailiwick_resources::SourceRefs;
use clap::{Args, Subcommand};

use super::Namespace;
use super::access::FleetAccess;
use crate::failure::Failure;
use crate::output::{self, Format, FormatOption};
use crate::view;

/// Manage runs of the control plane
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  bailiwick runs start app fixer --task \"Mend the build.\"\n  bailiwick \
                  runs cancel adr-…\n  bailiwick runs continue adr-… -m \"Add a test.\"\n\nList them: \
                  bailiwick get runs"
)]
pub struct Runs {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Args)]
struct Which {
    /// The run
    run: String,
    /// Why
    #[arg(long, value_name = "TEXT", default_value = "")]
    reason: String,
    /// The message to the agent
    #[arg(short, long, value_name = "TEXT", default_value = "")]
    message: String,
    #[command(flatten)]
    namespace: Namespace,
    #[command(flatten)]
    format: FormatOption,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Start a run
    #[command(
        after_help = "Example:\n  bailiwick runs start app fixer --task \"Mend the build.\" --kind repair"
    )]
    Start {
        /// The repository
        repository: String,
        /// The stack
        stack: String,
        /// The prompt of the agent
        #[arg(long, value_name = "TEXT")]
        task: String,
        /// The kind of task
        #[arg(long, value_name = "WORD", default_value = "manual")]
        kind: String,
        /// The ref, as refs/heads/main; default: the default branch
        #[arg(long = "ref", value_name = "REF")]
        reference: Option<String>,
        /// The commit; default: the tip of the ref. Work on a named commit is not trusted
        #[arg(long, value_name = "COMMIT")]
        sha: Option<String>,
        /// The pool; default: the pool of the stack
        #[arg(long, value_name = "NAME")]
        pool: Option<String>,
        /// Add this context label (repeatable)
        #[arg(long = "label", value_name = "NAME")]
        labels: Vec<String>,
        /// The pull request that the run is about
        #[arg(long, value_name = "NUMBER")]
        pull_request: Option<u64>,
        /// The issue that the run is about
        #[arg(long, value_name = "NUMBER")]
        issue: Option<u64>,
        /// Idempotency key: a second request with the same key starts nothing
        #[arg(long, value_name = "ID")]
        request_id: Option<String>,
        #[command(flatten)]
        namespace: Namespace,
        #[command(flatten)]
        format: FormatOption,
    },
    /// Show the events of a run, over all attempts
    #[command(
        after_help = "Examples:\n  bailiwick runs logs adr-…\n  bailiwick runs logs adr-… -f\n  bailiwick \
                      runs logs adr-… --attempt 1\n  \
                      bailiwick runs logs adr-… -o json"
    )]
    Logs {
        /// The run
        run: String,
        /// Only this attempt, counted from 1
        #[arg(long, value_name = "NUMBER")]
        attempt: Option<u32>,
        /// Only events after this cursor
        #[arg(long, value_name = "CURSOR", default_value_t = 0)]
        after: u64,
        /// Follow the run until it ends; with `-o json` one event on each line
        #[arg(short, long)]
        follow: bool,
        #[command(flatten)]
        namespace: Namespace,
        #[command(flatten)]
        format: FormatOption,
    },
    /// Cancel a run and everything that it started
    #[command(after_help = "Example:\n  bailiwick runs cancel adr-… --reason \"not needed\"")]
    Cancel(Which),
    /// Retry a run that has ended
    #[command(after_help = "Example:\n  bailiwick runs retry adr-…")]
    Retry(Which),
    /// Resume the conversation of an interrupted run
    #[command(after_help = "Example:\n  bailiwick runs resume adr-…")]
    Resume(Which),
    /// Send another message to a run that has ended, and let it continue
    #[command(after_help = "Example:\n  bailiwick runs continue adr-… -m \"Add a test.\"")]
    Continue(Which),
    /// Start a new run like this one
    #[command(after_help = "Example:\n  bailiwick runs fork adr-… -m \"Try it without a cache.\"")]
    Fork(Which),
    /// Gather the context of a run again, for its next attempt
    #[command(
        after_help = "Example:\n  bailiwick runs refresh-context adr-… --reason \"the issue was edited\""
    )]
    RefreshContext(Which),
}

impl Runs {
    /// Runs the command.
    pub fn run(self, fleet: &FleetAccess) -> Result<(), Failure> {
        let (which, verb) = match self.verb {
            Verb::Logs { run, attempt, after, follow, namespace, format } => {
                let run = fleet.target(&namespace, &run);
                let logs = Logs { attempt, after, format: format.format };
                return fleet.ask(async |client| match follow {
                    true => logs.follow(client, &run).await,
                    false => logs.show(client, &run).await,
                });
            }
            Verb::Start {
                repository,
                stack,
                task,
                kind,
                reference,
                sha,
                pool,
                labels,
                pull_request,
                issue,
                request_id,
                namespace,
                format,
            } => {
                let request = DispatchRequest {
                    repository,
                    agent_stack: stack,
                    task_kind: kind,
                    task,
                    reference,
                    sha,
                    source_refs: SourceRefs { pull_request, issue, ..SourceRefs::default() },
                    runner_pool: pool,
                    context_labels: labels,
                    request_id,
                };
                let namespace = fleet.namespace(&namespace);
                let answer =
                    fleet.ask(async |client| Ok(client.dispatch(&namespace, request).await?))?;
                return tell(&answer, format.format);
            }
            Verb::Cancel(which) => (which, RunVerb::Cancel),
            Verb::Retry(which) => (which, RunVerb::Retry),
            Verb::Resume(which) => (which, RunVerb::Resume),
            Verb::Continue(which) => (which, RunVerb::Continue),
            Verb::Fork(which) => (which, RunVerb::Fork),
            Verb::RefreshContext(which) => (which, RunVerb::RefreshContext),
        };
        let run = fleet.target(&which.namespace, &which.run);
        let request = RunVerbRequest {
            reason: which.reason,
            message: which.message,
            expected_generation: None,
        };
        let answer =
            fleet.ask(async |client| Ok(client.act_on_run(&run, verb, request).await?))?;
        tell(&answer, which.format.format)
    }
}

/// The number of events in one read.
const PAGE: usize = 1_000;

/// The events of a run, or of one attempt of it, as `bailiwick logs` shows those of an agent.
struct Logs {
    attempt: Option<u32>,
    after: u64,
    format: Format,
}

impl Logs {
    async fn show(&self, client: &dyn FleetClient, run: &Target) -> Result<(), Failure> {
        let mut all = Vec::new();
        let mut after = self.after;
        loop {
            let page = client.run_events(run, self.attempt, after, PAGE).await?.events;
            let Some(last) = page.last() else { break };
            after = last.cursor;
            all.extend(page);
        }
        if self.format == Format::Json {
            return output::json(&all);
        }
        let mut attempt = 0;
        all.iter().for_each(|event| show_event(event, &mut attempt));
        if all.is_empty() {
            output::note("nothing happened yet");
        }
        Ok(())
    }

    async fn follow(&self, client: &dyn FleetClient, run: &Target) -> Result<(), Failure> {
        let mut events = client.follow_run(run, self.attempt, self.after).await?;
        let mut attempt = 0;
        while let Some(some) = events.next().await? {
            for event in &some {
                match self.format {
                    Format::Json => output::json_line(event)?,
                    Format::Human => show_event(event, &mut attempt),
                }
            }
        }
        Ok(())
    }
}

/// Shows an event, with its attempt if that is another one than before.
fn show_event(event: &RunEvent, attempt: &mut u32) {
    if event.attempt != *attempt {
        *attempt = event.attempt;
        output::line(format_args!("attempt {attempt}"));
    }
    let body = serde_json::from_value::<Event>(event.body.clone());
    if let Some(line) = body.ok().and_then(|event| view::line(&event)) {
        output::line(format_args!("{}  {line}", view::clock(event.at.millis())));
    }
}

fn tell(answer: &RunAnswer, format: Format) -> Result<(), Failure> {
    if format == Format::Json {
        return output::json(answer);
    }
    output::line(format_args!("run/{} {}", answer.run, answer.phase.as_str()));
    output::next_step(format_args!("bailiwick describe run {}", answer.run));
    Ok(())
}

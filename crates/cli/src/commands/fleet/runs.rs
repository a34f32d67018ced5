//! `bailiwick runs`: what can be done to runs of the control plane.

use bailiwick_control::ports::fleet::{
    DispatchRequest, Fleet as _, RunAnswer, RunVerb, RunVerbRequest,
};
use clap::{Args, Subcommand};

use super::Namespace;
use super::acting::{ask, target};
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{self, Format, FormatOption};

/// Start, cancel, retry, resume, continue and fork runs of the control plane
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
    /// What the agent is told
    #[arg(short, long, value_name = "TEXT", default_value = "")]
    message: String,
    #[command(flatten)]
    namespace: Namespace,
    #[command(flatten)]
    format: FormatOption,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Start one by hand
    #[command(
        after_help = "Example:\n  bailiwick runs start app fixer --task \"Mend the build.\" --kind repair"
    )]
    Start {
        /// The repository
        repository: String,
        /// The stack
        stack: String,
        /// What the agent is to do
        #[arg(long, value_name = "TEXT")]
        task: String,
        /// What it is for
        #[arg(long, value_name = "WORD", default_value = "manual")]
        kind: String,
        /// The ref, as refs/heads/main; the default branch when left out
        #[arg(long = "ref", value_name = "REF")]
        reference: Option<String>,
        /// The pool; the stack's when left out
        #[arg(long, value_name = "NAME")]
        pool: Option<String>,
        #[command(flatten)]
        namespace: Namespace,
        #[command(flatten)]
        format: FormatOption,
    },
    /// End one, with everything that it started
    #[command(after_help = "Example:\n  bailiwick runs cancel adr-… --reason \"not needed\"")]
    Cancel(Which),
    /// Try one that has ended again, with the same context
    #[command(after_help = "Example:\n  bailiwick runs retry adr-…")]
    Retry(Which),
    /// Go on with the conversation of one that was interrupted
    #[command(after_help = "Example:\n  bailiwick runs resume adr-…")]
    Resume(Which),
    /// Tell one that has ended something more
    #[command(after_help = "Example:\n  bailiwick runs continue adr-… -m \"Add a test.\"")]
    Continue(Which),
    /// Start another one like it
    #[command(after_help = "Example:\n  bailiwick runs fork adr-… -m \"Try it without a cache.\"")]
    Fork(Which),
}

impl Runs {
    /// Does what was asked.
    pub fn run(self, context: &Context) -> Result<(), Failure> {
        let (which, verb) = match self.verb {
            Verb::Start { repository, stack, task, kind, reference, pool, namespace, format } => {
                let request = DispatchRequest {
                    repository,
                    agent_stack: stack,
                    task_kind: kind,
                    task,
                    reference,
                    sha: None,
                    source_refs: Default::default(),
                    runner_pool: pool,
                    context_labels: Vec::new(),
                    request_id: None,
                };
                let answer = ask(context, async |plane, caller| {
                    Ok(plane.dispatch(&caller, &namespace.namespace, request).await?)
                })?;
                return tell(&answer, format.format);
            }
            Verb::Cancel(which) => (which, RunVerb::Cancel),
            Verb::Retry(which) => (which, RunVerb::Retry),
            Verb::Resume(which) => (which, RunVerb::Resume),
            Verb::Continue(which) => (which, RunVerb::Continue),
            Verb::Fork(which) => (which, RunVerb::Fork),
        };
        let run = target(&which.namespace, &which.run);
        let request = RunVerbRequest {
            reason: which.reason,
            message: which.message,
            expected_generation: None,
        };
        let answer = ask(context, async |plane, caller| {
            Ok(plane.act_on_run(&caller, &run, verb, request).await?)
        })?;
        tell(&answer, which.format.format)
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

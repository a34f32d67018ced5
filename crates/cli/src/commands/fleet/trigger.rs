//! `bailiwick trigger`: rules, tried and told when to work.

use std::path::PathBuf;

use bailiwick_engine::context::Context;
use bailiwick_fleet::ports::{
    ExecutionAnswer, FireRequest, LifecycleRequest, LifecycleVerb, ReplayRequest, RuleSample,
    RuleTrial,
};
use clap::{Args, Subcommand};

use super::Namespace;
use super::access::FleetAccess;
use crate::failure::Failure;
use crate::output::{self, Format, FormatOption, GREEN, RED, styled};
use crate::view::plain;

/// Test, replay, fire, enable and disable trigger rules
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  bailiwick trigger test ci --delivery wd-…\n  bailiwick trigger enable \
                  ci\n  bailiwick trigger replay ci wd-…"
)]
pub struct Trigger {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Args)]
struct Rule {
    /// The rule
    rule: String,
    #[command(flatten)]
    namespace: Namespace,
    #[command(flatten)]
    format: FormatOption,
}

#[derive(Debug, Args)]
struct Reasoned {
    #[command(flatten)]
    rule: Rule,
    /// Why, for the audit log
    #[arg(long, value_name = "TEXT", default_value = "")]
    reason: String,
}

#[derive(Debug, Args)]
struct Sample {
    /// Use this delivery
    #[arg(long, value_name = "NAME")]
    delivery: Option<String>,
    /// Use the payload in this file instead of a delivery
    #[arg(long, value_name = "FILE", conflicts_with = "delivery", requires = "event")]
    payload: Option<PathBuf>,
    /// The event of the payload, by the name that its forge uses
    #[arg(long, value_name = "NAME")]
    event: Option<String>,
    /// The repository of the payload
    #[arg(long, value_name = "NAME")]
    repository: Option<String>,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Show what a rule would do with an event, without doing it
    #[command(
        after_help = "Examples:\n  bailiwick trigger test ci --delivery wd-…\n  bailiwick trigger test \
                      ci --payload failed.json \\\n      \
                      --event workflow_run --repository app"
    )]
    Test {
        #[command(flatten)]
        rule: Rule,
        #[command(flatten)]
        sample: Sample,
    },
    /// Evaluate a delivery again
    #[command(
        after_help = "Example:\n  bailiwick trigger replay ci wd-… --reason 'the forge was away'"
    )]
    Replay {
        #[command(flatten)]
        rule: Reasoned,
        /// The delivery
        delivery: String,
    },
    /// Fire a rule that has the source `manual`
    #[command(
        after_help = "Example:\n  bailiwick trigger fire tend --repository app --reason 'before \
                            the release'"
    )]
    Fire {
        #[command(flatten)]
        rule: Rule,
        /// The repository, by the name of its object or as owner/name
        #[arg(long)]
        repository: String,
        /// The full ref; default: the default branch
        #[arg(long = "ref", value_name = "REF")]
        reference: Option<String>,
        /// Why, for the audit log
        #[arg(long, default_value = "")]
        reason: String,
    },
    /// Create a work item for an event, without a run
    #[command(after_help = "Example:\n  bailiwick trigger materialize ci --delivery wd-…")]
    Materialize {
        #[command(flatten)]
        rule: Reasoned,
        #[command(flatten)]
        sample: Sample,
    },
    /// Enable a draft or disabled rule
    #[command(after_help = "Example:\n  bailiwick trigger enable ci")]
    Enable(Reasoned),
    /// Pause a rule
    #[command(after_help = "Example:\n  bailiwick trigger pause ci --reason 'too many runs'")]
    Pause(Reasoned),
    /// Resume a paused rule
    #[command(after_help = "Example:\n  bailiwick trigger resume ci")]
    Resume(Reasoned),
    /// Disable a rule
    #[command(after_help = "Example:\n  bailiwick trigger disable ci")]
    Disable(Reasoned),
    /// Archive a rule; this cannot be undone
    #[command(after_help = "Example:\n  bailiwick trigger archive ci")]
    Archive(Reasoned),
}

impl Trigger {
    /// Runs the command.
    pub fn run(self, fleet: &FleetAccess) -> Result<(), Failure> {
        let (rule, action) = match self.verb {
            Verb::Test { rule, sample } => {
                let wanted = fleet.target(&rule.namespace, &rule.rule);
                let sample = sample.read(&fleet.context)?;
                let trial =
                    fleet.ask(async |client| Ok(client.try_rule(&wanted, sample).await?))?;
                return tried(&trial, rule.format.format);
            }
            Verb::Replay { rule: Reasoned { rule, reason }, delivery } => {
                let wanted = fleet.target(&rule.namespace, &rule.rule);
                let request = ReplayRequest { delivery, reason };
                let answer = fleet
                    .ask(async |client| Ok(client.replay_delivery(&wanted, request).await?))?;
                return executed(&answer, rule.format.format);
            }
            Verb::Fire { rule, repository, reference, reason } => {
                let wanted = fleet.target(&rule.namespace, &rule.rule);
                let request =
                    FireRequest { repository, reference, reason, ..FireRequest::default() };
                let answer = fleet.ask(async |client| Ok(client.fire(&wanted, request).await?))?;
                return executed(&answer, rule.format.format);
            }
            Verb::Materialize { rule: Reasoned { rule, reason }, sample } => {
                let wanted = fleet.target(&rule.namespace, &rule.rule);
                let sample = RuleSample { reason, ..sample.read(&fleet.context)? };
                let answer =
                    fleet.ask(async |client| Ok(client.materialize(&wanted, sample).await?))?;
                return executed(&answer, rule.format.format);
            }
            Verb::Enable(rule) => (rule, LifecycleVerb::Enable),
            Verb::Pause(rule) => (rule, LifecycleVerb::Pause),
            Verb::Resume(rule) => (rule, LifecycleVerb::Resume),
            Verb::Disable(rule) => (rule, LifecycleVerb::Disable),
            Verb::Archive(rule) => (rule, LifecycleVerb::Archive),
        };
        let Reasoned { rule, reason } = rule;
        let wanted = fleet.target(&rule.namespace, &rule.rule);
        let request = LifecycleRequest { action, reason, expected_generation: None };
        let answer =
            fleet.ask(async |client| Ok(client.set_lifecycle(&wanted, request).await?))?;
        if rule.format.format == Format::Json {
            return output::json(&answer);
        }
        let state = serde_json::to_value(answer.lifecycle_state).unwrap_or_default();
        let word = state.as_str().unwrap_or_default().to_owned();
        output::line(format_args!("trigger/{} {word}", answer.rule));
        Ok(())
    }
}

impl Sample {
    fn read(self, context: &Context) -> Result<RuleSample, Failure> {
        if self.delivery.is_none() && self.payload.is_none() {
            return Err(Failure::usage("say which event: --delivery or --payload")
                .help("see what came in: bailiwick get deliveries"));
        }
        let payload = match &self.payload {
            None => serde_json::Value::Null,
            Some(file) => {
                let text =
                    std::fs::read_to_string(context.directory.join(file)).map_err(|error| {
                        Failure::general(format!("{} cannot be read: {error}", file.display()))
                    })?;
                serde_json::from_str(&text).map_err(|error| {
                    Failure::usage(format!("{} is no JSON: {error}", file.display()))
                })?
            }
        };
        Ok(RuleSample {
            delivery: self.delivery,
            event: self.event,
            forge: None,
            repository: self.repository,
            payload,
            reason: String::new(),
        })
    }
}

fn executed(answer: &ExecutionAnswer, format: Format) -> Result<(), Failure> {
    if format == Format::Json {
        return output::json(answer);
    }
    output::line(format_args!("execution/{} {}", answer.execution, answer.reason));
    if let Some(run) = &answer.run {
        output::next_step(format_args!("bailiwick describe run {run}"));
    }
    Ok(())
}

fn tried(trial: &RuleTrial, format: Format) -> Result<(), Failure> {
    if format == Format::Json {
        return output::json(trial);
    }
    for matcher in &trial.matchers {
        let mark = if matcher.holds { styled(GREEN, "✓") } else { styled(RED, "✗") };
        output::line(format_args!("  {mark} {:24} {}", matcher.field, plain(&matcher.why)));
    }
    for fault in &trial.matcher_faults {
        output::wrapped("matcher   ", fault);
    }
    output::wrapped("decision  ", &trial.reason);
    if trial.lifecycle != "active" {
        output::wrapped("rule      ", &format!("{}: tried as if it were active", trial.lifecycle));
    }
    output::wrapped("trust     ", &trust(trial));
    if let Some(key) = &trial.dedupe_key {
        output::wrapped("key       ", key);
    }
    if let Some(fault) = &trial.dedupe_fault {
        output::wrapped("no key    ", fault);
    }
    if let Some(earlier) = &trial.duplicate_of {
        output::wrapped("same as   ", &format!("execution/{earlier}"));
    }
    if let Some(group) = &trial.concurrency_group {
        output::wrapped("group     ", &format!("{group}: {}", placed(&trial.concurrency)));
    }
    for action in &trial.expected_actions {
        output::wrapped("would     ", action);
    }
    if let Some(review) = &trial.permission_review {
        let decision = serde_json::to_value(review.decision).unwrap_or_default();
        output::line(format_args!("permitted {}", decision.as_str().unwrap_or_default()));
        for why in &review.reasons {
            output::wrapped("          ", &format!("{}: {}", why.code, why.message));
        }
        for document in &review.yaml_preview {
            output::line("--- wanting:");
            output::plain(document);
        }
    }
    if let Some(fault) = &trial.prompt_fault {
        output::wrapped("no prompt ", fault);
    }
    if let Some(prompt) = &trial.rendered_prompt {
        output::line("--- prompt:");
        output::plain(prompt);
    }
    Ok(())
}

/// How much the event is trusted, and why not more.
fn trust(trial: &RuleTrial) -> String {
    let tier = serde_json::to_value(trial.trust_tier).unwrap_or_default();
    let tier = tier.as_str().unwrap_or_default().to_owned();
    match &trial.distrust {
        Some(why) => format!("{tier}: {why}"),
        None => tier,
    }
}

/// The decision of a group about an event, with the affected runs.
fn placed(concurrency: &serde_json::Value) -> String {
    let decision = concurrency.get("decision").and_then(|word| word.as_str()).unwrap_or("-");
    let about = ["behind", "run", "cancel", "active"].iter().find_map(|field| {
        let runs = concurrency.get(field)?;
        let many = runs
            .as_array()
            .map(|all| all.iter().filter_map(|one| one.as_str()).collect::<Vec<_>>().join(", "));
        many.or_else(|| runs.as_str().map(str::to_owned)).filter(|text| !text.is_empty())
    });
    about.map_or_else(|| decision.to_owned(), |about| format!("{decision} {about}"))
}

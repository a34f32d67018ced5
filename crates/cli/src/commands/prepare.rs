//! `bailiwick prepare`: the prompt and arguments of an agent, without starting it.

use std::path::PathBuf;

use bailiwick_engine::context::Context;
use bailiwick_engine::spawning::agent_id;
use bailiwick_engine::watch::{KitState, Watch};
use bailiwick_engine::{sources, system};
use bailiwick_kit::bind;
use bailiwick_lifecycle::{AgentInvocation, prepare};
use bailiwick_model::AgentId;
use clap::{Args, ValueEnum};

use crate::failure::Failure;
use crate::output;

/// Show the prompt and arguments that an agent would get, without starting it
///
/// Reads the working copy and says where it differs from the commit that would bind an agent.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  bailiwick prepare .bailiwick/tasks/example.toml\n  bailiwick \
                        prepare task.toml -o json | jq -r .prompt"
)]
pub struct Prepare {
    /// The task
    pub(crate) task: PathBuf,
    /// The agent's id; default: the task's, else generated
    #[arg(long, value_name = "ID")]
    pub(crate) agent_id: Option<AgentId>,
    /// Output format
    #[arg(
        short = 'o',
        long = "output",
        visible_alias = "format",
        value_name = "FORMAT",
        default_value = "human"
    )]
    pub(crate) format: Shape,
}

/// How an invocation is shown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Shape {
    /// For people.
    #[default]
    Human,
    /// One JSON object.
    Json,
    /// One TOML table.
    Toml,
}

impl Prepare {
    /// Runs the command.
    pub fn run(self, context: &Context) -> Result<(), Failure> {
        let (invocation, watch) = self.invocation(context)?;
        match self.format {
            Shape::Human => show(&invocation),
            Shape::Json => output::json(&invocation)?,
            Shape::Toml => {
                output::plain(&toml::to_string_pretty(&invocation).map_err(|error| {
                    Failure::general(format!("the result cannot be written as TOML: {error}"))
                })?)
            }
        }
        self.lead_on(context, watch)
    }

    /// Prints how the working copy differs from what binds, and the next step.
    fn lead_on(&self, context: &Context, watch: Option<Watch>) -> Result<(), Failure> {
        let kept = sources::note(context, watch)?;
        if self.format == Shape::Human {
            let task = self.task.display();
            if kept == KitState::Differs {
                output::next_step(format_args!(
                    "git add {} && git commit -m 'Say what agents may do here'",
                    sources::kit_shown(context)
                ));
            }
            output::next_step(format_args!(
                "have an agent do it: bailiwick run {task}{}",
                context.global_options
            ));
        }
        Ok(())
    }

    /// The same in the format of the kei tools, for programs that parse its lines.
    pub(crate) fn run_as_kei(self, context: &Context) -> Result<(), Failure> {
        if self.format != Shape::Human {
            return self.run(context);
        }
        let (invocation, watch) = self.invocation(context)?;
        output::plain(&invocation.to_string());
        self.lead_on(context, watch)
    }

    pub(crate) fn invocation(
        &self,
        context: &Context,
    ) -> Result<(AgentInvocation, Option<Watch>), Failure> {
        let (kit, watch) = sources::watched_kit(context)?;
        let bound = bind(&kit, &sources::read_task(context, &self.task)?)?;
        let id = agent_id(&bound, self.agent_id.as_ref())?;
        let invocation = prepare::prepare(&bound, &id, system::random()?)?;
        output::problems(&bound.warnings);
        Ok((invocation, watch))
    }
}

/// Prints the prompt of an agent and its identity.
fn show(invocation: &AgentInvocation) {
    let field = |name: &str, value: &str| output::line(format_args!("{name:9}  {value}"));
    field("agent", &invocation.agent_id);
    field("role", &invocation.role);
    field("identity", &invocation.dna);
    output::line(format_args!("\n{}\n", output::styled(output::BOLD, "It would be told:")));
    output::line(invocation.prompt.trim_end());
}

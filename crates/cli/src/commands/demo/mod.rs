//! `bailiwick demo`: three agents at once, from their prompts to the work that lands, in a throwaway
//! repository.

mod interruptible;
mod scene;
mod stage;

use std::path::{Path, PathBuf};

use bailiwick_engine::context::Context;
use bailiwick_engine::options::SandboxLevel;
use bailiwick_engine::preconditions;
use bailiwick_engine::rejecting::reject;
use bailiwick_engine::verifying::{AgentWork, WorkOptions};
use clap::Args;

use super::{land, ledger, prepare};
use crate::failure::Failure;
use crate::interrupt;
use crate::output::{self, BOLD, DIM, styled};

/// Watch three scripted agents in a temporary repository
///
/// One does its task, one tries ten ways to break its limits, one makes a change that breaks only
/// when it is merged. Needs git and a sandbox, and changes nothing outside of the temporary repository.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  bailiwick demo\n  bailiwick demo --keep")]
pub struct Demo {
    /// Keep the repository and print its path
    #[arg(long)]
    keep: bool,
    /// Show the demo in this directory, which another process of it has created
    #[arg(long, hide = true, value_name = "DIR")]
    place: Option<PathBuf>,
}

impl Demo {
    /// Runs the command.
    pub fn run(self) -> Result<(), Failure> {
        match &self.place {
            Some(place) => {
                // The parent process handles the signals, and passes them on.
                interrupt::begin();
                show(place)
            }
            None => self.supervise(),
        }
    }

    /// Runs it in a separate process, so that Ctrl-C leaves nothing behind.
    fn supervise(&self) -> Result<(), Failure> {
        preconditions::require_sandbox(SandboxLevel::Full)?;
        match interruptible::run(self.keep)? {
            Some(kept) => {
                output::line(format_args!("Kept: {}", kept.join("greetings").display()));
                let state = kept.join("state");
                output::line(format_args!("State: BAILIWICK_STATE={}", state.display()));
            }
            None => output::line("The temporary repository was removed; --keep keeps it."),
        }
        own_agent();
        Ok(())
    }
}

fn show(place: &Path) -> Result<(), Failure> {
    let context = scene::make(place)?;
    output::line(
        "A small repository. Three agents work on it at the same time: `farewell` does its task, \
         `rogue`\nbreaks its limits, and `rename` changes code that others use.",
    );
    explain_limits(&context)?;
    chapter(2, "Stopped: at the tool call, and at the system call", "bailiwick run TASK.toml");
    stage::run(&context, &scene::AGENTS)?;
    checked(&context)?;
    chapter(4, "Recorded", "bailiwick ledger tree");
    ledger::Ledger::tree().run(&context)?;
    output::line("");
    Ok(())
}

fn explain_limits(context: &Context) -> Result<(), Failure> {
    let task = scene::task_file("farewell");
    chapter(1, "Told: limits are written down once", &format!("bailiwick prepare {task}"));
    output::line(styled(DIM, format_args!("{}:", scene::ROLE_FILE)));
    output::line(scene::ROLE.trim_end());
    let format = prepare::Shape::Human;
    let prepare = prepare::Prepare { task: task.into(), agent_id: None, format };
    let prompt = prepare.invocation(context)?.0.to_string();
    output::line(styled(DIM, "and from it, the start of the agent's prompt:"));
    for line in prompt.lines().skip_while(|line| !line.starts_with('#')).take(12) {
        output::line(format_args!("  {line}"));
    }
    output::line(styled(DIM, "  … a section for each limit, then the task"));
    Ok(())
}

fn checked(context: &Context) -> Result<(), Failure> {
    chapter(
        3,
        "Checked: on the tree that would land, and only that lands",
        "bailiwick land farewell; bailiwick land rename; bailiwick land rogue",
    );
    for (agent, why) in [
        ("farewell", "Its work passes all checks, merged onto today's main: it lands."),
        (
            "rename",
            "It passes alone. Merged with what has landed since, it breaks: it does not land.",
        ),
        ("rogue", "What was denied never happened; what is left fails its checks."),
    ] {
        output::line(format_args!("\n{} {why}", styled(BOLD, agent)));
        let id = scene::id(agent)?;
        match land::Land::plain(id.clone()).run(context) {
            Ok(()) => {}
            Err(Failure::AlreadyReported(_)) => {
                let subject = AgentWork::of_agent(context, &id, &WorkOptions::default())?;
                reject(&subject, &id, Some("its work failed its checks"))?;
                output::line(format_args!("rejected  {agent}: its work is kept and will not land"));
            }
            Err(other) => return Err(other),
        }
    }
    Ok(())
}

fn own_agent() {
    output::line(styled(BOLD, "\nThe same with your own agent:"));
    for line in [
        "  cd your-project && bailiwick init      # limits and an example task",
        "  bailiwick doctor                       # is claude, codex, gemini, opencode there?",
        "  git add .bailiwick && git commit -m 'Say what agents may do here'",
        "  export ANTHROPIC_API_KEY=…             # or, below: --login subscription",
        "  bailiwick run .bailiwick/tasks/example.toml",
    ] {
        output::line(line);
    }
    output::next_step("cd your-project && bailiwick init");
}

fn chapter(number: u8, title: &str, command: &str) {
    output::line(format_args!("\n{}", styled(BOLD, format_args!("── {number}. {title}"))));
    output::line(styled(DIM, format_args!("$ {command}")));
}

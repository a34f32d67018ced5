//! The `Capability` trait of the kei tools, over the same gates and checks that everything else uses.
//!
//! A program that embeds capabilities finds one by name with [`find`] and calls it as in the registry of the
//! kei tools. Any error is a denial or a failure.

use std::collections::HashMap;
use std::path::Path;

use bailiwick_engine::failure::Failure as ServiceFailure;
use bailiwick_engine::options::CheckOptions;
use bailiwick_engine::verifying::{AgentWork, WorkOptions};
use bailiwick_kit::{FoundCapability, Kit};
use bailiwick_lifecycle::verification;
use bailiwick_model::capability::RunMode;
use bailiwick_model::{AgentId, Problem, Source, Task};
use bailiwick_policy::decision::Outcome;
use bailiwick_policy::dialects::Dialect;
use bailiwick_policy::tool;
use bailiwick_verify::Verdict;
use serde_json::{Value, json};

use super::check::{self, CheckError};
use crate::commands::options;
use crate::failure::Failure;

/// A limit or duty: stops a tool call, checks the work, or both.
pub trait Capability: Send + Sync {
    /// `<category>::<slug>`
    fn name(&self) -> &str;

    /// Before a tool call.
    fn check(&self, _context: &GateContext<'_>) -> GateDecision {
        GateDecision::NotApplicable
    }

    /// After the agent has returned.
    fn verify(&self, _context: &VerifyContext<'_>) -> VerifyResult {
        VerifyResult::Pass
    }
}

/// A task.toml with its text.
#[derive(Debug, Clone)]
pub struct TaskSpec {
    task: Task,
    source: Source,
}

impl TaskSpec {
    /// Reads a task.
    pub fn parse(file: &str, text: &str) -> Result<Self, Problem> {
        let source = Source::new(file.to_owned(), text.to_owned());
        Ok(Self { task: Task::parse(&source)?, source })
    }

    /// The task.
    pub fn task(&self) -> &Task {
        &self.task
    }
}

/// A tool call, and what it happens under.
#[derive(Debug, Clone, Copy)]
pub struct GateContext<'a> {
    /// The name of the tool in Claude Code.
    pub tool_name: &'a str,
    /// Its arguments.
    pub tool_input: &'a Value,
    /// The task.
    pub task: &'a TaskSpec,
    /// The environment: bypasses, `WORKTREE_PATH`, `MAIN_REPO`.
    pub env: &'a HashMap<String, String>,
}

/// The decision of a gate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GateDecision {
    /// It may run.
    Allow,
    /// It may not.
    Deny {
        /// Why, and what is allowed instead.
        reason: String,
    },
    /// The capability does not apply to such calls.
    NotApplicable,
}

/// The agent and the place of its work.
#[derive(Debug, Clone, Copy)]
pub struct VerifyContext<'a> {
    /// The agent.
    pub agent_id: &'a str,
    /// Its task.
    pub task: &'a TaskSpec,
    /// Its worktree.
    pub worktree_path: &'a Path,
    /// The repository that the work is to land in.
    pub main_repo: &'a Path,
    /// On which trees.
    pub run_mode: RunMode,
}

/// The result of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VerifyResult {
    /// It passes.
    Pass,
    /// It does not.
    Fail {
        /// Why.
        reason: String,
        /// The details.
        detail: Option<String>,
    },
}

/// Why there is no such capability.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct FindError(CheckError);

/// The capability of this name, in the embedded kit or in the one given.
pub fn find(name: &str, kit: Option<&Kit>) -> Result<Box<dyn Capability>, FindError> {
    let embedded = Kit::over_embedded(Vec::new());
    let found = check::find(kit.unwrap_or(&embedded), name).map_err(FindError)?;
    Ok(Box::new(KitCapability { name: found.declared.name().to_string(), found }))
}

struct KitCapability {
    name: String,
    found: FoundCapability,
}

impl Capability for KitCapability {
    fn name(&self) -> &str {
        &self.name
    }

    fn check(&self, context: &GateContext<'_>) -> GateDecision {
        let declared = &self.found.declared;
        if !declared.has_gate() {
            return GateDecision::NotApplicable;
        }
        // A capability without a list of tools applies to all.
        let tools = declared.gate.as_ref().and_then(|gate| gate.get_ref().tools());
        let name = tool::in_vocabulary(context.tool_name);
        let looks = |written: &&str| tool::matches(&tool::in_vocabulary(written), &name);
        if tools.is_some_and(|tools| !tools.iter().any(looks)) {
            return GateDecision::NotApplicable;
        }
        match self.decided(context) {
            Ok(decision) => decision,
            Err(error) => GateDecision::Deny { reason: error.to_string() },
        }
    }

    fn verify(&self, context: &VerifyContext<'_>) -> VerifyResult {
        match self.verified(context) {
            Ok(result) => result,
            Err(failure) => VerifyResult::Fail { reason: failure_text(&failure), detail: None },
        }
    }
}

impl KitCapability {
    fn decided(&self, context: &GateContext<'_>) -> Result<GateDecision, CheckError> {
        let variable = |name: &str| context.env.get(name).filter(|text| !text.is_empty()).cloned();
        let payload = json!({
            "hook_event_name": "PreToolUse",
            "tool_name": context.tool_name,
            "tool_input": context.tool_input,
        });
        let payload = payload.to_string();
        let call = Dialect::Claude.read(payload.as_bytes(), &[])?;
        let facts = check::host_context(&call, &variable)?.facts();
        let kit = check::kit(None, Path::new(&facts.root), &variable);
        let policy = check::policy(&kit, &self.found, &context.task.source, &variable)?;
        let decision = check::judged(&policy, &call, facts);
        Ok(match decision.outcome {
            Outcome::Allow => GateDecision::Allow,
            Outcome::Ask | Outcome::Deny => {
                let reason = decision.because.map_or_else(
                    || "it is not allowed".to_owned(),
                    |because| format!("{}; {}", because.reason, because.instead),
                );
                GateDecision::Deny { reason }
            }
        })
    }

    fn verified(&self, context: &VerifyContext<'_>) -> Result<VerifyResult, Failure> {
        let unusable = |error: &dyn std::fmt::Display| Failure::general(error.to_string());
        let planned = match verification::of_capability(&self.found) {
            Ok(planned) => planned,
            // As in the kei tools: a capability that only has a gate has nothing to verify.
            Err(verification::NoCheck::GateOnly { .. }) => return Ok(VerifyResult::Pass),
            Err(error) => return Err(unusable(&error)),
        };
        let agent = AgentId::parse(context.agent_id).map_err(|error| unusable(&error))?;
        let work_options = WorkOptions {
            worktree: Some(context.worktree_path.to_path_buf()),
            main_repository: Some(context.main_repo.to_path_buf()),
            ..WorkOptions::default()
        };
        let kit_root = super::kit_root_in(context.main_repo);
        let working_context = options::observe(kit_root, None)?;
        let subject = AgentWork::of_source(
            &working_context,
            &context.task.source,
            Some(agent),
            &work_options,
        )?;
        let planned = verification::PlannedCheck { on: context.run_mode, ..planned };
        let options = CheckOptions::default();
        let done = subject.run_checks(vec![planned], context.run_mode, options, &mut |_| {})?;
        let failed = done.failed().find_map(|failed| match &failed.verdict {
            Verdict::Fail { reason, detail } => Some((reason.clone(), detail.clone())),
            Verdict::Pass { .. } => None,
        });
        Ok(match failed {
            Some((reason, detail)) => VerifyResult::Fail { reason, detail },
            None if done.results.is_empty() => {
                VerifyResult::Fail { reason: "nothing was measured".to_owned(), detail: None }
            }
            None => VerifyResult::Pass,
        })
    }
}

fn failure_text(failure: &Failure) -> String {
    match failure {
        Failure::Service(ServiceFailure::Problems(problems)) => {
            problems.first().map_or_else(String::new, ToString::to_string)
        }
        Failure::Service(failure) => failure.to_string(),
        Failure::AlreadyReported(code) => format!("it ended with {code}"),
    }
}

//! The limits of an agent: every rule with the file that states it, and what they say to a command.

use std::collections::BTreeMap;
use std::path::Path;

use bailiwick_fleet::ports::{
    LocalAskingRule, LocalExplanation, LocalRule, LocalRunError, LocalRunPolicy, LocalToolCall,
    LocalVerdict,
};
use bailiwick_gate::{HostContext, look_up, look_up_in_root};
use bailiwick_model::Run;
use bailiwick_model::capability::GateSeverity;
use bailiwick_policy::call::{Action, Call};
use bailiwick_policy::decide::{Verdict, decide_effects, lookups, verdicts};
use bailiwick_policy::decision::Outcome;
use bailiwick_policy::path_policy::EnforcedBy;
use bailiwick_policy::paths::write_targets;
use bailiwick_policy::tool::{Tool, ToolName};
use bailiwick_policy::{Decision, Effects, Facts, Policy};
use serde_json::Value;

use super::{LedgerRuns, error, store_error};
use crate::{policy_file, running};

impl LedgerRuns {
    pub(super) fn read_policy(&self, run: &Run) -> Result<LocalRunPolicy, LocalRunError> {
        let recorded = policy_file::recorded(&self.directory(run)).map_err(missing(run))?;
        // The commit of a rule can be gone; the rule still binds.
        let files = self.bound(run).map(|bound| {
            let file = |found: &bailiwick_kit::FoundCapability| {
                let name = found.declared.capability.name.get_ref().to_string();
                (name, found.source.file.to_string())
            };
            bound.capabilities.iter().map(file).collect()
        });
        Ok(run_policy(&recorded.policy, &recorded.digest, &files.unwrap_or_default()))
    }

    /// The rule that makes the gate ask before a call; none if the policy does not say it.
    pub(super) fn asking_rule(&self, run: &Run, call: &LocalToolCall) -> Option<LocalAskingRule> {
        let command = call.input.get("command").and_then(Value::as_str);
        let action = command.map_or(Action::NoKnownEffect, |text| Action::Shell(text.to_owned()));
        let decision = self.evaluate(run, &call.tool, action, Reader::Gate).ok()?.decision;
        let because = decision.because.filter(|_| decision.outcome == Outcome::Ask)?;
        Some(LocalAskingRule { rule: because.rule, reason: because.reason })
    }

    fn evaluate(
        &self,
        run: &Run,
        tool: &str,
        action: Action,
        reader: Reader,
    ) -> Result<PolicyEvaluation, LocalRunError> {
        let directory = self.directory(run);
        let policy = policy_file::recorded(&directory).map_err(missing(run))?.policy;
        let worktree = run.worktree_path.clone().unwrap_or_default();
        let sandbox = self.proven_sandbox(run)?;
        // As the gate of the run decides.
        let enforcement = running::recorded_enforcement(sandbox.as_deref());
        let host = HostContext::rooted_at(Path::new(&worktree))
            .map_err(|error| LocalRunError::Unavailable(error.to_string()))?
            .with_home(&directory.home())
            .with_enforcement(enforcement);
        let call = Call {
            cli_tool_name: tool.to_owned(),
            tools: Tool::named(tool).map(ToolName::of).into_iter().collect(),
            action,
            directory: Some(worktree),
            ungated_terminal_input: false,
            id: None,
            agent: None,
        };
        let mut facts = host.facts();
        let effects = Effects::of(&call);
        let lookups = lookups(&call, &effects, &facts);
        match reader {
            Reader::Gate => look_up(&lookups, &call, &mut facts),
            Reader::Person => look_up_in_root(&lookups, &call, &mut facts),
        }
        Ok(PolicyEvaluation {
            decision: decide_effects(&policy, &call, &effects, &facts),
            verdicts: verdicts(&policy, &call, &effects, &facts),
            effects,
            facts,
            sandbox,
        })
    }

    /// The sandbox level of the last attempt; none before the first one.
    fn proven_sandbox(&self, run: &Run) -> Result<Option<String>, LocalRunError> {
        let attempts = self.open()?.with(async |store| store.attempts(Some(&run.id)).await);
        let attempts = attempts.map_err(store_error)?;
        Ok(attempts.last().map(|attempt| attempt.sandbox.clone()).filter(|level| !level.is_empty()))
    }

    pub(super) fn explain_command(
        &self,
        run: &Run,
        command: &str,
    ) -> Result<LocalExplanation, LocalRunError> {
        let PolicyEvaluation { decision, verdicts, effects, facts, sandbox } =
            self.evaluate(run, "Bash", Action::Shell(command.to_owned()), Reader::Person)?;
        let because = decision.because;
        let programs = effects.runs.iter().map(|run| {
            let words: Vec<String> = run.argv.iter().map(ToString::to_string).collect();
            words.join(" ")
        });
        let writes = write_targets(&effects, &facts).into_iter().map(|target| target.shown);
        Ok(LocalExplanation {
            decision: match decision.outcome {
                Outcome::Allow => "allow",
                Outcome::Ask => "ask",
                Outcome::Deny => "deny",
            }
            .to_owned(),
            rule: because.as_ref().map(|objection| objection.rule.clone()),
            reason: because.as_ref().map(|one| one.reason.clone()).unwrap_or_default(),
            instead: because.map(|one| one.instead).unwrap_or_default(),
            runs: programs.collect(),
            writes: writes.collect(),
            left_to_sandbox: decision.left_to_sandbox,
            verdicts: verdicts.iter().filter(|one| one.applies).map(local_verdict).collect(),
            sandbox,
        })
    }
}

/// Who chooses the call, and reads what the policy says to it.
#[derive(Debug, Clone, Copy)]
enum Reader {
    /// The agent chose it; only the rule is shown.
    Gate,
    /// A person who may read the run, and perhaps no other file of this machine.
    Person,
}

/// What a policy says to a call.
struct PolicyEvaluation {
    decision: Decision,
    verdicts: Vec<Verdict>,
    effects: Effects,
    facts: Facts,
    /// The sandbox level that it applies to.
    sandbox: Option<String>,
}

fn missing(run: &Run) -> impl Fn(crate::failure::Failure) -> LocalRunError {
    let message =
        format!("the policy of `{}` cannot be read: its files were removed or changed", run.name);
    move |failure| match error(failure) {
        // The reason names files of this machine.
        LocalRunError::Unavailable(_) => {
            LocalRunError::Refused { message: message.clone(), advice: None }
        }
        other @ (LocalRunError::NotFound(_) | LocalRunError::Refused { .. }) => other,
    }
}

fn local_verdict(verdict: &Verdict) -> LocalVerdict {
    let word = match (&verdict.objection, verdict.severity) {
        (None, _) => "allow",
        (Some(_), GateSeverity::Block) => "deny",
        (Some(_), GateSeverity::Warn) => "warn",
        (Some(_), GateSeverity::Advisory) => "advisory",
    };
    let objection = verdict.objection.as_ref();
    LocalVerdict {
        rule: verdict.rule.clone(),
        verdict: word.to_owned(),
        reason: objection.map(|one| one.reason.clone()).unwrap_or_default(),
        instead: objection.map(|one| one.instead.clone()).unwrap_or_default(),
    }
}

fn severity(severity: GateSeverity) -> &'static str {
    match severity {
        GateSeverity::Block => "block",
        GateSeverity::Warn => "warn",
        GateSeverity::Advisory => "advisory",
    }
}

/// A policy as people read it, with the file of each rule.
fn run_policy(policy: &Policy, digest: &str, files: &BTreeMap<String, String>) -> LocalRunPolicy {
    let mut rules = Vec::new();
    for (index, bound) in policy.all().enumerate() {
        let of = bound.limit_owner.as_ref().or(bound.agent.as_ref()).unwrap_or(&bound.role);
        let above = (index > 0).then(|| of.clone());
        rules.extend(bound.rules.iter().map(|rule| LocalRule {
            rule: rule.capability.clone(),
            // The files are those of the agent's own role.
            file: match above {
                None => files.get(&rule.capability).cloned().unwrap_or_default(),
                Some(_) => String::new(),
            },
            severity: severity(rule.severity).to_owned(),
            enforced_by: rule.gate.map_or(EnforcedBy::Text, EnforcedBy::of).as_str().to_owned(),
            tools: rule.tools.clone(),
            commands: rule.patterns.written.clone(),
            above: above.clone(),
        }));
    }
    let needs_approval =
        policy.ask_commands.iter().flat_map(|patterns| patterns.written.iter().cloned());
    LocalRunPolicy {
        digest: digest.to_owned(),
        role: policy.role.clone(),
        rules,
        writable: policy.whitelist.clone(),
        denied: policy.denylist.clone(),
        tools: policy.tools.clone(),
        approval: policy.approval.iter().cloned().chain(needs_approval).collect(),
        is_read_only: policy.read_only,
        bypassed: policy.bypassed.clone(),
    }
}

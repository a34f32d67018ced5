//! Writes the result of a run to its issue.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use bailiwick_fleet::write_back::calling_nobody;
use bailiwick_memory::{CascadeEntry, Family, LabelChange, RunResult as IssueResult, Violation};
use bailiwick_model::AgentId;
use bailiwick_model::attempt::Attempt;
use bailiwick_model::event::ExitReason;
use bailiwick_resources::Moment;
use bailiwick_runner::supervisor::RunDirectory;
use serde_json::json;

use super::{EnteredIssue, PENDING, next_tokens, remove};
use crate::context::Context;
use crate::failure::Failure;
use crate::issues::OpenIssues;
use crate::running::hand_off::{self, HandOff, HandOffRefusal};
use crate::running::service::RunResult;
use crate::running::{first_line, issue_cascade, issue_work};
use crate::{claiming, issues, system};

/// The file of a run that handed its issue to another agent.
const NEXT_AGENT_FILE: &str = "issue-handed-on";

impl EnteredIssue {
    /// Leaves the result of the run. What the forge does not take now is left later, by `complete_pending`.
    pub(in crate::running) fn leave(mut self, context: &Context, result: Option<&RunResult>) {
        let verification = result.and_then(|result| result.verification.as_ref());
        self.verified = verification.map(|report| report.failed.is_empty());
        let directory = RunDirectory::new(&context.state, self.run.as_str());
        let mut written = system::write_json(&directory.path().join(PENDING), &self)
            .and_then(|()| self.complete(context, &directory));
        // The token may have been replaced since the run began.
        if let Err(Failure::Refused { .. }) = &written
            && self.opened.take().is_some()
        {
            written = self.complete(context, &directory);
        }
        if let Err(failure) = written {
            context.notices.note(format_args!(
                "{} was not updated ({failure}); the next run, or `bailiwick serve`, does it",
                self.issue
            ));
        }
    }

    /// Writes the result to the issue, unless nothing happened.
    fn complete(&self, context: &Context, directory: &RunDirectory) -> Result<(), Failure> {
        let pending = directory.path().join(PENDING);
        let all = context.with_store(async |store| Ok(store.attempts(Some(&self.run)).await?))?;
        let own: Vec<&Attempt> = all.iter().skip(self.attempts).collect();
        let opened = match &self.opened {
            Some(opened) => Arc::clone(opened),
            None => Arc::new(issues::open_named(&self.here(context), &self.issue)?),
        };
        // It was refused or killed before its agent began: nothing happened.
        let Some(first) = own.first() else {
            self.unreserve(context, &opened)?;
            return remove(&pending);
        };
        let cascade = issue_cascade::below(context, &self.run, first.started_at)?;
        let message = hand_off::last_message(context, &self.run, first.started_at)?;
        let mut result = self.result(&own, cascade, message.as_deref());
        let mut violations = issue_cascade::disallowed(context, &self.run, first.started_at)?;
        violations.extend(self.quarantine(&own));
        self.add_next_agent(context, &opened, message.as_deref(), &mut result, &mut violations)?;
        let next_agent_file = directory.path().join(NEXT_AGENT_FILE);
        match &result.next_agent {
            // Before the label is set that starts the next agent.
            Some(agent) => system::write_whole(&next_agent_file, agent)?,
            None => remove(&next_agent_file)?,
        }
        result.labels.remove.clone_from(&self.agent_labels);
        result.labels.remove.retain(|label| !result.labels.add.contains(label));
        self.write_result(context, &opened, &result, &violations)?;
        self.unreserve(context, &opened)?;
        remove(&pending)
    }

    /// Adds the agent that the last message names as the next one, with its label and the files for it, or the limit that
    /// the name breaks.
    fn add_next_agent(
        &self,
        context: &Context,
        opened: &OpenIssues,
        message: Option<&str>,
        result: &mut IssueResult,
        violations: &mut Vec<String>,
    ) -> Result<(), Failure> {
        let message = message.unwrap_or_default();
        match hand_off::decide(message, &self.may_name, &self.agent) {
            HandOff::Nobody => {}
            HandOff::To(name) if result.verdict == "pass" && violations.is_empty() => {
                result.labels.add.push(format!("{}::{name}", Family::Agent.as_str()));
                let (run, issue) = (&self.run, &self.issue);
                result.work_commit =
                    issue_work::store_work(context, run, issue, opened, self.work_storage)?;
                result.rationale = hand_off::rationale(message);
                result.estimated_next_tokens =
                    next_tokens::estimate(context, run, &name, &self.used_by_agents);
                result.next_agent = Some(name);
            }
            // Work that did not pass is no one else's to continue, and after a broken limit a person looks first.
            HandOff::To(name) => {
                let why = if violations.is_empty() {
                    format!("did not pass: {}", result.verdict)
                } else {
                    "broke a limit".to_owned()
                };
                result.rationale = Some(format!("It named `{name}` as the next agent, but {why}."));
            }
            HandOff::Refused { name, why } => {
                context.notices.note(format_args!(
                    "`{}` cannot hand {} to `{name}`: {why}",
                    self.run, self.issue
                ));
                let name = hand_off::shown(&name).replace('`', "'");
                let text =
                    format!("It named `{name}` as the next agent, which was refused: {why}.");
                result.rationale = Some(calling_nobody(&text));
                if let HandOffRefusal::NotAllowed(_) = why {
                    let run = &self.run;
                    violations.push(format!(
                        "`{run}` named `{name}` as the next agent, which it may not name."
                    ));
                }
            }
        }
        Ok(())
    }

    /// Why it was quarantined, if it was.
    fn quarantine(&self, own: &[&Attempt]) -> Option<String> {
        let quarantined = own.iter().find(|attempt| {
            matches!(attempt.ending, Some(ExitReason::EnforcementLost | ExitReason::Denied))
        });
        quarantined.map(|attempt| {
            format!("`{}` was quarantined: {}", self.run, first_line(&attempt.detail))
        })
    }

    /// Writes the result, and an alert if it or a sub-agent broke a limit.
    fn write_result(
        &self,
        context: &Context,
        opened: &OpenIssues,
        result: &IssueResult,
        violations: &[String],
    ) -> Result<(), Failure> {
        let report = opened.with(async |protocol| {
            let number = self.issue.number;
            let report = protocol.exit(number, result).await?;
            if !violations.is_empty() {
                let (violation, text) = (Violation::Limit, violations.join("\n"));
                protocol.alert(number, &self.agent, &self.invocation, violation, &text).await?;
            }
            Ok(report)
        })?;
        for problem in report.problems {
            context.notices.note(format_args!("{}: {problem}", self.issue));
        }
        Ok(())
    }

    /// What the checks say about the work. Without a result, an earlier one no longer holds.
    fn quality_label(&self) -> String {
        let quality = match self.verified {
            Some(true) => "passed",
            Some(false) => "failed",
            None => "unchecked",
        };
        format!("{}::{quality}", Family::Quality.as_str())
    }

    fn result(
        &self,
        own: &[&Attempt],
        cascade: Vec<CascadeEntry>,
        message: Option<&str>,
    ) -> IssueResult {
        let last = own.last();
        let ending = last.and_then(|attempt| attempt.ending);
        let is_unchecked = self.checks && self.verified.is_none();
        let verdict = match (ending, self.verified) {
            // Only what its checks have passed may set a phase and start the next agent.
            (Some(ExitReason::Completed), None) if is_unchecked => "blocked",
            (Some(ExitReason::Completed), Some(true) | None) => "pass",
            (Some(ExitReason::Completed), Some(false)) | (Some(ExitReason::Failed) | None, _) => {
                "fail"
            }
            (
                Some(
                    ExitReason::EnforcementLost
                    | ExitReason::Denied
                    | ExitReason::Stopped
                    | ExitReason::TimedOut
                    | ExitReason::BudgetExhausted
                    | ExitReason::CutOff,
                ),
                _,
            ) => "blocked",
        };
        let ending_name = ending.map_or("cut off", ExitReason::as_str);
        let detail = last.map(|attempt| first_line(&attempt.detail)).unwrap_or_default();
        let unchecked = match ending {
            Some(ExitReason::Completed) if is_unchecked => "Its checks did not end.",
            Some(_) | None => "",
        };
        let own_tokens = own.iter().map(|attempt| attempt.used.tokens);
        let cascade_tokens = cascade.iter().map(|entry| entry.tokens);
        let consumed = own_tokens.chain(cascade_tokens).fold(0, u64::saturating_add);
        let has_passed = verdict == "pass";
        let phase = self.phase.as_ref().filter(|_| has_passed);
        IssueResult {
            agent: self.agent.clone(),
            invocation: self.invocation.clone(),
            parent: self.parent.clone(),
            depth: self.depth,
            phase: phase.map(ToString::to_string).unwrap_or_default(),
            action: sentences(&[
                &format!("`{}` ended: {ending_name}.", self.run),
                &detail,
                unchecked,
            ]),
            // As JSON, the message of the agent is data to everybody who reads it.
            result: json!({
                "run": self.run,
                "ending": ending_name,
                "checks_passed": self.verified,
                "message": message.map(hand_off::shown),
            }),
            verdict: verdict.to_owned(),
            consumed,
            labels: LabelChange { add: vec![self.quality_label()], remove: Vec::new() },
            milestone: self.milestone.filter(|_| has_passed),
            next_agent: None,
            rationale: None,
            estimated_next_tokens: None,
            work_commit: None,
            cascade,
            ended_at: last.and_then(|attempt| attempt.ended_at).map(Moment::from_millis),
        }
    }
}

/// The texts that are not empty, one after the other.
fn sentences(texts: &[&str]) -> String {
    let texts = texts.iter().map(|text| text.trim()).filter(|text| !text.is_empty());
    texts.collect::<Vec<_>>().join(" ")
}

/// Gives back the claims of a run whose work has left this machine. One that handed its issue on keeps them for the next
/// agent.
pub fn give_back_claims(context: &Context, run: &AgentId) -> Result<(), Failure> {
    if is_handed_on(context, run) { Ok(()) } else { claiming::give_back(context, run) }
}

/// Whether a run has handed its issue to another agent, or may still do so: its result is not on the issue yet.
fn is_handed_on(context: &Context, run: &AgentId) -> bool {
    let directory = RunDirectory::new(&context.state, run.as_str());
    [NEXT_AGENT_FILE, PENDING].iter().any(|file| directory.path().join(file).exists())
}

/// Records the result of a run that the caller has locked, unless that was done.
pub fn complete(context: &Context, run: &AgentId) {
    let directory = RunDirectory::new(&context.state, run.as_str());
    let written = pending(directory.path()).and_then(|entered| {
        entered.map_or(Ok(()), |entered| entered.complete(context, &directory))
    });
    if let Err(failure) = written {
        context.notices.note(format_args!("the issue of `{run}` was not updated: {failure}"));
    }
}

/// Leaves the results that issues do not have yet, because the supervisor was killed or the forge did not answer. What
/// cannot be written now is noted, and written at the next call.
pub fn complete_pending(context: &Context) {
    if let Err(failure) = complete_all(context, None) {
        context.notices.note(format_args!("results of runs were not recorded: {failure}"));
    }
}

/// The same before a run enters its issue. `locked` is that run, whose own result must be left.
pub(super) fn complete_all(
    context: &Context,
    locked: Option<&RunDirectory>,
) -> Result<(), Failure> {
    let Ok(entries) = std::fs::read_dir(context.state.join("runs")) else { return Ok(()) };
    // Every further question to a forge that does not answer would wait again.
    let mut unanswered = BTreeSet::new();
    for entry in entries.flatten() {
        let Some(entered) = pending(&entry.path())? else { continue };
        let directory = RunDirectory::new(&context.state, entered.run.as_str());
        if locked.is_some_and(|locked| locked.path() == directory.path()) {
            entered.complete(context, &directory)?;
            continue;
        }
        let repository = entered.issue.repository.clone();
        if repository.is_some() && unanswered.contains(&repository) {
            continue;
        }
        let Ok(Some(_lock)) = directory.lock() else { continue };
        // The run may have ended meanwhile, and left its result itself.
        let Some(entered) = pending(directory.path())? else { continue };
        let (run, issue) = (&entered.run, &entered.issue);
        context.notices.progress(format_args!("recording the result of `{run}` on {issue} …"));
        if let Err(failure) = entered.complete(context, &directory) {
            // Another issue does not stop this one.
            context.notices.note(format_args!("{issue} was not updated: {failure}"));
            if matches!(failure, Failure::Failed { .. }) {
                unanswered.insert(repository);
            }
        }
    }
    Ok(())
}

/// The result that a run has not left yet.
fn pending(run: &Path) -> Result<Option<EnteredIssue>, Failure> {
    system::read_json(&run.join(PENDING))
}

//! Actions on agents: stop, message, resume, verify, land, reject, respawn, roll back, remove.

use bailiwick_fleet::ports::{LocalOutcome, LocalRunError, LocalVerb};
use bailiwick_lifecycle::verification::{CheckResult, Progress};
use bailiwick_model::capability::RunMode;
use bailiwick_model::{AgentId, Run};
use bailiwick_runner::supervisor::{Reply, Request};
use bailiwick_verify::{Pass, Verdict};

use super::{LedgerRuns, error};
use crate::background::{self, Input, ResumeOptions};
use crate::context::Context;
use crate::landing::{self, LandFailure, LandRequest, LandStage, LandedRecord};
use crate::options::{CheckOptions, RunOptions};
use crate::rejecting;
use crate::removing::{self, RemoveWork, Removed};
use crate::respawning::Respawn;
use crate::rollback::{Rollback, RollbackFailure};
use crate::running::{control, recover};
use crate::verifying::{AgentWork, SnapshotStart, VerificationReport, WorkOptions};

impl LedgerRuns {
    pub(super) fn perform(
        &self,
        run: &Run,
        verb: LocalVerb,
        text: &str,
        tell: &mut dyn FnMut(String),
    ) -> Result<LocalOutcome, LocalRunError> {
        recover::record_interrupted_runs(&self.context).map_err(error)?;
        let facts = self.facts(run)?;
        let text = text.trim();
        let refused = |message: String| Err(LocalRunError::Refused { message, advice: None });
        if let Some(why) = facts.impossible(verb) {
            return refused(format!("cannot {} `{}`: {why}", verb.as_str(), run.name));
        }
        if text.is_empty() && facts.needs_text(verb) {
            return refused("the message is empty".to_owned());
        }
        let message_text = (!text.is_empty()).then_some(text);
        let name = &run.name;
        let outcome = |message: String| LocalOutcome { run: run.id.to_string(), message };
        match verb {
            LocalVerb::Stop => {
                let why = message_text.unwrap_or("stopped from the web page");
                control::stop(&self.context, &run.id, why).map_err(error)?;
                Ok(outcome(format!("stopped {name}; its work is kept")))
            }
            LocalVerb::Message => {
                let request = Request::Message { text: text.to_owned() };
                match control::ask(&self.context, &run.id, &request).map_err(error)? {
                    Reply::Done | Reply::Status(_) => Ok(outcome(format!("sent to {name}"))),
                    Reply::Refused(message) => {
                        Err(LocalRunError::Refused { message, advice: None })
                    }
                }
            }
            LocalVerb::Resume => {
                let context = self.beside(run)?;
                let again = ResumeOptions { words: message_text, budget: Vec::new() };
                background::resume(&context, &run.id, &RunOptions::default(), &again)
                    .map_err(error)?;
                Ok(outcome(format!("{name} continues")))
            }
            LocalVerb::Verify => {
                let report = verify(&self.beside(run)?, run, tell)?;
                match report.failed.is_empty() {
                    true => Ok(outcome(format!("{name}: {}", report.summary()))),
                    false => refused(format!("{name}: {}", report.summary())),
                }
            }
            LocalVerb::Land => {
                let landed = land(&self.beside(run)?, run, tell)?;
                let branch = landed.branch.trim_start_matches("refs/heads/");
                Ok(outcome(format!("landed {name} as {:.12} on {branch}", landed.commit)))
            }
            LocalVerb::Reject => {
                let context = self.beside(run)?;
                let subject = AgentWork::of_agent(&context, &run.id, &WorkOptions::default());
                let subject = subject.map_err(error)?;
                let _lock = subject.lock(&run.id).map_err(error)?;
                rejecting::reject(&subject, &run.id, message_text).map_err(error)?;
                Ok(outcome(format!("rejected {name}; its work is kept and does not land")))
            }
            LocalVerb::Respawn => respawn(&self.beside(run)?, run, message_text),
            LocalVerb::Rollback => {
                let context = self.beside(run)?;
                let rollback = Rollback::begin(&context, &run.id).map_err(error)?;
                let checks = Some(CheckOptions::default());
                let reverted = rollback.revert(message_text, checks, &mut |progress| {
                    tell(words(&progress));
                });
                let reverted = reverted.map_err(|failure| match failure {
                    RollbackFailure::Other(failure) => error(failure),
                    RollbackFailure::ChecksFailed(_) => LocalRunError::Refused {
                        message: format!("the checks of the reverted tree of {name} failed"),
                        advice: Some(format!("read them: bailiwick rollback {name}")),
                    },
                })?;
                Ok(outcome(format!("rolled back {name} by {:.12}", reverted.commit)))
            }
            LocalVerb::Remove => {
                let context = self.beside(run)?;
                let (_, removed) =
                    removing::remove(&context, &run.id, RemoveWork::Finished).map_err(error)?;
                Ok(outcome(match removed {
                    Removed::Files => format!("removed the files of {name}; its record stays"),
                    Removed::Nothing => format!("{name} has no files left"),
                }))
            }
        }
    }
}

/// A step of a verification in words.
fn words(progress: &Progress<'_>) -> String {
    match progress {
        Progress::Snapshot => "reading the work".to_owned(),
        Progress::Pass(Pass::Worktree) => "checking the work as it is".to_owned(),
        Progress::Pass(Pass::SimulatedMerge) => "checking the work merged onto the base".to_owned(),
        Progress::Preparing(what) => format!("preparing {what}"),
        Progress::Check(check) => format!("{check} …"),
        Progress::Running(command) => format!("running {command}"),
        Progress::Done(CheckResult { capability, verdict: Verdict::Pass { .. }, .. }) => {
            format!("{capability} passed")
        }
        Progress::Done(CheckResult {
            capability, verdict: Verdict::Fail { reason, .. }, ..
        }) => {
            format!("{capability} failed: {reason}")
        }
    }
}

fn verify(
    context: &Context,
    run: &Run,
    tell: &mut dyn FnMut(String),
) -> Result<VerificationReport, LocalRunError> {
    let options =
        WorkOptions { snapshot_start: SnapshotStart::Immediate, ..WorkOptions::default() };
    let subject = AgentWork::of_agent(context, &run.id, &options).map_err(error)?;
    subject.require_worktree().map_err(error)?;
    subject.recover().map_err(error)?;
    let checks = CheckOptions::default();
    let mut step = |progress: Progress<'_>| tell(words(&progress));
    subject.verify_and_record(RunMode::Both, checks, &[], &mut step).map_err(error)
}

fn land(
    context: &Context,
    run: &Run,
    tell: &mut dyn FnMut(String),
) -> Result<LandedRecord, LocalRunError> {
    let request = LandRequest::of(run.id.clone(), CheckOptions::default());
    let landed = landing::land(context, &request, &mut |stage| match stage {
        LandStage::Checking(_) => {}
        LandStage::Progress(progress) => tell(words(&progress)),
    });
    match landed {
        Ok(landed) => Ok(landed.record),
        Err(LandFailure::Other(failure)) => Err(error(failure)),
        Err(LandFailure::ChecksFailed(report)) => Err(LocalRunError::Refused {
            message: format!("{} did not land: {}", run.name, report.summary()),
            advice: None,
        }),
    }
}

fn respawn(
    context: &Context,
    run: &Run,
    reason: Option<&str>,
) -> Result<LocalOutcome, LocalRunError> {
    let respawn = Respawn::begin(context, &run.id, None).map_err(error)?;
    let reason = reason.map(str::to_owned).or_else(|| respawn.recorded_reason());
    let spawned = respawn.spawn(None, reason.as_deref(), "HEAD").map_err(error)?;
    let id = spawned.agent_id;
    let agent =
        AgentId::parse(&id).map_err(|error| LocalRunError::Unavailable(error.to_string()))?;
    background::begin(context, &agent, &RunOptions::default(), Input::Nothing).map_err(
        |failure| {
            // The new agent is there: its page says what it needs.
            LocalRunError::Refused {
                message: format!("{id} was created and did not start: {failure}"),
                advice: Some(format!("start it: bailiwick run {id}")),
            }
        },
    )?;
    Ok(LocalOutcome { message: format!("{id} is running"), run: id })
}

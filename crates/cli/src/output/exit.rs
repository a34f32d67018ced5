//! The end of a command: its error and exit code.

use bailiwick_engine::failure::Failure as ServiceFailure;
use std::process::ExitCode;

use crate::failure::Failure;

/// Prints why a command failed, and gives the exit code.
pub fn finish(result: Result<(), Failure>) -> ExitCode {
    let Err(failure) = result else {
        let Some(why) = super::unprinted() else { return ExitCode::SUCCESS };
        super::error(&format!("the result could not be printed: {why}"), None);
        return ExitCode::FAILURE;
    };
    match &failure {
        Failure::Service(ServiceFailure::Problems(problems)) => super::problems(problems),
        Failure::Service(
            ServiceFailure::Failed { text, help } | ServiceFailure::Refused { text, help },
        ) => super::error(text, help.as_deref()),
        Failure::Service(at_work @ ServiceFailure::AtWork { .. }) => {
            super::error(&at_work.to_string(), at_work.advice().as_deref());
        }
        Failure::AlreadyReported(_) => {}
    }
    ExitCode::from(failure.code())
}

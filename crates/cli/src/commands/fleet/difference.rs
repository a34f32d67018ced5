//! `bailiwick diff -f`: what `apply` would change.

use std::path::PathBuf;

use bailiwick_engine::failure::Failure as ServiceFailure;
use bailiwick_fleet::resources::ObjectDiff;

use super::access::FleetAccess;
use super::documents;
use crate::failure::Failure;
use crate::output::{self, Format};

/// How a comparison that found something ends.
const DIFFERENT: u8 = 1;

/// Shows what would change. It ends with 0 if nothing would, with 1 if something would, and with 2 if it
/// cannot be said.
pub fn run(fleet: &FleetAccess, files: &[PathBuf], format: Format) -> Result<(), Failure> {
    let found = compare(fleet, files).map_err(comparison_failed)?;
    match format {
        Format::Json => output::json(&found)?,
        Format::Human => found.iter().for_each(|one| output::plain(&one.diff)),
    }
    if found.is_empty() { Ok(()) } else { Err(Failure::AlreadyReported(DIFFERENT)) }
}

/// A failed comparison is not a difference.
fn comparison_failed(failure: Failure) -> Failure {
    match failure {
        Failure::Service(
            ServiceFailure::Failed { text, help } | ServiceFailure::Refused { text, help },
        ) => Failure::usage(text).maybe_help(help),
        Failure::Service(ServiceFailure::Problems(problems)) => {
            output::problems(&problems);
            Failure::AlreadyReported(2)
        }
        at_work @ Failure::Service(ServiceFailure::AtWork { .. }) => at_work,
        Failure::AlreadyReported(code) => Failure::AlreadyReported(code.max(2)),
    }
}

fn compare(fleet: &FleetAccess, files: &[PathBuf]) -> Result<Vec<ObjectDiff>, Failure> {
    let documents = documents::read(&fleet.context, files)?;
    fleet.ask(async |client| {
        let found = client.diff(&documents.objects).await;
        found.map_err(|error| documents.locate(error))
    })
}

#[cfg(test)]
mod tests {
    use super::comparison_failed;
    use crate::failure::Failure;

    #[test]
    fn failed_comparison_is_not_reported_as_a_difference() {
        for failure in [Failure::general("x"), Failure::usage("x"), Failure::AlreadyReported(1)] {
            assert_eq!(comparison_failed(failure).code(), 2);
        }
    }
}

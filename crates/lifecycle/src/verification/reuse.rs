//! Taking a verdict again that was reached on the same tree with the same parameters.
//!
//! Only passing verdicts are stored: the cause of a failure may be gone.

use bailiwick_model::Sha256Hex;
use bailiwick_verify::{Check, ExecutedTests, Job, Needs, Verdict, checks::CheckMethod};

use super::Request;

/// Stored verdicts, for reuse.
pub trait Verdicts {
    /// The stored verdict for this key.
    fn find(&self, key: &str) -> Option<Verdict>;

    /// Stores a verdict; if that fails, the check runs again the next time.
    fn keep(&mut self, key: &str, verdict: &Verdict);

    /// The stored executed tests for this key.
    fn find_executed_tests(&self, key: &str) -> Option<ExecutedTests>;

    /// Stores the executed tests of a job on a tree.
    fn keep_executed_tests(&mut self, key: &str, tests: &ExecutedTests);
}

/// Whether a verdict depends only on trees and parameters, and is worth storing.
pub(super) fn is_reusable(needs: &Needs) -> bool {
    let Needs { texts: _, commits: _, jobs, executed_tests, repository, report, ledger } = needs;
    !jobs.is_empty() && !executed_tests && !repository && !report && !ledger
}

/// The key of a verdict that can be reused. `copied` is the digest of the files that the task copies
/// from the checkout, which are in no tree.
pub(super) fn key(
    request: &Request<'_>,
    check: &Check,
    needs: &Needs,
    (before, tree): (&str, &str),
    copied: &str,
) -> String {
    let jobs = &needs.jobs;
    let how = match &check.method {
        CheckMethod::Module(module) => module.path().to_owned(),
        CheckMethod::Command(line) => format!("command {line}"),
    };
    let preparation = &request.preparation;
    let parts = [
        request.machine_key.clone(),
        check.capability.to_string(),
        how,
        before.to_owned(),
        tree.to_owned(),
        format!("{jobs:?}"),
        format!("{preparation:?}"),
        format!("{:?}", parameters(request)),
        copied.to_owned(),
    ];
    digest(&parts)
}

/// The key of the executed tests of a job on a tree: another task with the same base can reuse them.
pub(super) fn executed_tests_key(
    request: &Request<'_>,
    job: &Job,
    tree: &str,
    copied: &str,
) -> String {
    let preparation = &request.preparation;
    digest(&[
        request.machine_key.clone(),
        "executed tests".to_owned(),
        tree.to_owned(),
        format!("{job:?}"),
        format!("{preparation:?}"),
        copied.to_owned(),
    ])
}

/// Each part with its length, so that no two lists of parts have the same text.
fn digest(parts: &[String]) -> String {
    let text: String = parts.iter().map(|part| format!("{}:{part}", part.len())).collect();
    Sha256Hex::of(text).to_string()
}

/// The numbers of a task that a verdict with jobs depends on.
fn parameters(request: &Request<'_>) -> impl std::fmt::Debug {
    let verification = &request.task.verification;
    verification.test_count_min.as_ref().map(|count| *count.get_ref())
}

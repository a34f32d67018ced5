//! Checking a tree that no agent made: what the base would be without something that has landed.

use std::collections::BTreeMap;
use std::path::Path;

use bailiwick_lifecycle::ports::{
    Base, Commit, LandError, Landed, Landing, Merge, Snapshot, Work, WorkError,
};
use bailiwick_lifecycle::verification::{self, PlannedCheck, Progress, Verification};
use bailiwick_model::capability::RunMode;
use bailiwick_model::module::CheckModule;
use bailiwick_model::{CommitId, TreeId};
use bailiwick_source_control::GitWork;
use bailiwick_verify::Change;
use bailiwick_verify::checks::CheckMethod;
use bailiwick_verify::facts::{RepositoryFacts, Texts};

use super::AgentWork;
use crate::failure::Failure;
use crate::options::CheckOptions;

/// A `Work` implementation with a fixed tree, such as a revert.
struct FixedWork<'a> {
    git: &'a GitWork,
    base: &'a Base,
    work: &'a Snapshot,
}

impl Work for FixedWork<'_> {
    fn base(&self) -> Result<Base, WorkError> {
        Ok(self.base.clone())
    }

    fn snapshot(&self, _base: &Base) -> Result<Snapshot, WorkError> {
        Ok(self.work.clone())
    }

    fn changes(&self, before: &str, after: &str) -> Result<Vec<Change>, WorkError> {
        self.git.changes(before, after)
    }

    fn require_submodule_commits(&self, changes: &[Change]) -> Result<(), WorkError> {
        self.git.require_submodule_commits(changes)
    }

    fn touched(&self, _work: &Snapshot) -> Result<Vec<String>, WorkError> {
        Ok(Vec::new())
    }

    fn commits(&self, _work: &Snapshot) -> Result<Vec<Commit>, WorkError> {
        Ok(Vec::new())
    }

    fn texts(
        &self,
        changes: &[Change],
        paths: &[String],
    ) -> Result<BTreeMap<String, Texts>, WorkError> {
        self.git.texts(changes, paths)
    }

    fn merge(&self, base: &Base, work: &Snapshot) -> Result<Merge, WorkError> {
        self.git.merge(base, work)
    }

    fn with_changes(&self, tree: &TreeId, changes: &[&Change]) -> Result<TreeId, WorkError> {
        self.git.with_changes(tree, changes)
    }

    fn materialise(
        &self,
        tree: &TreeId,
        parents: &[&CommitId],
        place: &Path,
    ) -> Result<(), WorkError> {
        self.git.materialise(tree, parents, place)
    }

    fn repository(&self, base: &Base, work: &Snapshot) -> Result<RepositoryFacts, WorkError> {
        self.git.repository(base, work)
    }

    fn land(&self, landing: &Landing) -> Result<Landed, LandError> {
        self.git.land(landing)
    }
}

impl AgentWork {
    /// Runs the checks of the role that run code, on a tree that is to be landed without an agent.
    pub fn verify_reverted(
        &self,
        base: &Base,
        work: &Snapshot,
        options: CheckOptions,
        tell: &mut dyn FnMut(Progress<'_>),
    ) -> Result<Verification, Failure> {
        let refused = |error: verification::NoCheck| Failure::refused(error.to_string());
        let checks = verification::of_role(&self.bound.capabilities).map_err(refused)?;
        let checks = checks.into_iter().filter(|planned| runs_code(&planned.check.method));
        let checks =
            checks.map(|planned| PlannedCheck { on: RunMode::Worktree, ..planned }).collect();
        let git = self.git_work()?;
        self.run_checks_on(&FixedWork { git, base, work }, checks, RunMode::Worktree, options, tell)
    }
}

fn runs_code(how: &CheckMethod) -> bool {
    match how {
        CheckMethod::Command(_)
        | CheckMethod::Module(
            CheckModule::QualityCargoCheckGreen
            | CheckModule::QualityTestsGreen
            | CheckModule::QualityNoWarnings
            | CheckModule::QualityCommandsGreen,
        ) => true,
        CheckMethod::Module(
            CheckModule::PolicyNoGitOps
            | CheckModule::PolicyGitReadOnly
            | CheckModule::ScopeFilesWhitelist
            | CheckModule::ScopeFilesDenylist
            | CheckModule::ScopeNoRuleEdits
            | CheckModule::QualityConstructorPattern
            | CheckModule::QualityTestsKept
            | CheckModule::SafetyNoDepBump
            | CheckModule::SafetyNoMassDelete
            | CheckModule::OutputReportFormat
            | CheckModule::OutputSeverityGrade
            | CheckModule::OutputLedgerRowRequired,
        ) => false,
    }
}

//! Verifying an agent's work: who it is, what binds it, where its tree is, and its result.

mod diffstat;
mod environment;
mod report;
mod reverted;
mod subject;
mod verdict_files;
pub mod verification_report;
pub mod worktree_setup;

use std::time::Duration;

use bailiwick_lifecycle::ports::{
    Base, CheckEnvironment, CheckEnvironmentError, Preparation, Snapshot, Work,
};
use bailiwick_lifecycle::verification::{
    self, ChangedSetup, CheckResult, JobEvidence, Progress, Request, Verification,
    VerificationPorts,
};
use bailiwick_model::capability::RunMode;
use bailiwick_model::{LedgerNote, Sha256Hex};
use bailiwick_runner::checks::{CheckWorkshop, OpenSetup, Setup, copied_digest};
use bailiwick_runner::environment::BaseTrust;
use bailiwick_runner::process::{Cancellation, Limits};
use bailiwick_runner::sandbox::{Launcher, Level};
use bailiwick_runner::toolchain::Host;
use bailiwick_source_control::Repository;

use report::ReportSource;
pub use subject::{AgentWork, ComparisonBase, SnapshotStart, WorkOptions, settings};
use verdict_files::VerdictFiles;
pub use verification_report::VerificationReport;

use crate::failure::Failure;
use crate::options::CheckOptions;
use crate::preconditions;

/// The checks to run.
struct CheckRequest<'e> {
    checks: Vec<verification::PlannedCheck>,
    mode: RunMode,
    options: CheckOptions,
    until: Cancellation,
    /// Outcomes of jobs that other machines have run.
    evidence: Option<&'e mut dyn JobEvidence>,
}

impl AgentWork {
    /// Runs every check of the role, or only those that are named.
    pub fn verify(
        &self,
        mode: RunMode,
        options: CheckOptions,
        only: &[bailiwick_model::CapabilityName],
        tell: &mut dyn FnMut(Progress<'_>),
    ) -> Result<Verification, Failure> {
        let refused = |error: verification::NoCheck| Failure::refused(error.to_string());
        let mut checks = verification::of_role(&self.bound.capabilities).map_err(refused)?;
        for name in only {
            if !checks.iter().any(|planned| planned.check.capability == *name) {
                return Err(Failure::refused(format!(
                    "role {} has no check of {name}",
                    self.bound.role.name
                )));
            }
        }
        checks.retain(|planned| only.is_empty() || only.contains(&planned.check.capability));
        self.run_checks(checks, mode, options, tell)
    }

    /// Like `verify`, and records the result if the agent is in the ledger.
    pub fn verify_and_record(
        &self,
        mode: RunMode,
        checks: CheckOptions,
        only: &[bailiwick_model::CapabilityName],
        tell: &mut dyn FnMut(Progress<'_>),
    ) -> Result<VerificationReport, Failure> {
        let verification = self.verify(mode, checks, only, tell)?;
        self.record_verification(&verification)
    }

    /// Records a result if the agent is in the ledger.
    pub fn record_verification(
        &self,
        verification: &Verification,
    ) -> Result<VerificationReport, Failure> {
        let agent = self.agent.as_ref().map(ToString::to_string);
        let report = VerificationReport::new(agent, verification);
        self.record(&report)?;
        Ok(report)
    }

    /// Runs every check of the role. The outcomes of jobs that other machines have run count as if they had been run
    /// here.
    pub fn verify_with_evidence(
        &self,
        mode: RunMode,
        options: CheckOptions,
        evidence: &mut dyn JobEvidence,
    ) -> Result<Verification, Failure> {
        let refused = |error: verification::NoCheck| Failure::refused(error.to_string());
        let checks = verification::of_role(&self.bound.capabilities).map_err(refused)?;
        let until = Cancellation::default();
        let evidence = Some(evidence);
        let request = CheckRequest { checks, mode, options, until, evidence };
        self.run_request(self.git_work()?, request, &mut |_| {})
    }

    /// Runs these checks.
    pub fn run_checks(
        &self,
        checks: Vec<verification::PlannedCheck>,
        mode: RunMode,
        options: CheckOptions,
        tell: &mut dyn FnMut(Progress<'_>),
    ) -> Result<Verification, Failure> {
        match &self.work {
            Ok(work) => self.run_checks_on(work, checks, mode, options, tell),
            Err(error) => {
                let request = self.request(checks, mode, String::new());
                Ok(verification::nothing_found(&request, error))
            }
        }
    }

    fn request(
        &self,
        checks: Vec<verification::PlannedCheck>,
        mode: RunMode,
        machine_key: String,
    ) -> Request<'_> {
        Request {
            agent: self.agent.as_ref(),
            task: &self.bound.task,
            checks,
            mode,
            preparation: Preparation::of(&self.bound.task),
            changed_setup: ChangedSetup::Refused,
            machine_key,
        }
    }

    fn run_checks_on(
        &self,
        work: &impl Work,
        checks: Vec<verification::PlannedCheck>,
        mode: RunMode,
        options: CheckOptions,
        tell: &mut dyn FnMut(Progress<'_>),
    ) -> Result<Verification, Failure> {
        let until = Cancellation::default();
        let request = CheckRequest { checks, mode, options, until, evidence: None };
        self.run_request(work, request, tell)
    }

    fn run_request(
        &self,
        work: &impl Work,
        request: CheckRequest<'_>,
        tell: &mut dyn FnMut(Progress<'_>),
    ) -> Result<Verification, Failure> {
        let options = request.options;
        let (verification, refused) =
            self.with_environment(work, request, tell, verification::verify)?;
        // A machine that cannot run checks says nothing about the work.
        if refused.is_some() {
            preconditions::require_sandbox(options.sandbox)?;
        }
        Ok(verification)
    }

    /// Runs these checks on the agent's tree alone, as a snapshot has it, until it is cancelled. Returns an
    /// error if one could not be run for a reason outside the tree.
    pub fn check_tree(
        &self,
        checks: Vec<verification::PlannedCheck>,
        options: CheckOptions,
        until: Cancellation,
        (base, work): (&Base, &Snapshot),
    ) -> Result<Vec<CheckResult>, Failure> {
        let mode = RunMode::Worktree;
        let request_options = CheckRequest { checks, mode, options, until, evidence: None };
        let (checked, refused) = self.with_environment(
            self.git_work()?,
            request_options,
            &mut |_| {},
            |request, world| verification::check_tree(request, world, base, work),
        )?;
        match refused.map(|error| error.to_string()).or(checked.trouble) {
            Some(why) => Err(Failure::general(why)),
            None => Ok(checked.results),
        }
    }

    /// How long one command of a check may take.
    pub fn time_of_a_check(&self) -> Duration {
        worktree_setup::time(&self.settings)
    }

    /// Provides the ports of a verification, and reports whether there was a directory to run checks
    /// in, where one was needed.
    fn with_environment<W: Work, Found>(
        &self,
        work: &W,
        request_options: CheckRequest<'_>,
        tell: &mut dyn FnMut(Progress<'_>),
        verify: impl for<'a> FnOnce(&Request<'_>, VerificationPorts<'a, W>) -> Found,
    ) -> Result<(Found, Option<CheckEnvironmentError>), Failure> {
        let CheckRequest { checks, mode, options, until, evidence } = request_options;
        let level = Level::from(options.sandbox);
        let host = Host::observe();
        let installed = self.installed();
        let shared = environment::installed_key(self.repository.root(), &installed, &host);
        let machine_key =
            format!("{} {level:?} {} {shared}", env!("CARGO_PKG_VERSION"), host.stamp());
        let mut request = self.request(checks, mode, machine_key);
        if options.allow_changed_setup {
            request.changed_setup = ChangedSetup::Allowed;
        }
        let repository = cache_key(&self.repository);
        let limits = Limits { time: self.time_of_a_check(), ..Limits::default() };
        let mut refused = None;
        let open_setup =
            if options.allow_changed_setup { OpenSetup::Allowed } else { options.open_setup };
        let open = || {
            let opened = self.workshop(level, limits, until.clone(), host.clone(), &installed);
            opened.map(|workshop| workshop.open_setup(open_setup))
        };
        let mut open_environment =
            || -> Result<Box<dyn CheckEnvironment>, CheckEnvironmentError> {
                let opened = open().inspect_err(|error| refused = Some(error.clone()))?;
                Ok(Box::new(opened))
            };
        let directory = self.context.state.join("caches").join(&repository).join("verdicts");
        let mut verdicts = VerdictFiles::new(directory, options.ignore_stored_verdicts);
        let report = ReportSource::of(self)?;
        let (checkout, copy) = (self.repository.root(), request.preparation.copy.clone());
        let found = verify(
            &request,
            VerificationPorts {
                work,
                open_environment: &mut open_environment,
                report: &|| report.read(&self.context),
                copied: &|| copied_digest(checkout, &copy).ok(),
                ledger: self.run.clone(),
                verdicts: &mut verdicts,
                evidence: evidence.map(|evidence| evidence as &mut dyn JobEvidence),
                tell,
            },
        );
        Ok((found, refused))
    }

    /// A place to run checks and setups in.
    fn workshop(
        &self,
        level: Level,
        limits: Limits,
        until: Cancellation,
        host: Host,
        installed: &[String],
    ) -> Result<CheckWorkshop, CheckEnvironmentError> {
        let launcher = Launcher::own().map_err(|error| CheckEnvironmentError {
            what: "the sandbox cannot be made".to_owned(),
            why: error.to_string(),
            caused_by_agent: false,
        })?;
        CheckWorkshop::open(Setup {
            state: self.context.state.clone(),
            repository: cache_key(&self.repository),
            checkout: self.repository.root().to_path_buf(),
            installed: installed.to_vec(),
            level,
            limits,
            until,
            launcher,
            host,
            base: self.base_trust(),
        })
    }

    /// Who wrote the base: what is bound by another commit than its own is not trusted.
    pub fn base_trust(&self) -> BaseTrust {
        match self.kit_commit == self.base {
            true => BaseTrust::Trusted,
            false => BaseTrust::Untrusted,
        }
    }

    /// Completes or forgets what killed processes have left.
    pub fn recover(&self) -> Result<(), Failure> {
        let recovered =
            bailiwick_source_control::recover(&self.context.state, self.repository.root())
                .map_err(|error| Failure::general(error.to_string()))?;
        for agent in &recovered.completed {
            self.context
                .notices
                .note(format_args!("the landing of `{agent}` was interrupted and is now complete"));
        }
        for (checkout, why) in &recovered.failed {
            self.context
                .notices
                .note(format_args!("{} could not follow its branch: {why}", checkout.display()));
        }
        bailiwick_runner::checks::sweep(&self.context.state).map_err(|error| {
            Failure::general(format!("what a killed check left cannot be removed: {error}"))
        })
    }

    /// Records its result, where the ledger knows the agent.
    pub fn record(&self, report: &VerificationReport) -> Result<(), Failure> {
        let Some(run) = &self.run else { return Ok(()) };
        let note = match report.failed.is_empty() {
            true => LedgerNote::Verified,
            false => LedgerNote::VerificationFailed,
        };
        let detail = serde_json::to_string(report).map_err(|error| {
            Failure::general(format!("the result cannot be written as JSON: {error}"))
        })?;
        self.context
            .with_store(async |store| Ok(store.append_run_note(&run.id, note, &detail).await?))
    }
}

/// What build caches and verdicts of a repository are kept under.
pub fn cache_key(repository: &Repository) -> String {
    let root = repository.root();
    let root = std::fs::canonicalize(root).unwrap_or_else(|_| root.to_path_buf());
    let key = Sha256Hex::of(root.as_os_str().as_encoded_bytes()).to_string();
    key.chars().take(16).collect()
}

//! Carries a verification out: looks facts up through the ports, and lets each check judge them.

use std::collections::BTreeMap;

use bailiwick_model::module::CheckModule;
use bailiwick_model::well_known::is_manifest;
use bailiwick_model::{CommitId, Run, TreeId};
use bailiwick_verify::checks::{CheckMethod, Subject, judge, needs};
use bailiwick_verify::facts::{Report, Texts};
use bailiwick_verify::{Change, Facts, Job, JobOutcome, Needs, Pass, Verdict};

use super::evidence::{JobEvidence, JobsElsewhere};
use super::{CheckResult, PlannedCheck, Progress, Request, TRIAL_MERGE, Verdicts, Verification};
use super::{commits, includes, reuse, set_up};
use crate::ports::{
    Base, CheckEnvironment, CheckEnvironmentError, Merge, Preparation, SetUp, Snapshot, Work,
    WorkError,
};

/// The ports of a verification.
pub struct VerificationPorts<'a, W> {
    /// The agent's work.
    pub work: &'a W,
    /// Creates a check environment when the first check needs to run something.
    pub open_environment:
        &'a mut dyn FnMut() -> Result<Box<dyn CheckEnvironment + 'a>, CheckEnvironmentError>,
    /// Reads the agent's report.
    pub report: &'a dyn Fn() -> Report,
    /// A digest of the files that the task copies from the checkout; `None` if they cannot be read.
    pub copied: &'a dyn Fn() -> Option<String>,
    /// The agent's row in the ledger.
    pub ledger: Option<Run>,
    /// Stored verdicts, for reuse.
    pub verdicts: &'a mut dyn Verdicts,
    /// Outcomes of jobs that other machines have run; without it, all are run here.
    pub evidence: Option<&'a mut dyn JobEvidence>,
    /// Receives the progress.
    pub tell: &'a mut dyn FnMut(Progress<'_>),
}

/// Runs every check on each of its trees. Facts that cannot be looked up fail the checks that need them, so that a
/// verification always ends.
pub fn verify<W: Work>(request: &Request<'_>, world: VerificationPorts<'_, W>) -> Verification {
    let left_out = request.checks.iter().filter(|planned| {
        ![Pass::Worktree, Pass::SimulatedMerge]
            .iter()
            .any(|pass| planned.runs_in(*pass, request.mode))
    });
    let left_out = left_out.map(|planned| planned.check.capability.to_string()).collect();
    let mut running = RunningVerification::new(request, world);
    (running.world.tell)(Progress::Snapshot);
    let found = running.world.work.base();
    let found = found.and_then(|base| Ok((running.world.work.snapshot(&base)?, base)));
    let (work, base) = match found {
        Ok(found) => found,
        Err(error) => return nothing_found(request, &error),
    };
    if includes(request.mode, Pass::Worktree) {
        running.pass(&worktree(&base, &work));
    }
    let mut merged = None;
    if includes(request.mode, Pass::SimulatedMerge) {
        (running.world.tell)(Progress::Pass(Pass::SimulatedMerge));
        match running.world.work.merge(&base, &work) {
            Ok(Merge::Clean { tree }) => {
                merged = Some(tree.clone());
                running.pass(&Tree {
                    pass: Pass::SimulatedMerge,
                    before: base.tree.clone(),
                    tree,
                    parents: vec![base.tip.clone(), work.commit.clone()],
                    base: &base,
                    work: &work,
                });
            }
            Ok(Merge::Conflicts(conflicts)) => {
                let lines: Vec<String> = conflicts
                    .iter()
                    .map(|conflict| format!("{}: {}", conflict.path, conflict.why))
                    .collect();
                let reason = format!(
                    "the work does not merge onto {} at {:.12}: {} in conflict",
                    base.branch,
                    base.tip,
                    counted(lines.len(), "file")
                );
                let verdict = Verdict::fail_with(reason, lines.join("\n"));
                running.conclude(TRIAL_MERGE, Pass::SimulatedMerge, verdict, false);
            }
            Err(error) => {
                let verdict = Verdict::fail(error.to_string());
                running.conclude(TRIAL_MERGE, Pass::SimulatedMerge, verdict, false);
            }
        }
    }
    let results = running.results;
    Verification { base: Some(base), work: Some(work), merged, results, left_out }
}

/// The results of checks on the agent's tree alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeCheckOutcome {
    /// The verdicts. A check that could not be run has failed.
    pub results: Vec<CheckResult>,
    /// Why a check could not be run for a reason outside the tree: its verdict says nothing about the tree.
    pub trouble: Option<String>,
}

/// Runs the checks on the agent's tree alone, as a snapshot has it.
pub fn check_tree<W: Work>(
    request: &Request<'_>,
    world: VerificationPorts<'_, W>,
    base: &Base,
    work: &Snapshot,
) -> TreeCheckOutcome {
    let mut running = RunningVerification::new(request, world);
    running.pass(&worktree(base, work));
    TreeCheckOutcome { results: running.results, trouble: running.trouble }
}

/// The verification of work that cannot be found: every check has failed.
pub fn nothing_found(request: &Request<'_>, error: &WorkError) -> Verification {
    let failed = |(capability, pass): (String, Pass)| CheckResult {
        capability,
        pass,
        verdict: Verdict::fail(error.to_string()),
        reused: false,
    };
    let mut names: Vec<(String, Pass)> = request.checks.iter().flat_map(first_pass).collect();
    if names.is_empty() {
        names.push((TRIAL_MERGE.to_owned(), Pass::SimulatedMerge));
    }
    let results = names.into_iter().map(failed).collect();
    Verification { base: None, work: None, merged: None, results, left_out: Vec::new() }
}

/// A tree that is checked.
pub(super) struct Tree<'a> {
    pub(super) pass: Pass,
    pub(super) before: TreeId,
    pub(super) tree: TreeId,
    pub(super) parents: Vec<CommitId>,
    pub(super) base: &'a Base,
    pub(super) work: &'a Snapshot,
}

/// The tree as the agent has it.
fn worktree<'a>(base: &'a Base, work: &'a Snapshot) -> Tree<'a> {
    Tree {
        pass: Pass::Worktree,
        before: work.merge_base_tree.clone(),
        tree: work.tree.clone(),
        parents: vec![work.head.clone()],
        base,
        work,
    }
}

/// The check environment, opened at first use.
enum CheckEnvironmentState<'a> {
    NotOpened,
    Open {
        environment: Box<dyn CheckEnvironment + 'a>,
        current_tree: Option<(TreeId, Result<(), TreeNotReady>)>,
        /// The trees that dependencies were fetched for.
        fetched: Vec<TreeId>,
        /// The tree whose setup the trees after it see.
        set_up: Option<TreeId>,
    },
    Refused(String),
}

/// Why a tree is not ready for its checks.
#[derive(Debug, Clone)]
struct TreeNotReady {
    why: String,
    /// Whether the tree may be why.
    caused_by_agent: bool,
}

impl From<WorkError> for TreeNotReady {
    fn from(error: WorkError) -> Self {
        Self { why: error.to_string(), caused_by_agent: error.caused_by_agent }
    }
}

impl From<CheckEnvironmentError> for TreeNotReady {
    fn from(error: CheckEnvironmentError) -> Self {
        Self { why: error.to_string(), caused_by_agent: error.caused_by_agent }
    }
}

pub(super) struct RunningVerification<'a, 'b, W> {
    pub(super) request: &'b Request<'b>,
    pub(super) world: VerificationPorts<'a, W>,
    place: CheckEnvironmentState<'a>,
    pub(super) results: Vec<CheckResult>,
    /// Why a check could not be run for a reason outside the tree.
    pub(super) trouble: Option<String>,
    /// The digest of the files that are copied from the checkout, once it was needed.
    copied: Option<String>,
    pub(super) elsewhere: JobsElsewhere,
}

impl<'a, 'b, W: Work> RunningVerification<'a, 'b, W> {
    pub(super) fn new(request: &'b Request<'b>, world: VerificationPorts<'a, W>) -> Self {
        let (place, elsewhere) = (CheckEnvironmentState::NotOpened, JobsElsewhere::default());
        Self { request, world, place, results: Vec::new(), trouble: None, copied: None, elsewhere }
    }

    fn conclude(&mut self, capability: &str, pass: Pass, verdict: Verdict, reused: bool) {
        let result = CheckResult { capability: capability.to_owned(), pass, verdict, reused };
        (self.world.tell)(Progress::Done(&result));
        self.results.push(result);
    }

    fn failed_before(&self, planned: &PlannedCheck) -> bool {
        let name = planned.check.capability.to_string();
        self.results.iter().any(|result| result.capability == name && !result.verdict.is_pass())
    }

    fn pass(&mut self, tree: &Tree<'_>) {
        (self.world.tell)(Progress::Pass(tree.pass));
        let request = self.request;
        let mut checks: Vec<&PlannedCheck> = request
            .checks
            .iter()
            .filter(|planned| planned.runs_in(tree.pass, request.mode))
            .filter(|planned| !self.failed_before(planned))
            .collect();
        // Fast checks first; the report, which is compared with all others, last.
        let found = self.world.work.changes(&tree.before, &tree.tree);
        let found = found.and_then(|changes| {
            self.world.work.require_submodule_commits(&changes)?;
            Ok((self.reverted_paths(tree, &changes)?, changes))
        });
        let (reverted_paths, changes) = match found {
            Ok(found) => found,
            Err(error) => {
                if !error.caused_by_agent {
                    self.trouble.get_or_insert_with(|| error.to_string());
                }
                for planned in checks {
                    let name = planned.check.capability.to_string();
                    self.conclude(&name, tree.pass, Verdict::fail(error.to_string()), false);
                }
                return;
            }
        };
        let subject = Subject {
            agent: request.agent,
            task: request.task,
            changes: changes.as_slice(),
            intermediate_paths: reverted_paths.as_slice(),
        };
        let is_report = |planned: &PlannedCheck| {
            planned.check.method == CheckMethod::Module(CheckModule::OutputReportFormat)
        };
        checks.sort_by_key(|planned| {
            let needs = needs(&planned.check, &subject);
            (is_report(planned), needs.executed_tests, !needs.jobs.is_empty())
        });
        let mut facts = self.facts(tree, &changes, &checks, &subject);
        if let Err(error) = &facts {
            self.trouble.get_or_insert_with(|| error.to_string());
        }
        for planned in checks {
            let name = planned.check.capability.to_string();
            (self.world.tell)(Progress::Check(&name));
            let (verdict, reused) = match &mut facts {
                Ok(facts) => self.judged(planned, tree, &subject, facts),
                Err(error) => (Verdict::fail(error.to_string()), false),
            };
            if let Ok(facts) = &mut facts {
                facts.measured.push((name.clone(), tree.pass, verdict.clone()));
            }
            self.conclude(&name, tree.pass, verdict, reused);
        }
    }

    /// Paths that commits of the work touched, and that do not differ at the end.
    fn reverted_paths(
        &self,
        tree: &Tree<'_>,
        changes: &[Change],
    ) -> Result<Vec<String>, WorkError> {
        match tree.pass {
            Pass::Worktree => {
                let mut touched = self.world.work.touched(tree.work)?;
                touched
                    .retain(|path| !changes.iter().any(|change| change.paths().any(|p| p == path)));
                Ok(touched)
            }
            // The same commits as in the worktree.
            Pass::SimulatedMerge => Ok(Vec::new()),
        }
    }

    /// The facts for all checks of a pass, except those from jobs.
    fn facts(
        &mut self,
        tree: &Tree<'_>,
        changes: &[Change],
        checks: &[&PlannedCheck],
        subject: &Subject<'_>,
    ) -> Result<Facts, WorkError> {
        let all: Vec<Needs> = checks.iter().map(|planned| needs(&planned.check, subject)).collect();
        let mut paths: Vec<String> = all.iter().flat_map(|needs| needs.texts.clone()).collect();
        paths.sort_unstable();
        paths.dedup();
        let texts: BTreeMap<String, Texts> = match paths.as_slice() {
            [] => BTreeMap::new(),
            paths => self.world.work.texts(changes, paths)?,
        };
        let repository = match all.iter().any(|needs| needs.repository) {
            true => Some(self.world.work.repository(tree.base, tree.work)?),
            false => None,
        };
        // The commits are the same in both passes.
        let commits = match all.iter().any(|needs| needs.commits) && tree.pass == Pass::Worktree {
            true => Some(commits::look_up(self.world.work, tree.work)?),
            false => None,
        };
        let report = all.iter().any(|needs| needs.report).then(|| (self.world.report)());
        let measured = self.results.iter();
        let measured = measured
            .map(|result| (result.capability.clone(), result.pass, result.verdict.clone()))
            .collect();
        Ok(Facts {
            pass: tree.pass,
            changes: changes.to_vec(),
            texts,
            commits,
            jobs: BTreeMap::new(),
            executed_tests: None,
            repository,
            report,
            ledger: self.world.ledger.clone(),
            measured,
        })
    }

    fn judged(
        &mut self,
        planned: &PlannedCheck,
        tree: &Tree<'_>,
        subject: &Subject<'_>,
        facts: &mut Facts,
    ) -> (Verdict, bool) {
        let needs = needs(&planned.check, subject);
        let key = self.key(planned, &needs, tree);
        if let Some(found) = key.as_deref().and_then(|key| self.world.verdicts.find(key)) {
            return (found, true);
        }
        for job in &needs.jobs {
            if !facts.jobs.contains_key(job) {
                let outcome = self.run(job, tree);
                facts.jobs.insert(job.clone(), outcome);
            }
        }
        if needs.executed_tests {
            facts.executed_tests = Some(self.executed_tests(tree, subject, facts));
        }
        let verdict = judge(&planned.check, subject, facts);
        // Verdicts that are kept are for everyone, also where no worker may run checks.
        let is_own = needs.jobs.iter().all(|job| !self.elsewhere.contains(job, tree));
        if let Some(key) = key.filter(|_| verdict.is_pass() && is_own) {
            // Files that changed while the check ran may or may not have been copied.
            let before = self.copied_files();
            self.copied = None;
            if before.is_some() && self.copied_files() == before {
                self.world.verdicts.keep(&key, &verdict);
            }
        }
        (verdict, false)
    }

    /// The key of a verdict; `None` if it cannot be reused.
    fn key(&mut self, planned: &PlannedCheck, needs: &Needs, tree: &Tree<'_>) -> Option<String> {
        if !reuse::is_reusable(needs) {
            return None;
        }
        let copied = self.copied_files()?;
        let trees = (tree.before.as_str(), tree.tree.as_str());
        Some(reuse::key(self.request, &planned.check, needs, trees, &copied))
    }

    /// The digest of the files that are copied from the checkout; `None` if they cannot be read.
    pub(super) fn copied_files(&mut self) -> Option<String> {
        if self.request.preparation.copy.is_empty() {
            return Some(String::new());
        }
        if self.copied.is_none() {
            self.copied = (self.world.copied)();
        }
        self.copied.clone()
    }

    pub(super) fn run(&mut self, job: &Job, tree: &Tree<'_>) -> JobOutcome {
        if let Some(outcome) = self.outcome_elsewhere(job, tree) {
            return outcome;
        }
        if let Err(TreeNotReady { why, caused_by_agent }) = self.make_ready(tree) {
            if !caused_by_agent {
                self.trouble.get_or_insert_with(|| why.clone());
            }
            return JobOutcome::CouldNotRun { why };
        }
        let Self { place, world, .. } = self;
        let outcome = match place {
            CheckEnvironmentState::Open { environment, .. } => {
                environment.run(job, &mut |line| (world.tell)(Progress::Running(line)))
            }
            CheckEnvironmentState::Refused(why) => JobOutcome::CouldNotRun { why: why.clone() },
            CheckEnvironmentState::NotOpened => {
                JobOutcome::CouldNotRun { why: "there is no directory to run it in".into() }
            }
        };
        // A shell command can always be run; an error of cargo may come from its manifests.
        if let (Job::Command { .. }, JobOutcome::CouldNotRun { why }) = (job, &outcome) {
            self.trouble.get_or_insert_with(|| why.clone());
        }
        outcome
    }

    /// Opens the check environment and puts the tree into it, each once.
    fn make_ready(&mut self, tree: &Tree<'_>) -> Result<(), TreeNotReady> {
        if matches!(self.place, CheckEnvironmentState::NotOpened) {
            self.place = match (self.world.open_environment)() {
                Ok(environment) => CheckEnvironmentState::Open {
                    environment,
                    current_tree: None,
                    fetched: Vec::new(),
                    set_up: None,
                },
                Err(error) => CheckEnvironmentState::Refused(error.to_string()),
            };
        }
        let Self { place, world, request, .. } = self;
        let (environment, current_tree, fetched, set_up) = match place {
            CheckEnvironmentState::Open { environment, current_tree, fetched, set_up } => {
                (environment, current_tree, fetched, set_up)
            }
            CheckEnvironmentState::Refused(why) => {
                return Err(TreeNotReady { why: why.clone(), caused_by_agent: false });
            }
            CheckEnvironmentState::NotOpened => {
                let why = "there is no directory to run it in".to_owned();
                return Err(TreeNotReady { why, caused_by_agent: false });
            }
        };
        if let Some((_, result)) =
            current_tree.as_ref().filter(|(set_up_tree, _)| *set_up_tree == tree.tree)
        {
            return result.clone();
        }
        (world.tell)(Progress::Preparing(&tree.tree));
        let mut tell = |line: &str| (world.tell)(Progress::Running(line));
        let mut ready = || -> Result<(), TreeNotReady> {
            let changes = world.work.changes(&tree.before, &tree.tree)?;
            let preparation = &request.preparation;
            if !preparation.prefetch.is_empty() {
                let source = fetched_from(request, world.work, tree, &changes)?;
                if !fetched.contains(&source) {
                    let directory = environment.clear()?;
                    world.work.materialise(&source, &[&tree.base.tip], directory)?;
                    let fetch = Preparation { setup: Vec::new(), ..preparation.clone() };
                    environment.make_ready(&fetch, &mut tell)?;
                    fetched.push(source);
                }
            }
            let mut rest = Preparation { prefetch: Vec::new(), ..preparation.clone() };
            if !preparation.setup.is_empty() {
                let source =
                    set_up::source(world.work, &tree.before, &changes, request.changed_setup)?;
                if set_up.as_ref() != Some(&source) {
                    let directory = environment.clear()?;
                    world.work.materialise(&source, &[&tree.base.tip], directory)?;
                    *set_up = match environment.set_up(preparation, &mut tell)? {
                        SetUp::Shared => Some(source),
                        SetUp::EachTree => None,
                    };
                }
                if set_up.is_some() {
                    rest.setup.clear();
                }
            }
            let directory = environment.clear()?;
            let parents: Vec<&CommitId> = tree.parents.iter().collect();
            world.work.materialise(&tree.tree, &parents, directory)?;
            let paths = changes.iter().flat_map(Change::paths).map(str::to_owned);
            environment.changed(&paths.collect::<Vec<_>>());
            Ok(environment.make_ready(&rest, &mut tell)?)
        };
        let ready = ready();
        *current_tree = Some((tree.tree.clone(), ready.clone()));
        ready
    }
}

/// The tree that dependencies are fetched for, with a network: the one before the agent's changes, so
/// that none of its code runs then; with its manifests, where the task lets it change dependencies.
fn fetched_from<W: Work>(
    request: &Request<'_>,
    work: &W,
    tree: &Tree<'_>,
    changes: &[Change],
) -> Result<TreeId, WorkError> {
    let allowed = request.task.verification.allow_dependency_changes.as_ref();
    let allowed = allowed.is_some_and(|allowed| *allowed.get_ref());
    let is_manifest = |change: &&Change| change.paths().all(is_manifest);
    let manifests: Vec<&Change> = changes.iter().filter(is_manifest).collect();
    if manifests.is_empty() || !allowed {
        return Ok(tree.before.clone());
    }
    work.with_changes(&tree.before, &manifests)
}

fn first_pass(planned: &PlannedCheck) -> Option<(String, Pass)> {
    let passes = [Pass::Worktree, Pass::SimulatedMerge];
    let pass = passes.into_iter().find(|pass| includes(planned.on, *pass))?;
    Some((planned.check.capability.to_string(), pass))
}

fn counted(number: usize, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}

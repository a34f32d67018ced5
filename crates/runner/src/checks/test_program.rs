//! Runs one test program, one test at a time, and reads each result.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bailiwick_verify::job::{CommandResult, Harness, Termination, TestResult};

use super::bench::{Bench, Environment, Program};
use super::challenge;
use super::challenge::Challenge;
use super::job_error::JobError;
use super::work::Work;
use super::{libtest, plain};
use crate::process::{Capture, Limits};

/// No listing, environment or log of tests is larger.
const MAX_SIZE: u64 = 64 * 1024 * 1024;
/// The exit code of the standard harness when a test fails, or when it does not support an option.
const FAILED: i32 = 101;
/// The file with a test's result, below the results.
const LOG: &str = "log";
/// How much of the output of all tests is reported, in bytes.
const TAIL: usize = 64 * 1024;

/// The directory and environment in which cargo would run a test program.
pub(super) struct TestInvocation {
    program: String,
    directory: PathBuf,
    environment: Vec<(String, String)>,
}

impl TestInvocation {
    /// The variable with the directory of the recorder.
    pub(super) const VARIABLE: &str = "BAILIWICK_RECORDS";

    /// The record of a program.
    pub(super) fn read(records: &Path, program: &Path) -> io::Result<Self> {
        let name = program.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let part = |end: &str| plain::read(records, Path::new(&format!("{name}.{end}")), MAX_SIZE);
        let directory = part("directory")?;
        let directory = String::from_utf8_lossy(&directory);
        let environment = part("environment")?;
        let variables = environment.split(|byte| *byte == 0).filter_map(|one| {
            let (name, value) = std::str::from_utf8(one).ok()?.split_once('=')?;
            let ours = name == Self::VARIABLE
                || ["_", "PWD", "OLDPWD", "SHLVL"].contains(&name)
                || (name.starts_with("CARGO_TARGET_") && name.ends_with("_RUNNER"));
            (!ours && !name.is_empty()).then(|| (name.to_owned(), value.to_owned()))
        });
        Ok(Self {
            program: program.to_string_lossy().into_owned(),
            directory: PathBuf::from(directory.trim_end_matches('\n')),
            environment: variables.collect(),
        })
    }
}

/// Runs a test program. `own`: it has its own harness.
///
/// Each test runs in its own process and sandbox: in one process, the first test could write the results of the
/// others, and exit.
pub(super) fn run(
    bench: &Bench,
    job: &Work,
    recorded: &TestInvocation,
    line: &str,
    own: bool,
) -> Result<(Harness, CommandResult), JobError> {
    let program = TestRunner { bench, job, recorded, line, budget: Budget::new(bench.limits()) };
    if own {
        return Ok((Harness::Custom, program.start(&[], Capture::Merged)?.ran));
    }
    let listing = program.start(&["--list", "--format", "terse"], Capture::Separate)?;
    if !listing.ran.succeeded() {
        let nothing = Harness::Standard { listed: Vec::new(), results: BTreeMap::new() };
        return Ok((nothing, listing.ran));
    }
    let listed = libtest::parse_listing(&listing.output);
    let ignored =
        program.start(&["--list", "--format", "terse", "--ignored"], Capture::Separate)?.output;
    let ignored: BTreeSet<String> = libtest::parse_listing(&ignored).into_iter().collect();
    let (ignored, active): (Vec<&String>, Vec<&String>) =
        listed.iter().partition(|test| ignored.contains(*test));
    for challenge in challenge::all(&active) {
        if let Some(run) = program.forged_result(&challenge)? {
            return Ok((Harness::Forged { test: challenge.test }, run));
        }
    }
    let runs = program.run_each(&active)?;
    let ran = together(&listing.ran, &runs, program.budget.begun.elapsed());
    let ignored = ignored.into_iter().map(|test| (test.clone(), TestResult::Ignored));
    let run = runs.into_iter().filter_map(|one| Some((one.test, one.result?)));
    let results = run.chain(ignored).collect();
    Ok((Harness::Standard { listed, results }, ran))
}

/// Runs each test in a new process and a new sandbox.
struct TestRunner<'a> {
    bench: &'a Bench,
    job: &'a Work,
    recorded: &'a TestInvocation,
    line: &'a str,
    budget: Budget,
}

struct Started {
    ran: CommandResult,
    output: Vec<u8>,
    /// The file that `--logfile` named.
    log: io::Result<Vec<u8>>,
}

/// A test that was run.
struct TestRun {
    test: String,
    /// `None` if it exited without a result.
    result: Option<TestResult>,
    ran: CommandResult,
}

impl TestRunner<'_> {
    fn start(&self, arguments: &[&str], capture: Capture) -> Result<Started, JobError> {
        let own = self.bench.for_program(self.job)?;
        let arguments = arguments.iter().map(|one| (*one).to_owned());
        let program = Program {
            line: self.line.to_owned(),
            argv: std::iter::once(self.recorded.program.clone()).chain(arguments).collect(),
            directory: &self.recorded.directory,
            environment: Environment::Whole(&self.recorded.environment),
            capture,
        };
        let (mut ran, output, printed) =
            self.bench.run_within(&own, &program, self.budget.left())?;
        self.budget.spend(&mut ran, printed);
        Ok(Started { ran, output, log: plain::read(&own.results(), Path::new(LOG), MAX_SIZE) })
    }

    /// The run of the program if it reported a result although no test was selected.
    fn forged_result(&self, challenge: &Challenge) -> Result<Option<CommandResult>, JobError> {
        let log = self.bench.places.results.join(LOG).display().to_string();
        let mut arguments = challenge.arguments();
        arguments.extend(["--logfile", &log]);
        let started = self.start(&arguments, Capture::Merged)?;
        let silent = started.log.as_ref().is_ok_and(Vec::is_empty) || started.log.is_err();
        Ok((!silent).then_some(started.ran))
    }

    /// Runs tests in parallel, until one has used up the limit for all of them.
    fn run_each(&self, tests: &[&String]) -> Result<Vec<TestRun>, JobError> {
        let next = AtomicUsize::new(0);
        let work = || -> Result<Vec<(usize, TestRun)>, JobError> {
            let mut runs = Vec::new();
            while let Some((number, test)) = {
                let number = next.fetch_add(1, Ordering::Relaxed);
                tests.get(number).map(|test| (number, *test))
            } {
                let test_run = self.run_test(test)?;
                let over = matches!(
                    test_run.ran.ended,
                    Termination::TimedOut(_) | Termination::TooMuchOutput(_)
                );
                runs.push((number, test_run));
                if over {
                    next.store(tests.len(), Ordering::Relaxed);
                }
            }
            Ok(runs)
        };
        let workers = self.bench.max_parallel().min(tests.len());
        let mut all = std::thread::scope(|scope| {
            let working: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
            let mut all = Vec::new();
            for one in working {
                all.extend(one.join().map_err(|_| "a test could not be watched".to_owned())??);
            }
            Ok::<_, JobError>(all)
        })?;
        all.sort_by_key(|(number, _)| *number);
        Ok(all.into_iter().map(|(_, test_run)| test_run).collect())
    }

    fn run_test(&self, test: &str) -> Result<TestRun, JobError> {
        let log = self.bench.places.results.join(LOG).display().to_string();
        let named = |error| match error {
            JobError::TreeChanged { line, paths } => {
                JobError::TreeChanged { line: format!("{line} -- --exact {test}"), paths }
            }
            JobError::CouldNotRun(_) | JobError::LayersUnsupported(_) => error,
        };
        let started = self.start(&["--exact", test, "--logfile", &log], Capture::Merged);
        let started = started.map_err(named)?;
        let (result, ran) = match started.log {
            // It does not support the option: then only its exit code counts.
            Err(_) if started.ran.ended == Termination::Exit(FAILED) => {
                let ran = self.start(&["--exact", test], Capture::Merged).map_err(named)?.ran;
                (Some(TestResult::Ok), ran)
            }
            log => (libtest::parse_log(&log.unwrap_or_default(), test), started.ran),
        };
        let result = if ran.succeeded() { result } else { Some(TestResult::Failed) };
        Ok(TestRun { test: test.to_owned(), result, ran })
    }
}

/// The runs of all tests as one: that of the first that failed, with what all that failed have printed.
fn together(listing: &CommandResult, runs: &[TestRun], took: Duration) -> CommandResult {
    let bad = |one: &&TestRun| one.result != Some(TestResult::Ok);
    let ended = runs.iter().find(bad).map_or(Termination::Exit(0), |one| one.ran.ended.clone());
    let any = runs.iter().any(|one| bad(&one));
    let printed = runs.iter().filter(|one| !any || bad(one)).map(|one| one.ran.tail.as_str());
    let mut tail = printed.collect::<String>();
    let mut cut = tail.len().saturating_sub(TAIL);
    while !tail.is_char_boundary(cut) {
        cut += 1;
    }
    let tail = tail.split_off(cut);
    CommandResult { line: listing.line.clone(), ended, tail, took, executed_tests: None }
}

/// The limits of all tests of a program together.
struct Budget {
    begun: Instant,
    limits: Limits,
    printed: AtomicU64,
}

impl Budget {
    fn new(limits: Limits) -> Self {
        Self { begun: Instant::now(), limits, printed: AtomicU64::new(0) }
    }

    fn left(&self) -> Limits {
        Limits {
            time: self.limits.time.saturating_sub(self.begun.elapsed()),
            output: self.limits.output.saturating_sub(self.printed.load(Ordering::Relaxed)),
        }
    }

    /// Counts a run, and sets the limits to those for all.
    fn spend(&self, ran: &mut CommandResult, printed: u64) {
        let all = printed.saturating_add(self.printed.fetch_add(printed, Ordering::Relaxed));
        if all > self.limits.output {
            // Others that ran at the same time may have printed the rest of it.
            ran.ended = Termination::TooMuchOutput(self.limits.output);
        }
        match &mut ran.ended {
            Termination::TimedOut(limit) => *limit = self.limits.time,
            Termination::TooMuchOutput(limit) => *limit = self.limits.output,
            Termination::Exit(_) | Termination::Signal(_) => {}
        }
    }
}

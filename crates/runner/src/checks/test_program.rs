//! Running one test program, and hearing from it how each of its tests went.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use bailiwick_verify::job::{Ended, Harness, Ran, TestResult};

use super::bench::{Bench, Environment, Program};
use super::{libtest, plain};
use crate::process::Capture;

/// No listing, environment or log of tests is larger.
const LARGEST: u64 = 64 * 1024 * 1024;
/// What the standard harness exits with when a test fails, or when it does not know an option.
const FAILED: i32 = 101;

/// How cargo would run a test program.
pub(super) struct Recorded {
    program: String,
    directory: PathBuf,
    environment: Vec<(String, String)>,
}

impl Recorded {
    /// The variable that tells the recorder where to write.
    pub(super) const VARIABLE: &str = "BAILIWICK_RECORDS";

    /// What was recorded of a program.
    pub(super) fn read(records: &Path, program: &Path) -> io::Result<Self> {
        let name = program.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let part = |end: &str| plain::read(records, Path::new(&format!("{name}.{end}")), LARGEST);
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

/// Runs a test program. `own` says that it brings a harness of its own.
pub(super) fn run(
    bench: &Bench,
    recorded: &Recorded,
    line: &str,
    own: bool,
) -> Result<(Harness, Ran), String> {
    let start = |arguments: &[&str], capture: Capture| {
        bench.slot.clear_results().map_err(|error| error.to_string())?;
        let arguments = arguments.iter().map(|one| (*one).to_owned());
        bench.run(&Program {
            line: line.to_owned(),
            argv: std::iter::once(recorded.program.clone()).chain(arguments).collect(),
            directory: &recorded.directory,
            environment: Environment::Whole(&recorded.environment),
            capture,
        })
    };
    if own {
        return Ok((Harness::Own, start(&[], Capture::Together)?.0));
    }
    let (listing, listed) = start(&["--list", "--format", "terse"], Capture::Apart)?;
    if !listing.succeeded() {
        let nothing = Harness::Standard { listed: Vec::new(), results: BTreeMap::new() };
        return Ok((nothing, listing));
    }
    let listed = libtest::parse_listing(&listed);
    let log = bench.places.results.join("log").display().to_string();
    let (ran, _) = start(&["--logfile", &log], Capture::Together)?;
    let (results, ran) = match plain::read(&bench.slot.results(), Path::new("log"), LARGEST) {
        Ok(log) => (libtest::parse_log(&log, &listed), ran),
        // It does not know the option: then every test has to stand for itself.
        Err(_) if ran.ended == Ended::Exit(FAILED) => {
            one_by_one(&listed, &start)?.unwrap_or_else(|| (BTreeMap::new(), ran))
        }
        Err(_) => (BTreeMap::new(), ran),
    };
    Ok((Harness::Standard { listed, results }, ran))
}

type Results = BTreeMap<String, TestResult>;
type Start<'a> = dyn Fn(&[&str], Capture) -> Result<(Ran, Vec<u8>), String> + 'a;

/// Runs each test alone. Its exit code is its result, and the run is that of the first that failed,
/// or of the last.
fn one_by_one(listed: &[String], start: &Start<'_>) -> Result<Option<(Results, Ran)>, String> {
    let (_, ignored) = start(&["--list", "--format", "terse", "--ignored"], Capture::Apart)?;
    let ignored = libtest::parse_listing(&ignored);
    let mut results = BTreeMap::new();
    let mut last: Option<Ran> = None;
    for test in listed {
        if ignored.contains(test) {
            results.insert(test.clone(), TestResult::Ignored);
            continue;
        }
        let (ran, _) = start(&["--exact", test], Capture::Together)?;
        let result = if ran.succeeded() { TestResult::Ok } else { TestResult::Failed };
        results.insert(test.clone(), result);
        if last.as_ref().is_none_or(Ran::succeeded) {
            last = Some(ran);
        }
    }
    Ok(last.map(|ran| (results, ran)))
}

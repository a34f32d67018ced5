//! The tests of workspaces, one result per test.
//!
//! Cargo builds the test programs and "runs" each through our recorder, which only stores the directory and
//! environment that cargo would have used. Then each test runs exactly so, in its own sandbox on top of the build.

use bailiwick_verify::JobOutcome;
use bailiwick_verify::job::{CommandResult, CrateTests, Crates, TestProgram};

use super::bench::{Bench, Environment, Program};
use super::job_error::JobError;
use super::messages::{self, Artifact, CargoMessage, Metadata, Package, Target};
use super::test_program::{self, TestInvocation};
use super::work::Work;
use super::workspaces::{self, Chosen, Found};
use crate::process::Capture;

/// The runner that replaces a test program while cargo builds.
const RECORDER: &str = r#"# Keeps how cargo runs a test program: $1 is the program.
record="$BAILIWICK_RECORDS/${1##*/}"
pwd -P > "$record.directory" && cat /proc/self/environ > "$record.environment"
"#;

pub(super) fn run(
    bench: &Bench,
    of: &Crates,
    tell: &mut dyn FnMut(&str),
) -> Result<JobOutcome, JobError> {
    let job = bench.begin_build()?;
    let chosen = match workspaces::choose(bench, &job, of)? {
        Found::Workspaces(chosen) => chosen,
        Found::Failed(ran) => {
            return Ok(JobOutcome::Tests { build: vec![ran], crates: Vec::new() });
        }
    };
    let mut builds = Vec::new();
    let mut crates = Vec::new();
    for one in chosen {
        let (build, built) = build(bench, &job, &one, tell)?;
        let failed = !build.succeeded();
        builds.push(build);
        if failed {
            return Ok(JobOutcome::Tests { build: builds, crates: Vec::new() });
        }
        crates.extend(run_all(bench, &job, &one, &built, tell)?);
    }
    Ok(JobOutcome::Tests { build: builds, crates })
}

/// Built test programs and their packages.
#[derive(Default)]
struct Built {
    packages: Vec<Package>,
    programs: Vec<(Artifact, TestInvocation)>,
}

fn build(
    bench: &Bench,
    job: &Work,
    chosen: &Chosen,
    tell: &mut dyn FnMut(&str),
) -> Result<(CommandResult, Built), JobError> {
    let directory = bench.places.tree.join(&chosen.root);
    let ask = ["metadata", "--no-deps", "--format-version", "1"].map(str::to_owned);
    let (line, argv) = chosen.command(bench.tree(), ask.into());
    let environment = Environment::With(&[]);
    let capture = Capture::Separate;
    let (ran, output) =
        bench.run(job, &Program { line, argv, directory: &directory, environment, capture })?;
    if !ran.succeeded() {
        return Ok((ran, Built::default()));
    }
    let metadata: Metadata = serde_json::from_slice(&output)
        .map_err(|error| format!("cargo's metadata cannot be read: {error}"))?;

    let mut arguments = vec!["test".to_owned()];
    arguments.extend(chosen.selection());
    arguments.push("--tests".to_owned());
    let (line, mut argv) = chosen.command(bench.tree(), arguments);
    let line = format!("{line} --no-run");
    tell(&line);
    argv.push("--message-format=json-render-diagnostics".to_owned());
    let (ran, output) = bench.run(
        job,
        &Program {
            line,
            argv,
            directory: &directory,
            environment: Environment::With(&recorder(bench, job)?),
            capture,
        },
    )?;
    if !ran.succeeded() {
        return Ok((ran, Built::default()));
    }
    let artifacts = messages::parse(&output).into_iter().filter_map(|message| match message {
        CargoMessage::Artifact(artifact) if artifact.profile.test => Some(artifact),
        CargoMessage::Artifact(_) | CargoMessage::Diagnostic { .. } | CargoMessage::Other => None,
    });
    let programs = artifacts
        .filter_map(|artifact| {
            let program = artifact.executable.clone()?;
            let recorded = TestInvocation::read(&job.results(), &program).map_err(|error| {
                let name = &artifact.target.name;
                JobError::CouldNotRun(format!("cargo did not run {name} by itself: {error}"))
            });
            Some(recorded.map(|recorded| (artifact, recorded)))
        })
        .collect::<Result<Vec<_>, JobError>>()?;
    let members = metadata.workspace_members;
    let chosen = |package: &Package| {
        members.contains(&package.id)
            && (chosen.crates.is_empty() || chosen.crates.contains(&package.name))
    };
    let packages = metadata.packages.into_iter().filter(chosen).collect();
    Ok((ran, Built { packages, programs }))
}

/// Writes the recorder; returns the variables that make cargo use it.
fn recorder(bench: &Bench, job: &Work) -> Result<Vec<(String, String)>, JobError> {
    let failed = |error: std::io::Error| format!("the tests cannot be recorded: {error}");
    std::fs::write(bench.slot.tools().join("record"), RECORDER).map_err(failed)?;
    job.clear_results().map_err(failed)?;
    let recorder = format!("/bin/sh {}", bench.places.tools.join("record").display());
    let records = bench.places.results.display().to_string();
    let architecture = std::env::consts::ARCH.to_uppercase();
    let runners = ["GNU", "MUSL"].map(|library| {
        (format!("CARGO_TARGET_{architecture}_UNKNOWN_LINUX_{library}_RUNNER"), recorder.clone())
    });
    Ok(runners.into_iter().chain([(TestInvocation::VARIABLE.to_owned(), records)]).collect())
}

fn run_all(
    bench: &Bench,
    job: &Work,
    chosen: &Chosen,
    built: &Built,
    tell: &mut dyn FnMut(&str),
) -> Result<Vec<CrateTests>, JobError> {
    built
        .packages
        .iter()
        .map(|package| {
            let own = built.programs.iter().filter(|(one, _)| one.package_id == package.id);
            let programs = own
                .map(|(artifact, recorded)| run_one(bench, job, package, artifact, recorded, tell))
                .collect::<Result<Vec<_>, _>>()?;
            let documentation = package
                .targets
                .iter()
                .any(|target| target.doctest)
                .then(|| document(bench, job, chosen, package, tell))
                .transpose()?;
            Ok(CrateTests { name: package.name.clone(), programs, documentation })
        })
        .collect()
}

fn run_one(
    bench: &Bench,
    job: &Work,
    package: &Package,
    artifact: &Artifact,
    recorded: &TestInvocation,
    tell: &mut dyn FnMut(&str),
) -> Result<TestProgram, JobError> {
    let (target, option) = describe(&artifact.target);
    let line = format!("cargo test -p {} {option}", package.name);
    tell(&line);
    let own = has_own_harness(bench, package, &artifact.target);
    let (harness, run) = test_program::run(bench, job, recorded, &line, own)?;
    Ok(TestProgram { target, harness, run })
}

fn document(
    bench: &Bench,
    job: &Work,
    chosen: &Chosen,
    package: &Package,
    tell: &mut dyn FnMut(&str),
) -> Result<CommandResult, JobError> {
    let arguments = ["test", "--doc", "-p", &package.name].map(str::to_owned);
    let (line, argv) = chosen.command(bench.tree(), arguments.into());
    tell(&line);
    let (ran, _) = bench.alone(
        job,
        &Program {
            line,
            argv,
            directory: &bench.places.tree.join(&chosen.root),
            environment: Environment::With(&[]),
            capture: Capture::Merged,
        },
    )?;
    Ok(ran)
}

/// The name of a target and the option that selects it.
fn describe(target: &Target) -> (String, String) {
    let name = &target.name;
    match target.kind.first().map(String::as_str) {
        Some("test") => (format!("tests/{name}"), format!("--test {name}")),
        Some("bin") => (format!("bins/{name}"), format!("--bin {name}")),
        Some("example") => (format!("examples/{name}"), format!("--example {name}")),
        Some("bench") => (format!("benches/{name}"), format!("--bench {name}")),
        _ => ("lib".to_owned(), "--lib".to_owned()),
    }
}

/// Whether a target has its own harness according to the manifest; cargo does not report it.
fn has_own_harness(bench: &Bench, package: &Package, target: &Target) -> bool {
    let Ok(path) = package.manifest_path.strip_prefix(&bench.places.tree) else { return false };
    let manifest = workspaces::read_manifest(bench.tree(), path).unwrap_or_default();
    let kind = target.kind.first().map_or("lib", String::as_str);
    let own =
        |table: &toml::Value| table.get("harness").and_then(toml::Value::as_bool) == Some(false);
    let named = |table: &&toml::Value| {
        table.get("name").and_then(toml::Value::as_str) == Some(target.name.as_str())
    };
    match kind {
        "test" | "bin" | "example" | "bench" => manifest
            .get(kind)
            .and_then(toml::Value::as_array)
            .is_some_and(|all| all.iter().filter(named).any(own)),
        _ => manifest.get("lib").is_some_and(own),
    }
}

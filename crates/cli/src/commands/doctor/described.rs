//! The agent programs that people describe themselves, in `adapters/NAME.toml`.
//!
//! None of them is started here: a repository could describe any program, and it would be run outside of
//! a sandbox.

use std::path::{Path, PathBuf};

use bailiwick_engine::context::Context;
use bailiwick_engine::sources::REPOSITORY_KIT;
use bailiwick_model::Source;
use bailiwick_runner::agents::adapter::Adapter as _;
use bailiwick_runner::agents::{self, Manifest};
use serde::Serialize;

use super::{Check, CheckState};

/// The state of a CLI that an adapter file describes.
#[derive(Debug, Serialize)]
pub(super) struct DescribedProgram {
    name: String,
    /// The file that describes it.
    file: PathBuf,
    /// The program; nothing if the file cannot be used.
    program: Option<String>,
    /// The path of the program; none if it is not installed.
    path: Option<PathBuf>,
    /// The error in the file.
    fault: Option<String>,
}

/// Those of the repository's working copy, then those of the user, by name.
pub(super) fn look(context: &Context) -> Vec<DescribedProgram> {
    let repository = context.repository();
    let repository = repository.map(|found| found.root().join(REPOSITORY_KIT).join("adapters"));
    let places = repository.into_iter().chain([context.user_kit.join("adapters")]);
    places.flat_map(|place| files(&place)).map(read).collect()
}

/// The sorted files in a directory; none if it does not exist.
fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "toml"));
    files.sort();
    files
}

fn read(file: PathBuf) -> DescribedProgram {
    let stem = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let shown = file.display().to_string();
    let parsed = std::fs::read_to_string(&file)
        .map_err(|error| format!("it cannot be read: {error}"))
        .and_then(|text| {
            Manifest::parse(&Source::new(shown, text)).map_err(|problem| problem.message)
        });
    match parsed {
        Ok(manifest) => {
            let search = std::env::var_os("PATH").unwrap_or_default();
            let path = agents::on_path(&search, manifest.program());
            let program = Some(manifest.program().to_owned());
            let name = manifest.name().to_owned();
            DescribedProgram { name, file, program, path, fault: None }
        }
        Err(fault) => {
            DescribedProgram { name: stem, file, program: None, path: None, fault: Some(fault) }
        }
    }
}

/// The printed checks.
pub(super) fn checks(described: &[DescribedProgram]) -> Vec<Check> {
    described.iter().map(check).collect()
}

fn check(one: &DescribedProgram) -> Check {
    let file = format!("described in {}", one.file.display());
    let program = one.program.as_deref().unwrap_or_default();
    let (standing, found) = match (&one.fault, &one.path) {
        (Some(fault), _) => (CheckState::Note, format!("cannot be used: {fault}")),
        (None, None) => (CheckState::Note, format!("`{program}` is not installed")),
        (None, Some(path)) => {
            let found = format!("{}, tried when a run begins", path.display());
            (CheckState::Good, found)
        }
    };
    Check::new(&one.name, standing, found).advice(&file)
}
